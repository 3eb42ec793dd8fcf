/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/tfevents/: the importer of event files of TensorBoard.
 */
#ifndef STORE_IMPORT_TFEVENTS_TFEVENTS_IMPORT_H
#define STORE_IMPORT_TFEVENTS_TFEVENTS_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_tfevents; /* events.out.tfevents.*: scalars */

#endif
