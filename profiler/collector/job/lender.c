/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector's side of a loan: checks who asks, makes an empty file, sends its descriptor, and
 * gives the file the name of a pool when the process says that it is complete.
 */
#include "profiler/collector/job/lender.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"
#include "profiler/wire.h"
#include "store/files.h"

#define ANCESTORS_MAX 1000 /* between a process and the collector */
#define NUMBERS_MAX   1000 /* pools of one pid */

void col_lender_init(struct col_lender *lender)
{
    *lender = (struct col_lender){.listener = -1, .pools = -1};
}

void col_lender_open(struct col_lender *lender, int pools, const char *run_id)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *name = address.sun_path + 1;
    int length = snprintf(name, sizeof address.sun_path - 1, "tacho-lender-%.32s", run_id);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    col_lender_init(lender);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, COL_LOANS_MAX) != 0) {
        close(fd);
        return;
    }
    lender->listener = fd;
    lender->pools = pools;
    snprintf(lender->name, sizeof lender->name, "%u:%.64s", (unsigned)geteuid(), name);
}

/* Is the process a descendant of this one? *start_ticks: when it started. */
static bool is_of_the_run(int32_t pid, uint64_t *start_ticks)
{
    struct col_proc_stat stat = {.parent = pid};
    for (int i = 0; i < ANCESTORS_MAX && stat.parent > 1; i++) {
        if (stat.parent == getpid())
            return i > 0;
        if (col_proc_read_stat(stat.parent, &stat) != 0)
            return false;
        if (i == 0)
            *start_ticks = stat.start_ticks;
    }
    return false;
}

/* Makes "new.PID.N" with the first N of which neither that nor the pool exists. */
static int file_create(const struct col_lender *lender, int32_t pid, char *file, size_t size)
{
    for (int number = 0; number < NUMBERS_MAX; number++) {
        char pool[32];
        snprintf(pool, sizeof pool, WIRE_PREFIX "%d.%d", (int)pid, number);
        if (faccessat(lender->pools, pool, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        snprintf(file, size, WIRE_NEW "%d.%d", (int)pid, number);
        int fd = store_file_open(lender->pools, file, O_RDWR | O_CREAT | O_EXCL);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static bool answer(int connection, const struct wire_loan *loan, int fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    struct iovec text = {(void *)(uintptr_t)loan, sizeof *loan};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *loan;
}

/* A process asks. False: the connection is of no more use. */
static bool lend(struct col_lender *lender, int connection)
{
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    struct wire_loan reply = {.magic = WIRE_LOAN_MAGIC};
    struct col_loan *loan = &lender->loan[lender->count];
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 ||
        !is_of_the_run(who.pid, &reply.start_ticks))
        return false; /* a stranger changes nothing in the file, not even a count */
    int fd = lender->count < COL_LOANS_MAX
                 ? file_create(lender, who.pid, loan->file, sizeof loan->file)
                 : -1;
    if (fd >= 0)
        reply.pid = (uint32_t)who.pid;
    bool lent = answer(connection, &reply, fd) && fd >= 0;
    lender->refused += !lent;
    if (lent) {
        loan->connection = connection;
        lender->count++;
    } else if (fd >= 0) {
        store_file_remove(lender->pools, loan->file);
    }
    if (fd >= 0)
        close(fd);
    return lent;
}

/* The process has said that its pool is complete, or has gone. True when the loan is over. */
static bool settle(struct col_lender *lender, const struct col_loan *loan)
{
    char said, pool[32];
    ssize_t bytes = recv(loan->connection, &said, 1, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    snprintf(pool, sizeof pool, WIRE_PREFIX "%s", loan->file + strlen(WIRE_NEW));
    bool is_pool = bytes == 1 &&
                   renameat2(lender->pools, loan->file, lender->pools, pool, RENAME_NOREPLACE) == 0;
    if (!is_pool)
        store_file_remove(lender->pools, loan->file);
    lender->refused += bytes == 1 && !is_pool; /* it records where nobody reads */
    close(loan->connection);
    return true;
}

void col_lender_settle(struct col_lender *lender)
{
    for (unsigned i = lender->count; i-- > 0;)
        if (settle(lender, &lender->loan[i]))
            lender->loan[i] = lender->loan[--lender->count];
}

void col_lender_turn(struct col_lender *lender)
{
    int connection;
    while (lender->listener >= 0 &&
           (connection = accept4(lender->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        if (!lend(lender, connection))
            close(connection);
    col_lender_settle(lender);
}

void col_lender_close(struct col_lender *lender)
{
    if (lender->listener >= 0)
        close(lender->listener);
    for (unsigned i = 0; i < lender->count; i++)
        close(lender->loan[i].connection);
    col_lender_init(lender);
}
