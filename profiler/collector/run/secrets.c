/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule walks over the text and marks what it takes for a secret: values behind names, values
 * behind options of known programs, words with the shape of a key, blocks.
 */
#include "profiler/collector/run/secrets.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "profiler/collector/run/secret_names.h"
#include "profiler/collector/run/secret_options.h"
#include "profiler/collector/run/secret_pipes.h"
#include "profiler/collector/run/secret_shapes.h"
#include "profiler/collector/run/secret_text.h"
#include "profiler/collector/run/secret_urls.h"

#define NAME   COL_TEXT_NAME
#define BLANK  COL_TEXT_BLANK
#define QUOTE  COL_TEXT_QUOTE
#define BREAKS BLANK QUOTE ",;:=/()[]{}|&?@<>\\" /* what separates words that may be keys */

static void hide(struct col_text *in, const char *from, const char *end)
{
    col_text_hide(in, from, end);
}

static bool is_one_of(char letter, const char *set)
{
    return col_text_is_one_of(letter, set);
}

static bool begins_argument(const struct col_text *in, const char *at)
{
    return col_text_begins_argument(in, at);
}

/* Is the argument a script, because the one before it is "-c", "-lc" or the like? */
static bool is_script(const struct col_text *in, const char *argument)
{
    if (argument == in->text)
        return false;
    const char *before = col_text_argument(in, argument - 1);
    size_t length = strlen(before);
    return *before == '-' && length >= 2 && length <= 5 && before[length - 1] == 'c' &&
           before[1] != '-';
}

/* Marks the value at `from` if a name of this kind hides it. Returns its end, or `from`. */
static const char *hide_value(struct col_text *in, enum col_name_kind kind, const char *from,
                              const char *end)
{
    size_t quote = col_text_quote(from);
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

/* Bytes of a quote or a blank as a URL or HTML spells it; 0: none. */
static size_t spelled_mark(const char *text)
{
    static const char *const spelled[] = {"%22", "%27", "%20", "&quot;", "&#34;", "&#39;"};
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
        if (strncasecmp(text, spelled[i], strlen(spelled[i])) == 0)
            return strlen(spelled[i]);
    return 0;
}

/* Steps over quotes, closing brackets and blanks. */
static const char *skip_marks(const char *text)
{
    for (size_t more = 1; more; text += more) {
        text += strspn(text, QUOTE "\\])} \t");
        more = spelled_mark(text);
    }
    return text;
}

/* The value behind a tag of XML that ends at `at`: <name a="b">value,
 * <name>NAME</name><value>value, <entry key="NAME">value. NULL: none. */
static const char *tag_value(const char *text, const char *at, bool tag)
{
    const char *end = at + strcspn(at, "<>");
    bool is_behind = at > text; /* a quote, or a blank before an attribute */
    if (tag && *at == '>')
        return at + 1;
    if (strncmp(at, "</", 2) == 0 && strchr(at, '>')) {
        const char *next = strchr(at, '>') + 1;
        next += strspn(next, BLANK);
        return strncasecmp(next, "<value>", 7) == 0 ? next + 7 : NULL;
    }
    bool is_tag = is_behind && *end == '>' && end[-1] != '/' && (tag || end == at);
    return is_tag && strstr(end, "</") ? end + 1 : NULL;
}

/* Finds the value right behind a name that ends at `text`: "name=value", "name": "value", ["name"]
 * = value, name%3Dvalue, <name>value, ("name", "value"), read name <<< value, [ name != value ]. */
static enum separator find_next(const char *text, bool tag, const char **value)
{
    const char *at = skip_marks(text);
    bool quoted = at > text && strcspn(text, QUOTE) < (size_t)(at - text);
    enum separator found = SEPARATOR_NONE;
    if ((*at == ',' && quoted) || *at == '(') {
        const char *inner = at + 1 + strspn(at + 1, BLANK);
        *value = at;
        if (*at == ',')
            *value = inner;
        return col_text_quote(inner) ? SEPARATOR_EQUALS : SEPARATOR_NONE;
    }
    size_t signs = strspn(at, "?+:=!");
    bool percent = strncasecmp(at, "%3D", 3) == 0 || strncasecmp(at, "%3A", 3) == 0;
    *value = tag_value(text, at, tag);
    if (*value)
        return SEPARATOR_TAG;
    if (percent || strncmp(at, "<<<", 3) == 0) {
        found = SEPARATOR_EQUALS;
        at += 3 + spelled_mark(at + 3);
    } else if (at[strspn(at, "?+:!")] == '=') {
        found = SEPARATOR_EQUALS;
        at += signs + (at[signs] == '>' || at[signs] == '~');
    } else if (*at == ':') {
        found = SEPARATOR_COLON;
        at++;
    }
    *value = at;
    if (found != SEPARATOR_NONE)
        *value += strspn(at, " \t");
    return found;
}

/* The same, and {"name": "name", "value": "value"}. */
static enum separator find_value(const char *text, bool tag, const char **value)
{
    const char *next = skip_marks(text);
    next += *next == ',' || *next == '(';
    next += strspn(next, BLANK QUOTE "\\{");
    if (next > text && strncasecmp(next, "value", 5) == 0) {
        enum separator found = find_next(next + 5, false, value);
        if (found != SEPARATOR_NONE)
            return found;
    }
    return find_next(text, tag, value);
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
    return begins_argument(in, word) ? word + strlen(word) : col_text_value_end(word, false);
}

/* Does "NAME VALUE" assign, although NAME is no option: "set password X", "login password X", "put
 * /db/password X"? */
static bool assigns(const struct col_text *in, const char *name, size_t length)
{
    const char *end = name, *verbs = col_verb;
    while (!begins_argument(in, end) && !is_one_of(end[-1], BLANK QUOTE "(;&|"))
        end--; /* the begin of a path, of which a store of values has some */
    if (end < name)
        verbs = "put set setex hset";
    else if (col_list_has(col_bare, name, length))
        return true;
    while (end > in->text && (!end[-1] || is_one_of(end[-1], BLANK QUOTE)))
        end--;
    const char *verb = end;
    while (verb > in->text && is_one_of(verb[-1], NAME))
        verb--;
    return verb < end && col_list_has(verbs, verb, (size_t)(end - verb));
}

/* The kind of a name. The key of a function of Azure is the parameter "code" of its URL. */
static enum col_name_kind kind_of_name(const char *name, size_t length, char before)
{
    if (length == 4 && is_one_of(before, "?&") && strncmp(name, "code", 4) == 0)
        return COL_NAME_WEAK;
    return col_name_kind(name, length);
}

/* Letters of a name that are part of what is before it: "\ntoken", "%22token". */
static size_t escape_length(const char *name, size_t length, char before)
{
    if (before == '\\' && length > 1 && is_one_of(*name, "nrt"))
        return 1;
    bool is_byte = before == '%' && length > 2 && isxdigit((unsigned char)name[0]) &&
                   isxdigit((unsigned char)name[1]);
    return is_byte ? 2 : 0;
}

/* Are there several pairs in the value of a header of this name? Any of them may be the secret. */
static bool has_pairs(const char *name, size_t length)
{
    static const char *const words[] = {"cookie", "authorization"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t at = 0; at + strlen(words[i]) <= length; at++)
            if (strncasecmp(name + at, words[i], strlen(words[i])) == 0)
                return true;
    return false;
}

/* "${NAME-value}" */
static const char *hide_default(struct col_text *in, const char *name, size_t length)
{
    const char *dash = memchr(name, '-', length);
    bool is_braced = name - in->text >= 2 && strncmp(name - 2, "${", 2) == 0;
    if (!is_braced || !dash || col_name_kind(name, (size_t)(dash - name)) == COL_NAME_HARMLESS)
        return name;
    const char *end = dash + strcspn(dash, "}");
    hide(in, dash + 1, end);
    return end;
}

/* Is the text before a name "name:", or what else says that the value is in another member? */
static bool is_member_name(const struct col_text *in, const char *name)
{
    const char *end = name;
    while (!begins_argument(in, end) && is_one_of(end[-1], BLANK QUOTE "\\"))
        end--;
    if (begins_argument(in, end) || !is_one_of(end[-1], ":="))
        return false;
    for (end--; !begins_argument(in, end) && is_one_of(end[-1], BLANK QUOTE "\\");)
        end--;
    const char *word = end;
    while (!begins_argument(in, word) && is_one_of(word[-1], NAME))
        word--;
    return col_list_has("name key id variable parameterkey parametername", word,
                        (size_t)(end - word));
}

/* Marks the value of {"value": "X", "type": "text", "name": "TOKEN"}, which an object of JSON or an
 * item of YAML may have in any order. */
static void hide_member(struct col_text *in, enum col_name_kind kind, const char *name)
{
    const char *from = name, *end = name, *value;
    if (!is_member_name(in, name))
        return;
    while (!begins_argument(in, from) && from[-1] != '{' &&
           (from[-1] != '\n' || from[strspn(from, " ")] != '-'))
        from--;
    while (*end && *end != '}' && (*end != '\n' || end[1 + strspn(end + 1, " ")] != '-'))
        end++;
    for (const char *at = from; at < end;) {
        size_t length = strspn(at, NAME);
        bool is_value = length >= 5 && strncasecmp(at + length - 5, "value", 5) == 0;
        at += length + !length;
        if (is_value && find_value(at, false, &value) != SEPARATOR_NONE && value < end)
            hide_value(in, kind, value, col_text_value_end(value, true));
    }
}

/* Marks a value that a colon separates from its name: a block of YAML, or a header of several
 * pairs, which may be the next argument. Returns its end; NULL: it is neither. */
static const char *hide_lines(struct col_text *in, enum col_name_kind kind, const char *name,
                              size_t length, const char *value)
{
    const char *end = NULL;
    bool is_plain = !col_text_quote(value) && !is_one_of(*value, "{[(");
    if (kind != COL_NAME_DOUBTFUL)
        end = col_text_block_end(in, name, value, kind == COL_NAME_SECRET);
    if (!end && is_plain && has_pairs(name, length)) {
        value += !*value && value + 1 < in->text + in->size;
        end = col_text_header_end(in, name, value);
    }
    if (end)
        hide(in, value, end);
    return end;
}

/* Marks the value behind a name of `length` bytes. Returns where to go on. */
static const char *hide_behind_name(struct col_text *in, const char *name, size_t length)
{
    const char *argument = col_text_argument(in, name), *value;
    char before = argument < name ? name[-1] : 0;
    enum col_name_kind kind = kind_of_name(name, length, before);
    size_t escape = escape_length(name, length, before);
    if (kind == COL_NAME_HARMLESS && escape) {
        name += escape;
        length -= escape;
        before = ' ';
        kind = kind_of_name(name, length, before);
    }
    const char *after = name + length;
    if (kind == COL_NAME_FOREIGN && *name != '-' && (name > argument || *after != '='))
        return after; /* words of a text */
    if (hide_default(in, name, length) != name || kind == COL_NAME_HARMLESS)
        return after;
    hide_member(in, kind, name);
    enum separator found = find_value(after, before == '<', &value);
    bool alone = !before || is_one_of(before, BLANK QUOTE "(;&|:");
    if (found == SEPARATOR_NONE) {
        bool bare = (alone || before == '/') && *name != '-' && kind != COL_NAME_DOUBTFUL &&
                    assigns(in, name, length);
        value = (alone && *name == '-') || bare ? next_word(in, after) : NULL;
        return value ? hide_value(in, kind, value, word_end(in, value)) : after;
    }
    if (found == SEPARATOR_COLON && before == '/' && name - 1 > argument) /* a path of a volume */
        return after;
    const char *lines = NULL;
    if (found == SEPARATOR_COLON && (lines = hide_lines(in, kind, name, length, value)))
        return lines;
    bool whole = name == argument && found == SEPARATOR_EQUALS && !is_script(in, argument);
    const char *end = col_text_value_end(value, found == SEPARATOR_COLON);
    if (whole)
        end = value + strlen(value);
    if (found == SEPARATOR_TAG)
        end = value + strcspn(value, "<");
    bool hidden = hide_value(in, kind, value, end) == end;
    if (kind == COL_NAME_WEAK) /* its value may be a name: key="password" value="X" */
        return value;
    return hidden ? end : after;
}

/* Goes over all names. */
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
    if (row->must_hold == '/' && *value == '/') /* "/nolog": neither user nor password */
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
    bool is_quoted = length == bytes && col_text_quote(word + bytes); /* -p'X' */
    bool is_long = bytes > 2 && !strncmp(option, "--", 2);
    if ((length > bytes || is_quoted) && row->attached && !strncmp(word, option, bytes) &&
        word[bytes] != '-' && (!is_long || word[bytes] == '='))
        hide_option_value(in, row, word + bytes + (word[bytes] == '='));
    if (!is_option(word, length, option, bytes))
        return;
    const char *value = next_word(in, word + length);
    for (int skip = row->skip; value && skip > 0; skip--)
        value = next_word(in, word_end(in, value));
    if (value)
        hide_option_value(in, row, value);
}

/* The programs of rows that were named before: another word, such as the name of a host, may be the
 * name of a program too. */
struct programs {
    bool is_named[COL_OPTIONS_MOST];
};

/* Looks a word up among the options of the programs before it; "" is the program itself. */
static void hide_behind_option(struct col_text *in, const struct programs *programs,
                               const char *word, size_t length)
{
    for (size_t i = 0; i < col_option_count; i++) {
        const struct col_option_row *row = &col_option[i];
        if (!*row->options && col_list_has(row->programs, word, length))
            hide_option(in, row, word, length, word, length);
        if (*row->programs && !programs->is_named[i])
            continue;
        for (const char *at = row->options; *at; at += strcspn(at, " "), at += *at == ' ')
            hide_option(in, row, at, strcspn(at, " "), word, length);
    }
}

/* Notes a word, without its folder, that is a program of the table. */
static bool note_program(struct programs *programs, const char *word, size_t length)
{
    bool found = false;
    for (size_t i = 0; i < col_option_count; i++)
        if (col_list_has(col_option[i].programs, word, length))
            found = programs->is_named[i] = true;
    return found;
}

static void hide_option_values(struct col_text *in)
{
    const char *end = in->text + in->size;
    struct programs programs = {{false}};
    for (const char *at = in->text; at < end; at += !*at) {
        at += strspn(at, BLANK QUOTE "\\();&|$");
        const char *base = at, *word = at;
        at += strcspn(at, BLANK QUOTE "\\();&|");
        for (const char *letter = word; letter < at; letter++)
            if (*letter == '/')
                base = letter + 1;
        if (note_program(&programs, base, (size_t)(at - base)))
            word = base;
        hide_behind_option(in, &programs, word, (size_t)(at - word));
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

/* Does a word begin at `at`, also behind an escape: "\nghp_...", "%20ghp_..."? */
static bool begins_word(const struct col_text *in, const char *at)
{
    if (begins_argument(in, at) || !isalnum((unsigned char)at[-1]))
        return true;
    if (begins_argument(in, at - 1))
        return false;
    bool is_byte = at - in->text >= 3 && at[-3] == '%' && isxdigit((unsigned char)at[-2]) &&
                   isxdigit((unsigned char)at[-1]);
    return is_byte || (at[-2] == '\\' && is_one_of(at[-1], "nrt"));
}

/* Marks words that are random, or the keys of a service. */
static void hide_keys(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at < end; at++) {
        size_t key = begins_word(in, at) ? col_shape_key(at) : 0;
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
        const char *last = col_text_value_end(word, false);
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
        if (strncmp(at, "---- BEGIN", 10) == 0 || strncmp(at, "PuTTY-User-Key-File", 19) == 0)
            hide(in, at, at + strlen(at));
        if (begins_word(in, at))
            hide_behind_scheme(in, at);
    }
}

void col_secrets_find(const char *text, size_t size, bool *marks)
{
    struct col_text in = {text, size, marks};
    hide_named_values(&in);
    hide_option_values(&in);
    col_pipes_hide(&in);
    col_urls_hide(&in);
    hide_keys(&in);
    hide_blocks(&in);
}
