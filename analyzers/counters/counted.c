/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges that the hardware counted one by one (docs/gpu.md): marks with a payload `tacho.counted`,
 * which hold seven metrics each, of all pieces of a step that lie in the same ranges and in none
 * inside these. They become operations, bytes, time; and points of the roofline with bytes that
 * were measured.
 */
#include "analyzers/counters/counted.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define RANGES_MOST 4096 /* of all ranks */

struct an_value an_counted_none(struct an_context *c, const char *which)
{
    char key[32];
    snprintf(key, sizeof key, "counters.%s", which);
    const char *status = an_trace_key(c->t, key);
    if (!status)
        return an_num_none(an_arena_format(c->a, "not asked for: tacho run --counters %s",
                                           strcmp(which, "ranges") ? which : "roofline"));
    return an_num_none(strncmp(status, "failed", 6) && strncmp(status, "nothing", 7)
                           ? "this chip does not count it"
                           : an_arena_text(c->a, status));
}

/* ---- from metrics to quantities -------------------------------------------------------------------------------------------- */

static struct an_value plus(struct an_value a, struct an_value b, double factor)
{
    return !a.valid ? a : !b.valid ? b : an_num(a.value + factor * b.value);
}

static struct an_value known_or_zero(struct an_value v, bool any)
{
    return v.valid || !any ? v : an_num(0); /* a type that the chip has no unit for */
}

static struct an_value ratio(struct an_value a, struct an_value b, double factor)
{
    if (!a.valid || !b.valid)
        return a.valid ? b : a;
    return b.value > 0 ? an_num(factor * a.value / b.value) : an_num_none("nothing was moved");
}

const char *an_counted_fill(struct an_step_counted *s,
                            struct an_value (*get)(void *ctx, const char *metric), void *ctx)
{
    static const struct {
        const char *dtype, *metric;
    } matrix[] = {{"bf16", "range_tensor_bf16"},
                  {"fp16", "range_tensor_fp16"},
                  {"tf32", "range_tensor_tf32"},
                  {"fp8", "range_tensor_fp8"}};
    struct an_value of[sizeof matrix / sizeof *matrix];
    bool any = false;
    for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++) {
        of[i] = get(ctx, matrix[i].metric);
        any |= of[i].valid;
    }
    s->matrix_ops = known_or_zero(of[0], any);
    for (size_t i = 1; i < sizeof matrix / sizeof *matrix; i++)
        s->matrix_ops = plus(s->matrix_ops, known_or_zero(of[i], any), 1);
    s->fp32_flops = plus(plus(get(ctx, "range_fp32_add"), get(ctx, "range_fp32_mul"), 1),
                         get(ctx, "range_fp32_fma"), 2);
    s->dram_bytes = plus(get(ctx, "range_dram_read"), get(ctx, "range_dram_write"), 1);
    s->l2_bytes = get(ctx, "range_l2");
    s->l1_bytes = get(ctx, "range_l1");
    struct an_value ns = get(ctx, "range_time");
    s->time_ms = ns.valid ? an_num(ns.value / 1e6) : ns;
    s->occupancy_pct = get(ctx, "range_occupancy");
    s->intensity = ratio(plus(s->matrix_ops, s->fp32_flops, 1), s->dram_bytes, 1);
    s->flops_per_s = ratio(plus(s->matrix_ops, s->fp32_flops, 1), ns, 1e9);
    s->dram_bytes_per_s = ratio(s->dram_bytes, ns, 1e9);
    s->stall_memory = get(ctx, "range_stall_memory");
    s->stall_barrier = get(ctx, "range_stall_barrier");
    s->stall_math = get(ctx, "range_stall_math");
    s->stall_wait = get(ctx, "range_stall_wait");
    const char *dtype = "fp32";
    double most = s->fp32_flops.valid ? s->fp32_flops.value : 0;
    for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++)
        if (of[i].valid && of[i].value > most) {
            most = of[i].value;
            dtype = matrix[i].dtype;
        }
    return dtype;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------------------ */

/* The marks of one range: their payloads in one object. */
struct marks {
    struct an_context *c;
    uint32_t process, name;
    int64_t device;
    json_t *metrics;
};

struct finder {
    struct marks *row;
    size_t rows, room;
};

static struct an_value metric(void *ctx, const char *name)
{
    const struct marks *m = ctx;
    const json_t *v = json_object_get(m->metrics, name);
    return json_is_number(v) ? an_num(json_number_value(v))
           : json_is_null(v) ? an_num_none("no kernel of this range was counted")
                             : an_counted_none(m->c, "ranges");
}

static int add_mark(struct an_context *c, struct finder *f, uint32_t process, size_t slice)
{
    const struct an_trace *t = c->t;
    uint32_t name = t->slice.name[slice];
    json_t *payload = json_loads(an_trace_detail(t, t->slice.detail[slice])->payload, 0, NULL);
    const json_t *device = json_object_get(payload, "device");
    size_t i = f->rows;
    if (!json_is_integer(device) || process == AN_NONE) { /* of a damaged file */
        json_decref(payload);
        return 0;
    }
    while (i && (f->row[i - 1].process != process || f->row[i - 1].name != name ||
                 f->row[i - 1].device != json_integer_value(device)))
        i--;
    if (i) { /* another seven of its metrics */
        json_object_update_missing(f->row[i - 1].metrics, payload);
        json_decref(payload);
        return 0;
    }
    if (f->rows == RANGES_MOST || an_grow(&f->row, &f->room, f->rows + 1, sizeof *f->row)) {
        json_decref(payload);
        return f->rows == RANGES_MOST ? 0 : TACHO_ENOMEM;
    }
    f->row[f->rows++] = (struct marks){c, process, name, json_integer_value(device), payload};
    return 0;
}

static int find_marks(struct an_context *c, struct finder *f)
{
    const struct an_trace *t = c->t;
    bool *counted = an_arena_zero(c->work, t->detail_count + 1, sizeof *counted), any = false;
    if (!counted)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->detail_count; i++)
        any |= counted[i] = !strcmp(t->detail[i].schema, "tacho.counted");
    int rc = 0;
    for (size_t k = 0; any && k < t->track_count; k++)
        for (size_t i = t->track[k].slice_first;
             i < t->track[k].slice_first + t->track[k].slice_count && !rc; i++)
            if (t->slice.detail[i] != AN_NONE && counted[t->slice.detail[i]])
                rc = add_mark(c, f, t->track[k].process, i);
    return rc;
}

/* Rank by rank, the longest first; what has no time comes last. */
static int range_order(const void *x, const void *y)
{
    const struct an_range_counted *a = x, *b = y;
    double ta = a->counted.time_ms.valid ? a->counted.time_ms.value : -1,
           tb = b->counted.time_ms.valid ? b->counted.time_ms.value : -1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return ta > tb ? -1 : ta < tb ? 1 : strcmp(a->name, b->name);
}

static const char *why_none(struct an_context *c)
{
    const char *whole = an_trace_key(c->t, "counters.roofline"),
               *ranges = an_trace_key(c->t, "counters.ranges");
    if (!whole)
        return "not asked for: tacho run --counters roofline";
    return an_arena_text(
        c->a,
        ranges ? ranges
        : !strncmp(whole, "failed", 6) || !strncmp(whole, "nothing", 7)
            ? whole
            : "the steps have no ranges inside (NVTX push and pop on the thread of the step)");
}

static void counted_absent(struct an_context *c, const char *reason)
{
    c->r->counted.reason = reason;
}

static int counted_run(struct an_context *c)
{
    struct finder f = {0};
    int rc = find_marks(c, &f);
    struct an_range_counted *rows = rc ? NULL : an_arena_zero(c->a, f.rows + 1, sizeof *rows);
    rc = rows ? rc : TACHO_ENOMEM;
    for (size_t i = 0; i < f.rows && !rc; i++) {
        struct an_range_counted *r = &rows[i];
        r->rank = c->t->process[f.row[i].process].rank;
        r->device = f.row[i].device;
        r->name = an_arena_text(c->a, an_trace_name(c->t, f.row[i].name));
        r->pieces = json_integer_value(json_object_get(f.row[i].metrics, "pieces"));
        r->dtype = an_counted_fill(&r->counted, metric, &f.row[i]);
    }
    if (!rc) {
        qsort(rows, f.rows, sizeof *rows, range_order);
        c->r->ranges_counted = rows;
        c->r->range_counted_count = f.rows;
        c->r->counted.reason = f.rows ? NULL : why_none(c);
    }
    for (size_t i = 0; i < f.rows; i++)
        json_decref(f.row[i].metrics);
    free(f.row);
    return rc;
}

const struct an_analyzer an_counted = {"counted",
                                       "operations and bytes of ranges, counted by the hardware",
                                       AN_INPUT_SLICES, counted_run, counted_absent};
