/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python frames of a process whose memory is the input: the walk from the runtime to names and
 * lines, with the offsets of each version; offsets that the interpreter says itself; the symbols of
 * a file that is no interpreter. The first byte says which.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "profiler/collector/python/frames.h"
#include "profiler/collector/python/interpreter.h"
#include "profiler/collector/python/labels.h"

#define BASE UINT64_C(0x10000)

static void check(int ok)
{
    if (!ok)
        abort();
}

struct memory {
    const uint8_t *data;
    size_t size;
};

static int read_memory(void *ctx, uint64_t address, void *to, size_t bytes)
{
    const struct memory *memory = ctx;
    if (address < BASE || address - BASE > memory->size ||
        bytes > memory->size - (size_t)(address - BASE))
        return -EFAULT;
    memcpy(to, memory->data + (address - BASE), bytes);
    return 0;
}

/* Every thread, every frame, every label. */
static void walk(const struct col_python *python, const uint8_t *data, size_t size)
{
    struct memory memory = {data, size};
    const struct col_python_memory by = {read_memory, &memory};
    struct col_python_thread thread[COL_PYTHON_THREADS];
    struct col_python_frame frame[COL_PYTHON_DEPTH];
    /* its tables are large: made anew now and then only */
    static struct col_python_labels *labels;
    static unsigned inputs;
    if (inputs++ % 1000 == 0) {
        col_python_labels_free(labels);
        labels = col_python_labels_new();
    }
    int threads = col_python_threads(python, &by, thread, COL_PYTHON_THREADS);
    check(labels && threads <= (int)COL_PYTHON_THREADS);
    for (int i = 0; i < threads; i++) {
        bool cut;
        int count = col_python_frames(python, &by, &thread[i], frame, &cut);
        check(count <= (int)COL_PYTHON_DEPTH);
        for (int k = 0; k < count; k++) {
            int32_t label = col_python_label(labels, 1, python, &by, &frame[k]);
            check(label < (int32_t)col_python_labels_count(labels));
            if (label >= 0)
                check(strchr(col_python_label_text(labels, (uint32_t)label), '(') != NULL);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct col_python python = {.runtime = BASE};
    struct col_python_file file;
    uint64_t words[COL_PYTHON_WORDS] = {0};
    if (size < 16)
        return 0;
    unsigned which = data[0] % 8;
    memcpy(&python.code_type, data + 8, sizeof python.code_type);
    data += 16;
    size -= 16;
    if (which == 7) {
        char path[64];
        int fd = fuzz_file(data, size, path);
        col_python_file_read(fd, &file);
        close(fd);
        return 0;
    }
    python.version = 0x0309 + which;
    if (!col_python_layout_of(python.version, &python.layout)) {
        memcpy(words, data, size < sizeof words ? size : sizeof words);
        if (col_python_layout_read(python.version, words, COL_PYTHON_WORDS, &python.layout))
            return 0;
    }
    walk(&python, data, size);
    return 0;
}
