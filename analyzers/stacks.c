/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled call stacks (tacho run --stacks): the tree of a flame graph, and which functions the CPU time went to, by themselves
 * and with what they call. A sample stands for one period of CPU time of one thread; threads that wait are not sampled.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/flame.h"

#define FUNCTIONS_MOST 200

static int64_t period_of(const struct an_trace *t)
{
    const char *text = an_trace_key(t, "stacks.period_ns");
    char *end = NULL;
    long long ns = text ? strtoll(text, &end, 10) : 0;
    return end && !*end && ns > 0 && ns <= 1000000000000 ? ns : 0;
}

static int tree(struct an_context *c, int64_t period)
{
    const struct an_stacks *k = &c->t->stack;
    struct an_flame_node *node = calloc(k->count + 1, sizeof *node);
    if (!node)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < k->count; i++)
        node[i + 1] = (struct an_flame_node){
            .name = k->frame[i], .parent = k->parent[i] == AN_NONE ? 0 : k->parent[i] + 1, .count = k->samples[i]};
    for (size_t i = k->count; i > 0; i--)
        node[node[i].parent].count += node[i].count;
    for (size_t i = 0; i <= k->count; i++)
        node[i].total = node[i].count * period;
    int rc = an_flame_rows(c, node, k->count + 1, "CPU time", "stacks: cpu-clock samples", &c->r->stacks.flame);
    free(node);
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
    int64_t *self = calloc(t->string_count, sizeof *self), *total = calloc(t->string_count, sizeof *total);
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
            row[n++] = (struct an_function){.name = an_trace_name(t, i),
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
    const char *status = an_trace_key(c->t, "stacks"), *kernel = an_trace_key(c->t, "stacks.kernel");
    int64_t period = period_of(c->t);
    if (!k->all || !k->count) {
        absent(c, status && !strncmp(status, "not sampled", 11) ? an_arena_text(c->a, status)
                  : status                                      ? "the target used too little CPU time for a sample"
                                                                : "not asked for: tacho run --stacks");
        return 0;
    }
    s->samples = an_int(k->all);
    s->period_us = period ? an_num((double)period / 1e3) : an_num_none("the file does not say how often it sampled");
    s->cpu_s = period ? an_num((double)period * (double)k->all / 1e9) : an_num_none(s->period_us.reason);
    s->how = an_arena_text(c->a, status ? status : "");
    s->kernel = an_arena_text(c->a, kernel ? kernel : "");
    int rc = tree(c, period ? period : 1);
    return rc ? rc : functions(c, k->all);
}

const struct an_analyzer an_stack_samples = {"stacks", "sampled call stacks: functions and their CPU time", 0, stacks_run,
                                             absent};
