/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that makes processes in every way there is, while its other threads record and register
 * names. Each process that records appends its books to --log as target_events does: pid tid thread
 * ranges range_ns marks startends startend_ns counters steps, with what it had recorded when it was
 * forked left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tacho_nvtx.h"

static const char usage[] =
    "target_forks [OPTIONS]: makes processes in every way\n"
    "  --fork N      N children by fork, each recording 20 ranges; a third of them ends by _exit,\n"
    "                a third by SIGKILL, a third by exit\n"
    "  --quiet N     N children by fork that record nothing\n"
    "  --raw N       N children by the system call clone, behind the back of libc\n"
    "  --vfork N     N children by vfork that run true\n"
    "  --handler N   N children by fork from a signal handler that interrupts recording\n"
    "  --daemon      a grandchild that closes all files, leaves the session and records\n"
    "  --noise       meanwhile two threads record and register names\n"
    "  --log FILE    append the books\n";

static const struct option options[] = {
    {"fork", 1, 0, 'f'},    {"quiet", 1, 0, 'q'},  {"raw", 1, 0, 'r'},   {"vfork", 1, 0, 'v'},
    {"handler", 1, 0, 'H'}, {"daemon", 0, 0, 'd'}, {"noise", 0, 0, 'n'}, {"log", 1, 0, 'L'},
    {"help", 0, 0, 'h'},    {0, 0, 0, 0}};

static const char *log_path;
static struct tacho_nvtx nvtx;
static nvtxStringHandle_t name;
static uint64_t ranges; /* of the main thread of this process */
static atomic_int stop;
static volatile sig_atomic_t handler_forks;
static volatile int handler_children;

static void record(int n)
{
    struct tacho_work w = {.flops = 1};
    for (int i = 0; i < n; i++) {
        if (i & 1)
            nvtxRangePushA("unregistered");
        else
            tacho_nvtx_push_work(&nvtx, name, &w);
        if (i & 1)
            nvtxRangePop();
        else
            tacho_nvtx_pop(&nvtx);
        ranges++;
    }
}

static void write_books(uint64_t count, long thread)
{
    char line[128];
    if (!log_path)
        return;
    int n = snprintf(line, sizeof line, "%d\t%d\t%ld\t%llu\t0\t0\t0\t0\t0\t0\n", (int)getpid(),
                     (int)syscall(SYS_gettid), thread, (unsigned long long)count);
    int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        _exit(3);
    close(fd);
}

static void child(long how)
{
    ranges = 0;
    stop = 1;
    /* A name known since before the fork, one registered here, and one of the parent's that is met
     * again. */
    record(18);
    nvtxStringHandle_t own = tacho_nvtx_name(&nvtx, "registered in the child");
    struct tacho_work w = {.flops = 2};
    tacho_nvtx_push_work(&nvtx, own, &w);
    tacho_nvtx_pop(&nvtx);
    ranges++;
    record(1);
    write_books(ranges, 1);
    if (how % 3 == 0)
        exit(0);
    if (how % 3 == 1)
        _exit(0);
    raise(SIGKILL);
}

static void reap(void)
{
    while (wait(NULL) > 0 || errno == EINTR)
        ;
}

static void forks(long n)
{
    for (long i = 0; i < n; i++) {
        nvtxRangePushA("around a fork");
        pid_t pid = fork();
        if (pid == 0)
            child(i);
        nvtxRangePop();
        ranges++;
        if (i % 16 == 15)
            reap();
    }
    reap();
}

static void quiet_forks(long n)
{
    for (long i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
}

static void raw_clones(long n)
{
    for (long i = 0; i < n; i++) {
        long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            child(3 * i + 1); /* the exit handlers of libc are not for such a child */
    }
    reap();
}

static void vforks(long n)
{
    for (volatile long i = 0; i < n; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        record(2);
    }
    reap();
}

/* The child goes on from wherever the handler interrupted it, which may be inside the recorder. */
static void on_alarm(int sig)
{
    (void)sig;
    if (handler_forks <= 0 || handler_children)
        return;
    int saved = errno;
    pid_t pid = fork();
    if (pid == 0) {
        handler_children = 1;
        ranges = 0;
        stop = 1;
    } else if (pid > 0) {
        handler_forks--;
    }
    errno = saved;
}

static void forks_in_handler(long n)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    handler_forks = (sig_atomic_t)n;
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    while (handler_forks > 0 && !handler_children)
        record(1);
    if (handler_children) { /* its first range may have been begun by the parent: those books cannot
                               be kept exactly */
        record(20);
        _exit(0);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    reap();
}

static void make_daemon(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork())
            _exit(0);
        for (int fd = 0; fd < 256; fd++)
            close(fd);
        child(0);
    }
    waitpid(pid, NULL, 0);
}

static void *noise(void *arg)
{
    uint64_t mine = 0;
    for (unsigned i = 0; !stop; i++) {
        char text[48];
        snprintf(text, sizeof text, "noise %ld %u", (long)(intptr_t)arg, i % 20000);
        nvtxStringHandle_t h = tacho_nvtx_name(&nvtx, text);
        struct tacho_work w = {.flops = i};
        tacho_nvtx_push_work(&nvtx, h, &w);
        tacho_nvtx_pop(&nvtx);
        mine++;
        if (i % 64 == 0)
            usleep(200);
    }
    write_books(mine, (long)(intptr_t)arg);
    return NULL;
}

int main(int argc, char **argv)
{
    long n_fork = 0, n_quiet = 0, n_raw = 0, n_vfork = 0, n_handler = 0;
    int with_daemon = 0, with_noise = 0;
    pthread_t thread[2];
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        long n = optarg ? atol(optarg) : 0;
        switch (c) {
        case 'f':
            n_fork = n;
            break;
        case 'q':
            n_quiet = n;
            break;
        case 'r':
            n_raw = n;
            break;
        case 'v':
            n_vfork = n;
            break;
        case 'H':
            n_handler = n;
            break;
        case 'd':
            with_daemon = 1;
            break;
        case 'n':
            with_noise = 1;
            break;
        case 'L':
            log_path = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    tacho_nvtx_open(&nvtx, "libtrain");
    name = tacho_nvtx_name(&nvtx, "registered before");
    record(5);
    for (long i = 0; i < 2 && with_noise; i++)
        pthread_create(&thread[i], NULL, noise, (void *)(intptr_t)(100 + i));
    forks(n_fork);
    quiet_forks(n_quiet);
    raw_clones(n_raw);
    vforks(n_vfork);
    if (with_daemon)
        make_daemon();
    forks_in_handler(n_handler);
    stop = 1;
    for (int i = 0; i < 2 && with_noise; i++)
        pthread_join(thread[i], NULL);
    write_books(ranges, 0);
    return 0;
}
