/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole import of an Nsight export from the bytes of its file: mostly SQLite's own parser, and
 * what the importer makes of pages that lie. fuzz_nsight_rows.c gets behind it.
 */
#include "fuzz_import.h"
#include "store/import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/tacho-fuzz-%ld.sqlite", (long)getpid());
    FILE *f = fopen(path, "we"); /* SQLite does not open what has no name */
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
    fuzz_import(path);
    unlink(path);
    return 0;
}
