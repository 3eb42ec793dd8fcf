/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of pprof: a protocol buffer of samples, each a stack of locations with values. `go
 * tool pprof`, Pyroscope, Parca, speedscope and the profiler of Grafana read it. A distinct stack
 * of the run becomes a sample with its time in ns (and, of sampled stacks, how many samples it
 * had); process and thread are labels. It is not compressed, which readers allow. profile.proto of
 * github.com/google/pprof has the numbers of the fields.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/export/protobuf.h"
#include "store/export/stacks.h"
#include "store/intern.h"

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_TIME = 9,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT };
enum { LOCATION_ID = 1, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

struct writer {
    FILE *out;
    const struct exp_run *run;
    const struct exp_stack_tree *tree;
    struct store_intern strings;
    bool *located; /* by text: it is a location already */
    struct exp_message message, inner, deeper;
    bool failed;
};

/* Index in the table of strings, whose entry 0 is "". */
static uint64_t string(struct writer *writer, const char *text, size_t bytes)
{
    int64_t id = 0;
    bool added;
    if (bytes && store_intern_put(&writer->strings, text, bytes, &id, &added))
        writer->failed = true;
    return (uint64_t)id;
}

static void field(struct writer *writer, uint32_t number)
{
    if (!exp_pb_write(writer->out, number, &writer->message) && !ferror(writer->out))
        writer->failed = true;
}

static void value_type(struct writer *writer, uint32_t number, const char *type, const char *unit)
{
    exp_pb_varint(&writer->message, TYPE_TYPE, string(writer, type, strlen(type)));
    exp_pb_varint(&writer->message, TYPE_UNIT, string(writer, unit, strlen(unit)));
    field(writer, number);
}

/* Splits "name (/path/of/file.py:12)", as frames of Python are named. False: it is another name. */
static bool split_name(const char *text, size_t *name_bytes, const char **file, size_t *file_bytes,
                       uint64_t *line)
{
    const char *open = strstr(text, " ("), *colon = strrchr(text, ':');
    char *end;
    if (!open || !colon || colon < open + 3)
        return false;
    *line = strtoull(colon + 1, &end, 10);
    if (end == colon + 1 || strcmp(end, ")") != 0)
        return false;
    *name_bytes = (size_t)(open - text);
    *file = open + 2;
    *file_bytes = (size_t)(colon - open) - 2;
    return true;
}

/* The location of a frame, written at its first use. */
static uint64_t location(struct writer *writer, uint32_t name)
{
    const char *text = exp_text(writer->run, name), *file = "";
    uint64_t id = (uint64_t)name + 1, line = 0;
    size_t name_bytes = strlen(text), file_bytes = 0;
    if (name >= writer->run->text_count)
        id = writer->run->text_count + 1ull;
    if (writer->located[id - 1])
        return id;
    writer->located[id - 1] = true;
    split_name(text, &name_bytes, &file, &file_bytes, &line);
    if (!name_bytes) {
        text = "(no name)";
        name_bytes = strlen(text);
    }
    exp_pb_varint(&writer->message, FUNCTION_ID, id);
    exp_pb_varint(&writer->message, FUNCTION_NAME, string(writer, text, name_bytes));
    exp_pb_varint(&writer->message, FUNCTION_SYSTEM_NAME, string(writer, text, name_bytes));
    if (file_bytes)
        exp_pb_varint(&writer->message, FUNCTION_FILE, string(writer, file, file_bytes));
    field(writer, PROFILE_FUNCTION);
    exp_pb_varint(&writer->deeper, LINE_FUNCTION, id);
    if (line)
        exp_pb_varint(&writer->deeper, LINE_LINE, line);
    exp_pb_varint(&writer->message, LOCATION_ID, id);
    exp_pb_message(&writer->message, LOCATION_LINE, &writer->deeper);
    field(writer, PROFILE_LOCATION);
    return id;
}

static void label(struct writer *writer, const char *key, const char *text)
{
    exp_pb_varint(&writer->deeper, LABEL_KEY, string(writer, key, strlen(key)));
    exp_pb_varint(&writer->deeper, LABEL_TEXT, string(writer, text, strlen(text)));
    exp_pb_message(&writer->inner, SAMPLE_LABEL, &writer->deeper);
}

/* Where a stack was: process, rank, thread or device. */
static void labels(struct writer *writer, const struct exp_track *track)
{
    char text[160];
    if (track->process_at != EXP_NONE) {
        const struct exp_process *process = &writer->run->process[track->process_at];
        if (process->program)
            label(writer, "process", process->program);
        snprintf(text, sizeof text, "%" PRId64, process->rank);
        if (process->rank != STORE_ABSENT)
            label(writer, "rank", text);
    }
    if (track->device)
        label(writer, "device", track->device);
    snprintf(text, sizeof text, "%.120s", track->name && *track->name ? track->name : track->kind);
    label(writer, "thread", text);
}

static void sample(struct writer *writer, uint32_t stack)
{
    uint32_t name[EXP_STACK_MOST];
    uint64_t id[EXP_STACK_MOST], value[2];
    size_t depth = exp_stack_frames(writer->tree, stack, name), values = 0;
    int64_t self = writer->tree->node[stack].self;
    for (size_t i = 0; i < depth; i++)
        id[i] = location(writer, name[i]);
    if (writer->tree->period)
        value[values++] = (uint64_t)(self / writer->tree->period);
    value[values++] = (uint64_t)self;
    exp_pb_packed(&writer->inner, SAMPLE_LOCATION, id, depth);
    exp_pb_packed(&writer->inner, SAMPLE_VALUE, value, values);
    labels(writer, &writer->run->track[writer->tree->node[stack].track]);
    if (!exp_pb_write(writer->out, PROFILE_SAMPLE, &writer->inner) && !ferror(writer->out))
        writer->failed = true;
}

/* What a value of a sample is, and when the run was. */
static void head(struct writer *writer)
{
    const char *time = "self";
    if (writer->tree->period) {
        time = "cpu";
        value_type(writer, PROFILE_SAMPLE_TYPE, "samples", "count");
    }
    value_type(writer, PROFILE_SAMPLE_TYPE, time, "nanoseconds");
    value_type(writer, PROFILE_PERIOD_TYPE, time, "nanoseconds");
    struct exp_message numbers = {0};
    exp_pb_varint(&numbers, PROFILE_PERIOD,
                  writer->tree->period ? (uint64_t)writer->tree->period : 1);
    if (writer->run->origin > 0)
        exp_pb_varint(&numbers, PROFILE_TIME, (uint64_t)writer->run->origin);
    fwrite(numbers.data, 1, numbers.bytes, writer->out);
    writer->failed |= numbers.failed;
    exp_pb_free(&numbers);
}

static void strings(struct writer *writer)
{
    const struct store_intern *known = &writer->strings;
    exp_pb_bytes(&writer->message, PROFILE_STRING, "", 0);
    for (size_t i = 0; i < known->count; i++)
        exp_pb_bytes(&writer->message, PROFILE_STRING, known->arena + known->entry[i].offset,
                     known->entry[i].bytes);
    fwrite(writer->message.data, 1, writer->message.bytes, writer->out);
    writer->failed |= writer->message.failed;
}

static int print_pprof(FILE *out, const struct exp_run *run, const struct exp_stack_tree *tree)
{
    struct writer writer = {.out = out, .run = run, .tree = tree};
    writer.located = calloc(run->text_count + 2, sizeof *writer.located);
    writer.failed = !writer.located;
    if (!writer.failed)
        head(&writer);
    for (uint32_t i = 0; i < tree->count && !ferror(out) && !writer.failed; i++)
        if (tree->node[i].self > 0)
            sample(&writer, i);
    if (!writer.failed)
        strings(&writer);
    store_intern_clear(&writer.strings);
    exp_pb_free(&writer.message);
    exp_pb_free(&writer.inner);
    exp_pb_free(&writer.deeper);
    free(writer.located);
    return writer.failed ? TACHO_ENOMEM : 0;
}

int exp_pprof_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                    struct tacho_error *err)
{
    return exp_stacks_of(reader, options, out, EXP_STACKS_RANGES, print_pprof, err);
}

int exp_pprof_stacks_write(store_reader *reader, const struct store_export_options *options,
                           FILE *out, struct tacho_error *err)
{
    return exp_stacks_of(reader, options, out, EXP_STACKS_SAMPLES, print_pprof, err);
}

int exp_pprof_python_write(store_reader *reader, const struct store_export_options *options,
                           FILE *out, struct tacho_error *err)
{
    return exp_stacks_of(reader, options, out, EXP_STACKS_PYTHON, print_pprof, err);
}
