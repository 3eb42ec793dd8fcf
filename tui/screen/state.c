/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "tui/screen/view.h"

bool tui_holds(const char *text, const char *words)
{
    size_t length = strlen(words);
    if (!length)
        return true;
    for (; *text; text++) {
        size_t i = 0;
        while (i < length && text[i] &&
               tolower((unsigned char)text[i]) == tolower((unsigned char)words[i]))
            i++;
        if (i == length)
            return true;
    }
    return false;
}

void tui_state_clamp(struct tui_view_state *state, int rows, int shown)
{
    shown = shown < 1 ? 1 : shown;
    state->page = shown;
    state->cursor = state->cursor >= rows ? rows - 1 : state->cursor;
    state->cursor = state->cursor < 0 ? 0 : state->cursor;
    state->top = state->top > rows - shown ? rows - shown : state->top;
    state->top = state->top < 0 ? 0 : state->top;
    state->top = state->cursor < state->top            ? state->cursor
                 : state->cursor >= state->top + shown ? state->cursor - shown + 1
                                                       : state->top;
}
