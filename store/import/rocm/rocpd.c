/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of rocpd databases, the default output of rocprofv3. All tables of one process end
 * in the same suffix (its uuid). Two layouts exist: in the older one a record has its times and
 * threads in columns, since version 4 of the schema it refers to rocpd_track and rocpd_timestamp.
 * The databases of rocmProfileData (.rpd), from which these come, have other tables: rocpd_op and
 * rocpd_api.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/database.h"
#include "store/import/input/json.h"
#include "store/import/rocm/rocm_import.h"
#include "store/import/rocm/rocm_private.h"

#define SUFFIX_MOST    80
#define PROCESSES_MOST 4096
#define TEXT_MOST      (256 << 10) /* bytes of a name, which any number of records may have */
#define AGAIN          "record it again: rocprofv3 --output-format rocpd -- CMD"

struct reading {
    struct rocm rocm;
    struct imp_database *database;
    char suffix[SUFFIX_MOST];
    bool tracks; /* the newer layout */
};

static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes >= 16 && !memcmp(head, "SQLite format 3", 16) &&
           memmem(head, bytes, "rocpd_", 6) != NULL;
}

/* ---- queries ---------------------------------------------------------------------------------------------------------------- */

static int64_t integer(sqlite3_stmt *st, int column)
{
    return sqlite3_column_type(st, column) == SQLITE_INTEGER ? sqlite3_column_int64(st, column)
                                                             : STORE_ABSENT;
}

static const char *text(sqlite3_stmt *st, int column)
{
    const char *value = sqlite3_column_type(st, column) == SQLITE_TEXT
                            ? (const char *)sqlite3_column_text(st, column)
                            : NULL;
    return value ? value : "";
}

/* Replaces each $ of a query by the suffix of the tables. NULL: the query cannot be run. */
static sqlite3_stmt *query(const struct reading *reading, const char *sql)
{
    sqlite3_stmt *st = NULL;
    sqlite3_str *full = sqlite3_str_new(reading->database->db);
    for (const char *at = sql; *at; at++) {
        if (*at == '$')
            sqlite3_str_appendf(full, "%w", reading->suffix);
        else
            sqlite3_str_appendchar(full, 1, *at);
    }
    char *whole = sqlite3_str_finish(full);
    if (whole)
        sqlite3_prepare_v2(reading->database->db, whole, -1, &st, NULL);
    sqlite3_free(whole);
    return st;
}

typedef int (*row_function)(struct reading *reading, sqlite3_stmt *st);

/* What a query ended with: 0 at its end and at damage, which sets *damaged; else an error. */
static int end_of(const struct reading *reading, int status, int rc, bool *damaged)
{
    if (reading->database->stopped)
        return TACHO_EINTERRUPTED;
    if (!rc && status == SQLITE_NOMEM)
        return TACHO_ENOMEM;
    *damaged = !rc && status != SQLITE_DONE;
    return rc;
}

static int lose(struct reading *reading, const char *reason, int64_t count)
{
    reading->rocm.rows.run->truncated = true;
    return imp_loss(reading->rocm.rows.run, reason, count);
}

/* Calls `row` for each row of a query. A table that does not exist has none; damage ends it and is
 * counted as a loss. */
static int each(struct reading *reading, const char *sql, row_function row)
{
    sqlite3_stmt *st = query(reading, sql);
    int status = SQLITE_DONE, rc = 0;
    bool damaged;
    while (st && !rc && (status = sqlite3_step(st)) == SQLITE_ROW)
        rc = row(reading, st);
    sqlite3_finalize(st);
    rc = end_of(reading, status, rc, &damaged);
    return rc || !damaged ? rc : lose(reading, "table is damaged: the rest of it was not read", 1);
}

/* Runs a query of records for the one with this id. *status: what it ended with, if that is no
 * error. *scans: an id was not looked up but searched for in a whole table, which would take a time
 * that grows with the square of the file. */
static int one_record(struct reading *reading, sqlite3_stmt *st, int64_t id, row_function row,
                      int *status, bool *scans)
{
    int rc = 0;
    bool damaged;
    sqlite3_reset(st);
    sqlite3_bind_int64(st, 1, id);
    while (!rc && (*status = sqlite3_step(st)) == SQLITE_ROW)
        rc = row(reading, st);
    *scans = sqlite3_stmt_status(st, SQLITE_STMTSTATUS_FULLSCAN_STEP, 1) > 0 ||
             sqlite3_stmt_status(st, SQLITE_STMTSTATUS_AUTOINDEX, 1) > 0;
    return end_of(reading, *status, rc, &damaged);
}

/* Goes on behind a record that cannot be read, one after the other, from the one after `last` on:
 * as far as their table itself can be read. Those of which a part (its name, its time) is missing
 * are counted, and those whose text is beyond the limit. */
static int each_left(struct reading *reading, const char *sql, const char *table, int64_t last,
                     row_function row)
{
    char text[1600];
    int64_t lost = 0, too_long = 0;
    int status = SQLITE_DONE, ended, rc = 0;
    bool scans = false, damaged = true;
    snprintf(text, sizeof text, "%s WHERE R.rowid = ?", sql);
    sqlite3_stmt *one = query(reading, text);
    snprintf(text, sizeof text, "SELECT rowid FROM \"%s\" WHERE rowid > ? ORDER BY rowid", table);
    sqlite3_stmt *ids = query(reading, text);
    if (ids)
        sqlite3_bind_int64(ids, 1, last);
    while (one && ids && !rc && !scans && (status = sqlite3_step(ids)) == SQLITE_ROW) {
        rc = one_record(reading, one, sqlite3_column_int64(ids, 0), row, &ended, &scans);
        too_long += !rc && ended == SQLITE_TOOBIG;
        lost += !rc && ended != SQLITE_TOOBIG && ended != SQLITE_DONE;
    }
    sqlite3_finalize(one);
    sqlite3_finalize(ids);
    if (!rc && !scans && one && ids)
        rc = end_of(reading, status, rc, &damaged);
    if (!rc)
        rc = lost ? lose(reading, "record of which a part is damaged or missing", lost) : 0;
    if (!rc && too_long)
        rc = imp_loss(reading->rocm.rows.run, "record with a text beyond 256 KiB: not read",
                      too_long);
    if (!rc && damaged)
        rc = lose(reading, "table is damaged: the rest of it was not read", 1);
    return rc;
}

/* Calls `row` for each record of a query, whose last column is its id in `table`: in the order of
 * these, so that those behind a record that cannot be read are known. */
static int each_record(struct reading *reading, const char *sql, const char *table,
                       row_function row)
{
    char text[1600];
    int64_t last = INT64_MIN;
    int status = SQLITE_DONE, rc = 0;
    bool damaged;
    snprintf(text, sizeof text, "%s ORDER BY R.rowid", sql);
    sqlite3_stmt *st = query(reading, text);
    while (st && !rc && (status = sqlite3_step(st)) == SQLITE_ROW) {
        last = sqlite3_column_int64(st, sqlite3_column_count(st) - 1);
        rc = row(reading, st);
    }
    sqlite3_finalize(st);
    rc = end_of(reading, status, rc, &damaged);
    return rc || !damaged ? rc : each_left(reading, sql, table, last, row);
}

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static int agent(struct reading *reading, sqlite3_stmt *st)
{
    char name[128];
    snprintf(name, sizeof name, "%s", *text(st, 3) ? text(st, 3) : text(st, 4));
    return rocm_agent_add(&reading->rocm, integer(st, 0), !strcmp(text(st, 1), "GPU"),
                          integer(st, 2), name, 0);
}

static int kernel_name(struct reading *reading, sqlite3_stmt *st)
{
    const char *name = *text(st, 1) ? text(st, 1) : text(st, 2);
    return rocm_kernel_add(&reading->rocm, integer(st, 0), name, strlen(name));
}

/* ---- records ---------------------------------------------------------------------------------------------------------------- */

static int kernel(struct reading *reading, sqlite3_stmt *st)
{
    struct rocm_work work = {.start = integer(st, 0),
                             .end = integer(st, 1),
                             .agent = integer(st, 2),
                             .queue = integer(st, 3),
                             .kernel = integer(st, 4),
                             .correlation = integer(st, 5),
                             .shared_memory = integer(st, 6),
                             .bytes = -1};
    for (int i = 0; i < 3; i++) {
        work.group[i] = integer(st, 7 + i);
        work.grid[i] = integer(st, 10 + i);
    }
    return rocm_work_put(&reading->rocm, &work);
}

static int copy(struct reading *reading, sqlite3_stmt *st)
{
    char way[64];
    struct rocm_work work = {.start = integer(st, 0),
                             .end = integer(st, 1),
                             .agent = integer(st, 2),
                             .kernel = STORE_ABSENT,
                             .correlation = integer(st, 5),
                             .shared_memory = -1,
                             .bytes = integer(st, 6),
                             .way = way};
    const int64_t *target = imp_map_find(&reading->rocm.agents, work.agent, 0);
    if (!target || reading->rocm.agent[*target].gpu == STORE_ABSENT)
        work.agent = integer(st, 3);
    snprintf(way, sizeof way, "%s", text(st, 4));
    return rocm_work_put(&reading->rocm, &work);
}

/* The text of a ROCTX range is {"message": ...} in the data beside its event. */
static struct ij_text message_of(const char *extdata)
{
    struct ij json = ij_of(extdata, strlen(extdata));
    for (bool more = ij_enter(&json); more; more = ij_more(&json)) {
        if (ij_is(ij_key(&json), "message"))
            return ij_text_of(&json);
        ij_skip(&json);
    }
    return (struct ij_text){"", 0};
}

static int region(struct reading *reading, sqlite3_stmt *st)
{
    const char *kind = text(st, 3), *name = text(st, 4);
    struct ij_text message = {"", 0};
    if (!strncmp(kind, "MARKER", 6))
        message = message_of(text(st, 6));
    if (!message.bytes)
        message = (struct ij_text){name, strlen(name)};
    return rocm_call_put(&reading->rocm, kind, message.text, message.bytes, integer(st, 2),
                         integer(st, 0), integer(st, 1), integer(st, 5));
}

/* The queries of both layouts: what is selected is the same. */
static const struct {
    const char *table, *old, *new;
    row_function row;
} records[] = {
    {"rocpd_region$",
     "SELECT R.start, R.\"end\", T.tid, C.string, N.string, E.stack_id, E.extdata, R.rowid"
     " FROM \"rocpd_region$\" R LEFT JOIN \"rocpd_event$\" E ON E.id = R.event_id"
     " LEFT JOIN \"rocpd_string$\" C ON C.id = E.category_id"
     " LEFT JOIN \"rocpd_string$\" N ON N.id = R.name_id"
     " LEFT JOIN \"rocpd_info_thread$\" T ON T.id = R.tid",
     "SELECT A.value, Z.value, T.tid, C.string, N.string, E.stack_id, E.extdata, R.rowid"
     " FROM \"rocpd_region$\" R LEFT JOIN \"rocpd_event$\" E ON E.id = R.event_id"
     " LEFT JOIN \"rocpd_string$\" C ON C.id = E.category_id"
     " LEFT JOIN \"rocpd_string$\" N ON N.id = R.name_id"
     " LEFT JOIN \"rocpd_track$\" K ON K.id = R.track_id"
     " LEFT JOIN \"rocpd_info_thread$\" T ON T.id = K.tid"
     " LEFT JOIN \"rocpd_timestamp$\" A ON A.id = R.start_id"
     " LEFT JOIN \"rocpd_timestamp$\" Z ON Z.id = R.end_id",
     region},
    {"rocpd_kernel_dispatch$",
     "SELECT R.start, R.\"end\", R.agent_id, R.queue_id, R.kernel_id, E.stack_id,"
     " R.group_segment_size, R.workgroup_size_x, R.workgroup_size_y, R.workgroup_size_z,"
     " R.grid_size_x, R.grid_size_y, R.grid_size_z, R.rowid"
     " FROM \"rocpd_kernel_dispatch$\" R LEFT JOIN \"rocpd_event$\" E ON E.id = R.event_id",
     "SELECT A.value, Z.value, K.agent_id, K.queue_id, R.kernel_id, E.stack_id,"
     " R.group_segment_size, R.workgroup_size_x, R.workgroup_size_y, R.workgroup_size_z,"
     " R.grid_size_x, R.grid_size_y, R.grid_size_z, R.rowid"
     " FROM \"rocpd_kernel_dispatch$\" R LEFT JOIN \"rocpd_event$\" E ON E.id = R.event_id"
     " LEFT JOIN \"rocpd_track$\" K ON K.id = R.track_id"
     " LEFT JOIN \"rocpd_timestamp$\" A ON A.id = R.start_id"
     " LEFT JOIN \"rocpd_timestamp$\" Z ON Z.id = R.end_id",
     kernel},
    {"rocpd_memory_copy$",
     "SELECT R.start, R.\"end\", R.dst_agent_id, R.src_agent_id, N.string, E.stack_id, R.size,"
     " R.rowid"
     " FROM \"rocpd_memory_copy$\" R LEFT JOIN \"rocpd_event$\" E ON E.id = R.event_id"
     " LEFT JOIN \"rocpd_string$\" N ON N.id = R.name_id",
     "SELECT A.value, Z.value, R.dst_agent_id, R.src_agent_id, N.string, E.stack_id, R.size,"
     " R.rowid"
     " FROM \"rocpd_memory_copy$\" R LEFT JOIN \"rocpd_event$\" E ON E.id = R.event_id"
     " LEFT JOIN \"rocpd_string$\" N ON N.id = R.name_id"
     " LEFT JOIN \"rocpd_timestamp$\" A ON A.id = R.start_id"
     " LEFT JOIN \"rocpd_timestamp$\" Z ON Z.id = R.end_id",
     copy},
};

/* ---- processes -------------------------------------------------------------------------------------------------------------- */

/* Reads the tables of one process. */
static int read_process(struct imp_run *run, struct imp_database *database, const char *suffix)
{
    struct reading reading = {.database = database};
    char host[128] = "";
    int64_t pid = STORE_ABSENT;
    snprintf(reading.suffix, sizeof reading.suffix, "%s", suffix);
    sqlite3_stmt *st = query(&reading, "SELECT P.pid, N.hostname FROM \"rocpd_info_process$\" P"
                                       " LEFT JOIN \"rocpd_info_node$\" N ON N.id = P.nid LIMIT 1");
    if (st && sqlite3_step(st) == SQLITE_ROW) {
        pid = integer(st, 0);
        snprintf(host, sizeof host, "%s", text(st, 1));
    }
    sqlite3_finalize(st);
    st = query(&reading, "SELECT start_id FROM \"rocpd_kernel_dispatch$\" LIMIT 1");
    reading.tracks = st != NULL;
    sqlite3_finalize(st);
    int rc =
        imp_rows_begin(&reading.rocm.rows, run, STORE_ABSENT, pid, host[0] ? host : NULL, NULL);
    if (!rc)
        rc = each(&reading,
                  "SELECT id, type, type_index, product_name, name FROM \"rocpd_info_agent$\"",
                  agent);
    if (!rc)
        rc = each_record(&reading,
                         "SELECT R.id, R.display_name, R.kernel_name, R.rowid FROM "
                         "\"rocpd_info_kernel_symbol$\" R",
                         "rocpd_info_kernel_symbol$", kernel_name);
    for (size_t i = 0; i < sizeof records / sizeof *records && !rc; i++)
        rc = each_record(&reading, reading.tracks ? records[i].new : records[i].old,
                         records[i].table, records[i].row);
    return rocm_end(&reading.rocm, rc);
}

/* Reads all processes: each has a table of metadata whose name ends in its suffix. */
static int read_processes(struct imp_run *run, struct imp_database *database, size_t *processes)
{
    static const char prefix[] = "rocpd_kernel_dispatch";
    sqlite3_stmt *st = NULL;
    int rc = 0;
    sqlite3_prepare_v2(database->db,
                       "SELECT name FROM sqlite_master WHERE type='table' AND name GLOB "
                       "'rocpd_kernel_dispatch*' ORDER BY name",
                       -1, &st, NULL);
    *processes = 0;
    while (st && !rc && *processes < PROCESSES_MOST && sqlite3_step(st) == SQLITE_ROW) {
        const char *suffix = text(st, 0) + sizeof prefix - 1;
        if (strlen(text(st, 0)) < sizeof prefix - 1 || strlen(suffix) >= SUFFIX_MOST)
            continue;
        ++*processes;
        rc = read_process(run, database, suffix);
    }
    sqlite3_finalize(st);
    return rc;
}

/* ---- rocmProfileData -------------------------------------------------------------------------- */

#define FILL_KERNEL (-2) /* id of fills among kernels */

static int rpd_gpu(struct reading *reading, sqlite3_stmt *st)
{
    return rocm_agent_add(&reading->rocm, integer(st, 0), true, integer(st, 0), "", 0);
}

/* An operation of a GPU: a copy, named by its type, or a kernel, named by its description: those of
 * HIP graphs have another type ("Task") than others. Fills have no description. */
static int rpd_operation(struct reading *reading, sqlite3_stmt *st)
{
    static const char *const ways[][2] = {{"HostToDevice", "HOST_TO_DEVICE"},
                                          {"DeviceToHost", "DEVICE_TO_HOST"},
                                          {"DeviceToDevice", "DEVICE_TO_DEVICE"}};
    const char *type = text(st, 6), *name = text(st, 7);
    struct rocm_work work = {.start = integer(st, 0),
                             .end = integer(st, 1),
                             .agent = integer(st, 2),
                             .queue = integer(st, 3),
                             .kernel = integer(st, 4),
                             .correlation = integer(st, 5),
                             .shared_memory = -1,
                             .bytes = integer(st, 8)};
    bool fill = !strcmp(type, "FillBuffer"), kernel = fill || !strcmp(type, "KernelExecution");
    int rc = 0;
    if (fill && !*name) {
        name = type;
        work.kernel = FILL_KERNEL;
    }
    if (!strncmp(type, "Copy", 4)) {
        work.way = "unknown";
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            if (strstr(type, ways[i][0]))
                work.way = ways[i][1];
    } else if (work.agent < 0 || (!kernel && (!*name || !strcmp(type, "Barrier")))) {
        reading->rocm.others++; /* barriers, marks */
        return 0;
    } else if (*name && !imp_map_find(&reading->rocm.kernels, work.kernel, 0)) {
        rc = rocm_kernel_add(&reading->rocm, work.kernel, name, strlen(name));
    }
    return rc ? rc : rocm_work_put(&reading->rocm, &work);
}

/* A call, or a range whose text is the argument of a call UserMarker. */
static int rpd_call(struct reading *reading, sqlite3_stmt *st)
{
    const char *name = text(st, 3), *kind = "HIP_RUNTIME_API";
    if (!strcmp(name, "UserMarker")) {
        kind = "MARKER_CORE_RANGE_API";
        name = text(st, 4);
    } else if (!strncmp(name, "hsa_", 4)) {
        kind = "HSA_CORE_API";
    }
    return rocm_call_put(&reading->rocm, kind, name, strlen(name), integer(st, 2), integer(st, 0),
                         integer(st, 1), integer(st, 5));
}

/* Reads a database of rocmProfileData. *found false: it is none. */
static int read_rpd(struct imp_run *run, struct imp_database *database, bool *found)
{
    static const char gpus[] = "SELECT DISTINCT gpuId FROM rocpd_op WHERE gpuId >= 0";
    static const struct {
        const char *table, *sql;
        row_function row;
    } tables[] = {
        {"rocpd_api",
         "SELECT R.start, R.\"end\", R.tid, N.string, G.string, R.id, R.rowid FROM rocpd_api R"
         " LEFT JOIN rocpd_string N ON N.id = R.apiName_id"
         " LEFT JOIN rocpd_string G ON G.id = R.args_id",
         rpd_call},
        {"rocpd_op",
         "SELECT R.start, R.\"end\", R.gpuId, R.queueId, R.description_id, L.api_id, T.string,"
         " D.string, NULL, R.rowid FROM rocpd_op R LEFT JOIN rocpd_api_ops L ON L.op_id = R.id"
         " LEFT JOIN rocpd_string T ON T.id = R.opType_id"
         " LEFT JOIN rocpd_string D ON D.id = R.description_id",
         rpd_operation},
        {"rocpd_op",
         "SELECT R.start, R.\"end\", R.gpuId, R.queueId, R.description_id, L.api_id, T.string,"
         " D.string, C.size, R.rowid FROM rocpd_op R LEFT JOIN rocpd_api_ops L ON L.op_id = R.id"
         " LEFT JOIN rocpd_string T ON T.id = R.opType_id"
         " LEFT JOIN rocpd_string D ON D.id = R.description_id"
         " LEFT JOIN rocpd_copyapi C ON C.api_ptr_id = L.api_id",
         rpd_operation}};
    struct reading reading = {.database = database};
    int64_t pid = STORE_ABSENT;
    sqlite3_stmt *st = query(&reading, "SELECT start FROM rocpd_op LIMIT 1");
    *found = st != NULL;
    sqlite3_finalize(st);
    if (!*found)
        return 0;
    st = query(&reading, "SELECT pid FROM rocpd_api LIMIT 1");
    if (st && sqlite3_step(st) == SQLITE_ROW)
        pid = integer(st, 0);
    sqlite3_finalize(st);
    int rc = imp_rows_begin(&reading.rocm.rows, run, STORE_ABSENT, pid, NULL, NULL);
    if (!rc)
        rc = each(&reading, gpus, rpd_gpu);
    st = query(&reading, "SELECT size, api_ptr_id FROM rocpd_copyapi LIMIT 1");
    size_t operations = st ? 2 : 1; /* with the sizes of copies, or without */
    sqlite3_finalize(st);
    if (!rc)
        rc = each_record(&reading, tables[0].sql, tables[0].table, tables[0].row);
    if (!rc)
        rc = each_record(&reading, tables[operations].sql, tables[operations].table,
                         tables[operations].row);
    return rocm_end(&reading.rocm, rc);
}

/* ---- the importer ------------------------------------------------------------------------------ */

/* Reads one database; this is the `read` of the importer. */
static int read_database(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct imp_database database;
    int64_t slices = run->slices;
    size_t processes = 0;
    bool other = false;
    int rc = imp_database_open(&database, run, path, AGAIN, err);
    bool open = !rc;
    if (open)
        sqlite3_limit(database.db, SQLITE_LIMIT_LENGTH, TEXT_MOST);
    if (!rc)
        rc = store_begin(run->db);
    if (!rc)
        rc = read_processes(run, &database, &processes);
    if (!rc && !processes)
        rc = read_rpd(run, &database, &other);
    if (!rc)
        rc = imp_database_losses(&database);
    if (!rc)
        rc = store_run_set(run->db, "source.tool", other ? "rocmProfileData" : "rocprofv3 (rocpd)");
    if (!rc)
        rc = store_commit(run->db);
    if (!rc && !processes && !other)
        rc = tacho_fail(err, TACHO_EFORMAT, AGAIN,
                        "%s: an SQLite database of ROCm without the tables of rocpd", path);
    else if (!rc && run->slices == slices && database.missing)
        rc =
            tacho_fail(err, TACHO_EFORMAT, "copy it again, or " AGAIN,
                       "%s: a rocpd database that is cut off: no kernel, copy, call or range is in "
                       "the %" PRId64 " of its %" PRId64 " pages that are there",
                       path, database.pages - database.missing, database.pages);
    else if (!rc && run->slices == slices)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "record kernels and calls: rocprofv3 --runtime-trace -- CMD",
                        "%s: a rocpd database without a kernel, copy, call or range", path);
    if (rc == TACHO_EINTERRUPTED && open)
        tacho_fail(err, rc, NULL, "%s: %s", path, tacho_error_text(rc));
    imp_database_close(&database);
    return rc;
}

const struct importer imp_rocpd = {
    .source = "rocpd", .recognises = recognises, .read = read_database};
