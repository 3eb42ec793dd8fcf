/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVML samples of the GPUs that a run used: power, energy, clocks and what holds them back,
 * activity of their units; and what a step, a token, a sample of it costs.
 *
 * The window is the counted steps of all ranks, with the short gaps between them; where there are
 * no steps, the capture. Energy is the difference of the GPU's own counter between the ends of the
 * window (linear between samples), else power x time. A run's GPUs are those whose uuid a process
 * of it named; a run that used none has no energy, whatever the machine has.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/throttle.h"
#include "analyzers/counters/counted.h"
#include "analyzers/counters/sampled.h"
#include "analyzers/steps/recorder.h"

#define COVERED_LEAST 0.5 /* of the window: below it a mean says nothing of it */
#define GPUS          64

struct window {
    struct an_span *span;
    size_t count;
    double ns;
    int64_t updates; /* of one rank: the largest number */
    double tokens, samples;
    bool steps, tokens_known, samples_known;
};

static void hardware_absent(struct an_context *context, const char *reason)
{
    context->result->hardware.reason = context->result->energy.reason = reason;
    context->result->energy.energy_j = context->result->energy.power_w =
        context->result->energy.per_step_j = context->result->energy.per_token_j =
            context->result->energy.per_sample_j = context->result->energy.cost =
                an_num_none(reason);
}

/* ---- the window ------------------------------------------------------------------------------------------------------------ */

/* Counts the steps of the window and what they processed; tokens and samples are known only if
 * every step has them. */
static void count_steps(const struct an_context *context, struct window *window)
{
    window->tokens_known = window->samples_known = true;
    for (size_t lane = 0; lane < context->lane_count; lane++) {
        int64_t count = 0;
        for (size_t i = context->lane[lane].first; i < an_lane_end(&context->lane[lane]); i++) {
            const struct an_step *step = &context->step[i];
            if (!an_step_counted(step) || step->end == STORE_ABSENT)
                continue;
            count++;
            window->tokens_known &= step->tokens > 0;
            window->samples_known &= step->samples > 0;
            window->tokens += (double)step->tokens;
            window->samples += (double)step->samples;
        }
        window->updates = count > window->updates ? count : window->updates;
    }
}

/* Takes the counted steps of each lane, each one prolonged to the next counted step if that begins
 * within a median step; without steps the whole capture. */
static int find_window(struct an_context *context, struct window *window)
{
    const struct an_value *median = &context->result->steps.median_ms;
    int64_t bridge = median->valid && median->value < 9e12 ? (int64_t)(median->value * 1e6) : 0;
    window->span = an_arena_zero(context->scratch, context->step_count + 1, sizeof *window->span);
    if (!window->span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i],
                             *next = i + 1 < context->step_count ? step + 1 : NULL;
        if (!an_step_counted(step) || step->end == STORE_ABSENT)
            continue;
        bool joined = next && next->lane == step->lane && an_step_counted(next) &&
                      an_time_sub(next->start, step->end) < bridge;
        window->span[window->count++] =
            (struct an_span){step->start, joined ? next->start : step->end};
    }
    window->steps = window->count > 0;
    if (!window->steps && context->trace->t1 > context->trace->t0)
        window->span[window->count++] = (struct an_span){context->trace->t0, context->trace->t1};
    window->count = an_spans_normalize(window->span, window->count);
    window->ns = (double)an_spans_measure(window->span, window->count);
    count_steps(context, window);
    return 0;
}

/* ---- one GPU ---------------------------------------------------------------------------------------------------------------- */

/* Mean (or maximum) over the window. `metric`: as in the keys nvml.N.METRIC, which say why there is
 * no track. */
static struct an_sampled sample_window(const struct an_context *context,
                                       const struct window *window, const struct an_track *track)
{
    struct an_sampled all = {.max = -INFINITY};
    double area = 0, ns = 0;
    for (size_t i = 0; i < window->count; i++) {
        struct an_sampled sampled =
            an_sampled_over(context->trace, track, window->span[i].start, window->span[i].end);
        if (!sampled.samples)
            continue;
        double part =
            sampled.covered * (double)an_time_sub(window->span[i].end, window->span[i].start);
        area += sampled.mean * part;
        ns += part;
        all.max = sampled.max > all.max ? sampled.max : all.max;
        all.samples += sampled.samples;
    }
    all.mean = ns > 0 ? area / ns : NAN;
    all.covered = window->ns > 0 ? ns / window->ns : 0;
    return all;
}

static struct an_value why_not_sampled(struct an_context *context, int64_t gpu, const char *metric)
{
    char key[64];
    snprintf(key, sizeof key, "nvml.%" PRId64 ".%s", gpu, metric);
    const char *status = an_trace_key(context->trace, key);
    return an_num_none(status && strcmp(status, "ok")
                           ? an_arena_format(context->arena, "NVML: %s", status)
                           : "NVML did not sample it");
}

/* What the machine (not a process) sampled of a GPU, or NULL. */
static const struct an_track *track_of(const struct an_context *context, int64_t gpu,
                                       const char *name)
{
    char device[32];
    snprintf(device, sizeof device, "gpu:%" PRId64, gpu);
    return an_sampled_find(context->trace, AN_NONE, device, name);
}

static struct an_value metric(struct an_context *context, const struct window *window, int64_t gpu,
                              const char *name, bool highest)
{
    const struct an_track *track = track_of(context, gpu, name);
    if (!track)
        return why_not_sampled(context, gpu, name);
    struct an_sampled sampled = sample_window(context, window, track);
    if (sampled.covered < COVERED_LEAST)
        return an_num_none(
            "the samples cover too little of the steps; sample more often: --sample-ms");
    return an_num(highest ? sampled.max : sampled.mean);
}

static struct an_value key_value(struct an_context *context, int64_t gpu, const char *name)
{
    char key[64], *end = NULL;
    snprintf(key, sizeof key, "nvml.%" PRId64 ".%s", gpu, name);
    const char *text = an_trace_key(context->trace, key);
    double value = text ? strtod(text, &end) : 0;
    return text && end != text && value > 0 ? an_num(value) : an_num_none("NVML did not report it");
}

/* Keys device.P.gpu:M.uuid. */
static bool is_device_uuid(const struct an_run_key *run_key)
{
    size_t length = strlen(run_key->key);
    return !strncmp(run_key->key, "device.", 7) && length > 5 &&
           !strcmp(run_key->key + length - 5, ".uuid");
}

/* Joules in the window, by the GPU's counter. The part of it before the first reading and after the
 * last one had the mean power of the rest. */
static bool counted_energy(const struct an_context *context, const struct window *window,
                           int64_t gpu, double *joules)
{
    const struct an_track *track = track_of(context, gpu, "gpu_energy");
    double from, to, known_ns = 0;
    *joules = 0;
    if (!track || track->counter_count < 2)
        return false;
    const int64_t *time = context->trace->counter.time + track->counter_first;
    for (size_t i = 0; i < window->count; i++) {
        int64_t start = window->span[i].start > time[0] ? window->span[i].start : time[0],
                last = time[track->counter_count - 1],
                end = window->span[i].end < last ? window->span[i].end : last;
        if (end <= start)
            continue;
        if (!an_sampled_at(context->trace, track, start, &from) ||
            !an_sampled_at(context->trace, track, end, &to) || to < from)
            return false;
        *joules += to - from;
        known_ns += (double)an_time_sub(end, start);
    }
    if (!(known_ns >= COVERED_LEAST * (double)window->ns))
        return false;
    *joules *= (double)window->ns / known_ns;
    return true;
}

/* Has a process of the run a slice of this GPU (MIG)? */
static bool is_sliced(const struct an_trace *trace, const char *uuid)
{
    for (size_t i = 0; i < trace->key_count; i++) {
        char key[96];
        int stem = (int)strlen(trace->key[i].key) - (int)strlen(".uuid");
        if (!is_device_uuid(&trace->key[i]) || !*uuid || strcmp(trace->key[i].value, uuid))
            continue;
        snprintf(key, sizeof key, "%.*s.mig", stem, trace->key[i].key);
        if (an_trace_key(trace, key))
            return true;
    }
    return false;
}

static void fill_energy(struct an_context *context, const struct window *window,
                        struct an_gpu_hardware *hardware)
{
    double joules;
    if (is_sliced(context->trace, hardware->uuid)) {
        hardware->energy_j = an_num_none("the run had a slice of this GPU (MIG), and NVML measures "
                                         "the power of the whole");
    } else if (counted_energy(context, window, hardware->gpu, &joules)) {
        hardware->energy_j = an_num(joules);
        hardware->energy_source = "energy counter";
    } else if (hardware->power_w.valid) {
        hardware->energy_j = an_num(hardware->power_w.value * window->ns / 1e9);
        hardware->energy_source = "power x time";
    } else {
        hardware->energy_j = an_num_none(hardware->power_w.reason);
    }
}

static int reason_order(const void *first, const void *second)
{
    const struct an_throttle *left = first, *right = second;
    int order = AN_COMPARE(right->pct, left->pct);
    return order ? order : strcmp(left->name, right->name);
}

/* Returns the share of the sampled time of the window in which any bit of the mask was set, in per
 * cent. */
static double share_of_bits(const struct an_context *context, const struct window *window,
                            const struct an_track *track, uint64_t mask)
{
    double set = 0, all = 0;
    for (size_t i = 0; i < window->count; i++) {
        struct an_sampled_bits ns = an_sampled_bits(context->trace, track, window->span[i].start,
                                                    window->span[i].end, mask);
        set += ns.set;
        all += ns.all;
    }
    return all > 0 ? 100 * set / all : 0;
}

static int fill_throttling(struct an_context *context, const struct window *window,
                           struct an_gpu_hardware *hardware)
{
    uint64_t any = 0;
    const struct an_track *track = track_of(context, hardware->gpu, "gpu_throttle_reasons");
    if (!track || sample_window(context, window, track).covered < COVERED_LEAST) {
        hardware->throttled_pct = why_not_sampled(context, hardware->gpu, "gpu_throttle_reasons");
        return 0;
    }
    struct an_throttle *rows = an_arena_zero(context->arena, AN_THROTTLE_REASONS, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < AN_THROTTLE_REASONS; i++) {
        const struct an_throttle_reason *reason = &an_throttle_reasons[i];
        double pct = share_of_bits(context, window, track, reason->bit);
        any |= reason->bit;
        if (pct > 0)
            rows[hardware->reason_count++] = (struct an_throttle){reason->name, pct, reason->fault};
    }
    qsort(rows, hardware->reason_count, sizeof *rows, reason_order);
    hardware->reasons = rows;
    hardware->throttled_pct = an_num(share_of_bits(context, window, track, any));
    return 0;
}

/* ---- hardware counters (--counters): tracks of the process on the GPU --------------------------------------------------------- */

/* Finds a process that recorded hardware counters of this GPU: its index, and its own name for the
 * GPU (`gpu:N`). */
static bool find_owner(const struct an_trace *trace, const char *uuid, uint32_t *owner,
                       char *device, size_t size)
{
    for (uint32_t process = 0; process < trace->process_count; process++)
        for (int number = 0; number < GPUS; number++) {
            char key[64];
            snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%d.uuid", trace->process[process].id,
                     number);
            const char *value = an_trace_key(trace, key);
            if (!value || strcmp(value, uuid))
                continue;
            snprintf(device, size, "gpu:%d", number);
            if (an_sampled_find(trace, process, device, "pm_sm_active") ||
                an_sampled_find(trace, process, device, "range_time")) {
                *owner = process;
                return true;
            }
        }
    return false;
}

struct counters {
    struct an_context *context;
    const struct window *window;
    uint32_t process; /* AN_NONE: nothing was counted */
    char device[32];
};

static const struct an_track *counter_track(const struct counters *counters, const char *name)
{
    return counters->process == AN_NONE
               ? NULL
               : an_sampled_find(counters->context->trace, counters->process, counters->device,
                                 name);
}

/* Mean over the window of what was sampled. */
static struct an_value sampled_mean(const struct counters *counters, const char *name)
{
    const struct an_track *track = counter_track(counters, name);
    if (!track)
        return an_counted_none(counters->context, "sampled");
    struct an_sampled sampled = sample_window(counters->context, counters->window, track);
    return sampled.covered >= COVERED_LEAST
               ? an_num(sampled.mean)
               : an_num_none("the samples cover too little of the steps");
}

/* The one value that was counted over steps. */
static struct an_value counted_value(void *ctx, const char *name)
{
    const struct counters *counters = ctx;
    const struct an_track *track = counter_track(counters, name);
    double value =
        track ? counters->context->trace->counter.value[track->counter_first] : (double)NAN;
    return isfinite(value) ? an_num(value) : an_counted_none(counters->context, "roofline");
}

static void fill_counted(struct an_context *context, const struct window *window,
                         struct an_gpu_hardware *hardware)
{
    struct counters counters = {.context = context, .window = window};
    if (!find_owner(context->trace, hardware->uuid, &counters.process, counters.device,
                    sizeof counters.device))
        counters.process = AN_NONE;
    hardware->pm_sm_active_pct = sampled_mean(&counters, "pm_sm_active");
    hardware->pm_tensor_active_pct = sampled_mean(&counters, "pm_tensor_active");
    hardware->pm_dram_read_pct = sampled_mean(&counters, "pm_dram_read");
    hardware->pm_dram_write_pct = sampled_mean(&counters, "pm_dram_write");
    an_counted_fill(&hardware->step, counted_value, &counters);
}

/* Fills the row of one GPU: what NVML sampled of it over the window, its limits, what was counted
 * on it, its energy, and what held its clocks back. */
static int fill_gpu(struct an_context *context, const struct window *window,
                    struct an_gpu_hardware *hardware)
{
    const struct {
        struct an_value *out;
        const char *name;
        bool highest; /* the maximum of the window, else the mean */
    } metrics[] = {{&hardware->power_w, "gpu_power", false},
                   {&hardware->clock_sm_mhz, "gpu_clock_sm", false},
                   {&hardware->temperature_max_c, "gpu_temperature", true},
                   {&hardware->memory_used_bytes, "gpu_memory_used", true},
                   {&hardware->sm_active_pct, "gpu_sm_active", false},
                   {&hardware->sm_occupancy_pct, "gpu_sm_occupancy", false},
                   {&hardware->tensor_active_pct, "gpu_tensor_active", false},
                   {&hardware->dram_active_pct, "gpu_dram_active", false},
                   {&hardware->fp32_active_pct, "gpu_fp32_active", false},
                   {&hardware->fp16_active_pct, "gpu_fp16_active", false},
                   {&hardware->fp64_active_pct, "gpu_fp64_active", false}};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        *metrics[i].out =
            metric(context, window, hardware->gpu, metrics[i].name, metrics[i].highest);
    hardware->power_limit_w = key_value(context, hardware->gpu, "power_limit_w");
    hardware->clock_sm_max_mhz = key_value(context, hardware->gpu, "max_clock_sm_mhz");
    fill_counted(context, window, hardware);
    fill_energy(context, window, hardware);
    return fill_throttling(context, window, hardware);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------ */

/* Did a process of the run name this GPU as its own? */
static bool is_used(const struct an_trace *trace, const char *uuid)
{
    for (size_t i = 0; i < trace->key_count; i++)
        if (is_device_uuid(&trace->key[i]) && *uuid && !strcmp(trace->key[i].value, uuid))
            return true;
    return false;
}

/* Divides the energy by the steps, tokens and samples of the window. */
static void divide_energy(struct an_energy *energy, const struct window *window, double joules)
{
    energy->per_step_j = an_num(joules / (double)window->updates);
    energy->per_token_j = window->tokens_known ? an_num(joules / window->tokens)
                                               : an_num_none("the steps do not say their tokens");
    energy->per_sample_j = window->samples_known
                               ? an_num(joules / window->samples)
                               : an_num_none("the steps do not say their samples");
}

/* Sums the energy of the run's GPUs and divides it by steps, tokens and samples. If one GPU has no
 * energy, the sum has none. */
static void sum_energy(struct an_context *context, const struct window *window)
{
    struct an_energy *energy = &context->result->energy;
    double joules = 0;
    for (size_t i = 0; i < context->result->hardware_gpu_count; i++) {
        const struct an_gpu_hardware *hardware = &context->result->hardware_gpus[i];
        if (!hardware->energy_j.valid) {
            const char *reason = an_arena_format(
                context->arena, "gpu:%" PRId64 " reports neither energy nor power: %.200s",
                hardware->gpu, hardware->energy_j.reason);
            struct an_value none = an_num_none(reason);
            *energy = (struct an_energy){reason, none, none, none, none, none, none, 0};
            return;
        }
        joules += hardware->energy_j.value;
    }
    const char *no_steps =
        context->result->steps.reason ? context->result->steps.reason : "no counted steps";
    energy->steps = window->updates;
    energy->energy_j = an_num(joules);
    energy->power_w =
        window->ns > 0 ? an_num(joules / (window->ns / 1e9)) : an_num_none("no time passed");
    energy->per_step_j = energy->per_token_j = energy->per_sample_j = an_num_none(no_steps);
    if (window->updates)
        divide_energy(energy, window, joules);
    energy->cost = context->options->price_per_kwh > 0
                       ? an_num(joules / 3.6e6 * context->options->price_per_kwh)
                       : an_num_none("no price was given; --price-kwh PRICE");
}

/* Fills one row for each sampled GPU that a process of the run used, and the sums over them. */
static int hardware_run(struct an_context *context)
{
    struct window window = {0};
    bool sampled = false;
    struct an_gpu_hardware *rows = an_arena_zero(context->arena, GPUS, sizeof *rows);
    size_t count = 0;
    if (!rows || find_window(context, &window))
        return TACHO_ENOMEM;
    for (int64_t gpu = 0; gpu < GPUS; gpu++) {
        char key[32];
        snprintf(key, sizeof key, "nvml.%" PRId64 ".uuid", gpu);
        const char *uuid = an_trace_key(context->trace, key);
        sampled |= uuid != NULL;
        if (!uuid || !is_used(context->trace, uuid))
            continue;
        snprintf(key, sizeof key, "nvml.%" PRId64 ".name", gpu);
        const char *name = an_trace_key(context->trace, key);
        rows[count] =
            (struct an_gpu_hardware){.gpu = gpu,
                                     .name = an_arena_text(context->arena, name ? name : ""),
                                     .uuid = an_arena_text(context->arena, uuid)};
        if (fill_gpu(context, &window, &rows[count++]))
            return TACHO_ENOMEM;
    }
    if (!count) {
        static const char *const why[2][2] = {
            {"no accelerator in this run", "no process of the run used a GPU of this machine"},
            {"NVML was not sampled; record with tacho run on a machine with the NVIDIA driver",
             "NVML samples none of the run's devices"}};
        const char *reason = why[context->gpu != NULL][sampled];
        hardware_absent(context, context->gpu ? an_say(context, AN_SAY_CLOCKS, reason) : reason);
        return 0;
    }
    context->result->hardware_gpus = rows;
    context->result->hardware_gpu_count = count;
    sum_energy(context, &window);
    return 0;
}

const struct an_analyzer an_hardware = {
    .name = "hardware",
    .help = "power, energy, clocks, throttling and activity of GPUs",
    .after = "steps",
    .run = hardware_run,
    .absent = hardware_absent,
};
