/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of NVIDIA's management library. A thread of its own asks for them, because some answers
 * take 20 ms; the collector takes what has been queued in each turn. The library is loaded at run
 * time and spoken to by its published interface, of which this file declares what it uses.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/samplers/nvml_private.h"

#define DEVICES 64
#define QUEUE   16384u /* readings between two turns of the collector */

struct gpu {
    device_t handle;
    char name[96], uuid[96], pci[40];
    unsigned limit_mw, max_sm_mhz;
    bool named; /* its run keys are written */
    bool gpm;
    void *gpm_sample[2];
    bool gpm_before;                /* gpm_sample[0] is a reading */
    int result[COL_NVML_METRICS];   /* of the last look, -1 = none yet */
    int reported[COL_NVML_METRICS]; /* the result that its run key has */
    int64_t track[COL_NVML_METRICS];
};

struct reading {
    int64_t time;
    double value;
    uint16_t device, metric;
};

struct col_nvml {
    struct nvml_library library;
    struct gpu gpu[DEVICES];
    unsigned gpus;
    int64_t interval_ns;
    unsigned looks;
    struct gpm_request *request;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, started, ready;
    struct reading queue[QUEUE];
    unsigned queued;
    uint64_t dropped;
};

static const struct {
    const char *name, *unit;
    unsigned every;
    double factor;
} metric_table[] = {
#define ROW(id, name, unit, every, factor) {name, unit, every, factor},
    COL_NVML_MAP(ROW)
#undef ROW
};

/* Reads what does not change about a GPU, and prepares GPM where it is supported. */
static void gpu_open(struct col_nvml *nvml, struct gpu *gpu)
{
    struct gpm_support support = {.version = 1};
    for (int metric = 0; metric < COL_NVML_METRICS; metric++)
        gpu->result[metric] = gpu->reported[metric] = -1;
    if (!nvml->library.name || nvml->library.name(gpu->handle, gpu->name, sizeof gpu->name))
        gpu->name[0] = 0;
    if (!nvml->library.uuid || nvml->library.uuid(gpu->handle, gpu->uuid, sizeof gpu->uuid))
        gpu->uuid[0] = 0;
    struct nvml_pci pci;
    if (nvml->library.pci && nvml->library.pci(gpu->handle, &pci) == NVML_OK)
        snprintf(gpu->pci, sizeof gpu->pci, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    if (!nvml->library.limit || nvml->library.limit(gpu->handle, &gpu->limit_mw))
        gpu->limit_mw = 0;
    if (!nvml->library.max_clock || nvml->library.max_clock(gpu->handle, 1, &gpu->max_sm_mhz))
        gpu->max_sm_mhz = 0;
    gpu->gpm = nvml->library.gpm_support && nvml->library.gpm_alloc && nvml->library.gpm_get &&
               nvml->library.gpm_metrics &&
               nvml->library.gpm_support(gpu->handle, &support) == NVML_OK && support.supported &&
               nvml->library.gpm_alloc(&gpu->gpm_sample[0]) == NVML_OK &&
               nvml->library.gpm_alloc(&gpu->gpm_sample[1]) == NVML_OK;
}

/* Initialises NVML and opens all GPUs. */
static bool library_start(struct col_nvml *nvml)
{
    unsigned count = 0;
    if (nvml->library.init() != NVML_OK || nvml->library.count(&count) != NVML_OK)
        return false;
    for (unsigned i = 0; i < count && nvml->gpus < DEVICES; i++)
        if (nvml->library.handle(i, &nvml->gpu[nvml->gpus].handle) == NVML_OK)
            gpu_open(nvml, &nvml->gpu[nvml->gpus++]);
    nvml->request = calloc(1, sizeof *nvml->request);
    return nvml->request != NULL;
}

/* Queues a reading and notes the result of the metric. A full queue drops readings, which are
 * counted. */
static void put(struct col_nvml *nvml, unsigned device, enum col_nvml_metric metric, int result,
                double value)
{
    pthread_mutex_lock(&nvml->lock);
    nvml->gpu[device].result[metric] = result;
    if (result == NVML_OK && !isnan(value)) {
        if (nvml->queued < QUEUE)
            nvml->queue[nvml->queued++] =
                (struct reading){.time = col_clock_now(),
                                 .value = value * metric_table[metric].factor,
                                 .device = (uint16_t)device,
                                 .metric = (uint16_t)metric};
        else
            nvml->dropped++;
    }
    pthread_mutex_unlock(&nvml->lock);
}

/* Reads the activity of the units (GPM), which is measured between this look and the one before. */
static void look_gpm(struct col_nvml *nvml, unsigned device)
{
    static const struct {
        enum col_nvml_metric metric;
        unsigned id;
    } wanted[] = {{COL_NVML_SM_ACTIVE, 2},     {COL_NVML_SM_OCCUPANCY, 3},
                  {COL_NVML_TENSOR_ACTIVE, 5}, {COL_NVML_DRAM_ACTIVE, 10},
                  {COL_NVML_FP64_ACTIVE, 11},  {COL_NVML_FP32_ACTIVE, 12},
                  {COL_NVML_FP16_ACTIVE, 13}};
    const unsigned count = sizeof wanted / sizeof *wanted;
    struct gpu *gpu = &nvml->gpu[device];
    int rc = gpu->gpm ? NVML_OK : NVML_NOT_SUPPORTED;
    if (rc == NVML_OK)
        rc = nvml->library.gpm_get(gpu->handle, gpu->gpm_sample[1]);
    bool pair = gpu->gpm_before;
    if (rc == NVML_OK && pair) {
        *nvml->request = (struct gpm_request){.version = 1,
                                              .count = count,
                                              .before = gpu->gpm_sample[0],
                                              .after = gpu->gpm_sample[1]};
        for (unsigned i = 0; i < count; i++)
            nvml->request->metric[i].id = wanted[i].id;
        rc = nvml->library.gpm_metrics(nvml->request);
    }
    for (unsigned i = 0; i < count && (rc != NVML_OK || pair); i++)
        if (rc)
            put(nvml, device, wanted[i].metric, rc, NAN);
        else
            put(nvml, device, wanted[i].metric, nvml->request->metric[i].result,
                nvml->request->metric[i].value);
    if (!gpu->gpm)
        return;
    void *sample = gpu->gpm_sample[0];
    gpu->gpm_sample[0] = gpu->gpm_sample[1];
    gpu->gpm_sample[1] = sample;
    gpu->gpm_before = rc == NVML_OK;
}

/* Reads all metrics that are due on all GPUs. A metric that failed is tried again every hundredth
 * time: the driver may have been busy. */
static void look(struct col_nvml *nvml)
{
    for (unsigned i = 0; i < nvml->gpus; i++) {
        for (int metric = 0; metric < COL_NVML_SM_ACTIVE; metric++) {
            double value = NAN;
            unsigned every =
                metric_table[metric].every * (nvml->gpu[i].result[metric] > 0 ? 100 : 1);
            if (nvml->looks % every)
                continue;
            int rc = nvml_read(&nvml->library, nvml->gpu[i].handle, (enum col_nvml_metric)metric,
                               &value);
            put(nvml, i, (enum col_nvml_metric)metric, rc, value);
        }
        if (nvml->looks % metric_table[COL_NVML_SM_ACTIVE].every == 0)
            look_gpm(nvml, i);
    }
    nvml->looks++;
}

/* The thread: looks at all GPUs, then sleeps until the next interval. After a look that took too
 * long it rests for a quarter of the interval, so that it never runs without a break. */
static void *thread_main(void *arg)
{
    struct col_nvml *nvml = arg;
    bool ok = library_start(nvml);
    pthread_mutex_lock(&nvml->lock);
    nvml->ready = ok;
    int64_t next = col_clock_now();
    while (ok && !nvml->stop) {
        pthread_mutex_unlock(&nvml->lock);
        look(nvml);
        next += nvml->interval_ns;
        int64_t now = col_clock_now();
        next = next < now ? now + nvml->interval_ns / 4 : next;
        struct timespec until = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
        pthread_mutex_lock(&nvml->lock);
        if (!nvml->stop)
            pthread_cond_timedwait(&nvml->wake, &nvml->lock, &until);
    }
    pthread_mutex_unlock(&nvml->lock);
    return NULL;
}

struct col_nvml *col_nvml_open(int sample_ms)
{
    struct col_nvml *nvml = calloc(1, sizeof *nvml);
    pthread_condattr_t attr;
    if (!nvml)
        return NULL;
    nvml->interval_ns = (int64_t)(sample_ms > 0 ? sample_ms : COL_DEFAULT_SAMPLE_MS) * 1000000;
    pthread_mutex_init(&nvml->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&nvml->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (nvml_load(&nvml->library))
        nvml->started = pthread_create(&nvml->thread, NULL, thread_main, nvml) == 0;
    if (nvml->started)
        return nvml;
    col_nvml_close(nvml);
    return NULL;
}

void col_nvml_close(struct col_nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->started) {
        pthread_mutex_lock(&nvml->lock);
        nvml->stop = true;
        pthread_cond_signal(&nvml->wake);
        pthread_mutex_unlock(&nvml->lock);
        pthread_join(nvml->thread, NULL);
    }
    for (unsigned i = 0; i < nvml->gpus; i++)
        for (int k = 0; k < 2; k++)
            if (nvml->gpu[i].gpm_sample[k] && nvml->library.gpm_free)
                nvml->library.gpm_free(nvml->gpu[i].gpm_sample[k]);
    if (nvml->ready && nvml->library.shutdown)
        nvml->library.shutdown();
    pthread_cond_destroy(&nvml->wake);
    pthread_mutex_destroy(&nvml->lock);
    free(nvml->request);
    free(nvml); /* the library stays: drivers do not like to be unloaded */
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------ */

/* The status of a metric, from NVML's return code. */
static enum col_status status_of(int result)
{
    switch (result) {
    case NVML_OK:
        return COL_STATUS_OK;
    case NVML_NO_PERMISSION:
        return COL_STATUS_DENIED;
    case NVML_NOT_SUPPORTED:
    case NVML_FUNCTION_NOT_FOUND:
        return COL_STATUS_NOT_SUPPORTED;
    default:
        return COL_STATUS_NOT_COUNTED;
    }
}

/* Sets the run key nvml.I.NAME; an empty value removes it. */
static void set_key(struct col_keys *keys, unsigned i, const char *name, const char *value)
{
    char key[64];
    snprintf(key, sizeof key, "nvml.%u.%s", i, name);
    col_key_text(keys, key, value[0] ? value : NULL);
}

/* Writes the run keys of a GPU: its name and limits once, the status of a metric when it changes.
 */
static int report_gpu(struct col_nvml *nvml, struct col_drain *drain, unsigned i)
{
    struct gpu *gpu = &nvml->gpu[i];
    char limit[64] = "", clock[64] = "";
    struct col_keys keys = {.db = drain->db};
    if (!gpu->named) {
        if (gpu->limit_mw)
            snprintf(limit, sizeof limit, "%.1f", gpu->limit_mw / 1e3);
        if (gpu->max_sm_mhz)
            snprintf(clock, sizeof clock, "%u", gpu->max_sm_mhz);
        set_key(&keys, i, "name", gpu->name);
        set_key(&keys, i, "uuid", gpu->uuid);
        set_key(&keys, i, "pci", gpu->pci);
        set_key(&keys, i, "power_limit_w", limit);
        set_key(&keys, i, "max_clock_sm_mhz", clock);
        gpu->named = keys.rc == 0;
    }
    for (int metric = 0; metric < COL_NVML_METRICS && keys.rc == 0; metric++) {
        int result = gpu->result[metric];
        if (result < 0 || result == gpu->reported[metric])
            continue;
        set_key(&keys, i, metric_table[metric].name, col_status_text(status_of(result)));
        gpu->reported[metric] = result;
    }
    return keys.rc;
}

static int put_row(struct col_nvml *nvml, struct col_drain *drain, const struct reading *reading)
{
    int64_t *track = &nvml->gpu[reading->device].track[reading->metric];
    char device[24];
    if (!col_has_room_for_sample(drain, reading->time))
        return 0;
    snprintf(device, sizeof device, "gpu:%u", (unsigned)reading->device);
    int rc = col_counter_track(drain, STORE_ABSENT, metric_table[reading->metric].name,
                               metric_table[reading->metric].unit, device, track);
    return rc ? rc : col_add_counter(drain, *track, reading->time, reading->value);
}

/* Readings are copied out under the lock and written without it, so that the thread does not wait
 * for the store. */
int col_nvml_sample(struct col_nvml *nvml, struct col_drain *drain)
{
    static struct reading batch[QUEUE]; /* large; one run at a time in a process */
    pthread_mutex_lock(&nvml->lock);
    unsigned count = nvml->ready ? nvml->queued : 0;
    uint64_t dropped = nvml->dropped;
    memcpy(batch, nvml->queue, count * sizeof *batch);
    nvml->queued = 0;
    nvml->dropped = 0;
    int rc = 0;
    for (unsigned i = 0; nvml->ready && i < nvml->gpus && rc == 0; i++)
        rc = report_gpu(nvml, drain, i);
    pthread_mutex_unlock(&nvml->lock);
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = put_row(nvml, drain, &batch[i]);
    if (rc == 0 && dropped)
        rc = col_drain_loss(drain, "nvml", "reading dropped: the collector was late",
                            (int64_t)dropped, STORE_ABSENT, STORE_ABSENT);
    return rc;
}

void col_nvml_reset(struct col_nvml *nvml)
{
    pthread_mutex_lock(&nvml->lock);
    for (unsigned i = 0; i < nvml->gpus; i++) {
        memset(nvml->gpu[i].track, 0, sizeof nvml->gpu[i].track);
        memset(nvml->gpu[i].reported, 0xff, sizeof nvml->gpu[i].reported);
        nvml->gpu[i].named = false;
    }
    pthread_mutex_unlock(&nvml->lock);
}

/* Uses the same functions without the thread. */
int col_nvml_look(void (*row)(void *ctx, int device, const char *name, const char *metric,
                              enum col_status status, double value, const char *unit),
                  void *ctx, const char **why)
{
    struct col_nvml *nvml = calloc(1, sizeof *nvml);
    *why = "out of memory";
    if (!nvml)
        return -1;
    pthread_mutex_init(&nvml->lock, NULL);
    pthread_cond_init(&nvml->wake, NULL);
    bool loaded = nvml_load(&nvml->library);
    *why = loaded ? "it does not start: is the driver loaded?" : "libnvidia-ml.so.1 was not found";
    nvml->ready = loaded && library_start(nvml);
    int count = nvml->ready ? (int)nvml->gpus : -1;
    if (nvml->ready) {
        look(nvml);
        col_sleep_ms(120); /* GPM needs two looks that are 100 ms apart */
        nvml->looks = 0;
        nvml->queued = 0;
        look(nvml);
    }
    for (int i = 0; i < count; i++)
        for (int metric = 0; metric < COL_NVML_METRICS; metric++) {
            double value = NAN;
            for (unsigned queued = 0; queued < nvml->queued; queued++)
                if (nvml->queue[queued].device == i && nvml->queue[queued].metric == metric)
                    value = nvml->queue[queued].value;
            row(ctx, i, nvml->gpu[i].name, metric_table[metric].name,
                status_of(nvml->gpu[i].result[metric]), value, metric_table[metric].unit);
        }
    col_nvml_close(nvml);
    return count;
}
