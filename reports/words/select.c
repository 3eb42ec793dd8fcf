/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/words/select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *rep_device_name(const struct an_result *r, const struct an_device_budget *d)
{
    for (size_t i = 0; i < r->gpu_count; i++) {
        char device[32];
        snprintf(device, sizeof device, "gpu:%" PRId64, r->gpus[i].device);
        if (r->gpus[i].rank == d->rank && !strcmp(device, d->device))
            return r->gpus[i].name;
    }
    return "";
}

const struct an_attribution *rep_attribution(const struct an_result *r, const char *by)
{
    for (size_t i = 0; by && i < sizeof r->attribution / sizeof *r->attribution; i++)
        if (r->attribution[i].by && !strcmp(r->attribution[i].by, by))
            return &r->attribution[i];
    return &r->attribution[0];
}
