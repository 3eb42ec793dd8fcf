/* SPDX-License-Identifier: Apache-2.0
 *
 * Gains from the replay of the dependency graph, for findings whose proposal is an edit of it
 * (what_if.h). What a finding had computed before stays where nothing can be replayed, and where it
 * is the lower one of two upper bounds.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings.h"
#include "analyzers/replay/what_if_run.h"

/* Host time that is replayed as it was, because nothing recorded says what it is: above this share
 * of the steps the replay is no bound of what a change can do. */
#define UNKNOWN_MOST 10.0

static bool knows_enough(const struct an_advice *a)
{
    return a->think_pct.valid && a->held_pct.valid &&
           a->think_pct.value + a->held_pct.value <= UNKNOWN_MOST;
}

static const char *error_words(const struct an_context *c)
{
    const struct an_value *e = &c->r->trust.replay_error_pct;
    return e->valid ? an_arena_format(c->a, "error %s %%", an_number_words(c->a, e->value, 2))
                    : "its error is not known: too few steps";
}

/* The edit says what the proposal does, so its interval is the finding's. */
static void take_interval(struct an_context *c, struct an_finding *f, const struct an_what_if *w)
{
    f->gain = w->gain;
    f->method = an_arena_format(
        c->a, "replay of the dependency graph with %.80s (%s)%s%.200s", w->edit, error_words(c),
        w->condition ? "; takes for granted: " : "", w->condition ? w->condition : "");
}

/* Two upper bounds: the lower one counts. But work that goes also frees the cores that it shared:
 * what a finding adds up without a replay is no bound then. */
static void take_bound(struct an_context *c, struct an_finding *f, const struct an_what_if *w)
{
    const char *why =
        w->ceiling ? w->ceiling : "how much of it the change takes away is not in the run";
    bool bound = f->gain.high.valid && !an_cores_short(&c->r->advice.cores);
    if (!w->gain.high.valid || (bound && f->gain.high.value <= w->gain.high.value)) {
        f->method =
            an_arena_format(c->a, "%.400s; the replay of %.80s allows more", f->method, w->edit);
        return;
    }
    f->gain = (struct an_gain){.low = an_num_none(why),
                               .expected = an_num_none(why),
                               .high = w->gain.high,
                               .ceiling = true};
    f->method = an_arena_format(
        c->a, "ceiling: replay of the dependency graph with %.80s (%s); %.200s%s", w->edit,
        error_words(c), why,
        an_finding_brings_nothing(f) ? "; alone it brings nothing, for something else takes as "
                                       "long: see what they bring together"
                                     : "");
}

int an_findings_replay(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    for (size_t i = 0; i < l->count; i++) {
        struct an_finding *f = &l->found[i];
        struct an_what_if w;
        bool ranks = f->what_if && !strncmp(f->what_if, "rank",
                                            4); /* what nothing tells of a rank is scaled, too */
        if (!f->what_if || !c->what_if || (!ranks && !knows_enough(&c->r->advice)))
            continue;
        if (an_what_if_of(c, f->what_if, &w))
            return TACHO_ENOMEM;
        if (w.reason) {
            f->what_if = w.unknown ? NULL : f->what_if;
            continue;
        }
        if (!f->bound && !w.ceiling && w.gain.high.valid)
            take_interval(c, f, &w);
        else
            take_bound(c, f, &w);
    }
    return 0;
}
