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

void col_options_init(struct col_options *options)
{
    memset(options, 0, sizeof *options);
    options->steps_from = -1;
    options->max_bytes = COL_DEFAULT_MAX_BYTES;
    options->sample_ms = COL_DEFAULT_SAMPLE_MS;
    options->pause = COL_DEFAULT_PAUSE;
}

/* ---- before the start ------------------------------------------------------------------------------------------------------ */

/* What `tacho calibrate` found here; without it only the instruction peak is known. A damaged file
 * is said, not used. */
static void read_calibration(struct col_session *session, struct col_calibration *calibration)
{
    char path[COL_PATH_MAX];
    struct tacho_error err;
    int rc = col_calibration_find(calibration, NULL, path, &err);
    if (rc)
        *calibration = (struct col_calibration){0};
    if (rc && rc != TACHO_ENOTFOUND)
        col_session_warn(session, "%s; ceilings of this machine are missing: %s", err.what,
                         err.hint);
}

/* What the file says before the target starts. */
static int write_start(struct col_session *session)
{
    struct col_peak peak = {0};
    struct col_calibration calibration = {0};
    int rc = 0;
    if (!session->options->no_peak)
        read_calibration(session, &calibration);
    if (!session->options->no_peak && !col_peak_measure(&peak))
        rc = col_drain_loss(&session->drain, "peak", peak.reason, STORE_ABSENT, STORE_ABSENT,
                            STORE_ABSENT);
    if (rc == 0)
        rc = col_drain_begin(&session->drain);
    if (rc == 0)
        rc = col_describe(session->db, session->options);
    if (rc == 0)
        rc = col_ceilings_write(session->db, &calibration, &peak);
    col_calibration_clear(&calibration);
    if (rc == 0)
        rc = col_leader_describe(session);
    if (rc == 0)
        rc = store_run_set(session->db, "segments", session->live.segments);
    if (rc == 0)
        rc = store_run_set_int(session->db, "collector.pid", getpid());
    if (rc == 0)
        rc = col_session_save_setup(session);
    return rc ? rc : col_drain_commit(&session->drain);
}

static void prepare_target(void *ctx, pid_t pid)
{
    struct col_session *session = ctx;
    if (!session->options->no_counters)
        session->perf = col_perf_open(pid);
    if (session->options->stacks_hz > 0)
        session->stacks =
            col_stacks_open(pid, session->options->stacks_hz, session->options->frame_pointers);
    const char *fix, *refused = session->stacks ? col_stacks_refused(session->stacks, &fix) : NULL;
    if (refused)
        col_session_warn(session, "call stacks are not sampled: %s%s%s", refused,
                         fix[0] ? ": " : "", fix);
    session->started =
        col_clock_now(); /* before it runs: nothing of its own may have started earlier */
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

static void child_ended(struct col_session *session, pid_t pid, int status,
                        const struct rusage *use)
{
    char ended[96];
    int code = col_session_status(status, ended, sizeof ended);
    int64_t now = col_clock_now();
    for (uint32_t i = 0; i < session->drain.process_count; i++) {
        struct col_process *process = session->drain.process[i];
        if (process->pid == (int32_t)pid && !process->ended[0])
            col_process_ended(process, now, code, WIFSIGNALED(status) ? ended : "exit");
    }
    if (pid != session->child || session->child_done)
        return;
    session->child_done = true;
    session->child_status = status;
    session->ended_at = now;
    session->result->exit_code = code;
    session->child_usage = *use;
    snprintf(session->result->ended, sizeof session->result->ended, "%s", ended);
}

void col_session_reap(struct col_session *session)
{
    int status;
    struct rusage use;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &use)) > 0)
        child_ended(session, pid, status, &use);
}

void col_session_signal(struct col_session *session, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    bool by_process = col_signal_by_process(info);
    if (number == SIGCHLD)
        return;
    /* a terminal that goes away tells the leader of its session alone; others it reaches as a
     * group, the target among them */
    if (number == SIGHUP && session->terminal_session == getpid())
        by_process = true;
    /* Ctrl-C reached the target too, and the answer is the target's: an interactive one lives on
     * and still reads the terminal
     */
    bool answered = number == SIGINT && !by_process && session->child > 0 &&
                    getpgid(session->child) == getpgrp();
    bool asks_to_end =
        number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    unsigned others = session->child_done ? col_leader_running(session) : 0;
    if (asks_to_end && others && ++session->interrupts < 2) /* who ends the job, tells them too */
        col_session_message(session,
                            "%u other ranks of this node still run: recording goes on until they "
                            "end (again finishes now)",
                            others);
    else if (asks_to_end && (session->child_done || session->child <= 0))
        session->stop = number; /* only stragglers are left: nobody to pass it to */
    else if (number == SIGINT && !answered && ++session->interrupts >= 2)
        session->stop = number;
    else if (by_process && session->child > 0 && !session->child_done)
        kill(session->child, number);
}

struct straggler {
    struct col_session *session;
    int count, daemons; /* in our session, and in others */
};

static void count_straggler(void *ctx, int32_t child)
{
    struct straggler *straggler = ctx;
    struct col_proc_stat st;
    if (child == straggler->session->child || col_proc_read_stat(child, &st) != 0 ||
        st.state == 'Z')
        return;
    straggler->count += st.session == straggler->session->terminal_session;
    straggler->daemons += st.session != straggler->session->terminal_session;
}

/* Processes that go on after the direct child ended: with a pool, or adopted by us and in the same
 * session (a daemon leaves it). */
static int stragglers(struct col_session *session, int *daemons)
{
    struct straggler straggler = {.session = session};
    col_proc_children((int32_t)getpid(), count_straggler, &straggler);
    int recording = col_drain_alive(&session->drain);
    *daemons = recording ? 0 : straggler.daemons;
    return recording > straggler.count ? recording : straggler.count;
}

static bool run_is_over(struct col_session *session)
{
    if (session->stop)
        return true;
    if ((!session->child_done && session->child > 0) || col_leader_waits(session))
        return false;
    int daemons, left = stragglers(session, &daemons);
    if (left && !session->told_waiting) {
        session->told_waiting = true;
        col_session_message(session,
                            "the command has ended; %d of its processes still run: recording goes "
                            "on until they end "
                            "(Ctrl-C finishes now)",
                            left);
    }
    if (!left && daemons && !session->told_daemons) {
        session->told_daemons = true;
        col_session_message(session,
                            "%d processes that left the session have recorded nothing so far and "
                            "go on: what they record from now "
                            "on is not in the file (start them with a tacho of their own)",
                            daemons);
    }
    return left == 0;
}

/* Whether it is time for a look at the system. The next one is set in any case: a look that is not
 * taken must not be due for ever, or nothing would wait. */
static bool sample_is_due(struct col_session *session)
{
    int64_t now = col_clock_now(), step = (int64_t)session->options->sample_ms * 1000000;
    if (!session->system || now < session->next_sample)
        return false;
    session->next_sample += step;
    if (session->next_sample < now)
        session->next_sample = now + step;
    return true;
}

/* One turn: samples, drains, commits. Failures of the store are dealt with here; recording goes on
 * as far as it can. */
static void turn(struct col_session *session, bool *more)
{
    int rc = 0;
    bool due = sample_is_due(session);
    *more = false;
    if (session->stalled && !col_session_retry(session))
        return;
    bool alive = !session->child_done || col_drain_alive(&session->drain) > 0;
    rc = col_leader_rows(session);
    if (rc == 0 && due && alive && !session->drain.volume.no_space) {
        rc = col_drain_begin(&session->drain);
        if (rc == 0)
            rc = col_system_sample(session->system, &session->drain);
        if (rc == 0 && session->nvml)
            rc = col_nvml_sample(session->nvml, &session->drain);
        if (rc == 0 && session->perf && session->samples++ % 5 == 0)
            rc = col_perf_sample(session->perf, &session->drain);
    }
    if (rc == 0 && session->stacks && alive && !session->drain.volume.no_space) {
        rc = col_drain_begin(&session->drain);
        if (rc == 0)
            rc = col_stacks_drain(session->stacks, &session->drain, false);
    }
    if (rc == 0)
        rc = col_drain_round(&session->drain, more);
    if (rc == 0)
        rc = col_drain_commit(&session->drain);
    if (rc == 0)
        rc = col_drain_reap(&session->drain);
    if (rc)
        col_session_failed(session, rc);
    else if (session->drain.volume.no_space &&
             col_live_room(&session->live) > COL_RESERVE_BYTES * 4)
        session->drain.volume.no_space = session->drain.volume.no_detail = false;
}

static void wait_for_turn(struct col_session *session, bool more)
{
    int64_t now = col_clock_now(), next = session->next_turn;
    if (session->system && session->next_sample < next)
        next = session->next_sample;
    int64_t left = more || next <= now ? 0 : next - now;
    struct pollfd fd[2] = {{.fd = session->signals.fd, .events = POLLIN},
                           {.fd = session->peers_poll, .events = POLLIN}};
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (ppoll(fd, 2, &timeout, NULL) > 0) {
        struct signalfd_siginfo info;
        while (col_signals_next(&session->signals, &info))
            col_session_signal(session, &info);
        col_leader_read(session);
    }
}

void col_session_loop(struct col_session *session)
{
    bool more = false;
    session->next_turn = session->next_sample = col_clock_now();
    col_together_open(&session->together, session->live.folder, session->live.segments,
                      session->options->separate);
    for (;;) {
        wait_for_turn(session, more);
        col_session_reap(session);
        turn(session, &more);
        col_together_turn(&session->together, col_clock_now());
        session->next_turn = col_clock_now() + COL_TURN_NS;
        if (run_is_over(session) && (session->stop || !more))
            break;
    }
    col_together_close(&session->together);
}

/* ---- col_run --------------------------------------------------------------------------------------------------------------- */

static double ns_of(const struct timeval *timeval)
{
    return ((double)timeval->tv_sec * 1e6 + (double)timeval->tv_usec) * 1e3;
}

static int write_usage(struct col_session *session)
{
    const struct rusage *rusage = &session->usage, *from = &session->own_usage;
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    const struct {
        const char *name, *unit;
        double value;
    } metric[] = {
        {"collector.user_time", "ns", ns_of(&own.ru_utime) - ns_of(&from->ru_utime)},
        {"collector.system_time", "ns", ns_of(&own.ru_stime) - ns_of(&from->ru_stime)},
        {"target.user_time", "ns", ns_of(&rusage->ru_utime)},
        {"target.system_time", "ns", ns_of(&rusage->ru_stime)},
        {"target.max_rss", "bytes", (double)rusage->ru_maxrss * 1024},
        {"target.minor_faults", "count", (double)rusage->ru_minflt},
        {"target.major_faults", "count", (double)rusage->ru_majflt},
        {"target.voluntary_switches", "count", (double)rusage->ru_nvcsw},
        {"target.involuntary_switches", "count", (double)rusage->ru_nivcsw},
    };
    for (size_t i = 0; i < sizeof metric / sizeof *metric; i++) {
        struct store_metric m = {
            .name = metric[i].name, .unit = metric[i].unit, .value = metric[i].value};
        if (!session->child_done && strncmp(m.name, "target.", 7) == 0) {
            m.value = __builtin_nan("");
            m.reason = "the target had not ended when the recording did";
        }
        int rc = store_metric_set(session->db, &m);
        if (rc)
            return rc;
    }
    return 0;
}

static int write_end(struct col_session *session)
{
    int rc = col_drain_begin(&session->drain);
    if (rc == 0 && session->nvml)
        rc = col_nvml_sample(session->nvml, &session->drain);
    if (rc == 0 && session->perf)
        rc = col_perf_finish(session->perf, &session->drain);
    if (rc == 0 && session->stacks)
        rc = col_stacks_finish(session->stacks, &session->drain);
    if (rc == 0)
        rc = write_usage(session);
    if (rc == 0)
        rc = store_run_set_int(session->db, "exit_status", session->worst);
    if (rc == 0 && session->gap_from)
        rc = col_session_note_gap(session);
    return rc;
}

static void note_interruption(struct col_session *session)
{
    if (!session->stop)
        return;
    char name[48], before[160] = "";
    describe_signal(session->stop, name, sizeof name);
    if (session->child_done)
        snprintf(before, sizeof before, "%.150s, ", session->result->ended);
    else
        session->result->exit_code = 128 + session->stop;
    snprintf(session->result->ended, sizeof session->result->ended,
             "%sinterrupted: recording ended by %s while processes went on", before, name);
}

int col_session_conclude(struct col_session *session, struct tacho_error *err)
{
    col_session_loop(session);
    col_leader_over(session);
    int rc = session->stalled ? 0 : col_leader_rows(session);
    if (rc)
        col_session_failed(session, rc);
    note_interruption(session);
    col_leader_sum(session);
    return col_session_finish(session, write_end, err);
}

/* The file with what it says before the target starts, and the target. What was made is gone if
 * either fails. */
static int begin(struct col_session *session, const char *library, struct tacho_error *err)
{
    cpu_set_t own;
    int rc = col_session_create(session, err);
    if (rc == 0)
        rc = col_signals_begin(&session->signals, err);
    col_leader_spread(session, &own);
    if (rc == 0 && (rc = write_start(session)) != 0)
        rc = col_session_store_error(session, rc, err);
    if (CPU_COUNT(&own))
        sched_setaffinity(0, sizeof own, &own);
    if (rc == 0 && (rc = col_control_create(session->live.pools, session->options)) != 0)
        rc = tacho_fail(err, rc, NULL, "%s: %s", session->live.segments, tacho_error_text(rc));
    if (rc == 0) {
        getrusage(RUSAGE_SELF,
                  &session->own_usage); /* measuring the peak is no cost of recording */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        rc = col_session_start(session, library, prepare_target, session, err);
    }
    if (rc)
        col_session_discard(session);
    return rc;
}

static int lead(struct col_session *session, const char *library, struct tacho_error *err)
{
    const struct col_options *options = session->options;
    const char *base = strrchr(options->command[0], '/');
    struct col_process *process = NULL;
    col_leader_gather(session);
    int rc = col_live_create(options->output, options->command[0],
                             session->peers.is_known && session->peers.job.many_nodes,
                             &session->live, err);
    if (rc == 0)
        rc = begin(session, library, err);
    if (rc)
        return rc;
    col_leader_welcome(session);
    int failed = col_drain_process(&session->drain, (int32_t)session->child, session->started,
                                   base ? base + 1 : options->command[0], &process);
    if (process && session->peers.is_known)
        process->rank = session->peers.job.rank;
    if (failed)
        col_session_failed(session, failed);
    if (options->sample_ms > 0)
        col_system_open(&session->system);
    if (options->sample_ms > 0 && options->gpu != COL_GPU_OFF)
        session->nvml = col_nvml_open(options->sample_ms);
    return col_session_conclude(session, err);
}

int col_run(const struct col_options *options, struct col_result *result, struct tacho_error *err)
{
    char library[COL_PATH_MAX];
    struct col_session session;
    int fd = -1;
    col_session_init(&session, options, result);
    result->exit_code = 125;
    int rc = options->command && options->command[0]
                 ? col_find_library(options->library, library, err)
                 : tacho_fail(err, TACHO_EUSAGE, "give the command after --", "no command to run");
    if (rc == 0 && !options->separate)
        fd = col_attach(&session);
    if (rc == 0)
        rc = fd >= 0 ? col_attach_run(&session, fd, library, err) : lead(&session, library, err);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    col_signals_end(&session.signals);
    col_session_free(&session);
    return rc;
}
