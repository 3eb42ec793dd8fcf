/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/mappings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct col_address_space *space_of(const struct col_mappings *m, int32_t pid)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->space[i].pid == pid)
            return &m->space[i];
    return NULL;
}

static struct col_address_space *space_add(struct col_mappings *m, int32_t pid)
{
    struct col_address_space *x = space_of(m, pid);
    if (x)
        return x;
    struct col_address_space *list = realloc(m->space, (m->count + 1) * sizeof *list);
    if (!list)
        return NULL;
    m->space = list;
    list[m->count] = (struct col_address_space){.pid = pid};
    return &list[m->count++];
}

static const char *path_of(struct col_mappings *m, const char *text)
{
    for (size_t i = 0; i < m->paths; i++)
        if (strcmp(m->path[i], text) == 0)
            return m->path[i];
    char **list = realloc(m->path, (m->paths + 1) * sizeof *list);
    if (!list)
        return NULL;
    m->path = list;
    return (list[m->paths] = strdup(text)) ? list[m->paths++] : NULL;
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
    if (at < x->count && x->at[at].start < new->start) { /* its beginning stays, and its end if it goes on behind */
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
        uint8_t inode[24];
        uint32_t protection, flags;
    } r;
    if (bytes <= sizeof r || memchr(body + sizeof r, 0, bytes - sizeof r) == NULL)
        return;
    memcpy(&r, body, sizeof r);
    if (!(r.protection & PROT_EXEC) || r.address + r.length < r.address)
        return;
    struct col_address_space *x = space_add(m, r.pid);
    const char *path = path_of(m, (const char *)body + sizeof r);
    if (x && path)
        put(x, &(struct col_mapping){r.address, r.address + r.length, r.offset, path, UINT32_MAX});
}

void col_mappings_fork(struct col_mappings *m, int32_t pid, int32_t parent)
{
    struct col_address_space *x = space_add(m, pid);
    const struct col_address_space *from = space_of(m, parent);
    if (!x)
        return;
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
    struct col_address_space *x = space_add(m, pid);
    if (!x || x->learnt)
        return;
    x->learnt = true;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f)) {
        uint64_t start, end, offset;
        char rights[5];
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &end, rights, &offset, &at) != 4 ||
            !at || rights[2] != 'x')
            continue;
        const char *path = path_of(m, line[at] ? line + at : "//anon");
        if (path)
            put(x, &(struct col_mapping){start, end, offset, path, UINT32_MAX});
    }
    if (f)
        fclose(f);
}

bool col_mappings_find(const struct col_mappings *m, int32_t pid, uint64_t address, struct col_mapping *out)
{
    const struct col_address_space *x = space_of(m, pid);
    size_t at = x ? seek(x, address) : 0;
    if (!x || at == x->count || x->at[at].start > address)
        return false;
    *out = x->at[at];
    return true;
}

uint32_t col_mappings_note_file(struct col_mappings *m, int32_t pid, uint64_t address, uint32_t file)
{
    struct col_address_space *x = space_of(m, pid);
    size_t at = x ? seek(x, address) : 0;
    if (x && at < x->count && x->at[at].start <= address)
        x->at[at].file = file;
    return file;
}

int32_t col_mappings_parent(const struct col_mappings *m, int32_t pid)
{
    const struct col_address_space *x = space_of(m, pid);
    return x ? x->parent : 0;
}

void col_mappings_free(struct col_mappings *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->space[i].at);
    for (size_t i = 0; i < m->paths; i++)
        free(m->path[i]);
    free(m->space);
    free(m->path);
    *m = (struct col_mappings){0};
}
