/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings from device time by operator.
 */
#include <string.h>

#include "analyzers/findings/findings_private.h"

#define SOFTMAX_PCT 5.0 /* of device time: a classifier's own softmax takes far less */

static double share_of_ops(const struct an_attribution *attribution, const char *const *names)
{
    double pct = 0;
    for (size_t i = 0; i < attribution->row_count; i++)
        for (size_t k = 0; names[k]; k++)
            if (!strcmp(attribution->rows[i].name, names[k]) &&
                attribution->rows[i].share_pct.valid)
                pct += attribution->rows[i].share_pct.value;
    return pct;
}

/* Does a kernel of fused attention take any time worth the name? */
static bool has_fused(const struct an_result *result)
{
    double pct = 0;
    for (size_t i = 0; i < result->op_count; i++)
        if (!strcmp(result->ops[i].kind, "attention") && result->ops[i].share_pct.valid)
            pct += result->ops[i].share_pct.value;
    return pct >= 1;
}

/* That share of the time of all device ops as ns, at most what the devices compute at all, and the
 * time that was recorded on them. */
static void of_capture(const struct an_result *result, double pct, double *removed, double *whole)
{
    const struct an_attribution *attribution = &result->attribution[0];
    double compute = 0, all = (double)attribution->unattributed_ns;
    *whole = 0;
    for (size_t i = 0; i < attribution->row_count; i++)
        all += (double)attribution->rows[i].device_ns;
    for (size_t d = 0; d < result->gpu_count; d++) {
        *whole += result->gpus[d].span_ns.valid ? (double)result->gpus[d].span_ns.value : 0;
        compute += result->gpus[d].compute_ns.valid ? (double)result->gpus[d].compute_ns.value : 0;
    }
    *removed = all * pct / 100 < compute ? all * pct / 100 : compute;
}

/* Attention as separate products and softmax writes the matrix of scores to memory and reads it
 * again. */
void an_findings_attention(struct an_findings_list *findings)
{
    static const char *const softmax[] = {"aten::_softmax", "aten::_softmax_backward_data", NULL};
    static const char *const products[] = {"aten::bmm", "aten::baddbmm", NULL};
    struct an_context *context = findings->context;
    const struct an_attribution *attribution = &context->result->attribution[0];
    if (attribution->reason || !attribution->row_count)
        return;
    double scores = share_of_ops(attribution, softmax),
           around = share_of_ops(attribution, products), removed, whole;
    of_capture(context->result, scores + around, &removed, &whole);
    if (scores < SOFTMAX_PCT || around <= 0 || has_fused(context->result) ||
        100 * removed < FINDINGS_NOISE_PCT * whole) {
        an_findings_checked(findings, "attention in separate steps");
        return;
    }
    struct an_finding *finding =
        an_findings_add(findings, "UNFUSED_ATTENTION",
                        an_arena_format(context->arena,
                                        "attention runs in separate steps: %.1f %% of device time "
                                        "is softmax, %.1f %% the products around it",
                                        scores, around));
    an_finding_evidence(finding, "no kernel of fused attention in the capture");
    an_finding_evidence(
        finding,
        an_arena_format(context->arena, "the table by operator: %.60s %.1f %% of device time",
                        attribution->rows[0].name,
                        attribution->rows[0].share_pct.valid ? attribution->rows[0].share_pct.value
                                                             : 0));
    finding->action =
        "torch.nn.functional.scaled_dot_product_attention in place of matmul, softmax, "
        "matmul (transformers: "
        "attn_implementation=\"sdpa\")";
    finding->effort = "some lines of code, or a setting";
    an_finding_ceiling(finding, whole, removed,
                       "a ceiling has no expected value: nothing was replayed");
    finding->method =
        "ceiling: capture / (capture - softmax and batched products) - 1; the arithmetic "
        "of the products stays";
    finding->confidence = finding->confidence > AN_LOW ? AN_MEDIUM : AN_LOW;
    finding->verify = "run again and compare the tables by operator: `tacho report --by op`";
    finding->wrong_when = "the softmax or the batched products are not those of attention, or the "
                          "weights of attention are needed";
}
