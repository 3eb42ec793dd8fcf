/* SPDX-License-Identifier: Apache-2.0
 *
 * `tacho run`: finds out whether another tacho of the job records on this node. If not, it makes
 * the live folder, describes the run, measures the machine, starts the target with its counters,
 * and hands over to the loop.
 */
#include "profiler/collector/run/session.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/os/privileges.h"
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
    options->sync_ns = COL_DEFAULT_SYNC_NS;
    options->sample_ms = COL_DEFAULT_SAMPLE_MS;
    options->pause = COL_DEFAULT_PAUSE;
    options->python_hz = COL_DEFAULT_PYTHON_HZ;
}

/* ---- before the start ------------------------------------------------------------------------------------------------------ */

/* Reads what `tacho calibrate` measured here; without it only the instruction peak is known. A
 * damaged file is a warning. */
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

/* Writes what is known before the target starts. */
static int write_start(struct col_session *session)
{
    struct col_peak peak = {0};
    struct col_calibration calibration = {0};
    int rc = 0;
    if (!session->options->no_peak)
        read_calibration(session, &calibration);
    if (!session->options->no_peak && !col_peak_measure(&peak))
        rc = col_drain_loss_uncounted(&session->drain, "peak", peak.reason);
    if (rc == 0)
        rc = col_drain_begin(&session->drain);
    if (rc == 0)
        rc = col_describe(session->db, session->options);
    if (rc == 0)
        rc = col_ceilings_write(session->db, &calibration, &peak);
    col_calibration_clear(&calibration);
    if (rc == 0)
        rc = col_leader_describe(session);
    struct col_keys keys = {.db = session->db, .rc = rc};
    col_key_text(&keys, "segments", session->live.segments);
    col_key_int(&keys, "collector.pid", getpid());
    rc = keys.rc ? keys.rc : col_session_save_setup(session);
    return rc ? rc : col_drain_commit(&session->drain);
}

/* Opens counters and call stacks on the child before it calls exec. */
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
    session->started = col_clock_now(); /* before any of its ranges can start */
}

/* ---- col_run --------------------------------------------------------------------------------------------------------------- */

/* Makes the file, writes its start and starts the target. Removes everything where one of these
 * fails. */
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
    if (rc == 0)
        col_lender_open(&session->lender, session->live.pools, session->live.run_id);
    col_unrecorded_init(&session->unrecorded, library);
    col_hookless_init(&session->hookless, library, session->options->no_hook);
    if (rc == 0) {
        /* measuring the peak does not count as a cost of recording */
        getrusage(RUSAGE_SELF, &session->own_usage);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        rc = col_session_start(session, library, prepare_target, session, err);
    }
    if (rc == 0) /* before NVML starts threads */
        col_privileges_drop();
    if (rc)
        col_session_discard(session);
    return rc;
}

/* Records as the leader of this node, or alone. */
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
    if (options->live)
        session->drain.companion = options->live(options->live_ctx, session->live.folder);
    col_session_open_samplers(session);
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
