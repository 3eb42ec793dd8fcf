/* SPDX-License-Identifier: Apache-2.0
 *
 * How the recorders of a job on one node find each other: over a Unix socket whose name is made of
 * user and job. Whoever binds it is the leader; the others connect to it. The leader's work with
 * its peers is in run/leader.c, that of a peer in run/attach.c.
 */
#include "profiler/collector/job/peers.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/os/text.h"
#include "store/store.h"

#define PEER_MAGIC 0x54435052u   /* "TCPR" */
#define JOIN_NS    60000000000ll /* a leader measures the machine's peak before it answers */
/* Without an answer from a leader: the name of a live one is held by a socket that listens. */
#define SILENT_NS 1900000000ll
/* A rank that binds a name listens at once: a name that stays bound and refuses is held. */
#define HELD_NS 700000000ll
/* Between two looks whether a leader that does not answer was stopped, and how long it may be. */
#define LOOK_MS    250
#define STOPPED_NS 2000000000ll

void col_peers_init(struct col_peers *peers)
{
    memset(peers, 0, sizeof *peers);
    peers->listener = -1;
}

void col_peers_setup(struct col_peers *peers, const struct col_options *options)
{
    char folder[COL_PATH_MAX], real[COL_PATH_MAX];
    peers->is_known = col_job_own(&peers->job);
    const char *slash = options->output ? strrchr(options->output, '/') : NULL;
    snprintf(folder, sizeof folder, ".");
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - options->output) + 1,
                 options->output);
    if (!realpath(folder, real))
        snprintf(real, sizeof real, "%.4000s", folder); /* recording there will fail, and say why */
    const char *name = options->output ? options->output : "";
    snprintf(peers->path, sizeof peers->path, "%.3000s/%.1000s", real, slash ? slash + 1 : name);
}

/* The address of a session of the job: a name in the abstract namespace. */
static socklen_t name_of(const struct col_peers *peers, unsigned session,
                         struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "tacho-%u-%016llx-%u",
                 (unsigned)geteuid(), (unsigned long long)col_hash_text(peers->job.id), session);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int socket_new(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Does the process at the other end belong to the same user? *pid: which one it is; 0: not known.
 */
static bool is_own_user(int fd, int32_t *pid)
{
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    bool own = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
    *pid = who.pid;
    return own;
}

bool col_peer_send(int fd, struct peer_message *message, enum peer_type type)
{
    message->magic = PEER_MAGIC;
    message->bytes = sizeof *message;
    message->type = type;
    ssize_t sent;
    do {
        sent = send(fd, message, sizeof *message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN &&
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1000) <= 0)
            return false;
    } while (sent < 0 && (errno == EINTR || errno == EAGAIN));
    return sent == (ssize_t)sizeof *message;
}

/* Texts of the message are terminated here, so that callers need not trust the other side. */
int col_peer_receive(int fd, struct peer_message *message, int ms)
{
    int64_t until = col_clock_now() + (int64_t)ms * 1000000;
    for (;;) {
        ssize_t bytes = recv(fd, message, sizeof *message, 0);
        if (bytes == (ssize_t)sizeof *message && message->magic == PEER_MAGIC &&
            message->bytes == sizeof *message) {
            message->program[sizeof message->program - 1] = message->job[sizeof message->job - 1] =
                0;
            message->path[sizeof message->path - 1] =
                message->segments[sizeof message->segments - 1] = 0;
            return 1;
        }
        if (bytes >= 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
        int64_t left = ms < 0 ? 1000 : (until - col_clock_now()) / 1000000;
        if (ms >= 0 && left <= 0)
            return 0;
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)left);
    }
}

bool col_peers_bind(struct col_peers *peers)
{
    struct sockaddr_un address;
    socklen_t length = name_of(peers, peers->session, &address);
    int fd = socket_new();
    if (fd < 0)
        return false;
    if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, COL_PEERS_MAX) != 0) {
        close(fd);
        return false;
    }
    peers->listener = fd;
    return true;
}

void col_peers_close(struct col_peers *peers)
{
    if (peers->listener >= 0)
        close(peers->listener);
    peers->listener = -1;
    for (unsigned i = 0; i < peers->count; i++)
        if (peers->peer[i].fd >= 0)
            close(peers->peer[i].fd);
    free(peers->peer);
    peers->peer = NULL;
    peers->count = 0;
}

/* What became of the attempt to join a session. */
enum answer {
    ANSWER_NONE,     /* no leader */
    ANSWER_BUSY,     /* the queue of the socket is full */
    ANSWER_GONE,     /* the leader has just gone */
    ANSWER_STRANGER, /* another user holds the name */
    ANSWER_STOPPED,  /* the leader has been stopped (SIGSTOP, a debugger) for a while */
    ANSWER_REFUSED,
    ANSWER_WELCOME
};

/* Waits for the answer of a leader: as long as it may take one that measures the machine, but not
 * for one that is stopped. -1: it has hung up; 0: no answer; 1: an answer. */
static int hear_leader(int fd, int32_t pid, struct peer_message *answer, bool *stopped)
{
    int64_t now = col_clock_now(), until = now + JOIN_NS, ran = now;
    int got = 0;
    *stopped = false;
    while (!got && !*stopped && now < until) {
        struct col_proc_stat stat;
        got = col_peer_receive(fd, answer, LOOK_MS);
        now = col_clock_now();
        if (pid <= 0 || col_proc_read_stat(pid, &stat) != 0 ||
            (stat.state != 'T' && stat.state != 't'))
            ran = now;
        *stopped = now - ran > STOPPED_NS;
    }
    return got;
}

/* Asks the leader of a session to join it. */
static enum answer ask(struct col_peers *peers, unsigned session, struct peer_message *hello,
                       int *out, struct peer_message *welcome)
{
    struct sockaddr_un address;
    socklen_t length = name_of(peers, session, &address);
    int fd = socket_new();
    if (fd < 0)
        return ANSWER_NONE;
    enum answer answer = ANSWER_STRANGER;
    int32_t pid;
    bool stopped;
    if (connect(fd, (struct sockaddr *)&address, length) != 0) {
        answer = errno == EAGAIN ? ANSWER_BUSY : ANSWER_NONE;
    } else if (is_own_user(fd, &pid)) {
        snprintf(hello->job, sizeof hello->job, "%s", peers->job.id);
        snprintf(hello->path, sizeof hello->path, "%s", peers->path);
        int got =
            col_peer_send(fd, hello, PEER_HELLO) ? hear_leader(fd, pid, welcome, &stopped) : -1;
        answer = got < 0 ? ANSWER_GONE : ANSWER_REFUSED;
        if (got == 1 && welcome->type == PEER_WELCOME)
            answer = ANSWER_WELCOME;
        if (got == 0 && stopped) {
            answer = ANSWER_STOPPED;
            peers->stopped = pid;
        }
    }
    if (answer == ANSWER_WELCOME)
        *out = fd;
    else
        close(fd);
    return answer;
}

bool col_peers_call(struct col_peers *peers, unsigned session, struct peer_message *hello, int *fd,
                    struct peer_message *welcome)
{
    return ask(peers, session, hello, fd, welcome) == ANSWER_WELCOME;
}

/* The search for a leader. */
struct search {
    uint32_t held;                       /* bit of each session whose name another program holds */
    int64_t gone_at[COL_PEERS_SESSIONS]; /* since when its leader hangs up; 0: it does not */
    int64_t refused_at[COL_PEERS_SESSIONS]; /* since when it cannot be bound; 0: never tried */
    int64_t silent_at;                      /* time of the last sign of a leader */
};

/* Notes that the leader of a session has hung up. One that ends gives its name back; what goes on
 * to take calls and to hang up is no leader. */
static void note_gone(struct search *search, unsigned session, int64_t now)
{
    if (!search->gone_at[session])
        search->gone_at[session] = now;
    else if (now - search->gone_at[session] > SILENT_NS)
        search->held |= 1u << session;
}

/* Asks the sessions in turn. False: ask again, for a leader has just gone or is busy. *vacant: the
 * first one that has no leader. */
static bool ask_all(struct col_peers *peers, struct search *search, struct peer_message *hello,
                    int *fd, struct peer_message *welcome, unsigned *vacant)
{
    *vacant = COL_PEERS_SESSIONS;
    peers->again = false;
    for (unsigned i = 0; i < COL_PEERS_SESSIONS; i++) {
        if (search->held & 1u << i)
            continue;
        enum answer answer = ask(peers, i, hello, fd, welcome);
        if (answer == ANSWER_WELCOME)
            peers->session = i;
        if (answer == ANSWER_GONE || answer == ANSWER_REFUSED)
            search->silent_at = col_clock_now();
        if (answer == ANSWER_GONE)
            note_gone(search, i, search->silent_at);
        else
            search->gone_at[i] = 0;
        if (answer == ANSWER_STRANGER || answer == ANSWER_STOPPED)
            search->held |= 1u << i;
        if (answer == ANSWER_STOPPED)
            search->silent_at = col_clock_now();
        peers->again |= answer == ANSWER_REFUSED;
        if (answer == ANSWER_NONE && i < *vacant)
            *vacant = i;
        if (answer == ANSWER_WELCOME || answer == ANSWER_GONE || answer == ANSWER_BUSY)
            return answer == ANSWER_WELCOME;
    }
    return true;
}

/* Tries the sessions of the job from 0 on. A free name is bound; if another rank binds it at the
 * same time, everything is tried again, because that rank may be the leader to join. A name that
 * another program holds is passed over. */
enum col_join col_peers_join(struct col_peers *peers, struct peer_message *hello, int *fd,
                             struct peer_message *welcome)
{
    struct search search = {.silent_at = col_clock_now()};
    *fd = -1;
    while (peers->is_known && col_clock_now() - search.silent_at < SILENT_NS) {
        unsigned vacant;
        bool asked = ask_all(peers, &search, hello, fd, welcome, &vacant);
        peers->is_held = search.held != 0;
        if (*fd >= 0)
            return COL_JOIN_PEER;
        if (asked && vacant == COL_PEERS_SESSIONS)
            break;
        peers->session = vacant;
        if (asked && col_peers_bind(peers))
            return COL_JOIN_LEADER;
        int64_t *refused_at = &search.refused_at[asked ? vacant : 0], now = col_clock_now();
        if (asked && !*refused_at)
            *refused_at = now;
        else if (asked && now - *refused_at > HELD_NS)
            search.held |= 1u << vacant;
        col_sleep_ms(1); /* another process was faster: ask again */
    }
    peers->is_held |= peers->is_known && col_clock_now() - search.silent_at >= SILENT_NS;
    peers->session = 0;
    return COL_JOIN_LEADER; /* alone */
}
