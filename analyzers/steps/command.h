/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the command that started the run, and how to type it again.
 */
#ifndef ANALYZERS_COMMAND_H
#define ANALYZERS_COMMAND_H

#include "analyzers/steps/context.h"

/* The framework that emits the ranges of the run: an action may name its settings. */
enum an_framework {
    AN_FRAMEWORK_OTHER,
    AN_FRAMEWORK_LIBTRAIN,
    AN_FRAMEWORK_TORCH,
    AN_FRAMEWORK_JAX
};
enum an_framework an_command_framework(const struct an_context *context);
/* Is it a program of Python that tacho recorded? Then its marks are those of the module tacho
 * (profiler/python), not of include/tacho_nvtx.h. */
bool an_command_is_python(const struct an_context *context);
/* Words about marks: `python` for such a program, `other` for any other one. */
const char *an_command_marks(const struct an_context *context, const char *python,
                             const char *other);
/* Why the shapes of operators are missing, and what records them, as a clause that others follow.
 */
const char *an_command_no_shapes(const struct an_context *context);
/* What shows the steps of a program that has none, as a clause without a full stop. */
const char *an_command_step_advice(const struct an_context *context);
/* Why nothing is known of the parts of the steps. */
const char *an_command_no_roles(const struct an_context *context);
/* What the program uses around PyTorch, by the hook's table: "HF Trainer 5.23.0"; of several the
 * one that runs the steps. NULL: nothing of it. */
const char *an_command_around(const struct an_trace *trace);
/* Are parameters sharded over the ranks (FSDP)? Then gradients are reduced and parameters gathered
 * layer by layer, and the advice about DistributedDataParallel does not hold. */
bool an_command_sharded(const struct an_trace *trace);
/* Does DistributedDataParallel reduce the gradients, by the hook's ranges or by those that PyTorch
 * writes into its own traces? */
bool an_command_replicated(const struct an_trace *trace);
/* Is a flag among the words of the run's command? */
bool an_command_has_option(const struct an_context *context, const char *option);
/* The number that the run's command gives an option (--option VALUE or --option=VALUE), else
 * `otherwise`. */
double an_command_number(const struct an_context *context, const char *option, double otherwise);
/* Batches that the loader of the reference engine makes ahead: --prefetch of the command, or the
 * default of `train`. */
long an_command_prefetch(const struct an_context *context);
/* Threads of each OpenMP team: as many as PyTorch said that it computes with, else by
 * OMP_NUM_THREADS of the recorded environment; 0: neither says. */
long an_command_team(struct an_context *context);
/* Is their number one that no variable of the environment said: by torch.set_num_threads of the
 * program, or by PyTorch itself? Then a variable may not change it. */
bool an_command_sets_team(const struct an_context *context);
/* The value of an environment variable that the run had, by the words of its command (env, mpirun
 * -x) or the recorded environment; NULL: it was not set, or not recorded. */
const char *an_command_variable(struct an_context *context, const char *name);
/* The command of the run, a JSON list of words, as one types it. NULL: not recorded. */
const char *an_command_line(struct an_context *context);
/* How to run it again with a change (analyzers/steps/change.h, or other words) and compare: the
 * commands to type, with the recorded variables of the environment and the launcher. */
const char *an_command_rerun(struct an_context *context, const char *option);

#endif
