/* SPDX-License-Identifier: Apache-2.0 */
#include "store/import/kineto/kineto_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_utf8.h"

/* ---- growing text ------------------------------------------------------------------------------------------------------ */

void kineto_text_put(struct kineto_text *t, const void *bytes, size_t n)
{
    if (t->failed)
        return;
    if (t->cap - t->n < n) {
        size_t cap = t->cap ? t->cap : 256;
        while (cap - t->n < n)
            cap *= 2;
        char *p = realloc(t->p, cap);
        if (!p) {
            t->failed = true;
            return;
        }
        t->p = p;
        t->cap = cap;
    }
    if (n)
        memcpy(t->p + t->n, bytes, n);
    t->n += n;
}

void kineto_text_puts(struct kineto_text *t, const char *text)
{
    kineto_text_put(t, text, strlen(text));
}

void kineto_text_clear(struct kineto_text *t)
{
    free(t->p);
    memset(t, 0, sizeof *t);
}

/* ---- spans ------------------------------------------------------------------------------------------------------------- */

bool kineto_is_string(struct kj_span s)
{
    return s.p && s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"';
}

bool kineto_is_null(struct kj_span s)
{
    return !s.p || (s.n == 4 && !memcmp(s.p, "null", 4));
}

struct kj_span kineto_inside(struct kj_span s)
{
    return kineto_is_string(s) ? (struct kj_span){s.p + 1, s.n - 2} : s;
}

bool kineto_equals(struct kj_span s, const char *text)
{
    s = kineto_inside(s);
    return s.p && s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

static struct kj_span trim(struct kj_span s)
{
    for (; s.n && (s.p[0] == ' ' || s.p[0] == '\t'); s.p++)
        s.n--;
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

static bool hexadecimal(struct kj_span s, int64_t *out)
{
    uint64_t v = 0;
    if (s.n > 18)
        return false;
    for (size_t i = 2; i < s.n; i++) {
        char c = s.p[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        v = v << 4 | digit;
    }
    *out = (int64_t)v;
    return s.n > 2;
}

bool kineto_int(struct kj_span s, int64_t *out)
{
    s = trim(kineto_inside(s));
    if (!s.p || !s.n)
        return false;
    if (s.n > 2 && s.p[0] == '0' && (s.p[1] | 0x20) == 'x')
        return hexadecimal(s, out);
    size_t i = s.p[0] == '-' || s.p[0] == '+';
    uint64_t v = 0;
    size_t first = i;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        if (i - first >= 19 || (v = v * 10 + (uint64_t)(s.p[i] - '0')) > INT64_MAX)
            return false;
    if (i == first)
        return false;
    if (i < s.n) { /* 7.0 */
        if (s.p[i] != '.')
            return false;
        for (i++; i < s.n; i++)
            if (s.p[i] != '0')
                return false;
    }
    *out = s.p[0] == '-' ? -(int64_t)v : (int64_t)v;
    return true;
}

/* A decimal number taken apart: value = digits * 10^exponent, no leading or trailing zeros in
 * digits. */
struct decimal {
    char digit[64];
    int count, exponent, fraction; /* fraction: digits after the point as written */
    bool negative;
};

static bool decimal_read(struct kj_span s, struct decimal *d)
{
    size_t i = 0;
    bool any = false, point = false;
    memset(d, 0, sizeof *d);
    if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
        d->negative = s.p[i++] == '-';
    for (; i < s.n; i++) {
        char c = s.p[i];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9')
            break;
        any = true;
        d->fraction += point;
        if (d->count == (int)sizeof d->digit || (!d->count && c == '0')) {
            d->exponent +=
                (d->count != 0) - point; /* beyond what any time needs, or a leading zero */
            continue;
        }
        d->digit[d->count++] = c;
        d->exponent -= point;
    }
    if (any && i < s.n && (s.p[i] | 0x20) == 'e') {
        int64_t e;
        if (!kineto_int((struct kj_span){s.p + i + 1, s.n - i - 1}, &e) || e < -400 || e > 400)
            return false;
        d->exponent += (int)e;
        i = s.n;
    }
    while (d->count && d->digit[d->count - 1] == '0') {
        d->count--;
        d->exponent++;
    }
    return any && i == s.n;
}

static bool time_general(struct kj_span s, int unit, int64_t *ns, int *decimals, bool *rounded)
{
    struct decimal d;
    if (!decimal_read(s, &d))
        return false;
    int finest = d.count && d.exponent < 0 ? -d.exponent : 0, shift = unit == 1000 ? 3 : 0;
    *decimals = finest > 3 ? finest : d.fraction < 3 ? d.fraction : 3;
    int whole = d.count + d.exponent + shift; /* digits of the whole ns */
    uint64_t v = 0;
    if (d.count && whole > 19)
        return false;
    for (int i = 0; i < whole; i++)
        v = v * 10 + (i < d.count ? (uint64_t)(d.digit[i] - '0') : 0);
    if (whole < d.count) {
        *rounded = true;
        v += whole >= 0 && d.digit[whole] >= '5';
    }
    if (v > INT64_MAX)
        return false;
    *ns = d.negative ? -(int64_t)v : (int64_t)v;
    return true;
}

bool kineto_time(struct kj_span s, int unit, int64_t *ns, int *decimals, bool *rounded)
{
    s = trim(kineto_inside(s));
    if (!s.p || !s.n)
        return false;
    /* nearly every time: up to 16 digits, a point, up to 3 digits */
    uint64_t v = 0;
    size_t i = 0;
    while (i < s.n && i < 16 && s.p[i] >= '0' && s.p[i] <= '9')
        v = v * 10 + (uint64_t)(s.p[i++] - '0');
    if (!i || (i < s.n && s.p[i] != '.') || s.n - i > 4 || unit != 1000)
        return time_general(s, unit, ns, decimals, rounded);
    int fraction = 0;
    for (i++; i < s.n; i++, fraction++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return time_general(s, unit, ns, decimals, rounded);
        v = v * 10 + (uint64_t)(s.p[i] - '0');
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

static bool hex4(struct kj_span s, size_t at, uint32_t *out)
{
    int64_t v;
    char text[6] = "0x";
    if (s.n < at + 4)
        return false;
    memcpy(text + 2, s.p + at, 4);
    if (!hexadecimal((struct kj_span){text, 6}, &v))
        return false;
    *out = (uint32_t)v;
    return true;
}

/* \uXXXX at `at` (of the u), with a second half if it is one of a pair. Returns characters used. */
static size_t put_unicode(struct kineto_text *out, struct kj_span s, size_t at)
{
    uint32_t c, low;
    if (!hex4(s, at + 1, &c)) {
        put_utf8(out, 0xfffd);
        return 1;
    }
    if (c >= 0xd800 && c < 0xdc00 && s.n > at + 6 && s.p[at + 5] == '\\' && s.p[at + 6] == 'u' &&
        hex4(s, at + 7, &low) && low >= 0xdc00 && low < 0xe000) {
        put_utf8(out, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        return 11;
    }
    put_utf8(out, (c >= 0xd800 && c < 0xe000) || !c ? 0xfffd : c);
    return 5;
}

void kineto_unescape(struct kineto_text *out, struct kj_span s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    s = kineto_inside(s);
    for (size_t i = 0; i < s.n;) {
        const char *escape = memchr(s.p + i, '\\', s.n - i);
        size_t plain = escape ? (size_t)(escape - (s.p + i)) : s.n - i;
        kineto_text_put(out, s.p + i, plain);
        i += plain;
        if (i + 1 >= s.n)
            break;
        i++;
        const char *f = s.p[i] ? strchr(from, s.p[i]) : NULL;
        if (s.p[i] == 'u') {
            i += put_unicode(out, s, i);
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

bool kineto_json_copy(struct kineto_text *out, struct kj_span s)
{
    size_t mark = out->n;
    struct copy c = {.out = out, .p = s.p, .end = s.p + s.n};
    if (s.p && copy_value(&c)) {
        skip_space(&c);
        if (c.p == c.end)
            return true;
    }
    out->n = mark;
    return false;
}
