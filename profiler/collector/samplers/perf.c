/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware and software counters through perf_event_open. Each counter is opened on its own, so
 * that one the machine lacks does not cost the others. Values are those of the target and all its
 * descendants, scaled where the kernel multiplexes counters; several targets are summed.
 */
#include "profiler/collector/samplers/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef HAVE_PFM
#include <perfmon/pfmlib_perf_event.h>
#endif

#include "profiler/collector/os/proc.h"

/* How a counter is asked for: by perf's own type and number, or by a name that libpfm4 encodes for
 * this CPU. */
static const struct counter_kind {
    const char *name, *unit;
    uint32_t type;
    uint64_t config;
    const char *event;  /* libpfm4; NULL = type and config */
    const char *vendor; /* only on CPUs of this one */
    bool needs_kernel;  /* happens in the kernel: counting user mode only would give a false 0 */
} kinds[] = {
#define HARDWARE(name, event) \
    { \
        name, "count", PERF_TYPE_HARDWARE, PERF_COUNT_HW_##event, NULL, NULL, false \
    }
#define SOFTWARE(name, unit, event, needs_kernel) \
    { \
        name, unit, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##event, NULL, NULL, needs_kernel \
    }
#define FP_ARITH(name, width) \
    { \
        name, "instructions", 0, 0, "FP_ARITH_INST_RETIRED:" width, "GenuineIntel", false \
    }
    HARDWARE("cycles", CPU_CYCLES),
    HARDWARE("instructions", INSTRUCTIONS),
    HARDWARE("cache_misses", CACHE_MISSES),
    HARDWARE("branch_misses", BRANCH_MISSES),
    FP_ARITH("fp_scalar_single", "SCALAR_SINGLE"),
    FP_ARITH("fp_128b_single", "128B_PACKED_SINGLE"),
    FP_ARITH("fp_256b_single", "256B_PACKED_SINGLE"),
    FP_ARITH("fp_512b_single", "512B_PACKED_SINGLE"),
    FP_ARITH("fp_scalar_double", "SCALAR_DOUBLE"),
    FP_ARITH("fp_128b_double", "128B_PACKED_DOUBLE"),
    FP_ARITH("fp_256b_double", "256B_PACKED_DOUBLE"),
    FP_ARITH("fp_512b_double", "512B_PACKED_DOUBLE"),
    {"fp_flops", "flops", 0, 0, "RETIRED_SSE_AVX_FLOPS:ANY", "AuthenticAMD", false},
    SOFTWARE("task_clock", "ns", TASK_CLOCK, false),
    SOFTWARE("page_faults", "count", PAGE_FAULTS, false),
    SOFTWARE("context_switches", "count", CONTEXT_SWITCHES, true),
    SOFTWARE("cpu_migrations", "count", CPU_MIGRATIONS, true),
};
#define KINDS (sizeof kinds / sizeof *kinds)

struct counter {
    const struct counter_kind *kind;
    int fd, error;
    const char *missing; /* why it could not even be asked for */
    int64_t track;
};

struct col_perf {
    struct col_perf *more; /* the same counters on another process */
    unsigned count;
    struct counter counter[KINDS];
};

static const char *const status_text[] = {
#define STATUS_TEXT(name, text) text,
    COL_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
};

const char *col_status_text(enum col_status status)
{
    return (size_t)status < sizeof status_text / sizeof *status_text ? status_text[status] : "?";
}

/* Encodes FP_ARITH_INST_RETIRED on Intel's big cores from Broadwell on: event 0xc7 with a bit for
 * each width (SDM vol. 3B, performance monitoring events). Covers cores that libpfm4 does not know
 * yet; the kernel names the core that it programs. */
static bool encode_known_core(const struct counter_kind *kind, struct perf_event_attr *attr)
{
    static const char *const cores[] = {"broadwell", "skylake", "icelake", "sapphire_rapids",
                                        "granite_rapids"};
    static const struct {
        const char *width;
        uint64_t mask;
    } widths[] = {{":SCALAR_DOUBLE", 0x01},      {":SCALAR_SINGLE", 0x02},
                  {":128B_PACKED_DOUBLE", 0x04}, {":128B_PACKED_SINGLE", 0x08},
                  {":256B_PACKED_DOUBLE", 0x10}, {":256B_PACKED_SINGLE", 0x20},
                  {":512B_PACKED_DOUBLE", 0x40}, {":512B_PACKED_SINGLE", 0x80}};
    char core[64];
    if (strncmp(kind->event, "FP_ARITH", 8) != 0 ||
        col_proc_read("/sys/bus/event_source/devices/cpu/caps/pmu_name", core, sizeof core) <= 0)
        return false;
    core[strcspn(core, "\n")] = 0;
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        for (size_t width = 0;
             strcmp(core, cores[i]) == 0 && width < sizeof widths / sizeof *widths; width++)
            if (strstr(kind->event, widths[width].width)) {
                attr->type = PERF_TYPE_RAW;
                attr->config = widths[width].mask << 8 | 0xc7;
                return true;
            }
    return false;
}

/* Fills in what the kernel needs to know to count an event: a type and number, taken from the
 * table, from the known cores or from libpfm4. False with *missing set where none of these knows
 * it. */
static bool encode(const struct counter_kind *kind, struct perf_event_attr *attr,
                   const char **missing)
{
    memset(attr, 0, sizeof *attr);
    attr->size = sizeof *attr;
    attr->type = kind->type;
    attr->config = kind->config;
    if (!kind->event)
        return true;
    if (encode_known_core(kind, attr))
        return true;
#ifdef HAVE_PFM
    static bool ready, tried;
    if (!tried)
        ready = pfm_initialize() == PFM_SUCCESS;
    tried = true;
    pfm_perf_encode_arg_t arg = {.attr = attr, .size = sizeof arg};
    if (ready &&
        pfm_get_os_event_encoding(kind->event, PFM_PLM3, PFM_OS_PERF_EVENT, &arg) == PFM_SUCCESS)
        return true;
    *missing = "libpfm4 has no such event for this CPU";
#else
    *missing = "built without libpfm4";
#endif
    return false;
}

/* Opens a counter that is inherited by all descendants and starts with the next exec. */
static int open_counter(struct perf_event_attr *attr, pid_t pid)
{
    attr->size = sizeof *attr;
    attr->disabled = pid != 0;
    attr->enable_on_exec = pid != 0;
    attr->inherit = 1;
    attr->exclude_hv = 1;
    attr->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Is this CPU made by a vendor? NULL: any. */
static bool is_vendor(const char *vendor)
{
    char text[1024];
    return !vendor ||
           (col_proc_read("/proc/cpuinfo", text, sizeof text) > 0 && strstr(text, vendor));
}

/* Opens every counter of this CPU's vendor. Hardware events count user code only, which is all that
 * perf_event_paranoid 2 allows. A software event that may not count the kernel is opened again for
 * user code, unless it happens only in the kernel: a 0 would be false then. */
struct col_perf *col_perf_open(pid_t pid)
{
    struct col_perf *perf = calloc(1, sizeof *perf);
    if (!perf)
        return NULL;
    for (size_t i = 0; i < KINDS; i++) {
        if (!is_vendor(kinds[i].vendor))
            continue;
        struct counter *counter = &perf->counter[perf->count++];
        struct perf_event_attr attr;
        *counter = (struct counter){.kind = &kinds[i], .fd = -1};
        if (!encode(&kinds[i], &attr, &counter->missing))
            continue;
        attr.exclude_kernel = attr.type != PERF_TYPE_SOFTWARE;
        counter->fd = open_counter(&attr, pid);
        if (counter->fd < 0 && (errno == EACCES || errno == EPERM) &&
            attr.type == PERF_TYPE_SOFTWARE && !kinds[i].needs_kernel) {
            attr.exclude_kernel = 1;
            counter->fd = open_counter(&attr, pid);
        }
        counter->error = counter->fd < 0 ? errno : 0;
    }
    return perf;
}

void col_perf_add(struct col_perf *perf, pid_t pid)
{
    while (perf->more)
        perf = perf->more;
    perf->more = col_perf_open(pid);
}

unsigned col_perf_count(const struct col_perf *perf)
{
    return perf ? perf->count : 0;
}

/* Says why a counter was not opened, and what to do about it. */
static void explain(const struct counter *counter, struct col_perf_reading *out)
{
    char text[32] = "";
    out->error = counter->error;
    out->status = COL_STATUS_NOT_SUPPORTED;
    if (counter->missing) {
        out->fix =
            strstr(counter->missing, "built without")
                ? "install libpfm4-dev and build again"
                : "none: libpfm4 has no such event for this processor; all else works without it";
    } else if (counter->error == EACCES || counter->error == EPERM) {
        out->status = COL_STATUS_DENIED;
        bool paranoid =
            col_proc_read("/proc/sys/kernel/perf_event_paranoid", text, sizeof text) > 0 &&
            strtol(text, NULL, 10) > 1;
        out->fix = paranoid ? "sysctl kernel.perf_event_paranoid=1, or give tacho CAP_PERFMON"
                            : "allow perf_event_open (a container's seccomp filter forbids it), or "
                              "give tacho CAP_PERFMON";
    } else {
        static const char none[] = "none here: this (virtual) machine has no such counter; use one "
                                   "that shows its PMU to guests";
        static const struct {
            int error;
            const char *fix;
        } fixes[] = {
            {ENOENT, none},
            {EOPNOTSUPP, none},
            {ENODEV, none},
            {ENOSYS, "this kernel (or sandbox) has no perf_event_open: record outside of it"},
            {EBUSY, "another profiler holds the counters (perf, an NMI watchdog: sysctl "
                    "kernel.nmi_watchdog=0)"},
            {EMFILE, "raise the limit of open files: ulimit -n 4096"},
        };
        out->fix = "";
        for (size_t i = 0; i < sizeof fixes / sizeof *fixes; i++)
            if (fixes[i].error == counter->error)
                out->fix = fixes[i].fix;
    }
}

/* Reads one counter of one process. *idle: the process has not called exec yet. */
static void read_one(struct col_perf *perf, unsigned i, struct col_perf_reading *out, bool *idle)
{
    *idle = false;
    struct counter *counter = &perf->counter[i];
    *out = (struct col_perf_reading){.name = counter->kind->name,
                                     .unit = counter->kind->unit,
                                     .value = NAN,
                                     .fix = "",
                                     .event = counter->kind->event ? counter->kind->event
                                                                   : counter->kind->name};
    if (counter->fd < 0) {
        explain(counter, out);
        return;
    }
    struct {
        uint64_t value, enabled, running;
    } count;
    ssize_t bytes = read(counter->fd, &count, sizeof count);
    if (bytes != (ssize_t)sizeof count) {
        out->status = COL_STATUS_NOT_COUNTED;
        out->error = bytes < 0 ? errno : 0;
        return;
    }
    if (count.running == 0) {
        out->status = COL_STATUS_NOT_COUNTED;
        out->fix = count.enabled ? "another profiler may hold the counters" : "";
        *idle = count.enabled == 0;
        return;
    }
    out->ratio = count.enabled ? (double)count.running / (double)count.enabled : 1;
    out->status = count.running < count.enabled ? COL_STATUS_MULTIPLEXED : COL_STATUS_OK;
    out->value =
        count.running < count.enabled ? (double)count.value / out->ratio : (double)count.value;
}

/* The sum over the processes. One that has not called exec yet adds nothing. */
void col_perf_read(struct col_perf *perf, unsigned i, struct col_perf_reading *out)
{
    bool idle;
    read_one(perf, i, out, &idle);
    for (struct col_perf *process = perf->more; process; process = process->more) {
        struct col_perf_reading reading, sum = *out;
        bool none = idle;
        read_one(process, i, &reading, &idle);
        if (idle && !none)
            idle = false;
        else if (none || isnan(reading.value))
            *out = reading;
        else if (!isnan(sum.value)) {
            *out = reading.status == COL_STATUS_MULTIPLEXED && reading.ratio < sum.ratio ? reading
                                                                                         : sum;
            out->value = sum.value + reading.value;
        }
    }
}

int col_perf_sample(struct col_perf *perf, struct col_drain *drain)
{
    for (unsigned i = 0; i < perf->count; i++) {
        struct col_perf_reading reading;
        col_perf_read(perf, i, &reading);
        if (isnan(reading.value))
            continue;
        int64_t *track = &perf->counter[i].track;
        char name[64];
        snprintf(name, sizeof name, "perf.%s", reading.name);
        int rc = col_counter_track(drain, STORE_ABSENT, name, reading.unit, NULL, track);
        if (rc == 0)
            rc = col_add_counter(drain, *track, col_clock_now(), reading.value);
        if (rc)
            return rc;
    }
    return 0;
}

/* Each counter gets its status and its total. One that was not measured gets a loss row too. */
int col_perf_finish(struct col_perf *perf, struct col_drain *drain)
{
    for (unsigned i = 0; i < perf->count; i++) {
        struct col_perf_reading reading;
        char name[64], text[256];
        col_perf_read(perf, i, &reading);
        size_t length = (size_t)snprintf(text, sizeof text, "%s", col_status_text(reading.status));
        if (perf->counter[i].missing)
            snprintf(text + length, sizeof text - length, ": %s", perf->counter[i].missing);
        else if (reading.error)
            snprintf(text + length, sizeof text - length, ": %s", strerror(reading.error));
        else if (reading.status == COL_STATUS_MULTIPLEXED)
            snprintf(text + length, sizeof text - length, ": counted %.1f %% of the time, scaled",
                     100 * reading.ratio);
        snprintf(name, sizeof name, "counter.%s", reading.name);
        int rc = store_run_set(drain->db, name, text);
        snprintf(name, sizeof name, "perf.%s", reading.name);
        struct store_metric metric = {.name = name,
                                      .unit = reading.unit,
                                      .value = reading.value,
                                      .reason = isnan(reading.value) ? text : NULL};
        if (rc == 0)
            rc = store_metric_set(drain->db, &metric);
        if (rc == 0 && isnan(reading.value)) {
            char source[80];
            snprintf(source, sizeof source, "counter %s", reading.name);
            rc = col_drain_loss_uncounted(drain, source, text);
        }
        if (rc)
            return rc;
    }
    return 0;
}

void col_perf_reset(struct col_perf *perf)
{
    for (unsigned i = 0; perf && i < perf->count; i++)
        perf->counter[i].track = 0;
}

void col_perf_close(struct col_perf *perf)
{
    for (unsigned i = 0; perf && i < perf->count; i++)
        if (perf->counter[i].fd >= 0)
            close(perf->counter[i].fd);
    if (perf)
        col_perf_close(perf->more);
    free(perf);
}
