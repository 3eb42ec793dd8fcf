/* SPDX-License-Identifier: Apache-2.0
 *
 * A training job drawn by seed, as observations of a monitor: four ranks, a step of 100 ms, a
 * checkpoint of 3 s every 200 steps, counters once a second; and incidents that are planted in it.
 */
#ifndef TESTS_MON_JOB_H
#define TESTS_MON_JOB_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/monitor.h"
#include "tests/unit/monitor/mon_series.h"

#define JOB_RANKS 4

enum job_incident {
    JOB_NEIGHBOUR,
    JOB_CLOCKS,
    JOB_LOADER,
    JOB_RANK,
    JOB_LINK,
    JOB_CHECKPOINT,
    JOB_LEAK,
    JOB_NAN,
    JOB_INCIDENTS,
    JOB_NONE = JOB_INCIDENTS
};

struct job {
    uint64_t state;
    enum job_incident incident;
    int64_t at;    /* step from which on it acts */
    int64_t rank;  /* that it acts on */
    double amount; /* 0..1: how strong */
    double scale;  /* of the time of a step: 1 is 100 ms */
    double now_s, second_s, wait_s[JOB_RANKS];
    struct mon_counter *busy, *available, *wait[JOB_RANKS], *clock[JOB_RANKS], *throttle[JOB_RANKS],
        *queue[JOB_RANKS], *memory[JOB_RANKS], *loss, *norm;
};

static inline int64_t job_ns(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

static inline double job_noise(struct job *job, double sd)
{
    return 1 + sd * series_heavy(&job->state);
}

static inline struct job job_begin(struct mon_monitor *monitor, uint64_t seed)
{
    struct job job = {
        .state = seed * 104729 + 11, .incident = JOB_NONE, .at = INT64_MAX, .scale = 1};
    job.busy = mon_counter(monitor, "cpu_busy", NULL, -1);
    job.available = mon_counter(monitor, "memory_available", NULL, -1);
    job.loss = mon_counter(monitor, "loss", NULL, 0);
    job.norm = mon_counter(monitor, "grad_norm", NULL, 0);
    for (int i = 0; i < JOB_RANKS; i++) {
        char device[16];
        snprintf(device, sizeof device, "gpu:%d", i);
        job.wait[i] = mon_counter(monitor, "cpu_wait", NULL, i);
        job.queue[i] = mon_counter(monitor, "queue_depth", NULL, i);
        job.memory[i] = mon_counter(monitor, "rss_anon", NULL, i);
        job.clock[i] = mon_counter(monitor, "gpu_clock_sm", device, -1);
        job.throttle[i] = mon_counter(monitor, "gpu_throttle_reasons", device, -1);
    }
    return job;
}

static inline bool job_acts(const struct job *job, int64_t step, enum job_incident incident)
{
    return job->incident == incident && step >= job->at;
}

/* What is sampled once a second. Levels that have nothing to do with the incident vary, too. */
static inline void job_sample(struct job *job, struct mon_monitor *monitor, int64_t step)
{
    int64_t time = job_ns(job->now_s);
    bool crowded = job_acts(job, step, JOB_NEIGHBOUR), slow = job_acts(job, step, JOB_CLOCKS);
    double leaked = job_acts(job, step, JOB_LEAK)
                        ? (double)(step - job->at) * 0.1 * (10e6 + 40e6 * job->amount)
                        : 0;
    mon_value(monitor, job->busy, time, (crowded ? 92 : 55) * job_noise(job, 0.02));
    mon_value(monitor, job->available, time, 20e9 - leaked + 5e7 * series_normal(&job->state));
    for (int64_t i = 0; i < JOB_RANKS; i++) {
        bool here = i == job->rank;
        double share = crowded ? 0.10 + 0.3 * job->amount : 0.01;
        job->wait_s[i] += share * job_noise(job, 0.2);
        mon_value(monitor, job->wait[i], time, 1e9 * job->wait_s[i]);
        mon_value(monitor, job->queue[i], time,
                  job_acts(job, step, JOB_LOADER) ? 0 : 4 + floor(2 * series_uniform(&job->state)));
        mon_value(monitor, job->memory[i], time,
                  4e9 + (here ? leaked : 0) + 1e7 * series_normal(&job->state));
        mon_value(monitor, job->clock[i], time,
                  1980 * (slow && here ? 0.9 - 0.3 * job->amount : 1) * job_noise(job, 0.002));
        mon_value(monitor, job->throttle[i], time, slow && here ? 4 : 0);
    }
}

/* The own time of a rank in ms: compute, data wait, other. */
static inline void job_phases(struct job *job, int64_t step, int64_t rank, double phase[])
{
    double slower = 0;
    if (job_acts(job, step, JOB_NEIGHBOUR) ||
        (rank == job->rank && (job_acts(job, step, JOB_RANK) || job_acts(job, step, JOB_CLOCKS))))
        slower = 0.10 + 0.25 * job->amount;
    phase[MON_PHASE_COMPUTE] = 70 * (1 + slower) * job_noise(job, 0.015);
    phase[MON_PHASE_DATA_WAIT] = 1 * job_noise(job, 0.1);
    if (job_acts(job, step, JOB_LOADER))
        phase[MON_PHASE_DATA_WAIT] += 8 + 40 * job->amount;
    phase[MON_PHASE_OTHER] = 14 * job_noise(job, 0.02);
    for (int i = 0; i < MON_PHASE_COUNT; i++)
        phase[i] *= job->scale;
}

/* A step of all ranks: each waits in its communication for the slowest. */
static inline void job_step(struct job *job, struct mon_monitor *monitor, int64_t index)
{
    double phase[JOB_RANKS][MON_PHASE_COUNT] = {{0}}, own[JOB_RANKS], slowest = 0;
    double transfer = 15 * job->scale * job_noise(job, 0.03);
    if (job_acts(job, index, JOB_LINK))
        transfer *= 1.6 + 2 * job->amount;
    if (series_uniform(&job->state) < 0.01)
        transfer *= 1.5; /* a hiccup */
    for (int64_t i = 0; i < JOB_RANKS; i++) {
        job_phases(job, index, i, phase[i]);
        own[i] =
            phase[i][MON_PHASE_COMPUTE] + phase[i][MON_PHASE_DATA_WAIT] + phase[i][MON_PHASE_OTHER];
        slowest = fmax(slowest, own[i]);
    }
    int64_t start = job_ns(job->now_s);
    job->now_s += (slowest + transfer) / 1e3;
    double loss = (2 + 6 * pow((double)index + 20, -0.4)) * job_noise(job, 0.01);
    mon_value(monitor, job->loss, start, job_acts(job, index, JOB_NAN) ? NAN : loss);
    mon_value(monitor, job->norm, start, 0.8 * job_noise(job, 0.05));
    for (int64_t i = 0; i < JOB_RANKS; i++) {
        struct mon_step step = {.rank = i,
                                .index = index,
                                .start = start,
                                .end = job_ns(job->now_s),
                                .has_phases = true,
                                .tokens = 4096,
                                .flops = 1e12};
        memcpy(step.phase_ms, phase[i], sizeof step.phase_ms);
        step.phase_ms[MON_PHASE_COMMUNICATION] = slowest - own[i] + transfer;
        mon_step(monitor, &step);
    }
    if (index % 200 == 199) {
        double seconds = 3 * job_noise(job, 0.05);
        int64_t from = job_ns(job->now_s);
        if (job_acts(job, index, JOB_CHECKPOINT))
            seconds *= 3 + 5 * job->amount;
        mon_phase_range(monitor, "checkpoint", 0, from, INT64_MIN);
        job->now_s += seconds;
        mon_phase_range(monitor, "checkpoint", 0, from, job_ns(job->now_s));
    }
    if (job->now_s >= job->second_s) {
        job->second_s = job->now_s + 1;
        job_sample(job, monitor, index);
        mon_tick(monitor, job_ns(job->now_s));
    }
}

#endif
