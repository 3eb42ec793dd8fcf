/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of profiles of pprof (Go, gperftools, Parca, py-spy, Pyroscope): sampled call stacks
 * with CPU time. A profile holds sums: of a stack its samples, not when they were taken. They
 * become samples that are spread evenly over the profile. profile.proto of github.com/google/pprof
 * has the numbers of the fields.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/input/protobuf.h"
#include "store/import/input/rows.h"
#include "store/import/input/whole.h"
#include "store/import/pprof/pprof_import.h"

#define BYTES_MOST   ((size_t)1 << 30)
#define STRINGS_MOST ((size_t)1 << 26)
#define SAMPLES_MOST 4000000 /* rows; beyond, one row is several samples */
#define FRAMES_MOST  1024
#define TYPES_MOST   16

#define COUNT_MOST    (INT64_C(1) << 53) /* samples of a profile; no real one has more */
#define SAMPLES_KNOWN 8                  /* samples that make a profile where no type was met yet */

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_TIME = 9,
    PROFILE_DURATION,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_LAST = 16
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LOCATION_ID = 1, LOCATION_ADDRESS = 3, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_FILE = 4 };

#define FUNCTION_MOST 1024 /* bytes of one that are looked at */

struct reading {
    struct imp_rows rows;
    struct pb_span *string; /* the table of strings */
    size_t string_count, string_room;
    struct imp_map functions, locations; /* id -> where its message is in the file */
    const unsigned char *data;
    struct imp_map frames; /* id of a function and number of a line -> string of the store */
    /* Frames of locations that were read, the number of each before them; id -> its place. */
    struct imp_map resolved;
    int64_t *frame;
    size_t frame_count, frame_room;
    struct value_type {
        uint64_t type, unit;
    } type[TYPES_MOST], period_type;
    size_t type_count;
    int count_at, time_at; /* places of the values; -1: there is none */
    int64_t time_unit;     /* ns of one of the time */
    bool timed;            /* samples are of time: by a value, or by the period */
    int64_t start, duration, period;
    int64_t samples, time_sum, track, written, each;
    bool absurd;   /* the values count more than any program has */
    int64_t least; /* the shortest time of a stack, ns */
    int64_t carry; /* time of stacks that is no whole sample yet */
};

/* ---- what it is -------------------------------------------------------------------------------- */

/* Is it a ValueType: one or two numbers and nothing else? */
static bool is_value_type(struct pb_span span)
{
    struct pb pb = pb_of(span);
    struct pb_field field;
    bool any = false;
    while (pb_next(&pb, &field)) {
        if (field.wire != PB_VARINT || field.number < TYPE_TYPE || field.number > TYPE_UNIT)
            return false;
        any = true;
    }
    return any && !pb.bad;
}

/* Is it a Sample: numbers of locations and values, and labels? */
static bool is_sample(struct pb_span span)
{
    struct pb pb = pb_of(span);
    struct pb_field field;
    bool any = false;
    while (pb_next(&pb, &field)) {
        bool number = field.number == SAMPLE_LOCATION || field.number == SAMPLE_VALUE;
        if ((!number && field.number != SAMPLE_LABEL) ||
            (field.wire != PB_BYTES && (!number || field.wire != PB_VARINT)))
            return false;
        any |= number;
    }
    return any && !pb.bad;
}

/* Fields have the kinds of profile.proto. Their order differs: Go begins with the time, Datadog
 * with the samples, most with the types of the values. */
static bool recognises(const unsigned char *head, size_t bytes)
{
    struct pb pb = pb_of((struct pb_span){head, bytes});
    struct pb_field field;
    size_t types = 0, samples = 0, others = 0;
    while (pb_next(&pb, &field)) {
        bool message = field.number <= PROFILE_STRING || field.number == PROFILE_PERIOD_TYPE;
        if (!field.number || field.number > PROFILE_LAST || (message && field.wire != PB_BYTES) ||
            (field.number == PROFILE_SAMPLE_TYPE && !is_value_type(field.span)) ||
            (field.number == PROFILE_SAMPLE && !is_sample(field.span)))
            return false;
        types += field.number == PROFILE_SAMPLE_TYPE;
        samples += field.number == PROFILE_SAMPLE;
        others += field.number > PROFILE_SAMPLE && field.number <= PROFILE_STRING;
    }
    return (types && samples + others) || samples >= SAMPLES_KNOWN;
}

static struct pb_span text_of(const struct reading *reading, uint64_t index)
{
    return index < reading->string_count ? reading->string[index] : (struct pb_span){NULL, 0};
}

static bool text_is(const struct reading *reading, uint64_t index, const char *text)
{
    struct pb_span span = text_of(reading, index);
    return span.bytes == strlen(text) && !memcmp(span.data, text, span.bytes);
}

/* ---- tables ------------------------------------------------------------------------------------ */

static int add_string(struct reading *reading, struct pb_span span)
{
    if (reading->string_count == STRINGS_MOST)
        return TACHO_EFORMAT;
    if (imp_list_room((void **)&reading->string, &reading->string_room, reading->string_count,
                      sizeof *reading->string))
        return TACHO_ENOMEM;
    reading->string[reading->string_count++] = span;
    return 0;
}

/* The number in the first field of a message with this number. */
static uint64_t number_of(struct pb_span message, uint32_t number)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    while (pb_next(&pb, &field))
        if (field.number == number && field.wire == PB_VARINT)
            return field.value;
    return 0;
}

/* Remembers where the message of an id is: its offset, and its length in the second key. */
static int add_place(struct imp_map *map, const struct reading *reading, struct pb_span message)
{
    int64_t id = (int64_t)number_of(message, LOCATION_ID);
    int rc = imp_map_put(map, id, 0, (int64_t)(message.data - reading->data));
    return rc ? rc : imp_map_put(map, id, 1, (int64_t)message.bytes);
}

static struct pb_span place_of(const struct imp_map *map, const struct reading *reading,
                               uint64_t id)
{
    const int64_t *at = imp_map_find(map, (int64_t)id, 0),
                  *bytes = imp_map_find(map, (int64_t)id, 1);
    if (!at || !bytes)
        return (struct pb_span){NULL, 0};
    return (struct pb_span){reading->data + *at, (size_t)*bytes};
}

static struct value_type type_of(struct pb_span message)
{
    return (struct value_type){number_of(message, TYPE_TYPE), number_of(message, TYPE_UNIT)};
}

static int read_field(struct reading *reading, const struct pb_field *field)
{
    int rc = 0;
    if (field->number == PROFILE_STRING && field->wire == PB_BYTES)
        rc = add_string(reading, field->span);
    else if (field->number == PROFILE_LOCATION && field->wire == PB_BYTES)
        rc = add_place(&reading->locations, reading, field->span);
    else if (field->number == PROFILE_FUNCTION && field->wire == PB_BYTES)
        rc = add_place(&reading->functions, reading, field->span);
    else if (field->number == PROFILE_SAMPLE_TYPE && reading->type_count < TYPES_MOST)
        reading->type[reading->type_count++] = type_of(field->span);
    else if (field->number == PROFILE_PERIOD_TYPE && field->wire == PB_BYTES)
        reading->period_type = type_of(field->span);
    else if (field->number == PROFILE_TIME && field->value < (uint64_t)IMP_TIME_MAX)
        reading->start = (int64_t)field->value;
    else if (field->number == PROFILE_DURATION && field->value < (uint64_t)IMP_TIME_MAX)
        reading->duration = (int64_t)field->value;
    else if (field->number == PROFILE_PERIOD && field->value < (uint64_t)IMP_TIME_MAX)
        reading->period = (int64_t)field->value;
    return rc;
}

/* ns of a unit of time; 0: it is none. */
static int64_t unit_ns(const struct reading *reading, uint64_t unit)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"nanoseconds", 1},
                 {"microseconds", 1000},
                 {"milliseconds", 1000000},
                 {"seconds", 1000000000},
                 {"ns", 1},
                 {"us", 1000},
                 {"ms", 1000000}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (text_is(reading, unit, units[i].name))
            return units[i].ns;
    return 0;
}

static bool is_one_of(const struct reading *reading, uint64_t text, const char *const *names,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text_is(reading, text, names[i]))
            return true;
    return false;
}

/* Which value of a sample counts samples, and which is time. Samplers that only count say in the
 * type of their period that they sample time (Parca). Types with a dash are Datadog's. */
static void choose_values(struct reading *reading)
{
    static const char *const times[] = {"cpu",  "samples",  "wall",     "time",
                                        "self", "cpu-time", "wall-time"};
    static const char *const counts[] = {"samples", "sample", "cpu-samples", "wall-samples"};
    reading->count_at = reading->time_at = -1;
    for (size_t i = 0; i < reading->type_count; i++) {
        const struct value_type *type = &reading->type[i];
        int64_t unit = unit_ns(reading, type->unit);
        if (reading->count_at < 0 && text_is(reading, type->unit, "count") &&
            is_one_of(reading, type->type, counts, sizeof counts / sizeof *counts))
            reading->count_at = (int)i;
        if (reading->time_at < 0 && unit &&
            is_one_of(reading, type->type, times, sizeof times / sizeof *times)) {
            reading->time_at = (int)i;
            reading->time_unit = unit;
        }
    }
    int64_t unit = unit_ns(reading, reading->period_type.unit);
    reading->timed =
        reading->time_at >= 0 ||
        (reading->count_at >= 0 && unit && reading->period > 0 &&
         is_one_of(reading, reading->period_type.type, times, sizeof times / sizeof *times));
    if (unit && __builtin_mul_overflow(reading->period, unit, &reading->period))
        reading->period = 0;
}

/* ---- stacks ------------------------------------------------------------------------------------ */

/* The string of one line of a location: "name (file:line)", as frames of Python are named. */
static int frame_of(struct reading *reading, uint64_t function_id, uint64_t line, int64_t *string)
{
    struct pb_span function = place_of(&reading->functions, reading, function_id);
    if (function.bytes > FUNCTION_MOST) /* any number of lines may name it */
        function.bytes = FUNCTION_MOST;
    const int64_t *known = imp_map_find(&reading->frames, (int64_t)function_id, (int64_t)line);
    char text[1024];
    if (known) {
        *string = *known;
        return 0;
    }
    struct pb_span name = text_of(reading, number_of(function, FUNCTION_NAME)),
                   file = text_of(reading, number_of(function, FUNCTION_FILE));
    int name_bytes = (int)(name.bytes < 500 ? name.bytes : 500),
        file_bytes = (int)(file.bytes < 400 ? file.bytes : 400);
    if (!name_bytes)
        name = (struct pb_span){(const unsigned char *)"(no name)", 9};
    name_bytes = name_bytes ? name_bytes : 9;
    int length = snprintf(text, sizeof text, "%.*s", name_bytes, (const char *)name.data);
    if (file_bytes && line)
        length += snprintf(text + length, sizeof text - (size_t)length, " (%.*s:%" PRIu64 ")",
                           file_bytes, (const char *)file.data, line);
    int rc = imp_rows_string(&reading->rows, text, (size_t)length, string);
    return rc ? rc : imp_map_put(&reading->frames, (int64_t)function_id, (int64_t)line, *string);
}

static int keep_frame(struct reading *reading, int64_t frame)
{
    int rc = imp_list_room((void **)&reading->frame, &reading->frame_room, reading->frame_count,
                           sizeof frame);
    if (!rc)
        reading->frame[reading->frame_count++] = frame;
    return rc;
}

/* Reads the frames of a location, innermost first: functions that were inlined are lines of one
 * location. Without lines its address is its only frame. */
static int resolve(struct reading *reading, uint64_t id)
{
    struct pb_span location = place_of(&reading->locations, reading, id);
    struct pb pb = pb_of(location);
    struct pb_field field;
    size_t place = reading->frame_count, count = 0;
    char address[40];
    int64_t string;
    int rc = imp_map_put(&reading->resolved, (int64_t)id, 0, (int64_t)place);
    rc = rc ? rc : keep_frame(reading, 0);
    while (!rc && pb_next(&pb, &field) && count < FRAMES_MOST) {
        if (field.number != LOCATION_LINE || field.wire != PB_BYTES)
            continue;
        rc = frame_of(reading, number_of(field.span, LINE_FUNCTION),
                      number_of(field.span, LINE_LINE), &string);
        rc = rc ? rc : keep_frame(reading, string);
        count++;
    }
    if (!rc && !count) {
        int length =
            snprintf(address, sizeof address, "0x%" PRIx64, number_of(location, LOCATION_ADDRESS));
        rc = imp_rows_string(&reading->rows, address, (size_t)length, &string);
        rc = rc ? rc : keep_frame(reading, string);
        count = 1;
    }
    if (!rc)
        reading->frame[place] = (int64_t)count;
    return rc;
}

/* Appends the frames of a location to a stack. Each location is read once: samples name the same
 * ones again and again. */
static int add_location(struct reading *reading, uint64_t id, int64_t frame[FRAMES_MOST],
                        size_t *count)
{
    const int64_t *place = imp_map_find(&reading->resolved, (int64_t)id, 0);
    int rc = place ? 0 : resolve(reading, id);
    if (!rc && !place)
        place = imp_map_find(&reading->resolved, (int64_t)id, 0);
    for (int64_t i = 1; !rc && i <= reading->frame[*place] && *count < FRAMES_MOST; i++)
        frame[(*count)++] = reading->frame[*place + i];
    return rc;
}

/* Integers of a field, packed or one by one: calls `add` for each until it returns non-zero. */
static int each_number(const struct pb_field *field, int (*add)(void *ctx, uint64_t value),
                       void *ctx)
{
    struct pb pb = pb_of(field->span);
    uint64_t value;
    int rc = 0;
    if (field->wire == PB_VARINT)
        return add(ctx, field->value);
    while (field->wire == PB_BYTES && !rc && pb.at < pb.end && pb_varint(&pb, &value))
        rc = add(ctx, value);
    return rc;
}

/* One sample while it is read. */
struct sample {
    struct reading *reading;
    int64_t frame[FRAMES_MOST];
    size_t frames, values;
    int64_t value[TYPES_MOST];
};

static int on_location(void *ctx, uint64_t id)
{
    struct sample *sample = ctx;
    return add_location(sample->reading, id, sample->frame, &sample->frames);
}

static int on_value(void *ctx, uint64_t value)
{
    struct sample *sample = ctx;
    if (sample->values < TYPES_MOST)
        sample->value[sample->values++] = (int64_t)value;
    return 0;
}

/* Writes the rows of one stack: `count` samples, spread over the profile. */
static int write_samples(struct reading *reading, const struct sample *sample, int64_t count)
{
    store *db = reading->rows.run->db;
    int64_t stack = STORE_ABSENT;
    int rc = 0;
    for (size_t i = sample->frames; i-- > 0 && !rc;)
        rc = store_stack(db, stack, sample->frame[i], &stack);
    for (int64_t left = count; left > 0 && !rc; left -= reading->each) {
        double share = fmin(1, ((double)reading->written + 0.5) / (double)reading->samples);
        struct store_sample row = {.track = reading->track,
                                   .time = reading->start +
                                           (int64_t)(share * (double)reading->duration),
                                   .stack = stack};
        if (__builtin_add_overflow(reading->written, reading->each, &reading->written))
            reading->written = INT64_MAX;
        rc = store_sample_add(db, &row);
    }
    return rc;
}

/* How many samples the values of a stack mean. Of times, what is left of one stack counts with the
 * next ones, so that many short ones are not lost. */
static int64_t count_of(struct reading *reading, const struct sample *sample)
{
    int at = reading->count_at >= 0 ? reading->count_at : reading->time_at;
    if (at < 0 || (size_t)at >= sample->values || sample->value[at] <= 0)
        return 0;
    int64_t each = reading->period / reading->time_unit;
    if (reading->count_at >= 0 || each < 1)
        return sample->value[at];
    int64_t count = sample->value[at] / each;
    reading->carry += sample->value[at] % each;
    if (reading->carry >= each) {
        reading->carry -= each;
        count++;
    }
    return count;
}

static int64_t ns_of(const struct reading *reading, const struct sample *sample)
{
    int at = reading->time_at;
    int64_t ns;
    if (at < 0 || (size_t)at >= sample->values || sample->value[at] <= 0 ||
        __builtin_mul_overflow(sample->value[at], reading->time_unit, &ns))
        return 0;
    return ns;
}

/* Reads all samples: first to count them, then to write them. */
static int read_samples(struct reading *reading, struct pb_span file, bool write)
{
    struct pb pb = pb_of(file), inner;
    struct pb_field field, part;
    struct sample *sample = calloc(1, sizeof *sample);
    int rc = sample ? 0 : TACHO_ENOMEM;
    reading->carry = 0;
    while (!rc && pb_next(&pb, &field)) {
        if (field.number != PROFILE_SAMPLE || field.wire != PB_BYTES)
            continue;
        *sample = (struct sample){.reading = reading};
        for (inner = pb_of(field.span); !rc && pb_next(&inner, &part);) {
            if (part.number == SAMPLE_VALUE)
                rc = each_number(&part, on_value, sample);
            else if (part.number == SAMPLE_LOCATION && write)
                rc = each_number(&part, on_location, sample);
        }
        int64_t count = count_of(reading, sample);
        if (rc || !write) {
            int64_t ns = ns_of(reading, sample);
            bool many = __builtin_add_overflow(reading->samples, count, &reading->samples) ||
                        __builtin_add_overflow(reading->time_sum, ns, &reading->time_sum) ||
                        reading->samples > COUNT_MOST || reading->time_sum > IMP_TIME_MAX;
            if (ns > 0 && (!reading->least || ns < reading->least))
                reading->least = ns;
            reading->absurd |= many;
            rc = many ? TACHO_EFORMAT : rc;
            continue;
        }
        reading->rows.run->events++;
        rc = write_samples(reading, sample, count);
    }
    free(sample);
    return rc;
}

/* ---- the importer ------------------------------------------------------------------------------ */

/* Says why a profile has nothing to read. */
static int nothing(const struct reading *reading, bool bad, const char *path,
                   struct tacho_error *err)
{
    struct pb_span type = {NULL, 0};
    for (size_t i = 0; i < reading->type_count; i++) {
        type = text_of(reading, reading->type[i].type);
        bad |= reading->type[i].type >= reading->string_count; /* strings are written last */
    }
    if (!bad && type.bytes && !reading->timed)
        return tacho_fail(err, TACHO_ENOTSUP, "give a CPU profile (of Go: /debug/pprof/profile)",
                          "%s: a pprof profile of '%.*s', not of CPU time", path,
                          (int)(type.bytes < 60 ? type.bytes : 60), (const char *)type.data);
    if (bad)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: its names are at its end",
                          "%s: a pprof profile that is cut off", path);
    if (reading->absurd)
        return tacho_fail(err, TACHO_EFORMAT, "write it again: its values are damaged",
                          "%s: a pprof profile of more time or samples than a program has", path);
    return tacho_fail(err, TACHO_EFORMAT, "profile while the program works",
                      "%s: a pprof profile without a sample", path);
}

static int write_run(const struct reading *reading)
{
    store *db = reading->rows.run->db;
    char text[96];
    snprintf(text, sizeof text, "sampled (%" PRId64 " samples)", reading->samples);
    int rc = store_run_set(db, "stacks", text);
    if (!rc)
        rc = store_run_set_int(db, "stacks.period_ns", reading->period * reading->each);
    if (!rc)
        rc = store_run_set(db, "source.times",
                           "samples are spread evenly over the profile: it says how many a stack "
                           "has, not when");
    return rc ? rc : store_run_set(db, "source.tool", "pprof");
}

/* A profile that has only times, and no period (rbspy): the shortest one is a sample. */
static int guess_period(struct reading *reading, struct pb_span file)
{
    int64_t shortest;
    reading->period = reading->time_unit;
    int rc = read_samples(reading, file, false);
    shortest = 1 + reading->time_sum / SAMPLES_MOST;
    reading->period = reading->least > shortest ? reading->least : shortest;
    reading->samples = reading->time_sum = 0;
    return rc;
}

static int read_profile(struct reading *reading, struct imp_run *run, struct pb_span file,
                        bool *bad)
{
    struct pb pb = pb_of(file);
    struct pb_field field;
    int rc = 0;
    while (!rc && pb_next(&pb, &field))
        rc = read_field(reading, &field);
    *bad = pb.bad;
    choose_values(reading);
    if (rc || !reading->timed)
        return rc;
    if (reading->period <= 0 && reading->count_at < 0)
        rc = guess_period(reading, file);
    reading->period = reading->period > 0 ? reading->period : 10000000;
    if (!rc)
        rc = read_samples(reading, file, false);
    if (rc || !reading->samples)
        return rc;
    if (reading->count_at >= 0 && reading->time_sum / reading->samples > 0)
        reading->period = reading->time_sum / reading->samples;
    if (!reading->time_sum &&
        __builtin_mul_overflow(reading->samples, reading->period, &reading->time_sum))
        reading->time_sum = 0;
    if (!reading->duration)
        reading->duration = reading->time_sum;
    reading->each = 1 + reading->samples / SAMPLES_MOST;
    rc = imp_rows_begin(&reading->rows, run, STORE_ABSENT, STORE_ABSENT, NULL, "profiled program");
    struct store_track track = {.process = reading->rows.process,
                                .tid = STORE_ABSENT,
                                .kind = "samples",
                                .name = "all threads"};
    if (!rc)
        rc = store_track_add(run->db, &track);
    reading->track = track.id;
    if (!rc && !run->salvage_only)
        rc = read_samples(reading, file, true);
    if (!rc && *bad)
        rc = imp_loss(run, "file ends in the middle", 1);
    if (!rc && !run->salvage_only)
        rc = write_run(reading);
    return imp_rows_end(&reading->rows, rc);
}

/* Reads one profile; this is the `read` of the importer. */
static int read_file(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.count_at = -1, .time_at = -1, .time_unit = 1};
    struct imp_whole whole;
    bool bad = false;
    int rc = imp_whole_read(run, path, BYTES_MOST, &whole, err);
    if (rc)
        return rc;
    reading.data = whole.data;
    reading.rows.run = run;
    rc = store_begin(run->db);
    if (!rc)
        rc = read_profile(&reading, run, (struct pb_span){whole.data, whole.bytes}, &bad);
    run->truncated |= bad || whole.truncated;
    if (!rc)
        rc = store_commit(run->db);
    if ((!rc || rc == TACHO_EFORMAT) && !reading.written && !(run->salvage_only && reading.samples))
        rc = nothing(&reading, bad || whole.truncated, path, err);
    free(reading.string);
    imp_map_free(&reading.functions);
    imp_map_free(&reading.locations);
    imp_map_free(&reading.frames);
    imp_map_free(&reading.resolved);
    free(reading.frame);
    imp_whole_free(&whole);
    return rc;
}

const struct importer imp_pprof = {.source = "pprof", .recognises = recognises, .read = read_file};
