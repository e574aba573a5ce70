/* Eight floats at a time, on whatever vectors the target has.
 *
 * Every sum is kept in eight lanes and folded in one fixed order, and multiply-adds are fused
 * where the code says so and nowhere else, so each instruction set, thread count and row split gives the same bits. */
#ifndef ORK_LANES_H
#define ORK_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#define LANES 8
#else
#define LANES 4
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#define PARTS (8 / LANES)
#define INLINE static inline __attribute__((always_inline, unused))
#define EACH_PART for (int part = 0; part < PARTS; part++)

typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef int32_t lane_ints __attribute__((vector_size(LANES * 4)));
typedef int8_t lane_bytes __attribute__((vector_size(LANES)));

typedef struct {
    lanes part[PARTS];
} eight;

INLINE eight eight_load(const float *from) {
    eight v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE eight eight_load_some(const float *from, int count) {
    float padded[8] = {0};
    for (int i = 0; i < count; i++) padded[i] = from[i];
    return eight_load(padded);
}

INLINE void eight_store(float *to, eight v) { memcpy(to, &v, sizeof v); }

INLINE void eight_store_some(float *to, eight v, int count) {
    float padded[8];
    eight_store(padded, v);
    for (int i = 0; i < count; i++) to[i] = padded[i];
}

INLINE eight eight_set(float value) {
    eight v;
    EACH_PART v.part[part] = (lanes){0} + value;
    return v;
}

#define EIGHT_OPERATION(NAME, OPERATOR)                                              \
    INLINE eight NAME(eight a, eight b) {                                            \
        EACH_PART a.part[part] = a.part[part] OPERATOR b.part[part];                 \
        return a;                                                                    \
    }
EIGHT_OPERATION(eight_add, +)
EIGHT_OPERATION(eight_sub, -)
EIGHT_OPERATION(eight_mul, *)
EIGHT_OPERATION(eight_div, /)

#if !defined(__AVX2__) && !defined(__aarch64__)
typedef double lane_doubles __attribute__((vector_size(LANES * 8)));
typedef int64_t lane_longs __attribute__((vector_size(LANES * 8)));

/* a * b + c rounded once: the product is exact in double precision, and a sum that is not is made odd in its last
 * bit, so that rounding it to float is as if it were the first rounding. */
INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    lane_doubles product = __builtin_convertvector(a, lane_doubles) * __builtin_convertvector(b, lane_doubles);
    lane_doubles added = __builtin_convertvector(c, lane_doubles), sum = product + added, part = sum - product;
    lane_doubles lost = (product - (sum - part)) + (added - part);
    lane_longs bits = (lane_longs)sum, outward = (lane_longs)((lost > 0) == (sum > 0));
    lane_longs step = (outward & 1) | ~outward, inexact = (lane_longs)(lost > 0) | (lane_longs)(lost < 0);
    bits += step & inexact & ((bits & 1) - 1);
    return __builtin_convertvector((lane_doubles)bits, lanes);
}
#endif

/* a * b + c, rounded once. */
INLINE eight eight_fma(eight a, eight b, eight c) {
    EACH_PART {
#if defined(__AVX2__)
        c.part[part] = (lanes)_mm256_fmadd_ps((__m256)a.part[part], (__m256)b.part[part], (__m256)c.part[part]);
#elif defined(__aarch64__)
        c.part[part] = (lanes)vfmaq_f32((float32x4_t)c.part[part], (float32x4_t)a.part[part], (float32x4_t)b.part[part]);
#else
        c.part[part] = lanes_fma(a.part[part], b.part[part], c.part[part]);
#endif
    }
    return c;
}

/* Where mask is all ones a, else b. */
INLINE lanes lanes_select(lane_ints mask, lanes a, lanes b) {
    return (lanes)((mask & (lane_ints)a) | (~mask & (lane_ints)b));
}

INLINE eight eight_max(eight a, eight b) {
    EACH_PART a.part[part] = lanes_select(a.part[part] > b.part[part], a.part[part], b.part[part]);
    return a;
}

INLINE eight eight_min(eight a, eight b) {
    EACH_PART a.part[part] = lanes_select(a.part[part] < b.part[part], a.part[part], b.part[part]);
    return a;
}

INLINE eight eight_abs(eight a) {
    EACH_PART a.part[part] = (lanes)((lane_ints)a.part[part] & 0x7fffffff);
    return a;
}

#if defined(__clang__) || __GNUC__ >= 12
#define LANES_SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define LANES_SHUFFLE(v, ...) __builtin_shuffle(v, (lane_ints){__VA_ARGS__})
#endif
#define MINUS INT32_MIN
/* Lane i and its partner i ^ apart become their sum and their difference, for apart 1, 2 and 4 in turn. */
INLINE eight eight_butterflies(eight v) {
    EACH_PART {
        lanes x = v.part[part];
#if LANES == 8
        x = LANES_SHUFFLE(x, 1, 0, 3, 2, 5, 4, 7, 6) +
            (lanes)((lane_ints)x ^ (lane_ints){0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS});
        x = LANES_SHUFFLE(x, 2, 3, 0, 1, 6, 7, 4, 5) +
            (lanes)((lane_ints)x ^ (lane_ints){0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS});
        x = LANES_SHUFFLE(x, 4, 5, 6, 7, 0, 1, 2, 3) +
            (lanes)((lane_ints)x ^ (lane_ints){0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS});
#else
        x = LANES_SHUFFLE(x, 1, 0, 3, 2) + (lanes)((lane_ints)x ^ (lane_ints){0, MINUS, 0, MINUS});
        x = LANES_SHUFFLE(x, 2, 3, 0, 1) + (lanes)((lane_ints)x ^ (lane_ints){0, 0, MINUS, MINUS});
#endif
        v.part[part] = x;
    }
#if LANES == 4
    lanes low = v.part[0], high = v.part[1];
    v.part[0] = low + high;
    v.part[1] = low - high;
#endif
    return v;
}
#undef MINUS

INLINE float eight_sum(eight v) {
    float x[8];
    eight_store(x, v);
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

INLINE float eight_largest(eight v) {
    float x[8];
    eight_store(x, v);
    float most = x[0];
    for (int i = 1; i < 8; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* e^x within two units in the last place; exactly 1 at 0, 0 below -87.7, the value at 88 above 88. */
INLINE eight eight_exp(eight x) {
    x = eight_max(eight_min(x, eight_set(88.0f)), eight_set(-88.0f));
    eight result;
    EACH_PART {
        lanes v = x.part[part];
        lanes shifted = v * 1.44269504088896341f + 12582912.0f; /* rounds to an integer in the low bits */
        lanes n = shifted - 12582912.0f;
        lane_ints exponent = ((lane_ints)shifted - 0x4b400000 + 127) << 23;
        lanes r = (v - n * 0.693359375f) - n * -2.12194440e-4f;
        lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        result.part[part] = ((p * (r * r) + r) + 1.0f) * (lanes)exponent;
    }
    return result;
}

/* limit * tanh(x / limit), as limit - 2 limit / (e^(2 x / limit) + 1). */
INLINE eight eight_cap(eight x, float limit) {
    eight power = eight_exp(eight_div(x, eight_set(limit * 0.5f)));
    return eight_sub(eight_set(limit), eight_div(eight_set(2.0f * limit), eight_add(power, eight_set(1.0f))));
}

INLINE eight eight_from_half(const uint16_t *from) {
    eight v;
#if defined(__AVX2__)
    v.part[0] = (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#elif defined(__aarch64__)
    float16x8_t half = vreinterpretq_f16_u16(vld1q_u16(from));
    v.part[0] = (lanes)vcvt_f32_f16(vget_low_f16(half));
    v.part[1] = (lanes)vcvt_f32_f16(vget_high_f16(half));
#else
    EACH_PART {
        lane_ints h;
        for (int i = 0; i < LANES; i++) h[i] = from[part * LANES + i];
        lane_ints magnitude = (h & 0x7fff) << 13;
        /* 2^112 moves the exponent to float's bias and turns half's subnormals into normal floats. */
        lane_ints bits = (lane_ints)((lanes)magnitude * 0x1p112f);
        bits |= (magnitude >= (0x7c00 << 13)) & 0x7f800000;
        v.part[part] = (lanes)(bits | ((h & 0x8000) << 16));
    }
#endif
    return v;
}

INLINE eight eight_from_codes(const int8_t *from) {
    eight v;
    EACH_PART {
        lane_bytes bytes;
        memcpy(&bytes, from + part * LANES, LANES);
        v.part[part] = __builtin_convertvector(bytes, lanes);
    }
    return v;
}

/* Nearest, ties to even; what is too large becomes infinite. */
INLINE uint16_t half_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000) return (uint16_t)(sign | (magnitude > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (magnitude < 0x38800000) {
        float small;
        memcpy(&small, &magnitude, 4);
        small += 0.5f; /* half's subnormal unit is the last bit of 0.5: the addition rounds */
        memcpy(&magnitude, &small, 4);
        return (uint16_t)(sign | (magnitude - 0x3f000000));
    }
    magnitude += 0xc8000fffu + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | (magnitude >> 13));
}

/* The same for eight at once. */
INLINE void eight_to_half(uint16_t *to, eight v) {
#if defined(__AVX2__)
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph((__m256)v.part[0], _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
    float16x8_t half = vcombine_f16(vcvt_f16_f32((float32x4_t)v.part[0]), vcvt_f16_f32((float32x4_t)v.part[1]));
    vst1q_u16(to, vreinterpretq_u16_f16(half));
#else
    float values[8];
    eight_store(values, v);
    for (int i = 0; i < 8; i++) to[i] = half_from_float(values[i]);
#endif
}

#endif
