/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/logs/: the importer of what training programs print.
 */
#ifndef STORE_IMPORT_LOGS_LOGS_IMPORT_H
#define STORE_IMPORT_LOGS_LOGS_IMPORT_H

#include "store/import/input/importer.h"

extern const struct importer imp_log; /* text: a line, or several, for each step */

#endif
