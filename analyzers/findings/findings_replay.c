/* SPDX-License-Identifier: Apache-2.0
 *
 * Gains from the replay of the dependency graph, for findings whose proposal is an edit of it
 * (replay/what_if.h). A finding keeps the gain that it computed itself where nothing can be
 * replayed, and where it is the lower one of two upper bounds.
 */
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/replay/what_if_run.h"

/* Host time without a record of what it is, in % of the steps, is replayed as it was. Above this
 * share the replay is no bound of what a change can do. */
#define UNKNOWN_MOST 10.0

static bool knows_enough(const struct an_advice *advice)
{
    return advice->think_pct.valid && advice->held_pct.valid &&
           advice->think_pct.value + advice->held_pct.value <= UNKNOWN_MOST;
}

static const char *error_words(const struct an_context *context)
{
    const struct an_value *error = &context->result->trust.replay_error_pct;
    if (!error->valid)
        return "its error is not known: too few steps";
    return an_finding_text(context, "error %s %%",
                           an_number_words(context->arena, error->value, 2));
}

/* The edit does what the proposal does, so the finding takes its interval. */
static void take_interval(struct an_context *context, struct an_finding *finding,
                          const struct an_what_if *what_if)
{
    finding->gain = what_if->gain;
    finding->method = an_finding_text(context, "replay of the dependency graph with %.80s (%s)",
                                      what_if->edit, error_words(context));
    if (what_if->condition)
        finding->method =
            an_finding_text(context, "%s; assumes: %.400s", finding->method, what_if->condition);
}

/* Keeps the lower one of two upper bounds. Where cores are short, work that goes away also frees
 * the cores that it shared, and a sum without a replay is no bound: then the replay counts. */
static void take_bound(struct an_context *context, struct an_finding *finding,
                       const struct an_what_if *what_if)
{
    const char *why = what_if->ceiling ? what_if->ceiling
                                       : "the run does not show how much of it the change removes";
    bool bound = finding->gain.high.valid && !an_cores_short(&context->result->advice.cores);
    if (!what_if->gain.high.valid ||
        (bound && finding->gain.high.value <= what_if->gain.high.value)) {
        finding->method = an_finding_text(context, "%.400s; the replay of %.80s allows more",
                                          finding->method, what_if->edit);
        return;
    }
    finding->gain = (struct an_gain){.low = an_num_none(why),
                                     .expected = an_num_none(why),
                                     .high = what_if->gain.high,
                                     .ceiling = true};
    finding->method = an_finding_text(
        context, "ceiling: replay of the dependency graph with %.80s (%s); %.200s%s", what_if->edit,
        error_words(context), why,
        an_finding_has_no_gain(finding) ? "; no gain on its own, because something else takes as "
                                          "long: see the gain of both together"
                                        : "");
}

/* Keeps the replay with the finding's own gain, so that every table shows one gain for one
 * proposal. */
static void keep_replay(const struct an_context *context, struct an_finding *finding,
                        const struct an_what_if *what_if)
{
    finding->replay = *what_if;
    finding->replay.of = finding->id;
    if (!finding->gain.ceiling)
        return;
    const char *why = what_if->ceiling ? what_if->ceiling : finding->gain.expected.reason;
    finding->replay.gain = finding->gain;
    finding->replay.ceiling = why;
    finding->replay.step_ms = finding->replay.step_high_ms = an_num_none(why);
    if (finding->gain.high.valid)
        finding->replay.step_low_ms =
            an_num(context->result->advice.step_ms.value / (1 + finding->gain.high.value / 100));
}

int an_findings_replay(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    for (size_t i = 0; i < findings->count; i++) {
        struct an_finding *finding = &findings->found[i];
        struct an_what_if what_if;
        if (!finding->what_if || !context->what_if || finding->replay.edit)
            continue;
        /* Edits of ranks scale the unknown host time, too. */
        if (strncmp(finding->what_if, "rank", 4) != 0 && !knows_enough(&context->result->advice))
            continue;
        if (an_what_if_of(context, finding->what_if, &what_if))
            return TACHO_ENOMEM;
        if (what_if.reason && what_if.unknown)
            finding->what_if = NULL;
        else if (what_if.reason && finding->gain.ceiling)
            finding->method =
                an_finding_text(context, "%.400s: %.300s", finding->method, what_if.reason);
        if (what_if.reason)
            continue;
        if (!finding->bound && !what_if.ceiling && what_if.gain.high.valid)
            take_interval(context, finding, &what_if);
        else
            take_bound(context, finding, &what_if);
        keep_replay(context, finding, &what_if);
    }
    return 0;
}
