/* SPDX-License-Identifier: Apache-2.0
 *
 * What readers of foreign runs share: errors with a line, and entering a run.
 */
#include <inttypes.h>

#include "history/import.h"

struct tacho_error *history_at(struct history_source *source, const char *what)
{
    tacho_fail(source->err, TACHO_EFORMAT, source->hint, "%s:%zu: %s", source->path, source->line,
               what);
    return source->err;
}

/* Enters what was read of one run, under a recipe that the user or the file named. */
int history_source_end(struct history_source *source, struct history_made *made)
{
    struct history_entry *entry = &made->entry;
    if (source->recipe || !entry->recipe_text)
        entry->recipe_text =
            history_made_copy(made, source->recipe ? source->recipe : "unknown recipe");
    if (!entry->host_text)
        entry->host_text = history_made_copy(made, "unknown host");
    int rc = history_made_end(made, &entry);
    if (rc)
        return tacho_fail(source->err, rc, NULL, "%s: out of memory", source->path);
    history_hash(entry->recipe_text, entry->recipe);
    history_hash(entry->host_text, entry->host);
    if (!*entry->key) {
        char text[600];
        snprintf(text, sizeof text, "%s|%s|%" PRId64 "|%zu", entry->recipe, entry->host,
                 entry->begun_ns, source->line);
        history_hash(text, entry->key);
    }
    rc = history_enter(source->history, entry, source->err);
    history_entry_free(entry);
    source->count += !rc;
    return rc;
}
