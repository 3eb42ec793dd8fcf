/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/stacks/mappings.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define VDSO_MOST (1u << 20) /* bytes: more is no such image */

/* How many processes have a lower pid. */
static size_t place_of(const struct col_mappings *mappings, int32_t pid)
{
    size_t lo = 0, hi = mappings->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (mappings->space[mid].pid < pid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct col_address_space *space_of(const struct col_mappings *mappings, int32_t pid)
{
    size_t at = place_of(mappings, pid);
    return at < mappings->count && mappings->space[at].pid == pid ? &mappings->space[at] : NULL;
}

/* Room for one more in a list that doubles. NULL: out of memory, the list is as it was. */
static void *one_more(void *list, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return list;
    size_t n = *room ? 2 * *room : 16;
    void *p = realloc(list, n * size);
    if (p)
        *room = n;
    return p;
}

/* The process, which changes now. */
static struct col_address_space *space_add(struct col_mappings *mappings, int32_t pid)
{
    size_t at = place_of(mappings, pid);
    if (at == mappings->count || mappings->space[at].pid != pid) {
        struct col_address_space *list =
            one_more(mappings->space, &mappings->room, mappings->count, sizeof *list);
        if (!list)
            return NULL;
        mappings->space = list;
        memmove(list + at + 1, list + at, (mappings->count - at) * sizeof *list);
        list[at] = (struct col_address_space){.pid = pid};
        mappings->count++;
    }
    mappings->space[at].generation = ++mappings->generation;
    return &mappings->space[at];
}

static const char *path_of(struct col_mappings *mappings, const char *text, uint64_t inode)
{
    for (size_t i = mappings->paths; i-- > 0;)
        if (mappings->path[i].inode == inode && strcmp(mappings->path[i].text, text) == 0)
            return mappings->path[i].text;
    struct col_mapping_path *list =
        one_more(mappings->path, &mappings->path_room, mappings->paths, sizeof *list);
    if (!list)
        return NULL;
    mappings->path = list;
    list[mappings->paths] = (struct col_mapping_path){strdup(text), inode};
    return list[mappings->paths].text ? list[mappings->paths++].text : NULL;
}

/* First mapping that ends behind `address`. */
static size_t seek(const struct col_address_space *space, uint64_t address)
{
    size_t lo = 0, hi = space->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (space->at[mid].end <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool room_for(struct col_address_space *space, size_t more)
{
    if (space->count + more <= space->room)
        return true;
    size_t room = 2 * (space->count + more);
    struct col_mapping *list = realloc(space->at, room * sizeof *list);
    if (!list)
        return false;
    space->at = list;
    space->room = room;
    return true;
}

/* A new mapping takes the place of what lies there: ends of older ones stay. */
static void put(struct col_address_space *space, const struct col_mapping *new)
{
    if (new->end <= new->start || !room_for(space, 2))
        return;
    size_t at = seek(space, new->start);
    if (at < space->count &&
        space->at[at].start <
            new->start) { /* its beginning stays, and its end if it goes on behind */
        struct col_mapping old = space->at[at];
        space->at[at].end = new->start;
        at++;
        if (old.end > new->end) {
            memmove(&space->at[at + 1], &space->at[at], (space->count - at) * sizeof *space->at);
            space->at[at] = old;
            space->at[at].offset += new->end - old.start;
            space->at[at].start = new->end;
            space->count++;
        }
    }
    size_t last = at;
    while (last < space->count && space->at[last].end <= new->end)
        last++;
    if (last < space->count && space->at[last].start < new->end) {
        space->at[last].offset += new->end - space->at[last].start;
        space->at[last].start = new->end;
    }
    memmove(&space->at[at + 1], &space->at[last], (space->count - last) * sizeof *space->at);
    space->count = space->count - (last - at) + 1;
    space->at[at] = *new;
}

void col_mappings_add(struct col_mappings *mappings, const uint8_t *body, size_t bytes)
{
    struct {
        int32_t pid, tid;
        uint64_t address, length, offset;
        uint32_t major, minor;
        uint64_t inode, inode_generation;
        uint32_t protection, flags;
    } r;
    if (bytes <= sizeof r || memchr(body + sizeof r, 0, bytes - sizeof r) == NULL)
        return;
    memcpy(&r, body, sizeof r);
    if (!(r.protection & PROT_EXEC) || r.address + r.length < r.address)
        return;
    struct col_address_space *space = space_add(mappings, r.pid);
    const char *path = path_of(mappings, (const char *)body + sizeof r, r.inode);
    if (space && path)
        put(space, &(struct col_mapping){r.address, r.address + r.length, r.offset, path, r.inode,
                                         UINT32_MAX, UINT32_MAX});
}

/* The number was given again, or is said to end twice. */
static void lives(struct col_mappings *mappings, int32_t pid)
{
    for (size_t i = 0; i < COL_MAPPINGS_ENDED; i++)
        if (mappings->ended[i] == pid)
            mappings->ended[i] = 0;
}

void col_mappings_fork(struct col_mappings *mappings, int32_t pid, int32_t parent)
{
    struct col_address_space *space = space_add(mappings, pid);
    if (!space)
        return;
    lives(mappings, pid);
    const struct col_address_space *from = space_of(mappings, parent);
    space->parent = parent;
    space->count = 0;
    space->learnt = from && from->learnt;
    if (from && from->count && room_for(space, from->count)) {
        memcpy(space->at, from->at, from->count * sizeof *space->at);
        space->count = from->count;
    }
}

void col_mappings_drop(struct col_mappings *mappings, int32_t pid)
{
    struct col_address_space *space = space_add(mappings, pid);
    if (!space)
        return;
    space->count = 0;
    space->learnt = true; /* its records tell all that comes */
}

void col_mappings_learn(struct col_mappings *mappings, int32_t pid)
{
    char name[32], line[4608];
    struct col_address_space *space = space_of(mappings, pid);
    if ((space && space->learnt) || !(space = space_add(mappings, pid)))
        return;
    space->learnt = true;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *file = fopen(name, "re");
    while (file && fgets(line, sizeof line, file)) {
        uint64_t start, end, offset, inode;
        char rights[5];
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &start, &end,
                   rights, &offset, &inode, &at) != 5 ||
            !at || rights[2] != 'x')
            continue;
        const char *path = path_of(mappings, line[at] ? line + at : "//anon", inode);
        if (path)
            put(space,
                &(struct col_mapping){start, end, offset, path, inode, UINT32_MAX, UINT32_MAX});
    }
    if (file)
        fclose(file);
}

int32_t col_mappings_end(struct col_mappings *mappings, int32_t pid)
{
    lives(mappings, pid);
    int32_t *slot = &mappings->ended[mappings->ends++ % COL_MAPPINGS_ENDED], old = *slot;
    *slot = pid;
    struct col_address_space *space = old ? space_of(mappings, old) : NULL;
    if (!space)
        return 0;
    free(space->at);
    mappings->count--;
    memmove(space, space + 1, (size_t)(mappings->space + mappings->count - space) * sizeof *space);
    return old;
}

struct col_mapping *col_mappings_find(const struct col_mappings *mappings, int32_t pid,
                                      uint64_t address)
{
    const struct col_address_space *space = space_of(mappings, pid);
    size_t at = space ? seek(space, address) : 0;
    return space && at < space->count && space->at[at].start <= address ? &space->at[at] : NULL;
}

uint64_t col_mappings_generation(const struct col_mappings *mappings, int32_t pid)
{
    const struct col_address_space *space = space_of(mappings, pid);
    return space ? space->generation : 0;
}

int32_t col_mappings_parent(const struct col_mappings *mappings, int32_t pid)
{
    const struct col_address_space *space = space_of(mappings, pid);
    return space ? space->parent : 0;
}

/* ---- files -------------------------------------------------------------------------------------------------------------------- */

bool col_mapping_is_file(const struct col_mapping *mapping)
{
    return (mapping->path[0] == '/' && mapping->path[1] != '/') ||
           strcmp(mapping->path, COL_MAPPING_VDSO) == 0; /* "//anon" is none */
}

/* The image is the same in all processes, ours too; it ends with its section headers. */
static int open_vdso(void)
{
    union {
        unsigned long address;
        const Elf64_Ehdr *header;
    } u = {getauxval(AT_SYSINFO_EHDR)};
    size_t bytes =
        u.address ? u.header->e_shoff + (size_t)u.header->e_shnum * u.header->e_shentsize : 0;
    int fd = bytes && bytes <= VDSO_MOST ? memfd_create("vdso", MFD_CLOEXEC) : -1;
    if (fd >= 0 && write(fd, u.header, bytes) != (ssize_t)bytes) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int col_mapping_open(const char *path, int32_t pid)
{
    char inside[4096 + 32];
    struct stat st;
    if (strcmp(path, COL_MAPPING_VDSO) == 0)
        return open_vdso();
    snprintf(inside, sizeof inside, "/proc/%d/root%s", pid, path);
    int fd = open(inside, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) { /* a device must not be read */
        close(fd);
        fd = -1;
    }
    return fd;
}

void col_mappings_free(struct col_mappings *mappings)
{
    for (size_t i = 0; i < mappings->count; i++)
        free(mappings->space[i].at);
    for (size_t i = 0; i < mappings->paths; i++)
        free(mappings->path[i].text);
    free(mappings->space);
    free(mappings->path);
    *mappings = (struct col_mappings){0};
}
