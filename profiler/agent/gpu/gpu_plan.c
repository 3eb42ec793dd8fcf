/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/agent/gpu/gpu_plan.h"

#include <string.h>

/* Opens a range; false: too deep to be told apart. */
static bool open_range(struct gpu_plan *gpu_plan, uint16_t domain, uint32_t name, bool chosen)
{
    if (gpu_plan->deeper || gpu_plan->opened == GPU_PLAN_DEPTH) {
        gpu_plan->deeper++;
        return false;
    }
    gpu_plan->open[gpu_plan->opened].name = name;
    gpu_plan->open[gpu_plan->opened].domain = domain;
    gpu_plan->open[gpu_plan->opened++].chosen = chosen;
    return true;
}

/* Closes the innermost range of the domain: ranges of two domains may overlap. False: it has none
 * open that is told apart. */
static bool close_range(struct gpu_plan *gpu_plan, uint16_t domain, unsigned *level, uint32_t *name,
                        bool *chosen)
{
    unsigned i = gpu_plan->opened;
    if (gpu_plan->deeper) {
        gpu_plan->deeper--;
        return false;
    }
    while (i && gpu_plan->open[i - 1].domain != domain)
        i--;
    if (!i)
        return false;
    *level = i;
    *name = gpu_plan->open[i - 1].name;
    *chosen = gpu_plan->open[i - 1].chosen;
    memmove(&gpu_plan->open[i - 1], &gpu_plan->open[i],
            (gpu_plan->opened - i) * sizeof *gpu_plan->open);
    gpu_plan->opened--;
    return true;
}

void gpu_plan_clear(struct gpu_plan *gpu_plan)
{
    memset(gpu_plan, 0, sizeof *gpu_plan);
    gpu_plan->levels = GPU_PLAN_DEPTH;
}

/* Room for one more event, at the cost of the deepest level. */
static bool make_room(struct gpu_plan *gpu_plan)
{
    while (gpu_plan->events == GPU_PLAN_EVENTS && gpu_plan->levels) {
        size_t kept = 0;
        gpu_plan->levels--;
        for (size_t i = 0; i < gpu_plan->events; i++)
            if (gpu_plan->event[i].level <= gpu_plan->levels)
                gpu_plan->event[kept++] = gpu_plan->event[i];
        gpu_plan->events = kept;
    }
    return gpu_plan->events < GPU_PLAN_EVENTS;
}

static void add(struct gpu_plan *gpu_plan, bool push, uint16_t domain, uint32_t name,
                unsigned level)
{
    if (level <= gpu_plan->levels && make_room(gpu_plan) && level <= gpu_plan->levels)
        gpu_plan->event[gpu_plan->events++] =
            (struct gpu_plan_event){name, domain, (uint8_t)level, push};
}

void gpu_plan_see(struct gpu_plan *gpu_plan, bool push, uint16_t domain, uint32_t name)
{
    unsigned level = gpu_plan->opened + 1;
    bool chosen;
    if (push ? open_range(gpu_plan, domain, name, true)
             : close_range(gpu_plan, domain, &level, &name, &chosen))
        add(gpu_plan, push, domain, name, level);
}

size_t gpu_plan_pieces(const struct gpu_plan *gpu_plan)
{
    return gpu_plan->events + 1;
}

void gpu_plan_begin(struct gpu_plan *gpu_plan)
{
    gpu_plan->opened = gpu_plan->deeper = 0;
    gpu_plan->next = 0;
    gpu_plan->spoilt = false;
}

int gpu_plan_cut(struct gpu_plan *gpu_plan, bool push, uint16_t domain, uint32_t name)
{
    const struct gpu_plan_event *expected =
        gpu_plan->next < gpu_plan->events ? &gpu_plan->event[gpu_plan->next] : NULL;
    unsigned level;
    bool chosen = expected && push && expected->push && expected->domain == domain &&
                  expected->name == name && expected->level == gpu_plan->opened + 1 &&
                  (!gpu_plan->opened || gpu_plan->open[gpu_plan->opened - 1].chosen);
    if (push) {
        if (!open_range(gpu_plan, domain, name, chosen) || !chosen)
            return -1;
    } else {
        if (!close_range(gpu_plan, domain, &level, &name, &chosen) || !chosen)
            return -1;
        if (!expected || expected->push || expected->domain != domain || expected->name != name) {
            gpu_plan->spoilt = true;
            return -1;
        }
    }
    return (int)++gpu_plan->next;
}

bool gpu_plan_kept(const struct gpu_plan *gpu_plan)
{
    return !gpu_plan->spoilt && gpu_plan->next == gpu_plan->events;
}

size_t gpu_plan_path(const struct gpu_plan *gpu_plan, size_t piece, uint32_t name[GPU_PLAN_DEPTH])
{
    uint16_t domain[GPU_PLAN_DEPTH];
    size_t depth = 0;
    for (size_t event = 0; event < piece && event < gpu_plan->events; event++) {
        size_t i = depth;
        if (gpu_plan->event[event].push && depth < GPU_PLAN_DEPTH) {
            domain[depth] = gpu_plan->event[event].domain;
            name[depth++] = gpu_plan->event[event].name;
            continue;
        }
        while (i && domain[i - 1] != gpu_plan->event[event].domain)
            i--;
        for (; i && i < depth; i++) {
            domain[i - 1] = domain[i];
            name[i - 1] = name[i];
        }
        depth -= depth > 0;
    }
    return depth;
}
