/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/perfetto/: the importer of Perfetto's own format.
 */
#ifndef STORE_IMPORT_PERFETTO_PERFETTO_IMPORT_H
#define STORE_IMPORT_PERFETTO_PERFETTO_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_perfetto;

#endif
