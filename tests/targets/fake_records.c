/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of the substitute libcupti, in the layout of the version that is asked for, and the
 * buffers they are written to. Layouts are written down here once more, on purpose: from the
 * headers, not from the decoder.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_cupti.h"

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
    unsigned v = fake_version();
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

size_t fake_record_bytes(uint32_t kind)
{
    unsigned v = fake_version();
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
void fake_log_note(const char *who, unsigned long long a, const char *b)
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

void fake_give_back(struct slot *s)
{
    uint8_t *at = s->at;
    s->at = NULL;
    s->busy = 0;
    if (fake.complete)
        fake.complete((void *)0x1000, 0, at, s->size, s->used);
}

/* Full buffers come back once their work has ended, or all of them. */
void fake_give_back_full(bool all)
{
    uint64_t time = fake_now();
    for (int i = 0; i < FULL; i++)
        if (fake.full[i].at && (all || fake.full[i].busy <= time))
            fake_give_back(&fake.full[i]);
}

/* A buffer is full: it waits for its work if there is a place for it. */
static void fill_up(struct slot *s)
{
    for (int i = 0; i < FULL && s->at && s->busy > fake_now(); i++)
        if (!fake.full[i].at) {
            fake.full[i] = *s;
            s->at = NULL;
            s->busy = 0;
        }
    if (s->at)
        fake_give_back(s);
}

static struct slot *slot_of_thread(void)
{
    bool shared = fake.shared || fake_version() < 130000;
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
    size_t bytes = fake_record_bytes(kind);
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
    uint8_t *r = fake.driver[cbid] && !fake_fault("deaf") ? record(4) : NULL;
    if (!r)
        return;
    put32(r, 4, cbid);
    put64(r, 8, fake_stamp(start));
    put64(r, 16, fake_stamp(fake_now()));
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
    uint64_t end = fake_now();
    if (!r)
        return;
    put32(r, 4, cbid);
    put64(r, 8, fake_stamp(start));
    put64(r, 16, fake_stamp(end));
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
    uint64_t start = c->start ? c->start : fake_now();
    uint64_t end = c->end ? c->end : start + 700 + correlation % 100;
    int every = fake_fault_number("zero");
    if (every && ++fake.kernels % (unsigned)every == 0)
        start = end = 0;
    if (c->endless) {
        start = end = 0;
        keep_until(UINT64_MAX);
    }
    keep_until(end);
    r[6] = 32; /* registers */
    put64(r, 16, fake_stamp(start));
    put64(r, 24, fake_stamp(end));
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
    uint64_t start = c->start ? c->start : fake_now();
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
    put64(r, 16, fake_stamp(start));
    put64(r, 24, fake_stamp(end));
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
        if (fake_record_bytes(36) == 56)
            put64(r, 48, ++fake.event_record);
        log_record(36, correlation, 0, 0, c->stream, c->event, "-");
        return;
    }
    uint64_t end = fake_now();
    put32(r, 4, c->what == FAKE_WAIT ? 2 : 3);
    put64(r, 8, fake_stamp(start));
    put64(r, 16, fake_stamp(end));
    put32(r, 24, correlation);
    put32(r, 28, 1);
    put32(r, 32, c->stream);
    put32(r, 36, c->what == FAKE_WAIT ? c->event : 0);
    if (fake_record_bytes(38) == 56 && c->what == FAKE_WAIT)
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
    put64(r, 8, fake_stamp(start));
    put64(r, 16, fake_stamp(fake_now()));
    put32(r, 24, correlation);
    put32(r, 28, 1);
    put32(r, 32, c->stream);
    put32(r, 36, c->event);
    if (fake_record_bytes(38) == 56)
        put32(r, 48, 600); /* CUDA_ERROR_NOT_READY */
    fake_log_note("query", correlation, "recorded");
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
    uint64_t start = c->start ? c->start : fake_now(), end = c->end ? c->end : start + 5000;
    keep_until(end);
    put32(r, 4, correlation);
    put64(r, 8, fake_stamp(start));
    put64(r, 16, fake_stamp(end));
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
    put64(r, 32, fake_stamp(fake_now()));
    put32(r, 56, 1);
}

/* A function of the host on a stream, launched by itself or as a node of a graph. */
static void put_host(const struct fake_call *c, uint32_t correlation)
{
    uint32_t kind = c->graph_node ? 56 : 58;
    uint8_t *r = record(kind);
    if (!r)
        return;
    uint64_t start = fake_now(), end = start + 3000;
    put32(r, 4, c->stream);
    put32(r, 8, 1);
    put32(r, 16, correlation);
    if (kind == 56) {
        put32(r, 20, 7);
        put64(r, 24, c->graph_node);
    }
    put32(r, kind == 56 ? 36 : 24, (uint32_t)syscall(SYS_gettid));
    put64(r, kind == 56 ? 40 : 32, fake_stamp(start));
    put64(r, kind == 56 ? 48 : 40, fake_stamp(end));
    log_record(kind, correlation, start, end, c->stream, 0, "-");
}

void fake_on_call(struct fake_call *c)
{
    struct {
        int site;
        const char *name;
    } data = {0, "call"};
    uint32_t cbid = c->what == FAKE_GRAPH ? 514 : 307;
    callback_fn callback = fake.callback;
    if ((c->what == FAKE_LAUNCH || c->what == FAKE_GRAPH) && callback && fake.callbacks[cbid])
        callback(fake.user, 1, cbid, &data);
    uint64_t start = fake_now();
    pthread_mutex_lock(&fake.lock);
    fake_give_back_full(false);
    uint32_t correlation = ++fake.correlation;
    if (c->what == FAKE_GRAPH && fake.session > 1 && fake_version() < 130101)
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
    while (c->host_ns && fake_now() < start + c->host_ns)
        continue;
    if (c->what != FAKE_HOST && c->what != FAKE_MEMORY)
        put_api(c, correlation, start);
    pthread_mutex_unlock(&fake.lock);
}

void fake_put_objects(void)
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
        put64(r, 136, (uint64_t)(uintptr_t)(fake_fault("mig") ? slice : name));
        if (fake_fault("mig") && fake_record_bytes(8) >= 176) {
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
