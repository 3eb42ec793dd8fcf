/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's profiler host interface. Metrics are added one by one, each in a fresh object together
 * with those taken before, because only the whole list shows how many passes it takes and whether
 * the chip accepts it.
 */
#include "profiler/agent/gpu/gpu_host.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define ROOM ((size_t)64 << 10) /* beyond the end of an image */

static size_t image_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE + ROOM;
}

bool gpu_image_make(struct gpu_image *image, size_t bytes)
{
    size_t inner = image_pages(bytes);
    char *map = mmap(NULL, inner + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *image = (struct gpu_image){0};
    if (map == MAP_FAILED)
        return false;
    if (mprotect(map + PAGE, inner, PROT_READ | PROT_WRITE)) {
        munmap(map, inner + 2 * PAGE);
        return false;
    }
    *image = (struct gpu_image){.at = (uint8_t *)map + PAGE, .bytes = bytes};
    return true;
}

void gpu_image_free(struct gpu_image *image)
{
    if (image->at)
        munmap(image->at - PAGE, image_pages(image->bytes) + 2 * PAGE);
    *image = (struct gpu_image){0};
}

bool gpu_image_kept(const struct gpu_image *image)
{
    size_t pages = image->at ? image_pages(image->bytes) : 0, i = image->bytes;
    while (i < pages && !image->at[i])
        i++;
    return i >= pages;
}

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

/* A host object of CUPTI for the chip: metrics are added to it and evaluated by it. */
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
static int configure(const struct gpu_host *host, void *object, struct gpu_image *image,
                     size_t *passes)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, host->name, sizeof names);
    struct profiler_host_add add = {.size = PROFILER_SIZE(profiler_host_add, count),
                                    .host = object,
                                    .names = names,
                                    .count = host->count};
    struct profiler_host_config_bytes size = {
        .size = PROFILER_SIZE(profiler_host_config_bytes, bytes), .host = object};
    int rc = host->functions->ProfilerHostConfigAddMetrics(&add);
    if (rc || (rc = host->functions->ProfilerHostGetConfigImageSize(&size)))
        return rc;
    if (!gpu_image_make(image, size.bytes))
        return -1;
    struct profiler_host_config config = {.size = PROFILER_SIZE(profiler_host_config, image),
                                          .host = object,
                                          .bytes = size.bytes,
                                          .image = image->at};
    struct profiler_host_passes count = {.size = PROFILER_SIZE(profiler_host_passes, passes),
                                         .bytes = size.bytes,
                                         .image = image->at};
    rc = host->functions->ProfilerHostGetConfigImage(&config);
    if (!rc)
        rc = host->functions->ProfilerHostGetNumOfPasses(&count);
    *passes = count.passes;
    return rc;
}

/* Does the chip know the name? Some names of another chip are taken by ConfigAddMetrics and fail
 * later. */
static bool known(const struct gpu_host *host, const char *name)
{
    struct profiler_host_metric metric = {
        .size = PROFILER_SIZE(profiler_host_metric, type), .host = host->object, .name = name};
    return host->functions->ProfilerHostGetMetricProperties(&metric) == 0;
}

/* Tries the names of a metric one by one at the end of the list. */
static int take(struct gpu_host *host, int type, const char *chip, const struct gpu_metric *metric,
                size_t most_passes)
{
    for (size_t i = 0;
         i < GPU_METRIC_CANDIDATES && metric->candidate[i] && host->count < GPU_HOST_METRICS; i++) {
        void *object = NULL;
        struct gpu_image image = {0};
        size_t passes = 0;
        if (!known(host, metric->candidate[i]))
            continue;
        host->metric[host->count] = metric;
        host->name[host->count++] = metric->candidate[i];
        int rc = object_open(host->functions, type, chip, host->availability.at, &object);
        int refused = rc ? rc : configure(host, object, &image, &passes);
        if (refused || !passes || (most_passes && passes > most_passes)) {
            object_close(host->functions, object);
            gpu_image_free(&image);
            host->count--;
            if (rc)
                return rc;
            continue;
        }
        object_close(host->functions, host->object);
        gpu_image_free(&host->config);
        host->object = object;
        host->config = image;
        host->passes = passes;
        return 0;
    }
    return 0;
}

int gpu_host_open(struct gpu_host *host, const struct profiler_functions *functions, int type,
                  const char *chip, struct gpu_image availability, const struct gpu_metric *wanted,
                  size_t count, size_t most_passes)
{
    *host = (struct gpu_host){.functions = functions, .availability = availability};
    int rc = object_open(functions, type, chip, availability.at, &host->object);
    for (size_t i = 0; i < count && !rc; i++)
        rc = take(host, type, chip, &wanted[i], most_passes);
    return rc;
}

void gpu_host_close(struct gpu_host *host)
{
    if (host->functions)
        object_close(host->functions, host->object);
    gpu_image_free(&host->config);
    gpu_image_free(&host->availability);
    *host = (struct gpu_host){0};
}

int gpu_host_values(const struct gpu_host *host, const uint8_t *data, size_t bytes, size_t index,
                    double *values)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, host->name, sizeof names);
    struct profiler_host_evaluate evaluate = {.size = PROFILER_SIZE(profiler_host_evaluate, values),
                                              .host = host->object,
                                              .data = data,
                                              .data_bytes = bytes,
                                              .range = index,
                                              .names = names,
                                              .count = host->count,
                                              .values = values};
    return host->functions->ProfilerHostEvaluateToGpuValues(&evaluate);
}
