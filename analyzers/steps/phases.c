/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation, checkpoints, compilation. A phase on the thread that runs steps is cut out of them,
 * so that the time of a step does not depend on how often the program evaluates; reports show
 * phases as wall time of their own. If a phase of the same kind begins on another thread during
 * the phase of the step's thread and goes on after it (an asynchronous checkpoint), the part on
 * the step's thread is not cut: it is the class io.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/sets.h"
#include "analyzers/base/stats.h"
#include "analyzers/steps/phases.h"

/* Rows of a device repeat annotations of the host and must not be counted as phases again. */
static bool is_host(const struct an_track *track)
{
    return strcmp(track->kind, "stream") != 0;
}

bool an_slice_in_phase(const struct an_trace *trace, size_t slice)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t around = (uint32_t)slice; around != AN_NONE && levels--;
         around = trace->slice.parent[around])
        if (an_role_is_phase(an_slice_role(trace, around)) &&
            an_slice_open_at(trace, around, slice))
            return true;
    return false;
}

/* A phase whose end is known and that is not part of another one of its kind. */
static bool is_phase(const struct an_trace *trace, size_t i, enum an_role role)
{
    if (an_slice_role(trace, i) != role || trace->slice.dur[i] == AN_OPEN)
        return false;
    int levels = AN_DEPTH_MAX;
    for (uint32_t around = trace->slice.parent[i]; around != AN_NONE && levels--;
         around = trace->slice.parent[around])
        if (an_slice_role(trace, around) == role && an_slice_open_at(trace, around, i))
            return false;
    return true;
}

static int list_track(const struct an_trace *trace, uint32_t k, enum an_role role,
                      struct an_span_list *span_list)
{
    const struct an_track *track = &trace->track[k];
    for (size_t i = track->slice_first; is_host(track) && i < an_track_end(track); i++)
        if (is_phase(trace, i, role) &&
            an_span_list_add(span_list, trace->slice.start[i], an_slice_end(trace, i)))
            return TACHO_ENOMEM;
    return 0;
}

/* Does a phase of another thread begin inside the span and go on after it? `other` is sorted by
 * start. */
static bool is_handed_over(const struct an_span_list *other, struct an_span span)
{
    size_t low = 0, high = other->count;
    AN_BISECT(low, high, other->span[middle].start < span.start);
    for (; low < other->count && other->span[low].start <= span.end; low++)
        if (other->span[low].end > span.end)
            return true;
    return false;
}

/* A thread that runs steps has phases of its own, and no other thread has handed one over to it. */
static int lane_phases(struct an_context *context, struct an_lane *lane, enum an_role role,
                       struct an_span_list *cut, struct an_span_list *left)
{
    const struct an_trace *trace = context->trace;
    struct an_span_list own = {0}, other = {0};
    int rc = list_track(trace, lane->track, role, &own);
    AN_EACH_TRACK(trace, lane->process, k)
    if (own.count && !rc && an_lane_of_track(context, k) == AN_NONE)
        rc = list_track(trace, k, role, &other);
    other.count = an_spans_normalize(other.span, other.count);
    for (size_t i = 0; i < own.count && !rc; i++) {
        bool handed = is_handed_over(&other, own.span[i]);
        rc = an_span_list_add(handed ? left : cut, own.span[i].start, own.span[i].end);
    }
    free(own.span);
    free(other.span);
    return rc;
}

/* Moves a list into the context's working memory as a normalised set. */
static int list_keep(struct an_context *context, struct an_span_list *list, struct an_span **span,
                     size_t *count)
{
    struct an_set set;
    int rc = an_span_list_keep(list, context->scratch, &set);
    *span = set.span;
    *count = set.count;
    return rc;
}

/* ---- phases on a device ---------------------------------------------------------------------------------------------------- */

/* Latest end of the ops of device d whose launch is at places [from, to) of by_launch, at least
 * `least`. */
static int64_t last_end(const struct an_context *context, size_t from, size_t to, int64_t least)
{
    for (size_t i = from; i < to; i++) {
        int64_t end = context->gpu->op.end[context->gpu->by_launch[i]];
        least = end > least ? end : least;
    }
    return least;
}

/* Replaces the host's phases by what the device saw of them: from the end of the ops that were
 * launched before the phase to the end of the phase or of the ops that were launched in it,
 * whichever is later. A phase that the device spent on earlier ops leaves nothing. */
static int project_on_device(struct an_context *context, struct an_lane *lane)
{
    const struct an_device *device = &context->gpu->device[lane->device];
    int64_t before = INT64_MIN;
    size_t done = device->first, count = 0;
    struct an_span *cut = an_arena_zero(context->scratch, lane->cut_count, sizeof *cut);
    if (!cut)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < lane->cut_count; i++) {
        size_t from = an_device_launch_seek(context->gpu, lane->device, lane->cut[i].start);
        size_t until = an_device_launch_seek(context->gpu, lane->device, lane->cut[i].end);
        before = last_end(context, done, from, before);
        int64_t start = before > lane->cut[i].start ? before : lane->cut[i].start;
        int64_t end = last_end(context, from, until, lane->cut[i].end);
        before = end > before && until > from ? end : before;
        done = until;
        if (end > start)
            cut[count++] = (struct an_span){start, end};
    }
    lane->cut = cut;
    lane->cut_count = an_spans_normalize(cut, count);
    return 0;
}

/* Does anything in the run have the role? */
static bool has_role(const struct an_trace *trace, enum an_role role)
{
    for (size_t i = 0; i < trace->detail_count; i++)
        if (trace->detail[i].role == role)
            return true;
    for (size_t i = 0; trace->name_role && i < trace->string_count; i++)
        if (trace->name_role[i] == role)
            return true;
    return false;
}

int an_phases_cut(struct an_context *context)
{
    static const enum an_role roles[] = {AN_ROLE_EVALUATION, AN_ROLE_CHECKPOINT, AN_ROLE_COMPILE};
    int rc = 0;
    for (size_t k = 0; k < context->lane_count && !rc; k++) {
        struct an_lane *lane = &context->lane[k];
        struct an_span_list cut = {0}, left = {0};
        for (size_t i = 0; i < sizeof roles / sizeof *roles && lane->track != AN_NONE && !rc; i++)
            if (has_role(context->trace, roles[i]))
                rc = lane_phases(context, lane, roles[i], &cut, &left);
        if (!rc)
            rc = list_keep(context, &cut, &lane->cut, &lane->cut_count);
        if (!rc)
            rc = list_keep(context, &left, &lane->left, &lane->left_count);
        if (!rc && lane->device != AN_NONE)
            rc = project_on_device(context, lane);
        free(cut.span);
        free(left.span);
        for (size_t i = lane->first; i < an_lane_end(lane) && !rc; i++)
            if (context->step[i].end != STORE_ABSENT)
                context->step[i].cut_ns =
                    an_set_within(an_lane_cut(lane), context->step[i].start, context->step[i].end);
    }
    return rc;
}

/* ---- the rows ----------------------------------------------------------------------------------------------------------- */

/* Does what begins at `start` go on with what began at `before`? An evaluation has a range for each
 * of its batches and a checkpoint one for each of its files: where no step begins or ends between
 * them they are one. Each compilation is one of its own. NULL: of a thread without steps. */
static bool goes_on(const struct an_context *context, const struct an_lane *lane, enum an_role role,
                    int64_t before, int64_t start)
{
    if (!lane || role == AN_ROLE_COMPILE || before == STORE_ABSENT)
        return false;
    size_t low = lane->first, high = an_lane_end(lane);
    AN_BISECT(low, high, context->step[middle].host_start <= before);
    if (low < an_lane_end(lane) && context->step[low].host_start <= start)
        return false;
    const struct an_step *around = low > lane->first ? &context->step[low - 1] : NULL;
    return !around || around->host_end == STORE_ABSENT || around->host_end <= before ||
           around->host_end > start;
}

/* Outermost ranges of a role on a track, those without an end included: how often the phase began.
 */
static int64_t track_starts(const struct an_context *context, uint32_t k, enum an_role role)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[k];
    uint32_t own = an_lane_of_track(context, k);
    const struct an_lane *lane = own == AN_NONE ? NULL : &context->lane[own];
    int64_t count = 0, before = STORE_ABSENT;
    for (size_t i = track->slice_first; is_host(track) && i < an_track_end(track); i++) {
        if (an_slice_role(trace, i) != role)
            continue;
        int levels = AN_DEPTH_MAX;
        uint32_t around = trace->slice.parent[i];
        while (around != AN_NONE && levels-- &&
               !(an_slice_role(trace, around) == role && an_slice_open_at(trace, around, i)))
            around = trace->slice.parent[around];
        if (around != AN_NONE)
            continue;
        count += !goes_on(context, lane, role, before, trace->slice.start[i]);
        before = trace->slice.start[i];
    }
    return count;
}

static int64_t phase_starts(const struct an_context *context, enum an_role role)
{
    int64_t count = 0;
    for (uint32_t k = 0; k < context->trace->track_count; k++)
        count += track_starts(context, k, role);
    return count;
}

/* The time from the first step or phase of a lane to the last one's end, ms. */
static double run_ms(const struct an_context *context, const struct an_lane *lane,
                     const struct an_span_list *own)
{
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (size_t i = 0; i < own->count; i++) {
        start = own->span[i].start < start ? own->span[i].start : start;
        end = own->span[i].end > end ? own->span[i].end : end;
    }
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        const struct an_step *step = &context->step[i];
        start = step->host_start < start ? step->host_start : start;
        if (step->host_end != STORE_ABSENT)
            end = step->host_end > end ? step->host_end : end;
    }
    return (double)an_time_sub(end, start) / 1e6;
}

/* The place of the step of a lane that has begun last at a time; those of the lane begin at 0. */
static size_t step_at(const struct an_context *context, const struct an_lane *lane, int64_t time)
{
    size_t low = lane->first, high = an_lane_end(lane);
    AN_BISECT(low, high, context->step[middle].host_start <= time);
    return low > lane->first ? low - 1 - lane->first : 0;
}

/* Adds up the phases of a lane, each with all of its ranges; `at`: the place of the step of each,
 * `ns`: its time. */
static struct an_tally tally_phases(const struct an_context *context, const struct an_lane *lane,
                                    enum an_role role, const struct an_span_list *own, double *at,
                                    double *ns)
{
    struct an_tally tally = {0};
    int64_t sum = 0;
    for (size_t i = 0; i < own->count; i++) {
        sum = an_time_add(sum, an_time_sub(own->span[i].end, own->span[i].start));
        if (i + 1 < own->count &&
            goes_on(context, lane, role, own->span[i].start, own->span[i + 1].start))
            continue;
        at[tally.count] = (double)step_at(context, lane, own->span[i].start);
        ns[tally.count] = (double)sum;
        an_tally_add(&tally, sum);
        sum = 0;
    }
    return tally;
}

/* Phases that come every so many steps and would have come in steps in which recording paused to
 * measure what it costs. */
static int64_t count_unseen(const struct an_context *context, const struct an_lane *lane,
                            const double *at, int64_t count, double *work)
{
    int64_t unseen = 0;
    if (count < 3)
        return 0;
    for (int64_t i = 0; i + 1 < count; i++)
        work[i] = at[i + 1] - at[i];
    double every = an_quantile_of(work, (size_t)count - 1, 0.5);
    for (int64_t i = 0; every >= 1 && i < count; i++) {
        double until = i + 1 < count ? at[i + 1] : (double)lane->count;
        double next;
        for (int64_t k = 1; (next = at[i] + (double)k * every) < until - every / 2; k++)
            unseen += context->step[lane->first + (size_t)next].paused;
    }
    return unseen;
}

/* What a phase costs a lane, if that is more than what it costs another one. */
static int cost_of_lane(const struct an_context *context, const struct an_lane *lane,
                        enum an_role role, struct an_phase *phase)
{
    struct an_span_list own = {0};
    int rc = list_track(context->trace, lane->track, role, &own);
    double *at = calloc(4 * own.count + 1, sizeof *at);
    if (!rc && at && own.count) {
        double *ns = at + own.count, *room = ns + own.count;
        struct an_tally tally = tally_phases(context, lane, role, &own, at, ns);
        size_t seen = (size_t)tally.count;
        struct an_interval segments;
        an_segments_interval(ns, seen, an_segment_length(seen), false, an_mean(ns, seen), room,
                             &segments);
        int64_t count = tally.count + count_unseen(context, lane, at, tally.count, room);
        double ms = (double)tally.sum / 1e6 * (double)count / (double)tally.count;
        if (ms > phase->lane_ms) {
            phase->lane_ms = ms;
            phase->lane_count = count;
            phase->lane_sd_ms = an_tally_sd(&tally) / 1e6;
            phase->lane_segment_low = segments.low;
            phase->lane_segment_high = segments.high;
            phase->lane_run_ms = run_ms(context, lane, &own);
        }
    }
    rc = rc || at ? rc : TACHO_ENOMEM;
    free(at);
    free(own.span);
    return rc;
}

/* What a phase costs the lane that waits longest for it. */
static int lane_cost(const struct an_context *context, enum an_role role, struct an_phase *phase)
{
    int rc = 0;
    phase->lane_sd_ms = NAN;
    phase->lane_segment_low = phase->lane_segment_high = 1;
    for (size_t k = 0; k < context->lane_count && !rc; k++)
        if (context->lane[k].track != AN_NONE)
            rc = cost_of_lane(context, &context->lane[k], role, phase);
    return rc;
}

/* Sums each kind of phase: how often it began, its wall time on all threads, and the part of it on
 * threads that run steps. */
static int phases_run(struct an_context *context)
{
    static const struct {
        enum an_role role;
        const char *name;
    } kinds[] = {{AN_ROLE_EVALUATION, "evaluation"},
                 {AN_ROLE_CHECKPOINT, "checkpoint"},
                 {AN_ROLE_COMPILE, "compile"}};
    const struct an_trace *trace = context->trace;
    struct an_phase *rows = an_arena_zero(context->arena, 3, sizeof *rows);
    int rc = rows ? 0 : TACHO_ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < 3 && !rc; i++) {
        struct an_span_list wall = {0}, exposed = {0};
        int64_t starts = has_role(trace, kinds[i].role) ? phase_starts(context, kinds[i].role) : 0;
        for (uint32_t k = 0; k < trace->track_count && starts && !rc; k++) {
            rc = list_track(trace, k, kinds[i].role, &wall);
            if (!rc && an_lane_of_track(context, k) != AN_NONE)
                rc = list_track(trace, k, kinds[i].role, &exposed);
        }
        if (starts && !rc) {
            rows[count] = (struct an_phase){
                .name = kinds[i].name,
                .count = starts,
                .wall_ms = (double)an_set_measure(an_span_list_set(&wall)) / 1e6,
                .exposed_ms = (double)an_set_measure(an_span_list_set(&exposed)) / 1e6};
            rc = lane_cost(context, kinds[i].role, &rows[count++]);
        }
        free(wall.span);
        free(exposed.span);
    }
    context->result->phases = rows;
    context->result->phase_count = count;
    return rc;
}

static void phases_absent(struct an_context *context, const char *reason)
{
    (void)reason; /* no phases is an empty list */
    context->result->phase_count = 0;
}

const struct an_analyzer an_phases = {
    .name = "phases",
    .help = "evaluation, checkpoints, compilation: wall time and the wait of the steps",
    .after = "steps",
    .needs = AN_INPUT_SLICES,
    .run = phases_run,
    .absent = phases_absent,
};
