/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of the JSON that rocmProfileData's rpd2tracing.py makes of a database: events in the
 * form of Chrome's traces without categories. The processes GPU0, GPU1 ... have the operations of
 * the GPUs, whose types are in `desc`; the others are programs with their calls and ranges. It is
 * read by the Kineto importer after a translation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"
#include "store/import/rocm/rocm_import.h"
#include "store/import/rocm/rocpd_private.h"

#define GPUS_MOST 4096
#define TYPE_MOST 64 /* bytes of a type that are looked at */

struct reading {
    struct imp_map gpus; /* pid -> number */
    char device[24];
};

/* Such a file begins with an empty object, and names threads "Hip 1234". */
static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes && head[0] == '[' && memmem(head, bytes, "\"Hip ", 5) &&
           (memmem(head, bytes, "\"name\":\"GPU", 11) || memmem(head, bytes, "{\"desc\":", 8));
}

static int look(void *ctx, const struct kj_event *event)
{
    struct reading *reading = ctx;
    struct kj_span name = kineto_inside(kineto_value(event, "name"));
    int64_t pid, gpu;
    if (!name.text || name.bytes < 4 || memcmp(name.text, "GPU", 3) ||
        !kineto_equals(event->field[KJ_NAME], "process_name") ||
        !kineto_int(event->field[KJ_PID], &pid) ||
        !kineto_int((struct kj_span){name.text + 3, name.bytes - 3}, &gpu) || gpu < 0 ||
        gpu >= GPUS_MOST)
        return 0;
    return imp_map_put(&reading->gpus, pid, 0, gpu);
}

/* Puts an operation on its GPU. Executions of graphs and ranges of the program span operations. */
static void translate_operation(struct reading *reading, struct kj_event *event, int64_t gpu)
{
    static const char *const categories[] = {[RPD_KERNEL] = "\"kernel\"",
                                             [RPD_COPY] = "\"gpu_memcpy\"",
                                             [RPD_FILL] = "\"gpu_memset\"",
                                             [RPD_OTHER] = "\"cuda_sync\""};
    struct kj_span desc = kineto_inside(kineto_value(event, "desc")),
                   name = kineto_inside(event->field[KJ_NAME]);
    char type[TYPE_MOST] = "";
    if (desc.text)
        snprintf(type, sizeof type, "%.*s", (int)(desc.bytes & 0xffff), desc.text);
    bool spans = !desc.text || kineto_begins(desc, "UserMarker frame");
    enum rpd_operation operation = rpd_operation_of(type, name.text && name.bytes ? "-" : "");
    event->field[KJ_CAT] = kineto_span(spans ? "\"gpu_user_annotation\"" : categories[operation]);
    snprintf(reading->device, sizeof reading->device, "%" PRId64, gpu);
    kineto_put_argument(event, KINETO_ARG_DEVICE, "device", kineto_span(reading->device));
}

/* Arrows do not say which call they begin at, and counters of the GPUs are kept by the database. */
static bool translate(void *ctx, struct kj_event *event)
{
    struct reading *reading = ctx;
    struct kj_span name = kineto_inside(event->field[KJ_NAME]),
                   desc = kineto_inside(kineto_value(event, "desc"));
    int64_t pid;
    if (!kineto_equals(event->field[KJ_PH], "X") && !kineto_equals(event->field[KJ_PH], "i"))
        return kineto_equals(event->field[KJ_PH], "M");
    const int64_t *gpu =
        kineto_int(event->field[KJ_PID], &pid) ? imp_map_find(&reading->gpus, pid, 0) : NULL;
    if (gpu)
        translate_operation(reading, event, *gpu);
    else if (name.text && desc.text && name.bytes == desc.bytes &&
             !memcmp(name.text, desc.text, desc.bytes)) /* a range has its text twice */
        event->field[KJ_CAT] = kineto_span("\"user_annotation\"");
    else
        event->field[KJ_CAT] =
            kineto_span(kineto_begins(name, "hsa_") ? "\"cuda_driver\"" : "\"cuda_runtime\"");
    return true;
}

static int finish(void *ctx, struct imp_run *run, int64_t process)
{
    (void)ctx;
    (void)process;
    return store_run_set(run->db, "source.tool", "rocmProfileData");
}

/* Reads one file; this is the `read` of the importer. */
static int read_trace(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.device = ""};
    const struct kineto_dialect dialect = {
        .look = look, .translate = translate, .finish = finish, .ctx = &reading};
    int rc = kineto_read_as(run, path, &dialect, err);
    imp_map_free(&reading.gpus);
    return rc;
}

const struct importer imp_rpd_json = {
    .source = "rpd-json", .recognises = recognises, .read = read_trace};
