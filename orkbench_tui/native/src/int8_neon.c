/* Two paths for one processor family: sdot where HWCAP has it (Cortex-A76, A55), smull/smlal otherwise.
 * The second sums two products of at most 128 * 127 in 16 bits before it widens. */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "int8_kernels.h"

/* Sixteen outputs at a time: their accumulators fit the 32 registers, and the tile is still read in
 * order, 512 bytes a turn. */
#define OUTPUTS 16

#define STRIP(NAME, ATTRIBUTE, DOT)                                                                               \
    ATTRIBUTE static void NAME##_row(const int8_t *tiles, int k, const int8_t *codes, int32_t *sums) {           \
        for (int n = 0; n < ORK_TILE; n += OUTPUTS) {                                                             \
            int32x4_t partial[OUTPUTS];                                                                           \
            for (int i = 0; i < OUTPUTS; i++) partial[i] = vdupq_n_s32(0);                                        \
            for (int t = 0; t < k / ORK_TILE; t++) {                                                              \
                const int8_t *tile = tiles + (int64_t)t * ORK_TILE_BYTES + n * ORK_TILE;                          \
                int8x16_t low = vld1q_s8(codes + t * ORK_TILE), high = vld1q_s8(codes + t * ORK_TILE + 16);      \
                for (int i = 0; i < OUTPUTS; i++) {                                                               \
                    partial[i] = DOT(partial[i], vld1q_s8(tile + i * ORK_TILE), low);                             \
                    partial[i] = DOT(partial[i], vld1q_s8(tile + i * ORK_TILE + 16), high);                       \
                }                                                                                                 \
            }                                                                                                     \
            for (int i = 0; i < OUTPUTS; i += 4)                                                                  \
                vst1q_s32(sums + n + i, vpaddq_s32(vpaddq_s32(partial[i], partial[i + 1]),                        \
                                                   vpaddq_s32(partial[i + 2], partial[i + 3])));                  \
        }                                                                                                         \
    }                                                                                                             \
    ATTRIBUTE static void NAME##_rows(const int8_t *tiles, int k, const int8_t *codes, int code_stride,          \
                                      int32_t *sums) {                                                            \
        for (int n = 0; n < ORK_TILE; n += 4) {                                                                   \
            int32x4_t partial[4][4];                                                                              \
            for (int r = 0; r < 4; r++)                                                                           \
                for (int i = 0; i < 4; i++) partial[r][i] = vdupq_n_s32(0);                                       \
            for (int t = 0; t < k / ORK_TILE; t++) {                                                              \
                const int8_t *tile = tiles + (int64_t)t * ORK_TILE_BYTES + n * ORK_TILE;                          \
                for (int part = 0; part < ORK_TILE; part += 16) {                                                 \
                    int8x16_t w[4];                                                                               \
                    for (int i = 0; i < 4; i++) w[i] = vld1q_s8(tile + i * ORK_TILE + part);                      \
                    for (int r = 0; r < 4; r++) {                                                                 \
                        int8x16_t a = vld1q_s8(codes + (int64_t)r * code_stride + t * ORK_TILE + part);           \
                        for (int i = 0; i < 4; i++) partial[r][i] = DOT(partial[r][i], w[i], a);                  \
                    }                                                                                             \
                }                                                                                                 \
            }                                                                                                     \
            for (int r = 0; r < 4; r++)                                                                           \
                vst1q_s32(sums + r * ORK_TILE + n, vpaddq_s32(vpaddq_s32(partial[r][0], partial[r][1]),           \
                                                              vpaddq_s32(partial[r][2], partial[r][3])));         \
        }                                                                                                         \
    }                                                                                                             \
    ATTRIBUTE void NAME(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows,              \
                        int32_t *sums) {                                                                          \
        int row = 0;                                                                                              \
        for (; row + 4 <= rows; row += 4)                                                                         \
            NAME##_rows(tiles, k, codes + (int64_t)row * code_stride, code_stride, sums + row * ORK_TILE);        \
        for (; row < rows; row++)                                                                                 \
            NAME##_row(tiles, k, codes + (int64_t)row * code_stride, sums + row * ORK_TILE);                      \
    }

static inline int32x4_t widening_dot(int32x4_t sum, int8x16_t w, int8x16_t a) {
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(a));
    return vpadalq_s16(sum, vmlal_high_s8(pairs, w, a));
}

__attribute__((target("arch=armv8.2-a+dotprod"))) static inline int32x4_t four_way_dot(int32x4_t sum, int8x16_t w,
                                                                                       int8x16_t a) {
    return vdotq_s32(sum, w, a);
}

STRIP(ork_strip_neon, , widening_dot)
STRIP(ork_strip_dotprod, __attribute__((target("arch=armv8.2-a+dotprod"))), four_way_dot)
#endif
