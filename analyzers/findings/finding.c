/* SPDX-License-Identifier: Apache-2.0
 *
 * The kit of the findings: a new finding and its parts, and the share of each step that a class of
 * time takes, with the interval of its mean. Every check calls this file, and this file calls no
 * check.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define ONE_STEP_PCT 5.0

/* ---- parts of a finding ---------------------------------------------------------------------- */

struct an_finding *an_findings_add(struct an_findings_list *findings, const char *id,
                                   const char *claim)
{
    struct an_finding *finding =
        findings->count < FINDINGS_FOUND ? &findings->found[findings->count++] : &findings->beyond;
    *finding = (struct an_finding){
        .id = id, .claim = claim, .confidence = an_confidence_of(findings->context)};
    return finding;
}

void an_finding_evidence(struct an_finding *finding, const char *text)
{
    for (size_t i = 0; text && i < sizeof finding->evidence / sizeof *finding->evidence; i++)
        if (!finding->evidence[i]) {
            finding->evidence[i] = text;
            return;
        }
}

void an_finding_ceiling(struct an_finding *finding, double whole, double removed,
                        const char *reason)
{
    finding->gain = (struct an_gain){
        .low = an_num_none(reason), .expected = an_num_none(reason), .ceiling = true};
    finding->gain.high = removed < whole ? an_num(100 * (whole / (whole - removed) - 1))
                                         : an_num_none("nothing else takes time");
}

void an_finding_no_gain(struct an_finding *finding)
{
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("a gap in the measurement has no gain");
    finding->method = "no gain: it is a gap in what was measured, not in the run";
    finding->effort = "another recording";
}

const char *an_finding_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void an_finding_at_most_medium(struct an_finding *finding)
{
    if (finding->confidence > AN_MEDIUM)
        finding->confidence = AN_MEDIUM;
}

double an_finding_gain_of_lost(double lost_pct)
{
    return 100 * lost_pct / (100 - fmin(lost_pct, 99));
}

void an_finding_keep_gain(const struct an_context *context, struct an_finding *finding)
{
    struct an_what_if *what_if = &finding->replay;
    const struct an_value step_ms = context->result->advice.step_ms;
    const struct an_gain *gain = what_if->gain.expected.valid ? &what_if->gain : NULL;
    double base_ms = gain && what_if->step_ms.valid
                         ? what_if->step_ms.value * (1 + gain->expected.value / 100)
                         : step_ms.value;
    const struct {
        struct an_value *ms;
        struct an_value gain;
    } rows[] = {{&what_if->step_ms, finding->gain.expected},
                {&what_if->step_low_ms, finding->gain.high},
                {&what_if->step_high_ms, finding->gain.low}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        *rows[i].ms =
            rows[i].gain.valid ? an_num(base_ms / (1 + rows[i].gain.value / 100)) : rows[i].gain;
    what_if->gain = finding->gain;
}

bool an_finding_has_no_gain(const struct an_finding *finding)
{
    const struct an_gain *gain = &finding->gain;
    const struct an_value *least = gain->low.valid ? &gain->low : &gain->high;
    return least->valid && least->value < FINDINGS_NOISE_PCT;
}

/* ---- shares of the step ---------------------------------------------------------------------- */

struct an_class_share an_share_of_values(const double *values, size_t count)
{
    struct an_class_share share = {.steps = count};
    for (size_t i = 0; i < count; i++)
        share.touched += values[i] > 0;
    share.mean = count ? an_mean(values, count) : 0;
    share.half = count > 1 ? AN_Z95 * an_sd(values, count) / sqrt((double)count) : INFINITY;
    return share;
}

double an_share_half_90(const struct an_class_share *share)
{
    return isfinite(share->half) ? AN_Z90 / AN_Z95 * share->half : 0;
}

int an_share_of_steps(const struct an_context *context,
                      double (*part_ns)(const void *of, size_t step), const void *of,
                      struct an_class_share *share)
{
    double *values = malloc((context->step_count + 1) * sizeof *values);
    size_t count = 0;
    if (!values)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        int64_t ns = an_step_detailed(step) ? an_step_ns(step) : 0;
        if (ns > 0)
            values[count++] = an_percent(part_ns(of, i), (double)ns);
    }
    *share = an_share_of_values(values, count);
    free(values);
    return 0;
}

struct class_of {
    const struct an_context *context;
    enum an_class class;
};

static double class_ns(const void *of, size_t step)
{
    const struct class_of *wanted = of;
    return (double)wanted->context->step[step].class_ns[wanted->class];
}

int an_class_share(const struct an_context *context, enum an_class class,
                   struct an_class_share *share)
{
    return an_share_of_steps(context, class_ns, &(struct class_of){context, class}, share);
}

bool an_class_share_matters(const struct an_class_share *share)
{
    return share->steps <= 1 ? share->mean >= ONE_STEP_PCT
                             : share->mean - share->half >= FINDINGS_NOISE_PCT;
}

const char *an_class_share_text(struct an_context *context, const struct an_class_share *share,
                                const char *what)
{
    double step_ms = an_budget_step_ms(&context->result->budget);
    if (!share->steps)
        return an_finding_text(context, "%s: %s on all devices (whole capture)", what,
                               an_time_words(context->arena, share->ms, 4));
    if (share->steps == 1)
        return an_finding_text(context, "%s %s (%s)", what,
                               an_time_words(context->arena, step_ms * share->mean / 100, 3),
                               an_window_text(context));
    return an_finding_text(
        context, "%s %s a step (%s)", what,
        an_time_spread(context->arena, step_ms * share->mean / 100, step_ms * share->half / 100),
        an_window_text(context));
}

/* ---- figures --------------------------------------------------------------------------------- */

double an_budget_step_ms(const struct an_budget *budget)
{
    return budget->steps ? (double)budget->step_ns / (double)budget->steps / 1e6 : 0;
}

double an_devices_sum(const struct an_result *result, size_t offset)
{
    double sum = 0;
    for (size_t i = 0; i < result->gpu_count; i++) {
        const char *device = (const char *)&result->gpus[i];
        sum += an_count_or_0(*(const struct an_count *)(const void *)(device + offset));
    }
    return sum;
}

const char *an_finding_scaling(struct an_context *context, const char *key, double share)
{
    const char *factor = an_number_words(context->arena, fmax(0, share), 3);
    bool nothing = !strcmp(factor, "0"); /* "0x" would begin a hexadecimal number */
    return an_finding_text(context, "%s=%s%s", key, factor, nothing ? "" : "x");
}

const char *an_bytes_text(struct an_context *context, double bytes)
{
    if (bytes >= 1e9)
        return an_finding_text(context, "%s GB", an_number_words(context->arena, bytes / 1e9, 3));
    return an_finding_text(context, "%s MB", an_number_words(context->arena, bytes / 1e6, 3));
}
