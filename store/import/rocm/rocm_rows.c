/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of rocprofv3 as rows: kernels and copies on the queues of GPUs, calls and ROCTX ranges on
 * threads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/rocm/rocm_private.h"

#define GPUS_MOST 4096

int rocm_agent_add(struct rocm *rocm, int64_t id, bool gpu, int64_t number, const char *name,
                   int64_t units)
{
    char key[80];
    if (imp_list_room((void **)&rocm->agent, &rocm->agent_room, rocm->agent_count,
                      sizeof *rocm->agent))
        return TACHO_ENOMEM;
    if (gpu && number == STORE_ABSENT)
        number = rocm->gpus;
    rocm->gpus += gpu;
    bool numbered = gpu && number >= 0 && number < GPUS_MOST;
    rocm->agent[rocm->agent_count] = (struct rocm_agent){numbered ? number : STORE_ABSENT};
    int rc = imp_map_put(&rocm->agents, id, 0, (int64_t)rocm->agent_count++);
    if (rc || !numbered || rocm->rows.run->salvage_only)
        return rc;
    snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".name", rocm->rows.process,
             number);
    if (name && *name)
        rc = store_run_set(rocm->rows.run->db, key, name);
    snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".sms", rocm->rows.process, number);
    if (!rc && units > 0)
        rc = store_run_set_int(rocm->rows.run->db, key, units);
    return rc;
}

int rocm_kernel_name(struct rocm *rocm, const char *name, size_t bytes, int64_t *string)
{
    static const char *const ends[] = {" [clone .kd]", ".kd"}; /* the descriptor of the kernel */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (bytes > end && !memcmp(name + bytes - end, ends[i], end))
            bytes -= end;
    }
    return imp_rows_string(&rocm->rows, name, bytes, string);
}

int rocm_kernel_add(struct rocm *rocm, int64_t id, const char *name, size_t bytes)
{
    int64_t string;
    int rc = rocm_kernel_name(rocm, name, bytes, &string);
    return rc ? rc : imp_map_put(&rocm->kernels, id, 0, string);
}

struct ij_text rocm_plain(struct rocm *rocm, struct ij_text text)
{
    if (!text.bytes || !memchr(text.text, '\\', text.bytes))
        return text;
    rocm->text.bytes = 0;
    kineto_unescape(&rocm->text, (struct kj_span){text.text, text.bytes});
    return rocm->text.failed ? text : (struct ij_text){rocm->text.data, rocm->text.bytes};
}

/* Direction of a copy by the words of its operation. */
static const char *copy_kind(const char *way)
{
    static const char *const kinds[][2] = {{"HOST_TO_DEVICE", "HtoD"},
                                           {"DEVICE_TO_HOST", "DtoH"},
                                           {"DEVICE_TO_DEVICE", "DtoD"},
                                           {"HOST_TO_HOST", "HtoH"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(way, kinds[i][0]))
            return kinds[i][1];
    return "unknown";
}

/* Work groups of a grid: rocprofv3 counts threads, tacho counts groups, as CUDA does. */
static const char *grid_text(const struct rocm_work *work, char text[72])
{
    int64_t groups[3];
    for (int i = 0; i < 3; i++) {
        if (work->grid[i] <= 0 || work->group[i] <= 0 || work->grid[i] > INT32_MAX * 64ll)
            return NULL;
        groups[i] = (work->grid[i] + work->group[i] - 1) / work->group[i];
    }
    snprintf(text, 72, "%" PRId64 ",%" PRId64 ",%" PRId64, groups[0], groups[1], groups[2]);
    return text;
}

/* Fills the detail and the name of a kernel. */
static int fill_kernel(struct rocm *rocm, const struct rocm_work *work, struct store_detail *detail,
                       char grid[72], char block[72], char payload[64], int64_t *name)
{
    const int64_t *known = imp_map_find(&rocm->kernels, work->kernel, 0);
    detail->schema = "gpu.kernel";
    detail->grid = grid_text(work, grid);
    if (detail->grid) {
        snprintf(block, 72, "%" PRId64 ",%" PRId64 ",%" PRId64, work->group[0], work->group[1],
                 work->group[2]);
        detail->block = block;
    }
    if (work->shared_memory >= 0) {
        snprintf(payload, 64, "{\"shared_memory\":%" PRId64 "}", work->shared_memory);
        detail->payload = payload;
    }
    if (work->name || known) {
        *name = work->name ? work->name : *known;
        return 0;
    }
    return imp_rows_string(&rocm->rows, "(kernel without a name)", 23, name);
}

static const char *work_category(const struct rocm_work *work)
{
    if (work->way)
        return "memcpy";
    return work->fill ? "memset" : "kernel";
}

int rocm_work_put(struct rocm *rocm, const struct rocm_work *work)
{
    struct store_detail detail = STORE_DETAIL_NONE;
    char grid[72], block[72], payload[64], device[32], stream[48], copy[48];
    struct imp_slice slice = {.start = work->start,
                              .category = work_category(work),
                              .detail = &detail,
                              .correlation =
                                  work->correlation > 0 ? work->correlation : STORE_ABSENT};
    const int64_t *index = imp_map_find(&rocm->agents, work->agent, 0);
    int64_t gpu = index ? rocm->agent[*index].gpu : STORE_ABSENT;
    int64_t queue = work->queue > 0 ? work->queue : 0;
    rocm->rows.run->events++;
    if (gpu == STORE_ABSENT) {
        rocm->no_agent++;
        return 0;
    }
    if (__builtin_sub_overflow(work->end, work->start, &slice.dur) || work->start <= 0)
        slice.start = STORE_ABSENT;
    snprintf(device, sizeof device, "gpu:%" PRId64, gpu);
    snprintf(stream, sizeof stream, work->way ? "copies" : "queue %" PRId64, queue);
    int rc =
        imp_rows_stream(&rocm->rows, gpu, device, work->way ? -2 : queue, stream, &slice.track);
    if (!rc && !work->way)
        rc = fill_kernel(rocm, work, &detail, grid, block, payload, &slice.name);
    if (work->way || work->fill)
        detail.bytes = work->bytes >= 0 ? work->bytes : STORE_ABSENT;
    if (work->fill)
        detail.schema = "gpu.memset";
    if (!rc && work->way) {
        detail.schema = "gpu.memcpy";
        detail.copy_kind = copy_kind(work->way);
        int length = snprintf(copy, sizeof copy, "Memcpy %s", detail.copy_kind);
        rc = imp_rows_string(&rocm->rows, copy, (size_t)length, &slice.name);
    }
    return rc ? rc : imp_rows_slice(&rocm->rows, &slice);
}

/* The store's category of a kind of call; NULL: it is not read. */
static const char *category_of(const char *kind)
{
    static const char *const categories[][2] = {
        {"HIP_", "runtime"}, {"HSA_", "driver"},          {"MARKER_CORE", "roctx"},
        {"RCCL_", "rccl"},   {"ROCDECODE_", "rocdecode"}, {"ROCJPEG_", "rocjpeg"},
        {"OMPT", "ompt"},
    };
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (!strncmp(kind, categories[i][0], strlen(categories[i][0])))
            return categories[i][1];
    return NULL;
}

int rocm_call_put(struct rocm *rocm, const char *kind, const char *name, size_t bytes, int64_t tid,
                  int64_t start, int64_t end, int64_t correlation)
{
    struct imp_slice slice = {.start = start,
                              .category = category_of(kind),
                              .correlation = correlation > 0 ? correlation : STORE_ABSENT};
    rocm->rows.run->events++;
    if (!slice.category || !strcmp(kind, "HIP_STREAM")) {
        rocm->others++;
        return 0;
    }
    if (__builtin_sub_overflow(end, start, &slice.dur) || start <= 0)
        slice.start = STORE_ABSENT;
    if (!strcmp(slice.category, "roctx") || !strcmp(slice.category, "rccl"))
        slice.correlation = STORE_ABSENT; /* it launches nothing itself */
    int rc = imp_rows_thread(&rocm->rows, tid, NULL, &slice.track);
    if (!rc)
        rc = imp_rows_string(&rocm->rows, name, bytes, &slice.name);
    return rc ? rc : imp_rows_slice(&rocm->rows, &slice);
}

int rocm_end(struct rocm *rocm, int rc)
{
    if (!rc && rocm->no_agent)
        rc = imp_loss(rocm->rows.run, "record of a device that the capture does not list",
                      rocm->no_agent);
    if (!rc && rocm->others && !rocm->rows.run->salvage_only) {
        char text[80];
        snprintf(text, sizeof text, "records of other kinds (%" PRId64 ")", rocm->others);
        rc = store_run_set(rocm->rows.run->db, "source.not_read", text);
    }
    rc = imp_rows_end(&rocm->rows, rc);
    imp_map_free(&rocm->agents);
    imp_map_free(&rocm->kernels);
    free(rocm->agent);
    kineto_text_clear(&rocm->text);
    return rc;
}
