/* Norm, quantization, Hadamard and rotary rotation, scaling back and gating of rows; included once per instruction set. */
#include <math.h>

#include "float_kernels.h"
#include "lanes.h"

static void norm(const float *input, const float *weight, float *output, int width, float epsilon, int accumulate) {
    int whole = width & ~7;
    eight squares = eight_set(0.0f);
    for (int i = 0; i < whole; i += 8) {
        eight x = eight_load(input + i);
        squares = eight_add(squares, eight_mul(x, x));
    }
    if (whole < width) {
        eight x = eight_load_some(input + whole, width - whole);
        squares = eight_add(squares, eight_mul(x, x));
    }
    float inverse = 1.0f / sqrtf(eight_sum(squares) / (float)width + epsilon);
    if (accumulate)
        for (int i = 0; i < width; i++) output[i] += (input[i] * inverse) * weight[i];
    else
        for (int i = 0; i < width; i++) output[i] = (input[i] * inverse) * weight[i];
}

INLINE void quantize_eight(eight x, float scale, int8_t *codes) {
    EACH_PART {
        lanes q = x.part[part] / ((lanes){0} + scale);
        lane_ints code = __builtin_convertvector(q, lane_ints);
        lanes rest = q - __builtin_convertvector(code, lanes);
        code = code - (rest >= 0.5f) + (rest <= -0.5f); /* a true lane is -1 */
        /* A subnormal scale is coarse enough to let a code pass 127. */
        code = (code & (code <= 127)) | ((code > 127) & 127);
        code = (code & (code >= -127)) | ((code < -127) & -127);
        lane_bytes bytes = __builtin_convertvector(code, lane_bytes);
        memcpy(codes + part * LANES, &bytes, LANES);
    }
}

static void rotate(const float *input, float *output, int width, int block) {
    if (block < 8) {
        memcpy(output, input, (size_t)width * sizeof *output);
        for (int apart = 1; apart < block; apart *= 2)
            for (int at = 0; at < width; at += 2 * apart)
                for (int i = at; i < at + apart; i++) {
                    float a = output[i], b = output[i + apart];
                    output[i] = a + b;
                    output[i + apart] = a - b;
                }
    } else {
        for (int i = 0; i < width; i += 8) eight_store(output + i, eight_butterflies(eight_load(input + i)));
        for (int apart = 8; apart < block; apart *= 2)
            for (int at = 0; at < width; at += 2 * apart)
                for (int i = at; i < at + apart; i += 8) {
                    eight a = eight_load(output + i), b = eight_load(output + i + apart);
                    eight_store(output + i, eight_add(a, b));
                    eight_store(output + i + apart, eight_sub(a, b));
                }
    }
    float unit = 1.0f / sqrtf((float)block);
    for (int i = 0; i < width; i++) output[i] *= unit;
}

static float quantize_as_it_is(const float *input, int width, int8_t *codes) {
    int whole = width & ~7, padded = (width + 31) & ~31;
    eight most = eight_set(0.0f), strange = eight_set(0.0f);
    for (int i = 0; i < whole; i += 8) {
        eight x = eight_load(input + i);
        most = eight_max(eight_abs(x), most);
        strange = eight_add(strange, eight_sub(x, x)); /* NaN as soon as a value is not finite */
    }
    eight tail = eight_load_some(input + whole, width - whole);
    most = eight_max(eight_abs(tail), most);
    strange = eight_add(strange, eight_sub(tail, tail));

    float scale = eight_largest(most) / 127.0f;
    int finite = eight_sum(strange) == 0.0f;
    if (!finite || scale == 0.0f) {
        memset(codes, 0, (size_t)padded);
        return finite ? 1.0f : NAN;
    }
    for (int i = 0; i < whole; i += 8) quantize_eight(eight_load(input + i), scale, codes + i);
    if (whole < width) quantize_eight(tail, scale, codes + whole);
    int written = (width + 7) & ~7;
    memset(codes + written, 0, (size_t)(padded - written));
    return scale;
}

static float quantize(const float *input, int width, int rotation, int8_t *codes) {
    if (rotation < 2) return quantize_as_it_is(input, width, codes);
    float rotated[width];
    rotate(input, rotated, width, rotation);
    return quantize_as_it_is(rotated, width, codes);
}

static void dequantize(const int32_t *sums, float code_scale, const float *weight_scales, const float *bias,
                       float *output, int n, int accumulate) {
    if (!bias && !accumulate) {
        for (int i = 0; i < n; i++) output[i] = (float)sums[i] * (code_scale * weight_scales[i]);
    } else if (!bias) {
        for (int i = 0; i < n; i++) output[i] += (float)sums[i] * (code_scale * weight_scales[i]);
    } else if (!accumulate) {
        for (int i = 0; i < n; i++) output[i] = (float)sums[i] * (code_scale * weight_scales[i]) + bias[i];
    } else {
        for (int i = 0; i < n; i++) output[i] += (float)sums[i] * (code_scale * weight_scales[i]) + bias[i];
    }
}

static void add(const float *input, const float *bias, float *output, int width, int accumulate) {
    for (int i = 0; i < width; i++) {
        float value = bias ? input[i] + bias[i] : input[i];
        output[i] = accumulate ? output[i] + value : value;
    }
}

static void rope(const ork_rope_step *step, float *row, int position) {
    int half = step->dims / 2;
    int apart = step->halves ? half : 1, stride = step->halves ? 1 : 2;
    const float *cosines = step->cosines + (int64_t)position * half, *sines = step->sines + (int64_t)position * half;
    for (int head = 0; head < step->heads; head++) {
        float *x = row + head * step->head_dim;
        for (int i = 0; i < half; i++) {
            float a = x[i * stride], b = x[i * stride + apart];
            x[i * stride] = a * cosines[i] - b * sines[i];
            x[i * stride + apart] = a * sines[i] + b * cosines[i];
        }
    }
}

/* gate / (1 + e^-z): z is the gate itself (SiLU), or twice the argument of the tanh (GELU). */
INLINE eight gated(eight gate, eight up, int function) {
    eight z = gate;
    if (function == ORK_GELU_TANH) {
        eight cube = eight_mul(eight_mul(gate, gate), gate);
        eight inner = eight_add(gate, eight_mul(cube, eight_set(0.044715f)));
        z = eight_mul(inner, eight_set(1.5957691216057308f));
    }
    eight divisor = eight_add(eight_set(1.0f), eight_exp(eight_sub(eight_set(0.0f), z)));
    return eight_mul(eight_div(gate, divisor), up);
}

static void gate(const float *gates, const float *up, float *output, int width, int function) {
    int whole = width & ~7, rest = width - whole;
    for (int i = 0; i < whole; i += 8)
        eight_store(output + i, gated(eight_load(gates + i), eight_load(up + i), function));
    if (rest) {
        eight last = gated(eight_load_some(gates + whole, rest), eight_load_some(up + whole, rest), function);
        eight_store_some(output + whole, last, rest);
    }
}

static void cap(float *values, int width, float limit) {
    int whole = width & ~7, rest = width - whole;
    for (int i = 0; i < whole; i += 8) eight_store(values + i, eight_cap(eight_load(values + i), limit));
    if (rest) eight_store_some(values + whole, eight_cap(eight_load_some(values + whole, rest), limit), rest);
}

/* Softmax over the products of a row with each of `count` router rows. */
static void chances(const float *input, const float *router, int width, int count, float *out) {
    int whole = width & ~7;
    float most = -INFINITY, sum = 0.0f;
    for (int e = 0; e < count; e++) {
        const float *weight = router + (int64_t)e * width;
        eight total = eight_set(0.0f);
        for (int i = 0; i < whole; i += 8)
            total = eight_add(total, eight_mul(eight_load(input + i), eight_load(weight + i)));
        if (whole < width)
            total = eight_add(total, eight_mul(eight_load_some(input + whole, width - whole),
                                               eight_load_some(weight + whole, width - whole)));
        out[e] = eight_sum(total);
        if (out[e] > most) most = out[e];
    }
    for (int e = 0; e < count; e += 8) {
        int some = count - e < 8 ? count - e : 8;
        eight_store_some(out + e, eight_exp(eight_sub(eight_load_some(out + e, some), eight_set(most))), some);
    }
    for (int e = 0; e < count; e++) sum += out[e];
    for (int e = 0; e < count; e++) out[e] /= sum;
}
