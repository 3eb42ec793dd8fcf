/* SPDX-License-Identifier: Apache-2.0
 *
 * What the collector reads of the target's memory: records that no agent writes, a pool whose
 * header, directory and names were scribbled over while it is read, buffers of device records, a
 * collector that dies between rounds, what it saved for the next one (live_state), files that
 * become shorter, the control file and the marks of processes without a pool. The pool's files are
 * mapped by the target: a wild pointer there must never lead the collector out of the mapping.
 *
 * The input: two bytes (where the header is damaged before the first look, 0 not at all), a byte
 * (how many words of header, directory and device file are changed before it), these, then actions
 * of a byte and their values.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "profiler/collector/drain/drain.h"
#include "tests/unit/made_pool.h"

#define SEGMENTS      4u
#define SEGMENT_BYTES 4096u
#define ARENA_AT      32768u
#define SEGMENTS_AT   65536u
#define POOL_BYTES    (SEGMENTS_AT + SEGMENTS * SEGMENT_BYTES)
#define BUFFERS       2u
#define BUFFER_BYTES  4096u
#define NAMES         16u

struct pool {
    char folder[64], db[80];
    uint8_t *map, *gpu_map;
    struct wire_pool *head;
    struct wire_gpu *gpu;
    uint64_t time, generation;
    uint32_t name[8];
    bool cut;    /* the pool's file has become shorter: this process must not touch its end */
    bool spoilt; /* the saved state was changed, too: everything may fail, with words */
};

static void check_at(bool ok, int line, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz_pool.c:%d: %s\n", line, what);
    abort();
}
#define check(ok) check_at((ok), __LINE__, #ok)

static uint8_t *mapped(const char *folder, const char *prefix, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s%d.0", folder, prefix, (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    uint8_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(map != MAP_FAILED);
    close(fd);
    return map;
}

static size_t gpu_bytes(void)
{
    size_t head = (sizeof(struct wire_gpu) + 4095) & ~(size_t)4095;
    return head + 4096 + 4096 + BUFFERS * (size_t)BUFFER_BYTES;
}

static void device(struct pool *p, const struct col_proc_stat *self)
{
    uint64_t head = (sizeof(struct wire_gpu) + 4095) & ~4095ull;
    p->gpu_map = mapped(p->folder, WIRE_GPU_PREFIX, gpu_bytes());
    p->gpu = (struct wire_gpu *)p->gpu_map;
    p->gpu->version = WIRE_VERSION;
    p->gpu->pid = (uint32_t)getpid();
    p->gpu->start_ticks = self->start_ticks;
    p->gpu->buffer_bytes = BUFFER_BYTES;
    p->gpu->buffer_cap = BUFFERS;
    p->gpu->name_cap = NAMES;
    p->gpu->cupti_version = 26;
    p->gpu->directory_offset = head;
    p->gpu->names_offset = head + 4096;
    p->gpu->buffers_offset = head + 8192;
    p->gpu->file_bytes = gpu_bytes();
    atomic_store(&p->gpu->state, WIRE_GPU_ON);
    atomic_store(&p->gpu->buffers_backed, BUFFERS);
    p->gpu->anchor[0] =
        (struct wire_gpu_anchor){.cupti = 1000, .realtime = 1000, .monotonic = 1000, .tsc = 1000};
    p->gpu->anchor[1] = (struct wire_gpu_anchor){
        .cupti = 900000, .realtime = 900000, .monotonic = 900000, .tsc = 900000};
    atomic_store(&p->gpu->anchors, 2);
    for (unsigned i = 0; i < WIRE_GPU_KINDS; i++)
        atomic_store(&p->gpu->record_bytes[i], 0);
    p->gpu->magic = WIRE_GPU_MAGIC;
}

static void setup(struct pool *p)
{
    static const char *const texts[] = {"a", "tacho.step", "b\xff", "%s"};
    const struct made_pool_shape shape = {ARENA_AT, SEGMENTS_AT - ARENA_AT, SEGMENTS,
                                          SEGMENT_BYTES};
    struct col_proc_stat self;
    memset(p, 0, sizeof *p);
    snprintf(p->folder, sizeof p->folder, "/dev/shm/tacho-fuzz-%d", (int)getpid());
    snprintf(p->db, sizeof p->db, "%s/run.db", p->folder);
    mkdir(p->folder, 0700);
    unlink(p->db);
    check(col_proc_read_stat((int32_t)getpid(), &self) == 0);
    p->map = mapped(p->folder, WIRE_PREFIX, POOL_BYTES);
    p->head = (struct wire_pool *)p->map;
    check(made_pool_begin(p->head, &shape) == 0);
    for (size_t i = 0; i < 4; i++)
        p->name[i] = made_pool_text(p->head, WIRE_TEXT_NAME, texts[i]);
    p->name[4] = made_pool_text(p->head, WIRE_TEXT_SCHEMA,
                                "tacho.step\t24\nindex\t18\t0\ntokens\t18\t8\nsamples\t18\t16");
    p->name[5] = made_pool_text(p->head, WIRE_TEXT_SCHEMA, "own\t16\nx\t13\t0\ny.z\t17\t8");
    p->name[6] = made_pool_text(p->head, WIRE_TEXT_COUNTER, "count\t1\t18");
    p->name[7] = made_pool_text(p->head, WIRE_TEXT_SCHEMA,
                                "tacho.comm\t40\nkind\t14\t0\nbytes\t18\t8\ntext\t1\t16\t8");
    atomic_store(&p->head->domain_name[1], p->name[0]);
    p->head->magic = WIRE_MAGIC;
    p->time = 1000;
    device(p, &self);
}

static bool remove_file(void *ctx, int folder, const char *name)
{
    (void)ctx;
    unlinkat(folder, name, 0);
    return true;
}

static void teardown(struct pool *p)
{
    char path[128];
    munmap(p->map, POOL_BYTES);
    munmap(p->gpu_map, gpu_bytes());
    snprintf(path, sizeof path, "%s/" WIRE_PREFIX "%d.0", p->folder, (int)getpid());
    unlink(path);
    snprintf(path, sizeof path, "%s/" WIRE_GPU_PREFIX "%d.0", p->folder, (int)getpid());
    unlink(path);
    unlink(p->db);
    int folder = open(p->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(folder >= 0 && store_folder_each(folder, remove_file, NULL));
    close(folder);
}

/* A record at the end of a segment; the segment becomes that of a thread when it is free. */
static void record(struct pool *p, struct fuzz_input *in)
{
    uint64_t how = fuzz_take(in, 1);
    if (p->cut)
        return;
    struct wire_segment *line =
        (struct wire_segment *)(p->map + WIRE_HEADER_BYTES) + how % SEGMENTS;
    uint32_t used = atomic_load(&line->committed);
    struct {
        struct wire_record r;
        uint64_t more[14];
    } x = {.r = {.kind = (uint8_t)fuzz_take(in, 1),
                 .words = 2,
                 .domain = (uint8_t)(how >> 2 & 3),
                 .depth = (uint8_t)(fuzz_take(in, 1) % 4),
                 .name = p->name[how >> 4 & 7]}};
    x.r.time = p->time += fuzz_take(in, 1);
    uint8_t kind = x.r.kind & WIRE_KIND_MASK;
    unsigned at = 0;
    if (x.r.kind & WIRE_CATEGORY)
        x.more[at++] = fuzz_take(in, 1) | (uint64_t)p->name[fuzz_take(in, 1) % 8] << 32;
    if (x.r.kind & WIRE_PAYLOAD) {
        uint64_t bytes = fuzz_take(in, 1) % (WIRE_PAYLOAD_MAX + 8),
                 schema = p->name[fuzz_take(in, 1) % 8];
        x.more[at++] = schema | bytes << 32;
        for (uint64_t i = 0; i < bytes && at < 13; i += 8)
            x.more[at++] = fuzz_take(in, 2);
    }
    if (x.r.kind & WIRE_VALUE)
        x.more[at++] = fuzz_take(in, 8);
    if (kind == WIRE_START || kind == WIRE_END)
        x.more[at++] = fuzz_take(in, 1);
    x.r.words = (uint8_t)(2 + at);
    if (how & 0x80)
        x.r.words = (uint8_t)fuzz_take(in, 1);
    size_t bytes = 16 + 8 * (size_t)at;
    if (atomic_load(&line->state) == WIRE_FREE) {
        atomic_store(&line->committed, used = 0);
        line->thread = (uint32_t)(how % SEGMENTS % 2);
        line->tid = 77 + line->thread;
        line->chain_seq = (fuzz_take(in, 1) & 7) ? line->chain_seq + 1 : 0;
        line->generation = ++p->generation;
        atomic_store(&p->head->segments_peak, SEGMENTS);
        atomic_store(&line->state, WIRE_ACTIVE);
    }
    if (used > SEGMENT_BYTES || bytes > SEGMENT_BYTES - used) {
        atomic_store(&line->state, WIRE_FULL);
        return;
    }
    memcpy(p->map + SEGMENTS_AT + how % SEGMENTS * SEGMENT_BYTES + used, &x, bytes);
    atomic_store(&line->committed, used + (uint32_t)bytes);
}

/* A buffer of device records, any bytes: kinds in the first word of each. */
static void buffer(struct pool *p, struct fuzz_input *in)
{
    uint64_t how = fuzz_take(in, 1), bytes = fuzz_take(in, 1) * 8;
    struct wire_buffer *line =
        (struct wire_buffer *)(p->gpu_map + ((sizeof(struct wire_gpu) + 4095) & ~4095ull)) +
        how % BUFFERS;
    uint8_t *at =
        (uint8_t *)p->gpu_map + gpu_bytes() - BUFFERS * BUFFER_BYTES + how % BUFFERS * BUFFER_BYTES;
    if (how & 2)
        atomic_store(&p->gpu->record_bytes[fuzz_take(in, 1) % WIRE_GPU_KINDS],
                     (uint32_t)fuzz_take(in, 1));
    bytes = bytes > in->n ? in->n : bytes;
    memcpy(at, in->p, bytes);
    in->p += bytes;
    in->n -= bytes;
    line->valid = how & 4 ? (uint32_t)fuzz_take(in, 4) : (uint32_t)bytes;
    line->generation++;
    line->sequence = atomic_fetch_add(&p->gpu->sequence, 1) + 1;
    line->context = 1;
    line->records = 1;
    line->dropped = (uint32_t)(how >> 3);
    atomic_store(&line->state, how & 128 ? WIRE_BUFFER_LENT : WIRE_BUFFER_DONE);
}

static void scribble(struct pool *p, struct fuzz_input *in)
{
    uint64_t how = fuzz_take(in, 1), value = how & 4 ? fuzz_take(in, 8) : fuzz_take(in, 1);
    size_t at, bytes = how & 8 ? 8 : 4;
    uint8_t *map = p->map;
    switch (how % 4) {
    case 0:
        at = fuzz_take(in, 2) % (offsetof(struct wire_pool, domain_name) + 64);
        break;
    case 1:
        at = WIRE_HEADER_BYTES + fuzz_take(in, 1) % (SEGMENTS * sizeof(struct wire_segment));
        break;
    case 2:
        at = ARENA_AT + fuzz_take(in, 2) % 1024;
        break;
    default:
        map = p->gpu_map;
        at = fuzz_take(in, 2) % sizeof(struct wire_gpu);
    }
    if (map != p->map || !p->cut)
        memcpy(map + (at & ~7ull), &value, bytes);
}

/* What the kernel says to a wild ftruncate: the rest of the pool is gone. The harness leaves the
 * mapping alone from here on. */
static void cut(struct pool *p, struct fuzz_input *in)
{
    char path[128];
    uint64_t bytes = fuzz_take(in, 2) * 4;
    snprintf(path, sizeof path, "%s/" WIRE_PREFIX "%d.0", p->folder, (int)getpid());
    p->cut = truncate(path, (off_t)(bytes % POOL_BYTES)) == 0;
    check(p->cut ||
          errno == ENOENT); /* the collector has removed it: its header named a dead process */
}

/* A file of a name that tacho gives, with any bytes. */
static void small_file(struct pool *p, struct fuzz_input *in)
{
    static const char *const names[] = {WIRE_CONTROL,
                                        WIRE_NONE "77",
                                        WIRE_NONE "77.99999999999999",
                                        WIRE_NONE "77.18446744073709551616",
                                        WIRE_NEW "77.0",
                                        WIRE_PREFIX "77.0",
                                        WIRE_GPU_PREFIX "77.0",
                                        WIRE_NONE "x"};
    char path[128];
    size_t count;
    snprintf(path, sizeof path, "%s/%s", p->folder, names[fuzz_take(in, 1) % 8]);
    const uint8_t *bytes = fuzz_bytes(in, (size_t)fuzz_take(in, 1), &count);
    FILE *file = fopen(path, "we");
    check(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* A row of the saved state that no collector wrote: kinds of keys by their first letters. */
static void add_state(sqlite3 *db, struct fuzz_input *in)
{
    static const char *const kinds[] = {"d", "clock", "volume", "x", "p", "t", "r", "g"};
    sqlite3_stmt *st = NULL;
    char key[96];
    size_t bytes;
    const char *kind = kinds[fuzz_take(in, 1) % 8];
    unsigned pool = (unsigned)fuzz_take(in, 1) % 3, id = (unsigned)fuzz_take(in, 1) % 5;
    if (strlen(kind) > 1 || *kind == 'd')
        snprintf(key, sizeof key, "%s", kind);
    else if (*kind == 'x')
        snprintf(key, sizeof key, "x:%u", id);
    else
        snprintf(key, sizeof key, "%s:" WIRE_PREFIX "%d.%u%s%.*u", kind, (int)getpid(), pool,
                 *kind == 'p' ? "" : ":", *kind == 'p' ? 0 : 1, *kind == 'p' ? 0 : id);
    const uint8_t *value = fuzz_bytes(in, 4 * (size_t)fuzz_take(in, 1), &bytes);
    check(sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO live_state(key, value) VALUES(?1, ?2)", -1,
                             &st, NULL) == SQLITE_OK);
    sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_blob(st, 2, value, (int)bytes, SQLITE_STATIC);
    sqlite3_step(st);
    sqlite3_finalize(st);
}

/* Changes what a collector saved for the one that takes over. */
static void spoil_state(struct pool *p, struct fuzz_input *in)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    uint64_t how = fuzz_take(in, 1);
    size_t bytes = 0;
    const uint8_t *value = fuzz_bytes(in, how & 128 ? 64 : 8, &bytes);
    check(sqlite3_open(p->db, &db) == SQLITE_OK);
    check(sqlite3_prepare_v2(db,
                             "UPDATE live_state SET value = CAST(substr(value, 1, ?1) || ?2 || "
                             "substr(value, ?1 + 1 + length(?2)) AS BLOB) WHERE key = (SELECT key "
                             "FROM live_state ORDER BY key LIMIT 1 OFFSET ?3)",
                             -1, &st, NULL) == SQLITE_OK);
    sqlite3_bind_int64(st, 1, (int64_t)(fuzz_take(in, 2) % 4096));
    sqlite3_bind_blob(st, 2, value, (int)bytes, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (int64_t)(how % 16));
    sqlite3_step(st);
    sqlite3_finalize(st);
    if (how & 64)
        add_state(db, in);
    sqlite3_close(db);
    p->spoilt = true;
}

static store *opened(struct pool *p, struct col_drain *d, store *old, struct fuzz_input *in)
{
    store *db = NULL;
    struct tacho_error err = {0};
    if (old) {
        col_drain_close(d);
        store_close(old);
        if (fuzz_take(in, 1) % 4 == 0)
            spoil_state(p, in);
        check(store_resume(p->db, &db, &err) == 0);
    } else {
        check(store_create(p->db, &db, &err) == 0);
    }
    int folder = open(p->folder, O_RDONLY | O_DIRECTORY);
    check(col_drain_open(d, db, folder, &err) == 0);
    close(folder);
    int rc = old ? col_drain_load(d, p->folder, &err) : 0;
    if (!rc)
        return db;
    check(rc == TACHO_EVERSION ||
          p->spoilt); /* it is what the pool says of itself: another tacho may read it */
    col_drain_close(d);
    store_close(db);
    return NULL;
}

static int on_slice(void *ctx, const struct store_slice *x)
{
    int64_t end;
    ++*(size_t *)ctx;
    check(x->dur == STORE_ABSENT ||
          (x->dur >= 0 && !__builtin_add_overflow(x->start, x->dur, &end)));
    return 0;
}

static void run(struct pool *p, struct fuzz_input *in)
{
    struct col_drain d;
    struct tacho_error err = {0};
    store_reader *reader;
    size_t slices = 0;
    store *db = opened(p, &d, NULL, in);
    for (int actions = 0; in->n && actions < 400; actions++) {
        bool more = true;
        switch (fuzz_take(in, 1) % 16) {
        case 0:
        case 1:
            for (int i = 0; more && i < 8; i++) {
                check((col_drain_round(&d, &more) == 0 && col_drain_commit(&d) == 0) || p->spoilt);
            }
            break;
        case 2:
            if (!(db = opened(p, &d, db, in)))
                return;
            break;
        case 3:
        case 4:
            scribble(p, in);
            break;
        case 5:
        case 6:
            buffer(p, in);
            break;
        case 7:
            switch (fuzz_take(in, 1) % 8) {
            case 0:
                cut(p, in);
                break;
            case 1:
                small_file(p, in);
                break;
            }
            check(col_drain_reap(&d) == 0 || p->spoilt);
            break;
        default:
            record(p, in);
        }
    }
    check((col_drain_begin(&d) == 0 && col_drain_end(&d) == 0) || p->spoilt);
    col_drain_close(&d);
    if (p->spoilt) {
        store_close(db);
        return;
    }
    check(store_finish(db, &err) == 0);
    check(store_open(p->db, &reader, &err) == 0 &&
          store_slice_each(reader, 1, on_slice, &slices) == 0);
    store_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct pool p;
    setup(&p);
    size_t at = (size_t)fuzz_take(&in, 2);
    if (at & 0x8000)
        p.map[at % 512] = (uint8_t)at;
    else if (at & 0x4000)
        p.gpu_map[at % 512] = (uint8_t)at;
    for (unsigned edits = (unsigned)fuzz_take(&in, 1) % 16; edits; edits--)
        scribble(&p, &in);
    run(&p, &in);
    teardown(&p);
    return 0;
}
