/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/arena.h"
#include "analyzers/interval.h"
#include "analyzers/trace_part.h"

#define SHORT_TEXTS 64 /* dtypes, passes, kinds, schemas: a handful each */

/* Ids of a table in file order. Writers count from 1 without gaps, so the search is almost always one subtraction. */
struct id_map {
    int64_t *id;
    size_t count, capacity;
};

struct loader {
    struct an_trace *t;
    int rc;
    size_t room; /* capacity of the columns being filled */
    uint32_t *track;
    struct id_map strings, details, processes, tracks;
    size_t string_room, detail_room, process_room, track_room, step_room, loss_room, ceiling_room, key_room;
    const char *text[SHORT_TEXTS];
    size_t texts;
    const struct an_trace_part *part; /* NULL: all of the run */
    struct id_map wanted;             /* of a part: ids of the table being read that something refers to, sorted */
};

static uint32_t id_find(const struct id_map *m, int64_t id)
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

static int id_add(struct id_map *m, int64_t id)
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

static void id_resolve(uint32_t *column, size_t n, const struct id_map *m)
{
    for (size_t i = 0; i < n; i++)
        if (column[i] != AN_NONE)
            column[i] = id_find(m, column[i]);
}

static const char *text_of(struct loader *l, const char *s)
{
    return s && *s ? an_arena_text(l->t->arena, s) : "";
}

static const char *text_short(struct loader *l, const char *s)
{
    if (!s || !*s)
        return "";
    for (size_t i = 0; i < l->texts; i++)
        if (!strcmp(l->text[i], s))
            return l->text[i];
    const char *copy = an_arena_text(l->t->arena, s);
    if (l->texts < SHORT_TEXTS)
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

static int slice_room(struct loader *l, size_t need)
{
    struct an_slices *s = &l->t->slice;
    size_t old = l->room, room = 0;
    if (need <= old)
        return 0;
    struct {
        void *column;
        size_t size;
    } all[] = {{&s->start, sizeof *s->start},   {&s->dur, sizeof *s->dur},       {&s->name, sizeof *s->name},
               {&s->category, sizeof *s->name}, {&s->detail, sizeof *s->detail}, {&s->correlation, sizeof *s->correlation},
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

static int on_slice(void *ctx, const struct store_slice *x)
{
    struct loader *l = ctx;
    struct an_slices *s = &l->t->slice;
    if (s->count >= AN_NONE - 1 || (l->rc = slice_room(l, s->count + 1)))
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

static int counter_room(struct loader *l, size_t need)
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

static int on_counter(void *ctx, const struct store_counter *x)
{
    struct loader *l = ctx;
    struct an_counters *c = &l->t->counter;
    if (l->part && (x->time < l->part->t0 || x->time > l->part->t1) && x->id > AN_PART_COUNTER_HEAD)
        return 0;
    if ((l->rc = counter_room(l, c->count + 1)))
        return l->rc;
    c->time[c->count] = x->time;
    c->value[c->count] = x->value;
    l->track[c->count++] = id_raw(x->track);
    seen(l->t, x->time, x->time);
    return 0;
}

static int aggregate_room(struct loader *l, size_t need)
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

static int on_aggregate(void *ctx, const struct store_step_aggregate *x)
{
    struct loader *l = ctx;
    struct an_aggregates *g = &l->t->aggregate;
    if (l->part && (x->step < l->part->first_index || x->step > l->part->last_index))
        return 0;
    if ((l->rc = aggregate_room(l, g->count + 1)))
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

static int on_step(void *ctx, const struct store_step *x)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if (l->part && (x->start < l->part->t0 || x->start > l->part->t1))
        return 0;
    if ((l->rc = an_grow(&t->step, &l->step_room, t->step_count + 1, sizeof *t->step)))
        return l->rc;
    struct an_step_row *s = &t->step[t->step_count++];
    *s = (struct an_step_row){id_raw(x->process), x->paused, x->index, x->start, x->end, x->tokens, x->samples};
    if (s->end != STORE_ABSENT && s->end < s->start) {
        s->end = STORE_ABSENT;
        t->odd++;
    }
    seen(t, s->start, s->end == STORE_ABSENT ? s->start : s->end);
    return 0;
}

static int on_string(void *ctx, int64_t id, const char *text)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if (l->part && id_find(&l->wanted, id) == AN_NONE)
        return 0;
    if ((l->rc = an_grow(&t->string, &l->string_room, t->string_count + 1, sizeof *t->string)) ||
        (l->rc = id_add(&l->strings, id)))
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

static int on_detail(void *ctx, const struct store_detail *x)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if (l->part && id_find(&l->wanted, x->id) == AN_NONE)
        return 0;
    if ((l->rc = an_grow(&t->detail, &l->detail_room, t->detail_count + 1, sizeof *t->detail)) ||
        (l->rc = id_add(&l->details, x->id)))
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
    d->paused = d->role == AN_ROLE_STEP && x->flags != STORE_ABSENT && (x->flags & STORE_DETAIL_PAUSED);
    /* A program need not say the kind: then its FLOPs count, but for the optimizer, which multiplies no matrices. */
    bool unsaid = !*d->kind && d->flops > 0 && strcmp(d->pass, "optimizer") != 0;
    d->hardware = d->role == AN_ROLE_WORK &&
                  (unsaid || !strcmp(d->kind, "matrix") || !strcmp(d->kind, "attention") || !strcmp(d->kind, "convolution"));
    return 0;
}

static int on_process(void *ctx, const struct store_process *x)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->process, &l->process_room, t->process_count + 1, sizeof *t->process)) ||
        (l->rc = id_add(&l->processes, x->id)))
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

static int on_track(void *ctx, const struct store_track *x)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->track, &l->track_room, t->track_count + 1, sizeof *t->track)) ||
        (l->rc = id_add(&l->tracks, x->id)))
        return l->rc;
    t->track[t->track_count++] = (struct an_track){.id = x->id,
                                                   .process = x->process == STORE_ABSENT ? AN_NONE : id_raw(x->process),
                                                   .tid = x->tid,
                                                   .device = text_short(l, x->device),
                                                   .kind = text_short(l, x->kind),
                                                   .name = text_of(l, x->name),
                                                   .unit = text_short(l, x->unit)};
    return 0;
}

static int on_loss(void *ctx, const struct store_loss *x)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->loss, &l->loss_room, t->loss_count + 1, sizeof *t->loss)))
        return l->rc;
    t->loss[t->loss_count++] = (struct an_loss_row){text_of(l, x->source), text_of(l, x->reason), x->count, x->t0, x->t1};
    return 0;
}

static int on_ceiling(void *ctx, const struct store_ceiling *x)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->ceiling, &l->ceiling_room, t->ceiling_count + 1, sizeof *t->ceiling)))
        return l->rc;
    t->ceiling[t->ceiling_count++] = (struct an_ceiling_row){text_of(l, x->device), text_of(l, x->resource),
                                                             text_of(l, x->dtype), text_of(l, x->source), x->value};
    return 0;
}

static int on_key(void *ctx, const char *key, const char *value)
{
    struct loader *l = ctx;
    struct an_trace *t = l->t;
    if ((l->rc = an_grow(&t->key, &l->key_room, t->key_count + 1, sizeof *t->key)))
        return l->rc;
    t->key[t->key_count++] = (struct an_run_key){text_of(l, key), text_of(l, value)};
    return 0;
}

static int on_metric(void *ctx, const struct store_metric *m)
{
    struct an_ended *e = &((struct loader *)ctx)->t->ended;
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

int an_trace_key_order(const void *a, const void *b)
{
    return strcmp(((const struct an_run_key *)a)->key, ((const struct an_run_key *)b)->key);
}

/* ---- loading ------------------------------------------------------------------------------------------------------------ */

/* Rows of a table for sizing; a table that cannot be counted grows as it is read. */
static size_t rows_of(store_reader *r, const char *table)
{
    int64_t n = 0;
    return store_count(r, table, &n) == 0 && n > 0 && n < (int64_t)AN_NONE ? (size_t)n : 0;
}

static int load_slices(store_reader *r, struct loader *l)
{
    const struct an_trace_part *p = l->part;
    int rc = slice_room(l, p ? (size_t)p->slices : rows_of(r, "slice"));
    if (rc)
        return rc;
    return p ? store_slice_between(r, p->slice, p->t0, p->t1, on_slice, l) : store_slice_each(r, 0, on_slice, l);
}

/* Values from the head of the table, and those of the part. */
static int on_head(void *ctx, const struct store_counter *x)
{
    struct loader *l = ctx;
    return x->id > AN_PART_COUNTER_HEAD || x->id >= l->part->counter ? 1 : on_counter(ctx, x);
}

static int load_counters(store_reader *r, struct loader *l)
{
    if (!l->part) {
        int rc = counter_room(l, rows_of(r, "counter"));
        return rc ? rc : store_counter_each(r, 0, on_counter, l);
    }
    int rc = store_counter_each(r, 0, on_head, l);
    return l->rc || rc < 0 ? rc : store_counter_each(r, l->part->counter, on_counter, l);
}

/* ---- call stacks ---------------------------------------------------------------------------------------------------------- */

static int on_stack(void *ctx, const struct store_stack *x)
{
    struct loader *l = ctx;
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

static int on_sample(void *ctx, const struct store_sample *x)
{
    struct an_stacks *k = &((struct loader *)ctx)->t->stack;
    k->all++;
    if (x->stack >= 1 && (uint64_t)x->stack <= k->count)
        k->samples[x->stack - 1]++;
    return 0;
}

static int load_stacks(store_reader *r, struct loader *l)
{
    if (l->part)
        return 0;
    int rc = store_stack_each(r, 1, on_stack, l);
    l->room = 0;
    return rc ? rc : store_sample_each(r, 0, on_sample, l);
}

static int load_big(store_reader *r, struct loader *l, uint32_t **slice_track, uint32_t **counter_track)
{
    int rc = load_slices(r, l);
    *slice_track = l->track;
    l->track = NULL;
    l->room = 0;
    rc = rc ? rc : load_counters(r, l);
    *counter_track = l->track;
    l->track = NULL;
    l->room = 0;
    rc = rc ? rc : load_stacks(r, l);
    rc = rc || l->part ? rc : aggregate_room(l, rows_of(r, "step_aggregate"));
    return rc ? rc : store_step_aggregate_from(r, l->part ? l->part->aggregate : 0, on_aggregate, l);
}

/* ---- of a part, only the names and payloads that it refers to ------------------------------------------------------------- */

static int wanted_order(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

static int want(struct loader *l, const uint32_t *column, size_t count)
{
    int64_t last = -1; /* neighbours often refer to the same */
    for (size_t i = 0; i < count; i++) {
        if (column[i] == AN_NONE || column[i] == last)
            continue;
        last = column[i];
        if (id_add(&l->wanted, last))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void want_sort(struct id_map *m)
{
    size_t n = 0;
    if (m->count)
        qsort(m->id, m->count, sizeof *m->id, wanted_order);
    for (size_t i = 0; i < m->count; i++)
        if (!n || m->id[i] != m->id[n - 1])
            m->id[n++] = m->id[i];
    m->count = n;
}

static int on_one_string(void *ctx, int64_t id, const char *text)
{
    int rc = on_string(ctx, id, text);
    return rc ? rc : 1;
}

static int on_one_detail(void *ctx, const struct store_detail *d)
{
    int rc = on_detail(ctx, d);
    return rc ? rc : 1;
}

/* A look for each id costs about as much as a hundred rows of a scan. */
static int load_wanted(store_reader *r, struct loader *l, bool strings)
{
    int64_t last;
    int rc = store_last_id(r, strings ? "string" : "detail", &last);
    want_sort(&l->wanted);
    if (rc)
        return rc;
    if ((int64_t)l->wanted.count > last / 100)
        return strings ? store_string_each(r, 0, on_string, l) : store_detail_each(r, 0, on_detail, l);
    for (size_t i = 0; i < l->wanted.count && rc >= 0 && !l->rc; i++)
        rc = strings ? store_string_each(r, l->wanted.id[i], on_one_string, l)
                     : store_detail_each(r, l->wanted.id[i], on_one_detail, l);
    return rc > 0 ? 0 : rc;
}

static int load_names(store_reader *r, struct loader *l)
{
    const struct an_slices *s = &l->t->slice;
    const struct an_aggregates *g = &l->t->aggregate;
    int rc;
    if (!l->part) {
        rc = store_detail_each(r, 0, on_detail, l);
        return rc ? rc : store_string_each(r, 0, on_string, l);
    }
    if ((rc = want(l, s->detail, s->count)) || (rc = want(l, g->detail, g->count)) || (rc = load_wanted(r, l, false)))
        return rc;
    l->wanted.count = 0;
    if ((rc = want(l, s->name, s->count)) || (rc = want(l, s->category, s->count)) || (rc = want(l, g->name, g->count)) ||
        (rc = want(l, g->category, g->count)))
        return rc;
    return load_wanted(r, l, true);
}

static int load_small(store_reader *r, struct loader *l)
{
    int rc = store_step_from(r, l->part ? l->part->step : INT64_MIN, on_step, l);
    rc = rc ? rc : store_track_each(r, 0, on_track, l);
    rc = rc ? rc : store_process_each(r, on_process, l);
    rc = rc ? rc : load_names(r, l);
    rc = rc ? rc : store_loss_each(r, on_loss, l);
    rc = rc ? rc : store_ceiling_each(r, on_ceiling, l);
    l->t->ended = (struct an_ended){NAN, NAN, NAN, NAN, NAN};
    rc = rc ? rc : store_metric_each(r, on_metric, l);
    return rc ? rc : store_run_each(r, on_key, l);
}

static void resolve(struct loader *l, uint32_t *slice_track, uint32_t *counter_track)
{
    struct an_trace *t = l->t;
    id_resolve(t->slice.name, t->slice.count, &l->strings);
    id_resolve(t->slice.category, t->slice.count, &l->strings);
    id_resolve(t->slice.detail, t->slice.count, &l->details);
    id_resolve(slice_track, t->slice.count, &l->tracks);
    id_resolve(counter_track, t->counter.count, &l->tracks);
    id_resolve(t->stack.frame, t->stack.count, &l->strings);
    struct an_aggregates *g = &t->aggregate;
    id_resolve(g->process, g->count, &l->processes);
    id_resolve(g->track, g->count, &l->tracks);
    id_resolve(g->name, g->count, &l->strings);
    id_resolve(g->category, g->count, &l->strings);
    id_resolve(g->detail, g->count, &l->details);
    for (size_t i = 0; i < t->step_count; i++)
        t->step[i].process = id_find(&l->processes, t->step[i].process);
    for (size_t i = 0; i < t->track_count; i++)
        t->track[i].process = id_find(&l->processes, t->track[i].process);
    if (t->key_count)
        qsort(t->key, t->key_count, sizeof *t->key, an_trace_key_order);
}

int an_trace_load_part(store_reader *r, const struct an_trace_part *part, struct an_trace **out, struct tacho_error *err)
{
    struct loader l = {.part = part && !part->whole ? part : NULL};
    uint32_t *slice_track = NULL, *counter_track = NULL;
    int rc = TACHO_ENOMEM;
    *out = NULL;
    if (!(l.t = calloc(1, sizeof *l.t)) || !(l.t->arena = an_arena_new()))
        goto out;
    l.t->t1 = -1;
    if ((rc = load_big(r, &l, &slice_track, &counter_track)) || (rc = load_small(r, &l)))
        goto out;
    resolve(&l, slice_track, counter_track);
    if ((rc = an_trace_order(l.t, slice_track)) || (rc = an_trace_order_counters(l.t, counter_track)) ||
        (rc = an_trace_name_roles(l.t)))
        goto out;
    rc = an_arena_failed(l.t->arena) ? TACHO_ENOMEM : 0;
out:
    free(slice_track);
    free(counter_track);
    free(l.track);
    free(l.strings.id);
    free(l.details.id);
    free(l.processes.id);
    free(l.tracks.id);
    free(l.wanted.id);
    if (!rc) {
        *out = l.t;
        return 0;
    }
    const struct tacho_error *e = store_reader_error(r);
    if (e && e->code && !l.rc)
        tacho_fail(err, rc, e->hint, "%s", e->what);
    else
        tacho_fail(err, rc, NULL, "reading the run: %s", tacho_error_text(rc));
    an_trace_free(l.t);
    return rc;
}

int an_trace_load(store_reader *r, struct an_trace **out, struct tacho_error *err)
{
    return an_trace_load_part(r, NULL, out, err);
}

void an_trace_free(struct an_trace *t)
{
    if (!t)
        return;
    void *all[] = {t->string,
                   t->detail,
                   t->process,
                   t->track,
                   t->slice.start,
                   t->slice.dur,
                   t->slice.name,
                   t->slice.category,
                   t->slice.detail,
                   t->slice.parent,
                   t->slice.correlation,
                   t->counter.time,
                   t->counter.value,
                   t->step,
                   t->loss,
                   t->ceiling,
                   t->key,
                   t->aggregate.process,
                   t->aggregate.track,
                   t->aggregate.name,
                   t->aggregate.step,
                   t->aggregate.detail,
                   t->aggregate.calls,
                   t->aggregate.total,
                   t->aggregate.self,
                   t->aggregate.category,
                   t->stack.frame,
                   t->stack.parent,
                   t->stack.samples,
                   t->name_role,
                   t->name_api};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    an_arena_free(t->arena);
    free(t);
}
