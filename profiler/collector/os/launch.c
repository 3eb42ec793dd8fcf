/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the target and passes signals on to it. The child waits on a pipe until the parent has
 * opened its counters on it, and reports a failed exec over a second pipe: so the caller learns the
 * errno, and no counter misses the first instruction.
 */
#include "profiler/collector/os/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/collector/os/privileges.h"

/* Stopping and continuing keep their default action: the shell's job control sees one job. */
static const int passed_on[] = {SIGINT,  SIGTERM,  SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
                                SIGALRM, SIGWINCH, SIGPWR, SIGIO,   SIGXCPU, SIGCHLD};

static void allow_files(struct col_signals *signals)
{
    getrlimit(RLIMIT_NOFILE, &signals->old_files);
    struct rlimit most = signals->old_files;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
}

/* Signals become readable events, so that the loop handles them between two turns and never in the
 * middle of a write. */
int col_signals_begin(struct col_signals *signals, struct tacho_error *err)
{
    sigset_t set;
    memset(signals, 0, sizeof *signals);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&set, passed_on[i]);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        sigaddset(&set, number);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return tacho_fail(err, TACHO_EINTERNAL, NULL, "signalfd: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &set, &signals->old);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, &ignore, &signals->old_pipe);
    /* An inherited SIG_IGN would let the kernel reap children before their status is read. */
    sigaction(SIGCHLD, &normal, &signals->old_child);
    allow_files(signals);
    signals->active = true;
    return 0;
}

void col_signals_end(struct col_signals *signals)
{
    if (!signals->active)
        return;
    close(signals->fd);
    signals->fd = -1;
    sigaction(SIGPIPE, &signals->old_pipe, NULL);
    sigaction(SIGCHLD, &signals->old_child, NULL);
    setrlimit(RLIMIT_NOFILE, &signals->old_files);
    /* Pending signals are discarded: delivered now, they would kill tacho after the file is
     * finished. */
    struct timespec none = {0, 0};
    sigset_t pending;
    sigemptyset(&pending);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&pending, passed_on[i]);
    while (sigtimedwait(&pending, NULL, &none) > 0)
        continue;
    sigprocmask(SIG_SETMASK, &signals->old, NULL);
    signals->active = false;
}

/* Reads `bytes` at once; false at the end of a pipe, and where there is less. */
static bool read_whole(int fd, void *to, size_t bytes)
{
    ssize_t got;
    do
        got = read(fd, to, bytes);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)bytes;
}

bool col_signals_next(struct col_signals *signals, struct signalfd_siginfo *info)
{
    return read_whole(signals->fd, info, sizeof *info);
}

bool col_signal_by_process(const struct signalfd_siginfo *info)
{
    /* SI_USER, SI_QUEUE, SI_TKILL and so on; codes of the kernel are positive */
    return info->ssi_code <= 0;
}

/* What the child does between fork and exec: it waits for the parent's go, restores the signals
 * that tacho changed for itself, applies the environment and becomes the target. It does not
 * return. */
static void child_main(char *const *argv, const struct col_env *env, size_t env_count,
                       const struct col_signals *signals, int go_fd, int report_fd)
{
    char byte;
    if (!read_whole(go_fd, &byte, 1))
        _exit(125); /* the parent is gone */
    for (size_t i = 0; i < env_count; i++)
        if (env[i].value)
            setenv(env[i].name, env[i].value, 1);
        else
            unsetenv(env[i].name);
    sigaction(SIGPIPE, &signals->old_pipe, NULL);
    sigaction(SIGCHLD, &signals->old_child, NULL);
    setrlimit(RLIMIT_NOFILE, &signals->old_files);
    sigprocmask(SIG_SETMASK, &signals->old, NULL);
    col_privileges_keep_from_target();
    execvp(argv[0], argv);
    int error = errno;
    ssize_t written = write(report_fd, &error, sizeof error);
    (void)written;
    _exit(error == ENOENT ? 127 : 126);
}

/* What to do about a program that could not be started; NULL where there is nothing to say. */
static const char *hint_for(const char *program, int error)
{
    if (error == ENOENT && strchr(program, '/') && access(program, F_OK) == 0)
        return "the file is there, but not the interpreter of its first line, or the loader that "
               "it was linked for";
    switch (error) {
    case ENOENT:
        return "is it spelled right, and in PATH?";
    case EACCES:
        return "is it a program, and may you execute it?";
    case ENOEXEC:
        return "is it a program for this machine? A script needs a first line like #!/bin/sh";
    case E2BIG:
        return "its arguments and the environment together are too long";
    default:
        return NULL;
    }
}

int col_launch(char *const *argv, const struct col_env *env, size_t env_count,
               const struct col_signals *signals, void (*prepare)(void *ctx, pid_t pid), void *ctx,
               pid_t *pid, int *error, struct tacho_error *err)
{
    int go[2] = {-1, -1}, report[2] = {-1, -1}, rc = 0;
    *error = 0;
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
        rc = tacho_fail(err, TACHO_EINTERNAL, NULL, "pipe: %s", strerror(errno));
        goto out;
    }
    *pid = fork();
    if (*pid < 0) {
        rc = tacho_fail(err, TACHO_EINTERNAL, "too many processes?", "fork: %s", strerror(errno));
        goto out;
    }
    if (*pid == 0) {
        close(go[1]);
        close(report[0]);
        child_main(argv, env, env_count, signals, go[0], report[1]);
    }
    close(go[0]);
    close(report[1]);
    go[0] = report[1] = -1;
    if (prepare)
        prepare(ctx, *pid);
    ssize_t written = write(go[1], "g", 1);
    (void)written;
    if (read_whole(report[0], error, sizeof *error)) {
        while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        int code = *error == ENOENT ? TACHO_ENOTFOUND : TACHO_EDENIED;
        rc = tacho_fail(err, code, hint_for(argv[0], *error), "%s: %s", *argv[0] ? argv[0] : "''",
                        strerror(*error));
    }
out:
    for (int i = 0; i < 2; i++) {
        if (go[i] >= 0)
            close(go[i]);
        if (report[i] >= 0)
            close(report[i]);
    }
    return rc;
}

/* ---- how it ended -------------------------------------------------------------------------------------------------------- */

/* The name of a signal; glibc has a function for it only since 2.32. */
static const char *signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } known[] = {
#define ROW(x) {SIG##x, #x},
        ROW(HUP) ROW(INT) ROW(QUIT) ROW(ILL) ROW(TRAP) ROW(ABRT) ROW(BUS) ROW(FPE) ROW(KILL)
            ROW(USR1) ROW(SEGV) ROW(USR2) ROW(PIPE) ROW(ALRM) ROW(TERM) ROW(STKFLT) ROW(CHLD)
                ROW(CONT) ROW(STOP) ROW(TSTP) ROW(TTIN) ROW(TTOU) ROW(URG) ROW(XCPU) ROW(XFSZ)
                    ROW(VTALRM) ROW(PROF) ROW(WINCH) ROW(POLL) ROW(PWR) ROW(SYS)
#undef ROW
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number)
            return known[i].name;
    return NULL;
}

void col_signal_text(int number, char *text, size_t size)
{
    const char *name = signal_name(number);
    if (name)
        snprintf(text, size, "signal %d (%s)", number, name);
    else
        snprintf(text, size, "signal %d", number);
}

int col_wait_status(int status, char *ended, size_t size)
{
    if (WIFSIGNALED(status)) {
        col_signal_text(WTERMSIG(status), ended, size);
        return 128 + WTERMSIG(status);
    }
    snprintf(ended, size, "exit %d", WEXITSTATUS(status));
    return WEXITSTATUS(status);
}
