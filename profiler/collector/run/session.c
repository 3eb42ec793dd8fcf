/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as an object: opening it anew or from what another collector left, messages and warnings,
 * what happens when the store fails, and the end (last rounds, finish, publish).
 *
 * When a write fails, what is in memory no longer matches the file. The session then throws the
 * drain away, closes the store and loads what was committed last. Nothing is lost by that, because
 * segments are given back to the agent only after a commit.
 */
#include "profiler/collector/run/session.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/machine.h"
#include "profiler/collector/run/describe.h"

#define RETRY_NS      1000000000
#define SETUP_KEY     "setup"
#define LAST_TRIES    20
#define LAST_TRIES_MS 50

/* What a collector that takes over must know. */
struct saved_setup {
    char boot_id[40];
    struct col_volume volume;
    int64_t started;
    char run_id[COL_RUN_ID];
};

/* Opens /dev/null as 0, 1 and 2 where these are closed: otherwise a file of the run would get that
 * number and receive messages. For the target they stay closed. */
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

void col_session_init(struct col_session *session, const struct col_options *options,
                      struct col_result *result)
{
    memset(session, 0, sizeof *session);
    memset(result, 0, sizeof *result);
    hold_standard_descriptors();
    session->options = options;
    session->result = result;
    col_live_init(&session->live);
    session->drain.folder = -1;
    session->signals.fd = -1;
    session->peers_poll = -1;
    col_lender_init(&session->lender);
    col_peers_init(&session->peers);
    session->terminal_session = getsid(0);
    getrusage(RUSAGE_SELF, &session->own_usage);
}

/* Warnings are collected as lines and given to the caller with the result. */
static void put_line(struct col_session *session, const char *format, va_list arguments)
{
    char line[1024];
    vsnprintf(line, sizeof line - 1, format, arguments);
    size_t length = strlen(line);
    line[length++] = '\n';
    col_buffer_put(&session->warnings, line, length);
}

void col_session_warn(struct col_session *session, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(session, format, arguments);
    va_end(arguments);
}

void col_session_message(struct col_session *session, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (session->options->message)
        session->options->message(session->options->message_ctx, line);
}

/* The store's own message is used if it is about this error. */
int col_session_store_error(struct col_session *session, int rc, struct tacho_error *err)
{
    const struct tacho_error *last = session->db ? store_error(session->db) : NULL;
    if (last && last->code == rc) {
        if (err)
            *err = *last;
        return rc;
    }
    return tacho_fail(err, rc,
                      rc == TACHO_ENOSPACE ? "make room, or choose another folder with -o" : NULL,
                      "%s: %s", session->live.db, tacho_error_text(rc));
}

/* ---- opening --------------------------------------------------------------------------------------------------------------- */

static struct col_volume volume_of(const struct col_options *options)
{
    return (struct col_volume){.from = options->steps_from,
                               .to = options->steps_to,
                               .every = options->every,
                               .max_bytes = options->max_bytes};
}

/* The drain holds a descriptor of the folder of the pools, so that a name that is replaced later
 * does not redirect it. */
int col_session_create(struct col_session *session, struct tacho_error *err)
{
    int rc = store_create_at(session->live.home, session->live.db, &session->db, err);
    if (rc)
        return rc;
    rc = col_drain_open(&session->drain, session->db, session->live.pools, err);
    session->drain.volume = volume_of(session->options);
    if (rc == 0 && session->drain.volume.max_bytes > 0)
        rc = store_limit_wal(session->db, session->drain.volume.max_bytes);
    return rc;
}

void col_session_open_samplers(struct col_session *session)
{
    if (session->options->python_hz > 0)
        session->python =
            col_python_samples_open(session->options->python_hz, session->options->python_asked);
    if (session->options->sample_ms <= 0)
        return;
    static const struct col_health_roots roots = {"/sys", "/proc", "/dev/kmsg"};
    col_system_open(&session->system);
    session->health = col_health_open(&roots);
    if (session->options->gpu != COL_GPU_OFF)
        session->nvml = col_nvml_open(session->options->sample_ms);
}

int col_session_save_setup(struct col_session *session)
{
    struct saved_setup setup = {.volume = volume_of(session->options), .started = col_clock_now()};
    memcpy(setup.run_id, session->live.run_id, sizeof setup.run_id);
    col_read_boot_id(setup.boot_id, sizeof setup.boot_id);
    return store_live_set(session->db, SETUP_KEY, &setup, sizeof setup);
}

struct setup_search {
    struct saved_setup setup;
    bool found;
};

/* Finds the saved setup among the live state. */
static int find_setup(void *ctx, const char *key, const void *value, size_t bytes)
{
    struct setup_search *search = ctx;
    if (strcmp(key, SETUP_KEY) != 0 || bytes != sizeof search->setup)
        return 0;
    memcpy(&search->setup, value, sizeof search->setup);
    search->found = true;
    return 0;
}

/* Opens store and drain as of the last commit. */
static int load(struct col_session *session, struct tacho_error *err)
{
    struct setup_search search = {0};
    char boot[40];
    int rc = store_resume_at(session->live.home, session->live.db, &session->db, err);
    if (rc)
        return rc;
    rc = store_live_each(session->db, SETUP_KEY, find_setup, &search);
    if (rc)
        return col_session_store_error(session, rc, err);
    if (!search.found)
        return tacho_fail(err, TACHO_EFORMAT,
                          "use the tacho that recorded it, or remove the folder if nothing ran",
                          "%s: the run had not begun, or was recorded by another build of tacho",
                          session->live.folder);
    col_read_boot_id(boot, sizeof boot);
    bool other_boot = strcmp(boot, search.setup.boot_id) != 0;
    memcpy(session->live.run_id, search.setup.run_id, sizeof session->live.run_id);
    rc = col_live_open_segments(&session->live, other_boot, err);
    if (rc == 0)
        rc = col_drain_open(&session->drain, session->db, session->live.pools, err);
    if (rc)
        return rc;
    session->drain.volume = search.setup.volume;
    session->drain.other_boot = other_boot;
    if (session->drain.volume.max_bytes > 0)
        rc = store_limit_wal(session->db, session->drain.volume.max_bytes);
    if (rc)
        return col_session_store_error(session, rc, err);
    if (!session->started)
        session->started = search.setup.started;
    return col_drain_load(&session->drain, session->live.folder, err);
}

int col_session_resume(struct col_session *session, struct tacho_error *err)
{
    return load(session, err);
}

/* ---- a store that fails -------------------------------------------------------------------------------------------------------- */

/* Closes store and drain without a commit; the samplers forget their tracks. */
static void drop(struct col_session *session)
{
    col_drain_close(&session->drain);
    store_close(session->db);
    session->db = NULL;
    if (session->system)
        col_system_reset(session->system);
    if (session->perf)
        col_perf_reset(session->perf);
    if (session->stacks)
        col_stacks_reset(session->stacks);
    if (session->python)
        col_python_samples_reset(session->python);
    if (session->nvml)
        col_nvml_reset(session->nvml);
    if (session->health)
        col_health_reset(session->health);
}

/* Repeats what was known about the child but not committed: its row, and how it ended. */
static void note_child_again(struct col_session *session)
{
    struct col_process *again;
    int32_t child = (int32_t)session->child;
    if (child && !col_process_of(&session->drain, child))
        col_drain_process(&session->drain, child, session->started, NULL, &again);
    if (!session->child_done)
        return;
    for (uint32_t i = 0; i < session->drain.process_count; i++) {
        struct col_process *process = session->drain.process[i];
        if (process->pid == child && !process->ended[0])
            col_process_ended(process, session->ended_at, session->result->exit_code,
                              session->result->exit_code > 128 ? session->result->ended : "exit");
    }
}

/* Goes back to the last commit. False where that fails too; then store and drain are closed. */
static bool reload(struct col_session *session)
{
    drop(session);
    int rc = load(session, &session->failure_words);
    if (rc == 0) {
        session->drain.volume.no_space = session->drain.volume.no_detail =
            session->failure == TACHO_ENOSPACE;
        rc = col_drain_commit(&session->drain);
        note_child_again(session);
    }
    if (rc == 0)
        return true;
    session->failure = rc;
    drop(session);
    return false;
}

void col_session_unsampled(struct col_session *session)
{
    bool is_sampled = session->system || session->stacks || session->python;
    if (is_sampled && session->db && !session->unsampled_from)
        session->unsampled_from = session->drain.last_commit;
}

int col_session_note_unsampled(struct col_session *session)
{
    if (!session->unsampled_from)
        return 0;
    return col_drain_loss(&session->drain, "system",
                          "not sampled: the store had no room or could not be written",
                          STORE_ABSENT, session->unsampled_from, col_clock_now());
}

/* The first time a disk is full, the reserve is freed, which makes room for totals. */
void col_session_failed(struct col_session *session, int rc)
{
    col_session_unsampled(session);
    session->failure = rc;
    col_session_store_error(session, rc, &session->failure_words);
    if (rc == TACHO_ENOSPACE && !session->reserve_used) {
        session->reserve_used = true;
        col_live_use_reserve(&session->live);
        if (!session->stalled_reported)
            col_session_message(session,
                                "%s: no space left on device: only totals are stored from here on",
                                session->live.folder);
        session->stalled_reported = true;
    }
    bool again = session->drain.volume.no_space; /* even without detail it does not fit */
    if (!reload(session) || again) {
        session->stalled = true;
        session->next_retry = col_clock_now() + RETRY_NS;
        drop(session);
    }
}

/* While stalled, segments fill up in memory. The agents count what they must drop then, so a store
 * that recovers has a gap with a number and not a silent one. */
bool col_session_retry(struct col_session *session)
{
    if (!session->stalled)
        return true;
    int64_t now = col_clock_now();
    if (now < session->next_retry && !session->stop)
        return false;
    session->next_retry = now + RETRY_NS;
    session->stalled = !reload(session);
    return !session->stalled;
}

int col_session_note_gap(struct col_session *session)
{
    int rc = store_run_set_int(session->db, "recovered", 1);
    if (rc)
        return rc;
    return col_drain_loss(&session->drain, "system", "not sampled: the collector was gone",
                          STORE_ABSENT, session->gap_from,
                          session->gap_to ? session->gap_to : session->ended_at);
}

/* ---- finishing ----------------------------------------------------------------------------------------------------------------- */

/* Reads everything that is left. A pool that cannot be opened for the moment is tried again: pools
 * that are read to their end are closed on the way. */
static int last_rounds(struct col_session *session)
{
    struct col_drain *drain = &session->drain;
    bool more = true;
    int rc = 0;
    for (int tries = 0; rc == 0 && (more || (drain->waiting && tries < LAST_TRIES));
         tries += !more) {
        if (!more)
            col_sleep_ms(LAST_TRIES_MS);
        if ((rc = col_drain_round(drain, &more)) == 0 && (rc = col_drain_commit(drain)) == 0)
            rc = col_drain_reap(drain);
    }
    if (rc == 0 && drain->waiting)
        rc = TACHO_EBUSY;
    return rc ? rc : col_drain_end(drain);
}

/* The last transaction: what the caller adds, how the run ended, and counts. */
static int write_last(struct col_session *session, int (*last_words)(struct col_session *session))
{
    const struct col_stats *stats = &session->drain.stats;
    struct col_keys keys = {.db = session->db, .rc = col_drain_begin(&session->drain)};
    if (keys.rc == 0 && last_words)
        keys.rc = last_words(session);
    col_key_text(&keys, "ended", session->result->ended);
    col_key_int(&keys, "end.monotonic_ns", session->ended_at ? session->ended_at : col_clock_now());
    if (!session->gap_from) /* a recovery may be days later */
        col_key_int(&keys, "end.suspended_ns", col_clock_suspended());
    col_key_int(&keys, "ranges_without_end", stats->ranges_without_end);
    col_key_int(&keys, "ends_without_start", stats->ends_without_start);
    col_key_text(&keys, "segments", NULL);
    col_key_text(&keys, "collector.pid", NULL);
    return keys.rc ? keys.rc : col_drain_commit(&session->drain);
}

/* Copies the counts of the drain into the result. */
static void note_statistics(struct col_session *session)
{
    struct col_result *result = session->result;
    const struct col_stats *stats = &session->drain.stats;
    result->records = stats->records;
    result->slices = stats->slices;
    result->counters = stats->counters;
    result->steps = stats->steps;
    result->lost = stats->lost;
    result->uncounted = stats->uncounted;
    result->cut = stats->cut;
    result->threads = stats->threads;
    result->processes = 0;
    for (uint32_t i = 0; i < session->drain.process_count; i++)
        result->processes += session->drain.process[i]->has_pool;
    result->seconds =
        (double)((session->ended_at ? session->ended_at : col_clock_now()) - session->started) /
        1e9;
}

/* One attempt to finish: the last rounds, the last transaction, then the store's own finish. */
static int finish_once(struct col_session *session, int (*last_words)(struct col_session *session),
                       struct tacho_error *err)
{
    int rc = last_rounds(session);
    if (rc == TACHO_EBUSY && session->drain.waiting)
        return tacho_fail(
            err, rc, "raise the limits (ulimit -n, ulimit -v), then 'tacho recover' it",
            "%s: %u pools of its processes cannot be opened now: too many open files, "
            "or no memory",
            session->live.folder, session->drain.waiting);
    if (rc == 0)
        rc = write_last(session, last_words);
    if (rc)
        return col_session_store_error(session, rc, err);
    note_statistics(session);
    col_live_use_reserve(&session->live);
    store *db = session->db;
    session->db = NULL;
    col_drain_close(&session->drain);
    return store_finish(db, err);
}

/* Tries three times: each failure of the store goes back to the last commit, with less detail if
 * the disk is full. */
int col_session_finish(struct col_session *session, int (*last_words)(struct col_session *session),
                       struct tacho_error *err)
{
    int rc = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (session->stalled || !session->db) {
            session->next_retry = 0;
            session->stalled = true;
            if (!col_session_retry(session)) {
                /* all is committed, and only the WAL could not be folded in: that error stays */
                if (rc && session->failure == TACHO_EEXISTS)
                    break;
                rc = session->failure;
                if (err)
                    *err = session->failure_words;
                continue;
            }
        }
        rc = finish_once(session, last_words, err);
        if (rc == 0)
            break;
        if (session->db)
            col_session_failed(session, rc);
        else
            session->failure = rc;
    }
    if (rc == 0)
        rc = col_live_publish(&session->live, session->result->path, err);
    if (rc == 0) {
        if (session->live.left)
            col_session_warn(session, "%s: kept: not everything in it is tacho's",
                             session->live.folder);
        session->result->finished = true;
        return 0;
    }
    if (rc == TACHO_ENOSPACE)
        col_live_note_full(&session->live);
    snprintf(session->result->path, sizeof session->result->path, "%s", session->live.folder);
    if (err && !err->hint[0])
        snprintf(err->hint, sizeof err->hint,
                 "what was recorded is in %.150s: 'tacho recover' finishes it",
                 session->live.folder);
    return rc;
}

void col_session_discard(struct col_session *session)
{
    drop(session);
    col_live_remove(&session->live);
}

static double cpu_seconds(const struct rusage *use)
{
    return (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) +
           (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec) / 1e6;
}

/* Descriptors are closed and pointers cleared, so that freeing twice does no harm. */
void col_session_free(struct col_session *session)
{
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    session->result->collector_cpu_seconds = cpu_seconds(&now) - cpu_seconds(&session->own_usage);
    col_system_close(session->system);
    col_perf_close(session->perf);
    col_stacks_close(session->stacks);
    session->stacks = NULL;
    col_python_samples_close(session->python);
    session->python = NULL;
    col_nvml_close(session->nvml);
    session->nvml = NULL;
    col_health_close(session->health);
    session->health = NULL;
    session->system = NULL;
    session->perf = NULL;
    if (session->drain.cache)
        col_drain_close(&session->drain);
    store_close(session->db);
    session->db = NULL;
    col_lender_close(&session->lender);
    col_live_leave(&session->live);
    col_peers_close(&session->peers);
    if (session->peers_poll >= 0)
        close(session->peers_poll);
    session->peers_poll = -1;
    col_buffer_put(&session->warnings, "", 1);
    session->result->warnings = session->warnings.failed ? NULL : (char *)session->warnings.bytes;
    session->warnings = (struct col_buffer){0};
}

void col_result_clear(struct col_result *result)
{
    free(result->warnings);
    result->warnings = NULL;
}
