/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule walks over the text and marks what it takes for a secret: values behind names, values
 * behind options of known programs, credentials in URLs, words with the shape of a key, blocks.
 */
#include "profiler/collector/run/secrets.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "profiler/collector/run/secret_names.h"
#include "profiler/collector/run/secret_options.h"
#include "profiler/collector/run/secret_shapes.h"

#define NAME   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
#define BLANK  " \t\r\n"
#define QUOTE  "\"'`"
#define BREAKS BLANK QUOTE ",;:=/()[]{}|&?@<>\\" /* what separates words that may be keys */

struct col_text {
    const char *text;
    size_t size;
    bool *hide;
};

static void hide(struct col_text *in, const char *from, const char *end)
{
    for (const char *at = from; at < end; at++)
        in->hide[at - in->text] = true;
}

static bool is_one_of(char letter, const char *set)
{
    return letter && strchr(set, letter);
}

/* Does an argument begin at `at`? */
static bool begins_argument(const struct col_text *in, const char *at)
{
    return at == in->text || !at[-1];
}

/* The first byte of the argument that `at` lies in. */
static const char *argument_of(const struct col_text *in, const char *at)
{
    while (!begins_argument(in, at))
        at--;
    return at;
}

/* Is the argument a script, because the one before it is "-c", "-lc" or the like? */
static bool is_script(const struct col_text *in, const char *argument)
{
    if (argument == in->text)
        return false;
    const char *before = argument_of(in, argument - 1);
    size_t length = strlen(before);
    return *before == '-' && length >= 2 && length <= 5 && before[length - 1] == 'c' &&
           before[1] != '-';
}

/* ---- values ------------------------------------------------------------------------------------------------ */

/* Bytes of the quote that opens at `text`, with its backslashes; 0: none. */
static size_t quote_length(const char *text)
{
    size_t slashes = strspn(text, "\\");
    return is_one_of(text[slashes], QUOTE) ? slashes + 1 : 0;
}

/* The quote that closes the one of `length` bytes before `text`; the end of the argument: none
 * does. */
static const char *quote_end(const char *text, const char *quote, size_t length)
{
    for (; *text; text++) {
        size_t slashes = strspn(text, "\\");
        text += slashes;
        if (!*text)
            break;
        if (*text == quote[length - 1] && slashes + 1 == length)
            return text + 1;
    }
    return text;
}

/* Does another pair, or nothing, follow a separator of pairs? */
static bool pair_follows(const char *text)
{
    text += strspn(text, BLANK QUOTE "\\{");
    size_t length = strspn(text, NAME);
    return !*text || (length && is_one_of(text[length], "=:\"'\\"));
}

/* The end of what a quote opens at `text`, with what a shell joins to it: 'it'\''s'. */
static const char *quoted_end(const char *text)
{
    for (;;) {
        size_t quote = quote_length(text);
        text = quote ? quote_end(text + quote, text, quote) : text + strspn(text, NAME);
        if (strncmp(text, "\\''", 3) == 0)
            text += 2;
        else if (!isalnum((unsigned char)*text))
            return text;
    }
}

/* The end of a value that begins at `text`: that of its quotes or braces, else a blank, or what
 * separates it from the next pair. With `line`, blanks belong to it. */
static const char *value_end(const char *text, bool line)
{
    const char *first = text, *brace = NULL;
    if (is_one_of(*text, "{(["))
        brace = strchr(text, *text + (*text == '(' ? 1 : 2)); /* as ASCII orders them */
    if (quote_length(text))
        return quoted_end(text);
    if (brace)
        return brace + 1;
    for (; *text && *text != '\n' && (line || !is_one_of(*text, BLANK)); text++) {
        size_t quote = quote_length(text);
        if (quote && !isalnum((unsigned char)text[quote]))
            break;
        if (quote)
            text = quoted_end(text) - 1;
        else if (text > first && is_one_of(*text, "&;,|)}]") && pair_follows(text + 1))
            break;
        else if (*text == '\\' && is_one_of(text[1], BLANK))
            text++;
    }
    return text;
}

/* Marks the value at `from` if a name of this kind hides it. Returns its end, or `from`. */
static const char *hide_value(struct col_text *in, enum col_name_kind kind, const char *from,
                              const char *end)
{
    size_t quote = quote_length(from);
    const char *inner = from + quote < end ? from + quote : from, *last = end;
    if (inner > from && last - inner > (long)quote && last[-1] == inner[-1])
        last -= quote;
    if (!col_name_hides(kind, inner, (size_t)(last - inner)))
        return from;
    hide(in, inner, last);
    return end;
}

/* ---- values behind names ------------------------------------------------------------------------------------- */

/* What separates a name from its value. */
enum separator { SEPARATOR_NONE, SEPARATOR_EQUALS, SEPARATOR_COLON, SEPARATOR_TAG };

/* Finds the value behind a name that ends at `text`: "name=value", "name": "value", ["name"] =
 * value, name%3Dvalue, <name>value, ("name", "value"), {"name": "name", "value": "value"}. */
static enum separator find_value(const char *text, bool tag, const char **value)
{
    const char *at = text + strspn(text, QUOTE "\\])} \t");
    bool quoted = at > text && strcspn(text, QUOTE) < (size_t)(at - text);
    enum separator found = SEPARATOR_NONE;
    const char *next = at + (*at == ',' || *at == '(');
    next += strspn(next, BLANK QUOTE "\\{");
    if (quoted && strncasecmp(next, "value", 5) == 0)
        return find_value(next + 5, false, value);
    if ((*at == ',' && quoted) || *at == '(') {
        const char *inner = at + 1 + strspn(at + 1, BLANK);
        *value = *at == '(' ? at : inner;
        return quote_length(inner) ? SEPARATOR_EQUALS : SEPARATOR_NONE;
    }
    size_t signs = strspn(at, "?+:=");
    bool percent = strncasecmp(at, "%3D", 3) == 0 || strncasecmp(at, "%3A", 3) == 0;
    if (tag && *at == '>') {
        found = SEPARATOR_TAG;
        at++;
    } else if (percent || at[strspn(at, "?+:")] == '=') {
        found = SEPARATOR_EQUALS;
        at += percent ? 3 : signs + (at[signs] == '>');
    } else if (*at == ':') {
        found = SEPARATOR_COLON;
        at++;
    }
    *value = found == SEPARATOR_NONE ? at : at + strspn(at, " \t");
    return found;
}

/* The next word behind an option or a word; NULL: another option follows, or nothing. */
static const char *next_word(const struct col_text *in, const char *at)
{
    at += strspn(at, QUOTE "\\");
    if (!*at && at + 1 < in->text + in->size)
        return at[1] == '-' && (at[2] == '-' || !at[2] || !at[3]) ? NULL : at + 1;
    const char *word = at + strspn(at, BLANK);
    while (strncmp(word, "\\\n", 2) == 0) /* a line that goes on */
        word += 2 + strspn(word + 2, BLANK);
    bool option = *word == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]));
    return word == at || !*word || option ? NULL : word;
}

/* The end of a word: of the whole argument where it begins one. */
static const char *word_end(const struct col_text *in, const char *word)
{
    return begins_argument(in, word) ? word + strlen(word) : value_end(word, false);
}

/* Does "NAME VALUE" assign, although NAME is no option: "set password X", "login password X"? */
static bool assigns(const struct col_text *in, const char *name, size_t length)
{
    if (col_list_has(col_bare, name, length))
        return true;
    const char *end = name;
    while (end > in->text && (!end[-1] || is_one_of(end[-1], BLANK QUOTE)))
        end--;
    const char *verb = end;
    while (verb > in->text && is_one_of(verb[-1], NAME))
        verb--;
    return verb < end && col_list_has(col_verb, verb, (size_t)(end - verb));
}

/* The kind of a name. The key of a function of Azure is the parameter "code" of its URL. */
static enum col_name_kind kind_of_name(const char *name, size_t length, char before)
{
    if (length == 4 && is_one_of(before, "?&") && strncmp(name, "code", 4) == 0)
        return COL_NAME_WEAK;
    return col_name_kind(name, length);
}

/* Marks the value behind a name of `length` bytes. Returns where to go on. */
static const char *hide_behind_name(struct col_text *in, const char *name, size_t length)
{
    const char *after = name + length, *value, *argument = argument_of(in, name);
    char before = argument < name ? name[-1] : 0;
    enum col_name_kind kind = kind_of_name(name, length, before);
    if (kind == COL_NAME_HARMLESS)
        return after;
    enum separator found = find_value(after, before == '<', &value);
    bool alone = !before || is_one_of(before, BLANK QUOTE "(;&|:");
    if (found == SEPARATOR_NONE) {
        bool bare = alone && *name != '-' && kind != COL_NAME_DOUBTFUL && assigns(in, name, length);
        value = (alone && *name == '-') || bare ? next_word(in, after) : NULL;
        return value ? hide_value(in, kind, value, word_end(in, value)) : after;
    }
    if (found == SEPARATOR_COLON && before == '/' && name - 1 > argument) /* a path of a volume */
        return after;
    bool whole = name == argument && found == SEPARATOR_EQUALS && !is_script(in, argument);
    const char *end = whole ? value + strlen(value) : value_end(value, found == SEPARATOR_COLON);
    if (found == SEPARATOR_TAG)
        end = value + strcspn(value, "<");
    bool hidden = hide_value(in, kind, value, end) == end;
    if (kind == COL_NAME_WEAK) /* its value may be a name: key="password" value="X" */
        return value;
    return hidden ? end : after;
}

/* The program itself is never taken for an option. */
static void hide_named_values(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at < end;) {
        size_t length = strspn(at, NAME);
        at = length ? hide_behind_name(in, at, length) : at + 1;
    }
}

/* ---- values behind options of known programs ------------------------------------------------------------------- */

/* Marks a value if the row of its option takes it for a secret. */
static void hide_option_value(struct col_text *in, const struct col_option_row *row,
                              const char *value)
{
    const char *end = word_end(in, value);
    size_t length = (size_t)(end - value);
    if (row->must_hold && !memchr(value, row->must_hold, length))
        return;
    if (length && (row->numbers || strspn(value, "0123456789.:/") < length))
        hide(in, value, end);
}

/* Is a word an option, or several of one letter of which it is the last one: "-sSu"? */
static bool is_option(const char *word, size_t length, const char *option, size_t bytes)
{
    if (length == bytes)
        return strncmp(word, option, bytes) == 0;
    bool combined = bytes == 2 && *option == '-' && length > 2 && length <= 6 && *word == '-' &&
                    word[length - 1] == option[1];
    for (size_t i = 1; combined && i < length; i++)
        combined = isalpha((unsigned char)word[i]) != 0;
    return combined;
}

/* Marks what an option of a row takes as its value. */
static void hide_option(struct col_text *in, const struct col_option_row *row, const char *option,
                        size_t bytes, const char *word, size_t length)
{
    bool is_quoted = length == bytes && quote_length(word + bytes); /* -p'X' */
    if ((length > bytes || is_quoted) && row->attached && !strncmp(word, option, bytes) &&
        word[bytes] != '-')
        hide_option_value(in, row, word + bytes + (word[bytes] == '='));
    if (!is_option(word, length, option, bytes))
        return;
    const char *value = next_word(in, word + length);
    for (int skip = row->skip; value && skip > 0; skip--)
        value = next_word(in, word_end(in, value));
    if (value)
        hide_option_value(in, row, value);
}

/* Looks a word up among the options of a program; "" is the program itself. */
static void hide_behind_option(struct col_text *in, const char *program, size_t program_length,
                               const char *word, size_t length)
{
    for (size_t i = 0; i < col_option_count; i++) {
        const struct col_option_row *row = &col_option[i];
        if (*row->programs && !col_list_has(row->programs, program, program_length))
            continue;
        if (!*row->options)
            hide_option(in, row, program, program_length, word, length);
        for (const char *at = row->options; *at; at += strcspn(at, " "), at += *at == ' ')
            hide_option(in, row, at, strcspn(at, " "), word, length);
    }
}

static bool is_program(const char *word, size_t length)
{
    for (size_t i = 0; i < col_option_count; i++)
        if (col_list_has(col_option[i].programs, word, length))
            return true;
    return false;
}

/* The program of an option is the last word before it whose base name is in the table. */
static void hide_option_values(struct col_text *in)
{
    const char *end = in->text + in->size, *program = "";
    size_t program_length = 0;
    for (const char *at = in->text; at < end; at += !*at) {
        at += strspn(at, BLANK QUOTE "\\();&|$");
        const char *base = at, *word = at;
        at += strcspn(at, BLANK QUOTE "\\();&|");
        for (const char *letter = word; letter < at; letter++)
            base = *letter == '/' ? letter + 1 : base;
        if (is_program(base, (size_t)(at - base))) {
            program = word = base;
            program_length = (size_t)(at - base);
        }
        hide_behind_option(in, program, program_length, word, (size_t)(at - word));
    }
}

/* "echo SECRET | sudo -S": what is written into a program that reads a password. */
static void hide_piped(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *argument = in->text; argument < end; argument += strlen(argument) + 1)
        for (size_t i = 0; i < col_reader_count; i++) {
            const char *reader = strstr(argument, col_reader[i]), *pipe = reader;
            while (pipe && pipe > argument && *pipe != '|')
                pipe--;
            const char *from = pipe;
            while (from && from > argument && strncmp(from, "echo ", 5) != 0 &&
                   strncmp(from, "printf ", 7) != 0)
                from--;
            if (pipe && *pipe == '|' && (*from == 'e' || *from == 'p'))
                hide(in, from + strcspn(from, " ") + 1, pipe);
            const char *here = reader ? strstr(reader, "<<<") : NULL;
            if (here)
                hide(in, here + 3 + strspn(here + 3, BLANK), here + strlen(here));
        }
}

/* ---- credentials in URLs ---------------------------------------------------------------------------------------- */

/* The '@' that ends the credentials that begin at `from`; NULL: there are none. A password may
 * contain '/', which nothing but a port tells from the path behind a host. */
static const char *credentials_end(const char *from, const char *end)
{
    const char *host_end = from + strcspn(from, "/?#"), *sign = NULL;
    host_end = host_end < end ? host_end : end;
    for (const char *at = from; at < host_end; at++)
        sign = *at == '@' ? at : sign;
    const char *colon = memchr(from, ':', (size_t)(host_end - from));
    if (!sign && colon && colon + 1 + strspn(colon + 1, "0123456789") < host_end)
        sign = memchr(host_end, '@', (size_t)(end - host_end));
    return sign;
}

/* In a URL all text before the '@' is hidden, but not the name of a user alone where that is
 * no key ("ssh://git@host"). */
static void hide_url_credentials(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at + 2 < end; at++) {
        if (strncmp(at, "//", 2) != 0 || begins_argument(in, at))
            continue;
        const char *from = at + 2, *scheme = at - (at[-1] == ':');
        const char *sign = credentials_end(from, from + strcspn(from, BLANK "<>"));
        const char *name = scheme;
        while (name > in->text && isalpha((unsigned char)name[-1]))
            name--;
        bool is_key = sign && (memchr(from, ':', (size_t)(sign - from)) ||
                               !col_list_has(col_user_schemes, name, (size_t)(scheme - name)));
        if (is_key)
            hide(in, from, sign);
    }
}

/* "user:password@host" without a scheme. */
static void hide_user_password(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at < end; at++) {
        const char *from = at, *equals;
        at += strcspn(at, BLANK QUOTE "<>");
        const char *sign = memchr(from, '@', (size_t)(at - from));
        if (!sign || strncmp(sign, "@sha256:", 8) == 0)
            continue;
        if ((equals = memchr(from, '=', (size_t)(sign - from))))
            from = equals + 1;
        const char *colon = memchr(from, ':', (size_t)(sign - from));
        if (!colon || colon[1] == '/')
            continue;
        for (const char *other = sign; other < at && !is_one_of(*other, "/?#"); other++)
            sign = *other == '@' ? other : sign;
        hide(in, from, sign);
    }
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* Is a word of hexadecimal digits named as a hash: is it part of a path of files, or does it or the
 * word before it say so? */
static bool is_named_hash(const struct col_text *in, const char *word, size_t length)
{
    const char *from = word;
    bool is_url = false, is_named = false;
    for (int gaps = 0; from > in->text && word - from < 80; from--) {
        gaps += !from[-1] || is_one_of(from[-1], BLANK);
        if (gaps > 1)
            break;
    }
    for (const char *at = from; at < word; at++) {
        is_url = is_url || strncmp(at, "://", 3) == 0;
        for (size_t i = 0; i < col_hash_count; i++)
            is_named = is_named || strncasecmp(at, col_hash[i], strlen(col_hash[i])) == 0;
    }
    bool in_path = (word > in->text && word[-1] == '/') || is_one_of(word[length], "/.");
    return is_named || (in_path && !is_url);
}

/* Marks words that are random, or the keys of a service. */
static void hide_keys(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at < end; at++) {
        bool begins = begins_argument(in, at) || !isalnum((unsigned char)at[-1]);
        size_t key = begins ? col_shape_key(at) : 0;
        hide(in, at, at + key);
        if (!begins_argument(in, at) && !is_one_of(at[-1], BREAKS))
            continue;
        size_t length = strcspn(at, BREAKS), run = strspn(at, COL_BASE64);
        if (col_shape_is_random(at, length) && !col_shape_is_hexadecimal(at, length))
            hide(in, at, at + length);
        if (col_shape_is_hexadecimal(at, length) && !is_named_hash(in, at, length))
            hide(in, at, at + length);
        if (run && col_shape_is_base64(at, run))
            hide(in, at, at + run);
    }
}

/* Marks what follows the name of a way to authenticate at `at`: "Bearer X". */
static void hide_behind_scheme(struct col_text *in, const char *at)
{
    const char *end = in->text + in->size;
    for (size_t i = 0; i < col_scheme_count; i++) {
        size_t length = strlen(col_scheme[i].name);
        if (strncmp(at, col_scheme[i].name, length) != 0)
            continue;
        const char *word = at + length + (!at[length] && at + length + 1 < end);
        word += strspn(word, BLANK "+:");
        word += strncmp(word, "%20", 3) == 0 ? 3 : 0;
        const char *last = value_end(word, false);
        if (word > at + length && last - word >= col_scheme[i].least && !is_one_of(*word, "/-."))
            hide(in, word, last);
    }
}

/* Marks blocks of keys, but not certificates. */
static void hide_blocks(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at < end; at++) {
        if (strncmp(at, "-----BEGIN", 10) == 0 && strncmp(at, "-----BEGIN CERTIFICATE", 22) != 0) {
            const char *last = strstr(at, "-----END");
            hide(in, at, last ? last + strcspn(last, "\n\"'\\") : at + strlen(at));
        }
        if (begins_argument(in, at) || !isalnum((unsigned char)at[-1]))
            hide_behind_scheme(in, at);
    }
}

void col_secrets_find(const char *text, size_t size, bool *marks)
{
    struct col_text in = {text, size, marks};
    hide_named_values(&in);
    hide_option_values(&in);
    hide_piped(&in);
    hide_url_credentials(&in);
    hide_user_password(&in);
    hide_keys(&in);
    hide_blocks(&in);
}
