/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host was in while devices had nothing to run: the launch-starved time of all devices
 * (noncompute.h) by name. Waiting for the loader is a class of its own and left out.
 */
#include <string.h>

#include "analyzers/findings/findings_private.h"
#include "analyzers/graph/graph.h"

#define CANDIDATES_MOST 8

struct named {
    const char *name;
    int64_t ns;
};

static bool tells(const struct an_absent_cause *absent_cause)
{
    return *absent_cause->name && strcmp(absent_cause->cause, an_cause_key(AN_CAUSE_INPUT)) != 0;
}

/* Time of a name over the devices' rows. */
static int64_t time_of(const struct an_result *result, const char *name)
{
    int64_t ns = 0;
    for (size_t d = 0; d < result->absent_count; d++)
        for (size_t i = 0; i < result->absent[d].cause_count; i++)
            if (tells(&result->absent[d].causes[i]) &&
                !strcmp(result->absent[d].causes[i].name, name))
                ns = an_time_add(ns, result->absent[d].causes[i].ns);
    return ns;
}

int an_idle_host(struct an_context *context, const char **words, const char **name)
{
    struct named first = {NULL, 0}, second = {NULL, 0};
    const struct an_absent *most = NULL; /* the device that starved longest names the candidates */
    int64_t all = 0;
    *words = NULL;
    *name = "";
    for (size_t d = 0; d < context->result->absent_count; d++) {
        const struct an_absent *x = &context->result->absent[d];
        for (size_t i = 0; i < x->cause_count; i++)
            all = an_time_add(all, strcmp(x->causes[i].cause, an_cause_key(AN_CAUSE_INPUT))
                                       ? x->causes[i].ns
                                       : 0);
        most = x->cause_count && (!most || x->part_ns[AN_ABSENT_LAUNCH_STARVED].value >
                                               most->part_ns[AN_ABSENT_LAUNCH_STARVED].value)
                   ? x
                   : most;
    }
    for (size_t i = 0; most && i < most->cause_count && i < CANDIDATES_MOST; i++) {
        const struct an_absent_cause *x = &most->causes[i];
        bool known = (first.name && !strcmp(first.name, x->name)) ||
                     (second.name && !strcmp(second.name, x->name));
        struct named one = {x->name, tells(x) && !known ? time_of(context->result, x->name) : 0};
        if (one.ns > first.ns) {
            second = first;
            first = one;
        } else if (one.ns > second.ns) {
            second = one;
        }
    }
    if (!first.name || all <= 0)
        return 0;
    double one = 100 * (double)first.ns / (double)all, two = 100 * (double)second.ns / (double)all;
    const char *rest =
        two >= 5 ? an_arena_format(context->arena, ", %.0f %% in %.70s", two, second.name) : "";
    *name = first.name;
    *words = an_arena_format(
        context->arena,
        "while the next kernel is not launched the host is %.0f %% in %.70s itself%s", one,
        first.name, rest);
    return 0;
}
