/* The mixer of a state space model (Mamba-2), included by the file of each instruction set.
 *
 * A row of its projection holds gate [inner], then what the convolution takes: x [inner], B and C
 * [groups * state] each, then one time step for each head. States are read as zero at position 0. */
#ifndef ORK_SCAN_KERNEL_H
#define ORK_SCAN_KERNEL_H

#include <math.h>

#include "lanes.h"

/* Channels channel .. channel + count - 1 (at most 8) of a causal convolution with SiLU, over all rows. */
static void convolve(const ork_convolve_step *step, int channel, int count, int rows, int position) {
    int past = step->taps - 1;
    eight window[ORK_TAPS_MAX], weights[ORK_TAPS_MAX], one = eight_set(1.0f);
    for (int tap = 0; tap < step->taps; tap++)
        weights[tap] = eight_load_some(step->weights + (int64_t)tap * step->width + channel, count);
    for (int tap = 0; tap < past; tap++)
        window[tap] = position == 0 ? eight_set(0.0f)
                                    : eight_load_some(step->state + (int64_t)tap * step->width + channel, count);
    eight bias = eight_load_some(step->bias + channel, count);
    for (int row = 0; row < rows; row++) {
        window[past] = eight_load_some(step->input + (int64_t)row * step->input_stride + channel, count);
        eight sum = bias;
        for (int tap = 0; tap < step->taps; tap++) sum = eight_add(sum, eight_mul(window[tap], weights[tap]));
        eight divisor = eight_add(one, eight_exp(eight_sub(eight_set(0.0f), sum)));
        eight_store_some(step->output + (int64_t)row * step->width + channel, eight_div(sum, divisor), count);
        for (int tap = 0; tap < past; tap++) window[tap] = window[tap + 1];
    }
    for (int tap = 0; tap < past; tap++)
        eight_store_some(step->state + (int64_t)tap * step->width + channel, window[tap], count);
}

static inline float soft_plus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/* One head over all rows: s = s exp(dt A) + dt x (outer) B, y = (s . C + D x) * silu(gate). */
static void scan(const ork_scan_step *step, int head, int rows, int position) {
    int inner = step->heads * step->head_dim, group = head / (step->heads / step->groups), size = step->state_size;
    float *states = step->state + (int64_t)head * step->head_dim * size;
    if (position == 0) memset(states, 0, sizeof(float) * (size_t)step->head_dim * (size_t)size);
    for (int64_t row = 0; row < rows; row++) {
        const float *mixed = step->mixed + row * step->mixed_stride;
        const float *convolved = step->convolved + row * (inner + 2 * step->groups * size);
        const float *b = convolved + inner + group * size, *c = b + step->groups * size;
        float time = soft_plus(mixed[step->mixed_stride - step->heads + head] + step->time_bias[head]);
        eight decay = eight_set(expf(time * step->a[head]));
        for (int i = 0; i < step->head_dim; i++) {
            int at = head * step->head_dim + i;
            float x = convolved[at], gate = mixed[at];
            eight input = eight_set(x * time), sum = eight_set(0.0f);
            float *state = states + (int64_t)i * size;
            for (int n = 0; n < size; n += 8) {
                eight s = eight_add(eight_mul(eight_load(state + n), decay), eight_mul(eight_load(b + n), input));
                eight_store(state + n, s);
                sum = eight_add(sum, eight_mul(s, eight_load(c + n)));
            }
            float y = eight_sum(sum) + step->d[head] * x;
            step->output[row * inner + at] = y * (gate / (1.0f + expf(-gate)));
        }
    }
}

#endif
