/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the CPython interpreter in a process: the program itself or a libpython that it maps, its
 * version, and the addresses of what frames.h starts from.
 */
#ifndef COL_PYTHON_INTERPRETER_H
#define COL_PYTHON_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/python/frames.h"

/* Values of symbols of an ELF file, in the order of enum col_python_symbol; 0: not there. */
enum col_python_symbol {
    COL_PYTHON_RUNTIME,   /* _PyRuntime */
    COL_PYTHON_CODE_TYPE, /* PyCode_Type */
    COL_PYTHON_VERSION,   /* Py_Version: from 3.11 on */
    COL_PYTHON_IS_310,    /* a function that came with 3.10 */
    COL_PYTHON_IS_39,     /* with 3.9 */
    COL_PYTHON_SYMBOLS,
};
struct col_python_file {
    uint64_t symbol[COL_PYTHON_SYMBOLS];
    uint64_t base; /* address of the first byte of the file as its headers have it */
};

/* Reads an ELF file, which may hold anything. False: it is no interpreter. */
bool col_python_file_read(int fd, struct col_python_file *file);

enum col_python_found {
    COL_PYTHON_NOT,     /* no Python in this process */
    COL_PYTHON_REFUSED, /* its frames cannot be read: *reason */
    COL_PYTHON_FOUND,
};

/* Looks into /proc/PID. *reason is a text that stays valid. */
enum col_python_found col_python_find(int32_t pid, struct col_python *python, const char **reason);

#endif
