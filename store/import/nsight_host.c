/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of host threads other than NVTX: calls of the CUDA API, of libraries and of the operating system, overhead.
 */
#include <string.h>

#include "store/import/nsight.h"

enum { COL_START, COL_END, COL_TID, COL_NAME, COL_CORRELATION };
#define HOST_COLUMNS "start", "end", "globalTid", "nameId|textId", "correlationId"

static int put(struct nsight *n, sqlite3_stmt *st, const char *category, const char *name)
{
    struct store_slice s = {.detail = STORE_ABSENT, .correlation = STORE_ABSENT};
    int64_t tid = nsight_int(st, COL_TID);
    bool ok = true;
    n->run->r->events++;
    nsight_time(n, nsight_int(st, COL_START), nsight_int(st, COL_END), &s, &ok);
    if (ok && tid == STORE_ABSENT) {
        n->lost[NSIGHT_LOSS_PROCESS]++;
        ok = false;
    }
    if (!ok)
        return 0;
    int code = nsight_thread(n, tid, &s.track);
    if (!code)
        code = name ? nsight_intern(n, name, &s.name) : nsight_name(n, nsight_int(st, COL_NAME), &s.name);
    if (!code)
        code = nsight_intern(n, category, &s.category);
    if (code)
        return code;
    if (!strcmp(category, "runtime") || !strcmp(category, "driver"))
        s.correlation = nsight_int(st, COL_CORRELATION);
    if (s.correlation == 0)
        s.correlation = STORE_ABSENT;
    return nsight_slice(n, &s);
}

/* Names of calls carry the version of CUDA that introduced them: cudaLaunchKernel_v7000. It says nothing of the call. */
static int call(struct nsight *n, sqlite3_stmt *st)
{
    const char *text = nsight_string(n, nsight_int(st, COL_NAME));
    char name[256];
    size_t bytes = text ? strlen(text) : 0;
    if (bytes >= sizeof name)
        bytes = sizeof name - 1;
    memcpy(name, text ? text : "", bytes);
    name[bytes] = 0;
    size_t digits = bytes;
    while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    if (bytes - digits >= 4 && bytes - digits <= 5 && digits > 2 && !memcmp(name + digits - 2, "_v", 2))
        name[digits - 2] = 0;
    bool driver = !strncmp(name, "cu", 2) && name[2] >= 'A' && name[2] <= 'Z';
    return put(n, st, driver ? "driver" : "runtime", name);
}

static int os_call(struct nsight *n, sqlite3_stmt *st)
{
    return put(n, st, "osrt", NULL);
}

static int overhead(struct nsight *n, sqlite3_stmt *st)
{
    if (nsight_int(st, COL_TID) != STORE_ABSENT)
        return put(n, st, "overhead", NULL);
    n->run->r->events++;
    n->lost[NSIGHT_LOSS_PROCESS]++;
    return 0;
}

static int mpi_call(struct nsight *n, sqlite3_stmt *st)
{
    return put(n, st, "mpi", NULL);
}

static int cudnn_call(struct nsight *n, sqlite3_stmt *st)
{
    return put(n, st, "cudnn", NULL);
}

static int cublas_call(struct nsight *n, sqlite3_stmt *st)
{
    return put(n, st, "cublas", NULL);
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
