/* SPDX-License-Identifier: Apache-2.0
 *
 * UNFUSED_ATTENTION, from device time by operator: attention as separate GEMMs and softmax
 * writes the matrix of scores to memory and reads it again.
 */
#include <string.h>

#include "analyzers/findings/findings_private.h"

#define SOFTMAX_PCT 5.0 /* of device time: a classifier's own softmax takes far less */

/* Sum of the shares of device time of some operators, in %. */
static double share_of_ops(const struct an_attribution *attribution, const char *const *names)
{
    double pct = 0;
    for (size_t i = 0; i < attribution->row_count; i++)
        for (size_t k = 0; names[k]; k++)
            if (!strcmp(attribution->rows[i].name, names[k]))
                pct += an_value_or_0(attribution->rows[i].share_pct);
    return pct;
}

/* Do kernels of fused attention take at least 1 % of device time? */
static bool has_fused(const struct an_result *result)
{
    double pct = 0;
    for (size_t i = 0; i < result->op_count; i++)
        if (!strcmp(result->ops[i].kind, "attention"))
            pct += an_value_or_0(result->ops[i].share_pct);
    return pct >= 1;
}

/* That share of the time of all device ops as ns, but not more than the devices compute at all. */
static double capture_ns(const struct an_result *result, double pct)
{
    const struct an_attribution *attribution = &result->attribution[0];
    double compute = an_devices_ns(result, compute_ns);
    double all = (double)attribution->unattributed_ns;
    for (size_t i = 0; i < attribution->row_count; i++)
        all += (double)attribution->rows[i].device_ns;
    return all * pct / 100 < compute ? all * pct / 100 : compute;
}

/* Fused attention of PyTorch. */
static void attention_action(struct an_finding *finding)
{
    finding->action = "torch.nn.functional.scaled_dot_product_attention in place of matmul, "
                      "softmax, matmul (transformers: attn_implementation=\"sdpa\")";
    finding->effort = "some lines of code, or a setting";
}

/* How to verify the finding, and when it is wrong. */
static void attention_check(struct an_finding *finding)
{
    finding->verify = "run again and compare the tables by operator: `tacho report --by op`";
    finding->wrong_when = "the softmax or the batched GEMMs are not those of attention, or the "
                          "attention weights are needed";
}

void an_findings_attention(struct an_findings_list *findings)
{
    static const char *const softmax[] = {"aten::_softmax", "aten::_softmax_backward_data", NULL};
    static const char *const products[] = {"aten::bmm", "aten::baddbmm", NULL};
    struct an_context *context = findings->context;
    const struct an_attribution *attribution = &context->result->attribution[0];
    if (attribution->reason || !attribution->row_count)
        return;
    double scores = share_of_ops(attribution, softmax),
           around = share_of_ops(attribution, products);
    double removed = capture_ns(context->result, scores + around);
    double whole = an_devices_ns(context->result, span_ns);

    if (scores < SOFTMAX_PCT || around <= 0 || has_fused(context->result) ||
        100 * removed < FINDINGS_NOISE_PCT * whole)
        return;
    struct an_finding *finding =
        an_findings_add(findings, "UNFUSED_ATTENTION",
                        an_finding_text(context,
                                        "attention runs in separate kernels: %.1f %% of device "
                                        "time is softmax, %.1f %% the GEMMs around it",
                                        scores, around));
    an_finding_evidence(finding, "no kernel of fused attention in the capture");
    an_finding_note(context, finding, "the table by operator: %.60s %.1f %% of device time",
                    attribution->rows[0].name, an_value_or_0(attribution->rows[0].share_pct));
    attention_action(finding);
    an_finding_ceiling(finding, whole, removed, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: capture / (capture - softmax and batched GEMMs) - 1; the "
                      "arithmetic of the GEMMs stays";
    an_finding_at_most_medium(finding);
    attention_check(finding);
}
