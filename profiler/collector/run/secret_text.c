/* SPDX-License-Identifier: Apache-2.0
 *
 * Quotes, brackets, headers, blocks of YAML and here-documents: how far a value reaches. Where that
 * is in doubt, it reaches further.
 */
#include "profiler/collector/run/secret_text.h"

#include <ctype.h>
#include <string.h>

#define NAME  COL_TEXT_NAME
#define BLANK COL_TEXT_BLANK
#define QUOTE COL_TEXT_QUOTE

void col_text_hide(struct col_text *in, const char *from, const char *end)
{
    for (const char *at = from; at < end; at++)
        in->hide[at - in->text] = true;
}

bool col_text_is_one_of(char letter, const char *set)
{
    return letter && strchr(set, letter);
}

bool col_text_begins_argument(const struct col_text *in, const char *at)
{
    return at == in->text || !at[-1];
}

const char *col_text_argument(const struct col_text *in, const char *at)
{
    while (!col_text_begins_argument(in, at))
        at--;
    return at;
}

/* ---- quotes and brackets --------------------------------------------------------------------- */

size_t col_text_quote(const char *text)
{
    size_t slashes = strspn(text, "\\");
    return col_text_is_one_of(text[slashes], QUOTE) ? slashes + 1 : 0;
}

/* Behind the quote that closes one of `length` bytes, which opened before `text`; the end of the
 * argument: none does. */
static const char *quote_end(const char *text, char quote, size_t length)
{
    for (; *text; text++) {
        size_t slashes = strspn(text, "\\");
        text += slashes;
        if (!*text)
            break;
        if (*text == quote && slashes + 1 == length)
            return text + 1;
    }
    return text;
}

/* Behind the bracket that closes the one at `text`; NULL: none does. */
static const char *bracket_end(const char *text)
{
    char open = *text, close = ')';
    int depth = 0;
    if (open != '(')
        close = (char)(open + 2); /* as ASCII orders them */
    for (; *text; text++) {
        depth += (*text == open) - (*text == close);
        if (!depth)
            return text + 1;
    }
    return NULL;
}

/* Does another pair, or nothing, follow a separator of pairs? */
static bool pair_follows(const char *text)
{
    text += strspn(text, BLANK QUOTE "\\{");
    size_t length = strspn(text, NAME);
    return !*text || (length && col_text_is_one_of(text[length], "=:\"'\\"));
}

/* The end of a text in three quotes, of Python or TOML; NULL: it is none. */
static const char *triple_end(const char *text)
{
    const char three[] = {text[0], text[0], text[0], 0};
    if (!col_text_is_one_of(*text, "\"'") || strncmp(text, three, 3) != 0)
        return NULL;
    const char *end = strstr(text + 3, three);
    return end ? end + 3 : text + strlen(text);
}

/* Does the word go on behind its closing quote: 'a'b, 'a'"b"? */
static bool goes_on(const char *text)
{
    return isalnum((unsigned char)*text) ||
           (col_text_is_one_of(*text, QUOTE) && isalnum((unsigned char)text[1]));
}

/* The end of what a quote opens at `text`, with what a shell joins to it: 'it'\''s'. */
static const char *quoted_end(const char *text)
{
    const char *end = triple_end(text);
    while (!end) {
        size_t quote = col_text_quote(text);
        if (quote)
            text = quote_end(text + quote, text[quote - 1], quote);
        else
            text += strspn(text, NAME);
        if (strncmp(text, "\\''", 3) == 0)
            text += 2;
        else if (!goes_on(text))
            end = text;
    }
    return end;
}

const char *col_text_value_end(const char *text, bool line)
{
    const char *first = text, *bracket = NULL;
    if (col_text_quote(text))
        return quoted_end(text);
    if (col_text_is_one_of(*text, "{([") && (bracket = bracket_end(text)))
        return bracket;
    for (; *text && *text != '\n' && (line || !col_text_is_one_of(*text, BLANK)); text++) {
        size_t quote = col_text_quote(text);
        if (quote && !isalnum((unsigned char)text[quote]))
            break;
        if (quote)
            text = quoted_end(text) - 1;
        else if (text > first && col_text_is_one_of(*text, "&;,|)}]") && pair_follows(text + 1))
            break;
        else if (*text == '\\' && col_text_is_one_of(text[1], BLANK))
            text++;
        else if (col_text_is_one_of(*text, "$<") && text[1] == '(' &&
                 (bracket = bracket_end(text + 1))) /* what a command prints */
            text = bracket - 1;
    }
    return text;
}

/* ---- lines ----------------------------------------------------------------------------------- */

const char *col_text_header_end(const struct col_text *in, const char *name, const char *value)
{
    size_t length = 1;
    if (col_text_begins_argument(in, name) || !col_text_is_one_of(name[-1], QUOTE))
        return value + strcspn(value, "\n");
    while (name - length > in->text && name[-1 - (ptrdiff_t)length] == '\\')
        length++;
    const char *end = quote_end(value, name[-1], length);
    bool is_closed = end > value && end[-1] == name[-1];
    return is_closed ? end - length : end;
}

static const char *line_of(const struct col_text *in, const char *at)
{
    while (!col_text_begins_argument(in, at) && at[-1] != '\n')
        at--;
    return at;
}

const char *col_text_block_end(const struct col_text *in, const char *name, const char *value,
                               bool any)
{
    size_t indent = strspn(line_of(in, name), " ");
    if (col_text_is_one_of(*value, "|>"))
        value += 1 + strspn(value + 1, "+-0123456789");
    else if (!any)
        return NULL;
    value += strspn(value, " \t\r");
    if (*value != '\n')
        return NULL;
    while (*value) {
        const char *line = value + 1;
        size_t deep = strspn(line, " ");
        bool is_item = line[deep] == '-' && deep == indent, is_empty = line[deep] == '\n';
        if (deep <= indent && !is_item && !is_empty)
            break;
        value = line + strcspn(line, "\n");
    }
    return value;
}

const char *col_text_here_end(const struct col_text *in, const char *at, const char **body)
{
    const char *line = line_of(in, at), *end = line + strcspn(line, "\n");
    const char *mark = strstr(line, "<<");
    if (!mark || mark > end || mark[2] == '<' || !*end)
        return NULL;
    mark += 2 + strspn(mark + 2, "- \t" QUOTE "\\");
    size_t length = strspn(mark, NAME);
    *body = end + 1;
    for (line = *body; *line; line = end + 1) {
        const char *word = line + strspn(line, "\t ");
        end = line + strcspn(line, "\n");
        if (length && strncmp(word, mark, length) == 0 && word + length == end)
            return line;
        if (!*end)
            break;
    }
    return line + strcspn(line, "\n");
}
