/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's own timers, independent of any profiler, so that tests can compare the two. Each
 * thread has a lane with a stack of open ranges. When a range ends, its self time goes to its class
 * in the record of the step, and its duration to the totals of its name. Lanes are written by their
 * own thread without a lock; the lock guards only the list of lanes.
 */
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

#include "libtrain/base/fail.h"
#include "libtrain/base/memory.h"
#include "tacho_nvtx.h"

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
    uint64_t serial; /* differs from that of an earlier object at the same address */
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
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

int lt_timers_create(struct lt_timers **out, const char *const *names, int count)
{
    struct lt_timers *timers = calloc(1, sizeof *timers);
    if (!timers)
        return TACHO_ENOMEM;
    timers->serial = atomic_fetch_add(&serials, 1) + 1;
    pthread_mutex_init(&timers->lock, NULL);
    timers->lanes_end = &timers->lanes;
    timers->names = names;
    timers->name_count = count;
    *out = timers;
    return 0;
}

void lt_timers_destroy(struct lt_timers *timers)
{
    if (!timers)
        return;
    for (struct lane *lane = timers->lanes, *next; lane; lane = next) {
        next = lane->next;
        free(lane);
    }
    pthread_mutex_destroy(&timers->lock);
    free(timers->steps);
    free(timers);
}

static void append(struct lt_timers *timers, struct lane *lane)
{
    pthread_mutex_lock(&timers->lock);
    *timers->lanes_end = lane;
    timers->lanes_end = &lane->next;
    pthread_mutex_unlock(&timers->lock);
}

/* The lane of the calling thread, made at its first use; NULL when memory is out. */
static struct lane *lane_of(struct lt_timers *timers)
{
    if (mine.serial == timers->serial)
        return mine.lane;
    struct lane *lane = calloc(1, sizeof *lane + (size_t)timers->name_count * sizeof *lane->totals);
    if (!lane)
        return NULL;
    lane->tid = syscall(SYS_gettid);
    append(timers, lane);
    mine.serial = timers->serial;
    mine.lane = lane;
    return lane;
}

void lt_timers_thread(struct lt_timers *timers, const char *name)
{
    struct lane *lane = lane_of(timers);
    if (lane)
        snprintf(lane->name, sizeof lane->name, "%s", name);
}

static int grow_steps(struct lt_timers *timers)
{
    size_t cap = timers->step_cap ? 2 * timers->step_cap : 1024;
    struct lt_timers_step *more = realloc(timers->steps, cap * sizeof *more);
    if (!more)
        return TACHO_ENOMEM;
    timers->steps = more;
    timers->step_cap = cap;
    return 0;
}

/* Opens the record of a step. Without memory the step is not recorded; the file says so. */
static void step_open(struct lt_timers *timers, const struct tacho_step *step)
{
    if (timers->step_count == timers->step_cap && grow_steps(timers)) {
        timers->step_lost++;
        return;
    }
    timers->steps[timers->step_count++] = (struct lt_timers_step){.index = step->index};
    timers->in_step = 1;
}

static void step_add_work(struct lt_timers_step *step, const struct tacho_work *work)
{
    step->ops++;
    step->flops += work->flops;
    step->model_flops += work->model_flops;
    step->palm_flops += work->palm_flops;
    step->matrix_flops += work->kind == TACHO_WORK_OTHER ? 0 : work->flops;
    step->bytes_read += work->bytes_read;
    step->bytes_written += work->bytes_written;
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

void lt_timers_save(struct lt_timers *timers, void *target)
{
    const struct lane *lane = lane_of(timers);
    if (lane)
        memcpy(target, lane, lt_timers_lane_bytes(timers));
}

void lt_timers_add(struct lt_timers *timers, const void *from)
{
    struct lane *lane = malloc(lt_timers_lane_bytes(timers));
    if (!lane)
        return;
    memcpy(lane, from, lt_timers_lane_bytes(timers));
    lane->next = NULL;
    append(timers, lane);
}

void lt_timers_begin(struct lt_timers *timers, int id, enum lt_class class,
                     const struct tacho_work *work, const struct tacho_step *step)
{
    struct lane *lane = lane_of(timers);
    if (!lane)
        return;
    if (step)
        step_open(timers, step);
    if (lane == timers->lanes && timers->in_step && work)
        step_add_work(&timers->steps[timers->step_count - 1], work);
    if (lane->depth < DEPTH)
        lane->stack[lane->depth] =
            (struct open_range){.id = id, .class = class, .start = lt_timers_now()};
    lane->depth++;
}

void lt_timers_end(struct lt_timers *timers, int64_t end)
{
    struct lane *lane = lane_of(timers);
    if (!lane || lane->depth == 0 || --lane->depth >= DEPTH)
        return;
    struct open_range *open_range = &lane->stack[lane->depth];
    int64_t ns = end - open_range->start;
    lane->ranges++;
    lane->range_ns += ns;
    lane->totals[open_range->id].count++;
    lane->totals[open_range->id].ns += ns;
    if (lane->depth > 0)
        lane->stack[lane->depth - 1].inside += ns;
    if (lane != timers->lanes || !timers->in_step)
        return;
    struct lt_timers_step *step = &timers->steps[timers->step_count - 1];
    step->class_ns[open_range->class] += ns - open_range->inside;
    if (open_range->class == LT_CLASS_UNATTRIBUTED) {
        step->wall_ns = ns;
        timers->in_step = 0;
    }
}

void lt_timers_count(struct lt_timers *timers)
{
    struct lane *lane = lane_of(timers);
    if (lane)
        lane->counters++;
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

static void write_step(FILE *file, const struct lt_timers_step *step, const char *separator)
{
    fprintf(file, "%s{\"index\":%" PRIu64 ",\"wall_ns\":%" PRId64, separator, step->index,
            step->wall_ns);
    for (int i = 0; i < LT_CLASS_COUNT; i++)
        fprintf(file, ",\"%s_ns\":%" PRId64, class_names[i], step->class_ns[i]);
    fprintf(file,
            ",\"ops\":%" PRIu64 ",\"flops\":%" PRIu64 ",\"model_flops\":%" PRIu64
            ",\"palm_flops\":%" PRIu64,
            step->ops, step->flops, step->model_flops, step->palm_flops);
    fprintf(file,
            ",\"matrix_flops\":%" PRIu64 ",\"bytes_read\":%" PRIu64 ",\"bytes_written\":%" PRIu64
            "}",
            step->matrix_flops, step->bytes_read, step->bytes_written);
}

/* A thread as JSON: its totals, and those of each name that it used. */
static void write_lane(FILE *file, const struct lt_timers *timers, const struct lane *lane)
{
    const char *separator = "\n";
    fprintf(file,
            "%s{\"name\":\"%s\",\"tid\":%ld,\"ranges\":%" PRIu64 ",\"range_ns\":%" PRId64
            ",\"counters\":%" PRIu64 ",\"names\":[",
            lane == timers->lanes ? "\n" : ",\n", lane->name, lane->tid, lane->ranges,
            lane->range_ns, lane->counters);
    for (int i = 0; i < timers->name_count; i++) {
        if (lane->totals[i].count == 0)
            continue;
        fprintf(file, "%s  {\"name\":\"%s\",\"count\":%" PRIu64 ",\"ns\":%" PRId64 "}", separator,
                timers->names[i], lane->totals[i].count, lane->totals[i].ns);
        separator = ",\n";
    }
    fprintf(file, "]}");
}

/* The highest of each tag and of the total: at the end of a run most of it is given back. */
static void write_memory(FILE *file)
{
    struct lt_memory memory;
    lt_memory_read(&memory);
    fprintf(file, "\"memory\":{");
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        fprintf(file, "\"%s\":%" PRId64 ",", lt_memory_name((enum lt_memory_tag)i),
                memory.tag_peak[i]);
    fprintf(file, "\"peak\":%" PRId64 "},\n", memory.total_peak);
}

int lt_timers_write(const struct lt_timers *timers, const char *path, struct tacho_error *err)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return lt_fail_file(err, "give --timers a file in a folder you may write to", path);
    fprintf(file, "{\"schema\":\"libtrain-timers/1\",\"pid\":%ld,\"steps_lost\":%d,\n\"steps\":[",
            (long)getpid(), timers->step_lost);
    for (size_t i = 0; i < timers->step_count; i++)
        write_step(file, &timers->steps[i], i ? ",\n" : "\n");
    fprintf(file, "],\n");
    write_memory(file);
    fprintf(file, "\"threads\":[");
    for (const struct lane *lane = timers->lanes; lane; lane = lane->next)
        write_lane(file, timers, lane);
    fprintf(file, "]}\n");
    int failed = ferror(file);
    if (fclose(file) || failed)
        return lt_fail_file(err, "make room on the disk, or give another place", path);
    return 0;
}
