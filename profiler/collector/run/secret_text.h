/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the search for secrets (secret*.c): the text that is looked at, and where words,
 * values and blocks in it end.
 */
#ifndef COL_SECRET_TEXT_H
#define COL_SECRET_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define COL_TEXT_ASCII "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
/* The bytes of names. Those of other characters than ASCII's, too: names are in any language. */
#define COL_TEXT_NAME \
    COL_TEXT_ASCII \
    "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f" \
    "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f" \
    "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf" \
    "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf" \
    "\xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xcb\xcc\xcd\xce\xcf" \
    "\xd0\xd1\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf" \
    "\xe0\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xee\xef" \
    "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff"
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
