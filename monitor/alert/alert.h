/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: alerts between what detects and what sends. Symptoms of one
 * cause on the same ranks are one alert, however many detectors see it. It is resolved once all of
 * its symptoms have been over for a while, so that one that comes and goes is one alert. Notices of
 * it are limited to a rate; what a user silenced or acknowledged is kept, but not sent.
 */
#ifndef MONITOR_ALERT_H
#define MONITOR_ALERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/cause/cause.h"
#include "monitor/config/config.h"

enum mon_severity { MON_INFO, MON_TICKET, MON_PAGE };
const char *mon_severity_name(enum mon_severity severity); /* "page" */

#define MON_ALERTS_MOST   64
#define MON_SYMPTOMS_MOST 16
#define MON_HOLD_S        60 /* from the end of the last symptom to the end of the alert */
#define MON_REPEAT_S      (4 * 3600.0) /* a page that goes on is sent again */

/* What a detector says. Texts are whole sentences without a full stop. */
struct mon_symptom {
    char code[MON_NAME]; /* "STEP_TIME", "NAN", "BURN_step_time" */
    enum mon_severity severity;
    enum mon_cause cause;
    int64_t rank[MON_RANKS_NAMED];
    size_t rank_count;              /* 0: all, or of no rank */
    int64_t since_step, found_step; /* -1: not known */
    int64_t since_ns, found_ns;     /* on the clock of the file; window of the evidence */
    double before, after;           /* NAN: it has none */
    char unit[16];
    char text[256], changed[1024]; /* what is seen; what changed then, or why that is not known */
    char phase[24];                /* that moved most, "" not known */
};

struct mon_alert {
    int64_t id;                             /* from 1 in a watch */
    struct mon_symptom symptom;             /* the first one; the severity is that of the worst */
    char code[MON_SYMPTOMS_MOST][MON_NAME]; /* all of its symptoms */
    bool active[MON_SYMPTOMS_MOST];
    size_t code_count;
    int64_t times;                  /* symptoms began so often */
    double begun_s, over_s, sent_s; /* over_s: NAN while a symptom is active */
    bool resolved, silenced, acknowledged;
    bool waits; /* its last notice was held by the rate limit */
};

enum mon_event { MON_FIRING, MON_WORSE, MON_REPEATED, MON_RESOLVED };
const char *mon_event_name(enum mon_event event); /* "firing" */

/* What is sent: `send` false: kept for the record only, for the reason `held` ("silenced",
 * "acknowledged", "rate limit"). */
struct mon_notice {
    enum mon_event event;
    const struct mon_alert *alert;
    double time_s; /* of the watch */
    bool send;
    const char *held;
    int64_t held_before; /* notices that the rate limit has kept back since the last one sent */
};
typedef void mon_notify(void *ctx, const struct mon_notice *notice);

struct mon_alerts {
    const struct mon_config *config;
    mon_notify *notify;
    void *ctx;
    bool catching_up; /* nothing is sent: it happened before the watch began */
    struct mon_alert alert[MON_ALERTS_MOST];
    size_t count;
    int64_t next_id, held, lost; /* lost: symptoms for which there was no room */
    double tokens, tokens_s;     /* of the rate limit */
};

void mon_alerts_init(struct mon_alerts *alerts, const struct mon_config *config, mon_notify *notify,
                     void *ctx);
/* A symptom began, or goes on: the alert that it belongs to. It is sent again (MON_WORSE) if the
 * symptom is more severe, or at least twice as far from where it came from. NULL: no room. */
const struct mon_alert *mon_alerts_raise(struct mon_alerts *alerts,
                                         const struct mon_symptom *symptom, double now_s);
/* The symptom with this code is over, on all ranks if `rank` is below 0. */
void mon_alerts_clear(struct mon_alerts *alerts, const char *code, int64_t rank, double now_s);
/* Ends alerts whose symptoms have been over for MON_HOLD_S, and repeats pages. */
void mon_alerts_tick(struct mon_alerts *alerts, double now_s);
/* Sends what is open and was not sent: a watch that begins in the middle of a run first reads what
 * happened before. */
void mon_alerts_send_open(struct mon_alerts *alerts, double now_s);
/* A user has seen the alert with this id, or all with this code ("*": all). How many those are. */
size_t mon_alerts_acknowledge(struct mon_alerts *alerts, const char *id_or_code);
/* Is a symptom with this code active? */
bool mon_alerts_has(const struct mon_alerts *alerts, const char *code);

#endif
