/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are secrets by their shape alone, whatever precedes them.
 */
#ifndef COL_SECRET_SHAPES_H
#define COL_SECRET_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the key of a well-known service that begins at `text`; 0: none does. */
size_t col_shape_key(const char *text);
/* Does a word look like a random key? */
bool col_shape_is_random(const char *word, size_t length);
/* Is it a word of hexadecimal digits as long as the keys of some services, and as hashes? */
bool col_shape_is_hexadecimal(const char *word, size_t length);
/* The same for a run of Base64 that may contain '/'. */
bool col_shape_is_base64(const char *word, size_t length);

#endif
