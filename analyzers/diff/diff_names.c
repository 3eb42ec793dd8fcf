/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "analyzers/diff/diff_private.h"

#define ANONYMOUS    "(anonymous namespace)::"
#define DIGITS_LEAST 4 /* shorter numbers are part of a name: sm_90, 128x64, conv2d */

/* Past the bracket that closes the one at `at`, or NULL if none does. A '>' of "->" and of
 * operators closes nothing. */
static const char *past_bracket(const char *at, char open, char close)
{
    int depth = 0;
    const char *begin = at;
    for (; *at; at++) {
        if (*at == open)
            depth++;
        else if (*at == close && !(close == '>' && at > begin && at[-1] == '-') && !--depth)
            return at + 1;
    }
    return NULL;
}

static bool is_operator_sign(const char *name, const char *at)
{
    static const char word[] = "operator";
    size_t n = sizeof word - 1;
    while (at > name && (at[-1] == '<' || at[-1] == '>'))
        at--;
    return at >= name + n && !strncmp(at - n, word, n);
}

void an_diff_name(char *out, const char *name)
{
    char *o = out;
    if (!strncmp(name, "enumerate(Data",
                 14)) { /* enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ */
        size_t n = strcspn(name, "#");
        memcpy(out, name, n);
        out[n] = 0;
        return;
    }
    if (!strncmp(name, "Mem",
                 3)) { /* Memcpy HtoD (Pageable -> Device): the kind of memory is the point */
        strcpy(out, name);
        return;
    }
    if (!strncmp(name, "void ", 5)) /* the result type is written for templates only */
        name += 5;
    for (const char *at = name; *at;) {
        const char *past = NULL;
        if (*at == '<' && at > name && !is_operator_sign(name, at))
            past = past_bracket(at, '<', '>');
        else if (!strncmp(at, ANONYMOUS, sizeof ANONYMOUS - 1))
            past = at + sizeof ANONYMOUS - 1;
        else if (*at == '(' && at > name)
            past = past_bracket(at, '(', ')');
        else if (*at == '[' && !strncmp(at, "[clone", 6))
            past = past_bracket(at, '[', ']');
        if (past) {
            at = past;
            continue;
        }
        bool inside = at > name && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (at[0] == '0' && at[1] == 'x' && isxdigit((unsigned char)at[2]) && !inside) {
            for (at += 2; isxdigit((unsigned char)*at);)
                at++;
            *o++ = '#';
            continue;
        }
        size_t digits = strspn(at, "0123456789");
        if (digits >= DIGITS_LEAST) {
            *o++ = '#';
            at += digits;
        } else if (digits) {
            memcpy(o, at, digits);
            o += digits;
            at += digits;
        } else {
            *o++ = *at++;
        }
    }
    while (o > out && o[-1] == ' ')
        o--;
    *o = 0;
}
