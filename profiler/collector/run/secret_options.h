/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of the places where programs take secrets. A new place is a new row.
 */
#ifndef COL_SECRET_OPTIONS_H
#define COL_SECRET_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define COL_BASE64 "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/="

struct col_option_row {
    const char *programs; /* base names with a blank between them; "": any program */
    const char *options;  /* or words, such as "login"; "": the program itself */
    bool attached;        /* the value may follow without a blank: "-pX" */
    bool numbers;         /* a value of digits is a secret too: no port */
    int skip;             /* words between the option and the value */
    char must_hold;       /* a character without which the value is no secret; 0: none */
};
extern const struct col_option_row col_option[];
extern const size_t col_option_count;
#define COL_OPTIONS_MOST 128

/* Words before "NAME VALUE" that assign ("set NAME VALUE"), and names that need none. */
extern const char *const col_verb, *const col_bare; /* lists with a blank between the words */

/* Names of files that hold secrets, without a dot before them. */
extern const char *const col_secret_file;

/* What reads a secret from its standard input. */
extern const char *const col_reader[];
extern const size_t col_reader_count;

/* Ways to authenticate, and the fewest bytes of what follows them. */
struct col_scheme_row {
    const char *name;
    int least;
};
extern const struct col_scheme_row col_scheme[];
extern const size_t col_scheme_count;

/* What says that a number in hexadecimal digits is a hash or an identifier. */
extern const char *const col_hash[];
extern const size_t col_hash_count;

/* Schemes of URLs whose user, alone, is no secret. */
extern const char *const col_user_schemes;

#endif
