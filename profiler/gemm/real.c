/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the real functions. A program that is linked with cuBLAS has it after this library in
 * the global scope: RTLD_NEXT. Python loads it with dlopen into a scope of its own: then it is
 * looked for in what is loaded, cuBLAS by its name first, then everything (a static cuBLAS that a
 * library exports). What was found is kept, and its library stays loaded.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "profiler/gemm/gemm.h"

#define OBJECTS_MAX 4096

const char *const gemm_function_name[] = {
#define NAME(name) #name,
    GEMM_CUBLAS_MAP(NAME) GEMM_LT_MAP(NAME) GEMM_ASKED_MAP(NAME)
#undef NAME
};

static _Atomic(uintptr_t) found[GEMM_FUNCTIONS];

/* One object of the list that dl_iterate_phdr goes through: its number in it, and its name. */
struct object {
    int number, at;
    char name[4096];
};

static int name_of_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct object *object = ctx;
    (void)size;
    if (object->at++ < object->number)
        return 0;
    snprintf(object->name, sizeof object->name, "%s", info->dlpi_name ? info->dlpi_name : "");
    return 1;
}

static bool is_cublas(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, "libcublas", 9) == 0;
}

static bool is_own(const void *address)
{
    Dl_info own, other;
    return dladdr((const void *)gemm_function_name, &own) && dladdr(address, &other) &&
           own.dli_fbase == other.dli_fbase;
}

/* In the objects of the process whose name says cuBLAS, or in the others. The lock of the list is
 * not held while one is asked.
 */
static void *in_loaded(const char *name, bool cublas)
{
    struct object object;
    for (object.number = 0; object.number < OBJECTS_MAX; object.number++) {
        object.at = 0;
        if (!dl_iterate_phdr(name_of_object, &object))
            break;
        if (!object.name[0] || is_cublas(object.name) != cublas)
            continue;
        void *handle = dlopen(object.name, RTLD_LAZY | RTLD_NOLOAD);
        void *address = handle ? dlsym(handle, name) : NULL;
        if (address && !is_own(address))
            return address; /* the handle is kept: so is the library */
        if (handle)
            dlclose(handle);
    }
    return NULL;
}

void (*gemm_real(enum gemm_function function))(void)
{
    uintptr_t address = atomic_load_explicit(&found[function], memory_order_relaxed);
    if (!address) {
        address = (uintptr_t)dlsym(RTLD_NEXT, gemm_function_name[function]);
        if (!address)
            address = (uintptr_t)in_loaded(gemm_function_name[function], true);
        if (!address)
            address = (uintptr_t)in_loaded(gemm_function_name[function], false);
        dlerror(); /* not the program's business */
        if (address)
            atomic_store_explicit(&found[function], address, memory_order_relaxed);
    }
    return (void (*)(void))address;
}
