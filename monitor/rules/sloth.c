/* SPDX-License-Identifier: Apache-2.0
 *
 * A specification for Sloth (prometheus/v1). Sloth chooses windows and factors itself, those of 30
 * days, so that the period of an objective is not part of it.
 */
#include "monitor/rules/private.h"

void mon_rules_sloth(const struct rules_objective *list, size_t count, FILE *out)
{
    fputs("# Written by 'tacho watch --rules sloth'. Sloth's own period is 30 days.\n"
          "version: prometheus/v1\nservice: tacho\nslos:\n",
          out);
    for (size_t i = 0; i < count; i++) {
        const struct mon_objective *objective = &list[i].objective;
        fprintf(out,
                "  - name: %s\n    objective: %.10g\n    description: '%s'\n"
                "    sli:\n      events:\n        error_query: '",
                objective->name, 100 * objective->target, mon_sli_kind(objective->sli)->help);
        rules_query(out, RULES_BAD, objective->name, "{{.window}}");
        fputs("'\n        total_query: '", out);
        rules_query(out, RULES_TOTAL, objective->name, "{{.window}}");
        fprintf(out,
                "'\n    alerting:\n      name: Tacho%sBurn\n"
                "      annotations:\n"
                "        summary: 'run {{$labels.run}} uses up the error budget of %s'\n"
                "      page_alert:\n        labels:\n          severity: page\n"
                "      ticket_alert:\n        labels:\n          severity: ticket\n",
                list[i].camel, objective->name);
    }
}
