/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts a plan together: layout, time, memory, cost, what limits it, what else could be done.
 */
#include "planner/whole/whole.h"

#include <math.h>
#include <stdlib.h>

static bool is_complete(const struct plan_layout *layout)
{
    return layout->data && layout->tensor && layout->pipeline && layout->context &&
           layout->chunks && layout->micro_batch && layout->zero >= 0 && layout->recompute_given &&
           layout->expert;
}

/* Factors that follow from the others. */
static void derive_factors(struct plan_layout *layout)
{
    int64_t rest = layout->tensor * layout->pipeline * layout->context;
    double all = (double)layout->data * (double)rest;
    if (!layout->devices && all >= 1 && all < 1e7)
        layout->devices = (int64_t)all;
    if (!layout->data && rest && layout->devices % rest == 0)
        layout->data = layout->devices / rest;
}

/* Where no layout can run: what is wrong with the members that were given, if that is it. */
static void explain_refusal(const struct plan_case *of, struct tacho_error *err)
{
    struct plan_case at = *of;
    struct plan_layout *layout = &at.layout;
    int64_t *const members[] = {&layout->tensor, &layout->pipeline,    &layout->context,
                                &layout->expert, &layout->micro_batch, &layout->chunks};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        *members[i] = *members[i] ? *members[i] : 1;
    derive_factors(layout);
    plan_layout_check(&at, err);
}

/* Uses the search's best, or says what is known of the smallest one where nothing fits. */
static int choose(const struct plan_request *request, struct plan_result *out,
                  struct tacho_error *err)
{
    out->search = malloc(sizeof *out->search);
    if (!out->search)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    int rc = plan_search_layouts(&request->of, request->memory, request->loader, out->search, err);
    if (rc) {
        explain_refusal(&request->of, err);
        return rc;
    }
    out->searched = true;
    out->found = out->search->best_count ? out->search->best[0] : out->search->smallest;
    return 0;
}

/* A found layout with the case's machine and model: its time and memory anew. */
static void evaluate(const struct plan_request *request, struct plan_found *found)
{
    struct plan_case at = request->of;
    at.layout = found->layout;
    plan_memory_of(&at, &found->memory);
    plan_time_of(&at, request->loader, &found->time);
}

/* Measured over predicted; 0 where one of the two is not known. */
static double ratio(double measured, double predicted)
{
    return measured > 0 && predicted > 0 ? measured / predicted : 0;
}

/* What the run says of the model. Where its time is known by kind, each kind has a factor of its
 * own, and what is left of the step is that of the rest. What a run waits for is no more certain
 * than to a factor of REST_MOST. */
#define REST_MOST 10
static void learn(struct plan_result *out)
{
    struct plan_run *run = &out->request.run;
    const struct plan_kinds *measured = &run->kinds;
    struct plan_time predicted;
    plan_time_of(&run->at, 0, &predicted);
    out->run_predicted = predicted.seconds;
    out->factor = run->seconds / predicted.seconds;
    double calls = fmin(predicted.call_seconds, measured->products / 2);
    struct plan_kinds speed = {
        .products = ratio(measured->products - calls, predicted.kinds.products - calls),
        .attention = ratio(measured->attention, predicted.kinds.attention),
        .elements = ratio(measured->elements, predicted.kinds.elements),
        .update = ratio(measured->update, predicted.kinds.update),
    };
    run->at.speed = speed;
    plan_time_of(&run->at, 0, &predicted);
    double known = measured->products + measured->attention + measured->elements + measured->update;
    if (known > 0 && predicted.kinds.rest > 0)
        speed.rest =
            fmin(fmax((run->seconds - known) / predicted.kinds.rest, 1.0 / REST_MOST), REST_MOST);
    run->at.speed = speed;
    plan_time_of(&run->at, 0, &predicted);
    out->request.of.speed = speed;
    out->scale = run->seconds / predicted.seconds;
}

static void scale_time(struct plan_time *time, double factor, double deviation)
{
    time->seconds = fmax(time->seconds * factor, time->least_seconds);
    for (int i = 0; i < PLAN_PARTS; i++)
        time->part[i] *= factor;
    for (int i = 0; i < PLAN_CONVENTIONS; i++)
        time->mfu[i] /= factor;
    time->tokens_per_s /= factor;
    plan_time_interval(time, deviation);
}

/* Scales predictions by measured over predicted of the run. */
static void calibrate(struct plan_result *out, struct plan_found *found)
{
    const struct plan_run *run = &out->request.run;
    const struct plan_constants *constants = out->request.of.constants;
    if (!run->name || !(out->scale > 0))
        return;
    struct plan_case at = out->request.of;
    at.layout = found->layout;
    double spread = at.machine.software.engine ? constants->spread_engine : constants->spread_run;
    double far = 1 + plan_distance(&run->at, &at);
    double deviation = hypot(spread + constants->spread_run_far * far, run->variation);
    scale_time(&found->time, out->scale, deviation);
}

static void price(const struct plan_result *result, const struct plan_found *found,
                  const struct plan_rates *rates, double tokens, struct plan_cost *out)
{
    struct plan_failures failures = result->request.failures;
    failures.mtbf_s /= (double)found->layout.devices;
    plan_cost_of(&found->layout, found->time.seconds, found->time.low, found->time.high, tokens,
                 rates, &failures, out);
}

/* The plan with other devices or another number of them, its layout searched anew. */
static void make_other(const struct plan_result *result, struct plan_search *search,
                       const struct plan_machine *machine, int64_t devices, struct plan_other *out)
{
    struct plan_case of = result->request.of;
    struct plan_rates rates = result->request.rates;
    const struct plan_layout *plan = &result->found.layout;
    *out = (struct plan_other){.machine = *machine};
    of.machine = *machine;
    of.layout = (struct plan_layout){.devices = devices,
                                     .global_batch = plan->global_batch,
                                     .sequence = plan->sequence,
                                     .zero = -1,
                                     .schedule = plan->schedule,
                                     .sequence_parallel = plan->sequence_parallel};
    out->found.layout = of.layout;
    if (devices < 1 || plan_search_layouts(&of, 0, result->request.loader, search, NULL) ||
        !search->best_count)
        return;
    out->possible = true;
    out->found = search->best[0];
    if (machine != &result->request.of.machine)
        plan_rates_of(machine, &rates);
    else if (result->request.run.name)
        scale_time(&out->found.time, result->scale, of.constants->spread_run * 2);
    rates.grid = result->request.rates.grid;
    price(result, &out->found, &rates, result->cost.tokens, &out->cost);
    double each = result->found.time.tokens_per_s / (double)plan->devices;
    out->efficiency = out->found.time.tokens_per_s / (double)devices / each;
}

static int make_others(struct plan_result *out, struct tacho_error *err)
{
    static const double scales[PLAN_SCALES] = {0.25, 0.5, 1, 2, 4};
    struct plan_search *search = malloc(sizeof *search);
    const struct plan_request *request = &out->request;
    if (!search)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    for (int i = 0; i < PLAN_SCALES; i++)
        make_other(out, search, &out->request.of.machine,
                   (int64_t)((double)out->found.layout.devices * scales[i]), &out->scales[i]);
    int rc = 0;
    for (size_t i = 0; !rc && i < request->device_count; i++) {
        struct plan_machine machine;
        rc = plan_machine_of(request->devices[i], request->of.machine.type, &machine, err);
        if (!rc)
            make_other(out, search, &machine, out->found.layout.devices,
                       &out->others[out->other_count++]);
    }
    free(search);
    return rc;
}

/* What compute-optimal training would be, for this model and for this budget. */
static void add_law(struct plan_result *out)
{
    const struct plan_law *law = &plan_laws[0];
    double parameters = out->parameters.total;
    out->optimal_tokens = plan_law_tokens(law, parameters);
    double tokens = out->request.tokens > 0 ? out->request.tokens : out->optimal_tokens;
    plan_law_optimum(law, 6 * out->parameters.active * tokens, &out->optimal_parameters,
                     &out->optimal_budget_tokens);
    out->loss = plan_law_loss(law, parameters, tokens);
}

int plan_make(const struct plan_request *request, struct plan_result *out, struct tacho_error *err)
{
    *out = (struct plan_result){.request = *request, .factor = 1, .scale = 1};
    struct plan_case *of = &out->request.of;
    plan_parameters_of(&of->model, &out->parameters);
    derive_factors(&of->layout);
    if (out->request.run.name)
        learn(out);
    int rc = 0;
    if (is_complete(&of->layout)) {
        out->found.layout = of->layout;
        rc = plan_layout_check(of, err);
    } else {
        rc = choose(&out->request, out, err);
    }
    if (rc)
        goto failed;
    evaluate(&out->request, &out->found);
    calibrate(out, &out->found);
    for (size_t i = 0; out->search && i < out->search->best_count; i++)
        calibrate(out, &out->search->best[i]);
    for (size_t i = 0; out->search && i < out->search->front_count; i++)
        calibrate(out, &out->search->front[i]);
    add_law(out);
    double tokens = request->tokens > 0 ? request->tokens : out->optimal_tokens;
    price(out, &out->found, &out->request.rates, tokens, &out->cost);
    out->limit = plan_limit_of(&out->found.time);
    out->within_budget =
        (!(request->budget_hours > 0) || out->cost.hours <= request->budget_hours) &&
        (!(request->budget_money > 0) || !(out->cost.money_low > request->budget_money));
    rc = make_others(out, err);
    if (!rc)
        return 0;
failed:
    plan_result_free(out);
    return rc;
}

void plan_result_free(struct plan_result *result)
{
    free(result->search);
    result->search = NULL;
}
