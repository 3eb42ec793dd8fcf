/* SPDX-License-Identifier: Apache-2.0
 *
 * Why one may believe the report, and what its numbers mean.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/text/text.h"

#define LOSSES_MOST 12

static void trust_losses(struct page *p, const struct an_trust *t)
{
    page_item(p, "%" PRId64 " events", t->events);
    if (t->lost_events.valid)
        page_item(p, "%" PRId64 " lost", t->lost_events.value);
    else
        page_item(p, "lost: %.300s", t->lost_events.reason);
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < t->loss_count; i++) {
        const struct an_loss *l = &t->losses[i];
        if (!strncmp(l->source, "counter ", 8))
            continue; /* they stand under "Not measured" */
        if (shown == LOSSES_MOST)
            more++;
        else if (l->count.valid)
            page_item(p, "%.60s: %.300s: %" PRId64, l->source, l->reason, l->count.value);
        else
            page_item(p, "%.60s: %.300s", l->source, l->reason);
        shown += shown < LOSSES_MOST;
    }
    if (more)
        page_item(p, "%zu more kinds of loss: tacho report --json", more);
}

/* Counters of one status together. */
static void trust_gaps(struct page *p, const struct an_trust *t)
{
    if (!t->gap_count)
        return;
    page_label(p, "Not measured");
    for (size_t i = 0; i < t->gap_count; i++) {
        bool first = true;
        char text[600];
        size_t used = 0;
        for (size_t k = 0; k < i && first; k++)
            first = strcmp(t->gaps[k].status, t->gaps[i].status) != 0;
        for (size_t k = i; k < t->gap_count && first && used < sizeof text; k++)
            if (!strcmp(t->gaps[k].status, t->gaps[i].status))
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%.60s",
                                         used ? ", " : "", t->gaps[k].name);
        if (first)
            page_item(p, "%s (%.160s)", text, t->gaps[i].status);
    }
    page_end(p);
}

static bool left_out_before(const struct an_steps *s, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (s->excluded[k].index == s->excluded[i].index &&
            !strcmp(s->excluded[k].reason, s->excluded[i].reason))
            return true;
    return false;
}

static void trust_steps(struct page *p, const struct an_steps *s)
{
    if (!s->excluded_count)
        return;
    char text[400];
    size_t used = (size_t)snprintf(text, sizeof text, "steps left out of statistics:"), shown = 0,
           last = 0;
    for (; last < s->excluded_count && shown < 6 && used < sizeof text; last++)
        if (!left_out_before(s, last)) /* else of another rank */
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %" PRId64 " (%s)",
                                     shown++ ? "," : "", s->excluded[last].index,
                                     s->excluded[last].reason);
    if (last < s->excluded_count && used < sizeof text)
        snprintf(text + used, sizeof text - used, " and %zu more", s->excluded_count - last);
    page_item(p, "%s", text);
}

static void count_item(struct page *p, struct an_count n, const char *one, const char *many,
                       const char *means)
{
    if (n.valid && n.value)
        page_item(p, "%" PRId64 " %s%s", n.value, n.value == 1 ? one : many, means);
}

/* What the capture of the accelerator is worth, in plain words. */
static void trust_capture(struct page *p, const struct an_quality *q)
{
    char a[32];
    if (q->reason)
        return;
    page_label(p, "Capture");
    struct an_count copies = q->launches_without_op;
    if (q->kernels_lost.valid && copies.valid)
        copies.value -= q->kernels_lost.value;
    count_item(p, q->kernels_lost, "launch of a kernel has", "launches of kernels have",
               " no kernel in the file");
    count_item(p, q->kernels_lost.valid ? copies : q->launches_without_op,
               "other launching call has", "other launching calls have",
               " no device op in the file");
    count_item(p, q->ops_without_launch, "device op has", "device ops have",
               " no launch in the file: counted in every time, what asked for them is not known");
    if (q->launches_without_op.valid && !q->launches_without_op.value &&
        q->ops_without_launch.valid && !q->ops_without_launch.value)
        page_item(p, "every launch has its device op and every device op its launch");
    count_item(p, q->zero_times, "device row has", "device rows have", " no usable time: left out");
    if (q->unknown_kernels.valid && q->unknown_kernels.value && q->unknown_pct.valid &&
        q->unknown_names.valid)
        page_item(p,
                  "%" PRId64 " kernels of %" PRId64
                  " names, %.1f %% of kernel time, are of no known class: counted as compute "
                  "(--classes FILE)",
                  q->unknown_kernels.value, q->unknown_names.value, q->unknown_pct.value);
    else
        count_item(p, q->unknown_kernels, "kernel is", "kernels are",
                   " of no known class: counted as compute (--classes FILE)");
    count_item(p, q->cut_steps, "step is", "steps are", " cut off by the recording");
    if (q->start_gap_ms.valid && q->start_gap_ms.value >= 1)
        page_item(p, "the first launch is %s before the first device op",
                  page_time(a, q->start_gap_ms.value * 1e6));
    if (q->profiler_overhead_ms.valid && q->profiler_overhead_ms.value > 0)
        page_item(p, "the profiler names %s as its own",
                  page_time(a, q->profiler_overhead_ms.value * 1e6));
    if (q->step_overhead_pct.valid && q->step_overhead_pct.value > 0)
        page_item(p, "%s %% of the host's steps", page_digits(a, q->step_overhead_pct.value, 2));
    for (size_t i = 0; i < q->sign_count; i++)
        page_item(p, "%.400s", q->signs[i]);
    if (!p->joined)
        page_item(p, "nothing odd");
    page_end(p);
}

static const char *run_key(const struct an_result *r, const char *key)
{
    for (size_t i = 0; i < r->run.key_count; i++)
        if (!strcmp(r->run.keys[i].key, key))
            return r->run.keys[i].value;
    return "";
}

/* When, where, what: who is forwarded the report was not there. */
static void trust_recorded(struct page *p, const struct an_result *r)
{
    const char *start = run_key(r, "start"), *cpu = run_key(r, "cpu.model"),
               *kernel = run_key(r, "kernel");
    const char *command = r->run.command ? r->run.command : "";
    bool quoted = strchr(command, '`') != NULL;
    if (!*start && !*cpu && !*kernel && !*command)
        return;
    page_label(p, "Recorded");
    if (*start)
        page_item(p, "%.60s", start);
    if (*r->run.host)
        page_item(p, "on %.100s", r->run.host);
    if (*cpu)
        page_item(p, "%.100s", cpu);
    if (*kernel)
        page_item(p, "%.100s", kernel);
    if (*command)
        page_item(p, quoted ? "command: %s" : "command: `%s`", command);
    page_end(p);
}

void rep_text_trust(struct page *p, const struct an_result *r)
{
    const struct an_trust *t = &r->trust;
    page_blank(p);
    page_label(p, "Trust");
    trust_losses(p, t);
    if (t->overhead_pct.valid)
        page_item(p, "overhead %.2f %% [%.2f, %.2f]", t->overhead_pct.value,
                  t->overhead_low_pct.value, t->overhead_high_pct.value);
    else
        page_item(p, "overhead not known: %.300s", t->overhead_pct.reason);
    trust_steps(p, &r->steps);
    if (t->open_ranges)
        page_item(p, "%" PRId64 " %s without an end", t->open_ranges,
                  t->open_ranges == 1 ? "range" : "ranges");
    if (*t->ended)
        page_item(p, "ended: %.200s", t->ended);
    else if (*r->run.ended)
        page_item(p, "ended: %.200s", r->run.ended);
    if (*t->clock)
        page_item(p, "clock %.60s", t->clock);
    bool foreign = t->source && *t->source && strcmp(t->source, "tacho") != 0;
    if (*t->version)
        page_item(p, "%s by tacho %.60s", foreign ? "imported" : "recorded", t->version);
    if (foreign)
        page_item(p, "recorded by %.60s%s%.200s", t->source, t->tool && *t->tool ? ": " : "",
                  t->tool ? t->tool : "");
    page_end(p);
    trust_capture(p, &r->quality);
    trust_gaps(p, t);
    bool first = true;
    for (size_t i = 0; i < t->problem_count; i++) {
        if (!r->quality.reason && !strncmp(t->problems[i], "CAPTURE: ", 9))
            continue; /* the lines of Capture have said so */
        if (t->problems[i] == r->caution)
            continue; /* the head has */
        page_label(p, first ? "Problems" : "");
        first = false;
        page_item(p, "%.400s", t->problems[i]);
        page_end(p);
    }
    trust_recorded(p, r);
}

void rep_text_definitions(struct page *p)
{
    char text[1600];
    page_blank(p);
    page_head(p, "Definitions");
    for (const struct an_metric *m = an_metrics; m->key; m++) {
        bool both = *m->formula && *m->reading;
        snprintf(text, sizeof text, "%s%s%s", m->formula, both ? "; " : "", m->reading);
        page_term(p, m->key, *m->formula ? m->unit : "", text);
    }
}
