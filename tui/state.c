/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "tui/views/view.h"

bool tui_holds(const char *text, const char *words)
{
    size_t n = strlen(words);
    if (!n)
        return true;
    for (; *text; text++) {
        size_t i = 0;
        while (i < n && text[i] &&
               tolower((unsigned char)text[i]) == tolower((unsigned char)words[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

void tui_state_clamp(struct tui_view_state *s, int rows, int shown)
{
    shown = shown < 1 ? 1 : shown;
    s->page = shown;
    s->cursor = s->cursor >= rows ? rows - 1 : s->cursor;
    s->cursor = s->cursor < 0 ? 0 : s->cursor;
    s->top = s->top > rows - shown ? rows - shown : s->top;
    s->top = s->top < 0 ? 0 : s->top;
    s->top = s->cursor < s->top            ? s->cursor
             : s->cursor >= s->top + shown ? s->cursor - shown + 1
                                           : s->top;
}
