/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes of the run are Python, and one look at all of their threads.
 */
#ifndef COL_PYTHON_LOOK_H
#define COL_PYTHON_LOOK_H

#include "profiler/collector/python/interpreter.h"
#include "profiler/collector/python/labels.h"
#include "profiler/collector/python/tasks.h"

#define COL_PYTHON_PROCESSES 512u
#define COL_PYTHON_TRIES     8u /* looks for an interpreter in one program, at growing intervals */

struct col_python_process {
    int32_t pid;
    uint64_t start_ticks;
    char program[64]; /* another one: the process has called exec */
    enum col_python_found found;
    const char *reason;
    unsigned tries;
    int64_t next_try;
    bool seen;
    struct col_python python;
    struct col_task task[COL_PYTHON_THREADS];
    unsigned tasks;
};

/* What one thread was doing: labels of its frames, innermost first. */
struct col_python_look {
    int64_t time;
    int32_t pid, tid;
    enum col_task_state state;
    bool cut;
    int count;
    uint32_t label[COL_PYTHON_DEPTH];
};

struct col_python_looker {
    struct col_python_process *process; /* COL_PYTHON_PROCESSES */
    size_t count;
    struct col_python_labels *labels;
    uint64_t torn, taken;
    uint64_t lost;       /* looks for which there was no memory, or no room for another label */
    const char *refused; /* why the first process whose frames cannot be read has none */
    unsigned version;    /* of the first that was found; 0: none */
};

bool col_python_looker_open(struct col_python_looker *looker);
void col_python_looker_close(struct col_python_looker *looker);
/* Looks for Python processes below this one. */
void col_python_looker_scan(struct col_python_looker *looker, int64_t now);
/* Looks at every thread; `take` gets what each that runs Python was doing. */
void col_python_looker_look(struct col_python_looker *looker,
                            void (*take)(void *ctx, const struct col_python_look *look), void *ctx);

#endif
