/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: what each rank of a machine does, where all of them can read it: the calls
 * it has begun, the step it is in, whether it waits. So a rank that waits in vain finds out why:
 * which rank has died, which one has left out a call, made another one, or made it with other
 * bytes.
 *
 * Calls are counted by communicator, on each rank by itself, so that a rank that leaves one out
 * lags behind. Two ranks agree where their calls of the same communicator and number have the same
 * operation (a send and its receive count as one) and bytes.
 *
 * A rank writes its own desk only, from one thread at a time (lt_group's rule); desks lie in memory
 * that the ranks share. Ranks on other machines have none here: nothing is said about them.
 */
#ifndef LT_BOARD_H
#define LT_BOARD_H

#include <stddef.h>
#include <stdint.h>

#define LT_BOARD_CALLS 2048 /* of the last steps; must hold two of them */
#define LT_BOARD_STEPS 8
#define LT_BOARD_LINES 64 /* communicators of a rank */
/* From here on communicators are of ranks that need not be in the same step: the number of their
 * calls by a step is not compared. */
#define LT_BOARD_LOOSE (1ull << 40)

struct lt_call {
    uint64_t communicator, bytes;
    uint32_t op;     /* of tacho_comm; a receive is a send */
    uint32_t number; /* among the rank's calls of this communicator; lt_board_call fills it in */
};

/* What one rank does. All zero: it has not begun. */
struct lt_desk {
    int64_t process; /* its id; 0: it has not begun */
    int left;        /* it ended as it should */
    int waiting;     /* inside of a call, for others */
    int said;        /* of the lowest rank: a rank has printed what is wrong */
    uint64_t moved;  /* messages that came or went */
    uint64_t calls;  /* begun */
    struct lt_call call[LT_BOARD_CALLS];
    struct lt_board_step {
        int64_t step;
        uint64_t first; /* number of its first call */
    } begun[LT_BOARD_STEPS];
    uint64_t steps; /* begun */
    /* Of each communicator: calls so far, a checksum of all of them, and the last one; the first
     * two when the last two steps began. */
    struct lt_board_line {
        uint64_t communicator, calls, sum;
        struct {
            uint64_t calls, sum;
        } before[2];
        struct lt_call last;
        int used;
    } line[LT_BOARD_LINES];
    int64_t before_step[2]; /* whose beginnings these are; -1 while they are being written */
};

/* What a rank does wrong on purpose in call number `call` of a step, for tests. */
enum lt_call_fault { LT_CALL_RIGHT, LT_CALL_SKIP, LT_CALL_SHRINK };
struct lt_board_plan {
    enum lt_call_fault fault;
    int64_t step;
    int rank;
    uint64_t call;
};

struct lt_board {
    struct lt_desk **desk; /* by rank; NULL: on another machine */
    int rank, ranks;
    struct lt_board_plan plan;
};

/* A step of this rank begins. Returns a rank that has, until the last step began, made other calls
 * than this one on a communicator that both have; -1: none has. */
int lt_board_step(struct lt_board *board, int64_t step);

/* This rank is about to make a call. *differs: a rank whose call of that number is another one, or
 * -1. Returns what is to be done wrong on purpose; a call that is left out is not counted. */
enum lt_call_fault lt_board_call(struct lt_board *board, struct lt_call call, int *differs);

/* Do all ranks wait, and has nothing moved since *seen was taken? Then they wait for ever. *seen
 * becomes what is now; begins as 0. 0 where ranks are on several machines. */
int lt_board_stuck(const struct lt_board *board, uint64_t *seen);

/* The lowest rank that ended without leaving, -1: none did. `lives` says whether a process does.
 */
int lt_board_dead(const struct lt_board *board, int (*lives)(int64_t process));

/* Which rank did what in which call, as far as the desks tell. Compares each rank's step with its
 * step before; a difference that all ranks have is none. Else compares the ranks with each other.
 * Returns the rank, or -1 where it cannot be told; text[size] is filled in any case. */
int lt_board_judge(const struct lt_board *board, char *text, size_t size);

/* What a rank did last, as words: "in step 7, after call 3 of it (all_reduce of 4096 bytes)". */
void lt_board_last(const struct lt_board *board, int rank, char *text, size_t size);

/* Is this the first to speak for the job? */
int lt_board_speaks(struct lt_board *board);

#endif
