/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to planner/: how long communication takes, by latency and bandwidth (alpha and beta) of
 * the links that a group of ranks has.
 */
#ifndef PLANNER_LINK_H
#define PLANNER_LINK_H

#include "planner/base/types.h"

/* A group of ranks that communicate: `size` of them, `inside` of which share a node. */
struct plan_group {
    double size, inside;
};

/* The group of ranks that differ in one factor of the layout, `stride` ranks apart (the product of
 * the factors that vary faster). */
struct plan_group plan_group_of(const struct plan_machine *machine, double size, double stride);

/* Bytes per second of a ring through the group, and seconds of one of its messages. */
double plan_ring_bytes_per_s(const struct plan_case *of, struct plan_group group);
double plan_ring_latency(struct plan_group group);

/* Seconds of an all-reduce of `bytes`: 2 (n - 1) / n of them pass each rank in 2 (n - 1) messages;
 * a gather or scatter is half of it. 0 for a group of one. */
double plan_all_reduce(const struct plan_case *of, struct plan_group group, double bytes);
/* Seconds of an all-to-all in which each rank has `bytes`. */
double plan_all_to_all(const struct plan_case *of, struct plan_group group, double bytes);
/* Seconds of a message to the next stage. */
double plan_send(const struct plan_case *of, double bytes);

#endif
