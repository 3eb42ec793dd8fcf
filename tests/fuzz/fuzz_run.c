/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's file with any value in any row: SQLite finds it sound, so the readers, the analyzers, the
 * reports and the exports have to. What must hold: each ends, with words where it is an error, and
 * the budget of a step adds up.
 *
 * The input: a byte of switches, a byte that chooses edits for --what-if, then actions. An action:
 * a byte that chooses a table and whether a row is added or one of the sound run below is changed;
 * values follow.
 */
#include <string.h>

#include "analyzers/analyzers.h"
#include "fuzz_rows.h"
#include "reports/report.h"
#include "store/export/export.h"
#include "store/store.h"

/* Two ranks of five steps with work, collectives, a loader, device work and counters. Strings have
 * the ids of their words. */
static const char sound[] =
    "INSERT INTO process SELECT value+1, value, 'host', 100+value, 1, 'train', 'gpu:'||value, 0, "
    "60000, 0, 'exit' FROM n LIMIT "
    "2;"
    "INSERT INTO track SELECT p*4+k, p+1, kind, name, CASE kind WHEN 'stream' THEN 'gpu:'||p END, "
    "100+p, unit FROM (SELECT "
    "value AS p "
    "FROM n LIMIT 2), (SELECT 1 AS k, 'thread' AS kind, 'main' AS name, NULL AS unit UNION ALL "
    "SELECT 2, 'stream', 'stream 7', "
    "NULL "
    "UNION ALL SELECT 3, 'loader', 'worker 0', NULL UNION ALL SELECT 4, 'counter', 'queue_depth', "
    "'items');"
    "INSERT INTO detail(id, schema, flops, bytes_read, bytes_written, dtype, pass, kind, "
    "model_flops, palm_flops) VALUES "
    "(1, 'tacho.step', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
    "(2, 'tacho.work', 4000000, 10000, 5000, 'fp32', 'forward', 'matrix', 4000000, 4000000), "
    "(3, 'tacho.work', 8000000, 10000, 5000, 'fp32', 'backward', 'matrix', 8000000, 8000000), "
    "(4, 'tacho.range', NULL, NULL, NULL, NULL, NULL, 'input_wait', NULL, NULL), "
    "(5, 'tacho.range', NULL, NULL, NULL, NULL, NULL, 'read', NULL, NULL);"
    "INSERT INTO detail(id, schema, bytes, communicator, ranks, collective, dtype) VALUES (6, "
    "'tacho.comm', 4096, 7, 2, "
    "'all_reduce', 'fp32');"
    "INSERT INTO detail(id, grid, block) VALUES (7, '8,1,1', '128,1,1');"
    "INSERT INTO detail(id, schema, payload) VALUES (8, 'tacho.operands', "
    "'{\"number\":1,\"operands\":\"r1000+800 w2000+400\"}'), (9, 'tacho.operands', "
    "'{\"number\":2,\"operands\":\"u2000+200 r1f00+180 wffffffffffffff00+80\"}');"
    "INSERT INTO step SELECT p, i, i*10000, i*10000+9500, 512, 4, 0 FROM (SELECT value+1 AS p FROM "
    "n LIMIT 2), (SELECT value "
    "AS i FROM n LIMIT 5);"
    "INSERT INTO slice(track, start, dur, name, category, detail, correlation) SELECT p*4+k, "
    "i*10000+at, dur, name, cat, "
    "detail, "
    "CASE WHEN seq THEN i END FROM (SELECT value AS p FROM n LIMIT 2), (SELECT value AS i FROM n "
    "LIMIT 5), "
    "(SELECT 1 AS k, 0 AS at, 9500 AS dur, 1 AS name, 2 AS cat, 1 AS detail, 0 AS seq UNION ALL "
    "SELECT 1, 100, 900, 3, 2, 4, 0 UNION ALL SELECT 1, 1000, 2000, 4, 2, 2, 1 UNION ALL SELECT 1, "
    "3100, 4000, 5, 2, 3, 1 "
    "UNION ALL "
    "SELECT 1, 7200, 1500, 6, 2, 6, 1 UNION ALL SELECT 2, 1500, 1800, 7, 8, 7, 1 UNION ALL SELECT "
    "2, 4000, 3500, 7, 8, 7, 1 "
    "UNION ALL "
    "SELECT 3, 200, 700, 9, 2, 5, 0);"
    "INSERT INTO counter(track, time, value) SELECT p*4+4, i*500, i%3 FROM (SELECT value AS p FROM "
    "n LIMIT 2), (SELECT value "
    "AS i FROM n LIMIT 20);"
    "INSERT INTO edge SELECT id, id+1, 'launch' FROM slice WHERE id < 20;"
    "INSERT INTO stack SELECT value+1, NULLIF(value,0), 4+value%3 FROM n LIMIT 6;"
    "INSERT INTO sample(track, time, value) SELECT 1, value*900, value%6+1 FROM n LIMIT 30;"
    "INSERT INTO ceiling VALUES ('cpu', 'flops', 'fp32', 1e12, 'measured'), ('cpu', 'dram', NULL, "
    "1e10, 'measured'), "
    "('gpu:0', 'flops', 'fp32', 1e13, 'datasheet');"
    "INSERT INTO step_aggregate SELECT p, i, (p-1)*4+1, 4, 2, 2, 1, 2000, 2000, 1 FROM (SELECT "
    "value+1 AS p FROM n LIMIT 2), "
    "(SELECT value AS i FROM n LIMIT 5);"
    "INSERT INTO loss VALUES ('agent', 'event dropped', 3, 100, 200);"
    "INSERT INTO metric VALUES ('target.max_rss', 1e6, 'bytes', NULL);"
    "INSERT INTO clock_anchor VALUES (1, 0, 1700000000000000000), (100000, 60000, "
    "1700000000000060000);";

static const char *const words[] = {"step",
                                    "tacho",
                                    "input_wait",
                                    "matmul",
                                    "backward",
                                    "all_reduce",
                                    "gemm_kernel",
                                    "kernel",
                                    "read",
                                    "thread",
                                    "stream",
                                    "comm",
                                    "loader",
                                    "counter",
                                    "range",
                                    "tacho.step",
                                    "tacho.work",
                                    "tacho.range",
                                    "tacho.comm",
                                    "tacho.counted",
                                    "matrix",
                                    "attention",
                                    "checkpoint",
                                    "evaluation",
                                    "compile",
                                    "queue_wait",
                                    "collate",
                                    "decode",
                                    "pin",
                                    "fp32",
                                    "bf16",
                                    "queue_depth",
                                    "rss",
                                    "cpu_time",
                                    "ns",
                                    "bytes",
                                    "memcpy",
                                    "memset",
                                    "sync",
                                    "overhead",
                                    "Memcpy HtoD (Pageable -> Device)",
                                    "cudaLaunchKernel",
                                    "cudaStreamSynchronize",
                                    "cudaDeviceSynchronize",
                                    "runtime",
                                    "driver",
                                    "cpu_op",
                                    "python_function",
                                    "aten::mm",
                                    "aten::copy_",
                                    "ProfilerStep#3",
                                    "ProfilerStep#99999999999999999999",
                                    "Optimizer.step#SGD.step",
                                    "nccl:all_reduce",
                                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                                    "gloo:all_reduce",
                                    "record_param_comms",
                                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                    "nn.Module: Linear_0",
                                    "torch/utils/data/dataloader.py(631): __next__",
                                    "autograd::engine::evaluate_function: MmBackward0",
                                    "send",
                                    "recv",
                                    "send_recv",
                                    "all_to_all",
                                    "gpu:0",
                                    "gpu:1",
                                    "cpu",
                                    "flops",
                                    "dram",
                                    "link",
                                    "mpi_bandwidth",
                                    "kineto",
                                    "nsight",
                                    "source",
                                    "source.base_ns",
                                    "process_groups",
                                    "[{\"pg_name\":\"0\",\"ranks\":[0,1]}]",
                                    "world_size",
                                    "job.ranks",
                                    "merge.files",
                                    "steps.every",
                                    "steps.window",
                                    "stacks",
                                    "stacks.period_ns",
                                    "clock.fit_error_ns",
                                    "memory.limit_bytes",
                                    "command",
                                    "recorded",
                                    "allocated",
                                    "reserved",
                                    "%",
                                    "",
                                    "\x1b[31m",
                                    "\xff\xfe",
                                    "1e308",
                                    "-9223372036854775808",
                                    "2147483648,65535,65535",
                                    "a/b~c",
                                    "exit",
                                    "signal 9 (KILL)",
                                    "gc",
                                    "HtoD",
                                    "DtoD",
                                    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                                    "Event Sync",
                                    "Stream Wait Event",
                                    "nothing"};

static const char *const edits[] = {NULL,
                                    "comm=0",
                                    "loader=0,op:matmul=0.5x",
                                    "loader.workers=4",
                                    "loader.read=0.5x,cores=8",
                                    "launch=graph,sync=0",
                                    "kernel:gemm_kernel=0.5x",
                                    "link=2x",
                                    "ranks=even",
                                    "rank:1=peers,rank:0:backward=0.5x"};

static void bind(sqlite3_stmt *st, int column, struct fuzz_input *in)
{
    static const int64_t odd[] = {INT64_MIN,    INT64_MIN + 1, INT64_MAX,     INT64_MAX - 1, -1,
                                  4294967295ll, 4294967296ll,  -4294967296ll, INT64_MAX / 2};
    static const double reals[] = {1e308, -1e308, 1e-308, 0.5, -0.0, 9.3e18};
    switch (fuzz_take(in, 1) % 12) {
    case 0:
        break; /* NULL */
    case 1:
        sqlite3_bind_int64(st, column, (int64_t)fuzz_take(in, 8));
        break;
    case 2:
        sqlite3_bind_int64(st, column, odd[fuzz_take(in, 1) % (sizeof odd / sizeof *odd)]);
        break;
    case 3:
        sqlite3_bind_double(st, column, reals[fuzz_take(in, 1) % (sizeof reals / sizeof *reals)]);
        break;
    case 4:
    case 5:
    case 6:
        sqlite3_bind_text(st, column, words[fuzz_take(in, 1) % (sizeof words / sizeof *words)], -1,
                          SQLITE_STATIC);
        break;
    case 7:
        fuzz_bind_bytes(st, column, in);
        break;
    case 8:
        sqlite3_bind_int64(st, column, (int64_t)fuzz_take(in, 2)); /* a time inside of the run */
        break;
    default:
        sqlite3_bind_int64(st, column, (int64_t)fuzz_take(in, 1) % 12); /* an id */
        break;
    }
}

static void act(sqlite3 *db, const char *table, int choice, struct fuzz_input *in)
{
    char sql[400];
    sqlite3_stmt *all = NULL, *st = NULL;
    snprintf(sql, sizeof sql, "SELECT * FROM %s", table);
    if (sqlite3_prepare_v2(db, sql, -1, &all, NULL) != SQLITE_OK)
        abort();
    int columns = sqlite3_column_count(all), bound = columns;
    if (choice < 128) { /* 1 for the column that is chosen, in a row or in all */
        const char *column = sqlite3_column_name(all, (int)fuzz_take(in, 1) % columns);
        unsigned row = (unsigned)fuzz_take(in, 1);
        size_t at =
            (size_t)snprintf(sql, sizeof sql, "UPDATE OR IGNORE %s SET \"%s\"=?", table, column);
        if (row < 250 && strcmp(table, "run"))
            snprintf(sql + at, sizeof sql - at, " WHERE rowid=%u", row % 100);
        bound = 1;
    } else {
        size_t at = (size_t)snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO %s VALUES(?", table);
        for (int i = 1; i < columns; i++)
            at += (size_t)snprintf(sql + at, sizeof sql - at, ",?");
        snprintf(sql + at, sizeof sql - at, ")");
    }
    sqlite3_finalize(all);
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK) {
        for (int i = 1; i <= bound; i++)
            bind(st, i, in);
        sqlite3_step(st);
    }
    sqlite3_finalize(st);
}

static void must(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s\n", sqlite3_errmsg(db));
        abort();
    }
}

/* The sound run, made once, as bytes. */
static const uint8_t *template(size_t *bytes)
{
    static uint8_t *kept;
    static size_t size;
    if (!kept) {
        char path[64];
        store *s;
        sqlite3 *db;
        sqlite3_int64 n;
        struct tacho_error err = {0};
        snprintf(path, sizeof path, "/dev/shm/tacho-fuzz-%ld.template", (long)getpid());
        unlink(path);
        if (store_create_private(path, &s, &err) || store_finish(s, &err) ||
            sqlite3_open(path, &db) != SQLITE_OK)
            abort();
        must(db, "CREATE TEMP VIEW n AS WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT "
                 "value+1 FROM c LIMIT 100) SELECT "
                 "value FROM c");
        for (size_t i = 0; i < 9; i++) {
            char sql[100];
            snprintf(sql, sizeof sql, "INSERT INTO string VALUES(%zu, '%s')", i + 1, words[i]);
            must(db, sql);
        }
        must(db, sound);
        unsigned char *image = sqlite3_serialize(db, "main", &n, 0);
        kept = image ? malloc((size_t)n) : NULL;
        if (!kept)
            abort();
        memcpy(kept, image, size = (size_t)n);
        sqlite3_free(image);
        sqlite3_close(db);
        unlink(path);
    }
    *bytes = size;
    return kept;
}

static void make(const char *path, struct fuzz_input *in)
{
    static const char *const tables[] = {
        "slice",   "slice",  "slice",  "step",    "detail", "track",
        "process", "string", "run",    "edge",    "stack",  "step_aggregate",
        "ceiling", "loss",   "metric", "counter", "sample", "clock_anchor"};
    size_t bytes;
    const uint8_t *image = template(&bytes);
    sqlite3 *db = NULL;
    FILE *f = fopen(path, "we");
    if (!f || fwrite(image, 1, bytes, f) != bytes || fclose(f) ||
        sqlite3_open(path, &db) != SQLITE_OK)
        abort();
    must(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
    for (int rows = 0; in->n && rows < 300; rows++) {
        int choice = (int)fuzz_take(in, 1);
        act(db, tables[(size_t)choice % (sizeof tables / sizeof *tables)], choice, in);
    }
    must(db, "COMMIT");
    sqlite3_close(db);
}

/* `format`: which report; 0: all of them */
static void analyse(store_reader *reader, unsigned switches, const char *what_if, size_t format,
                    FILE *sink)
{
    struct an_options o = {.file = "x",
                           .path = switches & 1,
                           .samples = switches & 2,
                           .what_if = what_if,
                           .compat = (enum an_compat)(switches >> 2 & 3)};
    struct rep_options ro = {.width = 40 + (int)(switches >> 4 & 1) * 100,
                             .utf8 = true,
                             .color = true,
                             .definitions = true,
                             .ops = 100000};
    struct an_result *r = NULL;
    struct tacho_error err = {0};
    if (switches & 32)
        o.some_steps = true, o.step_from = 1, o.step_to = 3;
    if (switches & 64)
        o.part_slices = 20;
    if (an_analyze(reader, &o, &r, &err)) {
        if (!err.what[0])
            abort();
        return;
    }
    if (!r->budget.reason && r->budget.step_ns < INT64_MAX / 2) { /* beyond, sums saturate */
        int64_t sum = 0;
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            sum += r->budget.ns[k].valid ? r->budget.ns[k].value : 0;
        if (sum != r->budget.step_ns)
            abort();
    }
    for (size_t i = 0; rep_formats[i].name; i++)
        if ((!format || format == i + 1) && rep_write(rep_formats[i].name, r, &ro, sink))
            abort();
    an_result_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *sink;
    struct fuzz_input in = {data, size};
    struct tacho_error err = {0};
    struct store_export_options eo = {.t0 = STORE_ABSENT, .t1 = STORE_ABSENT};
    store_reader *reader = NULL;
    char path[64];
    if (!sink && !(sink = fopen("/dev/null", "we")))
        abort();
    snprintf(path, sizeof path, "/dev/shm/tacho-fuzz-%ld.tacho", (long)getpid());
    unsigned switches = (unsigned)fuzz_take(&in, 1);
    size_t choice = (size_t)fuzz_take(&in, 1);
    const char *what_if = edits[choice % 16 % (sizeof edits / sizeof *edits)];
    make(path, &in);
    if (store_open(path, &reader, &err)) {
        if (!err.what[0])
            abort();
    } else {
        analyse(reader, switches, what_if, choice >> 4, sink);
        for (const struct store_export_format *f = store_export_formats;
             (switches & 128) && f->name; f++)
            if (f->write(reader, &eo, sink, &err) && !err.what[0])
                abort();
        store_reader_close(reader);
    }
    unlink(path);
    return 0;
}
