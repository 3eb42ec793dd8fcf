/* SPDX-License-Identifier: Apache-2.0
 *
 * From an instruction of a code object to its line, by the table that the compiler left: co_lnotab
 * (Python 3.9, Objects/lnotab_notes.txt), PEP 626 (3.10), PEP 657 (from 3.11 on,
 * Objects/locations.md).
 */
#ifndef COL_PYTHON_LINES_H
#define COL_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/python/layout.h"

/* `at`: bytes from the first instruction, negative before it. Returns the line, or `first` where
 * the table does not say. The table may hold anything. */
int32_t col_python_line(enum col_python_lines format, const uint8_t *table, size_t bytes,
                        int32_t first, int64_t at);

#endif
