/* SPDX-License-Identifier: Apache-2.0
 *
 * Used wherever a file is named after a run, a job or a machine, or lies beside another one.
 */
#include "profiler/collector/os/text.h"

#include <string.h>

#include "tacho_hash.h"

bool col_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), suffix = strlen(end);
    return length >= suffix && strcmp(text + length - suffix, end) == 0;
}

const char *col_folder_of(const char *path, int *length)
{
    const char *slash = strrchr(path, '/');
    *length = slash ? (int)(slash - path) : 1;
    return slash ? path : ".";
}

uint64_t col_hash_text(const char *text)
{
    return tacho_hash_text(TACHO_HASH_BEGIN, text);
}
