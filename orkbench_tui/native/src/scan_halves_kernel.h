/* The scan of scan_kernel.h with its two wide products left to something that multiplies halves: what comes
 * before, between and after them. See ork_scan_halves. */
#ifndef ORK_SCAN_HALVES_KERNEL_H
#define ORK_SCAN_HALVES_KERNEL_H

#include "scan_kernel.h"

#define HALF_TILE_COLUMNS 16
#define HALF_TILE_DEPTH 32

typedef struct {
    float factor, undo;
} half_scale;

/* The power of two that brings the largest value just below the largest half, so that as few as possible fall below
 * the smallest. Zeros for values that are not finite, undone by NaN. */
static half_scale scale_for_halves(const float *values, int64_t count) {
    eight most = eight_set(0.0f), odd = eight_set(0.0f);
    for (int64_t i = 0; i < count; i += 8) {
        eight v = eight_load(values + i);
        most = eight_max(most, eight_abs(v));
        odd = eight_add(odd, eight_mul(v, eight_set(0.0f)));
    }
    float largest = eight_largest(most);
    if (eight_sum(odd) != 0.0f) return (half_scale){0.0f, NAN};
    if (largest < 0x1p-100f) return (half_scale){1.0f, 1.0f};
    int exponent;
    frexpf(largest, &exponent);
    return (half_scale){ldexpf(1.0f, 15 - exponent), ldexpf(1.0f, exponent - 15)};
}

static void to_halves(const float *values, int64_t count, float factor, uint16_t *halves) {
    for (int64_t i = 0; i < count; i += 8) {
        eight v = eight_mul(eight_load(values + i), eight_set(factor));
        eight_to_half(halves + i, factor == 0.0f ? eight_set(0.0f) : v);
    }
}

/* values [depth][columns] as halves into columns column .. column + columns - 1 of weight tiles of that depth. */
static void to_tiles(const float *values, int depth, int columns, float factor, uint16_t *tiles, int column) {
    for (int first = 0; first < columns; first += HALF_TILE_COLUMNS)
        for (int at = 0; at < depth; at += HALF_TILE_DEPTH) {
            uint16_t halves[HALF_TILE_DEPTH][HALF_TILE_COLUMNS];
            uint16_t *tile = tiles + (int64_t)(column + first) * depth + (int64_t)at * HALF_TILE_COLUMNS;
            for (int k = 0; k < HALF_TILE_DEPTH; k++)
                to_halves(values + (int64_t)(at + k) * columns + first, HALF_TILE_COLUMNS, factor, halves[k]);
            for (int n = 0; n < HALF_TILE_COLUMNS; n++)
                for (int k = 0; k < HALF_TILE_DEPTH; k++) tile[n * HALF_TILE_DEPTH + k] = halves[k][n];
        }
}

/* Rows first .. first + count - 1 of a run are those of its chunk number `index` from `at` on; `full` at its last row. */
typedef struct {
    int index, first, count, at, full;
} chunk_part;

static inline int next_part(const ork_scan_step *step, int rows, int position, chunk_part *part) {
    int first = part->first + part->count;
    if (first >= rows) return 0;
    int at = (position + first) % step->chunk;
    int count = rows - first < step->chunk - at ? rows - first : step->chunk - at;
    *part = (chunk_part){part->index + 1, first, count, at, at + count == step->chunk};
    return 1;
}

#define EACH_PART_OF_RUN(PART) \
    for (chunk_part PART = {-1, 0, 0, 0, 0}; next_part(step, rows, position, &PART);)

/* C of one group row by row, and B of the chunks that get full. */
static void scan_operands(const ork_scan_step *step, int group, int rows, int position) {
    const ork_scan_halves *halves = step->halves;
    int size = step->state_size, inner = step->heads * step->head_dim;
    EACH_PART_OF_RUN(part) {
        int entry = part.index * step->groups + group;
        for (int r = 0; r < part.count; r++) {
            int64_t row = part.first + r;
            const float *c = scan_row(step, row) + inner + (step->groups + group) * size;
            half_scale scale = scale_for_halves(c, size);
            to_halves(c, size, scale.factor, halves->read_rows[entry] + (int64_t)(part.at + r) * size);
            halves->row_scales[row * step->groups + group] = scale.undo;
        }
        if (!part.full) continue;
        int64_t count = (int64_t)size * step->chunk;
        const float *b = scan_writes(step, group, position + part.first);
        half_scale scale = scale_for_halves(b, count);
        to_halves(b, count, scale.factor, halves->add_rows[entry]);
        halves->chunk_scales[entry] = scale.undo;
    }
}

/* One head: its rows told, what they see of each other, the skip, and the inputs of the chunks that get full. */
static void scan_inside(const ork_scan_step *step, int head, int rows, int position) {
    const ork_scan_halves *halves = step->halves;
    int chunk = step->chunk, dim = step->head_dim, inner = step->heads * dim, heads = step->heads / step->groups;
    float *inputs = step->inputs + (int64_t)head * chunk * dim;
    const float *decays = step->decays + (int64_t)head * (chunk + 1);
    eight d = eight_set(step->d[head]);
    EACH_PART_OF_RUN(part) {
        for (int done = 0, count; done < part.count; done += count) {
            float seen[SCAN_ROWS * ORK_SCAN_CHUNK_MAX], before[SCAN_ROWS];
            int64_t row = part.first + done;
            int at = part.at + done;
            count = rows_at_once(step, part.first + done, rows, at);
            take_rows(step, head, (int)row, at, count, seen, before);
            for (int column = 0, wide; column < dim; column += 8 * wide) {
                eight sums[SCAN_ROWS * SCAN_WIDE];
                wide = columns_at_once(count, (dim - column) / 8);
                multiply(seen, chunk, count, inputs + column, dim, at + count, wide, sums);
                for (int r = 0; r < count; r++)
                    for (int w = 0; w < wide; w++) {
                        int i = head * dim + column + 8 * w;
                        eight x = eight_load(scan_row(step, row + r) + i);
                        eight_store(step->output + (row + r) * inner + i,
                                    eight_add(sums[r * wide + w], eight_mul(x, d)));
                    }
            }
            for (int r = 0; r < count; r++) halves->before[(row + r) * step->heads + head] = before[r];
        }
        if (!part.full) continue;
        for (int u = 0; u < chunk; u++)
            for (int i = 0; i < dim; i++) inputs[u * dim + i] *= decays[u];
        half_scale scale = scale_for_halves(inputs, (int64_t)chunk * dim);
        to_tiles(inputs, chunk, dim, scale.factor, halves->add_tiles[part.index * step->groups + head / heads],
                 head % heads * dim);
        halves->input_scales[part.index * step->heads + head] = scale.undo;
        halves->spans[part.index * step->heads + head] = decays[chunk];
    }
}

/* One head: its state at the beginning of each chunk, from what the chunks before it added. */
static void scan_carry(const ork_scan_step *step, int head, int rows, int position) {
    const ork_scan_halves *halves = step->halves;
    int size = step->state_size, dim = step->head_dim, heads = step->heads / step->groups, width = heads * dim;
    int group = head / heads, column = head % heads * dim;
    float *state = step->state + (int64_t)head * size * dim;
    if (position == 0) memset(state, 0, sizeof(float) * (size_t)dim * (size_t)size);
    EACH_PART_OF_RUN(part) {
        int entry = part.index * step->groups + group, mine = part.index * step->heads + head;
        half_scale scale = scale_for_halves(state, (int64_t)size * dim);
        to_tiles(state, size, dim, scale.factor, halves->read_tiles[entry], column);
        halves->state_scales[mine] = scale.undo;
        if (!part.full) continue;
        eight kept = eight_set(halves->spans[mine]);
        eight undo = eight_set(halves->chunk_scales[entry] * halves->input_scales[mine]);
        for (int n = 0; n < size; n++)
            for (int i = 0; i < dim; i += 8) {
                eight added = eight_mul(eight_load(halves->add[entry] + (int64_t)n * width + column + i), undo);
                float *at = state + (int64_t)n * dim + i;
                eight_store(at, eight_add(eight_mul(eight_load(at), kept), added));
            }
    }
}

/* One head: what the state gave to each row, and the gate. */
static void scan_finish(const ork_scan_step *step, int head, int rows, int position) {
    const ork_scan_halves *halves = step->halves;
    int dim = step->head_dim, inner = step->heads * dim, heads = step->heads / step->groups, width = heads * dim;
    int group = head / heads, column = head % heads * dim;
    eight none = eight_set(0.0f);
    EACH_PART_OF_RUN(part) {
        const float *read = halves->read[part.index * step->groups + group];
        float state_scale = halves->state_scales[part.index * step->heads + head];
        for (int r = 0; r < part.count; r++) {
            int64_t row = part.first + r;
            float *output = step->output + row * inner + head * dim;
            const float *gates = step->mixed + row * step->mixed_stride + head * dim;
            float factor = halves->before[row * step->heads + head] *
                           (halves->row_scales[row * step->groups + group] * state_scale);
            for (int i = 0; i < dim; i += 8) {
                eight of_state = eight_load(read + (int64_t)(part.at + r) * width + column + i);
                eight_store(output + i, skip_and_gate(eight_load(output + i), of_state, factor, none, 0.0f,
                                                      eight_load(gates + i)));
            }
        }
    }
}

#endif
