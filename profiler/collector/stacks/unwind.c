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
    struct col_unwind *u;
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
static struct col_unwind_rows *rows_of(struct col_unwind *u, int32_t pid, struct col_mapping *m)
{
    if (m->tables < u->files)
        return u->file[m->tables].rows;
    if (m->tables == COL_MAPPING_NO_TABLES || !col_mapping_is_file(m)) {
        m->tables = COL_MAPPING_NO_TABLES;
        return NULL;
    }
    for (size_t i = 0; i < u->files; i++)
        if (u->file[i].path == m->path)
            return u->file[m->tables = (uint32_t)i].rows;
    if (u->files == FILES_MAX)
        return NULL;
    struct col_unwind_rows *t = col_unwind_rows_open(col_mapping_open(m->path, pid));
    if (!t)
        return NULL;
    m->tables = (uint32_t)u->files;
    u->file[u->files++] = (struct file){m->path, t};
    return t;
}

/* Is there a call right before the address? */
static enum col_unwind_call call_before(const struct sample *s, uint64_t address)
{
    struct col_mapping *m = col_mappings_find(s->u->maps, s->pid, address - 1);
    struct col_unwind_rows *t = m ? rows_of(s->u, s->pid, m) : NULL;
    return t ? col_unwind_rows_call(t, address - m->start + m->offset) : COL_UNWIND_NO_CALL;
}

static bool read_word(const struct sample *s, uint64_t address, uint64_t *to)
{
    uint64_t at = address - s->base;
    if (address < s->base || at >= s->bytes || s->bytes - at < sizeof *to)
        return false;
    memcpy(to, s->stack + at, sizeof *to);
    return true;
}

/* ---- expressions (DWARF 5, section 2.5) --------------------------------------------------------------------------------------- */

struct machine {
    const struct sample *s;
    const struct frame *f;
    uint64_t cfa, stack[32];
    size_t depth;
};

static bool push(struct machine *m, uint64_t value)
{
    if (m->depth == sizeof m->stack / sizeof *m->stack)
        return false;
    m->stack[m->depth++] = value;
    return true;
}

static bool push_register(struct machine *m, uint64_t reg, uint64_t offset)
{
    return reg < COL_UNWIND_REGISTERS && m->f->known >> reg & 1 && push(m, m->f->reg[reg] + offset);
}

/* Operations on the upper two values. */
static bool binary(struct machine *m, uint8_t atom)
{
    if (m->depth < 2)
        return false;
    uint64_t b = m->stack[--m->depth], *a = &m->stack[m->depth - 1];
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

static bool operate(struct machine *m, const struct col_unwind_op *op)
{
    uint8_t a = op->atom;
    if (a >= DW_OP_lit0 && a <= DW_OP_lit31)
        return push(m, (uint64_t)(a - DW_OP_lit0));
    if (a >= DW_OP_breg0 && a <= DW_OP_breg31)
        return push_register(m, (uint64_t)(a - DW_OP_breg0), op->number);
    switch (a) {
    case DW_OP_bregx:
        return push_register(m, op->number, op->number2);
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
        return push(m, op->number); /* libdw extends signs */
    case DW_OP_call_frame_cfa:
        return push(m, m->cfa);
    case DW_OP_nop:
        return true;
    case DW_OP_dup:
        return m->depth && push(m, m->stack[m->depth - 1]);
    case DW_OP_over:
        return m->depth > 1 && push(m, m->stack[m->depth - 2]);
    case DW_OP_drop:
        return m->depth && m->depth--;
    case DW_OP_plus_uconst:
        return m->depth && ((m->stack[m->depth - 1] += op->number), true);
    case DW_OP_deref:
        return m->depth && read_word(m->s, m->stack[m->depth - 1], &m->stack[m->depth - 1]);
    default:
        return binary(m, a);
    }
}

static bool evaluate(const struct sample *s, const struct frame *f, uint64_t cfa,
                     const struct col_unwind_rows *t, int32_t index, uint64_t *value)
{
    struct machine m = {.s = s, .f = f, .cfa = cfa};
    size_t n;
    const struct col_unwind_op *op = col_unwind_rows_expression(t, index, &n);
    for (size_t i = 0; i < n; i++)
        if (!operate(&m, &op[i]))
            return false;
    if (!m.depth)
        return false;
    *value = m.stack[m.depth - 1];
    return true;
}

/* ---- one frame ---------------------------------------------------------------------------------------------------------------- */

/* Value of a register in the caller. */
static enum step restore(const struct sample *s, const struct frame *f,
                         const struct col_unwind_rows *t, uint64_t cfa,
                         const struct col_unwind_rule *x, uint64_t *value)
{
    uint64_t place = cfa + (uint64_t)(int64_t)x->value;
    switch ((enum col_unwind_kind)x->kind) {
    case COL_UNWIND_IS:
        *value = place;
        return STEP_ON;
    case COL_UNWIND_COPY:
        *value = f->reg[x->value];
        return f->known >> x->value & 1 ? STEP_ON : STEP_WRONG;
    case COL_UNWIND_IS_EXPR:
        return evaluate(s, f, cfa, t, x->value, value) ? STEP_ON : STEP_WRONG;
    case COL_UNWIND_SAVED_EXPR:
        if (!evaluate(s, f, cfa, t, x->value, &place))
            return STEP_WRONG;
        break;
    case COL_UNWIND_SAVED_AT:
        break;
    }
    return read_word(s, place, value)    ? STEP_ON
           : place >= s->base + s->bytes ? STEP_OUTSIDE
                                         : STEP_WRONG;
}

/* From a frame to its caller. On anything but STEP_ON f is as it was. */
static enum step step(const struct sample *s, struct frame *f)
{
    struct frame up = *f;
    uint64_t pc = f->reg[COL_UNWIND_RIP] - !f->exact, cfa;
    struct col_mapping *m = col_mappings_find(s->u->maps, s->pid, pc);
    struct col_unwind_rows *t = m ? rows_of(s->u, s->pid, m) : NULL;
    uint64_t address = t ? col_unwind_rows_address(t, pc - m->start + m->offset) : UINT64_MAX;
    const struct col_unwind_row *row =
        address != UINT64_MAX ? col_unwind_rows_at(t, address) : NULL;
    if (!row || row->none)
        return STEP_BLIND;
    if (row->lost >> COL_UNWIND_RIP & 1)
        return STEP_LAST;
    if (row->cfa_expression) {
        if (!evaluate(s, f, 0, t, row->cfa_value, &cfa))
            return STEP_WRONG;
    } else {
        if (!(f->known >> row->cfa_register & 1))
            return STEP_WRONG;
        cfa = f->reg[row->cfa_register] + (uint64_t)(int64_t)row->cfa_value;
    }
    if (!row->signal && cfa <= f->reg[COL_UNWIND_RSP])
        return STEP_WRONG;
    up.reg[COL_UNWIND_RSP] = cfa;
    up.known = (f->known & ~row->lost) | 1u << COL_UNWIND_RSP;
    up.known &= ~(1u << COL_UNWIND_RIP);
    for (unsigned i = 0; i < row->rules; i++) {
        const struct col_unwind_rule *x = &row->rule[i];
        enum step found = restore(s, f, t, cfa, x, &up.reg[x->reg]);
        if (found != STEP_ON && x->reg == COL_UNWIND_RIP)
            return found;
        up.known = found == STEP_ON ? up.known | 1u << x->reg : up.known & ~(1u << x->reg);
    }
    if (!(up.known >> COL_UNWIND_RIP & 1))
        return STEP_WRONG;
    if (!up.reg[COL_UNWIND_RIP])
        return STEP_LAST;
    up.exact = row->signal;
    *f = up;
    return STEP_ON;
}

/* ---- code without tables ------------------------------------------------------------------------------------------------------ */

/* The caller of f, if the word at `at` is its return address and `rbp` its frame pointer. */
static struct frame guessed(const struct frame *f, uint64_t at, uint64_t address, uint64_t rbp)
{
    struct frame up = *f;
    up.reg[COL_UNWIND_RIP] = address;
    up.reg[COL_UNWIND_RSP] = at + sizeof address;
    up.reg[COL_UNWIND_RBP] = rbp;
    up.known = 1u << COL_UNWIND_RIP | 1u << COL_UNWIND_RSP | 1u << COL_UNWIND_RBP;
    up.exact = false;
    return up;
}

/* Inside a trial: trampolines have one word below their return address, to align the stack or the
 * caller's frame pointer. */
static bool pass_trampoline(const struct sample *s, struct frame *f)
{
    uint64_t at = f->reg[COL_UNWIND_RSP], word, address;
    if (f->exact || !read_word(s, at, &word) || !read_word(s, at + sizeof word, &address) ||
        !call_before(s, address))
        return false;
    *f = guessed(f, at + sizeof word, address,
                 f->reg[COL_UNWIND_RBP] == at ? word : f->reg[COL_UNWIND_RBP]);
    return true;
}

/* How many frames do the tables lead on from here, with a call before every return address?
 * UINT_MAX: to the outermost one. A stack that goes on behind the bytes counts as far as they
 * reach. */
static unsigned leads_on(const struct sample *s, struct frame f, unsigned most)
{
    for (unsigned n = 0; n < most; n++) {
        enum step next = step(s, &f);
        if (next == STEP_LAST)
            return UINT_MAX;
        if (next == STEP_OUTSIDE)
            return s->full && n >= TRIAL_LEAST ? n : 0;
        if (next == STEP_WRONG || (next == STEP_BLIND && !pass_trampoline(s, &f)))
            return 0;
        struct col_mapping *m =
            next == STEP_ON ? col_mappings_find(s->u->maps, s->pid, f.reg[COL_UNWIND_RIP] - 1)
                            : NULL;
        if (next == STEP_ON && (!m || (rows_of(s->u, s->pid, m) && !f.exact &&
                                       !call_before(s, f.reg[COL_UNWIND_RIP]))))
            return 0;
    }
    return most;
}

struct guess {
    struct frame f;
    unsigned frames; /* that it leads on */
};

/* The caller's frame pointer is where it was, or one of the words that were pushed behind the
 * return address. The best is kept in *best; true: no better one is possible. */
static bool try_caller(const struct sample *s, const struct frame *f, uint64_t at, uint64_t address,
                       struct guess *best)
{
    uint64_t rbp = f->reg[COL_UNWIND_RBP];
    for (unsigned i = 0; i <= PUSHED_MAX; i++) {
        if (i && (at - s->base < i * sizeof rbp || !read_word(s, at - i * sizeof rbp, &rbp)))
            break;
        if (i && (rbp <= at || rbp - s->base >= s->bytes)) /* not on this stack */
            continue;
        struct guess g = {.f = guessed(f, at, address, rbp)};
        if (!i && !(f->known >> COL_UNWIND_RBP & 1))
            g.f.known &= ~(1u << COL_UNWIND_RBP);
        g.frames = leads_on(s, g.f, TRIAL_FRAMES);
        if (g.frames > best->frames)
            *best = g;
    }
    return best->frames == UINT_MAX;
}

/* Code that is made at run time is called through a pointer, so what a direct call left behind on
 * the stack is the second choice: a function that ends with a jump into such code. */
static bool search_caller(const struct sample *s, struct frame *f)
{
    uint64_t from = f->reg[COL_UNWIND_RSP], address, second[GUESSES_MAX];
    size_t words = f->exact ? s->bytes / sizeof address : CALLER_WORDS, seconds = 0, guesses = 0;
    struct guess best = {.frames = TRIAL_LEAST - 1};
    struct frame up = *f;
    bool done = pass_trampoline(s, &up) && leads_on(s, up, TRIAL_LEAST) >= TRIAL_LEAST;
    if (done)
        best.f = up;
    for (size_t i = 0; !done && i < words && guesses < GUESSES_MAX &&
                       read_word(s, from + i * sizeof address, &address);
         i++) {
        enum col_unwind_call call =
            address > UINT16_MAX ? call_before(s, address) : COL_UNWIND_NO_CALL;
        if (call == COL_UNWIND_DIRECT && seconds < GUESSES_MAX)
            second[seconds++] = from + i * sizeof address;
        guesses += call == COL_UNWIND_INDIRECT;
        done = call == COL_UNWIND_INDIRECT &&
               try_caller(s, f, from + i * sizeof address, address, &best);
    }
    for (size_t i = 0; !done && i < seconds; i++)
        done = read_word(s, second[i], &address) && try_caller(s, f, second[i], address, &best);
    if (!done && best.frames < TRIAL_LEAST)
        return false;
    *f = best.f;
    return true;
}

/* ---- a sample ----------------------------------------------------------------------------------------------------------------- */

size_t col_unwind(struct col_unwind *u, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS],
                  const uint8_t *stack, size_t bytes, bool full, uint64_t *ip, size_t most,
                  enum col_unwind_end *end)
{
    struct sample s = {.u = u,
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
