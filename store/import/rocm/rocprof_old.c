/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of the JSON of the older rocprof (--hip-trace, --hsa-trace, --roctx-trace): events
 * in the form of Chrome's traces, where processes are layers: "CPU HIP API", "CPU HSA API",
 * "Markers and Ranges", "COPY" and "GPU0" and so on. The process and thread of a call and exact
 * times are in the arguments. It is read by the Kineto importer after a translation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"
#include "store/import/rocm/rocm_import.h"

#define GPUS_MOST 4096

enum layer { LAYER_CALL, LAYER_DRIVER, LAYER_RANGE, LAYER_COPY, LAYER_BARRIER, LAYER_GPU };

struct reading {
    struct imp_map layers; /* pid -> enum layer; of a GPU LAYER_GPU plus its number */
    char start[32], dur[32], device[24];
};

static const struct {
    const char *name;
    enum layer layer;
    const char *category;
} layers[] = {{"CPU HIP API", LAYER_CALL, "\"cuda_runtime\""},
              {"CPU HSA API", LAYER_DRIVER, "\"cuda_driver\""},
              {"Markers and Ranges", LAYER_RANGE, "\"user_annotation\""},
              {"COPY", LAYER_COPY, "\"gpu_memcpy\""}};

static bool recognises(const unsigned char *head, size_t bytes)
{
    static const char *const words[] = {"\"CPU HIP API\"", "\"CPU HSA API\""};
    for (size_t i = 0; bytes && head[0] == '{' && i < sizeof words / sizeof *words; i++)
        if (memmem(head, bytes, words[i], strlen(words[i])))
            return true;
    return false;
}

static int look(void *ctx, const struct kj_event *event)
{
    struct reading *reading = ctx;
    struct kj_span name = kineto_inside(kineto_value(event, "name"));
    int64_t pid, gpu;
    if (!name.text || !kineto_equals(event->field[KJ_NAME], "process_name") ||
        !kineto_int(event->field[KJ_PID], &pid))
        return 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (kineto_equals(name, layers[i].name))
            return imp_map_put(&reading->layers, pid, 0, layers[i].layer);
    if (name.bytes > 12 && !memcmp(name.text, "GPU Barriers", 12))
        return imp_map_put(&reading->layers, pid, 0, LAYER_BARRIER);
    if (name.bytes < 4 || memcmp(name.text, "GPU", 3) ||
        !kineto_int((struct kj_span){name.text + 3, name.bytes - 3}, &gpu) || gpu < 0 ||
        gpu >= GPUS_MOST)
        return 0;
    return imp_map_put(&reading->layers, pid, 0, LAYER_GPU + gpu);
}

/* ns as a number of us. */
static struct kj_span in_us(int64_t ns, char text[32])
{
    snprintf(text, 32, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    return kineto_span(text);
}

/* Times of an event are whole us; its arguments have them in ns. */
static void take_exact_times(struct reading *reading, struct kj_event *event)
{
    int64_t start, end;
    if (!kineto_int(kineto_value(event, "BeginNs"), &start) ||
        !kineto_int(kineto_value(event, "EndNs"), &end) || start <= 0 || end < start)
        return;
    event->field[KJ_TS] = in_us(start, reading->start);
    event->field[KJ_DUR] = in_us(end - start, reading->dur);
}

/* Puts a kernel, copy or barrier on its GPU. */
static void place_on_device(struct reading *reading, struct kj_event *event, int64_t gpu)
{
    int64_t device;
    if (gpu < 0 && kineto_int(kineto_value(event, "dev-id"), &device) && device >= 0 &&
        device < GPUS_MOST)
        gpu = device;
    snprintf(reading->device, sizeof reading->device, "%" PRId64, gpu < 0 ? 0 : gpu);
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device", kineto_span(reading->device));
}

static bool translate(void *ctx, struct kj_event *event)
{
    struct reading *reading = ctx;
    int64_t pid;
    if (!kineto_equals(event->field[KJ_PH], "X"))
        return kineto_equals(event->field[KJ_PH], "M");
    const int64_t *layer =
        kineto_int(event->field[KJ_PID], &pid) ? imp_map_find(&reading->layers, pid, 0) : NULL;
    if (!layer)
        return true;
    take_exact_times(reading, event);
    if (*layer >= LAYER_COPY) {
        bool kernel = *layer >= LAYER_GPU;
        event->field[KJ_CAT] = kineto_span(kernel ? "\"kernel\"" : "\"cuda_sync\"");
        place_on_device(reading, event, kernel ? *layer - LAYER_GPU : -1);
    } else if (!kineto_is_null(kineto_value(event, "pid")) &&
               !kineto_is_null(kineto_value(event, "tid"))) {
        event->field[KJ_PID] = kineto_value(event, "pid");
        event->field[KJ_TID] = kineto_value(event, "tid");
    }
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if ((int64_t)layers[i].layer == *layer)
            event->field[KJ_CAT] = kineto_span(layers[i].category);
    return true;
}

static int finish(void *ctx, struct imp_run *run, int64_t process)
{
    (void)ctx;
    (void)process;
    return store_run_set(run->db, "source.tool", "rocprof");
}

/* Reads one file; this is the `read` of the importer. */
static int read_trace(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.start = ""};
    const struct kineto_dialect dialect = {
        .look = look, .translate = translate, .finish = finish, .ctx = &reading};
    int rc = kineto_read_as(run, path, &dialect, err);
    imp_map_free(&reading.layers);
    return rc;
}

const struct importer imp_rocprof_old = {
    .source = "rocprof", .recognises = recognises, .read = read_trace};
