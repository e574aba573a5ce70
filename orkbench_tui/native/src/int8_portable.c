#include "int8_kernels.h"

void ork_strip_portable(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows, int32_t *sums) {
    for (int row = 0; row < rows; row++) {
        const int8_t *a = codes + (int64_t)row * code_stride;
        int32_t *out = sums + row * ORK_TILE;
        for (int n = 0; n < ORK_TILE; n++) out[n] = 0;
        for (int t = 0; t < k / ORK_TILE; t++) {
            const int8_t *tile = tiles + (int64_t)t * ORK_TILE_BYTES;
            for (int n = 0; n < ORK_TILE; n++) {
                int32_t sum = 0;
                for (int i = 0; i < ORK_TILE; i++) sum += (int32_t)tile[n * ORK_TILE + i] * a[t * ORK_TILE + i];
                out[n] += sum;
            }
        }
    }
}
