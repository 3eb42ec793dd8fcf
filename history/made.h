/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to history/: entries that own what they point to.
 */
#ifndef HISTORY_MADE_H
#define HISTORY_MADE_H

#include "history/history.h"

struct history_made {
    struct history_entry entry; /* first: callers have a pointer to it */
    char *text[8];
    int text_count;
    struct history_value *value;
    size_t room;
    float *step_ms;
    bool failed; /* there was no memory for something: history_made_end refuses */
};

struct history_made *history_made_new(void); /* NULL: no memory */
/* Lets the entry own a text; a NULL counts as a lack of memory. Returns it. */
const char *history_made_own(struct history_made *made, char *text);
/* A copy that the entry owns; NULL stays NULL. */
const char *history_made_copy(struct history_made *made, const char *text);
/* Adds a value unless it is NaN. */
void history_made_add(struct history_made *made, const char *kind, const char *name,
                      const char *unit, double value);
/* Room for so many step times; NULL without memory. */
float *history_made_samples(struct history_made *made, size_t count);
/* 0 and the entry, or TACHO_ENOMEM; then it is freed. */
int history_made_end(struct history_made *made, struct history_entry **out);

#endif
