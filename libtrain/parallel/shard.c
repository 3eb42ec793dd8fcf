/* SPDX-License-Identifier: Apache-2.0
 *
 * ZeRO: which units are where, and the two jobs that move them: a unit's gradient is reduced into
 * the shards, a unit's parameters are gathered from them. Jobs are done by a worker while the
 * step's thread computes, or at once without one.
 */
#include "libtrain/parallel/shard.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/parallel/compress.h"
#include "libtrain/parallel/measure.h"
#include "libtrain/parallel/units.h"
#include "libtrain/parallel/worker.h"
#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

enum job_kind { REDUCE, GATHER };

struct job {
    enum job_kind kind;
    int unit;
};

/* What of a unit is in memory, and what is under way. */
struct state {
    size_t missing;  /* gradients that backward has not announced yet */
    size_t gathered; /* jobs until its parameters are here; 0: they are not, or are here */
    int has_values, has_grads;                    /* pages are there */
    size_t value_pages, shadow_pages, grad_pages; /* bytes */
};

struct lt_shard {
    struct lt_shard_config config;
    struct lt_group *group, *owners; /* owners: of the units of experts */
    const struct lt_parameters *parameters;
    struct lt_trace *trace;
    struct lt_units units;
    struct state *state;
    struct lt_piece *piece;
    size_t pieces, *first_piece; /* of each unit; one more ends the last */
    struct lt_arena value_arena, grad_arena;
    float *value, *grad; /* shards; NULL: the flat arrays have them */
    struct lt_compress compress;
    float *buffer; /* of a unit */
    void *scratch;
    size_t buffer_bytes, scratch_bytes;
    struct lt_worker *worker;
    struct job *job;
    size_t jobs, reduces; /* posted since the last drain; of the last one that reduces */
    int first;            /* micro-batch of the step */
    int used, *order;     /* unit in use, or -1; units in the order of uses */
    size_t uses, at;      /* in order; made in this micro-batch */
    int learned;
    uint64_t sequence[2][2]; /* by kind of job; of experts */
    struct lt_group_sent sent[2];
    uint64_t steps, micro_steps; /* so far */
};

int lt_shard_apart(const struct lt_shard *shard)
{
    return lt_shard_sums(&shard->config);
}

size_t lt_shard_floats(const struct lt_shard *shard)
{
    return shard->units.floats;
}

const struct lt_piece *lt_shard_pieces(const struct lt_shard *shard, size_t *count)
{
    *count = shard->pieces;
    return shard->piece;
}

/* ---- what is in memory -------------------------------------------------------------------------- */

static void have_values(struct lt_shard *shard, int unit, int yes)
{
    struct state *state = &shard->state[unit];
    const struct lt_parameters *parameters = shard->parameters;
    int64_t pages = (int64_t)(state->value_pages + state->shadow_pages);
    if (state->has_values == yes)
        return;
    state->has_values = yes;
    lt_memory_add(LT_MEMORY_PARAMETERS, yes ? pages : -pages);
    if (yes)
        return;
    lt_unit_drop(&shard->units.unit[unit], parameters->value, sizeof(float));
    if (parameters->shadow)
        lt_unit_drop(&shard->units.unit[unit], parameters->shadow, sizeof(uint16_t));
}

static void have_grads(struct lt_shard *shard, int unit, int yes)
{
    struct state *state = &shard->state[unit];
    int64_t pages = (int64_t)state->grad_pages;
    if (shard->config.stage < 2 || state->has_grads == yes)
        return;
    state->has_grads = yes;
    lt_memory_add(LT_MEMORY_GRADIENTS, yes ? pages : -pages);
    if (!yes)
        lt_unit_drop(&shard->units.unit[unit], shard->parameters->grad, sizeof(float));
}

/* Does the codec work in this step? */
static int codes(const struct lt_shard *shard)
{
    return lt_codec_codes(&shard->config.codec) && shard->steps > shard->config.coded_after;
}

/* The ranks that have a unit. */
static struct lt_group *group_of(const struct lt_shard *shard, const struct lt_unit *unit)
{
    return unit->expert ? shard->owners : shard->group;
}

static struct lt_group_sent sent_by(const struct lt_group *group)
{
    return (struct lt_group_sent){group->bytes, group->messages};
}

/* Opens the range of a collective of one unit; a rank alone has none. */
static void comm_begin(struct lt_shard *shard, enum job_kind kind, const struct lt_unit *unit)
{
    if (unit->ranks == 1)
        return;
    struct tacho_comm comm = {.bytes = unit->all.count * sizeof(float),
                              .communicator = kind == REDUCE ? LT_COMMUNICATOR_GRADIENTS
                                                             : LT_COMMUNICATOR_PARAMETERS,
                              .sequence = shard->sequence[kind][unit->expert]++,
                              .ranks = (uint32_t)unit->ranks};
    comm.communicator +=
        unit->expert ? shard->config.owner_communicators : shard->config.communicators;
    comm.op = kind == REDUCE ? TACHO_COMM_REDUCE_SCATTER : TACHO_COMM_ALL_GATHER;
    lt_trace_comm_begin(shard->trace,
                        kind == REDUCE ? LT_RANGE_REDUCE_SCATTER : LT_RANGE_ALL_GATHER, &comm);
}

/* Ends it, and counts what was sent since `before`. */
static void comm_end(struct lt_shard *shard, enum job_kind kind, const struct lt_unit *unit,
                     struct lt_group_sent before)
{
    struct lt_group_sent now = sent_by(group_of(shard, unit));
    shard->sent[kind].bytes += now.bytes - before.bytes;
    shard->sent[kind].messages += now.messages - before.messages;
    if (unit->ranks > 1)
        lt_trace_end(shard->trace);
}

/* Adds the packed unit of all ranks to the sum, as floats or by the codec. */
static void sum_unit(struct lt_shard *shard, int index, float *sum)
{
    const struct lt_unit *unit = &shard->units.unit[index];
    int first = !shard->grad || shard->first;
    if (codes(shard))
        lt_compress_reduce(&shard->compress, index, shard->buffer, sum, first, shard->scratch);
    else
        lt_group_reduce_to(group_of(shard, unit), shard->config.kind, LT_DTYPE_FP32, shard->buffer,
                           unit->all.count, sum, first, shard->scratch);
}

/* In the first reduction of the step that is to show it, the way of sending gradients is chosen. */
static void adapt(struct lt_shard *shard, int unit, float *sum)
{
    struct lt_adapt *adapt = &shard->config.adapt;
    if (!adapt->choices || adapt->done || shard->steps <= adapt->after)
        return;
    lt_measure_choices(&shard->compress, adapt, shard->config.kind, unit, shard->buffer, sum,
                       shard->scratch, shard->scratch_bytes);
    shard->config.codec = shard->compress.codec = adapt->choice[adapt->chosen].codec;
    shard->config.coded_after = shard->steps - 1;
}

/* The unit's gradient, packed, is added to the ranks' sums of it. Where the sum has no array of its
 * own, it goes back into the flat one. */
static void reduce_unit(struct lt_shard *shard, int index)
{
    const struct lt_unit *unit = &shard->units.unit[index];
    struct lt_group_sent before;
    size_t bytes = unit->all.count * sizeof(float);
    float *sum = shard->grad ? shard->grad + unit->shard : shard->buffer + unit->own_first;
    lt_trace_begin(shard->trace, LT_RANGE_PACK, bytes, 0);
    lt_bucket_pack(&unit->all, shard->parameters->grad, LT_DTYPE_FP32, shard->buffer);
    have_grads(shard, index, 0);
    lt_trace_end(shard->trace);
    adapt(shard, index, sum);
    before = sent_by(group_of(shard, unit));
    comm_begin(shard, REDUCE, unit);
    sum_unit(shard, index, sum);
    comm_end(shard, REDUCE, unit, before);
    for (size_t i = shard->first_piece[index]; !shard->grad && i < shard->first_piece[index + 1];
         i++) {
        const struct lt_piece *piece = &shard->piece[i];
        memcpy(piece->grad, sum + (piece->at - unit->shard), piece->count * sizeof *sum);
    }
}

/* The unit's parameters come to this rank, its own from where the optimizer writes them. */
static void gather_unit(struct lt_shard *shard, int index)
{
    const struct lt_unit *unit = &shard->units.unit[index];
    const struct lt_parameters *parameters = shard->parameters;
    struct lt_group_sent before = sent_by(group_of(shard, unit));
    float *own = shard->buffer + unit->own_first;
    for (size_t i = shard->first_piece[index]; i < shard->first_piece[index + 1]; i++) {
        const struct lt_piece *piece = &shard->piece[i];
        memcpy(own + (piece->at - unit->shard), piece->value, piece->count * sizeof *own);
    }
    comm_begin(shard, GATHER, unit);
    lt_group_all_gather(group_of(shard, unit), LT_DTYPE_FP32, shard->buffer, unit->all.count);
    comm_end(shard, GATHER, unit, before);
    lt_trace_begin(shard->trace, LT_RANGE_UNPACK, unit->all.count * sizeof(float), 0);
    lt_bucket_unpack(&unit->all, parameters->value, LT_DTYPE_FP32, shard->buffer);
    for (size_t i = 0; parameters->shadow && i < unit->all.extents; i++) {
        const struct lt_extent *extent = &unit->all.extent[i];
        lt_shadow_refresh(parameters->shadow + extent->first, parameters->shadow_dtype,
                          parameters->value + extent->first, (int64_t)extent->count);
    }
    lt_trace_end(shard->trace);
}

static void do_job(void *arg, size_t number)
{
    struct lt_shard *shard = arg;
    struct job job = shard->job[number];
    if (job.kind == REDUCE)
        reduce_unit(shard, job.unit);
    else
        gather_unit(shard, job.unit);
}

/* Returns how many jobs must be done for this one to be. */
static size_t post(struct lt_shard *shard, enum job_kind kind, int unit)
{
    shard->job[shard->jobs++] = (struct job){kind, unit};
    if (shard->worker)
        lt_worker_post(shard->worker, shard->jobs);
    else
        do_job(shard, shard->jobs - 1);
    return shard->jobs;
}

static void wait_for(struct lt_shard *shard, size_t jobs)
{
    lt_trace_begin(shard->trace, LT_RANGE_COMM_WAIT, 0, 0);
    if (shard->worker)
        lt_worker_wait(shard->worker, jobs);
    lt_trace_end(shard->trace);
}

static void drain(struct lt_shard *shard)
{
    lt_trace_begin(shard->trace, LT_RANGE_COMM_WAIT, 0, 0);
    if (shard->worker)
        lt_worker_drain(shard->worker);
    shard->jobs = shard->reduces = 0;
    for (int i = 0; i < shard->units.count; i++)
        shard->state[i].gathered = 0;
    lt_trace_end(shard->trace);
}

/* ---- a step --------------------------------------------------------------------------------------- */

/* A unit is whole: at most one other one waits to be reduced, so that few are in memory. */
static void reduce_when_whole(struct lt_shard *shard, int index)
{
    if (shard->state[index].missing)
        return;
    if (shard->config.stage >= 2 && shard->reduces)
        wait_for(shard, shard->reduces);
    shard->reduces = post(shard, REDUCE, index);
}

static void ready(void *arg, size_t first, size_t count)
{
    struct lt_shard *shard = arg;
    int unit = lt_units_find(&shard->units, first);
    have_grads(shard, unit, 1);
    shard->state[unit].missing -= count;
    reduce_when_whole(shard, unit);
}

/* Starts to bring a unit here, unless it is or will be. */
static void fetch(struct lt_shard *shard, int unit)
{
    if (shard->state[unit].has_values || shard->units.unit[unit].all.count == 0)
        return;
    have_values(shard, unit, 1);
    shard->state[unit].gathered = post(shard, GATHER, unit);
}

/* The unit that will be used after the present one; -1: it is not known yet, or there is none. */
static int following(const struct lt_shard *shard)
{
    return shard->learned && shard->at < shard->uses ? shard->order[shard->at] : -1;
}

/* Brings the unit here if it is not; lets go of the one before, and starts to bring the next. */
static void use(void *arg, int unit)
{
    struct lt_shard *shard = arg;
    int before = shard->used;
    unit = unit < shard->units.count ? unit : 0;
    if (unit == before)
        return;
    if (!shard->learned && shard->worker)
        shard->order[shard->uses++] = unit;
    shard->at++;
    int next = following(shard);
    if (before >= 0)
        have_values(shard, before, 0);
    fetch(shard, unit);
    wait_for(shard, shard->state[unit].gathered);
    shard->used = unit;
    if (next >= 0 && shard->worker)
        fetch(shard, next);
}

void lt_shard_enter(struct lt_shard *shard, struct lt_context *context)
{
    shard->at = 0;
    if (shard->config.stage < 3)
        return;
    context->use = use;
    context->use_arg = shard;
}

void lt_shard_bring(struct lt_shard *shard, int unit)
{
    if (shard->config.stage == 3)
        use(shard, unit);
}

void lt_shard_leave(struct lt_shard *shard)
{
    if (shard->config.stage < 3)
        return;
    drain(shard);
    if (shard->used >= 0)
        have_values(shard, shard->used, 0);
    shard->used = -1;
}

void lt_shard_begin(struct lt_shard *shard, struct lt_context *context, int first, int last)
{
    shard->first = first;
    shard->steps += first != 0;
    shard->micro_steps++;
    for (int i = 0; i < shard->units.count; i++)
        shard->state[i].missing = shard->units.unit[i].all.count;
    if (lt_shard_apart(shard) || last) {
        context->ready = ready;
        context->ready_arg = shard;
    }
    lt_shard_enter(shard, context);
}

/* Backward may touch gradients of unit 0 from its start on, and announces them last. */
void lt_shard_turn(struct lt_shard *shard)
{
    have_grads(shard, 0, 1);
}

void lt_shard_end(struct lt_shard *shard)
{
    if (shard->config.stage < 3)
        drain(shard);
    lt_shard_leave(shard);
    shard->learned = 1;
}

void lt_shard_squares(const struct lt_shard *shard, const struct lt_context *context,
                      struct lt_exact *sum)
{
    for (size_t i = 0; i < shard->pieces; i++) {
        const struct lt_piece *piece = &shard->piece[i];
        if (piece->copied)
            continue;
        lt_op(context, LT_OP_NORM,
              &(union lt_args){
                  .norm = {.x = piece->grad, .count = (int64_t)piece->count, .exact = sum}});
    }
}

void lt_shard_updated(struct lt_shard *shard)
{
    if (shard->config.stage == 3)
        return;
    if (shard->group->ranks == 1) {
        lt_parameters_refresh(shard->parameters);
        return;
    }
    for (int i = 0; i < shard->units.count; i++)
        if (shard->units.unit[i].all.count)
            post(shard, GATHER, i);
    drain(shard);
}

/* ---- between steps -------------------------------------------------------------------------------- */

void lt_shard_whole(struct lt_shard *shard)
{
    struct lt_group_sent kept = shard->sent[GATHER];
    if (shard->config.stage < 3)
        return;
    for (int i = 0; i < shard->units.count; i++)
        fetch(shard, i);
    drain(shard);
    shard->sent[GATHER] = kept;
}

void lt_shard_release(struct lt_shard *shard)
{
    for (int i = 0; shard->config.stage == 3 && i < shard->units.count; i++)
        have_values(shard, i, 0);
}

void lt_shard_collect(struct lt_shard *shard, const float *own, float *whole)
{
    for (int i = 0; i < shard->units.count; i++) {
        const struct lt_unit *unit = &shard->units.unit[i];
        memcpy(shard->buffer + unit->own_first, own + unit->shard, unit->own_count * sizeof *own);
        lt_group_all_gather(group_of(shard, unit), LT_DTYPE_FP32, shard->buffer, unit->all.count);
        if (whole)
            lt_bucket_unpack(&unit->all, whole, LT_DTYPE_FP32, shard->buffer);
    }
}

void lt_shard_take(const struct lt_shard *shard, const float *whole, float *own)
{
    for (size_t i = 0; i < shard->pieces; i++) {
        const struct lt_piece *piece = &shard->piece[i];
        memcpy(own + piece->at, whole + piece->first, piece->count * sizeof *own);
    }
}

void lt_shard_adopt(struct lt_shard *shard)
{
    if (shard->config.stage < 3)
        return;
    lt_shard_take(shard, shard->parameters->value, shard->value);
    lt_shard_release(shard);
}

const struct lt_adapt *lt_shard_adapt(const struct lt_shard *shard, const struct lt_packer **packer)
{
    *packer = shard->config.codec.level ? &shard->compress.packer : NULL;
    return &shard->config.adapt;
}

struct lt_shard_sent lt_shard_sent(const struct lt_shard *shard, struct lt_shard_sent *formula,
                                   struct lt_shard_sent *floats)
{
    struct lt_shard_config config = shard->config;
    int rank = shard->group->rank, ranks = shard->group->ranks;
    *formula =
        lt_shard_formula(&config, shard->parameters, rank, ranks, shard->steps, shard->micro_steps);
    config.coded_after = UINT64_MAX;
    *floats =
        lt_shard_formula(&config, shard->parameters, rank, ranks, shard->steps, shard->micro_steps);
    return (struct lt_shard_sent){shard->sent[REDUCE], shard->sent[GATHER]};
}

/* ---- creation ------------------------------------------------------------------------------------- */

/* This rank's chunks as pieces, where they are now. */
static int cut(struct lt_shard *shard)
{
    size_t most = shard->units.places + LT_WEIGHT_CAP * (size_t)shard->units.count;
    shard->piece = calloc(most, sizeof *shard->piece);
    shard->first_piece = calloc((size_t)shard->units.count + 1, sizeof *shard->first_piece);
    if (!shard->piece || !shard->first_piece)
        return TACHO_ENOMEM;
    for (int i = 0; i < shard->units.count; i++) {
        const struct lt_unit *unit = &shard->units.unit[i];
        shard->pieces += lt_unit_cut(unit, shard->parameters, unit->own_first, unit->own_count,
                                     shard->piece + shard->pieces);
        for (size_t j = shard->first_piece[i]; j < shard->pieces; j++) {
            struct lt_piece *piece = &shard->piece[j];
            piece->at += unit->shard;
            if (shard->value)
                piece->value = shard->value + piece->at;
            if (shard->grad)
                piece->grad = shard->grad + piece->at;
        }
        shard->first_piece[i + 1] = shard->pieces;
    }
    return 0;
}

static int make_arena(struct lt_arena *arena, enum lt_memory_tag tag, size_t floats, float **slot)
{
    struct lt_tensor whole = {.name = "shard", .count = floats, .slot = slot};
    return lt_arena_create(arena, tag, &whole, 1);
}

/* Turns of a micro-batch to units, of all units together. Lists of operations turn to a unit more
 * than twice where they make blocks again in groups. */
static size_t turns_of(const struct lt_shard *shard)
{
    const struct lt_model *model = shard->config.model;
    size_t turns = 0;
    for (int i = 0; shard->config.stage == 3 && i < shard->units.count; i++)
        turns += (size_t)model->ops->uses(model, i);
    return turns;
}

/* Arrays of the shard, buffers, and what is known of each unit. */
static int allocate(struct lt_shard *shard)
{
    struct lt_units *units = &shard->units;
    int rc = lt_units_create(units, shard->parameters,
                             (struct lt_unit_ranks){shard->group->rank, shard->group->ranks,
                                                    shard->config.owner, shard->config.owners});
    if (rc)
        return rc;
    size_t count = (size_t)units->count, turns = turns_of(shard);
    shard->buffer_bytes = units->largest * sizeof(float);
    shard->scratch_bytes =
        lt_shard_scratch(&shard->config, shard->parameters, units, shard->group->ranks);
    shard->buffer = malloc(shard->buffer_bytes + 1);
    shard->scratch = malloc(shard->scratch_bytes + 1);
    shard->state = calloc(count, sizeof *shard->state);
    shard->job = calloc(2 * count + turns + 8, sizeof *shard->job);
    shard->order = calloc(turns + 1, sizeof *shard->order);
    if (!shard->buffer || !shard->scratch || !shard->state || !shard->job || !shard->order)
        return TACHO_ENOMEM;
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)(shard->buffer_bytes + shard->scratch_bytes));
    if (lt_shard_apart(shard))
        rc = make_arena(&shard->grad_arena, LT_MEMORY_GRADIENTS, units->floats, &shard->grad);
    if (rc == 0 && shard->config.stage == 3)
        rc = make_arena(&shard->value_arena, LT_MEMORY_PARAMETERS, units->floats, &shard->value);
    if (rc == 0)
        rc = lt_compress_open(&shard->compress, &shard->config.codec, &shard->config.adapt,
                              shard->group, shard->parameters, units);
    return rc ? rc : cut(shard);
}

/* From now on only what is in use is there: the arrays of the model have been whole until now. */
static void let_go(struct lt_shard *shard)
{
    const struct lt_parameters *parameters = shard->parameters;
    for (int i = 0; i < shard->units.count; i++) {
        const struct lt_unit *unit = &shard->units.unit[i];
        shard->state[i] = (struct state){
            .has_values = 1,
            .has_grads = 1,
            .value_pages = lt_unit_pages(unit, sizeof(float)),
            .shadow_pages = parameters->shadow ? lt_unit_pages(unit, sizeof(uint16_t)) : 0,
            .grad_pages = lt_unit_pages(unit, sizeof(float))};
        have_grads(shard, i, 0);
    }
    lt_shard_adopt(shard);
    if (shard->config.stage >= 2)
        lt_memory_reset_peak();
}

int lt_shard_create(struct lt_shard **out, const struct lt_shard_config *config,
                    struct lt_group *group, struct lt_group *owners,
                    const struct lt_parameters *parameters, struct lt_trace *trace,
                    struct tacho_error *err)
{
    struct lt_shard *shard = calloc(1, sizeof *shard);
    *out = shard;
    if (!shard)
        return lt_no_memory(err);
    *shard = (struct lt_shard){
        .config = *config, .group = group, .parameters = parameters, .trace = trace, .used = -1};
    shard->owners = owners;
    int rc = allocate(shard);
    if (rc)
        return tacho_fail(err, rc, "choose a smaller model, or more ranks",
                          "shards of the model: out of memory");
    let_go(shard);
    return config->overlap ? lt_worker_create(&shard->worker, do_job, shard, trace, err) : 0;
}

void lt_shard_destroy(struct lt_shard *shard)
{
    if (!shard)
        return;
    lt_worker_destroy(shard->worker);
    lt_arena_destroy(&shard->value_arena);
    lt_arena_destroy(&shard->grad_arena);
    lt_compress_close(&shard->compress);
    lt_units_destroy(&shard->units);
    if (shard->order) /* the last one of those that are in the book together */
        lt_memory_add(LT_MEMORY_WORKSPACE, -(int64_t)(shard->buffer_bytes + shard->scratch_bytes));
    free(shard->buffer);
    free(shard->scratch);
    free(shard->state);
    free(shard->job);
    free(shard->order);
    free(shard->piece);
    free(shard->first_piece);
    free(shard);
}
