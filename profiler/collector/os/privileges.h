/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recorder gives up once its target runs, and what it does not pass on to it.
 */
#ifndef COL_PRIVILEGES_H
#define COL_PRIVILEGES_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef CAP_PERFMON /* headers before Linux 5.8 */
#define CAP_PERFMON 38
#endif

/* May this thread do what the capability (CAP_*) stands for? Root in a container often may not. */
bool col_privileges_have(int capability);

/* Drops every capability (CAP_*) of this thread, and of those that it starts later, but for these.
 * No program that is started later gets one back. Does nothing for a user without capabilities. */
void col_privileges_keep(const int *capabilities, size_t count);

/* Of the program that this process becomes next: CAP_PERFMON is not passed on to it where a user's
 * recorder was given it as an ambient capability. It is the recorder that counts. */
void col_privileges_keep_from_target(void);

/* The same as above but for what recording needs: files in folders of others, signals and /proc of
 * processes that changed their user, and performance counters. The target keeps what it had. */
void col_privileges_drop(void);

#endif
