/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host was in while a device idled in its steps: the innermost row of each thread that launches on the device, by
 * name.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/findings.h"

struct tally {
    const struct an_trace *t;
    struct an_set idle;
    size_t at;   /* in idle; the sweep of a track only goes forward */
    int64_t *ns; /* of each name */
    int64_t all; /* class host of these steps */
};

/* The counted steps of device d without its busy time. */
static int idle_of(struct an_context *c, size_t d, struct an_set *out)
{
    struct an_span *steps = an_arena_zero(c->work, c->step_count + 1, sizeof *steps);
    size_t n = 0;
    for (size_t i = 0; steps && i < c->step_count; i++)
        if (c->lane[c->step[i].lane].device == d && an_step_detailed(&c->step[i]))
            steps[n++] = (struct an_span){c->step[i].start, c->step[i].end};
    n = steps ? an_spans_normalize(steps, n) : 0;
    struct an_set busy = c->gpu->split[d].busy;
    out->span = an_arena_zero(c->work, n + busy.count + 1, sizeof *out->span);
    if (!steps || !out->span)
        return TACHO_ENOMEM;
    out->count = an_spans_subtract(steps, n, busy.span, busy.count, out->span);
    return 0;
}

/* [from, to) belongs to a name: adds what of it is idle time. */
static void tally_add(struct tally *y, uint32_t name, int64_t from, int64_t to)
{
    while (y->at < y->idle.count && y->idle.span[y->at].end <= from)
        y->at++;
    for (size_t i = y->at; i < y->idle.count && y->idle.span[i].start < to; i++) {
        int64_t a = y->idle.span[i].start > from ? y->idle.span[i].start : from;
        int64_t b = y->idle.span[i].end < to ? y->idle.span[i].end : to;
        if (b > a && name < y->t->string_count)
            y->ns[name] = an_time_add(y->ns[name], b - a);
    }
}

static bool is_input(enum an_role r)
{
    return r == AN_ROLE_INPUT_WAIT || r == AN_ROLE_READ || r == AN_ROLE_DECODE || r == AN_ROLE_COLLATE ||
           r == AN_ROLE_QUEUE_WAIT;
}

/* Waiting for the loader is a class of its own: nothing in it is tallied. Gives every other instant of a thread to its
 * innermost row. */
static void tally_track(struct tally *y, const struct an_track *k)
{
    struct {
        int64_t end;
        uint32_t name;
    } open[AN_DEPTH_MAX];
    size_t depth = 0;
    int64_t at = INT64_MIN;
    y->at = 0;
    for (size_t i = k->slice_first; i <= k->slice_first + k->slice_count; i++) {
        bool last = i == k->slice_first + k->slice_count;
        int64_t next = last ? INT64_MAX : y->t->slice.start[i];
        while (depth && open[depth - 1].end <= next) {
            tally_add(y, open[depth - 1].name, at, open[depth - 1].end);
            at = open[depth - 1].end > at ? open[depth - 1].end : at;
            depth--;
        }
        if (last)
            break;
        if (depth)
            tally_add(y, open[depth - 1].name, at, next);
        at = next > at ? next : at;
        if (depth < AN_DEPTH_MAX && y->t->slice.dur[i] > 0) {
            bool input = is_input(an_slice_role(y->t, i)) || (depth && open[depth - 1].name == AN_NONE);
            open[depth].end = an_slice_end(y->t, i);
            open[depth++].name = input ? AN_NONE : y->t->slice.name[i];
        }
    }
}

/* Did a thread launch anything? The launching slices are ascending. */
static bool launches(const struct an_devices *g, const struct an_track *k)
{
    size_t i = an_launch_seek(g, k->slice_first);
    return i < g->launch_count && g->launch_slice[i] - k->slice_first < k->slice_count;
}

static int tally_device(struct an_context *c, size_t d, struct tally *y)
{
    const struct an_device *v = &c->gpu->device[d];
    int rc = idle_of(c, d, &y->idle);
    if (rc)
        return rc;
    for (size_t i = 0; i < c->step_count; i++)
        if (c->lane[c->step[i].lane].device == d && an_step_detailed(&c->step[i]))
            y->all = an_time_add(y->all, c->step[i].class_ns[AN_CLASS_HOST]);
    for (size_t k = 0; k < c->t->track_count; k++) {
        const struct an_track *track = &c->t->track[k];
        if (track->process == v->process && track->slice_count && !strcmp(track->kind, "thread") && launches(c->gpu, track))
            tally_track(y, track);
    }
    return 0;
}

/* Ranges that mark steps say nothing: the host is in one at any time. */
static bool is_telling(const char *name)
{
    return *name && strncmp(name, "ProfilerStep", 12) != 0;
}

/* The two names with most time; AN_NONE: there is none. */
static void largest(const struct tally *y, uint32_t *first, uint32_t *second)
{
    *first = *second = AN_NONE;
    for (uint32_t i = 0; i < y->t->string_count; i++) {
        if (y->ns[i] <= 0 || !is_telling(an_trace_name(y->t, i)))
            continue;
        if (*first == AN_NONE || y->ns[i] > y->ns[*first]) {
            *second = *first;
            *first = i;
        } else if (*second == AN_NONE || y->ns[i] > y->ns[*second]) {
            *second = i;
        }
    }
}

int an_idle_host(struct an_context *c, const char **words, const char **name)
{
    struct tally y = {.t = c->t, .ns = calloc(c->t->string_count + 1, sizeof *y.ns)};
    int rc = y.ns ? 0 : TACHO_ENOMEM;
    uint32_t first = AN_NONE, second = AN_NONE;
    *words = NULL;
    *name = "";
    for (size_t d = 0; d < c->gpu->device_count && !rc; d++)
        rc = tally_device(c, d, &y);
    if (!rc)
        largest(&y, &first, &second);
    if (first != AN_NONE && y.all > 0) {
        double one = 100 * (double)y.ns[first] / (double)y.all;
        double two = second != AN_NONE ? 100 * (double)y.ns[second] / (double)y.all : 0;
        const char *rest = two >= 5 ? an_arena_format(c->a, ", %.0f %% in %.70s", two, an_trace_name(c->t, second)) : "";
        *name = an_trace_name(c->t, first);
        *words =
            an_arena_format(c->a, "of that time the host is %.0f %% in %.70s itself%s", one > 100 ? 100 : one, *name, rest);
    }
    free(y.ns);
    return rc;
}
