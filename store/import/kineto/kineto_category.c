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
    {"Runtime", KINETO_RUNTIME},
    {"overhead", KINETO_OVERHEAD},
    {"cpu_instant_event", KINETO_INSTANT},
    {"kernel", KINETO_KERNEL},
    {"concurrent_kernel", KINETO_KERNEL},
    {"hpu_op", KINETO_KERNEL},
    {"mtia_ccp_events", KINETO_KERNEL},
    {"Memcpy", KINETO_MEMCPY},
    {"Memset", KINETO_MEMSET},
    {"cuda_sync", KINETO_SYNC}, /* xpu_sync is a call of the host */
    {"cuda_event", KINETO_SYNC},
};

/* What follows the name of a vendor: cuda_runtime (which hip calls have too), mlu_memcpy. */
static const struct {
    const char *text;
    enum kineto_class class;
} vendor_categories[] = {
    {"_runtime", KINETO_RUNTIME},
    {"_driver", KINETO_DRIVER},
    {"_memcpy", KINETO_MEMCPY},
    {"_memset", KINETO_MEMSET},
    {"_user_annotation", KINETO_GPU_ANNOTATION},
    {"_profiler_range", KINETO_GPU_ANNOTATION},
};

static const char *const vendors[] = {"cuda", "hip",  "gpu", "xpu", "mtia", "glow",
                                      "mlu",  "musa", "hpu", "npu", "gcu",  "privateuse1"};

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

static bool is_text(struct kj_span span, const char *text)
{
    return strlen(text) == span.bytes && !strncasecmp(text, span.text, span.bytes);
}

/* Bytes of the name of a vendor that the category begins with; 0: of none. */
static size_t vendor_length(struct kj_span cat)
{
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) {
        size_t bytes = strlen(vendors[i]);
        if (cat.bytes > bytes && cat.text[bytes] == '_' &&
            !strncasecmp(vendors[i], cat.text, bytes))
            return bytes;
    }
    return 0;
}

enum kineto_class kineto_category_find(struct kj_span cat)
{
    cat = kineto_inside(cat);
    if (!cat.text)
        return KINETO_OTHER;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (is_text(cat, categories[i].text))
            return categories[i].class;
    size_t vendor = vendor_length(cat);
    const struct kj_span rest = {cat.text + vendor, cat.bytes - vendor};
    for (size_t i = 0; vendor && i < sizeof vendor_categories / sizeof *vendor_categories; i++)
        if (is_text(rest, vendor_categories[i].text))
            return vendor_categories[i].class;
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
