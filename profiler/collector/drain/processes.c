/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of a run and their pools: which row a pool belongs to, and when a process has ended.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/drain/drain.h"
#include "profiler/collector/os/proc.h"

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
                                  .exit_status = process->exit_status,
                                  .host = drain->host[0] ? drain->host : NULL,
                                  .program = process->program[0] ? process->program : NULL,
                                  .ended = process->ended[0] ? process->ended : NULL};
}

static int process_add(struct col_drain *drain, const struct col_process *from,
                       struct col_process **out)
{
    struct col_process **list = realloc(drain->process, (drain->process_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    drain->process = list;
    struct col_process *process = malloc(sizeof *process);
    if (!process)
        return TACHO_ENOMEM;
    *process = *from;
    drain->process[drain->process_count++] = process;
    struct store_process row;
    col_process_row(drain, process, &row);
    int rc = col_drain_begin(drain);
    if (rc == 0)
        rc = store_process_add(drain->db, &row);
    process->id = row.id;
    process->dirty = true;
    *out = process;
    return rc;
}

int col_drain_process(struct col_drain *drain, int32_t pid, int64_t start, const char *program,
                      struct col_process **out)
{
    struct col_proc_stat st;
    struct col_process process = {.rank = STORE_ABSENT,
                                  .parent_pid = STORE_ABSENT,
                                  .start = start,
                                  .end = STORE_ABSENT,
                                  .exit_status = STORE_ABSENT,
                                  .pid = pid};
    if (col_proc_read_stat(pid, &st) == 0) {
        process.start_ticks = st.start_ticks;
        process.parent_pid = st.parent;
    }
    if (program)
        snprintf(process.program, sizeof process.program, "%s", program);
    return process_add(drain, &process, out);
}

void col_process_ended(struct col_process *process, int64_t end, int64_t exit_status,
                       const char *ended)
{
    if (process->end == STORE_ABSENT)
        process->end = end;
    process->exit_status = exit_status;
    snprintf(process->ended, sizeof process->ended, "%s", ended);
    process->gone = process->dirty = true;
}

static void read_header_text(char *to, size_t size, const char *from, size_t from_size)
{
    snprintf(to, size, "%.*s", (int)from_size, from);
}

/* The row of the program that a process runs now, or ran last. */
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

/* The row that a new pool belongs to: of the direct child that was noted at its start, or a new
 * one. A second pool of a process means that it replaced its program (exec): what is known about
 * the end of the process belongs to the later one. */
static int pool_process(struct col_drain *drain, struct col_pool *p)
{
    const struct wire_pool *h = p->map.head;
    int64_t created = col_pool_time(drain, p, h->created);
    char rank[sizeof h->rank + 1];
    read_header_text(rank, sizeof rank, h->rank, sizeof h->rank);
    struct col_process *before = latest_of(drain, (int32_t)h->pid, h->start_ticks);
    if (before && !before->has_pool) {
        p->process = before;
    } else {
        struct col_process new = {.rank = STORE_ABSENT,
                                  .parent_pid = h->parent_pid,
                                  .start = created,
                                  .end = STORE_ABSENT,
                                  .exit_status = STORE_ABSENT,
                                  .pid = (int32_t)h->pid};
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
        int rc = process_add(drain, &new, &p->process);
        if (rc)
            return rc;
    }
    struct col_process *process = p->process;
    char *end;
    long long number = strtoll(rank, &end, 10);
    if (rank[0] && !*end)
        process->rank = number;
    process->start_ticks = h->start_ticks;
    read_header_text(process->program, sizeof process->program, h->program, sizeof h->program);
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

int col_drain_pool(struct col_drain *drain, const char *name, struct col_pool **out)
{
    struct col_pool **list = realloc(drain->pool, (drain->pool_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    drain->pool = list;
    struct col_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return TACHO_ENOMEM;
    snprintf(pool->name, sizeof pool->name, "%s", name);
    int rc = col_map_open(drain->folder, name, &pool->map, NULL);
    if (rc == 0) {
        pool->segment = calloc(pool->map.segment_cap, sizeof *pool->segment);
        pool->touched = calloc(pool->map.segment_cap, sizeof *pool->touched);
        if (!pool->segment || !pool->touched)
            rc = TACHO_ENOMEM;
    }
    if (rc) {
        col_pool_free(pool);
        return rc;
    }
    pool->present = true;
    pool->dirty = true;
    drain->pool[drain->pool_count++] = pool;
    *out = pool;
    return 0;
}

static int order_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

int col_pools_scan(struct col_drain *drain)
{
    if (drain->folder < 0)
        return 0;
    int fd = dup(drain->folder), rc = 0;
    if (fd < 0)
        return TACHO_EIO;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return TACHO_EIO;
    }
    char **name = NULL;
    size_t count = 0;
    rewinddir(dir);
    for (struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL;) {
        if (strncmp(entry->d_name, WIRE_PREFIX, strlen(WIRE_PREFIX)) != 0 ||
            strlen(entry->d_name) >= COL_POOL_NAME || find_pool(drain, entry->d_name))
            continue;
        if (!col_pool_is_name(entry->d_name) || !col_pool_is_own(drain->folder, entry->d_name))
            continue;
        char **list = realloc(name, (count + 1) * sizeof *list);
        if (list)
            name = list;
        if (!list || !(name[count] = strdup(entry->d_name)))
            rc = TACHO_ENOMEM;
        else
            count++;
    }
    closedir(dir);
    if (count)
        qsort(name, count, sizeof *name, order_names);
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct col_pool *pool = NULL;
        rc = col_drain_pool(drain, name[i], &pool);
        if (rc == 0) {
            rc = pool_process(drain, pool);
        } else if (rc != TACHO_ENOMEM) {
            rc =
                col_drain_loss(drain, "collector",
                               "pool of a process not read: damaged or of another version of tacho",
                               STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
            unlinkat(drain->folder, name[i], 0); /* else it would be counted again in each round */
        }
    }
    for (size_t i = 0; i < count; i++)
        free(name[i]);
    free(name);
    return rc;
}

void col_pool_check_gone(struct col_drain *drain, struct col_pool *pool)
{
    struct col_process *process = pool->process;
    struct col_proc_stat st = {0};
    if (pool->gone)
        return;
    if (!process->gone &&
        (col_proc_read_stat(process->pid, &st) != 0 || st.start_ticks != process->start_ticks ||
         st.state == 'Z' || st.state == 'X')) {
        bool finished = atomic_load_explicit(&pool->map.head->finished, memory_order_acquire) != 0;
        if (process->end == STORE_ABSENT && !(drain->taken_over && drain->round <= 1))
            process->end = col_clock_now();
        process->gone = process->dirty = true;
        /* a child of ours gets its status when it is reaped, which may be later */
        if (!process->ended[0] && !process->awaited && st.parent != getpid())
            col_process_ended(process, process->end, STORE_ABSENT,
                              finished ? "exit" : "unknown: reaped by its parent");
    }
    pool->gone = process->gone;
}
