/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader as the training loop sees it: a ring of batches that workers fill, and with `pin` a
 * second, shorter ring in locked memory that a thread fills from the first one. Without workers the
 * batches are made in line, on the step's thread, through the same stages.
 */
#include "libtrain/loader/loader.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libtrain/loader/loader_crew.h"
#include "libtrain/loader/loader_ring.h"
#include "libtrain/speak/trace.h"

#define STAGED 2 /* batches in locked memory: the one in use and the one that is being filled */

struct lt_loader {
    struct lt_loader_config config;
    struct lt_trace *trace;
    uint64_t taken;        /* batches handed out; the consumer's own */
    struct lt_ring *ring;  /* from the workers */
    struct lt_ring *stage; /* from the pin thread; NULL without one */
    struct lt_crew *crew;
    pthread_t pin;
    int pin_runs;
    uint64_t batch_bytes;
    int code; /* what lt_loader_next failed with, words in error */
    struct tacho_error error;
    char warning[160];
};

static int workers(const struct lt_loader *loader)
{
    return loader->config.options.workers;
}

/* ---- pinning ------------------------------------------------------------------------------------------------------------- */

/* Copies a batch from the ring into its place in locked memory. */
static void stage_batch(struct lt_loader *loader, uint64_t batch)
{
    const struct lt_slot *from = lt_ring_slot(loader->ring, batch);
    struct lt_slot *target = lt_ring_slot(loader->stage, batch);
    size_t bytes = lt_ring_slot_bytes(loader->ring);
    double slow = loader->config.options.slow[LT_STAGE_PIN];
    target->code = from->code;
    target->error = from->error;
    if (from->code)
        return;
    lt_trace_begin(loader->trace, LT_RANGE_PIN, bytes, (uint64_t)loader->config.b);
    if (from->rows.tokens)
        memcpy(target->rows.tokens, from->rows.tokens, bytes);
    else
        memcpy(target->rows.features, from->rows.features, bytes);
    if (slow > 0)
        lt_ring_sleep(loader->stage, slow);
    lt_trace_end(loader->trace);
}

/* Takes each batch from the workers and copies it into locked memory. An error is passed on in
 * the slot of its batch and ends the thread. */
static void *pin_thread(void *arg)
{
    struct lt_loader *loader = arg;
    uint64_t batch;
    lt_trace_thread(loader->trace, "pin-0");
    while (lt_ring_claim(loader->stage, &batch, NULL)) {
        struct tacho_error err = {0};
        struct lt_slot *slot = lt_ring_slot(loader->stage, batch);
        int rc = lt_ring_take(loader->ring, batch, lt_crew_check, loader->crew, NULL, &err);
        if (rc == 0) {
            stage_batch(loader, batch);
            lt_ring_release(loader->ring, batch + 1);
        } else {
            slot->code = rc;
            slot->error = err;
        }
        lt_ring_publish(loader->stage, batch);
        if (rc)
            break;
    }
    return NULL;
}

/* Memory that cannot be locked is used all the same, and said. */
static int open_stage(struct lt_loader *loader, const struct lt_source *source)
{
    size_t bytes;
    int rc = lt_ring_create(&loader->stage, source, loader->config.b, STAGED, 0);
    if (rc)
        return rc;
    void *memory = lt_ring_memory(loader->stage, &bytes);
    if (mlock2(memory, bytes, 0)) /* mlock does nothing under the sanitizers */
        snprintf(loader->warning, sizeof loader->warning,
                 "pin: %zu KiB cannot be locked (%s; ulimit -l raises the limit): not locked",
                 bytes / 1024, strerror(errno));
    return 0;
}

static int start_pin(struct lt_loader *loader, struct tacho_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&loader->pin, NULL, pin_thread, loader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    loader->pin_runs = rc == 0;
    return rc ? tacho_fail(err, TACHO_EINTERNAL, NULL, "cannot start the pin thread: %s",
                           strerror(rc))
              : 0;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

/* The consumer, or the pin thread, holds one slot while it works. */
static int slots(const struct lt_loader_options *options)
{
    if (!options->workers)
        return 1;
    return options->prefetch > 1 ? options->prefetch + 1 : 2;
}

/* Rings and workers, without starting anything. */
static int allocate(struct lt_loader *loader, const struct lt_part *part)
{
    const struct lt_loader_options *options = &loader->config.options;
    int rc = lt_ring_create(&loader->ring, part->source, loader->config.b, slots(options),
                            lt_crew_shared_bytes(&loader->config, loader->trace));
    if (rc == 0)
        rc = lt_crew_create(&loader->crew, part, &loader->config, loader->ring, loader->trace);
    if (rc == 0 && options->pin)
        rc = open_stage(loader, part->source);
    return rc;
}

int lt_loader_create(struct lt_loader **out, const struct lt_part *part,
                     const struct lt_loader_config *config, struct lt_trace *trace,
                     struct tacho_error *err)
{
    struct lt_loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "loader: out of memory");
    loader->config = *config;
    loader->config.ranks = config->ranks ? config->ranks : 1;
    loader->trace = trace;
    loader->batch_bytes = part->source->item_bytes * (uint64_t)config->b;
    int rc = allocate(loader, part);
    if (rc)
        tacho_fail(err, rc, "choose a smaller --batch or --prefetch", "loader: out of memory");
    if (rc == 0 && workers(loader))
        rc = lt_crew_start(loader->crew, err);
    if (rc == 0 && workers(loader) && loader->stage)
        rc = start_pin(loader, err);
    if (rc) {
        lt_loader_destroy(loader);
        return rc;
    }
    *out = loader;
    return 0;
}

static void stop_pin(struct lt_loader *loader)
{
    lt_ring_stop(loader->stage);
    lt_ring_stop(loader->ring);
    pthread_join(loader->pin, NULL);
}

void lt_loader_destroy(struct lt_loader *loader)
{
    if (!loader)
        return;
    if (loader->pin_runs)
        stop_pin(loader);
    lt_crew_destroy(loader->crew);
    lt_ring_destroy(loader->stage);
    lt_ring_destroy(loader->ring);
    free(loader);
}

/* Gives back the slot of the batch handed out before, and waits for the next one. */
static int take(struct lt_loader *loader, struct tacho_error *err)
{
    struct lt_ring *from = loader->stage ? loader->stage : loader->ring;
    int depth = 0, behind = loader->stage ? lt_ring_depth(loader->ring) : 0;
    lt_ring_release(from, loader->taken);
    int rc = loader->stage
                 ? lt_ring_take(from, loader->taken, NULL, NULL, &depth, err)
                 : lt_ring_take(from, loader->taken, lt_crew_check, loader->crew, &depth, err);
    lt_trace_count(loader->trace, LT_COUNTER_QUEUE_DEPTH, depth + behind);
    return rc;
}

int lt_loader_next(struct lt_loader *loader, struct lt_batch *batch, struct tacho_error *err)
{
    struct lt_loader *l = loader;
    struct lt_slot *slot = lt_ring_slot(l->stage ? l->stage : l->ring, l->taken);
    if (l->code == 0) {
        lt_trace_begin(l->trace, LT_RANGE_INPUT_WAIT, l->batch_bytes, (uint64_t)l->config.b);
        if (workers(l)) {
            l->code = take(l, &l->error);
        } else {
            lt_crew_make(l->crew, l->taken);
            if (l->stage)
                stage_batch(l, l->taken);
        }
        lt_trace_end(l->trace);
        if (l->code == 0 && slot->code) {
            l->code = slot->code;
            l->error = slot->error;
        }
    }
    if (l->code)
        return tacho_fail(err, l->code, l->error.hint, "%s", l->error.what);
    l->taken++;
    *batch = (struct lt_batch){.tokens = slot->rows.tokens,
                               .features = slot->rows.features,
                               .targets = slot->rows.targets};
    return 0;
}

uint64_t lt_loader_position(const struct lt_loader *loader)
{
    return loader->config.position +
           loader->taken * (uint64_t)loader->config.ranks * (uint64_t)loader->config.b;
}

const char *lt_loader_warning(const struct lt_loader *loader)
{
    return loader->warning[0] ? loader->warning : NULL;
}

/* Heads of rings, some kilobytes, and times of worker processes are not included. */
uint64_t lt_loader_memory(const struct lt_part *part, const struct lt_loader_config *config)
{
    const struct lt_loader_options *options = &config->options;
    const struct lt_source *source = part->source;
    uint64_t row = (uint64_t)(source->t ? 2 * source->t : source->width + 1) * 4,
             batch = (uint64_t)config->b;
    uint64_t benches = options->workers ? (uint64_t)options->workers : 1;
    if (options->workers && options->kind == LT_WORKERS_PROCESSES)
        benches = 0;
    return batch * (row * (uint64_t)(slots(options) + (options->pin ? STAGED : 0)) +
                    benches * (source->raw_bytes + source->item_bytes));
}
