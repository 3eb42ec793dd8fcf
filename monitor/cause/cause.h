/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: what is kept of the newest steps of each rank and of the
 * counters of the machine, and what that says about a change: which phase and which ranks moved,
 * and what changed at the same time. A circumstance is named only if it changed when the level did.
 */
#ifndef MONITOR_CAUSE_H
#define MONITOR_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the time of a step goes to, by the ranges of the thread that runs it: X(ID, words). */
#define MON_PHASE_MAP(X) \
    X(COMPUTE, "compute") \
    X(COMMUNICATION, "communication") \
    X(DATA_WAIT, "data wait") \
    X(CHECKPOINT, "checkpoint") \
    X(EVALUATION, "evaluation") \
    X(COLLECTION, "garbage collection") \
    X(OTHER, "other host work")
enum mon_phase {
#define MON_PHASE_ID(id, words) MON_PHASE_##id,
    MON_PHASE_MAP(MON_PHASE_ID)
#undef MON_PHASE_ID
        MON_PHASE_COUNT
};
const char *mon_phase_words(enum mon_phase phase);

/* X(ID, hint): why, as far as the recording says, and what to do then. */
#define MON_CAUSE_MAP(X) \
    X(UNKNOWN, "look at the steps around it: 'tacho diff' of a run before and one after") \
    X(COMPUTE, "shapes, precision or the program changed; compare 'tacho report' of both windows") \
    X(NEIGHBOUR, "find it with 'top', or give the job cores of its own") \
    X(CLOCKS, "see power limit, cooling and throttle reasons") \
    X(LOADER, "more workers, or a look at the storage they read") \
    X(RANK, "take its node out, or swap it") \
    X(LINK, "look at the network: link errors, a fallback to sockets, another job on it") \
    X(CHECKPOINT, "look at the storage they are written to") \
    X(LINK_DEGRADED, \
      "a link runs narrower or slower: reseat the card, look at the cable and its counters") \
    X(NET_FALLBACK, \
      "NCCL uses sockets: look at NCCL_IB_DISABLE, NCCL_NET and the ports of the HCA") \
    X(DEVICE_ERROR, "drain the node, reset the device, look at 'nvidia-smi -q'") \
    X(NUMA, "bind each rank to the cores and the memory of its device's node: numactl, --bind-to") \
    X(MEMORY, "page faults or swap: less memory a process, or more of it") \
    X(COLLECTION, "gc.freeze() after the set-up") \
    X(LEAK, "tacho report --explain on what holds it") \
    X(NUMERICS, "lower the rate, skip the batch, or go back") \
    X(PLATEAU, "lower the rate, or end the run") \
    X(HANG, "see what its threads wait for") \
    X(SILENT_RANK, "see its process and its node") \
    X(RECORDER, "'tacho recover' keeps what there is") \
    X(ENDED, "see its output and its exit status") \
    X(UNWATCHED, "see why no watch ran; 'tacho watch --replay' judges what it missed") \
    X(OBJECTIVE, "the alerts beside it say why")
enum mon_cause {
#define MON_CAUSE_ID(id, hint) MON_CAUSE_##id,
    MON_CAUSE_MAP(MON_CAUSE_ID)
#undef MON_CAUSE_ID
        MON_CAUSE_COUNT
};
const char *mon_cause_name(enum mon_cause cause); /* "NEIGHBOUR" */
const char *mon_cause_hint(enum mon_cause cause);

/* ---- what is kept ---------------------------------------------------------------------------- */

#define MON_KEPT_STEPS   128
#define MON_KEPT_SAMPLES 128
#define MON_RANKS_NAMED  8

struct mon_kept_step {
    int64_t index, start, end; /* ns */
    float ms, phase_ms[MON_PHASE_COUNT];
    bool has_phases;
};
struct mon_kept_rank {
    int64_t rank;
    int64_t index, end; /* of its newest step; -1: none yet */
    int64_t highest;    /* index so far */
    bool silent;
    struct mon_kept_step step[MON_KEPT_STEPS]; /* ring: those without a checkpoint in them */
    size_t count, next;
};
/* A counter that is evidence (cause_evidence.c lists their names). */
struct mon_kept_series {
    const struct mon_evidence *evidence;
    int64_t rank; /* -1: of the machine, or not known yet */
    char device[24];
    int64_t time[MON_KEPT_SAMPLES]; /* ring; ns */
    double value[MON_KEPT_SAMPLES];
    size_t count, next;
};
struct mon_history {
    struct mon_kept_rank **rank; /* by rank */
    size_t rank_count, rank_room;
    struct mon_kept_series **series;
    size_t series_count, series_room;
};
void mon_history_free(struct mon_history *history);
/* The place for a rank, a new one where it was not seen before. NULL: no memory. */
struct mon_kept_rank *mon_history_rank_of(struct mon_history *history, int64_t rank);
void mon_kept_step_add(struct mon_kept_rank *kept, const struct mon_kept_step *step);
/* What is kept of a rank; NULL: nothing. */
const struct mon_kept_rank *mon_history_rank(const struct mon_history *history, int64_t rank);
/* The place for a counter, or NULL: it is no evidence, or no memory. It lives as long as history.
 * Names: docs/schema.md. */
struct mon_kept_series *mon_history_series(struct mon_history *history, const char *name,
                                           const char *device, int64_t rank);
void mon_kept_add(struct mon_kept_series *series, int64_t time, double value);

/* ---- what moved ------------------------------------------------------------------------------ */

/* Levels before and after a time, of the samples that are kept. */
struct mon_moved {
    const struct mon_evidence *evidence;
    int64_t rank;       /* -1: of the machine */
    const char *device; /* of the series, "": none */
    double before, after;
};

/* How the values of a counter become a level. */
enum mon_evidence_kind {
    MON_EVIDENCE_LEVEL, /* the median of the samples */
    MON_EVIDENCE_TOTAL, /* a sum since some time: its growth a second */
    MON_EVIDENCE_HELD,  /* written when it changes: the newest value */
    MON_EVIDENCE_PLACE, /* the median; any other place is a change */
    MON_EVIDENCE_BITS,  /* reasons (analyzers/base/throttle.h) that most samples have */
    MON_EVIDENCE_EVENT  /* an error with that number */
};

/* A counter whose change is evidence. */
struct mon_evidence {
    const char *name, *words, *unit; /* unit of the level, after scale */
    enum mon_evidence_kind kind;
    double scale;
    double absolute, relative; /* a change is at least both; negative: downwards */
    enum mon_cause cause;      /* what it speaks for; MON_CAUSE_UNKNOWN: of nothing by itself */
};

struct mon_finding {
    enum mon_cause cause;
    bool has_phase;
    enum mon_phase phase;                          /* that moved most */
    double phase_before_ms, phase_after_ms, share; /* share of the step's growth */
    int64_t rank[MON_RANKS_NAMED];                 /* that moved, by size */
    size_t rank_count;                             /* 0: all of them alike */
    struct mon_moved moved[4];                     /* what changed then, the most telling first */
    size_t moved_count;
};

/* What happened at `since` (index of the first slow step): compares the kept steps before with
 * those after. `begin_ns`: when that step began. */
void mon_cause_find(const struct mon_history *history, int64_t since, int64_t begin_ns,
                    struct mon_finding *finding);
/* The same where no step came any more: only what the counters say, from `from` on, of a change at
 * `begin` as it was at `to`; ns. */
void mon_cause_of_stop(const struct mon_history *history, int64_t from, int64_t begin, int64_t to,
                       struct mon_finding *finding);
/* Appends "SM clock of gpu:2 (rank 2) 1980 -> 1410 MHz, Xid of pci:... 79" to a text. */
void mon_moved_words(const struct mon_finding *finding, char *text, size_t size);

#endif
