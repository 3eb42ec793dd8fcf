/* SPDX-License-Identifier: Apache-2.0
 *
 * Several `tacho run` of one job on one node make one recording. One of them is the collector (the
 * leader); each of the others (a peer) starts its own target with the leader's folder of segments,
 * waits for it and returns its exit code.
 *
 * They meet at a socket in the abstract namespace of Unix sockets: its name is made of user and
 * job, binding it is the lock, and it vanishes with the process that holds it, however that ends.
 * No folder has to be writable for it. Only processes of the same user are accepted (SO_PEERCRED).
 * Where they cannot meet (other user, other network namespace, a folder that the peer cannot see)
 * each makes a recording of its own.
 *
 * A message is one struct peer_message on a SOCK_SEQPACKET:
 *
 *   HELLO    peer to leader: rank, where it would record to, its processors; pid of its target if
 *            that runs already
 *   WELCOME  leader to peer: live folder and segments, once the leader's own target has started
 *   REFUSED  leader to peer: it belongs to another recording (another output, or the target of
 *            this rank runs already)
 *   STARTED  peer to leader: pid, before the target's exec
 *   NOTED    leader to peer: the counters of the target are open, exec may follow
 *   ENDED    peer to leader: status and resources
 *   OVER     leader to peer: the recording ends although targets go on; do not take over
 *
 * When a leader dies without OVER, the peer that binds the name first takes over (run/attach.c).
 */
#ifndef COL_PEERS_H
#define COL_PEERS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/job/job.h"

#define COL_PEERS_MAX      1024 /* of one node */
#define COL_PEERS_SESSIONS 32   /* recordings of one job at a time on one node */
/* How long the leader waits for the other ranks before it starts its own target, and for missing
 * ranks when everything else has ended. */
#define COL_GATHER_NS 1000000000ll
#define COL_GRACE_NS  3000000000ll

enum peer_type {
    PEER_HELLO = 1,
    PEER_WELCOME,
    PEER_REFUSED,
    PEER_STARTED,
    PEER_NOTED,
    PEER_ENDED,
    PEER_OVER
};

struct peer_message {
    uint32_t magic, bytes; /* bytes: sizeof of this struct; another build of tacho is refused */
    uint32_t type;
    int32_t pid, status; /* status: as of wait */
    int64_t rank, start, end;
    cpu_set_t cpus;
    struct rusage use;
    char program[128];
    char job[sizeof((struct col_job *)0)->id];
    char path[COL_PATH_MAX];     /* HELLO: where it would record to; WELCOME: the live folder */
    char segments[COL_PATH_MAX]; /* WELCOME */
};

enum peer_state {
    PEER_IS_WAITING, /* said HELLO before the leader had started */
    PEER_IS_WELCOME, /* its target has not started yet */
    PEER_IS_RUNNING,
    PEER_IS_ENDED,
    PEER_IS_LOST /* it died; its target may go on */
};

struct col_peer {
    enum peer_state state;
    int fd; /* -1: closed */
    int32_t pid, status;
    uint64_t start_ticks;
    int64_t rank, start, end;
    struct rusage use;
    cpu_set_t cpus;
    char program[128];
};

struct col_peers {
    struct col_job job;
    /* Where this process would record to. Ranks that record to other places are not joined. */
    char path[COL_PATH_MAX];
    int listener;     /* -1: alone */
    unsigned session; /* number of the socket's name, from 0 */
    bool again;       /* a live leader of the job refused: not the job's first recording */
    bool is_held;     /* another program holds a name of the job's sockets */
    int32_t stopped;  /* pid of a leader that was not waited for, because it is stopped; 0: none */
    bool is_known;    /* a launcher started this process: `job` is set */
    struct col_peer *peer;
    unsigned count;
    bool started;          /* the leader's own target runs: WELCOME may be said */
    int64_t waiting_since; /* for ranks that have not come, when all else has ended; 0 = not yet */
};

/* The result of joining. */
enum col_join {
    COL_JOIN_LEADER, /* `listener` is bound, or -1: this is no job */
    COL_JOIN_PEER    /* *fd is connected, *welcome came */
};

void col_peers_init(struct col_peers *peers);
/* Reads the job and the place of the recording from environment and options. */
void col_peers_setup(struct col_peers *peers, const struct col_options *options);
/* Looks for the leader of the job, or becomes it. `hello` has rank, pid and so on; magic, job and
 * path are filled in. */
enum col_join col_peers_join(struct col_peers *peers, struct peer_message *hello, int *fd,
                             struct peer_message *welcome);
/* Asks the leader of a session to join it. False: none exists, or it refused. */
bool col_peers_call(struct col_peers *peers, unsigned session, struct peer_message *hello, int *fd,
                    struct peer_message *welcome);
/* Tries to become the leader of session `peers->session`, whose leader died. */
bool col_peers_bind(struct col_peers *peers);
void col_peers_close(struct col_peers *peers);

/* Fills in what every message has, and sends it. False: the other side is gone. */
bool col_peer_send(int fd, struct peer_message *message, enum peer_type type);
/* Waits up to `ms` (-1: for ever) for a whole message. 1, 0: nothing yet, -1: the other side is
 * gone, or is not tacho of this build. */
int col_peer_receive(int fd, struct peer_message *message, int ms);

#endif
