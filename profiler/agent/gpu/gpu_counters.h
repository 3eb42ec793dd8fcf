/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/: hardware counters of GPUs, only where asked for: "pm" and "range" in
 * $TACHO_GPU.
 *
 * pm: sampled over time on each device that the process has a context on (CUPTI's PM sampling): one
 * pass, no kernel waits for another. range: counted over whole steps, then over the ranges inside
 * them (CUPTI's range profiler), a pass a step, for which nothing else is recorded on the device.
 * Both need a permission that `tacho doctor` explains. Values become counters of the process, those
 * of ranges marks (docs/gpu.md).
 *
 * gpu_counters.c has what both share, gpu_counters_thread.c the thread that runs them.
 */
#ifndef TACHO_AGENT_GPU_COUNTERS_H
#define TACHO_AGENT_GPU_COUNTERS_H

#include "profiler/agent/gpu/cuda.h"
#include "profiler/agent/gpu/gpu_host.h"

#define GPU_DEVICES 16

#pragma GCC visibility push(hidden)

/* What is used of the driver; NULL: it lacks it. */
struct gpu_driver {
    int (*count)(int *n);                                     /* cuDeviceGetCount */
    int (*device)(int *device, int ordinal);                  /* cuDeviceGet */
    int (*primary)(int device, unsigned *flags, int *active); /* cuDevicePrimaryCtxGetState */
    int (*current)(void **context);                           /* cuCtxGetCurrent */
    int (*current_device)(int *device);                       /* cuCtxGetDevice */
    int (*synchronize)(void);                                 /* cuCtxSynchronize */
};
extern struct gpu_driver gpu_driver;
extern struct profiler_functions gpu_functions;

extern struct gpu_thread {
    _Atomic uint32_t stop, done; /* futexes */
    bool started;
} gpu_thread;

/* gpu_counters_thread.c. Starts the thread if anything was asked for. CUPTI was found; CUDA may be
 * in the middle of its initialisation. */
void agent_counters_start(void);

/* gpu_counters.c. Looks up the driver's functions; the clocks of gpu_counters_time start here. */
void gpu_counters_open(void);
/* Reports to the collector that counting of this kind failed, and where. */
void gpu_counters_fail(enum wire_counters which, enum wire_counters_stage stage, int error);
/* What comes first on a device: begins CUPTI's profiler and asks for the chip's name, which goes to
 * the collector too; it is CUPTI's. 0 or CUPTI's result. */
int gpu_counters_chip(enum wire_counters which, int device, const char **chip);
/* Time of the pool's clock for a time that CUPTI gave, which counts as cuptiGetTimestamp does. */
uint64_t gpu_counters_time(uint64_t cupti);
/* The process ends: the last samples. Waits for the thread, five seconds at most. */
void agent_counters_end(void);
/* To be called after each first use of a part of CUPTI for counting: at exit, counting then ends
 * before CUPTI's libraries destroy what they made at that use. */
void gpu_counters_used(void);

/* gpu_pm.c, on the thread: starts where a context has come to be, reads what there is, stops.
 * False: it failed for good. */
bool gpu_pm_look(int device);
void gpu_pm_read(void);
void gpu_pm_stop(void);

/* gpu_range.c. step: on the thread of the steps, before one begins. cut: a range of that thread or
 * of another one begins or ends, while agent_watch_flag is set. read: on the counters' thread. */
void gpu_range_step(uint64_t index);
void gpu_range_cut(const struct agent_thread *thread, bool push, uint32_t domain, uint32_t name);
bool gpu_range_busy(void); /* nothing else is recorded on the device */
void gpu_range_read(void);
void gpu_range_stop(void);

#pragma GCC visibility pop

#endif
