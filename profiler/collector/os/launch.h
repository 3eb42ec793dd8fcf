/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting the target, the signals between it, tacho and the terminal, and how it ended.
 */
#ifndef COL_LAUNCH_H
#define COL_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include "tacho_error.h"

struct col_signals {
    int fd;       /* signalfd */
    sigset_t old; /* mask of before, given to the target */
    struct sigaction old_pipe, old_child;
    struct rlimit old_files; /* of descriptors, given to the target */
    bool active;
};

/* Blocks the signals that are passed on, and reads them from a descriptor; ignores SIGPIPE; makes
 * SIGCHLD count. Allows itself as many descriptors as it may have: one for each process that is
 * recorded. */
int col_signals_begin(struct col_signals *signals, struct tacho_error *err);
void col_signals_end(struct col_signals *signals);
/* The next pending signal; false if none exists. */
bool col_signals_next(struct col_signals *signals, struct signalfd_siginfo *info);
/* Was it sent by a process (to us alone, or to our group), rather than by the kernel (terminal) to
 * the whole foreground group?
 */
bool col_signal_by_process(const struct signalfd_siginfo *info);

struct col_env {
    const char *name, *value; /* value NULL: removed */
};

/* Starts argv with these changes to the environment, in our process group, with our descriptors
 * 0-2. `prepare` runs in the parent when the child exists and has not called exec yet. Returns 0
 * and the pid; or a code with *error the errno of exec (0: something else failed), and no child is
 * left. */
int col_launch(char *const *argv, const struct col_env *env, size_t env_count,
               const struct col_signals *signals, void (*prepare)(void *ctx, pid_t pid), void *ctx,
               pid_t *pid, int *error, struct tacho_error *err);

/* "signal 9 (KILL)", or without the name of one that has none. */
void col_signal_text(int number, char *text, size_t size);
/* Exit code of a status of wait, and the status in words: "exit 1", "signal 9 (KILL)". */
int col_wait_status(int status, char *ended, size_t size);

#endif
