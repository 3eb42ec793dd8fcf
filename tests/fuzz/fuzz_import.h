/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of any import: it ends, with rows or with an error that has words; and a run that
 * comes out can be opened and has no interval that ends before it starts; of a memory snapshot,
 * that its analysis ends, too.
 */
#ifndef FUZZ_IMPORT_H
#define FUZZ_IMPORT_H

#include <errno.h>
#include <string.h>

#include "analyzers/analyzers.h"
#include "fuzz.h"
#include "store/import/import.h"
#include "store/store.h"

static int fuzz_on_slice(void *ctx, const struct store_slice *x)
{
    (void)ctx;
    int64_t end;
    if (x->dur != STORE_ABSENT && (x->dur < 0 || __builtin_add_overflow(x->start, x->dur, &end)))
        abort();
    return 0;
}

/* The replay of an allocator's history walks lists that the file decides. */
static inline void fuzz_analyze(store_reader *reader)
{
    struct an_options options = {.file = "fuzzed"};
    struct an_result *result = NULL;
    struct tacho_error err = {0};
    if (an_analyze(reader, &options, &result, &err) && !err.what[0])
        abort();
    an_result_free(result);
}

static inline void fuzz_import(const char *path)
{
    char out[64];
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
        if (store_open(out, &reader, &err) || store_slice_each(reader, 1, fuzz_on_slice, NULL))
            abort();
        if (!strcmp(program_invocation_short_name, "fuzz_pickle"))
            fuzz_analyze(reader);
        store_reader_close(reader);
    }
    unlink(out);
}

#endif
