/* SPDX-License-Identifier: Apache-2.0
 *
 * Small questions about names and paths.
 */
#ifndef COL_TEXT_H
#define COL_TEXT_H

#include <stdbool.h>
#include <stdint.h>

bool col_ends_with(const char *text, const char *end);
/* The folder part of a path, *length bytes long and without the slash; "." where it has none. */
const char *col_folder_of(const char *path, int *length);
/* FNV-1a, 64 bits. */
uint64_t col_hash_text(const char *text);

#endif
