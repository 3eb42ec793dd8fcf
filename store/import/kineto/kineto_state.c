/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parser of the Kineto importer remembers: strings, keys, its own life.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto.h"

int kineto_no_memory(struct kineto *k)
{
    return k->code = TACHO_ENOMEM;
}

/* ---- table ------------------------------------------------------------------------------------------------------------- */

static size_t slot_of(const struct kineto_table *t, struct kineto_key key)
{
    uint64_t h = (key.a ^ key.b * 0x9e3779b97f4a7c15u) * 0xc2b2ae3d27d4eb4fu;
    size_t i = (size_t)(h ^ h >> 32) & (t->cap - 1);
    while (t->slot[i].number && (t->slot[i].key.a != key.a || t->slot[i].key.b != key.b))
        i = (i + 1) & (t->cap - 1);
    return i;
}

uint32_t kineto_table_get(const struct kineto_table *t, struct kineto_key key)
{
    return t->cap ? t->slot[slot_of(t, key)].number : 0;
}

int kineto_table_set(struct kineto_table *t, struct kineto_key key, uint32_t number)
{
    if ((t->count + 1) * 2 > t->cap) {
        struct kineto_table larger = {.cap = t->cap ? 2 * t->cap : 256, .count = t->count};
        larger.slot = calloc(larger.cap, sizeof *larger.slot);
        if (!larger.slot)
            return TACHO_ENOMEM;
        for (size_t i = 0; i < t->cap; i++)
            if (t->slot[i].number)
                larger.slot[slot_of(&larger, t->slot[i].key)] = t->slot[i];
        free(t->slot);
        *t = larger;
    }
    t->slot[slot_of(t, key)] = (struct kineto_slot){key, number};
    t->count++;
    return 0;
}

/* ---- strings ----------------------------------------------------------------------------------------------------------- */

uint32_t kineto_string_number(struct kineto *k, const char *text, size_t n)
{
    int64_t id;
    bool added;
    if (store_intern_put(&k->strings, text, n, &id, &added)) {
        kineto_no_memory(k);
        return 0;
    }
    if (added) {
        struct kineto_text decoded = {0};
        struct kineto_def *d = kineto_batch_def(k->batch, KINETO_DEF_STRING);
        kineto_unescape(&decoded, (struct kj_span){text, n});
        if (d) {
            d->text = kineto_batch_text(k->batch, decoded.p ? decoded.p : "", decoded.n);
            d->bytes = decoded.n;
        }
        if (!d || !d->text || decoded.failed)
            kineto_no_memory(k);
        kineto_text_clear(&decoded);
    }
    return (uint32_t)(id - 1);
}

uint32_t kineto_string_json(struct kineto *k, struct kj_span s)
{
    s = kineto_inside(s);
    return kineto_string_number(k, s.p ? s.p : "", s.n);
}

char *kineto_dup(struct kineto *k, struct kj_span s)
{
    struct kineto_text t = {0};
    kineto_unescape(&t, s);
    kineto_text_put(&t, "", 1);
    if (t.failed) {
        kineto_text_clear(&t);
        kineto_no_memory(k);
        return NULL;
    }
    return t.p;
}

/* ---- life -------------------------------------------------------------------------------------------------------------- */

int kineto_init(struct kineto *k, const char *path)
{
    memset(k, 0, sizeof *k);
    k->path = path;
    k->rank = STORE_ABSENT;
    k->process_cap = 4;
    k->process = malloc(k->process_cap * sizeof *k->process);
    if (!k->process)
        return TACHO_ENOMEM;
    k->process[0].pid = STORE_ABSENT;
    k->processes = 1;
    for (size_t i = 0; i < sizeof k->category / sizeof *k->category; i++)
        k->category[i].n = SIZE_MAX;
    return 0;
}

void kineto_clear(struct kineto *k)
{
    store_intern_clear(&k->strings);
    store_intern_clear(&k->details);
    store_intern_clear(&k->unknown_args);
    kineto_text_clear(&k->key);
    kineto_text_clear(&k->scratch);
    kineto_text_clear(&k->payload);
    free(k->table.slot);
    for (size_t i = 0; i < k->tracks; i++)
        free(k->track[i].open);
    free(k->track);
    free(k->process);
    for (size_t i = 0; i < k->names; i++)
        free(k->name[i].text);
    free(k->name);
    for (size_t i = 0; i < k->runs; i++) {
        free(k->run[i].key);
        free(k->run[i].value);
    }
    free(k->run);
    free(k->host);
}
