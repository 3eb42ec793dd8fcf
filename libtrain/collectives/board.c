/* SPDX-License-Identifier: Apache-2.0
 *
 * The desks of a machine's ranks, and what follows from comparing them.
 */
#include "libtrain/collectives/board.h"

#include <stdio.h>

#include "tacho_nvtx.h"

static int same(const struct lt_call *left, const struct lt_call *right)
{
    return left->communicator == right->communicator && left->op == right->op &&
           left->bytes == right->bytes;
}

static const char *op_name(uint32_t op)
{
    static const char *const names[TACHO_COMM_COUNT] = {
#define ROW(id, value, text) [value] = (text),
        TACHO_COMM_MAP(ROW)
#undef ROW
    };
    return op < TACHO_COMM_COUNT ? names[op] : "?";
}

/* "all_reduce of 4096 bytes, communicator 1" */
static void describe(const struct lt_call *call, char *text, size_t size)
{
    snprintf(text, size, "%s of %llu bytes, communicator %llu", op_name(call->op),
             (unsigned long long)call->bytes, (unsigned long long)call->communicator);
}

/* The line of a communicator on a desk, NULL: it has none, or none is free. */
static struct lt_board_line *line_of(struct lt_desk *desk, uint64_t communicator, int makes)
{
    for (size_t i = 0; i < LT_BOARD_LINES; i++) {
        struct lt_board_line *line = &desk->line[(communicator + i) % LT_BOARD_LINES];
        if (__atomic_load_n(&line->used, __ATOMIC_ACQUIRE)) {
            if (line->communicator == communicator)
                return line;
            continue;
        }
        if (!makes)
            return NULL;
        line->communicator = communicator;
        __atomic_store_n(&line->used, 1, __ATOMIC_RELEASE);
        return line;
    }
    return NULL;
}

/* ---- what a rank writes ----------------------------------------------------------------------- */

/* Has the other rank noted the beginning of that step, and does the note still stand? */
static int notes(const struct lt_desk *desk, int64_t step)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* what was read before this is read before */
    return __atomic_load_n(&desk->before_step[step & 1], __ATOMIC_ACQUIRE) == step;
}

/* Has the other rank made other calls until that step began? Only where both have noted it. The
 * other one may be two steps further (nothing in a step need wait for this rank) and write its next
 * note over this one meanwhile: what was read counts only if the note stands afterwards. */
static int has_differed(struct lt_desk *own, struct lt_desk *other, int64_t step)
{
    int turn = (int)(step & 1);
    if (!notes(own, step) || !notes(other, step))
        return 0;
    for (size_t i = 0; i < LT_BOARD_LINES; i++) {
        const struct lt_board_line *line = &own->line[i], *there;
        if (!line->used || !line->before[turn].calls || line->communicator >= LT_BOARD_LOOSE)
            continue;
        there = line_of(other, line->communicator, 0);
        if (there && there->before[turn].calls &&
            (there->before[turn].calls != line->before[turn].calls ||
             there->before[turn].sum != line->before[turn].sum))
            return notes(other, step);
    }
    return 0;
}

int lt_board_step(struct lt_board *board, int64_t step)
{
    struct lt_desk *own = board->desk[board->rank];
    int turn = (int)(step & 1);
    __atomic_store_n(&own->before_step[turn], -1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the old note falls before the new one is written */
    for (size_t i = 0; i < LT_BOARD_LINES; i++) {
        own->line[i].before[turn].calls = own->line[i].calls;
        own->line[i].before[turn].sum = own->line[i].sum;
    }
    __atomic_store_n(&own->before_step[turn], step, __ATOMIC_RELEASE);
    own->begun[own->steps % LT_BOARD_STEPS] = (struct lt_board_step){step, own->calls};
    __atomic_store_n(&own->steps, own->steps + 1, __ATOMIC_RELEASE);
    for (int i = 0; step > 0 && i < board->ranks; i++)
        if (i != board->rank && board->desk[i] && has_differed(own, board->desk[i], step - 1))
            return i;
    return -1;
}

/* A rank's call of a communicator by its number. False: it is not there yet, or not any more. */
static int find_call(const struct lt_desk *desk, uint64_t communicator, uint32_t number,
                     struct lt_call *out)
{
    uint64_t calls = __atomic_load_n(&desk->calls, __ATOMIC_ACQUIRE);
    uint64_t kept = calls < LT_BOARD_CALLS / 2 ? calls : LT_BOARD_CALLS / 2;
    for (uint64_t i = 0; i < kept; i++) {
        *out = desk->call[(calls - 1 - i) % LT_BOARD_CALLS];
        if (out->communicator == communicator && out->number <= number)
            return out->number == number;
    }
    return 0;
}

/* A rank whose call of the same number is another one; -1: none has. Ranks need not be at it
 * together: a sender may be some messages ahead. The later one of two sees both calls. */
static int other_call(const struct lt_board *board, const struct lt_call *call)
{
    struct lt_call there;
    for (int i = 0; i < board->ranks; i++)
        if (i != board->rank && board->desk[i] &&
            find_call(board->desk[i], call->communicator, call->number, &there) &&
            !same(&there, call))
            return i;
    return -1;
}

enum lt_call_fault lt_board_call(struct lt_board *board, struct lt_call call, int *differs)
{
    struct lt_desk *own = board->desk[board->rank];
    const struct lt_board_plan *plan = &board->plan;
    const struct lt_board_step *step =
        &own->begun[(own->steps + LT_BOARD_STEPS - 1) % LT_BOARD_STEPS];
    enum lt_call_fault fault = LT_CALL_RIGHT;
    *differs = -1;
    if (call.op == TACHO_COMM_RECV)
        call.op = TACHO_COMM_SEND;
    if (plan->fault && plan->rank == board->rank && own->steps && plan->step == step->step &&
        plan->call == own->calls - step->first) {
        char words[128];
        fault = plan->fault;
        describe(&call, words, sizeof words);
        fprintf(stderr, "injected: rank %d %s call %llu of step %lld: %s\n", board->rank,
                fault == LT_CALL_SKIP ? "skips" : "halves", (unsigned long long)plan->call,
                (long long)plan->step, words);
        board->plan.fault = LT_CALL_RIGHT; /* once */
        if (fault == LT_CALL_SKIP)
            return fault;
        call.bytes /= 2;
    }
    struct lt_board_line *line = line_of(own, call.communicator, 1);
    call.number = line ? (uint32_t)line->calls : 0;
    own->call[own->calls % LT_BOARD_CALLS] = call;
    __atomic_store_n(&own->calls, own->calls + 1, __ATOMIC_RELEASE);
    if (!line)
        return fault;
    line->last = call;
    line->sum = (line->sum ^ call.op ^ call.bytes << 8) * 1099511628211u; /* as FNV-1a */
    __atomic_store_n(&line->calls, line->calls + 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* of two ranks, one sees what the other has written */
    *differs = other_call(board, &call);
    return fault;
}

/* ---- what a rank reads ------------------------------------------------------------------------ */

int lt_board_stuck(const struct lt_board *board, uint64_t *seen)
{
    uint64_t now = 1, before = *seen;
    int wait = 1;
    for (int i = 0; i < board->ranks; i++) {
        const struct lt_desk *desk = board->desk[i];
        if (!desk || !desk->process)
            return 0;
        wait = wait && __atomic_load_n(&desk->waiting, __ATOMIC_ACQUIRE) && !desk->left;
        now += __atomic_load_n(&desk->calls, __ATOMIC_ACQUIRE) +
               __atomic_load_n(&desk->moved, __ATOMIC_ACQUIRE);
    }
    *seen = now;
    return wait && now == before;
}

int lt_board_dead(const struct lt_board *board, int (*lives)(int64_t process))
{
    for (int i = 0; i < board->ranks; i++) {
        const struct lt_desk *desk = board->desk[i];
        if (i != board->rank && desk && desk->process &&
            !__atomic_load_n(&desk->left, __ATOMIC_ACQUIRE) && !lives(desk->process))
            return i;
    }
    return -1;
}

int lt_board_speaks(struct lt_board *board)
{
    for (int i = 0; i < board->ranks; i++)
        if (board->desk[i])
            return !__atomic_exchange_n(&board->desk[i]->said, 1, __ATOMIC_ACQ_REL);
    return 1;
}

void lt_board_last(const struct lt_board *board, int rank, char *text, size_t size)
{
    const struct lt_desk *desk = board->desk[rank];
    char words[128];
    if (!desk || !desk->steps) {
        snprintf(text, size, "before its first step");
        return;
    }
    const struct lt_board_step *step = &desk->begun[(desk->steps - 1) % LT_BOARD_STEPS];
    if (desk->calls == step->first) {
        snprintf(text, size, "in step %lld, before its first call", (long long)step->step);
        return;
    }
    describe(&desk->call[(desk->calls - 1) % LT_BOARD_CALLS], words, sizeof words);
    snprintf(text, size, "in step %lld, its last call was number %llu of it (%s)",
             (long long)step->step, (unsigned long long)(desk->calls - 1 - step->first), words);
}

/* ---- judgement --------------------------------------------------------------------------------- */

/* The calls of a step on a desk. */
struct calls {
    const struct lt_desk *desk;
    uint64_t first, count;
    int whole; /* the step has ended */
};

static const struct lt_call *call_at(const struct calls *calls, uint64_t index)
{
    return &calls->desk->call[(calls->first + index) % LT_BOARD_CALLS];
}

/* False: the desk does not have them, or not any more. */
static int calls_of(const struct lt_desk *desk, int64_t step, struct calls *out)
{
    uint64_t oldest = desk->steps > LT_BOARD_STEPS ? desk->steps - LT_BOARD_STEPS : 0;
    for (uint64_t i = oldest; i < desk->steps; i++) {
        const struct lt_board_step *begun = &desk->begun[i % LT_BOARD_STEPS];
        if (begun->step != step)
            continue;
        uint64_t end = desk->calls;
        if (i + 1 < desk->steps)
            end = desk->begun[(i + 1) % LT_BOARD_STEPS].first;
        *out = (struct calls){desk, begun->first, end - begun->first, i + 1 < desk->steps};
        return desk->calls - begun->first <= LT_BOARD_CALLS;
    }
    return 0;
}

/* Where a step differs from the one before, -1: nowhere, or it cannot be told. A step that goes on
 * is shorter. */
static int64_t deviation(const struct lt_desk *desk, int64_t step, struct calls *now,
                         struct calls *before)
{
    if (!calls_of(desk, step, now) || !calls_of(desk, step - 1, before))
        return -1;
    uint64_t i = 0;
    while (i < now->count && i < before->count && same(call_at(now, i), call_at(before, i)))
        i++;
    if (i == now->count && (!now->whole || i == before->count))
        return -1;
    return (int64_t)i;
}

/* From that call on, does the step go on as the one before from the next call on? */
static int is_left_out(const struct calls *now, const struct calls *before, uint64_t index)
{
    if (index >= before->count || (now->whole && now->count >= before->count))
        return 0;
    for (uint64_t i = index; i < now->count && i + 1 < before->count; i++)
        if (!same(call_at(now, i), call_at(before, i + 1)))
            return 0;
    return 1;
}

/* What a rank did at the place where its step differs from the one before. */
static void tell(int rank, int64_t step, uint64_t index, const struct calls *now,
                 const struct calls *before, char *text, size_t size)
{
    char wanted[128] = "nothing", made[128] = "nothing";
    if (index < before->count)
        describe(call_at(before, index), wanted, sizeof wanted);
    if (index < now->count)
        describe(call_at(now, index), made, sizeof made);
    if (is_left_out(now, before, index))
        snprintf(text, size, "rank %d skipped call %llu of step %lld: %s", rank,
                 (unsigned long long)index, (long long)step, wanted);
    else
        snprintf(text, size, "rank %d: call %llu of step %lld was %s; in the step before: %s", rank,
                 (unsigned long long)index, (long long)step, made, wanted);
}

/* Ranks compared with their own step before. */
static int judge_by_step(const struct lt_board *board, int64_t step, char *text, size_t size)
{
    int differing = 0, seen = 0, rank = -1;
    uint64_t at = 0;
    struct calls now, before, first_now = {0}, first_before = {0};
    for (int i = 0; i < board->ranks; i++) {
        const struct lt_desk *desk = board->desk[i];
        if (!desk || !calls_of(desk, step, &now) || !calls_of(desk, step - 1, &before))
            continue;
        seen++;
        int64_t index = deviation(desk, step, &now, &before);
        if (index < 0)
            continue;
        if (!differing++) {
            rank = i;
            at = (uint64_t)index;
            first_now = now;
            first_before = before;
        }
    }
    if (!differing || differing == seen)
        return -1;
    tell(rank, step, at, &first_now, &first_before, text, size);
    return rank;
}

/* Members of a communicator, by whether they have made a call of that number, the waiting one's. */
static int judge_line(const struct lt_board *board, int waits, char *text, size_t size)
{
    struct lt_desk *desk = board->desk[waits];
    char words[128];
    int missing = 0, others = 0, there = 0, rank = -1, other = -1;
    if (!desk->calls)
        return -1;
    const struct lt_call *call = &desk->call[(desk->calls - 1) % LT_BOARD_CALLS];
    const struct lt_board_line *line = line_of(desk, call->communicator, 0);
    for (int i = 0; line && i < board->ranks; i++) {
        struct lt_board_line *own =
            board->desk[i] ? line_of(board->desk[i], call->communicator, 0) : NULL;
        if (!own)
            continue;
        there++;
        if (own->calls < line->calls) {
            missing++;
            rank = i;
        } else if (own->calls == line->calls && !same(&own->last, call)) {
            others++;
            other = i;
        }
    }
    describe(call, words, sizeof words);
    if (others == 1 && there > 2) {
        char made[128];
        describe(&line_of(board->desk[other], call->communicator, 0)->last, made, sizeof made);
        snprintf(text, size, "rank %d made %s, where others made %s", other, made, words);
        return other;
    }
    if (others || missing)
        snprintf(text, size, "rank %d waits in %s, call %llu there; rank %d %s", waits, words,
                 (unsigned long long)(line->calls - 1), others ? other : rank,
                 others ? "has made another one" : "has not made it");
    return !others && missing == 1 && there > 2 ? rank : -1;
}

int lt_board_judge(const struct lt_board *board, char *text, size_t size)
{
    int64_t newest = -1;
    int rank = -1;
    snprintf(text, size, "no rank differs from the others");
    for (int i = 0; i < board->ranks; i++) {
        const struct lt_desk *desk = board->desk[i];
        if (desk && desk->steps && desk->begun[(desk->steps - 1) % LT_BOARD_STEPS].step > newest)
            newest = desk->begun[(desk->steps - 1) % LT_BOARD_STEPS].step;
    }
    for (int64_t step = newest - LT_BOARD_STEPS; rank < 0 && step <= newest; step++)
        rank = judge_by_step(board, step, text, size);
    for (int i = 0; rank < 0 && i < board->ranks; i++)
        if (board->desk[i])
            rank = judge_line(board, i, text, size);
    return rank;
}
