/* SPDX-License-Identifier: Apache-2.0
 *
 * A file for the pool of a process that may not make one itself, because it changed its user or its
 * root: the collector lends it (profiler/wire.h).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "profiler/agent/core/agent.h"

#define ANSWER_S 10 /* that a thread waits for the collector, at most: it may be short of CPU */

void agent_lender_setup(const char *lender)
{
    char *end = NULL;
    unsigned long user = lender ? strtoul(lender, &end, 10) : 0;
    if (!end || end == lender || *end != ':' || strlen(end + 1) >= sizeof agent_setup.lender)
        return;
    agent_setup.lender_user = (uint32_t)user;
    memcpy(agent_setup.lender, end + 1, strlen(end + 1) + 1);
}

/* A connection to the collector; -1: none. Any user may bind a free name, so the other end must
 * belong to the collector's user. */
static int lender_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(agent_setup.lender);
    struct timeval wait = {.tv_sec = ANSWER_S};
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    int fd = length ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0)
        return -1;
    memcpy(address.sun_path + 1, agent_setup.lender, length);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
        who.uid == agent_setup.lender_user)
        return fd;
    close(fd);
    return -1;
}

/* Receives the answer and its descriptor; -1: refused, or no answer in time. */
static int loan_receive(int connection, struct wire_loan *answer)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec text = {answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    int fd = -1;
    ssize_t bytes = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = bytes < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    if (fd < 0 || (bytes == (ssize_t)sizeof *answer && answer->magic == WIRE_LOAN_MAGIC))
        return fd;
    close(fd);
    return -1;
}

int agent_lender_ask(struct agent_loan *loan)
{
    struct wire_loan answer = {0};
    loan->connection = lender_connect();
    if (loan->connection < 0)
        return -1;
    int fd = loan_receive(loan->connection, &answer);
    if (fd < 0)
        agent_lender_end(loan, false);
    loan->pid = answer.pid;
    loan->start_ticks = answer.start_ticks;
    return fd;
}

bool agent_lender_end(struct agent_loan *loan, bool complete)
{
    bool told = complete && send(loan->connection, "", 1, MSG_NOSIGNAL) == 1;
    close(loan->connection);
    loan->connection = -1;
    return told;
}
