/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "analyzers/diff/diff_private.h"

#define ANONYMOUS    "(anonymous namespace)::"
#define DIGITS_LEAST 4 /* shorter numbers are part of a name: sm_90, 128x64, conv2d */

/* Past the bracket that closes the one at `at`, or NULL if none does. A '>' of "->" and of
 * operators closes nothing. */
static const char *past_bracket(const char *text, char open, char close)
{
    int depth = 0;
    const char *begin = text;
    for (; *text; text++) {
        if (*text == open)
            depth++;
        else if (*text == close && !(close == '>' && text > begin && text[-1] == '-') && !--depth)
            return text + 1;
    }
    return NULL;
}

static bool is_operator_sign(const char *name, const char *text)
{
    static const char word[] = "operator";
    size_t length = sizeof word - 1;
    while (text > name && (text[-1] == '<' || text[-1] == '>'))
        text--;
    return text >= name + length && !strncmp(text - length, word, length);
}

void an_diff_name(char *out, const char *name)
{
    char *end = out;
    if (!strncmp(name, "enumerate(Data",
                 14)) { /* enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ */
        size_t length = strcspn(name, "#");
        memcpy(out, name, length);
        out[length] = 0;
        return;
    }
    if (!strncmp(name, "Mem",
                 3)) { /* Memcpy HtoD (Pageable -> Device): the kind of memory is the point */
        strcpy(out, name);
        return;
    }
    if (!strncmp(name, "void ", 5)) /* the result type is written for templates only */
        name += 5;
    for (const char *text = name; *text;) {
        const char *past = NULL;
        if (*text == '<' && text > name && !is_operator_sign(name, text))
            past = past_bracket(text, '<', '>');
        else if (!strncmp(text, ANONYMOUS, sizeof ANONYMOUS - 1))
            past = text + sizeof ANONYMOUS - 1;
        else if (*text == '(' && text > name)
            past = past_bracket(text, '(', ')');
        else if (*text == '[' && !strncmp(text, "[clone", 6))
            past = past_bracket(text, '[', ']');
        if (past) {
            text = past;
            continue;
        }
        bool inside = text > name && (isalnum((unsigned char)text[-1]) || text[-1] == '_');
        if (text[0] == '0' && text[1] == 'x' && isxdigit((unsigned char)text[2]) && !inside) {
            for (text += 2; isxdigit((unsigned char)*text);)
                text++;
            *end++ = '#';
            continue;
        }
        size_t digits = strspn(text, "0123456789");
        if (digits >= DIGITS_LEAST) {
            *end++ = '#';
            text += digits;
        } else if (digits) {
            memcpy(end, text, digits);
            end += digits;
            text += digits;
        } else {
            *end++ = *text++;
        }
    }
    while (end > out && end[-1] == ' ')
        end--;
    *end = 0;
}
