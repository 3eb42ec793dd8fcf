/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that overwrites its own pool, cuts it short or removes it, and a collector that cannot
 * open one for the moment: what is lost is named, all else is read, and the file is finished.
 */
#include <sys/resource.h>
#include <sys/sendfile.h>

#include "tests/unit/col_fixture.h"

#define PLACE_LOST   "segment of a thread not read: its place was overwritten=NULL "
#define LENGTH_LOST  "records of a segment not read: its length was overwritten=NULL "
#define SEGMENT_LOST "segment of a thread missing=NULL "
#define MARKS        (SEGMENT_BYTES / sizeof(struct wire_record)) /* that fill a segment */

static void mark(struct pool *p, unsigned thread)
{
    event(p, thread, WIRE_MARK, 0, 0, 0);
}

/* Fills a new segment, which its thread leaves then. */
static void fill(struct pool *p, unsigned thread)
{
    for (unsigned i = 0; i < MARKS; i++)
        mark(p, thread);
    segment_full(p, thread, false);
}

/* Ten marks, what `overwrite` does to the pool, ten more: the text of the losses is as expected,
 * and as many marks as expected are stored. */
static void overwritten(void **state, void (*overwrite)(struct pool *p), int stored,
                        const char *losses)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    for (int i = 0; i < 10; i++)
        mark(p, 0);
    turn(&d);
    overwrite(p);
    for (int i = 0; i < 3; i++)
        turn(&d);
    for (int i = 0; i < 10; i++)
        mark(p, 0);
    turn(&d);
    bool is_named = d.stats.uncounted > 0;
    struct slices s = finished(p, &d, db);
    assert_string_equal(s.losses, losses);
    assert_int_equal(is_named, losses[0] != 0);
    assert_int_equal(s.count, stored);
}

/* ---- the header ------------------------------------------------------------------------------ */

static void spoil_layout(struct pool *p)
{
    p->head->magic = 7;
    p->head->segment_cap = UINT32_MAX;
    p->head->arena_offset = UINT64_MAX - 1;
    p->head->clock = 99;
    p->head->start_ticks = 1;
    p->head->created = UINT64_MAX;
}

static void test_layout(void **state)
{
    overwritten(state, spoil_layout, 20, "");
}

/* The collector dies too: what is known of the pool is in its file. */
static void test_layout_and_taken_over(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    mark(p, 0);
    turn(&d);
    spoil_layout(p);
    mark(p, 0);
    db = taken_over(p, &d, db);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.losses, "");
}

/* It was damaged before anybody had seen it. */
static void test_layout_at_first(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    p->head->segment_cap = 0;
    mark(p, 0);
    turn(&d);
    assert_int_equal(d.stats.uncounted, 1);
    struct slices s = finished(p, &d, db);
    assert_string_equal(s.losses,
                        "pool of a process not read: damaged or of another version of tacho=NULL ");
}

/* Names of a terabyte, and a record that names the last of them: the tables that are kept for names
 * would take all memory. */
static void test_arena_at_first(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    p->head->arena_cap = 1ull << 39;
    p->name[0] = UINT32_MAX;
    mark(p, 0);
    turn(&d);
    assert_int_equal(d.pool_count, 0);
    struct slices s = finished(p, &d, db);
    assert_string_equal(s.losses,
                        "pool of a process not read: damaged or of another version of tacho=NULL ");
}

static void spoil_counts(struct pool *p)
{
    atomic_store(&p->head->segments_peak, 0);
    atomic_store(&p->head->segments_backed, 0);
    atomic_store(&p->head->arena_used, 0);
}

static void test_counts(void **state)
{
    overwritten(state, spoil_counts, 20, "");
}

/* The collector dies too, and the header no longer counts the segment that it was reading: the next
 * one goes on where that one was, and takes no more memory than a segment. */
static void test_counts_and_taken_over(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    mark(p, 0);
    turn(&d);
    spoil_counts(p);
    mark(p, 0);
    db = taken_over(p, &d, db);
    turn(&d);
    assert_in_range(d.piece.cap, 1, SEGMENT_BYTES);
    struct slices s = finished(p, &d, db);
    assert_string_equal(s.losses, "");
    assert_int_equal(s.count, 2);
}

static void spoil_losses(struct pool *p)
{
    atomic_store(&p->head->loss[WIRE_LOSS_NO_SEGMENT].count, 1ull << 63);
    atomic_store(&p->head->loss[WIRE_LOSS_NO_SEGMENT].first, UINT64_MAX);
}

static void test_losses(void **state)
{
    overwritten(state, spoil_losses, 20, "count of lost events overwritten by the process=NULL ");
}

/* The counts become zero before anyone has read them; their sum is in another cache line. */
static void wipe_losses(struct pool *p)
{
    atomic_store(&p->head->losses, 5);
    memset(p->head->loss, 0, sizeof p->head->loss);
}

static void test_losses_wiped(void **state)
{
    overwritten(state, wipe_losses, 20, "count of lost events overwritten by the process=NULL ");
}

/* A count goes on from what was written over it. */
static void test_losses_go_on(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    _Atomic uint64_t *count = &p->head->loss[WIRE_LOSS_NO_SEGMENT].count;
    mark(p, 0);
    atomic_store(count, 5);
    turn(&d);
    atomic_store(count, 0);
    turn(&d);
    atomic_store(count, 3);
    turn(&d);
    assert_int_equal(d.stats.lost, 8);
    assert_int_equal(d.stats.uncounted, 1);
    finished(p, &d, db);
}

/* ---- lines of the directory ------------------------------------------------------------------- */

static void spoil_line(struct pool *p)
{
    struct wire_segment *line = line_of(p, 0);
    line->thread = 77;
    line->chain_seq = UINT64_MAX;
    line->generation = 1ull << 60;
    atomic_store(&line->last, 123);
    atomic_store(&line->state, 0x41414141);
}

static void test_line(void **state)
{
    overwritten(state, spoil_line, 20, "");
}

static void spoil_length(struct pool *p)
{
    atomic_store(&line_of(p, 0)->committed, SEGMENT_BYTES + 8);
}

static void test_length(void **state)
{
    overwritten(state, spoil_length, 20, LENGTH_LOST);
}

/* A plausible length beyond what was written: there is nothing yet that could be read. */
static void spoil_length_a_little(struct pool *p)
{
    atomic_fetch_add(&line_of(p, 0)->committed, 32);
}

static void test_length_a_little(void **state)
{
    overwritten(state, spoil_length_a_little, 18, "damaged records not read=NULL ");
}

/* The thread has filled three segments that no collector has seen, and records in a fourth one. */
static void three_full(struct pool *p, void (*overwrite)(struct pool *p))
{
    for (int i = 0; i < 3; i++)
        fill(p, 0);
    mark(p, 0);
    overwrite(p);
}

/* What is spoilt before a collector looks: so many marks are stored, the rest is named. */
static void unseen(void **state, void (*overwrite)(struct pool *p), size_t stored,
                   const char *losses)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    three_full(p, overwrite);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_string_equal(s.losses, losses);
    assert_int_equal(s.count, stored);
}

static void spoil_new_line(struct pool *p)
{
    line_of(p, 1)->chain_seq = 1ull << 40;
}

static void test_new_line(void **state)
{
    unseen(state, spoil_new_line, 2 * MARKS + 1, PLACE_LOST SEGMENT_LOST);
}

/* Two segments have the same place in a chain. */
static void spoil_chain(struct pool *p)
{
    line_of(p, 2)->chain_seq = 1;
}

static void test_same_place(void **state)
{
    unseen(state, spoil_chain, 2 * MARKS + 1, SEGMENT_LOST PLACE_LOST);
}

/* The newest segment of a thread looks free, and nothing follows that would show a hole. */
static void spoil_last_state(struct pool *p)
{
    atomic_store(&line_of(p, 3)->state, WIRE_FREE);
}

static void test_last_is_free(void **state)
{
    unseen(state, spoil_last_state, 3 * MARKS, PLACE_LOST);
}

static void spoil_full_length(struct pool *p)
{
    atomic_store(&line_of(p, 1)->committed, 1024);
}

static void test_full_and_short(void **state)
{
    unseen(state, spoil_full_length, 2 * MARKS + 64 + 1, LENGTH_LOST);
}

/* The pool of a living process: the header says that fewer segments are in use. */
static void spoil_peak(struct pool *p)
{
    atomic_store(&p->head->segments_peak, 2);
}

static void test_peak(void **state)
{
    unseen(state, spoil_peak, 2 * MARKS, PLACE_LOST);
}

/* The header says that its process started at another time: that process has not ended. */
static void spoil_start(struct pool *p)
{
    p->head->start_ticks++;
}

static void test_start(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    spoil_start(p);
    mark(p, 0);
    turn(&d);
    mark(p, 0);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.losses, "");
}

/* The line of a free segment is overwritten, so that its next use has the number of the last one.
 */
static void test_same_generation(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    for (int is_taken_over = 0; is_taken_over < 2; is_taken_over++) {
        fill(p, 0);
        turn(&d);
        line_of(p, 0)->generation--;
        if (is_taken_over)
            db = taken_over(p, &d, db);
    }
    fill(p, 0);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 3 * MARKS);
    assert_string_equal(s.losses, PLACE_LOST);
}

/* The line of a segment that is read in part is overwritten, and the collector dies: the next one
 * goes on where that one was. */
static void test_line_and_taken_over(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    mark(p, 0);
    turn(&d);
    line_of(p, 0)->generation = 77;
    line_of(p, 0)->chain_seq = 5;
    atomic_store(&line_of(p, 0)->state, WIRE_FREE);
    mark(p, 0);
    db = taken_over(p, &d, db);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.losses, "");
}

/* A collector that is told to stop takes the thread for ended and is killed before its file is
 * whole: the next one goes on where that one was, and reads nothing twice. */
static void test_ended_and_taken_over(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    mark(p, 0);
    turn(&d);
    assert_int_equal(col_drain_end(&d), 0);
    db = taken_over(p, &d, db);
    mark(p, 0);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.losses, "");
}

/* A segment without a record is given back like any other: its next use is not the second one. */
static void test_empty_segment(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    segment_take(p, 0);
    segment_full(p, 0, true);
    turn(&d);
    mark(p, 1);
    db = taken_over(p, &d, db);
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 1);
    assert_string_equal(s.losses, "");
}

/* ---- records ---------------------------------------------------------------------------------- */

/* One damaged record of ten costs one row. */
static void damaged(void **state, size_t offset, uint8_t value)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    for (int i = 0; i < 10; i++)
        mark(p, 0);
    p->map[p->head->segments_offset + 4 * sizeof(struct wire_record) + offset] = value;
    turn(&d);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 9);
    assert_string_equal(s.losses, "damaged records not read=NULL ");
}

static void test_record_time(void **state)
{
    damaged(state, offsetof(struct wire_record, time) + 7, 0x7f);
}

static void test_record_kind(void **state)
{
    damaged(state, offsetof(struct wire_record, kind), 0xff);
}

static void test_record_words(void **state)
{
    damaged(state, offsetof(struct wire_record, words), 0);
}

/* ---- the file --------------------------------------------------------------------------------- */

static void path_of(const struct pool *p, char path[200])
{
    snprintf(path, 200, "%s/pool.%d.0", p->folder, (int)getpid());
}

static void cut(const struct pool *p, size_t bytes)
{
    char path[200];
    path_of(p, path);
    assert_int_equal(truncate(path, (off_t)bytes), 0);
}

/* Cut to nothing: the collector lives, and says so. */
static void test_cut_to_nothing(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    fill(p, 0);
    mark(p, 0);
    turn(&d);
    cut(p, 0);
    turn(&d);
    assert_int_equal(d.stats.uncounted, 1);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, MARKS + 1);
    assert_string_equal(s.losses, "rest of a pool not read: its file was cut short=NULL ");
}

/* Cut behind the directory, and then the collector dies. */
static void test_cut_segments(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    mark(p, 0);
    turn(&d);
    mark(p, 0);
    cut(p, p->head->segments_offset);
    db = taken_over(p, &d, db);
    turn(&d);
    assert_int_equal(d.stats.uncounted, 1);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 1);
    assert_string_equal(s.losses, "records of a segment not read: the pool was cut short=NULL ");
}

/* A pool whose name is gone is read on; the next collector does not find it. */
static void test_removed(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    char path[200];
    store *db = created(p, &d);
    mark(p, 0);
    turn(&d);
    path_of(p, path);
    assert_int_equal(unlink(path), 0);
    mark(p, 0);
    turn(&d);
    db = taken_over(p, &d, db);
    turn(&d);
    assert_int_equal(d.stats.uncounted, 1);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.losses,
                        "rest of a pool not read: its file was removed or replaced=NULL ");
}

static rlim_t set_limit(int which, rlim_t value)
{
    struct rlimit limit;
    assert_int_equal(getrlimit((__rlimit_resource_t)which, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = value;
    assert_int_equal(setrlimit((__rlimit_resource_t)which, &limit), 0);
    return before;
}

/* No descriptor is free: the pool is kept, and read once there is one. */
static void test_waits(void **state)
{
    struct pool *p = *state;
    struct col_drain d;
    store *db = created(p, &d);
    mark(p, 0);
    int next = dup(0); /* sixteen are kept for other things */
    close(next);
    rlim_t before = set_limit(RLIMIT_NOFILE, (rlim_t)next + 16);
    turn(&d);
    assert_int_equal(d.waiting, 1);
    assert_int_equal(d.pool_count, 0);
    set_limit(RLIMIT_NOFILE, before);
    turn(&d);
    assert_int_equal(d.waiting, 0);
    struct slices s = finished(p, &d, db);
    assert_int_equal(s.count, 1);
    assert_string_equal(s.losses, "");
}

/* ---- live state ------------------------------------------------------------------------------- */

struct state {
    struct {
        char key[96];
        uint8_t value[16384];
        size_t bytes;
    } item[16];
    unsigned count;
};

static int keep_item(void *ctx, const char *key, const void *value, size_t bytes)
{
    struct state *kept = ctx;
    assert_in_range(kept->count, 0, 15);
    assert_in_range(bytes, 1, sizeof kept->item[0].value);
    snprintf(kept->item[kept->count].key, sizeof kept->item[0].key, "%s", key);
    memcpy(kept->item[kept->count].value, value, bytes);
    kept->item[kept->count++].bytes = bytes;
    return 0;
}

/* Both are closed, so that neither has a journal beside it. */
static void copy_store(const char *from, const char *to)
{
    int source = open(from, O_RDONLY), target = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct stat status;
    assert_true(source >= 0 && target >= 0);
    assert_int_equal(fstat(source, &status), 0);
    assert_int_equal(sendfile(target, source, NULL, (size_t)status.st_size), status.st_size);
    close(source);
    close(target);
}

/* A collector that finds this state: it refuses it, or goes on to the end. Returns what it says. */
static int take_over_state(struct pool *p, const char *key, const void *value, size_t bytes)
{
    struct col_drain d;
    store *db;
    struct tacho_error err;
    bool more;
    assert_int_equal(store_resume(p->db, &db, &err), 0);
    assert_int_equal(store_begin(db), 0);
    assert_int_equal(store_live_set(db, key, value, bytes), 0);
    assert_int_equal(store_commit(db), 0);
    open_drain(p, &d, db);
    int rc = col_drain_load(&d, p->folder, &err);
    assert_int_not_equal(rc, TACHO_ENOMEM); /* what it says is not what it needs */
    if (rc == 0)
        (void)col_drain_round(&d, &more);
    col_drain_close(&d);
    store_close(db);
    return rc;
}

/* Records a little, and keeps each value of the state of the run. Returns the file's copy. */
static const char *keep_state(struct pool *p, struct state *kept)
{
    static char saved[200];
    struct col_drain d;
    struct tacho_error err;
    store *db = created(p, &d);
    event(p, 0, WIRE_PUSH, 0, 0, 0);
    range_event(p, 1, WIRE_START, 7);
    mark(p, 0);
    turn(&d);
    col_drain_close(&d);
    store_close(db);
    assert_int_equal(store_resume(p->db, &db, &err), 0);
    assert_int_equal(store_live_each(db, "", keep_item, kept), 0);
    store_close(db);
    assert_in_range(kept->count, 5, 16);
    snprintf(saved, sizeof saved, "%s.saved", p->db);
    copy_store(p->db, saved);
    return saved;
}

/* The state of a live run is a file, in which anything may be: each word of it in turn is
 * another number. */
static void test_state(void **state)
{
    static const uint32_t numbers[] = {UINT32_MAX, 0x27272727, 0x7fffffff};
    struct pool *p = *state;
    struct state *kept = calloc(1, sizeof *kept);
    assert_non_null(kept);
    const char *saved = keep_state(p, kept);
    for (unsigned i = 0; i < kept->count; i++)
        for (size_t at = 0; at + 4 <= kept->item[i].bytes && at < 600; at += 4)
            for (int which = 0; which < 3; which++) {
                uint8_t value[sizeof kept->item[0].value];
                memcpy(value, kept->item[i].value, kept->item[i].bytes);
                memcpy(value + at, &numbers[which], 4);
                (void)take_over_state(p, kept->item[i].key, value, kept->item[i].bytes);
                copy_store(saved, p->db);
            }
    free(kept);
}

/* More than a recorder writes is refused before it is read: bytes after the end of a pool's state,
 * and a second pool of a process, which could be any number of them. */
static void test_state_too_much(void **state)
{
    struct pool *p = *state;
    struct state *kept = calloc(1, sizeof *kept);
    unsigned pool = 0;
    assert_non_null(kept);
    const char *saved = keep_state(p, kept);
    while (strncmp(kept->item[pool].key, "p:", 2) != 0)
        assert_true(++pool < kept->count);
    uint8_t value[sizeof kept->item[0].value + 8] = {0};
    size_t bytes = kept->item[pool].bytes;
    memcpy(value, kept->item[pool].value, bytes);
    assert_int_equal(take_over_state(p, kept->item[pool].key, value, bytes), 0);
    copy_store(saved, p->db);
    assert_int_equal(take_over_state(p, kept->item[pool].key, value, bytes + 8), TACHO_ECORRUPT);
    copy_store(saved, p->db);
    assert_int_equal(take_over_state(p, "p:pool.99.0", value, bytes), TACHO_ECORRUPT);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_POOL(test_layout),
        WITH_POOL(test_layout_and_taken_over),
        WITH_POOL(test_layout_at_first),
        WITH_POOL(test_arena_at_first),
        WITH_POOL(test_counts),
        WITH_POOL(test_counts_and_taken_over),
        WITH_POOL(test_losses),
        WITH_POOL(test_losses_wiped),
        WITH_POOL(test_losses_go_on),
        WITH_POOL(test_line),
        WITH_POOL(test_length),
        WITH_POOL(test_length_a_little),
        WITH_POOL(test_new_line),
        WITH_POOL(test_same_place),
        WITH_POOL(test_last_is_free),
        WITH_POOL(test_full_and_short),
        WITH_POOL(test_peak),
        WITH_POOL(test_start),
        WITH_POOL(test_same_generation),
        WITH_POOL(test_line_and_taken_over),
        WITH_POOL(test_ended_and_taken_over),
        WITH_POOL(test_empty_segment),
        WITH_POOL(test_record_time),
        WITH_POOL(test_record_kind),
        WITH_POOL(test_record_words),
        WITH_POOL(test_cut_to_nothing),
        WITH_POOL(test_cut_segments),
        WITH_POOL(test_removed),
        WITH_POOL(test_waits),
        WITH_POOL(test_state),
        WITH_POOL(test_state_too_much),
    };
    return cmocka_run_group_tests_name("col_overwritten", tests, NULL, NULL);
}
