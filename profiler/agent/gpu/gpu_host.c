/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/agent/gpu/gpu_host.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool gpu_host_functions(struct profiler_functions *f, void *library)
{
#define LOOK_UP(name, type) \
    f->name = (int (*)(struct type *))(uintptr_t)dlsym(library, "cupti" #name);
    PROFILER_FUNCTION_MAP(LOOK_UP)
#undef LOOK_UP
    return f->ProfilerHostInitialize && f->ProfilerHostDeinitialize &&
           f->ProfilerHostGetMetricProperties && f->ProfilerHostConfigAddMetrics &&
           f->ProfilerHostGetConfigImageSize && f->ProfilerHostGetConfigImage &&
           f->ProfilerHostGetNumOfPasses && f->ProfilerHostEvaluateToGpuValues;
}

static int object_open(const struct profiler_functions *f, int type, const char *chip,
                       const uint8_t *availability, void **object)
{
    struct profiler_host_open p = {.size = PROFILER_SIZE(profiler_host_open, host),
                                   .type = type,
                                   .chip = chip,
                                   .availability = availability};
    int rc = f->ProfilerHostInitialize(&p);
    *object = p.host;
    return rc;
}

static void object_close(const struct profiler_functions *f, void *object)
{
    struct profiler_host_close p = {.size = PROFILER_SIZE(profiler_host_close, host),
                                    .host = object};
    if (object)
        f->ProfilerHostDeinitialize(&p);
}

/* Makes the configuration of `count` metrics in a fresh object. 0, or CUPTI's result; *image
 * belongs to the caller. */
static int configure(const struct gpu_host *h, void *object, uint8_t **image, size_t *bytes,
                     size_t *passes)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, h->name, sizeof names);
    struct profiler_host_add add = {.size = PROFILER_SIZE(profiler_host_add, count),
                                    .host = object,
                                    .names = names,
                                    .count = h->count};
    struct profiler_host_config_bytes size = {
        .size = PROFILER_SIZE(profiler_host_config_bytes, bytes), .host = object};
    int rc = h->f->ProfilerHostConfigAddMetrics(&add);
    *image = NULL;
    if (rc || (rc = h->f->ProfilerHostGetConfigImageSize(&size)))
        return rc;
    *image = malloc(size.bytes ? size.bytes : 1);
    struct profiler_host_config config = {.size = PROFILER_SIZE(profiler_host_config, image),
                                          .host = object,
                                          .bytes = size.bytes,
                                          .image = *image};
    struct profiler_host_passes count = {
        .size = PROFILER_SIZE(profiler_host_passes, passes), .bytes = size.bytes, .image = *image};
    rc = *image ? h->f->ProfilerHostGetConfigImage(&config) : -1;
    if (!rc)
        rc = h->f->ProfilerHostGetNumOfPasses(&count);
    *bytes = size.bytes;
    *passes = count.passes;
    return rc;
}

/* Does the chip know the name? Some names of another chip are taken by ConfigAddMetrics and fail
 * later. */
static bool known(const struct gpu_host *h, const char *name)
{
    struct profiler_host_metric p = {
        .size = PROFILER_SIZE(profiler_host_metric, type), .host = h->object, .name = name};
    return h->f->ProfilerHostGetMetricProperties(&p) == 0;
}

/* Tries the names of a metric one by one at the end of the list. */
static int take(struct gpu_host *h, int type, const char *chip, const uint8_t *availability,
                const struct gpu_metric *m, size_t most_passes)
{
    for (size_t i = 0; i < GPU_METRIC_CANDIDATES && m->candidate[i] && h->count < GPU_HOST_METRICS;
         i++) {
        void *object = NULL;
        uint8_t *image = NULL;
        size_t bytes = 0, passes = 0;
        if (!known(h, m->candidate[i]))
            continue;
        h->metric[h->count] = m;
        h->name[h->count++] = m->candidate[i];
        int rc = object_open(h->f, type, chip, availability, &object);
        int refused = rc ? rc : configure(h, object, &image, &bytes, &passes);
        if (refused || !passes || (most_passes && passes > most_passes)) {
            object_close(h->f, object);
            free(image);
            h->count--;
            if (rc)
                return rc;
            continue;
        }
        object_close(h->f, h->object);
        free(h->config);
        h->object = object;
        h->config = image;
        h->config_bytes = bytes;
        h->passes = passes;
        return 0;
    }
    return 0;
}

int gpu_host_open(struct gpu_host *h, const struct profiler_functions *f, int type,
                  const char *chip, const uint8_t *availability, const struct gpu_metric *wanted,
                  size_t n, size_t most_passes)
{
    *h = (struct gpu_host){.f = f};
    int rc = object_open(f, type, chip, availability, &h->object);
    for (size_t i = 0; i < n && !rc; i++)
        rc = take(h, type, chip, availability, &wanted[i], most_passes);
    return rc;
}

void gpu_host_close(struct gpu_host *h)
{
    if (h->f)
        object_close(h->f, h->object);
    free(h->config);
    *h = (struct gpu_host){0};
}

int gpu_host_values(const struct gpu_host *h, const uint8_t *data, size_t bytes, size_t index,
                    double *values)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, h->name, sizeof names);
    struct profiler_host_evaluate p = {.size = PROFILER_SIZE(profiler_host_evaluate, values),
                                       .host = h->object,
                                       .data = data,
                                       .data_bytes = bytes,
                                       .range = index,
                                       .names = names,
                                       .count = h->count,
                                       .values = values};
    return h->f->ProfilerHostEvaluateToGpuValues(&p);
}
