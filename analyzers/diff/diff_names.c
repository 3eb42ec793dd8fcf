/* SPDX-License-Identifier: Apache-2.0
 *
 * Names without what changes from build to build and from run to run, so that the same function of
 * two runs has one name.
 */
#include <ctype.h>
#include <string.h>

#include "analyzers/diff/diff_private.h"

#define ANONYMOUS    "(anonymous namespace)::"
#define DIGITS_LEAST 4 /* shorter numbers are part of a name: sm_90, 128x64, conv2d */

/* Returns the text after the bracket that closes the one at `text`, NULL: none does. A '>' of "->"
 * closes nothing. */
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

/* Returns the text after a part that is dropped, NULL: none begins at `text`. */
static const char *past_part(const char *name, const char *text)
{
    if (*text == '<' && text > name && !is_operator_sign(name, text))
        return past_bracket(text, '<', '>');
    if (!strncmp(text, ANONYMOUS, sizeof ANONYMOUS - 1))
        return text + sizeof ANONYMOUS - 1;
    if (*text == '(' && text > name)
        return past_bracket(text, '(', ')');
    return strncmp(text, "[clone", 6) ? NULL : past_bracket(text, '[', ']');
}

/* Length of a number at `text` that is replaced by '#': an address 0x... that does not begin inside
 * of a word, or many digits. 0: there is none. */
static size_t number_length(const char *name, const char *text)
{
    bool inside = text > name && (isalnum((unsigned char)text[-1]) || text[-1] == '_');
    if (text[0] == '0' && text[1] == 'x' && isxdigit((unsigned char)text[2]) && !inside)
        return 2 + strspn(text + 2, "0123456789abcdefABCDEF");
    size_t digits = strspn(text, "0123456789");
    return digits >= DIGITS_LEAST ? digits : 0;
}

void an_diff_name(char *out, const char *name)
{
    char *end = out;
    /* enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ */
    if (!strncmp(name, "enumerate(Data", 14)) {
        size_t length = strcspn(name, "#");
        memcpy(out, name, length);
        out[length] = 0;
        return;
    }
    /* Memcpy HtoD (Pageable -> Device): the kind of memory must stay. */
    if (!strncmp(name, "Mem", 3)) {
        memcpy(out, name, strlen(name) + 1);
        return;
    }
    if (!strncmp(name, "void ", 5)) /* the result type is written for templates only */
        name += 5;
    for (const char *text = name; *text;) {
        const char *past = past_part(name, text);
        size_t length = past ? 0 : number_length(name, text);
        if (past) {
            text = past;
        } else if (length) {
            *end++ = '#';
            text += length;
        } else {
            *end++ = *text++;
        }
    }
    while (end > out && end[-1] == ' ')
        end--;
    *end = 0;
}
