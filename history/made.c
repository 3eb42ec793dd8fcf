/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries that own what they point to, and the hash that names recipes and hosts.
 */
#include "history/made.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_hash.h"

void history_hash(const char *text, char out[HISTORY_HASH])
{
    snprintf(out, HISTORY_HASH, "%016" PRIx64, tacho_hash_text(TACHO_HASH_BEGIN, text));
}

struct history_made *history_made_new(void)
{
    return calloc(1, sizeof(struct history_made));
}

void history_entry_free(struct history_entry *entry)
{
    struct history_made *made = (struct history_made *)entry;
    if (!made)
        return;
    for (size_t i = 0; i < entry->value_count; i++) {
        free((char *)made->value[i].kind);
        free((char *)made->value[i].name);
        free((char *)made->value[i].unit);
    }
    for (int i = 0; i < made->text_count; i++)
        free(made->text[i]);
    free(made->value);
    free(made->step_ms);
    free(made);
}

const char *history_made_own(struct history_made *made, char *text)
{
    bool room = made->text_count < (int)(sizeof made->text / sizeof *made->text);
    if (!text || !room) {
        made->failed = true;
        free(text);
        return NULL;
    }
    return made->text[made->text_count++] = text;
}

const char *history_made_copy(struct history_made *made, const char *text)
{
    return text ? history_made_own(made, strdup(text)) : NULL;
}

static bool grow(struct history_made *made)
{
    size_t room = made->room ? 2 * made->room : 64;
    struct history_value *grown = realloc(made->value, room * sizeof *grown);
    if (!grown)
        return false;
    made->entry.values = made->value = grown;
    made->room = room;
    return true;
}

void history_made_add(struct history_made *made, const char *kind, const char *name,
                      const char *unit, double value)
{
    if (isnan(value) || made->failed)
        return;
    made->failed = made->entry.value_count == made->room && !grow(made);
    if (made->failed)
        return;
    struct history_value *row = &made->value[made->entry.value_count++];
    *row = (struct history_value){strdup(kind), strdup(name), strdup(unit), value};
    made->failed = !row->kind || !row->name || !row->unit;
}

float *history_made_samples(struct history_made *made, size_t count)
{
    made->step_ms = malloc((count + 1) * sizeof *made->step_ms);
    made->failed |= !made->step_ms;
    made->entry.step_ms = made->step_ms;
    made->entry.sample_count = made->step_ms ? count : 0;
    return made->step_ms;
}

int history_made_end(struct history_made *made, struct history_entry **out)
{
    *out = NULL;
    if (!made || made->failed) {
        history_entry_free(&made->entry);
        return TACHO_ENOMEM;
    }
    *out = &made->entry;
    return 0;
}
