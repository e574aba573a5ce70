/* |w| as unsigned times a with the sign of w: pmaddubsw sums two products of at most 128 * 127, which
 * fits 16 bits, so nothing saturates. */
#if defined(__x86_64__)
#pragma GCC target("avx2")
#include <immintrin.h>

#include "int8_kernels.h"

static inline __m256i dot(__m256i weight, __m256i magnitude, __m256i a, __m256i sum) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(a, weight));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __m128i halves(__m256i v) {
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* Four accumulators to their four sums. */
static inline __m128i sum_four(__m256i a, __m256i b, __m256i c, __m256i d) {
    return _mm_hadd_epi32(_mm_hadd_epi32(halves(a), halves(b)), _mm_hadd_epi32(halves(c), halves(d)));
}

/* How far ahead of the tile at work the next ones are asked for. The stores between the loads keep the
 * processor's own prefetching short: without this, a matrix that is in no cache is read at half the speed. */
#define AHEAD (6 * ORK_TILE_BYTES)

/* One row: the tiles are read once, in the order they lie in memory, and the 32 accumulators wait in
 * the first-level cache. */
static void one_row(const int8_t *tiles, int k, const int8_t *codes, int32_t *sums) {
    __m256i partial[ORK_TILE];
    for (int n = 0; n < ORK_TILE; n++) partial[n] = _mm256_setzero_si256();
    for (int t = 0; t < k / ORK_TILE; t++) {
        const __m256i *tile = (const __m256i *)(tiles + (int64_t)t * ORK_TILE_BYTES);
        __m256i a = _mm256_loadu_si256((const __m256i *)(codes + t * ORK_TILE));
        for (int n = 0; n < ORK_TILE; n++) {
            if (n % 2 == 0) _mm_prefetch((const char *)(tile + n) + AHEAD, _MM_HINT_T0);
            __m256i w = _mm256_loadu_si256(tile + n);
            partial[n] = dot(w, _mm256_abs_epi8(w), a, partial[n]);
        }
    }
    for (int n = 0; n < ORK_TILE; n += 4)
        _mm_storeu_si128((__m128i *)(sums + n), sum_four(partial[n], partial[n + 1], partial[n + 2], partial[n + 3]));
}

/* Two rows by four outputs keep eight accumulators in registers; the strip stays in the cache. */
static void two_rows(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int32_t *sums) {
    for (int n = 0; n < ORK_TILE; n += 4) {
        __m256i x0, x1, x2, x3, y0, y1, y2, y3;
        x0 = x1 = x2 = x3 = y0 = y1 = y2 = y3 = _mm256_setzero_si256();
        for (int t = 0; t < k / ORK_TILE; t++) {
            const __m256i *tile = (const __m256i *)(tiles + (int64_t)t * ORK_TILE_BYTES) + n;
            __m256i a = _mm256_loadu_si256((const __m256i *)(codes + t * ORK_TILE));
            __m256i b = _mm256_loadu_si256((const __m256i *)(codes + code_stride + t * ORK_TILE));
            __m256i w = _mm256_loadu_si256(tile), m = _mm256_abs_epi8(w);
            x0 = dot(w, m, a, x0), y0 = dot(w, m, b, y0);
            w = _mm256_loadu_si256(tile + 1), m = _mm256_abs_epi8(w);
            x1 = dot(w, m, a, x1), y1 = dot(w, m, b, y1);
            w = _mm256_loadu_si256(tile + 2), m = _mm256_abs_epi8(w);
            x2 = dot(w, m, a, x2), y2 = dot(w, m, b, y2);
            w = _mm256_loadu_si256(tile + 3), m = _mm256_abs_epi8(w);
            x3 = dot(w, m, a, x3), y3 = dot(w, m, b, y3);
        }
        _mm_storeu_si128((__m128i *)(sums + n), sum_four(x0, x1, x2, x3));
        _mm_storeu_si128((__m128i *)(sums + ORK_TILE + n), sum_four(y0, y1, y2, y3));
    }
}

void ork_strip_avx2(const int8_t *tiles, int k, const int8_t *codes, int code_stride, int rows, int32_t *sums) {
    int row = 0;
    for (; row + 1 < rows; row += 2)
        two_rows(tiles, k, codes + (int64_t)row * code_stride, code_stride, sums + row * ORK_TILE);
    if (row < rows) one_row(tiles, k, codes + (int64_t)row * code_stride, sums + row * ORK_TILE);
}
#endif
