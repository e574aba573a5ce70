/* The key-value cache and causal attention over it; included once per instruction set, after the row kernels.
 *
 * Keys are stored 32 to a block with the head dimension outside, so a block of scores needs no sum
 * across lanes. Blocks start at absolute positions and a masked key adds exactly nothing: a row gets
 * the same bits whether it comes alone or in a chunk. */
#include <math.h>
#include <stddef.h>

#include "float_kernels.h"
#include "lanes.h"

#define KEY_PARTS (ORK_KEYS / 8)

/* Keys have a few large channels, which one scale for all would drown the others in: in int8 they are rotated
 * before they are quantized, and queries likewise, which leaves their products alone. */
static int rotation_of(int dim) { return dim & -dim; }

static void append(const ork_append_step *step, int row, int position) {
    int dim = step->head_dim, block = position / ORK_KEYS, lane = position % ORK_KEYS;
    for (int head = 0; head < step->kv_heads; head++) {
        const float *key = step->keys + ((int64_t)row * step->kv_heads + head) * dim;
        const float *value = step->values + ((int64_t)row * step->kv_heads + head) * dim;
        int64_t key_at = ((int64_t)head * (step->capacity / ORK_KEYS) + block) * dim * ORK_KEYS + lane;
        int64_t value_at = ((int64_t)head * step->capacity + position) * dim;
        if (step->type == ORK_CACHE_F16) {
            uint16_t *keys = (uint16_t *)step->key_cache + key_at, *values = (uint16_t *)step->value_cache + value_at;
            for (int d = 0; d < dim; d++) keys[d * ORK_KEYS] = half_from_float(key[d]);
            for (int d = 0; d < dim; d++) values[d] = half_from_float(value[d]);
        } else if (step->type == ORK_CACHE_INT8) {
            int64_t scale_at = (int64_t)head * step->capacity + position;
            int8_t *keys = (int8_t *)step->key_cache + key_at, *values = (int8_t *)step->value_cache + value_at;
            int8_t codes[ORK_HEAD_DIM_MAX];
            float key_scale = quantize(key, dim, rotation_of(dim), codes);
            for (int d = 0; d < dim; d++) keys[d * ORK_KEYS] = codes[d];
            float value_scale = quantize(value, dim, 0, codes);
            memcpy(values, codes, (size_t)dim);
            step->key_scales[scale_at] = key_scale;
            /* A key that is not finite would only weigh wrongly; through its value it shows in the result. */
            step->value_scales[scale_at] = key_scale == key_scale ? value_scale : key_scale;
        } else {
            float *keys = (float *)step->key_cache + key_at, *values = (float *)step->value_cache + value_at;
            for (int d = 0; d < dim; d++) keys[d * ORK_KEYS] = key[d];
            for (int d = 0; d < dim; d++) values[d] = value[d];
        }
    }
}

typedef struct {
    float query[ORK_QUERY_ROWS][ORK_HEAD_DIM_MAX]; /* scaled */
    float output[ORK_QUERY_ROWS][ORK_HEAD_DIM_MAX];
    float score[ORK_QUERY_ROWS][ORK_KEYS];
    float weight_sum[ORK_QUERY_ROWS][8];
    float most[ORK_QUERY_ROWS];
    float keys[ORK_HEAD_DIM_MAX * ORK_KEYS];
    float values[ORK_KEYS * ORK_HEAD_DIM_MAX];
} attention_state;

/* A block of keys as floats: in place, or converted into `room`. `scales` are those of its 32 keys. */
static const float *keys_as_floats(const ork_attention_step *step, int64_t at, const float *scales, float *room) {
    int count = step->head_dim * ORK_KEYS;
    if (step->type == ORK_CACHE_F32) return (const float *)step->key_cache + at;
    if (step->type == ORK_CACHE_F16) {
        const uint16_t *from = (const uint16_t *)step->key_cache + at;
        for (int i = 0; i < count; i += 8) eight_store(room + i, eight_from_half(from + i));
        return room;
    }
    const int8_t *from = (const int8_t *)step->key_cache + at;
    eight scale[KEY_PARTS];
    for (int j = 0; j < KEY_PARTS; j++) scale[j] = eight_load(scales + j * 8);
    for (int i = 0; i < count; i += ORK_KEYS)
        for (int j = 0; j < KEY_PARTS; j++)
            eight_store(room + i + j * 8, eight_mul(eight_from_codes(from + i + j * 8), scale[j]));
    return room;
}

/* `count` values as floats: in place, or converted into `room`. */
static const float *values_as_floats(const ork_attention_step *step, int64_t at, const float *scales, int count,
                                     float *room) {
    int dim = step->head_dim;
    if (step->type == ORK_CACHE_F32) return (const float *)step->value_cache + at;
    if (step->type == ORK_CACHE_F16) {
        const uint16_t *from = (const uint16_t *)step->value_cache + at;
        for (int i = 0; i < count * dim; i += 8) eight_store(room + i, eight_from_half(from + i));
        return room;
    }
    const int8_t *from = (const int8_t *)step->value_cache + at;
    for (int key = 0; key < count; key++) {
        eight scale = eight_set(scales[key]);
        for (int i = key * dim; i < (key + 1) * dim; i += 8)
            eight_store(room + i, eight_mul(eight_from_codes(from + i), scale));
    }
    return room;
}

INLINE void score_rows(const float *query, int query_rows, const float *keys, int dim, float *score) {
    eight sum[2][KEY_PARTS];
    for (int r = 0; r < query_rows; r++)
        for (int j = 0; j < KEY_PARTS; j++) sum[r][j] = eight_set(0.0f);
    for (int d = 0; d < dim; d++)
        for (int j = 0; j < KEY_PARTS; j++) {
            eight key = eight_load(keys + d * ORK_KEYS + j * 8);
            for (int r = 0; r < query_rows; r++)
                sum[r][j] = eight_add(sum[r][j], eight_mul(eight_set(query[r * ORK_HEAD_DIM_MAX + d]), key));
        }
    for (int r = 0; r < query_rows; r++)
        for (int j = 0; j < KEY_PARTS; j++) eight_store(score + r * ORK_KEYS + j * 8, sum[r][j]);
}

INLINE void blend_rows(const float *weight, int query_rows, const float *values, int keys, int dim, float *output) {
    for (int d = 0; d < dim; d += 8) {
        eight sum[2];
        for (int r = 0; r < query_rows; r++) sum[r] = eight_load(output + r * ORK_HEAD_DIM_MAX + d);
        for (int j = 0; j < keys; j++) {
            eight value = eight_load(values + (int64_t)j * dim + d);
            for (int r = 0; r < query_rows; r++)
                sum[r] = eight_add(sum[r], eight_mul(eight_set(weight[r * ORK_KEYS + j]), value));
        }
        for (int r = 0; r < query_rows; r++) eight_store(output + r * ORK_HEAD_DIM_MAX + d, sum[r]);
    }
}

/* Turns the scores of one row into weights relative to the largest score so far. */
static void soften(attention_state *state, int row, int dim) {
    float *score = state->score[row];
    eight most = eight_load(score);
    for (int j = 8; j < ORK_KEYS; j += 8) most = eight_max(most, eight_load(score + j));
    float before = state->most[row], now = eight_largest(most);
    if (now > before) {
        if (before > -INFINITY) {
            eight shrink = eight_exp(eight_set(before - now));
            for (int d = 0; d < dim; d += 8)
                eight_store(state->output[row] + d, eight_mul(eight_load(state->output[row] + d), shrink));
            eight_store(state->weight_sum[row], eight_mul(eight_load(state->weight_sum[row]), shrink));
        }
        state->most[row] = now;
    } else {
        now = before;
    }
    if (!(now > -INFINITY)) now = 0.0f; /* everything masked so far: all weights are 0 */
    eight sum = eight_load(state->weight_sum[row]);
    for (int j = 0; j < ORK_KEYS; j += 8) {
        eight weight = eight_exp(eight_sub(eight_load(score + j), eight_set(now)));
        eight_store(score + j, weight);
        sum = eight_add(sum, weight);
    }
    eight_store(state->weight_sum[row], sum);
}

static void attend(const ork_attention_step *step, int head, int first_row, int rows, int position) {
    attention_state state;
    int dim = step->head_dim, blocks = step->capacity / ORK_KEYS;
    int kv_head = head / (step->heads / step->kv_heads);
    int first = position + first_row, last = first + rows - 1;
    for (int r = 0; r < rows; r++) {
        const float *query = step->queries + ((int64_t)(first_row + r) * step->heads + head) * dim;
        if (step->type == ORK_CACHE_INT8) {
            rotate(query, state.query[r], dim, rotation_of(dim));
            query = state.query[r];
        }
        for (int d = 0; d < dim; d++) state.query[r][d] = query[d] * step->scale;
        memset(state.output[r], 0, (size_t)dim * sizeof(float));
        memset(state.weight_sum[r], 0, sizeof state.weight_sum[r]);
        state.most[r] = -INFINITY;
    }
    int start = step->window > 0 && first >= step->window ? first - step->window + 1 : 0;
    for (int block = start / ORK_KEYS; block <= last / ORK_KEYS; block++) {
        int base = block * ORK_KEYS, count = last - base + 1 < ORK_KEYS ? last - base + 1 : ORK_KEYS;
        int64_t scale_at = (int64_t)kv_head * step->capacity + base;
        int coded = step->type == ORK_CACHE_INT8;
        const float *keys = keys_as_floats(step, ((int64_t)kv_head * blocks + block) * dim * ORK_KEYS,
                                           coded ? step->key_scales + scale_at : NULL, state.keys);
        const float *values = values_as_floats(step, scale_at * dim, coded ? step->value_scales + scale_at : NULL,
                                               count, state.values);
        int r = 0;
        for (; r + 1 < rows; r += 2) score_rows(state.query[r], 2, keys, dim, state.score[r]);
        if (r < rows) score_rows(state.query[r], 1, keys, dim, state.score[r]);
        for (r = 0; r < rows; r++) {
            if (step->cap > 0.0f)
                for (int j = 0; j < ORK_KEYS; j += 8)
                    eight_store(state.score[r] + j, eight_cap(eight_load(state.score[r] + j), step->cap));
            int newest = first + r - base;
            int oldest = step->window > 0 ? newest - step->window + 1 : 0;
            for (int j = 0; j < ORK_KEYS; j++)
                if (j > newest || j < oldest) state.score[r][j] = -INFINITY;
            soften(&state, r, dim);
        }
        for (r = 0; r + 1 < rows; r += 2) blend_rows(state.score[r], 2, values, count, dim, state.output[r]);
        if (r < rows) blend_rows(state.score[r], 1, values, count, dim, state.output[r]);
    }
    for (int r = 0; r < rows; r++) {
        float *output = step->output + ((int64_t)(first_row + r) * step->heads + head) * dim;
        float sum = eight_sum(eight_load(state.weight_sum[r]));
        for (int d = 0; d < dim; d++) output[d] = state.output[r][d] / sum;
    }
}
