/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVIDIA's management library says about the machine's GPUs: power, energy, clocks and why
 * they are throttled, temperature, memory, links, and on Hopper and later the activity of their
 * units (GPM). libnvidia-ml is loaded at run time; no header of it is needed. A thread of its own
 * asks, because some answers take 20 ms.
 *
 * Tracks belong to the machine; their device is gpu:N as NVML counts (by bus). Run keys
 * nvml.N.name, nvml.N.pci and nvml.N.uuid identify it; the uuid is the one of device.P.gpu:M.uuid.
 * A metric that a GPU does not report has no track, and a run key with the reason: nvml.N.METRIC =
 * "not supported", "denied" ...
 */
#ifndef COL_NVML_H
#define COL_NVML_H

#include "profiler/collector/collector.h"
#include "profiler/collector/drain/drain.h"

/* id, name of the track, unit, every how many looks, factor from NVML's unit */
#define COL_NVML_MAP(X) \
    X(POWER, "gpu_power", "W", 1, 1e-3)   /* mean over a second on most GPUs */ \
    X(ENERGY, "gpu_energy", "J", 1, 1e-3) /* since the driver was loaded: differences count */ \
    X(CLOCK_SM, "gpu_clock_sm", "MHz", 1, 1) \
    X(CLOCK_MEMORY, "gpu_clock_memory", "MHz", 5, 1) \
    X(THROTTLE, "gpu_throttle_reasons", "bits", 1, 1) /* nvmlClocksEventReasons */ \
    X(TEMPERATURE, "gpu_temperature", "C", 5, 1) \
    X(TEMPERATURE_MEMORY, "gpu_temperature_memory", "C", 5, 1) \
    X(MEMORY, "gpu_memory_used", "bytes", 2, 1) \
    X(UTILIZATION, "gpu_utilization", "%", 2, 1) /* share of time in which any kernel ran */ \
    X(UTILIZATION_MEMORY, "gpu_utilization_memory", "%", 2, 1) \
    X(PCIE_TX, "gpu_pcie_tx", "bytes/s", 10, 1024) \
    X(PCIE_RX, "gpu_pcie_rx", "bytes/s", 10, 1024) \
    X(NVLINK_TX, "gpu_nvlink_tx", "bytes", 5, 1024) /* since the driver was loaded */ \
    X(NVLINK_RX, "gpu_nvlink_rx", "bytes", 5, 1024) \
    X(NVLINK_ACTIVE, "gpu_nvlink_active", "links", 10, 1) \
    X(ECC, "gpu_ecc_uncorrected", "errors", 10, 1) /* since the driver was loaded */ \
    X(REMAPPED, "gpu_remapped_rows", "rows", 10, 1) \
    X(SM_ACTIVE, "gpu_sm_active", "%", 5, 1) /* this and the next ones: GPM */ \
    X(SM_OCCUPANCY, "gpu_sm_occupancy", "%", 5, 1) \
    X(TENSOR_ACTIVE, "gpu_tensor_active", "%", 5, 1) \
    X(DRAM_ACTIVE, "gpu_dram_active", "%", 5, 1) \
    X(FP64_ACTIVE, "gpu_fp64_active", "%", 5, 1) \
    X(FP32_ACTIVE, "gpu_fp32_active", "%", 5, 1) \
    X(FP16_ACTIVE, "gpu_fp16_active", "%", 5, 1)
enum col_nvml_metric {
#define COL_NVML_ENUM(id, name, unit, every, factor) COL_NVML_##id,
    COL_NVML_MAP(COL_NVML_ENUM)
#undef COL_NVML_ENUM
        COL_NVML_METRICS
};

struct col_nvml;

/* Starts the thread; NULL where there is no libnvidia-ml or no thread can be had. The library is
 * initialised by the thread. */
struct col_nvml *col_nvml_open(int sample_ms);
/* Writes what was read since the last call into the open transaction of the drain. 0 or a store
 * error. */
int col_nvml_sample(struct col_nvml *nvml, struct col_drain *drain);
/* The store was rolled back: rows written so far may be gone. */
void col_nvml_reset(struct col_nvml *nvml);
void col_nvml_close(struct col_nvml *nvml);

/* For `doctor`: one look at every GPU. Calls `row` with what it found; returns the number of GPUs,
 * or -1 with *why (a text that stays valid) where NVML cannot be used. */
int col_nvml_look(void (*row)(void *ctx, int device, const char *name, const char *metric,
                              enum col_status status, double value, const char *unit),
                  void *ctx, const char **why);

#endif
