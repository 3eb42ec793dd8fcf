/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism: what a model tells of its gradients, buckets, sums over ranks, and whole runs
 * of several ranks against one. The tests of several ranks are this program again, started by
 * mpirun; where that is missing they are skipped.
 */
#include "lt_support.h"

#include <signal.h>

#include "libtrain/models/gpt2.h"
#include "libtrain/models/mlp.h"
#include "libtrain/parallel/buckets.h"
#include "libtrain/parallel/early.h"
#include "libtrain/train/checkpoint.h"
#include "libtrain/train/parallel.h"
#include "libtrain/train/train.h"

#define RANKS "LT_PARALLEL_RANKS" /* in the environment: this is one of the ranks */

static struct lt_model *make(const struct lt_gpt2_config *k, struct lt_gpt2_mode mode,
                             uint64_t seed)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_gpt2_create(&m, k, mode, k->batch, k->seq, seed, &err))
        fail_msg("%s", err.what);
    return m;
}

/* ---- what backward tells ------------------------------------------------------------------------------------------------- */

/* Each element once, no padding, and only when nothing is added to it any more. Frees the model. */
static void told_by(struct lt_model *m, enum lt_dtype dtype, const struct lt_batch *batch)
{
    struct told t = {.p = &m->parameters, .times = pool_bytes(m->parameters.count)};
    t.value = zeros((int64_t)m->parameters.count);
    for (int step = 0; step < 4; step++) { /* the second and the fourth tell */
        struct lt_context x = {.backend = LT_BACKEND_CPU, .dtype = dtype};
        if (step % 2) {
            x.ready = tell;
            x.ready_arg = &t;
        }
        m->ops->forward(m, &x, batch, 2);
        m->ops->backward(m, &x, batch, step % 2 == 0);
    }
    assert_int_equal(t.elements, 2 * m->parameters.trainable);
    for (size_t j = 0; j < m->parameters.count; j++) {
        assert_true(t.times[j] == 0 || t.times[j] == 2);
        if (t.times[j])
            assert_true(t.value[j] == m->parameters.grad[j]);
        else
            assert_true(m->parameters.grad[j] == 0); /* padding */
    }
    lt_model_destroy(m);
}

static void gpt2_tells_once(void **state)
{
    (void)state;
    static const struct lt_gpt2_config shapes[] = {{"odd", "", 3, 20, 4, 37, 11, 9, 2},
                                                   {"one", "", 1, 8, 1, 16, 5, 5, 1},
                                                   {"wide", "", 2, 48, 3, 300, 64, 40, 3}};
    static const struct lt_gpt2_mode modes[] = {
        {.dtype = LT_DTYPE_FP32, .recompute = LT_RECOMPUTE_NONE},
        {.dtype = LT_DTYPE_BF16, .recompute = LT_RECOMPUTE_NONE},
        {.dtype = LT_DTYPE_FP32, .recompute = LT_RECOMPUTE_BLOCK}};
    for (size_t i = 0; i < 9; i++) {
        const struct lt_gpt2_config *k = &shapes[i % 3];
        int64_t n = k->batch * k->seq;
        struct lt_batch batch = {.tokens = words(n, 1, k->vocab), .targets = words(n, 2, k->vocab)};
        told_by(make(k, modes[i / 3], 7), modes[i / 3].dtype, &batch);
    }
}

static void mlp_tells_once(void **state)
{
    (void)state;
    static const struct lt_mlp_config shapes[] = {{20, 33, 1, 10}, {64, 16, 3, 7}};
    for (size_t i = 0; i < 2; i++) {
        struct tacho_error err = {0};
        struct lt_model *m = NULL;
        struct lt_batch batch = {.features = normals(5 * shapes[i].features, 1, 1),
                                 .targets = words(5, 2, shapes[i].classes)};
        assert_int_equal(lt_mlp_create(&m, &shapes[i], (struct lt_net_mode){0}, 5, 7, &err), 0);
        told_by(m, LT_DTYPE_FP32, &batch);
    }
}

/* ---- buckets ------------------------------------------------------------------------------------------------------------- */

/* Stretches of random length in a shuffled order, with gaps that belong to nobody. */
static void buckets_cut_and_carry(void **state)
{
    (void)state;
    enum { PIECES = 40 };
    size_t first[PIECES], count[PIECES], total = 0, at = 0;
    for (size_t i = 0; i < PIECES; i++) {
        at += lt_random_bits(1, i) % 3;
        first[i] = at;
        count[i] = 1 + lt_random_bits(2, i) % 50;
        at += count[i];
        total += count[i];
    }
    static const size_t sizes[] = {0, 1, 7, 64, 100, 100000};
    float *grad = normals((int64_t)at, 3, 1), *buffer = zeros((int64_t)total);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct lt_buckets b;
        assert_int_equal(lt_buckets_create(&b, total, sizes[s]), 0);
        for (int round = 0; round < 2; round++) {
            size_t before = 0, sum = 0;
            lt_buckets_reset(&b);
            for (size_t i = 0; i < PIECES; i++) {
                size_t piece = lt_random_permute(9, i, PIECES);
                assert_int_equal(lt_buckets_add(&b, first[piece], count[piece]), 0);
                assert_true(b.closed >= before);
                before = b.closed;
            }
            assert_int_equal(b.closed, b.buckets);
            assert_int_equal(lt_buckets_add(&b, 0, 1), TACHO_EINTERNAL); /* one too many */
            float *back = zeros((int64_t)at);
            for (size_t k = 0; k < b.buckets; k++) {
                assert_int_equal(b.bucket[k].count,
                                 k + 1 < b.buckets ? b.size : total - b.size * (b.buckets - 1));
                sum += b.bucket[k].count;
                lt_bucket_pack(&b.bucket[k], grad, LT_DTYPE_FP32, buffer);
                lt_bucket_unpack(&b.bucket[k], back, LT_DTYPE_FP32, buffer);
                if (lt_bucket_whole(&b.bucket[k], grad))
                    assert_memory_equal(lt_bucket_whole(&b.bucket[k], grad), buffer,
                                        b.bucket[k].count * sizeof *buffer);
            }
            assert_int_equal(sum, total);
            for (size_t i = 0; i < PIECES; i++)
                assert_memory_equal(back + first[i], grad + first[i], count[i] * sizeof *grad);
        }
        lt_buckets_destroy(&b);
    }
}

/* Each bucket has one turn, when it is closed; no bucket is passed over for one that was closed
 * before it. The order is that of closing where the link is not the slower one. */
static void buckets_prefer(void **state)
{
    (void)state;
    static const double ratios[] = {0, 0.5, 1, 1.5, 2.5, 7, 1e6};
    static const size_t three[] = {0, 3, 6, 9, 10, 8, 7, 5, 4, 2, 1};
    struct lt_buckets b;
    for (size_t n = 1; n < 40; n++)
        for (size_t r = 0; r < sizeof ratios / sizeof *ratios; r++) {
            unsigned char sent[40] = {0};
            size_t closed = 0;
            assert_int_equal(lt_buckets_create(&b, n, 1), 0);
            lt_buckets_prefer(&b, ratios[r]);
            for (size_t i = 0; i < n; i++) {
                const struct lt_bucket_turn *turn = &b.turn[i];
                assert_true(turn->bucket < turn->closed && turn->closed <= n &&
                            !sent[turn->bucket]);
                assert_true(turn->closed >= closed);
                closed = turn->closed;
                for (size_t later = turn->bucket + 1; later < closed; later++)
                    assert_true(sent[later]);
                sent[turn->bucket] = 1;
                if (ratios[r] <= 1)
                    assert_int_equal(turn->bucket, i);
            }
            for (b.closed = 0; b.closed <= n; b.closed++) { /* what may go has been closed */
                size_t turns = lt_buckets_turns(&b);
                assert_true(turns == n || b.turn[turns].closed > b.closed);
                assert_true(turns == 0 || b.turn[turns - 1].closed <= b.closed);
            }
            lt_buckets_destroy(&b);
        }
    assert_int_equal(lt_buckets_create(&b, 11, 1), 0);
    lt_buckets_prefer(&b, 3);
    for (size_t i = 0; i < 11; i++)
        assert_int_equal(b.turn[i].bucket, three[i]);
    lt_buckets_destroy(&b);
}

/* bf16 keeps what has 8 bits of mantissa, and rounds the rest to the nearest, ties to even. */
static void buckets_round(void **state)
{
    (void)state;
    static const float in[] = {1, -2.5f, 1.00390625f, 1.01171875f, 1.004f, 3e38f, 1e-40f, 0};
    static const float out[] = {1, -2.5f, 1, 1.015625f, 1.0078125f, 3.00405527e38f, 9.18354962e-41f,
                                0};
    const size_t n = sizeof in / sizeof *in;
    struct lt_buckets b;
    uint16_t *buffer = pool_bytes(n * sizeof *buffer);
    float *back = zeros((int64_t)n);
    assert_int_equal(lt_buckets_create(&b, n, 0), 0);
    assert_int_equal(lt_buckets_add(&b, 0, n), 0);
    lt_bucket_pack(&b.bucket[0], in, LT_DTYPE_BF16, buffer);
    lt_bucket_unpack(&b.bucket[0], back, LT_DTYPE_BF16, buffer);
    for (size_t i = 0; i < n; i++)
        if (fabs((double)back[i] - out[i]) > 1e-6 * fabs((double)out[i]) + 1e-42)
            fail_msg("%.9g became %.9g, expected %.9g", (double)in[i], (double)back[i],
                     (double)out[i]);
    lt_buckets_destroy(&b);
}

static void fill(void *arg, size_t first, size_t count)
{
    assert_int_equal(lt_buckets_add(arg, first, count), 0);
}

/* Turn, counted from 1, in which the bucket is sent that has the element. */
static size_t turn_of(const struct lt_buckets *buckets, size_t element)
{
    for (size_t i = 0; i < buckets->buckets; i++) {
        const struct lt_bucket *bucket = &buckets->bucket[buckets->turn[i].bucket];
        for (size_t j = 0; j < bucket->extents; j++)
            if (element - bucket->extent[j].first < bucket->extent[j].count)
                return i + 1;
    }
    return 0;
}

/* The units of a model have each learning element once, and wait for the last of their buckets. */
static void units_wait_for_their_buckets(void **state)
{
    (void)state;
    static const struct lt_gpt2_config shape = {"odd", "", 3, 20, 4, 37, 11, 9, 2};
    struct lt_model *model = make(&shape, (struct lt_gpt2_mode){0}, 7);
    const struct lt_parameters *parameters = &model->parameters;
    struct lt_batch batch = {.tokens = words(18, 1, 37), .targets = words(18, 2, 37)};
    struct lt_buckets buckets;
    struct lt_early *early;
    struct tacho_error err;
    size_t pieces = 0, turns = 0;
    assert_int_equal(lt_buckets_create(&buckets, parameters->trainable, 700), 0);
    assert_int_equal(lt_early_create(&early, parameters, &err), 0);
    assert_int_equal(lt_early_units(early), 4);
    assert_null(lt_early_take(early, 0, &pieces, &turns));
    lt_buckets_prefer(&buckets, 2.5);
    for (int step = 0; step < 2; step++) {
        struct lt_context x = {.backend = LT_BACKEND_CPU, .ready = fill, .ready_arg = &buckets};
        unsigned char *times = pool_bytes(parameters->count);
        size_t elements = 0;
        lt_buckets_reset(&buckets);
        model->ops->forward(model, &x, &batch, 1);
        model->ops->backward(model, &x, &batch, 1);
        lt_early_begin(early, &buckets);
        for (int unit = 3; unit >= 0; unit--) {
            const struct lt_piece *piece = lt_early_take(early, unit, &pieces, &turns);
            size_t last = 0;
            assert_non_null(piece);
            for (size_t i = 0; i < pieces; i++)
                for (size_t j = 0; j < piece[i].count; j++) {
                    size_t at = piece[i].first + j, turn = turn_of(&buckets, at);
                    assert_true(turn > 0 && !times[at]++);
                    assert_int_equal(piece[i].decays, at < parameters->decayed);
                    last = turn > last ? turn : last;
                    elements++;
                }
            assert_int_equal(turns, last);
            assert_null(lt_early_take(early, unit, &pieces, &turns));
        }
        assert_int_equal(elements, parameters->trainable);
    }
    lt_early_destroy(early);
    lt_buckets_destroy(&buckets);
    lt_model_destroy(model);
}

/* ---- one of several ranks ------------------------------------------------------------------------------------------------ */

static struct lt_parallel *job; /* joined once: MPI is started once a process */

/* Whether all ranks have the same bytes. */
static void assert_same_on_all(const char *what, const void *data, size_t bytes)
{
    double mine, *all = pool_bytes((size_t)lt_parallel_ranks(job) * sizeof *all);
    uint64_t sum = lt_checkpoint_sum(data, bytes);
    memcpy(&mine, &sum, sizeof mine);
    lt_parallel_gather(job, &mine, 1, all);
    for (int i = 1; i < lt_parallel_ranks(job); i++)
        if (memcmp(&all[i], &all[0], sizeof mine) != 0)
            fail_msg("%s: rank %d has other bits than rank 0", what, i);
}

static void sums(void **state)
{
    (void)state;
    int ranks = lt_parallel_ranks(job);
    for (int64_t n = 1; n < 300000; n *= 17) {
        float *sum = normals(n, 100 + (uint64_t)lt_parallel_rank(job), 1),
              *in_place = copy_of(sum, n), *out = zeros(n);
        uint16_t *half = pool_bytes((size_t)(n + 3) * sizeof *half);
        for (int64_t i = 0; i < n; i++)
            half[i] = lt_bf16_round(sum[i]);
        lt_mpi_sum(LT_DTYPE_FP32, sum, out, (size_t)n);
        lt_mpi_sum(LT_DTYPE_FP32, in_place, in_place, (size_t)n);
        lt_mpi_sum(LT_DTYPE_BF16, half, half, (size_t)n);
        assert_memory_equal(out, in_place, (size_t)n * sizeof *out);
        for (int64_t i = 0; i < n; i++) {
            double want = 0, rounded = 0, size = 0;
            for (int r = 0; r < ranks; r++) {
                float x = lt_random_normal(100 + (uint64_t)r, (uint64_t)i);
                want += (double)x;
                rounded += (double)lt_bf16_float(lt_bf16_round(x));
                size += fabs((double)x);
            }
            assert_true(fabs((double)out[i] - want) <= 1e-6 * size);
            /* ranks - 1 additions, each off by half a unit of the last of 8 bits at most */
            assert_true(fabs((double)lt_bf16_float(half[i]) - rounded) <= (ranks - 1) * size / 256);
        }
        assert_same_on_all("fp32 sum", out, (size_t)n / 2 * 8);
        assert_same_on_all("bf16 sum", half, (size_t)n / 4 * 8);
    }
}

static const struct lt_gpt2_config tiny = {"tiny", "", 2, 32, 4, 256, 32, 32, 4};
static char folder[256], text[300], file[300];

/* What one run leaves. */
struct outcome {
    struct tacho_error err;
    int rc;
    int64_t steps;
    double loss[64], norm[64], evaluation;
    float *weights;
    size_t count, buckets;
    sig_atomic_t stop;
    int64_t stop_after; /* this rank is told to stop after so many steps */
};

static void note(void *arg, const struct lt_progress *p)
{
    struct outcome *o = arg;
    if (p->event == LT_EVENT_STEP) {
        o->loss[p->step] = p->loss;
        o->norm[p->step] = p->grad_norm;
        o->steps = p->step + 1;
        o->stop = o->stop_after && o->steps == o->stop_after ? SIGTERM : 0;
    }
    if (p->event == LT_EVENT_EVALUATION)
        o->evaluation = p->loss;
}

static struct lt_train_config plan(int64_t steps, int micro_steps)
{
    return (struct lt_train_config){
        .schedule = {.peak = 3e-3, .floor = 3e-4, .warmup = 3, .steps = steps},
        .micro_steps = micro_steps,
        .clip = 1,
        .optimizer = {.kind = LT_OPTIMIZER_ADAMW,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .eps = 1e-8,
                      .weight_decay = 0.1},
        .eval_every = steps,
        .eval_batches = 5,
        .loader = {.workers = 1, .prefetch = 2},
        .log_every = 1,
        .seed = 11};
}

/* Trains on the source's first nine tenths; parallel NULL: alone. */
static void run(struct outcome *o, struct lt_source *source, const struct lt_train_config *config,
                enum lt_dtype travel)
{
    struct lt_model *m = make(&tiny, (struct lt_gpt2_mode){0}, 1);
    struct lt_part train, held_out;
    struct lt_context x = {.backend = LT_BACKEND_CPU, .dtype = travel};
    struct lt_train_hooks hooks = {.progress = note, .arg = o, .stop = &o->stop};
    assert_int_equal(lt_source_split(source, 0.1, &train, &held_out, &o->err), 0);
    o->rc = lt_train(m, &train, &held_out, &x, config, &hooks, &o->err);
    o->count = m->parameters.count;
    o->weights = copy_of(m->parameters.value, (int64_t)o->count);
    lt_model_destroy(m);
}

/* A job with other settings: the ranks stay joined. */
static struct outcome *together(const struct lt_parallel_config *settings,
                                const struct lt_train_config *config)
{
    struct outcome *o = pool_bytes(sizeof *o);
    struct lt_source *source = open_text_source(text, tiny.seq);
    struct lt_train_config k = *config;
    lt_parallel_configure(job, settings);
    k.parallel = job;
    run(o, source, &k, LT_DTYPE_FP32);
    if (o->rc)
        fail_msg("%s", o->err.what);
    assert_same_on_all("weights", o->weights, o->count * sizeof *o->weights);
    lt_source_close(source);
    return o;
}

static void same_weights(const char *what, const struct outcome *a, const struct outcome *b)
{
    if (memcmp(a->weights, b->weights, a->count * sizeof *a->weights) != 0)
        fail_msg("%s: other bits", what);
}

static const struct lt_parallel_config overlapped = {
    .bucket_bytes = 8192, .overlap = 1, .slow_rank = -1, .slow_link = 1};

/* N ranks with one micro-batch each are one rank with N: weights after eight steps agree to 1e-4 of
 * their root mean square (the order of sums differs), losses to 1e-5. Overlap, repetition and a
 * slow link change no bit. */
static void ranks_are_micro_steps(void **state)
{
    (void)state;
    struct lt_train_config each = plan(8, 1), alone = plan(8, lt_parallel_ranks(job));
    struct outcome *a = together(&overlapped, &each);
    struct lt_source *source = open_text_source(text, tiny.seq);
    struct outcome *b = pool_bytes(sizeof *b);
    run(b, source, &alone, LT_DTYPE_FP32);
    lt_source_close(source);
    assert_int_equal(b->rc, 0);
    assert_near("weights", a->weights, b->weights, (int64_t)a->count, 1e-4);
    for (int i = 0; i < 8; i++) {
        assert_true(fabs(a->loss[i] - b->loss[i]) < 1e-5 * b->loss[i]);
        assert_true(fabs(a->norm[i] - b->norm[i]) <
                    1e-4 * b->norm[i]); /* AdamW would hide a wrong scale */
    }
    assert_true(fabs(a->evaluation - b->evaluation) < 1e-5 * b->evaluation);
    struct lt_parallel_config other = overlapped;
    same_weights("again", together(&overlapped, &each), a);
    other.overlap = 0;
    same_weights("without overlap", together(&other, &each), a);
    other.slow_link = 3;
    same_weights("slow link", together(&other, &each), a);
    other.overlap = 1;
    same_weights("slow link, overlapped", together(&other, &each), a);
    if (lt_parallel_ranks(job) ==
        2) { /* a + b is b + a; with more ranks MPI may add in another order for another size */
        static const double sizes[] = {0, 1000};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            other.bucket_bytes = sizes[i];
            same_weights("other buckets", together(&other, &each), a);
        }
    }
}

/* Four steps, a checkpoint that rank 0 writes, four more: the bits of eight. The position counts
 * the samples of all ranks. */
static void resumes(void **state)
{
    (void)state;
    struct lt_train_config whole = plan(8, 2), part = plan(8, 2), rest = plan(8, 2);
    part.checkpoint = file;
    struct outcome *o = pool_bytes(sizeof *o), *a = together(&overlapped, &whole);
    struct lt_source *source = open_text_source(text, tiny.seq);
    o->stop_after = lt_parallel_rank(job) == lt_parallel_ranks(job) - 1
                        ? 3
                        : 0; /* one rank is told; it tells in step 4 */
    part.parallel = job;
    run(o, source, &part, LT_DTYPE_FP32);
    assert_int_equal(o->rc, 0);
    assert_int_equal(o->steps, 4);
    lt_source_close(source);
    rest.resume = file;
    struct outcome *b = together(&overlapped, &rest);
    same_weights("resumed", b, a);
    for (int i = 4; i < 8; i++)
        assert_true(a->loss[i] == b->loss[i]);
}

/* ---- failures of one rank ------------------------------------------------------------------------------------------------ */

/* A source that fails on the last rank after some samples. */
struct broken {
    struct lt_source source;
    struct lt_source *whole;
    int left;
};

static int broken_read(const struct lt_source *source, uint64_t sample, void *raw,
                       struct tacho_error *err)
{
    struct broken *b = (struct broken *)(uintptr_t)source;
    if (lt_parallel_rank(job) == lt_parallel_ranks(job) - 1 && b->left-- == 0)
        return tacho_fail(err, TACHO_EIO, "buy a disk", "the disk is gone");
    return b->whole->ops->read(b->whole, sample, raw, err);
}

static size_t broken_bytes(const struct lt_source *source, uint64_t sample)
{
    const struct broken *b = (const struct broken *)(uintptr_t)source;
    return b->whole->ops->bytes(b->whole, sample);
}

static int broken_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                         void *item, struct tacho_error *err)
{
    const struct broken *b = (const struct broken *)(uintptr_t)source;
    return b->whole->ops->decode(b->whole, sample, raw, item, err);
}

/* All ranks end with its code, in any micro-step, with and without overlap; the words are its own.
 */
static void one_fails(void **state)
{
    (void)state;
    static const int after[] = {0, 8, 16, 36};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        struct lt_parallel_config settings = overlapped;
        struct lt_train_config k = plan(20, 3);
        struct outcome *o = pool_bytes(sizeof *o);
        struct lt_source *whole = open_text_source(text, tiny.seq);
        struct broken b = {.source = *whole, .whole = whole, .left = after[i]};
        struct lt_source_ops ops = *whole->ops;
        ops.read = broken_read;
        ops.bytes = broken_bytes;
        ops.decode = broken_decode;
        b.source.ops = &ops;
        settings.overlap = i % 2 == 0;
        lt_parallel_configure(job, &settings);
        k.parallel = job;
        k.loader.workers = 0;
        run(o, &b.source, &k, LT_DTYPE_FP32);
        assert_int_equal(o->rc, TACHO_EIO);
        if (lt_parallel_rank(job) == lt_parallel_ranks(job) - 1)
            assert_non_null(strstr(o->err.what, "the disk is gone"));
        else
            assert_string_equal(o->err.what, "");
        lt_source_close(whole);
    }
}

/* Rank 1 of the agreement fails, then all do, then each otherwise. */
static void agreement(void **state)
{
    (void)state;
    int rank = lt_parallel_rank(job), last = lt_parallel_ranks(job) - 1;
    struct tacho_error err = {0};
    assert_int_equal(lt_parallel_agree(job, 0, &err), 0);
    int rc = rank == last ? tacho_fail(&err, TACHO_EIO, "hint", "words") : 0;
    assert_int_equal(lt_parallel_agree(job, rc, &err), TACHO_EIO);
    assert_int_equal(err.what[0] != '\0', rank == last);
    tacho_fail(&err, TACHO_ENOTFOUND, "hint", "words");
    assert_int_equal(lt_parallel_agree(job, TACHO_ENOTFOUND, &err), TACHO_ENOTFOUND);
    assert_string_equal(err.what, rank == 0 ? "words" : "");
    rc = tacho_fail(&err, rank == 0 ? TACHO_EIO : TACHO_EFORMAT, "hint", "words");
    assert_int_equal(lt_parallel_agree(job, rc, &err), rc);
    assert_non_null(strstr(err.what, "words"));
}

/* Weights that drift apart are found. */
static void divergence(void **state)
{
    (void)state;
    struct lt_model *m = make(&tiny, (struct lt_gpt2_mode){0}, 1);
    struct tacho_error err = {0};
    lt_parallel_configure(job, &overlapped);
    assert_int_equal(lt_parallel_attach(job, &m->parameters, LT_DTYPE_FP32, NULL, &err), 0);
    assert_int_equal(lt_parallel_check(job, 3, &err), 0);
    if (lt_parallel_rank(job) == 1)
        m->parameters.value[777] = nextafterf(m->parameters.value[777], 1);
    assert_int_equal(lt_parallel_check(job, 3, &err), TACHO_EINTERNAL);
    if (lt_parallel_rank(job) == 0)
        assert_non_null(strstr(err.what, "rank 1"));
    lt_parallel_detach(job);
    lt_model_destroy(m);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------- */

static int one_rank_main(void)
{
    struct tacho_error err = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sums, pool_free),
        cmocka_unit_test_teardown(ranks_are_micro_steps, pool_free),
        cmocka_unit_test_teardown(resumes, pool_free),
        cmocka_unit_test_teardown(one_fails, pool_free),
        cmocka_unit_test_teardown(agreement, pool_free),
        cmocka_unit_test_teardown(divergence, pool_free),
    };
    snprintf(text, sizeof text, "%s/text", getenv(RANKS));
    snprintf(file, sizeof file, "%s/checkpoint", getenv(RANKS));
    if (lt_parallel_open(&job, &overlapped, &err)) {
        fprintf(stderr, "%s\n", err.what);
        return 1;
    }
    lt_threads_limit(1);
    int failed = cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
    if (failed)
        lt_mpi_abort(1); /* the others may wait for this one */
    lt_parallel_close(job);
    return 0;
}

/* This program again, as `ranks` of them. What they say is shown if one fails. */
static void several(int ranks)
{
    char self[300], command[2000], log[300];
    const char *emulator = getenv("EMULATOR"); /* of another processor, for which this is built */
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (system("command -v mpirun > /dev/null 2>&1"))
        skip();
#ifndef HAVE_MPI
    skip();
#endif
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(folder, sizeof folder, "%s", scratch_folder());
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(file, sizeof file, "%s/leaks", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    write_text(text, 12000, 5);
    FILE *leaks = fopen(file, "w"); /* of the library, not of ours */
    assert_non_null(leaks);
    fputs("leak:libmpi\nleak:libopen-pal\nleak:libopen-rte\nleak:libpmix\nleak:libevent\nleak:"
          "libhwloc\nleak:mca_\n",
          leaks);
    fclose(leaks);
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
             "OMPI_MCA_rmaps_base_oversubscribe=1 "
             "OMPI_MCA_hwloc_base_binding_policy=none ASAN_OPTIONS=fast_unwind_on_malloc=0 "
             "LSAN_OPTIONS=suppressions=%s:print_suppressions=0 OMP_NUM_THREADS=1 " RANKS
             "=%s timeout %d mpirun -np %d %s %s > %s 2>&1 < /dev/null",
             file, folder, emulator ? 800 : 100, ranks, emulator ? emulator : "", self, log);
    int status = system(command);
    if (status) {
        snprintf(command, sizeof command, "sed 's/^/# /' %s >&2", log);
        if (system(command))
            print_error("%s is gone\n", log);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
}

static void two_ranks(void **state)
{
    (void)state;
    several(2);
}

static void three_ranks(void **state)
{
    (void)state;
    several(3);
}

int main(void)
{
    calm_openmp();
    if (getenv(RANKS))
        return one_rank_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(gpt2_tells_once, pool_free),
        cmocka_unit_test_teardown(mlp_tells_once, pool_free),
        cmocka_unit_test_teardown(buckets_cut_and_carry, pool_free),
        cmocka_unit_test_teardown(buckets_round, pool_free),
        cmocka_unit_test(buckets_prefer),
        cmocka_unit_test_teardown(units_wait_for_their_buckets, pool_free),
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(three_ranks),
    };
    return cmocka_run_group_tests_name("lt_parallel", tests, NULL, NULL);
}
