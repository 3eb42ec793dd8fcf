/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds secrets in text: a command line with all that may be nested in it (scripts of a shell,
 * JSON, URLs, headers, connection strings), or one value.
 */
#ifndef COL_SECRETS_H
#define COL_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

/* Sets hide[i] for each byte of a secret. `text` holds arguments, a NUL after each, `size` bytes in
 * all. Rules only add marks, so their order does not matter; what is in doubt is marked. */
void col_secrets_find(const char *text, size_t size, bool *hide);

#endif
