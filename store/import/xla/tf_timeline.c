/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of timelines of TensorFlow 1 (tensorflow.python.client.timeline): one call of
 * session.run as events in the form of Chrome's traces. Each device is a process:
 * "/job:.../device:GPU:0 Compute" has the times of operators on the host, which launches them;
 * "/device:GPU:0/stream:7 Compute" and "/gpu:0 (MODEL)/context#0/stream#1 Compute" have what ran on
 * a stream. "stream:all" and "memcpy" repeat the streams, "... Tensors" has lifetimes. It is read
 * by the Kineto importer after a translation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/input/rows.h"
#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"
#include "store/import/xla/xla_import.h"

#define NAME_MOST   128
#define GPUS_MOST   4096
#define LANES_MOST  1000 /* of a device, each a thread of the program */
#define HEAD_LOOKED 65536

enum plane_kind { PLANE_HOST, PLANE_STREAM, PLANE_COPIES, PLANE_OTHER };

struct plane {
    enum plane_kind kind;
    bool whole; /* it repeats the streams, unless there are none */
    int64_t device, stream;
};

struct reading {
    struct imp_map plane_of; /* pid -> index */
    struct plane *plane;
    size_t count, room;
    bool streams;          /* single streams have processes */
    bool named;            /* the program has its name */
    struct imp_map models; /* number of a GPU -> it is known */
    char model[NAME_MOST];
    int64_t start, end; /* of all events; start STORE_ABSENT: there is none */
    char device[24], stream[24], thread[32];
    struct kineto_text name; /* of the present event */
};

static bool recognises(const unsigned char *head, size_t bytes)
{
    bytes = bytes < HEAD_LOOKED ? bytes : HEAD_LOOKED;
    return bytes && head[0] == '{' && imp_holds(head, bytes, "\"process_name\"") &&
           imp_holds(head, bytes, " Compute\"") && imp_holds(head, bytes, " Tensors\"") &&
           (imp_holds(head, bytes, "\"/job:") || imp_holds(head, bytes, "\"/gpu:") ||
            imp_holds(head, bytes, "\"/device:"));
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), bytes = strlen(end);
    return length >= bytes && !strcmp(text + length - bytes, end);
}

/* The number that follows one of two words; STORE_ABSENT: neither is there. */
static int64_t number_after(const char *text, const char *word, const char *other)
{
    const char *found = strstr(text, word);
    size_t length = strlen(found ? word : other);
    found = found ? found : strstr(text, other);
    char *end;
    if (!found)
        return STORE_ABSENT;
    int64_t number = strtoll(found + length, &end, 10);
    return end == found + length || number < 0 ? STORE_ABSENT : number;
}

/* ---- processes ------------------------------------------------------------------------------------------------------------------ */

static struct plane plane_of_name(const char *name)
{
    struct plane plane = {.kind = PLANE_HOST,
                          .device = number_after(name, "/gpu:", "/device:GPU:"),
                          .stream = number_after(name, "/stream:", "/stream#")};
    bool stream = strstr(name, "/stream:") || strstr(name, "/stream#"),
         copies = strstr(name, "/memcpy");
    plane.whole = (stream && plane.stream == STORE_ABSENT) || copies;
    if (!ends_with(name, " Compute") || strstr(name, "/sync"))
        plane.kind = PLANE_OTHER;
    else if (copies || strstr(name, "Memcpy"))
        plane.kind = PLANE_COPIES;
    else if (stream)
        plane.kind = PLANE_STREAM;
    if ((plane.kind == PLANE_STREAM || plane.kind == PLANE_COPIES) &&
        (plane.device == STORE_ABSENT || plane.device >= GPUS_MOST))
        plane.kind = PLANE_OTHER;
    return plane;
}

/* Keeps the model of a GPU: "/gpu:0 (Tesla P4)/context#0/...". */
static int keep_model(struct reading *reading, const char *name, const struct plane *plane)
{
    const char *model = strstr(name, " (");
    if (plane->device == STORE_ABSENT || !model || !strchr(model, ')'))
        return 0;
    snprintf(reading->model, sizeof reading->model, "%.*s", (int)strcspn(model + 2, ")"),
             model + 2);
    return imp_map_put(&reading->models, plane->device, 0, 1);
}

static int look(void *ctx, const struct kj_event *event)
{
    struct reading *reading = ctx;
    struct kj_span span = kineto_inside(kineto_value(event, "name"));
    char name[2 * NAME_MOST];
    int64_t pid;
    if (!kineto_equals(event->field[KJ_NAME], "process_name") || !span.text ||
        !kineto_int(event->field[KJ_PID], &pid))
        return 0;
    size_t bytes = span.bytes < sizeof name - 1 ? span.bytes : sizeof name - 1;
    memcpy(name, span.text, bytes);
    name[bytes] = '\0';
    struct plane plane = plane_of_name(name);
    reading->streams |= plane.kind != PLANE_OTHER && plane.stream != STORE_ABSENT;
    int rc = imp_list_room((void **)&reading->plane, &reading->room, reading->count, sizeof plane);
    if (!rc)
        rc = imp_map_put(&reading->plane_of, pid, 0, (int64_t)reading->count);
    if (!rc)
        reading->plane[reading->count++] = plane;
    return rc ? rc : keep_model(reading, name, &plane);
}

/* ---- events --------------------------------------------------------------------------------------------------------------------- */

static struct kj_span behind(struct kj_span text, const char *word)
{
    size_t length = strlen(word);
    const char *found = text.text ? memmem(text.text, text.bytes, word, length) : NULL;
    if (!found)
        return (struct kj_span){NULL, 0};
    found += length;
    return (struct kj_span){found, text.bytes - (size_t)(found - text.text)};
}

/* Names an event. The name of the timeline is that of the operator, or "unknown" where the writer
 * did not understand the label, "NODE:OPERATOR@@KERNEL", which it keeps as an argument. */
static void put_name(struct reading *reading, struct kj_event *event, bool on_device)
{
    struct kj_span label = kineto_inside(kineto_value(event, "name")), kernel = behind(label, "@@"),
                   op = behind(label, ":"), name = kineto_inside(event->field[KJ_NAME]);
    if (on_device && kernel.bytes)
        name = kernel;
    else if (op.bytes && kineto_equals(event->field[KJ_NAME], "unknown"))
        name = op;
    const char *number = on_device && kernel.bytes ? NULL : behind(name, "#id=").text;
    if (number) /* "Cast#id=207,device=/job" */
        name.bytes = (size_t)(number - name.text) - strlen("#id=");
    reading->name.bytes = 0;
    kineto_text_puts(&reading->name, "\"");
    if (name.text)
        kineto_text_put(&reading->name, name.text, name.bytes);
    kineto_text_puts(&reading->name, "\"");
    if (!reading->name.failed)
        event->field[KJ_NAME] = (struct kj_span){reading->name.data, reading->name.bytes};
}

/* A copy with its direction by its name ("MemcpyHtoD", "MEMCPYDtoH", "hcMemcpyHostToDevice"). */
static const char *copy_of(struct kj_span name)
{
    static const char *const ways[][3] = {{"HtoD", "H2D", "\"Memcpy HtoD\""},
                                          {"DtoH", "D2H", "\"Memcpy DtoH\""},
                                          {"DtoD", "D2D", "\"Memcpy DtoD\""},
                                          {"HostToDevice", "H2D", "\"Memcpy HtoD\""},
                                          {"DeviceToHost", "D2H", "\"Memcpy DtoH\""}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (behind(name, ways[i][0]).text || behind(name, ways[i][1]).text)
            return ways[i][2];
    return "\"Memcpy\"";
}

static void translate_device(struct reading *reading, struct kj_event *event,
                             const struct plane *plane)
{
    struct kj_span name = kineto_inside(event->field[KJ_NAME]);
    bool copy = plane->kind == PLANE_COPIES || kineto_begins(name, "MEMCPY") ||
                kineto_begins(name, "Memcpy");
    event->field[KJ_CAT] = kineto_span(copy ? "\"gpu_memcpy\"" : "\"kernel\"");
    if (copy)
        event->field[KJ_NAME] = kineto_span(copy_of(name));
    else if (kineto_begins(name, "MEMSET") || kineto_begins(name, "Memset"))
        event->field[KJ_CAT] = kineto_span("\"gpu_memset\"");
    snprintf(reading->device, sizeof reading->device, "%" PRId64, plane->device);
    snprintf(reading->stream, sizeof reading->stream, "%" PRId64,
             plane->stream == STORE_ABSENT ? 0 : plane->stream);
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device", kineto_span(reading->device));
    kineto_put_argument(event, KINETO_ARG_STREAM, "stream", kineto_span(reading->stream));
}

/* Widens the step by an event. */
static void note_time(struct reading *reading, const struct kj_event *event)
{
    int64_t start, end;
    int decimals;
    bool rounded;
    if (!kineto_time(event->field[KJ_TS], 1000, &start, &decimals, &rounded) ||
        !kineto_time(event->field[KJ_DUR], 1000, &end, &decimals, &rounded) || start < 0 ||
        end < 0 || __builtin_add_overflow(start, end, &end) || end > IMP_TIME_MAX)
        return;
    if (reading->start == STORE_ABSENT || start < reading->start)
        reading->start = start;
    if (end > reading->end)
        reading->end = end;
}

/* Names the program once, and the first lane of each device of the host after the device. */
static bool translate_process(struct reading *reading, struct kj_event *event,
                              const struct plane *plane)
{
    struct kj_arg *name = kineto_argument(event, "name");
    if (!reading->named && name)
        name->value = kineto_span("\"TensorFlow program\"");
    else if (plane->kind == PLANE_HOST)
        event->field[KJ_NAME] = kineto_span("\"thread_name\"");
    else
        return false;
    reading->named = true;
    return true;
}

/* Puts all lanes of all devices into one program. Arrows lead along data, not from launches. */
static bool translate(void *ctx, struct kj_event *event)
{
    struct reading *reading = ctx;
    bool process = kineto_equals(event->field[KJ_NAME], "process_name");
    int64_t pid, lane;
    if ((!process && !kineto_equals(event->field[KJ_PH], "X")) ||
        !kineto_int(event->field[KJ_PID], &pid))
        return false;
    const int64_t *index = imp_map_find(&reading->plane_of, pid, 0);
    const struct plane *plane = index ? &reading->plane[*index] : NULL;
    if (!plane)
        return false;
    if (!kineto_int(event->field[KJ_TID], &lane) || lane < 0 || lane >= LANES_MOST)
        lane = 0;
    snprintf(reading->thread, sizeof reading->thread, "%" PRIu64,
             (uint64_t)*index * LANES_MOST + (uint64_t)lane);
    event->field[KJ_PID] = kineto_span("0");
    event->field[KJ_TID] = kineto_span(reading->thread);
    if (process)
        return translate_process(reading, event, plane);
    if (plane->kind == PLANE_OTHER || (plane->whole && reading->streams))
        return false;
    note_time(reading, event);
    put_name(reading, event, plane->kind != PLANE_HOST);
    if (plane->kind == PLANE_HOST)
        event->field[KJ_CAT] = kineto_span("\"cpu_op\"");
    else
        translate_device(reading, event, plane);
    return true;
}

/* ---- the file ------------------------------------------------------------------------------------------------------------------- */

/* The file is one call of session.run, which is one step. */
static int write_step(struct reading *reading, struct imp_run *run, int64_t process)
{
    struct store_step row = {.process = process,
                             .start = reading->start,
                             .end = reading->end,
                             .tokens = STORE_ABSENT,
                             .samples = STORE_ABSENT};
    if (reading->start == STORE_ABSENT || run->salvage_only)
        return 0;
    int rc = store_step_add(run->db, &row);
    return rc ? rc : store_run_set(run->db, "steps.marked_by", "the traced call of session.run");
}

static int finish(void *ctx, struct imp_run *run, int64_t process)
{
    struct reading *reading = ctx;
    char key[64];
    if (reading->name.failed)
        return TACHO_ENOMEM;
    int rc = store_run_set(run->db, "source.tool", "TensorFlow 1 timeline");
    for (size_t i = 0; i < reading->models.cap && !rc; i++) {
        if (!reading->models.slot[i].used)
            continue;
        snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".name", process,
                 reading->models.slot[i].first);
        rc = store_run_set(run->db, key, reading->model);
    }
    return rc ? rc : write_step(reading, run, process);
}

/* Reads one file; this is the `read` of the importer. */
static int read_timeline(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.start = STORE_ABSENT};
    const struct kineto_dialect dialect = {
        .look = look, .translate = translate, .finish = finish, .ctx = &reading};
    int rc = kineto_read_as(run, path, &dialect, err);
    imp_map_free(&reading.plane_of);
    imp_map_free(&reading.models);
    free(reading.plane);
    kineto_text_clear(&reading.name);
    return rc;
}

const struct importer imp_tf_timeline = {
    .source = "tf-timeline", .recognises = recognises, .read = read_timeline};
