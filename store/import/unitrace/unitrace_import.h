/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/unitrace/: the importer of timelines of Intel's unitrace.
 */
#ifndef STORE_IMPORT_UNITRACE_UNITRACE_IMPORT_H
#define STORE_IMPORT_UNITRACE_UNITRACE_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_unitrace;

#endif
