/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/run/session.h"

static int write_recovered(struct col_session *s)
{
    return s->gap_from ? col_session_note_gap(s) : store_run_set_int(s->db, "recovered", 1);
}

/* How the run ended, as far as anybody can tell: its collector did not see it. */
static void describe_end(struct col_session *s)
{
    const char *how = s->drain.other_boot ? "unknown: the machine was started again"
                                          : "unknown: the collector was killed";
    for (uint32_t i = 0; i < s->drain.process_count; i++) {
        const struct col_process *x = s->drain.process[i];
        if (i == 0 && x->ended[0] && x->exit_status != STORE_ABSENT) {
            if (x->exit_status > 128)
                snprintf(s->result->ended, sizeof s->result->ended,
                         "%s; collector killed, recovered", x->ended);
            else
                snprintf(s->result->ended, sizeof s->result->ended,
                         "exit %d; collector killed, recovered", (int)x->exit_status);
            return;
        }
    }
    snprintf(s->result->ended, sizeof s->result->ended, "%s; recovered%s", how,
             s->stop ? " while processes went on" : "");
}

enum how { HOW_RECOVER, HOW_PEEK };

static int take_over(const char *live, const struct col_options *o, enum how how,
                     struct col_result *r, struct tacho_error *err)
{
    struct col_session s;
    col_session_init(&s, o, r);
    int rc = col_live_open(live, &s.live, err);
    if (rc)
        goto out;
    rc = col_session_resume(&s, err);
    if (rc == TACHO_EEXISTS) { /* finished, but it could not be moved to its name */
        col_live_open_segments(&s.live, false, NULL);
        rc = col_live_publish(&s.live, r->path, err);
        r->finished = rc == 0;
        snprintf(r->ended, sizeof r->ended, "finished before");
        goto out;
    }
    if (rc)
        goto out;
    s.gap_from = s.drain.last_commit;
    r->started = true;
    bool more = true;
    while (rc == 0 && more)
        if ((rc = col_drain_round(&s.drain, &more)) == 0 && (rc = col_drain_commit(&s.drain)) == 0)
            rc = col_drain_reap(&s.drain);
    if (rc == 0)
        rc = col_drain_commit(&s.drain);
    if (rc) {
        col_session_store_error(&s, rc, err);
        goto out;
    }
    int alive = col_drain_alive(&s.drain);
    if (alive && how == HOW_PEEK)
        goto out;
    if (alive) {
        rc = col_signals_begin(&s.signals, err);
        if (rc)
            goto out;
        col_session_message(
            &s,
            "%d processes of the run still record: going on until they end (Ctrl-C finishes now)",
            alive);
        s.told_waiting = true;
        col_session_loop(&s);
    }
    s.ended_at = alive                                   ? col_clock_now()
                 : s.drain.stats.last_event > s.gap_from ? s.drain.stats.last_event
                                                         : s.gap_from;
    describe_end(&s);
    rc = col_session_finish(&s, write_recovered, err);
out:
    col_signals_end(&s.signals);
    col_session_free(&s);
    return rc;
}

int col_recover(const char *live, const struct col_options *o, struct col_result *r,
                struct tacho_error *err)
{
    return take_over(live, o, HOW_RECOVER, r, err);
}

/* ---- RUN arguments ---------------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool find_latest(char *name, size_t size)
{
    struct timespec newest = {0, 0};
    bool found = false;
    DIR *dir = opendir(".");
    if (!dir)
        return false;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        struct stat st;
        char db[300];
        bool live = ends_with(e->d_name, COL_LIVE_SUFFIX);
        if (e->d_name[0] == '.' || (!live && !ends_with(e->d_name, COL_SUFFIX)))
            continue;
        snprintf(db, sizeof db, "%s%s", e->d_name, live ? "/run.db" : "");
        if (stat(db, &st) != 0 || !S_ISREG(st.st_mode) ||
            st.st_size == 0) /* sqlite3 makes an empty file of a name too early */
            continue;
        if (found && (st.st_mtim.tv_sec < newest.tv_sec ||
                      (st.st_mtim.tv_sec == newest.tv_sec && st.st_mtim.tv_nsec <= newest.tv_nsec)))
            continue;
        newest = st.st_mtim;
        found = true;
        snprintf(name, size, "%s", e->d_name);
    }
    closedir(dir);
    return found;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* `tacho run -o X ./X`: then X means the run, not the program. */
static bool is_program_of_a_run(const char *path)
{
    struct stat st;
    char run[COL_PATH_MAX];
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) &&
           !ends_with(path, COL_SUFFIX) &&
           snprintf(run, sizeof run, "%s%s", path, COL_SUFFIX) < (int)sizeof run && is_there(run);
}

static int locate(const char *arg, struct col_found *f, struct tacho_error *err)
{
    static const char *const suffix[] = {"", COL_SUFFIX, COL_LIVE_SUFFIX, ".live"};
    char latest[300];
    if (strcmp(arg, "latest") == 0 && !is_there(arg)) {
        if (!find_latest(latest, sizeof latest))
            return tacho_fail(err, TACHO_ENOTFOUND, "record one with 'tacho run -- COMMAND'",
                              "latest: no run in this folder");
        arg = latest;
    }
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        if (snprintf(f->run, sizeof f->run, "%s%s", arg, suffix[i]) >= (int)sizeof f->run)
            break;
        if (i == 0 && is_program_of_a_run(arg))
            continue;
        /* a folder that is no live run is somebody else's (per-rank files): only as the argument
         * itself */
        if (is_there(f->run) &&
            (i == 0 || !is_folder(f->run) || ends_with(f->run, COL_LIVE_SUFFIX)))
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

int col_find_run(const char *arg, bool finish, struct col_found *f, struct tacho_error *err)
{
    memset(f, 0, sizeof *f);
    int rc = locate(arg, f, err);
    if (rc)
        return rc;
    for (size_t n = strlen(f->run); n > 1 && f->run[n - 1] == '/'; n--)
        f->run[n - 1] = 0;
    if (!is_folder(f->run) || !ends_with(f->run, COL_LIVE_SUFFIX)) {
        memcpy(f->path, f->run, sizeof f->path);
        return 0;
    }
    if (strlen(f->run) + sizeof "/run.db" > sizeof f->path)
        return tacho_fail(err, TACHO_EUSAGE, NULL, "path too long");
    snprintf(f->path, sizeof f->path, "%.4000s/run.db", f->run);
    f->live = true;
    if (!finish || col_live_locked(f->run))
        return 0;
    const struct tacho_error *why = &f->refused;
    if (col_live_check_owner(f->run, &f->refused)) {
        if (access(f->path, R_OK) == 0)
            return 0; /* it is read as it is */
        return tacho_fail(err, why->code, why->hint, "%s", why->what);
    }
    struct col_options o;
    struct col_result r;
    col_options_init(&o);
    rc = take_over(f->run, &o, HOW_PEEK, &r, err);
    if (rc == 0 && r.finished) {
        f->live = false;
        f->recovered = true;
        snprintf(f->note, sizeof f->note,
                 "%.200s was not finished (its collector died): finished it as %.200s", f->run,
                 r.path);
        memcpy(f->path, r.path, sizeof f->path);
        memcpy(f->run, r.path, sizeof f->run);
    }
    if (rc == TACHO_EBUSY)
        rc = 0; /* somebody was faster: it is live again */
    col_result_clear(&r);
    return rc;
}
