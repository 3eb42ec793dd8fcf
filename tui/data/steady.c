/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/data/steady.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEPS_LEAST 20   /* a headline of fewer steps gives way to any other */
#define LEAD_MOST   3.0  /* standard deviations that one analysis counts for */
#define LEAD_BLIND  1.5  /* where an interval is missing */
#define ALLOWANCE   0.5  /* standard deviations that noise alone leads by */
#define LIMIT       5.0  /* of the sum */
#define SD_OF_RANGE 3.29 /* standard deviations between the ends of a 90 % interval */

/* What the first screen leads with: class, first finding, and the rank that is late. */
static void headline(const struct an_result *result, char text[96])
{
    const struct an_straggler *straggler = &result->ranks.straggler;
    bool late = !result->ranks.reason && !straggler->reason && straggler->count;
    snprintf(text, 96, "%.40s/%.40s/%" PRId64, result->verdict_class ? result->verdict_class : "",
             result->finding_count ? result->findings[0].id : "", late ? straggler->rank : -1);
}

/* The finding with that id, NULL: the result does not have it. */
static const struct an_finding *find(const struct an_result *result, const char *id)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, id))
            return &result->findings[i];
    return NULL;
}

static double range_of(const struct an_finding *finding)
{
    return finding ? finding->gain.high.value - finding->gain.low.value : 0;
}

static bool has_interval(const struct an_finding *finding)
{
    return finding->gain.expected.valid && finding->gain.low.valid && finding->gain.high.valid;
}

/* By how many standard deviations the first finding of `added` leads the one that is shown, by the
 * gains of `added`. A finding that is not there any more gains nothing. */
static double lead_of(const struct an_result *shown, const struct an_result *added)
{
    const struct an_finding *first = added->finding_count ? &added->findings[0] : NULL;
    const struct an_finding *old = shown->finding_count ? find(added, shown->findings[0].id) : NULL;
    if (!first || first == old || !has_interval(first) || (old && !has_interval(old)))
        return LEAD_BLIND;
    double sd = hypot(range_of(first), range_of(old)) / SD_OF_RANGE;
    double lead = first->gain.expected.value - (old ? old->gain.expected.value : 0);
    return sd > 0 ? fmin(LEAD_MOST, lead / sd) : LEAD_BLIND;
}

/* The part of the analysed steps that no earlier analysis saw. */
static double part_new(const struct tui_steady *steady, const struct an_result *added)
{
    double steps = (double)(added->steps.last_index - added->steps.first_index + 1);
    double fresh = (double)(added->steps.last_index - steady->seen);
    return steps > 0 ? fmax(0, fmin(1, fresh / steps)) : 0;
}

bool tui_steady_accepts(struct tui_steady *steady, const struct an_result *shown,
                        const struct an_result *added)
{
    char old[96], new[96];
    headline(added, new);
    if (shown)
        headline(shown, old);
    double part = part_new(steady, added);
    steady->seen = added->steps.last_index;
    if (!shown || !strcmp(old, new) || shown->steps.detailed < STEPS_LEAST) {
        steady->sum = 0;
        return true;
    }
    if (strcmp(steady->challenger, new) != 0)
        steady->sum = 0;
    memcpy(steady->challenger, new, sizeof new);
    steady->sum = fmax(0, steady->sum + part * (lead_of(shown, added) - ALLOWANCE));
    if (steady->sum < LIMIT)
        return false;
    steady->sum = 0;
    return true;
}
