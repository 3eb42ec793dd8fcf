/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/xla/: the importers of profiles of XLA (JAX, TensorFlow) as JSON
 * and of timelines of TensorFlow 1.
 */
#ifndef STORE_IMPORT_XLA_XLA_IMPORT_H
#define STORE_IMPORT_XLA_XLA_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_xla_json;    /* .trace.json.gz */
extern const struct importer imp_tf_timeline; /* of tensorflow.python.client.timeline */

#endif
