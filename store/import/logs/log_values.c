/* SPDX-License-Identifier: Apache-2.0
 *
 * The quantities of one line: none, one more, and whether they are of a training.
 */
#include "store/import/logs/logs.h"

struct log_values log_values_none(void)
{
    return (struct log_values){.time = STORE_ABSENT,
                               .total = STORE_ABSENT,
                               .elapsed = STORE_ABSENT,
                               .place = {STORE_ABSENT, STORE_ABSENT, STORE_ABSENT}};
}

void log_keep(struct log_values *values, enum log_what what, double value)
{
    if (values->has[what])
        return; /* the first of a line counts */
    values->has[what] = true;
    values->value[what] = value;
}

bool log_values_tell(const struct log_values *values)
{
    static const enum log_what others[] = {
        LOG_LOSS,          LOG_LEARNING_RATE, LOG_GRADIENT_NORM, LOG_TOKENS_PER_S,
        LOG_SAMPLES_PER_S, LOG_TFLOPS,        LOG_MFU,           LOG_TOKENS_PER_S_DEVICE};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (values->has[others[i]])
            return true;
    return values->has[LOG_STEP_TIME] && !values->progress;
}
