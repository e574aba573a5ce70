/* Rows are sorted by expert, so that a weight is read once however many rows want it. Every row gets the
 * same bits whichever rows it comes with. */
#include "expert_steps.h"

#include <string.h>

#define SLOTS_AT_ONCE 16
/* Decoding is paid once for so many. */
#define NIBBLE_SLOTS_AT_ONCE 64
/* What the shares are divided by is at least this: the smallest normal half-precision number. */
#define SMALLEST_SUM 6.103515625e-5f

void ork_route(const ork_kernels *kernels, const ork_route_step *step, int row) {
    float chance[ORK_EXPERTS_MAX];
    kernels->floats->chances(step->input + (int64_t)row * step->width, step->router, step->width, step->experts, chance);
    int32_t *chosen = step->chosen + (int64_t)row * step->used;
    float *shares = step->shares + (int64_t)row * step->used, sum = 0.0f;
    for (int i = 0; i < step->used; i++) {
        int best = 0;
        for (int e = 1; e < step->experts; e++)
            if (chance[e] > chance[best]) best = e;
        chosen[i] = best;
        shares[i] = chance[best];
        sum += chance[best];
        chance[best] = -1.0f;
    }
    if (sum < SMALLEST_SUM) sum = SMALLEST_SUM;
    for (int i = 0; i < step->used; i++) shares[i] /= sum;
}

void ork_group(const ork_group_step *step, int rows) {
    int count = rows * step->used;
    memset(step->offsets, 0, ((size_t)step->experts + 1) * sizeof(int32_t));
    for (int i = 0; i < count; i++) step->offsets[step->chosen[i] + 1]++;
    for (int e = 0; e < step->experts; e++) step->offsets[e + 1] += step->offsets[e];
    /* offsets[e] moves to the end of e while its slots are given out, which is where e + 1 begins. */
    for (int i = 0; i < count; i++) step->slots[i] = step->offsets[step->chosen[i]]++;
    for (int e = step->experts; e > 0; e--) step->offsets[e] = step->offsets[e - 1];
    step->offsets[0] = 0;
}

void ork_gather(const ork_gather_step *step, int row) {
    for (int i = 0; i < step->used; i++) {
        int64_t slot = step->slots[(int64_t)row * step->used + i];
        memcpy(step->grouped + slot * step->code_stride, step->codes + (int64_t)row * step->code_stride,
               (size_t)step->code_stride);
        step->grouped_scales[slot] = step->code_scales[row];
    }
}

void ork_expert_strip(const ork_kernels *kernels, const ork_experts_step *step, int unit) {
    int strips = (step->n + ORK_TILE - 1) / ORK_TILE, expert = unit / strips, first = unit % strips * ORK_TILE;
    int wide = step->n - first < ORK_TILE ? step->n - first : ORK_TILE;
    const int8_t *tiles = (const int8_t *)step->tiles[expert] + (int64_t)first * step->k;
    const float *scales = (const float *)step->weight_scales[expert] + first;
    int32_t sums[SLOTS_AT_ONCE * ORK_TILE];
    int end = step->offsets[expert + 1];
    for (int slot = step->offsets[expert]; slot < end; slot += SLOTS_AT_ONCE) {
        int slots = end - slot < SLOTS_AT_ONCE ? end - slot : SLOTS_AT_ONCE;
        kernels->strip(tiles, step->k, step->codes + (int64_t)slot * step->code_stride, step->code_stride, slots, sums);
        for (int i = 0; i < slots; i++)
            kernels->floats->dequantize(sums + i * ORK_TILE, step->code_scales[slot + i], scales, NULL,
                                        step->output + (int64_t)(slot + i) * step->n + first, wide, 0);
    }
}

void ork_nibble_expert_strip(const ork_kernels *kernels, const ork_nibble_experts_step *step, int unit) {
    int strips = (step->n + ORK_TILE - 1) / ORK_TILE, expert = unit / strips, first = unit % strips * ORK_TILE;
    int wide = step->n - first < ORK_TILE ? step->n - first : ORK_TILE;
    ork_nibble_strip strip = {
        .nibbles = (const uint8_t *)step->nibbles[expert] + (int64_t)first * (step->k / 2),
        .levels = step->levels,
        .k = step->k,
        .group = step->group,
        .outputs = wide,
    };
    if (step->multipliers)
        strip.multipliers = (const int8_t *)step->multipliers[expert] + (int64_t)first * (step->k / step->group);
    const float *scales = (const float *)step->weight_scales[expert] + first;
    int32_t sums[NIBBLE_SLOTS_AT_ONCE * ORK_TILE];
    int end = step->offsets[expert + 1];
    for (int slot = step->offsets[expert]; slot < end; slot += NIBBLE_SLOTS_AT_ONCE) {
        int slots = end - slot < NIBBLE_SLOTS_AT_ONCE ? end - slot : NIBBLE_SLOTS_AT_ONCE;
        kernels->nibbles(&strip, step->codes + (int64_t)slot * step->code_stride, step->code_stride, slots, sums);
        for (int i = 0; i < slots; i++)
            kernels->floats->dequantize(sums + i * ORK_TILE, step->code_scales[slot + i], scales, NULL,
                                        step->output + (int64_t)(slot + i) * step->n + first, wide, 0);
    }
}

void ork_combine(const ork_combine_step *step, int row) {
    float *output = step->output + (int64_t)row * step->width;
    const float *shares = step->shares + (int64_t)row * step->used;
    const int32_t *slots = step->slots + (int64_t)row * step->used;
    for (int i = 0; i < step->used; i++) {
        const float *input = step->input + (int64_t)slots[i] * step->width;
        for (int d = 0; d < step->width; d++) output[d] += shares[i] * input[d];
    }
}
