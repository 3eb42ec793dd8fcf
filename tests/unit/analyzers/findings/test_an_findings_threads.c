/* SPDX-License-Identifier: Apache-2.0
 *
 * Teams and cores: more threads than cores whose steps wait for a core, fewer threads while cores
 * are idle, and runs in which neither can be said. Steps of 100 ms on a machine of four cores.
 */
#include "tests/unit/an_fixture.h"

#define MS    1000000ll
#define STEPS 24

static int64_t usual_ms = 80, fastest_ms = 80; /* of compute in a step */
static int ranks = 1;                          /* processes with such steps, at the same time */
static const char *domain = "libtrain";        /* of its ranges */
static int64_t batch_ms;                       /* of loading after it, on the same thread */
static const char *quota; /* cores of its control group, which refuses 0.6, and whose thread runs
                             for 0.6 of the time; NULL: not recorded */

/* A rank with steps on its main thread, and its counters: cores that it keeps busy, the part
 * of the time in which its thread has no core. */
static void rank_steps(struct fixture *f, int64_t rank, double own, double wait)
{
    int64_t process = rank ? fx_process(f, rank, "train") : f->process;
    struct store_track steps = {
        .process = process, .tid = 100 + rank, .kind = "thread", .name = "steps"};
    struct store_detail work = fx_empty();
    FX(store_track_add(f->s, &steps));
    char key[64];
    snprintf(key, sizeof key, "process.%lld.cpu_quota", (long long)process);
    if (quota)
        FX(store_run_set(f->s, key, quota));
    work.schema = "tacho.work";
    work.kind = "matrix";
    work.flops = 1000;
    int64_t detail = fx_intern(f, &work);
    int64_t time = fx_track(f, process, "counter", "cpu_time", "ns"),
            queue = fx_track(f, process, "counter", "cpu_wait", "ns"),
            refused = quota ? fx_track(f, process, "counter", "cpu_throttled", "ns") : FX_NONE,
            thread = quota ? fx_track(f, process, "counter", "thread_time", "ns") : FX_NONE;
    for (int i = 0; i < STEPS; i++) {
        fx_step(f, process, steps.id, i, i * 100 * MS, (i + 1) * 100 * MS, 400, false);
        struct store_slice slice = {.track = steps.id,
                                    .start = FX_BASE + i * 100 * MS + 1000,
                                    .dur = (i % 8 ? usual_ms : fastest_ms) * MS,
                                    .name = fx_string(f, "matmul"),
                                    .category = fx_string(f, domain),
                                    .detail = detail,
                                    .correlation = FX_NONE};
        FX(store_slice_add(f->s, &slice));
        int64_t at = i * 100 * MS + (1 + usual_ms) * MS;
        if (batch_ms)
            fx_slice(f, steps.id, at, at + batch_ms * MS, "collate", fx_kind(f, "collate"));
    }
    for (int i = 0; i <= STEPS; i++) {
        fx_counter(f, time, i * 100 * MS, i * own * 1e8);
        fx_counter(f, queue, i * 100 * MS, i * wait * 1e8);
        if (!quota)
            continue;
        fx_counter(f, refused, i * 100 * MS, i * 0.6 * 1e8);
        fx_counter(f, thread, i * 100 * MS, i * 0.6 * 1e8);
    }
}

/* A run of the engine: cores that each rank and all programs keep busy, the part of the time in
 * which the thread of a rank has no core, its environment (NULL: none). */
static void run(struct fixture *f, double own, double all, double wait, const char *environment)
{
    fx_open(f);
    FX(store_run_set(f->s, "cpu.online", "4"));
    FX(store_run_set(f->s, "cpu.usable", "4"));
    FX(store_run_set(f->s, "command", "[\"train\",\"gpt2-tiny\"]"));
    if (environment)
        FX(store_run_set(f->s, "environment", environment));
    int64_t busy = fx_track(f, FX_NONE, "counter", "cpu_busy", "%");
    for (int rank = 0; rank < ranks; rank++)
        rank_steps(f, rank, own, wait);
    for (int i = 0; i <= STEPS; i++)
        fx_counter(f, busy, i * 100 * MS, 100 * all / 4);
}

static const struct an_finding *finding(const struct an_result *result, const char *id)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, id))
            return &result->findings[i];
    return NULL;
}

/* Each eighth step computes for 60 ms, the others for 98. */
static void test_too_many(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    usual_ms = 98;
    fastest_ms = 60;
    run(f, 3.2, 3.3, 0.3, "{\"LANG\":\"C\",\"OMP_NUM_THREADS\":\"8\",\"OMP_PROC_BIND\":\"close\"}");
    usual_ms = fastest_ms = 80;
    const struct an_result *result = fx_analyze(f);
    const struct an_finding *threads = finding(result, "THREADS");
    assert_non_null(threads);
    assert_ptr_equal(threads, result->findings); /* a fault goes first */
    assert_null(finding(result, "IDLE_CORES"));
    /* Of 100 ms compute takes 93.3 in the mean, and the rest keeps one core busy: so compute keeps
     * 3.36 busy, and of 98 ms 82.3 remain on all four. All like the fastest repeat they take 60:
     * a team of eight does not spin, so at best half of that difference goes, too. Half of what was
     * idle stays at worst. */
    assert_string_equal(threads->what_if, "threads=4");
    assert_near(threads->gain.expected.value, 100 * (100.0 / 84.3 - 1), 1.5);
    assert_true(threads->gain.high.value >= 36 && threads->gain.high.value < 41);
    assert_true(threads->gain.low.value > 7 && threads->gain.low.value < 10);
    assert_non_null(strstr(threads->action, "OMP_NUM_THREADS=4"));
    /* What the run had is typed again, but for what changes and for the locale. */
    assert_non_null(strstr(threads->verify, "OMP_NUM_THREADS=4 OMP_PROC_BIND=close tacho run"));
    assert_null(strstr(threads->verify, "LANG"));
    assert_null(strstr(threads->verify, "THREADS=8"));
    fx_close(f);
}

/* Two ranks of four threads share four cores. Each thinks that its team fits, so its CPU time may
 * be spinning. Its fastest repeat, 25 ms, may have had all cores: on two it takes 50. Compute
 * of 94.9 ms keeps 1.63 cores busy, of which 77.4 ms remain on two. */
static void test_ranks_share_cores(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    usual_ms = 98;
    fastest_ms = 25;
    ranks = 2;
    run(f, 1.6, 3.3, 0.3, "{\"OMP_NUM_THREADS\":\"4\"}");
    usual_ms = fastest_ms = 80;
    ranks = 1;
    const struct an_finding *threads = finding(fx_analyze(f), "THREADS");
    assert_non_null(threads);
    assert_string_equal(threads->what_if, "threads=2");
    double slow = 100.0 / 82, fast = 100.0 / 52;
    assert_near(threads->gain.high.value, 100 * (fast - 1), 4);
    assert_near(threads->gain.expected.value, 100 * (2 / (1 / slow + 1 / fast) - 1), 4);
    fx_close(f);
}

/* Too many threads compute for 30 ms, and a batch is loaded for 68: a fault whose gain is known
 * goes first only if it gains more. */
static void test_a_larger_cause(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    usual_ms = 30;
    fastest_ms = 15;
    batch_ms = 68;
    run(f, 1.3, 1.4, 0.1, "{\"OMP_NUM_THREADS\":\"8\"}");
    usual_ms = fastest_ms = 80;
    batch_ms = 0;
    const struct an_result *result = fx_analyze(f);
    const struct an_finding *threads = finding(result, "THREADS"),
                            *input = finding(result, "INPUT_STALL");
    assert_non_null(threads);
    assert_non_null(input);
    assert_true(threads->gain.expected.valid && input->gain.expected.valid);
    assert_true(threads->gain.expected.value < input->gain.expected.value);
    assert_ptr_equal(input, result->findings);
    fx_close(f);
}

/* Batches that sleep for 95 ms beside 5 ms of other work: 19 workers keep up on four cores, if what
 * they wait for serves as many. */
static void test_many_workers(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    usual_ms = fastest_ms = 4;
    batch_ms = 95;
    run(f, 0.1, 0.2, 0, NULL);
    usual_ms = fastest_ms = 80;
    batch_ms = 0;
    const struct an_finding *input = finding(fx_analyze(f), "INPUT_STALL");
    assert_non_null(input);
    assert_string_equal(input->what_if, "loader.workers=19,loader.prefetch=19");
    assert_non_null(strstr(input->action, "19 keep up with the step if storage serves as many"));
    assert_non_null(strstr(input->action, "begin with 16 and add more"));
    fx_close(f);
}

/* What is said of workers agrees with what they are expected to gain. A loader of 45 ms beside a
 * team of four on four cores: one worker makes batches fast enough, but takes a core from the team,
 * so a part of the wait only turns into longer compute. Of 75 ms beside 25 of other work three
 * workers would keep up; the run keeps two of four cores busy, which leaves room for two. */
static void test_what_workers_gain(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    usual_ms = fastest_ms = 52;
    batch_ms = 45;
    run(f, 2.6, 2.7, 0, "{\"OMP_NUM_THREADS\":\"4\"}");
    const struct an_finding *input = finding(fx_analyze(f), "INPUT_STALL");
    assert_non_null(input);
    assert_string_equal(input->what_if, "loader.workers=1");
    assert_true(input->gain.expected.valid);
    double gone = (100 - 100 / (1 + input->gain.expected.value / 100)) / 45;
    char said[64];
    snprintf(said, sizeof said, "(%.0f %% of the data wait is expected to go;", 100 * gone);
    assert_true(gone < 0.8);
    assert_non_null(strstr(input->action, said));
    fx_close(f);
    usual_ms = fastest_ms = 12;
    batch_ms = 75;
    run(f, 2, 2.1, 0, "{\"OMP_NUM_THREADS\":\"4\"}");
    usual_ms = fastest_ms = 80;
    batch_ms = 0;
    input = finding(fx_analyze(f), "INPUT_STALL");
    assert_non_null(input);
    assert_non_null(strstr(input->action, "--workers 2 (as many as the cores allow; 3 would"));
    fx_close(f);
}

/* As many threads as before gain exactly nothing; where a number cannot be replayed, the reason. */
static void test_edits(void **state)
{
    static const struct {
        const char *environment, *edit, *reason;
    } edits[] = {
        {"{\"OMP_NUM_THREADS\":\"8\"}", "threads=8", NULL},
        {"{\"OMP_NUM_THREADS\":\"8\"}", "threads=9", "have more threads than cores already"},
        {"{\"OMP_NUM_THREADS\":\"2\"}", "threads=1", "fewer would only leave cores idle"},
        {"{\"OMP_NUM_THREADS\":\"2\"}", "threads=8", "no cores for so many threads"}};
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        struct fixture fx, *f = &fx;
        usual_ms = fastest_ms = 98;
        run(f, 3.8, 3.9, 0.3, edits[i].environment);
        usual_ms = fastest_ms = 80;
        const struct an_options options = {.file = "run.tacho", .what_if = edits[i].edit};
        const struct an_what_if *what_if = fx_analyze_with(f, &options)->advice.edits;
        if (edits[i].reason)
            assert_non_null(strstr(what_if->reason, edits[i].reason));
        else
            assert_true(what_if->gain.low.valid && what_if->gain.low.value == 0 &&
                        what_if->gain.high.value == 0);
        fx_close(f);
    }
}

/* Of 100 ms 98 compute on two threads: on four 49 ms remain, or 57.6 if they lose 15 % of their
 * speed to each other. Expected is that they lose 10 %. */
static void test_more_threads(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    usual_ms = fastest_ms = 98;
    run(f, 1.9, 2.0, 0, "{\"OMP_NUM_THREADS\":\"2\"}");
    usual_ms = fastest_ms = 80;
    const struct an_options options = {.file = "run.tacho", .what_if = "threads=4"};
    const struct an_what_if *what_if = fx_analyze_with(f, &options)->advice.edits;
    assert_null(what_if->reason);
    assert_near(what_if->gain.high.value, 100 * (100 / 51.0 - 1), 2);
    assert_near(what_if->gain.low.value, 100 * (100 / 59.65 - 1), 2);
    assert_near(what_if->step_ms.value, 2 + 49 / 0.9, 0.5);
    fx_close(f);
}

/* A quota of one core stops a team of four: its thread computes for 66 ms and sleeps in its loader
 * for 30, and the run gets 0.95 cores. Workers take the 30 ms away, but the team still needs its
 * CPU time, of which 83 % is work. */
static void test_workers_in_a_quota(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    usual_ms = fastest_ms = 66;
    batch_ms = 30;
    quota = "1";
    run(f, 0.95, 1, 0.1, "{\"OMP_NUM_THREADS\":\"4\"}");
    usual_ms = fastest_ms = 80;
    batch_ms = 0;
    quota = NULL;
    const struct an_options options = {.file = "run.tacho", .what_if = "loader.workers=2"};
    const struct an_what_if *what_if = fx_analyze_with(f, &options)->advice.edits;
    assert_null(what_if->reason);
    assert_near(what_if->gain.expected.value, 100 * (1 / (0.95 * 0.83) - 1), 2);
    assert_true(what_if->gain.low.value <= 100 * (1 / 0.95 - 1) + 1);
    assert_true(what_if->gain.high.value >= 100 / 0.7 - 100 - 1);
    fx_close(f);
}

/* Eight threads that never wait for a core: they are not at work at the same time. */
static void test_harmless(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run(f, 3.8, 3.9, 0.01, "{\"OMP_NUM_THREADS\":\"8\"}");
    assert_null(finding(fx_analyze(f), "THREADS"));
    fx_close(f);
}

static void test_too_few(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run(f, 1.0, 1.1, 0, "{\"OMP_NUM_THREADS\":\"1\"}");
    const struct an_finding *idle = finding(fx_analyze(f), "IDLE_CORES");
    assert_non_null(idle);
    /* 80 % of the step computes; on four threads a quarter of that remains: 100 -> 40 ms, and 43.5
     * at 85 % of their speed, as in the replay (test_more_threads). What the rest does is not
     * known, so nothing is replayed. */
    assert_string_equal(idle->what_if, "threads=4");
    assert_near(idle->gain.high.value, 150, 1);
    assert_near(idle->gain.expected.value, 100 * (200 / (40 + 43.53) - 1), 1);
    assert_near(idle->gain.low.value, 100 * (100 / 43.53 - 1), 1);
    assert_non_null(strstr(idle->verify, "OMP_NUM_THREADS=4 tacho run"));
    fx_close(f);
}

static double peak; /* FLOP/s of the four cores; 0: not known */

/* A program of PyTorch that sets one thread itself: no variable of its environment says it, and the
 * hook's counter does. `cores`: those behind the four CPUs; 0: the file does not say. */
static const struct an_finding *torch_threads(struct fixture *f, int threads, int by_variable,
                                              int cores)
{
    domain = "torch";
    run(f, 1.0, 1.1, 0, NULL);
    domain = "libtrain";
    FX(store_run_set(f->s, "command", "[\"python3\",\"train.py\"]"));
    if (cores)
        FX(store_run_set_int(f->s, "cpu.cores", cores));
    fx_counter(f, fx_track(f, f->process, "counter", "host.threads", NULL), 10 * MS, threads);
    fx_counter(f, fx_track(f, f->process, "counter", "host.threads_by_variable", NULL), 10 * MS,
               by_variable);
    return finding(
        fx_analyze_with(f, &(struct an_options){.file = "run.tacho", .peak_flops = peak}),
        "IDLE_CORES");
}

static void test_threads_of_pytorch(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    const struct an_finding *idle = torch_threads(f, 1, 0, 0);
    assert_non_null(idle);
    assert_string_equal(idle->what_if, "threads=4");
    assert_non_null(strstr(idle->action, "torch.set_num_threads(4) in the program"));
    /* 80 % of the step computes; small operators may stay on one thread: a bound. */
    assert_true(idle->gain.ceiling && !idle->gain.low.valid);
    assert_near(idle->gain.high.value, 150, 1);
    assert_null(idle->setting); /* no variable and no option */
    fx_close(f);
    idle = torch_threads(f, 1, 1, 0);
    assert_non_null(idle);
    assert_string_equal(idle->setting, "OMP_NUM_THREADS=4");
    fx_close(f);
    assert_null(torch_threads(f, 4, 0, 0));
    fx_close(f);
    /* 1000 FLOPs take 60 ms of a step at the peak of one core: they alone at 85 % of its speed on
     * four, or all of compute at its speed. */
    peak = 4 * 1000 / 0.06;
    idle = torch_threads(f, 1, 0, 0);
    peak = 0;
    assert_non_null(idle);
    assert_false(idle->gain.ceiling);
    assert_near(idle->gain.low.value, 100 * (1 / (1 - 0.6 * (1 - 0.25 / 0.85)) - 1), 0.1);
    assert_near(idle->gain.high.value, 150, 1);
    assert_null(idle->what_if);
    fx_close(f);
}

/* Two CPUs of a core share its units: as many threads as there are cores leave nothing idle. */
static void test_cores_that_are_shared(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    assert_null(torch_threads(f, 2, 0, 2));
    fx_close(f);
    const struct an_finding *idle = torch_threads(f, 1, 0, 2);
    assert_non_null(idle);
    assert_string_equal(idle->what_if, "threads=2");
    /* 80 % of the step computes, half of which remains: 100 -> 60 ms. */
    assert_near(idle->gain.high.value, 100 * (100.0 / 60 - 1), 1);
    fx_close(f);
}

/* Nothing is idle where others use the cores; without the variable the engine takes all cores. */
static void test_silent(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    run(f, 1.0, 3.9, 0, "{\"OMP_NUM_THREADS\":\"1\"}");
    assert_null(finding(fx_analyze(f), "IDLE_CORES"));
    fx_close(f);
    run(f, 1.0, 1.1, 0, NULL);
    const struct an_result *result = fx_analyze(f);
    assert_null(finding(result, "IDLE_CORES"));
    assert_null(finding(result, "THREADS"));
    fx_close(f);
    /* The command itself sets the variable: each of four ranks has one thread, and not four. */
    ranks = 4;
    run(f, 0.9, 3.7, 0.3, NULL);
    ranks = 1;
    FX(store_run_set(f->s, "command",
                     "[\"env\",\"OMP_NUM_THREADS=1\",\"mpirun\",\"-np\",\"4\",\"train\"]"));
    result = fx_analyze(f);
    assert_null(finding(result, "THREADS"));
    fx_close(f);
    run(f, 1.0, 1.1, 0.3, "{\"OMP_NUM_THREADS\":\"none\"}");
    result = fx_analyze(f);
    assert_null(finding(result, "IDLE_CORES"));
    assert_null(finding(result, "THREADS"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_ranks_share_cores),
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_more_threads),
        cmocka_unit_test(test_a_larger_cause),
        cmocka_unit_test(test_many_workers),
        cmocka_unit_test(test_what_workers_gain),
        cmocka_unit_test(test_harmless),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_workers_in_a_quota),
        cmocka_unit_test(test_threads_of_pytorch),
        cmocka_unit_test(test_cores_that_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
