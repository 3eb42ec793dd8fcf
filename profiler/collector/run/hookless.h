/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of PyTorch that run without the Python hook: Python was told to ignore its environment,
 * or the environment was changed on the way to it. They are looked for in /proc, now and then,
 * until one is found.
 */
#ifndef COL_HOOKLESS_H
#define COL_HOOKLESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profiler/collector/collector.h"

struct col_hookless {
    char folder[COL_PATH_MAX]; /* of the hook; empty: it is not used, and nothing is looked for */
    int64_t next;              /* time of the next look */
    const char *reason;        /* why a process has PyTorch without the hook; NULL: none is known */
    bool was_noted;            /* the file has it */
};

/* `library`: the path of libtacho.so, beside which the hook is. */
void col_hookless_init(struct col_hookless *hookless, const char *library, bool no_hook);
/* Looks, when it is time, at the processes below `child`. True when one is found. */
bool col_hookless_look(struct col_hookless *hookless, pid_t child, int64_t now);
/* Why Python does not import the hook at its start, as a clause with the remedy; NULL: it does, as
 * far as this shows. `command` and `environment` are texts of /proc, strings that each end with a
 * zero byte. */
const char *col_hookless_reason(const char *command, size_t command_length, const char *environment,
                                size_t environment_length, const char *folder);

#endif
