/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/rocm/: the importers of captures of rocprofv3 and of the older
 * rocprof.
 */
#ifndef STORE_IMPORT_ROCM_ROCM_IMPORT_H
#define STORE_IMPORT_ROCM_ROCM_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_rocprof;     /* --output-format json */
extern const struct importer imp_rocpd;       /* --output-format rocpd */
extern const struct importer imp_rocprof_csv; /* --output-format csv */
extern const struct importer imp_rocprof_old; /* of rocprof, which rocprofv3 replaces */
extern const struct importer imp_rpd_json;    /* of rocmProfileData's rpd2tracing.py */

#endif
