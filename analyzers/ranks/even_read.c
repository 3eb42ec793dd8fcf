/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the steps of a pipeline as operations for even.c: which ranges are work, which calls meet,
 * and which send hands a message over without waiting for its receiver.
 */
#include <math.h>
#include <string.h>

#include "analyzers/ranks/even.h"

/* Share of the sends that are over before their receivers come, from which on no send waits: clocks
 * that are off a little make a few look so. */
#define POSTED_PCT 2

/* The send of a matched pair of send and recv, and the recv; NULL: they are none. */
static const struct an_comm_call *send_of(const struct an_comm_call *call, size_t count,
                                          const struct an_comm_call **recv)
{
    if (count != 2 || call->transfer < 0 || strcmp(call->kind, "send_recv") != 0)
        return NULL;
    bool first = !strcmp(call[0].name, "send");
    *recv = &call[first];
    return &call[!first];
}

/* Do sends go on before they are received? Where both sides block, no send is over before its
 * receiver comes. */
static bool sends_are_posted(const struct an_comm_calls *calls)
{
    size_t pairs = 0, posted = 0;
    const struct an_comm_call *recv = NULL;
    for (size_t i = 0, next; i < calls->count; i = next) {
        next = an_comm_next(calls, i);
        const struct an_comm_call *send = send_of(&calls->call[i], next - i, &recv);
        pairs += send != NULL;
        posted += send && send->end < recv->start;
    }
    return 100 * posted > POSTED_PCT * pairs;
}

/* Numbers the matched collectives, and keeps what each transfers. */
static void number_groups(struct evening *evening, const struct an_comm_calls *calls)
{
    bool posted = sends_are_posted(calls);
    const struct an_comm_call *recv = NULL;
    for (size_t i = 0, next; i < calls->count; i = next) {
        next = an_comm_next(calls, i);
        if (calls->call[i].transfer < 0 || calls->call[i].op != AN_NONE)
            continue;
        const struct an_comm_call *send = posted ? send_of(&calls->call[i], next - i, &recv) : NULL;
        evening->send[evening->group_count] = send ? send->slice + 1 : 0;
        evening->transfer[evening->group_count++] = (double)calls->call[i].transfer;
        for (size_t k = i; k < next; k++)
            evening->group[calls->call[k].slice] = (uint32_t)evening->group_count;
    }
}

uint32_t an_even_meeting(struct evening *evening, uint32_t slot)
{
    while (evening->slot[slot].meet != slot)
        slot = evening->slot[slot].meet = evening->slot[evening->slot[slot].meet].meet;
    return slot;
}

static void meet(struct evening *evening, uint32_t left, uint32_t right)
{
    uint32_t first = an_even_meeting(evening, left), second = an_even_meeting(evening, right);
    if (first > second)
        evening->slot[first].meet = second;
    else
        evening->slot[second].meet = first;
}

static int add_message(struct evening *evening, uint32_t from, uint32_t to)
{
    if (an_grow(&evening->message, &evening->message_room, evening->message_count + 1,
                sizeof *evening->message))
        return TACHO_ENOMEM;
    evening->message[evening->message_count] =
        (struct message){.to = to, .next = evening->slot[from].message};
    evening->slot[from].message = (uint32_t)evening->message_count++;
    return 0;
}

/* The slot meets those of the same step that were seen in the collective of the call before, or one
 * of the two gets a message from the other. */
static int join(struct evening *evening, uint32_t slot, size_t call)
{
    uint32_t group = evening->group[call] - 1, other = evening->met[group];
    evening->met[group] = slot + 1;
    if (!other || other - 1 < evening->first[evening->columns * evening->lanes])
        return 0;
    if (evening->send[group])
        return evening->send[group] == call + 1 ? add_message(evening, slot, other - 1)
                                                : add_message(evening, other - 1, slot);
    meet(evening, slot, other - 1);
    return 0;
}

/* Counts an operation of a name. */
static uint32_t take_turn(struct evening *evening, uint32_t name)
{
    struct turn *turn = &evening->turn[name];
    if (turn->read != evening->reads)
        *turn = (struct turn){.read = evening->reads};
    if (++turn->next > evening->turns)
        evening->turns = turn->next;
    return turn->next - 1;
}

/* Adds an operation; `posted`: together with the one before. */
static int add_op(struct evening *evening, uint32_t lane, size_t slice, bool posted)
{
    const struct an_trace *trace = evening->context->trace;
    uint32_t name = trace->slice.name[slice], group = evening->group[slice];
    if (an_grow(&evening->op, &evening->op_room, evening->op_count + 1, sizeof *evening->op) ||
        an_grow(&evening->slot, &evening->slot_room, evening->slot_count + 1,
                sizeof *evening->slot))
        return TACHO_ENOMEM;
    if (name >= trace->string_count)
        return 0;
    if (!evening->name_of[name])
        evening->name_of[name] = (uint32_t)++evening->names;
    if (!posted) {
        evening->slot[evening->slot_count] = (struct slot){.lane = lane,
                                                           .meet = (uint32_t)evening->slot_count,
                                                           .next = AN_NONE,
                                                           .message = AN_NONE,
                                                           .first_op = (uint32_t)evening->op_count};
        evening->slot_count++;
    }
    uint32_t slot = (uint32_t)evening->slot_count - 1;
    evening->slot[slot].ops++;
    evening->op[evening->op_count++] =
        (struct op){.name = evening->name_of[name] - 1,
                    .turn = take_turn(evening, name),
                    .ns = group ? evening->transfer[group - 1] : (double)trace->slice.dur[slice],
                    .transfer = group != 0};
    return group ? join(evening, slot, slice) : 0;
}

/* Does a range only hold operations, the passes of a micro-batch or the calls that it waits in? */
static bool is_frame(const struct an_trace *trace, uint32_t slice)
{
    enum an_role role = an_slice_role(trace, slice);
    return role == AN_ROLE_MICRO_STEP || role == AN_ROLE_COMM_WAIT;
}

/* The innermost range around a range that is neither a frame nor a matched call. */
static uint32_t around(const struct evening *evening, size_t slice)
{
    const struct an_trace *trace = evening->context->trace;
    uint32_t parent = trace->slice.parent[slice];
    while (parent != AN_NONE && (is_frame(trace, parent) || evening->group[parent]))
        parent = trace->slice.parent[parent];
    return parent;
}

/* Does a range lie in a wait or in a call? */
static bool is_in_wait(const struct evening *evening, size_t slice)
{
    const struct an_trace *trace = evening->context->trace;
    uint32_t parent = trace->slice.parent[slice];
    return parent != AN_NONE &&
           (evening->group[parent] || an_slice_role(trace, parent) == AN_ROLE_COMM_WAIT);
}

/* How long a range inside of an operation waits for others: a whole wait, or a call without its
 * transfer. */
static double waiting_ns(const struct evening *evening, size_t slice)
{
    const struct an_trace *trace = evening->context->trace;
    uint32_t group = evening->group[slice];
    if (is_in_wait(evening, slice))
        return 0;
    if (an_slice_role(trace, slice) == AN_ROLE_COMM_WAIT)
        return (double)trace->slice.dur[slice];
    return group ? (double)trace->slice.dur[slice] - evening->transfer[group - 1] : 0;
}

/* One range of a step. Directly in it, or in frames there, it is an operation; of what lies in a
 * wait only matched calls are. Inside of an operation it may be waiting, which is not its work. */
static int read_range(struct evening *evening, uint32_t lane, const struct an_step *step,
                      size_t slice, size_t first_op)
{
    const struct an_trace *trace = evening->context->trace;
    uint32_t parent = trace->slice.parent[slice];
    bool waits = is_in_wait(evening, slice);
    if (parent != AN_NONE && around(evening, slice) == step->slice) {
        if (is_frame(trace, (uint32_t)slice) || (waits && !evening->group[slice]))
            return 0;
        return add_op(evening, lane, slice, evening->group[parent] != 0);
    }
    if (evening->op_count > first_op) {
        struct op *inside = &evening->op[evening->op_count - 1];
        if (!inside->transfer)
            inside->ns = fmax(0, inside->ns - waiting_ns(evening, slice));
    }
    return 0;
}

/* The operations of a step on its lane's thread. */
static int read_step(struct evening *evening, uint32_t lane, const struct an_step *step)
{
    const struct an_trace *trace = evening->context->trace;
    const struct an_track *track = &trace->track[evening->context->lane[lane].track];
    size_t first_op = evening->op_count;
    int rc = 0;
    evening->reads++;
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end && !rc; i++)
        if (i != step->slice && trace->slice.dur[i] != AN_OPEN)
            rc = read_range(evening, lane, step, i, first_op);
    return rc;
}

/* The step of a lane with the index; NULL: it has none with all its parts. */
static const struct an_step *step_of(const struct an_context *context, uint32_t lane, int64_t index)
{
    const struct an_lane *on_lane = &context->lane[lane];
    size_t low = on_lane->first, high = on_lane->first + on_lane->count;
    AN_BISECT(low, high, context->step[middle].index < index);
    const struct an_step *step = &context->step[low];
    bool found = low < on_lane->first + on_lane->count && step->index == index;
    return found && an_step_detailed(step) && step->slice != AN_NONE ? step : NULL;
}

/* Of each meeting: its slots in a row, and for how many of them and of messages it waits. */
static void count_members(struct evening *evening)
{
    for (uint32_t i = (uint32_t)evening->slot_count; i-- > 0;) {
        struct slot *first = &evening->slot[an_even_meeting(evening, i)];
        first->members++;
        if (first != &evening->slot[i]) {
            evening->slot[i].next = first->next;
            first->next = i;
        }
    }
    for (size_t i = 0; i < evening->message_count; i++)
        evening->slot[an_even_meeting(evening, evening->message[i].to)].members++;
}

int an_even_read(struct evening *evening, const struct an_comm_calls *calls)
{
    struct an_context *context = evening->context;
    const struct an_lane *reference = &context->lane[0];
    int rc = 0;
    number_groups(evening, calls);
    for (size_t i = reference->first; i < reference->first + reference->count && !rc; i++) {
        bool everywhere = true;
        for (uint32_t lane = 0; lane < evening->lanes && everywhere; lane++)
            everywhere = step_of(context, lane, context->step[i].index) != NULL;
        for (uint32_t lane = 0; lane < evening->lanes && everywhere && !rc; lane++) {
            evening->first[evening->columns * evening->lanes + lane] = evening->slot_count;
            rc = read_step(evening, lane, step_of(context, lane, context->step[i].index));
        }
        evening->columns += everywhere;
    }
    evening->first[evening->columns * evening->lanes] = evening->slot_count;
    if (!rc)
        count_members(evening);
    return rc;
}
