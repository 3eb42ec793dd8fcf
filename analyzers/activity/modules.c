/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of a model, rolled up: the ranges of the hook are named "blocks.7.mlp.0 (Linear)", one
 * for each module. Here they are one row for each pattern (blocks.*.mlp.0), class (Linear) and
 * depth (modules around it).
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/context.h"

#define ROWS_MOST 200
#define TEXT_MOST 512

/* Times of one name over the counted steps. */
struct sums {
    int64_t calls, total, own;
};

/* A module before it is rolled up: the key of its row, and what it adds. */
struct member {
    const char *key;
    struct sums sums;
};

/* What a name is rolled up by. */
enum rolled { BY_PATTERN, BY_CLASS, BY_DEPTH };

/* "blocks.7.mlp.0 (Linear)": where the class begins, after " ("; NULL: no module's name. */
static const char *class_of(const char *name)
{
    size_t length = strlen(name);
    const char *open = strstr(name, " (");
    if (!open || open == name || length < 4 || length > TEXT_MOST || name[length - 1] != ')')
        return NULL;
    for (const char *at = open + 2; at < name + length - 1; at++)
        if (!isalnum((unsigned char)*at) && *at != '_' && *at != '.')
            return NULL;
    return open + 2;
}

/* Writes the path with each part that is a number as an asterisk, but for a last one behind
 * others: blocks.7.mlp.0 and blocks.7.mlp.2 are different parts of one block. */
static void pattern_of(const char *name, size_t length, char out[TEXT_MOST + 1])
{
    size_t used = 0;
    bool repeated = false;
    for (size_t at = 0; at < length;) {
        size_t part = strcspn(name + at, ".");
        part = at + part > length ? length - at : part;
        bool number = part > 0 && strspn(name + at, "0123456789") >= part;
        if (number && !(repeated && at + part == length)) {
            out[used++] = '*';
            repeated = true;
        } else {
            memcpy(out + used, name + at, part);
            used += part;
        }
        at += part;
        if (at < length)
            out[used++] = name[at++];
    }
    out[used] = 0;
}

static const char *key_of(struct an_context *context, const char *name, enum rolled by)
{
    const char *class = class_of(name);
    size_t path = (size_t)(class - 2 - name), dots = 0;
    char pattern[TEXT_MOST + 1];
    switch (by) {
    case BY_CLASS:
        return an_arena_format(context->arena, "%.*s", (int)(strlen(class) - 1), class);
    case BY_DEPTH:
        for (size_t i = 0; i < path; i++)
            dots += name[i] == '.';
        return an_arena_format(context->arena, "depth %zu", dots + 1);
    case BY_PATTERN:
    default:
        pattern_of(name, path, pattern);
        return an_arena_format(context->arena, "%s (%s", pattern, class);
    }
}

/* Adds the ranges of one step. A range's own time is without those directly inside of it. */
static void add_step(const struct an_context *context, const struct an_step *step,
                     struct sums *sums)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < an_track_end(track) && trace->slice.start[i] < step->host_end; i++) {
        uint32_t name = trace->slice.name[i], parent = trace->slice.parent[i];
        if (i == step->slice || name == AN_NONE || trace->slice.dur[i] == AN_OPEN)
            continue;
        int64_t dur = trace->slice.dur[i];
        sums[name].calls++;
        sums[name].total = an_time_add(sums[name].total, dur);
        sums[name].own = an_time_add(sums[name].own, dur);
        if (parent != AN_NONE && parent != step->slice && trace->slice.name[parent] != AN_NONE)
            sums[trace->slice.name[parent]].own =
                an_time_sub(sums[trace->slice.name[parent]].own, dur);
    }
}

static int by_key(const void *first, const void *second)
{
    return strcmp(((const struct member *)first)->key, ((const struct member *)second)->key);
}

static int by_own(const void *first, const void *second)
{
    const struct an_module_row *left = first, *right = second;
    return 2 * AN_COMPARE(right->own_ms, left->own_ms) + AN_COMPARE(right->calls, left->calls);
}

/* Sums the members of each key to a row, largest first. */
static int roll_up(struct an_context *context, struct member *member, size_t count, double steps,
                   const struct an_module_row **rows, size_t *row_count)
{
    struct an_module_row *row = an_arena_zero(context->arena, count, sizeof *row);
    size_t used = 0;
    if (!row)
        return TACHO_ENOMEM;
    qsort(member, count, sizeof *member, by_key);
    for (size_t i = 0; i < count; i++) {
        if (!i || strcmp(member[i].key, member[i - 1].key) != 0)
            row[used++] = (struct an_module_row){.name = member[i].key};
        struct an_module_row *own = &row[used - 1];
        own->modules++;
        own->calls += (double)member[i].sums.calls / steps;
        own->total_ms += (double)member[i].sums.total / steps / 1e6;
        own->own_ms += (double)member[i].sums.own / steps / 1e6;
    }
    qsort(row, used, sizeof *row, by_own);
    *rows = row;
    *row_count = used < ROWS_MOST ? used : ROWS_MOST;
    return 0;
}

/* One table: the modules by one of the three. */
static int table(struct an_context *context, const struct sums *sums, enum rolled by, double steps,
                 const struct an_module_row **rows, size_t *row_count)
{
    const struct an_trace *trace = context->trace;
    struct member *member =
        an_arena_zero(context->scratch, trace->string_count + 1, sizeof *member);
    size_t count = 0;
    if (!member)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < trace->string_count; i++) {
        const char *name = an_trace_name(trace, i);
        if (!sums[i].calls || !class_of(name))
            continue;
        member[count].key = key_of(context, name, by);
        if (!member[count].key)
            return TACHO_ENOMEM;
        member[count++].sums = sums[i];
    }
    return count ? roll_up(context, member, count, steps, rows, row_count) : 0;
}

static int modules_run(struct an_context *context)
{
    struct an_modules *modules = &context->result->modules;
    struct sums *sums =
        an_arena_zero(context->scratch, context->trace->string_count + 1, sizeof *sums);
    double steps = 0;
    if (!sums)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_detailed(step) || context->lane[step->lane].track == AN_NONE)
            continue;
        add_step(context, step, sums);
        steps++;
    }
    int rc = table(context, sums, BY_PATTERN, steps, &modules->pattern, &modules->pattern_count);
    if (rc == 0)
        rc = table(context, sums, BY_CLASS, steps, &modules->class, &modules->class_count);
    if (rc == 0)
        rc = table(context, sums, BY_DEPTH, steps, &modules->depth, &modules->depth_count);
    if (!modules->pattern_count)
        modules->reason = "no range of the steps is a module of PyTorch";
    return rc;
}

static void absent(struct an_context *context, const char *reason)
{
    context->result->modules = (struct an_modules){.reason = reason};
}

const struct an_analyzer an_modules_rolled = {
    .name = "modules",
    .help = "modules of a model by pattern, class and depth",
    .after = "steps",
    .needs = AN_INPUT_SLICES | AN_INPUT_DETAIL,
    .run = modules_run,
    .absent = absent,
};
