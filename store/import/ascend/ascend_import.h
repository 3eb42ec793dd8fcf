/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/ascend/: the importers of profiles of Ascend NPUs (torch_npu, msprof).
 */
#ifndef STORE_IMPORT_ASCEND_ASCEND_IMPORT_H
#define STORE_IMPORT_ASCEND_ASCEND_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_ascend;     /* trace_view.json, msprof_*.json */
extern const struct importer imp_ascend_csv; /* kernel_details.csv, op_summary_*.csv */

#endif
