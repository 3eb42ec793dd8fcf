/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/stacks/unwind_rows.h"

#ifdef HAVE_DW

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS_MAX 64u
#define CALLS        1024u /* places whose instruction before them is known: a power of two */
#define CALL_BYTES   7u    /* the longest call instruction that is looked for */

struct segment {
    uint64_t offset, address, bytes;
};

struct expression {
    uint32_t first, count;
};

struct call {
    uint64_t offset; /* + 1: 0 is none */
    enum col_unwind_call kind;
};

struct col_unwind_rows {
    int fd;
    Elf *elf;
    Dwarf *debug; /* for .debug_frame */
    Dwarf_CFI *eh, *frames;
    bool asked; /* .debug_frame was looked for */
    struct segment segment[SEGMENTS_MAX];
    unsigned segments;
    uint64_t *start; /* of row[order[i]], ascending: what is searched lies close together */
    uint32_t *order;
    struct col_unwind_row *row;
    size_t count, room;
    struct col_unwind_op *op;
    size_t ops, op_room;
    struct expression *expression;
    size_t expressions, expression_room;
    struct call call[CALLS];
};

static void *grown(void *list, size_t *room, size_t need, size_t size)
{
    size_t n = *room ? 2 * *room : 64;
    while (n < need)
        n *= 2;
    void *p = realloc(list, n * size);
    if (p)
        *room = n;
    return p;
}

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

static void read_segments(struct col_unwind_rows *rows)
{
    size_t n = 0;
    elf_getphdrnum(rows->elf, &n);
    for (size_t i = 0; i < n && rows->segments < SEGMENTS_MAX; i++) {
        GElf_Phdr p;
        if (gelf_getphdr(rows->elf, (int)i, &p) && p.p_type == PT_LOAD)
            rows->segment[rows->segments++] = (struct segment){p.p_offset, p.p_vaddr, p.p_filesz};
    }
}

struct col_unwind_rows *col_unwind_rows_open(int fd)
{
    GElf_Ehdr h;
    struct col_unwind_rows *rows = calloc(1, sizeof *rows);
    if (!rows) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    rows->fd = fd;
    elf_version(EV_CURRENT);
    if (fd >= 0)
        rows->elf = elf_begin(
            fd, ELF_C_READ,
            NULL); /* not mapped: a file that is cut while it is read must not end the collector */
    if (rows->elf && gelf_getehdr(rows->elf, &h) && h.e_machine == EM_X86_64 &&
        h.e_ident[EI_CLASS] == ELFCLASS64) {
        read_segments(rows);
        rows->eh = dwarf_getcfi_elf(rows->elf);
    }
    return rows;
}

void col_unwind_rows_close(struct col_unwind_rows *rows)
{
    if (!rows)
        return;
    if (rows->eh)
        dwarf_cfi_end(rows->eh);
    if (rows->debug)
        dwarf_end(rows->debug);
    if (rows->elf)
        elf_end(rows->elf);
    if (rows->fd >= 0)
        close(rows->fd);
    free(rows->start);
    free(rows->order);
    free(rows->row);
    free(rows->op);
    free(rows->expression);
    free(rows);
}

uint64_t col_unwind_rows_address(const struct col_unwind_rows *rows, uint64_t offset)
{
    for (unsigned i = 0; i < rows->segments; i++)
        if (offset >= rows->segment[i].offset &&
            offset - rows->segment[i].offset < rows->segment[i].bytes)
            return offset - rows->segment[i].offset + rows->segment[i].address;
    return UINT64_MAX;
}

/* ---- what libdw says, as a row ------------------------------------------------------------------------------------------------ */

/* Its index; -1: out of memory. */
static int32_t keep_expression(struct col_unwind_rows *rows, const Dwarf_Op *ops, size_t n)
{
    void *p;
    if (rows->expressions == rows->expression_room) {
        if (!(p = grown(rows->expression, &rows->expression_room, rows->expressions + 1,
                        sizeof *rows->expression)))
            return -1;
        rows->expression = p;
    }
    if (rows->ops + n > rows->op_room) {
        if (!(p = grown(rows->op, &rows->op_room, rows->ops + n, sizeof *rows->op)))
            return -1;
        rows->op = p;
    }
    for (size_t i = 0; i < n; i++)
        rows->op[rows->ops + i] =
            (struct col_unwind_op){ops[i].atom, ops[i].number, ops[i].number2};
    rows->expression[rows->expressions] = (struct expression){(uint32_t)rows->ops, (uint32_t)n};
    rows->ops += n;
    return (int32_t)rows->expressions++;
}

const struct col_unwind_op *col_unwind_rows_expression(const struct col_unwind_rows *rows,
                                                       int32_t index, size_t *count)
{
    *count = rows->expression[index].count;
    return rows->op + rows->expression[index].first;
}

static bool fits(uint64_t v)
{
    return (int64_t)v >= INT32_MIN && (int64_t)v <= INT32_MAX;
}

static bool take_cfa(struct col_unwind_rows *rows, Dwarf_Frame *frame, struct col_unwind_row *row)
{
    Dwarf_Op *ops;
    size_t n;
    if (dwarf_frame_cfa(frame, &ops, &n) != 0 || !n)
        return false;
    uint64_t reg = UINT64_MAX, offset = 0;
    if (n == 1 && ops->atom == DW_OP_bregx) {
        reg = ops->number;
        offset = ops->number2;
    } else if (n == 1 && ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31) {
        reg = (uint64_t)(ops->atom - DW_OP_breg0);
        offset = ops->number;
    }
    if (reg < COL_UNWIND_REGISTERS && fits(offset)) {
        row->cfa_register = (uint8_t)reg;
        row->cfa_value = (int32_t)offset;
        return true;
    }
    row->cfa_expression = true;
    row->cfa_value = keep_expression(rows, ops, n);
    return row->cfa_value >= 0;
}

static bool take_register(struct col_unwind_rows *rows, Dwarf_Frame *frame, uint8_t reg,
                          struct col_unwind_row *row)
{
    Dwarf_Op own[3], *ops;
    size_t n;
    struct col_unwind_rule rule = {.reg = reg};
    if (dwarf_frame_register(frame, reg, own, &ops, &n) != 0)
        return false;
    if (!n) {
        if (ops) /* else it stays what it was */
            row->lost |= 1u << reg;
        return true;
    }
    bool value = n > 1 && ops[n - 1].atom == DW_OP_stack_value;
    size_t m = n - value;
    uint64_t offset = m == 2 ? ops[1].number : 0;
    if (m == 1 && ops->atom == DW_OP_regx && ops->number < COL_UNWIND_REGISTERS) {
        rule.kind = COL_UNWIND_COPY;
        rule.value = (int32_t)ops->number;
    } else if (ops->atom == DW_OP_call_frame_cfa &&
               (m == 1 || (m == 2 && ops[1].atom == DW_OP_plus_uconst)) && fits(offset)) {
        rule.kind = value ? COL_UNWIND_IS : COL_UNWIND_SAVED_AT;
        rule.value = (int32_t)offset;
    } else {
        rule.kind = value ? COL_UNWIND_IS_EXPR : COL_UNWIND_SAVED_EXPR;
        rule.value = keep_expression(rows, ops, m);
        if (rule.value < 0)
            return false;
    }
    if (reg != COL_UNWIND_RSP || rule.kind != COL_UNWIND_IS || rule.value != 0)
        row->rule[row->rules++] = rule;
    return true;
}

static bool compile(struct col_unwind_rows *rows, Dwarf_CFI *cfi, uint64_t address,
                    struct col_unwind_row *row)
{
    Dwarf_Frame *frame = NULL;
    Dwarf_Addr start, end;
    bool ok = cfi && dwarf_cfi_addrframe(cfi, address, &frame) == 0 &&
              dwarf_frame_info(frame, &start, &end, &row->signal) == COL_UNWIND_RIP &&
              start <= address && address < end;
    if (ok) {
        row->start = address; /* libdw's start may lie before a row of other rules:
                                 DW_CFA_restore_state brings an old one back */
        row->end = end;
        ok = take_cfa(rows, frame, row);
        for (uint8_t r = 0; ok && r < COL_UNWIND_REGISTERS; r++)
            ok = take_register(rows, frame, r, row);
    }
    free(frame);
    return ok;
}

static bool has_section(Elf *elf, const char *name)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
        GElf_Shdr h;
        const char *text = gelf_getshdr(s, &h) ? elf_strptr(elf, names, h.sh_name) : NULL;
        if (text && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

/* Where .eh_frame says nothing. libdw reads all of a file's debug sections, so only where there are
 * tables among them. */
static Dwarf_CFI *debug_frames(struct col_unwind_rows *rows)
{
    if (!rows->asked && rows->elf && rows->fd >= 0 && has_section(rows->elf, ".debug_frame") &&
        (rows->debug = dwarf_begin_elf(rows->elf, DWARF_C_READ, NULL)))
        rows->frames = dwarf_getcfi(rows->debug);
    rows->asked = true;
    return rows->frames;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

/* How many rows begin at or before the address. */
static size_t behind(const struct col_unwind_rows *rows, uint64_t address)
{
    size_t lo = 0, hi = rows->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rows->start[mid] <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool room_for_one(struct col_unwind_rows *rows)
{
    if (rows->count < rows->room)
        return true;
    size_t room = rows->room ? 2 * rows->room : 64;
    uint64_t *start = realloc(rows->start, room * sizeof *start);
    if (start)
        rows->start = start;
    uint32_t *order = start ? realloc(rows->order, room * sizeof *order) : NULL;
    if (order)
        rows->order = order;
    struct col_unwind_row *row = order ? realloc(rows->row, room * sizeof *row) : NULL;
    if (!row)
        return false;
    rows->row = row;
    rows->room = room;
    return true;
}

const struct col_unwind_row *col_unwind_rows_at(struct col_unwind_rows *rows, uint64_t address)
{
    static const struct col_unwind_row nothing = {.none = true};
    size_t at = behind(rows, address);
    if (at && address < rows->row[rows->order[at - 1]].end)
        return &rows->row[rows->order[at - 1]];
    struct col_unwind_row row = {0};
    if (!compile(rows, rows->eh, address, &row)) {
        row = (struct col_unwind_row){0};
        if (!compile(rows, debug_frames(rows), address, &row))
            row = (struct col_unwind_row){.start = address, .end = address + 1, .none = true};
    }
    if (at < rows->count && row.end > rows->start[at]) /* ranges of damaged tables may overlap */
        row.end = rows->start[at];
    if (rows->count >= UINT32_MAX || !room_for_one(rows))
        return &nothing;
    memmove(rows->start + at + 1, rows->start + at, (rows->count - at) * sizeof *rows->start);
    memmove(rows->order + at + 1, rows->order + at, (rows->count - at) * sizeof *rows->order);
    rows->start[at] = row.start;
    rows->order[at] = (uint32_t)rows->count;
    rows->row[rows->count] = row;
    return &rows->row[rows->count++];
}

/* ---- call instructions ------------------------------------------------------------------------------------------------------- */

/* `end` points behind CALL_BYTES bytes of code. E8 with four bytes; or FF /2, which the mode of its
 * second byte makes longer (Intel 64 manual, volume 2, CALL and table 2-2). */
static enum col_unwind_call call_before(const uint8_t *end)
{
    if (end[-5] == 0xe8)
        return COL_UNWIND_DIRECT;
    for (unsigned n = 2; n <= CALL_BYTES; n++) {
        const uint8_t *p = end - n;
        unsigned mode = p[1] >> 6, base = p[1] & 7, bytes = 2;
        if (p[0] != 0xff || (p[1] >> 3 & 7) != 2)
            continue;
        if (mode != 3)
            bytes += (base == 4) + (mode == 1 ? 1u : mode == 2 || base == 5 ? 4u : 0u);
        if (bytes == n)
            return COL_UNWIND_INDIRECT;
    }
    return COL_UNWIND_NO_CALL;
}

enum col_unwind_call col_unwind_rows_call(struct col_unwind_rows *rows, uint64_t offset)
{
    uint8_t code[CALL_BYTES];
    struct call *call = &rows->call[offset * 0x9e3779b97f4a7c15u >> 54];
    if (call->offset == offset + 1)
        return call->kind;
    call->offset = offset + 1;
    call->kind = COL_UNWIND_NO_CALL;
    if (offset < sizeof code || offset > INT64_MAX)
        return call->kind;
    if (rows->fd >= 0 &&
        pread(rows->fd, code, sizeof code, (off_t)(offset - sizeof code)) == sizeof code)
        call->kind = call_before(code + sizeof code);
    return call->kind;
}

#endif
