/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: who recorded an imported file, and what one records with it, in its own
 * words. An analyzer that lacks an input says with them how to record that input.
 */
#ifndef ANALYZERS_RECORDER_H
#define ANALYZERS_RECORDER_H

#include "analyzers/steps/context.h"

/* How to record a program of JAX with its steps. */
#define AN_JAX_PROFILE \
    "profile with jax.profiler.trace(FOLDER) and give each step a " \
    "jax.profiler.StepTraceAnnotation(\"train\", step_num=N)"

enum an_recorder {
    AN_RECORDER_OTHER, /* tacho, PyTorch, Nsight: the analyzers use their words anyway */
    AN_RECORDER_JAX,
    AN_RECORDER_TPU, /* JAX on a TPU */
    AN_RECORDER_TENSORFLOW,
    AN_RECORDER_TENSORFLOW1, /* one call of session.run */
    AN_RECORDER_ASCEND,      /* torch_npu, or msprof of a program that names no framework */
    AN_RECORDER_MINDSPORE,
    AN_RECORDER_ROCM,     /* rocprof, rocprofv3, rpd: any program on devices of AMD */
    AN_RECORDER_UNITRACE, /* any program on devices of Intel */
    AN_RECORDER_COUNT
};

/* Who recorded the file, by its format and the names in it. */
enum an_recorder an_recorder_of(const struct an_context *context);

/* What a clause says how to record. */
enum an_say {
    AN_SAY_CALLS,     /* the calls that launch work of the device */
    AN_SAY_OPERATORS, /* the operators of the framework */
    AN_SAY_SHAPES,    /* the shapes of operators, or else what makes do without them */
    AN_SAY_STEPS,     /* the steps */
    AN_SAY_RANGES,    /* marks for what the host does */
    AN_SAY_STACKS,    /* the functions of Python */
    AN_SAY_SYNCS,     /* events that streams wait for */
    AN_SAY_CLOCKS,    /* the clocks of the devices: why they are not known, and what shows them */
    AN_SAY_DEVICE,    /* what the device does */
    AN_SAY_COMPLETE,  /* calls and their device operations, without a loss at either end */
    AN_SAY_LATER,     /* steps after the first ones */
    AN_SAY_COUNT
};

/* A clause without a full stop in the words of a recorder; `otherwise`: it has none for that. */
const char *an_recorder_says(enum an_recorder recorder, enum an_say what, const char *otherwise);
/* The same in the words of the recorder of this file. */
static inline const char *an_say(const struct an_context *context, enum an_say what,
                                 const char *otherwise)
{
    return an_recorder_says(an_recorder_of(context), what, otherwise);
}

#endif
