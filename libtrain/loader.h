/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: batches of token sequences from a dataset, made ahead of time by worker threads.
 *
 * The region [from, to) of the bytes holds n = (to - from - 1) / t samples; sample i is the t + 1 bytes from from + i t (the
 * last one is only a target). Epoch e visits all n samples in an order drawn from (seed, e), or in file order. Batch k holds
 * the samples number position + k b .. + b of that endless sequence, whoever makes it: batches do not depend on the number of
 * workers, and a run is continued by giving the position it had reached.
 *
 * Stages, each a range on the thread that does it: read (pread a sample at a time), decode (bytes to tokens), collate (tokens
 * and targets of the batch). A worker that is ahead by `prefetch` batches waits in a queue_wait range; the consumer waits in an
 * input_wait range. workers = 0 does the stages in line, inside input_wait.
 */
#ifndef LT_LOADER_H
#define LT_LOADER_H

#include "libtrain/batch.h"
#include "libtrain/dataset.h"
#include "libtrain/trace.h"

struct lt_loader_config {
    uint64_t from, to; /* bytes of the dataset */
    int64_t b, t;
    int workers, prefetch; /* prefetch: batches ready at a time, at least 1 when there are workers */
    int shuffle;
    uint64_t seed;
    uint64_t position; /* samples consumed before */
};

struct lt_loader;

/* Starts the workers. `data` and `trace` (may be NULL) must outlive the loader. The caller frees with lt_loader_destroy.
 * TACHO_EFORMAT when the region is too small for one sample, TACHO_ENOMEM, TACHO_EINTERNAL (no thread), with words in *err. */
int lt_loader_create(struct lt_loader **out, const struct lt_dataset *data, const struct lt_loader_config *config,
                     struct lt_trace *trace, struct tacho_error *err);

/* Stops and joins the workers, whatever they wait for. Accepts NULL. */
void lt_loader_destroy(struct lt_loader *loader);

/* Waits for the next batch. On an error of storage (TACHO_EIO) the words are in *err, and every later call fails likewise. */
int lt_loader_next(struct lt_loader *loader, struct lt_batch *batch, struct tacho_error *err);

/* Samples consumed so far, those before the loader was made included. */
uint64_t lt_loader_position(const struct lt_loader *loader);

/* Samples in the region: one epoch. */
uint64_t lt_loader_samples(const struct lt_loader *loader);

#endif
