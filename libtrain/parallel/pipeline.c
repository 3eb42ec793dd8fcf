/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage at work: passes in the order of the schedule, each when its input is there.
 */
#include "libtrain/parallel/pipeline.h"

#include "libtrain/base/fail.h"
#include "libtrain/speak/simulated.h"
#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Communicators of the pairs of stages: as many for each rank as there are ways, that of the lower
 * stage. ROUND: between the last stage and the next chunk of the first one. */
#define LINKS 1024u
enum way { FORWARD_WAY, BACKWARD_WAY, TIED_UP, TIED_DOWN, FORWARD_ROUND, BACKWARD_ROUND, WAYS };

struct lt_pipeline {
    struct lt_layout layout;
    struct lt_staging staging;
    const struct lt_group *world;
    struct lt_model *model;
    const struct lt_stage_ops *ops;
    struct lt_trace *trace;
    int micro, slots;
    struct lt_pass *pass;
    size_t passes;
    int32_t *tokens, *targets; /* of all micro-batches of a step */
    size_t samples;            /* tokens of a micro-batch */
    /* What is on its way to a neighbour: of each slot its output; gradients, copied here one after
     * the other, so many that the oldest one has always been taken. */
    void **forwards, **backwards;
    char *going;
    size_t gradients;
    float *tied; /* the copy's gradient, at the first stage */
    size_t bytes;
    uint64_t sequence[2 * WAYS]; /* of the links to the next stage, and to the one before */
    struct lt_pipeline_sent sent;
    uint64_t steps, tied_up;        /* counted for the formula */
    int64_t pass_ns[LT_PASS_KINDS]; /* of this step */
    void (*made)(void *arg, int micro);
    void *made_arg;
    struct lt_pipeline_times times;
};

static int is_first(const struct lt_pipeline *pipeline)
{
    return pipeline->layout.stage == 0;
}

static int is_last(const struct lt_pipeline *pipeline)
{
    return pipeline->layout.stage == pipeline->layout.pp - 1;
}

/* The rank of the same copy and part in another stage. */
static int rank_of(const struct lt_pipeline *pipeline, int stage)
{
    const struct lt_layout *layout = &pipeline->layout;
    return lt_layout_rank(layout, stage, lt_layout_copy(layout), layout->part);
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
    if (half->way == TIED_UP || half->way == TIED_DOWN) { /* between the ends, not along it */
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

static void select_slot(struct lt_pipeline *pipeline, struct lt_pass pass)
{
    pipeline->ops->select(pipeline->model, pass.slot, pass.chunk);
}

/* The neighbour in the direction of a pass, or against it: beyond the ends is the next chunk, or
 * the one before, of the other end. */
static struct half neighbour(const struct lt_pipeline *pipeline, struct lt_pass pass, int against)
{
    int stages = pipeline->layout.pp, up = (pass.kind == LT_PASS_BACKWARD) == (against != 0);
    int stage = pipeline->layout.stage + (up ? 1 : -1), chunk = pass.chunk;
    struct half half = {.way = pass.kind == LT_PASS_BACKWARD ? BACKWARD_WAY : FORWARD_WAY,
                        .bytes = pipeline->ops->boundary_bytes(pipeline->model)};
    if (stage < 0 || stage == stages) {
        chunk += up ? 1 : -1;
        stage = up ? 0 : stages - 1;
        half.way = pass.kind == LT_PASS_BACKWARD ? BACKWARD_ROUND : FORWARD_ROUND;
    }
    if (pass.kind == LT_PASS_WEIGHTS || chunk < 0 || chunk == pipeline->staging.chunks)
        return nothing;
    half.stage = stage;
    return half;
}

/* Waits until the pass has what a neighbour sends it, in the place where it reads it. */
static void take_input(struct lt_pipeline *pipeline, struct lt_pass pass)
{
    struct half in = neighbour(pipeline, pass, 1);
    if (in.stage < 0)
        return;
    enum lt_boundary place =
        pass.kind == LT_PASS_BACKWARD ? LT_BOUNDARY_GRADIENT : LT_BOUNDARY_INPUT;
    in.data = pipeline->ops->boundary(pipeline->model, place);
    lt_trace_begin(pipeline->trace, LT_RANGE_COMM_WAIT, 0, 0);
    open_half(pipeline, &in, 0);
    pipeline->world->take(pipeline->world->arg, peer(pipeline, &in), 1 + (int)in.way, in.data,
                          in.bytes);
    lt_trace_end(pipeline->trace);
    lt_trace_end(pipeline->trace);
}

static void settle(struct lt_pipeline *pipeline, void **posted)
{
    pipeline->world->settle(pipeline->world->arg, *posted);
    *posted = NULL;
}

/* Hands what a pass has left to a neighbour, without waiting for it. */
static void post_result(struct lt_pipeline *pipeline, struct lt_pass pass)
{
    struct half out = neighbour(pipeline, pass, 0);
    if (out.stage < 0)
        return;
    void **posted = &pipeline->forwards[pass.slot];
    lt_trace_begin(pipeline->trace, LT_RANGE_COMM_WAIT, 0, 0);
    open_half(pipeline, &out, 1);
    if (pass.kind == LT_PASS_BACKWARD) {
        size_t turn = pipeline->gradients++ % ((size_t)pipeline->slots + 1);
        posted = &pipeline->backwards[turn];
        settle(pipeline, posted);
        out.data = pipeline->going + turn * out.bytes;
        memcpy(out.data, pipeline->ops->boundary(pipeline->model, LT_BOUNDARY_GRADIENT), out.bytes);
    } else {
        out.data = pipeline->ops->boundary(pipeline->model, LT_BOUNDARY_OUTPUT);
    }
    *posted = pipeline->world->post(pipeline->world->arg, peer(pipeline, &out), 1 + (int)out.way,
                                    out.data, out.bytes);
    lt_trace_end(pipeline->trace);
    lt_trace_end(pipeline->trace);
    count(&pipeline->sent.activations, out);
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
static void take_tied(struct lt_pipeline *pipeline, int apart)
{
    size_t floats = 0;
    float *gradient = tied_gradient(pipeline, &floats);
    struct half in = {.stage = pipeline->layout.pp - 1,
                      .way = TIED_UP,
                      .data = apart ? gradient : pipeline->tied,
                      .bytes = floats * sizeof *gradient};
    if (!gradient || !is_first(pipeline))
        return;
    exchange(pipeline, nothing, in);
    for (size_t i = 0; !apart && i < floats; i++)
        gradient[i] += pipeline->tied[i];
}

static void begin_tied(struct lt_pipeline *pipeline)
{
    size_t floats = 0;
    float *gradient = tied_gradient(pipeline, &floats);
    if (gradient && is_first(pipeline))
        memset(gradient, 0, floats * sizeof *gradient);
}

static double forward(struct lt_pipeline *pipeline, const struct lt_context *context,
                      struct lt_shard *shard, const struct lt_batch *batch, int parts)
{
    struct lt_context own = *context;
    lt_trace_begin(pipeline->trace, LT_RANGE_FORWARD, 0, 0);
    lt_shard_enter(shard, &own);
    double loss = pipeline->model->ops->forward(pipeline->model, &own, batch, parts);
    lt_shard_leave(shard);
    lt_trace_end(pipeline->trace);
    return loss;
}

/* The announcement of the tied gradient, kept back until the last stage's part of it is added. */
struct late {
    const struct lt_context *context; /* as the shard has filled it */
    size_t tied, count;               /* its first element; as announced */
};

static void ready_late(void *arg, size_t first, size_t count)
{
    struct late *late = arg;
    if (first == late->tied)
        late->count = count;
    else
        late->context->ready(late->context->ready_arg, first, count);
}

/* The last pass of a step over the first chunk: afterwards the tied gradient is whole. */
static void finish_tied(struct lt_pipeline *pipeline, const struct late *late)
{
    take_tied(pipeline, 0);
    if (late->count)
        late->context->ready(late->context->ready_arg, late->tied, late->count);
}

/* The last of the passes that add to the gradient of a micro-batch's chunk. */
static int closes(const struct lt_pipeline *pipeline, struct lt_pass pass)
{
    return pass.kind ==
           (lt_stages_split(pipeline->staging.kind) ? LT_PASS_WEIGHTS : LT_PASS_BACKWARD);
}

/* A backward or weights pass. The one that closes a micro-batch's gradient has all that belongs to
 * it: the tied gradient, and the reduction over the replicas. The first chunk has the embedding,
 * the last one is the first to be closed. */
static void backward(struct lt_pipeline *pipeline, const struct lt_context *context,
                     struct lt_shard *shard, struct lt_pass pass)
{
    struct lt_context own = *context, filled;
    struct lt_batch batch = batch_of(pipeline, pass.micro);
    int apart = lt_shard_apart(shard), first = pass.micro == 0,
        last = pass.micro == pipeline->micro - 1, closing = closes(pipeline, pass),
        tied = closing && pass.chunk == 0 && is_first(pipeline) && last && !apart;
    size_t floats = 0;
    float *gradient = tied ? tied_gradient(pipeline, &floats) : NULL;
    struct late late = {.context = &filled};
    if (pass.kind == LT_PASS_BACKWARD && first && pass.chunk == 0 && !apart)
        begin_tied(pipeline);
    if (closing && pass.chunk == 0 && apart)
        take_tied(pipeline, 1);
    if (closing) {
        lt_shard_begin(shard, &own, first && pass.chunk == pipeline->staging.chunks - 1, last);
        lt_shard_turn(shard);
    }
    filled = own;
    if (gradient) {
        late.tied = (size_t)(gradient - pipeline->model->parameters.grad);
        own.ready = ready_late;
        own.ready_arg = &late;
    }
    lt_trace_begin(pipeline->trace, LT_RANGE_BACKWARD, 0, 0);
    if (pass.kind == LT_PASS_WEIGHTS)
        pipeline->model->ops->weights(pipeline->model, &own, first || apart);
    else
        pipeline->model->ops->backward(pipeline->model, &own, &batch, first || apart);
    lt_trace_end(pipeline->trace);
    if (gradient)
        finish_tied(pipeline, &late);
    if (closing)
        lt_shard_end(shard);
}

/* One pass, from the moment when its input is there. */
static double make_pass(struct lt_pipeline *pipeline, const struct lt_context *context,
                        struct lt_shard *shard, int parts, struct lt_pass pass)
{
    struct lt_batch batch = batch_of(pipeline, pass.micro);
    double loss = 0;
    int64_t start = now_ns();
    lt_trace_begin(pipeline->trace, LT_RANGE_MICRO_STEP, 0,
                   pass.kind == LT_PASS_FORWARD && pass.chunk == 0 ? (uint64_t)pipeline->model->b
                                                                   : 0);
    if (pass.kind == LT_PASS_FORWARD && pass.micro == 0 && pass.chunk == 0)
        lt_simulate(pipeline->trace, 0, context->late);
    if (context->simulated)
        lt_simulate(pipeline->trace, pass.kind != LT_PASS_FORWARD, context->simulated[pass.kind]);
    if (pass.kind == LT_PASS_FORWARD)
        loss = forward(pipeline, context, shard, &batch, parts);
    else
        backward(pipeline, context, shard, pass);
    if (pass.kind == LT_PASS_FORWARD && pass.chunk == 0 && pipeline->made)
        pipeline->made(pipeline->made_arg, pass.micro);
    lt_trace_end(pipeline->trace);
    pipeline->pass_ns[pass.kind] += now_ns() - start;
    return loss;
}

/* Keeps the times of a step that has ended, unless it is the first one. */
static void keep_times(struct lt_pipeline *pipeline, int64_t step_ns)
{
    struct lt_pipeline_times *times = &pipeline->times;
    double passes = (double)pipeline->micro * 1e9;
    if (pipeline->steps < 2)
        return;
    times->time[(pipeline->steps - 2) % LT_PIPELINE_STEPS] = (struct lt_pipeline_time){
        .passes = {.forward = (double)pipeline->pass_ns[LT_PASS_FORWARD] / passes,
                   .backward = (double)pipeline->pass_ns[LT_PASS_BACKWARD] / passes,
                   .weights = (double)pipeline->pass_ns[LT_PASS_WEIGHTS] / passes},
        .step = (double)step_ns / 1e9};
    if (times->steps < LT_PIPELINE_STEPS)
        times->steps++;
}

double lt_pipeline_step(struct lt_pipeline *pipeline, const struct lt_context *context,
                        struct lt_shard *shard, int parts)
{
    int apart = lt_shard_apart(shard);
    double loss = 0;
    int64_t begin = now_ns();
    pipeline->steps++;
    memset(pipeline->pass_ns, 0, sizeof pipeline->pass_ns);
    for (size_t i = 0; i < pipeline->passes; i++) {
        struct lt_pass pass = pipeline->pass[i];
        select_slot(pipeline, pass);
        if (pass.kind == LT_PASS_FORWARD) /* what was written there before has gone */
            settle(pipeline, &pipeline->forwards[pass.slot]);
        take_input(pipeline, pass);
        loss += make_pass(pipeline, context, shard, parts, pass);
        post_result(pipeline, pass);
        if (apart && closes(pipeline, pass))
            send_tied(pipeline);
    }
    if (!apart)
        send_tied(pipeline);
    for (int i = 0; i <= pipeline->slots; i++) {
        settle(pipeline, &pipeline->forwards[i]);
        settle(pipeline, &pipeline->backwards[i]);
    }
    keep_times(pipeline, now_ns() - begin);
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
    double loss = 0;
    for (int chunk = 0; chunk < pipeline->staging.chunks; chunk++) {
        struct lt_pass pass = {.kind = LT_PASS_FORWARD, .chunk = chunk};
        struct half out = neighbour(pipeline, pass, 0);
        select_slot(pipeline, pass);
        take_input(pipeline, pass);
        loss += pipeline->model->ops->forward(pipeline->model, context, batch, 1);
        post_result(pipeline, pass);
        settle(pipeline, &pipeline->forwards[0]);
        if (out.stage >= 0) { /* no step counts it */
            pipeline->sent.activations.bytes -= out.bytes;
            pipeline->sent.activations.messages--;
        }
    }
    return loss;
}

const struct lt_pipeline_times *lt_pipeline_times(const struct lt_pipeline *pipeline)
{
    return &pipeline->times;
}

struct lt_pipeline_sent lt_pipeline_sent(const struct lt_pipeline *pipeline,
                                         struct lt_pipeline_sent *formula)
{
    uint64_t chunks = (uint64_t)pipeline->staging.chunks, up = 0,
             sides = 2 * chunks - (uint64_t)is_first(pipeline) - (uint64_t)is_last(pipeline),
             messages = pipeline->steps * (uint64_t)pipeline->micro * sides;
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

size_t lt_pipeline_bytes(size_t boundary, int slots, size_t tied, int micro, int64_t tokens)
{
    return boundary * ((size_t)slots + 1) + tied +
           2 * (size_t)micro * (size_t)tokens * sizeof(int32_t);
}

/* Its arrays; `tied` floats at the first stage. */
static int allocate(struct lt_pipeline *pipeline, size_t tied, struct tacho_error *err)
{
    size_t tokens = (size_t)pipeline->micro * pipeline->samples,
           slots = (size_t)pipeline->slots + 1,
           boundary = pipeline->ops->boundary_bytes(pipeline->model);
    pipeline->tokens = malloc(tokens * sizeof *pipeline->tokens);
    pipeline->targets = malloc(tokens * sizeof *pipeline->targets);
    pipeline->forwards = calloc(2 * slots, sizeof *pipeline->forwards);
    pipeline->going = malloc(slots * boundary);
    pipeline->tied = malloc(tied * sizeof *pipeline->tied + 1);
    if (!pipeline->tokens || !pipeline->targets || !pipeline->forwards || !pipeline->going ||
        !pipeline->tied)
        return lt_no_memory(err);
    pipeline->backwards = pipeline->forwards + slots;
    pipeline->bytes = lt_pipeline_bytes(boundary, pipeline->slots, tied * sizeof *pipeline->tied,
                                        pipeline->micro, (int64_t)pipeline->samples);
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)pipeline->bytes);
    return 0;
}

int lt_pipeline_create(struct lt_pipeline **out, const struct lt_staging *staging,
                       const struct lt_layout *layout, const struct lt_group *world,
                       struct lt_model *model, struct lt_trace *trace, struct tacho_error *err)
{
    struct lt_pipeline *pipeline = calloc(1, sizeof *pipeline);
    size_t tied = 0;
    *out = pipeline;
    if (!pipeline)
        return lt_no_memory(err);
    *pipeline = (struct lt_pipeline){.layout = *layout,
                                     .staging = *staging,
                                     .world = world,
                                     .model = model,
                                     .ops = model->ops->stage,
                                     .trace = trace,
                                     .micro = staging->micro,
                                     .passes = lt_stages_count(staging),
                                     .samples = (size_t)(model->b * model->t)};
    pipeline->pass = calloc(pipeline->passes, sizeof *pipeline->pass);
    pipeline->slots =
        pipeline->pass ? lt_stages_passes(staging, layout->stage, pipeline->pass) : TACHO_ENOMEM;
    if (pipeline->slots < 0)
        return lt_no_memory(err);
    if (!is_first(pipeline) || !tied_gradient(pipeline, &tied))
        tied = 0;
    return allocate(pipeline, tied, err);
}

void lt_pipeline_destroy(struct lt_pipeline *pipeline)
{
    if (!pipeline)
        return;
    lt_memory_add(LT_MEMORY_WORKSPACE, -(int64_t)pipeline->bytes);
    free(pipeline->pass);
    free(pipeline->tokens);
    free(pipeline->targets);
    free(pipeline->forwards);
    free(pipeline->going);
    free(pipeline->tied);
    free(pipeline);
}

void lt_pipeline_watch(struct lt_pipeline *pipeline, void (*made)(void *arg, int micro), void *arg)
{
    pipeline->made = made;
    pipeline->made_arg = arg;
}

void lt_pipeline_batch(struct lt_pipeline *pipeline, int micro, const struct lt_batch *batch)
{
    size_t first = (size_t)micro * pipeline->samples;
    memcpy(pipeline->tokens + first, batch->tokens, pipeline->samples * sizeof(int32_t));
    memcpy(pipeline->targets + first, batch->targets, pipeline->samples * sizeof(int32_t));
}
