/* SPDX-License-Identifier: Apache-2.0
 *
 * Call stacks of code without frame pointers, from the registers and the piece of the stack that
 * the kernel copies with a sample, by the unwind tables of the files (unwind_rows.h).
 *
 * Code without tables (trampolines of Python, kernels that oneDNN generates at run time) is passed
 * by a search for the caller: the nearest word of the stack that is an address after a call
 * instruction, and from which the tables continue through return addresses only.
 *
 * Built without libdw, or not on x86-64, nothing can be unwound: col_unwind_new returns NULL.
 */
#ifndef COL_UNWIND_H
#define COL_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/stacks/mappings.h"
#include "profiler/collector/stacks/unwind_rows.h"

/* Bytes of stack that a sample holds; frames further out are cut. */
#define COL_UNWIND_STACK 16384u

enum col_unwind_end {
    COL_UNWIND_WHOLE, /* the outermost frame: its tables say that it has no caller */
    COL_UNWIND_CUT,   /* frames further out lie outside of the bytes, or are more than asked for */
    COL_UNWIND_STUCK, /* no tables, or inconsistent ones: the rest is not known */
};

struct col_unwind;

/* maps is borrowed and must outlive it. */
struct col_unwind *col_unwind_new(struct col_mappings *maps);
void col_unwind_free(struct col_unwind *unwind); /* NULL is fine */

/* Writes one address for each frame to `ip`, innermost first: where it was interrupted, for callers
 * the last byte of the call instruction. The copied bytes begin at the stack pointer; `full`: the
 * stack continues beyond them. Returns the number of frames, at least 1 and at most `most`. */
size_t col_unwind(struct col_unwind *unwind, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS],
                  const uint8_t *stack, size_t bytes, bool full, uint64_t *ip, size_t most,
                  enum col_unwind_end *end);

#endif
