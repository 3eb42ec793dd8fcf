/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/: CUPTI's profiler interfaces (host side, PM sampling, range profiler),
 * CUDA 12.6 to 13.x, as far as they are used. Own declarations, for the reasons of cupti_abi.h;
 * tests/unit/agent/test_agent_cupti_abi.c compares them with the real headers. Each call takes one
 * structure that begins with its size: up to the end of the last field that the caller knows.
 */
#ifndef TACHO_AGENT_PROFILER_ABI_H
#define TACHO_AGENT_PROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { PROFILER_RANGE = 0, PROFILER_PM_SAMPLING = 1 };
enum { PROFILER_TRIGGER_CYCLES = 0, PROFILER_TRIGGER_TIME = 1 };
enum { PROFILER_KEEP_OLDEST = 0, PROFILER_KEEP_LATEST = 1 };
enum { PROFILER_USER_RANGE = 2, PROFILER_USER_REPLAY = 3 };
enum { CUPTI_HARDWARE_BUSY = 26, CUPTI_INSUFFICIENT_PRIVILEGES = 35 };

#define PROFILER_HEAD \
    size_t size; \
    void *reserved

struct profiler_initialize {
    PROFILER_HEAD;
};
struct profiler_chip {
    PROFILER_HEAD;
    size_t device;
    const char *name;
};
struct profiler_availability { /* of a context */
    PROFILER_HEAD;
    void *context;
    size_t image_bytes;
    uint8_t *image;
};
struct profiler_host_open {
    PROFILER_HEAD;
    int type; /* PROFILER_RANGE, PROFILER_PM_SAMPLING */
    const char *chip;
    const uint8_t *availability;
    void *host;
};
struct profiler_host_close {
    PROFILER_HEAD;
    void *host;
};
struct profiler_host_chips {
    PROFILER_HEAD;
    size_t count;
    const char *const *names;
};
struct profiler_host_metric {
    PROFILER_HEAD;
    void *host;
    const char *name, *description, *unit, *dimension;
    int type;
};
struct profiler_host_add {
    PROFILER_HEAD;
    void *host;
    const char **names;
    size_t count;
};
struct profiler_host_config_bytes {
    PROFILER_HEAD;
    void *host;
    size_t bytes;
};
struct profiler_host_config {
    PROFILER_HEAD;
    void *host;
    size_t bytes;
    uint8_t *image;
};
struct profiler_host_passes {
    PROFILER_HEAD;
    size_t bytes;
    uint8_t *image;
    size_t passes;
};
struct profiler_host_evaluate {
    PROFILER_HEAD;
    void *host;
    const uint8_t *data;
    size_t data_bytes, range;
    const char **names;
    size_t count;
    double *values;
};
struct profiler_pm_availability {
    PROFILER_HEAD;
    size_t device, image_bytes;
    uint8_t *image;
};
struct profiler_pm_enable {
    PROFILER_HEAD;
    size_t device;
    void *sampler;
};
struct profiler_pm_sampler { /* disable, start, stop */
    PROFILER_HEAD;
    void *sampler;
};
struct profiler_pm_config {
    PROFILER_HEAD;
    void *sampler;
    size_t bytes;
    const uint8_t *image;
    size_t hardware_bytes;
    uint64_t interval;
    int trigger, append;
};
struct profiler_pm_data_bytes {
    PROFILER_HEAD;
    void *sampler;
    const char **names;
    size_t count;
    uint32_t most;
    size_t bytes;
};
struct profiler_pm_data {
    PROFILER_HEAD;
    void *sampler;
    size_t bytes;
    uint8_t *data;
};
struct profiler_pm_decode {
    PROFILER_HEAD;
    void *sampler;
    uint8_t *data;
    size_t data_bytes;
    int stopped;
    uint8_t overflow;
};
struct profiler_pm_info {
    PROFILER_HEAD;
    const uint8_t *data;
    size_t data_bytes, total, populated, completed;
};
struct profiler_pm_sample {
    PROFILER_HEAD;
    void *sampler;
    const uint8_t *data;
    size_t data_bytes, index;
    uint64_t start, end;
};
struct profiler_range_enable {
    PROFILER_HEAD;
    void *context, *profiler;
};
struct profiler_range_object { /* disable, start, pop */
    PROFILER_HEAD;
    void *profiler;
};
struct profiler_range_data_bytes {
    PROFILER_HEAD;
    void *profiler;
    const char **names;
    size_t count, ranges;
    uint32_t nodes;
    size_t bytes;
};
struct profiler_range_data {
    PROFILER_HEAD;
    void *profiler;
    size_t bytes;
    uint8_t *data;
};
struct profiler_range_config {
    PROFILER_HEAD;
    void *profiler;
    size_t bytes;
    const uint8_t *image;
    size_t data_bytes;
    uint8_t *data;
    int range, replay;
    size_t ranges_a_pass;
    uint16_t levels, least_level;
    size_t pass;
    uint16_t level;
};
struct profiler_range_stop {
    PROFILER_HEAD;
    void *profiler;
    size_t pass, level;
    uint8_t all_passes;
};
struct profiler_range_push {
    PROFILER_HEAD;
    void *profiler;
    const char *name;
};
struct profiler_range_info {
    PROFILER_HEAD;
    const uint8_t *data;
    size_t data_bytes, total;
};
struct profiler_range_name {
    PROFILER_HEAD;
    const uint8_t *data;
    size_t data_bytes, index;
    const char *delimiter, *name;
};
struct profiler_range_decode {
    PROFILER_HEAD;
    void *profiler;
    size_t dropped;
};

#undef PROFILER_HEAD

/* What goes into `size`. */
#define PROFILER_SIZE(type, last) (offsetof(struct type, last) + sizeof(((struct type *)0)->last))

/* name after "cupti", structure */
#define PROFILER_FUNCTION_MAP(X) \
    X(ProfilerInitialize, profiler_initialize) \
    X(DeviceGetChipName, profiler_chip) \
    X(ProfilerGetCounterAvailability, profiler_availability) \
    X(ProfilerHostInitialize, profiler_host_open) \
    X(ProfilerHostDeinitialize, profiler_host_close) \
    X(ProfilerHostGetSupportedChips, profiler_host_chips) \
    X(ProfilerHostGetMetricProperties, profiler_host_metric) \
    X(ProfilerHostConfigAddMetrics, profiler_host_add) \
    X(ProfilerHostGetConfigImageSize, profiler_host_config_bytes) \
    X(ProfilerHostGetConfigImage, profiler_host_config) \
    X(ProfilerHostGetNumOfPasses, profiler_host_passes) \
    X(ProfilerHostEvaluateToGpuValues, profiler_host_evaluate) \
    X(PmSamplingGetCounterAvailability, profiler_pm_availability) \
    X(PmSamplingEnable, profiler_pm_enable) \
    X(PmSamplingDisable, profiler_pm_sampler) \
    X(PmSamplingSetConfig, profiler_pm_config) \
    X(PmSamplingGetCounterDataSize, profiler_pm_data_bytes) \
    X(PmSamplingCounterDataImageInitialize, profiler_pm_data) \
    X(PmSamplingStart, profiler_pm_sampler) \
    X(PmSamplingStop, profiler_pm_sampler) \
    X(PmSamplingDecodeData, profiler_pm_decode) \
    X(PmSamplingGetCounterDataInfo, profiler_pm_info) \
    X(PmSamplingCounterDataGetSampleInfo, profiler_pm_sample) \
    X(RangeProfilerEnable, profiler_range_enable) \
    X(RangeProfilerDisable, profiler_range_object) \
    X(RangeProfilerGetCounterDataSize, profiler_range_data_bytes) \
    X(RangeProfilerCounterDataImageInitialize, profiler_range_data) \
    X(RangeProfilerSetConfig, profiler_range_config) \
    X(RangeProfilerStart, profiler_range_object) \
    X(RangeProfilerStop, profiler_range_stop) \
    X(RangeProfilerPushRange, profiler_range_push) \
    X(RangeProfilerPopRange, profiler_range_object) \
    X(RangeProfilerDecodeData, profiler_range_decode) \
    X(RangeProfilerGetCounterDataInfo, profiler_range_info) \
    X(RangeProfilerCounterDataGetRangeInfo, profiler_range_name)

struct profiler_functions {
#define PROFILER_FIELD(name, type) int (*name)(struct type * arguments);
    PROFILER_FUNCTION_MAP(PROFILER_FIELD)
#undef PROFILER_FIELD
};

#endif
