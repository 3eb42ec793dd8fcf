/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/samplers/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/collector/drain/decode.h"
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
    bool gpm_before;              /* gpm_sample[0] is a reading */
    int result[COL_NVML_METRICS]; /* of the last look, -1 = none yet */
    int told[COL_NVML_METRICS];
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

static bool library_load(struct col_nvml *n)
{
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        n->library = dlopen("libnvidia-ml.so", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return false;
#define LOOK_UP(name, symbol, older, arguments) \
    { \
        const char *old_ = older; \
        n->name = (int(*) arguments)(uintptr_t)dlsym(n->library, symbol); \
        if (!n->name && old_) \
            n->name = (int(*) arguments)(uintptr_t)dlsym(n->library, old_); \
    }
    NVML_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return n->init && n->count && n->handle;
}

static void gpu_open(struct col_nvml *n, struct gpu *g)
{
    struct gpm_support s = {.version = 1};
    for (int m = 0; m < COL_NVML_METRICS; m++)
        g->result[m] = g->told[m] = -1;
    if (!n->name || n->name(g->handle, g->name, sizeof g->name))
        g->name[0] = 0;
    if (!n->uuid || n->uuid(g->handle, g->uuid, sizeof g->uuid))
        g->uuid[0] = 0;
    if (!n->limit || n->limit(g->handle, &g->limit_mw))
        g->limit_mw = 0;
    if (!n->max_clock || n->max_clock(g->handle, 1, &g->max_sm_mhz))
        g->max_sm_mhz = 0;
    g->gpm = n->gpm_support && n->gpm_alloc && n->gpm_get && n->gpm_metrics &&
             n->gpm_support(g->handle, &s) == NVML_OK && s.supported &&
             n->gpm_alloc(&g->gpm_sample[0]) == NVML_OK &&
             n->gpm_alloc(&g->gpm_sample[1]) == NVML_OK;
}

static bool library_start(struct col_nvml *n)
{
    unsigned count = 0;
    if (n->init() != NVML_OK || n->count(&count) != NVML_OK)
        return false;
    for (unsigned i = 0; i < count && n->gpus < DEVICES; i++)
        if (n->handle(i, &n->gpu[n->gpus].handle) == NVML_OK)
            gpu_open(n, &n->gpu[n->gpus++]);
    n->request = calloc(1, sizeof *n->request);
    return n->request != NULL;
}

/* ---- readings ------------------------------------------------------------------------------------------------------------------- */

static double field_value(const struct nvml_field *f)
{
    switch (f->type) {
    case 0:
        return f->value.f64;
    case 1:
        return f->value.u32;
    case 2:
        return (double)f->value.u;
    case 3:
        return (double)f->value.u64;
    case 4:
        return (double)f->value.i64;
    case 5:
        return f->value.i32;
    default:
        return NAN;
    }
}

static int read_field(struct col_nvml *n, device_t d, unsigned id, unsigned scope, double *value)
{
    struct nvml_field f = {.id = id, .scope = scope};
    if (!n->fields)
        return NVML_FUNCTION_NOT_FOUND;
    int rc = n->fields(d, 1, &f);
    *value = field_value(&f);
    return rc ? rc : f.result;
}

static int read_u32(int (*f)(device_t, unsigned *), device_t d, double *value)
{
    unsigned x = 0;
    int rc = f ? f(d, &x) : NVML_FUNCTION_NOT_FOUND;
    *value = x;
    return rc;
}

static int read_u32_of(int (*f)(device_t, int, unsigned *), device_t d, int which, double *value)
{
    unsigned x = 0;
    int rc = f ? f(d, which, &x) : NVML_FUNCTION_NOT_FOUND;
    *value = x;
    return rc;
}

static int read_u64(int (*f)(device_t, unsigned long long *), device_t d, double *value)
{
    unsigned long long x = 0;
    int rc = f ? f(d, &x) : NVML_FUNCTION_NOT_FOUND;
    *value = (double)x;
    return rc;
}

static int read_utilization(struct col_nvml *n, device_t d, bool memory, double *value)
{
    struct nvml_utilization u = {0};
    int rc = n->utilization ? n->utilization(d, &u) : NVML_FUNCTION_NOT_FOUND;
    *value = memory ? u.memory : u.gpu;
    return rc;
}

static int read_memory(struct col_nvml *n, device_t d, double *value)
{
    struct nvml_memory m = {0};
    int rc = n->memory ? n->memory(d, &m) : NVML_FUNCTION_NOT_FOUND;
    *value = (double)m.used;
    return rc;
}

/* All but GPM. NVML's return code. */
static int read_metric(struct col_nvml *n, const struct gpu *g, enum col_nvml_metric m,
                       double *value)
{
    const unsigned all_links = 0xffffffffu;
    device_t d = g->handle;
    switch (m) {
    case COL_NVML_POWER:
        return read_u32(n->power, d, value);
    case COL_NVML_ENERGY:
        return read_u64(n->energy, d, value);
    case COL_NVML_CLOCK_SM:
        return read_u32_of(n->clock, d, 1, value);
    case COL_NVML_CLOCK_MEMORY:
        return read_u32_of(n->clock, d, 2, value);
    case COL_NVML_THROTTLE:
        return read_u64(n->reasons, d, value);
    case COL_NVML_TEMPERATURE:
        return read_u32_of(n->temperature, d, 0, value);
    case COL_NVML_TEMPERATURE_MEMORY:
        return read_field(n, d, FIELD_MEMORY_TEMPERATURE, 0, value);
    case COL_NVML_MEMORY:
        return read_memory(n, d, value);
    case COL_NVML_UTILIZATION:
        return read_utilization(n, d, false, value);
    case COL_NVML_UTILIZATION_MEMORY:
        return read_utilization(n, d, true, value);
    case COL_NVML_PCIE_TX:
        return read_u32_of(n->pcie, d, 0, value);
    case COL_NVML_PCIE_RX:
        return read_u32_of(n->pcie, d, 1, value);
    case COL_NVML_NVLINK_TX:
        return read_field(n, d, FIELD_NVLINK_TX, all_links, value);
    case COL_NVML_NVLINK_RX:
        return read_field(n, d, FIELD_NVLINK_RX, all_links, value);
    default:
        return NVML_NOT_SUPPORTED;
    }
}

static void put(struct col_nvml *n, unsigned device, enum col_nvml_metric m, int result,
                double value)
{
    pthread_mutex_lock(&n->lock);
    n->gpu[device].result[m] = result;
    if (result == NVML_OK && !isnan(value)) {
        if (n->queued < QUEUE)
            n->queue[n->queued++] = (struct reading){.time = col_clock_now(),
                                                     .value = value * metric_table[m].factor,
                                                     .device = (uint16_t)device,
                                                     .metric = (uint16_t)m};
        else
            n->dropped++;
    }
    pthread_mutex_unlock(&n->lock);
}

/* Activity of units between this look and the one before. */
static void look_gpm(struct col_nvml *n, unsigned device)
{
    static const struct {
        enum col_nvml_metric metric;
        unsigned id;
    } wanted[] = {{COL_NVML_SM_ACTIVE, 2},     {COL_NVML_SM_OCCUPANCY, 3},
                  {COL_NVML_TENSOR_ACTIVE, 5}, {COL_NVML_DRAM_ACTIVE, 10},
                  {COL_NVML_FP64_ACTIVE, 11},  {COL_NVML_FP32_ACTIVE, 12},
                  {COL_NVML_FP16_ACTIVE, 13}};
    const unsigned count = sizeof wanted / sizeof *wanted;
    struct gpu *g = &n->gpu[device];
    int rc = g->gpm ? NVML_OK : NVML_NOT_SUPPORTED;
    if (rc == NVML_OK)
        rc = n->gpm_get(g->handle, g->gpm_sample[1]);
    bool pair = g->gpm_before;
    if (rc == NVML_OK && pair) {
        *n->request = (struct gpm_request){
            .version = 1, .count = count, .before = g->gpm_sample[0], .after = g->gpm_sample[1]};
        for (unsigned i = 0; i < count; i++)
            n->request->metric[i].id = wanted[i].id;
        rc = n->gpm_metrics(n->request);
    }
    for (unsigned i = 0; i < count && (rc != NVML_OK || pair); i++)
        put(n, device, wanted[i].metric, rc ? rc : n->request->metric[i].result,
            rc ? NAN : n->request->metric[i].value);
    if (!g->gpm)
        return;
    void *sample = g->gpm_sample[0];
    g->gpm_sample[0] = g->gpm_sample[1];
    g->gpm_sample[1] = sample;
    g->gpm_before = rc == NVML_OK;
}

static void look(struct col_nvml *n)
{
    for (unsigned i = 0; i < n->gpus; i++) {
        for (int m = 0; m < COL_NVML_SM_ACTIVE; m++) {
            double value = NAN;
            /* what was refused once is asked again now and then: a driver may have been busy */
            unsigned every = metric_table[m].every * (n->gpu[i].result[m] > 0 ? 100 : 1);
            if (n->looks % every)
                continue;
            int rc = read_metric(n, &n->gpu[i], (enum col_nvml_metric)m, &value);
            put(n, i, (enum col_nvml_metric)m, rc, value);
        }
        if (n->looks % metric_table[COL_NVML_SM_ACTIVE].every == 0)
            look_gpm(n, i);
    }
    n->looks++;
}

static void *thread_main(void *arg)
{
    struct col_nvml *n = arg;
    bool ok = library_start(n);
    pthread_mutex_lock(&n->lock);
    n->ready = ok;
    int64_t next = col_clock_now();
    while (ok && !n->stop) {
        pthread_mutex_unlock(&n->lock);
        look(n);
        next += n->interval_ns;
        int64_t now = col_clock_now();
        next = next < now ? now + n->interval_ns / 4 : next;
        struct timespec until = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
        pthread_mutex_lock(&n->lock);
        if (!n->stop)
            pthread_cond_timedwait(&n->wake, &n->lock, &until);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

struct col_nvml *col_nvml_open(int sample_ms)
{
    struct col_nvml *n = calloc(1, sizeof *n);
    pthread_condattr_t attr;
    if (!n)
        return NULL;
    n->interval_ns = (int64_t)(sample_ms > 0 ? sample_ms : COL_DEFAULT_SAMPLE_MS) * 1000000;
    pthread_mutex_init(&n->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&n->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (library_load(n))
        n->started = pthread_create(&n->thread, NULL, thread_main, n) == 0;
    if (n->started)
        return n;
    col_nvml_close(n);
    return NULL;
}

void col_nvml_close(struct col_nvml *n)
{
    if (!n)
        return;
    if (n->started) {
        pthread_mutex_lock(&n->lock);
        n->stop = true;
        pthread_cond_signal(&n->wake);
        pthread_mutex_unlock(&n->lock);
        pthread_join(n->thread, NULL);
    }
    for (unsigned i = 0; i < n->gpus; i++)
        for (int k = 0; k < 2; k++)
            if (n->gpu[i].gpm_sample[k] && n->gpm_free)
                n->gpm_free(n->gpu[i].gpm_sample[k]);
    if (n->ready && n->shutdown)
        n->shutdown();
    pthread_cond_destroy(&n->wake);
    pthread_mutex_destroy(&n->lock);
    free(n->request);
    free(n); /* the library stays: drivers do not like to be unloaded */
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------ */

static enum col_status status_of(int result)
{
    return result == NVML_OK              ? COL_STATUS_OK
           : result == NVML_NO_PERMISSION ? COL_STATUS_DENIED
           : result == NVML_NOT_SUPPORTED || result == NVML_FUNCTION_NOT_FOUND
               ? COL_STATUS_NOT_SUPPORTED
               : COL_STATUS_NOT_COUNTED;
}

static int tell_gpu(struct col_nvml *n, struct col_drain *d, unsigned i)
{
    struct gpu *g = &n->gpu[i];
    char key[64], text[64];
    int rc = 0;
    if (!g->named) {
        snprintf(key, sizeof key, "nvml.%u.name", i);
        rc = store_run_set(d->db, key, g->name[0] ? g->name : NULL);
        snprintf(key, sizeof key, "nvml.%u.uuid", i);
        rc = rc ? rc : store_run_set(d->db, key, g->uuid[0] ? g->uuid : NULL);
        snprintf(key, sizeof key, "nvml.%u.power_limit_w", i);
        snprintf(text, sizeof text, "%.1f", g->limit_mw / 1e3);
        rc = rc ? rc : store_run_set(d->db, key, g->limit_mw ? text : NULL);
        snprintf(key, sizeof key, "nvml.%u.max_clock_sm_mhz", i);
        snprintf(text, sizeof text, "%u", g->max_sm_mhz);
        rc = rc ? rc : store_run_set(d->db, key, g->max_sm_mhz ? text : NULL);
        g->named = rc == 0;
    }
    for (int m = 0; m < COL_NVML_METRICS && rc == 0; m++) {
        int result = g->result[m];
        if (result < 0 || result == g->told[m])
            continue;
        snprintf(key, sizeof key, "nvml.%u.%s", i, metric_table[m].name);
        rc = store_run_set(d->db, key, col_status_text(status_of(result)));
        g->told[m] = result;
    }
    return rc;
}

static int put_row(struct col_nvml *n, struct col_drain *d, const struct reading *r)
{
    struct gpu *g = &n->gpu[r->device];
    enum col_cut why;
    char device[24];
    if (!col_decode_keeps(d, STORE_ABSENT, &why))
        return 0;
    if (!g->track[r->metric]) {
        snprintf(device, sizeof device, "gpu:%u", (unsigned)r->device);
        struct store_track t = {.process = STORE_ABSENT,
                                .tid = STORE_ABSENT,
                                .kind = "counter",
                                .name = metric_table[r->metric].name,
                                .device = device,
                                .unit = metric_table[r->metric].unit};
        int rc = store_track_add(d->db, &t);
        if (rc)
            return rc;
        g->track[r->metric] = t.id;
    }
    struct store_counter c = {.track = g->track[r->metric], .time = r->time, .value = r->value};
    d->stats.counters++;
    return store_counter_add(d->db, &c);
}

int col_nvml_sample(struct col_nvml *n, struct col_drain *d)
{
    static struct reading batch[QUEUE]; /* large; one run at a time in a process */
    pthread_mutex_lock(&n->lock);
    unsigned count = n->ready ? n->queued : 0;
    uint64_t dropped = n->dropped;
    memcpy(batch, n->queue, count * sizeof *batch);
    n->queued = 0;
    n->dropped = 0;
    int rc = 0;
    for (unsigned i = 0; n->ready && i < n->gpus && rc == 0; i++)
        rc = tell_gpu(n, d, i);
    pthread_mutex_unlock(&n->lock);
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = put_row(n, d, &batch[i]);
    if (rc == 0 && dropped)
        rc = col_drain_loss(d, "nvml", "reading dropped: the collector was late", (int64_t)dropped,
                            STORE_ABSENT, STORE_ABSENT);
    return rc;
}

void col_nvml_reset(struct col_nvml *n)
{
    pthread_mutex_lock(&n->lock);
    for (unsigned i = 0; i < n->gpus; i++) {
        memset(n->gpu[i].track, 0, sizeof n->gpu[i].track);
        memset(n->gpu[i].told, 0xff, sizeof n->gpu[i].told);
        n->gpu[i].named = false;
    }
    pthread_mutex_unlock(&n->lock);
}

int col_nvml_look(void (*row)(void *ctx, int device, const char *name, const char *metric,
                              enum col_status status, double value, const char *unit),
                  void *ctx, const char **why)
{
    struct col_nvml *n = calloc(1, sizeof *n);
    *why = "out of memory";
    if (!n)
        return -1;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->wake, NULL);
    bool loaded = library_load(n);
    *why = loaded ? "it does not start: is the driver loaded?" : "libnvidia-ml.so.1 was not found";
    n->ready = loaded && library_start(n);
    int count = n->ready ? (int)n->gpus : -1;
    if (n->ready) {
        look(n);
        nanosleep(&(struct timespec){.tv_nsec = 120000000},
                  NULL); /* GPM wants two looks, 100 ms apart */
        n->looks = 0;
        n->queued = 0;
        look(n);
    }
    for (int i = 0; i < count; i++)
        for (int m = 0; m < COL_NVML_METRICS; m++) {
            double value = NAN;
            for (unsigned k = 0; k < n->queued; k++)
                if (n->queue[k].device == i && n->queue[k].metric == m)
                    value = n->queue[k].value;
            row(ctx, i, n->gpu[i].name, metric_table[m].name, status_of(n->gpu[i].result[m]), value,
                metric_table[m].unit);
        }
    col_nvml_close(n);
    return count;
}
