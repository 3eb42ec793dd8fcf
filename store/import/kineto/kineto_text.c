/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers, times and strings of Kineto traces, read from their JSON text, and JSON written back.
 * Times are read without floating point, because a double does not hold ns since 1970.
 */
#include "store/import/kineto/kineto_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_utf8.h"

/* ---- growing text ------------------------------------------------------------------------------------------------------ */

void kineto_text_put(struct kineto_text *text, const void *bytes, size_t count)
{
    if (text->failed)
        return;
    if (text->cap - text->bytes < count) {
        size_t cap = text->cap ? text->cap : 256;
        while (cap - text->bytes < count)
            cap *= 2;
        char *data = realloc(text->data, cap);
        if (!data) {
            text->failed = true;
            return;
        }
        text->data = data;
        text->cap = cap;
    }
    if (count)
        memcpy(text->data + text->bytes, bytes, count);
    text->bytes += count;
}

void kineto_text_puts(struct kineto_text *out, const char *text)
{
    kineto_text_put(out, text, strlen(text));
}

void kineto_text_clear(struct kineto_text *text)
{
    free(text->data);
    memset(text, 0, sizeof *text);
}

/* ---- spans ------------------------------------------------------------------------------------------------------------- */

bool kineto_is_string(struct kj_span span)
{
    return span.text && span.bytes >= 2 && span.text[0] == '"' && span.text[span.bytes - 1] == '"';
}

bool kineto_is_null(struct kj_span span)
{
    return !span.text || (span.bytes == 4 && !memcmp(span.text, "null", 4));
}

struct kj_span kineto_inside(struct kj_span span)
{
    return kineto_is_string(span) ? (struct kj_span){span.text + 1, span.bytes - 2} : span;
}

bool kineto_equals(struct kj_span span, const char *text)
{
    span = kineto_inside(span);
    return span.text && span.bytes == strlen(text) && !memcmp(span.text, text, span.bytes);
}

bool kineto_begins(struct kj_span span, const char *text)
{
    span = kineto_inside(span);
    return span.text && span.bytes >= strlen(text) && !memcmp(span.text, text, strlen(text));
}

struct kj_span kineto_span(const char *text)
{
    return (struct kj_span){text, strlen(text)};
}

struct kj_arg *kineto_argument(const struct kj_event *event, const char *key)
{
    for (size_t i = 0; i < event->arg_count; i++)
        if (event->arg[i].key.bytes == strlen(key) &&
            !memcmp(event->arg[i].key.text, key, event->arg[i].key.bytes))
            return &event->arg[i];
    return NULL;
}

struct kj_span kineto_value(const struct kj_event *event, const char *key)
{
    const struct kj_arg *found = kineto_argument(event, key);
    return found ? found->value : (struct kj_span){NULL, 0};
}

void kineto_put_argument(struct kj_event *event, enum kineto_arg id, const char *key,
                         struct kj_span value)
{
    if (event->arg_count < KJ_ARGS_MAX)
        event->arg[event->arg_count++] = (struct kj_arg){kineto_span(key), value, id};
}

/* Without blanks around it. */
static struct kj_span trim(struct kj_span span)
{
    for (; span.bytes && (span.text[0] == ' ' || span.text[0] == '\t'); span.text++)
        span.bytes--;
    while (span.bytes && (span.text[span.bytes - 1] == ' ' || span.text[span.bytes - 1] == '\t'))
        span.bytes--;
    return span;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

/* A number after 0x. */
static bool hexadecimal(struct kj_span span, int64_t *out)
{
    uint64_t value = 0;
    if (span.bytes > 18)
        return false;
    for (size_t i = 2; i < span.bytes; i++) {
        char letter = span.text[i];
        unsigned digit = (unsigned)(letter - '0');
        if (!isxdigit((unsigned char)letter))
            return false;
        if (digit > 9)
            digit = (unsigned)((letter | 0x20) - 'a' + 10);
        value = value << 4 | digit;
    }
    *out = (int64_t)value;
    return span.bytes > 2;
}

bool kineto_int(struct kj_span span, int64_t *out)
{
    span = trim(kineto_inside(span));
    if (!span.text || !span.bytes)
        return false;
    if (span.bytes > 2 && span.text[0] == '0' && (span.text[1] | 0x20) == 'x')
        return hexadecimal(span, out);
    size_t i = span.text[0] == '-' || span.text[0] == '+';
    uint64_t value = 0;
    size_t first = i;
    for (; i < span.bytes && span.text[i] >= '0' && span.text[i] <= '9'; i++)
        if (i - first >= 19 || (value = value * 10 + (uint64_t)(span.text[i] - '0')) > INT64_MAX)
            return false;
    if (i == first)
        return false;
    if (i < span.bytes) { /* 7.0 */
        if (span.text[i] != '.')
            return false;
        for (i++; i < span.bytes; i++)
            if (span.text[i] != '0')
                return false;
    }
    *out = span.text[0] == '-' ? -(int64_t)value : (int64_t)value;
    return true;
}

/* A decimal number taken apart: value = digits * 10^exponent, no leading or trailing zeros in
 * digits. */
struct decimal {
    char digit[64];
    int count, exponent, fraction; /* fraction: digits after the point as written */
    bool negative;
};

/* Takes a decimal number apart. Digits beyond what any time needs only count in the exponent. */
static bool decimal_read(struct kj_span span, struct decimal *decimal)
{
    size_t i = 0;
    bool any = false, point = false;
    memset(decimal, 0, sizeof *decimal);
    if (i < span.bytes && (span.text[i] == '-' || span.text[i] == '+'))
        decimal->negative = span.text[i++] == '-';
    for (; i < span.bytes; i++) {
        char letter = span.text[i];
        if (letter == '.' && !point) {
            point = true;
            continue;
        }
        if (letter < '0' || letter > '9')
            break;
        any = true;
        decimal->fraction += point;
        if (decimal->count == (int)sizeof decimal->digit || (!decimal->count && letter == '0')) {
            decimal->exponent +=
                (decimal->count != 0) - point; /* beyond what any time needs, or a leading zero */
            continue;
        }
        decimal->digit[decimal->count++] = letter;
        decimal->exponent -= point;
    }
    if (any && i < span.bytes && (span.text[i] | 0x20) == 'e') {
        int64_t exponent;
        if (!kineto_int((struct kj_span){span.text + i + 1, span.bytes - i - 1}, &exponent) ||
            exponent < -400 || exponent > 400)
            return false;
        decimal->exponent += (int)exponent;
        i = span.bytes;
    }
    while (decimal->count && decimal->digit[decimal->count - 1] == '0') {
        decimal->count--;
        decimal->exponent++;
    }
    return any && i == span.bytes;
}

/* A time in any notation. Rounds half up where it has more digits than ns. */
static bool time_general(struct kj_span span, int unit, int64_t *ns, int *decimals, bool *rounded)
{
    struct decimal decimal;
    if (!decimal_read(span, &decimal))
        return false;
    int finest = decimal.count && decimal.exponent < 0 ? -decimal.exponent : 0;
    int shift = unit == 1000 ? 3 : 0;
    *decimals = decimal.fraction < 3 ? decimal.fraction : 3;
    if (finest > 3)
        *decimals = finest;
    int whole = decimal.count + decimal.exponent + shift; /* digits of the whole ns */
    uint64_t value = 0;
    if (decimal.count && whole > 19)
        return false;
    for (int i = 0; i < whole; i++)
        value = value * 10 + (i < decimal.count ? (uint64_t)(decimal.digit[i] - '0') : 0);
    if (whole < decimal.count) {
        *rounded = true;
        value += whole >= 0 && decimal.digit[whole] >= '5';
    }
    if (value > INT64_MAX)
        return false;
    *ns = decimal.negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool kineto_time(struct kj_span span, int unit, int64_t *ns, int *decimals, bool *rounded)
{
    span = trim(kineto_inside(span));
    if (!span.text || !span.bytes)
        return false;
    /* nearly every time: up to 16 digits, a point, up to 3 digits */
    uint64_t value = 0;
    size_t i = 0;
    while (i < span.bytes && i < 16 && span.text[i] >= '0' && span.text[i] <= '9')
        value = value * 10 + (uint64_t)(span.text[i++] - '0');
    if (!i || (i < span.bytes && span.text[i] != '.') || span.bytes - i > 4 || unit != 1000)
        return time_general(span, unit, ns, decimals, rounded);
    int fraction = 0;
    for (i++; i < span.bytes; i++, fraction++) {
        if (span.text[i] < '0' || span.text[i] > '9')
            return time_general(span, unit, ns, decimals, rounded);
        value = value * 10 + (uint64_t)(span.text[i] - '0');
    }
    *decimals = fraction;
    for (; fraction < 3; fraction++)
        value *= 10;
    if (value > INT64_MAX)
        return false;
    *ns = (int64_t)value;
    return true;
}

/* ---- strings ----------------------------------------------------------------------------------------------------------- */

/* Appends one code point as UTF-8. */
static void put_utf8(struct kineto_text *out, uint32_t character)
{
    char encoded[4];
    size_t count;
    if (character < 0x80) {
        encoded[0] = (char)character;
        count = 1;
    } else if (character < 0x800) {
        encoded[0] = (char)(0xc0 | character >> 6);
        encoded[1] = (char)(0x80 | (character & 0x3f));
        count = 2;
    } else if (character < 0x10000) {
        encoded[0] = (char)(0xe0 | character >> 12);
        encoded[1] = (char)(0x80 | (character >> 6 & 0x3f));
        encoded[2] = (char)(0x80 | (character & 0x3f));
        count = 3;
    } else {
        encoded[0] = (char)(0xf0 | character >> 18);
        encoded[1] = (char)(0x80 | (character >> 12 & 0x3f));
        encoded[2] = (char)(0x80 | (character >> 6 & 0x3f));
        encoded[3] = (char)(0x80 | (character & 0x3f));
        count = 4;
    }
    kineto_text_put(out, encoded, count);
}

/* Four hexadecimal digits at `at`. */
static bool hex4(struct kj_span span, size_t offset, uint32_t *out)
{
    int64_t value;
    char text[6] = "0x";
    if (span.bytes < offset + 4)
        return false;
    memcpy(text + 2, span.text + offset, 4);
    if (!hexadecimal((struct kj_span){text, 6}, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

/* \uXXXX at `at` (of the u), with a second half if it is one of a pair. Returns characters used. */
static size_t put_unicode(struct kineto_text *out, struct kj_span span, size_t offset)
{
    uint32_t character, low;
    if (!hex4(span, offset + 1, &character)) {
        put_utf8(out, 0xfffd);
        return 1;
    }
    if (character >= 0xd800 && character < 0xdc00 && span.bytes > offset + 6 &&
        span.text[offset + 5] == '\\' && span.text[offset + 6] == 'u' &&
        hex4(span, offset + 7, &low) && low >= 0xdc00 && low < 0xe000) {
        put_utf8(out, 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00));
        return 11;
    }
    put_utf8(out, (character >= 0xd800 && character < 0xe000) || !character ? 0xfffd : character);
    return 5;
}

void kineto_unescape(struct kineto_text *out, struct kj_span span)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    span = kineto_inside(span);
    for (size_t i = 0; i < span.bytes;) {
        const char *escape = memchr(span.text + i, '\\', span.bytes - i);
        size_t plain = escape ? (size_t)(escape - (span.text + i)) : span.bytes - i;
        kineto_text_put(out, span.text + i, plain);
        i += plain;
        if (i + 1 >= span.bytes)
            break;
        i++;
        const char *known = span.text[i] ? strchr(from, span.text[i]) : NULL;
        if (span.text[i] == 'u') {
            i += put_unicode(out, span, i);
        } else {
            if (known)
                kineto_text_put(out, to + (known - from), 1);
            else
                put_utf8(out, 0xfffd);
            i++;
        }
    }
}

/* Appends a control character as an escape. */
static void put_control(struct kineto_text *out, unsigned char letter)
{
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", letter);
    kineto_text_puts(out, text);
}

void kineto_sanitise(struct kineto_text *out, const char *text, size_t count)
{
    const unsigned char *data = (const unsigned char *)text;
    bool inside = false;
    for (size_t i = 0; i < count;) {
        size_t bytes = tacho_utf8_sequence(data + i, count - i);
        if (!bytes) {
            kineto_text_puts(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (inside && data[i] < 0x20) {
            put_control(out, data[i++]);
            continue;
        }
        if (data[i] == '"')
            inside = !inside;
        if (inside && data[i] == '\\' && i + 1 < count && data[i + 1] >= 0x20 &&
            data[i + 1] < 0x80) {
            kineto_text_put(out, data + i, 2);
            i += 2;
            continue;
        }
        kineto_text_put(out, data + i, bytes);
        i += bytes;
    }
}

void kineto_json_string(struct kineto_text *out, const char *text, size_t count)
{
    kineto_text_put(out, "\"", 1);
    for (size_t i = 0; i < count; i++) {
        unsigned char letter = (unsigned char)text[i];
        if (letter == '"' || letter == '\\')
            kineto_text_put(out, "\\", 1);
        if (letter < 0x20)
            put_control(out, letter);
        else
            kineto_text_put(out, text + i, 1);
    }
    kineto_text_put(out, "\"", 1);
}

/* ---- strict copies ------------------------------------------------------------------------------------------------------- */

struct copy {
    struct kineto_text *out;
    const char *next, *end;
    int depth;
};

static void skip_space(struct copy *copy)
{
    while (copy->next < copy->end && (*copy->next == ' ' || *copy->next == '\n' ||
                                      *copy->next == '\r' || *copy->next == '\t'))
        copy->next++;
}

/* Copies a string; control characters become escapes. false: it is damaged. */
static bool copy_string(struct copy *copy)
{
    const char *from = copy->next++;
    while (copy->next < copy->end && *copy->next != '"') {
        if ((unsigned char)*copy->next < 0x20) {
            kineto_text_put(copy->out, from, (size_t)(copy->next - from));
            put_control(copy->out, (unsigned char)*copy->next);
            from = copy->next + 1;
        } else if (*copy->next == '\\') {
            if (copy->next + 1 >= copy->end || !strchr("\"\\/bfnrtu", copy->next[1]) ||
                !copy->next[1])
                return false;
            uint32_t code;
            if (copy->next[1] == 'u' &&
                !hex4((struct kj_span){copy->next, (size_t)(copy->end - copy->next)}, 2, &code))
                return false;
            copy->next++;
        }
        copy->next++;
    }
    if (copy->next >= copy->end)
        return false;
    copy->next++;
    kineto_text_put(copy->out, from, (size_t)(copy->next - from));
    return true;
}

/* Copies one JSON number; false: it is not one. Exponents beyond 99 are refused: no number of a
 * trace is that large, and readers may overflow. */
static bool copy_number(struct copy *copy)
{
    const char *from = copy->next, *end = copy->next;
    end += end < copy->end && *end == '-';
    const char *digits = end;
    while (end < copy->end && *end >= '0' && *end <= '9')
        end++;
    if (end == digits || (end - digits > 1 && *digits == '0'))
        return false;
    if (end < copy->end && *end == '.') {
        digits = ++end;
        while (end < copy->end && *end >= '0' && *end <= '9')
            end++;
        if (end == digits)
            return false;
    }
    if (end < copy->end && (*end | 0x20) == 'e') {
        end++;
        end += end < copy->end && (*end == '+' || *end == '-');
        digits = end;
        while (end < copy->end && *end >= '0' && *end <= '9')
            end++;
        if (end == digits ||
            end - digits >
                2) /* beyond 1e99 no number of a trace means anything, and readers may overflow */
            return false;
    }
    copy->next = end;
    kineto_text_put(copy->out, from, (size_t)(end - from));
    return true;
}

/* Copies true, false and null; NaN and infinities, which JSON does not have, become null. */
static bool copy_word(struct copy *copy)
{
    static const struct {
        const char *text, *as;
    } words[] = {{"true", "true"}, {"false", "false"},    {"null", "null"}, {"NaN", "null"},
                 {"-NaN", "null"}, {"nan", "null"},       {"-nan", "null"}, {"Infinity", "null"},
                 {"inf", "null"},  {"-Infinity", "null"}, {"-inf", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t count = strlen(words[i].text);
        if ((size_t)(copy->end - copy->next) >= count &&
            !memcmp(copy->next, words[i].text, count)) {
            copy->next += count;
            kineto_text_puts(copy->out, words[i].as);
            return true;
        }
    }
    return false;
}

/* Copies one JSON value without white space; false: it is damaged or too deep. Text that only looks
 * like JSON (NaN, control characters) is repaired. */
static bool copy_value(struct copy *copy)
{
    skip_space(copy);
    if (copy->next >= copy->end || copy->depth >= 64)
        return false;
    if (*copy->next == '"')
        return copy_string(copy);
    if (*copy->next != '[' && *copy->next != '{')
        return copy_word(copy) || copy_number(copy);
    bool object = *copy->next == '{';
    char close = object ? '}' : ']';
    kineto_text_put(copy->out, copy->next++, 1);
    copy->depth++;
    skip_space(copy);
    bool empty = copy->next < copy->end && *copy->next == close;
    while (!empty) {
        if (object) {
            skip_space(copy);
            if (copy->next >= copy->end || *copy->next != '"' || !copy_string(copy))
                return false;
            skip_space(copy);
            if (copy->next >= copy->end || *copy->next++ != ':')
                return false;
            kineto_text_put(copy->out, ":", 1);
        }
        if (!copy_value(copy))
            return false;
        skip_space(copy);
        if (copy->next >= copy->end)
            return false;
        if (*copy->next == close)
            break;
        if (*copy->next++ != ',')
            return false;
        kineto_text_put(copy->out, ",", 1);
    }
    copy->next++;
    copy->depth--;
    kineto_text_put(copy->out, &close, 1);
    return true;
}

bool kineto_json_copy(struct kineto_text *out, struct kj_span span)
{
    if (!span.text)
        return false;
    size_t mark = out->bytes;
    struct copy copy = {.out = out, .next = span.text, .end = span.text + span.bytes};
    if (copy_value(&copy)) {
        skip_space(&copy);
        if (copy.next == copy.end)
            return true;
    }
    out->bytes = mark;
    return false;
}
