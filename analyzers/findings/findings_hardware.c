/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU that is held below its clocks. The gain is a ceiling: compute would take clock / highest
 * clock of its time.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/findings/findings.h"

#define HELD_LEAST 10.0 /* % of the steps' time */

static bool by(const struct an_gpu_hardware *g, const char *word)
{
    for (size_t i = 0; i < g->reason_count; i++)
        if (!strncmp(g->reasons[i].name, word, strlen(word)) && g->reasons[i].pct >= HELD_LEAST)
            return true;
    return false;
}

static const char *action(struct an_context *c, const struct an_gpu_hardware *g)
{
    if (by(g, "heat") || by(g, "hardware slowdown") || by(g, "power brake"))
        return "see to the cooling and the power supply of the machine; until then, move the job "
               "to another one";
    if (by(g, "clocks set"))
        return an_arena_format(c->a,
                               "reset the clocks: nvidia-smi -i %" PRId64
                               " -rgc; nvidia-smi -i %" PRId64 " -rac",
                               g->gpu, g->gpu);
    return an_arena_format(
        c->a,
        "raise the power limit as far as the machine allows: nvidia-smi -i %" PRId64 " -pl WATTS",
        g->gpu);
}

static const char *reason_list(struct an_context *c, const struct an_gpu_hardware *g)
{
    const char *text = "";
    for (size_t i = 0; i < g->reason_count && i < 3; i++)
        text = an_arena_format(c->a, "%s%s%s %.0f %%", text, i ? ", " : "", g->reasons[i].name,
                               g->reasons[i].pct);
    return text;
}

void an_findings_throttled(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    const struct an_budget *b = &c->r->budget;
    const struct an_gpu_hardware *worst = NULL;
    double least = 1;
    if (c->r->hardware.reason)
        return;
    for (size_t i = 0; i < c->r->hardware_gpu_count; i++) {
        const struct an_gpu_hardware *g = &c->r->hardware_gpus[i];
        if (!g->throttled_pct.valid || g->throttled_pct.value < HELD_LEAST ||
            !g->clock_sm_mhz.valid || !g->clock_sm_max_mhz.valid)
            continue;
        double share = g->clock_sm_mhz.value / g->clock_sm_max_mhz.value;
        if (share < least) {
            least = share;
            worst = g;
        }
    }
    double compute =
        !b->reason && b->pct[AN_CLASS_COMPUTE].valid ? b->pct[AN_CLASS_COMPUTE].value / 100 : 0;
    double removed = compute * (1 - least);
    if (!worst || removed * 100 < FINDINGS_NOISE_PCT) {
        an_findings_checked(l, "GPUs held below their clocks");
        return;
    }
    struct an_finding *f = an_findings_add(
        l, "THROTTLED",
        an_arena_format(
            c->a, "gpu:%" PRId64 " runs at %.0f of %.0f MHz: held back %.0f %% of the steps' time",
            worst->gpu, worst->clock_sm_mhz.value, worst->clock_sm_max_mhz.value,
            worst->throttled_pct.value));
    f->action = action(c, worst);
    f->effort = "a setting of the machine, or its cooling";
    f->method = "ceiling: compute shrinks to clock / highest clock of its time, all else stays; "
                "nothing was replayed";
    f->verify = "run again and compare: `tacho diff BEFORE AFTER`";
    f->wrong_when = "memory bandwidth binds the kernels, not the clock; the highest clock may not "
                    "be reachable under load";
    an_finding_evidence(f, reason_list(c, worst));
    an_finding_evidence(f, an_arena_format(c->a, "mean SM clock %.0f MHz, highest %.0f MHz (%s)",
                                           worst->clock_sm_mhz.value, worst->clock_sm_max_mhz.value,
                                           an_findings_window(c)));
    if (worst->power_w.valid)
        an_finding_evidence(f,
                            worst->power_limit_w.valid
                                ? an_arena_format(c->a, "power %.0f W of %.0f W",
                                                  worst->power_w.value, worst->power_limit_w.value)
                                : an_arena_format(c->a, "power %.0f W", worst->power_w.value));
    if (worst->temperature_max_c.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "at most %.0f C", worst->temperature_max_c.value));
    an_finding_ceiling(f, 1, removed, "nothing was replayed");
}
