/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the collector reads pools into a store (docs/budgets.md: at least 1 M slices/s on a
 * core, at most 45 bytes a slice).
 *
 *     drain [MILLIONS [FOLDER]]     millions of slices (2), a folder on disk (the current one)
 *
 * Rows: what, measured, budget, verdict, separated by tabs.
 *
 * A pool is made here as the agent would: 4 threads, steps of 200 ops, three levels deep, 48 bytes
 * of payload on each op, of some hundred different names and payloads. Filling it is not timed. The
 * same number of bare rows goes into SQLite by one prepared statement in the same run: the ratio
 * holds on any machine.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/drain/drain.h"
#include "store/store.h"
#include "tacho_nvtx.h"
#include "tests/unit/made_pool.h"

#define SEGMENTS    1024u
#define THREADS     4u
#define NAMES       32u
#define SHAPES      64u
#define OPS_A_STEP  600u
#define ARENA_BYTES (1u << 20)

struct writer {
    uint64_t chain, time, ops, step;
    unsigned depth;
};

struct bench {
    char folder[4096], pool[4200];
    uint8_t *map;
    size_t bytes;
    struct wire_pool *head;
    uint32_t name[NAMES], work, step, step_name;
    struct tacho_work shape[SHAPES];
    struct writer writer[THREADS];
    uint64_t random;
    int64_t slices;
};

static double clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t draw(struct bench *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

static void make_pool(struct bench *b, const char *folder)
{
    memset(b, 0, sizeof *b);
    b->random = 88172645463325252ull;
    snprintf(b->folder, sizeof b->folder, "%s/bench-drain-XXXXXX", folder);
    if (!mkdtemp(b->folder))
        die(b->folder);
    snprintf(b->pool, sizeof b->pool, "%s/pool.%d.0", b->folder, (int)getpid());
    const struct made_pool_shape shape = {WIRE_HEADER_BYTES +
                                              SEGMENTS * sizeof(struct wire_segment),
                                          ARENA_BYTES, SEGMENTS, WIRE_SEGMENT_BYTES};
    b->bytes = made_pool_bytes(&shape);
    int fd = open(b->pool, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)b->bytes) != 0)
        die(b->pool);
    b->map = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (b->map == MAP_FAILED)
        die("mmap");
    struct wire_pool *h = b->head = (struct wire_pool *)b->map;
    if (made_pool_begin(h, &shape) != 0)
        die("/proc/self/stat");
    atomic_store(&h->segments_peak, SEGMENTS);
    atomic_store(&h->domain_name[1], made_pool_text(b->head, WIRE_TEXT_NAME, "libtrain"));
    b->work = made_pool_text(b->head, WIRE_TEXT_SCHEMA,
                             "tacho.work\t48\nflops\t18\t0\nbytes_read\t18\t8\nbytes_"
                             "written\t18\t16\nmodel_flops\t18\t24\n"
                             "palm_flops\t18\t32\ndtype\t12\t40\npass\t12\t41\nkind\t12\t42\n");
    b->step = made_pool_text(b->head, WIRE_TEXT_SCHEMA,
                             "tacho.step\t24\nindex\t18\t0\ntokens\t18\t8\nsamples\t18\t16\n");
    b->step_name = made_pool_text(b->head, WIRE_TEXT_NAME, "step");
    for (unsigned i = 0; i < NAMES; i++) {
        char text[64];
        snprintf(text, sizeof text, "block%u.attention.matmul.forward", i);
        b->name[i] = made_pool_text(b->head, WIRE_TEXT_NAME, text);
    }
    for (unsigned i = 0; i < SHAPES; i++)
        b->shape[i] = (struct tacho_work){.flops = 1000000 + i * 977,
                                          .bytes_read = 4096 * i,
                                          .bytes_written = 1024 * i,
                                          .model_flops = 1000000,
                                          .palm_flops = 1000000,
                                          .dtype = 1,
                                          .pass = 1,
                                          .kind = 1};
    for (unsigned i = 0; i < THREADS; i++)
        b->writer[i].time = 1000000000;
    h->magic = WIRE_MAGIC;
}

static uint8_t *record(uint8_t *p, struct writer *w, unsigned kind, uint32_t name, uint32_t schema,
                       const void *data, uint32_t bytes)
{
    struct wire_record r = {.time = w->time += 150,
                            .kind = (uint8_t)(kind | (data ? WIRE_PAYLOAD : 0u)),
                            .words = (uint8_t)((sizeof r + (data ? 8 + bytes : 0)) / 8),
                            .domain = 1,
                            .name = name,
                            .depth = (uint8_t)(kind == WIRE_PUSH ? w->depth++ : --w->depth)};
    memcpy(p, &r, sizeof r);
    if (data) {
        memcpy(p + sizeof r, (uint32_t[2]){schema, bytes}, 8);
        memcpy(p + sizeof r + 8, data, bytes);
    }
    return p + (size_t)r.words * 8;
}

/* One FREE segment becomes a FULL one of thread `t`. */
static void fill(struct bench *b, uint32_t i, unsigned t)
{
    struct writer *w = &b->writer[t];
    struct wire_segment *line = (struct wire_segment *)(b->map + b->head->directory_offset) + i;
    uint8_t *base = b->map + b->head->segments_offset + (uint64_t)i * WIRE_SEGMENT_BYTES, *p = base;
    line->thread = t;
    line->tid = (uint32_t)getpid() + t;
    line->chain_seq = w->chain++;
    line->generation++;
    while ((size_t)(base + WIRE_SEGMENT_BYTES - p) >= 4 * WIRE_RECORD_MAX) {
        struct tacho_step s = {.index = w->step, .tokens = 256, .samples = 4};
        if (w->depth == 0 && t == 0) {
            p = record(p, w, WIRE_PUSH, b->step_name, b->step, &s, sizeof s);
        } else if (w->depth == 0) {
            p = record(p, w, WIRE_PUSH, b->name[1], 0, NULL, 0);
        } else if (w->ops % OPS_A_STEP == OPS_A_STEP - 1) {
            while (w->depth) {
                p = record(p, w, WIRE_POP, 0, 0, NULL, 0);
                b->slices++;
            }
            w->step++;
            w->ops++;
        } else if (w->depth == 1) {
            p = record(p, w, WIRE_PUSH, b->name[0], 0, NULL, 0);
        } else {
            uint64_t r = draw(b);
            p = record(p, w, WIRE_PUSH, b->name[r % NAMES], b->work,
                       &b->shape[r % NAMES * 2 + (r >> 20) % 2], sizeof *b->shape);
            p = record(p, w, WIRE_POP, 0, 0, NULL, 0);
            b->slices++;
            w->ops++;
        }
    }
    atomic_store_explicit(&line->committed, (uint32_t)(p - base), memory_order_release);
    atomic_store_explicit(&line->state, WIRE_FULL, memory_order_release);
}

static void refill(struct bench *b)
{
    struct wire_segment *directory = (struct wire_segment *)(b->map + b->head->directory_offset);
    for (uint32_t i = 0; i < SEGMENTS; i++)
        if (atomic_load(&directory[i].state) == WIRE_FREE)
            fill(b, i, i % THREADS);
}

static int64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static void drain(const char *where, int64_t wanted, double bare)
{
    struct bench *b = malloc(sizeof *b);
    struct col_drain d;
    struct tacho_error err = {0};
    store *db;
    char path[4200];
    make_pool(b, "/dev/shm");
    snprintf(path, sizeof path, "%s/bench-drain-%d.db", where, (int)getpid());
    int folder = open(b->folder, O_RDONLY | O_DIRECTORY);
    if (store_create(path, &db, &err) != 0 || col_drain_open(&d, db, folder, &err) != 0) {
        fprintf(stderr, "%s\n", err.what);
        exit(1);
    }
    close(folder);
    double wall = 0, cpu = 0;
    bool more;
    for (int64_t before = -1; b->slices < wanted && b->slices > before;) {
        before = b->slices;
        refill(b);
        do {
            double w0 = clock_of(CLOCK_MONOTONIC), c0 = clock_of(CLOCK_PROCESS_CPUTIME_ID);
            int rc = col_drain_round(&d, &more);
            if (rc == 0)
                rc = col_drain_commit(&d);
            if (rc) {
                fprintf(stderr, "%s: code %d: %s\n", where, rc, store_error(db)->what);
                exit(1);
            }
            wall += clock_of(CLOCK_MONOTONIC) - w0;
            cpu += clock_of(CLOCK_PROCESS_CPUTIME_ID) - c0;
        } while (more);
    }
    if (col_drain_end(&d) != 0 || d.stats.slices < b->slices) {
        fprintf(stderr, "%s: %lld slices written, %lld read\n", where, (long long)b->slices,
                (long long)d.stats.slices);
        exit(1);
    }
    int64_t slices = d.stats.slices, records = d.stats.records;
    col_drain_close(&d);
    if (store_finish(db, &err) != 0) {
        fprintf(stderr, "%s\n", err.what);
        exit(1);
    }
    double rate = (double)slices / cpu / 1e6;
    double bytes = (double)file_bytes(path) / (double)slices;
    printf("drain of %.1f M slices into %s, a core\t%.2f M slices/s (%.2f of bare SQLite)\t>= 1 "
           "M/s\t%s\n",
           (double)slices / 1e6, where, rate, rate / bare, rate >= 1 ? "ok" : "OVER");
    printf("  of wall time, CPU per million events\t%.2f M slices/s, %.2f s\tprinted\t-\n",
           (double)slices / wall / 1e6, cpu / (double)records * 1e6);
    printf("  file\t%.1f bytes a slice\t<= 45 B\t%s\n", bytes, bytes <= 45 ? "ok" : "OVER");
    unlink(path);
    unlink(b->pool);
    rmdir(b->folder);
    munmap(b->map, b->bytes);
    free(b);
}

/* Millions of rows a second of CPU: eight integers a row, one prepared statement, transactions of
 * 100,000 rows. */
static double bare_sqlite(const char *where, int64_t rows)
{
    char path[4200];
    sqlite3 *db;
    sqlite3_stmt *st;
    snprintf(path, sizeof path, "%s/bench-bare-%d.db", where, (int)getpid());
    if (sqlite3_open(path, &db) != SQLITE_OK)
        die(path);
    sqlite3_exec(db,
                 "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; CREATE TABLE slice (id INTEGER "
                 "PRIMARY KEY, track INTEGER, "
                 "start INTEGER, dur INTEGER, name INTEGER, category INTEGER, detail INTEGER, "
                 "correlation INTEGER)",
                 NULL, NULL, NULL);
    sqlite3_prepare_v2(db, "INSERT INTO slice VALUES(?,?,?,?,?,?,?,?)", -1, &st, NULL);
    double c0 = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < rows; i++) {
        if (i % 100000 == 0)
            sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
        sqlite3_bind_int64(st, 1, i + 1);
        sqlite3_bind_int64(st, 2, i % 4);
        sqlite3_bind_int64(st, 3, 1000000000 + i * 300);
        sqlite3_bind_int64(st, 4, 150);
        sqlite3_bind_int64(st, 5, i % NAMES);
        sqlite3_bind_int64(st, 6, 1);
        sqlite3_bind_int64(st, 7, i % SHAPES);
        sqlite3_bind_null(st, 8);
        sqlite3_step(st);
        sqlite3_reset(st);
        if (i % 100000 == 99999 || i + 1 == rows)
            sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    }
    double cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - c0;
    sqlite3_finalize(st);
    sqlite3_close(db);
    const char *suffix[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        char name[4300];
        snprintf(name, sizeof name, "%s%s", path, suffix[i]);
        unlink(name);
    }
    return (double)rows / cpu / 1e6;
}

int main(int argc, char **argv)
{
    double millions = argc > 1 ? strtod(argv[1], NULL) : 2;
    const char *disk = argc > 2 ? argv[2] : ".";
    int64_t wanted = (int64_t)(millions * 1e6);
    double bare = bare_sqlite("/dev/shm", wanted < 1000000 ? wanted : 1000000);
    printf("bare SQLite into tmpfs, a core\t%.2f M rows/s\tprinted\t-\n", bare);
    drain("/dev/shm", wanted, bare);
    drain(disk, wanted, bare);
    return 0;
}
