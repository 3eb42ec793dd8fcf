/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: JSON as a stream. Whatever writes a null writes its reason in the same call;
 * the writer keeps the reasons under the JSON pointers (RFC 6901) of the nulls and ends the report
 * with them, so that the two cannot disagree.
 *
 * Output is ASCII: other characters are escaped. Names are kept whole up to REP_JSON_TEXT
 * characters. The stream's own errors stay with the stream (ferror).
 *
 * A list has at most REP_JSON_ROWS rows of a table: a file can claim any number of ranks, and a
 * program holds the document in memory, some KiB a row. How many rows are left out stands under the
 * pointer of the list in "left_out", which only a document has that was cut.
 */
#ifndef REPORTS_JSON_WRITER_H
#define REPORTS_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzers/result/result.h"

#define REP_JSON_DEPTH 12
#define REP_JSON_PATH  512
#define REP_JSON_TEXT  16384
#define REP_JSON_ROWS  10000

/* Lines of an object that follows the report, in memory. */
struct rep_notes {
    FILE *out;
    char *text;
    size_t size;
    int64_t count;
};

struct rep_writer {
    FILE *out;
    struct rep_notes absent, left_out;
    int depth;
    struct rep_level {
        int64_t count; /* elements so far */
        size_t path;   /* length of the pointer of this level */
        bool list;
    } level[REP_JSON_DEPTH];
    char path[REP_JSON_PATH];
};

/* Opens the outermost object. 0 or TACHO_ENOMEM. */
int rep_writer_begin(struct rep_writer *writer, FILE *out);
/* Writes "absent", closes the object, flushes, frees. 0, TACHO_ENOMEM or TACHO_EIO (the stream
 * failed). */
int rep_writer_end(struct rep_writer *writer);

/* In a list `key` is NULL. */
void rep_open(struct rep_writer *writer, const char *key);
void rep_open_list(struct rep_writer *writer, const char *key);
void rep_close(struct rep_writer *writer);

void rep_put_null(struct rep_writer *writer, const char *key, const char *reason);
/* Writes null if there is a reason. Returns whether there is one. */
bool rep_put_absent(struct rep_writer *writer, const char *key, const char *reason);
/* In a list that has just been opened: how many of `count` rows to write. Notes the others. */
size_t rep_rows_shown(struct rep_writer *writer, size_t count);
/* A list of objects, one for each of `count` rows of `size` bytes; `put` writes its members. */
void rep_put_rows(struct rep_writer *writer, const char *key, const void *rows, size_t count,
                  size_t size, void (*put)(struct rep_writer *writer, const void *row));
#define REP_PUT_ROWS(writer, key, rows, count, put) \
    rep_put_rows(writer, key, rows, count, sizeof *(rows), put)
void rep_put_text(struct rep_writer *writer, const char *key, const char *text);
/* "" and NULL are "not known": a null with its reason. */
void rep_put_text_or(struct rep_writer *writer, const char *key, const char *text,
                     const char *reason);
void rep_put_texts(struct rep_writer *writer, const char *key, const char *const *texts,
                   size_t count);
void rep_put_bool(struct rep_writer *writer, const char *key, bool value);
void rep_put_int(struct rep_writer *writer, const char *key, int64_t value);
/* A negative number is a null for `reason`. */
void rep_put_int_or(struct rep_writer *writer, const char *key, int64_t value, const char *reason);
/* A number that is not finite is a null for `reason`. */
void rep_put_real(struct rep_writer *writer, const char *key, double value, const char *reason);
void rep_put_value(struct rep_writer *writer, const char *key, struct an_value value);
/* An object with the low end, the expected value and the high end, and whether it is a ceiling. */
void rep_put_gain(struct rep_writer *writer, const char *key, const struct an_gain *gain);
void rep_put_count(struct rep_writer *writer, const char *key, struct an_count count);
/* ns as us with three decimals: every digit comes from the integer. */
void rep_put_us(struct rep_writer *writer, const char *key, int64_t ns);
void rep_put_us_or(struct rep_writer *writer, const char *key, struct an_count ns);

#endif
