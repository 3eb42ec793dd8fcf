/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of queries that all formats need.
 */
#include <math.h>

#include "monitor/rules/private.h"

struct rules_duration rules_duration(double seconds)
{
    static const struct {
        long long seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    struct rules_duration duration;
    long long whole = llround(seconds);
    size_t i = 0;
    while (whole % units[i].seconds)
        i++;
    snprintf(duration.text, sizeof duration.text, "%lld%c", whole / units[i].seconds,
             units[i].unit);
    return duration;
}

void rules_query(FILE *out, const char *metric, const char *slo, const char *window)
{
    fprintf(out, "sum by (run) (rate(%s{slo=\"%s\"}[%s]))", metric, slo, window);
}
