/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to samplers/: the interface of libnvidia-ml, as much of it as is used, and one reading of
 * one metric (nvml_read.c).
 */
#ifndef COL_NVML_PRIVATE_H
#define COL_NVML_PRIVATE_H

#include "profiler/collector/samplers/nvml.h"

#define GPM_METRICS 512u /* room: NVML's own array has grown from 98 to 333 */

enum { NVML_OK = 0, NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4, NVML_FUNCTION_NOT_FOUND = 13 };
enum { FIELD_MEMORY_TEMPERATURE = 82, FIELD_NVLINK_TX = 138, FIELD_NVLINK_RX = 139 };

typedef void *device_t;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char text[32];
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
    X(pci, "nvmlDeviceGetPciInfo_v3", NULL, (device_t d, struct nvml_pci * pci)) \
    X(nvlink, "nvmlDeviceGetNvLinkState", NULL, (device_t d, unsigned link, unsigned *on)) \
    X(ecc, "nvmlDeviceGetTotalEccErrors", NULL, \
      (device_t d, int type, int counter, unsigned long long *errors)) \
    X(remapped, "nvmlDeviceGetRemappedRows", NULL, \
      (device_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, \
       unsigned *failed)) \
    X(fields, "nvmlDeviceGetFieldValues", NULL, (device_t d, int n, struct nvml_field *f)) \
    X(gpm_support, "nvmlGpmQueryDeviceSupport", NULL, (device_t d, struct gpm_support * s)) \
    X(gpm_alloc, "nvmlGpmSampleAlloc", NULL, (void **sample)) \
    X(gpm_free, "nvmlGpmSampleFree", NULL, (void *sample)) \
    X(gpm_get, "nvmlGpmSampleGet", NULL, (device_t d, void *sample)) \
    X(gpm_metrics, "nvmlGpmMetricsGet", NULL, (struct gpm_request * r))

struct nvml_library {
    void *loaded; /* by dlopen */
#define FIELD(name, symbol, older, arguments) int(*name) arguments;
    NVML_FUNCTIONS(FIELD)
#undef FIELD
};

/* Loads the library and looks up its functions, by older names where it lacks the newer ones. */
bool nvml_load(struct nvml_library *library);
/* Reads a metric other than those of GPM, in NVML's unit. Returns NVML's code. */
int nvml_read(const struct nvml_library *library, device_t device, enum col_nvml_metric metric,
              double *value);

#endif
