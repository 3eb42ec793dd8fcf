/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds launches to the rows of the tables. Backward runs on threads of its own, where no module and
 * no user code is open. There the innermost backward operator leads, by its autograd sequence
 * number, to the forward operator that made it. The launch takes the module and line of that
 * operator, and the annotation that is open at that moment on the thread that ran forward, because
 * that thread waits in backward(). Ranges nearer than the backward operator (a Python function
 * called from it, a module that is run again) come first.
 */

#include "analyzers/work/attribution_sweep_private.h"

#define SAME_NUMBER_MOST 64 /* latest operators of one sequence number that are looked at */

/* Sorts the ops by the call that made them, and those of one captured call by their launch. */
static size_t sort_by_origin(const struct an_sweep *sweep, struct an_pair *pair,
                             struct an_pair *work)
{
    const struct an_device_ops *ops = &sweep->devices->op;
    size_t count = 0;
    for (size_t i = 0; i < ops->count; i++)
        if (ops->launch[i] != AN_NONE)
            pair[count++] = (struct an_pair){ops->launch[i], (uint32_t)i, ops->launch[i]};
    an_pairs_sort(pair, work, count);
    for (size_t i = 0; i < count; i++)
        if (ops->origin[pair[i].value] != AN_NONE)
            pair[i].key = ops->origin[pair[i].value];
    an_pairs_sort(pair, work, count);
    return count;
}

/* The links where ops of graphs have origins. */
static int link_origins(struct an_sweep *sweep)
{
    size_t room = sweep->devices->op.count + 1;
    struct an_arena *scratch = sweep->context->scratch;
    struct an_sweep_links *links = &sweep->links;
    struct an_pair *pair = an_arena_zero(scratch, room, sizeof *pair),
                   *work = an_arena_zero(scratch, room, sizeof *work);
    links->slice = an_arena_zero(scratch, room, sizeof *links->slice);
    links->first = an_arena_zero(scratch, room, sizeof *links->first);
    links->op = an_arena_zero(scratch, room, sizeof *links->op);
    if (!pair || !work || !links->slice || !links->first || !links->op)
        return TACHO_ENOMEM;
    size_t count = sort_by_origin(sweep, pair, work);
    for (size_t i = 0; i < count; i++) {
        if (!i || pair[i].key != pair[i - 1].key || pair[i].extra != pair[i - 1].extra) {
            links->slice[links->count] = (uint32_t)pair[i].key;
            links->first[links->count++] = (uint32_t)i;
        }
        links->op[i] = pair[i].value;
    }
    links->first[links->count] = (uint32_t)count;
    return 0;
}

int an_sweep_link(struct an_sweep *sweep)
{
    const struct an_devices *devices = sweep->devices;
    if (devices->op.origin)
        return link_origins(sweep);
    sweep->links = (struct an_sweep_links){devices->launch_slice, devices->launch_first,
                                           devices->launch_op, devices->launch_count};
    return 0;
}

/* Adds the device ops of a launch to a row. */
static void add_device(struct an_sweep *sweep, enum an_by by, uint32_t row, size_t launch)
{
    struct an_by_row *by_row = row == AN_NONE ? NULL : &sweep->by[by].row[row];
    const struct an_sweep_links *links = &sweep->links;
    for (uint32_t k = links->first[launch]; by_row && k < links->first[launch + 1]; k++) {
        uint32_t op = links->op[k];
        by_row->kernels++;
        by_row->device_ns =
            an_time_add(by_row->device_ns,
                        an_time_sub(sweep->devices->op.end[op], sweep->devices->op.start[op]));
    }
}

static void unknown_cost(struct an_by_table *by_table, uint32_t row)
{
    if (row == AN_NONE)
        return;
    by_table->row[row].no_flops++;
    by_table->row[row].no_bytes++;
}

void an_sweep_add_launch(struct an_sweep *sweep, enum an_by by, uint32_t row, size_t launch,
                         uint32_t call)
{
    struct an_call *caller = call == AN_NONE ? NULL : &sweep->calls->call[call];
    add_device(sweep, by, row, launch);
    if (!caller) {
        unknown_cost(&sweep->by[by], row);
    } else if (!(caller->launched >> by & 1)) {
        caller->launched |= (uint8_t)(1u << by);
        caller->row[by] = row;
    } else if (caller->row[by] != row) {
        unknown_cost(&sweep->by[by], row);
        unknown_cost(&sweep->by[by], caller->row[by]);
    }
}

/* Sorts the forward operators by autograd number and, of one number, by start, for forward_of. */
static int sort_forward(struct an_sweep *sweep)
{
    const struct an_slices *slices = &sweep->trace->slice;
    size_t count = sweep->forwards;
    struct an_pair *pair = an_arena_zero(sweep->context->scratch, count, sizeof *pair),
                   *work = an_arena_zero(sweep->context->scratch, count, sizeof *work);
    if (!pair || !work)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++)
        pair[i] =
            (struct an_pair){an_pair_key(slices->start[sweep->forward[i].slice]), (uint32_t)i, 0};
    an_pairs_sort(pair, work, count);
    for (size_t i = 0; i < count; i++)
        pair[i].key = an_pair_key(slices->correlation[sweep->forward[pair[i].value].slice]);
    an_pairs_sort(pair, work, count);
    sweep->by_number = pair;
    return 0;
}

/* The index after the last forward operator of that number that began at `time` or before; from
 * `low`, the first one of the number. */
static size_t begun_by(const struct an_sweep *sweep, size_t low, uint64_t key, int64_t time)
{
    size_t high = key == UINT64_MAX
                      ? sweep->forwards
                      : low + an_pairs_seek(sweep->by_number + low, sweep->forwards - low, key + 1);
    AN_BISECT(low, high,
              sweep->trace->slice.start[sweep->forward[sweep->by_number[middle].value].slice] <=
                  time);
    return low;
}

/* Finds the forward operator of a backward one: of its number and process the last one that began
 * before it. For a backward operator inside another one (a part that is run again and
 * differentiated there) operators of its own thread are preferred, else those of other threads.
 * Numbers repeat where traces are joined or a program starts anew, so the latest ones are looked
 * at. */
static const struct an_sweep_forward *forward_of(const struct an_sweep *sweep,
                                                 const struct an_sweep_pending *sweep_pending)
{
    const struct an_slices *slices = &sweep->trace->slice;
    const struct an_track *tracks = sweep->trace->track;
    const struct an_sweep_forward *other = NULL;
    if (sweep_pending->link == AN_NONE)
        return NULL;
    uint64_t key = an_pair_key(slices->correlation[sweep_pending->link]);
    size_t low = an_pairs_seek(sweep->by_number, sweep->forwards, key);
    size_t end = begun_by(sweep, low, key, slices->start[sweep_pending->link]);
    for (size_t i = end; i > low && end - i < SAME_NUMBER_MOST; i--) {
        const struct an_sweep_forward *forward = &sweep->forward[sweep->by_number[i - 1].value];
        if (tracks[forward->track].process != tracks[sweep_pending->track].process)
            continue;
        if (sweep_pending->nested == (forward->track == sweep_pending->track))
            return forward;
        other = other ? other : forward;
    }
    return other;
}

/* Row of the innermost annotation of a thread that is open at `time`. */
static uint32_t marked_at(const struct an_sweep *sweep, uint32_t track, int64_t time)
{
    size_t low = sweep->first_mark[track], high = sweep->first_mark[track + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sweep->marked[middle].start <= time)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t i = low > sweep->first_mark[track] ? (uint32_t)low - 1 : AN_NONE;
    for (int levels = AN_DEPTH_MAX; i != AN_NONE && sweep->marked[i].end <= time && levels;
         levels--)
        i = sweep->marked[i].outer;
    return i != AN_NONE && sweep->marked[i].end > time ? sweep->marked[i].row : AN_NONE;
}

int an_sweep_resolve(struct an_sweep *sweep)
{
    uint32_t *caller = an_arena_zero(sweep->context->scratch, sweep->trace->track_count,
                                     sizeof *caller); /* track + 1 that backward was called from */
    if (!caller || sort_forward(sweep))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < sweep->pendings; i++) {
        const struct an_sweep_pending *sweep_pending = &sweep->pending[i];
        const struct an_sweep_forward *sweep_forward = forward_of(sweep, sweep_pending);
        if (sweep_forward && sweep_forward->track != sweep_pending->track &&
            !caller[sweep_pending->track])
            caller[sweep_pending->track] = sweep_forward->track + 1;
    }
    for (size_t i = 0; i < sweep->pendings; i++) {
        const struct an_sweep_pending *sweep_pending = &sweep->pending[i];
        const struct an_sweep_forward *sweep_forward = forward_of(sweep, sweep_pending);
        if (sweep_pending->module != AN_NONE - 1)
            an_sweep_add_launch(sweep, AN_BY_MODULE,
                                sweep_forward && sweep_forward->module != AN_NONE
                                    ? sweep_forward->module
                                    : sweep_pending->module,
                                sweep_pending->launch, sweep_pending->call);
        if (sweep_pending->line != AN_NONE - 1)
            an_sweep_add_launch(sweep, AN_BY_LINE,
                                sweep_forward && sweep_forward->line != AN_NONE
                                    ? sweep_forward->line
                                    : sweep_pending->line,
                                sweep_pending->launch, sweep_pending->call);
        uint32_t track = sweep_forward && sweep_forward->track != sweep_pending->track
                             ? sweep_forward->track + 1
                             : caller[sweep_pending->track];
        if (!sweep_pending->annotated && track)
            an_sweep_add_launch(
                sweep, AN_BY_ANNOTATION,
                marked_at(sweep, track - 1,
                          sweep->trace->slice.start[sweep->links.slice[sweep_pending->launch]]),
                sweep_pending->launch, sweep_pending->call);
    }
    return 0;
}
