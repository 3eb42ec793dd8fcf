/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: a recipe is one thing that `train` can run. One file a recipe, one row a name in main.c's table.
 */
#ifndef WORKLOADS_RECIPE_H
#define WORKLOADS_RECIPE_H

#include "workloads/options.h"

/* Runs to the end. 0 or a negative code with words in *err. `stop` turns non-zero when a signal asks to end. */
typedef int (*recipe_run)(const char *name, const struct options *options, const volatile sig_atomic_t *stop,
                          struct tacho_error *err);

int recipe_gpt2(const char *name, const struct options *options, const volatile sig_atomic_t *stop, struct tacho_error *err);

#endif
