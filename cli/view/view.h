/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: bounded JSON. A document is made whole, then cut down to the keys, rows or bytes
 * that the caller has use for, and says what was left out.
 */
#ifndef CLI_VIEW_VIEW_H
#define CLI_VIEW_VIEW_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/base/options.h"

/* What the options --fields and --limit ask for; all zero: the whole document. */
struct cli_view {
    const char *fields; /* "verdict,steps.median_ms,kernels.name"; NULL: all */
    int64_t limit;      /* of rows: elements of each list of objects; 0: all */
};

/* Rows of a command's table of options, for a `struct values` with the member `view`. */
#define CLI_FIELDS_ROW \
    CLI_TEXT_ROW("fields", 0, CLI_TEXT, view.fields, "KEY,...", \
                 "with --json, only these comma-separated keys; nested ones as steps.median_ms")
#define CLI_LIMIT_ROW \
    CLI_NUMBER_ROW("limit", 0, CLI_INT, view.limit, "N", \
                   "with --json, at most N rows of each table", 1, 1e9)

/* The part of `json`, an object or a list of objects, that the view asks for, as a new document of
 * the caller: the keys (in lists those of each element), with the lists cut, `left_out` (how many
 * elements of which list, by JSON pointer) where anything was cut, and of `absent` the reasons of
 * what is in it. NULL: no memory, or a field is unknown; then `unknown` holds the field, else it is
 * empty. */
json_t *cli_view_of(const json_t *json, const struct cli_view *view, char unknown[128]);

/* The usage error of options that need --json. 0, or an exit code after a message. */
int cli_view_check(const char *command, const struct cli_view *view, bool json);
/* Writes the document that `write` makes, or the part of it that the view asks for, to `out`. 0 or
 * TACHO_E*; TACHO_EUSAGE: after a message. */
int cli_view_write(const char *command, const struct cli_view *view,
                   int (*write)(const void *context, FILE *out), const void *context, FILE *out);

/* Writes a json_t as commands print it: for cli_view_write. */
int cli_view_dump(const void *json, FILE *out);
/* Prints the part of a document that the view asks for on stdout, and frees it (NULL: no memory).
 * 0 or an exit code, after a message; that stdout failed is said by main. */
int cli_view_print(const char *command, const struct cli_view *view, json_t *json);
/* A number, or null where it is not finite: what was not measured is no number in JSON. */
json_t *cli_view_number(double value);

/* Cuts texts and lists, the largest first, until the document has at most `bytes` bytes in a JSON
 * text within a JSON text (as tools send it). Returns how many elements of lists and objects were
 * removed. */
size_t cli_view_fit(json_t *json, size_t bytes);
/* Bytes of the document as compact JSON, escaped once more. */
size_t cli_view_bytes(const json_t *json);

#endif
