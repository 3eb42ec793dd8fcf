/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/export/: the distinct stacks of a run with their time, and what prints them:
 * folded lines (folded.c) or a profile (pprof.c).
 */
#ifndef STORE_EXPORT_STACKS_H
#define STORE_EXPORT_STACKS_H

#include "store/export/export_private.h"

/* Frames of a stack; what lies deeper counts as the deepest of them. */
#define EXP_STACK_MOST 1024

/* A distinct stack: its innermost frame and the stack around it. */
struct exp_stack {
    uint32_t parent, name, track; /* parent EXP_NONE: the bottom, of this track */
    uint32_t depth;               /* frames around it */
    int64_t self;                 /* ns of its own */
};

struct exp_stack_tree {
    struct exp_stack *node;
    uint32_t count, cap;
    uint32_t *slot; /* node + 1, open addressing */
    uint32_t slots; /* power of two, at least twice the nodes */
    int64_t period; /* ns that a sample stands for; 0: they are ranges */
};

/* Prints the stacks that have time of their own. 0 or TACHO_ENOMEM. */
typedef int exp_stacks_print(FILE *out, const struct exp_run *run,
                             const struct exp_stack_tree *tree);

enum exp_stacks_kind { EXP_STACKS_RANGES, EXP_STACKS_SAMPLES, EXP_STACKS_PYTHON };

/* Collects the stacks of a kind and has them printed. As store_export_format.write. */
int exp_stacks_of(store_reader *reader, const struct store_export_options *options, FILE *out,
                  enum exp_stacks_kind kind, exp_stacks_print *print, struct tacho_error *err);
/* The texts of the frames of a stack, innermost first. Returns how many there are. */
size_t exp_stack_frames(const struct exp_stack_tree *tree, uint32_t stack,
                        uint32_t name[EXP_STACK_MOST]);

#endif
