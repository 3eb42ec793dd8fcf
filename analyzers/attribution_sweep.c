/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the ranges of every host thread with a stack of what is open. A launch takes the innermost operator, module,
 * line of user code and annotation from the stack.
 *
 * Backward runs on threads of its own, where no module and no user code is open. There the innermost backward operator leads,
 * by its autograd sequence number, to the forward operator that made it: module and line are that one's, and the annotation is
 * the one open at that moment on the thread that ran forward, because it is the one that waits in backward(). What is nearer
 * than the backward operator (a Python function called from it, a module that is run again) comes first.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/attribution.h"
#include "analyzers/radix.h"

#define SAME_NUMBER_MOST 4096 /* operators of one sequence number that are looked at */

/* What the stack remembers the innermost of */
enum level { OP, MODULE, LINE, ANNOTATION, BACKWARD, LEVELS };

enum category { CATEGORY_UNKNOWN, CATEGORY_OP, CATEGORY_PYTHON, CATEGORY_ANNOTATION, CATEGORY_MODULE_DOMAIN, CATEGORY_OTHER };
enum name { NAME_UNKNOWN, NAME_PLAIN, NAME_MODULE, NAME_USER, NAME_CHECKPOINT, NAME_ENGINE };

struct frame {
    uint32_t slice;
    int64_t end;
    int32_t at[LEVELS]; /* index in the stack of the innermost of each level, this one included; -1: none */
    uint32_t row;       /* of its level's table */
    uint32_t call;      /* of an operator that launched something */
    bool backward, recompute, grad;
};

/* A forward operator that autograd numbered. */
struct forward {
    uint32_t slice, track, module, line;
};

/* An annotation, in order of track and start. */
struct marked {
    int64_t start, end;
    uint32_t row, outer; /* outer: index of the annotation around it */
};

/* A launch whose rows are found when all threads are known. */
struct pending {
    uint32_t launch, track, link, call, module, line; /* link: slice of the backward operator; module, line: own ones */
    bool nested;                                      /* the backward operator runs inside another one's */
    bool annotated;
};

struct sweep {
    struct an_context *c;
    const struct an_trace *t;
    const struct an_devices *g;
    struct an_by_table *by;
    struct an_calls *calls;
    size_t call_room;
    uint8_t *category, *name; /* of strings */
    uint32_t *line_of_detail; /* row + 2 of the user's frame of a recorded stack; 1: none; 0: not known yet */
    bool python, *present;
    struct frame *stack;
    size_t stack_room;
    size_t next; /* launch that comes next */
    struct forward *forward;
    size_t forwards, forward_room;
    struct an_pair *by_number; /* forward operators by sequence number */
    struct marked *marked;
    size_t marks, mark_room;
    size_t *first_mark; /* of each track */
    struct pending *pending;
    size_t pendings, pending_room;
};

/* ---- what a slice is ------------------------------------------------------------------------------------------------------ */

static enum category category_of(struct sweep *s, size_t i)
{
    static const struct {
        const char *name;
        enum category category;
    } known[] = {{"op", CATEGORY_OP},         {"python", CATEGORY_PYTHON}, {"annotation", CATEGORY_ANNOTATION},
                 {"runtime", CATEGORY_OTHER}, {"driver", CATEGORY_OTHER},  {"overhead", CATEGORY_OTHER},
                 {"instant", CATEGORY_OTHER}, {"trace", CATEGORY_OTHER},   {"torch", CATEGORY_MODULE_DOMAIN}};
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

static enum name name_of(struct sweep *s, size_t i, bool python)
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
static uint32_t row_of(struct sweep *s, enum an_by by, size_t i)
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

/* Row of the innermost frame of user code of an operator's recorded stack; AN_NONE: there is none. */
static int line_of_stack(struct sweep *s, size_t i, uint32_t *row)
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

/* Index of the innermost frame of a level that is still open at `time`, from the frame at `top`; -1: none. */
static int32_t innermost(const struct sweep *s, int32_t top, enum level l, int64_t time)
{
    int32_t i = top < 0 ? -1 : s->stack[top].at[l];
    while (i >= 0 && s->stack[i].end <= time)
        i = i ? s->stack[i - 1].at[l] : -1;
    return i;
}

static uint32_t row_at(const struct sweep *s, int32_t i)
{
    return i < 0 ? AN_NONE : s->stack[i].row;
}

/* Time in itself: what lies inside belongs to the inner one. */
static void add_host(struct sweep *s, enum an_by by, uint32_t row, int32_t outer, int64_t start, int64_t end)
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

static int mark_add(struct sweep *s, const struct frame *f, int64_t start)
{
    if (an_grow(&s->marked, &s->mark_room, s->marks + 1, sizeof *s->marked))
        return TACHO_ENOMEM;
    int32_t outer = f->at[ANNOTATION];
    /* the call field of an annotation's frame is its index here */
    s->marked[s->marks++] = (struct marked){start, f->end, f->row, outer < 0 ? AN_NONE : s->stack[outer].call};
    return 0;
}

static int forward_add(struct sweep *s, size_t i, uint32_t track, const struct frame *f)
{
    if (an_grow(&s->forward, &s->forward_room, s->forwards + 1, sizeof *s->forward))
        return TACHO_ENOMEM;
    s->forward[s->forwards++] = (struct forward){(uint32_t)i, track, row_at(s, f->at[MODULE]), row_at(s, f->at[LINE])};
    return 0;
}

/* What an operator changes of the state that is passed down. */
static void op_state(struct sweep *s, size_t i, const struct an_detail *d, struct frame *f)
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

/* Opens slice i as a range of `level` (of two levels: an operator can be a line too). */
static int push(struct sweep *s, size_t *depth, size_t i, uint32_t track, enum level level)
{
    const struct an_detail *d = an_trace_detail(s->t, s->t->slice.detail[i]);
    int64_t start = s->t->slice.start[i];
    int32_t top = (int32_t)*depth - 1, self = (int32_t)*depth;
    struct frame f = {.slice = (uint32_t)i, .end = an_slice_end(s->t, i), .row = AN_NONE, .call = AN_NONE};
    if (f.end <= start)
        return 0;
    for (int l = 0; l < LEVELS; l++)
        f.at[l] = innermost(s, top, (enum level)l, start);
    if (top >= 0) {
        f.backward = s->stack[top].backward;
        f.recompute = s->stack[top].recompute;
        f.grad = s->stack[top].grad;
    }
    static const enum an_by tables[] = {
        [OP] = AN_BY_OP, [MODULE] = AN_BY_MODULE, [LINE] = AN_BY_LINE, [ANNOTATION] = AN_BY_ANNOTATION};
    if (level < BACKWARD) {
        f.row = row_of(s, tables[level], i);
        if (f.row == AN_NONE)
            return TACHO_ENOMEM;
        add_host(s, tables[level], f.row, f.at[level], start, f.end);
        s->present[tables[level]] = true;
    }
    int rc = 0;
    if (level == OP) {
        op_state(s, i, d, &f);
        if (s->t->slice.correlation[i] != STORE_ABSENT && d && !strcmp(d->pass, "backward"))
            f.at[BACKWARD] = self;
        else if (s->t->slice.correlation[i] != STORE_ABSENT)
            rc = forward_add(s, i, track, &f);
    } else if (level == ANNOTATION) {
        rc = mark_add(s, &f, start);
        f.call = (uint32_t)s->marks - 1;
    } else if (level == LEVELS && f.backward) { /* a frame of checkpointing */
        f.recompute = true;
    }
    if (level < BACKWARD)
        f.at[level] = self;
    if (!rc)
        rc = an_grow(&s->stack, &s->stack_room, *depth + 1, sizeof *s->stack);
    if (!rc)
        s->stack[(*depth)++] = f;
    return rc;
}

/* A line of a recorded stack is a range like the operator that has it, below the operator's own. */
static int push_stack_line(struct sweep *s, size_t *depth, size_t i)
{
    uint32_t row;
    int rc = line_of_stack(s, i, &row);
    if (rc || row == AN_NONE)
        return rc;
    int64_t start = s->t->slice.start[i];
    int32_t top = (int32_t)*depth - 1;
    struct frame f = {.slice = (uint32_t)i, .end = an_slice_end(s->t, i), .row = row, .call = AN_NONE};
    if (f.end <= start)
        return 0;
    for (int l = 0; l < LEVELS; l++)
        f.at[l] = innermost(s, top, (enum level)l, start);
    if (top >= 0) {
        f.backward = s->stack[top].backward;
        f.recompute = s->stack[top].recompute;
        f.grad = s->stack[top].grad;
    }
    add_host(s, AN_BY_LINE, row, f.at[LINE], start, f.end);
    s->present[AN_BY_LINE] = true;
    f.at[LINE] = (int32_t)*depth;
    if (an_grow(&s->stack, &s->stack_room, *depth + 1, sizeof *s->stack))
        return TACHO_ENOMEM;
    s->stack[(*depth)++] = f;
    return 0;
}

static int open_slice(struct sweep *s, size_t *depth, size_t i, uint32_t track)
{
    const struct an_detail *d = an_trace_detail(s->t, s->t->slice.detail[i]);
    enum category category = category_of(s, i);
    int rc = 0;
    if (is_work(d) || category == CATEGORY_OP) {
        rc = push_stack_line(s, depth, i);
        return rc ? rc : push(s, depth, i, track, OP);
    }
    if (category == CATEGORY_PYTHON) {
        enum name n = name_of(s, i, true);
        return n == NAME_MODULE       ? push(s, depth, i, track, MODULE)
               : n == NAME_USER       ? push(s, depth, i, track, LINE)
               : n == NAME_CHECKPOINT ? push(s, depth, i, track, LEVELS)
                                      : 0;
    }
    if (category == CATEGORY_MODULE_DOMAIN) /* of the hook: its other ranges have a payload */
        return push(s, depth, i, track, d && d->role != AN_ROLE_NONE ? ANNOTATION : MODULE);
    return category == CATEGORY_ANNOTATION ? push(s, depth, i, track, ANNOTATION) : rc;
}

/* ---- launches ------------------------------------------------------------------------------------------------------------- */

static void add_device(struct sweep *s, enum an_by by, uint32_t row, size_t launch)
{
    struct an_by_row *r = row == AN_NONE ? NULL : &s->by[by].row[row];
    for (uint32_t k = s->g->launch_first[launch]; r && k < s->g->launch_first[launch + 1]; k++) {
        uint32_t op = s->g->launch_op[k];
        r->kernels++;
        r->device_ns = an_time_add(r->device_ns, an_time_sub(s->g->op.end[op], s->g->op.start[op]));
    }
}

static int call_of(struct sweep *s, int32_t op, uint32_t process, uint32_t *call)
{
    *call = AN_NONE;
    if (op < 0)
        return 0;
    struct frame *f = &s->stack[op];
    if (f->call == AN_NONE) {
        if (an_grow(&s->calls->call, &s->call_room, s->calls->count + 1, sizeof *s->calls->call))
            return TACHO_ENOMEM;
        f->call = (uint32_t)s->calls->count;
        s->calls->call[s->calls->count++] = (struct an_call){.slice = f->slice,
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

/* A launch's row in a table. The cost of a call belongs to its row; where its launches have several, no row knows its part. */
static void give(struct sweep *s, enum an_by by, uint32_t row, size_t launch, uint32_t call)
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

static int launch(struct sweep *s, size_t depth, size_t i, uint32_t track, size_t number)
{
    int64_t time = s->t->slice.start[i];
    int32_t top = (int32_t)depth - 1, at[LEVELS];
    uint32_t call;
    for (int l = 0; l < LEVELS; l++)
        at[l] = innermost(s, top, (enum level)l, time);
    if (call_of(s, at[OP], s->t->track[track].process, &call))
        return TACHO_ENOMEM;
    for (uint32_t k = s->g->launch_first[number]; k < s->g->launch_first[number + 1]; k++)
        s->calls->of_op[s->g->launch_op[k]] = call;
    give(s, AN_BY_OP, row_at(s, at[OP]), number, call);
    bool link_module = at[BACKWARD] > at[MODULE], link_line = at[BACKWARD] > at[LINE];
    if (!link_module)
        give(s, AN_BY_MODULE, row_at(s, at[MODULE]), number, call);
    if (!link_line)
        give(s, AN_BY_LINE, row_at(s, at[LINE]), number, call);
    if (at[ANNOTATION] >= 0)
        give(s, AN_BY_ANNOTATION, row_at(s, at[ANNOTATION]), number, call);
    if (!link_module && !link_line && at[ANNOTATION] >= 0)
        return 0;
    if (an_grow(&s->pending, &s->pending_room, s->pendings + 1, sizeof *s->pending))
        return TACHO_ENOMEM;
    int32_t b = at[BACKWARD];
    bool nested = false;
    for (int32_t k = b; k > 0 && !nested; k--) /* another backward operator, of another number, around it */
        nested = s->stack[k - 1].at[BACKWARD] >= 0 && s->t->slice.correlation[s->stack[s->stack[k - 1].at[BACKWARD]].slice] !=
                                                          s->t->slice.correlation[s->stack[b].slice];
    s->pending[s->pendings++] = (struct pending){.launch = (uint32_t)number,
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
static int sweep_track(struct sweep *s, uint32_t track)
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

/* ---- backward to forward --------------------------------------------------------------------------------------------------- */

static int sort_forward(struct sweep *s)
{
    size_t n = s->forwards;
    struct an_pair *a = an_arena_zero(s->c->work, n, sizeof *a), *work = an_arena_zero(s->c->work, n, sizeof *work);
    if (!a || !work)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++)
        a[i] = (struct an_pair){an_pair_key(s->t->slice.correlation[s->forward[i].slice]), (uint32_t)i, 0};
    an_pairs_sort(a, work, n);
    s->by_number = a;
    return 0;
}

/* The forward operator of a backward one: of its number and process, the last one that began before. Each thread counts for
 * itself: of a backward operator inside of another one (a part that is run again and differentiated in there) its own thread
 * goes first, else the other threads do. */
static const struct forward *forward_of(const struct sweep *s, const struct pending *p)
{
    const struct an_slices *x = &s->t->slice;
    const struct forward *best = NULL;
    bool best_fits = false;
    if (p->link == AN_NONE)
        return NULL;
    uint64_t key = an_pair_key(x->correlation[p->link]);
    size_t low = 0, high = s->forwards;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->by_number[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < s->forwards && s->by_number[i].key == key && i < low + SAME_NUMBER_MOST; i++) {
        const struct forward *f = &s->forward[s->by_number[i].value];
        bool fits = p->nested == (f->track == p->track);
        if (s->t->track[f->track].process != s->t->track[p->track].process || x->start[f->slice] > x->start[p->link])
            continue;
        if (!best || fits > best_fits || (fits == best_fits && x->start[f->slice] > x->start[best->slice])) {
            best = f;
            best_fits = fits;
        }
    }
    return best;
}

/* Row of the innermost annotation of a thread that is open at `time`. */
static uint32_t marked_at(const struct sweep *s, uint32_t track, int64_t time)
{
    size_t low = s->first_mark[track], high = s->first_mark[track + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->marked[middle].start <= time)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t i = low > s->first_mark[track] ? (uint32_t)low - 1 : AN_NONE;
    for (int levels = AN_DEPTH_MAX; i != AN_NONE && s->marked[i].end <= time && levels; levels--)
        i = s->marked[i].outer;
    return i != AN_NONE && s->marked[i].end > time ? s->marked[i].row : AN_NONE;
}

static int resolve(struct sweep *s)
{
    uint32_t *caller =
        an_arena_zero(s->c->work, s->t->track_count, sizeof *caller); /* track + 1 that backward was called from */
    if (!caller || sort_forward(s))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < s->pendings; i++) {
        const struct pending *p = &s->pending[i];
        const struct forward *f = forward_of(s, p);
        if (f && f->track != p->track && !caller[p->track])
            caller[p->track] = f->track + 1;
    }
    for (size_t i = 0; i < s->pendings; i++) {
        const struct pending *p = &s->pending[i];
        const struct forward *f = forward_of(s, p);
        if (p->module != AN_NONE - 1)
            give(s, AN_BY_MODULE, f && f->module != AN_NONE ? f->module : p->module, p->launch, p->call);
        if (p->line != AN_NONE - 1)
            give(s, AN_BY_LINE, f && f->line != AN_NONE ? f->line : p->line, p->launch, p->call);
        uint32_t track = f && f->track != p->track ? f->track + 1 : caller[p->track];
        if (!p->annotated && track)
            give(s, AN_BY_ANNOTATION, marked_at(s, track - 1, s->t->slice.start[s->g->launch_slice[p->launch]]), p->launch,
                 p->call);
    }
    return 0;
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

static bool is_thread(const struct an_track *k)
{
    return strcmp(k->kind, "stream") && strcmp(k->kind, "range") && strcmp(k->kind, "counter");
}

static int prepare(struct sweep *s)
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

int an_attribution_sweep(struct an_context *c, struct an_by_table by[AN_BY_COUNT], bool present[AN_BY_COUNT])
{
    struct sweep s = {.c = c, .t = c->t, .g = c->gpu, .by = by, .present = present};
    int rc = prepare(&s);
    for (uint32_t k = 0; k < c->t->track_count && !rc; k++) {
        s.first_mark[k] = s.marks;
        if (is_thread(&c->t->track[k]))
            rc = sweep_track(&s, k);
        s.first_mark[k + 1] = s.marks;
    }
    rc = rc ? rc : resolve(&s);
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
