/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/snapshot/: the importer of pickles of PyTorch, which are memory
 * snapshots and flight recorder dumps.
 */
#ifndef STORE_IMPORT_SNAPSHOT_SNAPSHOT_IMPORT_H
#define STORE_IMPORT_SNAPSHOT_SNAPSHOT_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_snapshot;

#endif
