/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/xla/: the importer of profiles of XLA (JAX, TensorFlow) as JSON.
 */
#ifndef STORE_IMPORT_XLA_XLA_IMPORT_H
#define STORE_IMPORT_XLA_XLA_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_xla_json; /* .trace.json.gz */

#endif
