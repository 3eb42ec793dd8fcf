/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: the text of --simulate-compute.
 */
#ifndef WORKLOADS_SIMULATED_H
#define WORKLOADS_SIMULATED_H

#include "libtrain/parallel/layout.h"
#include "libtrain/train/train.h"

/* "forward=0.01,backward=0.02,rank3=1.3" as the times of this rank; text NULL: none. *link: seconds
 * that each bucket takes longer; NULL: not wanted. TACHO_EUSAGE with words in *err. */
int simulated_parse(struct lt_simulated *out, double *link, const char *text,
                    const struct lt_layout *layout, int rank, struct tacho_error *err);

#endif
