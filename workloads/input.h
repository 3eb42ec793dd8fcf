/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: from the options of input to the samples that a run learns from.
 */
#ifndef WORKLOADS_INPUT_H
#define WORKLOADS_INPUT_H

#include "libtrain/loader.h"
#include "workloads/options.h"

struct input {
    struct lt_source *source;
    struct lt_part train, held_out;
    int has_held_out; /* there are evaluations */
};

/* `seq`: tokens a sample; 0: images. 0, or a negative code with words in *err. Closed with input_close, also after an error. */
int input_open(struct input *in, const struct options *o, int64_t seq, struct tacho_error *err);

void input_close(struct input *in);

/* How the loader works, from the options. TACHO_EUSAGE with words in *err. */
int input_loader(struct lt_loader_options *out, const struct options *o, struct tacho_error *err);

#endif
