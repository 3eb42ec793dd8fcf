/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "profiler/collector/doctor/probe_gpu.h"
#include "profiler/collector/job/live.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/run/describe.h"
#include "profiler/collector/samplers/calibration.h"
#include "profiler/collector/samplers/peak.h"
#include "profiler/collector/samplers/perf.h"
#include "profiler/collector/stacks/stacks.h"
#include "store/store.h"

struct sink {
    int (*row)(void *ctx, const struct col_probe *p);
    void *ctx;
    int rc; /* of the callback: non-zero ends */
};

static void tell(struct sink *s, const char *group, const char *name, enum col_status status,
                 int error, const char *text, const char *fix)
{
    struct col_probe p = {
        .group = group, .name = name, .status = status, .error = error, .text = text, .fix = fix};
    if (s->rc == 0)
        s->rc = s->row(s->ctx, &p);
}

static void probe_agent(struct sink *s)
{
    char path[COL_PATH_MAX];
    struct tacho_error err = {0};
    if (col_find_library(NULL, path, &err) == 0)
        tell(s, "agent", "library", COL_STATUS_OK, 0, path, "");
    else
        tell(s, "agent", "library", COL_STATUS_NOT_SUPPORTED, ENOENT, err.what, err.hint);
    char *slash = strrchr(path, '/');
    if (err.what[0] || !slash)
        return;
    snprintf(slash, sizeof path - (size_t)(slash - path), "/tacho-python");
    if (access(path, R_OK | X_OK) == 0)
        tell(s, "hooks", "Python", COL_STATUS_OK, 0, path, "");
    else
        tell(s, "hooks", "Python", COL_STATUS_WARNING, errno,
             "steps, modules and loader of PyTorch are not recorded: no tacho-python",
             "'make' or 'make install' puts that folder beside libtacho.so");
    snprintf(slash, sizeof path - (size_t)(slash - path), "/libtacho_gemm.so");
    if (access(path, R_OK) == 0)
        tell(s, "hooks", "cuBLAS", COL_STATUS_OK, 0, path, "");
    else
        tell(s, "hooks", "cuBLAS", COL_STATUS_WARNING, errno,
             "run --gemm-shapes records nothing: no libtacho_gemm.so",
             "'make' or 'make install' puts it beside libtacho.so");
}

static void probe_clock(struct sink *s)
{
    char source[64] = "";
    if (col_proc_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                      sizeof source) > 0)
        source[strcspn(source, "\n")] = 0;
    char text[160];
    if (col_clock_invariant()) {
        snprintf(text, sizeof text, "time stamp counter ticks at one rate (kernel uses %s)",
                 source[0] ? source : "?");
        tell(s, "clock", "invariant TSC", COL_STATUS_OK, 0, text, "");
    } else {
        tell(s, "clock", "invariant TSC", COL_STATUS_WARNING, 0,
             "no counter of constant rate: clock_gettime is used, ~10 ns slower",
             "none needed: times are exact all the same; virtual machines can be given an "
             "invariant TSC by their host");
    }
}

/* Tries what a recording begins with. 0 or an errno. */
static int folder_refuses(const char *folder)
{
    char name[COL_PATH_MAX];
    if (snprintf(name, sizeof name, "%s/.tacho-doctor-XXXXXX", folder) >= (int)sizeof name)
        return ENAMETOOLONG;
    if (!mkdtemp(name))
        return errno;
    return rmdir(name) == 0 ? 0 : errno;
}

static void probe_storage(struct sink *s, const char *folder)
{
    char text[256];
    struct statvfs v;
    int local = store_is_local(folder), refused = folder_refuses(folder);
    if (refused)
        tell(s, "storage", "folder", COL_STATUS_DENIED, refused, strerror(refused),
             "record into another folder with -o");
    else if (local < 0)
        tell(s, "storage", "folder", COL_STATUS_WARNING, 0, "filesystem not recognised",
             "if recording fails there, give a file on a local disk: -o /tmp/run.tacho");
    else if (local == 0)
        tell(s, "storage", "folder", COL_STATUS_WARNING, 0,
             "network filesystem: the live file is kept in $TMPDIR or /tmp and copied at the end",
             "none needed, if $TMPDIR or /tmp has room for the run; else record to a local disk "
             "with -o");
    else
        tell(s, "storage", "folder", COL_STATUS_OK, 0, "local filesystem, writable", "");
    if (statvfs(folder, &v) == 0) {
        double room = (double)v.f_bavail * (double)v.f_frsize;
        snprintf(text, sizeof text, "%.1f GiB free", room / (1 << 30));
        tell(s, "storage", "room",
             room < (double)COL_DEFAULT_MAX_BYTES ? COL_STATUS_WARNING : COL_STATUS_OK, 0, text,
             room < (double)COL_DEFAULT_MAX_BYTES
                 ? "less than the default of --max-size: make room or give a smaller one"
                 : "");
    }
    if (statvfs("/dev/shm", &v) != 0 || access("/dev/shm", W_OK) != 0) {
        tell(s, "storage", "tmpfs", COL_STATUS_WARNING, errno,
             "/dev/shm cannot be written: events pass through the disk",
             "mount a tmpfs there (containers: --shm-size 1g)");
        return;
    }
    double room = (double)v.f_bavail * (double)v.f_frsize;
    snprintf(text, sizeof text, "/dev/shm: %.0f MiB free", room / (1 << 20));
    bool small = room < (double)COL_TMPFS_ROOM;
    tell(s, "storage", "tmpfs", small ? COL_STATUS_WARNING : COL_STATUS_OK, 0, text,
         small ? "events pass through the disk; in a container start it with --shm-size=1g" : "");
}

static void probe_system(struct sink *s)
{
    static const char *const path[] = {"/proc/self/stat", "/proc/self/io", "/proc/stat",
                                       "/proc/meminfo", "/proc/diskstats"};
    char text[16384];
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        long n = col_proc_read(path[i], text, sizeof text);
        struct col_proc_disk disk;
        if (n <= 0)
            tell(s, "system", path[i],
                 n == -EACCES || n == -EPERM ? COL_STATUS_DENIED : COL_STATUS_NOT_SUPPORTED,
                 (int)-n, n < 0 ? strerror((int)-n) : "empty",
                 "mount /proc (containers, chroots): mount -t proc proc /proc");
        else if (strcmp(path[i], "/proc/diskstats") == 0 && col_proc_parse_disks(text, &disk) != 0)
            tell(s, "system", path[i], COL_STATUS_NOT_SUPPORTED, 0, "no disk in it",
                 "none needed: what disks move is not recorded");
        else
            tell(s, "system", path[i], COL_STATUS_OK, 0, "readable", "");
    }
}

/* Something to count: arithmetic, and pages touched for the first time. */
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

static void probe_counters(struct sink *s)
{
    struct col_perf *p = col_perf_open(0);
    if (!p) {
        tell(s, "counters", "all", COL_STATUS_NOT_SUPPORTED, ENOMEM, "out of memory",
             "free some memory");
        return;
    }
    burn(10000000);
    for (unsigned i = 0; i < col_perf_count(p); i++) {
        struct col_perf_reading r;
        char text[160];
        col_perf_read(p, i, &r);
        if (r.status == COL_STATUS_MULTIPLEXED)
            snprintf(text, sizeof text, "%.0f %s, counted %.0f %% of the time", r.value, r.unit,
                     100 * r.ratio);
        else if (!isnan(r.value))
            snprintf(text, sizeof text, "%.0f %s in 10 ms", r.value, r.unit);
        else
            snprintf(text, sizeof text, "%s%s%s", col_status_text(r.status), r.error ? ": " : "",
                     r.error ? strerror(r.error) : "");
        tell(s, "counters", r.name, r.status, r.error, text, r.fix);
    }
    col_perf_close(p);
}

static void probe_stacks(struct sink *s)
{
    struct col_stacks *k = col_stacks_open(0, 99, false);
    const char *fix = "", *refused = k ? col_stacks_refused(k, &fix) : "out of memory";
    if (refused)
        tell(s, "counters", "call stacks", COL_STATUS_DENIED, 0, refused, fix);
    else if (!col_stacks_sees_kernel(k))
        tell(s, "counters", "call stacks", COL_STATUS_WARNING, 0, "sampled in user code only",
             "sysctl kernel.perf_event_paranoid=1 lets time in the kernel be sampled too");
    else if (!col_stacks_unwinds(k))
        tell(s, "counters", "call stacks", COL_STATUS_WARNING, 0,
             "sampled, by frame pointers: stacks of most libraries end early",
             "install libdw-dev (Debian) or elfutils-devel, then 'make' again: they are found by "
             "unwind tables then");
    else
        tell(s, "counters", "call stacks", COL_STATUS_OK, 0, "sampled, by unwind tables", "");
    col_stacks_close(k);
}

static void probe_peak(struct sink *s)
{
    struct col_peak p;
    char text[160];
    if (!col_peak_measure(&p)) {
        tell(s, "peak", "instruction peak", COL_STATUS_NOT_SUPPORTED, 0, p.reason,
             "give --peak to the report for MFU");
        return;
    }
    snprintf(text, sizeof text, "%.1f GFLOP/s fp32, %.1f fp64, %d cores, %s%s", p.fp32 / 1e9,
             p.fp64 / 1e9, p.cpus, p.isa, p.cached ? " (kept from before)" : "");
    tell(s, "peak", "instruction peak", COL_STATUS_OK, 0, text, "");
}

static void probe_calibration(struct sink *s)
{
    struct col_calibration c;
    struct tacho_error err;
    char path[COL_PATH_MAX], text[160];
    int rc = col_calibration_find(&c, NULL, path, &err);
    if (rc) {
        bool never = rc == TACHO_ENOTFOUND;
        tell(s, "peak", "calibration", COL_STATUS_WARNING, 0,
             never ? "this machine was never calibrated" : err.what,
             never ? "'tacho calibrate' measures memory, products and disk once, for rooflines"
                   : err.hint);
        return;
    }
    snprintf(text, sizeof text, "of %s, %zu rows%s", c.measured_at, c.rows,
             c.quick ? ", quick" : "");
    tell(s, "peak", "calibration", COL_STATUS_OK, 0, text, "");
    col_calibration_clear(&c);
}

int col_probe_each(const char *folder, int (*row)(void *ctx, const struct col_probe *p), void *ctx)
{
    struct sink s = {.row = row, .ctx = ctx};
    probe_agent(&s);
    probe_clock(&s);
    probe_storage(&s, folder && *folder ? folder : ".");
    probe_system(&s);
    if (s.rc == 0)
        probe_counters(&s);
    if (s.rc == 0)
        probe_stacks(&s);
    if (s.rc == 0)
        probe_peak(&s);
    if (s.rc == 0)
        probe_calibration(&s);
    if (s.rc == 0)
        s.rc = col_probe_gpu(row, ctx);
    return s.rc;
}
