/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/run/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/run/leader.h"

#define NOTED_MS \
    5000 /* a leader on a busy disk may be slow; the target waits no longer than that */
#define TAKE_OVER_NS  5000000000ll /* to find, or to be, the next leader */
#define TAKE_OVER_TRY 5000000      /* ns */

static void fill_hello(struct col_session *s, struct peer_message *m)
{
    *m = (struct peer_message){.rank = s->peers.is_known ? s->peers.job.rank : STORE_ABSENT};
    if (sched_getaffinity(0, sizeof m->cpus, &m->cpus) != 0)
        CPU_ZERO(&m->cpus);
    const char *program = s->options->command[0], *base = strrchr(program, '/');
    snprintf(m->program, sizeof m->program, "%s", base ? base + 1 : program);
    if (s->child > 0) {
        m->pid = (int32_t)s->child;
        m->start = s->started;
        memcpy(m->segments, s->live.segments, sizeof m->segments);
    }
}

int col_attach(struct col_session *s)
{
    struct peer_message hello, welcome;
    int fd = -1;
    col_peers_setup(&s->peers, s->options);
    fill_hello(s, &hello);
    if (col_peers_join(&s->peers, &hello, &fd, &welcome) == COL_JOIN_LEADER)
        return -1;
    if (access(welcome.segments, R_OK | W_OK | X_OK) != 0) {
        col_session_message(s, "%.200s: %s: this rank is recorded into a file of its own",
                            welcome.segments, strerror(errno));
        close(fd);
        return -1;
    }
    memcpy(s->live.segments, welcome.segments, sizeof s->live.segments);
    memcpy(s->live.folder, welcome.path, sizeof s->live.folder);
    return fd;
}

/* ---- the target ------------------------------------------------------------------------------------------------------------ */

struct announcement {
    struct col_session *session;
    int fd;
};

static void announce(void *ctx, pid_t pid)
{
    struct announcement *a = ctx;
    struct peer_message m;
    a->session->started = col_clock_now();
    a->session->child = pid;
    fill_hello(a->session, &m);
    if (col_peer_send(a->fd, &m, PEER_STARTED))
        col_peer_receive(a->fd, &m,
                         NOTED_MS); /* a leader that has died meanwhile is noticed by the loop */
}

static void tell_end(struct col_session *s, int fd)
{
    struct peer_message m = {.pid = (int32_t)s->child,
                             .status = s->child_status,
                             .end = s->ended_at,
                             .use = s->child_usage,
                             .rank = s->peers.job.rank};
    if (fd >= 0)
        col_peer_send(fd, &m, PEER_ENDED);
}

/* ---- when the leader dies ---------------------------------------------------------------------------------------------------- */

/* Another peer is the leader now: 1 and *fd; this process has the name: 0; neither: -1. */
static int next_leader(struct col_session *s, int *fd)
{
    struct peer_message hello, welcome;
    int64_t until = col_clock_now() + TAKE_OVER_NS;
    unsigned session = s->peers.session;
    while (col_clock_now() < until) {
        s->peers.session = session;
        if (col_peers_bind(&s->peers))
            return 0;
        fill_hello(s, &hello);
        if (col_peers_call(&s->peers, session, &hello, fd, &welcome))
            return 1;
        nanosleep(&(struct timespec){.tv_nsec = TAKE_OVER_TRY}, NULL);
    }
    return -1;
}

static void begin_to_lead(struct col_session *s)
{
    for (uint32_t i = 0; i < s->drain.process_count; i++)
        if (s->drain.process[i]->pid == (int32_t)s->child)
            s->drain.process[i]->awaited = false; /* a child of ours */
    s->gap_from = s->drain.last_commit;
    s->gap_to = col_clock_now();
    s->peers_taken_over = true;
    col_leader_gather(s);
    col_leader_welcome(s);
    if (s->options->sample_ms > 0)
        col_system_open(&s->system);
    if (s->options->sample_ms > 0 && s->options->gpu != COL_GPU_OFF)
        s->nvml = col_nvml_open(s->options->sample_ms);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* This process has the name: it goes on where the last commit of the dead one left off. */
static int take_over(struct col_session *s, struct tacho_error *err)
{
    char folder[COL_PATH_MAX];
    int rc;
    memcpy(folder, s->live.folder, sizeof folder);
    int64_t until = col_clock_now() + TAKE_OVER_NS;
    /* the lock of a dying process goes a moment after its sockets */
    while ((rc = col_live_open(folder, &s->live, err)) == TACHO_EBUSY && col_clock_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = TAKE_OVER_TRY}, NULL);
    if (rc == 0)
        rc = col_session_resume(s, err);
    if (rc == 0 && (rc = col_drain_begin(&s->drain)) == 0 &&
        (rc = store_run_set_int(s->db, "collector.pid", getpid())) == 0)
        rc = col_drain_commit(&s->drain);
    if (rc == 0) {
        col_session_message(s, "the tacho that recorded this node has died: this one goes on");
        begin_to_lead(s);
        return 0;
    }
    col_peers_close(&s->peers);
    col_live_leave(&s->live);
    memcpy(s->live.folder, folder, sizeof folder);
    return rc;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------------------- */

static void wait_for_news(struct col_session *s, int fd)
{
    struct pollfd p[2] = {{.fd = s->signals.fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    poll(p, 2, 1000);
    while (col_signals_next(&s->signals, &info))
        col_session_signal(s, &info);
    col_session_reap(s);
}

/* The leader hung up. A new descriptor, or -1; *leads: this process records from now on. */
static int after_leader(struct col_session *s, bool *leads)
{
    struct tacho_error err = {0};
    int fd = -1;
    if (access(s->live.folder, F_OK) != 0)
        return -1; /* it has finished */
    int which = next_leader(s, &fd);
    if (which == 1)
        return fd;
    *leads = which == 0 && take_over(s, &err) == 0;
    if (!*leads)
        col_session_message(s,
                            "the tacho that recorded this node has died%s%.200s; to finish its "
                            "file: tacho recover %.200s",
                            err.what[0] ? ": " : "", err.what, s->live.folder);
    return -1;
}

int col_attach_run(struct col_session *s, int fd, const char *library, struct tacho_error *err)
{
    struct announcement a = {.session = s, .fd = fd};
    struct peer_message m;
    bool leads = false;
    int rc = col_signals_begin(&s->signals, err);
    s->result->attached = true;
    if (rc == 0)
        rc = col_session_start(s, library, announce, &a, err);
    if (rc)
        s->child = 0;
    while (rc == 0 && !s->child_done && !s->stop) {
        wait_for_news(s, fd);
        int got = fd >= 0 ? col_peer_receive(fd, &m, 0) : 0;
        if (got == 0 || (got == 1 && m.type != PEER_OVER))
            continue;
        close(fd);
        fd = got == 1 ? -1 : after_leader(s, &leads);
        if (leads) {
            s->result->attached = false;
            return col_session_conclude(s, err);
        }
    }
    if (s->stop)
        s->result->exit_code = 128 + s->stop;
    else
        tell_end(s, fd);
    if (fd >= 0)
        close(fd);
    snprintf(s->result->path, sizeof s->result->path, "%s", s->live.folder);
    s->live.folder[0] = s->live.segments[0] = 0; /* not ours */
    return rc;
}
