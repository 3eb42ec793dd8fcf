/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes are remembered by number and time of start. A program may load Python later (a shell
 * that calls exec, a program that embeds it), so one without is asked again, each time later.
 */
#include "profiler/collector/python/look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"

#define DEEPEST  50       /* generations below the collector */
#define FIRST_NS 20000000 /* between two looks for an interpreter in a program, at first */
#define TRIES    3 /* attempts to read the frames of a thread that runs on while they are read */

bool col_python_looker_open(struct col_python_looker *looker)
{
    *looker = (struct col_python_looker){0};
    looker->process = calloc(COL_PYTHON_PROCESSES, sizeof *looker->process);
    looker->labels = col_python_labels_new();
    if (looker->process && looker->labels)
        return true;
    col_python_looker_close(looker);
    return false;
}

void col_python_looker_close(struct col_python_looker *looker)
{
    free(looker->process);
    col_python_labels_free(looker->labels);
    looker->process = NULL;
    looker->labels = NULL;
}

/* ---- processes ---------------------------------------------------------------------------- */

/* The entry of a process, made if it is new or if another one has its number now. NULL: no room. */
static struct col_python_process *process_of(struct col_python_looker *looker, int32_t pid,
                                             uint64_t start_ticks)
{
    size_t at = 0;
    while (at < looker->count && looker->process[at].pid != pid)
        at++;
    if (at == COL_PYTHON_PROCESSES)
        return NULL;
    struct col_python_process *process = &looker->process[at];
    looker->count += at == looker->count;
    if (process->pid != pid || process->start_ticks != start_ticks)
        *process = (struct col_python_process){.pid = pid, .start_ticks = start_ticks};
    return process;
}

/* Has the process called exec since the last scan? Compares the end of its program's path. */
static bool has_changed(struct col_python_process *process)
{
    char path[48], program[4096];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)process->pid);
    ssize_t length = readlink(path, program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = 0;
    size_t most = sizeof process->program - 1;
    const char *end = (size_t)length > most ? program + length - most : program;
    if (strcmp(end, process->program) == 0)
        return false;
    memcpy(process->program, end, strlen(end) + 1);
    return true;
}

/* Looks for an interpreter, when it is time. */
static void try_process(struct col_python_looker *looker, struct col_python_process *process,
                        int64_t now)
{
    if (has_changed(process)) {
        process->tries = 0;
        process->next_try = now;
        process->found = COL_PYTHON_NOT;
        process->tasks = 0;
    }
    if (process->found == COL_PYTHON_FOUND || process->tries >= COL_PYTHON_TRIES ||
        now < process->next_try)
        return;
    process->found = col_python_find(process->pid, &process->python, &process->reason);
    process->next_try = now + ((int64_t)FIRST_NS << 2 * process->tries++);
    if (process->found == COL_PYTHON_FOUND && !looker->version)
        looker->version = process->python.version;
    if (process->found == COL_PYTHON_REFUSED && !looker->refused)
        looker->refused = process->reason;
}

struct scan {
    struct col_python_looker *looker;
    int64_t now;
    int depth;
};

static void visit(void *ctx, int32_t pid)
{
    struct scan *scan = ctx;
    struct col_proc_stat stat;
    if (scan->depth >= DEEPEST || col_proc_read_stat(pid, &stat))
        return;
    struct col_python_process *process = process_of(scan->looker, pid, stat.start_ticks);
    if (process) {
        process->seen = true;
        try_process(scan->looker, process, scan->now);
    }
    scan->depth++;
    col_proc_children(pid, visit, scan);
    scan->depth--;
}

void col_python_looker_scan(struct col_python_looker *looker, int64_t now)
{
    struct scan scan = {.looker = looker, .now = now};
    size_t kept = 0;
    for (size_t i = 0; i < looker->count; i++)
        looker->process[i].seen = false;
    col_proc_children((int32_t)getpid(), visit, &scan);
    for (size_t i = 0; i < looker->count; i++)
        if (looker->process[i].seen && kept++ != i)
            looker->process[kept - 1] = looker->process[i];
    for (size_t i = kept; i < looker->count; i++)
        looker->process[i].pid = 0;
    looker->count = kept;
}

/* ---- looks -------------------------------------------------------------------------------- */

static struct col_task *task_of(struct col_python_process *process,
                                const struct col_python_thread *thread)
{
    for (unsigned i = 0; i < process->tasks; i++)
        if (process->task[i].pthread == thread->pthread)
            return &process->task[i];
    /* no room: threads that have ended hold it */
    if (process->tasks == COL_PYTHON_THREADS)
        process->tasks = 0;
    struct col_task *task = &process->task[process->tasks++];
    *task = (struct col_task){.pthread = thread->pthread, .tid = thread->tid};
    return task;
}

/* Fills in the labels of the frames of a thread. 0 or a negative errno. */
static int take_frames(struct col_python_looker *looker, const struct col_python_process *process,
                       const struct col_python_memory *memory,
                       const struct col_python_thread *thread, struct col_python_look *look)
{
    struct col_python_frame frame[COL_PYTHON_DEPTH];
    look->time = col_clock_now();
    int count = col_python_frames(&process->python, memory, thread, frame, &look->cut);
    for (int i = 0; i < count; i++) {
        int32_t label =
            col_python_label(looker->labels, process->pid, &process->python, memory, &frame[i]);
        if (label < 0)
            return label;
        look->label[i] = (uint32_t)label;
    }
    look->count = count;
    return count < 0 ? count : 0;
}

void col_python_looker_look(struct col_python_looker *looker,
                            void (*take)(void *ctx, const struct col_python_look *look), void *ctx)
{
    for (size_t i = 0; i < looker->count; i++) {
        struct col_python_process *process = &looker->process[i];
        const struct col_python_memory memory = {col_python_read_process, &process->pid};
        struct col_python_thread thread[COL_PYTHON_THREADS];
        struct col_python_look look = {.pid = process->pid};
        int threads =
            process->found == COL_PYTHON_FOUND
                ? col_python_threads(&process->python, &memory, thread, COL_PYTHON_THREADS)
                : 0;
        for (int k = 0; k < threads; k++) {
            struct col_task *task = task_of(process, &thread[k]);
            if (!col_task_look(task, process->pid, &memory, &look.state))
                continue;
            look.tid = task->tid;
            int rc = -EAGAIN;
            for (int tries = 0; tries < TRIES && rc == -EAGAIN; tries++)
                rc = take_frames(looker, process, &memory, &thread[k], &look);
            looker->torn += rc == -EAGAIN;
            looker->lost += rc == -ENOSPC || rc == -ENOMEM;
            if (rc || !look.count)
                continue;
            looker->taken++;
            take(ctx, &look);
        }
    }
}
