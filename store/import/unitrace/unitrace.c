/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of timelines of Intel's unitrace (--chrome-call-logging, --chrome-kernel-logging):
 * events in the form of Chrome's traces. Processes are named "HOST<node>" or "DEVICE<node>[model]
 * address #number", with "RANK n" before that under MPI. Calls of Level Zero, of SYCL and of MPI,
 * and ranges of ITT (PyTorch's operators among them) all have the category cpu_op; an arrow leads
 * from a call to its kernel. It is read by the Kineto importer after a translation.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"
#include "store/import/unitrace/unitrace_import.h"

#define GPUS_MOST  4096
#define TILES_MOST 16 /* of a GPU, each a device of its own */
#define RANK_MOST  (1 << 24)
#define NAME_MOST  256

struct reading {
    struct imp_map gpus; /* pid -> number */
    int64_t rank;        /* STORE_ABSENT: not known */
    char model[128];     /* of the last GPU that was named */
    char device[24], bytes[24];
};

static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes && head[0] == '{' && memmem(head, bytes, "HOST<", 5) &&
           memmem(head, bytes, "\"process_name\"", 14) &&
           (memmem(head, bytes, "\"gpu_op\"", 8) || memmem(head, bytes, "\"cpu_op\"", 8));
}

/* The beginning of a text, terminated. */
static const char *text_of(struct kj_span span, char text[NAME_MOST])
{
    span = kineto_inside(span);
    size_t bytes = span.text ? span.bytes : 0;
    bytes = bytes < NAME_MOST ? bytes : NAME_MOST - 1;
    if (bytes)
        memcpy(text, span.text, bytes);
    text[bytes] = '\0';
    return text;
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* ---- names of processes --------------------------------------------------------------------------------------------------------- */

/* "... #1", or "... #0.1" of a tile. */
static int name_gpu(struct reading *reading, int64_t pid, const char *name)
{
    const char *number = strrchr(name, '#'), *model = strchr(name, '[');
    int gpu = 0, tile = 0, parts = number ? sscanf(number, "#%d.%d", &gpu, &tile) : 0;
    if (model)
        snprintf(reading->model, sizeof reading->model, "%.*s", (int)strcspn(model + 1, "]"),
                 model + 1);
    if (parts < 1 || gpu < 0 || gpu >= GPUS_MOST / TILES_MOST || tile < 0 || tile >= TILES_MOST)
        return imp_map_put(&reading->gpus, pid, 0, 0);
    return imp_map_put(&reading->gpus, pid, 0, parts == 2 ? gpu * TILES_MOST + tile : gpu);
}

static int look(void *ctx, const struct kj_event *event)
{
    struct reading *reading = ctx;
    char text[NAME_MOST];
    const char *name = text_of(kineto_value(event, "name"), text);
    int64_t pid;
    int rank;
    if (!kineto_equals(event->field[KJ_NAME], "process_name") ||
        !kineto_int(event->field[KJ_PID], &pid))
        return 0;
    if (sscanf(name, "RANK %d ", &rank) == 1 && rank >= 0 && rank <= RANK_MOST)
        reading->rank = rank;
    return strstr(name, "DEVICE<") ? name_gpu(reading, pid, name) : 0;
}

/* ---- events --------------------------------------------------------------------------------------------------------------------- */

/* A copy: "zeCommandListAppendMemoryCopy(M2D)[4096 bytes]", where M and H are memory of the host.
 */
static void translate_copy(struct reading *reading, struct kj_event *event, const char *name)
{
    static const char *const ways[][2] = {{"(M2D)", "\"Memcpy HtoD\""},
                                          {"(H2D)", "\"Memcpy HtoD\""},
                                          {"(D2M)", "\"Memcpy DtoH\""},
                                          {"(D2H)", "\"Memcpy DtoH\""},
                                          {"(D2D)", "\"Memcpy DtoD\""}};
    const char *size = strchr(name, '[');
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strstr(name, ways[i][0]))
            event->field[KJ_NAME] = kineto_span(ways[i][1]);
    if (!size || !isdigit((unsigned char)size[1]))
        return;
    snprintf(reading->bytes, sizeof reading->bytes, "%" PRId64,
             (int64_t)strtoll(size + 1, NULL, 10));
    kineto_put_argument(event, KINETO_ARG_BYTES, "bytes", kineto_span(reading->bytes));
}

/* What ran on a GPU: a kernel has the name of its function, all else that of the call. */
static void translate_command(struct reading *reading, struct kj_event *event, int64_t gpu)
{
    char text[NAME_MOST];
    const char *name = text_of(event->field[KJ_NAME], text), *category = "\"kernel\"";
    struct kj_span id = kineto_value(event, "id");
    name += begins(name, "Tile #") && strchr(name, ':') ? strcspn(name, ":") + 2 : 0;
    bool copy = begins(name, "zeCommandListAppendMemoryCopy") || begins(name, "clEnqueueRead") ||
                begins(name, "clEnqueueWrite") || begins(name, "clEnqueueCopy");
    if (copy)
        category = "\"gpu_memcpy\"";
    else if (begins(name, "zeCommandListAppendMemoryFill") || begins(name, "clEnqueueFill"))
        category = "\"gpu_memset\"";
    else if (begins(name, "zeCommandListAppend") || begins(name, "clEnqueue"))
        category = "\"cuda_sync\""; /* barriers, events */
    event->field[KJ_CAT] = kineto_span(category);
    snprintf(reading->device, sizeof reading->device, "%" PRId64, gpu);
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device", kineto_span(reading->device));
    if (!kineto_is_null(id))
        kineto_put_argument(event, KINETO_ARG_CORRELATION, "correlation", id);
    if (copy)
        translate_copy(reading, event, name);
}

/* A call or a range of the host, by its name: a function of a library has a capital behind its
 * prefix, an operator of PyTorch its colons. */
static void translate_call(struct kj_event *event)
{
    static const char *const libraries[][2] = {
        {"ze", "\"xpu_driver\""},  {"zes", "\"xpu_driver\""},  {"zet", "\"xpu_driver\""},
        {"zex", "\"xpu_driver\""}, {"cl", "\"xpu_driver\""},   {"ur", "\"xpu_runtime\""},
        {"pi", "\"xpu_runtime\""}, {"sycl", "\"xpu_runtime\""}};
    char text[NAME_MOST];
    const char *name = text_of(event->field[KJ_NAME], text);
    const char *category = strstr(name, "::") ? "\"cpu_op\"" : "\"user_annotation\"";
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (begins(name, libraries[i][0]) && isupper((unsigned char)name[strlen(libraries[i][0])]))
            category = libraries[i][1];
    if (begins(name, "MPI_"))
        category = "\"mpi\"";
    else if (begins(name, "oneCCL"))
        category = "\"ccl\"";
    event->field[KJ_CAT] = kineto_span(category);
}

/* The arrow from a call to its command becomes a call of its own: the range around it may launch
 * several. */
static bool translate_launch(struct kj_event *event)
{
    struct kj_span cat = kineto_inside(event->field[KJ_CAT]);
    static const char flow[] = "Flow_H2D_";
    if (!kineto_equals(event->field[KJ_PH], "s") || !cat.text ||
        !memmem(cat.text, cat.bytes, flow, sizeof flow - 1))
        return false;
    kineto_put_argument(event, KINETO_ARG_CORRELATION, "correlation", event->field[KJ_ID]);
    event->field[KJ_PH] = kineto_span("\"X\"");
    event->field[KJ_DUR] = kineto_span("0");
    event->field[KJ_NAME] = kineto_span("\"Launch\"");
    event->field[KJ_CAT] = kineto_span("\"xpu_driver\"");
    return true;
}

static bool translate(void *ctx, struct kj_event *event)
{
    struct reading *reading = ctx;
    int64_t pid;
    const int64_t *gpu =
        kineto_int(event->field[KJ_PID], &pid) ? imp_map_find(&reading->gpus, pid, 0) : NULL;
    if (kineto_equals(event->field[KJ_PH], "s") || kineto_equals(event->field[KJ_PH], "t"))
        return translate_launch(event);
    if (gpu && kineto_equals(event->field[KJ_CAT], "gpu_op"))
        translate_command(reading, event, *gpu);
    else if (kineto_equals(event->field[KJ_CAT], "cpu_op"))
        translate_call(event);
    else if (kineto_equals(event->field[KJ_CAT], "os_op"))
        event->field[KJ_CAT] = kineto_span("\"osrt\"");
    return true;
}

static int64_t rank_of(void *ctx)
{
    return ((const struct reading *)ctx)->rank;
}

static int finish(void *ctx, struct imp_run *run, int64_t process)
{
    struct reading *reading = ctx;
    char key[64];
    int rc = store_run_set(run->db, "source.tool", "unitrace");
    for (size_t i = 0; i < reading->gpus.cap && reading->model[0] && !rc; i++) {
        if (!reading->gpus.slot[i].used)
            continue;
        snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".name", process,
                 reading->gpus.slot[i].value);
        rc = store_run_set(run->db, key, reading->model);
    }
    return rc;
}

/* Reads one file; this is the `read` of the importer. */
static int read_timeline(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.rank = STORE_ABSENT};
    const struct kineto_dialect dialect = {
        .look = look, .rank = rank_of, .translate = translate, .finish = finish, .ctx = &reading};
    int rc = kineto_read_as(run, path, &dialect, err);
    imp_map_free(&reading.gpus);
    return rc;
}

const struct importer imp_unitrace = {
    .source = "unitrace", .recognises = recognises, .read = read_timeline};
