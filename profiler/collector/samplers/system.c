/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples /proc into counter tracks: each process of the run, the sum of its other descendants, and
 * the machine. A source that cannot be read becomes a loss row, once. Context switches need a file
 * for each thread, so they are read every tenth time only.
 */
#include "profiler/collector/samplers/system.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"
#include "profiler/collector/samplers/limits.h"

#define SLOW_EVERY    10u /* samples between two readings of what costs a file a thread */
#define EARLY         4u  /* samples of a process that are all slow ones */
#define THREADS_MAX   64u /* above this the switches of a process are not read */
#define TREE_MAX      4096u
#define AFFINITY_TEXT 256

/* name, unit: tracks of a process */
#define PROCESS_MAP(X) \
    X(CPU_TIME, "cpu_time", "ns") \
    X(CPU_WAIT, "cpu_wait", "ns") \
    X(THREAD_TIME, "thread_time", "ns") \
    X(RSS, "rss", "bytes") \
    X(RSS_ANON, "rss_anon", "bytes") \
    X(MINOR, "minor_faults", "count") \
    X(MAJOR, "major_faults", "count") \
    X(THREADS, "threads", "count") \
    X(READ, "disk_read", "bytes") \
    X(WRITTEN, "disk_written", "bytes") \
    X(VOLUNTARY, "voluntary_switches", "count") \
    X(INVOLUNTARY, "involuntary_switches", "count") \
    X(THROTTLED, "cpu_throttled", "ns") \
    X(STALL_SOME, "memory_stall_some", "ns") \
    X(STALL_FULL, "memory_stall_full", "ns") \
    X(LIMIT_HITS, "memory_limit_hits", "count") \
    X(OOM_KILLS, "oom_kills", "count")
/* tracks of the machine */
#define MACHINE_MAP(X) \
    X(CPU_BUSY, "cpu_busy", "%") \
    X(MEMORY, "memory_available", "bytes") \
    X(DISK_READ, "disk_read", "bytes") \
    X(DISK_WRITTEN, "disk_written", "bytes") \
    X(MACHINE_SOME, "memory_stall_some", "ns") \
    X(MACHINE_FULL, "memory_stall_full", "ns") \
    X(SWAP_IN, "swap_in", "bytes") \
    X(SWAP_OUT, "swap_out", "bytes") \
    X(OTHER_CPU, "other_cpu_time", "ns") X(OTHER_RSS, "other_rss", "bytes")

#define TRACK_ENUM(id, name, unit) TRACK_##id,
#define TRACK_ROW(id, name, unit)  {name, unit},
enum process_track { PROCESS_MAP(TRACK_ENUM) PROCESS_TRACKS };
enum machine_track { MACHINE_MAP(TRACK_ENUM) MACHINE_TRACKS };
struct track_text {
    const char *name, *unit;
};
static const struct track_text process_text[] = {PROCESS_MAP(TRACK_ROW)};
static const struct track_text machine_text[] = {MACHINE_MAP(TRACK_ROW)};

struct sampled {
    int64_t row; /* of the table process */
    int32_t pid;
    uint64_t start_ticks;
    int64_t track[PROCESS_TRACKS]; /* 0 = not yet */
    unsigned samples;
    char affinity[AFFINITY_TEXT]; /* as it was written last */
    int64_t switches[2];          /* of threads that have ended, summed into the total */
    struct {
        int32_t tid;
        int64_t voluntary, involuntary;
    } thread[THREADS_MAX];
    unsigned threads;
    struct col_limits limits;
};

struct col_system {
    struct sampled **process;
    unsigned process_count;
    int64_t machine[MACHINE_TRACKS];
    struct col_proc_cpu cpu;
    bool has_cpu;
    unsigned turns;
    long tick_ns, page_bytes;
    unsigned refused; /* bit per source: the loss row is written */
};

/* Sources that may not be readable; bits of `refused`. */
enum source {
    SOURCE_WAIT,
    SOURCE_IO,
    SOURCE_STATUS,
    SOURCE_TASKS,
    SOURCE_MANY,
    SOURCE_CPU,
    SOURCE_MEMORY,
    SOURCE_DISKS,
    SOURCE_GROUPS,
    SOURCE_THROTTLED,
    SOURCE_PRESSURE,
    SOURCE_SWAP
};

int col_system_open(struct col_system **out)
{
    struct col_system *system = calloc(1, sizeof *system);
    if (!system)
        return TACHO_ENOMEM;
    system->tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    system->page_bytes = sysconf(_SC_PAGESIZE);
    *out = system;
    return 0;
}

void col_system_reset(struct col_system *system)
{
    for (unsigned i = 0; i < system->process_count; i++)
        free(system->process[i]);
    system->process_count = 0;
    memset(system->machine, 0, sizeof system->machine);
    system->refused = 0;
}

void col_system_close(struct col_system *system)
{
    if (!system)
        return;
    col_system_reset(system);
    free(system->process);
    free(system);
}

/* Notes once that a source cannot be read. */
static int refuse(struct col_system *system, struct col_drain *drain, enum source source,
                  const char *what, const char *why)
{
    if (system->refused & 1u << source)
        return 0;
    system->refused |= 1u << source;
    char reason[160];
    snprintf(reason, sizeof reason, "not sampled: %s: %s", what, why);
    int64_t now = col_clock_now();
    return col_drain_loss(drain, "system", reason, STORE_ABSENT, now, STORE_ABSENT);
}

/* Adds a point to a counter track, which is made first. Nothing is stored while space is short. */
static int put(struct col_drain *drain, int64_t process, const struct track_text *text,
               int64_t *track, double value)
{
    int rc = col_counter_track(drain, process, text->name, text->unit, NULL, track);
    if (rc || !col_has_room_for_sample(drain, col_clock_now()))
        return rc;
    return col_add_counter(drain, *track, col_clock_now(), value);
}

static int put_process(struct col_drain *drain, struct sampled *sampled, enum process_track track,
                       double value)
{
    return put(drain, sampled->row, &process_text[track], &sampled->track[track], value);
}

static int put_machine(struct col_drain *drain, struct col_system *system, enum machine_track track,
                       double value)
{
    return put(drain, STORE_ABSENT, &machine_text[track], &system->machine[track], value);
}

/* ---- a process --------------------------------------------------------------------------------------------------------------- */

/* CPU time of a process from its clock in ns; /proc/PID/stat has only ticks of 10 ms. */
static int64_t process_cpu(const struct col_system *system, int32_t pid,
                           const struct col_proc_stat *stat)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &time) == 0)
        return col_time_ns(time);
    return (int64_t)(stat->user_ticks + stat->system_ticks) * system->tick_ns;
}

/* Samples the time that the first thread ran, and that it waited on a run queue. The kernel shows
 * "0 0 0" where it does not account them. */
static int sample_wait(struct col_system *system, struct col_drain *drain, struct sampled *sampled)
{
    char path[48], text[128];
    unsigned long long run, wait, turns;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)sampled->pid);
    long length = col_proc_read(path, text, sizeof text);
    if (length == -ENOENT || length == -ESRCH || length == 0)
        return 0; /* it has just ended, or the kernel has no such file */
    if (length < 0 || sscanf(text, "%llu %llu %llu", &run, &wait, &turns) != 3 || !turns)
        return refuse(system, drain, SOURCE_WAIT, "time on a run queue",
                      length < 0 ? strerror((int)-length) : "the kernel does not account it");
    int rc = put_process(drain, sampled, TRACK_CPU_WAIT, (double)wait);
    return rc ? rc : put_process(drain, sampled, TRACK_THREAD_TIME, (double)run);
}

/* Samples the bytes that a process has read from and written to disks. */
static int sample_io(struct col_system *system, struct col_drain *drain, struct sampled *sampled)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/io", (int)sampled->pid);
    long length = col_proc_read(path, text, sizeof text);
    if (length == -ENOENT || length == -ESRCH || length == 0)
        return 0; /* it has just ended */
    if (length < 0)
        return refuse(system, drain, SOURCE_IO, "/proc/PID/io", strerror((int)-length));
    int64_t read = col_proc_value(text, "read_bytes"),
            written = col_proc_value(text, "write_bytes");
    int rc = read < 0 ? 0 : put_process(drain, sampled, TRACK_READ, (double)read);
    return rc || written < 0 ? rc : put_process(drain, sampled, TRACK_WRITTEN, (double)written);
}

/* Adds to `now` the switches of the threads that have ended since the sample before. */
static void add_ended(struct sampled *now, const struct sampled *before)
{
    for (unsigned i = 0; i < before->threads; i++) {
        unsigned same = 0;
        while (same < now->threads && now->thread[same].tid != before->thread[i].tid)
            same++;
        if (same < now->threads)
            continue;
        now->switches[0] += before->thread[i].voluntary;
        now->switches[1] += before->thread[i].involuntary;
    }
}

static int put_switches(struct col_drain *drain, struct sampled *sampled)
{
    int64_t total[2] = {sampled->switches[0], sampled->switches[1]};
    for (unsigned i = 0; i < sampled->threads; i++) {
        total[0] += sampled->thread[i].voluntary;
        total[1] += sampled->thread[i].involuntary;
    }
    int rc = put_process(drain, sampled, TRACK_VOLUNTARY, (double)total[0]);
    return rc ? rc : put_process(drain, sampled, TRACK_INVOLUNTARY, (double)total[1]);
}

/* Writes the CPUs that the threads of a process may use, if they are others than before. */
static int put_affinity(struct col_drain *drain, struct sampled *sampled, const cpu_set_t *cpus)
{
    char text[AFFINITY_TEXT], name[48];
    col_cpu_ranges(cpus, text, sizeof text);
    if (!*text || !strcmp(text, sampled->affinity))
        return 0;
    memcpy(sampled->affinity, text, sizeof text);
    snprintf(name, sizeof name, "process.%lld.affinity", (long long)sampled->row);
    return store_run_set(drain->db, name, text);
}

/* Samples context switches. The kernel counts them by thread, so those of threads that have ended
 * are added up here. */
static int sample_switches(struct col_system *system, struct col_drain *drain,
                           struct sampled *sampled)
{
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task", (int)sampled->pid);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT || errno == ESRCH
                   ? 0
                   : refuse(system, drain, SOURCE_TASKS, "/proc/PID/task", strerror(errno));
    struct sampled now = *sampled;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    now.threads = 0;
    bool many = false;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL && !many;) {
        int32_t tid = (int32_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        many = now.threads == THREADS_MAX;
        snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)sampled->pid, (int)tid);
        if (many || col_proc_read(path, text, sizeof text) <= 0)
            continue;
        (void)col_proc_add_cpus(text, &cpus);
        now.thread[now.threads].tid = tid;
        now.thread[now.threads].voluntary = col_proc_value(text, "voluntary_ctxt_switches");
        now.thread[now.threads++].involuntary = col_proc_value(text, "nonvoluntary_ctxt_switches");
    }
    closedir(dir);
    if (many) /* of so many threads only the first one is asked */
        (void)sched_getaffinity(sampled->pid, sizeof cpus, &cpus);
    int rc = put_affinity(drain, sampled, &cpus);
    if (rc || many)
        return rc ? rc
                  : refuse(system, drain, SOURCE_MANY, "context switches",
                           "a process has more than 64 threads");
    memcpy(now.affinity, sampled->affinity, sizeof now.affinity);
    add_ended(&now, sampled);
    *sampled = now;
    return now.threads ? put_switches(drain, sampled) : 0;
}

/* A value of a text of /proc, -1: it has none, or could not be read. */
static int64_t read_value(const char *text, long length, const char *name)
{
    return length > 0 ? col_proc_value(text, name) : -1;
}

/* Samples what a process allocated itself: the resident set also holds files that it maps. Kernels
 * before 4.5 do not tell the two apart. */
static int sample_anonymous(struct col_system *system, struct col_drain *drain,
                            struct sampled *sampled)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)sampled->pid);
    long length = col_proc_read(path, text, sizeof text);
    if (length == -ENOENT || length == -ESRCH || (length > 0 && col_proc_value(text, "VmRSS") < 0))
        return 0; /* it has just ended */
    int64_t anonymous = read_value(text, length, "RssAnon"),
            shared = read_value(text, length, "RssShmem");
    if (anonymous < 0 || shared < 0)
        return refuse(system, drain, SOURCE_STATUS, "RssAnon of /proc/PID/status",
                      length < 0 ? strerror((int)-length) : "the kernel does not count it");
    return put_process(drain, sampled, TRACK_RSS_ANON, 1024 * (double)(anonymous + shared));
}

/* Writes the limits of a process as keys: "none" where a limit is known not to be there. */
static int put_limits(struct col_drain *drain, const struct sampled *sampled)
{
    const struct col_limits *limits = &sampled->limits;
    char name[64], text[32];
    snprintf(name, sizeof name, "process.%lld.cpu_quota", (long long)sampled->row);
    snprintf(text, sizeof text, limits->quota > 0 ? "%.6g" : "none", limits->quota);
    int rc = limits->has_cpu ? store_run_set(drain->db, name, text) : 0;
    snprintf(name, sizeof name, "process.%lld.memory_limit_bytes", (long long)sampled->row);
    return rc || !limits->memory_bytes ? rc
                                       : store_run_set_int(drain->db, name, limits->memory_bytes);
}

/* Reads the numbers of a process; false: it has ended, or its pid belongs to another one by now. */
static bool read_living(const struct sampled *sampled, struct col_proc_stat *stat)
{
    return col_proc_read_stat(sampled->pid, stat) == 0 &&
           (!sampled->start_ticks || stat->start_ticks == sampled->start_ticks) &&
           stat->state != 'Z';
}

/* Finds the control groups of a process; a process may be moved, and its limits may be changed. One
 * that ends has no file, or is shown in the outermost group: it counts only if it still lives. */
static int find_limits(struct col_system *system, struct col_drain *drain, struct sampled *sampled)
{
    char path[48], text[8192];
    struct col_limits before = sampled->limits;
    struct col_proc_stat stat;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)sampled->pid);
    long length = col_proc_read(path, text, sizeof text);
    if (!read_living(sampled, &stat))
        return 0;
    col_limits_find(COL_CGROUP_ROOT, length > 0 ? text : "", &sampled->limits);
    if (!sampled->limits.has_cpu)
        return refuse(system, drain, SOURCE_GROUPS, "the CPU quota of the control groups",
                      length > 0 ? "they are not visible in " COL_CGROUP_ROOT
                                 : "the kernel has no control groups");
    bool same = before.has_cpu && !(before.quota < sampled->limits.quota) &&
                !(before.quota > sampled->limits.quota) &&
                before.memory_bytes == sampled->limits.memory_bytes;
    return same ? 0 : put_limits(drain, sampled);
}

/* Samples what the control groups of a process have counted. */
static int sample_limits(struct col_system *system, struct col_drain *drain,
                         struct sampled *sampled)
{
    const struct col_limits *limits = &sampled->limits;
    struct col_pressure pressure;
    char text[256];
    int rc = 0;
    int64_t throttled = col_limits_throttled(limits);
    if (throttled >= 0)
        rc = put_process(drain, sampled, TRACK_THROTTLED, (double)throttled);
    else if (limits->cpu_count)
        rc = refuse(system, drain, SOURCE_THROTTLED, "throttled time of the control groups",
                    "cpu.stat does not have it");
    if (!rc && limits->has_tasks &&
        col_cgroup_read(&limits->tasks, "memory.pressure", text, sizeof text) > 0 &&
        col_pressure_parse(text, &pressure)) {
        rc = put_process(drain, sampled, TRACK_STALL_SOME, (double)pressure.some);
        rc = rc || pressure.full < 0
                 ? rc
                 : put_process(drain, sampled, TRACK_STALL_FULL, (double)pressure.full);
    }
    if (rc || !limits->memory_bytes)
        return rc;
    struct col_cgroup_events events = col_cgroup_events(&limits->memory);
    rc = events.hits < 0 ? 0 : put_process(drain, sampled, TRACK_LIMIT_HITS, (double)events.hits);
    return rc || events.kills < 0
               ? rc
               : put_process(drain, sampled, TRACK_OOM_KILLS, (double)events.kills);
}

/* Samples one process, unless it has ended or its pid belongs to another one by now. */
static int sample_process(struct col_system *system, struct col_drain *drain,
                          struct sampled *sampled)
{
    struct col_proc_stat stat;
    if (!read_living(sampled, &stat))
        return 0;
    const struct {
        enum process_track track;
        double value;
    } value[] = {
        {TRACK_CPU_TIME, (double)process_cpu(system, sampled->pid, &stat)},
        {TRACK_RSS, (double)stat.rss_pages * (double)system->page_bytes},
        {TRACK_MINOR, (double)stat.minor_faults},
        {TRACK_MAJOR, (double)stat.major_faults},
        {TRACK_THREADS, (double)stat.threads},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof value / sizeof *value && rc == 0; i++)
        rc = put_process(drain, sampled, value[i].track, value[i].value);
    if (rc == 0)
        rc = sample_anonymous(system, drain, sampled);
    if (rc == 0)
        rc = sample_wait(system, drain, sampled);
    if (rc == 0)
        rc = sample_io(system, drain, sampled);
    bool young =
        sampled->samples++ < EARLY; /* a launcher may set the affinity and become the program */
    bool slow = young || system->turns % SLOW_EVERY == 0;
    if (rc == 0 && slow)
        rc = sample_switches(system, drain, sampled);
    if (rc == 0 && slow)
        rc = find_limits(system, drain, sampled);
    return rc ? rc : sample_limits(system, drain, sampled);
}

/* Updates the list of processes to sample: those of the drain that have not ended. */
static int follow(struct col_system *system, struct col_drain *drain)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < system->process_count; i++) {
        bool alive = false;
        for (uint32_t k = 0; k < drain->process_count; k++)
            alive |= drain->process[k]->id == system->process[i]->row && !drain->process[k]->gone;
        if (alive)
            system->process[kept++] = system->process[i];
        else
            free(system->process[i]);
    }
    system->process_count = kept;
    for (uint32_t k = 0; k < drain->process_count; k++) {
        const struct col_process *process = drain->process[k];
        bool known = process->gone;
        for (unsigned i = 0; i < kept; i++)
            known |= system->process[i]->row == process->id;
        if (known)
            continue;
        struct sampled **list =
            realloc(system->process, (system->process_count + 1) * sizeof *list);
        struct sampled *sampled = list ? calloc(1, sizeof *sampled) : NULL;
        if (list)
            system->process = list;
        if (!sampled)
            return TACHO_ENOMEM;
        sampled->row = process->id;
        sampled->pid = process->pid;
        sampled->start_ticks = process->start_ticks;
        system->process[system->process_count++] = sampled;
    }
    return 0;
}

/* ---- descendants without a pool ------------------------------------------------------------------------------------------------- */

struct tree {
    int32_t pid[TREE_MAX];
    unsigned count;
};

static void add_to_tree(void *ctx, int32_t pid)
{
    struct tree *tree = ctx;
    if (tree->count < TREE_MAX)
        tree->pid[tree->count++] = pid;
}

/* Samples the sum of CPU time and memory over all descendants that have no track of their own. */
static int sample_others(struct col_system *system, struct col_drain *drain)
{
    static struct tree tree; /* too large for a stack; one collector a process */
    int64_t cpu = 0, rss = 0;
    unsigned others = 0;
    tree.count = 0;
    col_proc_children((int32_t)getpid(), add_to_tree, &tree);
    for (uint32_t i = 0; i < drain->process_count; i++) /* targets of the other ranks */
        if (drain->process[i]->awaited && !drain->process[i]->gone)
            add_to_tree(&tree, drain->process[i]->pid);
    for (unsigned i = 0; i < tree.count; i++) {
        struct col_proc_stat stat;
        bool own_track = tree.pid[i] == drain->companion;
        if (own_track)
            continue;
        col_proc_children(tree.pid[i], add_to_tree, &tree);
        for (unsigned k = 0; k < system->process_count; k++)
            own_track |= system->process[k]->pid == tree.pid[i];
        if (own_track || col_proc_read_stat(tree.pid[i], &stat) != 0)
            continue;
        cpu += process_cpu(system, tree.pid[i], &stat);
        rss += stat.rss_pages * system->page_bytes;
        others++;
    }
    if (!others)
        return 0;
    int rc = put_machine(drain, system, TRACK_OTHER_CPU, (double)cpu);
    return rc ? rc : put_machine(drain, system, TRACK_OTHER_RSS, (double)rss);
}

/* ---- the machine ------------------------------------------------------------------------------------------------------------------ */

/* Samples the share of time in which the machine's CPUs were busy since the last sample. */
static int sample_cpu(struct col_system *system, struct col_drain *drain)
{
    char text[512];
    struct col_proc_cpu now;
    long length = col_proc_read("/proc/stat", text, sizeof text);
    if (length <= 0 || col_proc_parse_cpu(text, &now) != 0)
        return refuse(system, drain, SOURCE_CPU, "/proc/stat",
                      length < 0 ? strerror((int)-length) : "not understood");
    uint64_t busy = now.busy - system->cpu.busy, idle = now.idle - system->cpu.idle;
    bool first = !system->has_cpu;
    system->cpu = now;
    system->has_cpu = true;
    if (first || busy + idle == 0 || busy > UINT32_MAX || idle > UINT32_MAX)
        return 0;
    return put_machine(drain, system, TRACK_CPU_BUSY, 100.0 * (double)busy / (double)(busy + idle));
}

/* Samples how long tasks waited for memory, and what was swapped. */
static int sample_pressure(struct col_system *system, struct col_drain *drain)
{
    char text[16384];
    struct col_pressure pressure;
    long length = col_proc_read("/proc/pressure/memory", text, 256);
    int rc;
    if (length <= 0 || !col_pressure_parse(text, &pressure))
        rc = refuse(system, drain, SOURCE_PRESSURE, "/proc/pressure/memory",
                    length == -ENOENT ? "the kernel does not account it (psi=1)" : "not readable");
    else
        rc = put_machine(drain, system, TRACK_MACHINE_SOME, (double)pressure.some);
    if (!rc && length > 0 && pressure.full >= 0)
        rc = put_machine(drain, system, TRACK_MACHINE_FULL, (double)pressure.full);
    if (rc)
        return rc;
    length = col_proc_read("/proc/vmstat", text, sizeof text);
    int64_t in = read_value(text, length, "pswpin"), out = read_value(text, length, "pswpout");
    if (in < 0 || out < 0)
        return refuse(system, drain, SOURCE_SWAP, "swap of /proc/vmstat", "not readable");
    rc = put_machine(drain, system, TRACK_SWAP_IN, (double)(in * system->page_bytes));
    return rc ? rc : put_machine(drain, system, TRACK_SWAP_OUT, (double)(out * system->page_bytes));
}

/* Samples the machine: CPU, memory, disks. */
static int sample_machine(struct col_system *system, struct col_drain *drain)
{
    char text[16384];
    int rc = sample_cpu(system, drain);
    if (rc)
        return rc;
    long length = col_proc_read("/proc/meminfo", text, 1024);
    int64_t available = length > 0 ? col_proc_value(text, "MemAvailable") : -1;
    if (available < 0)
        rc = refuse(system, drain, SOURCE_MEMORY, "/proc/meminfo",
                    length < 0 ? strerror((int)-length) : "no MemAvailable");
    else
        rc = put_machine(drain, system, TRACK_MEMORY, (double)available * 1024);
    if (rc)
        return rc;
    struct col_proc_disk disk;
    length = col_proc_read("/proc/diskstats", text, sizeof text);
    if (length <= 0 || col_proc_parse_disks(text, &disk) != 0)
        return refuse(system, drain, SOURCE_DISKS, "/proc/diskstats",
                      length < 0 ? strerror((int)-length) : "no disk in it");
    rc = put_machine(drain, system, TRACK_DISK_READ, (double)disk.read_bytes);
    return rc ? rc : put_machine(drain, system, TRACK_DISK_WRITTEN, (double)disk.written_bytes);
}

/* One sample of everything; the descendants without a pool every tenth time only. */
int col_system_sample(struct col_system *system, struct col_drain *drain)
{
    int rc = follow(system, drain);
    for (unsigned i = 0; i < system->process_count && rc == 0; i++)
        rc = sample_process(system, drain, system->process[i]);
    if (rc == 0)
        rc = sample_machine(system, drain);
    if (rc == 0)
        rc = sample_pressure(system, drain);
    if (rc == 0 && system->turns % SLOW_EVERY == 0)
        rc = sample_others(system, drain);
    system->turns++;
    return rc;
}
