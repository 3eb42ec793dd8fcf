/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of Kineto traces: one thread reads, unpacks and parses, the calling thread inserts.
 * Between them at most BATCHES batches of rows (kineto_rows.h).
 */
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/import/input/input.h"
#include "store/import/kineto/kineto_frame.h"
#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_insert.h"
#include "store/import/kineto/kineto_look.h"
#include "store/import/kineto/kineto_private.h"

#define BATCHES 6

struct job {
    struct imp_run *run;
    struct kineto kineto;
    struct kj_parser *json;
    struct imp_input *in;
    struct kineto_frame_result frame;
    struct tacho_error error;
    int code; /* of the parser thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct kineto_batch *ready, **ready_end, *spare;
    int batches;
    bool done, stop;
    int64_t reported, passed; /* bytes: of those before `in`, under the lock */
    bool damaged;             /* of those before `in` */
    struct kineto_ids ids;
    bool only_phases,
        found;   /* of a search in a damaged text: an object is an event when it has a phase */
    size_t skip; /* events of a window that were read before it turned out to be damaged */
    const struct kineto_dialect *dialect; /* NULL: the trace is Kineto's own */
};

/* ---- parser thread --------------------------------------------------------------------------------------------------------- */

/* Takes a spare batch, or makes one. Waits while the inserter has all BATCHES of them. NULL: out
 * of memory, or the inserter wants to stop. */
static struct kineto_batch *batch_take(struct job *job)
{
    struct kineto_batch *batch = NULL;
    pthread_mutex_lock(&job->lock);
    while (!job->spare && job->batches == BATCHES && !job->stop)
        pthread_cond_wait(&job->changed, &job->lock);
    if (job->spare) {
        batch = job->spare;
        job->spare = batch->next;
    } else if (!job->stop && (batch = calloc(1, sizeof *batch))) {
        job->batches++;
    }
    pthread_mutex_unlock(&job->lock);
    if (batch) {
        batch->next = NULL;
        batch->slices = batch->counters = batch->defs = batch->text.bytes = 0;
    }
    return batch;
}

/* Appends a full batch to the queue of the inserter. */
static void batch_give(struct job *job, struct kineto_batch *batch)
{
    pthread_mutex_lock(&job->lock);
    *job->ready_end = batch;
    job->ready_end = &batch->next;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
}

/* kineto->full: the parser goes on with another batch. Non-zero stops it. */
static int batch_full(struct kineto *kineto)
{
    struct job *job = kineto->ctx;
    batch_give(job, kineto->batch);
    kineto->batch = batch_take(job);
    if (!kineto->batch)
        return kineto->code = __atomic_load_n(&job->stop, __ATOMIC_RELAXED) ? TACHO_EINTERRUPTED
                                                                            : TACHO_ENOMEM;
    return 0;
}

/* The parser calls this for each event. */
static int on_event(void *ctx, const struct kj_event *event)
{
    struct job *job = ctx;
    if (job->only_phases &&
        !kineto_is_string(event->field[KJ_PH])) /* {"name": ...} of some argument */
        return 0;
    job->found = true;
    if (!job->dialect || !job->dialect->translate)
        return kineto_event(&job->kineto, event);
    struct kj_event translated = *event;
    if (job->dialect->translate(job->dialect->ctx, &translated))
        return kineto_event(&job->kineto, &translated);
    job->kineto.events++;
    return 0;
}

/* Parses one event of a damaged trace from a copy of its text: first as it is, then with invalid
 * text repaired. Adds to *count the events that were read. */
static enum kj_result single(struct job *job, struct kj_span text, size_t *count)
{
    static const char padding[KJ_PADDING];
    struct kineto_text copy = {0};
    enum kj_result status = KJ_SHAPE;
    for (int repaired = 0; repaired < 2 && !*count && (status == KJ_SHAPE || status == KJ_TEXT);
         repaired++) {
        copy.bytes = 0;
        kineto_text_put(&copy, "[", 1);
        if (repaired)
            kineto_sanitise(&copy, text.text, text.bytes);
        else
            kineto_text_put(&copy, text.text, text.bytes);
        kineto_text_put(&copy, "]", 1);
        size_t bytes = copy.bytes;
        kineto_text_put(&copy, padding, sizeof padding);
        status =
            copy.failed ? KJ_NOMEM : kj_events(job->json, copy.data, bytes, on_event, job, count);
    }
    kineto_text_clear(&copy);
    return status;
}

/* What may be an event inside of a damaged text: 1 when it was. */
static int on_found(void *ctx, struct kj_span text)
{
    struct job *job = ctx;
    size_t count = 0;
    job->only_phases = true;
    job->found = false;
    enum kj_result status = single(job, text, &count);
    job->only_phases = false;
    if (status == KJ_NOMEM)
        return kineto_no_memory(&job->kineto);
    return status == KJ_STOPPED ? job->kineto.code : job->found;
}

/* Searches a damaged text for whole events. */
static int on_damaged(void *ctx, const char *text, size_t bytes)
{
    return kineto_frame_search(text, bytes, on_found, ctx);
}

/* One element of a damaged window. Where a brace is missing it goes on to the end of the window,
 * and contains the events after it. */
static int on_single(void *ctx, struct kj_span text)
{
    struct job *job = ctx;
    size_t count = 0;
    if (job->skip) {
        job->skip--;
        return 0;
    }
    enum kj_result status = single(job, text, &count);
    if (status == KJ_NOMEM)
        return kineto_no_memory(&job->kineto);
    if (status == KJ_STOPPED)
        return job->kineto.code;
    if (count)
        return 0;
    job->kineto.loss[KINETO_LOSS_EVENT]++;
    return text.bytes > 1 ? on_damaged(job, text.text + 1, text.bytes - 1) : 0;
}

/* Parses one window. When simdjson refuses it, the events that it had not read are parsed one by
 * one. */
static int on_window(void *ctx, const char *text, size_t bytes)
{
    struct job *job = ctx;
    size_t count;
    if (__atomic_load_n(&job->stop, __ATOMIC_RELAXED))
        return job->kineto.code = TACHO_EINTERRUPTED;
    switch (kj_events(job->json, text, bytes, on_event, job, &count)) {
    case KJ_OK:
        return 0;
    case KJ_STOPPED:
        return job->kineto.code;
    case KJ_NOMEM:
        return kineto_no_memory(&job->kineto);
    default:
        job->skip = count;
        return kineto_frame_split(text, bytes, on_single, job);
    }
}

/* An event of a file that is not JSON. */
static int on_sourced(void *ctx, const struct kj_event *event)
{
    struct job *job = ctx;
    if (__atomic_load_n(&job->stop, __ATOMIC_RELAXED))
        return job->kineto.code = TACHO_EINTERRUPTED;
    return kineto_event(&job->kineto, event);
}

static int on_meta(void *ctx, struct kj_span key, struct kj_span value)
{
    return kineto_meta(&((struct job *)ctx)->kineto, key, value);
}

/* Opens the next piece of the trace in place of the one that was read. */
static int open_piece(struct job *job, const char *path)
{
    struct imp_input *in;
    int status = imp_input_open(path, &in, &job->error);
    if (status)
        return status;
    job->damaged |= imp_input_damaged(job->in);
    pthread_mutex_lock(&job->lock);
    job->passed += imp_input_position(job->in);
    imp_input_close(job->in);
    job->in = in;
    pthread_mutex_unlock(&job->lock);
    return 0;
}

/* Reads the file and the pieces that continue it. */
static int read_frames(struct job *job)
{
    const struct kineto_frame_sink sink = {
        .events = on_window, .damaged = on_damaged, .meta = on_meta, .ctx = job};
    struct kineto_frame_result *all = &job->frame, frame;
    int status = kineto_frame_read(job->in, &sink, all, &job->error);
    for (size_t i = 0; !status && job->dialect && i < job->run->pieces; i++) {
        status = open_piece(job, job->run->piece[i]);
        if (!status)
            status = kineto_frame_read(job->in, &sink, &frame, &job->error);
        if (status)
            break;
        all->truncated |= frame.truncated;
        all->partial_event |= frame.partial_event;
        all->more_behind |= frame.more_behind;
        all->too_large += frame.too_large;
    }
    return status;
}

/* The parser thread: reads the whole trace. */
static void *parse(void *ctx)
{
    struct job *job = ctx;
    job->kineto.batch = batch_take(job);
    int status = job->kineto.batch ? 0 : TACHO_ENOMEM;
    if (!status && job->dialect && job->dialect->source)
        status = job->dialect->source(job->dialect->ctx, job->in, on_sourced, job,
                                      &job->frame.truncated, &job->error);
    else if (!status)
        status = read_frames(job);
    if (!status)
        status = kineto_events_done(&job->kineto);
    if (job->kineto.batch)
        batch_give(job, job->kineto.batch);
    pthread_mutex_lock(&job->lock);
    job->code = status;
    job->done = true;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

/* ---- inserter -------------------------------------------------------------------------------------------------------------- */

/* Reports the bytes that were read since the last call. */
static int progress(struct job *job)
{
    pthread_mutex_lock(&job->lock);
    int64_t now = job->passed + imp_input_position(job->in), more = now - job->reported;
    pthread_mutex_unlock(&job->lock);
    job->reported = now;
    return imp_progress(job->run, more);
}

/* Takes batches until the parser is done. */
static int insert(struct job *job)
{
    int status = 0;
    bool done = false;
    while (!done) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&job->lock);
        if (!job->ready && !job->done)
            pthread_cond_timedwait(&job->changed, &job->lock, &until);
        struct kineto_batch *batch = job->ready;
        if (batch) {
            job->ready = batch->next;
            if (!job->ready)
                job->ready_end = &job->ready;
        }
        done = !batch && job->done;
        pthread_mutex_unlock(&job->lock);
        if (batch && !status && !job->run->salvage_only)
            status = kineto_insert(job->run->db, &job->ids, batch);
        if (!status)
            status = progress(job);
        pthread_mutex_lock(&job->lock);
        if (batch) {
            batch->next = job->spare;
            job->spare = batch;
        }
        if (status)
            __atomic_store_n(&job->stop, true, __ATOMIC_RELAXED);
        pthread_cond_broadcast(&job->changed);
        pthread_mutex_unlock(&job->lock);
    }
    return status;
}

/* ---- after the last row ------------------------------------------------------------------------------------------------------ */

/* Writes what is known of processes and tracks only at the end: rank, host, names. */
static int write_processes(struct job *job, int64_t rank)
{
    int status = 0;
    kineto_find_ranks(&job->kineto);
    for (size_t i = 0; !status && i < job->ids.process.count; i++) {
        const struct kineto_process *own = &job->kineto.process[i];
        struct store_process process = {.id = job->ids.process.id[i],
                                        .rank = own->rank == STORE_ABSENT ? rank : own->rank,
                                        .pid = own->pid,
                                        .parent_pid = STORE_ABSENT,
                                        .start = STORE_ABSENT,
                                        .end = STORE_ABSENT,
                                        .exit_status = STORE_ABSENT,
                                        .host = job->kineto.host,
                                        .program = kineto_process_name(&job->kineto, i)};
        status = store_process_update(job->run->db, &process);
    }
    for (size_t i = 0; !status && i < job->ids.track.count; i++) {
        const char *name = kineto_track_name(&job->kineto, i);
        if (name)
            status = store_track_rename(job->run->db, job->ids.track.id[i], name);
    }
    return status;
}

/* Writes a run key that lists the arguments of events that no rule knows. */
static int write_unknown_args(struct job *job)
{
    const struct store_intern *unknown = &job->kineto.unknown_args;
    struct kineto_text names = {0};
    char key[64];
    if (!unknown->count)
        return 0;
    for (size_t i = 0; i < unknown->count; i++) {
        kineto_text_puts(&names, i ? ", " : "");
        kineto_text_put(&names, unknown->arena + unknown->entry[i].offset, unknown->entry[i].bytes);
    }
    kineto_text_put(&names, "", 1);
    snprintf(key, sizeof key, "source.args_not_kept.%lld", (long long)job->run->file_index);
    int status = names.failed ? TACHO_ENOMEM : store_run_set(job->run->db, key, names.data);
    kineto_text_clear(&names);
    return status;
}

/* Writes the run keys: what the trace says of itself, and how its times were read. */
static int write_run(struct job *job)
{
    store *db = job->run->db;
    char key[192];
    int status = 0;
    for (size_t i = 0; !status && i < job->kineto.runs; i++) {
        const struct kineto_run_key *run_key = &job->kineto.run[i];
        if (run_key->key[0] == '@')
            snprintf(key, sizeof key, "device.%lld.%s", (long long)job->ids.process.id[0],
                     run_key->key + 1);
        else
            snprintf(key, sizeof key, "%s", run_key->key);
        status = store_run_set(db, key, run_key->value);
    }
    snprintf(key, sizeof key, job->run->file_index ? "source.base_ns.%lld" : "source.base_ns",
             (long long)job->run->file_index);
    if (!status)
        status = store_run_set_int(db, key, job->kineto.base_final);
    if (job->kineto.decimals > job->run->decimals || !job->run->file_index)
        job->run->decimals = job->kineto.decimals;
    if (!status)
        status = store_run_set_int(db, "source.decimals", job->run->decimals);
    if (!status && job->kineto.unit == 1)
        status = store_run_set(db, "source.time_unit", "ns");
    if (!status && job->kineto.rounded) {
        snprintf(key, sizeof key, "source.rounded.%lld", (long long)job->run->file_index);
        status = store_run_set_int(db, key, job->kineto.rounded);
    }
    return status ? status : write_unknown_args(job);
}

/* Writes a loss row for each reason that was counted. */
static int write_losses(struct job *job)
{
    static const char *const reasons[] = {
#define KINETO_LOSS_TEXT(name, reason) reason,
        KINETO_LOSS_MAP(KINETO_LOSS_TEXT)
#undef KINETO_LOSS_TEXT
    };
    int64_t *loss = job->kineto.loss;
    loss[KINETO_LOSS_TOO_LARGE] = job->frame.too_large;
    loss[KINETO_LOSS_PARTIAL] = job->frame.partial_event;
    loss[KINETO_LOSS_BEHIND] = job->frame.more_behind;
    loss[KINETO_LOSS_ENDS] = job->frame.truncated && !job->frame.partial_event;
    loss[KINETO_LOSS_DAMAGED] = job->damaged || imp_input_damaged(job->in);
    int status = 0;
    for (int i = 0; !status && i < KINETO_LOSS_COUNT; i++)
        if (loss[i])
            status = imp_loss(job->run, reasons[i], loss[i]);
    return status;
}

/* Drops a base that overflows when a time of the file is added to it. */
static void check_base(struct kineto *kineto)
{
    int64_t sum;
    if (__builtin_add_overflow(kineto->ts_max, kineto->base_final, &sum) ||
        __builtin_add_overflow(kineto->ts_min, kineto->base_final, &sum)) {
        kineto->loss[KINETO_LOSS_META]++;
        kineto->base_final = 0;
    }
}

/* Writes all that is known only after the last event, and corrects the base of the times. */
static int finish(struct job *job)
{
    int status = 0;
    check_base(&job->kineto);
    if (job->dialect && job->dialect->rank)
        job->kineto.rank = job->dialect->rank(job->dialect->ctx);
    job->run->world = job->kineto.world;
    if (!job->run->salvage_only && job->ids.process.count) {
        status = write_processes(job, imp_rank(job->run, job->kineto.rank));
        status = status ? status : write_run(job);
        if (!status && job->kineto.base_final != job->kineto.base)
            status = store_time_shift(job->run->db,
                                      job->ids.track.count ? job->ids.track.id[0] : INT64_MAX,
                                      job->kineto.base_final - job->kineto.base);
    }
    if (!status && job->dialect && job->dialect->finish && job->ids.process.count)
        status = job->dialect->finish(job->dialect->ctx, job->run, job->ids.process.id[0]);
    if (!status)
        status = write_losses(job);
    return status;
}

/* ---- the importer ------------------------------------------------------------------------------------------------------------ */

/* Frees everything. */
static void job_clear(struct job *job)
{
    struct kineto_batch *lists[] = {job->ready, job->spare};
    for (size_t i = 0; i < 2; i++)
        for (struct kineto_batch *batch = lists[i], *next; batch; batch = next) {
            next = batch->next;
            free(batch->def);
            kineto_text_clear(&batch->text);
            free(batch);
        }
    kineto_ids_clear(&job->ids);
    kineto_clear(&job->kineto);
    kj_free(job->json);
    imp_input_close(job->in);
    pthread_mutex_destroy(&job->lock);
    pthread_cond_destroy(&job->changed);
    free(job);
}

/* Says why a file of which nothing can be stored is no trace. */
static int no_event(const struct job *job, const char *path, struct tacho_error *err)
{
    const int64_t *loss = job->kineto.loss;
    if (job->frame.truncated)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: cut off before the first whole event", path);
    if (loss[KINETO_LOSS_PHASE])
        return tacho_fail(
            err, TACHO_ENOTSUP,
            "export complete events (ph X, or B with E), as prof.export_chrome_trace() of "
            "torch.profiler does",
            "%s: a trace of nothing but asynchronous events (ph b, n, e) or objects: %lld of "
            "them, and none says what a thread or device did",
            path, (long long)loss[KINETO_LOSS_PHASE]);
    const char *hint = "give a Kineto trace (torch.profiler, export_chrome_trace)";
    if (loss[KINETO_LOSS_EVENT])
        return tacho_fail(err, TACHO_EFORMAT, hint,
                          "%s: JSON, but not a trace: none of its %lld entries is an event", path,
                          (long long)loss[KINETO_LOSS_EVENT]);
    if (job->kineto.events)
        return tacho_fail(err, TACHO_EFORMAT,
                          "record while the program trains: with torch.profiler, call prof.step() "
                          "after each step of the schedule",
                          "%s: an empty trace: none of its %lld entries says when something ran",
                          path, (long long)job->kineto.events);
    return tacho_fail(err, TACHO_EFORMAT, hint,
                      "%s: JSON, but not a trace: it has no event in traceEvents", path);
}

/* Starts the parser and inserts until it is done. */
static int run_threads(struct job *job)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, parse, job))
        return TACHO_ENOMEM;
    int status = insert(job);
    pthread_join(thread, NULL);
    return status;
}

int kineto_read_as(struct imp_run *run, const char *path, const struct kineto_dialect *dialect,
                   struct tacho_error *err)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    job->run = run;
    job->dialect = dialect;
    job->ready_end = &job->ready;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    int status = kineto_init(&job->kineto, path);
    job->kineto.full = batch_full;
    job->kineto.ctx = job;
    job->json = status ? NULL : kj_new();
    if (!job->json)
        status = tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    if (!status && dialect && dialect->look)
        status = kineto_look_ahead(run, job->json, path, dialect, err);
    if (!status)
        status = imp_input_open(path, &job->in, err);
    if (!status) {
        if (!imp_input_is_gzip(job->in))
            kineto_guess_base(&job->kineto, path);
        status = store_begin(run->db);
        if (!status)
            status = run_threads(job);
        if (!status && job->code)
            status =
                job->error.code
                    ? tacho_fail(err, job->code, job->error.hint, "%s", job->error.what)
                    : tacho_fail(err, job->code, NULL, "%s: %s", path, tacho_error_text(job->code));
        bool none = !job->kineto.slices && !job->kineto.counters && !job->frame.too_large;
        if (!status && !none)
            status = finish(job);
        if (!status)
            status = store_commit(run->db);
        if (!status && none)
            status = no_event(job, path, err);
    }
    run->events += job->kineto.events;
    run->slices += job->kineto.slices;
    run->truncated |= job->frame.truncated;
    job_clear(job);
    return status;
}

/* Reads one trace; this is the `read` of the importer. */
static int kineto_read(struct imp_run *run, const char *path, struct tacho_error *err)
{
    return kineto_read_as(run, path, NULL, err);
}

/* The place of the first byte from `i` on that is no white space. */
static size_t skip_space(const unsigned char *head, size_t bytes, size_t i)
{
    while (i < bytes && (head[i] == ' ' || head[i] == '\n' || head[i] == '\r' || head[i] == '\t'))
        i++;
    return i;
}

/* Does a line of a log begin at `i`, after a bracket: with a time or a name, then more text? */
static bool is_line(const unsigned char *head, size_t bytes, size_t i)
{
    const unsigned char *close = memchr(head + i, ']', bytes - i);
    if (!close || strchr("{[]\"", head[i]))
        return false;
    size_t behind = (size_t)(close - head) + 1;
    while (behind < bytes && (head[behind] == ' ' || head[behind] == '\t'))
        behind++;
    return behind < bytes && !strchr("\r\n,]", head[behind]);
}

/* Does the text begin with a brace or bracket, after white space? */
static bool kineto_recognises(const unsigned char *head, size_t bytes)
{
    size_t i = skip_space(head, bytes, 0);
    if (i == bytes || head[i] != '[')
        return i < bytes && head[i] == '{';
    size_t inside = skip_space(head, bytes, i + 1);
    return inside == bytes || !is_line(head, bytes, inside);
}

const struct importer imp_kineto = {
    .source = "kineto", .recognises = kineto_recognises, .read = kineto_read};
