/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units. The digits come from analyzers/base/words.c, so that a value reads the same
 * in a finding and in a table.
 */
#include "reports/words/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/words.h"

_Static_assert(AN_WORDS == NUMBER_BYTES, "an_number_print fills a buffer of that size");

const char *page_number(char *buf, double value)
{
    return an_number_print(buf, value, 4);
}

const char *page_digits(char *buf, double value, int digits)
{
    return an_number_print(buf, value, digits);
}

const char *page_share(char *buf, double pct)
{
    if (pct > 0 && pct < 0.05)
        snprintf(buf, NUMBER_BYTES, "< 0.1");
    else
        snprintf(buf, NUMBER_BYTES, "%.1f", pct);
    return buf;
}

/* The number, a blank and the unit. */
static const char *with_unit(char *buf, double value, const char *prefix, const char *unit)
{
    an_number_print(buf, value, 3);
    size_t length = strlen(buf);
    snprintf(buf + length, AN_WORDS - length, " %s%.12s", prefix, unit);
    return buf;
}

const char *page_si(char *buf, double value, const char *unit)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    int step = 0;
    while (fabs(value) >= 999.5 && step < 6) {
        value /= 1000;
        step++;
    }
    return with_unit(buf, value, prefix[step], unit);
}

const char *page_bytes(char *buf, double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int step = 0;
    while (fabs(bytes) >= 1023.5 && step < 5) {
        bytes /= 1024;
        step++;
    }
    return with_unit(buf, bytes, "", unit[step]);
}

const char *page_time(char *buf, double ns)
{
    return an_time_print(buf, ns / 1e6, 3);
}
