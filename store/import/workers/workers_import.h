/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/workers/: the importer of timelines of all workers of a pipelined job,
 * as StragglerAnalysis reads them (docs/import.md, "Timelines of workers").
 */
#ifndef STORE_IMPORT_WORKERS_WORKERS_IMPORT_H
#define STORE_IMPORT_WORKERS_WORKERS_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_workers;

#endif
