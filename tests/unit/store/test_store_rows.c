/* SPDX-License-Identifier: Apache-2.0
 *
 * Every table: what is written is read back, absent stays absent, interning, resume, bookkeeping,
 * finish and publish.
 */
#include "store_test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/db.h"

static struct tacho_error err;

static store *create(const char *path)
{
    store *s;
    OK(&err, store_create(path, &s, &err));
    return s;
}

static int64_t intern(store *s, const char *text)
{
    int64_t id;
    OK(store_error(s), store_string(s, text, strlen(text), &id));
    return id;
}

static const struct store_detail no_detail = STORE_DETAIL_NONE;

/* ---- round trip of every table ------------------------------------------------------------------------------------------- */

static const struct store_detail full_detail = {.flops = 1,
                                                .bytes_read = 2,
                                                .bytes_written = INT64_MAX,
                                                .model_flops = 4,
                                                .palm_flops = 5,
                                                .bytes = 6,
                                                .samples = 7,
                                                .communicator = -8,
                                                .ranks = 9,
                                                .flags = STORE_DETAIL_PAUSED,
                                                .dtype = "fp32",
                                                .pass = "forward",
                                                .kind = "matrix",
                                                .schema = "tacho.work",
                                                .collective = "all_reduce",
                                                .copy_kind = "h2d",
                                                .grid = "1,2,3",
                                                .block = "128,1,1",
                                                .payload = "{\"a\":1}"};

static void write_all(store *s)
{
    struct store_process p = {.rank = 0,
                              .pid = 10,
                              .parent_pid = 9,
                              .start = 100,
                              .end = STORE_ABSENT,
                              .exit_status = STORE_ABSENT,
                              .host = "h",
                              .program = "train"};
    struct store_process bare = {.rank = STORE_ABSENT,
                                 .pid = STORE_ABSENT,
                                 .parent_pid = STORE_ABSENT,
                                 .start = STORE_ABSENT,
                                 .end = STORE_ABSENT,
                                 .exit_status = STORE_ABSENT};
    struct store_track t = {.process = 1, .tid = 11, .kind = "thread", .name = "main"};
    struct store_track machine = {.process = STORE_ABSENT,
                                  .tid = STORE_ABSENT,
                                  .kind = "counter",
                                  .name = "cpu",
                                  .device = "cpu0",
                                  .unit = "%"};
    int64_t full, none, again;
    OK(store_error(s), store_begin(s));
    OK(store_error(s), store_run_set(s, "host", "h"));
    OK(store_error(s), store_run_set(s, "gone", "x"));
    OK(store_error(s), store_run_set(s, "gone", NULL));
    OK(store_error(s), store_run_set_int(s, "pid", -5));
    OK(store_error(s), store_process_add(s, &p));
    assert_int_equal(p.id, 1);
    p.end = 900;
    p.exit_status = 137;
    p.ended = "signal 9 (KILL)";
    OK(store_error(s), store_process_update(s, &p));
    OK(store_error(s), store_process_add(s, &bare));
    OK(store_error(s), store_track_add(s, &t));
    OK(store_error(s), store_track_add(s, &machine));
    OK(store_error(s), store_track_rename(s, t.id, "worker"));
    OK(store_error(s), store_detail_intern(s, &full_detail, &full));
    OK(store_error(s), store_detail_intern(s, &no_detail, &none));
    OK(store_error(s), store_detail_intern(s, &full_detail, &again));
    assert_int_equal(full, again);
    assert_int_not_equal(full, none);
    struct store_slice a = {.track = 1,
                            .start = 5,
                            .dur = 0,
                            .name = intern(s, "step"),
                            .category = intern(s, "nvtx"),
                            .detail = full,
                            .correlation = 42};
    struct store_slice open = {.track = 1,
                               .start = 6,
                               .dur = STORE_ABSENT,
                               .name = STORE_ABSENT,
                               .category = STORE_ABSENT,
                               .detail = STORE_ABSENT,
                               .correlation = STORE_ABSENT};
    OK(store_error(s), store_slice_add(s, &a));
    OK(store_error(s), store_slice_add(s, &open));
    assert_int_equal(open.id, a.id + 1);
    OK(store_error(s),
       store_counter_add(s, &(struct store_counter){.track = 2, .time = 7, .value = 1.5}));
    OK(store_error(s),
       store_counter_add(s, &(struct store_counter){.track = 2, .time = 8, .value = NAN}));
    OK(store_error(s),
       store_counter_add(s, &(struct store_counter){.track = 2, .time = 9, .value = 0}));
    OK(store_error(s), store_step_add(s, &(struct store_step){.process = 1,
                                                              .index = 0,
                                                              .start = 5,
                                                              .end = 50,
                                                              .tokens = 64,
                                                              .samples = 4,
                                                              .paused = false}));
    OK(store_error(s), store_step_add(s, &(struct store_step){.process = 1,
                                                              .index = 1,
                                                              .start = 50,
                                                              .end = STORE_ABSENT,
                                                              .tokens = STORE_ABSENT,
                                                              .samples = STORE_ABSENT,
                                                              .paused = true}));
    OK(store_error(s), store_step_aggregate_add(s, &(struct store_step_aggregate){.process = 1,
                                                                                  .step = 0,
                                                                                  .track = 1,
                                                                                  .name = 1,
                                                                                  .category = 2,
                                                                                  .detail = full,
                                                                                  .count = 3,
                                                                                  .total = 30,
                                                                                  .self = 20}));
    OK(store_error(s),
       store_step_aggregate_add(s, &(struct store_step_aggregate){.process = 1,
                                                                  .step = 0,
                                                                  .track = 1,
                                                                  .name = STORE_ABSENT,
                                                                  .category = STORE_ABSENT,
                                                                  .detail = STORE_ABSENT,
                                                                  .count = 0,
                                                                  .total = 0,
                                                                  .self = 0}));
    OK(store_error(s), store_ceiling_add(s, &(struct store_ceiling){.device = "cpu",
                                                                    .resource = "flops",
                                                                    .dtype = "fp32",
                                                                    .value = 1e11,
                                                                    .source = "measured"}));
    OK(store_error(s),
       store_ceiling_add(
           s, &(struct store_ceiling){.resource = "bytes", .value = 2e10, .source = "measured"}));
    OK(store_error(s), store_loss_add(s, &(struct store_loss){"agent", "full", 3, 20, 30}));
    OK(store_error(s), store_loss_add(s, &(struct store_loss){"agent", "full", 4, 10, 25}));
    OK(store_error(s), store_loss_add(s, &(struct store_loss){"agent", "unknown", STORE_ABSENT,
                                                              STORE_ABSENT, STORE_ABSENT}));
    OK(store_error(s), store_loss_add(s, &(struct store_loss){"agent", "unknown", 5, 1, 2}));
    OK(store_error(s), store_loss_set(s, &(struct store_loss){"perf", "denied", 9, 1, 1}));
    OK(store_error(s),
       store_loss_set(s, &(struct store_loss){"perf", "denied", 1, STORE_ABSENT, 2}));
    OK(store_error(s), store_anchor_add(s, &(struct store_anchor){STORE_ABSENT, 2, 3}));
    OK(store_error(s), store_metric_set(s, &(struct store_metric){
                                               .name = "mfu", .value = NAN, .reason = "no peak"}));
    OK(store_error(s),
       store_metric_set(s, &(struct store_metric){.name = "mfu", .unit = "ratio", .value = 0.5}));
    OK(store_error(s),
       store_metric_set(
           s, &(struct store_metric){.name = "mfu_palm", .value = NAN, .reason = "no peak"}));
    OK(store_error(s), store_finding_set(s, "INPUT_STALL", "{}"));
    OK(store_error(s), store_commit(s));
}

struct seen {
    int rows;
    struct store_slice slice[4];
    struct store_counter counter[4];
    struct store_step step[4];
    struct store_step_aggregate aggregate[4];
    struct store_loss loss[4];
    struct store_process process[4];
    char text[16][64];
};

static void keep(struct seen *x, int i, const char *text)
{
    snprintf(x->text[i], sizeof x->text[i], "%s", text ? text : "(absent)");
}

static int see_run(void *ctx, const char *key, const char *value)
{
    struct seen *x = ctx;
    snprintf(x->text[x->rows++], sizeof x->text[0], "%s=%s", key, value);
    return 0;
}

static int see_string(void *ctx, int64_t id, const char *text)
{
    struct seen *x = ctx;
    assert_int_equal(id, x->rows + 1);
    keep(x, x->rows++, text);
    return 0;
}

static int see_detail(void *ctx, const struct store_detail *d)
{
    struct seen *x = ctx;
    const struct store_detail *e = x->rows ? &no_detail : &full_detail;
    assert_int_equal(d->id, ++x->rows);
    const int64_t got[] = {d->flops, d->bytes_read, d->bytes_written, d->model_flops, d->palm_flops,
                           d->bytes, d->samples,    d->communicator,  d->ranks,       d->flags};
    const int64_t want[] = {e->flops,      e->bytes_read, e->bytes_written, e->model_flops,
                            e->palm_flops, e->bytes,      e->samples,       e->communicator,
                            e->ranks,      e->flags};
    assert_memory_equal(got, want, sizeof got);
    const char *texts[][2] = {{d->dtype, e->dtype},
                              {d->pass, e->pass},
                              {d->kind, e->kind},
                              {d->schema, e->schema},
                              {d->collective, e->collective},
                              {d->copy_kind, e->copy_kind},
                              {d->grid, e->grid},
                              {d->block, e->block},
                              {d->payload, e->payload}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][1])
            assert_string_equal(texts[i][0], texts[i][1]);
        else
            assert_null(texts[i][0]);
    return 0;
}

static int see_process(void *ctx, const struct store_process *p)
{
    struct seen *x = ctx;
    x->process[x->rows] = *p;
    keep(x, x->rows++, p->ended);
    return 0;
}

static int see_track(void *ctx, const struct store_track *t)
{
    struct seen *x = ctx;
    snprintf(x->text[x->rows++], sizeof x->text[0], "%s %s %s %s %d %d", t->kind, t->name,
             t->device ? t->device : "-", t->unit ? t->unit : "-", t->process == STORE_ABSENT,
             t->tid == STORE_ABSENT);
    return 0;
}

static int see_slice(void *ctx, const struct store_slice *s)
{
    struct seen *x = ctx;
    x->slice[x->rows++] = *s;
    return 0;
}

static int see_counter(void *ctx, const struct store_counter *c)
{
    struct seen *x = ctx;
    x->counter[x->rows++] = *c;
    return 0;
}

static int see_step(void *ctx, const struct store_step *s)
{
    struct seen *x = ctx;
    x->step[x->rows++] = *s;
    return 0;
}

static int see_aggregate(void *ctx, const struct store_step_aggregate *a)
{
    struct seen *x = ctx;
    x->aggregate[x->rows++] = *a;
    return 0;
}

static int see_ceiling(void *ctx, const struct store_ceiling *c)
{
    struct seen *x = ctx;
    snprintf(x->text[x->rows++], sizeof x->text[0], "%s %s %s %g %s", c->device ? c->device : "-",
             c->resource, c->dtype ? c->dtype : "-", c->value, c->source);
    return 0;
}

static int see_loss(void *ctx, const struct store_loss *l)
{
    struct seen *x = ctx;
    x->loss[x->rows++] = *l;
    return 0;
}

static int stop_at_once(void *ctx, const struct store_slice *s)
{
    (void)ctx, (void)s;
    return 77;
}

static void read_all(const char *path)
{
    store_reader *r;
    struct seen x;
    OK(&err, store_open(path, &r, &err));
    const struct tacho_error *e = store_reader_error(r);
    int64_t n;

    memset(&x, 0, sizeof x);
    OK(e, store_run_each(r, see_run, &x));
    assert_int_equal(x.rows, 2);
    assert_string_equal(x.text[0], "host=h");
    assert_string_equal(x.text[1], "pid=-5");

    memset(&x, 0, sizeof x);
    OK(e, store_string_each(r, 1, see_string, &x));
    assert_int_equal(x.rows, 2);
    assert_string_equal(x.text[0], "step");

    memset(&x, 0, sizeof x);
    OK(e, store_detail_each(r, 1, see_detail, &x));
    assert_int_equal(x.rows, 2);

    memset(&x, 0, sizeof x);
    OK(e, store_process_each(r, see_process, &x));
    assert_int_equal(x.rows, 2);
    assert_string_equal(x.text[0], "signal 9 (KILL)");
    assert_string_equal(x.text[1], "(absent)");
    assert_int_equal(x.process[0].exit_status, 137);
    assert_int_equal(x.process[0].end, 900);
    assert_int_equal(x.process[1].rank, STORE_ABSENT);

    memset(&x, 0, sizeof x);
    OK(e, store_track_each(r, 1, see_track, &x));
    assert_string_equal(x.text[0], "thread worker - - 0 0");
    assert_string_equal(x.text[1], "counter cpu cpu0 % 1 1");

    memset(&x, 0, sizeof x);
    OK(e, store_slice_each(r, 1, see_slice, &x));
    assert_int_equal(x.rows, 2);
    assert_int_equal(x.slice[0].dur, 0);
    assert_int_equal(x.slice[0].detail, 1);
    assert_int_equal(x.slice[0].correlation, 42);
    assert_int_equal(x.slice[1].dur, STORE_ABSENT);
    assert_int_equal(x.slice[1].name, STORE_ABSENT);
    assert_int_equal(store_slice_each(r, 1, stop_at_once, NULL), 77);

    memset(&x, 0, sizeof x);
    OK(e, store_counter_each(r, 1, see_counter, &x));
    assert_int_equal(x.rows, 3);
    assert_true(x.counter[0].value == 1.5);
    assert_true(isnan(x.counter[1].value));
    assert_true(x.counter[2].value == 0);

    memset(&x, 0, sizeof x);
    OK(e, store_step_each(r, see_step, &x));
    assert_int_equal(x.step[0].tokens, 64);
    assert_false(x.step[0].paused);
    assert_int_equal(x.step[1].end, STORE_ABSENT);
    assert_true(x.step[1].paused);

    memset(&x, 0, sizeof x);
    OK(e, store_step_aggregate_each(r, see_aggregate, &x));
    assert_int_equal(x.rows, 2);
    assert_int_equal(x.aggregate[0].self, 20);
    assert_int_equal(x.aggregate[1].detail, STORE_ABSENT);

    memset(&x, 0, sizeof x);
    OK(e, store_ceiling_each(r, see_ceiling, &x));
    assert_string_equal(x.text[0], "cpu flops fp32 1e+11 measured");
    assert_string_equal(x.text[1], "- bytes - 2e+10 measured");

    memset(&x, 0, sizeof x);
    OK(e, store_loss_each(r, see_loss, &x));
    assert_int_equal(x.rows, 3);
    assert_int_equal(x.loss[0].count, 7);
    assert_int_equal(x.loss[0].t0, 10);
    assert_int_equal(x.loss[0].t1, 30);
    assert_int_equal(x.loss[1].count, STORE_ABSENT); /* unknown + 5 is unknown */
    assert_int_equal(x.loss[1].t0, 1);
    assert_int_equal(x.loss[2].count, 1);
    assert_int_equal(x.loss[2].t0, STORE_ABSENT);

    OK(e, store_count(r, "slice", &n));
    assert_int_equal(n, 2);
    assert_int_equal(store_count(r, "sqlite_master", &n), TACHO_EUSAGE);
    store_reader_close(r);
    assert_int_equal(
        sql_int(path,
                "SELECT count(*) FROM metric WHERE name='mfu' AND value=0.5 AND reason IS NULL"),
        1);
    assert_int_equal(
        sql_int(path, "SELECT count(*) FROM metric WHERE value IS NULL AND reason='no peak'"), 1);
    assert_int_equal(sql_int(path, "SELECT count(*) FROM finding WHERE id='INPUT_STALL'"), 1);
    assert_int_equal(
        sql_int(path, "SELECT count(*) FROM clock_anchor WHERE tsc IS NULL AND realtime=3"), 1);
}

static void test_round_trip(void **state)
{
    struct scratch *x = *state;
    struct stat st;
    char side[128];
    store *s = create(x->file);
    store_close(s);
    assert_int_equal(store_create(x->file, &s, &err), TACHO_EEXISTS);
    s = create(x->other);
    write_all(s);
    read_all(x->other); /* live, through the WAL */
    assert_true(store_bytes(s) > 4096);
    OK(&err, store_finish(s, &err));
    read_all(x->other);
    snprintf(side, sizeof side, "%s-wal", x->other);
    assert_int_not_equal(stat(side, &st), 0);
    assert_int_equal(sql_int(x->other, "PRAGMA application_id"), STORE_APPLICATION_ID);
    assert_int_equal(
        sql_int(x->other, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'live%'"), 0);
    assert_int_equal(sql_int(x->other, "SELECT journal_mode='delete' FROM pragma_journal_mode"), 1);
    assert_true(sql_integrity(x->other));
}

/* ---- interning, resume, bookkeeping -------------------------------------------------------------------------------------- */

static int see_position(void *ctx, const char *pool, int64_t segment, int64_t generation,
                        int64_t bytes)
{
    char *text = ctx;
    sprintf(text + strlen(text), "%s %d %d %d;", pool, (int)segment, (int)generation, (int)bytes);
    return 0;
}

static int see_state(void *ctx, const char *key, const void *value, size_t bytes)
{
    char *text = ctx;
    sprintf(text + strlen(text), "%s %zu %d;", key, bytes,
            bytes ? ((const char *)value)[bytes - 1] : -1);
    return 0;
}

static void test_resume(void **state)
{
    struct scratch *x = *state;
    char text[256] = "";
    store *s = create(x->file);
    int64_t id, detail;
    OK(store_error(s), store_begin(s));
    for (int i = 0; i < 5000; i++) {
        char name[32];
        snprintf(name, sizeof name, "name %d", i);
        assert_int_equal(intern(s, name), i + 1);
    }
    OK(store_error(s), store_detail_intern(s, &full_detail, &detail));
    struct store_slice a = {.track = 1,
                            .start = 1,
                            .dur = STORE_ABSENT,
                            .name = 1,
                            .category = 1,
                            .detail = 1,
                            .correlation = 1};
    OK(store_error(s), store_slice_add(s, &a));
    OK(store_error(s), store_position_set(s, "pool.1.0", 3, 1, 64));
    OK(store_error(s), store_position_set(s, "pool.1.0", 3, 2, 128));
    OK(store_error(s), store_position_set(s, "pool.1.0", 4, 1, 1));
    OK(store_error(s), store_position_set(s, "pool.2.0", 0, 1, 9));
    OK(store_error(s), store_position_set(s, "pool.3.0", 0, 1, 9));
    OK(store_error(s), store_position_clear(s, "pool.1.0", 4));
    OK(store_error(s), store_position_clear(s, "pool.2.0", -1));
    OK(store_error(s), store_live_set(s, "a", "\0\1\2", 3));
    OK(store_error(s), store_live_set(s, "b", "", 0));
    OK(store_error(s), store_live_set(s, "c", "x", 1));
    OK(store_error(s), store_live_set(s, "c", NULL, 0));
    OK(store_error(s), store_commit(s));
    OK(store_error(s), store_begin(s));
    OK(store_error(s), store_string(s, "lost", 4, &id));
    store_close(s); /* the open transaction is rolled back */

    OK(&err, store_resume(x->file, &s, &err));
    assert_int_equal(intern(s, "name 4711"), 4712);
    OK(store_error(s), store_detail_intern(s, &full_detail, &id));
    assert_int_equal(id, detail);
    OK(store_error(s), store_position_each(s, see_position, text));
    assert_string_equal(text, "pool.1.0 3 2 128;pool.3.0 0 1 9;");
    text[0] = 0;
    OK(store_error(s), store_live_each(s, "", see_state, text));
    assert_string_equal(text, "a 3 2;b 0 -1;");
    text[0] = 0;
    OK(store_error(s), store_live_each(s, "b", see_state, text));
    assert_string_equal(text, "b 0 -1;");
    OK(store_error(s), store_begin(s));
    assert_int_equal(intern(s, "new"), 5001);
    struct store_slice b = a;
    OK(store_error(s), store_slice_add(s, &b));
    assert_int_equal(b.id, a.id + 1);
    OK(store_error(s), store_slice_end(s, a.id, 7)); /* in the file */
    OK(store_error(s), store_slice_end(s, b.id, 8)); /* still waiting in memory */
    OK(store_error(s), store_commit(s));
    OK(&err, store_finish(s, &err));
    assert_int_equal(sql_int(x->file, "SELECT sum(dur) FROM slice"), 15);
    assert_int_equal(store_resume(x->file, &s, &err), TACHO_EEXISTS); /* finished already */
}

static void test_bad_text(void **state)
{
    struct scratch *x = *state;
    store *s = create(x->file);
    int64_t a, b, c;
    OK(store_error(s), store_string(s, "ok\xc3\xa4\xf0\x9f\x98\x80", 8, &a));
    OK(store_error(s), store_string(s, "a\xff\xc3", 3, &b)); /* a stray byte, a cut character */
    OK(store_error(s), store_string(s, "a\xef\xbf\xbd\xef\xbf\xbd", 7, &c)); /* what it becomes */
    assert_int_equal(b, c);
    OK(store_error(s), store_string(s, "\xed\xa0\x80 \xc0\x80 \xf5", 8, &c));
    OK(store_error(s), store_string(s, "", 0, &c));
    OK(store_error(s), store_run_set(s, "k\xff", "v\xff"));
    OK(&err, store_finish(s, &err));
    OK(&err, store_open_results(x->file, &s, &err));
    store_close(s);
    assert_int_equal(sql_int(x->file, "SELECT count(*) FROM string"), 4);
    assert_int_equal(sql_int(x->file, "SELECT length(text) FROM string WHERE id=1"), 4);
    assert_int_equal(sql_int(x->file, "SELECT length(text) FROM string WHERE id=2"), 3);
    assert_int_equal(sql_int(x->file, "SELECT length(text) FROM string WHERE id=4"), 0);
}

/* ---- a snapshot, finish while somebody reads, publish -------------------------------------------------------------------- */

static void test_snapshot(void **state)
{
    struct scratch *x = *state;
    store *s = create(x->file);
    store_reader *r;
    int64_t n;
    OK(&err, store_open(x->file, &r, &err));
    OK(store_reader_error(r), store_count(r, "string", &n));
    intern(s, "a");
    OK(store_reader_error(r), store_count(r, "string", &n));
    assert_int_equal(n, 0);
    OK(store_reader_error(r), store_reader_refresh(r));
    OK(store_reader_error(r), store_count(r, "string", &n));
    assert_int_equal(n, 1);
    intern(s, "b");
    OK(&err, store_finish(s, &err)); /* r still reads */
    OK(store_reader_error(r), store_count(r, "string", &n));
    assert_int_equal(n, 1);
    store_reader_close(r);
    assert_int_equal(sql_int(x->file, "SELECT count(*) FROM string"), 2);
    assert_int_equal(sql_int(x->file, "SELECT journal_mode='delete' FROM pragma_journal_mode"), 1);
    OK(&err, store_open(x->file, &r, &err));
    store_reader_close(r);
    assert_true(sql_integrity(x->file));
}

static void test_publish(void **state)
{
    struct scratch *x = *state;
    struct stat st;
    char shm[] = "/dev/shm/tacho-test-XXXXXX", far[64];
    OK(&err, store_finish(create(x->file), &err));
    OK(&err, store_publish(x->file, x->other, &err));
    assert_int_not_equal(stat(x->file, &st), 0);
    OK(&err, store_finish(create(x->file), &err));
    assert_int_equal(store_publish(x->file, x->other, &err), TACHO_EEXISTS);
    assert_int_equal(stat(x->file, &st), 0);
    unlink(x->other);
    assert_int_equal(store_publish("/dev/null/none", x->other, &err), TACHO_ENOTFOUND);
    if (mkdtemp(shm)) { /* another filesystem */
        struct stat here;
        snprintf(far, sizeof far, "%s/out.tacho", shm);
        assert_int_equal(stat(shm, &here), 0);
        if (here.st_dev != st.st_dev) {
            OK(&err, store_publish(x->file, far, &err));
            assert_true(sql_integrity(far));
            OK(&err, store_finish(create(x->file), &err));
            assert_int_equal(store_publish(x->file, far, &err), TACHO_EEXISTS);
            unlink(far);
        }
        assert_int_equal(rmdir(shm), 0); /* nothing half-written was left beside */
    }
}

static void test_results(void **state)
{
    struct scratch *x = *state;
    store *s = create(x->file);
    OK(&err, store_finish(s, &err));
    OK(&err, store_open_results(x->file, &s, &err));
    OK(store_error(s), store_begin(s));
    OK(store_error(s),
       store_metric_set(s, &(struct store_metric){.name = "a", .unit = "ms", .value = 1}));
    OK(store_error(s), store_commit(s));
    store_close(s);
    assert_int_equal(sql_int(x->file, "SELECT count(*) FROM metric"), 1);
    assert_int_equal(store_is_local("/dev/shm"), 1);
    assert_int_equal(store_is_local("/proc/nonexistent/x"), TACHO_ENOTFOUND);
    assert_true(store_is_local(x->other) >= 0); /* does not exist: its folder decides */
}

static void test_migrate(void **state)
{
    struct scratch *x = *state;
    const struct store_migration table[] = {
        {STORE_SCHEMA_VERSION, "ALTER TABLE run ADD COLUMN a"},
        {STORE_SCHEMA_VERSION + 1, "ALTER TABLE run ADD COLUMN b; SELECT nothing"},
        {0, NULL}};
    sqlite3 *db;
    OK(&err, store_finish(create(x->file), &err));
    assert_int_equal(sqlite3_open(x->file, &db), SQLITE_OK);
    assert_int_equal(store_db_migrate(db, table, STORE_SCHEMA_VERSION, STORE_SCHEMA_VERSION + 1),
                     SQLITE_OK);
    assert_int_not_equal(
        store_db_migrate(db, table, STORE_SCHEMA_VERSION + 1, STORE_SCHEMA_VERSION + 2),
        SQLITE_OK); /* fails half-way: nothing of it stays */
    assert_int_not_equal(
        store_db_migrate(db, table, STORE_SCHEMA_VERSION + 2, STORE_SCHEMA_VERSION + 3),
        SQLITE_OK); /* no row for it */
    sqlite3_close(db);
    assert_int_equal(sql_int(x->file, "SELECT count(*) FROM pragma_table_info('run')"), 3);
    assert_int_equal(sql_int(x->file, "PRAGMA user_version"), STORE_SCHEMA_VERSION + 1);
    store_reader *r;
    store *s;
    assert_int_equal(store_open(x->file, &r, &err), TACHO_EVERSION);
    assert_true(err.hint[0]);
    assert_int_equal(store_open_results(x->file, &s, &err), TACHO_EVERSION);
}

/* ---- a file of limited size ---------------------------------------------------------------------------------------------- */

static int sum_aggregate(void *ctx, const struct store_step_aggregate *a)
{
    int64_t *sum = ctx; /* rows, count, total, self, last step, widest */
    assert_true(a->id >= 1 && a->id <= 800);
    sum[0]++;
    sum[1] += a->count;
    sum[2] += a->total;
    sum[3] += a->self;
    sum[4] = a->step + a->steps - 1 > sum[4] ? a->step + a->steps - 1 : sum[4];
    sum[5] = a->steps > sum[5] ? a->steps : sum[5];
    return 0;
}

/* Totals of pairs, then of fours of steps: fewer rows, the same sums, ids within the block, and
 * what is outside of steps apart. */
static void test_totals_get_coarser(void **state)
{
    struct scratch *t = *state;
    store *s = create(t->file);
    store_reader *r;
    int64_t row, left, sum[6] = {0}, want_total = 0;
    struct store_block block;
    OK(store_error(s), store_begin(s));
    for (int step = 0; step < 100; step++)
        for (int name = 1; name <= 8; name++) {
            struct store_step_aggregate a = {.process = 1 + name % 2,
                                             .step = name == 8 ? -1 : step,
                                             .track = 1,
                                             .name = name,
                                             .category = STORE_ABSENT,
                                             .detail = STORE_ABSENT,
                                             .count = 2,
                                             .total = step * 10 + name,
                                             .self = 1};
            want_total += a.total;
            OK(store_error(s), store_step_aggregate_add(s, &a));
        }
    OK(store_error(s), store_newest(s, STORE_GROWING_AGGREGATE, &row));
    assert_int_equal(row, 800);
    OK(store_error(s), store_block(s, STORE_GROWING_AGGREGATE, 1, row, 1000, &block));
    assert_int_equal(block.rows, 800);
    OK(store_error(s), store_thin(s, STORE_GROWING_AGGREGATE, &block, 2, &left));
    assert_int_equal(left, 7 * 50 + 1);
    OK(store_error(s), store_thin(s, STORE_GROWING_AGGREGATE, &block, 4, &left));
    assert_int_equal(left, 7 * 25 + 1);
    OK(store_error(s), store_commit(s));
    store_close(s);
    OK(&err, store_open(t->file, &r, &err));
    OK(store_reader_error(r), store_step_aggregate_each(r, sum_aggregate, sum));
    assert_int_equal(sum[0], 7 * 25 + 1);
    assert_int_equal(sum[1], 1600);
    assert_int_equal(sum[2], want_total);
    assert_int_equal(sum[3], 800);
    assert_int_equal(sum[4], 99);
    assert_int_equal(sum[5], 4);
    store_reader_close(r);
}

/* Of counters every second value of each track goes, of slices the whole block; the pages are used
 * again. */
static void test_rows_make_room(void **state)
{
    struct scratch *t = *state;
    store *s = create(t->file);
    int64_t left, before, after;
    struct store_block block;
    OK(store_error(s), store_begin(s));
    for (int i = 0; i < 4000; i++) {
        struct store_counter counter = {.track = 1 + i % 4, .time = i, .value = i};
        OK(store_error(s), store_counter_add(s, &counter));
        struct store_slice slice = {.track = 1, .start = i, .dur = 1, .name = 1};
        OK(store_error(s), store_slice_add(s, &slice));
    }
    OK(store_error(s), store_newest(s, STORE_GROWING_SLICE, &left));
    assert_int_equal(left, 4000);
    OK(store_error(s), store_used(s, &before));
    OK(store_error(s), store_block(s, STORE_GROWING_COUNTER, 1, 4000, 400, &block));
    assert_int_equal(block.to, 400);
    OK(store_error(s), store_thin(s, STORE_GROWING_COUNTER, &block, 0, &left));
    assert_int_equal(left, 200);
    OK(store_error(s), store_block(s, STORE_GROWING_SLICE, 1, 3000, 5000, &block));
    OK(store_error(s), store_thin(s, STORE_GROWING_SLICE, &block, 0, &left));
    assert_int_equal(left, 0);
    OK(store_error(s), store_used(s, &after));
    assert_true(after < before - 3000 * 10);
    OK(store_error(s), store_commit(s));
    store_close(s);
    assert_int_equal(sql_int(t->file, "SELECT count(*) FROM counter WHERE time < 400 AND track=1"),
                     50);
}

/* The time that rows above an id take, among them rows that wait in a batch; none is not time 0. */
static void test_extent(void **state)
{
    struct scratch *t = *state;
    store *s = create(t->file);
    struct store_extent extent;
    OK(store_error(s), store_begin(s));
    OK(store_error(s), store_extent(s, STORE_GROWING_SLICE, 0, &extent));
    assert_false(extent.known);
    for (int i = 0; i < 4; i++) {
        struct store_slice slice = {
            .track = 1, .start = 100 - 10 * i, .dur = i == 2 ? STORE_ABSENT : 5, .name = 1};
        struct store_step step = {.process = 1, .index = i, .start = 7 * i, .end = 7 * i + 3};
        OK(store_error(s), store_slice_add(s, &slice));
        OK(store_error(s), store_step_add(s, &step));
    }
    OK(store_error(s), store_extent(s, STORE_GROWING_SLICE, 1, &extent));
    assert_true(extent.known);
    assert_int_equal(extent.start, 70);
    assert_int_equal(extent.end, 95);
    OK(store_error(s), store_extent(s, STORE_GROWING_STEP, 2, &extent));
    assert_int_equal(extent.start, 14);
    assert_int_equal(extent.end, 24);
    OK(store_error(s), store_extent(s, STORE_GROWING_STEP, 4, &extent));
    assert_false(extent.known);
    OK(store_error(s), store_commit(s));
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_resume, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_bad_text, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_snapshot, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_publish, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_totals_get_coarser, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_rows_make_room, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_extent, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_results, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_migrate, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("store rows", tests, NULL, NULL);
}
