/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns one event of a Kineto trace into rows: slices, counters, names.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto_private.h"

#define BASE_TYPICAL INT64_C(1750000000000000000) /* the year 2025 */
#define OPEN_MAX     (1u << 20)                   /* begin events that may wait for their end */

/* ---- times ------------------------------------------------------------------------------------------------------------- */

/* Reads a time as ns, and notes how many decimals it has. The first time decides whether the unit
 * is us or ns. */
static bool time_of(struct kineto *kineto, struct kj_span span, int64_t *ns, int *finest)
{
    int decimals = 0;
    bool rounded = false;
    /* us since 1970 are 1.7e15 today: whole numbers a hundred times as large are ns. */
    if (!kineto->unit) {
        int64_t value;
        kineto->unit = kineto_int(span, &value) && value > INT64_C(100000000000000000) ? 1 : 1000;
    }
    if (!kineto_time(span, kineto->unit, ns, &decimals, &rounded))
        return false;
    if (finest && decimals > *finest)
        *finest = decimals;
    kineto->rounded += rounded;
    return true;
}

/* The start of an event as it is stored. While the base of the times is not known yet, a typical
 * one is added, so that rows do not grow when the true base replaces it. */
static bool start_of(struct kineto *kineto, const struct kj_event *event, int64_t *start)
{
    if (!time_of(kineto, event->field[KJ_TS], start, &kineto->decimals))
        return false;
    if (!kineto->base_guessed && kineto->base_known)
        kineto->base = kineto->base_final;
    else if (!kineto->base_guessed && *start < BASE_TYPICAL / 4)
        kineto->base = BASE_TYPICAL;
    kineto->base_guessed = true;
    kineto->ts_min = *start < kineto->ts_min ? *start : kineto->ts_min;
    kineto->ts_max = *start > kineto->ts_max ? *start : kineto->ts_max;
    return !__builtin_add_overflow(*start, kineto->base, start) && *start != STORE_ABSENT;
}

/* ---- slices ------------------------------------------------------------------------------------------------------------ */

/* Does the text begin so? */
static bool starts(struct kj_span span, const char *with)
{
    size_t bytes = strlen(with);
    span = kineto_inside(span);
    return span.text && span.bytes >= bytes && !memcmp(span.text, with, bytes);
}

/* Is it an annotation that versions before 2022 recorded as an operator? */
static bool is_legacy_annotation(struct kj_span name)
{
    return starts(name, "ProfilerStep#") || starts(name, "enumerate(DataLoader)#") ||
           starts(name, "enumerate(DataPipe)#") || starts(name, "Optimizer.");
}

/* The class of a category and its name in the store, from a small cache that is indexed by the
 * length and two letters of the category. A name that has a meaning in the store gets a prefix. */
static const struct kineto_category_memo *category_of(struct kineto *kineto, struct kj_span cat)
{
    cat = kineto_inside(cat);
    size_t slot = 0, bytes = cat.text ? cat.bytes : 0;
    if (bytes)
        slot =
            1 +
            (bytes * 7 + (unsigned char)cat.text[0] + 3u * (unsigned char)cat.text[bytes - 1]) % 63;
    struct kineto_category_memo *memo = &kineto->category[slot];
    if (memo->bytes == bytes && memo->name != KINETO_NONE &&
        (!bytes || !memcmp(memo->text, cat.text, bytes)))
        return memo;
    memo->class = kineto_category_find(cat);
    const char *name = kineto_class_name(memo->class);
    memo->bytes = SIZE_MAX;
    if (name) {
        memo->name = kineto_string_number(kineto, name, strlen(name));
    } else if (!bytes || kineto_equals(cat, "Trace")) {
        memo->name = kineto_string_number(kineto, "trace", 5);
    } else if (kineto_category_reserved(cat)) {
        kineto->scratch.bytes = 0;
        kineto_text_puts(&kineto->scratch, "kineto:");
        kineto_text_put(&kineto->scratch, cat.text, cat.bytes);
        memo->name = kineto_string_number(kineto, kineto->scratch.data, kineto->scratch.bytes);
    } else {
        memo->name = kineto_string_number(kineto, cat.text, cat.bytes);
    }
    if (bytes <= sizeof memo->text) {
        if (bytes)
            memcpy(memo->text, cat.text, bytes);
        memo->bytes = bytes;
    }
    return memo;
}

/* The string of the category of a class. */
static uint32_t class_category(struct kineto *kineto, enum kineto_class class)
{
    const char *name = kineto_class_name(class);
    return kineto_string_number(kineto, name, strlen(name));
}

/* Is it a wait in the queue of a device of MTIA? It has the category of the host's calls, but its
 * process is the device. */
static bool is_mtia_wait(const struct kj_event *event)
{
    int64_t pid;
    return kineto_equals(event->field[KJ_CAT], "mtia_runtime") &&
           kineto_equals(event->field[KJ_NAME], "synchronize") &&
           kineto_int(event->field[KJ_PID], &pid) &&
           kineto_int_arg(event, KINETO_ARG_DEVICE) == pid;
}

/* Fills all of a slice but start and dur, and says which class it has. */
static int slice_fill(struct kineto *kineto, const struct kj_event *event,
                      struct kineto_slice *slice, enum kineto_class *class)
{
    const struct kineto_category_memo *memo = category_of(kineto, event->field[KJ_CAT]);
    enum kineto_class kind = memo->class;
    slice->category = memo->name;
    slice->name = kineto_is_null(event->field[KJ_NAME])
                      ? kineto_string_number(kineto, "(no name)", 9)
                      : kineto_string_json(kineto, event->field[KJ_NAME]);
    if (kind == KINETO_OP && is_legacy_annotation(event->field[KJ_NAME])) {
        kind = KINETO_ANNOTATION;
        slice->category = class_category(kineto, kind);
    } else if (kind == KINETO_OTHER && kineto_int_arg(event, KINETO_ARG_DEVICE) != STORE_ABSENT &&
               kineto_int_arg(event, KINETO_ARG_STREAM) != STORE_ABSENT) {
        kind = KINETO_KERNEL; /* a new accelerator: what names its device and stream ran on it */
        slice->category = class_category(kineto, kind);
    } else if (kind == KINETO_KERNEL && kineto_equals(event->field[KJ_CAT], "mtia_ccp_events")) {
        if (starts(event->field[KJ_NAME], "dma"))
            kind = KINETO_MEMCPY;
        else if (starts(event->field[KJ_NAME], "event_")) /* record, wait */
            kind = KINETO_SYNC;
        slice->category = class_category(kineto, kind);
    } else if (kind == KINETO_RUNTIME && is_mtia_wait(event)) {
        kind = KINETO_SYNC;
        slice->category = class_category(kineto, kind);
    }
    slice->track = kineto_class_is_device(kind) ? kineto_track_device(kineto, event)
                                                : kineto_track_host(kineto, event);
    slice->correlation = kineto_int_arg(event, KINETO_ARG_CORRELATION);
    int64_t forward = 0;
    if (kind == KINETO_OP || kind == KINETO_ANNOTATION) {
        slice->correlation = kineto_int_arg(event, KINETO_ARG_SEQUENCE);
        if (slice->correlation < 0)
            slice->correlation = STORE_ABSENT;
        forward = kineto_int_arg(event, KINETO_ARG_FWD_THREAD);
    }
    slice->detail =
        kineto_detail(kineto, event, kind, slice->name, forward != STORE_ABSENT && forward != 0);
    *class = kind;
    return kineto->code;
}

/* Adds a slice to the batch; a full batch is handed to the inserter first. */
static int slice_put(struct kineto *kineto, const struct kineto_slice *slice)
{
    if (kineto->batch->slices == KINETO_BATCH_ROWS) {
        kineto->batch_serial++;
        int status = kineto->full(kineto);
        if (status)
            return status;
    }
    kineto->batch->slice[kineto->batch->slices++] = *slice;
    kineto->slices++;
    return 0;
}

/* ph X: one slice. An operator is remembered, because the flow arrow that marks it as backward
 * comes right after it. */
static int complete(struct kineto *kineto, const struct kj_event *event)
{
    struct kineto_slice slice;
    enum kineto_class class;
    if (!start_of(kineto, event, &slice.start)) {
        kineto->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    int64_t end;
    if (!time_of(kineto, event->field[KJ_DUR], &slice.dur, NULL) || slice.dur < 0 ||
        __builtin_add_overflow(slice.start, slice.dur, &end)) {
        kineto->loss[KINETO_LOSS_DUR]++;
        slice.dur = STORE_ABSENT;
    }
    if (slice_fill(kineto, event, &slice, &class))
        return kineto->code;
    int status = slice_put(kineto, &slice);
    if (class == KINETO_RUNTIME || class == KINETO_DRIVER)
        kineto_launch_note(kineto, &slice);
    if (!status && class == KINETO_OP) {
        struct kineto_track *track = &kineto->track[slice.track];
        track->last_start = slice.start;
        track->last_row = kineto->batch->slices - 1;
        track->last_batch = kineto->batch_serial;
    }
    return status;
}

/* ph B: the slice waits on its track until its end event. */
static int begin(struct kineto *kineto, const struct kj_event *event)
{
    struct kineto_slice slice;
    enum kineto_class class;
    if (!start_of(kineto, event, &slice.start)) {
        kineto->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    slice.dur = STORE_ABSENT;
    if (slice_fill(kineto, event, &slice, &class))
        return kineto->code;
    struct kineto_track *track = &kineto->track[slice.track];
    if (kineto->open_total >= OPEN_MAX) {
        kineto->loss[KINETO_LOSS_NO_END]++;
        return slice_put(kineto, &slice);
    }
    if (track->open_count == track->open_cap) {
        size_t cap = track->open_cap ? 2 * track->open_cap : 16;
        struct kineto_slice *open = realloc(track->open, cap * sizeof *open);
        if (!open)
            return kineto_no_memory(kineto);
        track->open = open;
        track->open_cap = cap;
    }
    track->open[track->open_count++] = slice;
    kineto->open_total++;
    return 0;
}

/* Ends the innermost begin event of its thread. Arguments of the end count where the begin had
 * none. */
static int end(struct kineto *kineto, const struct kj_event *event)
{
    int64_t start;
    if (!start_of(kineto, event, &start)) {
        kineto->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    bool device = kineto_class_is_device(category_of(kineto, event->field[KJ_CAT])->class);
    uint32_t track = device ? kineto_track_device(kineto, event)
                            : kineto_track_host(kineto, event); /* may move k->track */
    if (kineto->code)
        return kineto->code;
    struct kineto_track *row_track = &kineto->track[track];
    if (!row_track->open_count) {
        kineto->loss[KINETO_LOSS_NO_BEGIN]++;
        return 0;
    }
    struct kineto_slice slice = row_track->open[--row_track->open_count];
    kineto->open_total--;
    if (__builtin_sub_overflow(start, slice.start, &slice.dur) || slice.dur < 0) {
        kineto->loss[KINETO_LOSS_DUR]++;
        slice.dur = STORE_ABSENT;
    }
    if (slice.detail == KINETO_NONE && event->arg_count)
        slice.detail = kineto_detail(
            kineto, event, category_of(kineto, event->field[KJ_CAT])->class, slice.name, false);
    return kineto->code ? kineto->code : slice_put(kineto, &slice);
}

#define COUNTER_NAME_MOST 1024 /* bytes */

/* ---- counters ---------------------------------------------------------------------------------------------------------- */

/* Adds a value of a counter to the batch. */
static int counter_put(struct kineto *kineto, uint32_t track, int64_t time, double value)
{
    if (kineto->code)
        return kineto->code;
    if (kineto->batch->counters == KINETO_BATCH_ROWS) {
        kineto->batch_serial++;
        int status = kineto->full(kineto);
        if (status)
            return status;
    }
    kineto->batch->counter[kineto->batch->counters++] =
        (struct kineto_counter){.time = time, .value = value, .track = track};
    kineto->counters++;
    return 0;
}

/* A number in the C locale, whatever the locale of the program. */
static bool double_of(struct kj_span span, double *out)
{
    static locale_t c_locale;
    char text[64], *end;
    span = kineto_inside(span);
    if (!span.text || !span.bytes || span.bytes >= sizeof text ||
        !strchr("-+0123456789.", span.text[0]))
        return false;
    if (!c_locale)
        c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    memcpy(text, span.text, span.bytes);
    text[span.bytes] = 0;
    *out = c_locale ? strtod_l(text, &end, c_locale) : strtod(text, &end);
    return end == text + span.bytes;
}

/* ph C: one track for each value. */
static int counter(struct kineto *kineto, const struct kj_event *event)
{
    int64_t start;
    if (!start_of(kineto, event, &start)) {
        kineto->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    struct kj_span name = kineto_inside(event->field[KJ_NAME]);
    if (name.bytes > COUNTER_NAME_MOST) /* each value has it in the name of its track */
        name.bytes = COUNTER_NAME_MOST;
    for (size_t i = 0; i < event->arg_count; i++) {
        double value;
        if (!double_of(event->arg[i].value, &value)) {
            kineto->loss[KINETO_LOSS_COUNTER]++;
            continue;
        }
        kineto->payload.bytes = 0;
        if (name.text)
            kineto_text_put(&kineto->payload, name.text, name.bytes);
        if (event->arg_count > 1 || !name.bytes) {
            kineto_text_puts(&kineto->payload, name.bytes ? "." : "");
            kineto_text_put(&kineto->payload, event->arg[i].key.text, event->arg[i].key.bytes);
        }
        uint32_t track = kineto_track_counter(
            kineto, event->field[KJ_PID],
            (struct kj_span){kineto->payload.data, kineto->payload.bytes}, "", NULL);
        int status = counter_put(kineto, track, start, value);
        if (status)
            return status;
    }
    return 0;
}

/* Totals of the allocator, in [memory] events. */
static int memory_totals(struct kineto *kineto, const struct kj_event *event, int64_t start)
{
    static const struct {
        enum kineto_arg arg;
        const char *name;
    } totals[] = {{KINETO_ARG_MEMORY_ALLOCATED, "memory.allocated"},
                  {KINETO_ARG_MEMORY_RESERVED, "memory.reserved"}};
    char device[32] = "cpu";
    int64_t id = kineto_int_arg(event, KINETO_ARG_MEMORY_DEVICE);
    if (id != STORE_ABSENT && id >= 0 && kineto_int_arg(event, KINETO_ARG_MEMORY_DEVICE_TYPE) != 0)
        snprintf(device, sizeof device, "gpu:%d", (int)(id & 0xffff));
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        int64_t bytes = kineto_int_arg(event, totals[i].arg);
        if (bytes == STORE_ABSENT)
            continue;
        struct kj_span name = {totals[i].name, strlen(totals[i].name)};
        int status = counter_put(
            kineto, kineto_track_counter(kineto, event->field[KJ_PID], name, device, "bytes"),
            start, (double)bytes);
        if (status)
            return status;
    }
    return 0;
}

/* ph i: a slice without duration; those of the allocator also set its counters. */
static int instant(struct kineto *kineto, const struct kj_event *event)
{
    struct kineto_slice slice;
    enum kineto_class class;
    if (!start_of(kineto, event, &slice.start)) {
        kineto->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    slice.dur = 0;
    if (slice_fill(kineto, event, &slice, &class))
        return kineto->code;
    if (class == KINETO_OTHER || class == KINETO_OP || class == KINETO_ANNOTATION) {
        slice.category = class_category(kineto, KINETO_INSTANT);
        if (slice.detail == KINETO_NONE)
            slice.detail = kineto_detail(kineto, event, KINETO_INSTANT, slice.name, false);
    }
    int status = slice_put(kineto, &slice);
    if (!status && kineto_arg_of(event, KINETO_ARG_MEMORY_ALLOCATED))
        status = memory_totals(kineto, event, slice.start);
    return status ? status : kineto->code;
}

/* ---- flow arrows --------------------------------------------------------------------------------------------------------- */

/* Reads a flow arrow. Those from launch to kernel are implied by the correlation. The head of one
 * from forward to backward marks its operator as backward where the operator itself does not name
 * its forward thread; Kineto writes it right after the operator. */
static int flow(struct kineto *kineto, const struct kj_event *event)
{
    int64_t start;
    if (!kineto_equals(event->field[KJ_PH], "f") || !kineto_equals(event->field[KJ_CAT], "fwdbwd"))
        return 0;
    if (!start_of(kineto, event, &start)) {
        kineto->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    uint32_t track = kineto_track_host(kineto, event); /* may move k->track */
    if (kineto->code)
        return kineto->code;
    struct kineto_track *row_track = &kineto->track[track];
    if (row_track->last_batch != kineto->batch_serial || row_track->last_start != start)
        return 0;
    struct kineto_slice *slice = &kineto->batch->slice[row_track->last_row];
    slice->detail = kineto_detail_backward(kineto, slice->detail, KINETO_OP);
    return kineto->code;
}

/* ---- all of them --------------------------------------------------------------------------------------------------------- */

/* Is it a mark of the profiler itself, which even a trace without anything else has? */
static bool is_mark(const struct kj_event *event)
{
    return kineto_equals(event->field[KJ_NAME], "Record Window End") ||
           (kineto_equals(event->field[KJ_CAT], "Trace") &&
            (kineto_begins(event->field[KJ_NAME], "PyTorch Profiler") ||
             kineto_begins(event->field[KJ_NAME], "Iteration Start: PyTorch Profiler")));
}

int kineto_event(struct kineto *kineto, const struct kj_event *event)
{
    struct kj_span phase = kineto_inside(event->field[KJ_PH]);
    /* `tacho export --critical-path` adds these events; they are not part of the run. */
    if (kineto_equals(event->field[KJ_CAT], "critical_path"))
        return 0;
    kineto->events++;
    kineto->loss[KINETO_LOSS_ARGS] += event->args_cut;
    if (kineto->marks >= kineto->slices) /* nothing of the program yet */
        kineto->marks += is_mark(event);
    switch (phase.text && phase.bytes == 1 ? phase.text[0] : 0) {
    case 'X':
        return complete(kineto, event);
    case 'B':
        return begin(kineto, event);
    case 'E':
        return end(kineto, event);
    case 'i':
    case 'I':
    case 'R':
        return instant(kineto, event);
    case 'C':
        return counter(kineto, event);
    case 'M':
        return kineto_metadata(kineto, event);
    case 's':
    case 't':
    case 'f':
        return flow(kineto, event);
    default:
        kineto->loss[KINETO_LOSS_PHASE]++;
        return 0;
    }
}

int kineto_events_done(struct kineto *kineto)
{
    for (size_t i = 0; i < kineto->tracks; i++)
        for (size_t j = 0; j < kineto->track[i].open_count; j++) {
            kineto->loss[KINETO_LOSS_NO_END]++;
            int status = slice_put(kineto, &kineto->track[i].open[j]);
            if (status)
                return status;
        }
    if (kineto->slices && kineto->slices == kineto->marks && !kineto->counters &&
        kineto->slices == (int64_t)kineto->batch->slices) { /* the trace is empty */
        kineto->batch->slices = 0;
        kineto->slices = 0;
    }
    return kineto->code;
}
