/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/run/session.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/run/describe.h"

#define RETRY_NS  1000000000
#define SETUP_KEY "setup"

/* What the collector that takes over must know. */
struct saved_setup {
    char boot_id[40];
    struct col_volume volume;
    int64_t started;
    char run_id[COL_RUN_ID];
};

/* With 0, 1 or 2 closed, a file of ours would get that number, and a message written to it. The
 * target sees them closed as before. */
static void hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0) {
            int null = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (null >= 0 && null != fd) {
                dup3(null, fd, O_CLOEXEC);
                close(null);
            }
        }
}

void col_session_init(struct col_session *s, const struct col_options *o, struct col_result *r)
{
    memset(s, 0, sizeof *s);
    memset(r, 0, sizeof *r);
    hold_standard_descriptors();
    s->options = o;
    s->result = r;
    col_live_init(&s->live);
    s->drain.folder = -1;
    s->signals.fd = -1;
    s->peers_poll = -1;
    col_peers_init(&s->peers);
    s->terminal_session = getsid(0);
    getrusage(RUSAGE_SELF, &s->own_usage);
}

static void put_line(struct col_session *s, const char *format, va_list ap)
{
    char line[1024];
    vsnprintf(line, sizeof line - 1, format, ap);
    size_t n = strlen(line);
    line[n++] = '\n';
    col_buffer_put(&s->warnings, line, n);
}

void col_session_warn(struct col_session *s, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    put_line(s, format, ap);
    va_end(ap);
}

void col_session_message(struct col_session *s, const char *format, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (s->options->message)
        s->options->message(s->options->message_ctx, line);
}

int col_session_store_error(struct col_session *s, int rc, struct tacho_error *err)
{
    const struct tacho_error *e = s->db ? store_error(s->db) : NULL;
    if (e && e->code == rc) {
        if (err)
            *err = *e;
        return rc;
    }
    return tacho_fail(err, rc,
                      rc == TACHO_ENOSPACE ? "make room, or choose another folder with -o" : NULL,
                      "%s: %s", s->live.db, tacho_error_text(rc));
}

/* ---- opening --------------------------------------------------------------------------------------------------------------- */

static struct col_volume volume_of(const struct col_options *o)
{
    return (struct col_volume){
        .from = o->steps_from, .to = o->steps_to, .every = o->every, .max_bytes = o->max_bytes};
}

int col_session_create(struct col_session *s, struct tacho_error *err)
{
    int rc = store_create(s->live.db, &s->db, err);
    if (rc)
        return rc;
    rc = col_drain_open(&s->drain, s->db, s->live.pools, err);
    s->drain.volume = volume_of(s->options);
    return rc;
}

int col_session_save_setup(struct col_session *s)
{
    struct saved_setup x = {.volume = volume_of(s->options), .started = col_clock_now()};
    memcpy(x.run_id, s->live.run_id, sizeof x.run_id);
    col_read_boot_id(x.boot_id, sizeof x.boot_id);
    return store_live_set(s->db, SETUP_KEY, &x, sizeof x);
}

struct setup_search {
    struct saved_setup setup;
    bool found;
};

static int find_setup(void *ctx, const char *key, const void *value, size_t bytes)
{
    struct setup_search *x = ctx;
    if (strcmp(key, SETUP_KEY) != 0 || bytes != sizeof x->setup)
        return 0;
    memcpy(&x->setup, value, sizeof x->setup);
    x->found = true;
    return 0;
}

/* Drain and store as of the last commit. */
static int load(struct col_session *s, struct tacho_error *err)
{
    struct setup_search x = {0};
    char boot[40];
    int rc = store_resume(s->live.db, &s->db, err);
    if (rc)
        return rc;
    rc = store_live_each(s->db, find_setup, &x);
    if (rc)
        return col_session_store_error(s, rc, err);
    if (!x.found)
        return tacho_fail(err, TACHO_EFORMAT,
                          "use the tacho that recorded it, or remove the folder if nothing ran",
                          "%s: the run had not begun, or was recorded by another build of tacho",
                          s->live.folder);
    col_read_boot_id(boot, sizeof boot);
    bool other_boot = strcmp(boot, x.setup.boot_id) != 0;
    memcpy(s->live.run_id, x.setup.run_id, sizeof s->live.run_id);
    rc = col_live_open_segments(&s->live, other_boot, err);
    if (rc == 0)
        rc = col_drain_open(&s->drain, s->db, s->live.pools, err);
    if (rc)
        return rc;
    s->drain.volume = x.setup.volume;
    s->drain.other_boot = other_boot;
    if (!s->started)
        s->started = x.setup.started;
    return col_drain_load(&s->drain, err);
}

int col_session_resume(struct col_session *s, struct tacho_error *err)
{
    return load(s, err);
}

/* ---- a store that fails -------------------------------------------------------------------------------------------------------- */

static void drop(struct col_session *s)
{
    col_drain_close(&s->drain);
    store_close(s->db);
    s->db = NULL;
    if (s->system)
        col_system_reset(s->system);
    if (s->perf)
        col_perf_reset(s->perf);
    if (s->stacks)
        col_stacks_reset(s->stacks);
    if (s->nvml)
        col_nvml_reset(s->nvml);
}

/* What happened to processes while the state was thrown away: an end that had been noted but not
 * committed is noted again. */
static void note_child_again(struct col_session *s)
{
    struct col_process *again = NULL;
    bool known = s->child == 0;
    for (uint32_t i = 0; i < s->drain.process_count; i++)
        known |= s->drain.process[i]->pid == (int32_t)s->child;
    if (!known)
        col_drain_process(&s->drain, (int32_t)s->child, s->started, NULL, &again);
    if (!s->child_done)
        return;
    for (uint32_t i = 0; i < s->drain.process_count; i++) {
        struct col_process *x = s->drain.process[i];
        if (x->pid == (int32_t)s->child && !x->ended[0])
            col_process_ended(x, s->ended_at, s->result->exit_code,
                              s->result->exit_code > 128 ? s->result->ended : "exit");
    }
}

static bool reload(struct col_session *s)
{
    drop(s);
    int rc = load(s, &s->failure_words);
    if (rc == 0) {
        s->drain.volume.no_space = s->drain.volume.no_detail = s->failure == TACHO_ENOSPACE;
        rc = col_drain_commit(&s->drain);
        note_child_again(s);
    }
    if (rc == 0)
        return true;
    s->failure = rc;
    drop(s);
    return false;
}

void col_session_failed(struct col_session *s, int rc)
{
    s->failure = rc;
    col_session_store_error(s, rc, &s->failure_words);
    if (rc == TACHO_ENOSPACE && !s->reserve_used) {
        s->reserve_used = true;
        col_live_use_reserve(&s->live);
        if (!s->told_stalled)
            col_session_message(s,
                                "%s: no space left on device: only totals are stored from here on",
                                s->live.folder);
        s->told_stalled = true;
    }
    bool again = s->drain.volume.no_space; /* even without detail it does not fit */
    if (!reload(s) || again) {
        s->stalled = true;
        s->next_retry = col_clock_now() + RETRY_NS;
        drop(s);
    }
}

bool col_session_retry(struct col_session *s)
{
    if (!s->stalled)
        return true;
    int64_t now = col_clock_now();
    if (now < s->next_retry && !s->stop)
        return false;
    s->next_retry = now + RETRY_NS;
    s->stalled = !reload(s);
    return !s->stalled;
}

int col_session_note_gap(struct col_session *s)
{
    int rc = store_run_set_int(s->db, "recovered", 1);
    return rc ? rc
              : col_drain_loss(&s->drain, "system", "not sampled: the collector was gone",
                               STORE_ABSENT, s->gap_from, s->gap_to ? s->gap_to : s->ended_at);
}

/* ---- finishing ----------------------------------------------------------------------------------------------------------------- */

static int last_rounds(struct col_session *s)
{
    bool more = true;
    int rc = 0;
    while (more && rc == 0)
        if ((rc = col_drain_round(&s->drain, &more)) == 0)
            rc = col_drain_commit(&s->drain);
    return rc ? rc : col_drain_end(&s->drain);
}

static int write_last(struct col_session *s, int (*last_words)(struct col_session *s))
{
    int rc = col_drain_begin(&s->drain);
    if (rc == 0 && last_words)
        rc = last_words(s);
    if (rc == 0)
        rc = store_run_set(s->db, "ended", s->result->ended);
    if (rc == 0)
        rc = store_run_set_int(s->db, "end.monotonic_ns",
                               s->ended_at ? s->ended_at : col_clock_now());
    if (rc == 0)
        rc = store_run_set_int(s->db, "ranges_without_end", s->drain.stats.ranges_without_end);
    if (rc == 0)
        rc = store_run_set_int(s->db, "ends_without_start", s->drain.stats.ends_without_start);
    if (rc == 0)
        rc = store_run_set(s->db, "segments", NULL);
    if (rc == 0)
        rc = store_run_set(s->db, "collector.pid", NULL);
    return rc ? rc : col_drain_commit(&s->drain);
}

static void note_statistics(struct col_session *s)
{
    struct col_result *r = s->result;
    const struct col_stats *t = &s->drain.stats;
    r->records = t->records;
    r->slices = t->slices;
    r->counters = t->counters;
    r->steps = t->steps;
    r->lost = t->lost;
    r->cut = t->cut;
    r->threads = t->threads;
    r->processes = 0;
    for (uint32_t i = 0; i < s->drain.process_count; i++)
        r->processes += s->drain.process[i]->has_pool;
    r->seconds = (double)((s->ended_at ? s->ended_at : col_clock_now()) - s->started) / 1e9;
}

static int finish_once(struct col_session *s, int (*last_words)(struct col_session *s),
                       struct tacho_error *err)
{
    int rc = last_rounds(s);
    if (rc == 0)
        rc = write_last(s, last_words);
    if (rc) {
        col_session_store_error(s, rc, err);
        return rc;
    }
    note_statistics(s);
    col_live_use_reserve(&s->live);
    store *db = s->db;
    s->db = NULL;
    col_drain_close(&s->drain);
    return store_finish(db, err);
}

int col_session_finish(struct col_session *s, int (*last_words)(struct col_session *s),
                       struct tacho_error *err)
{
    int rc = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (s->stalled || !s->db) {
            s->next_retry = 0;
            s->stalled = true;
            if (!col_session_retry(s)) {
                rc = s->failure;
                if (err)
                    *err = s->failure_words;
                continue;
            }
        }
        rc = finish_once(s, last_words, err);
        if (rc == 0)
            break;
        if (s->db)
            col_session_failed(s, rc);
        else
            s->failure = rc;
    }
    if (rc == 0)
        rc = col_live_publish(&s->live, s->result->path, err);
    if (rc == 0) {
        if (s->live.left)
            col_session_warn(s, "%s: left: not all in it is tacho's", s->live.folder);
        s->result->finished = true;
        return 0;
    }
    snprintf(s->result->path, sizeof s->result->path, "%s", s->live.folder);
    if (err && !err->hint[0])
        snprintf(err->hint, sizeof err->hint,
                 "what was recorded is in %.150s: 'tacho recover' finishes it", s->live.folder);
    return rc;
}

void col_session_discard(struct col_session *s)
{
    drop(s);
    col_live_remove(&s->live);
}

static double cpu_seconds(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

void col_session_free(struct col_session *s)
{
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    s->result->collector_cpu_seconds = cpu_seconds(&now) - cpu_seconds(&s->own_usage);
    col_system_close(s->system);
    col_perf_close(s->perf);
    col_stacks_close(s->stacks);
    s->stacks = NULL;
    col_nvml_close(s->nvml);
    s->nvml = NULL;
    s->system = NULL;
    s->perf = NULL;
    if (s->drain.cache)
        col_drain_close(&s->drain);
    store_close(s->db);
    s->db = NULL;
    col_live_leave(&s->live);
    col_peers_close(&s->peers);
    if (s->peers_poll >= 0)
        close(s->peers_poll);
    s->peers_poll = -1;
    col_buffer_put(&s->warnings, "", 1);
    s->result->warnings = s->warnings.failed ? NULL : (char *)s->warnings.bytes;
    s->warnings = (struct col_buffer){0};
}

void col_result_clear(struct col_result *r)
{
    free(r->warnings);
    r->warnings = NULL;
}
