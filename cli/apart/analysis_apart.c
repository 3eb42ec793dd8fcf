/* SPDX-License-Identifier: Apache-2.0
 *
 * The child shares a room with its parent (analyzers.h), into which it puts the result; waitpid()
 * says when. It prints nothing: standard streams of the dashboard are a terminal.
 */
#include "cli/apart/analysis_apart.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM_LEAST 268435456 /* bytes of a result, whatever the run holds */
#define ROOM_SLICE 64        /* ... and for each slice; what is not used costs nothing */
#define NEED_SLICE 400       /* bytes that an analysis needs for a slice while it works */
#define SHARE_MOST 0.5       /* of the memory that is available */
#define NICE_LAST  19

/* Bytes that programs can take before the machine has to swap; -1: not known. */
static double available_bytes(void)
{
    char line[128];
    int64_t kib = -1;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kib < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNd64 " kB", &kib) != 1)
            kib = -1;
    if (file)
        fclose(file);
    return kib < 0 ? -1 : (double)kib * 1024;
}

/* Handlers are the dashboard's, and restore its terminal. */
static void drop_handlers(void)
{
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
}

static void drop_streams(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; nothing >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(nothing, fd);
}

/* Makes this process the first that the kernel kills where memory is short. */
static void offer_memory(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "1000", 4) != 4)
        errno = 0; /* then it is as likely as others */
    close(fd);
}

_Noreturn static void run_child(struct an_room *room, const char *path, pid_t parent,
                                const struct an_options *options)
{
    drop_handlers();
    drop_streams();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpriority(PRIO_PROCESS, 0, NICE_LAST);
    offer_memory();
    an_room_fill(room, path, options);
    _exit(0);
}

int cli_analysis_begin(struct cli_analysis *analysis, const char *path, int64_t slices,
                       const struct an_options *options, struct tacho_error *err)
{
    double available = available_bytes();
    cli_analysis_end(analysis);
    if (available >= 0 && (double)slices * NEED_SLICE > SHARE_MOST * available)
        return tacho_fail(err, TACHO_ENOMEM, NULL,
                          "the whole run needs too much of the memory that is available");
    analysis->room = an_room_new(ROOM_LEAST + (size_t)slices * ROOM_SLICE);
    if (!analysis->room)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "no room for the result of the whole run");
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        run_child(analysis->room, path, parent, options);
    if (child > 0) {
        analysis->child = child;
        return 0;
    }
    int os = errno;
    cli_analysis_end(analysis);
    return tacho_fail(err, tacho_error_of_errno(os), tacho_error_hint(os, NULL), "%s: %s", path,
                      strerror(os));
}

int cli_analysis_take(struct cli_analysis *analysis, struct an_result **out,
                      struct tacho_error *err)
{
    int status = 0;
    *out = NULL;
    pid_t ended = waitpid(analysis->child, &status, WNOHANG);
    if (!ended)
        return 0;
    struct an_room *room = analysis->room;
    *analysis = (struct cli_analysis){.room = NULL};
    if (ended > 0 && WIFSIGNALED(status)) {
        an_room_free(room);
        if (WTERMSIG(status) != SIGKILL)
            return tacho_fail(err, TACHO_EINTERNAL, NULL, "the analysis of the whole run crashed");
        return tacho_fail(err, TACHO_ENOMEM, NULL, "the analysis of the whole run was killed");
    }
    return an_room_take(room, out, err); /* also where SIGCHLD is ignored, and nothing is known */
}

void cli_analysis_end(struct cli_analysis *analysis)
{
    if (analysis->child) {
        kill(analysis->child, SIGKILL);
        waitpid(analysis->child, NULL, 0);
    }
    an_room_free(analysis->room);
    *analysis = (struct cli_analysis){.room = NULL};
}
