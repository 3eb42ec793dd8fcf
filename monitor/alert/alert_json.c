/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/alert/alert_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/words.h"

#define SCHEMA "tacho-alert/1"

static void ranks_text(const struct mon_symptom *symptom, char text[128])
{
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < symptom->rank_count && used < 100; i++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%" PRId64, i ? ", " : "",
                                 symptom->rank[i]);
}

void mon_notice_text(const struct mon_notice *notice, char *text, size_t size)
{
    const struct mon_alert *alert = notice->alert;
    const struct mon_symptom *symptom = &alert->symptom;
    char ranks[128], steps[64] = "";
    ranks_text(symptom, ranks);
    if (symptom->since_step >= 0)
        snprintf(steps, sizeof steps, " since step %" PRId64, symptom->since_step);
    if (notice->event == MON_RESOLVED) {
        snprintf(text, size, "resolved %s %" PRId64 ": %s", symptom->code, alert->id,
                 symptom->text);
        return;
    }
    int used = snprintf(text, size, "%s %s %" PRId64 " [%s]: %s%s%s%s",
                        mon_severity_name(symptom->severity), symptom->code, alert->id,
                        mon_cause_name(symptom->cause), symptom->text, steps,
                        *ranks ? "; rank " : "", ranks);
    if (used > 0 && (size_t)used < size && *symptom->changed)
        snprintf(text + used, size - (size_t)used, "; %s", symptom->changed);
}

static json_t *text_json(const char *text)
{
    json_t *json = text && *text ? json_string(text) : NULL;
    return json ? json : json_null();
}

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *step_json(int64_t step)
{
    return step >= 0 ? json_integer(step) : json_null();
}

static json_t *codes_json(const struct mon_alert *alert)
{
    json_t *list = json_array();
    for (size_t i = 0; i < alert->code_count; i++)
        json_array_append_new(list, json_string(alert->code[i]));
    return list;
}

static json_t *ranks_json(const struct mon_symptom *symptom)
{
    json_t *list = json_array();
    for (size_t i = 0; i < symptom->rank_count; i++)
        json_array_append_new(list, json_integer(symptom->rank[i]));
    return list;
}

/* Keys and values that alternate, ended by NULL; takes the values. */
static json_t *object(const char *key, ...)
{
    va_list ap;
    json_t *all = json_object();
    va_start(ap, key);
    while (key) {
        json_object_set_new(all, key, va_arg(ap, json_t *));
        key = va_arg(ap, const char *);
    }
    va_end(ap);
    return all;
}

json_t *mon_notice_json(const struct mon_notice *notice, const struct mon_place *place)
{
    const struct mon_alert *alert = notice->alert;
    const struct mon_symptom *symptom = &alert->symptom;
    char time[AN_WORDS];
    return object(
        "schema", json_string(SCHEMA), "time", json_string(an_utc_print(time, place->realtime_ns)),
        "event", json_string(mon_event_name(notice->event)), "id", json_integer(alert->id), "run",
        text_json(place->run), "host", text_json(place->host), "code", json_string(symptom->code),
        "symptoms", codes_json(alert), "severity",
        json_string(mon_severity_name(symptom->severity)), "cause",
        json_string(mon_cause_name(symptom->cause)), "text", text_json(symptom->text), "changed",
        text_json(symptom->changed), "phase", text_json(symptom->phase), "ranks",
        ranks_json(symptom), "since_step", step_json(symptom->since_step), "found_step",
        step_json(symptom->found_step), "window_ns",
        json_pack("[I,I]", (json_int_t)symptom->since_ns, (json_int_t)symptom->found_ns), "before",
        number_json(symptom->before), "after", number_json(symptom->after), "unit",
        text_json(symptom->unit), "hint", json_string(mon_cause_hint(symptom->cause)), "sent",
        json_boolean(notice->send), "held", text_json(notice->held), "held_before",
        json_integer(notice->held_before), NULL);
}

static json_t *label(const char *text)
{
    json_t *json = json_string(text ? text : "");
    return json ? json : json_string("(not UTF-8)");
}

json_t *mon_notice_alertmanager(const struct mon_notice *notice, const struct mon_place *place)
{
    const struct mon_alert *alert = notice->alert;
    const struct mon_symptom *symptom = &alert->symptom;
    char begun[AN_WORDS], now[AN_WORDS], ranks[128], window[96];
    ranks_text(symptom, ranks);
    snprintf(window, sizeof window, "%" PRId64 "..%" PRId64 " ns", symptom->since_ns,
             symptom->found_ns);
    json_t *labels = object("alertname", label(symptom->code), "severity",
                            label(mon_severity_name(symptom->severity)), "cause",
                            label(mon_cause_name(symptom->cause)), "run", label(place->run),
                            "instance", label(place->host), "rank", label(ranks), NULL);
    json_t *annotations =
        object("summary", label(symptom->text), "description", label(symptom->changed), "window",
               label(window), "hint", label(mon_cause_hint(symptom->cause)), NULL);
    json_t *row = object("labels", labels, "annotations", annotations, "startsAt",
                         json_string(an_utc_print(begun, place->begun_ns)), NULL);
    if (notice->event == MON_RESOLVED)
        json_object_set_new(row, "endsAt", json_string(an_utc_print(now, place->realtime_ns)));
    json_t *list = json_array();
    json_array_append_new(list, row);
    return list;
}
