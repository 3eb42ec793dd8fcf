/* SPDX-License-Identifier: Apache-2.0
 *
 * LOW_PRECISION on accelerators: GEMMs that run off the matrix units although a faster type exists.
 * The gain is a ceiling: the speed of these shapes in the other type was not measured.
 */
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/hardware/peaks.h"

/* The fastest type for matrix work that the device has beside fp32. */
static const char *faster_type(struct an_context *context, double *ratio)
{
    static const char *const types[] = {"bf16", "fp16"};
    struct an_peak slow, fast;
    const char *name = context->result->gpu_count ? context->result->gpus[0].name : "";
    if (!*name || !an_peak_find(context->scratch, name, "fp32", &slow))
        return NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (an_peak_find(context->scratch, name, types[i], &fast) && fast.value > slow.value) {
            *ratio = fast.value / slow.value;
            return types[i];
        }
    return NULL;
}

/* Time of matrix kernels in fp32 or an unknown type off the matrix units. */
static double off_units_ns(const struct an_precision *precision)
{
    double off = 0;
    for (size_t i = 0; i < precision->row_count; i++)
        if (precision->rows[i].told && !precision->rows[i].matrix_unit &&
            (!strcmp(precision->rows[i].dtype, "fp32") ||
             !strcmp(precision->rows[i].dtype, "unknown")))
            off += (double)precision->rows[i].total_ns;
    return off;
}

/* Mixed precision in fp16 (`half`) or bf16. */
static void low_precision_action(struct an_finding *finding, bool half)
{
    finding->action = half ? "mixed precision: torch.autocast(\"cuda\", torch.float16) around "
                             "forward and loss, with a GradScaler"
                           : "mixed precision: torch.autocast(\"cuda\", torch.bfloat16) around "
                             "forward and loss; or torch.set_float32_matmul_precision(\"high\")";
    finding->effort = "some lines of code; watch the loss";
    finding->changes = "the precision of GEMMs and activations";
}

/* The use of matrix units and the ratio of the data sheet's peaks. */
static void low_precision_evidence(struct an_context *context, struct an_finding *finding,
                                   const char *type, double ratio)
{
    const struct an_precision *precision = &context->result->precision;
    if (precision->matrix_unit_pct.valid)
        an_finding_note(context, finding,
                        "%.1f %% of matrix and attention time runs on matrix units",
                        precision->matrix_unit_pct.value);
    an_finding_note(context, finding, "%.100s: %s is %s times as fast as fp32 (data sheet)",
                    context->result->gpus[0].name, type, an_number_words(context->arena, ratio, 3));
}

/* Looks at matrix kernels that ran off the matrix units, where the data sheet has a faster type.
 * Without the data sheet nothing is checked, and nothing is said. */
void an_findings_low_precision(struct an_findings_list *findings, double span)
{
    struct an_context *context = findings->context;
    const struct an_precision *precision = &context->result->precision;
    double ratio = 1, compute = an_devices_ns(context->result, compute_ns);
    const char *type = precision->reason ? NULL : faster_type(context, &ratio);
    if (precision->reason || !type)
        return;
    double off = off_units_ns(precision);
    double removed = (off < compute ? off : compute) * (1 - 1 / ratio);
    if (an_percent(removed, span) < FINDINGS_NOISE_PCT)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "LOW_PRECISION",
        an_finding_text(
            context, "matrix kernels take %s off the device's matrix units, %.1f %% of the capture",
            an_time_words(context->arena, off / 1e6, 4), an_percent(off, span)));
    low_precision_evidence(context, finding, type, ratio);
    low_precision_action(finding, !strcmp(type, "fp16"));
    an_finding_ceiling(finding, span, removed, FINDINGS_NOT_REPLAYED);
    if (precision->matrix_ns > 0)
        finding->what_if =
            an_finding_scaling(context, "op:matrix", 1 - removed / (double)precision->matrix_ns);
    finding->bound = true;
    finding->method = "ceiling: every such kernel faster by the ratio of the data sheet's peaks; "
                      "nothing was measured";
    an_finding_at_most_medium(finding);
    finding->verify = "run again and compare precision and samples/s: `tacho report --json`";
    finding->wrong_when = "these kernels are bound by memory, not by arithmetic, or training does "
                          "not converge in that type";
}
