/* SPDX-License-Identifier: Apache-2.0
 *
 * Backtracking from the step that L-BFGS made. The optimizer keeps the parameters as they were
 * before it, so that halving needs no memory.
 */
#include "libtrain/train/line_search.h"

#include "libtrain/train/run.h"

#define LEAST_SHARE 1e-4 /* of the promised fall of the loss */

/* What the gradient says that the step changes the loss by: their product, negative downhill. */
static double promise(const struct lt_parameters *parameters, const float *before,
                      double loss_scale)
{
    double sum = 0;
    for (size_t i = 0; i < parameters->count; i++)
        sum += (double)parameters->grad[i] * ((double)parameters->value[i] - (double)before[i]);
    return sum / loss_scale;
}

static void halve(const struct lt_parameters *parameters, const float *before)
{
    float *value = parameters->value;
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < parameters->count; i++)
        value[i] = 0.5f * (value[i] + before[i]);
    lt_parameters_refresh(parameters);
}

void lt_line_search(struct run *run)
{
    const struct lt_parameters *parameters = &run->model->parameters;
    const float *before = lt_optimizer_before(&run->optimizer);
    double promised = promise(parameters, before, run->scaling.scale);
    for (int64_t i = 0; i < run->config->line_search; i++) {
        double loss = run->model->ops->forward(run->model, &run->evaluation, &run->batch, 1);
        if (loss <= run->news.loss + LEAST_SHARE * promised) /* not where it is NaN */
            return;
        halve(parameters, before);
        promised *= 0.5;
    }
}
