/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovering a run whose collector died, and resolving RUN arguments. A run that is only read is
 * finished on the way if all of its processes have ended: then nothing more can be added to it.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/os/text.h"
#include "profiler/collector/run/session.h"

/* Marks the file as recovered, with the time that was not sampled. */
static int write_recovered(struct col_session *session)
{
    return session->gap_from ? col_session_note_gap(session)
                             : store_run_set_int(session->db, "recovered", 1);
}

/* Sets how the run ended, as far as that is known: its collector did not see it. */
static void describe_end(struct col_session *session)
{
    const char *how = session->drain.other_boot ? "unknown: the machine was rebooted"
                                                : "unknown: the collector was killed";
    bool was_full = col_live_was_full(&session->live);
    const char *why = was_full ? "the disk was full" : "collector killed";
    if (was_full)
        how = why;
    const struct col_process *first =
        session->drain.process_count ? session->drain.process[0] : NULL;
    char *ended = session->result->ended;
    size_t size = sizeof session->result->ended;
    if (!first || !first->ended[0] || first->exit_status == STORE_ABSENT)
        snprintf(ended, size, "%s; recovered%s", how,
                 session->stop ? " while processes went on" : "");
    else if (first->exit_status > 128)
        snprintf(ended, size, "%s; %s, recovered", first->ended, why);
    else
        snprintf(ended, size, "exit %d; %s, recovered", (int)first->exit_status, why);
}

enum how { HOW_RECOVER, HOW_PEEK };

/* Drains everything that can be read now. */
static int drain_all(struct col_drain *drain)
{
    bool more = true;
    int rc = 0;
    while (rc == 0 && more)
        if ((rc = col_drain_round(drain, &more)) == 0 && (rc = col_drain_commit(drain)) == 0)
            rc = col_drain_reap(drain);
    return rc ? rc : col_drain_commit(drain);
}

/* Collects in place of the collector that died, until the `alive` processes of the run that still
 * record have ended. */
static int collect_rest(struct col_session *session, int alive, struct tacho_error *err)
{
    int rc = col_signals_begin(&session->signals, err);
    if (rc)
        return rc;
    col_session_message(
        session,
        "%d processes of the run still record: going on until they end (Ctrl-C finishes now)",
        alive);
    session->waiting_reported = true;
    col_session_loop(session);
    return 0;
}

/* Opens the live folder of a dead collector, drains what its processes left, and finishes the run.
 * If processes still record, HOW_RECOVER goes on collecting and HOW_PEEK leaves the run live. */
static int take_over(const char *live, const struct col_options *options, enum how how,
                     struct col_result *result, struct tacho_error *err)
{
    struct col_session session;
    col_session_init(&session, options, result);
    int rc = col_live_open(live, &session.live, err);
    if (rc == TACHO_EFORMAT && col_live_remove_finished(live, result->path, NULL) == 0) {
        result->finished = true;
        snprintf(result->ended, sizeof result->ended, "finished before");
        rc = 0;
        goto out;
    }
    if (rc)
        goto out;
    rc = col_session_resume(&session, err);
    if (rc == TACHO_EEXISTS) { /* finished, but it could not be moved to its name */
        col_live_open_segments(&session.live, false, NULL);
        rc = col_live_publish(&session.live, result->path, err);
        result->finished = rc == 0;
        snprintf(result->ended, sizeof result->ended, "finished before");
        goto out;
    }
    if (rc)
        goto out;
    session.gap_from = session.drain.last_commit;
    result->started = true;
    rc = drain_all(&session.drain);
    if (rc) {
        col_session_store_error(&session, rc, err);
        goto out;
    }
    int alive = col_drain_alive(&session.drain);
    if (alive && (how == HOW_PEEK || (rc = collect_rest(&session, alive, err)) != 0))
        goto out;
    int64_t last = session.drain.stats.last_event;
    session.ended_at = last > session.gap_from ? last : session.gap_from;
    if (alive)
        session.ended_at = col_clock_now();
    describe_end(&session);
    rc = col_session_finish(&session, write_recovered, err);
out:
    col_signals_end(&session.signals);
    col_session_free(&session);
    return rc;
}

int col_recover(const char *live, const struct col_options *options, struct col_result *result,
                struct tacho_error *err)
{
    return take_over(live, options, HOW_RECOVER, result, err);
}

/* ---- RUN arguments ---------------------------------------------------------------------------------------------------------------- */

int col_each_run(const char *folder, col_visit *visit, void *ctx)
{
    bool is_here = strcmp(folder, ".") == 0;
    DIR *dir = opendir(folder);
    int rc = 0;
    if (!dir)
        return errno == EACCES ? TACHO_EDENIED : TACHO_ENOTFOUND;
    for (struct dirent *entry; !rc && (entry = readdir(dir)) != NULL;) {
        struct col_found found = {.live = col_ends_with(entry->d_name, COL_LIVE_SUFFIX)};
        struct stat file;
        if (entry->d_name[0] == '.' || (!found.live && !col_ends_with(entry->d_name, COL_SUFFIX)) ||
            snprintf(found.run, sizeof found.run, "%s%s%s", is_here ? "" : folder,
                     is_here ? "" : "/", entry->d_name) >= (int)sizeof found.run ||
            snprintf(found.path, sizeof found.path, "%.4000s%s", found.run,
                     found.live ? "/run.db" : "") >= (int)sizeof found.path)
            continue;
        /* sqlite3 leaves an empty file where it is given a name that does not exist */
        if (stat(found.path, &file) == 0 && S_ISREG(file.st_mode) && file.st_size)
            rc = visit(ctx, &found, col_time_ns(file.st_mtim));
    }
    closedir(dir);
    return rc;
}

struct latest {
    int64_t time_ns;
    char run[COL_PATH_MAX]; /* "": none yet */
};

static int keep_latest(void *ctx, const struct col_found *found, int64_t time_ns)
{
    struct latest *latest = ctx;
    if (!latest->run[0] || time_ns > latest->time_ns) {
        latest->time_ns = time_ns;
        memcpy(latest->run, found->run, sizeof latest->run);
    }
    return 0;
}

static bool is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static bool is_there(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0;
}

/* `tacho run -o X ./X`: then X means the run, not the program. */
static bool is_program_of_a_run(const char *path)
{
    struct stat program;
    char run[COL_PATH_MAX];
    return stat(path, &program) == 0 && S_ISREG(program.st_mode) && (program.st_mode & 0111) &&
           !col_ends_with(path, COL_SUFFIX) &&
           snprintf(run, sizeof run, "%s%s", path, COL_SUFFIX) < (int)sizeof run && is_there(run);
}

/* Finds the file or folder that a RUN argument names, with or without a suffix. */
static int locate(const char *arg, struct col_found *found, struct tacho_error *err)
{
    static const char *const suffix[] = {"", COL_SUFFIX, COL_LIVE_SUFFIX, ".live"};
    struct latest latest = {0};
    if (strcmp(arg, "latest") == 0 && !is_there(arg)) {
        (void)col_each_run(".", keep_latest, &latest); /* a folder that cannot be read has none */
        if (!latest.run[0])
            return tacho_fail(err, TACHO_ENOTFOUND, "record one with 'tacho run -- COMMAND'",
                              "latest: no run in this folder");
        arg = latest.run;
    }
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        if (snprintf(found->run, sizeof found->run, "%s%s", arg, suffix[i]) >=
            (int)sizeof found->run)
            break;
        if (i == 0 && is_program_of_a_run(arg))
            continue;
        /* A folder that is not a live run (per-rank files) counts only as the argument itself. */
        if (is_there(found->run) &&
            (i == 0 || !is_folder(found->run) || col_ends_with(found->run, COL_LIVE_SUFFIX)))
            return 0;
    }
    if (strcmp(arg, "-") == 0)
        return tacho_fail(err, TACHO_ENOTFOUND,
                          "a run is read in more than one place: save it to a file first",
                          "-: a run cannot come from standard input");
    return tacho_fail(
        err, TACHO_ENOTFOUND,
        "'latest' is the newest run of this folder; 'tacho run -- COMMAND' records one",
        "%s: no such run", *arg ? arg : "''");
}

/* Finishes a run whose collector is dead and whose processes have ended. */
static int finish_dead(struct col_found *found, struct tacho_error *err)
{
    struct col_options options;
    struct col_result result;
    col_options_init(&options);
    int rc = take_over(found->run, &options, HOW_PEEK, &result, err);
    if (rc == 0 && result.finished) {
        found->live = false;
        found->recovered = true;
        snprintf(found->note, sizeof found->note,
                 "%.200s was not finished (its collector died): finished it as %.200s", found->run,
                 result.path);
        memcpy(found->path, result.path, sizeof found->path);
        memcpy(found->run, result.path, sizeof found->run);
    }
    col_result_clear(&result);
    return rc == TACHO_EBUSY ? 0 : rc; /* EBUSY: another process was faster, it is live again */
}

int col_find_run(const char *arg, bool finish, struct col_found *found, struct tacho_error *err)
{
    memset(found, 0, sizeof *found);
    int rc = locate(arg, found, err);
    if (rc)
        return rc;
    for (size_t length = strlen(found->run); length > 1 && found->run[length - 1] == '/'; length--)
        found->run[length - 1] = 0;
    if (!is_folder(found->run) || !col_ends_with(found->run, COL_LIVE_SUFFIX)) {
        memcpy(found->path, found->run, sizeof found->path);
        return 0;
    }
    if (strlen(found->run) + sizeof "/run.db" > sizeof found->path)
        return tacho_fail(err, TACHO_EUSAGE, "change into its folder, and give the name alone",
                          "path too long");
    snprintf(found->path, sizeof found->path, "%.4000s/run.db", found->run);
    found->live = true;
    if (!finish || col_live_locked(found->run))
        return 0;
    const struct tacho_error *why = &found->refused;
    if (col_live_check_owner(found->run, &found->refused)) {
        if (access(found->path, R_OK) == 0)
            return 0; /* it is read as it is */
        return tacho_fail(err, why->code, why->hint, "%s", why->what);
    }
    rc = finish_dead(found, err);
    if (rc != TACHO_EDENIED || access(found->path, R_OK) != 0)
        return rc;
    found->refused = *err; /* a read-only disk, for one */
    if (!err->hint[0])
        snprintf(found->refused.hint, sizeof found->refused.hint,
                 "it is read as it is; 'tacho recover' finishes it where it can be written");
    return 0;
}
