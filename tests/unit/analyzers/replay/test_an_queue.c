/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader of the reference engine, whose queue is shorter than its workers are many: a simulated
 * ring (libtrain/loader/loader_ring.h) is recorded, and each prediction is compared with a
 * simulation of the changed one.
 */
#include "tests/unit/an_fixture.h"

#define STEPS   60
#define US      1000ll
#define WORKERS 8         /* at most */
#define TAKES   (US / 10) /* of a batch that is there */

/* us; workers make a batch each, at most `prefetch` of them ahead */
struct loader {
    int workers, prefetch, batch, compute;
    bool uneven; /* each third step computes in a tenth of the time */
};

struct batch {
    int worker;
    int64_t claimed, begun, made; /* of its worker: ready for it, slot free, published */
    int64_t asked, taken, done;   /* of the step */
};

/* Slot k % (prefetch + 1) is free again when the step asks for the batch after the one in it. */
static void simulate(const struct loader *loader, struct batch *batch)
{
    int64_t ready[WORKERS] = {0};
    int slots = loader->prefetch + 1;
    for (int k = 0; k < STEPS; k++) {
        int worker = 0;
        for (int other = 1; other < loader->workers; other++)
            worker = ready[other] < ready[worker] ? other : worker;
        struct batch *own = &batch[k];
        int64_t freed = k >= slots ? batch[k - slots + 1].asked : 0;
        own->worker = worker;
        own->claimed = ready[worker];
        own->begun = freed > own->claimed ? freed : own->claimed;
        own->made = own->begun + loader->batch * US + (k % 3) * US / 4;
        ready[worker] = own->made;
        own->asked = k ? batch[k - 1].done : 0;
        own->taken = own->asked + TAKES > own->made ? own->asked + TAKES : own->made;
        own->done = own->taken + loader->compute * US / (loader->uneven && k % 3 == 0 ? 10 : 1);
    }
}

static void slice(struct fixture *f, int64_t track, int64_t start, int64_t end, const char *name,
                  int64_t detail)
{
    if (end > start)
        FX(store_slice_add(f->s, &(struct store_slice){.track = track,
                                                       .start = FX_BASE + start,
                                                       .dur = end - start,
                                                       .name = fx_string(f, name),
                                                       .category = fx_string(f, "libtrain"),
                                                       .detail = detail,
                                                       .correlation = FX_NONE}));
}

static void record(struct fixture *f, const struct loader *loader)
{
    struct batch batch[STEPS];
    int64_t track[WORKERS], work = fx_work(f, "matrix", "fp32", 1000, 1000, 1000);
    char text[80];
    for (int worker = 0; worker < loader->workers; worker++) {
        snprintf(text, sizeof text, "loader-%d", worker);
        track[worker] = fx_track(f, f->process, "thread", text, NULL);
    }
    simulate(loader, batch);
    for (int k = 0; k < STEPS; k++) {
        const struct batch *own = &batch[k];
        slice(f, track[own->worker], own->claimed, own->begun, "queue_wait",
              fx_kind(f, "queue_wait"));
        slice(f, track[own->worker], own->begun, own->made - US, "decode", fx_kind(f, "decode"));
        slice(f, track[own->worker], own->made - US, own->made, "collate", fx_kind(f, "collate"));
        fx_step(f, f->process, f->thread, k, own->asked, own->done, 8, false);
        slice(f, f->thread, own->asked, own->taken, "input_wait", fx_kind(f, "input_wait"));
        slice(f, f->thread, own->taken, own->done, "matmul.forward", work);
    }
    snprintf(text, sizeof text, "[\"train\",\"--workers\",\"%d\",\"--prefetch\",\"%d\"]",
             loader->workers, loader->prefetch);
    FX(store_run_set(f->s, "command", text));
    FX(store_run_set_int(f->s, "cpu.usable", 64));
}

/* Mean step in the second half, ms. */
static double step_of(const struct loader *loader)
{
    struct batch batch[STEPS];
    simulate(loader, batch);
    return (double)(batch[STEPS - 1].done - batch[STEPS / 2 - 1].done) / (STEPS / 2.0) / 1e6;
}

/* With a queue of one batch only two workers make one at a time: more of them gain nothing, a
 * deeper queue lets all three work. */
static void test_short_queue(void **state)
{
    static const struct loader recorded = {3, 1, 50, 7, false};
    static const struct {
        const char *edit;
        struct loader loader;
    } edits[] = {{"loader.prefetch=6", {3, 6, 50, 7, false}},
                 {"loader.prefetch=2", {3, 2, 50, 7, false}},
                 {"loader.workers=8", {8, 1, 50, 7, false}},
                 {"loader.workers=2", {2, 1, 50, 7, false}},
                 {"loader.workers=1", {1, 1, 50, 7, false}}};
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        record(f, &recorded);
        const struct an_options options = {.file = "run.tacho", .what_if = edits[i].edit};
        const struct an_result *result = fx_analyze_with(f, &options);
        assert_null(result->advice.reason);
        const struct an_what_if *what_if = &result->advice.edits[0];
        double truth = step_of(&edits[i].loader) / step_of(&recorded);
        if (what_if->reason)
            fail_msg("%s: %s", edits[i].edit, what_if->reason);
        double predicted = 1 / (1 + what_if->gain.expected.value / 100);
        if (fabs(predicted / truth - 1) > 0.05)
            fail_msg("%s: predicted %.3f of the step, simulated %.3f", edits[i].edit, predicted,
                     truth);
        fx_close(f);
    }
}

/* The finding proposes what the queue lacks, not more workers. */
static void test_finding(void **state)
{
    static const struct {
        struct loader loader;
        const char *setting, *edit;
    } cases[] = {
        {{3, 1, 50, 7, false}, "--prefetch 6", "loader.prefetch=6"},
        {{1, 4, 50, 7, false}, "--workers 8 --prefetch 8", "loader.workers=8,loader.prefetch=8"},
        {{1, 4, 12, 7, false}, "--workers 2 instead", "loader.workers=2"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fx, *f = &fx;
        fx_open(f);
        record(f, &cases[i].loader);
        const struct an_result *result = fx_analyze(f);
        assert_true(result->finding_count > 0);
        const struct an_finding *finding = &result->findings[0];
        assert_string_equal(finding->id, "INPUT_STALL");
        if (!strstr(finding->action, cases[i].setting))
            fail_msg("\"%s\" lacks \"%s\"", finding->action, cases[i].setting);
        assert_string_equal(finding->what_if, cases[i].edit);
        assert_false(finding->gain.ceiling);
        assert_true(finding->gain.low.value > 0);
        fx_close(f);
    }
}

/* Where the loader still limits the step, its low end is what the workers make, however fast the
 * rest of a step may become. */
static void test_low_end(void **state)
{
    static const struct loader recorded = {1, 6, 60, 19, true}, changed = {3, 6, 60, 19, true};
    const struct an_options options = {.file = "run.tacho", .what_if = "loader.workers=3"};
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    record(f, &recorded);
    const struct an_result *result = fx_analyze_with(f, &options);
    const struct an_gain *gain = &result->advice.edits[0].gain;
    double truth = step_of(&changed) / step_of(&recorded), low = 1 / (1 + gain->high.value / 100),
           high = 1 / (1 + gain->low.value / 100);
    if (low > truth || high < truth || low < 0.85 * truth)
        fail_msg("[%.3f, %.3f] of the step, simulated %.3f", low, high, truth);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_queue),
                                       cmocka_unit_test(test_finding),
                                       cmocka_unit_test(test_low_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
