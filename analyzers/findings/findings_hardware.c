/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU that is held below its clocks. The gain is a ceiling: compute would take clock / highest
 * clock of its time.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/findings/findings_private.h"

#define HELD_LEAST 10.0 /* % of the steps' time */

static bool by(const struct an_gpu_hardware *hardware, const char *word)
{
    for (size_t i = 0; i < hardware->reason_count; i++)
        if (!strncmp(hardware->reasons[i].name, word, strlen(word)) &&
            hardware->reasons[i].pct >= HELD_LEAST)
            return true;
    return false;
}

static const char *action(struct an_context *context, const struct an_gpu_hardware *hardware)
{
    if (by(hardware, "heat") || by(hardware, "hardware slowdown") || by(hardware, "power brake"))
        return "see to the cooling and the power supply of the machine; until then, move the job "
               "to another one";
    if (by(hardware, "clocks set"))
        return an_arena_format(context->arena,
                               "reset the clocks: nvidia-smi -i %" PRId64
                               " -rgc; nvidia-smi -i %" PRId64 " -rac",
                               hardware->gpu, hardware->gpu);
    return an_arena_format(
        context->arena,
        "raise the power limit as far as the machine allows: nvidia-smi -i %" PRId64 " -pl WATTS",
        hardware->gpu);
}

static const char *reason_list(struct an_context *context, const struct an_gpu_hardware *hardware)
{
    const char *text = "";
    for (size_t i = 0; i < hardware->reason_count && i < 3; i++)
        text = an_arena_format(context->arena, "%s%s%s %.0f %%", text, i ? ", " : "",
                               hardware->reasons[i].name, hardware->reasons[i].pct);
    return text;
}

void an_findings_throttled(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    const struct an_gpu_hardware *worst = NULL;
    double least = 1;
    if (context->result->hardware.reason)
        return;
    for (size_t i = 0; i < context->result->hardware_gpu_count; i++) {
        const struct an_gpu_hardware *hardware = &context->result->hardware_gpus[i];
        if (!hardware->throttled_pct.valid || hardware->throttled_pct.value < HELD_LEAST ||
            !hardware->clock_sm_mhz.valid || !hardware->clock_sm_max_mhz.valid)
            continue;
        double share = hardware->clock_sm_mhz.value / hardware->clock_sm_max_mhz.value;
        if (share < least) {
            least = share;
            worst = hardware;
        }
    }
    double compute = !budget->reason && budget->pct[AN_CLASS_COMPUTE].valid
                         ? budget->pct[AN_CLASS_COMPUTE].value / 100
                         : 0;
    double removed = compute * (1 - least);
    if (!worst || removed * 100 < FINDINGS_NOISE_PCT) {
        an_findings_checked(findings, "GPUs held below their clocks");
        return;
    }
    struct an_finding *finding = an_findings_add(
        findings, "THROTTLED",
        an_arena_format(context->arena,
                        "gpu:%" PRId64
                        " runs at %.0f of %.0f MHz: held back %.0f %% of the steps' time",
                        worst->gpu, worst->clock_sm_mhz.value, worst->clock_sm_max_mhz.value,
                        worst->throttled_pct.value));
    finding->action = action(context, worst);
    finding->effort = "a setting of the machine, or its cooling";
    finding->method =
        "ceiling: compute shrinks to clock / highest clock of its time, all else stays; "
        "nothing was replayed";
    finding->verify = "run again and compare: `tacho diff BEFORE AFTER`";
    finding->wrong_when =
        "memory bandwidth binds the kernels, not the clock; the highest clock may not "
        "be reachable under load";
    an_finding_evidence(finding, reason_list(context, worst));
    an_finding_evidence(
        finding, an_arena_format(context->arena, "mean SM clock %.0f MHz, highest %.0f MHz (%s)",
                                 worst->clock_sm_mhz.value, worst->clock_sm_max_mhz.value,
                                 an_window_text(context)));
    if (worst->power_w.valid)
        an_finding_evidence(
            finding, worst->power_limit_w.valid
                         ? an_arena_format(context->arena, "power %.0f W of %.0f W",
                                           worst->power_w.value, worst->power_limit_w.value)
                         : an_arena_format(context->arena, "power %.0f W", worst->power_w.value));
    if (worst->temperature_max_c.valid)
        an_finding_evidence(finding, an_arena_format(context->arena, "at most %.0f C",
                                                     worst->temperature_max_c.value));
    an_finding_ceiling(finding, 1, removed, "nothing was replayed");
}
