/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host did while devices had nothing to run: the launch-starved time of all devices by
 * the name of the range or call. Waiting for the loader is a class of its own and not part of it.
 */
#include <string.h>

#include "analyzers/findings/findings_private.h"
#include "analyzers/graph/graph.h"

#define CANDIDATES_MOST 8

struct named {
    const char *name;
    int64_t ns;
};

/* Waiting for the loader is a finding of its own. */
static bool is_input(const struct an_absent_cause *cause)
{
    return !strcmp(cause->cause, an_cause_key(AN_CAUSE_INPUT));
}

/* Time of a name on all devices. */
static int64_t time_of(const struct an_result *result, const char *name)
{
    int64_t ns = 0;
    for (size_t device = 0; device < result->absent_count; device++)
        for (size_t i = 0; i < result->absent[device].cause_count; i++) {
            const struct an_absent_cause *cause = &result->absent[device].causes[i];
            if (!is_input(cause) && !strcmp(cause->name, name))
                ns = an_time_add(ns, cause->ns);
        }
    return ns;
}

/* The device that was launch-starved longest, NULL: no cause is known. *all_ns: of all devices. */
static const struct an_absent *most_starved(const struct an_result *result, int64_t *all_ns)
{
    const struct an_absent *most = NULL;
    *all_ns = 0;
    for (size_t device = 0; device < result->absent_count; device++) {
        const struct an_absent *absent = &result->absent[device];
        for (size_t i = 0; i < absent->cause_count; i++)
            if (!is_input(&absent->causes[i]))
                *all_ns = an_time_add(*all_ns, absent->causes[i].ns);
        if (absent->cause_count && (!most || absent->part_ns[AN_ABSENT_LAUNCH_STARVED].value >
                                                 most->part_ns[AN_ABSENT_LAUNCH_STARVED].value))
            most = absent;
    }
    return most;
}

/* The two names with most time on all devices, among the first names of the device that was
 * starved longest. */
static void largest_two(const struct an_result *result, const struct an_absent *most,
                        struct named *first, struct named *second)
{
    for (size_t i = 0; i < most->cause_count && i < CANDIDATES_MOST; i++) {
        const char *name = most->causes[i].name;
        bool known = (first->name && !strcmp(first->name, name)) ||
                     (second->name && !strcmp(second->name, name));
        if (known || !*name || is_input(&most->causes[i]))
            continue;
        struct named named = {name, time_of(result, name)};
        if (named.ns > first->ns) {
            *second = *first;
            *first = named;
        } else if (named.ns > second->ns) {
            *second = named;
        }
    }
}

const char *an_idle_host(struct an_context *context)
{
    struct named first = {NULL, 0}, second = {NULL, 0};
    int64_t all_ns;
    const struct an_absent *most = most_starved(context->result, &all_ns);
    if (most)
        largest_two(context->result, most, &first, &second);
    if (!first.name || all_ns <= 0)
        return NULL;
    double second_pct = 100 * (double)second.ns / (double)all_ns;
    return an_finding_text(
        context,
        "while the device waits for the next launch the host spends %.0f %% in %.70s itself%s",
        100 * (double)first.ns / (double)all_ns, first.name,
        second_pct >= 5 ? an_finding_text(context, ", %.0f %% in %.70s", second_pct, second.name)
                        : "");
}

const char *an_idle_cause(const struct an_context *context, const char **name)
{
    const struct an_result *result = context->result;
    int64_t of_cause[AN_CAUSE_COUNT] = {0}, largest[AN_CAUSE_COUNT] = {0};
    const char *named[AN_CAUSE_COUNT] = {NULL};
    size_t most = AN_CAUSE_FRAMEWORK;
    for (size_t device = 0; device < result->absent_count; device++)
        for (size_t i = 0; i < result->absent[device].cause_count; i++) {
            const struct an_absent_cause *row = &result->absent[device].causes[i];
            size_t cause = 0;
            while (cause < AN_CAUSE_COUNT && strcmp(row->cause, an_cause_key((enum an_cause)cause)))
                cause++;
            if (is_input(row) || cause == AN_CAUSE_COUNT)
                continue;
            of_cause[cause] = an_time_add(of_cause[cause], row->ns);
            if (row->ns > largest[cause] && *row->name) {
                largest[cause] = row->ns;
                named[cause] = row->name;
            }
            most = of_cause[cause] > of_cause[most] ? cause : most;
        }
    *name = named[most] ? named[most] : "";
    return of_cause[most] ? an_cause_key((enum an_cause)most) : "";
}
