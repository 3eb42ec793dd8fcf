/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/tail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MOST  262144 /* points of all series together */
#define SERIES_LEAST 32     /* points of one, where there are many */

struct process {
    int64_t id, rank, pid;
    char *host;
    struct an_step_point *step;
    size_t count, room;
    int64_t seen, stride; /* updates that ended; how many of them a row holds */
    double ms[TUI_RECENT], tokens[TUI_RECENT];
};

struct track {
    int64_t id, process;
    bool counter;
    char *name, *unit, *device;
    double *time, *value; /* time: seconds from `start` */
    size_t count, room;
    int64_t stride, held; /* values a point holds; those that the last one holds */
};

struct key {
    char *key, *value;
};

struct tui_tail {
    struct process *process;
    size_t process_count, process_room, process_last;
    struct track *track;
    size_t track_count, track_room, track_last;
    struct key *key;
    size_t key_count, key_room;
    int64_t next_step, next_counter, next_track;
    int64_t start, newest, last_index, slices; /* newest: end of the newest step */
    int64_t seen;                              /* latest time of steps and counters */
    int64_t left;                              /* rows that this poll may still read */
    int rc;
};

struct tui_tail *tui_tail_new(void)
{
    struct tui_tail *t = calloc(1, sizeof *t);
    if (t) {
        t->start = t->newest = t->seen = STORE_ABSENT;
        t->last_index = -1;
    }
    return t;
}

static void keys_free(struct tui_tail *t)
{
    for (size_t i = 0; i < t->key_count; i++) {
        free(t->key[i].key);
        free(t->key[i].value);
    }
    t->key_count = 0;
}

void tui_tail_free(struct tui_tail *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->process_count; i++) {
        free(t->process[i].host);
        free(t->process[i].step);
    }
    for (size_t i = 0; i < t->track_count; i++) {
        struct track *k = &t->track[i];
        free(k->name);
        free(k->unit);
        free(k->device);
        free(k->time);
        free(k->value);
    }
    keys_free(t);
    free(t->process);
    free(t->track);
    free(t->key);
    free(t);
}

/* Room for one more element: 0 or TACHO_ENOMEM. */
static int room_for(void *array, size_t *room, size_t count, size_t size)
{
    void *old, *grown;
    if (count < *room)
        return 0;
    memcpy(&old, array, sizeof old);
    size_t more = *room ? *room * 2 : 16;
    if (!(grown = realloc(old, more * size)))
        return TACHO_ENOMEM;
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return 0;
}

static char *copy(const char *text)
{
    return strdup(text ? text : "");
}

static struct process *process_of(struct tui_tail *t, int64_t id)
{
    for (size_t i = 0; i < t->process_count; i++) {
        size_t at = (t->process_last + i) % t->process_count;
        if (t->process[at].id == id) {
            t->process_last = at;
            return &t->process[at];
        }
    }
    return NULL;
}

static struct track *track_of(struct tui_tail *t, int64_t id)
{
    for (size_t i = 0; i < t->track_count; i++) {
        size_t at = (t->track_last + i) % t->track_count;
        if (t->track[at].id == id) {
            t->track_last = at;
            return &t->track[at];
        }
    }
    return NULL;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------- */

/* Row b joins row a: means weighted by their steps. */
static void join(struct an_step_point *a, const struct an_step_point *b)
{
    double n = (double)a->steps, m = (double)b->steps, whole = n * a->ms + m * b->ms;
    a->tokens_per_s =
        whole > 0 ? (a->tokens_per_s * n * a->ms + b->tokens_per_s * m * b->ms) / whole : NAN;
    a->ms = whole / (n + m);
    a->worst_ms = a->worst_ms > b->worst_ms ? a->worst_ms : b->worst_ms;
    if (!a->detailed)
        memcpy(a->class_ms, b->class_ms, sizeof a->class_ms);
    a->detailed = a->detailed || b->detailed;
    a->steps += b->steps;
}

static void halve_steps(struct process *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->count; i += 2) {
        p->step[n] = p->step[i];
        if (i + 1 < p->count)
            join(&p->step[n], &p->step[i + 1]);
        n++;
    }
    p->count = n;
    p->stride *= 2;
}

static int add_step(struct tui_tail *t, struct process *p, const struct store_step *x)
{
    double ms = (double)(x->end - x->start) / 1e6,
           tokens = x->tokens == STORE_ABSENT ? NAN : (double)x->tokens;
    struct an_step_point row = {.rank = p->rank == STORE_ABSENT ? 0 : p->rank,
                                .index = x->index,
                                .steps = 1,
                                .start_s = (double)(x->start - t->start) / 1e9,
                                .ms = ms,
                                .worst_ms = ms,
                                .tokens_per_s = ms > 0 ? tokens / ms * 1e3 : NAN};
    struct an_step_point *last = p->count ? &p->step[p->count - 1] : NULL;
    p->ms[p->seen % TUI_RECENT] = ms;
    p->tokens[p->seen % TUI_RECENT] = tokens;
    p->seen++;
    if (last && last->steps < p->stride) {
        join(last, &row);
        return 0;
    }
    int rc = room_for(&p->step, &p->room, p->count, sizeof *p->step);
    if (rc)
        return rc;
    p->step[p->count++] = row;
    size_t all = 0;
    for (size_t i = 0; i < t->process_count; i++)
        all += t->process[i].count;
    if (all > AN_STEP_POINTS_MOST)
        for (size_t i = 0; i < t->process_count; i++)
            halve_steps(&t->process[i]);
    return 0;
}

static int on_step(void *ctx, const struct store_step *x)
{
    struct tui_tail *t = ctx;
    t->next_step = x->id + 1;
    struct process *p = process_of(t, x->process);
    if (t->start == STORE_ABSENT)
        t->start = x->start;
    if (p && x->end != STORE_ABSENT && x->end >= x->start) {
        if ((t->rc = add_step(t, p, x)))
            return t->rc;
        if (t->newest == STORE_ABSENT || x->end > t->newest) {
            t->newest = x->end;
            t->last_index = x->index;
        }
        t->seen = x->end > t->seen ? x->end : t->seen;
    }
    return --t->left <= 0;
}

/* ---- series ------------------------------------------------------------------------------------------------------------------- */

static size_t values_most(const struct tui_tail *t)
{
    size_t most = VALUES_MOST / (t->track_count ? t->track_count : 1);
    return most < SERIES_LEAST ? SERIES_LEAST : most > TUI_SERIES_MOST ? TUI_SERIES_MOST : most;
}

/* Mean of those that are known. */
static double mean2(double a, double n, double b, double m)
{
    return isnan(a) ? b : isnan(b) ? a : (a * n + b * m) / (n + m);
}

static void halve_values(struct track *k)
{
    size_t n = 0;
    for (size_t i = 0; i < k->count; i += 2, n++) {
        bool two = i + 1 < k->count;
        k->time[n] = two ? (k->time[i] + k->time[i + 1]) / 2 : k->time[i];
        k->value[n] = two ? mean2(k->value[i], 1, k->value[i + 1], 1) : k->value[i];
    }
    k->held = k->count % 2 ? k->held : k->stride + k->held;
    k->count = n;
    k->stride *= 2;
}

static int add_value(struct tui_tail *t, struct track *k, double time, double value)
{
    if (k->count && k->held < k->stride) {
        double n = (double)k->held;
        k->time[k->count - 1] = (k->time[k->count - 1] * n + time) / (n + 1);
        k->value[k->count - 1] = mean2(k->value[k->count - 1], n, value, 1);
        k->held++;
        return 0;
    }
    size_t room = k->room;
    if (room_for(&k->time, &room, k->count, sizeof *k->time))
        return TACHO_ENOMEM;
    room = k->room;
    if (room_for(&k->value, &room, k->count, sizeof *k->value))
        return TACHO_ENOMEM;
    k->room = room;
    k->time[k->count] = time;
    k->value[k->count++] = value;
    k->held = 1;
    if (k->count > values_most(t))
        halve_values(k);
    return 0;
}

static int on_counter(void *ctx, const struct store_counter *x)
{
    struct tui_tail *t = ctx;
    t->next_counter = x->id + 1;
    struct track *k = track_of(t, x->track);
    t->seen = x->time > t->seen ? x->time : t->seen;
    if (t->start == STORE_ABSENT)
        t->start = x->time;
    if (k && (t->rc = add_value(t, k, (double)(x->time - t->start) / 1e9, x->value)))
        return t->rc;
    return --t->left <= 0;
}

/* ---- small tables ------------------------------------------------------------------------------------------------------------- */

static int on_process(void *ctx, const struct store_process *x)
{
    struct tui_tail *t = ctx;
    if (process_of(t, x->id))
        return 0;
    if ((t->rc = room_for(&t->process, &t->process_room, t->process_count, sizeof *t->process)))
        return t->rc;
    struct process *p = &t->process[t->process_count];
    *p = (struct process){
        .id = x->id, .rank = x->rank, .pid = x->pid, .host = copy(x->host), .stride = 1};
    if (!p->host)
        return t->rc = TACHO_ENOMEM;
    t->process_count++;
    return 0;
}

static int on_track(void *ctx, const struct store_track *x)
{
    struct tui_tail *t = ctx;
    if ((t->rc = room_for(&t->track, &t->track_room, t->track_count, sizeof *t->track)))
        return t->rc;
    struct track *k = &t->track[t->track_count++];
    *k = (struct track){.id = x->id,
                        .process = x->process,
                        .counter = !strcmp(x->kind, "counter"),
                        .name = copy(x->name),
                        .unit = copy(x->unit),
                        .device = copy(x->device),
                        .stride = 1};
    t->next_track = x->id + 1;
    return k->name && k->unit && k->device ? 0 : (t->rc = TACHO_ENOMEM);
}

static int on_key(void *ctx, const char *key, const char *value)
{
    struct tui_tail *t = ctx;
    if ((t->rc = room_for(&t->key, &t->key_room, t->key_count, sizeof *t->key)))
        return t->rc;
    struct key *k = &t->key[t->key_count++];
    *k = (struct key){copy(key), copy(value)};
    return k->key && k->value ? 0 : (t->rc = TACHO_ENOMEM);
}

const char *tui_tail_key(const struct tui_tail *t, const char *key)
{
    for (size_t i = 0; i < t->key_count; i++)
        if (!strcmp(t->key[i].key, key))
            return t->key[i].value;
    return NULL;
}

int64_t tui_tail_newest(const struct tui_tail *t)
{
    return t->seen;
}

int64_t tui_tail_start(const struct tui_tail *t)
{
    return t->start;
}

int64_t tui_tail_slices(const struct tui_tail *t)
{
    return t->slices;
}

int tui_tail_poll(struct tui_tail *t, store_reader *r, int64_t rows)
{
    int rc;
    t->rc = 0;
    t->left = rows;
    keys_free(t);
    if ((rc = store_run_each(r, on_key, t)) || (rc = store_process_each(r, on_process, t)) ||
        (rc = store_track_each(r, t->next_track, on_track, t)) ||
        (rc = store_last_id(r, "slice", &t->slices)))
        return rc;
    const char *start = tui_tail_key(t, "start.monotonic_ns");
    if (t->start == STORE_ABSENT && start)
        t->start = strtoll(start, NULL, 10);
    rc = store_step_from(r, t->next_step, on_step, t);
    if (rc < 0 || t->left <= 0)
        return rc < 0 ? rc : 1;
    rc = store_counter_each(r, t->next_counter, on_counter, t);
    return rc < 0 ? rc : t->left <= 0;
}

/* ---- what an analysis saw ----------------------------------------------------------------------------------------------------- */

void tui_tail_learn(struct tui_tail *t, const struct an_result *r)
{
    for (size_t i = 0; i < r->step_point_count; i++) {
        const struct an_step_point *x = &r->step_points[i];
        for (size_t k = 0; x->detailed && k < t->process_count; k++) {
            struct process *p = &t->process[k];
            if (!p->count || (p->rank == STORE_ABSENT ? 0 : p->rank) != x->rank)
                continue;
            size_t low = 0, high = p->count; /* the last row that starts no later */
            while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (p->step[middle].index <= x->index)
                    low = middle + 1;
                else
                    high = middle;
            }
            struct an_step_point *row = low ? &p->step[low - 1] : NULL;
            if (!row || x->index >= row->index + row->steps)
                continue;
            memcpy(row->class_ms, x->class_ms, sizeof row->class_ms);
            row->detailed = true;
            row->excluded = NULL;
        }
    }
}

/* ---- a model ------------------------------------------------------------------------------------------------------------------ */

static int number_order(const void *x, const void *y)
{
    const double *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

static void recent(const struct tui_tail *t, struct tui_model *m)
{
    double all[TUI_RECENT], rate = 0;
    size_t n = 0;
    m->recent_ms = m->recent_tokens_per_s = NAN;
    for (size_t i = 0; i < t->process_count; i++) {
        const struct process *p = &t->process[i];
        int64_t have = p->seen < TUI_RECENT ? p->seen : TUI_RECENT;
        double ms = 0, tokens = 0;
        for (int64_t k = 0; k < have; k++) {
            ms += p->ms[k];
            tokens += p->tokens[k];
            if (!n)
                all[k] = p->ms[k];
        }
        n = n ? n : (size_t)have;
        rate += ms > 0 && tokens > 0 ? tokens / ms * 1e3 : 0;
    }
    if (!n)
        return;
    qsort(all, n, sizeof *all, number_order);
    m->recent_ms = n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
    m->recent_tokens_per_s = rate > 0 ? rate : NAN;
}

static int step_order(const void *x, const void *y)
{
    const struct an_step_point *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->start_s > b->start_s) - (a->start_s < b->start_s);
}

static bool copy_steps(const struct tui_tail *t, struct tui_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < t->process_count; i++)
        n += t->process[i].count;
    struct an_step_point *row = malloc((n ? n : 1) * sizeof *row);
    if (!row)
        return false;
    m->memory[0] = row;
    m->step = row;
    for (size_t i = 0; i < t->process_count; i++) {
        const struct process *p = &t->process[i];
        if (p->count)
            memcpy(row + m->step_count, p->step, p->count * sizeof *row);
        m->step_count += p->count;
        m->steps_seen = p->seen > m->steps_seen ? p->seen : m->steps_seen;
    }
    if (t->process_count > 1)
        qsort(row, n, sizeof *row, step_order);
    return true;
}

static const char *put(char **at, const char *text)
{
    char *from = *at;
    size_t n = strlen(text) + 1;
    memcpy(from, text, n);
    *at += n;
    return from;
}

static int series_order(const void *x, const void *y)
{
    const struct tui_series *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    if (order)
        return order;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->device, b->device);
}

static bool copy_series(struct tui_tail *t, struct tui_model *m)
{
    size_t n = 0, values = 0, bytes = 1;
    for (size_t i = 0; i < t->track_count; i++) {
        const struct track *k = &t->track[i];
        const struct process *p = process_of(t, k->process);
        if (!k->counter || !k->count)
            continue;
        n++;
        values += k->count;
        bytes +=
            strlen(k->name) + strlen(k->unit) + strlen(k->device) + (p ? strlen(p->host) : 0) + 4;
    }
    struct tui_series *row = calloc(n ? n : 1, sizeof *row);
    double *value = malloc((values ? values : 1) * 2 * sizeof *value);
    char *text = malloc(bytes);
    m->memory[1] = row;
    m->memory[2] = value;
    m->memory[3] = text;
    if (!row || !value || !text)
        return false;
    for (size_t i = 0; i < t->track_count; i++) {
        const struct track *k = &t->track[i];
        const struct process *p = process_of(t, k->process);
        if (!k->counter || !k->count)
            continue;
        if (!strcmp(k->name, "steps_planned")) { /* what the run will make: no curve */
            double planned = k->value[k->count - 1];
            m->steps_expected = planned >= 1 && planned < 1e15 ? (int64_t)planned : 0;
            continue;
        }
        struct tui_series *s = &row[m->series_count++];
        *s = (struct tui_series){.name = put(&text, k->name),
                                 .unit = put(&text, k->unit),
                                 .device = put(&text, k->device),
                                 .host = put(&text, p ? p->host : ""),
                                 .rank = p ? p->rank : STORE_ABSENT,
                                 .process = p ? p->pid : STORE_ABSENT,
                                 .time_s = memcpy(value, k->time, k->count * sizeof *value),
                                 .value =
                                     memcpy(value + k->count, k->value, k->count * sizeof *value),
                                 .count = k->count,
                                 .last = NAN};
        value += 2 * k->count;
        for (size_t j = k->count; j-- > 0 && isnan(s->last);)
            s->last = k->value[j];
    }
    m->series = row;
    qsort(row, m->series_count, sizeof *row, series_order);
    return true;
}

struct tui_model *tui_tail_model(const struct tui_tail *t)
{
    struct tui_model *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->last_index = t->last_index;
    m->slices = t->slices;
    m->now_s = t->seen == STORE_ABSENT || t->start == STORE_ABSENT
                   ? 0
                   : (double)(t->seen - t->start) / 1e9;
    recent(t, m);
    struct tui_tail *search =
        (struct tui_tail *)(uintptr_t)t; /* remembers where it found the last process */
    if (!copy_steps(t, m) || !copy_series(search, m)) {
        tui_model_free(m);
        return NULL;
    }
    return m;
}
