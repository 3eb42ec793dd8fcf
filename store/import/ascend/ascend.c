/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of timelines of Ascend NPUs: events in the form of Chrome's traces, where processes
 * are layers. "Python" is the program, "CANN" the calls of the runtime, "Ascend Hardware" the tasks
 * of the NPU and, of programs that run as a graph, the iterations, "HCCL" (or "Communication") its
 * collectives, and "Overlap Analysis" has sums that msprof made of the others: they are kept to
 * compare with, not as events. It is read by the Kineto importer after a translation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/ascend/ascend_import.h"
#include "store/import/ascend/ascend_private.h"
#include "store/import/input/map.h"
#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"

#define LINES_MOST 65536 /* named threads that are remembered */

/* What is special about a thread. */
enum line { LINE_COLLECTIVES = 1 /* whole collectives */, LINE_ITERATIONS /* of one graph */ };

enum layer { LAYER_HOST, LAYER_CANN, LAYER_HARDWARE, LAYER_COMMUNICATION, LAYER_OVERLAP };

/* Rows of the overlap analysis: name in the trace, run key */
static const struct {
    const char *name, *key;
} overlaps[] = {{"Computing", "source.ascend.computing_ns"},
                {"Communication", "source.ascend.communication_ns"},
                {"Communication(Not Overlapped)", "source.ascend.communication_not_overlapped_ns"},
                {"Free", "source.ascend.free_ns"}};
#define OVERLAPS (sizeof overlaps / sizeof *overlaps)

struct reading {
    struct imp_map layers;  /* pid -> enum layer */
    struct imp_map lines;   /* pid, tid -> enum line */
    struct imp_map devices; /* pid -> number of the NPU */
    char program[24];       /* pid of the Python process, as JSON; "": none */
    char device[24], stream[24], correlation[24], collective[24];
    int64_t rank; /* of the capture; STORE_ABSENT: not known */
    struct ascend_steps steps;
    int rc;      /* of noting steps */
    int64_t npu; /* number of the last NPU that was named: HCCL does not say on which it runs */
    int64_t overlap[OVERLAPS];
    bool has_overlap;
};

bool ascend_holds_words(const unsigned char *text, size_t bytes)
{
    static const char *const words[] = {
        "\"Ascend Hardware\"",  "\"AscendCL@",    "\"async_npu\"",
        "enqueue_to_dequeue",   "\"Enqueue@",     "\"Dequeue@",
        "\"Overlap Analysis\"", "\"HostToDevice", "{\"name\": \"HCCL\"}"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (imp_holds(text, bytes, words[i]))
            return true;
    return false;
}

static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes && (head[0] == '[' || head[0] == '{') && ascend_holds_words(head, bytes);
}

bool ascend_may_follow(const char *path, const unsigned char *head, size_t bytes)
{
    bool text_times = imp_holds(head, bytes, "\"ts\": \"") || imp_holds(head, bytes, "\"ts\":\"");
    return bytes && ((head[0] == '[' && text_times) || strstr(path, "trace_view"));
}

static bool holds(struct kj_span span, const char *text)
{
    span = kineto_inside(span);
    return span.text && span.bytes && memmem(span.text, span.bytes, text, strlen(text));
}

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

/* What a process is, by its name. */
static int name_process(struct reading *reading, int64_t pid, struct kj_span name)
{
    enum layer layer = LAYER_HOST;
    if (kineto_equals(name, "Ascend Hardware") || kineto_begins(name, "NPU "))
        layer = LAYER_HARDWARE;
    else if (kineto_equals(name, "CANN") || kineto_equals(name, "AscendCL"))
        layer = LAYER_CANN;
    else if (kineto_equals(name, "HCCL") || kineto_equals(name, "Communication"))
        layer = LAYER_COMMUNICATION;
    else if (kineto_equals(name, "Overlap Analysis"))
        layer = LAYER_OVERLAP;
    else if (kineto_equals(name, "Python"))
        snprintf(reading->program, sizeof reading->program, "%" PRId64, pid);
    return imp_map_put(&reading->layers, pid, 0, layer);
}

/* What is special about a thread, by its name. */
static int name_thread(struct reading *reading, int64_t pid, int64_t tid, struct kj_span name)
{
    enum line line;
    if (holds(name, "Communication"))
        line = LINE_COLLECTIVES;
    else if (kineto_begins(name, "Step Trace"))
        line = LINE_ITERATIONS;
    else
        return 0;
    return reading->lines.count < LINES_MOST ? imp_map_put(&reading->lines, pid, tid, line) : 0;
}

static int look(void *ctx, const struct kj_event *event)
{
    struct reading *reading = ctx;
    const struct kj_arg *name = kineto_argument(event, "name"),
                        *labels = kineto_argument(event, "labels");
    int64_t pid, tid, device;
    if (!kineto_int(event->field[KJ_PID], &pid))
        return 0;
    if (name && kineto_equals(event->field[KJ_NAME], "process_name"))
        return name_process(reading, pid, name->value);
    if (labels && kineto_begins(labels->value, "NPU ")) {
        struct kj_span number = kineto_inside(labels->value);
        number.text += 4;
        number.bytes -= 4;
        if (!kineto_int(number, &device) || device < 0 || device >= 1 << 16)
            return 0;
        reading->npu = device;
        return imp_map_put(&reading->devices, pid, 0, device);
    }
    if (name && kineto_equals(event->field[KJ_NAME], "thread_name") &&
        kineto_int(event->field[KJ_TID], &tid))
        return name_thread(reading, pid, tid, name->value);
    return 0;
}

/* ---- events ----------------------------------------------------------------------------------------------------------------- */

/* Puts an event on a stream of its NPU. `stream`: NULL: that of its thread. */
static void place_on_device(struct reading *reading, struct kj_event *event, int64_t pid,
                            const char *stream)
{
    const int64_t *device = imp_map_find(&reading->devices, pid, 0);
    snprintf(reading->device, sizeof reading->device, "%" PRId64, device ? *device : reading->npu);
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device", kineto_span(reading->device));
    if (stream)
        kineto_put_argument(event, KINETO_ARG_STREAM, "stream", kineto_span(stream));
}

static struct ascend_text text_of(struct kj_span span)
{
    span = kineto_inside(span);
    return (struct ascend_text){span.text, span.bytes};
}

static bool is_line(const struct reading *reading, const struct kj_event *event, int64_t pid,
                    enum line line)
{
    int64_t tid;
    const int64_t *known =
        kineto_int(event->field[KJ_TID], &tid) ? imp_map_find(&reading->lines, pid, tid) : NULL;
    return known && *known == line;
}

/* An iteration of a graph, or a part of one, which spans the tasks of its streams. */
static void translate_iteration(struct reading *reading, struct kj_event *event, int64_t pid)
{
    const struct kj_arg *number = kineto_argument(event, "Iteration ID");
    int64_t line, index, start, dur, end;
    int decimals;
    bool rounded;
    if (!reading->rc && kineto_equals(event->field[KJ_CAT], "Iteration Time") && number &&
        kineto_int(number->value, &index) && kineto_int(event->field[KJ_TID], &line) &&
        kineto_time(event->field[KJ_TS], 1000, &start, &decimals, &rounded) &&
        kineto_time(event->field[KJ_DUR], 1000, &dur, &decimals, &rounded) && dur >= 0 &&
        !__builtin_add_overflow(start, dur, &end))
        reading->rc = ascend_steps_note(&reading->steps, line, index, start, end);
    event->field[KJ_CAT] = kineto_span("\"gpu_user_annotation\"");
    place_on_device(reading, event, pid, NULL);
}

/* A task of the NPU: what computes is a kernel, what waits for an event or notifies is not busy. */
static void translate_task(struct reading *reading, struct kj_event *event, int64_t pid)
{
    const struct kj_arg *type = kineto_argument(event, "Task Type"),
                        *connection = kineto_argument(event, "connection_id");
    enum ascend_task task = ASCEND_TASK_KERNEL;
    const char *category = "\"kernel\"";
    int64_t number;
    if (type)
        task = ascend_task_of(text_of(type->value), text_of(event->field[KJ_NAME]));
    if (task == ASCEND_TASK_WAIT)
        category = "\"cuda_sync\"";
    else if (task == ASCEND_TASK_COPY)
        category = "\"gpu_memcpy\"";
    event->field[KJ_CAT] = kineto_span(category);
    place_on_device(reading, event, pid, NULL);
    if (connection && kineto_int(connection->value, &number) && number > 0) {
        snprintf(reading->correlation, sizeof reading->correlation, "%" PRId64, number);
        kineto_put_argument(event, KINETO_ARG_CORRELATION, "correlation",
                            kineto_span(reading->correlation));
    }
}

/* Of the threads of HCCL those that hold whole collectives count; the planes below them hold the
 * pieces of which they are made. */
static bool translate_collective(struct reading *reading, struct kj_event *event, int64_t pid)
{
    int64_t tid;
    bool named = kineto_begins(event->field[KJ_NAME], "hcom_") ||
                 kineto_begins(event->field[KJ_NAME], "Hccl") ||
                 kineto_begins(event->field[KJ_NAME], "hccl");
    if (!kineto_int(event->field[KJ_TID], &tid))
        return false;
    if (!named && !is_line(reading, event, pid, LINE_COLLECTIVES))
        return false;
    event->field[KJ_CAT] = kineto_span("\"kernel\"");
    if (!named) { /* of a graph: it has the name of its node, "Default/AllReduce-op5_0" */
        struct kj_span name = kineto_inside(event->field[KJ_NAME]);
        const char *collective = store_collective_in(name.text, name.text ? name.bytes : 0);
        snprintf(reading->collective, sizeof reading->collective, "\"%s\"",
                 collective ? collective : "collective");
        kineto_put_argument(event, KINETO_ARG_COLLECTIVE, "Collective name",
                            kineto_span(reading->collective));
    }
    snprintf(reading->stream, sizeof reading->stream, "%" PRId64, 100000 + (tid & 0xffff));
    place_on_device(reading, event, pid, reading->stream);
    return true;
}

/* A call of CANN lies on the thread of the program that made it. */
static void translate_call(const struct reading *reading, struct kj_event *event)
{
    event->field[KJ_CAT] = kineto_span("\"cuda_runtime\"");
    if (reading->program[0])
        event->field[KJ_PID] = kineto_span(reading->program);
}

/* The arrow from a call to its task: the upper half of its number is the connection of the task. It
 * becomes a call of its own, because the range around it may launch several tasks. */
static bool translate_launch(struct reading *reading, struct kj_event *event)
{
    int64_t id;
    if (!kineto_equals(event->field[KJ_PH], "s") ||
        !kineto_equals(event->field[KJ_CAT], "HostToDevice") ||
        !kineto_int(event->field[KJ_ID], &id) || id <= 0)
        return false;
    snprintf(reading->correlation, sizeof reading->correlation, "%" PRId64, id >> 32);
    event->field[KJ_PH] = kineto_span("\"X\"");
    event->field[KJ_DUR] = kineto_span("0");
    event->field[KJ_NAME] = kineto_span("\"Launch (HostToDevice)\"");
    kineto_put_argument(event, KINETO_ARG_CORRELATION, "correlation",
                        kineto_span(reading->correlation));
    translate_call(reading, event);
    return true;
}

/* Adds up a row of the overlap analysis. */
static void add_overlap(struct reading *reading, const struct kj_event *event)
{
    int64_t dur;
    int decimals;
    bool rounded;
    if (!kineto_time(event->field[KJ_DUR], 1000, &dur, &decimals, &rounded) || dur < 0)
        return;
    for (size_t i = 0; i < OVERLAPS; i++)
        if (kineto_equals(event->field[KJ_NAME], overlaps[i].name) &&
            !__builtin_add_overflow(reading->overlap[i], dur, &reading->overlap[i]))
            reading->has_overlap = true;
}

static bool translate(void *ctx, struct kj_event *event)
{
    struct reading *reading = ctx;
    int64_t pid;
    const int64_t *known =
        kineto_int(event->field[KJ_PID], &pid) ? imp_map_find(&reading->layers, pid, 0) : NULL;
    enum layer layer = known ? (enum layer) * known : LAYER_HOST;
    bool complete = kineto_equals(event->field[KJ_PH], "X");
    if (layer == LAYER_CANN && !complete)
        return translate_launch(reading, event);
    if (layer == LAYER_OVERLAP && complete)
        add_overlap(reading, event);
    if (layer == LAYER_OVERLAP ||
        (layer != LAYER_HOST && !complete && !kineto_equals(event->field[KJ_PH], "C")))
        return false;
    if (layer == LAYER_HARDWARE && complete && is_line(reading, event, pid, LINE_ITERATIONS))
        translate_iteration(reading, event, pid);
    else if (layer == LAYER_HARDWARE && complete)
        translate_task(reading, event, pid);
    else if (layer == LAYER_COMMUNICATION)
        return translate_collective(reading, event, pid);
    else if (layer == LAYER_CANN)
        translate_call(reading, event);
    return !kineto_is_null(event->field[KJ_PH]);
}

static int64_t rank_of(void *ctx)
{
    return ((const struct reading *)ctx)->rank;
}

static int finish(void *ctx, struct imp_run *run, int64_t process)
{
    struct reading *reading = ctx;
    char key[64];
    int rc = reading->rc;
    if (!rc)
        rc = store_run_set(run->db, "source.tool", "Ascend (torch_npu, msprof)");
    for (size_t i = 0; i < OVERLAPS && reading->has_overlap && !rc && !run->file_index; i++)
        rc = store_run_set_int(run->db, overlaps[i].key, reading->overlap[i]);
    for (size_t i = 0; i < reading->layers.cap && !rc; i++) {
        const struct imp_map_slot *slot = &reading->layers.slot[i];
        if (!slot->used || slot->value != LAYER_HARDWARE)
            continue;
        const int64_t *device = imp_map_find(&reading->devices, slot->first, 0);
        snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".name", process,
                 device ? *device : reading->npu);
        rc = store_run_set(run->db, key, "Ascend NPU");
    }
    return rc ? rc : ascend_steps_write(&reading->steps, run, process, "Iteration of Step Trace");
}

/* Reads one file; this is the `read` of the importer. */
static int read_timeline(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.rank = ascend_rank_of(path), .npu = ascend_device_of(path)};
    const struct kineto_dialect dialect = {
        .look = look, .rank = rank_of, .translate = translate, .finish = finish, .ctx = &reading};
    int rc = kineto_read_as(run, path, &dialect, err);
    imp_map_free(&reading.layers);
    imp_map_free(&reading.lines);
    imp_map_free(&reading.devices);
    ascend_steps_free(&reading.steps);
    return rc;
}

const struct importer imp_ascend = {
    .source = "ascend", .recognises = recognises, .read = read_timeline};
