/* SPDX-License-Identifier: Apache-2.0
 *
 * Inserts batches of rows of a Kineto trace into the store.
 */
#ifndef STORE_IMPORT_KINETO_KINETO_INSERT_H
#define STORE_IMPORT_KINETO_KINETO_INSERT_H

#include "store/import/kineto/kineto_rows.h"
#include "store/store.h"

/* Ids of the store by the parser's numbers. */
struct kineto_ids_list {
    int64_t *id;
    size_t count, cap;
};

struct kineto_ids {
    struct kineto_ids_list string, detail, process, track;
};

/* Inserts a batch: first its definitions, then its rows with the ids of the store. A TACHO_E*
 * code. */
int kineto_insert(store *db, struct kineto_ids *ids, const struct kineto_batch *batch);

void kineto_ids_clear(struct kineto_ids *ids);

#endif
