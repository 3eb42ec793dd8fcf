/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread as the kernel sees it: its number, and whether it runs, waits for a core, or sleeps.
 */
#ifndef COL_PYTHON_TASKS_H
#define COL_PYTHON_TASKS_H

#include "profiler/collector/python/frames.h"

/* name, unit of the track */
#define COL_TASK_MAP(X) X(RUNNING, "running") X(RUNNABLE, "runnable") X(ASLEEP, "asleep")
enum col_task_state {
#define COL_TASK_ENUM(name, text) COL_TASK_##name,
    COL_TASK_MAP(COL_TASK_ENUM)
#undef COL_TASK_ENUM
        COL_TASK_STATES
};

/* One thread from look to look. */
struct col_task {
    uint64_t pthread;
    int32_t tid;          /* 0: not known yet */
    uint64_t ran, waited; /* ns, at the last look (/proc/PID/task/TID/schedstat) */
};

/* Looks at a thread. False: it is gone, or its number cannot be found. */
bool col_task_look(struct col_task *task, int32_t pid, const struct col_python_memory *memory,
                   enum col_task_state *state);

#endif
