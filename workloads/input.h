/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: from the options of input to the samples that a run learns from.
 */
#ifndef WORKLOADS_INPUT_H
#define WORKLOADS_INPUT_H

#include "libtrain/loader/loader.h"
#include "workloads/options.h"

struct input {
    struct lt_source *source;
    struct lt_source *held_source; /* NULL when the held-out part is of the source */
    struct lt_part train, held_out;
    int has_held_out; /* there are evaluations */
};

/* `seq`: tokens a sample, of which the model knows `vocab`; 0: images. 0, or a negative code with
 * words in *err. Closed with input_close, also after an error. */
int input_open(struct input *input, const struct options *options, int64_t seq, int64_t vocab,
               struct tacho_error *err);

/* Private to input.c: the same for images, without the parts. */
int input_open_images(struct input *input, const struct options *options, struct tacho_error *err);

/* --data as text, or the licences that every Debian has. */
int input_open_dataset(struct lt_dataset **data, const struct options *options,
                       struct tacho_error *err);

void input_close(struct input *input);

/* How the loader works, from the options. TACHO_EUSAGE with words in *err. */
int input_loader(struct lt_loader_options *out, const struct options *options,
                 struct tacho_error *err);

#endif
