/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of rocpd databases, the default output of rocprofv3. All tables of one process end
 * in the same suffix (its uuid). Two layouts exist: in the older one a record has its times and
 * threads in columns, since version 4 of the schema it refers to rocpd_track and rocpd_timestamp.
 * The databases of rocmProfileData (.rpd), from which these come, have other tables (rpd.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/json.h"
#include "store/import/rocm/rocm_import.h"
#include "store/import/rocm/rocpd_private.h"

#define TEXT_MOST (256 << 10) /* bytes of a name, which any number of records may have */
#define AGAIN     "record it again: rocprofv3 --output-format rocpd -- CMD"

static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes >= 16 && !memcmp(head, "SQLite format 3", 16) &&
           memmem(head, bytes, "rocpd_", 6) != NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static int agent(struct rocpd *reading, sqlite3_stmt *st)
{
    char name[128];
    snprintf(name, sizeof name, "%s", *rocpd_text(st, 3) ? rocpd_text(st, 3) : rocpd_text(st, 4));
    return rocm_agent_add(reading->rocm, rocpd_integer(st, 0), !strcmp(rocpd_text(st, 1), "GPU"),
                          rocpd_integer(st, 2), name, 0);
}

static int kernel_name(struct rocpd *reading, sqlite3_stmt *st)
{
    const char *name = *rocpd_text(st, 1) ? rocpd_text(st, 1) : rocpd_text(st, 2);
    return rocm_kernel_add(reading->rocm, rocpd_integer(st, 0), name, strlen(name));
}

/* ---- records ---------------------------------------------------------------------------------------------------------------- */

static int kernel(struct rocpd *reading, sqlite3_stmt *st)
{
    struct rocm_work work = {.start = rocpd_integer(st, 0),
                             .end = rocpd_integer(st, 1),
                             .agent = rocpd_integer(st, 2),
                             .queue = rocpd_integer(st, 3),
                             .kernel = rocpd_integer(st, 4),
                             .correlation = rocpd_integer(st, 5),
                             .shared_memory = rocpd_integer(st, 6),
                             .bytes = -1};
    for (int i = 0; i < 3; i++) {
        work.group[i] = rocpd_integer(st, 7 + i);
        work.grid[i] = rocpd_integer(st, 10 + i);
    }
    return rocm_work_put(reading->rocm, &work);
}

static int copy(struct rocpd *reading, sqlite3_stmt *st)
{
    char way[64];
    struct rocm_work work = {.start = rocpd_integer(st, 0),
                             .end = rocpd_integer(st, 1),
                             .agent = rocpd_integer(st, 2),
                             .kernel = STORE_ABSENT,
                             .correlation = rocpd_integer(st, 5),
                             .shared_memory = -1,
                             .bytes = rocpd_integer(st, 6),
                             .way = way};
    const int64_t *target = imp_map_find(&reading->rocm->agents, work.agent, 0);
    if (!target || reading->rocm->agent[*target].gpu == STORE_ABSENT)
        work.agent = rocpd_integer(st, 3);
    snprintf(way, sizeof way, "%s", rocpd_text(st, 4));
    return rocm_work_put(reading->rocm, &work);
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

static int region(struct rocpd *reading, sqlite3_stmt *st)
{
    const char *kind = rocpd_text(st, 3), *name = rocpd_text(st, 4);
    struct ij_text message = {"", 0};
    if (!strncmp(kind, "MARKER", 6))
        message = rocm_plain(reading->rocm, message_of(rocpd_text(st, 6)));
    if (!message.bytes)
        message = (struct ij_text){name, strlen(name)};
    return rocm_call_put(reading->rocm, kind, message.text, message.bytes, rocpd_integer(st, 2),
                         rocpd_integer(st, 0), rocpd_integer(st, 1), rocpd_integer(st, 5));
}

/* The queries of both layouts: what is selected is the same. */
static const struct {
    const char *table, *old, *new;
    rocpd_row row;
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
    struct rocm rocm = {.gpus = 0};
    struct rocpd reading = {.rocm = &rocm, .run = run, .database = database};
    char host[128] = "";
    int64_t pid = STORE_ABSENT;
    snprintf(reading.suffix, sizeof reading.suffix, "%s", suffix);
    sqlite3_stmt *st =
        rocpd_query(&reading, "SELECT P.pid, N.hostname FROM \"rocpd_info_process$\" P"
                              " LEFT JOIN \"rocpd_info_node$\" N ON N.id = P.nid LIMIT 1");
    if (st && sqlite3_step(st) == SQLITE_ROW) {
        pid = rocpd_integer(st, 0);
        snprintf(host, sizeof host, "%s", rocpd_text(st, 1));
    }
    sqlite3_finalize(st);
    st = rocpd_query(&reading, "SELECT start_id FROM \"rocpd_kernel_dispatch$\" LIMIT 1");
    reading.tracks = st != NULL;
    sqlite3_finalize(st);
    int rc = imp_rows_begin(&rocm.rows, run, STORE_ABSENT, pid, host[0] ? host : NULL, NULL);
    if (!rc)
        rc = rocpd_each(
            &reading, "SELECT id, type, type_index, product_name, name FROM \"rocpd_info_agent$\"",
            agent);
    if (!rc)
        rc = rocpd_each_record(&reading,
                               "SELECT R.id, R.display_name, R.kernel_name, R.rowid FROM "
                               "\"rocpd_info_kernel_symbol$\" R",
                               "rocpd_info_kernel_symbol$", kernel_name);
    for (size_t i = 0; i < sizeof records / sizeof *records && !rc; i++)
        rc = rocpd_each_record(&reading, reading.tracks ? records[i].new : records[i].old,
                               records[i].table, records[i].row);
    return rocm_end(&rocm, rc);
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
    while (st && !rc && *processes < ROCPD_PROCESSES_MOST && sqlite3_step(st) == SQLITE_ROW) {
        const char *suffix = rocpd_text(st, 0) + sizeof prefix - 1;
        if (strlen(rocpd_text(st, 0)) < sizeof prefix - 1 || strlen(suffix) >= ROCPD_SUFFIX_MOST)
            continue;
        ++*processes;
        rc = read_process(run, database, suffix);
    }
    sqlite3_finalize(st);
    return rc;
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
        rc = rpd_read(run, &database, &other);
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
