/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: a notice as a line for people and as JSON: tacho's own
 * (tacho-alert/1, docs/schemas/) and what Alertmanager's API v2 takes (POST /api/v2/alerts).
 */
#ifndef MONITOR_ALERT_JSON_H
#define MONITOR_ALERT_JSON_H

#include <jansson.h>

#include "monitor/alert/alert.h"

/* What a notice is about, beside the alert. */
struct mon_place {
    const char *run, *host; /* as messages name it */
    int64_t realtime_ns;    /* of the notice, since 1970 */
    int64_t begun_ns;       /* of the alert */
};

/* "page NEIGHBOUR: the step takes 5.2 % longer since step 812 ..."; into text, of `size` bytes. */
void mon_notice_text(const struct mon_notice *notice, char *text, size_t size);
/* The caller's; NULL: no memory. Texts that are not UTF-8 are null. */
json_t *mon_notice_json(const struct mon_notice *notice, const struct mon_place *place);
/* A list of one alert: labels alertname, severity, cause, run, instance and rank; annotations
 * summary, description and window; endsAt once it is resolved. */
json_t *mon_notice_alertmanager(const struct mon_notice *notice, const struct mon_place *place);

#endif
