/* Products of one strip of 4-bit weights with rows of activation codes, the weights decoded on the way.
 *
 * A weight is levels[nibble], or (levels[nibble] * multiplier + 64) >> 7 of its group: the int8 number the
 * tiles of the same weight hold, so the sums are those of the int8 kernels. A vector of weights is decoded
 * once for all rows of a block. Exact within the limits of int8_kernels.h. */
#ifndef ORK_NIBBLE_KERNELS_H
#define ORK_NIBBLE_KERNELS_H

#include <stdint.h>

#include "int8_kernels.h"

typedef struct {
    const uint8_t *nibbles;    /* [outputs][k / 2], the even k in the low nibble */
    const int8_t *multipliers; /* [outputs][k / group], NULL for none */
    const int8_t *levels;      /* 16 */
    int k, group, outputs;     /* k and group are multiples of 32; 1 to 32 outputs */
} ork_nibble_strip;

/* sums: [rows][32], overwritten; those from `outputs` on are anything. */
typedef void (*ork_nibble_product)(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows,
                                   int32_t *sums);

/* Output n, or the last where the strip has fewer: blocks of four are always whole. */
static inline int ork_nibble_output(const ork_nibble_strip *strip, int n) {
    return n < strip->outputs ? n : strip->outputs - 1;
}

static inline const uint8_t *ork_nibble_row(const ork_nibble_strip *strip, int n) {
    return strip->nibbles + (int64_t)ork_nibble_output(strip, n) * (strip->k / 2);
}

/* The multipliers of an output's groups; only where there are any. */
static inline const int8_t *ork_nibble_multipliers(const ork_nibble_strip *strip, int n) {
    return strip->multipliers + (int64_t)ork_nibble_output(strip, n) * (strip->k / strip->group);
}

void ork_nibbles_portable(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums);
#if defined(__x86_64__)
void ork_nibbles_avx2(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums);
#endif
#if defined(__aarch64__)
void ork_nibbles_neon(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums);
void ork_nibbles_dotprod(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums);
#endif

#endif
