/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: the bytes of a trace file, plain or gzip (any number of members), as
 * one stream.
 */
#ifndef STORE_IMPORT_INPUT_INPUT_H
#define STORE_IMPORT_INPUT_INPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

#ifndef STORE_IMPORT_WINDOW /* the fuzz targets have smaller ones, to meet their ends */
#define STORE_IMPORT_WINDOW (16u << 20)
#endif

#define IMP_HINT_DENIED "check the permissions of the file and of its folders"

struct imp_input;

/* Errors: TACHO_ENOTFOUND, TACHO_EDENIED, TACHO_EIO, TACHO_ENOMEM; err names the file. */
int imp_input_open(const char *path, struct imp_input **out, struct tacho_error *err);
void imp_input_close(struct imp_input *input);
/* Reads up to `bytes` bytes, without a byte order mark; *got is less only at the end. TACHO_EIO:
 * the file cannot be read. */
int imp_input_read(struct imp_input *input, void *to, size_t bytes, size_t *got,
                   struct tacho_error *err);
/* After the end: was the gzip stream cut off before its own end, or is it damaged from here on? */
bool imp_input_truncated(const struct imp_input *input);
bool imp_input_damaged(const struct imp_input *input);
bool imp_input_is_gzip(const struct imp_input *input);
/* Bytes taken from the file so far. Any thread may ask. */
int64_t imp_input_position(const struct imp_input *input);
/* Traces are text that compression makes 10 to 50 times smaller. Were so many bytes unpacked, more
 * than `spare`, that they are far more times what was taken from the file so far? Then what follows
 * would only keep the reader busy. */
#define IMP_UNPACKED_TIMES 200
bool imp_input_is_bomb(const struct imp_input *input, int64_t unpacked, int64_t spare);

#endif
