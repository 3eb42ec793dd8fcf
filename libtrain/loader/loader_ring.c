/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring of batches, in one shared mapping: a lock, three counters that waiters sleep on
 * (futexes), the slots and their arrays. It works among threads and among processes alike, and a
 * process that is killed at any moment leaves it in a state that the others can recognise.
 */
#include "libtrain/loader/loader_ring.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libtrain/base/memory.h"
#include "libtrain/speak/trace.h"

#define LINE     64        /* arrays start on cache lines */
#define CHECK_NS 100000000 /* between two looks at whether a batch will come at all */

/* Condition variables are not robust: one whose waiter was killed may block for ever. Waiters wait
 * on counters instead, which change after the state they stand for has changed. */
struct lt_ring {
    pthread_mutex_t lock;
    _Atomic uint32_t made, freed, stopped; /* counters; stopped: 0 or 1 */
    uint64_t next, released; /* the next batch to claim; batches the taker is done with */
    int depth;               /* batches ready */
    int64_t checked;         /* the taker's: when it last asked whether all is well, ns */
    int broken;              /* a process died that held the lock */
    int slots;
    size_t slot_bytes, bytes;
    void *extra;
    struct lt_slot slot[];
};

static void wake(_Atomic uint32_t *counter)
{
    syscall(SYS_futex, counter, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits while the counter is `seen`, until an absolute time on CLOCK_MONOTONIC (NULL: for ever).
 * May return early. */
static void wait_for(_Atomic uint32_t *counter, uint32_t seen, const struct timespec *until)
{
    syscall(SYS_futex, counter, FUTEX_WAIT_BITSET, seen, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static struct timespec later(int64_t ns)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    ns += time.tv_nsec;
    time.tv_sec += ns / 1000000000;
    time.tv_nsec = ns % 1000000000;
    return time;
}

/* A worker that dies between two batches leaves no gap: the taker asks now and then even if it need
 * not wait. */
static int check_now_and_then(struct lt_ring *ring, lt_ring_check *check, void *arg,
                              struct tacho_error *err)
{
    struct timespec time = later(0);
    int64_t now = time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
    if (!check || now - ring->checked < CHECK_NS)
        return 0;
    ring->checked = now;
    return check(arg, err);
}

static void stop(struct lt_ring *ring)
{
    atomic_store(&ring->stopped, 1);
    atomic_fetch_add(&ring->made, 1);
    atomic_fetch_add(&ring->freed, 1);
    wake(&ring->stopped);
    wake(&ring->made);
    wake(&ring->freed);
}

static void lock(struct lt_ring *ring)
{
    if (pthread_mutex_lock(&ring->lock) != EOWNERDEAD)
        return;
    pthread_mutex_consistent(&ring->lock);
    ring->broken = 1;
    stop(ring);
}

static void unlock(struct lt_ring *ring)
{
    pthread_mutex_unlock(&ring->lock);
}

static int is_stopped(struct lt_ring *ring)
{
    return (int)atomic_load(&ring->stopped);
}

static size_t padded(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* A lock that processes share and that survives the death of its holder. */
static int lock_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    int rc = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return rc;
}

/* A slot of tokens has no features, and one of features no tokens: either array comes first. */
static struct lt_rows rows_at(const struct lt_source *source, void *arrays, int32_t *targets)
{
    if (source->t)
        return (struct lt_rows){.tokens = arrays, .targets = targets};
    return (struct lt_rows){.features = arrays, .targets = targets};
}
int lt_ring_create(struct lt_ring **out, const struct lt_source *source, int64_t b, int slots,
                   size_t extra)
{
    size_t rows = (size_t)b, count = (size_t)slots;
    size_t tokens = padded(rows * (size_t)source->t * sizeof(int32_t));
    size_t features = padded(rows * (size_t)source->width * sizeof(float));
    size_t targets = padded(rows * (size_t)(source->t ? source->t : 1) * sizeof(int32_t));
    size_t slot = tokens + features + targets,
           head = padded(sizeof(struct lt_ring) + count * sizeof(struct lt_slot));
    if (slot > (SIZE_MAX / 2 - head - extra) / count)
        return TACHO_ENOMEM;
    size_t bytes = head + count * slot + extra;
    struct lt_ring *ring =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return TACHO_ENOMEM;
    char *arrays = (char *)ring + head;
    ring->slots = slots;
    ring->slot_bytes = slot;
    ring->bytes = bytes;
    for (size_t i = 0; i < count; i++, arrays += slot)
        ring->slot[i].rows = rows_at(source, arrays, (void *)(arrays + tokens + features));
    ring->extra = arrays;
    if (lock_init(&ring->lock)) {
        munmap(ring, bytes);
        return TACHO_ENOMEM;
    }
    lt_memory_add(LT_MEMORY_LOADER, (int64_t)bytes);
    *out = ring;
    return 0;
}

void lt_ring_destroy(struct lt_ring *ring)
{
    if (!ring)
        return;
    pthread_mutex_destroy(&ring->lock);
    lt_memory_add(LT_MEMORY_LOADER, -(int64_t)ring->bytes);
    munmap(ring, ring->bytes);
}

void *lt_ring_memory(const struct lt_ring *ring, size_t *bytes)
{
    *bytes = ring->bytes;
    return (void *)(uintptr_t)ring;
}

void *lt_ring_extra(const struct lt_ring *ring)
{
    return ring->extra;
}

size_t lt_ring_slot_bytes(const struct lt_ring *ring)
{
    return ring->slot_bytes;
}

struct lt_slot *lt_ring_slot(struct lt_ring *ring, uint64_t batch)
{
    return &ring->slot[batch % (uint64_t)ring->slots];
}

int lt_ring_claim(struct lt_ring *ring, uint64_t *batch, struct lt_trace *trace)
{
    int waits = 0;
    lock(ring);
    *batch = ring->next++;
    while (!is_stopped(ring) && *batch >= ring->released + (uint64_t)ring->slots) {
        uint32_t seen = atomic_load(&ring->freed);
        unlock(ring);
        if (!waits)
            lt_trace_begin(trace, LT_RANGE_QUEUE_WAIT, 0, 0);
        waits = 1;
        wait_for(&ring->freed, seen, NULL);
        lock(ring);
    }
    unlock(ring);
    if (waits)
        lt_trace_end(trace);
    return !is_stopped(ring);
}

void lt_ring_publish(struct lt_ring *ring, uint64_t batch)
{
    lock(ring);
    lt_ring_slot(ring, batch)->ready = 1;
    ring->depth++;
    atomic_fetch_add(&ring->made, 1);
    unlock(ring);
    wake(&ring->made);
}

int lt_ring_take(struct lt_ring *ring, uint64_t batch, lt_ring_check *check, void *arg, int *depth,
                 struct tacho_error *err)
{
    struct lt_slot *slot = lt_ring_slot(ring, batch);
    int rc = check_now_and_then(ring, check, arg, err);
    if (rc)
        return rc;
    lock(ring);
    if (depth)
        *depth = ring->depth;
    while (rc == 0 && !slot->ready && !is_stopped(ring)) {
        uint32_t seen = atomic_load(&ring->made);
        struct timespec until = later(CHECK_NS);
        unlock(ring);
        wait_for(&ring->made, seen, check ? &until : NULL);
        rc = check ? check(arg, err) : 0;
        lock(ring);
    }
    if (slot->ready) { /* then what `check` saw does not matter yet */
        slot->ready = 0;
        ring->depth--;
        rc = 0;
    } else if (rc == 0) {
        rc = check ? check(arg, err) : 0;
        if (rc == 0 && ring->broken)
            rc = tacho_fail(err, TACHO_EINTERNAL,
                            "unless a user killed it, the kernel ran out of memory (dmesg): give "
                            "fewer --workers, a smaller --prefetch",
                            "a loader worker died while it held the lock of the batches");
        else if (rc == 0)
            rc = tacho_fail(err, TACHO_EINTERRUPTED, NULL, "the loader stops");
    }
    unlock(ring);
    return rc;
}

void lt_ring_release(struct lt_ring *ring, uint64_t batch)
{
    lock(ring);
    int more = batch > ring->released;
    if (more) {
        ring->released = batch;
        atomic_fetch_add(&ring->freed, 1);
    }
    unlock(ring);
    if (more)
        wake(&ring->freed);
}

int lt_ring_depth(struct lt_ring *ring)
{
    lock(ring);
    int depth = ring->depth;
    unlock(ring);
    return depth;
}

void lt_ring_stop(struct lt_ring *ring)
{
    lock(ring);
    stop(ring);
    unlock(ring);
}

void lt_ring_sleep(struct lt_ring *ring, double seconds)
{
    struct timespec now, until = later((int64_t)(1e9 * seconds));
    do {
        wait_for(&ring->stopped, 0, &until);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!is_stopped(ring) && (now.tv_sec < until.tv_sec ||
                                   (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec)));
}
