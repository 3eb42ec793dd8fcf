/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the frames of one sample. The tables give the caller of a frame from its registers and the
 * copied bytes of the stack. Where a file has no tables, the walk tries the words of the stack as
 * return addresses and keeps the one from which the tables lead furthest.
 */
#include "profiler/collector/stacks/unwind.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef COL_UNWIND_HERE

struct col_unwind *col_unwind_new(struct col_mappings *maps)
{
    (void)maps;
    return NULL;
}

void col_unwind_free(struct col_unwind *unwind)
{
    (void)unwind;
}

size_t col_unwind(struct col_unwind *unwind, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS],
                  const uint8_t *stack, size_t bytes, bool full, uint64_t *ip, size_t most,
                  enum col_unwind_end *end)
{
    (void)unwind, (void)pid, (void)reg, (void)stack, (void)bytes, (void)full, (void)ip, (void)most;
    *end = COL_UNWIND_STUCK;
    return 0;
}

#else

#include <dwarf.h>

#define FILES_MAX    1024u /* whose tables are kept open */
#define TRIAL_FRAMES 64u   /* frames that a guess is followed at most */
#define TRIAL_LEAST  6u    /* frames that must follow if the outermost one is not reached */
#define GUESSES_MAX  24u   /* return addresses tried for each frame without tables */
#define PUSHED_MAX   7u    /* words below a return address that may be the caller's frame pointer */
/* Words that the frame of a caller without tables may have; the innermost one may have all. */
#define CALLER_WORDS 64u

struct file {
    const char *path; /* of the mapping: compared as a pointer */
    struct col_unwind_rows *rows;
};

struct col_unwind {
    struct col_mappings *maps;
    struct file file[FILES_MAX];
    size_t files;
};

/* The piece of a thread's stack that came with a sample. */
struct sample {
    struct col_unwind *unwind;
    int32_t pid;
    const uint8_t *stack;
    uint64_t base; /* address of its first byte */
    size_t bytes;
    bool full;
};

struct frame {
    uint64_t reg[COL_UNWIND_REGISTERS];
    uint32_t known; /* bit r: register r */
    bool exact;     /* rip is the next instruction; else it is a return address */
};

enum step {
    STEP_ON,
    STEP_LAST,    /* there is no caller: the tables say so */
    STEP_ZERO,    /* the return address is 0, as below the first frame of a thread; or chance */
    STEP_OUTSIDE, /* of the bytes */
    STEP_FREED,   /* below the stack pointer of the sample, whose bytes begin there */
    STEP_CUT,     /* beyond the bytes, whether or not the kernel says that the stack continues */
    STEP_BLIND,   /* no tables */
    STEP_WRONG,
};

struct col_unwind *col_unwind_new(struct col_mappings *maps)
{
    struct col_unwind *unwind = calloc(1, sizeof *unwind);
    if (unwind)
        unwind->maps = maps;
    return unwind;
}

void col_unwind_free(struct col_unwind *unwind)
{
    for (size_t i = 0; unwind && i < unwind->files; i++)
        col_unwind_rows_close(unwind->file[i].rows);
    free(unwind);
}

/* ---- where the tables are ----------------------------------------------------------------------------------------------------- */

/* The tables of a mapped file, opened when first asked for. NULL: not a file, or too many files are
 * open. The number in the mapping saves the search. */
static struct col_unwind_rows *rows_of(struct col_unwind *unwind, int32_t pid,
                                       struct col_mapping *mapping)
{
    if (mapping->tables < unwind->files)
        return unwind->file[mapping->tables].rows;
    if (mapping->tables == COL_MAPPING_NO_TABLES || !col_mapping_is_file(mapping)) {
        mapping->tables = COL_MAPPING_NO_TABLES;
        return NULL;
    }
    for (size_t i = 0; i < unwind->files; i++)
        if (unwind->file[i].path == mapping->path)
            return unwind->file[mapping->tables = (uint32_t)i].rows;
    if (unwind->files == FILES_MAX)
        return NULL;
    struct col_unwind_rows *rows = col_unwind_rows_open(col_mapping_open(mapping->path, pid));
    if (!rows)
        return NULL;
    mapping->tables = (uint32_t)unwind->files;
    unwind->file[unwind->files++] = (struct file){mapping->path, rows};
    return rows;
}

/* Is there a call right before the address? */
static enum col_unwind_call call_before(const struct sample *sample, uint64_t address)
{
    struct col_mapping *mapping = col_mappings_find(sample->unwind->maps, sample->pid, address - 1);
    struct col_unwind_rows *rows = mapping ? rows_of(sample->unwind, sample->pid, mapping) : NULL;
    return rows ? col_unwind_rows_call(rows, address - mapping->start + mapping->offset)
                : COL_UNWIND_NO_CALL;
}

/* Reads a word of the copied stack; false outside of it. */
static bool read_word(const struct sample *sample, uint64_t address, uint64_t *to)
{
    uint64_t offset = address - sample->base;
    if (address < sample->base || offset >= sample->bytes || sample->bytes - offset < sizeof *to)
        return false;
    memcpy(to, sample->stack + offset, sizeof *to);
    return true;
}

/* ---- expressions (DWARF 5, section 2.5) --------------------------------------------------------------------------------------- */

struct machine {
    const struct sample *sample;
    const struct frame *frame;
    uint64_t cfa, stack[32];
    size_t depth;
};

static bool push(struct machine *machine, uint64_t value)
{
    if (machine->depth == sizeof machine->stack / sizeof *machine->stack)
        return false;
    machine->stack[machine->depth++] = value;
    return true;
}

static bool push_register(struct machine *machine, uint64_t reg, uint64_t offset)
{
    return reg < COL_UNWIND_REGISTERS && machine->frame->known >> reg & 1 &&
           push(machine, machine->frame->reg[reg] + offset);
}

/* The operations on the upper two values of the expression's stack. */
static bool binary(struct machine *machine, uint8_t atom)
{
    if (machine->depth < 2)
        return false;
    uint64_t right = machine->stack[--machine->depth], *left = &machine->stack[machine->depth - 1];
    int64_t left_signed = (int64_t)*left, right_signed = (int64_t)right;
    switch (atom) {
    case DW_OP_and:
        *left &= right;
        break;
    case DW_OP_or:
        *left |= right;
        break;
    case DW_OP_xor:
        *left ^= right;
        break;
    case DW_OP_plus:
        *left += right;
        break;
    case DW_OP_minus:
        *left -= right;
        break;
    case DW_OP_mul:
        *left *= right;
        break;
    case DW_OP_shl:
        *left = right < 64 ? *left << right : 0;
        break;
    case DW_OP_shr:
        *left = right < 64 ? *left >> right : 0;
        break;
    case DW_OP_eq:
        *left = left_signed == right_signed;
        break;
    case DW_OP_ne:
        *left = left_signed != right_signed;
        break;
    case DW_OP_lt:
        *left = left_signed < right_signed;
        break;
    case DW_OP_le:
        *left = left_signed <= right_signed;
        break;
    case DW_OP_gt:
        *left = left_signed > right_signed;
        break;
    case DW_OP_ge:
        *left = left_signed >= right_signed;
        break;
    default:
        return false;
    }
    return true;
}

/* Carries out one operation of an expression; false where it is not supported or its operands are
 * not known. Only operations that unwind tables use are here. */
static bool operate(struct machine *machine, const struct col_unwind_op *op)
{
    uint8_t atom = op->atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
        return push(machine, (uint64_t)(atom - DW_OP_lit0));
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
        return push_register(machine, (uint64_t)(atom - DW_OP_breg0), op->number);
    switch (atom) {
    case DW_OP_bregx:
        return push_register(machine, op->number, op->number2);
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
        return push(machine, op->number); /* libdw has extended the sign */
    case DW_OP_call_frame_cfa:
        return push(machine, machine->cfa);
    case DW_OP_nop:
        return true;
    case DW_OP_dup:
        return machine->depth && push(machine, machine->stack[machine->depth - 1]);
    case DW_OP_over:
        return machine->depth > 1 && push(machine, machine->stack[machine->depth - 2]);
    case DW_OP_drop:
        return machine->depth && machine->depth--;
    case DW_OP_plus_uconst:
        return machine->depth && ((machine->stack[machine->depth - 1] += op->number), true);
    case DW_OP_deref:
        return machine->depth && read_word(machine->sample, machine->stack[machine->depth - 1],
                                           &machine->stack[machine->depth - 1]);
    default:
        return binary(machine, atom);
    }
}

/* Evaluates an expression; false where it needs a value that is not known. */
static bool evaluate(const struct sample *sample, const struct frame *frame, uint64_t cfa,
                     const struct col_unwind_rows *rows, int32_t index, uint64_t *value)
{
    struct machine machine = {.sample = sample, .frame = frame, .cfa = cfa};
    size_t count;
    const struct col_unwind_op *ops = col_unwind_rows_expression(rows, index, &count);
    for (size_t i = 0; i < count; i++)
        if (!operate(&machine, &ops[i]))
            return false;
    if (!machine.depth)
        return false;
    *value = machine.stack[machine.depth - 1];
    return true;
}

/* ---- one frame ---------------------------------------------------------------------------------------------------------------- */

/* Value of a register in the caller. */
static enum step restore(const struct sample *sample, const struct frame *frame,
                         const struct col_unwind_rows *rows, uint64_t cfa,
                         const struct col_unwind_rule *rule, uint64_t *value)
{
    uint64_t place = cfa + (uint64_t)(int64_t)rule->value;
    switch ((enum col_unwind_kind)rule->kind) {
    case COL_UNWIND_IS:
        *value = place;
        return STEP_ON;
    case COL_UNWIND_COPY:
        *value = frame->reg[rule->value];
        return frame->known >> rule->value & 1 ? STEP_ON : STEP_WRONG;
    case COL_UNWIND_IS_EXPR:
        return evaluate(sample, frame, cfa, rows, rule->value, value) ? STEP_ON : STEP_WRONG;
    case COL_UNWIND_SAVED_EXPR:
        if (!evaluate(sample, frame, cfa, rows, rule->value, &place))
            return STEP_WRONG;
        break;
    case COL_UNWIND_SAVED_AT:
        break;
    }
    if (read_word(sample, place, value))
        return STEP_ON;
    return place < sample->base ? STEP_FREED : STEP_OUTSIDE;
}

/* Is this row part of the end of a function, after registers were popped? The row before it has a
 * frame that reaches further down. */
static bool is_after_pop(struct col_unwind_rows *rows, struct col_unwind_row row)
{
    const struct col_unwind_row *before =
        row.begin ? col_unwind_rows_at(rows, row.begin - 1) : NULL;
    return before && !before->none && !before->cfa_expression && !row.cfa_expression &&
           row.cfa_register == COL_UNWIND_RSP &&
           (before->cfa_register != COL_UNWIND_RSP || before->cfa_value > row.cfa_value);
}

/* The canonical frame address of a row; false where a register or value it needs is not known. */
static bool find_cfa(const struct sample *sample, const struct frame *frame,
                     const struct col_unwind_rows *rows, const struct col_unwind_row *row,
                     uint64_t *cfa)
{
    if (row->cfa_expression)
        return evaluate(sample, frame, 0, rows, row->cfa_value, cfa);
    if (!(frame->known >> row->cfa_register & 1))
        return false;
    *cfa = frame->reg[row->cfa_register] + (uint64_t)(int64_t)row->cfa_value;
    return true;
}

/* Replaces a frame by its caller, by the row of the tables for its address. Changes the frame only
 * where the result is STEP_ON. A caller whose frame does not lie further out is rejected: that
 * would be an endless loop. */
static enum step step(const struct sample *sample, struct frame *frame)
{
    struct frame caller = *frame;
    uint64_t pc = frame->reg[COL_UNWIND_RIP] - !frame->exact, cfa;
    struct col_mapping *mapping = col_mappings_find(sample->unwind->maps, sample->pid, pc);
    struct col_unwind_rows *rows = mapping ? rows_of(sample->unwind, sample->pid, mapping) : NULL;
    uint64_t address =
        rows ? col_unwind_rows_address(rows, pc - mapping->start + mapping->offset) : UINT64_MAX;
    const struct col_unwind_row *row =
        address != UINT64_MAX ? col_unwind_rows_at(rows, address) : NULL;
    if (!row || row->none)
        return STEP_BLIND;
    if (row->lost >> COL_UNWIND_RIP & 1)
        return STEP_LAST;
    if (!find_cfa(sample, frame, rows, row, &cfa) ||
        (!row->signal && cfa <= frame->reg[COL_UNWIND_RSP]))
        return STEP_WRONG;
    caller.reg[COL_UNWIND_RSP] = cfa;
    caller.known = (frame->known & ~row->lost) | 1u << COL_UNWIND_RSP;
    caller.known &= ~(1u << COL_UNWIND_RIP);
    uint32_t freed = 0;
    for (unsigned i = 0; i < row->rules; i++) {
        const struct col_unwind_rule *rule = &row->rule[i];
        enum step found = restore(sample, frame, rows, cfa, rule, &caller.reg[rule->reg]);
        if (found != STEP_ON && rule->reg == COL_UNWIND_RIP)
            return found == STEP_FREED ? STEP_WRONG : found;
        freed |= (uint32_t)(found == STEP_FREED) << rule->reg;
        caller.known =
            found == STEP_ON ? caller.known | 1u << rule->reg : caller.known & ~(1u << rule->reg);
    }
    if (!(caller.known >> COL_UNWIND_RIP & 1))
        return STEP_WRONG;
    if (!caller.reg[COL_UNWIND_RIP])
        return STEP_ZERO;
    caller.exact = row->signal;
    if (freed && frame->exact && is_after_pop(rows, *row)) /* popped registers have their values */
        caller.known |= frame->known & freed;
    *frame = caller;
    return STEP_ON;
}

/* ---- code without tables ------------------------------------------------------------------------------------------------------ */

/* The caller of a frame, if the word at `place` is its return address and `rbp` its frame pointer.
 */
static struct frame guessed(const struct frame *frame, uint64_t place, uint64_t address,
                            uint64_t rbp)
{
    struct frame caller = *frame;
    caller.reg[COL_UNWIND_RIP] = address;
    caller.reg[COL_UNWIND_RSP] = place + sizeof address;
    caller.reg[COL_UNWIND_RBP] = rbp;
    caller.known = 1u << COL_UNWIND_RIP | 1u << COL_UNWIND_RSP | 1u << COL_UNWIND_RBP;
    caller.exact = false;
    return caller;
}

/* Passes a trampoline, which has one word below its return address: padding that aligns the stack,
 * or the caller's frame pointer. */
static bool pass_trampoline(const struct sample *sample, struct frame *frame)
{
    uint64_t place = frame->reg[COL_UNWIND_RSP], word, address;
    if (frame->exact || !read_word(sample, place, &word) ||
        !read_word(sample, place + sizeof word, &address) || !call_before(sample, address))
        return false;
    *frame = guessed(frame, place + sizeof word, address,
                     frame->reg[COL_UNWIND_RBP] == place ? word : frame->reg[COL_UNWIND_RBP]);
    return true;
}

/* How many frames do the tables lead on from a guessed frame, with a call before every return
 * address? UINT_MAX: to the outermost one. 0: the guess is wrong. Where the stack continues beyond
 * the copied bytes, the frames within them count. A guess that is the outermost frame itself may be
 * a stale word in the room of the function, so it counts as the least that is believed; it is wrong
 * where only a 0 says that it is the outermost one, because rooms are full of zeros. */
static unsigned leads_on(const struct sample *sample, struct frame frame, unsigned most)
{
    for (unsigned frames = 0; frames < most; frames++) {
        enum step next = step(sample, &frame);
        if (next == STEP_ZERO && frames < TRIAL_LEAST)
            return 0;
        if (next == STEP_LAST || next == STEP_ZERO)
            return frames ? UINT_MAX : TRIAL_LEAST;
        if (next == STEP_OUTSIDE)
            return sample->full && frames >= TRIAL_LEAST ? frames : 0;
        if (next == STEP_WRONG || (next == STEP_BLIND && !pass_trampoline(sample, &frame)))
            return 0;
        struct col_mapping *mapping = next == STEP_ON
                                          ? col_mappings_find(sample->unwind->maps, sample->pid,
                                                              frame.reg[COL_UNWIND_RIP] - 1)
                                          : NULL;
        if (next == STEP_ON &&
            (!mapping || (rows_of(sample->unwind, sample->pid, mapping) && !frame.exact &&
                          !call_before(sample, frame.reg[COL_UNWIND_RIP]))))
            return 0;
    }
    return most;
}

struct guess {
    struct frame frame;
    unsigned frames; /* that the tables lead on from it */
};

/* Tries one return address. The caller's frame pointer is unchanged, or one of the words that were
 * pushed after the return address. Keeps the best guess in *best; true: it reaches the outermost
 * frame, so no better one is possible. */
static bool try_caller(const struct sample *sample, const struct frame *frame, uint64_t place,
                       uint64_t address, struct guess *best)
{
    uint64_t rbp = frame->reg[COL_UNWIND_RBP];
    for (unsigned i = 0; i <= PUSHED_MAX; i++) {
        if (i && (place - sample->base < i * sizeof rbp ||
                  !read_word(sample, place - i * sizeof rbp, &rbp)))
            break;
        if (i && (rbp <= place || rbp - sample->base >= sample->bytes)) /* not on this stack */
            continue;
        struct guess guess = {.frame = guessed(frame, place, address, rbp)};
        if (!i && !(frame->known >> COL_UNWIND_RBP & 1))
            guess.frame.known &= ~(1u << COL_UNWIND_RBP);
        guess.frames = leads_on(sample, guess.frame, TRIAL_FRAMES);
        if (guess.frames > best->frames)
            *best = guess;
    }
    return best->frames == UINT_MAX;
}

/* Finds the caller of code without tables by search, nearest word of the stack first. Code that is
 * generated at run time is called through a pointer, so return addresses of indirect calls are
 * tried first; a direct call is possible too, of a function that ends with a jump into such code.
 * STEP_BLIND: there is none. STEP_CUT: there is none near, but the stack continues, and kernels
 * that keep a tile of a matrix on it have frames larger than what is copied. The kernel copies up
 * to a page that was never touched, of which a tile may have many: bytes without any return address
 * do not hold the outermost frame, so the stack continues there, too. */
static enum step search_caller(const struct sample *sample, struct frame *frame)
{
    uint64_t from = frame->reg[COL_UNWIND_RSP], address, second[GUESSES_MAX];
    size_t words = frame->exact ? sample->bytes / sizeof address : CALLER_WORDS, seconds = 0,
           guesses = 0;
    struct guess best = {.frames = TRIAL_LEAST - 1};
    struct frame caller = *frame;
    bool done =
        pass_trampoline(sample, &caller) && leads_on(sample, caller, TRIAL_LEAST) >= TRIAL_LEAST;
    if (done)
        best.frame = caller;
    for (size_t i = 0; !done && i < words && guesses < GUESSES_MAX &&
                       read_word(sample, from + i * sizeof address, &address);
         i++) {
        enum col_unwind_call call =
            address > UINT16_MAX ? call_before(sample, address) : COL_UNWIND_NO_CALL;
        if (call == COL_UNWIND_DIRECT && seconds < GUESSES_MAX)
            second[seconds++] = from + i * sizeof address;
        guesses += call == COL_UNWIND_INDIRECT;
        done = call == COL_UNWIND_INDIRECT &&
               try_caller(sample, frame, from + i * sizeof address, address, &best);
    }
    for (size_t i = 0; !done && i < seconds; i++)
        done = read_word(sample, second[i], &address) &&
               try_caller(sample, frame, second[i], address, &best);
    bool outside = (sample->full || !(guesses + seconds)) && frame->exact &&
                   guesses < GUESSES_MAX &&
                   col_mappings_find(sample->unwind->maps, sample->pid, frame->reg[COL_UNWIND_RIP]);
    if (!done && best.frames < TRIAL_LEAST)
        return outside ? STEP_CUT : STEP_BLIND;
    *frame = best.frame;
    return STEP_ON;
}

/* ---- a sample ----------------------------------------------------------------------------------------------------------------- */

size_t col_unwind(struct col_unwind *unwind, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS],
                  const uint8_t *stack, size_t bytes, bool full, uint64_t *ip, size_t most,
                  enum col_unwind_end *end)
{
    struct sample sample = {.unwind = unwind,
                            .pid = pid,
                            .stack = stack,
                            .base = reg[COL_UNWIND_RSP],
                            .bytes = bytes,
                            .full = full};
    struct frame frame = {.known = (1u << COL_UNWIND_REGISTERS) - 1, .exact = true};
    size_t count = 0;
    memcpy(frame.reg, reg, sizeof frame.reg);
    while (count < most) {
        uint64_t pc = frame.reg[COL_UNWIND_RIP];
        ip[count++] = pc - !frame.exact;
        enum step next = step(&sample, &frame);
        if (next == STEP_BLIND)
            next = search_caller(&sample, &frame);
        if (next == STEP_ON) {
            /* That was the frame of a signal: the kernel set its address, no call did. */
            if (frame.exact)
                ip[count - 1] = pc;
            continue;
        }
        /* A search needs some frames after the caller it finds. Near the end of the copied bytes
         * those are outside. */
        if (next == STEP_BLIND && sample.bytes &&
            frame.reg[COL_UNWIND_RSP] - sample.base > sample.bytes - sample.bytes / 4)
            next = STEP_OUTSIDE;
        *end = COL_UNWIND_STUCK;
        if (next == STEP_CUT || (next == STEP_OUTSIDE && full))
            *end = COL_UNWIND_CUT;
        if (next == STEP_LAST || next == STEP_ZERO)
            *end = COL_UNWIND_WHOLE;
        return count;
    }
    *end = COL_UNWIND_CUT;
    return count;
}

#endif
