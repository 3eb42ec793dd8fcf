/* SPDX-License-Identifier: Apache-2.0
 *
 * Subscription, kinds, capture windows, the flush thread, and noticing that another profiler took
 * the records.
 *
 * Taken over: CUPTI has one pair of buffer callbacks for the whole process, and torch.profiler
 * replaces it without an error. So when nothing has come for two seconds, launches are counted by
 * callback for a second; if there were some, and yet CUPTI neither called us nor wrote into any
 * buffer of ours, then it is another's. The gap ends when its profiler says so
 * (tacho_device_profiler, called by the Python hook), or when launches no longer carry the external
 * ids that Kineto puts on them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "profiler/agent/gpu/gpu_counters.h"

#define TICK_NS     100000000 /* the flush thread looks at the control word and at free buffers */
#define FLUSH_TICKS 10u       /* between flushes */
#define SILENT      2u        /* flushes without a record before launches are counted */
#define QUIET \
    3u /* flushes with launches that carry no foreign id before the records are taken back */
#define END_WAIT_S 3 /* for a flush that is under way when the process ends */

static struct {
    void *subscriber;
    pthread_mutex_t flush;  /* one flush at a time */
    pthread_mutex_t window; /* enabling and disabling kinds */
    bool chosen[WIRE_GPU_KINDS];
    _Atomic bool enabled, paused;
    _Atomic uint32_t launches, foreign_ids; /* counted while probing */
    _Atomic uint32_t probing, taken, told;  /* told: by tacho_device_profiler */
    uint32_t silent, quiet;
    uint64_t seen_requests, seen_completions;
    int64_t alive_at; /* CLOCK_MONOTONIC ns */
} state = {.flush = PTHREAD_MUTEX_INITIALIZER, .window = PTHREAD_MUTEX_INITIALIZER};

static const struct {
    int kind, on;
} kind_table[] = {
#define KIND_ROW(name, value, on) {value, on},
    CUPTI_KIND_MAP(KIND_ROW)
#undef KIND_ROW
};
#define KINDS (sizeof kind_table / sizeof *kind_table)

static bool bounded(void);

/* ---- kinds ---- */

bool agent_cupti_option(const char *word)
{
    const char *text = getenv(WIRE_ENV_GPU), *at = text ? strstr(text, word) : NULL;
    size_t n = strlen(word);
    return at && (at == text || at[-1] == ',') && (!at[n] || at[n] == ',');
}

static void choose_kinds(void)
{
    for (size_t i = 0; i < KINDS; i++)
        state.chosen[kind_table[i].kind] = kind_table[i].on != 0;
    /* a list of kinds, to measure what each costs */
    const char *list = getenv(WIRE_ENV_GPU_KINDS);
    for (size_t i = 0; list && *list && i < KINDS; i++)
        state.chosen[kind_table[i].kind] = false;
    while (list && *list) {
        char *end;
        unsigned long kind = strtoul(list, &end, 10);
        if (end == list)
            break;
        for (size_t i = 0; i < KINDS; i++)
            state.chosen[kind_table[i].kind] |= (unsigned long)kind_table[i].kind == kind;
        list = *end == ',' ? end + 1 : end;
    }
    state.chosen[CUPTI_KIND_MEMORY2] |= agent_cupti_option("memory");
    state.chosen[CUPTI_KIND_GRAPH_TRACE] = agent_cupti_option("whole-graphs");
    agent_cuda.gpu->whole_graphs = state.chosen[CUPTI_KIND_GRAPH_TRACE];
}

static void apply_apis(uint8_t enable)
{
    static const uint32_t muted[] = {
#define CBID(name, id) id,
        CUPTI_RUNTIME_MUTED_MAP(CBID)};
    static const uint32_t driver[] = {CUPTI_DRIVER_LAUNCH_MAP(CBID) CUPTI_DRIVER_WORK_MAP(CBID)
#undef CBID
    };
    const struct cupti *cupti = &agent_cuda.cupti;
    for (size_t i = 0;
         enable && cupti->ActivityEnableRuntimeApi && i < sizeof muted / sizeof *muted; i++)
        cupti->ActivityEnableRuntimeApi(muted[i], 0);
    for (size_t i = 0; state.chosen[CUPTI_KIND_RUNTIME] && cupti->ActivityEnableDriverApi &&
                       i < sizeof driver / sizeof *driver;
         i++)
        cupti->ActivityEnableDriverApi(driver[i], enable);
}

/* Returns what enabling kernels gave: without them there is nothing to see. */
static int enable_kinds(void)
{
    agent_nccl_detail(bounded());
    int kernels = 0;
    for (size_t i = 0; i < KINDS; i++) {
        int kind = kind_table[i].kind;
        if (!state.chosen[kind])
            continue;
        int rc = agent_cuda.cupti.ActivityEnable(kind);
        atomic_store_explicit(&agent_cuda.gpu->kind_error[kind], (uint32_t)rc,
                              memory_order_relaxed);
        if (kind == CUPTI_KIND_CONCURRENT_KERNEL)
            kernels = rc;
    }
    if (kernels)
        return kernels;
    apply_apis(1);
    state.enabled = true;
    atomic_store_explicit(&agent_cuda.gpu->recording, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&agent_cuda.gpu->windows, 1, memory_order_relaxed);
    return 0;
}

static void disable_kinds(void)
{
    agent_nccl_detail(false);
    apply_apis(0);
    for (size_t i = 0; i < KINDS; i++)
        if (state.chosen[kind_table[i].kind])
            agent_cuda.cupti.ActivityDisable(kind_table[i].kind);
    state.enabled = false;
    atomic_store_explicit(&agent_cuda.gpu->recording, 0, memory_order_relaxed);
}

/* ---- capture windows ---- */

static bool control_read(struct wire_control *copy)
{
    const struct wire_control *control = agent_cuda.control;
    if (!control)
        return false;
    for (int i = 0; i < 100; i++) {
        uint32_t before = atomic_load_explicit(&control->sequence, memory_order_acquire);
        atomic_store_explicit(&copy->mode,
                              atomic_load_explicit(&control->mode, memory_order_relaxed),
                              memory_order_relaxed);
        copy->from = atomic_load_explicit(&control->from, memory_order_relaxed);
        copy->to = atomic_load_explicit(&control->to, memory_order_relaxed);
        copy->every = atomic_load_explicit(&control->every, memory_order_relaxed);
        copy->until = atomic_load_explicit(&control->until, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (!(before & 1) &&
            atomic_load_explicit(&control->sequence, memory_order_relaxed) == before)
            return true;
    }
    return false;
}

/* Is a window of some steps or seconds asked for? */
static bool bounded(void)
{
    struct wire_control control;
    return control_read(&control) &&
           (control.mode == WIRE_CAPTURE_STEPS || control.mode == WIRE_CAPTURE_UNTIL);
}

/* 1 in a window, 0 not, -1 as it is (between steps). */
static int wanted(int64_t index)
{
    struct wire_control control;
    if (!control_read(&control))
        return agent_cuda.control ? -1 : 1;
    switch ((enum wire_capture)control.mode) {
    case WIRE_CAPTURE_NONE:
        return 0;
    case WIRE_CAPTURE_UNTIL:
        return (int64_t)agent_clock_monotonic() < control.until;
    case WIRE_CAPTURE_STEPS:
        if (index <
            0) /* before the first step there is no window; between steps it stays as it is */
            return atomic_load_explicit(&agent_cuda.gpu->step, memory_order_relaxed) ? -1 : 0;
        return index >= control.from && index <= control.to &&
               (control.every <= 1 || (index - control.from) % control.every == 0);
    case WIRE_CAPTURE_ALL:
        break;
    }
    return 1;
}

bool agent_cupti_wanted(uint64_t index)
{
    return wanted((int64_t)(index & INT64_MAX)) == 1;
}

void agent_cupti_window(int64_t index)
{
    int want = wanted(index);
    if (want < 0 || want == (int)state.enabled || state.paused)
        return;
    pthread_mutex_lock(&state.window);
    if (!atomic_load_explicit(&state.taken, memory_order_relaxed) && !state.paused) {
        if (want && !state.enabled)
            enable_kinds();
        else if (!want && state.enabled)
            disable_kinds();
    }
    pthread_mutex_unlock(&state.window);
}

void agent_cupti_pause(bool paused)
{
    static bool reopen; /* with the lock */
    if (paused == state.paused)
        return;
    pthread_mutex_lock(&state.window);
    state.paused = paused;
    if (atomic_load_explicit(&state.taken, memory_order_relaxed))
        reopen = false;
    else if (!paused && reopen && !state.enabled)
        enable_kinds();
    else if (paused) {
        reopen = state.enabled;
        if (reopen)
            disable_kinds();
    }
    pthread_mutex_unlock(&state.window);
}

static void control_map(void)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/" WIRE_CONTROL, agent_setup.folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    void *map = fstat(fd, &st) || (size_t)st.st_size < sizeof(struct wire_control)
                    ? MAP_FAILED
                    : mmap(NULL, sizeof(struct wire_control), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return;
    const struct wire_control *control = map;
    if (control->magic == WIRE_CONTROL_MAGIC)
        agent_cuda.control = control;
    else
        munmap(map, sizeof(struct wire_control));
}

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

static void probe(bool on)
{
    if (!agent_cuda.cupti.EnableCallback || !state.subscriber ||
        on == (atomic_load_explicit(&state.probing, memory_order_relaxed) != 0))
        return;
    atomic_store_explicit(&state.launches, 0, memory_order_relaxed);
    atomic_store_explicit(&state.foreign_ids, 0, memory_order_relaxed);
    for (size_t i = 0; i < sizeof launch_call / sizeof *launch_call; i++)
        agent_cuda.cupti.EnableCallback(on, state.subscriber, (int)launch_call[i].domain,
                                        launch_call[i].cbid);
    atomic_store_explicit(&state.probing, on, memory_order_relaxed);
}

/* Does the launch carry an id that somebody pushed? Taken off and put back on its own thread. */
static bool foreign_id(void)
{
    const struct cupti *cupti = &agent_cuda.cupti;
    uint64_t id = 0;
    if (!cupti->ActivityPopExternalCorrelationId || !cupti->ActivityPushExternalCorrelationId)
        return true; /* it cannot be told: never taken back by ourselves */
    for (int kind = CUPTI_EXTERNAL_CUSTOM0; kind <= CUPTI_EXTERNAL_CUSTOM1; kind++)
        if (cupti->ActivityPopExternalCorrelationId(kind, &id) == CUPTI_OK) {
            cupti->ActivityPushExternalCorrelationId(kind, id);
            return true;
        }
    return false;
}

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
    atomic_fetch_add_explicit(&state.launches, 1, memory_order_relaxed);
    if (atomic_load_explicit(&state.taken, memory_order_relaxed) && foreign_id())
        atomic_fetch_add_explicit(&state.foreign_ids, 1, memory_order_relaxed);
}

static void gap_begin(int64_t from)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t n = atomic_load_explicit(&gpu->gaps, memory_order_relaxed);
    struct wire_gpu_gap *gap = &gpu->gap[n % WIRE_GPU_GAPS];
    atomic_store_explicit(&gap->t1, 0, memory_order_relaxed);
    atomic_store_explicit(&gap->t0, from, memory_order_relaxed);
    atomic_store_explicit(&gpu->gaps, n + 1, memory_order_release);
    atomic_store_explicit(&state.taken, 1, memory_order_release);
}

static void take_back(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t n = atomic_load_explicit(&gpu->gaps, memory_order_relaxed);
    pthread_mutex_lock(&state.window);
    agent_cuda.cupti.ActivityRegisterCallbacks(agent_buffer_request, agent_buffer_complete);
    state.enabled = false;
    atomic_store_explicit(&state.taken, 0, memory_order_release);
    if (wanted(-1) != 0)
        enable_kinds();
    pthread_mutex_unlock(&state.window);
    atomic_store_explicit(&gpu->gap[(n - 1) % WIRE_GPU_GAPS].t1, (int64_t)agent_clock_monotonic(),
                          memory_order_release);
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
    uint64_t requests = atomic_load_explicit(&agent_cuda.requests, memory_order_relaxed);
    uint64_t completions = atomic_load_explicit(&agent_cuda.completions, memory_order_relaxed);
    bool any = requests != state.seen_requests || completions != state.seen_completions;
    state.seen_requests = requests;
    state.seen_completions = completions;
    return any;
}

static void watch_taken(void)
{
    uint32_t launches = atomic_exchange_explicit(&state.launches, 0, memory_order_relaxed);
    uint32_t foreign = atomic_exchange_explicit(&state.foreign_ids, 0, memory_order_relaxed);
    if (atomic_load_explicit(&state.told, memory_order_acquire))
        return;
    if (called()) { /* it was ours all the time, or is again */
        take_back();
        return;
    }
    probe(true);
    if (launches)
        state.quiet = foreign ? 0 : state.quiet + 1;
    if (state.quiet >= QUIET)
        take_back();
}

static void watch(void)
{
    if (atomic_load_explicit(&state.taken, memory_order_acquire)) {
        watch_taken();
        return;
    }
    int64_t now = (int64_t)agent_clock_monotonic();
    bool written = agent_buffer_written();
    if (called() || written || !state.enabled) {
        state.silent = 0;
        state.alive_at = now;
        probe(false);
        return;
    }
    if (++state.silent < SILENT)
        return;
    if (!atomic_load_explicit(&state.probing, memory_order_relaxed)) {
        probe(true);
        return;
    }
    if (!atomic_load_explicit(&state.launches, memory_order_relaxed))
        return; /* nothing to record: nobody can have taken it */
    gap_begin(state.alive_at);
    state.quiet = 0;
}

void agent_cupti_foreign(bool active)
{
    if (!agent_cuda_live() ||
        atomic_load_explicit(&agent_cuda.gpu->state, memory_order_relaxed) != WIRE_GPU_ON)
        return;
    if (active) {
        atomic_store_explicit(&state.told, 1, memory_order_release);
        flush(0);
        if (!atomic_load_explicit(&state.taken, memory_order_relaxed))
            gap_begin((int64_t)agent_clock_monotonic());
    } else if (atomic_exchange_explicit(&state.told, 0, memory_order_acq_rel)) {
        take_back();
    }
}

/* ---- the flush thread ---- */

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
        if (atomic_load_explicit(&agent_cuda.want_buffers, memory_order_relaxed) ||
            tick % FLUSH_TICKS == 0)
            agent_buffer_grow();
        if (tick % FLUSH_TICKS)
            continue;
        if (!atomic_load_explicit(&state.taken, memory_order_acquire))
            flush(0);
        agent_buffer_anchor();
        watch();
    }
    return NULL;
}

bool agent_cuda_thread(void *(*run)(void *), size_t stack)
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = pthread_attr_init(&attr) == 0;
    if (ok) {
        pthread_attr_setstacksize(&attr, stack);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        ok = pthread_create(&thread, &attr, run, NULL) == 0;
        pthread_attr_destroy(&attr);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

/* ---- start and end ---- */

static bool refuse(enum wire_gpu_stage stage, int error)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    atomic_store_explicit(&gpu->error, (uint32_t)error, memory_order_relaxed);
    atomic_store_explicit(&gpu->stage, stage, memory_order_relaxed);
    atomic_store_explicit(&gpu->state, WIRE_GPU_FAILED, memory_order_release);
    return false;
}

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
    choose_kinds();
    configure();
    agent_buffer_anchor();
    if ((rc = self->cupti.ActivityRegisterCallbacks(agent_buffer_request, agent_buffer_complete)) !=
        0)
        stage = WIRE_GPU_STAGE_REGISTER;
    control_map();
    if (!rc && wanted(-1) == 1 && (rc = enable_kinds()) != 0)
        stage = WIRE_GPU_STAGE_ENABLE;
    if (!rc && !agent_cuda_thread(flush_main, 256u << 10)) {
        stage = WIRE_GPU_STAGE_THREAD;
        rc = errno;
        disable_kinds();
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
    if (!agent_cuda_live() ||
        atomic_load_explicit(&gpu->state, memory_order_relaxed) != WIRE_GPU_ON)
        return;
    agent_counters_end();
    atomic_store_explicit(&agent_cuda.stop, 1, memory_order_release);
    atomic_store_explicit(&agent_cuda.wake, 1, memory_order_release);
    syscall(SYS_futex, &agent_cuda.wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_WAIT_S;
    if (pthread_mutex_timedlock(&state.flush, &until) == 0) {
        if (!atomic_load_explicit(&state.taken, memory_order_acquire))
            agent_cuda.cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
        pthread_mutex_unlock(&state.flush);
        agent_buffer_anchor();
    } else {
        agent_lose(WIRE_LOSS_GPU_LATE, 1);
    }
    atomic_store_explicit(&gpu->state, WIRE_GPU_ENDED, memory_order_release);
}
