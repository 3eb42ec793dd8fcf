/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: JSON read in place, value after value, for files that are one large
 * object and not a list of events. Nothing is converted before it is asked for, and no memory is
 * taken: a file of gigabytes costs what it takes to hold it. Damage sets `bad` and ends every loop.
 *
 *     for (bool more = ij_enter(&json); more; more = ij_more(&json)) {   of an object:
 *         struct ij_text key = ij_key(&json);
 *         ... exactly one of ij_int, ij_number, ij_text_of, ij_skip, or a loop of its own
 *     }
 */
#ifndef STORE_IMPORT_INPUT_JSON_H
#define STORE_IMPORT_INPUT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ij {
    const char *at, *end;
    bool bad;
};

/* Between the quotes, escapes as they are in the file. */
struct ij_text {
    const char *text;
    size_t bytes;
};

struct ij ij_of(const void *text, size_t bytes);
/* The first character of the value that comes next: '{', '[', '"', '-', a digit, 't', 'f', 'n';
 * 0: there is none. */
char ij_next(struct ij *json);
/* Begins an object or a list: is there a first pair or element? A value of another kind is skipped.
 */
bool ij_enter(struct ij *json);
/* After a pair or element: is there one more? Consumes the comma or the end. */
bool ij_more(struct ij *json);
/* The key of the present pair. */
struct ij_text ij_key(struct ij *json);
/* Values. One that is not of the kind asked for is skipped: false, or a text of no bytes. */
bool ij_int(struct ij *json, int64_t *out);
bool ij_number(struct ij *json, double *out);
struct ij_text ij_text_of(struct ij *json);
void ij_skip(struct ij *json);
bool ij_is(struct ij_text text, const char *word);

#endif
