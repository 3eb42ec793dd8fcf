/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/train: the steps of a run on a device, as far as they differ from those of
 * the host. Batches and the numbers of a step travel through pinned memory, of which there is
 * enough for two steps; loss and norm come back the same way, so the host asks for those of a step
 * when it has put the next one on the queue.
 */
#ifndef LT_DEVICE_STEP_H
#define LT_DEVICE_STEP_H

#include "libtrain/models/model.h"
#include "libtrain/ops/device.h"
#include "tacho_error.h"

struct lt_device_steps;

/* For steps of `micro` batches of that model. The caller closes. TACHO_ENOMEM with words in *err.
 */
int lt_device_steps_open(struct lt_device_steps **out, struct lt_device *device,
                         const struct lt_model *model, int micro, struct tacho_error *err);
/* Accepts NULL. Waits for the device. */
void lt_device_steps_close(struct lt_device_steps *steps);

/* Sends batch number `index` of the next step. Afterwards `batch` may be overwritten, and
 * lt_device_steps_batches()[index] is where the device has it, the same place in each step. */
void lt_device_steps_send(struct lt_device_steps *steps, int index, const struct lt_batch *batch);
const struct lt_batch *lt_device_steps_batches(const struct lt_device_steps *steps);

/* Sends the numbers of the next step, with loss and squares 0; asks for them when the step's
 * operations are on the queue. At most two steps are under way. */
void lt_device_steps_begin(struct lt_device_steps *steps, const struct lt_update_terms *terms,
                           double clip);
void lt_device_steps_end(struct lt_device_steps *steps);

/* Waits for the oldest step that was not asked for yet: the sum of the losses of its batches, the
 * norm of its gradient. TACHO_EIO with words in *err when the device has failed. */
int lt_device_steps_result(struct lt_device_steps *steps, double *loss, double *norm,
                           struct tacho_error *err);

/* One evaluation of a batch, at once: forward of `model` in this context, which is one of
 * evaluation. Nothing else may be under way. */
int lt_device_steps_evaluate(struct lt_device_steps *steps, struct lt_model *model,
                             const struct lt_context *context, const struct lt_batch *batch,
                             double *loss, struct tacho_error *err);

#endif
