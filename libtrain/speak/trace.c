/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges and counters of the engine: each goes to NVTX and, where asked for, to the timers. Names
 * and schemas are registered once, when the trace is made.
 */
#include "libtrain/speak/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libtrain/speak/operands.h"
#include "libtrain/speak/timers.h"
#include "tacho_nvtx.h"

struct lt_trace {
    struct tacho_nvtx nvtx;
    nvtxStringHandle_t range[LT_RANGE_COUNT];
    uint64_t counter[LT_COUNTER_COUNT];
    struct lt_timers *timers;     /* NULL: off */
    struct lt_operands *operands; /* NULL: no tool is attached */
    int ops;
    const char **names; /* ops, then ranges: the ids of the timers */
    void (*watch)(void *arg, const struct tacho_comm *comm);
    void *watch_arg;
    nvtxStringHandle_t op[];
};

static const char *const range_names[LT_RANGE_COUNT] = {
#define ROW(id, name, kind) [LT_RANGE_##id] = (name),
    LT_RANGE_MAP(ROW)
#undef ROW
};

static const uint32_t range_kinds[LT_RANGE_COUNT] = {
#define ROW(id, name, kind) [LT_RANGE_##id] = TACHO_RANGE_##kind,
    LT_RANGE_MAP(ROW)
#undef ROW
};

static const char *const counter_names[LT_COUNTER_COUNT] = {
#define ROW(id, name) [LT_COUNTER_##id] = (name),
    LT_COUNTER_MAP(ROW)
#undef ROW
};

/* A stage of the loader that runs in line, on the step's thread, is input: the step waits for it.
 */
static enum lt_class range_class(uint32_t kind)
{
    switch (kind) {
    case TACHO_RANGE_INPUT_WAIT:
    case TACHO_RANGE_READ:
    case TACHO_RANGE_DECODE:
    case TACHO_RANGE_COLLATE:
    case TACHO_RANGE_QUEUE_WAIT:
    case TACHO_RANGE_PIN:
        return LT_CLASS_INPUT;
    case TACHO_RANGE_COMM_WAIT:
        return LT_CLASS_COMM;
    default:
        return LT_CLASS_HOST;
    }
}

int lt_trace_create(struct lt_trace **out, const char *const *op_names, int ops, int timers)
{
    int rc = TACHO_ENOMEM;
    struct lt_trace *trace = calloc(1, sizeof *trace + (size_t)ops * sizeof *trace->op);
    if (!trace)
        return rc;
    trace->names = calloc((size_t)ops + LT_RANGE_COUNT, sizeof *trace->names);
    if (!trace->names)
        goto fail;
    trace->ops = ops;
    tacho_nvtx_open(&trace->nvtx, "libtrain");
    for (int i = 0; i < ops; i++) {
        trace->names[i] = op_names[i];
        trace->op[i] = tacho_nvtx_name(&trace->nvtx, op_names[i]);
    }
    for (int i = 0; i < LT_RANGE_COUNT; i++) {
        trace->names[ops + i] = range_names[i];
        trace->range[i] = tacho_nvtx_name(&trace->nvtx, range_names[i]);
    }
    for (int i = 0; i < LT_COUNTER_COUNT; i++)
        trace->counter[i] = tacho_nvtx_counter(&trace->nvtx, counter_names[i]);
    if (trace->nvtx.operation) {
        trace->operands = lt_operands_new();
        if (!trace->operands)
            goto fail;
    }
    if (timers) {
        rc = lt_timers_create(&trace->timers, trace->names, ops + LT_RANGE_COUNT);
        if (rc)
            goto fail;
        lt_timers_thread(trace->timers, "main");
    }
    *out = trace;
    return 0;
fail:
    lt_operands_free(trace->operands);
    free(trace->names);
    free(trace);
    return rc;
}

void lt_trace_destroy(struct lt_trace *trace)
{
    if (!trace)
        return;
    lt_timers_destroy(trace->timers);
    lt_operands_free(trace->operands);
    free(trace->names);
    free(trace);
}

void lt_trace_thread(struct lt_trace *trace, const char *name)
{
    pthread_setname_np(pthread_self(), name);
    nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), name);
    if (trace && trace->timers)
        lt_timers_thread(trace->timers, name);
}

void lt_trace_forked(struct lt_trace *trace)
{
    if (trace && trace->timers)
        lt_timers_forked(trace->timers);
}

size_t lt_trace_lane_bytes(const struct lt_trace *trace)
{
    return trace && trace->timers ? lt_timers_lane_bytes(trace->timers) : 0;
}

void lt_trace_save(struct lt_trace *trace, void *target)
{
    if (trace && trace->timers)
        lt_timers_save(trace->timers, target);
}

void lt_trace_add(struct lt_trace *trace, const void *from)
{
    if (trace && trace->timers)
        lt_timers_add(trace->timers, from);
}

/* Here and below the engine's clock is read just before NVTX is called, at both ends, and the books
 * are kept outside of what was read: a tool that reads its clock inside the call sees the range
 * shifted a little, not longer or shorter. */
void lt_trace_op_begin(struct lt_trace *trace, int op, const struct tacho_work *work,
                       const struct lt_operand *operand, size_t operands)
{
    if (!trace)
        return;
    struct tacho_operation operation = {.work = *work};
    if (operands)
        operation.operands = lt_operands_text(trace->operands, &trace->nvtx, operand, operands);
    if (trace->timers)
        lt_timers_begin(trace->timers, op, LT_CLASS_COMPUTE, work, NULL);
    if (operation.operands)
        tacho_nvtx_push_operation(&trace->nvtx, trace->op[op], &operation);
    else
        tacho_nvtx_push_work(&trace->nvtx, trace->op[op], work);
}

bool lt_trace_wants_operands(const struct lt_trace *trace)
{
    return trace && trace->operands;
}

void lt_trace_work_begin(struct lt_trace *trace, enum lt_range range, const struct tacho_work *work)
{
    if (!trace)
        return;
    if (trace->timers)
        lt_timers_begin(trace->timers, trace->ops + (int)range, LT_CLASS_COMPUTE, work, NULL);
    tacho_nvtx_push_work(&trace->nvtx, trace->range[range], work);
}

void lt_trace_begin(struct lt_trace *trace, enum lt_range range, uint64_t bytes, uint64_t samples)
{
    if (!trace)
        return;
    struct tacho_range payload = {.bytes = bytes, .samples = samples, .kind = range_kinds[range]};
    if (trace->timers)
        lt_timers_begin(trace->timers, trace->ops + (int)range, range_class(payload.kind), NULL,
                        NULL);
    tacho_nvtx_push_range(&trace->nvtx, trace->range[range], &payload);
}

void lt_trace_watch(struct lt_trace *trace, void (*watch)(void *arg, const struct tacho_comm *comm),
                    void *arg)
{
    if (!trace)
        return;
    trace->watch = watch;
    trace->watch_arg = arg;
}

/* `watched`: what the watch is told of it. */
static void comm_begin(struct lt_trace *trace, enum lt_range range, const struct tacho_comm *comm,
                       const struct tacho_comm *watched)
{
    if (!trace)
        return;
    if (trace->watch)
        trace->watch(trace->watch_arg, watched);
    if (trace->timers)
        lt_timers_begin(trace->timers, trace->ops + (int)range, LT_CLASS_COMM, NULL, NULL);
    tacho_nvtx_push_comm(&trace->nvtx, trace->range[range], comm);
}

void lt_trace_comm_begin(struct lt_trace *trace, enum lt_range range, const struct tacho_comm *comm)
{
    comm_begin(trace, range, comm, comm);
}

void lt_trace_comm_begin_uneven(struct lt_trace *trace, enum lt_range range,
                                const struct tacho_comm *comm)
{
    struct tacho_comm watched = *comm;
    watched.bytes = 0;
    comm_begin(trace, range, comm, &watched);
}

void lt_trace_step_begin(struct lt_trace *trace, const struct tacho_step *step)
{
    if (!trace)
        return;
    if (trace->timers)
        lt_timers_begin(trace->timers, trace->ops + LT_RANGE_STEP, LT_CLASS_UNATTRIBUTED, NULL,
                        step);
    tacho_nvtx_push_step(&trace->nvtx, trace->range[LT_RANGE_STEP], step);
}

void lt_trace_end(struct lt_trace *trace)
{
    if (!trace)
        return;
    int64_t end = trace->timers ? lt_timers_now() : 0;
    tacho_nvtx_pop(&trace->nvtx);
    if (trace->timers)
        lt_timers_end(trace->timers, end);
}

void lt_trace_op_end(struct lt_trace *trace)
{
    lt_trace_end(trace);
}

void lt_trace_step_end(struct lt_trace *trace)
{
    lt_trace_end(trace);
}

void lt_trace_count(struct lt_trace *trace, enum lt_counter counter, double value)
{
    if (!trace)
        return;
    tacho_nvtx_sample(&trace->nvtx, trace->counter[counter], value);
    if (trace->timers)
        lt_timers_count(trace->timers);
}

uint64_t lt_trace_series(struct lt_trace *trace, const char *name)
{
    return trace ? tacho_nvtx_counter(&trace->nvtx, name) : 0;
}

void lt_trace_value(struct lt_trace *trace, uint64_t series, double value)
{
    if (!trace)
        return;
    tacho_nvtx_sample(&trace->nvtx, series, value);
    if (trace->timers)
        lt_timers_count(trace->timers);
}

void lt_trace_mark(struct lt_trace *trace, const char *name)
{
    struct tacho_range payload = {.kind = TACHO_RANGE_HOST};
    if (!trace)
        return;
    tacho_nvtx_push_range(&trace->nvtx, tacho_nvtx_name(&trace->nvtx, name), &payload);
    tacho_nvtx_pop(&trace->nvtx);
}

const struct lt_timers_step *lt_trace_steps(const struct lt_trace *trace, size_t *count)
{
    *count = 0;
    return trace && trace->timers ? lt_timers_steps(trace->timers, count) : NULL;
}

int lt_trace_write(const struct lt_trace *trace, const char *path, struct tacho_error *err)
{
    if (!trace->timers)
        return tacho_fail(err, TACHO_EUSAGE, NULL, "%s: the timers are off", path);
    return lt_timers_write(trace->timers, path, err);
}
