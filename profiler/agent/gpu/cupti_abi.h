/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/: what the agent must know of CUPTI's binary interface, CUDA 11.0
 * to 13.x. Own declarations, because the library is found at run time and tacho builds without a
 * CUDA toolkit. tests/unit/agent/test_agent_cupti_abi.c compares them with the real headers where
 * they are installed. Everything is looked up by name; a function that is absent is a feature
 * missing.
 */
#ifndef TACHO_AGENT_CUPTI_ABI_H
#define TACHO_AGENT_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum cupti_result {
    CUPTI_OK = 0,
    CUPTI_MAX_LIMIT_REACHED = 12,
    CUPTI_NOT_INITIALIZED = 15, /* the driver is too old for this CUPTI */
    CUPTI_QUEUE_EMPTY = 18,
    CUPTI_MULTIPLE_SUBSCRIBERS = 39,
    CUPTI_UNKNOWN = 999,
};

/* Activity kinds: how each is called, its number, and whether it is recorded by default. Those with
 * CUPTI_ON_STREAMS are recorded unless the process is seen to use one stream only: they cost as
 * much as all others together, and say nothing of such a process (cupti_capture.c). */
enum cupti_default { CUPTI_OFF = 0, CUPTI_ON = 1, CUPTI_ON_STREAMS = 2 };
#define CUPTI_KIND_MAP(X) \
    X(MEMCPY, 1, CUPTI_ON) \
    X(MEMSET, 2, CUPTI_ON) \
    X(DRIVER, 4, CUPTI_OFF) \
    X(RUNTIME, 5, CUPTI_ON) \
    X(DEVICE, 8, CUPTI_ON) \
    X(CONTEXT, 9, CUPTI_ON) \
    X(CONCURRENT_KERNEL, 10, CUPTI_ON) \
    X(OVERHEAD, 17, CUPTI_OFF) \
    X(MEMCPY2, 22, CUPTI_ON) \
    X(CUDA_EVENT, 36, CUPTI_ON_STREAMS) \
    X(STREAM, 37, CUPTI_ON) \
    X(SYNCHRONIZATION, 38, CUPTI_ON_STREAMS) \
    X(MEMORY2, 49, CUPTI_OFF) \
    X(GRAPH_TRACE, 51, CUPTI_OFF)
/* ... since 13.1 */
#define CUPTI_NEWER_KIND_MAP(X) \
    X(GRAPH_HOST_NODE, 56, CUPTI_ON) \
    X(HOST_LAUNCH, 58, CUPTI_ON)
enum cupti_kind {
#define CUPTI_KIND_ENUM(name, value, on) CUPTI_KIND_##name = (value),
    CUPTI_KIND_MAP(CUPTI_KIND_ENUM) CUPTI_NEWER_KIND_MAP(CUPTI_KIND_ENUM)
#undef CUPTI_KIND_ENUM
        CUPTI_KIND_KERNEL = 3
};

/* Fields of records that the agent touches: the same in every version. */
#define CUPTI_KERNEL_NAME_AT     104u
#define CUPTI_DEVICE_NAME_AT     136u
#define CUPTI_KERNEL_GRAPH_AT    156u
#define CUPTI_KERNEL_GRAPH_BYTES 176u /* shorter ones have no graph */
/* A context's number, and after it that of the stream. */
#define CUPTI_KERNEL_PLACE_AT    44u
#define CUPTI_COPY_PLACE_AT      36u /* also of MEMSET and MEMCPY2 */
#define CUPTI_GRAPH_PLACE_AT     32u /* of GRAPH_TRACE */
#define CUPTI_OP_START_AT        16u /* of kernels, copies and memsets */
#define CUPTI_GRAPH_START_AT     8u
#define CUPTI_API_CBID_AT        4u
#define CUPTI_API_START_AT       8u
#define CUPTI_OVERHEAD_DATA_AT   48u /* only in records that are longer; the client frees it */
#define CUPTI_OVERHEAD_LONG_SIZE 56u

enum cupti_attribute {
    CUPTI_ATTR_DEVICE_BUFFER_SIZE = 0,
    CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT = 2,
    CUPTI_ATTR_ZEROED_BUFFER = 5,
    CUPTI_ATTR_PER_THREAD_BUFFER = 9,
};
enum { CUPTI_FLUSH_FORCED = 1, CUPTI_THREAD_ID_SYSTEM = 1, CUPTI_SITE_ENTER = 0 };
enum cupti_domain {
    CUPTI_DOMAIN_DRIVER = 1,
    CUPTI_DOMAIN_RUNTIME = 2,
};
enum { CUPTI_EXTERNAL_CUSTOM0 = 3, CUPTI_EXTERNAL_CUSTOM1 = 4 };

/* A call that the agent makes itself, to see whether it is recorded (WIRE_GPU_OWN_CALL). */
#define CUPTI_DRIVER_OWN_MAP(X) X(cuDriverGetVersion, 2)
/* Calls of the driver interface that launch work: those of programs that do not use the runtime
 * (Triton, JAX). */
#define CUPTI_DRIVER_LAUNCH_MAP(X) \
    X(cuLaunchKernel, 307) \
    X(cuLaunchKernel_ptsz, 442) \
    X(cuLaunchCooperativeKernel, 477) \
    X(cuLaunchCooperativeKernel_ptsz, 478) \
    X(cuGraphLaunch, 514) \
    X(cuGraphLaunch_ptsz, 515) \
    X(cuLaunchKernelEx, 652) \
    X(cuLaunchKernelEx_ptsz, 653)
#define CUPTI_RUNTIME_LAUNCH_MAP(X) \
    X(cudaLaunchKernel_v7000, 211) \
    X(cudaLaunchKernel_ptsz_v7000, 214) \
    X(cudaLaunchCooperativeKernel_v9000, 269) \
    X(cudaGraphLaunch_v10000, 311) \
    X(cudaGraphLaunch_ptsz_v10000, 312) \
    X(cudaLaunchKernelExC_v11060, 430) \
    X(cudaLaunchKernelExC_ptsz_v11060, 431)
/* ... and that copy, set, record and synchronize, also recorded. */
#define CUPTI_DRIVER_WORK_MAP(X) \
    X(cuMemcpyHtoD_v2, 276) \
    X(cuMemcpyHtoDAsync_v2, 277) \
    X(cuMemcpyDtoH_v2, 278) \
    X(cuMemcpyDtoHAsync_v2, 279) \
    X(cuMemcpyDtoD_v2, 280) \
    X(cuMemcpyDtoDAsync_v2, 281) \
    X(cuMemcpy, 305) \
    X(cuMemcpyAsync, 306) \
    X(cuMemcpyPeerAsync, 319) \
    X(cuMemsetD8_v2, 249) \
    X(cuMemsetD32_v2, 251) \
    X(cuMemsetD8Async, 216) \
    X(cuMemsetD32Async, 220) \
    X(cuEventRecord, 119) \
    X(cuEventSynchronize, 121) \
    X(cuStreamSynchronize, 126) \
    X(cuCtxSynchronize, 17)
/* Calls that make a stream wait for an event, also recorded. */
#define CUPTI_DRIVER_WAIT_MAP(X) \
    X(cuStreamWaitEvent, 295) \
    X(cuStreamWaitEvent_ptsz, 436)
#define CUPTI_RUNTIME_WAIT_MAP(X) \
    X(cudaStreamWaitEvent_v3020, 147) \
    X(cudaStreamWaitEvent_ptsz_v7000, 247)
/* Calls of the runtime that are frequent and say nothing. */
#define CUPTI_RUNTIME_MUTED_MAP(X) \
    X(cudaGetLastError_v3020, 10) \
    X(cudaPeekAtLastError_v3020, 11) \
    X(cudaGetDevice_v3020, 17) \
    X(cudaEventQuery_v3020, 138) \
    X(cudaStreamIsCapturing_v10000, 317) \
    X(cudaStreamIsCapturing_ptsz_v10000, 318) \
    X(cudaStreamGetCaptureInfo_v10010, 324) \
    X(cudaStreamGetCaptureInfo_ptsz_v10010, 325) \
    X(cudaStreamGetCaptureInfo_v2_v11030, 409) \
    X(cudaStreamGetCaptureInfo_v2_ptsz_v11030, 410)

struct cupti_subscriber_params {
    size_t struct_size;
    const char *name;
    char *old;
    size_t old_size;
    uint8_t several; /* from 13.3 on: others may subscribe, too */
    uint8_t padding[7];
};
#define CUPTI_SUBSCRIBER_PARAMS_OLD_BYTES 32u /* before 13.3 */
#define CUPTI_OLD_NAME_BYTES              64u

/* The beginning of what a callback of an API call gets. */
struct cupti_callback_data {
    int site; /* CUPTI_SITE_ENTER */
    const char *function;
};

typedef void (*cupti_callback)(void *user, int domain, uint32_t cbid, const void *data);
typedef void (*cupti_request)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*cupti_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                               size_t valid);

/* name after "cupti", required, result and arguments */
#define CUPTI_FUNCTION_MAP(X) \
    X(GetVersion, 0, (uint32_t * version)) \
    X(GetTimestamp, 0, (uint64_t * time)) \
    X(GetCallbackName, 0, (int domain, uint32_t cbid, const char **name)) \
    X(Subscribe, 0, (void **subscriber, cupti_callback callback, void *user)) \
    X(Subscribe_v2, 0, \
      (void **subscriber, cupti_callback callback, void *user, \
       struct cupti_subscriber_params *params)) \
    X(Unsubscribe, 0, (void *subscriber)) \
    X(EnableCallback, 0, (uint32_t enable, void *subscriber, int domain, uint32_t cbid)) \
    X(SetThreadIdType, 0, (int type)) \
    X(ActivityEnable, 1, (int kind)) \
    X(ActivityDisable, 1, (int kind)) \
    X(ActivityRegisterCallbacks, 1, (cupti_request request, cupti_complete complete)) \
    X(ActivityGetNextRecord, 1, (uint8_t * buffer, size_t valid, uint8_t * *record)) \
    X(ActivityGetNumDroppedRecords, 0, (void *context, uint32_t stream, size_t *dropped)) \
    X(ActivityFlushAll, 1, (uint32_t flag)) \
    X(ActivitySetAttribute, 0, (int attribute, size_t *size, void *value)) \
    X(ActivityGetAttribute, 0, (int attribute, size_t *size, void *value)) \
    X(ActivityEnableAllSyncRecords, 0, (uint8_t enable)) \
    X(ActivityEnableRuntimeApi, 0, (uint32_t cbid, uint8_t enable)) \
    X(ActivityEnableDriverApi, 0, (uint32_t cbid, uint8_t enable)) \
    X(ActivityRegisterTimestampCallback, 0, (uint64_t(*now)(void))) \
    X(ActivityPushExternalCorrelationId, 0, (int kind, uint64_t id)) \
    X(ActivityPopExternalCorrelationId, 0, (int kind, uint64_t *last))

struct cupti {
    void *library;
#define CUPTI_FUNCTION_FIELD(name, required, arguments) int(*name) arguments;
    CUPTI_FUNCTION_MAP(CUPTI_FUNCTION_FIELD)
#undef CUPTI_FUNCTION_FIELD
};

/* Versions as cuptiGetVersion counts them. */
#define CUPTI_VERSION_NULL_BUFFER_OK 27u /* 12.9: a NULL buffer no longer crashes */
#define CUPTI_VERSION_TIMESTAMP_OK \
    130100 /* 13.1: the timestamp callback no longer loses kernel times */
#define CUPTI_VERSION_NEWER_KINDS 130100 /* 13.1: CUPTI_NEWER_KIND_MAP */
#define CUPTI_VERSION_SEVERAL     130300 /* 13.3: several subscribers */

#endif
