/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled call stacks (tacho run --stacks): the tree of a flame graph, and which functions the CPU
 * time went to, by themselves and with what they call. A sample stands for one period of CPU time
 * of one thread; threads that wait are not sampled.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/pictures/flame.h"

#define FUNCTIONS_MOST 200

static int64_t period_of(const struct an_trace *t)
{
    const char *text = an_trace_key(t, "stacks.period_ns");
    char *end = NULL;
    long long ns = text ? strtoll(text, &end, 10) : 0;
    return end && !*end && ns > 0 && ns <= 1000000000000 ? ns : 0;
}

/* Frames that say nothing about a program, because every one has them: how it and its threads
 * begin, and how CPython gets from one Python function to the next. The picture leaves them out,
 * their own time goes to who called them; tables and exports have all. A star at the end stands for
 * any end. */
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
        size_t n = strlen(left_out[i]);
        if (left_out[i][n - 1] == '*' ? !strncmp(name, left_out[i], n - 1)
                                      : !strcmp(name, left_out[i]))
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
static uint32_t node_of(struct picture *p, uint32_t parent, uint32_t name)
{
    size_t at =
        (size_t)(((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15u >> 20) & (p->slots - 1);
    for (; p->slot[at]; at = (at + 1) & (p->slots - 1))
        if (p->node[p->slot[at]].parent == parent && p->node[p->slot[at]].name == name)
            return p->slot[at];
    p->node[p->count] = (struct an_flame_node){.name = name, .parent = parent};
    return p->slot[at] = (uint32_t)p->count++;
}

/* Is anything left to see? A program of nothing but such frames is shown as it is. */
static void place(const struct an_trace *t, struct picture *p, uint32_t *where, bool all)
{
    const struct an_stacks *k = &t->stack;
    p->count = 1;
    memset(p->slot, 0, p->slots * sizeof *p->slot);
    p->node[0] = (struct an_flame_node){0};
    for (size_t i = 0; i < k->count; i++) {
        uint32_t parent = k->parent[i] == AN_NONE ? 0 : where[k->parent[i]];
        where[i] = !all && is_left_out(an_trace_name(t, k->frame[i]))
                       ? parent
                       : node_of(p, parent, k->frame[i]);
        p->node[where[i]].count += k->samples[i];
    }
}

static int tree(struct an_context *c, int64_t period)
{
    const struct an_stacks *k = &c->t->stack;
    struct picture p = {.slots = 64};
    while (p.slots < 2 * (k->count + 1))
        p.slots *= 2;
    p.node = calloc(k->count + 1, sizeof *p.node);
    p.slot = calloc(p.slots, sizeof *p.slot);
    uint32_t *where = calloc(k->count, sizeof *where);
    int rc = p.node && p.slot && where ? 0 : TACHO_ENOMEM;
    if (rc == 0) {
        place(c->t, &p, where, false);
        if (p.count == 1)
            place(c->t, &p, where, true);
        for (size_t i = p.count - 1; i > 0; i--)
            p.node[p.node[i].parent].count += p.node[i].count;
        for (size_t i = 0; i < p.count; i++)
            p.node[i].total = p.node[i].count * period;
        rc = an_flame_rows(c, p.node, p.count, "CPU time", "stacks: cpu-clock samples",
                           &c->r->stacks.flame);
    }
    free(p.node);
    free(p.slot);
    free(where);
    return rc;
}

static int by_self(const void *x, const void *y)
{
    const struct an_function *a = x, *b = y;
    if (a->self != b->self)
        return a->self < b->self ? 1 : -1;
    if (a->total != b->total)
        return a->total < b->total ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* A function that calls itself counts once in a sample. */
static int functions(struct an_context *c, int64_t all)
{
    const struct an_trace *t = c->t;
    const struct an_stacks *k = &t->stack;
    int64_t *self = calloc(t->string_count, sizeof *self),
            *total = calloc(t->string_count, sizeof *total);
    uint32_t *seen = calloc(t->string_count, sizeof *seen);
    size_t n = 0;
    struct an_function *row = NULL;
    for (uint32_t i = 0; self && total && seen && i < k->count; i++) {
        if (!k->samples[i])
            continue;
        if (k->frame[i] != AN_NONE)
            self[k->frame[i]] += k->samples[i];
        for (uint32_t at = i; at != AN_NONE; at = k->parent[at])
            if (k->frame[at] != AN_NONE && seen[k->frame[at]] != i + 1) {
                seen[k->frame[at]] = i + 1;
                total[k->frame[at]] += k->samples[i];
            }
    }
    for (size_t i = 0; total && i < t->string_count; i++)
        n += total[i] > 0;
    row = self && total && seen ? an_arena_zero(c->a, n, sizeof *row) : NULL;
    n = 0;
    for (uint32_t i = 0; row && i < t->string_count; i++)
        if (total[i])
            row[n++] =
                (struct an_function){.name = an_trace_name(t, i),
                                     .self = self[i],
                                     .total = total[i],
                                     .self_pct = an_num(100.0 * (double)self[i] / (double)all),
                                     .total_pct = an_num(100.0 * (double)total[i] / (double)all)};
    if (n)
        qsort(row, n, sizeof *row, by_self);
    n = n < FUNCTIONS_MOST ? n : FUNCTIONS_MOST;
    for (size_t i = 0; i < n; i++)
        row[i].name = an_arena_text(c->a, row[i].name);
    c->r->stacks.function = row;
    c->r->stacks.function_count = n;
    free(self);
    free(total);
    free(seen);
    return row ? 0 : TACHO_ENOMEM;
}

static void absent(struct an_context *c, const char *reason)
{
    struct an_stack_samples *s = &c->r->stacks;
    s->reason = s->flame.reason = reason;
    s->samples = an_int_none(reason);
    s->period_us = s->cpu_s = an_num_none(reason);
}

static int stacks_run(struct an_context *c)
{
    struct an_stack_samples *s = &c->r->stacks;
    const struct an_stacks *k = &c->t->stack;
    const char *status = an_trace_key(c->t, "stacks"),
               *kernel = an_trace_key(c->t, "stacks.kernel");
    int64_t period = period_of(c->t);
    if (!k->all || !k->count) {
        absent(c, status && !strncmp(status, "not sampled", 11) ? an_arena_text(c->a, status)
                  : status ? "the target used too little CPU time for a sample"
                           : "not asked for: tacho run --stacks");
        return 0;
    }
    s->samples = an_int(k->all);
    s->period_us = period ? an_num((double)period / 1e3)
                          : an_num_none("the file does not say how often it sampled");
    s->cpu_s =
        period ? an_num((double)period * (double)k->all / 1e9) : an_num_none(s->period_us.reason);
    s->how = an_arena_text(c->a, status ? status : "");
    s->kernel = an_arena_text(c->a, kernel ? kernel : "");
    int rc = tree(c, period ? period : 1);
    return rc ? rc : functions(c, k->all);
}

const struct an_analyzer an_stack_samples = {
    "stacks", "sampled call stacks: functions and their CPU time", 0, stacks_run, absent};
