/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of formats, and the objectives as they all need them.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/rules/private.h"

static const struct {
    const char *name;
    void (*write)(const struct rules_objective *list, size_t count, FILE *out);
} formats[] = {
#define RULES_ROW(name, help) {#name, mon_rules_##name},
    MON_RULES_MAP(RULES_ROW)
#undef RULES_ROW
};

static void camel_case(const char *name, char *camel)
{
    bool begins = true;
    for (; *name; name++) {
        if (*name != '_')
            *camel++ = (char)(begins ? toupper((unsigned char)*name) : *name);
        begins = *name == '_';
    }
    *camel = 0;
}

/* An objective in whole seconds, so that names of windows are short; the factors follow. */
static int fill(struct rules_objective *filled, const struct mon_objective *objective,
                double scrape_s, struct tacho_error *err)
{
    *filled = (struct rules_objective){.objective = *objective, .scrape_s = scrape_s};
    if (!(filled->objective.period_s > 0))
        filled->objective.period_s = MON_PERIOD_DAYS_30;
    camel_case(objective->name, filled->camel);
    int rc = mon_burns(&filled->objective, MON_RULES_SCRAPES * scrape_s / MON_BURN_STEPS,
                       filled->burn, &filled->count, filled->why, sizeof filled->why, err);
    for (size_t i = 0; i < filled->count; i++) {
        struct mon_burn *burn = &filled->burn[i];
        burn->long_s = fmax(1, round(burn->long_s));
        burn->short_s = fmax(1, ceil(burn->short_s - 1e-6));
        burn->factor = burn->budget * filled->objective.period_s / burn->long_s;
    }
    return rc;
}

int mon_rules_write(const char *format, const struct mon_slo *slo, double scrape_s, FILE *out,
                    struct tacho_error *err)
{
    size_t at = 0, kinds = sizeof formats / sizeof *formats;
    while (at < kinds && strcmp(formats[at].name, format))
        at++;
    if (at == kinds)
        return tacho_fail(err, TACHO_EUSAGE, "the formats are " MON_RULES_NAMES,
                          "no format of rules named '%.40s'", format);
    struct rules_objective *list = calloc(slo->count + 1, sizeof *list);
    int rc = list ? 0 : tacho_fail(err, TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
    for (size_t i = 0; i < slo->count && !rc; i++)
        rc = fill(&list[i], &slo->objective[i], scrape_s, err);
    if (!rc) {
        formats[at].write(list, slo->count, out);
        rc = ferror(out) ? TACHO_EIO : 0;
    }
    free(list);
    return rc;
}
