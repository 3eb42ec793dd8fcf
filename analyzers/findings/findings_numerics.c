/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the numbers of the training are sound, by the counters that the program emits itself: a
 * loss or gradient that is not finite (NAN), a loss that rises for good (DIVERGING), updates that
 * are skipped again and again because a scaled gradient overflows (OVERFLOW_LOOP), a loss scale at
 * which gradients vanish (DEAD_SCALE). They come before all else: time does not matter to a run
 * that learns nothing. None has a gain.
 *
 * Counters: loss or train_loss, grad_norm, loss_scale, overflows (updates skipped so far),
 * underflow.NAME (share of gradients that are exactly 0). The reference engine also marks where a
 * value that is not finite was written first, by a range "nonfinite: OPERATION, layer N".
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define WINDOW          5    /* losses of which the median counts */
#define LOSSES_LEAST    16   /* fewer show no trend */
#define NOISES          6.0  /* a rise is more than so many deviations of a loss, */
#define RISE            0.1  /* more than this share of the best loss, */
#define LOST            0.5  /* and more than this share of what had been gained */
#define HIGH            1.5  /* times the start; a loss that never gets better was above it, */
#define SOON            1.25 /* began to rise there, */
#define NOT_BETTER      0.9  /* and ends above this */
#define LOOP_STEPS      20   /* the last steps, of which */
#define LOOP_SHARE      0.5  /* this share was skipped */
#define SEARCH          16   /* updates in which a first scale is looked for */
#define SKIPPED_SHARE   0.05 /* of the later updates */
#define SKIPPED_LEAST   3
#define UNDERFLOW_SHARE 0.9 /* of a layer's gradients */
#define MARK            "nonfinite: "

/* A counter of the program, sample by sample, with the step of each. */
struct samples {
    const double *value;
    const int64_t *time;
    size_t count;
    uint32_t process;
};

static bool has_name(const struct an_track *track, const char *const *names)
{
    if (strcmp(track->kind, "counter") != 0 || !track->counter_count)
        return false;
    for (size_t i = 0; names[i]; i++)
        if (!strcasecmp(track->name, names[i]))
            return true;
    return false;
}

static struct samples samples_of(const struct an_trace *trace, const struct an_track *track)
{
    return (struct samples){.value = trace->counter.value + track->counter_first,
                            .time = trace->counter.time + track->counter_first,
                            .count = track->counter_count,
                            .process = track->process};
}

/* The first counter of one of these names; count 0: there is none. */
static struct samples find(const struct an_trace *trace, const char *const *names)
{
    for (size_t i = 0; i < trace->track_count; i++)
        if (has_name(&trace->track[i], names))
            return samples_of(trace, &trace->track[i]);
    return (struct samples){0};
}

static const char *const losses[] = {"loss", "train_loss", "train/loss", "training_loss", NULL};
static const char *const norms[] = {"grad_norm", "gradient_norm", NULL};
static const char *const scales[] = {"loss_scale", NULL};
static const char *const overflows[] = {"overflows", NULL};

bool an_has_numerics(const struct an_context *context)
{
    return find(context->trace, losses).count > 0;
}

bool an_finding_is_numerics(const struct an_finding *finding)
{
    static const char *const ids[] = {"NAN", "DIVERGING", "OVERFLOW_LOOP", "DEAD_SCALE"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (!strcmp(finding->id, ids[i]))
            return true;
    return false;
}

bool an_has_loss_scale(const struct an_context *context)
{
    return find(context->trace, scales).count > 0 || find(context->trace, overflows).count > 0;
}

/* The step in which something happened: the last one of the process that had begun. -1: none had.
 */
static int64_t step_at(const struct an_context *context, uint32_t process, int64_t time)
{
    int64_t index = -1, start = INT64_MIN;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (context->lane[step->lane].process == process && step->host_start <= time &&
            step->host_start > start) {
            index = step->index;
            start = step->host_start;
        }
    }
    return index;
}

static const char *step_text(struct an_context *context, int64_t step)
{
    return step < 0 ? "before the first step" : an_finding_text(context, "step %" PRId64, step);
}

/* A finding about numbers: what all of them share. */
static struct an_finding *add(struct an_findings_list *findings, const char *id, const char *claim,
                              const char *action)
{
    struct an_finding *finding = an_findings_add(findings, id, claim);
    const char *none = "a run that does not learn has no throughput to gain";
    finding->action = action;
    finding->gain.low = finding->gain.expected = finding->gain.high = an_num_none(none);
    finding->method = "no gain: read off the counters of the program";
    finding->effort = "an option";
    finding->fault = true;
    finding->verify = "run again and record it: the finding is gone";
    return finding;
}

/* ---- not finite ------------------------------------------------------------------------------ */

/* Where the first value that is not finite was written, by the mark of the engine; NULL: not known.
 */
static const char *origin_of(const struct an_trace *trace)
{
    for (size_t i = 0; i < trace->slice.count; i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        if (!strncmp(name, MARK, sizeof MARK - 1))
            return name + sizeof MARK - 1;
    }
    return NULL;
}

/* The first sample that is not finite, with its step, and the operation where the program marks it.
 */
static void not_finite(struct an_findings_list *findings, const struct samples *samples,
                       const char *what)
{
    struct an_context *context = findings->context;
    const char *from = "";
    size_t at = 0;
    while (at < samples->count && isfinite(samples->value[at]))
        at++;
    if (at == samples->count)
        return;
    int64_t step = step_at(context, samples->process, samples->time[at]);
    const char *origin = origin_of(context->trace);
    if (origin)
        from = an_finding_text(context, "; the first such value came from %s", origin);
    struct an_finding *finding = add(
        findings, "NAN",
        an_finding_text(context, "the %s is not finite from %s on%s", what,
                        step_text(context, step), from),
        "look at the inputs and the scale of that operation; with fp16, a dynamic loss scale; a "
        "smaller learning rate, a longer warm-up, or clipping keep values finite");
    if (at)
        an_finding_note(context, finding, "the %s before it was %.6g", what,
                        samples->value[at - 1]);
    if (!origin)
        an_finding_evidence(finding, "no range says which operation wrote the first such value");
    finding->wrong_when = "the program writes NaN for a value that it did not compute";
}

/* ---- divergence ------------------------------------------------------------------------------ */

/* Median of the WINDOW losses up to that one. */
static double median_to(const double *value, size_t last)
{
    double sorted[WINDOW];
    memcpy(sorted, value + last + 1 - WINDOW, sizeof sorted);
    an_sort(sorted, WINDOW);
    return an_quantile(sorted, WINDOW, 0.5);
}

/* Deviation of one loss from the trend: by the median change from loss to loss. */
static double noise_of(struct an_context *context, const struct samples *samples, size_t until)
{
    double *change = an_arena_zero(context->scratch, until + 1, sizeof *change);
    for (size_t i = 0; change && i < until; i++)
        change[i] = fabs(samples->value[i + 1] - samples->value[i]);
    if (!change || !until)
        return INFINITY;
    an_sort(change, until);
    return 1.4826 * an_quantile(change, until, 0.5) / sqrt(2);
}

/* What the losses of a run come to: medians at the start, the best, the highest and the last one.
 */
struct trend {
    double start, best, peak, end, noise;
    double first; /* of the first two losses the higher one, or the start: it may rise at once */
    size_t count; /* losses before the first that is not finite */
};

static struct trend trend_of(struct an_context *context, const struct samples *samples)
{
    struct trend trend = {.count = 0};
    size_t best_at = WINDOW - 1;
    while (trend.count < samples->count && isfinite(samples->value[trend.count]))
        trend.count++;
    if (trend.count < LOSSES_LEAST)
        return trend;
    trend.start = trend.best = trend.peak = median_to(samples->value, WINDOW - 1);
    trend.first = fmin(trend.start, fmax(samples->value[0], samples->value[1]));
    for (size_t i = WINDOW; i < trend.count; i++) {
        double median = median_to(samples->value, i);
        best_at = median < trend.best ? i : best_at;
        trend.best = fmin(trend.best, median);
        trend.peak = fmax(trend.peak, median);
        trend.end = median;
    }
    trend.noise = noise_of(context, samples, best_at);
    return trend;
}

/* It ends well above the best it had reached. */
static bool is_lost(const struct trend *trend)
{
    double lost = trend->end - trend->best;
    return lost > NOISES * trend->noise && lost > RISE * fabs(trend->best) &&
           lost > LOST * (trend->start - trend->best);
}

/* It rose far above its start, and has not come down below it. */
static bool is_never_better(const struct trend *trend)
{
    return trend->first > 0 && trend->peak > HIGH * trend->first &&
           trend->end > NOT_BETTER * trend->first;
}

/* A loss that rises for good. Where it began: after the last loss that was still near the best one,
 * or of a run that never got better, before the first one that was far above the start. */
static void diverging(struct an_findings_list *findings, const struct samples *samples)
{
    struct an_context *context = findings->context;
    struct trend trend = trend_of(context, samples);
    const char *words = ", and has not come down below its start";
    double from = trend.first, to = trend.peak;
    size_t good = 0;
    if (trend.count < LOSSES_LEAST)
        return;
    bool high = is_never_better(&trend),
         lost = is_lost(&trend) && !(high && trend.best > NOT_BETTER * trend.first);
    if (!lost && !high)
        return;
    if (lost) {
        from = trend.best;
        to = trend.end;
        words = " at the end";
    }
    for (size_t i = 0; lost && i < trend.count; i++)
        good = samples->value[i] <= from + 3 * trend.noise ? i : good;
    while (!lost && good + 1 < trend.count && samples->value[good + 1] <= SOON * trend.first)
        good++;
    int64_t step = step_at(context, samples->process, samples->time[good]);
    struct an_finding *finding =
        add(findings, "DIVERGING",
            an_finding_text(context, "the loss rises after %s, from %.4g to %.4g%s",
                            step_text(context, step), from, to, words),
            "choose a smaller learning rate, a longer warm-up, or clip the gradient; look at the "
            "batch of that step");
    an_finding_note(
        context, finding,
        "medians of %d losses: first %.4g, best %.4g, highest %.4g, last %.4g; a loss varies by "
        "%.2g",
        WINDOW, trend.start, trend.best, trend.peak, trend.end, trend.noise);
    finding->wrong_when =
        "the loss changed its meaning at that step: another task, or other weights";
}

/* ---- loss scale ------------------------------------------------------------------------------ */

/* Skipped updates: `overflows` counts them from the start. */
static void overflow_loop(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct samples samples = find(context->trace, overflows);
    if (samples.count < LOOP_STEPS)
        return;
    size_t last = samples.count - 1, from = last;
    double skipped = samples.value[last] - samples.value[last + 1 - LOOP_STEPS];
    if (!(skipped >= LOOP_SHARE * (LOOP_STEPS - 1)))
        return;
    for (size_t i = samples.count; i-- > 0;) {
        double before = i ? samples.value[i - 1] : 0;
        if (samples.value[i] > before &&
            samples.value[last] - before >= LOOP_SHARE * (double)(last - i + 1))
            from = i;
    }
    const char *step = step_text(context, step_at(context, samples.process, samples.time[from]));
    struct an_finding *finding =
        add(findings, "OVERFLOW_LOOP",
            an_finding_text(context,
                            "from %s on the scaled gradient overflows again and again: %.0f of the "
                            "last %d updates were skipped",
                            step, skipped, LOOP_STEPS - 1),
            "use a dynamic loss scale, or a smaller static one; a gradient that overflows at every "
            "scale is not finite itself: look at its origin; bf16 needs no scale");
    an_finding_note(context, finding, "%.0f updates were skipped in all", samples.value[last]);
    finding->wrong_when = "the recording holds only the search for the first scale";
}

/* Updates that are skipped now and then, after a scale was found: their steps took their time for
 * nothing. A dynamic scale skips one in some thousand. */
static void skipped_updates(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct samples samples = find(context->trace, overflows);
    if (samples.count < SEARCH + LOOP_STEPS)
        return;
    double skipped = samples.value[samples.count - 1] - samples.value[SEARCH - 1],
           updates = (double)(samples.count - SEARCH);
    if (skipped < SKIPPED_LEAST || skipped < SKIPPED_SHARE * updates)
        return;
    struct an_finding *finding =
        an_findings_add(findings, "SKIPPED_UPDATES",
                        an_finding_text(context,
                                        "%.0f of %.0f updates were skipped (%.0f %%), because a "
                                        "scaled gradient was not finite",
                                        skipped, updates, 100 * skipped / updates));
    an_finding_note(context, finding,
                    "after the first %d updates, which look for a scale; a dynamic scale skips one "
                    "in some thousand",
                    SEARCH);
    finding->action = "bf16 in place of fp16, which needs no scale; or look at the batches whose "
                      "loss is not finite, and let the scale grow more rarely "
                      "(GradScaler(growth_interval=...))";
    finding->effort = "an option";
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("steps do not get faster, but each of them counts");
    finding->method = "no gain: read off the counter overflows";
    finding->verify = "run again and record it: the finding is gone";
    finding->wrong_when = "the program skips them on purpose";
}

/* The layer nearest to the loss of whose gradients most are 0; *where is its counter. */
static const char *vanished(const struct an_trace *trace, struct samples *where, size_t *at)
{
    const char *name = NULL;
    long deepest = -2;
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct an_track *track = &trace->track[i];
        long layer = -1;
        if (strcmp(track->kind, "counter") != 0 || strncmp(track->name, "underflow.", 10) != 0 ||
            !track->counter_count)
            continue;
        if (sscanf(track->name + 10, "layer%ld", &layer) != 1)
            layer = -1;
        struct samples samples = samples_of(trace, track);
        size_t first = 0;
        while (first < samples.count && !(samples.value[first] >= UNDERFLOW_SHARE))
            first++;
        if (first == samples.count || samples.value[samples.count - 1] < UNDERFLOW_SHARE ||
            layer <= deepest)
            continue;
        deepest = layer;
        name = track->name + 10;
        *where = samples;
        *at = first;
    }
    return name;
}

/* A scale below 1 makes gradients smaller than they are; a scale of 1 may not save them. */
static void dead_scale(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct samples samples = find(context->trace, scales), where = {0};
    size_t at = 0, first = 0;
    const char *layer = samples.count ? vanished(context->trace, &where, &at) : NULL, *claim;
    if (!samples.count || (!layer && samples.value[samples.count - 1] >= 1))
        return;
    while (first < samples.count && samples.value[first] >= 1)
        first++;
    if (layer)
        claim = an_finding_text(
            context, "gradients vanish in fp16 from %s on, first in %s: %.0f %% of them are 0",
            step_text(context, step_at(context, where.process, where.time[at])), layer,
            100 * where.value[at]);
    else
        claim = an_finding_text(
            context, "the loss scale fell below 1 in %s: gradients vanish in fp16",
            step_text(context, step_at(context, samples.process, samples.time[first])));
    struct an_finding *finding =
        add(findings, "DEAD_SCALE", claim,
            "use a larger or a dynamic loss scale (--loss-scale dynamic in the reference engine, "
            "torch.amp.GradScaler); bf16 needs none");
    an_finding_note(context, finding, "the loss scale was %.6g at first and %.6g at the end",
                    samples.value[0], samples.value[samples.count - 1]);
    finding->wrong_when = "most gradients of that layer are 0 by the model: ReLU, masks, frozen "
                          "parts";
}

void an_findings_numerics(struct an_findings_list *findings)
{
    const struct an_trace *trace = findings->context->trace;
    struct samples loss = find(trace, losses), norm = find(trace, norms);
    size_t before = findings->count;
    not_finite(findings, &loss, "loss");
    if (findings->count == before)
        not_finite(findings, &norm, "norm of the gradient");
    diverging(findings, &loss);
    size_t found = findings->count;
    overflow_loop(findings);
    dead_scale(findings);
    if (findings->count == found)
        skipped_updates(findings);
}
