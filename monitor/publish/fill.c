/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a run that is watched.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "monitor/publish/private.h"

#define SLOW_TIMES   1.25 /* of the median: a step that an exemplar points at */
#define WINDOW_STEPS 5    /* before and after it */
#define PHASE_STEPS  32   /* that the mean of a phase is of */

static double bool_value(bool is)
{
    return is ? 1 : 0;
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* The time of a step on the slowest rank: ranks keep their newest steps in the order of time. */
static double slowest_s(const struct mon_monitor *monitor, int64_t now, int64_t index)
{
    double slowest = 0;
    struct mon_rank_state state;
    for (size_t i = 0; mon_rank_at(monitor, i, now, &state); i++) {
        const struct mon_kept_step *step = state.kept ? mon_kept_back(state.kept, 0) : NULL;
        if (!step || step->index < index)
            continue;
        step = mon_kept_back(state.kept, (size_t)(step->index - index));
        if (step && step->index == index)
            slowest = fmax(slowest, (double)step->ms / 1e3);
    }
    return slowest;
}

/* Adds a step to the histogram, with the window around it. */
static void add_step(struct publish_run *run, const struct mon_kept_step *step, double step_s,
                     double median_s, int64_t offset_ns)
{
    struct mon_exemplar exemplar = {.first = step->index - WINDOW_STEPS,
                                    .last = step->index + WINDOW_STEPS,
                                    .value = step_s,
                                    .time_ns = step->end + offset_ns};
    snprintf(exemplar.file, sizeof exemplar.file, "%s", run->file);
    exemplar.first = exemplar.first > 0 ? exemplar.first : 0;
    mon_histogram_add(&run->steps, step_s, &exemplar);
    if (step_s > SLOW_TIMES * median_s)
        run->slow = exemplar;
}

/* The steps of the first rank that are new since the last moment. */
static void take_steps(struct publish_run *run, const struct mon_monitor *monitor, int64_t now,
                       int64_t offset_ns, double median_s)
{
    struct mon_rank_state first;
    size_t back = 0;
    const struct mon_kept_step *step;
    if (!mon_rank_at(monitor, 0, now, &first) || !first.kept)
        return;
    while ((step = mon_kept_back(first.kept, back)) && step->index > run->last_index)
        back++;
    while (back--) {
        step = mon_kept_back(first.kept, back);
        add_step(run, step, slowest_s(monitor, now, step->index), median_s, offset_ns);
        run->last_index = step->index;
    }
}

/* ---- samples ---------------------------------------------------------------------------------- */

/* The run as a whole. */
static void add_run(struct mon_publish *publish, const struct publish_run *run,
                    const struct mon_state *state, bool has_ended)
{
    struct mon_metrics *metrics = &publish->metrics;
    bool has_step = state->last_step >= 0;
    struct mon_metric *info = mon_metric_add(metrics, MON_FAMILY_RUN, 1);
    mon_metric_label(info, "host", publish->host);
    mon_metric_label(info, "version", TACHO_VERSION);
    mon_metric_add(metrics, MON_FAMILY_STEPS, (double)state->steps);
    mon_metric_add(metrics, MON_FAMILY_LAST_STEP, has_step ? (double)state->last_step : NAN);
    mon_metric_add_histogram(metrics, MON_FAMILY_STEP_TIME, &run->steps);
    mon_metric_add(metrics, MON_FAMILY_STEP_TIME_MEDIAN, state->step_s);
    mon_metric_add(metrics, MON_FAMILY_THROUGHPUT, state->tokens_per_s);
    mon_metric_add(metrics, MON_FAMILY_LOSS, state->loss);
    mon_metric_add(metrics, MON_FAMILY_GRADIENT_NORM, state->grad_norm);
    mon_metric_add(metrics, MON_FAMILY_MFU, state->mfu);
    mon_metric_add(metrics, MON_FAMILY_CHECKPOINT_AGE, state->checkpoint_age_s);
    mon_metric_add(metrics, MON_FAMILY_PROGRESS_AGE, state->idle_s);
    mon_metric_add(metrics, MON_FAMILY_PROGRESS_BOUND, state->bound_s);
    mon_metric_add(metrics, MON_FAMILY_STALLED, bool_value(state->stalled && !has_ended));
    mon_metric_add(metrics, MON_FAMILY_ENDED, bool_value(has_ended));
}

/* A counter never falls: sums of parts differ in their last digits from moment to moment, and a
 * reader takes a fall for a restart. */
static double rising(double *before, double value)
{
    value = round(value * 1e6) / 1e6;
    if (value > *before)
        *before = value;
    return *before;
}

/* What an objective has counted, its budget, and the burn rates of its long windows. */
static void add_objective(struct mon_metrics *metrics, struct publish_run *run, size_t i,
                          const struct mon_objective_state *state)
{
    const char *name = state->objective.name;
    bool is_counted = !state->absent && state->events > 0;
    double bad = is_counted ? state->events * (1 - state->good) : 0;
    if (state->absent)
        return;
    mon_metric_label(
        mon_metric_add(metrics, MON_FAMILY_SLI_EVENTS, rising(&run->all[i], state->events)), "slo",
        name);
    struct mon_metric *sample =
        mon_metric_add(metrics, MON_FAMILY_SLI_BAD, rising(&run->bad[i], bad));
    mon_metric_label(sample, "slo", name);
    if (state->objective.sli == MON_SLI_STEP_TIME && run->bad[i] > 0)
        mon_metric_exemplar(sample, &run->slow);
    mon_metric_label(mon_metric_add(metrics, MON_FAMILY_SLO_TARGET, state->objective.target), "slo",
                     name);
    mon_metric_label(mon_metric_add(metrics, MON_FAMILY_SLO_BUDGET, state->left), "slo", name);
    for (size_t j = 0; j < state->burn_count; j++) {
        char window[32];
        snprintf(window, sizeof window, "%.0fs", state->burn[j].long_s);
        sample = mon_metric_add(metrics, MON_FAMILY_SLO_BURN, state->rate[j]);
        mon_metric_label(sample, "slo", name);
        mon_metric_label(sample, "window", window);
    }
}

/* A code without the number of a rank at its end, so that there are few. */
static void code_of(const struct mon_alert *alert, char code[MON_NAME])
{
    snprintf(code, MON_NAME, "%s", alert->symptom.code);
    size_t length = strlen(code);
    while (length > 1 && isdigit((unsigned char)code[length - 1]))
        length--;
    if (code[length - 1] == '_' && code[length])
        code[length - 1] = 0;
}

/* A sample for each code and severity; the newest alert is the exemplar of their number. */
static void add_alerts(struct mon_metrics *metrics, const struct publish_run *run,
                       const struct mon_alerts *alerts, int64_t offset_ns)
{
    struct mon_exemplar newest = {.file = ""};
    char code[MON_NAME], other[MON_NAME];
    for (size_t i = 0; i < alerts->count; i++) {
        const struct mon_alert *alert = &alerts->alert[i];
        double active = 0;
        bool is_first = true;
        code_of(alert, code);
        for (size_t j = 0; j < alerts->count; j++) {
            code_of(&alerts->alert[j], other);
            bool is_same = !strcmp(code, other) &&
                           alert->symptom.severity == alerts->alert[j].symptom.severity;
            is_first = is_first && !(is_same && j < i);
            active += is_same && !alerts->alert[j].resolved;
        }
        if (!is_first || !(active > 0))
            continue;
        struct mon_metric *sample = mon_metric_add(metrics, MON_FAMILY_ALERT, active);
        mon_metric_label(sample, "code", code);
        mon_metric_label(sample, "severity", mon_severity_name(alert->symptom.severity));
        newest.first = alert->symptom.since_step;
        newest.last = alert->symptom.found_step;
        newest.time_ns = alert->symptom.found_ns + offset_ns;
    }
    struct mon_metric *raised =
        mon_metric_add(metrics, MON_FAMILY_ALERTS, (double)(alerts->next_id - 1));
    if (newest.time_ns)
        snprintf(newest.file, sizeof newest.file, "%s", run->file);
    newest.value = 1;
    mon_metric_exemplar(raised, &newest);
}

/* Means over the newest steps of all ranks. */
static void add_phases(struct mon_metrics *metrics, const struct mon_monitor *monitor, int64_t now)
{
    double sum[MON_PHASE_COUNT] = {0};
    size_t steps = 0;
    struct mon_rank_state state;
    const struct mon_kept_step *step;
    for (size_t i = 0; mon_rank_at(monitor, i, now, &state); i++)
        for (size_t back = 0;
             state.kept && back < PHASE_STEPS && (step = mon_kept_back(state.kept, back)) != NULL;
             back++) {
            steps += step->has_phases;
            for (size_t j = 0; step->has_phases && j < MON_PHASE_COUNT; j++)
                sum[j] += (double)step->phase_ms[j] / 1e3;
        }
    for (size_t j = 0; steps && j < MON_PHASE_COUNT; j++)
        mon_metric_label(mon_metric_add(metrics, MON_FAMILY_PHASE, sum[j] / (double)steps), "phase",
                         mon_phase_words((enum mon_phase)j));
}

/* Memory, temperatures and clocks, by rank and device. */
static void add_counters(struct mon_metrics *metrics, const struct mon_monitor *monitor)
{
    static const struct {
        enum mon_family family;
        const char *name;
        double scale;
    } counters[] = {{MON_FAMILY_MEMORY, "rss_anon", 1},
                    {MON_FAMILY_DEVICE_MEMORY, "gpu_memory_used", 1},
                    {MON_FAMILY_TEMPERATURE, "gpu_temperature", 1},
                    {MON_FAMILY_CLOCK, "gpu_clock_sm", 1e6}};
    struct mon_counter_state state;
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        for (size_t j = 0; mon_counter_at(monitor, counters[i].name, j, &state); j++) {
            struct mon_metric *sample =
                mon_metric_add(metrics, counters[i].family, counters[i].scale * state.value);
            if (state.rank >= 0)
                mon_metric_number(sample, "rank", state.rank);
            if (*state.device)
                mon_metric_label(sample, "device", state.device);
        }
}

static void add_ranks(struct mon_metrics *metrics, const struct mon_monitor *monitor, int64_t now)
{
    struct mon_rank_state state;
    double step_s, work_s;
    for (size_t i = 0; mon_rank_at(monitor, i, now, &state); i++) {
        mon_rank_medians(&state, &step_s, &work_s);
        const struct {
            enum mon_family family;
            double value;
        } samples[] = {{MON_FAMILY_RANK_STEP_TIME, step_s},
                       {MON_FAMILY_RANK_WORK, work_s},
                       {MON_FAMILY_RANK_LAST_STEP, (double)state.last_step},
                       {MON_FAMILY_RANK_AGE, state.age_s}};
        for (size_t j = 0; j < sizeof samples / sizeof *samples; j++)
            mon_metric_number(mon_metric_add(metrics, samples[j].family, samples[j].value), "rank",
                              state.rank);
    }
}

void publish_watch(struct mon_metrics *metrics)
{
    struct rusage usage;
    long pages = 0;
    FILE *in = fopen("/proc/self/statm", "re");
    if (in && fscanf(in, "%*d %ld", &pages) == 1)
        mon_metric_add(metrics, MON_FAMILY_WATCH_MEMORY, (double)pages * (double)getpagesize());
    if (in)
        fclose(in);
    if (!getrusage(RUSAGE_SELF, &usage))
        mon_metric_add(metrics, MON_FAMILY_WATCH_CPU,
                       (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
    mon_metric_add(metrics, MON_FAMILY_WATCH_DROPPED, (double)metrics->dropped);
}

void mon_publish_run(struct mon_publish *publish, size_t index, struct mon_monitor *monitor,
                     int64_t now, bool has_ended)
{
    struct mon_metrics *metrics = &publish->metrics;
    struct publish_run *run = &publish->run[index];
    int64_t offset_ns = metrics->time_ns - now;
    struct mon_state state;
    mon_state(monitor, now, &state);
    take_steps(run, monitor, now, offset_ns, state.step_s);
    mon_metrics_unlabel(metrics);
    mon_metrics_label(metrics, "run", run->name);
    add_run(publish, run, &state, has_ended);
    for (size_t i = 0; i < state.objective_count; i++)
        add_objective(metrics, run, i, &state.objective[i]);
    add_alerts(metrics, run, mon_alerts(monitor), offset_ns);
    add_phases(metrics, monitor, now);
    add_counters(metrics, monitor);
    add_ranks(metrics, monitor, now);
}
