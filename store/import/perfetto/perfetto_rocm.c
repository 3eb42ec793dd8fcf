/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of rocprofv3 (--output-format pftrace) and of rocprof-sys (Omnitrace) in the words of
 * Kineto: kernels and copies on the queues of their agents, calls on the threads that made them.
 * Agents of rocprofv3 have the numbers of the trace, where CPUs count too. rocprof-sys counts GPUs,
 * and names them by the track of a kernel alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/import/perfetto/perfetto_private.h"
#include "store/store.h"

/* Appends an argument under the name that Kineto has for it. */
static void put_as(struct kj_event *event, const char *from, enum kineto_arg id, const char *key)
{
    const struct kj_arg *arg = kineto_argument(event, from);
    if (arg)
        kineto_put_argument(event, id, key, arg->value);
}

/* Takes an argument out that means something else in a trace of Kineto. */
static void drop(struct kj_event *event, const char *key)
{
    const struct kj_arg *arg = kineto_argument(event, key);
    if (!arg)
        return;
    size_t place = (size_t)(arg - event->arg);
    memmove(&event->arg[place], &event->arg[place + 1],
            (--event->arg_count - place) * sizeof *event->arg);
}

/* The number at the end of the name of an agent: 4 of 4 and of "Agent-4"; "0": none. */
static struct kj_span number_of(const struct kj_arg *agent)
{
    struct kj_span text = agent ? kineto_inside(agent->value) : kineto_span("");
    size_t first = text.bytes;
    while (first && text.text[first - 1] >= '0' && text.text[first - 1] <= '9')
        first--;
    struct kj_span number = {text.text + first, text.bytes - first};
    return number.bytes ? number : kineto_span("0");
}

static bool holds(struct kj_span span, const char *text)
{
    return span.bytes && memmem(span.text, span.bytes, text, strlen(text)) != NULL;
}

/* A copy by the words of its operation. */
static void name_copy(struct kj_event *event)
{
    static const char *const names[][2] = {{"HOST_TO_DEVICE", "\"Memcpy HtoD\""},
                                           {"DEVICE_TO_HOST", "\"Memcpy DtoH\""},
                                           {"DEVICE_TO_DEVICE", "\"Memcpy DtoD\""}};
    const char *name = "\"Memcpy (unknown)\"";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (holds(event->field[KJ_NAME], names[i][0]))
            name = names[i][1];
    event->field[KJ_NAME] = kineto_span(name);
}

/* A copy of rocprofv3 is of the agent that is no host. */
static void translate_copy(struct kj_event *event)
{
    bool host_out = holds(event->field[KJ_NAME], "DEVICE_TO_HOST");
    name_copy(event);
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device",
                        number_of(kineto_argument(event, host_out ? "src_agent" : "dst_agent")));
    kineto_put_argument(event, KINETO_ARG_STREAM, "stream", kineto_span("-2")); /* not of a queue */
    put_as(event, "copy_bytes", KINETO_ARG_BYTES, "bytes");
}

/* A call, or a range of ROCTX: its thread is an argument, because its track is none. */
static void translate_call(struct kj_event *event)
{
    const struct kj_arg *thread = kineto_argument(event, "tid");
    if (thread)
        event->field[KJ_TID] = thread->value;
}

/* Events of rocprofv3; false: it is of another program. */
static bool translate_rocprofv3(struct kj_event *event)
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
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        if (!kineto_equals(event->field[KJ_CAT], categories[i].theirs))
            continue;
        event->field[KJ_CAT] = kineto_span(categories[i].category);
        drop(event, "kind"); /* of the record; Kineto's is the way of a copy */
        if (categories[i].launches)
            put_as(event, "corr_id", KINETO_ARG_CORRELATION, "correlation");
        if (categories[i].translate) {
            categories[i].translate(event);
            return true;
        }
        kineto_put_argument(event, KINETO_ARG_DEVICE, "device",
                            number_of(kineto_argument(event, "agent")));
        put_as(event, "queue", KINETO_ARG_STREAM, "stream");
        return true;
    }
    return false;
}

/* ---- rocprof-sys ------------------------------------------------------------------------------- */

/* The digits behind a word of the name of a track; no bytes: there are none. */
static struct kj_span digits_behind(struct pb_span track, const char *word)
{
    const unsigned char *found =
        track.bytes ? memmem(track.data, track.bytes, word, strlen(word)) : NULL;
    struct kj_span digits = {found ? (const char *)found + strlen(word) : "", 0};
    const char *end = found ? (const char *)track.data + track.bytes : digits.text;
    while (digits.text + digits.bytes < end && digits.bytes < PERFETTO_DIGITS_MOST &&
           digits.text[digits.bytes] >= '0' && digits.text[digits.bytes] <= '9')
        digits.bytes++;
    return digits;
}

/* "GPU Kernel Dispatch [1] Queue 2", "HIP Activity Device 1, Queue 2", "HIP Activity Stream 2":
 * puts an operation on its GPU and queue. Copies name agents, which count CPUs: they are put on the
 * GPU of the last kernel, which is that of the program unless it has several. */
static void place_on_device(struct perfetto *perfetto, struct kj_event *event, struct pb_span track,
                            bool copy)
{
    static const char *const devices[] = {"Dispatch [", "Device "}, *const queues[] = {"Queue ",
                                                                                       "Stream "};
    const struct kj_arg *queue = kineto_argument(event, "queue");
    struct kj_span stream = kineto_span("0");
    int64_t number;
    for (size_t i = 0; i < 2 && !copy; i++) {
        struct kj_span device = digits_behind(track, devices[i]),
                       behind = digits_behind(track, queues[i]);
        if (device.bytes)
            snprintf(perfetto->gpu, sizeof perfetto->gpu, "%.*s", (int)device.bytes, device.text);
        if (behind.bytes)
            stream = behind;
    }
    if (queue && kineto_int(queue->value, &number))
        stream = queue->value;
    drop(event, "device");
    drop(event, "stream");
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device", kineto_span(perfetto->gpu));
    kineto_put_argument(event, KINETO_ARG_STREAM, "stream", copy ? kineto_span("-2") : stream);
}

/* Is an operation of a GPU a copy? Those that are shown by stream are of one category. */
static bool is_copy(const struct kj_event *event)
{
    const struct kj_arg *kind = kineto_argument(event, "op");
    return kineto_equals(event->field[KJ_CAT], "rocm_memory_copy") ||
           holds(event->field[KJ_NAME], "MEMORY_COPY") ||
           (kind && kineto_equals(kind->value, "COPY"));
}

static void translate_rocprof_sys(struct perfetto *perfetto, struct kj_event *event,
                                  struct pb_span track)
{
    static const struct {
        const char *theirs, *category; /* NULL: a kernel or a copy */
    } categories[] = {{"rocm_kernel_dispatch", NULL},      {"rocm_memory_copy", NULL},
                      {"rocm_hip_stream", NULL},           {"device_hip", NULL},
                      {"rocm_hip_api", "\"hip_runtime\""}, {"rocm_hip", "\"hip_runtime\""},
                      {"rocm_hsa_api", "\"hip_driver\""},  {"rocm_hsa", "\"hip_driver\""},
                      {"rocm_marker_api", "\"roctx\""},    {"rocm_roctx", "\"roctx\""}};
    const struct kj_arg *kind = kineto_argument(event, "op");
    size_t i = 0, count = sizeof categories / sizeof *categories;
    while (i < count && !kineto_equals(event->field[KJ_CAT], categories[i].theirs))
        i++;
    if (i == count || holds(event->field[KJ_NAME], "SCRATCH_MEMORY"))
        return;
    bool copy = is_copy(event), barrier = kind && kineto_equals(kind->value, "BARRIER");
    put_as(event, "corr_id", KINETO_ARG_CORRELATION, "correlation");
    if (categories[i].category) {
        event->field[KJ_CAT] = kineto_span(categories[i].category);
        return;
    }
    drop(event, "kind");
    event->field[KJ_CAT] = kineto_span(copy ? "\"gpu_memcpy\"" : "\"kernel\"");
    if (barrier)
        event->field[KJ_CAT] = kineto_span("\"cuda_sync\"");
    place_on_device(perfetto, event, track, copy);
    if (copy)
        name_copy(event);
}

void perfetto_rocm(struct perfetto *perfetto, struct kj_event *event, struct pb_span track)
{
    if (!kineto_equals(event->field[KJ_PH], "X"))
        return;
    if (!kineto_argument(event, "corr_id") || !translate_rocprofv3(event))
        translate_rocprof_sys(perfetto, event, track);
}
