/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/words/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/words.h"

_Static_assert(AN_WORDS == 32, "buffers of pages are of that size");

const char *page_number(char *buf, double v)
{
    return an_number_print(buf, v, 4);
}

const char *page_digits(char *buf, double v, int digits)
{
    return an_number_print(buf, v, digits);
}

/* The number, a blank and the unit. */
static const char *with_unit(char *buf, double v, const char *prefix, const char *unit)
{
    an_number_print(buf, v, 3);
    size_t n = strlen(buf);
    snprintf(buf + n, AN_WORDS - n, " %s%.12s", prefix, unit);
    return buf;
}

const char *page_si(char *buf, double v, const char *unit)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    int k = 0;
    while (fabs(v) >= 999.5 && k < 6) {
        v /= 1000;
        k++;
    }
    return with_unit(buf, v, prefix[k], unit);
}

const char *page_bytes(char *buf, double v)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int k = 0;
    while (fabs(v) >= 1023.5 && k < 5) {
        v /= 1024;
        k++;
    }
    return with_unit(buf, v, "", unit[k]);
}

const char *page_time(char *buf, double ns)
{
    return an_time_print(buf, ns / 1e6, 3);
}
