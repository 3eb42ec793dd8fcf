/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/samplers/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"

#define SLOW_EVERY  10u /* samples between two readings of what costs a file a thread */
#define THREADS_MAX 64u /* above this the switches of a process are not read */
#define TREE_MAX    4096u

/* name, unit: tracks of a process */
#define PROCESS_MAP(X) \
    X(CPU_TIME, "cpu_time", "ns") \
    X(CPU_WAIT, "cpu_wait", "ns") \
    X(RSS, "rss", "bytes") \
    X(MINOR, "minor_faults", "count") \
    X(MAJOR, "major_faults", "count") \
    X(THREADS, "threads", "count") \
    X(READ, "disk_read", "bytes") \
    X(WRITTEN, "disk_written", "bytes") \
    X(VOLUNTARY, "voluntary_switches", "count") \
    X(INVOLUNTARY, "involuntary_switches", "count")
/* tracks of the machine */
#define MACHINE_MAP(X) \
    X(CPU_BUSY, "cpu_busy", "%") \
    X(MEMORY, "memory_available", "bytes") \
    X(DISK_READ, "disk_read", "bytes") \
    X(DISK_WRITTEN, "disk_written", "bytes") \
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
    int64_t switches[2];           /* of threads that have ended, summed into the total */
    struct {
        int32_t tid;
        int64_t voluntary, involuntary;
    } thread[THREADS_MAX];
    unsigned threads;
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

/* Sources that may be closed to us. bit, text */
enum source {
    SOURCE_WAIT,
    SOURCE_IO,
    SOURCE_TASKS,
    SOURCE_MANY,
    SOURCE_CPU,
    SOURCE_MEMORY,
    SOURCE_DISKS
};

int col_system_open(struct col_system **out)
{
    struct col_system *s = calloc(1, sizeof *s);
    if (!s)
        return TACHO_ENOMEM;
    s->tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    s->page_bytes = sysconf(_SC_PAGESIZE);
    *out = s;
    return 0;
}

void col_system_reset(struct col_system *s)
{
    for (unsigned i = 0; i < s->process_count; i++)
        free(s->process[i]);
    s->process_count = 0;
    memset(s->machine, 0, sizeof s->machine);
    s->refused = 0;
}

void col_system_close(struct col_system *s)
{
    if (!s)
        return;
    col_system_reset(s);
    free(s->process);
    free(s);
}

static int refuse(struct col_system *s, struct col_drain *d, enum source source, const char *what,
                  const char *why)
{
    if (s->refused & 1u << source)
        return 0;
    s->refused |= 1u << source;
    char reason[160];
    snprintf(reason, sizeof reason, "not sampled: %s: %s", what, why);
    int64_t now = col_clock_now();
    return col_drain_loss(d, "system", reason, STORE_ABSENT, now, STORE_ABSENT);
}

static int put(struct col_drain *d, int64_t process, const struct track_text *text, int64_t *track,
               double value)
{
    if (!*track) {
        struct store_track t = {.process = process,
                                .tid = STORE_ABSENT,
                                .kind = "counter",
                                .name = text->name,
                                .unit = text->unit};
        int rc = store_track_add(d->db, &t);
        if (rc)
            return rc;
        *track = t.id;
    }
    struct store_counter c = {.track = *track, .time = col_clock_now(), .value = value};
    enum col_cut why;
    if (!col_decode_keeps(d, STORE_ABSENT, &why))
        return 0;
    d->stats.counters++;
    return store_counter_add(d->db, &c);
}

/* ---- a process --------------------------------------------------------------------------------------------------------------- */

/* The CPU clock of a whole process: ns where /proc/PID/stat has ticks of 10 ms. */
static int64_t process_cpu(const struct col_system *s, int32_t pid, const struct col_proc_stat *st)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return (int64_t)(st->user_ticks + st->system_ticks) * s->tick_ns;
}

/* Time that the first thread spent ready without a core; "0 0 0" where the kernel keeps no account
 * of it. */
static int sample_wait(struct col_system *s, struct col_drain *d, struct sampled *p)
{
    char path[48], text[128];
    unsigned long long run, wait, turns;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)p->pid);
    long n = col_proc_read(path, text, sizeof text);
    if (n == -ENOENT || n == -ESRCH || n == 0)
        return 0; /* it has just ended, or the kernel has no such file */
    if (n < 0 || sscanf(text, "%llu %llu %llu", &run, &wait, &turns) != 3 || !turns)
        return refuse(s, d, SOURCE_WAIT, "time on a run queue",
                      n < 0 ? strerror((int)-n) : "the kernel does not account it");
    return put(d, p->row, &process_text[TRACK_CPU_WAIT], &p->track[TRACK_CPU_WAIT], (double)wait);
}

static int sample_io(struct col_system *s, struct col_drain *d, struct sampled *p)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/io", (int)p->pid);
    long n = col_proc_read(path, text, sizeof text);
    if (n == -ENOENT || n == -ESRCH || n == 0)
        return 0; /* it has just ended */
    if (n < 0)
        return refuse(s, d, SOURCE_IO, "/proc/PID/io", strerror((int)-n));
    int64_t read = col_proc_value(text, "read_bytes"),
            written = col_proc_value(text, "write_bytes");
    int rc = read < 0
                 ? 0
                 : put(d, p->row, &process_text[TRACK_READ], &p->track[TRACK_READ], (double)read);
    return rc || written < 0 ? rc
                             : put(d, p->row, &process_text[TRACK_WRITTEN],
                                   &p->track[TRACK_WRITTEN], (double)written);
}

/* The kernel counts switches by thread; the total goes on counting those of threads that have ended
 * meanwhile. */
static int sample_switches(struct col_system *s, struct col_drain *d, struct sampled *p)
{
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task", (int)p->pid);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT || errno == ESRCH
                   ? 0
                   : refuse(s, d, SOURCE_TASKS, "/proc/PID/task", strerror(errno));
    struct sampled now = *p;
    now.threads = 0;
    bool many = false;
    for (struct dirent *e; (e = readdir(dir)) != NULL && !many;) {
        int32_t tid = (int32_t)strtol(e->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        many = now.threads == THREADS_MAX;
        snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)p->pid, (int)tid);
        if (many || col_proc_read(path, text, sizeof text) <= 0)
            continue;
        now.thread[now.threads].tid = tid;
        now.thread[now.threads].voluntary = col_proc_value(text, "voluntary_ctxt_switches");
        now.thread[now.threads++].involuntary = col_proc_value(text, "nonvoluntary_ctxt_switches");
    }
    closedir(dir);
    if (many)
        return refuse(s, d, SOURCE_MANY, "context switches", "a process has more than 64 threads");
    int64_t total[2] = {now.switches[0], now.switches[1]};
    for (unsigned i = 0; i < p->threads; i++) {
        unsigned k = 0;
        while (k < now.threads && now.thread[k].tid != p->thread[i].tid)
            k++;
        if (k < now.threads)
            continue;
        now.switches[0] += p->thread[i].voluntary;
        now.switches[1] += p->thread[i].involuntary;
    }
    total[0] = now.switches[0];
    total[1] = now.switches[1];
    for (unsigned i = 0; i < now.threads; i++) {
        total[0] += now.thread[i].voluntary;
        total[1] += now.thread[i].involuntary;
    }
    *p = now;
    if (!now.threads)
        return 0;
    int rc = put(d, p->row, &process_text[TRACK_VOLUNTARY], &p->track[TRACK_VOLUNTARY],
                 (double)total[0]);
    return rc ? rc
              : put(d, p->row, &process_text[TRACK_INVOLUNTARY], &p->track[TRACK_INVOLUNTARY],
                    (double)total[1]);
}

static int sample_process(struct col_system *s, struct col_drain *d, struct sampled *p)
{
    struct col_proc_stat st;
    if (col_proc_read_stat(p->pid, &st) != 0 ||
        (p->start_ticks && st.start_ticks != p->start_ticks) || st.state == 'Z')
        return 0;
    const struct {
        enum process_track track;
        double value;
    } value[] = {
        {TRACK_CPU_TIME, (double)process_cpu(s, p->pid, &st)},
        {TRACK_RSS, (double)st.rss_pages * (double)s->page_bytes},
        {TRACK_MINOR, (double)st.minor_faults},
        {TRACK_MAJOR, (double)st.major_faults},
        {TRACK_THREADS, (double)st.threads},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof value / sizeof *value && rc == 0; i++)
        rc = put(d, p->row, &process_text[value[i].track], &p->track[value[i].track],
                 value[i].value);
    if (rc == 0)
        rc = sample_wait(s, d, p);
    if (rc == 0)
        rc = sample_io(s, d, p);
    if (rc == 0 && s->turns % SLOW_EVERY == 0)
        rc = sample_switches(s, d, p);
    return rc;
}

/* The processes to sample: those of the table that have a pool or are the direct child (the first
 * row), and have not ended. */
static int follow(struct col_system *s, struct col_drain *d)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < s->process_count; i++) {
        bool alive = false;
        for (uint32_t k = 0; k < d->process_count; k++)
            alive |= d->process[k]->id == s->process[i]->row && !d->process[k]->gone;
        if (alive)
            s->process[kept++] = s->process[i];
        else
            free(s->process[i]);
    }
    s->process_count = kept;
    for (uint32_t k = 0; k < d->process_count; k++) {
        const struct col_process *x = d->process[k];
        bool known = x->gone;
        for (unsigned i = 0; i < kept; i++)
            known |= s->process[i]->row == x->id;
        if (known)
            continue;
        struct sampled **list = realloc(s->process, (s->process_count + 1) * sizeof *list);
        struct sampled *p = list ? calloc(1, sizeof *p) : NULL;
        if (list)
            s->process = list;
        if (!p)
            return TACHO_ENOMEM;
        p->row = x->id;
        p->pid = x->pid;
        p->start_ticks = x->start_ticks;
        s->process[s->process_count++] = p;
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
    struct tree *t = ctx;
    if (t->count < TREE_MAX)
        t->pid[t->count++] = pid;
}

static int sample_others(struct col_system *s, struct col_drain *d)
{
    static struct tree t; /* too large for a stack; one collector a process */
    int64_t cpu = 0, rss = 0;
    unsigned others = 0;
    t.count = 0;
    col_proc_children((int32_t)getpid(), add_to_tree, &t);
    for (uint32_t i = 0; i < d->process_count; i++) /* targets of the other ranks */
        if (d->process[i]->awaited && !d->process[i]->gone)
            add_to_tree(&t, d->process[i]->pid);
    for (unsigned i = 0; i < t.count; i++) {
        struct col_proc_stat st;
        bool own_track = false;
        col_proc_children(t.pid[i], add_to_tree, &t);
        for (unsigned k = 0; k < s->process_count; k++)
            own_track |= s->process[k]->pid == t.pid[i];
        if (own_track || col_proc_read_stat(t.pid[i], &st) != 0)
            continue;
        cpu += process_cpu(s, t.pid[i], &st);
        rss += st.rss_pages * s->page_bytes;
        others++;
    }
    if (!others)
        return 0;
    int rc = put(d, STORE_ABSENT, &machine_text[TRACK_OTHER_CPU], &s->machine[TRACK_OTHER_CPU],
                 (double)cpu);
    return rc ? rc
              : put(d, STORE_ABSENT, &machine_text[TRACK_OTHER_RSS], &s->machine[TRACK_OTHER_RSS],
                    (double)rss);
}

/* ---- the machine ------------------------------------------------------------------------------------------------------------------ */

static int sample_cpu(struct col_system *s, struct col_drain *d)
{
    char text[512];
    struct col_proc_cpu now;
    long n = col_proc_read("/proc/stat", text, sizeof text);
    if (n <= 0 || col_proc_parse_cpu(text, &now) != 0)
        return refuse(s, d, SOURCE_CPU, "/proc/stat", n < 0 ? strerror((int)-n) : "not understood");
    uint64_t busy = now.busy - s->cpu.busy, idle = now.idle - s->cpu.idle;
    bool first = !s->has_cpu;
    s->cpu = now;
    s->has_cpu = true;
    if (first || busy + idle == 0 || busy > UINT32_MAX || idle > UINT32_MAX)
        return 0;
    return put(d, STORE_ABSENT, &machine_text[TRACK_CPU_BUSY], &s->machine[TRACK_CPU_BUSY],
               100.0 * (double)busy / (double)(busy + idle));
}

static int sample_machine(struct col_system *s, struct col_drain *d)
{
    char text[16384];
    int rc = sample_cpu(s, d);
    if (rc)
        return rc;
    long n = col_proc_read("/proc/meminfo", text, 1024);
    int64_t available = n > 0 ? col_proc_value(text, "MemAvailable") : -1;
    if (available < 0)
        rc = refuse(s, d, SOURCE_MEMORY, "/proc/meminfo",
                    n < 0 ? strerror((int)-n) : "no MemAvailable");
    else
        rc = put(d, STORE_ABSENT, &machine_text[TRACK_MEMORY], &s->machine[TRACK_MEMORY],
                 (double)available * 1024);
    if (rc)
        return rc;
    struct col_proc_disk disk;
    n = col_proc_read("/proc/diskstats", text, sizeof text);
    if (n <= 0 || col_proc_parse_disks(text, &disk) != 0)
        return refuse(s, d, SOURCE_DISKS, "/proc/diskstats",
                      n < 0 ? strerror((int)-n) : "no disk in it");
    rc = put(d, STORE_ABSENT, &machine_text[TRACK_DISK_READ], &s->machine[TRACK_DISK_READ],
             (double)disk.read_bytes);
    return rc ? rc
              : put(d, STORE_ABSENT, &machine_text[TRACK_DISK_WRITTEN],
                    &s->machine[TRACK_DISK_WRITTEN], (double)disk.written_bytes);
}

int col_system_sample(struct col_system *s, struct col_drain *d)
{
    int rc = follow(s, d);
    for (unsigned i = 0; i < s->process_count && rc == 0; i++)
        rc = sample_process(s, d, s->process[i]);
    if (rc == 0)
        rc = sample_machine(s, d);
    if (rc == 0 && s->turns % SLOW_EVERY == 0)
        rc = sample_others(s, d);
    s->turns++;
    return rc;
}
