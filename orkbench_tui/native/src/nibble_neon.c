/* Four rows by four outputs: sixteen sums, eight vectors of weights and one of codes fit the 32 registers, so a
 * vector of nibbles is read and decoded once for four rows. sdot where HWCAP has it, smull/sadalp otherwise. */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <stddef.h>

#include "nibble_kernels.h"

#define OUTPUTS 4

static inline int8x16_t table_of(int8x16_t levels, int8_t multiplier) {
    int8x8_t factor = vdup_n_s8(multiplier);
    return vcombine_s8(vrshrn_n_s16(vmull_s8(vget_low_s8(levels), factor), 7),
                       vrshrn_n_s16(vmull_s8(vget_high_s8(levels), factor), 7));
}

static inline int8x16x2_t decode(const uint8_t *from, int8x16_t table) {
    uint8x16_t both = vld1q_u8(from);
    int8x16_t even = vqtbl1q_s8(table, vandq_u8(both, vdupq_n_u8(15))), odd = vqtbl1q_s8(table, vshrq_n_u8(both, 4));
    return (int8x16x2_t){{vzip1q_s8(even, odd), vzip2q_s8(even, odd)}};
}

#define BLOCK(NAME, ATTRIBUTE, DOT, ROWS)                                                                         \
    ATTRIBUTE static void NAME(const ork_nibble_strip *strip, int n, const int8_t *codes, int code_stride,        \
                               int32_t *sums) {                                                                   \
        const uint8_t *from[OUTPUTS];                                                                             \
        const int8_t *multipliers[OUTPUTS];                                                                       \
        int8x16_t levels = vld1q_s8(strip->levels), table[OUTPUTS];                                               \
        int32x4_t partial[ROWS][OUTPUTS];                                                                         \
        for (int i = 0; i < OUTPUTS; i++) {                                                                       \
            from[i] = ork_nibble_row(strip, n + i);                                                               \
            multipliers[i] = strip->multipliers ? ork_nibble_multipliers(strip, n + i) : NULL;                    \
            table[i] = levels;                                                                                    \
            for (int r = 0; r < ROWS; r++) partial[r][i] = vdupq_n_s32(0);                                        \
        }                                                                                                         \
        for (int first = 0, group = 0; first < strip->k; first += strip->group, group++) {                        \
            for (int i = 0; i < OUTPUTS && multipliers[i]; i++) table[i] = table_of(levels, multipliers[i][group]);\
            for (int k = first; k < first + strip->group; k += ORK_TILE) {                                        \
                int8x16x2_t w[OUTPUTS];                                                                           \
                for (int i = 0; i < OUTPUTS; i++) w[i] = decode(from[i] + k / 2, table[i]);                       \
                for (int r = 0; r < ROWS; r++)                                                                    \
                    for (int half = 0; half < 2; half++) {                                                        \
                        int8x16_t a = vld1q_s8(codes + (int64_t)r * code_stride + k + half * 16);                 \
                        for (int i = 0; i < OUTPUTS; i++) partial[r][i] = DOT(partial[r][i], w[i].val[half], a);  \
                    }                                                                                             \
            }                                                                                                     \
        }                                                                                                         \
        for (int r = 0; r < ROWS; r++)                                                                            \
            vst1q_s32(sums + r * ORK_TILE + n, vpaddq_s32(vpaddq_s32(partial[r][0], partial[r][1]),               \
                                                          vpaddq_s32(partial[r][2], partial[r][3])));             \
    }

#define STRIP(NAME, ATTRIBUTE, DOT)                                                                               \
    BLOCK(NAME##_four, ATTRIBUTE, DOT, 4)                                                                         \
    BLOCK(NAME##_one, ATTRIBUTE, DOT, 1)                                                                          \
    ATTRIBUTE void NAME(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows,           \
                        int32_t *sums) {                                                                          \
        for (int n = 0; n < strip->outputs; n += OUTPUTS) {                                                       \
            int row = 0;                                                                                          \
            for (; row + 4 <= rows; row += 4)                                                                     \
                NAME##_four(strip, n, codes + (int64_t)row * code_stride, code_stride, sums + row * ORK_TILE);    \
            for (; row < rows; row++)                                                                             \
                NAME##_one(strip, n, codes + (int64_t)row * code_stride, code_stride, sums + row * ORK_TILE);     \
        }                                                                                                         \
    }

static inline int32x4_t widening_dot(int32x4_t sum, int8x16_t w, int8x16_t a) {
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(a));
    return vpadalq_s16(sum, vmlal_high_s8(pairs, w, a));
}

__attribute__((target("arch=armv8.2-a+dotprod"))) static inline int32x4_t four_way_dot(int32x4_t sum, int8x16_t w,
                                                                                       int8x16_t a) {
    return vdotq_s32(sum, w, a);
}

STRIP(ork_nibbles_neon, , widening_dot)
STRIP(ork_nibbles_dotprod, __attribute__((target("arch=armv8.2-a+dotprod"))), four_way_dot)
#endif
