/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/xplane/: the importer of XPlane files (.xplane.pb).
 */
#ifndef STORE_IMPORT_XPLANE_XPLANE_IMPORT_H
#define STORE_IMPORT_XPLANE_XPLANE_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_xplane;

#endif
