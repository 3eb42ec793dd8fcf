/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/kineto/: the importer of traces of Kineto (torch.profiler).
 */
#ifndef STORE_IMPORT_KINETO_KINETO_IMPORT_H
#define STORE_IMPORT_KINETO_KINETO_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_kineto;

#endif
