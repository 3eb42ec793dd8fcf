/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps the pool of a process and checks its header. The process may overwrite its own pool at any
 * time, so everything that decides where to read is copied once and checked before use. Which files
 * in the folder are tacho's own is decided here too: only those are read or removed.
 */
#include "profiler/collector/pool/pool.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool inside(uint64_t offset, uint64_t bytes, uint64_t whole)
{
    return offset <= whole && bytes <= whole - offset;
}

/* What decides where to read, copied from a header that its process may be overwriting: each word
 * is read once. */
struct layout {
    uint32_t segment_bytes, segment_cap;
    uint64_t directory_offset, arena_offset, arena_cap, segments_offset;
};

static struct layout layout_of(const volatile struct wire_pool *head)
{
    return (struct layout){head->segment_bytes, head->segment_cap, head->directory_offset,
                           head->arena_offset,  head->arena_cap,   head->segments_offset};
}

/* Are the sizes plausible, and do the parts lie within the file? */
static bool layout_ok(const struct layout *layout, uint64_t bytes)
{
    if (layout->segment_bytes < 4096 || layout->segment_bytes > (64u << 20) ||
        layout->segment_bytes % 8 || layout->segment_cap == 0 || layout->segment_cap > (1u << 20) ||
        layout->directory_offset % 64 || layout->arena_offset % 8 || layout->segments_offset % 8)
        return false;
    return inside(layout->directory_offset,
                  (uint64_t)layout->segment_cap * sizeof(struct wire_segment), bytes) &&
           inside(layout->arena_offset, layout->arena_cap, bytes) &&
           inside(layout->segments_offset, (uint64_t)layout->segment_cap * layout->segment_bytes,
                  bytes);
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

/* A plain file of the caller without a second name. */
static bool is_own(const struct stat *stat)
{
    return S_ISREG(stat->st_mode) && stat->st_uid == geteuid() && stat->st_nlink == 1;
}

bool col_pool_is_own(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_own(&st);
}

/* Checks the header of a mapped file of map->bytes and takes over what it says. */
static int map_header(struct col_map *map, uint8_t *memory, const char *name,
                      struct tacho_error *err)
{
    struct wire_pool *pool = (struct wire_pool *)memory;
    if (__atomic_load_n(&pool->magic, __ATOMIC_ACQUIRE) != WIRE_MAGIC)
        return tacho_fail(err, TACHO_EFORMAT, NULL, "%s: not a pool of the agent", name);
    if (pool->version != WIRE_VERSION)
        return tacho_fail(err, TACHO_EVERSION, "use libtacho.so and tacho of the same build",
                          "%s: pool of version %u, not %u", name, pool->version, WIRE_VERSION);
    struct layout layout = layout_of(pool);
    if (!layout_ok(&layout, map->bytes))
        return tacho_fail(err, TACHO_ECORRUPT, NULL, "%s: damaged pool header", name);
    map->head = pool;
    map->segment_bytes = layout.segment_bytes;
    map->segment_cap = layout.segment_cap;
    map->arena_cap = layout.arena_cap;
    map->directory = (struct wire_segment *)(memory + layout.directory_offset);
    map->arena = memory + layout.arena_offset;
    map->segments = memory + layout.segments_offset;
    return 0;
}

int col_map_open(int dirfd, const char *name, struct col_map *map, struct tacho_error *err)
{
    memset(map, 0, sizeof *map);
    int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return tacho_fail(err, errno == ENOENT ? TACHO_ENOTFOUND : TACHO_EIO, NULL, "%s: %s", name,
                          strerror(errno));
    int rc = 0;
    void *memory = MAP_FAILED;
    struct stat stat;
    if (fstat(fd, &stat) != 0 || !is_own(&stat) || (uint64_t)stat.st_size < WIRE_HEADER_BYTES) {
        rc = tacho_fail(err, TACHO_EFORMAT, NULL, "%s: not a pool of the agent", name);
        goto out;
    }
    map->bytes = (uint64_t)stat.st_size;
    memory = mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        rc = tacho_fail(err, TACHO_EIO, NULL, "%s: cannot map it: %s", name, strerror(errno));
        goto out;
    }
    rc = map_header(map, memory, name, err);
out:
    close(fd);
    if (rc && memory != MAP_FAILED)
        munmap(memory, map->bytes);
    if (rc)
        memset(map, 0, sizeof *map);
    return rc;
}

void col_map_close(struct col_map *map)
{
    if (map->head)
        munmap(map->head, map->bytes);
    memset(map, 0, sizeof *map);
}

/* The arena grows while it is read, and the target may damage it: each entry is checked against the
 * part that was in use a moment before. */
const char *col_map_text(const struct col_map *map, uint32_t id, enum wire_text_type type,
                         uint32_t *bytes)
{
    uint64_t used = atomic_load_explicit(&map->head->arena_used, memory_order_acquire);
    if (used > map->arena_cap)
        used = map->arena_cap;
    uint64_t offset = (uint64_t)id * 8;
    *bytes = 0;
    if (!inside(offset, sizeof(struct wire_text), used))
        return NULL;
    const struct wire_text *text = (const struct wire_text *)(map->arena + offset);
    uint32_t length = text->bytes;
    if (text->type != (uint32_t)type || !inside(offset + sizeof *text, length, used))
        return NULL;
    *bytes = length;
    return text->text;
}

uint32_t col_map_peak(const struct col_map *map)
{
    uint32_t peak = atomic_load_explicit(&map->head->segments_peak, memory_order_acquire);
    uint32_t backed = atomic_load_explicit(&map->head->segments_backed, memory_order_acquire);
    if (peak > backed)
        peak = backed;
    return peak < map->segment_cap ? peak : map->segment_cap;
}
