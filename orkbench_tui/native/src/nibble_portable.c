#include "nibble_kernels.h"

/* What each nibble is worth among the 32 values from k on. */
static void fill_table(const ork_nibble_strip *strip, int n, int k, int8_t *table) {
    for (int i = 0; i < 16; i++) {
        int level = strip->levels[i];
        /* An arithmetic shift: to the nearest, halves up. */
        table[i] = (int8_t)(strip->multipliers ? (level * ork_nibble_multiplier(strip, n, k) + 64) >> 7 : level);
    }
}

void ork_nibbles_portable(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums) {
    for (int row = 0; row < rows; row++)
        for (int n = 0; n < ORK_TILE; n++) sums[row * ORK_TILE + n] = 0;
    for (int n = 0; n < strip->outputs; n++) {
        const uint8_t *from = ork_nibble_row(strip, n);
        int8_t table[16], weights[ORK_TILE];
        for (int k = 0; k < strip->k; k += ORK_TILE) {
            if (k % strip->group == 0) fill_table(strip, n, k, table);
            for (int i = 0; i < ORK_TILE; i += 2) {
                uint8_t both = from[(k + i) / 2];
                weights[i] = table[both & 15];
                weights[i + 1] = table[both >> 4];
            }
            for (int row = 0; row < rows; row++) {
                const int8_t *a = codes + (int64_t)row * code_stride + k;
                int32_t sum = 0;
                for (int i = 0; i < ORK_TILE; i++) sum += (int32_t)weights[i] * a[i];
                sums[row * ORK_TILE + n] += sum;
            }
        }
    }
}
