/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call of NVTX costs with libtacho.so attached, beside the two clocks and the same calls
 * without a tool, in one run. The library is loaded by the NVTX headers themselves, as in any
 * target. One pinned thread records; another one gives full segments back, as the collector does,
 * so that pages are warm. A figure is the lowest decile over batches of the mean cost in a batch
 * (the machine has other work), with the median beside it.
 *
 * usage: agent BUILD        rows: what, measured, budget, verdict, separated by tabs
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "profiler/ticks.h"
#include "tacho_nvtx.h"
#include "tests/targets/pool_reader.h"

#define BATCHES 1500
#define BATCH   400

static struct tacho_nvtx nvtx;
static nvtxStringHandle_t name;
static uint64_t counter;
static _Atomic int stop;
static _Atomic uint64_t sink;

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- what is measured: each makes `n` calls ---- */

static void do_ticks(int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += ticks_read();
    }
    atomic_store_explicit(&sink, sum, memory_order_relaxed);
}

static void do_clock(int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += now_ns();
    atomic_store_explicit(&sink, sum, memory_order_relaxed);
}

static void do_mark(int n)
{
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                               .message.registered = name};
    for (int i = 0; i < n; i++)
        nvtxDomainMarkEx(nvtx.domain, &a);
}

/* The agent's part of a mark alone: its callback, as it was put into a table of our own. */
static void (*mark_callback)(nvtxDomainHandle_t, const nvtxEventAttributes_t *);

static void do_event(int n)
{
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                               .message.registered = name};
    for (int i = 0; i < n; i++)
        mark_callback(nvtx.domain, &a);
}

static void do_work(int n)
{
    struct tacho_work w = {.flops = 1000, .bytes_read = 64, .dtype = TACHO_DTYPE_FP32};
    for (int i = 0; i < n; i++) {
        tacho_nvtx_push_work(&nvtx, name, &w);
        tacho_nvtx_pop(&nvtx);
    }
}

static void do_unregistered(int n)
{
    for (int i = 0; i < n; i++) {
        nvtxRangePushA("transformer.block.forward");
        nvtxRangePop();
    }
}

static void do_many_names(int n)
{
    static char text[64][32];
    if (!text[0][0])
        for (int i = 0; i < 64; i++)
            snprintf(text[i], sizeof text[i], "layer.%d.attention.qkv", i);
    for (int i = 0; i < n; i++) {
        nvtxRangePushA(text[i & 63]);
        nvtxRangePop();
    }
}

static void do_counter(int n)
{
    for (int i = 0; i < n; i++)
        tacho_nvtx_sample(&nvtx, counter, i);
}

/* ---- measuring ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *what, void (*run)(int), double budget)
{
    static double ns[BATCHES];
    char measured[64], limit[32] = "printed";
    run(BATCH);
    for (int i = 0; i < BATCHES; i++) {
        uint64_t from = now_ns();
        run(BATCH);
        ns[i] = (double)(now_ns() - from) / BATCH;
    }
    qsort(ns, BATCHES, sizeof *ns, by_value);
    double low = ns[BATCHES / 10];
    snprintf(measured, sizeof measured, "%.1f ns (median %.1f)", low, ns[BATCHES / 2]);
    if (budget > 0)
        snprintf(limit, sizeof limit, "<= %g ns", budget);
    printf("%s\t%s\t%s\t%s\n", what, measured, limit,
           budget > 0 ? low <= budget ? "ok" : "OVER" : "-");
    fflush(stdout);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Gives back what is full; the records are of no interest here. */
static void *recycle(void *arg)
{
    struct pool_reader r = {0};
    char path[4096];
    pin((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
    snprintf(path, sizeof path, "%s/%s%d.0", (const char *)arg, WIRE_PREFIX, (int)getpid());
    while (!stop && pool_open(&r, path))
        usleep(1000);
    while (!stop) {
        uint32_t peak = atomic_load(&r.pool->segments_peak);
        for (uint32_t i = 0; i < peak; i++)
            if (atomic_load_explicit(&r.directory[i].state, memory_order_acquire) == WIRE_FULL)
                atomic_store_explicit(&r.directory[i].state, WIRE_FREE, memory_order_release);
        usleep(100);
    }
    uint64_t lost = r.pool ? atomic_load(&r.pool->loss[WIRE_LOSS_NO_SEGMENT].count) : 0;
    if (lost)
        printf("  dropped while measuring\t%llu events\t0\tOVER\n", (unsigned long long)lost);
    if (r.pool)
        pool_close(&r);
    return NULL;
}

static void open_nvtx(void)
{
    tacho_nvtx_open(&nvtx, "bench");
    name = tacho_nvtx_name(&nvtx, "matmul.forward");
    counter = tacho_nvtx_counter(&nvtx, "loss");
}

static NvtxFunctionPointer function[32];

static int NVTX_API own_table(NvtxCallbackModule module, NvtxFunctionTable *table,
                              unsigned int *size)
{
    static NvtxFunctionPointer *slots[32];
    for (int i = 0; i < 32; i++)
        slots[i] = &function[i];
    *table = slots;
    *size = module == NVTX_CB_MODULE_CORE2 ? 32 : 0;
    return 1;
}

static const void *NVTX_API own_export(uint32_t id)
{
    static const NvtxExportTableCallbacks tables = {sizeof tables, own_table};
    return id == NVTX_ETID_CALLBACKS ? &tables : NULL;
}

static bool attach_own(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW);
    NvtxInitializeInjectionNvtxFunc_t init = NULL;
    if (handle)
        *(void **)&init = dlsym(handle, "InitializeInjectionNvtx2");
    if (!init || !init(own_export) || !function[NVTX_CBID_CORE2_DomainMarkEx])
        return false;
    memcpy(&mark_callback, &function[NVTX_CBID_CORE2_DomainMarkEx], sizeof mark_callback);
    return true;
}

static int without_tool(void)
{
    unsetenv("NVTX_INJECTION64_PATH");
    open_nvtx();
    measure("NVTX push+pop, no tool attached", do_work, 0);
    return 0;
}

static int with_tool(const char *build, char *folder)
{
    char library[4096];
    pthread_t recycler;
    snprintf(library, sizeof library, "%s/libtacho.so", build);
    setenv("NVTX_INJECTION64_PATH", library, 1);
    setenv(WIRE_ENV_SEGMENTS, folder, 1);
    open_nvtx();
    if (!nvtx.work || !attach_own(library)) {
        fprintf(stderr, "agent: %s was not attached\n", library);
        return 1;
    }
    do_work(1);
    if (pthread_create(&recycler, NULL, recycle, folder))
        return 1;
    measure("event into segment (callback of a mark)", do_event, 12);
    measure("  the same through NVTX", do_mark, 0);
    measure("NVTX push+pop, registered, 48-byte payload", do_work, 30);
    measure("NVTX push+pop, unregistered name", do_unregistered, 60);
    measure("  same, 64 names in turn", do_many_names, 60);
    measure("  counter sample", do_counter, 0);
    stop = 1;
    pthread_join(recycler, NULL);
    return 0;
}

static int in_child(int (*run)(const char *, char *), const char *build, char *folder)
{
    int status = 1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int rc = run ? run(build, folder) : without_tool();
        fflush(stdout);
        _exit(rc);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    char folder[] = "/dev/shm/tacho-bench-XXXXXX", other[] = "./bench-segments-XXXXXX",
         absolute[4096];
    char *used = mkdtemp(folder) ? folder : mkdtemp(other);
    if (argc != 2 || !used || !realpath(used, absolute)) {
        fprintf(stderr, "usage: agent BUILD\n");
        return 2;
    }
    pin(0);
    measure(TICKS_NAME, do_ticks, 0);
    measure("clock_gettime(CLOCK_MONOTONIC)", do_clock, 0);
    int rc = in_child(NULL, argv[1], absolute);
    rc |= in_child(with_tool, argv[1], absolute);
    remove_folder(absolute);
    return rc;
}
