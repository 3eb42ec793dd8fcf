/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the size of the work: micro-batches that are too small for the machine, and
 * recomputation that memory would make needless.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_engine.h"

#define LITTLE 0.5 /* of the roof of products */
#define MOSTLY 0.5 /* of the time of products, in calls that are small */
#define SHORT_CALL \
    1e5 /* ns at its roof: starting threads and filling caches weighs in a call that short */
#define LONG_CALL   5e5 /* ns at its roof of a call that a larger batch aims at */
#define FACTOR_MOST 32  /* times the micro-batch */
#define ROOM_USED   0.9 /* of the memory that is left */

/* ---- SMALL_BATCH ------------------------------------------------------------------------------------------------------------ */

struct batch {
    const struct an_engine *e;
    double flops, ns, at_roof_ns, small_ns,
        calls;           /* of products in forward, backward and recomputation */
    double left, ridge;  /* ns left of the ridge; largest ridge of their types */
    double width;        /* bytes of an element of that type */
    int64_t micro_steps; /* a step */
    double factor;       /* of the micro-batch */
    bool unknown;        /* a type without a roof */
};

static bool scales(const struct an_engine_call *x)
{
    return !an_engine_is_pass(x, "optimizer");
}

static double ridge_of(const struct an_engine *e, const char *dtype)
{
    const struct an_ceiling_row *peak = an_ceiling_find(e->c, "cpu", "flops", dtype);
    return peak && e->dram > 0 ? peak->value / e->share / e->dram : 0;
}

static void add_product(void *ctx, const struct an_engine_call *x)
{
    struct batch *b = ctx;
    double roof = an_engine_roof(b->e, x->d->dtype), ridge = ridge_of(b->e, x->d->dtype);
    if (!x->d->hardware || !scales(x) || !(x->d->flops > 0))
        return;
    b->unknown = b->unknown || !(roof > 0);
    b->flops += (double)x->d->flops;
    b->ns += x->ns;
    b->calls++;
    b->at_roof_ns += roof > 0 ? (double)x->d->flops / roof * 1e9 : 0;
    bool left = x->bytes > 0 && (double)x->d->flops / x->bytes < ridge;
    b->left += left ? x->ns : 0;
    b->small_ns += left || (double)x->d->flops < roof * SHORT_CALL / 1e9 ? x->ns : 0;
    if (ridge > b->ridge) {
        b->ridge = ridge;
        b->width = !strcmp(x->d->dtype, "bf16") || !strcmp(x->d->dtype, "fp16") ? 2 : 4;
    }
}

/* Micro-steps of a step, by their ranges; 1 where the program marks none. */
static int64_t micro_steps_of(const struct an_context *c)
{
    const struct an_trace *t = c->t;
    int64_t n = 0;
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_track *track =
            c->lane[k].track == AN_NONE ? NULL : &t->track[c->lane[k].track];
        for (size_t i = track ? track->slice_first : 0;
             track && i < track->slice_first + track->slice_count; i++) {
            if (an_trace_role(t, t->slice.detail[i]) != AN_ROLE_MICRO_STEP)
                continue;
            const struct an_step *s = an_step_at(c, &c->lane[k], t->slice.start[i]);
            n += s && an_step_detailed(s);
        }
    }
    n = c->r->steps.detailed ? (n + c->r->steps.detailed / 2) / c->r->steps.detailed : 0;
    return n > 1 ? n : 1;
}

/* What a call with a larger micro-batch takes at least for the same samples: products at their
 * roof, the rest at the fastest memory that was measured or at its arithmetic. */
static double at_its_roof(const struct an_engine *e, const struct an_engine_call *x)
{
    double arithmetic = e->peak > 0 ? (double)x->d->flops / e->peak * 1e9 : 0;
    double traffic = e->fastest > 0 ? x->bytes / e->fastest * 1e9 : 0;
    if (!scales(x))
        return NAN;
    if (x->d->hardware)
        return (double)x->d->flops / an_engine_roof(e, x->d->dtype) * 1e9;
    return arithmetic > traffic ? arithmetic : traffic;
}

static double all_that_scales(const struct an_engine *e, const struct an_engine_call *x)
{
    (void)e;
    return scales(x) ? 0 : NAN;
}

static double all_of_the_optimizer(const struct an_engine *e, const struct an_engine_call *x)
{
    (void)e;
    return scales(x) ? NAN : 0;
}

static double power_of_two_below(double v)
{
    return v >= 2 ? pow(2, floor(log2(v))) : 1;
}

/* How many times the micro-batch would be large enough, and fits: 1 where it does not. */
static double factor_of(const struct an_engine *e, const struct batch *b, double rows)
{
    const struct an_memory *m = &e->c->r->memory;
    double wanted = LONG_CALL / (b->at_roof_ns / b->calls);
    if (b->left >= MOSTLY * b->ns && rows > 0 && b->ridge * b->width / 2 / rows > wanted)
        wanted = b->ridge * b->width / 2 /
                 rows; /* fewer rows are left of the ridge whatever the other sizes are */
    wanted = wanted < 2 ? 2 : wanted > FACTOR_MOST ? FACTOR_MOST : pow(2, ceil(log2(wanted)));
    if (b->micro_steps > 1 && wanted > (double)b->micro_steps)
        wanted = (double)b->micro_steps;
    double grows = m->batch_bytes.valid           ? (double)m->batch_bytes.value
                   : m->resident_peak_bytes.valid ? (double)m->resident_peak_bytes.value
                                                  : 0;
    if (!m->room_bytes.valid || !(grows > 0))
        return 1;
    double fits = power_of_two_below(1 + ROOM_USED * (double)m->room_bytes.value / grows);
    return wanted < fits ? wanted : fits;
}

static const char *room_words(const struct an_engine *e, double factor)
{
    const struct an_memory *m = &e->c->r->memory;
    bool counted = m->batch_bytes.valid;
    double grows = (double)(counted ? m->batch_bytes.value : m->resident_peak_bytes.value);
    return an_arena_format(
        e->c->a, "memory: %s take %s, %s times as much is %s more; %s are left (%s)",
        counted ? "activations and workspace" : "all that is resident",
        an_findings_bytes(e->c, grows), an_number_words(e->c->a, factor, 3),
        an_findings_bytes(e->c, (factor - 1) * grows),
        an_findings_bytes(e->c, (double)m->room_bytes.value), counted ? "counted" : "system layer");
}

/* Share of the step that goes at most: what scales with samples at its roofs, what is once a step
 * or a micro-step divided by the factor. With accumulation the optimizer and the exchange of
 * gradients stay: the global batch does. */
static double batch_gain_pct(const struct an_engine *e, const struct batch *b,
                             struct an_class_share *s)
{
    const struct an_budget *all = &e->c->r->budget;
    double ms, step_ms = an_engine_step_ms(e), scaled, optimizer;
    an_engine_gain(e, all_that_scales, &scaled);
    an_engine_gain(e, all_of_the_optimizer, &optimizer);
    *s = an_engine_gain(e, at_its_roof, &ms);
    double input = all->ns[AN_CLASS_INPUT].valid
                       ? (double)all->ns[AN_CLASS_INPUT].value / (double)all->steps / 1e6
                       : 0;
    double comm = all->ns[AN_CLASS_COMM].valid
                      ? (double)all->ns[AN_CLASS_COMM].value / (double)all->steps / 1e6
                      : 0;
    double once = step_ms - scaled - input;
    if (b->micro_steps > 1)
        once -= optimizer + comm;
    once = once > 0 ? once : 0;
    return 100 * (ms + once * (1 - 1 / b->factor)) / step_ms;
}

/* Settings of the engine. */
static const char *batch_option(const struct batch *b, double micro)
{
    struct an_context *c = b->e->c;
    if (b->micro_steps > 1)
        return an_arena_format(c->a, "--batch %.0f --accumulate %.0f", micro * b->factor,
                               ceil((double)b->micro_steps / b->factor));
    return an_arena_format(c->a, "--batch %.0f", micro * b->factor);
}

static const char *batch_action(const struct an_engine *e, const struct batch *b, double samples)
{
    struct an_context *c = e->c;
    double micro = samples / (double)b->micro_steps,
           global = samples * (double)(c->r->run.ranks > 1 ? c->r->run.ranks : 1);
    const char *to = e->libtrain
                         ? batch_option(b, micro)
                         : an_arena_format(c->a, "a micro-batch of %.0f", micro * b->factor);
    if (b->micro_steps > 1)
        return an_arena_format(
            c->a, "%s in place of %.0f: the same global batch of %.0f samples in fewer micro-steps",
            to, micro, global);
    return an_arena_format(c->a,
                           "%s in place of %.0f: a global batch of %.0f samples, not %.0f; the "
                           "learning rate has to follow",
                           to, micro, global * b->factor, global);
}

void an_engine_small_batch(struct an_engine *e)
{
    struct an_context *c = e->c;
    const struct an_steps *steps = &c->r->steps;
    struct batch b = {.e = e, .micro_steps = micro_steps_of(c)};
    struct an_class_share s;
    an_engine_each(e, add_product, &b);
    if (!(b.ns > 0) || b.unknown || !steps->samples_per_step.valid)
        return; /* no roof of products: nothing was looked at */
    double samples = steps->samples_per_step.value, micro = samples / (double)b.micro_steps;
    double rows = steps->tokens_per_step.valid && steps->tokens_per_step.value > 0
                      ? steps->tokens_per_step.value / (double)b.micro_steps
                      : micro;
    b.factor = factor_of(e, &b, rows);
    double gain = b.factor >= 2 ? batch_gain_pct(e, &b, &s) : 0;
    if (b.at_roof_ns >= LITTLE * b.ns || b.small_ns < MOSTLY * b.ns || b.factor < 2 ||
        !an_class_share_matters(&s)) {
        an_findings_checked(
            e->l, "micro-batches that are too small for the products' roof and could be larger");
        return;
    }
    struct an_finding *f =
        an_findings_add(e->l, "SMALL_BATCH",
                        an_arena_format(c->a,
                                        "products reach %.0f %% of their roof: a micro-batch of %s "
                                        "samples (%s rows) is small for this machine",
                                        100 * b.at_roof_ns / b.ns, an_number_words(c->a, micro, 3),
                                        an_number_words(c->a, rows, 4)));
    an_finding_evidence(
        f, an_arena_format(c->a, "products: %s GFLOP/s in %s a step, %s at their roof (%s)",
                           an_number_words(c->a, b.flops / b.ns * e->share, 4),
                           an_time_words(c->a, b.ns / (double)steps->detailed / 1e6, 3),
                           an_number_words(c->a, b.flops / b.at_roof_ns * e->share, 4),
                           an_findings_window(c)));
    an_finding_evidence(
        f, an_arena_format(
               c->a,
               "one call: %s MFLOP on average, %s here, %s at the roof; %.0f %% of the time is in "
               "calls below 100 µs at the roof or left of the ridge",
               an_number_words(c->a, b.flops / b.calls / 1e6, 3),
               an_time_words(c->a, b.ns / b.calls / 1e6, 3),
               an_time_words(c->a, b.at_roof_ns / b.calls / 1e6, 3), 100 * b.small_ns / b.ns));
    if (b.ridge > 0)
        an_finding_evidence(
            f, an_arena_format(c->a,
                               "left of the ridge of %s FLOP/byte: %.0f %% of the time of products",
                               an_number_words(c->a, b.ridge, 3), 100 * b.left / b.ns));
    an_finding_evidence(f, room_words(e, b.factor));
    f->action = batch_action(e, &b, samples);
    f->effort = b.micro_steps > 1 ? "two settings" : "a setting, and the learning rate";
    an_finding_ceiling(f, 100, gain, ENGINE_CEILING);
    f->method = "ceiling: products at their measured roof, other work that grows with samples at "
                "the fastest memory level, what is "
                "once a step or micro-step divided by the factor; nothing was replayed";
    f->confidence = f->confidence > AN_MEDIUM ? AN_MEDIUM : f->confidence;
    f->verify = an_findings_rerun(c, e->libtrain ? batch_option(&b, micro) : "the larger batch");
    f->wrong_when = "the loss needs that batch, or the larger tensors leave the caches";
}

/* ---- RECOMPUTE -------------------------------------------------------------------------------------------------------------- */

static double all_that_repeats(const struct an_engine *e, const struct an_engine_call *x)
{
    (void)e;
    return an_engine_is_pass(x, "recompute") ? 0 : NAN;
}

static void add_kept(void *ctx, const struct an_engine_call *x)
{
    double *bytes = ctx;
    if (an_engine_is_pass(x, "recompute") && x->d->bytes_written > 0)
        *bytes += (double)x->d->bytes_written;
}

void an_engine_recompute(struct an_engine *e)
{
    struct an_context *c = e->c;
    const struct an_memory *m = &c->r->memory;
    double ms, bytes = 0;
    struct an_class_share s = an_engine_gain(e, all_that_repeats, &ms);
    if (!(ms > 0))
        return; /* nothing is recomputed: the action does not exist */
    an_engine_each(e, add_kept, &bytes);
    double keep = bytes / (double)c->r->steps.detailed / (double)micro_steps_of(c) *
                  e->share; /* of all ranks of a machine */
    bool fits = m->room_bytes.valid && keep <= ROOM_USED * (double)m->room_bytes.value;
    if (!fits || !an_class_share_matters(&s)) {
        an_findings_checked(e->l,
                            !an_class_share_matters(&s) ? "recomputation that takes time"
                            : m->room_bytes.valid
                                ? "recomputation that memory could replace: it has no room"
                                : "recomputation that memory could replace: its room is not known");
        return;
    }
    struct an_finding *f = an_findings_add(
        e->l, "RECOMPUTE",
        an_arena_format(c->a,
                        "%.1f %% of the step computes activations again that memory has room for",
                        s.mean));
    an_finding_evidence(f, an_engine_window(e, "recomputation", &s));
    const struct an_utilization *u = &c->r->utilization;
    if (u->recomputed_flops_per_step.valid && u->hardware_flops_per_step.valid &&
        u->hardware_flops_per_step.value > 0)
        an_finding_evidence(
            f, an_arena_format(
                   c->a, "%s GFLOP a step are recomputed, %.1f %% of those executed",
                   an_number_words(c->a, (double)u->recomputed_flops_per_step.value / 1e9, 3),
                   100 * (double)u->recomputed_flops_per_step.value /
                       (double)u->hardware_flops_per_step.value));
    an_finding_evidence(
        f, an_arena_format(
               c->a, "what is computed again writes %s a micro-step: so much more would be kept",
               an_findings_bytes(c, keep)));
    an_finding_evidence(f, an_arena_format(c->a, "%s of %s of memory are left",
                                           an_findings_bytes(c, (double)m->room_bytes.value),
                                           an_findings_bytes(c, (double)m->capacity_bytes.value)));
    f->action =
        e->libtrain
            ? "--recompute none: keep the activations"
            : "no checkpointing (torch.utils.checkpoint), or of fewer blocks: keep the activations";
    f->effort = "a setting";
    an_finding_ceiling(f, 100, s.mean, ENGINE_CEILING);
    f->method = "ceiling: step / (step - recomputation) - 1; nothing was replayed";
    f->verify = an_findings_rerun(c, e->libtrain ? "--recompute none" : "the activations kept");
    f->wrong_when = "other programs need that memory, or the activations that are kept have to be "
                    "read from memory again where "
                    "recomputed ones were in the caches";
}
