/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/model.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tui_shared {
    struct an_result *r;
    void (*release)(struct an_result *r);
    atomic_int users;
};

struct tui_shared *tui_shared_new(struct an_result *r, void (*release)(struct an_result *r))
{
    struct tui_shared *s = malloc(sizeof *s);
    if (!s) {
        release(r);
        return NULL;
    }
    s->r = r;
    s->release = release;
    atomic_init(&s->users, 1);
    return s;
}

struct tui_shared *tui_shared_hold(struct tui_shared *s)
{
    if (s)
        atomic_fetch_add(&s->users, 1);
    return s;
}

void tui_shared_drop(struct tui_shared *s)
{
    if (!s || atomic_fetch_sub(&s->users, 1) != 1)
        return;
    s->release(s->r);
    free(s);
}

struct an_result *tui_shared_result(struct tui_shared *s)
{
    return s ? s->r : NULL;
}

void tui_model_free(struct tui_model *m)
{
    if (!m)
        return;
    tui_shared_drop(m->shared);
    for (size_t i = 0; i < sizeof m->memory / sizeof *m->memory; i++)
        free(m->memory[i]);
    free(m);
}

const struct tui_series *tui_model_series(const struct tui_model *m, const char *name)
{
    for (size_t i = 0; i < m->series_count; i++)
        if (!strcmp(m->series[i].name, name))
            return &m->series[i];
    return NULL;
}
