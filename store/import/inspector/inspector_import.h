/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/inspector/: the importer of dumps of the NCCL (and RCCL) Inspector.
 */
#ifndef STORE_IMPORT_INSPECTOR_INSPECTOR_IMPORT_H
#define STORE_IMPORT_INSPECTOR_INSPECTOR_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_inspector;

#endif
