/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents of OpenSLO v1: a service, a source, and for each objective an SLO with a policy whose
 * conditions are the burn rates. Names there have dashes where ours have underscores.
 */
#include <math.h>
#include <string.h>

#include "monitor/rules/private.h"

static void head(FILE *out, const char *kind, const char *name)
{
    fprintf(out, "---\napiVersion: openslo/v1\nkind: %s\nmetadata:\n  name: %s\nspec:\n", kind,
            name);
}

static void query(FILE *out, const char *part, const char *metric, const char *slo)
{
    fprintf(out,
            "        %s:\n          metricSource:\n            metricSourceRef: "
            "tacho-prometheus\n            type: Prometheus\n            spec:\n"
            "              query: 'sum(%s{slo=\"%s\"})'\n",
            part, metric, slo);
}

static void slo_document(FILE *out, const struct rules_objective *filled, const char *name)
{
    const struct mon_objective *objective = &filled->objective;
    head(out, "SLO", name);
    fprintf(out,
            "  description: '%s'\n  service: tacho\n  indicator:\n    metadata:\n"
            "      name: %s-events\n    spec:\n      ratioMetric:\n        counter: true\n",
            mon_sli_kind(objective->sli)->help, name);
    query(out, "bad", RULES_BAD, objective->name);
    query(out, "total", RULES_TOTAL, objective->name);
    fprintf(out,
            "  timeWindow:\n    - duration: %s\n      isRolling: true\n"
            "  budgetingMethod: Occurrences\n  objectives:\n    - displayName: %s\n"
            "      target: %.10g\n  alertPolicies:\n",
            rules_duration(objective->period_s).text, objective->name, objective->target);
    for (size_t i = 0; i < filled->count; i++)
        fprintf(out, "    - %s-burn-%zu\n", name, i + 1);
}

/* Durations there have no seconds: a window is rounded up to minutes, and the factor follows. */
static struct mon_burn in_minutes(struct mon_burn burn)
{
    double long_s = 60 * ceil(burn.long_s / 60);
    burn.factor *= burn.long_s / long_s;
    burn.long_s = long_s;
    burn.short_s = 60 * ceil(burn.short_s / 60);
    return burn;
}

static void condition_document(FILE *out, const struct mon_burn *burn, const char *name)
{
    head(out, "AlertCondition", name);
    fprintf(out,
            "  severity: %s\n  condition:\n    kind: burnrate\n    op: gt\n"
            "    threshold: %.10g\n    lookbackWindow: %s\n    alertAfter: %s\n",
            burn->page ? "page" : "ticket", burn->factor, rules_duration(burn->long_s).text,
            rules_duration(burn->short_s).text);
}

static void policy_documents(FILE *out, const struct rules_objective *filled, const char *name)
{
    char full[MON_NAME + 48];
    for (size_t i = 0; i < filled->count; i++) {
        struct mon_burn burn = in_minutes(filled->burn[i]);
        snprintf(full, sizeof full, "%s-condition-%zu", name, i + 1);
        condition_document(out, &burn, full);
        snprintf(full, sizeof full, "%s-burn-%zu", name, i + 1);
        head(out, "AlertPolicy", full);
        fprintf(out,
                "  alertWhenNoData: false\n  alertWhenBreaching: true\n"
                "  alertWhenResolved: true\n  conditions:\n"
                "    - conditionRef: %s-condition-%zu\n  notificationTargets:\n"
                "    - targetRef: tacho-alertmanager\n",
                name, i + 1);
    }
}

void mon_rules_openslo(const struct rules_objective *list, size_t count, FILE *out)
{
    fputs("# Written by 'tacho watch --rules openslo'.\n", out);
    head(out, "Service", "tacho");
    fputs("  description: training runs that tacho watches\n", out);
    head(out, "DataSource", "tacho-prometheus");
    fputs("  type: Prometheus\n  connectionDetails:\n    url: http://127.0.0.1:9090\n", out);
    head(out, "AlertNotificationTarget", "tacho-alertmanager");
    fputs("  target: alertmanager\n", out);
    for (size_t i = 0; i < count; i++) {
        char name[MON_NAME + 8];
        snprintf(name, sizeof name, "tacho-%s", list[i].objective.name);
        for (char *at = name; (at = strchr(at, '_')) != NULL;)
            *at = '-';
        slo_document(out, &list[i], name);
        policy_documents(out, &list[i], name);
    }
}
