/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to history/: recipes as configurations of a space, so that the Gaussian process of the
 * tuner can say how alike they are. Its first dimension is the FLOPs of a step, each other one an
 * option, a variable or a word of the commands.
 */
#ifndef HISTORY_RECIPE_SPACE_H
#define HISTORY_RECIPE_SPACE_H

#include "tuner/space.h"

/* A configuration for each text of a recipe ("OMP_NUM_THREADS=2 train gpt2-tiny --batch 8"), in
 * their order. What is more than TUNER_DIMENSIONS options is left out. 0 or a TACHO_E* code; the
 * space is the caller's in both cases (tuner_space_clear). */
int history_recipe_space(const char *const *texts, const double *flops, size_t count,
                         struct tuner_space *space);

#endif
