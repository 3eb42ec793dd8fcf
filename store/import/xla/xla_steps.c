/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the steps of an XLA profile: the marks of the device or of the program, else executions
 * of the module that takes most time on the devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/xla/xla.h"
#include "store/keyed_hash.h"

#define STEPS_MOST    (1u << 20)
#define NAMES_MOST    4096 /* modules and calls of one profile */
#define NAME_MOST     512  /* bytes of one that count */
#define REGULAR_LEAST 3    /* executions before a module can be a step */

/* The number of a name; SIZE_MAX: it is new, and there are too many. */
static int name_of(struct xla_steps *steps, struct pb_span text, size_t *out)
{
    text.bytes = text.bytes < NAME_MOST ? text.bytes : NAME_MOST;
    int64_t hash = (int64_t)store_hash_bytes(text.data, text.bytes);
    const int64_t *known = imp_map_find(&steps->names, hash, (int64_t)text.bytes);
    *out = known ? (size_t)*known : SIZE_MAX;
    if (known || steps->name_count >= NAMES_MOST)
        return 0;
    if (imp_list_room((void **)&steps->name, &steps->name_room, steps->name_count,
                      sizeof *steps->name))
        return TACHO_ENOMEM;
    char *copy = strndup((const char *)text.data, text.bytes);
    if (!copy ||
        imp_map_put(&steps->names, hash, (int64_t)text.bytes, (int64_t)steps->name_count)) {
        free(copy);
        return TACHO_ENOMEM;
    }
    *out = steps->name_count++;
    steps->name[*out] = (struct xla_step_name){.text = copy};
    return 0;
}

int xla_steps_add(struct xla_steps *steps, struct xla_step step, struct pb_span name)
{
    step.name = SIZE_MAX;
    if (steps->count >= STEPS_MOST || step.start < 0 || step.start > IMP_TIME_MAX ||
        step.end < step.start || step.end > IMP_TIME_MAX)
        return 0;
    int rc = name.bytes ? name_of(steps, name, &step.name) : 0;
    if (!rc)
        rc = imp_list_room((void **)&steps->step, &steps->room, steps->count, sizeof step);
    if (!rc)
        steps->step[steps->count++] = step;
    return rc;
}

/* Adds a time that a damaged file may have made as large as it likes. */
static void add_time(int64_t *sum, int64_t dur)
{
    if (dur > 0 && dur < IMP_TIME_MAX && __builtin_add_overflow(*sum, dur, sum))
        *sum = INT64_MAX;
}

int xla_steps_module_time(struct xla_steps *steps, struct pb_span module, int64_t start,
                          int64_t end)
{
    size_t name;
    int64_t dur;
    int rc = module.bytes ? name_of(steps, module, &name) : 0;
    if (rc || !module.bytes || name == SIZE_MAX || __builtin_sub_overflow(end, start, &dur))
        return rc;
    add_time(&steps->name[name].device_ns, dur);
    if (end > steps->name[name].device_end && end <= IMP_TIME_MAX)
        steps->name[name].device_end = end;
    return 0;
}

int xla_steps_launch(struct xla_steps *steps, struct xla_step step, struct pb_span event)
{
    size_t name;
    struct pb_span module = xla_launched_module(event);
    int64_t dur;
    int rc = module.bytes ? name_of(steps, module, &name) : 0;
    if (rc || !module.bytes || name == SIZE_MAX ||
        __builtin_sub_overflow(step.end, step.start, &dur))
        return rc;
    add_time(&steps->name[name].launch_ns, dur);
    step.source = XLA_STEP_LAUNCH;
    return xla_steps_add(steps, step, module);
}

/* ---- the choice ------------------------------------------------------------------------------------------------------------- */

static int step_order(const void *left, const void *right)
{
    const struct xla_step *first = left, *second = right;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return (first->end < second->end) - (first->end > second->end);
}

/* The module whose operations take most time on the devices; where no operation names one (kernels
 * of CUDA graphs, which XLA calls command buffers), that whose launches do. NULL: there is none. */
static const char *main_module(const struct xla_steps *steps)
{
    const struct xla_step_name *best = NULL, *launched = NULL;
    for (size_t i = 0; i < steps->name_count; i++) {
        if (steps->name[i].device_ns > (best ? best->device_ns : 0))
            best = &steps->name[i];
        if (steps->name[i].launch_ns > (launched ? launched->launch_ns : 0))
            launched = &steps->name[i];
    }
    best = best ? best : launched;
    return best ? best->text : NULL;
}

static bool is_of_module(const struct xla_steps *steps, const struct xla_step *step,
                         const char *module)
{
    if (!module || step->name == SIZE_MAX)
        return false;
    struct pb_span name = xla_span(steps->name[step->name].text), wanted = xla_span(module);
    if (step->source == XLA_STEP_CALL)
        return xla_is_call_of(name, wanted);
    /* The line of modules has "jit_f(17)", operations name "jit_f". */
    return xla_begins(name, module) &&
           (name.bytes == wanted.bytes || name.data[wanted.bytes] == '(');
}

/* Is the step one of this source, and of the main module where the source needs one? */
static bool is_of(const struct xla_steps *steps, const struct xla_step *step,
                  enum xla_step_source source, const char *module)
{
    return step->source == source && (source == XLA_STEP_DEVICE || source == XLA_STEP_MARKED ||
                                      is_of_module(steps, step, module));
}

/* Finds the thread or device with most steps of a source; of equal ones the first. */
static int busiest_place(const struct xla_steps *steps, enum xla_step_source source,
                         const char *module, int64_t *place)
{
    struct imp_map counts = {0};
    int64_t most = 0;
    int rc = 0;
    *place = STORE_ABSENT;
    for (size_t i = 0; i < steps->count && !rc; i++) {
        const struct xla_step *step = &steps->step[i];
        if (!is_of(steps, step, source, module))
            continue;
        const int64_t *known = imp_map_find(&counts, step->place, 0);
        int64_t count = 1 + (known ? *known : 0);
        if (count > most) {
            most = count;
            *place = step->place;
        }
        rc = imp_map_put(&counts, step->place, 0, count);
    }
    imp_map_free(&counts);
    return rc;
}

/* Keeps the outermost steps of one source on its busiest place, as the first ones of the list.
 * Returns their number. */
static size_t keep_source(struct xla_steps *steps, enum xla_step_source source, int64_t place,
                          const char *module)
{
    int64_t end = INT64_MIN;
    size_t kept = 0;
    for (size_t i = 0; i < steps->count; i++) {
        struct xla_step step = steps->step[i];
        if (!is_of(steps, &step, source, module) || step.place != place || step.start < end)
            continue;
        end = step.end;
        steps->step[kept++] = step;
    }
    return kept;
}

static size_t count_source(const struct xla_steps *steps, enum xla_step_source source,
                           const char *module)
{
    size_t count = 0;
    for (size_t i = 0; i < steps->count; i++)
        count += is_of(steps, &steps->step[i], source, module);
    return count;
}

/* A call or a launch returns before its work is done: each step lasts until the next one begins.
 * The last one lasts to the end of the last operation of its module, and is left out where none is
 * known to end behind it. Returns the number of steps. */
static size_t last_to_next(struct xla_steps *steps, size_t count, const char *module)
{
    int64_t end = steps->step[count - 1].end;
    for (size_t i = 0; i + 1 < count; i++)
        steps->step[i].end = steps->step[i + 1].start;
    for (size_t i = 0; i < steps->name_count; i++)
        if (!strcmp(steps->name[i].text, module) && steps->name[i].device_end > end)
            steps->step[count - 1].end = steps->name[i].device_end;
    return steps->step[count - 1].end > end ? count : count - 1;
}

/* Writes the chosen steps. Where they have no number of their own they are counted from 0. */
static int write_rows(const struct xla_steps *steps, size_t count, bool numbered,
                      struct imp_rows *rows)
{
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        struct store_step row = {.process = rows->process,
                                 .index = numbered ? steps->step[i].index : (int64_t)i,
                                 .start = steps->step[i].start,
                                 .end = steps->step[i].end,
                                 .tokens = STORE_ABSENT,
                                 .samples = STORE_ABSENT};
        rc = rows->run->salvage_only ? 0 : store_step_add(rows->run->db, &row);
    }
    return rc;
}

int xla_steps_write(struct xla_steps *steps, struct imp_rows *rows)
{
    static const struct {
        enum xla_step_source source;
        bool numbered;
        size_t least;
        const char *text;
    } sources[] = {
        {XLA_STEP_DEVICE, true, 1, "line Steps of the device"},
        {XLA_STEP_MARKED, true, 1, "step_num (StepTraceAnnotation)"},
        {XLA_STEP_MODULE, false, REGULAR_LEAST, "executions of the XLA module "},
        {XLA_STEP_CALL, false, REGULAR_LEAST, "calls of the XLA module "},
        {XLA_STEP_LAUNCH, false, REGULAR_LEAST, "launches of the XLA module "},
    };
    char text[320];
    const char *module = main_module(steps);
    if (steps->count)
        qsort(steps->step, steps->count, sizeof *steps->step, step_order);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        enum xla_step_source source = sources[i].source;
        if (count_source(steps, source, module) < sources[i].least)
            continue;
        int64_t place;
        int rc = busiest_place(steps, source, module, &place);
        size_t count = rc ? 0 : keep_source(steps, source, place, module);
        bool named = source != XLA_STEP_DEVICE && source != XLA_STEP_MARKED;
        if (count && (source == XLA_STEP_CALL || source == XLA_STEP_LAUNCH))
            count = last_to_next(steps, count, module);
        snprintf(text, sizeof text, "%s%.250s", sources[i].text, named && module ? module : "");
        if (!rc)
            rc = write_rows(steps, count, sources[i].numbered, rows);
        return rc || rows->run->salvage_only
                   ? rc
                   : store_run_set(rows->run->db, "steps.marked_by", text);
    }
    return 0;
}

void xla_steps_clear(struct xla_steps *steps)
{
    for (size_t i = 0; i < steps->name_count; i++)
        free(steps->name[i].text);
    free(steps->name);
    free(steps->step);
    imp_map_free(&steps->names);
    *steps = (struct xla_steps){0};
}
