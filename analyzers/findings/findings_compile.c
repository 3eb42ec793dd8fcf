/* SPDX-License-Identifier: Apache-2.0
 *
 * Compilation in the steps of programs of PyTorch and JAX: functions that are compiled again and
 * again (RECOMPILE), pieces of a program that torch.compile leaves out (GRAPH_BREAK), and graphs
 * that every run compiles because its cache on disk is off or refuses them (COMPILE_CACHE). The
 * hook names all of them with their reason. A trace of torch.profiler has the pieces themselves, as
 * ranges "Torch-Compiled Region: FRAME/COMPILATION": several frames in a step are pieces, a
 * compilation above 0 is another one of the same frame; it was made just before its first region.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define AGAIN             "recompile "
#define BREAK             "graph break "
#define CACHE             "compile cache "
#define CACHE_OFF         CACHE "is off"
#define NAMED             3
#define RECOMPILED        4     /* times: fewer do not show how much they vary */
#define WITHOUT_NS        20000 /* a range without length, and what recording it takes */
#define NEXT              16    /* ranges in which the phase begins */
#define BREAKS_MOST       64
#define REGION            "Torch-Compiled Region: "
#define COMPILATIONS_MOST 1000000 /* of a frame: a larger number is none */
#define FRAMES_MOST       256

/* A name that the hook gave, with how often and for how long. */
struct named {
    const char *name;
    int64_t count, ns;
};

struct names {
    struct named at[BREAKS_MOST];
    size_t count;
    int64_t times, ns;
    double squares; /* of each one's ns */
};

static void add(struct names *names, const char *name, int64_t ns)
{
    size_t at = 0;
    while (at < names->count && names->at[at].name != name)
        at++;
    names->times++;
    names->ns = an_time_add(names->ns, ns);
    names->squares += (double)ns * (double)ns;
    if (at == BREAKS_MOST)
        return;
    names->count += at == names->count;
    names->at[at].name = name;
    names->at[at].count++;
    names->at[at].ns = an_time_add(names->at[at].ns, ns);
}

/* What a compilation took: of JAX the range itself; of PyTorch the phase that begins next, as the
 * reason is a range without length. */
static int64_t compile_ns(const struct an_trace *trace, const struct an_track *track, size_t slice)
{
    int64_t own = trace->slice.dur[slice] == AN_OPEN ? 0 : trace->slice.dur[slice];
    for (size_t i = slice + 1; own < WITHOUT_NS && i < an_track_end(track) && i - slice <= NEXT;
         i++)
        if (an_slice_role(trace, i) == AN_ROLE_COMPILE && trace->slice.dur[i] != AN_OPEN &&
            trace->slice.dur[i] >= WITHOUT_NS)
            return trace->slice.dur[i];
    return own;
}

static int by_time(const void *first, const void *second)
{
    const struct named *left = first, *right = second;
    return 2 * AN_COMPARE(right->ns, left->ns) + AN_COMPARE(right->count, left->count);
}

/* How long the compilation around a mark without length took; 0: it is no mark of the hook, or the
 * compilation has no end. */
static int64_t around_ns(const struct an_trace *trace, size_t slice)
{
    uint32_t parent = trace->slice.parent[slice];
    bool known = an_slice_role(trace, slice) == AN_ROLE_COMPILE && parent != AN_NONE &&
                 an_slice_role(trace, parent) == AN_ROLE_COMPILE &&
                 trace->slice.dur[parent] != AN_OPEN;
    return known ? trace->slice.dur[parent] : 0;
}

static void add_within(struct names *names, const struct an_trace *trace, size_t slice)
{
    int64_t ns = around_ns(trace, slice);
    if (ns)
        add(names, an_trace_name(trace, trace->slice.name[slice]), ns);
}

static void sort(struct names *names)
{
    if (names->count)
        qsort(names->at, names->count, sizeof *names->at, by_time);
}

/* Looks at the threads of the steps; at what is compiled again from their first step on. */
static void find(const struct an_context *context, struct names *again, struct names *breaks,
                 struct names *uncached)
{
    const struct an_trace *trace = context->trace;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        if (lane->track == AN_NONE || !lane->count)
            continue;
        const struct an_track *track = &trace->track[lane->track];
        int64_t from = context->step[lane->first].host_start;
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            const char *name = an_trace_name(trace, trace->slice.name[i]);
            if (!strncmp(name, BREAK, strlen(BREAK)))
                add(breaks, name, 0);
            else if (!strncmp(name, CACHE, strlen(CACHE)))
                add_within(uncached, trace, i);
            else if (trace->slice.start[i] >= from && !strncmp(name, AGAIN, strlen(AGAIN)))
                add(again, name, compile_ns(trace, track, i));
        }
    }
    sort(again);
    sort(breaks);
    sort(uncached);
}

/* Frames that ran in steps, by number, and the highest compilation of each. */
struct regions {
    bool seen[FRAMES_MOST];
    int64_t again[FRAMES_MOST];
    int64_t frames, compilations; /* frames that ran; compilations beyond the first of each */
};

/* Takes the number of a frame and of its compilation from the name of a range; false: it is no
 * region. */
static bool read_region(const char *name, long *frame, long *compilation)
{
    char *end;
    if (strncmp(name, REGION, strlen(REGION)) != 0)
        return false;
    *frame = strtol(name + strlen(REGION), &end, 10);
    *compilation = *end == '/' ? strtol(end + 1, NULL, 10) : 0;
    return *frame >= 0 && *frame < FRAMES_MOST && *compilation >= 0 &&
           *compilation <= COMPILATIONS_MOST;
}

static void add_region(struct regions *regions, long frame, long compilation)
{
    regions->frames += !regions->seen[frame];
    regions->seen[frame] = true;
    if (compilation > regions->again[frame]) {
        regions->compilations += compilation - regions->again[frame];
        regions->again[frame] = compilation;
    }
}

/* Reads the regions in the steps of a thread. What it compiled since the region before belongs to
 * one that is there for the first time: unless that is its frame's first, the frame was compiled
 * `again`. As the time of the run is, that is known up to the last step. */
static void find_regions(const struct an_context *context, const struct an_lane *lane,
                         struct regions *regions, struct names *again)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[lane->track];
    int64_t compiled = 0, until = INT64_MIN,
            last = lane->count ? context->step[an_lane_end(lane) - 1].host_start : INT64_MIN;
    long highest[FRAMES_MOST] = {0}, frame, compilation;
    for (size_t i = track->slice_first; i < an_track_end(track); i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        if (!an_step_at_host(context, lane, trace->slice.start[i]))
            continue;
        if (an_slice_role(trace, i) == AN_ROLE_COMPILE && trace->slice.dur[i] != AN_OPEN &&
            trace->slice.start[i] >= until) {
            compiled = an_time_add(compiled, trace->slice.dur[i]);
            until = an_slice_end(trace, i);
        } else if (read_region(name, &frame, &compilation)) {
            add_region(regions, frame, compilation);
            if (compilation > highest[frame] && compiled && until <= last)
                add(again, name, compiled);
            highest[frame] = compilation > highest[frame] ? compilation : highest[frame];
            compiled = 0;
        }
    }
}

/* What the pieces of a trace say, where no hook gave the places. */
static void pieces(struct an_findings_list *findings, const struct regions *regions)
{
    struct an_context *context = findings->context;
    if (regions->frames < 2)
        return;
    struct an_finding *finding =
        an_findings_add(findings, "GRAPH_BREAK",
                        an_finding_text(context,
                                        "torch.compile made %" PRId64
                                        " graphs of the steps: up to %" PRId64 " graph breaks",
                                        regions->frames, regions->frames - 1));
    for (int frame = 0, noted = 0; frame < FRAMES_MOST && noted < NAMED; frame++)
        if (regions->seen[frame]) {
            noted++;
            an_finding_note(context, finding, "frame %d, compiled %" PRId64 " times or more", frame,
                            regions->again[frame] + 1);
        }
    if (regions->compilations)
        an_finding_note(context, finding, "%" PRId64 " compilations beyond the first of a frame",
                        regions->compilations);
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("what a larger graph would save is not known before it is compiled");
    finding->method = "no gain: frames by the names that torch.profiler gives compiled regions";
    finding->action = "see where and why: TORCH_LOGS=graph_breaks,recompiles, or fullgraph=True, "
                      "which makes each break an error";
    finding->effort = "some lines of code";
    an_finding_at_most_medium(finding);
    finding->verify = an_command_rerun(context, "fullgraph=True");
    finding->wrong_when = "the program compiles several functions on purpose: each is a frame";
}

static void name_them(struct an_context *context, struct an_finding *finding,
                      const struct names *names)
{
    for (size_t i = 0; i < names->count && i < NAMED; i++)
        an_finding_note(context, finding, "%" PRId64 " x %.180s", names->at[i].count,
                        names->at[i].name);
    if (names->count > NAMED)
        an_finding_note(context, finding, "and %zu more", names->count - NAMED);
}

/* The time of the run from the first step on, over its threads, in ns. */
static double run_ns(const struct an_context *context)
{
    double sum = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        if (lane->count && lane->track != AN_NONE)
            sum += (double)an_time_sub(context->step[an_lane_end(lane) - 1].host_start,
                                       context->step[lane->first].host_start);
    }
    return sum;
}

/* The gain for a run of this length: recompilations vary, and so do the steps. 95 %, as of other
 * phases; of few ones only the bound is known. */
static void recompile_gain(const struct an_context *context, const struct names *again, double run,
                           struct an_finding *finding)
{
    const struct an_steps *steps = &context->result->steps;
    double count = (double)again->times, mean = (double)again->ns / count,
           rest = run - (double)again->ns;
    if (count < RECOMPILED || !(rest > 0) || !steps->sd_ms.valid)
        return;
    double variance = fmax(0, again->squares / count - mean * mean) * count / (count - 1),
           of_phase = sqrt(variance / count) / mean,
           of_steps = steps->sd_ms.value * 1e6 * sqrt((double)steps->counted) / rest;
    double half = AN_Z95 * sqrt(of_phase * of_phase + of_steps * of_steps),
           ratio = (double)again->ns / rest;
    if (!isfinite(half) || half >= 1)
        return;
    finding->gain = (struct an_gain){.low = an_num(100 * ratio * (1 - half)),
                                     .expected = an_num(100 * ratio),
                                     .high = an_num(100 * ratio * (1 + half))};
    finding->method = "for a run of this length: run / (run - recompilations) - 1; 95 % by the "
                      "spread of recompilations and steps";
    finding->bound = false;
}

static void recompilations(struct an_findings_list *findings, const struct names *again)
{
    struct an_context *context = findings->context;
    double run = run_ns(context), share = an_percent((double)again->ns, run);
    if (!again->times || share < FINDINGS_NOISE_PCT)
        return;
    share = share < 99 ? share : 99;
    struct an_finding *finding = an_findings_add(
        findings, "RECOMPILE",
        an_finding_text(context,
                        "%" PRId64 " recompilations take %.1f %% of the time from the first step "
                        "on; none of it is in the step times",
                        again->times, share));
    an_finding_note(context, finding, "%s of %s",
                    an_time_words(context->arena, (double)again->ns / 1e6, 3),
                    an_time_words(context->arena, run / 1e6, 3));
    name_them(context, finding, again);
    finding->action =
        an_command_framework(context) == AN_FRAMEWORK_JAX
            ? "keep shapes and static arguments the same from call to call: pad batches to a few "
              "sizes, drop the last incomplete batch, do not make static what changes"
            : "keep shapes the same from step to step (pad, drop_last=True), or tell the compiler "
              "that they change: torch.compile(dynamic=True), torch._dynamo.mark_dynamic()";
    finding->effort = "some lines of code";
    finding->bound = true;
    an_finding_ceiling(finding, 100, share,
                       "a recompilation happens once for each shape: a longer "
                       "run has a smaller share of them");
    finding->method = "ceiling for a run of this length: run / (run - recompilations) - 1";
    recompile_gain(context, again, run, finding);
    finding->verify = an_command_rerun(context, "shapes that stay the same");
    finding->wrong_when = "the run that counts is much longer and meets no more shapes";
}

static void graph_breaks(struct an_findings_list *findings, const struct names *breaks)
{
    struct an_context *context = findings->context;
    if (!breaks->times)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "GRAPH_BREAK",
        an_finding_text(context,
                        "torch.compile could not make one graph of the program: %" PRId64
                        " graph breaks in %zu places",
                        breaks->times, breaks->count));
    name_them(context, finding, breaks);
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("what a larger graph would save is not known before it is compiled");
    finding->method = "no gain: the reasons are PyTorch's own";
    finding->action =
        "move what breaks the graph (prints, .item(), calls into other libraries) out "
        "of the compiled function; fullgraph=True makes each of them an error";
    finding->effort = "some lines of code";
    finding->verify = an_command_rerun(context, "fullgraph=True");
    finding->wrong_when = "the pieces are long: then few calls lie between them";
}

/* From the first compilation or step of each thread of steps to the last step, in ns. */
static double run_with_start_ns(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    double sum = run_ns(context);
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        if (!lane->count || lane->track == AN_NONE)
            continue;
        const struct an_track *track = &trace->track[lane->track];
        int64_t first = context->step[lane->first].host_start;
        size_t i = track->slice_first;
        while (i < an_track_end(track) && trace->slice.start[i] < first &&
               an_slice_role(trace, i) != AN_ROLE_COMPILE)
            i++;
        if (i < an_track_end(track) && trace->slice.start[i] < first)
            sum += (double)an_time_sub(first, trace->slice.start[i]);
    }
    return sum;
}

static bool is_off(const struct named *named)
{
    return !strncmp(named->name, CACHE_OFF, strlen(CACHE_OFF));
}

/* Leaves only compilations for which the cache is off, or only those whose graphs it refuses:
 * whichever take longer. */
static bool keep_one_kind(struct names *names)
{
    int64_t ns[2] = {0}, times[2] = {0};
    size_t kept = 0;
    for (size_t i = 0; i < names->count; i++) {
        bool off = is_off(&names->at[i]);
        ns[off] = an_time_add(ns[off], names->at[i].ns);
        times[off] += names->at[i].count;
    }
    bool off = ns[1] > ns[0];
    for (size_t i = 0; i < names->count; i++)
        if (is_off(&names->at[i]) == off)
            names->at[kept++] = names->at[i];
    names->count = kept;
    names->ns = ns[off];
    names->times = times[off];
    return off;
}

/* Compilations that each run repeats. A first run, which fills the cache, is no finding. */
static void without_cache(struct an_findings_list *findings, struct names *uncached)
{
    struct an_context *context = findings->context;
    bool off = keep_one_kind(uncached);
    double run = run_with_start_ns(context), share = an_percent((double)uncached->ns, run);
    if (!uncached->times || share < FINDINGS_NOISE_PCT)
        return;
    const char *s = uncached->times == 1 ? "" : "s",
               *took = an_time_words(context->arena, (double)uncached->ns / 1e6, 3),
               *of = an_time_words(context->arena, run / 1e6, 3);
    struct an_finding *finding = an_findings_add(
        findings, "COMPILE_CACHE",
        an_finding_text(context,
                        "the on-disk cache of torch.compile %s %" PRId64 " compilation%s (%s of "
                        "%s): every run compiles again; none of it is in the step times",
                        off ? "is off for" : "refuses the graphs of", uncached->times, s, took,
                        of));
    name_them(context, finding, uncached);
    finding->action =
        off ? "turn the cache on: remove TORCHINDUCTOR_FORCE_DISABLE_CACHES, "
              "TORCH_COMPILE_FORCE_DISABLE_CACHES and TORCHINDUCTOR_FX_GRAPH_CACHE=0 from the "
              "environment; the program itself may set force_disable_caches or fx_graph_cache"
            : "remove what PyTorch names as the reason: give a custom pass a uuid() "
              "(CustomGraphPass), call an operator that cannot be cached through "
              "torch.library.custom_op";
    finding->effort = off ? "a setting" : "some lines of code";
    finding->bound = true;
    an_finding_ceiling(finding, 100, fmin(share, 99),
                       "a run with a filled cache still traces the program and loads the graphs");
    finding->method = "ceiling for a run of this length: run / (run - these compilations) - 1";
    finding->verify = an_finding_text(context, "%s, and compare the time outside steps",
                                      an_command_rerun(context, "a cache that a run has filled"));
    finding->wrong_when =
        "the run that matters is much longer and compiles no more often; this was "
        "the first run on the machine: a later one finds compiled libraries; "
        "gains of RECOMPILE and of this finding overlap";
}

void an_findings_compile(struct an_findings_list *findings)
{
    struct names *again = an_arena_zero(findings->context->scratch, 4, sizeof *again);
    if (!again)
        return;
    const struct an_trace *trace = findings->context->trace;
    if (an_trace_has_name(trace, BREAK) || an_trace_has_name(trace, AGAIN) ||
        an_trace_has_name(trace, CACHE))
        find(findings->context, &again[0], &again[1], &again[2]);
    struct regions regions = {.frames = 0};
    struct names *by_regions = &again[3];
    for (size_t k = 0; an_trace_has_name(trace, REGION) && k < findings->context->lane_count; k++)
        if (findings->context->lane[k].track != AN_NONE)
            find_regions(findings->context, &findings->context->lane[k], &regions, by_regions);
    sort(by_regions);
    recompilations(findings, again[0].times ? &again[0] : by_regions);
    graph_breaks(findings, &again[1]);
    without_cache(findings, &again[2]);
    if (!again[1].times)
        pieces(findings, &regions);
}
