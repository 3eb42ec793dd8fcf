/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: a recipe is one thing that `train` can run. One file a recipe, one row a
 * family in main.c's table.
 */
#ifndef WORKLOADS_RECIPE_H
#define WORKLOADS_RECIPE_H

#include "libtrain/base/memory.h"
#include "libtrain/data/source.h"
#include "libtrain/models/model.h"
#include "libtrain/parallel/layout.h"
#include "libtrain/parallel/stages.h"
#include "workloads/options.h"

/* A family of names. */
struct recipe {
    /* Name and one line of help of the i-th of its names; 0 after the last. */
    int (*name)(size_t i, const char **name, const char **help, char *defaults, size_t size);
    /* Runs to the end. 0 or a negative code with words in *err. `stop` turns non-zero when a signal
     * asks to end. */
    int (*run)(const char *name, const struct options *options, const volatile sig_atomic_t *stop,
               struct tacho_error *err);
};

extern const struct recipe recipe_gpt2, recipe_llama, recipe_mlp, recipe_resnet;

/* Prints the words of an error and its hint, and takes the words away: of an error without them
 * another rank has the words, or they are printed (run.c). */
void error_say(struct tacho_error *err);

/* train calibrate (calibrate.c): argv[0] is its name. 0 or a negative code with words in *err. */
int calibrate_command(int argc, char **argv, struct tacho_error *err);

/* train bpe (bpe.c): the same. */
int bpe_command(int argc, char **argv, struct tacho_error *err);

/* What all recipes that train a model have in common (run.c): input, context, ranks, the loop,
 * progress lines on stdout. */
struct recipe_plan {
    const struct options *options;
    const volatile sig_atomic_t *stop;
    int64_t seq;   /* tokens a sample; 0: images */
    int64_t vocab; /* words that the model knows; without them images */
    int64_t batch; /* samples a micro-batch */
    /* Makes the model for samples of that source; called once, when the input is open. The caller
     * frees it. */
    int (*create)(void *arg, const struct lt_source *source, const struct lt_context *context,
                  struct lt_model **out, struct tacho_error *err);
    /* Prints what the model is; what every run has (dtype, threads, memory) is printed after it.
     */
    void (*describe)(void *arg, const struct lt_model *model);
    /* The model's memory in closed form, for samples of that source and the threads that there are,
     * and the layout of its parameters (without arrays); before `create`. */
    void (*memory)(void *arg, const struct lt_source *source, struct lt_memory_plan *out,
                   struct lt_parameters *parameters);
    /* Before the two above: they are to be of one stage of a pipeline, which keeps the activations
     * of in_flight micro-batches. NULL: the recipe has no stages. */
    int (*divide)(void *arg, const struct lt_layout *layout, const struct lt_staging *staging,
                  int in_flight, struct tacho_error *err);
    /* Before `memory` and `create`, after a first call of `memory`: activations may take so many
     * bytes. TACHO_EUSAGE where they cannot. */
    int (*budget)(void *arg, const struct lt_source *source, uint64_t bytes,
                  struct tacho_error *err);
    void *arg;
};

/* Type and recomputation from the options. TACHO_EUSAGE with words in *err. */
int recipe_mode(enum lt_dtype *dtype, enum lt_recompute *recompute, const struct options *options,
                struct tacho_error *err);

/* TACHO_EUSAGE where the options shape a mixture of experts. */
int recipe_no_experts(const char *name, const struct options *options, struct tacho_error *err);

/* 0 or a negative code with words in *err. */
int recipe_train(const struct recipe_plan *plan, struct tacho_error *err);

#endif
