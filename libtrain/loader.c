/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/random.h"

struct slot {
    int32_t *tokens, *targets;
    int ready;
    int code; /* error of the batch, words in error */
    struct tacho_error error;
};

/* What one thread needs to make a batch. */
struct bench {
    struct lt_loader *loader;
    pthread_t thread;
    int number;
    unsigned char *raw; /* b * (t + 1) bytes */
    int32_t *decoded;   /* as many tokens */
};

struct lt_loader {
    const struct lt_dataset *data;
    struct lt_loader_config config;
    struct lt_trace *trace;
    uint64_t samples;
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

static size_t batch_tokens(const struct lt_loader *l)
{
    return (size_t)(l->config.b * l->config.t);
}

/* Byte where the n-th sample of the endless sequence starts. */
static uint64_t sample_offset(const struct lt_loader *l, uint64_t n)
{
    uint64_t epoch = n / l->samples, i = n % l->samples;
    if (l->config.shuffle)
        i = lt_random_permute(lt_random_bits(l->config.seed, epoch), i, l->samples);
    return l->config.from + i * (uint64_t)l->config.t;
}

static int stage_read(struct bench *w, uint64_t batch, struct tacho_error *err)
{
    const struct lt_loader *l = w->loader;
    size_t length = (size_t)l->config.t + 1;
    int rc = 0;
    lt_trace_begin(l->trace, LT_RANGE_READ, length * (uint64_t)l->config.b, (uint64_t)l->config.b);
    for (int64_t i = 0; i < l->config.b && rc == 0; i++) {
        uint64_t n = l->config.position + batch * (uint64_t)l->config.b + (uint64_t)i;
        rc = lt_dataset_read(l->data, sample_offset(l, n), w->raw + (size_t)i * length, length, err);
    }
    lt_trace_end(l->trace);
    return rc;
}

static void stage_decode(struct bench *w)
{
    const struct lt_loader *l = w->loader;
    size_t count = (size_t)(l->config.b * (l->config.t + 1));
    lt_trace_begin(l->trace, LT_RANGE_DECODE, count, (uint64_t)l->config.b);
    for (size_t i = 0; i < count; i++)
        w->decoded[i] = w->raw[i];
    lt_trace_end(l->trace);
}

static void stage_collate(struct bench *w, struct slot *s)
{
    const struct lt_loader *l = w->loader;
    size_t t = (size_t)l->config.t;
    lt_trace_begin(l->trace, LT_RANGE_COLLATE, 2 * batch_tokens(l) * sizeof *s->tokens, (uint64_t)l->config.b);
    for (size_t i = 0; i < (size_t)l->config.b; i++) {
        memcpy(s->tokens + i * t, w->decoded + i * (t + 1), t * sizeof *s->tokens);
        memcpy(s->targets + i * t, w->decoded + i * (t + 1) + 1, t * sizeof *s->targets);
    }
    lt_trace_end(l->trace);
}

static void make_batch(struct bench *w, uint64_t batch, struct slot *s)
{
    s->code = stage_read(w, batch, &s->error);
    if (s->code)
        return;
    stage_decode(w);
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
    for (int i = 0; i < l->config.workers && rc == 0; i++) {
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
    size_t n = batch_tokens(l), raw = (size_t)(l->config.b * (l->config.t + 1));
    int benches = l->config.workers ? l->config.workers : 1;
    l->ring = calloc((size_t)l->slots, sizeof *l->ring);
    l->benches = calloc((size_t)benches, sizeof *l->benches);
    if (!l->ring || !l->benches)
        return TACHO_ENOMEM;
    for (int i = 0; i < l->slots; i++) {
        l->ring[i].tokens = calloc(n, sizeof(int32_t));
        l->ring[i].targets = calloc(n, sizeof(int32_t));
        if (!l->ring[i].tokens || !l->ring[i].targets)
            return TACHO_ENOMEM;
    }
    for (int i = 0; i < benches; i++) {
        l->benches[i] =
            (struct bench){.loader = l, .number = i, .raw = calloc(raw, 1), .decoded = calloc(raw, sizeof(int32_t))};
        if (!l->benches[i].raw || !l->benches[i].decoded)
            return TACHO_ENOMEM;
    }
    return 0;
}

int lt_loader_create(struct lt_loader **out, const struct lt_dataset *data, const struct lt_loader_config *config,
                     struct lt_trace *trace, struct tacho_error *err)
{
    uint64_t t = (uint64_t)config->t;
    if (config->to < config->from + t + 1)
        return tacho_fail(err, TACHO_EFORMAT, "give more text with --data, or a shorter --seq",
                          "%llu bytes of text are too few for one sample of %llu",
                          (unsigned long long)(config->to > config->from ? config->to - config->from : 0),
                          (unsigned long long)(t + 1));
    struct lt_loader *l = calloc(1, sizeof *l);
    if (!l)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "loader: out of memory");
    l->data = data;
    l->config = *config;
    l->trace = trace;
    l->samples = (config->to - config->from - 1) / t;
    /* the consumer holds one slot while it works */
    l->slots = config->workers ? (config->prefetch > 1 ? config->prefetch : 1) + 1 : 1;
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
        free(loader->ring[i].tokens);
        free(loader->ring[i].targets);
    }
    for (int i = 0; loader->benches && i < (loader->config.workers ? loader->config.workers : 1); i++) {
        free(loader->benches[i].raw);
        free(loader->benches[i].decoded);
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
    lt_trace_begin(l->trace, LT_RANGE_INPUT_WAIT, (uint64_t)(l->config.b * (l->config.t + 1)), (uint64_t)l->config.b);
    if (l->config.workers)
        lt_trace_count(l->trace, LT_COUNTER_QUEUE_DEPTH, take(l, s));
    else
        make_batch(&l->benches[0], l->taken, s);
    lt_trace_end(l->trace);
    l->taken++;
    if (s->code)
        return tacho_fail(err, s->code, s->error.hint, "%s", s->error.what);
    *batch = (struct lt_batch){.tokens = s->tokens, .targets = s->targets};
    return 0;
}

uint64_t lt_loader_position(const struct lt_loader *loader)
{
    return loader->config.position + loader->taken * (uint64_t)loader->config.b;
}

uint64_t lt_loader_samples(const struct lt_loader *loader)
{
    return loader->samples;
}
