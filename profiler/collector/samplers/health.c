/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at links, logs and processes, and its rows.
 */
#include "profiler/collector/samplers/health.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/list.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/samplers/health_private.h"

#define EVERY_NS 1000000000

struct col_health *col_health_open(const struct col_health_roots *roots)
{
    struct col_health *health = calloc(1, sizeof *health);
    if (!health)
        return NULL;
    health->roots = *roots;
    health_open_log(health);
    if (!health_find_links(health))
        return health;
    col_health_close(health);
    return NULL;
}

void col_health_close(struct col_health *health)
{
    if (!health)
        return;
    if (health->log_fd >= 0)
        close(health->log_fd);
    free(health->source);
    free(health->faulty);
    free(health->process);
    free(health);
}

void col_health_reset(struct col_health *health)
{
    for (size_t i = 0; i < health->source_count; i++) {
        health->source[i].track = 0;
        health->source[i].written = NAN;
    }
    health->nodes.track = 0;
    health->faulty_count = health->process_count = 0;
    health->log_reported = false;
}

const char *col_health_kernel_log(const struct col_health *health)
{
    return health->log_status;
}

/* The entry of a process, a new one where it was not seen before; NULL: no memory. */
static struct health_process *process_of(struct col_health *health,
                                         const struct col_health_process *process)
{
    for (size_t i = 0; i < health->process_count; i++)
        if (health->process[i].row == process->row)
            return &health->process[i];
    struct health_process *list = col_list_room(health->process, &health->process_room,
                                                health->process_count + 1, sizeof *list);
    if (!list)
        return NULL;
    health->process = list;
    struct health_process *added = &list[health->process_count++];
    *added = (struct health_process){.row = process->row, .pid = process->pid};
    return added;
}

static int put_of(const struct health_process *process, const char *name, const char *unit,
                  double value, int64_t *track, health_put *put, void *ctx)
{
    return put(
        ctx,
        &(struct col_health_value){
            .process = process->row, .name = name, .unit = unit, .value = value, .track = track});
}

/* Where a process runs, and what its NCCL says. */
static int look_process(struct col_health *health, struct health_process *process, health_put *put,
                        void *ctx)
{
    char path[HEALTH_PATH], text[1024];
    struct col_proc_stat stat;
    int rc = 0, node = -1;
    snprintf(path, sizeof path, "%s/%d/stat", health->roots.proc, (int)process->pid);
    long length = health->nodes.count > 1 ? col_proc_read(path, text, sizeof text) : 0;
    if (length > 0 && !col_proc_parse_stat(text, &stat))
        node = health_node_of(&health->nodes, stat.cpu);
    process->seen = true;
    if (node >= 0)
        rc = put_of(process, "numa_node", "node", node, &process->node_track, put, ctx);
    if (!process->has_environment)
        health_find_nccl(health, process);
    health_read_nccl(&process->nccl);
    if (rc || process->nccl.network == process->written)
        return rc;
    process->written = process->nccl.network;
    return put_of(process, "nccl_network", "kind", process->nccl.network, &process->network_track,
                  put, ctx);
}

int col_health_look(struct col_health *health, const struct col_health_process *process,
                    size_t count, int (*put)(void *ctx, const struct col_health_value *value),
                    void *ctx)
{
    int rc = health_look_links(health, put, ctx);
    rc = rc ? rc : health_look_log(health, put, ctx);
    for (size_t i = 0; i < health->process_count; i++)
        health->process[i].seen = false;
    for (size_t i = 0; i < count && !rc; i++) {
        struct health_process *own = process_of(health, &process[i]);
        rc = own ? look_process(health, own, put, ctx) : TACHO_ENOMEM;
    }
    for (size_t i = 0; i < health->process_count && !rc;) /* those that have ended */
        if (health->process[i].seen)
            i++;
        else
            health->process[i] = health->process[--health->process_count];
    return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int put_row(void *ctx, const struct col_health_value *value)
{
    struct col_drain *drain = ctx;
    int64_t now = col_clock_now();
    int rc = col_counter_track(drain, value->process, value->name, value->unit, value->device,
                               value->track);
    if (rc || !col_has_room_for_sample(drain, now))
        return rc;
    return col_add_counter(drain, *value->track, now, value->value);
}

int col_health_sample(struct col_health *health, struct col_drain *drain)
{
    struct col_keys keys = {.db = drain->db};
    int64_t now = col_clock_now();
    size_t count = 0;
    if (now < health->next)
        return 0;
    health->next = now + EVERY_NS;
    if (!health->log_reported)
        col_key_text(&keys, "health.kernel_log", health->log_status);
    health->log_reported = keys.rc == 0;
    struct col_health_process *living = malloc((drain->process_count + 1) * sizeof *living);
    if (keys.rc || !living) {
        free(living);
        return keys.rc ? keys.rc : TACHO_ENOMEM;
    }
    for (uint32_t i = 0; i < drain->process_count; i++)
        if (!drain->process[i]->gone)
            living[count++] =
                (struct col_health_process){drain->process[i]->id, drain->process[i]->pid};
    int rc = col_health_look(health, living, count, put_row, drain);
    free(living);
    return rc;
}
