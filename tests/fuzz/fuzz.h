/* SPDX-License-Identifier: Apache-2.0
 *
 * For the fuzz targets: libFuzzer calls LLVMFuzzerTestOneInput; importers read files, so the input
 * becomes one without a disk.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An unnamed file with these bytes; its path under /proc goes to `path`. The caller closes the
 * descriptor. */
static inline int fuzz_file(const uint8_t *data, size_t size, char path[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* Bytes of an input that are read as numbers, one after the other. */
struct fuzz_input {
    const uint8_t *p;
    size_t n;
};

/* The next number of so many bytes, high ones first; 0 where nothing is left. */
static inline uint64_t fuzz_take(struct fuzz_input *in, size_t bytes)
{
    uint64_t v = 0;
    for (; bytes && in->n; bytes--, in->n--)
        v = v << 8 | *in->p++;
    return v;
}

/* Up to so many of the bytes that are left, in one piece; they are taken. */
static inline const uint8_t *fuzz_bytes(struct fuzz_input *in, size_t most, size_t *n)
{
    const uint8_t *p = in->p;
    *n = most < in->n ? most : in->n;
    in->p += *n;
    in->n -= *n;
    return p;
}

#endif
