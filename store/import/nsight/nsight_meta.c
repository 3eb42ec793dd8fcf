/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands beside the events: clock, versions, devices, ranks, and what the profiler itself says
 * it lost.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/import/nsight/nsight.h"

/* First row's integer column of a table, STORE_ABSENT: none. */
static int64_t first_int(struct nsight *nsight, const char *name, const char *column)
{
    char table[NSIGHT_NAME_MAX];
    sqlite3_stmt *st = NULL;
    int64_t value = STORE_ABSENT;
    if (!nsight_find(nsight, name, table))
        return value;
    char *sql = sqlite3_mprintf("SELECT \"%w\" FROM \"%w\" LIMIT 1", column, table);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        value = nsight_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_free(sql);
    return value;
}

/* Value of a name in a table of names and values, "" if it has none. */
static void named_value(struct nsight *nsight, const char *name, const char *key, char *to,
                        size_t size)
{
    char table[NSIGHT_NAME_MAX];
    sqlite3_stmt *st = NULL;
    *to = 0;
    if (!nsight_find(nsight, name, table))
        return;
    char *sql = sqlite3_mprintf("SELECT value FROM \"%w\" WHERE name=%Q LIMIT 1", table, key);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW) {
        const char *text = nsight_text(st, 0);
        snprintf(to, size, "%s", text ? text : "");
    }
    sqlite3_finalize(st);
    sqlite3_free(sql);
}

/* ---- before the events -------------------------------------------------------------------------------------------------------- */

/* Times of an export count from the start of the target's clock or of the capture; ANALYSIS_DETAILS
 * says where the capture begins in them, TARGET_INFO_SESSION_START_TIME when that was. Files of
 * several nodes are put on one clock that way; of a single file the times stay as they are, and an
 * anchor tells the wall time. */
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

static int set_keys(struct nsight *nsight)
{
    char product[64], version[64], schema[32], mode[32], key[64], text[200];
    named_value(nsight, "META_DATA_EXPORT", "EXPORT_PRODUCT_NAME", product, sizeof product);
    named_value(nsight, "META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION", version, sizeof version);
    named_value(nsight, "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION", schema, sizeof schema);
    named_value(nsight, "META_DATA_CAPTURE", "CUDA_GRAPH_TRACE_OPTIONS:MODE", mode, sizeof mode);
    snprintf(text, sizeof text, "%s%s%s%s%s%s", *product ? product : "NVIDIA Nsight Systems",
             *version ? " " : "", version, *schema ? " (schema " : "", schema, *schema ? ")" : "");
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
    sqlite3_stmt *st = NULL;
    size_t index;
    int code = 0;
    if (!nsight_find(nsight, "CUPTI_ACTIVITY_KIND_KERNEL", table))
        return 0;
    char *sql = sqlite3_mprintf("SELECT DISTINCT globalPid FROM \"%w\" ORDER BY 1", table);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK)
        while (!code && sqlite3_step(st) == SQLITE_ROW)
            if (nsight_int(st, 0) != STORE_ABSENT)
                code = nsight_process(nsight, nsight_int(st, 0), &index);
    sqlite3_finalize(st);
    sqlite3_free(sql);
    return nsight->stopped ? TACHO_EINTERRUPTED : code;
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

static int device_key(struct nsight *nsight, int64_t process, int64_t device, const char *what,
                      const char *value)
{
    char key[120];
    snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".%s", process, device, what);
    return value && *value ? store_run_set(nsight->out, key, value) : 0;
}

static int device_number(struct nsight *nsight, int64_t process, int64_t device, const char *what,
                         int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return value > 0 ? device_key(nsight, process, device, what, text) : 0;
}

/* The row of TARGET_INFO_GPU that device N of a process is: by TARGET_INFO_CUDA_DEVICE, else by
 * number. */
static int64_t gpu_of(struct nsight *nsight, int64_t pid, int64_t device)
{
    char table[NSIGHT_NAME_MAX];
    sqlite3_stmt *st = NULL;
    int64_t gpu = device;
    if (!nsight_find(nsight, "TARGET_INFO_CUDA_DEVICE", table))
        return gpu;
    char *sql = sqlite3_mprintf("SELECT gpuId FROM \"%w\" WHERE cudaId=%lld AND pid=%lld", table,
                                (long long)device, (long long)pid);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW && nsight_int(st, 0) != STORE_ABSENT)
        gpu = nsight_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_free(sql);
    return gpu;
}

struct wanted {
    int64_t process, device, gpu;
};
static _Thread_local struct wanted
    wanted; /* by the reader of TARGET_INFO_GPU, which has no room for it in its arguments */

static int gpu_row(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t p = wanted.process, d = wanted.device, major = nsight_int(st, 4),
            minor = nsight_int(st, 5);
    char text[64];
    if (nsight_int(st, 0) != wanted.gpu)
        return 0;
    int code = device_key(nsight, p, d, "name", nsight_text(st, 1));
    if (!code)
        code = device_number(nsight, p, d, "sms", nsight_int(st, 2));
    if (!code)
        code = device_number(nsight, p, d, "memory_bytes", nsight_int(st, 3));
    if (!code && major > 0 && minor >= 0) {
        snprintf(text, sizeof text, "%" PRId64 ".%" PRId64, major, minor);
        code = device_key(nsight, p, d, "compute_capability", text);
    }
    int64_t warp = nsight_int(st, 6), warps = nsight_int(st, 7), threads;
    if (!code)
        code = device_number(nsight, p, d, "warp_size", warp);
    if (!code && warp > 0 && warps > 0 && !__builtin_mul_overflow(warp, warps, &threads))
        code = device_number(nsight, p, d, "max_threads_per_sm", threads);
    return code ? code : device_key(nsight, p, d, "uuid", nsight_text(st, 8));
}

static int set_devices(struct nsight *nsight)
{
    static const struct nsight_table gpus = {"TARGET_INFO_GPU",
                                             gpu_row,
                                             {"id", "name", "smCount", "totalMemory",
                                              "computeMajor", "computeMinor", "threadsPerWarp",
                                              "maxWarpsPerSm", "uuid"}};
    int code = 0;
    for (size_t i = 0; !code && i < nsight->devices.cap; i++) {
        const struct nsight_map_slot *nsight_map_slot = &nsight->devices.slot[i];
        if (!nsight_map_slot->used)
            continue;
        const struct store_process *process = &nsight->process[nsight_map_slot->a].row;
        wanted = (struct wanted){process->id, nsight_map_slot->b,
                                 gpu_of(nsight, process->pid, nsight_map_slot->b)};
        code = nsight_read(nsight, &gpus);
    }
    return code;
}

/* MPI says which rank a process is, too. */
static int mpi_rank(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t id = nsight_int(st, 0), rank = nsight_int(st, 1);
    const int64_t *at =
        id == STORE_ABSENT ? NULL : nsight_map_find(&nsight->processes, id >> 24, 0);
    if (at && rank >= 0 && rank < 1 << 24)
        nsight->process[*at].rank = rank;
    return 0;
}

/* Errors of the profiler, and what it says was lost. */
static int diagnostic(struct nsight *nsight, sqlite3_stmt *st)
{
    static const char *const words[] = {"lost",       "dropped",  "discard",      "missing",
                                        "incomplete", "overflow", "not collected"};
    int64_t severity = nsight_int(st, 0), time = nsight_int(st, 1);
    const char *text = nsight_text(st, 2), *slash;
    char reason[240], source[256];
    bool loss = severity == 3;
    if (!text || severity == 1 || severity == 4)
        return 0;
    for (size_t i = 0; !loss && i < sizeof words / sizeof *words; i++)
        loss = strcasestr(text, words[i]) != NULL;
    if (!loss)
        return 0;
    slash = strrchr(nsight->run->path, '/');
    snprintf(source, sizeof source, "%s", slash ? slash + 1 : nsight->run->path);
    snprintf(reason, sizeof reason, "Nsight Systems: %.200s", text);
    reason[strcspn(reason, "\r\n")] = 0;
    if (time != STORE_ABSENT && time >= 0 && time <= INT64_MAX / 2)
        time += nsight->base;
    else
        time = STORE_ABSENT;
    return store_loss_add(
        nsight->out,
        &(struct store_loss){
            .source = source, .reason = reason, .count = STORE_ABSENT, .t0 = time, .t1 = time});
}

/* Tables of events that no reader of ours takes: not a loss of the capture, but nothing to be
 * silent about. */
static int set_unread(struct nsight *nsight)
{
    static const char sql[] = "SELECT m.name FROM sqlite_master m WHERE m.type='table' AND m.sql "
                              "NOT LIKE 'CREATE VIRTUAL%' AND EXISTS "
                              "(SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name IN "
                              "('start','timestamp','rawTimestamp')) ORDER BY 1";
    static const char *const no_events[] = {"DIAGNOSTIC_EVENT", "ANALYSIS_", "TARGET_INFO_",
                                            "META_DATA_", "ENUM_"};
    const struct nsight_table *const all[] = {nsight_device_tables, nsight_host_tables,
                                              nsight_nvtx_tables, nsight_metric_tables};
    sqlite3_stmt *st = NULL;
    char list[1000] = "";
    size_t at = 0;
    if (sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) != SQLITE_OK)
        return 0;
    while (sqlite3_step(st) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        bool read = !name || strlen(name) >= NSIGHT_NAME_MAX;
        for (size_t i = 0; !read && i < sizeof no_events / sizeof *no_events; i++)
            read = !strncmp(name, no_events[i], strlen(no_events[i]));
        for (size_t k = 0; !read && k < sizeof all / sizeof *all; k++)
            for (const struct nsight_table *nsight_table = all[k]; !read && nsight_table->name;
                 nsight_table++)
                read =
                    !strncmp(name, nsight_table->name, strlen(nsight_table->name)) &&
                    (!name[strlen(nsight_table->name)] || name[strlen(nsight_table->name)] == '_');
        int64_t rows = read ? 0 : nsight_rows_about(nsight, name);
        if (rows > 0 && at < sizeof list - 200)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s (%" PRId64 " rows)",
                                   at ? ", " : "", name, rows);
    }
    sqlite3_finalize(st);
    char key[64] = "source.not_read";
    if (nsight->run->file_index)
        snprintf(key, sizeof key, "source.not_read.%" PRId64, nsight->run->file_index);
    return at ? store_run_set(nsight->out, key, list) : 0;
}

/* The process that used a device, SIZE_MAX: none or several. A file with one is the trace of one
 * rank. */
static size_t only_process(const struct nsight *nsight)
{
    size_t only = SIZE_MAX;
    for (size_t i = 0; i < nsight->devices.cap; i++) {
        const struct nsight_map_slot *nsight_map_slot = &nsight->devices.slot[i];
        if (nsight_map_slot->used && only != SIZE_MAX && only != (size_t)nsight_map_slot->a)
            return SIZE_MAX;
        if (nsight_map_slot->used)
            only = (size_t)nsight_map_slot->a;
    }
    return only;
}

int nsight_meta_end(struct nsight *nsight)
{
    static const struct nsight_table ranks = {
        "MPI_RANKS", mpi_rank, {"globalPid|globalTid", "rank"}};
    static const struct nsight_table diagnostics = {
        "DIAGNOSTIC_EVENT", diagnostic, {"severity", "timestamp", "text"}};
    int code = nsight_read(nsight, &ranks);
    int64_t world = 0;
    size_t only = only_process(nsight);
    for (size_t i = 0; !code && i < nsight->process_count; i++) {
        struct nsight_process *nsight_process = &nsight->process[i];
        if (nsight_process->rank != STORE_ABSENT || i == only)
            nsight_process->rank = imp_rank(nsight->run, nsight_process->rank);
        if (nsight_process->rank == STORE_ABSENT)
            continue;
        nsight_process->row.rank = nsight_process->rank;
        nsight_process->row.program = nsight_process->program;
        nsight_process->row.host = nsight->host;
        world = nsight_process->ranks > world ? nsight_process->ranks : world;
        code = store_process_update(nsight->out, &nsight_process->row);
    }
    if (!code && world)
        code = store_run_set_int(nsight->out, "world_size", world);
    if (!code)
        code = set_devices(nsight);
    if (!code)
        code = nsight_read(nsight, &diagnostics);
    if (!code)
        code = set_unread(nsight);
    static const char *const reasons[] = {
#define NSIGHT_LOSS_TEXT(name, reason) reason,
        NSIGHT_LOSS_MAP(NSIGHT_LOSS_TEXT)
#undef NSIGHT_LOSS_TEXT
    };
    for (size_t i = 0; !code && i < NSIGHT_LOSS_COUNT; i++)
        if (nsight->lost[i])
            code = imp_loss(nsight->run, reasons[i], nsight->lost[i]);
    return code;
}
