/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to planner/: what a rank of the reference engine holds, in closed form.
 */
#ifndef PLANNER_ENGINE_H
#define PLANNER_ENGINE_H

#include "planner/memory/memory.h"

/* Bytes of a rank of `stage` (number 0 of those that divide its layers, which has the largest part)
 * by what they are for. */
void plan_engine_memory(const struct plan_case *of, int64_t stage, double bytes[PLAN_HELDS]);
/* Micro-batches of one chunk each whose activations a stage of the engine keeps at a time. */
double plan_engine_in_flight(const struct plan_layout *layout, int64_t stage);

#endif
