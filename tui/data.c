/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/data.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tui/tail.h"

#define IDLE_MS \
    2000 /* how often it is looked whether a run that is over is still there, or begins again */
#define MESSAGE    1024
#define PATIENCE_S 0.2 /* for a thread that is to end */
#define YOUNG_S \
    10 /* so long a run that began may have no step without anything to be said about it */
#define STEPS_TELL \
    3 /* steps that an analysis can tell something of: the first and the last do not count */

struct tui_data {
    const struct tui_source *source;
    int interval_ms, event;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct tui_model *ready; /* under lock */
    bool stop, again;        /* under lock */
    int move;                /* under lock: parts to go on (or, below 0, back) */

    /* the thread's */
    struct tui_found found;
    struct stat file;     /* what was opened */
    bool opened, refused; /* refused: as it is, it cannot be read */
    struct tui_tail *tail;
    enum tui_run_state state;
    char message[MESSAGE], reason[MESSAGE], window[256];
    struct tui_shared *shared;
    uint64_t version;
    double changed, analysed, next_analysis; /* s, monotonic */
    double taken_up;                         /* s, monotonic: when this run came onto the screen */
    int64_t steps, analysed_steps;           /* that ended; those of the last analysis */
    int64_t slices, analysed_until; /* of the next analysis; newest time that the last one saw */
    int unrecorded;                 /* polls in which nobody held the live run's lock */
    bool final;    /* a run that is over was analysed, or a part that is not the newest */
    int64_t until; /* where the part ends that the user went to; 0: the newest one */
};

static double clock_s(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((format(printf, 2, 3))) static void say(struct tui_data *d, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(d->message, sizeof d->message, format, ap);
    va_end(ap);
}

/* ---- handing over ------------------------------------------------------------------------------------------------------------- */

static const char *put(char **at, const char *text)
{
    size_t n = strlen(text) + 1;
    char *from = memcpy(*at, text, n);
    *at += n;
    return from;
}

static struct tui_model *make_model(struct tui_data *d)
{
    struct tui_model *m = tui_tail_model(d->tail);
    char *text = malloc(strlen(d->found.run) + 2 * strlen(d->message) + strlen(d->reason) +
                        strlen(d->window) + 64);
    double now = clock_s(CLOCK_MONOTONIC);
    if (!m || !text) {
        tui_model_free(m);
        free(text);
        return NULL;
    }
    m->memory[4] = text;
    d->steps = m->steps_seen;
    m->version = ++d->version;
    m->state = d->state;
    m->run = put(&text, d->found.run);
    m->message = put(&text, d->message);
    m->shared = tui_shared_hold(d->shared);
    m->r = tui_shared_result(d->shared);
    m->r_reason = m->r ? ""
                       : put(&text, *d->reason             ? d->reason
                                    : d->state == TUI_LOST ? d->message
                                                           : "reading the run");
    m->window = put(&text, *d->window ? d->window : "the whole run");
    m->age_s = d->state == TUI_LIVE && d->changed > 0 ? now - d->changed : 0;
    m->r_age_s = m->r ? now - d->analysed : 0;
    return m;
}

static void publish(struct tui_data *d)
{
    struct tui_model *m = make_model(d), *old;
    uint64_t one = 1;
    if (!m)
        return; /* the next one may find memory */
    pthread_mutex_lock(&d->lock);
    old = d->ready;
    d->ready = m;
    pthread_mutex_unlock(&d->lock);
    tui_model_free(old);
    if (write(d->event, &one, sizeof one) < 0 && errno != EAGAIN)
        return; /* the counter is full of news already */
}

/* ---- which file ---------------------------------------------------------------------------------------------------------------- */

static void start_over(struct tui_data *d)
{
    struct tui_tail *fresh = tui_tail_new();
    if (!fresh)
        return;
    tui_tail_free(d->tail);
    d->tail = fresh;
    tui_shared_drop(d->shared);
    d->shared = NULL;
    d->final = false;
    d->until = 0;
    d->slices = TUI_SLICES_LIVE;
    d->next_analysis = d->changed = 0;
    d->steps = d->analysed_steps = 0;
    d->analysed_until = STORE_ABSENT;
    *d->window = *d->reason = 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Takes up the file that was found; `again`: rows that were read before are not those of this file.
 */
static void take_up(struct tui_data *d, const struct tui_found *f, const struct stat *st,
                    bool again)
{
    if (again)
        start_over(d);
    if (again || !d->opened)
        d->taken_up = clock_s(CLOCK_MONOTONIC);
    d->found = *f;
    d->file = *st;
    d->opened = true;
    d->state = f->live ? TUI_LIVE : TUI_ENDED;
    d->final = false;
    d->unrecorded = 0;
    d->next_analysis = 0;
}

static bool same_content(const struct stat *a, const struct stat *b)
{
    return same_file(a, b) && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* What was shown is not there any more, or nothing was shown yet. */
static bool look_for_run(struct tui_data *d)
{
    struct tui_found f = d->found;
    struct tacho_error err = {0};
    struct stat st;
    bool was_live = d->opened && d->found.live, known = d->opened;
    int rc = d->source->find(d->source->ctx, &f, &err);
    if (!rc && stat(f.path, &st) != 0)
        rc = tacho_fail(&err, TACHO_ENOTFOUND, NULL, "%s: %s", f.run, strerror(errno));
    if (rc) {
        if (known)
            say(d, "%.900s: deleted or moved; this is what was read last", d->found.run);
        else
            say(d, "%s", err.what);
        d->state = TUI_LOST;
        return false;
    }
    if (d->refused && same_content(&st, &d->file))
        return false; /* what was read last stays */
    bool ended = was_live && !f.live, back = known && same_file(&st, &d->file);
    d->refused = false;
    take_up(d, &f, &st, known && !ended);
    *d->message = 0;
    if (known && !ended)
        say(d, back ? "%.900s: is there again" : "%.900s: began again", f.run);
    else if (ended)
        say(d, "the run ended");
    return true;
}

/* Is the file that was read last time still the one behind the name? */
static bool still_there(const struct tui_data *d)
{
    struct stat st;
    return d->opened && d->state != TUI_LOST && stat(d->found.path, &st) == 0 &&
           same_file(&st, &d->file);
}

/* It cannot be read as it is: what was read before stays on the screen, until it is another one. */
static void refuse(struct tui_data *d, const char *why)
{
    struct stat st;
    say(d, "%.900s%s", why, d->shared ? "; this is what was read last" : "");
    d->state = TUI_LOST;
    d->refused = stat(d->found.path, &st) == 0;
    if (d->refused)
        d->file = st;
}

/* Was a run that is over written to since? */
static bool was_changed(struct tui_data *d)
{
    struct stat st;
    if (stat(d->found.path, &st) || same_content(&st, &d->file))
        return false;
    d->file = st;
    d->final = false;
    return true;
}

/* Nobody writes a live run and it was not finished. Two polls, because its end takes a moment. */
static void watch_recorder(struct tui_data *d)
{
    if (!d->found.live)
        return;
    d->unrecorded = d->source->recorded(d->source->ctx, &d->found) ? 0 : d->unrecorded + 1;
    if (d->unrecorded < 2) {
        if (d->state == TUI_ENDED)
            *d->message = 0; /* somebody records it again */
        d->state = TUI_LIVE;
        return;
    }
    d->state = TUI_ENDED;
    say(d, "its recorder was killed: 'tacho recover %.900s' finishes the run", d->found.run);
}

static void tell_end(struct tui_data *d)
{
    const char *ended = tui_tail_key(d->tail, "ended");
    if (d->found.live || !ended || strcmp(d->message, "the run ended") != 0)
        return;
    say(d, "the run ended: %.900s", ended);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------- */

/* Analysis of a live run costs what the budget allows: the number of slices follows what the last
 * one cost. */
static void plan_next(struct tui_data *d, double cost)
{
    double now = clock_s(CLOCK_MONOTONIC),
           fit = (double)d->slices * TUI_ANALYSIS_MS / 1e3 / (cost > 1e-4 ? cost : 1e-4);
    double pause = cost / TUI_ANALYSIS_SHARE;
    d->analysed = now;
    d->next_analysis = now + (pause > 2 ? pause : 2);
    fit = fit > 2.0 * (double)d->slices ? 2.0 * (double)d->slices : fit;
    d->slices = fit < TUI_SLICES_LEAST   ? TUI_SLICES_LEAST
                : fit > TUI_SLICES_ENDED ? TUI_SLICES_ENDED
                                         : (int64_t)fit;
}

/* A run that has only begun: that it has no steps says nothing about it. */
static bool is_young(const struct tui_data *d, const struct an_result *r)
{
    int64_t first = tui_tail_start(d->tail), newest = tui_tail_newest(d->tail);
    double lasted =
        first == STORE_ABSENT || newest == STORE_ABSENT ? 0 : (double)(newest - first) / 1e9;
    return d->state == TUI_LIVE && !d->shared && r->steps.reason && lasted < YOUNG_S &&
           clock_s(CLOCK_MONOTONIC) - d->taken_up < YOUNG_S;
}

static void analyse(struct tui_data *d, store_reader *reader)
{
    struct an_result *r = NULL;
    struct tacho_error err = {0};
    double before = clock_s(CLOCK_THREAD_CPUTIME_ID);
    bool over = d->state != TUI_LIVE;
    int64_t whole = tui_tail_key(d->tail, "source") ? TUI_SLICES_IMPORT : TUI_SLICES_WHOLE;
    bool small = tui_tail_slices(d->tail) <= whole;
    int64_t slices = !over ? d->slices : small ? whole : TUI_SLICES_ENDED;
    int rc = d->source->analyze(d->source->ctx, reader, &d->found, slices, d->until, &r, &err);
    plan_next(d, clock_s(CLOCK_THREAD_CPUTIME_ID) - before);
    d->final = over || d->until;
    d->analysed_until = tui_tail_newest(d->tail);
    d->analysed_steps = d->steps;
    if (rc) {
        snprintf(d->reason, sizeof d->reason, "%s", err.what);
        return;
    }
    if (is_young(d, r)) {
        d->source->release(r);
        d->next_analysis = 0; /* the next look: it costs little while there is little */
        if (d->steps)
            snprintf(d->reason, sizeof d->reason,
                     "the run has just begun: where its time goes is told after a few more steps");
        else
            snprintf(d->reason, sizeof d->reason, "the run has just begun: no step has ended yet");
        return;
    }
    tui_shared_drop(d->shared);
    d->shared = tui_shared_new(r, d->source->release);
    if (!d->shared)
        return;
    tui_tail_learn(d->tail, r);
    *d->reason = 0;
    snprintf(d->window, sizeof d->window, "%s", r->run.window ? r->run.window : "the whole run");
}

static bool analysis_due(const struct tui_data *d)
{
    if (d->state != TUI_LIVE || d->until)
        return !d->final;
    const struct an_result *r = tui_shared_result(d->shared);
    bool news = d->analysed_until != tui_tail_newest(d->tail) || !d->shared;
    if (r && r->steps.reason && d->steps >= STEPS_TELL && d->analysed_steps < STEPS_TELL)
        return true; /* the first that says something */
    return news && clock_s(CLOCK_MONOTONIC) >= d->next_analysis;
}

static bool asked_to_stop(struct tui_data *d)
{
    pthread_mutex_lock(&d->lock);
    bool stop = d->stop;
    pthread_mutex_unlock(&d->lock);
    return stop;
}

/* One look at the run. */
static void look(struct tui_data *d)
{
    store_reader *r = NULL;
    struct tacho_error err = {0};
    bool analysed = false;
    int rc, more = 1;
    if (!still_there(d) && !look_for_run(d))
        return;
    watch_recorder(d);
    if (d->final && d->state == TUI_ENDED && (d->found.live || !was_changed(d)))
        return; /* there is nothing new in it */
    if ((rc = store_open(d->found.path, &r, &err))) {
        if (d->found.live && !still_there(d))
            return; /* it is being finished at this moment: the next look finds it */
        refuse(d, err.what);
        return;
    }
    while (more > 0 && !asked_to_stop(d)) {
        int64_t before = tui_tail_newest(d->tail);
        more = tui_tail_poll(d->tail, r, TUI_POLL_ROWS);
        if (tui_tail_newest(d->tail) != before)
            d->changed = clock_s(CLOCK_MONOTONIC);
        if (more > 0)
            publish(d);
    }
    if (more < 0) {
        refuse(d,
               store_reader_error(r)->code ? store_reader_error(r)->what : tacho_error_text(more));
    } else {
        tell_end(d);
        if (!d->shared && !asked_to_stop(d))
            publish(d); /* the first frame does not wait for the analysis */
        if ((analysed = analysis_due(d) && !asked_to_stop(d)))
            analyse(d, r);
    }
    store_reader_close(r);
#ifdef __GLIBC__
    if (analysed)
        malloc_trim(0); /* what an analysis needs for a moment is not kept */
#endif
}

static void follow_next(struct tui_data *d)
{
    struct tui_found f;
    struct stat st;
    if (d->state == TUI_LIVE || !d->opened || !d->source->next ||
        !d->source->next(d->source->ctx, &f) || stat(f.path, &st) != 0)
        return;
    if (!strcmp(f.path, d->found.path) && same_file(&st, &d->file))
        return;
    take_up(d, &f, &st, true);
    say(d, "another run began: %.900s", f.run);
}

/* To the part before the one that is shown, or behind it. Parts lie end to end; the first one is no
 * shorter than the others. */
static void move(struct tui_data *d, int parts)
{
    const struct an_result *r = tui_shared_result(d->shared);
    int64_t first = tui_tail_start(d->tail), newest = tui_tail_newest(d->tail), until;
    if (!parts || !r || !r->run.window || first == STORE_ABSENT || newest == STORE_ABSENT)
        return;
    int64_t start = r->run.part_start > first ? r->run.part_start : first,
            end = d->until ? d->until : newest, width = end > start ? end - start : 1;
    if (parts < 0) {
        until = start - (-parts - 1) * width;
        until = until < first + width ? first + width : until;
        if (until >= end)
            return; /* this is the first one */
    } else {
        until = end + parts * width;
    }
    d->until = until >= newest ? 0 : until;
    d->final = false;
    d->next_analysis = 0;
}

/* ---- the thread ---------------------------------------------------------------------------------------------------------------- */

static void *thread_main(void *ctx)
{
    struct tui_data *d = ctx;
    pthread_mutex_lock(&d->lock);
    while (!d->stop) {
        bool again = d->again;
        int parts = d->move;
        d->again = false;
        d->move = 0;
        pthread_mutex_unlock(&d->lock);
        move(d, parts);
        if (again) {
            d->final = false;
            d->next_analysis = 0;
        }
        follow_next(d);
        look(d);
        publish(d);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int ms = d->state == TUI_ENDED ? IDLE_MS : d->interval_ms;
        until.tv_sec += ms / 1000;
        until.tv_nsec += ms % 1000 * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000L;
        }
        pthread_mutex_lock(&d->lock);
        while (!d->stop && !d->again && !d->move)
            if (pthread_cond_timedwait(&d->wake, &d->lock, &until) == ETIMEDOUT)
                break;
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static void data_free(struct tui_data *d)
{
    tui_model_free(d->ready);
    tui_tail_free(d->tail);
    tui_shared_drop(d->shared);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->wake);
    if (d->event >= 0)
        close(d->event);
    free(d);
}

int tui_data_start(const struct tui_source *source, int interval_ms, struct tui_data **out,
                   struct tacho_error *err)
{
    struct tui_data *d = calloc(1, sizeof *d);
    pthread_condattr_t monotonic;
    sigset_t all, old;
    *out = NULL;
    if (!d)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD,
            TUI_MMAP_LEAST); /* else it grows with what is freed, and large arrays leave holes */
#endif
    d->source = source;
    d->interval_ms = interval_ms;
    d->slices = TUI_SLICES_LIVE;
    d->analysed_until = STORE_ABSENT;
    d->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->tail = tui_tail_new();
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = d->event < 0 || !d->tail ? EAGAIN : 0;
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigfillset(&all); /* signals are the frame's, but for those that a thread causes itself */
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigdelset(&all, fatal[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = rc ? rc : pthread_create(&d->thread, NULL, thread_main, d);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        data_free(d);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "no thread for the data: %s", strerror(rc));
    }
    *out = d;
    return 0;
}

int tui_data_fd(const struct tui_data *d)
{
    return d->event;
}

struct tui_model *tui_data_take(struct tui_data *d)
{
    uint64_t news;
    if (read(d->event, &news, sizeof news) < 0 && errno != EAGAIN)
        return NULL;
    pthread_mutex_lock(&d->lock);
    struct tui_model *m = d->ready;
    d->ready = NULL;
    pthread_mutex_unlock(&d->lock);
    return m;
}

void tui_data_move(struct tui_data *d, int parts)
{
    pthread_mutex_lock(&d->lock);
    if (abs(d->move + parts) < 1000)
        d->move += parts;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
}

void tui_data_refresh(struct tui_data *d)
{
    pthread_mutex_lock(&d->lock);
    d->again = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
}

bool tui_data_stop(struct tui_data *d)
{
    struct timespec until;
    if (!d)
        return true;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(PATIENCE_S * 1e9);
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    if (pthread_timedjoin_np(d->thread, NULL, &until))
        return false;
    data_free(d);
    return true;
}
