/* The float side of a decoder, one row (or block of rows) at a time. */
#ifndef ORK_FLOAT_KERNELS_H
#define ORK_FLOAT_KERNELS_H

#include <stdint.h>

#include "api/plan.h"

#define ORK_KEYS 32          /* keys in one block of the key cache */
#define ORK_HEAD_DIM_MAX 256 /* a multiple of 8 up to this */
#define ORK_ROTATED_WIDTH_MAX 65536
#define ORK_QUERY_ROWS 8     /* query rows that share one pass over the cache */
#define ORK_TAPS_MAX 8       /* of a convolution */
#define ORK_SCAN_CHUNK_MAX 256

typedef struct {
    void (*norm)(const float *input, const float *weight, float *output, int width, float epsilon, int accumulate);
    /* Walsh-Hadamard transform, orthonormal, of every `block` values: a power of two that divides width. */
    void (*rotate)(const float *input, float *output, int width, int block);
    /* rotation: block to rotate by first (on the stack: width <= ORK_ROTATED_WIDTH_MAX), 0 for none.
     * Returns the scale: absmax / 127, 1 for a row of zeros, NaN (and codes 0) when a value is not finite.
     * Codes from width to the next multiple of 32 become 0. */
    float (*quantize)(const float *input, int width, int rotation, int8_t *codes);
    void (*dequantize)(const int32_t *sums, float code_scale, const float *weight_scales, const float *bias,
                       float *output, int n, int accumulate);
    void (*add)(const float *input, const float *bias, float *output, int width, int accumulate);
    void (*rope)(const ork_rope_step *step, float *row, int position);
    void (*append)(const ork_append_step *step, int row, int position);
    /* Rows first_row .. first_row + rows - 1 (at most ORK_QUERY_ROWS) of one head; row 0 is at `position`. */
    void (*attend)(const ork_attention_step *step, int head, int first_row, int rows, int position);
    void (*gate)(const float *gate, const float *up, float *output, int width, int function);
    void (*cap)(float *values, int width, float limit);
    void (*convolve)(const ork_convolve_step *step, int channel, int count, int rows, int position);
    void (*scan_products)(const ork_scan_step *step, int group, int rows, int position);
    void (*scan)(const ork_scan_step *step, int head, int rows, int position);
    void (*scan_operands)(const ork_scan_step *step, int group, int rows, int position);
    void (*scan_inside)(const ork_scan_step *step, int head, int rows, int position);
    void (*scan_carry)(const ork_scan_step *step, int head, int rows, int position);
    void (*scan_finish)(const ork_scan_step *step, int head, int rows, int position);
    void (*chances)(const float *input, const float *router, int width, int count, float *out);
} ork_float_kernels;

extern const ork_float_kernels ork_float_portable;
#if defined(__x86_64__)
extern const ork_float_kernels ork_float_avx2;
#endif

#endif
