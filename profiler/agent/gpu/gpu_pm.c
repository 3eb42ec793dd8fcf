/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling of a whole device over time. Everything here runs on the counters' thread.
 */
#include <string.h>

#include "profiler/agent/gpu/gpu_counters.h"

#define INTERVAL_NS 5000000u /* 200 samples a second */
/* About the same, where the chip triggers by cycles of its system clock only. */
#define INTERVAL_TICKS 8000000u
#define HARDWARE_BYTES ((size_t)16 << 20)
#define SAMPLES        1024u /* a read; ten a second */

struct sampler {
    struct gpu_host host;
    void *object; /* CUPTI's; NULL: not sampled */
    struct gpu_image data;
    bool read; /* whether a sample has been read */
    uint32_t counter[GPU_HOST_METRICS];
};
static struct sampler sampler[GPU_DEVICES];

/* Stops sampling the device for good and reports where it failed. */
static bool fail(struct sampler *state, enum wire_counters_stage stage, int error)
{
    struct profiler_pm_sampler disable = {.size = PROFILER_SIZE(profiler_pm_sampler, sampler),
                                          .sampler = state->object};
    if (state->object && gpu_functions.PmSamplingDisable)
        gpu_functions.PmSamplingDisable(&disable);
    gpu_host_close(&state->host);
    gpu_image_free(&state->data);
    *state = (struct sampler){0};
    gpu_counters_fail(WIRE_COUNTERS_PM, stage, error);
    return false;
}

/* Passes on the result of a call that may have been the first of its kind. */
static int used(int rc)
{
    gpu_counters_used();
    return rc;
}

/* Whether this CUPTI has all functions that sampling needs. */
static bool complete(void)
{
    const struct profiler_functions *functions = &gpu_functions;
    return functions->DeviceGetChipName && functions->PmSamplingGetCounterAvailability &&
           functions->PmSamplingEnable && functions->PmSamplingDisable &&
           functions->PmSamplingSetConfig && functions->PmSamplingGetCounterDataSize &&
           functions->PmSamplingCounterDataImageInitialize && functions->PmSamplingStart &&
           functions->PmSamplingStop && functions->PmSamplingDecodeData &&
           functions->PmSamplingGetCounterDataInfo && functions->PmSamplingCounterDataGetSampleInfo;
}

/* Chooses the metrics of the device that fit into one pass. *stage says how far it came. */
static int open_host(struct sampler *state, int device, enum wire_counters_stage *stage)
{
    const char *chip;
    struct gpu_image image;
    struct profiler_pm_availability free_ones = {
        .size = PROFILER_SIZE(profiler_pm_availability, image), .device = (size_t)device};
    *stage = WIRE_COUNTERS_STAGE_CHIP;
    int rc = used(gpu_counters_chip(WIRE_COUNTERS_PM, device, &chip));
    if (rc)
        return rc;
    *stage = WIRE_COUNTERS_STAGE_AVAILABLE;
    if ((rc = used(gpu_functions.PmSamplingGetCounterAvailability(&free_ones))))
        return rc;
    if (!gpu_image_make(&image, free_ones.image_bytes))
        return -1;
    free_ones.image = image.at;
    if ((rc = gpu_functions.PmSamplingGetCounterAvailability(&free_ones))) {
        gpu_image_free(&image);
        return rc;
    }
    *stage = WIRE_COUNTERS_STAGE_METRICS;
    rc = gpu_host_open(&state->host, &gpu_functions, PROFILER_PM_SAMPLING, chip, image,
                       gpu_pm_metrics, GPU_PM_METRICS, 1);
    return rc || state->host.count ? rc : -1;
}

/* Sampling by time where the chip can do it, else by cycles of its clock; keeping the latest
 * samples where it can, else the oldest. */
static int configure(struct sampler *state)
{
    struct profiler_pm_config config = {.size = PROFILER_SIZE(profiler_pm_config, append),
                                        .sampler = state->object,
                                        .bytes = state->host.config.bytes,
                                        .image = state->host.config.at,
                                        .hardware_bytes = HARDWARE_BYTES,
                                        .interval = INTERVAL_NS,
                                        .trigger = PROFILER_TRIGGER_TIME,
                                        .append = PROFILER_KEEP_LATEST};
    int rc = gpu_functions.PmSamplingSetConfig(&config);
    if (!rc)
        return 0;
    config.trigger =
        PROFILER_TRIGGER_CYCLES; /* GA100 and Turing know no other; Turing keeps the oldest, too */
    config.interval = INTERVAL_TICKS;
    if ((rc = gpu_functions.PmSamplingSetConfig(&config))) {
        config.append = PROFILER_KEEP_OLDEST;
        rc = gpu_functions.PmSamplingSetConfig(&config);
    }
    return rc;
}

/* Empties the image. */
static int reset(struct sampler *state)
{
    struct profiler_pm_data image = {.size = PROFILER_SIZE(profiler_pm_data, data),
                                     .sampler = state->object,
                                     .bytes = state->data.bytes,
                                     .data = state->data.at};
    return gpu_functions.PmSamplingCounterDataImageInitialize(&image);
}

/* The memory that CUPTI decodes samples into, of the size that these metrics need. */
static int make_image(struct sampler *state)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, state->host.name, sizeof names);
    struct profiler_pm_data_bytes size = {.size = PROFILER_SIZE(profiler_pm_data_bytes, bytes),
                                          .sampler = state->object,
                                          .names = names,
                                          .count = state->host.count,
                                          .most = SAMPLES};
    int rc = gpu_functions.PmSamplingGetCounterDataSize(&size);
    if (rc)
        return rc;
    return gpu_image_make(&state->data, size.bytes) ? reset(state) : -1;
}

bool gpu_pm_look(int device)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[WIRE_COUNTERS_PM];
    struct sampler *state = &sampler[device];
    struct profiler_pm_enable enable = {.size = PROFILER_SIZE(profiler_pm_enable, sampler),
                                        .device = (size_t)device};
    enum wire_counters_stage stage;
    if (!complete())
        return fail(state, WIRE_COUNTERS_STAGE_LIBRARY, 0);
    int rc = used(open_host(state, device, &stage));
    if (rc)
        return fail(state, stage, rc);
    if ((rc = used(gpu_functions.PmSamplingEnable(&enable))))
        return fail(state, WIRE_COUNTERS_STAGE_ENABLE, rc);
    state->object = enable.sampler;
    if ((rc = used(configure(state))) || (rc = used(make_image(state))))
        return fail(state, WIRE_COUNTERS_STAGE_CONFIG, rc);
    struct profiler_pm_sampler start = {.size = PROFILER_SIZE(profiler_pm_sampler, sampler),
                                        .sampler = state->object};
    if ((rc = used(gpu_functions.PmSamplingStart(&start))))
        return fail(state, WIRE_COUNTERS_STAGE_START, rc);
    for (size_t i = 0; i < state->host.count; i++)
        state->counter[i] =
            agent_counter_own(state->host.metric[i]->name, state->host.metric[i]->unit, device);
    relaxed_store(&counters->metrics, (uint32_t)state->host.count);
    relaxed_store(&counters->passes, (uint32_t)state->host.passes);
    atomic_store_explicit(&counters->state, WIRE_COUNTERS_ON, memory_order_release);
    return true;
}

/* One sample: a value of each metric, at the time of its end. */
static int read_sample(struct sampler *state, size_t index)
{
    struct profiler_pm_sample sample = {.size = PROFILER_SIZE(profiler_pm_sample, end),
                                        .sampler = state->object,
                                        .data = state->data.at,
                                        .data_bytes = state->data.bytes,
                                        .index = index};
    double value[GPU_HOST_METRICS];
    int rc = gpu_functions.PmSamplingCounterDataGetSampleInfo(&sample);
    if (rc || (rc = gpu_host_values(&state->host, state->data.at, state->data.bytes, index, value)))
        return rc;
    uint64_t time = gpu_counters_time(sample.end);
    for (size_t i = 0; i < state->host.count; i++)
        agent_counter_put(state->counter[i], value[i], time);
    relaxed_add(&agent_cuda.gpu->counters[WIRE_COUNTERS_PM].values, 1);
    return 0;
}

/* Decodes what the device has sampled since the last time and empties the image. An overflow
 * means that samples were lost in the hardware buffer. */
static void read_device(struct sampler *state)
{
    struct profiler_pm_decode decode = {.size = PROFILER_SIZE(profiler_pm_decode, overflow),
                                        .sampler = state->object,
                                        .data = state->data.at,
                                        .data_bytes = state->data.bytes};
    struct profiler_pm_info info = {.size = PROFILER_SIZE(profiler_pm_info, completed),
                                    .data = state->data.at,
                                    .data_bytes = state->data.bytes};
    int rc = gpu_functions.PmSamplingDecodeData(&decode);
    if (!state->read)
        gpu_counters_used();
    if (!rc)
        rc = gpu_functions.PmSamplingGetCounterDataInfo(&info);
    for (size_t i = 0; i < info.completed && !rc; i++) {
        rc = read_sample(state, i);
        if (!state->read)
            gpu_counters_used();
        state->read = true;
    }
    if (decode.overflow)
        relaxed_add(&agent_cuda.gpu->counters[WIRE_COUNTERS_PM].overflows, 1);
    if (rc || (rc = reset(state)))
        fail(state, WIRE_COUNTERS_STAGE_DECODE, rc);
    else if (!gpu_image_kept(&state->data))
        fail(state, WIRE_COUNTERS_STAGE_BEYOND, 0);
}

void gpu_pm_read(void)
{
    for (int i = 0; i < GPU_DEVICES; i++)
        if (sampler[i].object)
            read_device(&sampler[i]);
}

void gpu_pm_stop(void)
{
    for (int i = 0; i < GPU_DEVICES; i++) {
        struct sampler *state = &sampler[i];
        struct profiler_pm_sampler stop = {.size = PROFILER_SIZE(profiler_pm_sampler, sampler),
                                           .sampler = state->object};
        if (!state->object)
            continue;
        gpu_functions.PmSamplingStop(&stop);
        read_device(state);
        stop.sampler = state->object;
        if (state->object)
            gpu_functions.PmSamplingDisable(&stop);
        gpu_host_close(&state->host);
        gpu_image_free(&state->data);
        *state = (struct sampler){0};
    }
}
