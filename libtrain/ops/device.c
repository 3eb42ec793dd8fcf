/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and opens the library of the device backend.
 */
#include "libtrain/ops/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tacho_error.h"

#define LIBRARY "libtrain_cuda.so"

/* The library beside the running program; "" where that is not known. */
static void beside_program(char path[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    path[0] = '\0';
    if (length <= 0)
        return;
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    if (snprintf(path, PATH_MAX, "%s/%s", self, LIBRARY) >= PATH_MAX)
        path[0] = '\0';
}

static void *open_library(void)
{
    char path[PATH_MAX];
    const char *named = getenv("LT_CUDA_LIBRARY");
    if (named && *named)
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    beside_program(path);
    if (path[0] && access(path, R_OK) == 0)
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

int lt_device_open(struct lt_device **out, int number, struct tacho_error *err)
{
    char why[256] = "";
    void *library = open_library();
    if (!library)
        return tacho_fail(err, TACHO_ENOTSUP, "`make cuda` builds it", "cuda: %s", dlerror());
    lt_device_opener *opener;
    void *symbol = dlsym(library, "lt_cuda_open");
    memcpy(&opener, &symbol, sizeof opener);
    if (!symbol)
        return tacho_fail(err, TACHO_ENOTSUP, "`make cuda` builds one",
                          "cuda: %s is another library", LIBRARY);
    /* The library stays: threads of the driver may still be in it when the device is closed. */
    if (opener(out, LT_DEVICE_LAYOUT, why, sizeof why, number))
        return tacho_fail(err, TACHO_ENOTSUP, "`train` without --device computes on the processor",
                          "cuda: %s", why);
    return 0;
}

void lt_device_close(struct lt_device *device)
{
    if (!device)
        return;
    free(device->spoken);
    device->close(device);
}
