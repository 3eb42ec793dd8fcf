/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles the unwind tables of a file, as far as samples need them. libdw interprets the DWARF
 * program of an address in some microseconds; samples ask for the same addresses again and again,
 * so its answer is kept as a row and found by binary search.
 */
#include "profiler/collector/stacks/unwind_rows.h"

#ifdef COL_UNWIND_HERE

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/list.h"

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
    uint64_t offset; /* + 1; 0: empty */
    enum col_unwind_call kind;
};

struct col_unwind_rows {
    int fd;
    Elf *elf;
    Dwarf *debug; /* for .debug_frame */
    Dwarf_CFI *eh, *frames;
    bool asked; /* whether .debug_frame exists has been checked */
    struct segment segment[SEGMENTS_MAX];
    unsigned segments;
    uint64_t *start; /* of row[order[i]], ascending; apart from the rows, to search fewer bytes */
    uint32_t *order;
    struct col_unwind_row *row;
    size_t count, room;
    struct col_unwind_op *op;
    size_t ops, op_room;
    struct expression *expression;
    size_t expressions, expression_room;
    struct call call[CALLS];
};

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

/* Reads the loaded segments, which map file offsets to addresses. */
static void read_segments(struct col_unwind_rows *rows)
{
    size_t count = 0;
    elf_getphdrnum(rows->elf, &count);
    for (size_t i = 0; i < count && rows->segments < SEGMENTS_MAX; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(rows->elf, (int)i, &segment) && segment.p_type == PT_LOAD)
            rows->segment[rows->segments++] =
                (struct segment){segment.p_offset, segment.p_vaddr, segment.p_filesz};
    }
}

struct col_unwind_rows *col_unwind_rows_open(int fd)
{
    GElf_Ehdr header;
    struct col_unwind_rows *rows = calloc(1, sizeof *rows);
    if (!rows) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    rows->fd = fd;
    elf_version(EV_CURRENT);
    /* Read, not mapped: a file that is truncated during that must not crash the collector. */
    if (fd >= 0)
        rows->elf = elf_begin(fd, ELF_C_READ, NULL);
    if (rows->elf && gelf_getehdr(rows->elf, &header) && header.e_machine == EM_X86_64 &&
        header.e_ident[EI_CLASS] == ELFCLASS64) {
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

/* Copies an expression, which libdw frees with its frame. Returns its index; -1: out of memory. */
static int32_t keep_expression(struct col_unwind_rows *rows, const Dwarf_Op *ops, size_t count)
{
    struct expression *expressions = col_list_room(rows->expression, &rows->expression_room,
                                                   rows->expressions + 1, sizeof *expressions);
    if (!expressions)
        return -1;
    rows->expression = expressions;
    struct col_unwind_op *kept =
        col_list_room(rows->op, &rows->op_room, rows->ops + count, sizeof *kept);
    if (!kept)
        return -1;
    rows->op = kept;
    for (size_t i = 0; i < count; i++)
        rows->op[rows->ops + i] =
            (struct col_unwind_op){ops[i].atom, ops[i].number, ops[i].number2};
    rows->expression[rows->expressions] = (struct expression){(uint32_t)rows->ops, (uint32_t)count};
    rows->ops += count;
    return (int32_t)rows->expressions++;
}

const struct col_unwind_op *col_unwind_rows_expression(const struct col_unwind_rows *rows,
                                                       int32_t index, size_t *count)
{
    *count = rows->expression[index].count;
    return rows->op + rows->expression[index].first;
}

static bool fits(uint64_t value)
{
    return (int64_t)value >= INT32_MIN && (int64_t)value <= INT32_MAX;
}

/* Takes the rule of the CFA: almost always register + offset, else an expression. */
static bool take_cfa(struct col_unwind_rows *rows, Dwarf_Frame *frame, struct col_unwind_row *row)
{
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_frame_cfa(frame, &ops, &count) != 0 || !count)
        return false;
    uint64_t reg = UINT64_MAX, offset = 0;
    if (count == 1 && ops->atom == DW_OP_bregx) {
        reg = ops->number;
        offset = ops->number2;
    } else if (count == 1 && ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31) {
        reg = (uint64_t)(ops->atom - DW_OP_breg0);
        offset = ops->number;
    }
    if (reg < COL_UNWIND_REGISTERS && fits(offset)) {
        row->cfa_register = (uint8_t)reg;
        row->cfa_value = (int32_t)offset;
        return true;
    }
    row->cfa_expression = true;
    row->cfa_value = keep_expression(rows, ops, count);
    return row->cfa_value >= 0;
}

/* Takes the rule of one register. libdw gives each rule as a short DWARF expression; the common
 * forms (in a register, at CFA + offset, equal to CFA + offset) become rules of their own, because
 * they are evaluated without the machine for expressions. */
static bool take_register(struct col_unwind_rows *rows, Dwarf_Frame *frame, uint8_t reg,
                          struct col_unwind_row *row)
{
    Dwarf_Op own[3], *ops;
    size_t count;
    struct col_unwind_rule rule = {.reg = reg};
    if (dwarf_frame_register(frame, reg, own, &ops, &count) != 0)
        return false;
    if (!count) {
        if (ops) /* undefined; else unchanged */
            row->lost |= 1u << reg;
        return true;
    }
    bool value = count > 1 && ops[count - 1].atom == DW_OP_stack_value;
    size_t used = count - value;
    uint64_t offset = used == 2 ? ops[1].number : 0;
    if (used == 1 && ops->atom == DW_OP_regx && ops->number < COL_UNWIND_REGISTERS) {
        rule.kind = COL_UNWIND_COPY;
        rule.value = (int32_t)ops->number;
    } else if (ops->atom == DW_OP_call_frame_cfa &&
               (used == 1 || (used == 2 && ops[1].atom == DW_OP_plus_uconst)) && fits(offset)) {
        rule.kind = value ? COL_UNWIND_IS : COL_UNWIND_SAVED_AT;
        rule.value = (int32_t)offset;
    } else {
        rule.kind = value ? COL_UNWIND_IS_EXPR : COL_UNWIND_SAVED_EXPR;
        rule.value = keep_expression(rows, ops, used);
        if (rule.value < 0)
            return false;
    }
    if (reg != COL_UNWIND_RSP || rule.kind != COL_UNWIND_IS || rule.value != 0)
        row->rule[row->rules++] = rule;
    return true;
}

/* Asks libdw for the rules at an address and keeps them in `row`; false where it knows none. */
static bool compile(struct col_unwind_rows *rows, Dwarf_CFI *cfi, uint64_t address,
                    struct col_unwind_row *row)
{
    Dwarf_Frame *frame = NULL;
    Dwarf_Addr start, end;
    bool ok = cfi && dwarf_cfi_addrframe(cfi, address, &frame) == 0 &&
              dwarf_frame_info(frame, &start, &end, &row->signal) == COL_UNWIND_RIP &&
              start <= address && address < end;
    if (ok) {
        /* libdw's start may lie before another row's: DW_CFA_restore_state returns to old rules. */
        row->start = address;
        row->end = end;
        row->begin = start;
        ok = take_cfa(rows, frame, row);
        for (uint8_t reg = 0; ok && reg < COL_UNWIND_REGISTERS; reg++)
            ok = take_register(rows, frame, reg, row);
    }
    free(frame);
    return ok;
}

/* Has the file a section of that name? */
static bool has_section(Elf *elf, const char *name)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *section = elf_nextscn(elf, NULL); section; section = elf_nextscn(elf, section)) {
        GElf_Shdr header;
        const char *text =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (text && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

/* The tables of .debug_frame, for addresses that .eh_frame does not cover. libdw would read all
 * debug sections of a file, so it is asked only where that section exists. */
static Dwarf_CFI *debug_frames(struct col_unwind_rows *rows)
{
    if (!rows->asked && rows->elf && rows->fd >= 0 && has_section(rows->elf, ".debug_frame") &&
        (rows->debug = dwarf_begin_elf(rows->elf, DWARF_C_READ, NULL)))
        rows->frames = dwarf_getcfi(rows->debug);
    rows->asked = true;
    return rows->frames;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

/* Makes room for one row in the three arrays, which grow together. */
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

/* Rows are compiled when they are first asked for and kept in an order by address. Where neither
 * table has rules, a row for that one address says so, and libdw is not asked again. */
const struct col_unwind_row *col_unwind_rows_at(struct col_unwind_rows *rows, uint64_t address)
{
    static const struct col_unwind_row nothing = {.none = true};
    size_t place = col_rows_until(rows->start, rows->count, sizeof *rows->start, address);
    if (place && address < rows->row[rows->order[place - 1]].end)
        return &rows->row[rows->order[place - 1]];
    struct col_unwind_row row = {0};
    if (!compile(rows, rows->eh, address, &row)) {
        row = (struct col_unwind_row){0};
        if (!compile(rows, debug_frames(rows), address, &row))
            row = (struct col_unwind_row){.start = address, .end = address + 1, .none = true};
    }
    if (place < rows->count &&
        row.end > rows->start[place]) /* ranges of damaged tables may overlap */
        row.end = rows->start[place];
    if (rows->count >= UINT32_MAX || !room_for_one(rows))
        return &nothing;
    memmove(rows->start + place + 1, rows->start + place,
            (rows->count - place) * sizeof *rows->start);
    memmove(rows->order + place + 1, rows->order + place,
            (rows->count - place) * sizeof *rows->order);
    rows->start[place] = row.start;
    rows->order[place] = (uint32_t)rows->count;
    rows->row[rows->count] = row;
    return &rows->row[rows->count++];
}

/* ---- call instructions ------------------------------------------------------------------------------------------------------- */

/* Does the code before `end` (CALL_BYTES bytes) end with a call instruction? E8 and four bytes is a
 * direct call; FF /2 is an indirect one, whose length follows from the mode in its second byte
 * (Intel 64 manual, volume 2, CALL and table 2-2). */
static enum col_unwind_call call_before(const uint8_t *end)
{
    if (end[-5] == 0xe8)
        return COL_UNWIND_DIRECT;
    for (unsigned length = 2; length <= CALL_BYTES; length++) {
        const uint8_t *code = end - length;
        unsigned mode = code[1] >> 6, base = code[1] & 7, bytes = 2;
        if (code[0] != 0xff || (code[1] >> 3 & 7) != 2)
            continue;
        if (mode != 3)
            bytes += base == 4; /* a SIB byte */
        if (mode == 1)
            bytes += 1;
        else if (mode == 2 || (mode == 0 && base == 5))
            bytes += 4;
        if (bytes == length)
            return COL_UNWIND_INDIRECT;
    }
    return COL_UNWIND_NO_CALL;
}

/* Remembers the answers in a small table by offset: samples ask for the same return addresses. */
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
