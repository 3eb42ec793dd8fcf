/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: waits for a value of a device, as the hook of PyTorch and JAX records
 * them.
 */
#ifndef ANALYZERS_VALUE_WAIT_H
#define ANALYZERS_VALUE_WAIT_H

#include "analyzers/trace/trace.h"

/* What the program calls to read the value (".item()"), and the line that does ("train.py:31"). The
 * texts live as long as the trace. */
struct an_value_wait {
    const char *what, *line;
};

/* Is a range of the host such a wait, by its name from the hook? Then *wait says what for; it may
 * be NULL. Not the work of JAX on the CPU, whose threads compute until the value is there. */
bool an_slice_value_wait(const struct an_trace *trace, size_t slice, struct an_value_wait *wait);

/* Does the name of a range say that it waits for the device? Python's tracer names ranges
 * "file:line function". */
bool an_slice_says_wait(const struct an_trace *trace, size_t slice);

#endif
