/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/rules/: what the formats share.
 */
#ifndef MONITOR_RULES_PRIVATE_H
#define MONITOR_RULES_PRIVATE_H

#include "monitor/rules/rules.h"

/* An objective with its pairs of windows, in whole seconds. */
struct rules_objective {
    struct mon_objective objective;
    struct mon_burn burn[MON_BURNS];
    size_t count;
    char camel[MON_NAME]; /* "StepTime" of "step_time" */
    char why[400];        /* the pairs that are left out, "" if none is */
    double scrape_s;
};

/* Each writes the file of a format. */
#define RULES_DECLARE(name, help) \
    void mon_rules_##name(const struct rules_objective *list, size_t count, FILE *out);
MON_RULES_MAP(RULES_DECLARE)
#undef RULES_DECLARE

/* The events of an objective over a window, as a query: "sum by (run, slo) (rate(NAME{...}[W]))".
 */
void rules_query(FILE *out, const char *metric, const char *slo, const char *window);
#define RULES_BAD   "tacho_sli_bad_events_total"
#define RULES_TOTAL "tacho_sli_events_total"

/* Seconds as Prometheus writes a duration, in the largest unit that divides them: "5m". */
struct rules_duration {
    char text[24];
};
struct rules_duration rules_duration(double seconds);

#endif
