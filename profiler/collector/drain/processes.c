/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of a run and their pools: which row a pool belongs to, when a process has ended, and
 * the life of the objects for pools and their threads.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/drain/gpu_private.h"
#include "profiler/collector/os/proc.h"

#define EARLY_NS 60000000000 /* a record may be this much older than its pool */

/* ---- processes ----------------------------------------------------------------------------------------------------------- */

void col_process_row(const struct col_drain *drain, const struct col_process *process,
                     struct store_process *row)
{
    *row = (struct store_process){.id = process->id,
                                  .rank = process->rank,
                                  .pid = process->pid,
                                  .parent_pid = process->parent_pid,
                                  .start = process->start,
                                  .end = process->end,
                                  .exit_status = process->exit_status};
    if (drain->host[0])
        row->host = drain->host;
    if (process->program[0])
        row->program = process->program;
    if (process->ended[0])
        row->ended = process->ended;
}

int col_process_append(struct col_drain *drain, const struct col_process *from,
                       struct col_process **out)
{
    struct col_process **list = realloc(drain->process, (drain->process_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    drain->process = list;
    if (!(*out = malloc(sizeof **out)))
        return TACHO_ENOMEM;
    **out = *from;
    drain->process[drain->process_count++] = *out;
    return 0;
}

/* Adds a process to the list and to the table `process`. */
static int process_add(struct col_drain *drain, const struct col_process *from,
                       struct col_process **out)
{
    struct store_process row;
    int rc = col_process_append(drain, from, out);
    if (rc)
        return rc;
    col_process_row(drain, *out, &row);
    rc = col_drain_begin(drain);
    if (rc == 0)
        rc = store_process_add(drain->db, &row);
    (*out)->id = row.id;
    (*out)->dirty = true;
    return rc;
}

int col_drain_process(struct col_drain *drain, int32_t pid, int64_t start, const char *program,
                      struct col_process **out)
{
    struct col_proc_stat stat;
    struct col_process process = {.rank = STORE_ABSENT,
                                  .parent_pid = STORE_ABSENT,
                                  .start = start,
                                  .end = STORE_ABSENT,
                                  .exit_status = STORE_ABSENT,
                                  .pid = pid};
    if (col_proc_read_stat(pid, &stat) == 0) {
        process.start_ticks = stat.start_ticks;
        process.parent_pid = stat.parent;
    }
    if (program)
        snprintf(process.program, sizeof process.program, "%s", program);
    return process_add(drain, &process, out);
}

struct col_process *col_process_of(const struct col_drain *drain, int32_t pid)
{
    for (uint32_t i = drain->process_count; i-- > 0;)
        if (drain->process[i]->pid == pid)
            return drain->process[i];
    return NULL;
}

/* An earlier time of the end is kept: the drain may have noticed it before the status was read. */
void col_process_ended(struct col_process *process, int64_t end, int64_t exit_status,
                       const char *ended)
{
    if (process->end == STORE_ABSENT)
        process->end = end;
    process->exit_status = exit_status;
    snprintf(process->ended, sizeof process->ended, "%s", ended);
    process->gone = process->dirty = true;
}

/* Copies a text field of a pool's header, which need not be terminated. */
static void read_header_text(char *text, size_t room, const char *field, size_t size)
{
    snprintf(text, room, "%.*s", (int)size, field);
}

/* The latest row of a process: of the program that it runs now, or ran last. */
static struct col_process *latest_of(const struct col_drain *drain, int32_t pid,
                                     uint64_t start_ticks)
{
    for (uint32_t i = drain->process_count; i-- > 0;) {
        struct col_process *process = drain->process[i];
        if (process->pid == pid && (!process->start_ticks || process->start_ticks == start_ticks))
            return process;
    }
    return NULL;
}

/* More than any pid (PID_MAX_LIMIT of Linux) is damage. */
static bool is_pid(uint32_t number)
{
    return number <= 1u << 22;
}

/* Finds the row that a new pool belongs to: that of the direct child, noted when it was started, or
 * a new one. A second pool of a process means that it replaced its program (exec): the row of the
 * old program ends, and what is known about the end of the process moves to the new row. */
static int pool_process(struct col_drain *drain, struct col_pool *pool)
{
    const struct wire_pool *head = &pool->map.head;
    int64_t created = pool->earliest ? pool->earliest + EARLY_NS : col_clock_now();
    char rank[sizeof head->rank + 1];
    read_header_text(rank, sizeof rank, head->rank, sizeof head->rank);
    int32_t pid = (int32_t)pool->map.layout.pid;
    uint64_t start_ticks = pool->map.layout.start_ticks;
    struct col_process *before = latest_of(drain, pid, start_ticks);
    if (before && !before->has_pool) {
        pool->process = before;
    } else {
        struct col_process new = {.rank = STORE_ABSENT,
                                  .parent_pid =
                                      is_pid(head->parent_pid) ? head->parent_pid : STORE_ABSENT,
                                  .start = created,
                                  .end = STORE_ABSENT,
                                  .exit_status = STORE_ABSENT,
                                  .pid = pid};
        if (before) {
            new.end = before->end;
            new.exit_status = before->exit_status;
            new.gone = before->gone;
            new.awaited = before->awaited;
            new.rank = before->rank;
            before->awaited = false;
            memcpy(new.ended, before->ended, sizeof new.ended);
            before->end = STORE_ABSENT;
            col_process_ended(before, created, STORE_ABSENT, "exec");
        }
        int rc = process_add(drain, &new, &pool->process);
        if (rc)
            return rc;
    }
    struct col_process *process = pool->process;
    char *end;
    long long number = strtoll(rank, &end, 10);
    if (rank[0] && !*end && number >= 0 && number <= INT32_MAX)
        process->rank = number;
    process->start_ticks = start_ticks;
    read_header_text(process->program, sizeof process->program, head->program,
                     sizeof head->program);
    process->has_pool = process->dirty = true;
    return 0;
}

/* ---- pools ----------------------------------------------------------------------------------------------------------------- */

static struct col_pool *find_pool(const struct col_drain *drain, const char *name)
{
    for (uint32_t i = 0; i < drain->pool_count; i++)
        if (strcmp(drain->pool[i]->name, name) == 0)
            return drain->pool[i];
    return NULL;
}

/* A process that has mapped the pool made it. If it started at another time than the header says,
 * the header was overwritten, and the process has not ended. */
static void check_start(struct col_pool *pool)
{
    struct col_layout *layout = &pool->map.layout;
    struct col_proc_stat process;
    struct stat file;
    if (col_proc_read_stat((int32_t)layout->pid, &process) == 0 &&
        process.start_ticks != layout->start_ticks && fstat(pool->map.file.fd, &file) == 0 &&
        col_proc_maps((int32_t)layout->pid, pool->name, file.st_ino))
        layout->start_ticks = process.start_ticks;
}

int col_drain_pool(struct col_drain *drain, const char *name, const struct col_layout *known,
                   struct col_pool **out)
{
    struct col_pool **list = realloc(drain->pool, (drain->pool_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    drain->pool = list;
    struct col_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return TACHO_ENOMEM;
    snprintf(pool->name, sizeof pool->name, "%s", name);
    int rc = col_map_open(drain->folder, name, known, &pool->map, NULL);
    if (rc == 0) {
        pool->segment = calloc(pool->map.layout.segment_cap, sizeof *pool->segment);
        pool->touched = calloc(pool->map.layout.segment_cap, sizeof *pool->touched);
        if (!pool->segment || !pool->touched)
            rc = TACHO_EBUSY;
    }
    if (rc) {
        col_pool_free(pool);
        return rc;
    }
    pool->dirty = true;
    if (!known)
        check_start(pool);
    int64_t created = col_pool_time(drain, pool, pool->map.layout.created);
    if (created > 0 && created <= col_clock_now())
        pool->earliest = created - EARLY_NS;
    pool->number = ++drain->pools_opened;
    drain->pool[drain->pool_count++] = pool;
    *out = pool;
    return 0;
}

void col_thread_free(struct col_thread *thread)
{
    if (thread)
        free(thread->stack);
    free(thread);
}

void col_pool_free(struct col_pool *pool)
{
    for (uint32_t i = 0; i < pool->thread_cap; i++)
        col_thread_free(pool->thread[i]);
    for (uint32_t i = 0; i < pool->schema_count; i++)
        free(pool->schema[i]);
    free(pool->thread);
    free(pool->schema);
    free(pool->schema_arena);
    free(pool->segment);
    free(pool->touched);
    free(pool->string);
    free(pool->counter);
    free(pool->range);
    col_steps_free(&pool->steps);
    col_gpu_free(pool->gpu);
    col_map_close(&pool->map);
    free(pool);
}

/* Threads have small ordinals that the agent gives out, so they are found by index. */
int col_add_thread(struct col_pool *pool, uint32_t ordinal, struct col_thread **out)
{
    if (ordinal >= pool->thread_cap) {
        uint32_t cap = pool->thread_cap ? pool->thread_cap : 16;
        while (cap <= ordinal)
            cap *= 2;
        struct col_thread **list = realloc(pool->thread, cap * sizeof *list);
        if (!list)
            return TACHO_ENOMEM;
        memset(list + pool->thread_cap, 0, (cap - pool->thread_cap) * sizeof *list);
        pool->thread = list;
        pool->thread_cap = cap;
    }
    struct col_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return TACHO_ENOMEM;
    thread->ordinal = ordinal;
    thread->segment = -1;
    pool->thread[ordinal] = thread;
    *out = thread;
    return 0;
}

static int order_names(const void *left, const void *right)
{
    return strverscmp(*(char *const *)left, *(char *const *)right);
}

struct new_names {
    struct col_drain *drain;
    char **name;
    size_t count;
    int rc;
};

static bool add_new_name(void *ctx, int folder, const char *name)
{
    struct new_names *names = ctx;
    if (strncmp(name, WIRE_PREFIX, strlen(WIRE_PREFIX)) != 0 || strlen(name) >= COL_POOL_NAME ||
        find_pool(names->drain, name) || !col_pool_is_name(name) ||
        !store_file_is_own(folder, name))
        return true;
    char **list = realloc(names->name, (names->count + 1) * sizeof *list);
    if (list)
        names->name = list;
    if (!list || !(list[names->count] = strdup(name)))
        names->rc = TACHO_ENOMEM;
    else
        names->count++;
    return names->rc == 0;
}

/* The names of the pools that have appeared in the folder, to be freed with their list. */
static int new_names(struct col_drain *drain, char ***list, size_t *count)
{
    struct new_names names = {.drain = drain};
    if (!store_folder_each(drain->folder, add_new_name, &names) && names.rc == 0)
        names.rc = TACHO_EBUSY; /* out of descriptors or memory */
    *list = names.name;
    *count = names.count;
    if (*count)
        qsort(*list, *count, sizeof **list, order_names);
    return names.rc;
}

/* Opens a pool that has appeared. One that cannot be opened for the moment is tried again in the
 * next round. One that cannot be read at all is removed, or it would be reported in each round. */
static int open_new(struct col_drain *drain, const char *name)
{
    struct col_pool *pool = NULL;
    int rc = col_drain_pool(drain, name, NULL, &pool);
    if (rc == 0)
        return pool_process(drain, pool);
    if (rc == TACHO_EBUSY) {
        drain->waiting++;
        return 0;
    }
    if (rc == TACHO_ENOMEM || rc == TACHO_ENOTFOUND)
        return rc == TACHO_ENOMEM ? rc : 0;
    rc =
        col_drain_lose(drain, "pool of a process not read: damaged or of another version of tacho");
    store_file_remove(drain->folder, name);
    return rc;
}

int col_pools_scan(struct col_drain *drain)
{
    char **names = NULL;
    size_t count = 0;
    int rc = drain->folder >= 0 ? new_names(drain, &names, &count) : 0;
    drain->waiting = rc == TACHO_EBUSY;
    rc = rc == TACHO_EBUSY ? 0 : rc;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0)
            rc = open_new(drain, names[i]);
        free(names[i]);
    }
    free(names);
    return rc;
}

/* A process has ended when its pid is unused, belongs to a process that started at another time, or
 * is a zombie. A collector that has just taken over does not know when that was; its end is then
 * the time of the last record in the pool. */
void col_pool_check_gone(struct col_drain *drain, struct col_pool *pool)
{
    struct col_process *process = pool->process;
    struct col_proc_stat stat = {0};
    if (pool->gone)
        return;
    int rc = process->gone ? 0 : col_proc_read_stat(process->pid, &stat);
    if (rc && rc != -ENOENT && rc != -ESRCH)
        return; /* it cannot be known now */
    if (!process->gone && (rc || stat.start_ticks != process->start_ticks || stat.state == 'Z' ||
                           stat.state == 'X')) {
        bool finished = pool->map.head.finished != 0;
        if (process->end == STORE_ABSENT && !(drain->taken_over && drain->round <= 1))
            process->end = col_clock_now();
        process->gone = process->dirty = true;
        /* A child of this collector gets its status when it is reaped, which may be later. */
        if (!process->ended[0] && !process->awaited && stat.parent != getpid())
            col_process_ended(process, process->end, STORE_ABSENT,
                              finished ? "exit" : "unknown: reaped by its parent");
    }
    pool->gone = process->gone;
}
