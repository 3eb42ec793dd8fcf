/* SPDX-License-Identifier: Apache-2.0
 *
 * The run in numbers: a line for each of throughput, utilisation, phases, counters, system.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/text/text.h"

void rep_text_phases(struct page *p, const struct an_result *r)
{
    char a[32], b[32];
    if (!r->phase_count)
        return;
    page_label(p, "Phases");
    for (size_t i = 0; i < r->phase_count; i++)
        page_item(p, "%s %" PRId64 " %s, %s, %s of it on the step's thread", r->phases[i].name,
                  r->phases[i].count, r->phases[i].count == 1 ? "time" : "times",
                  page_time(a, r->phases[i].wall_ms * 1e6),
                  page_time(b, r->phases[i].exposed_ms * 1e6));
    page_item(p, "cut out of steps");
    page_end(p);
}

void rep_text_throughput(struct page *p, const struct an_result *r)
{
    const struct an_steps *s = &r->steps;
    char a[32], b[32];
    if (!s->median_ms.valid)
        return;
    page_label(p, "Throughput");
    if (s->tokens_per_s.valid)
        page_item(p, "%s tokens/s", page_number(a, s->tokens_per_s.value));
    if (s->samples_per_s.valid)
        page_item(p, "%s samples/s", page_number(a, s->samples_per_s.value));
    page_item(p, "steps from %.80s", s->source);
    if (!r->gpu.reason && s->host_median_ms.valid)
        page_item(p, "on the host a step takes %s, on the device %s",
                  page_time(a, s->host_median_ms.value * 1e6),
                  page_time(b, s->median_ms.value * 1e6));
    if (s->between_ms.valid && (r->gpu.reason || s->between_ms.value > 0))
        page_item(p, "%s between steps", page_time(a, s->between_ms.value * 1e6));
    if (s->outlier_count)
        page_item(p, "%zu slow %s, the slowest %" PRId64 " (%s)", s->outlier_count,
                  s->outlier_count == 1 ? "step" : "steps", s->outliers[0].index,
                  page_time(a, s->outliers[0].ms * 1e6));
    page_end(p);
    if (!s->group_count)
        return;
    page_label(p, "Step sizes");
    for (size_t i = 0; i < s->group_count; i++)
        if (s->groups[i].tokens.valid)
            page_item(p, "%" PRId64 " steps of %" PRId64 " tokens: %s", s->groups[i].count,
                      s->groups[i].tokens.value, page_time(a, s->groups[i].median_ms * 1e6));
    page_end(p);
}

static void ratio_item(struct page *p, const char *name, struct an_value v, const char *note)
{
    if (v.valid)
        page_item(p, "%s %.1f %%%s", name, 100 * v.value, note);
}

void rep_text_utilization(struct page *p, const struct an_result *r)
{
    const struct an_utilization *u = &r->utilization;
    char a[32];
    if (!r->steps.counted)
        return;
    bool partial = u->flop_coverage_pct.valid &&
                   u->flop_coverage_pct.value < 95; /* DESIGN 5: then there is no MFU */
    page_label(p, "Utilisation");
    bool palm =
        u->mfu_palm.valid &&
        (!u->mfu.valid || u->mfu_palm.value != u->mfu.value); /* the same without attention */
    ratio_item(p, "MFU", u->mfu, palm ? " (causal)" : "");
    if (palm)
        ratio_item(p, "MFU", u->mfu_palm, " (PaLM)");
    ratio_item(p, "HFU", u->hfu, "");
    if (!u->mfu.valid)
        page_item(p, "MFU not known: %.300s", u->mfu.reason);
    if (u->peak_flops.valid)
        page_item(p, "of %s %s (%.120s)", page_si(a, u->peak_flops.value, "FLOP/s"),
                  u->dtype ? u->dtype : "", u->peak_source ? u->peak_source : "");
    if (u->mfu_measured.valid &&
        u->roof_measured_flops.valid) /* its own roof beside it: the one above is another */
        page_item(p, "MFU %.1f %% of the measured roof of products, %s",
                  100 * u->mfu_measured.value, page_si(a, u->roof_measured_flops.value, "FLOP/s"));
    if (u->model_flops_per_step.valid && u->hardware_flops_per_step.valid)
        page_item(p, "%smodel %s a step", partial ? "of what is known: " : "",
                  page_si(a, (double)u->model_flops_per_step.value, "FLOP"));
    if (u->achieved_flops.valid && !partial)
        page_item(p, "%s executed", page_si(a, u->achieved_flops.value, "FLOP/s"));
    page_end(p);
}

/* ---- system, counters --------------------------------------------------------------------------------------------------- */

static void value_item(struct page *p, struct an_value v, const char *format)
{
    if (v.valid)
        page_item(p, format, v.value);
}

static void bytes_item(struct page *p, struct an_value v, const char *name)
{
    char a[32];
    if (v.valid)
        page_item(p, "%s %s", name, page_bytes(a, v.value));
}

void rep_text_system(struct page *p, const struct an_result *r)
{
    const struct an_system *s = &r->system;
    if (s->reason && r->trust.source && strcmp(r->trust.source, "tacho") != 0)
        return; /* a trace of another tool never has one */
    page_label(p, "System");
    if (s->reason) {
        page_item(p, "not sampled: %.300s", s->reason);
        page_end(p);
        return;
    }
    if (s->cpu_cores.valid && r->run.cores.valid)
        page_item(p, "CPU %.2f of %" PRId64 " cores", s->cpu_cores.value, r->run.cores.value);
    else
        value_item(p, s->cpu_cores, "CPU %.2f cores");
    value_item(p, s->machine_busy_pct, "machine %.0f %% busy");
    value_item(p, s->other_cores, "other programs %.2f");
    value_item(p, s->cpu_wait_pct, "ready without a core %.1f %% of the steps");
    bytes_item(p, s->rss_peak_bytes, "memory at most");
    bytes_item(p, s->read_bytes, "storage read");
    bytes_item(p, s->write_bytes, "written");
    value_item(p, s->major_faults,
               s->major_faults.value == 1 ? "%.0f major fault" : "%.0f major faults");
    value_item(p, s->minor_faults, "%.0f minor faults");
    value_item(p, s->involuntary_switches, "%.0f involuntary switches");
    value_item(p, s->voluntary_switches, "%.0f voluntary");
    value_item(p, s->instructions_per_cycle, "%.2f instructions a cycle");
    page_end(p);
}

/* How many series have the name of the i-th, each of another rank; 0: one before it has spoken for
 * them. */
static size_t alike(const struct an_result *r, size_t i)
{
    size_t n = 0;
    for (size_t k = 0; k < r->series_count; k++)
        if (!strcmp(r->series[k].name, r->series[i].name) &&
            !strcmp(r->series[k].unit, r->series[i].unit)) {
            if (k < i)
                return 0;
            n++;
        }
    return n;
}

void rep_text_series(struct page *p, const struct an_result *r)
{
    char a[32], b[32], of[40];
    if (!r->series_count)
        return;
    size_t shown = 0, rest = 0;
    for (size_t i = 0; i < r->series_count; i++) {
        const struct an_series *s = &r->series[i];
        if (!r->memory.reason && !strncmp(s->name, "memory.", 7))
            continue; /* has a place of its own */
        if (!strcmp(s->name, "steps_planned"))
            continue; /* once, for who watches */
        if (shown == 8) {
            rest++;
            continue;
        }
        size_t same = alike(r, i);
        if (!same)
            continue;
        *of = 0;
        if (same > 1)
            snprintf(of, sizeof of, " (first of %zu)", same);
        if (!shown++)
            page_label(p, "Counters");
        if (!strcmp(s->unit, "bytes")) {
            page_item(p, "%.60s %s \xe2\x86\x92 %s%s", s->name, page_bytes(a, s->first),
                      page_bytes(b, s->last), of);
            continue;
        }
        page_item(p, "%.60s %s \xe2\x86\x92 %s%s%.20s%s", s->name, page_number(a, s->first),
                  page_number(b, s->last), *s->unit ? " " : "", s->unit, of);
    }
    if (rest)
        page_item(p, "%zu more", rest);
    if (shown)
        page_end(p);
}
