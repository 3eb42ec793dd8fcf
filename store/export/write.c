/* SPDX-License-Identifier: Apache-2.0
 *
 * What the formats write with: JSON strings, the members of payloads, CSV cells, the end of a
 * stream.
 */
#include <inttypes.h>
#include <string.h>

#include "store/export/exporter.h"
#include "tacho_utf8.h"

static size_t sequence(const char *text) /* of a terminated text */
{
    return tacho_utf8_sequence((const unsigned char *)text, strnlen(text, 4));
}

void exp_json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        if (*p == '"' || *p == '\\') {
            fprintf(out, "\\%c", *p++);
        } else if (*p < 0x20 || *p == 0x7f) {
            fprintf(out, "\\u%04x", *p++);
        } else {
            size_t n = sequence((const char *)p);
            if (n)
                fwrite(p, 1, n, out);
            else
                fputs("\\ufffd", out);
            p += n ? n : 1;
        }
    }
    putc('"', out);
}

static const char *blank(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* Behind the string that begins at p, NULL: it does not end. */
static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && !*++p)
            return NULL;
    return *p ? p + 1 : NULL;
}

static const char *skip_value(const char *p)
{
    int depth = 0;
    do {
        if (*p == '"') {
            p = skip_string(p);
            if (!p)
                return NULL;
            continue;
        }
        if (!*p)
            return NULL;
        if (*p == '{' || *p == '[')
            depth++;
        else if (*p == '}' || *p == ']')
            depth--;
        p++;
    } while (depth > 0 || (depth == 0 && *p && !strchr(",}]", *p)));
    return depth ? NULL : p;
}

/* ---- validity: what is put into a file as it is must not break it --------------------------------------------------------- */

static const char *valid_string(const char *p)
{
    for (p++; *p && *p != '"';) {
        size_t n = (unsigned char)*p < 0x20 ? 0 : sequence(p);
        if (*p == '\\') {
            if (p[1] == 'u' && strspn(p + 2, "0123456789abcdefABCDEF") >= 4)
                n = 6;
            else
                n = p[1] && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
        }
        if (!n)
            return NULL;
        p += n;
    }
    return *p ? p + 1 : NULL;
}

static const char *valid_number(const char *p)
{
    p += *p == '-';
    size_t n = strspn(p, "0123456789");
    if (!n || (n > 1 && *p == '0'))
        return NULL;
    p += n;
    if (*p == '.') {
        n = strspn(++p, "0123456789");
        if (!n)
            return NULL;
        p += n;
    }
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '+' || p[1] == '-');
        n = strspn(p, "0123456789");
        if (!n)
            return NULL;
        p += n;
    }
    return p;
}

/* Behind the value at p, NULL: it is none. */
static const char *valid_value(const char *p, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    p = blank(p);
    if (*p == '"')
        return valid_string(p);
    if (*p != '{' && *p != '[') {
        for (size_t i = 0; i < 3; i++)
            if (!strncmp(p, words[i], strlen(words[i])))
                return p + strlen(words[i]);
        return valid_number(p);
    }
    char close = *p == '{' ? '}' : ']';
    if (depth >= 64)
        return NULL;
    p = blank(p + 1);
    if (*p == close)
        return p + 1;
    for (;;) {
        if (close == '}') {
            p = blank(p);
            p = *p == '"' ? valid_string(p) : NULL;
            p = p ? blank(p) : NULL;
            if (!p || *p != ':')
                return NULL;
            p++;
        }
        p = valid_value(p, depth + 1);
        if (!p)
            return NULL;
        p = blank(p);
        if (*p == close)
            return p + 1;
        if (*p++ != ',')
            return NULL;
    }
}

bool exp_json_valid(const char *text)
{
    const char *end = valid_value(text, 0);
    return end && !*blank(end);
}

int exp_json_member(const char **at, const char **key, size_t *key_bytes, const char **value,
                    size_t *value_bytes)
{
    const char *p = blank(*at);
    if (*p == '{' || *p == ',')
        p = blank(p + 1);
    if (*p == '}')
        return *blank(p + 1) ? -1 : 0;
    if (*p != '"')
        return -1;
    const char *end = skip_string(p);
    if (!end)
        return -1;
    *key = p + 1;
    *key_bytes = (size_t)(end - p - 2);
    p = blank(end);
    if (*p != ':')
        return -1;
    *value = blank(p + 1);
    if (!**value || strchr(",}]", **value))
        return -1;
    end = skip_value(*value);
    if (!end)
        return -1;
    *value_bytes = (size_t)(end - *value);
    *at = end;
    return 1;
}

/* ---- CSV -------------------------------------------------------------------------------------------------------------------- */

void exp_csv_text(FILE *out, const char *text)
{
    if (!text)
        return;
    if (*text && !strpbrk(text, "\",\r\n")) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}

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
