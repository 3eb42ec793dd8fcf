/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python frames of a process, read from outside while it runs: nothing is stopped, nothing is
 * written. What is read may change at any moment, so nothing of it is believed: every pointer leads
 * to memory that is read with a bound, a frame counts only if its code is an object of the type of
 * code, chains are limited, and a thread of which something is inconsistent has no sample.
 */
#ifndef COL_PYTHON_FRAMES_H
#define COL_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/python/layout.h"

#define COL_PYTHON_DEPTH   192u /* frames of a thread, innermost first; further ones are cut */
#define COL_PYTHON_THREADS 64u  /* of a process */
#define COL_PYTHON_NAME    256u /* bytes of the name of a function */
#define COL_PYTHON_FILE    1024u

/* The memory of a process: copies exactly `bytes` from `address` and returns 0, or returns a
 * negative errno. */
struct col_python_memory {
    int (*read)(void *ctx, uint64_t address, void *to, size_t bytes);
    void *ctx;
};
/* By process_vm_readv(2); ctx: an int32_t pid. */
int col_python_read_process(void *ctx, uint64_t address, void *to, size_t bytes);

/* An interpreter that was found (interpreter.h). */
struct col_python {
    unsigned version; /* major << 8 | minor */
    struct col_python_layout layout;
    uint64_t runtime, code_type; /* addresses of _PyRuntime and PyCode_Type */
};

struct col_python_frame {
    uint64_t code; /* address of its code object */
    int64_t at;    /* instruction: bytes from the first one */
};

struct col_python_thread {
    uint64_t state;   /* address of its PyThreadState */
    uint64_t pthread; /* its pthread_t */
    int32_t tid;      /* 0: Python does not say (3.9, 3.10) */
};

/* Lists the threads of all interpreters of the process. Returns how many there are, at most `most`,
 * or a negative errno. */
int col_python_threads(const struct col_python *python, const struct col_python_memory *memory,
                       struct col_python_thread *thread, size_t most);

/* Reads the frames of a thread. Returns how many, 0: it runs no Python; -EAGAIN: it changed while
 * it was read; another negative errno: its memory cannot be read. *cut: there are more. They hold
 * once col_python_code says of each that it is code. */
int col_python_frames(const struct col_python *python, const struct col_python_memory *memory,
                      const struct col_python_thread *thread,
                      struct col_python_frame frame[COL_PYTHON_DEPTH], bool *cut);

/* What a code object is made of. Two with the same words are the same code. */
struct col_python_code {
    uint64_t file, name, table;
    int32_t first_line;
};
/* 0, -EAGAIN: it is no code object; another negative errno. */
int col_python_code(const struct col_python *python, const struct col_python_memory *memory,
                    uint64_t address, struct col_python_code *code);

/* Reads a str as UTF-8, cut at a whole character where it does not fit, with control characters
 * replaced. Returns its length, or a negative errno. */
int col_python_text(const struct col_python *python, const struct col_python_memory *memory,
                    uint64_t address, char *text, size_t size);
/* Reads a bytes object, at most `most` bytes of it, into memory that the caller frees. */
int col_python_bytes(const struct col_python *python, const struct col_python_memory *memory,
                     uint64_t address, size_t most, uint8_t **data, size_t *bytes);

#endif
