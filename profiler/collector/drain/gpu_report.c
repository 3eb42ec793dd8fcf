/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent reports about its own start, its hardware counters and the times when another
 * profiler held the device, as run keys and losses.
 */
#include <stdio.h>

#include "profiler/collector/drain/gpu_private.h"

static const char *const stage_text[] = {
#define STAGE_TEXT(name, text) text,
    WIRE_GPU_STAGE_MAP(STAGE_TEXT)
#undef STAGE_TEXT
};

/* CUPTI's own words for the errors that people meet, and what to do about them. */
static const char *error_text(uint32_t error)
{
    switch (error) {
    case 39:
        return "another tool is attached; end Nsight or the other profiler, or start without it";
    case 35:
    case 40:
        return "not permitted; see 'tacho doctor'";
    case 26:
        return "the profiling hardware is in use; DCGM or another profiler holds it";
    case 999:
        return "unknown; does the driver fit this CUPTI? see 'tacho doctor'";
    case 15:
        return "newer than the driver; set TACHO_CUPTI to an older libcupti, or update the driver";
    case 8:
        return "out of memory";
    default:
        return "see cupti_result.h";
    }
}

/* Writes why device work is not recorded at all. */
static int report_failure(struct col_drain *drain, const struct wire_gpu *gpu)
{
    char reason[320], holder[sizeof gpu->holder + 1], tool[96] = "";
    uint32_t stage = atomic_load_explicit(&gpu->stage, memory_order_relaxed);
    uint32_t error = atomic_load_explicit(&gpu->error, memory_order_relaxed);
    snprintf(holder, sizeof holder, "%.*s", (int)sizeof gpu->holder, gpu->holder);
    if (holder[0])
        snprintf(tool, sizeof tool, " (%s)", holder);
    const char *what = stage < sizeof stage_text / sizeof *stage_text ? stage_text[stage] : "";
    if (error)
        snprintf(reason, sizeof reason, "device work not recorded: %s%s: CUPTI error %u: %s", what,
                 tool, error, error_text(error));
    else
        snprintf(reason, sizeof reason, "device work not recorded: %s", what);
    return col_drain_loss_uncounted(drain, "cupti", reason);
}

/* Writes the kinds of activity that could not be enabled. */
static int report_kinds(struct col_drain *drain, const struct wire_gpu *gpu)
{
    int rc = 0;
    for (uint32_t kind = 0; kind < WIRE_GPU_KINDS && rc == 0; kind++) {
        uint32_t error = atomic_load_explicit(&gpu->kind_error[kind], memory_order_relaxed);
        char reason[160];
        if (!error)
            continue;
        snprintf(reason, sizeof reason, "activity kind %u not recorded: CUPTI error %u: %s", kind,
                 error, error_text(error));
        rc = col_drain_loss_uncounted(drain, "cupti", reason);
    }
    return rc;
}

/* Writes the versions of CUPTI and driver. */
static int report_versions(struct col_drain *drain, const struct wire_gpu *gpu)
{
    char text[sizeof gpu->library + 1];
    struct col_keys keys = {.db = drain->db};
    col_key_int(&keys, "cupti.version", gpu->cupti_version);
    snprintf(text, sizeof text, "%.*s", (int)sizeof gpu->library, gpu->library);
    col_key_text(&keys, "cupti.library", text);
    snprintf(text, sizeof text, "%d.%d", gpu->driver_version / 1000,
             gpu->driver_version % 1000 / 10);
    if (gpu->driver_version > 0)
        col_key_text(&keys, "cuda.driver", text);
    if (gpu->device_buffers) {
        snprintf(text, sizeof text, "at most %llu MiB a context (%llu buffers)",
                 (unsigned long long)(gpu->device_buffers * gpu->device_buffer_bytes >> 20),
                 (unsigned long long)gpu->device_buffers);
        col_key_text(&keys, "cupti.device_memory", text);
    }
    col_key_text(&keys, "cuda.graphs", gpu->whole_graphs ? "whole" : "nodes");
    return keys.rc;
}

int col_gpu_report_state(struct col_drain *drain, struct col_gpu *gpu)
{
    uint32_t state = gpu->head.state;
    if (gpu->state_reported || state == WIRE_GPU_STARTING)
        return 0;
    gpu->state_reported = gpu->dirty = true;
    int rc = report_versions(drain, &gpu->head);
    if (rc == 0)
        rc = report_kinds(drain, &gpu->head);
    return rc || state != WIRE_GPU_FAILED ? rc : report_failure(drain, &gpu->head);
}

/* Describes what became of hardware counter `which` in a line. */
static void counters_text(const struct wire_gpu_counters *counters, int which, uint32_t state,
                          char *text, size_t size)
{
    static const char *const units[] = {"samples", "times", "ranges"};
    static const char *const stages[] = {
#define STAGE_TEXT(name, text) text,
        WIRE_COUNTERS_STAGE_MAP(STAGE_TEXT)
#undef STAGE_TEXT
    };
    uint32_t stage = counters->stage, error = counters->error;
    const char *failed = stage < sizeof stages / sizeof *stages ? stages[stage] : "";
    if (state == WIRE_COUNTERS_ON)
        snprintf(text, size, "%.*s: %u metrics, %u %s, %llu %s", (int)sizeof counters->chip,
                 counters->chip, counters->metrics, counters->passes,
                 counters->passes == 1 ? "pass" : "passes", (unsigned long long)counters->values,
                 units[which]);
    else if (state == WIRE_COUNTERS_WAITING)
        snprintf(text, size, "nothing counted: %s",
                 which == WIRE_COUNTERS_PM
                     ? "no context was seen before the process ended (looked for every 100 ms)"
                     : "too few steps (tacho.step) with a context");
    else if (error)
        snprintf(text, size, "failed: %s: CUPTI error %u: %s", failed, error, error_text(error));
    else
        snprintf(text, size, "failed: %s", failed);
}

int col_gpu_report_counters(struct col_drain *drain, const struct wire_gpu *gpu)
{
    static const char *const keys[] = {[WIRE_COUNTERS_PM] = "counters.sampled",
                                       [WIRE_COUNTERS_RANGE] = "counters.roofline",
                                       [WIRE_COUNTERS_PARTS] = "counters.ranges"};
    int rc = 0;
    for (int i = 0; i < WIRE_COUNTERS && rc == 0; i++) {
        const struct wire_gpu_counters *counters = &gpu->counters[i];
        uint32_t state = atomic_load_explicit(&counters->state, memory_order_acquire);
        char text[320];
        if (state == WIRE_COUNTERS_OFF)
            continue;
        counters_text(counters, i, state, text, sizeof text);
        rc = store_run_set(drain->db, keys[i], text);
        if (rc == 0 && state != WIRE_COUNTERS_ON)
            rc = col_drain_loss_uncounted(drain, keys[i], text);
        if (rc == 0 && counters->overflows)
            rc = col_drain_loss_uncounted(drain, keys[i],
                                          "samples overwritten before they were read");
    }
    return rc;
}

int col_gpu_report_gaps(struct col_drain *drain, struct col_gpu *gpu, int64_t now)
{
    uint32_t gaps = gpu->head.gaps;
    int rc = 0;
    if (gaps > gpu->gaps_reported + WIRE_GPU_GAPS)
        gpu->gaps_reported = gaps - WIRE_GPU_GAPS;
    while (gpu->gaps_reported < gaps && rc == 0) {
        const struct wire_gpu_gap *gap = &gpu->head.gap[gpu->gaps_reported % WIRE_GPU_GAPS];
        int64_t end = atomic_load_explicit(&gap->t1, memory_order_acquire);
        if (!end && now == STORE_ABSENT)
            break;
        rc = col_drain_loss(
            drain, "cupti",
            "device work not recorded: another profiler of the process (torch.profiler, "
            "jax.profiler) had it",
            STORE_ABSENT, atomic_load_explicit(&gap->t0, memory_order_acquire), end ? end : now);
        gpu->gaps_reported++;
        gpu->dirty = true;
    }
    return rc;
}

/* When a second stream was first used while waits were not recorded, by the rows in the file;
 * STORE_ABSENT: it was not, or no more than a library's start does. One stream has the most ops;
 * all others count. */
static int64_t second_stream(const struct col_gpu *gpu)
{
    const struct col_gpu_stream *most = NULL;
    int64_t others = 0, first = STORE_ABSENT;
    for (uint32_t i = 0; i < gpu->stream_count; i++)
        if (!most || gpu->stream[i].ops > most->ops)
            most = &gpu->stream[i];
    for (uint32_t i = 0; i < gpu->stream_count; i++) {
        const struct col_gpu_stream *stream = &gpu->stream[i];
        if (stream == most || !stream->ops)
            continue;
        others += stream->ops;
        if (first == STORE_ABSENT || stream->first < first)
            first = stream->first;
    }
    return others >= (int64_t)WIRE_GPU_SECOND_STREAM ? first : STORE_ABSENT;
}

/* Writes a time as ns since the process began: times of a file move when it is merged with others.
 */
static int write_since(struct col_drain *drain, const struct col_pool *pool, const char *name,
                       int64_t time)
{
    char key[64];
    snprintf(key, sizeof key, "process.%lld.%s", (long long)pool->process->id, name);
    return store_run_set_int(drain->db, key, time - pool->process->start);
}

/* Says between which times waits were not recorded, so that an analysis infers them there. */
static int write_waits(struct col_drain *drain, struct col_pool *pool, int64_t until, int64_t from)
{
    struct col_gpu *gpu = pool->gpu;
    int rc = 0;
    if (until && until != gpu->waits_until)
        rc = write_since(drain, pool, "waits_off_ns", until);
    if (rc == 0 && from && from != gpu->waits_from)
        rc = write_since(drain, pool, "waits_on_ns", from);
    gpu->waits_until = until;
    gpu->waits_from = from;
    return rc;
}

/* A process that was killed, or that made a communicator of NCCL, may have had several streams
 * without the agent's having seen them: then the rows say it. */
int col_gpu_report_waits(struct col_drain *drain, struct col_pool *pool, int64_t now)
{
    struct col_gpu *gpu = pool->gpu;
    uint64_t seen = atomic_load_explicit(&gpu->head.streams_from, memory_order_relaxed);
    int64_t until = atomic_load_explicit(&gpu->head.waits_until, memory_order_relaxed),
            from = atomic_load_explicit(&gpu->head.waits_from, memory_order_relaxed),
            begin = seen ? col_gpu_clock_ns(&gpu->clock, seen) : STORE_ABSENT;
    bool last = now != STORE_ABSENT;
    if (gpu->waits_reported || !until)
        return 0;
    int rc = write_waits(drain, pool, until, from);
    if (rc || (!last && (begin == STORE_ABSENT || !from)))
        return rc;
    gpu->waits_reported = gpu->dirty = true;
    if (!seen)
        begin = second_stream(gpu);
    if (!seen && begin == STORE_ABSENT)
        return 0;
    int64_t end = from ? from : now;
    if (begin == STORE_ABSENT || begin < until)
        begin = until;
    if (begin >= end)
        return 0;
    rc = from ? 0 : report_kinds(drain, &gpu->head);
    return rc ? rc : col_drain_loss(drain, "cupti", WIRE_GPU_WAITS_LATE, STORE_ABSENT, begin, end);
}
