/* SPDX-License-Identifier: Apache-2.0
 *
 * The board of a job's ranks: healthy ranks are never accused; a call that a rank leaves out, makes
 * with other bytes or in another order is found, with the rank and the call, also in the first step
 * and when nothing blocks; ranks that wait for ever, and ranks that died.
 */
#include "lt_support.h"

#include <pthread.h>
#include <sched.h>

#include "libtrain/collectives/board.h"
#include "tacho_nvtx.h"

enum { MOST = 6, CALLS = 7 };

/* A job: a desk and a board of each rank. */
struct job {
    struct lt_desk *desk[MOST];
    struct lt_board board[MOST];
    int ranks;
};

static void make_job(struct job *job, int ranks)
{
    *job = (struct job){.ranks = ranks};
    for (int i = 0; i < ranks; i++) {
        job->desk[i] = pool_bytes(sizeof **job->desk);
        memset(job->desk[i], 0, sizeof **job->desk);
        job->desk[i]->process = 100 + i;
        job->board[i] = (struct lt_board){.desk = job->desk, .rank = i, .ranks = ranks};
    }
}

/* Call `index` of every step: reductions of several sizes, a gather of all ranks in the end. */
static struct lt_call usual(int index)
{
    if (index == CALLS - 1)
        return (struct lt_call){.communicator = 2, .bytes = 64, .op = TACHO_COMM_ALL_GATHER};
    return (struct lt_call){.communicator = index % 3 == 2 ? 3 : 1,
                            .bytes = 1000 + 8 * (uint64_t)index,
                            .op = TACHO_COMM_ALL_REDUCE};
}

/* What the rank that is wrong does in its step. */
enum wrong { LEAVES_OUT, HALVES, SWAPS };

/* One step of a rank. Returns a rank that it differs from, or -1. */
static int make_step(struct job *job, int rank, int64_t step, int faulty, enum wrong wrong, int at)
{
    struct lt_board *board = &job->board[rank];
    int unequal = lt_board_step(board, step), differs = unequal;
    for (int i = 0; i < CALLS; i++) {
        struct lt_call call = usual(i);
        int other = -1;
        if (faulty && wrong == LEAVES_OUT && i == at)
            continue;
        if (faulty && wrong == HALVES && i == at)
            call.bytes /= 2;
        if (faulty && wrong == SWAPS && i / 2 == at / 2 && (i ^ 1) < CALLS)
            call = usual(i ^ 1);
        lt_board_call(board, call, &other);
        differs = differs >= 0 ? differs : other;
    }
    return differs;
}

/* Steps in which nobody is wrong: no rank differs, none is accused. */
static void healthy(void **state)
{
    (void)state;
    struct job job;
    char text[256];
    for (int ranks = 2; ranks <= MOST; ranks++) {
        make_job(&job, ranks);
        for (int64_t step = 0; step < 400; step++) /* the desks' rings come round */
            for (int i = 0; i < ranks; i++)
                assert_int_equal(make_step(&job, i, step, 0, HALVES, 0), -1);
        assert_int_equal(lt_board_judge(&job.board[0], text, sizeof text), -1);
        assert_string_equal(text, "no rank differs from the others");
    }
}

/* A rank is wrong in step `bad`, call `at`; judged from every rank's board. */
static void check_wrong(int ranks, int rank, int64_t bad, enum wrong wrong, int at)
{
    struct job job;
    char text[256], words[64];
    int seen = -1;
    make_job(&job, ranks);
    for (int64_t step = 0; step < bad; step++)
        for (int i = 0; i < ranks; i++)
            make_step(&job, i, step, 0, wrong, at);
    for (int64_t step = bad; step < bad + 3; step++)
        for (int i = 0; i < ranks; i++) {
            int differs = make_step(&job, i, step, i == rank && step == bad, wrong, at);
            seen = seen >= 0 ? seen : differs;
        }
    /* the order between communicators shows only where ranks block */
    if (wrong != SWAPS || usual(at).communicator == usual(at ^ 1).communicator)
        assert_true(seen >= 0);
    for (int i = 0; i < ranks; i++) {
        assert_int_equal(lt_board_judge(&job.board[i], text, sizeof text), rank);
        snprintf(words, sizeof words,
                 wrong == LEAVES_OUT ? "skipped call %d of step %d:" : "call %d of step %d ",
                 wrong == SWAPS ? at / 2 * 2 : at, (int)bad);
        assert_non_null(strstr(text, words));
    }
    pool_free(NULL);
}

static void wrong_calls(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MOST; ranks++)
        for (int rank = 0; rank < ranks; rank++)
            for (int at = 0; at < CALLS; at++) {
                check_wrong(ranks, rank, 5, LEAVES_OUT, at);
                check_wrong(ranks, rank, 9, HALVES, at);
                if ((at ^ 1) < CALLS)
                    check_wrong(ranks, rank, 300, SWAPS, at);
            }
}

/* The calls of a rank's step up to one, which may be halved. Returns a rank that this one differs
 * from. */
static int calls_until(struct job *job, int rank, int64_t step, int last, int halves)
{
    int differs = -1;
    lt_board_step(&job->board[rank], step);
    for (int i = 0; i <= last; i++) {
        struct lt_call call = usual(i);
        call.bytes /= halves && i == last ? 2 : 1;
        lt_board_call(&job->board[rank], call, &differs);
    }
    return differs;
}

/* A rank may be calls ahead of another one, as a sender is: the later one sees that they differ, in
 * the call that does, before it is made. */
static void ahead(void **state)
{
    (void)state;
    struct job job;
    for (int at = 0; at < CALLS; at++)
        for (int halves = 0; halves < 2; halves++) { /* the first one, the later one */
            make_job(&job, 2);
            make_step(&job, 0, 0, 0, HALVES, 0);
            make_step(&job, 1, 0, 0, HALVES, 0);
            if (halves) {
                assert_int_equal(make_step(&job, 0, 1, 0, HALVES, 0), -1);
                assert_int_equal(calls_until(&job, 1, 1, at, 1), 0);
            } else {
                assert_int_equal(make_step(&job, 0, 1, 1, HALVES, at), -1);
                assert_int_equal(calls_until(&job, 1, 1, at, 0), 0);
            }
            pool_free(NULL);
        }
}

/* In the first step there is nothing to compare with but the other ranks: with three or more, the
 * one that differs is named; of two it cannot be told which. */
static void first_step(void **state)
{
    (void)state;
    struct job job;
    char text[256];
    for (int ranks = 2; ranks <= MOST; ranks++)
        for (int rank = 0; rank < ranks; rank++) {
            struct lt_call call = usual(0), half = call;
            int differs = -1, seen = 0;
            half.bytes /= 2;
            make_job(&job, ranks);
            for (int i = 0; i < ranks; i++) {
                lt_board_step(&job.board[i], 0);
                lt_board_call(&job.board[i], i == rank ? half : call, &differs);
                seen += differs >= 0;
            }
            assert_true(seen > 0);
            assert_int_equal(lt_board_judge(&job.board[0], text, sizeof text),
                             ranks > 2 ? rank : -1);
            assert_true(ranks > 2 || strstr(text, "has made another one"));
            pool_free(NULL);
        }
}

/* Ranks that all wait are stuck only if nothing moves; one that computes is not waited for in vain.
 */
static void stuck(void **state)
{
    (void)state;
    struct job job;
    uint64_t seen = 0;
    char text[256];
    make_job(&job, 3);
    for (int i = 0; i < 3; i++) {
        make_step(&job, i, 0, 0, HALVES, 0);
        make_step(&job, i, 1, i == 1, LEAVES_OUT, 3);
        job.desk[i]->waiting = i != 2;
    }
    assert_int_equal(lt_board_stuck(&job.board[0], &seen), 0);
    assert_int_equal(lt_board_stuck(&job.board[0], &seen), 0); /* rank 2 computes */
    job.desk[2]->waiting = 1;
    assert_int_equal(lt_board_stuck(&job.board[0], &seen), 1);
    job.desk[1]->moved++;
    assert_int_equal(lt_board_stuck(&job.board[0], &seen), 0);
    assert_int_equal(lt_board_stuck(&job.board[0], &seen), 1);
    assert_int_equal(lt_board_judge(&job.board[0], text, sizeof text), 1);
    assert_int_equal(lt_board_speaks(&job.board[0]), 1);
    assert_int_equal(lt_board_speaks(&job.board[2]), 0);
    job.board[0].desk[2] = NULL; /* on another machine: it cannot be told */
    assert_int_equal(lt_board_stuck(&job.board[0], &seen), 0);
}

static int lives(int64_t process)
{
    return process != 102;
}

static void dead(void **state)
{
    (void)state;
    struct job job;
    char text[256];
    make_job(&job, 4);
    assert_int_equal(lt_board_dead(&job.board[0], lives), 2);
    assert_int_equal(lt_board_dead(&job.board[2], lives), -1); /* not itself */
    make_step(&job, 2, 11, 0, HALVES, 0);
    lt_board_last(&job.board[0], 2, text, sizeof text);
    assert_string_equal(text, "in step 11, its last call was number 6 of it (all_gather of 64 "
                              "bytes, communicator 2)");
    job.desk[2]->left = 1;
    assert_int_equal(lt_board_dead(&job.board[0], lives), -1);
}

/* The calls that a plan makes wrong: one of one rank and step, once; left out, it is not counted.
 */
static void plans(void **state)
{
    (void)state;
    struct job job;
    int differs;
    make_job(&job, 2);
    job.board[1].plan =
        (struct lt_board_plan){.fault = LT_CALL_SKIP, .step = 2, .rank = 1, .call = 4};
    for (int64_t step = 0; step < 4; step++) {
        lt_board_step(&job.board[1], step);
        for (int i = 0; i < CALLS; i++)
            assert_int_equal(lt_board_call(&job.board[1], usual(i), &differs),
                             step == 2 && i == 4 ? LT_CALL_SKIP : LT_CALL_RIGHT);
    }
    assert_int_equal(job.desk[1]->calls, 4 * CALLS - 1);
}

enum { DRIFTS = 40000 };

/* What a rank of `drifting` does. */
struct drift {
    struct job *job;
    int rank;
    int64_t *met; /* of each rank: collectives it has entered */
    int *differs; /* of either rank */
};

/* In even steps the ranks meet in a collective; in odd ones nothing waits for the other rank, so
 * that one may begin two steps while the other begins one. */
static void *drift(void *arg)
{
    struct drift *drift = arg;
    struct lt_board *board = &drift->job->board[drift->rank];
    for (int64_t step = 0; step < DRIFTS; step++) {
        int other = lt_board_step(board, step);
        if (other < 0 && step % 2 == 0)
            lt_board_call(board, usual(CALLS - 1), &other);
        if (other >= 0)
            __atomic_store_n(drift->differs, 1, __ATOMIC_RELEASE);
        if (step % 2)
            continue;
        __atomic_store_n(&drift->met[drift->rank], step + 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&drift->met[!drift->rank], __ATOMIC_ACQUIRE) < step + 1)
            sched_yield();
    }
    return NULL;
}

/* A rank that is ahead writes its notes over those that a slower one is reading. */
static void drifting(void **state)
{
    struct job job;
    int64_t met[2] = {0};
    int differs = 0;
    struct drift two[2];
    pthread_t thread[2];
    (void)state;
    make_job(&job, 2);
    for (int i = 0; i < 2; i++) {
        two[i] = (struct drift){&job, i, met, &differs};
        assert_int_equal(pthread_create(&thread[i], NULL, drift, &two[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(differs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy), cmocka_unit_test(wrong_calls), cmocka_unit_test(first_step),
        cmocka_unit_test(ahead),   cmocka_unit_test(stuck),       cmocka_unit_test(dead),
        cmocka_unit_test(plans),   cmocka_unit_test(drifting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
