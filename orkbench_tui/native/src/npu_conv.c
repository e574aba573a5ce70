/* The simulated convolution core: int8 features x int8 weight tiles, exact sums, written through the
   NPU's own address rules. One thread per call; the caller runs one call per simulated core.

   Sums are kept in 32 bits and wrap modulo 2^32 while they are built, which is exact whenever the
   final value fits an int32: always for K <= 131071. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/npu_conv.h"

#define GROUP 32 /* kernels per group */
#define TILE 32  /* channels per weight tile */
#define ATOM 16

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* One kernel group for `rows` pixels: sums[r][n] = sum over k of pixels[r][k] * weight[n][k]. */
typedef void (*group_kernel)(const int8_t *pixels, int64_t channels, int64_t rows, const void *slab, int32_t *sums);
/* Rearranges a group's tiles once, so that the kernel can stream them for every pixel. */
typedef void (*slab_builder)(const int8_t *tiles, int64_t channels, void *slab);

/* ---- portable ------------------------------------------------------------------------------ */

static void kernel_plain(const int8_t *pixels, int64_t channels, int64_t rows, const void *slab, int32_t *sums)
{
    const int8_t *tiles = slab;
    for (int64_t r = 0; r < rows; r++) {
        const int8_t *pixel = pixels + r * channels;
        int32_t *out = sums + r * GROUP;
        memset(out, 0, GROUP * sizeof *out);
        for (int64_t t = 0; t < channels / TILE; t++)
            for (int n = 0; n < GROUP; n++) {
                const int8_t *w = tiles + t * GROUP * TILE + n * TILE;
                int32_t sum = 0;
                for (int k = 0; k < TILE; k++)
                    sum += pixel[t * TILE + k] * w[k];
                out[n] += sum;
            }
    }
}

/* ---- NEON ---------------------------------------------------------------------------------- */

#if defined(__aarch64__)
static void kernel_neon(const int8_t *pixels, int64_t channels, int64_t rows, const void *slab, int32_t *sums)
{
    const int8_t *tiles = slab;
    for (int64_t r = 0; r < rows; r++) {
        const int8_t *pixel = pixels + r * channels;
        for (int n = 0; n < GROUP; n++) {
            int32x4_t sum = vdupq_n_s32(0);
            for (int64_t t = 0; t < channels / TILE; t++) {
                const int8_t *w = tiles + t * GROUP * TILE + n * TILE;
                const int8x16_t a0 = vld1q_s8(pixel + t * TILE), a1 = vld1q_s8(pixel + t * TILE + 16);
                const int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16);
                sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(a0), vget_low_s8(w0)));
                sum = vpadalq_s16(sum, vmull_high_s8(a0, w0));
                sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(a1), vget_low_s8(w1)));
                sum = vpadalq_s16(sum, vmull_high_s8(a1, w1));
            }
            sums[r * GROUP + n] = vaddvq_s32(sum);
        }
    }
}
#endif

/* ---- x86 ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Slab of int16 pairs: [K/2][32 n][2 k]. */
__attribute__((target("avx2"))) static void build_avx2(const int8_t *tiles, int64_t channels, void *slab)
{
    int16_t *out = slab;
    for (int64_t t = 0; t < channels / TILE; t++)
        for (int n = 0; n < GROUP; n++) {
            const int8_t *w = tiles + t * GROUP * TILE + n * TILE;
            int32_t *column = (int32_t *)(out + t * TILE * GROUP) + n;
            for (int pair = 0; pair < TILE / 2; pair++) {
                const uint32_t low = (uint16_t)(int16_t)w[2 * pair], high = (uint16_t)(int16_t)w[2 * pair + 1];
                column[pair * GROUP] = (int32_t)(low | high << 16);
            }
        }
}

#define AVX2_ROWS 3

__attribute__((target("avx2"))) static inline __attribute__((always_inline)) void
avx2_block(const int8_t *pixels, int64_t channels, const int16_t *slab, int32_t *sums, const int count)
{
    __m256i acc[AVX2_ROWS][4];
    for (int r = 0; r < count; r++)
        for (int j = 0; j < 4; j++)
            acc[r][j] = _mm256_setzero_si256();
    for (int64_t k = 0; k < channels; k += 2) {
        const __m256i *w = (const __m256i *)(slab + k * GROUP);
        __m256i wj[4];
        for (int j = 0; j < 4; j++)
            wj[j] = _mm256_loadu_si256(w + j);
        for (int r = 0; r < count; r++) {
            const int8_t *p = pixels + r * channels + k;
            const uint32_t pair = (uint32_t)(uint16_t)(int16_t)p[0] | (uint32_t)(uint16_t)(int16_t)p[1] << 16;
            const __m256i a = _mm256_set1_epi32((int32_t)pair);
            for (int j = 0; j < 4; j++)
                acc[r][j] = _mm256_add_epi32(acc[r][j], _mm256_madd_epi16(a, wj[j]));
        }
    }
    for (int r = 0; r < count; r++)
        for (int j = 0; j < 4; j++)
            _mm256_storeu_si256((__m256i *)(sums + r * GROUP) + j, acc[r][j]);
}

__attribute__((target("avx2"))) static void
kernel_avx2(const int8_t *pixels, int64_t channels, int64_t rows, const void *slab, int32_t *sums)
{
    int64_t r = 0;
    for (; r + 3 <= rows; r += 3)
        avx2_block(pixels + r * channels, channels, slab, sums + r * GROUP, 3);
    for (; r < rows; r++)
        avx2_block(pixels + r * channels, channels, slab, sums + r * GROUP, 1);
}

/* For so few pixels that rearranging the tiles would cost more than the sums. */
__attribute__((target("avx2"))) static void
kernel_avx2_few(const int8_t *pixels, int64_t channels, int64_t rows, const void *slab, int32_t *sums)
{
    const int8_t *tiles = slab;
    for (int64_t r = 0; r < rows; r++)
        for (int n0 = 0; n0 < GROUP; n0 += 8) {
            __m256i acc[8];
            for (int n = 0; n < 8; n++)
                acc[n] = _mm256_setzero_si256();
            for (int64_t t = 0; t < channels / TILE; t++) {
                const __m128i *p = (const __m128i *)(pixels + r * channels + t * TILE);
                const __m256i a0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(p)), a1 = _mm256_cvtepi8_epi16(_mm_loadu_si128(p + 1));
                for (int n = 0; n < 8; n++) {
                    const __m128i *w = (const __m128i *)(tiles + t * GROUP * TILE + (n0 + n) * TILE);
                    const __m256i low = _mm256_madd_epi16(a0, _mm256_cvtepi8_epi16(_mm_loadu_si128(w)));
                    const __m256i high = _mm256_madd_epi16(a1, _mm256_cvtepi8_epi16(_mm_loadu_si128(w + 1)));
                    acc[n] = _mm256_add_epi32(acc[n], _mm256_add_epi32(low, high));
                }
            }
            for (int n = 0; n < 8; n++) {
                int32_t lanes[8], sum = 0;
                _mm256_storeu_si256((__m256i *)lanes, acc[n]);
                for (int i = 0; i < 8; i++)
                    sum += lanes[i];
                sums[r * GROUP + n0 + n] = sum;
            }
        }
}

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

/* Slab of unsigned bytes w + 128: [K/4][32 n][4 k]. VPDPBUSD multiplies unsigned by signed, so the
   features stay as they are and 128 * sum(features) is taken off at the end. */
VNNI static void build_vnni(const int8_t *tiles, int64_t channels, void *slab)
{
    uint32_t *out = slab;
    for (int64_t t = 0; t < channels / TILE; t++)
        for (int n = 0; n < GROUP; n++) {
            uint32_t w[TILE / 4];
            memcpy(w, tiles + t * GROUP * TILE + n * TILE, TILE);
            for (int quad = 0; quad < TILE / 4; quad++)
                out[(t * TILE / 4 + quad) * GROUP + n] = w[quad] ^ 0x80808080u;
        }
}

VNNI static inline __attribute__((always_inline)) void
vnni_block(const int8_t *pixels, int64_t channels, const uint8_t *slab, int32_t *sums, const int count)
{
    __m512i acc[8][2];
    __m512i ones = _mm512_set1_epi8(1);
    for (int r = 0; r < count; r++) {
        int64_t k = 0;
        int32_t total = 0;
        __m512i part = _mm512_setzero_si512();
        for (; k + 64 <= channels; k += 64)
            part = _mm512_dpbusd_epi32(part, ones, _mm512_loadu_si512(pixels + r * channels + k));
        for (; k < channels; k++)
            total += pixels[r * channels + k];
        total += _mm512_reduce_add_epi32(part);
        acc[r][0] = acc[r][1] = _mm512_set1_epi32(-128 * total);
    }
    for (int64_t k = 0; k < channels; k += 4) {
        const __m512i w0 = _mm512_loadu_si512(slab + k * GROUP), w1 = _mm512_loadu_si512(slab + k * GROUP + 64);
        for (int r = 0; r < count; r++) {
            int32_t quad;
            memcpy(&quad, pixels + r * channels + k, 4);
            const __m512i a = _mm512_set1_epi32(quad);
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], w0, a);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], w1, a);
        }
    }
    for (int r = 0; r < count; r++) {
        _mm512_storeu_si512(sums + r * GROUP, acc[r][0]);
        _mm512_storeu_si512(sums + r * GROUP + 16, acc[r][1]);
    }
}

VNNI static void
kernel_vnni_few(const int8_t *pixels, int64_t channels, int64_t rows, const void *slab, int32_t *sums)
{
    const int8_t *tiles = slab;
    const __m512i flip = _mm512_set1_epi8((char)0x80), ones = _mm512_set1_epi8(1);
    for (int64_t r = 0; r < rows; r++) {
        __m512i acc[GROUP / 2], total = _mm512_setzero_si512();
        for (int pair = 0; pair < GROUP / 2; pair++)
            acc[pair] = _mm512_setzero_si512();
        for (int64_t t = 0; t < channels / TILE; t++) {
            const __m256i half = _mm256_loadu_si256((const __m256i *)(pixels + r * channels + t * TILE));
            const __m512i a = _mm512_broadcast_i64x4(half);
            total = _mm512_dpbusd_epi32(total, ones, a);
            for (int pair = 0; pair < GROUP / 2; pair++) {
                const __m512i w = _mm512_loadu_si512(tiles + t * GROUP * TILE + pair * 2 * TILE);
                acc[pair] = _mm512_dpbusd_epi32(acc[pair], _mm512_xor_si512(w, flip), a);
            }
        }
        for (int pair = 0; pair < GROUP / 2; pair++) {
            const __m512i fixed = _mm512_sub_epi32(acc[pair], _mm512_slli_epi32(total, 7));
            sums[r * GROUP + 2 * pair] = _mm512_mask_reduce_add_epi32(0x00FF, fixed);
            sums[r * GROUP + 2 * pair + 1] = _mm512_mask_reduce_add_epi32(0xFF00, fixed);
        }
    }
}

VNNI static void kernel_vnni(const int8_t *pixels, int64_t channels, int64_t rows, const void *slab, int32_t *sums)
{
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8)
        vnni_block(pixels + r * channels, channels, slab, sums + r * GROUP, 8);
    for (; r + 2 <= rows; r += 2)
        vnni_block(pixels + r * channels, channels, slab, sums + r * GROUP, 2);
    for (; r < rows; r++)
        vnni_block(pixels + r * channels, channels, slab, sums + r * GROUP, 1);
}
#endif

/* ---- output -------------------------------------------------------------------------------- */

static int64_t rounded_shift(__int128 value, int shift, int half_away)
{
    if (shift == 0)
        return (int64_t)value;
    const __int128 half = (__int128)1 << (shift - 1);
    if (half_away)
        return (int64_t)(value < 0 ? -((-value + half) >> shift) : (value + half) >> shift);
    return (int64_t)((value + half - 1 + ((value >> shift) & 1)) >> shift);
}

static int is_identity(const ork_npu_conv *op)
{
    return op->scale == 1 && op->shift == 0 && op->offset == 0;
}

static int64_t clamped(int64_t value, int64_t limit)
{
    return value > limit ? limit : value < -limit - 1 ? -limit - 1 : value;
}

static int64_t converted(const ork_npu_conv *op, int64_t sum)
{
    const int64_t before = op->add_first ? op->offset : 0, after = op->add_first ? 0 : op->offset;
    const __int128 product = (__int128)(sum + before) * op->scale;
    return rounded_shift(product, op->shift, op->half_away) + after;
}

static void write_rows(const ork_npu_conv *op, int64_t group, int64_t first, int64_t rows, const int32_t *sums)
{
    const int64_t pixels = op->width * op->height, slots = op->write_width * op->write_height;
    const int per_atom = ATOM / op->output_bytes, plain = op->output_bytes == 4 && is_identity(op);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t q = group * pixels + first + r, slot = q % slots;
        uint8_t *at = op->output + (q / slots) * op->group_stride +
                      ATOM * ((slot / op->write_width) * op->write_pitch + slot % op->write_width);
        for (int unit = 0; unit < GROUP / per_atom; unit++, at += op->unit_stride) {
            const int32_t *values = sums + r * GROUP + unit * per_atom;
            if (plain) {
                memcpy(at, values, ATOM);
                continue;
            }
            for (int i = 0; i < per_atom; i++) {
                const int64_t y = converted(op, values[i]);
                if (op->output_bytes == 4) {
                    const int32_t wide = (int32_t)clamped(y, INT32_MAX);
                    memcpy(at + 4 * i, &wide, 4);
                } else if (op->output_bytes == 2) {
                    const int16_t narrow = (int16_t)clamped(y, INT16_MAX);
                    memcpy(at + 2 * i, &narrow, 2);
                } else {
                    at[i] = (uint8_t)(int8_t)clamped(y, INT8_MAX);
                }
            }
        }
    }
}

static void gather(const ork_npu_conv *op, int8_t *pixels)
{
    const int64_t surfaces = op->channels / ATOM;
    for (int64_t h = 0; h < op->height; h++) {
        const int64_t line = (h / op->lines_per_group) * op->line_stride + (h % op->lines_per_group) * op->width;
        for (int64_t w = 0; w < op->width; w++) {
            int8_t *pixel = pixels + (h * op->width + w) * op->channels;
            for (int64_t s = 0; s < surfaces; s++)
                memcpy(pixel + s * ATOM, op->features + ATOM * (s * op->surface_step + line + w), ATOM);
        }
    }
}

/* ---- entry --------------------------------------------------------------------------------- */

int ork_npu_conv_level(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"))
        return 2;
    return __builtin_cpu_supports("avx2") ? 1 : 0;
#elif defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

#define FEW 6    /* pixels below which a group's tiles are not rearranged */
#define BLOCK 64 /* pixels per pass: sums stay in the first cache level */

int ork_npu_conv_int8(const ork_npu_conv *op, int level)
{
    const int best = ork_npu_conv_level();
    const int64_t pixels = op->width * op->height;
    slab_builder build = NULL; /* none: the kernel reads the tiles as they are */
    group_kernel kernel = kernel_plain;
    if (level < 0 || level > best)
        level = best;
#if defined(__x86_64__)
    const int few = pixels < FEW;
    if (level == 2) {
        build = few ? NULL : build_vnni;
        kernel = few ? kernel_vnni_few : kernel_vnni;
    } else if (level == 1) {
        build = few ? NULL : build_avx2;
        kernel = few ? kernel_avx2_few : kernel_avx2;
    }
#elif defined(__aarch64__)
    if (level >= 1)
        kernel = kernel_neon;
#endif
    int8_t *features = malloc((size_t)(pixels * op->channels));
    void *slab = malloc((size_t)(op->channels * GROUP * 2));
    int32_t *sums = malloc(BLOCK * GROUP * sizeof *sums);
    const int ready = features && slab && sums;
    if (ready) {
        gather(op, features);
        for (int64_t group = 0; group < op->kernels / GROUP; group++) {
            const int8_t *tiles = op->weights + group * GROUP * op->channels;
            if (build)
                build(tiles, op->channels, slab);
            for (int64_t first = 0; first < pixels; first += BLOCK) {
                const int64_t rows = pixels - first < BLOCK ? pixels - first : BLOCK;
                kernel(features + first * op->channels, op->channels, rows, build ? slab : tiles, sums);
                write_rows(op, group, first, rows, sums);
            }
        }
    }
    free(features);
    free(slab);
    free(sums);
    return ready ? 0 : -1;
}
