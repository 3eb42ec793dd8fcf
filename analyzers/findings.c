/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: what to change. Each has all the parts of DESIGN 6 or is not printed. A gain that was not replayed is a ceiling: an
 * upper bound and no expected value.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/analyzer.h"
#include "analyzers/stats.h"

#define FINDINGS_MOST    5
#define NOISE_PCT        2.0 /* of a step: below it nothing is worth a change */
#define UNATTRIBUTED_PCT 5.0 /* DESIGN 5 */
#define CHECKED_MOST     8

struct list {
    struct an_context *c;
    struct an_finding found[FINDINGS_MOST];
    size_t count;
    const char *checked[CHECKED_MOST];
    size_t checks;
};

static void note_check(struct list *l, const char *text)
{
    if (l->checks < CHECKED_MOST)
        l->checked[l->checks++] = text;
}

/* Share of a class step by step: its mean and the half width of the 95 % interval of that mean. */
struct share {
    double mean, half;
    size_t steps, touched;
};

static int share_of(const struct an_context *c, enum an_class k, struct share *s)
{
    double *x = malloc((c->step_count + 1) * sizeof *x);
    if (!x)
        return TACHO_ENOMEM;
    *s = (struct share){0};
    for (size_t i = 0; i < c->step_count; i++) {
        int64_t ns = an_step_detailed(&c->step[i]) ? an_step_ns(&c->step[i]) : 0;
        if (ns <= 0)
            continue;
        x[s->steps++] = 100 * (double)c->step[i].class_ns[k] / (double)ns;
        s->touched += c->step[i].class_ns[k] > 0;
    }
    s->mean = s->steps ? an_mean(x, s->steps) : 0;
    s->half = s->steps > 1 ? 1.96 * an_sd(x, s->steps) / sqrt((double)s->steps) : INFINITY;
    free(x);
    return 0;
}

static const char *window(struct an_context *c)
{
    return an_arena_format(c->a, "steps %" PRId64 "-%" PRId64, c->r->steps.first_index, c->r->steps.last_index);
}

/* Largest loader stage by own time, or NULL. */
static const struct an_stage *binding_stage(const struct an_loader *l)
{
    const struct an_stage *most = NULL;
    for (size_t i = 0; i < l->stage_count; i++)
        if (strcmp(l->stages[i].name, "queue_wait") && l->stages[i].ms_per_batch.valid &&
            (!most || l->stages[i].ms_per_batch.value > most->ms_per_batch.value))
            most = &l->stages[i];
    return most;
}

static int input_stall(struct list *l)
{
    struct an_context *c = l->c;
    const struct an_budget *b = &c->r->budget;
    const struct an_loader *loader = &c->r->loader;
    struct share s;
    if (b->reason || !b->pct[AN_CLASS_INPUT].valid)
        return 0;
    if (share_of(c, AN_CLASS_INPUT, &s))
        return TACHO_ENOMEM;
    if (!(s.mean - s.half >= NOISE_PCT)) {
        note_check(l, "steps waiting for the data loader");
        return 0;
    }
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6, wait_ms = step_ms * b->pct[AN_CLASS_INPUT].value / 100;
    double ceiling = 100 * (step_ms / (step_ms - wait_ms) - 1);
    const struct an_stage *stage = binding_stage(loader);
    bool inline_loader = loader->workers.valid && !loader->workers.value;
    struct an_finding *f = &l->found[l->count++];
    *f = (struct an_finding){
        .id = "INPUT_STALL",
        .claim = an_arena_format(c->a, "the step waits %.3g ms for its batch, %.1f %% of its time", wait_ms,
                                 b->pct[AN_CLASS_INPUT].value),
        .effort = "a setting of the loader",
        .confidence = an_confidence_of(c),
        .method = "ceiling: step time / (step time - time waiting for the loader) - 1; nothing was replayed",
        .verify = "run again with the change and compare samples/s: tacho report --json",
        .wrong_when = "the loader's workers would take cores or memory bandwidth from the step, or storage binds"};
    f->evidence[0] = an_arena_format(c->a, "input %.3g ± %.2g ms a step (%s)", wait_ms, step_ms * s.half / 100, window(c));
    f->evidence[1] = an_arena_format(c->a, "%zu of %zu steps wait", s.touched, s.steps);
    size_t n = 2;
    if (stage)
        f->evidence[n++] =
            an_arena_format(c->a, "largest loader stage: %s, %.3g ms a batch", stage->name, stage->ms_per_batch.value);
    if (loader->queue_depth_mean.valid)
        f->evidence[n++] = an_arena_format(c->a, "mean queue depth %.2f", loader->queue_depth_mean.value);
    if (loader->workers.valid)
        f->evidence[n++] = an_arena_format(c->a, "loader workers: %" PRId64, loader->workers.value);
    if (inline_loader)
        f->action = "move loading off the step's thread: give the loader workers (libtrain: --workers 2)";
    else
        f->action = an_arena_format(c->a, "more loader workers, or a cheaper %s stage", stage ? stage->name : "loader");
    const char *reason = "a ceiling has no expected value: the loader was not replayed";
    f->gain =
        (struct an_gain){.low = an_num_none(reason), .expected = an_num_none(reason), .high = an_num(ceiling), .ceiling = true};
    if (wait_ms >= step_ms)
        f->gain.high = an_num_none("the whole step is waiting");
    return 0;
}

static int unattributed(struct list *l)
{
    struct an_context *c = l->c;
    const struct an_budget *b = &c->r->budget;
    struct share s;
    if (b->reason || !b->pct[AN_CLASS_UNATTRIBUTED].valid)
        return 0;
    double pct = b->pct[AN_CLASS_UNATTRIBUTED].value;
    if (pct <= UNATTRIBUTED_PCT) {
        note_check(l, "time of steps that no range explains");
        return 0;
    }
    if (share_of(c, AN_CLASS_UNATTRIBUTED, &s))
        return TACHO_ENOMEM;
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6;
    struct an_finding *f = &l->found[l->count++];
    *f = (struct an_finding){
        .id = "UNATTRIBUTED",
        .claim = an_arena_format(c->a, "%.1f %% of the step is covered by no range: the report cannot say what it is", pct),
        .action = "mark what the step does between its ranges (include/tacho_nvtx.h)",
        .effort = "some ranges in the code",
        .confidence = an_confidence_of(c),
        .method = "no gain: it is a gap in what was measured, not in the run",
        .verify = "run again and read the row unattributed: tacho report",
        .wrong_when = "events were lost (see trust): then ranges are missing that the program did mark"};
    f->evidence[0] = an_arena_format(c->a, "%.3g ms a step (%s)", step_ms * pct / 100, window(c));
    f->evidence[1] = an_arena_format(c->a, "%zu of %zu steps have such time", s.touched, s.steps);
    f->evidence[2] = c->r->trust.lost_events.valid
                         ? an_arena_format(c->a, "%" PRId64 " events lost", c->r->trust.lost_events.value)
                         : "an unknown number of events was lost";
    f->gain.low = f->gain.expected = f->gain.high = an_num_none("a gap in the measurement has no gain");
    return 0;
}

static double gain_of(const struct an_finding *f)
{
    return f->gain.expected.valid ? f->gain.expected.value : f->gain.high.valid ? f->gain.high.value : -1;
}

static int gain_order(const void *x, const void *y)
{
    double a = gain_of(x), b = gain_of(y);
    return (a < b) - (a > b);
}

static int findings_run(struct an_context *c)
{
    struct list l = {.c = c};
    if (input_stall(&l) || unattributed(&l))
        return TACHO_ENOMEM;
    if (c->r->trust.lost_events.valid && !c->r->trust.lost_events.value)
        note_check(&l, "events that were lost");
    if (l.count)
        qsort(l.found, l.count, sizeof *l.found, gain_order);
    c->r->findings = an_arena_copy(c->a, l.found, l.count * sizeof *l.found);
    c->r->finding_count = l.count;
    c->r->checked = an_arena_copy(c->a, l.checked, l.checks * sizeof *l.checked);
    c->r->checked_count = l.checks;
    c->r->healthy = !l.count && !c->r->budget.reason && c->r->budget.roles_known;
    return c->r->findings && c->r->checked ? 0 : TACHO_ENOMEM;
}

static void findings_absent(struct an_context *c, const char *reason)
{
    (void)reason; /* nothing to look at is no finding, and no health either */
    c->r->finding_count = 0;
}

const struct an_analyzer an_findings = {"findings", "what to change, with evidence and gain",
                                        AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL, findings_run, findings_absent};
