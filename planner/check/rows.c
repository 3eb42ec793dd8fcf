/* SPDX-License-Identifier: Apache-2.0
 *
 * From the cells of a published run to a case: what was not published is taken as
 * docs/planner.md says, never from the measured time.
 */
#include "planner/check/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns that are read; the first ones have to be there. */
#define COLUMN_MAP(X) \
    X(id) \
    X(source) \
    X(model) \
    X(layers) \
    X(d_model) \
    X(heads) \
    X(d_ff) \
    X(vocab) \
    X(seq) \
    X(gpu) \
    X(gpus) \
    X(gbs) \
    X(precision) \
    X(step_s) \
    X(kv_heads) \
    X(gated) \
    X(tied) \
    X(active_params_b) \
    X(fabric) \
    X(mbs) \
    X(dp) \
    X(tp) \
    X(pp) \
    X(vpp) \
    X(cp) \
    X(ep) \
    X(shard) \
    X(seqpar) \
    X(recompute) \
    X(tok_s) \
    X(tok_s_gpu) \
    X(tflops_gpu) \
    X(tflops_kind) \
    X(mfu_pct) \
    X(mem_gb) \
    X(mem_kind) \
    X(year)
enum column {
#define COLUMN_ENUM(name) COLUMN_##name,
    COLUMN_MAP(COLUMN_ENUM)
#undef COLUMN_ENUM
        COLUMNS
};
static const char *const column_names[] = {
#define COLUMN_NAME(name) #name,
    COLUMN_MAP(COLUMN_NAME)
#undef COLUMN_NAME
};
#define FACTOR_MOST    1000000 /* of devices and of each factor of a layout */
#define COLUMNS_NEEDED ((int)COLUMN_step_s + 1)
/* What collectives reach of an Omni-Path card, and one card serves a ring: 41 of 100 Gb/s by the
 * all-reduce benchmark of bigscience-workshop/bigscience@9e64ede, experiments/bandwidth, four nodes
 * with A100. NCCL has no plugin for these cards there and passes all data through the host. */
#define OMNI_PATH 0.41

/* One row while it is read. */
struct cells {
    const struct plan_table *table;
    size_t row;
};

static const char *text_of(const struct cells *cells, enum column column)
{
    return plan_table_cell(cells->table, cells->row,
                           plan_table_column(cells->table, column_names[column]));
}

/* NAN where there is no number. */
static double number_of(const struct cells *cells, enum column column)
{
    const char *text = text_of(cells, column);
    char *end;
    double value = strtod(text, &end);
    return end == text ? NAN : value;
}

static int64_t whole_of(const struct cells *cells, enum column column)
{
    double value = number_of(cells, column);
    return value > 0 && value <= 1e9 ? (int64_t)value : 0;
}

int plan_rows_columns(const struct plan_table *table, const char *path, struct tacho_error *err)
{
    for (int i = 0; i < COLUMNS_NEEDED; i++)
        if (plan_table_column(table, column_names[i]) < 0)
            return tacho_fail(err, TACHO_EFORMAT, "docs/planner.md lists the columns",
                              "%s: the column %s is missing", path, column_names[i]);
    return 0;
}

/* Heads where they were not published: of 128 elements or the next size that divides the width and
 * is shared by the tensor-parallel ranks. */
static int64_t usual_heads(int64_t width, int64_t tensor)
{
    for (int64_t heads = width / 128; heads >= tensor && heads > 0; heads--)
        if (width % heads == 0 && heads % tensor == 0)
            return heads;
    return tensor;
}

static void read_model(const struct cells *cells, struct plan_row *out)
{
    struct plan_model *model = &out->at.model;
    const char *name = text_of(cells, COLUMN_model);
    bool mixed = number_of(cells, COLUMN_active_params_b) > 0;
    if (mixed && !plan_model_preset(name, model, NULL))
        return;
    snprintf(model->name, sizeof model->name, "%.90s", name);
    model->layers = whole_of(cells, COLUMN_layers);
    model->width = whole_of(cells, COLUMN_d_model);
    model->heads = whole_of(cells, COLUMN_heads);
    model->kv_heads = whole_of(cells, COLUMN_kv_heads);
    model->feed_forward = whole_of(cells, COLUMN_d_ff);
    model->vocabulary = whole_of(cells, COLUMN_vocab);
    model->gated = whole_of(cells, COLUMN_gated) == 1;
    model->tied = whole_of(cells, COLUMN_tied) == 1;
    if (!strncmp(name, "GPT", 3) || !strncmp(name, "MPT", 3) || !strncmp(name, "OPT", 3))
        model->positions = whole_of(cells, COLUMN_seq);
    if (!model->layers || !model->width || !model->vocabulary || mixed) {
        out->reason = mixed ? "a model with experts that the presets do not know"
                            : "the dimensions of the model are not published";
        return;
    }
    int64_t tensor = whole_of(cells, COLUMN_tp);
    if (!model->heads)
        model->heads = usual_heads(model->width, tensor ? tensor : 1);
    /* PaLM's heads are wider than its width over their number */
    if (!strcmp(name, "PaLM-540B"))
        model->head_dim = 256;
    else if (model->width % model->heads)
        model->head_dim = model->width / model->heads;
    if (plan_model_complete(model, NULL))
        out->reason = "the dimensions of the model do not agree";
}

/* The network from words like "8xHDR200/node", "1600G/node RoCE", "OPA 4x100G/node", "400G/GPU".
 * What is not said stays as it is. */
static void read_network(const char *fabric, struct plan_row *out)
{
    struct plan_machine *machine = &out->at.machine;
    const char *digits = fabric + strcspn(fabric, "0123456789");
    double first = strtod(digits, NULL), cards = 1, rate = first, node = (double)machine->node;
    const char *times = strchr(digits, 'x');
    if (!strcmp(fabric, "NVLink") || !(first > 0))
        return;
    if (times) {
        cards = first;
        times += strcspn(times, "0123456789");
        rate = strtod(times, NULL);
        machine->sharing = node / cards;
    }
    double bytes = cards * rate * 1e9 / 8;
    machine->network_bytes_per_s = strstr(fabric, "/GPU") ? bytes : bytes / node;
    if (!strncmp(fabric, "OPA", 3)) {
        machine->software.all_rails = false;
        machine->network_bytes_per_s *= OMNI_PATH / out->at.constants->network;
    }
}

/* What programs of that year did: attention was fused from 2023 on, gradients overlapped with the
 * backward pass and all network cards served one collective from 2022 on. Gradients of fp16 stay in
 * fp16; those of bf16 are summed in fp32, in older programs beside the 16-bit ones. */
static void read_software(double year, const char *type, struct plan_software *software)
{
    software->flash = isnan(year) || year >= 2023;
    software->overlap = software->flash;
    software->all_rails = isnan(year) || year >= 2022;
    software->gradient_bytes = strcmp(type, "fp16") ? 4 : 2;
    if (!software->flash && !strcmp(type, "bf16"))
        software->gradient_bytes = 6;
}

static void read_machine(const struct cells *cells, struct plan_row *out)
{
    static const struct {
        const char *published, *type;
    } types[] = {{"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}, {"mxfp8", "fp8"},
                 {"fp8", "fp8"},   {"nvfp4", "fp4"}, {"fp4", "fp4"}};
    const char *precision = out->precision, *type = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types && !type; i++)
        if (!strncmp(precision, types[i].published, strlen(types[i].published)))
            type = types[i].type;
    if (!type) {
        out->reason = "the type of the GEMMs is not published";
        type = "bf16";
    }
    if (plan_machine_of(text_of(cells, COLUMN_gpu), type, &out->at.machine, NULL)) {
        out->reason = "the table of accelerators lacks the device or its peak";
        return;
    }
    read_software(number_of(cells, COLUMN_year), type, &out->at.machine.software);
    read_network(text_of(cells, COLUMN_fabric), out);
    out->dense16 = !out->at.model.experts && out->precision[0] &&
                   (!strcmp(type, "bf16") || !strcmp(type, "fp16"));
}

static int zero_of(const char *shard)
{
    if (!strncmp(shard, "zero", 4) && shard[4] >= '1' && shard[4] <= '3')
        return shard[4] - '0';
    if (strstr(shard, "fsdp") || strstr(shard, "hsdp"))
        return 3;
    return !strcmp(shard, "none") || !strcmp(shard, "ddp") ? 0 : -1;
}

static void read_recompute(const char *text, struct plan_layout *layout)
{
    int recompute = plan_recompute_of(text);
    layout->recompute_given = recompute >= 0;
    if (recompute >= 0)
        layout->recompute = (enum plan_recompute)recompute;
    else if (!strcmp(text, "none_or_selective"))
        layout->recompute_given = true;
    else if (!strcmp(text, "gelu")) /* one element-wise kernel: nothing beside the rest */
        layout->recompute_given = true;
}

static void read_layout(const struct cells *cells, struct plan_row *out)
{
    struct plan_layout *layout = &out->at.layout;
    *layout = (struct plan_layout){.devices = whole_of(cells, COLUMN_gpus),
                                   .data = whole_of(cells, COLUMN_dp),
                                   .tensor = whole_of(cells, COLUMN_tp),
                                   .pipeline = whole_of(cells, COLUMN_pp),
                                   .chunks = whole_of(cells, COLUMN_vpp),
                                   .context = whole_of(cells, COLUMN_cp),
                                   .expert = whole_of(cells, COLUMN_ep),
                                   .micro_batch = whole_of(cells, COLUMN_mbs),
                                   .global_batch = whole_of(cells, COLUMN_gbs),
                                   .sequence = whole_of(cells, COLUMN_seq),
                                   .zero = zero_of(text_of(cells, COLUMN_shard))};
    layout->sequence_parallel = *text_of(cells, COLUMN_seqpar) ? whole_of(cells, COLUMN_seqpar) == 1
                                                               : out->at.machine.software.flash;
    read_recompute(text_of(cells, COLUMN_recompute), layout);
    int64_t *const factors[] = {&layout->devices,  &layout->data,       &layout->tensor,
                                &layout->chunks,   &layout->context,    &layout->expert,
                                &layout->pipeline, &layout->micro_batch};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (*factors[i] > FACTOR_MOST)
            out->reason = "the layout cannot run";
    if (layout->pipeline > out->at.model.layers)
        out->reason = "more stages than layers";
    if (!layout->sequence || !layout->global_batch)
        out->reason = "the batch or the sequence length is not published";
    else if (!layout->devices)
        out->reason = "the number of devices is not published";
}

/* The step as published: seconds, else tokens per second, else FLOP/s by the source's formula,
 * which plan_check_file knows. */
static void read_measured(const struct cells *cells, struct plan_row *out)
{
    const struct plan_layout *layout = &out->at.layout;
    double tokens = (double)layout->global_batch * (double)layout->sequence;
    double all = number_of(cells, COLUMN_tok_s), each = number_of(cells, COLUMN_tok_s_gpu);
    const char *memory = text_of(cells, COLUMN_mem_gb);
    out->measured_s = number_of(cells, COLUMN_step_s);
    if (isnan(out->measured_s) && all > 0)
        out->measured_s = tokens / all;
    if (isnan(out->measured_s) && each > 0)
        out->measured_s = tokens / (each * (double)layout->devices);
    if (!(out->measured_s > 0) || !isfinite(out->measured_s))
        out->measured_s = NAN;
    out->out_of_memory = !strcmp(memory, "OOM");
    out->measured_gib = number_of(cells, COLUMN_mem_gb);
    out->printed_flops = number_of(cells, COLUMN_tflops_gpu) * 1e12;
    double peak = an_accelerator_peak(&out->at.machine.device, out->at.machine.type);
    if (isnan(out->printed_flops))
        out->printed_flops = number_of(cells, COLUMN_mfu_pct) / 100 * peak;
    snprintf(out->memory_kind, sizeof out->memory_kind, "%.100s", text_of(cells, COLUMN_mem_kind));
    const char *kind = text_of(cells, COLUMN_tflops_kind);
    double year = number_of(cells, COLUMN_year);
    out->convention = PLAN_CONVENTION_FULL;
    out->estimated = strstr(kind, "8NT") != NULL;
    if (!strncmp(kind, "hw", 2))
        out->convention = PLAN_CONVENTION_HARDWARE;
    else if (strstr(kind, "causal") || (!strncmp(kind, "model(", 6) && year >= 2025))
        out->convention = PLAN_CONVENTION_CAUSAL;
}

void plan_rows_read(const struct plan_table *table, size_t row,
                    const struct plan_constants *constants, struct plan_row *out)
{
    struct cells cells = {table, row};
    *out = (struct plan_row){.measured_s = NAN,
                             .measured_gib = NAN,
                             .printed_flops = NAN,
                             .ratio = NAN,
                             .memory_gib = NAN,
                             .nearest = row};
    out->at.constants = constants;
    snprintf(out->id, sizeof out->id, "%.150s", text_of(&cells, COLUMN_id));
    snprintf(out->source, sizeof out->source, "%.150s", text_of(&cells, COLUMN_source));
    snprintf(out->precision, sizeof out->precision, "%.15s", text_of(&cells, COLUMN_precision));
    read_model(&cells, out);
    read_machine(&cells, out);
    read_layout(&cells, out);
    read_measured(&cells, out);
}
