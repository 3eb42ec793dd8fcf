/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the loader: batches on their way from those who make them to the one who takes them.
 * Batch k lies in slot k % slots. The ring and its arrays are one mapping that forked children
 * share, so makers may be threads or processes.
 *
 * A maker claims the number of the next batch and waits until its slot is free; it fills the slot
 * and publishes it. The taker waits for batch 0, 1, 2, ... and releases a slot when it is done with
 * it. The lock is robust: a process that is killed while it holds it stops the ring, it does not
 * hang the others.
 */
#ifndef LT_LOADER_RING_H
#define LT_LOADER_RING_H

#include "libtrain/data/source.h"

struct lt_trace;

struct lt_slot {
    struct lt_rows rows;
    int ready;
    int code; /* error of the batch, words in error */
    struct tacho_error error;
};

struct lt_ring;

/* Asked now and then while the taker waits: 0, or why no batch will come. */
typedef int lt_ring_check(void *arg, struct tacho_error *err);

/* `slots` batches of `b` samples of the source; `extra` bytes of shared memory beside them, zero at
 * first. TACHO_ENOMEM. */
int lt_ring_create(struct lt_ring **out, const struct lt_source *source, int64_t b, int slots,
                   size_t extra);
/* Accepts NULL. It must not be used any more; in other processes it stays mapped. */
void lt_ring_destroy(struct lt_ring *ring);

/* The whole mapping. */
void *lt_ring_memory(const struct lt_ring *ring, size_t *bytes);
void *lt_ring_extra(const struct lt_ring *ring);
/* Bytes of the arrays of one slot. */
size_t lt_ring_slot_bytes(const struct lt_ring *ring);

struct lt_slot *lt_ring_slot(struct lt_ring *ring, uint64_t batch);

/* The number of the next batch, once its slot is free; waiting is a queue_wait range. 0 when the
 * ring stops. */
int lt_ring_claim(struct lt_ring *ring, uint64_t *batch, struct lt_trace *trace);
void lt_ring_publish(struct lt_ring *ring, uint64_t batch);

/* Waits until `batch` is published. *depth (may be NULL) is how many were ready at the call.
 * `check` may be NULL. 0, what `check` returned, TACHO_EINTERRUPTED when the ring stops, or
 * TACHO_EINTERNAL when a process died that held the lock. */
int lt_ring_take(struct lt_ring *ring, uint64_t batch, lt_ring_check *check, void *arg, int *depth,
                 struct tacho_error *err);
/* Batches before `batch` are no longer needed. */
void lt_ring_release(struct lt_ring *ring, uint64_t batch);
/* Batches ready. */
int lt_ring_depth(struct lt_ring *ring);

/* All who wait, in whatever process, return. */
void lt_ring_stop(struct lt_ring *ring);
/* Sleeps, or returns earlier when the ring stops. */
void lt_ring_sleep(struct lt_ring *ring, double seconds);

#endif
