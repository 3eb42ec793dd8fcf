// SPDX-License-Identifier: Apache-2.0
#include "libtrain/base/fail.h"

#include <errno.h>
#include <string.h>

#include "tacho_error.h"

int lt_fail_file(struct tacho_error *err, const char *hint, const char *path)
{
    return tacho_fail(err, TACHO_EIO, hint, "%s: %s", path, strerror(errno));
}
