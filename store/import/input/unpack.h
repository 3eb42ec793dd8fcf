/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: data that is compressed within a file.
 */
#ifndef STORE_IMPORT_INPUT_UNPACK_H
#define STORE_IMPORT_INPUT_UNPACK_H

#include "store/import/input/protobuf.h"

/* Unpacks a zlib stream of less than 4 GiB into new memory, which the caller frees, whatever is
 * returned. 0, TACHO_ENOMEM, or TACHO_EFORMAT: it is damaged or has more than about `most` bytes;
 * what was before is there. */
int imp_unpack(struct pb_span packed, size_t most, unsigned char **data, size_t *bytes);

#endif
