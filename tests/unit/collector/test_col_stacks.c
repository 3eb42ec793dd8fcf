/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled call stacks: mappings that replace each other, names from this program's own symbols and
 * from maps of run-time code, files that are damaged, rows of the file and what a rolled back
 * transaction takes with it, functions of the report.
 */
#include "tests/unit/an_fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "profiler/collector/os/demangle.h"
#include "profiler/collector/stacks/mappings.h"
#include "profiler/collector/stacks/symbols.h"

/* ---- mappings ------------------------------------------------------------------------------------------------------------- */

static void map(struct col_mappings *m, int32_t pid, uint64_t start, uint64_t bytes,
                uint64_t offset, uint32_t protection, const char *path)
{
    struct {
        int32_t pid, tid;
        uint64_t address, length, offset;
        uint8_t inode[24];
        uint32_t protection, flags;
        char path[64];
    } r = {.pid = pid,
           .tid = pid,
           .address = start,
           .length = bytes,
           .offset = offset,
           .protection = protection};
    snprintf(r.path, sizeof r.path, "%s", path);
    col_mappings_add(m, (const uint8_t *)&r, sizeof r);
}

/* The file of that name with this inode. */
static void map_file(struct col_mappings *m, uint64_t start, const char *path, uint64_t inode)
{
    struct {
        int32_t pid, tid;
        uint64_t address, length, offset;
        uint32_t major, minor;
        uint64_t inode, generation;
        uint32_t protection, flags;
        char path[64];
    } r = {.pid = 7,
           .tid = 7,
           .address = start,
           .length = 0x1000,
           .protection = PROT_EXEC,
           .inode = inode};
    snprintf(r.path, sizeof r.path, "%s", path);
    col_mappings_add(m, (const uint8_t *)&r, sizeof r);
}

/* A library that was built anew is another file under the same name: it has its own tables and its
 * own names. */
static void test_replaced_file(void **state)
{
    struct col_mappings m = {0};
    struct col_symbols *s = col_symbols_new();
    (void)state;
    map_file(&m, 0x1000, "/lib/x.so", 10);
    map_file(&m, 0x2000, "/lib/x.so", 11);
    map_file(&m, 0x3000, "/lib/x.so", 10);
    const struct col_mapping *old = col_mappings_find(&m, 7, 0x1000),
                             *new = col_mappings_find(&m, 7, 0x2000);
    assert_ptr_equal(old->path, col_mappings_find(&m, 7, 0x3000)->path);
    assert_ptr_not_equal(old->path, new->path);
    assert_string_equal(old->path, new->path);
    assert_int_not_equal(col_symbols_file(s, 7, old->path, old->inode),
                         col_symbols_file(s, 7, new->path, new->inode));
    assert_int_equal(col_symbols_file(s, 7, old->path, old->inode),
                     col_symbols_file(s, 8, old->path, 10));
    col_mappings_free(&m);
    col_symbols_free(s);
}

static void lies(const struct col_mappings *m, int32_t pid, uint64_t address, const char *path,
                 uint64_t offset)
{
    const struct col_mapping *x = col_mappings_find(m, pid, address);
    if (!path) {
        assert_null(x);
        return;
    }
    assert_non_null(x);
    assert_string_equal(x->path, path);
    assert_true(address - x->start + x->offset == offset);
}

static void test_mappings(void **state)
{
    struct col_mappings m = {0};
    (void)state;
    col_mappings_drop(&m, 7); /* an exec: what comes is all there is */
    map(&m, 7, 0x1000, 0x4000, 0x100, PROT_READ | PROT_EXEC, "/a");
    map(&m, 7, 0x8000, 0x1000, 0, PROT_READ | PROT_EXEC, "/b");
    map(&m, 7, 0x6000, 0x1000, 0, PROT_READ, "/data");
    lies(&m, 7, 0x1000, "/a", 0x100);
    lies(&m, 7, 0x4fff, "/a", 0x40ff);
    lies(&m, 7, 0x5000, NULL, 0);
    lies(&m, 7, 0x6000, NULL, 0);                   /* no code */
    map(&m, 7, 0x2000, 0x1000, 0, PROT_EXEC, "/c"); /* a hole in /a */
    lies(&m, 7, 0x1fff, "/a", 0x10ff);
    lies(&m, 7, 0x2000, "/c", 0);
    lies(&m, 7, 0x3000, "/a", 0x2100);
    map(&m, 7, 0x4000, 0x4800, 0x10, PROT_EXEC,
        "/d"); /* over the end of /a and the beginning of /b */
    lies(&m, 7, 0x3fff, "/a", 0x30ff);
    lies(&m, 7, 0x4000, "/d", 0x10);
    lies(&m, 7, 0x8800, "/b", 0x800);
    map(&m, 7, 0, 0x10000, 0, PROT_EXEC, "/all");
    lies(&m, 7, 0x8800, "/all", 0x8800);
    col_mappings_fork(&m, 8, 7);
    lies(&m, 8, 0x8800, "/all", 0x8800);
    assert_int_equal(col_mappings_parent(&m, 8), 7);
    col_mappings_drop(&m, 8);
    lies(&m, 8, 0x8800, NULL, 0);
    lies(&m, 7, 0x8800, "/all", 0x8800);
    map(&m, 7, UINT64_MAX - 10, 100, 0, PROT_EXEC, "/wraps");
    lies(&m, 7, UINT64_MAX - 5, NULL, 0);
    col_mappings_add(&m, (const uint8_t *)"short", 5);
    uint64_t before = col_mappings_generation(&m, 7);
    assert_true(before && before != col_mappings_generation(&m, 8));
    map(&m, 7, 0x20000, 0x1000, 0, PROT_EXEC, "/late");
    assert_true(col_mappings_generation(&m, 7) >
                before); /* what was known of its addresses may be wrong now */
    for (int32_t pid = 100; pid < 100 + (int32_t)COL_MAPPINGS_ENDED;
         pid++) { /* ended ones stay for a while */
        col_mappings_fork(&m, pid, 7);
        assert_int_equal(col_mappings_end(&m, pid), 0);
        lies(&m, pid, 0x8800, "/all", 0x8800);
    }
    col_mappings_fork(&m, 100, 7); /* the number is given again: that one lives */
    assert_int_equal(col_mappings_end(&m, 7), 0);
    assert_int_equal(col_mappings_end(&m, 8), 101);
    lies(&m, 101, 0x8800, NULL, 0);
    lies(&m, 100, 0x8800, "/all", 0x8800);
    col_mappings_learn(&m, getpid()); /* from /proc */
    const struct col_mapping *own =
        col_mappings_find(&m, getpid(), (uint64_t)(uintptr_t)test_mappings);
    assert_non_null(own);
    assert_non_null(strstr(own->path, "test_col_stacks"));
    col_mappings_free(&m);
}

/* ---- symbols -------------------------------------------------------------------------------------------------------------- */

static struct col_symbol own_symbol(struct col_symbols *s, uint64_t address, uint32_t *file)
{
    struct col_mappings m = {0};
    col_mappings_learn(&m, getpid());
    const struct col_mapping *x = col_mappings_find(&m, getpid(), address);
    assert_non_null(x);
    *file = col_symbols_file(s, getpid(), x->path, x->inode);
    uint64_t offset = address - x->start + x->offset;
    col_mappings_free(&m);
    return col_symbols_at(s, *file, offset);
}

static void test_symbols(void **state)
{
    struct col_symbols *s = col_symbols_new();
    uint32_t file, again;
    (void)state;
    struct col_symbol x = own_symbol(s, (uint64_t)(uintptr_t)test_symbols + 1, &file);
    assert_string_equal(x.name, "test_symbols");
    assert_int_equal(*x.slot, 0);
    *x.slot = 42;
    x = own_symbol(s, (uint64_t)(uintptr_t)test_symbols, &again);
    assert_int_equal(again, file);
    assert_int_equal(*x.slot, 42); /* what the caller made of the name */
    col_symbols_forget(s);
    assert_int_equal(*own_symbol(s, (uint64_t)(uintptr_t)test_symbols, &again).slot, 0);
    assert_null(col_symbols_at(s, file, 0).name); /* the header is no function */
    assert_null(col_symbols_at(s, file, UINT64_MAX).name);
    assert_string_equal(col_symbols_file_name(s, col_symbols_file(s, 1, "/nowhere/libx.so", 0)),
                        "libx.so");
    assert_null(col_symbols_at(s, col_symbols_file(s, 1, "/nowhere/libx.so", 0), 100).name);
    assert_null(col_symbols_at(s, col_symbols_file(s, 1, "/dev/zero", 0), 100).name);
    col_symbols_free(s);
}

/* A function without a size, as crti.o's _init, ends with its section: what lies behind is not
 * called like it. */
static void test_no_size(void **state)
{
    struct col_symbols *s = col_symbols_new();
    struct col_mappings m = {0};
    unsigned inside = 0;
    (void)state;
    col_mappings_learn(&m, getpid());
    const struct col_mapping *x =
        col_mappings_find(&m, getpid(), (uint64_t)(uintptr_t)test_no_size);
    assert_non_null(x);
    uint32_t file = col_symbols_file(s, getpid(), x->path, x->inode);
    for (uint64_t at = x->offset; at < x->offset + 0x4000 && at < x->offset + (x->end - x->start);
         at++) {
        struct col_symbol y = col_symbols_at(s, file, at);
        inside += y.name && strcmp(y.name, "_init") == 0;
    }
    assert_in_range(inside, 0, 64); /* some instructions; 0: linked without it */
    col_mappings_free(&m);
    col_symbols_free(s);
}

/* Every table of a file may lie: this program's own file, cut and with bytes turned. */
static void test_damaged_files(void **state)
{
    char self[512], path[600];
    static uint8_t bytes[16 << 20];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    (void)state;
    assert_true(n > 0);
    self[n] = 0;
    int fd = open(self, O_RDONLY);
    n = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_true(n > 4096);
    uint64_t seed = 1;
    for (int round = 0; round < 200; round++) {
        snprintf(path, sizeof path, "%s/tacho-elf-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
                 round);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t keep = round % 2 ? (size_t)n : (size_t)(seed >> 33) % (size_t)n;
        uint8_t old[64];
        memcpy(old, bytes, 64);
        uint64_t tail;
        size_t section = (size_t)n - 64 * (1 + (size_t)(seed >> 40) % 30);
        memcpy(&tail, bytes + section, 8);
        if (round % 2) {
            bytes[16 + (size_t)(seed >> 35) % 48] ^= (uint8_t)(1u << (seed >> 61));
            memset(bytes + section, 0xff, 8);
        }
        assert_int_equal(write(fd, bytes, keep), (ssize_t)keep);
        memcpy(bytes, old, 64);
        memcpy(bytes + section, &tail, 8);
        close(fd);
        struct col_symbols *s = col_symbols_new();
        uint32_t file = col_symbols_file(s, getpid(), path, 0);
        for (uint64_t at = 0; at < 1 << 20; at += 4097)
            col_symbols_at(s, file, at);
        col_symbols_free(s);
        unlink(path);
    }
}

static void test_map(void **state)
{
    char path[64];
    struct col_symbols *s = col_symbols_new();
    int32_t pid = getpid();
    (void)state;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", pid);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("1000 20 py::train:/x.py\nnonsense\n2000 0 empty\n 3000 10 jit kernel <4>\n4000 10 half",
          f);
    fflush(f);
    assert_string_equal(col_symbols_in_map(s, pid, 0, 0x101f).name, "py::train:/x.py");
    assert_null(col_symbols_in_map(s, pid, 0, 0x1020).name);
    assert_null(col_symbols_in_map(s, pid, 0, 0x2000).name);
    assert_string_equal(col_symbols_in_map(s, pid, 0, 0x3004).name, "jit kernel <4>");
    assert_null(col_symbols_in_map(s, pid, 0, 0x4000).name); /* the line is not whole yet */
    fputs(" and whole\n1000 20 another\n", f);
    fclose(f);
    assert_null(
        col_symbols_in_map(s, pid, 0, 0x4000).name); /* it is not read again for every sample */
    col_symbols_look_again(s);
    assert_string_equal(col_symbols_in_map(s, pid, 0, 0x4000).name, "half and whole");
    assert_string_equal(col_symbols_in_map(s, pid, 0, 0x1000).name,
                        "another"); /* the place was used again */
    assert_string_equal(col_symbols_in_map(s, 1 << 22, pid, 0x1000).name,
                        "another"); /* a child has its parent's code */
    unlink(path);
    col_symbols_free(s);
}

static FILE *write_map(int32_t pid, char path[64])
{
    snprintf(path, 64, "/tmp/perf-%d.map", pid);
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    return f;
}

static const char *name_in_map(struct col_symbols *s, uint64_t address)
{
    col_symbols_look_again(s);
    const char *name = col_symbols_in_map(s, getpid(), 0, address).name;
    return name ? name : "none";
}

/* A map is anybody's file: in no order, with code made anew over older code, binary, without an
 * end, somebody else's. */
static void test_hostile_map(void **state)
{
    char path[64];
    struct col_symbols *s = col_symbols_new();
    (void)state;
    FILE *f = write_map(getpid(), path);
    for (uint64_t i = 5000; i-- > 0;) /* backwards, and in two portions */
        fprintf(f, "%" PRIx64 " 10 f%" PRIu64 "\n", 0x100000 + 32 * i, i);
    fflush(f);
    assert_string_equal(name_in_map(s, 0x100000 + 32 * 77 + 15), "f77");
    for (uint64_t i = 0; i < 5000; i++)
        fprintf(f, "%" PRIx64 " 10 g%" PRIu64 "\n", 0x100010 + 32 * i, i);
    fputs("200000 1000 old wide\n200800 10 old small\n200700 400 new\n", f);
    fflush(f);
    assert_string_equal(name_in_map(s, 0x100000 + 32 * 77 + 31), "g77");
    assert_string_equal(name_in_map(s, 0x100000 + 32 * 4999), "f4999");
    assert_string_equal(name_in_map(s, 0x200805), "new"); /* what was there before it is gone */
    assert_string_equal(name_in_map(s, 0x200100),
                        "old wide"); /* starts earlier, goes on around the others */
    assert_string_equal(name_in_map(s, 0x200f00), "old wide");
    fputs("ffffffffffffffff ffffffffffffffff end\n0 ffffffffffffffff all\n-1 -1 minus\n",
          f); /* sums that do not fit */
    fflush(f);
    assert_string_equal(name_in_map(s, 0x200805), "new");
    for (size_t i = 0; i < 200000;
         i++) /* a line without an end: it is given up, not read again and again */
        fputc("x\0y\xff"[i % 4], f);
    fputs("\n300000 10 behind\n", f);
    fflush(f);
    name_in_map(s, 0x300000);
    assert_string_equal(name_in_map(s, 0x100000 + 32 * 77), "f77"); /* what was known stays */
    fclose(f);
    col_symbols_free(s);
    s = col_symbols_new();
    f = write_map(getpid(), path);
    fputs("1000 10 mine\n", f);
    fclose(f);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_string_equal(name_in_map(s, 0x1000), "none");
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_string_equal(name_in_map(s, 0x1000), "mine");
    unlink(path);
    col_symbols_free(s);
}

static void demangles(const char *name, const char *want)
{
    char *text = col_demangle(name);
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static void test_names(void **state)
{
    (void)state;
    char *none = col_demangle("main");
    assert_null(none);
    none = col_demangle("_Z");
    assert_null(none);
    demangles("_ZN5outer5inner5threeEd", "outer::inner::three(double)");
    demangles("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
    demangles(
        "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
        "<alloc::string::String as core::fmt::Display>::fmt");
    demangles("_ZN4core3fmt9Formatter3pad17h0123456789abcdEgE",
              "core::fmt::Formatter::pad::h0123456789abcdEg");
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

static int64_t text(struct fixture *f, const char *t)
{
    int64_t id;
    FX(store_string(f->s, t, strlen(t), &id));
    return id;
}

static const struct an_function *function(const struct an_result *r, const char *name)
{
    for (size_t i = 0; i < r->stacks.function_count; i++)
        if (!strcmp(r->stacks.function[i].name, name))
            return &r->stacks.function[i];
    return NULL;
}

static void test_functions(void **state)
{
    struct fixture fx, *f = &fx;
    int64_t main_stack, work, again, deep, same;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "stacks", "sampled: cpu-clock, unwind tables"));
    FX(store_run_set(f->s, "stacks.period_ns", "10000000"));
    FX(store_run_set(f->s, "stacks.kernel", "sampled"));
    int64_t track = fx_track(f, f->process, "samples", "main", NULL);
    int64_t name_main = text(f, "main"), name_work = text(f, "work");
    FX(store_stack(f->s, FX_NONE, name_main, &main_stack));
    FX(store_stack(f->s, main_stack, name_work, &work));
    FX(store_stack(f->s, work, name_work, &deep)); /* it calls itself */
    FX(store_stack(f->s, main_stack, name_work, &same));
    FX(store_stack(f->s, FX_NONE, name_main, &again));
    assert_int_equal(same, work);
    assert_int_equal(again, main_stack);
    for (int i = 0; i < 10; i++)
        FX(store_sample_add(f->s, &(struct store_sample){track, FX_BASE + i,
                                                         i < 1   ? main_stack
                                                         : i < 4 ? work
                                                                 : deep}));
    const struct an_result *r = fx_analyze(f);
    assert_null(r->stacks.reason);
    assert_int_equal(r->stacks.samples.value, 10);
    assert_near(r->stacks.cpu_s.value, 0.1, 1e-12);
    assert_int_equal(function(r, "work")->self, 9);
    assert_int_equal(function(r, "work")->total, 9); /* not 15: recursion counts once */
    assert_int_equal(function(r, "main")->self, 1);
    assert_int_equal(function(r, "main")->total, 10);
    assert_string_equal(r->stacks.function[0].name, "work");
    assert_int_equal(r->stacks.flame.row_count, 4); /* CPU time, main, work, work */
    assert_int_equal(r->stacks.flame.row[0].total_ns, 100000000);
    assert_int_equal(r->stacks.flame.row[3].count, 6);
    fx_close(f);
}

static int64_t stack_of(struct fixture *f, const char *const *name)
{
    int64_t stack = FX_NONE;
    for (; *name; name++)
        FX(store_stack(f->s, stack, text(f, *name), &stack));
    return stack;
}

/* The picture has what differs between programs; a stack of nothing else still has its time. */
static void test_picture(void **state)
{
    static const char *const of[][9] = {
        {"_start", "__libc_start_main", "main", "_PyEval_EvalFrameDefault", NULL},
        {"_start", "__libc_start_main", "main", "py::a:/x.py", "_PyEval_EvalFrameDefault",
         "PyObject_Vectorcall", "py_trampoline_evaluator", "py::b:/x.py", NULL},
        {"_start", "__libc_start_main", "main", "py::a:/x.py", "_PyEval_EvalFrameDefault",
         "py::b:/x.py", NULL},
        {"__GI___clone3", "start_thread", "main", NULL},
        {"__GI___clone3", "start_thread", NULL}};
    static const struct {
        const char *name;
        uint32_t parent;
        int64_t count;
    } want[] = {{"CPU time", 0, 5}, {"main", 0, 4}, {"py::a:/x.py", 1, 2}, {"py::b:/x.py", 2, 2}};
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "stacks", "sampled: cpu-clock, unwind tables"));
    FX(store_run_set(f->s, "stacks.period_ns", "1000"));
    int64_t track = fx_track(f, f->process, "samples", "main", NULL);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        FX(store_sample_add(
            f->s, &(struct store_sample){track, FX_BASE + (int64_t)i, stack_of(f, of[i])}));
    const struct an_result *r = fx_analyze(f);
    const struct an_flame *x = &r->stacks.flame;
    assert_int_equal(x->row_count, sizeof want / sizeof *want);
    for (size_t i = 0; i < x->row_count; i++) {
        assert_string_equal(x->row[i].name, want[i].name);
        assert_int_equal(x->row[i].parent, want[i].parent);
        assert_int_equal(x->row[i].count, want[i].count);
        assert_int_equal(x->row[i].total_ns, 1000 * want[i].count);
    }
    assert_int_equal(function(r, "_start")->total, 3); /* the table has all */
    assert_int_equal(function(r, "_PyEval_EvalFrameDefault")->self, 1);
    fx_close(f);
}

static void test_none(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "stacks",
                     "not sampled: Permission denied; sysctl kernel.perf_event_paranoid=2"));
    const struct an_result *r = fx_analyze(f);
    assert_false(r->stacks.samples.valid);
    assert_string_equal(r->stacks.reason,
                        "not sampled: Permission denied; sysctl kernel.perf_event_paranoid=2");
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mappings),      cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_map),
        cmocka_unit_test(test_functions),     cmocka_unit_test(test_picture),
        cmocka_unit_test(test_none),          cmocka_unit_test(test_replaced_file),
        cmocka_unit_test(test_hostile_map),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_no_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
