/* SPDX-License-Identifier: Apache-2.0
 *
 * What identifies this machine: its CPU model and the boot it is running in.
 */
#ifndef COL_MACHINE_H
#define COL_MACHINE_H

#include <stddef.h>

/* Both write "" where the system does not say. */
void col_read_boot_id(char *text, size_t size);
void col_cpu_model(char *text, size_t size);

#endif
