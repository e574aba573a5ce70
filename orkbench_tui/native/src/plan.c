/* Runs an array of steps over preallocated buffers in one call.
 *
 * A step is cut into units that write different outputs, and threads take units from a counter as
 * they get free: a thread the scheduler took away delays one unit, and no result depends on who
 * computed it. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "dispatch.h"
#include "expert_steps.h"
#include "pool.h"

#define MATMUL_ROWS 16
/* A thread takes about this part of its fair share at once, but not so much that others wait long. */
#define SHARES 8
#define SHARE_MAX 16

/* Units of one step that were given out, and that were finished. */
typedef struct {
    _Atomic int taken;
    _Atomic uint32_t done;
} counters;

typedef struct {
    const ork_step *steps;
    int count, rows, position, threads;
    const ork_kernels *kernels;
    counters *counters;
} plan_run;

static int each_row(const ork_step *step, int rows) { return rows; }

static int each_strip(const ork_step *step, int rows) {
    return rows == 0 ? 0 : (step->as.matmul.n + ORK_TILE - 1) / ORK_TILE;
}

static int each_head(const ork_step *step, int rows) {
    return step->as.attention.heads * ((rows + ORK_QUERY_ROWS - 1) / ORK_QUERY_ROWS);
}

static int once(const ork_step *step, int rows) { return rows > 0; }

static int each_expert_strip(const ork_step *step, int rows) {
    const ork_experts_step *experts = &step->as.experts;
    return rows == 0 ? 0 : experts->experts * ((experts->n + ORK_TILE - 1) / ORK_TILE);
}

static int each_nibble_strip(const ork_step *step, int rows) {
    const ork_nibble_experts_step *experts = &step->as.nibble_experts;
    return rows == 0 ? 0 : experts->experts * ((experts->n + ORK_TILE - 1) / ORK_TILE);
}

static void do_norm(const plan_run *run, const ork_step *any, int row) {
    const ork_norm_step *step = &any->as.norm;
    int64_t at = (int64_t)row * step->groups * step->width;
    for (int group = 0; group < step->groups; group++, at += step->width)
        run->kernels->floats->norm(step->input + at, step->weight + (int64_t)group * step->weight_stride,
                                   step->output + at, step->width, step->epsilon, step->accumulate);
    if (step->codes)
        step->code_scales[row] = run->kernels->floats->quantize(
            step->output + (int64_t)row * step->width, step->width, step->rotation,
            step->codes + (int64_t)row * step->code_stride);
}

static void do_quantize(const plan_run *run, const ork_step *any, int row) {
    const ork_quantize_step *step = &any->as.quantize;
    for (int64_t at = (int64_t)row * step->groups; at < (int64_t)(row + 1) * step->groups; at++)
        step->code_scales[at] = run->kernels->floats->quantize(step->input + at * step->width, step->width,
                                                               step->rotation, step->codes + at * step->code_stride);
}

static void do_matmul(const plan_run *run, const ork_step *any, int strip) {
    const ork_matmul_step *step = &any->as.matmul;
    int32_t sums[MATMUL_ROWS * ORK_TILE];
    int first = strip * ORK_TILE, wide = step->n - first < ORK_TILE ? step->n - first : ORK_TILE;
    const int8_t *tiles = step->tiles + (int64_t)first * step->k;
    for (int row = 0; row < run->rows; row += MATMUL_ROWS) {
        int rows = run->rows - row < MATMUL_ROWS ? run->rows - row : MATMUL_ROWS;
        run->kernels->strip(tiles, step->k, step->codes + (int64_t)row * step->code_stride, step->code_stride, rows,
                            sums);
        for (int r = 0; r < rows; r++)
            run->kernels->floats->dequantize(sums + r * ORK_TILE, step->code_scales[row + r],
                                             step->weight_scales + first, step->bias ? step->bias + first : NULL,
                                             step->output + (int64_t)(row + r) * step->output_stride + first, wide,
                                             step->accumulate);
    }
}

static void do_dequantize(const plan_run *run, const ork_step *any, int row) {
    const ork_dequantize_step *step = &any->as.dequantize;
    run->kernels->floats->dequantize(step->sums + (int64_t)row * step->sum_stride, step->code_scales[row],
                                     step->weight_scales, step->bias,
                                     step->output + (int64_t)row * step->output_stride, step->n, step->accumulate);
}

static void do_add(const plan_run *run, const ork_step *any, int row) {
    const ork_add_step *step = &any->as.add;
    int64_t at = (int64_t)row * step->width;
    run->kernels->floats->add(step->input + at, step->bias, step->output + at, step->width, step->accumulate);
}

static void do_rope(const plan_run *run, const ork_step *any, int row) {
    const ork_rope_step *step = &any->as.rope;
    run->kernels->floats->rope(step, step->values + (int64_t)row * step->heads * step->head_dim, run->position + row);
}

static void do_append(const plan_run *run, const ork_step *any, int row) {
    run->kernels->floats->append(&any->as.append, row, run->position + row);
}

static int each_channels(const ork_step *step, int rows) { return rows == 0 ? 0 : (step->as.convolve.width + 7) / 8; }

static int each_scan_group(const ork_step *step, int rows) { return rows == 0 ? 0 : step->as.scan.groups; }

static int each_scan_head(const ork_step *step, int rows) { return rows == 0 ? 0 : step->as.scan.heads; }

static void do_convolve(const plan_run *run, const ork_step *any, int unit) {
    int channel = unit * 8, left = any->as.convolve.width - channel;
    run->kernels->floats->convolve(&any->as.convolve, channel, left < 8 ? left : 8, run->rows, run->position);
}

#define SCAN_WORK(NAME)                                                                    \
    static void do_##NAME(const plan_run *run, const ork_step *any, int unit) {            \
        run->kernels->floats->NAME(&any->as.scan, unit, run->rows, run->position);         \
    }
SCAN_WORK(scan_products)
SCAN_WORK(scan)
SCAN_WORK(scan_operands)
SCAN_WORK(scan_inside)
SCAN_WORK(scan_carry)
SCAN_WORK(scan_finish)

static void do_attention(const plan_run *run, const ork_step *any, int unit) {
    const ork_attention_step *step = &any->as.attention;
    int head = unit % step->heads, row = unit / step->heads * ORK_QUERY_ROWS;
    int rows = run->rows - row < ORK_QUERY_ROWS ? run->rows - row : ORK_QUERY_ROWS;
    run->kernels->floats->attend(step, head, row, rows, run->position);
}

static void do_gated(const plan_run *run, const ork_step *any, int row) {
    const ork_gated_step *step = &any->as.gated;
    int64_t at = (int64_t)row * step->width;
    run->kernels->floats->gate(step->gate + at, step->up + at, step->output + at, step->width, step->function);
    if (step->codes)
        step->code_scales[row] = run->kernels->floats->quantize(step->output + at, step->width, step->rotation,
                                                                step->codes + (int64_t)row * step->code_stride);
}

static void do_cap(const plan_run *run, const ork_step *any, int row) {
    const ork_cap_step *step = &any->as.cap;
    run->kernels->floats->cap(step->values + (int64_t)row * step->width, step->width, step->limit);
}

static void do_route(const plan_run *run, const ork_step *any, int row) {
    ork_route(run->kernels, &any->as.route, row);
}

static void do_group(const plan_run *run, const ork_step *any, int unit) { ork_group(&any->as.group, run->rows); }

static void do_gather(const plan_run *run, const ork_step *any, int row) { ork_gather(&any->as.gather, row); }

static void do_experts(const plan_run *run, const ork_step *any, int unit) {
    ork_expert_strip(run->kernels, &any->as.experts, unit);
}

static void do_nibble_experts(const plan_run *run, const ork_step *any, int unit) {
    ork_nibble_expert_strip(run->kernels, &any->as.nibble_experts, unit);
}

static void do_combine(const plan_run *run, const ork_step *any, int row) { ork_combine(&any->as.combine, row); }

static const struct {
    int (*units)(const ork_step *step, int rows);
    void (*work)(const plan_run *run, const ork_step *step, int unit);
} kinds[ORK_STEP_KINDS] = {
    [ORK_NORM] = {each_row, do_norm},
    [ORK_QUANTIZE] = {each_row, do_quantize},
    [ORK_MATMUL] = {each_strip, do_matmul},
    [ORK_DEQUANTIZE] = {each_row, do_dequantize},
    [ORK_ADD] = {each_row, do_add},
    [ORK_ROPE] = {each_row, do_rope},
    [ORK_APPEND] = {each_row, do_append},
    [ORK_ATTENTION] = {each_head, do_attention},
    [ORK_GATED] = {each_row, do_gated},
    [ORK_CAP] = {each_row, do_cap},
    [ORK_ROUTE] = {each_row, do_route},
    [ORK_GROUP] = {once, do_group},
    [ORK_GATHER] = {each_row, do_gather},
    [ORK_EXPERTS] = {each_expert_strip, do_experts},
    [ORK_COMBINE] = {each_row, do_combine},
    [ORK_NIBBLE_EXPERTS] = {each_nibble_strip, do_nibble_experts},
    [ORK_CONVOLVE] = {each_channels, do_convolve},
    [ORK_SCAN_PRODUCTS] = {each_scan_group, do_scan_products},
    [ORK_SCAN] = {each_scan_head, do_scan},
    [ORK_SCAN_OPERANDS] = {each_scan_group, do_scan_operands},
    [ORK_SCAN_INSIDE] = {each_scan_head, do_scan_inside},
    [ORK_SCAN_CARRY] = {each_scan_head, do_scan_carry},
    [ORK_SCAN_FINISH] = {each_scan_head, do_scan_finish},
};

/* Takes units of a step while there are any. */
static void take_part(plan_run *run, int index) {
    const ork_step *step = &run->steps[index];
    counters *of = &run->counters[index];
    int units = kinds[step->kind].units(step, run->rows);
    int share = units / (run->threads * SHARES);
    share = share < 1 ? 1 : share > SHARE_MAX ? SHARE_MAX : share;
    while (atomic_load_explicit(&of->taken, memory_order_relaxed) < units) {
        int first = atomic_fetch_add_explicit(&of->taken, share, memory_order_relaxed);
        int end = first + share < units ? first + share : units;
        if (first >= end) return;
        for (int unit = first; unit < end; unit++) kinds[step->kind].work(run, step, unit);
        if (atomic_fetch_add(&of->done, (uint32_t)(end - first)) + (uint32_t)(end - first) == (uint32_t)units)
            ork_wake(&of->done);
    }
}

/* A step is over when its units are done, not when every thread has been there: a thread that holds no
 * unit keeps nobody waiting. */
static void follow(void *argument, int thread) {
    plan_run *run = argument;
    int unjoined = 0;
    for (int i = 0; i < run->count; i++) {
        take_part(run, i);
        if (!run->steps[i].join) continue;
        for (; unjoined <= i; unjoined++) {
            const ork_step *step = &run->steps[unjoined];
            ork_await(&run->counters[unjoined].done, (uint32_t)kinds[step->kind].units(step, run->rows));
        }
    }
}

int ork_plan_run(const ork_step *steps, int32_t count, int32_t rows, int32_t position, int32_t threads) {
    for (int i = 0; i < count; i++)
        if (steps[i].kind < 0 || steps[i].kind >= ORK_STEP_KINDS) return -1;
    if (threads < 1) threads = 1;
    counters *room = calloc((size_t)count + 1, sizeof *room);
    if (room == NULL) return -2;
    plan_run run = {steps, count, rows, position, threads, ork_chosen_kernels(), room};
    ork_parallel(follow, &run, threads);
    free(room);
    return 0;
}
