/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of kernels are mangled C++ names. The demangler is the one of the C++ runtime, where there is one: tacho itself is C.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/gpu.h"

typedef char *(*demangler)(const char *name, char *buffer, size_t *size, int *status);

static demangler find(void)
{
    static const char *const library[] = {"libstdc++.so.6", "libc++abi.so.1"};
    void *h = NULL;
    demangler f = (demangler)(uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    for (size_t i = 0; i < sizeof library / sizeof *library && !f; i++)
        if ((h = dlopen(library[i], RTLD_LAZY | RTLD_LOCAL)))
            f = (demangler)(uintptr_t)dlsym(h, "__cxa_demangle");
    return f;
}

char *col_demangle(const char *name)
{
    static demangler demangle;
    static int looked;
    int status = -1;
    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    if (!looked) {
        demangle = find();
        looked = 1;
    }
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    if (status == 0)
        return text;
    free(text);
    return NULL;
}
