/* SPDX-License-Identifier: Apache-2.0
 *
 * Which phase and which ranks moved at a change. A rank that waits for another one shows it as
 * communication: so ranks are compared by their own time, the step without communication, and a
 * phase of communication is to blame only where no rank's own time moved.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "monitor/cause/cause_private.h"

#define OWN_SHARE   0.4  /* of the step's growth: a rank that moved by itself */
#define OTHER_SHARE 0.25 /* the median rank moved by less */
#define LEAST_STEPS 3    /* on each side */
#define LEAST_SHARE 0.3  /* of the step's growth: a phase that accounts for it */
#define GROWTH      0.01 /* of the step: less is no growth to explain */

static const char *const phases[] = {
#define MON_PHASE_WORDS(id, words) words,
    MON_PHASE_MAP(MON_PHASE_WORDS)
#undef MON_PHASE_WORDS
};
const char *mon_phase_words(enum mon_phase phase)
{
    return phases[phase];
}

static const struct {
    const char *name, *hint;
} causes[] = {
#define MON_CAUSE_ROW(id, hint) {#id, hint},
    MON_CAUSE_MAP(MON_CAUSE_ROW)
#undef MON_CAUSE_ROW
};
const char *mon_cause_name(enum mon_cause cause)
{
    return causes[cause].name;
}
const char *mon_cause_hint(enum mon_cause cause)
{
    return causes[cause].hint;
}

/* Medians of a rank on both sides of the change, and what they grew by. */
struct side {
    double ms, phase[MON_PHASE_COUNT];
    size_t steps, with_phases;
    int64_t from, to; /* ns */
};
struct growth {
    int64_t rank;
    struct side before, after;
    double step, own, phase[MON_PHASE_COUNT]; /* ms */
    bool known, has_phases;
};

static double median_ms(double *value, size_t count)
{
    return count ? an_quantile_of(value, count, 0.5) : NAN;
}

/* Medians of the kept steps before `since`, or from it on. */
static struct side side_of(const struct mon_kept_rank *rank, int64_t since, bool after)
{
    double ms[MON_KEPT_STEPS], phase[MON_PHASE_COUNT][MON_KEPT_STEPS];
    struct side side = {.from = INT64_MAX, .to = INT64_MIN};
    for (size_t i = 0; i < rank->count; i++) {
        const struct mon_kept_step *step = &rank->step[i];
        if ((step->index >= since) != after)
            continue;
        ms[side.steps++] = (double)step->ms;
        side.from = step->start < side.from ? step->start : side.from;
        side.to = step->end > side.to ? step->end : side.to;
        for (int j = 0; j < MON_PHASE_COUNT && step->has_phases; j++)
            phase[j][side.with_phases] = (double)step->phase_ms[j];
        side.with_phases += step->has_phases;
    }
    side.ms = median_ms(ms, side.steps);
    for (int j = 0; j < MON_PHASE_COUNT; j++)
        side.phase[j] = median_ms(phase[j], side.with_phases);
    return side;
}

static struct growth growth_of(const struct mon_kept_rank *rank, int64_t since)
{
    struct growth growth = {.rank = rank->rank,
                            .before = side_of(rank, since, false),
                            .after = side_of(rank, since, true)};
    growth.known = growth.before.steps >= LEAST_STEPS && growth.after.steps >= LEAST_STEPS;
    growth.has_phases =
        growth.before.with_phases >= LEAST_STEPS && growth.after.with_phases >= LEAST_STEPS;
    growth.step = growth.after.ms - growth.before.ms;
    for (int j = 0; j < MON_PHASE_COUNT; j++)
        growth.phase[j] = growth.has_phases ? growth.after.phase[j] - growth.before.phase[j] : 0;
    growth.own = growth.step - growth.phase[MON_PHASE_COMMUNICATION];
    return growth;
}

/* Median over the ranks of a member of growth. */
static double over_ranks(const struct growth *growth, size_t count, size_t member)
{
    double value[MON_KEPT_STEPS];
    size_t used = 0;
    for (size_t i = 0; i < count && used < MON_KEPT_STEPS; i++)
        if (growth[i].known)
            value[used++] = *(const double *)(const void *)((const char *)&growth[i] + member);
    return median_ms(value, used);
}

/* Names the ranks whose own time grew while that of the median rank did not. */
static void find_ranks(const struct growth *growth, size_t count, double step,
                       struct mon_finding *finding)
{
    double middle = over_ranks(growth, count, offsetof(struct growth, own)), last = INFINITY;
    if (count < 2 || !(middle < OTHER_SHARE * step))
        return;
    while (finding->rank_count < MON_RANKS_NAMED) {
        const struct growth *next = NULL;
        for (size_t i = 0; i < count; i++)
            if (growth[i].known && growth[i].own < last && (!next || growth[i].own > next->own))
                next = &growth[i];
        if (!next || next->own < OWN_SHARE * step)
            return;
        finding->rank[finding->rank_count++] = next->rank;
        last = next->own;
    }
}

/* The phase that grew most, of one rank or of the median one. */
static void find_phase(const struct growth *of, double step, bool own, struct mon_finding *finding)
{
    finding->has_phase = of->has_phases;
    finding->phase = MON_PHASE_OTHER;
    for (int j = 0; j < MON_PHASE_COUNT && of->has_phases; j++)
        if (!(own && j == MON_PHASE_COMMUNICATION) && of->phase[j] > of->phase[finding->phase])
            finding->phase = (enum mon_phase)j;
    finding->phase_before_ms = of->before.phase[finding->phase];
    finding->phase_after_ms = of->after.phase[finding->phase];
    finding->share = step > 0 ? of->phase[finding->phase] / step : NAN;
    finding->has_phase = finding->has_phase && finding->share >= LEAST_SHARE;
}

static bool speaks_for(const struct mon_finding *finding, enum mon_cause cause)
{
    for (size_t i = 0; i < finding->moved_count; i++)
        if (finding->moved[i].evidence->cause == cause)
            return true;
    return false;
}

/* The first of some causes that a counter speaks for; UNKNOWN: none. */
static enum mon_cause first_of(const struct mon_finding *finding, const enum mon_cause *wanted,
                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (speaks_for(finding, wanted[i]))
            return wanted[i];
    return MON_CAUSE_UNKNOWN;
}

/* What stops a job, or makes its communication slow. */
static const enum mon_cause faults[] = {MON_CAUSE_DEVICE_ERROR, MON_CAUSE_NET_FALLBACK,
                                        MON_CAUSE_LINK_DEGRADED};

/* From what moved to a cause: a phase that has one by itself first, then the circumstances, then
 * the ranks. Faults of links explain communication, and compute that waits for copies. */
static enum mon_cause decide(const struct mon_finding *finding)
{
    static const enum mon_cause circumstances[] = {MON_CAUSE_CLOCKS, MON_CAUSE_MEMORY,
                                                   MON_CAUSE_NEIGHBOUR, MON_CAUSE_NUMA};
    enum mon_cause fault = first_of(finding, faults, sizeof faults / sizeof *faults);
    if (finding->has_phase)
        switch (finding->phase) {
        case MON_PHASE_DATA_WAIT:
            return MON_CAUSE_LOADER;
        case MON_PHASE_COMMUNICATION:
            return fault == MON_CAUSE_UNKNOWN ? MON_CAUSE_LINK : fault;
        case MON_PHASE_CHECKPOINT:
            return MON_CAUSE_CHECKPOINT;
        case MON_PHASE_COLLECTION:
            return MON_CAUSE_COLLECTION;
        default:
            break;
        }
    if (fault == MON_CAUSE_DEVICE_ERROR)
        return fault;
    enum mon_cause circumstance =
        first_of(finding, circumstances, sizeof circumstances / sizeof *circumstances);
    if (circumstance != MON_CAUSE_UNKNOWN || fault != MON_CAUSE_UNKNOWN)
        return circumstance != MON_CAUSE_UNKNOWN ? circumstance : fault;
    if (finding->rank_count)
        return MON_CAUSE_RANK;
    if (!finding->has_phase && speaks_for(finding, MON_CAUSE_LOADER))
        return MON_CAUSE_LOADER;
    return finding->has_phase ? MON_CAUSE_COMPUTE : MON_CAUSE_UNKNOWN;
}

#define RANKS_COMPARED MON_KEPT_STEPS /* of more, every n-th */

void mon_cause_find(const struct mon_history *history, int64_t since, int64_t begin_ns,
                    struct mon_finding *finding)
{
    static const struct growth nothing;
    struct growth growth[RANKS_COMPARED] = {nothing};
    size_t count = 0, stride = 1 + history->rank_count / (RANKS_COMPARED + 1);
    int64_t from = INT64_MAX, to = INT64_MIN;
    *finding = (struct mon_finding){.cause = MON_CAUSE_UNKNOWN};
    for (size_t i = 0; i < history->rank_count && count < RANKS_COMPARED; i += stride) {
        struct growth *of = &growth[count++];
        *of = growth_of(history->rank[i], since);
        from = of->before.from < from ? of->before.from : from;
        to = of->after.to > to ? of->after.to : to;
    }
    double step = over_ranks(growth, count, offsetof(struct growth, step));
    double before = over_ranks(growth, count, offsetof(struct growth, before.ms));
    if (from < begin_ns && begin_ns < to)
        mon_evidence_find(history, from, begin_ns, to + 1, finding);
    if (!(step > GROWTH * before)) {
        finding->cause = decide(finding);
        return;
    }
    find_ranks(growth, count, step, finding);
    struct growth of = nothing;
    for (size_t i = 0; i < count; i++)
        if (growth[i].known &&
            (!of.known || (finding->rank_count && growth[i].rank == finding->rank[0])))
            of = growth[i];
    for (int j = 0; j < MON_PHASE_COUNT && !finding->rank_count && count > 1; j++)
        of.phase[j] =
            over_ranks(growth, count, offsetof(struct growth, phase) + (size_t)j * sizeof(double));
    find_phase(&of, step, finding->rank_count > 0, finding);
    finding->cause = decide(finding);
}

void mon_cause_of_stop(const struct mon_history *history, int64_t from, int64_t begin, int64_t to,
                       struct mon_finding *finding)
{
    *finding = (struct mon_finding){.cause = MON_CAUSE_UNKNOWN};
    mon_evidence_find(history, from, begin, to, finding);
    finding->cause = first_of(finding, faults, sizeof faults / sizeof *faults);
}
