/* SPDX-License-Identifier: Apache-2.0
 *
 * What the names of planes, lines and operations of an XLA profile say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/xla/xla.h"

#define NUMBER_MOST   9      /* digits of the number of a device or stream */
#define HOST_MEMORY   "S(5)" /* of a shape: the space of memory that is the host's */
#define SPARSE_CORE   " SparseCore "
#define SPARSE_STREAM 16 /* of the first sparse core */

bool xla_equals(struct pb_span span, const char *text)
{
    return span.bytes == strlen(text) && !memcmp(span.data, text, span.bytes);
}

bool xla_begins(struct pb_span span, const char *text)
{
    return span.bytes >= strlen(text) && !memcmp(span.data, text, strlen(text));
}

bool xla_holds(struct pb_span span, const char *text)
{
    return span.bytes && memmem(span.data, span.bytes, text, strlen(text));
}

/* The number that follows `text` in a span; STORE_ABSENT: there is none. */
static int64_t number_after(struct pb_span span, const char *text)
{
    const unsigned char *found =
        span.bytes ? memmem(span.data, span.bytes, text, strlen(text)) : NULL;
    int64_t value = 0;
    int digits = 0;
    if (!found)
        return STORE_ABSENT;
    for (found += strlen(text);
         found < span.data + span.bytes && *found >= '0' && *found <= '9' && digits < NUMBER_MOST;
         found++, digits++)
        value = 10 * value + (*found - '0');
    return digits ? value : STORE_ABSENT;
}

enum xla_plane_kind xla_plane_kind_of(struct pb_span name, int64_t *device)
{
    static const struct {
        const char *prefix;
        enum xla_plane_kind kind;
    } kinds[] = {{"/device:GPU:", XLA_PLANE_GPU},
                 {"/device:TPU:", XLA_PLANE_TPU},
                 {"/host:CPU", XLA_PLANE_HOST},
                 /* collectors of the host, where they were not merged into it */
                 {"/host:CUPTI", XLA_PLANE_HOST},
                 {"/host:ROCTRACER", XLA_PLANE_HOST},
                 {"/host:python-tracer", XLA_PLANE_HOST},
                 {"/host:TPU-runtime", XLA_PLANE_HOST},
                 {"Task Environment", XLA_PLANE_TASK}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (xla_begins(name, kinds[i].prefix)) {
            *device = number_after(name, kinds[i].prefix);
            bool sparse = kinds[i].kind == XLA_PLANE_TPU && xla_holds(name, SPARSE_CORE);
            return sparse ? XLA_PLANE_SPARSE : kinds[i].kind;
        }
    *device = STORE_ABSENT;
    return XLA_PLANE_OTHER;
}

int64_t xla_sparse_core(struct pb_span name)
{
    int64_t core = number_after(name, SPARSE_CORE);
    return core > 0 && core < 64 ? core : 0;
}

enum xla_line_kind xla_line_kind_of(enum xla_plane_kind plane, struct pb_span name, int64_t *stream)
{
    *stream = SPARSE_STREAM;
    if (plane == XLA_PLANE_SPARSE) /* its modules and steps are those of the whole core */
        return xla_equals(name, "XLA Ops") || xla_equals(name, "Sparse Core Ops")
                   ? XLA_LINE_STREAM
                   : XLA_LINE_DERIVED;
    *stream = number_after(name, "Stream #");
    if (xla_begins(name, "Stream #"))
        return XLA_LINE_STREAM;
    *stream = STORE_ABSENT;
    if (xla_begins(name, "XLA Modules"))
        return XLA_LINE_MODULES;
    if (xla_equals(name, "Steps"))
        return XLA_LINE_STEPS;
    if (plane != XLA_PLANE_TPU)
        return XLA_LINE_DERIVED;
    *stream = 0;
    if (xla_equals(name, "XLA Ops"))
        return XLA_LINE_STREAM;
    *stream = 1;
    return xla_begins(name, "Async XLA Ops") ? XLA_LINE_ASYNC : XLA_LINE_DERIVED;
}

/* A name without the sign that it has in the text of a module. */
static struct pb_span without_percent(struct pb_span name)
{
    bool marked = name.bytes && *name.data == '%';
    return (struct pb_span){name.data + marked, name.bytes - marked};
}

const char *xla_collective_of(struct pb_span op)
{
    static const char *const names[][2] = {
        {"all-reduce", "all_reduce"},
        {"all-gather", "all_gather"},
        {"reduce-scatter", "reduce_scatter"},
        {"all-to-all", "all_to_all"},
        {"ragged-all-to-all", "all_to_all"},
        {"collective-permute", "send_recv"},
        {"collective-broadcast", "broadcast"},
        {"send", "send_recv"},
        {"recv", "send_recv"},
    };
    op = without_percent(op);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i][0]);
        if (xla_begins(op, names[i][0]) && (op.bytes == length || strchr(".-_ ", op.data[length])))
            return names[i][1];
    }
    return NULL;
}

/* Is a place in a text that of the first shape, which is what the operation writes? */
static bool in_first_shape(struct pb_span text, const unsigned char *place)
{
    const unsigned char *layout = memchr(text.data, '}', text.bytes);
    return layout && place < layout;
}

/* HtoD, DtoH or DtoD by the memory of the host that the text of an operation names. */
static const char *copy_kind_of(struct pb_span text)
{
    const unsigned char *host =
        text.bytes ? memmem(text.data, text.bytes, HOST_MEMORY, strlen(HOST_MEMORY)) : NULL;
    if (!host)
        return "DtoD";
    return in_first_shape(text, host) ? "DtoH" : "HtoD";
}

struct xla_copy xla_copy_of(struct pb_span category, struct pb_span op, struct pb_span text,
                            bool async)
{
    static const struct {
        const char *begins, *part, *kind; /* kind NULL: by its text */
        bool host_only;                   /* else it is a copy only if the host has a part in it */
    } names[] = {{"copy-start", "start", NULL, false}, {"copy-done", "wait", NULL, false},
                 {"async-copy", NULL, NULL, false},    {"async-start", "start", NULL, true},
                 {"async-done", "wait", NULL, true},   {"send-done", "wait", "DtoH", true},
                 {"recv-done", "wait", "HtoD", true},  {"send", "start", "DtoH", true},
                 {"recv", "start", "HtoD", true}};
    struct pb_span name = category.bytes ? category : without_percent(op);
    bool host = xla_holds(text, HOST_MEMORY) || xla_holds(text, "is_host_transfer=true");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!xla_begins(name, names[i].begins) || (names[i].host_only && !host))
            continue;
        const char *kind = names[i].kind ? names[i].kind : copy_kind_of(text);
        return (struct xla_copy){.kind = kind, .part = async ? NULL : names[i].part};
    }
    return (struct xla_copy){NULL, NULL};
}

bool xla_is_container(struct pb_span category, struct pb_span op)
{
    static const char *const names[] = {"while", "conditional", "call"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (xla_equals(category, names[i]) ||
            (xla_begins(op, names[i]) && (op.bytes == length || op.data[length] == '.')))
            return true;
    }
    return false;
}

/* Does the name begin as that of a call of an accelerator's API? */
static bool is_api_call(struct pb_span name)
{
    static const char *const prefixes[] = {"cuda", "hip", "cu", "hsa"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        if (xla_begins(name, prefixes[i]) && name.bytes > length && name.data[length] >= 'A' &&
            name.data[length] <= 'Z')
            return true;
    }
    return xla_begins(name, "hsa_");
}

const char *xla_host_category(struct pb_span name, bool has_correlation, bool has_op)
{
    if (name.bytes && *name.data == '$')
        return "python";
    if (is_api_call(name))
        return xla_begins(name, "cu") && !xla_begins(name, "cuda") ? "driver" : "runtime";
    if (has_correlation)
        return "runtime";
    if (xla_equals(name, "PythonRefManager::CollectGarbage"))
        return "xla";
    return has_op || xla_begins(name, "PjitFunction(") ? "op" : "xla";
}

struct pb_span xla_launched_module(struct pb_span event)
{
    static const char end[] = ":XLA GPU module";
    size_t length = sizeof end - 1;
    if (event.bytes <= length || memcmp(event.data + event.bytes - length, end, length) != 0)
        return (struct pb_span){NULL, 0};
    return (struct pb_span){event.data, event.bytes - length};
}

bool xla_is_call_of(struct pb_span event, struct pb_span module)
{
    static const char call[] = "PjitFunction(";
    size_t length = sizeof call - 1;
    const unsigned char *end = module.bytes ? memchr(module.data, '(', module.bytes) : NULL;
    if (end)
        module.bytes = (size_t)(end - module.data);
    if (xla_begins(module, "jit_")) {
        module.data += 4;
        module.bytes -= 4;
    }
    return xla_begins(event, call) && event.bytes == length + module.bytes + 1 && module.bytes &&
           !memcmp(event.data + length, module.data, module.bytes);
}
