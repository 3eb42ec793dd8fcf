/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/: what is kept of a run that is watched, and what its files ask of each other.
 */
#ifndef MONITOR_PRIVATE_H
#define MONITOR_PRIVATE_H

#include "monitor/detect/shift.h"
#include "monitor/detect/tail.h"
#include "monitor/detect/trend.h"
#include "monitor/monitor.h"
#include "monitor/progress/progress.h"
#include "monitor/sli/budget.h"

#define MON_WARM_UP      20  /* steps of the job before anything is judged */
#define MON_PENDING      32  /* steps that not all ranks have completed */
#define MON_RANKS_SPREAD 128 /* ranks of a step whose spread is looked at */
#define MON_CHECKPOINTS  16

/* A step of the job: all ranks that have completed it so far. */
struct mon_pending {
    int64_t index, start, end;
    size_t ranks, spread;
    double ms, tokens, flops; /* of the slowest rank; sums */
    double wait_share;        /* of the rank that waited most for data */
    double own_ms[MON_RANKS_SPREAD];
    bool special, has_phases, repeated;
};

/* A series with a detector, and the alert that it may have raised. */
struct mon_watched {
    struct mon_shift shift;
    bool firing;
    double clear_level; /* on its good side for long enough: the alert is over */
    size_t firing_values;
};

/* The newest collective of a rank in a communicator. */
struct mon_group {
    int64_t communicator, rank;
    int64_t number, before; /* before: the newest one that is surely over, -1 */
    int64_t start, end;     /* ns; end INT64_MIN: open as far as is known */
    char name[24];
};

enum mon_counter_use {
    MON_USE_EVIDENCE,
    MON_USE_LOSS,
    MON_USE_NORM,
    MON_USE_MEMORY,
    MON_USE_SLOW,
    MON_USE_AVAILABLE
};
struct mon_counter {
    enum mon_counter_use use;
    char name[48], device[24];
    int64_t rank, time;           /* of the newest value, ns */
    struct mon_kept_series *kept; /* NULL: no evidence */
    struct mon_watched watched;
    struct mon_trail trail;
    struct mon_tail tail;         /* of the deviations of a loss or a norm */
    struct mon_shift_found risen; /* what LOSS_RISES says */
    double sum;                   /* of samples that one value of a slow series is made of */
    size_t held;
    bool leaking, spiking, flat, not_finite;
};

/* A level that moved, whose cause is looked for as soon as there are samples from after it. */
struct mon_deferred {
    bool waits;
    int64_t begin_ns;
    struct mon_shift_found found;
};

struct mon_monitor {
    const struct mon_config *config;
    struct mon_machine machine;
    struct mon_alerts alerts;
    struct mon_history history;
    struct mon_progress progress;
    int64_t begun_ns, now_ns;

    struct mon_pending pending[MON_PENDING];
    size_t pending_count;
    struct mon_group *group; /* by communicator and rank */
    size_t group_count, group_room;
    int64_t steps, last_step, last_end; /* of the job; last_end INT64_MIN: none */
    int64_t counted_ns;                 /* until then seconds were counted */
    int64_t restarted_ns;               /* INT64_MIN: never */
    struct mon_watched step_time, throughput;
    double tokens_last, tokens_per_s, mfu, straggler;
    size_t ranks_last;
    bool tokens_vary;
    struct mon_deferred deferred[2]; /* of the step time, of the throughput */

    struct mon_counter **counter;
    size_t counter_count, counter_room;
    double available_bytes, loss, grad_norm;
    bool step_not_finite; /* since the last step of the job */

    int64_t checkpoint_end; /* INT64_MIN: none was seen */
    double checkpoint_s[MON_CHECKPOINTS];
    size_t checkpoint_count;

    struct mon_budget budget[MON_OBJECTIVES_MOST];
    const char *absent[MON_OBJECTIVES_MOST];
    bool counting;
    double reference_ms, reference_flops; /* medians at the end of the warm-up */
    double warm_ms[MON_WARM_UP], warm_flops[MON_WARM_UP];
    size_t warm_count;

    void (*probe)(void *ctx, char *text, size_t size);
    void *probe_ctx;
};

static inline double mon_seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

/* objectives.c */
void mon_count_step(struct mon_monitor *monitor, const struct mon_pending *step);
void mon_count_loss(struct mon_monitor *monitor, int64_t time, double deviation, bool finite);
void mon_count_stall(struct mon_monitor *monitor, int64_t now);
void mon_check_budgets(struct mon_monitor *monitor, int64_t now);

/* groups.c */
/* "communicator 7: all_reduce 17 started by 3 of 4 ranks, completed by none; rank 3 ..." */
void mon_groups_words(const struct mon_monitor *monitor, char *text, size_t size);
/* Names the ranks that have not started what others of their communicator wait for. */
void mon_groups_behind(const struct mon_monitor *monitor, struct mon_symptom *symptom);

/* symptoms.c */
/* The step of the job in which a time of a rank lies. Values of a live run may be read after the
 * steps that followed them. */
int64_t mon_step_at(const struct mon_monitor *monitor, int64_t rank, int64_t time);
/* A symptom of which only the code and the severity are known. */
struct mon_symptom mon_symptom_of(const struct mon_monitor *monitor, const char *code,
                                  enum mon_severity severity, enum mon_cause cause);
/* The level of the step time (0) or the throughput (1) moved: raised with what else moved then,
 * once that is known. */
void mon_defer_shift(struct mon_monitor *monitor, int which, const struct mon_shift_found *found);
void mon_raise_deferred(struct mon_monitor *monitor);
void mon_raise(struct mon_monitor *monitor, const struct mon_symptom *symptom);
void mon_clear(struct mon_monitor *monitor, const char *code, int64_t rank);
/* Adds a value to a watched series and clears `code` once it is over. True: it moved in the bad
 * direction just now. */
bool mon_watched_add(struct mon_monitor *monitor, struct mon_watched *watched, double value,
                     int64_t at, const char *code, int64_t rank, struct mon_shift_found *found);
/* Starts to watch a series by a rule; bad_up: upwards is bad. */
void mon_watched_begin(struct mon_watched *watched, const struct mon_shift_rule *rule, bool bad_up);

#endif
