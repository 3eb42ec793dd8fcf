/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups symptoms, ends alerts, limits notices.
 */
#include "monitor/alert/alert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FARTHER    2 /* times a move that was sent: sent again */
#define RATE_LIMIT "rate limit"

const char *mon_severity_name(enum mon_severity severity)
{
    static const char *const names[] = {"info", "ticket", "page"};
    return names[severity];
}

const char *mon_event_name(enum mon_event event)
{
    static const char *const names[] = {"firing", "worse", "repeated", "resolved"};
    return names[event];
}

void mon_alerts_init(struct mon_alerts *alerts, const struct mon_config *config, mon_notify *notify,
                     void *ctx)
{
    *alerts = (struct mon_alerts){.config = config,
                                  .notify = notify,
                                  .ctx = ctx,
                                  .next_id = 1,
                                  .tokens = fmax(config->rate, 1),
                                  .tokens_s = NAN};
}

/* ---- notices --------------------------------------------------------------------------------- */

static bool matches(const char *pattern, const char *code)
{
    size_t length = strlen(pattern);
    if (length && pattern[length - 1] == '*')
        return !strncmp(pattern, code, length - 1);
    return !strcmp(pattern, code);
}

static bool is_silenced(const struct mon_config *config, const struct mon_alert *alert)
{
    for (size_t i = 0; i < alert->code_count; i++) {
        bool silenced = false;
        for (size_t j = 0; j < config->silence_count; j++)
            silenced = silenced || matches(config->silence[j], alert->code[i]);
        if (!silenced)
            return false;
    }
    return alert->code_count > 0;
}

/* Is there a token in the bucket? It holds as many as the hour's rate, but one where that is less;
 * they come back evenly. */
static bool has_token(struct mon_alerts *alerts, double now_s)
{
    double rate = alerts->config->rate, most = fmax(rate, 1);
    if (!isnan(alerts->tokens_s) && now_s > alerts->tokens_s)
        alerts->tokens = fmin(most, alerts->tokens + (now_s - alerts->tokens_s) / 3600 * rate);
    alerts->tokens_s = now_s;
    return alerts->tokens >= 1;
}

static bool take_token(struct mon_alerts *alerts, double now_s)
{
    bool taken = has_token(alerts, now_s);
    alerts->tokens -= taken;
    return taken;
}

/* The end of an alert is sent if its begin was, so that no receiver keeps it open. */
static const char *why_held(struct mon_alerts *alerts, struct mon_alert *alert,
                            enum mon_event event, double now_s)
{
    alert->silenced = is_silenced(alerts->config, alert);
    if (alerts->catching_up)
        return "before the watch began";
    if (alert->silenced)
        return "silenced";
    if (event == MON_RESOLVED)
        return isnan(alert->sent_s) ? "its begin was not sent" : NULL;
    if (alert->acknowledged)
        return "acknowledged";
    return take_token(alerts, now_s) ? NULL : RATE_LIMIT;
}

static void notice(struct mon_alerts *alerts, struct mon_alert *alert, enum mon_event event,
                   double now_s)
{
    const char *held = why_held(alerts, alert, event, now_s);
    struct mon_notice row = {.event = event,
                             .alert = alert,
                             .time_s = now_s,
                             .send = !held,
                             .held = held,
                             .held_before = held ? 0 : alerts->held};
    alert->waits = held && event != MON_RESOLVED && !strcmp(held, RATE_LIMIT);
    if (!held) {
        alert->sent_s = now_s;
        alerts->held = 0;
    } else if (!alert->silenced && !alert->acknowledged && !alerts->catching_up) {
        alerts->held++;
    }
    alerts->notify(alerts->ctx, &row);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static bool same_ranks(const struct mon_symptom *left, const struct mon_symptom *right)
{
    return left->rank_count == right->rank_count &&
           !memcmp(left->rank, right->rank, left->rank_count * sizeof *left->rank);
}

/* Do they have one cause, on the same ranks? */
static bool same_group(const struct mon_alert *alert, const struct mon_symptom *symptom)
{
    return !alert->resolved && alert->symptom.cause == symptom->cause &&
           same_ranks(&alert->symptom, symptom);
}

static size_t code_of(const struct mon_alert *alert, const char *code)
{
    size_t i = 0;
    while (i < alert->code_count && strcmp(alert->code[i], code) != 0)
        i++;
    return i;
}

/* The alert that already has the symptom with these ranks, else one of its group. */
static struct mon_alert *find(struct mon_alerts *alerts, const struct mon_symptom *symptom)
{
    for (size_t i = 0; i < alerts->count; i++) {
        struct mon_alert *alert = &alerts->alert[i];
        if (!alert->resolved && code_of(alert, symptom->code) < alert->code_count &&
            same_ranks(&alert->symptom, symptom))
            return alert;
    }
    for (size_t i = 0; i < alerts->count; i++)
        if (same_group(&alerts->alert[i], symptom))
            return &alerts->alert[i];
    return NULL;
}

/* Room for one more: the oldest one that is resolved gives its place. */
static struct mon_alert *add(struct mon_alerts *alerts, const struct mon_symptom *symptom,
                             double now_s)
{
    size_t at = 0;
    if (alerts->count < MON_ALERTS_MOST)
        at = alerts->count++;
    else
        while (at < alerts->count && !alerts->alert[at].resolved)
            at++;
    if (at == MON_ALERTS_MOST) {
        alerts->lost++;
        return NULL;
    }
    struct mon_alert *alert = &alerts->alert[at];
    *alert = (struct mon_alert){.id = alerts->next_id++,
                                .symptom = *symptom,
                                .begun_s = now_s,
                                .over_s = NAN,
                                .sent_s = NAN};
    return alert;
}

/* Has what an alert says moved on, to at least FARTHER times as far from where it came from? */
static bool is_farther(const struct mon_symptom *said, const struct mon_symptom *now)
{
    double so_far = log(said->after / said->before), all = log(now->after / said->before);
    return !strcmp(said->code, now->code) && all / so_far >= FARTHER;
}

const struct mon_alert *mon_alerts_raise(struct mon_alerts *alerts,
                                         const struct mon_symptom *symptom, double now_s)
{
    struct mon_alert *alert = find(alerts, symptom);
    bool added = !alert, worse = alert && (symptom->severity > alert->symptom.severity ||
                                           (symptom->severity == alert->symptom.severity &&
                                            is_farther(&alert->symptom, symptom)));
    if (added)
        alert = add(alerts, symptom, now_s);
    if (!alert)
        return NULL;
    size_t code = code_of(alert, symptom->code);
    if (code == alert->code_count && code < MON_SYMPTOMS_MOST)
        snprintf(alert->code[alert->code_count++], MON_NAME, "%s", symptom->code);
    if (code < MON_SYMPTOMS_MOST) {
        alert->times += !alert->active[code];
        alert->active[code] = true;
    }
    alert->over_s = NAN;
    if (worse)
        alert->symptom = *symptom;
    if (added || worse)
        notice(alerts, alert, worse ? MON_WORSE : MON_FIRING, now_s);
    return alert;
}

static bool on_rank(const struct mon_symptom *symptom, int64_t rank)
{
    for (size_t i = 0; i < symptom->rank_count; i++)
        if (symptom->rank[i] == rank)
            return true;
    return rank < 0 || !symptom->rank_count;
}

void mon_alerts_clear(struct mon_alerts *alerts, const char *code, int64_t rank, double now_s)
{
    for (size_t i = 0; i < alerts->count; i++) {
        struct mon_alert *alert = &alerts->alert[i];
        size_t at = code_of(alert, code);
        bool any = false;
        if (alert->resolved || at == alert->code_count || !on_rank(&alert->symptom, rank))
            continue;
        alert->active[at] = false;
        for (size_t j = 0; j < alert->code_count; j++)
            any = any || alert->active[j];
        if (!any && isnan(alert->over_s))
            alert->over_s = now_s;
    }
}

/* Is a page to be sent again, or now that the rate allows it? Without a token it waits for one,
 * without a notice. */
static bool is_due(struct mon_alerts *alerts, const struct mon_alert *alert, double now_s)
{
    bool page = isnan(alert->over_s) && alert->symptom.severity == MON_PAGE && !alert->acknowledged;
    return page && (alert->waits || now_s - alert->sent_s >= MON_REPEAT_S) &&
           has_token(alerts, now_s);
}

void mon_alerts_tick(struct mon_alerts *alerts, double now_s)
{
    for (size_t i = 0; i < alerts->count; i++) {
        struct mon_alert *alert = &alerts->alert[i];
        if (alert->resolved)
            continue;
        if (now_s - alert->over_s >= MON_HOLD_S) {
            alert->resolved = true;
            notice(alerts, alert, MON_RESOLVED, now_s);
        } else if (is_due(alerts, alert, now_s)) {
            enum mon_event again = alert->waits ? MON_WORSE : MON_REPEATED;
            notice(alerts, alert, isnan(alert->sent_s) ? MON_FIRING : again, now_s);
        }
    }
}

void mon_alerts_send_open(struct mon_alerts *alerts, double now_s)
{
    for (size_t i = 0; i < alerts->count; i++)
        if (!alerts->alert[i].resolved && isnan(alerts->alert[i].sent_s))
            notice(alerts, &alerts->alert[i], MON_FIRING, now_s);
}

size_t mon_alerts_acknowledge(struct mon_alerts *alerts, const char *id_or_code)
{
    size_t count = 0;
    char *end;
    int64_t id = strtoll(id_or_code, &end, 10);
    for (size_t i = 0; i < alerts->count; i++) {
        struct mon_alert *alert = &alerts->alert[i];
        bool meant = !*end && alert->id == id;
        for (size_t j = 0; j < alert->code_count; j++)
            meant = meant || matches(id_or_code, alert->code[j]);
        if (meant && !alert->resolved) {
            alert->acknowledged = true;
            count++;
        }
    }
    return count;
}

bool mon_alerts_has(const struct mon_alerts *alerts, const char *code)
{
    for (size_t i = 0; i < alerts->count; i++) {
        const struct mon_alert *alert = &alerts->alert[i];
        size_t at = code_of(alert, code);
        if (!alert->resolved && at < alert->code_count && alert->active[at])
            return true;
    }
    return false;
}
