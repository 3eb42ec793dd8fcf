/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipe behind every gpt2-* name: shape from the named size and the options.
 */
#include <stdio.h>
#include <string.h>

#include "libtrain/models/gpt2.h"
#include "workloads/recipe.h"

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

struct gpt2_plan {
    struct lt_gpt2_config shape;
    struct lt_gpt2_mode mode;
    const struct options *options;
};

static int mode_of(struct lt_gpt2_mode *mode, const struct options *o, struct tacho_error *err)
{
    static const char *const names[LT_RECOMPUTE_COUNT] = {
#define ROW(id, name) [LT_RECOMPUTE_##id] = (name),
        LT_RECOMPUTE_MAP(ROW)
#undef ROW
    };
    int dtype = lt_dtype_find(o->dtype);
    mode->dtype = dtype < 0 ? LT_DTYPE_FP32
                            : (enum lt_dtype)dtype; /* what is no dtype has been refused before */
    for (int i = 0; i < LT_RECOMPUTE_COUNT; i++)
        if (strcmp(o->recompute, names[i]) == 0) {
            mode->recompute = (enum lt_recompute)i;
            return 0;
        }
    return tacho_fail(err, TACHO_EUSAGE, "none or block", "--recompute %s: unknown", o->recompute);
}

static int create(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err)
{
    (void)source;
    const struct gpt2_plan *p = arg;
    (void)context;
    return lt_gpt2_create(out, &p->shape, p->mode, p->shape.batch, p->shape.seq,
                          (uint64_t)p->options->seed, err);
}

static void describe(void *arg, const struct lt_model *m)
{
    const struct gpt2_plan *p = arg;
    const struct lt_gpt2_config *k = &p->shape;
    struct lt_gpt2_flops flops =
        lt_gpt2_flops(k, LT_BACKEND_CPU, p->mode, m->b, m->t, p->options->accumulate);
    printf("%s: %lld layers, %lld channels, %lld heads, %lld words: %.2f M parameters\n", k->name,
           (long long)k->layers, (long long)k->channels, (long long)k->heads, (long long)k->vocab,
           1e-6 * (double)m->parameters.trainable);
    printf("a step: %lld x %lld x %lld tokens, %.3f model GFLOP; ",
           (long long)p->options->accumulate, (long long)m->b, (long long)m->t,
           1e-9 * (double)flops.model);
}

static void memory(void *arg, const struct lt_source *source, struct lt_memory_plan *out)
{
    const struct gpt2_plan *p = arg;
    (void)source;
    lt_gpt2_memory(&p->shape, p->mode, p->shape.batch, p->shape.seq, lt_threads(), out);
}

static int gpt2_name(size_t i, const char **name, const char **help, char *defaults, size_t size)
{
    const struct lt_gpt2_config *k = &lt_gpt2_configs[i];
    if (!k->name)
        return 0;
    *name = k->name;
    *help = k->help;
    snprintf(defaults, size, "words %lld, seq %lld, batch %lld", (long long)k->vocab,
             (long long)k->seq, (long long)k->batch);
    return 1;
}

static int gpt2_run(const char *name, const struct options *o, const volatile sig_atomic_t *stop,
                    struct tacho_error *err)
{
    if (o->hidden)
        return tacho_fail(err, TACHO_EUSAGE, "leave it out, or choose --channels",
                          "%s: --hidden is for mlp", name);
    struct gpt2_plan p = {.shape = shape(name, o), .options = o};
    struct recipe_plan plan = {.options = o,
                               .stop = stop,
                               .seq = p.shape.seq,
                               .vocab = p.shape.vocab,
                               .batch = p.shape.batch,
                               .create = create,
                               .describe = describe,
                               .memory = memory,
                               .arg = &p};
    int rc = mode_of(&p.mode, o, err);
    return rc ? rc : recipe_train(&plan, err);
}

const struct recipe recipe_gpt2 = {gpt2_name, gpt2_run};
