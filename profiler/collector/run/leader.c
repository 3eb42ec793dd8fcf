/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/run/leader.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"

/* ---- who is there ---------------------------------------------------------------------------------------------------------- */

static bool watch(struct col_session *s, int fd, unsigned which)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = which};
    if (s->peers_poll < 0)
        s->peers_poll = epoll_create1(EPOLL_CLOEXEC);
    return s->peers_poll >= 0 && epoll_ctl(s->peers_poll, EPOLL_CTL_ADD, fd, &e) == 0;
}

static void hang_up(struct col_peer *x)
{
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
}

static struct col_process *row_of(struct col_session *s, const struct col_peer *x)
{
    for (uint32_t i = s->drain.process_count; i-- > 0;) {
        struct col_process *p = s->drain.process[i];
        if (p->pid == x->pid &&
            (!p->start_ticks || !x->start_ticks || p->start_ticks == x->start_ticks))
            return p;
    }
    return NULL;
}

static void take_call(struct col_session *s)
{
    struct col_peers *p = &s->peers;
    int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct ucred who = {0};
    socklen_t n = sizeof who;
    struct col_peer *list = NULL;
    bool own = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid() &&
               who.pid > 0;
    if (own && p->count < COL_PEERS_MAX)
        list = realloc(p->peer, (p->count + 1) * sizeof *list);
    if (list)
        p->peer = list;
    if (!list || !watch(s, fd, p->count + 1)) {
        close(fd);
        return;
    }
    p->peer[p->count++] = (struct col_peer){.fd = fd, .state = PEER_IS_ENDED, .rank = STORE_ABSENT};
}

/* ---- what they say ----------------------------------------------------------------------------------------------------------- */

static bool is_taken(const struct col_session *s, const struct col_peer *me, int64_t rank)
{
    if (rank == STORE_ABSENT)
        return false;
    if (s->peers.job.rank == rank)
        return true;
    for (unsigned i = 0; i < s->peers.count; i++)
        if (&s->peers.peer[i] != me && s->peers.peer[i].rank == rank &&
            s->peers.peer[i].state != PEER_IS_LOST)
            return true;
    return false;
}

static void welcome(struct col_session *s, struct col_peer *x)
{
    struct peer_message m = {0};
    memcpy(m.path, s->live.folder, sizeof m.path);
    memcpy(m.segments, s->live.segments, sizeof m.segments);
    x->state = x->pid ? PEER_IS_RUNNING : PEER_IS_WELCOME;
    col_peer_send(x->fd, &m, PEER_WELCOME);
}

static void on_hello(struct col_session *s, struct col_peer *x, struct peer_message *m)
{
    bool same_job = strcmp(m->job, s->peers.job.id) == 0;
    bool same_place =
        m->pid ? strcmp(m->segments, s->live.segments) == 0 : strcmp(m->path, s->peers.path) == 0;
    if (!same_job || !same_place || (!m->pid && is_taken(s, x, m->rank)) || s->peers_over) {
        s->peers_elsewhere += same_job && !same_place;
        col_peer_send(x->fd, m, PEER_REFUSED);
        hang_up(x);
        return;
    }
    x->rank = m->rank;
    x->cpus = m->cpus;
    x->pid = m->pid;
    x->start = m->start;
    memcpy(x->program, m->program, sizeof x->program);
    x->state = PEER_IS_WAITING;
    if (s->peers.started)
        welcome(s, x);
}

static void on_started(struct col_session *s, struct col_peer *x, struct peer_message *m)
{
    struct col_proc_stat st;
    x->pid = m->pid;
    x->start = m->start;
    x->start_ticks = col_proc_read_stat(m->pid, &st) == 0 ? st.start_ticks : 0;
    memcpy(x->program, m->program, sizeof x->program);
    x->state = PEER_IS_RUNNING;
    if (s->perf)
        col_perf_add(s->perf, m->pid);
    if (s->stacks)
        col_stacks_add(s->stacks, m->pid);
    col_peer_send(x->fd, m, PEER_NOTED);
}

static void on_ended(struct col_peer *x, const struct peer_message *m)
{
    x->state = PEER_IS_ENDED;
    x->end = m->end;
    x->status = m->status;
    x->use = m->use;
}

static void hear(struct col_session *s, struct col_peer *x)
{
    struct peer_message m;
    int got;
    while (x->fd >= 0 && (got = col_peer_receive(x->fd, &m, 0)) != 0) {
        if (got < 0) {
            hang_up(x);
            if (x->state != PEER_IS_ENDED)
                x->state = PEER_IS_LOST;
        } else if (m.type == PEER_HELLO) {
            on_hello(s, x, &m);
        } else if (m.type == PEER_STARTED && x->state == PEER_IS_WELCOME) {
            on_started(s, x, &m);
        } else if (m.type == PEER_ENDED && x->state == PEER_IS_RUNNING) {
            on_ended(x, &m);
        }
    }
}

void col_leader_read(struct col_session *s)
{
    struct epoll_event e[64];
    for (int turn = 0; turn < 64 && s->peers_poll >= 0; turn++) {
        int n = epoll_wait(s->peers_poll, e, 64, 0);
        for (int i = 0; i < n; i++)
            if (e[i].data.u32 == 0)
                take_call(s);
            else
                hear(s, &s->peers.peer[e[i].data.u32 - 1]);
        if (n <= 0)
            break;
    }
}

/* ---- before the start ----------------------------------------------------------------------------------------------------------- */

static unsigned arrived(const struct col_session *s)
{
    unsigned n = 1 + s->peers_elsewhere;
    for (unsigned i = 0; i < s->peers.count; i++)
        n += s->peers.peer[i].rank != STORE_ABSENT;
    return n;
}

static bool is_complete(const struct col_session *s)
{
    const struct col_peers *p = &s->peers;
    return p->listener < 0 || p->job.node_ranks == STORE_ABSENT || p->again ||
           arrived(s) >= (unsigned)p->job.node_ranks;
}

void col_leader_gather(struct col_session *s)
{
    int64_t until = col_clock_now() + COL_GATHER_NS;
    if (s->peers.listener < 0 || !watch(s, s->peers.listener, 0))
        return;
    for (int64_t now; !is_complete(s) && (now = col_clock_now()) < until; col_leader_read(s))
        poll(&(struct pollfd){.fd = s->peers_poll, .events = POLLIN}, 1,
             (int)((until - now) / 1000000) + 1);
}

void col_leader_spread(const struct col_session *s, cpu_set_t *before)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof *before, before) != 0)
        CPU_ZERO(before);
    all = *before;
    for (unsigned i = 0; i < s->peers.count; i++)
        if (s->peers.peer[i].state == PEER_IS_WAITING)
            CPU_OR(&all, &all, &s->peers.peer[i].cpus);
    if (CPU_COUNT(before) && !CPU_EQUAL(&all, before))
        sched_setaffinity(0, sizeof all, &all);
}

int col_leader_describe(struct col_session *s)
{
    const struct col_job *job = &s->peers.job;
    if (!s->peers.is_known)
        return 0;
    int rc = store_run_set(s->db, "job.launcher", job->launcher);
    if (rc == 0)
        rc = store_run_set(s->db, "job.id", job->id);
    if (rc == 0 && job->ranks != STORE_ABSENT)
        rc = store_run_set_int(s->db, "job.ranks", job->ranks);
    if (rc == 0 && job->node_ranks != STORE_ABSENT)
        rc = store_run_set_int(s->db, "job.node_ranks", job->node_ranks);
    return rc;
}

void col_leader_welcome(struct col_session *s)
{
    s->peers.started = true;
    for (unsigned i = 0; i < s->peers.count; i++)
        if (s->peers.peer[i].state == PEER_IS_WAITING)
            welcome(s, &s->peers.peer[i]);
}

/* ---- while it runs ----------------------------------------------------------------------------------------------------------- */

static void note_end(struct col_process *p, const struct col_peer *x)
{
    char ended[96];
    int code = col_session_status(x->status, ended, sizeof ended);
    p->end = STORE_ABSENT; /* the peer saw it; the drain may have noticed later */
    col_process_ended(p, x->end, code, WIFSIGNALED(x->status) ? ended : "exit");
    p->awaited = false;
}

int col_leader_rows(struct col_session *s)
{
    int rc = 0;
    for (unsigned i = 0; i < s->peers.count && rc == 0; i++) {
        struct col_peer *x = &s->peers.peer[i];
        if (!x->pid)
            continue;
        struct col_process *p = row_of(s, x);
        if (!p) {
            rc = col_drain_process(&s->drain, x->pid, x->start, x->program, &p);
            if (rc)
                break;
            p->rank = x->rank;
            p->awaited = true;
            if (x->start_ticks)
                p->start_ticks = x->start_ticks;
        }
        if (x->state == PEER_IS_ENDED && (p->awaited || !p->ended[0])) {
            note_end(p, x);
        } else if (x->state == PEER_IS_LOST && p->awaited) {
            p->awaited = false;
            if (p->gone && !p->ended[0])
                col_process_ended(p, p->end, STORE_ABSENT,
                                  "unknown: the tacho that waited for it was killed");
        }
    }
    return rc;
}

static bool is_running(const struct col_peer *x)
{
    struct col_proc_stat st;
    if (x->state == PEER_IS_LOST && x->pid)
        return col_proc_read_stat(x->pid, &st) == 0 && st.state != 'Z' &&
               (!x->start_ticks || st.start_ticks == x->start_ticks);
    return x->state == PEER_IS_WAITING || x->state == PEER_IS_WELCOME ||
           x->state == PEER_IS_RUNNING;
}

unsigned col_leader_running(struct col_session *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->peers.count; i++)
        n += is_running(&s->peers.peer[i]);
    return n;
}

bool col_leader_waits(struct col_session *s)
{
    if (s->peers.listener < 0)
        return false;
    if (col_leader_running(s)) {
        s->peers.waiting_since = 0;
        return true;
    }
    if (is_complete(s) || s->peers_taken_over)
        return false;
    if (!s->peers.waiting_since) {
        s->peers.waiting_since = col_clock_now();
        col_session_message(
            s, "%u of %lld ranks of this node have come: waiting %lld s for the others", arrived(s),
            (long long)s->peers.job.node_ranks, COL_GRACE_NS / 1000000000);
    }
    return col_clock_now() - s->peers.waiting_since < COL_GRACE_NS;
}

void col_leader_over(struct col_session *s)
{
    struct peer_message m = {0};
    s->peers_over = true;
    if (s->peers.listener >= 0)
        close(s->peers.listener); /* who calls now makes a recording of its own */
    s->peers.listener = -1;
    if (!s->stalled && s->db)
        col_leader_read(s);
    for (unsigned i = 0; i < s->peers.count; i++) {
        struct col_peer *x = &s->peers.peer[i];
        if (x->fd >= 0 && x->state != PEER_IS_ENDED)
            col_peer_send(x->fd, &m, PEER_OVER);
        hang_up(x);
    }
    if (s->peers_poll >= 0)
        close(s->peers_poll);
    s->peers_poll = -1;
    for (uint32_t i = 0; i < s->drain.process_count;
         i++) { /* of peers that a leader before this one had */
        struct col_process *p = s->drain.process[i];
        if (p->awaited && p->gone && !p->ended[0])
            col_process_ended(p, p->end, STORE_ABSENT,
                              "unknown: the tacho that waited for it was killed");
    }
}

/* ---- afterwards ---------------------------------------------------------------------------------------------------------------- */

static void add_time(struct timeval *to, const struct timeval *x)
{
    int64_t us = (to->tv_sec + x->tv_sec) * 1000000ll + to->tv_usec + x->tv_usec;
    to->tv_sec = us / 1000000;
    to->tv_usec = us % 1000000;
}

void col_leader_sum(struct col_session *s)
{
    char *ended = s->result->ended;
    size_t size = sizeof s->result->ended, at = strlen(ended);
    struct rusage *sum = &s->usage;
    *sum = s->child_usage;
    s->worst = s->result->exit_code;
    for (unsigned i = 0; i < s->peers.count; i++) {
        const struct col_peer *x = &s->peers.peer[i];
        char how[96] = "unknown";
        int code = 0;
        if (!x->pid)
            continue;
        if (x->state == PEER_IS_ENDED) {
            add_time(&sum->ru_utime, &x->use.ru_utime);
            add_time(&sum->ru_stime, &x->use.ru_stime);
            sum->ru_maxrss = x->use.ru_maxrss > sum->ru_maxrss ? x->use.ru_maxrss : sum->ru_maxrss;
            sum->ru_minflt += x->use.ru_minflt;
            sum->ru_majflt += x->use.ru_majflt;
            sum->ru_nvcsw += x->use.ru_nvcsw;
            sum->ru_nivcsw += x->use.ru_nivcsw;
            s->ended_at = x->end > s->ended_at ? x->end : s->ended_at;
            code = col_session_status(x->status, how, sizeof how);
        }
        if (x->state == PEER_IS_ENDED && code == 0)
            continue;
        s->worst = s->worst ? s->worst : code;
        if (at + 64 < size)
            at += (size_t)snprintf(ended + at, size - at, "; rank %lld: %.40s", (long long)x->rank,
                                   how);
    }
}
