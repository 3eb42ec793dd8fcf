/* SPDX-License-Identifier: Apache-2.0
 *
 * Litmus tests of what agent and collector hand to each other: the very functions of both ends, in
 * two threads of this process. The agent is linked in, and the collector's view is laid over the
 * agent's own mapping, so that ThreadSanitizer sees both ends at the same addresses.
 *
 *   message passing   records and their segment (`committed`, `state`), the capture window
 *   store buffering   the common case and a pause; a loss that is counted before there is a pool
 *
 * $TACHO_ORDER_ROUNDS multiplies the rounds (default 1).
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/agent/core/record.h"
#include "profiler/collector/pool/pool.h"
#include "profiler/control.h"

#define WORDS 6 /* of a payload */

static char folder[] = "/tmp/tacho-order-XXXXXX";
static int folder_fd;

static long rounds_of(long usual)
{
    const char *factor = getenv("TACHO_ORDER_ROUNDS");
#if defined(__SANITIZE_THREAD__)
    usual /= 10;
#endif
    return usual * (factor ? strtol(factor, NULL, 10) : 1);
}

/* Runs both at once, many times: they meet before each round. */
struct duel {
    void (*left)(long round), (*right)(long round);
    void (*before)(long round), (*after)(long round);
    long rounds;
    _Atomic long here;
};

static void meet(struct duel *duel, long count)
{
    atomic_fetch_add(&duel->here, 1);
    for (int spins = 0; atomic_load(&duel->here) < count; spins++)
        if (spins > 2000) /* the other one is not on a CPU */
            sched_yield();
}

static void *run_right(void *arg)
{
    struct duel *duel = arg;
    for (long round = 0; round < duel->rounds; round++) {
        meet(duel, 4 * round + 2);
        duel->right(round);
        meet(duel, 4 * round + 4);
    }
    return NULL;
}

static void run_duel(struct duel *duel)
{
    pthread_t right;
    assert_int_equal(pthread_create(&right, NULL, run_right, duel), 0);
    for (long round = 0; round < duel->rounds; round++) {
        duel->before(round);
        meet(duel, 4 * round + 2);
        duel->left(round);
        meet(duel, 4 * round + 4);
        duel->after(round);
    }
    pthread_join(right, NULL);
}

/* ---- records: committed, state ---- */

static struct {
    long events;
    _Atomic bool done;
} records;

static void *write_records(void *arg)
{
    uint32_t name = agent_name("order", true);
    (void)arg;
    for (long i = 0; i < records.events; i++) {
        uint64_t payload[WORDS];
        for (int word = 0; word < WORDS; word++)
            payload[word] = (uint64_t)i;
        agent_mark_fast(0, name, 0, payload, sizeof payload);
        if (i % 64 == 0)
            sched_yield(); /* so that segments are read while they are written */
    }
    atomic_store(&records.done, true);
    return NULL;
}

struct reading {
    struct col_map map;
    uint32_t position[64];
    uint64_t generation[64], chain, next, count;
};

/* The records of a piece: payloads that are whole, in the order in which they were written. */
static void check_piece(struct reading *reading, const uint8_t *piece, uint32_t bytes)
{
    uint32_t at = 0;
    while (at < bytes) {
        struct wire_record record;
        uint64_t payload[WORDS];
        memcpy(&record, piece + at, sizeof record);
        assert_in_range(record.words, 2, (bytes - at) / 8);
        if ((record.kind & WIRE_KIND_MASK) == WIRE_MARK) {
            assert_int_equal(record.words, 2 + 1 + WORDS);
            memcpy(payload, piece + at + sizeof record + 8, sizeof payload);
            assert_true(payload[0] >= reading->next);
            for (int word = 1; word < WORDS; word++)
                assert_int_equal(payload[word], payload[0]);
            reading->next = payload[0] + 1;
            reading->count++;
        }
        at += record.words * 8u;
    }
}

/* Reads what is new of one segment, as a file and as memory, and gives it back when it is full. */
static bool read_segment(struct reading *reading, uint32_t index)
{
    static uint8_t piece[WIRE_SEGMENT_BYTES], mapped[WIRE_SEGMENT_BYTES];
    struct col_map *map = &reading->map;
    const struct wire_segment *line = &map->line[index];
    uint32_t state = line->state, committed = line->committed;
    if ((state != WIRE_ACTIVE && state != WIRE_FULL) || line->chain_seq != reading->chain)
        return false;
    if (reading->generation[index] != line->generation)
        reading->position[index] = 0;
    reading->generation[index] = line->generation;
    uint32_t from = reading->position[index];
    assert_in_range(committed, from, WIRE_SEGMENT_BYTES);
    assert_true(col_map_read(map, index, from, piece, committed - from));
    memcpy(mapped, map->file.map + map->layout.segments_offset + index * WIRE_SEGMENT_BYTES + from,
           committed - from);
    assert_memory_equal(piece, mapped, committed - from);
    check_piece(reading, piece, committed - from);
    reading->position[index] = committed;
    if (state != WIRE_FULL)
        return false;
    reading->chain++;
    col_map_free_segment(map, index);
    return true;
}

static void test_records(void **state)
{
    struct reading reading = {.chain = 0};
    struct tacho_error err = {0};
    char name[64];
    pthread_t writer;
    (void)state;
    records.events = rounds_of(400000);
    assert_true(agent_start());
    struct agent_thread *thread = agent_enter(); /* makes the pool */
    enum wire_loss_reason reason;
    assert_non_null(thread);
    assert_non_null(agent_thread_room(thread, 16, &reason));
    agent_leave(thread);
    snprintf(name, sizeof name, WIRE_PREFIX "%d.0", (int)getpid());
    assert_int_equal(col_map_open(folder_fd, name, NULL, &reading.map, &err), 0);
    munmap(reading.map.file.map, reading.map.file.mapped);
    reading.map.file.map = (uint8_t *)atomic_load(&agent_process->pool);
    reading.map.file.mapped = atomic_load(&agent_process->pool)->file_bytes;
    assert_int_equal(pthread_create(&writer, NULL, write_records, NULL), 0);
    for (bool last = false; !last;) {
        last = atomic_load(&records.done);
        bool more = true;
        while (more) {
            more = false;
            assert_true(col_map_look(&reading.map, false));
            for (uint32_t i = 0; i < reading.map.peak; i++)
                if (reading.map.line[i].thread != thread->ordinal)
                    more |= read_segment(&reading, i);
        }
        sched_yield();
    }
    pthread_join(writer, NULL);
    assert_true(col_map_look(&reading.map, false));
    uint64_t lost = reading.map.head.loss[WIRE_LOSS_NO_SEGMENT].count;
    assert_true(!lost || reading.map.head.loss[WIRE_LOSS_NO_SEGMENT].first);
    printf("# %ld events: %lu read, %lu dropped, %lu segments\n", records.events, reading.count,
           lost, reading.chain);
    assert_int_equal(reading.count + lost, records.events);
    assert_true(reading.chain > 4);
    reading.map.file.map = NULL;
    col_map_close(&reading.map);
}

/* ---- the common case and a pause ---- */

static struct agent_thread one;
static char room[4096];

static void before_pause(long round)
{
    (void)round;
    atomic_store(&agent_pause_flag, 0);
    atomic_store(&one.common_end, NULL);
    atomic_store(&agent_process->pause_owner, &one);
}

static void refresh(long round)
{
    (void)round;
    agent_thread_refresh(&one);
}

static void begin_pause(long round)
{
    (void)round;
    agent_pause_begin(&one, true);
}

/* Whoever comes second sees the other one: no thread stays in the common case. */
static void after_pause(long round)
{
    (void)round;
    assert_int_equal(atomic_load(&agent_pause_flag), 1);
    assert_null(atomic_load(&one.common_end));
}

static void test_pause(void **state)
{
    struct duel duel = {.left = refresh,
                        .right = begin_pause,
                        .before = before_pause,
                        .after = after_pause,
                        .rounds = rounds_of(20000)};
    struct agent_thread *live = agent_process->live;
    (void)state;
    one.end = room + sizeof room;
    agent_process->live = &one;
    run_duel(&duel);
    agent_process->live = live;
    atomic_store(&agent_pause_flag, 0);
    atomic_store(&agent_process->pause_owner, NULL);
}

/* ---- a loss before there is a pool ---- */

/* The next pool inherits the names of the one before, which stays mapped until then. */
static struct wire_pool *first_pool, *pool_before;

static void before_loss(long round)
{
    (void)round;
    atomic_store(&agent_process->retry_at, 0); /* events may have been dropped before */
    atomic_store(&agent_process->pool, NULL);
}

static void lose(long round)
{
    (void)round;
    agent_lose(WIRE_LOSS_SIGNAL, 1);
}

static void open_pool(long round)
{
    (void)round;
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    assert_true(agent_pool_open());
    agent_unlock();
    agent_quiet_end(&quiet);
}

/* The loss is in the pool, be it counted before or after it was made. */
static void after_loss(long round)
{
    struct wire_pool *pool = atomic_load(&agent_process->pool);
    char path[128];
    (void)round;
    assert_int_equal(atomic_load(&pool->loss[WIRE_LOSS_SIGNAL].count), 1);
    assert_int_equal(atomic_load(&agent_process->early[WIRE_LOSS_SIGNAL]), 0);
    snprintf(path, sizeof path, "%s/" WIRE_PREFIX "%d.%u", folder, (int)getpid(),
             agent_process->number);
    assert_int_equal(unlink(path), 0);
    if (pool_before)
        munmap(pool_before, pool_before->file_bytes);
    pool_before = pool;
}

static void test_early_loss(void **state)
{
    struct duel duel = {.left = lose,
                        .right = open_pool,
                        .before = before_loss,
                        .after = after_loss,
                        .rounds = rounds_of(300)};
    (void)state;
    first_pool = atomic_load(&agent_process->pool);
    run_duel(&duel);
    atomic_store(&agent_process->pool, first_pool);
}

/* ---- the capture window ---- */

static struct wire_control control;
static long torn, whole;

static void no_step(long round)
{
    (void)round;
}

static void write_window(long round)
{
    for (int64_t i = 1; i <= 64; i++) {
        int64_t value = round * 64 + i;
        control_write(&control,
                      &(struct control_window){(uint32_t)value, value, value, value, value});
    }
}

static void read_window(long round)
{
    (void)round;
    for (int i = 0; i < 64; i++) {
        struct control_window seen;
        if (!control_read(&control, &seen))
            continue;
        whole++;
        torn += seen.mode != (uint32_t)seen.from || seen.from != seen.to ||
                seen.from != seen.every || seen.from != seen.until;
    }
}

static void test_window(void **state)
{
    struct duel duel = {.left = write_window,
                        .right = read_window,
                        .before = no_step,
                        .after = no_step,
                        .rounds = rounds_of(5000)};
    (void)state;
    run_duel(&duel);
    assert_true(whole > 0);
    assert_int_equal(torn, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_early_loss),
        cmocka_unit_test(test_window),
    };
    if (!mkdtemp(folder) || (folder_fd = open(folder, O_RDONLY | O_DIRECTORY)) < 0)
        return 1;
    setenv(WIRE_ENV_SEGMENTS, folder, 1);
    setenv(WIRE_ENV_POOL_MIB, "1", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char path[128];
    snprintf(path, sizeof path, "%s/" WIRE_PREFIX "%d.0", folder, (int)getpid());
    unlink(path);
    rmdir(folder);
    return failed;
}
