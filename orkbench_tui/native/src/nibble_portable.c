#include <stddef.h>

#include "nibble_kernels.h"

/* What each nibble is worth in a group with this multiplier. */
static void fill_table(const int8_t *levels, int multiplier, int8_t *table) {
    /* An arithmetic shift: to the nearest, halves up. */
    for (int i = 0; i < 16; i++) table[i] = (int8_t)((levels[i] * multiplier + 64) >> 7);
}

static void add_tile(const uint8_t *from, const int8_t *table, const int8_t *codes, int code_stride, int rows,
                     int32_t *sums) {
    int8_t weights[ORK_TILE];
    for (int i = 0; i < ORK_TILE; i += 2) {
        uint8_t both = from[i / 2];
        weights[i] = table[both & 15];
        weights[i + 1] = table[both >> 4];
    }
    for (int row = 0; row < rows; row++) {
        const int8_t *a = codes + (int64_t)row * code_stride;
        int32_t sum = 0;
        for (int i = 0; i < ORK_TILE; i++) sum += (int32_t)weights[i] * a[i];
        sums[row * ORK_TILE] += sum;
    }
}

void ork_nibbles_portable(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums) {
    for (int row = 0; row < rows; row++)
        for (int n = 0; n < ORK_TILE; n++) sums[row * ORK_TILE + n] = 0;
    for (int n = 0; n < strip->outputs; n++) {
        const uint8_t *from = ork_nibble_row(strip, n);
        const int8_t *multiplier = strip->multipliers ? ork_nibble_multipliers(strip, n) : NULL;
        int8_t scaled[16];
        const int8_t *table = multiplier ? scaled : strip->levels;
        for (int first = 0; first < strip->k; first += strip->group) {
            if (multiplier) fill_table(strip->levels, *multiplier++, scaled);
            for (int k = first; k < first + strip->group; k += ORK_TILE)
                add_tile(from + k / 2, table, codes + k, code_stride, rows, sums + n);
        }
    }
}
