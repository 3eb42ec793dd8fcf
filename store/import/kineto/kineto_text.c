/* SPDX-License-Identifier: Apache-2.0 */
#include "store/import/kineto/kineto_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_utf8.h"

/* ---- growing text ------------------------------------------------------------------------------------------------------ */

void kineto_text_put(struct kineto_text *text, const void *bytes, size_t n)
{
    if (text->failed)
        return;
    if (text->cap - text->n < n) {
        size_t cap = text->cap ? text->cap : 256;
        while (cap - text->n < n)
            cap *= 2;
        char *p = realloc(text->p, cap);
        if (!p) {
            text->failed = true;
            return;
        }
        text->p = p;
        text->cap = cap;
    }
    if (n)
        memcpy(text->p + text->n, bytes, n);
    text->n += n;
}

void kineto_text_puts(struct kineto_text *t, const char *text)
{
    kineto_text_put(t, text, strlen(text));
}

void kineto_text_clear(struct kineto_text *text)
{
    free(text->p);
    memset(text, 0, sizeof *text);
}

/* ---- spans ------------------------------------------------------------------------------------------------------------- */

bool kineto_is_string(struct kj_span span)
{
    return span.p && span.n >= 2 && span.p[0] == '"' && span.p[span.n - 1] == '"';
}

bool kineto_is_null(struct kj_span span)
{
    return !span.p || (span.n == 4 && !memcmp(span.p, "null", 4));
}

struct kj_span kineto_inside(struct kj_span span)
{
    return kineto_is_string(span) ? (struct kj_span){span.p + 1, span.n - 2} : span;
}

bool kineto_equals(struct kj_span span, const char *text)
{
    span = kineto_inside(span);
    return span.p && span.n == strlen(text) && !memcmp(span.p, text, span.n);
}

static struct kj_span trim(struct kj_span span)
{
    for (; span.n && (span.p[0] == ' ' || span.p[0] == '\t'); span.p++)
        span.n--;
    while (span.n && (span.p[span.n - 1] == ' ' || span.p[span.n - 1] == '\t'))
        span.n--;
    return span;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

static bool hexadecimal(struct kj_span span, int64_t *out)
{
    uint64_t v = 0;
    if (span.n > 18)
        return false;
    for (size_t i = 2; i < span.n; i++) {
        char c = span.p[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        v = v << 4 | digit;
    }
    *out = (int64_t)v;
    return span.n > 2;
}

bool kineto_int(struct kj_span span, int64_t *out)
{
    span = trim(kineto_inside(span));
    if (!span.p || !span.n)
        return false;
    if (span.n > 2 && span.p[0] == '0' && (span.p[1] | 0x20) == 'x')
        return hexadecimal(span, out);
    size_t i = span.p[0] == '-' || span.p[0] == '+';
    uint64_t v = 0;
    size_t first = i;
    for (; i < span.n && span.p[i] >= '0' && span.p[i] <= '9'; i++)
        if (i - first >= 19 || (v = v * 10 + (uint64_t)(span.p[i] - '0')) > INT64_MAX)
            return false;
    if (i == first)
        return false;
    if (i < span.n) { /* 7.0 */
        if (span.p[i] != '.')
            return false;
        for (i++; i < span.n; i++)
            if (span.p[i] != '0')
                return false;
    }
    *out = span.p[0] == '-' ? -(int64_t)v : (int64_t)v;
    return true;
}

/* A decimal number taken apart: value = digits * 10^exponent, no leading or trailing zeros in
 * digits. */
struct decimal {
    char digit[64];
    int count, exponent, fraction; /* fraction: digits after the point as written */
    bool negative;
};

static bool decimal_read(struct kj_span span, struct decimal *decimal)
{
    size_t i = 0;
    bool any = false, point = false;
    memset(decimal, 0, sizeof *decimal);
    if (i < span.n && (span.p[i] == '-' || span.p[i] == '+'))
        decimal->negative = span.p[i++] == '-';
    for (; i < span.n; i++) {
        char c = span.p[i];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9')
            break;
        any = true;
        decimal->fraction += point;
        if (decimal->count == (int)sizeof decimal->digit || (!decimal->count && c == '0')) {
            decimal->exponent +=
                (decimal->count != 0) - point; /* beyond what any time needs, or a leading zero */
            continue;
        }
        decimal->digit[decimal->count++] = c;
        decimal->exponent -= point;
    }
    if (any && i < span.n && (span.p[i] | 0x20) == 'e') {
        int64_t e;
        if (!kineto_int((struct kj_span){span.p + i + 1, span.n - i - 1}, &e) || e < -400 ||
            e > 400)
            return false;
        decimal->exponent += (int)e;
        i = span.n;
    }
    while (decimal->count && decimal->digit[decimal->count - 1] == '0') {
        decimal->count--;
        decimal->exponent++;
    }
    return any && i == span.n;
}

static bool time_general(struct kj_span span, int unit, int64_t *ns, int *decimals, bool *rounded)
{
    struct decimal decimal;
    if (!decimal_read(span, &decimal))
        return false;
    int finest = decimal.count && decimal.exponent < 0 ? -decimal.exponent : 0,
        shift = unit == 1000 ? 3 : 0;
    *decimals = finest > 3 ? finest : decimal.fraction < 3 ? decimal.fraction : 3;
    int whole = decimal.count + decimal.exponent + shift; /* digits of the whole ns */
    uint64_t v = 0;
    if (decimal.count && whole > 19)
        return false;
    for (int i = 0; i < whole; i++)
        v = v * 10 + (i < decimal.count ? (uint64_t)(decimal.digit[i] - '0') : 0);
    if (whole < decimal.count) {
        *rounded = true;
        v += whole >= 0 && decimal.digit[whole] >= '5';
    }
    if (v > INT64_MAX)
        return false;
    *ns = decimal.negative ? -(int64_t)v : (int64_t)v;
    return true;
}

bool kineto_time(struct kj_span span, int unit, int64_t *ns, int *decimals, bool *rounded)
{
    span = trim(kineto_inside(span));
    if (!span.p || !span.n)
        return false;
    /* nearly every time: up to 16 digits, a point, up to 3 digits */
    uint64_t v = 0;
    size_t i = 0;
    while (i < span.n && i < 16 && span.p[i] >= '0' && span.p[i] <= '9')
        v = v * 10 + (uint64_t)(span.p[i++] - '0');
    if (!i || (i < span.n && span.p[i] != '.') || span.n - i > 4 || unit != 1000)
        return time_general(span, unit, ns, decimals, rounded);
    int fraction = 0;
    for (i++; i < span.n; i++, fraction++) {
        if (span.p[i] < '0' || span.p[i] > '9')
            return time_general(span, unit, ns, decimals, rounded);
        v = v * 10 + (uint64_t)(span.p[i] - '0');
    }
    *decimals = fraction;
    for (; fraction < 3; fraction++)
        v *= 10;
    if (v > INT64_MAX)
        return false;
    *ns = (int64_t)v;
    return true;
}

/* ---- strings ----------------------------------------------------------------------------------------------------------- */

static void put_utf8(struct kineto_text *out, uint32_t c)
{
    char b[4];
    size_t n;
    if (c < 0x80) {
        b[0] = (char)c;
        n = 1;
    } else if (c < 0x800) {
        b[0] = (char)(0xc0 | c >> 6);
        b[1] = (char)(0x80 | (c & 0x3f));
        n = 2;
    } else if (c < 0x10000) {
        b[0] = (char)(0xe0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 0x3f));
        b[2] = (char)(0x80 | (c & 0x3f));
        n = 3;
    } else {
        b[0] = (char)(0xf0 | c >> 18);
        b[1] = (char)(0x80 | (c >> 12 & 0x3f));
        b[2] = (char)(0x80 | (c >> 6 & 0x3f));
        b[3] = (char)(0x80 | (c & 0x3f));
        n = 4;
    }
    kineto_text_put(out, b, n);
}

static bool hex4(struct kj_span span, size_t at, uint32_t *out)
{
    int64_t v;
    char text[6] = "0x";
    if (span.n < at + 4)
        return false;
    memcpy(text + 2, span.p + at, 4);
    if (!hexadecimal((struct kj_span){text, 6}, &v))
        return false;
    *out = (uint32_t)v;
    return true;
}

/* \uXXXX at `at` (of the u), with a second half if it is one of a pair. Returns characters used. */
static size_t put_unicode(struct kineto_text *out, struct kj_span span, size_t at)
{
    uint32_t c, low;
    if (!hex4(span, at + 1, &c)) {
        put_utf8(out, 0xfffd);
        return 1;
    }
    if (c >= 0xd800 && c < 0xdc00 && span.n > at + 6 && span.p[at + 5] == '\\' &&
        span.p[at + 6] == 'u' && hex4(span, at + 7, &low) && low >= 0xdc00 && low < 0xe000) {
        put_utf8(out, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        return 11;
    }
    put_utf8(out, (c >= 0xd800 && c < 0xe000) || !c ? 0xfffd : c);
    return 5;
}

void kineto_unescape(struct kineto_text *out, struct kj_span span)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    span = kineto_inside(span);
    for (size_t i = 0; i < span.n;) {
        const char *escape = memchr(span.p + i, '\\', span.n - i);
        size_t plain = escape ? (size_t)(escape - (span.p + i)) : span.n - i;
        kineto_text_put(out, span.p + i, plain);
        i += plain;
        if (i + 1 >= span.n)
            break;
        i++;
        const char *f = span.p[i] ? strchr(from, span.p[i]) : NULL;
        if (span.p[i] == 'u') {
            i += put_unicode(out, span, i);
        } else {
            if (f)
                kineto_text_put(out, to + (f - from), 1);
            else
                put_utf8(out, 0xfffd);
            i++;
        }
    }
}

static void put_control(struct kineto_text *out, unsigned char c)
{
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", c);
    kineto_text_puts(out, text);
}

void kineto_sanitise(struct kineto_text *out, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    bool inside = false;
    for (size_t i = 0; i < n;) {
        size_t bytes = tacho_utf8_sequence(p + i, n - i);
        if (!bytes) {
            kineto_text_puts(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (inside && p[i] < 0x20) {
            put_control(out, p[i++]);
            continue;
        }
        if (p[i] == '"')
            inside = !inside;
        if (inside && p[i] == '\\' && i + 1 < n && p[i + 1] >= 0x20 && p[i + 1] < 0x80) {
            kineto_text_put(out, p + i, 2);
            i += 2;
            continue;
        }
        kineto_text_put(out, p + i, bytes);
        i += bytes;
    }
}

void kineto_json_string(struct kineto_text *out, const char *text, size_t n)
{
    kineto_text_put(out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            kineto_text_put(out, "\\", 1);
        if (c < 0x20)
            put_control(out, c);
        else
            kineto_text_put(out, text + i, 1);
    }
    kineto_text_put(out, "\"", 1);
}

/* ---- strict copies ------------------------------------------------------------------------------------------------------- */

struct copy {
    struct kineto_text *out;
    const char *p, *end;
    int depth;
};

static void skip_space(struct copy *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\r' || *c->p == '\t'))
        c->p++;
}

static bool copy_string(struct copy *c)
{
    const char *from = c->p++;
    while (c->p < c->end && *c->p != '"') {
        if ((unsigned char)*c->p < 0x20) {
            kineto_text_put(c->out, from, (size_t)(c->p - from));
            put_control(c->out, (unsigned char)*c->p);
            from = c->p + 1;
        } else if (*c->p == '\\') {
            if (c->p + 1 >= c->end || !strchr("\"\\/bfnrtu", c->p[1]) || !c->p[1])
                return false;
            uint32_t code;
            if (c->p[1] == 'u' && !hex4((struct kj_span){c->p, (size_t)(c->end - c->p)}, 2, &code))
                return false;
            c->p++;
        }
        c->p++;
    }
    if (c->p >= c->end)
        return false;
    c->p++;
    kineto_text_put(c->out, from, (size_t)(c->p - from));
    return true;
}

static bool copy_number(struct copy *c)
{
    const char *from = c->p, *p = c->p;
    p += p < c->end && *p == '-';
    const char *digits = p;
    while (p < c->end && *p >= '0' && *p <= '9')
        p++;
    if (p == digits || (p - digits > 1 && *digits == '0'))
        return false;
    if (p < c->end && *p == '.') {
        digits = ++p;
        while (p < c->end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits)
            return false;
    }
    if (p < c->end && (*p | 0x20) == 'e') {
        p++;
        p += p < c->end && (*p == '+' || *p == '-');
        digits = p;
        while (p < c->end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits ||
            p - digits >
                2) /* beyond 1e99 no number of a trace means anything, and readers may overflow */
            return false;
    }
    c->p = p;
    kineto_text_put(c->out, from, (size_t)(p - from));
    return true;
}

static bool copy_word(struct copy *c)
{
    static const struct {
        const char *text, *as;
    } words[] = {{"true", "true"}, {"false", "false"},    {"null", "null"}, {"NaN", "null"},
                 {"-NaN", "null"}, {"nan", "null"},       {"-nan", "null"}, {"Infinity", "null"},
                 {"inf", "null"},  {"-Infinity", "null"}, {"-inf", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].text);
        if ((size_t)(c->end - c->p) >= n && !memcmp(c->p, words[i].text, n)) {
            c->p += n;
            kineto_text_puts(c->out, words[i].as);
            return true;
        }
    }
    return false;
}

static bool copy_value(struct copy *c)
{
    skip_space(c);
    if (c->p >= c->end || c->depth >= 64)
        return false;
    if (*c->p == '"')
        return copy_string(c);
    if (*c->p != '[' && *c->p != '{')
        return copy_word(c) || copy_number(c);
    bool object = *c->p == '{';
    char close = object ? '}' : ']';
    kineto_text_put(c->out, c->p++, 1);
    c->depth++;
    skip_space(c);
    bool empty = c->p < c->end && *c->p == close;
    while (!empty) {
        if (object) {
            skip_space(c);
            if (c->p >= c->end || *c->p != '"' || !copy_string(c))
                return false;
            skip_space(c);
            if (c->p >= c->end || *c->p++ != ':')
                return false;
            kineto_text_put(c->out, ":", 1);
        }
        if (!copy_value(c))
            return false;
        skip_space(c);
        if (c->p >= c->end)
            return false;
        if (*c->p == close)
            break;
        if (*c->p++ != ',')
            return false;
        kineto_text_put(c->out, ",", 1);
    }
    c->p++;
    c->depth--;
    kineto_text_put(c->out, &close, 1);
    return true;
}

bool kineto_json_copy(struct kineto_text *out, struct kj_span span)
{
    size_t mark = out->n;
    struct copy c = {.out = out, .p = span.p, .end = span.p + span.n};
    if (span.p && copy_value(&c)) {
        skip_space(&c);
        if (c.p == c.end)
            return true;
    }
    out->n = mark;
    return false;
}
