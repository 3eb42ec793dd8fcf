/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording of device work from start to end: the flush thread, and giving the records up to
 * another profiler of the process and taking them back.
 *
 * CUPTI has one pair of buffer callbacks and one subscriber for the whole process. Records need no
 * subscription, so the agent takes none: torch.profiler subscribes at its first use until August
 * 2026, and records no device work in a process where that fails. At the start the agent subscribes
 * for a moment, to find out whether a tool like Nsight is there.
 *
 * The callbacks are replaced by whoever comes later, without an error. The Python hook tells when
 * torch.profiler begins and ends (tacho_device_profiler); the agent gives its buffers back before
 * that, and takes the records again after it. Where it is not told, silence is looked into: after
 * two seconds without a record the agent makes a call of its own, which CUPTI records. If that
 * record does not come either, another profiler has the records. That gap ends when the agent's
 * callbacks are called again; or, where the other profiler holds no subscription, when launches no
 * longer carry the external ids that Kineto puts on them.
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
#define SILENT      2u /* flushes without a record before the agent makes a call of its own */
/* Flushes with launches that carry no foreign id before the records are taken back. */
#define QUIET      3u
#define END_WAIT_S 3 /* for a flush that is under way when the process ends */
/* How long kernels that run may take to end before another profiler gets the device. */
#define HAND_OVER_TRIES 20
#define HAND_OVER_NS    10000000

static struct {
    void *subscriber;                       /* while launches are counted; else NULL */
    pthread_mutex_t flush;                  /* one flush at a time */
    pthread_mutex_t turn;                   /* who has the records; taken before `flush` */
    _Atomic uint32_t launches, foreign_ids; /* counted while probing */
    _Atomic uint32_t announced;             /* by tacho_device_profiler, maybe before the start */
    _Atomic uint32_t seen;                  /* it was announced at least once */
    uint32_t silent, quiet;
    bool tried, hears; /* a call of the agent's own was made; CUPTI recorded it */
    uint64_t seen_requests, seen_completions;
    int64_t alive_at; /* CLOCK_MONOTONIC ns */
} state = {.flush = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_MUTEX_INITIALIZER};

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

static void on_callback(void *user, int domain, uint32_t cbid, const void *data);

/* One subscriber a process is allowed. The newer call names the one that is there already, for
 * the message. `several`: let others subscribe, too, where CUPTI can. */
static int subscribe(bool several)
{
    struct cupti *cupti = &agent_cuda.cupti;
    struct wire_gpu *gpu = agent_cuda.gpu;
    char old[CUPTI_OLD_NAME_BYTES] = "";
    struct cupti_subscriber_params params = {.struct_size = CUPTI_SUBSCRIBER_PARAMS_OLD_BYTES,
                                             .name = "tacho",
                                             .old = old,
                                             .old_size = sizeof old};
    int rc = CUPTI_OK;
    if (gpu->cupti_version >= CUPTI_VERSION_SEVERAL) {
        params.struct_size = sizeof params;
        params.several = several;
    }
    if (cupti->Subscribe_v2)
        rc = cupti->Subscribe_v2(&state.subscriber, on_callback, NULL, &params);
    else if (cupti->Subscribe)
        rc = cupti->Subscribe(&state.subscriber, on_callback, NULL);
    if (rc) {
        memcpy(gpu->holder, old, sizeof old);
        state.subscriber = NULL;
    }
    gpu->holder[sizeof gpu->holder - 1] = 0;
    return rc;
}

static void unsubscribe(void)
{
    if (state.subscriber && agent_cuda.cupti.Unsubscribe)
        agent_cuda.cupti.Unsubscribe(state.subscriber);
    state.subscriber = NULL;
}

/* Counts launches by callback from now on. Callbacks cost time in every launch, and take the one
 * subscription, so they are on only while another profiler that holds no subscription has the
 * records. */
static void count_launches(void)
{
    if (state.subscriber || !agent_cuda.cupti.EnableCallback || !agent_cuda.cupti.Unsubscribe ||
        subscribe(true))
        return;
    relaxed_store(&state.launches, 0);
    relaxed_store(&state.foreign_ids, 0);
    for (size_t i = 0; i < sizeof launch_call / sizeof *launch_call; i++)
        agent_cuda.cupti.EnableCallback(1, state.subscriber, (int)launch_call[i].domain,
                                        launch_call[i].cbid);
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

/* CUPTI's callback, while launches are counted. */
static void on_callback(void *user, int domain, uint32_t cbid, const void *data)
{
    const struct cupti_callback_data *call = data;
    (void)user;
    (void)domain;
    (void)cbid;
    if (!agent_cuda_live() || !call || call->site != CUPTI_SITE_ENTER)
        return;
    relaxed_add(&state.launches, 1);
    if (foreign_id())
        relaxed_add(&state.foreign_ids, 1);
}

/* Another profiler has had the records since `from`. */
static void gap_begin(int64_t from)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t gaps = relaxed_load(&gpu->gaps);
    struct wire_gpu_gap *gap = &gpu->gap[gaps % WIRE_GPU_GAPS];
    agent_buffer_mark();
    relaxed_store(&gap->t1, 0);
    relaxed_store(&gap->t0, from);
    atomic_store_explicit(&gpu->gaps, gaps + 1, memory_order_release);
    atomic_store_explicit(&agent_cuda.taken, 1, memory_order_release);
}

static void flush(uint32_t flag)
{
    pthread_mutex_lock(&state.flush);
    atomic_store_explicit(&agent_cuda.forcing, flag == CUPTI_FLUSH_FORCED, memory_order_release);
    agent_cuda.cupti.ActivityFlushAll(flag);
    atomic_store_explicit(&agent_cuda.forcing, 0, memory_order_release);
    pthread_mutex_unlock(&state.flush);
}

/* Registers the agent's buffers again and closes the gap. What CUPTI still holds comes back with a
 * forced flush, so a buffer that is lent after it went to the other profiler, which ignored it. */
static void take_back(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t gaps = relaxed_load(&gpu->gaps);
    unsubscribe();
    agent_buffer_register();
    flush(CUPTI_FLUSH_FORCED);
    agent_buffer_reclaim();
    agent_buffer_anchor(); /* the other profiler may have changed CUPTI's clock */
    agent_capture_restart();
    atomic_store_explicit(&gpu->gap[(gaps - 1) % WIRE_GPU_GAPS].t1,
                          (int64_t)agent_clock_monotonic(), memory_order_release);
    state.silent = state.quiet = 0;
    state.alive_at = (int64_t)agent_clock_monotonic();
}

/* Everything that CUPTI has of the agent's comes back before another profiler registers its own
 * buffers: kernels that run get a moment to end, then records without an end are taken, too. */
static void give_up(void)
{
    struct timespec pause = {.tv_nsec = HAND_OVER_NS};
    agent_capture_end();
    flush(0);
    for (int i = 0; i < HAND_OVER_TRIES && agent_buffer_lent(); i++) {
        nanosleep(&pause, NULL);
        flush(0);
    }
    flush(CUPTI_FLUSH_FORCED);
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

/* Makes a call that CUPTI records if the agent has the records: nothing else is sure to happen in a
 * process that waits. */
static void call_once(void)
{
    int version;
    if (!agent_cuda.cupti.ActivityEnableDriverApi || !agent_cuda.driver_version)
        return;
    agent_cuda.cupti.ActivityEnableDriverApi(WIRE_GPU_OWN_CALL, 1);
    agent_cuda.driver_version(&version);
    agent_cuda.cupti.ActivityEnableDriverApi(WIRE_GPU_OWN_CALL, 0);
}

/* Whether the agent's own call is recorded while it surely has the records: once, after the start.
 * If not, silence means nothing, and no gap is ever declared. */
static void try_own_call(void)
{
    agent_buffer_written();
    called();
    call_once();
    state.hears = agent_buffer_written() || called();
    state.tried = true;
}

/* While another profiler has the records: takes them back when it is clear that it no longer
 * wants them. */
static void watch_taken(void)
{
    if (atomic_load_explicit(&state.announced, memory_order_acquire))
        return;
    if (called()) { /* the agent had the records all the time, or has them again */
        take_back();
        return;
    }
    count_launches();
    uint32_t launches = atomic_exchange_explicit(&state.launches, 0, memory_order_relaxed);
    uint32_t foreign = atomic_exchange_explicit(&state.foreign_ids, 0, memory_order_relaxed);
    if (launches)
        state.quiet = foreign ? 0 : state.quiet + 1;
    if (state.quiet >= QUIET)
        take_back();
}

/* Runs once a flush, by turns with agent_cupti_foreign. Silence may mean that nothing was launched,
 * or that another profiler has the records: so the agent makes a call of its own before a gap
 * begins. */
static void watch(void)
{
    if (atomic_load_explicit(&agent_cuda.taken, memory_order_acquire)) {
        watch_taken();
        return;
    }
    int64_t now = (int64_t)agent_clock_monotonic();
    bool written = agent_buffer_written(), alive = called() || written;
    if (alive || !agent_capture_enabled()) {
        state.silent = 0;
        state.alive_at = now;
        if (agent_capture_enabled() && !state.tried)
            try_own_call();
        return;
    }
    if (!state.tried)
        try_own_call();
    else if (state.hears && ++state.silent == SILENT)
        call_once();
    else if (state.silent > SILENT) {
        gap_begin(state.alive_at);
        state.quiet = 0;
    }
}

void agent_cupti_foreign(bool active)
{
    if (active)
        relaxed_store(&state.seen, 1);
    bool before = atomic_exchange_explicit(&state.announced, active, memory_order_acq_rel);
    if (!agent_process || !agent_cuda_live() || relaxed_load(&agent_cuda.gpu->state) != WIRE_GPU_ON)
        return;
    pthread_mutex_lock(&state.turn);
    bool taken = relaxed_load(&agent_cuda.taken);
    if (active && !taken) {
        gap_begin((int64_t)agent_clock_monotonic());
        give_up();
    } else if (!active && before && taken) {
        take_back();
    }
    pthread_mutex_unlock(&state.turn);
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
        agent_capture_waits();
        if (relaxed_load(&agent_cuda.want_buffers) || tick % FLUSH_TICKS == 0)
            agent_buffer_grow();
        if (tick % FLUSH_TICKS)
            continue;
        if (!atomic_load_explicit(&agent_cuda.taken, memory_order_acquire))
            flush(0);
        agent_capture_waits(); /* the flush may have brought what it asks for */
        agent_buffer_anchor();
        if (pthread_mutex_trylock(&state.turn) == 0) {
            watch();
            pthread_mutex_unlock(&state.turn);
        }
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

static uint64_t timestamp(void)
{
    return agent_clock_monotonic();
}

/* CUPTI's own clock needs no callback: anchors tie it to ours. On request, where the callback is
 * known to be safe; registered once and never again. */
static void register_clock(void)
{
    const struct cupti *cupti = &agent_cuda.cupti;
    if (agent_cupti_option("timestamp-callback") &&
        agent_cuda.gpu->cupti_version >= CUPTI_VERSION_TIMESTAMP_OK &&
        cupti->ActivityRegisterTimestampCallback)
        cupti->ActivityRegisterTimestampCallback(timestamp);
}

/* Begins to record with the library that was found. 0, or CUPTI's result with the stage. If
 * torch.profiler has begun already, the records stay with it until it ends. */
static int begin(enum wire_gpu_stage *stage)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    if (!agent_cuda.cupti.GetVersion || agent_cuda.cupti.GetVersion(&gpu->cupti_version))
        gpu->cupti_version = 0;
    agent_capture_open();
    if (atomic_load_explicit(&state.announced, memory_order_acquire)) {
        gap_begin((int64_t)agent_clock_monotonic());
        return 0;
    }
    int rc = subscribe(false);
    unsubscribe();
    if (rc == CUPTI_MULTIPLE_SUBSCRIBERS && relaxed_load(&state.seen))
        rc = 0; /* torch.profiler, which keeps its subscription after it has ended */
    *stage = rc == CUPTI_MULTIPLE_SUBSCRIBERS ? WIRE_GPU_STAGE_SUBSCRIBE : WIRE_GPU_STAGE_OPEN;
    if (rc)
        return rc;
    agent_capture_configure();
    register_clock();
    agent_buffer_anchor();
    return agent_capture_begin(stage);
}

/* Tries the libraries that are found until one begins to record: a CUPTI may be newer than the
 * driver. The error that is reported is that of the first. */
static int begin_with_any(enum wire_gpu_stage *stage)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    enum wire_gpu_stage missing, first_stage = WIRE_GPU_STAGE_NONE;
    char path[sizeof gpu->library] = "";
    int first = 0;
    for (unsigned i = 0;
         i < CUPTI_REJECTED_MOST &&
         agent_cupti_find(&agent_cuda.cupti, gpu->driver_version, path, sizeof path, &missing);
         i++) {
        int rc = begin(stage);
        if (i == 0 || !rc)
            memcpy(gpu->library, path, sizeof path);
        if (rc != CUPTI_NOT_INITIALIZED && rc != CUPTI_UNKNOWN)
            return rc;
        if (i == 0) {
            first = rc;
            first_stage = *stage;
        }
        agent_cupti_reject(&agent_cuda.cupti);
    }
    *stage = first ? first_stage : missing;
    return first ? first : -1;
}

bool agent_cupti_start(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    enum wire_gpu_stage stage = WIRE_GPU_STAGE_NONE;
    int rc = begin_with_any(&stage);
    if (!rc && !agent_background(flush_main, 256u << 10)) {
        stage = WIRE_GPU_STAGE_THREAD;
        rc = errno;
        agent_capture_end();
    }
    if (rc)
        return refuse(stage, rc < 0 ? 0 : rc);
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
        if (!atomic_load_explicit(&agent_cuda.taken, memory_order_acquire)) {
            agent_cuda.cupti.ActivityFlushAll(0); /* then only incomplete records are forced */
            atomic_store_explicit(&agent_cuda.forcing, 1, memory_order_release);
            agent_cuda.cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
        }
        pthread_mutex_unlock(&state.flush);
        agent_buffer_anchor();
    } else {
        agent_lose(WIRE_LOSS_GPU_LATE, 1);
    }
    atomic_store_explicit(&gpu->state, WIRE_GPU_ENDED, memory_order_release);
}
