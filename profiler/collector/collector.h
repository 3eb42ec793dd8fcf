/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of profiler/collector/: runs a program with the agent loaded, drains what it
 * records into a .tacho file while it runs, samples the machine, and finishes the file whichever
 * way the program ends.
 *
 * Nothing here prints or exits. Text for people is returned in `struct tacho_error`, in `warnings`,
 * or through `message`. One run at a time in a process: col_run and col_recover use signalfd,
 * SIGCHLD and the child-subreaper attribute of the process.
 *
 * Files of a run called NAME.tacho, while it is live, in the folder NAME.tacho.live (mode 0700; a
 * symbolic link into $TMPDIR or /tmp where the output folder is not on a local filesystem):
 *
 *     run.db      the store, in WAL mode
 *     lock        held with flock by the live collector
 *     reserve     disk space kept so that a run on a full disk can still be finished
 *     segments    the agent's pools (mode 0700), a symbolic link into tmpfs where that has room
 *
 * At the end run.db becomes NAME.tacho (never overwriting a file) and the folder is removed.
 */
#ifndef COL_COLLECTOR_H
#define COL_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "tacho_error.h"

#define COL_PATH_MAX          4096
#define COL_DEFAULT_MAX_BYTES (2ll << 30)  /* --max-size */
#define COL_DEFAULT_SYNC_NS   5000000000ll /* --sync-interval */
#define COL_DEFAULT_SAMPLE_MS 100
#define COL_DEFAULT_STACKS_HZ 99 /* not in step with what runs every 10 ms */
#define COL_DEFAULT_PYTHON_HZ 99
#define COL_DEFAULT_PAUSE     0.05
#define COL_SUFFIX            ".tacho"
#define COL_LIVE_SUFFIX       ".tacho.live"

/* ---- run --------------------------------------------------------------------------------------------------------------- */

/* Device work: recorded (in the windows of steps_from.., duration_ns), not at all, or once `tacho
 * capture` asks for it. */
enum col_gpu_mode { COL_GPU_ON, COL_GPU_OFF, COL_GPU_LATER };

/* Hardware counters of GPUs that may be asked for. */
enum { COL_COUNTERS_SAMPLED = 1, COL_COUNTERS_ROOFLINE = 2 };

struct col_options {
    char *const *command; /* argv of the target, NULL-terminated, borrowed */
    /* Final file (".tacho" is appended if missing); NULL = PROGRAM-YYYYMMDD-HHMMSS.tacho here. */
    const char *output;
    /* libtacho.so; NULL = $TACHO_LIBRARY, else beside the program or in ../lib of it. */
    const char *library;
    /* Detail is kept for steps from..to, both included; steps_from < 0 = all of them. */
    int64_t steps_from, steps_to;
    int64_t every;       /* of these, detail of every Nth step; 0 or 1 = each */
    int64_t max_bytes;   /* size that the file never exceeds; 0 = no limit */
    int64_t sync_ns;     /* of recording that a crash of the machine may cost; 0 = of one commit */
    int sample_ms;       /* interval of /proc sampling; 0 = off */
    double pause;        /* probability of a step without recording, to measure overhead: 0..0.5 */
    int pool_mib;        /* cap of the segments of one process; 0 = the agent's default */
    int stacks_hz;       /* call stacks: samples per second of CPU time; 0 = off */
    bool frame_pointers; /* call stacks by frame pointers, not by unwind tables */
    int python_hz;       /* looks a second at the frames of Python; 0 = off */
    bool python_asked;   /* the user asked for them: they may cost more, and their lack is said */
    bool no_counters;    /* leave the hardware counters alone */
    enum col_gpu_mode gpu;
    int64_t duration_ns;   /* device work of that long from the start only; 0 = all of it */
    bool whole_graphs;     /* a CUDA graph is one row, without its kernels */
    bool gpu_memory;       /* allocations on the device too */
    unsigned gpu_counters; /* COL_COUNTERS_*: hardware counters of GPUs */
    bool gemm_shapes; /* put libtacho_gemm.so (beside the library) before the target's cuBLAS */
    bool no_hook;     /* do not put the Python hook on the target's PYTHONPATH */
    bool no_peak;     /* do not measure the machine's instruction peak */
    bool no_command;  /* do not store the command line */
    bool separate;    /* do not join the recording of other ranks of the job on this node */
    /* Called, from the calling thread, with one line (no newline) that a person should see while
     * the target runs. May be NULL. The terminal may be gone; SIGPIPE is ignored during the run. */
    void (*message)(void *ctx, const char *text);
    void *message_ctx;
    /* Called once the target runs, where this process records it, with the live folder. Returns the
     * pid of a process that the caller started beside the run (`tacho run --watch`) and that is no
     * part of it: it is neither sampled nor waited for; 0: none. May be NULL. */
    int32_t (*live)(void *ctx, const char *folder);
    void *live_ctx;
};

/* Sets every field to its default. */
void col_options_init(struct col_options *options);

struct col_result {
    int exit_code; /* what the command line program should return, see col_run */
    bool started;  /* the target ran */
    bool attached; /* another tacho of the job on this node records; `path` is its live folder */
    bool finished; /* `path` is a finished file, else the live folder for `tacho recover`, or "" */
    char path[COL_PATH_MAX];
    char ended[256]; /* how the run ended: "exit 0", "signal 9 (KILL)", "interrupted: ..." */
    int64_t records; /* records read from pools (a push and a pop are two) */
    int64_t slices, counters, steps; /* rows stored */
    int64_t lost;               /* events known to be missing, without PAUSED steps and `cut` */
    int64_t uncounted;          /* times that events were lost whose number is not known */
    int64_t cut;                /* slices not stored because of --steps, --every, --max-size */
    int64_t processes, threads; /* that recorded something */
    int64_t bytes;              /* of the finished file */
    double seconds;             /* from start to end of the target */
    double collector_cpu_seconds;
    char *warnings; /* lines, '\n' after each; "" if none. Owned by the result */
};
void col_result_clear(struct col_result *result); /* frees what the result owns */

/* Runs options->command and records it. Where a launcher (mpirun, srun, torchrun) started several
 * of them on this node, the first one records the targets of all, and the others return with
 * result->attached (profiler/collector/job/peers.h). Returns 0, or a negative code with `err`
 * filled. result->exit_code is always set, as env(1) does it: 125 tacho failed before the start,
 * 126/127 the target could not be run, 128+n it ended by signal n, else its own exit status. A
 * failure after the target ran (the file could not be finished) returns its code, but
 * result->exit_code is still the target's. When it returns < 0 before the target ran, nothing is
 * left on disk.
 *
 * Signals while it runs: an INT of the terminal reaches the target too and is the target's to
 * answer. One sent by a process is forwarded; the second such INT finishes the file at once and
 * leaves the target alone (exit code 130). TERM, HUP, QUIT, USR1, USR2, ALRM, WINCH and the like
 * are forwarded when a process sent them, not when the kernel sent them to the whole foreground
 * group. TSTP and CONT keep their default action. A target is never stopped or killed by the
 * collector. */
int col_run(const struct col_options *options, struct col_result *result, struct tacho_error *err);

/* ---- recover, find ------------------------------------------------------------------------------------------------------ */

/* Finishes a run whose collector died: drains what its processes left in their segments (exactly
 * once), finishes and publishes. `live` is the NAME.tacho.live folder. If processes of the run
 * still record it goes on collecting until they end, `message` says so, and the first INT finishes
 * at once. After a reboot it finishes from what is in run.db and says what is missing as a loss.
 * The result is filled as by col_run (result->exit_code: 0). Errors: TACHO_EBUSY a live collector
 * holds the lock, TACHO_EDENIED it is not the caller's, TACHO_ENOTFOUND, _EFORMAT ... */
int col_recover(const char *live, const struct col_options *options, struct col_result *result,
                struct tacho_error *err);

struct col_found {
    char path[COL_PATH_MAX]; /* to open with store_open: a finished file, or run.db of a live run */
    char run[COL_PATH_MAX];  /* the .tacho file or .tacho.live folder, for messages */
    bool live;               /* still being recorded */
    bool recovered;          /* was finished just now: `note` has one line that says so */
    char note[512];
    struct tacho_error refused; /* why a dead run was not finished: not the caller's; code 0 */
};

/* Resolves a RUN argument: X.tacho, X.tacho.live, X (where X.tacho or X.tacho.live exists), any
 * other existing file (an import: path = arg), or "latest" (the newest .tacho or .tacho.live of the
 * current folder). With `finish`, a live run whose collector is dead is finished on the way if none
 * of its processes is alive any more (otherwise what it recorded so far is drained and `live` is
 * set). Another user's run is never finished: `live` is set, and `refused`. Errors: TACHO_ENOTFOUND
 * with a hint, or those of col_recover. */
int col_find_run(const char *arg, bool finish, struct col_found *found, struct tacho_error *err);
/* The run that was begun last of those that this user's processes record on this machine now, in
 * any folder. Errors: TACHO_ENOTFOUND. */
int col_find_live(struct col_found *found, struct tacho_error *err);

/* A run that was found, and when it was changed last, or begun if it is recorded now (real time).
 */
typedef int col_visit(void *ctx, const struct col_found *found, int64_t time_ns);
/* Visits the runs that this user's processes record on this machine now, in any folder; a run may
 * come more than once. Ends when `visit` returns non-zero, which is then returned. Errors:
 * TACHO_ENOTFOUND where the machine does not say what is recorded. */
int col_each_live(col_visit *visit, void *ctx);
/* Visits the runs in a folder, live, unfinished and finished ones, in no order, by names that begin
 * with the folder's, but for "."; hidden and empty files are left out. Errors: TACHO_ENOTFOUND,
 * TACHO_EDENIED for a folder that cannot be read. */
int col_each_run(const char *folder, col_visit *visit, void *ctx);

/* ---- capture ------------------------------------------------------------------------------------------------------------ */

struct col_capture {
    int64_t steps; /* that many steps ... */
    int64_t at; /* ... from this index on; < 0: the first one that all processes can still make */
    int64_t ns; /* or that long from now; 0 = steps */
    bool wait;  /* until it is over */
    int64_t from, to; /* out: the steps, both included; -1: a window of time */
    int processes;    /* out: that record device work */
    int done;         /* out: of these, how many are through (after waiting) */
};

/* Opens a window for device work in a run that is being recorded: `live` is its NAME.tacho.live
 * folder. All processes of the run see the same steps, on all machines that write their runs of the
 * job to the same folder. Errors: TACHO_ENOTFOUND (no process records device work), TACHO_EUSAGE
 * (all of it is recorded anyway), TACHO_EIO. */
int col_capture(const char *live, struct col_capture *capture, struct tacho_error *err);
/* The same for the job whose runs of several machines are written to `folder`, from any machine
 * that sees it. TACHO_ENOTFOUND: none exists, or there are several. */
int col_capture_job(const char *folder, struct col_capture *capture, struct tacho_error *err);

/* ---- doctor ------------------------------------------------------------------------------------------------------------- */

/* name, text */
#define COL_STATUS_MAP(X) \
    X(OK, "ok") \
    X(MULTIPLEXED, "multiplexed") \
    X(NOT_COUNTED, "not counted") \
    X(NOT_SUPPORTED, "not supported") X(DENIED, "denied") X(WARNING, "warning")
enum col_status {
#define COL_STATUS_ENUM(name, text) COL_STATUS_##name,
    COL_STATUS_MAP(COL_STATUS_ENUM)
#undef COL_STATUS_ENUM
};
const char *col_status_text(enum col_status status);

struct col_probe {
    const char *group; /* "agent", "clock", "storage", "counters", "system", "peak", "gpu" */
    const char *name;  /* "cycles", "invariant TSC", ... */
    enum col_status status;
    int error;        /* its errno, 0 = none */
    const char *text; /* what was found */
    const char *fix;  /* what to do about it, "" if nothing */
};

/* Removes the pools in memory that nothing will ever read: the caller's, of runs whose live folder
 * was removed by hand, and of which no process is alive. `removed` is called with a line for each
 * (no newline). */
void col_clean(void (*removed)(void *ctx, const char *text), void *ctx);
/* Looks at what a run started in `folder` would find: agent library, clock, tmpfs room, filesystem,
 * /proc, each hardware counter (counted for some milliseconds on the calling thread). Calls `row`
 * for each line until it returns non-zero, which is returned. */
int col_probe_each(const char *folder, int (*row)(void *ctx, const struct col_probe *probe),
                   void *ctx);

#endif
