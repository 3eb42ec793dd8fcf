/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole reads and writes, and sums.
 */
#include "libtrain/base/stored.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

const struct lt_sum lt_sum_start = {
    {0xcbf29ce484222325ull, 0x84222325cbf29ce4ull, 0x9ce484222325cbf2ull, 0x2325cbf29ce48422ull}};

void lt_sum_add(struct lt_sum *sum, const void *data, size_t bytes)
{
    const char *bytes_in = data;
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, bytes_in + 8 * i, sizeof word);
        sum->lane[i % 4] = (sum->lane[i % 4] ^ word) * 0x100000001b3ull;
        sum->lane[i % 4] ^= sum->lane[i % 4] >> 32;
    }
}

uint64_t lt_sum_end(const struct lt_sum *sum)
{
    struct lt_sum folded = lt_sum_start;
    lt_sum_add(&folded, sum, sizeof *sum);
    return folded.lane[0] ^ folded.lane[1] ^ folded.lane[2] ^ folded.lane[3];
}

int lt_write_all(int fd, const void *data, size_t bytes)
{
    const char *cursor = data;
    while (bytes > 0) {
        ssize_t written = write(fd, cursor, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        cursor += written;
        bytes -= (size_t)written;
    }
    return 0;
}

int lt_read_all(int fd, void *data, size_t bytes)
{
    char *cursor = data;
    while (bytes > 0) {
        ssize_t got = read(fd, cursor, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got == 0 ? 0 : errno;
            return -1;
        }
        cursor += got;
        bytes -= (size_t)got;
    }
    return 0;
}
