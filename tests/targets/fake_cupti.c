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
 * kind -", what that stand-in got as "pid kineto what number".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "fake_cupti.h"

struct fake_cupti fake = {.log = -1};
static __thread unsigned external_depth;

unsigned fake_version(void)
{
    const char *text = getenv("FAKE_CUPTI_VERSION");
    return text ? (unsigned)atoi(text) : 130001;
}

const char *fake_fault(const char *word)
{
    const char *at = getenv("FAKE_CUPTI");
    size_t n = strlen(word);
    for (; at && (at = strstr(at, word)); at += n)
        if ((at[n] == '=' || at[n] == ' ' || !at[n]))
            return at[n] == '=' ? at + n + 1 : "1";
    return NULL;
}

int fake_fault_number(const char *word)
{
    const char *text = fake_fault(word);
    return text ? atoi(text) : 0;
}

uint64_t fake_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The clock that the stand-in for torch.profiler makes CUPTI's: counts otherwise than ns. */
uint64_t fake_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return (fake_now() & 0xffffffffffffull) * 2;
#endif
}

static uint64_t loaded_real, loaded_ticks; /* both clocks when the library was loaded */

__attribute__((constructor)) static void note_clocks(void)
{
    loaded_real = fake_now();
    loaded_ticks = fake_ticks();
}

/* Makes the other clock CUPTI's, for good. */
void fake_change_clock(void)
{
    if (fake.rate == 0)
        fake.rate = (double)(fake_ticks() - loaded_ticks) / (double)(fake_now() - loaded_real);
}

/* A time as it is in records: CUPTI's clock is CLOCK_REALTIME until a profiler changes it. */
uint64_t fake_stamp(uint64_t real)
{
    return fake.rate == 0 || !real
               ? real
               : loaded_ticks + (uint64_t)((double)(real - loaded_real) * fake.rate);
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
        set(fake_on_call);
}

int cuptiGetVersion(uint32_t *v)
{
    int rc = fake_fault_number("version");
    if (rc == 0)
        *v = fake_version();
    return rc;
}

/* Is this copy of the library one that the driver is too old for? */
static bool too_new(void)
{
    const char *part = fake_fault("newer");
    Dl_info where;
    char text[256];
    if (!part || !dladdr((void *)(uintptr_t)cuptiGetVersion, &where))
        return false;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(part, " "), part);
    return strstr(where.dli_fname, text) != NULL;
}

int cuptiGetTimestamp(uint64_t *t)
{
    *t = fake.rate == 0 ? fake_now() : fake_ticks();
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
    int rc = fake_fault_number("subscribe");
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
    const char *holder = fake_fault("holder");
    bool long_enough = p && p->size >= sizeof *p && fake_version() >= 130300;
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
    if (joined || !fake_fault("joins"))
        return;
    joined = true;
    fake_log_note("kineto", (unsigned long long)cuptiSubscribe_v2(&unused, NULL, NULL, &params),
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
    const char *text = fake_fault("enable");
    if (text || too_new())
        return text ? atoi(text) : 15;
    pthread_mutex_lock(&fake.lock);
    if ((kind == 56 || kind == 58) && fake_version() < 130100) {
        pthread_mutex_unlock(&fake.lock);
        return 21;
    }
    bool fresh = !(fake.kinds >> kind & 1);
    fake_log_note("enable", (unsigned long long)kind, "-");
    fake.session += fake.kinds == 0;
    fake.kinds |= (uint64_t)1 << kind;
    if (kind == 5)
        for (size_t i = 0; i < sizeof fake.muted / sizeof *fake.muted; i++)
            fake.muted[i] = false;
    for (size_t i = 0; kind == 4 && i < sizeof fake.driver / sizeof *fake.driver; i++)
        fake.driver[i] = true;
    if (fresh && kind == 37)
        fake_put_objects();
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int cuptiActivityDisable(int kind)
{
    fake_log_note("disable", (unsigned long long)kind, "-");
    fake.kinds &= ~((uint64_t)1 << kind);
    for (size_t i = 0; kind == 4 && i < sizeof fake.driver / sizeof *fake.driver; i++)
        fake.driver[i] = false;
    fake.no_single_calls |= kind == 4;
    return 0;
}

int cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete)
{
    int rc = fake_fault_number("register");
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    fake.dropped += fake.request && fake.request != request;
    fake.request = fake_fault("null") ? NULL : request;
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
        from = (size_t)(*at - buffer) + fake_record_bytes(kind);
    }
    if (from + 24 > valid)
        return 12;
    memcpy(&kind, buffer + from, 4);
    if (kind == 0)
        return 21;
    if (kind == 0x7fffffff)
        return 12;
    if (from + fake_record_bytes(kind) > valid)
        return 12;
    *at = buffer + from;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
    (void)context;
    (void)stream;
    pthread_mutex_lock(&fake.lock);
    *n = (size_t)fake_fault_number("dropped") + fake.dropped;
    fake.dropped = 0;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int cuptiActivityFlushAll(uint32_t flag)
{
    int rc = fake_fault_number("flush");
    if (rc)
        return rc;
    if (!(flag & 1) && fake_fault("lazy"))
        return 0;
    pthread_mutex_lock(&fake.lock);
    uint64_t time = fake_now();
    fake_give_back_full(flag & 1);
    for (int i = 0; i < THREADS; i++)
        if (fake.slot[i].at && fake.slot[i].used && (flag & 1 || fake.slot[i].busy <= time))
            fake_give_back(&fake.slot[i]);
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
    fake_log_note("set", (unsigned long long)attribute, text);
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
    if (fake_fault("allsync"))
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
