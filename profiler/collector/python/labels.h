/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of Python frames, "function (/path/of/file.py:line)", by code object and instruction. What
 * was read of a code object is kept, because almost every sample repeats it; a program that makes
 * and drops code objects has another one at the same address, so each is compared when it is seen.
 */
#ifndef COL_PYTHON_LABELS_H
#define COL_PYTHON_LABELS_H

#include "profiler/collector/python/frames.h"

struct col_python_labels;

struct col_python_labels *col_python_labels_new(void); /* NULL: out of memory */
void col_python_labels_free(struct col_python_labels *labels);

/* The label of a frame of process pid: an index below col_python_labels_count, or -EAGAIN (the code
 * object is gone), -ENOMEM, -ENOSPC (too many different ones). */
int32_t col_python_label(struct col_python_labels *labels, int32_t pid,
                         const struct col_python *python, const struct col_python_memory *memory,
                         const struct col_python_frame *frame);
uint32_t col_python_labels_count(const struct col_python_labels *labels);
const char *col_python_label_text(const struct col_python_labels *labels, uint32_t label);

#endif
