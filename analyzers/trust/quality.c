/* SPDX-License-Identifier: Apache-2.0
 *
 * The quality of the capture of an accelerator: launches without a device op and the other way
 * round, ops without a usable time, kernels of unknown class, steps that lack device work, a late
 * start of the device's recording, and signs that recording changed what it measured. Profilers
 * drop such events silently; here each kind is counted over the whole capture.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/steps/context.h"
#include "analyzers/steps/recorder.h"

#define SIGNS        8
#define OVERHEAD_PCT 1.0 /* of the steps, from which on it is worth a sentence */
/* The host limits the device with this share of kernels shorter than their launch call, and a
 * shorter mean queue than this. */
#define SHORT_PCT   50.0
#define QUEUE_SHORT 2.0
/* From the first launch to the first op: the device was not idle, but not recorded. */
#define GAP_NS 1000000

struct survey {
    int64_t overhead_ns, python, overhead_rows; /* rows of the trace by category */
    int64_t kernels_lost;
    int64_t early;                /* of them before the first device op whose launch is known */
    int64_t first_call, first_op; /* STORE_ABSENT: none */
    uint8_t *cut;                 /* of each step: launched kernels that have no op */
    struct an_span *overhead;
    size_t overhead_count, overhead_room;
};

/* Index of the host step of a process that contains `time`, step_count without one. */
static size_t host_step_at(const struct an_context *context, uint32_t process, int64_t time)
{
    for (size_t i = 0; i < context->lane_count; i++) {
        const struct an_lane *lane = &context->lane[i];
        const struct an_step *step =
            lane->process == process ? an_step_at_host(context, lane, time) : NULL;
        if (step)
            return (size_t)(step - context->step);
    }
    return context->step_count;
}

/* Counts a launch without a device op, and marks its step. A call inside a call is part of it, and
 * one that was captured runs with its graph. */
static void lost_launch(const struct an_context *context, struct survey *survey, size_t i,
                        uint32_t process)
{
    enum an_api_kind kind = an_slice_api(context->trace, i).kind;
    uint32_t parent = context->trace->slice.parent[i];
    int64_t start = context->trace->slice.start[i];

    if ((kind != AN_API_KERNEL && kind != AN_API_GRAPH) ||
        (parent != AN_NONE && an_category_is_call(an_slice_category(context->trace, parent))) ||
        an_device_captured(context->gpu, process, start))
        return;
    survey->kernels_lost++;
    survey->early += survey->first_op != STORE_ABSENT && start < survey->first_op;
    size_t step = host_step_at(context, process, start);
    if (step < context->step_count)
        survey->cut[step] = 1;
}

/* What a category says of its rows. */
enum rows { ROWS_OTHER = 1, ROWS_CALL, ROWS_OVERHEAD, ROWS_PYTHON };

static enum rows rows_of(const char *category)
{
    if (an_category_is_call(category))
        return ROWS_CALL;
    if (!strcmp(category, "overhead"))
        return ROWS_OVERHEAD;
    return strcmp(category, "python") ? ROWS_OTHER : ROWS_PYTHON;
}

/* Collects a row of the profiler's own work for its sum and for its share of the steps. */
static int survey_overhead(const struct an_trace *trace, struct survey *survey, size_t i)
{
    survey->overhead_rows++;
    if (trace->slice.dur[i] == AN_OPEN)
        return 0;
    survey->overhead_ns = an_time_add(survey->overhead_ns, trace->slice.dur[i]);
    if (an_grow(&survey->overhead, &survey->overhead_room, survey->overhead_count + 1,
                sizeof *survey->overhead))
        return TACHO_ENOMEM;
    survey->overhead[survey->overhead_count++] = (struct an_span){
        trace->slice.start[i], an_time_add(trace->slice.start[i], trace->slice.dur[i])};
    return 0;
}

/* Goes over the rows of the host once. `kind` caches enum rows of each category, the last entry
 * that of rows without a category. Launches that have a device op are sorted like the rows. */
static int survey_rows(const struct an_context *context, struct survey *survey, uint8_t *kind)
{
    const struct an_trace *trace = context->trace;
    const struct an_devices *devices = context->gpu;
    size_t linked = 0;
    int rc = 0;
    for (size_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc;
             i++) {
            uint32_t category = trace->slice.category[i] < trace->string_count
                                    ? trace->slice.category[i]
                                    : (uint32_t)trace->string_count;
            if (!kind[category])
                kind[category] = (uint8_t)rows_of(an_trace_name(trace, category));
            survey->python += kind[category] == ROWS_PYTHON;
            if (kind[category] == ROWS_OVERHEAD)
                rc = survey_overhead(trace, survey, i);
            if (kind[category] != ROWS_CALL || !an_slice_launches(trace, i))
                continue;
            if (survey->first_call == STORE_ABSENT || trace->slice.start[i] < survey->first_call)
                survey->first_call = trace->slice.start[i];
            while (linked < devices->launch_count && devices->launch_slice[linked] < i)
                linked++;
            if (linked == devices->launch_count || devices->launch_slice[linked] != i)
                lost_launch(context, survey, i, track->process);
        }
    }
    return rc;
}

/* ---- device ops ------------------------------------------------------------------------------ */

/* Is op i a move of managed memory? The driver makes these when a page is touched on the other
 * side: no call launches them. */
static bool is_migration(const struct an_context *context, size_t i)
{
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[ops->slice[i]]);
    return ops->launch[i] == AN_NONE && detail && *detail->copy_kind &&
           !strcmp(detail->kind, "managed");
}

/* Counts device ops without a launch, and kernels of unknown class with their names and time. */
static int survey_ops(struct an_context *context, int64_t *orphans)
{
    const struct an_devices *devices = context->gpu;
    struct an_quality *quality = &context->result->quality;
    uint8_t *seen = calloc(context->trace->string_count + 1, 1);
    int64_t unknown = 0, names = 0, unknown_ns = 0, all_ns = 0;
    if (!seen)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < devices->op.count; i++) {
        size_t slice = devices->op.slice[i];
        *orphans += devices->op.launch[i] == AN_NONE && !is_migration(context, i);
        if (strcmp(an_slice_category(context->trace, slice), "kernel") != 0)
            continue;
        int64_t dur = an_time_sub(devices->op.end[i], devices->op.start[i]);
        all_ns = an_time_add(all_ns, dur);
        if (devices->op.known[i])
            continue;
        uint32_t name = context->trace->slice.name[slice] < context->trace->string_count
                            ? context->trace->slice.name[slice]
                            : (uint32_t)context->trace->string_count;
        unknown++;
        unknown_ns = an_time_add(unknown_ns, dur);
        names += !seen[name];
        seen[name] = 1;
    }
    free(seen);
    quality->unknown_kernels = an_int(unknown);
    quality->unknown_names = an_int(names);
    quality->unknown_pct =
        an_num_if(all_ns > 0, 100 * (double)unknown_ns / (double)all_ns, "no kernel took time");
    return 0;
}

/* Ops that start before their launch call did: the clocks of host and device disagree. */
static int64_t early_ops(const struct an_context *context, int64_t *worst)
{
    const struct an_devices *devices = context->gpu;
    int64_t ops = 0;
    for (size_t i = 0; i < devices->op.count; i++) {
        if (devices->op.launch[i] == AN_NONE)
            continue;
        int64_t early =
            an_time_sub(context->trace->slice.start[devices->op.launch[i]], devices->op.start[i]);
        ops += early > 0;
        if (early > *worst)
            *worst = early;
    }
    return ops;
}

/* Start of the first device op, of all or of those whose launch is known; STORE_ABSENT: none. */
static int64_t first_op(const struct an_devices *devices, bool linked)
{
    int64_t first = STORE_ABSENT;
    for (size_t i = 0; i < devices->op.count; i++)
        if ((!linked || devices->op.launch[i] != AN_NONE) &&
            (first == STORE_ABSENT || devices->op.start[i] < first))
            first = devices->op.start[i];
    return first;
}

/* ---- what suggests that recording changed the times ------------------------------------------ */

struct signs {
    const char *text[SIGNS];
    size_t count;
};

static void add_sign(struct signs *signs, const char *text)
{
    if (signs->count < SIGNS)
        signs->text[signs->count++] = text;
}

/* Signs in the device ops: a recording that began late, clocks that disagree, opaque graphs. */
static void clock_signs(struct an_context *context, const struct survey *survey,
                        struct signs *signs)
{
    int64_t worst = 0, early = early_ops(context, &worst), opaque = 0, blank = 0;
    for (size_t i = 0; i < context->gpu->op.count; i++)
        opaque += context->gpu->op.class[i] == AN_DEVICE_OPAQUE;
    if (survey->first_call != STORE_ABSENT && context->gpu->op.count)
        blank = an_time_sub(first_op(context->gpu, false), survey->first_call);
    if (blank > GAP_NS)
        add_sign(signs, an_arena_format(context->arena,
                                        "the first op on a device starts %.1f ms after the first "
                                        "launch: the device was still running work launched before "
                                        "the capture, which is not recorded; that time is not idle",
                                        (double)blank / 1e6));
    if (early)
        add_sign(signs,
                 an_arena_format(
                     context->arena,
                     "%" PRId64
                     " device ops start before their launch call, by up to %.1f us: the clocks of "
                     "host and device disagree by that much; delays are no more exact than that",
                     early, (double)worst / 1e3));
    if (opaque)
        add_sign(signs, an_arena_format(context->arena,
                                        "%" PRId64
                                        " graphs were recorded as a whole: what ran in them is not "
                                        "known (record nodes: nsys --cuda-graph-trace=node)",
                                        opaque));
}

/* Collects what suggests that recording changed the times, or that they are not exact. */
static void find_signs(struct an_context *context, const struct survey *survey, struct signs *signs)
{
    const struct an_quality *quality = &context->result->quality;
    const struct an_launches *launches = &context->result->launches;
    const char *decimals = an_trace_key(context->trace, "source.decimals");
    if (quality->step_overhead_pct.valid && quality->step_overhead_pct.value > OVERHEAD_PCT)
        add_sign(signs,
                 an_arena_format(
                     context->arena,
                     "the profiler's own work took %.1f %% of the counted steps (overhead rows)",
                     quality->step_overhead_pct.value));
    if (survey->python)
        add_sign(signs, an_arena_format(context->arena,
                                        "%" PRId64
                                        " Python frames were recorded (with_stack): that slows the "
                                        "host most of all; trust device times, not host times",
                                        survey->python));
    if (!launches->reason && launches->short_pct.valid && launches->short_pct.value >= SHORT_PCT &&
        launches->queue_mean.valid && launches->queue_mean.value < QUEUE_SHORT)
        add_sign(signs,
                 an_arena_format(context->arena,
                                 "%.0f %% of the kernels are shorter than the call that "
                                 "launches them: the host sets the pace, and recording makes "
                                 "each call longer; part of the idle time is the profiler's",
                                 launches->short_pct.value));
    clock_signs(context, survey, signs);
    if (decimals && !strcmp(decimals, "0"))
        add_sign(signs,
                 "times are whole microseconds: the time of one short kernel is good to 1 us, "
                 "sums of many are better");
}

/* ---- the analyzer ---------------------------------------------------------------------------- */

/* Time of the profiler's own work, over the whole capture and as a share of the counted steps. */
static void overhead_shares(struct an_context *context, struct survey *survey)
{
    struct an_quality *quality = &context->result->quality;
    const char *none = "the trace has no rows of the profiler's own work";
    int64_t steps = 0, inside = 0;
    quality->profiler_overhead_ms = quality->step_overhead_pct = an_num_none(none);
    if (!survey->overhead_rows)
        return;
    quality->profiler_overhead_ms = an_num((double)survey->overhead_ns / 1e6);
    survey->overhead_count = an_spans_normalize(survey->overhead, survey->overhead_count);
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_counted(step) || step->host_end == STORE_ABSENT)
            continue;
        steps = an_time_add(steps, an_time_sub(step->host_end, step->host_start));
        inside = an_time_add(inside, an_spans_within(survey->overhead, survey->overhead_count,
                                                     step->host_start, step->host_end));
    }
    quality->step_overhead_pct =
        an_num_if(steps > 0, 100 * (double)inside / (double)steps, "no counted steps");
}

/* Steps without an end, and steps that launched kernels of which the device's part is missing. */
static int64_t cut_steps(const struct an_context *context, const struct survey *survey,
                         int64_t *counted)
{
    int64_t cut_count = 0;
    for (size_t i = 0; i < context->step_count; i++) {
        bool cut = context->step[i].host_end == STORE_ABSENT || survey->cut[i];
        cut_count += cut;
        *counted += cut && an_step_counted(&context->step[i]);
    }
    return cut_count;
}

/* Reports what is missing in the capture as contradictions of the file. */
static void problems(struct an_context *context, const struct survey *survey, int64_t orphans,
                     int64_t counted)
{
    const struct an_quality *quality = &context->result->quality;
    const char *record = "";
    if ((size_t)orphans == context->gpu->op.count)
        record = an_arena_format(context->arena, " (%s)",
                                 an_say(context, AN_SAY_CALLS,
                                        "record CPU activities too: ProfilerActivity.CPU, "
                                        "nsys --trace=cuda"));
    if (survey->kernels_lost)
        an_problem(context,
                   "CAPTURE: %" PRId64
                   " launches of kernels or graphs have no device op in the file, %" PRId64
                   " of them before the first op: the device's work is incomplete (longer warm-up: "
                   "schedule(warmup=...); fewer activities; no fork after start)",
                   survey->kernels_lost, survey->early);
    if (orphans)
        an_problem(context,
                   "CAPTURE: %" PRId64
                   " of %zu device ops have no launch call in the file: they count as device time, "
                   "but not in delays, queues and attribution%s",
                   orphans, context->gpu->op.count, record);
    if (context->gpu->untimed)
        an_problem(context,
                   "CAPTURE: %" PRId64
                   " device rows have no usable time (0 or no end); they were excluded",
                   context->gpu->untimed);
    if (counted)
        an_problem(
            context,
            "CAPTURE: %" PRId64
            " counted steps lack part of their device work: their device times are too short",
            counted);
    if (quality->unknown_pct.valid && quality->unknown_pct.value > 5)
        an_problem(context,
                   "CLASSES: %" PRId64
                   " kernel names with %.1f %% of the kernel time are in no class and count as "
                   "compute (name them: --classes FILE, docs/device-time.md)",
                   quality->unknown_names.value, quality->unknown_pct.value);
}

/* Without devices every count of the part is absent for that reason. */
static void quality_absent(struct an_context *context, const char *reason)
{
    struct an_count none = an_int_none(reason);
    context->result->quality = (struct an_quality){.reason = reason,
                                                   .launches_without_op = none,
                                                   .ops_without_launch = none,
                                                   .zero_times = none,
                                                   .unknown_kernels = none,
                                                   .cut_steps = none,
                                                   .kernels_lost = none,
                                                   .unknown_names = none,
                                                   .unknown_pct = an_num_none(reason),
                                                   .start_gap_ms = an_num_none(reason),
                                                   .profiler_overhead_ms = an_num_none(reason),
                                                   .step_overhead_pct = an_num_none(reason)};
}

/* The counts, from the survey of the rows and of the ops. */
static void fill_counts(struct an_context *context, const struct survey *survey, int64_t orphans,
                        int64_t *counted)
{
    struct an_quality *quality = &context->result->quality;
    const char *reason = context->result->steps.reason;
    bool linked = survey->first_op != STORE_ABSENT && survey->first_call != STORE_ABSENT;
    int64_t gap = linked ? an_time_sub(survey->first_op, survey->first_call) : 0;
    quality->launches_without_op = an_int(context->gpu->launches_lost);
    quality->kernels_lost = an_int(survey->kernels_lost);
    quality->ops_without_launch = an_int(orphans);
    quality->zero_times = an_int(context->gpu->untimed);
    quality->start_gap_ms = an_num_if(linked, gap > 0 ? (double)gap / 1e6 : 0,
                                      "no device op has its launch in the file");
    quality->cut_steps = an_int_none(reason ? reason : "no steps");
    if (context->step_count)
        quality->cut_steps = an_int(cut_steps(context, survey, counted));
}

/* Surveys rows and ops, and fills the counts, signs and problems. */
static int quality_run(struct an_context *context)
{
    struct an_quality *quality = &context->result->quality;
    struct survey survey = {
        .first_call = STORE_ABSENT,
        .first_op = first_op(context->gpu, true),
        .cut = an_arena_zero(context->scratch, context->step_count + 1, sizeof *survey.cut)};
    uint8_t *kind = calloc(context->trace->string_count + 1, 1);
    int64_t orphans = 0, counted = 0;
    struct signs signs = {.count = 0};
    int rc = survey.cut && kind ? survey_rows(context, &survey, kind) : TACHO_ENOMEM;
    if (!rc && !(rc = survey_ops(context, &orphans))) {
        fill_counts(context, &survey, orphans, &counted);

        overhead_shares(context, &survey);
        find_signs(context, &survey, &signs);
        problems(context, &survey, orphans, counted);
        quality->signs =
            an_arena_copy(context->arena, signs.text, signs.count * sizeof *signs.text);
        quality->sign_count = quality->signs ? signs.count : 0;
        rc = quality->signs ? 0 : TACHO_ENOMEM;
    }
    free(kind);
    free(survey.overhead);
    return rc;
}

const struct an_analyzer an_quality = {
    .name = "quality",
    .help = "what the capture is worth: missing launches and ops, cut steps, distortion",
    .after = "steps, launches",
    .needs = AN_INPUT_DEVICES,
    .run = quality_run,
    .absent = quality_absent,
};
