/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/ascend/: the importers of profiles of Ascend NPUs (torch_npu, msprof).
 */
#ifndef STORE_IMPORT_ASCEND_ASCEND_IMPORT_H
#define STORE_IMPORT_ASCEND_ASCEND_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_ascend;     /* trace_view.json, msprof_*.json */
extern const struct importer imp_ascend_csv; /* kernel_details.csv, op_summary_*.csv */

#define ASCEND_WORD_MOST 32 /* bytes of the longest of its words, or more */

/* Does a part of a timeline have a word that only torch_npu and msprof write? */
bool ascend_holds_words(const unsigned char *text, size_t bytes);
/* May a file whose first bytes have none of the words be a timeline of an NPU all the same?
 * torch_npu writes all rows of Python first, into a list, with their times as text. */
bool ascend_may_follow(const char *path, const unsigned char *head, size_t bytes);

#endif
