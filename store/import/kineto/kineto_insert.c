/* SPDX-License-Identifier: Apache-2.0
 *
 * Inserts a batch of rows of a Kineto trace: first its definitions, then its slices and counters
 * with the ids of the store.
 */
#include <stdlib.h>

#include "store/import/kineto/kineto_insert.h"

void kineto_ids_clear(struct kineto_ids *ids)
{
    free(ids->string.id);
    free(ids->detail.id);
    free(ids->process.id);
    free(ids->track.id);
}

/* Adds the store's id of the parser's next number. */
static int numbers_add(struct kineto_ids_list *numbers, int64_t id)
{
    if (numbers->count == numbers->cap) {
        size_t cap = numbers->cap ? 2 * numbers->cap : 256;
        int64_t *larger = realloc(numbers->id, cap * sizeof *larger);
        if (!larger)
            return TACHO_ENOMEM;
        numbers->id = larger;
        numbers->cap = cap;
    }
    numbers->id[numbers->count++] = id;
    return 0;
}

/* Adds a string to the store. */
static int apply_string(store *db, struct kineto_ids *ids, const struct kineto_batch *batch,
                        const struct kineto_def *def)
{
    int64_t id;
    int status = store_string(db, kineto_batch_at(batch, def->text), def->bytes, &id);
    return status ? status : numbers_add(&ids->string, id);
}

/* Adds a detail to the store. */
static int apply_detail(store *db, struct kineto_ids *ids, const struct kineto_batch *batch,
                        const struct kineto_def *def)
{
    int64_t id;
    struct store_detail detail = def->detail;
    const char **const texts[] = {&detail.dtype,  &detail.pass,       &detail.kind,
                                  &detail.schema, &detail.collective, &detail.copy_kind,
                                  &detail.grid,   &detail.block,      &detail.payload};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = kineto_batch_at(batch, def->detail_text[i]);
    int status = store_detail_intern(db, &detail, &id);
    return status ? status : numbers_add(&ids->detail, id);
}

/* Adds a process to the store. */
static int process_add(store *db, struct kineto_ids *ids, int64_t pid)
{
    struct store_process process = {.rank = STORE_ABSENT,
                                    .pid = pid,
                                    .parent_pid = STORE_ABSENT,
                                    .start = STORE_ABSENT,
                                    .end = STORE_ABSENT,
                                    .exit_status = STORE_ABSENT};
    int status = store_process_add(db, &process);
    return status ? status : numbers_add(&ids->process, process.id);
}

/* Adds a track to the store. */
static int apply_track(store *db, struct kineto_ids *ids, const struct kineto_batch *batch,
                       const struct kineto_def *def)
{
    struct store_track track = {.process = ids->process.id[def->process],
                                .tid = def->id,
                                .kind = def->track_kind,
                                .name = kineto_batch_at(batch, def->text),
                                .device = def->device[0] ? def->device : NULL,
                                .unit = def->unit};
    int status = store_track_add(db, &track);
    return status ? status : numbers_add(&ids->track, track.id);
}

/* Adds what a batch defines: the parser's next number of a kind becomes an id. */
static int apply_def(store *db, struct kineto_ids *ids, const struct kineto_batch *batch,
                     const struct kineto_def *def)
{
    switch (def->kind) {
    case KINETO_DEF_STRING:
        return apply_string(db, ids, batch, def);
    case KINETO_DEF_DETAIL:
        return apply_detail(db, ids, batch, def);
    case KINETO_DEF_PROCESS:
        return process_add(db, ids, def->id);
    case KINETO_DEF_TRACK:
        return apply_track(db, ids, batch, def);
    }
    return TACHO_EINTERNAL;
}

/* Adds a slice to the store, with the store's ids. */
static int insert_slice(store *db, const struct kineto_ids *ids, const struct kineto_slice *slice)
{
    struct store_slice row = {
        .track = ids->track.id[slice->track],
        .start = slice->start,
        .dur = slice->dur,
        .name = ids->string.id[slice->name],
        .category = ids->string.id[slice->category],
        .detail = slice->detail == KINETO_NONE ? STORE_ABSENT : ids->detail.id[slice->detail],
        .correlation = slice->correlation};
    return store_slice_add(db, &row);
}

int kineto_insert(store *db, struct kineto_ids *ids, const struct kineto_batch *batch)
{
    int status = 0;
    if (!ids->process.count && batch->defs) /* the main process; its pid is known at the end */
        status = process_add(db, ids, STORE_ABSENT);
    for (size_t i = 0; !status && i < batch->defs; i++)
        status = apply_def(db, ids, batch, &batch->def[i]);
    for (size_t i = 0; !status && i < batch->slices; i++)
        status = insert_slice(db, ids, &batch->slice[i]);
    for (size_t i = 0; !status && i < batch->counters; i++) {
        const struct kineto_counter *counter = &batch->counter[i];
        struct store_counter row = {
            .track = ids->track.id[counter->track], .time = counter->time, .value = counter->value};
        status = store_counter_add(db, &row);
    }
    return status;
}
