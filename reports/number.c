/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/number.h"

#include <math.h>
#include <stdio.h>

const char *page_number(char *buf, double v)
{
    snprintf(buf, 32, fabs(v) >= 999.95 && fabs(v) < 1e9 ? "%.0f" : "%.4g", v);
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
    snprintf(buf, 32, "%.3g %s%.12s", v, prefix[k], unit);
    return buf;
}

const char *page_bytes(char *buf, double v)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int k = 0;
    while (fabs(v) >= 1023.5 && k < 5) {
        v /= 1024;
        k++;
    }
    snprintf(buf, 32, fabs(v) >= 999.5 ? "%.0f %s" : "%.3g %s", v, unit[k]);
    return buf;
}

const char *page_time(char *buf, double ns)
{
    double a = fabs(ns);
    if (a < 999.5)
        snprintf(buf, 32, "%.0f ns", ns);
    else if (a < 999.5e3)
        snprintf(buf, 32, "%.3g \xc2\xb5s", ns / 1e3);
    else if (a < 999.5e6)
        snprintf(buf, 32, "%.3g ms", ns / 1e6);
    else
        snprintf(buf, 32, a < 1e12 ? "%.3g s" : "%.0f s", ns / 1e9);
    return buf;
}
