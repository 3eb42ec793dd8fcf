/* SPDX-License-Identifier: Apache-2.0
 *
 * The library of NVIDIA's management interface, and readings of its metrics.
 */
#include <dlfcn.h>
#include <math.h>

#include "profiler/collector/samplers/nvml_private.h"

#define NVLINKS 18u /* of a device, at most (NVML_NVLINK_MAX_LINKS) */

/* Loads the library and looks up its functions, by older names where it lacks the newer ones. */
bool nvml_load(struct nvml_library *library)
{
    library->loaded = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library->loaded)
        library->loaded = dlopen("libnvidia-ml.so", RTLD_NOW | RTLD_LOCAL);
    if (!library->loaded)
        return false;
#define LOOK_UP(name, symbol, older, arguments) \
    { \
        const char *old_ = older; \
        library->name = (int(*) arguments)(uintptr_t)dlsym(library->loaded, symbol); \
        if (!library->name && old_) \
            library->name = (int(*) arguments)(uintptr_t)dlsym(library->loaded, old_); \
    }
    NVML_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return library->init && library->count && library->handle;
}

/* The value of a field, by the type that NVML gives with it. */
static double field_value(const struct nvml_field *field)
{
    switch (field->type) {
    case 0:
        return field->value.f64;
    case 1:
        return field->value.u32;
    case 2:
        return (double)field->value.u;
    case 3:
        return (double)field->value.u64;
    case 4:
        return (double)field->value.i64;
    case 5:
        return field->value.i32;
    default:
        return NAN;
    }
}

static int read_field(const struct nvml_library *library, device_t device, unsigned id,
                      unsigned scope, double *value)
{
    struct nvml_field field = {.id = id, .scope = scope};
    if (!library->fields)
        return NVML_FUNCTION_NOT_FOUND;
    int rc = library->fields(device, 1, &field);
    *value = field_value(&field);
    return rc ? rc : field.result;
}

/* The next functions adapt NVML's getters, which differ in their types, to a double. A function
 * that the library lacks counts as not supported. */
static int read_u32(int (*query)(device_t, unsigned *), device_t device, double *value)
{
    unsigned answer = 0;
    int rc = query ? query(device, &answer) : NVML_FUNCTION_NOT_FOUND;
    *value = answer;
    return rc;
}

static int read_u32_of(int (*query)(device_t, int, unsigned *), device_t device, int which,
                       double *value)
{
    unsigned answer = 0;
    int rc = query ? query(device, which, &answer) : NVML_FUNCTION_NOT_FOUND;
    *value = answer;
    return rc;
}

static int read_u64(int (*query)(device_t, unsigned long long *), device_t device, double *value)
{
    unsigned long long answer = 0;
    int rc = query ? query(device, &answer) : NVML_FUNCTION_NOT_FOUND;
    *value = (double)answer;
    return rc;
}

static int read_utilization(const struct nvml_library *library, device_t device, bool memory,
                            double *value)
{
    struct nvml_utilization share = {0};
    int rc = library->utilization ? library->utilization(device, &share) : NVML_FUNCTION_NOT_FOUND;
    *value = memory ? share.memory : share.gpu;
    return rc;
}

static int read_memory(const struct nvml_library *library, device_t device, double *value)
{
    struct nvml_memory bytes = {0};
    int rc = library->memory ? library->memory(device, &bytes) : NVML_FUNCTION_NOT_FOUND;
    *value = (double)bytes.used;
    return rc;
}

/* NVLinks that are up. A device without any says that it does not support the question. */
static int read_links(const struct nvml_library *library, device_t device, double *value)
{
    int rc = library->nvlink ? NVML_OK : NVML_FUNCTION_NOT_FOUND;
    *value = 0;
    for (unsigned link = 0; link < NVLINKS && !rc; link++) {
        unsigned on = 0;
        rc = library->nvlink(device, link, &on);
        *value += !rc && on;
        if (rc && link) /* there are no more */
            return NVML_OK;
    }
    return rc;
}

/* Rows that were remapped because of errors, those that wait for a reset included. */
static int read_remapped(const struct nvml_library *library, device_t device, double *value)
{
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    int rc = library->remapped
                 ? library->remapped(device, &corrected, &uncorrected, &pending, &failed)
                 : NVML_FUNCTION_NOT_FOUND;
    *value = (double)corrected + uncorrected + pending;
    return rc;
}

/* Errors since the driver was loaded that ECC could not correct. */
static int read_ecc(const struct nvml_library *library, device_t device, double *value)
{
    unsigned long long errors = 0;
    int rc = library->ecc ? library->ecc(device, 1, 0, &errors) : NVML_FUNCTION_NOT_FOUND;
    *value = (double)errors;
    return rc;
}

int nvml_read(const struct nvml_library *library, device_t device, enum col_nvml_metric metric,
              double *value)
{
    const unsigned all_links = 0xffffffffu;
    switch (metric) {
    case COL_NVML_POWER:
        return read_u32(library->power, device, value);
    case COL_NVML_ENERGY:
        return read_u64(library->energy, device, value);
    case COL_NVML_CLOCK_SM:
        return read_u32_of(library->clock, device, 1, value);
    case COL_NVML_CLOCK_MEMORY:
        return read_u32_of(library->clock, device, 2, value);
    case COL_NVML_THROTTLE:
        return read_u64(library->reasons, device, value);
    case COL_NVML_TEMPERATURE:
        return read_u32_of(library->temperature, device, 0, value);
    case COL_NVML_TEMPERATURE_MEMORY:
        return read_field(library, device, FIELD_MEMORY_TEMPERATURE, 0, value);
    case COL_NVML_MEMORY:
        return read_memory(library, device, value);
    case COL_NVML_UTILIZATION:
        return read_utilization(library, device, false, value);
    case COL_NVML_UTILIZATION_MEMORY:
        return read_utilization(library, device, true, value);
    case COL_NVML_PCIE_TX:
        return read_u32_of(library->pcie, device, 0, value);
    case COL_NVML_PCIE_RX:
        return read_u32_of(library->pcie, device, 1, value);
    case COL_NVML_NVLINK_TX:
        return read_field(library, device, FIELD_NVLINK_TX, all_links, value);
    case COL_NVML_NVLINK_RX:
        return read_field(library, device, FIELD_NVLINK_RX, all_links, value);
    case COL_NVML_NVLINK_ACTIVE:
        return read_links(library, device, value);
    case COL_NVML_ECC:
        return read_ecc(library, device, value);
    case COL_NVML_REMAPPED:
        return read_remapped(library, device, value);
    default:
        return NVML_NOT_SUPPORTED;
    }
}
