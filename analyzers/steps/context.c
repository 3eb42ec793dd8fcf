/* SPDX-License-Identifier: Apache-2.0
 *
 * What every analyzer may ask of the analysis as a whole: note a contradiction, name the window of
 * steps, and rate how sure a sentence about the budget can be.
 */
#include "analyzers/steps/context.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void an_problem(struct an_context *context, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (context->problems == sizeof context->problem / sizeof *context->problem)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    context->problem[context->problems++] = an_arena_text(context->arena, text);
}

int64_t an_steps_observed(const struct an_context *context)
{
    const struct an_steps *steps = &context->result->steps;
    int64_t apart = an_time_sub(steps->last_index, steps->first_index);
    return steps->detailed <= apart ? steps->detailed : apart + 1;
}

/* High confidence needs marked steps, many of them, nothing lost, nothing that contradicts itself,
 * and little time that is not explained. */
enum an_confidence an_confidence_of(const struct an_context *context)
{
    const struct an_result *result = context->result;
    const struct an_value *rest = &result->budget.pct[AN_CLASS_UNATTRIBUTED];
    double unexplained = rest->valid ? rest->value : 100;
    bool lost =
        !result->trust.lost_events.valid || result->trust.lost_events.value || context->problems;
    int64_t steps = an_steps_observed(context);
    if (steps < AN_STEPS_LEAST || unexplained > 20 || result->trust.missing)
        return AN_LOW;
    bool is_high = steps >= 20 && !lost && unexplained <= 5;
    return is_high || result->steps.confidence < AN_MEDIUM ? result->steps.confidence : AN_MEDIUM;
}

const char *an_window_text(struct an_context *context)
{
    const struct an_steps *steps = &context->result->steps;
    if (steps->first_index == steps->last_index)
        return an_arena_format(context->arena, "step %" PRId64, steps->first_index);
    return an_arena_format(context->arena, "steps %" PRId64 "-%" PRId64, steps->first_index,
                           steps->last_index);
}
