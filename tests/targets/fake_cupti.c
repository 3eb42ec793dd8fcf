/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute libcupti: the activity interface with buffers, one for each thread, records in the
 * layout of the version that $FAKE_CUPTI_VERSION names (13 = CUDA 11.0 ... 130001), and the faults
 * that $FAKE_CUPTI lists, separated by blanks:
 *
 *     subscribe=39  enable=35  register=N  flush=999     that call answers with this error
 *     zero=N        every Nth kernel has no times
 *     dropped=N     each flush says that N records were dropped
 *     holder=NAME   who holds CUPTI, for subscribe=39
 *     v1            there is no cuptiSubscribe_v2
 *     null          buffer requests are not answered
 *     lazy          FlushAll(0) gives nothing back
 *     newer=PART    a library whose path has PART is newer than the driver: error 15
 *     version=999   cuptiGetVersion answers with this error
 *     allsync       cuptiActivityEnableAllSyncRecords is refused
 *     mig           the device is a slice
 *     deaf          calls of cuDriverGetVersion are never recorded
 *     joins         another tool subscribes when the first callback is enabled
 *
 * What the real one is strict about: there is one subscriber, and a second one gets 39 (from 13.3
 * on there may be several, if the first and the next one say so); a buffer with work that has not
 * ended comes back from a forced flush only, and a full one once it has; a buffer that has not come
 * back has a mark, which is not a kind, after its last record; a record is dropped, and counted
 * until the count is read, when others register callbacks; buffers belong to threads from 13.0 on,
 * unless the attribute says otherwise; a buffer goes to whoever has registered callbacks by then;
 * queries of events are recorded with their result unless that is turned off; once all calls of the
 * driver were recorded and no longer are, single ones cannot be turned on; before 13.1 update 1 the
 * ids of graph launches are wrong once all kinds were off.
 *
 * Each record is logged to $FAKE_LOG as it is written: "pid owner kind correlation start end stream
 * bytes name"; owner is `tool`, or `other` while the stand-in for torch.profiler has the records.
 * Attributes are logged as "pid set attribute value", kinds as "pid enable kind -" and "pid disable
 * kind -", what that stand-in got as "pid kineto what number". Layouts are written down here once
 * more, on purpose: from the headers, not from the decoder.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "fake_gpu.h"

#define EXPORT  __attribute__((visibility("default")))
#define THREADS 256
#define FULL    64 /* buffers with work that has not ended; more come back at once */

typedef void (*request_fn)(uint8_t **buffer, size_t *size, size_t *max);
typedef void (*complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid);
typedef void (*callback_fn)(void *user, int domain, uint32_t cbid, const void *data);

static struct {
    pthread_mutex_t lock;
    request_fn request;
    complete_fn complete;
    _Atomic(callback_fn) callback;
    void *user;
    bool subscribed, several, shared, quiet_queries;
    unsigned session; /* times that recording began with no kind enabled */
    _Atomic uint64_t kinds;
    _Atomic bool muted[1024], driver[1024], callbacks[1024];
    struct slot {
        uint8_t *at;
        size_t size, used;
        uint64_t busy; /* until its work has ended, CLOCK_REALTIME ns */
        pid_t tid;
    } slot[THREADS], full[FULL];
    uint32_t correlation, event_record;
    unsigned kernels, dropped;
    int log;
    double rate; /* of CUPTI's clock, ticks a ns; 0: it is its own */
    bool foreign, no_single_calls;
} fake = {.log = -1};

static __thread unsigned external_depth;

static unsigned version(void)
{
    const char *text = getenv("FAKE_CUPTI_VERSION");
    return text ? (unsigned)atoi(text) : 130001;
}

static const char *fault(const char *word)
{
    const char *at = getenv("FAKE_CUPTI");
    size_t n = strlen(word);
    for (; at && (at = strstr(at, word)); at += n)
        if ((at[n] == '=' || at[n] == ' ' || !at[n]))
            return at[n] == '=' ? at + n + 1 : "1";
    return NULL;
}

static int fault_number(const char *word)
{
    const char *text = fault(word);
    return text ? atoi(text) : 0;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The clock that the stand-in for torch.profiler makes CUPTI's: counts otherwise than ns. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return (now() & 0xffffffffffffull) * 2;
#endif
}

static uint64_t loaded_real, loaded_ticks; /* both clocks when the library was loaded */

__attribute__((constructor)) static void note_clocks(void)
{
    loaded_real = now();
    loaded_ticks = ticks();
}

/* Makes the other clock CUPTI's, for good. */
static void change_clock(void)
{
    if (fake.rate == 0)
        fake.rate = (double)(ticks() - loaded_ticks) / (double)(now() - loaded_real);
}

/* A time as it is in records: CUPTI's clock is CLOCK_REALTIME until a profiler changes it. */
static uint64_t stamp(uint64_t real)
{
    return fake.rate == 0 || !real
               ? real
               : loaded_ticks + (uint64_t)((double)(real - loaded_real) * fake.rate);
}

/* ---- records ---- */

static void put32(uint8_t *r, size_t at, uint32_t x)
{
    memcpy(r + at, &x, sizeof x);
}

static void put64(uint8_t *r, size_t at, uint64_t x)
{
    memcpy(r + at, &x, sizeof x);
}

static size_t kernel_bytes(void)
{
    unsigned v = version();
    return v >= 130600   ? 264 /* one to come */
           : v >= 130400 ? 248
           : v >= 130300 ? 232
           : v >= 130100 ? 224
           : v >= 130000 ? 216
           : v >= 19     ? 208
           : v >= 18     ? 200
           : v >= 17     ? 176
           : v >= 15     ? 168
                         : 160;
}

static size_t record_bytes(uint32_t kind)
{
    unsigned v = version();
    switch (kind) {
    case 1:
        return v >= 130400 ? 112 : v >= 26 ? 96 : v >= 17 ? 88 : v >= 14 ? 80 : 72;
    case 2:
        return v >= 130400 ? 104 : v >= 17 ? 88 : v >= 14 ? 80 : 72;
    case 8:
        return v >= 130200 ? 192 : v >= 21 ? 184 : v >= 17 ? 176 : 152;
    case 9:
        return v >= 130100 ? 40 : v >= 24 ? 32 : v >= 22 ? 24 : 16;
    case 10:
        return kernel_bytes();
    case 36:
    case 38:
        if (kind == 36 && v >= 130500)
            return 80;
        return v >= 26 ? 56 : kind == 36 ? 24 : 40;
    case 51:
        return v >= 21 ? 56 : 48;
    case 4:
    case 5:
        return 40;
    case 49:
        return v >= 23 ? 128 : v >= 16 ? 120 : 112;
    case 56:
        return 56;
    case 58:
        return 48;
    default:
        return 24;
    }
}

/* A line of the log that is no record. */
static void log_note(const char *who, unsigned long long a, const char *b)
{
    char line[128];
    const char *path = getenv("FAKE_LOG");
    if (!path)
        return;
    if (fake.log < 0)
        fake.log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int n = snprintf(line, sizeof line, "%d\t%s\t%llu\t%s\n", (int)getpid(), who, a, b);
    if (fake.log >= 0 && n > 0)
        n = (int)write(fake.log, line, (size_t)n);
}

static void log_record(uint32_t kind, uint32_t correlation, uint64_t start, uint64_t end,
                       uint32_t stream, uint64_t bytes, const char *name)
{
    char line[512];
    const char *path = getenv("FAKE_LOG");
    if (!path)
        return;
    if (fake.log < 0)
        fake.log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int n = snprintf(line, sizeof line, "%d\t%s\t%u\t%u\t%llu\t%llu\t%u\t%llu\t%s\n", (int)getpid(),
                     fake.foreign ? "other" : "tool", kind, correlation, (unsigned long long)start,
                     (unsigned long long)end, stream, (unsigned long long)bytes, name);
    if (fake.log >= 0 && n > 0)
        n = (int)write(fake.log, line, (size_t)n);
}

static void give_back(struct slot *s)
{
    uint8_t *at = s->at;
    s->at = NULL;
    s->busy = 0;
    if (fake.complete)
        fake.complete((void *)0x1000, 0, at, s->size, s->used);
}

/* Full buffers come back once their work has ended, or all of them. */
static void give_back_full(bool all)
{
    uint64_t time = now();
    for (int i = 0; i < FULL; i++)
        if (fake.full[i].at && (all || fake.full[i].busy <= time))
            give_back(&fake.full[i]);
}

/* A buffer is full: it waits for its work if there is a place for it. */
static void fill_up(struct slot *s)
{
    for (int i = 0; i < FULL && s->at && s->busy > now(); i++)
        if (!fake.full[i].at) {
            fake.full[i] = *s;
            s->at = NULL;
            s->busy = 0;
        }
    if (s->at)
        give_back(s);
}

static struct slot *slot_of_thread(void)
{
    bool shared = fake.shared || version() < 130000;
    pid_t tid = shared ? 1 : (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < THREADS; i++)
        if (fake.slot[i].tid == tid)
            return &fake.slot[i];
    for (int i = 0; i < THREADS; i++)
        if (!fake.slot[i].tid) {
            fake.slot[i].tid = tid;
            return &fake.slot[i];
        }
    return NULL;
}

static uint8_t *room(size_t bytes)
{
    struct slot *s = slot_of_thread();
    if (!s)
        return NULL;
    if (s->at && s->size - s->used < bytes)
        fill_up(s);
    if (!s->at && fake.request) {
        size_t max = 0;
        s->used = s->size = 0;
        fake.request(&s->at, &s->size, &max);
    }
    if (!s->at || s->size - s->used < bytes)
        return NULL;
    uint8_t *r = s->at + s->used;
    s->used += bytes;
    if (s->size - s->used >= 4)
        put32(s->at, s->used, 0x7fffffff);
    return r;
}

/* The buffer that has just got a record cannot come back before this time. */
static void keep_until(uint64_t time)
{
    struct slot *s = slot_of_thread();
    if (s && s->busy < time)
        s->busy = time;
}

static uint8_t *record(uint32_t kind)
{
    size_t bytes = record_bytes(kind);
    uint8_t *r = fake.kinds >> kind & 1 || (kind == 4) ? room(bytes) : NULL;
    if (r)
        put32(r, 0, kind);
    return r;
}

/* cuDriverGetVersion, and the driver's part of a query of an event. Not logged: no test counts
 * them. */
static void put_other_api(const struct fake_call *c, uint32_t correlation, uint64_t start)
{
    uint32_t cbid = c->what == FAKE_VERSION ? 2 : 120;
    uint8_t *r = fake.driver[cbid] && !fault("deaf") ? record(4) : NULL;
    if (!r)
        return;
    put32(r, 4, cbid);
    put64(r, 8, stamp(start));
    put64(r, 16, stamp(now()));
    put32(r, 28, (uint32_t)syscall(SYS_gettid));
    put32(r, 32, correlation);
}

static void put_api(const struct fake_call *c, uint32_t correlation, uint64_t start)
{
    static const uint32_t runtime[] = {211, 41, 51, 135, 147, 131, 311},
                          driver[] = {307, 306, 218, 119, 295, 126, 514};
    if (c->what == FAKE_VERSION || c->what == FAKE_QUERY) {
        put_other_api(c, correlation, start);
        return;
    }
    uint32_t cbid = c->driver ? driver[c->what] : runtime[c->what];
    if (c->driver ? !fake.driver[cbid] : fake.muted[cbid])
        return;
    uint8_t *r = record(c->driver ? 4 : 5);
    uint64_t end = now();
    if (!r)
        return;
    put32(r, 4, cbid);
    put64(r, 8, stamp(start));
    put64(r, 16, stamp(end));
    put32(r, 24, (uint32_t)getpid());
    put32(r, 28, (uint32_t)syscall(SYS_gettid));
    put32(r, 32, correlation);
    log_record(c->driver ? 4 : 5, correlation, start, end, 0, 0, "-");
}

static void put_kernel(const struct fake_call *c, uint32_t correlation)
{
    uint8_t *r = record(10);
    if (!r)
        return;
    uint64_t start = c->start ? c->start : now();
    uint64_t end = c->end ? c->end : start + 700 + correlation % 100;
    int every = fault_number("zero");
    if (every && ++fake.kernels % (unsigned)every == 0)
        start = end = 0;
    if (c->endless) {
        start = end = 0;
        keep_until(UINT64_MAX);
    }
    keep_until(end);
    r[6] = 32; /* registers */
    put64(r, 16, stamp(start));
    put64(r, 24, stamp(end));
    put32(r, 40, 0);
    put32(r, 44, 1);
    put32(r, 48, c->stream);
    for (unsigned i = 0; i < 3; i++) {
        put32(r, 52 + 4 * i, i ? 1 : 128);
        put32(r, 64 + 4 * i, i ? 1 : 256);
    }
    put32(r, 76, 1024);
    put32(r, 92, correlation);
    put64(r, 104, (uint64_t)(uintptr_t)c->kernel);
    put64(r, 144, c->graph_node);
    if (kernel_bytes() >= 176)
        put32(r, 156, c->graph_node ? 7 : 0);
    log_record(10, correlation, start, end, c->stream, 0, c->kernel);
}

static void put_memory(const struct fake_call *c, uint32_t correlation)
{
    uint32_t kind = c->what == FAKE_COPY ? 1 : 2;
    uint8_t *r = record(kind);
    if (!r)
        return;
    uint64_t start = c->start ? c->start : now();
    uint64_t end = c->end ? c->end : start + c->bytes / 16 + 1;
    keep_until(end);
    if (kind == 1) {
        r[4] = 1; /* host to device, from pinned memory; that of the rehearsal is pageable */
        r[5] = c->start ? 1 : 2;
        r[6] = 3;
    } else {
        r[50] = 3;
    }
    put64(r, 8, c->bytes);
    put64(r, 16, stamp(start));
    put64(r, 24, stamp(end));
    put32(r, 32, 0);
    put32(r, 36, 1);
    put32(r, 40, c->stream);
    put32(r, 44, correlation);
    log_record(kind, correlation, start, end, c->stream, c->bytes, "-");
}

static void put_wait(const struct fake_call *c, uint32_t correlation, uint64_t start)
{
    uint8_t *r = c->what == FAKE_EVENT ? record(36) : record(38);
    if (!r)
        return;
    if (c->what == FAKE_EVENT) {
        put32(r, 4, correlation);
        put32(r, 8, 1);
        put32(r, 12, c->stream);
        put32(r, 16, c->event);
        if (record_bytes(36) == 56)
            put64(r, 48, ++fake.event_record);
        log_record(36, correlation, 0, 0, c->stream, c->event, "-");
        return;
    }
    uint64_t end = now();
    put32(r, 4, c->what == FAKE_WAIT ? 2 : 3);
    put64(r, 8, stamp(start));
    put64(r, 16, stamp(end));
    put32(r, 24, correlation);
    put32(r, 28, 1);
    put32(r, 32, c->stream);
    put32(r, 36, c->what == FAKE_WAIT ? c->event : 0);
    if (record_bytes(38) == 56 && c->what == FAKE_WAIT)
        put64(r, 40, fake.event_record);
    log_record(38, correlation, start, end, c->stream, 0, "-");
}

/* A query of an event that is not ready: a record unless that was turned off. */
static void put_query(const struct fake_call *c, uint32_t correlation, uint64_t start)
{
    uint8_t *r = fake.quiet_queries ? NULL : record(38);
    if (!r)
        return;
    put32(r, 4, 1);
    put64(r, 8, stamp(start));
    put64(r, 16, stamp(now()));
    put32(r, 24, correlation);
    put32(r, 28, 1);
    put32(r, 32, c->stream);
    put32(r, 36, c->event);
    if (record_bytes(38) == 56)
        put32(r, 48, 600); /* CUDA_ERROR_NOT_READY */
    log_note("query", correlation, "recorded");
}

/* A graph with four kernels: their rows, or one of the whole. */
static void put_graph(const struct fake_call *c, uint32_t correlation)
{
    if (!(fake.kinds >> 51 & 1)) {
        struct fake_call node = *c;
        uint64_t nodes = c->nodes ? c->nodes : 4, each = (c->end - c->start) / nodes;
        for (node.graph_node = 1; node.graph_node <= nodes; node.graph_node++) {
            node.end = c->start ? node.start + each : 0;
            put_kernel(&node, correlation);
            node.start = node.end;
        }
        return;
    }
    uint8_t *r = record(51);
    if (!r)
        return;
    uint64_t start = c->start ? c->start : now(), end = c->end ? c->end : start + 5000;
    keep_until(end);
    put32(r, 4, correlation);
    put64(r, 8, stamp(start));
    put64(r, 16, stamp(end));
    put32(r, 28, 7);
    put32(r, 32, 1);
    put32(r, 36, c->stream);
    log_record(51, correlation, start, end, c->stream, 0, "-");
}

static void put_allocation(const struct fake_call *c, uint32_t correlation)
{
    uint8_t *r = record(49);
    int64_t bytes = (int64_t)c->bytes;
    if (!r)
        return;
    put32(r, 4, bytes < 0 ? 2 : 1);
    put32(r, 8, 3);
    put32(r, 12, correlation);
    put64(r, 24, (uint64_t)(bytes < 0 ? -bytes : bytes));
    put64(r, 32, stamp(now()));
    put32(r, 56, 1);
}

/* A function of the host on a stream, launched by itself or as a node of a graph. */
static void put_host(const struct fake_call *c, uint32_t correlation)
{
    uint32_t kind = c->graph_node ? 56 : 58;
    uint8_t *r = record(kind);
    if (!r)
        return;
    uint64_t start = now(), end = start + 3000;
    put32(r, 4, c->stream);
    put32(r, 8, 1);
    put32(r, 16, correlation);
    if (kind == 56) {
        put32(r, 20, 7);
        put64(r, 24, c->graph_node);
    }
    put32(r, kind == 56 ? 36 : 24, (uint32_t)syscall(SYS_gettid));
    put64(r, kind == 56 ? 40 : 32, stamp(start));
    put64(r, kind == 56 ? 48 : 40, stamp(end));
    log_record(kind, correlation, start, end, c->stream, 0, "-");
}

static void on_call(struct fake_call *c)
{
    struct {
        int site;
        const char *name;
    } data = {0, "call"};
    uint32_t cbid = c->what == FAKE_GRAPH ? 514 : 307;
    callback_fn callback = fake.callback;
    if ((c->what == FAKE_LAUNCH || c->what == FAKE_GRAPH) && callback && fake.callbacks[cbid])
        callback(fake.user, 1, cbid, &data);
    uint64_t start = now();
    pthread_mutex_lock(&fake.lock);
    give_back_full(false);
    uint32_t correlation = ++fake.correlation;
    if (c->what == FAKE_GRAPH && fake.session > 1 && version() < 130101)
        correlation += 3; /* that of some call to come */
    if (c->what == FAKE_LAUNCH)
        put_kernel(c, correlation);
    else if (c->what == FAKE_COPY || c->what == FAKE_SET)
        put_memory(c, correlation);
    else if (c->what == FAKE_GRAPH)
        put_graph(c, correlation);
    else if (c->what == FAKE_QUERY)
        put_query(c, correlation, start);
    else if (c->what == FAKE_HOST)
        put_host(c, correlation);
    else if (c->what == FAKE_MEMORY)
        put_allocation(c, correlation);
    else if (c->what != FAKE_VERSION)
        put_wait(c, correlation, start);
    while (c->host_ns && now() < start + c->host_ns)
        continue;
    if (c->what != FAKE_HOST && c->what != FAKE_MEMORY)
        put_api(c, correlation, start);
    pthread_mutex_unlock(&fake.lock);
}

static void put_objects(void)
{
    static const char name[] = "Substitute GPU", slice[] = "NVIDIA H100 80GB HBM3 MIG 1g.10gb";
    uint8_t *r = record(8);
    if (r) {
        put64(r, 16, 80ull << 30);
        put32(r, 32, 32);
        put32(r, 44, 132);
        put32(r, 52, 64);
        put32(r, 104, 9);
        put32(r, 108, 0);
        put32(r, 112, 0);
        for (unsigned i = 0; i < 16; i++)
            r[120 + i] = (uint8_t)(i * 17);
        put64(r, 136, (uint64_t)(uintptr_t)(fault("mig") ? slice : name));
        if (fault("mig") && record_bytes(8) >= 176) {
            r[145] = 1;
            put32(r, 152, 3);
            put32(r, 156, 1);
            r[160] = 0xab;
            put32(r, 44, 16);
        }
    }
    if ((r = record(9))) {
        put32(r, 4, 1);
        put32(r, 8, 0);
    }
    if ((r = record(37))) {
        put32(r, 4, 1);
        put32(r, 8, 7);
        put32(r, 12, (uint32_t)-1);
    }
}

/* ---- the interface ---- */

__attribute__((constructor)) static void load(void)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&fake.lock, &a);
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*set)(fake_tool) =
        cuda ? (void (*)(fake_tool))(uintptr_t)dlsym(cuda, "fake_cuda_set_tool") : NULL;
    if (set)
        set(on_call);
}

#define DECLARE(name, ...) EXPORT int name(__VA_ARGS__)
DECLARE(cuptiGetVersion, uint32_t *v);
DECLARE(cuptiGetTimestamp, uint64_t *t);
DECLARE(cuptiGetCallbackName, int domain, uint32_t cbid, const char **name);
DECLARE(cuptiSubscribe, void **s, callback_fn f, void *user);
DECLARE(cuptiUnsubscribe, void *s);
DECLARE(cuptiEnableCallback, uint32_t on, void *s, int domain, uint32_t cbid);
DECLARE(cuptiSetThreadIdType, int type);
DECLARE(cuptiActivityEnable, int kind);
DECLARE(cuptiActivityDisable, int kind);
DECLARE(cuptiActivityRegisterCallbacks, request_fn request, complete_fn complete);
DECLARE(cuptiActivityGetNextRecord, uint8_t *buffer, size_t valid, uint8_t **at);
DECLARE(cuptiActivityGetNumDroppedRecords, void *context, uint32_t stream, size_t *n);
DECLARE(cuptiActivityFlushAll, uint32_t flag);
DECLARE(cuptiActivitySetAttribute, int attribute, size_t *size, void *value);
DECLARE(cuptiActivityEnableRuntimeApi, uint32_t cbid, uint8_t on);
DECLARE(cuptiActivityEnableDriverApi, uint32_t cbid, uint8_t on);
DECLARE(cuptiActivityGetAttribute, int attribute, size_t *size, void *value);
DECLARE(cuptiActivityEnableAllSyncRecords, uint8_t on);
DECLARE(cuptiActivityPushExternalCorrelationId, int kind, uint64_t id);
DECLARE(cuptiActivityPopExternalCorrelationId, int kind, uint64_t *id);
EXPORT int cuptiSubscribe_v2(void **s, callback_fn f, void *user, void *params);
EXPORT void fake_kineto(int begin);
EXPORT int fake_records(int kind);

int cuptiGetVersion(uint32_t *v)
{
    int rc = fault_number("version");
    if (rc == 0)
        *v = version();
    return rc;
}

/* Is this copy of the library one that the driver is too old for? */
static bool too_new(void)
{
    const char *part = fault("newer");
    Dl_info where;
    char text[256];
    if (!part || !dladdr((void *)(uintptr_t)cuptiGetVersion, &where))
        return false;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(part, " "), part);
    return strstr(where.dli_fname, text) != NULL;
}

int cuptiGetTimestamp(uint64_t *t)
{
    *t = fake.rate == 0 ? now() : ticks();
    return 0;
}

int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name)
{
    static const struct {
        int domain;
        uint32_t cbid;
        const char *name;
    } table[] = {{2, 211, "cudaLaunchKernel_v7000"},    {2, 41, "cudaMemcpyAsync_v3020"},
                 {2, 51, "cudaMemsetAsync_v3020"},      {2, 135, "cudaEventRecord_v3020"},
                 {2, 147, "cudaStreamWaitEvent_v3020"}, {2, 131, "cudaStreamSynchronize_v3020"},
                 {2, 311, "cudaGraphLaunch_v10000"},    {1, 307, "cuLaunchKernel"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].domain == domain && table[i].cbid == cbid) {
            *name = table[i].name;
            return 0;
        }
    return 1;
}

/* `several`: this subscriber says that there may be others. */
static int subscribe(void **s, callback_fn f, void *user, bool several)
{
    int rc = fault_number("subscribe");
    if (too_new())
        return 15;
    if (rc)
        return rc;
    if (fake.subscribed)
        return fake.several && several ? 0 : 39;
    fake.subscribed = true;
    fake.several = several;
    fake.callback = f;
    fake.user = user;
    *s = &fake;
    return 0;
}

int cuptiSubscribe(void **s, callback_fn f, void *user)
{
    return subscribe(s, f, user, false);
}

struct subscriber_params {
    size_t size;
    const char *name;
    char *old;
    size_t old_size;
    uint8_t several; /* from 13.3 on, in a struct that is so long */
};

int cuptiSubscribe_v2(void **s, callback_fn f, void *user, void *params)
{
    const struct subscriber_params *p = params;
    const char *holder = fault("holder");
    bool long_enough = p && p->size >= sizeof *p && version() >= 130300;
    int rc = subscribe(s, f, user, long_enough && p->several);
    if (rc && p && p->old && holder)
        snprintf(p->old, p->old_size, "CUPTI for %.*s", (int)strcspn(holder, " "), holder);
    return rc;
}

/* Another tool of the process, which lets others be there, too. */
static void join_once(void)
{
    static bool joined;
    struct subscriber_params params = {.size = sizeof params, .name = "other", .several = 1};
    void *unused = NULL;
    if (joined || !fault("joins"))
        return;
    joined = true;
    log_note("kineto", (unsigned long long)cuptiSubscribe_v2(&unused, NULL, NULL, &params),
             "joined with");
}

int cuptiUnsubscribe(void *s)
{
    if (s != &fake || !fake.subscribed)
        return 1;
    fake.callback = NULL;
    fake.subscribed = false;
    memset((void *)fake.callbacks, 0, sizeof fake.callbacks);
    return 0;
}

int cuptiEnableCallback(uint32_t on, void *s, int domain, uint32_t cbid)
{
    if (s != &fake || !fake.subscribed)
        return 1;
    if (domain == 1 && cbid < 1024)
        fake.callbacks[cbid] = on != 0;
    join_once();
    return 0;
}

int cuptiSetThreadIdType(int type)
{
    return type == 1 ? 0 : 1;
}

int cuptiActivityEnable(int kind)
{
    const char *text = fault("enable");
    if (text || too_new())
        return text ? atoi(text) : 15;
    pthread_mutex_lock(&fake.lock);
    if ((kind == 56 || kind == 58) && version() < 130100) {
        pthread_mutex_unlock(&fake.lock);
        return 21;
    }
    bool fresh = !(fake.kinds >> kind & 1);
    log_note("enable", (unsigned long long)kind, "-");
    fake.session += fake.kinds == 0;
    fake.kinds |= (uint64_t)1 << kind;
    if (kind == 5)
        for (size_t i = 0; i < sizeof fake.muted / sizeof *fake.muted; i++)
            fake.muted[i] = false;
    for (size_t i = 0; kind == 4 && i < sizeof fake.driver / sizeof *fake.driver; i++)
        fake.driver[i] = true;
    if (fresh && kind == 37)
        put_objects();
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int cuptiActivityDisable(int kind)
{
    log_note("disable", (unsigned long long)kind, "-");
    fake.kinds &= ~((uint64_t)1 << kind);
    for (size_t i = 0; kind == 4 && i < sizeof fake.driver / sizeof *fake.driver; i++)
        fake.driver[i] = false;
    fake.no_single_calls |= kind == 4;
    return 0;
}

int cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete)
{
    int rc = fault_number("register");
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    fake.dropped += fake.request && fake.request != request;
    fake.request = fault("null") ? NULL : request;
    fake.complete = complete;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **at)
{
    size_t from = 0;
    uint32_t kind;
    if (*at) {
        memcpy(&kind, *at, 4);
        from = (size_t)(*at - buffer) + record_bytes(kind);
    }
    if (from + 24 > valid)
        return 12;
    memcpy(&kind, buffer + from, 4);
    if (kind == 0)
        return 21;
    if (kind == 0x7fffffff)
        return 12;
    if (from + record_bytes(kind) > valid)
        return 12;
    *at = buffer + from;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
    (void)context;
    (void)stream;
    pthread_mutex_lock(&fake.lock);
    *n = (size_t)fault_number("dropped") + fake.dropped;
    fake.dropped = 0;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int cuptiActivityFlushAll(uint32_t flag)
{
    int rc = fault_number("flush");
    if (rc)
        return rc;
    if (!(flag & 1) && fault("lazy"))
        return 0;
    pthread_mutex_lock(&fake.lock);
    uint64_t time = now();
    give_back_full(flag & 1);
    for (int i = 0; i < THREADS; i++)
        if (fake.slot[i].at && fake.slot[i].used && (flag & 1 || fake.slot[i].busy <= time))
            give_back(&fake.slot[i]);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int fake_records(int kind)
{
    return (int)(fake.kinds >> kind & 1);
}

static size_t device_bytes = 3200000, device_buffers = 250;

int cuptiActivitySetAttribute(int attribute, size_t *size, void *value)
{
    size_t number = 0;
    char text[24];
    if (*size > sizeof number)
        return 1;
    memcpy(&number, value, *size);
    snprintf(text, sizeof text, "%zu", number);
    log_note("set", (unsigned long long)attribute, text);
    if (attribute == 5 && *size == 1)
        return 0;
    if (attribute == 9 && *size == 1)
        fake.shared = number == 0;
    else if (attribute == 0 && *size == sizeof number)
        device_bytes = number;
    else if (attribute == 2 && *size == sizeof number)
        device_buffers = number;
    else
        return 1;
    return 0;
}

int cuptiActivityGetAttribute(int attribute, size_t *size, void *value)
{
    if ((attribute != 0 && attribute != 2) || *size != sizeof device_bytes)
        return 1;
    memcpy(value, attribute ? &device_buffers : &device_bytes, *size);
    return 0;
}

int cuptiActivityEnableAllSyncRecords(uint8_t on)
{
    if (fault("allsync"))
        return 1;
    fake.quiet_queries = !on;
    return 0;
}

int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on)
{
    if (cbid < 1024)
        fake.muted[cbid] = !on;
    return 0;
}

int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on)
{
    if (cbid < 1024 && !(on && fake.no_single_calls && !(fake.kinds >> 4 & 1)))
        fake.driver[cbid] = on != 0;
    return 0;
}

int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
    (void)id;
    if (kind == 3)
        external_depth++;
    return 0;
}

int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *id)
{
    if (kind != 3 || !external_depth)
        return 18;
    external_depth--;
    *id = 1;
    return 0;
}

/* ---- torch.profiler: another client of the activity interface in the same process ---- */

/* $FAKE_KINETO: "" the one until August 2026, which subscribes at its first use, keeps the
 * subscription, and records no device work in this process if that fails; "new", which does not
 * subscribe; "jax", which subscribes for the time of a session. All but the last make the time
 * stamp counter CUPTI's clock, and leave it so. */
static struct {
    int state; /* 0 not used yet, 1 it works, -1 it was refused */
    unsigned long long kernels;
    void *subscriber;
    uint8_t *lent[64];
} kineto;

static void other_request(uint8_t **buffer, size_t *size, size_t *max)
{
    *max = *size = 0;
    *buffer = NULL;
    for (size_t i = 0; i < sizeof kineto.lent / sizeof *kineto.lent && !*buffer; i++)
        if (!kineto.lent[i])
            *buffer = kineto.lent[i] = calloc(1, *size = 1u << 20);
}

/* As Kineto: a buffer that it has not lent is an error in its log, and what is in it is lost. */
static void other_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                           size_t valid)
{
    uint8_t *at = NULL;
    (void)context;
    (void)stream;
    (void)size;
    for (size_t i = 0; i < sizeof kineto.lent / sizeof *kineto.lent; i++)
        if (kineto.lent[i] == buffer) {
            kineto.lent[i] = NULL;
            for (uint32_t kind; !cuptiActivityGetNextRecord(buffer, valid, &at);) {
                memcpy(&kind, at, sizeof kind);
                kineto.kernels += kind == 10;
            }
            free(buffer);
            return;
        }
    log_note("kineto", 0, "unknown buffer");
}

static const int kineto_kinds[] = {1, 2, 4, 5, 10, 17, 38, 39};

static void other_callback(void *user, int domain, uint32_t cbid, const void *data)
{
    (void)user;
    (void)domain;
    (void)cbid;
    (void)data;
}

static void kineto_begin(const char *how)
{
    if (kineto.state == 0 || !strcmp(how, "jax"))
        kineto.state =
            !strcmp(how, "new") || !cuptiSubscribe(&kineto.subscriber, other_callback, NULL) ? 1
                                                                                             : -1;
    if (kineto.state < 0) {
        log_note("kineto", 0, "refused");
        return;
    }
    uint64_t before = fake.kinds;
    if (strcmp(how, "jax") != 0)
        change_clock();
    cuptiActivityRegisterCallbacks(other_request, other_complete);
    for (size_t i = 0; i < sizeof kineto_kinds / sizeof *kineto_kinds; i++)
        cuptiActivityEnable(kineto_kinds[i]);
    log_note("kineto", before, "kinds that were on");
    cuptiActivityPushExternalCorrelationId(3, 1);
    pthread_mutex_lock(&fake.lock);
    fake.foreign = true;
    pthread_mutex_unlock(&fake.lock);
}

void fake_kineto(int begin)
{
    const char *how = getenv("FAKE_KINETO") ? getenv("FAKE_KINETO") : "";
    uint8_t off = 0;
    size_t one = 1;
    uint64_t id;
    if (begin) {
        kineto_begin(how);
        return;
    }
    if (kineto.state < 0)
        return;
    cuptiActivityPopExternalCorrelationId(3, &id);
    for (size_t i = 0; i < sizeof kineto_kinds / sizeof *kineto_kinds; i++)
        cuptiActivityDisable(kineto_kinds[i]);
    cuptiActivityFlushAll(1);
    cuptiActivitySetAttribute(9, &one, &off);
    if (!strcmp(how, "jax"))
        cuptiUnsubscribe(kineto.subscriber);
    fake.foreign = false;
    log_note("kineto", kineto.kernels, "kernels");
}
