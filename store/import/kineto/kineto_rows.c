/* SPDX-License-Identifier: Apache-2.0 */
#include "store/import/kineto/kineto_rows.h"

#include <stdlib.h>
#include <string.h>

size_t kineto_batch_text(struct kineto_batch *b, const char *text, size_t n)
{
    if (!text)
        return 0;
    if (!b->text.n)
        kineto_text_put(&b->text, "", 1);
    size_t at = b->text.n;
    kineto_text_put(&b->text, text, n);
    kineto_text_put(&b->text, "", 1);
    return b->text.failed ? 0 : at;
}

struct kineto_def *kineto_batch_def(struct kineto_batch *b, enum kineto_def_kind kind)
{
    if (b->defs == b->def_cap) {
        size_t cap = b->def_cap ? 2 * b->def_cap : 64;
        struct kineto_def *d = realloc(b->def, cap * sizeof *d);
        if (!d)
            return NULL;
        b->def = d;
        b->def_cap = cap;
    }
    struct kineto_def *d = &b->def[b->defs++];
    memset(d, 0, sizeof *d);
    d->kind = kind;
    return d;
}
