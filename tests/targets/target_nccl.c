/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays NCCL towards its profiler plugin: loads $NCCL_PROFILER_PLUGIN, finds ncclProfiler_vN, and
 * goes through groups, collectives, proxies, kernel channels and what NCCL is known to do wrong:
 * events after the stop of their parent, stops that come twice, parents of another process.
 *
 *     target_nccl VERSION COLLECTIVES
 *
 * Descriptors are laid out with the structures of NCCL's own headers, written down here once more.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct coll_v1 {
    const char *name;
    uint64_t hash, sequence;
    uint8_t func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    uint8_t datatype;
    uint32_t op;
    size_t traffic;
};
struct coll_v2 {
    const char *name;
    uint64_t hash, sequence;
    const char *func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
};
struct coll_v4 {
    uint64_t sequence;
    const char *func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
};
struct p2p_v1 {
    const char *name;
    uint64_t hash;
    uint8_t func;
    void *buffer;
    uint8_t datatype;
    size_t count;
    int peer;
};
struct p2p_v2 {
    const char *name;
    uint64_t hash;
    const char *func;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
};
struct p2p_v4 {
    const char *func;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
};
struct proxy {
    pid_t pid;
    uint8_t channel;
    int peer, steps, chunk, is_send;
};
struct event {
    union {
        uint8_t narrow;
        uint64_t wide;
    } type;
    void *parent;
    int rank;
    union {
        struct coll_v1 coll1;
        struct coll_v2 coll2;
        struct coll_v4 coll4;
        struct p2p_v1 p2p1;
        struct p2p_v2 p2p2;
        struct p2p_v4 p2p4;
        struct proxy proxy;
        char room[96];
    } u;
};
_Static_assert(offsetof(struct event, u) == 24, "where NCCL has the union");

struct plugin {
    const char *name;
    void (*init)(void);
    int (*start)(void *context, void **handle, struct event *e);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

static const struct plugin *plugin;
static int version, mask;
static void *context;
static long errors;

static void *start(uint64_t type, void *parent, struct event *e)
{
    void *handle = NULL;
    e->parent = parent;
    if (version >= 5)
        e->type.wide = type;
    else
        e->type.narrow = (uint8_t)type;
    errors += plugin->start(context, &handle, e) != 0;
    return handle;
}

static void *collective(void *group, uint64_t sequence)
{
    struct event e = {0};
    if (version == 1)
        e.u.coll1 = (struct coll_v1){
            .hash = 77, .sequence = sequence, .func = 4, .count = 1024, .datatype = 9};
    else if (version < 4)
        e.u.coll2 = (struct coll_v2){.hash = 77,
                                     .sequence = sequence,
                                     .func = "AllReduce",
                                     .count = 1024,
                                     .datatype = "ncclBfloat16"};
    else
        e.u.coll4 = (struct coll_v4){
            .sequence = sequence, .func = "AllReduce", .count = 1024, .datatype = "ncclBfloat16"};
    return start(2, group, &e);
}

static void *point(void *group)
{
    struct event e = {0};
    if (version == 1)
        e.u.p2p1 = (struct p2p_v1){.hash = 77, .func = 6, .count = 100, .datatype = 7, .peer = 1};
    else if (version < 4)
        e.u.p2p2 = (struct p2p_v2){
            .hash = 77, .func = "Send", .count = 100, .datatype = "ncclFloat32", .peer = 1};
    else
        e.u.p2p4 =
            (struct p2p_v4){.func = "Send", .count = 100, .datatype = "ncclFloat32", .peer = 1};
    return start(4, group, &e);
}

static void *proxy(void *parent, pid_t pid)
{
    struct event e = {.u.proxy = {.pid = pid, .channel = 1}};
    return start(8, parent, &e);
}

static void pause_us(long us)
{
    struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

/* One round as NCCL does it, with its bad habits. */
static void round_of(uint64_t sequence)
{
    struct event e = {0}, channel = {0};
    void *group = start(1, NULL, &e);
    void *coll = collective(group, sequence);
    void *operation = proxy(coll, getpid());
    void *stranger =
        proxy((void *)0x1234, 1); /* PXN: the parent is an address of another process */
    errors += plugin->record(coll, 0, NULL) != 0;
    errors += plugin->stop(coll) != 0; /* enqueued */
    pause_us(300);
    void *kernel = version >= 3 ? start(64, coll, &channel) : NULL;
    errors += plugin->stop(operation) != 0;
    if (kernel)
        errors += plugin->stop(kernel) != 0;
    void *late = proxy(coll, getpid()); /* after everything has ended */
    errors += plugin->stop(late) != 0;
    errors += plugin->stop(coll) != 0; /* twice */
    if (stranger)
        errors += plugin->stop(stranger) != 0;
    void *send = point(group);
    errors += plugin->stop(send) != 0;
    errors += plugin->stop(group) != 0;
}

static void *many(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg;
    for (uint64_t i = 0; i < 200; i++) {
        void *coll = collective(NULL, base + i);
        void *operation = proxy(coll, getpid());
        plugin->stop(coll);
        plugin->stop(operation);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    char name[32];
    const char *path = getenv("NCCL_PROFILER_PLUGIN");
    long rounds = argc > 2 ? atol(argv[2]) : 10;
    version = argc > 1 ? atoi(argv[1]) : 5;
    void *h = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    snprintf(name, sizeof name, "ncclProfiler_v%d", version);
    plugin = h ? dlsym(h, name) : NULL;
    if (!plugin) {
        fprintf(stderr, "no %s\n", name);
        return 1;
    }
    int rc;
    if (version <= 3)
        rc = ((int (*)(void **, int *))(uintptr_t)plugin->init)(&context, &mask);
    else if (version == 4)
        rc = ((int (*)(void **, int *, const char *, uint64_t, int, int, int, void *))(
                  uintptr_t)plugin->init)(&context, &mask, "world", 77, 1, 8, 3, NULL);
    else
        rc = ((int (*)(void **, uint64_t, int *, const char *, int, int, int, void *))(
                  uintptr_t)plugin->init)(&context, 77, &mask, "world", 1, 8, 3, NULL);
    printf("mask %d\n", mask);
    for (long i = 0; i < rounds && mask; i++)
        round_of((uint64_t)i);
    pthread_t thread[4];
    for (long i = 0; i < 4 && mask; i++)
        pthread_create(&thread[i], NULL, many, (void *)(uintptr_t)(1000 * (i + 1)));
    for (long i = 0; i < 4 && mask; i++)
        pthread_join(thread[i], NULL);
    rc |= plugin->finalize(context);
    dlclose(h); /* NCCL does, when its last communicator goes */
    return rc || errors ? 1 : 0;
}
