/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of the JSON that JAX, TensorFlow and XProf write beside (or from) an XPlane: events
 * in the form of Chrome's traces, one process for each plane, one thread for each line. It is read
 * by the Kineto importer after a translation. The JSON may lack events: its writers keep at most a
 * million.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"
#include "store/import/xla/xla.h"
#include "store/import/xla/xla_import.h"

#define HEAD_LOOKED 65536

struct plane {
    enum xla_plane_kind kind;
    int64_t device, core; /* core: of a sparse core */
};

struct line {
    bool known;
    char name[64];
    enum xla_line_kind kind;
    char device[24], stream[24]; /* as JSON numbers */
};

struct reading {
    struct imp_map plane_of, line_of; /* pid, and pid and tid, -> index */
    struct plane *plane;
    size_t plane_count, plane_room;
    struct line *line;
    size_t line_count, line_room;
    struct xla_steps steps;
    int code;
};

static bool recognises(const unsigned char *head, size_t bytes)
{
    struct pb_span span = {head, bytes < HEAD_LOOKED ? bytes : HEAD_LOOKED};
    return bytes && (head[0] == '{' || head[0] == '[') &&
           (xla_holds(span, "\"/host:CPU\"") || xla_holds(span, "\"/device:GPU:") ||
            xla_holds(span, "\"/device:TPU:") || xla_holds(span, "\"highres-ticks\""));
}

static struct pb_span text_of(struct kj_span span)
{
    span = kineto_inside(span);
    return (struct pb_span){(const unsigned char *)span.text, span.text ? span.bytes : 0};
}

static struct pb_span argument_text(const struct kj_event *event, const char *key)
{
    const struct kj_arg *arg = kineto_argument(event, key);
    return arg ? text_of(arg->value) : (struct pb_span){NULL, 0};
}

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static int add_plane(struct reading *reading, int64_t pid, struct pb_span name)
{
    struct plane plane;
    plane.kind = xla_plane_kind_of(name, &plane.device);
    plane.core = xla_sparse_core(name);
    int rc = imp_list_room((void **)&reading->plane, &reading->plane_room, reading->plane_count,
                           sizeof plane);
    if (!rc)
        rc = imp_map_put(&reading->plane_of, pid, 0, (int64_t)reading->plane_count);
    if (!rc)
        reading->plane[reading->plane_count++] = plane;
    return rc;
}

static int add_line(struct reading *reading, int64_t pid, int64_t tid, struct pb_span name)
{
    struct line line = {.known = true};
    snprintf(line.name, sizeof line.name, "%.*s", (int)(name.bytes < 60 ? name.bytes : 60),
             name.bytes ? (const char *)name.data : "");
    int rc = imp_list_room((void **)&reading->line, &reading->line_room, reading->line_count,
                           sizeof line);
    if (!rc)
        rc = imp_map_put(&reading->line_of, pid, tid, (int64_t)reading->line_count);
    if (!rc)
        reading->line[reading->line_count++] = line;
    return rc;
}

static int look(void *ctx, const struct kj_event *event)
{
    struct reading *reading = ctx;
    struct pb_span name = argument_text(event, "name");
    int64_t pid, tid;
    if (!kineto_int(event->field[KJ_PID], &pid) || !name.bytes)
        return 0;
    if (kineto_equals(event->field[KJ_NAME], "process_name"))
        return add_plane(reading, pid, name);
    return kineto_equals(event->field[KJ_NAME], "thread_name") &&
                   kineto_int(event->field[KJ_TID], &tid)
               ? add_line(reading, pid, tid, name)
               : 0;
}

/* ---- events ----------------------------------------------------------------------------------------------------------------- */

/* Renames an argument to what Kineto calls it. */
static void rename_argument(struct kj_event *event, const char *key, enum kineto_arg id,
                            const char *kineto_key)
{
    struct kj_arg *arg = kineto_argument(event, key);
    if (arg) {
        arg->key = kineto_span(kineto_key);
        arg->id = id;
    }
}

/* The line of an event of a device; NULL: it has no name, or is made of other lines. */
static struct line *device_line(struct reading *reading, const struct kj_event *event,
                                const struct plane *plane)
{
    int64_t pid, tid, stream;
    if (!kineto_int(event->field[KJ_PID], &pid) || !kineto_int(event->field[KJ_TID], &tid))
        return NULL;
    const int64_t *index = imp_map_find(&reading->line_of, pid, tid);
    if (!index)
        return NULL;
    struct line *line = &reading->line[*index];
    line->kind = xla_line_kind_of(plane->kind, xla_span(line->name), &stream);
    if (plane->kind == XLA_PLANE_SPARSE)
        stream += plane->core;
    snprintf(line->device, sizeof line->device, "%" PRId64, plane->device);
    snprintf(line->stream, sizeof line->stream, "%" PRId64, stream == STORE_ABSENT ? -1 : stream);
    return line->kind == XLA_LINE_DERIVED ? NULL : line;
}

/* Keeps what may become a step. Times of this JSON have no base. */
static void note_steps(struct reading *reading, const struct kj_event *event,
                       const struct plane *plane, const struct line *line)
{
    struct xla_step step = {.place = plane->device};
    struct pb_span name = text_of(event->field[KJ_NAME]),
                   module = argument_text(event, "hlo_module"), none = {NULL, 0};
    const struct kj_arg *number = kineto_argument(event, "step_num");
    int decimals;
    bool rounded;
    if (!kineto_time(event->field[KJ_TS], 1000, &step.start, &decimals, &rounded) ||
        !kineto_time(event->field[KJ_DUR], 1000, &step.end, &decimals, &rounded) ||
        __builtin_add_overflow(step.start, step.end, &step.end) || reading->code)
        return;
    if (line && line->kind == XLA_LINE_STEPS) {
        step.source = XLA_STEP_DEVICE;
        if (kineto_int(event->field[KJ_NAME], &step.index))
            reading->code = xla_steps_add(&reading->steps, step, none);
    } else if (line && line->kind == XLA_LINE_MODULES) {
        step.source = XLA_STEP_MODULE;
        if (plane->kind == XLA_PLANE_TPU)
            reading->code = xla_steps_add(&reading->steps, step, name);
    } else if (line) {
        reading->code = xla_steps_module_time(&reading->steps, module, step.start, step.end);
    } else if (number && kineto_int(number->value, &step.index)) {
        step.source = XLA_STEP_MARKED;
        kineto_int(event->field[KJ_TID], &step.place);
        reading->code = xla_steps_add(&reading->steps, step, none);
    } else if (xla_begins(name, "PjitFunction(")) {
        step.source = XLA_STEP_CALL;
        kineto_int(event->field[KJ_TID], &step.place);
        reading->code = xla_steps_add(&reading->steps, step, name);
    } else {
        kineto_int(event->field[KJ_TID], &step.place);
        reading->code = xla_steps_launch(&reading->steps, step, name);
        if (!reading->code) /* operations of the CPU backend */
            reading->code = xla_steps_module_time(&reading->steps, module, step.start, step.end);
    }
}

/* Gives an event of a TPU the direction of its copy, and its bytes if it is the copy itself. False:
 * it is none. */
static bool is_core_copy(struct kj_event *event, const struct line *line)
{
    static const char *const quoted[] = {"\"HtoD\"", "\"DtoH\"", "\"DtoD\""};
    struct pb_span text = argument_text(event, "long_name");
    struct xla_copy copy =
        xla_copy_of(argument_text(event, "hlo_category"), text_of(event->field[KJ_NAME]), text,
                    line->kind == XLA_LINE_ASYNC);
    for (size_t i = 0; copy.kind && i < sizeof quoted / sizeof *quoted; i++)
        if (!strncmp(quoted[i] + 1, copy.kind, strlen(copy.kind)))
            kineto_put_argument(event, KINETO_ARG_KIND, "kind", kineto_span(quoted[i]));
    if (copy.kind && !copy.part)
        rename_argument(event, "bytes_accessed", KINETO_ARG_BYTES, "bytes");
    return copy.kind != NULL;
}

/* An event of a device becomes a kernel, a copy or an annotation. */
static void translate_device(struct kj_event *event, const struct plane *plane, struct line *line)
{
    const char *category = "\"kernel\"";
    bool tpu = xla_is_tpu(plane->kind);
    if (line->kind == XLA_LINE_MODULES || line->kind == XLA_LINE_STEPS ||
        (tpu &&
         xla_is_container(argument_text(event, "hlo_category"), text_of(event->field[KJ_NAME]))))
        category = "\"gpu_user_annotation\"";
    else if (tpu && is_core_copy(event, line))
        category = "\"gpu_memcpy\"";
    else if (kineto_argument(event, "memcpy_details"))
        category = "\"gpu_memcpy\"";
    else if (kineto_argument(event, "memset_details"))
        category = "\"gpu_memset\"";
    event->field[KJ_CAT] = kineto_span(category);
    rename_argument(event, "correlation_id", KINETO_ARG_CORRELATION, "correlation");
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device", kineto_span(line->device));
    kineto_put_argument(event, KINETO_ARG_STREAM, "stream", kineto_span(line->stream));
}

static void translate_host(struct kj_event *event)
{
    static const char *const categories[][2] = {{"python", "\"python_function\""},
                                                {"runtime", "\"cuda_runtime\""},
                                                {"driver", "\"cuda_driver\""},
                                                {"op", "\"cpu_op\""},
                                                {"xla", "\"xla\""}};
    struct kj_span name = kineto_inside(event->field[KJ_NAME]);
    const char *category = xla_host_category(text_of(event->field[KJ_NAME]),
                                             kineto_argument(event, "correlation_id") != NULL,
                                             kineto_argument(event, "hlo_op") != NULL);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (!strcmp(categories[i][0], category))
            event->field[KJ_CAT] = kineto_span(categories[i][1]);
    if (kineto_argument(event, "step_num"))
        event->field[KJ_CAT] = kineto_span("\"user_annotation\"");
    if (name.text && name.bytes > 1 && name.text[0] == '$')
        event->field[KJ_NAME] = (struct kj_span){name.text + 1, name.bytes - 1};
    rename_argument(event, "correlation_id", KINETO_ARG_CORRELATION, "correlation");
}

/* The plane of the host is the program. */
static void name_program(struct kj_event *event)
{
    struct kj_arg *name = kineto_argument(event, "name");
    if (name && kineto_equals(name->value, "/host:CPU"))
        name->value = kineto_span("\"XLA program\"");
}

static bool translate(void *ctx, struct kj_event *event)
{
    struct reading *reading = ctx;
    struct plane host = {.kind = XLA_PLANE_HOST};
    const struct plane *plane = &host;
    struct line *line = NULL;
    int64_t pid;
    if (kineto_equals(event->field[KJ_NAME], "process_name"))
        name_program(event);
    if (!kineto_equals(event->field[KJ_PH], "X"))
        return !kineto_is_null(event->field[KJ_PH]);
    const int64_t *index =
        kineto_int(event->field[KJ_PID], &pid) ? imp_map_find(&reading->plane_of, pid, 0) : NULL;
    if (index)
        plane = &reading->plane[*index];
    bool device = xla_is_device(plane->kind) && plane->device != STORE_ABSENT;
    if (device && !(line = device_line(reading, event, plane)))
        return false;
    note_steps(reading, event, plane, line);
    if (line)
        translate_device(event, plane, line);
    else
        translate_host(event);
    return true;
}

static int finish(void *ctx, struct imp_run *run, int64_t process)
{
    struct reading *reading = ctx;
    struct imp_rows rows = {.run = run, .process = process};
    int rc = reading->code ? reading->code : xla_steps_write(&reading->steps, &rows);
    return rc || run->salvage_only ? rc : store_run_set(run->db, "source.tool", XLA_TOOL);
}

/* Reads one file; this is the `read` of the importer. */
static int read_json(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.code = 0};
    const struct kineto_dialect dialect = {
        .look = look, .translate = translate, .finish = finish, .ctx = &reading};
    int rc = kineto_read_as(run, path, &dialect, err);
    imp_map_free(&reading.plane_of);
    imp_map_free(&reading.line_of);
    free(reading.plane);
    free(reading.line);
    xla_steps_clear(&reading.steps);
    return rc;
}

const struct importer imp_xla_json = {
    .source = "xla-json", .recognises = recognises, .read = read_json};
