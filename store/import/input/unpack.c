/* SPDX-License-Identifier: Apache-2.0
 *
 * Unpacks zlib streams that are parts of a file.
 */
#define ZLIB_CONST /* the input is const */
#include <stdlib.h>
#include <zlib.h>

#include "store/import/input/unpack.h"
#include "tacho_error.h"

#define FIRST_ROOM ((size_t)1 << 18)

int imp_unpack(struct pb_span packed, size_t most, unsigned char **data, size_t *bytes)
{
    z_stream stream = {.next_in = packed.data, .avail_in = (uInt)packed.bytes};
    size_t room = 0;
    int status = inflateInit(&stream), rc = status == Z_OK ? 0 : TACHO_ENOMEM;
    *data = NULL;
    *bytes = 0;
    while (!rc && status == Z_OK && *bytes < most) {
        if (*bytes == room) {
            room = room ? 2 * room : FIRST_ROOM;
            unsigned char *bigger = realloc(*data, room);
            if (!bigger) {
                rc = TACHO_ENOMEM;
                break;
            }
            *data = bigger;
        }
        stream.next_out = *data + *bytes;
        stream.avail_out = (uInt)(room - *bytes);
        status = inflate(&stream, Z_NO_FLUSH);
        *bytes = room - stream.avail_out;
    }
    inflateEnd(&stream);
    if (!rc && status != Z_STREAM_END)
        rc = TACHO_EFORMAT;
    return rc;
}
