/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the loader on other threads, as an edit of the graph (docs/advise.md).
 * Batches of the step's thread, or those that workers hand over, are made by N workers, at most
 * `ahead` of them before the first of those is taken:
 *
 *     begun(k)     = max(the worker is free, taken(k - ahead))
 *     made(k)      = begun(k) + worker time of batch k
 *     the step's thread has batch k at max(when it asks, made(k)) + what taking it over costs
 *
 * Workers take turns (torch: batch k is worker k mod N's), or whoever is free takes the next batch
 * (the reference engine).
 */
#ifndef ANALYZERS_WHAT_IF_LOADER_H
#define ANALYZERS_WHAT_IF_LOADER_H

#include "analyzers/graph/graph.h"

struct an_replay;
struct an_route;

/* Prepares the route. own[] of the change loses the work that moves away, and gets `hand_over`
 * (times what a batch takes to be written once), `stops` and `wake_ns` at each batch; the worker
 * time of a batch is `work_factor` of the recorded one. *out stays NULL with a reason in *why where
 * the run does not say what a batch costs. Lies in the work arena. 0 or TACHO_ENOMEM. */
struct an_route_plan {
    int64_t workers; /* 0: as many as the run has */
    int64_t ahead;   /* batches of all workers; 0: an_route_usual_ahead */
    bool whoever;    /* whoever is free takes the next batch */
    double work_factor, hand_over;
    double stops;    /* share of a batch's worker time for which the step's thread stops, too */
    int64_t wake_ns; /* added at each batch: what threads take to wake up */
};
int an_route_new(const struct an_replay *replay, const struct an_route_plan *plan, int64_t *own,
                 struct an_route **out, const char **why);
/* Batches that so many workers make ahead where an edit does not say: as the command of the engine
 * says, which takes no account of their number, or the default of PyTorch for each worker. */
int64_t an_route_usual_ahead(const struct an_context *context, int64_t workers);
/* Starts a frame. */
void an_route_begin(struct an_route *route, int64_t start);
/* Does the route take the place of an edge of this kind into node n? */
bool an_route_replaces(const struct an_route *route, const struct an_graph *graph, uint32_t node,
                       enum an_edge_kind kind);
/* When the batch that node n takes is there: `body`, or later. `start`: when the thread asks. */
int64_t an_route_release(struct an_route *route, uint32_t node, int64_t start, int64_t body);
/* ns of writing one batch, and its worker time: means. */
double an_route_write_ns(const struct an_route *route);
double an_route_batch_ns(const struct an_route *route);
/* What waking up costs a step at each batch, at worst: while a worker makes a batch, for
 * `batch_ns`, the threads of a team share a core, and two of them sleep and are woken for each
 * piece of compute.
 */
int64_t an_route_wakes_ns(const struct an_replay *replay, const struct an_route *route,
                          double batch_ns);

/* For shared cores (replay_shares.h). Number of batches; when the last replay had batch i made,
 * [*start, *end), empty for one it did not reach: returns the node that takes it. */
size_t an_route_count(const struct an_route *route);
uint32_t an_route_use(const struct an_route *route, uint32_t i, int64_t *start, int64_t *end);
/* Slowdown of all batches as they were recorded, and of batch i from now on. */
void an_route_reset_slowdown(struct an_route *route, double slowdown);
void an_route_set_slowdown(struct an_route *route, uint32_t i, double slowdown);
double an_route_slowdown(const struct an_route *route, uint32_t i);

#endif
