/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the ranges of every host thread with a stack of what is open. A launch takes the
 * innermost operator, module, line of user code and annotation from the stack; what backward
 * launches is left to attribution_links.c.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution_sweep.h"

enum category {
    CATEGORY_UNKNOWN,
    CATEGORY_OP,
    CATEGORY_PYTHON,
    CATEGORY_ANNOTATION,
    CATEGORY_MODULE_DOMAIN,
    CATEGORY_OTHER
};
enum name { NAME_UNKNOWN, NAME_PLAIN, NAME_MODULE, NAME_USER, NAME_CHECKPOINT, NAME_ENGINE };

/* ---- what a slice is ------------------------------------------------------------------------------------------------------ */

static enum category category_of(struct an_sweep *s, size_t i)
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
    uint32_t id = s->t->slice.category[i];
    if (id >= s->t->string_count)
        return CATEGORY_OTHER;
    if (s->category[id] == CATEGORY_UNKNOWN) {
        s->category[id] = CATEGORY_ANNOTATION; /* a domain of NVTX */
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (!strcmp(known[k].name, s->t->string[id]))
                s->category[id] = (uint8_t)known[k].category;
    }
    return s->category[id];
}

static enum name name_of(struct an_sweep *s, size_t i, bool python)
{
    uint32_t id = s->t->slice.name[i];
    if (id >= s->t->string_count)
        return NAME_PLAIN;
    if (s->name[id] == NAME_UNKNOWN) {
        const char *text = s->t->string[id];
        enum name n = NAME_PLAIN;
        if (!python)
            n = strstr(text, "CheckpointFunction") && strstr(text, "Backward") ? NAME_CHECKPOINT
                : !strncmp(text, "autograd::engine::evaluate_function", 35)    ? NAME_ENGINE
                                                                               : NAME_PLAIN;
        else if (!strncmp(text, "nn.Module: ", 11))
            n = NAME_MODULE;
        else if (strstr(text, "torch/utils/checkpoint.py("))
            n = NAME_CHECKPOINT;
        else if (an_frame_is_user(text))
            n = NAME_USER;
        s->name[id] = (uint8_t)n;
    }
    return s->name[id];
}

/* An operator of libtrain or of any program that says what it computes. */
static bool is_work(const struct an_detail *d)
{
    return d && d->role == AN_ROLE_WORK && (d->flops != STORE_ABSENT || *d->kind);
}

/* Row of a name; ranges of steps share one. AN_NONE: out of memory. */
static uint32_t row_of(struct an_sweep *s, enum an_by by, size_t i)
{
    struct an_by_table *t = &s->by[by];
    uint32_t id = s->t->slice.name[i];
    if (id >= s->t->string_count)
        return an_by_row_of(t, "");
    if (t->of_name[id] == AN_NONE) {
        const char *text = s->t->string[id];
        if (by == AN_BY_MODULE && !strncmp(text, "nn.Module: ", 11))
            text += 11;
        if (by == AN_BY_ANNOTATION && !strncmp(text, "ProfilerStep#", 13))
            text = "ProfilerStep";
        t->of_name[id] = an_by_row_of(t, text);
    }
    return t->of_name[id];
}

/* Row of the innermost frame of user code of an operator's recorded stack; AN_NONE: there is none.
 */
static int line_of_stack(struct an_sweep *s, size_t i, uint32_t *row)
{
    uint32_t id = s->t->slice.detail[i];
    const struct an_detail *d = an_trace_detail(s->t, id);
    *row = AN_NONE;
    if (!d || s->python || !*d->payload)
        return 0;
    if (!s->line_of_detail[id]) {
        struct an_op_args args = {.count = 0};
        s->line_of_detail[id] = 1;
        if (strstr(d->payload, "\"stack\"") && an_op_args_parse(s->c->work, d->payload, &args))
            return TACHO_ENOMEM;
        for (size_t k = 0; k < args.frames && s->line_of_detail[id] == 1; k++)
            if (an_frame_is_user(args.frame[k])) {
                uint32_t r = an_by_row_of(&s->by[AN_BY_LINE], args.frame[k]);
                if (r == AN_NONE)
                    return TACHO_ENOMEM;
                s->line_of_detail[id] = r + 2;
            }
    }
    if (s->line_of_detail[id] > 1)
        *row = s->line_of_detail[id] - 2;
    return 0;
}

/* ---- the stack ------------------------------------------------------------------------------------------------------------ */

/* Index of the innermost frame of a level that is still open at `time`, from the frame at `top`;
 * -1: none. */
static int32_t innermost(const struct an_sweep *s, int32_t top, enum an_sweep_level l, int64_t time)
{
    int32_t i = top < 0 ? -1 : s->stack[top].at[l];
    while (i >= 0 && s->stack[i].end <= time)
        i = i ? s->stack[i - 1].at[l] : -1;
    return i;
}

static uint32_t row_at(const struct an_sweep *s, int32_t i)
{
    return i < 0 ? AN_NONE : s->stack[i].row;
}

/* Time in itself: what lies inside belongs to the inner one. */
static void add_host(struct an_sweep *s, enum an_by by, uint32_t row, int32_t outer, int64_t start,
                     int64_t end)
{
    struct an_by_row *r = s->by[by].row;
    r[row].count++;
    r[row].host_ns = an_time_add(r[row].host_ns, an_time_sub(end, start));
    if (outer >= 0) {
        int64_t until = s->stack[outer].end < end ? s->stack[outer].end : end;
        struct an_by_row *o = &r[s->stack[outer].row];
        o->host_ns = an_time_sub(o->host_ns, an_time_sub(until, start));
    }
}

static int mark_add(struct an_sweep *s, const struct an_sweep_frame *f, int64_t start)
{
    if (an_grow(&s->marked, &s->mark_room, s->marks + 1, sizeof *s->marked))
        return TACHO_ENOMEM;
    int32_t outer = f->at[ANNOTATION];
    /* the call field of an annotation's frame is its index here */
    s->marked[s->marks++] =
        (struct an_sweep_marked){start, f->end, f->row, outer < 0 ? AN_NONE : s->stack[outer].call};
    return 0;
}

static int forward_add(struct an_sweep *s, size_t i, uint32_t track, const struct an_sweep_frame *f)
{
    if (an_grow(&s->forward, &s->forward_room, s->forwards + 1, sizeof *s->forward))
        return TACHO_ENOMEM;
    s->forward[s->forwards++] = (struct an_sweep_forward){
        (uint32_t)i, track, row_at(s, f->at[MODULE]), row_at(s, f->at[LINE])};
    return 0;
}

/* What an operator changes of the state that is passed down. */
static void op_state(struct an_sweep *s, size_t i, const struct an_detail *d,
                     struct an_sweep_frame *f)
{
    enum name n = name_of(s, i, false);
    bool is_backward = d && !strcmp(d->pass, "backward");
    if (n == NAME_CHECKPOINT) {
        f->backward = f->recompute = true;
        f->grad = false;
    } else if (n == NAME_ENGINE || is_backward) {
        f->backward = true;
        f->recompute = f->grad = false;
    } else if (f->backward && s->t->slice.correlation[i] != STORE_ABSENT) {
        f->grad = true;
    }
    if (d && !strcmp(d->pass, "recompute"))
        f->recompute = true;
}

/* A range on top of the stack, with what is passed down. false: it is empty. */
static bool frame_make(struct an_sweep *s, size_t depth, size_t i, struct an_sweep_frame *f)
{
    int64_t start = s->t->slice.start[i];
    int32_t top = (int32_t)depth - 1;
    *f = (struct an_sweep_frame){
        .slice = (uint32_t)i, .end = an_slice_end(s->t, i), .row = AN_NONE, .call = AN_NONE};
    for (int l = 0; l < LEVELS; l++)
        f->at[l] = innermost(s, top, (enum an_sweep_level)l, start);
    if (top >= 0) {
        f->backward = s->stack[top].backward;
        f->recompute = s->stack[top].recompute;
        f->grad = s->stack[top].grad;
    }
    return f->end > start;
}

/* Gives the range its row and puts it on the stack; `level` LEVELS: it is in no table. */
static int frame_push(struct an_sweep *s, size_t *depth, struct an_sweep_frame *f,
                      enum an_sweep_level level, uint32_t row)
{
    static const enum an_by tables[] = {[OP] = AN_BY_OP,
                                        [MODULE] = AN_BY_MODULE,
                                        [LINE] = AN_BY_LINE,
                                        [ANNOTATION] = AN_BY_ANNOTATION};
    if (level < BACKWARD) {
        f->row = row == AN_NONE ? row_of(s, tables[level], f->slice) : row;
        if (f->row == AN_NONE)
            return TACHO_ENOMEM;
        int64_t start = s->t->slice.start[f->slice];
        add_host(s, tables[level], f->row, f->at[level], start, f->end);
        s->present[tables[level]] = true;
        if (level == ANNOTATION && mark_add(s, f, start))
            return TACHO_ENOMEM;
        if (level == ANNOTATION)
            f->call = (uint32_t)s->marks - 1;
        f->at[level] = (int32_t)*depth;
    }
    if (an_grow(&s->stack, &s->stack_room, *depth + 1, sizeof *s->stack))
        return TACHO_ENOMEM;
    s->stack[(*depth)++] = *f;
    return 0;
}

static int push(struct an_sweep *s, size_t *depth, size_t i, enum an_sweep_level level)
{
    struct an_sweep_frame f;
    if (!frame_make(s, *depth, i, &f))
        return 0;
    f.recompute = f.recompute || (level == LEVELS && f.backward); /* a frame of checkpointing */
    return frame_push(s, depth, &f, level, AN_NONE);
}

/* An operator. The line of its recorded stack is a range of the same time, below its own. */
static int push_op(struct an_sweep *s, size_t *depth, size_t i, uint32_t track)
{
    const struct an_detail *d = an_trace_detail(s->t, s->t->slice.detail[i]);
    struct an_sweep_frame f;
    uint32_t line;
    int rc = line_of_stack(s, i, &line);
    if (!frame_make(s, *depth, i, &f))
        return rc;
    if (!rc && line != AN_NONE)
        rc = frame_push(s, depth, &f, LINE, line);
    if (rc)
        return rc;
    frame_make(s, *depth, i, &f);
    op_state(s, i, d, &f);
    if (s->t->slice.correlation[i] != STORE_ABSENT && d && !strcmp(d->pass, "backward"))
        f.at[BACKWARD] = (int32_t)*depth;
    else if (s->t->slice.correlation[i] != STORE_ABSENT && forward_add(s, i, track, &f))
        return TACHO_ENOMEM;
    return frame_push(s, depth, &f, OP, AN_NONE);
}

static int open_slice(struct an_sweep *s, size_t *depth, size_t i, uint32_t track)
{
    const struct an_detail *d = an_trace_detail(s->t, s->t->slice.detail[i]);
    enum category category = category_of(s, i);
    if (is_work(d) || category == CATEGORY_OP)
        return push_op(s, depth, i, track);
    if (category == CATEGORY_PYTHON) {
        enum name n = name_of(s, i, true);
        return n == NAME_MODULE       ? push(s, depth, i, MODULE)
               : n == NAME_USER       ? push(s, depth, i, LINE)
               : n == NAME_CHECKPOINT ? push(s, depth, i, LEVELS)
                                      : 0;
    }
    if (category == CATEGORY_MODULE_DOMAIN) /* of the hook: its other ranges have a payload */
        return push(s, depth, i, d && d->role != AN_ROLE_NONE ? ANNOTATION : MODULE);
    return category == CATEGORY_ANNOTATION ? push(s, depth, i, ANNOTATION) : 0;
}

/* ---- launches ------------------------------------------------------------------------------------------------------------- */

static void add_device(struct an_sweep *s, enum an_by by, uint32_t row, size_t launch)
{
    struct an_by_row *r = row == AN_NONE ? NULL : &s->by[by].row[row];
    for (uint32_t k = s->g->launch_first[launch]; r && k < s->g->launch_first[launch + 1]; k++) {
        uint32_t op = s->g->launch_op[k];
        r->kernels++;
        r->device_ns = an_time_add(r->device_ns, an_time_sub(s->g->op.end[op], s->g->op.start[op]));
    }
}

static int call_of(struct an_sweep *s, int32_t op, uint32_t process, uint32_t *call)
{
    *call = AN_NONE;
    if (op < 0)
        return 0;
    struct an_sweep_frame *f = &s->stack[op];
    if (f->call == AN_NONE) {
        if (an_grow(&s->calls->call, &s->call_room, s->calls->count + 1, sizeof *s->calls->call))
            return TACHO_ENOMEM;
        f->call = (uint32_t)s->calls->count;
        s->calls->call[s->calls->count++] =
            (struct an_call){.slice = f->slice,
                             .process = process,
                             .cost = AN_NONE,
                             .row = {AN_NONE, AN_NONE, AN_NONE, AN_NONE},
                             .recompute = f->recompute,
                             .unclear = f->grad && !f->recompute};
    }
    *call = f->call;
    return 0;
}

static void unknown_cost(struct an_by_table *t, uint32_t row)
{
    if (row == AN_NONE)
        return;
    t->row[row].no_flops++;
    t->row[row].no_bytes++;
}

void an_sweep_give(struct an_sweep *s, enum an_by by, uint32_t row, size_t launch, uint32_t call)
{
    struct an_call *x = call == AN_NONE ? NULL : &s->calls->call[call];
    add_device(s, by, row, launch);
    if (!x) {
        unknown_cost(&s->by[by], row);
    } else if (!(x->launched >> by & 1)) {
        x->launched |= (uint8_t)(1u << by);
        x->row[by] = row;
    } else if (x->row[by] != row) {
        unknown_cost(&s->by[by], row);
        unknown_cost(&s->by[by], x->row[by]);
    }
}

static int launch(struct an_sweep *s, size_t depth, size_t i, uint32_t track, size_t number)
{
    int64_t time = s->t->slice.start[i];
    int32_t top = (int32_t)depth - 1, at[LEVELS];
    uint32_t call;
    for (int l = 0; l < LEVELS; l++)
        at[l] = innermost(s, top, (enum an_sweep_level)l, time);
    if (call_of(s, at[OP], s->t->track[track].process, &call))
        return TACHO_ENOMEM;
    for (uint32_t k = s->g->launch_first[number]; k < s->g->launch_first[number + 1]; k++)
        s->calls->of_op[s->g->launch_op[k]] = call;
    an_sweep_give(s, AN_BY_OP, row_at(s, at[OP]), number, call);
    bool link_module = at[BACKWARD] > at[MODULE], link_line = at[BACKWARD] > at[LINE];
    if (!link_module)
        an_sweep_give(s, AN_BY_MODULE, row_at(s, at[MODULE]), number, call);
    if (!link_line)
        an_sweep_give(s, AN_BY_LINE, row_at(s, at[LINE]), number, call);
    if (at[ANNOTATION] >= 0)
        an_sweep_give(s, AN_BY_ANNOTATION, row_at(s, at[ANNOTATION]), number, call);
    if (!link_module && !link_line && at[ANNOTATION] >= 0)
        return 0;
    if (an_grow(&s->pending, &s->pending_room, s->pendings + 1, sizeof *s->pending))
        return TACHO_ENOMEM;
    int32_t b = at[BACKWARD];
    bool nested = false;
    for (int32_t k = b; k > 0 && !nested;
         k--) /* another backward operator, of another number, around it */
        nested = s->stack[k - 1].at[BACKWARD] >= 0 &&
                 s->t->slice.correlation[s->stack[s->stack[k - 1].at[BACKWARD]].slice] !=
                     s->t->slice.correlation[s->stack[b].slice];
    s->pending[s->pendings++] =
        (struct an_sweep_pending){.launch = (uint32_t)number,
                                  .track = track,
                                  .link = b < 0 ? AN_NONE : s->stack[b].slice,
                                  .call = call,
                                  .module = link_module ? row_at(s, at[MODULE]) : AN_NONE - 1,
                                  .line = link_line ? row_at(s, at[LINE]) : AN_NONE - 1,
                                  .nested = nested,
                                  .annotated = at[ANNOTATION] >= 0};
    return 0;
}

/* Ranges that begin at the same time as a launch are open for it, whatever their order. */
static int sweep_track(struct an_sweep *s, uint32_t track)
{
    const struct an_track *k = &s->t->track[track];
    size_t depth = 0, stop = k->slice_first + k->slice_count;
    int rc = 0;
    for (size_t i = k->slice_first, j; i < stop && !rc; i = j) {
        int64_t start = s->t->slice.start[i];
        while (depth && s->stack[depth - 1].end <= start)
            depth--;
        for (j = i; j < stop && s->t->slice.start[j] == start && !rc; j++)
            rc = open_slice(s, &depth, j, track);
        for (; !rc && s->next < s->g->launch_count && s->g->launch_slice[s->next] < j; s->next++)
            if (s->g->launch_slice[s->next] >= i)
                rc = launch(s, depth, s->g->launch_slice[s->next], track, s->next);
    }
    return rc;
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

static bool is_thread(const struct an_track *k)
{
    return strcmp(k->kind, "stream") && strcmp(k->kind, "range") && strcmp(k->kind, "counter");
}

static int prepare(struct an_sweep *s)
{
    size_t strings = s->t->string_count + 1;
    struct an_arena *work = s->c->work;
    s->category = an_arena_zero(work, strings, 1);
    s->name = an_arena_zero(work, strings, 1);
    s->line_of_detail = an_arena_zero(work, s->t->detail_count + 1, sizeof *s->line_of_detail);
    s->first_mark = an_arena_zero(work, s->t->track_count + 1, sizeof *s->first_mark);
    s->calls = an_arena_zero(work, 1, sizeof *s->calls);
    if (!s->category || !s->name || !s->line_of_detail || !s->first_mark || !s->calls)
        return TACHO_ENOMEM;
    s->calls->of_op = an_arena_zero(work, s->g->op.count, sizeof *s->calls->of_op);
    if (!s->calls->of_op)
        return TACHO_ENOMEM;
    memset(s->calls->of_op, 0xff, s->g->op.count * sizeof *s->calls->of_op);
    for (int by = 0; by < AN_BY_COUNT; by++) {
        s->by[by].of_name = an_arena_zero(work, strings, sizeof *s->by[by].of_name);
        if (!s->by[by].of_name)
            return TACHO_ENOMEM;
        memset(s->by[by].of_name, 0xff, strings * sizeof *s->by[by].of_name);
    }
    for (size_t i = 0; i < s->t->string_count && !s->python; i++)
        s->python = !strcmp(s->t->string[i], "python");
    return 0;
}

int an_attribution_sweep(struct an_context *c, struct an_by_table by[AN_BY_COUNT],
                         bool present[AN_BY_COUNT])
{
    struct an_sweep s = {.c = c, .t = c->t, .g = c->gpu, .by = by, .present = present};
    int rc = prepare(&s);
    for (uint32_t k = 0; k < c->t->track_count && !rc; k++) {
        s.first_mark[k] = s.marks;
        if (is_thread(&c->t->track[k]))
            rc = sweep_track(&s, k);
        s.first_mark[k + 1] = s.marks;
    }
    rc = rc ? rc : an_sweep_resolve(&s);
    if (!rc) { /* the array of calls goes to the arena */
        struct an_call *call = an_arena_copy(c->work, s.calls->call, s.calls->count * sizeof *call);
        rc = call || !s.calls->count ? 0 : TACHO_ENOMEM;
        free(s.calls->call);
        s.calls->call = call;
        c->calls = s.calls;
    } else if (s.calls) {
        free(s.calls->call);
    }
    free(s.stack);
    free(s.forward);
    free(s.marked);
    free(s.pending);
    return rc;
}
