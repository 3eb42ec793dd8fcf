/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the drain: a pool of this very process, its events, and collectors that read it and
 * take over from each other.
 */
#ifndef COL_FIXTURE_H
#define COL_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/drain/drain.h"
#include "tests/unit/made_pool.h"

#define SEGMENTS      8u
#define SEGMENT_BYTES 4096u

struct pool {
    char folder[128], db[160];
    struct wire_pool *head;
    uint8_t *map;
    size_t bytes;
    uint64_t time;
    struct {
        uint32_t segment, used;
        uint64_t chain;
    } thread[4];
    uint32_t name[4];
};

/* A pool of this very process, so that it is alive; as a file that the drain maps for itself. */
static inline int setup(void **state)
{
    struct pool *p = calloc(1, sizeof *p);
    char path[160];
    const struct made_pool_shape shape = {32768, 32768, SEGMENTS, SEGMENT_BYTES};
    snprintf(p->folder, sizeof p->folder, "%s/col-drain-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(p->folder))
        return -1;
    snprintf(p->db, sizeof p->db, "%s/run.db", p->folder);
    snprintf(path, sizeof path, "%s/pool.%d.0", p->folder, (int)getpid());
    p->bytes = made_pool_bytes(&shape);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)p->bytes) != 0)
        return -1;
    p->map = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    p->head = (struct wire_pool *)p->map;
    if (made_pool_begin(p->head, &shape))
        return -1;
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        p->name[i] = made_pool_text(p->head, WIRE_TEXT_NAME, names[i]);
        p->thread[i].segment = UINT32_MAX;
    }
    atomic_store(&p->head->domain_name[1], made_pool_text(p->head, WIRE_TEXT_NAME, "one"));
    atomic_store(&p->head->domain_name[2], made_pool_text(p->head, WIRE_TEXT_NAME, "two"));
    p->head->magic = WIRE_MAGIC;
    p->time = 1000;
    *state = p;
    return 0;
}

static inline int teardown(void **state)
{
    struct pool *p = *state;
    char command[200];
    munmap(p->map, p->bytes);
    snprintf(command, sizeof command, "rm -r '%s'", p->folder);
    int rc = system(command);
    free(p);
    return rc;
}

static inline struct wire_segment *line_of(struct pool *p, uint32_t i)
{
    return (struct wire_segment *)(p->map + p->head->directory_offset) + i;
}

static inline void segment_full(struct pool *p, unsigned thread, bool last)
{
    struct wire_segment *line = line_of(p, p->thread[thread].segment);
    atomic_store(&line->last, last);
    atomic_store(&line->state, WIRE_FULL);
    p->thread[thread].segment = UINT32_MAX;
}

static inline void segment_take(struct pool *p, unsigned thread)
{
    uint32_t i = 0;
    while (atomic_load(&line_of(p, i)->state) != WIRE_FREE)
        assert_true(++i < SEGMENTS);
    struct wire_segment *line = line_of(p, i);
    atomic_store(&line->committed, 0);
    atomic_store(&line->last, 0);
    line->thread = thread;
    line->tid = (uint32_t)getpid() + thread;
    line->chain_seq = p->thread[thread].chain++;
    line->generation++;
    if (atomic_load(&p->head->segments_peak) <= i)
        atomic_store(&p->head->segments_peak, i + 1);
    atomic_store(&line->state, WIRE_ACTIVE);
    p->thread[thread].segment = i;
    p->thread[thread].used = 0;
}

static inline void put(struct pool *p, unsigned thread, const void *record, size_t bytes)
{
    if (p->thread[thread].segment != UINT32_MAX && p->thread[thread].used + bytes > SEGMENT_BYTES)
        segment_full(p, thread, false);
    if (p->thread[thread].segment == UINT32_MAX)
        segment_take(p, thread);
    uint32_t i = p->thread[thread].segment;
    memcpy(p->map + p->head->segments_offset + i * SEGMENT_BYTES + p->thread[thread].used, record,
           bytes);
    p->thread[thread].used += (uint32_t)bytes;
    atomic_store(&line_of(p, i)->committed, p->thread[thread].used);
}

/* The next event, 10 ns after the one before. */
static inline void event(struct pool *p, unsigned thread, enum wire_kind kind, unsigned domain,
                         unsigned depth, unsigned name)
{
    struct wire_record r = {.time = p->time += 10,
                            .kind = (uint8_t)kind,
                            .words = 2,
                            .domain = (uint8_t)domain,
                            .depth = (uint8_t)depth,
                            .name = kind == WIRE_POP ? 0 : p->name[name]};
    put(p, thread, &r, sizeof r);
}

static inline void range_event(struct pool *p, unsigned thread, enum wire_kind kind, uint64_t id)
{
    struct {
        struct wire_record r;
        uint64_t id;
    } x = {.r = {.time = p->time += 10,
                 .kind = (uint8_t)kind,
                 .words = 3,
                 .name = kind == WIRE_END ? 0 : p->name[0]},
           .id = id};
    put(p, thread, &x, sizeof x);
}

static inline void step_event(struct pool *p, unsigned thread, uint32_t schema, uint64_t index)
{
    struct {
        struct wire_record r;
        uint32_t schema, bytes;
        uint64_t data[3];
    } x = {.r = {.time = p->time += 10,
                 .kind = WIRE_PUSH | WIRE_PAYLOAD,
                 .words = 6,
                 .domain = 1,
                 .name = p->name[0]},
           .schema = schema,
           .bytes = 24,
           .data = {index, 64, 4}};
    put(p, thread, &x, sizeof x);
}

static inline void open_drain(const struct pool *p, struct col_drain *d, store *db)
{
    struct tacho_error err;
    int folder = open(p->folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(col_drain_open(d, db, folder, &err), 0);
    close(folder);
}

static inline store *created(struct pool *p, struct col_drain *d)
{
    store *db = NULL;
    struct tacho_error err;
    unlink(p->db);
    assert_int_equal(store_create(p->db, &db, &err), 0);
    open_drain(p, d, db);
    return db;
}

static inline void turn(struct col_drain *d)
{
    bool more = true;
    while (more) {
        assert_int_equal(col_drain_round(d, &more), 0);
        assert_int_equal(col_drain_commit(d), 0);
    }
}

/* The collector dies after its last commit, and another one takes over. */
static inline store *taken_over(struct pool *p, struct col_drain *d, store *db)
{
    struct tacho_error err;
    col_drain_close(d);
    store_close(db);
    assert_int_equal(store_resume(p->db, &db, &err), 0);
    open_drain(p, d, db);
    assert_int_equal(col_drain_load(d, p->folder, &err), 0);
    return db;
}

struct slices {
    int64_t count, open, total;
    char text[512];   /* "start+dur " in order of start, of the first ones */
    char losses[512]; /* "reason=count " of each, NULL where it has no count */
};

static inline int add_loss(void *ctx, const struct store_loss *x)
{
    struct slices *s = ctx;
    size_t at = strlen(s->losses);
    char count[24] = "NULL";
    if (x->count != STORE_ABSENT)
        snprintf(count, sizeof count, "%lld", (long long)x->count);
    snprintf(s->losses + at, sizeof s->losses - at, "%s=%s ", x->reason, count);
    return 0;
}

static inline int add_slice(void *ctx, const struct store_slice *x)
{
    struct slices *s = ctx;
    size_t at = strlen(s->text);
    s->count++;
    if (x->dur == STORE_ABSENT)
        s->open++;
    else
        s->total += x->dur;
    if (at < sizeof s->text - 40 && x->dur == STORE_ABSENT)
        snprintf(s->text + at, sizeof s->text - at, "%d+? ", (int)x->start);
    else if (at < sizeof s->text - 40)
        snprintf(s->text + at, sizeof s->text - at, "%d+%d ", (int)x->start, (int)x->dur);
    return 0;
}

static inline struct slices finished(struct pool *p, struct col_drain *d, store *db)
{
    struct slices s = {0};
    store_reader *r;
    struct tacho_error err;
    assert_int_equal(col_drain_end(d), 0);
    col_drain_close(d);
    assert_int_equal(store_finish(db, &err), 0);
    assert_int_equal(store_open(p->db, &r, &err), 0);
    assert_int_equal(store_slice_each(r, 1, add_slice, &s), 0);
    assert_int_equal(store_loss_each(r, add_loss, &s), 0);
    store_reader_close(r);
    return s;
}

#define WITH_POOL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
