/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/speak/timers.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libtrain/base/memory.h"

#define DEPTH 16 /* ranges open at a time on one thread; the engine's own nesting is 5 deep */

struct open_range {
    int id;
    enum lt_class class;
    int64_t start, inside; /* ns; time of the ranges inside */
};

struct total {
    uint64_t count;
    int64_t ns;
};

struct lane {
    struct lane *next;
    char name[16];
    long tid;
    uint64_t ranges, counters;
    int64_t range_ns; /* sum of the durations, nested ones included */
    int depth;
    struct open_range stack[DEPTH];
    struct total totals[]; /* by id */
};

struct lt_timers {
    uint64_t serial; /* tells this object from an earlier one at the same address */
    pthread_mutex_t lock;
    struct lane *lanes, **lanes_end;
    const char *const *names;
    int name_count;
    struct lt_timers_step *steps;
    size_t step_count, step_cap;
    int in_step; /* only the thread of the steps reads or writes these */
    int step_lost;
};

static atomic_uint_fast64_t serials;
static _Thread_local struct {
    uint64_t serial;
    struct lane *lane;
} mine;

int64_t lt_timers_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

int lt_timers_create(struct lt_timers **out, const char *const *names, int count)
{
    struct lt_timers *t = calloc(1, sizeof *t);
    if (!t)
        return TACHO_ENOMEM;
    t->serial = atomic_fetch_add(&serials, 1) + 1;
    pthread_mutex_init(&t->lock, NULL);
    t->lanes_end = &t->lanes;
    t->names = names;
    t->name_count = count;
    *out = t;
    return 0;
}

void lt_timers_destroy(struct lt_timers *timers)
{
    if (!timers)
        return;
    for (struct lane *l = timers->lanes, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    pthread_mutex_destroy(&timers->lock);
    free(timers->steps);
    free(timers);
}

static void append(struct lt_timers *t, struct lane *l)
{
    pthread_mutex_lock(&t->lock);
    *t->lanes_end = l;
    t->lanes_end = &l->next;
    pthread_mutex_unlock(&t->lock);
}

/* The lane of the calling thread, made at its first use; NULL when memory is out. */
static struct lane *lane_of(struct lt_timers *t)
{
    if (mine.serial == t->serial)
        return mine.lane;
    struct lane *l = calloc(1, sizeof *l + (size_t)t->name_count * sizeof *l->totals);
    if (!l)
        return NULL;
    l->tid = syscall(SYS_gettid);
    append(t, l);
    mine.serial = t->serial;
    mine.lane = l;
    return l;
}

void lt_timers_thread(struct lt_timers *timers, const char *name)
{
    struct lane *l = lane_of(timers);
    if (l)
        snprintf(l->name, sizeof l->name, "%s", name);
}

/* Opens the record of a step. Without memory the step is not recorded; the file says so. */
static void step_open(struct lt_timers *t, const struct tacho_step *step)
{
    if (t->step_count == t->step_cap) {
        size_t cap = t->step_cap ? 2 * t->step_cap : 1024;
        struct lt_timers_step *more = realloc(t->steps, cap * sizeof *more);
        if (!more) {
            t->step_lost++;
            return;
        }
        t->steps = more;
        t->step_cap = cap;
    }
    t->steps[t->step_count++] = (struct lt_timers_step){.index = step->index};
    t->in_step = 1;
}

static void step_add_work(struct lt_timers_step *s, const struct tacho_work *w)
{
    s->ops++;
    s->flops += w->flops;
    s->model_flops += w->model_flops;
    s->palm_flops += w->palm_flops;
    s->matrix_flops += w->kind == TACHO_WORK_OTHER ? 0 : w->flops;
    s->bytes_read += w->bytes_read;
    s->bytes_written += w->bytes_written;
}

/* Another thread of the parent may have held the lock. */
void lt_timers_forked(struct lt_timers *timers)
{
    pthread_mutex_init(&timers->lock, NULL);
    timers->in_step = 0;
    mine.serial = 0;
}

size_t lt_timers_lane_bytes(const struct lt_timers *timers)
{
    return sizeof(struct lane) + (size_t)timers->name_count * sizeof(struct total);
}

void lt_timers_save(struct lt_timers *timers, void *to)
{
    const struct lane *l = lane_of(timers);
    if (l)
        memcpy(to, l, lt_timers_lane_bytes(timers));
}

void lt_timers_add(struct lt_timers *timers, const void *from)
{
    struct lane *l = malloc(lt_timers_lane_bytes(timers));
    if (!l)
        return;
    memcpy(l, from, lt_timers_lane_bytes(timers));
    l->next = NULL;
    append(timers, l);
}

void lt_timers_begin(struct lt_timers *timers, int id, enum lt_class class,
                     const struct tacho_work *work, const struct tacho_step *step)
{
    struct lane *l = lane_of(timers);
    if (!l)
        return;
    if (step)
        step_open(timers, step);
    if (l == timers->lanes && timers->in_step && work)
        step_add_work(&timers->steps[timers->step_count - 1], work);
    if (l->depth < DEPTH)
        l->stack[l->depth] =
            (struct open_range){.id = id, .class = class, .start = lt_timers_now()};
    l->depth++;
}

void lt_timers_end(struct lt_timers *timers, int64_t end)
{
    struct lane *l = lane_of(timers);
    if (!l || l->depth == 0 || --l->depth >= DEPTH)
        return;
    struct open_range *r = &l->stack[l->depth];
    int64_t ns = end - r->start;
    l->ranges++;
    l->range_ns += ns;
    l->totals[r->id].count++;
    l->totals[r->id].ns += ns;
    if (l->depth > 0)
        l->stack[l->depth - 1].inside += ns;
    if (l != timers->lanes || !timers->in_step)
        return;
    struct lt_timers_step *s = &timers->steps[timers->step_count - 1];
    s->class_ns[r->class] += ns - r->inside;
    if (r->class == LT_CLASS_UNATTRIBUTED) {
        s->wall_ns = ns;
        timers->in_step = 0;
    }
}

void lt_timers_count(struct lt_timers *timers)
{
    struct lane *l = lane_of(timers);
    if (l)
        l->counters++;
}

const struct lt_timers_step *lt_timers_steps(const struct lt_timers *timers, size_t *count)
{
    *count = timers->step_count;
    return timers->steps;
}

static const char *const class_names[LT_CLASS_COUNT] = {
#define ROW(id, name) [LT_CLASS_##id] = (name),
    LT_CLASS_MAP(ROW)
#undef ROW
};

static void write_step(FILE *f, const struct lt_timers_step *s, const char *separator)
{
    fprintf(f, "%s{\"index\":%" PRIu64 ",\"wall_ns\":%" PRId64, separator, s->index, s->wall_ns);
    for (int c = 0; c < LT_CLASS_COUNT; c++)
        fprintf(f, ",\"%s_ns\":%" PRId64, class_names[c], s->class_ns[c]);
    fprintf(f,
            ",\"ops\":%" PRIu64 ",\"flops\":%" PRIu64 ",\"model_flops\":%" PRIu64
            ",\"palm_flops\":%" PRIu64,
            s->ops, s->flops, s->model_flops, s->palm_flops);
    fprintf(f,
            ",\"matrix_flops\":%" PRIu64 ",\"bytes_read\":%" PRIu64 ",\"bytes_written\":%" PRIu64
            "}",
            s->matrix_flops, s->bytes_read, s->bytes_written);
}

static void write_lane(FILE *f, const struct lt_timers *t, const struct lane *l)
{
    const char *separator = "\n";
    fprintf(f,
            "%s{\"name\":\"%s\",\"tid\":%ld,\"ranges\":%" PRIu64 ",\"range_ns\":%" PRId64
            ",\"counters\":%" PRIu64 ",\"names\":[",
            l == t->lanes ? "\n" : ",\n", l->name, l->tid, l->ranges, l->range_ns, l->counters);
    for (int i = 0; i < t->name_count; i++) {
        if (l->totals[i].count == 0)
            continue;
        fprintf(f, "%s  {\"name\":\"%s\",\"count\":%" PRIu64 ",\"ns\":%" PRId64 "}", separator,
                t->names[i], l->totals[i].count, l->totals[i].ns);
        separator = ",\n";
    }
    fprintf(f, "]}");
}

/* The highest of each tag and of the total: at the end of a run most of it is given back. */
static void write_memory(FILE *f)
{
    struct lt_memory m;
    lt_memory_read(&m);
    fprintf(f, "\"memory\":{");
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        fprintf(f, "\"%s\":%" PRId64 ",", lt_memory_name((enum lt_memory_tag)i), m.tag_peak[i]);
    fprintf(f, "\"peak\":%" PRId64 "},\n", m.total_peak);
}

int lt_timers_write(const struct lt_timers *timers, const char *path, struct tacho_error *err)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return tacho_fail(err, TACHO_EIO, "give --timers a file in a folder you may write to",
                          "%s: %s", path, strerror(errno));
    fprintf(f, "{\"schema\":\"libtrain-timers/1\",\"pid\":%ld,\"steps_lost\":%d,\n\"steps\":[",
            (long)getpid(), timers->step_lost);
    for (size_t i = 0; i < timers->step_count; i++)
        write_step(f, &timers->steps[i], i ? ",\n" : "\n");
    fprintf(f, "],\n");
    write_memory(f);
    fprintf(f, "\"threads\":[");
    for (const struct lane *l = timers->lanes; l; l = l->next)
        write_lane(f, timers, l);
    fprintf(f, "]}\n");
    int failed = ferror(f);
    if (fclose(f) || failed)
        return tacho_fail(err, TACHO_EIO, "make room on the disk, or give another place", "%s: %s",
                          path, strerror(errno));
    return 0;
}
