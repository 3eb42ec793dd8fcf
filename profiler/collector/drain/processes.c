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

void col_process_row(const struct col_drain *d, const struct col_process *p,
                     struct store_process *row)
{
    *row = (struct store_process){.id = p->id,
                                  .rank = p->rank,
                                  .pid = p->pid,
                                  .parent_pid = p->parent_pid,
                                  .start = p->start,
                                  .end = p->end,
                                  .exit_status = p->exit_status,
                                  .host = d->host[0] ? d->host : NULL,
                                  .program = p->program[0] ? p->program : NULL,
                                  .ended = p->ended[0] ? p->ended : NULL};
}

static int process_add(struct col_drain *d, const struct col_process *from,
                       struct col_process **out)
{
    struct col_process **list = realloc(d->process, (d->process_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    d->process = list;
    struct col_process *p = malloc(sizeof *p);
    if (!p)
        return TACHO_ENOMEM;
    *p = *from;
    d->process[d->process_count++] = p;
    struct store_process row;
    col_process_row(d, p, &row);
    int rc = col_drain_begin(d);
    if (rc == 0)
        rc = store_process_add(d->db, &row);
    p->id = row.id;
    p->dirty = true;
    *out = p;
    return rc;
}

int col_drain_process(struct col_drain *d, int32_t pid, int64_t start, const char *program,
                      struct col_process **out)
{
    struct col_proc_stat st;
    struct col_process p = {.rank = STORE_ABSENT,
                            .parent_pid = STORE_ABSENT,
                            .start = start,
                            .end = STORE_ABSENT,
                            .exit_status = STORE_ABSENT,
                            .pid = pid};
    if (col_proc_read_stat(pid, &st) == 0) {
        p.start_ticks = st.start_ticks;
        p.parent_pid = st.parent;
    }
    if (program)
        snprintf(p.program, sizeof p.program, "%s", program);
    return process_add(d, &p, out);
}

void col_process_ended(struct col_process *p, int64_t end, int64_t exit_status, const char *ended)
{
    if (p->end == STORE_ABSENT)
        p->end = end;
    p->exit_status = exit_status;
    snprintf(p->ended, sizeof p->ended, "%s", ended);
    p->gone = p->dirty = true;
}

static void read_header_text(char *to, size_t size, const char *from, size_t from_size)
{
    snprintf(to, size, "%.*s", (int)from_size, from);
}

/* The row of the program that a process runs now, or ran last. */
static struct col_process *latest_of(const struct col_drain *d, int32_t pid, uint64_t start_ticks)
{
    for (uint32_t i = d->process_count; i-- > 0;) {
        struct col_process *x = d->process[i];
        if (x->pid == pid && (!x->start_ticks || x->start_ticks == start_ticks))
            return x;
    }
    return NULL;
}

/* The row that a new pool belongs to: of the direct child that was noted at its start, or a new
 * one. A second pool of a process means that it replaced its program (exec): what is known about
 * the end of the process belongs to the later one. */
static int pool_process(struct col_drain *d, struct col_pool *p)
{
    const struct wire_pool *h = p->map.head;
    int64_t created = col_pool_time(d, p, h->created);
    char rank[sizeof h->rank + 1];
    read_header_text(rank, sizeof rank, h->rank, sizeof h->rank);
    struct col_process *before = latest_of(d, (int32_t)h->pid, h->start_ticks);
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
        int rc = process_add(d, &new, &p->process);
        if (rc)
            return rc;
    }
    struct col_process *x = p->process;
    char *end;
    long long number = strtoll(rank, &end, 10);
    if (rank[0] && !*end)
        x->rank = number;
    x->start_ticks = h->start_ticks;
    read_header_text(x->program, sizeof x->program, h->program, sizeof h->program);
    x->has_pool = x->dirty = true;
    return 0;
}

/* ---- pools ----------------------------------------------------------------------------------------------------------------- */

static struct col_pool *find_pool(const struct col_drain *d, const char *name)
{
    for (uint32_t i = 0; i < d->pool_count; i++)
        if (strcmp(d->pool[i]->name, name) == 0)
            return d->pool[i];
    return NULL;
}

int col_drain_pool(struct col_drain *d, const char *name, struct col_pool **out)
{
    struct col_pool **list = realloc(d->pool, (d->pool_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    d->pool = list;
    struct col_pool *p = calloc(1, sizeof *p);
    if (!p)
        return TACHO_ENOMEM;
    snprintf(p->name, sizeof p->name, "%s", name);
    int rc = col_map_open(d->folder, name, &p->map, NULL);
    if (rc == 0) {
        p->segment = calloc(p->map.segment_cap, sizeof *p->segment);
        p->touched = calloc(p->map.segment_cap, sizeof *p->touched);
        if (!p->segment || !p->touched)
            rc = TACHO_ENOMEM;
    }
    if (rc) {
        col_pool_free(p);
        return rc;
    }
    p->present = true;
    p->dirty = true;
    d->pool[d->pool_count++] = p;
    *out = p;
    return 0;
}

static int order_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

int col_pools_scan(struct col_drain *d)
{
    if (d->folder < 0)
        return 0;
    int fd = dup(d->folder), rc = 0;
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
    for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, WIRE_PREFIX, strlen(WIRE_PREFIX)) != 0 ||
            strlen(e->d_name) >= COL_POOL_NAME || find_pool(d, e->d_name))
            continue;
        if (!col_pool_is_name(e->d_name) || !col_pool_is_own(d->folder, e->d_name))
            continue;
        char **list = realloc(name, (count + 1) * sizeof *list);
        if (list)
            name = list;
        if (!list || !(name[count] = strdup(e->d_name)))
            rc = TACHO_ENOMEM;
        else
            count++;
    }
    closedir(dir);
    if (count)
        qsort(name, count, sizeof *name, order_names);
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct col_pool *p = NULL;
        rc = col_drain_pool(d, name[i], &p);
        if (rc == 0) {
            rc = pool_process(d, p);
        } else if (rc != TACHO_ENOMEM) {
            rc =
                col_drain_loss(d, "collector",
                               "pool of a process not read: damaged or of another version of tacho",
                               STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
            unlinkat(d->folder, name[i], 0); /* else it would be counted again in each round */
        }
    }
    for (size_t i = 0; i < count; i++)
        free(name[i]);
    free(name);
    return rc;
}

void col_pool_check_gone(struct col_drain *d, struct col_pool *p)
{
    struct col_process *x = p->process;
    struct col_proc_stat st = {0};
    if (p->gone)
        return;
    if (!x->gone && (col_proc_read_stat(x->pid, &st) != 0 || st.start_ticks != x->start_ticks ||
                     st.state == 'Z' || st.state == 'X')) {
        bool finished = atomic_load_explicit(&p->map.head->finished, memory_order_acquire) != 0;
        if (x->end == STORE_ABSENT && !(d->taken_over && d->round <= 1))
            x->end = col_clock_now();
        x->gone = x->dirty = true;
        /* a child of ours gets its status when it is reaped, which may be later */
        if (!x->ended[0] && !x->awaited && st.parent != getpid())
            col_process_ended(x, x->end, STORE_ABSENT,
                              finished ? "exit" : "unknown: reaped by its parent");
    }
    p->gone = x->gone;
}
