/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks, of ranges (folded) or of sampled call stacks (stacks, python):
 * `process;track;outer;inner NS`, one line a distinct stack. flamegraph.pl, speedscope and inferno
 * read it. In names `;`, `%` and control characters are percent-encoded: a `;` separates frames and
 * the format has no escape of its own.
 */
#include <inttypes.h>

#include "store/export/stacks.h"

/* Prints the name of a frame; characters with a meaning in the format are written as %XX. */
static void frame(FILE *out, const char *text)
{
    if (!*text)
        fputs("(no name)", out);
    for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++)
        if (*byte == ';' || *byte == '%' || *byte < 0x20 || *byte == 0x7f)
            fprintf(out, "%%%02X", *byte);
        else
            putc(*byte, out);
}

/* Prints the outermost frame: rank, program, pid and device of the track. */
static void bottom(FILE *out, const struct exp_run *run, const struct exp_track *track)
{
    const struct exp_process *process =
        track->process_at != EXP_NONE ? &run->process[track->process_at] : NULL;
    if (process && process->rank != STORE_ABSENT)
        fprintf(out, "rank %" PRId64 " ", process->rank);
    const char *program = process ? process->program : "machine";
    frame(out, program ? program : "process");
    if (process && process->pid != STORE_ABSENT)
        fprintf(out, " (%" PRId64 ")", process->pid);
    putc(';', out);
    if (track->device) {
        frame(out, track->device);
        putc(' ', out);
    }
    frame(out, track->name && *track->name ? track->name : track->kind);
    if (track->tid != STORE_ABSENT)
        fprintf(out, " (%" PRId64 ")", track->tid);
}

/* Prints a line for each stack that has time of its own: the names from the track to it. */
static int print_folded(FILE *out, const struct exp_run *run, const struct exp_stack_tree *tree)
{
    uint32_t name[EXP_STACK_MOST];
    for (uint32_t i = 0; i < tree->count && !ferror(out); i++) {
        if (tree->node[i].self <= 0)
            continue;
        size_t depth = exp_stack_frames(tree, i, name);
        bottom(out, run, &run->track[tree->node[i].track]);
        while (depth) {
            putc(';', out);
            frame(out, exp_text(run, name[--depth]));
        }
        fprintf(out, " %" PRId64 "\n", tree->node[i].self);
    }
    return 0;
}

int exp_folded_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                     struct tacho_error *err)
{
    return exp_stacks_of(reader, options, out, EXP_STACKS_RANGES, print_folded, err);
}

int exp_stacks_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                     struct tacho_error *err)
{
    return exp_stacks_of(reader, options, out, EXP_STACKS_SAMPLES, print_folded, err);
}

int exp_python_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                     struct tacho_error *err)
{
    return exp_stacks_of(reader, options, out, EXP_STACKS_PYTHON, print_folded, err);
}
