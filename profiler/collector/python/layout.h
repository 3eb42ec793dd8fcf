/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the fields of CPython's structures lie, for each version. Tables of data: 3.9 to 3.12 from
 * the headers of these versions (Include/internal), which a minor version does not change after its
 * release; from 3.13 on the interpreter itself has them in memory (_Py_DebugOffsets, at the start
 * of _PyRuntime), and the table says which word of it is which field. Builds of 64 bits only.
 */
#ifndef COL_PYTHON_LAYOUT_H
#define COL_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COL_PYTHON_WORDS 128u /* of _Py_DebugOffsets, more than any version has */
/* Bytes copied of a frame, a code object and a text: no version has a field beyond them. */
#define COL_PYTHON_FRAME_BYTES 128u
#define COL_PYTHON_CODE_BYTES  224u
#define COL_PYTHON_TEXT_HEAD   80u

/* The way from a thread to its frames, and the format of the table of lines. */
enum col_python_kind {
    COL_PYTHON_FRAME_OBJECTS, /* 3.9, 3.10: PyFrameObject */
    COL_PYTHON_CFRAME,        /* 3.11, 3.12: _PyCFrame, then _PyInterpreterFrame */
    COL_PYTHON_FRAMES,        /* from 3.13 on: _PyInterpreterFrame */
};
enum col_python_lines {
    COL_PYTHON_LNOTAB,    /* 3.9 */
    COL_PYTHON_LINETABLE, /* 3.10: PEP 626 */
    COL_PYTHON_LOCATIONS, /* from 3.11 on: PEP 657 */
};

/* Offsets in bytes. name, meaning */
#define COL_PYTHON_FIELD_MAP(X) \
    X(interpreters, "_PyRuntimeState: the first interpreter") \
    X(interpreter_next, "PyInterpreterState: the next one") \
    X(threads, "PyInterpreterState: the first thread") \
    X(thread_next, "PyThreadState: the next one") \
    X(thread_id, "PyThreadState: its pthread_t") \
    X(native_id, "PyThreadState: its number in the kernel; COL_PYTHON_NONE: not there") \
    X(chunk, "PyThreadState: the memory of its frames; COL_PYTHON_NONE: not there") \
    X(frame, "PyThreadState: the innermost frame, or its _PyCFrame") \
    X(cframe_frame, "_PyCFrame: the innermost frame") \
    X(frame_back, "frame: that of the caller") \
    X(frame_code, "frame: its code object") \
    X(frame_at, "frame: the instruction, as an index (FRAME_OBJECTS) or an address") \
    X(frame_owner, "frame: who owns it; COL_PYTHON_NONE: not there") \
    X(code_file, "PyCodeObject: co_filename") \
    X(code_name, "PyCodeObject: co_qualname, else co_name") \
    X(code_line, "PyCodeObject: co_firstlineno") \
    X(code_table, "PyCodeObject: co_linetable or co_lnotab") \
    X(code_bytes, "PyCodeObject: its first instruction; COL_PYTHON_NONE: not needed") \
    X(type, "PyObject: ob_type") \
    X(bytes_size, "PyBytesObject: ob_size") \
    X(bytes_data, "PyBytesObject: ob_sval") \
    X(text_length, "PyASCIIObject: length") \
    X(text_state, "PyASCIIObject: state") X(text_ascii, "size of PyASCIIObject")

#define COL_PYTHON_NONE UINT16_MAX

struct col_python_layout {
    enum col_python_kind kind;
    enum col_python_lines lines;
    uint16_t text_compact; /* size of PyCompactUnicodeObject */
    uint8_t owner_inner;   /* frames of this owner and above are no functions: the interpreter's */
    uint8_t index_bytes;   /* of an instruction that frame_at counts */
#define COL_PYTHON_FIELD(name, meaning) uint16_t name;
    COL_PYTHON_FIELD_MAP(COL_PYTHON_FIELD)
#undef COL_PYTHON_FIELD
};

/* Is this version known? `version`: major << 8 | minor. NULL: it is; else a reason to print. */
const char *col_python_version_refused(unsigned version);
/* The layout of a version whose offsets are in the table: below 3.13. False for others. */
bool col_python_layout_of(unsigned version, struct col_python_layout *layout);
/* The layout of 3.13 and later from the first words of _PyRuntime; `count` of them are there.
 * Returns NULL, or why they cannot be used: another version than was expected, a free-threaded
 * build, offsets that cannot be right. */
const char *col_python_layout_read(unsigned version, const uint64_t *words, size_t count,
                                   struct col_python_layout *layout);

#endif
