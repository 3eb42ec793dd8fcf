/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds of local steps that are not a mean of all: pairs of ranks keep the mean over the ranks and
 * come nearer to it; behind a server no rank lacks a move that is more rounds old than the bound,
 * whatever the ranks' speed, and all end with the same bits.
 */
#include "lt_ranks.h"

#include <math.h>
#include <unistd.h>

#include "libtrain/ops/random.h"
#include "libtrain/train/local.h"

enum { ROUNDS = 24, COUNT = 101 };

struct rank {
    struct lt_group group;
    struct seat seat;
    struct lt_local local;
    struct lt_local_config config;
    struct lt_parameters parameters;
    float value[ROUNDS * MOST];
    int64_t late; /* rounds that a move of another rank was late at most */
};

static void run(struct rank *ranks, int count, struct lt_local_config config, size_t floats,
                struct post *post, void *(*body)(void *arg))
{
    pthread_t thread[MOST];
    open_post(post);
    for (int i = 0; i < count; i++) {
        ranks[i] = (struct rank){.config = config};
        ranks[i].parameters = (struct lt_parameters){.value = ranks[i].value, .count = floats};
        ranks[i].group = seated_group(&ranks[i].seat, post, i, count);
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, body, &ranks[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    close_post(post);
}

/* ---- pairs ---------------------------------------------------------------------------------------- */

static void *gossip(void *arg)
{
    struct rank *rank = arg;
    for (size_t i = 0; i < COUNT; i++)
        rank->value[i] = lt_random_normal((uint64_t)rank->group.rank, i);
    assert_int_equal(
        lt_local_open(&rank->local, &rank->config, &rank->group, &rank->parameters, NULL), 0);
    for (int64_t step = 0; step < 2 * MOST; step++)
        lt_local_step(&rank->local, step, 0);
    return NULL;
}

static void pairs_keep_the_mean(void **state)
{
    (void)state;
    struct lt_local_config config = {.every = 1, .kind = LT_LOCAL_GOSSIP, .rate = 1};
    for (int count = 2; count <= MOST; count++) {
        struct rank *ranks = pool_bytes(MOST * sizeof *ranks);
        struct post *post = pool_bytes(sizeof *post);
        double spread = 0, first = 0;
        uint64_t messages = 0;
        run(ranks, count, config, COUNT, post, gossip);
        for (size_t i = 0; i < COUNT; i++) {
            double before = 0, after = 0;
            for (int j = 0; j < count; j++) {
                before += (double)lt_random_normal((uint64_t)j, i) / count;
                after += (double)ranks[j].value[i] / count;
            }
            assert_true(fabs(after - before) < 1e-6);
            for (int j = 0; j < count; j++) {
                spread += pow((double)ranks[j].value[i] - after, 2);
                first += pow((double)lt_random_normal((uint64_t)j, i) - before, 2);
            }
        }
        assert_true(spread < 0.05 * first);
        if (count == 2) /* both have the mean of the first round, bit by bit */
            assert_memory_equal(ranks[0].value, ranks[1].value, COUNT * sizeof(float));
        for (int i = 0; i < count; i++) {
            assert_int_equal(ranks[i].group.bytes, ranks[i].local.formula.bytes);
            assert_int_equal(ranks[i].group.bytes, ranks[i].group.messages * COUNT * 4);
            messages += ranks[i].group.messages;
            for (int j = 0; j < count; j++) /* each has met each */
                assert_true(i == j || post->sent[i][j] >= 2);
            lt_local_close(&ranks[i].local);
        }
        /* of an odd number one rests in each round */
        assert_int_equal(messages, 2 * MOST * (count - count % 2));
        pool_free(NULL);
    }
}

/* ---- a server ------------------------------------------------------------------------------------- */

/* In round k rank r moves its element number k of its own by the number of ranks: of that the mean
 * is 1. Between rounds it sleeps for as long as it likes. */
static void *serve(void *arg)
{
    struct rank *rank = arg;
    int own = rank->group.rank, ranks = rank->group.ranks;
    assert_int_equal(
        lt_local_open(&rank->local, &rank->config, &rank->group, &rank->parameters, NULL), 0);
    for (int64_t step = 0; step < ROUNDS; step++) {
        int together = step == ROUNDS / 2 || step + 1 == ROUNDS;
        uint64_t bits = lt_random_bits((uint64_t)own, (uint64_t)step);
        usleep((useconds_t)(bits % 8 ? bits % 100 : 3000));
        rank->value[own * ROUNDS + step] += (float)ranks;
        lt_local_step(&rank->local, step, together);
        for (int i = 0; i < ranks; i++)
            for (int64_t k = 0; i != own && k <= step; k++)
                if (fabsf(rank->value[i * ROUNDS + k] - 1) > 1e-5f && step - k + 1 > rank->late)
                    rank->late = step - k + 1;
        if (together)
            assert_true(lt_local_delay(&rank->local) <= rank->config.delay);
    }
    return NULL;
}

static void delays_are_bounded(void **state)
{
    (void)state;
    for (int64_t delay = 0; delay <= 3; delay++)
        for (int count = 2; count <= 5; count++) {
            struct lt_local_config config = {
                .every = 1, .kind = LT_LOCAL_SERVER, .rate = 1, .delay = delay};
            struct rank *ranks = pool_bytes(MOST * sizeof *ranks);
            int64_t most = 0;
            size_t floats = (size_t)(ROUNDS * count);
            run(ranks, count, config, floats, pool_bytes(sizeof(struct post)), serve);
            for (int i = 0; i < count; i++) {
                uint64_t bytes = floats * 4 * ROUNDS * (uint64_t)(i ? 1 : count - 1);
                assert_true(ranks[i].late <= delay);
                assert_true(ranks[i].late <= lt_local_delay(&ranks[i].local));
                assert_int_equal(ranks[i].group.bytes, bytes);
                assert_int_equal(ranks[i].local.formula.bytes, bytes);
                assert_memory_equal(ranks[i].value, ranks[0].value, floats * sizeof(float));
                most = ranks[i].late > most ? ranks[i].late : most;
                for (size_t j = 0; j < floats; j++)
                    assert_true(fabsf(ranks[i].value[j] - 1) < 1e-5f);
            }
            /* with some freedom, ranks of such different speed take it */
            assert_true(delay == 0 || most > 0);
            for (int i = 0; i < count; i++)
                lt_local_close(&ranks[i].local);
            pool_free(NULL);
        }
}

/* calloc has memory for so many more blocks; -1: for all. */
static int blocks_left = -1;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (blocks_left > 0)
        blocks_left--;
    return blocks_left ? __real_calloc(count, bytes) : NULL;
}

static void settle_nothing(void *arg, void *posted)
{
    (void)arg;
    assert_null(posted);
}

/* What memory ran out for in between is not read when it is closed. */
static void memory_runs_out(void **state)
{
    (void)state;
    struct lt_local_config config = {.every = 1, .kind = LT_LOCAL_SERVER, .rate = 1, .delay = 1};
    struct lt_group group = {.ranks = 2, .settle = settle_nothing};
    float value[COUNT] = {0};
    struct lt_parameters parameters = {.value = value, .count = COUNT};
    int rc = TACHO_ENOMEM, blocks = 0;
    for (; rc && blocks < 10; blocks++) {
        struct lt_local local;
        blocks_left = blocks + 1; /* the last of them fails */
        rc = lt_local_open(&local, &config, &group, &parameters, NULL);
        blocks_left = -1;
        assert_true(rc == 0 || rc == TACHO_ENOMEM);
        lt_local_close(&local);
    }
    assert_int_equal(rc, 0);
    assert_in_range(blocks, 3, 10);
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(lt_local_find("gossip"), LT_LOCAL_GOSSIP);
    assert_int_equal(lt_local_find("server"), LT_LOCAL_SERVER);
    assert_int_equal(lt_local_find("ring"), -1);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(pairs_keep_the_mean), TEST(delays_are_bounded),
                                       TEST(memory_runs_out), TEST(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
