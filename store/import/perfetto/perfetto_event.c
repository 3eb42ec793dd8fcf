/* SPDX-License-Identifier: Apache-2.0
 *
 * Track events as events of Kineto: a begin waits on its track for its end, and both become one
 * complete event with the arguments of the begin.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/perfetto/perfetto_private.h"
#include "store/store.h"

enum {
    EVENT_CATEGORY_NUMBER = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_NUMBER = 10,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    EVENT_COUNTER_DOUBLE = 44
};
enum { TYPE_BEGIN = 1, TYPE_END, TYPE_INSTANT, TYPE_COUNTER };
enum {
    ANNOTATION_NAME_NUMBER = 1,
    ANNOTATION_BOOL,
    ANNOTATION_UINT,
    ANNOTATION_INT,
    ANNOTATION_DOUBLE,
    ANNOTATION_TEXT,
    ANNOTATION_POINTER,
    ANNOTATION_JSON = 9,
    ANNOTATION_NAME,
    ANNOTATION_TEXT_NUMBER = 17
};

/* One event while it is read. */
struct reading {
    int type;
    uint64_t track;
    bool has_track;
    struct pb_span name, category;
    double value;
    bool has_value;
};

/* ---- emitting ---------------------------------------------------------------------------------- */

/* Numbers of an event as texts. */
struct numbers {
    char pid[24], tid[24], start[32], dur[32];
};

static struct kj_span place_span(const struct perfetto_open *open, struct perfetto_place place)
{
    return (struct kj_span){open->text.data + place.at, place.bytes};
}

/* Emits an event of a phase; `dur` NULL: it has none. */
static int emit(struct perfetto *perfetto, const struct perfetto_open *open, const char *phase,
                size_t track, const int64_t *end)
{
    struct kj_arg arg[KJ_ARGS_MAX];
    struct numbers numbers;
    struct kj_event event = {.arg = arg, .arg_count = open->arg_count};
    int64_t pid, tid;
    perfetto_place_of(perfetto, track, &pid, &tid);
    snprintf(numbers.pid, sizeof numbers.pid, "%" PRId64, pid);
    snprintf(numbers.tid, sizeof numbers.tid, "%" PRId64, tid);
    snprintf(numbers.start, sizeof numbers.start, "%" PRId64 ".%03" PRId64, open->time / 1000,
             open->time % 1000);
    event.field[KJ_PH] = kineto_span(phase);
    event.field[KJ_PID] = kineto_span(numbers.pid);
    event.field[KJ_TID] = kineto_span(numbers.tid);
    event.field[KJ_TS] = kineto_span(numbers.start);
    event.field[KJ_NAME] = place_span(open, open->name);
    if (open->category.bytes)
        event.field[KJ_CAT] = place_span(open, open->category);
    if (end) {
        int64_t dur = *end - open->time;
        snprintf(numbers.dur, sizeof numbers.dur, "%" PRId64 ".%03" PRId64, dur / 1000, dur % 1000);
        event.field[KJ_DUR] = kineto_span(numbers.dur);
    }
    for (size_t i = 0; i < open->arg_count; i++) {
        struct kj_span key = place_span(open, open->arg[i].key);
        arg[i] = (struct kj_arg){key, place_span(open, open->arg[i].value),
                                 kineto_arg_find(key.text, key.bytes)};
    }
    perfetto_rocm(perfetto, &event, perfetto_text(perfetto, perfetto->track[track].name));
    return perfetto->emit(perfetto->to, &event);
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* Appends a text as a JSON string. */
static struct perfetto_place put_string(struct kineto_text *text, struct pb_span span)
{
    struct perfetto_place place = {.at = text->bytes};
    kineto_json_string(text, span.data ? (const char *)span.data : "", span.bytes);
    place.bytes = text->bytes - place.at;
    return place;
}

/* Appends the value of an annotation as JSON; no bytes: it has a kind that is not read. */
static struct perfetto_place put_value(struct kineto_text *text, const struct pb_field *field)
{
    struct perfetto_place place = {.at = text->bytes};
    char number[40] = "";
    if (field->number == ANNOTATION_TEXT && field->wire == PB_BYTES)
        return put_string(text, field->span);
    if (field->number == ANNOTATION_JSON && field->wire == PB_BYTES)
        kineto_json_copy(text, (struct kj_span){(const char *)field->span.data, field->span.bytes});
    else if (field->number == ANNOTATION_BOOL)
        snprintf(number, sizeof number, "%s", field->value ? "true" : "false");
    else if (field->number == ANNOTATION_INT)
        snprintf(number, sizeof number, "%" PRId64, (int64_t)field->value);
    else if (field->number == ANNOTATION_DOUBLE && field->wire == PB_FIXED64)
        snprintf(number, sizeof number, "%.17g", pb_double(field));
    else if (field->number == ANNOTATION_UINT || field->number == ANNOTATION_POINTER)
        snprintf(number, sizeof number, "%" PRIu64, field->value);
    kineto_text_puts(text, number);
    place.bytes = text->bytes - place.at;
    return place;
}

/* Reads one annotation: a name and a value. */
static void read_annotation(const struct perfetto *perfetto,
                            const struct perfetto_sequence *sequence, struct pb_span message,
                            struct perfetto_open *open)
{
    struct pb pb = pb_of(message);
    struct pb_field field, value = {0};
    struct pb_span key = {NULL, 0};
    while (pb_next(&pb, &field)) {
        if (field.number == ANNOTATION_NAME_NUMBER && field.wire == PB_VARINT)
            key = perfetto_interned_text(perfetto, sequence, PERFETTO_ANNOTATION, field.value);
        else if (field.number == ANNOTATION_NAME && field.wire == PB_BYTES)
            key = field.span;
        else
            value = field;
        if (value.number == ANNOTATION_TEXT_NUMBER && value.wire == PB_VARINT)
            value = (struct pb_field){
                .number = ANNOTATION_TEXT,
                .wire = PB_BYTES,
                .span = perfetto_interned_text(perfetto, sequence, PERFETTO_VALUE, value.value)};
    }
    if (pb.bad || !key.bytes || !value.number || open->arg_count == KJ_ARGS_MAX)
        return;
    struct perfetto_arg *bigger = realloc(open->arg, (open->arg_count + 1) * sizeof *open->arg);
    if (!bigger) {
        open->text.failed = true;
        return;
    }
    open->arg = bigger;
    struct perfetto_arg *arg = &open->arg[open->arg_count];
    arg->key = put_string(&open->text, key);
    if (arg->key.bytes < 2)
        return;
    arg->key.at++; /* keys have no quotes */
    arg->key.bytes -= 2;
    arg->value = put_value(&open->text, &value);
    open->arg_count += arg->value.bytes > 0;
}

/* Reads all but the annotations. */
static struct reading read_head(const struct perfetto *perfetto,
                                const struct perfetto_sequence *sequence, struct pb_span message)
{
    struct reading reading = {.track = sequence->default_track,
                              .has_track = sequence->has_default_track};
    struct pb pb = pb_of(message);
    struct pb_field field;
    while (pb_next(&pb, &field)) {
        if (field.number == EVENT_TYPE)
            reading.type = field.value <= TYPE_COUNTER ? (int)field.value : 0;
        else if (field.number == EVENT_TRACK && field.wire == PB_VARINT)
            reading.track = field.value;
        else if (field.number == EVENT_NAME && field.wire == PB_BYTES)
            reading.name = field.span;
        else if (field.number == EVENT_NAME_NUMBER && field.wire == PB_VARINT)
            reading.name = perfetto_interned_text(perfetto, sequence, PERFETTO_NAME, field.value);
        else if (field.number == EVENT_CATEGORY && field.wire == PB_BYTES)
            reading.category = field.span;
        else if (field.number == EVENT_CATEGORY_NUMBER && field.wire == PB_VARINT)
            reading.category =
                perfetto_interned_text(perfetto, sequence, PERFETTO_CATEGORY, field.value);
        else if (field.number == EVENT_COUNTER_DOUBLE && field.wire == PB_FIXED64)
            reading.value = pb_double(&field);
        else if (field.number == EVENT_COUNTER && field.wire == PB_VARINT)
            reading.value = (double)(int64_t)field.value;
        reading.has_value |= field.number == EVENT_COUNTER_DOUBLE || field.number == EVENT_COUNTER;
    }
    return reading;
}

/* Keeps what a begin or an instant says. */
static int read_open(const struct perfetto *perfetto, const struct perfetto_sequence *sequence,
                     struct pb_span message, const struct reading *reading,
                     struct perfetto_open *open)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    open->name = put_string(&open->text, reading->name);
    if (reading->category.bytes)
        open->category = put_string(&open->text, reading->category);
    while (pb_next(&pb, &field))
        if (field.number == EVENT_ANNOTATION && field.wire == PB_BYTES)
            read_annotation(perfetto, sequence, field.span, open);
    return open->text.failed ? TACHO_ENOMEM : 0;
}

/* ---- events ------------------------------------------------------------------------------------ */

static int push(struct perfetto *perfetto, struct perfetto_track *track, struct perfetto_open open)
{
    if (track->open_count == PERFETTO_OPEN_MOST) {
        perfetto->too_deep++;
        perfetto_open_clear(&open);
        return 0;
    }
    if (imp_list_room((void **)&track->open, &track->open_room, track->open_count, sizeof open)) {
        perfetto_open_clear(&open);
        return TACHO_ENOMEM;
    }
    track->open[track->open_count++] = open;
    return 0;
}

static int end_slice(struct perfetto *perfetto, size_t index, int64_t time)
{
    struct perfetto_track *track = &perfetto->track[index];
    if (!track->open_count) {
        perfetto->no_begin++;
        return 0;
    }
    struct perfetto_open *open = &track->open[--track->open_count];
    int64_t end = time > open->time ? time : open->time;
    int rc = emit(perfetto, open, "\"X\"", index, &end);
    perfetto_open_clear(open);
    return rc;
}

/* The value of a counter in its unit: of one that tells differences, the sum so far. */
static double counted(struct perfetto_track *track, const struct perfetto_sequence *sequence,
                      double value)
{
    if (track->incremental) {
        if (track->clears != sequence->clears)
            track->sum = 0;
        track->clears = sequence->clears;
        track->sum += value;
        value = track->sum;
    }
    return value * (double)track->multiplier;
}

static int count_value(struct perfetto *perfetto, const struct perfetto_sequence *sequence,
                       size_t index, const struct reading *reading, int64_t time)
{
    struct perfetto_open open = {.time = time};
    struct perfetto_arg arg;
    struct perfetto_track *track = &perfetto->track[index];
    struct pb_span name = perfetto_text(perfetto, track->name);
    char number[40];
    if (!reading->has_value)
        return 0;
    int length = snprintf(number, sizeof number, "%.17g", counted(track, sequence, reading->value));
    open.name = put_string(&open.text, name.bytes ? name : reading->name);
    arg.key = (struct perfetto_place){open.text.bytes, 5};
    kineto_text_puts(&open.text, "value");
    arg.value = (struct perfetto_place){open.text.bytes, (size_t)length};
    kineto_text_puts(&open.text, number);
    open.arg = &arg;
    open.arg_count = 1;
    int rc = open.text.failed ? TACHO_ENOMEM : emit(perfetto, &open, "\"C\"", index, NULL);
    kineto_text_clear(&open.text);
    return rc;
}

int perfetto_event(struct perfetto *perfetto, const struct perfetto_sequence *sequence,
                   struct pb_span message, int64_t time)
{
    struct reading reading = read_head(perfetto, sequence, message);
    struct perfetto_open open = {.time = time};
    int64_t index = perfetto_track_at(perfetto, reading.track);
    if (index < 0)
        return TACHO_ENOMEM;
    perfetto->events++;
    if (reading.type == TYPE_END)
        return end_slice(perfetto, (size_t)index, time);
    if (reading.type == TYPE_COUNTER)
        return count_value(perfetto, sequence, (size_t)index, &reading, time);
    if (reading.type != TYPE_BEGIN && reading.type != TYPE_INSTANT) {
        perfetto->others++;
        return 0;
    }
    int rc = read_open(perfetto, sequence, message, &reading, &open);
    if (!rc && reading.type == TYPE_BEGIN)
        return push(perfetto, &perfetto->track[index], open);
    if (!rc)
        rc = emit(perfetto, &open, "\"i\"", (size_t)index, NULL);
    perfetto_open_clear(&open);
    return rc;
}

int perfetto_events_done(struct perfetto *perfetto)
{
    int rc = 0;
    for (size_t i = 0; i < perfetto->track_count; i++)
        for (size_t k = 0; k < perfetto->track[i].open_count && !rc; k++)
            rc = emit(perfetto, &perfetto->track[i].open[k], "\"B\"", i, NULL);
    return rc;
}
