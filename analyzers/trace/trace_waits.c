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
    struct an_trace *trace;
    uint8_t *name;        /* of every string: kind of the rows that have it as a name */
    struct an_span *call; /* collectives of the process at hand, by start */
    size_t calls, call_room;
    struct hole *hole;
    size_t holes, hole_room;
    struct an_span *open; /* ranges that are open while a thread is passed */
    size_t open_room;
};

enum { NAME_CALL = 1, NAME_ISSUES, NAME_REDUCED };

static uint8_t kind_of_name(const char *name)
{
    if (!strncmp(name, "gloo:", 5))
        return NAME_CALL;
    if (!strcmp(name, REDUCED))
        return NAME_REDUCED;
    return !strncmp(name, "c10d::", 6) ? NAME_ISSUES : 0;
}

static uint8_t kind_of(const struct waits *waits, size_t i)
{
    uint32_t name = waits->trace->slice.name[i];
    return name < waits->trace->string_count ? waits->name[name] : 0;
}

static int span_order(const void *first, const void *second)
{
    const struct an_span *left = first, *right = second;
    return AN_COMPARE(left->start, right->start);
}

/* Lists the spans of the collectives of a process, in order of start. */
static int find_calls(struct waits *waits, uint32_t process)
{
    const struct an_trace *trace = waits->trace;
    waits->calls = 0;
    AN_EACH_TRACK(trace, process, k)
    for (size_t i = trace->track[k].slice_first; i < an_track_end(&trace->track[k]); i++) {
        if (kind_of(waits, i) != NAME_CALL || trace->slice.dur[i] == AN_OPEN)
            continue;
        if (an_grow(&waits->call, &waits->call_room, waits->calls + 1, sizeof *waits->call))
            return TACHO_ENOMEM;
        waits->call[waits->calls++] =
            (struct an_span){trace->slice.start[i], an_slice_end(trace, i)};
    }
    if (waits->calls)
        qsort(waits->call, waits->calls, sizeof *waits->call, span_order);
    return 0;
}

/* Sets *ran if a collective ran in the hole [start, end), and *ended if one ended in the last
 * quarter of it. */
static void ran_and_ended(const struct waits *waits, int64_t start, int64_t end, bool *ran,
                          bool *ended)
{
    *ran = *ended = false;
    for (size_t i = 0; i < waits->calls && waits->call[i].start < end; i++) {
        *ran = *ran || waits->call[i].end > start;
        *ended =
            *ended || (waits->call[i].end <= end && waits->call[i].end >= end - (end - start) / 4);
    }
}

/* Keeps the hole from `start` to the start of slice `next` as a wait if the trace shows what ended
 * it. */
static int add_if_wait(struct waits *waits, uint32_t track, int64_t start, size_t next)
{
    int64_t end = waits->trace->slice.start[next];
    bool ran, ended;
    if (end - start < HOLE_LEAST)
        return 0;
    ran_and_ended(waits, start, end, &ran, &ended);
    if (!ran || (!ended && kind_of(waits, next) != NAME_REDUCED))
        return 0;
    if (an_grow(&waits->hole, &waits->hole_room, waits->holes + 1, sizeof *waits->hole))
        return TACHO_ENOMEM;
    waits->hole[waits->holes++] = (struct hole){start, end, track};
    return 0;
}

static bool is_op(const struct an_trace *trace, size_t i)
{
    return !strcmp(an_trace_name(trace, trace->slice.category[i]), "op");
}

/* Finds the holes of a thread that issues collectives: from the last start or end of any range
 * to the next start, where no op is open. `open[].start` is used as a flag: the open range is an
 * op. */
static int find_holes(struct waits *waits, uint32_t track)
{
    const struct an_trace *trace = waits->trace;
    const struct an_track *thread = &trace->track[track];
    size_t depth = 0, ops = 0;
    int64_t last = INT64_MIN;
    bool issues = false;
    for (size_t i = thread->slice_first; i < an_track_end(thread) && !issues; i++)
        issues = kind_of(waits, i) == NAME_ISSUES || kind_of(waits, i) == NAME_REDUCED;
    for (size_t i = thread->slice_first; i < an_track_end(thread) && issues; i++) {
        while (depth && waits->open[depth - 1].end <= trace->slice.start[i]) {
            last = waits->open[depth - 1].end > last ? waits->open[depth - 1].end : last;
            ops -= waits->open[--depth].start != 0;
        }
        if (!ops && last != INT64_MIN && add_if_wait(waits, track, last, i))
            return TACHO_ENOMEM;
        if (an_grow(&waits->open, &waits->open_room, depth + 1, sizeof *waits->open))
            return TACHO_ENOMEM;
        waits->open[depth] = (struct an_span){is_op(trace, i), an_slice_end(trace, i)};
        ops += waits->open[depth++].start != 0;
        last = trace->slice.start[i];
    }
    return 0;
}

/* ---- rows of their own ------------------------------------------------------------------------------------------------------------- */

/* Appends the name of the inferred waits to the strings and to the arrays that are parallel to
 * them. */
static int add_name(struct an_trace *trace)
{
    size_t count = trace->string_count;
    const char **string = realloc(trace->string, (count + 2) * sizeof *string);
    if (string)
        trace->string = string;
    uint8_t *role = realloc(trace->name_role, count + 2),
            *api = role ? realloc(trace->name_api, count + 2) : NULL;
    trace->name_role = role ? role : trace->name_role;
    trace->name_api = api ? api : trace->name_api;
    if (!string || !role || !api)
        return TACHO_ENOMEM;
    string[count] = WAIT_NAME;
    role[count] = AN_ROLE_COMM_WAIT;
    api[count] = api[count + 1] = role[count + 1] = 0;
    trace->string_count = count + 1;
    return 0;
}

/* Makes room for `count` slices. */
static int grow_slices(struct an_slices *slices, size_t count)
{
    const struct {
        void *column;
        size_t size;
    } columns[] = {{&slices->start, sizeof *slices->start},
                   {&slices->dur, sizeof *slices->dur},
                   {&slices->correlation, sizeof *slices->correlation},
                   {&slices->name, sizeof *slices->name},
                   {&slices->category, sizeof *slices->category},
                   {&slices->detail, sizeof *slices->detail}};
    int rc = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns && !rc; i++) {
        size_t room = slices->count;
        rc = an_grow(columns[i].column, &room, count, columns[i].size);
    }
    return rc;
}

/* Appends the holes as slices of their threads. The slices are then sorted and their parents are
 * found once more, which needs the track of every slice as a column. */
static int add_rows(struct waits *waits)
{
    struct an_trace *trace = waits->trace;
    struct an_slices *slices = &trace->slice;
    size_t count = slices->count + waits->holes;
    uint32_t *track = malloc(count * sizeof *track);
    bool ok = track && !add_name(trace) && !grow_slices(slices, count);
    for (uint32_t k = 0; ok && k < trace->track_count; k++)
        for (size_t i = trace->track[k].slice_first; i < an_track_end(&trace->track[k]); i++)
            track[i] = k;
    for (size_t i = 0; ok && i < waits->holes; i++) {
        size_t row = slices->count + i;
        track[row] = waits->hole[i].track;
        slices->start[row] = waits->hole[i].start;
        slices->dur[row] = waits->hole[i].end - waits->hole[i].start;
        slices->correlation[row] = STORE_ABSENT;
        slices->name[row] = (uint32_t)trace->string_count - 1;
        slices->category[row] = slices->detail[row] = AN_NONE;
    }
    if (ok) {
        slices->count = count;
        trace->inferred = waits->holes;
        free(slices->parent);
        slices->parent = NULL;
    }
    int rc = ok ? an_trace_order(trace, track) : TACHO_ENOMEM;
    free(track);
    return rc;
}

int an_trace_waits(struct an_trace *trace)
{
    struct waits waits = {.trace = trace};
    bool any = false;
    int rc = 0;
    if (!trace->name_role)
        return 0;
    for (size_t k = 0; k < trace->track_count; k++)
        if (!strcmp(trace->track[k].kind, "stream")) /* there the device decides */
            return 0;
    if (!(waits.name = calloc(trace->string_count + 1, 1)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->string_count; i++)
        any = (waits.name[i] = kind_of_name(trace->string[i])) == NAME_CALL || any;
    for (uint32_t process = 0; process < trace->process_count && any && !rc; process++) {
        rc = find_calls(&waits, process);
        AN_EACH_TRACK(trace, process, k)
        if (!rc && waits.calls && !strcmp(trace->track[k].kind, "thread"))
            rc = find_holes(&waits, k);
    }
    if (!rc && waits.holes)
        rc = add_rows(&waits);
    free(waits.name);
    free(waits.call);
    free(waits.hole);
    free(waits.open);
    return rc;
}
