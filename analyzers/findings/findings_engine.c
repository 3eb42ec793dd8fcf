/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of steps that compute on the processor: what measured roofs say about the ops of the
 * step. Each needs ceilings of the machine; where it was never calibrated it is not looked for.
 */
#include "analyzers/findings/findings_engine.h"
#include "analyzers/base/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT_THE_ROOF 0.5 /* of the DRAM roof: below it something else than the memory holds an op \
                         */
#define FASTER 1.05     /* a roof that is worth a change of the element type */

/* ---- calls ------------------------------------------------------------------------------------------------------------------ */

static bool part_of_another(const struct an_trace *t, size_t i)
{
    const struct an_detail *around = t->slice.parent[i] == AN_NONE
                                         ? NULL
                                         : an_trace_detail(t, t->slice.detail[t->slice.parent[i]]);
    return around && around->role == AN_ROLE_WORK && around->flops > 0;
}

/* Finds the calls once; what is looked for goes over them many times. */
static int find_calls(struct an_engine *e)
{
    const struct an_context *c = e->c;
    const struct an_trace *t = c->t;
    size_t room = 0;
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_lane *l = &c->lane[k];
        const struct an_track *track = l->track == AN_NONE ? NULL : &t->track[l->track];
        for (size_t i = track ? track->slice_first : 0;
             track && i < track->slice_first + track->slice_count; i++) {
            const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
            if (!d || d->role != AN_ROLE_WORK || !(d->flops >= 0) || t->slice.dur[i] == AN_OPEN)
                continue;
            const struct an_step *s = an_step_at(c, l, t->slice.start[i]);
            if (!s || !an_step_detailed(s) || part_of_another(t, i) || an_slice_in_phase(t, i))
                continue;
            if (an_grow(&e->found, &room, e->calls + 1, sizeof *e->found))
                return TACHO_ENOMEM;
            e->found[e->calls++] = (struct an_engine_found){
                t->slice.detail[i], (uint32_t)(s - c->step), t->slice.dur[i]};
        }
    }
    return 0;
}

void an_engine_each(const struct an_engine *e,
                    void (*visit)(void *ctx, const struct an_engine_call *x), void *ctx)
{
    for (size_t i = 0; i < e->calls; i++) {
        const struct an_detail *d = &e->c->t->detail[e->found[i].detail];
        struct an_engine_call x = {.d = d,
                                   .detail = e->found[i].detail,
                                   .step = e->found[i].step,
                                   .ns = (double)e->found[i].ns,
                                   .bytes = (double)(d->bytes_read > 0 ? d->bytes_read : 0) +
                                            (double)(d->bytes_written > 0 ? d->bytes_written : 0)};
        visit(ctx, &x);
    }
}

static void add_cost(void *ctx, const struct an_engine_call *x)
{
    struct an_engine_cost *cost = &((struct an_engine *)ctx)->cost[x->detail];
    cost->calls++;
    cost->ns = an_time_add(cost->ns, (int64_t)x->ns);
}

bool an_engine_is_pass(const struct an_engine_call *x, const char *pass)
{
    return !strcmp(x->d->pass, pass);
}

double an_engine_roof(const struct an_engine *e, const char *dtype)
{
    const struct an_ceiling_row *row = an_ceiling_find(e->c, "cpu", "gemm", dtype);
    return row ? row->value / e->share : 0;
}

/* ---- shares ----------------------------------------------------------------------------------------------------------------- */

struct gain {
    const struct an_engine *e;
    an_engine_floor floor;
};

static void add_gain(void *ctx, const struct an_engine_call *x)
{
    const struct gain *g = ctx;
    double least = g->floor(g->e, x);
    if (least < x->ns)
        g->e->x[x->step] += x->ns - least;
}

struct an_class_share an_engine_gain(const struct an_engine *e, an_engine_floor floor,
                                     double *removed_ms)
{
    const struct an_context *c = e->c;
    struct gain g = {e, floor};
    double removed = 0, all = 0;
    size_t n = 0;
    memset(e->x, 0, c->step_count * sizeof *e->x);
    an_engine_each(e, add_gain, &g);
    for (size_t i = 0; i < c->step_count; i++) {
        int64_t ns = an_step_detailed(&c->step[i]) ? an_step_ns(&c->step[i]) : 0;
        double one = e->x[i];
        if (ns <= 0)
            continue;
        removed += one;
        all += (double)ns;
        e->x[n++] = 100 * one / (double)ns;
    }
    struct an_class_share s = an_share_of_values(e->x, n);
    s.mean = all > 0 ? 100 * removed / all : 0; /* weighted as the budget */
    *removed_ms = n ? removed / (double)n / 1e6 : 0;
    return s;
}

double an_engine_step_ms(const struct an_engine *e)
{
    const struct an_budget *b = &e->c->r->budget;
    return b->steps ? (double)b->step_ns / (double)b->steps / 1e6 : 0;
}

const char *an_engine_window(const struct an_engine *e, const char *what,
                             const struct an_class_share *s)
{
    double ms = an_engine_step_ms(e) / 100;
    if (!isfinite(s->half))
        return an_arena_format(e->c->a, "%s: %s (%s)", what,
                               an_time_words(e->c->a, ms * s->mean, 3), an_findings_window(e->c));
    return an_arena_format(e->c->a, "%s: %s a step (%s)", what,
                           an_time_spread(e->c->a, ms * s->mean, ms * s->half),
                           an_findings_window(e->c));
}

/* ---- LOW_INTENSITY ---------------------------------------------------------------------------------------------------------- */

/* Element-wise work of forward and backward that the DRAM holds: left of the ridge, at half of its
 * roof or more and not above it, as all its calls of this cost go on average. */
static bool at_the_memory(const struct an_engine *e, const struct an_engine_call *x)
{
    const struct an_engine_cost *cost = &e->cost[x->detail];
    if (x->d->hardware || an_engine_is_pass(x, "optimizer") || !(x->bytes > 0) || !cost->ns ||
        !x->d->flops)
        return false;
    double rate = x->bytes * (double)cost->calls / (double)cost->ns * 1e9;
    return (double)x->d->flops / x->bytes < e->peak / e->dram && rate >= AT_THE_ROOF * e->dram &&
           rate <= e->dram;
}

static double whole_time(const struct an_engine *e, const struct an_engine_call *x)
{
    return at_the_memory(e, x) ? 0 : NAN;
}

static double wide_time(const struct an_engine *e, const struct an_engine_call *x)
{
    return !strcmp(x->d->dtype, "fp32") ? whole_time(e, x) : NAN;
}

/* Without its traffic an op still has its arithmetic. */
static double arithmetic_alone(const struct an_engine *e, const struct an_engine_call *x)
{
    return at_the_memory(e, x) ? (double)x->d->flops / e->peak * 1e9 : NAN;
}

/* The op that takes most of it. */
static const char *largest_words(const struct an_engine *e)
{
    const struct an_result *r = e->c->r;
    for (size_t i = 0; i < r->point_count; i++) { /* longest first */
        const struct an_roofline_point *p = &r->points[i];
        if (p->bound && !strcmp(p->bound, "memory") && !p->product &&
            strcmp(p->pass, "optimizer") != 0 &&
            p->achieved_flops >= AT_THE_ROOF * p->attainable_flops)
            return an_arena_format(
                e->c->a, "most: %.60s, %s GB/s, %.0f %% of the DRAM roof, %s FLOP/byte (%s)",
                p->name, an_number_words(e->c->a, p->achieved_flops / p->intensity / 1e9, 3),
                100 * p->achieved_flops / p->attainable_flops,
                an_number_words(e->c->a, p->intensity, 3), an_findings_window(e->c));
    }
    return NULL;
}

static void low_intensity(struct an_engine *e)
{
    struct an_context *c = e->c;
    double removed, time;
    if (!(e->dram > 0) || !(e->peak > 0))
        return;
    struct an_class_share s = an_engine_gain(e, arithmetic_alone, &removed);
    if (!an_class_share_matters(&s)) {
        an_findings_checked(e->l, "element-wise work at the speed of the memory");
        return;
    }
    struct an_class_share all = an_engine_gain(e, whole_time, &time);
    struct an_finding *f = an_findings_add(
        e->l, "LOW_INTENSITY",
        an_arena_format(c->a,
                        "element-wise work at the speed of the memory takes %.1f %% of the step",
                        all.mean));
    an_finding_evidence(f, an_engine_window(e, "such work", &all));
    an_finding_evidence(f, largest_words(e));
    an_finding_evidence(
        f, an_arena_format(
               c->a, "its arithmetic alone would take %s a step at the fp32 peak (%s GFLOP/s)",
               an_time_words(c->a, time - removed, 3),
               an_number_words(c->a, e->peak * e->share / 1e9, 3)));
    an_finding_evidence(
        f, an_arena_format(
               c->a, "the memory moves %s GB/s at most (measured); the ridge lies at %s FLOP/byte",
               an_number_words(c->a, e->dram * e->share / 1e9, 3),
               an_number_words(c->a, e->peak / e->dram, 3)));
    double in_fp32;
    an_engine_gain(e, wide_time, &in_fp32);
    bool wide = in_fp32 > time / 2; /* most of it has tensors that could be narrower */
    f->action = e->libtrain && wide ? "--dtype bf16: activations of half the bytes"
                : wide ? "a 16-bit type for activations (bf16), or one pass over each tensor: fuse "
                         "element-wise work "
                         "into the product before it (torch.compile)"
                       : "one pass over each tensor: fuse bias, activation function, residual and "
                         "norm into their "
                         "neighbours (torch.compile; post-operations of oneDNN)";
    f->effort =
        e->libtrain && wide ? "a setting; the loss has to be watched" : "some lines of code";
    an_finding_ceiling(f, 100, s.mean, ENGINE_CEILING);
    f->method = "ceiling: step / (step - time of such work + its arithmetic at the instruction "
                "peak) - 1; nothing was replayed";
    f->confidence = f->confidence > AN_MEDIUM ? AN_MEDIUM : f->confidence;
    f->verify = an_findings_rerun(c, e->libtrain && wide ? "--dtype bf16" : "the change");
    f->wrong_when = "the tensors do not get smaller, or what is fused is needed in memory anyway "
                    "(kept for backward)";
}

/* ---- LOW_PRECISION ---------------------------------------------------------------------------------------------------------- */

static bool is_fp32_product(const struct an_engine_call *x)
{
    return x->d->hardware && !strcmp(x->d->dtype, "fp32") && x->d->flops > 0;
}

static double product_time(const struct an_engine *e, const struct an_engine_call *x)
{
    (void)e;
    return is_fp32_product(x) ? 0 : NAN;
}

/* In bf16: products as much faster as the roofs are apart; what else moves activations moves half
 * the bytes. The optimizer keeps its fp32 weights. */
static double in_bf16(const struct an_engine *e, const struct an_engine_call *x)
{
    if (is_fp32_product(x))
        return x->ns * an_engine_roof(e, "fp32") / an_engine_roof(e, "bf16");
    bool halved =
        !x->d->hardware && !an_engine_is_pass(x, "optimizer") && !strcmp(x->d->dtype, "fp32");
    return halved ? x->ns / 2 : NAN;
}

static void add_flops(void *ctx, const struct an_engine_call *x)
{
    *(double *)ctx += is_fp32_product(x) ? (double)x->d->flops : 0;
}

/* Part of their roof that the products reach today, in `ms` of a step. Above 1 the roof is too low.
 */
static double reach(const struct an_engine *e, double ms)
{
    double flops = 0;
    an_engine_each(e, add_flops, &flops);
    return flops / (double)e->c->r->steps.detailed / ms * 1e3 / an_engine_roof(e, "fp32");
}

static const char *reach_words(const struct an_engine *e, double part)
{
    double rate = part * an_engine_roof(e, "fp32");
    if (part > 1)
        return an_arena_format(
            e->c->a,
            "products of this run: %s GFLOP/s, above the fp32 roof: the calibration is too low, "
            "and how far "
            "the two are apart is not sure (tacho calibrate --force, then record again)",
            an_number_words(e->c->a, rate * e->share / 1e9, 4));
    return an_arena_format(e->c->a, "products of this run: %s GFLOP/s, %.0f %% of the fp32 roof",
                           an_number_words(e->c->a, rate * e->share / 1e9, 4), 100 * part);
}

static void precision_words(const struct an_engine *e, struct an_finding *f)
{
    f->action =
        e->libtrain
            ? "--dtype bf16: products and activations in bf16, master weights in fp32"
            : "mixed precision: torch.autocast(\"cpu\", torch.bfloat16) around forward and loss";
    f->effort = "a setting; the loss has to be watched";
    f->confidence = f->confidence > AN_MEDIUM ? AN_MEDIUM : f->confidence;
    f->verify = an_findings_rerun(e->c, e->libtrain ? "--dtype bf16" : "bf16");
    f->wrong_when = "something else than arithmetic holds the products (small shapes, other "
                    "programs on the cores), or training "
                    "does not converge in that type";
}

static void low_precision(struct an_engine *e)
{
    struct an_context *c = e->c;
    double removed = 0, time, fp32 = an_engine_roof(e, "fp32"), bf16 = an_engine_roof(e, "bf16");
    struct an_class_share all = an_engine_gain(e, product_time, &time), s = all;
    if (!(time > 0) || !(fp32 > 0) || !(bf16 > 0))
        return; /* whether bf16 is faster here is not known without the roofs of products: nothing
                   was looked at */
    if (bf16 / fp32 >= FASTER)
        s = an_engine_gain(e, in_bf16, &removed);
    if (bf16 / fp32 < FASTER || !an_class_share_matters(&s)) {
        an_findings_checked(e->l, "products in fp32 where bf16 is faster");
        return;
    }
    struct an_finding *f =
        an_findings_add(e->l, "LOW_PRECISION",
                        an_arena_format(c->a,
                                        "products take %.1f %% of the step in fp32; in bf16 this "
                                        "machine multiplies %s times as fast",
                                        all.mean, an_number_words(c->a, bf16 / fp32, 3)));
    an_finding_evidence(f, an_engine_window(e, "products in fp32", &all));
    an_finding_evidence(
        f, an_arena_format(c->a, "fastest product: %s GFLOP/s in bf16, %s in fp32 (measured)",
                           an_number_words(c->a, bf16 * e->share / 1e9, 4),
                           an_number_words(c->a, fp32 * e->share / 1e9, 4)));
    double part = reach(e, time);
    an_finding_evidence(f, reach_words(e, part));
    precision_words(e, f);
    f->confidence = part > 1 ? AN_LOW : f->confidence;
    an_finding_ceiling(f, 100, s.mean, ENGINE_CEILING);
    f->method = "ceiling: step / (step - what goes) - 1: products as much faster as the measured "
                "roofs are apart, other work "
                "of forward and backward in half its time; nothing was replayed";
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------ */

/* Ranks on one machine share its ceilings; of several machines the fullest counts. */
static double ranks_a_machine(const struct an_context *c)
{
    size_t most = 1;
    for (size_t i = 0; i < c->lane_count; i++) {
        size_t n = 0;
        for (size_t k = 0; k < c->lane_count; k++)
            n += c->lane[i].process != AN_NONE && c->lane[k].process != AN_NONE &&
                 !strcmp(c->t->process[c->lane[i].process].host,
                         c->t->process[c->lane[k].process].host);
        most = n > most ? n : most;
    }
    return (double)most;
}

int an_findings_engine(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    struct an_memory_level level[AN_MEMORY_LEVELS];
    size_t levels = an_memory_levels(c, "cpu", level);
    const struct an_ceiling_row *peak = an_ceiling_find(c, "cpu", "flops", "fp32");
    struct an_engine e = {.l = l,
                          .c = c,
                          .share = ranks_a_machine(c),
                          .libtrain = an_findings_framework(c) == AN_FRAMEWORK_LIBTRAIN};
    if (c->r->budget.reason || !c->r->steps.detailed)
        return 0;
    e.cost = an_arena_zero(c->work, c->t->detail_count + 1, sizeof *e.cost);
    e.x = an_arena_zero(c->work, c->step_count + 1, sizeof *e.x);
    if (!e.cost || !e.x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < levels; i++) {
        double v = level[i].row->value / e.share;
        e.dram = strcmp(level[i].name, "dram") ? e.dram : v;
        e.fastest = v > e.fastest ? v : e.fastest;
    }
    e.peak = peak ? peak->value / e.share : 0;
    int rc = find_calls(&e);
    if (!rc) {
        an_engine_each(&e, add_cost, &e);
        low_precision(&e);
        low_intensity(&e);
        an_engine_small_batch(&e);
        an_engine_recompute(&e);
    }
    free(e.found);
    return rc;
}
