/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU job that keeps its own books, for tests/gpu/run.sh. Steps are marked with tacho.step ranges.
 *
 *     work MODE STEPS KERNELS
 *
 * MODE: gpu     kernels that keep the device busy         launch  kernels so short that launching them is the limit
 *       copy    copies from pageable memory to the device loader  the host sleeps before each step, as for its data
 *       cost    KERNELS empty kernels a step; prints ns for each launch, as the host sees it
 *       kill    like gpu, and SIGKILL in the middle of a step
 *
 * Prints one line of JSON: steps, kernels, copies, step_ms (median of host times with a synchronise at the end), device_ms (by CUDA
 * events around each step), launch_ns.
 */
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#define CHECK(call) \
    do { \
        cudaError_t error_ = (call); \
        if (error_ != cudaSuccess) { \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(3); \
        } \
    } while (0)

struct step_payload {
    uint64_t index, tokens, samples;
};

__global__ void spin(long long cycles, float *out)
{
    long long start = clock64();
    float x = threadIdx.x;
    while (clock64() - start < cycles)
        x = x * 1.0001f + 1.0f;
    if (x == 42.0f)
        *out = x;
}

__global__ void nothing(void)
{
}

static double now_ms()
{
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "gpu";
    long steps = argc > 2 ? atol(argv[2]) : 20, kernels = argc > 3 ? atol(argv[3]) : 50;
    bool copy = !strcmp(mode, "copy"), loader = !strcmp(mode, "loader"), cost = !strcmp(mode, "cost");
    bool tiny = !strcmp(mode, "launch") || cost;
    nvtxDomainHandle_t domain = nvtxDomainCreateA("work");
    nvtxPayloadSchemaEntry_t entry[3] = {};
    const char *name[] = {"index", "tokens", "samples"};
    for (int i = 0; i < 3; i++) {
        entry[i].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64;
        entry[i].name = name[i];
        entry[i].offset = 8 * (uint64_t)i;
    }
    nvtxPayloadSchemaAttr_t schema = {};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = "tacho.step";
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entry;
    schema.numEntries = 3;
    schema.payloadStaticSize = sizeof(step_payload);
    uint64_t id = nvtxPayloadSchemaRegister(domain, &schema);

    cudaStream_t stream;
    cudaEvent_t begin, end;
    float *device_data = nullptr;
    const size_t bytes = 64u << 20;
    std::vector<char> host(bytes, 1);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMalloc(&device_data, bytes));
    std::vector<double> step_ms, launch_ns;
    double device_ms = 0;
    for (long s = 0; s < steps; s++) {
        step_payload payload = {(uint64_t)s, 0, 1};
        nvtxPayloadData_t data = {id, sizeof payload, &payload};
        nvtxEventAttributes_t attr = {};
        attr.version = NVTX_VERSION;
        attr.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        attr.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attr.message.ascii = "step";
        attr.payloadType = NVTX_PAYLOAD_TYPE_EXT;
        attr.reserved0 = 1;
        attr.payload.ullValue = (uint64_t)(uintptr_t)&data;
        double from = now_ms();
        nvtxDomainRangePushEx(domain, &attr);
        if (loader) {
            nvtxDomainRangePushEx(domain, [] {
                static nvtxEventAttributes_t wait = {};
                wait.version = NVTX_VERSION;
                wait.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
                wait.messageType = NVTX_MESSAGE_TYPE_ASCII;
                wait.message.ascii = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
                return &wait;
            }());
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            nvtxDomainRangePop(domain);
        }
        CHECK(cudaEventRecord(begin, stream));
        if (copy)
            CHECK(cudaMemcpyAsync(device_data, host.data(), bytes, cudaMemcpyHostToDevice, stream));
        double launch_from = now_ms();
        for (long k = 0; k < kernels; k++) {
            if (tiny)
                nothing<<<1, 32, 0, stream>>>();
            else
                spin<<<264, 256, 0, stream>>>(200000, device_data);
            if (!strcmp(mode, "kill") && s == steps / 2 && k == kernels / 2)
                raise(SIGKILL);
        }
        launch_ns.push_back((now_ms() - launch_from) * 1e6 / (double)std::max(kernels, 1l));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        nvtxDomainRangePop(domain);
        step_ms.push_back(now_ms() - from);
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        device_ms += ms;
    }
    std::sort(step_ms.begin(), step_ms.end());
    std::sort(launch_ns.begin(), launch_ns.end());
    printf("{\"mode\":\"%s\",\"steps\":%ld,\"kernels\":%ld,\"copies\":%ld,\"step_ms\":%.6f,\"device_ms\":%.6f,\"launch_ns\":%.1f}\n",
           mode, steps, steps * kernels, copy ? steps : 0, step_ms[step_ms.size() / 2], device_ms,
           launch_ns[launch_ns.size() / 2]);
    return 0;
}
