/* SPDX-License-Identifier: Apache-2.0
 *
 * SYNC_ITEM: values that the host reads from a device (.item(), .cpu(), print of a tensor). The
 * host waits until the device has computed them and launches nothing meanwhile, so that the device
 * has nothing to do afterwards. The hook names each such wait with its line; in traces of
 * torch.profiler it is a synchronise call inside of an operator. WORKERS_RESTARTED: a loader of
 * PyTorch starts its workers again in each epoch, and the first batch of it comes late.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/device/api.h"
#include "analyzers/device/value_wait.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/work/frames.h"

#define PLACES_MOST 32
#define NAMED       3

/* Where values are read: what is called, and the line. */
struct place {
    const char *what, *line; /* line: "" where it is not known */
    int64_t count, wait_ns, idle_ns;
};

struct wait {
    int64_t start, end;
    struct an_value_wait of;
};

struct waits {
    struct an_context *context;
    double *idle; /* of each step: ns that the device idles because of them */
    struct place place[PLACES_MOST];
    size_t places;
    int64_t count, wait_ns;
};

/* The direction of the last copy that the thread began in [from, slice), as the device's row says
 * it: "DtoH"; "": it began none, or that is not in the file. */
static const char *copied(const struct an_context *context, size_t from, size_t slice)
{
    const struct an_trace *trace = context->trace;
    const struct an_devices *gpu = context->gpu;
    for (size_t i = slice; gpu && i-- > from;) {
        size_t at = an_launch_seek(gpu, i);
        if (an_slice_api(trace, i).kind != AN_API_COPY || at == gpu->launch_count ||
            gpu->launch_slice[at] != i)
            continue;
        size_t op = gpu->launch_op[gpu->launch_first[at]];
        const struct an_detail *detail =
            an_trace_detail(trace, trace->slice.detail[gpu->op.slice[op]]);
        return detail ? detail->copy_kind : "";
    }
    return "";
}

/* Operators that give a value to Python, whatever is known of the copy. */
static bool reads_value(const char *name)
{
    static const char *const names[] = {"aten::item", "aten::_local_scalar_dense",
                                        "aten::is_nonzero", "aten::nonzero"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* A synchronise call inside of an operator of PyTorch that reads a value, or copies from the
 * device: a copy to it from pageable memory waits too, and is none. The outermost operator says
 * what was called, the innermost frame of the program where. */
static bool of_operator(const struct an_context *context, size_t i, struct wait *wait)
{
    const struct an_trace *trace = context->trace;
    if (an_slice_api(trace, i).kind != AN_API_SYNC ||
        !an_category_is_call(an_slice_category(trace, i)))
        return false;
    *wait = (struct wait){.of.line = ""};
    uint32_t around = trace->slice.parent[i], outermost = AN_NONE;
    for (int depth = 0; around != AN_NONE && depth < AN_DEPTH_MAX; depth++) {
        const char *name = an_trace_name(trace, trace->slice.name[around]);
        bool open = an_slice_open_at(trace, around, i);
        if (open && !strncmp(name, "aten::", 6)) {
            wait->of.what = name;
            outermost = around;
        } else if (open && !*wait->of.line && an_frame_is_user(name)) {
            wait->of.line = name;
        }
        around = trace->slice.parent[around];
    }
    if (outermost == AN_NONE)
        return false;
    const char *direction = copied(context, outermost, i);
    return *direction ? !strcmp(direction, "DtoH") : reads_value(wait->of.what);
}

/* Is it a wait that ended? `until`: the end of the one before, which may hold it. */
static bool is_wait(const struct an_context *context, size_t i, int64_t until, struct wait *wait)
{
    const struct an_trace *trace = context->trace;
    if (trace->slice.dur[i] == AN_OPEN || trace->slice.start[i] < until ||
        (!an_slice_value_wait(trace, i, &wait->of) && !of_operator(context, i, wait)) ||
        an_slice_in_phase(trace, i))
        return false;
    wait->start = trace->slice.start[i];
    wait->end = an_slice_end(trace, i);
    return true;
}

/* How long the device idles because of a wait: from the end of its work, or from the beginning of
 * the wait if it had none then, until it has work again; then the wait itself is all. `counted`: up
 * to there an earlier wait has counted. Without records of a device it is the wait. */
static int64_t idle_of(const struct an_context *context, const struct an_lane *lane,
                       const struct wait *wait, int64_t *counted)
{
    int64_t from = wait->start, to = wait->end;
    if (lane->device != AN_NONE) {
        struct an_set busy = context->gpu->split[lane->device].busy;
        size_t next = an_spans_seek(busy.span, busy.count, wait->end);
        int64_t ended = next ? busy.span[next - 1].end : INT64_MIN;
        if (next == busy.count)
            return 0;
        if (ended > wait->start) {
            from = ended;
            to = busy.span[next].start;
        } else {
            to = an_time_min(to, busy.span[next].start);
        }
    }
    from = an_time_max(from, *counted);
    *counted = an_time_max(*counted, to);
    return from < to ? an_time_sub(to, from) : 0;
}

static void add(struct waits *waits, const struct wait *wait, int64_t idle)
{
    size_t at = 0;
    int64_t ns = an_time_sub(wait->end, wait->start);
    while (at < waits->places && (strcmp(waits->place[at].what, wait->of.what) != 0 ||
                                  strcmp(waits->place[at].line, wait->of.line) != 0))
        at++;
    waits->count++;
    waits->wait_ns = an_time_add(waits->wait_ns, ns);
    if (at == PLACES_MOST)
        return;
    struct place *place = &waits->place[at];
    place->what = wait->of.what;
    place->line = wait->of.line;
    place->count++;
    place->wait_ns = an_time_add(place->wait_ns, ns);
    place->idle_ns = an_time_add(place->idle_ns, idle);
    waits->places += at == waits->places;
}

/* Adds up the waits of the thread that runs the steps of a lane. */
static void look_at_lane(struct waits *waits, const struct an_lane *lane)
{
    struct an_context *context = waits->context;
    const struct an_track *track = &context->trace->track[lane->track];
    int64_t until = INT64_MIN, counted = INT64_MIN;
    struct wait wait;
    for (size_t i = track->slice_first; i < an_track_end(track); i++) {
        if (!is_wait(context, i, until, &wait))
            continue;
        until = wait.end;
        const struct an_step *step = an_step_at_host(context, lane, wait.start);
        int64_t idle = idle_of(context, lane, &wait, &counted);
        if (!step || !an_step_detailed(step))
            continue;
        waits->idle[step - context->step] += (double)idle;
        add(waits, &wait, idle);
    }
}

static double idle_ns(const void *of, size_t step)
{
    return ((const struct waits *)of)->idle[step];
}

static int by_idle(const void *first, const void *second)
{
    const struct place *left = first, *right = second;
    return 2 * AN_COMPARE(right->idle_ns, left->idle_ns) +
           AN_COMPARE(right->wait_ns, left->wait_ns);
}

/* ".item() at train.py:31" */
static const char *place_text(struct an_context *context, const struct place *place)
{
    return *place->line ? an_finding_text(context, "%.40s at %.80s", place->what, place->line)
                        : an_finding_text(context, "%.40s", place->what);
}

static void evidence(const struct waits *waits, struct an_finding *finding,
                     const struct an_class_share *share)
{
    struct an_context *context = waits->context;
    an_finding_evidence(
        finding, an_class_share_text(context, share,
                                     context->gpu ? "device idle by such waits" : "such waits"));
    an_finding_note(
        context, finding, "%s waits a step, %s each; %zu of %zu steps have some",
        an_number_words(context->arena, (double)waits->count / (double)share->steps, 2),
        an_time_words(context->arena, (double)waits->wait_ns / 1e6 / (double)waits->count, 3),
        share->touched, share->steps);
    for (size_t i = 0; i < waits->places && i < NAMED; i++)
        an_finding_note(context, finding, "%s: %" PRId64 " times, %s of waiting, %s lost",
                        place_text(context, &waits->place[i]), waits->place[i].count,
                        an_time_words(context->arena, (double)waits->place[i].wait_ns / 1e6, 3),
                        an_time_words(context->arena, (double)waits->place[i].idle_ns / 1e6, 3));
}

static void describe(struct an_findings_list *findings, const struct waits *waits,
                     const struct an_class_share *share)
{
    struct an_context *context = findings->context;
    const char *first = place_text(context, &waits->place[0]);
    struct an_finding *finding = an_findings_add(
        findings, "SYNC_ITEM",
        context->gpu
            ? an_finding_text(context,
                              "the host waits for values of the device, most in %s: in %.1f %% of "
                              "the step the device then has nothing to do",
                              first, share->mean)
            : an_finding_text(context,
                              "the host waits for values of the device, most in %s: %.1f %% of the "
                              "step (what the device does is not recorded)",
                              first, share->mean));
    evidence(waits, finding, share);
    finding->action = an_finding_text(
        context,
        "leave the value on the device (%s): add losses and metrics up there and read them every N "
        "steps; copy with non_blocking=True what is needed later",
        first);
    finding->effort = "some lines of code";
    finding->what_if = "sync=0";
    finding->bound = true;
    an_finding_ceiling(finding, 100, share->mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - that time) - 1; nothing was replayed";
    finding->verify = an_command_rerun(context, "values read every N steps");
    finding->wrong_when = "the host needs as long as the device without these waits: then the "
                          "device waits for launches instead";
}

int an_findings_waits(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_class_share share;
    struct waits waits = {.context = context};
    waits.idle = an_arena_zero(context->scratch, context->step_count + 1, sizeof *waits.idle);
    if (!waits.idle)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->lane_count; i++)
        if (context->lane[i].track != AN_NONE)
            look_at_lane(&waits, &context->lane[i]);
    if (!waits.count || !waits.places)
        return 0;
    if (an_share_of_steps(waits.context, idle_ns, &waits, &share))
        return TACHO_ENOMEM;
    qsort(waits.place, waits.places, sizeof *waits.place, by_idle);
    if (an_class_share_matters(&share))
        describe(findings, &waits, &share);
    return 0;
}

/* ---- WORKERS_RESTARTED ----------------------------------------------------------------------- */

/* How the hook names the start and the end of a loader's workers. */
#define STARTED "loader workers started"
#define STOPPED "loader workers stopped"

/* Steps in which workers were started again, and all that are looked at; times in ns. */
struct restarts {
    size_t count, steps;
    double ns, wait_ns, all_wait_ns, run_ns; /* ns: of starting and stopping */
};

static double named_or_wait_ns(const struct an_context *context, const struct an_step *step,
                               struct restarts *restarts, double *wait_ns)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    double sum = 0;
    bool started = false;
    *wait_ns = 0;
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < an_track_end(track) && trace->slice.start[i] < step->host_end; i++) {
        if (trace->slice.dur[i] == AN_OPEN || trace->slice.start[i] < step->host_start ||
            an_slice_in_phase(trace, i)) /* a loader of an evaluation */
            continue;
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        bool starts = !strcmp(name, STARTED);
        uint32_t around = trace->slice.parent[i];
        double ns = (double)trace->slice.dur[i];
        if (starts || !strcmp(name, STOPPED)) {
            sum += ns; /* a loader stops its workers while it is asked for one batch more */
            if (around != AN_NONE && an_slice_role(trace, around) == AN_ROLE_INPUT_WAIT &&
                an_slice_open_at(trace, around, i))
                *wait_ns -= ns;
        } else if (an_slice_role(trace, i) == AN_ROLE_INPUT_WAIT) {
            *wait_ns += ns;
        }
        started = started || starts;
    }
    restarts->count += started;
    restarts->wait_ns += started ? *wait_ns : 0;
    return sum;
}

static struct restarts find_restarts(const struct an_context *context)
{
    struct restarts restarts = {0};
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        double wait_ns;
        if (!an_step_detailed(step) || context->lane[step->lane].track == AN_NONE ||
            step->host_end <= step->host_start)
            continue;
        restarts.ns += named_or_wait_ns(context, step, &restarts, &wait_ns);
        restarts.all_wait_ns += wait_ns;
        restarts.run_ns += (double)an_time_sub(step->host_end, step->host_start);
        restarts.steps++;
    }
    /* What the other steps wait on average, these would wait too. */
    size_t others = restarts.steps - restarts.count;
    double mean = others ? (restarts.all_wait_ns - restarts.wait_ns) / (double)others : 0;
    restarts.wait_ns = fmax(0, restarts.wait_ns - mean * (double)restarts.count);
    return restarts;
}

bool an_findings_restarted(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct restarts restarts = find_restarts(context);
    double lost = restarts.ns + restarts.wait_ns, share = an_percent(lost, restarts.run_ns);
    if (restarts.count < 2 || share < FINDINGS_NOISE_PCT)
        return false;
    struct an_finding *finding = an_findings_add(
        findings, "WORKERS_RESTARTED",
        an_finding_text(context,
                        "the loader's workers are started again in %zu steps: %s each, %.1f %% of "
                        "the steps' time",
                        restarts.count,
                        an_time_words(context->arena, lost / (double)restarts.count / 1e6, 3),
                        share));
    an_finding_note(context, finding,
                    "%s of it are the start and the end of workers, %s the wait "
                    "for the first batch",
                    an_time_words(context->arena, restarts.ns / 1e6, 3),
                    an_time_words(context->arena, restarts.wait_ns / 1e6, 3));
    an_finding_note(
        context, finding, "one in %s steps (%s)",
        an_number_words(context->arena, (double)restarts.steps / (double)restarts.count, 3),
        an_window_text(context));
    finding->action = "keep the workers from epoch to epoch: DataLoader(persistent_workers=True)";
    finding->effort = "an argument";
    an_finding_ceiling(finding, 100, share, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: time / (time - that time) - 1, of the steps; nothing was replayed";
    finding->bound = true;
    finding->verify = an_command_rerun(context, "persistent_workers=True");
    finding->wrong_when = "epochs of the real run have many more steps, or the data set changes "
                          "between epochs: such workers keep their copy of it";
    return 2 * restarts.wait_ns >= restarts.all_wait_ns;
}
