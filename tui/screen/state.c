/* SPDX-License-Identifier: Apache-2.0
 *
 * What views share about their state: filtering, choices that go round, and the cursor of a list.
 */
#include <ctype.h>
#include <string.h>

#include "reports/words/compare.h"

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

int tui_wrap(int wish, size_t count)
{
    int rest = wish % (int)count;
    return rest < 0 ? rest + (int)count : rest;
}

void tui_seek(struct tui_view_state *state, int count, tui_row_holds *holds, const void *owner)
{
    int way = state->seek;
    state->seek = 0;
    if (!way || !*state->search || count <= 0)
        return;
    int start = rep_clamp(state->cursor, 0, count - 1);
    for (int i = 1; i <= count; i++) {
        int row = tui_wrap(start + way * i, (size_t)count);
        if (holds(owner, row, state->search)) {
            state->cursor = row;
            return;
        }
    }
}

void tui_state_clamp(struct tui_view_state *state, int rows, int shown)
{
    shown = shown < 1 ? 1 : shown;
    state->page = shown;
    state->cursor = rep_clamp(state->cursor, 0, rows - 1);
    state->top = rep_clamp(state->top, 0, rows - shown);
    state->top = rep_clamp(state->top, state->cursor - shown + 1, state->cursor);
}
