/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/random.h"

struct slot {
    struct lt_rows rows;
    int ready;
    int code; /* error of the batch, words in error */
    struct tacho_error error;
};

/* What one thread needs to make a batch. */
struct bench {
    struct lt_loader *loader;
    pthread_t thread;
    int number;
    char *raw;   /* b samples of raw_bytes */
    char *items; /* b decoded samples */
};

struct lt_loader {
    struct lt_part part;
    struct lt_loader_config config;
    struct lt_trace *trace;
    uint64_t taken; /* batches handed out; the consumer's own */
    int slots;
    struct slot *ring; /* batch k is in slot k % slots */
    struct bench *benches;
    int started;
    /* under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t made, freed;
    uint64_t next, released; /* the next batch to make; batches the consumer is done with */
    int depth;               /* batches ready */
    int stop;
};

/* The sample of the source that row `row` of batch `batch` holds. */
static uint64_t sample_at(const struct lt_loader *l, uint64_t batch, int64_t row)
{
    const struct lt_loader_config *k = &l->config;
    uint64_t n = k->position + (batch * (uint64_t)k->ranks + (uint64_t)k->rank) * (uint64_t)k->b + (uint64_t)row;
    uint64_t epoch = n / l->part.samples, i = n % l->part.samples;
    if (!k->options.in_order)
        i = lt_random_permute(lt_random_bits(k->seed, epoch), i, l->part.samples);
    return l->part.first + i;
}

static int stage_read(struct bench *w, uint64_t batch, struct tacho_error *err)
{
    const struct lt_loader *l = w->loader;
    const struct lt_source *s = l->part.source;
    uint64_t bytes = 0;
    int rc = 0;
    for (int64_t i = 0; i < l->config.b; i++)
        bytes += s->ops->bytes(s, sample_at(l, batch, i));
    lt_trace_begin(l->trace, LT_RANGE_READ, bytes, (uint64_t)l->config.b);
    for (int64_t i = 0; i < l->config.b && rc == 0; i++)
        rc = s->ops->read(s, sample_at(l, batch, i), w->raw + (size_t)i * s->raw_bytes, err);
    lt_trace_end(l->trace);
    return rc;
}

static int stage_decode(struct bench *w, uint64_t batch, struct tacho_error *err)
{
    const struct lt_loader *l = w->loader;
    const struct lt_source *s = l->part.source;
    int rc = 0;
    lt_trace_begin(l->trace, LT_RANGE_DECODE, s->item_bytes * (uint64_t)l->config.b, (uint64_t)l->config.b);
    for (int64_t i = 0; i < l->config.b && rc == 0; i++)
        rc = s->ops->decode(s, sample_at(l, batch, i), w->raw + (size_t)i * s->raw_bytes, w->items + (size_t)i * s->item_bytes,
                            err);
    lt_trace_end(l->trace);
    return rc;
}

static void stage_collate(struct bench *w, const struct slot *slot)
{
    const struct lt_loader *l = w->loader;
    const struct lt_source *s = l->part.source;
    lt_trace_begin(l->trace, LT_RANGE_COLLATE, s->item_bytes * (uint64_t)l->config.b, (uint64_t)l->config.b);
    for (int64_t i = 0; i < l->config.b; i++)
        s->ops->collate(s, w->items + (size_t)i * s->item_bytes, i, &slot->rows);
    lt_trace_end(l->trace);
}

static void make_batch(struct bench *w, uint64_t batch, struct slot *s)
{
    s->code = stage_read(w, batch, &s->error);
    if (s->code == 0)
        s->code = stage_decode(w, batch, &s->error);
    if (s->code == 0)
        stage_collate(w, s);
}

/* Takes the number of the next batch and waits until its slot is free. 0 when the loader stops. Called under the lock. */
static int claim(struct lt_loader *l, uint64_t *batch)
{
    *batch = l->next++;
    if (!l->stop && *batch >= l->released + (uint64_t)l->slots) {
        pthread_mutex_unlock(&l->lock);
        lt_trace_begin(l->trace, LT_RANGE_QUEUE_WAIT, 0, 0);
        pthread_mutex_lock(&l->lock);
        while (!l->stop && *batch >= l->released + (uint64_t)l->slots)
            pthread_cond_wait(&l->freed, &l->lock);
        pthread_mutex_unlock(&l->lock);
        lt_trace_end(l->trace);
        pthread_mutex_lock(&l->lock);
    }
    return !l->stop;
}

static void *worker(void *arg)
{
    struct bench *w = arg;
    struct lt_loader *l = w->loader;
    uint64_t batch;
    char name[16] = "loader-";
    size_t at = strlen(name);
    if (w->number >= 10)
        name[at++] = (char)('0' + w->number / 10 % 10);
    name[at] = (char)('0' + w->number % 10);
    lt_trace_thread(l->trace, name);
    pthread_mutex_lock(&l->lock);
    while (claim(l, &batch)) {
        struct slot *s = &l->ring[batch % (uint64_t)l->slots];
        pthread_mutex_unlock(&l->lock);
        make_batch(w, batch, s);
        pthread_mutex_lock(&l->lock);
        s->ready = 1;
        l->depth++;
        pthread_cond_signal(&l->made);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Threads with all signals blocked: a signal for the program is the main thread's to handle. */
static int start_workers(struct lt_loader *l, struct tacho_error *err)
{
    sigset_t all, before;
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < l->config.options.workers && rc == 0; i++) {
        rc = pthread_create(&l->benches[i].thread, NULL, worker, &l->benches[i]);
        l->started += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return tacho_fail(err, TACHO_EINTERNAL, "ask for fewer --workers", "cannot start a loader thread: %s", strerror(rc));
    return 0;
}

static int allocate(struct lt_loader *l)
{
    const struct lt_source *s = l->part.source;
    size_t b = (size_t)l->config.b;
    int benches = l->config.options.workers ? l->config.options.workers : 1;
    l->ring = calloc((size_t)l->slots, sizeof *l->ring);
    l->benches = calloc((size_t)benches, sizeof *l->benches);
    if (!l->ring || !l->benches)
        return TACHO_ENOMEM;
    for (int i = 0; i < l->slots; i++) {
        struct lt_rows *r = &l->ring[i].rows;
        r->tokens = s->t ? calloc(b * (size_t)s->t, sizeof *r->tokens) : NULL;
        r->features = s->t ? NULL : calloc(b * (size_t)s->width, sizeof *r->features);
        r->targets = calloc(b * (size_t)(s->t ? s->t : 1), sizeof *r->targets);
        if ((!r->tokens && !r->features) || !r->targets)
            return TACHO_ENOMEM;
    }
    for (int i = 0; i < benches; i++) {
        l->benches[i] =
            (struct bench){.loader = l, .number = i, .raw = calloc(b, s->raw_bytes), .items = calloc(b, s->item_bytes)};
        if (!l->benches[i].raw || !l->benches[i].items)
            return TACHO_ENOMEM;
    }
    return 0;
}

int lt_loader_create(struct lt_loader **out, const struct lt_part *part, const struct lt_loader_config *config,
                     struct lt_trace *trace, struct tacho_error *err)
{
    const struct lt_loader_options *k = &config->options;
    struct lt_loader *l = calloc(1, sizeof *l);
    if (!l)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "loader: out of memory");
    l->part = *part;
    l->config = *config;
    l->config.ranks = config->ranks ? config->ranks : 1;
    l->trace = trace;
    /* the consumer holds one slot while it works */
    l->slots = k->workers ? (k->prefetch > 1 ? k->prefetch : 1) + 1 : 1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->made, NULL);
    pthread_cond_init(&l->freed, NULL);
    int rc = allocate(l);
    if (rc)
        tacho_fail(err, rc, "choose a smaller --batch or --prefetch", "loader: out of memory");
    else
        rc = start_workers(l, err);
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
    pthread_mutex_lock(&loader->lock);
    loader->stop = 1;
    pthread_cond_broadcast(&loader->freed);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->started; i++)
        pthread_join(loader->benches[i].thread, NULL);
    for (int i = 0; loader->ring && i < loader->slots; i++) {
        free(loader->ring[i].rows.tokens);
        free(loader->ring[i].rows.features);
        free(loader->ring[i].rows.targets);
    }
    for (int i = 0; loader->benches && i < (loader->config.options.workers ? loader->config.options.workers : 1); i++) {
        free(loader->benches[i].raw);
        free(loader->benches[i].items);
    }
    free(loader->ring);
    free(loader->benches);
    pthread_cond_destroy(&loader->freed);
    pthread_cond_destroy(&loader->made);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}

/* Gives back the slot of the batch handed out before, and waits for the next one. Returns how many were ready at the call. */
static int take(struct lt_loader *l, struct slot *s)
{
    pthread_mutex_lock(&l->lock);
    if (l->taken > l->released) {
        l->released = l->taken;
        pthread_cond_broadcast(&l->freed);
    }
    int depth = l->depth;
    while (!s->ready)
        pthread_cond_wait(&l->made, &l->lock);
    s->ready = 0;
    l->depth--;
    pthread_mutex_unlock(&l->lock);
    return depth;
}

int lt_loader_next(struct lt_loader *loader, struct lt_batch *batch, struct tacho_error *err)
{
    struct lt_loader *l = loader;
    struct slot *s = &l->ring[l->taken % (uint64_t)l->slots];
    if (l->taken > 0 && l->ring[(l->taken - 1) % (uint64_t)l->slots].code) {
        struct slot *failed = &l->ring[(l->taken - 1) % (uint64_t)l->slots];
        return tacho_fail(err, failed->code, failed->error.hint, "%s", failed->error.what);
    }
    lt_trace_begin(l->trace, LT_RANGE_INPUT_WAIT, l->part.source->item_bytes * (uint64_t)l->config.b, (uint64_t)l->config.b);
    if (l->config.options.workers)
        lt_trace_count(l->trace, LT_COUNTER_QUEUE_DEPTH, take(l, s));
    else
        make_batch(&l->benches[0], l->taken, s);
    lt_trace_end(l->trace);
    l->taken++;
    if (s->code)
        return tacho_fail(err, s->code, s->error.hint, "%s", s->error.what);
    *batch = (struct lt_batch){.tokens = s->rows.tokens, .features = s->rows.features, .targets = s->rows.targets};
    return 0;
}

uint64_t lt_loader_position(const struct lt_loader *loader)
{
    return loader->config.position + loader->taken * (uint64_t)loader->config.ranks * (uint64_t)loader->config.b;
}
