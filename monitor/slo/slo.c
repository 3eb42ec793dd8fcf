/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of indicators, the objectives by default, and the windows of burn rates.
 */
#include "monitor/slo/slo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/words.h"

static const struct mon_sli_kind kinds[] = {
#define MON_SLI_ROW(id, name, event, unit, target, threshold, relative, help) \
    {name, event, unit, target, threshold, relative, help},
    MON_SLI_MAP(MON_SLI_ROW)
#undef MON_SLI_ROW
};

const struct mon_sli_kind *mon_sli_kind(enum mon_sli sli)
{
    return &kinds[sli];
}

bool mon_sli_counts_seconds(enum mon_sli sli)
{
    return !strcmp(kinds[sli].event_unit, "seconds");
}

void mon_objective_init(struct mon_objective *objective, enum mon_sli sli)
{
    *objective = (struct mon_objective){.sli = sli,
                                        .target = kinds[sli].target,
                                        .threshold = kinds[sli].threshold,
                                        .relative = kinds[sli].relative};
    snprintf(objective->name, sizeof objective->name, "%s", kinds[sli].name);
}

void mon_slo_defaults(struct mon_slo *slo)
{
    *slo = (struct mon_slo){.count = MON_SLI_COUNT};
    for (int i = 0; i < MON_SLI_COUNT; i++)
        mon_objective_init(&slo->objective[i], (enum mon_sli)i);
}

/* The windows of the 30 days of the SRE workbook as parts of the period. */
static const struct {
    double part, budget;
    bool page;
} pairs[MON_BURNS] = {{720, 0.02, true}, {120, 0.05, true}, {30, 0.10, false}, {10, 0.10, false}};

static struct mon_burn make_pair(int i, double period_s, double least_s)
{
    struct mon_burn burn = {
        .long_s = period_s / pairs[i].part, .budget = pairs[i].budget, .page = pairs[i].page};
    burn.short_s = burn.long_s / 12;
    burn.lengthened = burn.short_s < least_s;
    burn.long_s = fmax(burn.long_s, least_s);
    burn.short_s = fmax(burn.short_s, least_s);
    burn.factor = burn.budget * period_s / burn.long_s;
    return burn;
}

/* Why a pair is of no use, or NULL. A pair of the same windows as the one before it can only have a
 * higher factor: budgets grow from pair to pair. */
static const char *refusal(const struct mon_burn *burn, const struct mon_burn *before,
                           double target)
{
    if (burn->factor * (1 - target) >= 1 - 1e-12)
        return "no share of bad events burns that fast";
    if (burn->factor < 1 - 1e-9)
        return "the period is too short for it";
    if (before && before->long_s >= burn->long_s)
        return "another pair has its windows and a lower factor";
    return NULL;
}

int mon_burns(const struct mon_objective *objective, double step_s, struct mon_burn burn[MON_BURNS],
              size_t *count, char *why, size_t size, struct tacho_error *err)
{
    double least_s = step_s > 0 ? MON_BURN_STEPS * step_s : 0;
    char words[AN_WORDS];
    *count = 0;
    *why = 0;
    for (int i = 0; i < MON_BURNS; i++) {
        struct mon_burn pair = make_pair(i, objective->period_s, least_s);
        const char *reason = refusal(&pair, *count ? &burn[*count - 1] : NULL, objective->target);
        if (!reason)
            burn[(*count)++] = pair;
        else
            an_words_add(why, size, "%sburn rate %.3g over %s: %s", *why ? "; " : "", pair.factor,
                         an_time_print(words, 1e3 * pair.long_s, 3), reason);
    }
    if (*count)
        return 0;
    return tacho_fail(
        err, TACHO_EUSAGE, "choose a longer period, or a target that leaves a larger budget",
        "objective %s: none of its burn rates can be exceeded (%s)", objective->name, why);
}
