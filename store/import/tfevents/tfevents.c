/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of event files of TensorBoard: records of TensorFlow (length, checksum, message,
 * checksum), each an Event with scalars by tag. Every tag becomes a series. Programs log
 * some tags by step and others by epoch or by tokens, so that the steps are those of one tag only.
 * tensorflow/core/util/event.proto and framework/summary.proto have the numbers of the fields.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/protobuf.h"
#include "store/import/input/whole.h"
#include "store/import/logs/logs.h"
#include "store/import/tfevents/tfevents_import.h"
#include "store/intern.h"

#define BYTES_MOST  ((size_t)4 << 30)
#define HEAD_BYTES  12u /* of a record: its length, and the checksum of that */
#define TAGS_MOST   4096
#define SLOW_STEP_S 5 /* from here on a step may be an epoch */
#define BESIDE      "written at the same time as another file of its folder: it has series, no steps"

enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_CONTENT = 4, TENSOR_FLOAT = 5, TENSOR_DOUBLE = 6 };
enum { TYPE_FLOAT = 1, TYPE_DOUBLE = 2 };

struct reading {
    struct imp_rows rows;
    double axis_first, axis_last; /* s, of the events of that tag */
    struct log_series series;
    struct store_intern tags; /* text -> number + 1 */
    int64_t track[TAGS_MOST], count[TAGS_MOST];
    int64_t axis;  /* the tag whose events are the steps: its number; 0: not known */
    bool numbered; /* a scalar has the number of a step */
    /* The end of the files so far; the first scalar of a file is still to come; it is of before
     * that end: another process wrote the file at the same time. */
    int64_t latest;
    bool fresh, beside;
    int64_t scalars, others, damaged, cut;
    uint32_t crc[256];
};

/* ---- records ------------------------------------------------------------------------------------- */

/* The table of CRC-32C (polynomial 0x1EDC6F41, bits reversed). */
static void crc_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (0x82f63b78u & (0u - (value & 1)));
        table[i] = value;
    }
}

/* The checksum of a record, masked as TensorFlow does: rotated, plus a constant. */
static uint32_t checksum(const uint32_t table[256], const unsigned char *data, size_t bytes)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Does it begin with a record of an event? Its first one names the format; where a writer leaves
 * that out (CatBoost), the checksum of the length is right. */
static bool recognises(const unsigned char *head, size_t bytes)
{
    uint64_t length;
    uint32_t sum, table[256];
    if (bytes < 32)
        return false;
    memcpy(&length, head, sizeof length);
    if (length >= 65536 || head[HEAD_BYTES] != (EVENT_WALL_TIME << 3 | PB_FIXED64))
        return false;
    if (memmem(head, bytes < 64 ? bytes : 64, "brain.Event:", 12))
        return true;
    memcpy(&sum, head + sizeof length, sizeof sum);
    crc_table(table);
    return length && sum == checksum(table, head, sizeof length);
}

/* The next record; false: the file ends, or the record is damaged (`damaged`). */
static bool next_record(struct reading *reading, struct pb_span *rest, struct pb_span *record)
{
    uint64_t length;
    uint32_t sum[2];
    if (!rest->bytes)
        return false;
    reading->damaged = 1;
    if (rest->bytes < HEAD_BYTES + 4)
        return false;
    memcpy(&length, rest->data, 8);
    memcpy(&sum[0], rest->data + 8, 4);
    if (sum[0] != checksum(reading->crc, rest->data, 8) || length > rest->bytes - HEAD_BYTES - 4)
        return false;
    *record = (struct pb_span){rest->data + HEAD_BYTES, (size_t)length};
    memcpy(&sum[1], record->data + record->bytes, 4);
    if (sum[1] != checksum(reading->crc, record->data, record->bytes))
        return false;
    rest->data += HEAD_BYTES + record->bytes + 4;
    rest->bytes -= HEAD_BYTES + record->bytes + 4;
    reading->damaged = 0;
    return true;
}

/* ---- values -------------------------------------------------------------------------------------- */

static double float_of(const unsigned char *data)
{
    float value;
    memcpy(&value, data, sizeof value);
    return (double)value;
}

static double double_of(const unsigned char *data)
{
    double value;
    memcpy(&value, data, sizeof value);
    return value;
}

static bool put(double *out, double value)
{
    *out = value;
    return true;
}

/* The number in a tensor of one element; false: it holds something else. */
static bool scalar_of(struct pb_span tensor, double *value)
{
    struct pb pb = pb_of(tensor);
    struct pb_field field;
    uint64_t type = 0;
    bool found = false;
    while (pb_next(&pb, &field)) {
        if (field.number == TENSOR_TYPE)
            type = field.value;
        else if (field.number == TENSOR_FLOAT && field.wire == PB_FIXED32)
            found = put(value, float_of((const unsigned char *)&field.value));
        else if (field.number == TENSOR_DOUBLE && field.wire == PB_FIXED64)
            found = put(value, pb_double(&field));
        else if (field.number == TENSOR_SHAPE && field.wire == PB_BYTES && field.span.bytes)
            return false;
        else if (field.wire != PB_BYTES)
            continue;
        else if (field.span.bytes == 4 && type == TYPE_FLOAT)
            found = put(value, float_of(field.span.data));
        else if (field.span.bytes == 8 && type == TYPE_DOUBLE)
            found = put(value, double_of(field.span.data));
    }
    return found && !pb.bad;
}

/* The tag and the number of a value; false: it is something else. */
static bool value_in(struct pb_span message, struct pb_span *tag, double *value)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    bool found = false;
    *tag = (struct pb_span){NULL, 0};
    while (pb_next(&pb, &field)) {
        if (field.number == VALUE_TAG && field.wire == PB_BYTES)
            *tag = field.span;
        else if (field.number == VALUE_SIMPLE && field.wire == PB_FIXED32)
            found = put(value, float_of((const unsigned char *)&field.value));
        else if (field.number == VALUE_TENSOR && field.wire == PB_BYTES)
            found = scalar_of(field.span, value);
    }
    return !pb.bad && found && tag->bytes;
}

/* The number of a tag, from 1 on; 0: there are too many. */
static int tag_of(struct reading *reading, struct pb_span tag, int64_t *id)
{
    bool added;
    int rc = store_intern_put(&reading->tags, tag.data, tag.bytes, id, &added);
    if (!rc && *id > TAGS_MOST)
        *id = 0;
    return rc;
}

/* The track of a tag, made when its first value comes. */
static int track_of(struct reading *reading, struct pb_span tag, int64_t id)
{
    char name[128];
    if (reading->track[id - 1])
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)(tag.bytes < 120 ? tag.bytes : 120),
             (const char *)tag.data);
    return imp_rows_counter_track(&reading->rows, LOG_WHAT_COUNT + id, NULL, name, NULL,
                                  &reading->track[id - 1]);
}

/* One value of an event: a row of its series, and what it says of the step. *axis becomes true at
 * the tag of the steps. */
static int read_value(struct reading *reading, struct pb_span message, struct log_values *values,
                      bool *axis)
{
    struct pb_span tag;
    double value = NAN, scale = 1;
    bool needs_unit = false;
    int64_t id;
    if (!value_in(message, &tag, &value)) {
        return 0;
    }
    reading->scalars++;
    int rc = tag_of(reading, tag, &id);
    if (!rc && id)
        rc = track_of(reading, tag, id);
    if (!rc && id)
        rc = imp_rows_counter(&reading->rows, reading->track[id - 1], values->time, value);
    *axis |= !rc && id && id == reading->axis;
    enum log_what what = log_what_of((const char *)tag.data, tag.bytes, &scale, &needs_unit);
    if (!rc && what != LOG_NOTHING && !needs_unit && !values->has[what] && what != LOG_STEP &&
        what != LOG_GLOBAL_STEP) {
        values->has[what] = true;
        values->value[what] = value * scale;
    }
    return rc;
}

/* Counts the values of each tag in an event, and whether they have the number of a step. */
static int count_event(struct reading *reading, struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    struct pb_span tag;
    double value;
    bool numbered = false, counted = false;
    int64_t id;
    int rc = 0;
    while (!rc && pb_next(&pb, &field)) {
        struct pb summary = pb_of(field.span);
        bool is_summary = field.number == EVENT_SUMMARY && field.wire == PB_BYTES;
        numbered |= field.number == EVENT_STEP && field.wire == PB_VARINT && field.value;
        while (is_summary && !rc && pb_next(&summary, &field)) {
            if (field.number != SUMMARY_VALUE || field.wire != PB_BYTES)
                continue;
            if (!value_in(field.span, &tag, &value)) {
                reading->others++; /* pictures, histograms, texts */
                continue;
            }
            counted = true;
            rc = tag_of(reading, tag, &id);
            if (!rc && id)
                reading->count[id - 1]++;
        }
    }
    reading->numbered |= numbered && counted;
    return rc;
}

/* Is a tag or folder one of evaluations? A word of it says so. */
static bool is_evaluation(const char *name, size_t bytes)
{
    static const char *const words[] = {"val", "valid", "validation", "eval", "evaluation", "test"};
    return log_has_word(name, bytes, "", words, sizeof words / sizeof *words);
}

static bool is_evaluation_tag(const struct store_intern *tags, size_t index)
{
    const struct store_intern_entry *entry = &tags->entry[index];
    return is_evaluation(tags->arena + entry->offset, entry->bytes);
}

/* Chooses the tag with most values, the first of them in the file; one of evaluations only if there
 * is no other. */
static void choose_axis(struct reading *reading)
{
    size_t tags = reading->tags.count < TAGS_MOST ? reading->tags.count : TAGS_MOST;
    for (int pass = 0; pass < 2 && !reading->axis; pass++) {
        int64_t most = 0;
        for (size_t i = 0; i < tags; i++) {
            if (reading->count[i] <= most || (!pass && is_evaluation_tag(&reading->tags, i)))
                continue;
            most = reading->count[i];
            reading->axis = (int64_t)i + 1;
        }
    }
}

/* Does the tag of the steps say that they are epochs? A tag named so does, and one of evaluations
 * with as many values: who evaluates at each step calls it an epoch. *known: it can be told. */
static bool steps_are_epochs(const struct reading *reading, bool *known)
{
    static const char *const epoch[] = {"epoch", "epochs"};
    size_t tags = reading->tags.count < TAGS_MOST ? reading->tags.count : TAGS_MOST;
    if (!reading->axis)
        return false;
    size_t axis = (size_t)reading->axis - 1;
    const struct store_intern_entry *entry = &reading->tags.entry[axis];
    bool named = log_has_word(reading->tags.arena + entry->offset, entry->bytes, "", epoch, 2),
         evaluated = is_evaluation_tag(&reading->tags, axis), often = false;
    for (size_t i = 0; i < tags; i++) {
        if (i == axis || !is_evaluation_tag(&reading->tags, i))
            continue;
        evaluated = true;
        often |= reading->count[i] == reading->count[axis] && reading->count[axis] > 1;
    }
    *known = named || evaluated;
    return named || often;
}

/* What the report says of the steps. */
static int name_steps(const struct reading *reading)
{
    bool known = false, epochs = steps_are_epochs(reading, &known);
    double count = reading->axis ? (double)reading->count[reading->axis - 1] : 0;
    bool slow = count > 1 && reading->series.most <= 1 &&
                reading->axis_last - reading->axis_first > count * SLOW_STEP_S;
    if (reading->rows.run->salvage_only || (!epochs && (known || !slow)))
        return 0;
    return store_run_set(reading->rows.run->db, "steps.marked_by",
                         epochs ? "log of TensorBoard: its steps are epochs"
                                : "log of TensorBoard: its steps may be epochs");
}

static int read_event(struct reading *reading, struct pb_span message)
{
    struct log_values values = log_values_none();
    struct pb pb = pb_of(message);
    struct pb_field field;
    struct pb_span summary = {NULL, 0};
    double seconds = 0;
    int rc = 0;
    reading->rows.run->events++;
    while (pb_next(&pb, &field)) {
        if (field.number == EVENT_WALL_TIME && field.wire == PB_FIXED64) {
            seconds = pb_double(&field);
            if (seconds >= 0 && seconds < (double)IMP_TIME_MAX / 1e9)
                values.time = (int64_t)(seconds * 1e9);
        } else if (field.number == EVENT_STEP && field.wire == PB_VARINT) {
            values.value[LOG_STEP] = (double)(int64_t)field.value;
        } else if (field.number == EVENT_SUMMARY && field.wire == PB_BYTES) {
            summary = field.span;
        }
    }
    if (pb.bad || !summary.bytes || values.time == STORE_ABSENT) {
        reading->rows.bad_time += summary.bytes && values.time == STORE_ABSENT;
        return 0;
    }
    int64_t before = reading->scalars;
    bool axis = false;
    for (pb = pb_of(summary); !rc && pb_next(&pb, &field);)
        if (field.number == SUMMARY_VALUE && field.wire == PB_BYTES)
            rc = read_value(reading, field.span, &values, &axis);
    if (axis) {
        reading->axis_first = reading->axis_first > 0 ? reading->axis_first : seconds;
        reading->axis_last = seconds;
    }
    values.has[LOG_STEP] = reading->scalars > before; /* an event without the field is of step 0 */
    if (values.has[LOG_STEP] && reading->fresh) {
        reading->fresh = false;
        reading->beside = values.time < reading->latest;
        rc = rc || !reading->beside ? rc : imp_loss(reading->rows.run, BESIDE, 1);
    }
    if (values.has[LOG_STEP] && values.time > reading->latest)
        reading->latest = values.time;
    if (reading->beside)
        return rc;
    if (!axis && values.value[LOG_STEP] != (double)reading->series.index)
        return rc; /* of another axis, or before the step's own event */
    return rc || !values.has[LOG_STEP] ? rc : log_series_add(&reading->series, &values);
}

/* ---- files --------------------------------------------------------------------------------------- */

/* Reads the records of all files, with `each` those of one. */
static int read_files(struct reading *reading, struct imp_run *run, const char *path,
                      int (*each)(struct reading *, struct pb_span), struct tacho_error *err)
{
    int rc = 0;
    for (size_t i = 0; i <= run->pieces && !rc; i++) {
        struct imp_whole whole = {0};
        rc = imp_whole_read(run, i ? run->piece[i - 1] : path, BYTES_MOST, &whole, err);
        if (!rc)
            rc = each(reading, (struct pb_span){whole.data, whole.bytes});
        imp_whole_free(&whole);
    }
    return rc;
}

static int count_records(struct reading *reading, struct pb_span rest)
{
    struct pb_span record;
    int rc = 0;
    reading->damaged = 0;
    while (!rc && next_record(reading, &rest, &record))
        rc = count_event(reading, record);
    reading->cut += reading->damaged;
    return rc;
}

/* Reads the records of a file. A program that begins another file begins anew. */
static int read_records(struct reading *reading, struct pb_span rest)
{
    struct pb_span record;
    reading->damaged = 0;
    reading->fresh = true;
    reading->beside = false;
    int rc = log_series_resume(&reading->series);
    while (!rc && next_record(reading, &rest, &record))
        rc = read_event(reading, record);
    return rc;
}

/* Says why there is nothing to read, as far as it is known before anything is written. */
static int check_scalars(const struct reading *reading, const char *path, struct tacho_error *err)
{
    int64_t most = reading->axis ? reading->count[reading->axis - 1] : 0;
    if (!most && reading->cut)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: an event file of TensorBoard that is cut off or damaged", path);
    if (!most)
        return tacho_fail(err, TACHO_EFORMAT,
                          "log scalars (add_scalar), or give the profile next to it: the folder "
                          "plugins/profile. add_scalars writes each curve into a folder of its "
                          "own: give one of these",
                          "%s: an event file of TensorBoard without a scalar (%lld other values)",
                          path, (long long)reading->others);
    if (most < 2)
        return tacho_fail(err, TACHO_EFORMAT, "log a scalar at every step, or every few steps",
                          "%s: an event file of TensorBoard with one value of each tag", path);
    if (!reading->numbered)
        return tacho_fail(
            err, TACHO_EFORMAT, "pass the step: add_scalar(tag, value, global_step=step)",
            "%s: an event file of TensorBoard without the numbers of its steps", path);
    return 0;
}

/* The name of the folder that a file lies in, below the one that all inputs lie in; empty: it lies
 * in that itself. */
static void folder_of(const struct imp_run *run, const char *path, char folder[NAME_MAX + 1])
{
    const char *name = strrchr(path, '/'), *begin = name;
    while (begin && begin > path + run->shared && begin[-1] != '/')
        begin--;
    size_t bytes = name && begin >= path + run->shared ? (size_t)(name - begin) : 0;
    snprintf(folder, NAME_MAX + 1, "%.*s", (int)(bytes < NAME_MAX ? bytes : NAME_MAX),
             bytes ? begin : "");
}

/* The names of the folders or files may have ranks, or one is that of an evaluation. *rank: that of
 * this one. */
static int check_folder(struct imp_run *run, const char *path, int64_t *rank,
                        struct tacho_error *err)
{
    char folder[NAME_MAX + 1];
    folder_of(run, path, folder);
    *rank = STORE_ABSENT;
    if (!run->many)
        return 0;
    if (is_evaluation(folder, strlen(folder)))
        return tacho_fail(err, TACHO_EFORMAT, "give its folder alone",
                          "%s: an event file of an evaluation, beside others", path);
    *rank = imp_rank_in_name(path);
    if (*rank == STORE_ABSENT)
        *rank = imp_rank_in_name(folder);
    return 0;
}

/* Does a file lie in a folder below the one that another file is in? */
static bool is_below(const char *path, const char *other)
{
    const char *slash = strrchr(other, '/');
    size_t bytes = slash ? (size_t)(slash - other) + 1 : 0;
    return !strncmp(path, other, bytes) && strchr(path + bytes, '/');
}

/* Event files in several folders that have scalars, and nothing to tell their ranks, are several
 * runs. But add_scalars writes its curves into folders below that of the run. Sets *rank. */
static int check_beside(struct imp_run *run, const char *path, int64_t *rank,
                        struct tacho_error *err)
{
    if (!run->many || *rank != STORE_ABSENT)
        return 0;
    if (run->event_file && is_below(path, run->event_file))
        return tacho_fail(err, TACHO_EFORMAT, "give its folder alone",
                          "%s: an event file with a curve of another one, %s", path,
                          run->event_file);
    if (run->event_file)
        return tacho_fail(err, TACHO_EUSAGE,
                          "give one of the two folders; for ranks of one run put the rank into "
                          "their names: rank0, rank1",
                          "%s: a run of TensorBoard beside another one, %s", path, run->event_file);
    run->event_file = path;
    *rank = 0;
    return 0;
}

/* Reads the event files of one folder; this is the `read` of the importer. */
static int read_folder(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading *reading = calloc(1, sizeof *reading);
    int64_t rank = STORE_ABSENT;
    int rc = reading ? check_folder(run, path, &rank, err) : TACHO_ENOMEM;
    if (!rc) {
        crc_table(reading->crc);
        rc = read_files(reading, run, path, count_records, err);
    }
    if (!rc) {
        choose_axis(reading);
        rc = check_scalars(reading, path, err);
    }
    if (!rc)
        rc = check_beside(run, path, &rank, err);
    if (!rc)
        rc = store_begin(run->db);
    if (!rc) {
        rc = imp_rows_begin(&reading->rows, run, rank, STORE_ABSENT, NULL, "TensorBoard log");
        log_series_begin(&reading->series, &reading->rows);
        reading->series.by_tag = true;
        if (!rc)
            rc = read_files(reading, run, path, read_records, err);
        if (!rc)
            rc = log_series_end(&reading->series, "TensorBoard");
        if (!rc)
            rc = name_steps(reading);
        run->truncated |= reading->cut > 0;
        if (!rc && reading->cut)
            rc =
                imp_loss(run, "file ends in the middle, or is damaged from there on", reading->cut);
        if (!rc && reading->tags.count > TAGS_MOST)
            rc = imp_loss(run, "tags beyond the 4096th", (int64_t)reading->tags.count - TAGS_MOST);
        rc = imp_rows_end(&reading->rows, rc);
    }
    if (!rc)
        rc = store_commit(run->db);
    if (reading)
        store_intern_clear(&reading->tags);
    free(reading);
    return rc;
}

const struct importer imp_tfevents = {
    .source = "tfevents", .recognises = recognises, .read = read_folder};
