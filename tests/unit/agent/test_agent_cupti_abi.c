/* SPDX-License-Identifier: Apache-2.0
 *
 * What tacho writes down of CUPTI's binary interface (profiler/agent/gpu/cupti_abi.h), against the
 * real headers where the CUDA toolkit is installed. The assertions are the compiler's; what runs
 * says whether there was something to compare with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(__has_include)
#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#define HAVE_CUPTI_HEADERS 1
#include <cupti.h>
#if CUPTI_API_VERSION >= 130000 && \
    __has_include(<cupti_pmsampling.h>) && __has_include(<cupti_range_profiler.h>)
#define HAVE_PROFILER_HEADERS 1
#include <cupti_pmsampling.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#endif
#endif
#endif

#include "profiler/agent/gpu/cupti_abi.h"
#include "profiler/agent/gpu/profiler_abi.h"
#include "profiler/wire.h"

#ifdef HAVE_CUPTI_HEADERS
#define SAME(ours, theirs)    _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define KIND(name, value, on) SAME(value, CUPTI_ACTIVITY_KIND_##name);
CUPTI_KIND_MAP(KIND)
SAME(CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
#define DRIVER(name, value) SAME(value, CUPTI_DRIVER_TRACE_CBID_##name);
CUPTI_DRIVER_LAUNCH_MAP(DRIVER)
CUPTI_DRIVER_WORK_MAP(DRIVER)
CUPTI_DRIVER_WAIT_MAP(DRIVER)
#define RUNTIME(name, value) SAME(value, CUPTI_RUNTIME_TRACE_CBID_##name);
CUPTI_RUNTIME_MUTED_MAP(RUNTIME)
CUPTI_RUNTIME_LAUNCH_MAP(RUNTIME)
CUPTI_RUNTIME_WAIT_MAP(RUNTIME)
SAME(CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(CUPTI_QUEUE_EMPTY, CUPTI_ERROR_QUEUE_EMPTY);
SAME(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(CUPTI_UNKNOWN, CUPTI_ERROR_UNKNOWN);
SAME(CUPTI_ATTR_ZEROED_BUFFER, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME(CUPTI_SITE_ENTER, CUPTI_API_ENTER);
SAME(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME(CUPTI_ATTR_DEVICE_BUFFER_SIZE, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE);
SAME(CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);
SAME(CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
CUPTI_DRIVER_OWN_MAP(DRIVER)
#define OWN(name, value) SAME(value, WIRE_GPU_OWN_CALL);
CUPTI_DRIVER_OWN_MAP(OWN)
SAME(CUPTI_EXTERNAL_CUSTOM0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
SAME(CUPTI_EXTERNAL_CUSTOM1, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1);
SAME(CUPTI_DEVICE_NAME_AT, offsetof(CUpti_ActivityDevice5, name));
SAME(CUPTI_API_CBID_AT, offsetof(CUpti_ActivityAPI, cbid));
SAME(CUPTI_API_START_AT, offsetof(CUpti_ActivityAPI, start));
SAME(offsetof(struct cupti_callback_data, site), offsetof(CUpti_CallbackData, callbackSite));
#if CUPTI_API_VERSION >= 130000
SAME(CUPTI_KERNEL_NAME_AT, offsetof(CUpti_ActivityKernel10, name));
SAME(CUPTI_OVERHEAD_DATA_AT, offsetof(CUpti_ActivityOverhead3, overheadData));
SAME(CUPTI_OVERHEAD_LONG_SIZE, sizeof(CUpti_ActivityOverhead3));
SAME(CUPTI_ATTR_PER_THREAD_BUFFER, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
SAME(CUPTI_KERNEL_GRAPH_AT, offsetof(CUpti_ActivityKernel10, graphId));
#define STREAM_AT(ours, theirs) \
    SAME(ours, offsetof(theirs, contextId)); \
    SAME((ours) + 4, offsetof(theirs, streamId))
STREAM_AT(CUPTI_KERNEL_PLACE_AT, CUpti_ActivityKernel10);
STREAM_AT(CUPTI_COPY_PLACE_AT, CUpti_ActivityMemcpy6);
STREAM_AT(CUPTI_COPY_PLACE_AT, CUpti_ActivityMemcpyPtoP4);
STREAM_AT(CUPTI_COPY_PLACE_AT, CUpti_ActivityMemset4);
STREAM_AT(CUPTI_GRAPH_PLACE_AT, CUpti_ActivityGraphTrace2);
SAME(CUPTI_OP_START_AT, offsetof(CUpti_ActivityKernel10, start));
SAME(CUPTI_OP_START_AT, offsetof(CUpti_ActivityMemcpy6, start));
SAME(CUPTI_OP_START_AT, offsetof(CUpti_ActivityMemcpyPtoP4, start));
SAME(CUPTI_OP_START_AT, offsetof(CUpti_ActivityMemset4, start));
SAME(CUPTI_GRAPH_START_AT, offsetof(CUpti_ActivityGraphTrace2, start));
SAME(offsetof(struct cupti_subscriber_params, old_size),
     offsetof(CUpti_SubscriberParams, oldSubscriberSize));
SAME(CUPTI_OLD_NAME_BYTES, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN);
#if CUPTI_API_VERSION < CUPTI_VERSION_SEVERAL
SAME(CUPTI_SUBSCRIBER_PARAMS_OLD_BYTES, sizeof(CUpti_SubscriberParams));
#else
SAME(sizeof(struct cupti_subscriber_params), sizeof(CUpti_SubscriberParams));
SAME(offsetof(struct cupti_subscriber_params, several),
     offsetof(CUpti_SubscriberParams, allowMultipleSubscribers));
#endif
#endif
#if CUPTI_API_VERSION >= CUPTI_VERSION_NEWER_KINDS
CUPTI_NEWER_KIND_MAP(KIND)
#endif
#endif

#ifdef HAVE_PROFILER_HEADERS
#define PLACE(ours, field, theirs, other) \
    SAME(offsetof(struct ours, field), offsetof(theirs, other))
PLACE(profiler_initialize, reserved, CUpti_Profiler_Initialize_Params, pPriv);
SAME(PROFILER_SIZE(profiler_initialize, reserved), CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
PLACE(profiler_chip, device, CUpti_Device_GetChipName_Params, deviceIndex);
PLACE(profiler_chip, name, CUpti_Device_GetChipName_Params, pChipName);
SAME(PROFILER_SIZE(profiler_chip, name), CUpti_Device_GetChipName_Params_STRUCT_SIZE);
PLACE(profiler_availability, context, CUpti_Profiler_GetCounterAvailability_Params, ctx);
PLACE(profiler_availability, image_bytes, CUpti_Profiler_GetCounterAvailability_Params,
      counterAvailabilityImageSize);
PLACE(profiler_availability, image, CUpti_Profiler_GetCounterAvailability_Params,
      pCounterAvailabilityImage);
SAME(PROFILER_SIZE(profiler_availability, image),
     CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
PLACE(profiler_pm_availability, device, CUpti_PmSampling_GetCounterAvailability_Params,
      deviceIndex);
PLACE(profiler_pm_availability, image_bytes, CUpti_PmSampling_GetCounterAvailability_Params,
      counterAvailabilityImageSize);
PLACE(profiler_pm_availability, image, CUpti_PmSampling_GetCounterAvailability_Params,
      pCounterAvailabilityImage);
SAME(PROFILER_SIZE(profiler_pm_availability, image),
     CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE);
PLACE(profiler_pm_enable, device, CUpti_PmSampling_Enable_Params, deviceIndex);
PLACE(profiler_pm_enable, sampler, CUpti_PmSampling_Enable_Params, pPmSamplingObject);
SAME(PROFILER_SIZE(profiler_pm_enable, sampler), CUpti_PmSampling_Enable_Params_STRUCT_SIZE);
PLACE(profiler_pm_sampler, sampler, CUpti_PmSampling_Start_Params, pPmSamplingObject);
SAME(PROFILER_SIZE(profiler_pm_sampler, sampler), CUpti_PmSampling_Start_Params_STRUCT_SIZE);
PLACE(profiler_pm_config, bytes, CUpti_PmSampling_SetConfig_Params, configSize);
PLACE(profiler_pm_config, image, CUpti_PmSampling_SetConfig_Params, pConfig);
PLACE(profiler_pm_config, hardware_bytes, CUpti_PmSampling_SetConfig_Params, hardwareBufferSize);
PLACE(profiler_pm_config, interval, CUpti_PmSampling_SetConfig_Params, samplingInterval);
PLACE(profiler_pm_config, trigger, CUpti_PmSampling_SetConfig_Params, triggerMode);
PLACE(profiler_pm_config, append, CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode);
SAME(PROFILER_SIZE(profiler_pm_config, append), CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE);
PLACE(profiler_pm_data_bytes, names, CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames);
PLACE(profiler_pm_data_bytes, count, CUpti_PmSampling_GetCounterDataSize_Params, numMetrics);
PLACE(profiler_pm_data_bytes, most, CUpti_PmSampling_GetCounterDataSize_Params, maxSamples);
PLACE(profiler_pm_data_bytes, bytes, CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize);
SAME(PROFILER_SIZE(profiler_pm_data_bytes, bytes),
     CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE);
PLACE(profiler_pm_data, bytes, CUpti_PmSampling_CounterDataImage_Initialize_Params,
      counterDataSize);
PLACE(profiler_pm_data, data, CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData);
SAME(PROFILER_SIZE(profiler_pm_data, data),
     CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE);
PLACE(profiler_pm_decode, data, CUpti_PmSampling_DecodeData_Params, pCounterDataImage);
PLACE(profiler_pm_decode, stopped, CUpti_PmSampling_DecodeData_Params, decodeStopReason);
PLACE(profiler_pm_decode, overflow, CUpti_PmSampling_DecodeData_Params, overflow);
SAME(PROFILER_SIZE(profiler_pm_decode, overflow), CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE);
PLACE(profiler_pm_info, total, CUpti_PmSampling_GetCounterDataInfo_Params, numTotalSamples);
PLACE(profiler_pm_info, completed, CUpti_PmSampling_GetCounterDataInfo_Params, numCompletedSamples);
SAME(PROFILER_SIZE(profiler_pm_info, completed),
     CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE);
PLACE(profiler_pm_sample, index, CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex);
PLACE(profiler_pm_sample, start, CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp);
PLACE(profiler_pm_sample, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp);
SAME(PROFILER_SIZE(profiler_pm_sample, end),
     CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE);
PLACE(profiler_range_enable, context, CUpti_RangeProfiler_Enable_Params, ctx);
PLACE(profiler_range_enable, profiler, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);
SAME(PROFILER_SIZE(profiler_range_enable, profiler), CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
PLACE(profiler_range_object, profiler, CUpti_RangeProfiler_Start_Params, pRangeProfilerObject);
SAME(PROFILER_SIZE(profiler_range_object, profiler), CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
PLACE(profiler_range_info, total, CUpti_RangeProfiler_GetCounterDataInfo_Params, numTotalRanges);
SAME(PROFILER_SIZE(profiler_range_info, total),
     CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
PLACE(profiler_range_name, index, CUpti_RangeProfiler_CounterData_GetRangeInfo_Params, rangeIndex);
PLACE(profiler_range_name, delimiter, CUpti_RangeProfiler_CounterData_GetRangeInfo_Params,
      rangeDelimiter);
SAME(PROFILER_SIZE(profiler_range_name, name),
     CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE);
PLACE(profiler_range_data_bytes, names, CUpti_RangeProfiler_GetCounterDataSize_Params,
      pMetricNames);
PLACE(profiler_range_data_bytes, ranges, CUpti_RangeProfiler_GetCounterDataSize_Params,
      maxNumOfRanges);
PLACE(profiler_range_data_bytes, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params,
      maxNumRangeTreeNodes);
PLACE(profiler_range_data_bytes, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params,
      counterDataSize);
SAME(PROFILER_SIZE(profiler_range_data_bytes, bytes),
     CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
PLACE(profiler_range_data, bytes, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
      counterDataSize);
PLACE(profiler_range_data, data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
      pCounterData);
SAME(PROFILER_SIZE(profiler_range_data, data),
     CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
PLACE(profiler_range_config, bytes, CUpti_RangeProfiler_SetConfig_Params, configSize);
PLACE(profiler_range_config, data_bytes, CUpti_RangeProfiler_SetConfig_Params,
      counterDataImageSize);
PLACE(profiler_range_config, data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
PLACE(profiler_range_config, range, CUpti_RangeProfiler_SetConfig_Params, range);
PLACE(profiler_range_config, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
PLACE(profiler_range_config, ranges_a_pass, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
PLACE(profiler_range_config, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
PLACE(profiler_range_config, least_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
PLACE(profiler_range_config, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
PLACE(profiler_range_config, level, CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel);
SAME(PROFILER_SIZE(profiler_range_config, level), CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
PLACE(profiler_range_stop, pass, CUpti_RangeProfiler_Stop_Params, passIndex);
PLACE(profiler_range_stop, level, CUpti_RangeProfiler_Stop_Params, targetNestingLevel);
PLACE(profiler_range_stop, all_passes, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
SAME(PROFILER_SIZE(profiler_range_stop, all_passes), CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
PLACE(profiler_range_push, name, CUpti_RangeProfiler_PushRange_Params, pRangeName);
SAME(PROFILER_SIZE(profiler_range_push, name), CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE);
PLACE(profiler_range_decode, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);
SAME(PROFILER_SIZE(profiler_range_decode, dropped),
     CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
SAME(PROFILER_TRIGGER_TIME, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
SAME(PROFILER_KEEP_LATEST, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST);
SAME(PROFILER_USER_RANGE, CUPTI_UserRange);
SAME(PROFILER_USER_REPLAY, CUPTI_UserReplay);
SAME(CUPTI_HARDWARE_BUSY, CUPTI_ERROR_HARDWARE_BUSY);
SAME(CUPTI_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
#endif

static void headers_agree(void **state)
{
    (void)state;
#ifdef HAVE_CUPTI_HEADERS
    assert_true(CUPTI_API_VERSION >= 13);
#else
    print_message("no CUDA toolkit here: nothing to compare with\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(headers_agree)};
    return cmocka_run_group_tests_name("agent: CUPTI's interface", tests, NULL, NULL);
}
