/* SPDX-License-Identifier: Apache-2.0
 *
 * Shortens the names of C++ kernels; those of Python frames stay whole. A name is read once from
 * left to right: brackets are skipped whole, and of each qualified name the last part that tells
 * kernels apart is kept.
 */
#include "reports/words/kernel_name.h"

#include <stdbool.h>
#include <string.h>

#define DEPTH_MOST 4

/* A text of which only the part that fits is kept. */
struct buffer {
    char *text;
    size_t size, length;
};

/* Appends what fits of a text. */
static void add(struct buffer *buffer, const char *text, size_t length)
{
    size_t room = buffer->size - 1 - buffer->length;
    length = length < room ? length : room;
    memcpy(buffer->text + buffer->length, text, length);
    buffer->length += length;
    buffer->text[buffer->length] = 0;
}

/* Returns what follows the bracket that `text` begins with, or the end of the text if nothing
 * closes it. Inside ( and { the characters < and > may be operators and are ignored. */
static const char *past(const char *text)
{
    int round = 0, angle = 0;
    for (; *text; text++) {
        round += *text == '(' || *text == '{' || *text == '[';
        round -= *text == ')' || *text == '}' || *text == ']';
        angle += !round && *text == '<';
        angle -= !round && *text == '>';
        if (round <= 0 && angle <= 0)
            return text + 1;
    }
    return text;
}

/* Is this part of a qualified name no help to a reader: "(anonymous namespace)",
 * "{lambda(float)#1}", "operator()"? */
static bool is_idle(const char *text, size_t length)
{
    return !length || *text == ' ' || *text == '(' || *text == '{' || *text == '[' ||
           (length >= 8 && !strncmp(text, "operator", 8)) ||
           (length >= 12 && !strncmp(text, "_GLOBAL__N__", 12));
}

/* One qualified name: its last useful part, and its template arguments (NULL: it has none). */
struct part {
    const char *name;
    size_t length;
    const char *arguments;
};

/* Reads one qualified name up to one of the `stop` characters at its level. Blanks end a part
 * only in the outermost name, where a result type precedes it and suffixes follow it. */
static const char *qualified(const char *text, const char *stop, bool outermost, struct part *out)
{
    const char *begin = text;
    *out = (struct part){text, 0, NULL};
    for (;;) {
        size_t length = (size_t)(text - begin);
        bool ends = !*text || strchr(stop, *text), between = *text == ':' && text[1] == ':',
             gap = outermost && *text == ' ';
        if (ends || between || gap || *text == '<' || *text == '(') {
            bool anonymous = *text == '(' && length == 0;
            if (!is_idle(begin, length) && !anonymous)
                *out = (struct part){begin, length, *text == '<' ? text : NULL};
            if (ends)
                return text;
            if (gap) { /* the text so far is a result type, or a suffix follows */
                begin = ++text;
                continue;
            }
            if (between) {
                begin = text += 2;
                continue;
            }
            text = past(text);
            if (length >= 8 && !strncmp(begin, "operator", 8) && *text == '(')
                text = past(text);
            begin = text; /* more may follow: "::inner" */
            continue;
        }
        text = *text == '{' || *text == '[' ? past(text) : text + 1;
    }
}

/* Appends a part of a name without blanks at its end. */
static void add_part(struct buffer *buffer, const struct part *part)
{
    size_t length = part->length;
    while (length && part->name[length - 1] == ' ')
        length--;
    add(buffer, part->name, length);
}

/* Is this part a type or a number? Deep inside template arguments only names of functions tell
 * kernels apart. */
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

/* Appends "<4, CUDAFunctor_add, ReduceOp<MeanOps>>" of the template arguments at `text`. */
static void add_arguments(struct buffer *buffer, const char *text, int depth)
{
    const char *end = past(text++);
    const char *between = "<";
    while (text < end && *text && *text != '>') {
        struct part part;
        while (*text == ' ')
            text++;
        text = qualified(text, ",>", false, &part);
        if (part.length && (depth == 1 || !is_plain(&part))) {
            add(buffer, between, strlen(between));
            between = ", ";
            add_part(buffer, &part);
            if (part.arguments && depth < DEPTH_MOST)
                add_arguments(buffer, part.arguments, depth + 1);
        }
        text += *text == ',';
    }
    if (*between == ',')
        add(buffer, ">", 1);
}

/* Names of copies such as "Memcpy HtoD (Pageable -> Device)" have brackets but are no C++ names. */
void rep_kernel_name(char *out, size_t size, const char *name)
{
    struct buffer buffer = {out, size, 0};
    struct part part;
    *out = 0;
    if (!strpbrk(name, "<(") || strstr(name, "): ") || /* "<string>(1): <module>" of Python */
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
