/* Decoding is two byte shuffles' work, so four outputs are decoded into the first-level cache once and then
 * multiplied with all rows, two at a time; a single row is multiplied as it is decoded. */
#if defined(__x86_64__)
#pragma GCC target("avx2")
#include <immintrin.h>

#include "nibble_kernels.h"

#define OUTPUTS 4
/* Values of k decoded at once: 8 KiB for four outputs. */
#define SPAN 2048

static inline __m256i dot(__m256i weight, __m256i a, __m256i sum) {
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weight), _mm256_sign_epi8(a, weight));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __m128i halves(__m256i v) {
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline __m128i sum_four(const __m256i *v) {
    return _mm_hadd_epi32(_mm_hadd_epi32(halves(v[0]), halves(v[1])), _mm_hadd_epi32(halves(v[2]), halves(v[3])));
}

/* What each nibble is worth among the 32 values from k on, in both lanes. */
static inline __m256i table_of(const ork_nibble_strip *strip, int n, int k) {
    __m128i levels = _mm_loadu_si128((const __m128i *)strip->levels);
    if (strip->multipliers == NULL) return _mm256_broadcastsi128_si256(levels);
    __m256i factor = _mm256_set1_epi16((short)ork_nibble_multiplier(strip, n, k));
    __m256i scaled = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(levels), factor);
    scaled = _mm256_srai_epi16(_mm256_add_epi16(scaled, _mm256_set1_epi16(64)), 7);
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(scaled, scaled), 0x88);
}

static inline __m256i decode(const uint8_t *from, __m256i table) {
    __m128i both = _mm_loadu_si128((const __m128i *)from), mask = _mm_set1_epi8(15);
    __m128i even = _mm_and_si128(both, mask), odd = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
    __m256i index = _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd));
    return _mm256_shuffle_epi8(table, index);
}

static void one_row(const ork_nibble_strip *strip, int n, const int8_t *codes, int32_t *sums) {
    __m256i partial[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++) partial[i] = _mm256_setzero_si256();
    for (int k = 0; k < strip->k; k += ORK_TILE) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(codes + k));
        for (int i = 0; i < OUTPUTS; i++)
            partial[i] = dot(decode(ork_nibble_row(strip, n + i) + k / 2, table_of(strip, n + i, k)), a, partial[i]);
    }
    _mm_storeu_si128((__m128i *)(sums + n), sum_four(partial));
}

/* `rows` is 1 or 2 and known where this is inlined. */
static inline __attribute__((always_inline)) void multiply(const __m256i *decoded, int span, const int8_t *codes,
                                                           int code_stride, int rows, int32_t *sums) {
    __m256i partial[2][OUTPUTS];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < OUTPUTS; i++) partial[r][i] = _mm256_setzero_si256();
    for (int k = 0; k < span; k += ORK_TILE, decoded += OUTPUTS)
        for (int i = 0; i < OUTPUTS; i++)
            for (int r = 0; r < rows; r++) {
                __m256i a = _mm256_loadu_si256((const __m256i *)(codes + (int64_t)r * code_stride + k));
                partial[r][i] = dot(decoded[i], a, partial[r][i]);
            }
    for (int r = 0; r < rows; r++) {
        __m128i *to = (__m128i *)(sums + r * ORK_TILE);
        _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), sum_four(partial[r])));
    }
}

static void many_rows(const ork_nibble_strip *strip, int n, const int8_t *codes, int code_stride, int rows,
                      int32_t *sums) {
    __m256i decoded[SPAN / ORK_TILE * OUTPUTS];
    for (int row = 0; row < rows; row++)
        _mm_storeu_si128((__m128i *)(sums + row * ORK_TILE + n), _mm_setzero_si128());
    for (int first = 0; first < strip->k; first += SPAN) {
        int span = strip->k - first < SPAN ? strip->k - first : SPAN, row = 0;
        for (int i = 0; i < OUTPUTS; i++)
            for (int k = 0; k < span; k += ORK_TILE)
                decoded[k / ORK_TILE * OUTPUTS + i] = decode(ork_nibble_row(strip, n + i) + (first + k) / 2,
                                                             table_of(strip, n + i, first + k));
        for (; row + 1 < rows; row += 2)
            multiply(decoded, span, codes + (int64_t)row * code_stride + first, code_stride, 2,
                     sums + row * ORK_TILE + n);
        if (row < rows)
            multiply(decoded, span, codes + (int64_t)row * code_stride + first, code_stride, 1,
                     sums + row * ORK_TILE + n);
    }
}

void ork_nibbles_avx2(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums) {
    for (int n = 0; n < strip->outputs; n += OUTPUTS) {
        if (rows == 1) {
            one_row(strip, n, codes, sums);
        } else {
            many_rows(strip, n, codes, code_stride, rows, sums);
        }
    }
}
#endif
