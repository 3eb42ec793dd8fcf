/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the pool of a process, checks its header and copies what the drain needs to know. Which
 * files in the folder are tacho's own is decided here too: only those are read or removed.
 */
#include "profiler/collector/pool/pool.h"

#include <ctype.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342 /* headers of Linux before 5.5 */
#endif

#define MOST_BYTES (1ull << 40)            /* of a file; more is damage */
#define MOST_ARENA (8u * WIRE_ARENA_BYTES) /* of names, which need tables; more is damage */
#define MOST_TEXT  (64u << 10)             /* bytes of a name or a schema; more is damage */
/* So many segments, and bytes of names, may be read of any pool: tables for them are small. */
#define FREE_SEGMENTS WIRE_SEGMENT_CAP
#define FREE_ARENA    (1u << 20)

static bool inside(uint64_t offset, uint64_t bytes, uint64_t whole)
{
    return offset <= whole && bytes <= whole - offset;
}

static struct col_layout layout_of(const struct wire_pool *head)
{
    return (struct col_layout){.clock = head->clock,
                               .pid = head->pid,
                               .segment_bytes = head->segment_bytes,
                               .segment_cap = head->segment_cap,
                               .start_ticks = head->start_ticks,
                               .created = head->created,
                               .directory_offset = head->directory_offset,
                               .arena_offset = head->arena_offset,
                               .arena_cap = head->arena_cap,
                               .segments_offset = head->segments_offset};
}

static uint64_t directory_bytes(const struct col_layout *layout)
{
    return (uint64_t)layout->segment_cap * sizeof(struct wire_segment);
}

/* Are the values plausible? The file may be shorter than it says: then a part of it is lost. */
static bool layout_ok(const struct col_layout *layout)
{
    if (layout->segment_bytes < 4096 || layout->segment_bytes > (64u << 20) ||
        layout->segment_bytes % 8 || layout->segment_cap == 0 || layout->segment_cap > (1u << 20) ||
        layout->directory_offset % 64 || layout->arena_offset % 8 || layout->segments_offset % 8)
        return false;
    if (layout->clock != WIRE_CLOCK_TSC && layout->clock != WIRE_CLOCK_MONOTONIC)
        return false;
    return inside(layout->directory_offset, directory_bytes(layout), 1u << 30) &&
           layout->arena_cap <= MOST_ARENA &&
           inside(layout->arena_offset, layout->arena_cap, MOST_BYTES) &&
           inside(layout->segments_offset, (uint64_t)layout->segment_cap * layout->segment_bytes,
                  MOST_BYTES);
}

static const char *after_number(const char *text)
{
    while (isdigit((unsigned char)*text))
        text++;
    return text;
}

/* "PID.N" */
static bool is_pid_and_number(const char *text)
{
    const char *dot = after_number(text);
    return dot > text && *dot == '.' && dot[1] && !*after_number(dot + 1);
}

/* Whether agent or collector give a file this name: a pool or a GPU file, finished or still being
 * created; the mark of a process without a pool; the control file. */
bool col_pool_is_name(const char *name)
{
    static const char *const prefixes[] = {
        WIRE_PREFIX, WIRE_GPU_PREFIX, WIRE_NEW, WIRE_NEW WIRE_GPU_PREFIX, WIRE_NONE,
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) == 0 && is_pid_and_number(name + length))
            return true;
    }
    const char *pid = name + strlen(WIRE_NONE);
    bool is_mark = strncmp(name, WIRE_NONE, strlen(WIRE_NONE)) == 0 && *pid && !*after_number(pid);
    return is_mark || strcmp(name, WIRE_CONTROL) == 0;
}

/* Is it the pid of the file's name? */
static bool is_pid_of(const char *name, uint32_t pid)
{
    return strtoul(name + strlen(WIRE_PREFIX), NULL, 10) == pid;
}

/* Checks the header of a pool that is opened for the first time, and takes its layout over. */
static int check_head(struct col_map *map, const char *name, struct tacho_error *err)
{
    const struct wire_pool *head = &map->head;
    if (head->magic != WIRE_MAGIC)
        return tacho_fail(err, TACHO_EFORMAT, NULL, "%s: not a pool of the agent", name);
    if (head->version != WIRE_VERSION)
        return tacho_fail(err, TACHO_EVERSION, "use libtacho.so and tacho of the same build",
                          "%s: pool of version %u, not %u", name, head->version, WIRE_VERSION);
    map->layout = layout_of(head);
    if (!layout_ok(&map->layout) || !is_pid_of(name, map->layout.pid))
        return tacho_fail(err, TACHO_ECORRUPT, NULL, "%s: damaged pool header", name);
    return 0;
}

int col_map_open(int dirfd, const char *name, const struct col_layout *known, struct col_map *map,
                 struct tacho_error *err)
{
    memset(map, 0, sizeof *map);
    int rc = col_shared_open(dirfd, name, &map->file, err);
    if (rc)
        return rc;
    if (known)
        map->layout = *known;
    else if (!col_shared_read(&map->file, 0, &map->head, sizeof map->head))
        rc = tacho_fail(err, TACHO_EFORMAT, NULL, "%s: not a pool of the agent", name);
    else
        rc = check_head(map, name, err);
    if (rc == 0 && !layout_ok(&map->layout))
        rc = tacho_fail(err, TACHO_ECORRUPT, NULL, "%s: damaged pool header", name);
    if (rc == 0)
        rc = col_shared_map(&map->file,
                            map->layout.directory_offset + directory_bytes(&map->layout), err);
    if (rc == 0 && !(map->line = calloc(map->layout.segment_cap, sizeof *map->line)))
        rc = tacho_fail(err, TACHO_EBUSY, NULL, "%s: out of memory", name);
    if (rc)
        col_map_close(map);
    return rc;
}

void col_map_close(struct col_map *map)
{
    col_shared_close(&map->file);
    free(map->line);
    free(map->text[0]);
    free(map->text[1]);
    memset(map, 0, sizeof *map);
}

static bool copy_head(struct col_map *map)
{
    return col_shared_copy(&map->file, 0, &map->head, sizeof map->head);
}

/* Bytes that the file really has. A process backs what it uses, so no more than that can be used;
 * what a file with holes says of itself costs its writer nothing, and could make tables of
 * gigabytes here. Not every filesystem counts blocks that are backed and not written. */
static uint64_t backed_bytes(const struct col_map *map)
{
    static const long counting[] = {TMPFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC};
    struct statfs fs;
    struct stat stat;
    if (fstatfs(map->file.fd, &fs) != 0 || fstat(map->file.fd, &stat) != 0)
        return UINT64_MAX;
    for (size_t i = 0; i < sizeof counting / sizeof *counting; i++)
        if (fs.f_type == counting[i])
            return (uint64_t)stat.st_blocks * 512;
    return UINT64_MAX;
}

/* The lesser of two counts, if the first is more than what is free. */
static uint64_t bounded(uint64_t said, uint64_t backed, uint64_t is_free)
{
    if (said <= is_free || said <= backed)
        return said;
    return backed > is_free ? backed : is_free;
}

static uint64_t bounded_arena(const struct col_map *map)
{
    uint64_t used = map->head.arena_used;
    used = used < map->layout.arena_cap ? used : map->layout.arena_cap;
    return used > FREE_ARENA ? bounded(used, backed_bytes(map), FREE_ARENA) : used;
}

/* The header is copied again after the directory: whatever the records noted there refer to is in
 * it then. */
bool col_map_look(struct col_map *map, bool all)
{
    if (!copy_head(map))
        return false;
    uint32_t cap = map->layout.segment_cap, taken = map->head.segments_peak;
    if (taken > map->used)
        map->used = taken < cap ? taken : cap;
    uint32_t peak = all ? cap : map->used;
    if (peak > FREE_SEGMENTS && peak > map->peak)
        peak =
            (uint32_t)bounded(peak, backed_bytes(map) / map->layout.segment_bytes, FREE_SEGMENTS);
    if (peak > map->peak)
        map->peak = peak;
    if (!col_shared_copy_lines(&map->file, map->layout.directory_offset, map->line,
                               (uint64_t)map->peak * sizeof *map->line) ||
        !copy_head(map))
        return false;
    uint64_t used = map->head.arena_used > map->arena_used ? bounded_arena(map) : 0;
    if (used > map->arena_used)
        map->arena_used = used;
    return true;
}

bool col_map_read(const struct col_map *map, uint32_t index, uint32_t position, void *to,
                  uint32_t bytes)
{
    uint64_t at = map->layout.segments_offset + (uint64_t)index * map->layout.segment_bytes;
    return col_shared_read(&map->file, at + position, to, bytes);
}

void col_map_free_segment(const struct col_map *map, uint32_t index)
{
    uint64_t line = map->layout.directory_offset + (uint64_t)index * sizeof(struct wire_segment);
    col_shared_store(&map->file, line + offsetof(struct wire_segment, state), WIRE_FREE);
}

/* The target may damage an entry: it is checked against the part that was in use at the last look.
 */
const char *col_map_text(struct col_map *map, uint32_t id, enum wire_text_type type,
                         uint32_t *bytes)
{
    uint64_t offset = (uint64_t)id * 8;
    struct wire_text entry;
    *bytes = 0;
    if (!inside(offset, sizeof entry, map->arena_used) ||
        !col_shared_read(&map->file, map->layout.arena_offset + offset, &entry, sizeof entry))
        return NULL;
    offset += sizeof entry;
    if (entry.type != (uint32_t)type || entry.bytes > MOST_TEXT ||
        !inside(offset, entry.bytes, map->arena_used))
        return NULL;
    char **place = &map->text[map->turn++ % 2];
    char *text = realloc(*place, entry.bytes + 1u);
    if (!text)
        return NULL;
    *place = text;
    if (!col_shared_read(&map->file, map->layout.arena_offset + offset, text, entry.bytes))
        return NULL;
    *bytes = entry.bytes;
    return text;
}
