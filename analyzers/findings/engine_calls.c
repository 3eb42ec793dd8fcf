/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of steps that compute on the processor, and what the step would gain if each of
 * them took a shorter time. The looks of findings_engine.c and findings_batch.c give that time.
 */
#include "analyzers/findings/findings_engine_private.h"

#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"

void an_engine_each(const struct an_engine *engine,
                    void (*visit)(void *ctx, const struct an_engine_call *call), void *ctx)
{
    for (size_t i = 0; i < engine->calls; i++) {
        const struct an_detail *detail = &engine->context->trace->detail[engine->found[i].detail];
        struct an_engine_call call = {
            .d = detail,
            .detail = engine->found[i].detail,
            .step = engine->found[i].step,
            .ns = (double)engine->found[i].ns,
            .bytes = (double)(detail->bytes_read > 0 ? detail->bytes_read : 0) +
                     (double)(detail->bytes_written > 0 ? detail->bytes_written : 0)};
        visit(ctx, &call);
    }
}

bool an_engine_is_pass(const struct an_engine_call *call, const char *pass)
{
    return !strcmp(call->d->pass, pass);
}

double an_engine_roof(const struct an_engine *engine, const char *dtype)
{
    const struct an_ceiling_row *row = an_ceiling_find(engine->context, "cpu", "gemm", dtype);
    return row ? row->value / engine->share : 0;
}

struct gain {
    const struct an_engine *engine;
    an_engine_floor floor;
};

static void add_gain(void *ctx, const struct an_engine_call *call)
{
    const struct gain *gain = ctx;
    double least = gain->floor(gain->engine, call);
    if (least < call->ns)
        gain->engine->x[call->step] += call->ns - least;
}

struct an_class_share an_engine_gain(const struct an_engine *engine, an_engine_floor floor,
                                     double *removed_ms)
{
    const struct an_context *context = engine->context;
    struct gain gain = {engine, floor};
    double removed = 0, all = 0;
    size_t n = 0;
    memset(engine->x, 0, context->step_count * sizeof *engine->x);
    an_engine_each(engine, add_gain, &gain);
    for (size_t i = 0; i < context->step_count; i++) {
        int64_t ns = an_step_detailed(&context->step[i]) ? an_step_ns(&context->step[i]) : 0;
        double one = engine->x[i];
        if (ns <= 0)
            continue;
        removed += one;
        all += (double)ns;
        engine->x[n++] = 100 * one / (double)ns;
    }
    struct an_class_share share = an_share_of_values(engine->x, n);
    share.mean = all > 0 ? 100 * removed / all : 0; /* weighted as the budget */
    *removed_ms = n ? removed / (double)n / 1e6 : 0;
    return share;
}

double an_engine_step_ms(const struct an_engine *engine)
{
    const struct an_budget *budget = &engine->context->result->budget;
    return budget->steps ? (double)budget->step_ns / (double)budget->steps / 1e6 : 0;
}

const char *an_engine_window(const struct an_engine *engine, const char *what,
                             const struct an_class_share *share)
{
    double ms = an_engine_step_ms(engine) / 100;
    if (!isfinite(share->half))
        return an_arena_format(engine->context->arena, "%s: %s (%s)", what,
                               an_time_words(engine->context->arena, ms * share->mean, 3),
                               an_window_text(engine->context));
    return an_arena_format(
        engine->context->arena, "%s: %s a step (%s)", what,
        an_time_spread(engine->context->arena, ms * share->mean, ms * share->half),
        an_window_text(engine->context));
}
