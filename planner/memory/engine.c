/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference engine (docs/engine.md, Memory, ZeRO, Pipelines, Parts of layers, of sequences and
 * of experts): parameters and their 16-bit copies, gradients and moments in fp32, activations of
 * the micro-batches in flight, scratch of attention of each thread, what travels between ranks. A
 * model with gates is one with the blocks of Llama, others are a GPT-2.
 */
#include "planner/memory/engine.h"

#include <math.h>
#include <string.h>

#define PAGE       4096
#define LINE       16 /* floats that tensors begin at multiples of */
#define BUCKET     (8.0 * 1024 * 1024)
#define SCORE_ROWS 64 /* of queries that attention works on at a time */
#define READY      5  /* batches in the loader's ring: four ahead and the one in use */
#define TENSORS    16
#define CAPACITY   1.25 /* room of an expert over its even share: the engine's own choice */

/* Parameters of one kind: `repeat` matrices of `size` elements, one behind the other, `each` of
 * them (0: 1) in a block. expert: only the ranks that have the same experts have them. */
struct tensor {
    int64_t repeat, size, each;
    bool expert;
};

/* The part of the model that a rank has. */
struct part {
    const struct plan_case *of;
    bool divided;          /* its layers, sequences or experts are */
    int64_t layers, chunk; /* blocks; of those that are worked on at a time */
    bool embeds, answers;  /* the first stage does, the last one does */
    int64_t own, words;    /* channels of its heads, words of the vocabulary */
    int64_t inner;         /* of the inner width, of one expert where there are experts */
    int64_t experts;       /* that it has; 0: a dense model */
    int64_t copies;        /* ranks with the same parameters */
    int zero;              /* stage of ZeRO; divided models have at least 1 */
    double element;        /* bytes of an activation */
    double rounded;        /* of the rounded copy of a parameter; 0: there is none */
    double tokens, rows;   /* of a micro-batch; of the residual stream of this rank */
    double flights;
    struct tensor tensors[TENSORS]; /* in the order in which the engine lays them out */
    int64_t parameters;             /* of these */
    int64_t copied;                 /* of the word embedding that a last stage has beside them */
};

double plan_engine_in_flight(const struct plan_layout *layout, int64_t stage)
{
    double batches = (double)plan_micro_batches(layout), stages = (double)layout->pipeline;
    double chunks = (double)layout->chunks;
    if (layout->pipeline == 1)
        return 1;
    if (layout->schedule == PLAN_SCHEDULE_GPIPE)
        return batches;
    if (layout->schedule == PLAN_SCHEDULE_ZERO)
        return fmin(batches, stages);
    if (layout->chunks <= 1)
        return fmin(batches, stages - (double)stage);
    if (batches == stages)
        return batches * chunks;
    return fmin(batches * chunks, 2 * (stages - (double)stage - 1) + (chunks - 1) * stages + 1);
}

static void list_gpt2(struct part *part)
{
    int64_t layers = part->layers, width = part->of->model.width, own = part->own;
    int64_t positions = part->of->model.positions;
    const struct tensor rows[TENSORS] = {{.repeat = part->embeds, .size = part->words * width},
                                         {.repeat = part->embeds, .size = positions * width},
                                         {.repeat = layers, .size = 3 * own * width},
                                         {.repeat = layers, .size = own * width},
                                         {.repeat = layers, .size = 4 * own * width},
                                         {.repeat = layers, .size = 4 * own * width},
                                         {.repeat = layers, .size = width},
                                         {.repeat = layers, .size = width},
                                         {.repeat = layers, .size = 3 * own},
                                         {.repeat = layers, .size = width},
                                         {.repeat = layers, .size = width},
                                         {.repeat = layers, .size = width},
                                         {.repeat = layers, .size = 4 * own},
                                         {.repeat = layers, .size = width},
                                         {.repeat = part->answers, .size = width},
                                         {.repeat = part->answers, .size = width}};
    memcpy(part->tensors, rows, sizeof rows);
    part->copied = part->answers && !part->embeds ? part->words * width : 0;
}

/* The head is a matrix of its own. Routers and norms are those of all ranks that divide the layers.
 */
static void list_llama(struct part *part)
{
    const struct plan_model *model = &part->of->model;
    int64_t layers = part->layers, width = model->width, inner = part->inner;
    int64_t keys = model->kv_heads * model->head_dim / part->of->layout.tensor;
    int64_t each = part->experts ? part->experts : 1;
    bool expert = part->experts < model->experts;
    const struct tensor rows[TENSORS] = {
        {.repeat = part->embeds, .size = part->words * width},
        {.repeat = layers, .size = (part->own + 2 * keys) * width},
        {.repeat = layers, .size = part->own * width},
        {.repeat = model->experts ? layers : 0, .size = model->experts * width},
        {.repeat = layers * each, .size = 2 * inner * width, .each = each, .expert = expert},
        {.repeat = layers * each, .size = inner * width, .each = each, .expert = expert},
        {.repeat = part->answers, .size = part->words * width},
        {.repeat = layers, .size = width},
        {.repeat = layers, .size = width},
        {.repeat = part->answers, .size = width}};
    memcpy(part->tensors, rows, sizeof rows);
}

static void find_part(const struct plan_case *of, int64_t stage, struct part *out)
{
    const struct plan_layout *layout = &of->layout;
    const struct plan_model *model = &of->model;
    int64_t parts = layout->expert ? layout->expert : 1, copies = layout->data * layout->context;
    *out = (struct part){.of = of,
                         .divided = layout->tensor * layout->pipeline * layout->context * parts > 1,
                         .layers = plan_stage_layers(of, stage),
                         .embeds = stage == 0,
                         .answers = stage == layout->pipeline - 1,
                         .own = model->width / layout->tensor,
                         .words = (model->vocabulary + layout->tensor - 1) / layout->tensor,
                         .inner = (model->feed_forward + layout->tensor - 1) / layout->tensor,
                         .experts = model->experts / parts,
                         .copies = copies,
                         .zero = layout->zero,
                         .element = 4};
    if (out->divided && out->zero < 1)
        out->zero = 1;
    if (strcmp(of->machine.type, "fp32"))
        out->element = out->rounded = 2;
    out->chunk = out->layers;
    if (layout->pipeline > 1)
        out->chunk /= layout->chunks;
    out->tokens = (double)(layout->micro_batch * layout->sequence) / (double)layout->context;
    out->rows = out->tokens;
    if (layout->sequence_parallel)
        out->rows /= (double)layout->tensor;
    out->flights = plan_engine_in_flight(layout, stage);
    if (model->gated)
        list_llama(out);
    else
        list_gpt2(out);
    for (int i = 0; i < TENSORS; i++)
        out->parameters += out->tensors[i].repeat * out->tensors[i].size;
}

/* ---- what a rank keeps of a pass --------------------------------------------------------------- */

/* Rows of all experts that a rank has room for. */
static double slots_of(const struct part *part)
{
    const struct plan_model *model = &part->of->model;
    double experts = (double)model->experts, chosen = (double)model->experts_active;
    return experts * fmax(ceil(CAPACITY * (part->tokens * chosen) / experts), 1);
}

/* Bytes that the second half of the last block needs in backward beside what waits. At the gates:
 * the gradient of the stream and of both halves of the inner width; a mixture has let go of what it
 * combines by then. Where ranks divide the inner width so far that this is less: at the first
 * matrix, for the gradient of its input, or in a mixture where it combines. And with divided rows
 * at the second matrix, whose output's gradient is joined from all ranks. */
static double gates_of(const struct part *part)
{
    const struct plan_model *model = &part->of->model;
    double width = (double)model->width, inner = (double)part->inner, tokens = part->tokens;
    double stream = part->rows * width, joined = part->rows < tokens ? tokens * width : 0;
    double most = 0;
    if (model->experts) {
        double slots = slots_of(part);
        most = fmax(slots * (2 * inner - width), slots * width + joined);
        return part->element * (stream + most) + 4 * tokens * (double)model->experts_active;
    }
    most = fmax(2 * tokens * inner, tokens * (width - inner));
    if (joined > 0)
        most = fmax(most, joined + tokens * inner);
    return part->element * (stream + most);
}

/* A list of operations, whose values share places: what waits in the blocks, and the larger one of
 * what is needed at the head and at the gates of the last block. Of a block wait what its two norms
 * leave, its middle, and what attention reads and leaves. */
static void add_list(const struct part *part, double *bytes)
{
    const struct plan_model *model = &part->of->model;
    double width = (double)model->width, inner = (double)part->inner, kept = 1;
    double tokens = part->tokens, words = (double)part->words, answers = part->answers;
    double element = part->element, layers = (double)part->layers, rows = part->rows;
    double ranks = (double)part->of->layout.tensor;
    if (part->of->layout.recompute == PLAN_RECOMPUTE_NONE)
        kept = layers;
    double blocks =
        rows * width * (layers + kept) + kept * tokens * (2 * width + 4 * (double)part->own);
    double floats = kept * (2 * rows + tokens * (double)model->heads / ranks) +
                    (double)part->of->layout.sequence * (double)model->head_dim;
    double gates = gates_of(part);
    if (model->experts) {
        double slots = slots_of(part), chosen = (double)model->experts_active;
        blocks += kept * slots * (2 * width + 3 * inner);
        floats += kept * tokens * (2 * chosen + (double)model->experts);
    } else {
        blocks += kept * tokens * 3 * inner;
    }
    double logits = element * answers * tokens * words;
    double head = logits + answers * (width * element * (2 * tokens + rows) + 4 * tokens);
    gates += (1 - answers) * element * rows * width; /* on its way to the next stage */
    bytes[PLAN_HELD_ACTIVATIONS] = part->flights * (element * blocks + 4 * floats);
    bytes[PLAN_HELD_LOGITS] = part->flights * logits;
    bytes[PLAN_HELD_LIVE] = part->flights * (fmax(head, gates) - logits);
}

static void add_activations(const struct part *part, double *bytes)
{
    const struct plan_layout *layout = &part->of->layout;
    double width = (double)part->of->model.width, own = (double)part->own;
    double chunk = (double)part->chunk, element = part->element;
    double tokens = part->tokens, rows = part->rows, answers = part->answers;
    double ranks = (double)layout->tensor, kept = 1;
    double turns = plan_turners(part->of) > 1, ring = layout->context > plan_turners(part->of);
    double split = chunk * (layout->pipeline > 1 && layout->schedule == PLAN_SCHEDULE_ZERO);
    if (layout->recompute == PLAN_RECOMPUTE_NONE)
        kept = chunk;
    double inner = rows * width * (chunk + 1 + kept) + tokens * width * (2 * kept + answers) +
                   tokens * own * (12 + turns) * kept + split * tokens * (7 * own + 2 * width);
    double floats = rows * (4 * kept + 2 * answers) + answers * tokens +
                    kept * tokens * (double)part->of->model.heads / ranks;
    bytes[PLAN_HELD_ACTIVATIONS] = part->flights * (element * inner + 4 * floats);
    bytes[PLAN_HELD_LOGITS] = part->flights * element * answers * tokens * (double)part->words;
    bytes[PLAN_HELD_LIVE] =
        element * (tokens * (2 * width + (7 + 3 * turns + 4 * ring) * own) + rows * width) +
        4 * ring * 5 * tokens * own;
    if (ranks > 1)
        bytes[PLAN_HELD_LIVE] += 4 * 3 * answers * (ranks + 1) * tokens;
}

/* ---- ZeRO -------------------------------------------------------------------------------------- */

/* Units travel: 0 is what the model has once, i + 1 is block i. A single block is part of unit 0.
 * Experts that ranks divide are units of their own, of each block. */
static bool is_of_unit(const struct tensor *tensor, int64_t unit, bool expert)
{
    if (expert || tensor->expert)
        return expert && tensor->expert && unit > 0;
    return (tensor->repeat == 1 && unit == 0) || (tensor->repeat > 1 && unit > 0);
}

/* Elements of a tensor in a unit. */
static int64_t in_unit(const struct tensor *tensor)
{
    return tensor->size * (tensor->each ? tensor->each : 1);
}

/* Bytes of the pages that lie inside of a unit's tensors, where elements have `element` bytes. */
static double unit_pages(const struct part *part, int64_t unit, bool expert, int64_t element)
{
    int64_t at = 0, bytes = 0, before = unit - (unit > 0);
    for (int i = 0; i < TENSORS; i++) {
        const struct tensor *tensor = &part->tensors[i];
        int64_t first = at + before * in_unit(tensor);
        int64_t from = (first * element + PAGE - 1) / PAGE * PAGE;
        int64_t end = (first + in_unit(tensor)) * element / PAGE * PAGE;
        if (is_of_unit(tensor, unit, expert) && end > from)
            bytes += end - from;
        at += (tensor->repeat * tensor->size + LINE - 1) / LINE * LINE;
    }
    return (double)bytes;
}

/* Pages of all units, of unit 0, of the largest block. */
struct held {
    double all, outer, block;
};

static struct held held_of(const struct part *part, int64_t element)
{
    struct held held = {.outer = unit_pages(part, 0, false, element)};
    held.all = held.outer;
    for (int64_t i = 1; i <= part->layers; i++)
        for (int expert = 0; expert < 2; expert++) {
            double pages = unit_pages(part, i, expert, element);
            held.all += pages;
            held.block = fmax(held.block, pages);
        }
    return held;
}

/* What two units in use take less than all of them, one of them gathered ahead. */
static double let_go(struct held held, bool ahead)
{
    return held.all - fmin(fmax(held.outer, held.block) + ahead * held.block, held.all);
}

/* Elements of a unit. */
static double unit_size(const struct part *part, int64_t unit, bool expert)
{
    int64_t size = 0;
    for (int i = 0; i < TENSORS; i++)
        if (is_of_unit(&part->tensors[i], unit, expert))
            size += in_unit(&part->tensors[i]);
    return (double)size;
}

/* Elements that a rank keeps the optimizer's state of. */
static double own_share(const struct part *part)
{
    double out = 0;
    for (int i = 0; i < TENSORS; i++) {
        const struct tensor *tensor = &part->tensors[i];
        out += (double)(tensor->repeat * tensor->size) /
               (tensor->expert ? plan_owners(&part->of->layout) : (double)part->copies);
    }
    return out;
}

static void add_shards(const struct part *part, double *bytes)
{
    double ranks = (double)part->copies, owners = plan_owners(&part->of->layout);
    double own = own_share(part);
    bool ahead = !part->divided;
    struct held held = held_of(part, 4);
    double dense = fmax(unit_size(part, 0, false), unit_size(part, 1, false));
    double experts = unit_size(part, 1, true);
    bytes[PLAN_HELD_STATES] = 8 * own;
    bytes[PLAN_HELD_BUFFERS] +=
        4 * (fmax(dense, experts) + fmax(ceil(dense / ranks), ceil(experts / owners)));
    if (part->zero >= 2)
        bytes[PLAN_HELD_GRADIENTS] +=
            4 * own + fmin(held.outer + (1 + ahead) * held.block, held.all) - held.all;
    if (part->zero < 3)
        return;
    bytes[PLAN_HELD_WEIGHTS] += 4 * own - let_go(held, ahead);
    if (part->rounded > 0)
        bytes[PLAN_HELD_WEIGHTS] -= let_go(held_of(part, 2), ahead);
}

/* ---- buffers ----------------------------------------------------------------------------------- */

static double whole_lines(double count)
{
    return LINE * ceil(count / LINE);
}

/* Scores of a block of rows and their gradients, twice where elements are not floats, and the sums
 * of the gradients of keys and values: of each thread. */
static double scratch(const struct part *part)
{
    double parts = (double)part->of->layout.context / (double)plan_turners(part->of);
    double sequence = (double)part->of->layout.sequence / parts;
    double block = SCORE_ROWS * whole_lines(sequence);
    double floats = 2 * block + 2 * whole_lines(sequence * (double)part->of->model.head_dim);
    floats += block * (part->rounded > 0);
    return 4 * floats * fmax((double)part->of->machine.threads, 1);
}

static void add_buffers(const struct part *part, double *bytes)
{
    const struct plan_layout *layout = &part->of->layout;
    double width = (double)part->of->model.width, ranks = (double)layout->tensor;
    double boundary = part->tokens * width * part->element;
    double summed = fmax(boundary, 4 * (double)part->of->model.experts * width);
    double samples = (double)(layout->micro_batch * layout->sequence);
    double *buffers = &bytes[PLAN_HELD_BUFFERS];
    *buffers += scratch(part);
    /* inputs and targets of each batch that is ready; bytes and numbers of a text while it is read
     */
    *buffers += READY * 8 * samples + 5 * (samples + (double)layout->micro_batch);
    if (layout->pipeline > 1) {
        *buffers += part->rows * width * part->element * (part->flights + 1);
        *buffers += 8 * (double)plan_micro_batches(layout) * part->tokens;
        if (part->embeds && !part->of->model.gated)
            *buffers += 4 * (double)part->of->model.vocabulary * width / ranks;
    }
    if (layout->expert > 1) /* rows that go, and rows that come */
        *buffers += 2 * slots_of(part) * width * part->element / (double)layout->expert;
    if (layout->tensor > 1)
        *buffers += summed / ranks;
    if (plan_turners(part->of) > 1)
        *buffers += 6 * boundary / ranks / (double)layout->context;
    if (layout->devices > 1 && part->zero == 0)
        *buffers += fmin(part->element * (double)part->parameters, BUCKET);
}

void plan_engine_memory(const struct plan_case *of, int64_t stage, double bytes[PLAN_HELDS])
{
    struct part part;
    find_part(of, stage, &part);
    double parameters = (double)(part.parameters + part.copied);
    bytes[PLAN_HELD_WEIGHTS] = (4 + part.rounded) * parameters;
    bytes[PLAN_HELD_GRADIENTS] = 4 * parameters;
    bytes[PLAN_HELD_STATES] = 8 * (double)part.parameters;
    if (of->model.gated)
        add_list(&part, bytes);
    else
        add_activations(&part, bytes);
    add_buffers(&part, bytes);
    if (part.zero > 0)
        add_shards(&part, bytes);
}
