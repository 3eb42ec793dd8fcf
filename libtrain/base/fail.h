/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/: errors that many of its functions return.
 */
#ifndef LT_FAIL_H
#define LT_FAIL_H

struct tacho_error;

/* "out of memory". Returns TACHO_ENOMEM. */
int lt_no_memory(struct tacho_error *err);
/* "PATH: " and what errno says. Returns TACHO_EIO. */
int lt_fail_file(struct tacho_error *err, const char *hint, const char *path);

#endif
