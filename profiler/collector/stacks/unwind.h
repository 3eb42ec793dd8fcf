/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: call stacks of code without frame pointers, from the registers and the piece of the
 * stack that the kernel copies with a sample, by the unwind tables of the files (unwind_rows.h).
 *
 * Code without tables (trampolines of Python, kernels that oneDNN makes at run time) is passed by
 * search: the nearest word of the stack that is an address behind a call instruction, from which
 * the tables lead on through return addresses only.
 *
 * Built without libdw nothing can be unwound: col_unwind_new returns NULL.
 */
#ifndef COL_UNWIND_H
#define COL_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/stacks/mappings.h"
#include "profiler/collector/stacks/unwind_rows.h"

#define COL_UNWIND_STACK \
    16384u /* bytes of stack that a sample holds; frames further out are cut \
            */

enum col_unwind_end {
    COL_UNWIND_WHOLE, /* the outermost frame: its tables say that it has no caller */
    COL_UNWIND_CUT,   /* frames further out lie outside of the bytes, or are more than asked for */
    COL_UNWIND_STUCK, /* no tables, or nonsense: the rest is not known */
};

struct col_unwind;

/* maps is borrowed and must outlive it. */
struct col_unwind *col_unwind_new(struct col_mappings *maps);
void col_unwind_free(struct col_unwind *u); /* NULL is fine */

/* One address for each frame, from the innermost on: where it was interrupted, of callers the last
 * byte of the call. The stack's bytes begin at the stack pointer; `full`: the stack goes on behind
 * them. Returns how many, at least 1. */
size_t col_unwind(struct col_unwind *u, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS],
                  const uint8_t *stack, size_t bytes, bool full, uint64_t *ip, size_t most,
                  enum col_unwind_end *end);

#endif
