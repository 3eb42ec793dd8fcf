/* SPDX-License-Identifier: Apache-2.0
 *
 * Two analyzers. "replay" replays the dependency graph as it was recorded; it reports how far that
 * misses the run and what the longest paths consist of. "advice" replays edits: those that the
 * user asked for, else those that the findings propose, each alone and all together.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/replay/what_if_run.h"
#include "analyzers/steps/command.h"

#define ERROR_TOLD 2.0     /* %: a replay error that large wants a reason */
#define GAIN_EQUAL 0.01    /* points: gains that differ by less are the same */
#define GAIN_LEAST 0.00005 /* % of the step per 1 %: rows below it are omitted */

static void all_absent(struct an_context *context, const char *reason)
{
    struct an_advice *advice = &context->result->advice;
    advice->reason = reason;
    advice->step_ms = advice->base_error_pct = advice->unmatched_pct = advice->think_pct =
        advice->held_pct = advice->stretch_low_pct = advice->stretch_high_pct = an_num_none(reason);
    advice->cores.cores = advice->cores.wanted = advice->cores.used = advice->cores.others =
        advice->cores.short_pct = advice->cores.slowdown_pct = an_num_none(reason);
    context->result->trust.replay_error_pct = an_num_none(reason);
}

/* ---- the replay as it is ------------------------------------------------------------------------------------------------------- */

/* Makes room for the times of the steps that count and for the replayed times. */
static int allocate_state(struct an_context *context, struct an_what_if_state *state)
{
    const struct an_replay *replay = state->replay;
    for (size_t i = 0; i < replay->step_count; i++)
        state->steps += an_replay_counts(&replay->step[i]);
    state->base_ns = an_arena_zero(context->scratch, state->steps + 1, sizeof *state->base_ns);
    state->edited_ns = an_arena_zero(context->scratch, state->steps + 1, sizeof *state->edited_ns);
    return state->base_ns && state->edited_ns ? an_times_new(replay, &state->base) : TACHO_ENOMEM;
}

/* Replays the graph as recorded: the base that every edit is compared with. */
static int replay_recorded(struct an_context *context, struct an_what_if_state *state)
{
    const struct an_replay *replay = state->replay;
    double *block = malloc((replay->step_count + 1) * sizeof *block), sum = 0, recorded = 0;
    size_t count;
    if (!block)
        return TACHO_ENOMEM;
    an_replay_run(replay, NULL, &state->base);
    count = an_replay_counted_ns(replay, &state->base, state->base_ns);
    for (size_t i = 0; i < count; i++)
        sum += state->base_ns[i];
    for (size_t i = 0; i < replay->step_count; i++)
        if (an_replay_counts(&replay->step[i]))
            recorded += (double)an_step_ns(&context->step[replay->step[i].step]);
    state->base_pct = recorded > 0 ? 100 * (sum / recorded - 1) : NAN;
    count = an_replay_blocks(replay, NULL, -1, block);
    state->median_ms = count ? an_quantile_of(block, count, 0.5) / 1e6 : NAN;
    free(block);
    return 0;
}

/* Words for a run that is short of cores: its steps differ by which thread got a core when, which
 * neither the graph nor earlier steps say. NULL: there were enough cores. */
static const char *core_shortage_words(struct an_context *context,
                                       const struct an_core_use *core_use)
{
    if (!an_cores_short(core_use))
        return NULL;
    const char *others =
        core_use->others.valid && core_use->others.value >= 0.05
            ? an_arena_format(context->arena, ", other programs' %s",
                              an_number_words(context->arena, core_use->others.value, 2))
            : "";
    return an_arena_format(
        context->arena,
        "more threads were ready than there are cores for %.0f %% of the time (demand: its own "
        "%s%s; cores: %.0f): scheduling differs from step to step",
        core_use->short_pct.value, an_number_words(context->arena, core_use->wanted.value, 2),
        others, core_use->cores.value);
}

/* Fills how far parts of the run differ from all of it, which may be why the replay misses the run.
 */
static int fill_variation(struct an_context *context, struct an_what_if_state *state)
{
    struct an_advice *advice = &context->result->advice;
    struct an_interval interval;
    size_t length;
    int rc = an_what_if_variation(state, &length, &interval);
    if (rc)
        return rc;
    state->pairs_error = an_what_if_pairs_error(&interval);
    advice->stretch_steps = (int64_t)length;
    bool compared = length < state->steps;
    double most_pct = compared ? 100 * fmax(1 - interval.low, interval.high - 1) : 0;
    struct an_trust *trust = &context->result->trust;
    if (!trust->replay_error_because && trust->replay_error_pct.valid &&
        trust->replay_error_pct.value >= ERROR_TOLD && most_pct >= trust->replay_error_pct.value)
        trust->replay_error_because =
            an_arena_format(context->arena,
                            "the steps vary: %zu in a row differ by up to %.1f %% from the whole "
                            "run, so the medians of odd and even steps differ, too",
                            length, most_pct);
    advice->stretch_low_pct = compared
                                  ? an_num(100 * (interval.low - 1))
                                  : an_num_none("too few steps to compare segments of the run");
    advice->stretch_high_pct =
        compared ? an_num(100 * (interval.high - 1)) : advice->stretch_low_pct;
    return 0;
}

/* Fills in the properties of the replay without edits: its size, its error, untraced host time
 * (think) and waits without a recorded release (held). */
static void fill_advice(struct an_context *context, struct an_what_if_state *state)
{
    struct an_advice *advice = &context->result->advice;
    const struct an_replay *replay = state->replay;
    double time = 0;
    for (size_t i = 0; i < replay->step_count; i++)
        time += (double)an_step_ns(&context->step[replay->step[i].step]);
    bool checked = !isnan(state->error.pct);
    const char *few = "no lane has four consecutive steps with all their ranges: two odd and two "
                      "even ones are needed";
    advice->steps = (int64_t)replay->step_count;
    advice->nodes = (int64_t)replay->node_count;
    advice->step_ms = an_num(state->median_ms);
    advice->base_error_pct = an_num(state->base_pct);
    advice->unmatched_pct = checked ? an_num(state->error.unmatched_pct) : an_num_none(few);
    advice->think_pct = time > 0 ? an_num(100 * (double)replay->think_ns / time)
                                 : an_num_none("the steps take no time");
    advice->held_pct = time > 0 ? an_num(100 * (double)replay->held_ns / time)
                                : an_num_none("the steps take no time");
    advice->cores = state->cores;
    context->result->trust.replay_error_pct =
        checked ? an_num(fabs(state->error.pct)) : an_num_none(few);
    context->result->trust.replay_error_because = core_shortage_words(context, &state->cores);
}

/* ---- sensitivity ---------------------------------------------------------------------------------------------------------------- */

static int row_order(const void *left, const void *right)
{
    const struct an_sensitivity_row *first = left, *second = right;
    return first->gain_pct != second->gain_pct
               ? (first->gain_pct < second->gain_pct) - (first->gain_pct > second->gain_pct)
               : strcmp(first->key, second->key);
}

/* The replayed length of all frames without phases, in ns: from the first step of any rank to the
 * end of the one that ends last. No path is longer, whatever steps in between are excluded. */
static double frames_ns(const struct an_what_if_state *state)
{
    const struct an_replay *replay = state->replay;
    double sum = 0;
    for (size_t f = 0; f < replay->frame_count; f++) {
        const struct an_replay_step *sink = an_replay_sink(replay, f, &state->base);
        const struct an_lane *lane = &replay->context->lane[replay->context->step[sink->step].lane];
        int64_t start = replay->frame[f].start,
                end = an_replay_step_end(replay, sink, &state->base);
        sum += (double)an_time_sub(
            end, an_time_add(start, an_spans_within(lane->cut, lane->cut_count, start, end)));
    }
    return sum;
}

/* Why the sensitivities say nothing: no prediction of the replay does, or its rows, which are
 * disjoint, take more than all of the step, because work that overlaps is on the path as a whole.
 * NULL: they do. */
static const char *no_sensitivities(const struct an_what_if_state *state, const int64_t *row_ns,
                                    double frames_total)
{
    double sum = 0;
    for (size_t i = 0; i < state->rows.count; i++)
        sum += (double)row_ns[i];
    if (state->refusal || sum <= frames_total)
        return state->refusal;
    return an_arena_format(state->replay->context->arena,
                           "operations that overlap make up %.1f %% of the longest path",
                           100 * sum / frames_total);
}

/* Fills the table of sensitivities: by how much the step gains for 1 % less of each row of work. */
static int sensitivities(struct an_context *context, struct an_what_if_state *state)
{
    struct an_advice *advice = &context->result->advice;
    int64_t row_ns[AN_ROWS_MOST] = {0};
    double frames_total = frames_ns(state), step_count = (double)state->replay->step_count;
    struct an_sensitivity_row *rows =
        an_arena_zero(context->arena, state->rows.count + 1, sizeof *rows);
    if (!rows || an_sensitivity(state->replay, &state->base, &state->rows, row_ns))
        return TACHO_ENOMEM;
    advice->no_rows = no_sensitivities(state, row_ns, frames_total);
    for (size_t i = 0; i < state->rows.count && frames_total > 0 && !advice->no_rows; i++) {
        double path = (double)row_ns[i],
               gain = 100 * (frames_total / (frames_total - 0.01 * path) - 1);
        if (!(gain >= GAIN_LEAST))
            continue;
        rows[advice->row_count++] = (struct an_sensitivity_row){
            .key = state->rows.row[i].key,
            .path_ms = path / frames_total * state->median_ms,
            .path_pct = 100 * path / frames_total,
            .gain_pct = gain,
            .work_ms = i == state->rows.dispatch
                           ? an_num_none("latencies are not work of their own")
                           : an_num((double)state->rows.row[i].own_ns / step_count / 1e6)};
    }
    if (advice->row_count)
        qsort(rows, advice->row_count, sizeof *rows, row_order);
    advice->rows = rows;
    return 0;
}

/* The analyzer "replay": builds the state that edits start from, and reports the replay as
 * recorded. */
static int replaying_run(struct an_context *context)
{
    struct an_what_if_state *state = an_arena_zero(context->scratch, 1, sizeof *state);
    const char *why = NULL;
    if (!state)
        return TACHO_ENOMEM;
    int rc = an_replay_of(context, &state->replay, &why);
    if (rc || !state->replay) {
        all_absent(context, why ? why : "nothing to replay");
        return rc;
    }
    if ((rc = allocate_state(context, state)) ||
        (rc = an_replay_odd_even(state->replay, &state->base, &state->error)) ||
        (rc = replay_recorded(context, state)) || (rc = an_rows_of(state->replay, &state->rows)) ||
        (rc = an_shares_of(state->replay, &state->base, &state->shares, &state->cores)))
        return rc;
    if (!(state->median_ms > 0) || isnan(state->base_pct)) {
        all_absent(context, "the replayed steps take no time");
        return 0;
    }
    fill_advice(context, state);
    if ((rc = fill_variation(context, state)))
        return rc;
    state->refusal = an_what_if_refusal(context, state);
    if ((rc = sensitivities(context, state)))
        return rc;
    state->edited = state->base; /* edits replay into the same arrays */
    state->base = (struct an_times){NULL, NULL};
    state->own =
        an_arena_zero(context->scratch, state->replay->graph->node_count, sizeof *state->own);
    context->what_if = state;
    return state->own ? 0 : TACHO_ENOMEM;
}

const struct an_analyzer an_replaying = {
    .name = "replay",
    .help = "replay of the dependency graph: its error, the step's sensitivities",
    .after = "steps, contention, loader, communication, stages, trust",
    .needs = AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
    .run = replaying_run,
    .absent = all_absent,
};

/* ---- advice --------------------------------------------------------------------------------------------------------------------- */

/* Replays what the user asked for. */
static int replay_requested(struct an_context *context)
{
    struct an_advice *advice = &context->result->advice;
    struct an_edit edits[AN_EDITS_MOST];
    struct tacho_error err;
    size_t edit_count;
    int rc = an_edits_parse(context->options->what_if, edits, &edit_count, NULL, &err);
    if (rc)
        return 0; /* the caller has looked at them */
    if (!(advice->edits = an_arena_zero(context->arena, edit_count, sizeof *advice->edits)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < edit_count && !rc; i++, advice->edit_count++)
        rc = an_what_if_of(context, edits[i].text, &advice->edits[i]);
    return rc || edit_count < 2
               ? rc
               : an_what_if_of(context, context->options->what_if, &advice->together);
}

static double gain_of(const struct an_what_if *what_if)
{
    if (what_if->gain.expected.valid)
        return what_if->gain.expected.value;
    return what_if->gain.high.valid ? what_if->gain.high.value : -1;
}

static int gain_order(const void *left, const void *right)
{
    double first = gain_of(left), second = gain_of(right);
    return (first < second) - (first > second);
}

/* Keeps only the bound of a prediction: the edit removes all that the change could remove at best,
 * so no value is expected. */
static void drop_expectation(struct an_what_if *what_if)
{
    const char *why = "the run does not show how much of it the change removes";
    if (what_if->reason || what_if->ceiling)
        return;
    what_if->ceiling = why;
    what_if->step_ms = what_if->step_high_ms = what_if->gain.low = what_if->gain.expected =
        an_num_none(why);
    what_if->gain.ceiling = true;
}

/* Does the finding with that id change the training? */
static bool changes_training(const struct an_context *context, const char *id)
{
    for (size_t i = 0; i < context->result->finding_count; i++)
        if (context->result->findings[i].changes && !strcmp(context->result->findings[i].id, id))
            return true;
    return false;
}

/* Replays the proposals in one, the best one first. A proposal that lowers the joint gain, or that
 * changes the training, stays out of it. *members: the findings whose proposals are in it. */
static int join_proposals(struct an_context *context, const char **members)
{
    struct an_advice *advice = &context->result->advice;
    struct an_what_if *joint = &advice->together, with;
    size_t joined = 0;
    int rc = 0;
    *members = "";
    for (size_t i = 0; i < advice->edit_count && !rc; i++) {
        struct an_what_if *edit = &advice->edits[i];
        if (changes_training(context, edit->of))
            continue;
        const char *text =
            joined ? an_arena_format(context->arena, "%s,%s", joint->edit, edit->edit) : edit->edit;
        rc = an_what_if_of(context, text, &with);
        if (joined && (with.reason || gain_of(&with) < gain_of(joint) - GAIN_EQUAL)) {
            edit->conflicts = *members;
            continue;
        }
        *joint = with;
        *members =
            an_arena_format(context->arena, "%s%s%s", *members, joined++ ? ", " : "", edit->of);
    }
    if (joined < 2)
        joint->edit = NULL;
    return rc;
}

/* What all proposals bring is a ceiling where one of them is, and never below one of them. */
static void bound_joint(const struct an_context *context, struct an_advice *advice)
{
    bool bound = false;
    for (size_t i = 0; i < context->result->finding_count; i++)
        bound = bound ||
                (context->result->findings[i].bound && context->result->findings[i].replay.edit);
    if (bound)
        drop_expectation(&advice->together);
    for (size_t i = 0; i < advice->edit_count; i++)
        if (advice->together.gain.high.valid && advice->edits[i].gain.high.valid)
            advice->together.gain.high.value =
                fmax(advice->together.gain.high.value, advice->edits[i].gain.high.value);
}

/* Lists the findings' proposals as the findings had them replayed, and replays all of them as one.
 */
static int replay_proposed(struct an_context *context)
{
    struct an_advice *advice = &context->result->advice;
    const char *members;
    if (!(advice->edits = an_arena_zero(context->arena, context->result->finding_count + 1,
                                        sizeof *advice->edits)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->result->finding_count; i++)
        if (context->result->findings[i].replay.edit)
            advice->edits[advice->edit_count++] = context->result->findings[i].replay;
    if (advice->edit_count < 2)
        return 0;
    qsort(advice->edits, advice->edit_count, sizeof *advice->edits, gain_order);
    int rc = join_proposals(context, &members);
    if (!rc && advice->together.edit)
        bound_joint(context, advice);
    return rc;
}

static int advising_run(struct an_context *context)
{
    if (context->result->advice.reason)
        return 0;
    return context->options->what_if ? replay_requested(context) : replay_proposed(context);
}

static void advising_absent(struct an_context *context, const char *reason)
{
    (void)context;
    (void)reason; /* "replay" needs the same inputs and has said why */
}

const struct an_analyzer an_advising = {
    .name = "advice",
    .help = "effects of changes of the graph on the step",
    .after = "steps, loader, communication, replay, findings",
    .needs = AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
    .run = advising_run,
    .absent = advising_absent,
};
