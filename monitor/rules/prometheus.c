/* SPDX-License-Identifier: Apache-2.0
 *
 * A rule file of Prometheus: for each objective the share of bad events in each window, a page and
 * a ticket; then the rules about runs that make no progress or fell silent.
 */
#include <inttypes.h>
#include <math.h>

#include "monitor/rules/private.h"

/* Seconds between two evaluations: four in the shortest window, at most a minute apart. */
static double interval(const struct rules_objective *filled)
{
    double shortest = INFINITY;
    for (size_t i = 0; i < filled->count; i++)
        shortest = fmin(shortest, filled->burn[i].short_s);
    return fmin(60, fmax(1, floor(shortest / 4)));
}

static void record(FILE *out, const char *slo, double window_s)
{
    struct rules_duration window = rules_duration(window_s);
    fprintf(out,
            "      - record: tacho:sli_bad:ratio_rate%s\n        labels:\n          slo: %s\n      "
            "  expr: '",
            window.text, slo);
    rules_query(out, RULES_BAD, slo, window.text);
    fputs(" / ", out);
    rules_query(out, RULES_TOTAL, slo, window.text);
    fputs("'\n", out);
}

/* Each window once: pairs may share one. */
static void record_windows(FILE *out, const struct rules_objective *filled)
{
    for (size_t i = 0; i < 2 * filled->count; i++) {
        const struct mon_burn *burn = &filled->burn[i / 2];
        double window_s = i % 2 ? burn->long_s : burn->short_s;
        bool is_there = i % 2 && burn->long_s <= burn->short_s;
        for (size_t j = 0; j < i / 2; j++)
            is_there = is_there || fabs(filled->burn[j].short_s - window_s) < 0.5 ||
                       fabs(filled->burn[j].long_s - window_s) < 0.5;
        if (!is_there)
            record(out, filled->objective.name, window_s);
    }
}

static void condition(FILE *out, const struct rules_objective *filled, double window_s,
                      double factor)
{
    fprintf(out, "tacho:sli_bad:ratio_rate%s{slo=\"%s\"} > %.10g", rules_duration(window_s).text,
            filled->objective.name, factor * (1 - filled->objective.target));
}

/* One alert for all pairs of a severity, so that a run is told of once. */
static void alert(FILE *out, const struct rules_objective *filled, bool page)
{
    const char *word = page ? "page" : "ticket", *before = "'";
    size_t pairs = 0;
    for (size_t i = 0; i < filled->count; i++)
        pairs += filled->burn[i].page == page;
    if (!pairs)
        return;
    fprintf(out, "      - alert: Tacho%sBurn%s\n        expr: ", filled->camel,
            page ? "Fast" : "Slow");
    for (size_t i = 0; i < filled->count; i++) {
        const struct mon_burn *burn = &filled->burn[i];
        if (burn->page != page)
            continue;
        fprintf(out, "%s(", before);
        condition(out, filled, burn->long_s, burn->factor);
        fputs(" and ", out);
        condition(out, filled, burn->short_s, burn->factor);
        fputc(')', out);
        before = " or ";
    }
    fprintf(out,
            "'\n        labels:\n          severity: %s\n        annotations:\n"
            "          summary: 'run {{ $labels.run }} uses up the error budget of %s'\n"
            "          description: '{{ $value | humanizePercentage }} of its events are bad; "
            "%.10g %% have to be good over %s (%s)'\n",
            word, filled->objective.name, 100 * filled->objective.target,
            rules_duration(filled->objective.period_s).text,
            mon_sli_kind(filled->objective.sli)->help);
}

/* What does not depend on an objective: progress in wall time. */
static void progress_rules(FILE *out, double scrape_s)
{
    fprintf(out,
            "  - name: tacho-progress\n"
            "    rules:\n"
            "      - alert: TachoStalled\n"
            "        expr: 'max by (run) (tacho_stalled) == 1'\n"
            "        labels:\n"
            "          severity: page\n"
            "        annotations:\n"
            "          summary: 'run {{ $labels.run }} makes no progress'\n"
            "      - alert: TachoRankSilent\n"
            "        expr: 'tacho_rank_progress_age_seconds > on (run, instance) group_left () "
            "tacho_progress_bound_seconds unless on (run) tacho_stalled == 1'\n"
            "        labels:\n"
            "          severity: page\n"
            "        annotations:\n"
            "          summary: 'rank {{ $labels.rank }} of run {{ $labels.run }} completes no "
            "steps while others do'\n"
            "      - alert: TachoWatchSilent\n"
            "        expr: '(last_over_time(tacho_run_ended[1h]) == 0) unless on (run, instance) "
            "tacho_run_ended'\n"
            "        for: %s\n"
            "        labels:\n"
            "          severity: ticket\n"
            "        annotations:\n"
            "          summary: 'nothing is heard of run {{ $labels.run }} on "
            "{{ $labels.instance }}, which had not ended'\n",
            rules_duration(fmax(1, ceil(8 * scrape_s))).text);
}

void mon_rules_prometheus(const struct rules_objective *list, size_t count, FILE *out)
{
    fputs("# Written by 'tacho watch --rules prometheus'.\ngroups:\n", out);
    for (size_t i = 0; i < count; i++) {
        const struct rules_objective *filled = &list[i];
        if (*filled->why)
            fprintf(out, "  # %s: excluded: %s\n", filled->objective.name, filled->why);
        fprintf(out, "  - name: tacho-slo-%s\n    interval: %s\n    rules:\n",
                filled->objective.name, rules_duration(interval(filled)).text);
        record_windows(out, filled);
        alert(out, filled, true);
        alert(out, filled, false);
    }
    progress_rules(out, count ? list[0].scrape_s : 15);
}
