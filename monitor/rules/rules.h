/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of monitor/rules/: the objectives of a watch as rules of other programs, which then
 * raise the same alerts from what a watch exports, for all runs that they see.
 */
#ifndef MONITOR_RULES_H
#define MONITOR_RULES_H

#include <stdio.h>

#include "monitor/slo/slo.h"

/* Formats: X(name, what it is). A format is a file NAME.c with mon_rules_NAME(). */
#define MON_RULES_MAP(X) \
    X(prometheus, "a rule file of Prometheus: recording and alerting rules") \
    X(sloth, "a specification for Sloth (prometheus/v1), which makes rules of it") \
    X(openslo, "documents of OpenSLO v1: objectives, policies and conditions")
/* The names, as cli_option.argument has them. */
#define MON_RULES_NAMES "prometheus|sloth|openslo"

/* Writes the rules of all objectives. An objective without a period has that of 30 days. Prometheus
 * scrapes every `scrape_s` seconds: windows that would hold less than MON_RULES_SCRAPES of them are
 * lengthened and their factor is computed anew, as windows with few steps are (mon_burns()). 0;
 * TACHO_EUSAGE: an objective whose budget no burn rate can exceed, or an unknown format;
 * TACHO_EIO: the stream knows why. */
#define MON_RULES_SCRAPES 4
int mon_rules_write(const char *format, const struct mon_slo *slo, double scrape_s, FILE *out,
                    struct tacho_error *err);

#endif
