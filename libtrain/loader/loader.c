/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/loader/loader.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libtrain/loader/loader_crew.h"
#include "libtrain/loader/loader_ring.h"

#define STAGED 2 /* batches in locked memory: the consumer's, and one that is filled meanwhile */

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

static int workers(const struct lt_loader *l)
{
    return l->config.options.workers;
}

/* ---- pinning ------------------------------------------------------------------------------------------------------------- */

/* Copies a batch from the ring into its place in locked memory. */
static void stage_batch(struct lt_loader *l, uint64_t batch)
{
    const struct lt_slot *from = lt_ring_slot(l->ring, batch);
    struct lt_slot *to = lt_ring_slot(l->stage, batch);
    size_t bytes = lt_ring_slot_bytes(l->ring);
    to->code = from->code;
    to->error = from->error;
    if (from->code)
        return;
    lt_trace_begin(l->trace, LT_RANGE_PIN, bytes, (uint64_t)l->config.b);
    if (from->rows.tokens)
        memcpy(to->rows.tokens, from->rows.tokens, bytes);
    else
        memcpy(to->rows.features, from->rows.features, bytes);
    lt_trace_end(l->trace);
}

static void *pin_thread(void *arg)
{
    struct lt_loader *l = arg;
    uint64_t batch;
    lt_trace_thread(l->trace, "pin-0");
    while (lt_ring_claim(l->stage, &batch, NULL)) {
        struct tacho_error err = {0};
        struct lt_slot *to = lt_ring_slot(l->stage, batch);
        int rc = lt_ring_take(l->ring, batch, lt_crew_check, l->crew, NULL, &err);
        if (rc == 0) {
            stage_batch(l, batch);
            lt_ring_release(l->ring, batch + 1);
        } else {
            to->code = rc;
            to->error = err;
        }
        lt_ring_publish(l->stage, batch);
        if (rc)
            break;
    }
    return NULL;
}

/* Memory that cannot be locked is used all the same, and said. */
static int open_stage(struct lt_loader *l, const struct lt_source *source)
{
    size_t bytes;
    int rc = lt_ring_create(&l->stage, source, l->config.b, STAGED, 0);
    if (rc)
        return rc;
    void *memory = lt_ring_memory(l->stage, &bytes);
    if (mlock2(memory, bytes, 0)) /* mlock does nothing under the sanitizers */
        snprintf(l->warning, sizeof l->warning,
                 "pin: %zu KiB cannot be locked (%s; ulimit -l raises the limit): not locked",
                 bytes / 1024, strerror(errno));
    return 0;
}

static int start_pin(struct lt_loader *l, struct tacho_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&l->pin, NULL, pin_thread, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    l->pin_runs = rc == 0;
    return rc ? tacho_fail(err, TACHO_EINTERNAL, NULL, "cannot start the pin thread: %s",
                           strerror(rc))
              : 0;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

/* The consumer, or the pin thread, holds one slot while it works. */
static int slots(const struct lt_loader_options *k)
{
    return k->workers ? (k->prefetch > 1 ? k->prefetch : 1) + 1 : 1;
}

static int allocate(struct lt_loader *l, const struct lt_part *part)
{
    const struct lt_loader_options *k = &l->config.options;
    int rc = lt_ring_create(&l->ring, part->source, l->config.b, slots(k),
                            lt_crew_shared_bytes(&l->config, l->trace));
    if (rc == 0)
        rc = lt_crew_create(&l->crew, part, &l->config, l->ring, l->trace);
    if (rc == 0 && k->pin)
        rc = open_stage(l, part->source);
    return rc;
}

int lt_loader_create(struct lt_loader **out, const struct lt_part *part,
                     const struct lt_loader_config *config, struct lt_trace *trace,
                     struct tacho_error *err)
{
    struct lt_loader *l = calloc(1, sizeof *l);
    if (!l)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "loader: out of memory");
    l->config = *config;
    l->config.ranks = config->ranks ? config->ranks : 1;
    l->trace = trace;
    l->batch_bytes = part->source->item_bytes * (uint64_t)config->b;
    int rc = allocate(l, part);
    if (rc)
        tacho_fail(err, rc, "choose a smaller --batch or --prefetch", "loader: out of memory");
    if (rc == 0 && workers(l))
        rc = lt_crew_start(l->crew, err);
    if (rc == 0 && workers(l) && l->stage)
        rc = start_pin(l, err);
    if (rc) {
        lt_loader_destroy(l);
        return rc;
    }
    *out = l;
    return 0;
}

void lt_loader_destroy(struct lt_loader *loader)
{
    if (!loader)
        return;
    if (loader->pin_runs) {
        lt_ring_stop(loader->stage);
        lt_ring_stop(loader->ring);
        pthread_join(loader->pin, NULL);
    }
    lt_crew_destroy(loader->crew);
    lt_ring_destroy(loader->stage);
    lt_ring_destroy(loader->ring);
    free(loader);
}

/* Gives back the slot of the batch handed out before, and waits for the next one. */
static int take(struct lt_loader *l, struct tacho_error *err)
{
    struct lt_ring *from = l->stage ? l->stage : l->ring;
    int depth = 0, behind = l->stage ? lt_ring_depth(l->ring) : 0;
    lt_ring_release(from, l->taken);
    int rc = l->stage ? lt_ring_take(from, l->taken, NULL, NULL, &depth, err)
                      : lt_ring_take(from, l->taken, lt_crew_check, l->crew, &depth, err);
    lt_trace_count(l->trace, LT_COUNTER_QUEUE_DEPTH, depth + behind);
    return rc;
}

int lt_loader_next(struct lt_loader *loader, struct lt_batch *batch, struct tacho_error *err)
{
    struct lt_loader *l = loader;
    struct lt_slot *s = lt_ring_slot(l->stage ? l->stage : l->ring, l->taken);
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
        if (l->code == 0 && s->code) {
            l->code = s->code;
            l->error = s->error;
        }
    }
    if (l->code)
        return tacho_fail(err, l->code, l->error.hint, "%s", l->error.what);
    l->taken++;
    *batch = (struct lt_batch){
        .tokens = s->rows.tokens, .features = s->rows.features, .targets = s->rows.targets};
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

/* Heads of rings, some kilobytes, and times of worker processes are left out. */
uint64_t lt_loader_memory(const struct lt_part *part, const struct lt_loader_config *config)
{
    const struct lt_loader_options *k = &config->options;
    const struct lt_source *s = part->source;
    uint64_t row = (uint64_t)(s->t ? 2 * s->t : s->width + 1) * 4, b = (uint64_t)config->b;
    uint64_t benches = !k->workers ? 1 : k->kind == LT_WORKERS_PROCESSES ? 0 : (uint64_t)k->workers;
    return b * (row * (uint64_t)(slots(k) + (k->pin ? STAGED : 0)) +
                benches * (s->raw_bytes + s->item_bytes));
}
