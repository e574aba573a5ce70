/* Row-major weights to the tile layout [N / 32][K / 32][32 n][32 k], padded with zeros. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "pool.h"
#include "api/tiles.h"

typedef struct {
    const float *weights;
    const int8_t *codes;
    int8_t *tiles;
    float *scales;
    int8_t *rows; /* one padded row of codes for each thread */
    int n, k, rotation;
    _Atomic int next;
} packing;

static void place_row(const int8_t *row, int8_t *strip, int at, int k_padded) {
    for (int k = 0; k < k_padded; k += ORK_TILE) memcpy(strip + (int64_t)k * ORK_TILE + at * ORK_TILE, row + k, ORK_TILE);
}

static void pack_strips(void *argument, int thread) {
    packing *work = argument;
    int k_padded = (work->k + ORK_TILE - 1) & -ORK_TILE, strips = (work->n + ORK_TILE - 1) / ORK_TILE;
    const ork_float_kernels *floats = ork_chosen_kernels()->floats;
    int8_t *row = work->rows + (int64_t)thread * k_padded;
    for (int strip; (strip = atomic_fetch_add(&work->next, 1)) < strips;) {
        int8_t *to = work->tiles + (int64_t)strip * ORK_TILE * k_padded;
        for (int i = 0; i < ORK_TILE; i++) {
            int64_t n = (int64_t)strip * ORK_TILE + i;
            if (n >= work->n) {
                memset(row, 0, (size_t)k_padded);
            } else if (work->weights) {
                work->scales[n] = floats->quantize(work->weights + n * work->k, work->k, work->rotation, row);
            } else {
                memcpy(row, work->codes + n * work->k, (size_t)work->k);
                memset(row + work->k, 0, (size_t)(k_padded - work->k));
            }
            place_row(row, to, i, k_padded);
        }
    }
}

static int pack(packing *work, int threads) {
    if (threads < 1) threads = 1;
    if (threads > ORK_MAX_THREADS) threads = ORK_MAX_THREADS;
    work->rows = malloc((size_t)threads * (((size_t)work->k + ORK_TILE - 1) & -(size_t)ORK_TILE) + 1);
    if (work->rows == NULL) return -1;
    ork_parallel(pack_strips, work, threads);
    free(work->rows);
    return 0;
}

int ork_pack_tiles(const int8_t *codes, int32_t n, int32_t k, int8_t *tiles, int32_t threads) {
    packing work = {.codes = codes, .tiles = tiles, .n = n, .k = k};
    return pack(&work, threads);
}

int ork_quantize_weights(const float *weights, int32_t n, int32_t k, int32_t rotation, int8_t *tiles, float *scales,
                         int32_t threads) {
    packing work = {.weights = weights, .tiles = tiles, .scales = scales, .n = n, .k = k, .rotation = rotation};
    return pack(&work, threads);
}

typedef struct {
    const uint8_t *nibbles;
    const int8_t *multipliers; /* one for each group of a row, or NULL */
    const int8_t *levels;      /* 16 */
    int8_t *tiles;
    int n, k, group;
    _Atomic int next;
} inflating;

/* One row of codes as int8; k is a multiple of 32, so that groups and tiles end at whole bytes. */
static void inflate_row(const inflating *work, int64_t n, int8_t *row) {
    const uint8_t *from = work->nibbles + n * (work->k / 2);
    int8_t pairs[16];
    memcpy(pairs, work->levels, 16);
    for (int first = 0; first < work->k; first += work->group) {
        if (work->multipliers) {
            int m = work->multipliers[n * (work->k / work->group) + first / work->group];
            /* An arithmetic shift: (level * m) / 128 to the nearest, halves up. */
            for (int i = 0; i < 16; i++) pairs[i] = (int8_t)((work->levels[i] * m + 64) >> 7);
        }
        for (int k = first; k < first + work->group; k += 2) {
            uint8_t both = from[k / 2];
            row[k] = pairs[both & 15];
            row[k + 1] = pairs[both >> 4];
        }
    }
}

static void inflate_strips(void *argument, int thread) {
    inflating *work = argument;
    int strips = (work->n + ORK_TILE - 1) / ORK_TILE;
    int8_t *room = work->tiles + (int64_t)strips * ORK_TILE * work->k + (int64_t)thread * work->k;
    for (int strip; (strip = atomic_fetch_add(&work->next, 1)) < strips;) {
        int8_t *to = work->tiles + (int64_t)strip * ORK_TILE * work->k;
        for (int i = 0; i < ORK_TILE; i++) {
            int64_t n = (int64_t)strip * ORK_TILE + i;
            if (n < work->n) {
                inflate_row(work, n, room);
            } else {
                memset(room, 0, (size_t)work->k);
            }
            place_row(room, to, i, work->k);
        }
    }
}

void ork_inflate_tiles(const uint8_t *nibbles, const int8_t *multipliers, const int8_t *levels, int32_t n, int32_t k,
                       int32_t group, int8_t *tiles, int32_t threads) {
    inflating work = {.nibbles = nibbles, .multipliers = multipliers, .levels = levels, .tiles = tiles, .n = n, .k = k,
                      .group = group};
    ork_parallel(inflate_strips, &work, threads);
}

void ork_rotate_rows(const float *input, float *output, int32_t rows, int32_t width, int32_t block) {
    const ork_float_kernels *floats = ork_chosen_kernels()->floats;
    for (int64_t row = 0; row < rows; row++) floats->rotate(input + row * width, output + row * width, width, block);
}
