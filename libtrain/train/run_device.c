/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on a device: launched or captured, and reported when the next one has begun.
 */
#include "libtrain/speak/trace.h"
#include "libtrain/train/device_step.h"
#include "libtrain/train/run.h"

/* Puts the operations of a step on the device's queue. */
static void launch_operations(struct run *run, double rate)
{
    const struct lt_batch *batches = lt_device_steps_batches(run->device);
    for (int i = 0; i < run->config->micro_steps; i++) {
        lt_trace_begin(run->trace, LT_RANGE_MICRO_STEP, 0, (uint64_t)run->model->b);
        lt_trace_begin(run->trace, LT_RANGE_FORWARD, 0, 0);
        run->model->ops->forward(run->model, &run->context, &batches[i], run->config->micro_steps);
        lt_trace_end(run->trace);
        lt_trace_begin(run->trace, LT_RANGE_BACKWARD, 0, 0);
        run->model->ops->backward(run->model, &run->context, &batches[i], i == 0);
        lt_trace_end(run->trace);
        lt_trace_end(run->trace);
    }
    lt_run_update(run, rate);
}

/* The first step is launched operation by operation, because libraries make their plans in it. The
 * second one is captured; it and all later ones are one launch. */
static void launch_step(struct run *run, double rate)
{
    struct lt_device *device = run->context.device;
    int64_t before = run->launches++;
    int each = run->config->no_graph || before == 0;
    if (!each && before == 1)
        device->capture(device);
    if (each || before == 1)
        launch_operations(run, rate);
    else
        lt_optimizer_remember(&run->optimizer, rate);
    /* where capturing fails the device says why when the step's result is asked for */
    if (!each && (before > 1 || device->captured(device) == 0))
        device->replay(device);
}

/* Waits for the step that was launched last, and reports it. Nothing where there is none. */
static int report_launched(struct run *run, struct tacho_error *err)
{
    struct lt_progress *progress = &run->launched;
    if (!run->waiting)
        return 0;
    run->waiting = 0;
    int rc = lt_device_steps_result(run->device, &progress->loss, &progress->grad_norm, err);
    progress->loss /= run->config->micro_steps;
    rc = rc ? rc : lt_run_check_loss(run, progress, err);
    rc = rc ? rc : lt_run_judge(run, progress, err);
    if (rc == 0)
        lt_run_log(run, progress, run->since);
    run->since = lt_run_seconds();
    return rc;
}

int lt_run_report_launched(struct run *run, struct tacho_error *err)
{
    int rc = report_launched(run, err);
    lt_run_mark(run);
    return rc;
}

/* One update. The step before it is reported when this one is on the queue, so that the device is
 * never without work. */
int lt_run_device_step(struct run *run, struct tacho_error *err)
{
    const struct lt_train_config *config = run->config;
    double start = lt_run_seconds(), rate = lt_run_rate(run);
    struct lt_progress progress = lt_run_begin_step(run);
    struct lt_update_terms terms = lt_optimizer_terms(&run->optimizer, run->step, rate, 1);
    struct lt_batch batch;
    int rc = 0;
    for (int i = 0; rc == 0 && i < config->micro_steps; i++) {
        rc = lt_loader_next(run->loader, &batch, err);
        if (rc == 0)
            lt_device_steps_send(run->device, i, &batch);
    }
    if (rc == 0) {
        lt_device_steps_begin(run->device, &terms, config->clip);
        launch_step(run, rate);
        lt_device_steps_end(run->device);
        rc = report_launched(run, err);
        progress.rate = rate;
        run->launched = progress;
        run->since = run->since > start ? run->since : start;
        run->waiting = rc == 0;
    }
    lt_trace_step_end(run->trace);
    lt_run_mark(run);
    return rc;
}
