/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a file as a whole.
 */
#include "store/import/input/whole.h"

#include <stdlib.h>
#include <string.h>

#include "store/import/input/input.h"

#define FIRST_BYTES (1u << 20)

static int too_large(const char *path, size_t most, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EFORMAT, "record fewer steps: three to five are enough",
                      "%s: larger than %zu MiB, which is more than tacho holds in memory", path,
                      most >> 20);
}

/* Makes room for at least one byte more. */
static int grow(struct imp_whole *whole, size_t *room, size_t most)
{
    if (whole->bytes < *room)
        return 0;
    size_t wanted = *room ? 2 * *room : FIRST_BYTES;
    if (wanted > most)
        wanted = most;
    unsigned char *bigger = realloc(whole->data, wanted + IMP_WHOLE_PADDING);
    if (!bigger)
        return TACHO_ENOMEM;
    whole->data = bigger;
    *room = wanted;
    return 0;
}

int imp_whole_read(struct imp_run *run, const char *path, size_t most, struct imp_whole *whole,
                   struct tacho_error *err)
{
    struct imp_input *in = NULL;
    size_t room = 0, got = 1;
    int64_t reported = 0;
    *whole = (struct imp_whole){0};
    int rc = imp_input_open(path, &in, err);
    while (!rc && got) {
        if (whole->bytes == most) {
            rc = too_large(path, most, err);
            break;
        }
        rc = grow(whole, &room, most);
        if (!rc)
            rc = imp_input_read(in, whole->data + whole->bytes, room - whole->bytes, &got, err);
        whole->bytes += rc ? 0 : got;
        int64_t now = imp_input_position(in);
        if (!rc)
            rc = imp_progress(run, now - reported);
        reported = now;
    }
    if (!rc) {
        memset(whole->data + whole->bytes, 0, IMP_WHOLE_PADDING);
        whole->truncated = imp_input_truncated(in);
        run->truncated |= whole->truncated;
    }
    imp_input_close(in);
    if (rc)
        imp_whole_free(whole);
    return rc;
}

void imp_whole_free(struct imp_whole *whole)
{
    free(whole->data);
    *whole = (struct imp_whole){0};
}
