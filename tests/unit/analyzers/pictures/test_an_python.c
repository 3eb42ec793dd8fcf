/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python was doing: looks counted by hand, joined to the steps and to the classes of their
 * budget; the finding that comes of it; files without looks.
 */
#include "tests/unit/an_gpu.h"

#define MS 1000000ll

struct looks {
    struct fixture fx;
    int64_t track[3];    /* running, runnable, asleep */
    int64_t load, train; /* stacks */
};

static int64_t stack_of(struct fixture *f, const char *const *frame, size_t count)
{
    int64_t stack = STORE_ABSENT;
    for (size_t i = 0; i < count; i++)
        FX(store_stack(f->s, stack, fx_string(f, frame[i]), &stack));
    return stack;
}

/* A track of the thread in each state, and stacks with the innermost frame last. */
static void open_looks(struct looks *looks)
{
    static const char *const unit[] = {"running", "runnable", "asleep"};
    static const char *const load[] = {"<module> (/data/me/train.py:20)",
                                       "load (/data/me/data (1).py:7)",
                                       "load.<locals>.<genexpr> (/data/me/data (1).py:7)"};
    static const char *const train[] = {
        "<module> (/data/me/train.py:21)",
        "Linear.forward (/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py:134)"};
    struct fixture *f = &looks->fx;
    struct store_track thread = {.process = 0, .tid = 100, .kind = "thread", .name = "steps"};
    fx_open(f);
    thread.process = f->process;
    FX(store_track_add(f->s, &thread));
    f->thread = thread.id;
    for (int i = 0; i < 3; i++) {
        struct store_track track = {
            .process = f->process, .tid = 100, .kind = "python", .name = "python", .unit = unit[i]};
        FX(store_track_add(f->s, &track));
        looks->track[i] = track.id;
    }
    looks->load = stack_of(f, load, 3);
    looks->train = stack_of(f, train, 2);
    FX(store_run_set(f->s, "python", "sampled: frames of Python 3.12"));
    FX(store_run_set(f->s, "python.hz", "100"));
    FX(store_run_set(f->s, "python.torn", "3"));
}

static void look(struct looks *looks, int state, int64_t time, int64_t stack)
{
    struct fixture *f = &looks->fx;
    struct store_sample sample = {
        .track = looks->track[state], .time = FX_BASE + time, .stack = stack};
    FX(store_sample_add(f->s, &sample));
}

static const struct an_python_line *line_of(const struct an_python *python, const char *function)
{
    for (size_t i = 0; i < python->line_count; i++)
        if (!strcmp(python->line[i].function, function))
            return &python->line[i];
    fail_msg("no line of %s", function);
    return NULL;
}

/* 20 steps of 10 ms. In each, 4 ms that no range covers, in which the program loads (3 looks, 2 of
 * them asleep), then 6 ms of work with one look. */
static void test_lines_of_steps(void **state)
{
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    open_looks(&looks);
    int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000);
    for (int i = 0; i < 20; i++) {
        int64_t start = 10 * MS * i;
        fx_step(f, f->process, f->thread, i, start, start + 10 * MS, 8, false);
        fx_slice(f, f->thread, start + 4 * MS, start + 10 * MS, "forward", work);
        look(&looks, 2, start + 1 * MS, looks.load);
        look(&looks, 0, start + 5 * MS, looks.train);
        look(&looks, 2, start + 2 * MS, looks.load); /* states are tracks: not in order of time */
        look(&looks, 0, start + 3 * MS, looks.load);
    }
    look(&looks, 0, 900 * MS, looks.load); /* outside of every step */
    struct store_step_aggregate total = {.process = f->process,
                                         .step = 1,
                                         .track = f->thread,
                                         .name = fx_string(f, "forward"),
                                         .category = fx_string(f, "test"),
                                         .detail = work,
                                         .count = 1,
                                         .total = 6 * MS,
                                         .self = 6 * MS,
                                         .steps = 1};
    FX(store_step_aggregate_add(f->s, &total)); /* the table that is read after the looks */
    const struct an_result *result = fx_analyze(f);
    const struct an_python *python = &result->python;
    assert_null(python->reason);
    int64_t all = python->looks.value;
    assert_true(all >= 60 && all % 4 == 0); /* steps at the start are left out */
    assert_true(fabs(python->all.running_pct.value - 50) < 1e-9);
    assert_true(fabs(python->unattributed.share_pct.value - 75) < 1e-9);
    assert_true(fabs(python->unattributed.asleep_pct.value - 200.0 / 3) < 1e-9);
    assert_int_equal(python->torn.value, 3);
    const struct an_python_line *load = line_of(python, "load");
    assert_string_equal(load->file, "/data/me/data (1).py");
    assert_int_equal(load->line, 7);
    assert_true(load->program);
    assert_int_equal(load->own, 3 * all / 4);
    assert_int_equal(load->host, 3 * all / 4);
    assert_int_equal(load->plain, 3 * all / 4);
    assert_int_equal(load->asleep, all / 2);
    /* time in a package is the program's at the line that calls it */
    const struct an_python_line *linear = line_of(python, "Linear.forward");
    assert_false(linear->program);
    assert_int_equal(linear->self, all / 4);
    assert_int_equal(linear->own, 0);
    for (size_t i = 0; i < python->line_count; i++)
        if (python->line[i].line == 21) {
            assert_int_equal(python->line[i].own, all / 4);
            assert_int_equal(python->line[i].host, 0);
        }
    const struct an_finding *finding = NULL;
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, "PYTHON_HOST"))
            finding = &result->findings[i];
    assert_non_null(finding);
    assert_non_null(strstr(finding->claim, "load (data (1).py:7)"));
    assert_non_null(strstr(finding->action, "waits"));
    /* 4 of 10 ms, by every look there: steps without them take 6 ms */
    assert_true(fabs(finding->gain.expected.value - 100 * 4 / 6.0) < 1e-6);
    assert_true(finding->gain.low.value > 45 && finding->gain.low.value < 66);
    assert_true(finding->gain.high.value > 67 && finding->gain.high.value < 90);
    assert_false(finding->gain.ceiling);
    assert_string_equal(result->verdict_class, "HOST-BOUND");
    assert_non_null(strstr(result->verdict,
                           "40.0 % of every step is outside all ranges, most of it "
                           "in load (data (1).py:7)"));
    fx_close(f);
}

/* The function that holds the loop of the steps is no answer: the lines next to each other in it
 * are, of 20 steps of 10 ms with three looks in 4 ms that no range covers. */
static void test_lines_of_the_loop(void **state)
{
    static const char *const frames[][3] = {
        {"<module> (/data/me/train.py:90)", "main (/data/me/train.py:30)", NULL},
        {"<module> (/data/me/train.py:90)", "main (/data/me/train.py:31)", NULL},
        {"<module> (/data/me/train.py:90)", "main (/data/me/train.py:45)", NULL},
        {"<module> (/data/me/train.py:90)", "main (/data/me/train.py:50)",
         "Linear.forward (/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py:134)"}};
    static struct looks looks;
    struct fixture *f = &looks.fx;
    int64_t stack[4];
    (void)state;
    open_looks(&looks);
    for (int i = 0; i < 4; i++)
        stack[i] = stack_of(f, frames[i], i == 3 ? 3 : 2);
    int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000);
    for (int i = 0; i < 20; i++) {
        int64_t start = 10 * MS * i;
        fx_step(f, f->process, f->thread, i, start, start + 10 * MS, 8, false);
        fx_slice(f, f->thread, start + 4 * MS, start + 10 * MS, "forward", work);
        for (int k = 0; k < 5; k++)
            look(&looks, 0, start + (k + 1) * MS, stack[k < 3 ? k : 3]);
    }
    const struct an_result *result = fx_analyze(f);
    const struct an_finding *finding = NULL;
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, "PYTHON_HOST"))
            finding = &result->findings[i];
    assert_non_null(finding);
    assert_non_null(strstr(finding->claim, "train.py:30-31 (in main) takes 26.7 %"));
    assert_non_null(strstr(finding->action, "move train.py:30-31 out of the step"));
    fx_close(f);
}

/* A function in which the thread is at nearly every look does not hold the loop for that: of looks
 * at work, only those that fall between the two find it there.
 */
static void test_function_that_takes_nearly_all(void **state)
{
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    open_looks(&looks);
    int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000);
    for (int i = 0; i < 40; i++) {
        int64_t start = 20 * MS * i;
        fx_step(f, f->process, f->thread, i, start, start + 20 * MS, 8, false);
        fx_slice(f, f->thread, start + 19 * MS, start + 20 * MS, "forward", work);
        for (int k = 0; k < 19; k++)
            look(&looks, 0, start + k * MS + MS / 2, looks.load);
        look(&looks, 0, start + 19 * MS + MS / 2, i % 2 ? looks.train : looks.load);
    }
    const struct an_result *result = fx_analyze(f);
    const struct an_finding *finding = NULL;
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, "PYTHON_HOST"))
            finding = &result->findings[i];
    assert_non_null(finding);
    assert_non_null(strstr(finding->claim, "load (data (1).py:7) takes 95.0 %"));
    fx_close(f);
}

/* Of 4 ms in each step that no range covers the thread waits 3 for a core: the line can save the
 * other one at most. */
static void test_a_wait_for_a_core_is_not_the_lines(void **state)
{
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    open_looks(&looks);
    int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000);
    for (int i = 0; i < 60; i++) {
        int64_t start = 10 * MS * i;
        fx_step(f, f->process, f->thread, i, start, start + 10 * MS, 8, false);
        fx_slice(f, f->thread, start + 4 * MS, start + 10 * MS, "forward", work);
        for (int k = 0; k < 10; k++)
            look(&looks, k && k < 4, start + k * MS + MS / 2, k < 4 ? looks.load : looks.train);
    }
    const struct an_result *result = fx_analyze(f);
    const struct an_finding *finding = NULL;
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, "PYTHON_HOST"))
            finding = &result->findings[i];
    assert_non_null(finding);
    assert_non_null(strstr(finding->claim, "takes 10.0 % of the step"));
    assert_true(finding->gain.high.value > 11 && finding->gain.high.value < 20);
    assert_string_equal(result->verdict_class, "UNEXPLAINED"); /* most of it is the waits */
    fx_close(f);
}

/* The function is in a range of the program for 3 of 10 ms, and the 3 ms that no range covers are
 * not its own: nothing of the program explains them.
 */
static void test_no_holder_by_host_time(void **state)
{
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    open_looks(&looks);
    int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000), host = fx_kind(f, "host");
    for (int i = 0; i < 60; i++) {
        int64_t start = 10 * MS * i;
        fx_step(f, f->process, f->thread, i, start, start + 10 * MS, 8, false);
        fx_slice(f, f->thread, start, start + 3 * MS, "augment", host);
        fx_slice(f, f->thread, start + 6 * MS, start + 10 * MS, "forward", work);
        for (int k = 0; k < 10; k++)
            look(&looks, 0, start + k * MS + MS / 2, k < 3 ? looks.load : looks.train);
    }
    const struct an_result *result = fx_analyze(f);
    assert_null(result->python.holder);
    assert_null(strstr(result->verdict, "load"));
    fx_close(f);
}

/* One step says nothing of how steps differ: the function has a ceiling. */
static void test_one_step(void **state)
{
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    open_looks(&looks);
    int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000);
    fx_step(f, f->process, f->thread, 0, 0, 1000 * MS, 8, false);
    fx_slice(f, f->thread, 400 * MS, 1000 * MS, "forward", work);
    for (int k = 0; k < 40; k++)
        look(&looks, 0, k * 10 * MS + MS, looks.load);
    const struct an_result *result = fx_analyze(f);
    const struct an_finding *finding = NULL;
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, "PYTHON_HOST"))
            finding = &result->findings[i];
    assert_non_null(finding);
    assert_non_null(strstr(finding->claim, "takes 40.0 % of the step"));
    assert_true(finding->gain.ceiling);
    fx_close(f);
}

/* Time of the program's line in a range that has a finding of its own, a collection of garbage or a
 * wait for a value of a device: the line has the rest. 30 steps of 10 ms, 3 ms of them in the
 * range. */
static void test_time_of_another_finding(void **state)
{
    static const struct {
        const char *category, *name, *finding;
    } range[] = {{"test", "gc.collect 2", "GARBAGE"},
                 {"torch", "item train.py:20", "SYNC_ITEM"},
                 {"jax", "device_get train.py:20", "SYNC_ITEM"}};
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    for (size_t k = 0; k < sizeof range / sizeof *range; k++) {
        open_looks(&looks);
        int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000),
                detail = strcmp(range[k].category, "test") != 0 ? FX_NONE : fx_kind(f, "host");
        for (int i = 0; i < 30; i++) {
            int64_t start = 10 * MS * i;
            fx_step(f, f->process, f->thread, i, start, start + 10 * MS, 8, false);
            gpu_row_ns(f, f->thread, start, start + 3 * MS, range[k].name, range[k].category,
                       detail, FX_NONE);
            fx_slice(f, f->thread, start + 4 * MS, start + 10 * MS, "forward", work);
            for (int j = 0; j < 4; j++) /* three in the range, one after it */
                look(&looks, 0, start + j * MS + MS / 2, looks.load);
        }
        const struct an_result *result = fx_analyze(f);
        const struct an_python_line *load = line_of(&result->python, "load");
        assert_int_equal(load->host, load->own);
        assert_int_equal(4 * load->plain, load->own);
        bool found = false;
        for (size_t i = 0; i < result->finding_count; i++) {
            found = found || !strcmp(result->findings[i].id, range[k].finding);
            if (!strcmp(result->findings[i].id, "PYTHON_HOST")) {
                assert_non_null(strstr(result->findings[i].claim, "10.0 % of the step"));
                /* a tenth of the step, by the looks */
                assert_true(result->findings[i].gain.ceiling);
            }
        }
        assert_true(found);
        fx_close(f);
    }
}

/* A forward pass whose modules have no ranges is the model's time, not that of the line that calls
 * it; what the line does itself is. */
static void test_code_of_a_framework(void **state)
{
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    open_looks(&looks);
    for (int i = 0; i < 20; i++) {
        fx_step(f, f->process, f->thread, i, 10 * MS * i, 10 * MS * (i + 1), 8, false);
        for (int k = 0; k < 4; k++)
            look(&looks, 0, 10 * MS * i + 2 * MS * k, looks.train);
    }
    const struct an_result *result = fx_analyze(f);
    for (size_t i = 0; i < result->python.line_count; i++)
        if (result->python.line[i].line == 21) {
            assert_int_equal(result->python.line[i].host, result->python.looks.value);
            assert_int_equal(result->python.line[i].plain, 0);
        }
    for (size_t i = 0; i < result->finding_count; i++)
        assert_string_not_equal(result->findings[i].id, "PYTHON_HOST");
    fx_close(f);
}

/* A data set on the step's thread (4 of 10 ms wait for its batch), in one function or in two with
 * as many looks at each, and in a worker that the program forked, which mostly sleeps in it. What
 * lies around the loader there is no line of the worker; lines at which every look slept count for
 * the loader and are not listed. */
static void test_lines_of_a_loader(void **state)
{
    static const char *const in_line[] = {
        "<module> (/data/me/train.py:20)",
        "_BaseDataLoaderIter.__next__ (/v/site-packages/torch/utils/data/dataloader.py:708)",
        "_MapDatasetFetcher.fetch (/v/site-packages/torch/utils/data/_utils/fetch.py:52)",
        "Photos.__getitem__ (/data/me/photos.py:7)",
        "open (/v/lib/python3.12/site-packages/PIL/Image.py:3)"};
    static const char *const beside[] = {
        "<module> (/data/me/train.py:20)",
        "_MapDatasetFetcher.fetch (/v/site-packages/torch/utils/data/_utils/fetch.py:52)",
        "Photos.augment (/data/me/photos.py:20)"};
    static const char *const forked[] = {
        "<module> (/data/me/train.py:20)",
        "_worker_loop (/v/site-packages/torch/utils/data/_utils/worker.py:309)",
        "_MapDatasetFetcher.fetch (/v/site-packages/torch/utils/data/_utils/fetch.py:52)",
        "Photos.__getitem__ (/data/me/photos.py:9)"};
    static const char *const waits[] = {
        "<module> (/data/me/train.py:20)",
        "_worker_loop (/v/site-packages/torch/utils/data/_utils/worker.py:280)"};
    static struct looks looks;
    struct fixture *f = &looks.fx;
    (void)state;
    enum { IN_LINE, WITH_WORKER, IN_TWO, HOW_COUNT };
    for (int how = IN_LINE; how < HOW_COUNT; how++) {
        bool with_worker = how == WITH_WORKER;
        open_looks(&looks);
        int64_t work = fx_work(f, "elementwise", "fp32", 1000, 1000, 1000),
                stack = stack_of(f, in_line, 5), inside = stack_of(f, forked, 4),
                other = how == IN_TWO ? stack_of(f, beside, 3) : stack,
                outside = stack_of(f, waits, 2);
        struct store_process worker = {.rank = FX_NONE,
                                       .pid = 101,
                                       .parent_pid = 100,
                                       .start = FX_BASE,
                                       .end = FX_NONE,
                                       .host = "host",
                                       .device = "cpu",
                                       .program = "python3",
                                       .ended = "exit"};
        FX(store_process_add(f->s, &worker));
        struct store_track asleep = {
            .process = worker.id, .tid = 101, .kind = "python", .name = "python", .unit = "asleep"};
        FX(store_track_add(f->s, &asleep));
        for (int i = 0; i < 20; i++) {
            int64_t start = 10 * MS * i;
            fx_step(f, f->process, f->thread, i, start, start + 10 * MS, 8, false);
            fx_slice(f, f->thread, start, start + 4 * MS, "DataLoader.__next__",
                     fx_kind(f, "input_wait"));
            fx_slice(f, f->thread, start + 4 * MS, start + 10 * MS, "forward", work);
            for (int k = 0; k < 2 && !with_worker; k++)
                look(&looks, 0, start + (k + 1) * MS, k ? other : stack);
            for (int k = 0; k < 3 && with_worker; k++) {
                struct store_sample sample = {.track = asleep.id,
                                              .time = FX_BASE + start + k * MS,
                                              .stack = k ? inside : outside};
                FX(store_sample_add(f->s, &sample));
            }
            look(&looks, 0, start + 5 * MS, looks.train);
        }
        const struct an_result *result = fx_analyze(f);
        const struct an_finding *stall = NULL;
        for (size_t i = 0; i < result->finding_count; i++)
            if (!strcmp(result->findings[i].id, "INPUT_STALL"))
                stall = &result->findings[i];
        assert_non_null(stall);
        const char *words = NULL;
        for (int i = 0; i < 5 && stall->evidence[i]; i++)
            if (strstr(stall->evidence[i], "make a batch"))
                words = stall->evidence[i];
        assert_non_null(words);
        static const char *const said[] = {"Photos.__getitem__ (photos.py:7) 100 %",
                                           "Photos.__getitem__ (photos.py:9) 100 %",
                                           "Photos.__getitem__ (photos.py:7) 50 %"};
        assert_non_null(strstr(words, said[how]));
        assert_int_equal(strstr(words, "Photos.augment (photos.py:20) 50 %") != NULL,
                         how == IN_TWO);
        assert_int_equal(result->python.worker_count, 0);
        fx_close(f);
    }
}

static void test_absent(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fx_step(f, f->process, f->thread, 0, 0, 1000, 8, false);
    assert_non_null(strstr(fx_analyze(f)->python.reason, "--python-hz"));
    fx_close(f);
    fx_open(f);
    FX(store_run_set(f->s, "python", "not sampled: this version of Python is newer"));
    assert_non_null(strstr(fx_analyze(f)->python.reason, "newer"));
    assert_false(f->r->python.looks.valid);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_steps),
        cmocka_unit_test(test_lines_of_the_loop),
        cmocka_unit_test(test_function_that_takes_nearly_all),
        cmocka_unit_test(test_a_wait_for_a_core_is_not_the_lines),
        cmocka_unit_test(test_code_of_a_framework),
        cmocka_unit_test(test_no_holder_by_host_time),
        cmocka_unit_test(test_one_step),
        cmocka_unit_test(test_time_of_another_finding),
        cmocka_unit_test(test_lines_of_a_loader),
        cmocka_unit_test(test_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
