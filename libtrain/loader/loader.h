/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: batches of samples from a source, made ahead of time by workers.
 *
 * Each epoch visits all n samples of the part, in an order drawn from (seed, epoch), or in the
 * source's order. Batch k of rank r holds the samples number position + (k ranks + r) b .. + b of
 * that endless sequence, whoever makes it: batches do not depend on the number or kind of workers,
 * 2 ranks that take 1 batch a step see what 1 rank sees that takes 2, and a run is continued by
 * giving the position it had reached.
 *
 * Stages, each a range on the thread that does it (loader-0, loader-1, ...): read (a sample at a
 * time), decode, augment (of sources that have it), collate. A worker that is ahead by `prefetch`
 * batches waits in a queue_wait range; the consumer waits in an input_wait range. workers = 0 does
 * the stages in line, inside input_wait.
 *
 * pin: a thread pin-0 copies each batch into memory that stays in RAM, as an input pipeline for a
 * device does, in a pin range; without workers that happens in line too. One more batch is then
 * ready at a time.
 */
#ifndef LT_LOADER_H
#define LT_LOADER_H

#include "libtrain/data/source.h"
#include "libtrain/loader/batch.h"

struct lt_trace;

enum lt_loader_stage {
    LT_STAGE_READ,
    LT_STAGE_DECODE,
    LT_STAGE_AUGMENT,
    LT_STAGE_COLLATE,
    LT_STAGE_PIN,
    LT_STAGE_COUNT
};

enum lt_worker_kind { LT_WORKERS_THREADS, LT_WORKERS_PROCESSES };

/* How batches are made; not which. */
struct lt_loader_options {
    int workers;
    int prefetch; /* batches ready at a time, at least 1 when there are workers */
    enum lt_worker_kind kind;
    int in_order;                /* samples in the source's order, else shuffled */
    int pin;                     /* through locked memory */
    double slow[LT_STAGE_COUNT]; /* seconds to sleep in that stage of each batch */
};

struct lt_loader_config {
    struct lt_loader_options options;
    int64_t b;
    uint64_t seed;
    uint64_t position; /* samples consumed before, by all ranks */
    int rank, ranks;   /* ranks = 0 means one */
    int plain;         /* augment without chance: evaluations */
};

struct lt_loader;

/* Starts the workers. The part's source and `trace` (may be NULL) must outlive the loader. The
 * caller frees with lt_loader_destroy. TACHO_ENOMEM, TACHO_EINTERNAL (no thread or process), with
 * words in *err. */
int lt_loader_create(struct lt_loader **out, const struct lt_part *part,
                     const struct lt_loader_config *config, struct lt_trace *trace,
                     struct tacho_error *err);

/* Stops and joins the workers, whatever they wait for. Accepts NULL. */
void lt_loader_destroy(struct lt_loader *loader);

/* Waits for the next batch. On an error of storage (TACHO_EIO), of data (TACHO_ECORRUPT) or of a
 * worker process (TACHO_EINTERNAL) the words are in *err, and every later call fails likewise. */
int lt_loader_next(struct lt_loader *loader, struct lt_batch *batch, struct tacho_error *err);

/* Samples consumed so far by all ranks, if each took as many batches as this one; those before the
 * loader was made included. */
uint64_t lt_loader_position(const struct lt_loader *loader);

/* Bytes that a loader holds in this process (tag loader), in closed form: batches ahead, and the
 * buffers of those who make them. */
uint64_t lt_loader_memory(const struct lt_part *part, const struct lt_loader_config *config);

/* What does not work as asked, or NULL; owned by the loader. */
const char *lt_loader_warning(const struct lt_loader *loader);

#endif
