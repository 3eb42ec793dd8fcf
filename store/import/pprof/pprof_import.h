/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/pprof/: the importer of profiles of pprof.
 */
#ifndef STORE_IMPORT_PPROF_PPROF_IMPORT_H
#define STORE_IMPORT_PPROF_PPROF_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_pprof;

#endif
