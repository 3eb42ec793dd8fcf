/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives on the CPU: made-up ranks whose times are known, so that overlap, transfer, waiting
 * and who is waited for follow by hand.
 */
#include "tests/unit/an_gpu.h"

#define US    1000
#define STEPS 12

/* Each step: compute, then two all-reduces of `transfer` us each, either in a comm_wait of the
 * step's thread or, with overlap, on a thread comm-0 beside the last part of compute. Rank 1
 * computes `late` us longer. Times in us. */
struct shape {
    int ranks, size; /* size: of the communicator as the calls say it; 0: ranks */
    int compute, late, transfer;
    bool overlap;
    int64_t bytes, more; /* of a call; more: of those of rank 1 */
    bool no_sequence, two_communicators, broadcast;
    int paused; /* this step of rank 1 was not recorded; -1: none */
    const char *command, *launcher;
    int64_t job; /* ranks of the job, of which the calls do not say who takes part; 0: they do */
    bool thread_beside; /* one that communicates, too late */
    int calls;          /* each of the two all-reduces is sent as so many in a row; 0: one */
    double link;        /* bytes/s that calibration measured, 0: it did not */
    double gradients;   /* their bytes, as the program reports them; 0: it does not */
    int unseen;         /* us of a wait after the calls, for one that is not recorded */
};

static void collective(struct fixture *f, int64_t track, int64_t start, int64_t end,
                       const char *name, int64_t bytes, int64_t communicator, int64_t ranks,
                       int64_t sequence)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.comm";
    d.collective = name;
    d.bytes = bytes;
    d.communicator = communicator;
    d.ranks = ranks;
    struct store_slice x = {.track = track,
                            .start = FX_BASE + start * US,
                            .dur = (end - start) * US,
                            .name = fx_string(f, name),
                            .category = fx_string(f, "libtrain"),
                            .detail = fx_intern(f, &d),
                            .correlation = sequence};
    FX(store_slice_add(f->s, &x));
}

/* When the ranks leave collective k of a step that began at 0: the last one comes, then both
 * transfers. */
static int64_t comes(const struct shape *s, int rank, int k)
{
    int64_t done =
        s->compute +
        (rank ? s->late
              : 0); /* gradients of the second bucket; with overlap the first is ready at half */
    return s->overlap && !k ? done / 2 : done;
}

static int64_t leaves(const struct shape *s, int k)
{
    int64_t last = comes(s, s->ranks - 1, k), before = k ? leaves(s, 0) : 0;
    return (last > before ? last : before) + s->transfer;
}

static void one_step(struct fixture *f, const struct shape *s, int rank, int64_t process,
                     int64_t thread, int64_t comm, int i)
{
    int64_t length = leaves(s, 1) + 1000, at = i * length, done = comes(s, rank, 1),
            size = s->size ? s->size : s->ranks;
    bool paused = rank && i == s->paused;
    fx_step(f, process, thread, i, at * US, (at + length) * US, 64, paused);
    if (paused)
        return;
    fx_slice(f, thread, at * US, (at + done) * US, "matmul", fx_work(f, "matrix", "fp32", 1, 1, 1));
    fx_slice(f, thread, (at + done) * US, (at + leaves(s, 1)) * US, "comm_wait",
             fx_kind(f, "comm_wait"));
    for (int k = 0; k < 2; k++) {
        int64_t from = comes(s, rank, k);
        from = k && leaves(s, 0) > from ? leaves(s, 0) : from;
        int calls = s->calls ? s->calls : 1;
        int64_t each = s->transfer / calls, shared = leaves(s, k) - s->transfer;
        for (int n = 0; n < calls; n++) /* the first of them waits for the other rank */
            collective(f, s->overlap ? comm : thread, at + (n ? shared + n * each : from),
                       at + shared + (n + 1) * each, s->broadcast && k ? "broadcast" : "all_reduce",
                       s->bytes + (rank ? s->more : 0), s->two_communicators ? k : 0,
                       s->job ? FX_NONE : size,
                       s->no_sequence         ? FX_NONE
                       : s->two_communicators ? i
                                              : (2 * i + k) * calls + n);
    }
    int64_t waited = at + leaves(s, 1) + s->unseen;
    if (s->unseen)
        fx_slice(f, thread, (waited - s->unseen) * US, waited * US, "Work.wait",
                 fx_kind(f, "comm_wait"));
    fx_slice(f, thread, waited * US, (at + length) * US, "adamw",
             fx_work(f, "other", "fp32", 1, 0, 0));
}

static const struct an_result *make(struct fixture *f, struct shape s)
{
    s.ranks = s.ranks ? s.ranks : 2;
    s.paused = s.paused ? s.paused : -1;
    fx_open(f);
    for (int rank = 0; rank < s.ranks; rank++) {
        int64_t process = fx_process(f, rank, "train"),
                thread = fx_track(f, process, "thread", "main", NULL);
        int64_t comm =
            s.overlap || s.thread_beside ? fx_track(f, process, "thread", "comm-0", NULL) : 0;
        for (int i = 0; i < STEPS; i++)
            one_step(f, &s, rank, process, thread, comm, i);
        if (s.thread_beside)
            fx_slice(f, comm, 0, 1000, "wakes", fx_kind(f, "host"));
    }
    if (s.job)
        FX(store_run_set_int(f->s, "world_size", s.job));
    if (s.command)
        FX(store_run_set(f->s, "command", s.command));
    if (s.link > 0) {
        struct store_ceiling c = {"cpu", "mpi_bandwidth", "", "measured: for this test", s.link};
        FX(store_ceiling_add(f->s, &c));
    }
    if (s.gradients > 0)
        fx_counter(f, fx_track(f, f->process, "counter", "memory.gradients", ""), 0, s.gradients);
    if (s.launcher) {
        FX(store_run_set(f->s, "job.launcher", s.launcher));
        FX(store_run_set_int(f->s, "job.ranks", s.ranks));
    }
    return fx_analyze(f);
}

static const struct an_finding *exposed(const struct an_result *r)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, "EXPOSED_COMM"))
            return &r->findings[i];
    return NULL;
}

static void says(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text ? text : "(null)", part);
}

/* Two calls of 2 ms after 10 ms of compute; nothing hides them. */
static void test_blocking_calls(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r =
        make(f, (struct shape){.compute = 10000, .transfer = 2000, .bytes = 1000000});
    const struct an_communication *x = &r->communication;
    assert_null(x->reason);
    assert_null(x->missing);
    assert_near(x->bytes_per_step.value, 2e6, 1e-6);
    assert_near(x->total_ms.value, 4, 1e-9);
    assert_near(x->exposed_ms.value, 4, 1e-9);
    assert_near(x->overlap_pct.value, 0, 1e-9);
    assert_near(x->transfer_ms.value, 4, 1e-9);
    assert_near(x->waiting_ms.value, 0, 1e-9);
    assert_near(x->exposed_transfer_ms.value, 4, 1e-9);
    assert_near(x->blocking_proven_ms.value, 4, 1e-9);
    assert_near(x->skew_ms.value, 0, 1e-9);
    assert_int_equal(x->calls, 2 * 2 * (STEPS - 2)); /* the first and the last step do not count */
    assert_int_equal(x->matched, x->calls);
    assert_int_equal(x->collective_count, 1);
    const struct an_collective *k = &x->collectives[0];
    assert_string_equal(k->name, "all_reduce");
    assert_int_equal(k->ranks.value, 2);
    assert_near(k->calls_per_step.value, 2, 1e-9);
    assert_near(k->bytes_per_call.value, 1e6, 1e-6);
    assert_near(k->bytes_max_over_mean.value, 1, 1e-9);
    assert_near(k->algorithm_bytes_per_s.value, 1e6 / 2e-3, 1);
    assert_near(k->bus_bytes_per_s.value, 1e6 / 2e-3, 1); /* 2 (2 - 1) / 2 = 1 */
    assert_string_equal(k->bandwidth_of, "transfer");
    assert_int_equal(r->budget.ns[AN_CLASS_COMM].value, 2 * (STEPS - 2) * 4000 * (int64_t)US);
    fx_close(f);
}

/* On a thread of its own the first bucket runs beside compute, and only what is left is exposed. */
static void test_overlap(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_communication *x =
        &make(f,
              (struct shape){.compute = 10000, .transfer = 2000, .bytes = 1000000, .overlap = true})
             ->communication;
    assert_near(x->total_ms.value, 4, 1e-9);
    assert_near(x->exposed_ms.value, 2, 1e-9);
    assert_near(x->overlap_pct.value, 50, 1e-9);
    assert_near(x->exposed_transfer_ms.value, 2, 1e-9);
    assert_near(x->exposed_waiting_ms.value, 0, 1e-9);
    assert_near(x->transfer_ms.value, 4, 1e-9);
    fx_close(f);
}

/* A slowed rank is waiting on the other one, and it is the one who is waited for. A slowed link is
 * transfer on both. */
static void test_slow_rank_and_slow_link(void **state)
{
    static const struct {
        struct shape s;
        double transfer, waiting[2], exposed_waiting[2], exposed[2], caused[2], last[2];
    } cases[] = {
        {{.compute = 10000, .late = 3000, .transfer = 2000},
         4,
         {3, 0},
         {3, 0},
         {7, 4},
         {0, 3},
         {0, 50}},
        {{.compute = 10000, .late = 0, .transfer = 5000},
         10,
         {0, 0},
         {0, 0},
         {10, 10},
         {0, 0},
         {0, 0}},
        /* the first bucket of rank 0 waits 1.5 ms beside compute, the second 3 ms in the open */
        {{.compute = 10000, .late = 3000, .transfer = 2000, .overlap = true},
         4,
         {4.5, 0},
         {3, 0},
         {5, 2},
         {0, 4.5},
         {0, 100}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fixture, *f = &fixture;
        const struct an_communication *x = &make(f, cases[i].s)->communication;
        assert_int_equal(x->rank_count, 2);
        for (int k = 0; k < 2; k++) {
            const struct an_comm_rank *rank = &x->ranks[k];
            assert_int_equal(rank->rank, k);
            assert_near(rank->transfer_ms.value, cases[i].transfer, 1e-9);
            assert_near(rank->waiting_ms.value, cases[i].waiting[k], 1e-9);
            assert_near(rank->exposed_waiting_ms.value, cases[i].exposed_waiting[k], 1e-9);
            assert_near(rank->exposed_ms.value, cases[i].exposed[k], 1e-9);
            assert_near(rank->exposed_ms.value,
                        rank->exposed_waiting_ms.value + rank->exposed_transfer_ms.value, 1e-9);
            assert_near(rank->caused_ms.value, cases[i].caused[k], 1e-9);
            assert_near(rank->last_pct.value, cases[i].last[k], 1e-9);
        }
        fx_close(f);
    }
}

/* One file of two ranks: no split, and the missing rank is named. */
static void test_missing_rank(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r = make(
        f,
        (struct shape){.ranks = 1, .size = 3, .compute = 10000, .transfer = 2000, .bytes = 1000});
    const struct an_communication *x = &r->communication;
    says(x->missing, "ranks 1, 2 of 3 are not in the file");
    assert_false(x->waiting_ms.valid || x->transfer_ms.valid || x->exposed_waiting_ms.valid ||
                 x->skew_ms.valid);
    says(x->waiting_ms.reason, "ranks 1, 2 of 3");
    assert_near(x->exposed_ms.value, 4, 1e-9);
    assert_int_equal(x->matched, 0);
    assert_false(x->collectives[0].transfer_ms.valid);
    assert_string_equal(x->collectives[0].bandwidth_of, "time");
    assert_near(x->collectives[0].bus_bytes_per_s.value, 1000 / 2e-3 * 4 / 3, 1e-3);
    fx_close(f);
    /* calls that do not say who takes part, as NCCL's kernels of older traces: the job's size does
     */
    r = make(f, (struct shape){.compute = 10000, .transfer = 2000, .job = 128});
    says(r->communication.missing, "ranks 2, 3, 4, 5, 6, 7, 8, 9 ... of 128 are not in the file");
    says(r->ranks.missing, "of 128");
    fx_close(f);
    r = make(f, (struct shape){.compute = 10000, .transfer = 2000, .job = 2});
    assert_null(r->communication.missing);
    fx_close(f);
}

/* Calls that cannot be matched leave the split absent; a step whose calls were not recorded on one
 * rank leaves only itself out.
 */
static void test_unmatched_calls(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape s = {.compute = 10000, .late = 1000, .transfer = 2000, .no_sequence = true};
    const struct an_communication *x = &make(f, s)->communication;
    assert_false(x->waiting_ms.valid);
    says(x->waiting_ms.reason, "sequence number");
    assert_false(x->bytes_per_step.valid && x->bytes_per_step.value > 0);
    fx_close(f);
    s.no_sequence = false;
    s.broadcast = true;
    x = &make(f, s)->communication;
    assert_false(x->waiting_ms.valid);
    assert_int_equal(x->collective_count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(x->collectives[i].waiting_ms.valid,
                         !strcmp(x->collectives[i].name, "all_reduce"));
    fx_close(f);
    s.broadcast = false;
    s.paused = 5;
    x = &make(f, s)->communication;
    assert_near(x->ranks[0].waiting_ms.value, 1, 1e-9);
    assert_near(x->ranks[1].caused_ms.value, 1, 1e-9);
    assert_near(x->ranks[0].exposed_ms.value, 5, 1e-9);
    assert_int_equal(x->calls - x->matched, 2); /* those of rank 0 in that step */
    fx_close(f);
}

static void test_uneven_bytes_and_communicators(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape s = {
        .compute = 10000, .transfer = 2000, .bytes = 1000, .more = 1000, .two_communicators = true};
    const struct an_communication *x = &make(f, s)->communication;
    assert_int_equal(x->collective_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(x->collectives[i].count, 2 * (STEPS - 2));
        assert_int_equal(x->collectives[i].matched, x->collectives[i].count);
        assert_near(x->collectives[i].bytes_max_over_mean.value, 4.0 / 3, 1e-9);
    }
    assert_true(x->collectives[0].communicator.value != x->collectives[1].communicator.value);
    assert_near(x->bytes_per_step.value, 3000, 1e-9);
    fx_close(f);
}

/* Waiting points to the rank that is late, transfer to buckets and overlap, one rank alone to
 * recording all of them. */
static void test_finding(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *r =
        make(f, (struct shape){.compute = 10000, .late = 3000, .transfer = 100});
    const struct an_finding *x = exposed(r);
    assert_non_null(x);
    says(x->claim, "waits for other ranks");
    says(x->action, "rank 1");
    assert_null(strstr(x->action, "bucket"));
    assert_true(x->gain.ceiling && !x->gain.expected.valid && !x->gain.low.valid);
    fx_close(f);
    r = make(f, (struct shape){.compute = 10000, .late = 8000, .transfer = 100});
    assert_string_equal(r->verdict_class,
                        "STRAGGLER-BOUND"); /* not communication: who is waited for */
    says(r->verdict, "waits for rank 1");
    says(r->findings[0].action, "rank 1");
    fx_close(f);
    r = make(f, (struct shape){.compute = 10000, .transfer = 2000, .bytes = 1 << 20});
    x = exposed(r);
    says(x->claim, "transfer");
    says(x->action, "overlap");
    assert_string_equal(r->verdict_class, "COMMUNICATION-BOUND");
    assert_near(x->gain.high.value, 100 * (15.0 / 11 - 1), 1e-6);
    fx_close(f);
    r = make(f,
             (struct shape){.compute = 10000, .transfer = 2000, .bytes = 1 << 20, .overlap = true});
    says(exposed(r)->action, "bucket");
    fx_close(f);
    r = make(f, (struct shape){.ranks = 1, .size = 2, .compute = 10000, .transfer = 2000});
    x = exposed(r);
    says(x->action, "record");
    assert_null(strstr(x->action, "bucket"));
    assert_null(strstr(x->action, "overlap"));
    fx_close(f);
    r = make(f, (struct shape){.compute = 10000, .transfer = 50}); /* 0.9 % of the step */
    assert_null(exposed(r));
    assert_int_equal(r->finding_count, 0);
    fx_close(f);
}

/* Nothing overlaps, and nobody asked for that: advice that fits the command. */
static void test_no_overlap(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape s = {.compute = 10000,
                      .transfer = 2000,
                      .bytes = 4 << 20,
                      .command = "[\"train\",\"--steps\",\"9\"]"};
    const struct an_finding *x = exposed(make(f, s));
    says(x->action, "MPI library");
    assert_null(strstr(x->action, "--no-overlap"));
    fx_close(f);
    s.thread_beside = true; /* it could: 8 MiB a step in 8 buckets */
    x = exposed(make(f, s));
    says(x->action, "--bucket-mib 1");
    says(x->verify, "train --steps 9 --bucket-mib 1;");
    assert_null(strstr(x->action, "--no-overlap"));
    fx_close(f);
    s.command = "[\"train\",\"--no-overlap\"]";
    says(exposed(make(f, s))->action, "run without --no-overlap");
    fx_close(f);
}

/* Beside calls that block there is one that does not, of which only the wait is recorded: no
 * overlap is found, and none is claimed or advised. Where more overlaps than is waited for so, it
 * is. */
static void test_waits_without_a_call(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape shape = {.compute = 10000, .transfer = 2000, .bytes = 1000000, .unseen = 500};
    const struct an_result *result = make(f, shape);
    assert_false(result->communication.overlap_pct.valid);
    assert_false(result->communication.ranks[0].overlap_pct.valid);
    says(result->communication.overlap_pct.reason, "not visible");
    assert_near(result->communication.total_ms.value, 4.5, 1e-9);
    says(exposed(result)->claim, "500 µs around it (other waits for communication)");
    assert_null(strstr(exposed(result)->action, "overlap the gradients"));
    assert_string_equal(exposed(result)->what_if, "comm=0");
    fx_close(f);
    shape.overlap = true;
    result = make(f, shape);
    assert_near(result->communication.overlap_pct.value, 100 * 2 / 4.5, 1e-9);
    fx_close(f);
}

/* Calls of unknown size are waits for collectives that ran elsewhere: no overlap is found, and none
 * is claimed or advised. */
static void test_waits_of_unknown_size(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    const struct an_result *result =
        make(f, (struct shape){.compute = 10000, .transfer = 2000, .bytes = FX_NONE});
    assert_false(result->communication.overlap_pct.valid);
    says(result->communication.overlap_pct.reason, "not visible");
    assert_near(result->communication.total_ms.value, 4, 1e-9);
    says(exposed(result)->action, "not visible");
    assert_null(strstr(exposed(result)->action, "overlap the gradients"));
    assert_null(strstr(exposed(result)->action, "bucket"));
    assert_string_equal(exposed(result)->what_if, "comm=0");
    fx_close(f);
}

/* Many small messages pay latency, and large ones far below the measured link a slow link: neither
 * is mended by smaller buckets or by overlap. */
static void test_remedy_fits_the_link(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape s = {.compute = 10000,
                      .transfer = 2000,
                      .bytes = 20 << 10, /* 20 KiB in 100 us: 0.2 GB/s of 2 */
                      .calls = 20,
                      .link = 2e9,
                      .thread_beside = true,
                      .command = "[\"train\",\"--bucket-mib\",\"0.02\"]"};
    const struct an_finding *x = exposed(make(f, s));
    says(x->action, "larger buckets (0.25 MiB, not 0.02): 40 messages a step cost latency");
    says(x->verify, "train --bucket-mib 0.25;");
    says(x->what_if, "comm=0.102x"); /* the bytes alone take 10 % of that time */
    assert_null(strstr(x->action, "smaller"));
    fx_close(f);
    s.link = 0.3e9; /* then the bytes take most of it */
    assert_null(strstr(exposed(make(f, s))->action, "larger"));
    fx_close(f);
    s = (struct shape){.compute = 10000,
                       .transfer = 4000,
                       .bytes = 1 << 20,
                       .link = 2e9,
                       .command = "[\"train\",\"--slow-link\",\"8\",\"--no-overlap\"]"};
    x = exposed(make(f, s)); /* 0.26 GB/s */
    says(x->action, "7.6 times slower than the measured link");
    says(x->verify, "train --slow-link 1 --no-overlap;");
    says(x->what_if, "link=7.6x");
    fx_close(f);
    s.link = 0.5e9; /* cores that are shared explain as much */
    says(exposed(make(f, s))->action, "run without --no-overlap");
    fx_close(f);
}

/* Two all-reduces of 4 MiB a step: of 8 MiB of gradients each is sent once, of 1 MiB eight times.
 * Of the 4 ms of transfer an eighth is left. A link as fast as this one is not the reason. */
static void test_gradients_sent_again(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape s = {.compute = 10000,
                      .transfer = 2000,
                      .bytes = 4 << 20,
                      .link = 2.2e9,
                      .gradients = 1 << 20,
                      .command = "[\"train\",\"--slow-link\",\"8\",\"--no-overlap\"]"};
    const struct an_finding *x = exposed(make(f, s));
    says(x->action, "send each gradient once: 8.39 MB are reduced a step, 8 times");
    says(x->verify, "train --slow-link 1 --no-overlap;");
    assert_near(x->gain.expected.value, 100 * (15.0 / 11.5 - 1), 1);
    fx_close(f);
    s.gradients = 8 << 20;
    says(exposed(make(f, s))->action, "run without --no-overlap");
    fx_close(f);
    s.gradients = 1 << 20;
    s.command = "[\"train\",\"--accumulate\",\"8\"]";
    says(exposed(make(f, s))->action, "a reduction after each micro-step");
    fx_close(f);
}

/* What verifies can be typed: a flag that has to go is left out. */
static void test_verify(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    struct shape s = {.compute = 10000, .transfer = 2000, .bytes = 1 << 20};
    s.command = "[\"mpirun\",\"train\",\"--no-overlap\",\"--steps\",\"9\"]";
    assert_string_equal(exposed(make(f, s))->verify,
                        "`tacho run -o after.tacho -- mpirun train --steps 9; tacho diff run.tacho "
                        "after.tacho`, and read the row "
                        "exposed communication");
    fx_close(f);
    s = (struct shape){
        .compute = 10000, .late = 3000, .transfer = 100, .command = "[\"mpirun\",\"train\"]"};
    says(
        exposed(make(f, s))->verify,
        "with rank 1 made faster: `tacho run -o after.tacho -- mpirun train; tacho diff run.tacho");
    fx_close(f);
    /* what the recorder has hidden cannot be typed again */
    s = (struct shape){.compute = 10000, .transfer = 2000, .bytes = 1 << 20};
    s.command = "[\"train\",\"--no-overlap\",\"--token\",\"<redacted>\"]";
    const char *verify = exposed(make(f, s))->verify;
    assert_null(strstr(verify, "tacho run"));
    says(verify, "where the stored command says <redacted>");
    fx_close(f);
    static const struct { /* tacho was started by the launcher: the command is that of one rank */
        const char *launcher, *start;
    } jobs[] = {{"openmpi", "mpirun -np 2"},
                {"hydra", "mpirun -np 2"},
                {"slurm", "srun -n 2"},
                {"torchrun", "torchrun --no-python --nproc-per-node 2"}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char want[200];
        s = (struct shape){
            .compute = 10000, .transfer = 2000, .bytes = 1 << 20, .launcher = jobs[i].launcher};
        s.command = "[\"train\",\"--no-overlap\"]";
        snprintf(want, sizeof want,
                 "%s tacho run -o after.tacho -- train; tacho diff run.tacho after.tacho",
                 jobs[i].start);
        says(exposed(make(f, s))->verify, want);
        fx_close(f);
    }
}

/* A trace of torch.profiler with gloo: its ranges lie on a thread of their own, the waiting thread
 * is in no range. Step of 1000: the op until 500, the all-reduce is issued; it ends at 900, the
 * buckets are copied back at 910; rank 1 sleeps 200 before. The hole from 0 to 200 is no waiting,
 * for nothing is reduced then. */
static void test_gloo(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    FX(store_run_set(f->s, "world_size", "2"));
    for (int r = 0; r < 2; r++) {
        int64_t process = fx_process(f, r, "python3"),
                main = fx_track(f, process, "thread", "main", NULL),
                gloo = fx_track(f, process, "thread", "pt_gloo_runloop", NULL);
        for (int i = 0; i < 24; i++) {
            int64_t b = i * 1000, late = r ? 200 : 0;
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", i);
            gpu_row(f, main, b, b + 1000, name, "annotation", FX_NONE);
            gpu_row(f, main, b + late, b + 500 + late, "aten::mm", "op", FX_NONE);
            gpu_row(f, main, b + 500 + late, b + 510 + late, "c10d::allreduce_", "op", FX_NONE);
            gpu_row(f, gloo, b + 510 + late, b + 900, "gloo:all_reduce", "annotation", FX_NONE);
            gpu_row(f, main, b + 910, b + 930, "torch.distributed.ddp.reducer::copy_bucket_to_grad",
                    "op", FX_NONE);
            gpu_row(f, main, b + 930, b + 1000, "aten::add_", "op", FX_NONE);
        }
    }
    const struct an_result *r = fx_analyze(f);
    const struct an_communication *x = &r->communication;
    const struct an_budget *b = &r->budget;
    assert_null(x->reason);
    assert_near((double)b->ns[AN_CLASS_COMM].value / (double)b->steps, 1000 * (400 + 200) / 2.,
                1); /* 510 to 910, 710 to 910 */
    assert_near((double)b->ns[AN_CLASS_UNATTRIBUTED].value / (double)b->steps, 1000 * 200 / 2., 1);
    assert_near(x->ranks[0].waiting_ms.value, 0.2, 1e-6);
    assert_near(x->ranks[1].waiting_ms.value, 0, 1e-6);
    assert_near(x->transfer_ms.value, 0.19, 1e-6);
    assert_int_equal(x->matched, x->calls);
    assert_int_equal(r->ranks.straggler.rank, 1);
    assert_int_equal(r->trust.events, 2 * 24 * 6); /* inferred waits are none of the file's */
    fx_close(f);
}

/* A run without collectives says so; one without steps lists its calls. */
static void test_absent(void **state)
{
    struct fixture fixture, *f = &fixture;
    (void)state;
    fx_open(f);
    fx_slice(f, f->thread, 0, 10, "work", FX_NONE);
    assert_non_null(fx_analyze(f)->communication.reason);
    fx_close(f);
    fx_open(f);
    for (int i = 0; i < 5; i++)
        collective(f, f->thread, i * 100, i * 100 + 50, "all_gather", 4000, 1, 4, i);
    const struct an_communication *x = &fx_analyze(f)->communication;
    assert_null(x->reason);
    assert_false(x->total_ms.valid);
    assert_int_equal(x->collective_count, 1);
    assert_int_equal(x->collectives[0].count, 5);
    assert_near(x->collectives[0].bus_bytes_per_s.value, 4000 / 50e-6 * 3 / 4, 1e-3);
    fx_close(f);
}

/* A program without steps: several kinds of collectives, each with a row of its own. */
static void test_no_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    int64_t track = fx_track(f, f->process, "comm", "ncclComm 1", NULL);
    for (int i = 0; i < 4; i++) {
        collective(f, track, 100 * i, 100 * i + 10, "all_reduce", 2048, 77, 8, i);
        collective(f, track, 100 * i + 20, 100 * i + 30, "broadcast", 64, 77, 8, 10 + i);
        collective(f, track, 100 * i + 40, 100 * i + 50, "all_reduce", 512, 78, 4, i);
    }
    const struct an_result *r = fx_analyze(f);
    assert_null(r->communication.reason);
    assert_int_equal(r->communication.collective_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r->communication.collectives[i].count, 4);
        assert_false(r->communication.collectives[i].bytes_max_over_mean.valid);
        assert_false(r->communication.collectives[i].bytes_per_step.valid);
    }
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocking_calls),
                                       cmocka_unit_test(test_overlap),
                                       cmocka_unit_test(test_slow_rank_and_slow_link),
                                       cmocka_unit_test(test_missing_rank),
                                       cmocka_unit_test(test_unmatched_calls),
                                       cmocka_unit_test(test_uneven_bytes_and_communicators),
                                       cmocka_unit_test(test_finding),
                                       cmocka_unit_test(test_no_overlap),
                                       cmocka_unit_test(test_waits_of_unknown_size),
                                       cmocka_unit_test(test_waits_without_a_call),
                                       cmocka_unit_test(test_remedy_fits_the_link),
                                       cmocka_unit_test(test_gradients_sent_again),
                                       cmocka_unit_test(test_verify),
                                       cmocka_unit_test(test_no_steps),
                                       cmocka_unit_test(test_gloo),
                                       cmocka_unit_test(test_absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
