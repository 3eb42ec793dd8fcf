/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps: which ones count, how long they last, how fast the run is. First, last and compiling steps
 * are left out of statistics and listed; slow ones are kept and listed, because a stall is what the
 * reader looks for.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/steps/command.h"
#include "analyzers/steps/phases.h"
#include "analyzers/steps/recorder.h"
#include "analyzers/steps/step_private.h"

#define LAST_LEAST    4   /* with fewer complete steps the last one counts */
#define CUT_PART      10  /* of the host's step: so much less is a step that was cut short */
#define OUTLIER_SCORE 3.5 /* modified z-score, Iglewicz & Hoaglin 1993 */
#define OUTLIERS_MOST 50
#define GROUPS_MOST   8

/* ---- which steps count -------------------------------------------------------------------------------------------------- */

static bool step_compiles(const struct an_context *context, const struct an_lane *lane,
                          const struct an_step *step)
{
    const struct an_trace *trace = context->trace;
    if (lane->track == AN_NONE)
        return false;
    const struct an_track *track = &trace->track[lane->track];
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < an_track_end(track) && trace->slice.start[i] < step->host_end; i++)
        if (an_slice_role(trace, i) == AN_ROLE_COMPILE)
            return true;
    return false;
}

static const char not_asked[] = "not asked for";

/* --steps: the user decides which steps count; the first and the last are not excluded then. */
static void keep_asked(struct an_context *context, const struct an_lane *lane)
{
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        struct an_step *step = &context->step[i];
        if (!step->excluded &&
            (step->index < context->options->step_from || step->index > context->options->step_to))
            step->excluded = not_asked;
    }
    context->result->steps.note = "only the steps selected by --steps";
}

/* Is the last step of a device shorter than it was? It ends with its last op, because the file has
 * no next one; where the device then idles for part of the host's step, that idle time is missing.
 */
static bool is_cut_short(const struct an_lane *lane, const struct an_step *last)
{
    int64_t host_ns = an_time_sub(last->host_end, last->host_start);
    return lane->device != AN_NONE &&
           an_time_sub(last->end, last->start) < host_ns - host_ns / CUT_PART;
}

/* Notes which of the few complete steps count. */
static void note_few(struct an_context *context, size_t complete, bool cut)
{
    if (cut)
        context->result->steps.note = an_arena_format(
            context->arena,
            "only %zu complete steps were captured: the first is counted too; the last is not, "
            "because the file does not say how long the device idles after it",
            complete);
    else
        context->result->steps.note = an_arena_format(
            context->arena, "only %zu complete %s captured: the first and the last are counted too",
            complete, complete == 1 ? "step was" : "steps were");
}

/* Excludes the first and the last of the complete steps of a lane. A capture of another tool is a
 * window of a longer run: if it has few steps, all of them count. */
static void exclude_ends(struct an_context *context, const struct an_lane *lane,
                         struct an_step *first, struct an_step *last, size_t complete)
{
    if (an_trace_key(context->trace, "steps.chosen"))
        return; /* the importer of a timeline found only steps that others chose */
    bool window = lane->device != AN_NONE || an_trace_imported(context->trace);
    bool cut = complete > 1 && is_cut_short(lane, last);
    if (window && complete && complete < LAST_LEAST)
        note_few(context, complete, cut);
    if (complete >= LAST_LEAST || cut)
        last->excluded = "last";
    if (complete > 1 && (!window || complete >= LAST_LEAST))
        first->excluded = "first";
}

/* Marks the steps of a lane that are excluded from the statistics: without an end, overlapping,
 * compiling, first and last. A capture of another tool is a window of a longer run; it has few
 * steps, and neither its first nor its last is special. */
static void exclude_steps(struct an_context *context, const struct an_lane *lane)
{
    size_t complete = 0;
    struct an_step *first = NULL, *last = NULL;
    int64_t until = INT64_MIN;
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        struct an_step *step = &context->step[i];
        if (step->end == STORE_ABSENT) {
            step->excluded = step->excluded ? step->excluded : "no end";
            continue;
        }
        /* Two steps at once on a thread: one of them is wrong, and their time would count twice. */
        if (step->start < until) {
            step->excluded = "overlap";
            continue;
        }
        until = step->end;
        first = first ? first : step;
        last = step;
        complete++;
        if (step_compiles(context, lane, step))
            step->excluded = "compile";
    }
    if (context->options->some_steps) {
        keep_asked(context, lane);
        return;
    }
    exclude_ends(context, lane, first, last, complete);
}

/* ---- which steps have all their parts in the file ------------------------------------------------------------------------ */

struct index_entry {
    uint32_t process;
    int64_t index;
    size_t step;
    int64_t calls; /* ranges of the step on its lane's track in the aggregates */
    /* Another step of the process has this index: the aggregates cannot be distinguished. */
    bool twice;
    bool merged; /* its aggregates are those of several steps: none of them has its parts */
};

static int index_order(const void *first, const void *second, void *ctx)
{
    (void)ctx;
    const struct index_entry *left = first, *right = second;
    return 4 * AN_COMPARE(left->process, right->process) +
           2 * AN_COMPARE(left->index, right->index) + AN_COMPARE(left->step, right->step);
}

static struct index_entry *index_find(struct index_entry *all, size_t count, uint32_t process,
                                      int64_t index)
{
    size_t low = 0, high = count;
    AN_BISECT(low, high,
              all[middle].process < process ||
                  (all[middle].process == process && all[middle].index < index));
    return low < count && all[low].process == process && all[low].index == index ? &all[low] : NULL;
}

/* Marks the steps of a row that covers several. Such rows come in any number for the same steps, so
 * those that are marked already end the search. */
static void mark_merged(struct index_entry *all, size_t count, uint32_t process, int64_t step,
                        int64_t steps)
{
    size_t low = 0, high = count;
    AN_BISECT(low, high,
              all[middle].process < process ||
                  (all[middle].process == process && all[middle].index < step));
    for (; low < count && all[low].process == process && all[low].index - step < steps; low++)
        all[low].merged = true;
}

static void count_aggregates(const struct an_context *context, struct index_entry *all,
                             size_t count)
{
    const struct an_aggregates *aggregates = &context->trace->aggregate;
    struct index_entry *index_entry = NULL;
    for (size_t i = 0; i < aggregates->count; i++) {
        if (aggregates->steps[i] > 1) {
            mark_merged(all, count, aggregates->process[i], aggregates->step[i],
                        aggregates->steps[i]);
            continue;
        }
        if (!index_entry || index_entry->process != aggregates->process[i] ||
            index_entry->index != aggregates->step[i])
            index_entry = index_find(all, count, aggregates->process[i], aggregates->step[i]);
        if (index_entry &&
            context->lane[context->step[index_entry->step].lane].track == aggregates->track[i])
            index_entry->calls = an_time_add(index_entry->calls, aggregates->calls[i]);
    }
}

static size_t slices_in(const struct an_trace *trace, uint32_t track, int64_t start, int64_t end)
{
    const struct an_track *thread = &trace->track[track];
    return an_slice_seek(trace, thread, end) - an_slice_seek(trace, thread, start);
}

/* Limits leave out whole steps, so a few ranges more in the aggregates are not a cut: a range
 * counts there in the step it ends in. */
static bool has_parts(int64_t slices, int64_t calls)
{
    if (slices <= 1)
        return calls <= 1;
    return slices >= calls - 2;
}

/* Finds the steps whose ranges are all in the file, by comparing their number with the aggregates,
 * which are kept for the whole run. */
static int find_detailed(struct an_context *context, bool marked)
{
    struct index_entry *all = malloc((context->step_count ? context->step_count : 1) * sizeof *all);
    if (!all)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        all[i] = (struct index_entry){.process = context->lane[context->step[i].lane].process,
                                      .index = context->step[i].index,
                                      .step = i};
    an_order(all, context->step_count, sizeof *all, index_order, NULL);
    for (size_t i = 1; i < context->step_count; i++)
        if (all[i].process == all[i - 1].process && all[i].index == all[i - 1].index)
            all[i].twice = all[i - 1].twice = true;
    if (marked)
        count_aggregates(context, all, context->step_count);
    for (size_t i = 0; i < context->step_count; i++) {
        struct an_step *step = &context->step[all[i].step];
        uint32_t track = context->lane[step->lane].track;
        if (context->lane[step->lane].device != AN_NONE && track == AN_NONE)
            step->detailed =
                step->end != STORE_ABSENT; /* the host was not recorded: the device decides alone */
        if (step->paused || track == AN_NONE || step->end == STORE_ABSENT ||
            step->host_end == STORE_ABSENT || (marked && step->slice == AN_NONE) || all[i].merged)
            continue;
        step->detailed =
            all[i].twice ||
            has_parts((int64_t)slices_in(context->trace, track, step->host_start, step->host_end),
                      all[i].calls);
    }
    free(all);
    return 0;
}

/* ---- statistics --------------------------------------------------------------------------------------------------------- */

static double step_ms(const struct an_step *step)
{
    return (double)an_step_ns(step) / 1e6;
}

static int list_excluded(struct an_context *context)
{
    struct an_steps *steps = &context->result->steps;
    size_t count = 0;
    for (size_t i = 0; i < context->step_count; i++)
        count += context->step[i].excluded && context->step[i].excluded != not_asked;
    struct an_step_exclusion *step_exclusion =
        an_arena_zero(context->arena, count, sizeof *step_exclusion);
    if (!step_exclusion)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (step->excluded && step->excluded != not_asked)
            step_exclusion[steps->excluded_count++] =
                (struct an_step_exclusion){.rank = context->lane[step->lane].rank,
                                           .index = step->index,
                                           .ms = step->end == STORE_ABSENT ? NAN : step_ms(step),
                                           .reason = step->excluded};
    }
    steps->excluded = step_exclusion;
    return 0;
}

static int outlier_order(const void *first, const void *second)
{
    double left = ((const struct an_step_outlier *)first)->ms,
           right = ((const struct an_step_outlier *)second)->ms;
    return AN_COMPARE(right, left);
}

/* Slow steps: a fast one needs no explanation. */
static int list_outliers(struct an_context *context, double median, double mad)
{
    struct an_steps *steps = &context->result->steps;
    struct an_step_outlier *step_outlier =
        an_arena_zero(context->scratch, (size_t)steps->counted, sizeof *step_outlier);
    size_t count = 0;
    if (!step_outlier)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count && mad > 0; i++) {
        const struct an_step *step = &context->step[i];
        double score = an_step_counted(step) ? 0.6745 * (step_ms(step) - median) / mad : 0;
        if (score > OUTLIER_SCORE)
            step_outlier[count++] = (struct an_step_outlier){.rank = context->lane[step->lane].rank,
                                                             .index = step->index,
                                                             .ms = step_ms(step),
                                                             .score = score};
    }
    if (count)
        qsort(step_outlier, count, sizeof *step_outlier, outlier_order);
    steps->outlier_count = count < OUTLIERS_MOST ? count : OUTLIERS_MOST;
    steps->outliers =
        an_arena_copy(context->arena, step_outlier, steps->outlier_count * sizeof *step_outlier);
    return steps->outliers ? 0 : TACHO_ENOMEM;
}

/* Median of the host's steps; where no device decides, that of the steps. `times` has room for
 * `count`. */
static struct an_value host_median(const struct an_context *context, double *times, size_t count)
{
    size_t known = 0;
    if (!context->gpu)
        return context->result->steps.median_ms;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_counted(step))
            continue;
        if (context->lane[step->lane].device == AN_NONE)
            times[known++] = step_ms(step);
        else if (step->host_end != STORE_ABSENT)
            times[known++] = (double)an_time_sub(step->host_end, step->host_start) / 1e6;
    }
    an_sort(times, known);
    return known == count ? an_num(an_quantile(times, known, 0.5))
                          : an_num_none("a step of the host has no end");
}

static int fill_durations(struct an_context *context)
{
    struct an_steps *steps = &context->result->steps;
    size_t count = 0;
    double *times = an_arena_zero(context->scratch, (size_t)steps->counted, 2 * sizeof *times);
    if (!times)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        if (an_step_counted(&context->step[i]))
            times[count++] = step_ms(&context->step[i]);
    an_sort(times, count);
    double median = an_quantile(times, count, 0.5), sd = an_sd(times, count);
    steps->median_ms = an_num(median);
    steps->mean_ms = an_num(an_mean(times, count));
    steps->p95_ms = an_num(an_quantile(times, count, 0.95));
    steps->min_ms = an_num(times[0]);
    steps->max_ms = an_num(times[count - 1]);
    steps->sd_ms = isnan(sd) ? an_num_none("one step has no spread") : an_num(sd);
    steps->host_median_ms = host_median(context, times + count, count);
    return list_outliers(context, median, an_mad(times, count, median, times + count));
}

/* Why the steps have no rate. */
static const char *no_rate(struct an_context *context, const char *what, int64_t unknown,
                           int64_t steps, double sum)
{
    if (unknown == steps || sum <= 0)
        return an_arena_format(context->arena, "the steps do not declare their %s", what);
    return an_arena_format(context->arena,
                           "%" PRId64 " of %" PRId64 " steps do not declare their %s", unknown,
                           steps, what);
}

/* Tokens or samples a second: the ratio of sums of each lane, added over the lanes, because ranks
 * work side by side. */
static void fill_rates(struct an_context *context, bool tokens, struct an_value *per_s,
                       struct an_value *per_step)
{
    double rate = 0, sum = 0;
    int64_t steps = 0, unknown = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        const struct an_lane *lane = &context->lane[i];
        double lane_sum = 0, lane_ns = 0;
        for (size_t j = lane->first; j < an_lane_end(lane); j++) {
            const struct an_step *step = &context->step[j];
            int64_t amount = tokens ? step->tokens : step->samples;
            if (!an_step_counted(step))
                continue;
            steps++;
            if (amount == STORE_ABSENT) {
                unknown++;
                continue;
            }
            lane_sum += (double)amount;
            lane_ns += (double)an_step_ns(step);
        }
        sum += lane_sum;
        rate += lane_ns > 0 ? lane_sum / lane_ns * 1e9 : 0;
    }
    if (unknown || !steps || sum <= 0) {
        *per_s = *per_step =
            an_num_none(no_rate(context, tokens ? "tokens" : "samples", unknown, steps, sum));
        return;
    }
    *per_s = an_num(rate);
    *per_step = an_num(sum / (double)steps);
}

/* Mean time between a step and the next, without phases: logging, learning-rate schedules, the
 * loop itself. */
static struct an_value time_between(const struct an_context *context)
{
    double sum = 0;
    int64_t gaps = 0;
    for (size_t i = 1; i < context->step_count; i++) {
        const struct an_step *before = &context->step[i - 1], *after = &context->step[i];
        const struct an_lane *lane = &context->lane[before->lane];
        if (before->lane != after->lane || before->end == STORE_ABSENT ||
            after->start < before->end)
            continue;
        sum += (double)an_time_sub(
            an_time_sub(after->start, before->end),
            an_spans_within(lane->cut, lane->cut_count, before->end, after->start));
        gaps++;
    }
    return gaps ? an_num(sum / (double)gaps / 1e6) : an_num_none("no two steps follow each other");
}

static int tokens_order(const void *first, const void *second)
{
    const struct an_step *const *left = first, *const *right = second;
    return 2 * AN_COMPARE((*left)->tokens, (*right)->tokens) +
           AN_COMPARE(an_step_ns(*left), an_step_ns(*right));
}

static int group_order(const void *first, const void *second)
{
    const struct an_step_group *left = first, *right = second;
    return AN_COMPARE(right->count, left->count);
}

/* A group of the steps sorted[first .. end), which have the same number of tokens. */
static struct an_step_group group_of(const struct an_step *const *sorted, size_t first, size_t end)
{
    size_t low = first + (end - first - 1) / 2, high = first + (end - first) / 2;
    int64_t tokens = sorted[first]->tokens;
    return (struct an_step_group){
        .tokens = tokens == STORE_ABSENT ? an_int_none("not declared by the step") : an_int(tokens),
        .count = (int64_t)(end - first),
        .median_ms = (step_ms(sorted[low]) + step_ms(sorted[high])) / 2};
}

/* Groups the steps by their number of tokens. They are sorted by tokens and time, so the median of
 * each group is in its middle. */
static int group_by_tokens(struct an_context *context)
{
    struct an_steps *steps = &context->result->steps;
    size_t count = 0, made = 0, like_first = 0;
    const struct an_step **sorted =
        an_arena_zero(context->scratch, (size_t)steps->counted, sizeof *sorted);
    struct an_step_group *step_group =
        an_arena_zero(context->scratch, (size_t)steps->counted, sizeof *step_group);
    if (!sorted || !step_group)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        if (an_step_counted(&context->step[i]))
            sorted[count++] = &context->step[i];
    while (like_first < count && sorted[like_first]->tokens == sorted[0]->tokens)
        like_first++;
    if (like_first == count)
        return 0; /* one group, which is all steps */
    qsort(sorted, count, sizeof *sorted, tokens_order);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && sorted[next]->tokens == sorted[i]->tokens;)
            next++;
        step_group[made++] = group_of(sorted, i, next);
    }
    if (made < 2)
        return 0;
    qsort(step_group, made, sizeof *step_group, group_order);
    steps->group_count = made < GROUPS_MOST ? made : GROUPS_MOST;
    steps->groups =
        an_arena_copy(context->arena, step_group, steps->group_count * sizeof *step_group);
    return steps->groups ? 0 : TACHO_ENOMEM;
}

static void values_absent(struct an_context *context, const char *reason)
{
    struct an_steps *steps = &context->result->steps;
    struct an_value *all[] = {
        &steps->median_ms,       &steps->mean_ms,          &steps->p95_ms,
        &steps->min_ms,          &steps->max_ms,           &steps->sd_ms,
        &steps->host_median_ms,  &steps->tokens_per_s,     &steps->samples_per_s,
        &steps->tokens_per_step, &steps->samples_per_step, &steps->between_ms};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_num_none(reason);
}

/* Why there are no steps, and what the user can do about it. */
static const char *why_none(const struct an_context *context)
{
    const char *marker = an_step_marker(context);
    if (marker)
        return an_arena_format(context->arena,
                               "--step-marker %.200s matches no range of a thread and no kernel: "
                               "'tacho report' without it shows names",
                               marker);
    if (context->trace->slice.count && an_trace_imported(context->trace))
        return an_arena_format(
            context->arena,
            "the trace marks no steps, and its kernels show no optimizer: %s, or name what marks a "
            "step: --step-marker REGEX",
            an_say(context, AN_SAY_STEPS,
                   "record with torch.profiler and call its step(), or mark each update "
                   "with an NVTX range named step"));
    const char *advice = an_command_step_advice(context);
    if (!context->trace->slice.count)
        return an_arena_format(context->arena, "the program emitted no ranges: %s", advice);
    return an_arena_format(context->arena, "no steps were marked; %zu ranges were recorded: %s",
                           context->trace->slice.count, advice);
}

/* Adds a lane with so many counted steps. */
static void count_lane(struct an_steps *steps, int64_t counted)
{
    if (!counted)
        return;
    steps->of_a_lane = !steps->lanes || steps->of_a_lane == counted ? counted : 0;
    steps->lanes++;
}

/* Counts the steps and finds the first and the last that count. */
static void count_steps(struct an_context *context)
{
    struct an_steps *steps = &context->result->steps;
    int64_t before = 0; /* counted steps of earlier lanes; steps are sorted by lane */
    steps->first_index = steps->last_index = -1;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (i && step->lane != step[-1].lane) {
            count_lane(steps, steps->counted - before);
            before = steps->counted;
        }
        steps->count += step->end != STORE_ABSENT;
        steps->counted += an_step_counted(step);
        steps->paused += an_step_counted(step) && step->paused;
        steps->detailed += an_step_detailed(step);
        steps->micro_steps = an_time_max(steps->micro_steps, step->micro_steps);
        if (!an_step_counted(step))
            continue;
        if (steps->first_index < 0 || step->index < steps->first_index)
            steps->first_index = step->index;
        steps->last_index = an_time_max(steps->last_index, step->index);
    }
    count_lane(steps, steps->counted - before);
    if (!steps->micro_steps && context->lane_count)
        steps->micro_steps = an_hooked_micro_steps(context->trace);
}

/* Finds the steps, decides which ones count, cuts phases out of them, and fills the
 * statistics. */
static int steps_run(struct an_context *context)
{
    struct an_steps *steps = &context->result->steps;
    const char *source = NULL;
    int rc = an_steps_find(context, &source);
    if (rc)
        return rc;
    steps->source = source;
    if (!context->step_count) {
        steps->reason = why_none(context);
        values_absent(context, steps->reason);
        return 0;
    }
    for (size_t k = 0; k < context->lane_count; k++)
        exclude_steps(context, &context->lane[k]);
    if ((rc = an_phases_cut(context)) ||
        (rc = find_detailed(context, context->trace->step_count > 0)))
        return rc;
    an_hooked_amounts(context);
    count_steps(context);
    if ((rc = list_excluded(context)))
        return rc;
    if (!steps->counted) {
        values_absent(context, "no step is complete");
        return 0;
    }
    fill_rates(context, true, &steps->tokens_per_s, &steps->tokens_per_step);
    fill_rates(context, false, &steps->samples_per_s, &steps->samples_per_step);
    steps->between_ms = time_between(context);
    rc = fill_durations(context);
    return rc ? rc : group_by_tokens(context);
}

static void steps_absent(struct an_context *context, const char *reason)
{
    values_absent(context, reason);
    context->result->steps.reason = reason;
}

const struct an_analyzer an_steps = {
    .name = "steps",
    .help = "the steps, their durations, tokens and samples a second",
    .run = steps_run,
    .absent = steps_absent,
};
