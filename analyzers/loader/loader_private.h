/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: the data loader. loader.c sums the ranges of tacho.range rank by rank,
 * loader_model.c derives what limits the loader (docs/loader.md has the formulas), and
 * loader_torch.c reads traces of torch.profiler.
 */
#ifndef ANALYZERS_LOADER_PRIVATE_H
#define ANALYZERS_LOADER_PRIVATE_H

#include "analyzers/steps/context.h"

#define AN_LOADER_NO_STEPS "no counted step has all its ranges in the file"

/* What is known of the loader of one rank. Sums are over `time`, the detailed steps on the host. */
struct an_loader_sums {
    const struct an_lane *lane;     /* NULL: a run without steps, all threads are one group */
    const struct an_budget *budget; /* of the lane, NULL without a lane */
    struct an_set time;             /* empty: the whole run */
    int64_t time_ns;
    int64_t count[AN_ROLE_COUNT];
    double ns[AN_ROLE_COUNT]; /* own time: without the loader stages nested in them */
    int64_t read_bytes;
    int64_t workers, processes; /* of the workers, those that are processes of their own */
    bool in_line;               /* the step's thread runs stages itself */
    bool python;                /* worker threads of a Python program: one of them runs at a time */
    double busy_ns;             /* of all workers */
    double *batch_ns; /* of each batch its stages take, grown by loader.c, which frees it */
    size_t batch_count, batch_room;
};

/* The rank that the sums are of, STORE_ABSENT: a run without steps. */
static inline int64_t an_loader_rank_of(const struct an_loader_sums *sums)
{
    return sums->lane ? sums->lane->rank : STORE_ABSENT;
}

/* Fills what follows from the sums of each rank. 0 or TACHO_ENOMEM. */
int an_loader_model(struct an_context *context, const struct an_loader_sums *sums,
                    size_t group_count);

/* A trace of torch.profiler: *found says whether it marks a loader. 0 or TACHO_ENOMEM. */
int an_loader_torch(struct an_context *context, bool *found);
/* No marker: the longest time of a step in which nothing works. 0 or TACHO_ENOMEM. */
int an_loader_infer(struct an_context *context);

/* Sets every value of the part that is not set yet to absent. */
void an_loader_rest_absent(struct an_loader *loader, const char *reason);

#endif
