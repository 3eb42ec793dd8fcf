/* SPDX-License-Identifier: Apache-2.0
 *
 * Stray writes of a target into its pool while it records and while the pool is read: words
 * and cache lines of random bytes, into header, directory, names and records, now and then a file
 * cut short, and a collector that dies. However much is overwritten, the file is finished and can
 * be read, no count is negative, and what is missing is named. Each event has a time of its own, by
 * which it is found in the file. Every third round writes into everything, every third spares the
 * records, because a stray write that makes one time into another cannot be noticed, and every
 * third only makes the count of lost events zero, so seldom that it may be zero before it is read.
 *
 * $ROUNDS: how many rounds (20), $SEED: of the first one. Another process scribbles in every second
 * round, while the pool is being read.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/unit/col_fixture.h"

#define ARENA_AT    32768u
#define SEGMENTS_AT 65536u
#define POOL_BYTES  (SEGMENTS_AT + SEGMENTS * SEGMENT_BYTES)
#define EVENTS      16384 /* more than a round records */
#define FIRST_TIME  1000
#define TIME_APART  10
#define ALL_PLACES  5 /* that stray writes go to */

struct round {
    struct pool *pool;
    uint64_t random;
    uint64_t chain[2];
    uint32_t segment[2], used[2]; /* of two threads; segment SEGMENTS: none */
    int64_t produced, dropped;    /* dropped: of these, because the pool was full */
    bool is_scribbled, is_taken_over;
    unsigned places;        /* that stray writes go to: the first ones of the list in scribble() */
    uint8_t stored[EVENTS]; /* how often the file has the event with this time */
};

static uint64_t draw(struct round *round, uint64_t below)
{
    round->random ^= round->random << 13;
    round->random ^= round->random >> 7;
    round->random ^= round->random << 17;
    return round->random % below;
}

/* The fixture's own functions read the header, which is overwritten here. */
static struct wire_segment *line(struct round *round, uint32_t i)
{
    return (struct wire_segment *)(round->pool->map + WIRE_HEADER_BYTES) + i;
}

static void take(struct round *round, unsigned thread)
{
    round->segment[thread] = SEGMENTS;
    for (uint32_t i = 0; i < SEGMENTS && round->segment[thread] == SEGMENTS; i++)
        if (atomic_load(&line(round, i)->state) == WIRE_FREE && i != round->segment[!thread])
            round->segment[thread] = i;
    if (round->segment[thread] == SEGMENTS)
        return;
    struct wire_segment *own = line(round, round->segment[thread]);
    atomic_store(&own->committed, 0);
    atomic_store(&own->last, 0);
    own->thread = thread;
    own->tid = 100 + thread;
    own->chain_seq = round->chain[thread]++;
    own->generation++;
    if (atomic_load(&round->pool->head->segments_peak) <= round->segment[thread])
        atomic_store(&round->pool->head->segments_peak, round->segment[thread] + 1);
    atomic_store(&own->state, WIRE_ACTIVE);
    round->used[thread] = 0;
}

/* A mark, or an event that the agent counts as dropped because the pool is full. */
static void record(struct round *round, unsigned thread)
{
    struct wire_record mark = {.time = FIRST_TIME + (uint64_t)round->produced * TIME_APART,
                               .kind = WIRE_MARK,
                               .words = 2,
                               .name = round->pool->name[0]};
    if (round->segment[thread] < SEGMENTS && round->used[thread] + sizeof mark > SEGMENT_BYTES) {
        atomic_store(&line(round, round->segment[thread])->state, WIRE_FULL);
        round->segment[thread] = SEGMENTS;
    }
    if (round->segment[thread] == SEGMENTS)
        take(round, thread);
    round->produced++;
    if (round->segment[thread] == SEGMENTS) {
        round->dropped++;
        atomic_fetch_add(&round->pool->head->loss[WIRE_LOSS_NO_SEGMENT].count, 1);
        atomic_fetch_add(&round->pool->head->losses, 1);
        return;
    }
    memcpy(round->pool->map + SEGMENTS_AT + round->segment[thread] * SEGMENT_BYTES +
               round->used[thread],
           &mark, sizeof mark);
    round->used[thread] += (uint32_t)sizeof mark;
    atomic_store(&line(round, round->segment[thread])->committed, round->used[thread]);
}

static void scribble(struct round *round)
{
    static const size_t sizes[] = {8, 8, 64};
    static const struct {
        size_t from, bytes;
    } places[] = {{offsetof(struct wire_pool, loss[WIRE_LOSS_NO_SEGMENT].count), sizeof(uint64_t)},
                  {0, sizeof(struct wire_pool)},
                  {WIRE_HEADER_BYTES, SEGMENTS * sizeof(struct wire_segment)},
                  {ARENA_AT, 512},
                  {SEGMENTS_AT, SEGMENTS * SEGMENT_BYTES}};
    size_t place = draw(round, round->places), bytes = sizes[draw(round, 3)];
    size_t at = (places[place].from + draw(round, places[place].bytes)) & ~(bytes - 1);
    uint64_t mode = round->places == 1 ? 0 : draw(round, 3);
    if (round->places == 1 && draw(round, 8))
        return;
    round->is_scribbled = true;
    for (size_t i = 0; i < bytes && at + i < POOL_BYTES; i += 8) {
        uint64_t value = mode == 0 ? 0 : draw(round, UINT64_MAX);
        value = mode == 1 ? value >> 48 : value;
        memcpy(round->pool->map + at + i, &value, sizeof value);
    }
}

/* Scribbles from another process until it is killed. */
static pid_t scribbler(struct round *round)
{
    pid_t pid = draw(round, 2) ? fork() : -1;
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGBUS, SIG_DFL); /* the file may be cut short under it */
    signal(SIGSEGV, SIG_DFL);
    for (;;) {
        usleep((useconds_t)draw(round, 300));
        scribble(round);
    }
}

static void truncate_pool(struct round *round)
{
    char path[200];
    snprintf(path, sizeof path, "%s/pool.%d.0", round->pool->folder, (int)getpid());
    if (truncate(path, (off_t)draw(round, POOL_BYTES)) != 0)
        return; /* removed, because its header could not be read */
    assert_int_equal(truncate(path, POOL_BYTES), 0); /* this process still writes to it */
    round->is_scribbled = true;
}

static store *act(struct round *round, struct col_drain *d, store *db)
{
    uint64_t action = draw(round, 100);
    for (uint64_t i = draw(round, 200); action < 60 && i-- > 0;)
        record(round, (unsigned)draw(round, 2));
    if (action >= 60 && action < 80)
        scribble(round);
    else if (action >= 80 && action < 97)
        turn(d);
    else if (action == 97 && round->places > 1)
        truncate_pool(round);
    else if (action >= 98) {
        round->is_taken_over = true;
        db = taken_over(round->pool, d, db);
    }
    return db;
}

static void check_loss(const char *losses)
{
    for (const char *at = losses; (at = strchr(at, '=')); at++)
        assert_true(at[1] != '-');
}

static int add_event(void *ctx, const struct store_slice *event)
{
    struct round *round = ctx;
    int64_t index = (event->start - FIRST_TIME) / TIME_APART;
    if (index >= 0 && index < EVENTS)
        round->stored[index]++;
    return 0;
}

/* Sum of the counts of the losses; -1 where one has no number. */
static int64_t sum_of(const char *losses)
{
    int64_t sum = 0;
    for (const char *at = losses; (at = strchr(at, '=')); at++) {
        if (at[1] == 'N')
            return -1;
        sum += atoll(at + 1);
    }
    return sum;
}

/* Each event is in the file once, or the file says how many are missing, or that their number is
 * not known. */
static void check_events(struct round *round, const char *losses)
{
    store_reader *reader;
    struct tacho_error err;
    int64_t missing = 0;
    assert_int_equal(store_open(round->pool->db, &reader, &err), 0);
    assert_int_equal(store_slice_each(reader, 1, add_event, round), 0);
    store_reader_close(reader);
    assert_in_range(round->produced, 0, EVENTS);
    for (int64_t i = 0; i < round->produced; i++) {
        missing += !round->stored[i];
        if (!round->is_taken_over)
            assert_in_range(round->stored[i], 0, 1);
    }
    int64_t counted = sum_of(losses);
    if (counted >= 0)
        assert_true(counted >= missing);
}

static void one_round(struct round *round)
{
    struct col_drain d;
    struct col_stats stats;
    store *db = created(round->pool, &d);
    pid_t other = scribbler(round);
    round->is_scribbled = other > 0;
    for (int i = 0; i < 60; i++)
        db = act(round, &d, db);
    if (other > 0) {
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
    }
    turn(&d);
    stats = d.stats;
    struct slices s = finished(round->pool, &d, db);
    check_loss(s.losses);
    if (round->places < ALL_PLACES)
        check_events(round, s.losses);
    assert_true(stats.lost >= 0 && stats.records >= 0);
    if (stats.records + round->dropped != round->produced)
        assert_string_not_equal(s.losses, "");
    if (!round->is_scribbled)
        assert_int_equal(stats.records + stats.lost, round->produced);
    if (!round->is_scribbled && !round->dropped)
        assert_string_equal(s.losses, "");
    if (!round->is_taken_over)
        assert_true(stats.records <= round->produced + (round->is_scribbled ? 100 : 0));
}

static void test_scribble(void **state)
{
    const char *rounds = getenv("ROUNDS"), *seed = getenv("SEED");
    long count = rounds ? atol(rounds) : 20, first = seed ? atol(seed) : 1;
    static const unsigned places[] = {ALL_PLACES, ALL_PLACES - 1, 1};
    (void)state;
    for (long i = first; i < first + count; i++) {
        void *pool = NULL;
        assert_int_equal(setup(&pool), 0);
        struct round round = {.pool = pool,
                              .random = (uint64_t)i * 0x9e3779b97f4a7c15ull | 1,
                              .places = places[i % 3],
                              .segment = {SEGMENTS, SEGMENTS}};
        if (rounds)
            print_message("# round %ld\n", i);
        one_round(&round);
        assert_int_equal(teardown(&pool), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scribble)};
    return cmocka_run_group_tests_name("col_scribble", tests, NULL, NULL);
}
