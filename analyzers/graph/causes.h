/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the vocabulary of causes. A cause says why time passes in a node of the
 * dependency graph or between two nodes. The critical path, the idle breakdown and the
 * sensitivities all add up by these causes.
 */
#ifndef ANALYZERS_CAUSES_H
#define ANALYZERS_CAUSES_H

#include "analyzers/steps/context.h"

/* name, key, text */
#define AN_CAUSE_MAP(X) \
    X(COMPUTE, "compute", "compute") \
    X(TRANSFER, "communication", "communication: transfer") \
    X(PEERS, "peers", "communication: waiting for other ranks") \
    X(COPY, "copy", "copies") \
    X(INPUT, "input", "input: loader stages and batch delivery") \
    X(LAUNCH, "launch", "host: launching calls") \
    X(SYNC, "sync", "host: synchronising calls") \
    X(SUSPECTED, "suspected_wait", "host: suspected wait for the device") \
    X(ALLOCATION, "allocation", "host: memory allocation") \
    X(COLLECTION, "collection", "host: garbage collection") \
    X(COMPILE, "compile", "host: compilation") \
    X(FRAMEWORK, "framework", "host: framework and other ranges") \
    X(UNTRACED, "think", "host: untraced time") \
    X(PHASE, "phase", "evaluation, checkpoints") \
    X(PROFILER, "profiler", "profiler") \
    X(DISPATCH, "dispatch", "dispatch: issued and released, not yet started") \
    X(OPAQUE, "opaque", "CUDA graphs: nodes that were not recorded") \
    X(GAP, "gap", "gap: nothing recorded explains it")

enum an_cause {
#define AN_CAUSE_ENUM(name, key, text) AN_CAUSE_##name,
    AN_CAUSE_MAP(AN_CAUSE_ENUM)
#undef AN_CAUSE_ENUM
        AN_CAUSE_COUNT
};
const char *an_cause_key(enum an_cause cause);
const char *an_cause_text(enum an_cause cause);

/* What is known of the names and categories of a trace; every text is classified once. */
struct an_causes;
int an_causes_make(struct an_context *context, struct an_causes **out); /* 0 or TACHO_ENOMEM */

/* The cause of time in a range of a thread, from the range alone. */
enum an_cause an_slice_cause(const struct an_context *context, const struct an_causes *causes,
                             size_t slice);

/* What the category of a range, or its name, says of it. */
enum an_text_kind {
    AN_TEXT_UNKNOWN, /* not looked at yet */
    AN_TEXT_PLAIN,
    AN_TEXT_API,        /* category of a call of the accelerator's API */
    AN_TEXT_EVENT,      /* name of a call that records an event or makes a stream wait for one */
    AN_TEXT_OVERHEAD,   /* category of the profiler's own ranges */
    AN_TEXT_STEP,       /* name of PyTorch's step marker */
    AN_TEXT_ALLOCATION, /* name of a call that allocates or frees memory */
    AN_TEXT_COLLECTION  /* name of a garbage collection */
};
enum an_text_kind an_slice_category_kind(const struct an_context *context,
                                         const struct an_causes *causes, size_t slice);
enum an_text_kind an_slice_name_kind(const struct an_context *context,
                                     const struct an_causes *causes, size_t slice);

#endif
