/* Products of one strip of weight tiles (32 outputs) with rows of activation codes.
 *
 * tiles: [k / 32][32 n][32 k]; codes: rows of k values, code_stride apart; sums: [rows][32], overwritten.
 * Exact for every weight and for activation codes in -127..127 (the quantizer makes no others). */
#ifndef ORK_INT8_KERNELS_H
#define ORK_INT8_KERNELS_H

#include <stdint.h>

#define ORK_TILE 32
#define ORK_TILE_BYTES 1024

typedef void (*ork_strip_product)(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows,
                                  int32_t *sums);

void ork_strip_portable(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows, int32_t *sums);
#if defined(__x86_64__)
void ork_strip_avx2(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows, int32_t *sums);
#endif
#if defined(__aarch64__)
void ork_strip_neon(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows, int32_t *sums);
void ork_strip_dotprod(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows, int32_t *sums);
#endif

#endif
