/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the ranges of every host thread with a stack of the open ones. A launch takes the
 * innermost operator, module, line of user code and annotation from the stack. Launches of backward
 * are resolved later (attribution_links.c).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution_sweep_private.h"

enum category {
    CATEGORY_UNKNOWN,
    CATEGORY_OP,
    CATEGORY_PYTHON,
    CATEGORY_ANNOTATION,
    CATEGORY_MODULE_DOMAIN,
    CATEGORY_OTHER
};
enum name { NAME_UNKNOWN, NAME_PLAIN, NAME_MODULE, NAME_USER, NAME_CHECKPOINT, NAME_ENGINE };

/* ---- what a slice is ------------------------------------------------------------------------- */

/* Category of a slice, remembered for each string. A category that is not known is a domain of
 * NVTX: an annotation. */
static enum category category_of(struct an_sweep *sweep, size_t i)
{
    static const struct {
        const char *name;
        enum category category;
    } known[] = {{"op", CATEGORY_OP},
                 {"python", CATEGORY_PYTHON},
                 {"annotation", CATEGORY_ANNOTATION},
                 {"runtime", CATEGORY_OTHER},
                 {"driver", CATEGORY_OTHER},
                 {"overhead", CATEGORY_OTHER},
                 {"instant", CATEGORY_OTHER},
                 {"trace", CATEGORY_OTHER},
                 {"torch", CATEGORY_MODULE_DOMAIN}};
    uint32_t id = sweep->trace->slice.category[i];
    if (id >= sweep->trace->string_count)
        return CATEGORY_OTHER;
    if (sweep->category[id] == CATEGORY_UNKNOWN) {
        sweep->category[id] = CATEGORY_ANNOTATION;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (!strcmp(known[k].name, sweep->trace->string[id]))
                sweep->category[id] = (uint8_t)known[k].category;
    }
    return sweep->category[id];
}

/* What a name says, remembered for each string. A name is either that of a Python frame or not. */
static enum name name_of(struct an_sweep *sweep, size_t i, bool python)
{
    uint32_t id = sweep->trace->slice.name[i];
    if (id >= sweep->trace->string_count)
        return NAME_PLAIN;
    if (sweep->name[id] == NAME_UNKNOWN) {
        const char *text = sweep->trace->string[id];
        enum name kind = NAME_PLAIN;
        if (!python && strstr(text, "CheckpointFunction") && strstr(text, "Backward"))
            kind = NAME_CHECKPOINT;
        else if (!python)
            kind =
                strncmp(text, "autograd::engine::evaluate_function", 35) ? NAME_PLAIN : NAME_ENGINE;
        else if (!strncmp(text, "nn.Module: ", 11))
            kind = NAME_MODULE;
        else if (strstr(text, "torch/utils/checkpoint.py("))
            kind = NAME_CHECKPOINT;
        else if (an_frame_is_user(text))
            kind = NAME_USER;
        sweep->name[id] = (uint8_t)kind;
    }
    return sweep->name[id];
}

/* An operator of libtrain or of any program that says what it computes. */
static bool is_work(const struct an_detail *detail)
{
    return detail && detail->role == AN_ROLE_WORK &&
           (detail->flops != STORE_ABSENT || *detail->kind);
}

/* Row of a name; ranges of steps share one. AN_NONE: out of memory. */
static uint32_t row_of(struct an_sweep *sweep, enum an_by by, size_t i)
{
    struct an_by_table *by_table = &sweep->by[by];
    uint32_t id = sweep->trace->slice.name[i];
    if (id >= sweep->trace->string_count)
        return an_by_row_of(by_table, "");
    if (by_table->of_name[id] == AN_NONE) {
        const char *text = sweep->trace->string[id];
        if (by == AN_BY_MODULE && !strncmp(text, "nn.Module: ", 11))
            text += 11;
        if (by == AN_BY_ANNOTATION && !strncmp(text, "ProfilerStep#", 13))
            text = "ProfilerStep";
        by_table->of_name[id] = an_by_row_of(by_table, text);
    }
    return by_table->of_name[id];
}

/* Row of the innermost frame of user code of an operator's recorded stack; AN_NONE: there is none.
 */
static int line_of_stack(struct an_sweep *sweep, size_t i, uint32_t *row)
{
    uint32_t id = sweep->trace->slice.detail[i];
    const struct an_detail *detail = an_trace_detail(sweep->trace, id);
    *row = AN_NONE;
    if (!detail || sweep->python || !*detail->payload)
        return 0;
    if (!sweep->line_of_detail[id]) {
        struct an_op_args args = {.count = 0};
        sweep->line_of_detail[id] = 1;
        if (strstr(detail->payload, "\"stack\"") &&
            an_op_args_parse(sweep->context->scratch, detail->payload, &args))
            return TACHO_ENOMEM;
        for (size_t k = 0; k < args.frames && sweep->line_of_detail[id] == 1; k++)
            if (an_frame_is_user(args.frame[k])) {
                uint32_t frame_row = an_by_row_of(&sweep->by[AN_BY_LINE], args.frame[k]);
                if (frame_row == AN_NONE)
                    return TACHO_ENOMEM;
                sweep->line_of_detail[id] = frame_row + 2;
            }
    }
    if (sweep->line_of_detail[id] > 1)
        *row = sweep->line_of_detail[id] - 2;
    return 0;
}

/* ---- the stack ------------------------------------------------------------------------------- */

/* Index of the innermost frame of a level that is still open at `time`, from the frame at `top`;
 * -1: none. */
static int32_t innermost(const struct an_sweep *sweep, int32_t top, enum an_sweep_level level,
                         int64_t time)
{
    int32_t i = top < 0 ? -1 : sweep->stack[top].at[level];
    while (i >= 0 && sweep->stack[i].end <= time)
        i = i ? sweep->stack[i - 1].at[level] : -1;
    return i;
}

static uint32_t row_at(const struct an_sweep *sweep, int32_t i)
{
    return i < 0 ? AN_NONE : sweep->stack[i].row;
}

/* Adds the own time of a range: its time is subtracted from the range around it. */
static void add_host(struct an_sweep *sweep, enum an_by by, uint32_t row, int32_t outer,
                     int64_t start, int64_t end)
{
    struct an_by_row *rows = sweep->by[by].row;
    rows[row].count++;
    rows[row].host_ns = an_time_add(rows[row].host_ns, an_time_sub(end, start));
    if (outer >= 0) {
        int64_t until = sweep->stack[outer].end < end ? sweep->stack[outer].end : end;
        struct an_by_row *around = &rows[sweep->stack[outer].row];
        around->host_ns = an_time_sub(around->host_ns, an_time_sub(until, start));
    }
}

static int mark_add(struct an_sweep *sweep, const struct an_sweep_frame *frame, int64_t start)
{
    if (an_grow(&sweep->marked, &sweep->mark_room, sweep->marks + 1, sizeof *sweep->marked))
        return TACHO_ENOMEM;
    int32_t outer = frame->at[ANNOTATION];
    /* The call field of an annotation's frame is its index in `marked`. */
    sweep->marked[sweep->marks++] = (struct an_sweep_marked){
        start, frame->end, frame->row, outer < 0 ? AN_NONE : sweep->stack[outer].call};
    return 0;
}

static int forward_add(struct an_sweep *sweep, size_t i, uint32_t track,
                       const struct an_sweep_frame *frame)
{
    if (an_grow(&sweep->forward, &sweep->forward_room, sweep->forwards + 1, sizeof *sweep->forward))
        return TACHO_ENOMEM;
    sweep->forward[sweep->forwards++] = (struct an_sweep_forward){
        (uint32_t)i, track, row_at(sweep, frame->at[MODULE]), row_at(sweep, frame->at[LINE])};
    return 0;
}

/* Updates the state that an operator passes to the ranges inside it. */
static void op_state(struct an_sweep *sweep, size_t i, const struct an_detail *detail,
                     struct an_sweep_frame *frame)
{
    enum name kind = name_of(sweep, i, false);
    bool is_backward = detail && !strcmp(detail->pass, "backward");
    if (kind == NAME_CHECKPOINT) {
        frame->backward = frame->recompute = true;
        frame->grad = false;
    } else if (kind == NAME_ENGINE || is_backward) {
        frame->backward = true;
        frame->recompute = frame->grad = false;
    } else if (frame->backward && an_slice_sequence(sweep->trace, i) != STORE_ABSENT) {
        frame->grad = true;
    }
    if (detail && !strcmp(detail->pass, "recompute"))
        frame->recompute = true;
}

/* A range on top of the stack, with what is passed down. false: it is empty. */
static bool frame_make(struct an_sweep *sweep, size_t depth, size_t i, struct an_sweep_frame *frame)
{
    int64_t start = sweep->trace->slice.start[i];
    int32_t top = (int32_t)depth - 1;
    *frame = (struct an_sweep_frame){.slice = (uint32_t)i,
                                     .end = an_slice_end(sweep->trace, i),
                                     .row = AN_NONE,
                                     .call = AN_NONE};
    for (int level = 0; level < LEVELS; level++)
        frame->at[level] = innermost(sweep, top, (enum an_sweep_level)level, start);
    if (top >= 0) {
        frame->backward = sweep->stack[top].backward;
        frame->recompute = sweep->stack[top].recompute;
        frame->grad = sweep->stack[top].grad;
    }
    return frame->end > start;
}

/* Gives the range its row and puts it on the stack; `level` LEVELS: it is in no table. */
static int frame_push(struct an_sweep *sweep, size_t *depth, struct an_sweep_frame *frame,
                      enum an_sweep_level level, uint32_t row)
{
    static const enum an_by tables[] = {[OP] = AN_BY_OP,
                                        [MODULE] = AN_BY_MODULE,
                                        [LINE] = AN_BY_LINE,
                                        [ANNOTATION] = AN_BY_ANNOTATION};
    if (level < BACKWARD) {
        frame->row = row == AN_NONE ? row_of(sweep, tables[level], frame->slice) : row;
        if (frame->row == AN_NONE)
            return TACHO_ENOMEM;
        int64_t start = sweep->trace->slice.start[frame->slice];
        add_host(sweep, tables[level], frame->row, frame->at[level], start, frame->end);
        sweep->present[tables[level]] = true;
        if (level == ANNOTATION && mark_add(sweep, frame, start))
            return TACHO_ENOMEM;
        if (level == ANNOTATION)
            frame->call = (uint32_t)sweep->marks - 1;
        frame->at[level] = (int32_t)*depth;
    }
    if (an_grow(&sweep->stack, &sweep->stack_room, *depth + 1, sizeof *sweep->stack))
        return TACHO_ENOMEM;
    sweep->stack[(*depth)++] = *frame;
    return 0;
}

static int push(struct an_sweep *sweep, size_t *depth, size_t i, enum an_sweep_level level)
{
    struct an_sweep_frame frame;
    if (!frame_make(sweep, *depth, i, &frame))
        return 0;
    if (level == LEVELS && frame.backward) /* a frame of checkpointing */
        frame.recompute = true;

    return frame_push(sweep, depth, &frame, level, AN_NONE);
}

/* An operator. The line of its recorded stack is a range of the same time, below its own. */
static int push_op(struct an_sweep *sweep, size_t *depth, size_t i, uint32_t track)
{
    const struct an_detail *detail = an_trace_detail(sweep->trace, sweep->trace->slice.detail[i]);
    struct an_sweep_frame frame;
    uint32_t line;
    int rc = line_of_stack(sweep, i, &line);
    if (!frame_make(sweep, *depth, i, &frame))
        return rc;
    if (!rc && line != AN_NONE)
        rc = frame_push(sweep, depth, &frame, LINE, line);
    if (rc)
        return rc;
    frame_make(sweep, *depth, i, &frame);
    op_state(sweep, i, detail, &frame);
    if (an_slice_sequence(sweep->trace, i) != STORE_ABSENT && detail &&
        !strcmp(detail->pass, "backward"))
        frame.at[BACKWARD] = (int32_t)*depth;
    else if (an_slice_sequence(sweep->trace, i) != STORE_ABSENT &&
             forward_add(sweep, i, track, &frame))
        return TACHO_ENOMEM;
    return frame_push(sweep, depth, &frame, OP, AN_NONE);
}

/* Puts a range on the stack at the level that its category and name say; other ranges are not
 * looked at. */
static int open_slice(struct an_sweep *sweep, size_t *depth, size_t i, uint32_t track)
{
    const struct an_detail *detail = an_trace_detail(sweep->trace, sweep->trace->slice.detail[i]);
    enum category category = category_of(sweep, i);
    if (is_work(detail) || category == CATEGORY_OP)
        return push_op(sweep, depth, i, track);
    if (category == CATEGORY_PYTHON) {
        enum name kind = name_of(sweep, i, true);
        if (kind == NAME_MODULE)
            return push(sweep, depth, i, MODULE);
        if (kind == NAME_USER)
            return push(sweep, depth, i, LINE);
        return kind == NAME_CHECKPOINT ? push(sweep, depth, i, LEVELS) : 0;
    }
    if (category == CATEGORY_MODULE_DOMAIN) /* of the hook: its other ranges have a payload */
        return push(sweep, depth, i, detail && detail->role != AN_ROLE_NONE ? ANNOTATION : MODULE);
    return category == CATEGORY_ANNOTATION ? push(sweep, depth, i, ANNOTATION) : 0;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Appends `count` calls of an operator. */
static int add_calls(struct an_sweep *sweep, const struct an_sweep_frame *frame, uint32_t process,
                     size_t count)
{
    struct an_calls *calls = sweep->calls;
    if (an_grow(&calls->call, &sweep->call_room, calls->count + count, sizeof *calls->call))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++)
        calls->call[calls->count++] = (struct an_call){.slice = frame->slice,
                                                       .process = process,
                                                       .cost = AN_NONE,
                                                       .replay = AN_NONE,
                                                       .row = {AN_NONE, AN_NONE, AN_NONE, AN_NONE},
                                                       .recompute = frame->recompute,
                                                       .unclear = frame->grad && !frame->recompute};
    return 0;
}

/* Finds the links of one host call, of which `number` is the first one that is looked at. */
static void find_group(struct an_sweep *sweep, size_t number)
{
    const struct an_sweep_links *links = &sweep->links;
    if (sweep->group_count && number < sweep->group + sweep->group_count)
        return;
    sweep->group = number;
    sweep->group_count = 1;
    while (number + sweep->group_count < links->count &&
           links->slice[number + sweep->group_count] == links->slice[number])
        sweep->group_count++;
}

/* The call of the operator on the stack, made at its first launch: of a captured operator the one
 * of the launch of its graph that link `number` belongs to. */
static int call_of(struct an_sweep *sweep, int32_t op, uint32_t process, size_t number,
                   uint32_t *call)
{
    *call = AN_NONE;
    find_group(sweep, number);
    if (op < 0)
        return 0;
    struct an_sweep_frame *frame = &sweep->stack[op];
    if (frame->call == AN_NONE || frame->calls != sweep->group_count) {
        frame->call = (uint32_t)sweep->calls->count;
        frame->calls = (uint32_t)sweep->group_count;
        if (add_calls(sweep, frame, process, frame->calls))
            return TACHO_ENOMEM;
    }
    *call = frame->call + (uint32_t)(number - sweep->group);
    uint32_t made = sweep->links.op[sweep->links.first[number]];
    if (sweep->devices->op.origin && sweep->devices->op.origin[made] != AN_NONE)
        sweep->calls->call[*call].replay = sweep->devices->op.launch[made];
    return 0;
}

/* Is a backward operator of another number around the one at `backward`? */
static bool is_nested(const struct an_sweep *sweep, int32_t backward)
{
    const int64_t *number = sweep->trace->slice.correlation;
    for (int32_t i = backward; i > 0; i--) {
        int32_t outer = sweep->stack[i - 1].at[BACKWARD];
        if (outer >= 0 && number[sweep->stack[outer].slice] != number[sweep->stack[backward].slice])
            return true;
    }
    return false;
}

/* Adds launch `number` to the rows of the innermost ranges. Where a backward operator is nearer
 * than the module or line, and where no annotation is open, the launch waits for its forward
 * operator. */
static int launch(struct an_sweep *sweep, size_t depth, size_t i, uint32_t track, size_t number)
{
    int64_t time = sweep->trace->slice.start[i];
    int32_t top = (int32_t)depth - 1, inner[LEVELS];
    uint32_t call;
    for (int level = 0; level < LEVELS; level++)
        inner[level] = innermost(sweep, top, (enum an_sweep_level)level, time);
    const struct an_sweep_links *links = &sweep->links;
    if (call_of(sweep, inner[OP], sweep->trace->track[track].process, number, &call))
        return TACHO_ENOMEM;
    for (uint32_t k = links->first[number]; k < links->first[number + 1]; k++)
        sweep->calls->of_op[links->op[k]] = call;
    an_sweep_add_launch(sweep, AN_BY_OP, row_at(sweep, inner[OP]), number, call);
    bool link_module = inner[BACKWARD] > inner[MODULE], link_line = inner[BACKWARD] > inner[LINE];
    if (!link_module)
        an_sweep_add_launch(sweep, AN_BY_MODULE, row_at(sweep, inner[MODULE]), number, call);
    if (!link_line)
        an_sweep_add_launch(sweep, AN_BY_LINE, row_at(sweep, inner[LINE]), number, call);
    if (inner[ANNOTATION] >= 0)
        an_sweep_add_launch(sweep, AN_BY_ANNOTATION, row_at(sweep, inner[ANNOTATION]), number,
                            call);
    if (!link_module && !link_line && inner[ANNOTATION] >= 0)
        return 0;
    if (an_grow(&sweep->pending, &sweep->pending_room, sweep->pendings + 1, sizeof *sweep->pending))
        return TACHO_ENOMEM;
    int32_t backward = inner[BACKWARD];
    struct an_sweep_pending pending = {.launch = (uint32_t)number,
                                       .track = track,
                                       .link = AN_NONE,
                                       .call = call,
                                       .module = AN_NONE - 1,
                                       .line = AN_NONE - 1,
                                       .nested = is_nested(sweep, backward),
                                       .annotated = inner[ANNOTATION] >= 0};
    if (backward >= 0)
        pending.link = sweep->stack[backward].slice;
    if (link_module)
        pending.module = row_at(sweep, inner[MODULE]);
    if (link_line)
        pending.line = row_at(sweep, inner[LINE]);
    sweep->pending[sweep->pendings++] = pending;
    return 0;
}

/* Ranges that begin at the same time as a launch are open for it, whatever their order. */
static int sweep_track(struct an_sweep *sweep, uint32_t track)
{
    const struct an_track *row = &sweep->trace->track[track];
    size_t depth = 0, stop = row->slice_first + row->slice_count;
    int rc = 0;
    for (size_t i = row->slice_first, j; i < stop && !rc; i = j) {
        int64_t start = sweep->trace->slice.start[i];
        while (depth && sweep->stack[depth - 1].end <= start)
            depth--;
        for (j = i; j < stop && sweep->trace->slice.start[j] == start && !rc; j++)
            rc = open_slice(sweep, &depth, j, track);
        for (; !rc && sweep->next < sweep->links.count && sweep->links.slice[sweep->next] < j;
             sweep->next++)
            if (sweep->links.slice[sweep->next] >= i)
                rc = launch(sweep, depth, sweep->links.slice[sweep->next], track, sweep->next);
    }
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool is_thread(const struct an_track *track)
{
    return strcmp(track->kind, "stream") && strcmp(track->kind, "range") &&
           strcmp(track->kind, "counter");
}

/* Allocates what the sweep remembers of strings, details and device ops. */
static int prepare(struct an_sweep *sweep)
{
    size_t strings = sweep->trace->string_count + 1;
    struct an_arena *work = sweep->context->scratch;
    sweep->category = an_arena_zero(work, strings, 1);
    sweep->name = an_arena_zero(work, strings, 1);
    sweep->line_of_detail =
        an_arena_zero(work, sweep->trace->detail_count + 1, sizeof *sweep->line_of_detail);
    sweep->first_mark =
        an_arena_zero(work, sweep->trace->track_count + 1, sizeof *sweep->first_mark);
    sweep->calls = an_arena_zero(work, 1, sizeof *sweep->calls);
    if (!sweep->category || !sweep->name || !sweep->line_of_detail || !sweep->first_mark ||
        !sweep->calls)
        return TACHO_ENOMEM;
    sweep->calls->of_op =
        an_arena_zero(work, sweep->devices->op.count, sizeof *sweep->calls->of_op);
    if (!sweep->calls->of_op)
        return TACHO_ENOMEM;
    memset(sweep->calls->of_op, 0xff, sweep->devices->op.count * sizeof *sweep->calls->of_op);
    for (int by = 0; by < AN_BY_COUNT; by++) {
        sweep->by[by].of_name = an_arena_zero(work, strings, sizeof *sweep->by[by].of_name);
        if (!sweep->by[by].of_name)
            return TACHO_ENOMEM;
        memset(sweep->by[by].of_name, 0xff, strings * sizeof *sweep->by[by].of_name);
    }
    for (size_t i = 0; i < sweep->trace->string_count && !sweep->python; i++)
        sweep->python = !strcmp(sweep->trace->string[i], "python");
    return 0;
}

int an_attribution_sweep(struct an_context *context, struct an_by_table by[AN_BY_COUNT],
                         bool present[AN_BY_COUNT])
{
    struct an_sweep sweep = {.context = context,
                             .trace = context->trace,
                             .devices = context->gpu,
                             .by = by,
                             .present = present};
    int rc = prepare(&sweep);
    rc = rc ? rc : an_sweep_link(&sweep);
    for (uint32_t k = 0; k < context->trace->track_count && !rc; k++) {
        sweep.first_mark[k] = sweep.marks;
        if (is_thread(&context->trace->track[k]))
            rc = sweep_track(&sweep, k);
        sweep.first_mark[k + 1] = sweep.marks;
    }
    rc = rc ? rc : an_sweep_resolve(&sweep);
    if (!rc) { /* the array of calls goes to the arena */
        struct an_call *call =
            an_arena_copy(context->scratch, sweep.calls->call, sweep.calls->count * sizeof *call);
        rc = call || !sweep.calls->count ? 0 : TACHO_ENOMEM;
        free(sweep.calls->call);
        sweep.calls->call = call;
        context->calls = sweep.calls;
    } else if (sweep.calls) {
        free(sweep.calls->call);
    }
    free(sweep.stack);
    free(sweep.forward);
    free(sweep.marked);
    free(sweep.pending);
    return rc;
}
