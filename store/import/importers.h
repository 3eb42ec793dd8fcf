/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: which importer reads a file.
 */
#ifndef STORE_IMPORT_IMPORTERS_H
#define STORE_IMPORT_IMPORTERS_H

#include "store/import/import.h"
#include "store/import/input/importer.h"

/* NULL: no importer reads this format. */
const struct importer *imp_importer_of(enum store_format format);

/* Finds the format of a regular file by its first bytes, and by its name where tacho only knows who
 * writes such files. *doubtful: it is JSON without an event in these bytes, which may be a trace.
 * NULL: the caller does not ask. Fails for formats that it cannot read. */
int imp_file_format(const char *path, enum store_format *out, bool *doubtful,
                    struct tacho_error *err);

#endif
