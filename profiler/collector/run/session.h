/* SPDX-License-Identifier: Apache-2.0
 *
 * A run being recorded or recovered: live folder, store, drain and samplers, and what to do when
 * the store fails.
 *
 * session.c the object and its end · target.c the target · leader.c the other ranks · loop.c from
 * the start of the target to the end · run.c, attach.c and find.c record, join and recover a run
 */
#ifndef COL_SESSION_H
#define COL_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/drain/drain.h"
#include "profiler/collector/job/job_capture.h"
#include "profiler/collector/job/lender.h"
#include "profiler/collector/job/live.h"
#include "profiler/collector/job/peers.h"
#include "profiler/collector/os/launch.h"
#include "profiler/collector/python/samples.h"
#include "profiler/collector/run/hookless.h"
#include "profiler/collector/run/unrecorded.h"
#include "profiler/collector/samplers/health.h"
#include "profiler/collector/samplers/nvml.h"
#include "profiler/collector/samplers/perf.h"
#include "profiler/collector/samplers/system.h"
#include "profiler/collector/stacks/stacks.h"

#define COL_TURN_NS  98000000 /* between drains: a commit each, so at most 100 ms apart */
#define COL_EARLY_NS 20000000 /* a sample may be taken so early, to share a turn */

struct col_session {
    const struct col_options *options;
    struct col_result *result;
    struct col_live live;
    store *db; /* NULL while it is given up */
    struct col_drain drain;
    struct col_signals signals;
    struct col_system *system;
    struct col_perf *perf;
    struct col_stacks *stacks;         /* NULL: not asked for */
    struct col_python_samples *python; /* NULL: not asked for */
    struct col_nvml *nvml;             /* NULL: no GPU driver */
    struct col_health *health;         /* NULL: nothing is sampled */
    pid_t child;                       /* 0: recovery */
    pid_t terminal_session;
    bool child_done, reserve_used;
    bool waiting_reported, daemons_reported, stalled_reported; /* messages that were given once */
    bool stalled; /* the store cannot be written at present; the target goes on recording */
    int failure;  /* the last code of the store */
    struct tacho_error failure_words;
    int interrupts, stop; /* stop: number of the signal that ended the recording */
    unsigned samples;
    int64_t started, ended_at, next_turn, next_sample, next_retry;
    int64_t gap_from;       /* recovery: when the last collector committed for the last time */
    int64_t gap_to;         /* and when this one went on; 0: it did not */
    int64_t unsampled_from; /* the samplers' last time in the file, since the store fails; 0 */
    struct rusage child_usage, own_usage;
    int child_status; /* as of wait */
    /* several ranks of one node (leader.h); not used by a single one */
    struct col_peers peers;
    int peers_poll;           /* epoll of the listener and of all peers, -1 */
    unsigned peers_elsewhere; /* ranks that record to another place */
    bool peers_over, peers_taken_over;
    int worst; /* exit code of the first target, by rank of its tacho, that did not end with 0 */
    struct rusage usage; /* of all targets */
    struct col_buffer warnings;
    struct col_lender lender;           /* of files, to processes that may not make any */
    unsigned refused;                   /* of those that got none: in the file already */
    struct col_unrecorded unrecorded;   /* processes that cannot even ask for one */
    struct col_hookless hookless;       /* PyTorch without the Python hook */
    struct col_job_capture job_capture; /* with the job's recorders on other machines */
};

void col_session_init(struct col_session *session, const struct col_options *options,
                      struct col_result *result);
/* The store and the drain of a new live folder. */
int col_session_create(struct col_session *session, struct tacho_error *err);
/* Saves what a collector that takes over must know about the options. */
int col_session_save_setup(struct col_session *session);
/* The store and the drain of a folder that another collector left. */
int col_session_resume(struct col_session *session, struct tacho_error *err);
/* In target.c: starts the target with what it needs to record; `prepare` as in col_launch. Sets
 * session->child and result->started, or result->exit_code. */
int col_session_start(struct col_session *session, const char *library,
                      void (*prepare)(void *ctx, pid_t pid), void *ctx, struct tacho_error *err);
/* In loop.c, as the next ones. Drains until the run is over. */
void col_session_loop(struct col_session *session);
/* The loop, and the end of the file. */
int col_session_conclude(struct col_session *session, struct tacho_error *err);
void col_session_signal(struct col_session *session, const struct signalfd_siginfo *info);
void col_session_reap(struct col_session *session);

/* Opens the samplers of the machine that the options ask for. */
void col_session_open_samplers(struct col_session *session);

/* The store failed with rc during a transaction: rolls back to the last commit. If the disk is
 * full, recording goes on without detail; otherwise, or when that fails too, it is stalled. */
void col_session_failed(struct col_session *session, int rc);
/* Tries once a second to leave the stalled state. True when it did. */
bool col_session_retry(struct col_session *session);

/* Notes, in the open transaction, that another collector took over: the run key `recovered` and
 * what was not sampled. */
int col_session_note_gap(struct col_session *session);
/* The store fails or has no room: what is sampled from its last commit on is not kept. */
void col_session_unsampled(struct col_session *session);
/* Notes in the open transaction that this was so until now, if it was. */
int col_session_note_unsampled(struct col_session *session);
/* Last rounds, `last_words` into the last transaction, finish, publish. On failure the live folder
 * is left for `tacho recover`.
 */
int col_session_finish(struct col_session *session, int (*last_words)(struct col_session *session),
                       struct tacho_error *err);
/* Closes and removes everything: the target never ran. */
void col_session_discard(struct col_session *session);
/* Frees; hands warnings and statistics to the result. */
void col_session_free(struct col_session *session);

__attribute__((format(printf, 2, 3))) void col_session_warn(struct col_session *session,
                                                            const char *format, ...);
__attribute__((format(printf, 2, 3))) void col_session_message(struct col_session *session,
                                                               const char *format, ...);
/* Fills err with the store's last failure. */
int col_session_store_error(struct col_session *session, int rc, struct tacho_error *err);

#endif
