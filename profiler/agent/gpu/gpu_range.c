/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting over whole steps, then over the ranges inside them. The metrics take several passes; a
 * pass is a step, from its begin to the begin of the next one, so the steps must be alike.
 * During this nothing is recorded on the device: tracing and counting would change each other. The
 * device is synchronised at both ends of a pass, and at each end of a range that is counted, so
 * that a kernel belongs to the range that launched it. It is done once: from the fourth step on, or
 * in the window of --steps.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/agent/gpu/gpu_counters.h"
#include "profiler/agent/gpu/gpu_plan.h"

#define WARM_UP 3u /* steps that are let go by: memory pools, autotuning */
#define TRIES   3u /* plans for the ranges */

/* The thread of the steps goes from phase to phase; the counters' thread publishes what is ready
 * (whole, parts). */
enum phase { IDLE, WHOLE, LOOKING, PARTS, DONE };
enum values { NONE, READY, PUBLISHED };

static struct {
    _Atomic uint32_t phase, whole, parts;
    uint32_t seen, tries;
    struct gpu_host host;
    void *profiler; /* CUPTI's */
    struct gpu_image data;
    int device;
    const struct agent_thread *_Atomic thread; /* that runs the steps */
    struct gpu_plan plan;
    uint64_t begin, parts_begin; /* of the first pass, the pool's clock */
    double value[GPU_HOST_METRICS];
    double (*piece)[GPU_HOST_METRICS]; /* NAN: not measured */
} range;

static void set_phase(enum phase phase)
{
    atomic_store_explicit(&range.phase, phase, memory_order_release);
}

static void watch(bool on)
{
    if (atomic_exchange(&agent_watch_flag, on) != on && on)
        agent_thread_stop_common();
}

/* Gives the device back: other records and other programs can use it again. */
static void release(void)
{
    struct profiler_range_object object = {.size = PROFILER_SIZE(profiler_range_object, profiler),
                                           .profiler = range.profiler};
    if (range.profiler)
        gpu_functions.RangeProfilerDisable(&object);
    range.profiler = NULL;
    gpu_image_free(&range.data);
}

static void end_all(void)
{
    release();
    watch(false);
    set_phase(DONE);
    agent_cupti_pause(false);
}

static void fail(enum wire_counters_stage stage, int error)
{
    bool parts = relaxed_load(&range.phase) >= LOOKING;
    gpu_counters_fail(parts ? WIRE_COUNTERS_PARTS : WIRE_COUNTERS_RANGE, stage, error);
    end_all();
}

/* Whether this CUPTI and driver have all functions that counting needs. */
static bool complete(void)
{
    const struct profiler_functions *functions = &gpu_functions;
    return functions->DeviceGetChipName && functions->RangeProfilerEnable &&
           functions->RangeProfilerDisable && functions->RangeProfilerGetCounterDataSize &&
           functions->RangeProfilerCounterDataImageInitialize &&
           functions->RangeProfilerSetConfig && functions->RangeProfilerStart &&
           functions->RangeProfilerStop && functions->RangeProfilerPushRange &&
           functions->RangeProfilerPopRange && functions->RangeProfilerDecodeData &&
           functions->RangeProfilerGetCounterDataInfo &&
           functions->RangeProfilerCounterDataGetRangeInfo && gpu_driver.current &&
           gpu_driver.current_device && gpu_driver.synchronize;
}

/* Chooses the metrics that the chip knows and that can be counted now. *stage says how far it
 * came. */
static int open_host(void *context, enum wire_counters_stage *stage)
{
    const char *chip;
    struct gpu_image image = {0};
    struct profiler_availability counters = {.size = PROFILER_SIZE(profiler_availability, image),
                                             .context = context};
    *stage = WIRE_COUNTERS_STAGE_CHIP;
    int rc = gpu_counters_chip(WIRE_COUNTERS_RANGE, range.device, &chip);
    if (rc)
        return rc;
    *stage = WIRE_COUNTERS_STAGE_AVAILABLE;
    if (gpu_functions.ProfilerGetCounterAvailability) {
        if ((rc = gpu_functions.ProfilerGetCounterAvailability(&counters)))
            return rc;
        if (!gpu_image_make(&image, counters.image_bytes))
            return -1;
        counters.image = image.at;
        rc = gpu_functions.ProfilerGetCounterAvailability(&counters);
    }
    if (rc) {
        gpu_image_free(&image);
        return rc;
    }
    *stage = WIRE_COUNTERS_STAGE_METRICS;
    rc = gpu_host_open(&range.host, &gpu_functions, PROFILER_RANGE, chip, image, gpu_range_metrics,
                       GPU_RANGE_METRICS, 0);
    return rc || range.host.count ? rc : -1;
}

/* ---- a session: passes over a step in so many pieces ----------------------------------------------------------------------- */

/* The memory for the values of so many pieces. */
static int make_image(size_t pieces)
{
    const char *names[GPU_HOST_METRICS];
    memcpy(names, range.host.name, sizeof names);
    struct profiler_range_data_bytes size = {.size =
                                                 PROFILER_SIZE(profiler_range_data_bytes, bytes),
                                             .profiler = range.profiler,
                                             .names = names,
                                             .count = range.host.count,
                                             .ranges = pieces,
                                             .nodes = (uint32_t)pieces};
    int rc = gpu_functions.RangeProfilerGetCounterDataSize(&size);
    if (rc)
        return rc;
    if (!gpu_image_make(&range.data, size.bytes))
        return -1;
    struct profiler_range_data image = {.size = PROFILER_SIZE(profiler_range_data, data),
                                        .profiler = range.profiler,
                                        .bytes = size.bytes,
                                        .data = range.data.at};
    return gpu_functions.RangeProfilerCounterDataImageInitialize(&image);
}

/* User ranges and user replay: the passes are steps of the program, nothing is run again by
 * CUPTI. */
static int configure(size_t pieces)
{
    struct profiler_range_config config = {.size = PROFILER_SIZE(profiler_range_config, level),
                                           .profiler = range.profiler,
                                           .bytes = range.host.config.bytes,
                                           .image = range.host.config.at,
                                           .data_bytes = range.data.bytes,
                                           .data = range.data.at,
                                           .range = PROFILER_USER_RANGE,
                                           .replay = PROFILER_USER_REPLAY,
                                           .ranges_a_pass = pieces,
                                           .levels = 1,
                                           .least_level = 1,
                                           .level = 1};
    return gpu_functions.RangeProfilerSetConfig(&config);
}

/* Pieces are named by their numbers: what a pass did not count is then seen by its name. */
static int push(size_t piece)
{
    char name[16];
    snprintf(name, sizeof name, "%zu", piece);
    struct profiler_range_push begin_range = {
        .size = PROFILER_SIZE(profiler_range_push, name), .profiler = range.profiler, .name = name};
    return gpu_functions.RangeProfilerPushRange(&begin_range);
}

static int pop(void)
{
    struct profiler_range_object object = {.size = PROFILER_SIZE(profiler_range_object, profiler),
                                           .profiler = range.profiler};
    return gpu_functions.RangeProfilerPopRange(&object);
}

static int start_pass(void)
{
    struct profiler_range_object start = {.size = PROFILER_SIZE(profiler_range_object, profiler),
                                          .profiler = range.profiler};
    int rc = gpu_driver.synchronize();
    if (!rc)
        rc = gpu_functions.RangeProfilerStart(&start);
    return rc ? rc : push(0);
}

/* Ends a pass after all of its work is done on the device. *all: these were all passes. */
static int end_pass(bool *all)
{
    struct profiler_range_stop stop = {.size = PROFILER_SIZE(profiler_range_stop, all_passes),
                                       .profiler = range.profiler};
    int rc = gpu_driver.synchronize();
    if (!rc)
        rc = pop();
    if (!rc)
        rc = gpu_functions.RangeProfilerStop(&stop);
    *all = stop.all_passes;
    return rc;
}

/* Takes the device, makes the image, and begins the first pass. *stage says how far it came. */
static int open_session(void *context, size_t pieces, enum wire_counters_stage *stage)
{
    struct profiler_range_enable enable = {.size = PROFILER_SIZE(profiler_range_enable, profiler),
                                           .context = context};
    *stage = WIRE_COUNTERS_STAGE_ENABLE;
    int rc = gpu_functions.RangeProfilerEnable(&enable);
    range.profiler = rc ? NULL : enable.profiler;
    if (!rc) {
        *stage = WIRE_COUNTERS_STAGE_CONFIG;
        rc = make_image(pieces);
        rc = rc ? rc : configure(pieces);
    }
    if (!rc) {
        *stage = WIRE_COUNTERS_STAGE_START;
        rc = start_pass();
    }
    gpu_counters_used();
    return rc;
}

/* Values of all pieces into value[piece]. A piece without work may be missing. */
static int read_values(double (*value)[GPU_HOST_METRICS], size_t pieces)
{
    struct profiler_range_decode decode = {.size = PROFILER_SIZE(profiler_range_decode, dropped),
                                           .profiler = range.profiler};
    struct profiler_range_info info = {.size = PROFILER_SIZE(profiler_range_info, total),
                                       .data = range.data.at,
                                       .data_bytes = range.data.bytes};
    int rc = gpu_functions.RangeProfilerDecodeData(&decode);
    if (!rc && decode.dropped)
        rc = -1;
    if (!rc)
        rc = gpu_functions.RangeProfilerGetCounterDataInfo(&info);
    for (size_t i = 0; i < info.total && !rc; i++) {
        struct profiler_range_name name = {.size = PROFILER_SIZE(profiler_range_name, name),
                                           .data = range.data.at,
                                           .data_bytes = range.data.bytes,
                                           .index = i,
                                           .delimiter = "/"};
        rc = gpu_functions.RangeProfilerCounterDataGetRangeInfo(&name);
        size_t piece = rc || !name.name ? pieces : (size_t)strtoul(name.name, NULL, 10);
        if (!rc)
            rc = piece < pieces ? gpu_host_values(&range.host, range.data.at, range.data.bytes, i,
                                                  value[piece])
                                : -1;
    }
    return rc;
}

/* ---- the thread of the steps ----------------------------------------------------------------------------------------------- */

/* The first pass over a whole step begins: asks the device what it can count, opens the session,
 * and has the ranges of the step watched from now on. Without a context nothing happens; the next
 * step tries again. */
static void begin(void)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[WIRE_COUNTERS_RANGE];
    enum wire_counters_stage stage;
    void *context = NULL;
    if (!complete()) {
        fail(WIRE_COUNTERS_STAGE_LIBRARY, 0);
        return;
    }
    /* without a context the real library does not return an error but dies */
    if (gpu_driver.current(&context) || !context || gpu_driver.current_device(&range.device))
        return;
    agent_cupti_pause(true);
    range.begin = agent_now();
    int rc = open_host(context, &stage);
    rc = rc ? rc : open_session(context, 1, &stage);
    if (rc) {
        fail(stage, rc);
        return;
    }
    relaxed_store(&counters->metrics, (uint32_t)range.host.count);
    relaxed_store(&counters->passes, (uint32_t)range.host.passes);
    relaxed_store(&range.thread, agent_tls);
    gpu_plan_clear(&range.plan);
    set_phase(WHOLE);
    watch(true);
}

/* The step that was looked at is over: counts the ranges that it had, in the next ones. */
static void begin_parts(void)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[WIRE_COUNTERS_PARTS];
    size_t pieces = gpu_plan_pieces(&range.plan);
    enum wire_counters_stage stage = WIRE_COUNTERS_STAGE_CONFIG;
    void *context = NULL;
    set_phase(LOOKING);
    if (range.plan.levels && pieces == 1) { /* nothing but kernels of the step itself */
        end_all();
        return;
    }
    memcpy(counters->chip, agent_cuda.gpu->counters[WIRE_COUNTERS_RANGE].chip,
           sizeof counters->chip);
    relaxed_store(&counters->metrics, (uint32_t)range.host.count);
    relaxed_store(&counters->passes, (uint32_t)range.host.passes);
    atomic_store_explicit(&counters->state, WIRE_COUNTERS_WAITING, memory_order_release);
    if (!range.plan.levels) {
        fail(WIRE_COUNTERS_STAGE_MANY, 0);
        return;
    }
    free(range.piece);
    range.piece = malloc(pieces * sizeof *range.piece);
    for (size_t i = 0; range.piece && i < pieces * GPU_HOST_METRICS; i++)
        range.piece[i / GPU_HOST_METRICS][i % GPU_HOST_METRICS] = (double)NAN;
    agent_cupti_pause(true);
    range.parts_begin = agent_now();
    gpu_plan_begin(&range.plan);
    int rc = !range.piece || gpu_driver.current(&context) || !context
                 ? -1
                 : open_session(context, pieces, &stage);
    if (rc)
        fail(stage, rc);
    else
        set_phase(PARTS);
}

/* A pass has ended (rc): begins another one with the plan as `prepare` leaves it, or, when these
 * were all, reads the values. Returns whether they are read. A failure is reported. */
static bool all_counted(int rc, bool all, void (*prepare)(struct gpu_plan *),
                        double (*value)[GPU_HOST_METRICS], size_t pieces)
{
    enum wire_counters_stage stage = WIRE_COUNTERS_STAGE_START;
    if (!rc && all) {
        stage = WIRE_COUNTERS_STAGE_DECODE;
        rc = read_values(value, pieces);
    } else if (!rc) {
        prepare(&range.plan);
        rc = start_pass();
    }
    if (rc)
        fail(stage, rc);
    return !rc && all;
}

/* A step that was counted as a whole is over. */
static void go_on_whole(void)
{
    bool all = false;
    int rc = end_pass(&all);
    if (!all_counted(rc, all, gpu_plan_clear, &range.value, 1))
        return;
    release();
    atomic_store_explicit(&range.whole, READY, memory_order_release);
    begin_parts();
}

/* A step that was counted by its ranges is over. */
static void go_on_parts(void)
{
    bool all = false, kept = gpu_plan_kept(&range.plan);
    int rc = end_pass(&all);
    if (!rc && !kept) { /* this step lacked a range of the plan: another plan */
        release();
        if (++range.tries == TRIES) {
            fail(WIRE_COUNTERS_STAGE_DIFFER, 0);
            return;
        }
        gpu_plan_clear(&range.plan);
        set_phase(LOOKING);
        agent_cupti_pause(false);
        return;
    }
    if (!all_counted(rc, all, gpu_plan_begin, range.piece, gpu_plan_pieces(&range.plan)))
        return;
    atomic_store_explicit(&range.parts, READY, memory_order_release);
    end_all();
}

void gpu_range_step(uint64_t index)
{
    uint32_t phase = relaxed_load(&range.phase);
    uint32_t state = relaxed_load(&agent_cuda.gpu->counters[WIRE_COUNTERS_RANGE].state);
    if (state == WIRE_COUNTERS_OFF || state == WIRE_COUNTERS_FAILED || phase == DONE)
        return;
    if (phase == WHOLE)
        go_on_whole();
    else if (phase == LOOKING)
        begin_parts();
    else if (phase == PARTS)
        go_on_parts();
    else if (range.seen++ >= WARM_UP && agent_cupti_wanted(index))
        begin();
}

void gpu_range_cut(const struct agent_thread *thread, bool push_, uint32_t domain, uint32_t name)
{
    uint32_t phase = relaxed_load(&range.phase);
    if (thread != relaxed_load(&range.thread))
        return;
    if (phase == WHOLE || phase == LOOKING)
        gpu_plan_see(&range.plan, push_, (uint16_t)domain, name);
    if (phase != PARTS)
        return;
    int piece = gpu_plan_cut(&range.plan, push_, (uint16_t)domain, name);
    if (piece < 0)
        return;
    int rc = gpu_driver.synchronize();
    rc = rc ? rc : pop();
    rc = rc ? rc : push((size_t)piece);
    if (rc)
        fail(WIRE_COUNTERS_STAGE_START, rc);
}

bool gpu_range_busy(void)
{
    uint32_t phase = relaxed_load(&range.phase);
    return phase == WHOLE || phase == PARTS;
}

/* ---- the counters' thread -------------------------------------------------------------------------------------------------- */

/* The values of the whole step, as counters at the time where it began. */
static void publish_whole(void)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[WIRE_COUNTERS_RANGE];
    for (size_t i = 0; i < range.host.count; i++)
        agent_counter_put(
            agent_counter_own(range.host.metric[i]->name, range.host.metric[i]->unit, range.device),
            range.value[i], range.begin);
    relaxed_add(&counters->values, 1);
    atomic_store_explicit(&counters->state, WIRE_COUNTERS_ON, memory_order_release);
}

#define PATH_BYTES 256u
#define FIELDS     7u /* metrics in a mark: as many as fit after the head */
struct counted {
    uint32_t device, pieces;
    double value[FIELDS];
};
_Static_assert(sizeof(struct counted) == WIRE_PAYLOAD_MAX, "a mark holds it whole");

/* "forward/h.0": names of the ranges around a piece. */
static void path_of(size_t piece, char path[PATH_BYTES])
{
    uint32_t name[GPU_PLAN_DEPTH];
    size_t depth = gpu_plan_path(&range.plan, piece, name), used = 0;
    snprintf(path, PATH_BYTES, "%s", depth ? "" : "(no range)");
    for (size_t i = 0; i < depth && used < PATH_BYTES - 1; i++) {
        const struct wire_text *text = agent_name_text(name[i]);
        int bytes = text ? (int)text->bytes : 1;
        const char *slash = i ? "/" : "";
        const char *shown = text ? text->text : "?";
        int more = snprintf(path + used, PATH_BYTES - used, "%s%.*s", slash, bytes, shown);
        used += more > 0 ? (size_t)more : 0;
    }
}

/* Shares and warps are means over time, all else are sums. */
static bool is_mean(const struct gpu_metric *metric)
{
    return !strcmp(metric->unit, "%") || !strcmp(metric->unit, "warps");
}

/* Of all pieces with this path. */
static double over_pieces(const char (*path)[PATH_BYTES], size_t first, size_t pieces,
                          size_t metric, size_t time)
{
    double sum = 0, weight = 0;
    bool mean = is_mean(range.host.metric[metric]);
    for (size_t i = first; i < pieces; i++) {
        double value = range.piece[i][metric],
               share = mean && time < range.host.count ? range.piece[i][time] : 1;
        if (strcmp(path[i], path[first]) != 0 || !isfinite(value) || !(share > 0))
            continue;
        sum += value * share;
        weight += share;
    }
    if (!(weight > 0))
        return (double)NAN;
    return mean ? sum / weight : sum;
}

/* Schema of metrics first .. first + FIELDS - 1, which the collector writes down as JSON. */
static uint32_t schema_of(size_t first)
{
    char text[640];
    int length = snprintf(text, sizeof text, "tacho.counted\t%zu\ndevice\t%d\t0\npieces\t%d\t4\n",
                          sizeof(struct counted), NVTX_PAYLOAD_ENTRY_TYPE_UINT32,
                          NVTX_PAYLOAD_ENTRY_TYPE_UINT32);
    for (size_t i = first; i < range.host.count && i < first + FIELDS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%.60s\t%d\t%zu\n",
                           range.host.metric[i]->name, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE,
                           offsetof(struct counted, value) + 8 * (i - first));
    return agent_name_intern(WIRE_TEXT_SCHEMA, text, (size_t)length, true);
}

/* Marks with the values of all pieces that have one path, seven metrics in each. */
static void publish_path(const char (*path)[PATH_BYTES], size_t first, size_t pieces, size_t time)
{
    uint32_t same = 0,
             name = agent_name_intern(WIRE_TEXT_NAME, path[first], strlen(path[first]), true);
    for (size_t i = first; i < pieces; i++)
        same += !strcmp(path[i], path[first]);
    for (size_t metric = 0; metric < range.host.count; metric += FIELDS) {
        struct counted counted = {.device = (uint32_t)range.device, .pieces = same};
        for (size_t i = 0; i < FIELDS; i++)
            counted.value[i] = metric + i < range.host.count
                                   ? over_pieces(path, first, pieces, metric + i, time)
                                   : 0;
        agent_mark_put(name, schema_of(metric), &counted, sizeof counted, range.parts_begin);
    }
}

/* One group of marks for each different path among the pieces. */
static void publish_parts(void)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[WIRE_COUNTERS_PARTS];
    size_t pieces = gpu_plan_pieces(&range.plan), time = 0;
    char(*path)[PATH_BYTES] = malloc(pieces * sizeof *path);
    while (time < range.host.count && strcmp(range.host.metric[time]->name, "range_time") != 0)
        time++;
    for (size_t i = 0; path && i < pieces; i++)
        path_of(i, path[i]);
    for (size_t i = 0; path && i < pieces; i++) {
        bool first = true;
        for (size_t before = 0; before < i && first; before++)
            first = strcmp(path[before], path[i]) != 0;
        if (!first)
            continue;
        publish_path((const char(*)[PATH_BYTES])path, i, pieces, time);
        relaxed_add(&counters->values, 1);
    }
    free(path);
    atomic_store_explicit(&counters->state, WIRE_COUNTERS_ON, memory_order_release);
}

static void publish(_Atomic uint32_t *values, void (*how)(void))
{
    if (atomic_load_explicit(values, memory_order_acquire) != READY)
        return;
    how();
    relaxed_store(values, PUBLISHED);
}

void gpu_range_read(void)
{
    if (relaxed_load(&agent_pause_flag))
        return; /* recording is paused for a step: later */
    publish(&range.whole, publish_whole);
    publish(&range.parts, publish_parts);
}

/* A count that is under way when the process ends is given up with the process. */
void gpu_range_stop(void)
{
    gpu_range_read();
}
