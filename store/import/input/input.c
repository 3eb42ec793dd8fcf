/* SPDX-License-Identifier: Apache-2.0 */
#include "store/import/input/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define RAW_BYTES (256u << 10)

struct imp_input {
    int fd;
    char *path;
    bool gzip, end_of_file, end, truncated, damaged;
    bool in_member; /* a gzip member has begun and not ended */
    z_stream z;
    atomic_llong position;
    unsigned char raw[RAW_BYTES]; /* of a gzip file; z.next_in points into it */
    size_t head, head_end;        /* bytes of a plain file read to look at its kind */
};

/* Up to n bytes of the file itself. -1: errno. */
static ssize_t raw_read(struct imp_input *in, void *to, size_t n)
{
    ssize_t got;
    do
        got = read(in->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        atomic_fetch_add_explicit(&in->position, got, memory_order_relaxed);
    return got;
}

static int read_failed(const struct imp_input *in, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EIO, "copy it to a local disk, and read it there",
                      "%s: cannot be read: %s", in->path, strerror(errno));
}

int imp_input_open(const char *path, struct imp_input **out, struct tacho_error *err)
{
    struct imp_input *in = calloc(1, sizeof *in);
    *out = NULL;
    if (!in)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    in->path = strdup(path);
    in->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0 || !in->path) {
        int os = errno;
        imp_input_close(in);
        int code = os == ENOENT || os == ENOTDIR ? TACHO_ENOTFOUND
                   : os == EACCES                ? TACHO_EDENIED
                   : os == ENOMEM                ? TACHO_ENOMEM
                                                 : TACHO_EIO;
        return tacho_fail(err, code, code == TACHO_EDENIED ? IMP_HINT_DENIED : NULL, "%s: %s", path,
                          strerror(os));
    }
    posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    ssize_t got = raw_read(in, in->raw, RAW_BYTES);
    if (got < 0) {
        int code = read_failed(in, err);
        imp_input_close(in);
        return code;
    }
    in->gzip = got >= 2 && in->raw[0] == 0x1f && in->raw[1] == 0x8b;
    in->z.next_in = in->raw;
    in->z.avail_in = (uInt)got;
    in->head_end = (size_t)got;
    if (in->gzip && inflateInit2(&in->z, 15 + 16) != Z_OK) {
        imp_input_close(in);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    }
    in->in_member = in->gzip;
    *out = in;
    return 0;
}

void imp_input_close(struct imp_input *in)
{
    if (!in)
        return;
    if (in->gzip)
        inflateEnd(&in->z);
    if (in->fd >= 0)
        close(in->fd);
    free(in->path);
    free(in);
}

static int plain_read(struct imp_input *in, unsigned char *to, size_t n, size_t *got,
                      struct tacho_error *err)
{
    size_t have = in->head_end - in->head;
    *got = have < n ? have : n;
    memcpy(to, in->raw + in->head, *got);
    in->head += *got;
    while (*got < n) {
        ssize_t more = raw_read(in, to + *got, n - *got);
        if (more < 0)
            return read_failed(in, err);
        if (!more)
            break;
        *got += (size_t)more;
    }
    return 0;
}

/* A member has ended: another may follow; anything else (padding of tapes and block devices) is not
 * part of the trace. */
static void next_member(struct imp_input *in)
{
    in->in_member = false;
    if (in->z.avail_in && in->z.next_in[0] == 0x1f && inflateReset(&in->z) == Z_OK)
        in->in_member = true;
    else if (in->z.avail_in)
        in->end = true;
}

static int gzip_read(struct imp_input *in, unsigned char *to, size_t n, size_t *got,
                     struct tacho_error *err)
{
    *got = 0;
    while (*got < n && !in->end) {
        if (!in->z.avail_in && !in->end_of_file) {
            ssize_t more = raw_read(in, in->raw, RAW_BYTES);
            if (more < 0)
                return read_failed(in, err);
            in->end_of_file = !more;
            in->z.next_in = in->raw;
            in->z.avail_in = (uInt)more;
        }
        if (!in->in_member)
            next_member(in);
        if (!in->z.avail_in || !in->in_member) {
            in->truncated = in->in_member;
            in->end = in->end_of_file || in->end;
            continue;
        }
        size_t room = n - *got;
        in->z.next_out = to + *got;
        in->z.avail_out = room > 1u << 30 ? 1u << 30 : (uInt)room;
        uInt before = in->z.avail_out;
        int rc = inflate(&in->z, Z_NO_FLUSH);
        *got += before - in->z.avail_out;
        if (rc == Z_STREAM_END)
            next_member(in);
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            in->end = in->damaged = in->truncated = true;
    }
    return 0;
}

int imp_input_read(struct imp_input *in, void *to, size_t n, size_t *got, struct tacho_error *err)
{
    return in->gzip ? gzip_read(in, to, n, got, err) : plain_read(in, to, n, got, err);
}

bool imp_input_truncated(const struct imp_input *in)
{
    return in->truncated;
}

bool imp_input_damaged(const struct imp_input *in)
{
    return in->damaged;
}

bool imp_input_is_gzip(const struct imp_input *in)
{
    return in->gzip;
}

int64_t imp_input_position(const struct imp_input *in)
{
    return atomic_load_explicit(&((struct imp_input *)(uintptr_t)in)->position,
                                memory_order_relaxed);
}
