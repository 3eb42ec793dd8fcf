/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints beside training: the copy, the thread that writes it, and how ranks agree that all
 * have. The thread makes no call of communication: the step's threads tell each other, in the steps
 * during which a checkpoint is under way.
 */
#include "libtrain/train/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/base/share.h"
#include "libtrain/speak/simulated.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/checkpoint_shards.h"
#include "libtrain/train/run.h"

#define LOOK_SECONDS 0.001 /* between looks of a rank that waits */

/* What a rank alone keeps of the run's arrays, as segments of the whole model's: with a division
 * its shard, else its share of each tensor. All ranks' segments together are each array once. */
struct segments {
    struct lt_segment *segment;
    const float **from; /* of each: where its floats are in this rank's arrays */
    size_t count, cap;
    uint64_t floats;       /* of all segments */
    uint64_t whole_floats; /* of the values and the state of the whole model */
};

struct lt_background {
    const char *path;
    const struct lt_division *division;
    const struct lt_optimizer *optimizer;
    struct lt_trace *trace;
    struct segments segments;
    float *copy;
    size_t bytes;
    struct lt_checkpoint state; /* of the checkpoint under way */
    enum { IDLE, SHARDS, INDEX } phase;
    pthread_t thread;
    int running;      /* there is a thread to join */
    int begun, ended; /* by the thread, with release */
    int rc;           /* what it has come to, and its words */
    struct tacho_error err;
    uint64_t sum, *sums; /* of the own shard; of all ranks' */
    double exposed, since;
};

/* ---- segments ------------------------------------------------------------------------------- */

/* Elements [first, end) of this rank's flat arrays, and where they are; `at`: their first one in
 * the optimizer's arrays. */
struct stretch {
    size_t first, end, at;
    const float *value;
};

/* What segments are made from. */
struct listing {
    struct segments *out;
    const struct lt_optimizer *optimizer;
    struct stretch stretch;
    int failed;
};

static int append(struct segments *out, uint64_t array, size_t first, size_t count,
                  const float *from)
{
    if (out->count == out->cap) {
        size_t cap = out->cap ? 2 * out->cap : 64;
        struct lt_segment *segment = realloc(out->segment, cap * sizeof *segment);
        out->segment = segment ? segment : out->segment;
        const float **places = realloc(out->from, cap * sizeof *places);
        out->from = places ? places : out->from;
        if (!segment || !places)
            return TACHO_ENOMEM;
        out->cap = cap;
    }
    out->segment[out->count] = (struct lt_segment){array, first, count};
    out->from[out->count++] = from;
    out->floats += count;
    return 0;
}

/* Elements from[, count) of the rank's arrays are to[, count) of the whole ones; of these, those
 * that lie in the stretch. */
static void add_run(void *arg, size_t from, size_t to, size_t count)
{
    struct listing *listing = arg;
    const struct stretch *stretch = &listing->stretch;
    size_t low = from > stretch->first ? from : stretch->first,
           high = from + count < stretch->end ? from + count : stretch->end;
    if (low >= high)
        return;
    size_t skip = low - stretch->first;
    int rc = append(listing->out, 0, to + (low - from), high - low, stretch->value + skip);
    for (int i = 0; rc == 0 && i < LT_OPTIMIZER_STATES; i++)
        if (listing->optimizer->state[i])
            rc = append(listing->out, (uint64_t)i + 1, to + (low - from), high - low,
                        listing->optimizer->state[i] + stretch->at + skip);
    listing->failed = listing->failed ? listing->failed : rc;
}

/* The tensor that an element belongs to. */
static int tensor_of(const struct lt_parameters *parameters, size_t element)
{
    int tensor = 0;
    while (tensor + 1 < parameters->weights && parameters->weight[tensor + 1].first <= element)
        tensor++;
    return tensor;
}

/* Of a division: the pieces of the shard, each of which is a part of one tensor. */
static void list_pieces(struct listing *listing, const struct lt_division *division)
{
    size_t pieces;
    const struct lt_piece *piece = lt_shard_pieces(division->shard, &pieces);
    const struct lt_model *model = division->model;
    const struct lt_parameters *own = &model->parameters;
    struct lt_parameters whole = *own;
    struct lt_slice slice = {.ranks = 1};
    if (lt_division_parts(division) > 1)
        slice = model->ops->stage->whole(model, &whole);
    listing->out->whole_floats = whole.trainable;
    for (size_t i = 0; i < pieces && !listing->failed; i++) {
        listing->stretch = (struct stretch){piece[i].first, piece[i].first + piece[i].count,
                                            piece[i].at, piece[i].value};
        if (piece[i].copied)
            continue;
        if (!own->weights) {
            add_run(listing, piece[i].first, piece[i].first, piece[i].count);
            continue;
        }
        int tensor = tensor_of(own, piece[i].first);
        lt_slice_runs(&own->weight[tensor], &whole.weight[tensor], own->groups[tensor], &slice,
                      add_run, listing);
    }
}

/* Without one: as many elements of each tensor as of the others. */
static void list_shares(struct listing *listing, const struct lt_parameters *parameters, int rank,
                        int ranks)
{
    struct lt_weight all = {.repeat = 1, .rows = 1, .columns = (int64_t)parameters->count};
    listing->out->whole_floats = parameters->trainable;
    for (int i = 0; (i == 0 || i < parameters->weights) && !listing->failed; i++) {
        const struct lt_weight *weight = parameters->weights ? &parameters->weight[i] : &all;
        size_t size = (size_t)(weight->repeat * weight->rows * weight->columns),
               first = weight->first + lt_share(size, ranks, rank),
               end = weight->first + lt_share(size, ranks, rank + 1);
        listing->stretch = (struct stretch){first, end, first, parameters->value + first};
        add_run(listing, first, first, end - first);
    }
}

static int list_segments(struct segments *out, const struct lt_division *division,
                         const struct lt_optimizer *optimizer)
{
    const struct lt_model *model = division->model;
    int rank = lt_parallel_rank(division->parallel), ranks = lt_parallel_ranks(division->parallel);
    struct listing listing = {.out = out, .optimizer = optimizer};
    *out = (struct segments){0};
    if (division->shard)
        list_pieces(&listing, division);
    else
        list_shares(&listing, &model->parameters, rank, ranks);
    out->whole_floats += model->states;
    if (!listing.failed && rank == 0 && model->states)
        listing.failed = append(out, LT_SEGMENT_STATE, 0, model->states, model->state);
    return listing.failed;
}

static void free_segments(struct segments *segments)
{
    free(segments->segment);
    free(segments->from);
    *segments = (struct segments){0};
}

/* ---- the copy --------------------------------------------------------------------------------- */

/* Bytes of so many floats, and of the one that makes their number even. */
static size_t copy_bytes(uint64_t floats)
{
    return (size_t)(floats + floats % 2) * sizeof(float);
}

size_t lt_background_bytes(const struct lt_optimizer_config *optimizer, size_t floats)
{
    struct lt_parameters own = {.count = floats};
    size_t sizes[LT_OPTIMIZER_STATES], scratch, all = floats;
    lt_optimizer_sizes(optimizer, &own, sizes, &scratch);
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        all += sizes[i];
    return copy_bytes(all);
}

int lt_background_open(struct lt_background **out, const char *path,
                       const struct lt_division *division, const struct lt_optimizer *optimizer,
                       struct lt_trace *trace, struct tacho_error *err)
{
    if (division->model->parameters.space)
        return tacho_fail(err, TACHO_ENOTSUP, "leave it out",
                          "--checkpoint-async: not on a device");
    if (!lt_optimizer_parts(&optimizer->config))
        return tacho_fail(err, TACHO_EUSAGE,
                          "choose one that updates each element alone, for instance adamw, without "
                          "--lookahead",
                          "--checkpoint-async: %s has a state of whole tensors",
                          lt_optimizer_name(optimizer->config.kind));
    struct lt_background *background = calloc(1, sizeof *background);
    *out = background;
    if (!background)
        return lt_no_memory(err);
    *background = (struct lt_background){
        .path = path, .division = division, .optimizer = optimizer, .trace = trace};
    background->sums =
        calloc((size_t)lt_parallel_ranks(division->parallel) + 1, sizeof *background->sums);
    if (!background->sums || list_segments(&background->segments, division, optimizer))
        return lt_no_memory(err);
    background->bytes = copy_bytes(background->segments.floats);
    background->copy = calloc(1, background->bytes + 1);
    if (!background->copy)
        return lt_no_memory(err);
    memset(background->copy, 0, background->bytes); /* touched now, not in a step */
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)background->bytes);
    return 0;
}

static void join(struct lt_background *background)
{
    if (background->running)
        pthread_join(background->thread, NULL);
    background->running = 0;
}

void lt_background_close(struct lt_background *background)
{
    if (!background)
        return;
    join(background);
    free_segments(&background->segments);
    if (background->copy)
        lt_memory_add(LT_MEMORY_WORKSPACE, -(int64_t)background->bytes);
    free(background->copy);
    free(background->sums);
    free(background);
}

/* ---- the thread -------------------------------------------------------------------------------- */

static int write_shard(struct lt_background *background)
{
    struct lt_parallel *parallel = background->division->parallel;
    struct lt_shard_file shard = {.segment = background->segments.segment,
                                  .segments = background->segments.count,
                                  .data = background->copy,
                                  .floats = background->segments.floats,
                                  .step = background->state.step,
                                  .rank = lt_parallel_rank(parallel),
                                  .ranks = lt_parallel_ranks(parallel)};
    return lt_shards_write(background->path, &shard, &background->sum, &background->err);
}

static int write_index(struct lt_background *background)
{
    int rc = lt_checkpoint_write_index(
        background->path, background->division->model, background->optimizer,
        background->segments.whole_floats, &background->state, background->sums,
        lt_parallel_ranks(background->division->parallel), &background->err);
    if (rc == 0)
        lt_shards_clean(background->path, background->state.step,
                        lt_parallel_ranks(background->division->parallel));
    return rc;
}

static void *work(void *arg)
{
    struct lt_background *background = arg;
    int index = background->phase == INDEX;
    lt_trace_thread(background->trace, "checkpoint-0");
    lt_trace_begin(background->trace, LT_RANGE_CHECKPOINT, index ? 0 : background->bytes, 0);
    __atomic_store_n(&background->begun, 1, __ATOMIC_RELEASE);
    background->rc = index ? write_index(background) : write_shard(background);
    lt_trace_end(background->trace);
    __atomic_store_n(&background->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Starts the thread, and waits until it has begun, so that its range begins within that of the
 * step's thread. Where there can be no thread, the work is done here. */
static void start(struct lt_background *background)
{
    sigset_t all, before;
    background->begun = background->ended = 0;
    sigfillset(&all); /* a signal for the program is the main thread's to handle */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    background->running = pthread_create(&background->thread, NULL, work, background) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!background->running) {
        background->rc =
            background->phase == INDEX ? write_index(background) : write_shard(background);
        background->begun = background->ended = 1;
    }
    while (!__atomic_load_n(&background->begun, __ATOMIC_ACQUIRE))
        lt_sleep(1e-5);
}

/* ---- the step's thread -------------------------------------------------------------------------- */

void lt_background_begin(struct lt_background *background, const struct lt_checkpoint *state,
                         double since)
{
    const struct segments *segments = &background->segments;
    float *to = background->copy;
    for (size_t i = 0; i < segments->count; i++) {
        memcpy(to, segments->from[i], (size_t)segments->segment[i].count * sizeof *to);
        to += segments->segment[i].count;
    }
    background->state = *state;
    background->rc = 0;
    background->phase = SHARDS;
    start(background);
    background->since = lt_run_seconds();
    background->exposed = background->since - since;
}

/* What ranks tell each other. Bits of a sum travel as those of a double. */
struct word {
    double ended;
    uint64_t sum;
};

/* Have all ranks ended this phase? Then *rc is what they have come to. Rank 0 alone has an index to
 * write. */
static int all_ended(struct lt_background *background)
{
    struct lt_parallel *parallel = background->division->parallel;
    size_t ranks = (size_t)lt_parallel_ranks(parallel);
    int works = background->phase == SHARDS || lt_parallel_rank(parallel) == 0, all = 1;
    struct word own = {.ended = 1}, *words = calloc(ranks, sizeof *words);
    if (!words)
        return 0; /* asked again after the next step */
    if (works &&
        lt_parallel_answer(parallel, __atomic_load_n(&background->ended, __ATOMIC_ACQUIRE)))
        join(background); /* where the order is enforced, it may yet have to end */
    else if (works)
        own.ended = 0;
    own.sum = background->sum;
    lt_parallel_gather(parallel, &own.ended, 2, &words->ended);
    for (size_t i = 0; i < ranks; i++) {
        all = all && words[i].ended > 0;
        if (background->phase == SHARDS)
            background->sums[i] = words[i].sum;
    }
    free(words);
    return all;
}

/* After shards comes the index, after it nothing. */
static int next_phase(struct lt_background *background, struct lt_background_done *done,
                      struct tacho_error *err)
{
    struct lt_parallel *parallel = background->division->parallel;
    join(background);
    if (background->rc)
        *err = background->err;
    int rc = lt_parallel_agree(parallel, background->rc, err);
    background->rc = 0;
    if (rc) {
        background->phase = IDLE;
        return rc;
    }
    if (background->phase == SHARDS) {
        background->phase = INDEX;
        if (lt_parallel_rank(parallel) == 0)
            start(background);
        return 0;
    }
    background->phase = IDLE;
    *done = (struct lt_background_done){.step = (int64_t)background->state.step,
                                        .seconds = lt_run_seconds() - background->since,
                                        .exposed = background->exposed};
    return 0;
}

int lt_background_look(struct lt_background *background, int wait, struct lt_background_done *done,
                       struct tacho_error *err)
{
    double from = lt_run_seconds();
    int rc = 0;
    *done = (struct lt_background_done){0};
    if (!background || background->phase == IDLE)
        return 0;
    if (wait)
        lt_trace_begin(background->trace, LT_RANGE_CHECKPOINT, 0, 0);
    while (rc == 0 && background->phase != IDLE) {
        int ended = all_ended(background);
        if (ended)
            rc = next_phase(background, done, err);
        else if (wait)
            lt_sleep(LOOK_SECONDS);
        else
            break;
    }
    if (wait)
        lt_trace_end(background->trace);
    done->exposed += lt_run_seconds() - from;
    if (done->step == 0)
        background->exposed += lt_run_seconds() - from;
    return rc;
}
