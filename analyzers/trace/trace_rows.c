/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/trace/trace_rows.h"

#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/trace/trace_part.h"

uint32_t an_id_find(const struct an_id_map *m, int64_t id)
{
    if (!m->count || id < m->id[0])
        return AN_NONE;
    uint64_t guess = (uint64_t)id - (uint64_t)m->id[0];
    if (guess < m->count && m->id[guess] == id)
        return (uint32_t)guess;
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->count && m->id[low] == id ? (uint32_t)low : AN_NONE;
}

int an_id_add(struct an_id_map *m, int64_t id)
{
    int rc = an_grow(&m->id, &m->capacity, m->count + 1, sizeof *m->id);
    if (!rc)
        m->id[m->count++] = id;
    return rc;
}

/* Ids wait as 32 bits in their column until the table they point to is read. */
static uint32_t id_raw(int64_t id)
{
    return id >= 0 && id < (int64_t)AN_NONE ? (uint32_t)id : AN_NONE;
}

static const char *text_of(struct an_trace_loader *l, const char *s)
{
    return s && *s ? an_arena_text(l->t->arena, s) : "";
}

static const char *text_short(struct an_trace_loader *l, const char *s)
{
    if (!s || !*s)
        return "";
    for (size_t i = 0; i < l->texts; i++)
        if (!strcmp(l->text[i], s))
            return l->text[i];
    const char *copy = an_arena_text(l->t->arena, s);
    if (l->texts < AN_SHORT_TEXTS)
        l->text[l->texts++] = copy;
    return copy;
}

static void seen(struct an_trace *t, int64_t from, int64_t to)
{
    if (t->t1 < t->t0) {
        t->t0 = from;
        t->t1 = to;
    }
    t->t0 = from < t->t0 ? from : t->t0;
    t->t1 = to > t->t1 ? to : t->t1;
}

/* ---- big tables --------------------------------------------------------------------------------------------------------- */

int an_trace_row_slice_room(struct an_trace_loader *l, size_t need)
{
    struct an_slices *s = &l->t->slice;
    size_t old = l->room, room = 0;
    if (need <= old)
        return 0;
    struct {
        void *column;
        size_t size;
    } all[] = {{&s->start, sizeof *s->start},   {&s->dur, sizeof *s->dur},
               {&s->name, sizeof *s->name},     {&s->category, sizeof *s->name},
               {&s->detail, sizeof *s->detail}, {&s->correlation, sizeof *s->correlation},
               {&l->track, sizeof *l->track}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        room = old;
        int rc = an_grow(all[i].column, &room, need, all[i].size);
        if (rc)
            return rc;
    }
    l->room = room;
    return 0;
}

int an_trace_row_slice(void *ctx, const struct store_slice *x)
{
    struct an_trace_loader *l = ctx;
    struct an_slices *s = &l->t->slice;
    if (s->count >= AN_NONE - 1 || (l->rc = an_trace_row_slice_room(l, s->count + 1)))
        return l->rc ? l->rc : (l->rc = TACHO_ENOMEM);
    size_t i = s->count;
    int64_t start = x->start == STORE_ABSENT ? 0 : x->start, dur = x->dur;
    if (dur == STORE_ABSENT) {
        dur = AN_OPEN;
        l->t->open++;
    } else if (dur < 0) {
        dur = 0;
        l->t->odd++;
    } else if (an_time_add(start, dur) - dur != start) {
        dur = INT64_MAX - start;
        l->t->odd++;
    }
    s->start[i] = start;
    s->dur[i] = dur;
    s->name[i] = id_raw(x->name);
    s->category[i] = id_raw(x->category);
    s->detail[i] = id_raw(x->detail);
    s->correlation[i] = x->correlation;
    l->track[i] = id_raw(x->track);
    s->count++;
    seen(l->t, start, dur == AN_OPEN ? start : start + dur);
    return 0;
}

int an_trace_row_counter_room(struct an_trace_loader *l, size_t need)
{
    struct an_counters *c = &l->t->counter;
    size_t old = l->room, room = old;
    if (need <= old)
        return 0;
    int rc = an_grow(&c->time, &room, need, sizeof *c->time);
    room = old;
    rc = rc ? rc : an_grow(&c->value, &room, need, sizeof *c->value);
    room = old;
    rc = rc ? rc : an_grow(&l->track, &room, need, sizeof *l->track);
    l->room = rc ? old : room;
    return rc;
}

int an_trace_row_counter(void *ctx, const struct store_counter *x)
{
    struct an_trace_loader *l = ctx;
    struct an_counters *c = &l->t->counter;
    if (l->part && (x->time < l->part->t0 || x->time > l->part->t1) && x->id > AN_PART_COUNTER_HEAD)
        return 0;
    if ((l->rc = an_trace_row_counter_room(l, c->count + 1)))
        return l->rc;
    c->time[c->count] = x->time;
    c->value[c->count] = x->value;
    l->track[c->count++] = id_raw(x->track);
    seen(l->t, x->time, x->time);
    return 0;
}

int an_trace_row_aggregate_room(struct an_trace_loader *l, size_t need)
{
    struct an_aggregates *g = &l->t->aggregate;
    size_t old = l->room, room = 0;
    if (need <= old)
        return 0;
    void *narrow[] = {&g->process, &g->track, &g->name, &g->category, &g->detail};
    void *wide[] = {&g->step, &g->calls, &g->total, &g->self};
    int rc = 0;
    for (size_t i = 0; i < 5 && !rc; i++) {
        room = old;
        rc = an_grow(narrow[i], &room, need, sizeof(uint32_t));
    }
    for (size_t i = 0; i < 4 && !rc; i++) {
        room = old;
        rc = an_grow(wide[i], &room, need, sizeof(int64_t));
    }
    l->room = rc ? old : room;
    return rc;
}

int an_trace_row_aggregate(void *ctx, const struct store_step_aggregate *x)
{
    struct an_trace_loader *l = ctx;
    struct an_aggregates *g = &l->t->aggregate;
    if (l->part && (x->step < l->part->first_index || x->step > l->part->last_index))
        return 0;
    if ((l->rc = an_trace_row_aggregate_room(l, g->count + 1)))
        return l->rc;
    size_t i = g->count++;
    g->process[i] = id_raw(x->process);
    g->track[i] = id_raw(x->track);
    g->name[i] = id_raw(x->name);
    g->category[i] = id_raw(x->category);
    g->detail[i] = id_raw(x->detail);
    g->step[i] = x->step;
    g->calls[i] = x->count > 0 ? x->count : 0;
    g->total[i] = x->total > 0 ? x->total : 0;
    g->self[i] = x->self > 0 ? x->self : 0;
    return 0;
}

/* ---- small tables ------------------------------------------------------------------------------------------------------- */

int an_trace_row_step(void *ctx, const struct store_step *x)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if (l->part && (x->start < l->part->t0 || x->start > l->part->t1))
        return 0;
    if ((l->rc = an_grow(&t->step, &l->step_room, t->step_count + 1, sizeof *t->step)))
        return l->rc;
    struct an_step_row *s = &t->step[t->step_count++];
    *s = (struct an_step_row){id_raw(x->process), x->paused, x->index, x->start, x->end,
                              x->tokens,          x->samples};
    if (s->end != STORE_ABSENT && s->end < s->start) {
        s->end = STORE_ABSENT;
        t->odd++;
    }
    seen(t, s->start, s->end == STORE_ABSENT ? s->start : s->end);
    return 0;
}

int an_trace_row_string(void *ctx, int64_t id, const char *text)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if (l->part && an_id_find(&l->wanted, id) == AN_NONE)
        return 0;
    if ((l->rc = an_grow(&t->string, &l->string_room, t->string_count + 1, sizeof *t->string)) ||
        (l->rc = an_id_add(&l->strings, id)))
        return l->rc;
    t->string[t->string_count++] = text_of(l, text);
    return 0;
}

/* Kinds of tacho.range by the words of include/tacho_nvtx.h. */
static enum an_role role_of(const char *schema, const char *kind)
{
    static const struct {
        const char *kind;
        enum an_role role;
    } roles[] = {{"micro_step", AN_ROLE_MICRO_STEP},
                 {"input_wait", AN_ROLE_INPUT_WAIT},
                 {"read", AN_ROLE_READ},
                 {"decode", AN_ROLE_DECODE},
                 {"collate", AN_ROLE_COLLATE},
                 {"queue_wait", AN_ROLE_QUEUE_WAIT},
                 {"checkpoint", AN_ROLE_CHECKPOINT},
                 {"evaluation", AN_ROLE_EVALUATION},
                 {"compile", AN_ROLE_COMPILE},
                 {"host", AN_ROLE_HOST},
                 {"pin", AN_ROLE_PIN},
                 {"comm_wait", AN_ROLE_COMM_WAIT},
                 {"comm_post", AN_ROLE_COMM_POST}};
    if (!strcmp(schema, "tacho.work"))
        return AN_ROLE_WORK;
    if (!strcmp(schema, "tacho.comm"))
        return AN_ROLE_COMM;
    if (!strcmp(schema, "tacho.step"))
        return AN_ROLE_STEP;
    if (strcmp(schema, "tacho.range"))
        return AN_ROLE_NONE;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(kind, roles[i].kind))
            return roles[i].role;
    return AN_ROLE_NONE;
}

/* Sizes and counts below 0 cannot be; they are treated as not known. */
static int64_t known(int64_t v)
{
    return v < 0 ? STORE_ABSENT : v;
}

int an_trace_row_detail(void *ctx, const struct store_detail *x)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if (l->part && an_id_find(&l->wanted, x->id) == AN_NONE)
        return 0;
    if ((l->rc = an_grow(&t->detail, &l->detail_room, t->detail_count + 1, sizeof *t->detail)) ||
        (l->rc = an_id_add(&l->details, x->id)))
        return l->rc;
    struct an_detail *d = &t->detail[t->detail_count++];
    *d = (struct an_detail){.flops = known(x->flops),
                            .bytes_read = known(x->bytes_read),
                            .bytes_written = known(x->bytes_written),
                            .model_flops = known(x->model_flops),
                            .palm_flops = known(x->palm_flops),
                            .bytes = known(x->bytes),
                            .samples = known(x->samples),
                            .communicator = x->communicator,
                            .ranks = known(x->ranks),
                            .dtype = text_short(l, x->dtype),
                            .pass = text_short(l, x->pass),
                            .kind = text_short(l, x->kind),
                            .schema = text_short(l, x->schema),
                            .collective = text_short(l, x->collective),
                            .copy_kind = text_short(l, x->copy_kind),
                            .grid = text_of(l, x->grid),
                            .block = text_of(l, x->block),
                            .payload = text_of(l, x->payload)};
    d->role = role_of(d->schema, d->kind);
    d->paused =
        d->role == AN_ROLE_STEP && x->flags != STORE_ABSENT && (x->flags & STORE_DETAIL_PAUSED);
    /* A program need not say the kind: then its FLOPs count, but for the optimizer, which
     * multiplies no matrices. */
    bool unsaid = !*d->kind && d->flops > 0 && strcmp(d->pass, "optimizer") != 0;
    d->hardware = d->role == AN_ROLE_WORK &&
                  (unsaid || !strcmp(d->kind, "matrix") || !strcmp(d->kind, "attention") ||
                   !strcmp(d->kind, "convolution"));
    return 0;
}

int an_trace_row_process(void *ctx, const struct store_process *x)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc =
             an_grow(&t->process, &l->process_room, t->process_count + 1, sizeof *t->process)) ||
        (l->rc = an_id_add(&l->processes, x->id)))
        return l->rc;
    struct an_process *p = &t->process[t->process_count++];
    *p = (struct an_process){.id = x->id,
                             .rank = x->rank,
                             .pid = x->pid,
                             .parent = x->parent_pid,
                             .start = x->start,
                             .end = x->end,
                             .exit_status = x->exit_status,
                             .host = text_of(l, x->host),
                             .device = text_of(l, x->device),
                             .program = text_of(l, x->program),
                             .ended = text_of(l, x->ended)};
    if (p->start != STORE_ABSENT)
        seen(t, p->start, p->start);
    if (p->end != STORE_ABSENT)
        seen(t, p->end, p->end);
    return 0;
}

int an_trace_row_track(void *ctx, const struct store_track *x)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->track, &l->track_room, t->track_count + 1, sizeof *t->track)) ||
        (l->rc = an_id_add(&l->tracks, x->id)))
        return l->rc;
    t->track[t->track_count++] =
        (struct an_track){.id = x->id,
                          .process = x->process == STORE_ABSENT ? AN_NONE : id_raw(x->process),
                          .tid = x->tid,
                          .device = text_short(l, x->device),
                          .kind = text_short(l, x->kind),
                          .name = text_of(l, x->name),
                          .unit = text_short(l, x->unit)};
    return 0;
}

int an_trace_row_loss(void *ctx, const struct store_loss *x)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->loss, &l->loss_room, t->loss_count + 1, sizeof *t->loss)))
        return l->rc;
    t->loss[t->loss_count++] =
        (struct an_loss_row){text_of(l, x->source), text_of(l, x->reason), x->count, x->t0, x->t1};
    return 0;
}

int an_trace_row_ceiling(void *ctx, const struct store_ceiling *x)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->ceiling, &l->ceiling_room, t->ceiling_count + 1, sizeof *t->ceiling)))
        return l->rc;
    t->ceiling[t->ceiling_count++] =
        (struct an_ceiling_row){text_of(l, x->device), text_of(l, x->resource),
                                text_of(l, x->dtype), text_of(l, x->source), x->value};
    return 0;
}

int an_trace_row_key(void *ctx, const char *key, const char *value)
{
    struct an_trace_loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->key, &l->key_room, t->key_count + 1, sizeof *t->key)))
        return l->rc;
    t->key[t->key_count++] = (struct an_run_key){text_of(l, key), text_of(l, value)};
    return 0;
}

int an_trace_row_metric(void *ctx, const struct store_metric *m)
{
    struct an_ended *e = &((struct an_trace_loader *)ctx)->t->ended;
    const struct {
        const char *name;
        double *value;
    } known[] = {{"target.max_rss", &e->max_rss},
                 {"target.minor_faults", &e->minor_faults},
                 {"target.major_faults", &e->major_faults},
                 {"target.voluntary_switches", &e->voluntary_switches},
                 {"target.involuntary_switches", &e->involuntary_switches}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(m->name, known[i].name))
            *known[i].value = m->value;
    return 0;
}

/* ---- call stacks ---------------------------------------------------------------------------------------------------------- */

int an_trace_row_stack(void *ctx, const struct store_stack *x)
{
    struct an_trace_loader *l = ctx;
    struct an_stacks *k = &l->t->stack;
    size_t room[3] = {l->room, l->room, l->room};
    if (x->id != (int64_t)k->count + 1 ||
        k->count >= AN_NONE - 1) /* writers count without gaps: what stands behind is damage */
        return 0;
    l->rc = an_grow(&k->frame, &room[0], k->count + 1, sizeof *k->frame);
    l->rc = l->rc ? l->rc : an_grow(&k->parent, &room[1], k->count + 1, sizeof *k->parent);
    l->rc = l->rc ? l->rc : an_grow(&k->samples, &room[2], k->count + 1, sizeof *k->samples);
    if (l->rc)
        return l->rc;
    l->room = room[0];
    k->frame[k->count] = id_raw(x->frame);
    k->parent[k->count] = x->parent >= 1 && x->parent < x->id ? (uint32_t)(x->parent - 1) : AN_NONE;
    k->samples[k->count++] = 0;
    return 0;
}

int an_trace_row_sample(void *ctx, const struct store_sample *x)
{
    struct an_stacks *k = &((struct an_trace_loader *)ctx)->t->stack;
    k->all++;
    if (x->stack >= 1 && (uint64_t)x->stack <= k->count)
        k->samples[x->stack - 1]++;
    return 0;
}
