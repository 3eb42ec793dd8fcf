/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that follows a run. Each look opens the file, reads what is new (tail.c), has it
 * analysed when that is due (data_analysis.c), and publishes a model; the frame takes the newest.
 */
#include "tui/data/data.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tui/data/clock.h"
#include "tui/data/data_private.h"

#define IDLE_MS     2000 /* between two looks at a run that is over: it may begin again */
#define PATIENCE_MS 200  /* for a thread that is to end */
#define WHOLE_MS    250  /* between two looks whether the whole of a large run is analysed */

/* ---- publishing ------------------------------------------------------------------------------ */

/* Makes a model of what was read and analysed so far. All texts lie in one block, which belongs
 * to the model. Returns NULL without memory. */
static struct tui_model *make_model(struct tui_data *data)
{
    struct tui_model *model = tui_tail_model(data->tail);
    char *text = malloc(strlen(data->found.run) + 2 * strlen(data->message) + strlen(data->reason) +
                        strlen(data->window) + 64);
    double now = tui_now_s();
    if (!model || !text) {
        tui_model_free(model);
        free(text);
        return NULL;
    }
    model->memory[4] = text;
    data->steps = model->steps_seen;
    model->version = ++data->version;
    model->against = data->source->against;
    model->runs = model->own_runs = data->listed ? tui_runs_copy(&data->runs) : NULL;
    model->state = data->state;
    model->run = tui_model_text(&text, data->found.run);
    model->message = tui_model_text(&text, data->message);
    model->shared = tui_shared_hold(data->shared);
    model->result = tui_shared_result(data->shared);
    const char *reason = data->state == TUI_LOST ? data->message : "reading the run";
    model->result_reason = "";
    model->failed = data->failed;
    model->pending = data->whole;
    if (!model->result)
        model->result_reason = tui_model_text(&text, *data->reason ? data->reason : reason);
    model->window = tui_model_text(&text, *data->window ? data->window : "the whole run");
    model->age_s = data->state == TUI_LIVE && data->changed > 0 ? now - data->changed : 0;
    model->result_age_s = model->result ? now - data->analysed : 0;
    return model;
}

/* Replaces the model that waits for the frame, which reads at its own pace, and wakes the frame. */
static void publish_model(struct tui_data *data)
{
    struct tui_model *model = make_model(data), *old;
    uint64_t one = 1;
    if (!model)
        return; /* there may be memory for the next one */
    pthread_mutex_lock(&data->lock);
    old = data->ready;
    data->ready = model;
    pthread_mutex_unlock(&data->lock);
    tui_model_free(old);
    if (write(data->event, &one, sizeof one) < 0 && errno != EAGAIN)
        return; /* the counter is full of news already */
}

/* ---- which file ------------------------------------------------------------------------------ */

/* Forgets everything that was read and analysed: the file is another run. */
static void forget_run(struct tui_data *data)
{
    struct tui_tail *fresh = tui_tail_new();
    if (!fresh)
        return;
    tui_tail_free(data->tail);
    data->tail = fresh;
    tui_shared_drop(data->shared);
    data->shared = NULL;
    tui_data_end_whole(data);
    data->steady = (struct tui_steady){0};
    data->final = false;
    data->until = 0;
    data->slices = TUI_SLICES_LIVE;
    data->next_analysis = data->changed = 0;
    data->steps = data->analysed_steps = 0;
    data->analysed_until = STORE_ABSENT;
    *data->window = *data->reason = 0;
}

static bool same_file(const struct stat *first, const struct stat *second)
{
    return first->st_dev == second->st_dev && first->st_ino == second->st_ino;
}

/* Begins to follow the file that was found. `again`: it holds other rows than those read before. */
static void follow_file(struct tui_data *data, const struct tui_found *found,
                        const struct stat *status, bool again)
{
    if (again)
        forget_run(data);
    if (again || !data->opened)
        data->taken_up = tui_now_s();
    data->found = *found;
    data->file = *status;
    data->opened = true;
    data->state = found->live ? TUI_LIVE : TUI_ENDED;
    data->final = false;
    data->unrecorded = 0;
    data->next_analysis = 0;
}

/* Is it the same file, unchanged? Size and time of change tell. */
static bool same_content(const struct stat *first, const struct stat *second)
{
    return same_file(first, second) && first->st_size == second->st_size &&
           first->st_mtim.tv_sec == second->st_mtim.tv_sec &&
           first->st_mtim.tv_nsec == second->st_mtim.tv_nsec;
}

/* Looks for a run: the one that was shown is gone, or none was shown yet. Returns true when there
 * is a file to read. */
static bool find_run(struct tui_data *data)
{
    struct tui_found found = data->found;
    struct tacho_error err = {0};
    struct stat status;
    bool was_live = data->opened && data->found.live, known = data->opened;
    int rc = data->source->find(data->source->ctx, &found, &err);
    if (!rc && stat(found.path, &status) != 0)
        rc = tacho_fail(&err, TACHO_ENOTFOUND, NULL, "%s: %s", found.run, strerror(errno));
    if (rc) {
        if (known)
            tui_data_say(data, "%.900s: deleted or moved; this is what was read last",
                         data->found.run);
        else
            tui_data_say(data, "%s", err.what);
        data->state = TUI_LOST;
        return false;
    }
    if (data->refused && same_content(&status, &data->file))
        return false; /* what was read last stays */
    bool ended = was_live && !found.live, back = known && same_file(&status, &data->file);
    data->refused = false;
    follow_file(data, &found, &status, known && !ended);
    *data->message = 0;
    if (known && !ended)
        tui_data_say(data, back ? "%.900s: available again" : "%.900s: restarted", found.run);
    else if (ended)
        tui_data_say(data, "the run ended");
    return true;
}

/* Does the path still lead to the file that was read last time? */
static bool still_there(const struct tui_data *data)
{
    struct stat status;
    return data->opened && data->state != TUI_LOST && stat(data->found.path, &status) == 0 &&
           same_file(&status, &data->file);
}

/* Gives up on a file that cannot be read. What was read before stays on the screen until the file
 * changes. */
static void mark_unreadable(struct tui_data *data, const char *why)
{
    struct stat status;
    tui_data_say(data, "%.900s%s", why, data->shared ? "; this is what was read last" : "");
    data->state = TUI_LOST;
    data->refused = stat(data->found.path, &status) == 0;
    if (data->refused)
        data->file = status;
}

/* Was a run that is over written to since? */
static bool was_changed(struct tui_data *data)
{
    struct stat status;
    if (stat(data->found.path, &status) || same_content(&status, &data->file))
        return false;
    data->file = status;
    data->final = false;
    return true;
}

/* Detects a live run whose recorder was killed: two polls in a row find no writer. One is not
 * enough, because finishing a run takes a moment. */
static void watch_recorder(struct tui_data *data)
{
    if (!data->found.live)
        return;
    data->unrecorded =
        data->source->recorded(data->source->ctx, &data->found) ? 0 : data->unrecorded + 1;
    if (data->unrecorded < 2) {
        if (data->state == TUI_ENDED)
            *data->message = 0; /* a recorder writes it again */
        data->state = TUI_LIVE;
        return;
    }
    data->state = TUI_ENDED;
    tui_data_say(data, "its recorder was killed: 'tacho recover %.900s' finishes the run",
                 data->found.run);
}

/* Completes "the run ended" by how it ended, once the file says so. */
static void name_end(struct tui_data *data)
{
    const char *ended = tui_tail_key(data->tail, "ended");
    if (data->found.live || !ended || strcmp(data->message, "the run ended") != 0)
        return;
    tui_data_say(data, "the run ended: %.900s", ended);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Is the thread to end? Long reads look now and then. */
static bool asked_to_stop(struct tui_data *data)
{
    pthread_mutex_lock(&data->lock);
    bool stop = data->stop;
    pthread_mutex_unlock(&data->lock);
    return stop;
}

/* One look at the run. */
static void read_run(struct tui_data *data)
{
    store_reader *reader = NULL;
    struct tacho_error err = {0};
    bool analysed = false;
    int more = 1;
    if (!still_there(data) && !find_run(data))
        return;
    watch_recorder(data);
    if (data->final && data->state == TUI_ENDED && (data->found.live || !was_changed(data)))
        return; /* nothing new */
    if (store_open(data->found.path, &reader, &err)) {
        if (data->found.live && !still_there(data))
            return; /* it is being finished at this moment: the next look finds it */
        mark_unreadable(data, err.what);
        return;
    }
    while (more > 0 && !asked_to_stop(data)) {
        int64_t before = tui_tail_newest(data->tail);
        more = tui_tail_poll(data->tail, reader, TUI_POLL_ROWS);
        if (tui_tail_newest(data->tail) != before)
            data->changed = tui_now_s();
        if (more > 0)
            publish_model(data);
    }
    if (more < 0) {
        mark_unreadable(data, store_reader_error(reader)->code ? store_reader_error(reader)->what
                                                               : tacho_error_text(more));
    } else {
        name_end(data);
        if (!data->shared && !asked_to_stop(data))
            publish_model(data); /* the first frame does not wait for the analysis */
        if ((analysed = tui_data_due(data) && !asked_to_stop(data)))
            tui_data_analyse(data, reader);
    }
    store_reader_close(reader);
    if (data->wants_whole)
        tui_data_begin_whole(data);
#ifdef __GLIBC__
    if (analysed)
        malloc_trim(0); /* what an analysis needs for a moment is not kept */
#endif
}

/* Says that another run began, when the one on the screen is over. That one stays: its end is what
 * the user may have waited to see. */
static void notice_next(struct tui_data *data)
{
    struct tui_found found;
    struct stat status;
    if (data->state == TUI_LIVE || !data->opened || !data->source->next ||
        !data->source->next(data->source->ctx, &found) || stat(found.path, &status) != 0)
        return;
    if (!strcmp(found.path, data->found.path) && same_file(&status, &data->file))
        return;
    tui_data_say(data, "another run began: %.900s (o: the runs)", found.run);
}

/* Lists the runs. */
static void list_runs(struct tui_data *data)
{
    tui_runs_clear(&data->runs);
    data->listed = true;
    if (data->source->list)
        data->source->list(data->source->ctx, &data->runs);
}

/* Turns to the run that the user chose. */
static void turn_to(struct tui_data *data, const char *run)
{
    struct tui_found found = {.live = false};
    struct tacho_error err = {0};
    struct stat status;
    int rc = data->source->choose ? data->source->choose(data->source->ctx, run, &found, &err)
                                  : TACHO_ENOTSUP;
    if (!rc && stat(found.path, &status) != 0)
        rc = tacho_fail(&err, TACHO_ENOTFOUND, NULL, "%s: %s", found.run, strerror(errno));
    if (rc) {
        tui_data_say(data, "%.900s", err.what[0] ? err.what : tacho_error_text(rc));
        return;
    }
    tui_data_say(data, "%s", "");
    follow_file(data, &found, &status, true);
}

/* Selects the part before or after the one that is shown. Parts lie end to end; the first one is no
 * shorter than the others. */
static void move_part(struct tui_data *data, int parts)
{
    const struct an_result *result = tui_shared_result(data->shared);
    int64_t first = tui_tail_start(data->tail), newest = tui_tail_newest(data->tail), until;
    if (!parts || !result || !result->run.window || first == STORE_ABSENT || newest == STORE_ABSENT)
        return;
    int64_t start = result->run.part_start > first ? result->run.part_start : first;
    int64_t end = data->until ? data->until : newest;
    int64_t width = end > start ? end - start : 1;
    if (parts < 0) {
        until = start - (-parts - 1) * width;
        until = until < first + width ? first + width : until;
        if (until >= end)
            return; /* this is the first one */
    } else {
        until = end + parts * width;
    }
    data->until = until >= newest ? 0 : until;
    data->final = false;
    data->next_analysis = 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* ms until the next look, if the frame wishes nothing before. */
static int pause_of(const struct tui_data *data)
{
    if (data->whole)
        return WHOLE_MS;
    if (data->state == TUI_ENDED)
        return IDLE_MS;
    return data->interval_ms;
}

/* The thread: carries out the wishes of the frame, looks at the run, publishes a model, and
 * sleeps until the next look or the next wish. */
static void *thread_main(void *ctx)
{
    struct tui_data *data = ctx;
    pthread_mutex_lock(&data->lock);
    while (!data->stop) {
        bool again = data->again;
        int parts = data->move;
        bool list = data->list;
        char *choice = data->choice;
        data->again = data->list = false;
        data->move = 0;
        data->choice = NULL;
        pthread_mutex_unlock(&data->lock);
        if (list)
            list_runs(data);
        if (choice)
            turn_to(data, choice);
        free(choice);
        move_part(data, parts);
        if (again) {
            data->final = false;
            data->next_analysis = 0;
        }
        tui_data_take_whole(data);
        notice_next(data);
        read_run(data);
        publish_model(data);
        struct timespec until = tui_time_after(CLOCK_MONOTONIC, pause_of(data));
        pthread_mutex_lock(&data->lock);
        while (!data->stop && !data->again && !data->move && !data->list && !data->choice)
            if (pthread_cond_timedwait(&data->wake, &data->lock, &until) == ETIMEDOUT)
                break;
    }
    pthread_mutex_unlock(&data->lock);
    return NULL;
}

/* Frees what the thread used; the thread has ended. */
static void data_free(struct tui_data *data)
{
    tui_data_end_whole(data);
    tui_model_free(data->ready);
    tui_tail_free(data->tail);
    tui_shared_drop(data->shared);
    tui_runs_clear(&data->runs);
    free(data->choice);
    pthread_mutex_destroy(&data->lock);
    pthread_cond_destroy(&data->wake);
    if (data->event >= 0)
        close(data->event);
    free(data);
}

/* Signals belong to the frame's thread, except those that a thread causes itself. */
int tui_data_start(const struct tui_source *source, int interval_ms, struct tui_data **out,
                   struct tacho_error *err)
{
    struct tui_data *data = calloc(1, sizeof *data);
    pthread_condattr_t monotonic;
    sigset_t all, old;
    *out = NULL;
    if (!data)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD,
            TUI_MMAP_LEAST); /* else it grows with what is freed, and large arrays leave holes */
#endif
    data->source = source;
    data->interval_ms = interval_ms;
    data->slices = TUI_SLICES_LIVE;
    data->analysed_until = STORE_ABSENT;
    data->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    data->tail = tui_tail_new();
    pthread_mutex_init(&data->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&data->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = data->event < 0 || !data->tail ? EAGAIN : 0;
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigfillset(&all); /* signals are the frame's, but for those that a thread causes itself */
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigdelset(&all, fatal[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = rc ? rc : pthread_create(&data->thread, NULL, thread_main, data);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        data_free(data);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "cannot start the data thread: %s",
                          strerror(rc));
    }
    *out = data;
    return 0;
}

/* Waits a moment only: the thread may be in the middle of a long read. */
bool tui_data_stop(struct tui_data *data)
{
    if (!data)
        return true;
    pthread_mutex_lock(&data->lock);
    data->stop = true;
    pthread_cond_signal(&data->wake);
    pthread_mutex_unlock(&data->lock);
    struct timespec until = tui_time_after(CLOCK_REALTIME, PATIENCE_MS);
    if (pthread_timedjoin_np(data->thread, NULL, &until))
        return false;
    data_free(data);
    return true;
}
