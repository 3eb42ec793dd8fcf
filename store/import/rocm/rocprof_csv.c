/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of tables of rocprofv3 (--output-format csv, the default before ROCm 7): one for
 * kernels, one for copies, one for the calls of each library. Those of one process are pieces of
 * one capture (captures.c). The table of dispatches of rocprof-compute has such columns, too.
 * Columns come and go between versions, so they are found by name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/table.h"
#include "store/import/kineto/kineto_text.h"
#include "store/import/rocm/rocm_import.h"
#include "store/import/rocm/rocm_private.h"

#define TEXT_MOST 128

/* Columns that are read: key, names in the versions of the tables */
#define COLUMN_MAP(X) \
    X(KERNEL, "Kernel_Name") \
    X(COPY, "Destination_Agent_Id") \
    X(KIND, "Kind|Domain") \
    X(NAME, "Kernel_Name|Function|Direction") \
    X(AGENT, "Agent_Id|Destination_Agent_Id|GPU_ID") \
    X(SOURCE, "Source_Agent_Id") \
    X(QUEUE, "Queue_Id|queue-id") \
    X(THREAD, "Thread_Id|tid") \
    X(CORRELATION, "Correlation_Id") \
    X(START, "Start_Timestamp") \
    X(END, "End_Timestamp") \
    X(SHARED, "LDS_Block_Size|Group_Segment_Size") \
    X(GROUP_X, "Workgroup_Size_X") \
    X(GROUP_Y, "Workgroup_Size_Y") \
    X(GROUP_Z, "Workgroup_Size_Z") \
    X(GRID_X, "Grid_Size_X") \
    X(GRID_Y, "Grid_Size_Y") \
    X(GRID_Z, "Grid_Size_Z")

enum column {
#define COLUMN_ENUM(name, texts) COLUMN_##name,
    COLUMN_MAP(COLUMN_ENUM)
#undef COLUMN_ENUM
        COLUMN_COUNT
};

/* Does the first line name the columns of such a table? That of counters has a row for each counter
 * of a kernel. */
static bool recognises(const unsigned char *head, size_t bytes)
{
    size_t line = imp_csv_first_line(head, bytes);
    return line && imp_holds(head, line, "Start_Timestamp") &&
           imp_holds(head, line, "End_Timestamp") && !imp_holds(head, line, "Counter_Name") &&
           (imp_holds(head, line, "Kernel_Name") || imp_holds(head, line, "Destination_Agent_Id") ||
            imp_holds(head, line, "Function"));
}

/* ---- cells ------------------------------------------------------------------------------------------------------------------- */

static int64_t number_of(const struct imp_table *table, int column)
{
    struct imp_cell cell = imp_table_cell(table, column);
    int64_t value;
    return kineto_int((struct kj_span){cell.text, cell.bytes}, &value) ? value : STORE_ABSENT;
}

/* The number of an agent: 4 of "Agent 4", or of 4; STORE_ABSENT: none. */
static int64_t agent_of(const struct imp_table *table, int column)
{
    struct imp_cell cell = imp_table_cell(table, column);
    size_t first = cell.bytes;
    int64_t value;
    while (first && cell.text[first - 1] >= '0' && cell.text[first - 1] <= '9')
        first--;
    return kineto_int((struct kj_span){cell.text + first, cell.bytes - first}, &value)
               ? value
               : STORE_ABSENT;
}

static const char *text_of(const struct imp_table *table, int column, char text[TEXT_MOST])
{
    struct imp_cell cell = imp_table_cell(table, column);
    snprintf(text, TEXT_MOST, "%.*s", (int)(cell.bytes < TEXT_MOST ? cell.bytes : TEXT_MOST),
             cell.text);
    return text;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

/* A kernel. An agent that runs one is a GPU. */
static int put_kernel(struct rocm *rocm, const struct imp_table *table)
{
    struct imp_cell name = imp_table_cell(table, COLUMN_NAME);
    struct rocm_work work = {.start = number_of(table, COLUMN_START),
                             .end = number_of(table, COLUMN_END),
                             .agent = agent_of(table, COLUMN_AGENT),
                             .queue = number_of(table, COLUMN_QUEUE),
                             .kernel = STORE_ABSENT,
                             .correlation = number_of(table, COLUMN_CORRELATION),
                             .shared_memory = number_of(table, COLUMN_SHARED),
                             .bytes = -1};
    int rc = 0;
    for (int i = 0; i < 3; i++) {
        work.group[i] = number_of(table, COLUMN_GROUP_X + i);
        work.grid[i] = number_of(table, COLUMN_GRID_X + i);
    }
    if (work.agent >= 0 && !imp_map_find(&rocm->agents, work.agent, 0))
        rc = rocm_agent_add(rocm, work.agent, true, work.agent, NULL, 0);
    if (!rc) /* --kernel-rename gives each dispatch a name of its own */
        rc = rocm_kernel_name(rocm, name.text, name.bytes, &work.name);
    return rc ? rc : rocm_work_put(rocm, &work);
}

/* A copy is of the GPU that it writes to, else of the one that it reads. */
static int put_copy(struct rocm *rocm, const struct imp_table *table)
{
    char way[TEXT_MOST];
    struct rocm_work work = {.start = number_of(table, COLUMN_START),
                             .end = number_of(table, COLUMN_END),
                             .agent = agent_of(table, COLUMN_AGENT),
                             .kernel = STORE_ABSENT,
                             .correlation = number_of(table, COLUMN_CORRELATION),
                             .shared_memory = -1,
                             .bytes = -1,
                             .way = text_of(table, COLUMN_NAME, way)};
    bool host_out = strstr(way, "DEVICE_TO_HOST") != NULL;
    int rc = 0;
    if (host_out ||
        (strstr(way, "DEVICE_TO_DEVICE") && !imp_map_find(&rocm->agents, work.agent, 0)))
        work.agent = agent_of(table, COLUMN_SOURCE);
    if (work.agent >= 0 && !imp_map_find(&rocm->agents, work.agent, 0))
        rc = rocm_agent_add(rocm, work.agent, true, work.agent, NULL, 0);
    return rc ? rc : rocm_work_put(rocm, &work);
}

static int put_call(struct rocm *rocm, const struct imp_table *table)
{
    struct imp_cell name = imp_table_cell(table, COLUMN_NAME);
    char kind[TEXT_MOST];
    return rocm_call_put(rocm, text_of(table, COLUMN_KIND, kind), name.text, name.bytes,
                         number_of(table, COLUMN_THREAD), number_of(table, COLUMN_START),
                         number_of(table, COLUMN_END), number_of(table, COLUMN_CORRELATION));
}

static int put_row(void *ctx, const struct imp_table *table)
{
    if (imp_table_has(table, COLUMN_KERNEL))
        return put_kernel(ctx, table);
    return imp_table_has(table, COLUMN_COPY) ? put_copy(ctx, table) : put_call(ctx, table);
}

/* Reads the tables of one process; this is the `read` of the importer. */
static int read_tables(struct imp_run *run, const char *path, struct tacho_error *err)
{
    static const char *const names[] = {
#define COLUMN_NAMES(name, texts) texts,
        COLUMN_MAP(COLUMN_NAMES)
#undef COLUMN_NAMES
    };
    struct rocm rocm = {.gpus = 0};
    struct imp_table table = {
        .names = names, .columns = COLUMN_COUNT, .put = put_row, .ctx = &rocm};
    int64_t slices = run->slices;
    int rc = store_begin(run->db);
    if (!rc)
        rc = imp_rows_begin(&rocm.rows, run, STORE_ABSENT, STORE_ABSENT, NULL, NULL);
    if (!rc)
        rc = imp_table_read(&table, run, path, err);
    rc = rocm_end(&rocm, rc);
    if (!rc)
        rc = store_run_set(run->db, "source.tool", "rocprofv3 (tables)");
    if (!rc)
        rc = store_commit(run->db);
    if (!rc && run->slices == slices)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "record kernels and calls: rocprofv3 --runtime-trace -- CMD",
                        "%s: a table of rocprofv3 without a kernel, copy, call or range", path);
    return rc;
}

const struct importer imp_rocprof_csv = {
    .source = "rocprofv3-csv", .recognises = recognises, .read = read_tables};
