/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the one door to the MPI library. Without HAVE_MPI there is one rank, and a
 * start as one of several is refused by name instead of training as many times the same.
 *
 * A call that fails inside the library, or a peer that died, ends the job: the library's default
 * error handler says why.
 */
#ifndef LT_PARALLEL_MPI_H
#define LT_PARALLEL_MPI_H

#include <stddef.h>

#include "libtrain/base/dtype.h"
#include "libtrain/collectives/board.h"
#include "libtrain/collectives/order.h"
#include "tacho_error.h"

/* The place of this rank in the job and on its machine. */
struct lt_mpi_place {
    int rank, ranks;
    int local_rank, local_ranks; /* on this machine */
    int cores;                   /* that this rank may run on */
    int sharers;       /* ranks of this machine, this one included, that may run on one of them */
    int machine_cores; /* online */
    int serialized;    /* calls from any thread, one at a time, are granted */
    char library[64];  /* name and version */
};

/* Ranks that the launcher speaks of in the environment: 0 none (a plain start), -1 a launcher that
 * does not say how many. */
int lt_mpi_launched(void);

/* Joins the other ranks if a launcher started this process; a plain start never touches the
 * library. TACHO_ENOTSUP with words in *err when the launcher and the library disagree. To be
 * called once, from the thread that calls lt_mpi_close. */
int lt_mpi_open(struct lt_mpi_place *place, struct tacho_error *err);

/* Leaves. Waits for the other ranks. */
void lt_mpi_close(void);

/* Element-wise sum over the ranks of `count` elements, the same bits on all of them. In bf16 each
 * addition is made in fp32 and rounded to nearest even. from == to: in place. One call at a time,
 * in the same order on all ranks. */
void lt_mpi_sum(enum lt_dtype dtype, const void *from, void *to, size_t count);

/* The exchange of a group (collectives/group.h), of which all ranks are members. Parts of 1 GiB.
 * arg is not looked at. */
void lt_mpi_exchange(void *arg, int to, const void *out, size_t out_bytes, int from, void *in,
                     size_t in_bytes);

/* The four others of a group, of messages with tags. */
void *lt_mpi_post(void *arg, int to, int tag, const void *out, size_t bytes);
void lt_mpi_settle(void *arg, void *posted);
void lt_mpi_take(void *arg, int from, int tag, void *in, size_t bytes);
int lt_mpi_arrived(void *arg, int from, int tag);

/* Memory of `bytes`, all zero, of each rank on this machine, which all of them can read and write;
 * by_rank[ranks]: NULL of ranks elsewhere. To be called once, by all ranks. TACHO_ENOTSUP where the
 * library has none. */
int lt_mpi_share(size_t bytes, void **by_rank);

/* While a call waits for other ranks, waits(arg, 1) is called at least every few milliseconds, and
 * waits(arg, 0) at its end. NULL: no more. */
void lt_mpi_watch(void (*waits)(void *arg, int waiting), void *arg);

/* Operations are noted there from now on, and a departure ends the job with words. NULL: no more.
 * The order is borrowed. */
void lt_mpi_order(struct lt_order *order);
/* Notes what this rank sees of its own work; returns it or, where an order is enforced, what it saw
 * then. */
int lt_mpi_answer(int seen);

/* What is to be done wrong on purpose from now on, until it is told otherwise. */
void lt_mpi_fault(enum lt_call_fault fault);

/* `bytes` of each rank, in the order of ranks, on a communicator of its own. all: ranks * bytes. */
void lt_mpi_gather(const void *mine, void *all, size_t bytes);

/* Ends all ranks at once with that exit code; for errors that cannot be sent to the others in turn.
 */
void lt_mpi_abort(int exit_code);

#endif
