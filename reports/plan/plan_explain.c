/* SPDX-License-Identifier: Apache-2.0
 *
 * Each formula of a plan with its numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "planner/time/gemm.h"
#include "planner/time/layer.h"
#include "planner/time/link.h"
#include "reports/plan/plan_private.h"

/* A formula with its numbers under its name. */
__attribute__((format(printf, 3, 4))) static void explain(struct page *page, const char *name,
                                                          const char *format, ...)
{
    char text[PAGE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    page_term(page, name, "", text);
}

static void explain_model(struct page *page, const struct plan_result *result)
{
    const struct plan_model *model = &result->request.of.model;
    const struct plan_parameters *parameters = &result->parameters;
    page_blank(page);
    page_section(page, "explain-model", "Parameters and FLOPs", true);
    explain(page, "Attention",
            "h (2 a + 2 kv) d = %.4g a layer (h %" PRId64 ", a %" PRId64 ", kv %" PRId64
            ", d %" PRId64 ")",
            parameters->attention, model->width, model->heads, model->kv_heads, model->head_dim);
    explain(page, "Feed-forward", "%d h f = %.4g a layer (f %" PRId64 ")", model->gated ? 3 : 2,
            parameters->feed_forward, model->feed_forward);
    explain(page, "Embeddings", "V h = %.4g in, %.4g out (V %" PRId64 ", %s)",
            parameters->embedding, parameters->head, model->vocabulary,
            model->tied ? "shared" : "apart");
    explain(page, "Total", "%" PRId64 " layers and the embeddings = %.6g", model->layers,
            parameters->total);
    double sequence = (double)result->found.layout.sequence;
    for (int i = 0; i < PLAN_CONVENTIONS; i++)
        explain(page, plan_convention_name((enum plan_convention)i), "%s: %.5g FLOP a sequence",
                plan_convention_text((enum plan_convention)i),
                plan_flops(model, sequence, (enum plan_convention)i));
}

/* Each product of a layer: its shape, its efficiency factor by factor. */
static void explain_products(struct page *page, const struct plan_case *at)
{
    struct plan_product products[PLAN_PRODUCTS_MOST];
    int count = plan_layer_products(at, false, products);
    page_blank(page);
    page_section(page, "explain-gemms", "GEMMs of a layer", true);
    page_text(page, 0,
              "time = 2 rows inner columns / (peak x family x tiles x waves x inner x alignment), "
              "or bytes / bandwidth where that is longer; forward");
    for (int i = 0; i < count; i++) {
        struct plan_gemm gemm;
        double rows = fmax(plan_rows(&at->layout) * products[i].tokens, 1);
        plan_gemm(&at->machine, at->constants, rows, products[i].inner, products[i].outer, &gemm);
        explain(page, products[i].name,
                "%.0f x %.0f x %.0f: %.4g FLOP / (%.4g x %.3f x %.3f x %.3f x %.3f x %.3f) = %s%s",
                rows, products[i].inner, products[i].outer, gemm.flops,
                an_accelerator_peak(&at->machine.device, at->machine.type), gemm.family, gemm.tiles,
                gemm.waves, gemm.inner, gemm.alignment, TIME_TEXT(gemm.seconds * 1e9),
                gemm.memory_bound ? " (memory)" : "");
    }
}

static void explain_parts(struct page *page, const struct plan_result *result,
                          const struct plan_case *at)
{
    const struct plan_time *time = &result->found.time;
    page_blank(page);
    page_section(page, "explain-step", "Parts of the step", true);
    explain(page, "m",
            "global batch / (dp x micro-batch) = %" PRId64 " / (%" PRId64 " x %" PRId64
            ") = %" PRId64 " micro-batches",
            at->layout.global_batch, at->layout.data, at->layout.micro_batch, time->micro_batches);
    for (int i = 0; i < PLAN_PARTS; i++) {
        struct plan_part_words words = plan_part_words((enum plan_part)i);
        if (time->part[i] > 0)
            explain(page, words.text, "%s = %s", words.formula, TIME_TEXT(time->part[i] * 1e9));
    }
    explain(page, "Least", "executed FLOPs / peak = %s: no prediction is below it",
            TIME_TEXT(time->least_seconds * 1e9));
}

static void explain_group(struct page *page, const struct plan_case *at, const char *label,
                          double size, double stride, double bytes)
{
    struct plan_group group = plan_group_of(&at->machine, size, stride);
    if (size <= 1)
        return;
    explain(page, label,
            "%.0f ranks, %.0f of them in a node: ring of %s/s, %s of messages; %s sent by a rank "
            "in a step",
            group.size, group.inside, SI_TEXT(plan_ring_bytes_per_s(at, group), "B"),
            TIME_TEXT(plan_ring_latency(group) * 1e9), BYTES_TEXT(bytes));
}

static void explain_links(struct page *page, const struct plan_result *result,
                          const struct plan_case *at)
{
    const struct plan_time *time = &result->found.time;
    double tensor = (double)at->layout.tensor;
    page_blank(page);
    page_section(page, "explain-links", "Communication", true);
    page_text(page, 0,
              "all-reduce = 2 (n - 1) / n x bytes / ring + messages; a gather or scatter "
              "half of it");
    explain_group(page, at, "Tensor", tensor, 1, time->tensor_bytes);
    explain_group(page, at, "Data", (double)(at->layout.data * at->layout.context), tensor,
                  time->data_bytes);
    if (at->layout.pipeline > 1)
        explain(page, "Stages", "%s sent by a rank in a step", BYTES_TEXT(time->stage_bytes));
}

/* Memory, item by item, of the stage that needs most. */
static void explain_memory(struct page *page, const struct plan_result *result,
                           const struct plan_case *at)
{
    const struct plan_memory *memory = &result->found.memory;
    page_blank(page);
    page_section(page, "explain-memory", "Memory", true);
    explain(page, "Parameters of the rank", "%.5g on stage %" PRId64 ", %" PRId64 " layers",
            plan_stage_parameters(at, memory->stage), memory->stage,
            plan_stage_layers(at, memory->stage));
    explain(page, "A layer keeps", "%s of a micro-batch without recomputation",
            BYTES_TEXT(plan_layer_activations(at)));
    explain(page, "In flight", "%.2f micro-batches (%s, p %" PRId64 ", v %" PRId64 ")",
            plan_in_flight(&at->layout, memory->stage), plan_schedule_name(at->layout.schedule),
            at->layout.pipeline, at->layout.chunks);
    for (int i = 0; i < PLAN_HELDS; i++) {
        struct plan_held_words words = plan_held_words((enum plan_held)i);
        explain(page, words.text, "%s: %s", words.assumed, BYTES_TEXT(memory->bytes[i]));
    }
}

static void explain_failures(struct page *page, const struct plan_result *result)
{
    const struct plan_goodput *goodput = &result->cost.goodput;
    double mtbf = result->request.failures.mtbf_s / (double)result->found.layout.devices;
    if (!(mtbf > 0))
        return;
    page_blank(page);
    page_section(page, "explain-goodput", "Goodput", true);
    explain(page, "Goodput", "T / (M e^(R/M) (e^((T+C)/M) - 1)) = %.4f with M %s, C %s, R %s, T %s",
            goodput->share, TIME_TEXT(mtbf * 1e9),
            TIME_TEXT(result->request.failures.checkpoint_s * 1e9),
            TIME_TEXT(result->request.failures.restart_s * 1e9),
            TIME_TEXT(goodput->interval_s * 1e9));
    explain(page, "Young", "sqrt(2 C M) = %s", TIME_TEXT(goodput->young_s * 1e9));
}

void plan_page_explain(struct page *page, const struct plan_result *result)
{
    struct plan_case at = result->request.of;
    at.layout = result->found.layout;
    explain_model(page, result);
    explain_products(page, &at);
    explain_parts(page, result, &at);
    explain_links(page, result, &at);
    explain_memory(page, result, &at);
    explain_failures(page, result);
}
