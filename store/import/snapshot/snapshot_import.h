/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/snapshot/: the importers of memory snapshots and flight recorder
 * dumps of PyTorch.
 */
#ifndef STORE_IMPORT_SNAPSHOT_SNAPSHOT_IMPORT_H
#define STORE_IMPORT_SNAPSHOT_SNAPSHOT_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_snapshot; /* pickles of both */
extern const struct importer imp_flight;   /* flight recorder dumps as JSON */

#endif
