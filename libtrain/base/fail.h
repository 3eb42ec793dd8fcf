/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/: errors that many of its functions return.
 */
#ifndef LT_FAIL_H
#define LT_FAIL_H

#include "tacho_error.h"

/* "out of memory". Returns TACHO_ENOMEM. */
static inline int lt_no_memory(struct tacho_error *err)
{
    tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    return TACHO_ENOMEM;
}

/* "PATH: " and what errno says. Returns TACHO_EIO. */
int lt_fail_file(struct tacho_error *err, const char *hint, const char *path);

#endif
