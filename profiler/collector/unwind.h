/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: call stacks of code without frame pointers, from the registers and the piece of the stack that the kernel copies
 * with a sample, by the unwind tables of the files (.eh_frame), through elfutils' libdw. Code without tables (trampolines of
 * Python) is passed by its frame pointer.
 *
 * Built without libdw nothing can be unwound: col_unwind_new returns NULL.
 */
#ifndef COL_UNWIND_H
#define COL_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/mappings.h"

#define COL_UNWIND_REGISTERS 17     /* x86-64, in the order of DWARF: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15, rip */
#define COL_UNWIND_STACK     16384u /* bytes of stack that a sample holds; frames further out are cut */

struct col_unwind;

/* maps is borrowed and must outlive it. */
struct col_unwind *col_unwind_new(const struct col_mappings *maps);
void col_unwind_free(struct col_unwind *u); /* NULL is fine */

/* Return addresses from the innermost frame on; caller[i]: address i is one of a caller, and points behind its call. The
 * stack's bytes begin at the stack pointer. Returns how many, 0 where it is not possible. */
size_t col_unwind(struct col_unwind *u, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS], const uint8_t *stack,
                  size_t bytes, uint64_t *ip, size_t most);
/* The process has another program now, or is gone. */
void col_unwind_forget(struct col_unwind *u, int32_t pid);

#endif
