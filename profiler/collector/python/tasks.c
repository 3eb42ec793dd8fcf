/* SPDX-License-Identifier: Apache-2.0
 *
 * Python before 3.11 knows its threads by pthread_t only, and a forked child may keep the number of
 * its parent's thread. In both cases the number is looked for in the C library's description of the
 * thread, to which a pthread_t points: the word there that is the number of a thread of the
 * process.
 */
#include "profiler/collector/python/tasks.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/os/proc.h"

#define TASKS_MOST  256u
#define DESCRIPTION 1024u /* bytes of it that are looked at */

/* Reads the numbers of the threads of a process. */
static size_t list_tasks(int32_t pid, int32_t *tid, size_t most)
{
    char path[48];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && count < most && (entry = readdir(folder));) {
        long number = strtol(entry->d_name, NULL, 10);
        if (number > 0 && number < INT32_MAX)
            tid[count++] = (int32_t)number;
    }
    if (folder)
        closedir(folder);
    return count;
}

/* The number of the thread with this pthread_t; 0: it cannot be found. */
static int32_t find_tid(int32_t pid, uint64_t pthread, const struct col_python_memory *memory)
{
    int32_t tid[TASKS_MOST], word[DESCRIPTION / sizeof(int32_t)];
    size_t count = list_tasks(pid, tid, TASKS_MOST);
    if (count == 1)
        return tid[0];
    if (!count || !pthread || memory->read(memory->ctx, pthread, word, sizeof word))
        return 0;
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        for (size_t k = 0; k < count; k++)
            if (word[i] == tid[k])
                return tid[k];
    return 0;
}

/* The letter of the state of a thread; 0: there is no such thread. */
static char letter_of(int32_t pid, int32_t tid)
{
    char path[64], text[1024];
    struct col_proc_stat stat;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    if (col_proc_read(path, text, sizeof text) <= 0 || col_proc_parse_stat(text, &stat))
        return 0;
    return stat.state;
}

/* Has the thread waited for a core for longer than it ran, since the last look? */
static bool waits_for_core(struct col_task *task, int32_t pid)
{
    char path[64], text[128];
    uint64_t ran, waited;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid, (int)task->tid);
    if (col_proc_read(path, text, sizeof text) <= 0 ||
        sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) != 2)
        return false;
    bool is_later = task->ran || task->waited;
    bool waits = is_later && waited - task->waited > ran - task->ran;
    task->ran = ran;
    task->waited = waited;
    return waits;
}

bool col_task_look(struct col_task *task, int32_t pid, const struct col_python_memory *memory,
                   enum col_task_state *state)
{
    char letter = task->tid ? letter_of(pid, task->tid) : 0;
    if (!letter) {
        task->tid = find_tid(pid, task->pthread, memory);
        letter = task->tid ? letter_of(pid, task->tid) : 0;
    }
    if (!letter || strchr("ZXx", letter))
        return false;
    bool waits = waits_for_core(task, pid);
    *state = COL_TASK_ASLEEP;
    if (letter == 'R')
        *state = waits ? COL_TASK_RUNNABLE : COL_TASK_RUNNING;
    return true;
}
