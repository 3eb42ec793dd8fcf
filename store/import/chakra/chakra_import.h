/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/chakra/: the importer of execution traces of Chakra (MLCommons).
 */
#ifndef STORE_IMPORT_CHAKRA_CHAKRA_IMPORT_H
#define STORE_IMPORT_CHAKRA_CHAKRA_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_chakra;

#endif
