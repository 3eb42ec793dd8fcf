/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/fleet/: samples of a text, as far as a fleet is interested in their labels.
 */
#ifndef MONITOR_FLEET_SAMPLE_H
#define MONITOR_FLEET_SAMPLE_H

#include "monitor/fleet/fleet.h"

/* One line. A label that it does not have is "". Control characters and what is not UTF-8 are '?',
 * because texts of others end in a terminal. */
struct fleet_sample {
    char name[MON_FLEET_NAME], run[MON_FLEET_NAME], rank[24], code[MON_FLEET_NAME];
    double value;
};

/* The next sample of a text; *text moves behind its line. False: there are no more. */
bool fleet_sample_next(const char **text, struct fleet_sample *sample);

#endif
