/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of `tacho doctor`: what a run started here would find. Each probe reports one or more
 * lines with a status, what was found and what to do about it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "profiler/collector/doctor/probe_private.h"
#include "profiler/collector/job/live.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/run/describe.h"
#include "profiler/collector/samplers/calibration.h"
#include "profiler/collector/samplers/peak.h"
#include "profiler/collector/samplers/perf.h"
#include "profiler/collector/stacks/stacks.h"
#include "store/store.h"

/* The agent library and what lies beside it: the Python hook and the cuBLAS shim. */
static void probe_agent(struct col_sink *sink)
{
    char path[COL_PATH_MAX];
    struct tacho_error err = {0};
    if (col_find_library(NULL, path, &err) == 0)
        col_sink_ok(sink, "agent", "library", path);
    else
        col_sink_add(sink, "agent", "library", COL_STATUS_NOT_SUPPORTED, ENOENT, err.what,
                     err.hint);
    char *slash = strrchr(path, '/');
    if (err.what[0] || !slash)
        return;
    snprintf(slash, sizeof path - (size_t)(slash - path), "/tacho-python");
    if (access(path, R_OK | X_OK) == 0)
        col_sink_ok(sink, "hooks", "Python", path);
    else
        col_sink_add(sink, "hooks", "Python", COL_STATUS_WARNING, errno,
                     "steps, modules and loader of PyTorch are not recorded: no tacho-python",
                     "'make' or 'make install' puts that folder beside libtacho.so");
    snprintf(slash, sizeof path - (size_t)(slash - path), "/libtacho_gemm.so");
    if (access(path, R_OK) == 0)
        col_sink_ok(sink, "hooks", "cuBLAS", path);
    else
        col_sink_add(sink, "hooks", "cuBLAS", COL_STATUS_WARNING, errno,
                     "run --gemm-shapes records nothing: no libtacho_gemm.so",
                     "'make' or 'make install' puts it beside libtacho.so");
}

/* The clock that times events: the time stamp counter where it ticks at one rate, else
 * clock_gettime, which costs about 10 ns more. */
static void probe_clock(struct col_sink *sink)
{
    char source[64] = "";
    if (col_proc_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                      sizeof source) > 0)
        source[strcspn(source, "\n")] = 0;
    char text[160];
    if (col_clock_invariant()) {
        snprintf(text, sizeof text, "time stamp counter ticks at one rate (kernel uses %s)",
                 source[0] ? source : "?");
        col_sink_ok(sink, "clock", col_clock_counter(), text);
    } else {
        col_sink_add(sink, "clock", col_clock_counter(), COL_STATUS_WARNING, 0,
                     "no counter of constant rate: clock_gettime is used, ~10 ns slower",
                     "none needed: times are exact nevertheless; virtual machines can be given an "
                     "invariant TSC by their host");
    }
}

/* Can a file be made in the folder? 0 or an errno. */
static int folder_refuses(const char *folder)
{
    char name[COL_PATH_MAX];
    if (snprintf(name, sizeof name, "%s/.tacho-doctor-XXXXXX", folder) >= (int)sizeof name)
        return ENAMETOOLONG;
    if (!mkdtemp(name))
        return errno;
    return rmdir(name) == 0 ? 0 : errno;
}

/* Free bytes of the filesystem of a folder; negative: not known. */
static double free_bytes(const char *folder)
{
    struct statvfs filesystem;
    if (statvfs(folder, &filesystem) != 0)
        return -1;
    return (double)filesystem.f_bavail * (double)filesystem.f_frsize;
}

/* The folder of the output, and its free room. */
static void probe_storage(struct col_sink *sink)
{
    const char *folder = sink->folder;
    char text[256];
    int local = store_is_local(folder), refused = folder_refuses(folder);
    if (refused)
        col_sink_add(sink, "storage", "folder", COL_STATUS_DENIED, refused, strerror(refused),
                     "record into another folder with -o");
    else if (local < 0)
        col_sink_add(sink, "storage", "folder", COL_STATUS_WARNING, 0, "filesystem not recognised",
                     "if recording fails there, give a file on a local disk: -o /tmp/run.tacho");
    else if (local == 0)
        col_sink_add(
            sink, "storage", "folder", COL_STATUS_WARNING, 0,
            "network filesystem: the live file is kept in $TMPDIR or /tmp and copied at the end",
            "none needed, if $TMPDIR or /tmp has room for the run; else record to a local disk "
            "with -o");
    else
        col_sink_ok(sink, "storage", "folder", "local filesystem, writable");
    double room = free_bytes(folder);
    snprintf(text, sizeof text, "%.1f GiB free", room / (1 << 30));
    if (room >= 0 && room < (double)COL_DEFAULT_MAX_BYTES)
        col_sink_add(sink, "storage", "room", COL_STATUS_WARNING, 0, text,
                     "less than the default of --max-size: make room or give a smaller one");
    else if (room >= 0)
        col_sink_ok(sink, "storage", "room", text);
}

/* The memory filesystem, in which the agents' pools lie if it has room. */
static void probe_tmpfs(struct col_sink *sink)
{
    char text[256];
    double room = free_bytes("/dev/shm");
    if (room < 0 || access("/dev/shm", W_OK) != 0) {
        col_sink_add(sink, "storage", "tmpfs", COL_STATUS_WARNING, errno,
                     "/dev/shm cannot be written: events pass through the disk",
                     "mount a tmpfs there (containers: --shm-size 1g)");
        return;
    }
    snprintf(text, sizeof text, "/dev/shm: %.0f MiB free", room / (1 << 20));
    if (room < (double)COL_TMPFS_ROOM)
        col_sink_add(sink, "storage", "tmpfs", COL_STATUS_WARNING, 0, text,
                     "events pass through the disk; in a container start it with --shm-size=1g");
    else
        col_sink_ok(sink, "storage", "tmpfs", text);
}

static int put_orphan(void *ctx, const struct col_orphan *orphan)
{
    struct col_sink *sink = ctx;
    char text[2 * COL_PATH_MAX + 64];
    const char *fix = "'tacho doctor --clean' removes it";
    if (orphan->folder) {
        snprintf(text, sizeof text, "%s: %.1f MiB of a run whose folder %s is gone", orphan->pools,
                 (double)orphan->bytes / (1 << 20), orphan->folder);
        fix = "'tacho doctor --clean' removes it; if that folder was moved, 'tacho recover' the "
              "moved one first";
    } else {
        snprintf(text, sizeof text, "%s: empty, of a recorder that was killed", orphan->pools);
    }
    col_sink_add(sink, "storage", "left in memory", COL_STATUS_WARNING, 0, text, fix);
    return sink->rc;
}

/* Pools of runs whose live folder was removed by hand, and empty folders of killed recorders. */
static void probe_orphans(struct col_sink *sink)
{
    col_orphans_each(false, put_orphan, sink);
}

/* The files of /proc that are sampled. Containers and chroots may hide some of them. */
static void probe_system(struct col_sink *sink)
{
    static const char *const path[] = {"/proc/self/stat", "/proc/self/io", "/proc/stat",
                                       "/proc/meminfo", "/proc/diskstats"};
    char text[16384];
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        long length = col_proc_read(path[i], text, sizeof text);
        struct col_proc_disk disk;
        enum col_status status =
            length == -EACCES || length == -EPERM ? COL_STATUS_DENIED : COL_STATUS_NOT_SUPPORTED;
        if (length <= 0)
            col_sink_add(sink, "system", path[i], status, (int)-length,
                         length < 0 ? strerror((int)-length) : "empty",
                         "mount /proc (containers, chroots): mount -t proc proc /proc");
        else if (strcmp(path[i], "/proc/diskstats") == 0 && col_proc_parse_disks(text, &disk) != 0)
            col_sink_add(sink, "system", path[i], COL_STATUS_NOT_SUPPORTED, 0, "no disk in it",
                         "none needed: what disks move is not recorded");
        else
            col_sink_add(sink, "system", path[i], COL_STATUS_OK, 0, "readable", "");
    }
}

/* Gives the counters something to count: arithmetic, and pages touched for the first time. */
static void burn(int64_t ns)
{
    volatile float x = 1;
    int64_t until = col_clock_now() + ns;
    char *memory = malloc(1 << 20);
    for (size_t i = 0; memory && i < 1 << 20; i += 4096)
        ((volatile char *)memory)[i] = 1;
    free(memory);
    while (col_clock_now() < until)
        for (int i = 0; i < 1000; i++)
            x = x * 1.0000001f + 1e-9f;
}

/* Each hardware counter, counted for 10 ms on this thread while it has something to do. */
static void probe_counters(struct col_sink *sink)
{
    struct col_perf *perf = col_perf_open(0);
    if (!perf) {
        col_sink_add(sink, "counters", "all", COL_STATUS_NOT_SUPPORTED, ENOMEM, "out of memory",
                     "free some memory");
        return;
    }
    burn(10000000);
    for (unsigned i = 0; i < col_perf_count(perf); i++) {
        struct col_perf_reading reading;
        char text[160];
        col_perf_read(perf, i, &reading);
        if (reading.status == COL_STATUS_MULTIPLEXED)
            snprintf(text, sizeof text, "%.0f %s, counted %.0f %% of the time", reading.value,
                     reading.unit, 100 * reading.ratio);
        else if (!isnan(reading.value))
            snprintf(text, sizeof text, "%.0f %s in 10 ms", reading.value, reading.unit);
        else if (reading.error)
            snprintf(text, sizeof text, "%s: %s", col_status_text(reading.status),
                     strerror(reading.error));
        else
            snprintf(text, sizeof text, "%s", col_status_text(reading.status));
        col_sink_add(sink, "counters", reading.name, reading.status, reading.error, text,
                     reading.fix);
    }
    col_perf_close(perf);
}

#ifdef HAVE_DW
#define STACKS_FIX \
    "none: tacho reads unwind tables on x86-64 only; build libraries with -fno-omit-frame-pointer"
#else
#define STACKS_FIX \
    "install libdw-dev (Debian) or elfutils-devel, then 'make' again: they are found by unwind " \
    "tables then"
#endif

/* Call stacks: whether they can be sampled, in the kernel too, and by unwind tables. */
static void probe_stacks(struct col_sink *sink)
{
    struct col_stacks *stacks = col_stacks_open(0, 99, false);
    const char *fix = "", *refused = stacks ? col_stacks_refused(stacks, &fix) : "out of memory";
    if (refused)
        col_sink_add(sink, "counters", "call stacks", COL_STATUS_DENIED, 0, refused, fix);
    else if (!col_stacks_sees_kernel(stacks))
        col_sink_add(sink, "counters", "call stacks", COL_STATUS_WARNING, 0,
                     "sampled in user code only",
                     "sysctl kernel.perf_event_paranoid=1 lets time in the kernel be sampled too");
    else if (!col_stacks_unwinds(stacks))
        col_sink_add(sink, "counters", "call stacks", COL_STATUS_WARNING, 0,
                     "sampled, by frame pointers: stacks of most libraries end early", STACKS_FIX);
    else
        col_sink_ok(sink, "counters", "call stacks", "sampled, by unwind tables");
    col_stacks_close(stacks);
}

/* The instruction peak, which is the denominator of MFU. */
static void probe_peak(struct col_sink *sink)
{
    struct col_peak peak;
    char text[160];
    if (!col_peak_measure(&peak)) {
        col_sink_add(sink, "peak", "instruction peak", COL_STATUS_NOT_SUPPORTED, 0, peak.reason,
                     "give --peak to the report for MFU");
        return;
    }
    snprintf(text, sizeof text, "%.1f GFLOP/s fp32, %.1f fp64, %d cores, %s%s", peak.fp32 / 1e9,
             peak.fp64 / 1e9, peak.cpus, peak.isa, peak.cached ? " (kept from before)" : "");
    col_sink_ok(sink, "peak", "instruction peak", text);
}

/* The file of `tacho calibrate` for this machine. */
static void probe_calibration(struct col_sink *sink)
{
    struct col_calibration calibration;
    struct tacho_error err;
    char path[COL_PATH_MAX], text[160];
    int rc = col_calibration_find(&calibration, NULL, path, &err);
    if (rc == TACHO_ENOTFOUND)
        col_sink_add(sink, "peak", "calibration", COL_STATUS_WARNING, 0,
                     "this machine was never calibrated",
                     "'tacho calibrate' measures memory, GEMMs and disk once, for rooflines");
    else if (rc)
        col_sink_add(sink, "peak", "calibration", COL_STATUS_WARNING, 0, err.what, err.hint);
    if (rc)
        return;
    snprintf(text, sizeof text, "of %s, %zu rows%s", calibration.measured_at, calibration.rows,
             calibration.quick ? ", quick" : "");
    col_sink_ok(sink, "peak", "calibration", text);
    col_calibration_clear(&calibration);
}

struct cleaning {
    void (*removed)(void *ctx, const char *text);
    void *ctx;
};

static int put_removed(void *ctx, const struct col_orphan *orphan)
{
    const struct cleaning *cleaning = ctx;
    char text[2 * COL_PATH_MAX + 64];
    bool is_left = access(orphan->pools, F_OK) == 0;
    snprintf(text, sizeof text, "%s: %s, %.1f MiB", orphan->pools,
             is_left ? "kept in part: not everything in it is tacho's" : "removed",
             (double)orphan->bytes / (1 << 20));
    cleaning->removed(cleaning->ctx, text);
    return 0;
}

void col_clean(void (*removed)(void *ctx, const char *text), void *ctx)
{
    struct cleaning cleaning = {removed, ctx};
    col_orphans_each(true, put_removed, &cleaning);
}

/* The order of the lines on the screen. */
int col_probe_each(const char *folder, int (*row)(void *ctx, const struct col_probe *probe),
                   void *ctx)
{
    static void (*const probes[])(struct col_sink * sink) = {
        probe_agent,    probe_clock,  probe_storage, probe_tmpfs,       probe_orphans, probe_system,
        probe_counters, probe_stacks, probe_peak,    probe_calibration, col_probe_gpu};
    struct col_sink sink = {.row = row, .ctx = ctx, .folder = folder && *folder ? folder : "."};
    for (size_t i = 0; i < sizeof probes / sizeof *probes && sink.rc == 0; i++)
        probes[i](&sink);
    return sink.rc;
}
