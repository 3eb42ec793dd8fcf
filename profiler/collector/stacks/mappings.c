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
static size_t place_of(const struct col_mappings *m, int32_t pid)
{
    size_t lo = 0, hi = m->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (m->space[mid].pid < pid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct col_address_space *space_of(const struct col_mappings *m, int32_t pid)
{
    size_t at = place_of(m, pid);
    return at < m->count && m->space[at].pid == pid ? &m->space[at] : NULL;
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
static struct col_address_space *space_add(struct col_mappings *m, int32_t pid)
{
    size_t at = place_of(m, pid);
    if (at == m->count || m->space[at].pid != pid) {
        struct col_address_space *list = one_more(m->space, &m->room, m->count, sizeof *list);
        if (!list)
            return NULL;
        m->space = list;
        memmove(list + at + 1, list + at, (m->count - at) * sizeof *list);
        list[at] = (struct col_address_space){.pid = pid};
        m->count++;
    }
    m->space[at].generation = ++m->generation;
    return &m->space[at];
}

static const char *path_of(struct col_mappings *m, const char *text, uint64_t inode)
{
    for (size_t i = m->paths; i-- > 0;)
        if (m->path[i].inode == inode && strcmp(m->path[i].text, text) == 0)
            return m->path[i].text;
    struct col_mapping_path *list = one_more(m->path, &m->path_room, m->paths, sizeof *list);
    if (!list)
        return NULL;
    m->path = list;
    list[m->paths] = (struct col_mapping_path){strdup(text), inode};
    return list[m->paths].text ? list[m->paths++].text : NULL;
}

/* First mapping that ends behind `address`. */
static size_t seek(const struct col_address_space *x, uint64_t address)
{
    size_t lo = 0, hi = x->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (x->at[mid].end <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool room_for(struct col_address_space *x, size_t more)
{
    if (x->count + more <= x->room)
        return true;
    size_t room = 2 * (x->count + more);
    struct col_mapping *list = realloc(x->at, room * sizeof *list);
    if (!list)
        return false;
    x->at = list;
    x->room = room;
    return true;
}

/* A new mapping takes the place of what lies there: ends of older ones stay. */
static void put(struct col_address_space *x, const struct col_mapping *new)
{
    if (new->end <= new->start || !room_for(x, 2))
        return;
    size_t at = seek(x, new->start);
    if (at < x->count &&
        x->at[at].start < new->start) { /* its beginning stays, and its end if it goes on behind */
        struct col_mapping old = x->at[at];
        x->at[at].end = new->start;
        at++;
        if (old.end > new->end) {
            memmove(&x->at[at + 1], &x->at[at], (x->count - at) * sizeof *x->at);
            x->at[at] = old;
            x->at[at].offset += new->end - old.start;
            x->at[at].start = new->end;
            x->count++;
        }
    }
    size_t last = at;
    while (last < x->count && x->at[last].end <= new->end)
        last++;
    if (last < x->count && x->at[last].start < new->end) {
        x->at[last].offset += new->end - x->at[last].start;
        x->at[last].start = new->end;
    }
    memmove(&x->at[at + 1], &x->at[last], (x->count - last) * sizeof *x->at);
    x->count = x->count - (last - at) + 1;
    x->at[at] = *new;
}

void col_mappings_add(struct col_mappings *m, const uint8_t *body, size_t bytes)
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
    struct col_address_space *x = space_add(m, r.pid);
    const char *path = path_of(m, (const char *)body + sizeof r, r.inode);
    if (x && path)
        put(x, &(struct col_mapping){r.address, r.address + r.length, r.offset, path, r.inode,
                                     UINT32_MAX, UINT32_MAX});
}

/* The number was given again, or is said to end twice. */
static void lives(struct col_mappings *m, int32_t pid)
{
    for (size_t i = 0; i < COL_MAPPINGS_ENDED; i++)
        if (m->ended[i] == pid)
            m->ended[i] = 0;
}

void col_mappings_fork(struct col_mappings *m, int32_t pid, int32_t parent)
{
    struct col_address_space *x = space_add(m, pid);
    if (!x)
        return;
    lives(m, pid);
    const struct col_address_space *from = space_of(m, parent);
    x->parent = parent;
    x->count = 0;
    x->learnt = from && from->learnt;
    if (from && from->count && room_for(x, from->count)) {
        memcpy(x->at, from->at, from->count * sizeof *x->at);
        x->count = from->count;
    }
}

void col_mappings_drop(struct col_mappings *m, int32_t pid)
{
    struct col_address_space *x = space_add(m, pid);
    if (!x)
        return;
    x->count = 0;
    x->learnt = true; /* its records tell all that comes */
}

void col_mappings_learn(struct col_mappings *m, int32_t pid)
{
    char name[32], line[4608];
    struct col_address_space *x = space_of(m, pid);
    if ((x && x->learnt) || !(x = space_add(m, pid)))
        return;
    x->learnt = true;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f)) {
        uint64_t start, end, offset, inode;
        char rights[5];
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &start, &end,
                   rights, &offset, &inode, &at) != 5 ||
            !at || rights[2] != 'x')
            continue;
        const char *path = path_of(m, line[at] ? line + at : "//anon", inode);
        if (path)
            put(x, &(struct col_mapping){start, end, offset, path, inode, UINT32_MAX, UINT32_MAX});
    }
    if (f)
        fclose(f);
}

int32_t col_mappings_end(struct col_mappings *m, int32_t pid)
{
    lives(m, pid);
    int32_t *slot = &m->ended[m->ends++ % COL_MAPPINGS_ENDED], old = *slot;
    *slot = pid;
    struct col_address_space *x = old ? space_of(m, old) : NULL;
    if (!x)
        return 0;
    free(x->at);
    m->count--;
    memmove(x, x + 1, (size_t)(m->space + m->count - x) * sizeof *x);
    return old;
}

struct col_mapping *col_mappings_find(const struct col_mappings *m, int32_t pid, uint64_t address)
{
    const struct col_address_space *x = space_of(m, pid);
    size_t at = x ? seek(x, address) : 0;
    return x && at < x->count && x->at[at].start <= address ? &x->at[at] : NULL;
}

uint64_t col_mappings_generation(const struct col_mappings *m, int32_t pid)
{
    const struct col_address_space *x = space_of(m, pid);
    return x ? x->generation : 0;
}

int32_t col_mappings_parent(const struct col_mappings *m, int32_t pid)
{
    const struct col_address_space *x = space_of(m, pid);
    return x ? x->parent : 0;
}

/* ---- files -------------------------------------------------------------------------------------------------------------------- */

bool col_mapping_is_file(const struct col_mapping *m)
{
    return (m->path[0] == '/' && m->path[1] != '/') ||
           strcmp(m->path, COL_MAPPING_VDSO) == 0; /* "//anon" is none */
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

void col_mappings_free(struct col_mappings *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->space[i].at);
    for (size_t i = 0; i < m->paths; i++)
        free(m->path[i].text);
    free(m->space);
    free(m->path);
    *m = (struct col_mappings){0};
}
