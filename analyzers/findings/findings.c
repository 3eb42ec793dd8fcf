/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: what to change. Each has all the parts of DESIGN 6 or is not printed. A gain that was
 * not replayed is a ceiling: an upper bound and no expected value.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings.h"

#define FINDINGS_MOST    5
#define UNATTRIBUTED_PCT 5.0 /* DESIGN 5 */
#define ONE_STEP_PCT     5.0
#define LOW_MFU          0.2

void an_findings_checked(struct an_findings_list *l, const char *text)
{
    if (l->checks < FINDINGS_CHECKED)
        l->checked[l->checks++] = text;
}

struct an_finding *an_findings_add(struct an_findings_list *l, const char *id, const char *claim)
{
    struct an_finding *f = l->count < FINDINGS_FOUND ? &l->found[l->count++] : &l->beyond;
    *f = (struct an_finding){.id = id, .claim = claim, .confidence = an_confidence_of(l->c)};
    return f;
}

void an_finding_evidence(struct an_finding *f, const char *text)
{
    for (size_t i = 0; text && i < sizeof f->evidence / sizeof *f->evidence; i++)
        if (!f->evidence[i]) {
            f->evidence[i] = text;
            return;
        }
}

void an_finding_ceiling(struct an_finding *f, double whole, double removed, const char *reason)
{
    f->gain = (struct an_gain){
        .low = an_num_none(reason), .expected = an_num_none(reason), .ceiling = true};
    f->gain.high = removed < whole ? an_num(100 * (whole / (whole - removed) - 1))
                                   : an_num_none("nothing else takes time");
}

struct an_class_share an_share_of_values(const double *x, size_t n)
{
    struct an_class_share s = {.steps = n};
    for (size_t i = 0; i < n; i++)
        s.touched += x[i] > 0;
    s.mean = n ? an_mean(x, n) : 0;
    s.half = n > 1 ? 1.96 * an_sd(x, n) / sqrt((double)n) : INFINITY;
    return s;
}

int an_class_share(const struct an_context *c, enum an_class k, struct an_class_share *s)
{
    double *x = malloc((c->step_count + 1) * sizeof *x);
    size_t n = 0;
    if (!x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++) {
        int64_t ns = an_step_detailed(&c->step[i]) ? an_step_ns(&c->step[i]) : 0;
        if (ns > 0)
            x[n++] = 100 * (double)c->step[i].class_ns[k] / (double)ns;
    }
    *s = an_share_of_values(x, n);
    free(x);
    return 0;
}

bool an_class_share_matters(const struct an_class_share *s)
{
    return s->steps <= 1 ? s->mean >= ONE_STEP_PCT : s->mean - s->half >= FINDINGS_NOISE_PCT;
}

const char *an_findings_bytes(struct an_context *c, double bytes)
{
    return bytes >= 1e9 ? an_arena_format(c->a, "%s GB", an_number_words(c->a, bytes / 1e9, 3))
                        : an_arena_format(c->a, "%s MB", an_number_words(c->a, bytes / 1e6, 3));
}

const char *an_findings_window(struct an_context *c)
{
    const struct an_steps *s = &c->r->steps;
    if (s->first_index == s->last_index)
        return an_arena_format(c->a, "step %" PRId64, s->first_index);
    return an_arena_format(c->a, "steps %" PRId64 "-%" PRId64, s->first_index, s->last_index);
}

static int unattributed(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    const struct an_budget *b = &c->r->budget;
    struct an_class_share s;
    if (b->reason || !b->pct[AN_CLASS_UNATTRIBUTED].valid || an_mostly_opaque(c))
        return 0;
    double pct = b->pct[AN_CLASS_UNATTRIBUTED].value;
    if (pct <= UNATTRIBUTED_PCT) {
        an_findings_checked(l, "time of steps that no range explains");
        return 0;
    }
    if (an_class_share(c, AN_CLASS_UNATTRIBUTED, &s))
        return TACHO_ENOMEM;
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6;
    bool held = c->gpu && b->ns[AN_CLASS_UNATTRIBUTED].valid &&
                2 * c->held_ns > b->ns[AN_CLASS_UNATTRIBUTED].value;
    struct an_finding *f = an_findings_add(
        l, "UNATTRIBUTED",
        held ? an_arena_format(c->a,
                               "in %.1f %% of the step the device is recorded as idle although its "
                               "next work was issued and "
                               "the host waits for it: what it did is not in the trace",
                               pct)
        : c->gpu
            ? an_arena_format(
                  c->a, "in %.1f %% of the step the device idles and no range on the host says why",
                  pct)
            : an_arena_format(
                  c->a,
                  "%.1f %% of the step is covered by no range: the report cannot say what it is",
                  pct));
    f->action =
        held ? "record the device's work: begin to record before it is launched (a step of warm-up "
               "in the profiler's "
               "schedule), and the nodes of graphs"
        : c->gpu
            ? "record what the host does there: torch.profiler with with_stack=True, or NVTX ranges"
            : "mark what the step does between its ranges (include/tacho_nvtx.h)";
    f->effort = c->gpu ? "another recording" : "some ranges in the code";
    f->method = "no gain: it is a gap in what was measured, not in the run";
    f->verify = "run again and read the row unattributed: `tacho report`";
    f->wrong_when =
        held ? "another process had the device meanwhile"
             : "events were lost (see trust): then ranges are missing that the program did mark";
    an_finding_evidence(f, an_arena_format(c->a, "%s a step (%s)",
                                           an_time_words(c->a, step_ms * pct / 100, 3),
                                           an_findings_window(c)));
    an_finding_evidence(
        f, an_arena_format(c->a, "%zu of %zu steps have such time", s.touched, s.steps));
    an_finding_evidence(
        f, c->r->trust.lost_events.valid
               ? an_arena_format(c->a, "%" PRId64 " events lost", c->r->trust.lost_events.value)
               : "an unknown number of events was lost");
    f->gain.low = f->gain.expected = f->gain.high =
        an_num_none("a gap in the measurement has no gain");
    return 0;
}

static double gain_of(const struct an_finding *f)
{
    return f->gain.expected.valid ? f->gain.expected.value
           : f->gain.high.valid   ? f->gain.high.value
                                  : -1;
}

bool an_finding_brings_nothing(const struct an_finding *f)
{
    return f->gain.high.valid && f->gain.high.value < FINDINGS_NOISE_PCT;
}

/* Of two findings the one with more to gain goes first. */
static int gain_order(const void *x, const void *y)
{
    double a = gain_of(x), b = gain_of(y);
    return (a < b) - (a > b);
}

/* Puts what the verdict names in front: it holds the run back, whatever bounds the others have. Not
 * where its replay says that it brings nothing as long as the others are as they are: they come
 * first then. */
static void verdict_first(struct an_findings_list *l)
{
    static const struct {
        const char *id;
        enum an_class class;
    } classes[] = {{"STRAGGLER", AN_CLASS_COMM},
                   {"UNEVEN_DATA", AN_CLASS_COMM},
                   {"SLOW_STAGE", AN_CLASS_COMM},
                   {"INPUT_STALL", AN_CLASS_INPUT},
                   {"EXPOSED_COMM", AN_CLASS_COMM},
                   {"LAUNCH_BOUND", AN_CLASS_HOST},
                   {"HOST_BOUND", AN_CLASS_HOST},
                   {"SYNC_STALL", AN_CLASS_HOST},
                   {"PAGEABLE_COPY", AN_CLASS_COPY},
                   {"LOW_PRECISION", AN_CLASS_COMPUTE},
                   {"UNFUSED_ATTENTION", AN_CLASS_COMPUTE},
                   {"SMALL_BATCH", AN_CLASS_COMPUTE},
                   {"RECOMPUTE", AN_CLASS_COMPUTE},
                   {"LOW_INTENSITY", AN_CLASS_COMPUTE}};
    const struct an_budget *b = &l->c->r->budget;
    size_t best = l->count, place = sizeof classes / sizeof *classes;
    int64_t rank;
    bool one = an_comm_waits_for_one(
        l->c, &rank); /* then what is about that rank goes before what has most to gain */
    for (size_t i = 0; !b->reason && i < l->count; i++)
        for (size_t k = 0;
             k < sizeof classes / sizeof *classes && !an_finding_brings_nothing(&l->found[i]); k++)
            if (!strcmp(l->found[i].id, classes[k].id) && classes[k].class == an_bound_class(b) &&
                (best == l->count || (one && k < place))) {
                best = i;
                place = k;
            }
    if (best == l->count)
        return;
    struct an_finding first = l->found[best];
    memmove(l->found + 1, l->found, best * sizeof first);
    l->found[0] = first;
}

static int findings_run(struct an_context *c)
{
    struct an_findings_list l = {.c = c};
    int rc = an_findings_input(&l);
    if (!rc)
        rc = an_findings_comm(&l);
    if (!rc && c->gpu)
        rc = an_findings_gpu(&l);
    if (!rc && !c->gpu)
        rc = an_findings_engine(&l);
    if (!rc)
        an_findings_ranks(&l);
    if (!rc)
        rc = unattributed(&l);
    if (!rc)
        rc = an_findings_replay(&l);
    if (rc)
        return rc;
    if (c->r->trust.lost_events.valid && !c->r->trust.lost_events.value)
        an_findings_checked(&l, "events that were lost");
    if (l.count)
        qsort(l.found, l.count, sizeof *l.found, gain_order);
    verdict_first(&l);
    l.count = l.count < FINDINGS_MOST ? l.count : FINDINGS_MOST;
    c->r->findings = an_arena_copy(c->a, l.found, l.count * sizeof *l.found);
    c->r->finding_count = l.count;
    c->r->checked = an_arena_copy(c->a, l.checked, l.checks * sizeof *l.checked);
    c->r->checked_count = l.checks;
    const struct an_value *mfu = &c->r->utilization.mfu;
    bool idle_units = c->gpu && mfu->valid &&
                      mfu->value < LOW_MFU; /* a device that is busy is not one that is used well */
    c->r->healthy = !l.count && !idle_units && !c->r->caution && an_confidence_of(c) != AN_LOW &&
                    c->r->steps.detailed && !c->r->budget.reason && c->r->budget.roles_known;
    return c->r->findings && c->r->checked ? 0 : TACHO_ENOMEM;
}

/* Without steps a device's own tables still tell something; nothing else does. */
static int findings_frame(struct an_context *c)
{
    if (c->gpu || c->r->steps.detailed)
        return findings_run(c);
    return 0;
}

static void findings_absent(struct an_context *c, const char *reason)
{
    (void)reason; /* nothing to look at is no finding, and no health either */
    c->r->finding_count = 0;
}

const struct an_analyzer an_findings = {"findings", "what to change, with evidence and gain",
                                        AN_INPUT_SLICES, findings_frame, findings_absent};
