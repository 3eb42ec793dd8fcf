/* SPDX-License-Identifier: Apache-2.0
 *
 * Categories of Kineto events, current and legacy, of all vendors. Kineto's own list is
 * ActivityType.cpp; the capitalised ones are of versions before 2022.
 */
#include <string.h>
#include <strings.h>

#include "store/import/kineto/kineto_private.h"

static const struct {
    const char *text;
    enum kineto_class class;
} categories[] = {
    {"cpu_op", KINETO_OP},
    {"Operator", KINETO_OP},
    {"user_annotation", KINETO_ANNOTATION},
    {"python_function", KINETO_PYTHON},
    {"cuda_runtime", KINETO_RUNTIME}, /* hip calls too */
    {"hip_runtime", KINETO_RUNTIME},
    {"Runtime", KINETO_RUNTIME},
    {"mtia_runtime", KINETO_RUNTIME},
    {"glow_runtime", KINETO_RUNTIME},
    {"xpu_runtime", KINETO_RUNTIME},
    {"privateuse1_runtime", KINETO_RUNTIME},
    {"cuda_driver", KINETO_DRIVER},
    {"hip_driver", KINETO_DRIVER},
    {"xpu_driver", KINETO_DRIVER},
    {"privateuse1_driver", KINETO_DRIVER},
    {"overhead", KINETO_OVERHEAD},
    {"cpu_instant_event", KINETO_INSTANT},
    {"kernel", KINETO_KERNEL},
    {"concurrent_kernel", KINETO_KERNEL},
    {"hpu_op", KINETO_KERNEL},
    {"mtia_ccp_events", KINETO_KERNEL},
    {"gpu_memcpy", KINETO_MEMCPY},
    {"Memcpy", KINETO_MEMCPY},
    {"gpu_memset", KINETO_MEMSET},
    {"Memset", KINETO_MEMSET},
    {"cuda_sync", KINETO_SYNC},
    {"cuda_event", KINETO_SYNC},
    {"gpu_user_annotation", KINETO_GPU_ANNOTATION},
    {"cuda_profiler_range", KINETO_GPU_ANNOTATION},
};

static const char *const class_names[] = {
    [KINETO_OP] = "op",
    [KINETO_ANNOTATION] = "annotation",
    [KINETO_PYTHON] = "python",
    [KINETO_RUNTIME] = "runtime",
    [KINETO_DRIVER] = "driver",
    [KINETO_OVERHEAD] = "overhead",
    [KINETO_INSTANT] = "instant",
    [KINETO_OTHER] = NULL,
    [KINETO_KERNEL] = "kernel",
    [KINETO_MEMCPY] = "memcpy",
    [KINETO_MEMSET] = "memset",
    [KINETO_SYNC] = "sync",
    [KINETO_GPU_ANNOTATION] = "annotation",
};

const char *kineto_class_name(enum kineto_class class)
{
    return class_names[class];
}

enum kineto_class kineto_category_find(struct kj_span cat)
{
    cat = kineto_inside(cat);
    for (size_t i = 0; cat.text && i < sizeof categories / sizeof *categories; i++)
        if (strlen(categories[i].text) == cat.bytes &&
            !strncasecmp(categories[i].text, cat.text, cat.bytes))
            return categories[i].class;
    return KINETO_OTHER;
}

bool kineto_category_reserved(struct kj_span cat)
{
    static const char *const more[] = {"graph"};
    cat = kineto_inside(cat);
    for (size_t i = 0; cat.text && i < sizeof class_names / sizeof *class_names; i++)
        if (class_names[i] && strlen(class_names[i]) == cat.bytes &&
            !memcmp(class_names[i], cat.text, cat.bytes))
            return true;
    for (size_t i = 0; cat.text && i < sizeof more / sizeof *more; i++)
        if (strlen(more[i]) == cat.bytes && !memcmp(more[i], cat.text, cat.bytes))
            return true;
    return false;
}
