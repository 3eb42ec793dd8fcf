/* SPDX-License-Identifier: Apache-2.0
 *
 * What an export holds besides events: clock, versions, devices and ranks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/nsight/nsight_private.h"

/* First row's integer column of a table, STORE_ABSENT: none. */
static int64_t first_int(struct nsight *nsight, const char *name, const char *column)
{
    char table[NSIGHT_NAME_MAX];
    if (!nsight_find(nsight, name, table))
        return STORE_ABSENT;
    return nsight_select_int(nsight, "SELECT \"%w\" FROM \"%w\" LIMIT 1", column, table);
}

/* Value of a name in a table of names and values, "" if it has none. */
static void named_value(struct nsight *nsight, const char *name, const char *key, char *to,
                        size_t size)
{
    char table[NSIGHT_NAME_MAX];
    *to = 0;
    if (!nsight_find(nsight, name, table))
        return;
    sqlite3_stmt *st =
        nsight_select(nsight, "SELECT value FROM \"%w\" WHERE name=%Q LIMIT 1", table, key);
    const char *text = nsight_next(st) ? nsight_text(st, 0) : NULL;
    snprintf(to, size, "%s", text ? text : "");
    sqlite3_finalize(st);
}

/* ---- before the events -------------------------------------------------------------------------------------------------------- */

/* Times of an export count from the start of the target's clock or of the capture; ANALYSIS_DETAILS
 * says where the capture begins in them, TARGET_INFO_SESSION_START_TIME when that was. Files of
 * several nodes are put on one clock that way; of a single file the times stay as they are, and an
 * anchor gives the wall time. */
static int set_clock(struct nsight *nsight)
{
    char shifted[16];
    int64_t utc = first_int(nsight, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs");
    int64_t start = first_int(nsight, "ANALYSIS_DETAILS", "startTime");
    if (start == STORE_ABSENT)
        start = first_int(nsight, "TARGET_INFO_SESSION_START_TIME", "systemClockNs");
    named_value(nsight, "META_DATA_EXPORT", "EXPORT_PARAM_TIME_NORMALIZE", shifted, sizeof shifted);
    if (utc <= 0 || start == STORE_ABSENT || start < 0 || !strcmp(shifted, "true"))
        return 0;
    if (nsight->run->many) {
        nsight->base = utc - start;
        return 0;
    }
    return store_anchor_add(
        nsight->out,
        &(struct store_anchor){.tsc = STORE_ABSENT, .monotonic = start, .realtime = utc});
}

/* Writes the run keys about the profiler. */
static int set_keys(struct nsight *nsight)
{
    char product[64], version[64], schema[32], mode[32], key[64], text[200];
    named_value(nsight, "META_DATA_EXPORT", "EXPORT_PRODUCT_NAME", product, sizeof product);
    named_value(nsight, "META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION", version, sizeof version);
    named_value(nsight, "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION", schema, sizeof schema);
    named_value(nsight, "META_DATA_CAPTURE", "CUDA_GRAPH_TRACE_OPTIONS:MODE", mode, sizeof mode);
    int used = snprintf(text, sizeof text, "%s", *product ? product : "NVIDIA Nsight Systems");
    if (*version)
        used += snprintf(text + used, sizeof text - (size_t)used, " %s", version);
    if (*schema)
        snprintf(text + used, sizeof text - (size_t)used, " (schema %s)", schema);
    int code = store_run_set(nsight->out, "source.tool", text);
    snprintf(key, sizeof key, "source.base_ns.%" PRId64, nsight->run->file_index);
    if (!code)
        code = store_run_set_int(nsight->out, nsight->run->file_index ? key : "source.base_ns",
                                 nsight->base);
    if (!code)
        code = store_run_set_int(nsight->out, "source.decimals", 3);
    if (!code &&
        *mode) /* Graph: kernels inside of CUDA graphs were not recorded; Node: they were */
        code = store_run_set(nsight->out, "source.cuda_graph_mode", mode);
    return code;
}

/* Processes that used a device come first, by number: launchers start ranks in order, and a process
 * without a rank is counted by its place in the run. */
static int set_processes(struct nsight *nsight)
{
    char table[NSIGHT_NAME_MAX];
    size_t index;
    int code = 0;
    if (!nsight_find(nsight, "CUPTI_ACTIVITY_KIND_KERNEL", table))
        return 0;
    sqlite3_stmt *st =
        nsight_select(nsight, "SELECT DISTINCT globalPid FROM \"%w\" ORDER BY 1", table);
    while (!code && nsight_next(st))
        if (nsight_int(st, 0) != STORE_ABSENT)
            code = nsight_process(nsight, nsight_int(st, 0), &index);
    sqlite3_finalize(st);
    return nsight->database.stopped ? TACHO_EINTERRUPTED : code;
}

int nsight_meta_begin(struct nsight *nsight)
{
    char host[256];
    named_value(nsight, "TARGET_INFO_SYSTEM_ENV", "Hostname", host, sizeof host);
    nsight->host = *host ? strdup(host) : NULL;
    int code = set_clock(nsight);
    if (!code)
        code = set_keys(nsight);
    if (!code)
        code = set_processes(nsight);
    return code ? code : nsight_payload_schemas(nsight);
}

/* ---- after the events ----------------------------------------------------------------------------------------------------------- */

/* The id in TARGET_INFO_GPU of a device of a process: what TARGET_INFO_CUDA_DEVICE says, else the
 * device's number. */
static int64_t gpu_of(struct nsight *nsight, int64_t pid, int64_t device)
{
    char table[NSIGHT_NAME_MAX];
    if (!nsight_find(nsight, "TARGET_INFO_CUDA_DEVICE", table))
        return device;
    int64_t gpu =
        nsight_select_int(nsight, "SELECT gpuId FROM \"%w\" WHERE cudaId=%lld AND pid=%lld", table,
                          (long long)device, (long long)pid);
    return gpu == STORE_ABSENT ? device : gpu;
}

struct wanted {
    int64_t process, device, gpu;
};
/* What the reader of TARGET_INFO_GPU looks for; its arguments have no room for it. */
static _Thread_local struct wanted wanted;

/* Writes a run key of the device that is wanted, if there is a value. */
static int device_key(struct nsight *nsight, const char *what, const char *value)
{
    char key[120];
    snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".%s", wanted.process,
             wanted.device, what);
    return value && *value ? store_run_set(nsight->out, key, value) : 0;
}

static int device_number(struct nsight *nsight, const char *what, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return value > 0 ? device_key(nsight, what, text) : 0;
}

/* Writes the keys of the device that is wanted, if this row of TARGET_INFO_GPU is its. */
static int gpu_row(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t major = nsight_int(st, 4), minor = nsight_int(st, 5), warp_size = nsight_int(st, 6),
            warps = nsight_int(st, 7), threads;
    char text[64];
    if (nsight_int(st, 0) != wanted.gpu)
        return 0;
    int code = device_key(nsight, "name", nsight_text(st, 1));
    if (!code)
        code = device_number(nsight, "sms", nsight_int(st, 2));
    if (!code)
        code = device_number(nsight, "memory_bytes", nsight_int(st, 3));
    if (!code && major > 0 && minor >= 0) {
        snprintf(text, sizeof text, "%" PRId64 ".%" PRId64, major, minor);
        code = device_key(nsight, "compute_capability", text);
    }
    if (!code)
        code = device_number(nsight, "warp_size", warp_size);
    if (!code && warp_size > 0 && warps > 0 && !__builtin_mul_overflow(warp_size, warps, &threads))
        code = device_number(nsight, "max_threads_per_sm", threads);
    return code ? code : device_key(nsight, "uuid", nsight_text(st, 8));
}

#define DEVICES_MOST 4096 /* whose properties are looked for */

/* Writes the properties of all devices that were used. */
static int set_devices(struct nsight *nsight)
{
    static const struct nsight_table gpus = {"TARGET_INFO_GPU",
                                             gpu_row,
                                             {"id", "name", "smCount", "totalMemory",
                                              "computeMajor", "computeMinor", "threadsPerWarp",
                                              "maxWarpsPerSm", "uuid"}};
    int code = 0, described = 0;
    for (size_t i = 0; !code && i < nsight->devices.cap && described < DEVICES_MOST; i++) {
        const struct imp_map_slot *slot = &nsight->devices.slot[i];
        if (!slot->used)
            continue;
        described++; /* each reads the tables of devices */
        const struct store_process *process = &nsight->process[slot->first].row;
        wanted =
            (struct wanted){process->id, slot->second, gpu_of(nsight, process->pid, slot->second)};
        code = nsight_read(nsight, &gpus);
    }
    return code;
}

/* Takes the rank of a process from MPI_RANKS. */
static int mpi_rank(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t id = nsight_int(st, 0), rank = nsight_int(st, 1);
    const int64_t *index =
        id == STORE_ABSENT ? NULL : imp_map_find(&nsight->processes, id >> 24, 0);
    if (index && rank >= 0 && rank < 1 << 24)
        nsight->process[*index].rank = rank;
    return 0;
}

/* The only process that used a device; SIZE_MAX: there is none, or several. A file with one such
 * process is the trace of one rank. */
static size_t only_process(const struct nsight *nsight)
{
    size_t only = SIZE_MAX;
    for (size_t i = 0; i < nsight->devices.cap; i++) {
        const struct imp_map_slot *slot = &nsight->devices.slot[i];
        if (slot->used && only != SIZE_MAX && only != (size_t)slot->first)
            return SIZE_MAX;
        if (slot->used)
            only = (size_t)slot->first;
    }
    return only;
}

int nsight_meta_end(struct nsight *nsight)
{
    static const struct nsight_table ranks = {
        "MPI_RANKS", mpi_rank, {"globalPid|globalTid", "rank"}};
    int code = nsight_read(nsight, &ranks);
    int64_t world = 0;
    size_t only = only_process(nsight);
    for (size_t i = 0; !code && i < nsight->process_count; i++) {
        struct nsight_process *process = &nsight->process[i];
        if (process->rank != STORE_ABSENT || i == only)
            process->rank = imp_rank(nsight->run, process->rank);
        if (process->rank == STORE_ABSENT)
            continue;
        process->row.rank = process->rank;
        world = process->ranks > world ? process->ranks : world;
        code = store_process_update(nsight->out, &process->row);
    }
    if (!code && world)
        code = store_run_set_int(nsight->out, "world_size", world);
    if (!code)
        code = set_devices(nsight);
    if (!code)
        code = nsight_diagnostics(nsight);
    return code;
}

int nsight_losses(struct nsight *nsight)
{
    static const char *const reasons[] = {
#define NSIGHT_LOSS_TEXT(name, reason) reason,
        NSIGHT_LOSS_MAP(NSIGHT_LOSS_TEXT)
#undef NSIGHT_LOSS_TEXT
    };
    int code = 0;
    for (size_t i = 0; !code && i < NSIGHT_LOSS_COUNT; i++)
        if (nsight->lost[i])
            code = imp_loss(nsight->run, reasons[i], nsight->lost[i]);
    return code;
}
