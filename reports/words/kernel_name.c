/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/words/kernel_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MOST 4

/* A text of which only the part that fits is kept. */
struct buffer {
    char *text;
    size_t size, length;
};

static void add(struct buffer *buffer, const char *text, size_t n)
{
    size_t room = buffer->size - 1 - buffer->length;
    n = n < room ? n : room;
    memcpy(buffer->text + buffer->length, text, n);
    buffer->length += n;
    buffer->text[buffer->length] = 0;
}

/* What follows the bracket that s begins with; the end of the text if nothing closes it. Inside (
 * and { the characters < and > may be operators: they are not looked at. */
static const char *past(const char *s)
{
    int round = 0, angle = 0;
    for (; *s; s++) {
        round += *s == '(' || *s == '{' || *s == '[';
        round -= *s == ')' || *s == '}' || *s == ']';
        angle += !round && *s == '<';
        angle -= !round && *s == '>';
        if (round <= 0 && angle <= 0)
            return s + 1;
    }
    return s;
}

/* A part of a qualified name that says nothing: "(anonymous namespace)", "{lambda(float)#1}",
 * "operator()". */
static bool is_idle(const char *s, size_t n)
{
    return !n || *s == ' ' || *s == '(' || *s == '{' || *s == '[' ||
           (n >= 8 && !strncmp(s, "operator", 8)) || (n >= 12 && !strncmp(s, "_GLOBAL__N__", 12));
}

/* One qualified name up to `stop` characters at its level: the last part that says something, and
 * where its template arguments are (NULL: it has none). */
struct part {
    const char *name;
    size_t length;
    const char *arguments;
};

static const char *qualified(const char *s, const char *stop, bool outermost, struct part *out)
{
    const char *begin = s;
    *out = (struct part){s, 0, NULL};
    for (;;) {
        size_t n = (size_t)(s - begin);
        bool ends = !*s || strchr(stop, *s), between = *s == ':' && s[1] == ':',
             gap = outermost && *s == ' ';
        if (ends || between || gap || *s == '<' || *s == '(') {
            bool anonymous = *s == '(' && n == 0;
            if (!is_idle(begin, n) && !anonymous)
                *out = (struct part){begin, n, *s == '<' ? s : NULL};
            if (ends)
                return s;
            if (gap) { /* what stood before is a result type, or a suffix follows the parameters */
                begin = ++s;
                continue;
            }
            if (between) {
                begin = s += 2;
                continue;
            }
            s = past(s);
            if (n >= 8 && !strncmp(begin, "operator", 8) && *s == '(')
                s = past(s);
            begin = s; /* more may follow: "::inner" */
            continue;
        }
        s = *s == '{' || *s == '[' ? past(s) : s + 1;
    }
}

static void add_part(struct buffer *buffer, const struct part *part)
{
    size_t n = part->length;
    while (n && part->name[n - 1] == ' ')
        n--;
    add(buffer, part->name, n);
}

/* Deep inside only what names a function tells kernels apart: types and numbers do not. */
static bool is_plain(const struct part *part)
{
    static const char *const types[] = {"BFloat16", "Half", "__nv_bfloat16", "__half"};
    bool plain = true;
    for (size_t i = 0; i < part->length; i++)
        plain = plain && !(part->name[i] >= 'A' && part->name[i] <= 'Z') && part->name[i] != '_';
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        plain = plain ||
                (part->length == strlen(types[i]) && !memcmp(part->name, types[i], part->length));
    return plain;
}

/* "<4, CUDAFunctor_add, ReduceOp<MeanOps>>" of the arguments that begin at s. */
static void add_arguments(struct buffer *buffer, const char *s, int depth)
{
    const char *end = past(s++);
    const char *between = "<";
    while (s < end && *s && *s != '>') {
        struct part part;
        while (*s == ' ')
            s++;
        s = qualified(s, ",>", false, &part);
        if (part.length && (depth == 1 || !is_plain(&part))) {
            add(buffer, between, strlen(between));
            between = ", ";
            add_part(buffer, &part);
            if (part.arguments && depth < DEPTH_MOST)
                add_arguments(buffer, part.arguments, depth + 1);
        }
        s += *s == ',';
    }
    if (*between == ',')
        add(buffer, ">", 1);
}

void rep_kernel_name(char *out, size_t size, const char *name)
{
    struct buffer buffer = {out, size, 0};
    struct part part;
    *out = 0;
    if (!strpbrk(name, "<(") ||
        (strstr(name, " (") && !strstr(name, "::"))) { /* "Memcpy HtoD (Pageable -> Device)" */
        add(&buffer, name, strlen(name));
        return;
    }
    qualified(name, "", true, &part);
    add_part(&buffer, &part);
    if (!buffer.length) {
        add(&buffer, name, strlen(name));
        return;
    }
    if (part.arguments)
        add_arguments(&buffer, part.arguments, 1);
}
