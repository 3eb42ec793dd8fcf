/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/unwind.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef HAVE_DW

struct col_unwind *col_unwind_new(const struct col_mappings *maps)
{
    (void)maps;
    return NULL;
}

void col_unwind_free(struct col_unwind *u)
{
    (void)u;
}

size_t col_unwind(struct col_unwind *u, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS], const uint8_t *stack,
                  size_t bytes, uint64_t *ip, size_t most)
{
    (void)u, (void)pid, (void)reg, (void)stack, (void)bytes, (void)ip, (void)most;
    return 0;
}

void col_unwind_forget(struct col_unwind *u, int32_t pid)
{
    (void)u, (void)pid;
}

#else

#include <elfutils/libdwfl.h>

#define SPACES_MAX 64u /* processes that are kept ready to unwind: each holds the tables of its files */
#define REG_RBP    6
#define REG_RSP    7
#define REG_RIP    16

struct space {
    int32_t pid;
    Dwfl *dwfl; /* NULL: not begun, or not possible */
    bool attached, failed;
};

/* The sample that is unwound now. */
struct sample {
    struct space *space;
    const uint64_t *reg;
    const uint8_t *stack;
    size_t bytes;
    uint64_t *ip;
    size_t count, most;
    bool between; /* stopped at code without a file: reg[] are its registers */
    uint64_t next[COL_UNWIND_REGISTERS], own[COL_UNWIND_REGISTERS];
};

struct col_unwind {
    const struct col_mappings *maps;
    struct space space[SPACES_MAX];
    size_t spaces, next; /* next: the one that gives way */
    struct sample now;
};

struct col_unwind *col_unwind_new(const struct col_mappings *maps)
{
    struct col_unwind *u = calloc(1, sizeof *u);
    if (u)
        u->maps = maps;
    return u;
}

void col_unwind_free(struct col_unwind *u)
{
    for (size_t i = 0; u && i < u->spaces; i++)
        if (u->space[i].dwfl)
            dwfl_end(u->space[i].dwfl);
    free(u);
}

void col_unwind_forget(struct col_unwind *u, int32_t pid)
{
    for (size_t i = 0; u && i < u->spaces; i++)
        if (u->space[i].pid == pid) {
            if (u->space[i].dwfl)
                dwfl_end(u->space[i].dwfl);
            u->space[i] = (struct space){.pid = pid};
        }
}

/* Only what was mapped with its file counts, and only its own tables: no debug files are looked for. */
static int no_debug_file(Dwfl_Module *m, void **user, const char *module, Dwarf_Addr base, const char *file, const char *link,
                         GElf_Word crc, char **name)
{
    (void)m, (void)user, (void)module, (void)base, (void)file, (void)link, (void)crc, (void)name;
    return -1;
}

static int no_elf(Dwfl_Module *m, void **user, const char *module, Dwarf_Addr base, char **name, Elf **elf)
{
    (void)m, (void)user, (void)module, (void)base, (void)name, (void)elf;
    return -1;
}

static struct space *space_of(struct col_unwind *u, int32_t pid)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = no_elf, .find_debuginfo = no_debug_file};
    struct space *x = NULL;
    for (size_t i = 0; i < u->spaces && !x; i++)
        if (u->space[i].pid == pid)
            x = &u->space[i];
    if (!x && u->spaces < SPACES_MAX)
        x = &u->space[u->spaces++];
    if (!x) {
        x = &u->space[u->next++ % SPACES_MAX];
        if (x->dwfl)
            dwfl_end(x->dwfl);
        x->pid = 0;
    }
    if (x->pid != pid)
        *x = (struct space){.pid = pid};
    if (!x->dwfl && !x->failed && !(x->dwfl = dwfl_begin(&callbacks)))
        x->failed = true;
    return x->dwfl ? x : NULL;
}

/* Makes the file that lies at `address` known. */
static bool report(struct col_unwind *u, struct space *x, uint64_t address)
{
    struct col_mapping m;
    char path[4096 + 32];
    if (dwfl_addrmodule(x->dwfl, address))
        return true;
    if (!col_mappings_find(u->maps, x->pid, address, &m) || m.path[0] != '/' || m.path[1] == '/')
        return false;
    snprintf(path, sizeof path, "/proc/%d/root%s", x->pid, m.path);
    const char *file = access(path, R_OK) == 0 ? path : m.path;
    dwfl_report_begin_add(x->dwfl);
    bool ok = dwfl_report_elf(x->dwfl, m.path, file, -1, m.start - m.offset, false) != NULL;
    dwfl_report_end(x->dwfl, NULL, NULL);
    return ok && dwfl_addrmodule(x->dwfl, address);
}

/* ---- what libdw asks ---------------------------------------------------------------------------------------------------------- */

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
    struct space *x = *thread ? NULL : arg;
    (void)dwfl;
    *thread = arg;
    return x ? 1 : 0;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *arg)
{
    const struct sample *s = &((struct col_unwind *)arg)->now;
    uint64_t base = s->reg[REG_RSP];
    (void)dwfl;
    if (address < base || address - base > s->bytes || s->bytes - (address - base) < sizeof *result)
        return false;
    memcpy(result, s->stack + (address - base), sizeof *result);
    return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    const struct sample *s = &((struct col_unwind *)arg)->now;
    Dwarf_Word reg[COL_UNWIND_REGISTERS];
    for (int i = 0; i < COL_UNWIND_REGISTERS; i++)
        reg[i] = s->reg[i];
    return dwfl_thread_state_registers(thread, 0, COL_UNWIND_REGISTERS, reg);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
    .next_thread = next_thread, .memory_read = read_memory, .set_initial_registers = set_registers};

static int on_frame(Dwfl_Frame *frame, void *arg)
{
    struct col_unwind *u = arg;
    struct sample *s = &u->now;
    Dwarf_Addr pc;
    bool exact;
    if (!dwfl_frame_pc(frame, &pc, &exact) || !pc)
        return DWARF_CB_ABORT;
    bool known = report(u, s->space, exact ? pc : pc - 1); /* the next step asks for its tables */
    s->ip[s->count++] = pc;
    if (!known && s->count > 1) {
        s->between = true;
        for (unsigned i = 0; i < COL_UNWIND_REGISTERS; i++) {
            Dwarf_Word value = 0;
            s->next[i] = dwfl_frame_reg(frame, i, &value) == 0 ? value : 0;
        }
        return DWARF_CB_ABORT;
    }
    return s->count < s->most ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* A trampoline of Python (Python/asm_trampoline.S) calls with one word below its return address: 8 bytes that align the stack,
 * or its caller's frame pointer. Other code may look different: what is found must lie in code. */
static bool step_over(struct col_unwind *u, struct sample *s)
{
    uint64_t word[2];
    struct col_mapping m;
    uint64_t base = s->reg[REG_RSP], at = s->next[REG_RSP];
    if (at < base || at - base > s->bytes || s->bytes - (at - base) < sizeof word)
        return false;
    memcpy(word, s->stack + (at - base), sizeof word);
    if (!col_mappings_find(u->maps, s->space->pid, word[1], &m) || s->count == s->most)
        return false;
    if (s->next[REG_RBP] == at)
        s->next[REG_RBP] = word[0];
    s->next[REG_RSP] = at + sizeof word;
    s->next[REG_RIP] = word[1];
    s->stack += at + sizeof word - base;
    s->bytes -= at + sizeof word - base;
    memcpy(s->own, s->next, sizeof s->own);
    s->reg = s->own;
    s->between = false;
    return true;
}

size_t col_unwind(struct col_unwind *u, int32_t pid, const uint64_t reg[COL_UNWIND_REGISTERS], const uint8_t *stack,
                  size_t bytes, uint64_t *ip, size_t most)
{
    struct space *x = space_of(u, pid);
    if (!x || !most)
        return 0;
    u->now = (struct sample){.space = x, .reg = reg, .stack = stack, .bytes = bytes, .ip = ip, .most = most};
    if (!report(u, x, reg[REG_RIP]) && !x->attached)
        return 0; /* the first file tells which machine it is */
    if (!x->attached && !dwfl_attach_state(x->dwfl, NULL, pid, &thread_callbacks, u))
        return 0;
    x->attached = true;
    do
        dwfl_getthread_frames(x->dwfl, 1, on_frame, u);
    while (u->now.between && step_over(u, &u->now));
    return u->now.count;
}

#endif
