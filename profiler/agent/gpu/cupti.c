/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording of device work from start to end: the subscription to CUPTI, the flush thread, and
 * noticing that another profiler took the records.
 *
 * CUPTI has one pair of buffer callbacks for the whole process, and torch.profiler replaces it
 * without an error. When no record has come for two seconds, launches are therefore counted by
 * callback for one second. If there were launches and CUPTI neither called the agent nor wrote into
 * one of its buffers, another profiler has the records. The gap ends when that profiler reports its
 * end (tacho_device_profiler, called by the Python hook), or when launches no longer carry the
 * external ids that Kineto puts on them.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "profiler/agent/gpu/gpu_counters.h"

#define TICK_NS     100000000 /* the flush thread looks at the control word and at free buffers */
#define FLUSH_TICKS 10u       /* between flushes */
#define SILENT      2u        /* flushes without a record before launches are counted */
/* Flushes with launches that carry no foreign id before the records are taken back. */
#define QUIET      3u
#define END_WAIT_S 3 /* for a flush that is under way when the process ends */

static struct {
    void *subscriber;
    pthread_mutex_t flush;                  /* one flush at a time */
    _Atomic uint32_t launches, foreign_ids; /* counted while probing */
    _Atomic uint32_t probing, announced;    /* by tacho_device_profiler */
    uint32_t silent, quiet;
    uint64_t seen_requests, seen_completions;
    int64_t alive_at; /* CLOCK_MONOTONIC ns */
} state = {.flush = PTHREAD_MUTEX_INITIALIZER};

/* ---- another profiler ---- */

static const struct {
    enum cupti_domain domain;
    uint32_t cbid;
} launch_call[] = {
#define DRIVER(name, id)  {CUPTI_DOMAIN_DRIVER, id},
#define RUNTIME(name, id) {CUPTI_DOMAIN_RUNTIME, id},
    CUPTI_DRIVER_LAUNCH_MAP(DRIVER) CUPTI_RUNTIME_LAUNCH_MAP(RUNTIME)
#undef DRIVER
#undef RUNTIME
};

/* Counts launches by callback from now on, or no longer. Callbacks cost time in every launch, so
 * they are on only while it is unclear who has the records. */
static void probe(bool on)
{
    if (!agent_cuda.cupti.EnableCallback || !state.subscriber ||
        on == (relaxed_load(&state.probing) != 0))
        return;
    relaxed_store(&state.launches, 0);
    relaxed_store(&state.foreign_ids, 0);
    for (size_t i = 0; i < sizeof launch_call / sizeof *launch_call; i++)
        agent_cuda.cupti.EnableCallback(on, state.subscriber, (int)launch_call[i].domain,
                                        launch_call[i].cbid);
    relaxed_store(&state.probing, on);
}

/* Whether the launch carries an external id that another profiler pushed. The id is popped and
 * pushed again on the thread of the launch. */
static bool foreign_id(void)
{
    const struct cupti *cupti = &agent_cuda.cupti;
    uint64_t id = 0;
    if (!cupti->ActivityPopExternalCorrelationId || !cupti->ActivityPushExternalCorrelationId)
        return true; /* not known: then the records are never taken back here */
    for (int kind = CUPTI_EXTERNAL_CUSTOM0; kind <= CUPTI_EXTERNAL_CUSTOM1; kind++)
        if (cupti->ActivityPopExternalCorrelationId(kind, &id) == CUPTI_OK) {
            cupti->ActivityPushExternalCorrelationId(kind, id);
            return true;
        }
    return false;
}

/* CUPTI's callback: an unloaded module makes the names of kernels unsafe to reuse; launches are
 * counted while probing. */
static void on_callback(void *user, int domain, uint32_t cbid, const void *data)
{
    (void)user;
    if (!agent_cuda_live())
        return;
    if (domain == CUPTI_DOMAIN_RESOURCE) {
        if (cbid == CUPTI_RESOURCE_MODULE_UNLOAD)
            atomic_fetch_add_explicit(&agent_cuda.epoch, 1, memory_order_acq_rel);
        return;
    }
    const struct cupti_callback_data *call = data;
    if (!call || call->site != CUPTI_SITE_ENTER)
        return;
    relaxed_add(&state.launches, 1);
    if (relaxed_load(&agent_cuda.taken) && foreign_id())
        relaxed_add(&state.foreign_ids, 1);
}

/* Another profiler has had the records since `from`. */
static void gap_begin(int64_t from)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t gaps = relaxed_load(&gpu->gaps);
    struct wire_gpu_gap *gap = &gpu->gap[gaps % WIRE_GPU_GAPS];
    relaxed_store(&gap->t1, 0);
    relaxed_store(&gap->t0, from);
    atomic_store_explicit(&gpu->gaps, gaps + 1, memory_order_release);
    atomic_store_explicit(&agent_cuda.taken, 1, memory_order_release);
}

/* Registers the agent's buffers again and closes the gap. */
static void take_back(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t gaps = relaxed_load(&gpu->gaps);
    agent_capture_restart();
    atomic_store_explicit(&gpu->gap[(gaps - 1) % WIRE_GPU_GAPS].t1,
                          (int64_t)agent_clock_monotonic(), memory_order_release);
    state.silent = state.quiet = 0;
    state.alive_at = (int64_t)agent_clock_monotonic();
    probe(false);
}

static void flush(uint32_t flag)
{
    pthread_mutex_lock(&state.flush);
    agent_cuda.cupti.ActivityFlushAll(flag);
    pthread_mutex_unlock(&state.flush);
}

/* Have our callbacks been called since the last look? Only who is registered is called. */
static bool called(void)
{
    uint64_t requests = relaxed_load(&agent_cuda.requests);
    uint64_t completions = relaxed_load(&agent_cuda.completions);
    bool any = requests != state.seen_requests || completions != state.seen_completions;
    state.seen_requests = requests;
    state.seen_completions = completions;
    return any;
}

/* While another profiler has the records: takes them back when it is clear that it no longer
 * wants them. */
static void watch_taken(void)
{
    uint32_t launches = atomic_exchange_explicit(&state.launches, 0, memory_order_relaxed);
    uint32_t foreign = atomic_exchange_explicit(&state.foreign_ids, 0, memory_order_relaxed);
    if (atomic_load_explicit(&state.announced, memory_order_acquire))
        return;
    if (called()) { /* the agent had the records all the time, or has them again */
        take_back();
        return;
    }
    probe(true);
    if (launches)
        state.quiet = foreign ? 0 : state.quiet + 1;
    if (state.quiet >= QUIET)
        take_back();
}

/* Runs once a flush. Silence may mean that nothing was launched, or that another profiler has the
 * records: so launches are counted for a while before a gap begins. */
static void watch(void)
{
    if (atomic_load_explicit(&agent_cuda.taken, memory_order_acquire)) {
        watch_taken();
        return;
    }
    int64_t now = (int64_t)agent_clock_monotonic();
    bool written = agent_buffer_written();
    if (called() || written || !agent_capture_enabled()) {
        state.silent = 0;
        state.alive_at = now;
        probe(false);
        return;
    }
    if (++state.silent < SILENT)
        return;
    if (!relaxed_load(&state.probing)) {
        probe(true);
        return;
    }
    if (!relaxed_load(&state.launches))
        return; /* nothing was launched, so nothing is missing */
    gap_begin(state.alive_at);
    state.quiet = 0;
}

void agent_cupti_foreign(bool active)
{
    if (!agent_cuda_live() || relaxed_load(&agent_cuda.gpu->state) != WIRE_GPU_ON)
        return;
    if (active) {
        atomic_store_explicit(&state.announced, 1, memory_order_release);
        flush(0);
        if (!relaxed_load(&agent_cuda.taken))
            gap_begin((int64_t)agent_clock_monotonic());
    } else if (atomic_exchange_explicit(&state.announced, 0, memory_order_acq_rel)) {
        take_back();
    }
}

/* ---- the flush thread ---- */

/* The flush thread: every tick the control file and the free buffers, every tenth a flush, a
 * reading of the clocks, and a look at who has the records. */
static void *flush_main(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, "tacho-gpu");
    for (uint32_t tick = 1; !atomic_load_explicit(&agent_cuda.stop, memory_order_acquire); tick++) {
        struct timespec pause = {.tv_nsec = TICK_NS};
        syscall(SYS_futex, &agent_cuda.wake, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
        if (atomic_load_explicit(&agent_cuda.stop, memory_order_acquire))
            break;
        agent_cupti_window(-1);
        if (relaxed_load(&agent_cuda.want_buffers) || tick % FLUSH_TICKS == 0)
            agent_buffer_grow();
        if (tick % FLUSH_TICKS)
            continue;
        if (!atomic_load_explicit(&agent_cuda.taken, memory_order_acquire))
            flush(0);
        agent_buffer_anchor();
        watch();
    }
    return NULL;
}

/* ---- start and end ---- */

/* Records the stage at which the start of CUPTI failed, for the collector. Always false. */
static bool refuse(enum wire_gpu_stage stage, int error)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    relaxed_store(&gpu->error, (uint32_t)error);
    relaxed_store(&gpu->stage, stage);
    atomic_store_explicit(&gpu->state, WIRE_GPU_FAILED, memory_order_release);
    return false;
}

/* One subscriber a process is allowed. The newer call names the one that is there already, for
 * the message. */
static int subscribe(void)
{
    struct cupti *cupti = &agent_cuda.cupti;
    char old[CUPTI_OLD_NAME_BYTES] = "";
    struct cupti_subscriber_params params = {
        .struct_size = sizeof params, .name = "tacho", .old = old, .old_size = sizeof old};
    int rc = CUPTI_OK;
    if (cupti->Subscribe_v2)
        rc = cupti->Subscribe_v2(&state.subscriber, on_callback, NULL, &params);
    else if (cupti->Subscribe)
        rc = cupti->Subscribe(&state.subscriber, on_callback, NULL);
    if (rc)
        memcpy(agent_cuda.gpu->holder, old, sizeof old);
    agent_cuda.gpu->holder[sizeof agent_cuda.gpu->holder - 1] = 0;
    return rc;
}

static uint64_t timestamp(void)
{
    return agent_clock_monotonic();
}

/* Settings that CUPTI wants before the first kind is enabled. All are optional. */
static void configure(void)
{
    struct cupti *cupti = &agent_cuda.cupti;
    size_t one_byte = 1;
    uint8_t yes = 1;
    if (cupti->SetThreadIdType)
        cupti->SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
    if (cupti->ActivitySetAttribute)
        cupti->ActivitySetAttribute(CUPTI_ATTR_ZEROED_BUFFER, &one_byte, &yes);
    /* CUPTI's own clock needs no callback: anchors tie it to ours. On request, where the callback
     * is known to be safe. */
    if (agent_cupti_option("timestamp-callback") &&
        agent_cuda.gpu->cupti_version >= CUPTI_VERSION_TIMESTAMP_OK &&
        cupti->ActivityRegisterTimestampCallback)
        cupti->ActivityRegisterTimestampCallback(timestamp);
    if (cupti->EnableCallback && state.subscriber)
        cupti->EnableCallback(1, state.subscriber, CUPTI_DOMAIN_RESOURCE,
                              CUPTI_RESOURCE_MODULE_UNLOAD);
}

bool agent_cupti_start(void)
{
    struct agent_cuda *self = &agent_cuda;
    struct wire_gpu *gpu = self->gpu;
    enum wire_gpu_stage stage;
    if (!agent_cupti_find(&self->cupti, gpu->driver_version, gpu->library, sizeof gpu->library,
                          &stage))
        return refuse(stage, 0);
    if (self->cupti.GetVersion)
        self->cupti.GetVersion(&gpu->cupti_version);
    int rc = subscribe();
    if (rc)
        return refuse(WIRE_GPU_STAGE_SUBSCRIBE, rc);
    agent_capture_open();
    configure();
    agent_buffer_anchor();
    if ((rc = self->cupti.ActivityRegisterCallbacks(agent_buffer_request, agent_buffer_complete)) !=
        0)
        stage = WIRE_GPU_STAGE_REGISTER;
    if (!rc && (rc = agent_capture_begin()) != 0)
        stage = WIRE_GPU_STAGE_ENABLE;
    if (!rc && !agent_background(flush_main, 256u << 10)) {
        stage = WIRE_GPU_STAGE_THREAD;
        rc = errno;
        agent_capture_end();
    }
    if (rc) {
        if (state.subscriber && self->cupti.Unsubscribe)
            self->cupti.Unsubscribe(state.subscriber);
        return refuse(stage, rc);
    }
    state.alive_at = (int64_t)agent_clock_monotonic();
    atomic_store_explicit(&gpu->state, WIRE_GPU_ON, memory_order_release);
    agent_counters_start();
    return true;
}

void agent_cupti_end(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    if (!agent_cuda_live() || relaxed_load(&gpu->state) != WIRE_GPU_ON)
        return;
    agent_counters_end();
    atomic_store_explicit(&agent_cuda.stop, 1, memory_order_release);
    atomic_store_explicit(&agent_cuda.wake, 1, memory_order_release);
    syscall(SYS_futex, &agent_cuda.wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_WAIT_S;
    if (pthread_mutex_timedlock(&state.flush, &until) == 0) {
        if (!atomic_load_explicit(&agent_cuda.taken, memory_order_acquire))
            agent_cuda.cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
        pthread_mutex_unlock(&state.flush);
        agent_buffer_anchor();
    } else {
        agent_lose(WIRE_LOSS_GPU_LATE, 1);
    }
    atomic_store_explicit(&gpu->state, WIRE_GPU_ENDED, memory_order_release);
}
