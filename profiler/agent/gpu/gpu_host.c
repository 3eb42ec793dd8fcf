/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/agent/gpu/gpu_host.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool gpu_host_functions(struct profiler_functions *functions, void *library)
{
#define LOOK_UP(name, type) \
    functions->name = (int (*)(struct type *))(uintptr_t)dlsym(library, "cupti" #name);
    PROFILER_FUNCTION_MAP(LOOK_UP)
#undef LOOK_UP
    return functions->ProfilerHostInitialize && functions->ProfilerHostDeinitialize &&
           functions->ProfilerHostGetMetricProperties && functions->ProfilerHostConfigAddMetrics &&
           functions->ProfilerHostGetConfigImageSize && functions->ProfilerHostGetConfigImage &&
           functions->ProfilerHostGetNumOfPasses && functions->ProfilerHostEvaluateToGpuValues;
}

static int object_open(const struct profiler_functions *functions, int type, const char *chip,
                       const uint8_t *availability, void **object)
{
    struct profiler_host_open open = {.size = PROFILER_SIZE(profiler_host_open, host),
                                      .type = type,
                                      .chip = chip,
                                      .availability = availability};
    int rc = functions->ProfilerHostInitialize(&open);
    *object = open.host;
    return rc;
}

static void object_close(const struct profiler_functions *functions, void *object)
{
    struct profiler_host_close close = {.size = PROFILER_SIZE(profiler_host_close, host),
                                        .host = object};
    if (object)
        functions->ProfilerHostDeinitialize(&close);
}

/* Makes the configuration of `count` metrics in a fresh object. 0, or CUPTI's result; *image
 * belongs to the caller. */
static int configure(const struct gpu_host *gpu_host, void *object, uint8_t **image, size_t *bytes,
                     size_t *passes)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, gpu_host->name, sizeof names);
    struct profiler_host_add add = {.size = PROFILER_SIZE(profiler_host_add, count),
                                    .host = object,
                                    .names = names,
                                    .count = gpu_host->count};
    struct profiler_host_config_bytes size = {
        .size = PROFILER_SIZE(profiler_host_config_bytes, bytes), .host = object};
    int rc = gpu_host->functions->ProfilerHostConfigAddMetrics(&add);
    *image = NULL;
    if (rc || (rc = gpu_host->functions->ProfilerHostGetConfigImageSize(&size)))
        return rc;
    *image = malloc(size.bytes ? size.bytes : 1);
    struct profiler_host_config config = {.size = PROFILER_SIZE(profiler_host_config, image),
                                          .host = object,
                                          .bytes = size.bytes,
                                          .image = *image};
    struct profiler_host_passes count = {
        .size = PROFILER_SIZE(profiler_host_passes, passes), .bytes = size.bytes, .image = *image};
    rc = *image ? gpu_host->functions->ProfilerHostGetConfigImage(&config) : -1;
    if (!rc)
        rc = gpu_host->functions->ProfilerHostGetNumOfPasses(&count);
    *bytes = size.bytes;
    *passes = count.passes;
    return rc;
}

/* Does the chip know the name? Some names of another chip are taken by ConfigAddMetrics and fail
 * later. */
static bool known(const struct gpu_host *gpu_host, const char *name)
{
    struct profiler_host_metric metric = {
        .size = PROFILER_SIZE(profiler_host_metric, type), .host = gpu_host->object, .name = name};
    return gpu_host->functions->ProfilerHostGetMetricProperties(&metric) == 0;
}

/* Tries the names of a metric one by one at the end of the list. */
static int take(struct gpu_host *gpu_host, int type, const char *chip, const uint8_t *availability,
                const struct gpu_metric *gpu_metric, size_t most_passes)
{
    for (size_t i = 0; i < GPU_METRIC_CANDIDATES && gpu_metric->candidate[i] &&
                       gpu_host->count < GPU_HOST_METRICS;
         i++) {
        void *object = NULL;
        uint8_t *image = NULL;
        size_t bytes = 0, passes = 0;
        if (!known(gpu_host, gpu_metric->candidate[i]))
            continue;
        gpu_host->metric[gpu_host->count] = gpu_metric;
        gpu_host->name[gpu_host->count++] = gpu_metric->candidate[i];
        int rc = object_open(gpu_host->functions, type, chip, availability, &object);
        int refused = rc ? rc : configure(gpu_host, object, &image, &bytes, &passes);
        if (refused || !passes || (most_passes && passes > most_passes)) {
            object_close(gpu_host->functions, object);
            free(image);
            gpu_host->count--;
            if (rc)
                return rc;
            continue;
        }
        object_close(gpu_host->functions, gpu_host->object);
        free(gpu_host->config);
        gpu_host->object = object;
        gpu_host->config = image;
        gpu_host->config_bytes = bytes;
        gpu_host->passes = passes;
        return 0;
    }
    return 0;
}

int gpu_host_open(struct gpu_host *gpu_host, const struct profiler_functions *functions, int type,
                  const char *chip, const uint8_t *availability, const struct gpu_metric *wanted,
                  size_t count, size_t most_passes)
{
    *gpu_host = (struct gpu_host){.functions = functions};
    int rc = object_open(functions, type, chip, availability, &gpu_host->object);
    for (size_t i = 0; i < count && !rc; i++)
        rc = take(gpu_host, type, chip, availability, &wanted[i], most_passes);
    return rc;
}

void gpu_host_close(struct gpu_host *gpu_host)
{
    if (gpu_host->functions)
        object_close(gpu_host->functions, gpu_host->object);
    free(gpu_host->config);
    *gpu_host = (struct gpu_host){0};
}

int gpu_host_values(const struct gpu_host *gpu_host, const uint8_t *data, size_t bytes,
                    size_t index, double *values)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, gpu_host->name, sizeof names);
    struct profiler_host_evaluate evaluate = {.size = PROFILER_SIZE(profiler_host_evaluate, values),
                                              .host = gpu_host->object,
                                              .data = data,
                                              .data_bytes = bytes,
                                              .range = index,
                                              .names = names,
                                              .count = gpu_host->count,
                                              .values = values};
    return gpu_host->functions->ProfilerHostEvaluateToGpuValues(&evaluate);
}
