/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: from the options to how a run is made. All functions return 0 or a negative
 * code with words in *err.
 */
#ifndef WORKLOADS_CONFIGURE_H
#define WORKLOADS_CONFIGURE_H

#include "libtrain/train/train.h"
#include "workloads/options.h"

/* The loop's configuration. What depends on ranks and loader is filled later. */
int configure_run(struct lt_train_config *out, const struct options *options,
                  struct tacho_error *err);

/* Backend, type and the precision of GEMMs, which holds for the whole process. */
int configure_context(struct lt_context *context, const struct options *options,
                      struct tacho_error *err);

/* --scale-lr: rates that are for another number of samples an update than this run's, whose
 * micro-batches have `batch` samples. After the ranks' micro-steps are known. */
int configure_rates(struct lt_train_config *config, const struct options *options, int64_t batch,
                    struct tacho_error *err);

#endif
