/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that edits and sensitivities name: what part of the work each replayed node is.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/sensitivity.h"

#define ROW_UNKNOWN 0xff

static size_t row_named(struct an_context *c, struct an_rows *rows, const char *key,
                        enum an_cause cause)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].key, key))
            return i;
    if (rows->count == AN_ROWS_MOST - 1) /* the last one is for the rest */
        key = "op:others";
    if (rows->count == AN_ROWS_MOST)
        return AN_ROWS_MOST - 1;
    rows->row[rows->count] =
        (struct an_row){.key = an_arena_text(c->a, key), .cause = (uint8_t)cause};
    return rows->count++;
}

static const char *stage_key(const struct an_context *c, uint32_t slice)
{
    switch (slice == AN_NONE ? AN_ROLE_NONE : an_slice_role(c->t, slice)) {
    case AN_ROLE_READ:
        return "loader.read";
    case AN_ROLE_DECODE:
        return "loader.decode";
    case AN_ROLE_COLLATE:
        return "loader.collate";
    case AN_ROLE_PIN:
        return "loader.pin";
    default:
        return "loader.fetch"; /* making or receiving a batch, as a whole */
    }
}

static const char *collective_key(const struct an_context *c, uint32_t slice)
{
    const struct an_detail *d =
        slice != AN_NONE ? an_trace_detail(c->t, c->t->slice.detail[slice]) : NULL;
    const char *name = d && *d->collective ? d->collective
                       : slice != AN_NONE  ? an_trace_name(c->t, c->t->slice.name[slice])
                                           : "";
    return an_arena_format(c->work, "collective:%.100s", name);
}

static const char *thread_key(const struct an_context *c, uint32_t slice, enum an_cause cause)
{
    if (cause == AN_CAUSE_INPUT)
        return stage_key(c, slice);
    if (cause == AN_CAUSE_TRANSFER && slice != AN_NONE)
        return collective_key(c, slice);
    if (cause == AN_CAUSE_COMPUTE && slice != AN_NONE)
        return an_arena_format(c->work, "op:%.100s", an_trace_name(c->t, c->t->slice.name[slice]));
    return an_cause_key(cause);
}

static const char *device_key(const struct an_context *c, size_t op)
{
    const struct an_device_ops *o = &c->gpu->op;
    const struct an_detail *d = an_trace_detail(c->t, c->t->slice.detail[o->slice[op]]);
    if (o->class[op] == AN_DEVICE_COMM)
        return collective_key(c, o->slice[op]);
    if (o->class[op] == AN_DEVICE_COPY)
        return d && *d->copy_kind ? an_arena_format(c->work, "copy:%.40s", d->copy_kind) : "copy";
    return an_arena_format(c->work, "op:%s",
                           o->class[op] == AN_DEVICE_OTHER ? "other"
                                                           : an_device_class_key(o->class[op]));
}

/* Device ops by class; those that are told apart by more than that by the detail and name they
 * share. */
static int device_rows(const struct an_replay *r, struct an_rows *rows)
{
    struct an_context *c = r->c;
    const struct an_device_ops *o = &c->gpu->op;
    uint8_t of_class[AN_DEVICE_CLASS_COUNT];
    uint8_t *of_name = malloc(c->t->string_count + 1), *of_detail = malloc(c->t->detail_count + 1);
    int rc = of_name && of_detail ? 0 : TACHO_ENOMEM;
    memset(of_class, ROW_UNKNOWN, sizeof of_class);
    if (!rc) {
        memset(of_name, ROW_UNKNOWN, c->t->string_count + 1);
        memset(of_detail, ROW_UNKNOWN, c->t->detail_count + 1);
    }
    for (size_t i = 0; !rc && i < o->count; i++) {
        uint32_t n = r->g->op_node[i], detail = c->t->slice.detail[o->slice[i]],
                 name = c->t->slice.name[o->slice[i]];
        uint8_t *memo = o->class[i] != AN_DEVICE_COMM && o->class[i] != AN_DEVICE_COPY
                            ? &of_class[o->class[i]]
                        : detail != AN_NONE ? &of_detail[detail]
                        : name != AN_NONE   ? &of_name[name]
                                            : &of_name[c->t->string_count];
        if (n == AN_NONE || !r->inside[n])
            continue;
        if (*memo == ROW_UNKNOWN)
            *memo = (uint8_t)row_named(c, rows, device_key(c, i), (enum an_cause)r->g->cause[n]);
        rows->of[n] = *memo;
    }
    free(of_name);
    free(of_detail);
    return rc;
}

/* Pieces of threads: by cause, and those of compute, loaders and collectives by the range they are
 * a piece of. */
static int thread_rows(const struct an_replay *r, struct an_rows *rows)
{
    struct an_context *c = r->c;
    const struct an_graph *g = r->g;
    size_t names = c->t->string_count + 1;
    uint8_t *memo = malloc(AN_CAUSE_COUNT * names);
    if (!memo)
        return TACHO_ENOMEM;
    memset(memo, ROW_UNKNOWN, AN_CAUSE_COUNT * names);
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i], slice = g->slice[n];
        if (an_graph_on_device(g, n) &&
            g->kind[n] != AN_NODE_WAIT) /* that is waiting for other ranks, as on a thread */
            continue;
        bool apart = g->cause[n] == AN_CAUSE_INPUT || g->cause[n] == AN_CAUSE_TRANSFER ||
                     g->cause[n] == AN_CAUSE_COMPUTE;
        uint32_t name = apart && slice != AN_NONE ? c->t->slice.name[slice] : AN_NONE;
        uint8_t *of = &memo[g->cause[n] * names + (name == AN_NONE ? names - 1 : name)];
        if (*of == ROW_UNKNOWN)
            *of = (uint8_t)row_named(c, rows, thread_key(c, slice, g->cause[n]),
                                     (enum an_cause)g->cause[n]);
        rows->of[n] = *of;
    }
    free(memo);
    return 0;
}

int an_rows_of(const struct an_replay *r, struct an_rows *rows)
{
    *rows = (struct an_rows){0};
    if (!(rows->of = an_arena_zero(r->c->work, r->g->node_count, 1)))
        return TACHO_ENOMEM;
    memset(rows->of, AN_ROWS_MOST, r->g->node_count);
    rows->dispatch = row_named(r->c, rows, an_cause_key(AN_CAUSE_DISPATCH), AN_CAUSE_DISPATCH);
    int rc = thread_rows(r, rows);
    if (!rc && r->c->gpu)
        rc = device_rows(r, rows);
    for (size_t i = 0; !rc && i < r->node_count; i++) {
        uint8_t row = rows->of[r->node[i]];
        if (row < rows->count)
            rows->row[row].own_ns = an_time_add(rows->row[row].own_ns, r->own[r->node[i]]);
    }
    return rc;
}
