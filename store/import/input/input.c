/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a trace file, and decompresses it on the way if it is gzip.
 */
#include "store/import/input/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define RAW_BYTES (256u << 10)

#define UNPACKED_SPARE (64ll << 20)

struct imp_input {
    int fd;
    char *path;
    bool gzip, end_of_file, end, truncated, damaged;
    bool in_member; /* a gzip member has begun and not ended */
    bool begun;     /* the first bytes were read */
    z_stream z;
    atomic_llong position;
    long long unpacked;
    unsigned char raw[RAW_BYTES]; /* of a gzip file; z.next_in points into it */
    size_t head, head_end;        /* bytes of a plain file read to look at its kind */
};

/* Up to n bytes of the file itself. -1: errno. */
static ssize_t raw_read(struct imp_input *input, void *to, size_t bytes)
{
    ssize_t got;
    do
        got = read(input->fd, to, bytes);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        atomic_fetch_add_explicit(&input->position, got, memory_order_relaxed);
    return got;
}

static int read_failed(const struct imp_input *input, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EIO, "copy it to a local disk, and read it there",
                      "%s: cannot be read: %s", input->path, strerror(errno));
}

int imp_input_open(const char *path, struct imp_input **out, struct tacho_error *err)
{
    struct imp_input *input = calloc(1, sizeof *input);
    *out = NULL;
    if (!input)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    input->path = strdup(path);
    input->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0 || !input->path) {
        int os = errno;
        imp_input_close(input);
        int code = tacho_error_of_errno(os);
        return tacho_fail(err, code, code == TACHO_EDENIED ? IMP_HINT_DENIED : NULL, "%s: %s", path,
                          strerror(os));
    }
    posix_fadvise(input->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    ssize_t got = raw_read(input, input->raw, RAW_BYTES);
    if (got < 0) {
        int code = read_failed(input, err);
        imp_input_close(input);
        return code;
    }
    input->gzip = got >= 2 && input->raw[0] == 0x1f && input->raw[1] == 0x8b;
    input->z.next_in = input->raw;
    input->z.avail_in = (uInt)got;
    input->head_end = (size_t)got;
    if (input->gzip && inflateInit2(&input->z, 15 + 16) != Z_OK) {
        imp_input_close(input);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    }
    input->in_member = input->gzip;
    *out = input;
    return 0;
}

void imp_input_close(struct imp_input *input)
{
    if (!input)
        return;
    if (input->gzip)
        inflateEnd(&input->z);
    if (input->fd >= 0)
        close(input->fd);
    free(input->path);
    free(input);
}

/* Reads from an uncompressed file: first what was read ahead to detect its format. *got is less
 * than `bytes` only at its end. */
static int plain_read(struct imp_input *input, unsigned char *to, size_t bytes, size_t *got,
                      struct tacho_error *err)
{
    size_t have = input->head_end - input->head;
    *got = have < bytes ? have : bytes;
    memcpy(to, input->raw + input->head, *got);
    input->head += *got;
    while (*got < bytes) {
        ssize_t more = raw_read(input, to + *got, bytes - *got);
        if (more < 0)
            return read_failed(input, err);
        if (!more)
            break;
        *got += (size_t)more;
    }
    return 0;
}

/* Goes on after the end of a gzip member. Another member may follow; anything else (padding of
 * tapes and block devices) is not part of the trace. */
static void next_member(struct imp_input *input)
{
    input->in_member = false;
    if (input->z.avail_in && input->z.next_in[0] == 0x1f && inflateReset(&input->z) == Z_OK)
        input->in_member = true;
    else if (input->z.avail_in)
        input->end = true;
}

/* Decompresses up to `bytes` bytes. Damage ends the stream, after what could be read before it. */
static int gzip_read(struct imp_input *input, unsigned char *to, size_t bytes, size_t *got,
                     struct tacho_error *err)
{
    *got = 0;
    while (*got < bytes && !input->end) {
        if (!input->z.avail_in && !input->end_of_file) {
            ssize_t more = raw_read(input, input->raw, RAW_BYTES);
            if (more < 0)
                return read_failed(input, err);
            input->end_of_file = !more;
            input->z.next_in = input->raw;
            input->z.avail_in = (uInt)more;
        }
        if (!input->in_member)
            next_member(input);
        if (!input->z.avail_in || !input->in_member) {
            input->truncated = input->in_member;
            input->end = input->end_of_file || input->end;
            continue;
        }
        size_t room = bytes - *got;
        input->z.next_out = to + *got;
        input->z.avail_out = room > 1u << 30 ? 1u << 30 : (uInt)room;
        uInt before = input->z.avail_out;
        int status = inflate(&input->z, Z_NO_FLUSH);
        *got += before - input->z.avail_out;
        input->unpacked += before - input->z.avail_out;
        if (imp_input_is_bomb(input, input->unpacked, UNPACKED_SPARE))
            return tacho_fail(err, TACHO_EFORMAT, "if it is a trace all the same: unpack it first",
                              "%s: not a trace: it unpacks to more than %d times its size",
                              input->path, IMP_UNPACKED_TIMES);
        if (status == Z_STREAM_END)
            next_member(input);
        else if (status != Z_OK && status != Z_BUF_ERROR)
            input->end = input->damaged = input->truncated = true;
    }
    return 0;
}

static int unpacked_read(struct imp_input *input, void *to, size_t bytes, size_t *got,
                         struct tacho_error *err)
{
    return input->gzip ? gzip_read(input, to, bytes, got, err)
                       : plain_read(input, to, bytes, got, err);
}

int imp_input_read(struct imp_input *input, void *to, size_t bytes, size_t *got,
                   struct tacho_error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* editors put it in front of a text */
    size_t mark_bytes = sizeof mark - 1, more = 0;
    int rc = unpacked_read(input, to, bytes, got, err);
    if (rc || input->begun)
        return rc;
    input->begun = true;
    if (*got < mark_bytes || memcmp(to, mark, mark_bytes) != 0)
        return 0;
    *got -= mark_bytes;
    memmove(to, (char *)to + mark_bytes, *got);
    rc = unpacked_read(input, (char *)to + *got, mark_bytes, &more, err);
    *got += more;
    return rc;
}

bool imp_input_truncated(const struct imp_input *input)
{
    return input->truncated;
}

bool imp_input_damaged(const struct imp_input *input)
{
    return input->damaged;
}

bool imp_input_is_gzip(const struct imp_input *input)
{
    return input->gzip;
}

bool imp_input_is_bomb(const struct imp_input *input, int64_t unpacked, int64_t spare)
{
    return unpacked > spare && unpacked / IMP_UNPACKED_TIMES > imp_input_position(input);
}

int64_t imp_input_position(const struct imp_input *input)
{
    return atomic_load_explicit(&((struct imp_input *)(uintptr_t)input)->position,
                                memory_order_relaxed);
}
