/* SPDX-License-Identifier: Apache-2.0
 *
 * Databases of rocmProfileData: one for all processes that its tracer was loaded into. Calls name
 * their process, operations of GPUs the call that asked for them. What an operation is, its type
 * says, in other words by each of the tracer's sources (roctracer, rocprofiler-sdk, CUPTI).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/rocm/rocpd_private.h"
#include "store/keyed_hash.h"

#define FILL_KERNEL  (-2) /* id of fills among kernels */
#define MONITOR_TEXT 64

/* The processes of a database. */
struct rpd {
    struct rocpd reading; /* comes first: rows are handed this */
    struct rocm *rocm;    /* of each process */
    size_t processes;
    struct imp_map pids; /* -> index in rocm */
    struct imp_map gpus; /* -> index of the process that asked for the last operation */
};

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Rows of a process go to it from here on; of one that is not known to the first. */
static void choose(struct rpd *rpd, const int64_t *index)
{
    rpd->reading.rocm = &rpd->rocm[index ? *index : 0];
}

/* Adds the process of a row. */
static int add_process(struct rocpd *reading, sqlite3_stmt *st)
{
    struct rpd *rpd = (struct rpd *)reading;
    int64_t pid = rocpd_integer(st, 0);
    if (rpd->processes == ROCPD_PROCESSES_MOST)
        return 0;
    int rc = imp_map_put(&rpd->pids, pid, 0, (int64_t)rpd->processes);
    if (rc)
        return rc;
    return imp_rows_begin(&rpd->rocm[rpd->processes++].rows, reading->run, STORE_ABSENT, pid, NULL,
                          NULL);
}

/* ---- operations of GPUs -------------------------------------------------------------------------------------------------------- */

/* Any operation with the name of a kernel is one: those of HIP graphs have a type of their own
 * ("Task"). Barriers have no name, or that of the packet. */
enum rpd_operation rpd_operation_of(const char *type, const char *name)
{
    if (begins(type, "Copy") || begins(type, "Memcpy") || begins(type, "MEMORY_COPY"))
        return RPD_COPY;
    if (!strcmp(type, "FillBuffer") || !strcmp(type, "Memset"))
        return RPD_FILL;
    if (!strcmp(type, "KernelExecution") || (*name && strcmp(type, "Barrier")))
        return RPD_KERNEL;
    return RPD_OTHER;
}

/* The direction of a copy, as rocprofv3 writes it, by the words of its type or description. */
static const char *way_of(const char *type, const char *name)
{
    static const char *const ways[][2] = {{"HostToDevice", "HOST_TO_DEVICE"},
                                          {"DeviceToHost", "DEVICE_TO_HOST"},
                                          {"DeviceToDevice", "DEVICE_TO_DEVICE"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t k = 0; k < 2; k++)
            if (strstr(type, ways[i][k]) || strstr(name, ways[i][k]))
                return ways[i][1];
    return "unknown";
}

/* CUPTI's source has the context in the column of the queue, and the stream behind it. */
static bool is_of_cupti(const char *type)
{
    return !strcmp(type, "Kernel") || !strcmp(type, "ConcurrentKernel") ||
           !strcmp(type, "Memcpy") || !strcmp(type, "Memset");
}

static int put_operation(struct rocpd *reading, sqlite3_stmt *st)
{
    struct rpd *rpd = (struct rpd *)reading;
    const char *type = rocpd_text(st, 6), *name = rocpd_text(st, 7);
    struct rocm_work work = {.start = rocpd_integer(st, 0),
                             .end = rocpd_integer(st, 1),
                             .agent = rocpd_integer(st, 2),
                             .queue = rocpd_integer(st, is_of_cupti(type) ? 10 : 3),
                             .kernel = rocpd_integer(st, 4),
                             .correlation = rocpd_integer(st, 5),
                             .shared_memory = -1,
                             .bytes = rocpd_integer(st, 8)};
    enum rpd_operation operation = rpd_operation_of(type, name);
    work.fill = operation == RPD_FILL;
    const int64_t *process = imp_map_find(&rpd->pids, rocpd_integer(st, 9), 0);
    int rc = process ? imp_map_put(&rpd->gpus, work.agent, 0, *process) : 0;
    choose(rpd, process ? process : imp_map_find(&rpd->gpus, work.agent, 0));
    if (operation == RPD_OTHER || (operation != RPD_COPY && work.agent < 0)) {
        reading->rocm->others++; /* barriers, marks */
        return rc;
    }
    if (operation == RPD_COPY) {
        work.way = way_of(type, name);
    } else if (work.fill && !*name) {
        name = type;
        work.kernel = FILL_KERNEL;
    }
    if (!rc && work.agent >= 0 && !imp_map_find(&reading->rocm->agents, work.agent, 0))
        rc = rocm_agent_add(reading->rocm, work.agent, true, work.agent, NULL, 0);
    if (!work.way && !rc && *name && !imp_map_find(&reading->rocm->kernels, work.kernel, 0))
        rc = rocm_kernel_add(reading->rocm, work.kernel, name, strlen(name));
    return rc ? rc : rocm_work_put(reading->rocm, &work);
}

/* ---- calls ---------------------------------------------------------------------------------------------------------------------- */

/* A call, or a range whose text is the argument of a call UserMarker. */
static int put_call(struct rocpd *reading, sqlite3_stmt *st)
{
    struct rpd *rpd = (struct rpd *)reading;
    const char *name = rocpd_text(st, 3), *kind = "HIP_RUNTIME_API";
    if (!strcmp(name, "UserMarker")) {
        kind = "MARKER_CORE_RANGE_API";
        name = rocpd_text(st, 4);
    } else if (begins(name, "hsa_")) {
        kind = "HSA_CORE_API";
    }
    choose(rpd, imp_map_find(&rpd->pids, rocpd_integer(st, 6), 0));
    return rocm_call_put(reading->rocm, kind, name, strlen(name), rocpd_integer(st, 2),
                         rocpd_integer(st, 0), rocpd_integer(st, 1), rocpd_integer(st, 5));
}

/* ---- samples of the GPUs -------------------------------------------------------------------------------------------------------- */

/* A value that held from one time to another: a clock in MHz as text, of one GPU. */
static int put_sample(struct rocpd *reading, sqlite3_stmt *st)
{
    struct rpd *rpd = (struct rpd *)reading;
    const char *kind = rocpd_text(st, 2), *text = rocpd_text(st, 3);
    int64_t gpu = rocpd_integer(st, 1), track;
    char device[MONITOR_TEXT], name[MONITOR_TEXT], *end;
    double value = strtod(text, &end);
    if (!*kind || gpu < 0 || end == text || *end || !isfinite(value)) {
        reading->rocm->others++;
        return 0;
    }
    choose(rpd, imp_map_find(&rpd->gpus, gpu, 0));
    snprintf(device, sizeof device, "gpu:%" PRId64, gpu);
    snprintf(name, sizeof name, "%s", kind);
    bool clock = !strcmp(kind, "sclk") || !strcmp(kind, "mclk");
    int64_t key = (int64_t)(store_hash_bytes(name, strlen(name)) ^ (uint64_t)gpu);
    int rc = imp_rows_counter_track(&reading->rocm->rows, key, device, name, clock ? "MHz" : NULL,
                                    &track);
    return rc ? rc : imp_rows_counter(&reading->rocm->rows, track, rocpd_integer(st, 0), value);
}

/* ---- the database --------------------------------------------------------------------------------------------------------------- */

/* Can the query be run? If not, a table or column that it names does not exist. */
static bool has(const struct rocpd *reading, const char *sql)
{
    sqlite3_stmt *st = rocpd_query(reading, sql);
    sqlite3_finalize(st);
    return st != NULL;
}

/* Reads calls, then operations, then samples. Since version 3 of the schema arguments of calls are
 * strings of a table of their own. */
static int read_records(struct rocpd *reading)
{
    char calls[1024], operations[1024];
    const char *size = "NULL", *copies = "";
    bool own = has(reading, "SELECT id, string FROM rocpd_ustring LIMIT 1");
    if (has(reading, "SELECT size, api_ptr_id FROM rocpd_copyapi LIMIT 1")) {
        size = "C.size";
        copies = " LEFT JOIN rocpd_copyapi C ON C.api_ptr_id = L.api_id";
    }
    snprintf(calls, sizeof calls,
             "SELECT R.start, R.\"end\", R.tid, N.string, G.string, R.id, R.pid, R.rowid"
             " FROM rocpd_api R LEFT JOIN rocpd_string N ON N.id = R.apiName_id"
             " LEFT JOIN %s G ON G.id = R.args_id",
             own ? "rocpd_ustring" : "rocpd_string");
    snprintf(operations, sizeof operations,
             "SELECT R.start, R.\"end\", R.gpuId, R.queueId, R.description_id, L.api_id, T.string,"
             " D.string, %s, A.pid, R.sequenceId, R.rowid FROM rocpd_op R"
             " LEFT JOIN rocpd_api_ops L ON L.op_id = R.id"
             " LEFT JOIN rocpd_api A ON A.id = L.api_id"
             " LEFT JOIN rocpd_string T ON T.id = R.opType_id"
             " LEFT JOIN rocpd_string D ON D.id = R.description_id%s",
             size, copies);
    int rc = rocpd_each_record(reading, calls, "rocpd_api", put_call);
    if (!rc)
        rc = rocpd_each_record(reading, operations, "rocpd_op", put_operation);
    return rc ? rc
              : rocpd_each_record(reading,
                                  "SELECT R.start, R.deviceId, R.monitorType, R.value, R.rowid"
                                  " FROM rocpd_monitor R",
                                  "rocpd_monitor", put_sample);
}

int rpd_read(struct imp_run *run, struct imp_database *database, bool *found)
{
    struct rpd rpd = {.reading = {.run = run, .database = database}};
    *found = has(&rpd.reading, "SELECT start FROM rocpd_op LIMIT 1");
    if (!*found)
        return 0;
    rpd.rocm = calloc(ROCPD_PROCESSES_MOST, sizeof *rpd.rocm);
    if (!rpd.rocm)
        return TACHO_ENOMEM;
    choose(&rpd, NULL);
    int rc = rocpd_each(&rpd.reading, "SELECT DISTINCT pid FROM rocpd_api", add_process);
    if (!rc && !rpd.processes)
        rc = imp_rows_begin(&rpd.rocm[rpd.processes++].rows, run, STORE_ABSENT, STORE_ABSENT, NULL,
                            NULL);
    if (!rc)
        rc = read_records(&rpd.reading);
    for (size_t i = 0; i < rpd.processes; i++)
        rc = rocm_end(&rpd.rocm[i], rc);
    imp_map_free(&rpd.pids);
    imp_map_free(&rpd.gpus);
    free(rpd.rocm);
    return rc;
}
