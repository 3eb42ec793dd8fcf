/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands beside the events of a Kineto trace: devices, ranks, versions, the base of its times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto.h"

int kineto_run_put(struct kineto *k, const char *key, const char *value)
{
    if (k->runs == k->run_cap) {
        size_t cap = k->run_cap ? 2 * k->run_cap : 32;
        struct kineto_run_key *r = realloc(k->run, cap * sizeof *r);
        if (!r)
            return kineto_no_memory(k);
        k->run = r;
        k->run_cap = cap;
    }
    k->run[k->runs] = (struct kineto_run_key){strdup(key), strdup(value)};
    return k->run[k->runs].key && k->run[k->runs++].value ? 0 : kineto_no_memory(k);
}

static bool is(struct kj_span key, const char *text)
{
    return key.n == strlen(text) && !memcmp(key.p, text, key.n);
}

/* A scalar as text; lists and objects are not kept. */
static int run_put_value(struct kineto *k, const char *key, struct kj_span value)
{
    if (kineto_is_null(value) || !value.n || value.n > 4096 || value.p[0] == '[' ||
        value.p[0] == '{')
        return 0;
    char *text = kineto_dup(k, value);
    int rc = text ? kineto_run_put(k, key, text) : k->code;
    free(text);
    return rc;
}

/* ---- deviceProperties ---------------------------------------------------------------------------------------------------- */

struct device {
    struct kineto *k;
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

static int device_field(void *ctx, struct kj_span key, struct kj_span value)
{
    struct device *d = ctx;
    if (is(key, "id"))
        kineto_int(value, &d->id);
    else if (is(key, "name"))
        d->name = value;
    else if (is(key, "computeMajor"))
        kineto_int(value, &d->major);
    else if (is(key, "computeMinor"))
        kineto_int(value, &d->minor);
    for (size_t i = 0; i < sizeof device_keys / sizeof *device_keys; i++)
        if (is(key, device_keys[i].text))
            d->value[i] = value;
    return 0;
}

/* Keys begin with '@' here: the importer puts the number of the process in its place. */
static int device_row(void *ctx, struct kj_span none, struct kj_span value)
{
    struct device d = {.k = ctx, .id = -1, .major = -1, .minor = -1};
    char key[64], text[48];
    (void)none;
    if (!value.n || value.p[0] != '{' || kj_each(value, device_field, &d) != KJ_OK || d.id < 0 ||
        d.id >= 1 << 16)
        return 0;
    snprintf(key, sizeof key, "@gpu:%d.name", (int)d.id);
    int rc = run_put_value(d.k, key, d.name);
    for (size_t i = 0; !rc && i < sizeof device_keys / sizeof *device_keys; i++) {
        snprintf(key, sizeof key, "@gpu:%d.%s", (int)d.id, device_keys[i].key);
        rc = run_put_value(d.k, key, d.value[i]);
    }
    if (!rc && d.major >= 0 && d.minor >= 0) {
        snprintf(key, sizeof key, "@gpu:%d.compute_capability", (int)d.id);
        snprintf(text, sizeof text, "%d.%d", (int)d.major, (int)d.minor);
        rc = kineto_run_put(d.k, key, text);
    }
    return rc;
}

/* ---- distributedInfo, and the rest ----------------------------------------------------------------------------------------- */

static int distributed_field(void *ctx, struct kj_span key, struct kj_span value)
{
    struct kineto *k = ctx;
    if (is(key, "rank")) {
        if (!kineto_int(value, &k->rank) || k->rank < 0)
            k->rank = STORE_ABSENT;
    } else if (is(key, "world_size") || is(key, "backend") || is(key, "pg_count")) {
        return run_put_value(k,
                             is(key, "backend")    ? "backend"
                             : is(key, "pg_count") ? "process_groups"
                                                   : "world_size",
                             value);
    } else if (is(key, "nccl_version")) {
        return run_put_value(k, "source.nccl_version", value);
    }
    return 0;
}

/* Run keys of the same name below `source.`; what names people, jobs and machines' clusters is left
 * out. */
static const char *const kept[] = {
    "schemaVersion",       "displayTimeUnit",      "record_shapes",       "profile_memory",
    "with_stack",          "with_flops",           "with_modules",        "trace_id",
    "cupti_version",       "cuda_runtime_version", "cuda_driver_version", "roctracer_version",
    "rocprofiler_version", "hip_runtime_version",  "hip_driver_version",  "nccl_version"};

/* Additions to times beyond these would not fit 64 bits. */
#define BASE_MAX INT64_C(4000000000000000000)

int kineto_meta(struct kineto *k, struct kj_span key, struct kj_span value)
{
    enum kj_result rc = KJ_OK;
    if (is(key, "baseTimeNanoseconds")) {
        int64_t base;
        if (kineto_int(value, &base) && base >= -BASE_MAX && base <= BASE_MAX) {
            k->base_final = base;
            k->base_known = true;
        } else {
            k->loss[KINETO_LOSS_META]++;
        }
    } else if (is(key, "deviceProperties") && value.n && value.p[0] == '[') {
        rc = kj_each(value, device_row, k);
    } else if (is(key, "distributedInfo") && value.n && value.p[0] == '{') {
        rc = kj_each(value, distributed_field, k);
    } else if ((is(key, "host_name") || is(key, "hostname")) && kineto_is_string(value)) {
        free(k->host);
        k->host = kineto_dup(k, value);
    } else {
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (is(key, kept[i])) {
                char name[64];
                snprintf(name, sizeof name, "source.%s", kept[i]);
                run_put_value(k, name, value);
            }
    }
    if (rc == KJ_SHAPE || rc == KJ_TEXT)
        k->loss[KINETO_LOSS_META]++;
    return k->code;
}
