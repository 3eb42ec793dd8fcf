/* SPDX-License-Identifier: Apache-2.0
 *
 * From what a detector found to a symptom in words: since when, how much, what moved and what
 * changed then.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "monitor/private.h"

#define CLEAR_VALUES   8    /* newest ones whose median has to be on the good side */
#define ACCEPTED       2000 /* values after which a level is the usual one */
#define FAR            1.25 /* a step that takes so much longer is a page, not a ticket */
#define WEAK           3    /* deviations of a move that may be gone when its cause is known */
#define DEFERRED_STEPS 40   /* at most, so that enough of those before it are still kept */
#define SAMPLES_NS     3000000000 /* until there are samples of counters from after a change */

void mon_raise(struct mon_monitor *monitor, const struct mon_symptom *symptom)
{
    mon_alerts_raise(&monitor->alerts, symptom, mon_seconds(monitor->now_ns - monitor->begun_ns));
}

void mon_clear(struct mon_monitor *monitor, const char *code, int64_t rank)
{
    mon_alerts_clear(&monitor->alerts, code, rank,
                     mon_seconds(monitor->now_ns - monitor->begun_ns));
}

struct mon_symptom mon_symptom_of(const struct mon_monitor *monitor, const char *code,
                                  enum mon_severity severity, enum mon_cause cause)
{
    struct mon_symptom symptom = {.severity = severity,
                                  .cause = cause,
                                  .since_step = -1,
                                  .found_step = monitor->last_step,
                                  .since_ns = monitor->now_ns,
                                  .found_ns = monitor->now_ns,
                                  .before = NAN,
                                  .after = NAN};
    snprintf(symptom.code, sizeof symptom.code, "%s", code);
    return symptom;
}

int64_t mon_step_at(const struct mon_monitor *monitor, int64_t rank, int64_t time)
{
    const struct mon_kept_rank *kept = mon_history_rank(&monitor->history, rank);
    int64_t index = monitor->last_step + 1;
    for (size_t i = 0; kept && i < kept->count; i++)
        if (kept->step[i].end > time && kept->step[i].index < index)
            index = kept->step[i].index;
    return index;
}

/* When a step began, by the first rank that has it; `otherwise` if none has. */
static int64_t step_begin(const struct mon_history *history, int64_t index, int64_t otherwise)
{
    for (size_t i = 0; i < history->rank_count; i++)
        for (size_t j = 0; j < history->rank[i]->count; j++)
            if (history->rank[i]->step[j].index == index)
                return history->rank[i]->step[j].start;
    return otherwise;
}

/* "communication 42.1 → 47.3 ms (95 % of the growth); at the same time: SM clock 1980 → 1410 MHz".
 */
static void changed_words(const struct mon_finding *finding, struct mon_symptom *symptom)
{
    char before[AN_WORDS], after[AN_WORDS];
    size_t size = sizeof symptom->changed;
    char *text = symptom->changed;
    if (finding->has_phase)
        an_words_add(text, size, "%s %s -> %s (%.0f %% of the growth)",
                     mon_phase_words(finding->phase),
                     an_time_print(before, finding->phase_before_ms, 3),
                     an_time_print(after, finding->phase_after_ms, 3), 100 * finding->share);
    else
        an_words_add(text, size,
                     "no phase accounts for it, or the recording has no totals "
                     "of ranges");
    if (finding->moved_count)
        an_words_add(text, size, "; at the same time ");
    mon_moved_words(finding, text, size);
    if (finding->has_phase)
        snprintf(symptom->phase, sizeof symptom->phase, "%s", mon_phase_words(finding->phase));
}

/* The two series whose moves are looked into. */
static const struct {
    const char *code, *what, *unit;
} shifts[] = {{"STEP_TIME", "the time of a step", "ms"},
              {"THROUGHPUT", "tokens a second", "tokens/s"}};

static void shift_words(int which, const struct mon_shift_found *found, struct mon_symptom *symptom)
{
    char before[AN_WORDS], after[AN_WORDS];
    if (which)
        snprintf(symptom->text, sizeof symptom->text, "%s %+.1f %%: %s -> %s", shifts[which].what,
                 100 * (found->after / found->before - 1),
                 an_number_print(before, found->before, 3),
                 an_number_print(after, found->after, 3));
    else
        snprintf(symptom->text, sizeof symptom->text, "%s %+.1f %%: %s -> %s", shifts[which].what,
                 100 * (found->after / found->before - 1), an_time_print(before, found->before, 3),
                 an_time_print(after, found->after, 3));
}

static void raise_shift(struct mon_monitor *monitor, int which, const struct mon_shift_found *found)
{
    struct mon_finding finding;
    bool far = which ? found->before > FAR * found->after : found->after > FAR * found->before;
    struct mon_symptom symptom =
        mon_symptom_of(monitor, shifts[which].code, far ? MON_PAGE : MON_TICKET, MON_CAUSE_UNKNOWN);
    symptom.since_step = found->since;
    symptom.since_ns = step_begin(&monitor->history, found->since, monitor->now_ns);
    symptom.before = found->before;
    symptom.after = found->after;
    snprintf(symptom.unit, sizeof symptom.unit, "%s", shifts[which].unit);
    mon_cause_find(&monitor->history, found->since, symptom.since_ns, &finding);
    symptom.cause = finding.cause;
    symptom.rank_count = finding.rank_count;
    memcpy(symptom.rank, finding.rank, sizeof symptom.rank);
    shift_words(which, found, &symptom);
    changed_words(&finding, &symptom);
    mon_raise(monitor, &symptom);
}

void mon_defer_shift(struct mon_monitor *monitor, int which, const struct mon_shift_found *found)
{
    if (monitor->deferred[which].waits)
        raise_shift(monitor, which, &monitor->deferred[which].found);
    monitor->deferred[which] = (struct mon_deferred){
        .waits = true,
        .begin_ns = step_begin(&monitor->history, found->since, monitor->now_ns),
        .found = *found};
    mon_raise_deferred(monitor);
}

/* Is a move that was weak gone by now? Then it was an accident, or nothing that lasts. */
static bool is_gone(const struct mon_monitor *monitor, const struct mon_watched *watched,
                    const struct mon_shift_found *found)
{
    size_t steps = (size_t)(monitor->last_step - found->since) + 1;
    double now = mon_shift_recent(&watched->shift, steps);
    double middle = (found->before + found->after) / 2;
    bool weak = fabs(log(found->after / found->before)) < WEAK * found->spread;
    return weak && (found->up ? now < middle : now > middle);
}

/* Raises what waited for its cause. What is over by then is not left open. */
static void end_wait(struct mon_monitor *monitor, int which)
{
    struct mon_watched *watched = which ? &monitor->throughput : &monitor->step_time;
    struct mon_deferred *deferred = &monitor->deferred[which];
    deferred->waits = false;
    if (is_gone(monitor, watched, &deferred->found)) {
        watched->firing = mon_alerts_has(&monitor->alerts, shifts[which].code);
        return;
    }
    raise_shift(monitor, which, &deferred->found);
    if (!watched->firing)
        mon_clear(monitor, shifts[which].code, -1);
}

void mon_raise_deferred(struct mon_monitor *monitor)
{
    for (int which = 0; which < 2; which++) {
        const struct mon_deferred *deferred = &monitor->deferred[which];
        bool sampled = monitor->now_ns - SAMPLES_NS >= deferred->begin_ns;
        if (deferred->waits &&
            (sampled || monitor->last_step >= deferred->found.since + DEFERRED_STEPS))
            end_wait(monitor, which);
    }
}

void mon_watched_begin(struct mon_watched *watched, const struct mon_shift_rule *rule, bool bad_up)
{
    *watched = (struct mon_watched){.firing = false};
    mon_shift_init(&watched->shift, rule, bad_up);
}

/* Is the series back, or has it been on its new level for so long that this is the usual one? */
static bool is_over(const struct mon_watched *watched)
{
    double now = mon_shift_recent(&watched->shift, CLEAR_VALUES);
    bool back = watched->shift.bad_up ? now < watched->clear_level : now > watched->clear_level;
    return (back && watched->firing_values >= CLEAR_VALUES) || watched->firing_values > ACCEPTED;
}

bool mon_watched_add(struct mon_monitor *monitor, struct mon_watched *watched, double value,
                     int64_t at, const char *code, int64_t rank, struct mon_shift_found *found)
{
    bool moved = mon_shift_add(&watched->shift, value, at, found);
    if (watched->firing) {
        watched->firing_values++;
        if (is_over(watched)) {
            watched->firing = false;
            mon_clear(monitor, code, rank);
        }
    }
    if (!moved || found->up != watched->shift.bad_up)
        return false;
    if (!watched->firing)
        watched->clear_level = (found->before + found->after) / 2;
    watched->firing = true;
    watched->firing_values = 0;
    return true;
}
