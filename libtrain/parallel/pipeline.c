/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage at work: passes in the order of the schedule, an exchange between each two of them.
 */
#include "libtrain/parallel/pipeline.h"

#include "libtrain/base/fail.h"
#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Communicators of the pairs of stages: four for each rank, that of the lower stage. */
#define LINKS 1024u
enum way { FORWARD_WAY, BACKWARD_WAY, TIED_UP, TIED_DOWN, WAYS };

struct lt_pipeline {
    struct lt_layout layout;
    const struct lt_group *world;
    struct lt_model *model;
    const struct lt_stage_ops *ops;
    struct lt_trace *trace;
    int micro, in_flight;
    struct lt_pass *pass;      /* 2 micro */
    int32_t *tokens, *targets; /* of all micro-batches of a step */
    size_t samples;            /* tokens of a micro-batch */
    char *landing;             /* gradient of this stage's output, on its way here */
    float *tied;               /* the copy's gradient, at the first stage */
    size_t bytes;
    uint64_t sequence[2 * WAYS]; /* of the four links to the next stage, and to the one before */
    struct lt_pipeline_sent sent;
    uint64_t steps, tied_up;     /* counted for the formula */
    int64_t pass_ns[2], step_ns; /* without the first step; forward, backward */
};

static int is_first(const struct lt_pipeline *pipeline)
{
    return pipeline->layout.stage == 0;
}

static int is_last(const struct lt_pipeline *pipeline)
{
    return pipeline->layout.stage == pipeline->layout.pp - 1;
}

/* The rank of the same replica and part in another stage. */
static int rank_of(const struct lt_pipeline *pipeline, int stage)
{
    const struct lt_layout *layout = &pipeline->layout;
    return lt_layout_rank(layout, stage, layout->replica, layout->part);
}

/* ---- messages ----------------------------------------------------------------------------------- */

/* Half of an exchange: to or from that stage; below 0: none. */
struct half {
    int stage;
    enum way way;
    void *data;
    size_t bytes;
};

static const struct half nothing = {.stage = -1};

/* Opens the range of a half. Its communicator is that of the lower one of the two stages. */
static void open_half(struct lt_pipeline *pipeline, const struct half *half, int sends)
{
    int own = pipeline->layout.stage, lower = half->stage < own ? half->stage : own;
    uint64_t *sequence = &pipeline->sequence[half->way + (half->stage < own ? WAYS : 0)];
    struct tacho_comm comm = {.bytes = half->bytes,
                              .communicator = LINKS + (uint64_t)rank_of(pipeline, lower) * WAYS +
                                              (uint64_t)half->way,
                              .sequence = (*sequence)++,
                              .ranks = 2};
    enum lt_range range = sends ? LT_RANGE_SEND : LT_RANGE_RECV;
    comm.op = sends ? TACHO_COMM_SEND : TACHO_COMM_RECV;
    if (half->way >= TIED_UP) { /* between the ends of the pipeline, not along it */
        range = half->way == TIED_UP ? LT_RANGE_REDUCE : LT_RANGE_BROADCAST;
        comm.op = half->way == TIED_UP ? TACHO_COMM_REDUCE : TACHO_COMM_BROADCAST;
    }
    lt_trace_comm_begin(pipeline->trace, range, &comm);
}

static int peer(const struct lt_pipeline *pipeline, const struct half *half)
{
    return half->stage < 0 ? -1 : rank_of(pipeline, half->stage);
}

/* Sends and receives at the same time. */
static void exchange(struct lt_pipeline *pipeline, struct half out, struct half in)
{
    const struct lt_group *world = pipeline->world;
    if (out.stage < 0 && in.stage < 0)
        return;
    lt_trace_begin(pipeline->trace, LT_RANGE_COMM_WAIT, 0, 0);
    if (out.stage >= 0)
        open_half(pipeline, &out, 1);
    if (in.stage >= 0)
        open_half(pipeline, &in, 0);
    world->exchange(world->arg, peer(pipeline, &out), out.data, out.bytes, peer(pipeline, &in),
                    in.data, in.bytes);
    if (in.stage >= 0)
        lt_trace_end(pipeline->trace);
    if (out.stage >= 0)
        lt_trace_end(pipeline->trace);
    lt_trace_end(pipeline->trace);
}

static void count(struct lt_group_sent *sent, struct half out)
{
    if (out.stage < 0)
        return;
    sent->bytes += out.bytes;
    sent->messages++;
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- passes ------------------------------------------------------------------------------------- */

static void select_slot(struct lt_pipeline *pipeline, int micro)
{
    pipeline->ops->select(pipeline->model, micro % pipeline->in_flight);
}

/* What a pass leaves for a neighbour. */
static struct half result_of(struct lt_pipeline *pipeline, struct lt_pass pass)
{
    const struct lt_stage_ops *ops = pipeline->ops;
    struct half half = {.stage = pipeline->layout.stage + 1,
                        .way = FORWARD_WAY,
                        .bytes = ops->boundary_bytes(pipeline->model)};
    if (pass.backward ? is_first(pipeline) : is_last(pipeline))
        return nothing;
    if (pass.backward) {
        half.stage = pipeline->layout.stage - 1;
        half.way = BACKWARD_WAY;
    }
    select_slot(pipeline, pass.micro);
    half.data =
        ops->boundary(pipeline->model, pass.backward ? LT_BOUNDARY_GRADIENT : LT_BOUNDARY_OUTPUT);
    return half;
}

/* Where a pass finds what a neighbour sends it. */
static struct half input_of(struct lt_pipeline *pipeline, struct lt_pass pass)
{
    const struct lt_stage_ops *ops = pipeline->ops;
    struct half half = {.stage = pipeline->layout.stage - 1,
                        .way = FORWARD_WAY,
                        .bytes = ops->boundary_bytes(pipeline->model)};
    if (pass.backward ? is_last(pipeline) : is_first(pipeline))
        return nothing;
    if (pass.backward) {
        half.stage = pipeline->layout.stage + 1;
        half.way = BACKWARD_WAY;
        half.data = pipeline->landing;
        return half;
    }
    select_slot(pipeline, pass.micro);
    half.data = ops->boundary(pipeline->model, LT_BOUNDARY_INPUT);
    return half;
}

static struct lt_batch batch_of(const struct lt_pipeline *pipeline, int micro)
{
    size_t first = (size_t)micro * pipeline->samples;
    return (struct lt_batch){.tokens = pipeline->tokens + first,
                             .targets = pipeline->targets + first};
}

/* The tied tensor's gradient at the ends of the pipeline; NULL elsewhere, and where one stage has
 * both uses. */
static float *tied_gradient(const struct lt_pipeline *pipeline, size_t *count)
{
    if (pipeline->layout.pp == 1)
        return NULL;
    return pipeline->ops->tied_gradient(pipeline->model, count);
}

/* The last stage hands its part of the tied gradient to the first one. */
static void send_tied(struct lt_pipeline *pipeline)
{
    size_t floats = 0;
    float *gradient = tied_gradient(pipeline, &floats);
    struct half out = {.way = TIED_UP, .data = gradient, .bytes = floats * sizeof *gradient};
    if (!gradient || is_first(pipeline))
        return;
    exchange(pipeline, out, nothing);
    count(&pipeline->sent.tied, out);
    pipeline->tied_up++;
}

/* The first stage begins with it (`apart`), or with zeros to which it is added in the end. Its
 * backward pass adds to what is there. */
static void take_tied(struct lt_pipeline *pipeline, int micro, int apart)
{
    size_t floats = 0;
    float *gradient = tied_gradient(pipeline, &floats);
    struct half in = {.stage = pipeline->layout.pp - 1,
                      .way = TIED_UP,
                      .data = apart ? gradient : pipeline->tied,
                      .bytes = floats * sizeof *gradient};
    if (!gradient || !is_first(pipeline))
        return;
    if (!apart && micro == 0)
        memset(gradient, 0, in.bytes);
    if (apart || micro == pipeline->micro - 1)
        exchange(pipeline, nothing, in);
    if (!apart && micro == pipeline->micro - 1)
        for (size_t i = 0; i < floats; i++)
            gradient[i] += pipeline->tied[i];
}

static double forward(struct lt_pipeline *pipeline, const struct lt_context *context,
                      const struct lt_batch *batch, int parts)
{
    lt_trace_begin(pipeline->trace, LT_RANGE_FORWARD, 0, 0);
    double loss = pipeline->model->ops->forward(pipeline->model, context, batch, parts);
    lt_trace_end(pipeline->trace);
    return loss;
}

/* One backward pass, with all that belongs to it: the gradient of the output, the tied gradient,
 * the reduction over the replicas. */
static void backward(struct lt_pipeline *pipeline, const struct lt_context *context,
                     struct lt_shard *shard, int micro)
{
    struct lt_context own = *context;
    struct lt_batch batch = batch_of(pipeline, micro);
    int apart = lt_shard_apart(shard), last = micro == pipeline->micro - 1;
    take_tied(pipeline, micro, apart);
    select_slot(pipeline, micro);
    if (!is_last(pipeline))
        memcpy(pipeline->ops->boundary(pipeline->model, LT_BOUNDARY_GRADIENT), pipeline->landing,
               pipeline->ops->boundary_bytes(pipeline->model));
    lt_shard_begin(shard, &own, micro == 0, last);
    lt_shard_turn(shard);
    lt_trace_begin(pipeline->trace, LT_RANGE_BACKWARD, 0, 0);
    pipeline->model->ops->backward(pipeline->model, &own, &batch, micro == 0 || apart);
    lt_trace_end(pipeline->trace);
    lt_shard_end(shard);
}

double lt_pipeline_step(struct lt_pipeline *pipeline, const struct lt_context *context,
                        struct lt_shard *shard, int parts)
{
    struct lt_pass *pass = pipeline->pass;
    int passes = 2 * pipeline->micro, apart = lt_shard_apart(shard);
    double loss = 0;
    int64_t begin = now_ns(), end;
    pipeline->steps++;
    exchange(pipeline, nothing, input_of(pipeline, pass[0]));
    for (int i = 0; i < passes; i++) {
        struct lt_batch batch = batch_of(pipeline, pass[i].micro);
        struct half out, in = nothing;
        int64_t start = now_ns();
        lt_trace_begin(pipeline->trace, LT_RANGE_MICRO_STEP, 0,
                       pass[i].backward ? 0 : (uint64_t)pipeline->model->b);
        if (pass[i].backward) {
            backward(pipeline, context, shard, pass[i].micro);
        } else {
            select_slot(pipeline, pass[i].micro);
            loss += forward(pipeline, context, &batch, parts);
        }
        lt_trace_end(pipeline->trace);
        if (pipeline->steps > 1)
            pipeline->pass_ns[pass[i].backward] += now_ns() - start;
        out = result_of(pipeline, pass[i]);
        if (i + 1 < passes)
            in = input_of(pipeline, pass[i + 1]);
        count(&pipeline->sent.activations, out);
        exchange(pipeline, out, in);
        if (pass[i].backward && (apart || pass[i].micro == pipeline->micro - 1))
            send_tied(pipeline);
    }
    end = now_ns();
    if (pipeline->steps > 1)
        pipeline->step_ns += end - begin;
    return loss;
}

void lt_pipeline_updated(struct lt_pipeline *pipeline)
{
    size_t floats = 0;
    float *value = pipeline->layout.pp > 1 ? pipeline->ops->tied(pipeline->model, &floats) : NULL;
    struct half half = {.stage = is_first(pipeline) ? pipeline->layout.pp - 1 : 0,
                        .way = TIED_DOWN,
                        .data = value,
                        .bytes = floats * sizeof *value};
    if (!value)
        return;
    if (is_first(pipeline)) {
        exchange(pipeline, half, nothing);
        count(&pipeline->sent.tied, half);
    } else {
        exchange(pipeline, nothing, half);
        pipeline->ops->tied_changed(pipeline->model);
    }
}

double lt_pipeline_evaluate(struct lt_pipeline *pipeline, const struct lt_context *context,
                            const struct lt_batch *batch)
{
    struct lt_pass pass = {.backward = 0, .micro = 0};
    exchange(pipeline, nothing, input_of(pipeline, pass));
    select_slot(pipeline, 0);
    double loss = pipeline->model->ops->forward(pipeline->model, context, batch, 1);
    exchange(pipeline, result_of(pipeline, pass), nothing);
    return loss;
}

struct lt_pipeline_times lt_pipeline_times(const struct lt_pipeline *pipeline)
{
    double steps = (double)pipeline->steps - 1, passes = steps * (double)pipeline->micro * 1e9;
    if (pipeline->steps < 2)
        return (struct lt_pipeline_times){0};
    return (struct lt_pipeline_times){(double)pipeline->pass_ns[0] / passes,
                                      (double)pipeline->pass_ns[1] / passes,
                                      (double)pipeline->step_ns / steps / 1e9};
}

struct lt_pipeline_sent lt_pipeline_sent(const struct lt_pipeline *pipeline,
                                         struct lt_pipeline_sent *formula)
{
    uint64_t sides = (uint64_t)!is_first(pipeline) + (uint64_t)!is_last(pipeline), up = 0;
    uint64_t messages = pipeline->steps * (uint64_t)pipeline->micro * sides;
    size_t floats = 0;
    if (tied_gradient(pipeline, &floats) == NULL)
        floats = 0;
    if (floats)
        up = is_first(pipeline) ? pipeline->steps : pipeline->tied_up;
    *formula = (struct lt_pipeline_sent){
        {messages * pipeline->ops->boundary_bytes(pipeline->model), messages},
        {up * floats * sizeof(float), up}};
    return pipeline->sent;
}

/* ---- creation ----------------------------------------------------------------------------------- */

size_t lt_pipeline_bytes(size_t boundary, size_t tied, int micro, int64_t tokens)
{
    return boundary + tied + 2 * (size_t)micro * (size_t)tokens * sizeof(int32_t);
}

int lt_pipeline_create(struct lt_pipeline **out, enum lt_stages kind,
                       const struct lt_layout *layout, int micro, const struct lt_group *world,
                       struct lt_model *model, struct lt_trace *trace, struct tacho_error *err)
{
    struct lt_pipeline *pipeline = calloc(1, sizeof *pipeline);
    size_t tied = 0;
    *out = pipeline;
    if (!pipeline)
        return lt_no_memory(err);
    *pipeline = (struct lt_pipeline){.layout = *layout,
                                     .world = world,
                                     .model = model,
                                     .ops = model->ops->stage,
                                     .trace = trace,
                                     .micro = micro,
                                     .samples = (size_t)(model->b * model->t)};
    size_t tokens = (size_t)micro * pipeline->samples,
           boundary = pipeline->ops->boundary_bytes(model);
    if (!is_first(pipeline) || !tied_gradient(pipeline, &tied))
        tied = 0;
    pipeline->pass = calloc(2 * (size_t)micro, sizeof *pipeline->pass);
    pipeline->tokens = malloc(tokens * sizeof *pipeline->tokens);
    pipeline->targets = malloc(tokens * sizeof *pipeline->targets);
    pipeline->landing = malloc(boundary);
    pipeline->tied = malloc(tied * sizeof *pipeline->tied + 1);
    if (!pipeline->pass || !pipeline->tokens || !pipeline->targets || !pipeline->landing ||
        !pipeline->tied)
        return lt_no_memory(err);
    pipeline->bytes = lt_pipeline_bytes(boundary, tied * sizeof *pipeline->tied, micro,
                                        (int64_t)pipeline->samples);
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)pipeline->bytes);
    lt_stages_passes(kind, layout->pp, layout->stage, micro, pipeline->pass);
    pipeline->in_flight = lt_stages_in_flight(pipeline->pass, 2 * (size_t)micro);
    return 0;
}

void lt_pipeline_destroy(struct lt_pipeline *pipeline)
{
    if (!pipeline)
        return;
    lt_memory_add(LT_MEMORY_WORKSPACE, -(int64_t)pipeline->bytes);
    free(pipeline->pass);
    free(pipeline->tokens);
    free(pipeline->targets);
    free(pipeline->landing);
    free(pipeline->tied);
    free(pipeline);
}

void lt_pipeline_batch(struct lt_pipeline *pipeline, int micro, const struct lt_batch *batch)
{
    size_t first = (size_t)micro * pipeline->samples;
    memcpy(pipeline->tokens + first, batch->tokens, pipeline->samples * sizeof(int32_t));
    memcpy(pipeline->targets + first, batch->targets, pipeline->samples * sizeof(int32_t));
}
