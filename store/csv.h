/* SPDX-License-Identifier: Apache-2.0
 *
 * A text as a cell of CSV (RFC 4180), for every room that writes tables.
 */
#ifndef STORE_CSV_H
#define STORE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Writes a text of so many bytes, in quotes where it needs them. NULL, which is a value that is not
 * known, writes nothing, an empty text "". What a spreadsheet would take for a formula and compute
 * gets a ' in front, unless `raw`. */
void store_csv_write(FILE *out, const char *text, size_t bytes, bool raw);
/* The same of a terminated text or NULL. */
void store_csv_text(FILE *out, const char *text, bool raw);

#endif
