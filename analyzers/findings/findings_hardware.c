/* SPDX-License-Identifier: Apache-2.0
 *
 * THROTTLED: a GPU that runs below its highest clock, by the samples of its clocks and of the
 * reasons that the driver gives. The gain is a ceiling: compute would take clock / highest clock of
 * its time.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/findings/findings_private.h"
#include "analyzers/hardware/accelerators.h"

#define HELD_LEAST 10.0 /* % of the steps' time */

static bool is_held_by(const struct an_gpu_hardware *hardware, const char *word)
{
    for (size_t i = 0; i < hardware->reason_count; i++)
        if (!strncmp(hardware->reasons[i].name, word, strlen(word)) &&
            hardware->reasons[i].pct >= HELD_LEAST)
            return true;
    return false;
}

/* Does the device get all the power of its data sheet, so that no setting gives it more? */
static bool has_all_power(const struct an_gpu_hardware *hardware)
{
    struct an_accelerator sheet;
    return is_held_by(hardware, "power cap") && hardware->power_limit_w.valid &&
           an_accelerator_named(hardware->name, &sheet) && sheet.watts > 0 &&
           hardware->power_limit_w.value >= sheet.watts;
}

/* What to do follows from the reason that the driver gives: heat or power supply, clocks that were
 * set, or the power limit. */
static const char *throttled_action(struct an_context *context,
                                    const struct an_gpu_hardware *hardware)
{
    if (is_held_by(hardware, "heat") || is_held_by(hardware, "hardware slowdown") ||
        is_held_by(hardware, "power brake"))
        return "check the cooling and the power supply of the machine; until then, move the job to "
               "another one";
    if (is_held_by(hardware, "clocks set"))
        return an_finding_text(context,
                               "reset the clocks: nvidia-smi -i %" PRId64
                               " -rgc; nvidia-smi -i %" PRId64 " -rac",
                               hardware->gpu, hardware->gpu);
    if (has_all_power(hardware))
        return an_finding_text(context,
                               "nothing to set: the limit of %.0f W is that of the data sheet, and "
                               "the work draws it; compare runs at equal clocks (nvidia-smi -lgc)",
                               hardware->power_limit_w.value);
    return an_finding_text(
        context,
        "raise the power limit as far as the machine allows: nvidia-smi -i %" PRId64 " -pl WATTS",
        hardware->gpu);
}

static const char *reason_list(struct an_context *context, const struct an_gpu_hardware *hardware)
{
    const char *text = "";
    for (size_t i = 0; i < hardware->reason_count && i < 3; i++)
        text = an_finding_text(context, "%s%s%s %.0f %%", text, i ? ", " : "",
                               hardware->reasons[i].name, hardware->reasons[i].pct);
    return text;
}

/* The GPU with the lowest clock against its highest among those that were held back. *ratio: of the
 * clocks, 1 where none was. */
static const struct an_gpu_hardware *slowest_gpu(const struct an_result *result, double *ratio)
{
    const struct an_gpu_hardware *slowest = NULL;
    *ratio = 1;
    for (size_t i = 0; i < result->hardware_gpu_count; i++) {
        const struct an_gpu_hardware *hardware = &result->hardware_gpus[i];
        if (!hardware->throttled_pct.valid || hardware->throttled_pct.value < HELD_LEAST ||
            !hardware->clock_sm_mhz.valid || !hardware->clock_sm_max_mhz.valid)
            continue;
        double own = hardware->clock_sm_mhz.value / hardware->clock_sm_max_mhz.value;
        if (own < *ratio) {
            *ratio = own;
            slowest = hardware;
        }
    }
    return slowest;
}

/* Mean power in the steps: by the counter of energy where there is one, because the driver reports
 * a mean over the second before. */
static struct an_value power_of(const struct an_result *result,
                                const struct an_gpu_hardware *hardware)
{
    bool counted = result->hardware_gpu_count == 1 && hardware->energy_source &&
                   !strcmp(hardware->energy_source, "energy counter");
    return counted && result->energy.power_w.valid ? result->energy.power_w : hardware->power_w;
}

/* What limits the clock, the clock itself, power and temperature. */
static void throttled_evidence(struct an_context *context, const struct an_gpu_hardware *slowest,
                               struct an_finding *finding)
{
    struct an_value power = power_of(context->result, slowest);
    an_finding_evidence(finding, reason_list(context, slowest));
    an_finding_note(context, finding, "mean SM clock %.0f MHz, highest %.0f MHz (%s)",
                    slowest->clock_sm_mhz.value, slowest->clock_sm_max_mhz.value,
                    an_window_text(context));
    if (power.valid)
        an_finding_note(context, finding, "power %.0f W%s", power.value,
                        slowest->power_limit_w.valid
                            ? an_finding_text(context, " of %.0f W", slowest->power_limit_w.value)
                            : "");
    if (slowest->temperature_max_c.valid)
        an_finding_note(context, finding, "at most %.0f C", slowest->temperature_max_c.value);
}

void an_findings_throttled(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    double ratio, compute = 0;
    if (context->result->hardware.reason)
        return;
    const struct an_gpu_hardware *slowest = slowest_gpu(context->result, &ratio);
    if (!budget->reason)
        compute = an_value_or_0(budget->pct[AN_CLASS_COMPUTE]) / 100;
    double removed = compute * (1 - ratio);
    if (!slowest || removed * 100 < FINDINGS_NOISE_PCT)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "THROTTLED",
        an_finding_text(context,
                        "gpu:%" PRId64
                        " runs at %.0f of %.0f MHz: limited in %.0f %% of the steps' time",
                        slowest->gpu, slowest->clock_sm_mhz.value, slowest->clock_sm_max_mhz.value,
                        slowest->throttled_pct.value));
    finding->action = throttled_action(context, slowest);
    finding->effort = "a setting of the machine, or its cooling";
    finding->method = "ceiling: compute takes clock / highest clock of its time, all else stays; "
                      "nothing was replayed";
    finding->verify = "run again and compare: `tacho diff BEFORE AFTER`";
    finding->wrong_when = "memory bandwidth binds the kernels, not the clock; the highest clock "
                          "may not be reachable under load";
    throttled_evidence(context, slowest, finding);
    an_finding_ceiling(finding, 1, removed, "nothing was replayed");
    if (has_all_power(slowest)) {
        an_finding_no_gain(finding);
        finding->method = "no gain: no setting of the device raises its clock";
        finding->effort = "none";
    }
}
