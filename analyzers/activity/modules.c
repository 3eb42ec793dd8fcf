/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of a model, rolled up: the ranges of the hook are named "blocks.7.mlp.0 (Linear)", one
 * for each module. Here they are one row for each pattern (blocks.*.mlp.0), class (Linear) and
 * depth (modules around it).
 *
 * Where steps are short the hook leaves the deepest levels out from some step on, because their
 * ranges would cost too much; its counter hook.module_depth says how many levels it records. What
 * is said of a module is therefore a mean over the steps that record it. A module of the last level
 * that is left holds parts that nothing shows: what of its time is its own is then not known.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/context.h"

#define ROWS_MOST   200
#define TEXT_MOST   512
#define EVERY_LEVEL 64    /* of the counter: nothing is left out */
#define BUDGET_PCT  "0.4" /* of a step, for ranges of modules: BUDGET of tacho_hook/modules.py */

/* Times of one name over the counted steps. */
struct sums {
    int64_t calls, total, own;
    int64_t steps;  /* of those with levels left out, the ones that record it */
    size_t stretch; /* number of the last stretch of them that has it */
    bool own_unknown;
};

/* What is known of one name where levels are left out in some steps. */
struct place {
    bool is_module;
    bool parts_known, has_parts; /* seen where nothing is left out; with modules inside of it */
};

/* Levels that are left out. */
struct levels {
    struct place *place; /* by name; NULL: no counted step leaves a level out */
    int64_t least;       /* levels that every counted step records */
    int64_t steps;       /* counted ones */
    int64_t whole;       /* of them, with every level */
    int64_t deeper;      /* with more levels than the least */
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

/* ---- levels that are left out ---------------------------------------------------------------- */

/* Levels of modules that the hook records in a step: the last value of its counter before it. Level
 * 1 is the module that is called first. */
static int64_t levels_of(const struct an_context *context, const struct an_step *step)
{
    const struct an_trace *trace = context->trace;
    uint32_t process = context->lane[step->lane].process;
    if (process == AN_NONE)
        return EVERY_LEVEL;
    AN_EACH_TRACK(trace, process, k)
    {
        const struct an_track *track = &trace->track[k];
        if (strcmp(track->kind, "counter") != 0 || strcmp(track->name, "hook.module_depth") != 0)
            continue;
        size_t i = an_counter_end(track);
        while (i > track->counter_first && trace->counter.time[i - 1] > step->host_start)
            i--;
        double levels = i > track->counter_first ? trace->counter.value[i - 1] : EVERY_LEVEL;
        return levels >= 0 && levels < EVERY_LEVEL ? (int64_t)levels : EVERY_LEVEL;
    }
    return EVERY_LEVEL;
}

static bool is_summed(const struct an_context *context, const struct an_step *step)
{
    return an_step_detailed(step) && context->lane[step->lane].track != AN_NONE;
}

/* The innermost module around a range; AN_NONE: none. */
static uint32_t module_around(const struct an_trace *trace, const struct place *place, size_t slice)
{
    int left = AN_DEPTH_MAX;
    uint32_t at = trace->slice.parent[slice];
    while (at != AN_NONE && left-- &&
           (trace->slice.name[at] == AN_NONE || !place[trace->slice.name[at]].is_module))
        at = trace->slice.parent[at];
    return left >= 0 ? at : AN_NONE;
}

/* Level of a module's range. The outermost module is named by its class alone: it is known by the
 * modules inside of it. */
static int64_t level_of(const struct an_trace *trace, const struct place *place, size_t slice,
                        uint32_t step)
{
    int64_t level = 1;
    uint32_t at = (uint32_t)slice, around;
    while ((around = module_around(trace, place, at)) != AN_NONE && level < AN_DEPTH_MAX) {
        at = around;
        level++;
    }
    uint32_t outside = trace->slice.parent[at];
    return level + (outside != AN_NONE && outside != step);
}

/* Learns from a step in which nothing is left out which modules have parts. */
static void learn_parts(const struct an_context *context, const struct an_step *step,
                        struct place *place)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < an_track_end(track) && trace->slice.start[i] < step->host_end; i++) {
        uint32_t name = trace->slice.name[i];
        if (name == AN_NONE || !place[name].is_module)
            continue;
        uint32_t around = module_around(trace, place, i);
        place[name].parts_known = true;
        if (around != AN_NONE)
            place[trace->slice.name[around]].has_parts = true;
    }
}

/* Finds how many levels the counted steps record. */
static int find_levels(const struct an_context *context, struct levels *levels)
{
    const struct an_trace *trace = context->trace;
    levels->least = EVERY_LEVEL;
    for (size_t i = 0; i < context->step_count; i++)
        if (is_summed(context, &context->step[i]))
            levels->least = an_time_min(levels->least, levels_of(context, &context->step[i]));
    if (levels->least >= EVERY_LEVEL)
        return 0;
    levels->place = an_arena_zero(context->scratch, trace->string_count + 1, sizeof *levels->place);
    if (!levels->place)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < trace->string_count; i++)
        levels->place[i].is_module = class_of(an_trace_name(trace, i)) != NULL;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (context->lane[step->lane].track != AN_NONE && levels_of(context, step) >= EVERY_LEVEL)
            learn_parts(context, step, levels->place);
    }
    return 0;
}

/* Why modules are missing; NULL: none is. */
static const char *left_out_words(struct an_context *context, const struct levels *levels)
{
    if (!levels->place)
        return NULL;
    const char *which = levels->least > 0 ? an_arena_format(context->arena,
                                                            "modules below level %" PRId64
                                                            " (1: the one that is called first)",
                                                            levels->least)
                                          : "modules";
    const char *where = levels->deeper > 0 ? an_arena_format(context->arena,
                                                             "recorded in %" PRId64 " of %" PRId64
                                                             " counted steps only",
                                                             levels->deeper, levels->steps)
                                           : "recorded in no counted step";
    return an_arena_format(context->arena,
                           "%s are %s: their ranges would cost more than " BUDGET_PCT
                           " %% of a step (docs/pytorch.md)",
                           which, where);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Counted steps of one lane, one after the other, that record the same levels. */
struct stretch {
    size_t number; /* from 1 on */
    int64_t steps, levels;
};

/* Is the own time of a module's range unknown, because modules inside of it may be left out? */
static bool hides_parts(const struct an_trace *trace, const struct levels *levels,
                        const struct stretch *stretch, size_t slice, uint32_t step)
{
    if (!levels->place || stretch->levels >= EVERY_LEVEL)
        return false;
    const struct place *place = &levels->place[trace->slice.name[slice]];
    return place->is_module && (place->has_parts || !place->parts_known) &&
           level_of(trace, levels->place, slice, step) >= stretch->levels;
}

/* Adds the ranges of one step. A range's own time is without those directly inside of it. */
static void add_step(const struct an_context *context, const struct an_step *step,
                     const struct levels *levels, const struct stretch *stretch, struct sums *sums)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[context->lane[step->lane].track];
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < an_track_end(track) && trace->slice.start[i] < step->host_end; i++) {
        uint32_t name = trace->slice.name[i], parent = trace->slice.parent[i];
        if (i == step->slice || name == AN_NONE || trace->slice.dur[i] == AN_OPEN)
            continue;
        int64_t dur = trace->slice.dur[i];
        struct sums *own = &sums[name];
        if (own->stretch != stretch->number && stretch->levels < EVERY_LEVEL)
            own->steps += stretch->steps;
        own->stretch = stretch->number;
        own->own_unknown = own->own_unknown || hides_parts(trace, levels, stretch, i, step->slice);
        own->calls++;
        own->total = an_time_add(own->total, dur);
        own->own = an_time_add(own->own, dur);
        if (parent != AN_NONE && parent != step->slice && trace->slice.name[parent] != AN_NONE)
            sums[trace->slice.name[parent]].own =
                an_time_sub(sums[trace->slice.name[parent]].own, dur);
    }
}

/* Adds all counted steps, in stretches that record the same levels. */
static void add_steps(const struct an_context *context, struct levels *levels, struct sums *sums)
{
    struct stretch stretch = {0};
    for (size_t first = 0, end; first < context->step_count; first = end) {
        uint32_t lane = context->step[first].lane;
        stretch =
            (struct stretch){stretch.number + 1, 0, levels_of(context, &context->step[first])};
        for (end = first; end < context->step_count && context->step[end].lane == lane &&
                          levels_of(context, &context->step[end]) == stretch.levels;
             end++)
            stretch.steps += is_summed(context, &context->step[end]);
        for (size_t i = first; i < end; i++)
            if (is_summed(context, &context->step[i]))
                add_step(context, &context->step[i], levels, &stretch, sums);
        levels->steps += stretch.steps;
        levels->whole += stretch.levels >= EVERY_LEVEL ? stretch.steps : 0;
        levels->deeper += stretch.levels > levels->least ? stretch.steps : 0;
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int by_key(const void *first, const void *second)
{
    return strcmp(((const struct member *)first)->key, ((const struct member *)second)->key);
}

/* For qsort: by own time, all of it where the own one is not known. */
static int by_own(const void *first, const void *second)
{
    const struct an_module_row *left = first, *right = second;
    double left_ms = left->own_ms.valid ? left->own_ms.value : left->total_ms,
           right_ms = right->own_ms.valid ? right->own_ms.value : right->total_ms;
    return 2 * AN_COMPARE(right_ms, left_ms) + AN_COMPARE(right->calls, left->calls);
}

/* Sums the members of each key to a row, largest first. */
static int roll_up(struct an_context *context, struct member *member, size_t count,
                   const struct an_module_row **rows, size_t *row_count)
{
    struct an_module_row *row = an_arena_zero(context->arena, count, sizeof *row);
    size_t used = 0;
    if (!row)
        return TACHO_ENOMEM;
    qsort(member, count, sizeof *member, by_key);
    for (size_t i = 0; i < count; i++) {
        if (!i || strcmp(member[i].key, member[i - 1].key) != 0)
            row[used++] = (struct an_module_row){
                .name = member[i].key, .own_ms = an_num(0), .steps = member[i].sums.steps};
        struct an_module_row *own = &row[used - 1];
        double steps = (double)member[i].sums.steps;
        own->modules++;
        own->steps = an_time_min(own->steps, member[i].sums.steps);
        own->calls += (double)member[i].sums.calls / steps;
        own->total_ms += (double)member[i].sums.total / steps / 1e6;
        own->own_ms.value += (double)member[i].sums.own / steps / 1e6;
        if (member[i].sums.own_unknown)
            own->own_ms = an_num_none("modules inside of it are not recorded in all these steps");
    }
    qsort(row, used, sizeof *row, by_own);
    *rows = row;
    *row_count = used < ROWS_MOST ? used : ROWS_MOST;
    return 0;
}

/* One table: the modules by one of the three. whole: counted steps with every level. */
static int table(struct an_context *context, const struct sums *sums, int64_t whole, enum rolled by,
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
        member[count].sums = sums[i];
        member[count++].sums.steps += whole; /* a module that is not in them did not run */
    }
    return count ? roll_up(context, member, count, rows, row_count) : 0;
}

static int modules_run(struct an_context *context)
{
    struct an_modules *modules = &context->result->modules;
    struct levels levels = {0};
    struct sums *sums =
        an_arena_zero(context->scratch, context->trace->string_count + 1, sizeof *sums);
    int rc = sums ? find_levels(context, &levels) : TACHO_ENOMEM;
    if (rc)
        return rc;
    add_steps(context, &levels, sums);
    modules->steps = levels.steps;
    modules->left_out = left_out_words(context, &levels);
    modules->levels =
        levels.place ? an_int(levels.least) : an_int_none("every counted step records every level");
    rc = table(context, sums, levels.whole, BY_PATTERN, &modules->pattern, &modules->pattern_count);
    if (rc == 0)
        rc = table(context, sums, levels.whole, BY_CLASS, &modules->class, &modules->class_count);
    if (rc == 0)
        rc = table(context, sums, levels.whole, BY_DEPTH, &modules->depth, &modules->depth_count);
    if (!modules->pattern_count)
        modules->reason =
            modules->left_out ? modules->left_out : "no range of the steps is a module of PyTorch";
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
