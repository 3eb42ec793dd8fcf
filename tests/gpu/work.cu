/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU job that keeps its own books, for tests/gpu/run.sh. Steps are marked with tacho.step
 * ranges.
 *
 *     work MODE STEPS KERNELS [CYCLES]
 *
 * MODE: gpu     kernels that keep the device busy, CYCLES each
 *       launch  kernels so short that launching them is the limit
 *       copy    copies from pageable memory to the device
 *       loader  the host sleeps before each step, as for its data
 *       cost    KERNELS empty kernels a step; prints ns for each launch, as the host sees it
 *       kill    like gpu, and SIGKILL in the middle of a step late in the run; prints before it
 *       streams KERNELS kernels on one stream; after a quarter of the steps as many on a second
 *               one, too, and each waits for the other by an event; prints how many waits, too
 *       graph   a CUDA graph of KERNELS kernels, launched once a step
 *       replay  a graph of KERNELS empty kernels, launched over and over until STEPS thousand
 *               kernels have run or CYCLES seconds have passed; prints how much device memory went
 *       memory  allocations of a known peak; no kernels
 *       gemm    KERNELS products of cuBLAS a step, bf16, of several shapes; needs libcublas at run
 *               time
 *       roof    no steps: what the device reaches at most, as the best of STEPS tries: bf16
 *               products of 8192 x 8192 of random numbers, copies within the device
 *
 * Prints one line of JSON: steps, kernels, copies, step_ms (median of host times with a synchronise
 * at the end), device_ms (by CUDA events around each step), launch_ns, joule (NVML's counter from
 * the third step to the last one but one, and the steps between).
 *
 * tests/gpu/substitute/cuda_bf16.h stands for CUDA where the script is rehearsed without a GPU.
 */
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <dlfcn.h>

#include <cuda_bf16.h>

#include "tacho_nvtx.h"

#define CHECK(call) \
    do { \
        cudaError_t error_ = (call); \
        if (error_ != cudaSuccess) { \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(3); \
        } \
    } while (0)

#ifdef __CUDACC__
#define LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#endif

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

/* ---- cuBLAS and NVML, found at run time ---- */

struct blas {
    void *handle;
    int (*gemm)(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                int at, int lda, const void *b, int bt, int ldb, const void *beta, void *c, int ct,
                int ldc, int compute, int algorithm);
};

static blas open_blas(cudaStream_t stream)
{
    blas b = {};
    void *library = nullptr;
    for (const char *name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
        library = library ? library : dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    auto create = library ? (int (*)(void **))dlsym(library, "cublasCreate_v2") : nullptr;
    auto set =
        library ? (int (*)(void *, cudaStream_t))dlsym(library, "cublasSetStream_v2") : nullptr;
    if (!create || !set || create(&b.handle) || set(b.handle, stream)) {
        printf("{\"missing\":\"libcublas\"}\n");
        exit(0);
    }
    /* the first of the process: with --gemm-shapes that is tacho's, which calls cuBLAS */
    b.gemm = (decltype(b.gemm))dlsym(RTLD_DEFAULT, "cublasGemmEx");
    return b;
}

/* c[m,n] = a[m,k] b[k,n], all bf16 (CUDA_R_16BF), summed in fp32 (CUBLAS_COMPUTE_32F). */
static void product(const blas &b, int m, int n, int k, const void *x, const void *y, void *z)
{
    const float one = 1, zero = 0;
    int rc = b.gemm(b.handle, 0, 0, m, n, k, &one, x, 14, m, y, 14, k, &zero, z, 14, m, 68, -1);
    if (rc) {
        fprintf(stderr, "cublasGemmEx: %d\n", rc);
        exit(3);
    }
}

/* Random numbers: constants need less power, and flatter. */
__global__ void fill(__nv_bfloat16 *x, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        x[i] = __float2bfloat16((float)(z >> 40) / 8388608.0f - 1.0f);
    }
}

static double joules(void)
{
    static void *device;
    static int (*energy)(void *, unsigned long long *);
    static bool looked;
    if (!looked) {
        looked = true;
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        auto init = library ? (int (*)(void))dlsym(library, "nvmlInit_v2") : nullptr;
        auto get =
            library
                ? (int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2")
                : nullptr;
        char bus[32];
        CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
        if (init && get && !init() && !get(bus, &device))
            energy = (int (*)(void *, unsigned long long *))dlsym(
                library, "nvmlDeviceGetTotalEnergyConsumption");
    }
    unsigned long long mj = 0;
    return energy && !energy(device, &mj) ? 1e-3 * (double)mj : -1;
}

static int roof(long tries)
{
    const int n = 8192;
    const size_t elements = (size_t)n * n, copy = (size_t)1 << 30;
    cudaEvent_t begin, end;
    cudaStream_t stream;
    __nv_bfloat16 *x[3];
    char *from, *to;
    float ms;
    double flops = 0, bytes = 0;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (auto &p : x) {
        CHECK(cudaMalloc(&p, elements * sizeof *p));
        LAUNCH(fill, (unsigned)(elements / 256), 256, stream, p, elements);
    }
    CHECK(cudaMalloc(&from, copy));
    CHECK(cudaMalloc(&to, copy));
    blas b = open_blas(stream);
    for (long i = 0; i < tries; i++) {
        CHECK(cudaEventRecord(begin, stream));
        product(b, n, n, n, x[0], x[1], x[2]);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        flops = std::max(flops, 2.0 * n * n * n / (1e-3 * ms));
        CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaMemcpyAsync(to, from, copy, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        bytes = std::max(bytes, 2.0 * (double)copy / (1e-3 * ms)); /* read and written */
    }
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    printf("{\"mode\":\"roof\",\"device\":\"%s\",\"bf16_flops\":%.0f,\"bytes_per_s\":%.0f}\n",
           properties.name, flops, bytes);
    return 0;
}

/* Shapes of a transformer's products and a thin one that memory binds: a range for each, with a
 * quarter of the products. */
static void products(const struct tacho_nvtx *nvtx, const blas &b, long count,
                     __nv_bfloat16 *const x[3])
{
    static const int shape[][3] = {
        {4096, 4096, 4096}, {4096, 2304, 768}, {4096, 768, 3072}, {4096, 16, 4096}};
    static const char *const name[] = {"square", "qkv", "down", "thin"};
    for (int s = 0; s < 4; s++) {
        struct tacho_range plain = {0, 0, TACHO_RANGE_NONE, 0};
        tacho_nvtx_push_range(nvtx, tacho_nvtx_name(nvtx, name[s]), &plain);
        for (long i = 0; i < count / 4; i++)
            product(b, shape[s][0], shape[s][1], shape[s][2], x[0], x[1], x[2]);
        tacho_nvtx_pop(nvtx);
    }
}

/* ---- CUDA graphs and memory ---- */

static cudaGraphExec_t make_graph(cudaStream_t stream, long kernels, long long cycles, float *out)
{
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (long i = 0; i < kernels; i++) {
        if (cycles)
            LAUNCH(spin, 264, 256, stream, cycles, out);
        else
            LAUNCH(nothing, 1, 32, stream);
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    return ready;
}

static double used_mib(void)
{
    size_t free_bytes = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    return (double)(total - free_bytes) / (1 << 20);
}

/* The graph over and over, a hundred launches between two looks at clock and memory. */
static int replay(long thousands, long kernels, long seconds)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraphExec_t graph = make_graph(stream, kernels, 0, nullptr);
    CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaStreamSynchronize(stream));
    double begin = now_ms(), before = used_mib(), most = before;
    long launches = 1;
    while (launches * kernels < thousands * 1000 && now_ms() - begin < 1e3 * (double)seconds) {
        for (int i = 0; i < 100; i++, launches++)
            CHECK(cudaGraphLaunch(graph, stream));
        CHECK(cudaStreamSynchronize(stream));
        most = std::max(most, used_mib());
    }
    printf("{\"mode\":\"replay\",\"launches\":%ld,\"kernels\":%ld,\"seconds\":%.3f,"
           "\"memory_mib\":%.1f,\"grown_mib\":%.1f}\n",
           launches, launches * kernels, (now_ms() - begin) / 1e3, before, most - before);
    return 0;
}

/* 64 + 128 MiB at most. */
static int memory(void)
{
    void *first, *second, *third;
    CHECK(cudaMalloc(&first, 64u << 20));
    CHECK(cudaMalloc(&second, 128u << 20));
    CHECK(cudaFree(first));
    CHECK(cudaMalloc(&third, 32u << 20));
    CHECK(cudaFree(second));
    CHECK(cudaFree(third));
    std::this_thread::sleep_for(std::chrono::milliseconds(1500)); /* a flush */
    printf("{\"mode\":\"memory\",\"peak_bytes\":%u}\n", 192u << 20);
    return 0;
}

/* Kernels on one stream, and from a quarter of the steps on the same on a second one: each waits
 * for the other once a step. */
static int streams(long steps, long kernels, long long cycles)
{
    struct tacho_nvtx nvtx;
    cudaStream_t stream[2];
    cudaEvent_t event[2];
    float *out;
    long waits = 0, alone = steps / 4;
    tacho_nvtx_open(&nvtx, "work");
    CHECK(cudaMalloc(&out, 256));
    for (int i = 0; i < 2; i++) {
        CHECK(cudaStreamCreate(&stream[i]));
        CHECK(cudaEventCreate(&event[i]));
    }
    for (long s = 0; s < steps; s++) {
        struct tacho_step payload = {(uint64_t)s, 0, 1};
        tacho_nvtx_push_step(&nvtx, tacho_nvtx_name(&nvtx, "step"), &payload);
        for (int i = 0; i < (s < alone ? 1 : 2); i++) {
            for (long k = 0; k < kernels; k++)
                LAUNCH(spin, 264, 256, stream[i], cycles, out);
            CHECK(cudaEventRecord(event[i], stream[i]));
            if (s < alone)
                continue;
            CHECK(cudaStreamWaitEvent(stream[1 - i], event[i], 0));
            waits++;
        }
        CHECK(cudaStreamSynchronize(stream[0]));
        tacho_nvtx_pop(&nvtx);
    }
    printf("{\"mode\":\"streams\",\"steps\":%ld,\"alone\":%ld,\"kernels\":%ld,\"waits\":%ld}\n",
           steps, alone, (2 * steps - alone) * kernels, waits);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "gpu";
    long steps = argc > 2 ? atol(argv[2]) : 20, kernels = argc > 3 ? atol(argv[3]) : 50;
    bool copy = !strcmp(mode, "copy"), loader = !strcmp(mode, "loader"),
         cost = !strcmp(mode, "cost");
    bool tiny = !strcmp(mode, "launch") || cost, gemm = !strcmp(mode, "gemm");
    long long cycles = argc > 4 ? atoll(argv[4]) : 200000;
    if (!strcmp(mode, "roof"))
        return roof(steps);
    if (!strcmp(mode, "replay"))
        return replay(steps, kernels, (long)cycles);
    if (!strcmp(mode, "streams"))
        return streams(steps, kernels, cycles);
    if (!strcmp(mode, "memory"))
        return memory();
    struct tacho_nvtx nvtx;
    tacho_nvtx_open(&nvtx, "work");
    /* loaded now, not by the first launch: that would lie between the events of the first step */
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, spin));
    CHECK(cudaFuncGetAttributes(&attributes, nothing));

    cudaStream_t stream;
    cudaEvent_t begin, end;
    float *device_data = nullptr;
    const size_t bytes = 64u << 20;
    std::vector<char> host(bytes, 1);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMalloc(&device_data, bytes));
    blas library = {};
    __nv_bfloat16 *x[3] = {};
    const size_t elements = (size_t)4096 * 4096;
    for (int i = 0; gemm && i < 3; i++) {
        CHECK(cudaMalloc(&x[i], elements * sizeof *x[i]));
        LAUNCH(fill, (unsigned)(elements / 256), 256, stream, x[i], elements);
    }
    if (gemm)
        library = open_blas(stream);
    cudaGraphExec_t graph = {};
    if (!strcmp(mode, "graph"))
        graph = make_graph(stream, kernels, cycles, device_data);
    const long last = steps - steps / 10 - 1; /* of kill */
    double joule[2] = {-1, -1};
    std::vector<double> step_ms, launch_ns;
    double device_ms = 0;
    for (long s = 0; s < steps; s++) {
        struct tacho_step payload = {(uint64_t)s, 0, 1};
        if (s == 2)
            joule[0] = joules();
        if (s == steps - 1)
            joule[1] = joules();
        double from = now_ms();
        tacho_nvtx_push_step(&nvtx, tacho_nvtx_name(&nvtx, "step"), &payload);
        if (loader) {
            struct tacho_range wait = {0, 0, TACHO_RANGE_INPUT_WAIT, 0};
            tacho_nvtx_push_range(&nvtx, tacho_nvtx_name(&nvtx, "next batch"), &wait);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            tacho_nvtx_pop(&nvtx);
        }
        CHECK(cudaEventRecord(begin, stream));
        if (copy)
            CHECK(cudaMemcpyAsync(device_data, host.data(), bytes, cudaMemcpyHostToDevice, stream));
        double launch_from = now_ms();
        if (gemm)
            products(&nvtx, library, kernels, x);
        if (graph)
            CHECK(cudaGraphLaunch(graph, stream));
        for (long k = 0; k < kernels && !gemm && !graph; k++) {
            if (tiny)
                LAUNCH(nothing, 1, 32, stream);
            else
                LAUNCH(spin, 264, 256, stream, cycles, device_data);
            if (!strcmp(mode, "kill") && s == last && k == kernels / 2) {
                printf("{\"mode\":\"kill\",\"kernels\":%ld}\n", s * kernels + k + 1);
                fflush(stdout);
                raise(SIGKILL);
            }
        }
        launch_ns.push_back((now_ms() - launch_from) * 1e6 / (double)std::max(kernels, 1l));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        tacho_nvtx_pop(&nvtx);
        step_ms.push_back(now_ms() - from);
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        device_ms += ms;
    }
    std::sort(step_ms.begin(), step_ms.end());
    std::sort(launch_ns.begin(), launch_ns.end());
    printf("{\"mode\":\"%s\",\"steps\":%ld,\"kernels\":%ld,\"copies\":%ld,\"step_ms\":%.6f,"
           "\"device_ms\":%.6f,\"launch_ns\":%.1f,\"joule\":%.3f,\"joule_steps\":%ld}\n",
           mode, steps, steps * kernels, copy ? steps : 0, step_ms[step_ms.size() / 2], device_ms,
           launch_ns[launch_ns.size() / 2],
           joule[0] >= 0 && joule[1] > joule[0] ? joule[1] - joule[0] : -1.0, steps - 3);
    return 0;
}
