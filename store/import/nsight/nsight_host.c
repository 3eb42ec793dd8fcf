/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads rows of host threads other than NVTX: calls of the CUDA API, of libraries and of the
 * operating system, overhead.
 */
#include <stdio.h>
#include <string.h>

#include "store/import/nsight/nsight_private.h"

enum { COL_START, COL_END, COL_TID, COL_NAME, COL_CORRELATION };
#define HOST_COLUMNS "start", "end", "globalTid", "nameId|textId", "correlationId"

/* Writes the slice of a row. `name` STORE_ABSENT: the name is in a column of the row. */
static int put(struct nsight *nsight, sqlite3_stmt *st, const char *category, int64_t name)
{
    struct store_slice slice = {.detail = STORE_ABSENT, .correlation = STORE_ABSENT, .name = name};
    int64_t tid = nsight_int(st, COL_TID);
    bool ok = true;
    nsight->run->events++;
    nsight_time(nsight, nsight_int(st, COL_START), nsight_int(st, COL_END), &slice, &ok);
    if (ok && tid == STORE_ABSENT) {
        nsight->lost[NSIGHT_LOSS_PROCESS]++;
        ok = false;
    }
    if (!ok)
        return 0;
    int code = nsight_thread(nsight, tid, &slice.track);
    if (!code && name == STORE_ABSENT)
        code = nsight_name(nsight, nsight_int(st, COL_NAME), &slice.name);
    if (!code)
        code = nsight_intern(nsight, category, &slice.category);
    if (code)
        return code;
    if (name != STORE_ABSENT) /* a call of the API */
        slice.correlation = nsight_int(st, COL_CORRELATION);
    if (slice.correlation == 0)
        slice.correlation = STORE_ABSENT;
    return nsight_slice(nsight, &slice);
}

/* Names of calls carry the version of CUDA that introduced them: cudaLaunchKernel_v7000. It says
 * nothing of the call. The store's string of a name's id, and whether it is the driver's; looked up
 * once for each id. */
static int call_name(struct nsight *nsight, int64_t id, int64_t *string, bool *driver)
{
    const int64_t *known = imp_map_find(&nsight->calls, id, 0);
    char name[256];
    if (known) {
        *string = *known < 0 ? -*known : *known;
        *driver = *known < 0;
        return 0;
    }
    const char *text = nsight_string(nsight, id);
    snprintf(name, sizeof name, "%s", text ? text : "");
    size_t bytes = strlen(name), digits = bytes;
    while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    if (bytes - digits >= 4 && bytes - digits <= 5 && digits > 2 &&
        !memcmp(name + digits - 2, "_v", 2))
        name[digits - 2] = 0;
    *driver = !strncmp(name, "cu", 2) && name[2] >= 'A' && name[2] <= 'Z';
    int code = nsight_intern(nsight, name, string);
    if (code || nsight->calls.count > NSIGHT_CACHE)
        return code;
    return imp_map_put(&nsight->calls, id, 0, *driver ? -*string : *string);
}

/* A call of the CUDA API. */
static int call(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t string;
    bool driver;
    int code = call_name(nsight, nsight_int(st, COL_NAME), &string, &driver);
    const char *category = driver ? "driver" : "runtime";
    return code ? code : put(nsight, st, category, string);
}

static int os_call(struct nsight *nsight, sqlite3_stmt *st)
{
    return put(nsight, st, "osrt", STORE_ABSENT);
}

/* A row of the profiler's own overhead, some of which name no thread. */
static int overhead(struct nsight *nsight, sqlite3_stmt *st)
{
    if (nsight_int(st, COL_TID) != STORE_ABSENT)
        return put(nsight, st, "overhead", STORE_ABSENT);
    nsight->run->events++;
    nsight->lost[NSIGHT_LOSS_PROCESS]++;
    return 0;
}

static int mpi_call(struct nsight *nsight, sqlite3_stmt *st)
{
    return put(nsight, st, "mpi", STORE_ABSENT);
}

static int cudnn_call(struct nsight *nsight, sqlite3_stmt *st)
{
    return put(nsight, st, "cudnn", STORE_ABSENT);
}

static int cublas_call(struct nsight *nsight, sqlite3_stmt *st)
{
    return put(nsight, st, "cublas", STORE_ABSENT);
}

const struct nsight_table nsight_host_tables[] = {
    {"CUPTI_ACTIVITY_KIND_RUNTIME", call, {HOST_COLUMNS}},
    {"CUPTI_ACTIVITY_KIND_DRIVER", call, {HOST_COLUMNS}},
    {"CUPTI_ACTIVITY_KIND_OVERHEAD", overhead, {HOST_COLUMNS}},
    {"PROFILER_OVERHEAD", overhead, {HOST_COLUMNS}},
    {"OSRT_API", os_call, {HOST_COLUMNS}},
    {"MPI_COLLECTIVES_EVENTS", mpi_call, {HOST_COLUMNS}},
    {"MPI_P2P_EVENTS", mpi_call, {HOST_COLUMNS}},
    {"MPI_START_WAIT_EVENTS", mpi_call, {HOST_COLUMNS}},
    {"MPI_OTHER_EVENTS", mpi_call, {HOST_COLUMNS}},
    {"CUDNN_EVENTS", cudnn_call, {HOST_COLUMNS}},
    {"CUBLAS_EVENTS", cublas_call, {HOST_COLUMNS}},
    {0},
};
