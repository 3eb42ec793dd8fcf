/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that works on a substitute GPU (fake_cuda.c): steps of kernels, copies and waits, in the
 * ways that programs end.
 *
 *     --steps N --kernels N     kernels a step          --threads N   that many threads launch the
 * same
 *     --ms N                    sleep after each step   --fork N      children that fork after
 * cuInit and launch nothing
 *     --spawn N                 children that exec this program anew, with --steps and --kernels
 *     --end exit|osexit|kill    how it ends
 *     --kineto N:M  torch.profiler from step N (-1: before cuInit) to step M
 *     --tell                    the hook tells of torch.profiler
 *     --late                    cuInit without injection, then NVTX: the lazy door
 *     --ranges N                N ranges `layer` in a step's range `forward`, each with a `matmul`;
 * kernels are launched in these, three in each layer and one in `forward` itself
 *     --odd N                   each Nth step has a range `sweep` somewhere
 *     --graphs N                launches of a CUDA graph in each step, of four kernels
 *     --host N                  functions of the host in each step, every second one in a graph
 *     --poll N                  queries of an event that is not ready, in each step
 *     --endless                 the last kernel of all never ends
 *     --skip N                  from step N on each second step lacks the last layer
 *     --waits N                 streams wait for events from step N on (-1: never), else always
 *     --nccl N                  NCCL makes a communicator of N ranks before the steps
 *     --nccl-at N               in step N instead
 *     --second N                16 kernels a step run on a second stream, too, from step N on
 *     --blas MASK               cuBLAS starts in these steps: two memsets on each of two streams
 *     --busy N                  the last kernel of each step takes N ms
 *     --await N:M               before step N until events and synchronization are not recorded,
 *                               before step M until they are (-1: not at all)
 */
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_gpu.h"
#include "tacho_nvtx.h"

static struct {
    long steps, kernels, threads, ms, fork, spawn, kineto_from, kineto_to, ranges, odd, skip;
    long graphs, host, poll, waits, second, nccl, nccl_at, blas, busy, await_off, await_on;
    const char *end;
    int tell, late, quiet, endless;
} opt = {.steps = 5,
         .kernels = 20,
         .threads = 1,
         .end = "exit",
         .kineto_from = -2,
         .kineto_to = -2,
         .second = -1,
         .nccl_at = -1,
         .await_off = -1,
         .await_on = -1};
static long current; /* step */

static void (*gpu_call)(struct fake_call *c);
static struct tacho_nvtx nvtx;

static const char *const kernel_name[] = {
    "_Z9vectorAddPKfS0_Pfi", "_ZN2at6native29vectorized_elementwise_kernelILi4EEEvi",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Real time, ns, `ms` from now. */
static uint64_t time_in(long ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + (uint64_t)ms * 1000000u;
}

/* What cuBLAS does at its start in each thread, on streams of its own. */
static void start_blas(void)
{
    for (int i = 0; i < 4; i++)
        gpu_call(&(struct fake_call){.what = FAKE_SET, .stream = i < 2 ? 13 : 29, .bytes = 512});
}

/* Until synchronization is recorded, or is not. */
static void await_records(int on)
{
    void *cupti = dlopen("libcupti.so.13", RTLD_LAZY);
    int (*records)(int) = cupti ? (int (*)(int))(uintptr_t)dlsym(cupti, "fake_records") : NULL;
    for (int i = 0; records && records(38) != on && i < 600; i++)
        pause_ms(10);
    if (!records || records(38) != on)
        fprintf(stderr, "synchronization is still %srecorded\n", on ? "not " : "");
}

static void *work(void *arg)
{
    uint32_t stream = 7 + (uint32_t)(uintptr_t)arg;
    struct fake_call copy = {.what = FAKE_COPY, .stream = stream, .bytes = 4096};
    struct fake_call set = {.what = FAKE_SET, .stream = stream, .bytes = 128};
    struct fake_call event = {.what = FAKE_EVENT, .stream = stream, .event = 3};
    struct fake_call wait = {.what = FAKE_WAIT, .stream = stream + 100, .event = 3};
    struct fake_call sync = {.what = FAKE_SYNC, .stream = stream};
    if (opt.blas >> current & 1)
        start_blas();
    gpu_call(&copy);
    for (long i = 0; i < opt.kernels; i++) {
        struct fake_call k = {.what = FAKE_LAUNCH, .stream = stream, .driver = i % 5 == 4};
        if (opt.busy && i == opt.kernels - 1) {
            k.start = time_in(0);
            k.end = time_in(opt.busy);
        }
        k.kernel = kernel_name[i % 4];
        k.graph_node = i % 10 == 9 ? (uint64_t)i : 0;
        gpu_call(&k);
    }
    for (long i = 0; i < opt.graphs; i++)
        gpu_call(&(struct fake_call){.what = FAKE_GRAPH,
                                     .stream = stream,
                                     .driver = (int)(i % 2),
                                     .kernel = kernel_name[0]});
    for (long i = 0; i < opt.host; i++)
        gpu_call(&(struct fake_call){
            .what = FAKE_HOST, .stream = stream, .graph_node = (uint64_t)(i % 2)});
    gpu_call(&set);
    gpu_call(&event);
    for (long i = 0; i < opt.poll; i++)
        gpu_call(
            &(struct fake_call){.what = FAKE_QUERY, .stream = stream, .driver = 1, .event = 3});
    if (opt.waits >= 0 && current >= opt.waits)
        gpu_call(&wait);
    for (int i = 0; opt.second >= 0 && current >= opt.second && i < 16; i++)
        gpu_call(&(struct fake_call){
            .what = FAKE_LAUNCH, .stream = stream + 50, .kernel = kernel_name[0]});
    gpu_call(&sync);
    return NULL;
}

static void launch(long n)
{
    for (long i = 0; i < n; i++)
        gpu_call(&(struct fake_call){.what = FAKE_LAUNCH, .stream = 7, .kernel = kernel_name[0]});
}

static void push(const char *name)
{
    nvtxEventAttributes_t e = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                               .message = {.registered = tacho_nvtx_name(&nvtx, name)}};
    nvtxDomainRangePushEx(nvtx.domain, &e);
}

static void layers(long index)
{
    long n = opt.ranges - (opt.skip && index >= opt.skip && index % 2);
    push("forward");
    launch(1);
    for (long i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%ld", i);
        push(name);
        launch(1);
        if (opt.odd && i == 1 && index % opt.odd == 0) {
            push("sweep");
            launch(2);
            tacho_nvtx_pop(&nvtx);
        } else if (opt.odd && i == 1) {
            launch(2);
        }
        push("matmul");
        launch(2);
        tacho_nvtx_pop(&nvtx);
        tacho_nvtx_pop(&nvtx);
    }
    tacho_nvtx_pop(&nvtx);
}

static void step(long index)
{
    struct tacho_step s = {.index = (uint64_t)index, .tokens = 10, .samples = 1};
    pthread_t thread[64];
    current = index;
    tacho_nvtx_push_step(&nvtx, tacho_nvtx_name(&nvtx, "step"), &s);
    for (long i = 1; i < opt.threads; i++)
        pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i);
    work(NULL);
    if (opt.ranges)
        layers(index);
    for (long i = 1; i < opt.threads; i++)
        pthread_join(thread[i], NULL);
    tacho_nvtx_pop(&nvtx);
    pause_ms(opt.ms);
}

static void kineto(int on)
{
    void *cupti = dlopen("libcupti.so.13", RTLD_LAZY);
    void *tacho =
        getenv("TACHO_TEST_LIBRARY") ? dlopen(getenv("TACHO_TEST_LIBRARY"), RTLD_LAZY) : NULL;
    void (*f)(int) = cupti ? (void (*)(int))(uintptr_t)dlsym(cupti, "fake_kineto") : NULL;
    void (*told)(int) =
        tacho ? (void (*)(int))(uintptr_t)dlsym(tacho, "tacho_device_profiler") : NULL;
    if (on && opt.tell && told)
        told(1);
    if (f)
        f(on);
    if (!on && opt.tell && told)
        told(0);
}

/* As NCCL does towards its profiler plugin, of version 6. */
static void communicator(int ranks)
{
    struct plugin {
        const char *name;
        int (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                    int rank, void *log);
    };
    static int mask;
    void *context = NULL;
    void *tacho =
        getenv("TACHO_TEST_LIBRARY") ? dlopen(getenv("TACHO_TEST_LIBRARY"), RTLD_LAZY) : NULL;
    const struct plugin *plugin = tacho ? dlsym(tacho, "ncclProfiler_v6") : NULL;
    if (plugin)
        plugin->init(&context, 1, &mask, "made", 1, ranks, 0, NULL);
}

static void children(char **argv)
{
    for (long i = 0; i < opt.fork; i++)
        if (fork() == 0) {
            nvtxEventAttributes_t child = {.version = NVTX_VERSION,
                                           .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                           .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                           .message = {.ascii = "child"}};
            nvtxDomainRangePushEx(nvtx.domain, &child);
            tacho_nvtx_pop(&nvtx);
            if (i % 2)
                _exit(0);
            exit(0);
        }
    for (long i = 0; i < opt.spawn; i++)
        if (fork() == 0) {
            char kernels[32], steps[32];
            snprintf(kernels, sizeof kernels, "%ld", opt.kernels);
            snprintf(steps, sizeof steps, "%ld", opt.steps);
            execl(argv[0], argv[0], "--kernels", kernels, "--steps", steps, (char *)NULL);
            _exit(127);
        }
    while (wait(NULL) > 0)
        continue;
}

static void options(int argc, char **argv)
{
    static const struct option table[] = {{"steps", 1, 0, 's'},
                                          {"kernels", 1, 0, 'k'},
                                          {"threads", 1, 0, 't'},
                                          {"ms", 1, 0, 'm'},
                                          {"fork", 1, 0, 'f'},
                                          {"spawn", 1, 0, 'p'},
                                          {"end", 1, 0, 'e'},
                                          {"kineto", 1, 0, 'K'},
                                          {"tell", 0, 0, 'T'},
                                          {"late", 0, 0, 'L'},
                                          {"ranges", 1, 0, 'r'},
                                          {"odd", 1, 0, 'o'},
                                          {"skip", 1, 0, 'S'},
                                          {"graphs", 1, 0, 'g'},
                                          {"host", 1, 0, 'h'},
                                          {"poll", 1, 0, 'P'},
                                          {"endless", 0, 0, 'E'},
                                          {"waits", 1, 0, 'w'},
                                          {"second", 1, 0, '2'},
                                          {"nccl", 1, 0, 'n'},
                                          {"nccl-at", 1, 0, 'N'},
                                          {"blas", 1, 0, 'b'},
                                          {"busy", 1, 0, 'B'},
                                          {"await", 1, 0, 'A'},
                                          {0}};
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;)
        switch (c) {
        case 's':
            opt.steps = atol(optarg);
            break;
        case 'k':
            opt.kernels = atol(optarg);
            break;
        case 't':
            opt.threads = atol(optarg);
            break;
        case 'm':
            opt.ms = atol(optarg);
            break;
        case 'f':
            opt.fork = atol(optarg);
            break;
        case 'p':
            opt.spawn = atol(optarg);
            break;
        case 'e':
            opt.end = optarg;
            break;
        case 'K':
            if (sscanf(optarg, "%ld:%ld", &opt.kineto_from, &opt.kineto_to) != 2)
                exit(2);
            break;
        case 'T':
            opt.tell = 1;
            break;
        case 'L':
            opt.late = 1;
            break;
        case 'r':
            opt.ranges = atol(optarg);
            break;
        case 'o':
            opt.odd = atol(optarg);
            break;
        case 'S':
            opt.skip = atol(optarg);
            break;
        case 'g':
            opt.graphs = atol(optarg);
            break;
        case 'h':
            opt.host = atol(optarg);
            break;
        case 'P':
            opt.poll = atol(optarg);
            break;
        case 'E':
            opt.endless = 1;
            break;
        case 'w':
            opt.waits = atol(optarg);
            break;
        case 'n':
            opt.nccl = atol(optarg);
            break;
        case '2':
            opt.second = atol(optarg);
            break;
        case 'N':
            opt.nccl_at = atol(optarg);
            break;
        case 'b':
            opt.blas = atol(optarg);
            break;
        case 'B':
            opt.busy = atol(optarg);
            break;
        case 'A':
            if (sscanf(optarg, "%ld:%ld", &opt.await_off, &opt.await_on) != 2)
                exit(2);
            break;
        default:
            exit(2);
        }
}

int main(int argc, char **argv)
{
    options(argc, argv);
    char *injection = getenv("CUDA_INJECTION64_PATH");
    char *kept = injection ? strdup(injection) : NULL;
    if (opt.late)
        unsetenv("CUDA_INJECTION64_PATH");
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = cuda ? (int (*)(unsigned))(uintptr_t)dlsym(cuda, "cuInit") : NULL;
    gpu_call = cuda ? (void (*)(struct fake_call *))(uintptr_t)dlsym(cuda, "fake_cuda_call") : NULL;
    if (cuda && opt.kineto_from == -1)
        kineto(1);
    if (cuda && opt.kineto_to == -1)
        kineto(0);
    if (!init || !gpu_call || init(0)) {
        fprintf(stderr, "no substitute libcuda\n");
        return 1;
    }
    if (kept)
        setenv("CUDA_INJECTION64_PATH", kept, 1);
    free(kept);
    tacho_nvtx_open(&nvtx, "libtrain");
    children(argv);
    if (opt.nccl && opt.nccl_at < 0)
        communicator((int)opt.nccl);
    for (long i = 0; i < opt.steps; i++) {
        if (opt.nccl && i == opt.nccl_at)
            communicator((int)opt.nccl);
        if (i == opt.await_off)
            await_records(0);
        if (i == opt.await_on)
            await_records(1);
        if (i == opt.kineto_from)
            kineto(1);
        if (i == opt.kineto_to)
            kineto(0);
        step(i);
    }
    if (opt.endless)
        gpu_call(&(struct fake_call){
            .what = FAKE_LAUNCH, .stream = 7, .kernel = kernel_name[0], .endless = 1});
    if (!strcmp(opt.end, "kill"))
        raise(SIGKILL);
    if (!strcmp(opt.end, "osexit"))
        _exit(0);
    return 0;
}
