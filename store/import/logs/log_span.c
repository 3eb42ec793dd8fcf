/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the steps of a progress bar took. The speed in a bar is a moving mean, which one long
 * step spoils for many lines, and which in a resumed run counts the steps that were skipped. What
 * has passed is whole seconds, but right: the speeds give the shape, what has passed the sum.
 */
#include <math.h>

#include "store/import/logs/logs.h"

#define SECOND 1e9
#define LONG_S 10   /* so many seconds make the whole ones exact enough */
#define ALIKE  1.25 /* speeds that are off by more have no shape to keep */

bool log_span_follows(const struct log_span *span, const struct log_values *values)
{
    return span->bar == values->bar && !values->resumed && values->elapsed >= span->passed &&
           values->value[LOG_STEP] > span->step;
}

bool log_span_is_far(const struct log_span *span, const struct log_values *values)
{
    return span->count && values->elapsed - span->passed >= LONG_S;
}

bool log_span_add(struct log_span *span, const struct log_draw *draw)
{
    const struct log_values *values = &draw->values;
    bool follows = log_span_follows(span, values);
    if (!span->count)
        span->since = span->passed;
    if (!follows) {
        span->bar = values->bar;
        span->distrusts = values->resumed;
    }
    span->draw[span->count++] = *draw;
    span->first = !follows;
    span->step = values->value[LOG_STEP];
    span->passed = values->elapsed;
    return !follows || values->elapsed - span->since >= LONG_S || span->count == LOG_DRAWS_MOST;
}

/* A number that is put into lo..hi. */
static double within(double value, double lo, double hi)
{
    double most = value > hi ? hi : value;
    return most < lo ? lo : most;
}

/* ns of all steps up to the last line by the speed in it, if that is the mean since the bar began:
 * a bar that ends has it. NAN: it is not. */
static double mean_total(const struct log_span *span)
{
    const struct log_draw *last = &span->draw[span->count - 1];
    double total = last->ns * span->step, passed = (double)span->passed * SECOND;
    bool ends = span->step == (double)last->values.total || span->first;
    return ends && total >= passed && total < passed + SECOND ? total : NAN;
}

/* Gives all steps of the lines the same time. */
static void share(struct log_span *span, double ns)
{
    for (size_t i = 0; i < span->count; i++)
        span->draw[i].ns = ns;
}

void log_span_fit(struct log_span *span)
{
    double sum = 0, steps = 0, passed = (double)span->passed * SECOND, exact = mean_total(span);
    for (size_t i = 0; i < span->count; i++) {
        sum += span->draw[i].ns * (double)span->draw[i].steps;
        steps += (double)span->draw[i].steps;
    }
    if (span->first) {
        span->total = isfinite(exact) ? exact : passed;
        return;
    }
    double least = passed - span->total, wanted = within(sum, least, least + SECOND);
    if (isfinite(exact) && !span->distrusts)
        wanted = exact - span->total;
    bool alike = wanted < sum * ALIKE && sum < wanted * ALIKE;
    bool is_long = span->passed - span->since >= LONG_S || isfinite(exact);
    if (span->distrusts || !isfinite(sum)) {
        share(span, least > 0 ? least / steps : NAN);
        sum = least > 0 ? least : 0;
    } else if ((is_long || !alike) && wanted > 0) {
        for (size_t i = 0; i < span->count; i++)
            span->draw[i].ns = alike ? span->draw[i].ns * (wanted / sum) : wanted / steps;
        sum = wanted;
    }
    span->total = within(span->total + sum, passed, passed + SECOND);
}
