/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute for CUPTI's profiler interfaces, part of the substitute libcupti: a chip FX1 that
 * knows every metric, samples up to seven in a pass, counts three a pass. A sample comes each 5 ms;
 * metric i of sample n is 1000 i + n; metric i of a range is i + 0.5 for each kernel that was
 * launched in it, in the pass that counts the metric; metric 0 is what the kernels tell of their
 * operations, where they do. A range without kernels is not in the data.
 * Calls in an order that the real one refuses are refused. As in the real one, what the libraries
 * make at their first use is destroyed at exit: a call that comes later finds its heap corrupted.
 * FAKE_PROFILER: "denied" (enabling
 * fails), "busy", "few" (the chip knows one metric), "none", "overflow", "beyond" (a
 * sample is written beyond the image), "late" (starting the second session fails).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/agent/gpu/profiler_abi.h"

#define EXPORT     __attribute__((visibility("default")))
#define PASS_PM    7u
#define PASS_RANGE 3u
#define INTERVAL   5000000u
#define MAGIC      0x46414b45u

struct host {
    int type;
    size_t count;
};
#define RANGES 256u
#define PASSES 16u
struct image {
    uint32_t magic;
    size_t metrics;
    uint64_t first, samples; /* number of the first sample */
    uint64_t time;           /* of its end */
    size_t ranges;
    struct {
        char name[16];
        uint64_t kernels[PASSES];
        uint64_t operations; /* in the first pass, which counts metric 0 */
    } range[RANGES];
};
static struct {
    int enabled, started, configured;
    uint64_t begun, read;
    unsigned passes, pass, sessions;
    int counting, pushed;
    size_t ranges_a_pass;
    uint8_t *data;
    char name[16];
    uint64_t launches, operations; /* when the range was pushed */
} device;
static struct image counted; /* what the hardware holds until it is decoded */

static int is(const char *word)
{
    const char *text = getenv("FAKE_PROFILER");
    return text && !strcmp(text, word);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One line for each value that was handed out: kind, metric, value. */
static void note(const char *kind, size_t metric, double value)
{
    const char *path = getenv("FAKE_PROFILER_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s\t%zu\t%.1f\n", kind, metric, value);
    fclose(f);
}

/* Which uses have been made; 0x80: they are destroyed. */
static unsigned uses;

static void destroy(void)
{
    uses |= 0x80;
}

static void use(unsigned which)
{
    if (uses & 0x80) {
        fprintf(stderr, "CUPTI is used after its objects were destroyed\n");
        abort();
    }
    if (!(uses & which))
        atexit(destroy);
    uses |= which;
}

#define DEFINE(name, type) \
    EXPORT int cupti##name(struct type *p); \
    int cupti##name(struct type *p)

DEFINE(ProfilerInitialize, profiler_initialize)
{
    return p->size ? 0 : 1;
}
DEFINE(DeviceGetChipName, profiler_chip)
{
    p->name = "FX1";
    return 0;
}
DEFINE(ProfilerGetCounterAvailability, profiler_availability)
{
    if (!p->context)
        abort(); /* as the real one dies */
    p->image_bytes = 8;
    return 0;
}
DEFINE(ProfilerHostInitialize, profiler_host_open)
{
    use(1);
    struct host *h = calloc(1, sizeof *h);
    h->type = p->type;
    p->host = h;
    return strcmp(p->chip, "FX1") ? 7 : 0;
}
DEFINE(ProfilerHostDeinitialize, profiler_host_close)
{
    use(1);
    free(p->host);
    return 0;
}
DEFINE(ProfilerHostGetSupportedChips, profiler_host_chips)
{
    static const char *const names[] = {"FX1"};
    p->names = names;
    p->count = 1;
    return 0;
}
DEFINE(ProfilerHostGetMetricProperties, profiler_host_metric)
{
    return is("none") || (is("few") && !strstr(p->name, "sm__cycles_active")) ? 7 : 0;
}
DEFINE(ProfilerHostConfigAddMetrics, profiler_host_add)
{
    struct host *h = p->host;
    h->count += p->count;
    return h->count ? 0 : 7;
}
DEFINE(ProfilerHostGetConfigImageSize, profiler_host_config_bytes)
{
    p->bytes = sizeof(size_t);
    return 0;
}
DEFINE(ProfilerHostGetConfigImage, profiler_host_config)
{
    const struct host *h = p->host;
    size_t passes = h->type == PROFILER_PM_SAMPLING ? (h->count + PASS_PM - 1) / PASS_PM
                                                    : (h->count + PASS_RANGE - 1) / PASS_RANGE;
    memcpy(p->image, &passes, sizeof passes);
    return 0;
}
DEFINE(ProfilerHostGetNumOfPasses, profiler_host_passes)
{
    memcpy(&p->passes, p->image, sizeof p->passes);
    return 0;
}
static double counted_value(const struct image *m, size_t range, size_t metric)
{
    if (metric == 0 && m->range[range].operations)
        return (double)m->range[range].operations;
    return ((double)metric + 0.5) * (double)m->range[range].kernels[metric / PASS_RANGE];
}

DEFINE(ProfilerHostEvaluateToGpuValues, profiler_host_evaluate)
{
    use(2);
    struct image m;
    const struct host *h = p->host;
    memcpy(&m, p->data, sizeof m);
    if (m.magic != MAGIC || p->range >= (h->type == PROFILER_PM_SAMPLING ? m.samples : m.ranges))
        return 1;
    for (size_t i = 0; i < p->count; i++) {
        p->values[i] = h->type == PROFILER_PM_SAMPLING
                           ? 1000.0 * (double)i + (double)(m.first + p->range)
                           : counted_value(&m, p->range, i);
        note(h->type == PROFILER_PM_SAMPLING ? "pm"
             : device.ranges_a_pass == 1     ? "range"
                                             : "part",
             i, p->values[i]);
    }
    return 0;
}

/* ---- PM sampling ---- */

DEFINE(PmSamplingGetCounterAvailability, profiler_pm_availability)
{
    use(4);
    p->image_bytes = 8;
    return is("busy") ? CUPTI_HARDWARE_BUSY : 0;
}
DEFINE(PmSamplingEnable, profiler_pm_enable)
{
    if (device.enabled || is("denied"))
        return is("denied") ? CUPTI_INSUFFICIENT_PRIVILEGES : 1;
    device.enabled = 1;
    p->sampler = &device;
    return 0;
}
DEFINE(PmSamplingDisable, profiler_pm_sampler)
{
    use(8);
    device.enabled = device.started = 0;
    return p->sampler == &device ? 0 : 1;
}
DEFINE(PmSamplingSetConfig, profiler_pm_config)
{
    size_t passes;
    memcpy(&passes, p->image, sizeof passes);
    device.configured = p->sampler == &device && passes == 1 &&
                        p->trigger == PROFILER_TRIGGER_TIME && p->interval == INTERVAL;
    return device.configured ? 0 : 1;
}
DEFINE(PmSamplingGetCounterDataSize, profiler_pm_data_bytes)
{
    p->bytes = sizeof(struct image);
    return p->count && p->most ? 0 : 1;
}
DEFINE(PmSamplingCounterDataImageInitialize, profiler_pm_data)
{
    struct image m = {.magic = MAGIC};
    memcpy(p->data, &m, sizeof m);
    return 0;
}
DEFINE(PmSamplingStart, profiler_pm_sampler)
{
    use(8);
    device.begun = now();
    device.read = 0;
    device.started = device.configured;
    return p->sampler == &device && device.started ? 0 : 1;
}
DEFINE(PmSamplingStop, profiler_pm_sampler)
{
    use(8);
    return p->sampler == &device && device.started ? 0 : 1;
}
DEFINE(PmSamplingDecodeData, profiler_pm_decode)
{
    use(16);
    struct image m;
    memcpy(&m, p->data, sizeof m);
    if (!device.started || m.magic != MAGIC || m.samples)
        return 1;
    uint64_t all = (now() - device.begun) / INTERVAL;
    m.first = device.read;
    m.samples = all - device.read;
    m.time = device.begun + (m.first + 1) * INTERVAL;
    device.read = all;
    memcpy(p->data, &m, sizeof m);
    p->data[p->data_bytes] = is("beyond") != 0;
    p->overflow = is("overflow") != 0;
    return 0;
}
DEFINE(PmSamplingGetCounterDataInfo, profiler_pm_info)
{
    struct image m;
    memcpy(&m, p->data, sizeof m);
    p->total = p->populated = p->completed = (size_t)m.samples;
    return 0;
}
DEFINE(PmSamplingCounterDataGetSampleInfo, profiler_pm_sample)
{
    struct image m;
    memcpy(&m, p->data, sizeof m);
    p->end = m.time + p->index * INTERVAL;
    p->start = p->end - INTERVAL;
    return p->index < m.samples ? 0 : 1;
}

/* ---- range profiler ---- */

/* A number that the substitute driver keeps. */
static uint64_t of_driver(const char *name)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    uint64_t (*ask)(void) = cuda ? (uint64_t(*)(void))(uintptr_t)dlsym(cuda, name) : NULL;
    return ask ? ask() : 0;
}

DEFINE(RangeProfilerEnable, profiler_range_enable)
{
    if (!p->context)
        abort();
    p->profiler = &device;
    device.sessions++;
    return is("denied") ? CUPTI_INSUFFICIENT_PRIVILEGES : 0;
}
DEFINE(RangeProfilerDisable, profiler_range_object)
{
    return p->profiler == &device && !device.counting ? 0 : 1;
}
DEFINE(RangeProfilerGetCounterDataSize, profiler_range_data_bytes)
{
    p->bytes = sizeof(struct image);
    return p->ranges && p->ranges <= RANGES && p->nodes >= p->ranges ? 0 : 1;
}
DEFINE(RangeProfilerCounterDataImageInitialize, profiler_range_data)
{
    struct image m = {0};
    memcpy(p->data, &m, sizeof m);
    return 0;
}
DEFINE(RangeProfilerSetConfig, profiler_range_config)
{
    size_t passes;
    memcpy(&passes, p->image, sizeof passes);
    device.passes = (unsigned)passes;
    device.pass = 0;
    device.ranges_a_pass = p->ranges_a_pass;
    device.data = p->data;
    counted = (struct image){.magic = MAGIC};
    return passes <= PASSES && p->range == PROFILER_USER_RANGE &&
                   p->replay == PROFILER_USER_REPLAY && p->levels == 1
               ? 0
               : 1;
}
DEFINE(RangeProfilerStart, profiler_range_object)
{
    if (device.counting || p->profiler != &device || (is("late") && device.sessions > 1))
        return 1;
    device.counting = 1;
    return 0;
}
DEFINE(RangeProfilerPushRange, profiler_range_push)
{
    if (!device.counting || device.pushed || strlen(p->name) >= sizeof device.name)
        return 1;
    strcpy(device.name, p->name);
    device.launches = of_driver("fake_cuda_launches");
    device.operations = of_driver("fake_cuda_operations");
    device.pushed = 1;
    return 0;
}
DEFINE(RangeProfilerPopRange, profiler_range_object)
{
    int ok = device.pushed && p->profiler == &device;
    uint64_t kernels = of_driver("fake_cuda_launches") - device.launches;
    size_t i = 0;
    device.pushed = 0;
    while (i < counted.ranges && strcmp(counted.range[i].name, device.name) != 0)
        i++;
    if (!ok || i == RANGES || i >= device.ranges_a_pass + (kernels == 0))
        return 1;
    if (i == counted.ranges && kernels)
        strcpy(counted.range[counted.ranges++].name, device.name);
    if (i < counted.ranges)
        counted.range[i].kernels[device.pass] += kernels;
    if (i < counted.ranges && device.pass == 0)
        counted.range[i].operations += of_driver("fake_cuda_operations") - device.operations;
    return 0;
}
DEFINE(RangeProfilerStop, profiler_range_stop)
{
    if (!device.counting || device.pushed)
        return 1;
    device.counting = 0;
    p->pass = device.pass++;
    p->all_passes = device.pass == device.passes;
    return 0;
}
DEFINE(RangeProfilerDecodeData, profiler_range_decode)
{
    p->dropped = 0;
    memcpy(device.data, &counted, sizeof counted);
    return device.pass == device.passes && !device.counting ? 0 : 1;
}
DEFINE(RangeProfilerGetCounterDataInfo, profiler_range_info)
{
    struct image m;
    memcpy(&m, p->data, sizeof m);
    p->total = m.ranges;
    return m.magic == MAGIC && p->data_bytes == sizeof m ? 0 : 1;
}
DEFINE(RangeProfilerCounterDataGetRangeInfo, profiler_range_name)
{
    const struct image *m = (const void *)p->data;
    p->name = p->index < m->ranges ? m->range[p->index].name : NULL;
    return p->name ? 0 : 1;
}
