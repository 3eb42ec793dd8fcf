/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps, for each sampled process, the sorted list of its code mappings. The kernel's mmap, fork,
 * exec and exit records change it as they arrive; a process that was there before the recording
 * began is read once from /proc/PID/maps. Stacks and symbols ask which file lies at an address.
 */
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

#include "profiler/collector/os/list.h"

#define VDSO_MOST (1u << 20) /* bytes of the vdso image that are believed */

/* How many processes have a lower pid. */
static size_t place_of(const struct col_mappings *mappings, int32_t pid)
{
    size_t low = 0, high = mappings->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (mappings->space[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The address space of a process, NULL: not known. */
static struct col_address_space *space_of(const struct col_mappings *mappings, int32_t pid)
{
    size_t place = place_of(mappings, pid);
    return place < mappings->count && mappings->space[place].pid == pid ? &mappings->space[place]
                                                                        : NULL;
}

/* The address space of a process that is about to change, made if it is new. Every change gets a
 * new generation, by which remembered look-ups become invalid. */
static struct col_address_space *space_add(struct col_mappings *mappings, int32_t pid)
{
    size_t place = place_of(mappings, pid);
    if (place == mappings->count || mappings->space[place].pid != pid) {
        struct col_address_space *list =
            col_list_room(mappings->space, &mappings->room, mappings->count + 1, sizeof *list);
        if (!list)
            return NULL;
        mappings->space = list;
        memmove(list + place + 1, list + place, (mappings->count - place) * sizeof *list);
        list[place] = (struct col_address_space){.pid = pid};
        mappings->count++;
    }
    mappings->space[place].generation = ++mappings->generation;
    return &mappings->space[place];
}

/* The one copy of a file's path: mappings of the same file have the same pointer. */
static const char *path_of(struct col_mappings *mappings, const char *text, uint64_t inode)
{
    for (size_t i = mappings->paths; i-- > 0;)
        if (mappings->path[i].inode == inode && strcmp(mappings->path[i].text, text) == 0)
            return mappings->path[i].text;
    struct col_mapping_path *list =
        col_list_room(mappings->path, &mappings->path_room, mappings->paths + 1, sizeof *list);
    if (!list)
        return NULL;
    mappings->path = list;
    list[mappings->paths] = (struct col_mapping_path){strdup(text), inode};
    return list[mappings->paths].text ? list[mappings->paths++].text : NULL;
}

/* Index of the first mapping that ends after `address`. */
static size_t seek(const struct col_address_space *space, uint64_t address)
{
    return space->count ? col_rows_until(&space->at->end, space->count, sizeof *space->at, address)
                        : 0;
}

static bool room_for(struct col_address_space *space, size_t more)
{
    struct col_mapping *list =
        col_list_room(space->at, &space->room, space->count + more, sizeof *list);
    if (list)
        space->at = list;
    return list != NULL;
}

/* Inserts a mapping in place of whatever lay there. Of an older mapping that it covers in part, the
 * uncovered beginning and end stay, as mmap(MAP_FIXED) leaves them. */
static void put(struct col_address_space *space, const struct col_mapping *new)
{
    if (new->end <= new->start || !room_for(space, 2))
        return;
    size_t place = seek(space, new->start);
    if (place < space->count && space->at[place].start < new->start) {
        struct col_mapping old = space->at[place];
        space->at[place].end = new->start;
        place++;
        if (old.end > new->end) {
            memmove(&space->at[place + 1], &space->at[place],
                    (space->count - place) * sizeof *space->at);
            space->at[place] = old;
            space->at[place].offset += new->end - old.start;
            space->at[place].start = new->end;
            space->count++;
        }
    }
    size_t last = place;
    while (last < space->count && space->at[last].end <= new->end)
        last++;
    if (last < space->count && space->at[last].start < new->end) {
        space->at[last].offset += new->end - space->at[last].start;
        space->at[last].start = new->end;
    }
    memmove(&space->at[place + 1], &space->at[last], (space->count - last) * sizeof *space->at);
    space->count = space->count - (last - place) + 1;
    space->at[place] = *new;
}

void col_mappings_add(struct col_mappings *mappings, const uint8_t *body, size_t bytes)
{
    struct {
        int32_t pid, tid;
        uint64_t address, length, offset;
        uint32_t major, minor;
        uint64_t inode, inode_generation;
        uint32_t protection, flags;
    } record;
    if (bytes <= sizeof record || memchr(body + sizeof record, 0, bytes - sizeof record) == NULL)
        return;
    memcpy(&record, body, sizeof record);
    if (!(record.protection & PROT_EXEC) || record.address + record.length < record.address)
        return;
    struct col_address_space *space = space_add(mappings, record.pid);
    const char *path = path_of(mappings, (const char *)body + sizeof record, record.inode);
    if (space && path)
        put(space,
            &(struct col_mapping){record.address, record.address + record.length, record.offset,
                                  path, record.inode, UINT32_MAX, UINT32_MAX});
}

/* Takes a pid out of the ring of ended processes: the number was reused, or its end was reported
 * twice. */
static void remove_from_ended(struct col_mappings *mappings, int32_t pid)
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
    remove_from_ended(mappings, pid);
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
    space->learnt = true; /* from here on its records say everything */
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
        int path_start = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &start, &end,
                   rights, &offset, &inode, &path_start) != 5 ||
            !path_start || rights[2] != 'x')
            continue;
        const char *path =
            path_of(mappings, line[path_start] ? line + path_start : "//anon", inode);
        if (path)
            put(space,
                &(struct col_mapping){start, end, offset, path, inode, UINT32_MAX, UINT32_MAX});
    }
    if (file)
        fclose(file);
}

/* The pid takes the oldest place in the ring of ended processes; the one that had it is forgotten.
 */
int32_t col_mappings_end(struct col_mappings *mappings, int32_t pid)
{
    remove_from_ended(mappings, pid);
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
    size_t place = space ? seek(space, address) : 0;
    return space && place < space->count && space->at[place].start <= address ? &space->at[place]
                                                                              : NULL;
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
           strcmp(mapping->path, COL_MAPPING_VDSO) == 0; /* "//anon" is not a file */
}

/* The vdso is the same in all processes, so tacho's own is copied into a file in memory. The image
 * ends with its section headers. */
static int open_vdso(void)
{
    union {
        unsigned long address;
        const Elf64_Ehdr *header;
    } image = {getauxval(AT_SYSINFO_EHDR)};
    size_t bytes = image.address ? image.header->e_shoff +
                                       (size_t)image.header->e_shnum * image.header->e_shentsize
                                 : 0;
    int fd = bytes && bytes <= VDSO_MOST ? memfd_create("vdso", MFD_CLOEXEC) : -1;
    if (fd >= 0 && write(fd, image.header, bytes) != (ssize_t)bytes) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int col_mapping_open(const char *path, int32_t pid)
{
    char inside[4096 + 32];
    struct stat stat;
    if (strcmp(path, COL_MAPPING_VDSO) == 0)
        return open_vdso();
    snprintf(inside, sizeof inside, "/proc/%d/root%s", pid, path);
    int fd = open(inside, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 &&
        (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))) { /* a device must not be read */
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
