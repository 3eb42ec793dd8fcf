/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: a whole file in memory, unpacked, for formats whose parts refer to each
 * other.
 */
#ifndef STORE_IMPORT_INPUT_WHOLE_H
#define STORE_IMPORT_INPUT_WHOLE_H

#include "store/import/input/importer.h"

#define IMP_WHOLE_PADDING 64 /* readable zero bytes behind the end */

struct imp_whole {
    unsigned char *data;
    size_t bytes;
    bool truncated; /* the gzip data ended early or is damaged: `data` is what was before */
};

/* Reads the file. Fails with TACHO_EFORMAT if it has more than `most` bytes unpacked. */
int imp_whole_read(struct imp_run *run, const char *path, size_t most, struct imp_whole *whole,
                   struct tacho_error *err);
void imp_whole_free(struct imp_whole *whole);

#endif
