/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of monitor/export/: what a watch knows at one moment, as samples with names, units
 * and labels, and the formats they are written in. The table of families is the one list of names:
 * writers, rules, the dashboard in share/ and docs/monitor-export.md have them from here.
 *
 * Units are base units at the end of the name, as OpenMetrics wants them. A value that is not known
 * has no sample; it is never 0.
 */
#ifndef MONITOR_EXPORT_METRIC_H
#define MONITOR_EXPORT_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tacho_error.h"

enum mon_type { MON_TYPE_GAUGE, MON_TYPE_COUNTER, MON_TYPE_INFO, MON_TYPE_HISTOGRAM };

/* Families: X(ID, type, name, unit, labels beyond `run`, help). A unit is the end of the name, or
 * "". Counters get "_total" and infos "_info" where a format wants it. */
#define MON_FAMILY_MAP(X) \
    X(RUN, INFO, "tacho_run", "", "host program version", "a run that is watched") \
    X(STEPS, COUNTER, "tacho_steps", "", "", "completed steps since the watch began") \
    X(LAST_STEP, GAUGE, "tacho_last_step_index", "", "", "number of the newest completed step") \
    X(STEP_TIME, HISTOGRAM, "tacho_step_time_seconds", "seconds", "", \
      "time of a step on its slowest rank, of the newest steps at each look") \
    X(STEP_TIME_MEDIAN, GAUGE, "tacho_step_time_median_seconds", "seconds", "", \
      "median time of the newest steps") \
    X(THROUGHPUT, GAUGE, "tacho_throughput_tokens_per_second", "", "", \
      "tokens a second over the newest steps") \
    X(LOSS, GAUGE, "tacho_loss", "", "", "loss of the newest step that has one") \
    X(GRADIENT_NORM, GAUGE, "tacho_gradient_norm", "", "", "gradient norm of the newest step") \
    X(PHASE, GAUGE, "tacho_phase_seconds", "seconds", "phase", \
      "mean time of a phase in the newest steps, over all ranks") \
    X(MFU, GAUGE, "tacho_mfu_ratio", "ratio", "", "model FLOPs utilisation of the newest steps") \
    X(CHECKPOINT_AGE, GAUGE, "tacho_checkpoint_age_seconds", "seconds", "", \
      "age of the newest checkpoint") \
    X(PROGRESS_AGE, GAUGE, "tacho_progress_age_seconds", "seconds", "", \
      "wall time since the newest step was completed") \
    X(PROGRESS_BOUND, GAUGE, "tacho_progress_bound_seconds", "seconds", "", \
      "wall time without a step after which the run counts as stalled") \
    X(STALLED, GAUGE, "tacho_stalled", "", "", "1 while the run makes no progress, else 0") \
    X(ENDED, GAUGE, "tacho_run_ended", "", "", "1 once the run has ended, else 0") \
    X(RANK_STEP_TIME, GAUGE, "tacho_rank_step_time_seconds", "seconds", "rank", \
      "median time of the newest steps of a rank") \
    X(RANK_WORK, GAUGE, "tacho_rank_work_seconds", "seconds", "rank", \
      "median time of the newest steps of a rank without its communication") \
    X(RANK_LAST_STEP, GAUGE, "tacho_rank_last_step_index", "", "rank", \
      "number of the newest completed step of a rank") \
    X(RANK_AGE, GAUGE, "tacho_rank_progress_age_seconds", "seconds", "rank", \
      "wall time since a rank completed a step") \
    X(MEMORY, GAUGE, "tacho_memory_bytes", "bytes", "rank device", \
      "anonymous memory of the processes of a rank") \
    X(DEVICE_MEMORY, GAUGE, "tacho_device_memory_bytes", "bytes", "rank device", \
      "memory of a device that is in use") \
    X(TEMPERATURE, GAUGE, "tacho_temperature_celsius", "celsius", "rank device", \
      "temperature of a device") \
    X(CLOCK, GAUGE, "tacho_clock_hertz", "hertz", "rank device", "clock of a device") \
    X(SLI_EVENTS, COUNTER, "tacho_sli_events", "", "slo", \
      "events that an objective counts: steps, or seconds of wall time") \
    X(SLI_BAD, COUNTER, "tacho_sli_bad_events", "", "slo", "events that were bad") \
    X(SLO_TARGET, GAUGE, "tacho_slo_target_ratio", "ratio", "slo", \
      "share of events that has to be good") \
    X(SLO_BUDGET, GAUGE, "tacho_slo_error_budget_remaining_ratio", "ratio", "slo", \
      "share of the error budget that is left; negative when it is overdrawn") \
    X(SLO_BURN, GAUGE, "tacho_slo_burn_rate_ratio", "ratio", "slo window", \
      "share of bad events in a window over the share that may be bad") \
    X(ALERT, GAUGE, "tacho_alerts_active", "", "code severity", "alerts that are active") \
    X(ALERTS, COUNTER, "tacho_alerts", "", "", "alerts that were raised") \
    X(WATCH_CPU, COUNTER, "tacho_watch_cpu_seconds", "seconds", "", \
      "processor time of the watch itself") \
    X(WATCH_MEMORY, GAUGE, "tacho_watch_memory_bytes", "bytes", "", \
      "resident memory of the watch itself") \
    X(WATCH_DROPPED, COUNTER, "tacho_watch_samples_dropped", "", "", \
      "samples that were dropped because there were too many")

enum mon_family {
#define MON_FAMILY_ID(id, type, name, unit, labels, help) MON_FAMILY_##id,
    MON_FAMILY_MAP(MON_FAMILY_ID)
#undef MON_FAMILY_ID
        MON_FAMILY_COUNT
};

/* A row of the table. */
struct mon_family_kind {
    enum mon_type type;
    const char *name, *unit, *labels, *help;
};
const struct mon_family_kind *mon_family_kind(enum mon_family family);

/* Labels of a sample: name, value, name, value ..., each with its 0; an empty name ends them. */
#define MON_LABELS 256
struct mon_labels {
    char text[MON_LABELS];
    size_t used;
};

/* What a counter or a bucket of a histogram points at: a window of steps in a file. Its labels have
 * at most 128 characters together, names included (OpenMetrics 1.0); `value` and time are those of
 * the step that it stands for. */
#define MON_EXEMPLAR_LABELS 128
struct mon_exemplar {
    char file[96];       /* of the run, without its folder; "": no exemplar */
    int64_t first, last; /* steps of the window, both included */
    double value;
    int64_t time_ns; /* since 1970; 0: not known */
};

/* Its labels, `file` and `steps`; a name that is too long loses its beginning. False: it has none.
 */
bool mon_exemplar_labels(const struct mon_exemplar *exemplar, struct mon_labels *labels);

/* Times of steps in buckets. */
#define MON_BUCKETS 16
struct mon_histogram {
    uint64_t count[MON_BUCKETS + 1]; /* of each bucket alone; the last one has no upper bound */
    double sum;
    struct mon_exemplar exemplar[MON_BUCKETS + 1]; /* the newest of each bucket */
};
/* Upper bounds of the buckets, seconds. */
extern const double mon_bucket_bound[MON_BUCKETS];
/* `exemplar` may be NULL. A value that is not finite or below 0 is left out. */
void mon_histogram_add(struct mon_histogram *histogram, double value,
                       const struct mon_exemplar *exemplar);
uint64_t mon_histogram_count(const struct mon_histogram *histogram);

/* One sample. */
struct mon_metric {
    enum mon_family family;
    struct mon_labels labels;
    double value;
    const struct mon_histogram *histogram; /* of a histogram; not owned */
    struct mon_exemplar exemplar;          /* of a counter */
};

/* The samples of one moment. At most `limit` are kept; what else is added is counted. A program
 * makes one and fills it again and again. */
struct mon_metrics {
    struct mon_metric *metric; /* owned */
    size_t count, room, limit;
    uint64_t dropped;
    struct mon_labels common;  /* that samples begin with, from now on */
    int64_t time_ns, start_ns; /* of the moment, and when counters were 0; since 1970 */
};
#define MON_METRICS_MOST 4096 /* of one watch */

void mon_metrics_init(struct mon_metrics *metrics, size_t limit, int64_t start_ns);
/* Begins a new moment: no samples and no common labels. */
void mon_metrics_begin(struct mon_metrics *metrics, int64_t time_ns);
void mon_metrics_free(struct mon_metrics *metrics);
/* A sample to which labels may be added. NULL, which every function below accepts: the value is NAN
 * (not known), there are too many, or no memory is left. */
struct mon_metric *mon_metric_add(struct mon_metrics *metrics, enum mon_family family,
                                  double value);
struct mon_metric *mon_metric_add_histogram(struct mon_metrics *metrics, enum mon_family family,
                                            const struct mon_histogram *histogram);
void mon_metric_label(struct mon_metric *metric, const char *name, const char *value);
void mon_metric_number(struct mon_metric *metric, const char *name, int64_t value);
void mon_metric_exemplar(struct mon_metric *metric, const struct mon_exemplar *exemplar);
/* A label of all samples that are added from now on; mon_metrics_unlabel() ends all of them. */
void mon_metrics_label(struct mon_metrics *metrics, const char *name, const char *value);
void mon_metrics_unlabel(struct mon_metrics *metrics);

/* Walks over labels: `at` begins as 0. False at their end. */
bool mon_labels_next(const struct mon_labels *labels, size_t *at, const char **name,
                     const char **value);

#endif
