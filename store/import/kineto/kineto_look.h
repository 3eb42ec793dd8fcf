/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/kineto/: a first look at a trace in another dialect.
 */
#ifndef STORE_IMPORT_KINETO_KINETO_LOOK_H
#define STORE_IMPORT_KINETO_KINETO_LOOK_H

#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"

/* Hands each event of phase M of the file, and of the pieces that continue it, to the dialect's
 * `look`. 0, TACHO_EINTERRUPTED, TACHO_ENOMEM or TACHO_EIO. */
int kineto_look_ahead(struct imp_run *run, kj_parser *json, const char *path,
                      const struct kineto_dialect *dialect, struct tacho_error *err);

#endif
