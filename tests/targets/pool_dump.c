/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the pools of a folder and prints what is in them, tab-separated:
 *
 *     pool FILE clock rank program finished threads
 *     thread PID TID ordinal ranges range_time open marks startends counters steps paused_steps
 * healed stray starts loss PID REASON count
 *
 * `open` ranges have no end in the pool; `healed` ranges lost their pop and were closed by a later
 * record; a `stray` pop has no push (a child of a fork inside the range). `startends` counts the
 * ends, `starts` the starts. With --live it drains and gives segments back every few milliseconds,
 * as the collector does, until the file STOP exists, and then once more. Exit status 1 when a pool
 * is malformed: bad records, names, or times that run backwards.
 */
#include <dirent.h>
#include <errno.h>
#include <time.h>

#include "pool_reader.h"

#define POOLS 4096
#define DEPTH 512

struct open_range {
    uint64_t start;
    uint32_t depth;
};

/* Open ranges of one domain of one thread: a stack by depth. */
struct nest {
    struct open_range at[DEPTH];
    uint32_t used;
};

struct thread {
    uint32_t tid, known;
    uint64_t ranges, time, healed, stray, marks, starts, startends, counters, steps, paused, last;
    struct nest *nest[WIRE_DOMAINS];
};

struct pool {
    char file[64];
    struct pool_reader reader;
    struct thread *threads;
    uint32_t thread_room;
    bool bad;
};

static struct pool pools[POOLS];
static int pool_count;

static void complain(struct pool *p, const struct pool_event *e, const char *what)
{
    fprintf(stderr, "%s: thread %u: %s (kind %u, domain %u, depth %u)\n", p->file, e->thread, what,
            e->kind, e->record->domain, e->record->depth);
    p->bad = true;
}

static struct nest *nest_of(struct thread *t, uint32_t domain)
{
    if (!t->nest[domain])
        t->nest[domain] = calloc(1, sizeof(struct nest));
    return t->nest[domain];
}

/* Closes what is deeper than a record says it can be: its pop was lost. */
static void heal(struct thread *t, struct nest *n, uint32_t depth)
{
    while (n->used && n->at[n->used - 1].depth >= depth && n->at[n->used - 1].depth < 255) {
        n->used--;
        t->healed++;
    }
}

static struct thread *thread_of(struct pool *p, uint32_t ordinal)
{
    if (ordinal >= p->thread_room && ordinal < 1u << 20) {
        uint32_t room = ordinal * 2 + 4;
        struct thread *more = realloc(p->threads, room * sizeof *more);
        if (!more)
            return NULL;
        memset(more + p->thread_room, 0, (room - p->thread_room) * sizeof *more);
        p->threads = more;
        p->thread_room = room;
    }
    return ordinal < p->thread_room ? &p->threads[ordinal] : NULL;
}

static void visit(const struct pool_reader *r, const struct pool_event *e, void *arg)
{
    struct pool *p = arg;
    struct thread *t = thread_of(p, e->thread);
    if (!t) {
        complain(p, e, "too many threads");
        return;
    }
    const struct wire_record *record = e->record;
    struct nest *n = nest_of(t, record->domain);
    t->tid = e->tid;
    t->known = 1;
    if (record->time < t->last && e->kind != WIRE_COUNTER)
        complain(p, e, "time runs backwards");
    if (e->kind != WIRE_COUNTER)
        t->last = record->time;
    bool step = e->payload && !strncmp(pool_name(r, e->schema), "tacho.step\t", 11);
    switch (e->kind) {
    case WIRE_PUSH:
        heal(t, n, record->depth);
        if (n->used == DEPTH)
            complain(p, e, "nested too deep");
        else
            n->at[n->used++] = (struct open_range){record->time, record->depth};
        t->steps += step;
        t->paused += step && record->kind & WIRE_PAUSED;
        break;
    case WIRE_POP:
        heal(t, n, record->depth + 1u);
        if (!n->used || n->at[n->used - 1].depth != record->depth) {
            t->stray++;
        } else {
            t->time += record->time - n->at[--n->used].start;
            t->ranges++;
        }
        break;
    case WIRE_START:
        t->starts++;
        break;
    case WIRE_END:
        t->startends++;
        break;
    case WIRE_MARK:
        t->marks++;
        break;
    case WIRE_COUNTER:
        t->counters++;
        break;
    default:
        break;
    }
    if (!pool_text(r, record->name))
        complain(p, e, "name outside the arena");
}

static void scan(const char *folder, bool recycle)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        int i = 0;
        if (strncmp(e->d_name, WIRE_PREFIX, strlen(WIRE_PREFIX)))
            continue;
        while (i < pool_count && strcmp(pools[i].file, e->d_name))
            i++;
        if (i < pool_count || i == POOLS)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        snprintf(pools[i].file, sizeof pools[i].file, "%.63s", e->d_name);
        pool_count++;
        if (pool_open(&pools[i].reader, path)) {
            fprintf(stderr, "%s: not a pool\n", path);
            pools[i].bad = true;
            pools[i].reader.pool = NULL;
        }
    }
    if (d)
        closedir(d);
    for (int i = 0; i < pool_count; i++)
        if (pools[i].reader.pool && pool_drain(&pools[i].reader, visit, &pools[i], recycle) < 0)
            pools[i].bad = true;
}

static void print_thread(const struct pool *p, uint32_t ordinal)
{
    const struct thread *t = &p->threads[ordinal];
    uint64_t open = 0;
    for (int d = 0; d < (int)WIRE_DOMAINS; d++)
        open += t->nest[d] ? t->nest[d]->used : 0;
    printf("thread\t%u\t%u\t%u\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
           p->reader.pool->pid, t->tid, ordinal, (unsigned long long)t->ranges,
           (unsigned long long)t->time, (unsigned long long)open, (unsigned long long)t->marks,
           (unsigned long long)t->startends, (unsigned long long)t->counters,
           (unsigned long long)t->steps, (unsigned long long)t->paused,
           (unsigned long long)t->healed, (unsigned long long)t->stray,
           (unsigned long long)t->starts);
}

static int print(void)
{
    int bad = 0;
    for (int i = 0; i < pool_count; i++) {
        struct pool *p = &pools[i];
        struct wire_pool *head = p->reader.pool;
        bad |= p->bad;
        if (!head)
            continue;
        printf("pool\t%s\t%s\t%s\t%s\t%u\t%u\n", p->file,
               head->clock == WIRE_CLOCK_TSC ? "tsc" : "monotonic", head->rank, head->program,
               atomic_load(&head->finished), atomic_load(&head->threads));
        for (uint32_t t = 0; t < p->thread_room; t++)
            if (p->threads[t].known)
                print_thread(p, t);
        for (int k = 0; k < WIRE_LOSS_COUNT; k++)
            if (atomic_load(&head->loss[k].count))
                printf("loss\t%u\t%s\t%llu\n", head->pid, pool_loss_name(k),
                       (unsigned long long)atomic_load(&head->loss[k].count));
    }
    return bad;
}

int main(int argc, char **argv)
{
    bool live = argc == 4 && !strcmp(argv[1], "--live");
    if (argc != 2 && !live) {
        fputs("usage: pool_dump FOLDER\n       pool_dump --live FOLDER STOP\n", stderr);
        return 2;
    }
    const char *folder = live ? argv[2] : argv[1];
    while (live && access(argv[3], F_OK)) {
        scan(folder, true);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    scan(folder, live);
    return print();
}
