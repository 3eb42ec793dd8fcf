/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the change points of series, one a line of standard input: for
 * tests/bench/change_points.py. A line of output has "AT LOW HIGH" of each change, separated by
 * commas.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzers/base/change_points.h"

#define MOST 4096

int main(void)
{
    static char line[MOST * 32];
    static double value[MOST];
    while (fgets(line, sizeof line, stdin)) {
        size_t count = 0, found = 0;
        struct an_change_point *point;
        char *at = line, *end;
        for (double x = strtod(at, &end); end != at && count < MOST; x = strtod(at, &end)) {
            value[count++] = log(x);
            at = end;
        }
        if (an_change_points(value, count, &point, &found))
            return 1;
        for (size_t i = 0; i < found; i++)
            printf("%s%zu %zu %zu", i ? "," : "", point[i].at, point[i].low, point[i].high);
        putchar('\n');
        free(point);
    }
    return 0;
}
