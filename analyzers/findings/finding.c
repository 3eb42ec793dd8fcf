/* SPDX-License-Identifier: Apache-2.0
 *
 * The kit of the findings: a new finding and its parts, and the share of each step that a class of
 * time takes, with the interval of its mean. Every look for a finding calls this file, and this
 * file calls none of them.
 */
#include "analyzers/findings/findings_private.h"

#include <math.h>
#include <stdlib.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"

#define ONE_STEP_PCT 5.0

void an_findings_checked(struct an_findings_list *findings, const char *text)
{
    if (findings->checks < FINDINGS_CHECKED)
        findings->checked[findings->checks++] = text;
}

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

bool an_finding_brings_nothing(const struct an_finding *finding)
{
    return finding->gain.high.valid && finding->gain.high.value < FINDINGS_NOISE_PCT;
}

struct an_class_share an_share_of_values(const double *x, size_t n)
{
    struct an_class_share share = {.steps = n};
    for (size_t i = 0; i < n; i++)
        share.touched += x[i] > 0;
    share.mean = n ? an_mean(x, n) : 0;
    share.half = n > 1 ? 1.96 * an_sd(x, n) / sqrt((double)n) : INFINITY;
    return share;
}

int an_class_share(const struct an_context *context, enum an_class class,
                   struct an_class_share *share)
{
    double *x = malloc((context->step_count + 1) * sizeof *x);
    size_t n = 0;
    if (!x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        int64_t ns = an_step_detailed(&context->step[i]) ? an_step_ns(&context->step[i]) : 0;
        if (ns > 0)
            x[n++] = 100 * (double)context->step[i].class_ns[class] / (double)ns;
    }
    *share = an_share_of_values(x, n);
    free(x);
    return 0;
}

bool an_class_share_matters(const struct an_class_share *share)
{
    return share->steps <= 1 ? share->mean >= ONE_STEP_PCT
                             : share->mean - share->half >= FINDINGS_NOISE_PCT;
}

const char *an_findings_bytes(struct an_context *context, double bytes)
{
    return bytes >= 1e9 ? an_arena_format(context->arena, "%s GB",
                                          an_number_words(context->arena, bytes / 1e9, 3))
                        : an_arena_format(context->arena, "%s MB",
                                          an_number_words(context->arena, bytes / 1e6, 3));
}
