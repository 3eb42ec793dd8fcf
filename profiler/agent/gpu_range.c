/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting over whole steps. The metrics take several passes; a pass is a step, from its begin to the begin of the next one, so
 * the steps must be alike. Meanwhile nothing is recorded on the device: tracing and counting would change each other. The step
 * is synchronised at both ends. It is done once: from the fourth step on, or in the window of --steps.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu_counters.h"

#define WARM_UP 3u /* steps that are let go by: memory pools, autotuning */

enum phase { IDLE, COUNTING, COUNTED, TOLD };

static struct {
    _Atomic uint32_t phase;
    uint32_t seen;
    struct gpu_host host;
    void *profiler; /* CUPTI's */
    uint8_t *data;
    size_t data_bytes;
    int device;
    uint64_t begin; /* of the first pass, the pool's clock */
    double value[GPU_HOST_METRICS];
} range;

static void release(void)
{
    struct profiler_range_object p = {.size = PROFILER_SIZE(profiler_range_object, profiler), .profiler = range.profiler};
    if (range.profiler)
        gpu_functions.RangeProfilerDisable(&p);
    range.profiler = NULL;
    free(range.data);
    range.data = NULL;
}

static void fail(enum wire_counters_stage stage, int error)
{
    release();
    gpu_counters_fail(WIRE_COUNTERS_RANGE, stage, error);
    atomic_store_explicit(&range.phase, TOLD, memory_order_release);
    agent_cupti_pause(false);
}

static bool complete(void)
{
    const struct profiler_functions *f = &gpu_functions;
    return f->DeviceGetChipName && f->RangeProfilerEnable && f->RangeProfilerDisable && f->RangeProfilerGetCounterDataSize &&
           f->RangeProfilerCounterDataImageInitialize && f->RangeProfilerSetConfig && f->RangeProfilerStart &&
           f->RangeProfilerStop && f->RangeProfilerPushRange && f->RangeProfilerPopRange && f->RangeProfilerDecodeData &&
           gpu_driver.current && gpu_driver.current_device && gpu_driver.synchronize;
}

static int open_host(void *context, enum wire_counters_stage *stage)
{
    const char *chip;
    struct profiler_availability counters = {.size = PROFILER_SIZE(profiler_availability, image), .context = context};
    *stage = WIRE_COUNTERS_STAGE_CHIP;
    int rc = gpu_counters_chip(WIRE_COUNTERS_RANGE, range.device, &chip);
    if (rc)
        return rc;
    *stage = WIRE_COUNTERS_STAGE_AVAILABLE;
    if (gpu_functions.ProfilerGetCounterAvailability) {
        if ((rc = gpu_functions.ProfilerGetCounterAvailability(&counters)))
            return rc;
        counters.image = malloc(counters.image_bytes ? counters.image_bytes : 1);
        rc = counters.image ? gpu_functions.ProfilerGetCounterAvailability(&counters) : -1;
    }
    if (!rc) {
        *stage = WIRE_COUNTERS_STAGE_METRICS;
        rc = gpu_host_open(&range.host, &gpu_functions, PROFILER_RANGE, chip, counters.image, gpu_range_metrics,
                           GPU_RANGE_METRICS, 0);
    }
    free(counters.image);
    return rc ? rc : range.host.count ? 0 : -1;
}

static int make_image(void)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, range.host.name, sizeof names);
    struct profiler_range_data_bytes size = {.size = PROFILER_SIZE(profiler_range_data_bytes, bytes),
                                             .profiler = range.profiler,
                                             .names = names,
                                             .count = range.host.count,
                                             .ranges = 1,
                                             .nodes = 1};
    int rc = gpu_functions.RangeProfilerGetCounterDataSize(&size);
    if (rc)
        return rc;
    range.data_bytes = size.bytes;
    range.data = calloc(size.bytes ? size.bytes : 1, 1);
    struct profiler_range_data image = {
        .size = PROFILER_SIZE(profiler_range_data, data), .profiler = range.profiler, .bytes = size.bytes, .data = range.data};
    return range.data ? gpu_functions.RangeProfilerCounterDataImageInitialize(&image) : -1;
}

static int configure(void)
{
    struct profiler_range_config p = {.size = PROFILER_SIZE(profiler_range_config, level),
                                      .profiler = range.profiler,
                                      .bytes = range.host.config_bytes,
                                      .image = range.host.config,
                                      .data_bytes = range.data_bytes,
                                      .data = range.data,
                                      .range = PROFILER_USER_RANGE,
                                      .replay = PROFILER_USER_REPLAY,
                                      .ranges_a_pass = 1,
                                      .levels = 1,
                                      .least_level = 1,
                                      .level = 1};
    return gpu_functions.RangeProfilerSetConfig(&p);
}

static int start_pass(void)
{
    struct profiler_range_object start = {.size = PROFILER_SIZE(profiler_range_object, profiler), .profiler = range.profiler};
    struct profiler_range_push push = {
        .size = PROFILER_SIZE(profiler_range_push, name), .profiler = range.profiler, .name = "step"};
    int rc = gpu_driver.synchronize();
    if (!rc)
        rc = gpu_functions.RangeProfilerStart(&start);
    return rc ? rc : gpu_functions.RangeProfilerPushRange(&push);
}

static int end_pass(bool *all)
{
    struct profiler_range_object pop = {.size = PROFILER_SIZE(profiler_range_object, profiler), .profiler = range.profiler};
    struct profiler_range_stop stop = {.size = PROFILER_SIZE(profiler_range_stop, all_passes), .profiler = range.profiler};
    int rc = gpu_driver.synchronize();
    if (!rc)
        rc = gpu_functions.RangeProfilerPopRange(&pop);
    if (!rc)
        rc = gpu_functions.RangeProfilerStop(&stop);
    *all = stop.all_passes;
    return rc;
}

static void begin(void)
{
    struct wire_gpu_counters *c = &agent_cuda.gpu->counters[WIRE_COUNTERS_RANGE];
    struct profiler_range_enable enable = {.size = PROFILER_SIZE(profiler_range_enable, profiler)};
    enum wire_counters_stage stage;
    if (!complete()) {
        fail(WIRE_COUNTERS_STAGE_LIBRARY, 0);
        return;
    }
    /* without a context the real library does not return an error but dies */
    if (gpu_driver.current(&enable.context) || !enable.context || gpu_driver.current_device(&range.device))
        return;
    agent_cupti_pause(true);
    int rc = open_host(enable.context, &stage);
    if (!rc) {
        stage = WIRE_COUNTERS_STAGE_ENABLE;
        rc = gpu_functions.RangeProfilerEnable(&enable);
        range.profiler = rc ? NULL : enable.profiler;
    }
    if (!rc) {
        stage = WIRE_COUNTERS_STAGE_CONFIG;
        rc = make_image();
        rc = rc ? rc : configure();
    }
    if (!rc) {
        stage = WIRE_COUNTERS_STAGE_START;
        range.begin = agent_now();
        rc = start_pass();
    }
    if (rc) {
        fail(stage, rc);
        return;
    }
    atomic_store_explicit(&c->metrics, (uint32_t)range.host.count, memory_order_relaxed);
    atomic_store_explicit(&c->passes, (uint32_t)range.host.passes, memory_order_relaxed);
    atomic_store_explicit(&range.phase, COUNTING, memory_order_relaxed);
}

static void go_on(void)
{
    struct profiler_range_decode decode = {.size = PROFILER_SIZE(profiler_range_decode, dropped), .profiler = range.profiler};
    bool all = false;
    int rc = end_pass(&all);
    if (!rc && !all)
        rc = start_pass();
    if (rc) {
        fail(WIRE_COUNTERS_STAGE_START, rc);
        return;
    }
    if (!all)
        return;
    rc = gpu_functions.RangeProfilerDecodeData(&decode);
    if (!rc)
        rc = gpu_host_values(&range.host, range.data, range.data_bytes, 0, range.value);
    if (rc || decode.dropped) {
        fail(WIRE_COUNTERS_STAGE_DECODE, rc);
        return;
    }
    release();
    atomic_store_explicit(&range.phase, COUNTED, memory_order_release);
    agent_cupti_pause(false);
}

void gpu_range_step(uint64_t index)
{
    uint32_t phase = atomic_load_explicit(&range.phase, memory_order_relaxed);
    uint32_t state = atomic_load_explicit(&agent_cuda.gpu->counters[WIRE_COUNTERS_RANGE].state, memory_order_relaxed);
    if (state == WIRE_COUNTERS_OFF || state == WIRE_COUNTERS_FAILED || phase >= COUNTED)
        return;
    if (phase == COUNTING)
        go_on();
    else if (range.seen++ >= WARM_UP && agent_cupti_wanted(index))
        begin();
}

bool gpu_range_busy(void)
{
    return atomic_load_explicit(&range.phase, memory_order_relaxed) == COUNTING;
}

void gpu_range_read(void)
{
    struct wire_gpu_counters *c = &agent_cuda.gpu->counters[WIRE_COUNTERS_RANGE];
    if (atomic_load_explicit(&range.phase, memory_order_acquire) != COUNTED)
        return;
    for (size_t i = 0; i < range.host.count; i++)
        agent_counter_put(agent_counter_own(range.host.metric[i]->name, range.host.metric[i]->unit, range.device),
                          range.value[i], range.begin);
    atomic_fetch_add_explicit(&c->values, 1, memory_order_relaxed);
    atomic_store_explicit(&c->state, WIRE_COUNTERS_ON, memory_order_release);
    atomic_store_explicit(&range.phase, TOLD, memory_order_relaxed);
}

/* A count that is under way when the process ends is given up with the process. */
void gpu_range_stop(void)
{
    gpu_range_read();
}
