/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole import of a Kineto file, through both threads into a file in memory. What must hold: it ends, with rows or with an
 * error that has words; and a run that comes out can be opened.
 */
#include <string.h>

#include "store/import/import.h"
#include "store/store.h"
#include "tests/fuzz/fuzz.h"

static int on_slice(void *ctx, const struct store_slice *x)
{
    (void)ctx;
    int64_t end;
    if (x->dur != STORE_ABSENT && (x->dur < 0 || __builtin_add_overflow(x->start, x->dur, &end)))
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], out[64];
    int fd = fuzz_file(data, size, path);
    const char *in[] = {path};
    struct store_import_options o = {.in = in, .in_count = 1, .out = out};
    struct store_import_result r;
    struct tacho_error err = {0};
    snprintf(out, sizeof out, "/dev/shm/tacho-fuzz-%ld.tacho", (long)getpid());
    unlink(out);
    int rc = store_import(&o, &r, &err);
    if (rc && !err.what[0])
        abort();
    if (!rc) {
        store_reader *reader;
        if (store_open(out, &reader, &err) || store_slice_each(reader, 1, on_slice, NULL))
            abort();
        store_reader_close(reader);
    }
    unlink(out);
    close(fd);
    return 0;
}
