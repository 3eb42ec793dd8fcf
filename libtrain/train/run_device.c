/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on a device: launched or captured, and reported when the next one has begun. Several ranks
 * add up their gradients on their devices, as backward finishes them.
 */
#include <stdlib.h>

#include "libtrain/base/fail.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/device_step.h"
#include "libtrain/train/run.h"

/* ---- several ranks --------------------------------------------------------------------------- */

#define BUCKET_FLOATS ((size_t)2 << 20) /* gradients that are sent together */
#define BUCKET_PIECES 64

/* Gradients that are final and were not sent yet. */
struct bucket {
    struct lt_device *device;
    float *gradients;
    struct lt_device_array piece[BUCKET_PIECES];
    size_t pieces, floats;
};

static void send(struct bucket *bucket)
{
    if (bucket->pieces)
        bucket->device->reduce(bucket->device, bucket->piece, bucket->pieces, 0);
    bucket->pieces = bucket->floats = 0;
}

/* For lt_context.ready. What was announced before is sent first, because the operation of this
 * piece may still wait for the next one, which takes it along. */
static void ready(void *arg, size_t first, size_t count)
{
    struct bucket *bucket = arg;
    float *x = bucket->gradients + first;
    if (bucket->floats >= BUCKET_FLOATS || bucket->pieces == BUCKET_PIECES)
        send(bucket);
    bucket->piece[bucket->pieces++] = (struct lt_device_array){x, count};
    bucket->floats += count;
}

/* The rest of the gradients and the loss; what comes then has the sums. */
static void send_rest(struct bucket *bucket)
{
    struct lt_device *device = bucket->device;
    const struct lt_device_array loss = {&device->late->loss, 1};
    send(bucket);
    device->reduce(device, &loss, 1, 1);
    device->reduced(device);
}

int lt_run_join_devices(struct run *run, int rc, struct tacho_error *err)
{
    struct lt_device *device = run->context.device;
    int rank = lt_parallel_rank(run->parallel), ranks = lt_parallel_ranks(run->parallel);
    enum { DOUBLES = LT_DEVICE_ID_BYTES / sizeof(double) };
    double id[DOUBLES] = {0}, *all = calloc((size_t)ranks * DOUBLES, sizeof *all);
    char why[256] = "";
    if (!all && rc == 0)
        rc = lt_no_memory(err);
    if (rc == 0 && rank == 0 && device->identity(device, id, why, sizeof why))
        rc = tacho_fail(err, TACHO_ENOTSUP, "set LT_NCCL to a libnccl.so.2", "cuda: %s", why);
    rc = lt_parallel_agree(run->parallel, rc, err);
    if (rc == 0) {
        lt_parallel_gather(run->parallel, id, DOUBLES, all);
        if (device->join(device, all, rank, ranks, why, sizeof why))
            rc = tacho_fail(err, TACHO_ENOTSUP, "one device for each rank of a machine", "cuda: %s",
                            why);
    }
    free(all);
    return rc;
}

/* Has every rank its batches? A step that failed on any rank is launched on none. */
static int agree(struct run *run, int rc, struct tacho_error *err)
{
    if (lt_parallel_ranks(run->parallel) == 1)
        return rc;
    lt_run_send_status(run, 0, rc);
    return lt_parallel_finish(run->parallel, rc, &run->news, err);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Puts the operations of a step on the device's queue. */
static void launch_operations(struct run *run, double rate)
{
    const struct lt_batch *batches = lt_device_steps_batches(run->device);
    struct lt_context context = run->context;
    struct bucket bucket = {.device = context.device, .gradients = run->model->parameters.grad};
    int several = lt_parallel_ranks(run->parallel) > 1, count = run->config->micro_steps,
        parts = count * lt_run_replicas(run);
    for (int i = 0; i < count; i++) {
        context.ready = several && i == count - 1 ? ready : NULL;
        context.ready_arg = &bucket;
        lt_trace_begin(run->trace, LT_RANGE_MICRO_STEP, 0, (uint64_t)run->model->b);
        lt_trace_begin(run->trace, LT_RANGE_FORWARD, 0, 0);
        run->model->ops->forward(run->model, &context, &batches[i], parts);
        lt_trace_end(run->trace);
        lt_trace_begin(run->trace, LT_RANGE_BACKWARD, 0, 0);
        run->model->ops->backward(run->model, &context, &batches[i], i == 0);
        lt_trace_end(run->trace);
        lt_trace_end(run->trace);
    }
    if (several)
        send_rest(&bucket);
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
    progress->loss /= run->config->micro_steps * lt_run_replicas(run);
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
    rc = agree(run, rc, err);
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
