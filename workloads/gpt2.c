/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe behind every gpt2-* name: shape from the named size and the options, text, training loop, progress lines on
 * stdout.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/gemm.h"
#include "libtrain/gpt2.h"
#include "libtrain/train.h"
#include "workloads/recipe.h"

#define LICENCES "/usr/share/common-licenses"

static void print_progress(void *arg, const struct lt_progress *p)
{
    const struct lt_train_config *config = arg;
    switch (p->event) {
    case LT_EVENT_START:
        printf("text: %llu samples to learn from", (unsigned long long)p->train_samples);
        if (p->eval_samples)
            printf(", %llu held out", (unsigned long long)p->eval_samples);
        printf("\n");
        if (p->step)
            printf("resumed: %lld steps made before\n", (long long)p->step);
        break;
    case LT_EVENT_STEP:
        printf("step %5lld/%lld  loss %.4f  norm %.3f  lr %.2e  %9.2f ms  %8.0f tok/s\n", (long long)p->step,
               (long long)config->schedule.steps, p->loss, p->grad_norm, p->rate, 1e3 * p->seconds,
               (double)p->tokens / p->seconds);
        break;
    case LT_EVENT_EVALUATION:
        printf("evaluation after step %lld  loss %.4f  (%lld batches, %.2f ms)\n", (long long)p->step, p->loss,
               (long long)p->evaluated, 1e3 * p->seconds);
        break;
    case LT_EVENT_CHECKPOINT:
        printf("checkpoint after step %lld  %s  %.2f ms\n", (long long)p->step, config->checkpoint, 1e3 * p->seconds);
        break;
    }
    fflush(stdout);
}

static void override(int64_t *value, int64_t given)
{
    if (given)
        *value = given;
}

static struct lt_gpt2_config shape(const char *name, const struct options *o)
{
    const struct lt_gpt2_config *row = lt_gpt2_configs;
    while (strcmp(row->name, name) != 0)
        row++;
    struct lt_gpt2_config k = *row;
    override(&k.layers, o->layers);
    override(&k.channels, o->channels);
    override(&k.heads, o->heads);
    override(&k.vocab, o->vocab);
    override(&k.seq, o->seq);
    override(&k.batch, o->batch);
    return k;
}

static struct lt_train_config training(const struct options *o)
{
    return (struct lt_train_config){.schedule = {.peak = o->lr, .floor = o->min_lr, .warmup = o->warmup, .steps = o->steps},
                                    .micro_steps = (int)o->accumulate,
                                    .clip = o->clip,
                                    .beta1 = o->beta1,
                                    .beta2 = o->beta2,
                                    .eps = 1e-8,
                                    .weight_decay = o->weight_decay,
                                    .eval_every = o->eval_every,
                                    .eval_batches = o->eval_batches,
                                    .eval_share = o->eval_share,
                                    .checkpoint_every = o->checkpoint_every,
                                    .checkpoint = o->checkpoint,
                                    .resume = o->resume,
                                    .log_every = o->log_every,
                                    .workers = (int)o->workers,
                                    .prefetch = (int)o->prefetch,
                                    .seed = (uint64_t)o->seed};
}

static int open_text(struct lt_dataset **data, const struct options *o, struct tacho_error *err)
{
    static const char *const licences[] = {LICENCES};
    if (o->data_count)
        return lt_dataset_open(data, o->data, (size_t)o->data_count, err);
    if (access(LICENCES, R_OK))
        return tacho_fail(err, TACHO_EUSAGE, "name some text: --data FILE or --data FOLDER", LICENCES ": not on this machine");
    return lt_dataset_open(data, licences, 1, err);
}

static void print_start(const struct lt_gpt2_config *k, const struct lt_model *m, const struct options *o)
{
    struct lt_gpt2_flops flops = lt_gpt2_flops(k, LT_BACKEND_CPU, m->b, m->t, o->accumulate);
    printf("%s: %lld layers, %lld channels, %lld heads, %lld words: %.2f M parameters\n", k->name, (long long)k->layers,
           (long long)k->channels, (long long)k->heads, (long long)k->vocab, 1e-6 * (double)m->parameters.trainable);
    printf("a step: %lld x %lld x %lld tokens, %.3f model GFLOP; fp32, backend %s (%s), %d threads, %lld loader threads\n",
           (long long)o->accumulate, (long long)m->b, (long long)m->t, 1e-9 * (double)flops.model, o->backend,
           lt_gemm_library(), lt_threads(), (long long)o->workers);
    printf("memory: %.1f MiB of parameters and optimizer state, %.1f MiB of activations\n",
           16.0 * (double)m->parameters.count / (1 << 20), (double)m->activation_bytes / (1 << 20));
    fflush(stdout);
}

int recipe_gpt2(const char *name, const struct options *o, const volatile sig_atomic_t *stop, struct tacho_error *err)
{
    struct lt_gpt2_config k = shape(name, o);
    struct lt_train_config config = training(o);
    struct lt_train_hooks hooks = {.progress = print_progress, .arg = &config, .stop = stop};
    struct lt_context context = {0};
    struct lt_dataset *data = NULL;
    struct lt_model *model = NULL;
    int backend = lt_backend_find(o->backend);
    if (backend < 0)
        return tacho_fail(err, TACHO_EUSAGE, "cpu or reference", "--backend %s: unknown", o->backend);
    context.backend = (enum lt_backend)backend;
    int rc = open_text(&data, o, err);
    if (rc == 0)
        rc = lt_gpt2_create(&model, &k, k.batch, k.seq, (uint64_t)o->seed, err);
    if (rc == 0 && lt_trace_create(&context.trace, lt_op_names(), LT_OP_COUNT, o->timers != NULL))
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    if (rc == 0) {
        print_start(&k, model, o);
        rc = lt_train(model, data, &context, &config, &hooks, err);
    }
    if (rc == 0 && o->timers)
        rc = lt_trace_write(context.trace, o->timers, err);
    lt_trace_destroy(context.trace);
    lt_model_destroy(model);
    lt_dataset_close(data);
    return rc;
}
