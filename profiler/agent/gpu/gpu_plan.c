/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of pushes and pops at which a step is cut, deepest levels dropped first where there are
 * too many, and the comparison of later steps with it.
 */
#include "profiler/agent/gpu/gpu_plan.h"

#include <string.h>

/* Opens a range; false: too deep to be followed. */
static bool open_range(struct gpu_plan *plan, uint16_t domain, uint32_t name, bool chosen)
{
    if (plan->deeper || plan->opened == GPU_PLAN_DEPTH) {
        plan->deeper++;
        return false;
    }
    plan->open[plan->opened].name = name;
    plan->open[plan->opened].domain = domain;
    plan->open[plan->opened].chosen = chosen;
    plan->open[plan->opened].level = (uint8_t)(plan->opened + 1);
    plan->opened++;
    return true;
}

/* Closes the innermost range of the domain: ranges of two domains may overlap, and one keeps the
 * level at which it was opened, so that both of its ends are in a plan or none. False: it has none
 * open that is followed. */
static bool close_range(struct gpu_plan *plan, uint16_t domain, unsigned *level, uint32_t *name,
                        bool *chosen)
{
    unsigned i = plan->opened;
    if (plan->deeper) {
        plan->deeper--;
        return false;
    }
    while (i && plan->open[i - 1].domain != domain)
        i--;
    if (!i)
        return false;
    *level = plan->open[i - 1].level;
    *name = plan->open[i - 1].name;
    *chosen = plan->open[i - 1].chosen;
    memmove(&plan->open[i - 1], &plan->open[i], (plan->opened - i) * sizeof *plan->open);
    plan->opened--;
    return true;
}

void gpu_plan_clear(struct gpu_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->levels = GPU_PLAN_DEPTH;
}

/* Room for one more event, at the cost of the deepest level. */
static bool make_room(struct gpu_plan *plan)
{
    while (plan->events == GPU_PLAN_EVENTS && plan->levels) {
        size_t kept = 0;
        plan->levels--;
        for (size_t i = 0; i < plan->events; i++)
            if (plan->event[i].level <= plan->levels)
                plan->event[kept++] = plan->event[i];
        plan->events = kept;
    }
    return plan->events < GPU_PLAN_EVENTS;
}

static void add(struct gpu_plan *plan, bool push, uint16_t domain, uint32_t name, unsigned level)
{
    if (level <= plan->levels && make_room(plan) && level <= plan->levels)
        plan->event[plan->events++] = (struct gpu_plan_event){name, domain, (uint8_t)level, push};
}

void gpu_plan_see(struct gpu_plan *plan, bool push, uint16_t domain, uint32_t name)
{
    unsigned level = plan->opened + 1;
    bool chosen;
    if (push ? open_range(plan, domain, name, true)
             : close_range(plan, domain, &level, &name, &chosen))
        add(plan, push, domain, name, level);
}

size_t gpu_plan_pieces(const struct gpu_plan *plan)
{
    return plan->events + 1;
}

void gpu_plan_begin(struct gpu_plan *plan)
{
    plan->opened = plan->deeper = 0;
    plan->next = 0;
    plan->spoilt = false;
}

int gpu_plan_cut(struct gpu_plan *plan, bool push, uint16_t domain, uint32_t name)
{
    const struct gpu_plan_event *expected =
        plan->next < plan->events ? &plan->event[plan->next] : NULL;
    unsigned level;
    bool chosen = expected && push && expected->push && expected->domain == domain &&
                  expected->name == name && expected->level == plan->opened + 1 &&
                  (!plan->opened || plan->open[plan->opened - 1].chosen);
    if (push) {
        if (!open_range(plan, domain, name, chosen) || !chosen)
            return -1;
    } else {
        if (!close_range(plan, domain, &level, &name, &chosen) || !chosen)
            return -1;
        if (!expected || expected->push || expected->domain != domain || expected->name != name) {
            plan->spoilt = true;
            return -1;
        }
    }
    return (int)++plan->next;
}

bool gpu_plan_kept(const struct gpu_plan *plan)
{
    return !plan->spoilt && plan->next == plan->events;
}

size_t gpu_plan_path(const struct gpu_plan *plan, size_t piece, uint32_t name[GPU_PLAN_DEPTH])
{
    uint16_t domain[GPU_PLAN_DEPTH];
    size_t depth = 0;
    for (size_t event = 0; event < piece && event < plan->events; event++) {
        size_t i = depth;
        if (plan->event[event].push && depth < GPU_PLAN_DEPTH) {
            domain[depth] = plan->event[event].domain;
            name[depth++] = plan->event[event].name;
            continue;
        }
        while (i && domain[i - 1] != plan->event[event].domain)
            i--;
        for (; i && i < depth; i++) {
            domain[i - 1] = domain[i];
            name[i - 1] = name[i];
        }
        depth -= depth > 0;
    }
    return depth;
}
