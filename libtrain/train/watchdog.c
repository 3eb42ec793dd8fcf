/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank looks at while it waits, and what it says before it ends the job.
 */
#include "libtrain/train/watchdog.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libtrain/speak/simulated.h"
#include "tacho_error.h"
#include "tacho_nvtx.h"

#define LOOK_NS  50000000LL   /* between looks at the other processes */
#define STUCK_NS 5000000000LL /* in which no GiB moves, before ranks count as stuck */
#define LONG_NS  60000000000LL

struct lt_watchdog {
    struct lt_board board;
    struct lt_trace *trace;
    int sees; /* the other ranks' processes are visible here */
    const char *checkpoint;
    int64_t saved;
    int64_t since, looked; /* of this wait; 0: it has just begun */
    int64_t still;         /* time in which this rank looked, since it was last seen what moves */
    uint64_t seen;
    int warned;
};

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#define GONE    'Z' /* a process has ended, or has ended and is not yet buried */
#define STOPPED 'T' /* by a signal */
#define TRACED  't' /* by a debugger */

/* What a process does, by the letters of proc(5); '?': it cannot be told. */
static char state_of(int64_t process)
{
    char path[64], text[512];
    if (kill((pid_t)process, 0) != 0 && errno == ESRCH)
        return GONE;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *file = fopen(path, "r");
    if (!file)
        return errno == ENOENT ? GONE : '?';
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *end = strrchr(text, ')'); /* of the name */
    return !end || end[1] == '\0' ? '?' : end[2];
}

static int lives(int64_t process)
{
    return state_of(process) != GONE;
}

/* Is a rank held by a signal or a debugger? It goes on as soon as it is let go. */
static int is_held(const struct lt_board *board)
{
    for (int i = 0; i < board->ranks; i++) {
        char state = state_of(board->desk[i]->process);
        if (state == STOPPED || state == TRACED)
            return 1;
    }
    return 0;
}

static void hint(const struct lt_watchdog *watchdog)
{
    if (watchdog->checkpoint)
        fprintf(stderr, "hint: --resume %s goes on after %lld steps\n", watchdog->checkpoint,
                (long long)watchdog->saved);
    else
        fprintf(stderr, "hint: no checkpoint was written; --checkpoint FILE --checkpoint-every N "
                        "writes them\n");
}

/* Ends the job. The first rank says why; where the library cannot end the others, they end here. */
static void end_job(const struct lt_watchdog *watchdog, int speaks)
{
    if (speaks) {
        hint(watchdog);
        fflush(stderr);
        lt_sleep(0.3); /* a launcher that ends the job forgets what it has not read yet */
        lt_mpi_abort(tacho_error_exit(TACHO_EINTERNAL));
    }
    sleep(3);
    _exit(tacho_error_exit(TACHO_EINTERNAL));
}

static void end_for_dead(struct lt_watchdog *watchdog, int rank)
{
    char last[256];
    int speaks = lt_board_speaks(&watchdog->board);
    lt_board_last(&watchdog->board, rank, last, sizeof last);
    if (speaks)
        fprintf(stderr, "train: rank %d (process %lld) has died: %s\n", rank,
                (long long)watchdog->board.desk[rank]->process, last);
    end_job(watchdog, speaks);
}

static void end_for_calls(struct lt_watchdog *watchdog, const char *how)
{
    char text[512];
    int speaks = lt_board_speaks(&watchdog->board);
    int rank = lt_board_judge(&watchdog->board, text, sizeof text);
    if (speaks)
        fprintf(stderr, "train: %s: %s%s\n", how, text,
                rank < 0 ? " (which of them is at fault is not known)" : "");
    end_job(watchdog, speaks);
}

/* A rank that is not in a call is only slow, as far as can be told: it is named once. */
static void warn(struct lt_watchdog *watchdog)
{
    const struct lt_board *board = &watchdog->board;
    char last[256];
    watchdog->warned = 1;
    for (int i = 0; i < board->ranks; i++) {
        const struct lt_desk *desk = board->desk[i];
        if (!desk || i == board->rank || __atomic_load_n(&desk->waiting, __ATOMIC_ACQUIRE))
            continue;
        lt_board_last(board, i, last, sizeof last);
        fprintf(stderr,
                "train: rank %d has waited for %lld s; rank %d is outside communication: %s\n",
                board->rank, (long long)(LONG_NS / 1000000000), i, last);
        return;
    }
}

static void look(struct lt_watchdog *watchdog, int64_t now)
{
    struct lt_board *board = &watchdog->board;
    int dead = watchdog->sees ? lt_board_dead(board, lives) : -1;
    int64_t passed = now - watchdog->looked;
    watchdog->still += passed < 2 * LOOK_NS ? passed : LOOK_NS; /* longer: this rank was held */
    watchdog->looked = now;
    if (dead >= 0)
        end_for_dead(watchdog, dead);
    if (watchdog->still > STUCK_NS) {
        watchdog->still = 0;
        if (lt_board_stuck(board, &watchdog->seen) && !(watchdog->sees && is_held(board)))
            end_for_calls(watchdog, "all ranks wait for one another");
    }
    if (!watchdog->warned && now - watchdog->since > LONG_NS)
        warn(watchdog);
}

/* While this rank waits, over and over again; and when it does not any more. */
static void waits(void *arg, int waiting)
{
    struct lt_watchdog *watchdog = arg;
    struct lt_desk *own = watchdog->board.desk[watchdog->board.rank];
    if (!waiting) {
        __atomic_store_n(&own->moved, own->moved + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&own->waiting, 0, __ATOMIC_RELEASE);
        watchdog->since = 0;
        return;
    }
    int64_t now = now_ns();
    if (!watchdog->since) {
        watchdog->since = watchdog->looked = now;
        watchdog->seen = 0;
        watchdog->still = 0;
        __atomic_store_n(&own->waiting, 1, __ATOMIC_RELEASE);
        lt_board_stuck(&watchdog->board, &watchdog->seen); /* what is now, to compare with */
    }
    if (now - watchdog->looked > LOOK_NS)
        look(watchdog, now);
}

/* Before each call. */
static void call(void *arg, const struct tacho_comm *comm)
{
    struct lt_watchdog *watchdog = arg;
    struct lt_call call = {
        .communicator = comm->communicator, .bytes = comm->bytes, .op = comm->op};
    int differs = -1;
    lt_mpi_fault(lt_board_call(&watchdog->board, call, &differs));
    if (differs >= 0)
        end_for_calls(watchdog, "two ranks have made calls that do not match");
}

int lt_watchdog_open(struct lt_watchdog **out, const struct lt_mpi_place *place,
                     const struct lt_board_plan *plan)
{
    struct lt_watchdog *watchdog = calloc(1, sizeof *watchdog);
    *out = watchdog;
    if (!watchdog)
        return TACHO_ENOMEM;
    watchdog->board = (struct lt_board){.rank = place->rank, .ranks = place->ranks, .plan = *plan};
    if (place->ranks == 1)
        return 0;
    void **desks = calloc((size_t)place->ranks, sizeof *desks);
    watchdog->board.desk = (struct lt_desk **)(void *)desks;
    if (!desks || lt_mpi_share(sizeof(struct lt_desk), desks) || !desks[place->rank])
        return desks ? 0 : TACHO_ENOMEM;
    watchdog->board.desk[place->rank]->process = getpid();
    lt_mpi_watch(waits, watchdog);
    return 0;
}

/* Is there a desk to write on? */
static int watches(const struct lt_watchdog *watchdog)
{
    return watchdog && watchdog->board.desk && watchdog->board.desk[watchdog->board.rank];
}

void lt_watchdog_close(struct lt_watchdog *watchdog)
{
    if (watches(watchdog)) {
        __atomic_store_n(&watchdog->board.desk[watchdog->board.rank]->left, 1, __ATOMIC_RELEASE);
        lt_mpi_watch(NULL, NULL);
    }
    if (watchdog)
        free(watchdog->board.desk);
    free(watchdog);
}

void lt_watchdog_attach(struct lt_watchdog *watchdog, struct lt_trace *trace)
{
    if (!watches(watchdog))
        return;
    watchdog->sees = 1;
    for (int i = 0; i < watchdog->board.ranks; i++) {
        const struct lt_desk *desk = watchdog->board.desk[i];
        watchdog->sees = watchdog->sees && (!desk || lives(desk->process));
    }
    if (trace)
        lt_trace_watch(trace, call, watchdog);
    else
        lt_trace_watch(watchdog->trace, NULL, NULL);
    watchdog->trace = trace;
}

void lt_watchdog_step(struct lt_watchdog *watchdog, int64_t step)
{
    if (watches(watchdog) && lt_board_step(&watchdog->board, step) >= 0)
        end_for_calls(watchdog, "ranks have made different numbers of calls");
}

void lt_watchdog_saved(struct lt_watchdog *watchdog, const char *path, int64_t steps)
{
    if (!watchdog)
        return;
    watchdog->checkpoint = path;
    watchdog->saved = steps;
}
