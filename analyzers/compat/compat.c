/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/compat/compat.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading the trace as those tools do ---------------------------------------------------------------------------------- */

static enum an_compat_category category_of(const char *text)
{
    static const struct {
        const char *text;
        enum an_compat_category category;
    } known[] = {{"kernel", AN_COMPAT_KERNEL},         {"memcpy", AN_COMPAT_MEMCPY},
                 {"memset", AN_COMPAT_MEMSET},         {"sync", AN_COMPAT_SYNC},
                 {"annotation", AN_COMPAT_ANNOTATION}, {"op", AN_COMPAT_OP},
                 {"runtime", AN_COMPAT_RUNTIME},       {"driver", AN_COMPAT_DRIVER},
                 {"instant", AN_COMPAT_INSTANT},       {"trace", AN_COMPAT_INSTANT}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i].text))
            return known[i].category;
    return AN_COMPAT_OTHER;
}

int an_compat_each(const struct an_compat_view *v, size_t g,
                   int (*each)(void *ctx, const struct an_compat_event *e), void *ctx)
{
    const struct an_trace *t = v->c->t;
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        if (track->process == AN_NONE || v->group_of[track->process] != g)
            continue;
        struct an_compat_event e = {.track = track, .device = !strcmp(track->kind, "stream")};
        for (e.slice = track->slice_first; e.slice < track->slice_first + track->slice_count;
             e.slice++) {
            uint32_t category = t->slice.category[e.slice];
            e.category = category == AN_NONE ? AN_COMPAT_OTHER
                                             : (enum an_compat_category)v->category[category];
            int rc = t->slice.dur[e.slice] == AN_OPEN ? 0 : each(ctx, &e);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* ns / 1000 rounded to the nearest double. Through long double: a quotient by 1000 is never so
 * close to the middle between two doubles that rounding twice would matter (it is exactly there or
 * further than 2^-7 of the last place away). */
static double ns_to_us(int64_t ns)
{
    return (double)((long double)ns / 1000.0L);
}

double an_compat_ts(const struct an_compat_view *v, size_t g, size_t slice)
{
    return ns_to_us(an_time_sub(v->c->t->slice.start[slice], v->group[g].base_ns));
}

double an_compat_dur(const struct an_compat_view *v, size_t slice)
{
    return ns_to_us(v->c->t->slice.dur[slice]);
}

int64_t an_compat_ticks(const struct an_compat_view *v, double us)
{
    double x = ldexp(us, v->shift);
    return x >= 0x1p62 ? INT64_MAX / 2 : x <= -0x1p62 ? INT64_MIN / 2 : llrint(x);
}

double an_compat_us(const struct an_compat_view *v, int64_t ticks)
{
    return ldexp((double)ticks, -v->shift);
}

struct an_span an_compat_span(const struct an_compat_view *v, size_t g, size_t slice)
{
    double ts = an_compat_ts(v, g, slice), end = ts + an_compat_dur(v, slice);
    return (struct an_span){an_compat_ticks(v, ts), an_compat_ticks(v, end)};
}

int an_compat_spans_add(struct an_compat_spans *s, struct an_span x)
{
    if (an_grow(&s->span, &s->room, s->count + 1, sizeof *s->span))
        return TACHO_ENOMEM;
    s->span[s->count++] = x;
    return 0;
}

int an_compat_put(struct an_compat_view *v, int64_t rank, int64_t device, const char *section,
                  const char *key, const char *unit, double value)
{
    if (an_grow(&v->rows, &v->row_room, v->row_count + 1, sizeof *v->rows))
        return TACHO_ENOMEM;
    v->rows[v->row_count++] = (struct an_compat_row){.rank = rank,
                                                     .device = device,
                                                     .section = an_arena_text(v->c->a, section),
                                                     .key = an_arena_text(v->c->a, key),
                                                     .unit = an_arena_text(v->c->a, unit),
                                                     .value = value};
    return 0;
}

/* ---- the view -------------------------------------------------------------------------------------------------------------- */

/* Times of file N = 0 had source.base_ns added; another file's own base stands in source.base_ns.N.
 */
static int64_t base_of_file(const struct an_trace *t, size_t file)
{
    char key[48];
    snprintf(key, sizeof key, "source.base_ns.%zu", file);
    const char *text = file ? an_trace_key(t, key) : NULL;
    text = text ? text : an_trace_key(t, "source.base_ns");
    return text ? strtoll(text, NULL, 10) : 0;
}

/* Processes of one rank are one group; those without a rank are one group together. */
static int find_groups(struct an_compat_view *v)
{
    const struct an_trace *t = v->c->t;
    v->group_of = an_arena_zero(v->c->work, t->process_count, sizeof *v->group_of);
    v->group = an_arena_zero(v->c->work, t->process_count, sizeof *v->group);
    if (!v->group_of || !v->group)
        return TACHO_ENOMEM;
    for (size_t p = 0; p < t->process_count; p++) {
        size_t g = 0;
        while (g < v->group_count && v->group[g].rank != t->process[p].rank)
            g++;
        if (g == v->group_count)
            v->group[v->group_count++] =
                (struct an_compat_group){.rank = t->process[p].rank, .base_ns = base_of_file(t, g)};
        v->group_of[p] = (uint32_t)g;
    }
    return 0;
}

/* As many binary places as keep the largest time inside int64. */
static int ticks_shift(const struct an_compat_view *v)
{
    double most = 1;
    for (size_t g = 0; g < v->group_count; g++) {
        double a = fabs(ns_to_us(an_time_sub(v->c->t->t0, v->group[g].base_ns)));
        double b = fabs(ns_to_us(an_time_sub(v->c->t->t1, v->group[g].base_ns)));
        most = fmax(most, fmax(a, b));
    }
    int exponent;
    frexp(most, &exponent);
    return exponent > 61 ? 0 : 61 - exponent < 24 ? 61 - exponent : 24;
}

static int view_open(struct an_compat_view *v)
{
    const struct an_trace *t = v->c->t;
    v->category = an_arena_zero(v->c->work, t->string_count, sizeof *v->category);
    if (!v->category || find_groups(v))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->string_count; i++)
        v->category[i] = (uint8_t)category_of(t->string[i]);
    v->shift = ticks_shift(v);
    return 0;
}

/* ---- the analyzer ---------------------------------------------------------------------------------------------------------- */

static void compat_absent(struct an_context *c, const char *reason)
{
    c->r->compat.reason = c->o->compat == AN_COMPAT_NONE ? "not asked for" : reason;
}

static int compat_run(struct an_context *c)
{
    static const char *const tools[] = {
        [AN_COMPAT_TRACELENS] = "TraceLens gpu_timeline",
        [AN_COMPAT_HTA] = "HTA temporal breakdown and overlap",
        [AN_COMPAT_HTA_LAST] = "HTA temporal breakdown and overlap, include_last_profiler_step",
        [AN_COMPAT_TB] = "TensorBoard plugin step time breakdown",
    };
    struct an_compat_table *r = &c->r->compat;
    struct an_compat_view v = {.c = c};
    if (c->o->compat == AN_COMPAT_NONE) {
        compat_absent(c, NULL);
        return 0;
    }
    int rc = view_open(&v);
    if (!rc)
        rc = c->o->compat == AN_COMPAT_TRACELENS  ? an_compat_tracelens(&v)
             : c->o->compat == AN_COMPAT_HTA      ? an_compat_hta(&v, false)
             : c->o->compat == AN_COMPAT_HTA_LAST ? an_compat_hta(&v, true)
                                                  : an_compat_tb(&v);
    if (!rc) {
        r->tool = tools[c->o->compat];
        r->rows = an_arena_copy(c->a, v.rows, v.row_count * sizeof *v.rows);
        r->row_count = v.row_count;
        r->reason = v.row_count ? NULL : "the tool finds no event that it looks at";
        rc = r->rows ? 0 : TACHO_ENOMEM;
    }
    free(v.rows);
    return rc;
}

const struct an_analyzer an_compat = {
    "compat", "the arithmetic of TraceLens, HTA or the TensorBoard plugin, when asked for",
    AN_INPUT_DEVICES, compat_run, compat_absent};
