/* The mixer of a state space model (Mamba-2), included by the file of each instruction set.
 *
 * A row of its projection holds gate [inner], then what the convolution takes: x [inner], B and C
 * [groups * state] each, then one time step for each head. States are read as zero at position 0.
 *
 * The scan is matrix products over chunks of rows (state space duality). With e_t = exp(dt_t A), row t of a chunk
 * sees row u of it as (e_{u+1} .. e_t) (C_t . B_u) dt_u x_u and all before the chunk as (e_0 .. e_t) C_t . state,
 * the state being that at the beginning of the chunk. Chunks begin at multiples of their length, and what was told of one
 * that is not full is held, so results do not depend on where rows were cut. */
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

/* In double precision, where C libraries differ in bits that rounding to float takes away. */
static inline float soft_plus(float x) { return x > 20.0f ? x : (float)log1p(exp((double)x)); }

#define SCAN_ROWS 4
#define SCAN_WIDE 8

/* sums[r][w] = a[r] . b[:, 8 w .. 8 w + 7], each sum in the order of k. */
INLINE void multiply_some(const float *a, int64_t a_stride, const int rows, const float *b, int64_t b_stride, int k,
                          const int wide, eight *sums) {
    eight held[SCAN_ROWS * SCAN_WIDE];
    for (int i = 0; i < rows * wide; i++) held[i] = eight_set(0.0f);
    for (int i = 0; i < k; i++) {
        eight right[SCAN_WIDE];
        for (int w = 0; w < wide; w++) right[w] = eight_load(b + i * b_stride + 8 * w);
        for (int r = 0; r < rows; r++) {
            eight left = eight_set(a[r * a_stride + i]);
            for (int w = 0; w < wide; w++) held[r * wide + w] = eight_fma(left, right[w], held[r * wide + w]);
        }
    }
    for (int i = 0; i < rows * wide; i++) sums[i] = held[i];
}

/* How many vectors of columns `rows` rows are multiplied by at once, of `left` that are to be done. */
static inline int columns_at_once(int rows, int left) {
    if (rows == 1 && left >= SCAN_WIDE) return SCAN_WIDE;
    return left >= 2 ? 2 : 1;
}

static void multiply(const float *a, int64_t a_stride, int rows, const float *b, int64_t b_stride, int k, int wide,
                     eight *sums) {
    switch (rows * 16 + wide) {
#define SHAPE(ROWS, WIDE) \
    case ROWS * 16 + WIDE: multiply_some(a, a_stride, ROWS, b, b_stride, k, WIDE, sums); break;
        SHAPE(4, 2) SHAPE(4, 1) SHAPE(3, 2) SHAPE(3, 1) SHAPE(2, 2) SHAPE(2, 1) SHAPE(1, 8) SHAPE(1, 2) SHAPE(1, 1)
#undef SHAPE
    }
}

/* Rows of a chunk that are done at once, from `row` on, which stands at `at` in its chunk. */
static inline int rows_at_once(const ork_scan_step *step, int row, int rows, int at) {
    int count = rows - row < step->chunk - at ? rows - row : step->chunk - at;
    return count < SCAN_ROWS ? count : SCAN_ROWS;
}

static inline const float *scan_row(const ork_scan_step *step, int64_t row) {
    return step->convolved + row * (step->heads * step->head_dim + 2 * step->groups * step->state_size);
}

/* B of one group as it is held of the chunk that `position` is in: [state_size][chunk]. */
static inline float *scan_writes(const ork_scan_step *step, int group, int position) {
    int slot = position / step->chunk % step->slots;
    return step->writes + ((int64_t)slot * step->groups + group) * step->state_size * step->chunk;
}

/* B of one group into what is held of its chunk [state_size][chunk], and C . B of each row with the chunk's so far. */
static void scan_products(const ork_scan_step *step, int group, int rows, int position) {
    int size = step->state_size, chunk = step->chunk, inner = step->heads * step->head_dim;
    int64_t stride = scan_row(step, 1) - scan_row(step, 0);
    for (int row = 0, count; row < rows; row += count) {
        int at = (position + row) % chunk;
        count = rows_at_once(step, row, rows, at);
        const float *b = scan_row(step, row) + inner + group * size, *c = b + step->groups * size;
        float *held = scan_writes(step, group, position + row);
        for (int r = 0; r < count; r++)
            for (int n = 0; n < size; n++) held[n * chunk + at + r] = b[r * stride + n];
        int vectors = (at + count + 7) / 8;
        for (int vector = 0, wide; vector < vectors; vector += wide) {
            eight sums[SCAN_ROWS * SCAN_WIDE];
            wide = columns_at_once(count, vectors - vector);
            multiply(c, stride, count, held + 8 * vector, chunk, size, wide, sums);
            for (int r = 0; r < count; r++)
                for (int w = 0; w < wide; w++)
                    eight_store(step->products + ((int64_t)(row + r) * step->groups + group) * chunk + 8 * (vector + w),
                                sums[r * wide + w]);
        }
    }
}

/* Below this a decay counts as 0: numbers that small are slow, and nothing of them is left in a sum. */
#define DECAYED 1e-30f

/* Rows row .. row + count - 1 of one head into what is held of their chunk. seen [count][chunk] is what each sees
 * of the rows of the chunk, before[r] of the state at its beginning. */
static void take_rows(const ork_scan_step *step, int head, int row, int at, int count, float *seen, float *before) {
    int chunk = step->chunk, dim = step->head_dim, group = head / (step->heads / step->groups);
    float *decays = step->decays + (int64_t)head * (chunk + 1);
    if (at == 0) memset(decays, 0, sizeof(float) * (size_t)chunk);
    for (int r = 0; r < count; r++) {
        const float *x = scan_row(step, row + r) + head * dim, *mixed = step->mixed + (int64_t)(row + r) * step->mixed_stride;
        const float *products = step->products + ((int64_t)(row + r) * step->groups + group) * chunk;
        float *input = step->inputs + ((int64_t)head * chunk + at + r) * dim;
        float time = soft_plus(mixed[step->mixed_stride - step->heads + head] + step->time_bias[head]);
        float decay = (float)exp((double)(time * step->a[head])), all = at + r == 0 ? decay : decays[chunk] * decay;
        for (int i = 0; i < dim; i++) input[i] = time * x[i];
        decays[chunk] = before[r] = all > DECAYED ? all : 0.0f;
        for (int u = 0; u < at + r; u++) decays[u] = decays[u] * decay > DECAYED ? decays[u] * decay : 0.0f;
        decays[at + r] = 1.0f;
        for (int u = 0; u < at + count; u++) seen[r * chunk + u] = decays[u] * products[u];
    }
}

/* The chunk of one head that `position` is in is full: the state at its end. */
static void hand_on(const ork_scan_step *step, int head, int position) {
    int size = step->state_size, chunk = step->chunk, dim = step->head_dim;
    const float *decays = step->decays + (int64_t)head * (chunk + 1);
    const float *writes = scan_writes(step, head / (step->heads / step->groups), position);
    float *inputs = step->inputs + (int64_t)head * chunk * dim, *state = step->state + (int64_t)head * size * dim;
    eight kept = eight_set(decays[chunk]);
    for (int u = 0; u < chunk; u++)
        for (int i = 0; i < dim; i++) inputs[u * dim + i] *= decays[u];
    for (int n = 0, count; n < size; n += count) {
        count = size - n < SCAN_ROWS ? size - n : SCAN_ROWS;
        for (int column = 0, wide; column < dim; column += 8 * wide) {
            eight sums[SCAN_ROWS * SCAN_WIDE];
            wide = columns_at_once(count, (dim - column) / 8);
            multiply(writes + n * chunk, chunk, count, inputs + column, dim, chunk, wide, sums);
            for (int r = 0; r < count; r++)
                for (int w = 0; w < wide; w++) {
                    float *at = state + (n + r) * dim + column + 8 * w;
                    eight_store(at, eight_add(eight_mul(eight_load(at), kept), sums[r * wide + w]));
                }
        }
    }
}

/* y = (inside + before * state . C + D x) silu(gate) of eight values. */
INLINE eight skip_and_gate(eight inside, eight of_state, float before, eight x, float d, eight gate) {
    eight y = eight_add(inside, eight_mul(of_state, eight_set(before)));
    y = eight_add(y, eight_mul(x, eight_set(d)));
    eight divisor = eight_add(eight_set(1.0f), eight_exp(eight_sub(eight_set(0.0f), gate)));
    return eight_mul(y, eight_div(gate, divisor));
}

/* One head over all rows, after scan_products of its group. */
static void scan(const ork_scan_step *step, int head, int rows, int position) {
    int size = step->state_size, chunk = step->chunk, dim = step->head_dim, inner = step->heads * dim;
    int group = head / (step->heads / step->groups);
    int64_t stride = scan_row(step, 1) - scan_row(step, 0);
    const float *inputs = step->inputs + (int64_t)head * chunk * dim;
    float *state = step->state + (int64_t)head * size * dim;
    if (position == 0) memset(state, 0, sizeof(float) * (size_t)dim * (size_t)size);
    for (int row = 0, count; row < rows; row += count) {
        float seen[SCAN_ROWS * ORK_SCAN_CHUNK_MAX], before[SCAN_ROWS];
        int at = (position + row) % chunk;
        count = rows_at_once(step, row, rows, at);
        take_rows(step, head, row, at, count, seen, before);
        const float *x = scan_row(step, row) + head * dim, *gates = step->mixed + (int64_t)row * step->mixed_stride + head * dim;
        const float *c = scan_row(step, row) + inner + (step->groups + group) * size;
        for (int column = 0, wide; column < dim; column += 8 * wide) {
            eight inside[SCAN_ROWS * SCAN_WIDE], of_state[SCAN_ROWS * SCAN_WIDE];
            wide = columns_at_once(count, (dim - column) / 8);
            multiply(seen, chunk, count, inputs + column, dim, at + count, wide, inside);
            multiply(c, stride, count, state + column, dim, size, wide, of_state);
            for (int r = 0; r < count; r++)
                for (int w = 0; w < wide; w++) {
                    int i = column + 8 * w;
                    eight_store(step->output + (int64_t)(row + r) * inner + head * dim + i,
                                skip_and_gate(inside[r * wide + w], of_state[r * wide + w], before[r],
                                              eight_load(x + r * stride + i), step->d[head],
                                              eight_load(gates + (int64_t)r * step->mixed_stride + i)));
                }
        }
        if (at + count == chunk) hand_on(step, head, position + row);
    }
}

#endif
