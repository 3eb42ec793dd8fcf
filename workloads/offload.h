/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: --offload, arrays of a purpose in files.
 */
#ifndef WORKLOADS_OFFLOAD_H
#define WORKLOADS_OFFLOAD_H

#include "libtrain/base/memory.h"
#include "workloads/options.h"

/* Before anything is allocated: where arrays will lie. TACHO_EUSAGE, TACHO_ENOTSUP, TACHO_EIO with
 * words in *err. */
int offload_open(const struct options *options, struct tacho_error *err);

/* Takes what lies in files out of the prediction; *bytes: how much that is. TACHO_ENOSPACE with
 * words in *err where the disk has less room. */
int offload_plan(const struct options *options, struct lt_memory_plan *plan, uint64_t *bytes,
                 struct tacho_error *err);

#endif
