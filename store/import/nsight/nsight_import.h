/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/nsight/: the importer of exports of Nsight Systems.
 */
#ifndef STORE_IMPORT_NSIGHT_NSIGHT_IMPORT_H
#define STORE_IMPORT_NSIGHT_NSIGHT_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_nsight;

#endif
