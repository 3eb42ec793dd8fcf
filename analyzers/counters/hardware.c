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

#include "analyzers/counters/counted.h"
#include "analyzers/counters/sampled.h"

#define COVERED_LEAST 0.5 /* of the window: below it a mean says nothing of it */
#define GPUS          64

/* Bits of nvmlClocksEventReasons (NVML API reference); fault: nobody's choice. */
static const struct {
    uint64_t bit;
    const char *name;
    bool fault;
} reasons[] = {
    {0x002, "clocks set by an application", false},
    {0x004, "power cap", false},
    {0x008, "hardware slowdown", true},
    {0x010, "sync boost group", false},
    {0x020, "heat (software)", true},
    {0x040, "heat (hardware)", true},
    {0x080, "power brake", true},
    {0x100, "display clocks", false},
};
#define REASONS (sizeof reasons / sizeof *reasons)

struct window {
    struct an_span *span;
    size_t count;
    double ns;
    int64_t updates; /* of one rank: the largest number */
    double tokens, samples;
    bool steps, tokens_known, samples_known;
};

static void hardware_absent(struct an_context *c, const char *reason)
{
    c->r->hardware.reason = c->r->energy.reason = reason;
    c->r->energy.energy_j = c->r->energy.power_w = c->r->energy.per_step_j =
        c->r->energy.per_token_j = c->r->energy.per_sample_j = c->r->energy.cost =
            an_num_none(reason);
}

/* ---- the window ------------------------------------------------------------------------------------------------------------ */

static void count_steps(const struct an_context *c, struct window *w)
{
    w->tokens_known = w->samples_known = true;
    for (size_t l = 0; l < c->lane_count; l++) {
        int64_t n = 0;
        for (size_t i = c->lane[l].first; i < c->lane[l].first + c->lane[l].count; i++) {
            const struct an_step *s = &c->step[i];
            if (!an_step_counted(s) || s->end == STORE_ABSENT)
                continue;
            n++;
            w->tokens_known &= s->tokens > 0;
            w->samples_known &= s->samples > 0;
            w->tokens += (double)s->tokens;
            w->samples += (double)s->samples;
        }
        w->updates = n > w->updates ? n : w->updates;
    }
}

/* Steps of each lane, each prolonged to the next counted one if that begins within a median step.
 */
static int find_window(struct an_context *c, struct window *w)
{
    const struct an_value *median = &c->r->steps.median_ms;
    int64_t bridge = median->valid && median->value < 9e12 ? (int64_t)(median->value * 1e6) : 0;
    w->span = an_arena_zero(c->work, c->step_count + 1, sizeof *w->span);
    if (!w->span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i], *next = i + 1 < c->step_count ? s + 1 : NULL;
        if (!an_step_counted(s) || s->end == STORE_ABSENT)
            continue;
        bool joined = next && next->lane == s->lane && an_step_counted(next) &&
                      an_time_sub(next->start, s->end) < bridge;
        w->span[w->count++] = (struct an_span){s->start, joined ? next->start : s->end};
    }
    w->steps = w->count > 0;
    if (!w->steps && c->t->t1 > c->t->t0)
        w->span[w->count++] = (struct an_span){c->t->t0, c->t->t1};
    w->count = an_spans_normalize(w->span, w->count);
    w->ns = (double)an_spans_measure(w->span, w->count);
    count_steps(c, w);
    return 0;
}

/* ---- one GPU ---------------------------------------------------------------------------------------------------------------- */

/* Mean (or maximum) over the window. `metric`: as in the keys nvml.N.METRIC, which say why there is
 * no track. */
static struct an_sampled over(const struct an_context *c, const struct window *w,
                              const struct an_track *k)
{
    struct an_sampled all = {.max = -INFINITY};
    double area = 0, ns = 0;
    for (size_t i = 0; i < w->count; i++) {
        struct an_sampled x = an_sampled_over(c->t, k, w->span[i].start, w->span[i].end);
        if (!x.samples)
            continue;
        double part = x.covered * (double)an_time_sub(w->span[i].end, w->span[i].start);
        area += x.mean * part;
        ns += part;
        all.max = x.max > all.max ? x.max : all.max;
        all.samples += x.samples;
    }
    all.mean = ns > 0 ? area / ns : NAN;
    all.covered = w->ns > 0 ? ns / w->ns : 0;
    return all;
}

static struct an_value why(struct an_context *c, int64_t gpu, const char *metric)
{
    char key[64];
    snprintf(key, sizeof key, "nvml.%" PRId64 ".%s", gpu, metric);
    const char *status = an_trace_key(c->t, key);
    return an_num_none(status && strcmp(status, "ok") ? an_arena_format(c->a, "NVML: %s", status)
                                                      : "NVML did not sample it");
}

/* What the machine (not a process) sampled of a GPU, or NULL. */
static const struct an_track *track_of(const struct an_context *c, int64_t gpu, const char *name)
{
    char device[32];
    snprintf(device, sizeof device, "gpu:%" PRId64, gpu);
    return an_sampled_find(c->t, AN_NONE, device, name);
}

static struct an_value metric(struct an_context *c, const struct window *w, int64_t gpu,
                              const char *name, bool highest)
{
    const struct an_track *k = track_of(c, gpu, name);
    if (!k)
        return why(c, gpu, name);
    struct an_sampled x = over(c, w, k);
    if (x.covered < COVERED_LEAST)
        return an_num_none(
            "the samples cover too little of the steps; sample more often: --sample-ms");
    return an_num(highest ? x.max : x.mean);
}

static struct an_value key_value(struct an_context *c, int64_t gpu, const char *name)
{
    char key[64], *end = NULL;
    snprintf(key, sizeof key, "nvml.%" PRId64 ".%s", gpu, name);
    const char *text = an_trace_key(c->t, key);
    double v = text ? strtod(text, &end) : 0;
    return text && end != text && v > 0 ? an_num(v) : an_num_none("NVML did not say");
}

/* Joules in the window, by the GPU's counter. */
static bool counted_energy(const struct an_context *c, const struct window *w, int64_t gpu,
                           double *joules)
{
    const struct an_track *k = track_of(c, gpu, "gpu_energy");
    double from, to;
    *joules = 0;
    for (size_t i = 0; k && i < w->count; i++) {
        if (!an_sampled_at(c->t, k, w->span[i].start, &from) ||
            !an_sampled_at(c->t, k, w->span[i].end, &to) || to < from)
            return false;
        *joules += to - from;
    }
    return k && w->count;
}

static void energy(struct an_context *c, const struct window *w, struct an_gpu_hardware *g)
{
    double joules;
    if (counted_energy(c, w, g->gpu, &joules)) {
        g->energy_j = an_num(joules);
        g->energy_source = "energy counter";
    } else if (g->power_w.valid) {
        g->energy_j = an_num(g->power_w.value * w->ns / 1e9);
        g->energy_source = "power x time";
    } else {
        g->energy_j = an_num_none(g->power_w.reason);
    }
}

static int reason_order(const void *x, const void *y)
{
    const struct an_throttle *a = x, *b = y;
    return a->pct != b->pct ? a->pct > b->pct ? -1 : 1 : strcmp(a->name, b->name);
}

/* Share of the window's samples in which any bit of the mask was set. */
static double held(const struct an_context *c, const struct window *w, const struct an_track *k,
                   uint64_t mask)
{
    double set = 0, all = 0;
    for (size_t i = 0; i < w->count; i++) {
        struct an_sampled_bits ns =
            an_sampled_bits(c->t, k, w->span[i].start, w->span[i].end, mask);
        set += ns.set;
        all += ns.all;
    }
    return all > 0 ? 100 * set / all : 0;
}

static int throttling(struct an_context *c, const struct window *w, struct an_gpu_hardware *g)
{
    uint64_t any = 0;
    const struct an_track *k = track_of(c, g->gpu, "gpu_throttle_reasons");
    if (!k || over(c, w, k).covered < COVERED_LEAST) {
        g->throttled_pct = why(c, g->gpu, "gpu_throttle_reasons");
        return 0;
    }
    struct an_throttle *rows = an_arena_zero(c->a, REASONS, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < REASONS; i++) {
        double pct = held(c, w, k, reasons[i].bit);
        any |= reasons[i].bit;
        if (pct > 0)
            rows[g->reason_count++] = (struct an_throttle){reasons[i].name, pct, reasons[i].fault};
    }
    qsort(rows, g->reason_count, sizeof *rows, reason_order);
    g->reasons = rows;
    g->throttled_pct = an_num(held(c, w, k, any));
    return 0;
}

/* ---- counters that were asked for: tracks of the process on the GPU --------------------------------------------------------- */

/* Where a process has this GPU: its index and its own name for the GPU. */
static bool owner(const struct an_trace *t, const char *uuid, uint32_t *process, char *device,
                  size_t size)
{
    for (uint32_t p = 0; p < t->process_count; p++)
        for (int m = 0; m < GPUS; m++) {
            char key[64];
            snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%d.uuid", t->process[p].id, m);
            const char *value = an_trace_key(t, key);
            if (!value || strcmp(value, uuid))
                continue;
            snprintf(device, size, "gpu:%d", m);
            if (an_sampled_find(t, p, device, "pm_sm_active") ||
                an_sampled_find(t, p, device, "range_time")) {
                *process = p;
                return true;
            }
        }
    return false;
}

struct counters {
    struct an_context *c;
    const struct window *w;
    uint32_t process; /* AN_NONE: nothing was counted */
    char device[32];
};

/* Mean over the window of what was sampled. */
static struct an_value pm(const struct counters *x, const char *name)
{
    const struct an_track *k =
        x->process == AN_NONE ? NULL : an_sampled_find(x->c->t, x->process, x->device, name);
    if (!k)
        return an_counted_none(x->c, "sampled");
    struct an_sampled m = over(x->c, x->w, k);
    return m.covered >= COVERED_LEAST ? an_num(m.mean)
                                      : an_num_none("the samples cover too little of the steps");
}

/* The one value that was counted over steps. */
static struct an_value counted(void *ctx, const char *name)
{
    const struct counters *x = ctx;
    const struct an_track *k =
        x->process == AN_NONE ? NULL : an_sampled_find(x->c->t, x->process, x->device, name);
    if (!k || !isfinite(x->c->t->counter.value[k->counter_first]))
        return an_counted_none(x->c, "roofline");
    return an_num(x->c->t->counter.value[k->counter_first]);
}

static void count(struct an_context *c, const struct window *w, struct an_gpu_hardware *g)
{
    struct counters x = {.c = c, .w = w};
    if (!owner(c->t, g->uuid, &x.process, x.device, sizeof x.device))
        x.process = AN_NONE;
    g->pm_sm_active_pct = pm(&x, "pm_sm_active");
    g->pm_tensor_active_pct = pm(&x, "pm_tensor_active");
    g->pm_dram_read_pct = pm(&x, "pm_dram_read");
    g->pm_dram_write_pct = pm(&x, "pm_dram_write");
    an_counted_fill(&g->step, counted, &x);
}

static int look_at(struct an_context *c, const struct window *w, struct an_gpu_hardware *g)
{
    count(c, w, g);
    g->power_w = metric(c, w, g->gpu, "gpu_power", false);
    g->power_limit_w = key_value(c, g->gpu, "power_limit_w");
    g->clock_sm_mhz = metric(c, w, g->gpu, "gpu_clock_sm", false);
    g->clock_sm_max_mhz = key_value(c, g->gpu, "max_clock_sm_mhz");
    g->temperature_max_c = metric(c, w, g->gpu, "gpu_temperature", true);
    g->memory_used_bytes = metric(c, w, g->gpu, "gpu_memory_used", true);
    g->sm_active_pct = metric(c, w, g->gpu, "gpu_sm_active", false);
    g->sm_occupancy_pct = metric(c, w, g->gpu, "gpu_sm_occupancy", false);
    g->tensor_active_pct = metric(c, w, g->gpu, "gpu_tensor_active", false);
    g->dram_active_pct = metric(c, w, g->gpu, "gpu_dram_active", false);
    g->fp32_active_pct = metric(c, w, g->gpu, "gpu_fp32_active", false);
    g->fp16_active_pct = metric(c, w, g->gpu, "gpu_fp16_active", false);
    g->fp64_active_pct = metric(c, w, g->gpu, "gpu_fp64_active", false);
    energy(c, w, g);
    return throttling(c, w, g);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------ */

/* Keys device.P.gpu:M.uuid. */
static bool is_device_uuid(const struct an_run_key *k)
{
    size_t n = strlen(k->key);
    return !strncmp(k->key, "device.", 7) && n > 5 && !strcmp(k->key + n - 5, ".uuid");
}

/* Did a process of the run name this GPU as its own? */
static bool used(const struct an_trace *t, const char *uuid)
{
    for (size_t i = 0; i < t->key_count; i++)
        if (is_device_uuid(&t->key[i]) && *uuid && !strcmp(t->key[i].value, uuid))
            return true;
    return false;
}

static void sum_energy(struct an_context *c, const struct window *w)
{
    struct an_energy *e = &c->r->energy;
    double joules = 0;
    for (size_t i = 0; i < c->r->hardware_gpu_count; i++) {
        const struct an_gpu_hardware *g = &c->r->hardware_gpus[i];
        if (!g->energy_j.valid) {
            const char *reason =
                an_arena_format(c->a, "gpu:%" PRId64 " tells neither energy nor power: %.200s",
                                g->gpu, g->energy_j.reason);
            struct an_value none = an_num_none(reason);
            *e = (struct an_energy){reason, none, none, none, none, none, none, 0};
            return;
        }
        joules += g->energy_j.value;
    }
    const char *no_steps = c->r->steps.reason ? c->r->steps.reason : "no counted steps";
    e->steps = w->updates;
    e->energy_j = an_num(joules);
    e->power_w = w->ns > 0 ? an_num(joules / (w->ns / 1e9)) : an_num_none("no time passed");
    e->per_step_j = w->updates ? an_num(joules / (double)w->updates) : an_num_none(no_steps);
    e->per_token_j = !w->updates       ? an_num_none(no_steps)
                     : w->tokens_known ? an_num(joules / w->tokens)
                                       : an_num_none("the steps do not say their tokens");
    e->per_sample_j = !w->updates        ? an_num_none(no_steps)
                      : w->samples_known ? an_num(joules / w->samples)
                                         : an_num_none("the steps do not say their samples");
    e->cost = c->o->price_per_kwh > 0 ? an_num(joules / 3.6e6 * c->o->price_per_kwh)
                                      : an_num_none("no price was given; --price-kwh PRICE");
}

static int hardware_run(struct an_context *c)
{
    struct window w = {0};
    bool sampled = false;
    struct an_gpu_hardware *rows = an_arena_zero(c->a, GPUS, sizeof *rows);
    size_t n = 0;
    if (!rows || find_window(c, &w))
        return TACHO_ENOMEM;
    for (int64_t gpu = 0; gpu < GPUS; gpu++) {
        char key[32];
        snprintf(key, sizeof key, "nvml.%" PRId64 ".uuid", gpu);
        const char *uuid = an_trace_key(c->t, key);
        sampled |= uuid != NULL;
        if (!uuid || !used(c->t, uuid))
            continue;
        snprintf(key, sizeof key, "nvml.%" PRId64 ".name", gpu);
        const char *name = an_trace_key(c->t, key);
        rows[n] = (struct an_gpu_hardware){.gpu = gpu,
                                           .name = an_arena_text(c->a, name ? name : ""),
                                           .uuid = an_arena_text(c->a, uuid)};
        if (look_at(c, &w, &rows[n++]))
            return TACHO_ENOMEM;
    }
    if (!n) {
        hardware_absent(c, !c->gpu   ? sampled ? "no process of the run used a GPU of this machine"
                                               : "no accelerator in this run"
                           : sampled ? "the run's devices are none of those that NVML samples"
                                     : "NVML was not sampled; record with tacho run on a machine "
                                       "with the NVIDIA driver");
        return 0;
    }
    c->r->hardware_gpus = rows;
    c->r->hardware_gpu_count = n;
    sum_energy(c, &w);
    return 0;
}

const struct an_analyzer an_hardware = {"hardware",
                                        "power, energy, clocks, throttling and activity of GPUs", 0,
                                        hardware_run, hardware_absent};
