/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: files that tacho cannot read, by their names and first bytes: which
 * program wrote such a file, and what to export or do instead.
 */
#ifndef STORE_IMPORT_KINDS_KINDS_H
#define STORE_IMPORT_KINDS_KINDS_H

#include <stdbool.h>
#include <stddef.h>

struct imp_kind {
    const char *what; /* "a Perfetto trace": "FILE: this is ..." */
    const char *hint; /* what to do instead */
    bool capture; /* a profile, which can be converted: in a folder it is a rank that is missing */
};

/* The kind of a file, NULL: none that tacho knows. `head`: its first bytes, unpacked if gzip.
 * `read_first`: of those kinds only that must be told from a trace that an importer would take. */
const struct imp_kind *imp_kind_of(const char *path, const unsigned char *head, size_t bytes,
                                   bool read_first);

/* Is it JSON whose beginning shows no event of a trace? */
bool imp_kind_no_events(const unsigned char *head, size_t bytes);

#endif
