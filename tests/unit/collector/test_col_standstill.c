/* SPDX-License-Identifier: Apache-2.0
 *
 * A collector that stands still for seconds, at any moment of a round: other programs have the
 * processor, it was stopped, or its machine was. The program that it records goes on meanwhile.
 * Every event is in the file, and what the agent counted as lost is in the loss table with its
 * number.
 */
#include <sys/syscall.h>
#include <time.h>

#include "tests/unit/col_fixture.h"

#define STANDSTILL_NS 3000000000
#define EVENTS        20         /* recorded during each standstill */
#define LOST          1000000000 /* events that the agent counts as lost during each */
#define REASON        WIRE_LOSS_NO_SEGMENT

/* The clock of the collector: that of the machine, and the time that was stood still. */
static struct {
    struct pool *pool; /* recorded meanwhile */
    int64_t stood;     /* ns so far */
    int reads_before;  /* of the clock until it stands still; below 0: it does not */
    int64_t recorded, lost;
} fake = {.reads_before = -1};

static int64_t read_machine(clockid_t clock)
{
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return col_time_ns(time);
}

static void stand_still(void)
{
    struct wire_loss *loss = &fake.pool->head->loss[REASON];
    fake.stood += STANDSTILL_NS;
    fake.pool->time = (uint64_t)(read_machine(CLOCK_MONOTONIC) + fake.stood);
    for (int i = 0; i < EVENTS; i++)
        event(fake.pool, 0, WIRE_MARK, 0, 0, 0);
    atomic_fetch_add(&loss->count, LOST);
    atomic_fetch_add(&fake.pool->head->losses, LOST);
    fake.recorded += EVENTS;
    fake.lost += LOST;
}

/* In place of the one of libc. The time was read when the machine stands still. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    int64_t now = read_machine(clock) + fake.stood;
    *time = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
    if (clock == CLOCK_MONOTONIC && fake.reads_before >= 0 && fake.reads_before-- == 0)
        stand_still();
    return 0;
}

/* Stands still after the first, the second ... reading of the clock, in one round after the other,
 * until a round has no more of them. */
static void test_standstill(void **state)
{
    struct pool *p = *state;
    struct col_drain drain;
    char lost[64];
    bool more;
    int reads = 0;
    fake.pool = p;
    store *db = created(p, &drain);
    turn(&drain);
    for (bool was_reached = true; was_reached; reads++) {
        fake.reads_before = reads;
        assert_int_equal(col_drain_round(&drain, &more), 0);
        was_reached = fake.reads_before < 0;
        fake.reads_before = -1;
        assert_int_equal(col_drain_commit(&drain), 0);
        turn(&drain);
    }
    struct slices found = finished(p, &drain, db);
    print_message("# stood still at %d places\n", reads - 1);
    assert_true(reads > 4);
    assert_int_equal(found.count, fake.recorded);
    snprintf(lost, sizeof lost, "event dropped: pool at its cap=%lld ", (long long)fake.lost);
    assert_string_equal(found.losses, lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_POOL(test_standstill)};
    return cmocka_run_group_tests_name("standstill", tests, NULL, NULL);
}
