/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector of a node and the other ranks of its job. Every peer is a connection that is
 * watched by one epoll descriptor: it says hello, is welcomed once the recording has begun, reports
 * when its target starts and ends. Counters and call stacks of its target are opened here, before
 * that target calls exec.
 */
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

/* ---- connections ------------------------------------------------------------------------------------------------------------- */

/* Adds a descriptor to those that wake the loop; `which` is 0 for the listener, else the index of
 * the peer plus 1. */
static bool watch(struct col_session *session, int fd, unsigned which)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = which};
    if (session->peers_poll < 0)
        session->peers_poll = epoll_create1(EPOLL_CLOEXEC);
    return session->peers_poll >= 0 &&
           epoll_ctl(session->peers_poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void hang_up(struct col_peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

/* The process row of a peer's target. A pid may have been reused, so start times are compared. */
static struct col_process *row_of(struct col_session *session, const struct col_peer *peer)
{
    for (uint32_t i = session->drain.process_count; i-- > 0;) {
        struct col_process *process = session->drain.process[i];
        if (process->pid == peer->pid && (!process->start_ticks || !peer->start_ticks ||
                                          process->start_ticks == peer->start_ticks))
            return process;
    }
    return NULL;
}

/* The place of a new connection: of one that was refused, or went away before it said anything, or
 * the next one. */
static unsigned place_for_call(const struct col_peers *peers)
{
    unsigned place = 0;
    while (place < peers->count &&
           (peers->peer[place].fd >= 0 || peers->peer[place].state != PEER_IS_ENDED ||
            peers->peer[place].pid))
        place++;
    return place;
}

/* Accepts a connection of a process of the same user. */
static void take_call(struct col_session *session)
{
    struct col_peers *peers = &session->peers;
    unsigned place = place_for_call(peers);
    int fd = accept4(peers->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    struct col_peer *list = NULL;
    bool own = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid() &&
               who.pid > 0;
    if (own && place < COL_PEERS_MAX)
        list = realloc(peers->peer, (peers->count + 1) * sizeof *list);
    if (list)
        peers->peer = list;
    if (!list || !watch(session, fd, place + 1)) {
        close(fd);
        return;
    }
    peers->peer[place] = (struct col_peer){.fd = fd, .state = PEER_IS_ENDED, .rank = STORE_ABSENT};
    peers->count += place == peers->count;
}

/* ---- messages ------------------------------------------------------------------------------------------------------------------ */

/* Has this rank a target already? */
static bool is_taken(const struct col_session *session, const struct col_peer *self, int64_t rank)
{
    if (rank == STORE_ABSENT)
        return false;
    if (session->peers.job.rank == rank)
        return true;
    for (unsigned i = 0; i < session->peers.count; i++)
        if (&session->peers.peer[i] != self && session->peers.peer[i].rank == rank &&
            session->peers.peer[i].state != PEER_IS_LOST)
            return true;
    return false;
}

static void welcome(struct col_session *session, struct col_peer *peer)
{
    struct peer_message message = {0};
    memcpy(message.path, session->live.folder, sizeof message.path);
    memcpy(message.segments, session->live.segments, sizeof message.segments);
    peer->state = peer->pid ? PEER_IS_RUNNING : PEER_IS_WELCOME;
    col_peer_send(peer->fd, &message, PEER_WELCOME);
}

/* A peer wants to join. It is refused if it belongs to another job, records to another place, or
 * its rank is taken. */
static void on_hello(struct col_session *session, struct col_peer *peer, struct peer_message *hello)
{
    bool same_job = strcmp(hello->job, session->peers.job.id) == 0;
    bool same_place = hello->pid ? strcmp(hello->segments, session->live.segments) == 0
                                 : strcmp(hello->path, session->peers.path) == 0;
    if (!same_job || !same_place || (!hello->pid && is_taken(session, peer, hello->rank)) ||
        session->peers_over) {
        session->peers_elsewhere += same_job && !same_place;
        col_peer_send(peer->fd, hello, PEER_REFUSED);
        hang_up(peer);
        return;
    }
    peer->rank = hello->rank;
    peer->cpus = hello->cpus;
    peer->pid = hello->pid;
    peer->start = hello->start;
    memcpy(peer->program, hello->program, sizeof peer->program);
    peer->state = PEER_IS_WAITING;
    if (session->peers.started)
        welcome(session, peer);
}

/* The target of a peer exists and waits for exec: opens its counters, then lets it go. */
static void on_started(struct col_session *session, struct col_peer *peer,
                       struct peer_message *message)
{
    struct col_proc_stat stat;
    peer->pid = message->pid;
    peer->start = message->start;
    peer->start_ticks = col_proc_read_stat(message->pid, &stat) == 0 ? stat.start_ticks : 0;
    memcpy(peer->program, message->program, sizeof peer->program);
    peer->state = PEER_IS_RUNNING;
    if (session->perf)
        col_perf_add(session->perf, message->pid);
    if (session->stacks)
        col_stacks_add(session->stacks, message->pid);
    col_peer_send(peer->fd, message, PEER_NOTED);
}

static void on_ended(struct col_peer *peer, const struct peer_message *message)
{
    peer->state = PEER_IS_ENDED;
    peer->end = message->end;
    peer->status = message->status;
    peer->use = message->use;
}

/* Reads the messages of one peer. */
static void hear(struct col_session *session, struct col_peer *peer)
{
    struct peer_message message;
    int got;
    while (peer->fd >= 0 && (got = col_peer_receive(peer->fd, &message, 0)) != 0) {
        if (got < 0) {
            hang_up(peer);
            if (peer->state != PEER_IS_ENDED)
                peer->state = PEER_IS_LOST;
        } else if (message.type == PEER_HELLO) {
            on_hello(session, peer, &message);
        } else if (message.type == PEER_STARTED && peer->state == PEER_IS_WELCOME) {
            on_started(session, peer, &message);
        } else if (message.type == PEER_ENDED && peer->state == PEER_IS_RUNNING) {
            on_ended(peer, &message);
        }
    }
}

void col_leader_read(struct col_session *session)
{
    struct epoll_event events[64];
    for (int turn = 0; turn < 64 && session->peers_poll >= 0; turn++) {
        int count = epoll_wait(session->peers_poll, events, 64, 0);
        for (int i = 0; i < count; i++)
            if (events[i].data.u32 == 0)
                take_call(session);
            else
                hear(session, &session->peers.peer[events[i].data.u32 - 1]);
        if (count <= 0)
            break;
    }
}

/* ---- before the start ----------------------------------------------------------------------------------------------------------- */

static unsigned arrived(const struct col_session *session)
{
    unsigned count = 1 + session->peers_elsewhere;
    for (unsigned i = 0; i < session->peers.count; i++)
        count += session->peers.peer[i].rank != STORE_ABSENT;
    return count;
}

/* Have all ranks of this node connected, as far as their number is known? */
static bool is_complete(const struct col_session *session)
{
    const struct col_peers *peers = &session->peers;
    return peers->listener < 0 || peers->job.node_ranks == STORE_ABSENT || peers->again ||
           arrived(session) >= (unsigned)peers->job.node_ranks;
}

void col_leader_gather(struct col_session *session)
{
    int64_t until = col_clock_now() + COL_GATHER_NS;
    if (session->peers.listener < 0 || !watch(session, session->peers.listener, 0))
        return;
    for (int64_t now; !is_complete(session) && (now = col_clock_now()) < until;
         col_leader_read(session))
        poll(&(struct pollfd){.fd = session->peers_poll, .events = POLLIN}, 1,
             (int)((until - now) / 1000000) + 1);
}

void col_leader_spread(const struct col_session *session, cpu_set_t *before)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof *before, before) != 0)
        CPU_ZERO(before);
    all = *before;
    for (unsigned i = 0; i < session->peers.count; i++)
        if (session->peers.peer[i].state == PEER_IS_WAITING)
            CPU_OR(&all, &all, &session->peers.peer[i].cpus);
    if (CPU_COUNT(before) && !CPU_EQUAL(&all, before))
        sched_setaffinity(0, sizeof all, &all);
}

int col_leader_describe(struct col_session *session)
{
    const struct col_job *job = &session->peers.job;
    if (!session->peers.is_known)
        return 0;
    struct col_keys keys = {.db = session->db};
    col_key_text(&keys, "job.launcher", job->launcher);
    col_key_text(&keys, "job.id", job->id);
    if (job->ranks != STORE_ABSENT)
        col_key_int(&keys, "job.ranks", job->ranks);
    if (job->node_ranks != STORE_ABSENT)
        col_key_int(&keys, "job.node_ranks", job->node_ranks);
    return keys.rc;
}

void col_leader_welcome(struct col_session *session)
{
    session->peers.started = true;
    for (unsigned i = 0; i < session->peers.count; i++)
        if (session->peers.peer[i].state == PEER_IS_WAITING)
            welcome(session, &session->peers.peer[i]);
}

/* ---- while it runs ----------------------------------------------------------------------------------------------------------- */

/* A target whose tacho was killed: its exit status is not known. */
static void note_unknown_end(struct col_process *process)
{
    if (process->gone && !process->ended[0])
        col_process_ended(process, process->end, STORE_ABSENT,
                          "unknown: the tacho that waited for it was killed");
}

static void note_end(struct col_process *process, const struct col_peer *peer)
{
    char ended[96];
    int code = col_wait_status(peer->status, ended, sizeof ended);
    process->end = STORE_ABSENT; /* the peer knows it better than the drain, which noticed later */
    col_process_ended(process, peer->end, code, WIFSIGNALED(peer->status) ? ended : "exit");
    process->awaited = false;
}

/* Rows are added here and not when a message arrives, because the store may be stalled then. */
int col_leader_rows(struct col_session *session)
{
    int rc = 0;
    for (unsigned i = 0; i < session->peers.count && rc == 0; i++) {
        struct col_peer *peer = &session->peers.peer[i];
        if (!peer->pid)
            continue;
        struct col_process *process = row_of(session, peer);
        if (!process) {
            rc =
                col_drain_process(&session->drain, peer->pid, peer->start, peer->program, &process);
            if (rc)
                break;
            process->rank = peer->rank;
            process->awaited = true;
            if (peer->start_ticks)
                process->start_ticks = peer->start_ticks;
        }
        if (peer->state == PEER_IS_ENDED && (process->awaited || !process->ended[0])) {
            note_end(process, peer);
        } else if (peer->state == PEER_IS_LOST && process->awaited) {
            process->awaited = false;
            note_unknown_end(process);
        }
    }
    return rc;
}

/* Whether the target of a peer is alive or still to be started. For a lost peer /proc is
 * asked. */
static bool is_running(const struct col_peer *peer)
{
    struct col_proc_stat stat;
    if (peer->state == PEER_IS_LOST && peer->pid)
        return col_proc_read_stat(peer->pid, &stat) == 0 && stat.state != 'Z' &&
               (!peer->start_ticks || stat.start_ticks == peer->start_ticks);
    return peer->state == PEER_IS_WAITING || peer->state == PEER_IS_WELCOME ||
           peer->state == PEER_IS_RUNNING;
}

unsigned col_leader_running(struct col_session *session)
{
    unsigned running = 0;
    for (unsigned i = 0; i < session->peers.count; i++)
        running += is_running(&session->peers.peer[i]);
    return running;
}

/* Ranks of the node that have not connected are waited for after everything else has ended: a
 * launcher may start them one after the other. */
bool col_leader_waits(struct col_session *session)
{
    if (session->peers.listener < 0)
        return false;
    if (col_leader_running(session)) {
        session->peers.waiting_since = 0;
        return true;
    }
    if (is_complete(session) || session->peers_taken_over)
        return false;
    if (!session->peers.waiting_since) {
        session->peers.waiting_since = col_clock_now();
        col_session_message(
            session, "%u of %lld ranks of this node have connected: waiting %lld s for the others",
            arrived(session), (long long)session->peers.job.node_ranks, COL_GRACE_NS / 1000000000);
    }
    return col_clock_now() - session->peers.waiting_since < COL_GRACE_NS;
}

void col_leader_over(struct col_session *session)
{
    struct peer_message message = {0};
    session->peers_over = true;
    if (session->peers.listener >= 0)
        close(session->peers.listener); /* a rank that connects now makes its own recording */
    session->peers.listener = -1;
    if (!session->stalled && session->db)
        col_leader_read(session);
    for (unsigned i = 0; i < session->peers.count; i++) {
        struct col_peer *peer = &session->peers.peer[i];
        if (peer->fd >= 0 && peer->state != PEER_IS_ENDED)
            col_peer_send(peer->fd, &message, PEER_OVER);
        hang_up(peer);
    }
    if (session->peers_poll >= 0)
        close(session->peers_poll);
    session->peers_poll = -1;
    /* Targets of peers of a former leader. */
    for (uint32_t i = 0; i < session->drain.process_count; i++) {
        struct col_process *process = session->drain.process[i];
        if (process->awaited)
            note_unknown_end(process);
    }
}

/* ---- afterwards ---------------------------------------------------------------------------------------------------------------- */

static void add_time(struct timeval *sum, const struct timeval *added)
{
    int64_t microseconds =
        (sum->tv_sec + added->tv_sec) * 1000000ll + sum->tv_usec + added->tv_usec;
    sum->tv_sec = microseconds / 1000000;
    sum->tv_usec = microseconds % 1000000;
}

/* Resident sets are not added: the largest one is kept, as getrusage does for children. */
void col_leader_sum(struct col_session *session)
{
    char *ended = session->result->ended;
    size_t size = sizeof session->result->ended, used = strlen(ended);
    struct rusage *sum = &session->usage;
    *sum = session->child_usage;
    session->worst = session->result->exit_code;
    for (unsigned i = 0; i < session->peers.count; i++) {
        const struct col_peer *peer = &session->peers.peer[i];
        char how[96] = "unknown";
        int code = 0;
        if (!peer->pid)
            continue;
        if (peer->state == PEER_IS_ENDED) {
            add_time(&sum->ru_utime, &peer->use.ru_utime);
            add_time(&sum->ru_stime, &peer->use.ru_stime);
            sum->ru_maxrss =
                peer->use.ru_maxrss > sum->ru_maxrss ? peer->use.ru_maxrss : sum->ru_maxrss;
            sum->ru_minflt += peer->use.ru_minflt;
            sum->ru_majflt += peer->use.ru_majflt;
            sum->ru_nvcsw += peer->use.ru_nvcsw;
            sum->ru_nivcsw += peer->use.ru_nivcsw;
            session->ended_at = peer->end > session->ended_at ? peer->end : session->ended_at;
            code = col_wait_status(peer->status, how, sizeof how);
        }
        if (peer->state == PEER_IS_ENDED && code == 0)
            continue;
        session->worst = session->worst ? session->worst : code;
        if (used + 64 < size)
            used += (size_t)snprintf(ended + used, size - used, "; rank %lld: %.40s",
                                     (long long)peer->rank, how);
    }
}
