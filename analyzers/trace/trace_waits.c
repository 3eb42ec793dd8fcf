/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for gloo in traces of torch.profiler. Gloo's threads run the collectives (ranges gloo:*),
 * and a thread that waits for them is in no range at all. Such a hole is taken for waiting where
 * the trace shows what ended it: either the next range is the one in which DistributedDataParallel
 * copies its reduced buckets back, or a collective of the process ended in the last quarter of the
 * hole. It becomes a range of its own, with the role comm_wait and a name that says that it is
 * inferred, so that all analyzers see it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/trace/trace.h"

#define WAIT_NAME  "wait for gloo (inferred from time)"
#define REDUCED    "torch.distributed.ddp.reducer::copy_bucket_to_grad"
#define HOLE_LEAST 20000 /* ns: shorter ones are Python's own */

struct hole {
    int64_t start, end;
    uint32_t track;
};

struct waits {
    struct an_trace *t;
    uint8_t *name;        /* of every string: what it tells of a row */
    struct an_span *call; /* collectives of the process at hand, by start */
    size_t calls, call_room;
    struct hole *hole;
    size_t holes, hole_room;
    struct an_span *open; /* ranges that are open while a thread is passed */
    size_t open_room;
};

enum { NAME_CALL = 1, NAME_ISSUES, NAME_REDUCED };

static uint8_t what_of(const char *name)
{
    return !strncmp(name, "gloo:", 5)    ? NAME_CALL
           : !strcmp(name, REDUCED)      ? NAME_REDUCED
           : !strncmp(name, "c10d::", 6) ? NAME_ISSUES
                                         : 0;
}

static uint8_t what(const struct waits *w, size_t i)
{
    uint32_t name = w->t->slice.name[i];
    return name < w->t->string_count ? w->name[name] : 0;
}

static int span_order(const void *x, const void *y)
{
    const struct an_span *a = x, *b = y;
    return (a->start > b->start) - (a->start < b->start);
}

/* Collectives of a process. */
static int find_calls(struct waits *w, uint32_t process)
{
    const struct an_trace *t = w->t;
    w->calls = 0;
    for (size_t k = 0; k < t->track_count; k++)
        for (size_t i = t->track[k].slice_first;
             t->track[k].process == process &&
             i < t->track[k].slice_first + t->track[k].slice_count;
             i++) {
            if (what(w, i) != NAME_CALL || t->slice.dur[i] == AN_OPEN)
                continue;
            if (an_grow(&w->call, &w->call_room, w->calls + 1, sizeof *w->call))
                return TACHO_ENOMEM;
            w->call[w->calls++] = (struct an_span){t->slice.start[i], an_slice_end(t, i)};
        }
    if (w->calls)
        qsort(w->call, w->calls, sizeof *w->call, span_order);
    return 0;
}

/* Did a collective run in the hole; did one end in its last quarter? */
static void look(const struct waits *w, int64_t start, int64_t end, bool *ran, bool *ended)
{
    *ran = *ended = false;
    for (size_t i = 0; i < w->calls && w->call[i].start < end; i++) {
        *ran = *ran || w->call[i].end > start;
        *ended = *ended || (w->call[i].end <= end && w->call[i].end >= end - (end - start) / 4);
    }
}

static int keep(struct waits *w, uint32_t track, int64_t start, size_t next)
{
    int64_t end = w->t->slice.start[next];
    bool ran, ended;
    if (end - start < HOLE_LEAST)
        return 0;
    look(w, start, end, &ran, &ended);
    if (!ran || (!ended && what(w, next) != NAME_REDUCED))
        return 0;
    if (an_grow(&w->hole, &w->hole_room, w->holes + 1, sizeof *w->hole))
        return TACHO_ENOMEM;
    w->hole[w->holes++] = (struct hole){start, end, track};
    return 0;
}

static bool is_op(const struct an_trace *t, size_t i)
{
    return !strcmp(an_trace_name(t, t->slice.category[i]), "op");
}

/* Holes of a thread that issues collectives: from the last start or end of any range to the next
 * start, where no op is open. */
static int find_holes(struct waits *w, uint32_t track)
{
    const struct an_trace *t = w->t;
    const struct an_track *k = &t->track[track];
    size_t depth = 0, ops = 0;
    int64_t last = INT64_MIN;
    bool issues = false;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !issues; i++)
        issues = what(w, i) == NAME_ISSUES || what(w, i) == NAME_REDUCED;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && issues; i++) {
        while (depth && w->open[depth - 1].end <= t->slice.start[i]) {
            last = w->open[depth - 1].end > last ? w->open[depth - 1].end : last;
            ops -= w->open[--depth].start != 0;
        }
        if (!ops && last != INT64_MIN && keep(w, track, last, i))
            return TACHO_ENOMEM;
        if (an_grow(&w->open, &w->open_room, depth + 1, sizeof *w->open))
            return TACHO_ENOMEM;
        w->open[depth] = (struct an_span){is_op(t, i), an_slice_end(t, i)};
        ops += w->open[depth++].start != 0;
        last = t->slice.start[i];
    }
    return 0;
}

/* ---- rows of their own ------------------------------------------------------------------------------------------------------------- */

static int add_name(struct an_trace *t)
{
    size_t n = t->string_count;
    const char **string = realloc(t->string, (n + 2) * sizeof *string);
    if (string)
        t->string = string;
    uint8_t *role = realloc(t->name_role, n + 2), *api = role ? realloc(t->name_api, n + 2) : NULL;
    t->name_role = role ? role : t->name_role;
    t->name_api = api ? api : t->name_api;
    if (!string || !role || !api)
        return TACHO_ENOMEM;
    string[n] = WAIT_NAME;
    role[n] = AN_ROLE_COMM_WAIT;
    api[n] = api[n + 1] = role[n + 1] = 0;
    t->string_count = n + 1;
    return 0;
}

static int64_t *longer(int64_t **column, size_t n)
{
    int64_t *x = realloc(*column, n * sizeof *x);
    *column = x ? x : *column;
    return x;
}

static uint32_t *longer_narrow(uint32_t **column, size_t n)
{
    uint32_t *x = realloc(*column, n * sizeof *x);
    *column = x ? x : *column;
    return x;
}

static int add_rows(struct waits *w)
{
    struct an_trace *t = w->t;
    struct an_slices *s = &t->slice;
    size_t n = s->count + w->holes;
    uint32_t *track = malloc(n * sizeof *track);
    bool ok = track && longer(&s->start, n) && longer(&s->dur, n) && longer(&s->correlation, n) &&
              longer_narrow(&s->name, n) && longer_narrow(&s->category, n) &&
              longer_narrow(&s->detail, n) && !add_name(t);
    for (uint32_t k = 0; ok && k < t->track_count; k++)
        for (size_t i = t->track[k].slice_first;
             i < t->track[k].slice_first + t->track[k].slice_count; i++)
            track[i] = k;
    for (size_t i = 0; ok && i < w->holes; i++) {
        size_t at = s->count + i;
        track[at] = w->hole[i].track;
        s->start[at] = w->hole[i].start;
        s->dur[at] = w->hole[i].end - w->hole[i].start;
        s->correlation[at] = STORE_ABSENT;
        s->name[at] = (uint32_t)t->string_count - 1;
        s->category[at] = s->detail[at] = AN_NONE;
    }
    if (ok) {
        s->count = n;
        t->inferred = w->holes;
        free(s->parent);
        s->parent = NULL;
    }
    int rc = ok ? an_trace_order(t, track) : TACHO_ENOMEM;
    free(track);
    return rc;
}

int an_trace_waits(struct an_trace *t)
{
    struct waits w = {.t = t};
    bool any = false;
    int rc = 0;
    if (!t->name_role)
        return 0;
    for (size_t k = 0; k < t->track_count; k++)
        if (!strcmp(t->track[k].kind, "stream")) /* there the device decides */
            return 0;
    if (!(w.name = calloc(t->string_count + 1, 1)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->string_count; i++)
        any = (w.name[i] = what_of(t->string[i])) == NAME_CALL || any;
    for (uint32_t p = 0; p < t->process_count && any && !rc; p++) {
        rc = find_calls(&w, p);
        for (uint32_t k = 0; k < t->track_count && !rc && w.calls; k++)
            if (t->track[k].process == p && !strcmp(t->track[k].kind, "thread"))
                rc = find_holes(&w, k);
    }
    if (!rc && w.holes)
        rc = add_rows(&w);
    free(w.name);
    free(w.call);
    free(w.hole);
    free(w.open);
    return rc;
}
