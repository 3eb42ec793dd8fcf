/* SPDX-License-Identifier: Apache-2.0
 *
 * The run in numbers: a line for each of throughput, utilisation, phases, counters, system.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/words/phrase.h"

void rep_section_phases(struct page *page, const struct an_result *result)
{
    if (!result->phase_count)
        return;
    page_label(page, "Phases");
    for (size_t i = 0; i < result->phase_count; i++)
        page_item(page, "%s %" PRId64 " %s, %s, %s of it on the thread of the step",
                  result->phases[i].name, result->phases[i].count,
                  REP_PLURAL(result->phases[i].count, "time", "times"),
                  TIME_TEXT(result->phases[i].wall_ms * 1e6),
                  TIME_TEXT(result->phases[i].exposed_ms * 1e6));
    page_item(page, "excluded from steps");
    page_end(page);
}

static void step_sizes(struct page *page, const struct an_steps *steps)
{
    page_label(page, "Step sizes");
    for (size_t i = 0; i < steps->group_count; i++)
        if (steps->groups[i].tokens.valid)
            page_item(page, "%" PRId64 " steps of %" PRId64 " tokens: %s", steps->groups[i].count,
                      steps->groups[i].tokens.value, TIME_TEXT(steps->groups[i].median_ms * 1e6));
    page_end(page);
}

void rep_section_throughput(struct page *page, const struct an_result *result)
{
    const struct an_steps *steps = &result->steps;
    if (!steps->median_ms.valid)
        return;
    page_label(page, "Throughput");
    if (steps->tokens_per_s.valid)
        page_item(page, "%s tokens/s", NUMBER_TEXT(steps->tokens_per_s.value));
    if (steps->samples_per_s.valid)
        page_item(page, "%s samples/s", NUMBER_TEXT(steps->samples_per_s.value));
    page_item(page, "steps from %.80s", steps->source);
    if (!result->gpu.reason && steps->host_median_ms.valid)
        page_item(page, "on the host a step takes %s, on the device %s",
                  TIME_TEXT(steps->host_median_ms.value * 1e6),
                  TIME_TEXT(steps->median_ms.value * 1e6));
    if (steps->between_ms.valid && (result->gpu.reason || steps->between_ms.value > 0))
        page_item(page, "%s between steps", TIME_TEXT(steps->between_ms.value * 1e6));
    if (steps->outlier_count)
        page_item(page, "%zu slow %s, the slowest %" PRId64 " (%s)", steps->outlier_count,
                  REP_PLURAL(steps->outlier_count, "step", "steps"), steps->outliers[0].index,
                  TIME_TEXT(steps->outliers[0].ms * 1e6));
    if (steps->outlier_count && steps->outliers[0].cause)
        page_item(page, "in it %.60s longer by %s", steps->outliers[0].cause,
                  TIME_TEXT(steps->outliers[0].cause_ms * 1e6));
    page_end(page);
    if (steps->group_count)
        step_sizes(page, steps);
}

static void ratio_item(struct page *page, const char *name, struct an_value ratio, const char *note)
{
    if (ratio.valid)
        page_item(page, "%s %s %%%s", name, SHARE_TEXT(100 * ratio.value), note);
}

/* MFU and HFU against the peak. MFU is shown in the conventions that differ for this model. */
static void mfu_items(struct page *page, const struct an_utilization *utilization)
{
    bool palm =
        utilization->mfu_palm.valid &&
        (!utilization->mfu.valid ||
         utilization->mfu_palm.value != utilization->mfu.value); /* the same without attention */
    ratio_item(page, "MFU", utilization->mfu, palm ? " (causal)" : "");
    if (palm)
        ratio_item(page, "MFU", utilization->mfu_palm, " (PaLM)");
    ratio_item(page, "HFU", utilization->hfu, "");
    if (!utilization->mfu.valid)
        page_item(page, "MFU unknown: %.300s", utilization->mfu.reason);
    if (utilization->peak_flops.valid)
        page_item(page, "of %s %s (%.120s)", SI_TEXT(utilization->peak_flops.value, "FLOP/s"),
                  rep_or(utilization->dtype, ""), rep_or(utilization->peak_source, ""));
}

/* Where too few FLOPs are known there is no MFU, and the sums say that they are of a part. */
void rep_section_utilization(struct page *page, const struct an_result *result)
{
    const struct an_utilization *utilization = &result->utilization;
    if (!result->steps.counted)
        return;
    bool partial =
        utilization->flop_coverage_pct.valid &&
        utilization->flop_coverage_pct.value < 95; /* docs/definitions.md: then there is no MFU */
    page_label(page, "Utilisation");
    mfu_items(page, utilization);
    if (utilization->mfu_measured.valid &&
        utilization->roof_measured_flops
            .valid) /* its own roof beside it: the one above is another */
        page_item(page, "MFU %.1f %% of the measured GEMM roof, %s",
                  100 * utilization->mfu_measured.value,
                  SI_TEXT(utilization->roof_measured_flops.value, "FLOP/s"));
    if (utilization->model_flops_per_step.valid && utilization->hardware_flops_per_step.valid)
        page_item(page, "%smodel %s a step", partial ? "known operations: " : "",
                  SI_TEXT((double)utilization->model_flops_per_step.value, "FLOP"));
    if (utilization->achieved_flops.valid && !partial)
        page_item(page, "%s executed", SI_TEXT(utilization->achieved_flops.value, "FLOP/s"));
    if (utilization->uncounted_count)
        page_item(page, "%zu operators without FLOPs (%.60s ...; all in --json)",
                  utilization->uncounted_count, utilization->uncounted[0]);
    page_end(page);
}

/* ---- system, counters ------------------------------------------------------------------------ */

static void bytes_item(struct page *page, struct an_value bytes, const char *name)
{
    if (bytes.valid)
        page_item(page, "%s %s", name, BYTES_TEXT(bytes.value));
}

static void process_items(struct page *page, const struct an_system *system)
{
    bytes_item(page, system->rss_peak_bytes, "peak memory");
    bytes_item(page, system->read_bytes, "storage read");
    bytes_item(page, system->write_bytes, "written");
    page_value(page, system->major_faults,
               REP_PLURAL(system->major_faults.value, "%.0f major fault", "%.0f major faults"));
    page_value(page, system->minor_faults, "%.0f minor faults");
    page_value(page, system->involuntary_switches, "%.0f involuntary switches");
    page_value(page, system->voluntary_switches, "%.0f voluntary");
    page_value(page, system->instructions_per_cycle, "%.2f instructions a cycle");
}

static void pressure_items(struct page *page, const struct an_pressure *pressure)
{
    if (!pressure->reason && pressure->some_pct.value >= 1)
        page_item(page, "waits for memory %.1f %% of the steps (%s)", pressure->some_pct.value,
                  pressure->scope);
    if (pressure->limit_bytes.valid)
        page_item(page, "memory limit %s", BYTES_TEXT((double)pressure->limit_bytes.value));
}

void rep_section_system(struct page *page, const struct an_result *result)
{
    const struct an_system *system = &result->system;
    if (system->reason && result->trust.source && strcmp(result->trust.source, "tacho") != 0)
        return; /* a trace of another tool never has one */
    if (system->reason) {
        page_line(page, "System", "not sampled: %.300s", system->reason);
        return;
    }
    page_label(page, "System");
    if (system->cpu_cores.valid && result->run.cores.valid)
        page_item(page, "CPU %.2f of %" PRId64 " cores", system->cpu_cores.value,
                  result->run.cores.value);
    else
        page_value(page, system->cpu_cores, "CPU %.2f cores");
    page_value(page, system->machine_busy_pct, "machine %.0f %% busy");
    page_value(page, system->other_cores, "other programs %.2f cores");
    page_value(page, system->cpu_wait_pct, "run-queue wait %.1f %% of the steps");
    if (system->others_lost_pct.valid && system->others_lost_pct.value >= 1)
        page_item(page, "of it %.1f %% while others had the cores", system->others_lost_pct.value);
    if (system->cpu_quota.valid)
        page_item(page, "CPU quota %.3g cores", system->cpu_quota.value);
    if (system->cpu_quota.valid && system->throttled_pct.valid)
        page_item(page, "throttled %.1f %% of the steps", system->throttled_pct.value);
    process_items(page, system);
    pressure_items(page, &result->pressure);
    page_end(page);
}

/* Counts the series that have the name of the i-th, each of another rank; 0 where an earlier one
 * stands for all of them. */
static size_t count_alike(const struct an_result *result, size_t i)
{
    size_t count = 0;
    for (size_t other = 0; other < result->series_count; other++)
        if (!strcmp(result->series[other].name, result->series[i].name) &&
            !strcmp(result->series[other].unit, result->series[i].unit)) {
            if (other < i)
                return 0;
            count++;
        }
    return count;
}

/* Memory has a place of its own; the number of steps is recorded once, for who watches. */
static bool is_elsewhere(const struct an_result *result, const struct an_series *series)
{
    return (!result->memory.reason && !strncmp(series->name, "memory.", 7)) ||
           !strcmp(series->name, "steps_planned");
}

static void series_item(struct page *page, const struct an_series *series, size_t same)
{
    char others[40] = "";
    if (same > 1)
        snprintf(others, sizeof others, " (first of %zu)", same);
    if (!strcmp(series->unit, "bytes"))
        page_item(page, "%.60s %s \xe2\x86\x92 %s%s", series->name, BYTES_TEXT(series->first),
                  BYTES_TEXT(series->last), others);
    else
        page_item(page, "%.60s %s \xe2\x86\x92 %s%s%.20s%s", series->name,
                  NUMBER_TEXT(series->first), NUMBER_TEXT(series->last), *series->unit ? " " : "",
                  series->unit, others);
}

/* The first eight counters; equal ones of several ranks are shown once. */
void rep_section_series(struct page *page, const struct an_result *result)
{
    if (!result->series_count)
        return;
    size_t shown = 0, rest = 0;
    for (size_t i = 0; i < result->series_count; i++) {
        const struct an_series *series = &result->series[i];
        if (is_elsewhere(result, series))
            continue;
        if (shown == 8) {
            rest++;
            continue;
        }
        size_t same = count_alike(result, i);
        if (!same)
            continue;
        if (!shown++)
            page_label(page, "Counters");
        series_item(page, series, same);
    }
    if (rest)
        page_item(page, "%zu more", rest);
    if (shown)
        page_end(page);
}
