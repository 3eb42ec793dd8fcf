/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of rows: see kineto_rows.h.
 */
#include "store/import/kineto/kineto_rows.h"

#include <stdlib.h>
#include <string.h>

size_t kineto_batch_text(struct kineto_batch *batch, const char *text, size_t bytes)
{
    if (!text)
        return 0;
    if (!batch->text.bytes)
        kineto_text_put(&batch->text, "", 1);
    size_t offset = batch->text.bytes;
    kineto_text_put(&batch->text, text, bytes);
    kineto_text_put(&batch->text, "", 1);
    return batch->text.failed ? 0 : offset;
}

struct kineto_def *kineto_batch_def(struct kineto_batch *batch, enum kineto_def_kind kind)
{
    if (batch->defs == batch->def_cap) {
        size_t cap = batch->def_cap ? 2 * batch->def_cap : 64;
        struct kineto_def *def = realloc(batch->def, cap * sizeof *def);
        if (!def)
            return NULL;
        batch->def = def;
        batch->def_cap = cap;
    }
    struct kineto_def *def = &batch->def[batch->defs++];
    memset(def, 0, sizeof *def);
    def->kind = kind;
    return def;
}
