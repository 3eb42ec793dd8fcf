/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of NVIDIA's management library. A thread of its own asks for them, because some answers
 * take 20 ms; the collector takes what has been queued in each turn. The library is loaded at run
 * time and spoken to by its published interface, of which this file declares what it uses.
 */
#include "profiler/collector/samplers/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/collector/os/clock.h"

#define DEVICES     64
#define QUEUE       16384u /* readings between two turns of the collector */
#define GPM_METRICS 512u   /* room: NVML's own array has grown from 98 to 333 */

enum { NVML_OK = 0, NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4, NVML_FUNCTION_NOT_FOUND = 13 };
enum { FIELD_MEMORY_TEMPERATURE = 82, FIELD_NVLINK_TX = 138, FIELD_NVLINK_RX = 139 };

/* ---- the interface, as much of it as is used --------------------------------------------------------------------------------- */

typedef void *device_t;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory;
};
struct nvml_field {
    unsigned id, scope;
    long long time, latency;
    unsigned type;
    int result;
    union {
        double f64;
        unsigned u32;
        unsigned long u;
        unsigned long long u64;
        long long i64;
        int i32;
    } value;
};
struct gpm_support {
    unsigned version, supported;
};
struct gpm_metric {
    unsigned id;
    int result;
    double value;
    const char *texts[3];
};
struct gpm_request {
    unsigned version, count;
    void *before, *after;
    struct gpm_metric metric[GPM_METRICS];
};

/* name of the field, symbol, older symbol or NULL, arguments */
#define NVML_FUNCTIONS(X) \
    X(init, "nvmlInit_v2", "nvmlInit", (void)) \
    X(shutdown, "nvmlShutdown", NULL, (void)) \
    X(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", (unsigned *n)) \
    X(handle, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", \
      (unsigned i, device_t *d)) \
    X(name, "nvmlDeviceGetName", NULL, (device_t d, char *text, unsigned size)) \
    X(uuid, "nvmlDeviceGetUUID", NULL, (device_t d, char *text, unsigned size)) \
    X(power, "nvmlDeviceGetPowerUsage", NULL, (device_t d, unsigned *mw)) \
    X(limit, "nvmlDeviceGetEnforcedPowerLimit", NULL, (device_t d, unsigned *mw)) \
    X(energy, "nvmlDeviceGetTotalEnergyConsumption", NULL, (device_t d, unsigned long long *mj)) \
    X(clock, "nvmlDeviceGetClockInfo", NULL, (device_t d, int which, unsigned *mhz)) \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", NULL, (device_t d, int which, unsigned *mhz)) \
    X(reasons, "nvmlDeviceGetCurrentClocksEventReasons", \
      "nvmlDeviceGetCurrentClocksThrottleReasons", (device_t d, unsigned long long *bits)) \
    X(temperature, "nvmlDeviceGetTemperature", NULL, (device_t d, int sensor, unsigned *c)) \
    X(memory, "nvmlDeviceGetMemoryInfo", NULL, (device_t d, struct nvml_memory * m)) \
    X(utilization, "nvmlDeviceGetUtilizationRates", NULL, \
      (device_t d, struct nvml_utilization * u)) \
    X(pcie, "nvmlDeviceGetPcieThroughput", NULL, (device_t d, int which, unsigned *kib)) \
    X(fields, "nvmlDeviceGetFieldValues", NULL, (device_t d, int n, struct nvml_field *f)) \
    X(gpm_support, "nvmlGpmQueryDeviceSupport", NULL, (device_t d, struct gpm_support * s)) \
    X(gpm_alloc, "nvmlGpmSampleAlloc", NULL, (void **sample)) \
    X(gpm_free, "nvmlGpmSampleFree", NULL, (void *sample)) \
    X(gpm_get, "nvmlGpmSampleGet", NULL, (device_t d, void *sample)) \
    X(gpm_metrics, "nvmlGpmMetricsGet", NULL, (struct gpm_request * r))

struct gpu {
    device_t handle;
    char name[96], uuid[96];
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
    void *library;
#define FIELD(name, symbol, older, arguments) int(*name) arguments;
    NVML_FUNCTIONS(FIELD)
#undef FIELD
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

/* Loads the library and looks up its functions, by older names where it lacks the newer ones. */
static bool library_load(struct col_nvml *nvml)
{
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        nvml->library = dlopen("libnvidia-ml.so", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return false;
#define LOOK_UP(name, symbol, older, arguments) \
    { \
        const char *old_ = older; \
        nvml->name = (int(*) arguments)(uintptr_t)dlsym(nvml->library, symbol); \
        if (!nvml->name && old_) \
            nvml->name = (int(*) arguments)(uintptr_t)dlsym(nvml->library, old_); \
    }
    NVML_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return nvml->init && nvml->count && nvml->handle;
}

/* Reads what does not change about a GPU, and prepares GPM where it is supported. */
static void gpu_open(struct col_nvml *nvml, struct gpu *gpu)
{
    struct gpm_support support = {.version = 1};
    for (int metric = 0; metric < COL_NVML_METRICS; metric++)
        gpu->result[metric] = gpu->reported[metric] = -1;
    if (!nvml->name || nvml->name(gpu->handle, gpu->name, sizeof gpu->name))
        gpu->name[0] = 0;
    if (!nvml->uuid || nvml->uuid(gpu->handle, gpu->uuid, sizeof gpu->uuid))
        gpu->uuid[0] = 0;
    if (!nvml->limit || nvml->limit(gpu->handle, &gpu->limit_mw))
        gpu->limit_mw = 0;
    if (!nvml->max_clock || nvml->max_clock(gpu->handle, 1, &gpu->max_sm_mhz))
        gpu->max_sm_mhz = 0;
    gpu->gpm = nvml->gpm_support && nvml->gpm_alloc && nvml->gpm_get && nvml->gpm_metrics &&
               nvml->gpm_support(gpu->handle, &support) == NVML_OK && support.supported &&
               nvml->gpm_alloc(&gpu->gpm_sample[0]) == NVML_OK &&
               nvml->gpm_alloc(&gpu->gpm_sample[1]) == NVML_OK;
}

/* Initialises NVML and opens all GPUs. */
static bool library_start(struct col_nvml *nvml)
{
    unsigned count = 0;
    if (nvml->init() != NVML_OK || nvml->count(&count) != NVML_OK)
        return false;
    for (unsigned i = 0; i < count && nvml->gpus < DEVICES; i++)
        if (nvml->handle(i, &nvml->gpu[nvml->gpus].handle) == NVML_OK)
            gpu_open(nvml, &nvml->gpu[nvml->gpus++]);
    nvml->request = calloc(1, sizeof *nvml->request);
    return nvml->request != NULL;
}

/* ---- readings ------------------------------------------------------------------------------------------------------------------- */

/* The value of a field, by the type that NVML gives with it. */
static double field_value(const struct nvml_field *field)
{
    switch (field->type) {
    case 0:
        return field->value.f64;
    case 1:
        return field->value.u32;
    case 2:
        return (double)field->value.u;
    case 3:
        return (double)field->value.u64;
    case 4:
        return (double)field->value.i64;
    case 5:
        return field->value.i32;
    default:
        return NAN;
    }
}

static int read_field(struct col_nvml *nvml, device_t device, unsigned id, unsigned scope,
                      double *value)
{
    struct nvml_field field = {.id = id, .scope = scope};
    if (!nvml->fields)
        return NVML_FUNCTION_NOT_FOUND;
    int rc = nvml->fields(device, 1, &field);
    *value = field_value(&field);
    return rc ? rc : field.result;
}

/* The next functions adapt NVML's getters, which differ in their types, to a double. A function
 * that the library lacks counts as not supported. */
static int read_u32(int (*query)(device_t, unsigned *), device_t device, double *value)
{
    unsigned answer = 0;
    int rc = query ? query(device, &answer) : NVML_FUNCTION_NOT_FOUND;
    *value = answer;
    return rc;
}

static int read_u32_of(int (*query)(device_t, int, unsigned *), device_t device, int which,
                       double *value)
{
    unsigned answer = 0;
    int rc = query ? query(device, which, &answer) : NVML_FUNCTION_NOT_FOUND;
    *value = answer;
    return rc;
}

static int read_u64(int (*query)(device_t, unsigned long long *), device_t device, double *value)
{
    unsigned long long answer = 0;
    int rc = query ? query(device, &answer) : NVML_FUNCTION_NOT_FOUND;
    *value = (double)answer;
    return rc;
}

static int read_utilization(struct col_nvml *nvml, device_t device, bool memory, double *value)
{
    struct nvml_utilization share = {0};
    int rc = nvml->utilization ? nvml->utilization(device, &share) : NVML_FUNCTION_NOT_FOUND;
    *value = memory ? share.memory : share.gpu;
    return rc;
}

static int read_memory(struct col_nvml *nvml, device_t device, double *value)
{
    struct nvml_memory bytes = {0};
    int rc = nvml->memory ? nvml->memory(device, &bytes) : NVML_FUNCTION_NOT_FOUND;
    *value = (double)bytes.used;
    return rc;
}

/* Reads a metric other than those of GPM. Returns NVML's code. */
static int read_metric(struct col_nvml *nvml, const struct gpu *gpu, enum col_nvml_metric metric,
                       double *value)
{
    const unsigned all_links = 0xffffffffu;
    device_t device = gpu->handle;
    switch (metric) {
    case COL_NVML_POWER:
        return read_u32(nvml->power, device, value);
    case COL_NVML_ENERGY:
        return read_u64(nvml->energy, device, value);
    case COL_NVML_CLOCK_SM:
        return read_u32_of(nvml->clock, device, 1, value);
    case COL_NVML_CLOCK_MEMORY:
        return read_u32_of(nvml->clock, device, 2, value);
    case COL_NVML_THROTTLE:
        return read_u64(nvml->reasons, device, value);
    case COL_NVML_TEMPERATURE:
        return read_u32_of(nvml->temperature, device, 0, value);
    case COL_NVML_TEMPERATURE_MEMORY:
        return read_field(nvml, device, FIELD_MEMORY_TEMPERATURE, 0, value);
    case COL_NVML_MEMORY:
        return read_memory(nvml, device, value);
    case COL_NVML_UTILIZATION:
        return read_utilization(nvml, device, false, value);
    case COL_NVML_UTILIZATION_MEMORY:
        return read_utilization(nvml, device, true, value);
    case COL_NVML_PCIE_TX:
        return read_u32_of(nvml->pcie, device, 0, value);
    case COL_NVML_PCIE_RX:
        return read_u32_of(nvml->pcie, device, 1, value);
    case COL_NVML_NVLINK_TX:
        return read_field(nvml, device, FIELD_NVLINK_TX, all_links, value);
    case COL_NVML_NVLINK_RX:
        return read_field(nvml, device, FIELD_NVLINK_RX, all_links, value);
    default:
        return NVML_NOT_SUPPORTED;
    }
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
        rc = nvml->gpm_get(gpu->handle, gpu->gpm_sample[1]);
    bool pair = gpu->gpm_before;
    if (rc == NVML_OK && pair) {
        *nvml->request = (struct gpm_request){.version = 1,
                                              .count = count,
                                              .before = gpu->gpm_sample[0],
                                              .after = gpu->gpm_sample[1]};
        for (unsigned i = 0; i < count; i++)
            nvml->request->metric[i].id = wanted[i].id;
        rc = nvml->gpm_metrics(nvml->request);
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
            int rc = read_metric(nvml, &nvml->gpu[i], (enum col_nvml_metric)metric, &value);
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
    if (library_load(nvml))
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
            if (nvml->gpu[i].gpm_sample[k] && nvml->gpm_free)
                nvml->gpm_free(nvml->gpu[i].gpm_sample[k]);
    if (nvml->ready && nvml->shutdown)
        nvml->shutdown();
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
    bool loaded = library_load(nvml);
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
