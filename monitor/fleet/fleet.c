/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs and ranks from samples; the table of a fleet.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/base/stats.h"
#include "monitor/export/metric.h"
#include "monitor/fleet/sample.h"

/* ---- runs and ranks --------------------------------------------------------------------------- */

/* The run of a name, with this node counted. NULL: there are too many, or no memory is left. */
static struct mon_fleet_run *run_of(struct mon_fleet *fleet, const char *name, size_t node)
{
    size_t low = 0, high = fleet->run_count;
    AN_BISECT(low, high, strcmp(fleet->run[middle].name, name) < 0)
    struct mon_fleet_run *run = fleet->run ? fleet->run + low : NULL;
    if (low == fleet->run_count || strcmp(run->name, name)) {
        if (fleet->run_count >= MON_FLEET_RUNS ||
            an_grow(&fleet->run, &fleet->run_room, fleet->run_count + 1, sizeof *fleet->run))
            return NULL;
        run = fleet->run + low;
        memmove(run + 1, run, (fleet->run_count++ - low) * sizeof *run);
        *run = (struct mon_fleet_run){.has_ended = true,
                                      .node = SIZE_MAX,
                                      .last_step = NAN,
                                      .step_s = NAN,
                                      .tokens = NAN,
                                      .bound_s = NAN,
                                      .watch_step_s = NAN};
        snprintf(run->name, sizeof run->name, "%s", name);
    }
    run->nodes += run->node != node;
    run->node = node;
    return run;
}

/* The rank that a sample is about; a watch writes its ranks family by family, so that its own are
 * the last ones of the array. NULL: it cannot be kept. */
static struct mon_fleet_rank *rank_of(struct mon_fleet *fleet, struct mon_fleet_run *run,
                                      int64_t number, size_t node)
{
    size_t own = 0;
    for (size_t i = run->rank_count; i > 0 && run->rank[i - 1].node == node; i--, own++)
        if (run->rank[i - 1].rank == number)
            return &run->rank[i - 1];
    if (fleet->ranks >= MON_FLEET_RANKS || own >= MON_METRICS_MOST ||
        an_grow(&run->rank, &run->room, run->rank_count + 1, sizeof *run->rank)) {
        fleet->ranks_dropped++;
        return NULL;
    }
    fleet->ranks++;
    struct mon_fleet_rank *rank = &run->rank[run->rank_count++];
    *rank = (struct mon_fleet_rank){number, node, NAN, NAN, NAN, NAN};
    return rank;
}

static void take_rank(struct mon_fleet *fleet, struct mon_fleet_run *run, enum mon_family family,
                      const struct fleet_sample *sample, size_t node)
{
    char *end;
    long long number = strtoll(sample->rank, &end, 10);
    struct mon_fleet_rank *rank = *sample->rank && !*end ? rank_of(fleet, run, number, node) : NULL;
    if (!rank)
        return;
    if (family == MON_FAMILY_RANK_STEP_TIME)
        rank->step_s = sample->value;
    else if (family == MON_FAMILY_RANK_WORK)
        rank->work_s = sample->value;
    else if (family == MON_FAMILY_RANK_LAST_STEP)
        rank->last_step = sample->value;
    else
        rank->age_s = sample->value;
}

static void take_alert(struct mon_fleet_run *run, const struct fleet_sample *sample)
{
    if (!(sample->value > 0))
        return;
    run->alerts++;
    snprintf(run->alert, sizeof run->alert, "%s", sample->code);
}

static void take(struct mon_fleet *fleet, struct mon_fleet_run *run, enum mon_family family,
                 const struct fleet_sample *sample, size_t node)
{
    switch (family) {
    case MON_FAMILY_RANK_STEP_TIME:
    case MON_FAMILY_RANK_WORK:
    case MON_FAMILY_RANK_LAST_STEP:
    case MON_FAMILY_RANK_AGE:
        take_rank(fleet, run, family, sample, node);
        break;
    case MON_FAMILY_LAST_STEP:
        run->last_step = fmax(run->last_step, sample->value);
        break;
    case MON_FAMILY_STEP_TIME_MEDIAN:
        run->watch_step_s = fmax(run->watch_step_s, sample->value);
        break;
    case MON_FAMILY_THROUGHPUT:
        run->tokens = isnan(run->tokens) ? sample->value : run->tokens + sample->value;
        break;
    case MON_FAMILY_PROGRESS_BOUND:
        run->bound_s = fmax(run->bound_s, sample->value);
        break;
    case MON_FAMILY_STALLED:
        run->is_stalled = run->is_stalled || sample->value > 0;
        break;
    case MON_FAMILY_ENDED:
        run->has_ended = run->has_ended && sample->value > 0;
        break;
    case MON_FAMILY_ALERT:
        take_alert(run, sample);
        break;
    default:
        break;
    }
}

int mon_fleet_add(struct mon_fleet *fleet, size_t node, const char *text)
{
    struct fleet_sample sample;
    while (fleet_sample_next(&text, &sample)) {
        enum mon_family family = MON_FAMILY_RUN;
        while (family < MON_FAMILY_COUNT && strcmp(mon_family_kind(family)->name, sample.name))
            family++;
        if (family == MON_FAMILY_COUNT || !*sample.run)
            continue; /* a counter, an info or a bucket, or not ours */
        struct mon_fleet_run *run = run_of(fleet, sample.run, node);
        if (!run)
            return fleet->run_count >= MON_FLEET_RUNS ? 0 : TACHO_ENOMEM;
        take(fleet, run, family, &sample, node);
    }
    return 0;
}

void mon_fleet_free(struct mon_fleet *fleet)
{
    for (size_t i = 0; i < fleet->run_count; i++)
        free(fleet->run[i].rank);
    for (size_t i = 0; i < fleet->node_count; i++)
        free(fleet->node[i].target);
    free(fleet->run);
    free(fleet->node);
    *fleet = (struct mon_fleet){0};
}

/* ---- the table -------------------------------------------------------------------------------- */

/* What a rank does by itself: ranks that wait for each other have steps of the same length. */
static double own_s(const struct mon_fleet_rank *rank)
{
    return isnan(rank->work_s) ? rank->step_s : rank->work_s;
}

static double step_s(const struct mon_fleet_rank *rank)
{
    return rank->step_s;
}

/* The median of a time over the ranks; NAN: it is not known. */
static double median_of(const struct mon_fleet_run *run,
                        double (*time_s)(const struct mon_fleet_rank *rank))
{
    size_t count = 0;
    double *steps = run->rank_count ? malloc(run->rank_count * sizeof *steps) : NULL;
    for (size_t i = 0; steps && i < run->rank_count; i++)
        if (!isnan(time_s(&run->rank[i])))
            steps[count++] = time_s(&run->rank[i]);
    double median = count ? an_quantile_of(steps, count, 0.5) : NAN;
    free(steps);
    return median;
}

static void print_number(FILE *out, int width, double value, int digits)
{
    if (isnan(value))
        fprintf(out, " %*s", width, "-");
    else
        fprintf(out, " %*.*f", width, digits, value);
}

/* The slowest rank, the ranks that are silent, and how many of both. */
static void print_ranks(const struct mon_fleet *fleet, const struct mon_fleet_run *run, FILE *out)
{
    double median = median_of(run, own_s);
    const struct mon_fleet_rank *slowest = NULL, *longest = NULL;
    size_t slow = 0, silent = 0;
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct mon_fleet_rank *rank = &run->rank[i];
        if (rank->age_s > run->bound_s && ++silent && (!longest || rank->age_s > longest->age_s))
            longest = rank;
        if (own_s(rank) > MON_FLEET_SLOW * median && ++slow &&
            (!slowest || own_s(rank) > own_s(slowest)))
            slowest = rank;
    }
    if (longest)
        fprintf(out, "  %zu silent rank%s: %" PRId64 " for %.0f s at %s", silent,
                tacho_plural((long long)silent), longest->rank, longest->age_s,
                fleet->node[longest->node].target);
    if (slowest)
        fprintf(out, "  %zu slow rank%s: %" PRId64 " takes %.2f times the median at %s", slow,
                tacho_plural((long long)slow), slowest->rank, own_s(slowest) / median,
                fleet->node[slowest->node].target);
}

static const char *state_of(const struct mon_fleet_run *run)
{
    if (run->has_ended)
        return "ended";
    return run->is_stalled ? "STALLED" : "runs";
}

static void print_run(const struct mon_fleet *fleet, const struct mon_fleet_run *run, FILE *out)
{
    double median = median_of(run, step_s);
    fprintf(out, "%-24s %5zu %6zu", run->name, run->nodes, run->rank_count);
    print_number(out, 9, run->last_step, 0);
    print_number(out, 9, (isnan(median) ? run->watch_step_s : median) * 1e3, 1);
    print_number(out, 11, run->tokens, 0);
    fprintf(out, "  %-7s", state_of(run));
    if (run->alerts)
        fprintf(out, "  %zu alert%s: %s", run->alerts, tacho_plural((long long)run->alerts),
                run->alert);
    if (!run->has_ended)
        print_ranks(fleet, run, out);
    fputc('\n', out);
}

void mon_fleet_print(const struct mon_fleet *fleet, FILE *out)
{
    size_t silent = 0;
    for (size_t i = 0; i < fleet->node_count; i++)
        silent += *fleet->node[i].why != 0;
    fprintf(out, "%zu run%s, %zu ranks, %zu of %zu watches answer\n", fleet->run_count,
            tacho_plural((long long)fleet->run_count), fleet->ranks, fleet->node_count - silent,
            fleet->node_count);
    if (fleet->ranks_dropped)
        fprintf(out, "%zu ranks are not shown\n", fleet->ranks_dropped);
    fprintf(out, "%-24s %5s %6s %9s %9s %11s  %s\n", "run", "nodes", "ranks", "step", "ms/step",
            "tokens/s", "state");
    for (size_t i = 0; i < fleet->run_count; i++)
        print_run(fleet, &fleet->run[i], out);
    for (size_t i = 0; i < fleet->node_count; i++)
        if (*fleet->node[i].why)
            fprintf(out, "silent  %s: %s\n", fleet->node[i].target, fleet->node[i].why);
}
