/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of steps on the processor: made-up steps of 10 ms whose parts and ceilings are round
 * numbers, so that each finding, its ceiling and what silences it follow by hand.
 */
#include "tests/unit/an_fixture.h"

#define STEPS 12
#define STEP  10000000ll /* ns */

/* A part of each step: an op's calls. */
struct part {
    const char *name, *kind, *dtype, *pass;
    int64_t flops, read, written, us;
    int calls;
};

static void ceiling(struct fixture *f, const char *resource, const char *dtype, double value)
{
    struct store_ceiling c = {"cpu", resource, dtype, "measured: for this test", value};
    FX(store_ceiling_add(f->s, &c));
}

static void slice(struct fixture *f, int64_t start, int64_t end, const char *name, int64_t detail)
{
    struct store_slice x = {.track = f->thread,
                            .start = FX_BASE + start,
                            .dur = end - start,
                            .name = fx_string(f, name),
                            .category = fx_string(f, "libtrain"),
                            .detail = detail,
                            .correlation = FX_NONE};
    FX(store_slice_add(f->s, &x));
}

static int64_t detail_of(struct fixture *f, const struct part *p)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.kind = p->kind;
    d.dtype = p->dtype;
    d.pass = p->pass;
    d.flops = p->flops;
    d.model_flops = d.palm_flops =
        strcmp(p->pass, "recompute") && strcmp(p->kind, "other") ? p->flops : 0;
    d.bytes_read = p->read;
    d.bytes_written = p->written;
    return fx_intern(f, &d);
}

static int64_t tokens_of_step = 512, samples_of_step = 8;

/* Steps of 8 samples and 512 tokens, if nothing else is said: the parts, each in `micro`
 * micro-steps, then host time up to 10 ms. */
static void steps(struct fixture *f, const struct part *part, size_t parts, int micro)
{
    for (int i = 0; i < STEPS; i++) {
        int64_t begin = i * STEP, at = begin + 1000, each = (STEP - 2000) / micro;
        struct store_detail d = fx_empty();
        d.schema = "tacho.step";
        slice(f, begin, begin + STEP, "step", fx_intern(f, &d));
        struct store_step row = {.process = f->process,
                                 .index = i,
                                 .start = FX_BASE + begin,
                                 .end = FX_BASE + begin + STEP,
                                 .tokens = tokens_of_step,
                                 .samples = samples_of_step};
        FX(store_step_add(f->s, &row));
        for (int m = 0; m < micro; m++, at = begin + 1000 + m * each) {
            slice(f, at, at + each, "micro_step", fx_kind(f, "micro_step"));
            for (size_t k = 0; k < parts; k++)
                for (int n = 0; n < part[k].calls; n++, at += part[k].us * 1000)
                    slice(f, at, at + part[k].us * 1000, part[k].name, detail_of(f, &part[k]));
        }
    }
}

static void held(struct fixture *f, const char *name, double bytes)
{
    fx_counter(f, fx_track(f, f->process, "counter", name, NULL), 5000, bytes);
}

/* Peak 100 GFLOP/s in fp32, 400 in bf16; products 80 and 160; DRAM 10 GB/s, L2 100 GB/s; 1 GB of
 * memory, 200 MB counted of which 20 MB are activations. */
static void machine_of(struct fixture *f, double dram)
{
    ceiling(f, "flops", "fp32", 100e9);
    ceiling(f, "flops", "bf16", 400e9);
    ceiling(f, "gemm", "fp32", 80e9);
    ceiling(f, "gemm", "bf16", 160e9);
    ceiling(f, "bandwidth", "", dram);
    ceiling(f, "bandwidth_l2", "", 100e9);
    FX(store_run_set(f->s, "memory.bytes", "1000000000"));
    FX(store_run_set(f->s, "command", "train gpt2-tiny"));
    held(f, "memory.parameters", 180e6);
    held(f, "memory.activations", 20e6);
    held(f, "memory.total", 200e6);
}

static void machine(struct fixture *f)
{
    machine_of(f, 10e9);
}

static const struct an_finding *finding(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

static bool was_checked(const struct an_result *r, const char *words)
{
    for (size_t i = 0; i < r->checked_count; i++)
        if (strstr(r->checked[i], words))
            return true;
    return false;
}

/* The check that could not be made, NULL: it was made or does not apply. */
static const struct an_not_checked *not_checked(const struct an_result *r, const char *check)
{
    for (size_t i = 0; i < r->not_checked_count; i++)
        if (!strcmp(r->not_checked[i].check, check))
            return &r->not_checked[i];
    return NULL;
}

/* All the parts of a finding (docs/definitions.md), three pieces of evidence at least; a ceiling
 * claims nothing else. */
static void check_form(const struct an_finding *f)
{
    const char *const parts[] = {f->id,          f->claim,     f->evidence[0], f->evidence[1],
                                 f->evidence[2], f->action,    f->method,      f->effort,
                                 f->verify,      f->wrong_when};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (!parts[k] || !*parts[k])
            fail_msg("%s: part %zu is missing", f->id, k);
    assert_true(strstr(f->evidence[0], "steps 1-10") || strstr(f->evidence[1], "steps 1-10"));
    assert_true(f->gain.ceiling == (f->gain.high.valid && !f->gain.expected.valid));
    assert_true(f->gain.low.valid == f->gain.expected.valid);
    assert_non_null(strstr(f->verify, "tacho diff"));
}

static double of_step(double removed_ms)
{
    return 100 * (10 / (10 - removed_ms) - 1);
}

/* 6 ms of products in fp32 and 1 ms of element-wise work at the peak: bf16 takes half of both away.
 */
static const struct part fp32_products[] = {
    {"matmul", "matrix", "fp32", "forward", 200000000, 1000000, 1000000, 3000, 2},
    {"gelu", "other", "fp32", "forward", 80000000, 1000, 1000, 1000, 1},
    {"adamw", "other", "fp32", "optimizer", 1000, 1000, 1000, 500, 1}};

static void test_precision(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    machine(f);
    steps(f, fp32_products, 3, 1);
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *x = finding(r, "LOW_PRECISION");
    assert_non_null(x);
    check_form(x);
    assert_near(x->gain.high.value, of_step(3.5), 1e-6);
    assert_non_null(strstr(x->method, "nothing was replayed: the speed of GEMMs by their size was "
                                      "not measured: tacho calibrate --force"));
    assert_int_equal(an_finding_listed(x), AN_LISTED_CHANGES);
    assert_non_null(strstr(x->claim, "60.0 % of the step in fp32"));
    assert_non_null(strstr(x->action, "--dtype bf16"));
    assert_non_null(strstr(x->verify, "train gpt2-tiny --dtype bf16"));
    assert_non_null(strstr(x->evidence[2], "66.67 GFLOP/s, 83 % of the fp32 roof"));
    assert_false(r->healthy);
    fx_close(f);
    fx_open(f); /* products above their roof: no share above 100 %, but a calibration that is not
                   believed */
    ceiling(f, "gemm", "fp32", 60e9);
    ceiling(f, "gemm", "bf16", 160e9);
    steps(f, fp32_products, 3, 1);
    x = finding(fx_analyze(f), "LOW_PRECISION");
    assert_non_null(x);
    assert_non_null(strstr(x->evidence[2], "66.67 GFLOP/s, above the fp32 roof"));
    assert_non_null(strstr(x->evidence[2], "tacho calibrate --force"));
    assert_int_equal(x->confidence, AN_LOW);
    fx_close(f);
}

/* Not where bf16 is no faster, not for products in bf16, and not without the roofs of products: a
 * gain has to be known. */
static void test_precision_refusals(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    struct part bf16[] = {fp32_products[0]};
    bf16[0].dtype = "bf16";
    for (int k = 0; k < 5; k++) {
        fx_open(f);
        if (k < 2) {
            ceiling(f, "gemm", "fp32", 80e9);
            ceiling(f, "gemm", "bf16", k ? 160e9 : 81e9);
        }
        if (k == 3 || k == 4) {
            ceiling(f, "flops", "fp32", 100e9);
            ceiling(f, "flops", "bf16", k == 3 ? 400e9 : 50e9);
        }
        steps(f, k == 1 ? bf16 : fp32_products, k == 1 ? 1 : 3, 1);
        const struct an_result *r = fx_analyze(f);
        const struct an_finding *x = finding(r, "LOW_PRECISION");
        assert_null(x);
        assert_int_equal(was_checked(r, "precision"), k == 0);
        assert_int_equal(not_checked(r, "precision") != NULL, k >= 2);
        fx_close(f);
    }
}

/* 2.5 ms of a step move 20 MB: 8 GB/s of 10. 10 MFLOP are 0.1 ms at the peak. What is faster is
 * cached, what is much slower is held by something else, an optimizer keeps its types. */
static void test_intensity(void **state)
{
    static const struct {
        struct part part;
        bool found;
    } cases[] = {
        {{"gelu", "other", "fp32", "forward", 10000000, 10000000, 10000000, 2500, 1}, true},
        {{"gelu", "other", "bf16", "forward", 10000000, 10000000, 10000000, 2500, 1}, true},
        {{"gelu", "other", "fp32", "forward", 10000000, 20000000, 10000000, 2500, 1}, false},
        {{"gelu", "other", "fp32", "forward", 10000000, 2000000, 2000000, 2500, 1}, false},
        {{"gelu", "other", "fp32", "forward", 1000000, 800000, 800000, 200, 1},
         false}, /* 2 % with its arithmetic */
        {{"adamw", "other", "fp32", "optimizer", 10000000, 10000000, 10000000, 2500, 1}, false},
        {{"matmul", "matrix", "fp32", "forward", 10000000, 10000000, 10000000, 2500, 1}, false}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        machine(f);
        steps(f, &cases[k].part, 1, 1);
        const struct an_result *r = fx_analyze(f);
        const struct an_finding *x = finding(r, "LOW_INTENSITY");
        if (!x != !cases[k].found)
            fail_msg("case %zu", k);
        if (x) {
            check_form(x);
            assert_near(x->gain.high.value, of_step(2.4), 1e-6);
            assert_non_null(strstr(x->claim, "25.0 % of the step"));
            assert_non_null(strstr(x->action, k ? "one pass" : "--dtype bf16"));
            assert_non_null(strstr(x->evidence[1], "gelu, 8 GB/s, 80 % of the DRAM roof"));
        } else {
            assert_true(was_checked(r, "memory-bound operators"));
        }
        fx_close(f);
    }
    struct fixture fx, *f = &fx; /* not calibrated: nothing was looked at */
    fx_open(f);
    steps(f, &cases[0].part, 1, 1);
    const struct an_result *r = fx_analyze(f);
    assert_null(finding(r, "LOW_INTENSITY"));
    assert_non_null(strstr(not_checked(r, "memory-bound operators")->to_check, "tacho calibrate"));
    fx_close(f);
}

/* 40 products of 4 MFLOP: 50 us each at the roof of 80 GFLOP/s, 200 us here: a quarter of the roof.
 * A call of half a millisecond needs ten times the rows: a factor of 16. */
static const struct part small[] = {
    {"matmul", "matrix", "fp32", "forward", 4000000, 50000, 50000, 200, 40},
    {"adamw", "other", "fp32", "optimizer", 1000, 1000, 1000, 500, 1}};

static void test_small_batch(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    machine(f);
    steps(f, small, 2, 1);
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *x = finding(r, "SMALL_BATCH");
    assert_non_null(x);
    check_form(x);
    /* products at the roof: 2 of 8 ms; the other 2 ms are shared by 16 times the samples */
    assert_near(x->gain.high.value, of_step(6 + 2 * 15 / 16.0), 1e-6);
    assert_non_null(strstr(x->claim, "25 % of their roof: a micro-batch of 8 samples (512 rows)"));
    assert_non_null(
        strstr(x->action, "--batch 128 in place of 8: a global batch of 128 samples, not 8"));
    assert_non_null(strstr(x->verify, "--batch 128;"));
    bool room = false;
    for (size_t i = 0; i < 5 && x->evidence[i]; i++)
        room = room || strstr(x->evidence[i], "activations and workspace take 20 MB, 16 times as "
                                              "much is 300 MB more; 800 MB are left");
    assert_true(room);
    fx_close(f);
}

/* 40 products of 512 rows with a layer of 64 x 64 in 8 ms, and a curve on which 16 times the rows
 * take four times as long, and bf16 half of the time. */
static const struct part curved[] = {
    {"matmul", "matrix", "fp32", "forward", 4194304, 147456, 131072, 200, 40},
    {"adamw", "other", "fp32", "optimizer", 1000, 1000, 1000, 500, 1}};

static void curve(struct fixture *f)
{
    for (int i = 0; i < 8; i++) {
        int rows = i & 1 ? 8192 : 512, size = i & 2 ? 256 : 64;
        double us = (i & 1 ? 800 : 200) * (i & 2 ? 2 : 1) / (i & 4 ? 2.0 : 1);
        char name[48];
        snprintf(name, sizeof name, "gemm_forward:%dx%dx%d", rows, size, size);
        ceiling(f, name, i & 4 ? "bf16" : "fp32", 2e6 * rows * size * size / us);
    }
}

/* By the curve both findings have an expected gain with an interval in place of a ceiling. Without
 * accumulation both change the training. */
static void test_gains_by_the_curve(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    machine(f);
    curve(f);
    FX(store_run_set(f->s, "command", "[\"train\",\"gpt2-tiny\"]"));
    steps(f, curved, 2, 1);
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *x = finding(r, "SMALL_BATCH");
    assert_non_null(x);
    assert_false(x->gain.ceiling);
    assert_string_equal(x->what_if, "micro=16x");
    /* a quarter of the products, a sixteenth of what is done once a step */
    assert_near(x->gain.expected.value, of_step(10 - 2 - 2 / 16.0), 2);
    assert_true(x->gain.low.value <= x->gain.expected.value &&
                x->gain.expected.value <= x->gain.high.value);
    assert_int_equal(an_finding_listed(x), AN_LISTED_CHANGES);
    assert_non_null(strstr(x->method, "a global batch 16 times as large"));
    x = finding(r, "LOW_PRECISION");
    assert_non_null(x);
    assert_false(x->gain.ceiling);
    assert_near(x->gain.expected.value, of_step(4), 1);
    assert_int_equal(an_finding_listed(x), AN_LISTED_CHANGES);
    assert_null(r->advice.together.edit); /* neither is joined with what keeps the training */
    assert_int_equal(r->advice.edit_count, 2);
    fx_close(f);
}

/* With accumulation the micro-batch grows in the same training: the finding is ranked, and no
 * factor is proposed that would change the global batch. */
static void test_ranked_by_the_curve(void **state)
{
    static const struct part third[] = {
        {"matmul", "matrix", "fp32", "forward", 4194304, 147456, 131072, 200, 13}};
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    machine(f);
    curve(f);
    FX(store_run_set(f->s, "command",
                     "[\"train\",\"gpt2-tiny\",\"--batch\",\"8\",\"--accumulate\",\"3\"]"));
    tokens_of_step = 3 * 512;
    samples_of_step = 3 * 8;
    steps(f, third, 1, 3);
    tokens_of_step = 512;
    samples_of_step = 8;
    const struct an_finding *x = finding(fx_analyze(f), "SMALL_BATCH");
    assert_non_null(x);
    assert_string_equal(x->what_if, "micro=3x");
    assert_false(x->gain.ceiling);
    assert_null(x->changes);
    assert_int_equal(an_finding_listed(x), AN_LISTED_RANKED);
    assert_non_null(strstr(x->action, "--batch 24 --accumulate 1"));
    /* 512 rows to 1536 of 512 to 8192: sqrt(3) times the time of a third of the calls */
    double products = 3 * 13 * 0.2, once = 3 * ((10 - 0.002) / 3 - 13 * 0.2);
    assert_near(x->gain.expected.value, of_step(products * (1 - 1 / sqrt(3)) + once * 2 / 3), 3);
    fx_close(f);
}

/* The same products with 127 channels: no multiple of the vectors. With 128 there is nothing to
 * say. */
static void test_dimensions(void **state)
{
    static const char *const commands[] = {
        "[\"train\",\"gpt2-tiny\",\"--channels\",\"127\",\"--heads\",\"1\"]",
        "[\"train\",\"gpt2-tiny\",\"--channels\",\"128\",\"--heads\",\"1\"]"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        machine(f);
        FX(store_run_set(f->s, "command", commands[i]));
        steps(f, small, 2, 1);
        const struct an_finding *x = finding(fx_analyze(f), "LOW_EFFICIENCY_GEMM");
        assert_int_equal(x != NULL, i == 0);
        if (x) {
            check_form(x);
            assert_true(x->gain.ceiling);
            assert_string_equal(x->changes, "the size of the model");
            assert_string_equal(x->action, "--channels 128 in place of 127");
            assert_near(x->gain.high.value, of_step(6), 1e-6);
        }
        fx_close(f);
    }
}

/* Accumulation keeps the global batch and the optimizer: fewer, larger micro-steps. */
static void test_small_batch_accumulated(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    struct part half[] = {small[0]};
    half[0].calls = 20;
    struct part parts[] = {half[0],
                           {"adamw", "other", "fp32", "optimizer", 1000, 1000, 1000, 250, 1}};
    fx_open(f);
    machine(f);
    steps(f, parts, 2, 2);
    const struct an_finding *x = finding(fx_analyze(f), "SMALL_BATCH");
    assert_non_null(x);
    /* the optimizer's 0.5 ms stay, of the other 1.5 ms one half */
    assert_near(x->gain.high.value, of_step(6 + 1.5 / 2), 1e-6);
    assert_non_null(strstr(
        x->action, "--batch 8 --accumulate 1 in place of 4: the same global batch of 8 samples"));
    fx_close(f);
}

/* Not where memory has no room, where products are near their roof, where large calls are slow for
 * another reason. */
static void test_small_batch_refusals(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct part part = small[0];
        struct fixture fx, *f = &fx;
        fx_open(f);
        machine(f);
        if (k == 0)
            FX(store_run_set(f->s, "memory.bytes", "215000000"));
        if (k == 1)
            part.us = 80;
        if (k == 2) { /* 40 MFLOP, 0.5 ms at the roof, right of the ridge */
            part.flops = 40000000;
            part.us = 2000;
            part.calls = 4;
        }
        if (k == 3) { /* the same left of the ridge: 400 rows would not be */
            part.flops = 40000000;
            part.us = 2000;
            part.calls = 4;
            part.read = 8000000;
        }
        steps(f, &part, 1, 1);
        const struct an_result *r = fx_analyze(f);
        if (!finding(r, "SMALL_BATCH") == (k == 3))
            fail_msg("case %d", k);
        assert_int_equal(was_checked(r, "batch size"), k != 3);
        fx_close(f);
    }
    struct fixture fx, *f = &fx; /* no roof of products: nothing was looked at */
    fx_open(f);
    steps(f, small, 2, 1);
    const struct an_result *r = fx_analyze(f);
    assert_null(finding(r, "SMALL_BATCH"));
    assert_non_null(not_checked(r, "batch size"));
    fx_close(f);
}

/* A machine whose peaks are not known: nothing is found, and the run is not called healthy; the
 * peaks that are measured afterwards on the same machine make every check possible. */
static void test_healthy_needs_every_check(void **state)
{
    static const struct an_measured_ceiling rows[] = {{"gemm", "fp32", "later", 80e9},
                                                      {"gemm", "bf16", "later", 81e9},
                                                      {"bandwidth", "", "later", 10e9},
                                                      {"flops", "fp32", "later", 100e9}};
    static const struct part fast[] = {
        {"matmul", "matrix", "fp32", "forward", 400000000, 1000000, 1000000, 9990, 2}};
    const struct an_calibration later = {"one CPU", 2, rows, 4};
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        held(f, "memory.total", 200e6);
        FX(store_run_set(f->s, "memory.bytes", "1000000000"));
        FX(store_run_set(f->s, "cpu.model", k == 2 ? "another CPU" : "one CPU"));
        FX(store_run_set(f->s, "cpu.usable", "2"));
        steps(f, fast, 1, 1);
        const struct an_options options = {.calibration = k ? &later : NULL};
        const struct an_result *r = fx_analyze_with(f, &options);
        assert_int_equal(r->finding_count, 0);
        assert_int_equal(not_checked(r, "batch size") != NULL, k != 1);
        assert_int_equal(r->healthy, k == 1);
        assert_int_equal(strstr(r->verdict, "HEALTHY") != NULL, k == 1);
        assert_int_equal(strstr(r->verdict, "NO PROBLEM FOUND") != NULL, k != 1);
        assert_int_equal(strstr(r->verdict, "measured after the recording") != NULL, k == 1);
        assert_int_equal(strstr(r->verdict, "to check: tacho calibrate") != NULL, k != 1);
        assert_null(strstr(r->verdict, "high confidence"));
        fx_close(f);
    }
}

/* A processor that is busy at 12 % of its peak is not healthy, whatever was looked at. */
static void test_low_use_is_not_healthy(void **state)
{
    static const struct part slow[] = {
        {"matmul", "matrix", "fp32", "forward", 60000000, 1000000, 1000000, 4990, 2}};
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    ceiling(f, "flops", "fp32", 100e9);
    ceiling(f, "gemm", "fp32", 13e9);
    ceiling(f, "gemm", "bf16", 13.1e9);
    ceiling(f, "bandwidth", "", 10e9);
    held(f, "memory.total", 200e6);
    FX(store_run_set(f->s, "memory.bytes", "1000000000"));
    FX(store_run_set(f->s, "cpu.usable", "2"));
    steps(f, slow, 1, 1);
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->finding_count, 0);
    assert_false(r->healthy);
    const struct an_not_checked *missing = not_checked(r, "efficiency of operators");
    assert_non_null(missing);
    assert_non_null(strstr(missing->reason, "reaches 12.0 % of the peak"));
    fx_close(f);
}

/* Kept activations move through memory twice more at worst: 2 ms are recomputed, 0.2 ms of which
 * that takes at 1 TB/s. Where it may take as long as computing them again, nothing is claimed. */
static void test_recompute(void **state)
{
    static const struct part parts[] = {
        {"matmul", "matrix", "bf16", "forward", 400000000, 1000000, 1000000, 5000, 1},
        {"matmul", "matrix", "bf16", "recompute", 100000000, 1000000, 50000000, 1000, 2}};
    (void)state;
    for (int k = 0; k < 5; k++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        machine_of(f, k == 4 ? 10e9 : 1e12);
        if (k == 1)
            FX(store_run_set(f->s, "memory.bytes",
                             "290000000")); /* 90 MB are left, 100 MB would be kept */
        if (k == 2)
            FX(store_run_set(f->s, "memory.bytes", "unknown"));
        steps(f, parts, k == 3 ? 1 : 2, 1);
        const struct an_result *r = fx_analyze(f);
        const struct an_finding *x = finding(r, "RECOMPUTE");
        assert_int_equal(x != NULL, k == 0 || k == 4);
        assert_int_equal(was_checked(r, "recomputation"), k == 1);
        assert_int_equal(not_checked(r, "recomputation") != NULL, k == 2);
        if (k == 4)
            assert_int_equal(an_finding_listed(x), AN_LISTED_MEASURE);
        if (k == 0) {
            check_form(x);
            assert_near(x->gain.high.value, of_step(2), 1e-6);
            assert_near(x->gain.low.value, of_step(1.8), 1e-6);
            assert_near(x->gain.expected.value, of_step(1.9), 1e-2);
            assert_non_null(strstr(x->action, "--recompute none"));
            assert_non_null(strstr(x->evidence[1], "0.2 GFLOP a step are recomputed, 33.3 %"));
            assert_non_null(strstr(x->evidence[2], "writes 100 MB a micro-step"));
        }
        fx_close(f);
    }
}

/* What a program does not say of its memory is not 0: how much kept activations would take is not
 * known, and nothing is advised. */
static void test_recompute_of_unknown_size(void **state)
{
    static const struct part parts[] = {
        {"matmul", "matrix", "bf16", "forward", 400000000, 1000000, 1000000, 5000, 1},
        {"block", "matrix", "bf16", "recompute", 100000000, 1000000, FX_NONE, 1000, 2}};
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    machine_of(f, 1e12);
    steps(f, parts, 2, 1);
    assert_null(finding(fx_analyze(f), "RECOMPUTE"));
    fx_close(f);
}

/* In bf16 8 of 10 ms would take 4, and 1.6 ms are recomputed: what keeps the training comes first,
 * however much more a change of it gains. */
static void test_the_same_training_first(void **state)
{
    static const struct part parts[] = {
        {"matmul", "matrix", "fp32", "forward", 4194304, 147456, 131072, 200, 32},
        {"matmul", "matrix", "fp32", "recompute", 4194304, 147456, 131072, 200, 8}};
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    machine_of(f, 1e12);
    curve(f);
    steps(f, parts, 2, 1);
    const struct an_result *r = fx_analyze(f);
    const struct an_finding *same = finding(r, "RECOMPUTE"), *change = finding(r, "LOW_PRECISION");
    assert_non_null(same);
    assert_non_null(change);
    assert_int_equal(an_finding_listed(same), AN_LISTED_RANKED);
    assert_int_equal(an_finding_listed(change), AN_LISTED_CHANGES);
    assert_true(change->gain.low.value > same->gain.high.value);
    assert_ptr_equal(same, r->findings);
    fx_close(f);
}

/* A processor that computes is named by what limits the operations that take most of their time;
 * without roofs it only computes. */
static void test_verdict_of_memory(void **state)
{
    static const struct {
        int64_t memory_us, matrix_us, bytes_per_us;
        bool measured;
        const char *class;
    } cases[] = {{6000, 3000, 4000, true, "MEMORY-BOUND"}, /* 80 % of the roof, then 40 % */
                 {6000, 3000, 2000, true, "COMPUTE-BOUND"},
                 {3000, 6000, 4000, true, "COMPUTE-BOUND"},
                 {6000, 3000, 4000, false, "COMPUTE-BOUND"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture fx, *f = &fx;
        int64_t bytes = cases[k].memory_us * cases[k].bytes_per_us,
                flops = cases[k].matrix_us * 80000;
        struct part parts[] = {
            {"adamw", "other", "fp32", "optimizer", bytes, bytes, bytes, cases[k].memory_us, 1},
            {"matmul", "matrix", "fp32", "forward", flops, 1000, 1000, cases[k].matrix_us, 1}};
        fx_open(f);
        if (cases[k].measured)
            machine(f);
        steps(f, parts, 2, 1);
        const struct an_result *r = fx_analyze(f);
        if (strcmp(r->verdict_class, cases[k].class) != 0)
            fail_msg("case %zu: %s", k, r->verdict);
        const char *said = "operations with 67 % of the ops' time run at the speed of memory";
        assert_true(!strstr(r->verdict, said) == (k != 0));
        fx_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_precision),
                                       cmocka_unit_test(test_verdict_of_memory),
                                       cmocka_unit_test(test_precision_refusals),
                                       cmocka_unit_test(test_intensity),
                                       cmocka_unit_test(test_small_batch),
                                       cmocka_unit_test(test_gains_by_the_curve),
                                       cmocka_unit_test(test_ranked_by_the_curve),
                                       cmocka_unit_test(test_dimensions),
                                       cmocka_unit_test(test_small_batch_accumulated),
                                       cmocka_unit_test(test_small_batch_refusals),
                                       cmocka_unit_test(test_healthy_needs_every_check),
                                       cmocka_unit_test(test_low_use_is_not_healthy),
                                       cmocka_unit_test(test_recompute),
                                       cmocka_unit_test(test_recompute_of_unknown_size),
                                       cmocka_unit_test(test_the_same_training_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
