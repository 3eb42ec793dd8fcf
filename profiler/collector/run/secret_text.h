/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the search for secrets (secret*.c): the text that is looked at, and where words,
 * values and blocks in it end.
 */
#ifndef COL_SECRET_TEXT_H
#define COL_SECRET_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define COL_TEXT_NAME  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
#define COL_TEXT_BLANK " \t\r\n"
#define COL_TEXT_QUOTE "\"'`"

/* Arguments, a NUL after each, `size` bytes in all, and a mark for each byte of a secret. */
struct col_text {
    const char *text;
    size_t size;
    bool *hide;
};

void col_text_hide(struct col_text *in, const char *from, const char *end);
bool col_text_is_one_of(char letter, const char *set);
/* Does an argument begin at `at`? */
bool col_text_begins_argument(const struct col_text *in, const char *at);
/* The first byte of the argument that `at` lies in. */
const char *col_text_argument(const struct col_text *in, const char *at);

/* Bytes of the quote that opens at `text`, with its backslashes; 0: none. */
size_t col_text_quote(const char *text);
/* The end of a value that begins at `text`: that of its quotes or brackets, else a blank, or what
 * separates it from the next pair. With `line`, blanks belong to it. */
const char *col_text_value_end(const char *text, bool line);
/* The end of the value of a header: of the quote in which its name stands, else of the line. */
const char *col_text_header_end(const struct col_text *in, const char *name, const char *value);
/* The end of the lines below a name of YAML that are indented further than its own. NULL: no block
 * begins at `value`. Without `any`, one begins only with '|' or '>'. */
const char *col_text_block_end(const struct col_text *in, const char *name, const char *value,
                               bool any);
/* The body of a here-document ("<<WORD") of the line in which `at` lies: *body, and its end; NULL:
 * the line has none. */
const char *col_text_here_end(const struct col_text *in, const char *at, const char **body);

#endif
