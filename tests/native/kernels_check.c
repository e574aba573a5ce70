/* Every kernel this processor has against the portable one, and a digest of the floating ones.
 *
 * With an argument one weight is changed between the two, which must be seen.
 * Prints `kernels <names> failures <count> digest <hex>`: the digest is the same on every processor. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "api/npu_conv.h"
#include "dispatch.h"
#include "lanes.h"

enum { K_MAX = 2048, ROWS_MAX = 9, WIDTH = 1000, PIXELS = 70, KERNELS = 96 };

static int8_t tiles[KERNELS * K_MAX], codes[PIXELS * K_MAX];
static int32_t seen[ROWS_MAX * ORK_TILE], right[ROWS_MAX * ORK_TILE];
static uint8_t out[2][PIXELS * KERNELS * 4];
static uint32_t state = 1;
static uint64_t digest = 1469598103934665603u;
static int failures, spoil;

static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static void mix(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        digest = (digest ^ bytes[i]) * 1099511628211u;
}

static void expect(int truth, const char *what, int a, int b)
{
    if (!truth) {
        printf("wrong: %s %d %d\n", what, a, b);
        failures++;
    }
}

static void fill(int extremes)
{
    for (size_t i = 0; i < sizeof tiles; i++)
        tiles[i] = (int8_t)(extremes ? (draw() & 1 ? -128 : 127) : (int)(draw() % 256) - 128);
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (int8_t)(extremes ? (draw() & 1 ? -127 : 127) : (int)(draw() % 255) - 127);
}

static void strips(ork_strip_product product, const char *name)
{
    static const int sizes[] = {32, 64, 96, 576, K_MAX};
    for (int extremes = 0; extremes < 2; extremes++) {
        fill(extremes);
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int rows = 1; rows <= ROWS_MAX; rows++) {
                ork_strip_portable(tiles, sizes[s], codes, K_MAX, rows, right);
                memset(seen, 0x55, sizeof seen);
                product(tiles, sizes[s], codes, K_MAX, rows, seen);
                expect(!memcmp(seen, right, (size_t)rows * ORK_TILE * 4), name, sizes[s], rows);
            }
    }
}

/* Tiles and codes serve as nibbles and multipliers of 70 weights each way: whatever they hold is valid. */
static void nibbles(ork_nibble_product product, const char *name)
{
    static const int sizes[] = {32, 96, 576, K_MAX};
    static const int8_t levels[16] = {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127};
    fill(0);
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int rows = 1; rows <= ROWS_MAX; rows++)
            for (int grouped = 0; grouped < 2; grouped++) {
                ork_nibble_strip strip = {
                    .nibbles = (const uint8_t *)tiles, .multipliers = grouped ? codes + 5 * K_MAX : NULL,
                    .levels = levels, .k = sizes[s], .group = grouped ? 32 : sizes[s], .outputs = 32 - rows % 5,
                };
                ork_nibbles_portable(&strip, codes, K_MAX, rows, right);
                memset(seen, 0x55, sizeof seen);
                product(&strip, codes, K_MAX, rows, seen);
                for (int row = 0; row < rows; row++)
                    expect(!memcmp(seen + row * ORK_TILE, right + row * ORK_TILE, (size_t)strip.outputs * 4), name,
                           sizes[s], rows);
            }
}

static void convolutions(void)
{
    for (int bytes = 1; bytes <= 4; bytes *= 2)
        for (int pixels = 1; pixels <= PIXELS; pixels += 23) {
            fill(bytes == 2);
            for (int level = 0; level < 2; level++) {
                ork_npu_conv op = {
                    .features = (const uint8_t *)codes, .weights = tiles, .output = out[level],
                    .width = pixels, .height = 1, .channels = 512, .kernels = KERNELS, .surface_step = pixels,
                    .line_stride = 0, .lines_per_group = 1, .write_width = pixels, .write_height = 1,
                    .write_pitch = pixels, .unit_stride = 16 * pixels, .group_stride = 32 * bytes * pixels,
                    .output_bytes = bytes, .scale = bytes == 4 ? 1 : 77, .shift = bytes == 4 ? 0 : 18, .offset = 3,
                };
                memset(out[level], 0, sizeof out[level]);
                tiles[100] = (int8_t)(tiles[100] ^ (level && spoil));
                expect(ork_npu_conv_int8(&op, level ? -1 : 0) == 0, "convolution", bytes, pixels);
            }
            expect(!memcmp(out[0], out[1], sizeof out[0]), "convolution", bytes, pixels);
        }
}

static void floats(const ork_float_kernels *kernels)
{
    static float input[1024], weight[1024], output[1024];
    static int8_t narrow[1024];
    for (int i = 0; i < 1024; i++) {
        input[i] = (float)((int)(draw() % 6001) - 3000) / 1024;
        weight[i] = (float)((int)(draw() % 6001) - 3000) / 1024;
    }
    kernels->norm(input, weight, output, WIDTH, 1e-5f, 0);
    mix(output, sizeof output);
    kernels->rotate(input, output, 1024, 128);
    mix(output, sizeof output);
    const float scale = kernels->quantize(input, WIDTH, 0, narrow);
    mix(narrow, sizeof narrow);
    mix(&scale, sizeof scale);
    for (int function = 0; function < 2; function++) {
        kernels->gate(input, weight, output, WIDTH, function);
        mix(output, sizeof output);
    }
    kernels->add(input, weight, output, WIDTH, 1);
    mix(output, sizeof output);
    memcpy(output, input, sizeof output);
    kernels->cap(output, WIDTH, 2.0f);
    mix(output, sizeof output);
    input[17] = NAN;
    expect(isnan(kernels->quantize(input, WIDTH, 0, narrow)), "a NaN in a row", 17, 0);
}

/* A convolution and a scan of two heads over some chunks of rows, in two parts. */
static void scans(const ork_float_kernels *kernels)
{
    enum { HEADS = 2, DIM = 24, SIZE = 13, TAPS = 4, SPAN = 29, CHUNK = 8, SLOTS = 5 };
    enum { INNER = HEADS * DIM, CHANNELS = INNER + 2 * SIZE, MIXED = INNER + CHANNELS + HEADS };
    static float mixed[SPAN * MIXED], weights[TAPS * CHANNELS], bias[CHANNELS], window[(TAPS - 1) * CHANNELS];
    static float convolved[SPAN * CHANNELS], held[HEADS * DIM * SIZE], output[SPAN * INNER];
    static float inputs[HEADS * CHUNK * DIM], decays[HEADS * (CHUNK + 1)], writes[SLOTS * SIZE * CHUNK];
    static float products[SPAN * CHUNK];
    static const float time_bias[HEADS] = {-2.0f, 0.5f}, a[HEADS] = {-0.25f, -1.5f}, d[HEADS] = {1.25f, 0.75f};
    for (int i = 0; i < SPAN * MIXED; i++) mixed[i] = (float)((int)(draw() % 6001) - 3000) / 1024;
    for (int i = 0; i < TAPS * CHANNELS; i++) weights[i] = (float)((int)(draw() % 2001) - 1000) / 1024;
    for (int i = 0; i < CHANNELS; i++) bias[i] = (float)((int)(draw() % 2001) - 1000) / 4096;
    for (int first = 0, rows = 11; first < SPAN; first += rows, rows = SPAN - first) {
        const ork_convolve_step convolve = {mixed + first * MIXED + INNER, weights, bias, window,
                                            convolved, CHANNELS, TAPS, MIXED};
        for (int channel = 0; channel < CHANNELS; channel += 8)
            kernels->convolve(&convolve, channel, CHANNELS - channel < 8 ? CHANNELS - channel : 8, rows, first);
        mix(convolved, sizeof(float) * (size_t)(rows * CHANNELS));
        const ork_scan_step scan = {mixed + first * MIXED, convolved, time_bias, a, d, held, inputs, decays, writes,
                                    products, output + first * INNER, NULL, HEADS, DIM, SIZE, 1, CHUNK, SLOTS, MIXED};
        kernels->scan_products(&scan, 0, rows, first);
        for (int head = 0; head < HEADS; head++) kernels->scan(&scan, head, rows, first);
    }
    mix(window, sizeof window);
    mix(held, sizeof held);
    mix(output, sizeof output);
}

static void fused_of(const float *a, const float *b, const float *c)
{
    float found[8];
    eight_store(found, eight_fma(eight_load(a), eight_load(b), eight_load(c)));
    for (int i = 0; i < 8; i++) {
        float exact = fmaf(a[i], b[i], c[i]);
        expect(memcmp(&found[i], &exact, 4) == 0 || (isnan(found[i]) && isnan(exact)), "a fused multiply-add", i, 0);
    }
}

/* Multiply-adds are rounded once, also where rounding to double first would land halfway between two floats. */
static void fused(void)
{
    const float up = 0x1p-12f * (1.0f + 0x1p-15f), down = 0x1p-12f * (1.0f - 0x1p-15f), odd = 1.0f + 0x1p-23f;
    float a[8] = {up, up, up, 3e38f, 0x1p-70f, -0.0f, INFINITY, up};
    float b[8] = {down, -down, down, 3e38f, 0x1p-70f, 2.0f, 0.0f, down};
    float c[8] = {odd, odd, -odd, -3e38f, 0x1p-149f, -0.0f, 1.0f, NAN};
    fused_of(a, b, c);
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < 8; i++) {
            a[i] = ldexpf((float)((int)(draw() % 16777216) - 8388608), (int)(draw() % 20) - 30);
            b[i] = ldexpf((float)((int)(draw() % 16777216) - 8388608), (int)(draw() % 20) - 30);
            c[i] = ldexpf((float)((int)(draw() % 16777216) - 8388608), (int)(draw() % 60) - 50);
        }
        fused_of(a, b, c);
    }
}

static float half_value(uint16_t half)
{
    int exponent = (half >> 10) & 31, fraction = half & 1023;
    float value = ldexpf((float)(exponent ? fraction | 1024 : fraction), (exponent ? exponent : 1) - 25);
    return half & 0x8000 ? -value : value;
}

/* result [rows][n] of a [rows][k] by weight tiles [n / 16][k / 32][16][32]. */
static void multiply_halves(const uint16_t *a, const uint16_t *tiles, float *result, int rows, int k, int n)
{
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < n; column++) {
            float sum = 0.0f;
            for (int i = 0; i < k; i++)
                sum += half_value(a[row * k + i]) *
                       half_value(tiles[column / 16 * 16 * k + i / 32 * 512 + column % 16 * 32 + i % 32]);
            result[row * n + column] = sum;
        }
}

/* A scan of two heads whose wide products are taken from halves, in two parts that end inside chunks. */
static void halved_scans(const ork_float_kernels *kernels)
{
    enum { HEADS = 2, DIM = 16, SIZE = 32, SPAN = 75, CHUNK = 32, SLOTS = 4, INNER = HEADS * DIM };
    enum { TOLD = INNER + 2 * SIZE, MIXED = INNER + HEADS };
    static float mixed[SPAN * MIXED], told[SPAN * TOLD], held[INNER * SIZE], output[SPAN * INNER];
    static float inputs[INNER * CHUNK], decays[HEADS * (CHUNK + 1)], writes[SLOTS * SIZE * CHUNK];
    static float products[SPAN * CHUNK], reads[SLOTS][CHUNK * INNER], adds[SLOTS][SIZE * INNER];
    static uint16_t halves[4][SLOTS][CHUNK * SIZE];
    static float scales[SPAN], chunks[SLOTS], values[3][SLOTS * HEADS], before[SPAN * HEADS];
    static const float time_bias[HEADS] = {-2.0f, 0.5f}, a[HEADS] = {-0.25f, -1.5f}, d[HEADS] = {1.25f, 0.75f};
    uint16_t *tables[4][SLOTS];
    const float *results[2][SLOTS];
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int kind = 0; kind < 4; kind++) tables[kind][slot] = halves[kind][slot];
        results[0][slot] = reads[slot], results[1][slot] = adds[slot];
    }
    const ork_scan_halves shared = {tables[0], tables[1], results[0], tables[2], tables[3], results[1],
                                    scales,    chunks,    values[0],  values[1], before,    values[2]};
    for (int i = 0; i < SPAN * MIXED; i++) mixed[i] = (float)((int)(draw() % 6001) - 3000) / 1024;
    for (int i = 0; i < SPAN * TOLD; i++) told[i] = (float)((int)(draw() % 6001) - 3000) / 1024;
    for (int first = 0, rows = 40; first < SPAN; first += rows, rows = SPAN - first) {
        const ork_scan_step scan = {mixed + first * MIXED, told + first * TOLD, time_bias, a, d, held, inputs, decays,
                                    writes, products, output + first * INNER, &shared, HEADS, DIM, SIZE, 1, CHUNK,
                                    SLOTS, MIXED};
        kernels->scan_products(&scan, 0, rows, first);
        kernels->scan_operands(&scan, 0, rows, first);
        for (int head = 0; head < HEADS; head++) kernels->scan_inside(&scan, head, rows, first);
        for (int slot = 0; slot < SLOTS; slot++)
            multiply_halves(halves[2][slot], halves[3][slot], adds[slot], SIZE, CHUNK, INNER);
        for (int head = 0; head < HEADS; head++) kernels->scan_carry(&scan, head, rows, first);
        for (int slot = 0; slot < SLOTS; slot++)
            multiply_halves(halves[0][slot], halves[1][slot], reads[slot], CHUNK, SIZE, INNER);
        for (int head = 0; head < HEADS; head++) kernels->scan_finish(&scan, head, rows, first);
    }
    mix(halves, sizeof halves);
    mix(held, sizeof held);
    mix(output, sizeof output);
}

int main(int count, char **words)
{
    (void)words;
    spoil = count > 1;
    const ork_kernels *chosen = ork_chosen_kernels();
    printf("kernels %s", chosen->name);
    strips(chosen->strip, "chosen strip");
    nibbles(chosen->nibbles, "chosen nibbles");
#if defined(__aarch64__)
    strips(ork_strip_neon, "neon strip");
    nibbles(ork_nibbles_neon, "neon nibbles");
    if (getauxval(AT_HWCAP) & (1UL << 20)) {
        strips(ork_strip_dotprod, "dotprod strip");
        nibbles(ork_nibbles_dotprod, "dotprod nibbles");
    }
#endif
    convolutions();
    fused();
    state = 7;
    floats(&ork_float_portable);
    scans(&ork_float_portable);
    halved_scans(&ork_float_portable);
    printf(" failures %d digest %016llx\n", failures, (unsigned long long)digest);
    return failures != 0;
}
