/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of device buffers that an agent keeps beside its pool. What decides where to read is
 * copied out of it once and checked, as with pools.
 */
#include "profiler/collector/drain/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLACK \
    (64u << 10) /* zeroed behind the last record of a buffer: CUPTI does not say that it leaves \
                   nothing there */

/* ---- the file -------------------------------------------------------------------------------------------------------------- */

static bool inside(uint64_t offset, uint64_t bytes, uint64_t whole)
{
    return offset <= whole && bytes <= whole - offset;
}

/* What decides where to read, out of a header that its process may be scribbling over: each word is
 * read once. */
struct layout {
    uint32_t version, buffer_bytes, buffer_cap, name_cap;
    uint64_t directory_offset, names_offset, buffers_offset;
};

static struct layout layout_of(const volatile struct wire_gpu *h)
{
    return (struct layout){h->version,          h->buffer_bytes, h->buffer_cap,    h->name_cap,
                           h->directory_offset, h->names_offset, h->buffers_offset};
}

static bool layout_ok(const struct layout *h, uint64_t bytes)
{
    return h->version == WIRE_VERSION && h->buffer_bytes >= 4096 &&
           h->buffer_bytes <= (64u << 20) && h->buffer_bytes % 8 == 0 && h->buffer_cap &&
           h->buffer_cap <= (1u << 16) && h->name_cap && (h->name_cap & (h->name_cap - 1)) == 0 &&
           h->directory_offset % 64 == 0 && h->names_offset % 8 == 0 &&
           h->buffers_offset % 8 == 0 &&
           inside(h->directory_offset, (uint64_t)h->buffer_cap * sizeof(struct wire_buffer),
                  bytes) &&
           inside(h->names_offset, (uint64_t)h->name_cap * sizeof(struct wire_gpu_name), bytes) &&
           inside(h->buffers_offset, (uint64_t)h->buffer_cap * h->buffer_bytes, bytes);
}

void col_gpu_free(struct col_gpu *g)
{
    if (!g)
        return;
    if (g->head)
        munmap(g->head, g->file_bytes);
    free(g->read);
    free(g->todo);
    free(g->release);
    free(g->stream);
    free(g->thread);
    free(g->context);
    free(g->priority);
    free(g->event);
    free(g->kernel);
    free(g);
}

/* 0 with p->gpu set; TACHO_ENOTFOUND: there is none. */
static int gpu_open(struct col_drain *d, struct col_pool *p)
{
    char name[COL_POOL_NAME];
    struct stat st;
    struct layout l = {0};
    snprintf(name, sizeof name, WIRE_GPU_PREFIX "%.*s", (int)(sizeof name - sizeof WIRE_GPU_PREFIX),
             p->name + strlen(WIRE_PREFIX));
    bool is_ours = d->folder >= 0 && col_pool_is_own(d->folder, name);
    int fd = is_ours ? openat(d->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0)
        return TACHO_ENOTFOUND;
    struct col_gpu *g = calloc(1, sizeof *g);
    int rc = g ? 0 : TACHO_ENOMEM;
    if (rc == 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
                    (uint64_t)st.st_size < sizeof(struct wire_gpu)))
        rc = TACHO_EFORMAT;
    void *at =
        rc ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (rc == 0 && at == MAP_FAILED)
        rc = TACHO_EIO;
    if (rc == 0) {
        g->head = at;
        g->file_bytes = (uint64_t)st.st_size;
        bool whole = __atomic_load_n(&g->head->magic, __ATOMIC_ACQUIRE) == WIRE_GPU_MAGIC;
        l = layout_of(g->head);
        if (!whole || !layout_ok(&l, g->file_bytes))
            rc = TACHO_EFORMAT;
    }
    if (rc == 0) {
        memcpy(g->name, name, sizeof name);
        g->buffer_bytes = l.buffer_bytes;
        g->buffer_cap = l.buffer_cap;
        g->name_cap = l.name_cap;
        g->directory = (struct wire_buffer *)((uint8_t *)at + l.directory_offset);
        g->names = (const struct wire_gpu_name *)((uint8_t *)at + l.names_offset);
        g->buffers = (uint8_t *)at + l.buffers_offset;
        g->read = calloc(g->buffer_cap, sizeof *g->read);
        g->todo = calloc(g->buffer_cap, sizeof *g->todo);
        g->release = calloc(g->buffer_cap, sizeof *g->release);
        rc = g->read && g->todo && g->release ? 0 : TACHO_ENOMEM;
    }
    if (rc)
        col_gpu_free(g);
    else
        p->gpu = g;
    return rc;
}

static uint32_t backed(const struct col_gpu *g)
{
    uint32_t n = atomic_load_explicit(&g->head->buffers_backed, memory_order_acquire);
    return n < g->buffer_cap ? n : g->buffer_cap;
}

/* ---- what the agent says about itself ---------------------------------------------------------------------------------------- */

static const char *const stage_text[] = {
#define STAGE_TEXT(name, text) text,
    WIRE_GPU_STAGE_MAP(STAGE_TEXT)
#undef STAGE_TEXT
};

/* CUPTI's own words for the errors that people meet, and what to do about them. */
static const char *error_text(uint32_t error)
{
    switch (error) {
    case 39:
        return "another tool is attached; end Nsight or the other profiler, or start without it";
    case 35:
    case 40:
        return "not permitted; see 'tacho doctor'";
    case 26:
        return "the profiling hardware is in use; DCGM or another profiler holds it";
    case 999:
        return "unknown; does the driver fit this CUPTI? see 'tacho doctor'";
    case 15:
        return "not initialised";
    case 8:
        return "out of memory";
    default:
        return "see cupti_result.h";
    }
}

static int tell_failure(struct col_drain *d, const struct wire_gpu *h)
{
    char reason[320], holder[sizeof h->holder + 1], by[96] = "";
    uint32_t stage = atomic_load_explicit(&h->stage, memory_order_relaxed);
    uint32_t error = atomic_load_explicit(&h->error, memory_order_relaxed);
    snprintf(holder, sizeof holder, "%.*s", (int)sizeof h->holder, h->holder);
    if (holder[0])
        snprintf(by, sizeof by, " (%s)", holder);
    const char *what = stage < sizeof stage_text / sizeof *stage_text ? stage_text[stage] : "";
    if (error)
        snprintf(reason, sizeof reason, "device work not recorded: %s%s: CUPTI error %u: %s", what,
                 by, error, error_text(error));
    else
        snprintf(reason, sizeof reason, "device work not recorded: %s", what);
    return col_drain_loss(d, "cupti", reason, STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
}

static int tell_versions(struct col_drain *d, const struct wire_gpu *h)
{
    char text[sizeof h->library + 1];
    int rc = store_run_set_int(d->db, "cupti.version", h->cupti_version);
    snprintf(text, sizeof text, "%.*s", (int)sizeof h->library, h->library);
    if (rc == 0)
        rc = store_run_set(d->db, "cupti.library", text);
    if (rc == 0 && h->driver_version > 0) {
        snprintf(text, sizeof text, "%d.%d", h->driver_version / 1000,
                 h->driver_version % 1000 / 10);
        rc = store_run_set(d->db, "cuda.driver", text);
    }
    if (rc == 0)
        rc = store_run_set(d->db, "cuda.graphs", h->whole_graphs ? "whole" : "nodes");
    for (uint32_t kind = 0; kind < WIRE_GPU_KINDS && rc == 0; kind++) {
        uint32_t error = atomic_load_explicit(&h->kind_error[kind], memory_order_relaxed);
        char reason[160];
        if (!error)
            continue;
        snprintf(reason, sizeof reason, "activity kind %u not recorded: CUPTI error %u: %s", kind,
                 error, error_text(error));
        rc = col_drain_loss(d, "cupti", reason, STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
    }
    return rc;
}

/* How the start went: once it is known. */
static int tell_state(struct col_drain *d, struct col_gpu *g)
{
    uint32_t state = atomic_load_explicit(&g->head->state, memory_order_acquire);
    if (g->told_state || state == WIRE_GPU_STARTING)
        return 0;
    g->told_state = g->dirty = true;
    int rc = tell_versions(d, g->head);
    return rc || state != WIRE_GPU_FAILED ? rc : tell_failure(d, g->head);
}

/* What became of the hardware counters that were asked for: once, at the end. */
static int tell_counters(struct col_drain *d, const struct wire_gpu *h)
{
    static const char *const keys[] = {[WIRE_COUNTERS_PM] = "counters.sampled",
                                       [WIRE_COUNTERS_RANGE] = "counters.roofline",
                                       [WIRE_COUNTERS_PARTS] = "counters.ranges"};
    static const char *const units[] = {"samples", "times", "ranges"};
    static const char *const stages[] = {
#define STAGE_TEXT(name, text) text,
        WIRE_COUNTERS_STAGE_MAP(STAGE_TEXT)
#undef STAGE_TEXT
    };
    int rc = 0;
    for (int i = 0; i < WIRE_COUNTERS && rc == 0; i++) {
        const struct wire_gpu_counters *c = &h->counters[i];
        uint32_t state = atomic_load_explicit(&c->state, memory_order_acquire), stage = c->stage,
                 error = c->error;
        char text[320];
        if (state == WIRE_COUNTERS_OFF)
            continue;
        if (state == WIRE_COUNTERS_ON)
            snprintf(text, sizeof text, "%.*s: %u metrics, %u %s, %llu %s", (int)sizeof c->chip,
                     c->chip, c->metrics, c->passes, c->passes == 1 ? "pass" : "passes",
                     (unsigned long long)c->values, units[i]);
        else if (state == WIRE_COUNTERS_WAITING)
            snprintf(text, sizeof text, "nothing counted: %s",
                     i == WIRE_COUNTERS_PM ? "the process made no context"
                                           : "too few steps (tacho.step) with a context");
        else if (error)
            snprintf(text, sizeof text, "failed: %s: CUPTI error %u: %s",
                     stage < sizeof stages / sizeof *stages ? stages[stage] : "", error,
                     error_text(error));
        else
            snprintf(text, sizeof text, "failed: %s",
                     stage < sizeof stages / sizeof *stages ? stages[stage] : "");
        rc = store_run_set(d->db, keys[i], text);
        if (rc == 0 && state != WIRE_COUNTERS_ON)
            rc = col_drain_loss(d, keys[i], text, STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
        if (rc == 0 && c->overflows)
            rc = col_drain_loss(d, keys[i], "samples overwritten before they were read",
                                STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
    }
    return rc;
}

static int tell_gaps(struct col_drain *d, struct col_gpu *g, int64_t now)
{
    uint32_t gaps = atomic_load_explicit(&g->head->gaps, memory_order_acquire);
    int rc = 0;
    if (gaps > g->gaps_told + WIRE_GPU_GAPS)
        g->gaps_told = gaps - WIRE_GPU_GAPS;
    while (g->gaps_told < gaps && rc == 0) {
        const struct wire_gpu_gap *gap = &g->head->gap[g->gaps_told % WIRE_GPU_GAPS];
        int64_t t1 = atomic_load_explicit(&gap->t1, memory_order_acquire);
        if (!t1 && now == STORE_ABSENT)
            break; /* it lasts */
        rc = col_drain_loss(
            d, "cupti",
            "device work not recorded: another profiler of the process (torch.profiler) had it",
            STORE_ABSENT, atomic_load_explicit(&gap->t0, memory_order_acquire), t1 ? t1 : now);
        g->gaps_told++;
        g->dirty = true;
    }
    return rc;
}

/* ---- rounds -------------------------------------------------------------------------------------------------------------------- */

static int order_todo(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)((const char *)a + 8),
                   y = *(const uint64_t *)((const char *)b + 8);
    return (x > y) - (x < y);
}

/* The sizes that the agent saw, over those of the table. */
static void read_sizes(struct col_gpu *g)
{
    col_cupti_bytes(g->head->cupti_version, g->bytes);
    for (uint32_t kind = 0; kind < COL_CUPTI_KINDS; kind++) {
        uint32_t seen = atomic_load_explicit(&g->head->record_bytes[kind], memory_order_acquire);
        if (seen >= 16 && seen <= 4096)
            g->bytes[kind] = seen;
    }
}

int col_gpu_note(struct col_drain *d, struct col_pool *p)
{
    if (!p->gpu) {
        int rc = gpu_open(d, p);
        if (rc == TACHO_ENOTFOUND || rc == TACHO_EFORMAT)
            return 0; /* it is being made, or damaged: told at the end */
        if (rc)
            return rc;
    }
    struct col_gpu *g = p->gpu;
    col_gpu_clock_read(&g->clock, g->head);
    read_sizes(g);
    g->todo_count = g->todo_at = 0;
    for (uint32_t i = 0; i < backed(g); i++) {
        const struct wire_buffer *b = &g->directory[i];
        if (atomic_load_explicit(&b->state, memory_order_acquire) != WIRE_BUFFER_DONE)
            continue;
        if (b->generation == g->read[i]) {
            g->release[g->release_count++] =
                i; /* read by a collector that died between its COMMIT and this */
            g->read[i] = 0;
            continue;
        }
        g->todo[g->todo_count].buffer = i;
        g->todo[g->todo_count++].sequence = b->sequence;
    }
    qsort(g->todo, g->todo_count, sizeof *g->todo, order_todo);
    int rc = tell_state(d, g);
    return rc ? rc : tell_gaps(d, g, STORE_ABSENT);
}

static int read_buffer(struct col_drain *d, struct col_pool *p, uint32_t i, uint32_t valid,
                       bool salvaged)
{
    struct col_gpu *g = p->gpu;
    const uint8_t *buffer = g->buffers + (uint64_t)i * g->buffer_bytes;
    struct col_cupti_record r;
    size_t at = 0;
    int rc = 0, more = 0;
    if (valid > g->buffer_bytes)
        valid = g->buffer_bytes;
    while (rc == 0 && at < valid && (more = col_cupti_next(g->bytes, buffer, valid, &at, &r)) > 0)
        rc = col_gpu_row(d, p, &r, salvaged);
    d->bytes_since_commit += at;
    if (rc == 0 && !salvaged && (more < 0 || at < valid))
        rc = col_drain_loss(d, "cupti", "rest of a buffer not read: a record of unknown size",
                            STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
    g->read[i] = g->directory[i].generation;
    g->dirty = true;
    return rc ? rc : store_position_set(d->db, g->name, i, (int64_t)g->read[i], valid);
}

int col_gpu_read(struct col_drain *d, struct col_pool *p)
{
    struct col_gpu *g = p->gpu;
    while (g && g->todo_at < g->todo_count) {
        if (d->bytes_since_commit >= COL_COMMIT_BYTES) {
            d->unfinished = true;
            return 0;
        }
        uint32_t i = g->todo[g->todo_at++].buffer;
        int rc = read_buffer(d, p, i, g->directory[i].valid, false);
        if (rc)
            return rc;
        g->release[g->release_count++] = i;
    }
    return 0;
}

void col_gpu_release(struct col_pool *p)
{
    struct col_gpu *g = p->gpu;
    for (uint32_t k = 0; g && k < g->release_count; k++) {
        uint32_t i = g->release[k];
        struct wire_buffer *b = &g->directory[i];
        uint64_t used = ((uint64_t)b->valid + SLACK + 4095) & ~(uint64_t)4095;
        memset(g->buffers + (uint64_t)i * g->buffer_bytes, 0,
               used < g->buffer_bytes ? used : g->buffer_bytes);
        atomic_store_explicit(&b->state, WIRE_BUFFER_FREE, memory_order_release);
    }
    if (g)
        g->release_count = 0;
}

int col_gpu_stop(struct col_drain *d, struct col_pool *p)
{
    struct col_gpu *g = p->gpu;
    return g ? tell_gaps(d, g, p->last_event ? p->last_event : col_clock_now()) : 0;
}

int col_gpu_finish(struct col_drain *d, struct col_pool *p)
{
    struct col_gpu *g = p->gpu;
    int rc = 0;
    if (!g || g->salvaged)
        return 0;
    col_gpu_clock_read(&g->clock, g->head);
    for (uint32_t i = 0; i < backed(g) && rc == 0; i++)
        if (atomic_load_explicit(&g->directory[i].state, memory_order_acquire) ==
                WIRE_BUFFER_LENT &&
            g->read[i] != g->directory[i].generation)
            rc = read_buffer(d, p, i, g->buffer_bytes, true);
    g->salvaged = g->dirty = true;
    uint32_t state = atomic_load_explicit(&g->head->state, memory_order_acquire);
    if (rc == 0 && state == WIRE_GPU_STARTING && !g->told_state)
        rc = col_drain_loss(
            d, "cupti",
            "device work not recorded: the process ended while recording was being started",
            STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
    if (rc == 0)
        rc = tell_counters(d, g->head);
    return rc ? rc : col_gpu_stop(d, p);
}

/* ---- live state ---------------------------------------------------------------------------------------------------------------- */

struct saved_gpu {
    int64_t memory_track, memory;
    uint32_t streams, threads, contexts, priorities, gaps_told;
    bool told_state, salvaged;
};

int col_gpu_save(struct col_drain *d, struct col_pool *p)
{
    struct col_gpu *g = p->gpu;
    char key[COL_POOL_NAME + 32];
    if (!g || !g->dirty)
        return 0;
    struct saved_gpu s = {.memory_track = g->memory_track,
                          .memory = g->memory,
                          .streams = g->stream_count,
                          .threads = g->thread_count,
                          .contexts = g->context_count,
                          .priorities = g->priority_count,
                          .gaps_told = g->gaps_told,
                          .told_state = g->told_state,
                          .salvaged = g->salvaged};
    d->scratch.used = 0;
    col_buffer_put(&d->scratch, &s, sizeof s);
    col_buffer_put(&d->scratch, g->stream, s.streams * sizeof *g->stream);
    col_buffer_put(&d->scratch, g->thread, s.threads * sizeof *g->thread);
    col_buffer_put(&d->scratch, g->context, s.contexts * sizeof *g->context);
    col_buffer_put(&d->scratch, g->priority, s.priorities * sizeof *g->priority);
    g->dirty = false;
    snprintf(key, sizeof key, "g:%s:", p->name);
    return d->scratch.failed ? TACHO_ENOMEM
                             : store_live_set(d->db, key, d->scratch.bytes, d->scratch.used);
}

/* Lists grow at powers of two (gpu_rows.c): what is loaded gets room likewise. */
static void *load_list(struct col_cursor *c, uint32_t count, size_t size)
{
    size_t room = 1;
    while (room < count)
        room *= 2;
    void *list = count ? malloc(room * size) : NULL;
    if (list)
        col_cursor_get(c, list, count * size);
    return list;
}

int col_gpu_load(struct col_drain *d, struct col_pool *p, const void *value, size_t bytes)
{
    struct col_cursor c = {.at = value, .end = (const uint8_t *)value + bytes};
    struct saved_gpu s;
    col_cursor_get(&c, &s, sizeof s);
    if (c.bad)
        return TACHO_EVERSION;
    int rc = p->gpu ? 0 : gpu_open(d, p);
    if (rc)
        return rc == TACHO_ENOMEM ? rc : 0;
    struct col_gpu *g = p->gpu;
    g->memory_track = s.memory_track;
    g->memory = s.memory;
    g->gaps_told = s.gaps_told;
    g->told_state = s.told_state;
    g->salvaged = s.salvaged;
    g->stream = load_list(&c, s.streams, sizeof *g->stream);
    g->thread = load_list(&c, s.threads, sizeof *g->thread);
    g->context = load_list(&c, s.contexts, sizeof *g->context);
    g->priority = load_list(&c, s.priorities, sizeof *g->priority);
    if ((s.streams && !g->stream) || (s.threads && !g->thread) || (s.contexts && !g->context) ||
        (s.priorities && !g->priority))
        return TACHO_ENOMEM;
    g->stream_count = s.streams;
    g->thread_count = s.threads;
    g->context_count = s.contexts;
    g->priority_count = s.priorities;
    return c.bad ? TACHO_EVERSION : 0;
}

bool col_gpu_load_position(struct col_drain *d, const char *name, int64_t buffer,
                           int64_t generation)
{
    for (uint32_t i = 0; i < d->pool_count; i++) {
        struct col_gpu *g = d->pool[i]->gpu;
        if (g && strcmp(g->name, name) == 0 && buffer >= 0 && buffer < (int64_t)g->buffer_cap) {
            g->read[buffer] = (uint64_t)generation;
            return true;
        }
    }
    return false;
}

int col_gpu_forget(struct col_drain *d, struct col_pool *p)
{
    char key[COL_POOL_NAME + 32];
    if (!p->gpu)
        return 0;
    if (d->folder >= 0)
        unlinkat(d->folder, p->gpu->name, 0);
    snprintf(key, sizeof key, "g:%s:", p->name);
    int rc = store_live_set(d->db, key, NULL, 0);
    return rc ? rc : store_position_clear(d->db, p->gpu->name, -1);
}
