/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole import of a file of another producer, through both threads into a file in memory: a
 * target for each importer of files that are read as a stream (FUZZ_IMPORTS in the Makefile). Its
 * seeds (run.sh) say which importer is meant.
 */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    fuzz_import(path);
    close(fd);
    return 0;
}
