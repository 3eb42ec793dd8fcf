/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute libcuda.so.1: as much of the driver as the injection of tools needs. cuInit loads
 * $CUDA_INJECTION64_PATH and calls its InitializeInjection, as the real one does. Launches, copies
 * and waits do nothing but tell the tool (fake_cupti.c).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "fake_gpu.h"

#define EXPORT __attribute__((visibility("default")))

static _Atomic(fake_tool) tool;
static _Atomic int initialised;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialise(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    atomic_store(&initialised, 1);
    void *h = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*start)(void) = h ? (int (*)(void))(uintptr_t)dlsym(h, "InitializeInjection") : NULL;
    if (start)
        start();
}

EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
EXPORT int cuCtxGetCurrent(void **current);
EXPORT int cuCtxGetDevice(int *device);
EXPORT int cuCtxSynchronize(void);
EXPORT void fake_cuda_set_tool(fake_tool f);
EXPORT void fake_cuda_call(struct fake_call *c);
EXPORT uint64_t fake_cuda_launches(void);
EXPORT uint64_t fake_cuda_operations(void);

int cuInit(unsigned flags)
{
    (void)flags;
    pthread_once(&once, initialise);
    return 0;
}

int cuDriverGetVersion(int *version)
{
    const char *text = getenv("FAKE_CUDA_VERSION");
    fake_tool f = atomic_load(&tool);
    struct fake_call call = {.what = FAKE_VERSION, .driver = 1};
    *version = text ? atoi(text) : 13000;
    if (f)
        f(&call);
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return atomic_load(&initialised) ? 0 : 3;
}

/* A program that calls has the primary context of its one device. */
static _Atomic int context;

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = atomic_load(&context);
    return 0;
}

int cuCtxGetCurrent(void **current)
{
    *current = atomic_load(&context) ? &context : NULL;
    return 0;
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return atomic_load(&context) ? 0 : 201;
}

int cuCtxSynchronize(void)
{
    return 0;
}

void fake_cuda_set_tool(fake_tool f)
{
    atomic_store(&tool, f);
}

/* Kernels launched so far, and what they told of their operations. */
static _Atomic uint64_t launches, operations;

uint64_t fake_cuda_launches(void)
{
    return atomic_load(&launches);
}

uint64_t fake_cuda_operations(void)
{
    return atomic_load(&operations);
}

void fake_cuda_call(struct fake_call *c)
{
    fake_tool f = atomic_load(&tool);
    atomic_store(&context, 1);
    atomic_fetch_add(&launches, c->what == FAKE_LAUNCH);
    atomic_fetch_add(&operations, c->operations);
    if (f)
        f(c);
}
