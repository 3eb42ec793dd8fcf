/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about kernels, from the bound of each (work/bounds.c): FUSION, LOW_EFFICIENCY_GEMM and
 * SMALL_KERNELS. Every gain is a ceiling that leaves what the roofline says must stay: the bytes
 * that a fused kernel still moves, the FLOPs and bytes of a product.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define WAVES_FEW       8.0 /* with more waves the last one matters little */
#define WAVE_LEAST_PCT  80.0
#define NAMED_LEAST_PCT 5.0  /* of the kernels' time that only names show */
#define COMPILED_PCT    50.0 /* of the kernels' time: the model is compiled already */

/* Is the model compiled already? Then advice to compile it does not fit. */
bool an_is_compiled(const struct an_result *result)
{
    const struct an_kernel_bounds *bounds = &result->bounds;
    return !bounds->reason &&
           an_percent((double)bounds->compiled_ns, (double)bounds->total_ns) >= COMPILED_PCT;
}

/* The time that a gain is a share of, ns: the steps of all devices, or their spans. */
static double whole_ns(const struct an_result *result)
{
    return result->budget.reason ? an_devices_ns(result, span_ns) : (double)result->budget.step_ns;
}

/* Is it worth a finding to take `removed` ns away? */
static bool matters(struct an_context *context, double removed)
{
    return an_percent(removed, whole_ns(context->result)) >= FINDINGS_NOISE_PCT;
}

/* The edit that scales the kernels of a class so that `removed` ns go. NULL: their time is not
 * known. */
static const char *scale_edit(struct an_context *context, enum an_device_class class,
                              double removed)
{
    const struct an_devices *gpu = context->gpu;
    double all = 0;
    for (size_t op = 0; op < gpu->op.count; op++)
        if (gpu->op.class[op] == class)
            all += (double)an_time_sub(gpu->op.end[op], gpu->op.start[op]);
    double span = an_devices_ns(context->result, span_ns), whole = whole_ns(context->result);
    all = context->result->budget.reason ? all : all * fmin(1, whole / span);
    if (all <= 0)
        return NULL;
    return an_finding_scaling(context, class == AN_DEVICE_MATRIX ? "op:matrix" : "op:other",
                              1 - removed / all);
}

/* ---- fusion ---------------------------------------------------------------------------------- */

static const char *fusion_action(const struct an_result *result)
{
    if (an_is_compiled(result))
        return "find what keeps the compiler from fusing them (TORCH_LOGS=\"graph_breaks,fusion\"),"
               " or write one kernel for the chain";
    return "fuse the chains: torch.compile, or one kernel of your own (Triton) for the longest";
}

const char *an_fusion_words(struct an_context *context)
{
    const struct an_dataflow *flow = &context->result->dataflow;
    if (flow->reason || !flow->fusion_gain_ms.valid || flow->fusion_gain_ms.value <= 0)
        return NULL;
    return an_finding_text(context,
                           "operators that pass on what they write (most: %.80s) would save %s of "
                           "a step of %s [%s, %s] by their bytes: tacho report --section=dataflow",
                           flow->fusion[0].operators,
                           an_time_words(context->arena, flow->fusion_gain_ms.value, 3),
                           an_time_words(context->arena, flow->step_ms.value, 3),
                           an_time_words(context->arena, flow->fusion_low_ms.value, 3),
                           an_time_words(context->arena, flow->fusion_high_ms.value, 3));
}

static void fusion_evidence(struct an_context *context, struct an_finding *finding, double measured)
{
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    const struct an_chain_row *first = bounds->chains;
    an_finding_note(
        context, finding, "%" PRId64 " operators in chains move %s; fused they move %s or more",
        bounds->chain_operators, an_bytes_text(context, (double)bounds->chain_bytes),
        an_bytes_text(context, (double)(bounds->chain_bytes - bounds->chain_saved_bytes)));
    an_finding_note(
        context, finding, "at the bandwidth that they reach (%s GB/s) the saved bytes take %s",
        an_number_words(context->arena, (double)bounds->chain_bytes / (double)bounds->chain_ns, 3),
        an_time_words(context->arena, measured / 1e6, 3));
    an_finding_note(context, finding, "most time: %s, %" PRId64 " times, %s", first->names,
                    first->count, an_time_words(context->arena, (double)first->total_ns / 1e6, 3));
    an_finding_evidence(finding, an_fusion_words(context));
    an_finding_evidence(finding, bounds->sentence);
}

/* Looks at chains of element-wise operators that memory limits. */
static void fusion(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    double removed = (double)(bounds->chain_ns - bounds->chain_fused_ns);
    if (!bounds->chain_count || !matters(context, removed))
        return;
    double measured =
        (double)bounds->chain_ns * (double)bounds->chain_saved_bytes / (double)bounds->chain_bytes;
    struct an_finding *finding = an_findings_add(
        findings, "FUSION",
        an_finding_text(context,
                        "%.1f %% of the kernels' time are element-wise operators that follow each "
                        "other: what one writes to memory the next one reads back",
                        an_percent((double)bounds->chain_ns, (double)bounds->total_ns)));
    fusion_evidence(context, finding, measured);
    finding->action = fusion_action(context->result);
    finding->effort = "one line of code, and time to compile";
    an_finding_ceiling(finding, whole_ns(context->result), removed, FINDINGS_NOT_REPLAYED);
    finding->bound = true;
    finding->what_if = scale_edit(context, AN_DEVICE_OTHER, removed);
    finding->method = "ceiling: the chains take the time of their remaining bytes at the peak of "
                      "the memory's bandwidth; bytes are those of a model, each tensor once";
    an_finding_at_most_medium(finding);
    finding->verify = "run again and compare kernel_bounds: `tacho report --json`";
    finding->wrong_when = "an operator of a chain does not read what the one before it writes, or "
                          "other code needs the tensors between them";
}

/* Looks at element-wise kernels that no operator explains: by their names they only read and write
 * memory, which a fused kernel does once. How much of it stays is not known. */
static void fusion_by_name(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    double removed = (double)bounds->unknown_family_ns[AN_FAMILY_ELEMENTWISE],
           pct = an_percent(removed, (double)bounds->total_ns);
    if (pct < NAMED_LEAST_PCT || bounds->chain_count || an_is_compiled(context->result) ||
        !matters(context, removed))
        return;
    struct an_finding *finding = an_findings_add(
        findings, "FUSION",
        an_finding_text(context,
                        "%.1f %% of the kernels' time are element-wise kernels, casts and copies: "
                        "judging by its name, each of them only reads and writes memory",
                        pct));
    an_finding_evidence(finding, bounds->sentence);
    finding->action = fusion_action(context->result);
    finding->effort = "one line of code, and time to compile";
    an_finding_ceiling(finding, whole_ns(context->result), removed, FINDINGS_NOT_REPLAYED);
    finding->bound = true;
    finding->what_if = scale_edit(context, AN_DEVICE_OTHER, removed);
    finding->method = "ceiling: all of these kernels are fused into others; their bytes are not "
                      "known, nor how many of them the fused kernels still move";
    an_finding_at_most_medium(finding);
    finding->verify = "run again and compare kernel_bounds: `tacho report --json`";
    finding->wrong_when = "few of them follow each other, or other code needs what is between them";
}

/* ---- GEMMs ------------------------------------------------------------------------- */

/* The cause that a shape shows, and what to do about it. */
static const char *gemm_action(struct an_context *context, const struct an_gemm_row *row)
{
    if (row->misaligned)
        return an_finding_text(context,
                               "pad the dimension %" PRId64 " to a multiple of %" PRId64
                               " (%" PRId64 "): vocabulary, heads or hidden size",
                               row->misaligned, row->multiple,
                               (row->misaligned / row->multiple + 1) * row->multiple);
    if (row->waves.valid && row->waves.value < 1)
        return "give the device more blocks: a larger micro-batch, grouped or batched GEMMs, "
               "or a library kernel that splits the inner dimension (split-K)";
    if (row->waves.valid && row->waves.value < WAVES_FEW && row->wave_pct.value < WAVE_LEAST_PCT)
        return "choose batch, sequence or hidden size so that the blocks fill whole waves of the "
               "device's SMs";
    if (row->dtype && strstr(row->name, "bmm"))
        return "a fused kernel in place of batched GEMMs of small inner dimension (attention: "
               "scaled_dot_product_attention)";
    return an_is_compiled(context->result)
               ? "let the compiler time several kernels: torch.compile(mode=\"max-autotune\")"
               : "another kernel for these shapes: torch.compile(mode=\"max-autotune\"), a newer "
                 "cuBLAS, or a layout without transposed operands";
}

static void gemm_evidence(struct an_context *context, struct an_finding *finding,
                          const struct an_gemm_row *row)
{
    an_finding_note(context, finding,
                    "%.40s %.120s (%.12s), %" PRId64 " times: %s; FLOPs and bytes need %s",
                    row->name, *row->shapes ? row->shapes : "of unknown shape", row->dtype,
                    row->count, an_time_words(context->arena, (double)row->total_ns / 1e6, 3),
                    an_time_words(context->arena, (double)row->roof_ns / 1e6, 3));
    if (row->misaligned)
        an_finding_note(context, finding,
                        "dimension %" PRId64 " is not a multiple of %" PRId64
                        ": the matrix units load rows in pieces of 16 bytes",
                        row->misaligned, row->multiple);
    else if (row->multiple && *row->shapes)
        an_finding_note(context, finding, "every dimension is a multiple of %" PRId64,
                        row->multiple);
    if (row->waves.valid)
        an_finding_note(context, finding, "its blocks make %s waves, which are %.0f %% full",
                        an_number_words(context->arena, row->waves.value, 3), row->wave_pct.value);
}

/* Looks at GEMMs that reach neither roof. */
static void low_efficiency_gemm(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    double removed = (double)(bounds->gemm_ns - bounds->gemm_roof_ns);
    if (!bounds->gemm_count || !matters(context, removed))
        return;
    struct an_finding *finding = an_findings_add(
        findings, "LOW_EFFICIENCY_GEMM",
        an_finding_text(context,
                        "GEMMs that take %.1f %% of the kernels' time are far from both "
                        "roofs: their FLOPs and bytes need %.0f %% of it",
                        an_percent((double)bounds->gemm_ns, (double)bounds->total_ns),
                        an_percent((double)bounds->gemm_roof_ns, (double)bounds->gemm_ns)));
    gemm_evidence(context, finding, &bounds->gemms[0]);
    an_finding_evidence(finding, bounds->sentence);
    finding->action = gemm_action(context, &bounds->gemms[0]);
    finding->effort = "a change of sizes or of a setting";
    an_finding_ceiling(finding, whole_ns(context->result), removed, FINDINGS_NOT_REPLAYED);
    finding->bound = true;
    finding->what_if = scale_edit(context, AN_DEVICE_MATRIX, removed);
    finding->method = "ceiling: these GEMMs take the least time that the peak of their type "
                      "and the bandwidth of the memory allow; nothing was measured";
    an_finding_at_most_medium(finding);
    finding->verify = "run again and compare kernel_bounds: `tacho report --json`";
    finding->wrong_when = "the peak of the data sheet is out of reach for these shapes on any "
                          "library, or clocks were limited";
}

/* ---- small kernels --------------------------------------------------------------------------- */

static void small_action(const struct an_result *result, struct an_finding *finding)
{
    if (an_is_compiled(result))
        finding->action = "fewer kernels: torch.compile(mode=\"reduce-overhead\") replays graphs; "
                          "look for graph breaks (TORCH_LOGS=graph_breaks)";
    else if (!result->launches.reason && result->launches.graphs)
        finding->action = "fewer kernels inside the graphs: torch.compile fuses element-wise work, "
                          "optimizers have fused=True";
    else
        finding->action =
            "fewer kernels: torch.compile fuses element-wise work, fused=True does "
            "so for the optimizer; CUDA graphs where the launches are what takes long";
    finding->effort = "some lines of code";
}

/* Counts the kernels of the steps shorter than the limit and their sum. */
static void small_evidence(struct an_context *context, const struct an_class_share *share,
                           struct an_finding *finding)
{
    const struct an_devices *gpu = context->gpu;
    int64_t small = 0, all = 0;
    for (size_t op = 0; op < gpu->op.count; op++) {
        if (!(1u << gpu->op.class[op] & AN_DEVICE_COMPUTE_MASK))
            continue;
        all++;
        small += an_time_sub(gpu->op.end[op], gpu->op.start[op]) < AN_BOUND_SHORT_NS;
    }
    an_finding_note(context, finding,
                    "%" PRId64 " of %" PRId64
                    " kernels are shorter than 10 us (whole capture): a launch takes as long",
                    small, all);
    an_finding_evidence(finding, an_class_share_text(context, share, "such kernels"));
}

/* Looks at kernels that are too short to fill a device. */
static int small_kernels(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_class_share share;
    int rc = an_small_share(context, &share);
    if (rc || !an_class_share_matters(&share))
        return rc;
    struct an_finding *finding = an_findings_add(
        findings, "SMALL_KERNELS",
        an_finding_text(context,
                        "kernels shorter than 10 us take %.1f %% of %s: most of each is its start "
                        "and its end",
                        share.mean, share.steps ? "the step" : "the capture"));
    small_evidence(context, &share, finding);
    small_action(context->result, finding);
    an_finding_ceiling(finding, 100, share.mean, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: no such kernel is left, their work is part of longer ones; nothing "
                      "was replayed";
    an_finding_at_most_medium(finding);
    finding->verify = "run again and compare the number of kernels: `tacho report --json`";
    finding->wrong_when = "each of them depends on values that the host reads between them";
    return 0;
}

int an_findings_kernels(struct an_findings_list *findings)
{
    if (!findings->context->result->bounds.reason) {
        fusion(findings);
        fusion_by_name(findings);
        low_efficiency_gemm(findings);
    }
    return small_kernels(findings);
}
