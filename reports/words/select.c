/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a result that several formats look up.
 */
#include "reports/words/select.h"

#include <string.h>

const char *rep_device_name(const struct an_result *result, const struct an_device_budget *budget)
{
    for (size_t i = 0; i < result->gpu_count; i++)
        if (result->gpus[i].rank == budget->rank && !strcmp(result->gpus[i].label, budget->device))
            return result->gpus[i].name;
    return "";
}

/* The first table is the one by operator. */
const struct an_attribution *rep_attribution(const struct an_result *result, const char *by)
{
    for (size_t i = 0; by && i < sizeof result->attribution / sizeof *result->attribution; i++)
        if (result->attribution[i].by && !strcmp(result->attribution[i].by, by))
            return &result->attribution[i];
    return &result->attribution[0];
}
