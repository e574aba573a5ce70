/* Decoding is two byte shuffles' work, so four outputs are decoded into the first-level cache once and then
 * multiplied with all rows, two at a time; a single row is multiplied as it is decoded. */
#if defined(__x86_64__)
#pragma GCC target("avx2")
#include <immintrin.h>
#include <stddef.h>

#include "nibble_kernels.h"

#define OUTPUTS 4
/* Values of k decoded at once: 8 KiB for four outputs. */
#define SPAN 2048

static inline __m256i dot(__m256i weight, __m256i magnitude, __m256i a, __m256i sum) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(a, weight));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __m128i halves(__m256i v) {
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline __m128i sum_four(const __m256i *v) {
    return _mm_hadd_epi32(_mm_hadd_epi32(halves(v[0]), halves(v[1])), _mm_hadd_epi32(halves(v[2]), halves(v[3])));
}

/* What each nibble is worth in a group with this multiplier, in both lanes. */
static inline __m256i table_of(__m256i levels, int multiplier) {
    __m256i scaled = _mm256_mullo_epi16(levels, _mm256_set1_epi16((short)multiplier));
    scaled = _mm256_srai_epi16(_mm256_add_epi16(scaled, _mm256_set1_epi16(64)), 7);
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(scaled, scaled), 0x88);
}

static inline __m256i decode(const uint8_t *from, __m256i table) {
    __m128i both = _mm_loadu_si128((const __m128i *)from), mask = _mm_set1_epi8(15);
    __m128i even = _mm_and_si128(both, mask), odd = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
    __m256i index = _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd));
    return _mm256_shuffle_epi8(table, index);
}

/* Four outputs, and where their nibbles and multipliers lie; without multipliers the table of levels. */
typedef struct {
    const uint8_t *from[OUTPUTS];
    const int8_t *multipliers[OUTPUTS];
    __m256i wide, levels;
    int k, group;
} block;

static block block_of(const ork_nibble_strip *strip, int n) {
    __m128i levels = _mm_loadu_si128((const __m128i *)strip->levels);
    block of = {.wide = _mm256_cvtepi8_epi16(levels), .levels = _mm256_broadcastsi128_si256(levels), .k = strip->k,
                .group = strip->group};
    for (int i = 0; i < OUTPUTS; i++) {
        of.from[i] = ork_nibble_row(strip, n + i);
        of.multipliers[i] = strip->multipliers ? ork_nibble_multipliers(strip, n + i) : NULL;
    }
    return of;
}

static void one_row(const block *of, const int8_t *codes, int32_t *sums) {
    __m256i partial[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++) {
        __m256i sum = _mm256_setzero_si256(), table = of->levels;
        const uint8_t *from = of->from[i];
        const int8_t *multiplier = of->multipliers[i];
        for (int first = 0; first < of->k; first += of->group) {
            if (multiplier) table = table_of(of->wide, *multiplier++);
            for (int k = first; k < first + of->group; k += ORK_TILE) {
                __m256i w = decode(from + k / 2, table);
                sum = dot(w, _mm256_abs_epi8(w), _mm256_loadu_si256((const __m256i *)(codes + k)), sum);
            }
        }
        partial[i] = sum;
    }
    _mm_storeu_si128((__m128i *)sums, sum_four(partial));
}

/* `rows` is 1 or 2 and known where this is inlined. */
static inline __attribute__((always_inline)) void multiply(const __m256i *decoded, int span, const int8_t *codes,
                                                           int code_stride, int rows, int32_t *sums) {
    __m256i partial[2][OUTPUTS];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < OUTPUTS; i++) partial[r][i] = _mm256_setzero_si256();
    for (int k = 0; k < span; k += ORK_TILE, decoded += OUTPUTS) {
        __m256i a[2];
        for (int r = 0; r < rows; r++)
            a[r] = _mm256_loadu_si256((const __m256i *)(codes + (int64_t)r * code_stride + k));
        for (int i = 0; i < OUTPUTS; i++) {
            __m256i w = decoded[i], magnitude = _mm256_abs_epi8(w);
            for (int r = 0; r < rows; r++) partial[r][i] = dot(w, magnitude, a[r], partial[r][i]);
        }
    }
    for (int r = 0; r < rows; r++) {
        __m128i *to = (__m128i *)(sums + r * ORK_TILE);
        _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), sum_four(partial[r])));
    }
}

static void many_rows(const block *of, const int8_t *codes, int code_stride, int rows, int32_t *sums) {
    __m256i decoded[SPAN / ORK_TILE * OUTPUTS];
    for (int row = 0; row < rows; row++) _mm_storeu_si128((__m128i *)(sums + row * ORK_TILE), _mm_setzero_si128());
    for (int begin = 0; begin < of->k; begin += SPAN) {
        int end = of->k - begin < SPAN ? of->k : begin + SPAN, row = 0;
        for (int i = 0; i < OUTPUTS; i++) {
            __m256i table = of->levels, *to = decoded + i;
            const uint8_t *from = of->from[i];
            int whole = of->multipliers[i] ? of->group : of->k;
            for (int k = begin; k < end;) {
                /* A group may go on into the next span. */
                int group = k / whole, until = (group + 1) * whole < end ? (group + 1) * whole : end;
                if (of->multipliers[i]) table = table_of(of->wide, of->multipliers[i][group]);
                for (; k < until; k += ORK_TILE, to += OUTPUTS) *to = decode(from + k / 2, table);
            }
        }
        for (; row + 1 < rows; row += 2)
            multiply(decoded, end - begin, codes + (int64_t)row * code_stride + begin, code_stride, 2,
                     sums + row * ORK_TILE);
        if (row < rows)
            multiply(decoded, end - begin, codes + (int64_t)row * code_stride + begin, code_stride, 1,
                     sums + row * ORK_TILE);
    }
}

void ork_nibbles_avx2(const ork_nibble_strip *strip, const int8_t *codes, int code_stride, int rows, int32_t *sums) {
    for (int n = 0; n < strip->outputs; n += OUTPUTS) {
        block of = block_of(strip, n);
        if (rows == 1) {
            one_row(&of, codes, sums + n);
        } else {
            many_rows(&of, codes, code_stride, rows, sums + n);
        }
    }
}
#endif
