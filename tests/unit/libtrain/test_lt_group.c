/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's own collectives, on threads that are the ranks: the sums, the same bits on all
 * ranks, and messages and bytes that equal the formulas, for uneven chunks as well.
 */
#include "lt_ranks.h"

#include <math.h>

#include "libtrain/base/exact.h"
#include "libtrain/collectives/group.h"
#include "libtrain/ops/random.h"
#include "libtrain/parallel/adapt.h"
#include "libtrain/parallel/low_rank.h"

struct rank {
    struct lt_group group;
    struct seat seat;
    enum lt_all_reduce kind;
    enum lt_dtype dtype;
    void *data;
    size_t count;
    int root; /* of a broadcast; -1: an all-reduce; -2: its two halves one after the other;
                 -3: two arrays summed into the ranks' shares of one, and gathered; -4: several, by
                 a codec; -5: by factors */
    struct lt_codec codec;
    struct lt_packer packer;
    const struct lt_parameters *parameters; /* whose unit 0 the array is */
    int simple;                             /* gradients are products of as few columns */
    float *residual, *given;                /* of all rounds together */
};

/* Two steps of an accumulation, of the same array. */
static void reduce_twice(struct rank *rank, void *scratch)
{
    struct lt_group *group = &rank->group;
    size_t first = lt_group_chunk(rank->count, group->ranks, group->rank),
           count = lt_group_chunk(rank->count, group->ranks, group->rank + 1) - first;
    float *copy = malloc(rank->count * sizeof *copy), *sum = malloc(count * sizeof *sum + 1);
    memcpy(copy, rank->data, rank->count * sizeof *copy);
    lt_group_reduce_to(group, rank->kind, rank->dtype, rank->data, rank->count, sum, 1, scratch);
    lt_group_reduce_to(group, rank->kind, rank->dtype, copy, rank->count, sum, 0, scratch);
    if (count)
        memcpy((float *)rank->data + first, sum, count * sizeof *sum);
    lt_group_all_gather(group, rank->dtype, rank->data, rank->count);
    free(copy);
    free(sum);
}

enum { ROUNDS = 5 };

/* Gradients of several steps: data becomes the sum of what was applied. */
static void reduce_coded(struct rank *rank)
{
    struct lt_group *group = &rank->group;
    size_t count = rank->count, first = lt_group_chunk(count, group->ranks, group->rank),
           own = lt_group_chunk(count, group->ranks, group->rank + 1) - first;
    float *gradient = malloc(count * sizeof *gradient), *sum = calloc(own + 1, sizeof *sum);
    void *scratch = malloc(lt_group_coded_scratch(&rank->codec, group->ranks, count) + 1);
    if (rank->codec.level)
        assert_int_equal(lt_packer_open(&rank->packer, rank->codec.level), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            gradient[i] = lt_random_normal((uint64_t)(100 * group->rank + round), i);
            rank->given[i] += gradient[i];
        }
        lt_group_reduce_coded(group, &rank->codec, &rank->packer, gradient, count,
                              lt_codec_feeds_back(&rank->codec) ? rank->residual : NULL, sum,
                              round == 0, scratch);
    }
    memcpy((float *)rank->data + first, sum, own * sizeof *sum);
    lt_group_all_gather(group, LT_DTYPE_FP32, rank->data, count);
    lt_packer_close(&rank->packer);
    free(gradient);
    free(sum);
    free(scratch);
}

/* The gradient of a round; `simple`: each matrix a product of `columns` columns of its own. */
static void make_gradient(const struct rank *rank, const struct lt_low_rank *plan, int round,
                          float *gradient)
{
    uint64_t key = (uint64_t)(100 * rank->group.rank + round);
    for (size_t i = 0; i < rank->count; i++)
        gradient[i] = lt_random_normal(key, i);
    for (int i = 0; rank->simple && i < plan->tensors; i++) {
        const struct lt_low_rank_tensor *tensor = &plan->tensor[i];
        for (int64_t j = 0; j < tensor->rows * tensor->columns; j++)
            gradient[tensor->at + (size_t)j] =
                lt_random_normal(7, (uint64_t)(j / tensor->columns)) *
                lt_random_normal(key, (uint64_t)(j % tensor->columns));
    }
}

/* As reduce_coded, by factors of the unit's matrices. */
static void reduce_low_rank(struct rank *rank)
{
    struct lt_group *group = &rank->group;
    struct lt_low_rank plan;
    size_t count = rank->count, first = lt_group_chunk(count, group->ranks, group->rank),
           own = lt_group_chunk(count, group->ranks, group->rank + 1) - first;
    lt_low_rank_plan(&plan, rank->parameters, 0, rank->codec.rank);
    assert_int_equal(plan.count, count);
    float *gradient = malloc(count * sizeof *gradient), *sum = calloc(own + 1, sizeof *sum),
          *q = calloc(plan.second + 1, sizeof *q);
    void *scratch = malloc(lt_low_rank_scratch(&plan, group->ranks) + 1);
    for (int round = 0; round < ROUNDS; round++) {
        make_gradient(rank, &plan, round, gradient);
        for (size_t i = 0; i < count; i++)
            rank->given[i] += gradient[i];
        lt_low_rank_reduce(group, &plan, gradient, rank->residual, q, sum, round == 0, scratch);
    }
    memcpy((float *)rank->data + first, sum, own * sizeof *sum);
    lt_group_all_gather(group, LT_DTYPE_FP32, rank->data, count);
    free(gradient);
    free(sum);
    free(q);
    free(scratch);
}

static void *run_rank(void *arg)
{
    struct rank *rank = arg;
    struct lt_group *group = &rank->group;
    size_t bytes = lt_group_scratch(rank->kind, group->ranks, rank->dtype, rank->count);
    void *scratch = malloc(bytes + 1);
    if (rank->root >= 0) {
        lt_group_broadcast(group, rank->root, rank->data,
                           rank->count * lt_dtype_bytes(rank->dtype));
    } else if (rank->root == -2) {
        lt_group_reduce_scatter(group, rank->dtype, rank->data, rank->count, scratch);
        lt_group_all_gather(group, rank->dtype, rank->data, rank->count);
    } else if (rank->root == -4) {
        reduce_coded(rank);
    } else if (rank->root == -5) {
        reduce_low_rank(rank);
    } else if (rank->root == -3) {
        reduce_twice(rank, scratch);
    } else {
        lt_group_all_reduce(group, rank->kind, rank->dtype, rank->data, rank->count, scratch);
    }
    free(scratch);
    return NULL;
}

/* Runs a collective on all ranks; ranks[i].data are arrays of values that differ. */
static void run(struct rank *ranks, int count, struct rank like)
{
    struct post *post = pool_bytes(sizeof *post);
    pthread_t thread[MOST];
    open_post(post);
    for (int i = 0; i < count; i++) {
        ranks[i] = like;
        ranks[i].residual = zeros((int64_t)like.count);
        ranks[i].given = zeros((int64_t)like.count);
        ranks[i].group = seated_group(&ranks[i].seat, post, i, count);
        ranks[i].group.near = like.group.near;
        ranks[i].data = typed(like.dtype, normals((int64_t)like.count, 100 + (uint64_t)i, 1),
                              (int64_t)like.count);
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    close_post(post);
}

/* The sum of all ranks' arrays in the order of ranks, with the type's rounding after each term. */
static float *sum_in_order(enum lt_dtype dtype, int ranks, size_t count)
{
    float *sum = zeros((int64_t)count);
    for (int i = 0; i < ranks; i++) {
        void *term = typed(dtype, normals((int64_t)count, 100 + (uint64_t)i, 1), (int64_t)count);
        float *values = floats(dtype, term, (int64_t)count);
        for (size_t j = 0; j < count; j++) {
            float next = i ? sum[j] + values[j] : values[j];
            sum[j] = dtype == LT_DTYPE_BF16 ? lt_bf16_float(lt_bf16_round(next)) : next;
        }
    }
    return sum;
}

static const size_t counts[] = {1, 2, 7, 64, 1000, 4097};

/* One all-reduce: bits, sums, bytes and messages of every rank. */
static void check_all_reduce(enum lt_all_reduce kind, enum lt_dtype dtype, int ranks, int near,
                             size_t count)
{
    struct rank all[MOST];
    run(all, ranks,
        (struct rank){
            .group = {.near = near}, .kind = kind, .dtype = dtype, .count = count, .root = -1});
    const float *want = sum_in_order(dtype, ranks, count);
    float *got = floats(dtype, all[0].data, (int64_t)count);
    if (kind == LT_ALL_REDUCE_ORDERED)
        assert_memory_equal(got, want, count * sizeof *got);
    assert_near("sum", got, want, (int64_t)count, dtype == LT_DTYPE_BF16 ? 0.05 : 1e-6);
    for (int i = 0; i < ranks; i++) {
        struct lt_group_sent sent = lt_group_formula(kind, i, ranks, near, dtype, count);
        assert_memory_equal(all[i].data, all[0].data, count * lt_dtype_bytes(dtype));
        assert_int_equal(all[i].group.bytes, sent.bytes);
        assert_int_equal(all[i].group.messages, sent.messages);
    }
}

static void all_reduces(void **state)
{
    (void)state;
    for (int kind = 0; kind < LT_ALL_REDUCE_COUNT; kind++)
        for (int dtype = 0; dtype <= LT_DTYPE_BF16; dtype++) /* no other travels */
            for (int ranks = 1; ranks <= MOST; ranks++)
                for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                    check_all_reduce((enum lt_all_reduce)kind, (enum lt_dtype)dtype, ranks, 0,
                                     counts[i]);
                    pool_free(NULL);
                }
}

/* Also with as many ranks on a machine as do not divide them. */
static void hierarchies(void **state)
{
    (void)state;
    for (int dtype = 0; dtype <= LT_DTYPE_BF16; dtype++)
        for (int ranks = 2; ranks <= MOST; ranks++)
            for (int near = 1; near <= ranks; near++)
                for (size_t i = 0; i < sizeof counts / sizeof *counts; i += 2) {
                    check_all_reduce(LT_ALL_REDUCE_HIERARCHICAL, (enum lt_dtype)dtype, ranks, near,
                                     counts[i]);
                    pool_free(NULL);
                }
}

/* 2 S (N - 1) / N where N divides the array; all ranks of a tree together 2 S (N - 1); S log2 N. */
static void formulas(void **state)
{
    (void)state;
    const size_t count = 960;
    for (int log = 1, ranks = 2; log <= 3; log++, ranks *= 2) {
        uint64_t tree = 0, bytes = count * 4;
        for (int rank = 0; rank < ranks; rank++) {
            uint64_t size = (uint64_t)ranks;
            struct lt_group_sent ring =
                lt_group_formula(LT_ALL_REDUCE_RING, rank, ranks, 0, LT_DTYPE_FP32, count);
            assert_int_equal(ring.bytes, 2 * bytes * (size - 1) / size);
            assert_int_equal(ring.messages, 2 * (size - 1));
            tree +=
                lt_group_formula(LT_ALL_REDUCE_TREE, rank, ranks, 0, LT_DTYPE_FP32, count).bytes;
            assert_int_equal(
                lt_group_formula(LT_ALL_REDUCE_DOUBLING, rank, ranks, 0, LT_DTYPE_FP32, count)
                    .bytes,
                bytes * (uint64_t)log);
        }
        assert_int_equal(tree, 2 * bytes * (uint64_t)(ranks - 1));
        for (int near = 1; near <= ranks; near *= 2) {
            uint64_t g = (uint64_t)near, n = (uint64_t)(ranks / near);
            assert_int_equal(
                lt_group_formula(LT_ALL_REDUCE_HIERARCHICAL, 0, ranks, near, LT_DTYPE_FP32, count)
                    .bytes,
                2 * bytes * (g - 1) / g + 2 * (bytes / g) * (n - 1) / n);
        }
    }
}

/* The halves of ring are ring; a broadcast brings the root's array to all ranks. */
static void halves_and_broadcasts(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MOST; ranks++) {
        struct rank halves[MOST], whole[MOST], spread[MOST];
        struct rank like = {.kind = LT_ALL_REDUCE_RING, .count = 1001, .root = -2};
        run(halves, ranks, like);
        like.root = -1;
        run(whole, ranks, like);
        for (int i = 0; i < ranks; i++)
            assert_memory_equal(halves[i].data, whole[0].data, 4004);
        for (int root = 0; root < ranks; root++) {
            const float *want = normals(1001, 100 + (uint64_t)root, 1);
            uint64_t messages = 0;
            like.root = root;
            run(spread, ranks, like);
            for (int i = 0; i < ranks; i++) {
                assert_memory_equal(spread[i].data, want, 4004);
                messages += spread[i].group.messages;
            }
            assert_int_equal(messages, ranks - 1);
        }
        pool_free(NULL);
    }
}

/* Sums that go on from one array to the next: in order they are those of one process bit by bit,
 * and the bytes are those of 2 reduce-scatters and a gather. */
static void sums_go_on(void **state)
{
    (void)state;
    static const enum lt_all_reduce kinds[] = {LT_ALL_REDUCE_RING, LT_ALL_REDUCE_ORDERED};
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (size_t k = 0; k < 2; k++) {
            struct rank all[MOST];
            const size_t count = 1001;
            run(all, ranks, (struct rank){.kind = kinds[k], .count = count, .root = -3});
            float *want = sum_in_order(LT_DTYPE_FP32, ranks, count);
            for (int i = 0; i < ranks; i++) {
                const float *term = normals((int64_t)count, 100 + (uint64_t)i, 1);
                for (size_t j = 0; j < count; j++)
                    want[j] += term[j];
            }
            for (int i = 0; i < ranks; i++) {
                size_t own = lt_group_chunk(count, ranks, i + 1) - lt_group_chunk(count, ranks, i);
                int after = (i + 1) % ranks;
                size_t next =
                    lt_group_chunk(count, ranks, after + 1) - lt_group_chunk(count, ranks, after);
                if (kinds[k] == LT_ALL_REDUCE_ORDERED)
                    assert_memory_equal(all[i].data, want, count * sizeof *want);
                else
                    assert_near("sum", all[i].data, want, (int64_t)count, 1e-6);
                assert_int_equal(all[i].group.bytes, 4 * (2 * (count - own) + count - next));
                assert_int_equal(all[i].group.messages, 3 * (ranks - 1));
            }
            pool_free(NULL);
        }
}

/* Bytes of a gather of all floats, which the harness adds at the end. */
static uint64_t gathered(size_t count, int ranks, int rank)
{
    int after = (rank + 1) % ranks;
    return 4 * (count -
                (lt_group_chunk(count, ranks, after + 1) - lt_group_chunk(count, ranks, after)));
}

/* What was applied and what is kept are together what was given; bytes equal the formula, less what
 * packing saves. A codec without feedback is as near as its rounding. */
static void check_coded_sums(int level)
{
    const size_t count = 1003;
    for (int kind = 0; kind < LT_CODEC_COUNT; kind++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            struct rank all[MOST];
            struct lt_codec codec = {
                .kind = (enum lt_codec_kind)kind, .density = 0.03, .level = level};
            run(all, ranks, (struct rank){.count = count, .root = -4, .codec = codec});
            float *given = zeros((int64_t)count), *got = zeros((int64_t)count);
            const float *applied = all[0].data;
            for (int i = 0; i < ranks; i++) {
                size_t own = lt_group_chunk(count, ranks, i + 1) - lt_group_chunk(count, ranks, i);
                struct lt_group_sent one = lt_group_coded_formula(&codec, i, ranks, count);
                uint64_t saved = all[i].packer.before - all[i].packer.after;
                assert_int_equal(all[i].group.bytes,
                                 ROUNDS * one.bytes - saved + gathered(count, ranks, i));
                assert_int_equal(all[i].group.messages,
                                 ROUNDS * one.messages + (uint64_t)ranks - 1);
                assert_int_equal(one.messages, (level ? 2 : 1) * (ranks - 1));
                assert_true(own > 0);
                for (size_t j = 0; j < count; j++) {
                    given[j] += all[i].given[j];
                    got[j] += all[i].residual[j];
                }
            }
            for (size_t j = 0; j < count; j++)
                got[j] += applied[j];
            assert_near(lt_codec_name(codec.kind), got, given, (int64_t)count,
                        kind == LT_CODEC_BF16 ? 0x1p-7 : 1e-6);
            pool_free(NULL);
        }
}

static void coded_sums(void **state)
{
    (void)state;
    check_coded_sums(0);
}

/* Patterns become smaller and come back, noise is sent as it is. */
static void packed_sums(void **state)
{
    (void)state;
    struct lt_packer packer;
    char zero[4096] = {0}, packed[4096], back[4096];
    if (!lt_packer_works()) {
        assert_int_equal(lt_packer_open(&packer, 1), TACHO_ENOTSUP);
        skip();
    }
    check_coded_sums(3);
    assert_int_equal(lt_packer_open(&packer, 1), 0);
    size_t size = lt_packer_pack(&packer, zero, sizeof zero, packed);
    assert_true(size < 64);
    lt_packer_unpack(&packer, packed, size, back, sizeof back);
    assert_memory_equal(back, zero, sizeof zero);
    for (size_t i = 0; i < sizeof zero; i++)
        zero[i] = (char)lt_random_bits(3, i);
    assert_int_equal(lt_packer_pack(&packer, zero, sizeof zero, packed), sizeof zero);
    lt_packer_unpack(&packer, packed, sizeof zero, back, sizeof back);
    assert_memory_equal(back, zero, sizeof zero);
    assert_int_equal(lt_packer_pack(&packer, zero, 0, packed), 0);
    lt_packer_unpack(&packer, packed, 0, back, 0);
    assert_int_equal(packer.before, 2 * sizeof zero);
    assert_int_equal(packer.after, size + sizeof zero);
    assert_true(packer.seconds > 0);
    lt_packer_close(&packer);
}

/* The link's two numbers from two exchanges; of choices the least, which changes with the link. */
static void choices(void **state)
{
    (void)state;
    struct lt_adapt adapt = {0};
    struct lt_codec codec = {.kind = LT_CODEC_NONE};
    assert_int_equal(lt_adapt_link(&adapt, 1e-4, 64, 1e-4, 1 << 20), 0); /* nothing to see */
    assert_true(lt_adapt_link(&adapt, 1e-5 + 64e-9, 64, 1e-5 + 1e-3, 1000000));
    assert_true(fabs(adapt.byte_seconds - 1e-9) < 1e-15);
    assert_true(fabs(adapt.message_seconds - 1e-5) < 1e-12);
    for (int i = 0; i < LT_ADAPT_CHOICES; i++)
        assert_int_equal(lt_adapt_add(&adapt, &codec), 0);
    assert_int_equal(lt_adapt_add(&adapt, &codec), -1);
    adapt.choices = 3; /* as it is; half of the bytes for 1 ms; a tenth for 5 ms */
    adapt.choice[0] = (struct lt_adapt_choice){.bytes = 1e6, .messages = 10};
    adapt.choice[1] = (struct lt_adapt_choice){.bytes = 5e5, .messages = 10, .processor = 1e-3};
    adapt.choice[2] = (struct lt_adapt_choice){.bytes = 1e5, .messages = 10, .processor = 5e-3};
    const double byte_seconds[] = {1e-9, 3e-9, 1e-7};
    for (int link = 0; link < 3; link++) {
        adapt.byte_seconds = byte_seconds[link];
        for (int i = 0; i < 3; i++)
            adapt.choice[i].predicted = lt_adapt_seconds(&adapt, &adapt.choice[i]);
        lt_adapt_choose(&adapt);
        assert_int_equal(adapt.chosen, link);
    }
    assert_true(fabs(adapt.choice[2].predicted - (1e-4 + 1e-2 + 5e-3)) < 1e-9);
}

/* Factors of matrices: what was applied and what is kept are together what was given, on any
 * number of ranks; the bytes are r (m + n) for m n; nothing is lost of what has that rank. */
static void low_ranks(void **state)
{
    (void)state;
    enum { VECTOR = 50 };
    const size_t count = 24 * 30 + VECTOR + 7 * 40 + 2 * 3;
    struct lt_parameters parameters = {0};
    const int64_t shapes[][2] = {{24, 30}, {1, VECTOR}, {7, 40}, {2, 3}};
    for (size_t i = 0; i < 4; i++)
        lt_parameters_add(
            &parameters,
            (struct lt_weight){.repeat = 1, .rows = shapes[i][0], .columns = shapes[i][1]}, 1);
    for (int columns = 1; columns <= 4; columns += 3)
        for (int ranks = 1; ranks <= 4; ranks++)
            for (int simple = 0; simple < 2; simple++) {
                struct rank all[MOST];
                uint64_t r = (uint64_t)columns, size = (uint64_t)ranks, bytes = 0, want;
                float *given = zeros((int64_t)count), *got = zeros((int64_t)count);
                double kept = 0;
                run(all, ranks,
                    (struct rank){.count = count,
                                  .root = -5,
                                  .codec = {.rank = columns},
                                  .parameters = &parameters,
                                  .simple = simple});
                for (int i = 0; i < ranks; i++) {
                    bytes += all[i].group.bytes - gathered(count, ranks, i);
                    assert_int_equal(all[i].group.messages, (4 * ROUNDS + 1) * (ranks - 1));
                    for (size_t j = 0; j < count; j++) {
                        given[j] += all[i].given[j];
                        got[j] += all[i].residual[j];
                        kept += fabs((double)all[i].residual[j]);
                    }
                }
                /* all ranks of a ring send 2 (N - 1) times what each has; of 2 x 3 elements one
                 * column of factors is smaller, four are not */
                want = r * (24 + 30 + 7 + 40) + VECTOR + (columns == 1 ? 5 : 6);
                assert_int_equal(bytes, ROUNDS * 2 * 4 * (size - 1) * want);
                for (size_t j = 0; j < count; j++)
                    got[j] += ((const float *)all[0].data)[j];
                assert_near("factors", got, given, (int64_t)count, 2e-6);
                if (simple) /* but for the rounding of columns that are nearly orthogonal */
                    assert_true(kept < 1e-2 * (double)count);
                else
                    assert_true(kept > 0.1 * (double)count);
                pool_free(NULL);
            }
    assert_int_equal(lt_codec_find("powersgd"), LT_CODEC_POWER_SGD);
    assert_string_equal(lt_codec_name(LT_CODEC_POWER_SGD), "powersgd");
}

/* Sizes by hand; the largest are the largest, ties included. */
static void codecs(void **state)
{
    (void)state;
    static const float x[] = {1, -5, 0, 5, -2, 3, 1, 1, -4};
    static const struct {
        enum lt_codec_kind kind;
        size_t bytes;
        float back[9];
    } rows[] = {{LT_CODEC_NONE, 36, {1, -5, 0, 5, -2, 3, 1, 1, -4}},
                {LT_CODEC_BF16, 18, {1, -5, 0, 5, -2, 3, 1, 1, -4}},
                {LT_CODEC_ONE_BIT,
                 10,
                 {11 / 6.0f, -11 / 3.0f, 11 / 6.0f, 11 / 6.0f, -11 / 3.0f, 11 / 6.0f, 11 / 6.0f,
                  11 / 6.0f, -11 / 3.0f}},
                {LT_CODEC_TOP_K, 40, {0, -5, 0, 5, -2, 3, 0, 0, -4}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lt_codec codec = {.kind = rows[i].kind, .density = 0.5};
        char message[64], scratch[64];
        float back[9];
        assert_int_equal(lt_codec_bytes(&codec, 9), rows[i].bytes);
        lt_codec_encode(&codec, x, 9, message, scratch);
        lt_codec_decode(&codec, message, 9, back);
        for (size_t j = 0; j < 9; j++)
            assert_true(back[j] == rows[i].back[j]);
    }
    assert_int_equal(lt_codec_bytes(&(struct lt_codec){.kind = LT_CODEC_INT8}, 9), 13);
    /* each element as often as the others */
    float many[40], some[40], often[40] = {0};
    char message[96];
    struct lt_codec tenth = {.kind = LT_CODEC_RANDOM_K, .density = 0.1};
    assert_int_equal(lt_codec_bytes(&tenth, 40), 24);
    for (int draw = 0; draw < 4000; draw++) {
        int kept = 0;
        for (int i = 0; i < 40; i++)
            many[i] = (float)(1 + i) + (float)draw / 4000;
        lt_codec_encode(&tenth, many, 40, message, NULL);
        lt_codec_decode(&tenth, message, 40, some);
        for (int i = 0; i < 40; i++) {
            assert_true(some[i] == 0 || some[i] == many[i]);
            kept += some[i] != 0;
            often[i] += some[i] != 0;
        }
        assert_int_equal(kept, 4);
    }
    for (int i = 0; i < 40; i++)
        assert_true(fabsf(often[i] - 400) < 100); /* five deviations */
    assert_int_equal(lt_codec_find("1bit"), LT_CODEC_ONE_BIT);
    assert_int_equal(lt_codec_find("zip"), -1);
}

/* A sum of squares without rounding: however it is divided, whatever comes first. */
static void exact_sums(void **state)
{
    (void)state;
    const size_t count = 20011;
    float *x = normals((int64_t)count, 5, 1);
    x[0] = 3e38f, x[1] = 1e-45f, x[2] = -2.5e-20f, x[3] = 0;
    struct lt_exact whole = {0}, parts = {0};
    lt_exact_squares(&whole, x, count);
    for (size_t first = count; first > 0;) {
        struct lt_exact part = {0};
        size_t size = first > 777 ? 777 : first;
        first -= size;
        lt_exact_squares(&part, x + first, size);
        lt_exact_add(&parts, &part);
    }
    assert_true(lt_exact_value(&whole) == lt_exact_value(&parts));
    assert_true(lt_exact_value(&whole) ==
                3e38f * (double)3e38f); /* the rest is below its last bit */
    double sum = 0;
    struct lt_exact small = {0};
    for (size_t i = 4; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    lt_exact_squares(&small, x + 4, count - 4);
    assert_true(fabs(lt_exact_value(&small) / sum - 1) < 1e-12);
    /* magnitudes from 2^-140 to 2^127 in one span: as when each is added alone, in another order */
    struct lt_exact span = {0}, single = {0};
    for (int i = 0; i < 1024; i++)
        x[i] = ldexpf(x[i], (i * 37) % 267 - 140);
    lt_exact_squares(&span, x, 1024);
    for (int i = 1023; i >= 0; i--) {
        struct lt_exact one = {0};
        lt_exact_squares(&one, x + i, 1);
        lt_exact_add(&single, &one);
    }
    lt_exact_add(&span, &(struct lt_exact){0}); /* puts the carries in their places */
    lt_exact_add(&single, &(struct lt_exact){0});
    assert_memory_equal(&span, &single, sizeof span);
    x[1] = 1e-45f;
    struct lt_exact tiny = {0};
    lt_exact_squares(&tiny, x + 1, 1);
    assert_true(lt_exact_value(&tiny) == (double)x[1] * (double)x[1]);
    x[7] = NAN;
    lt_exact_squares(&small, x + 7, 1);
    assert_true(isnan(lt_exact_value(&small)));
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(lt_all_reduce_find("ring"), LT_ALL_REDUCE_RING);
    assert_int_equal(lt_all_reduce_find("ordered"), LT_ALL_REDUCE_ORDERED);
    assert_int_equal(lt_all_reduce_find("library"), -1);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_reduces), TEST(hierarchies), TEST(formulas),    TEST(halves_and_broadcasts),
        TEST(sums_go_on),  TEST(coded_sums),  TEST(codecs),      TEST(exact_sums),
        TEST(names),       TEST(low_ranks),   TEST(packed_sums), TEST(choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
