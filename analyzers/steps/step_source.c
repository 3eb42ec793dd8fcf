/* SPDX-License-Identifier: Apache-2.0
 *
 * Where steps come from, in the order of docs/definitions.md: what the user names (step_marker.c);
 * tacho.step payloads; ranges named ProfilerStep#N; the time between two ends of Optimizer.step; an
 * outermost, regular range whose name holds step, iteration or train_step as a whole word; the time
 * between two groups of optimizer kernels on a device (step_kernels.c). A program may have several
 * optimizers that each make one update a step: of several names of Optimizer.step the one that
 * comes least often counts, of equal ones the last.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/step_private.h"

#define REGULAR_LEAST 3 /* ranges of a name before it can be a step */

static bool is_thread(const struct an_track *track)
{
    return strcmp(track->kind, "range") && strcmp(track->kind, "counter") &&
           strcmp(track->kind, "stream");
}

/* End of a range, STORE_ABSENT if it is not in the file. */
static int64_t known_end(const struct an_trace *trace, size_t i)
{
    return trace->slice.dur[i] == AN_OPEN ? STORE_ABSENT : an_slice_end(trace, i);
}

/* ---- tacho.step --------------------------------------------------------------------------------------------------------- */

struct step_slice {
    uint32_t process, track, slice;
    int64_t start;
};

static int step_slice_order(const void *first, const void *second, void *ctx)
{
    (void)ctx;
    const struct step_slice *left = first, *right = second;
    return 4 * AN_COMPARE(left->process, right->process) +
           2 * AN_COMPARE(left->start, right->start) + AN_COMPARE(left->slice, right->slice);
}

/* Every range with a tacho.step payload, by process and start. */
static int step_slices(const struct an_trace *trace, struct step_slice **out, size_t *count)
{
    size_t found = 0, room = 0;
    struct step_slice *all = NULL;
    for (uint32_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (!is_thread(track))
            continue;
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            if (an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_STEP)
                continue;
            if (an_grow(&all, &room, found + 1, sizeof *all)) {
                free(all);
                return TACHO_ENOMEM;
            }
            all[found++] =
                (struct step_slice){track->process, k, (uint32_t)i, trace->slice.start[i]};
        }
    }
    an_order(all, found, sizeof *all, step_slice_order, NULL);
    *out = all;
    *count = found;
    return 0;
}

/* Returns the range of a process that starts at `start`, with INT64_MIN its first one; NULL if
 * there is none. `next` is where it is looked for first, and then the one after it: rows and ranges
 * are in the same order but where limits have left ranges out. */
static const struct step_slice *step_slice_of(const struct step_slice *all, size_t count,
                                              uint32_t process, int64_t start, size_t *next)
{
    size_t low = 0, high = count;
    if (*next < count && all[*next].process == process && all[*next].start == start)
        return &all[(*next)++];
    AN_BISECT(low, high,
              all[middle].process < process ||
                  (all[middle].process == process && all[middle].start < start));
    bool found = low < count && all[low].process == process &&
                 (all[low].start == start || start == INT64_MIN);
    if (found)
        *next = low + 1;
    return found ? &all[low] : NULL;
}

/* Adds the rows of the table `step`. Their ranges, where the file has them, name the thread; a
 * step whose range was cut by a limit ran on the thread of the other steps of its process. */
static int find_rows(struct finder *finder, const struct step_slice *all, size_t count)
{
    const struct an_trace *trace = finder->context->trace;
    size_t next = 0, first = 0;
    if (an_grow(&finder->found, &finder->room, trace->step_count, sizeof *finder->found))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->step_count; i++) {
        const struct an_step_row *step_row = &trace->step[i];
        const struct step_slice *exact =
            step_slice_of(all, count, step_row->process, step_row->start, &next);
        const struct step_slice *any =
            exact ? exact : step_slice_of(all, count, step_row->process, INT64_MIN, &first);
        struct found_step found_step =
            found_step_of(step_row->process, any ? any->track : AN_NONE, step_row->index,
                          step_row->start, step_row->end);
        if (exact)
            found_step.step.slice = exact->slice;
        if (step_row->tokens >= 0)
            found_step.step.tokens = step_row->tokens;
        if (step_row->samples >= 0)
            found_step.step.samples = step_row->samples;
        found_step.step.paused = step_row->paused;
        int rc = an_found_add(finder, found_step);
        if (rc)
            return rc;
    }
    return 0;
}

static int find_marked(struct finder *finder)
{
    const struct an_trace *trace = finder->context->trace;
    struct step_slice *all = NULL;
    size_t count = 0;
    int rc = step_slices(trace, &all, &count);
    if (!rc && trace->step_count)
        rc = find_rows(finder, all, count);
    for (size_t i = 0; !rc && !trace->step_count && i < count; i++) {
        struct found_step found_step = found_step_of(all[i].process, all[i].track, (int64_t)i,
                                                     all[i].start, known_end(trace, all[i].slice));
        found_step.step.slice = all[i].slice;
        rc = an_found_add(finder, found_step);
    }
    free(all);
    return rc;
}

/* ---- by name ------------------------------------------------------------------------------------------------------------ */

static bool word_is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !strncasecmp(text, word, length);
}

/* step, iteration or train_step as a whole word; a number that counts them ("step 12",
 * "iteration_3") does not disturb. */
static bool has_step_word(const char *name)
{
    while (*name) {
        size_t length = 0;
        while (isalnum((unsigned char)name[length]) || name[length] == '_')
            length++;
        size_t bare = length;
        while (bare && isdigit((unsigned char)name[bare - 1]))
            bare--;
        while (bare && name[bare - 1] == '_')
            bare--;
        if (word_is(name, bare, "step") || word_is(name, bare, "iteration") ||
            word_is(name, bare, "train_step"))
            return true;
        name += length ? length : 1;
    }
    return false;
}

static enum name_kind name_kind(const char *name)
{
    if (!strncmp(name, "ProfilerStep#", 13) && isdigit((unsigned char)name[13]))
        return NAME_PROFILER_STEP;
    if (!strncmp(name, "Optimizer.step", 14) && !isalnum((unsigned char)name[14]))
        return NAME_OPTIMIZER;
    return has_step_word(name) ? NAME_WORD : NAME_OTHER;
}

static enum name_kind kind_of(const struct finder *finder, size_t slice)
{
    uint32_t name = finder->context->trace->slice.name[slice];
    return name < finder->context->trace->string_count ? (enum name_kind)finder->kind[name]
                                                       : NAME_OTHER;
}

/* Is a range of the same kind of name open around slice i? */
static bool is_nested(const struct finder *finder, size_t i, enum name_kind kind)
{
    const struct an_trace *trace = finder->context->trace;
    int levels = AN_DEPTH_MAX;
    for (uint32_t around = trace->slice.parent[i]; around != AN_NONE && levels--;
         around = trace->slice.parent[around])
        if (kind_of(finder, around) == kind && an_slice_open_at(trace, around, i))
            return true;
    return false;
}

struct optimizer_name {
    uint32_t name;
    size_t count, last;
};

/* Finds the name of the given kind that occurs least often on a track, but at least twice; of
 * equally frequent ones the last. *out is AN_NONE if there is none. */
static int rarest_name(struct finder *finder, const struct an_track *track, enum name_kind kind,
                       uint32_t *out)
{
    struct optimizer_name *all = NULL, *best = NULL;
    size_t count = 0, room = 0;
    for (size_t i = track->slice_first; i < an_track_end(track); i++) {
        if (kind_of(finder, i) != kind || is_nested(finder, i, kind))
            continue;
        uint32_t name = finder->context->trace->slice.name[i];
        size_t at = 0;
        while (at < count && all[at].name != name)
            at++;
        if (at == count) {
            if (count == 64) /* so many names are not those of optimizers */
                continue;
            if (an_grow(&all, &room, count + 1, sizeof *all)) {
                free(all);
                return TACHO_ENOMEM;
            }
            all[count++] = (struct optimizer_name){.name = name};
        }
        all[at].count++;
        all[at].last = i;
    }
    for (size_t at = 0; at < count; at++)
        if (all[at].count > 1 && (!best || all[at].count < best->count ||
                                  (all[at].count == best->count && all[at].last > best->last)))
            best = &all[at];
    *out = best ? best->name : AN_NONE;
    free(all);
    return 0;
}

/* One step for each range of that kind of name (ends = false), or from the end of each to the end
 * of the next (ends = true). */
static int find_named(struct finder *finder, enum name_kind kind, bool ends)
{
    const struct an_trace *trace = finder->context->trace;
    int rc = 0;
    for (uint32_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        int64_t before = STORE_ABSENT, ordinal = 0;
        uint32_t name = AN_NONE;
        if (!is_thread(track))
            continue;
        if (ends && (rc = rarest_name(finder, track, kind, &name)))
            return rc;
        for (size_t i = track->slice_first; i < an_track_end(track) && !rc; i++) {
            if (kind_of(finder, i) != kind || is_nested(finder, i, kind) ||
                (ends && trace->slice.name[i] != name))
                continue;
            int64_t end = known_end(trace, i);
            struct found_step found_step = found_step_of(track->process, k, ordinal, before, end);
            if (!ends) {
                found_step.step.slice = (uint32_t)i;
                found_step.step.start = trace->slice.start[i];
            }
            if (kind == NAME_PROFILER_STEP)
                found_step.step.index =
                    strtoll(an_trace_name(trace, trace->slice.name[i]) + 13, NULL, 10);
            if (!ends || (before != STORE_ABSENT && end != STORE_ABSENT))
                rc = an_found_add(finder, found_step);
            before = end;
            ordinal++;
        }
    }
    return rc;
}

/* Length of a name without the number that counts it: "step 12" and "step 13" belong to one
 * group. */
static size_t group_length(const char *name)
{
    size_t length = strlen(name);
    while (length &&
           (isdigit((unsigned char)name[length - 1]) || strchr(" #:_-", name[length - 1])))
        length--;
    return length;
}

struct name_group {
    uint32_t track, name;
    size_t count;
    int64_t total, first, last;
};

static bool group_is(const struct finder *finder, const struct name_group *name_group,
                     uint32_t track, const char *name)
{
    const char *other = an_trace_name(finder->context->trace, name_group->name);
    size_t length = group_length(name);
    return name_group->track == track && group_length(other) == length &&
           !memcmp(other, name, length);
}

/* Finds the group of names that covers most time on a track among the regular ones: at least
 * REGULAR_LEAST ranges that cover half of the time from the first to the last. */
static int best_group(struct finder *finder, uint32_t track, struct name_group *best)
{
    const struct an_trace *trace = finder->context->trace;
    const struct an_track *thread = &trace->track[track];
    struct name_group *all = NULL;
    size_t count = 0, room = 0;
    best->count = 0;
    for (size_t i = thread->slice_first; i < an_track_end(thread); i++) {
        if (kind_of(finder, i) != NAME_WORD || trace->slice.dur[i] == AN_OPEN ||
            is_nested(finder, i, NAME_WORD))
            continue;
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        size_t group = 0;
        while (group < count && !group_is(finder, &all[group], track, name))
            group++;
        if (group == count) {
            if (count == 64) /* that many different names are not one regular range */
                continue;
            if (an_grow(&all, &room, count + 1, sizeof *all)) {
                free(all);
                return TACHO_ENOMEM;
            }
            all[count++] = (struct name_group){
                .track = track, .name = trace->slice.name[i], .first = trace->slice.start[i]};
        }
        all[group].count++;
        all[group].total = an_time_add(all[group].total, trace->slice.dur[i]);
        all[group].last = an_slice_end(trace, i);
    }
    for (size_t group = 0; group < count; group++)
        if (all[group].count >= REGULAR_LEAST &&
            all[group].total >= an_time_sub(all[group].last, all[group].first) / 2 &&
            (!best->count || all[group].total > best->total))
            *best = all[group];
    free(all);
    return 0;
}

/* The best group of each process, on the thread whose group covers most time; the last one is that
 * of threads without a process. NULL: out of memory. */
static struct name_group *best_groups(struct finder *finder)
{
    const struct an_trace *trace = finder->context->trace;
    struct name_group name_group,
        *best = an_arena_zero(finder->context->scratch, trace->process_count + 1, sizeof *best);
    for (uint32_t thread = 0; best && thread < trace->track_count; thread++) {
        const struct an_track *track = &trace->track[thread];
        if (!is_thread(track))
            continue;
        if (best_group(finder, thread, &name_group))
            return NULL;
        bool is_known = track->process < trace->process_count;
        struct name_group *of_process = &best[is_known ? track->process : trace->process_count];
        if (name_group.count && (!of_process->count || name_group.total > of_process->total))
            *of_process = name_group;
    }
    return best;
}

/* Adds the ranges of the best group of each process: one lane a process. */
static int find_regular(struct finder *finder, const char **source)
{
    const struct an_trace *trace = finder->context->trace;
    const struct name_group *groups = best_groups(finder);
    if (!groups)
        return TACHO_ENOMEM;
    for (uint32_t index = 0; index <= trace->process_count; index++) {
        uint32_t process = index < trace->process_count ? index : AN_NONE;
        const struct name_group best = groups[index];
        if (!best.count)
            continue;
        const struct an_track *track = &trace->track[best.track];
        int64_t ordinal = 0;
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            if (kind_of(finder, i) != NAME_WORD || is_nested(finder, i, NAME_WORD) ||
                !group_is(finder, &best, best.track, an_trace_name(trace, trace->slice.name[i])))
                continue;
            struct found_step found_step = found_step_of(
                process, best.track, ordinal++, trace->slice.start[i], known_end(trace, i));
            found_step.step.slice = (uint32_t)i;
            if (an_found_add(finder, found_step))
                return TACHO_ENOMEM;
        }
        if (!*source) {
            const char *name = an_trace_name(trace, best.name);
            *source =
                an_arena_format(finder->context->arena, "nvtx:%.*s", (int)group_length(name), name);
        }
    }
    return 0;
}

/* ---- lanes -------------------------------------------------------------------------------------------------------------- */

/* Steps as the user names them: outermost ranges that match, else kernels. *source stays NULL where
 * nothing matches. */
static int find_by_marker(struct finder *finder, const char *marker, const char **source)
{
    const char *what = "ranges";
    int rc = an_step_marker_names(finder, marker);
    if (!rc)
        rc = find_named(finder, NAME_MARKED, false);
    if (!rc && !finder->count && finder->context->gpu) {
        what = "kernels";
        rc = an_steps_of_marked_kernels(finder);
    }
    if (!rc && finder->count)
        *source =
            an_arena_format(finder->context->arena, "--step-marker %.200s (%s)", marker, what);
    return rc;
}

/* Steps as the trace itself shows them, from the first source that has some. */
static int find_sources(struct finder *finder, const char **source)
{
    const struct an_trace *trace = finder->context->trace;
    int rc = find_marked(finder);
    const char *marked_by = an_trace_key(trace, "steps.marked_by");
    *source = finder->count ? "tacho.step" : NULL;
    if (finder->count && marked_by)
        *source = an_arena_text(finder->context->arena, marked_by);
    if (!rc && !finder->count) {
        rc = (finder->kind = malloc(trace->string_count + 1)) ? 0 : TACHO_ENOMEM;
        for (size_t i = 0; !rc && i < trace->string_count; i++)
            finder->kind[i] = (uint8_t)name_kind(trace->string[i]);
    }
    if (!rc && !finder->count) {
        rc = find_named(finder, NAME_PROFILER_STEP, false);
        *source = finder->count ? "ProfilerStep" : NULL;
        if (!rc)
            an_steps_accumulate(finder);
    }
    if (!rc && !finder->count) {
        rc = find_named(finder, NAME_OPTIMIZER, true);
        *source = finder->count ? "Optimizer.step" : NULL;
    }
    if (!rc && !finder->count)
        rc = find_regular(finder, source);
    if (!rc && !finder->count && finder->context->gpu)
        rc = an_steps_of_kernels(finder, source);
    return rc;
}

int an_steps_find(struct an_context *context, const char **source)
{
    struct finder finder = {.context = context};
    const char *marker = an_step_marker(context);
    *source = NULL;
    context->result->steps.confidence = AN_HIGH; /* an_steps_of_kernels knows better */
    int rc = marker ? find_by_marker(&finder, marker, source) : find_sources(&finder, source);
    if (!rc)
        rc = an_found_lanes(&finder);
    if (!rc && context->gpu && context->step_count)
        rc = an_steps_project(context);
    if (!rc && context->lane_count)
        rc = an_lanes_index(context);
    free(finder.kind);
    free(finder.found);
    return rc;
}
