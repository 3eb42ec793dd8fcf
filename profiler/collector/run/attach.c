/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer: starts its own target with the leader's segments, waits for it, and reports its end to
 * the leader. When the leader dies, the peer that binds its name first takes the recording over at
 * the last commit; the others connect to it.
 */
#include "profiler/collector/run/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/run/leader.h"

#define NOTED_MS         5000         /* that a target waits for a leader on a busy disk */
#define TAKE_OVER_NS     5000000000ll /* to find, or to become, the next leader */
#define TAKE_OVER_TRY_MS 5

/* Fills in who this peer is, and its target if that runs already. */
static void fill_hello(struct col_session *session, struct peer_message *hello)
{
    *hello = (struct peer_message){.rank = session->peers.is_known ? session->peers.job.rank
                                                                   : STORE_ABSENT};
    if (sched_getaffinity(0, sizeof hello->cpus, &hello->cpus) != 0)
        CPU_ZERO(&hello->cpus);
    const char *program = session->options->command[0], *base = strrchr(program, '/');
    snprintf(hello->program, sizeof hello->program, "%s", base ? base + 1 : program);
    if (session->child > 0) {
        hello->pid = (int32_t)session->child;
        hello->start = session->started;
        memcpy(hello->segments, session->live.segments, sizeof hello->segments);
    }
}

/* Joins only if the leader's folder of segments can be used from here: it may lie in another
 * container. */
int col_attach(struct col_session *session)
{
    struct peer_message hello, welcome;
    int fd = -1;
    col_peers_setup(&session->peers, session->options);
    fill_hello(session, &hello);
    enum col_join join = col_peers_join(&session->peers, &hello, &fd, &welcome);
    const char *instead = join == COL_JOIN_LEADER && session->peers.listener < 0
                              ? "this rank is recorded into a file of its own"
                              : "the ranks of this node use the next name";
    if (session->peers.stopped)
        col_session_message(session,
                            "the tacho that leads the ranks of this node (pid %d) is stopped: %s",
                            (int)session->peers.stopped, instead);
    else if (session->peers.is_held)
        col_session_message(session, "another program holds the socket name of this job: %s",
                            instead);
    if (join == COL_JOIN_LEADER)
        return -1;
    if (access(welcome.segments, R_OK | W_OK | X_OK) != 0) {
        col_session_message(session, "%.200s: %s: this rank is recorded into a file of its own",
                            welcome.segments, strerror(errno));
        close(fd);
        return -1;
    }
    memcpy(session->live.segments, welcome.segments, sizeof session->live.segments);
    memcpy(session->live.folder, welcome.path, sizeof session->live.folder);
    return fd;
}

/* ---- the target ------------------------------------------------------------------------------------------------------------ */

struct announcement {
    struct col_session *session;
    int fd;
};

/* Runs before the target's exec: reports its pid and waits until the leader has opened counters. */
static void announce(void *ctx, pid_t pid)
{
    struct announcement *announcement = ctx;
    struct peer_message message;
    announcement->session->started = col_clock_now();
    announcement->session->child = pid;
    fill_hello(announcement->session, &message);
    /* the loop notices a leader that has died */
    if (col_peer_send(announcement->fd, &message, PEER_STARTED))
        col_peer_receive(announcement->fd, &message, NOTED_MS);
}

static void report_end(struct col_session *session, int fd)
{
    struct peer_message message = {.pid = (int32_t)session->child,
                                   .status = session->child_status,
                                   .end = session->ended_at,
                                   .use = session->child_usage,
                                   .rank = session->peers.job.rank};
    if (fd >= 0)
        col_peer_send(fd, &message, PEER_ENDED);
}

/* ---- when the leader dies ---------------------------------------------------------------------------------------------------- */

/* Finds the next leader. 1: another peer, connected to *fd; 0: this process; -1: neither. */
static int next_leader(struct col_session *session, int *fd)
{
    struct peer_message hello, welcome;
    int64_t until = col_clock_now() + TAKE_OVER_NS;
    unsigned number = session->peers.session;
    while (col_clock_now() < until) {
        session->peers.session = number;
        if (col_peers_bind(&session->peers))
            return 0;
        fill_hello(session, &hello);
        if (col_peers_call(&session->peers, number, &hello, fd, &welcome))
            return 1;
        col_sleep_ms(TAKE_OVER_TRY_MS);
    }
    return -1;
}

/* The drain was loaded from the last commit: samplers start, and the other peers are awaited. */
static void begin_to_lead(struct col_session *session)
{
    for (uint32_t i = 0; i < session->drain.process_count; i++)
        if (session->drain.process[i]->pid == (int32_t)session->child)
            session->drain.process[i]->awaited = false; /* this process waits for it itself */
    session->gap_from = session->drain.last_commit;
    session->gap_to = col_clock_now();
    session->peers_taken_over = true;
    col_leader_gather(session);
    col_leader_welcome(session);
    col_session_open_samplers(session);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Takes the recording over: this process goes on at the last commit of the dead leader. */
static int take_over(struct col_session *session, struct tacho_error *err)
{
    char folder[COL_PATH_MAX];
    int rc;
    memcpy(folder, session->live.folder, sizeof folder);
    int64_t until = col_clock_now() + TAKE_OVER_NS;
    /* A dying process loses its lock a moment after its sockets. */
    while ((rc = col_live_open(folder, &session->live, err)) == TACHO_EBUSY &&
           col_clock_now() < until)
        col_sleep_ms(TAKE_OVER_TRY_MS);
    if (rc == 0)
        rc = col_session_resume(session, err);
    if (rc == 0 && (rc = col_drain_begin(&session->drain)) == 0 &&
        (rc = store_run_set_int(session->db, "collector.pid", getpid())) == 0)
        rc = col_drain_commit(&session->drain);
    if (rc == 0) {
        col_session_message(session,
                            "the tacho that recorded this node has died: this one goes on");
        begin_to_lead(session);
        return 0;
    }
    col_peers_close(&session->peers);
    col_live_leave(&session->live);
    memcpy(session->live.folder, folder, sizeof folder);
    return rc;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------------------- */

/* Waits for a signal or a message, a second at most; passes signals on and reaps the target. */
static void wait_for_news(struct col_session *session, int fd)
{
    struct pollfd sources[2] = {{.fd = session->signals.fd, .events = POLLIN},
                                {.fd = fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    poll(sources, 2, 1000);
    while (col_signals_next(&session->signals, &info))
        col_session_signal(session, &info);
    col_session_reap(session);
}

/* The leader is gone. Returns a descriptor of the next one, or -1; *leads: this process records
 * from now on. */
static int after_leader(struct col_session *session, bool *leads)
{
    struct tacho_error err = {0};
    int fd = -1;
    if (access(session->live.folder, F_OK) != 0)
        return -1; /* it has finished */
    int which = next_leader(session, &fd);
    if (which == 1)
        return fd;
    *leads = which == 0 && take_over(session, &err) == 0;
    if (!*leads)
        col_session_message(session,
                            "the tacho that recorded this node has died%s%.200s; to finish its "
                            "file: tacho recover %.200s",
                            err.what[0] ? ": " : "", err.what, session->live.folder);
    return -1;
}

int col_attach_run(struct col_session *session, int fd, const char *library,
                   struct tacho_error *err)
{
    struct announcement announcement = {.session = session, .fd = fd};
    struct peer_message message;
    bool leads = false;
    int rc = col_signals_begin(&session->signals, err);
    session->result->attached = true;
    if (rc == 0)
        rc = col_session_start(session, library, announce, &announcement, err);
    if (rc)
        session->child = 0;
    while (rc == 0 && !session->child_done && !session->stop) {
        wait_for_news(session, fd);
        int got = fd >= 0 ? col_peer_receive(fd, &message, 0) : 0;
        if (got == 0 || (got == 1 && message.type != PEER_OVER))
            continue;
        close(fd);
        fd = got == 1 ? -1 : after_leader(session, &leads);
        if (leads) {
            session->result->attached = false;
            return col_session_conclude(session, err);
        }
    }
    if (session->stop)
        session->result->exit_code = 128 + session->stop;
    else
        report_end(session, fd);
    if (fd >= 0)
        close(fd);
    snprintf(session->result->path, sizeof session->result->path, "%s", session->live.folder);
    session->live.folder[0] = session->live.segments[0] = 0; /* they are the leader's */
    return rc;
}
