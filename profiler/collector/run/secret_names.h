/* SPDX-License-Identifier: Apache-2.0
 *
 * What the name of an option, a variable, a header or a JSON key says about its value.
 */
#ifndef COL_SECRET_NAMES_H
#define COL_SECRET_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum col_name_kind {
    COL_NAME_HARMLESS,
    COL_NAME_DOUBTFUL, /* "--eos-token": its value is hidden if it looks like a key */
    COL_NAME_FOREIGN, /* "--ключ", in letters of which no word is known: the value of an option is
                         hidden unless it is a number or a switch */
    COL_NAME_WEAK,    /* "--key": its value is hidden unless it is a small number or a switch */
    COL_NAME_SECRET   /* "--db-password": its value is hidden */
};

/* Classifies the `length` bytes at `name`. Case, '-', '_', '.', accents and the width of letters
 * make no difference. */
enum col_name_kind col_name_kind(const char *name, size_t length);

/* Is a value that stands behind a name of this kind a secret? */
bool col_name_hides(enum col_name_kind kind, const char *value, size_t length);

/* Is a word of `length` bytes in a list of words with a blank between them? Case makes no
 * difference. */
bool col_list_has(const char *list, const char *word, size_t length);

#endif
