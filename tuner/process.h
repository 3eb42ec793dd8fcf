/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room tuner/: a Gaussian process over the configurations of a space. Its
 * kernel is half a Matern 5/2 with a length for each dimension (Rasmussen & Williams 2006, 4.17):
 * settings that lie near each other are alike; and half an exponential of the number of dimensions
 * that differ, weighted: settings that share a choice are alike wherever the other choices lie,
 * which is how switches and block sizes act. Values have mean 0.
 */
#ifndef TUNER_PROCESS_H
#define TUNER_PROCESS_H

#include "tuner/space.h"

struct tuner_process {
    const struct tuner_space *space;
    double length[TUNER_DIMENSIONS]; /* of Matern */
    double weight[TUNER_DIMENSIONS]; /* of a dimension that differs */
    double noise;                    /* variance of a measurement, of the signal's */
    double scale;                    /* the signal's variance */
    size_t *point;                   /* configurations that were measured */
    size_t count, room;
    double *factor; /* Cholesky factor of the kernel of points, row by row (`room` entries each) */
    double *solved; /* factor^-1 value */
    double *work;
    const size_t *watched; /* configurations that a sweep predicts; the caller's */
    size_t watching;
    double **column; /* factor^-1 kernel of each point and all that are watched */
    size_t columns;  /* that are up to date */
    double *mean, *sd;
};

/* `watched` must outlive it. 0 or TACHO_ENOMEM. */
int tuner_process_begin(struct tuner_process *process, const struct tuner_space *space,
                        const size_t *watched, size_t watching, size_t room);
void tuner_process_clear(struct tuner_process *process);
/* Sets the points and their values; with `learn` the lengths, weights and the noise are moved
 * uphill of the marginal likelihood first. False: they cannot be told apart (the factor fails). */
bool tuner_process_set(struct tuner_process *process, const size_t *point, const double *value,
                       size_t count, bool learn);
/* Kernel of two configurations: 1 for equal ones. */
double tuner_process_kernel(const struct tuner_process *process, size_t first, size_t second);
/* Mean and standard deviation of the value of a configuration. */
void tuner_process_predict(const struct tuner_process *process, size_t configuration, double *mean,
                           double *sd);
/* What all other points say of a point whose value is this one (Rasmussen & Williams 2006, 5.12).
 */
void tuner_process_left_out(const struct tuner_process *process, size_t point, double value,
                            double *mean, double *sd);
/* Predicts all that are watched, into mean[] and sd[]; after one point more, in little time. False:
 * no memory. */
bool tuner_process_sweep(struct tuner_process *process);

#endif
