/* SPDX-License-Identifier: Apache-2.0
 *
 * What the collector does from the start of the target to the end of the file: it takes turns
 * (samples, drains, commits), passes signals on, reaps children, and decides when the run is over.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"
#include "profiler/collector/run/leader.h"

/* A child was reaped: notes how it ended, and for the target itself the result of the run. */
static void child_ended(struct col_session *session, pid_t pid, int status,
                        const struct rusage *use)
{
    char ended[96];
    int code = col_wait_status(status, ended, sizeof ended);
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
    /* A terminal that closes signals the leader of its session alone, or the whole foreground
     * group, which includes the target. */
    if (number == SIGHUP && session->terminal_session == getpid())
        by_process = true;
    /* Ctrl-C reached the target too, and the target decides: an interactive one continues to read
     * the terminal. */
    bool answered = number == SIGINT && !by_process && session->child > 0 &&
                    getpgid(session->child) == getpgrp();
    bool asks_to_end =
        number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    unsigned others = session->child_done ? col_leader_running(session) : 0;
    if (asks_to_end && others && ++session->interrupts < 2)
        col_session_message(session,
                            "%u other ranks of this node still run: recording goes on until they "
                            "end (again finishes now)",
                            others);
    else if (asks_to_end && (session->child_done || session->child <= 0))
        session->stop = number; /* only stragglers are left, to which it is not passed on */
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
    struct col_proc_stat stat;
    if (child == straggler->session->child || child == straggler->session->drain.companion ||
        col_proc_read_stat(child, &stat) != 0 || stat.state == 'Z')
        return;
    straggler->count += stat.session == straggler->session->terminal_session;
    straggler->daemons += stat.session != straggler->session->terminal_session;
}

/* Counts processes that go on after the direct child ended: those with a pool, and adopted ones of
 * the same session (a daemon leaves it). */
static int stragglers(struct col_session *session, int *daemons)
{
    struct straggler straggler = {.session = session};
    col_proc_children((int32_t)getpid(), count_straggler, &straggler);
    int recording = col_drain_alive(&session->drain);
    *daemons = recording ? 0 : straggler.daemons;
    return recording > straggler.count ? recording : straggler.count;
}

/* Has everything ended that is to be recorded? Says once what it waits for, and what it does not.
 */
static bool run_is_over(struct col_session *session)
{
    if (session->stop)
        return true;
    if ((!session->child_done && session->child > 0) || col_leader_waits(session))
        return false;
    int daemons, left = stragglers(session, &daemons);
    if (left && !session->waiting_reported) {
        session->waiting_reported = true;
        col_session_message(session,
                            "the command has ended; %d of its processes still run: recording goes "
                            "on until they end "
                            "(Ctrl-C finishes now)",
                            left);
    }
    if (!left && daemons && !session->daemons_reported) {
        session->daemons_reported = true;
        col_session_message(session,
                            "%d processes that left the session have recorded nothing so far and "
                            "go on: what they record from now "
                            "on is not in the file (start them with a tacho of their own)",
                            daemons);
    }
    return left == 0;
}

/* Is it time for a sample of the system, or so nearly that it shares this turn? The time of the
 * next one is set even if this one is not taken: a sample that stays due would keep the loop from
 * waiting. */
static bool sample_is_due(struct col_session *session)
{
    int64_t now = col_clock_now(), step = (int64_t)session->options->sample_ms * 1000000;
    int64_t early = step / 5 < COL_EARLY_NS ? step / 5 : COL_EARLY_NS;
    if (!session->system || now < session->next_sample - early)
        return false;
    session->next_sample += step;
    if (session->next_sample < now)
        session->next_sample = now + step;
    return true;
}

/* Lends files for pools, and notes that a process of the run got none. */
static int lend_files(struct col_session *session)
{
    col_lender_turn(&session->lender);
    if (session->lender.refused == session->refused)
        return 0;
    if (!session->refused)
        col_session_warn(session,
                         "a process that runs as another user or with another root directory "
                         "could not be recorded: it got no file for its events");
    session->refused = session->lender.refused;
    session->drain.stats.uncounted++;
    return col_drain_loss_uncounted(
        &session->drain, "agent",
        "event dropped: no pool for a process of another user or with another root directory");
}

/* Notes that a process of the run can neither record nor say so. */
static int note_unrecorded(struct col_session *session)
{
    struct col_unrecorded *unrecorded = &session->unrecorded;
    if (unrecorded->was_counted ||
        !col_unrecorded_look(unrecorded, &session->drain, session->child, col_clock_now()))
        return 0;
    unrecorded->was_counted = true;
    session->drain.stats.uncounted++;
    if (unrecorded->is_cut_off)
        col_session_warn(session,
                         "processes of user %u in another network namespace could not be recorded",
                         unrecorded->user);
    else
        col_session_warn(session,
                         "processes of user %u could not be recorded: not every user can read %s "
                         "(install tacho where all can)",
                         unrecorded->user, unrecorded->library);
    return col_drain_loss_uncounted(&session->drain, "agent", col_unrecorded_reason(unrecorded));
}

/* Notes why a program of PyTorch runs without the Python hook. */
static int note_hookless(struct col_session *session)
{
    struct col_hookless *hookless = &session->hookless;
    if (hookless->was_noted || !col_hookless_look(hookless, session->child, col_clock_now()))
        return 0;
    hookless->was_noted = true;
    int rc = col_drain_begin(&session->drain);
    return rc ? rc : store_run_set(session->db, "hook.missing", hookless->reason);
}

/* One turn: samples, drains, commits. Failures of the store are handled here; recording goes on as
 * far as possible. */
static void turn(struct col_session *session, bool *more)
{
    int rc = 0;
    bool due = sample_is_due(session);
    *more = false;
    if (session->stalled && !col_session_retry(session))
        return;
    bool alive = !session->child_done || col_drain_alive(&session->drain) > 0;
    bool held = col_volume_held(&session->drain);
    rc = lend_files(session);
    if (rc == 0)
        rc = note_unrecorded(session);
    if (rc == 0)
        rc = note_hookless(session);
    if (rc == 0)
        rc = col_leader_rows(session);
    if (rc == 0 && due && alive && !session->drain.volume.no_space) {
        rc = col_drain_begin(&session->drain);
        if (rc == 0)
            rc = col_system_sample(session->system, &session->drain);
        if (rc == 0 && session->nvml)
            rc = col_nvml_sample(session->nvml, &session->drain);
        if (rc == 0 && session->health)
            rc = col_health_sample(session->health, &session->drain);
        if (rc == 0 && session->perf && session->samples++ % 5 == 0)
            rc = col_perf_sample(session->perf, &session->drain);
    }
    if (rc == 0 && session->stacks && alive && !session->drain.volume.no_space) {
        rc = col_drain_begin(&session->drain);
        if (rc == 0)
            rc = col_stacks_drain(session->stacks, &session->drain, false);
    }
    if (rc == 0 && session->python && alive && !session->drain.volume.no_space) {
        rc = col_drain_begin(&session->drain);
        if (rc == 0)
            rc = col_python_samples_drain(session->python, &session->drain);
    }
    if (rc == 0 && !held)
        rc = col_drain_round(&session->drain, more);
    if (session->drain.volume.no_space)
        col_session_unsampled(session);
    else if (rc == 0)
        rc = col_session_note_unsampled(session);
    if (rc == 0)
        rc = col_drain_commit(&session->drain);
    if (rc == 0 && !session->drain.volume.no_space)
        session->unsampled_from = 0; /* it is in the file */
    if (rc == 0)
        rc = store_sync_due(session->db, col_clock_now(), session->options->sync_ns);
    if (rc == 0)
        rc = col_drain_reap(&session->drain);
    if (rc)
        col_session_failed(session, rc);
    else if (session->drain.volume.no_space &&
             col_live_room(&session->live) > COL_RESERVE_BYTES * 4)
        session->drain.volume.no_space = session->drain.volume.no_detail = false;
}

/* Waits until the next turn or sample is due, or a signal or message arrives. */
static void wait_for_turn(struct col_session *session, bool more)
{
    int64_t now = col_clock_now(), next = session->next_turn;
    if (session->system && session->next_sample < next)
        next = session->next_sample;
    int64_t left = more || next <= now ? 0 : next - now;
    struct pollfd fd[] = {{.fd = session->signals.fd, .events = POLLIN},
                          {.fd = session->peers_poll, .events = POLLIN},
                          {.fd = session->lender.listener, .events = POLLIN}};
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (ppoll(fd, sizeof fd / sizeof *fd, &timeout, NULL) > 0) {
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
    col_job_capture_open(&session->job_capture, session->live.folder, session->live.segments,
                         session->options->separate);
    for (;;) {
        wait_for_turn(session, more);
        session->next_turn = col_clock_now() + COL_TURN_NS;
        col_session_reap(session);
        turn(session, &more);
        col_job_capture_turn(&session->job_capture, col_clock_now());
        if (run_is_over(session) && (session->stop || !more))
            break;
    }
    col_job_capture_close(&session->job_capture);
}

static double ns_of(const struct timeval *time)
{
    return ((double)time->tv_sec * 1e6 + (double)time->tv_usec) * 1e3;
}

/* Writes what the run used: CPU time of the collector, and of all targets their time, memory,
 * faults and switches. */
static int write_usage(struct col_session *session)
{
    const struct rusage *use = &session->usage, *from = &session->own_usage;
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    const struct {
        const char *name, *unit;
        double value;
    } metric[] = {
        {"collector.user_time", "ns", ns_of(&own.ru_utime) - ns_of(&from->ru_utime)},
        {"collector.system_time", "ns", ns_of(&own.ru_stime) - ns_of(&from->ru_stime)},
        {"target.user_time", "ns", ns_of(&use->ru_utime)},
        {"target.system_time", "ns", ns_of(&use->ru_stime)},
        {"target.max_rss", "bytes", (double)use->ru_maxrss * 1024},
        {"target.minor_faults", "count", (double)use->ru_minflt},
        {"target.major_faults", "count", (double)use->ru_majflt},
        {"target.voluntary_switches", "count", (double)use->ru_nvcsw},
        {"target.involuntary_switches", "count", (double)use->ru_nivcsw},
    };
    for (size_t i = 0; i < sizeof metric / sizeof *metric; i++) {
        struct store_metric row = {
            .name = metric[i].name, .unit = metric[i].unit, .value = metric[i].value};
        if (!session->child_done && strncmp(row.name, "target.", 7) == 0) {
            row.value = __builtin_nan("");
            row.reason = "the target had not ended when the recording did";
        }
        int rc = store_metric_set(session->db, &row);
        if (rc)
            return rc;
    }
    return 0;
}

/* What goes into the last transaction: totals of the samplers, resources, the exit status. */
static int write_end(struct col_session *session)
{
    int rc = col_drain_begin(&session->drain);
    if (rc == 0 && session->nvml)
        rc = col_nvml_sample(session->nvml, &session->drain);
    if (rc == 0 && session->perf)
        rc = col_perf_finish(session->perf, &session->drain);
    if (rc == 0 && session->stacks)
        rc = col_stacks_finish(session->stacks, &session->drain);
    if (rc == 0 && session->python)
        rc = col_python_samples_finish(session->python, &session->drain);
    if (rc == 0)
        rc = write_usage(session);
    if (rc == 0)
        rc = store_run_set_int(session->db, "exit_status", session->worst);
    if (rc == 0 && session->gap_from)
        rc = col_session_note_gap(session);
    return rc ? rc : col_session_note_unsampled(session);
}

/* Says in the result that a signal ended the recording while processes went on. */
static void note_interruption(struct col_session *session)
{
    if (!session->stop)
        return;
    char name[48], before[160] = "";
    col_signal_text(session->stop, name, sizeof name);
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
    col_lender_settle(&session->lender); /* of a process that asked in the last turn */
    col_leader_over(session);
    int rc = session->stalled ? 0 : col_leader_rows(session);
    if (rc)
        col_session_failed(session, rc);
    note_interruption(session);
    col_leader_sum(session);
    return col_session_finish(session, write_end, err);
}
