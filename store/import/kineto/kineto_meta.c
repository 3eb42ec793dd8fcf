/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what a Kineto trace holds besides events: devices, ranks, versions, the base of its times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto_private.h"

int kineto_run_put(struct kineto *kineto, const char *key, const char *value)
{
    if (kineto->runs == kineto->run_cap) {
        size_t cap = kineto->run_cap ? 2 * kineto->run_cap : 32;
        struct kineto_run_key *run_key = realloc(kineto->run, cap * sizeof *run_key);
        if (!run_key)
            return kineto_no_memory(kineto);
        kineto->run = run_key;
        kineto->run_cap = cap;
    }
    struct kineto_run_key *added = &kineto->run[kineto->runs++];
    *added = (struct kineto_run_key){strdup(key), strdup(value)};
    return added->key && added->value ? 0 : kineto_no_memory(kineto);
}

static bool is(struct kj_span key, const char *text)
{
    return key.bytes == strlen(text) && !memcmp(key.text, text, key.bytes);
}

/* Keeps a scalar as text; lists and objects are not kept. */
static int run_put_value(struct kineto *kineto, const char *key, struct kj_span value)
{
    if (kineto_is_null(value) || !value.bytes || value.bytes > 4096 || value.text[0] == '[' ||
        value.text[0] == '{')
        return 0;
    char *text = kineto_dup(kineto, value);
    int status = text ? kineto_run_put(kineto, key, text) : kineto->code;
    free(text);
    return status;
}

/* ---- deviceProperties ---------------------------------------------------------------------------------------------------- */

struct device {
    struct kineto *kineto;
    int64_t id, major, minor;
    struct kj_span name, value[5];
};

static const struct {
    const char *text, *key;
} device_keys[] = {{"numSms", "sms"},
                   {"totalGlobalMem", "memory_bytes"},
                   {"warpSize", "warp_size"},
                   {"maxThreadsPerMultiprocessor", "max_threads_per_sm"},
                   {"uuid", "uuid"}};

/* Keeps one property of a device. */
static int device_field(void *ctx, struct kj_span key, struct kj_span value)
{
    struct device *device = ctx;
    if (is(key, "id"))
        kineto_int(value, &device->id);
    else if (is(key, "name"))
        device->name = value;
    else if (is(key, "computeMajor"))
        kineto_int(value, &device->major);
    else if (is(key, "computeMinor"))
        kineto_int(value, &device->minor);
    for (size_t i = 0; i < sizeof device_keys / sizeof *device_keys; i++)
        if (is(key, device_keys[i].text))
            device->value[i] = value;
    return 0;
}

/* Keys begin with '@' here: the importer puts the number of the process in its place. */
static int device_row(void *ctx, struct kj_span none, struct kj_span value)
{
    struct device device = {.kineto = ctx, .id = -1, .major = -1, .minor = -1};
    char key[64], text[48];
    (void)none;
    if (!value.bytes || value.text[0] != '{' || kj_each(value, device_field, &device) != KJ_OK ||
        device.id < 0 || device.id >= 1 << 16)
        return 0;
    snprintf(key, sizeof key, "@gpu:%d.name", (int)device.id);
    int status = run_put_value(device.kineto, key, device.name);
    for (size_t i = 0; !status && i < sizeof device_keys / sizeof *device_keys; i++) {
        snprintf(key, sizeof key, "@gpu:%d.%s", (int)device.id, device_keys[i].key);
        status = run_put_value(device.kineto, key, device.value[i]);
    }
    if (!status && device.major >= 0 && device.minor >= 0) {
        snprintf(key, sizeof key, "@gpu:%d.compute_capability", (int)device.id);
        snprintf(text, sizeof text, "%d.%d", (int)device.major, (int)device.minor);
        status = kineto_run_put(device.kineto, key, text);
    }
    return status;
}

/* ---- distributedInfo, and the rest ----------------------------------------------------------------------------------------- */

/* Keeps the rank and the size of the job. */
static int distributed_field(void *ctx, struct kj_span key, struct kj_span value)
{
    struct kineto *kineto = ctx;
    if (is(key, "rank")) {
        if (!kineto_int(value, &kineto->rank) || kineto->rank < 0)
            kineto->rank = STORE_ABSENT;
    } else if (is(key, "world_size")) {
        if (!kineto_int(value, &kineto->world))
            kineto->world = STORE_ABSENT;
        return run_put_value(kineto, "world_size", value);
    } else if (is(key, "backend")) {
        return run_put_value(kineto, "backend", value);
    } else if (is(key, "pg_count")) {
        return run_put_value(kineto, "process_groups", value);
    } else if (is(key, "nccl_version")) {
        return run_put_value(kineto, "source.nccl_version", value);
    }
    return 0;
}

/* Run keys of the same name below `source.`; names of people, jobs and clusters are left
 * out. */
static const char *const kept[] = {
    "schemaVersion",       "displayTimeUnit",      "record_shapes",       "profile_memory",
    "with_stack",          "with_flops",           "with_modules",        "trace_id",
    "cupti_version",       "cuda_runtime_version", "cuda_driver_version", "roctracer_version",
    "rocprofiler_version", "hip_runtime_version",  "hip_driver_version",  "nccl_version"};

/* Additions to times beyond these would not fit 64 bits. */
#define BASE_MAX INT64_C(4000000000000000000)

int kineto_meta(struct kineto *kineto, struct kj_span key, struct kj_span value)
{
    enum kj_result status = KJ_OK;
    if (is(key, "baseTimeNanoseconds")) {
        int64_t base;
        if (kineto_int(value, &base) && base >= -BASE_MAX && base <= BASE_MAX) {
            kineto->base_final = base;
            kineto->base_known = true;
        } else {
            kineto->loss[KINETO_LOSS_META]++;
        }
    } else if (is(key, "deviceProperties") && value.bytes && value.text[0] == '[') {
        status = kj_each(value, device_row, kineto);
    } else if (is(key, "distributedInfo") && value.bytes && value.text[0] == '{') {
        status = kj_each(value, distributed_field, kineto);
    } else if ((is(key, "host_name") || is(key, "hostname")) && kineto_is_string(value)) {
        free(kineto->host);
        kineto->host = kineto_dup(kineto, value);
    } else {
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (is(key, kept[i])) {
                char name[64];
                snprintf(name, sizeof name, "source.%s", kept[i]);
                run_put_value(kineto, name, value);
            }
    }
    if (status == KJ_SHAPE || status == KJ_TEXT)
        kineto->loss[KINETO_LOSS_META]++;
    return kineto->code;
}
