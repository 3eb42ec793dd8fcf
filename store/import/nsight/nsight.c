/* SPDX-License-Identifier: Apache-2.0
 *
 * The Nsight Systems importer: one export, table after table. A compressed export is unpacked into
 * a file without a name first: SQLite reads pages anywhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/import/nsight/nsight_import.h"
#include "store/import/nsight/nsight_private.h"

static const char magic[16] = "SQLite format 3";

/* ---- opening ------------------------------------------------------------------------------------------------------------------------ */

/* Is it an SQLite database? Which one, is decided when it is open. */
static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes >= sizeof magic && !memcmp(head, magic, sizeof magic);
}

/* Opens the export itself, or, if it is compressed, a decompressed copy that has no name. */
static int open_export(struct nsight *nsight, const char *path)
{
    return imp_database_open(&nsight->database, nsight->run, path,
                             "export it again: nsys export --type sqlite FILE.nsys-rep",
                             nsight->err);
}

/* Fails if the database is not an export of Nsight Systems. */
static int check(struct nsight *nsight, const char *path)
{
    char found[NSIGHT_NAME_MAX];
    bool ours = nsight_find(nsight, "META_DATA_EXPORT", found) ||
                nsight_find(nsight, "TARGET_INFO_SYSTEM_ENV", found) ||
                nsight_find(nsight, "NVTX_EVENTS", found) ||
                nsight_find(nsight, "CUPTI_ACTIVITY_KIND_RUNTIME", found) ||
                nsight_find(nsight, "CUPTI_ACTIVITY_KIND_KERNEL", found);
    if (ours && nsight_find(nsight, "StringIds", found))
        return 0;
    return tacho_fail(
        nsight->err, TACHO_EFORMAT,
        "tacho reads .tacho files and Nsight Systems exports (nsys export --type sqlite)",
        "%s: an SQLite database, but neither a run nor an Nsight Systems export", path);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------ */

static const struct nsight_table *const event_tables[] = {nsight_device_tables, nsight_host_tables,
                                                          nsight_nvtx_tables, nsight_metric_tables};
#define TABLE_LISTS (sizeof event_tables / sizeof *event_tables)

/* Is it a table without events, or one of `event_tables` in some version? */
static bool is_read(const char *name)
{
    static const char *const no_events[] = {"DIAGNOSTIC_EVENT", "ANALYSIS_", "TARGET_INFO_",
                                            "META_DATA_", "ENUM_"};
    for (size_t i = 0; i < sizeof no_events / sizeof *no_events; i++)
        if (!strncmp(name, no_events[i], strlen(no_events[i])))
            return true;
    for (size_t i = 0; i < TABLE_LISTS; i++)
        for (const struct nsight_table *table = event_tables[i]; table->name; table++) {
            size_t length = strlen(table->name);
            if (!strncmp(name, table->name, length) && (!name[length] || name[length] == '_'))
                return true;
        }
    return false;
}

/* Writes a run key that lists the tables of events which are not imported. They are no loss of the
 * capture, but a user who looks for them should see why they are missing. */
static int set_unread(struct nsight *nsight)
{
    sqlite3_stmt *st =
        nsight_select(nsight, "SELECT m.name FROM sqlite_master m WHERE m.type='table' AND m.sql "
                              "NOT LIKE 'CREATE VIRTUAL%%' AND EXISTS "
                              "(SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name IN "
                              "('start','timestamp','rawTimestamp')) ORDER BY 1");
    char list[1000] = "", key[64] = "source.not_read";
    size_t used = 0;
    while (nsight_next(st)) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        bool read = !name || strlen(name) >= NSIGHT_NAME_MAX || is_read(name);
        int64_t rows = read ? 0 : nsight_rows_about(nsight, name);
        if (rows > 0 && used < sizeof list - 200)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (%" PRId64 " rows)",
                                     used ? ", " : "", name, rows);
    }
    sqlite3_finalize(st);
    if (nsight->run->file_index)
        snprintf(key, sizeof key, "source.not_read.%" PRId64, nsight->run->file_index);
    return used ? store_run_set(nsight->out, key, list) : 0;
}

/* Reads all tables, with what comes before and after the events. */
static int read_tables(struct nsight *nsight)
{
    double rows = 1;
    char found[NSIGHT_NAME_MAX];
    for (size_t i = 0; i < TABLE_LISTS; i++)
        for (const struct nsight_table *table = event_tables[i]; table->name; table++)
            if (nsight_find(nsight, table->name, found))
                rows += (double)nsight_rows_about(nsight, found);
    nsight->bytes_a_row = (double)nsight->bytes / rows;
    int code = nsight_meta_begin(nsight);
    for (size_t i = 0; !code && i < TABLE_LISTS; i++)
        for (const struct nsight_table *table = event_tables[i]; !code && table->name; table++)
            code = nsight_read(nsight, table);
    if (!code)
        code = nsight_meta_end(nsight);
    if (!code)
        code = set_unread(nsight);
    if (!code)
        code = imp_database_losses(&nsight->database);
    return code ? code : nsight_losses(nsight);
}

/* Frees everything. */
static void release(struct nsight *nsight)
{
    struct imp_map *const maps[] = {&nsight->processes,      &nsight->tracks[0], &nsight->tracks[1],
                                    &nsight->tracks[2],      &nsight->tracks[3], &nsight->contexts,
                                    &nsight->records,        &nsight->devices,   &nsight->domains,
                                    &nsight->categories,     &nsight->joined,    &nsight->calls,
                                    &nsight->record_streams, &nsight->long_text, &nsight->places};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        imp_map_free(maps[i]);
    for (size_t i = 0; i < nsight->process_count; i++)
        free(nsight->process[i].program);
    for (size_t i = 0; i < nsight->label_count; i++)
        free(nsight->label[i]);
    nsight_payload_free(nsight);
    for (size_t i = 0; i < sizeof nsight->texts / sizeof *nsight->texts; i++)
        sqlite3_finalize(nsight->texts[i]);
    for (size_t i = 0; i < nsight->cut_count; i++)
        free(nsight->cut[i]);
    free(nsight->cut);
    imp_database_close(&nsight->database);
    free(nsight->label);
    free(nsight->process);
    free(nsight->host);
    free(nsight->text);
    free(nsight);
}

/* Reads one export into the run; this is the `read` of the importer. */
static int read_export(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct stat st;
    struct nsight *nsight = calloc(1, sizeof *nsight);
    if (!nsight)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: %s", path, tacho_error_text(TACHO_ENOMEM));
    nsight->run = run;
    nsight->out = run->db;
    nsight->err = err;
    nsight->bytes = stat(path, &st) ? 0 : st.st_size;
    int code = open_export(nsight, path);
    if (!code)
        code = check(nsight, path);
    bool begun = !code;
    int64_t events = run->events;
    if (!code)
        code = store_begin(nsight->out);
    if (!code)
        code = read_tables(nsight);
    if (begun && !code)
        code = store_commit(nsight->out);
    if (!code && run->events == events && nsight->database.missing)
        code = tacho_fail(
            err, TACHO_EFORMAT,
            "copy it again, or export it again: nsys export --type sqlite FILE.nsys-rep",
            "%s: an Nsight Systems export that is cut off: no event is in the %" PRId64
            " of its %" PRId64 " pages that are there",
            path, nsight->database.pages - nsight->database.missing, nsight->database.pages);
    else if (!code && run->events == events)
        code = tacho_fail(err, TACHO_EFORMAT,
                          "record a trace with events: nsys profile --trace=cuda,nvtx,osrt CMD",
                          "%s: an Nsight Systems export without events", path);
    if (code == TACHO_EINTERRUPTED || code == TACHO_ENOMEM)
        tacho_fail(err, code, NULL, "%s: %s", path, tacho_error_text(code));
    else if (code && begun && code == store_error(nsight->out)->code)
        *err = *store_error(nsight->out);
    release(nsight);
    return code;
}

const struct importer imp_nsight = {
    .source = "nsight", .recognises = recognises, .read = read_export};
