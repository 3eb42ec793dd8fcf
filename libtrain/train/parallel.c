/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism over ranks. A step posts jobs in a fixed order: job 0 sends the news of the step
 * (loss, error, signal), job i the bucket of gradients whose turn is the i-th. With overlap a
 * progress thread does the jobs while backward goes on; else the step's thread does them at the
 * end. The order is the same on all ranks, which is what MPI's collectives need.
 */
#include "libtrain/train/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/base/memory.h"
#include "libtrain/parallel/worker.h"
#include "libtrain/speak/simulated.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/checkpoint.h"
#include "libtrain/train/watchdog.h"
#include "tacho_nvtx.h"

struct lt_parallel {
    struct lt_mpi_place place;
    struct lt_parallel_config config;
    int overlap, quiet;
    const struct lt_parameters *parameters;
    struct lt_trace *trace;
    enum lt_dtype dtype;
    struct lt_buckets buckets;
    /* scratch: for the repetitions of a slow link; parts: what the engine's own all-reduce needs */
    void *buffer, *scratch, *parts;
    size_t buffer_bytes; /* of the three together */
    struct lt_group group;
    uint64_t gathers, sums; /* sequence numbers, counted by the thread that is inside MPI */
    /* of the step; job 0 sends the news, job k the bucket of the k-th turn counted from 1 */
    struct lt_parallel_status mine, all;
    struct lt_worker *worker; /* with overlap */
    struct lt_watchdog *watchdog;
    struct lt_order *order; /* NULL: it is neither recorded nor enforced */
};

/* ---- ranks ------------------------------------------------------------------------------------------------------------- */

int lt_parallel_open(struct lt_parallel **out, const struct lt_parallel_config *config,
                     struct tacho_error *err)
{
    struct lt_parallel *parallel = calloc(1, sizeof *parallel);
    *out = parallel;
    if (!parallel)
        return lt_no_memory(err);
    int rc = lt_mpi_open(&parallel->place, err);
    if (rc)
        return rc;
    lt_parallel_configure(parallel, config);
    if (lt_watchdog_open(&parallel->watchdog, &parallel->place, &config->plan))
        return lt_no_memory(err);
    parallel->group =
        (struct lt_group){.rank = parallel->place.rank,
                          .ranks = parallel->place.ranks,
                          .near = config->near ? config->near : parallel->place.local_ranks,
                          .exchange = lt_mpi_exchange,
                          .post = lt_mpi_post,
                          .settle = lt_mpi_settle,
                          .take = lt_mpi_take,
                          .arrived = lt_mpi_arrived};
    if (config->slow_rank >= parallel->place.ranks)
        rc = tacho_fail(err, TACHO_EUSAGE, "ranks count from 0; mpirun -np N starts N of them",
                        "--slow-rank %d: there %s %d rank%s", config->slow_rank,
                        parallel->place.ranks == 1 ? "is" : "are", parallel->place.ranks,
                        tacho_plural(parallel->place.ranks));
    return lt_parallel_agree(parallel, rc, err);
}

void lt_parallel_configure(struct lt_parallel *parallel, const struct lt_parallel_config *config)
{
    parallel->config = *config;
    parallel->overlap = config->overlap && parallel->place.serialized && parallel->place.ranks > 1;
}

void lt_parallel_close(struct lt_parallel *parallel)
{
    if (!parallel)
        return;
    lt_parallel_detach(parallel);
    lt_mpi_order(NULL);
    lt_order_destroy(parallel->order);
    lt_watchdog_close(parallel->watchdog);
    lt_mpi_close();
    free(parallel);
}

int lt_parallel_rank(const struct lt_parallel *parallel)
{
    return parallel ? parallel->place.rank : 0;
}

int lt_parallel_ranks(const struct lt_parallel *parallel)
{
    return parallel ? parallel->place.ranks : 1;
}

const struct lt_mpi_place *lt_parallel_place(const struct lt_parallel *parallel)
{
    return &parallel->place;
}

struct lt_group_sent lt_parallel_sent(const struct lt_parallel *parallel)
{
    if (!parallel)
        return (struct lt_group_sent){0};
    return (struct lt_group_sent){parallel->group.bytes, parallel->group.messages};
}

struct lt_group *lt_parallel_group(struct lt_parallel *parallel)
{
    return parallel ? &parallel->group : NULL;
}

int lt_parallel_overlaps(const struct lt_parallel *parallel)
{
    return parallel && parallel->overlap;
}

int lt_parallel_early(const struct lt_parallel *parallel)
{
    return lt_parallel_overlaps(parallel) && parallel->config.priority > 0;
}

int lt_parallel_threads(const struct lt_parallel *parallel)
{
    int threads = parallel->place.cores / parallel->place.sharers;
    return threads > 1 ? threads : 1;
}

/* On the thread that may be inside MPI now: the step's thread, or the progress thread while the
 * former waits for it. */
static void gather(struct lt_parallel *parallel, const void *mine, void *all, size_t bytes)
{
    struct tacho_comm comm = {.bytes = bytes * (size_t)parallel->place.ranks,
                              .communicator = LT_COMMUNICATOR_CONTROL,
                              .sequence = parallel->gathers++,
                              .op = TACHO_COMM_ALL_GATHER,
                              .ranks = (uint32_t)parallel->place.ranks};
    lt_trace_comm_begin(parallel->trace, LT_RANGE_ALL_GATHER, &comm);
    lt_mpi_gather(mine, all, bytes);
    lt_trace_end(parallel->trace);
}

/* An array that the step cannot go on without; the other ranks wait for this one, so there is no
 * way back. */
static void *need(struct lt_parallel *parallel, size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory) {
        fprintf(stderr, "train: rank %d: out of memory\n", parallel->place.rank);
        lt_mpi_abort(tacho_error_exit(TACHO_ENOMEM));
    }
    return memory;
}

void lt_parallel_gather(struct lt_parallel *parallel, const double *mine, size_t count, double *all)
{
    if (lt_parallel_ranks(parallel) > 1)
        gather(parallel, mine, all, count * sizeof *mine);
    else
        memcpy(all, mine, count * sizeof *mine);
}

void lt_parallel_add(struct lt_parallel *parallel, const struct lt_exact *mine,
                     struct lt_exact *all)
{
    int ranks = lt_parallel_ranks(parallel);
    *all = *mine;
    if (ranks == 1)
        return;
    struct lt_exact *each = need(parallel, (size_t)ranks * sizeof *each);
    gather(parallel, mine, each, sizeof *each);
    *all = (struct lt_exact){0};
    for (int i = 0; i < ranks; i++)
        lt_exact_add(all, &each[i]);
    free(each);
}

/* This rank cannot go on, and the others do not listen. */
static void quit(const struct lt_parallel *parallel, int rc, const struct tacho_error *err)
{
    fprintf(stderr, "train: rank %d: %s\n", parallel->place.rank, err->what);
    if (err->hint[0])
        fprintf(stderr, "hint: %s\n", err->hint);
    lt_mpi_abort(tacho_error_exit(rc));
}

int lt_parallel_agree(struct lt_parallel *parallel, int rc, struct tacho_error *err)
{
    int ranks = lt_parallel_ranks(parallel), first = -1, same = 1;
    if (ranks == 1)
        return rc;
    if (parallel->quiet) {
        if (rc)
            quit(parallel, rc, err);
        return rc;
    }
    int *all = need(parallel, (size_t)ranks * sizeof *all);
    gather(parallel, &rc, all, sizeof rc);
    for (int i = 0; i < ranks; i++) {
        if (all[i] && first < 0)
            first = i;
        same = same && all[i] == all[0];
    }
    int code = first < 0 ? 0 : all[first];
    free(all);
    if (!code)
        return 0;
    struct tacho_error own = *err;
    *err = (struct tacho_error){.code = rc ? rc : code};
    if (rc && same && parallel->place.rank == 0)
        *err = own;
    else if (rc && !same)
        tacho_fail(err, rc, own.hint, "rank %d: %s", parallel->place.rank, own.what);
    return err->code;
}

/* The checksum of this rank's weights, wherever they lie. */
static uint64_t sum_of(struct lt_parallel *parallel)
{
    const struct lt_parameters *parameters = parallel->parameters;
    size_t bytes = parameters->count * sizeof *parameters->value;
    if (!parameters->space)
        return lt_checkpoint_sum(parameters->value, bytes);
    float *copy = need(parallel, bytes);
    parameters->space->read(parameters->space, copy, parameters->value, bytes);
    uint64_t sum = lt_checkpoint_sum(copy, bytes);
    free(copy);
    return sum;
}

int lt_parallel_check(struct lt_parallel *parallel, int64_t step, struct tacho_error *err)
{
    int ranks = lt_parallel_ranks(parallel), differs = -1;
    if (ranks == 1)
        return 0;
    int stride = parallel->config.replicas ? parallel->config.stride : 1;
    int peers = parallel->config.replicas ? parallel->config.replicas * stride : ranks;
    uint64_t mine = sum_of(parallel);
    uint64_t *all = need(parallel, (size_t)ranks * sizeof *all);
    gather(parallel, &mine, all, sizeof mine);
    for (int i = 1; i < ranks && differs < 0; i++)
        if (all[i] != all[i / peers * peers + i % stride])
            differs = i;
    free(all);
    if (differs < 0)
        return 0;
    int rc = tacho_fail(
        err, TACHO_EINTERNAL,
        "give all ranks the same number of OpenMP threads and the same kind of processor",
        "after step %lld the weights of rank %d are not those of rank %d", (long long)step, differs,
        differs / peers * peers + differs % stride);
    lt_parallel_silence(parallel, err);
    return rc;
}

void lt_parallel_saved(struct lt_parallel *parallel, const char *path, int64_t steps)
{
    if (parallel)
        lt_watchdog_saved(parallel->watchdog, path, steps);
}

void lt_parallel_step(struct lt_parallel *parallel, int64_t step)
{
    if (!parallel)
        return;
    lt_watchdog_step(parallel->watchdog, step);
    lt_order_step(parallel->order, step);
}

int lt_parallel_order(struct lt_parallel *parallel, const char *path, int enforce, int rc,
                      struct tacho_error *err)
{
    int rank = parallel->place.rank, ranks = parallel->place.ranks;
    struct lt_order *order = NULL;
    if (rc == 0 && enforce)
        rc = lt_order_replay(&order, path, rank, ranks, err);
    else if (rc == 0)
        rc = lt_order_record(&order, path, rank, ranks, err);
    rc = lt_parallel_agree(parallel, rc, err);
    if (rc) {
        lt_order_destroy(order);
        return rc;
    }
    parallel->order = order;
    lt_mpi_order(order);
    return 0;
}

int lt_parallel_answer(struct lt_parallel *parallel, int seen)
{
    return parallel && parallel->order ? lt_mpi_answer(seen) : seen;
}

int lt_parallel_order_end(struct lt_parallel *parallel, int rc, struct tacho_error *err)
{
    if (!parallel || !parallel->order)
        return rc;
    lt_mpi_order(NULL);
    if (rc == 0)
        rc = lt_order_finish(parallel->order, err);
    lt_order_destroy(parallel->order);
    parallel->order = NULL;
    return lt_parallel_agree(parallel, rc, err);
}

/* ---- a step: jobs, done in order by the progress thread, or by the step's thread at the end ------------------------------ */

/* All ranks learn the mean loss, the first error and the highest signal of the step. */
static void send_status(struct lt_parallel *parallel)
{
    size_t ranks = (size_t)parallel->place.ranks;
    if (parallel->quiet) {
        parallel->all = parallel->mine;
        parallel->all.stop = 0;
        return;
    }
    struct lt_parallel_status *each = need(parallel, ranks * sizeof *each);
    gather(parallel, &parallel->mine, each, sizeof *each);
    parallel->all = (struct lt_parallel_status){0};
    for (size_t i = 0; i < ranks; i++) {
        parallel->all.loss += each[i].loss;
        parallel->all.code = parallel->all.code ? parallel->all.code : each[i].code;
        parallel->all.stop = parallel->all.stop > each[i].stop ? parallel->all.stop : each[i].stop;
    }
    parallel->all.loss /= (double)ranks;
    free(each);
}

/* One all-reduce of `count` elements, by the library or by messages of the engine's own. */
static void sum(struct lt_parallel *parallel, const void *from, void *to, size_t count)
{
    if (!parallel->config.own_messages) {
        lt_mpi_sum(parallel->dtype, from, to, count);
        return;
    }
    if (from != to)
        memcpy(to, from, count * lt_dtype_bytes(parallel->dtype));
    lt_group_all_reduce(&parallel->group, parallel->config.all_reduce, parallel->dtype, to, count,
                        parallel->parts);
}

/* Sums one bucket over the ranks. A bucket that is one piece of fp32 gradients is summed in
 * place; else it is packed and unpacked. A slow link sends it several times, of which the last
 * counts. */
static void reduce(struct lt_parallel *parallel, size_t turn)
{
    size_t number = parallel->buckets.turn[turn].bucket;
    const struct lt_bucket *bucket = &parallel->buckets.bucket[number];
    float *grad = parallel->parameters->grad;
    void *whole = parallel->dtype == LT_DTYPE_FP32 ? lt_bucket_whole(bucket, grad) : NULL;
    void *buffer = whole ? whole : parallel->buffer;
    size_t bytes = bucket->count * lt_dtype_bytes(parallel->dtype);
    struct tacho_comm comm = {.bytes = bytes * (size_t)parallel->config.slow_link,
                              .communicator = LT_COMMUNICATOR_GRADIENTS,
                              .sequence = parallel->sums++,
                              .op = TACHO_COMM_ALL_REDUCE,
                              .ranks = (uint32_t)parallel->place.ranks};
    if (!whole) {
        lt_trace_begin(parallel->trace, LT_RANGE_PACK, bytes, 0);
        lt_bucket_pack(bucket, grad, parallel->dtype, buffer);
        lt_trace_end(parallel->trace);
    }
    if (lt_parallel_early(parallel))
        lt_trace_count(parallel->trace, LT_COUNTER_BUCKET, (double)number);
    lt_trace_comm_begin(parallel->trace, LT_RANGE_ALL_REDUCE, &comm);
    if (parallel->config.link_seconds > 0)
        lt_sleep(parallel->config.link_seconds);
    for (int i = 1; i < parallel->config.slow_link; i++)
        sum(parallel, buffer, parallel->scratch, bucket->count);
    sum(parallel, buffer, buffer, bucket->count);
    lt_trace_end(parallel->trace);
    if (!whole) {
        lt_trace_begin(parallel->trace, LT_RANGE_UNPACK, bytes, 0);
        lt_bucket_unpack(bucket, grad, parallel->dtype, buffer);
        lt_trace_end(parallel->trace);
    }
}

/* For the worker, or at the end of the step. */
static void job(void *arg, size_t number)
{
    struct lt_parallel *parallel = arg;
    if (number == 0)
        send_status(parallel);
    else if (!parallel->all.code) /* a step that failed anywhere is reduced nowhere */
        reduce(parallel, number - 1);
}

void lt_parallel_quiet(struct lt_parallel *parallel, int quiet)
{
    if (parallel)
        parallel->quiet = quiet;
}

void lt_parallel_send(struct lt_parallel *parallel, const struct lt_parallel_status *mine)
{
    if (!parallel)
        return;
    parallel->mine = *mine;
    lt_buckets_reset(&parallel->buckets);
    if (parallel->worker)
        lt_worker_post(parallel->worker, 1);
    if (!mine->code)
        lt_parallel_sleep(parallel, LT_SLOW_BETWEEN);
}

int lt_parallel_is_slow(const struct lt_parallel *parallel, enum lt_slow_stage stage)
{
    return parallel && parallel->config.slow_rank == parallel->place.rank &&
           parallel->config.slow_stage == stage;
}

void lt_parallel_sleep(const struct lt_parallel *parallel, enum lt_slow_stage stage)
{
    if (!lt_parallel_is_slow(parallel, stage))
        return;
    lt_trace_begin(parallel->trace, LT_RANGE_SLEEP, 0, 0);
    lt_sleep(parallel->config.slow_seconds);
    lt_trace_end(parallel->trace);
}

void lt_parallel_ready(void *parallel, size_t first, size_t count)
{
    struct lt_parallel *p = parallel;
    size_t before = lt_buckets_turns(&p->buckets);
    int rc = lt_buckets_add(&p->buckets, first, count);
    if (rc) {
        fprintf(stderr, "train: rank %d: gradients: %s\n", p->place.rank, tacho_error_text(rc));
        lt_mpi_abort(tacho_error_exit(rc));
    }
    size_t turns = lt_buckets_turns(&p->buckets);
    if (p->worker && turns > before)
        lt_worker_post(p->worker, 1 + turns);
}

/* Waits for the first jobs of the step, which the progress thread does. */
static void wait_for_first(struct lt_parallel *parallel, size_t jobs)
{
    lt_trace_begin(parallel->trace, LT_RANGE_COMM_WAIT, 0, 0);
    lt_worker_wait(parallel->worker, jobs);
    lt_trace_end(parallel->trace);
}

int lt_parallel_news(struct lt_parallel *parallel, struct lt_parallel_status *news)
{
    wait_for_first(parallel, 1);
    *news = parallel->all;
    return news->code;
}

void lt_parallel_wait(struct lt_parallel *parallel, size_t turns)
{
    wait_for_first(parallel, 1 + turns);
}

const struct lt_buckets *lt_parallel_buckets(const struct lt_parallel *parallel)
{
    return &parallel->buckets;
}

/* At the end of a step: waits for the progress thread, or does the jobs now. */
static void wait_for_jobs(struct lt_parallel *parallel)
{
    lt_trace_begin(parallel->trace, LT_RANGE_COMM_WAIT, 0, 0);
    if (parallel->worker) {
        lt_worker_drain(parallel->worker);
    } else {
        for (size_t i = 0; i <= parallel->buckets.closed; i++)
            job(parallel, i);
    }
    lt_trace_end(parallel->trace);
}

int lt_parallel_finish(struct lt_parallel *parallel, int rc, struct lt_parallel_status *news,
                       struct tacho_error *err)
{
    struct lt_parallel *p = parallel;
    if (lt_parallel_ranks(p) == 1)
        return rc;
    wait_for_jobs(p);
    *news = p->all;
    if (rc) {
        struct tacho_error own = *err;
        return tacho_fail(err, rc, own.hint, "rank %d: %s", p->place.rank, own.what);
    }
    if (p->all.code) {
        *err = (struct tacho_error){.code = p->all.code}; /* whose error it is has the words */
        return err->code;
    }
    if (p->buckets.added != p->buckets.elements)
        rc = tacho_fail(err, TACHO_EINTERNAL, NULL,
                        "rank %d: backward reported %zu of %zu gradients", p->place.rank,
                        p->buckets.added, p->buckets.elements);
    return rc;
}

void lt_parallel_silence(const struct lt_parallel *parallel, struct tacho_error *err)
{
    if (lt_parallel_rank(parallel) > 0)
        err->what[0] = err->hint[0] = '\0';
}

/* ---- what a training run needs ------------------------------------------------------------------------------------------- */

/* Elements of a bucket. */
static size_t bucket_size(const struct lt_parallel *parallel, size_t trainable, enum lt_dtype dtype)
{
    double size = parallel->config.bucket_bytes / (double)lt_dtype_bytes(dtype);
    if (parallel->config.bucket_bytes <= 0 || size >= (double)trainable)
        return trainable;
    return size < 1 ? 1 : (size_t)size;
}

/* Scratch of the engine's own all-reduce of a bucket. */
static size_t parts_bytes(const struct lt_parallel *parallel, size_t size, enum lt_dtype dtype)
{
    if (!parallel->config.own_messages)
        return 0;
    return lt_group_scratch(parallel->config.all_reduce, parallel->place.ranks, dtype, size);
}

int lt_parallel_cut(const struct lt_parallel *parallel, size_t trainable, enum lt_dtype dtype,
                    struct lt_buckets *out)
{
    int rc = lt_buckets_create(out, trainable, bucket_size(parallel, trainable, dtype));
    if (rc == 0 && lt_parallel_early(parallel))
        lt_buckets_prefer(out, parallel->config.priority);
    return rc;
}

size_t lt_parallel_buffer_bytes(const struct lt_parallel *parallel, size_t trainable,
                                enum lt_dtype dtype)
{
    if (lt_parallel_ranks(parallel) == 1 || parallel->config.sharded)
        return 0;
    size_t size = bucket_size(parallel, trainable, dtype);
    return size * lt_dtype_bytes(dtype) * (parallel->config.slow_link > 1 ? 2 : 1) +
           parts_bytes(parallel, size, dtype);
}

int lt_parallel_attach(struct lt_parallel *parallel, const struct lt_parameters *parameters,
                       enum lt_dtype dtype, struct lt_trace *trace, struct tacho_error *err)
{
    struct lt_parallel *p = parallel;
    if (!p)
        return 0;
    p->parameters = parameters;
    p->trace = trace;
    p->dtype = dtype;
    lt_watchdog_attach(p->watchdog, trace);
    if (p->place.ranks == 1 || p->config.sharded)
        return 0;
    size_t trainable = (size_t)parameters->trainable;
    size_t bytes = bucket_size(p, trainable, dtype) * lt_dtype_bytes(dtype);
    int rc = lt_parallel_cut(p, trainable, dtype, &p->buckets);
    if (rc == 0) {
        p->buffer = malloc(bytes);
        p->scratch = p->config.slow_link > 1 ? malloc(bytes) : NULL;
        p->parts = malloc(parts_bytes(p, bucket_size(p, trainable, dtype), dtype) + 1);
        if (!p->buffer || !p->parts || (p->config.slow_link > 1 && !p->scratch))
            rc = TACHO_ENOMEM;
    }
    if (rc)
        return tacho_fail(err, rc, "choose a smaller --bucket-mib",
                          "buckets of %zu bytes: out of memory", bytes);
    p->buffer_bytes = lt_parallel_buffer_bytes(p, trainable, dtype);
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)p->buffer_bytes);
    return p->overlap ? lt_worker_create(&p->worker, job, p, trace, err) : 0;
}

void lt_parallel_detach(struct lt_parallel *parallel)
{
    struct lt_parallel *p = parallel;
    if (!p)
        return;
    lt_worker_destroy(p->worker);
    lt_watchdog_attach(p->watchdog, NULL);
    p->worker = NULL;
    lt_memory_add(LT_MEMORY_WORKSPACE, -(int64_t)p->buffer_bytes);
    free(p->buffer);
    free(p->scratch);
    free(p->parts);
    lt_buckets_destroy(&p->buckets);
    p->buffer = p->scratch = p->parts = NULL;
    p->buffer_bytes = 0;
    p->parameters = NULL;
    p->trace = NULL;
}
