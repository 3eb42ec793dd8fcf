/* SPDX-License-Identifier: Apache-2.0
 *
 * What the capture of an accelerator is worth: launches and device ops that miss each other, ops
 * without a usable time, kernels of unknown class, steps whose device work is not all there, a late
 * start of the device's recording, and signs that recording changed what it measured. Profilers
 * drop these events without a word; here each kind is counted. Over the whole capture.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/steps/analyzer.h"

#define SIGNS        8
#define OVERHEAD_PCT 1.0  /* of the steps, from which on it is worth a sentence */
#define SHORT_PCT    50.0 /* of kernels shorter than their launch call, and */
#define QUEUE_SHORT  2.0  /* mean queue: the host sets the pace */
#define GAP_NS \
    1000000 /* from the first launch to the first op: the device was not idle but not recorded */

struct survey {
    int64_t overhead_ns, python, overhead_rows; /* rows of the trace by category */
    int64_t kernels_lost,
        early; /* early: of them before the first device op whose launch is known */
    int64_t first_call, first_op; /* STORE_ABSENT: none */
    uint8_t *cut;                 /* of each step: launched kernels that have no op */
    struct an_span *overhead;
    size_t overhead_count, overhead_room;
};

/* Host step that holds `time` in process p; step_count: none. Steps of a lane are in order of time.
 */
static size_t host_step_at(const struct an_context *c, uint32_t p, int64_t time)
{
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_step *x =
            c->lane[k].process == p ? an_step_at_host(c, &c->lane[k], time) : NULL;
        if (x)
            return (size_t)(x - c->step);
    }
    return c->step_count;
}

static void lost_launch(const struct an_context *c, struct survey *s, size_t i, uint32_t process)
{
    enum an_api_kind kind = an_slice_api(c->t, i).kind;
    uint32_t parent = c->t->slice.parent[i]; /* a call inside a call is part of it */
    if ((kind != AN_API_KERNEL && kind != AN_API_GRAPH) ||
        (parent != AN_NONE && an_category_is_call(an_slice_category(c->t, parent))))
        return;
    s->kernels_lost++;
    s->early += s->first_op != STORE_ABSENT && c->t->slice.start[i] < s->first_op;
    size_t step = host_step_at(c, process, c->t->slice.start[i]);
    if (step < c->step_count)
        s->cut[step] = 1;
}

/* What a category says of its rows. */
enum rows { ROWS_OTHER = 1, ROWS_CALL, ROWS_OVERHEAD, ROWS_PYTHON };

static enum rows rows_of(const char *category)
{
    if (an_category_is_call(category))
        return ROWS_CALL;
    return !strcmp(category, "overhead") ? ROWS_OVERHEAD
           : !strcmp(category, "python") ? ROWS_PYTHON
                                         : ROWS_OTHER;
}

static int survey_overhead(const struct an_trace *t, struct survey *s, size_t i)
{
    s->overhead_rows++;
    if (t->slice.dur[i] == AN_OPEN)
        return 0;
    s->overhead_ns = an_time_add(s->overhead_ns, t->slice.dur[i]);
    if (an_grow(&s->overhead, &s->overhead_room, s->overhead_count + 1, sizeof *s->overhead))
        return TACHO_ENOMEM;
    s->overhead[s->overhead_count++] =
        (struct an_span){t->slice.start[i], an_time_add(t->slice.start[i], t->slice.dur[i])};
    return 0;
}

/* One pass over the host's rows. `kind` caches enum rows of each category; the last one: none. */
static int survey_rows(const struct an_context *c, struct survey *s, uint8_t *kind)
{
    const struct an_trace *t = c->t;
    const struct an_devices *g = c->gpu;
    size_t at = 0;
    int rc = 0;
    for (size_t k = 0; k < t->track_count && !rc; k++) {
        const struct an_track *track = &t->track[k];
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc;
             i++) {
            uint32_t category = t->slice.category[i] < t->string_count ? t->slice.category[i]
                                                                       : (uint32_t)t->string_count;
            if (!kind[category])
                kind[category] = (uint8_t)rows_of(an_trace_name(t, category));
            s->python += kind[category] == ROWS_PYTHON;
            if (kind[category] == ROWS_OVERHEAD)
                rc = survey_overhead(t, s, i);
            if (kind[category] != ROWS_CALL || !an_slice_launches(t, i))
                continue;
            if (s->first_call == STORE_ABSENT || t->slice.start[i] < s->first_call)
                s->first_call = t->slice.start[i];
            while (at < g->launch_count && g->launch_slice[at] < i)
                at++;
            if (at == g->launch_count || g->launch_slice[at] != i)
                lost_launch(c, s, i, track->process);
        }
    }
    return rc;
}

/* ---- device ops --------------------------------------------------------------------------------------------------------- */

static int survey_ops(struct an_context *c, int64_t *orphans)
{
    const struct an_devices *g = c->gpu;
    struct an_quality *r = &c->r->quality;
    uint8_t *seen = calloc(c->t->string_count + 1, 1);
    int64_t unknown = 0, names = 0, unknown_ns = 0, all_ns = 0;
    if (!seen)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < g->op.count; i++) {
        size_t slice = g->op.slice[i];
        *orphans += g->op.launch[i] == AN_NONE;
        if (strcmp(an_slice_category(c->t, slice), "kernel") != 0)
            continue;
        int64_t dur = an_time_sub(g->op.end[i], g->op.start[i]);
        all_ns = an_time_add(all_ns, dur);
        if (g->op.known[i])
            continue;
        uint32_t name = c->t->slice.name[slice] < c->t->string_count ? c->t->slice.name[slice]
                                                                     : (uint32_t)c->t->string_count;
        unknown++;
        unknown_ns = an_time_add(unknown_ns, dur);
        names += !seen[name];
        seen[name] = 1;
    }
    free(seen);
    r->unknown_kernels = an_int(unknown);
    r->unknown_names = an_int(names);
    r->unknown_pct = all_ns > 0 ? an_num(100 * (double)unknown_ns / (double)all_ns)
                                : an_num_none("no kernel took time");
    return 0;
}

/* Ops that start before their launch call did: the clocks of host and device disagree. */
static int64_t early_ops(const struct an_context *c, int64_t *worst)
{
    const struct an_devices *g = c->gpu;
    int64_t n = 0;
    for (size_t i = 0; i < g->op.count; i++) {
        if (g->op.launch[i] == AN_NONE)
            continue;
        int64_t by = an_time_sub(c->t->slice.start[g->op.launch[i]], g->op.start[i]);
        n += by > 0;
        *worst = by > *worst ? by : *worst;
    }
    return n;
}

/* Start of the first device op, of all or of those whose launch is known; STORE_ABSENT: none. */
static int64_t first_op(const struct an_devices *g, bool linked)
{
    int64_t first = STORE_ABSENT;
    for (size_t i = 0; i < g->op.count; i++)
        if ((!linked || g->op.launch[i] != AN_NONE) &&
            (first == STORE_ABSENT || g->op.start[i] < first))
            first = g->op.start[i];
    return first;
}

/* ---- what suggests that recording changed the times ---------------------------------------------------------------------- */

struct signs {
    const char *text[SIGNS];
    size_t count;
};

static void sign(struct signs *s, const char *text)
{
    if (s->count < SIGNS)
        s->text[s->count++] = text;
}

static void find_signs(struct an_context *c, const struct survey *v, struct signs *s)
{
    const struct an_quality *q = &c->r->quality;
    const struct an_launches *l = &c->r->launches;
    const char *decimals = an_trace_key(c->t, "source.decimals");
    int64_t worst = 0, early = early_ops(c, &worst), opaque = 0;
    for (size_t i = 0; i < c->gpu->op.count; i++)
        opaque += c->gpu->op.class[i] == AN_DEVICE_OPAQUE;
    if (q->step_overhead_pct.valid && q->step_overhead_pct.value > OVERHEAD_PCT)
        sign(s,
             an_arena_format(
                 c->a, "the profiler's own work took %.1f %% of the counted steps (overhead rows)",
                 q->step_overhead_pct.value));
    if (v->python)
        sign(
            s,
            an_arena_format(
                c->a,
                "%" PRId64
                " Python frames were recorded (with_stack): that slows the host most of all; trust "
                "device times, not host times",
                v->python));
    if (!l->reason && l->short_pct.valid && l->short_pct.value >= SHORT_PCT &&
        l->queue_mean.valid && l->queue_mean.value < QUEUE_SHORT)
        sign(s, an_arena_format(
                    c->a,
                    "%.0f %% of the kernels are shorter than the call that launches them: the host "
                    "sets the pace, and "
                    "recording makes each call longer; part of the idle time is the profiler's",
                    l->short_pct.value));
    int64_t blank = v->first_call == STORE_ABSENT || !c->gpu->op.count
                        ? 0
                        : an_time_sub(first_op(c->gpu, false), v->first_call);
    if (blank > GAP_NS)
        sign(s, an_arena_format(
                    c->a,
                    "the first op on a device starts %.1f ms after the first launch: the device "
                    "still did what was "
                    "launched before the capture, which is not recorded; that time is not idle",
                    (double)blank / 1e6));
    if (early)
        sign(s, an_arena_format(c->a,
                                "%" PRId64 " device ops start before their launch call, by up to "
                                           "%.1f us: the clocks of host and "
                                "device disagree by that much; delays are not more exact",
                                early, (double)worst / 1e3));
    if (opaque)
        sign(s,
             an_arena_format(
                 c->a,
                 "%" PRId64
                 " graphs were recorded as a whole: what ran in them is not known (record nodes: "
                 "nsys --cuda-graph-trace=node)",
                 opaque));
    if (decimals && !strcmp(decimals, "0"))
        sign(s, "times are whole microseconds: the time of one short kernel is good to 1 us, sums "
                "of many are better");
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------- */

static void overhead_shares(struct an_context *c, struct survey *s)
{
    struct an_quality *r = &c->r->quality;
    const char *none = "the trace has no rows of the profiler's own work";
    int64_t steps = 0, inside = 0;
    r->profiler_overhead_ms = r->step_overhead_pct = an_num_none(none);
    if (!s->overhead_rows)
        return;
    r->profiler_overhead_ms = an_num((double)s->overhead_ns / 1e6);
    s->overhead_count = an_spans_normalize(s->overhead, s->overhead_count);
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *x = &c->step[i];
        if (!an_step_counted(x) || x->host_end == STORE_ABSENT)
            continue;
        steps = an_time_add(steps, an_time_sub(x->host_end, x->host_start));
        inside = an_time_add(
            inside, an_spans_within(s->overhead, s->overhead_count, x->host_start, x->host_end));
    }
    r->step_overhead_pct =
        steps > 0 ? an_num(100 * (double)inside / (double)steps) : an_num_none("no counted steps");
}

/* Steps without an end, and steps that launched kernels of which the device's part is missing. */
static int64_t cut_steps(const struct an_context *c, const struct survey *s, int64_t *counted)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->step_count; i++) {
        bool cut = c->step[i].host_end == STORE_ABSENT || s->cut[i];
        n += cut;
        *counted += cut && an_step_counted(&c->step[i]);
    }
    return n;
}

static void problems(struct an_context *c, const struct survey *s, int64_t orphans, int64_t counted)
{
    const struct an_quality *q = &c->r->quality;
    if (s->kernels_lost)
        an_problem(
            c,
            "CAPTURE: %" PRId64
            " launches of kernels or graphs have no device op in the file, %" PRId64
            " of them before the first op: the device's work is not all there (longer warm-up: "
            "schedule(warmup=...); fewer activities; no fork after start); launches captured into "
            "a graph count too",
            s->kernels_lost, s->early);
    if (orphans)
        an_problem(c,
                   "CAPTURE: %" PRId64 " of %zu device ops have no launch call in the file: they "
                                       "count as device time, but not in "
                   "delays, queues and attribution%s",
                   orphans, c->gpu->op.count,
                   (size_t)orphans == c->gpu->op.count
                       ? " (record CPU activities too: ProfilerActivity.CPU, nsys --trace=cuda)"
                       : "");
    if (c->gpu->untimed)
        an_problem(c,
                   "CAPTURE: %" PRId64
                   " device rows have no usable time (0 or no end); they were left out",
                   c->gpu->untimed);
    if (counted)
        an_problem(
            c,
            "CAPTURE: %" PRId64
            " counted steps lack part of their device work: their device times are too short",
            counted);
    if (q->unknown_pct.valid && q->unknown_pct.value > 5)
        an_problem(c,
                   "CLASSES: %" PRId64 " kernel names with %.1f %% of the kernel time are in no "
                                       "class and count as compute (name "
                   "them: --classes FILE, docs/device-time.md)",
                   q->unknown_names.value, q->unknown_pct.value);
}

static void quality_absent(struct an_context *c, const char *reason)
{
    struct an_count none = an_int_none(reason);
    c->r->quality = (struct an_quality){.reason = reason,
                                        .launches_without_op = none,
                                        .ops_without_launch = none,
                                        .zero_times = none,
                                        .unknown_kernels = none,
                                        .cut_steps = none,
                                        .kernels_lost = none,
                                        .unknown_names = none,
                                        .unknown_pct = an_num_none(reason),
                                        .start_gap_ms = an_num_none(reason),
                                        .profiler_overhead_ms = an_num_none(reason),
                                        .step_overhead_pct = an_num_none(reason)};
}

static int quality_run(struct an_context *c)
{
    struct an_quality *r = &c->r->quality;
    struct survey s = {.first_call = STORE_ABSENT,
                       .first_op = first_op(c->gpu, true),
                       .cut = an_arena_zero(c->work, c->step_count + 1, sizeof *s.cut)};
    uint8_t *kind = calloc(c->t->string_count + 1, 1);
    int64_t orphans = 0, counted = 0;
    struct signs signs = {.count = 0};
    int rc = s.cut && kind ? survey_rows(c, &s, kind) : TACHO_ENOMEM;
    if (!rc && !(rc = survey_ops(c, &orphans))) {
        bool linked = s.first_op != STORE_ABSENT && s.first_call != STORE_ABSENT;
        int64_t gap = linked ? an_time_sub(s.first_op, s.first_call) : 0;
        r->launches_without_op = an_int(c->gpu->launches_lost);
        r->kernels_lost = an_int(s.kernels_lost);
        r->ops_without_launch = an_int(orphans);
        r->zero_times = an_int(c->gpu->untimed);
        r->start_gap_ms = linked ? an_num(gap > 0 ? (double)gap / 1e6 : 0)
                                 : an_num_none("no device op has its launch in the file");
        r->cut_steps = c->step_count
                           ? an_int(cut_steps(c, &s, &counted))
                           : an_int_none(c->r->steps.reason ? c->r->steps.reason : "no steps");
        overhead_shares(c, &s);
        find_signs(c, &s, &signs);
        problems(c, &s, orphans, counted);
        r->signs = an_arena_copy(c->a, signs.text, signs.count * sizeof *signs.text);
        r->sign_count = r->signs ? signs.count : 0;
        rc = r->signs ? 0 : TACHO_ENOMEM;
    }
    free(kind);
    free(s.overhead);
    return rc;
}

const struct an_analyzer an_quality = {
    "quality", "what the capture is worth: missing launches and ops, cut steps, distortion",
    AN_INPUT_DEVICES, quality_run, quality_absent};
