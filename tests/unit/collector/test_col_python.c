/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of Python from outside: tables of lines that real compilers wrote, offsets of an
 * interpreter that says them itself, and the memory of a process that is made up here, whole, torn
 * and hostile.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/python/frames.h"
#include "profiler/collector/python/labels.h"
#include "profiler/collector/python/lines.h"
#include "profiler/collector/python/look.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- lines ------------------------------------------------------------------------------------- */

struct expected {
    int64_t at;
    int32_t line;
};

static void check_lines(enum col_python_lines format, const uint8_t *table, size_t bytes,
                        const struct expected *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(col_python_line(format, table, bytes, 1, expected[i].at),
                         expected[i].line);
    /* cut short anywhere, and of noise: some line, and no reading past the end */
    for (size_t i = 0; i < bytes; i++) {
        uint8_t *cut = malloc(i + 1);
        memcpy(cut, table, i);
        col_python_line(format, cut, i, INT32_MAX, 1 << 20);
        free(cut);
    }
}

/* One function, compiled by Python 3.9, 3.10 and 3.12: a loop inside of an expression over two
 * lines, a sum over two lines, and a gap of four. What dis.findlinestarts and co_lines say. */
static void test_lines(void **state)
{
    static const uint8_t lnotab[] = {0, 1, 4, 2, 4, 1, 6, 1, 6, 255, 8, 3, 2, 1, 2, 255, 4, 5};
    static const struct expected in_39[] = {{0, 2},  {3, 2},  {4, 4},  {8, 5},  {13, 5},  {14, 6},
                                            {20, 5}, {28, 8}, {30, 9}, {32, 8}, {36, 13}, {39, 13}};
    static const uint8_t linetable[] = {4, 1, 4, 2,   6, 1, 6, 1,   6, 255,
                                        4, 8, 2, 251, 2, 1, 4, 255, 4, 5};
    static const struct expected in_310[] = {{0, 2},   {4, 4},  {8, 5},  {14, 6}, {20, 5},
                                             {26, 13}, {30, 8}, {32, 9}, {34, 8}, {38, 13}};
    static const uint8_t locations[] = {
        128, 0,  216, 8,  9,   128, 65, 225, 7,  8,   228, 22,  27,  152, 65,  147, 104, 246, 3, 1,
        13,  32, 216, 17, 18,  242, 3,  0,   14, 15,  240, 0,   1,   13,  32,  136, 1,   240, 0, 1,
        13,  32, 240, 16, 0,   12,  13, 128, 72, 240, 11,  0,   14,  15,  216, 13,  14,  241, 3, 1,
        14,  15, 136, 1,  240, 10,  0,  12,  13, 128, 72,  249, 242, 17,  1,   13,  32};
    static const struct expected in_312[] = {{0, 1},  {2, 2},  {6, 4},   {10, 6},  {29, 6},
                                             {30, 5}, {44, 6}, {46, 5},  {58, 13}, {62, 8},
                                             {64, 9}, {66, 8}, {72, 13}, {76, 1},  {80, 5}};
    (void)state;
    check_lines(COL_PYTHON_LNOTAB, lnotab, sizeof lnotab, in_39, COUNT(in_39));
    check_lines(COL_PYTHON_LINETABLE, linetable, sizeof linetable, in_310, COUNT(in_310));
    check_lines(COL_PYTHON_LOCATIONS, locations, sizeof locations, in_312, COUNT(in_312));
    assert_int_equal(col_python_line(COL_PYTHON_LOCATIONS, locations, sizeof locations, 7, -2), 7);
}

/* ---- offsets ----------------------------------------------------------------------------------- */

/* Words as 3.13 has them, each offset within what is copied of its structure. */
static void fill_words(uint64_t words[COL_PYTHON_WORDS])
{
    for (size_t i = 0; i < COL_PYTHON_WORDS; i++)
        words[i] = i % 10 * 8;
    memcpy(words, "xdebugpy", 8);
    words[1] = 0x030d00f0;
    words[2] = 0;
}

/* A process can have any number there: what would lie outside of the copy of a frame, a code object
 * or a text is no offset. */
static void test_offsets_too_large(void **state)
{
    static const struct {
        size_t word;
        uint64_t most;
    } of_copies[] = {{29, 120}, {30, 120}, {31, 120}, {33, 120}, {35, 216}, {37, 216},
                     {38, 216}, {39, 216}, {45, 216}, {68, 72},  {69, 72},  {70, 80}};
    struct col_python_layout layout;
    uint64_t words[COL_PYTHON_WORDS];
    (void)state;
    for (size_t i = 0; i < COUNT(of_copies); i++) {
        fill_words(words);
        words[of_copies[i].word] = of_copies[i].most;
        assert_null(col_python_layout_read(0x030d, words, COUNT(words), &layout));
        words[of_copies[i].word]++;
        assert_non_null(
            strstr(col_python_layout_read(0x030d, words, COUNT(words), &layout), "damaged"));
        words[of_copies[i].word] = 64000;
        assert_non_null(col_python_layout_read(0x030d, words, COUNT(words), &layout));
    }
}

static void test_offsets(void **state)
{
    struct col_python_layout layout;
    uint64_t words[COL_PYTHON_WORDS];
    (void)state;
    for (unsigned minor = 9; minor <= 14; minor++) {
        assert_null(col_python_version_refused(0x0300 | minor));
        assert_int_equal(col_python_layout_of(0x0300 | minor, &layout), minor < 13);
    }
    assert_non_null(strstr(col_python_version_refused(0x0308), "older"));
    assert_non_null(strstr(col_python_version_refused(0x030f), "newer"));
    fill_words(words);
    words[30] = 56;
    words[70] = 40;
    assert_null(col_python_layout_read(0x030d, words, COUNT(words), &layout));
    assert_int_equal(layout.frame_code, 56);
    assert_int_equal(layout.text_compact, 40 + 16);
    assert_non_null(col_python_layout_read(0x030e, words, COUNT(words), &layout));
    assert_non_null(col_python_layout_read(0x030c, words, COUNT(words), &layout));
    assert_non_null(col_python_layout_read(0x030d, words, 20, &layout));
    words[2] = 1;
    assert_non_null(
        strstr(col_python_layout_read(0x030d, words, COUNT(words), &layout), "free-threaded"));
    words[2] = 0;
    words[30] = UINT64_MAX;
    assert_non_null(
        strstr(col_python_layout_read(0x030d, words, COUNT(words), &layout), "damaged"));
    words[0] = 0;
    assert_non_null(col_python_layout_read(0x030d, words, COUNT(words), &layout));
}

/* ---- a process --------------------------------------------------------------------------------- */

#define BASE  UINT64_C(0x10000)
#define BYTES 0x8000u

/* Memory of an interpreter of 3.12: where its parts are. */
enum {
    RUNTIME = 0,
    CODE_TYPE = 0x400,
    INTERPRETER = 0x800,
    THREAD = 0x1000,
    CFRAME = 0x1200,
    CODE = 0x2000,
    NAME = 0x2200,
    FILE_NAME = 0x2300,
    TABLE = 0x2400,
    FRAMES = 0x3000,
};

struct process {
    uint8_t memory[BYTES];
    struct col_python python;
    struct col_python_memory by;
    struct col_python_thread thread;
    unsigned reads;
};

static int read_memory(void *ctx, uint64_t address, void *to, size_t bytes)
{
    struct process *process = ctx;
    process->reads++;
    if (address < BASE || address - BASE > BYTES || bytes > BYTES - (address - BASE))
        return -EFAULT;
    memcpy(to, process->memory + (address - BASE), bytes);
    return 0;
}

static void put(struct process *process, size_t at, uint64_t word)
{
    memcpy(process->memory + at, &word, sizeof word);
}

static void put_text(struct process *process, size_t at, const char *text)
{
    put(process, at + process->python.layout.text_length, strlen(text));
    process->memory[at + process->python.layout.text_state] = 1 << 2 | 1 << 5 | 1 << 6;
    memcpy(process->memory + at + process->python.layout.text_ascii, text, strlen(text) + 1);
}

/* Frame i; frame 0 is the innermost. The last one is the interpreter's own. */
static void put_frame(struct process *process, size_t i, size_t last)
{
    const struct col_python_layout *layout = &process->python.layout;
    size_t at = FRAMES + 0x80 * i;
    put(process, at + layout->frame_back, i < last ? BASE + at + 0x80 : 0);
    put(process, at + layout->frame_code, BASE + CODE);
    put(process, at + layout->frame_at, BASE + CODE + layout->code_bytes + 6);
    process->memory[at + layout->frame_owner] = i == last ? 3 : 0;
}

static struct process *make_process(size_t frames)
{
    struct process *process = calloc(1, sizeof *process);
    struct col_python_layout *layout = &process->python.layout;
    assert_true(col_python_layout_of(0x030c, layout));
    process->python.version = 0x030c;
    process->python.runtime = BASE + RUNTIME;
    process->python.code_type = BASE + CODE_TYPE;
    process->by = (struct col_python_memory){read_memory, process};
    put(process, RUNTIME + layout->interpreters, BASE + INTERPRETER);
    put(process, INTERPRETER + layout->threads, BASE + THREAD);
    put(process, THREAD + layout->native_id, 4711);
    put(process, THREAD + layout->frame, BASE + CFRAME);
    put(process, CFRAME + layout->cframe_frame, BASE + FRAMES);
    put(process, CODE + layout->type, BASE + CODE_TYPE);
    put(process, CODE + layout->code_name, BASE + NAME);
    put(process, CODE + layout->code_file, BASE + FILE_NAME);
    put(process, CODE + layout->code_table, BASE + TABLE);
    process->memory[CODE + layout->code_line] = 10;
    put_text(process, NAME, "Trainer.augment");
    put_text(process, FILE_NAME, "/data/me/train.py");
    put(process, TABLE + layout->bytes_size, 4);
    /* 2 instructions without a line, then 2 of the line after the first */
    memcpy(process->memory + TABLE + layout->bytes_data, "\xf9\xd9\x00\x00", 4);
    for (size_t i = 0; i <= frames; i++)
        put_frame(process, i, frames);
    assert_int_equal(col_python_threads(&process->python, &process->by, &process->thread, 1), 1);
    return process;
}

static int frames_of(struct process *process, struct col_python_frame *frame, bool *cut)
{
    return col_python_frames(&process->python, &process->by, &process->thread, frame, cut);
}

static void test_frames(void **state)
{
    struct process *process = make_process(3);
    struct col_python_labels *labels = col_python_labels_new();
    struct col_python_frame frame[COL_PYTHON_DEPTH];
    bool cut;
    (void)state;
    assert_int_equal(process->thread.tid, 4711);
    assert_int_equal(frames_of(process, frame, &cut), 3);
    assert_false(cut);
    assert_int_equal(frame[0].at, 6);
    int32_t label = col_python_label(labels, 1, &process->python, &process->by, &frame[0]);
    assert_int_equal(label, 0);
    assert_string_equal(col_python_label_text(labels, 0), "Trainer.augment (/data/me/train.py:11)");
    assert_int_equal(col_python_label(labels, 1, &process->python, &process->by, &frame[2]), 0);
    /* another code object comes to the same address */
    put_text(process, NAME + 0x80, "other");
    put(process, CODE + process->python.layout.code_name, BASE + NAME + 0x80);
    assert_int_equal(col_python_label(labels, 1, &process->python, &process->by, &frame[0]), 1);
    assert_string_equal(col_python_label_text(labels, 1), "other (/data/me/train.py:11)");
    /* and what was one is none any more */
    put(process, CODE + process->python.layout.type, BASE);
    assert_int_equal(col_python_label(labels, 1, &process->python, &process->by, &frame[0]),
                     -EAGAIN);
    col_python_labels_free(labels);
    free(process);
}

/* What a running program may leave half-written ends in an error, not in frames. */
static void test_torn(void **state)
{
    struct process *process = make_process(3);
    struct col_python_frame frame[COL_PYTHON_DEPTH];
    size_t back = FRAMES + 0x80 + process->python.layout.frame_back;
    bool cut;
    (void)state;
    put(process, back, BASE + FRAMES); /* a cycle */
    process->reads = 0;
    assert_int_equal(frames_of(process, frame, &cut), COL_PYTHON_DEPTH);
    assert_true(cut);
    assert_true(process->reads < 3 * COL_PYTHON_DEPTH);
    put(process, back, BASE + FRAMES + 3); /* no address of a frame */
    assert_int_equal(frames_of(process, frame, &cut), -EAGAIN);
    put(process, back, UINT64_C(0x7fff00000000)); /* nothing there */
    assert_int_equal(frames_of(process, frame, &cut), -EAGAIN);
    put(process, CFRAME + process->python.layout.cframe_frame, 0);
    assert_int_equal(frames_of(process, frame, &cut), 0);
    put(process, THREAD + process->python.layout.thread_next, BASE + THREAD); /* for ever */
    struct col_python_thread thread[COL_PYTHON_THREADS];
    assert_int_equal(col_python_threads(&process->python, &process->by, thread, COL_PYTHON_THREADS),
                     COL_PYTHON_THREADS);
    put(process, RUNTIME + process->python.layout.interpreters, 1);
    assert_true(col_python_threads(&process->python, &process->by, thread, 4) < 0);
    free(process);
}

/* A layout that no table of offsets gives, were its checks ever left out: nothing is read beyond
 * what was copied. */
static void test_hostile_layout(void **state)
{
    struct process *process = make_process(3);
    struct col_python_frame frame[COL_PYTHON_DEPTH];
    char text[64];
    bool cut;
    (void)state;
    process->python.layout.frame_owner = 64000;
    assert_int_equal(frames_of(process, frame, &cut), 4);
    process->python.layout.text_ascii = 65000;
    process->python.layout.text_length = 64000;
    process->python.layout.text_state = 64008;
    assert_int_equal(
        col_python_text(&process->python, &process->by, BASE + NAME, text, sizeof text), -EINVAL);
    free(process);
}

static void count_look(void *ctx, const struct col_python_look *look)
{
    (void)look;
    ++*(int *)ctx;
}

/* A program with more lines than can be told apart: samples of further ones are counted. What was
 * made up lies where it says in this process, which is the one that is looked at. */
static void test_labels_full(void **state)
{
    struct process *process = make_process(1);
    struct col_python_looker looker;
    struct col_python_frame frame = {.code = BASE + CODE, .at = -2}; /* the first line */
    int32_t label = 0;
    int taken = 0;
    (void)state;
    void *memory = mmap((void *)(uintptr_t)BASE, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != (void *)(uintptr_t)BASE)
        skip();
    assert_true(col_python_looker_open(&looker));
    looker.process[0] = (struct col_python_process){
        .pid = getpid(), .found = COL_PYTHON_FOUND, .python = process->python};
    looker.count = 1;
    memcpy(memory, process->memory, BYTES);
    col_python_looker_look(&looker, count_look, &taken);
    assert_int_equal(taken, 1);
    for (int32_t line = 1000; label >= 0; line++) {
        memcpy(process->memory + CODE + process->python.layout.code_line, &line, sizeof line);
        label = col_python_label(looker.labels, 1, &process->python, &process->by, &frame);
    }
    assert_int_equal(label, -ENOSPC);
    col_python_looker_look(&looker, count_look, &taken);
    assert_int_equal(taken, 2); /* of a line that is known */
    assert_int_equal(looker.lost, 0);
    *((uint8_t *)memory + CODE + process->python.layout.code_line) = 200;
    col_python_looker_look(&looker, count_look, &taken);
    assert_int_equal(taken, 2);
    assert_int_equal(looker.lost, 1);
    col_python_looker_close(&looker);
    munmap(memory, BYTES);
    free(process);
}

/* Names in characters of one, two and four bytes, with what would control a terminal. */
static void test_names(void **state)
{
    struct process *process = make_process(1);
    const struct col_python_layout *layout = &process->python.layout;
    static const uint16_t two[] = {0x20ac, 'x', 0x1b, 0xd800};
    static const uint32_t four[] = {0x1f600, 0x110000};
    char text[64], little[4];
    (void)state;
    process->memory[NAME + layout->text_state] = 2 << 2 | 1 << 5;
    put(process, NAME + layout->text_length, 4);
    memcpy(process->memory + NAME + layout->text_compact, two, sizeof two);
    assert_int_equal(
        col_python_text(&process->python, &process->by, BASE + NAME, text, sizeof text), 6);
    assert_string_equal(text, "\xe2\x82\xacx??");
    assert_int_equal(
        col_python_text(&process->python, &process->by, BASE + NAME, little, sizeof little), 3);
    process->memory[NAME + layout->text_state] = 4 << 2 | 1 << 5;
    put(process, NAME + layout->text_length, 2);
    memcpy(process->memory + NAME + layout->text_compact, four, sizeof four);
    assert_int_equal(
        col_python_text(&process->python, &process->by, BASE + NAME, text, sizeof text), 5);
    assert_string_equal(text, "\xf0\x9f\x98\x80?");
    process->memory[NAME + layout->text_state] = 3 << 2;
    assert_true(col_python_text(&process->python, &process->by, BASE + NAME, text, sizeof text) <
                0);
    free(process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),  cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_frames), cmocka_unit_test(test_offsets_too_large),
        cmocka_unit_test(test_torn),   cmocka_unit_test(test_hostile_layout),
        cmocka_unit_test(test_names),  cmocka_unit_test(test_labels_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
