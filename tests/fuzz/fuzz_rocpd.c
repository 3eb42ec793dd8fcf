/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole import of a rocpd database: SQLite's own parser, and what the importer makes of rows that
 * lie. Its seeds (run.sh) are small databases of both layouts.
 */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/tacho-fuzz-%ld.db", (long)getpid());
    FILE *f = fopen(path, "we"); /* SQLite does not open what has no name */
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
    fuzz_import(path);
    unlink(path);
    return 0;
}
