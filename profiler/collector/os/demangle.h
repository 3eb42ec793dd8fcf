/* SPDX-License-Identifier: Apache-2.0
 *
 * Readable names of C++ and Rust functions and of GPU kernels.
 */
#ifndef COL_DEMANGLE_H
#define COL_DEMANGLE_H

/* Returns a mangled C++ name as people write it, to be freed by the caller. NULL where `name` is
 * not mangled or this machine has no C++ runtime. */
char *col_demangle(const char *name);

#endif
