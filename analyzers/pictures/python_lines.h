/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/pictures/: lines of Python from stacks of frames.
 */
#ifndef ANALYZERS_PYTHON_LINES_H
#define ANALYZERS_PYTHON_LINES_H

#include "analyzers/steps/context.h"

/* Looks at each stack: in all, in host or unattributed time; of these, where no other finding
 * speaks of that time, while it did not wait for a core, which is nothing that the line does; of
 * these while it slept, and before a backward pass, where a loss may be computed; and those at
 * which a loader may have made a batch. */
struct an_python_counts {
    int64_t *all, *host, *plain, *asleep, *loss, *fetch;
};

/* Whose a frame is; AN_PYTHON_LOADER: where a loader of PyTorch makes a batch. */
enum an_python_kind {
    AN_PYTHON_NOT_KNOWN,
    AN_PYTHON_PROGRAM,
    AN_PYTHON_FRAMEWORK,
    AN_PYTHON_LOADER,
    AN_PYTHON_OTHER
};

/* Sums by name of the frame. */
struct an_python_sums {
    struct an_python_line *line; /* by string */
    uint32_t *seen;              /* the last stack that counted the frame, + 1 */
    uint8_t *kind;               /* enum an_python_kind of a string */
    int64_t *loss;               /* looks at a line right before a backward pass */
};

/* Zeroed arrays for so many strings; TACHO_ENOMEM: without some of them. To be freed in any case.
 */
int an_python_sums_make(struct an_python_sums *sums, size_t names);
void an_python_sums_free(struct an_python_sums *sums);

/* "function (/path/file.py:line)" taken apart into *line, with texts in the result's arena; false:
 * it is no such label. */
bool an_python_label(struct an_context *context, const char *label, struct an_python_line *line);

/* Of the frame with that string, which is remembered. */
enum an_python_kind an_python_kind(const struct an_trace *trace, struct an_python_sums *sums,
                                   uint32_t name);

/* Adds the looks that ended in one stack to the lines on it. A line that is on it twice counts
 * once. What lies around the loader of a worker was the program's when the worker was forked. */
void an_python_add_stack(const struct an_trace *trace, struct an_python_sums *sums, uint32_t stack,
                         const struct an_python_counts *counts, bool of_worker);

#endif
