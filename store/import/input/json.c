/* SPDX-License-Identifier: Apache-2.0
 *
 * A reader of JSON that hands out one value after the other.
 */
#include "store/import/input/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MOST 40 /* characters of a number */

struct ij ij_of(const void *text, size_t bytes)
{
    const char *start = text;
    size_t mark = bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    return (struct ij){start + mark, start + bytes, false};
}

static void skip_space(struct ij *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
        json->at++;
}

static bool fail(struct ij *json)
{
    json->bad = true;
    json->at = json->end;
    return false;
}

char ij_next(struct ij *json)
{
    skip_space(json);
    return json->at < json->end ? *json->at : '\0';
}

/* Moves behind a string whose opening quote is next. */
static struct ij_text take_string(struct ij *json)
{
    const char *start = ++json->at;
    while (json->at < json->end) {
        const char *quote = memchr(json->at, '"', (size_t)(json->end - json->at));
        const char *escape = quote;
        if (!quote)
            break;
        while (escape > start && escape[-1] == '\\')
            escape--;
        json->at = quote + 1;
        if ((quote - escape) % 2 == 0)
            return (struct ij_text){start, (size_t)(quote - start)};
    }
    fail(json);
    return (struct ij_text){start, 0};
}

bool ij_enter(struct ij *json)
{
    char first = ij_next(json);
    if (first != '{' && first != '[') {
        ij_skip(json);
        return false;
    }
    json->at++;
    char next = ij_next(json);
    if (next == (first == '{' ? '}' : ']')) {
        json->at++;
        return false;
    }
    return next ? true : fail(json);
}

bool ij_more(struct ij *json)
{
    char next = ij_next(json);
    if (json->bad || !next)
        return fail(json);
    json->at++;
    if (next == ',')
        return ij_next(json) ? true : fail(json);
    return next == '}' || next == ']' ? false : fail(json);
}

struct ij_text ij_key(struct ij *json)
{
    struct ij_text key = {"", 0};
    if (ij_next(json) != '"') {
        fail(json);
        return key;
    }
    key = take_string(json);
    if (ij_next(json) != ':')
        fail(json);
    else
        json->at++;
    return key;
}

void ij_skip(struct ij *json)
{
    size_t depth = 0;
    char next = ij_next(json);
    if (!next) {
        fail(json);
        return;
    }
    do {
        if (*json->at == '"') {
            take_string(json);
            continue;
        }
        if (*json->at == '{' || *json->at == '[')
            depth++;
        else if (*json->at == '}' || *json->at == ']')
            depth -= depth > 0;
        else if (!depth) { /* a number or a word ends where the value around it goes on */
            json->at += strcspn(json->at, ",}] \n\r\t");
            break;
        }
        json->at++;
    } while (depth && json->at < json->end);
    if (depth || json->at > json->end)
        fail(json);
}

/* The characters of a number, also of one in quotes; "" if it is none. */
static bool number_text(struct ij *json, char text[NUMBER_MOST + 1])
{
    char next = ij_next(json);
    struct ij_text span = {json->at, 0};
    if (next == '"') {
        span = take_string(json);
    } else {
        ij_skip(json);
        span.bytes = (size_t)(json->at - span.text);
    }
    if (!span.bytes || span.bytes > NUMBER_MOST || json->bad)
        return false;
    memcpy(text, span.text, span.bytes);
    text[span.bytes] = 0;
    return strspn(text, "-+0123456789.eE") == span.bytes;
}

bool ij_int(struct ij *json, int64_t *out)
{
    char text[NUMBER_MOST + 1], *end;
    if (!number_text(json, text))
        return false;
    int64_t value = (int64_t)strtoull(text, &end, 10); /* handles have 64 bits without a sign */
    if (*text == '-')
        value = strtoll(text, &end, 10);
    if (strpbrk(text, "eE")) { /* 1.048576e+06 */
        double number = strtod(text, &end);
        if (*end || !(fabs(number) < 9e18))
            return false;
        value = (int64_t)number;
    } else if (*end && *end != '.') {
        return false;
    }
    *out = value;
    return true;
}

bool ij_number(struct ij *json, double *out)
{
    char text[NUMBER_MOST + 1], *end;
    if (!number_text(json, text))
        return false;
    double value = strtod(text, &end);
    if (*end)
        return false;
    *out = value;
    return true;
}

struct ij_text ij_text_of(struct ij *json)
{
    if (ij_next(json) == '"')
        return take_string(json);
    ij_skip(json);
    return (struct ij_text){"", 0};
}

bool ij_is(struct ij_text text, const char *word)
{
    return text.bytes == strlen(word) && !memcmp(text.text, word, text.bytes);
}
