/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture windows over all machines of a job. The recorders and `tacho capture` exchange lines in
 * files of a shared folder: the request is one file, and each recorder answers in its own. A
 * recorder looks at the request twice a second; from two looks it knows how fast its processes
 * step, so that the window can be placed far enough ahead for all of them.
 */
#include "profiler/collector/job/job_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/job/capture_view_private.h"
#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/job/job.h"
#include "profiler/collector/job/live_private.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/text.h"
#include "store/store.h"

#define PREFIX    ".tacho-job-"
#define REQUEST   "request"
#define MAGIC     "tacho-capture/1"
#define LOOK_NS   500000000   /* between two looks of a recorder */
#define ANSWER_NS 15000000000 /* until all have answered */
#define LEAD_S    3.0         /* until all know the steps: network filesystems are slow */
#define MARGIN    2           /* steps, at least */
#define TRIES     3
#define ANSWERS   4096

enum phase { PHASE_NONE, PHASE_ASK, PHASE_SET };

struct request {
    uint64_t id;
    int phase;
    int64_t from, to, ns; /* ns > 0: a time instead of steps */
};
struct answer {
    uint64_t id;
    int phase;
    /* "ok", "late", "wait", "none" (no process records device work), "all" (all is recorded) */
    char result[16];
    int64_t ranks, job_ranks; /* job_ranks 0: not known */
    int64_t step;             /* the one after the newest that any process has begun */
    int processes;
    double pace;
    int64_t written; /* by the file's time stamp */
};

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

/* Opens a folder of a job, or one that is to be listed: this user's alone. */
static int open_folder(const char *path)
{
    int folder;
    return col_live_open_own(AT_FDCWD, path, path, &folder, NULL) == 0 ? folder : -1;
}

/* Writes a line in place. A new file in its place could stay unseen by other machines as long as
 * they cache the folder. */
static int write_line(int folder, const char *name, const char *line, bool make)
{
    int fd = store_file_open(folder, name, O_WRONLY | (make ? O_CREAT : 0));
    if (fd < 0)
        return tacho_error_of_errno(errno);
    size_t length = strlen(line);
    bool written =
        pwrite(fd, line, length, 0) == (ssize_t)length && ftruncate(fd, (off_t)length) == 0;
    return close(fd) == 0 && written ? 0 : TACHO_EIO;
}

/* Reads a line; false where it is not complete. *written: the file's time stamp; may be NULL. */
static bool read_line(int folder, const char *name, char *line, size_t size, int64_t *written)
{
    struct stat stat;
    int fd = store_file_open(folder, name, O_RDONLY);
    ssize_t bytes = fd < 0 ? -1 : read(fd, line, size - 1);
    if (written)
        *written = fd >= 0 && fstat(fd, &stat) == 0 ? col_time_ns(stat.st_mtim) : 0;
    if (fd >= 0)
        close(fd);
    line[bytes > 0 ? bytes : 0] = 0;
    return bytes > 0 && line[bytes - 1] == '\n';
}

/* The line of a request: id, phase, steps or time, and the id again as the mark of its end. */
static int write_request(int folder, const struct request *request)
{
    char line[200];
    snprintf(line, sizeof line, MAGIC " %llu %d %lld %lld %lld %llu\n",
             (unsigned long long)request->id, request->phase, (long long)request->from,
             (long long)request->to, (long long)request->ns, (unsigned long long)request->id);
    return write_line(folder, REQUEST, line, false);
}

/* False where the line is missing, half written or malformed. */
static bool read_request(int folder, struct request *request)
{
    char line[200];
    unsigned long long id = 0, again = 0;
    long long first = 0, last = 0, ns = 0;
    if (!read_line(folder, REQUEST, line, sizeof line, NULL) ||
        sscanf(line, MAGIC " %llu %d %lld %lld %lld %llu", &id, &request->phase, &first, &last, &ns,
               &again) != 6 ||
        id != again)
        return false;
    request->id = id;
    request->from = first;
    request->to = last;
    request->ns = ns;
    return true;
}

static int write_answer(int folder, const char *name, const struct answer *answer)
{
    char line[200];
    snprintf(line, sizeof line, MAGIC " %llu %d %s %lld %lld %lld %d %.6f %llu\n",
             (unsigned long long)answer->id, answer->phase, answer->result,
             (long long)answer->ranks, (long long)answer->job_ranks, (long long)answer->step,
             answer->processes, answer->pace, (unsigned long long)answer->id);
    return write_line(folder, name, line, true);
}

/* Likewise for the answer of a recorder. */
static bool read_answer(int folder, const char *name, struct answer *answer)
{
    char line[200];
    unsigned long long id = 0, again = 0;
    long long ranks = 0, job = 0, step = 0;
    if (!read_line(folder, name, line, sizeof line, &answer->written) ||
        sscanf(line, MAGIC " %llu %d %15s %lld %lld %lld %d %lf %llu", &id, &answer->phase,
               answer->result, &ranks, &job, &step, &answer->processes, &answer->pace,
               &again) != 9 ||
        id != again)
        return false;
    answer->id = id;
    answer->ranks = ranks;
    answer->job_ranks = job;
    answer->step = step;
    return true;
}

/* The folder of a job whose runs are written to the folder of `live` (NAME.tacho.live). */
static void name_of(const char *live, const char *job, char folder[COL_PATH_MAX])
{
    const char *slash = strrchr(live, '/');
    snprintf(folder, COL_PATH_MAX, "%.*s" PREFIX "%016llx", slash ? (int)(slash - live) + 1 : 0,
             live, (unsigned long long)col_hash_text(job));
}

/* ---- a recorder ------------------------------------------------------------------------------------------------------------ */

void col_job_capture_open(struct col_job_capture *capture, const char *live, const char *segments,
                          bool separate)
{
    struct col_job job;
    char host[100] = "", path[COL_PATH_MAX];
    enum wire_capture mode;
    *capture = (struct col_job_capture){.folder = -1};
    if (!col_job_own(&job) || !(separate ? job.ranks > 1 : job.many_nodes) || !job.id[0] ||
        col_control_mode(segments, &mode) || mode == WIRE_CAPTURE_ALL)
        return;
    capture->ranks = separate || job.node_ranks == STORE_ABSENT ? 1 : job.node_ranks;
    capture->job_ranks = job.ranks == STORE_ABSENT ? 0 : job.ranks;
    name_of(live, job.id, path);
    gethostname(host, sizeof host - 1);
    snprintf(capture->own, sizeof capture->own, "%s-%ld", host, (long)getpid());
    snprintf(capture->segments, sizeof capture->segments, "%s", segments);
    /* Without it, this recorder is asked on its own machine only. */
    if (mkdir(path, 0700) && errno != EEXIST)
        return;
    capture->folder = open_folder(path);
    if (capture->folder < 0)
        return;
    int fd =
        store_file_open(capture->folder, REQUEST, O_WRONLY | O_CREAT); /* or another recorder */
    if (fd >= 0)
        close(fd);
    if (write_answer(capture->folder, capture->own,
                     &(struct answer){.result = "wait", .ranks = capture->ranks}))
        col_job_capture_close(capture);
}

/* Takes a new request: opens the window it asks for, unless it is too late, and sets the result. */
static void take(struct col_job_capture *capture, const struct request *request, int64_t step,
                 int processes, int64_t now)
{
    enum wire_capture mode;
    const char *result = "ok";
    if (col_control_mode(capture->segments, &mode) == 0 && mode == WIRE_CAPTURE_ALL)
        result = "all";
    else if (!processes)
        result = "none";
    if (request->id != capture->id) {
        capture->first_step = step;
        capture->first_time = now;
        capture->pace = NAN;
    }
    capture->id = request->id;
    capture->phase = request->phase;
    capture->to = request->ns > 0 ? -1 : request->to;
    if (request->phase == PHASE_SET && !strcmp(result, "ok")) {
        if (request->ns > 0)
            result = col_control_set(capture->segments, WIRE_CAPTURE_UNTIL, 0, 0, 1, request->ns)
                         ? "none"
                         : "ok";
        else if (step > request->from)
            result = "late";
        else if (col_control_set(capture->segments, WIRE_CAPTURE_STEPS, request->from, request->to,
                                 1, 0))
            result = "none";
        else
            result =
                col_capture_step(capture->segments, &processes) > request->from ? "late" : "ok";
    }
    snprintf(capture->result, sizeof capture->result, "%s", result);
}

void col_job_capture_turn(struct col_job_capture *capture, int64_t now)
{
    struct request request;
    int processes = 0;
    if (capture->folder < 0 || now < capture->next)
        return;
    capture->next = now + LOOK_NS;
    if (!read_request(capture->folder, &request) || request.phase == PHASE_NONE ||
        (request.id == capture->id && capture->phase == PHASE_NONE))
        return;
    int64_t step = col_capture_step(capture->segments, &processes);
    if (request.id != capture->id || request.phase != capture->phase)
        take(capture, &request, step, processes, now);
    if (capture->phase == PHASE_ASK && now - capture->first_time < LOOK_NS / 2)
        return; /* two looks make a pace */
    if (now > capture->first_time)
        capture->pace =
            (double)(step - capture->first_step) * 1e9 / (double)(now - capture->first_time);
    struct answer answer = {.id = capture->id,
                            .phase = capture->phase,
                            .ranks = capture->ranks,
                            .job_ranks = capture->job_ranks,
                            .step = step,
                            .processes = processes,
                            .pace = isfinite(capture->pace) ? capture->pace : 0};
    snprintf(answer.result, sizeof answer.result, "%s", capture->result);
    write_answer(capture->folder, capture->own, &answer);
    if (capture->phase == PHASE_SET && (capture->to < 0 || step > capture->to + 1))
        capture->phase = PHASE_NONE; /* it is over */
}

static bool is_not_an_answer(void *ctx, int folder, const char *name)
{
    (void)ctx;
    (void)folder;
    return name[0] == '.' || strcmp(name, REQUEST) == 0;
}

/* The last recorder removes the folder. */
void col_job_capture_close(struct col_job_capture *capture)
{
    char path[64], real[COL_PATH_MAX];
    if (capture->folder < 0)
        return;
    store_file_remove(capture->folder, capture->own);
    if (store_folder_each(capture->folder, is_not_an_answer, NULL)) {
        store_file_remove(capture->folder, REQUEST);
        snprintf(path, sizeof path, "/proc/self/fd/%d", capture->folder);
        if (realpath(path, real))
            rmdir(real);
    }
    close(capture->folder);
    capture->folder = -1;
}

/* ---- tacho capture ----------------------------------------------------------------------------------------------------------- */

struct answers {
    int64_t ranks, job_ranks, step;
    double pace;
    int files, answered, processes, late, through;
    uint64_t beat;                      /* changes while a recorder that is not through is alive */
    char silent[64], none[64], all[64]; /* a recorder with that answer, or without one */
};

struct looking {
    const struct request *request;
    struct answers *answers;
};

static void sum_up(const struct request *request, const struct answer *answer, const char *name,
                   struct answers *answers)
{
    bool is_through = answer->step > request->to + 1;
    if (!strcmp(answer->result, "none"))
        snprintf(answers->none, sizeof answers->none, "%.63s", name);
    if (!strcmp(answer->result, "all"))
        snprintf(answers->all, sizeof answers->all, "%.63s", name);
    answers->answered++;
    answers->ranks += answer->ranks;
    answers->job_ranks =
        answer->job_ranks > answers->job_ranks ? answer->job_ranks : answers->job_ranks;
    answers->processes += answer->processes;
    answers->late += !strcmp(answer->result, "late");
    answers->through += is_through;
    answers->beat += is_through ? 0 : (uint64_t)answer->written;
    answers->step = answer->step > answers->step ? answer->step : answers->step;
    answers->pace = answer->pace > answers->pace ? answer->pace : answers->pace;
}

static bool look_at(void *ctx, int folder, const char *name)
{
    const struct looking *looking = ctx;
    struct answer answer;
    if (name[0] == '.' || !strcmp(name, REQUEST))
        return true;
    looking->answers->files++;
    if (!read_answer(folder, name, &answer) || answer.id != looking->request->id ||
        answer.phase != looking->request->phase)
        snprintf(looking->answers->silent, sizeof looking->answers->silent, "%.63s", name);
    else
        sum_up(looking->request, &answer, name, looking->answers);
    return looking->answers->files < ANSWERS;
}

/* Reads the answers of all recorders and sums them up. */
static void look(int folder, const struct request *request, struct answers *answers)
{
    *answers = (struct answers){0};
    store_folder_each(folder, look_at, &(struct looking){request, answers});
}

/* The folder of a job, and its path for messages. */
struct meeting {
    int folder;
    const char *path;
};

/* Have all recorders answered? Where the size of the job is known, their ranks are counted. */
static bool complete(const struct answers *answers)
{
    return answers->answered && (answers->job_ranks > 0 ? answers->ranks >= answers->job_ranks
                                                        : answers->answered == answers->files);
}

/* Writes a request and waits until every recorder of the job has answered it. */
static int ask_all(const struct meeting *meeting, const struct request *request,
                   struct answers *answers, struct tacho_error *err)
{
    int rc = write_request(meeting->folder, request);
    int64_t until = col_clock_now() + ANSWER_NS;
    if (rc)
        return tacho_fail(err, rc, NULL, "%s: %s", meeting->path, tacho_error_text(rc));
    do {
        struct request now;
        col_sleep_ms(100);
        look(meeting->folder, request, answers);
        if (read_request(meeting->folder, &now) && now.id != request->id)
            return tacho_fail(err, TACHO_EBUSY, "one at a time",
                              "%s: another tacho capture of this job interfered", meeting->path);
    } while (!complete(answers) && col_clock_now() < until);
    if (complete(answers))
        return 0;
    if (answers->silent[0])
        return tacho_fail(err, TACHO_EBUSY, "if that tacho is gone, remove its file there",
                          "%s: %s does not answer", meeting->path, answers->silent);
    return tacho_fail(
        err, TACHO_EBUSY,
        "write the runs of all machines to one shared folder; or give --at STEP to each machine",
        "%s: only %lld of the job's %lld ranks are recorded here", meeting->path,
        (long long)answers->ranks, (long long)answers->job_ranks);
}

/* An error where a recorder cannot record device work, or records all of it anyway. */
static int refuse(const char *folder, const struct answers *answers, struct tacho_error *err)
{
    if (answers->all[0])
        return tacho_fail(err, TACHO_EUSAGE,
                          "start it with --gpu later to record some steps on demand",
                          "%s: all work on GPUs is recorded already by %s", folder, answers->all);
    if (answers->none[0])
        return tacho_fail(
            err, TACHO_ENOTFOUND,
            "it has not started CUDA yet, or CUPTI refused: see the losses of the run",
            "%s: no process of %s can record work on GPUs now", folder, answers->none);
    return 0;
}

/* Places the window. First all are asked for their step and pace; then they are asked to record
 * steps that lie far enough ahead of the fastest one. If one was late, it starts again with twice
 * the lead. */
static int agree(const struct meeting *meeting, struct col_capture *capture,
                 struct request *request, struct tacho_error *err)
{
    double lead = LEAD_S;
    for (int i = 0; i < TRIES; i++, lead *= 2) {
        struct answers answers;
        *request = (struct request){.id = (uint64_t)col_clock_now() ^ (uint64_t)getpid() << 48,
                                    .phase = PHASE_ASK};
        int rc = ask_all(meeting, request, &answers, err);
        rc = rc ? rc : refuse(meeting->path, &answers, err);
        if (rc)
            return rc;
        request->phase = PHASE_SET;
        request->ns = capture->ns;
        request->from = capture->at >= 0
                            ? capture->at
                            : answers.step + (int64_t)ceil(answers.pace * lead) + MARGIN;
        request->to = request->from + capture->steps - 1;
        rc = ask_all(meeting, request, &answers, err);
        rc = rc ? rc : refuse(meeting->path, &answers, err);
        if (rc || !answers.late) {
            capture->processes = answers.processes;
            return rc;
        }
        if (capture->at >= 0)
            return tacho_fail(err, TACHO_EUSAGE, "name a later one, or omit --at",
                              "%s: step %lld has begun already", meeting->path,
                              (long long)capture->at);
    }
    return tacho_fail(err, TACHO_EBUSY, "give --at STEP, far enough ahead",
                      "%s: the steps were over before all machines knew of them", meeting->path);
}

/* Waits until all recorders are past the window, or have given no sign of life for a while. */
static void wait_for(const struct meeting *meeting, const struct request *request,
                     struct col_capture *capture)
{
    int64_t changed = col_clock_now();
    uint64_t beat = 0;
    for (bool over = false; !over;) {
        struct answers answers;
        col_sleep_ms(200);
        look(meeting->folder, request, &answers);
        if (answers.beat != beat)
            changed = col_clock_now();
        beat = answers.beat;
        capture->done = answers.through;
        over = answers.through == answers.answered || col_clock_now() - changed > ANSWER_NS;
    }
}

int col_job_capture_ask(const char *folder, struct col_capture *capture, struct tacho_error *err)
{
    struct request request;
    struct meeting meeting = {.path = folder};
    int rc = col_live_open_own(AT_FDCWD, folder, folder, &meeting.folder, err);
    if (rc)
        return rc;
    rc = agree(&meeting, capture, &request, err);
    capture->from = capture->to = -1;
    if (rc == 0 && request.ns <= 0) {
        capture->from = request.from;
        capture->to = request.to;
    }
    if (rc == 0 && capture->wait && request.ns > 0)
        col_sleep_ms((long)(request.ns / 1000000));
    if (rc == 0 && capture->wait && request.ns <= 0)
        wait_for(&meeting, &request, capture);
    if (rc || capture->wait) { /* done: no recorder need answer any more */
        request.phase = PHASE_NONE;
        write_request(meeting.folder, &request);
    }
    close(meeting.folder);
    return rc;
}

struct recorder {
    char host[100];
    long pid;
};

static int on_key(void *ctx, const char *key, const char *value)
{
    struct recorder *recorder = ctx;
    if (!strcmp(key, "host") && value)
        snprintf(recorder->host, sizeof recorder->host, "%.99s", value);
    if (!strcmp(key, "collector.pid") && value)
        recorder->pid = strtol(value, NULL, 10);
    return 0;
}

struct jobs {
    const char *name; /* of the answer that the folder must have; NULL */
    char folder[300];
    int found;
};

static bool consider(void *ctx, int runs, const char *name)
{
    struct jobs *jobs = ctx;
    struct tacho_error err;
    int folder;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
        col_live_open_own(runs, name, name, &folder, &err) != 0)
        return true;
    bool is_it = !jobs->name || store_file_is_own(folder, jobs->name);
    close(folder);
    if (is_it)
        snprintf(jobs->folder, sizeof jobs->folder, "%s", name);
    jobs->found += is_it;
    return true;
}

/* Looks for folders of jobs of this user. */
static int find_jobs(const char *runs, const char *answer, char folder[COL_PATH_MAX])
{
    struct jobs jobs = {.name = answer};
    int listing = open(runs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (listing < 0)
        return 0;
    store_folder_each(listing, consider, &jobs);
    close(listing);
    snprintf(folder, COL_PATH_MAX, "%.3700s/%s", runs, jobs.folder);
    return jobs.found;
}

bool col_job_capture_folder_of(const char *live, char folder[COL_PATH_MAX])
{
    char path[COL_PATH_MAX + 200], answer[140];
    int length;
    const char *runs = col_folder_of(live, &length);
    struct recorder recorder = {.pid = 0};
    store_reader *reader = NULL;
    snprintf(path, sizeof path, "%.4000s/run.db", live);
    if (store_open(path, &reader, NULL) == 0)
        store_run_each(reader, on_key, &recorder);
    store_reader_close(reader);
    snprintf(path, sizeof path, "%.*s", length, runs);
    snprintf(answer, sizeof answer, "%s-%ld", recorder.host, recorder.pid);
    return recorder.pid && find_jobs(path, answer, folder) > 0;
}

bool col_job_capture_find(const char *runs, char folder[COL_PATH_MAX])
{
    return find_jobs(runs, NULL, folder) == 1;
}
