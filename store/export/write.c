/* SPDX-License-Identifier: Apache-2.0
 *
 * What the formats write with: JSON strings, the members of payloads, numbers of CSV, the end of a
 * stream.
 */
#include <inttypes.h>
#include <string.h>

#include "store/export/export_private.h"
#include "tacho_utf8.h"

static size_t sequence(const char *text) /* of a terminated text */
{
    return tacho_utf8_sequence((const unsigned char *)text, strnlen(text, 4));
}

void exp_json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *byte = (const unsigned char *)text; *byte;) {
        if (*byte == '"' || *byte == '\\') {
            fprintf(out, "\\%c", *byte++);
        } else if (*byte < 0x20 || *byte == 0x7f) {
            fprintf(out, "\\u%04x", *byte++);
        } else {
            size_t bytes = sequence((const char *)byte);
            if (bytes)
                fwrite(byte, 1, bytes, out);
            else
                fputs("\\ufffd", out);
            byte += bytes ? bytes : 1;
        }
    }
    putc('"', out);
}

static const char *blank(const char *text)
{
    return text + strspn(text, " \t\r\n");
}

/* Behind the string that begins at p, NULL: it does not end. */
static const char *skip_string(const char *text)
{
    for (text++; *text && *text != '"'; text++)
        if (*text == '\\' && !*++text)
            return NULL;
    return *text ? text + 1 : NULL;
}

/* The end of the value that begins at `text`; NULL: it does not end. */
static const char *skip_value(const char *text)
{
    int depth = 0;
    do {
        if (*text == '"') {
            text = skip_string(text);
            if (!text)
                return NULL;
            continue;
        }
        if (!*text)
            return NULL;
        if (*text == '{' || *text == '[')
            depth++;
        else if (*text == '}' || *text == ']')
            depth--;
        text++;
    } while (depth > 0 || (depth == 0 && *text && !strchr(",}]", *text)));
    return depth ? NULL : text;
}

/* ---- validity: what is put into a file as it is must not break it --------------------------------------------------------- */

/* The end of a valid string; NULL: it is not valid. */
static const char *valid_string(const char *text)
{
    for (text++; *text && *text != '"';) {
        size_t bytes = (unsigned char)*text < 0x20 ? 0 : sequence(text);
        if (*text == '\\') {
            if (text[1] == 'u' && strspn(text + 2, "0123456789abcdefABCDEF") >= 4)
                bytes = 6;
            else
                bytes = text[1] && strchr("\"\\/bfnrt", text[1]) ? 2 : 0;
        }
        if (!bytes)
            return NULL;
        text += bytes;
    }
    return *text ? text + 1 : NULL;
}

/* The end of a valid number; NULL: it is not valid. */
static const char *valid_number(const char *text)
{
    text += *text == '-';
    size_t count = strspn(text, "0123456789");
    if (!count || (count > 1 && *text == '0'))
        return NULL;
    text += count;
    if (*text == '.') {
        count = strspn(++text, "0123456789");
        if (!count)
            return NULL;
        text += count;
    }
    if (*text == 'e' || *text == 'E') {
        text += 1 + (text[1] == '+' || text[1] == '-');
        count = strspn(text, "0123456789");
        if (!count)
            return NULL;
        text += count;
    }
    return text;
}

/* The end of a valid value; NULL: it is not valid. */
static const char *valid_value(const char *text, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    text = blank(text);
    if (*text == '"')
        return valid_string(text);
    if (*text != '{' && *text != '[') {
        for (size_t i = 0; i < 3; i++)
            if (!strncmp(text, words[i], strlen(words[i])))
                return text + strlen(words[i]);
        return valid_number(text);
    }
    char close = *text == '{' ? '}' : ']';
    if (depth >= 64)
        return NULL;
    text = blank(text + 1);
    if (*text == close)
        return text + 1;
    for (;;) {
        if (close == '}') {
            text = blank(text);
            text = *text == '"' ? valid_string(text) : NULL;
            text = text ? blank(text) : NULL;
            if (!text || *text != ':')
                return NULL;
            text++;
        }
        text = valid_value(text, depth + 1);
        if (!text)
            return NULL;
        text = blank(text);
        if (*text == close)
            return text + 1;
        if (*text++ != ',')
            return NULL;
    }
}

bool exp_json_valid(const char *text)
{
    const char *end = valid_value(text, 0);
    return end && !*blank(end);
}

int exp_json_member(const char **position, const char **key, size_t *key_bytes, const char **value,
                    size_t *value_bytes)
{
    const char *text = blank(*position);
    if (*text == '{' || *text == ',')
        text = blank(text + 1);
    if (*text == '}')
        return *blank(text + 1) ? -1 : 0;
    if (*text != '"')
        return -1;
    const char *end = skip_string(text);
    if (!end)
        return -1;
    *key = text + 1;
    *key_bytes = (size_t)(end - text - 2);
    text = blank(end);
    if (*text != ':')
        return -1;
    *value = blank(text + 1);
    if (!**value || strchr(",}]", **value))
        return -1;
    end = skip_value(*value);
    if (!end)
        return -1;
    *value_bytes = (size_t)(end - *value);
    *position = end;
    return 1;
}

/* ---- CSV -------------------------------------------------------------------------------------------------------------------- */

void exp_csv_integer(FILE *out, int64_t value)
{
    if (value != STORE_ABSENT)
        fprintf(out, "%" PRId64, value);
}

/* ---- the end ----------------------------------------------------------------------------------------------------------------- */

int exp_end(FILE *out, int code, struct tacho_error *err)
{
    if (!code && (fflush(out) || ferror(out)))
        code = tacho_fail(err, TACHO_EIO, NULL, "%s", tacho_error_text(TACHO_EIO));
    return code;
}
