/* SPDX-License-Identifier: Apache-2.0
 *
 * Sound SQLite databases with the tables of an Nsight export and whatever rows the input spells:
 * any value in any column, columns and tables missing, several versions of a table.
 *
 * The input: a byte of switches, then rows. A row: a byte that chooses the table, then for each
 * column a byte that chooses the kind of value, and its bytes.
 */
#include <string.h>

#include "fuzz_import.h"
#include "fuzz_rows.h"
#include "store/import/nsight/nsight_private.h"

/* Tables beside those of the importer's own lists, with the columns it looks for. */
static const struct nsight_table others[] = {
    {"StringIds", NULL, {"id", "value"}},
    {"PROCESSES", NULL, {"globalPid", "pid", "name"}},
    {"ThreadNames", NULL, {"nameId", "priority", "globalTid"}},
    {"MPI_RANKS", NULL, {"globalPid", "rank"}},
    {"DIAGNOSTIC_EVENT", NULL, {"severity", "timestamp", "text"}},
    {"NVTX_PAYLOAD_SCHEMA_ENTRIES", NULL, {"domainId", "schemaId", "type", "offset", "name"}},
    {"TARGET_INFO_GPU",
     NULL,
     {"id", "name", "smCount", "totalMemory", "computeMajor", "computeMinor", "threadsPerWarp",
      "maxWarpsPerSm", "uuid"}},
    {"TARGET_INFO_CUDA_DEVICE", NULL, {"gpuId", "cudaId", "pid"}},
    {"TARGET_INFO_SESSION_START_TIME", NULL, {"utcEpochNs", "systemClockNs"}},
    {"TARGET_INFO_SYSTEM_ENV", NULL, {"name", "value"}},
    {"META_DATA_EXPORT", NULL, {"name", "value"}},
    {"META_DATA_CAPTURE", NULL, {"name", "value"}},
    {"ANALYSIS_DETAILS", NULL, {"startTime"}},
    {"SCHED_EVENTS", NULL, {"start"}},
    {0},
};
static const struct nsight_table *const lists[] = {others, nsight_device_tables, nsight_host_tables,
                                                   nsight_nvtx_tables, nsight_metric_tables};

static const struct nsight_table *table_at(size_t at)
{
    for (;;)
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            for (const struct nsight_table *t = lists[i]; t->name; t++)
                if (!at--)
                    return t;
}

static void create(sqlite3 *db, const struct nsight_table *t, const char *suffix, size_t without)
{
    char sql[2000];
    size_t at =
        (size_t)snprintf(sql, sizeof sql, "CREATE TABLE IF NOT EXISTS %s%s(", t->name, suffix);
    for (size_t i = 0; i < NSIGHT_COLUMN_MAX && t->columns[i]; i++) {
        const char *name = i == without ? "unrelated" : t->columns[i];
        at += (size_t)snprintf(
            sql + at, sizeof sql - at, "%s\"%.*s\"%s", i ? "," : "", (int)strcspn(name, "|"), name,
            !strcmp(t->name, "StringIds") && !i && without > 64 ? " INTEGER PRIMARY KEY" : "");
    }
    snprintf(sql + at, sizeof sql - at, ")");
    sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void bind(sqlite3_stmt *st, int column, struct fuzz_input *in)
{
    static const char *const words[] = {"aten::mm, seq = 5, op_id = 7, sizes = [[2, 3], [4]]",
                                        "ncclAllReduce",
                                        "Message size [bytes]",
                                        "NCCL communicator ID",
                                        "No. of ranks",
                                        "Rank",
                                        "{\"a\":1}",
                                        "cudaLaunchKernel_v7000",
                                        "events were lost"};
    static const int64_t pids[] = {281477476515840, 281477459738624, 281477476515989, 0, -1};
    static const int64_t types[] = {33, 34, 39, 59, 60, 65, 70, 71, 75, 76};
    switch (fuzz_take(in, 1) % 12) {
    case 0:
        break; /* NULL */
    case 1:
        sqlite3_bind_int64(st, column, (int64_t)fuzz_take(in, 1));
        break;
    case 2:
        sqlite3_bind_int64(st, column, (int32_t)fuzz_take(in, 4));
        break;
    case 3:
        sqlite3_bind_int64(st, column, (int64_t)fuzz_take(in, 8));
        break;
    case 4:
        sqlite3_bind_double(st, column, (double)(int64_t)fuzz_take(in, 8));
        break;
    case 5:
    case 6:
        fuzz_bind_bytes(st, column, in);
        break;
    case 7:
        sqlite3_bind_text(st, column, words[fuzz_take(in, 1) % (sizeof words / sizeof *words)], -1,
                          SQLITE_STATIC);
        break;
    case 8:
        sqlite3_bind_int64(st, column, pids[fuzz_take(in, 1) % (sizeof pids / sizeof *pids)]);
        break;
    case 9:
        sqlite3_bind_int64(st, column, types[fuzz_take(in, 1) % (sizeof types / sizeof *types)]);
        break;
    default:
        sqlite3_bind_int64(st, column, 1000000 + (int64_t)fuzz_take(in, 2));
        break;
    }
}

static void insert(sqlite3 *db, const struct nsight_table *t, const char *suffix,
                   struct fuzz_input *in)
{
    char sql[400];
    sqlite3_stmt *st = NULL;
    int columns = 0;
    while (columns < NSIGHT_COLUMN_MAX && t->columns[columns])
        columns++;
    size_t at =
        (size_t)snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO %s%s VALUES(?", t->name, suffix);
    for (int i = 1; i < columns; i++)
        at += (size_t)snprintf(sql + at, sizeof sql - at, ",?");
    snprintf(sql + at, sizeof sql - at, ")");
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK) {
        for (int i = 1; i <= columns; i++)
            bind(st, i, in);
        sqlite3_step(st);
    }
    sqlite3_finalize(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const suffixes[] = {"", "", "", "_V2"};
    struct fuzz_input in = {data, size};
    char path[64];
    sqlite3 *db = NULL;
    size_t tables = 0, without = fuzz_take(&in, 1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct nsight_table *t = lists[i]; t->name; t++)
            tables++;
    snprintf(path, sizeof path, "/dev/shm/tacho-fuzz-%ld.sqlite", (long)getpid());
    unlink(path);
    if (sqlite3_open(path, &db) != SQLITE_OK)
        abort();
    sqlite3_exec(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN", NULL, NULL, NULL);
    create(db, &others[0], "", without);
    create(db, &others[10], "", 1000);
    for (int rows = 0; in.n && rows < 400; rows++) {
        size_t choice = fuzz_take(&in, 1);
        const struct nsight_table *t = table_at(choice % tables);
        const char *suffix = suffixes[choice / tables % 4];
        create(db, t, suffix, without);
        insert(db, t, suffix, &in);
    }
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    fuzz_import(path);
    unlink(path);
    return 0;
}
