/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwinding by compiled rows, against what libdw itself finds from the same registers and the same
 * bytes: this program is interrupted by a timer inside functions of every kind. Code without tables
 * and code of the kernel, which libdw cannot pass, must lead to the function that called it.
 */
#include <setjmp.h> /* before cmocka */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "profiler/collector/stacks/mappings.h"
#include "profiler/collector/stacks/unwind.h"

#ifndef COL_UNWIND_HERE

int main(void)
{
    puts("1..1\nok 1 # SKIP needs libdw, and x86-64");
    return 0;
}

#else

#include <alloca.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__clang__)
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif
#define TAKEN  24 /* samples of each function */
#define FRAMES 256
#define BELOW \
    128 /* bytes below the stack pointer that libdw may see: the red zone, which signals leave \
           alone */

static struct shot {
    uint64_t reg[COL_UNWIND_REGISTERS];
    uint8_t below[BELOW], stack[COL_UNWIND_STACK]; /* one after the other, as they lay */
    size_t bytes;
} shot[TAKEN];
static volatile sig_atomic_t shots;
static uint8_t *stack_top;
static volatile double sink = 1;

/* ---- taking samples of oneself ------------------------------------------------------------------------------------------------ */

/* Reads what a sanitizer keeps between variables, too. */
__attribute__((no_sanitize("address"))) static void
copy_stack(uint8_t *to, const volatile uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

static void on_timer(int number, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    static const int order[COL_UNWIND_REGISTERS] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
        REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    (void)number, (void)info;
    if (shots == TAKEN)
        return;
    struct shot *x = &shot[shots];
    for (int i = 0; i < COL_UNWIND_REGISTERS; i++)
        x->reg[i] = (uint64_t)u->uc_mcontext.gregs[order[i]];
    const uint8_t *sp = (const uint8_t *)(uintptr_t)x->reg[COL_UNWIND_RSP];
    x->bytes =
        (size_t)(stack_top - sp) < sizeof x->stack ? (size_t)(stack_top - sp) : sizeof x->stack;
    copy_stack(x->below, sp - BELOW, BELOW);
    copy_stack(x->stack, sp, x->bytes);
    shots++;
}

static void set_timer(long us)
{
    struct itimerval every = {.it_interval.tv_usec = us, .it_value.tv_usec = us};
    assert_int_equal(setitimer(ITIMER_PROF, &every, NULL), 0);
}

static bool more(void)
{
    return shots < TAKEN;
}

/* ---- functions of every kind --------------------------------------------------------------------------------------------------- */

APART static void in_leaf(void)
{
    while (more())
        for (int i = 0; i < 1000; i++)
            sink = sink * 1.0000001;
}

APART static void in_callee_saved(void)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5;
    while (more()) {
        for (int i = 0; i < 50; i++) {
            a = a * 3 + (uint64_t)rand();
            b ^= a + c, c += b ^ d, d = d * 5 + e, e ^= a;
        }
        sink += (double)(a ^ b ^ c ^ d ^ e);
    }
}

APART static void in_alloca(size_t n)
{
    while (more()) {
        volatile char *p = alloca(n);
        for (size_t i = 0; i < n; i++)
            p[i] = (char)i;
        sink += p[n / 2];
        n = 64 + n % 128;
        if ((uintptr_t)&p < (uintptr_t)stack_top - 8000)
            return;
    }
}

APART static void in_many_allocas(size_t n)
{
    while (more())
        in_alloca(n++ % 300 + 16);
}

/* Vectors of 64 bytes on the stack: the frame is aligned by another register. */
APART static void in_aligned(void)
{
    volatile float v[16] __attribute__((aligned(64)));
    while (more())
        for (int i = 0; i < 16; i++)
            v[i] = (float)i + (float)rand();
    sink += v[3];
}

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    sink += 1;
    return x < y ? -1 : x > y;
}

/* Calls that come back through libc. */
APART static void in_qsort(void)
{
    int v[64];
    while (more()) {
        for (int i = 0; i < 64; i++)
            v[i] = rand();
        qsort(v, 64, sizeof *v, compare);
        sink += v[0];
    }
}

/* Short functions of a library through the PLT: some samples lie in its stubs. */
APART static void in_plt(void)
{
    char text[4] = "12";
    while (more())
        for (int i = 0; i < 100; i++) {
            text[0] = (char)('0' + i % 10);
            sink += (double)strlen(text) + (double)labs(i) + (double)atoi(text);
        }
}

APART static void in_recursion(int depth)
{
    volatile char room[32];
    room[0] = (char)depth;
    if (depth)
        in_recursion(depth - 1);
    else
        in_leaf();
    sink += room[0];
}

static void on_signal(int number)
{
    sink += number;
    in_leaf();
}

/* The timer interrupts a handler, which interrupted this. */
APART static void in_handler(void)
{
    struct sigaction a = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    sink += 1;
}

APART static void in_alloca_once(void)
{
    in_alloca(200);
    in_many_allocas(100);
}

/* Spends its time between the pop of rbp and the return. As GCC's tables do, these keep saying that
 * rbp is saved, at a place that is below the stack pointer by then.
 */
void popped(void);
__asm__(".text\n"
        ".type popped, @function\n"
        "popped:\n"
        "    .cfi_startproc\n"
        "    push %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    xor %ebp, %ebp\n"
        "    mov $20000, %ecx\n"
        "    pop %rbp\n"
        "    .cfi_def_cfa_offset 8\n"
        "1:  dec %ecx\n"
        "    jnz 1b\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size popped, . - popped\n");

/* Room of a size that is not known before: its frame is found by rbp. */
APART static void in_popped(void)
{
    volatile char *room = alloca(64 + (size_t)shots);
    room[0] = 1;
    while (more())
        popped();
    sink += room[0];
}

APART static void in_deep(void)
{
    in_recursion(20);
}

APART static void in_vdso(void)
{
    struct timespec t;
    while (more())
        for (int i = 0; i < 100; i++)
            clock_gettime(CLOCK_MONOTONIC, &t);
}

/* ---- code made at run time ------------------------------------------------------------------------------------------------------ */

static uint8_t *code;

static void emit(const uint8_t *bytes, size_t n)
{
    if (!code)
        code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0);
    assert_true(code != MAP_FAILED);
    memset(code, 0xcc, 4096);
    memcpy(code, bytes, n);
}

static void call_code(uint64_t argument)
{
    union {
        uint8_t *bytes;
        void (*function)(uint64_t);
    } u = {code};
    u.function(argument);
}

/* A kernel as oneDNN makes them: it saves what it must, takes room for itself, and uses the frame
 * pointer for other things. */
APART static void in_kernel(void)
{
    static const uint8_t kernel[] = {
        0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, /* push rbx rbp r12 r13 r14 r15
                                                                     */
        0x48, 0x81, 0xec, 0x58, 0x01, 0x00, 0x00,                   /* sub rsp, 344 */
        0x31, 0xed,                                                 /* xor ebp, ebp */
        0x48, 0xff, 0xc5, 0x48, 0xff, 0xcf, 0x75, 0xf8,             /* inc rbp; dec rdi; jnz */
        0x48, 0x81, 0xc4, 0x58, 0x01, 0x00, 0x00,                   /* add rsp, 344 */
        0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3};
    emit(kernel, sizeof kernel);
    while (more())
        call_code(1000000);
    sink += 1;
}

/* A trampoline as Python makes them: sub rsp, 8; call rdi; add rsp, 8; ret. */
APART static void in_trampoline(void)
{
    static const uint8_t trampoline[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
                                         0x48, 0x83, 0xc4, 0x08, 0xc3};
    emit(trampoline, sizeof trampoline);
    call_code((uint64_t)(uintptr_t)in_leaf);
    sink += 1;
}

/* ---- what libdw finds ------------------------------------------------------------------------------------------------------------- */

struct oracle {
    Dwfl *dwfl;
    const struct col_mappings *maps;
    const struct shot *shot;
    uint64_t ip[FRAMES];
    size_t count;
};

static int no_debug(Dwfl_Module *m, void **user, const char *module, Dwarf_Addr base,
                    const char *file, const char *link, GElf_Word crc, char **name)
{
    (void)m, (void)user, (void)module, (void)base, (void)file, (void)link, (void)crc, (void)name;
    return -1;
}

static int no_elf(Dwfl_Module *m, void **user, const char *module, Dwarf_Addr base, char **name,
                  Elf **elf)
{
    (void)m, (void)user, (void)module, (void)base, (void)name, (void)elf;
    return -1;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
    (void)dwfl;
    bool first = !*thread;
    *thread = arg;
    return first;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *to, void *arg)
{
    const struct shot *x = ((const struct oracle *)arg)->shot;
    uint64_t base = x->reg[COL_UNWIND_RSP] - BELOW;
    (void)dwfl;
    if (address < base || address - base > BELOW + x->bytes - sizeof *to)
        return false;
    memcpy(to, (const uint8_t *)x + offsetof(struct shot, below) + (address - base), sizeof *to);
    return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    Dwarf_Word reg[COL_UNWIND_REGISTERS];
    for (int i = 0; i < COL_UNWIND_REGISTERS; i++)
        reg[i] = ((const struct oracle *)arg)->shot->reg[i];
    return dwfl_thread_state_registers(thread, 0, COL_UNWIND_REGISTERS, reg);
}

static int on_frame(Dwfl_Frame *frame, void *arg)
{
    struct oracle *o = arg;
    Dwarf_Addr pc;
    bool exact;
    if (!dwfl_frame_pc(frame, &pc, &exact) || !pc || o->count == FRAMES)
        return DWARF_CB_ABORT;
    o->ip[o->count++] = exact ? pc : pc - 1;
    return DWARF_CB_OK;
}

static void oracle_open(struct oracle *o, const struct col_mappings *maps)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = no_elf, .find_debuginfo = no_debug};
    static const Dwfl_Thread_Callbacks threads = {.next_thread = next_thread,
                                                  .memory_read = read_memory,
                                                  .set_initial_registers = set_registers};
    o->dwfl = dwfl_begin(&callbacks);
    o->maps = maps;
    dwfl_report_begin(o->dwfl);
    for (size_t i = 0; i < maps->space[0].count; i++) {
        const struct col_mapping *m = &maps->space[0].at[i];
        if (m->path[0] == '/' && m->path[1] != '/')
            dwfl_report_elf(o->dwfl, m->path, m->path, -1, m->start - m->offset, false);
    }
    dwfl_report_end(o->dwfl, NULL, NULL);
    assert_true(dwfl_attach_state(o->dwfl, NULL, getpid(), &threads, o));
}

static void oracle_walk(struct oracle *o, const struct shot *x)
{
    o->shot = x;
    o->count = 0;
    dwfl_getthread_frames(o->dwfl, 1, on_frame, o);
}

/* ---- both ------------------------------------------------------------------------------------------------------------------------ */

static const char *path_at(const struct col_mappings *maps, uint64_t address)
{
    const struct col_mapping *m = col_mappings_find(maps, getpid(), address);
    return m ? m->path : "nothing";
}

static bool is_file(const char *path)
{
    return path[0] == '/' && path[1] != '/';
}

APART static void driver(void (*function)(void))
{
    function();
    sink += 1;
}

/* The end of this function's code is not known: what follows the call in it is near. */
static bool in_driver(uint64_t address)
{
    uint64_t start = (uint64_t)(uintptr_t)driver;
    return address > start && address - start < 64;
}

static void take(void (*function)(void))
{
    struct sigaction a = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGPROF, &a, NULL);
    shots = 0;
    set_timer(1000);
    driver(function);
    set_timer(0);
    assert_int_equal(shots, TAKEN);
}

/* Every sample: whole, through driver(), and as libdw says where it can. Returns how many libdw
 * compared. */
static int check(const char *name, void (*function)(void))
{
    struct col_mappings maps = {0};
    struct oracle o = {0};
    uint64_t ip[FRAMES];
    int compared = 0, inside = 0;
    take(function);
    col_mappings_learn(&maps, getpid());
    struct col_unwind *u = col_unwind_new(&maps);
    oracle_open(&o, &maps);
    for (int i = 0; i < TAKEN; i++) {
        const struct shot *x = &shot[i];
        enum col_unwind_end end;
        size_t n = col_unwind(u, getpid(), x->reg, x->stack, x->bytes, x->bytes == sizeof x->stack,
                              ip, FRAMES, &end),
               k = 0;
        assert_true(ip[0] == x->reg[COL_UNWIND_RIP]);
        while (k < n && !in_driver(ip[k]))
            k++;
        for (size_t j = 0; k == n && j < n; j++) {
            const struct col_mapping *m = col_mappings_find(&maps, getpid(), ip[j]);
            print_error("%s: sample %d, frame %zu of %zu, end %d: %s + %#zx\n", name, i, j, n,
                        (int)end, path_at(&maps, ip[j]),
                        m ? (size_t)(ip[j] - m->start + m->offset) : (size_t)ip[j]);
        }
        assert_true(k < n);
        assert_true(end == COL_UNWIND_WHOLE ||
                    (end == COL_UNWIND_CUT && x->bytes == sizeof x->stack));
        inside += k > 0;
        bool tables = true;
        for (size_t j = 0; j < n; j++)
            tables = tables && is_file(path_at(&maps, ip[j]));
        if (!tables)
            continue;
        oracle_walk(&o, x);
        compared++;
        assert_int_equal(n, o.count);
        assert_memory_equal(ip, o.ip, n * sizeof *ip);
    }
    assert_true(inside > 0);
    dwfl_end(o.dwfl);
    col_unwind_free(u);
    col_mappings_free(&maps);
    return compared;
}

static void test_functions(void **state)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } of[] = {{"leaf", in_leaf},          {"registers saved", in_callee_saved},
              {"alloca", in_alloca_once}, {"aligned", in_aligned},
              {"qsort", in_qsort},        {"PLT", in_plt},
              {"recursion", in_deep},     {"signal handler", in_handler},
              {"popped", in_popped}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int compared = check(of[i].name, of[i].function);
        printf("note: %s: %d of %d samples as libdw says\n", of[i].name, compared, TAKEN);
        assert_true(compared >= TAKEN / 2);
    }
}

static void test_without_tables(void **state)
{
    (void)state;
    check("vdso", in_vdso);
    check("kernel made at run time", in_kernel);
    check("trampoline", in_trampoline);
}

/* A kernel made at run time may keep a tile of a matrix on the stack, mostly zeros, with a stale
 * return address in it. That is no caller: the frame is larger than what was copied. */
static void test_large_room(void **state)
{
    struct col_mappings maps = {0};
    uint64_t ip[FRAMES], stale;
    enum col_unwind_end end;
    struct shot *x = shot;
    (void)state;
    take(in_kernel);
    col_mappings_learn(&maps, getpid());
    struct col_unwind *u = col_unwind_new(&maps);
    while (x < shot + TAKEN - 1 && is_file(path_at(&maps, x->reg[COL_UNWIND_RIP])))
        x++;
    assert_false(is_file(path_at(&maps, x->reg[COL_UNWIND_RIP])));
    assert_true(col_unwind(u, getpid(), x->reg, x->stack, x->bytes, false, ip, FRAMES, &end) > 1);
    stale = ip[1] + 1;
    memset(x->stack, 0, sizeof x->stack);
    memcpy(x->stack + 160, &stale, sizeof stale);
    for (int full = 0; full < 2; full++) {
        assert_int_equal(
            col_unwind(u, getpid(), x->reg, x->stack, sizeof x->stack, full, ip, FRAMES, &end), 1);
        assert_int_equal(end, full ? COL_UNWIND_CUT : COL_UNWIND_STUCK);
    }
    /* Bytes that end at a page that was never touched, before any return address, hold no outermost
     * frame. */
    memset(x->stack, 0, sizeof x->stack);
    assert_int_equal(col_unwind(u, getpid(), x->reg, x->stack, 4096, false, ip, FRAMES, &end), 1);
    assert_int_equal(end, COL_UNWIND_CUT);
    col_unwind_free(u);
    col_mappings_free(&maps);
}

/* A stack that is deeper than what was copied of it is said to be so. */
static void test_cut(void **state)
{
    struct col_mappings maps = {0};
    uint64_t ip[FRAMES];
    enum col_unwind_end end;
    (void)state;
    take(in_deep);
    col_mappings_learn(&maps, getpid());
    struct col_unwind *u = col_unwind_new(&maps);
    size_t whole =
        col_unwind(u, getpid(), shot[0].reg, shot[0].stack, shot[0].bytes, false, ip, FRAMES, &end);
    assert_int_equal(end, COL_UNWIND_WHOLE);
    size_t n = col_unwind(u, getpid(), shot[0].reg, shot[0].stack, 1024, true, ip, FRAMES, &end);
    assert_int_equal(end, COL_UNWIND_CUT);
    assert_true(n > 3 && n < whole);
    assert_int_equal(
        col_unwind(u, getpid(), shot[0].reg, shot[0].stack, shot[0].bytes, false, ip, 5, &end), 5);
    assert_int_equal(end, COL_UNWIND_CUT);
    assert_true(col_unwind(u, getpid(), shot[0].reg, shot[0].stack, 0, false, ip, FRAMES, &end) >=
                1);
    assert_int_equal(end, COL_UNWIND_STUCK);
    /* nonsense: no frames are made up, nothing is read that is not there */
    uint64_t nonsense[COL_UNWIND_REGISTERS];
    memset(nonsense, 0x5a, sizeof nonsense);
    memset(shot[0].stack, 0x5a, sizeof shot[0].stack);
    assert_int_equal(col_unwind(u, getpid(), nonsense, shot[0].stack, sizeof shot[0].stack, true,
                                ip, FRAMES, &end),
                     1);
    assert_int_equal(end, COL_UNWIND_STUCK);
    col_unwind_free(u);
    col_mappings_free(&maps);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Rows around a place of the file that were not asked for yet. Said, not judged: the machine may be
 * busy. */
static void time_rows(struct col_unwind_rows *t, uint64_t near)
{
    uint64_t at = col_unwind_rows_address(t, near + 16384);
    double start = now_ns();
    for (int i = 0; i < 1000; i++)
        col_unwind_rows_at(t, at + (uint64_t)i * 61);
    double made = now_ns();
    for (int k = 0; k < 100; k++)
        for (int i = 0; i < 1000; i++)
            sink += col_unwind_rows_at(t, at + (uint64_t)i * 61)->cfa_value;
    double end = now_ns();
    printf("note: a row is made in %.2f us and found again in %.0f ns\n", (made - start) / 1e6,
           (end - made) / 1e5);
}

/* What is kept of one address says nothing wrong of another one, in whatever order they come. */
static void test_rows(void **state)
{
    struct col_mappings maps = {0};
    (void)state;
    col_mappings_learn(&maps, getpid());
    const uint64_t function[] = {(uint64_t)(uintptr_t)test_rows, (uint64_t)(uintptr_t)labs};
    uint64_t seed = 3;
    for (int f = 0; f < 2; f++) {
        const struct col_mapping *m = col_mappings_find(&maps, getpid(), function[f]);
        assert_non_null(m);
        uint64_t near = function[f] - m->start + m->offset;
        struct col_unwind_rows *all = col_unwind_rows_open(col_mapping_open(m->path, getpid()));
        int found = 0;
        for (int i = 0; i < 3000; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint64_t offset = near - (near < 8192 ? near : 8192) + (seed >> 33) % 16384;
            uint64_t at = col_unwind_rows_address(all, offset);
            if (at == UINT64_MAX)
                continue;
            struct col_unwind_row kept = *col_unwind_rows_at(all, at);
            if (i % 8 == 0) {
                struct col_unwind_rows *one =
                    col_unwind_rows_open(col_mapping_open(m->path, getpid()));
                const struct col_unwind_row *own = col_unwind_rows_at(one, at);
                assert_true(kept.start <= at && at < kept.end);
                assert_true(kept.none == own->none && kept.rules == own->rules &&
                            kept.lost == own->lost);
                assert_true(kept.cfa_expression == own->cfa_expression &&
                            kept.cfa_register == own->cfa_register);
                if (!kept.cfa_expression)
                    assert_int_equal(kept.cfa_value, own->cfa_value);
                for (unsigned k = 0; k < own->rules; k++)
                    if (own->rule[k].kind <= COL_UNWIND_COPY)
                        assert_memory_equal(&kept.rule[k], &own->rule[k], sizeof own->rule[k]);
                found += !own->none;
                col_unwind_rows_close(one);
            }
        }
        assert_true(found > 50);
        if (f)
            time_rows(all, near);
        col_unwind_rows_close(all);
    }
    col_mappings_free(&maps);
}

/* Tables of a file may lie: this program's own, with bytes turned, looked up everywhere. */
static void test_damaged_tables(void **state)
{
    static uint8_t bytes[16 << 20];
    char path[600];
    int self = open("/proc/self/exe", O_RDONLY);
    ssize_t n = read(self, bytes, sizeof bytes);
    uint64_t seed = 7;
    (void)state;
    close(self);
    assert_true(n > 4096);
    for (int round = 0; round < 40; round++) {
        snprintf(path, sizeof path, "%s/tacho-eh-%d-%d",
                 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid(), round);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (int i = 0; i < 2000; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[64 + (size_t)(seed >> 20) % ((size_t)n - 64)] ^= (uint8_t)(1u << (seed >> 61));
        }
        assert_int_equal(write(fd, bytes, (size_t)n), n);
        close(fd);
        struct col_unwind_rows *t = col_unwind_rows_open(open(path, O_RDONLY));
        assert_non_null(t);
        for (uint64_t at = 0; at < (uint64_t)n; at += 97) {
            const struct col_unwind_row *row =
                col_unwind_rows_at(t, col_unwind_rows_address(t, at));
            assert_true(row->rules <= COL_UNWIND_REGISTERS);
            col_unwind_rows_call(t, at);
        }
        col_unwind_rows_close(t);
        unlink(path);
    }
    struct col_unwind_rows *none = col_unwind_rows_open(-1);
    assert_true(col_unwind_rows_at(none, 4096)->none);
    col_unwind_rows_close(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),  cmocka_unit_test(test_without_tables),
        cmocka_unit_test(test_large_room), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_rows),       cmocka_unit_test(test_damaged_tables),
    };
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    uint64_t start, end;
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            stack_top = (uint8_t *)(uintptr_t)end;
    if (f)
        fclose(f);
#if defined(__SANITIZE_THREAD__) /* it delivers signals at its own calls only: no sample would be \
                                    of the functions here */
    puts("1..1\nok 1 # SKIP signals come late under ThreadSanitizer");
    return (void)tests, 0;
#endif
    return stack_top ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}

#endif
