/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and sizes of the element types, from the one list in dtype.h.
 */
#include "libtrain/base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[LT_DTYPE_COUNT] = {
#define ROW(id, text, size, code) [LT_DTYPE_##id] = {(text), (size)},
    LT_DTYPE_MAP(ROW)
#undef ROW
};

int lt_dtype_find(const char *name)
{
    for (int i = 0; i < LT_DTYPE_COUNT; i++)
        if (strcmp(name, types[i].name) == 0)
            return i;
    return -1;
}

const char *lt_dtype_name(enum lt_dtype dtype)
{
    return types[dtype].name;
}

size_t lt_dtype_bytes(enum lt_dtype dtype)
{
    return types[dtype].bytes;
}
