/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the report can be trusted: losses, overhead, steps and counters that are missing, the
 * quality of the capture; and what every number means.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/phrase.h"

#define LOSSES_MOST        12
#define PROCESSES_MOST     8
#define GAPS_MOST          1000 /* each is compared with those before it */
#define OVERHEAD_LEAST_PCT 0.1  /* of a step: what is measured is not known better */

static void process_loss(struct page *page, const struct an_process_loss *loss)
{
    page_item(page, "%s %" PRId64 " lost %" PRId64 " (%s %%)", loss->is_rank ? "rank" : "process",
              loss->number, loss->lost, DIGITS_TEXT(loss->pct, 2));
}

/* One kind of loss: how many events, or where that is not known, from when to when. */
static void loss_item(struct page *page, const struct an_loss *loss)
{
    if (loss->count.valid)
        page_item(page, "%.60s: %.300s: %" PRId64, loss->source, loss->reason, loss->count.value);
    else if (loss->t1_s > loss->t0_s) /* neither is NAN: both are known */
        page_item(page, "%.60s: %.300s: from %.2f to %.2f s", loss->source, loss->reason,
                  loss->t0_s, loss->t1_s);
    else
        page_item(page, "%.60s: %.300s", loss->source, loss->reason);
}

/* How many events were recorded, how many were lost, and where. */
static void trust_losses(struct page *page, const struct an_trust *trust)
{
    page_item(page, "%" PRId64 " events", trust->events);
    if (trust->lost_events.valid && trust->lost_events.value && trust->lost_pct.valid)
        page_item(page, "%" PRId64 " lost (%s %%)", trust->lost_events.value,
                  DIGITS_TEXT(trust->lost_pct.value, 2));
    else if (trust->lost_events.valid)
        page_item(page, "%" PRId64 " lost", trust->lost_events.value);
    else
        page_item(page, "lost: %.300s", trust->lost_events.reason);
    for (size_t i = 0; i < trust->by_process_count && i < PROCESSES_MOST; i++)
        process_loss(page, &trust->by_process[i]);
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < trust->loss_count; i++) {
        const struct an_loss *loss = &trust->losses[i];
        if (!strncmp(loss->source, "counter ", 8))
            continue; /* they follow under "Not measured" */
        if (shown == LOSSES_MOST)
            more++;
        else
            loss_item(page, loss);
        shown += shown < LOSSES_MOST;
    }
    if (more)
        page_item(page, "%zu more kinds of loss: tacho report --json", more);
}

/* Counters of one status together. A file may claim any number of them. */
static void trust_gaps(struct page *page, const struct an_trust *trust)
{
    size_t shown = trust->gap_count < GAPS_MOST ? trust->gap_count : GAPS_MOST;
    if (!shown)
        return;
    page_label(page, "Not measured");
    for (size_t i = 0; i < shown; i++) {
        bool first = true;
        char text[600];
        size_t used = 0;
        for (size_t other = 0; other < i && first; other++)
            first = strcmp(trust->gaps[other].status, trust->gaps[i].status) != 0;
        for (size_t other = i; other < shown && first && used < sizeof text; other++)
            if (!strcmp(trust->gaps[other].status, trust->gaps[i].status))
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%.60s",
                                         used ? ", " : "", trust->gaps[other].name);
        if (first)
            page_item(page, "%s (%.160s)", text, trust->gaps[i].status);
    }
    if (trust->gap_count > shown)
        page_item(page, "%zu more counters: tacho report --json", trust->gap_count - shown);
    page_end(page);
}

/* Did an earlier row exclude the same step for the same reason? */
static bool left_out_before(const struct an_steps *steps, size_t i)
{
    for (size_t before = 0; before < i; before++)
        if (steps->excluded[before].index == steps->excluded[i].index &&
            !strcmp(steps->excluded[before].reason, steps->excluded[i].reason))
            return true;
    return false;
}

/* Names the first few steps that the statistics exclude. A step that several ranks exclude for
 * the same reason is named once. */
static void trust_steps(struct page *page, const struct an_steps *steps)
{
    if (!steps->excluded_count)
        return;
    char text[400];
    size_t used = (size_t)snprintf(text, sizeof text, "steps excluded from statistics:"), shown = 0,
           last = 0;
    for (; last < steps->excluded_count && shown < 6 && used < sizeof text; last++)
        if (!left_out_before(steps, last)) /* else of another rank */
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %" PRId64 " (%s)",
                                     shown++ ? "," : "", steps->excluded[last].index,
                                     steps->excluded[last].reason);
    if (last < steps->excluded_count && used < sizeof text)
        snprintf(text + used, sizeof text - used, " and %zu more", steps->excluded_count - last);
    page_item(page, "%s", text);
}

/* An item about events that should not occur: omitted where none did. */
static void count_item(struct page *page, struct an_count count, const char *one, const char *many,
                       const char *means)
{
    if (count.valid && count.value)
        page_item(page, "%" PRId64 " %s%s", count.value, count.value == 1 ? one : many, means);
}

/* Kernels of no known class: how many, and of how much time where it is known. */
static void unknown_kernels(struct page *page, const struct an_quality *quality)
{
    if (quality->unknown_kernels.valid && quality->unknown_kernels.value &&
        quality->unknown_pct.valid && quality->unknown_names.valid)
        page_item(page,
                  "%" PRId64 " kernels of %" PRId64
                  " names, %.1f %% of kernel time, have no known class and count as compute "
                  "(--classes FILE)",
                  quality->unknown_kernels.value, quality->unknown_names.value,
                  quality->unknown_pct.value);
    else
        count_item(page, quality->unknown_kernels, "kernel has", "kernels have",
                   " no known class, counted as compute (--classes FILE)");
}

/* What recording cost and where it began, as the trace itself says. */
static void recorder_items(struct page *page, const struct an_quality *quality)
{
    if (quality->start_gap_ms.valid && quality->start_gap_ms.value >= 1)
        page_item(page, "the first launch is %s before the first device operation",
                  TIME_TEXT(quality->start_gap_ms.value * 1e6));
    if (quality->profiler_overhead_ms.valid && quality->profiler_overhead_ms.value > 0)
        page_item(page, "the profiler reports %s of its own overhead",
                  TIME_TEXT(quality->profiler_overhead_ms.value * 1e6));
    if (quality->step_overhead_pct.valid && quality->step_overhead_pct.value > 0)
        page_item(page, "%s %% of the host's steps",
                  DIGITS_TEXT(quality->step_overhead_pct.value, 2));
}

static void launch_items(struct page *page, const struct an_quality *quality)
{
    struct an_count copies = quality->launches_without_op;
    if (quality->kernels_lost.valid && copies.valid)
        copies.value -= quality->kernels_lost.value;
    count_item(page, quality->kernels_lost, "launch of a kernel has", "launches of kernels have",
               " no kernel in the file");
    count_item(page, quality->kernels_lost.valid ? copies : quality->launches_without_op,
               "other launching call has", "other launching calls have",
               " no device operation in the file");
    count_item(page, quality->ops_without_launch, "device operation has", "device operations have",
               " no launch in the file: included in all times, their operator is unknown");
    if (quality->launches_without_op.valid && !quality->launches_without_op.value &&
        quality->ops_without_launch.valid && !quality->ops_without_launch.value)
        page_item(page,
                  "every launch has its device operation, and every device operation its launch");
}

/* Says how complete the capture of the accelerator is: launches and device operations that miss
 * each other, times that cannot be right, kernels of no known class. */
static void trust_capture(struct page *page, const struct an_quality *quality)
{
    if (quality->reason)
        return;
    page_label(page, "Capture");
    launch_items(page, quality);
    count_item(page, quality->zero_times, "device row has", "device rows have",
               " no usable time: excluded");
    unknown_kernels(page, quality);
    count_item(page, quality->cut_steps, "step is", "steps are", " cut off by the recording");
    recorder_items(page, quality);
    for (size_t i = 0; i < quality->sign_count; i++)
        page_item(page, "%.400s", quality->signs[i]);
    if (!page->joined)
        page_item(page, "no anomalies");
    page_end(page);
}

/* The value of a key that the recorder wrote; "": it did not. */
static const char *run_key(const struct an_result *result, const char *key)
{
    const char *value = an_run_key(&result->run, key);
    return value ? value : "";
}

/* When, where and what was recorded, for readers to whom the report was forwarded. */
static void trust_recorded(struct page *page, const struct an_result *result)
{
    const char *start = run_key(result, "start"), *cpu = run_key(result, "cpu.model"),
               *kernel = run_key(result, "kernel");
    const char *command = result->run.command ? result->run.command : "";
    bool quoted = strchr(command, '`') != NULL;
    if (!*start && !*cpu && !*kernel && !*command)
        return;
    page_label(page, "Recorded");
    if (*start)
        page_item(page, "%.60s", start);
    if (*result->run.host)
        page_item(page, "on %.100s", result->run.host);
    if (*cpu)
        page_item(page, "%.100s", cpu);
    if (*kernel)
        page_item(page, "%.100s", kernel);
    if (*command)
        page_item(page, quoted ? "command: %s" : "command: `%s`", command);
    page_end(page);
}

/* How the run ended, and what recorded it. */
static void trust_source(struct page *page, const struct an_result *result)
{
    const struct an_trust *trust = &result->trust;
    if (*trust->ended)
        page_item(page, "ended: %.200s", trust->ended);
    else if (*result->run.ended)
        page_item(page, "ended: %.200s", result->run.ended);
    if (*trust->clock)
        page_item(page, "clock %.60s", trust->clock);
    bool foreign = trust->source && *trust->source && strcmp(trust->source, "tacho") != 0;
    if (*trust->version)
        page_item(page, "%s by tacho %.60s", foreign ? "imported" : "recorded", trust->version);
    const char *tool = rep_or(trust->tool, "");
    if (foreign)
        page_item(page, "recorded by %.60s%s%.200s", trust->source, *tool ? ": " : "", tool);
}

/* Problems that another line of the report has named already are not repeated. */
static void trust_problems(struct page *page, const struct an_result *result)
{
    const struct an_trust *trust = &result->trust;
    bool first = true;
    for (size_t i = 0; i < trust->problem_count; i++) {
        if (!result->quality.reason && !strncmp(trust->problems[i], "CAPTURE: ", 9))
            continue; /* the lines of Capture say so already */
        if (trust->problems[i] == result->caution)
            continue; /* so does the head of the report */
        page_label(page, first ? "Problems" : "");
        first = false;
        page_item(page, "%.400s", trust->problems[i]);
        page_end(page);
    }
}

const char *rep_overhead_text(const struct an_trust *trust, char *buf, size_t size)
{
    if (!trust->overhead_high_pct.valid)
        return NULL;
    /* noise makes the interval of a small cost end below zero, which no cost is */
    snprintf(buf, size, "overhead \xe2\x89\xa4 %s %%",
             DIGITS_TEXT(fmax(trust->overhead_high_pct.value, OVERHEAD_LEAST_PCT), 2));
    return buf;
}

void rep_section_trust(struct page *page, const struct an_result *result)
{
    const struct an_trust *trust = &result->trust;
    page_blank(page);
    page_label(page, "Trust");
    trust_losses(page, trust);
    if (trust->overhead_pct.valid)
        page_item(page, "overhead %.2f %% [%.2f, %.2f]", trust->overhead_pct.value,
                  trust->overhead_low_pct.value, trust->overhead_high_pct.value);
    else
        page_item(page, "overhead unknown: %.300s", trust->overhead_pct.reason);
    trust_steps(page, &result->steps);
    if (trust->open_ranges)
        page_item(page, "%" PRId64 " %s without an end", trust->open_ranges,
                  REP_PLURAL(trust->open_ranges, "range", "ranges"));
    trust_source(page, result);
    page_end(page);
    trust_capture(page, &result->quality);
    trust_gaps(page, trust);
    trust_problems(page, result);
    trust_recorded(page, result);
}

void rep_section_definitions(struct page *page)
{
    char text[1600];
    page_blank(page);
    page_head(page, "Definitions");
    for (const struct an_metric *metric = an_metrics; metric->key; metric++) {
        bool both = *metric->formula && *metric->reading;
        snprintf(text, sizeof text, "%s%s%s", metric->formula, both ? "; " : "", metric->reading);
        page_term(page, metric->key, *metric->formula ? metric->unit : "", text);
    }
}
