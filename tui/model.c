/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/model.h"

#include <math.h>
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

double tui_model_left_s(const struct tui_model *m)
{
    size_t n = 0;
    while (n < m->step_count && m->step[n].rank == m->step[0].rank)
        n++;
    int64_t left = m->steps_expected - m->last_index - 1;
    if (m->state != TUI_LIVE || m->steps_expected <= 0 || m->last_index < 0 || left < 0 || n < 4)
        return NAN;
    const struct an_step_point *from = &m->step[n / 2], *to = &m->step[n - 1];
    double apart = (double)(to->index - from->index), pace = (to->start_s - from->start_s) / apart;
    return apart > 0 && pace >= 0 ? (double)left * pace : NAN;
}

const struct tui_series *tui_model_series(const struct tui_model *m, const char *name)
{
    for (size_t i = 0; i < m->series_count; i++)
        if (!strcmp(m->series[i].name, name))
            return &m->series[i];
    return NULL;
}
