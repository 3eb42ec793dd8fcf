/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults that an alert names only if they coincide with the change: links, devices, NCCL's network,
 * NUMA, throttle reasons; runs that stand still in a collective, with phases of several ranks.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/monitor.h"
#include "tests/unit/monitor/mon_series.h"

#define RANKS   4
#define STEP_MS 100
#define CHANGE  600 /* the step from which on it is slower */
#define STEPS   900
#define MS      1000000ll

static struct mon_config config;

struct told {
    bool seen;
    struct mon_symptom symptom;
};

static void on_notice(void *ctx, const struct mon_notice *notice)
{
    struct told *told = ctx;
    if (notice->event == MON_RESOLVED || told->seen)
        return;
    told->seen = true;
    told->symptom = notice->alert->symptom;
}

/* A step of 100 ms of four ranks; from CHANGE on a phase takes 30 ms more, on one rank or on all.
 */
static void add_step(struct mon_monitor *monitor, uint64_t *state, int64_t index,
                     enum mon_phase phase, int64_t rank, int64_t *now)
{
    double slower = index >= CHANGE ? 30 : 0, transfer = 15 * (1 + 0.02 * series_normal(state));
    double own[RANKS], slowest = 0;
    for (int64_t i = 0; i < RANKS; i++) {
        bool here = phase == MON_PHASE_COMPUTE && (rank < 0 || rank == i);
        own[i] = 85 * (1 + 0.01 * series_normal(state)) + (here ? slower : 0);
        slowest = fmax(slowest, own[i]);
    }
    transfer += phase == MON_PHASE_COMMUNICATION ? slower : 0;
    int64_t end = *now + (int64_t)((slowest + transfer) * MS);
    for (int64_t i = 0; i < RANKS; i++) {
        struct mon_step step = {.rank = i,
                                .index = index,
                                .start = *now,
                                .end = end,
                                .has_phases = true,
                                .tokens = NAN,
                                .flops = NAN};
        step.phase_ms[MON_PHASE_COMPUTE] = own[i];
        step.phase_ms[MON_PHASE_COMMUNICATION] = slowest - own[i] + transfer;
        assert_int_equal(mon_step(monitor, &step), 0);
    }
    *now = end;
    mon_tick(monitor, end);
}

struct fault {
    const char *counter, *device;
    double before, after; /* before NAN: there was none */
    bool sampled;         /* every second, else when it changes */
    enum mon_phase phase;
    enum mon_cause cause, otherwise;
    const char *words;
};

/* The alert of a run that gets slower at CHANGE; the counter of rank 2 changes so many seconds
 * later. */
static struct mon_symptom run_fault(const struct fault *fault, double later_s)
{
    struct told told = {.seen = false};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &told);
    struct mon_counter *counter = mon_counter(monitor, fault->counter, fault->device, -1);
    uint64_t state = 99;
    int64_t now = 0, second = 0;
    double written = NAN;
    assert_non_null(counter);
    mon_counter_belongs(counter, 2);
    for (int64_t step = 0; step < STEPS; step++) {
        if (now >= second) {
            bool changed = (double)now / 1e9 >= CHANGE * STEP_MS / 1e3 + later_s;
            double value = changed ? fault->after : fault->before;
            if (!isnan(value) && (fault->sampled || isnan(written) || fabs(value - written) > 0))
                mon_value(monitor, counter, now, value);
            written = value;
            second = now + 1000 * MS;
        }
        add_step(monitor, &state, step, fault->phase, -1, &now);
    }
    mon_free(monitor);
    assert_true(told.seen);
    assert_string_equal(told.symptom.code, "STEP_TIME");
    assert_true(labs((long)(told.symptom.since_step - CHANGE)) <= 3);
    return told.symptom;
}

static const struct fault faults[] = {
    {"pcie_width", "pci:0000:3b:00.0", 16, 4, false, MON_PHASE_COMMUNICATION,
     MON_CAUSE_LINK_DEGRADED, MON_CAUSE_LINK, "PCIe width of pci:0000:3b:00.0 (rank 2) 16 -> 4"},
    {"pcie_speed", "pci:0000:3b:00.0", 32, 8, false, MON_PHASE_COMMUNICATION,
     MON_CAUSE_LINK_DEGRADED, MON_CAUSE_LINK, "32 -> 8 GT/s"},
    {"gpu_nvlink_active", "gpu:2", 18, 16, true, MON_PHASE_COMMUNICATION, MON_CAUSE_LINK_DEGRADED,
     MON_CAUSE_LINK, "NVLinks of gpu:2 (rank 2) 18 -> 16"},
    {"link_rate", "mlx5_0/1", 400, 100, false, MON_PHASE_COMMUNICATION, MON_CAUSE_LINK_DEGRADED,
     MON_CAUSE_LINK, "rate of the link of mlx5_0/1 (rank 2) 400 -> 100 Gb/s"},
    {"nccl_network", NULL, 2, 1, false, MON_PHASE_COMMUNICATION, MON_CAUSE_NET_FALLBACK,
     MON_CAUSE_LINK, "(rank 2) 2 -> 1"},
    {"gpu_xid", "pci:0000:3b:00.0", NAN, 79, false, MON_PHASE_COMPUTE, MON_CAUSE_DEVICE_ERROR,
     MON_CAUSE_COMPUTE, "Xid of pci:0000:3b:00.0 (rank 2) 79"},
    {"gpu_ecc_uncorrected", "gpu:2", 0, 3, true, MON_PHASE_COMPUTE, MON_CAUSE_DEVICE_ERROR,
     MON_CAUSE_COMPUTE, "uncorrected ECC errors of gpu:2 (rank 2) 0 -> 3"},
    {"gpu_remapped_rows", "gpu:2", 1, 2, true, MON_PHASE_COMPUTE, MON_CAUSE_DEVICE_ERROR,
     MON_CAUSE_COMPUTE, "remapped rows of memory of gpu:2 (rank 2) 1 -> 2"},
    {"numa_node", NULL, 0, 1, true, MON_PHASE_COMPUTE, MON_CAUSE_NUMA, MON_CAUSE_COMPUTE,
     "NUMA node that it runs on (rank 2) 0 -> 1"},
    {"gpu_throttle_reasons", "gpu:2", 1, 0x40, true, MON_PHASE_COMPUTE, MON_CAUSE_CLOCKS,
     MON_CAUSE_COMPUTE, "throttle reasons of gpu:2 (rank 2): heat (hardware)"},
};

static void test_coincident(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct mon_symptom symptom = run_fault(&faults[i], 0.4);
        if (symptom.cause != faults[i].cause || !strstr(symptom.changed, faults[i].words))
            fail_msg("%s: %s, %s", faults[i].counter, mon_cause_name(symptom.cause),
                     symptom.changed);
    }
}

/* Half a minute before the change, or some seconds after it: it is another matter. */
static void test_not_coincident(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int when = 0; when < 2; when++) {
            struct mon_symptom symptom = run_fault(&faults[i], when ? 10 : -30);
            if (symptom.cause != faults[i].otherwise || strstr(symptom.changed, "at the same"))
                fail_msg("%s: %s, %s", faults[i].counter, mon_cause_name(symptom.cause),
                         symptom.changed);
        }
}

/* ---- runs that stand still ------------------------------------------------------------------- */

static void add_collective(struct mon_monitor *monitor, int64_t rank, int64_t communicator,
                           int64_t number, int64_t start, int64_t end)
{
    assert_int_equal(mon_collective(monitor, &(struct mon_collective){.rank = rank,
                                                                      .communicator = communicator,
                                                                      .number = number,
                                                                      .start = start,
                                                                      .end = end,
                                                                      .name = "all_reduce"}),
                     0);
}

/* 100 steps of four ranks in two groups; then rank 3 does not start what rank 2 waits in. */
static struct mon_symptom run_hang(bool xid)
{
    struct told told = {.seen = false};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &told);
    struct mon_counter *fault = mon_counter(monitor, "gpu_xid", "pci:0000:3b:00.0", -1);
    uint64_t state = 5;
    int64_t now = 0;
    mon_counter_belongs(fault, 3);
    for (int64_t step = 0; step < 100; step++) {
        for (int64_t rank = 0; rank < RANKS; rank++)
            add_collective(monitor, rank, 7 + rank / 2, step, now + 90 * MS, now + 95 * MS);
        add_step(monitor, &state, step, MON_PHASE_OTHER, -1, &now);
    }
    for (int64_t rank = 0; rank < RANKS - 1; rank++)
        add_collective(monitor, rank, 7 + rank / 2, 100, now + 90 * MS,
                       rank < 2 ? now + 95 * MS : INT64_MIN);
    if (xid)
        mon_value(monitor, fault, now + 50 * MS, 79);
    mon_tick(monitor, now + 59000 * MS);
    assert_false(told.seen);
    mon_tick(monitor, now + 61000 * MS);
    mon_free(monitor);
    assert_true(told.seen);
    assert_string_equal(told.symptom.code, "STALLED");
    return told.symptom;
}

static void test_last_collectives(void **state)
{
    (void)state;
    struct mon_symptom symptom = run_hang(false);
    assert_string_equal(symptom.changed,
                        "communicator 7: all_reduce 100 started by 2 of 2 ranks, completed by 2; "
                        "communicator 8: all_reduce 100 started by 1 of 2 ranks, completed by 0; "
                        "rank 3: all_reduce 99 completed");
    assert_int_equal(symptom.cause, MON_CAUSE_HANG);
    assert_int_equal(symptom.rank_count, 1);
    assert_int_equal(symptom.rank[0], 3);
    symptom = run_hang(true);
    assert_int_equal(symptom.cause, MON_CAUSE_DEVICE_ERROR);
    assert_non_null(
        strstr(symptom.changed, "at the same time Xid of pci:0000:3b:00.0 (rank 3) 79"));
}

/* What was open at a look and is not any more is over; a job that was started again counts anew. */
static void test_collectives_settle(void **state)
{
    (void)state;
    struct told told = {.seen = false};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &told);
    uint64_t random = 5;
    int64_t now = 0;
    for (int64_t step = 0; step < 30; step++)
        add_step(monitor, &random, step, MON_PHASE_OTHER, -1, &now);
    add_collective(monitor, 0, 7, 40, now, INT64_MIN);
    add_collective(monitor, 1, 7, 2, now + 2 * MS, now + 3 * MS);
    mon_tick(monitor, now + 1000 * MS);
    mon_open_none(monitor); /* the next look: nothing is open */
    add_collective(monitor, 0, 7, 3, now + 1500 * MS, INT64_MIN);
    mon_tick(monitor, now + 62000 * MS);
    mon_free(monitor);
    assert_string_equal(told.symptom.changed,
                        "communicator 7: all_reduce 3 started by 1 of 2 ranks, completed by 0; "
                        "rank 1: all_reduce 2 completed");
}

/* A checkpoint of one rank does not end with that of another one, and one that is written beside
 * the steps does not hide that they stand still. */
static void test_phases_of_ranks(void **state)
{
    (void)state;
    struct told told = {.seen = false};
    struct mon_monitor *monitor = mon_new(&config, 0, on_notice, &told);
    uint64_t random = 5;
    int64_t now = 0, step = 0;
    for (; step < 30; step++)
        add_step(monitor, &random, step, MON_PHASE_OTHER, -1, &now);
    mon_phase_range(monitor, "checkpoint", 0, now, INT64_MIN);
    mon_phase_range(monitor, "checkpoint", 1, now, INT64_MIN);
    mon_phase_range(monitor, "checkpoint", 1, now, now + 5000 * MS);
    mon_tick(monitor, now + 300000 * MS); /* of the first one an hour is allowed... */
    assert_true(told.seen);               /* ...but ten times 5 s of those that were seen */
    told.seen = false;
    mon_free(monitor);

    monitor = mon_new(&config, 0, on_notice, &told);
    now = step = 0;
    for (; step < 30; step++)
        add_step(monitor, &random, step, MON_PHASE_OTHER, -1, &now);
    mon_phase_range(monitor, "checkpoint", 0, now, INT64_MIN);
    mon_phase_range(monitor, "checkpoint", 1, now, INT64_MIN);
    mon_phase_range(monitor, "checkpoint", 1, now, now + 20000 * MS);
    mon_tick(monitor, now + 190000 * MS);
    assert_false(told.seen);
    now += 195000 * MS;
    mon_phase_range(monitor, "checkpoint", 0, now - 195000 * MS, now);
    mon_phase_range(monitor, "checkpoint", 0, now, INT64_MIN); /* by a thread of its own */
    for (; step < 60; step++)
        add_step(monitor, &random, step, MON_PHASE_OTHER, -1, &now);
    assert_false(told.seen);
    mon_tick(monitor, now + 61000 * MS);
    assert_true(told.seen);
    assert_string_equal(told.symptom.phase, "");
    mon_free(monitor);
}

int main(void)
{
    mon_config_init(&config);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coincident),       cmocka_unit_test(test_not_coincident),
        cmocka_unit_test(test_last_collectives), cmocka_unit_test(test_collectives_settle),
        cmocka_unit_test(test_phases_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
