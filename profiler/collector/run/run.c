/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/run/session.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/run/attach.h"
#include "profiler/collector/run/describe.h"
#include "profiler/collector/run/leader.h"
#include "profiler/collector/samplers/calibration.h"
#include "profiler/collector/samplers/peak.h"

void col_options_init(struct col_options *o)
{
    memset(o, 0, sizeof *o);
    o->steps_from = -1;
    o->max_bytes = COL_DEFAULT_MAX_BYTES;
    o->sample_ms = COL_DEFAULT_SAMPLE_MS;
    o->pause = COL_DEFAULT_PAUSE;
}

/* ---- before the start ------------------------------------------------------------------------------------------------------ */

/* What `tacho calibrate` found here; without it only the instruction peak is known. A damaged file
 * is said, not used. */
static void read_calibration(struct col_session *s, struct col_calibration *c)
{
    char path[COL_PATH_MAX];
    struct tacho_error err;
    int rc = col_calibration_find(c, NULL, path, &err);
    if (rc)
        *c = (struct col_calibration){0};
    if (rc && rc != TACHO_ENOTFOUND)
        col_session_warn(s, "%s; ceilings of this machine are missing: %s", err.what, err.hint);
}

/* What the file says before the target starts. */
static int write_start(struct col_session *s)
{
    struct col_peak peak = {0};
    struct col_calibration calibration = {0};
    int rc = 0;
    if (!s->options->no_peak)
        read_calibration(s, &calibration);
    if (!s->options->no_peak && !col_peak_measure(&peak))
        rc = col_drain_loss(&s->drain, "peak", peak.reason, STORE_ABSENT, STORE_ABSENT,
                            STORE_ABSENT);
    if (rc == 0)
        rc = col_drain_begin(&s->drain);
    if (rc == 0)
        rc = col_describe(s->db, s->options);
    if (rc == 0)
        rc = col_ceilings_write(s->db, &calibration, &peak);
    col_calibration_clear(&calibration);
    if (rc == 0)
        rc = col_leader_describe(s);
    if (rc == 0)
        rc = store_run_set(s->db, "segments", s->live.segments);
    if (rc == 0)
        rc = store_run_set_int(s->db, "collector.pid", getpid());
    if (rc == 0)
        rc = col_session_save_setup(s);
    return rc ? rc : col_drain_commit(&s->drain);
}

static void prepare_target(void *ctx, pid_t pid)
{
    struct col_session *s = ctx;
    if (!s->options->no_counters)
        s->perf = col_perf_open(pid);
    if (s->options->stacks_hz > 0)
        s->stacks = col_stacks_open(pid, s->options->stacks_hz, s->options->frame_pointers);
    const char *fix, *refused = s->stacks ? col_stacks_refused(s->stacks, &fix) : NULL;
    if (refused)
        col_session_warn(s, "call stacks are not sampled: %s%s%s", refused, fix[0] ? ": " : "",
                         fix);
    s->started = col_clock_now(); /* before it runs: nothing of its own may have started earlier */
}

/* ---- while it runs --------------------------------------------------------------------------------------------------------- */

/* glibc names signals only since 2.32. */
static const char *signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } known[] = {
#define ROW(x) {SIG##x, #x},
        ROW(HUP) ROW(INT) ROW(QUIT) ROW(ILL) ROW(TRAP) ROW(ABRT) ROW(BUS) ROW(FPE) ROW(KILL)
            ROW(USR1) ROW(SEGV) ROW(USR2) ROW(PIPE) ROW(ALRM) ROW(TERM) ROW(STKFLT) ROW(CHLD)
                ROW(CONT) ROW(STOP) ROW(TSTP) ROW(TTIN) ROW(TTOU) ROW(URG) ROW(XCPU) ROW(XFSZ)
                    ROW(VTALRM) ROW(PROF) ROW(WINCH) ROW(POLL) ROW(PWR) ROW(SYS)
#undef ROW
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number)
            return known[i].name;
    return NULL;
}

static void describe_signal(int number, char *to, size_t size)
{
    const char *name = signal_name(number);
    if (name)
        snprintf(to, size, "signal %d (%s)", number, name);
    else
        snprintf(to, size, "signal %d", number);
}

int col_session_status(int status, char *ended, size_t size)
{
    if (WIFSIGNALED(status)) {
        describe_signal(WTERMSIG(status), ended, size);
        return 128 + WTERMSIG(status);
    }
    snprintf(ended, size, "exit %d", WEXITSTATUS(status));
    return WEXITSTATUS(status);
}

static void child_ended(struct col_session *s, pid_t pid, int status, const struct rusage *use)
{
    char ended[96];
    int code = col_session_status(status, ended, sizeof ended);
    int64_t now = col_clock_now();
    for (uint32_t i = 0; i < s->drain.process_count; i++) {
        struct col_process *x = s->drain.process[i];
        if (x->pid == (int32_t)pid && !x->ended[0])
            col_process_ended(x, now, code, WIFSIGNALED(status) ? ended : "exit");
    }
    if (pid != s->child || s->child_done)
        return;
    s->child_done = true;
    s->child_status = status;
    s->ended_at = now;
    s->result->exit_code = code;
    s->child_usage = *use;
    snprintf(s->result->ended, sizeof s->result->ended, "%s", ended);
}

void col_session_reap(struct col_session *s)
{
    int status;
    struct rusage use;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &use)) > 0)
        child_ended(s, pid, status, &use);
}

void col_session_signal(struct col_session *s, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    bool by_process = col_signal_by_process(info);
    if (number == SIGCHLD)
        return;
    /* a terminal that goes away tells the leader of its session alone; others it reaches as a
     * group, the target among them */
    if (number == SIGHUP && s->terminal_session == getpid())
        by_process = true;
    /* Ctrl-C reached the target too, and the answer is the target's: an interactive one lives on
     * and still reads the terminal
     */
    bool answered =
        number == SIGINT && !by_process && s->child > 0 && getpgid(s->child) == getpgrp();
    bool asks_to_end =
        number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    unsigned others = s->child_done ? col_leader_running(s) : 0;
    if (asks_to_end && others && ++s->interrupts < 2) /* who ends the job, tells them too */
        col_session_message(s,
                            "%u other ranks of this node still run: recording goes on until they "
                            "end (again finishes now)",
                            others);
    else if (asks_to_end && (s->child_done || s->child <= 0))
        s->stop = number; /* only stragglers are left: nobody to pass it to */
    else if (number == SIGINT && !answered && ++s->interrupts >= 2)
        s->stop = number;
    else if (by_process && s->child > 0 && !s->child_done)
        kill(s->child, number);
}

struct straggler {
    struct col_session *session;
    int count, daemons; /* in our session, and in others */
};

static void count_straggler(void *ctx, int32_t child)
{
    struct straggler *x = ctx;
    struct col_proc_stat st;
    if (child == x->session->child || col_proc_read_stat(child, &st) != 0 || st.state == 'Z')
        return;
    x->count += st.session == x->session->terminal_session;
    x->daemons += st.session != x->session->terminal_session;
}

/* Processes that go on after the direct child ended: with a pool, or adopted by us and in the same
 * session (a daemon leaves it). */
static int stragglers(struct col_session *s, int *daemons)
{
    struct straggler x = {.session = s};
    col_proc_children((int32_t)getpid(), count_straggler, &x);
    int recording = col_drain_alive(&s->drain);
    *daemons = recording ? 0 : x.daemons;
    return recording > x.count ? recording : x.count;
}

static bool run_is_over(struct col_session *s)
{
    if (s->stop)
        return true;
    if ((!s->child_done && s->child > 0) || col_leader_waits(s))
        return false;
    int daemons, left = stragglers(s, &daemons);
    if (left && !s->told_waiting) {
        s->told_waiting = true;
        col_session_message(s,
                            "the command has ended; %d of its processes still run: recording goes "
                            "on until they end "
                            "(Ctrl-C finishes now)",
                            left);
    }
    if (!left && daemons && !s->told_daemons) {
        s->told_daemons = true;
        col_session_message(s,
                            "%d processes that left the session have recorded nothing so far and "
                            "go on: what they record from now "
                            "on is not in the file (start them with a tacho of their own)",
                            daemons);
    }
    return left == 0;
}

/* Whether it is time for a look at the system. The next one is set in any case: a look that is not
 * taken must not be due for ever, or nothing would wait. */
static bool sample_is_due(struct col_session *s)
{
    int64_t now = col_clock_now(), step = (int64_t)s->options->sample_ms * 1000000;
    if (!s->system || now < s->next_sample)
        return false;
    s->next_sample += step;
    if (s->next_sample < now)
        s->next_sample = now + step;
    return true;
}

/* One turn: samples, drains, commits. Failures of the store are dealt with here; recording goes on
 * as far as it can. */
static void turn(struct col_session *s, bool *more)
{
    int rc = 0;
    bool due = sample_is_due(s);
    *more = false;
    if (s->stalled && !col_session_retry(s))
        return;
    bool alive = !s->child_done || col_drain_alive(&s->drain) > 0;
    rc = col_leader_rows(s);
    if (rc == 0 && due && alive && !s->drain.volume.no_space) {
        rc = col_drain_begin(&s->drain);
        if (rc == 0)
            rc = col_system_sample(s->system, &s->drain);
        if (rc == 0 && s->nvml)
            rc = col_nvml_sample(s->nvml, &s->drain);
        if (rc == 0 && s->perf && s->samples++ % 5 == 0)
            rc = col_perf_sample(s->perf, &s->drain);
    }
    if (rc == 0 && s->stacks && alive && !s->drain.volume.no_space) {
        rc = col_drain_begin(&s->drain);
        if (rc == 0)
            rc = col_stacks_drain(s->stacks, &s->drain, false);
    }
    if (rc == 0)
        rc = col_drain_round(&s->drain, more);
    if (rc == 0)
        rc = col_drain_commit(&s->drain);
    if (rc == 0)
        rc = col_drain_reap(&s->drain);
    if (rc)
        col_session_failed(s, rc);
    else if (s->drain.volume.no_space && col_live_room(&s->live) > COL_RESERVE_BYTES * 4)
        s->drain.volume.no_space = s->drain.volume.no_detail = false;
}

static void wait_for_turn(struct col_session *s, bool more)
{
    int64_t now = col_clock_now(), next = s->next_turn;
    if (s->system && s->next_sample < next)
        next = s->next_sample;
    int64_t left = more || next <= now ? 0 : next - now;
    struct pollfd fd[2] = {{.fd = s->signals.fd, .events = POLLIN},
                           {.fd = s->peers_poll, .events = POLLIN}};
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (ppoll(fd, 2, &timeout, NULL) > 0) {
        struct signalfd_siginfo info;
        while (col_signals_next(&s->signals, &info))
            col_session_signal(s, &info);
        col_leader_read(s);
    }
}

void col_session_loop(struct col_session *s)
{
    bool more = false;
    s->next_turn = s->next_sample = col_clock_now();
    col_together_open(&s->together, s->live.folder, s->live.segments, s->options->separate);
    for (;;) {
        wait_for_turn(s, more);
        col_session_reap(s);
        turn(s, &more);
        col_together_turn(&s->together, col_clock_now());
        s->next_turn = col_clock_now() + COL_TURN_NS;
        if (run_is_over(s) && (s->stop || !more))
            break;
    }
    col_together_close(&s->together);
}

/* ---- col_run --------------------------------------------------------------------------------------------------------------- */

static double ns_of(const struct timeval *t)
{
    return ((double)t->tv_sec * 1e6 + (double)t->tv_usec) * 1e3;
}

static int write_usage(struct col_session *s)
{
    const struct rusage *u = &s->usage, *from = &s->own_usage;
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    const struct {
        const char *name, *unit;
        double value;
    } metric[] = {
        {"collector.user_time", "ns", ns_of(&own.ru_utime) - ns_of(&from->ru_utime)},
        {"collector.system_time", "ns", ns_of(&own.ru_stime) - ns_of(&from->ru_stime)},
        {"target.user_time", "ns", ns_of(&u->ru_utime)},
        {"target.system_time", "ns", ns_of(&u->ru_stime)},
        {"target.max_rss", "bytes", (double)u->ru_maxrss * 1024},
        {"target.minor_faults", "count", (double)u->ru_minflt},
        {"target.major_faults", "count", (double)u->ru_majflt},
        {"target.voluntary_switches", "count", (double)u->ru_nvcsw},
        {"target.involuntary_switches", "count", (double)u->ru_nivcsw},
    };
    for (size_t i = 0; i < sizeof metric / sizeof *metric; i++) {
        struct store_metric m = {
            .name = metric[i].name, .unit = metric[i].unit, .value = metric[i].value};
        if (!s->child_done && strncmp(m.name, "target.", 7) == 0) {
            m.value = __builtin_nan("");
            m.reason = "the target had not ended when the recording did";
        }
        int rc = store_metric_set(s->db, &m);
        if (rc)
            return rc;
    }
    return 0;
}

static int write_end(struct col_session *s)
{
    int rc = col_drain_begin(&s->drain);
    if (rc == 0 && s->nvml)
        rc = col_nvml_sample(s->nvml, &s->drain);
    if (rc == 0 && s->perf)
        rc = col_perf_finish(s->perf, &s->drain);
    if (rc == 0 && s->stacks)
        rc = col_stacks_finish(s->stacks, &s->drain);
    if (rc == 0)
        rc = write_usage(s);
    if (rc == 0)
        rc = store_run_set_int(s->db, "exit_status", s->worst);
    if (rc == 0 && s->gap_from)
        rc = col_session_note_gap(s);
    return rc;
}

static void note_interruption(struct col_session *s)
{
    if (!s->stop)
        return;
    char name[48], before[160] = "";
    describe_signal(s->stop, name, sizeof name);
    if (s->child_done)
        snprintf(before, sizeof before, "%.150s, ", s->result->ended);
    else
        s->result->exit_code = 128 + s->stop;
    snprintf(s->result->ended, sizeof s->result->ended,
             "%sinterrupted: recording ended by %s while processes went on", before, name);
}

int col_session_conclude(struct col_session *s, struct tacho_error *err)
{
    col_session_loop(s);
    col_leader_over(s);
    int rc = s->stalled ? 0 : col_leader_rows(s);
    if (rc)
        col_session_failed(s, rc);
    note_interruption(s);
    col_leader_sum(s);
    return col_session_finish(s, write_end, err);
}

/* The file with what it says before the target starts, and the target. What was made is gone if
 * either fails. */
static int begin(struct col_session *s, const char *library, struct tacho_error *err)
{
    cpu_set_t own;
    int rc = col_session_create(s, err);
    if (rc == 0)
        rc = col_signals_begin(&s->signals, err);
    col_leader_spread(s, &own);
    if (rc == 0 && (rc = write_start(s)) != 0)
        rc = col_session_store_error(s, rc, err);
    if (CPU_COUNT(&own))
        sched_setaffinity(0, sizeof own, &own);
    if (rc == 0 && (rc = col_control_create(s->live.pools, s->options)) != 0)
        rc = tacho_fail(err, rc, NULL, "%s: %s", s->live.segments, tacho_error_text(rc));
    if (rc == 0) {
        getrusage(RUSAGE_SELF, &s->own_usage); /* measuring the peak is no cost of recording */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        rc = col_session_start(s, library, prepare_target, s, err);
    }
    if (rc)
        col_session_discard(s);
    return rc;
}

static int lead(struct col_session *s, const char *library, struct tacho_error *err)
{
    const struct col_options *o = s->options;
    const char *base = strrchr(o->command[0], '/');
    struct col_process *x = NULL;
    col_leader_gather(s);
    int rc = col_live_create(o->output, o->command[0], s->peers.is_known && s->peers.job.many_nodes,
                             &s->live, err);
    if (rc == 0)
        rc = begin(s, library, err);
    if (rc)
        return rc;
    col_leader_welcome(s);
    int failed = col_drain_process(&s->drain, (int32_t)s->child, s->started,
                                   base ? base + 1 : o->command[0], &x);
    if (x && s->peers.is_known)
        x->rank = s->peers.job.rank;
    if (failed)
        col_session_failed(s, failed);
    if (o->sample_ms > 0)
        col_system_open(&s->system);
    if (o->sample_ms > 0 && o->gpu != COL_GPU_OFF)
        s->nvml = col_nvml_open(o->sample_ms);
    return col_session_conclude(s, err);
}

int col_run(const struct col_options *o, struct col_result *r, struct tacho_error *err)
{
    char library[COL_PATH_MAX];
    struct col_session s;
    int fd = -1;
    col_session_init(&s, o, r);
    r->exit_code = 125;
    int rc = o->command && o->command[0]
                 ? col_find_library(o->library, library, err)
                 : tacho_fail(err, TACHO_EUSAGE, "give the command after --", "no command to run");
    if (rc == 0 && !o->separate)
        fd = col_attach(&s);
    if (rc == 0)
        rc = fd >= 0 ? col_attach_run(&s, fd, library, err) : lead(&s, library, err);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    col_signals_end(&s.signals);
    col_session_free(&s);
    return rc;
}
