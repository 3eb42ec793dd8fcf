/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room planner/: what a training run needs, how long it takes and what it
 * costs, before it is started. Closed forms over shapes and data sheets, with the constants of
 * planner/base/constants.h. Nothing here reads a clock or a device.
 *
 * Units: bytes, seconds, FLOP (a multiply-add is 2), US dollars. NAN: not known. Structs are plain
 * values; texts are static unless a comment says otherwise.
 */
#ifndef PLANNER_PLAN_H
#define PLANNER_PLAN_H

#include "planner/base/types.h"
#include "planner/check/check.h"
#include "planner/cost/cost.h"
#include "planner/memory/memory.h"
#include "planner/model/model.h"
#include "planner/search/search.h"
#include "planner/time/step.h"
#include "planner/whole/whole.h"

#endif
