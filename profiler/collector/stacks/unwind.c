/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/stacks/unwind.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef HAVE_DW

struct col_unwind *col_unwind_new(struct col_mappings *maps)
{
    (void)maps;
    return NULL;
}

void col_unwind_free(struct col_unwind *u)
{
    (void)u;
}

size_t col_unwind(struct col_unwind *u, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS],
                  const uint8_t *stack, size_t bytes, bool full, uint64_t *ip, size_t most,
                  enum col_unwind_end *end)
{
    (void)u, (void)pid, (void)reg, (void)stack, (void)bytes, (void)full, (void)ip, (void)most;
    *end = COL_UNWIND_STUCK;
    return 0;
}

#else

#include <dwarf.h>

#define FILES_MAX    1024u /* whose tables are kept open */
#define TRIAL_FRAMES 64u   /* that a guess is followed, at most */
#define TRIAL_LEAST  6u    /* that must follow it where the outermost one is not reached */
#define GUESSES_MAX  24u   /* of return addresses, for each frame without tables */
#define PUSHED_MAX   7u    /* words below a return address that may be the caller's frame pointer */
#define POPPED_BYTES 128u  /* below the stack pointer that the ABI leaves alone */
#define CALLER_WORDS \
    64u /* that the frame of a caller without tables may have; the innermost one may have all */

struct file {
    const char *path; /* the mapping's: compared by place */
    struct col_unwind_rows *rows;
};

struct col_unwind {
    struct col_mappings *maps;
    struct file file[FILES_MAX];
    size_t files;
};

/* What a sample holds. */
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
    bool exact;     /* rip is the next instruction; else it lies behind a call */
};

enum step {
    STEP_ON,
    STEP_LAST,    /* there is no caller */
    STEP_OUTSIDE, /* of the bytes */
    STEP_BLIND,   /* no tables */
    STEP_WRONG,
};

struct col_unwind *col_unwind_new(struct col_mappings *maps)
{
    struct col_unwind *u = calloc(1, sizeof *u);
    if (u)
        u->maps = maps;
    return u;
}

void col_unwind_free(struct col_unwind *u)
{
    for (size_t i = 0; u && i < u->files; i++)
        col_unwind_rows_close(u->file[i].rows);
    free(u);
}

/* ---- where the tables are ----------------------------------------------------------------------------------------------------- */

/* The tables of what is mapped there; NULL: it is no file. The number in the mapping spares the
 * search. */
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

static bool read_word(const struct sample *sample, uint64_t address, uint64_t *to)
{
    uint64_t at = address - sample->base;
    if (address < sample->base || at >= sample->bytes || sample->bytes - at < sizeof *to)
        return false;
    memcpy(to, sample->stack + at, sizeof *to);
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

/* Operations on the upper two values. */
static bool binary(struct machine *machine, uint8_t atom)
{
    if (machine->depth < 2)
        return false;
    uint64_t b = machine->stack[--machine->depth], *a = &machine->stack[machine->depth - 1];
    int64_t x = (int64_t)*a, y = (int64_t)b;
    switch (atom) {
    case DW_OP_and:
        *a &= b;
        return true;
    case DW_OP_or:
        *a |= b;
        return true;
    case DW_OP_xor:
        *a ^= b;
        return true;
    case DW_OP_plus:
        *a += b;
        return true;
    case DW_OP_minus:
        *a -= b;
        return true;
    case DW_OP_mul:
        *a *= b;
        return true;
    case DW_OP_shl:
        *a = b < 64 ? *a << b : 0;
        return true;
    case DW_OP_shr:
        *a = b < 64 ? *a >> b : 0;
        return true;
    case DW_OP_eq:
        *a = x == y;
        return true;
    case DW_OP_ne:
        *a = x != y;
        return true;
    case DW_OP_lt:
        *a = x < y;
        return true;
    case DW_OP_le:
        *a = x <= y;
        return true;
    case DW_OP_gt:
        *a = x > y;
        return true;
    case DW_OP_ge:
        *a = x >= y;
        return true;
    default:
        return false;
    }
}

static bool operate(struct machine *machine, const struct col_unwind_op *op)
{
    uint8_t a = op->atom;
    if (a >= DW_OP_lit0 && a <= DW_OP_lit31)
        return push(machine, (uint64_t)(a - DW_OP_lit0));
    if (a >= DW_OP_breg0 && a <= DW_OP_breg31)
        return push_register(machine, (uint64_t)(a - DW_OP_breg0), op->number);
    switch (a) {
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
        return push(machine, op->number); /* libdw extends signs */
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
        return binary(machine, a);
    }
}

static bool evaluate(const struct sample *sample, const struct frame *frame, uint64_t cfa,
                     const struct col_unwind_rows *rows, int32_t index, uint64_t *value)
{
    struct machine machine = {.sample = sample, .frame = frame, .cfa = cfa};
    size_t n;
    const struct col_unwind_op *op = col_unwind_rows_expression(rows, index, &n);
    for (size_t i = 0; i < n; i++)
        if (!operate(&machine, &op[i]))
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
                         const struct col_unwind_rule *unwind_rule, uint64_t *value)
{
    uint64_t place = cfa + (uint64_t)(int64_t)unwind_rule->value;
    switch ((enum col_unwind_kind)unwind_rule->kind) {
    case COL_UNWIND_IS:
        *value = place;
        return STEP_ON;
    case COL_UNWIND_COPY:
        *value = frame->reg[unwind_rule->value];
        return frame->known >> unwind_rule->value & 1 ? STEP_ON : STEP_WRONG;
    case COL_UNWIND_IS_EXPR:
        return evaluate(sample, frame, cfa, rows, unwind_rule->value, value) ? STEP_ON : STEP_WRONG;
    case COL_UNWIND_SAVED_EXPR:
        if (!evaluate(sample, frame, cfa, rows, unwind_rule->value, &place))
            return STEP_WRONG;
        break;
    case COL_UNWIND_SAVED_AT:
        break;
    }
    return read_word(sample, place, value)         ? STEP_ON
           : place >= sample->base + sample->bytes ? STEP_OUTSIDE
                                                   : STEP_WRONG;
}

/* From a frame to its caller. On anything but STEP_ON f is as it was. */
static enum step step(const struct sample *sample, struct frame *frame)
{
    struct frame up = *frame;
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
    if (row->cfa_expression) {
        if (!evaluate(sample, frame, 0, rows, row->cfa_value, &cfa))
            return STEP_WRONG;
    } else {
        if (!(frame->known >> row->cfa_register & 1))
            return STEP_WRONG;
        cfa = frame->reg[row->cfa_register] + (uint64_t)(int64_t)row->cfa_value;
    }
    if (!row->signal && cfa <= frame->reg[COL_UNWIND_RSP])
        return STEP_WRONG;
    up.reg[COL_UNWIND_RSP] = cfa;
    up.known = (frame->known & ~row->lost) | 1u << COL_UNWIND_RSP;
    up.known &= ~(1u << COL_UNWIND_RIP);
    for (unsigned i = 0; i < row->rules; i++) {
        const struct col_unwind_rule *unwind_rule = &row->rule[i];
        enum step found = restore(sample, frame, rows, cfa, unwind_rule, &up.reg[unwind_rule->reg]);
        if (found != STEP_ON && unwind_rule->reg == COL_UNWIND_RIP)
            return found;
        up.known = found == STEP_ON ? up.known | 1u << unwind_rule->reg
                                    : up.known & ~(1u << unwind_rule->reg);
    }
    if (!(up.known >> COL_UNWIND_RIP & 1))
        return STEP_WRONG;
    if (!up.reg[COL_UNWIND_RIP])
        return STEP_LAST;
    up.exact = row->signal;
    *frame = up;
    return STEP_ON;
}

/* ---- code without tables ------------------------------------------------------------------------------------------------------ */

/* The caller of f, if the word at `at` is its return address and `rbp` its frame pointer. */
static struct frame guessed(const struct frame *frame, uint64_t at, uint64_t address, uint64_t rbp)
{
    struct frame up = *frame;
    up.reg[COL_UNWIND_RIP] = address;
    up.reg[COL_UNWIND_RSP] = at + sizeof address;
    up.reg[COL_UNWIND_RBP] = rbp;
    up.known = 1u << COL_UNWIND_RIP | 1u << COL_UNWIND_RSP | 1u << COL_UNWIND_RBP;
    up.exact = false;
    return up;
}

/* Inside a trial: trampolines have one word below their return address, to align the stack or the
 * caller's frame pointer. */
static bool pass_trampoline(const struct sample *sample, struct frame *frame)
{
    uint64_t at = frame->reg[COL_UNWIND_RSP], word, address;
    if (frame->exact || !read_word(sample, at, &word) ||
        !read_word(sample, at + sizeof word, &address) || !call_before(sample, address))
        return false;
    *frame = guessed(frame, at + sizeof word, address,
                     frame->reg[COL_UNWIND_RBP] == at ? word : frame->reg[COL_UNWIND_RBP]);
    return true;
}

/* How many frames do the tables lead on from here, with a call before every return address?
 * UINT_MAX: to the outermost one. A stack that goes on behind the bytes counts as far as they
 * reach. */
static unsigned leads_on(const struct sample *sample, struct frame frame, unsigned most)
{
    for (unsigned n = 0; n < most; n++) {
        enum step next = step(sample, &frame);
        if (next == STEP_LAST)
            return UINT_MAX;
        if (next == STEP_OUTSIDE)
            return sample->full && n >= TRIAL_LEAST ? n : 0;
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
    unsigned frames; /* that it leads on */
};

/* The caller's frame pointer is where it was, or one of the words that were pushed behind the
 * return address. The best is kept in *best; true: no better one is possible. */
static bool try_caller(const struct sample *sample, const struct frame *frame, uint64_t at,
                       uint64_t address, struct guess *best)
{
    uint64_t rbp = frame->reg[COL_UNWIND_RBP];
    for (unsigned i = 0; i <= PUSHED_MAX; i++) {
        if (i &&
            (at - sample->base < i * sizeof rbp || !read_word(sample, at - i * sizeof rbp, &rbp)))
            break;
        if (i && (rbp <= at || rbp - sample->base >= sample->bytes)) /* not on this stack */
            continue;
        struct guess guess = {.frame = guessed(frame, at, address, rbp)};
        if (!i && !(frame->known >> COL_UNWIND_RBP & 1))
            guess.frame.known &= ~(1u << COL_UNWIND_RBP);
        guess.frames = leads_on(sample, guess.frame, TRIAL_FRAMES);
        if (guess.frames > best->frames)
            *best = guess;
    }
    return best->frames == UINT_MAX;
}

/* Code that is made at run time is called through a pointer, so what a direct call left behind on
 * the stack is the second choice: a function that ends with a jump into such code. */
static bool search_caller(const struct sample *sample, struct frame *frame)
{
    uint64_t from = frame->reg[COL_UNWIND_RSP], address, second[GUESSES_MAX];
    size_t words = frame->exact ? sample->bytes / sizeof address : CALLER_WORDS, seconds = 0,
           guesses = 0;
    struct guess best = {.frames = TRIAL_LEAST - 1};
    struct frame up = *frame;
    bool done = pass_trampoline(sample, &up) && leads_on(sample, up, TRIAL_LEAST) >= TRIAL_LEAST;
    if (done)
        best.frame = up;
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
    if (!done && best.frames < TRIAL_LEAST)
        return false;
    *frame = best.frame;
    return true;
}

/* ---- a sample ----------------------------------------------------------------------------------------------------------------- */

size_t col_unwind(struct col_unwind *u, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS],
                  const uint8_t *stack, size_t bytes, bool full, uint64_t *ip, size_t most,
                  enum col_unwind_end *end)
{
    struct sample s = {.unwind = u,
                       .pid = pid,
                       .stack = stack,
                       .base = reg[COL_UNWIND_RSP],
                       .bytes = bytes,
                       .full = full};
    struct frame f = {.known = (1u << COL_UNWIND_REGISTERS) - 1, .exact = true};
    size_t n = 0;
    memcpy(f.reg, reg, sizeof f.reg);
    while (n < most) {
        uint64_t pc = f.reg[COL_UNWIND_RIP];
        ip[n++] = pc - !f.exact;
        enum step next = step(&s, &f);
        if (next == STEP_BLIND && search_caller(&s, &f))
            next = STEP_ON;
        if (next == STEP_ON) {
            if (f.exact) /* that was the frame of a signal: the kernel set its address, nothing
                            called it */
                ip[n - 1] = pc;
            continue;
        }
        /* a caller that is looked for needs some frames behind it: near the end of the bytes they
         * are outside */
        if (next == STEP_BLIND && s.bytes && f.reg[COL_UNWIND_RSP] - s.base > s.bytes - s.bytes / 4)
            next = STEP_OUTSIDE;
        *end = next == STEP_LAST                ? COL_UNWIND_WHOLE
               : next == STEP_OUTSIDE && s.full ? COL_UNWIND_CUT
                                                : COL_UNWIND_STUCK;
        return n;
    }
    *end = COL_UNWIND_CUT;
    return n;
}

#endif
