/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a timeline of all workers of a job: a list of events in the form of Chrome's traces, one
 * process for each data-parallel rank, threads named "PP rank 0, TP rank 0, compute", and the step
 * and micro-batch of each operation in its arguments. The frame and the JSON are those of Kineto.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/input.h"
#include "store/import/kineto/kineto_frame.h"
#include "store/import/kineto/kineto_text.h"
#include "store/import/workers/workers_import.h"
#include "store/import/workers/workers_private.h"

struct reading {
    struct imp_run *run;
    struct workers_timeline timeline;
    struct kj_parser *json;
    struct imp_input *in;
    int64_t reported, events;
    bool too_many;
};

static bool recognises(const unsigned char *head, size_t bytes)
{
    static const char *const words[] = {"\"PP rank ", "\"mb_id\"", "\"model_chunk\"", "\"seq_id\""};
    size_t found = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        found += memmem(head, bytes, words[i], strlen(words[i])) != NULL;
    return bytes && (head[0] == '[' || head[0] == '{') &&
           (found >= 3 || memmem(head, bytes, words[0], strlen(words[0])));
}

/* Makes room for one element more, up to `most`. */
static int room_for(struct reading *reading, void **list, size_t *room, size_t count, size_t size,
                    size_t most)
{
    if (count < *room)
        return 0;
    if (count >= most) {
        reading->too_many = true;
        return TACHO_EFORMAT;
    }
    size_t wanted = *room ? 2 * *room : 1024;
    void *bigger = realloc(*list, wanted * size);
    if (!bigger)
        return TACHO_ENOMEM;
    *list = bigger;
    *room = wanted;
    return 0;
}

static bool number_within(struct kj_span span, int64_t least, int64_t most, int64_t *out)
{
    return kineto_int(span, out) && *out >= least && *out <= most;
}

/* "PP rank 0, TP rank 0, compute" */
static int read_thread(struct reading *reading, const struct kj_event *event)
{
    struct workers_timeline *timeline = &reading->timeline;
    struct kj_span name = kineto_inside(kineto_value(event, "name"));
    struct workers_thread thread;
    char text[64];
    int rc;
    if (!kineto_equals(event->field[KJ_NAME], "thread_name"))
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)(name.bytes < 60 ? name.bytes : 60),
             name.text ? name.text : "");
    if (sscanf(text, "PP rank %6d, TP rank %6d,", &thread.stage, &thread.tensor) != 2 ||
        thread.stage < 0 || thread.tensor < 0 || thread.stage > WORKERS_PLACE_MOST ||
        thread.tensor > WORKERS_PLACE_MOST ||
        !number_within(event->field[KJ_PID], 0, WORKERS_PLACE_MOST, &thread.pid) ||
        !kineto_int(event->field[KJ_TID], &thread.tid)) {
        timeline->malformed++;
        return 0;
    }
    if ((rc = room_for(reading, (void **)&timeline->thread, &timeline->thread_room,
                       timeline->thread_count, sizeof thread, WORKERS_THREADS_MOST)))
        return rc;
    timeline->thread[timeline->thread_count++] = thread;
    return 0;
}

static int32_t kind_named(struct kj_span name)
{
    for (size_t i = 0; i < workers_kind_count; i++)
        if (kineto_equals(name, workers_kinds[i].name))
            return (int32_t)i;
    return -1;
}

/* An operation; one without a time, a place or a step is counted as malformed. */
static int read_op(struct reading *reading, const struct kj_event *event)
{
    struct workers_timeline *timeline = &reading->timeline;
    struct workers_op op = {.kind = kind_named(event->field[KJ_NAME])};
    int64_t sequence;
    int decimals, rc;
    bool rounded;
    if (op.kind < 0) {
        timeline->unknown++;
        return 0;
    }
    if (!kineto_time(event->field[KJ_TS], 1000, &op.start, &decimals, &rounded) ||
        !kineto_time(event->field[KJ_DUR], 1000, &op.dur, &decimals, &rounded) ||
        llabs(op.start) > INT64_MAX / 4 || llabs(op.dur) > INT64_MAX / 4 ||
        !number_within(event->field[KJ_PID], 0, WORKERS_PLACE_MOST, &op.pid) ||
        !kineto_int(event->field[KJ_TID], &op.tid) ||
        !number_within(kineto_value(event, "step"), 0, WORKERS_STEP_MOST, &op.step) ||
        !number_within(kineto_value(event, "seq_id"), 0, WORKERS_SEQUENCE_MOST - 1, &sequence)) {
        timeline->malformed++;
        return 0;
    }
    op.sequence = (int32_t)sequence;
    timeline->negative += op.dur < 0;
    op.dur = op.dur < 0 ? 0 : op.dur;
    if ((rc = room_for(reading, (void **)&timeline->op, &timeline->op_room, timeline->op_count,
                       sizeof op, WORKERS_OPS_MOST)))
        return rc;
    timeline->op[timeline->op_count++] = op;
    return 0;
}

static int on_event(void *ctx, const struct kj_event *event)
{
    struct reading *reading = ctx;
    reading->events++;
    if (kineto_equals(event->field[KJ_PH], "M"))
        return read_thread(reading, event);
    return kineto_equals(event->field[KJ_PH], "X") ? read_op(reading, event) : 0;
}

/* One window of events; what simdjson refuses is counted, not repaired. */
static int on_window(void *ctx, const char *text, size_t bytes)
{
    struct reading *reading = ctx;
    size_t count = 0;
    int64_t now = imp_input_position(reading->in), more = now - reading->reported;
    reading->reported = now;
    int rc = imp_progress(reading->run, more);
    if (rc)
        return rc;
    enum kj_result result = kj_events(reading->json, text, bytes, on_event, reading, &count);
    if (result == KJ_STOPPED)
        return reading->too_many ? TACHO_EFORMAT : TACHO_ENOMEM;
    reading->timeline.malformed += result == KJ_SHAPE || result == KJ_TEXT;
    return result == KJ_NOMEM ? TACHO_ENOMEM : 0;
}

static int on_damaged(void *ctx, const char *text, size_t bytes)
{
    struct reading *reading = ctx;
    (void)text;
    (void)bytes;
    reading->timeline.malformed++;
    return 0;
}

static int on_meta(void *ctx, struct kj_span key, struct kj_span value)
{
    (void)ctx;
    (void)key;
    (void)value;
    return 0;
}

/* Says what was not read. */
static int write_losses(struct reading *reading, const struct kineto_frame_result *frame)
{
    const struct workers_timeline *timeline = &reading->timeline;
    const struct {
        int64_t count;
        const char *reason;
    } losses[] = {{timeline->malformed, "event is malformed: no time, place or step"},
                  {timeline->unknown, "operation of a kind that tacho does not know"},
                  {timeline->negative, "duration below 0 (kept as 0)"},
                  {frame->partial_event, "file ends in the middle of an event"},
                  {frame->too_large, "event larger than a window"},
                  {frame->truncated && !frame->partial_event, "file ends in the middle"}};
    int rc = 0;
    for (size_t i = 0; i < sizeof losses / sizeof *losses && !rc; i++)
        if (losses[i].count)
            rc = imp_loss(reading->run, losses[i].reason, losses[i].count);
    reading->run->truncated |= frame->truncated;
    return rc;
}

/* Says why the timeline cannot be used, if so. */
static int check(const struct reading *reading, const char *path, struct tacho_error *err)
{
    if (reading->too_many)
        return tacho_fail(err, TACHO_EFORMAT, "cut it: fewer steps or workers are enough",
                          "%s: more than %u operations or %u threads", path, WORKERS_OPS_MOST,
                          WORKERS_THREADS_MOST);
    if (!reading->timeline.thread_count)
        return tacho_fail(err, TACHO_EFORMAT,
                          "threads are named \"PP rank N, TP rank N, compute\" by events of "
                          "phase M",
                          "%s: a timeline of workers that does not name its threads", path);
    if (!reading->timeline.op_count)
        return tacho_fail(err, TACHO_EFORMAT, "record it again: its list of events may be empty",
                          "%s: a timeline of workers without operations", path);
    return 0;
}

/* Reads the whole file, then writes it. */
static int read_file(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.run = run, .json = kj_new()};
    struct kineto_frame_result frame = {0};
    const struct kineto_frame_sink sink = {
        .events = on_window, .damaged = on_damaged, .meta = on_meta, .ctx = &reading};
    int rc = reading.json ? imp_input_open(path, &reading.in, err) : TACHO_ENOMEM;
    if (!rc)
        rc = kineto_frame_read(reading.in, &sink, &frame, err);
    if (!rc || reading.too_many)
        rc = check(&reading, path, err);
    if (!rc)
        rc = store_begin(run->db);
    if (!rc)
        rc = write_losses(&reading, &frame);
    if (!rc && !run->salvage_only)
        rc = workers_write(run, &reading.timeline);
    if (!rc)
        rc = store_commit(run->db);
    run->events += reading.events;
    imp_input_close(reading.in);
    kj_free(reading.json);
    free(reading.timeline.op);
    free(reading.timeline.thread);
    return rc;
}

const struct importer imp_workers = {
    .source = "timeline of workers", .recognises = recognises, .read = read_file};
