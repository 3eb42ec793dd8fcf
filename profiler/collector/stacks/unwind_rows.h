/* SPDX-License-Identifier: Apache-2.0
 *
 * The unwind tables of one file (.eh_frame, else .debug_frame), compiled: libdw is asked once for
 * each range of addresses that has the same rules, and its answer is kept as a row that a sample
 * can use within some ten nanoseconds.
 *
 * A row says where the caller's registers are: the canonical frame address (CFA) is register +
 * offset or an expression; each register is saved at CFA + offset, or equals that, or is unchanged,
 * or an expression computes it (DWARF 5, section 6.4). Addresses are those of the file (p_vaddr),
 * not of a process. Registers are numbered as DWARF does on x86-64.
 */
#ifndef COL_UNWIND_ROWS_H
#define COL_UNWIND_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Defined where stacks can be unwound by tables: with libdw, on x86-64. Elsewhere the kernel's
 * chain of frame pointers is all that there is. */
#if defined(HAVE_DW) && defined(__x86_64__)
#define COL_UNWIND_HERE 1
#endif

/* x86-64, in the order of DWARF: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15, rip */
#define COL_UNWIND_REGISTERS 17
#define COL_UNWIND_RBP       6
#define COL_UNWIND_RSP       7
#define COL_UNWIND_RIP       16

enum col_unwind_kind {
    COL_UNWIND_SAVED_AT,   /* its place is CFA + value */
    COL_UNWIND_IS,         /* it is CFA + value */
    COL_UNWIND_COPY,       /* it is in register `value` */
    COL_UNWIND_SAVED_EXPR, /* its place is what expression `value` yields */
    COL_UNWIND_IS_EXPR,    /* it is what expression `value` yields */
};

struct col_unwind_rule {
    uint8_t reg, kind;
    int32_t value;
};

struct col_unwind_row {
    uint64_t start, end; /* addresses that it is known to hold for */
    uint64_t begin;      /* where the rules begin, as libdw says: at `start` or before it */
    bool none;           /* no rules are known there */
    bool signal;         /* a frame of a signal handler: its caller was interrupted, not calling */
    bool cfa_expression; /* cfa_value: which expression; else an offset from cfa_register */
    uint8_t cfa_register;
    uint8_t rules; /* used; a register without a rule is unchanged, rsp becomes the CFA */
    uint32_t lost; /* bit r: register r cannot be recovered; rip: there is no caller */
    int32_t cfa_value;
    struct col_unwind_rule rule[COL_UNWIND_REGISTERS];
};

struct col_unwind_op {
    uint8_t atom; /* DW_OP_* */
    uint64_t number, number2;
};

enum col_unwind_call { COL_UNWIND_NO_CALL, COL_UNWIND_DIRECT, COL_UNWIND_INDIRECT };

struct col_unwind_rows;

/* Takes over the descriptor of an ELF file. With -1, or for a file without tables, every row of the
 * object is `none`. NULL: out of memory. */
struct col_unwind_rows *col_unwind_rows_open(int fd);
void col_unwind_rows_close(struct col_unwind_rows *rows); /* NULL is fine */

/* The address of the byte at `offset` of the file; UINT64_MAX: in no segment. */
uint64_t col_unwind_rows_address(const struct col_unwind_rows *rows, uint64_t offset);
/* The row for an address, valid until the next call. */
const struct col_unwind_row *col_unwind_rows_at(struct col_unwind_rows *rows, uint64_t address);
/* Expression of a row of this table. */
const struct col_unwind_op *col_unwind_rows_expression(const struct col_unwind_rows *rows,
                                                       int32_t index, size_t *count);
/* Does a call instruction end right before this place of the file? */
enum col_unwind_call col_unwind_rows_call(struct col_unwind_rows *rows, uint64_t offset);

#endif
