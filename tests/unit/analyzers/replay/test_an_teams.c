/* SPDX-License-Identifier: Apache-2.0
 *
 * A team of threads (OpenMP) on cores that it shares: predictions beside the truth of a simulated
 * machine. The simulation knows cores, time slices and threads, and nothing of the replay's model:
 * it makes the recording, and it runs the changed program as well.
 */
#include <math.h>

#include "tests/unit/an_identity.h"

#define US       1000
#define MS       1000000
#define TICK     (50 * US)
#define THREADS  8
#define STEPS    40
#define BATCHES  4 /* made ahead */
#define SAMPLING (20 * MS)

/* A program: each step takes a batch and then computes in regions that end with a barrier. A thread
 * of the team waits at a barrier on its core until all have come (active waiting). */
struct program {
    int cores, team, others, workers; /* others: busy threads of other programs */
    int64_t batch, region;            /* ns of work: of a batch, of a region in each thread */
    int regions;
    int64_t slice;  /* the scheduler's */
    int64_t spin;   /* ns that a thread waits at a barrier before it sleeps; 0: it never does */
    int64_t nap;    /* ns that a thread sleeps in a batch before it works on it */
    int nap_every;  /* batches of which the last one sleeps; 0: all do */
    bool pinned;    /* threads stay on their cores: thread i on core i modulo cores */
    int64_t serial; /* ns of work of the step's thread alone before each region */
    int64_t hot; /* ns after it ran for which a thread is not moved to another core, unless that is
                    free when it wakes up (Linux: 0.5 ms); 0: it is moved at any time */
    int64_t waking; /* ns from the call that wakes a thread until it is ready */
    int64_t tick;   /* ns; 0: TICK */
    int steps;      /* 0: STEPS */
    bool sized;     /* a region is a GEMM of ROWS tokens and a layer of SIZE x SIZE */
};

enum { ROWS = 256, SIZE = 64 };

/* A thread of the simulation. The first ones are the team, then come workers, then others. */
struct thread {
    int64_t work, received, waited; /* work left; time on a core; time ready without one */
    int64_t nap;                    /* left of sleeping in a batch */
    int64_t spun;                   /* waited at this barrier, on a core */
    int64_t account;                /* time on a core, as the scheduler counts it */
    int64_t ran;                    /* when it last had a core */
    int home;                       /* that core */
    bool waits, sleeps;             /* at a barrier, on its core; for a batch, on none */
};

struct machine {
    struct program program;
    struct thread thread[THREADS];
    int thread_count, running[THREADS]; /* of each core; -1: none */
    int64_t slice_left[THREADS], now;
    int made, taken, begun; /* batches */
    int region;             /* -1: the batch */
};

static bool is_ready(const struct thread *thread)
{
    return !thread->sleeps && thread->nap <= 0 && (thread->work > 0 || thread->waits);
}

static bool is_running(const struct machine *machine, int number)
{
    for (int core = 0; core < machine->program.cores; core++)
        if (machine->running[core] == number)
            return true;
    return false;
}

static bool may_run_on(const struct machine *machine, int number, int core)
{
    const struct thread *thread = &machine->thread[number];
    if (machine->program.pinned)
        return number % machine->program.cores == core;
    return thread->home == core || machine->now - thread->ran >= machine->program.hot;
}

/* The ready thread that has had the least time; one that a core may run. */
static int next_thread(const struct machine *machine, int core)
{
    int best = -1;
    for (int i = 0; i < machine->thread_count; i++) {
        if (!is_ready(&machine->thread[i]) || is_running(machine, i) ||
            !may_run_on(machine, i, core))
            continue;
        if (best < 0 || machine->thread[i].account < machine->thread[best].account)
            best = i;
    }
    return best;
}

/* Gives each core whose slice is over, or whose thread sleeps, another thread. */
static void schedule(struct machine *machine)
{
    for (int core = 0; core < machine->program.cores; core++) {
        int now = machine->running[core];
        if (now >= 0 && is_ready(&machine->thread[now]) && machine->slice_left[core] > 0)
            continue;
        machine->running[core] = -1;
        machine->running[core] = next_thread(machine, core);
        machine->slice_left[core] = machine->program.slice;
        if (machine->running[core] >= 0)
            machine->thread[machine->running[core]].home = core;
    }
}

/* Moves a thread that wakes up to a core that nobody uses, where its own is taken. */
static void find_home(struct machine *machine, struct thread *thread)
{
    int taken = machine->running[thread->home];
    if (taken < 0 || !is_ready(&machine->thread[taken]))
        return;
    for (int core = 0; core < machine->program.cores; core++) {
        int other = machine->running[core];
        if (other < 0 || !is_ready(&machine->thread[other]))
            thread->home = core;
    }
}

/* Who slept has not saved up time. */
static void wake(struct machine *machine, int number)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < machine->thread_count; i++)
        if (i != number && is_ready(&machine->thread[i]) && machine->thread[i].account < least)
            least = machine->thread[i].account;
    struct thread *thread = &machine->thread[number];
    if (least != INT64_MAX && thread->account < least - machine->program.slice)
        thread->account = least - machine->program.slice;
    if (thread->sleeps && machine->program.waking)
        thread->nap = machine->program.waking;
    else if (machine->program.hot)
        find_home(machine, thread);
    thread->sleeps = false;
}

/* A ready thread works, or spins at a barrier until it sleeps there, where it has a core. */
static void run_for(struct machine *machine, int number, int64_t ns)
{
    struct thread *thread = &machine->thread[number];
    if (!is_running(machine, number)) {
        thread->waited += ns;
        return;
    }
    thread->received += ns;
    thread->account += ns;
    thread->ran = machine->now;
    thread->spun += thread->work ? 0 : ns;
    thread->work -= thread->work < ns ? thread->work : ns;
    if (machine->program.spin && thread->spun >= machine->program.spin)
        thread->sleeps = true;
}

/* A thread begins a batch. */
static void begin_batch(struct machine *machine, int number)
{
    struct thread *thread = &machine->thread[number];
    bool naps = !machine->program.nap_every || ++machine->begun % machine->program.nap_every == 0;
    thread->work = machine->program.batch;
    thread->nap = (thread->nap > 0 ? thread->nap : 0) + (naps ? machine->program.nap : 0);
}

static void work_for(struct machine *machine, int64_t ns)
{
    for (int i = 0; i < machine->thread_count; i++) {
        struct thread *thread = &machine->thread[i];
        if (thread->nap > 0 && (thread->nap -= ns) <= 0)
            wake(machine, i);
        else if (is_ready(thread))
            run_for(machine, i, ns);
    }
    for (int core = 0; core < machine->program.cores; core++)
        machine->slice_left[core] -= ns;
    machine->now += ns;
}
/* Workers make batches while the queue has room. */
static void feed_workers(struct machine *machine)
{
    const struct program *program = &machine->program;
    for (int i = program->team; i < program->team + program->workers; i++) {
        struct thread *thread = &machine->thread[i];
        if (thread->work > 0)
            continue;
        machine->made += !thread->sleeps;
        if (machine->made - machine->taken < BATCHES) {
            if (thread->sleeps)
                wake(machine, i);
            begin_batch(machine, i);
        } else {
            machine->made -= !thread->sleeps; /* it hands over once there is room */
            thread->sleeps = true;
            machine->made += thread->work == 0 && machine->made - machine->taken < BATCHES;
        }
    }
}

/* Begins the next region of the team, or its batch. True: the step's thread got on. */
static bool advance_team(struct machine *machine)
{
    const struct program *program = &machine->program;
    struct thread *main = &machine->thread[0];
    for (int i = 0; i < program->team; i++)
        if (machine->thread[i].work > 0)
            return false;
    if (machine->region < 0 && program->workers && machine->made <= machine->taken) {
        main->sleeps = true;
        return false;
    }
    if (machine->region < 0) {
        machine->taken++;
        if (main->sleeps)
            wake(machine, 0);
    }
    machine->region = machine->region + 1 == program->regions ? -1 : machine->region + 1;
    for (int i = 0; i < program->team; i++) {
        machine->thread[i].waits = true;
        machine->thread[i].spun = 0;
        machine->thread[i].work = machine->region >= 0 ? program->region : 0;
        machine->thread[i].work += machine->region >= 0 && i == 0 ? program->serial : 0;
        if (machine->thread[i].sleeps && machine->thread[i].work)
            wake(machine, i);
    }
    if (machine->region < 0 && !program->workers) {
        if (main->sleeps)
            wake(machine, 0);
        begin_batch(machine, 0);
    }
    return true;
}

/* What is recorded of the run. */
struct recording {
    struct fixture *f; /* NULL: only the step's time is asked for */
    int64_t wait, decode, collate, matmul, loader, counter[4];
    int64_t busy, sampled, begun, batch_begun;
    int worker_made;
};

static int64_t sized_gemm(struct fixture *f)
{
    struct store_detail gemm = fx_empty();
    gemm.schema = "tacho.work";
    gemm.kind = "matrix";
    gemm.dtype = "fp32";
    gemm.pass = "forward";
    gemm.flops = 2 * ROWS * SIZE * SIZE;
    gemm.bytes_read = 4 * (ROWS + SIZE) * SIZE;
    gemm.bytes_written = 4 * ROWS * SIZE;
    return fx_intern(f, &gemm);
}

static void begin_recording(struct recording *recording, const struct program *program)
{
    struct fixture *f = recording->f;
    recording->wait = fx_kind(f, "input_wait");
    recording->decode = fx_kind(f, "decode");
    recording->collate = fx_kind(f, "collate");
    recording->matmul = program->sized ? sized_gemm(f) : fx_work(f, "matrix", "fp32", 1, 1, 1);
    if (program->workers)
        recording->loader = fx_track(f, f->process, "thread", "loader-0", NULL);
    recording->counter[0] = fx_track(f, f->process, "counter", "cpu_time", "ns");
    recording->counter[1] = fx_track(f, f->process, "counter", "cpu_wait", "ns");
    recording->counter[2] = fx_track(f, FX_NONE, "counter", "cpu_busy", "%");
    recording->counter[3] = fx_track(f, f->process, "counter", "thread_time", "ns");
    FX(store_run_set_int(f->s, "cpu.usable", program->cores));
    FX(store_run_set_int(f->s, "cpu.online", program->cores));
}

/* /proc, as the collector reads it: CPU time of all threads; run-queue wait and CPU time of the
 * first one. */
static void sample(struct recording *recording, const struct machine *machine)
{
    struct fixture *f = recording->f;
    int64_t used = 0, busy = 0;
    for (int i = 0; i < machine->thread_count; i++) {
        busy += machine->thread[i].received;
        used +=
            i < machine->program.team + machine->program.workers ? machine->thread[i].received : 0;
    }
    fx_counter(f, recording->counter[0], machine->now, (double)used);
    fx_counter(f, recording->counter[1], machine->now, (double)machine->thread[0].waited);
    fx_counter(f, recording->counter[3], machine->now, (double)machine->thread[0].received);
    if (machine->now > recording->sampled)
        fx_counter(f, recording->counter[2], machine->now,
                   100.0 * (double)(busy - recording->busy) /
                       (double)(machine->now - recording->sampled) / machine->program.cores);
    recording->busy = busy;
    recording->sampled = machine->now;
}

/* The ranges of a batch in line, or of the wait for one. */
static void record_batch(struct recording *recording, const struct machine *machine)
{
    struct fixture *f = recording->f;
    int64_t start = recording->begun, end = machine->now;
    fx_slice(f, f->thread, start, end, "input", recording->wait);
    if (machine->program.workers || end - start < 2 * US)
        return;
    fx_slice(f, f->thread, start, end - US, "decode", recording->decode);
    fx_slice(f, f->thread, end - US, end, "collate", recording->collate);
}

/* The ranges of a worker whenever it has made another batch. */
static void record_worker(struct recording *recording, const struct machine *machine)
{
    struct fixture *f = recording->f;
    const struct thread *worker = &machine->thread[machine->program.team];
    if (!machine->program.workers)
        return;
    if (recording->batch_begun < 0 && worker->work > 0)
        recording->batch_begun = machine->now;
    if (recording->batch_begun < 0 || machine->made == recording->worker_made)
        return;
    fx_slice(f, recording->loader, recording->batch_begun, machine->now - US, "decode",
             recording->decode);
    fx_slice(f, recording->loader, machine->now - US, machine->now, "collate", recording->collate);
    recording->worker_made = machine->made;
    recording->batch_begun = worker->work > 0 ? machine->now : -1;
}

static struct machine machine_of(const struct program *program)
{
    struct machine machine = {.program = *program, .region = -1};
    machine.thread_count = program->team + program->workers + program->others;
    for (int core = 0; core < program->cores; core++)
        machine.running[core] = -1;
    for (int i = program->team + program->workers; i < machine.thread_count; i++)
        machine.thread[i].work = INT64_MAX / 2;
    for (int i = program->team; i < program->team + program->workers; i++)
        begin_batch(&machine, i);
    for (int i = 0; i < program->team; i++)
        machine.thread[i].waits = true;
    for (int i = 0; i < machine.thread_count; i++)
        machine.thread[i].home = i % program->cores;
    if (!program->workers)
        begin_batch(&machine, 0);
    return machine;
}

/* Runs the program and returns the mean time of its steps in ms, without the first four. */
static double simulate(const struct program *program, struct fixture *f)
{
    struct machine machine = machine_of(program);
    struct recording recording = {.f = f, .batch_begun = -1};
    int64_t begun = 0, counted = 0, tick = program->tick ? program->tick : TICK;
    int step = 0, steps = program->steps ? program->steps : STEPS;
    if (f)
        begin_recording(&recording, program);
    while (step < steps) {
        schedule(&machine);
        work_for(&machine, tick);
        feed_workers(&machine);
        if (f)
            record_worker(&recording, &machine);
        int before = machine.region;
        if (advance_team(&machine)) {
            if (f && before < 0)
                record_batch(&recording, &machine);
            else if (f)
                fx_slice(f, f->thread, recording.begun, machine.now, "matmul", recording.matmul);
            recording.begun = machine.now;
            if (machine.region < 0) {
                if (f)
                    fx_step(f, f->process, f->thread, step, begun, machine.now,
                            program->sized ? ROWS : 4, false);
                begun = machine.now;
                counted = ++step == 4 ? begun : counted;
            }
        }
        if (f && machine.now % SAMPLING == 0)
            sample(&recording, &machine);
    }
    return (double)(begun - counted) / (steps - 4) / MS;
}

/* ---- predictions beside it ------------------------------------------------------------------- */

/* Records a program, replays the edit, and compares with the changed program: its step lies in the
 * interval, what is expected misses it by `most` per cent at most, and the interval is at most
 * `wide` points wide. */
static void compare(const struct program *before, const char *edit, const struct program *after,
                    double most, double wide)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    double recorded = simulate(before, f), truth = simulate(after, NULL);
    struct an_options options = {.file = "run.tacho", .what_if = edit};
    const struct an_result *result = fx_analyze_with(f, &options);
    if (result->advice.reason)
        fail_msg("nothing was replayed: %s", result->advice.reason);
    const struct an_what_if *what_if = &result->advice.edits[0];
    if (what_if->reason || what_if->ceiling)
        fail_msg("%s: %s", edit, what_if->reason ? what_if->reason : what_if->ceiling);
    double expected = what_if->step_ms.value, low = what_if->step_low_ms.value,
           high = what_if->step_high_ms.value, width = 100 * (high - low) / recorded;
    printf("%s: %.2f ms, predicted %.2f [%.2f, %.2f], measured %.2f\n", edit, recorded, expected,
           low, high, truth);
    if (truth < low * 0.96 || truth > high * 1.04)
        fail_msg("the interval misses what was measured");
    if (fabs(expected / truth - 1) * 100 > most)
        fail_msg("off by %.1f %%, more than %.1f %%", fabs(expected / truth - 1) * 100, most);
    if (width > wide)
        fail_msg("%.1f points wide, more than %.1f", width, wide);
    fx_close(f);
}

/* Two threads on two cores, in short regions, beside one busy thread of another program. */
static void test_spinner(void **state)
{
    (void)state;
    struct program alone = {.cores = 2,
                            .team = 2,
                            .batch = 100 * US,
                            .region = 500 * US,
                            .regions = 40,
                            .slice = 3 * MS},
                   beside = alone;
    beside.others = 1;
    compare(&beside, "others=0", &alone, 10, 100);
    alone.pinned = beside.pinned = true;
    compare(&beside, "others=0", &alone, 10, 100);
}

/* A batch that the step's thread makes itself moves to a worker, on cores that the team fills. */
static void test_worker(void **state)
{
    (void)state;
    struct program before = {.cores = 2,
                             .team = 2,
                             .batch = 6 * MS,
                             .region = 500 * US,
                             .regions = 28,
                             .slice = 3 * MS},
                   after = before;
    after.workers = 1;
    compare(&before, "loader.workers=1", &after, 10, 100);
}

/* Steps of less than a millisecond, in which a team on all cores computes for a small part. */
static const struct program short_batch = {.cores = 2,
                                           .team = 2,
                                           .batch = 150 * US,
                                           .region = 4 * US,
                                           .serial = 16 * US,
                                           .regions = 10,
                                           .slice = 3 * MS,
                                           .spin = 2 * US,
                                           .hot = MS / 2,
                                           .waking = 6 * US,
                                           .tick = 2 * US,
                                           .steps = 1000};

/* A worker keeps its core for a whole batch, and the team's thread that it took it from waits
 * there. A core seems to be free; nothing is gained. With one thread all of it is. */
static void test_short_batch(void **state)
{
    (void)state;
    struct program before = short_batch, after = before;
    after.workers = 1;
    compare(&before, "loader.workers=1", &after, 10, 90);
    before.team = after.team = 1;
    compare(&before, "loader.workers=1", &after, 10, 20);
}

/* A curve on which a GEMM takes 10 us in fp32, and half of it in bf16. */
static void add_curve(struct fixture *f)
{
    for (int i = 0; i < 18; i++) {
        int rows = ROWS / 4 << i % 3 * 2, size = SIZE / 2 << i / 3 % 3;
        double us = 10 * sqrt((double)rows / ROWS * size / SIZE) / (i < 9 ? 1 : 2);
        char name[48];
        snprintf(name, sizeof name, "gemm_forward:%dx%dx%d", rows, size, size);
        struct store_ceiling ceiling = {.device = "cpu",
                                        .resource = name,
                                        .dtype = i < 9 ? "fp32" : "bf16",
                                        .source = "measured: for this test",
                                        .value = 2e6 * rows * size * size / us};
        FX(store_ceiling_add(f->s, &ceiling));
    }
}

/* The same beside an edit that is read in four ways: GEMMs take half as long, or as many ns less as
 * on the curve, which is a quarter. All of them count, and what is assumed is said once. */
static void test_readings_of_a_short_batch(void **state)
{
    static const char stops[] = "its team of threads fills the cores";
    struct program before = short_batch;
    struct fixture fx, *f = &fx;
    (void)state;
    before.sized = true;
    fx_open(f);
    FX(store_run_set(f->s, "command", "[\"train\",\"gpt2-tiny\"]"));
    add_curve(f);
    struct store_slice begin = {.track = f->thread,
                                .start = FX_BASE,
                                .name = fx_string(f, "begin"),
                                .category = fx_string(f, "libtrain"), /* the engine's domain */
                                .detail = FX_NONE,
                                .correlation = FX_NONE};
    FX(store_slice_add(f->s, &begin));
    double batch = (double)before.batch / MS, rest = simulate(&before, f) - batch;
    struct an_options options = {.file = "run.tacho", .what_if = "loader.workers=1,precision=bf16"};
    const struct an_what_if *what_if = &fx_analyze_with(f, &options)->advice.together;
    if (what_if->reason)
        fail_msg("%s", what_if->reason);
    const char *said = strstr(what_if->condition, stops);
    assert_non_null(said);
    assert_null(strstr(said + 1, stops));
    double call_us = 1e3 * rest / before.regions, shares = 0.5 + (call_us - 5) / call_us;
    assert_near(what_if->step_ms.value, batch + shares / 2 * rest, 0.06 * rest);
    fx_close(f);
}

/* A batch takes as long as the compute of a step, so long that the team's other thread sleeps: half
 * of the machine is free, and still a worker gains next to nothing. */
static void test_long_batch(void **state)
{
    (void)state;
    struct program before = {.cores = 2,
                             .team = 2,
                             .batch = 60 * MS,
                             .region = 500 * US,
                             .regions = 120,
                             .slice = 3 * MS,
                             .spin = 10 * MS},
                   after = before;
    after.workers = 1;
    compare(&before, "loader.workers=1", &after, 10, 40);
}

/* The step's thread sleeps in its batch (a slow disk, another machine), while the team's other
 * thread spins: a worker that sleeps takes no core from them, and all of the wait goes. */
static void test_sleeping_batch(void **state)
{
    struct program before = {.cores = 2,
                             .team = 2,
                             .batch = 100 * US,
                             .nap = 8 * MS,
                             .region = 500 * US,
                             .regions = 20,
                             .slice = 3 * MS,
                             .spin = 20 * MS},
                   after = before;
    (void)state;
    after.workers = 1;
    compare(&before, "loader.workers=1", &after, 4, 15);
    before.spin = after.spin = MS; /* the other thread soon sleeps, too */
    compare(&before, "loader.workers=1", &after, 4, 15);
    before.nap = after.nap = 40 * MS;
    after.workers = 2;
    compare(&before, "loader.workers=2", &after, 4, 15);
}

/* Each third batch takes 80 ms, the others next to nothing: no step is typical. With two workers
 * the step is a third; the median step is what it was. */
static void test_uneven_batches(void **state)
{
    struct program before = {.cores = 2,
                             .team = 2,
                             .batch = 100 * US,
                             .nap = 80 * MS,
                             .nap_every = 3,
                             .region = 500 * US,
                             .regions = 20,
                             .slice = 3 * MS},
                   after = before;
    struct fixture fx, *f = &fx;
    (void)state;
    after.workers = 2;
    fx_open(f);
    double truth = 100 * (simulate(&before, f) / simulate(&after, NULL) - 1);
    struct an_options options = {.file = "run.tacho",
                                 .what_if = "loader.workers=2,loader.prefetch=40"};
    const struct an_gain *gain = &fx_analyze_with(f, &options)->advice.together.gain;
    printf("gain %.1f [%.1f, %.1f], measured %.1f\n", gain->expected.value, gain->low.value,
           gain->high.value, truth);
    /* the simulated workers hand over out of order, so that none waits for the other */
    assert_true(gain->expected.value > 0.65 * truth && gain->low.value > truth / 2);
    fx_close(f);
}

/* A worker beside the team has less to do. */
static void test_less_work(void **state)
{
    (void)state;
    struct program before = {.cores = 2,
                             .team = 2,
                             .workers = 1,
                             .batch = 10 * MS,
                             .region = 500 * US,
                             .regions = 40,
                             .slice = 3 * MS},
                   after = before;
    after.batch = 50 * US;
    compare(&before, "loader=0", &after, 10, 100);
}

/* One thread, and a core for each: nothing to gain. */
static void test_room(void **state)
{
    (void)state;
    struct program alone = {.cores = 4,
                            .team = 2,
                            .batch = 100 * US,
                            .region = 500 * US,
                            .regions = 40,
                            .slice = 3 * MS},
                   beside = alone;
    beside.others = 2;
    compare(&beside, "others=0", &alone, 2, 10);
    alone.team = beside.team = 1;
    compare(&beside, "others=0", &alone, 2, 10);
    alone.cores = beside.cores = 1;
    beside.others = 1;
    compare(&beside, "others=0", &alone, 10, 100);
}

/* What the run has already gains nothing: in line, on workers, beside others, for each key. */
static void test_identities(void **state)
{
    (void)state;
    struct program program = {
        .cores = 2, .team = 2, .batch = 3 * MS, .region = 500 * US, .regions = 20, .slice = 3 * MS};
    for (int shape = 0; shape < 8; shape++) {
        struct fixture fx, *f = &fx;
        program.team = shape & 1 ? 1 : 2;
        program.workers = shape & 2 ? 1 : 0;
        program.others = shape & 4 ? 1 : 0;
        fx_open(f);
        simulate(&program, f);
        fx_analyze(f);
        size_t named = check_identities(f->reader, 2 * program.workers);
        assert_true(named >= (program.workers ? 9 : 7));
        fx_close(f);
    }
}

static const char *run_path;

/* The same of a recorded run. */
static void test_run(void **state)
{
    struct tacho_error err = {0};
    store_reader *reader = NULL;
    (void)state;
    if (store_open(run_path, &reader, &err))
        fail_msg("%s", err.what);
    printf("%zu edits change nothing\n", check_identities(reader, 0));
    store_reader_close(reader);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest run[] = {cmocka_unit_test(test_run)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spinner),        cmocka_unit_test(test_worker),
        cmocka_unit_test(test_short_batch),    cmocka_unit_test(test_readings_of_a_short_batch),
        cmocka_unit_test(test_long_batch),     cmocka_unit_test(test_less_work),
        cmocka_unit_test(test_room),           cmocka_unit_test(test_identities),
        cmocka_unit_test(test_sleeping_batch), cmocka_unit_test(test_uneven_batches)};
    run_path = argc > 1 ? argv[1] : NULL;
    return run_path ? cmocka_run_group_tests(run, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
