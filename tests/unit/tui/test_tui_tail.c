/* SPDX-License-Identifier: Apache-2.0
 *
 * Following a file that grows: nothing is read twice, nothing is missed, what is kept is bounded.
 * And the thread around it: a run ends, is deleted, begins again, its recorder dies, and the
 * dashboard has a message for each.
 */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "tests/unit/an_fixture.h"
#include "tui/data/data.h"
#include "tui/data/runs.h"
#include "tui/data/tail.h"

#define MS 1000000ll

static void add_steps(struct fixture *f, int64_t loss, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        fx_slice(f, f->thread, i * 10 * MS, i * 10 * MS + 8 * MS, "op", FX_NONE);
        fx_step(f, f->process, f->thread, i, i * 10 * MS, i * 10 * MS + (i == 700 ? 50 : 9) * MS,
                90, false);
        fx_counter(f, loss, i * 10 * MS + 9 * MS, (double)i);
    }
}

static int poll_all(struct tui_tail *t, store_reader *r, int64_t rows)
{
    int more, calls = 0;
    while ((more = tui_tail_poll(t, r, rows)) == 1)
        calls++;
    assert_int_equal(more, 0);
    return calls;
}

static void test_growing(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    store_reader *r = NULL;
    struct tui_tail *t = tui_tail_new();
    (void)state;
    fx_open(f);
    int64_t loss = fx_track(f, f->process, "counter", "loss", "");
    FX(store_run_set_int(f->s, "start.monotonic_ns", FX_BASE));
    for (int64_t batch = 0; batch < 10; batch++) {
        if (batch)
            FX(store_begin(f->s));
        add_steps(f, loss, batch * 100, batch * 100 + 100);
        FX(store_commit(f->s));
        if (store_open(f->path, &r, &err))
            fail_msg("%s", err.what);
        poll_all(t, r, 37); /* in small bites */
        store_reader_close(r);
        struct tui_model *m = tui_tail_model(t);
        assert_int_equal(m->steps_seen, batch * 100 + 100);
        assert_int_equal(m->step_count, batch * 100 + 100);
        assert_int_equal(m->last_index, batch * 100 + 99);
        for (size_t i = 0; i < m->step_count; i++) {
            assert_int_equal(m->step[i].index, i);
            assert_near(m->step[i].ms, i == 700 ? 50 : 9, 1e-9);
            assert_near(m->step[i].start_s, (double)i * 0.01, 1e-9);
        }
        const struct tui_series *s = tui_model_series(m, "loss");
        assert_non_null(s);
        assert_near(s->last, (double)(batch * 100 + 99), 0);
        assert_int_equal(s->count, batch * 100 + 100);
        assert_near(m->recent_ms, 9, 1e-9);
        assert_near(m->recent_tokens_per_s, 10000, 1e-6);
        assert_null(tui_model_series(m, "nothing"));
        tui_model_free(m);
    }
    tui_tail_free(t);
    fx_close(f);
}

/* strdup has memory for so many more copies; -1: for all. */
static int copies_left = -1;

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
    if (copies_left > 0)
        copies_left--;
    return copies_left ? __real_strdup(text) : NULL;
}

/* A row for whose texts there was no memory is not kept half, and is read by the next poll. */
static void test_no_memory(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    store_reader *r = NULL;
    int rc = TACHO_ENOMEM;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "source", "a test"));
    add_steps(f, fx_track(f, f->process, "counter", "loss", "nats"), 0, 10);
    FX(store_commit(f->s));
    if (store_open(f->path, &r, &err))
        fail_msg("%s", err.what);
    for (int copies = 1; rc && copies < 100; copies++) { /* the last of them fails */
        struct tui_tail *t = tui_tail_new();
        assert_non_null(t);
        copies_left = copies;
        rc = tui_tail_poll(t, r, 1000000);
        copies_left = -1;
        assert_true(rc == 0 || rc == TACHO_ENOMEM);
        assert_null(tui_tail_key(t, "none"));
        poll_all(t, r, 1000000);
        struct tui_model *m = tui_tail_model(t);
        const struct tui_series *s = tui_model_series(m, "loss");
        assert_non_null(s);
        assert_int_equal(s->count, 10);
        assert_string_equal(tui_tail_key(t, "source"), "a test");
        tui_model_free(m);
        tui_tail_free(t);
    }
    assert_int_equal(rc, 0);
    store_reader_close(r);
    fx_close(f);

    struct tui_runs runs = {0};
    struct tui_run run = {.run = (char *)"a.tacho", .state = (char *)"live"};
    for (copies_left = 1; copies_left < 3; copies_left++) {
        int copies = copies_left;
        assert_int_equal(tui_runs_add(&runs, &run), TACHO_ENOMEM);
        assert_int_equal(runs.count, 0);
        copies_left = copies;
    }
    copies_left = -1;
    tui_runs_clear(&runs);
}

/* Of many steps rows are merged: bounded, no step is lost, the mean is right and the worst step is
 * still to be seen. */
/* How far the run is: what it planned, and how long the rest takes at the pace of its newer half,
 * pauses between steps included. */
static void test_progress(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    store_reader *r = NULL;
    struct tui_tail *t = tui_tail_new();
    (void)state;
    fx_open(f);
    add_steps(f, fx_track(f, f->process, "counter", "loss", ""), 0, 200);
    FX(store_commit(f->s));
    if (store_open(f->path, &r, &err))
        fail_msg("%s", err.what);
    poll_all(t, r, 1000000);
    struct tui_model *m = tui_tail_model(t);
    m->state = TUI_LIVE;
    assert_int_equal(m->steps_expected, 0);
    assert_true(isnan(tui_model_left_s(m)));
    size_t series = m->series_count;
    tui_model_free(m);
    FX(store_begin(f->s));
    fx_counter(f, fx_track(f, f->process, "counter", "steps_planned", ""), 0, 1000);
    FX(store_commit(f->s));
    store_reader_close(r);
    if (store_open(f->path, &r, &err))
        fail_msg("%s", err.what);
    poll_all(t, r, 1000000);
    m = tui_tail_model(t);
    m->state = TUI_LIVE;
    assert_int_equal(m->steps_expected, 1000);
    assert_int_equal(m->series_count, series);         /* no curve */
    assert_true(fabs(tui_model_left_s(m) - 8) < 0.01); /* 800 steps, one each 10 ms */
    m->state = TUI_ENDED;
    assert_true(isnan(tui_model_left_s(m)));
    tui_model_free(m);
    tui_tail_free(t);
    store_reader_close(r);
    fx_close(f);
}

static void test_bounded(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    struct tui_tail *t = tui_tail_new();
    int64_t steps = 0, values = 20000;
    double ms = 0, worst = 0;
    (void)state;
    fx_open(f);
    int64_t loss = fx_track(f, f->process, "counter", "loss", "");
    int64_t total = fx_track(f, f->process, "counter", "memory.total", "");
    add_steps(f, loss, 0, values);
    for (int64_t i = 0; i < values; i++)
        fx_counter(f, total, i * 10 * MS, i == 12345 ? 9e9 : 1e9);
    FX(store_commit(f->s));
    if (store_open(f->path, &f->reader, &err))
        fail_msg("%s", err.what);
    assert_true(poll_all(t, f->reader, 1000) >=
                2 * values / 1000 - 1); /* a long file does not hold up the first frames */
    struct tui_model *m = tui_tail_model(t);
    assert_true(m->step_count > AN_STEP_POINTS_MOST / 4 && m->step_count <= AN_STEP_POINTS_MOST);
    for (size_t i = 0; i < m->step_count; i++) {
        steps += m->step[i].steps;
        ms += m->step[i].ms * (double)m->step[i].steps;
        worst = fmax(worst, m->step[i].worst_ms);
        assert_true(!i || m->step[i].start_s > m->step[i - 1].start_s);
    }
    assert_int_equal(steps, values);
    assert_near(ms, 9.0 * (double)values + 41, 1e-3);
    assert_near(worst, 50, 1e-9);
    const struct tui_series *s = tui_model_series(m, "loss");
    assert_true(s->count > TUI_SERIES_MOST / 4 && s->count <= TUI_SERIES_MOST);
    assert_true(s->time_s[0] < s->time_s[s->count - 1]);
    assert_near(s->last, (double)values - 1, 0);
    /* A peak of memory is still to be seen, at its time; what is held now is not the peak. */
    s = tui_model_series(m, "memory.total");
    assert_near(s->time_s[0], 0, 0);
    size_t peak = 0;
    for (size_t i = 0; i < s->count; i++)
        peak = s->value[i] > s->value[peak] ? i : peak;
    assert_near(s->value[peak], 9e9, 0);
    assert_near(s->time_s[peak], 123.45, 1e-9);
    assert_near(s->last, 1e9, 0);
    assert_true(s->count <= TUI_SERIES_MOST);
    tui_model_free(m);
    tui_tail_free(t);
    fx_close(f);
}

/* Classes of the steps that an analysis saw come into the rows of these steps and no others. */
static void test_learn(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct tacho_error err = {0};
    struct tui_tail *t = tui_tail_new();
    struct an_step_point seen[] = {{.index = 5, .steps = 1, .detailed = true},
                                   {.index = 7, .steps = 1, .detailed = false}};
    struct an_result r = {.step_points = seen, .step_point_count = 2};
    (void)state;
    seen[0].class_ms[AN_CLASS_INPUT] = 3;
    fx_open(f);
    add_steps(f, fx_track(f, f->process, "counter", "loss", ""), 0, 10);
    FX(store_commit(f->s));
    if (store_open(f->path, &f->reader, &err))
        fail_msg("%s", err.what);
    poll_all(t, f->reader, 1000);
    tui_tail_update(t, &r);
    struct tui_model *m = tui_tail_model(t);
    for (size_t i = 0; i < m->step_count; i++)
        assert_int_equal(m->step[i].detailed, m->step[i].index == 5);
    assert_near(m->step[5].class_ms[AN_CLASS_INPUT], 3, 0);
    tui_model_free(m);
    tui_tail_free(t);
    fx_close(f);
}

/* ---- the thread ------------------------------------------------------------------------------------------------------------------ */

/* A run of which the test decides what becomes of it. */
struct stage {
    pthread_mutex_t lock;
    char path[1400], run[64];
    bool there, live, recorded;
    int analyses;
    int64_t slices; /* of a part, whatever is asked for; 0 */
};

static int stage_find(void *ctx, struct tui_found *f, struct tacho_error *err)
{
    struct stage *s = ctx;
    pthread_mutex_lock(&s->lock);
    snprintf(f->path, sizeof f->path, "%s", s->path);
    snprintf(f->run, sizeof f->run, "%s", s->run);
    f->live = s->live;
    bool there = s->there;
    pthread_mutex_unlock(&s->lock);
    return there ? 0 : tacho_fail(err, TACHO_ENOTFOUND, NULL, "%s: no such run", s->run);
}

static bool stage_recorded(void *ctx, const struct tui_found *f)
{
    struct stage *s = ctx;
    (void)f;
    pthread_mutex_lock(&s->lock);
    bool recorded = s->recorded;
    pthread_mutex_unlock(&s->lock);
    return recorded;
}

static int stage_analyze(void *ctx, store_reader *r, const struct tui_found *f, int64_t slices,
                         int64_t until, struct an_result **out, struct tacho_error *err)
{
    struct stage *s = ctx;
    struct an_options o = {.file = f->run,
                           .live = f->live,
                           .part_slices = s->slices ? s->slices : slices,
                           .part_until = until};
    s->analyses++;
    return an_analyze(r, &o, out, err);
}

/* Waits a moment for a newer model, which takes the place of the one before. */
static bool newer_model(struct tui_data *d, struct tui_model **m)
{
    struct pollfd p = {.fd = tui_data_fd(d), .events = POLLIN};
    poll(&p, 1, 50);
    struct tui_model *newer = tui_data_take(d);
    if (newer) {
        tui_model_free(*m);
        *m = newer;
    }
    return newer;
}

/* Waits until a model is as wanted; its message comes back. */
static void wait_for(struct tui_data *d, enum tui_run_state want, int64_t steps,
                     const char *message)
{
    struct tui_model *m = NULL;
    char last[256] = "";
    for (int i = 0; i < 600; i++) {
        if (!newer_model(d, &m))
            continue;
        snprintf(last, sizeof last, "state %d, %lld steps, %s", (int)m->state,
                 (long long)m->steps_seen, m->message);
        if (m->state == want && m->steps_seen == steps && m->result &&
            strstr(m->message, message)) {
            tui_model_free(m);
            return;
        }
    }
    tui_model_free(m);
    fail_msg("never came: state %d, %lld steps, '%s'; last: %s", (int)want, (long long)steps,
             message, last);
}

static void set(struct stage *s, bool there, bool live, bool recorded)
{
    pthread_mutex_lock(&s->lock);
    s->there = there;
    s->live = live;
    s->recorded = recorded;
    pthread_mutex_unlock(&s->lock);
}

/* A run that has just begun is not said to have no steps; once it has some, that is told at once.
 */
static void test_young(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct stage s = {.there = true, .live = true, .recorded = true, .run = "run.tacho"};
    struct tui_source source = {.ctx = &s,
                                .find = stage_find,
                                .recorded = stage_recorded,
                                .analyze = stage_analyze,
                                .release = an_result_free};
    struct tacho_error err = {0};
    struct tui_data *d = NULL;
    struct tui_model *m = NULL;
    int models = 0;
    (void)state;
    pthread_mutex_init(&s.lock, NULL);
    fx_open(f);
    snprintf(s.path, sizeof s.path, "%s", f->path);
    int64_t loss = fx_track(f, f->process, "counter", "loss", "");
    FX(store_commit(f->s));
    if (tui_data_start(&source, 20, &d, &err))
        fail_msg("%s", err.what);
    for (int i = 0; i < 200 && (!m || !m->result || m->result->steps.reason); i++) {
        if (!newer_model(d, &m))
            continue;
        if (++models == 6) {
            assert_null(m->result);
            assert_non_null(strstr(m->result_reason, "has just begun: no step has ended yet"));
            FX(store_begin(f->s));
            add_steps(f, loss, 0, 20);
            FX(store_commit(f->s));
        }
    }
    assert_true(m && m->result && !m->result->steps.reason);
    assert_true(models < 60); /* not after the pause that follows an analysis: 100 looks */
    tui_model_free(m);
    assert_true(tui_data_stop(d));
    fx_close(f);
}

static void test_life(void **state)
{
    struct fixture fixture, *f = &fixture, other_fixture, *other = &other_fixture;
    struct stage s = {.there = true, .live = true, .recorded = true, .run = "run.tacho"};
    struct tui_source source = {.ctx = &s,
                                .find = stage_find,
                                .recorded = stage_recorded,
                                .analyze = stage_analyze,
                                .release = an_result_free};
    struct tacho_error err = {0};
    struct tui_data *d = NULL;
    char moved[1200];
    (void)state;
    pthread_mutex_init(&s.lock, NULL);
    fx_open(f);
    snprintf(s.path, sizeof s.path, "%s", f->path);
    int64_t loss = fx_track(f, f->process, "counter", "loss", "");
    add_steps(f, loss, 0, 50);
    FX(store_commit(f->s));
    if (tui_data_start(&source, 20, &d, &err))
        fail_msg("%s", err.what);
    wait_for(d, TUI_LIVE, 50, "");
    FX(store_begin(f->s));
    add_steps(f, loss, 50, 80);
    FX(store_commit(f->s));
    wait_for(d, TUI_LIVE, 80, "");

    set(&s, true, true, false); /* its recorder is killed */
    wait_for(d, TUI_ENDED, 80, "recorder was killed");
    set(&s, true, true, true); /* and another one goes on */
    tui_data_refresh(d);
    FX(store_begin(f->s));
    add_steps(f, loss, 80, 90);
    FX(store_commit(f->s));
    wait_for(d, TUI_LIVE, 90, "");

    FX(store_run_set(f->s, "ended", "exit 7")); /* it ends, and gets its name */
    if (store_finish(f->s, &err))
        fail_msg("%s", err.what);
    f->s = NULL;
    snprintf(moved, sizeof moved, "%s/final", f->folder);
    pthread_mutex_lock(&s.lock);
    assert_int_equal(rename(f->path, moved), 0);
    snprintf(s.path, sizeof s.path, "%s", moved);
    pthread_mutex_unlock(&s.lock);
    set(&s, true, false, false);
    wait_for(d, TUI_ENDED, 90, "the run ended: exit 7");

    assert_int_equal(truncate(moved, 10),
                     0); /* somebody damages it: what was read stays, also at the next look */
    for (int i = 0; i < 2; i++) {
        tui_data_refresh(d);
        wait_for(d, TUI_LOST, 90, "this is what was read last");
    }

    int kept = open(moved, O_RDONLY); /* or the next file may get its number of an inode */
    assert_true(kept >= 0);
    set(&s, false, false, false); /* deleted: what was read stays */
    assert_int_equal(unlink(moved), 0);
    tui_data_refresh(d);
    wait_for(d, TUI_LOST, 90, "deleted");

    fx_open(other); /* one of the same name begins: from its beginning */
    add_steps(other, fx_track(other, other->process, "counter", "loss", ""), 0, 5);
    if (store_commit(other->s))
        fail_msg("commit");
    pthread_mutex_lock(&s.lock);
    snprintf(s.path, sizeof s.path, "%s", other->path);
    pthread_mutex_unlock(&s.lock);
    set(&s, true, true, true);
    wait_for(d, TUI_LIVE, 5, "restarted");
    close(kept);

    store_close(other->s); /* a file that is no run any more */
    other->s = NULL;
    FILE *garbage = fopen(other->path, "w");
    assert_non_null(garbage);
    fputs("not a database, but long enough to be looked at as one", garbage);
    fclose(garbage);
    wait_for(d, TUI_LOST, 5, other->path);
    assert_true(s.analyses >= 4);
    assert_true(tui_data_stop(d));
    fx_close(other);
    fx_close(f);
}

/* The window of the next analysis. */
static void next_window(struct tui_data *d, char text[128], int64_t *first)
{
    const char *digits;
    struct tui_model *m = NULL;
    for (int i = 0; i < 200; i++) {
        if (!newer_model(d, &m))
            continue;
        if (m->result && strcmp(m->window, text) != 0)
            break;
    }
    assert_true(m && m->result);
    snprintf(text, 128, "%s", m->window);
    digits = strpbrk(text, "0123456789");
    assert_non_null(digits);
    *first = strtoll(digits, NULL, 10);
    assert_true(m->steps_seen == 1000); /* what is tailed is the whole run's all the while */
    tui_model_free(m);
}

/* A run too large for one analysis: keys go through it, part by part, to its beginning and back to
 * what is newest. */
static void test_parts(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct stage s = {.there = true, .run = "run.tacho", .slices = 200};
    struct tui_source source = {.ctx = &s,
                                .find = stage_find,
                                .recorded = stage_recorded,
                                .analyze = stage_analyze,
                                .release = an_result_free};
    struct tacho_error err = {0};
    struct tui_data *d = NULL;
    char window[128] = "";
    int64_t newest, first, before;
    int parts = 0;
    (void)state;
    pthread_mutex_init(&s.lock, NULL);
    fx_open(f);
    snprintf(s.path, sizeof s.path, "%s", f->path);
    add_steps(f, fx_track(f, f->process, "counter", "loss", ""), 0, 1000);
    FX(store_commit(f->s));
    if (tui_data_start(&source, 20, &d, &err))
        fail_msg("%s", err.what);
    next_window(d, window, &newest);
    assert_true(newest > 700);
    for (first = newest; first > 0; parts++) {
        before = first;
        tui_data_move(d, -1);
        next_window(d, window, &first);
        assert_true(first < before && parts < 30);
    }
    assert_true(parts >= 3);
    tui_data_move(d, 1);
    next_window(d, window, &first);
    assert_true(first > 0 && first < newest);
    tui_data_move(d, 900);
    next_window(d, window, &first);
    assert_int_equal(first, newest);
    assert_true(tui_data_stop(d));
    fx_close(f);
}

/* ---- the whole of a large run, in the background --------------------------------------------- */

#define LOOKS 2 /* at an analysis that is under way */

/* What the background does; counts and `left` are the data thread's until it has been stopped. */
struct background {
    struct stage stage; /* first: its functions get this as well */
    bool fails;
    int begun, ended, left;
    int64_t slices;
};

static int background_begin(void *ctx, const struct tui_found *f, int64_t slices,
                            struct tacho_error *err)
{
    struct background *b = ctx;
    (void)f;
    (void)err;
    b->begun++;
    b->slices = slices;
    b->left = LOOKS;
    return 0;
}

static int background_take(void *ctx, struct an_result **out, struct tacho_error *err)
{
    struct background *b = ctx;
    store_reader *r = NULL;
    *out = NULL;
    if (b->left-- > 0)
        return 0;
    if (b->fails)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "the whole run needs too much");
    int rc = store_open(b->stage.path, &r, err);
    rc = rc ? rc : an_analyze(r, &(struct an_options){.file = "run.tacho"}, out, err);
    store_reader_close(r);
    return rc;
}

static void background_end(void *ctx)
{
    struct background *b = ctx;
    b->ended++;
}

/* Waits until the analysis of a part, or of the whole run, is on the screen, with these words in
 * the message. */
static void wait_whole(struct tui_data *d, bool whole, const char *message)
{
    struct tui_model *m = NULL;
    bool pending = false, shown = false;
    for (int i = 0; i < 400 && !shown; i++) {
        if (!newer_model(d, &m) || !m->result)
            continue;
        pending = pending || (m->pending && m->result->run.window);
        shown = !m->result->run.window == whole && strstr(m->message, message);
    }
    assert_true(shown);
    if (whole) {
        assert_true(pending); /* a part was there before, and what follows was said */
        assert_false(m->pending);
        assert_string_equal(m->window, "the whole run");
        assert_int_equal(m->result->steps.count, 1000);
    }
    tui_model_free(m);
}

static struct tui_data *start_background(struct background *b)
{
    static struct tui_source source;
    struct tacho_error err = {0};
    struct tui_data *d = NULL;
    source = (struct tui_source){.ctx = b,
                                 .find = stage_find,
                                 .recorded = stage_recorded,
                                 .analyze = stage_analyze,
                                 .whole_begin = background_begin,
                                 .whole_take = background_take,
                                 .whole_end = background_end,
                                 .release = an_result_free};
    if (tui_data_start(&source, 20, &d, &err))
        fail_msg("%s", err.what);
    return d;
}

/* A part is shown at once, the whole run when its analysis has ended. Where it cannot be had the
 * parts stay, with a message; a user who went to an earlier part stays there, too. */
static void test_whole(void **state)
{
    struct fixture fixture, *f = &fixture;
    struct background b = {.stage = {.there = true, .run = "run.tacho", .slices = 200}};
    (void)state;
    pthread_mutex_init(&b.stage.lock, NULL);
    fx_open(f);
    snprintf(b.stage.path, sizeof b.stage.path, "%s", f->path);
    add_steps(f, fx_track(f, f->process, "counter", "loss", ""), 0, 1000);
    FX(store_commit(f->s));

    struct tui_data *d = start_background(&b);
    wait_whole(d, true, "");
    assert_true(tui_data_stop(d));
    assert_int_equal(b.begun, 1);
    assert_int_equal(b.slices, 2000); /* a range and a step each */
    assert_int_equal(b.ended, 0);

    b.fails = true;
    d = start_background(&b);
    wait_whole(d, false, "the whole run needs too much: { and } go through its parts");
    assert_true(tui_data_stop(d));

    b.fails = false;
    d = start_background(&b);
    wait_whole(d, false, "");
    tui_data_move(d, -1);
    for (int i = 0; i < 30; i++) { /* longer than these looks take */
        struct tui_model *m = NULL;
        newer_model(d, &m);
        assert_true(!m || !m->result || m->result->run.window);
        tui_model_free(m);
    }
    assert_true(tui_data_stop(d));
    assert_true(b.left < 0); /* it ended, and is not shown */

    d = start_background(&b);
    wait_whole(d, false, "");
    assert_true(tui_data_stop(d));
    assert_int_equal(b.ended, 1); /* one that was under way is given up */
    fx_close(f);
}

/* No run at all: a message, and a quick end. */
static void test_nothing(void **state)
{
    struct stage s = {.run = "absent.tacho"};
    struct tui_source source = {.ctx = &s,
                                .find = stage_find,
                                .recorded = stage_recorded,
                                .analyze = stage_analyze,
                                .release = an_result_free};
    struct tacho_error err = {0};
    struct tui_data *d = NULL;
    (void)state;
    pthread_mutex_init(&s.lock, NULL);
    if (tui_data_start(&source, 20, &d, &err))
        fail_msg("%s", err.what);
    struct tui_model *m = NULL;
    for (int i = 0; i < 200 && !m; i++) {
        struct pollfd p = {.fd = tui_data_fd(d), .events = POLLIN};
        poll(&p, 1, 50);
        m = tui_data_take(d);
    }
    assert_non_null(m);
    assert_int_equal(m->state, TUI_LOST);
    assert_string_equal(m->message, "absent.tacho: no such run");
    assert_null(m->result);
    assert_true(*m->result_reason);
    tui_model_free(m);
    assert_true(tui_data_stop(d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing), cmocka_unit_test(test_progress),
        cmocka_unit_test(test_bounded), cmocka_unit_test(test_learn),
        cmocka_unit_test(test_young),   cmocka_unit_test(test_life),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_whole),
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
