/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of steps that compute on the processor, and what the step would gain if each of
 * them took a shorter time. The looks of findings_engine.c and findings_batch.c give that time.
 */
#include "analyzers/findings/findings_engine_private.h"

#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"

/* Bytes of a model; STORE_ABSENT counts as none. */
static double known_bytes(int64_t bytes)
{
    return bytes > 0 ? (double)bytes : 0;
}

void an_engine_each(const struct an_engine *engine,
                    void (*visit)(void *ctx, const struct an_engine_call *call), void *ctx)
{
    for (size_t i = 0; i < engine->found_count; i++) {
        const struct an_detail *detail = &engine->context->trace->detail[engine->found[i].detail];
        struct an_engine_call call = {.detail = detail,
                                      .index = engine->found[i].detail,
                                      .step = engine->found[i].step,
                                      .ns = (double)engine->found[i].ns,
                                      .bytes = known_bytes(detail->bytes_read) +
                                               known_bytes(detail->bytes_written)};
        visit(ctx, &call);
    }
}

bool an_engine_is_pass(const struct an_engine_call *call, const char *pass)
{
    return !strcmp(call->detail->pass, pass);
}

double an_engine_roof(const struct an_engine *engine, const char *dtype)
{
    const struct an_ceiling_row *row = an_ceiling_find(engine->context, "cpu", "gemm", dtype);
    return row ? row->value / engine->ranks : 0;
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
        gain->engine->step_values[call->step] += call->ns - least;
}

struct an_class_share an_engine_gain(const struct an_engine *engine, an_engine_floor floor,
                                     double *removed_ms)
{
    const struct an_context *context = engine->context;
    struct gain gain = {engine, floor};
    double removed = 0, all = 0;
    size_t steps = 0;
    memset(engine->step_values, 0, context->step_count * sizeof *engine->step_values);
    an_engine_each(engine, add_gain, &gain);
    for (size_t i = 0; i < context->step_count; i++) {
        int64_t ns = an_step_detailed(&context->step[i]) ? an_step_ns(&context->step[i]) : 0;
        double step_removed = engine->step_values[i];
        if (ns <= 0)
            continue;
        removed += step_removed;
        all += (double)ns;
        engine->step_values[steps++] = 100 * step_removed / (double)ns;
    }
    struct an_class_share share = an_share_of_values(engine->step_values, steps);
    share.mean = an_percent(removed, all); /* weights steps by their time, like the budget */
    *removed_ms = steps ? removed / (double)steps / 1e6 : 0;
    return share;
}
