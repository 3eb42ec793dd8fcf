/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call of an accelerator's API does, by its name: CUDA, HIP, Level Zero, Unified Runtime and
 * its predecessor, Ascend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzers/device/api.h"

static const struct {
    const char *name;
    enum an_api_kind kind;
    bool async;
} calls[] = {
    {"cudaLaunchKernel", AN_API_KERNEL, false},
    {"cuLaunchKernelEx", AN_API_KERNEL, false},
    {"cudaGraphLaunch_v10000", AN_API_GRAPH, false},
    {"cudaMemcpyAsync", AN_API_COPY, true},
    {"cudaMemcpy", AN_API_COPY, false},
    {"cudaMemsetAsync", AN_API_MEMSET, true},
    {"cudaStreamSynchronize", AN_API_SYNC, false},
    {"cudaEventRecord", AN_API_RECORD, false},
    {"cudaStreamWaitEvent", AN_API_WAIT, false},
    {"cudaEventQuery", AN_API_QUERY, false},
    {"cudaMalloc", AN_API_ALLOCATE, false},
    {"cudaFree", AN_API_FREE, false},
    {"cudaLaunchHostFunc", AN_API_OTHER, false},
    {"hipExtModuleLaunchKernel", AN_API_KERNEL, false},
    {"hipDeviceSynchronize", AN_API_SYNC, false},
    {"zeCommandListAppendLaunchKernel", AN_API_KERNEL, true},
    {"zeCommandListAppendMemoryFill", AN_API_MEMSET, true},
    {"zeCommandListAppendWaitOnEvents", AN_API_WAIT, true},
    {"zeEventHostSynchronize", AN_API_SYNC, false},
    {"urEnqueueKernelLaunchWithArgsExp", AN_API_KERNEL, true},
    {"urEnqueueUSMMemcpy", AN_API_COPY, true},
    {"urEnqueueUSMFill", AN_API_MEMSET, true},
    {"urEnqueueMemBufferWrite", AN_API_COPY, true},
    {"urEnqueueEventsWaitWithBarrier", AN_API_WAIT, true},
    {"urQueueFinish", AN_API_SYNC, false},
    {"urEventWait", AN_API_SYNC, false},
    {"urUSMDeviceAlloc", AN_API_ALLOCATE, false},
    {"urUSMFree", AN_API_FREE, false},
    {"piEventsWait", AN_API_SYNC, false},
    {"piEnqueueEventsWait", AN_API_WAIT, true},
    {"AscendCL@aclrtSynchronizeStreamWithTimeout", AN_API_SYNC, false},
    {"AscendCL@aclrtMemcpyAsync", AN_API_COPY, true},
    {"AscendCL@aclrtRecordEvent", AN_API_RECORD, false},
    {"AscendCL@aclrtQueryEventStatus", AN_API_QUERY, false},
    {"AscendCL@aclrtStreamWaitEvent", AN_API_WAIT, false},
    {"cudaGetDevice", AN_API_OTHER, false},
};

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct an_api_call call = an_api_of(calls[i].name);
        if (call.kind != calls[i].kind || call.async != calls[i].async)
            fail_msg("%s: kind %d, async %d", calls[i].name, call.kind, call.async);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
