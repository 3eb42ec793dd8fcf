/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/job/together.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/job/job.h"
#include "profiler/collector/os/clock.h"
#include "store/store.h"

#define PREFIX    ".tacho-job-"
#define REQUEST   "request"
#define MAGIC     "tacho-capture/1"
#define LOOK_NS   500000000   /* a recorder's between two looks */
#define ANSWER_NS 15000000000 /* until all have answered */
#define LEAD_S \
    3.0 /* from the answers until all have the steps: network filesystems take their time */
#define MARGIN  2 /* steps, at least */
#define TRIES   3
#define ANSWERS 4096

enum phase { PHASE_NONE, PHASE_ASK, PHASE_SET };

struct request {
    uint64_t id;
    int phase;
    int64_t from, to, ns; /* ns > 0: a time instead of steps */
};
struct answer {
    uint64_t id;
    int phase;
    char result[16]; /* "ok", "late", "none" (no process records device work), "all" (all of it is
                        recorded anyway), "wait" */
    int64_t ranks, job_ranks, step; /* job_ranks 0: not known; step: the one after the newest that
                                       any process has begun */
    int processes;
    double pace;
    int64_t written; /* by the file's time stamp */
};

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

/* In place: a new file in its stead could stay unseen by other machines for as long as they keep
 * the listing. */
static int write_line(const char *path, const char *line, bool make)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0), 0600);
    if (fd < 0)
        return errno == ENOENT ? TACHO_ENOTFOUND : errno == EACCES ? TACHO_EDENIED : TACHO_EIO;
    size_t n = strlen(line);
    bool ok = pwrite(fd, line, n, 0) == (ssize_t)n && ftruncate(fd, (off_t)n) == 0;
    return close(fd) == 0 && ok ? 0 : TACHO_EIO;
}

/* written: when, in the file's own time; NULL: not wanted. */
static bool read_line(const char *path, char *line, size_t size, int64_t *written)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);
    if (written)
        *written = fd >= 0 && fstat(fd, &st) == 0
                       ? (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec
                       : 0;
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = 0;
    return n > 0 && line[n - 1] == '\n';
}

static int write_request(const char *folder, const struct request *r)
{
    char path[COL_PATH_MAX + 16], line[200];
    snprintf(path, sizeof path, "%s/" REQUEST, folder);
    snprintf(line, sizeof line, MAGIC " %llu %d %lld %lld %lld %llu\n", (unsigned long long)r->id,
             r->phase, (long long)r->from, (long long)r->to, (long long)r->ns,
             (unsigned long long)r->id);
    return write_line(path, line, false);
}

static bool read_request(const char *folder, struct request *r)
{
    char path[COL_PATH_MAX + 16], line[200];
    unsigned long long id = 0, again = 0;
    long long from = 0, to = 0, ns = 0;
    snprintf(path, sizeof path, "%s/" REQUEST, folder);
    if (!read_line(path, line, sizeof line, NULL) ||
        sscanf(line, MAGIC " %llu %d %lld %lld %lld %llu", &id, &r->phase, &from, &to, &ns,
               &again) != 6 ||
        id != again)
        return false;
    r->id = id;
    r->from = from;
    r->to = to;
    r->ns = ns;
    return true;
}

static int write_answer(const char *path, const struct answer *a)
{
    char line[200];
    snprintf(line, sizeof line, MAGIC " %llu %d %s %lld %lld %lld %d %.6f %llu\n",
             (unsigned long long)a->id, a->phase, a->result, (long long)a->ranks,
             (long long)a->job_ranks, (long long)a->step, a->processes, a->pace,
             (unsigned long long)a->id);
    return write_line(path, line, true);
}

static bool read_answer(const char *path, struct answer *a)
{
    char line[200];
    unsigned long long id = 0, again = 0;
    long long ranks = 0, job = 0, step = 0;
    if (!read_line(path, line, sizeof line, &a->written) ||
        sscanf(line, MAGIC " %llu %d %15s %lld %lld %lld %d %lf %llu", &id, &a->phase, a->result,
               &ranks, &job, &step, &a->processes, &a->pace, &again) != 9 ||
        id != again)
        return false;
    a->id = id;
    a->ranks = ranks;
    a->job_ranks = job;
    a->step = step;
    return true;
}

/* The folder of a job whose runs are written to where `live` (NAME.tacho.live) stands. */
static void name_of(const char *live, const char *job, char folder[COL_PATH_MAX])
{
    const char *slash = strrchr(live, '/');
    snprintf(folder, COL_PATH_MAX, "%.*s" PREFIX "%016llx", slash ? (int)(slash - live) + 1 : 0,
             live, (unsigned long long)col_job_hash(job));
}

/* ---- a recorder ------------------------------------------------------------------------------------------------------------ */

static const char *environment(const char *name)
{
    return getenv(name);
}

void col_together_open(struct col_together *m, const char *live, const char *segments,
                       bool separate)
{
    struct col_job job;
    char host[100] = "", path[COL_PATH_MAX + 16];
    enum wire_capture mode;
    *m = (struct col_together){.next = 0};
    if (!col_job_read(environment, &job) || !(separate ? job.ranks > 1 : job.many_nodes) ||
        !job.id[0] || col_control_mode(segments, &mode) || mode == WIRE_CAPTURE_ALL)
        return;
    m->ranks = separate || job.node_ranks == STORE_ABSENT ? 1 : job.node_ranks;
    m->job_ranks = job.ranks == STORE_ABSENT ? 0 : job.ranks;
    name_of(live, job.id, m->folder);
    gethostname(host, sizeof host - 1);
    bool fits = snprintf(m->own, sizeof m->own, "%.3900s/%s-%ld", m->folder, host, (long)getpid()) <
                (int)sizeof m->own;
    snprintf(m->segments, sizeof m->segments, "%s", segments);
    snprintf(path, sizeof path, "%s/" REQUEST, m->folder);
    if ((mkdir(m->folder, 0700) && errno != EEXIST) || !fits ||
        write_answer(m->own, &(struct answer){.result = "wait", .ranks = m->ranks})) {
        m->folder[0] = 0; /* then this recorder is asked on its own machine only */
        return;
    }
    int fd =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); /* whoever comes first */
    if (fd >= 0)
        close(fd);
}

/* A new request: what it asks for. */
static void take(struct col_together *m, const struct request *r, int64_t step, int processes,
                 int64_t now)
{
    enum wire_capture mode;
    const char *result = "ok";
    if (col_control_mode(m->segments, &mode) == 0 && mode == WIRE_CAPTURE_ALL)
        result = "all";
    else if (!processes)
        result = "none";
    if (r->id != m->id) {
        m->first_step = step;
        m->first_time = now;
        m->pace = NAN;
    }
    m->id = r->id;
    m->phase = r->phase;
    m->to = r->ns > 0 ? -1 : r->to;
    if (r->phase == PHASE_SET && !strcmp(result, "ok")) {
        if (r->ns > 0)
            result =
                col_control_set(m->segments, WIRE_CAPTURE_UNTIL, 0, 0, 1, r->ns) ? "none" : "ok";
        else if (step > r->from)
            result = "late";
        else if (col_control_set(m->segments, WIRE_CAPTURE_STEPS, r->from, r->to, 1, 0))
            result = "none";
        else
            result = col_capture_step(m->segments, &processes) > r->from
                         ? "late"
                         : "ok"; /* it may have begun meanwhile */
    }
    snprintf(m->result, sizeof m->result, "%s", result);
}

void col_together_turn(struct col_together *m, int64_t now)
{
    struct request r;
    int processes = 0;
    if (!m->folder[0] || now < m->next)
        return;
    m->next = now + LOOK_NS;
    if (!read_request(m->folder, &r) || r.phase == PHASE_NONE ||
        (r.id == m->id && m->phase == PHASE_NONE))
        return;
    int64_t step = col_capture_step(m->segments, &processes);
    if (r.id != m->id || r.phase != m->phase)
        take(m, &r, step, processes, now);
    if (m->phase == PHASE_ASK && now - m->first_time < LOOK_NS / 2)
        return; /* two looks make a pace */
    if (now > m->first_time)
        m->pace = (double)(step - m->first_step) * 1e9 / (double)(now - m->first_time);
    struct answer a = {.id = m->id,
                       .phase = m->phase,
                       .ranks = m->ranks,
                       .job_ranks = m->job_ranks,
                       .step = step,
                       .processes = processes,
                       .pace = isfinite(m->pace) ? m->pace : 0};
    snprintf(a.result, sizeof a.result, "%s", m->result);
    write_answer(m->own, &a);
    if (m->phase == PHASE_SET && (m->to < 0 || step > m->to + 1))
        m->phase = PHASE_NONE; /* over: nothing more to say */
}

void col_together_close(struct col_together *m)
{
    char path[COL_PATH_MAX + 16];
    if (!m->folder[0])
        return;
    unlink(m->own);
    struct dirent *e;
    DIR *d = opendir(m->folder);
    bool others = false;
    while (d && (e = readdir(d)))
        others |= e->d_name[0] != '.' && strcmp(e->d_name, REQUEST) != 0;
    if (d)
        closedir(d);
    snprintf(path, sizeof path, "%s/" REQUEST, m->folder);
    if (!others) {
        unlink(path);
        rmdir(m->folder);
    }
    m->folder[0] = 0;
}

/* ---- tacho capture ----------------------------------------------------------------------------------------------------------- */

struct answers {
    int64_t ranks, job_ranks, step;
    double pace;
    int files, answered, processes, late, through;
    uint64_t beat;                      /* changes while one that is not through yet is alive */
    char silent[64], none[64], all[64]; /* a recorder that ... */
};

static void look(const char *folder, const struct request *r, struct answers *x)
{
    struct dirent *e;
    char path[COL_PATH_MAX + 300];
    *x = (struct answers){0};
    DIR *d = opendir(folder);
    while (d && (e = readdir(d)) && x->files < ANSWERS) {
        struct answer a;
        if (e->d_name[0] == '.' || !strcmp(e->d_name, REQUEST))
            continue;
        x->files++;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (!read_answer(path, &a) || a.id != r->id || a.phase != r->phase) {
            snprintf(x->silent, sizeof x->silent, "%.63s", e->d_name);
            continue;
        }
        if (!strcmp(a.result, "none"))
            snprintf(x->none, sizeof x->none, "%.63s", e->d_name);
        if (!strcmp(a.result, "all"))
            snprintf(x->all, sizeof x->all, "%.63s", e->d_name);
        x->answered++;
        x->ranks += a.ranks;
        x->job_ranks = a.job_ranks > x->job_ranks ? a.job_ranks : x->job_ranks;
        x->processes += a.processes;
        x->late += !strcmp(a.result, "late");
        x->through += a.step > r->to + 1;
        x->beat += a.step > r->to + 1 ? 0 : (uint64_t)a.written;
        x->step = a.step > x->step ? a.step : x->step;
        x->pace = a.pace > x->pace ? a.pace : x->pace;
    }
    if (d)
        closedir(d);
}

static void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static bool complete(const struct answers *x)
{
    return x->answered && (x->job_ranks > 0 ? x->ranks >= x->job_ranks : x->answered == x->files);
}

static int ask_all(const char *folder, const struct request *r, struct answers *x,
                   struct tacho_error *err)
{
    int rc = write_request(folder, r);
    int64_t until = col_clock_now() + ANSWER_NS;
    if (rc)
        return tacho_fail(err, rc, NULL, "%s: %s", folder, tacho_error_text(rc));
    do {
        struct request now;
        sleep_ms(100);
        look(folder, r, x);
        if (read_request(folder, &now) && now.id != r->id)
            return tacho_fail(err, TACHO_EBUSY, "one at a time",
                              "%s: another tacho capture of this job came between", folder);
    } while (!complete(x) && col_clock_now() < until);
    if (complete(x))
        return 0;
    if (x->silent[0])
        return tacho_fail(err, TACHO_EBUSY, "if that tacho is gone, remove its file there",
                          "%s: %s does not answer", folder, x->silent);
    return tacho_fail(
        err, TACHO_EBUSY,
        "write the runs of all machines to one shared folder; or give --at STEP to each machine",
        "%s: only %lld of the job's %lld ranks are recorded here", folder, (long long)x->ranks,
        (long long)x->job_ranks);
}

static int refuse(const char *folder, const struct answers *x, struct tacho_error *err)
{
    if (x->all[0])
        return tacho_fail(err, TACHO_EUSAGE,
                          "start it with --gpu later to record some steps on demand",
                          "%s: all work on GPUs is recorded already by %s", folder, x->all);
    if (x->none[0])
        return tacho_fail(
            err, TACHO_ENOTFOUND,
            "it has not started CUDA yet, or CUPTI refused: see the losses of the run",
            "%s: no process of %s can record work on GPUs now", folder, x->none);
    return 0;
}

static int agree(const char *folder, struct col_capture *c, struct request *r,
                 struct tacho_error *err)
{
    double lead = LEAD_S;
    for (int i = 0; i < TRIES; i++, lead *= 2) {
        struct answers x;
        *r = (struct request){.id = (uint64_t)col_clock_now() ^ (uint64_t)getpid() << 48,
                              .phase = PHASE_ASK};
        int rc = ask_all(folder, r, &x, err);
        rc = rc ? rc : refuse(folder, &x, err);
        if (rc)
            return rc;
        r->phase = PHASE_SET;
        r->ns = c->ns;
        r->from = c->at >= 0 ? c->at : x.step + (int64_t)ceil(x.pace * lead) + MARGIN;
        r->to = r->from + c->steps - 1;
        rc = ask_all(folder, r, &x, err);
        rc = rc ? rc : refuse(folder, &x, err);
        if (rc || !x.late) {
            c->processes = x.processes;
            return rc;
        }
        if (c->at >= 0)
            return tacho_fail(err, TACHO_EUSAGE, "name a later one, or leave --at out",
                              "%s: step %lld has begun already", folder, (long long)c->at);
    }
    return tacho_fail(err, TACHO_EBUSY, "give --at STEP, far enough ahead",
                      "%s: the steps were over before all machines knew", folder);
}

/* Until all are behind the steps, have ended, or have said nothing for a while. */
static void wait_for(const char *folder, const struct request *r, struct col_capture *c)
{
    int64_t changed = col_clock_now();
    uint64_t beat = 0;
    for (bool over = false; !over;) {
        struct answers x;
        sleep_ms(200);
        look(folder, r, &x);
        if (x.beat != beat)
            changed = col_clock_now();
        beat = x.beat;
        c->done = x.through;
        over = x.through == x.answered || col_clock_now() - changed > ANSWER_NS;
    }
}

int col_together_capture(const char *folder, struct col_capture *c, struct tacho_error *err)
{
    struct request r;
    int rc = agree(folder, c, &r, err);
    c->from = c->to = -1;
    if (rc == 0 && r.ns <= 0) {
        c->from = r.from;
        c->to = r.to;
    }
    if (rc == 0 && c->wait && r.ns > 0)
        sleep_ms((long)(r.ns / 1000000));
    if (rc == 0 && c->wait && r.ns <= 0)
        wait_for(folder, &r, c);
    if (rc || c->wait) { /* nothing more to tell */
        r.phase = PHASE_NONE;
        write_request(folder, &r);
    }
    return rc;
}

struct recorder {
    char host[100];
    long pid;
};

static int on_key(void *ctx, const char *key, const char *value)
{
    struct recorder *r = ctx;
    if (!strcmp(key, "host") && value)
        snprintf(r->host, sizeof r->host, "%.99s", value);
    if (!strcmp(key, "collector.pid") && value)
        r->pid = strtol(value, NULL, 10);
    return 0;
}

bool col_together_of(const char *live, char folder[COL_PATH_MAX])
{
    char path[COL_PATH_MAX + 200];
    const char *slash = strrchr(live, '/');
    struct recorder r = {.pid = 0};
    struct dirent *e;
    bool found = false;
    store_reader *reader = NULL;
    snprintf(path, sizeof path, "%.4000s/run.db", live);
    if (store_open(path, &reader, NULL) == 0)
        store_run_each(reader, on_key, &r);
    store_reader_close(reader);
    snprintf(path, sizeof path, "%.*s", slash ? (int)(slash - live) : 1, slash ? live : ".");
    DIR *d = r.pid ? opendir(path) : NULL;
    while (d && !found && (e = readdir(d))) {
        struct stat st;
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        snprintf(folder, COL_PATH_MAX, "%.*s/%.200s", slash ? (int)(slash - live) : 1,
                 slash ? live : ".", e->d_name);
        snprintf(path, sizeof path, "%.4000s/%s-%ld", folder, r.host, r.pid);
        found = lstat(path, &st) == 0 && st.st_uid == getuid();
    }
    if (d)
        closedir(d);
    return found;
}

bool col_together_find(const char *runs, char folder[COL_PATH_MAX])
{
    struct dirent *e;
    int found = 0;
    DIR *d = opendir(runs);
    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, PREFIX, strlen(PREFIX))) {
            found++;
            snprintf(folder, COL_PATH_MAX, "%.3800s/%.200s", runs, e->d_name);
        }
    if (d)
        closedir(d);
    return found == 1;
}
