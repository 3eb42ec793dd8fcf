/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings from device time by operator.
 */
#include <string.h>

#include "analyzers/findings/findings.h"

#define SOFTMAX_PCT 5.0 /* of device time: a classifier's own softmax takes far less */

static double share_of_ops(const struct an_attribution *a, const char *const *names)
{
    double pct = 0;
    for (size_t i = 0; i < a->row_count; i++)
        for (size_t k = 0; names[k]; k++)
            if (!strcmp(a->rows[i].name, names[k]) && a->rows[i].share_pct.valid)
                pct += a->rows[i].share_pct.value;
    return pct;
}

/* Does a kernel of fused attention take any time worth the name? */
static bool has_fused(const struct an_result *r)
{
    double pct = 0;
    for (size_t i = 0; i < r->op_count; i++)
        if (!strcmp(r->ops[i].kind, "attention") && r->ops[i].share_pct.valid)
            pct += r->ops[i].share_pct.value;
    return pct >= 1;
}

/* That share of the time of all device ops as ns, at most what the devices compute at all, and the
 * time that was recorded on them. */
static void of_capture(const struct an_result *r, double pct, double *removed, double *whole)
{
    const struct an_attribution *a = &r->attribution[0];
    double compute = 0, all = (double)a->unattributed_ns;
    *whole = 0;
    for (size_t i = 0; i < a->row_count; i++)
        all += (double)a->rows[i].device_ns;
    for (size_t d = 0; d < r->gpu_count; d++) {
        *whole += r->gpus[d].span_ns.valid ? (double)r->gpus[d].span_ns.value : 0;
        compute += r->gpus[d].compute_ns.valid ? (double)r->gpus[d].compute_ns.value : 0;
    }
    *removed = all * pct / 100 < compute ? all * pct / 100 : compute;
}

/* Attention as separate products and softmax writes the matrix of scores to memory and reads it
 * again. */
void an_findings_attention(struct an_findings_list *l)
{
    static const char *const softmax[] = {"aten::_softmax", "aten::_softmax_backward_data", NULL};
    static const char *const products[] = {"aten::bmm", "aten::baddbmm", NULL};
    struct an_context *c = l->c;
    const struct an_attribution *a = &c->r->attribution[0];
    if (a->reason || !a->row_count)
        return;
    double scores = share_of_ops(a, softmax), around = share_of_ops(a, products), removed, whole;
    of_capture(c->r, scores + around, &removed, &whole);
    if (scores < SOFTMAX_PCT || around <= 0 || has_fused(c->r) ||
        100 * removed < FINDINGS_NOISE_PCT * whole) {
        an_findings_checked(l, "attention in separate steps");
        return;
    }
    struct an_finding *f =
        an_findings_add(l, "UNFUSED_ATTENTION",
                        an_arena_format(c->a,
                                        "attention runs in separate steps: %.1f %% of device time "
                                        "is softmax, %.1f %% the products around it",
                                        scores, around));
    an_finding_evidence(f, "no kernel of fused attention in the capture");
    an_finding_evidence(
        f, an_arena_format(c->a, "the table by operator: %.60s %.1f %% of device time",
                           a->rows[0].name,
                           a->rows[0].share_pct.valid ? a->rows[0].share_pct.value : 0));
    f->action = "torch.nn.functional.scaled_dot_product_attention in place of matmul, softmax, "
                "matmul (transformers: "
                "attn_implementation=\"sdpa\")";
    f->effort = "some lines of code, or a setting";
    an_finding_ceiling(f, whole, removed, "a ceiling has no expected value: nothing was replayed");
    f->method = "ceiling: capture / (capture - softmax and batched products) - 1; the arithmetic "
                "of the products stays";
    f->confidence = f->confidence > AN_LOW ? AN_MEDIUM : AN_LOW;
    f->verify = "run again and compare the tables by operator: `tacho report --by op`";
    f->wrong_when = "the softmax or the batched products are not those of attention, or the "
                    "weights of attention are needed";
}
