/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/agent/gpu/gpu_plan.h"

#include <string.h>

/* Opens a range; false: too deep to be told apart. */
static bool open_range(struct gpu_plan *p, uint16_t domain, uint32_t name, bool chosen)
{
    if (p->deeper || p->opened == GPU_PLAN_DEPTH) {
        p->deeper++;
        return false;
    }
    p->open[p->opened].name = name;
    p->open[p->opened].domain = domain;
    p->open[p->opened++].chosen = chosen;
    return true;
}

/* Closes the innermost range of the domain: ranges of two domains may overlap. False: it has none
 * open that is told apart. */
static bool close_range(struct gpu_plan *p, uint16_t domain, unsigned *level, uint32_t *name,
                        bool *chosen)
{
    unsigned i = p->opened;
    if (p->deeper) {
        p->deeper--;
        return false;
    }
    while (i && p->open[i - 1].domain != domain)
        i--;
    if (!i)
        return false;
    *level = i;
    *name = p->open[i - 1].name;
    *chosen = p->open[i - 1].chosen;
    memmove(&p->open[i - 1], &p->open[i], (p->opened - i) * sizeof *p->open);
    p->opened--;
    return true;
}

void gpu_plan_clear(struct gpu_plan *p)
{
    memset(p, 0, sizeof *p);
    p->levels = GPU_PLAN_DEPTH;
}

/* Room for one more event, at the cost of the deepest level. */
static bool make_room(struct gpu_plan *p)
{
    while (p->events == GPU_PLAN_EVENTS && p->levels) {
        size_t kept = 0;
        p->levels--;
        for (size_t i = 0; i < p->events; i++)
            if (p->event[i].level <= p->levels)
                p->event[kept++] = p->event[i];
        p->events = kept;
    }
    return p->events < GPU_PLAN_EVENTS;
}

static void add(struct gpu_plan *p, bool push, uint16_t domain, uint32_t name, unsigned level)
{
    if (level <= p->levels && make_room(p) && level <= p->levels)
        p->event[p->events++] = (struct gpu_plan_event){name, domain, (uint8_t)level, push};
}

void gpu_plan_see(struct gpu_plan *p, bool push, uint16_t domain, uint32_t name)
{
    unsigned level = p->opened + 1;
    bool chosen;
    if (push ? open_range(p, domain, name, true) : close_range(p, domain, &level, &name, &chosen))
        add(p, push, domain, name, level);
}

size_t gpu_plan_pieces(const struct gpu_plan *p)
{
    return p->events + 1;
}

void gpu_plan_begin(struct gpu_plan *p)
{
    p->opened = p->deeper = 0;
    p->next = 0;
    p->spoilt = false;
}

int gpu_plan_cut(struct gpu_plan *p, bool push, uint16_t domain, uint32_t name)
{
    const struct gpu_plan_event *e = p->next < p->events ? &p->event[p->next] : NULL;
    unsigned level;
    bool chosen = e && push && e->push && e->domain == domain && e->name == name &&
                  e->level == p->opened + 1 && (!p->opened || p->open[p->opened - 1].chosen);
    if (push) {
        if (!open_range(p, domain, name, chosen) || !chosen)
            return -1;
    } else {
        if (!close_range(p, domain, &level, &name, &chosen) || !chosen)
            return -1;
        if (!e || e->push || e->domain != domain || e->name != name) {
            p->spoilt = true;
            return -1;
        }
    }
    return (int)++p->next;
}

bool gpu_plan_kept(const struct gpu_plan *p)
{
    return !p->spoilt && p->next == p->events;
}

size_t gpu_plan_path(const struct gpu_plan *p, size_t piece, uint32_t name[GPU_PLAN_DEPTH])
{
    uint16_t domain[GPU_PLAN_DEPTH];
    size_t n = 0;
    for (size_t k = 0; k < piece && k < p->events; k++) {
        size_t i = n;
        if (p->event[k].push && n < GPU_PLAN_DEPTH) {
            domain[n] = p->event[k].domain;
            name[n++] = p->event[k].name;
            continue;
        }
        while (i && domain[i - 1] != p->event[k].domain)
            i--;
        for (; i && i < n; i++) {
            domain[i - 1] = domain[i];
            name[i - 1] = name[i];
        }
        n -= n > 0;
    }
    return n;
}
