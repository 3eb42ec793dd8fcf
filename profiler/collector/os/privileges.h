/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recorder of root gives up once its target runs.
 */
#ifndef COL_PRIVILEGES_H
#define COL_PRIVILEGES_H

#include <stddef.h>

/* Drops every capability (CAP_*) of this thread, and of those that it starts later, but for these.
 * No program that is started later gets one back. Does nothing for a user without capabilities. */
void col_privileges_keep(const int *capabilities, size_t count);

/* The same but for what recording needs: files in folders of others, signals and /proc of processes
 * that changed their user, and performance counters. The target keeps what it had. */
void col_privileges_drop(void);

#endif
