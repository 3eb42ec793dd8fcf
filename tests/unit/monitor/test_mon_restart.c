/* SPDX-License-Identifier: Apache-2.0
 *
 * What is started again: a job, its processes in one recording, a watch in the middle of a run. No
 * page that is false, and no gap that is not said.
 */
#include "tests/unit/an_fixture.h"

#include "monitor/feed/feed.h"
#include "monitor/ranks.h"

#define MS     1000000ll
#define MINUTE (60000 * MS)

static struct mon_config config;

struct heard {
    int pages, infos, sent;
    char codes[512]; /* of notices that begin, in their order */
    char text[256];
};

static void on_notice(void *ctx, const struct mon_notice *notice)
{
    struct heard *heard = ctx;
    const struct mon_symptom *symptom = &notice->alert->symptom;
    if (notice->event == MON_RESOLVED)
        return;
    heard->pages += symptom->severity == MON_PAGE;
    heard->infos += symptom->severity == MON_INFO;
    heard->sent += notice->send;
    snprintf(heard->codes + strlen(heard->codes), sizeof heard->codes - strlen(heard->codes), "%s ",
             symptom->code);
    snprintf(heard->text, sizeof heard->text, "%s", symptom->text);
}

struct job {
    struct mon_monitor *monitor;
    int64_t now;
};

static void job_wait(struct job *job, int64_t ns)
{
    int64_t until = job->now + ns;
    for (; job->now + 1000 * MS < until; job->now += 1000 * MS)
        mon_tick(job->monitor, job->now + 1000 * MS);
    job->now = until;
    mon_tick(job->monitor, until);
}

/* Steps of a second of so many ranks. */
static void job_steps(struct job *job, int64_t from, int64_t to, int64_t ranks)
{
    for (int64_t step = from; step < to; step++) {
        for (int64_t rank = 0; rank < ranks; rank++)
            mon_step(job->monitor, &(struct mon_step){.rank = rank,
                                                      .index = step,
                                                      .start = job->now,
                                                      .end = job->now + 1000 * MS,
                                                      .tokens = NAN,
                                                      .flops = NAN});
        job->now += 1000 * MS;
        mon_tick(job->monitor, job->now);
    }
}

/* The first start takes four minutes. The job dies in a step that some ranks had ended, starts
 * again at once and goes on from a checkpoint after four minutes: no page. Then it starts a third
 * time and never ends a step: a page, before the half hour of a first start. */
static void test_job(void **state)
{
    (void)state;
    struct heard heard = {.pages = 0};
    struct job job = {.monitor = mon_new(&config, 0, on_notice, &heard)};
    assert_non_null(job.monitor);
    job_wait(&job, 2 * MINUTE);
    job_steps(&job, 0, 100, 3);
    mon_step(job.monitor, &(struct mon_step){.rank = 1,
                                             .index = 100,
                                             .start = job.now,
                                             .end = job.now + 900 * MS,
                                             .tokens = NAN,
                                             .flops = NAN});
    job_wait(&job, 20000 * MS);
    for (int64_t rank = 0; rank < 3; rank++)
        mon_process_began(job.monitor, rank, job.now + rank * 100 * MS);
    job_wait(&job, 4 * MINUTE);
    assert_int_equal(heard.pages, 0);
    assert_string_equal(heard.codes, "RESTARTED ");
    assert_non_null(strstr(heard.text, "20 s after its last step; the last one that is complete is "
                                       "99"));
    job_steps(&job, 90, 110, 3);
    struct mon_state *seen = malloc(sizeof *seen);
    assert_non_null(seen);
    mon_state(job.monitor, job.now, seen);
    assert_int_equal(seen->last_step, 109); /* nothing waits for what was begun before */
    assert_false(seen->stalled);
    free(seen);
    mon_process_began(job.monitor, 0, job.now + 1000 * MS);
    job_wait(&job, 19 * MINUTE);
    assert_null(strstr(heard.codes, "STALLED"));
    job_wait(&job, 3 * MINUTE); /* ten times the two minutes of the first start */
    assert_non_null(strstr(heard.codes, "STALLED"));
    mon_free(job.monitor);
}

/* A watch that begins in the middle: what is over is not sent, what is open once. */
static void test_watch(void **state)
{
    (void)state;
    struct heard heard = {.pages = 0};
    struct job job = {.monitor = mon_new(&config, 0, on_notice, &heard)};
    mon_alerts(job.monitor)->catching_up = true;
    job_steps(&job, 0, 50, 2);
    job_wait(&job, 3 * MINUTE); /* it stood still, and went on */
    job_steps(&job, 50, 300, 2);
    job_wait(&job, 2 * MINUTE); /* it stands still again */
    assert_int_equal(heard.sent, 0);
    heard = (struct heard){.pages = 0};
    mon_alerts(job.monitor)->catching_up = false;
    mon_alerts_send_open(mon_alerts(job.monitor), (double)job.now / 1e9);
    assert_string_equal(heard.codes, "STALLED ");
    assert_int_equal(heard.sent, 1);
    job_wait(&job, 10 * MINUTE);
    assert_int_equal(heard.sent, 1);
    mon_free(job.monitor);
}

/* A gap in which nobody watched: it is said, also beside an alert whose cause is not known, and
 * counts neither as a lack of progress nor as silence of ranks; a lack of progress after it does.
 */
static void test_gap(void **state)
{
    (void)state;
    struct heard heard = {.pages = 0};
    struct job job = {.monitor = mon_new(&config, 0, on_notice, &heard)};
    job_steps(&job, 0, 100, 2);
    mon_alerts_raise(mon_alerts(job.monitor),
                     &(struct mon_symptom){
                         .code = "STEP_TIME", .severity = MON_TICKET, .cause = MON_CAUSE_UNKNOWN},
                     100);
    int64_t from = job.now;
    job.now += 120 * MINUTE;
    mon_gap(job.monitor, from, job.now);
    job_wait(&job, 50000 * MS);
    assert_string_equal(heard.codes, "STEP_TIME GAP ");
    assert_string_equal(heard.text, "no watch was running for 7200 s");
    job_steps(&job, 100, 130, 2);
    assert_int_equal(heard.pages, 0);
    job_wait(&job, 2 * MINUTE);
    assert_non_null(strstr(heard.codes, "STALLED"));
    mon_free(job.monitor);
}

/* ---- rows of a file --------------------------------------------------------------------------- */

static int64_t add_process(struct fixture *f, int64_t rank, int64_t start, int64_t end)
{
    struct store_process process = {.rank = rank,
                                    .pid = 100,
                                    .parent_pid = FX_NONE,
                                    .start = FX_BASE + start,
                                    .end = end == FX_NONE ? FX_NONE : FX_BASE + end,
                                    .exit_status = FX_NONE,
                                    .host = "host",
                                    .program = "train"};
    FX(store_process_add(f->s, &process));
    return process.id;
}

static void add_steps(struct fixture *f, int64_t process, int64_t from, int64_t to, int64_t start)
{
    for (int64_t step = from; step < to; step++) {
        struct store_step row = {.process = process,
                                 .index = step,
                                 .start = FX_BASE + start + (step - from) * 100 * MS,
                                 .end = FX_BASE + start + (step - from + 1) * 100 * MS,
                                 .tokens = FX_NONE,
                                 .samples = FX_NONE};
        FX(store_step_add(f->s, &row));
    }
}

/* Plays the file; says how many ranks there are. */
static size_t play_file(struct fixture *f, struct heard *heard)
{
    struct tacho_error err = {0};
    struct mon_rank_state rank;
    size_t ranks = 0;
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
    assert_int_equal(store_open(f->path, &f->reader, &err), 0);
    struct mon_feed *feed = mon_feed_new();
    struct mon_monitor *monitor = mon_new(&config, FX_BASE, on_notice, heard);
    assert_int_equal(mon_feed_poll(feed, f->reader, INT64_MAX), 0);
    for (int64_t at = FX_BASE; at < mon_feed_newest(feed) + 1000 * MS; at += 1000 * MS) {
        assert_int_equal(mon_feed_play(feed, monitor, at), 0);
        mon_tick(monitor, at);
    }
    while (mon_rank_at(monitor, ranks, 0, &rank))
        ranks++;
    mon_feed_free(feed);
    mon_free(monitor);
    fx_close(f);
    return ranks;
}

/* torchrun starts the workers again; those of its loader have the same rank and are no restart. */
static void test_processes_with_ranks(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    struct heard heard = {.pages = 0};
    fx_open(f);
    for (int64_t rank = 0; rank < 2; rank++) {
        add_steps(f, add_process(f, rank, 0, 61000 * MS), 0, 600, 0);
        add_process(f, rank, 30000 * MS, 60000 * MS); /* of a loader */
    }
    for (int64_t rank = 0; rank < 2; rank++)
        add_steps(f, add_process(f, rank, 62000 * MS, FX_NONE), 590, 800, 90000 * MS);
    assert_int_equal(play_file(f, &heard), 2);
    assert_string_equal(heard.codes, "RESTARTED ");
}

/* A script that runs the program again: the second process is no second rank. */
static void test_processes_without_ranks(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    struct heard heard = {.pages = 0};
    fx_open(f);
    add_steps(f, add_process(f, FX_NONE, 0, 61000 * MS), 0, 600, 0);
    add_steps(f, add_process(f, FX_NONE, 62000 * MS, FX_NONE), 600, 2000, 90000 * MS);
    assert_int_equal(play_file(f, &heard), 1);
    assert_string_equal(heard.codes, "RESTARTED ");
}

int main(void)
{
    mon_config_init(&config);
    mon_config_set(&config, "goodput.target", "off", "", NULL); /* starts take most of the time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_processes_with_ranks),
        cmocka_unit_test(test_processes_without_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
