/* SPDX-License-Identifier: Apache-2.0
 *
 * What is recorded of the device, and when: the kinds of activity, the capture windows that the
 * collector asks for in its control file, and steps that run unrecorded so that the cost of
 * recording can be measured.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/agent/gpu/cuda.h"
#include "profiler/control.h"

#define DEVICE_MIB           512u /* for CUPTI's buffers on a device, a context */
#define DEVICE_BUFFERS_LEAST 4u   /* CUPTI makes three at once */

static struct {
    pthread_mutex_t window; /* enabling and disabling kinds */
    bool chosen[WIRE_GPU_KINDS];
    bool streams[WIRE_GPU_KINDS]; /* of these: not while one stream is in use */
    bool any_streams;
    _Atomic bool waits; /* those are on */
    bool without;       /* since they were switched last, recording does without them */
    bool handed_over;   /* another profiler had the records */
    _Atomic bool enabled, paused;
} state = {.window = PTHREAD_MUTEX_INITIALIZER};

static const struct {
    int kind, on;
} kind_table[] = {
#define KIND_ROW(name, value, on) {value, on},
    CUPTI_KIND_MAP(KIND_ROW) CUPTI_NEWER_KIND_MAP(KIND_ROW)
#undef KIND_ROW
};
static const int newer_kind[] = {
#define NEWER_KIND(name, value, on) value,
    CUPTI_NEWER_KIND_MAP(NEWER_KIND)
#undef NEWER_KIND
};
#define KINDS (sizeof kind_table / sizeof *kind_table)

bool agent_cupti_option(const char *word)
{
    const char *text = getenv(WIRE_ENV_GPU), *found = text ? strstr(text, word) : NULL;
    size_t length = strlen(word);
    return found && (found == text || found[-1] == ',') && (!found[length] || found[length] == ',');
}

/* ---- the control file ---- */

/* Maps the control file, if the recording has one; without it everything is recorded. */
static void control_map(void)
{
    char path[4096];
    struct stat status;
    if (agent_cuda.control)
        return;
    snprintf(path, sizeof path, "%s/" WIRE_CONTROL, agent_setup.folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    void *map = fstat(fd, &status) || (size_t)status.st_size < sizeof(struct wire_control)
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

/* The window that is asked for. False: there is no control file, or it is being written. */
static bool window_read(struct control_window *window)
{
    return agent_cuda.control && control_read(agent_cuda.control, window);
}

/* Is a window of some steps or seconds asked for? */
static bool bounded(void)
{
    struct control_window window;
    return window_read(&window) &&
           (window.mode == WIRE_CAPTURE_STEPS || window.mode == WIRE_CAPTURE_UNTIL);
}

/* ---- kinds ---- */

/* Fills state.chosen: the kinds of the table, or those that are listed, and the options. A list is
 * recorded as it is, from the start. */
static void choose_kinds(void)
{
    const char *text = getenv(WIRE_ENV_GPU_KINDS), *list = text ? text : "";
    bool waits = *list || agent_cupti_option("waits");
    for (size_t i = 0; i < KINDS; i++) {
        state.chosen[kind_table[i].kind] = kind_table[i].on != CUPTI_OFF;
        state.streams[kind_table[i].kind] = kind_table[i].on == CUPTI_ON_STREAMS && !waits;
    }
    state.any_streams = !waits;
    if (waits)
        relaxed_store(&agent_cuda.gpu->waits_from, WIRE_GPU_WAITS_ASKED);
    for (size_t i = 0; *list && i < KINDS; i++)
        state.chosen[kind_table[i].kind] = false;
    while (*list) {
        char *end;
        unsigned long kind = strtoul(list, &end, 10);
        if (end == list)
            break;
        for (size_t i = 0; i < KINDS; i++)
            state.chosen[kind_table[i].kind] |= (unsigned long)kind_table[i].kind == kind;
        list = *end == ',' ? end + 1 : end;
    }
    for (size_t i = 0; i < sizeof newer_kind / sizeof *newer_kind; i++)
        state.chosen[newer_kind[i]] &= agent_cuda.gpu->cupti_version >= CUPTI_VERSION_NEWER_KINDS;
    state.chosen[CUPTI_KIND_MEMORY2] |= agent_cupti_option("memory");
    state.chosen[CUPTI_KIND_OVERHEAD] |= agent_cupti_option("overhead");
    state.chosen[CUPTI_KIND_GRAPH_TRACE] = agent_cupti_option("whole-graphs");
    agent_cuda.gpu->whole_graphs = state.chosen[CUPTI_KIND_GRAPH_TRACE];
}

/* Once another profiler had the records, CUPTI 13.0 no longer enables single calls of the driver:
 * then all are enabled, and those that are not wanted are disabled. */
static void apply_driver(const uint32_t *wanted, size_t count, uint8_t enable)
{
    const struct cupti *cupti = &agent_cuda.cupti;
    for (size_t i = 0; i < count && !state.handed_over; i++)
        cupti->ActivityEnableDriverApi(wanted[i], enable);
    if (!state.handed_over)
        return;
    if (!enable) {
        cupti->ActivityDisable(CUPTI_KIND_DRIVER);
        return;
    }
    if (cupti->ActivityEnable(CUPTI_KIND_DRIVER))
        return;
    for (uint32_t call = 1; call < WIRE_GPU_APIS; call++) {
        size_t i = 0;
        while (i < count && wanted[i] != call)
            i++;
        if (i == count)
            cupti->ActivityEnableDriverApi(call, 0);
    }
}

/* Of the API calls only those are recorded that launch or move something: calls that programs
 * make by the thousand would fill the buffers. */
static void apply_apis(uint8_t enable)
{
    static const uint32_t muted[] = {
#define CBID(name, id) id,
        CUPTI_RUNTIME_MUTED_MAP(CBID)};
    static const uint32_t driver[] = {CUPTI_DRIVER_LAUNCH_MAP(CBID) CUPTI_DRIVER_WORK_MAP(CBID)
                                          CUPTI_DRIVER_WAIT_MAP(CBID)
#undef CBID
    };
    const struct cupti *cupti = &agent_cuda.cupti;
    for (size_t i = 0;
         enable && cupti->ActivityEnableRuntimeApi && i < sizeof muted / sizeof *muted; i++)
        cupti->ActivityEnableRuntimeApi(muted[i], 0);
    if (state.chosen[CUPTI_KIND_RUNTIME] && cupti->ActivityEnableDriverApi)
        apply_driver(driver, sizeof driver / sizeof *driver, enable);
}

/* All kinds are off for the first time: see WIRE_GPU_GRAPH_IDS_OK. */
static void note_session_end(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    if (gpu->cupti_version && gpu->cupti_version < WIRE_GPU_GRAPH_IDS_OK &&
        !relaxed_load(&gpu->graph_ids_until))
        relaxed_store(&gpu->graph_ids_until, (int64_t)agent_clock_monotonic());
}

/* CUPTI's result, which the collector gets too. */
static int enable_kind(int kind)
{
    int rc = agent_cuda.cupti.ActivityEnable(kind);
    relaxed_store(&agent_cuda.gpu->kind_error[kind], (uint32_t)rc);
    return rc;
}

/* ---- what streams and calls wait for ---- */

/* Are events and synchronization to be recorded? On a slow host they cost more than all other kinds
 * together, although a step has few of them. Where all work is on one stream, no stream waits for
 * another, and what a call waits for is known without a record of it. So they are recorded until
 * the records that have come back show one stream, and again once these show more: a program that
 * launches so slowly that its records come back late, and a window that is over before, have
 * them. */
static bool waits_wanted(void)
{
    return relaxed_load(&agent_cuda.streams) != 1;
}

/* With the lock, where other kinds are on. A use of another stream counts from here on only: what a
 * library did at its start says nothing of what comes. */
static void switch_waits(bool on)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    bool changes = on == state.without;
    int rc = 0;
    if (changes && !on) {
        relaxed_store(&agent_cuda.strays, 0);
        relaxed_store(&agent_cuda.strays_from, 0);
        relaxed_store(&gpu->waits_until, (int64_t)agent_clock_monotonic());
    }
    for (size_t i = 0; i < KINDS; i++) {
        int kind = kind_table[i].kind;
        if (!state.streams[kind])
            continue;
        if (on)
            rc |= enable_kind(kind);
        else if (state.waits)
            agent_cuda.cupti.ActivityDisable(kind);
    }
    state.waits = on;
    state.without = !on;
    if (changes && on && !rc)
        relaxed_store(&gpu->waits_from, (int64_t)agent_clock_monotonic());
}

void agent_capture_waits(void)
{
    if (!state.any_streams || !state.enabled || state.waits == waits_wanted())
        return;
    pthread_mutex_lock(&state.window);
    if (state.enabled && !relaxed_load(&agent_cuda.taken))
        switch_waits(waits_wanted());
    pthread_mutex_unlock(&state.window);
}

/* ---- all kinds ---- */

/* Returns what enabling kernels gave: without them there is nothing to see. */
static int enable_kinds(void)
{
    agent_nccl_detail(bounded());
    int kernels = 0;
    for (size_t i = 0; i < KINDS; i++) {
        int kind = kind_table[i].kind;
        if (!state.chosen[kind] || state.streams[kind])
            continue;
        int rc = enable_kind(kind);
        if (kind == CUPTI_KIND_CONCURRENT_KERNEL)
            kernels = rc;
    }
    if (kernels)
        return kernels;
    if (state.any_streams)
        switch_waits(waits_wanted());
    apply_apis(1);
    state.enabled = true;
    relaxed_store(&agent_cuda.gpu->recording, 1);
    relaxed_add(&agent_cuda.gpu->windows, 1);
    return 0;
}

/* The window closes: kinds and API calls are switched off; buffers and subscription stay. */
static void disable_kinds(void)
{
    agent_nccl_detail(false);
    apply_apis(0);
    for (size_t i = 0; i < KINDS; i++)
        if (state.chosen[kind_table[i].kind] && (state.waits || !state.streams[kind_table[i].kind]))
            agent_cuda.cupti.ActivityDisable(kind_table[i].kind);
    state.enabled = state.waits = false;
    note_session_end();
    relaxed_store(&agent_cuda.gpu->recording, 0);
}

/* ---- capture windows ---- */

/* 1 in a window, 0 not, -1 as it is (between steps). */
static int wanted(int64_t index)
{
    struct control_window window;
    if (!window_read(&window))
        return agent_cuda.control ? -1 : 1;
    switch ((enum wire_capture)window.mode) {
    case WIRE_CAPTURE_NONE:
        return 0;
    case WIRE_CAPTURE_UNTIL:
        return (int64_t)agent_clock_monotonic() < window.until;
    case WIRE_CAPTURE_STEPS:
        if (index <
            0) /* before the first step there is no window; between steps it stays as it is */
            return relaxed_load(&agent_cuda.gpu->step) ? -1 : 0;
        return index >= window.from && index <= window.to &&
               (window.every <= 1 || (index - window.from) % window.every == 0);
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
    if (!relaxed_load(&agent_cuda.taken) && !state.paused) {
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
    if (relaxed_load(&agent_cuda.taken))
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

/* ---- start, end, and after another profiler ---- */

void agent_capture_open(void)
{
    choose_kinds();
    control_map();
}

/* CUPTI keeps times on the device until they are fetched. In programs that launch CUDA graphs for
 * long it was seen to grow to its limit, of 800 MB a context by default. */
static void limit_device_memory(void)
{
    const struct cupti *cupti = &agent_cuda.cupti;
    struct wire_gpu *gpu = agent_cuda.gpu;
    const char *text = getenv(WIRE_ENV_GPU_DEVICE_MIB);
    size_t mib = text && atol(text) > 0 ? (size_t)atol(text) : DEVICE_MIB;
    size_t bytes = 0, limit, size = sizeof bytes;
    if (!cupti->ActivityGetAttribute || !cupti->ActivitySetAttribute ||
        cupti->ActivityGetAttribute(CUPTI_ATTR_DEVICE_BUFFER_SIZE, &size, &bytes) || !bytes)
        return;
    limit = (mib << 20) / bytes;
    if (limit < DEVICE_BUFFERS_LEAST)
        limit = DEVICE_BUFFERS_LEAST;
    cupti->ActivitySetAttribute(CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &limit);
    if (cupti->ActivityGetAttribute(CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &limit))
        return;
    gpu->device_buffer_bytes = bytes;
    gpu->device_buffers = limit;
}

/* Buffers are shared by threads, as before CUDA 13.0: one for each would need as many as there are
 * threads that use CUDA. All settings are optional. */
void agent_capture_configure(void)
{
    const struct cupti *cupti = &agent_cuda.cupti;
    size_t one_byte = 1;
    uint8_t yes = 1, no = 0;
    if (cupti->SetThreadIdType)
        cupti->SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
    if (cupti->ActivitySetAttribute) {
        cupti->ActivitySetAttribute(CUPTI_ATTR_ZEROED_BUFFER, &one_byte, &yes);
        if (!agent_cupti_option("buffers-of-threads"))
            cupti->ActivitySetAttribute(CUPTI_ATTR_PER_THREAD_BUFFER, &one_byte, &no);
    }
    if (cupti->ActivityEnableAllSyncRecords)
        cupti->ActivityEnableAllSyncRecords(0); /* queries that found work still under way */
    limit_device_memory();
}

int agent_capture_begin(enum wire_gpu_stage *stage)
{
    *stage = WIRE_GPU_STAGE_REGISTER;
    int rc = agent_buffer_register();
    if (rc)
        return rc;
    *stage = WIRE_GPU_STAGE_ENABLE;
    return wanted(-1) == 1 ? enable_kinds() : 0;
}

void agent_capture_end(void)
{
    pthread_mutex_lock(&state.window);
    if (state.enabled)
        disable_kinds();
    pthread_mutex_unlock(&state.window);
}

bool agent_capture_enabled(void)
{
    return state.enabled;
}

bool agent_capture_may_pause(void)
{
    uint32_t version = agent_cuda.gpu->cupti_version;
    return !version || version >= WIRE_GPU_GRAPH_IDS_OK || !relaxed_load(&agent_cuda.graphs);
}

void agent_capture_restart(void)
{
    pthread_mutex_lock(&state.window);
    agent_capture_configure();
    state.enabled = state.waits = false;
    state.handed_over = true;
    note_session_end();
    atomic_store_explicit(&agent_cuda.taken, 0, memory_order_release);
    if (wanted((int64_t)relaxed_load(&agent_cuda.gpu->step) - 1) == 1)
        enable_kinds();
    pthread_mutex_unlock(&state.window);
}
