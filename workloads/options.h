/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: the command line of `train`, one row an option in options.c. All recipes
 * share it.
 */
#ifndef WORKLOADS_OPTIONS_H
#define WORKLOADS_OPTIONS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tacho_error.h"

#define OPTIONS_LIST_CAP 64

struct options_list {
    const char *text[OPTIONS_LIST_CAP];
    size_t count;
};

enum options_help { OPTIONS_HELP_NONE, OPTIONS_HELP_BRIEF, OPTIONS_HELP_ALL };

/* 0 (or NULL) in a field of shape: the recipe's own value. */
struct options {
    int64_t layers, channels, heads, groups, seq, batch, vocab, hidden, experts, choices;
    double capacity, balance; /* NAN: the recipe's own */
    double memory;            /* MiB; 0: what it takes */
    int64_t steps, accumulate, warmup, eval_every, eval_batches, checkpoint_every, log_every,
        workers, prefetch, seed, patience, image_size, pad, crop, freeze, recompute_every;
    int64_t elastic, slow_link, near, local_steps, assert_equal, zero, compress_after, chunks,
        approximation, zstd_level, max_delay;
    double lr, min_lr, weight_decay, clip, eval_share, bucket_mib, bucket_priority, density,
        outer_lr, outer_momentum;
    double beta1, beta2, eps, momentum;    /* NAN: the optimizer's own */
    double damping, factor_decay, kl_clip; /* NAN, and 0 of the next: the optimizer's own */
    int64_t inverse_every;
    int64_t line_search, lookahead, watch, loss_scale_window;
    const char *backend, *device, *checkpoint, *resume, *timers, *routing, *launcher, *record_order,
        *replay_order;
    const char *dtype, *recompute, *optimizer, *schedule, *clip_by, *all_reduce, *compress,
        *local_kind, *layout, *context, *pipeline, *simulate, *format, *tokenizer, *worker_kind,
        *slow_rank, *uneven, *io, *inject, *loss_scale, *scale_lr, *init, *matmul_precision,
        *bf16_weights;
    struct options_list data, slow, offload;
    int checkpoint_async, pin, no_shuffle, no_overlap, no_graph, sequence, flip, normalise,
        centralise;
    int help; /* enum options_help */
    int version, check;
    const char *recipe; /* NULL: none given */
};

/* Defaults, then argv. TACHO_EUSAGE with words in *err. Strings point into argv. */
int options_parse(struct options *out, int argc, char **argv, struct tacho_error *err);

/* The list of options with their defaults, for --help all. */
void options_print(FILE *file);
/* Those that most people need, in a line of at most 80 columns each, for --help. */
void options_print_brief(FILE *file);

#endif
