/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of Kineto traces: one thread reads, unpacks and parses, the calling thread inserts.
 * Between them at most BATCHES batches of rows (kineto_rows.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/import/input/input.h"
#include "store/import/kineto/kineto.h"
#include "store/import/kineto/kineto_frame.h"
#include "store/import/kineto/kineto_import.h"

#define BATCHES 6

/* Ids of the store by the parser's numbers. */
struct numbers {
    int64_t *id;
    size_t count, cap;
};

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
    int64_t reported;
    struct numbers string, detail, process, track;
    bool only_phases,
        found;   /* of a search in a damaged text: an object is an event when it has a phase */
    size_t skip; /* events of a window that were read before it turned out to be damaged */
};

/* ---- parser thread --------------------------------------------------------------------------------------------------------- */

static struct kineto_batch *batch_take(struct job *j)
{
    struct kineto_batch *batch = NULL;
    pthread_mutex_lock(&j->lock);
    while (!j->spare && j->batches == BATCHES && !j->stop)
        pthread_cond_wait(&j->changed, &j->lock);
    if (j->spare) {
        batch = j->spare;
        j->spare = batch->next;
    } else if (!j->stop && (batch = calloc(1, sizeof *batch))) {
        j->batches++;
    }
    pthread_mutex_unlock(&j->lock);
    if (batch) {
        batch->next = NULL;
        batch->slices = batch->counters = batch->defs = batch->text.n = 0;
    }
    return batch;
}

static void batch_give(struct job *j, struct kineto_batch *batch)
{
    pthread_mutex_lock(&j->lock);
    *j->ready_end = batch;
    j->ready_end = &batch->next;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
}

static int batch_full(struct kineto *kineto)
{
    struct job *j = kineto->ctx;
    batch_give(j, kineto->batch);
    kineto->batch = batch_take(j);
    if (!kineto->batch)
        return kineto->code =
                   __atomic_load_n(&j->stop, __ATOMIC_RELAXED) ? TACHO_EINTERRUPTED : TACHO_ENOMEM;
    return 0;
}

static int on_event(void *ctx, const struct kj_event *event)
{
    struct job *j = ctx;
    if (j->only_phases &&
        !kineto_is_string(event->field[KJ_PH])) /* {"name": ...} of some argument */
        return 0;
    j->found = true;
    return kineto_event(&j->kineto, event);
}

/* One event of a damaged text, from its own copy: as it is, then with its text repaired. */
static enum kj_result single(struct job *j, struct kj_span text, size_t *count)
{
    static const char padding[KJ_PADDING];
    struct kineto_text t = {0};
    enum kj_result rc = KJ_SHAPE;
    for (int repaired = 0; repaired < 2 && !*count && (rc == KJ_SHAPE || rc == KJ_TEXT);
         repaired++) {
        t.n = 0;
        kineto_text_put(&t, "[", 1);
        if (repaired)
            kineto_sanitise(&t, text.p, text.n);
        else
            kineto_text_put(&t, text.p, text.n);
        kineto_text_put(&t, "]", 1);
        size_t n = t.n;
        kineto_text_put(&t, padding, sizeof padding);
        rc = t.failed ? KJ_NOMEM : kj_events(j->json, t.p, n, on_event, j, count);
    }
    kineto_text_clear(&t);
    return rc;
}

/* What may be an event inside of a damaged text: 1 when it was. */
static int on_found(void *ctx, struct kj_span text)
{
    struct job *j = ctx;
    size_t count = 0;
    j->only_phases = true;
    j->found = false;
    enum kj_result rc = single(j, text, &count);
    j->only_phases = false;
    if (rc == KJ_NOMEM)
        return kineto_no_memory(&j->kineto);
    return rc == KJ_STOPPED ? j->kineto.code : j->found;
}

static int on_damaged(void *ctx, const char *text, size_t n)
{
    return kineto_frame_search(text, n, on_found, ctx);
}

/* One element of a damaged window. Where a brace is missing it goes on to the end of the window,
 * with the events behind it. */
static int on_single(void *ctx, struct kj_span text)
{
    struct job *j = ctx;
    size_t count = 0;
    if (j->skip) {
        j->skip--;
        return 0;
    }
    enum kj_result rc = single(j, text, &count);
    if (rc == KJ_NOMEM)
        return kineto_no_memory(&j->kineto);
    if (rc == KJ_STOPPED)
        return j->kineto.code;
    if (count)
        return 0;
    j->kineto.loss[KINETO_LOSS_EVENT]++;
    return text.n > 1 ? on_damaged(j, text.p + 1, text.n - 1) : 0;
}

static int on_window(void *ctx, const char *text, size_t n)
{
    struct job *j = ctx;
    size_t count;
    if (__atomic_load_n(&j->stop, __ATOMIC_RELAXED))
        return j->kineto.code = TACHO_EINTERRUPTED;
    switch (kj_events(j->json, text, n, on_event, j, &count)) {
    case KJ_OK:
        return 0;
    case KJ_STOPPED:
        return j->kineto.code;
    case KJ_NOMEM:
        return kineto_no_memory(&j->kineto);
    default:
        j->skip = count;
        return kineto_frame_split(text, n, on_single, j);
    }
}

static int on_meta(void *ctx, struct kj_span key, struct kj_span value)
{
    return kineto_meta(&((struct job *)ctx)->kineto, key, value);
}

static void *parse(void *ctx)
{
    struct job *j = ctx;
    const struct kineto_frame_sink sink = {
        .events = on_window, .damaged = on_damaged, .meta = on_meta, .ctx = j};
    j->kineto.batch = batch_take(j);
    int rc = j->kineto.batch ? kineto_frame_read(j->in, &sink, &j->frame, &j->error) : TACHO_ENOMEM;
    if (!rc)
        rc = kineto_events_done(&j->kineto);
    if (j->kineto.batch)
        batch_give(j, j->kineto.batch);
    pthread_mutex_lock(&j->lock);
    j->code = rc;
    j->done = true;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* ---- inserter -------------------------------------------------------------------------------------------------------------- */

static int numbers_add(struct numbers *numbers, int64_t id)
{
    if (numbers->count == numbers->cap) {
        size_t cap = numbers->cap ? 2 * numbers->cap : 256;
        int64_t *p = realloc(numbers->id, cap * sizeof *p);
        if (!p)
            return TACHO_ENOMEM;
        numbers->id = p;
        numbers->cap = cap;
    }
    numbers->id[numbers->count++] = id;
    return 0;
}

static int apply_string(struct job *j, const struct kineto_batch *batch,
                        const struct kineto_def *def)
{
    int64_t id;
    int rc = store_string(j->run->db, kineto_batch_at(batch, def->text), def->bytes, &id);
    return rc ? rc : numbers_add(&j->string, id);
}

static int apply_detail(struct job *j, const struct kineto_batch *batch,
                        const struct kineto_def *def)
{
    int64_t id;
    struct store_detail detail = def->detail;
    const char **const texts[] = {&detail.dtype,  &detail.pass,       &detail.kind,
                                  &detail.schema, &detail.collective, &detail.copy_kind,
                                  &detail.grid,   &detail.block,      &detail.payload};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = kineto_batch_at(batch, def->detail_text[i]);
    int rc = store_detail_intern(j->run->db, &detail, &id);
    return rc ? rc : numbers_add(&j->detail, id);
}

static int process_add(struct job *j, int64_t pid)
{
    struct store_process process = {.rank = STORE_ABSENT,
                                    .pid = pid,
                                    .parent_pid = STORE_ABSENT,
                                    .start = STORE_ABSENT,
                                    .end = STORE_ABSENT,
                                    .exit_status = STORE_ABSENT};
    int rc = store_process_add(j->run->db, &process);
    return rc ? rc : numbers_add(&j->process, process.id);
}

static int apply_track(struct job *j, const struct kineto_batch *batch,
                       const struct kineto_def *def)
{
    struct store_track track = {.process = j->process.id[def->process],
                                .tid = def->id,
                                .kind = def->track_kind,
                                .name = kineto_batch_at(batch, def->text),
                                .device = def->device[0] ? def->device : NULL,
                                .unit = def->unit};
    int rc = store_track_add(j->run->db, &track);
    return rc ? rc : numbers_add(&j->track, track.id);
}

static int apply_def(struct job *j, const struct kineto_batch *batch, const struct kineto_def *def)
{
    switch (def->kind) {
    case KINETO_DEF_STRING:
        return apply_string(j, batch, def);
    case KINETO_DEF_DETAIL:
        return apply_detail(j, batch, def);
    case KINETO_DEF_PROCESS:
        return process_add(j, def->id);
    case KINETO_DEF_TRACK:
        return apply_track(j, batch, def);
    }
    return TACHO_EINTERNAL;
}

static int apply(struct job *j, const struct kineto_batch *batch)
{
    store *db = j->run->db;
    int rc = 0;
    if (!j->process.count && batch->defs)
        rc = process_add(j, STORE_ABSENT); /* the main process; its pid is known at the end */
    for (size_t i = 0; !rc && i < batch->defs; i++)
        rc = apply_def(j, batch, &batch->def[i]);
    for (size_t i = 0; !rc && i < batch->slices; i++) {
        const struct kineto_slice *slice = &batch->slice[i];
        struct store_slice x = {
            .track = j->track.id[slice->track],
            .start = slice->start,
            .dur = slice->dur,
            .name = j->string.id[slice->name],
            .category = j->string.id[slice->category],
            .detail = slice->detail == KINETO_NONE ? STORE_ABSENT : j->detail.id[slice->detail],
            .correlation = slice->correlation};
        rc = store_slice_add(db, &x);
    }
    for (size_t i = 0; !rc && i < batch->counters; i++) {
        const struct kineto_counter *counter = &batch->counter[i];
        struct store_counter x = {
            .track = j->track.id[counter->track], .time = counter->time, .value = counter->value};
        rc = store_counter_add(db, &x);
    }
    return rc;
}

static int progress(struct job *j)
{
    int64_t now = imp_input_position(j->in), more = now - j->reported;
    j->reported = now;
    return imp_progress(j->run, more);
}

/* Takes batches until the parser is done. */
static int insert(struct job *j)
{
    int rc = 0;
    bool done = false;
    while (!done) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&j->lock);
        if (!j->ready && !j->done)
            pthread_cond_timedwait(&j->changed, &j->lock, &until);
        struct kineto_batch *batch = j->ready;
        if (batch) {
            j->ready = batch->next;
            if (!j->ready)
                j->ready_end = &j->ready;
        }
        done = !batch && j->done;
        pthread_mutex_unlock(&j->lock);
        if (batch && !rc && !j->run->salvage_only)
            rc = apply(j, batch);
        if (!rc)
            rc = progress(j);
        pthread_mutex_lock(&j->lock);
        if (batch) {
            batch->next = j->spare;
            j->spare = batch;
        }
        if (rc)
            __atomic_store_n(&j->stop, true, __ATOMIC_RELAXED);
        pthread_cond_broadcast(&j->changed);
        pthread_mutex_unlock(&j->lock);
    }
    return rc;
}

/* ---- after the last row ------------------------------------------------------------------------------------------------------ */

static int write_processes(struct job *j, int64_t rank)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < j->process.count; i++) {
        struct store_process process = {.id = j->process.id[i],
                                        .rank = rank,
                                        .pid = j->kineto.process[i].pid,
                                        .parent_pid = STORE_ABSENT,
                                        .start = STORE_ABSENT,
                                        .end = STORE_ABSENT,
                                        .exit_status = STORE_ABSENT,
                                        .host = j->kineto.host,
                                        .program = kineto_process_name(&j->kineto, i)};
        rc = store_process_update(j->run->db, &process);
    }
    for (size_t i = 0; !rc && i < j->track.count; i++) {
        const char *name = kineto_track_name(&j->kineto, i);
        if (name)
            rc = store_track_rename(j->run->db, j->track.id[i], name);
    }
    return rc;
}

static int write_run(struct job *j)
{
    store *db = j->run->db;
    char key[192];
    int rc = 0;
    for (size_t i = 0; !rc && i < j->kineto.runs; i++) {
        const struct kineto_run_key *run_key = &j->kineto.run[i];
        if (run_key->key[0] == '@')
            snprintf(key, sizeof key, "device.%lld.%s", (long long)j->process.id[0],
                     run_key->key + 1);
        else
            snprintf(key, sizeof key, "%s", run_key->key);
        rc = store_run_set(db, key, run_key->value);
    }
    snprintf(key, sizeof key, j->run->file_index ? "source.base_ns.%lld" : "source.base_ns",
             (long long)j->run->file_index);
    if (!rc)
        rc = store_run_set_int(db, key, j->kineto.base_final);
    if (j->kineto.decimals > j->run->decimals || !j->run->file_index)
        j->run->decimals = j->kineto.decimals;
    if (!rc)
        rc = store_run_set_int(db, "source.decimals", j->run->decimals);
    if (!rc && j->kineto.unit == 1)
        rc = store_run_set(db, "source.time_unit", "ns");
    if (!rc && j->kineto.rounded) {
        snprintf(key, sizeof key, "source.rounded.%lld", (long long)j->run->file_index);
        rc = store_run_set_int(db, key, j->kineto.rounded);
    }
    if (!rc && j->kineto.unknown_args.count) {
        struct kineto_text names = {0};
        for (size_t i = 0; i < j->kineto.unknown_args.count; i++) {
            const struct store_intern_entry *intern_entry = &j->kineto.unknown_args.entry[i];
            kineto_text_puts(&names, i ? ", " : "");
            kineto_text_put(&names, j->kineto.unknown_args.arena + intern_entry->offset,
                            intern_entry->bytes);
        }
        kineto_text_put(&names, "", 1);
        snprintf(key, sizeof key, "source.args_not_kept.%lld", (long long)j->run->file_index);
        rc = names.failed ? TACHO_ENOMEM : store_run_set(db, key, names.p);
        kineto_text_clear(&names);
    }
    return rc;
}

static int write_losses(struct job *j)
{
    static const char *const reasons[] = {
#define KINETO_LOSS_TEXT(name, reason) reason,
        KINETO_LOSS_MAP(KINETO_LOSS_TEXT)
#undef KINETO_LOSS_TEXT
    };
    int64_t *loss = j->kineto.loss;
    loss[KINETO_LOSS_TOO_LARGE] = j->frame.too_large;
    loss[KINETO_LOSS_PARTIAL] = j->frame.partial_event;
    loss[KINETO_LOSS_BEHIND] = j->frame.more_behind;
    loss[KINETO_LOSS_ENDS] = j->frame.truncated && !j->frame.partial_event;
    loss[KINETO_LOSS_DAMAGED] = imp_input_damaged(j->in);
    int rc = 0;
    for (int i = 0; !rc && i < KINETO_LOSS_COUNT; i++)
        if (loss[i])
            rc = imp_loss(j->run, reasons[i], loss[i]);
    return rc;
}

/* A base that no time of the file can be added to is none. */
static void check_base(struct kineto *kineto)
{
    int64_t sum;
    if (__builtin_add_overflow(kineto->ts_max, kineto->base_final, &sum) ||
        __builtin_add_overflow(kineto->ts_min, kineto->base_final, &sum)) {
        kineto->loss[KINETO_LOSS_META]++;
        kineto->base_final = 0;
    }
}

static int finish(struct job *j)
{
    int rc = 0;
    check_base(&j->kineto);
    if (!j->run->salvage_only && j->process.count) {
        rc = write_processes(j, imp_rank(j->run, j->kineto.rank));
        if (!rc)
            rc = write_run(j);
        if (!rc && j->kineto.base_final != j->kineto.base)
            rc = store_time_shift(j->run->db, j->track.count ? j->track.id[0] : INT64_MAX,
                                  j->kineto.base_final - j->kineto.base);
    }
    if (!rc)
        rc = write_losses(j);
    return rc;
}

/* ---- the importer ------------------------------------------------------------------------------------------------------------ */

/* The base of the times may stand behind the last event, and times are stored with it. The end of a
 * plain file can be looked at first; what is found there is only a guess, which the whole file
 * confirms or corrects. */
static void guess_base(struct job *j, const char *path)
{
    static const char key[] = "\"baseTimeNanoseconds\"";
    char text[4097];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (int end = 0; end < 2; end++) {
        off_t at = end && !fstat(fd, &st) && st.st_size > (off_t)sizeof text - 1
                       ? st.st_size - ((off_t)sizeof text - 1)
                       : 0;
        ssize_t n = pread(fd, text, sizeof text - 1, at);
        text[n > 0 ? n : 0] = 0;
        const char *p = strstr(text, key);
        if (p && (p = strchr(p + sizeof key - 1, ':'))) {
            p += 1 + strspn(p + 1, " \t\r\n");
            kineto_int((struct kj_span){p, strspn(p, "0123456789")}, &j->kineto.base);
            if (j->kineto.base >= 0 && j->kineto.base < INT64_C(4000000000000000000))
                j->kineto.base_guessed = true;
            else
                j->kineto.base = 0;
        }
    }
    close(fd);
}

static void job_clear(struct job *j)
{
    struct kineto_batch *lists[] = {j->ready, j->spare};
    for (size_t i = 0; i < 2; i++)
        for (struct kineto_batch *batch = lists[i], *next; batch; batch = next) {
            next = batch->next;
            free(batch->def);
            kineto_text_clear(&batch->text);
            free(batch);
        }
    free(j->string.id);
    free(j->detail.id);
    free(j->process.id);
    free(j->track.id);
    kineto_clear(&j->kineto);
    kj_free(j->json);
    imp_input_close(j->in);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->changed);
    free(j);
}

static int no_event(const struct job *j, const char *path, struct tacho_error *err)
{
    if (j->frame.truncated)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: cut off before the first whole event", path);
    const char *hint = "give a Kineto trace (torch.profiler, export_chrome_trace)";
    if (j->kineto.loss[KINETO_LOSS_EVENT])
        return tacho_fail(err, TACHO_EFORMAT, hint,
                          "%s: JSON, but not a trace: none of its %lld entries is an event", path,
                          (long long)j->kineto.loss[KINETO_LOSS_EVENT]);
    return tacho_fail(err, TACHO_EFORMAT, hint,
                      "%s: JSON, but not a trace: it has no event in traceEvents", path);
}

static int run_threads(struct job *j)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, parse, j))
        return TACHO_ENOMEM;
    int rc = insert(j);
    pthread_join(thread, NULL);
    return rc;
}

static int kineto_read(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    j->run = run;
    j->ready_end = &j->ready;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->changed, NULL);
    int rc = kineto_init(&j->kineto, path);
    j->kineto.full = batch_full;
    j->kineto.ctx = j;
    j->json = rc ? NULL : kj_new();
    if (!j->json)
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    if (!rc)
        rc = imp_input_open(path, &j->in, err);
    if (!rc) {
        if (!imp_input_is_gzip(j->in))
            guess_base(j, path);
        rc = store_begin(run->db);
        if (!rc)
            rc = run_threads(j);
        if (!rc && j->code)
            rc = j->error.code
                     ? tacho_fail(err, j->code, j->error.hint, "%s", j->error.what)
                     : tacho_fail(err, j->code, NULL, "%s: %s", path, tacho_error_text(j->code));
        bool none = !j->kineto.events && !j->frame.too_large;
        if (!rc && !none)
            rc = finish(j);
        if (!rc)
            rc = store_commit(run->db);
        if (!rc && none)
            rc = no_event(j, path, err);
    }
    run->events += j->kineto.events;
    run->slices += j->kineto.slices;
    run->truncated |= j->frame.truncated;
    job_clear(j);
    return rc;
}

static bool kineto_recognises(const unsigned char *head, size_t n)
{
    size_t i = n >= 3 && !memcmp(head, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (i < n && (head[i] == ' ' || head[i] == '\n' || head[i] == '\r' || head[i] == '\t'))
        i++;
    return i < n && (head[i] == '{' || head[i] == '[');
}

const struct importer imp_kineto = {
    .source = "kineto", .recognises = kineto_recognises, .read = kineto_read};
