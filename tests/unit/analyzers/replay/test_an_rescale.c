/* SPDX-License-Identifier: Apache-2.0
 *
 * The edits micro= and precision=: made-up steps of GEMMs that take what a made-up curve says, an
 * operator that is no GEMM, an optimizer and host time, so that each edited step follows by hand.
 */
#include "tests/unit/an_fixture.h"

#include "analyzers/result/result.h"

#define STEPS   12
#define STEP_US 3000
#define SIZE    256 /* outputs and inputs of the layer */
#define TOKENS  512
#define GEMMS   10 /* of a micro-step */
#define GELU_US 110
#define ADAM_US 500
#define CALL_US 10 /* what any call costs */

static void ceiling(struct fixture *f, const char *resource, const char *dtype, double value)
{
    struct store_ceiling c = {"cpu", resource, dtype, "measured: for this test", value};
    FX(store_ceiling_add(f->s, &c));
}

/* 100 µs at 256 rows and size 256 in fp32: four times the rows or the size take twice the time.
 * bf16 takes half of it. */
static double curve_us(double rows, double size)
{
    return 100 * sqrt(rows / 256) * sqrt(size / SIZE);
}

static void curve(struct fixture *f)
{
    static const int rows[] = {32, 256, 2048}, sizes[] = {64, SIZE, 1024};
    for (int i = 0; i < 18; i++) {
        int m = rows[i % 3], s = sizes[i / 3 % 3];
        char name[48];
        snprintf(name, sizeof name, "gemm_forward:%dx%dx%d", m, s, s);
        double rate = 2e6 * m * s * s / curve_us(m, s);
        ceiling(f, name, i < 9 ? "fp32" : "bf16", i < 9 ? rate : 2 * rate);
    }
    ceiling(f, "op_overhead", "", CALL_US * 1e-6);
}

static int64_t add(struct fixture *f, int64_t at, int64_t us, const char *name, int64_t detail)
{
    struct store_slice x = {.track = f->thread,
                            .start = FX_BASE + at,
                            .dur = us * 1000,
                            .name = fx_string(f, name),
                            .category = fx_string(f, "libtrain"),
                            .detail = detail,
                            .correlation = FX_NONE};
    FX(store_slice_add(f->s, &x));
    return at + us * 1000;
}

static int64_t work(struct fixture *f, const char *kind, const char *pass, int64_t rows)
{
    struct store_detail d = fx_empty();
    bool gemm = !strcmp(kind, "matrix");
    d.schema = "tacho.work";
    d.kind = kind;
    d.dtype = "fp32";
    d.pass = pass;
    d.flops = gemm ? 2 * rows * SIZE * SIZE : 1000;
    d.bytes_read = gemm ? 4 * (rows * SIZE + SIZE * SIZE) : 1000;
    d.bytes_written = gemm ? 4 * rows * SIZE : 1000;
    return fx_intern(f, &d);
}

static void step_row(struct fixture *f, int index, int64_t tokens, int64_t begin)
{
    struct store_step row = {.process = f->process,
                             .index = index,
                             .start = FX_BASE + begin,
                             .end = FX_BASE + begin + STEP_US * 1000,
                             .tokens = tokens,
                             .samples = 8};
    FX(store_step_add(f->s, &row));
}

/* Micro-steps of GEMMs, one gelu and host time up to their end; then the optimizer, and host time
 * up to 3 ms. */
static void steps(struct fixture *f, int micro, int64_t gemm_us)
{
    int64_t rows = TOKENS / micro;
    FX(store_run_set(f->s, "command", "[\"train\",\"gpt2-tiny\"]"));
    for (int i = 0; i < STEPS; i++) {
        int64_t begin = (int64_t)i * STEP_US * 1000, at = begin;
        add(f, begin, STEP_US, "step", fx_schema(f, "tacho.step"));
        step_row(f, i, TOKENS, begin);
        for (int m = 0; m < micro; m++) {
            int64_t each = (STEP_US - ADAM_US - 100) / micro;
            add(f, at, each, "micro_step", fx_kind(f, "micro_step"));
            int64_t inner = at;
            for (int k = 0; k < GEMMS; k++)
                inner = add(f, inner, gemm_us, "matmul", work(f, "matrix", "forward", rows));
            add(f, inner, GELU_US, "gelu", work(f, "other", "forward", rows));
            at += each * 1000;
        }
        add(f, at, ADAM_US, "adamw", work(f, "other", "optimizer", rows));
    }
}

static const struct an_what_if *edited(struct fixture *f, const char *text)
{
    struct an_options o = {.file = "run.tacho", .what_if = text};
    const struct an_result *r = fx_analyze_with(f, &o);
    assert_null(r->advice.reason);
    return &r->advice.edits[0];
}

static void check_share(const struct an_what_if *w, double new_us)
{
    if (w->reason || w->ceiling)
        fail_msg("%s: %s", w->edit, w->reason ? w->reason : w->ceiling);
    assert_near(w->gain.expected.value, 100 * (STEP_US / new_us - 1), 0.3);
    assert_true(w->gain.low.value <= w->gain.expected.value &&
                w->gain.high.value >= w->gain.expected.value);
}

/* Two micro-steps become one: the global batch stays, and with it optimizer and the rest of the
 * step's host time; that of the micro-step is paid once. */
static void same_training(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    curve(f);
    steps(f, 2, 100);
    const struct an_what_if *w = edited(f, "micro=2x");
    double gelu = 2 * (CALL_US + 2 * (GELU_US - CALL_US)) / 2, gap = 2400 - 2 * (1000 + GELU_US);
    check_share(w, GEMMS * curve_us(512, SIZE) + gelu + gap / 2 + ADAM_US + 100);
    assert_non_null(strstr(w->condition, "the same global batch in 1 micro-steps, not 2"));
    fx_close(f);
}

/* Without accumulation the global batch grows: what is done once a step counts a quarter. */
static void larger_batch(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    curve(f);
    steps(f, 1, 141);
    const struct an_what_if *w = edited(f, "micro=4x");
    double gelu = CALL_US / 4.0 + GELU_US - CALL_US, gap = 2400 - GEMMS * 141 - GELU_US;
    check_share(w, GEMMS * 141 / 2.0 + gelu + (gap + ADAM_US + 100) / 4);
    assert_non_null(strstr(w->condition, "a global batch 4 times as large"));
    fx_close(f);
}

/* Calls of 105 µs where the curve says 100: as many times slower at the larger size, or by as many
 * µs. The interval holds both, and the expected step is between them. */
static void slower_than_the_curve(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    curve(f);
    steps(f, 2, 105);
    const struct an_what_if *w = edited(f, "micro=2x");
    double other = 2 * GELU_US - CALL_US + (2400 - 2 * (1050 + GELU_US)) / 2.0 + ADAM_US + 100;
    double times = GEMMS * 105 * sqrt(2) + other, offset = GEMMS * (100 * sqrt(2) + 5) + other;
    check_share(w, (times + offset) / 2);
    assert_near(w->gain.low.value, 100 * (STEP_US / times - 1), 0.1);
    assert_near(w->gain.high.value, 100 * (STEP_US / offset - 1), 0.1);
    fx_close(f);
}

/* GEMMs take half the time; other work moves half the bytes, which is between all and half of its
 * time; the optimizer keeps its type. */
static void other_type(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    curve(f);
    steps(f, 2, 100);
    const struct an_what_if *w = edited(f, "precision=bf16");
    double rest = STEP_US - 2000 - 2 * GELU_US, half = 2 * (CALL_US + (GELU_US - CALL_US) / 2.0);
    check_share(w, 1000 + (2 * GELU_US + half) / 2 + rest);
    assert_near(w->gain.low.value, 100 * (STEP_US / (1000 + 2 * GELU_US + rest) - 1), 0.3);
    assert_near(w->gain.high.value, 100 * (STEP_US / (1000 + half + rest) - 1), 0.3);
    fx_close(f);
}

static void check_zero(const struct an_what_if *w)
{
    assert_null(w->reason);
    assert_true(w->gain.low.value == 0 && w->gain.expected.value == 0 && w->gain.high.value == 0);
    assert_true(w->step_low_ms.value == w->step_high_ms.value);
}

/* What the run is already gains exactly nothing, with a curve and without. */
static void identity(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        if (k)
            curve(f);
        steps(f, 2, 100);
        struct an_options o = {.file = "run.tacho", .what_if = "micro=1x,precision=fp32"};
        const struct an_result *r = fx_analyze_with(f, &o);
        check_zero(&r->advice.edits[0]);
        check_zero(&r->advice.edits[1]);
        check_zero(&r->advice.together);
        fx_close(f);
    }
}

/* More micro-batches in one never make the same samples slower by this curve, and gain ever more.
 */
static void monotonic(void **state)
{
    static const char *const edits[] = {"micro=1x", "micro=2x", "micro=4x", "micro=8x"};
    struct fixture fx, *f = &fx;
    double before = -1;
    (void)state;
    for (int i = 0; i < 4; i++) {
        fx_open(f);
        curve(f);
        steps(f, 8, 20);
        const struct an_what_if *w = edited(f, edits[i]);
        assert_null(w->reason);
        assert_true(w->gain.expected.value > before);
        before = w->gain.expected.value;
        fx_close(f);
    }
}

/* What the curve or the run lacks is a reason, never a number. */
static void refusals(void **state)
{
    static const struct {
        const char *edit, *reason;
        bool curve;
        double threads;
    } cases[] = {{"micro=2x", "tacho calibrate", false, 0},
                 {"precision=bf16", "tacho calibrate", false, 0},
                 {"micro=3x", "no multiple of 3", true, 0},
                 {"micro=4x", "no multiple of 4", true, 0},
                 {"micro=2x", "measured with 3 threads", true, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        if (cases[i].curve)
            curve(f);
        if (cases[i].threads > 0)
            ceiling(f, "gemm_threads", "", cases[i].threads);
        FX(store_run_set(f->s, "environment", "{\"OMP_NUM_THREADS\":\"2\"}"));
        steps(f, 2, 100);
        const struct an_what_if *w = edited(f, cases[i].edit);
        if (!w->reason || !strstr(w->reason, cases[i].reason))
            fail_msg("%zu, %s: %s", i, cases[i].edit, w->reason ? w->reason : "a value");
        assert_false(w->gain.expected.valid || w->gain.high.valid);
        fx_close(f);
    }
}

/* GEMMs whose shapes or types the curve does not have are not guessed. */
static void not_covered(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    for (int m = 32; m <= 512; m *= 4)
        for (int s = 64; s <= 256; s *= 4) {
            char name[48];
            snprintf(name, sizeof name, "gemm_forward:%dx%dx%d", m, s, s);
            ceiling(f, name, "bf16", 1e9);
        }
    steps(f, 2, 100);
    const struct an_what_if *w = edited(f, "micro=2x");
    assert_non_null(w->reason);
    assert_non_null(strstr(w->reason, "does not cover"));
    fx_close(f);
}

#define LOG_US  2000
#define SLOW_US 300 /* three times what the curve says of 256 rows */

/* Steps that wait for a log after few GEMMs, which are slow after that pause: all the repeats that
 * were recorded are. */
static void logged_steps(struct fixture *f)
{
    FX(store_run_set(f->s, "command", "[\"train\",\"gpt2-tiny\"]"));
    for (int i = 0; i < STEPS; i++) {
        int64_t begin = (int64_t)i * STEP_US * 1000, at = begin;
        add(f, begin, STEP_US, "step", fx_schema(f, "tacho.step"));
        step_row(f, i, TOKENS / 2, begin);
        for (int k = 0; k < 3; k++)
            at = add(f, at, SLOW_US, "matmul", work(f, "matrix", "forward", TOKENS / 2));
        add(f, at, LOG_US, "log", fx_kind(f, "log"));
    }
}

/* What a step takes without the log is not in the run. The curve of GEMMs, which was measured
 * without pauses, bounds it from below; without a curve the repeats do. */
static void after_a_pause(void **state)
{
    const double left_ms = (STEP_US - 0.99 * LOG_US) / 1000;
    (void)state;
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        if (calibrated)
            curve(f);
        logged_steps(f);
        const struct an_what_if *w = edited(f, "framework=1%");
        assert_null(w->reason);
        assert_near(w->step_ms.value, left_ms, 0.01 * left_ms);
        assert_near(w->step_low_ms.value, calibrated ? left_ms / 3 : left_ms, 0.02 * left_ms);
        assert_near(w->step_high_ms.value, left_ms, 0.02 * left_ms);
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_training),
        cmocka_unit_test(larger_batch),
        cmocka_unit_test(slower_than_the_curve),
        cmocka_unit_test(other_type),
        cmocka_unit_test(identity),
        cmocka_unit_test(monotonic),
        cmocka_unit_test(refusals),
        cmocka_unit_test(not_covered),
        cmocka_unit_test(after_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
