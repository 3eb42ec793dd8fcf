/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room tuner/: spaces that were measured once and whole, so that searches can
 * be compared without measuring again. The file is Kernel Tuner's cache in the T4 format (schema
 * 1.0.0: `results` with `configuration`, `measurements`, `objectives`, `invalidity`).
 */
#ifndef TUNER_REPLAY_H
#define TUNER_REPLAY_H

#include "tuner/space.h"

struct tuner_replay {
    struct tuner_space space;
    double *value; /* of each configuration, of its first objective; NAN: it failed */
    size_t works;  /* configurations that did not fail */
    double best, median;
    char objective[64], unit[16];
};

/* Reads a cache, plain or gzip. 0 or a TACHO_E* code with words. */
int tuner_replay_read(const char *path, struct tuner_replay *replay, struct tacho_error *err);
void tuner_replay_clear(struct tuner_replay *replay);

#endif
