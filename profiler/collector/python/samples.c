/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that looks, and the rows that come of it. The thread owns the looker; looks and texts
 * of new labels are handed over under a lock, and written without it.
 */
#include "profiler/collector/python/samples.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/os/list.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/python/look.h"

#define SCAN_NS    100000000 /* between two looks for new processes */
#define LATER      5         /* times as long apart, where nobody asked */
#define NEW_NS     10000000000
#define REST       399 /* times as long as it took the thread rests: 0.25 % of a core */
#define REST_FIRST 99  /* 1 % of a core for the first looks: many runs are short */
#define FIRST_MOST 1000
#define REST_ASKED 39         /* 2.5 % of a core */
#define QUEUE_MOST (1u << 20) /* labels that wait to be written */
#define CUT_FRAME  "[truncated]"

/* A look in the queue: its labels follow each other from `first` on. */
struct waiting {
    int64_t time;
    int32_t pid, tid;
    enum col_task_state state;
    bool cut;
    uint32_t first, count;
};

struct queue {
    struct waiting *look;
    size_t looks, look_room;
    uint32_t *label;
    size_t labels, label_room;
};

/* Of the last look at a track, outermost frame first: labels and rows of the table stack. The next
 * one mostly differs in its inner frames only. */
struct known {
    uint32_t *label;
    int64_t *stack;
    size_t count, label_room, stack_room;
    bool cut;
};

struct track {
    int64_t process, id; /* rows */
    int32_t tid;
    enum col_task_state state;
    struct known known;
};

/* The text of a label and its row of the table string, 0: not there yet. */
struct text {
    const char *text;
    int64_t string;
};

struct col_python_samples {
    struct col_python_looker looker; /* of the thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool started, asked, stop; /* stop: under the lock, like all up to `ended` */
    struct queue queue;
    const char **fresh; /* texts of labels since the last drain */
    size_t fresh_count, fresh_room;
    uint64_t dropped, rounds;
    int64_t begun, ended;
    /* of the writer */
    int64_t interval_ns;
    struct queue batch;
    struct text *text;
    size_t texts, text_room;
    struct track *track;
    size_t tracks, track_room;
    int64_t cut_string;
};

/* ---- the thread --------------------------------------------------------------------------- */

/* Makes room in the queue; false: it is full, or memory is short. */
static bool queue_room(struct queue *queue, size_t labels)
{
    if (queue->labels + labels > QUEUE_MOST)
        return false;
    struct waiting *look =
        col_list_room(queue->look, &queue->look_room, queue->looks + 1, sizeof *look);
    queue->look = look ? look : queue->look;
    uint32_t *label =
        col_list_room(queue->label, &queue->label_room, queue->labels + labels, sizeof *label);
    queue->label = label ? label : queue->label;
    return look && label;
}

/* Publishes the texts of labels that are new. False: memory is short. */
static bool publish_texts(struct col_python_samples *samples, size_t *published)
{
    size_t count = col_python_labels_count(samples->looker.labels);
    const char **list =
        col_list_room(samples->fresh, &samples->fresh_room,
                      samples->fresh_count + (count - *published) + 1, sizeof *list);
    if (!list)
        return false;
    samples->fresh = list;
    for (; *published < count; (*published)++)
        samples->fresh[samples->fresh_count++] =
            col_python_label_text(samples->looker.labels, (uint32_t)*published);
    return true;
}

struct taking {
    struct col_python_samples *samples;
    size_t published;
};

static void take(void *ctx, const struct col_python_look *look)
{
    struct taking *taking = ctx;
    struct col_python_samples *samples = taking->samples;
    struct queue *queue = &samples->queue;
    pthread_mutex_lock(&samples->lock);
    if (publish_texts(samples, &taking->published) && queue_room(queue, (size_t)look->count)) {
        queue->look[queue->looks++] = (struct waiting){.time = look->time,
                                                       .pid = look->pid,
                                                       .tid = look->tid,
                                                       .state = look->state,
                                                       .cut = look->cut,
                                                       .first = (uint32_t)queue->labels,
                                                       .count = (uint32_t)look->count};
        memcpy(queue->label + queue->labels, look->label,
               (size_t)look->count * sizeof *look->label);
        queue->labels += (size_t)look->count;
    } else
        samples->dropped++;
    pthread_mutex_unlock(&samples->lock);
}

/* The next interval: between 3/4 and 5/4 of the mean one, so that looks keep no step with a loop of
 * the program (the generator of Numerical Recipes, ranqd1). */
static int64_t next_interval(int64_t mean, uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return mean * 3 / 4 + (mean / 2) * (int64_t)(*random >> 16) / 65536;
}

/* Between two looks for new processes. Where nobody asked, they are rarer once the first one is
 * found, or the run is no longer new. */
static int64_t scan_interval(const struct col_python_samples *samples, int64_t now)
{
    bool is_new = now - samples->begun < NEW_NS && !samples->looker.version;
    if (samples->asked || is_new)
        return SCAN_NS;
    return LATER * SCAN_NS;
}

/* Times as long as a look took that the thread rests after it. */
static int64_t rest_after(const struct col_python_samples *samples)
{
    if (samples->asked)
        return REST_ASKED;
    if (samples->rounds < FIRST_MOST)
        return REST_FIRST;
    return REST;
}

static void *thread_main(void *arg)
{
    struct col_python_samples *samples = arg;
    struct taking taking = {.samples = samples};
    int64_t next_scan = 0, next = col_clock_now();
    int64_t used =
        col_clock_thread(); /* up to the last look: waking up is a part of the next one */
    uint32_t random = 20261124;
    pthread_mutex_lock(&samples->lock);
    samples->begun = next;
    while (!samples->stop) {
        pthread_mutex_unlock(&samples->lock);
        int64_t start = col_clock_now();
        if (start >= next_scan) {
            col_python_looker_scan(&samples->looker, start);
            next_scan = col_clock_now() + scan_interval(samples, start);
        }
        col_python_looker_look(&samples->looker, take, &taking);
        int64_t now = col_clock_now(), spent = col_clock_thread(),
                rested = now + (spent - used) * rest_after(samples);
        used = spent;
        next += next_interval(samples->interval_ns, &random);
        next = next < rested ? rested : next;
        if (!samples->looker.version && next < next_scan)
            next = next_scan; /* there is nothing to look at yet */
        struct timespec until = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
        pthread_mutex_lock(&samples->lock);
        samples->rounds++;
        samples->ended = now;
        if (!samples->stop)
            pthread_cond_timedwait(&samples->wake, &samples->lock, &until);
    }
    pthread_mutex_unlock(&samples->lock);
    return NULL;
}

struct col_python_samples *col_python_samples_open(int hz, bool asked)
{
    struct col_python_samples *samples = calloc(1, sizeof *samples);
    pthread_condattr_t attr;
    if (!samples)
        return NULL;
    samples->interval_ns = 1000000000 / (hz > 0 ? hz : 1);
    samples->asked = asked;
    pthread_mutex_init(&samples->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&samples->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (col_python_looker_open(&samples->looker))
        samples->started = pthread_create(&samples->thread, NULL, thread_main, samples) == 0;
    if (samples->started)
        return samples;
    col_python_samples_close(samples);
    return NULL;
}

static void forget_tracks(struct col_python_samples *samples)
{
    for (size_t i = 0; i < samples->tracks; i++) {
        free(samples->track[i].known.label);
        free(samples->track[i].known.stack);
    }
    samples->tracks = 0;
}

static void stop(struct col_python_samples *samples)
{
    if (!samples->started)
        return;
    pthread_mutex_lock(&samples->lock);
    samples->stop = true;
    pthread_cond_signal(&samples->wake);
    pthread_mutex_unlock(&samples->lock);
    pthread_join(samples->thread, NULL);
    samples->started = false;
}

void col_python_samples_close(struct col_python_samples *samples)
{
    if (!samples)
        return;
    stop(samples);
    col_python_looker_close(&samples->looker);
    pthread_cond_destroy(&samples->wake);
    pthread_mutex_destroy(&samples->lock);
    free(samples->queue.look);
    free(samples->queue.label);
    free(samples->batch.look);
    free(samples->batch.label);
    free(samples->fresh);
    free(samples->text);
    forget_tracks(samples);
    free(samples->track);
    free(samples);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* The track of a thread in a state, added when it is first seen there. *track: until the next one
 * is added. */
static int track_of(struct col_python_samples *samples, struct col_drain *drain,
                    const struct waiting *look, struct track **track)
{
    static const char *const unit[] = {
#define TASK_TEXT(name, text) text,
        COL_TASK_MAP(TASK_TEXT)
#undef TASK_TEXT
    };
    struct col_process *process = col_process_of(drain, look->pid);
    int rc = process ? 0 : col_drain_process(drain, look->pid, look->time, NULL, &process);
    if (rc)
        return rc;
    for (size_t i = 0; i < samples->tracks; i++)
        if (samples->track[i].process == process->id && samples->track[i].tid == look->tid &&
            samples->track[i].state == look->state) {
            *track = &samples->track[i];
            return 0;
        }
    struct track *list =
        col_list_room(samples->track, &samples->track_room, samples->tracks + 1, sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    samples->track = list;
    struct store_track added = {.process = process->id,
                                .kind = "python",
                                .name = process->program[0] ? process->program : "python",
                                .tid = look->tid,
                                .unit = unit[look->state]};
    rc = store_track_add(drain->db, &added);
    if (rc)
        return rc;
    *track = &list[samples->tracks++];
    **track = (struct track){
        .process = process->id, .id = added.id, .tid = look->tid, .state = look->state};
    return 0;
}

static int string_of(struct col_drain *drain, const char *text, int64_t *slot)
{
    return *slot ? 0 : store_string(drain->db, text, strlen(text), slot);
}

/* Makes room for the frames of a look. 0 or TACHO_ENOMEM. */
static int known_room(struct known *known, size_t count)
{
    uint32_t *label = col_list_room(known->label, &known->label_room, count + 1, sizeof *label);
    known->label = label ? label : known->label;
    int64_t *stack = col_list_room(known->stack, &known->stack_room, count + 1, sizeof *stack);
    known->stack = stack ? stack : known->stack;
    if (!label || !stack)
        return TACHO_ENOMEM;
    return 0;
}

/* The row of a look's stack, from the outermost frame on: what the last look at the track had too
 * is known. */
static int stack_of(struct col_python_samples *samples, struct col_drain *drain,
                    const struct waiting *look, struct known *known, int64_t *stack)
{
    const uint32_t *label = &samples->batch.label[look->first];
    size_t same = 0, count = look->count;
    int rc = known_room(known, count);
    while (known->cut == look->cut && same < known->count && same < count &&
           known->label[same] == label[count - 1 - same])
        same++;
    *stack = STORE_ABSENT;
    if (same)
        *stack = known->stack[same - 1];
    if (rc == 0 && look->cut && !same)
        rc = string_of(drain, CUT_FRAME, &samples->cut_string);
    if (rc == 0 && look->cut && !same)
        rc = store_stack(drain->db, *stack, samples->cut_string, stack);
    known->count = same;
    known->cut = look->cut;
    for (size_t i = same; i < count && rc == 0; i++) {
        struct text *text = &samples->text[label[count - 1 - i]];
        rc = string_of(drain, text->text, &text->string);
        if (rc == 0)
            rc = store_stack(drain->db, *stack, text->string, stack);
        if (rc)
            return rc;
        known->label[i] = label[count - 1 - i];
        known->stack[i] = *stack;
        known->count = i + 1;
    }
    return rc;
}

/* Writes one look: its stack and its sample. */
static int put_look(struct col_python_samples *samples, struct col_drain *drain,
                    const struct waiting *look)
{
    struct track *track;
    int64_t stack;
    if (!col_has_room_for_sample(drain, look->time))
        return 0;
    int rc = track_of(samples, drain, look, &track);
    if (rc == 0)
        rc = stack_of(samples, drain, look, &track->known, &stack);
    if (rc)
        return rc;
    return store_sample_add(
        drain->db, &(struct store_sample){.track = track->id, .time = look->time, .stack = stack});
}

/* Takes the texts that were published. */
static int take_texts(struct col_python_samples *samples)
{
    struct text *list = col_list_room(samples->text, &samples->text_room,
                                      samples->texts + samples->fresh_count + 1, sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    samples->text = list;
    for (size_t i = 0; i < samples->fresh_count; i++)
        samples->text[samples->texts++] = (struct text){.text = samples->fresh[i]};
    samples->fresh_count = 0;
    return 0;
}

int col_python_samples_drain(struct col_python_samples *samples, struct col_drain *drain)
{
    pthread_mutex_lock(&samples->lock);
    int rc = take_texts(samples);
    uint64_t dropped = samples->dropped;
    if (rc == 0) {
        struct queue empty = samples->batch;
        samples->batch = samples->queue;
        empty.looks = empty.labels = 0;
        samples->queue = empty;
        samples->dropped = 0;
    }
    pthread_mutex_unlock(&samples->lock);
    for (size_t i = 0; i < samples->batch.looks && rc == 0; i++)
        rc = put_look(samples, drain, &samples->batch.look[i]);
    samples->batch.looks = samples->batch.labels = 0;
    if (rc == 0 && dropped)
        rc = col_drain_loss(drain, "python", "sample dropped: the collector was late",
                            (int64_t)dropped, STORE_ABSENT, STORE_ABSENT);
    return rc;
}

/* Says how frames were read, or why not. Without a Python process there is nothing to say. */
static void put_keys(const struct col_python_samples *samples, struct col_keys *keys)
{
    const struct col_python_looker *looker = &samples->looker;
    char text[512];
    if (looker->version)
        snprintf(text, sizeof text, "sampled: frames of Python %u.%u", looker->version >> 8,
                 looker->version & 0xff);
    else if (looker->refused)
        snprintf(text, sizeof text, "not sampled: %s", looker->refused);
    else
        snprintf(text, sizeof text, "not sampled: no process of the run was Python");
    col_key_text(keys, "python", text);
    int64_t took = samples->ended - samples->begun;
    if (looker->version && took > 0)
        col_key_int(keys, "python.hz",
                    (int64_t)((double)samples->rounds * 1e9 / (double)took + 0.5));
    if (looker->version)
        col_key_int(keys, "python.torn", (int64_t)looker->torn);
}

int col_python_samples_finish(struct col_python_samples *samples, struct col_drain *drain)
{
    stop(samples);
    struct col_keys keys = {.db = drain->db, .rc = col_python_samples_drain(samples, drain)};
    if (keys.rc == 0)
        put_keys(samples, &keys);
    if (keys.rc == 0 && samples->looker.lost)
        keys.rc =
            col_drain_loss(drain, "python", "sample dropped: no room for another line of Python",
                           (int64_t)samples->looker.lost, STORE_ABSENT, STORE_ABSENT);
    if (keys.rc == 0 && samples->asked && samples->looker.version && samples->looker.refused) {
        char text[320];
        snprintf(text, sizeof text, "not sampled: %s", samples->looker.refused);
        keys.rc = col_drain_loss_uncounted(drain, "python", text);
    }
    return keys.rc;
}

void col_python_samples_reset(struct col_python_samples *samples)
{
    forget_tracks(samples);
    samples->cut_string = 0;
    for (size_t i = 0; i < samples->texts; i++)
        samples->text[i].string = 0;
}
