/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled call stacks (tacho run --stacks): the tree of a flame graph, and the functions that used
 * the CPU time, by themselves and with what they call. A sample is one period of CPU time of one
 * thread; threads that wait are not sampled.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/pictures/flame_private.h"

#define FUNCTIONS_MOST 200

static int64_t period_of(const struct an_trace *trace)
{
    const char *text = an_trace_key(trace, "stacks.period_ns");
    char *end = NULL;
    long long ns = text ? strtoll(text, &end, 10) : 0;
    return end && !*end && ns > 0 && ns <= 1000000000000 ? ns : 0;
}

/* Frames that every program has: how it and its threads begin, and how CPython gets from one Python
 * function to the next. The picture leaves them out and adds their own time to the caller; tables
 * and exports have all frames. A star at the end of a name matches any end. */
static const char *const left_out[] = {"_start",
                                       "__libc_start_main",
                                       "__libc_start_call_main",
                                       "__GI___clone3",
                                       "__clone3",
                                       "clone3",
                                       "clone",
                                       "start_thread",
                                       "pythread_wrapper",
                                       "thread_run",
                                       "Py_BytesMain",
                                       "Py_RunMain",
                                       "pymain_main*",
                                       "pymain_run_*",
                                       "_PyRun_AnyFileObject",
                                       "_PyRun_SimpleFileObject",
                                       "run_mod",
                                       "run_eval_code_obj",
                                       "PyEval_EvalCode",
                                       "py_trampoline_evaluator",
                                       "_PyEval_Vector",
                                       "_PyEval_EvalFrameDefault",
                                       "PyObject_Vectorcall",
                                       "_PyObject_Vectorcall*",
                                       "_PyFunction_Vectorcall",
                                       "method_vectorcall"};

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        size_t length = strlen(left_out[i]);
        bool prefix = left_out[i][length - 1] == '*';
        if (prefix ? !strncmp(name, left_out[i], length - 1) : !strcmp(name, left_out[i]))
            return true;
    }
    return false;
}

struct picture {
    struct an_flame_node *node; /* 0: the root */
    uint32_t *slot; /* a hash table of places in node, 0: free; its size a power of two */
    size_t count, slots;
};

/* The node of that name below `parent`. */
static uint32_t node_of(struct picture *picture, uint32_t parent, uint32_t name)
{
    size_t place = (size_t)(((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15u >> 20) &
                   (picture->slots - 1);
    for (; picture->slot[place]; place = (place + 1) & (picture->slots - 1))
        if (picture->node[picture->slot[place]].parent == parent &&
            picture->node[picture->slot[place]].name == name)
            return picture->slot[place];
    picture->node[picture->count] = (struct an_flame_node){.name = name, .parent = parent};
    return picture->slot[place] = (uint32_t)picture->count++;
}

/* Builds the tree. Frames of the interpreter are replaced by their parent, unless `all` is set: a
 * program that has no other frames is shown as it is. */
static void place(const struct an_trace *trace, struct picture *picture, uint32_t *where, bool all)
{
    const struct an_stacks *stacks = &trace->stack;
    picture->count = 1;
    memset(picture->slot, 0, picture->slots * sizeof *picture->slot);
    picture->node[0] = (struct an_flame_node){0};
    for (size_t i = 0; i < stacks->count; i++) {
        uint32_t parent = stacks->parent[i] == AN_NONE ? 0 : where[stacks->parent[i]];
        where[i] = !all && is_left_out(an_trace_name(trace, stacks->frame[i]))
                       ? parent
                       : node_of(picture, parent, stacks->frame[i]);
        picture->node[where[i]].count += stacks->samples[i];
    }
}

/* The flame graph of the samples. A child follows its parent, so that sums go backwards. */
static int tree(struct an_context *context, int64_t period)
{
    const struct an_stacks *stacks = &context->trace->stack;
    struct picture picture = {.slots = 64};
    while (picture.slots < 2 * (stacks->count + 1))
        picture.slots *= 2;
    picture.node = calloc(stacks->count + 1, sizeof *picture.node);
    picture.slot = calloc(picture.slots, sizeof *picture.slot);
    uint32_t *where = calloc(stacks->count, sizeof *where);
    int rc = picture.node && picture.slot && where ? 0 : TACHO_ENOMEM;
    if (rc == 0) {
        place(context->trace, &picture, where, false);
        if (picture.count == 1)
            place(context->trace, &picture, where, true);
        for (size_t i = picture.count - 1; i > 0; i--)
            picture.node[picture.node[i].parent].count += picture.node[i].count;
        for (size_t i = 0; i < picture.count; i++)
            picture.node[i].total = picture.node[i].count * period;
        rc = an_flame_rows(context, picture.node, picture.count, "CPU time",
                           "stacks: cpu-clock samples", &context->result->stacks.flame);
    }
    free(picture.node);
    free(picture.slot);
    free(where);
    return rc;
}

static int by_self(const void *left, const void *right)
{
    const struct an_function *first = left, *second = right;
    if (first->self != second->self)
        return first->self < second->self ? 1 : -1;
    if (first->total != second->total)
        return first->total < second->total ? 1 : -1;
    return strcmp(first->name, second->name);
}

/* Samples of each function, by name: in itself and in all. */
struct counts {
    int64_t *self, *total;
    uint32_t *seen; /* the last sample that counted the function, + 1 */
};

/* A function that calls itself counts once in a sample. */
static void count_samples(const struct an_stacks *stacks, struct counts *counts)
{
    for (uint32_t i = 0; i < stacks->count; i++) {
        if (!stacks->samples[i])
            continue;
        if (stacks->frame[i] != AN_NONE)
            counts->self[stacks->frame[i]] += stacks->samples[i];
        for (uint32_t place = i; place != AN_NONE; place = stacks->parent[place]) {
            uint32_t name = stacks->frame[place];
            if (name == AN_NONE || counts->seen[name] == i + 1)
                continue;
            counts->seen[name] = i + 1;
            counts->total[name] += stacks->samples[i];
        }
    }
}

/* Lists the functions, those with most samples of their own first. `all`: samples of the run. */
static int list_functions(struct an_context *context, const struct counts *counts, double all)
{
    const struct an_trace *trace = context->trace;
    size_t count = 0;
    for (size_t i = 0; i < trace->string_count; i++)
        count += counts->total[i] > 0;
    struct an_function *row = an_arena_zero(context->arena, count, sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    count = 0;
    for (uint32_t i = 0; i < trace->string_count; i++)
        if (counts->total[i])
            row[count++] =
                (struct an_function){.name = an_trace_name(trace, i),
                                     .self = counts->self[i],
                                     .total = counts->total[i],
                                     .self_pct = an_num(100.0 * (double)counts->self[i] / all),
                                     .total_pct = an_num(100.0 * (double)counts->total[i] / all)};
    if (count)
        qsort(row, count, sizeof *row, by_self);
    if (count > FUNCTIONS_MOST)
        count = FUNCTIONS_MOST;
    for (size_t i = 0; i < count; i++)
        row[i].name = an_arena_text(context->arena, row[i].name);
    context->result->stacks.function = row;
    context->result->stacks.function_count = count;
    return 0;
}

/* The table of functions, from counts by name. */
static int functions(struct an_context *context, int64_t all)
{
    size_t names = context->trace->string_count;
    struct counts counts = {.self = calloc(names, sizeof *counts.self),
                            .total = calloc(names, sizeof *counts.total),
                            .seen = calloc(names, sizeof *counts.seen)};
    int rc = TACHO_ENOMEM;
    if (counts.self && counts.total && counts.seen) {
        count_samples(&context->trace->stack, &counts);
        rc = list_functions(context, &counts, (double)all);
    }
    free(counts.self);
    free(counts.total);
    free(counts.seen);
    return rc;
}

static void absent(struct an_context *context, const char *reason)
{
    struct an_stack_samples *stack_samples = &context->result->stacks;
    stack_samples->reason = stack_samples->flame.reason = reason;
    stack_samples->samples = an_int_none(reason);
    stack_samples->period_us = stack_samples->cpu_s = an_num_none(reason);
}

/* Makes the picture and the table of functions, or says why there are no samples. */
static int stacks_run(struct an_context *context)
{
    struct an_stack_samples *stack_samples = &context->result->stacks;
    const struct an_stacks *stacks = &context->trace->stack;
    const char *status = an_trace_key(context->trace, "stacks"),
               *kernel = an_trace_key(context->trace, "stacks.kernel");
    int64_t period = period_of(context->trace);
    if (!stacks->all || !stacks->count) {
        const char *reason = "not asked for: tacho run --stacks";
        if (status && !strncmp(status, "not sampled", 11))
            reason = an_arena_text(context->arena, status);
        else if (status)
            reason = "the target used too little CPU time for a sample";
        absent(context, reason);
        return 0;
    }
    const char *no_period = "the file does not say how often it sampled";
    stack_samples->samples = an_int(stacks->all);
    stack_samples->period_us = an_num_if(period, (double)period / 1e3, no_period);
    stack_samples->cpu_s = an_num_if(period, (double)period * (double)stacks->all / 1e9, no_period);
    stack_samples->how = an_arena_text(context->arena, status ? status : "");
    stack_samples->kernel = an_arena_text(context->arena, kernel ? kernel : "");
    int rc = tree(context, period ? period : 1);
    return rc ? rc : functions(context, stacks->all);
}

const struct an_analyzer an_stack_samples = {
    .name = "stacks",
    .help = "sampled call stacks: functions and their CPU time",
    .run = stacks_run,
    .absent = absent,
};
