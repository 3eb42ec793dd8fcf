/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader in traces of torch.profiler, which have no ranges of its stages. There the wait
 * for a batch is the range enumerate(DataLoader)#...__next__ (or its Python frame); without workers
 * it is the cost of the batch. In a trace with neither, the wait is inferred from gaps: an upper
 * bound, and reported as one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/loader/loader_private.h"

/* ---- loaders of PyTorch ---------------------------------------------------------------------- */

/* What a name says; 0 = not looked at. */
enum torch_name {
    TORCH_OTHER = 1,
    TORCH_SINGLE, /* the wait of a loader without workers: it loads itself */
    TORCH_MULTI,  /* the wait for workers */
    TORCH_FRAME,  /* the same, where Python frames were recorded */
    TORCH_FETCH,
    TORCH_READ,
    TORCH_COLLATE,
    TORCH_PIN,
    TORCH_NAMES
};

struct torch {
    uint8_t *name; /* enum torch_name of every string; the last one: none */
    int64_t count[TORCH_NAMES];
    double ns[TORCH_NAMES]; /* waits: whole; stages: own time */
    int64_t worker_processes;
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

static enum torch_name torch_name_of(const char *name)
{
    if (!strncmp(name, "enumerate(DataLoader)", 21) || !strncmp(name, "enumerate(DataPipe)", 19))
        return strstr(name, "MultiProcessing") ? TORCH_MULTI : TORCH_SINGLE;
    if (strstr(name, "torch/utils/data/dataloader.py") && ends_with(name, ": __next__"))
        return TORCH_FRAME;
    if (strstr(name, "torch/utils/data/_utils/fetch.py") && ends_with(name, ": fetch"))
        return TORCH_FETCH;
    if (strstr(name, "torch/utils/data/_utils/collate.py"))
        return TORCH_COLLATE;
    if (strstr(name, "torch/utils/data/_utils/pin_memory.py") && ends_with(name, ": pin_memory"))
        return TORCH_PIN;
    return ends_with(name, ": __getitem__") || ends_with(name, ": __getitems__") ? TORCH_READ
                                                                                 : TORCH_OTHER;
}

static enum torch_name torch_kind(const struct an_trace *trace, struct torch *torch, size_t slice)
{
    uint32_t name = trace->slice.name[slice] < trace->string_count ? trace->slice.name[slice]
                                                                   : (uint32_t)trace->string_count;
    if (!torch->name[name])
        torch->name[name] = (uint8_t)torch_name_of(an_trace_name(trace, name));
    return (enum torch_name)torch->name[name];
}

static bool torch_waits(enum torch_name name)
{
    return name == TORCH_SINGLE || name == TORCH_MULTI || name == TORCH_FRAME;
}

/* Nearest range around slice i that is a wait (waits) or a stage of the loader: its index, or
 * AN_NONE. */
static uint32_t torch_around(const struct an_trace *trace, struct torch *torch, size_t i,
                             bool waits)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t parent = trace->slice.parent[i]; parent != AN_NONE && levels--;
         parent = trace->slice.parent[parent]) {
        enum torch_name name = torch_kind(trace, torch, parent);
        if (name != TORCH_OTHER && torch_waits(name) == waits)
            return parent;
    }
    return AN_NONE;
}

/* A read is any __getitem__ inside the loader: the user's own data set, but not a list of the
 * model's. */
static void torch_stage(const struct an_trace *trace, struct torch *torch, size_t i,
                        enum torch_name name)
{
    uint32_t stage = torch_around(trace, torch, i, false);
    enum torch_name around = stage != AN_NONE ? torch_kind(trace, torch, stage) : TORCH_OTHER;
    if (around == name || trace->slice.dur[i] == AN_OPEN)
        return;
    if (name == TORCH_READ && around != TORCH_FETCH)
        return;
    torch->count[name]++;
    torch->ns[name] += (double)trace->slice.dur[i];
    if (around != TORCH_OTHER &&
        (around != TORCH_READ || torch_around(trace, torch, stage, false) != AN_NONE))
        torch->ns[around] -= (double)trace->slice.dur[i];
}

/* Outermost waits of a track, as a set; adds waits and stages to x. *span belongs to the caller. */
static int torch_track(const struct an_trace *trace, const struct an_track *track,
                       struct torch *torch, struct an_span **span, size_t *count)
{
    size_t room = 0, span_count = 0;
    *span = NULL;
    *count = 0;
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        enum torch_name kind = torch_kind(trace, torch, i);
        if (kind == TORCH_OTHER)
            continue;
        if (!torch_waits(kind)) {
            torch_stage(trace, torch, i, kind);
            continue;
        }
        if (torch_around(trace, torch, i, true) != AN_NONE)
            continue;
        if (an_grow(span, &room, span_count + 1, sizeof **span)) {
            free(*span);
            *span = NULL;
            return TACHO_ENOMEM;
        }
        int64_t end = an_slice_end(trace, i);
        torch->count[kind]++;
        torch->ns[kind] += (double)an_time_sub(end, trace->slice.start[i]);
        (*span)[span_count++] = (struct an_span){trace->slice.start[i], end};
    }
    *count = an_spans_normalize(*span, span_count);
    return 0;
}

/* Time of the counted steps of a thread on the host, and the part of it in a set. */
static void within_steps(const struct an_context *context, uint32_t track,
                         const struct an_span *span, size_t span_count, int64_t *inside,
                         int64_t *all, int64_t *steps)
{
    for (uint32_t lane = an_lane_of_track(context, track); lane != AN_NONE;
         lane = an_next_of_track(context, lane))
        for (size_t i = context->lane[lane].first; i < an_lane_end(&context->lane[lane]); i++) {
            const struct an_step *step = &context->step[i];
            if (!an_step_counted(step) || step->host_end == STORE_ABSENT)
                continue;
            ++*steps;
            *all = an_time_add(*all, an_time_sub(step->host_end, step->host_start));
            *inside = an_time_add(
                *inside, an_spans_within(span, span_count, step->host_start, step->host_end));
        }
}

/* Lists the stages with their time per batch. A loader on the step's own thread without stages in
 * the trace is one stage, fetch: the whole wait. */
static void torch_stages(struct an_context *context, const struct torch *torch,
                         struct an_stage *rows)
{
    static const struct {
        enum torch_name name;
        const char *text;
    } names[] = {{TORCH_FETCH, "fetch"},
                 {TORCH_READ, "read"},
                 {TORCH_COLLATE, "collate"},
                 {TORCH_PIN, "pin_memory"}};
    struct an_loader *loader = &context->result->loader;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (torch->count[names[i].name]) {
            double ns = torch->ns[names[i].name];
            rows[loader->stage_count++] = (struct an_stage){
                .name = names[i].text,
                .count = torch->count[names[i].name],
                .ms_per_batch = an_num(fmax(ns, 0) / (double)loader->batches / 1e6)};
        }
    if (!loader->stage_count && torch->count[TORCH_SINGLE])
        rows[loader->stage_count++] =
            (struct an_stage){.name = "fetch",
                              .count = torch->count[TORCH_SINGLE],
                              .ms_per_batch = an_num(torch->ns[TORCH_SINGLE] /
                                                     (double)torch->count[TORCH_SINGLE] / 1e6)};
    loader->stages = rows;
}

/* The workers that keep up: time of a batch / time of a step without its wait. A loader without
 * workers shows what a batch costs; of one with workers the trace has only the waits. */
static void torch_workers(struct an_context *context, const struct torch *torch, int64_t inside,
                          int64_t all, int64_t steps)
{
    struct an_loader *loader = &context->result->loader;
    const struct an_count *cores = &context->result->run.cores;
    bool single = torch->count[TORCH_SINGLE] && !torch->count[TORCH_MULTI];
    loader->workers = an_int(torch->worker_processes);
    if (!torch->worker_processes && !single)
        loader->workers = an_int_none("the trace holds one process: the loader's workers are "
                                      "others (tacho run follows them)");

    if (!single) {
        loader->workers_needed = an_int_none(
            "what a worker takes for a batch is not in the trace, only how long steps waited");
        return;
    }
    if (!steps || all <= inside) {
        loader->workers_needed =
            an_int_none(steps ? "the steps do nothing but wait" : "no counted steps");
        return;
    }
    double batch = torch->ns[TORCH_SINGLE] / (double)torch->count[TORCH_SINGLE],
           step = (double)(all - inside) / (double)steps;
    int64_t needed = (int64_t)ceil(batch / step);
    if (needed > 1 && !cores->valid)
        loader->workers_needed =
            an_int_none(an_arena_format(context->arena,
                                        "%" PRId64 " if that many cores are free and nothing in "
                                        "the loader is serial: the trace does not say",
                                        needed));
    else
        loader->workers_needed =
            an_int(cores->valid && needed > cores->value ? cores->value : needed);
}

static bool is_worker(const char *name)
{
    return strstr(name, "pt_data_worker") != NULL;
}

int an_loader_torch(struct an_context *context, bool *found)
{
    const struct an_trace *trace = context->trace;
    struct an_loader *loader = &context->result->loader;
    struct torch torch = {.name = calloc(trace->string_count + 1, 1)};
    struct an_stage *rows = an_arena_zero(context->arena, TORCH_NAMES, sizeof *rows);
    int64_t inside = 0, all = 0, steps = 0;
    int rc = torch.name && rows ? 0 : TACHO_ENOMEM;
    for (uint32_t track = 0; track < trace->track_count && !rc; track++) {
        struct an_span *span;
        size_t span_count;
        if (strcmp(trace->track[track].kind, "thread") != 0)
            continue;
        torch.worker_processes += is_worker(trace->track[track].name);
        if ((rc = torch_track(trace, &trace->track[track], &torch, &span, &span_count)))
            break;
        within_steps(context, track, span, span_count, &inside, &all, &steps);
        free(span);
    }
    free(torch.name);
    loader->batches =
        torch.count[TORCH_SINGLE] + torch.count[TORCH_MULTI] + torch.count[TORCH_FRAME];
    *found = !rc && loader->batches > 0;
    if (!*found)
        return rc;
    loader->source = torch.count[TORCH_SINGLE] + torch.count[TORCH_MULTI] ? "enumerate(DataLoader)"
                                                                          : "Python frames";
    torch_stages(context, &torch, rows);
    torch_workers(context, &torch, inside, all, steps);
    const char *reason = context->result->steps.reason;
    loader->wait_ms_per_step = an_num_if(steps, (double)inside / (double)steps / 1e6,
                                         reason ? reason : "no counted steps on a known thread");
    loader->queue_depth_mean = an_num_none("the trace has no counter queue_depth");
    loader->inferred_wait_ms_per_step = an_num_none("the waits are marked");
    return 0;
}

/* ---- no marker: gaps ------------------------------------------------------------------------- */

/* Is slice i work of a host thread? Annotations and frames may lie around a wait, ops and calls do
 * not. `kind` caches of each category: 1 no, 2 yes. */
static bool is_host_work(const struct an_trace *trace, uint8_t *kind, size_t i)
{
    uint32_t category = trace->slice.category[i] < trace->string_count
                            ? trace->slice.category[i]
                            : (uint32_t)trace->string_count;
    if (!kind[category]) {
        const char *text = an_trace_name(trace, category);
        kind[category] = !strcmp(text, "op") || an_category_is_call(text) ? 2 : 1;
    }
    return kind[category] == 2;
}

/* Adds spans to the set *sum, which lives in the scratch arena. */
static int unite(struct an_context *context, struct an_span **sum, size_t *sum_count,
                 const struct an_span *span, size_t count)
{
    struct an_span *both = an_arena_zero(context->scratch, *sum_count + count, sizeof *both);
    if (!both)
        return TACHO_ENOMEM;
    *sum_count = an_spans_union(*sum, *sum_count, span, count, both);
    an_arena_give_back(context->scratch, *sum);
    *sum = both;
    return 0;
}

/* When any thread of the process was in an op or a call, or any of its devices worked. */
static int process_busy(struct an_context *context, uint32_t process, uint8_t *kind,
                        struct an_span **out, size_t *count)
{
    const struct an_trace *trace = context->trace;
    int rc = 0;
    *out = NULL;
    *count = 0;
    for (size_t device_index = 0; device_index < context->gpu->device_count && !rc;
         device_index++) {
        struct an_span *span = NULL;
        size_t span_count;
        if (context->gpu->device[device_index].process == process &&
            !(rc = an_device_spans(context->gpu, &context->gpu->device[device_index],
                                   AN_DEVICE_ALL_MASK, INT64_MIN, INT64_MAX, &span, &span_count)))
            rc = unite(context, out, count, span, span_count);
        an_arena_give_back(context->scratch, span);
    }
    for (size_t track_index = 0; track_index < trace->track_count && !rc; track_index++) {
        const struct an_track *track = &trace->track[track_index];
        size_t span_count = 0;
        if (track->process != process || strcmp(track->kind, "thread") != 0 || !track->slice_count)
            continue;
        struct an_span *span = malloc(track->slice_count * sizeof *span);
        for (size_t i = track->slice_first; span && i < track->slice_first + track->slice_count;
             i++)
            if (is_host_work(trace, kind, i))
                span[span_count++] =
                    (struct an_span){trace->slice.start[i], an_slice_end(trace, i)};
        rc = span ? unite(context, out, count, span, an_spans_normalize(span, span_count))
                  : TACHO_ENOMEM;
        free(span);
    }
    return rc;
}

/* Longest part of [start, end) that a set leaves free. */
static int64_t longest_gap(const struct an_span *span, size_t count, int64_t start, int64_t end)
{
    int64_t longest = 0, from = start;
    for (size_t i = an_spans_seek(span, count, start); i <= count; i++) {
        int64_t next = i < count && span[i].start < end ? span[i].start : end;
        if (next > from && an_time_sub(next, from) > longest)
            longest = an_time_sub(next, from);
        if (next == end)
            break;
        from = span[i].end;
    }
    return longest;
}

/* A step that waits for its batch does nothing for a while: the longest such time of each step
 * bounds the wait. */
int an_loader_infer(struct an_context *context)
{
    struct an_loader *loader = &context->result->loader;
    uint8_t *kind = calloc(context->trace->string_count + 1, 1);
    int64_t sum = 0, steps = 0;
    int rc = kind ? 0 : TACHO_ENOMEM;
    for (size_t lane_index = 0; lane_index < context->lane_count && !rc; lane_index++) {
        const struct an_lane *lane = &context->lane[lane_index];
        struct an_span *busy;
        size_t busy_count;
        rc = process_busy(context, lane->process, kind, &busy, &busy_count);
        for (size_t i = lane->first; i < lane->first + lane->count && !rc; i++) {
            const struct an_step *step = &context->step[i];
            if (!an_step_counted(step) || step->host_end == STORE_ABSENT)
                continue;
            steps++;
            sum = an_time_add(sum, longest_gap(busy, busy_count, step->host_start, step->host_end));
        }
        an_arena_give_back(context->scratch, busy);
    }
    free(kind);
    if (rc || !steps)
        return rc;
    const char *none = "the trace marks no loader; inferred_wait_ms_per_step is computed from gaps";
    loader->reason = NULL;
    loader->source = "gaps";
    loader->wait_ms_per_step = an_num_none(none);
    loader->inferred_wait_ms_per_step = an_num((double)sum / (double)steps / 1e6);
    return 0;
}
