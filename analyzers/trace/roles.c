/* SPDX-License-Identifier: Apache-2.0
 *
 * Roles of ranges in traces of other tools, from the names that frameworks give them. Runs that
 * tacho recorded have roles in their payloads.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/trace/trace.h"

static bool ends(const char *text, const char *with)
{
    size_t length = strlen(text), with_length = strlen(with);
    return length >= with_length && !memcmp(text + length - with_length, with, with_length);
}

/* Is one of the words in the name, with no letter, digit or underscore beside it? */
static bool has_word(const char *name, const char *const *words)
{
    for (; *words; words++)
        for (const char *found = strstr(name, *words); found; found = strstr(found + 1, *words)) {
            char before = found > name ? found[-1] : ' ', after = found[strlen(*words)];
            const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
            if (!strchr(letters, before) && (!after || !strchr(letters, after)))
                return true;
        }
    return false;
}

/* A frame of Python, "FILE.py(LINE): FUNCTION": file and function say what it does. */
static enum an_role role_of_frame(const char *name)
{
    static const struct {
        const char *file, *function;
        enum an_role role;
    } frames[] = {
        {"torch/utils/data/dataloader.py(", ": __next__", AN_ROLE_INPUT_WAIT},
        {"torch/_dynamo/convert_frame.py(", ": _compile", AN_ROLE_COMPILE},
        {"torch/_dynamo/convert_frame.py(", ": compile_inner", AN_ROLE_COMPILE},
        {"torch/serialization.py(", ": save", AN_ROLE_CHECKPOINT},
        {"torch/distributed/checkpoint/state_dict_saver.py(", ": save", AN_ROLE_CHECKPOINT}};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        if (strstr(name, frames[i].file) && ends(name, frames[i].function))
            return frames[i].role;
    return AN_ROLE_NONE;
}

/* Returns the role of a range in a trace of another tool. The names are those of PyTorch, its
 * profiler and its compiler, and the words that training scripts commonly use for evaluation and
 * checkpoints. Cheap tests come first: this runs once for each name of the run. */
static enum an_role role_of_name(const char *name)
{
    static const char *const evaluation[] = {"evaluation",      "evaluate",       "validation",
                                             "validate",        "eval",           "eval_step",
                                             "validation_step", "run_evaluation", NULL};
    static const char *const checkpoint[] = {"save_checkpoint",   "checkpoint_save",
                                             "saving_checkpoint", "save checkpoint",
                                             "checkpoint saving", NULL};
    if (!strncmp(name, "enumerate(DataLoader)#", 22) || !strncmp(name, "enumerate(DataPipe)#", 20))
        return AN_ROLE_INPUT_WAIT;
    if (ends(name, "(dynamo_timed)") || !strcmp(name, "backend_compile"))
        return AN_ROLE_COMPILE;
    if (!strcmp(name, "record_param_comms") || !strncmp(name, "nccl:", 5) ||
        !strncmp(name, "gloo:", 5))
        return AN_ROLE_COMM;
    if (!strncmp(name, "aten::", 6))
        return AN_ROLE_WORK;
    if (strstr(name, ".py("))
        return role_of_frame(name);
    if (strlen(name) > 120) /* signatures of C++ functions */
        return AN_ROLE_NONE;
    if (strstr(name, "val") && has_word(name, evaluation))
        return AN_ROLE_EVALUATION;
    return strstr(name, "heckpoint") && has_word(name, checkpoint) ? AN_ROLE_CHECKPOINT
                                                                   : AN_ROLE_NONE;
}

int an_trace_name_roles(struct an_trace *trace)
{
    if (!(trace->name_api = calloc(trace->string_count + 1, sizeof *trace->name_api)))
        return TACHO_ENOMEM;
    if (!an_trace_imported(trace))
        return 0;
    if (!(trace->name_role = calloc(trace->string_count + 1, sizeof *trace->name_role)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->string_count; i++)
        trace->name_role[i] = (uint8_t)role_of_name(trace->string[i]);
    return 0;
}

enum an_role an_slice_role(const struct an_trace *trace, size_t slice)
{
    enum an_role role = an_trace_role(trace, trace->slice.detail[slice]);
    uint32_t name = trace->slice.name[slice];
    return role == AN_ROLE_NONE && trace->name_role && name < trace->string_count
               ? (enum an_role)trace->name_role[name]
               : role;
}

int64_t an_slice_sequence(const struct an_trace *trace, size_t slice)
{
    return an_trace_role(trace, trace->slice.detail[slice]) == AN_ROLE_WORK
               ? STORE_ABSENT
               : trace->slice.correlation[slice];
}
