/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs in three conventions and what share of a peak they are (DESIGN 5, "FLOPs"). Sums are
 * integers. A share of a peak is only given when the FLOPs cover the matrix work, the peak is known
 * and named, and the result is possible: above 100 % of a peak something was counted wrongly, and
 * the report says that instead.
 *
 * On the CPU the FLOPs are those of ranges with a tacho.work payload, and coverage is the ranges'
 * time. On accelerators they are those of the operators that launched device work (attribution.h),
 * in the type that their kernels ran in, and coverage is the time of matrix and attention kernels.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/peaks.h"
#include "analyzers/work/utilization.h"

#define COVERAGE_LEAST 95.0

/* Is a range of work that has FLOPs of its own open around slice i? Then i is part of it and
 * counted there. */
static bool is_counted_above(const struct an_trace *t, size_t i)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t p = t->slice.parent[i]; p != AN_NONE && levels--; p = t->slice.parent[p]) {
        const struct an_detail *d = an_trace_detail(t, t->slice.detail[p]);
        if (d && d->role == AN_ROLE_WORK && d->flops > 0)
            return true;
    }
    return false;
}

/* The step of slice i, on whatever thread of the process that runs steps it is; NULL outside steps
 * and inside phases. */
static struct an_step *step_of(const struct an_flops_gather *g, uint32_t process, size_t i)
{
    const struct an_context *c = g->c;
    size_t k = process != AN_NONE ? g->first_lane[process] : g->first_lane[c->t->process_count];
    int64_t time = c->t->slice.start[i];
    for (; k < c->lane_count && c->lane[k].process == process; k++) {
        const struct an_lane *l = &c->lane[k];
        struct an_step *s = an_step_at(c, l, time);
        if (s && an_step_detailed(s))
            return an_spans_within(l->cut, l->cut_count, time, time + 1) ||
                           an_slice_in_phase(c->t, i)
                       ? NULL
                       : s;
    }
    return NULL;
}

size_t an_flops_dtype(struct an_flops_gather *g, const char *dtype)
{
    for (size_t i = 0; i < g->dtypes; i++)
        if (!strcmp(g->dtype[i], dtype))
            return i;
    if (g->dtypes == AN_FLOPS_DTYPES)
        return AN_FLOPS_DTYPES - 1;
    g->dtype[g->dtypes] = dtype;
    return g->dtypes++;
}

static void gather_slice(struct an_flops_gather *g, uint32_t process, size_t i)
{
    const struct an_trace *t = g->c->t;
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
    if (!d || d->role != AN_ROLE_WORK)
        return;
    struct an_step *s = step_of(g, process, i);
    if (!s || is_counted_above(t, i))
        return;
    struct an_flops *sum = &g->step[s - g->c->step];
    g->works++;
    g->told +=
        d->flops != STORE_ABSENT || d->model_flops != STORE_ABSENT || d->palm_flops != STORE_ABSENT;
    an_flops_add(&sum->model, d->model_flops);
    an_flops_add(&sum->palm, d->palm_flops);
    if (d->hardware) {
        double ns = t->slice.dur[i] == AN_OPEN ? 0 : (double)t->slice.dur[i];
        struct an_flops_rate *rate = &g->rate[t->slice.detail[i]];
        rate->calls++;
        an_flops_add(&rate->flops, d->flops);
        rate->ns = an_time_add(rate->ns, (int64_t)ns);
        g->hardware++;
        g->hardware_ns += ns;
        g->covered_ns += d->flops != STORE_ABSENT ? ns : 0;
        g->model_missing += d->model_flops == STORE_ABSENT;
        g->palm_missing += d->palm_flops == STORE_ABSENT;
        an_flops_add(&sum->hardware, d->flops);
        an_flops_add(&sum->again, !strcmp(d->pass, "recompute") ? d->flops : 0);
    }
    if (d->hardware || d->model_flops > 0) {
        struct an_flops *by = &g->lane[s->lane].by_dtype[an_flops_dtype(g, d->dtype)];
        an_flops_add(&by->model, d->model_flops);
        an_flops_add(&by->palm, d->palm_flops);
        an_flops_add(&by->hardware, d->hardware ? d->flops : 0);
    }
}

static bool flops_equal(const struct an_flops *a, const struct an_flops *b)
{
    return a->model == b->model && a->hardware == b->hardware && a->palm == b->palm &&
           a->again == b->again;
}

static void gather_ranges(struct an_flops_gather *g)
{
    const struct an_trace *t = g->c->t;
    for (size_t k = 0; k < t->track_count; k++)
        for (size_t i = t->track[k].slice_first;
             i < t->track[k].slice_first + t->track[k].slice_count; i++)
            gather_slice(g, t->track[k].process, i);
}

static int gather_all(struct an_flops_gather *g)
{
    struct an_context *c = g->c;
    const struct an_trace *t = c->t;
    g->lane = an_arena_zero(c->work, c->lane_count, sizeof *g->lane);
    g->step = an_arena_zero(c->work, c->step_count, sizeof *g->step);
    g->first_lane = an_arena_zero(c->work, t->process_count + 1, sizeof *g->first_lane);
    g->rate = an_arena_zero(c->work, t->detail_count + 1, sizeof *g->rate);
    if (!g->lane || !g->step || !g->first_lane || !g->rate)
        return TACHO_ENOMEM;
    for (size_t p = 0; p <= t->process_count; p++)
        g->first_lane[p] = c->lane_count;
    for (size_t k = c->lane_count; k--;)
        g->first_lane[c->lane[k].process == AN_NONE ? t->process_count : c->lane[k].process] = k;
    if (c->calls && c->calls->shapes)
        an_flops_of_calls(g);
    else
        gather_ranges(g);
    for (size_t i = 0; i < c->step_count; i++) {
        struct an_lane_flops *w = &g->lane[c->step[i].lane];
        if (!an_step_detailed(&c->step[i]))
            continue;
        w->vary = w->vary || (w->any && !flops_equal(&w->each, &g->step[i]));
        w->each = g->step[i];
        w->any = true;
        w->steps++;
        an_flops_add(&w->ns, an_step_ns(&c->step[i]));
        an_flops_add(&w->total.model, g->step[i].model);
        an_flops_add(&w->total.palm, g->step[i].palm);
        an_flops_add(&w->total.hardware, g->step[i].hardware);
        an_flops_add(&w->total.again, g->step[i].again);
    }
    return 0;
}

/* ---- peaks -------------------------------------------------------------------------------------------------------------- */

static const struct an_device *lane_gpu(const struct an_context *c, const struct an_lane *l)
{
    return c->gpu && l->device < c->gpu->device_count ? &c->gpu->device[l->device] : NULL;
}

const char *an_flops_device(const struct an_context *c, const struct an_lane *l)
{
    if (lane_gpu(c, l))
        return lane_gpu(c, l)->name;
    const char *d = l->process != AN_NONE ? c->t->process[l->process].device : "";
    return *d ? d : "cpu";
}

/* Peak of a lane's device: the user's, the file's, the data sheet's. false: none is known. */
static bool peak_of(struct an_context *c, const struct an_lane *l, const char *dtype,
                    struct an_peak *out)
{
    const struct an_ceiling_row *r = an_ceiling_find(c, an_flops_device(c, l), "flops", dtype);
    if (c->o->peak_flops > 0)
        *out = (struct an_peak){c->o->peak_flops, "--peak"};
    else if (r)
        *out = (struct an_peak){r->value, an_arena_text(c->a, r->source)};
    else
        return lane_gpu(c, l) && an_peak_find(c->a, lane_gpu(c, l)->name, dtype, out);
    return true;
}

struct shares {
    double model, palm, hardware; /* device seconds at the peak */
    double flops, seconds; /* hardware FLOPs and the device seconds they would take at the peak */
    const char *source, *missing; /* missing: why there is no peak */
};

static void share_add(struct an_flops_gather *g, const struct an_lane *l,
                      const struct an_lane_flops *w, struct shares *s)
{
    struct an_context *c = g->c;
    for (size_t d = 0; d < g->dtypes; d++) {
        const struct an_flops *f = &w->by_dtype[d];
        struct an_peak found;
        if (!f->model && !f->hardware && !f->palm)
            continue;
        if (!peak_of(c, l, g->dtype[d], &found)) {
            const struct an_device *gpu = lane_gpu(c, l);
            if (g->mixed && !*g->dtype[d])
                s->missing = "kernels of fp32 operands do not tell whether they ran as tf32; give "
                             "a peak with --peak FLOPS";
            else if (gpu && !*gpu->name)
                s->missing = "the trace does not name its devices: their peak is not known; give "
                             "one with --peak FLOPS";
            else
                s->missing = an_arena_format(
                    c->a, "no peak of %s for %s is known; %sgive one with --peak FLOPS",
                    an_flops_device(c, l), *g->dtype[d] ? g->dtype[d] : "an unnamed type",
                    gpu ? "" : AN_CALIBRATE ", or ");
            return;
        }
        double peak = found.value;
        s->source = found.source;
        s->model += (double)f->model / peak;
        s->palm += (double)f->palm / peak;
        s->hardware += (double)f->hardware / peak;
        s->flops += (double)(f->hardware ? f->hardware : f->model);
        s->seconds += (double)(f->hardware ? f->hardware : f->model) / peak;
    }
}

/* Text of an accelerator that is the same wherever it is used from; "" where the trace has none. */
static const char *gpu_uuid(const struct an_context *c, const struct an_device *d)
{
    char key[96];
    const char *v;
    if (d->process >= c->t->process_count)
        return "";
    snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".uuid",
             c->t->process[d->process].id, d->ordinal);
    v = an_trace_key(c->t, key);
    return v ? v : "";
}

static bool same_device(const struct an_context *c, const struct an_lane *a,
                        const struct an_lane *b)
{
    const struct an_device *p = lane_gpu(c, a), *q = lane_gpu(c, b);
    if (p && q)
        return p == q || (*gpu_uuid(c, p) && !strcmp(gpu_uuid(c, p), gpu_uuid(c, q)));
    const char *x = a->process != AN_NONE ? c->t->process[a->process].host : "";
    const char *y = b->process != AN_NONE ? c->t->process[b->process].host : "";
    return !strcmp(x, y) && !strcmp(an_flops_device(c, a), an_flops_device(c, b));
}

/* Device seconds of the steps: ranks that share a device share its time. */
static double device_seconds(const struct an_flops_gather *g, size_t *devices)
{
    const struct an_context *c = g->c;
    double sum = 0;
    *devices = 0;
    for (size_t k = 0; k < c->lane_count; k++) {
        double ns = 0, lanes = 0;
        bool first = true;
        for (size_t j = 0; j < c->lane_count && first; j++) {
            if (!same_device(c, &c->lane[k], &c->lane[j]))
                continue;
            first = j >= k;
            ns += (double)g->lane[j].ns;
            lanes++;
        }
        if (!first)
            continue;
        sum += ns / lanes / 1e9;
        ++*devices;
    }
    return sum;
}

/* ---- the values --------------------------------------------------------------------------------------------------------- */

struct an_value an_flops_share(struct an_context *c, const char *name, double device_s,
                               double at_peak_s, const char *missing)
{
    if (missing)
        return an_num_none(missing);
    if (device_s <= 0)
        return an_num_none("the steps last 0 ns");
    double v = at_peak_s / device_s;
    if (v <= 1)
        return an_num(v);
    const char *why = an_arena_format(
        c->a, "%s would be %.1f %% of the peak: FLOPs are counted twice, or the peak is wrong",
        name, 100 * v);
    an_problem(c, "counting error: %s", why);
    return an_num_none(why);
}

static void totals(struct an_flops_gather *g)
{
    struct an_utilization *u = &g->c->r->utilization;
    struct an_flops sum = {0, 0, 0, 0}, each = {0, 0, 0, 0};
    for (size_t k = 0; k < g->c->lane_count; k++) {
        const struct an_lane_flops *w = &g->lane[k];
        if (!w->steps)
            continue;
        u->flops_vary = u->flops_vary || w->vary;
        an_flops_add(&sum.model, w->total.model);
        an_flops_add(&sum.palm, w->total.palm);
        an_flops_add(&sum.hardware, w->total.hardware);
        an_flops_add(&sum.again, w->total.again);
        an_flops_add(&each.again, w->vary ? an_time_add(w->total.again, w->steps / 2) / w->steps
                                          : w->each.again);
        an_flops_add(&each.model, w->vary ? an_time_add(w->total.model, w->steps / 2) / w->steps
                                          : w->each.model);
        an_flops_add(&each.palm,
                     w->vary ? an_time_add(w->total.palm, w->steps / 2) / w->steps : w->each.palm);
        an_flops_add(&each.hardware, w->vary
                                         ? an_time_add(w->total.hardware, w->steps / 2) / w->steps
                                         : w->each.hardware);
    }
    u->model_flops = an_int(sum.model);
    u->palm_flops = an_int(sum.palm);
    u->hardware_flops = an_int(sum.hardware);
    u->model_flops_per_step = an_int(each.model);
    u->palm_flops_per_step = an_int(each.palm);
    u->hardware_flops_per_step = an_int(each.hardware);
    u->recomputed_flops = an_int(sum.again);
    u->recomputed_flops_per_step = an_int(each.again);
}

static void dtype_text(struct an_flops_gather *g)
{
    struct an_utilization *u = &g->c->r->utilization;
    char text[128] = "";
    size_t n = 0;
    for (size_t d = 0; d < g->dtypes && n < sizeof text; d++)
        if (*g->dtype[d])
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "+" : "", g->dtype[d]);
    u->dtype = *text ? an_arena_text(g->c->a, text) : NULL;
    u->dtype_reason = *text ? NULL : "the work does not say its element type";
}

static void flops_absent(struct an_utilization *u, const char *reason)
{
    u->model_flops_per_step = u->model_flops = u->hardware_flops_per_step = an_int_none(reason);
    u->hardware_flops = u->palm_flops_per_step = u->palm_flops = an_int_none(reason);
    u->mfu = u->mfu_palm = u->hfu = u->achieved_flops = an_num_none(reason);
    u->flop_coverage_pct = u->peak_flops = an_num_none(reason);
    u->recomputed_flops = u->recomputed_flops_per_step = an_int_none(reason);
    u->dtype_reason = reason;
}

static void utilization_absent(struct an_context *c, const char *reason)
{
    flops_absent(&c->r->utilization, reason);
    an_flops_roof_absent(c, reason);
}

/* --flops-per-step: the user knows the model's FLOPs, the program does not say them. */
static void from_option(struct an_context *c)
{
    struct an_utilization *u = &c->r->utilization;
    double ns = 0, steps = 0, per_lane = 0;
    size_t devices = 0;
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_lane *l = &c->lane[k];
        double lane_ns = 0, lane_steps = 0;
        for (size_t i = l->first; i < l->first + l->count; i++)
            if (an_step_counted(&c->step[i])) {
                lane_ns += (double)an_step_ns(&c->step[i]);
                lane_steps++;
            }
        ns += lane_ns;
        steps += lane_steps;
        bool seen_before = false;
        for (size_t j = 0; j < k; j++)
            seen_before = seen_before || same_device(c, l, &c->lane[j]);
        devices += !seen_before;
    }
    per_lane = c->lane_count ? ns / (double)c->lane_count / 1e9 : 0;
    double per_step = c->o->flops_per_step, done = per_step * steps / (double)c->lane_count;
    u->model_flops_per_step =
        per_step < 9e18 ? an_int((int64_t)per_step) : an_int_none("too large to count");
    u->model_flops = done < 9e18 ? an_int((int64_t)done) : an_int_none("too large to count");
    const char *dtype =
        u->peak_flops.valid || c->o->peak_flops > 0 || !c->calls ? NULL : an_flops_kernel_dtype(c);
    struct an_peak peak;
    if (c->o->peak_flops > 0 || (dtype && c->lane_count && peak_of(c, &c->lane[0], dtype, &peak))) {
        u->dtype = dtype ? dtype : u->dtype;
        u->peak_source = dtype ? peak.source : "--peak";
        u->peak_flops = an_num((dtype ? peak.value : c->o->peak_flops) * (double)devices);
    }
    if (u->peak_flops.valid && u->peak_flops.value > 0)
        u->mfu = an_flops_share(c, "MFU", per_lane, done / u->peak_flops.value, NULL);
    else
        u->mfu = an_num_none("no peak is known; give one with --peak FLOPS");
}

static void from_payloads(struct an_flops_gather *g)
{
    struct an_context *c = g->c;
    struct an_utilization *u = &c->r->utilization;
    struct shares s = {0};
    size_t devices = 0;
    double seconds = device_seconds(g, &devices),
           coverage = g->hardware_ns > 0 ? 100 * g->covered_ns / g->hardware_ns : 0;
    totals(g);
    dtype_text(g);
    u->flop_coverage_pct =
        g->hardware_ns > 0 ? an_num(coverage) : an_num_none("no matrix work was recorded");
    u->achieved_flops = seconds > 0 ? an_num(0) : an_num_none("the steps last 0 ns");
    for (size_t k = 0; k < c->lane_count; k++) {
        share_add(g, &c->lane[k], &g->lane[k], &s);
        if (g->lane[k].ns > 0)
            u->achieved_flops.value +=
                (double)g->lane[k].total.hardware / ((double)g->lane[k].ns / 1e9);
    }
    const char *uncovered = NULL, *missing;
    if (!g->hardware)
        uncovered = "no matrix work was recorded in the steps";
    else if (coverage < COVERAGE_LEAST)
        uncovered = an_arena_format(
            c->a,
            "FLOPs are known for %.1f %% of the time of matrix work only; give --flops-per-step",
            coverage);
    missing = uncovered ? uncovered : s.missing;
    u->peak_source = s.source;
    u->peak_flops = s.seconds > 0 && !s.missing
                        ? an_num(s.flops / s.seconds * (double)devices)
                        : an_num_none(missing ? missing : "no FLOPs were recorded");
    const char *no_model = "some matrix work does not say its model FLOPs",
               *no_palm = "some matrix work does not say its FLOPs with full attention";
    if (g->model_missing)
        u->model_flops = u->model_flops_per_step = an_int_none(no_model);
    if (g->palm_missing)
        u->palm_flops = u->palm_flops_per_step = an_int_none(no_palm);
    u->mfu = an_flops_share(c, "MFU", seconds, s.model,
                            missing            ? missing
                            : g->model_missing ? no_model
                                               : NULL);
    u->mfu_palm = an_flops_share(c, "MFU (PaLM)", seconds, s.palm,
                                 missing           ? missing
                                 : g->palm_missing ? no_palm
                                                   : NULL);
    u->hfu = an_flops_share(c, "HFU", seconds, s.hardware, missing);
    an_flops_roof(g, seconds, devices, uncovered ? uncovered : g->model_missing ? no_model : NULL);
}

static const char *why_silent(const struct an_flops_gather *g)
{
    const struct an_context *c = g->c;
    if (!c->r->steps.detailed)
        return "no counted step has all its ranges in the file";
    if (g->works)
        return "the ranges in the steps carry no FLOPs; give --flops-per-step";
    if (c->calls && c->calls->count)
        return c->calls->shapes
                   ? "no operator in the steps has a known cost; give --flops-per-step"
                   : "no shapes recorded; record with record_shapes=True, or give --flops-per-step";
    return "no range in a step says its FLOPs (tacho.work in include/tacho_nvtx.h); give "
           "--flops-per-step";
}

static int utilization_run(struct an_context *c)
{
    struct an_flops_gather g = {.c = c};
    utilization_absent(c, "no step is complete");
    if (!c->r->steps.counted)
        return 0;
    int rc = gather_all(&g);
    if (rc)
        return rc;
    if (g.told && c->r->steps.detailed)
        from_payloads(&g);
    else
        utilization_absent(c, why_silent(&g));
    if (g.unclear)
        an_problem(c,
                   "%" PRId64 " products ran inside backward with gradients on: run again "
                              "(checkpointing) or differentiated twice, "
                   "the trace does not tell which; the model FLOPs hold them",
                   g.unclear);
    if (c->o->flops_per_step > 0)
        from_option(c);
    return 0;
}

const struct an_analyzer an_utilization = {
    "utilization", "FLOPs in three conventions, and their share of the peak", AN_INPUT_STEPS,
    utilization_run, utilization_absent};
