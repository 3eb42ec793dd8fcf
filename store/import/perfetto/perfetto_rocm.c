/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of rocprofv3 (--output-format pftrace) in the words of Kineto: kernels and copies on the
 * queues of their agents, calls on the threads that made them. Agents have the numbers of the
 * trace, where CPUs count too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/import/perfetto/perfetto_private.h"
#include "store/store.h"

static struct kj_span span_of(const char *text)
{
    return (struct kj_span){text, strlen(text)};
}

static const struct kj_arg *argument(const struct kj_event *event, const char *key)
{
    for (size_t i = 0; i < event->arg_count; i++)
        if (event->arg[i].key.bytes == strlen(key) &&
            !memcmp(event->arg[i].key.text, key, event->arg[i].key.bytes))
            return &event->arg[i];
    return NULL;
}

static void put_argument(struct kj_event *event, enum kineto_arg id, const char *key,
                         struct kj_span value)
{
    if (event->arg_count < KJ_ARGS_MAX)
        event->arg[event->arg_count++] = (struct kj_arg){span_of(key), value, id};
}

/* Appends an argument under the name that Kineto has for it. */
static void put_as(struct kj_event *event, const char *from, enum kineto_arg id, const char *key)
{
    const struct kj_arg *arg = argument(event, from);
    if (arg)
        put_argument(event, id, key, arg->value);
}

/* Takes an argument out that means something else in a trace of Kineto. */
static void drop(struct kj_event *event, const char *key)
{
    const struct kj_arg *arg = argument(event, key);
    if (!arg)
        return;
    size_t place = (size_t)(arg - event->arg);
    memmove(&event->arg[place], &event->arg[place + 1],
            (--event->arg_count - place) * sizeof *event->arg);
}

/* The number at the end of the name of an agent: 4 of 4 and of "Agent-4"; "0": none. */
static struct kj_span number_of(const struct kj_arg *agent)
{
    struct kj_span text = agent ? kineto_inside(agent->value) : span_of("");
    size_t first = text.bytes;
    while (first && text.text[first - 1] >= '0' && text.text[first - 1] <= '9')
        first--;
    struct kj_span number = {text.text + first, text.bytes - first};
    return number.bytes ? number : span_of("0");
}

static bool holds(struct kj_span span, const char *text)
{
    return span.bytes && memmem(span.text, span.bytes, text, strlen(text)) != NULL;
}

/* A copy is of the agent that is no host. */
static void translate_copy(struct kj_event *event)
{
    struct kj_span way = event->field[KJ_NAME];
    bool host_in = holds(way, "HOST_TO_DEVICE"), host_out = holds(way, "DEVICE_TO_HOST");
    const char *name = "\"Memcpy (unknown)\"";
    if (host_in)
        name = "\"Memcpy HtoD\"";
    else if (host_out)
        name = "\"Memcpy DtoH\"";
    else if (holds(way, "DEVICE_TO_DEVICE"))
        name = "\"Memcpy DtoD\"";
    event->field[KJ_NAME] = span_of(name);
    put_argument(event, KINETO_ARG_DEVICE, "device",
                 number_of(argument(event, host_out ? "src_agent" : "dst_agent")));
    put_argument(event, KINETO_ARG_STREAM, "stream", span_of("-2")); /* not of a queue */
    put_as(event, "copy_bytes", KINETO_ARG_BYTES, "bytes");
}

/* A call, or a range of ROCTX: its thread is an argument, because its track is none. */
static void translate_call(struct kj_event *event)
{
    const struct kj_arg *thread = argument(event, "tid");
    if (thread)
        event->field[KJ_TID] = thread->value;
}

void perfetto_rocm(struct kj_event *event)
{
    static const struct {
        const char *theirs, *category;
        void (*translate)(struct kj_event *event);
        bool launches;
    } categories[] = {{"kernel_dispatch", "\"kernel\"", NULL, true},
                      {"memory_copy", "\"gpu_memcpy\"", translate_copy, true},
                      {"hip_api", "\"hip_runtime\"", translate_call, true},
                      {"hsa_api", "\"hip_driver\"", translate_call, true},
                      {"marker_api", "\"roctx\"", translate_call, false},
                      {"rccl_api", "\"rccl\"", translate_call, false}};
    if (!kineto_equals(event->field[KJ_PH], "X") || !argument(event, "corr_id"))
        return;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        if (!kineto_equals(event->field[KJ_CAT], categories[i].theirs))
            continue;
        event->field[KJ_CAT] = span_of(categories[i].category);
        drop(event, "kind"); /* of the record; Kineto's is the way of a copy */
        if (categories[i].launches)
            put_as(event, "corr_id", KINETO_ARG_CORRELATION, "correlation");
        if (categories[i].translate) {
            categories[i].translate(event);
            return;
        }
        put_argument(event, KINETO_ARG_DEVICE, "device", number_of(argument(event, "agent")));
        put_as(event, "queue", KINETO_ARG_STREAM, "stream");
        return;
    }
}
