/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room tuner/: which configuration to try next. Ask, measure, tell, again. The
 * smallest value wins; a configuration that fails tells the search where others are likely to fail.
 *
 * The first few are drawn by chance. Then each has the largest expected improvement (Jones,
 * Schonlau & Welch 1998) by a Gaussian process of the logarithm of the values, of which the search
 * is less sure than the process itself, times the likelihood that it works. A search that finds
 * nothing better for a while asks what if one choice were otherwise: it holds one dimension away
 * from the level that the best has, and goes downhill there. The same seed and values give the same
 * search.
 */
#ifndef TUNER_SEARCH_H
#define TUNER_SEARCH_H

#include "tuner/space.h"

#define TUNER_TRIALS 1024 /* of a search, at most */

struct tuner_search;

/* The space must outlive it. NULL: no memory. */
struct tuner_search *tuner_search_new(const struct tuner_space *space, uint64_t seed);
void tuner_search_free(struct tuner_search *search);
/* The next configuration; SIZE_MAX: all were tried, or TUNER_TRIALS were. */
size_t tuner_search_ask(struct tuner_search *search);
/* What a configuration gave (> 0, smaller is better; NAN: it failed), whether it was asked for or
 * not. Of one that was told before, the first value counts. */
void tuner_search_tell(struct tuner_search *search, size_t configuration, double value);
/* How much each dimension matters, 0..1: the share of the predicted variance that its main effect
 * has, over configurations drawn at random. share[dimensions]. */
void tuner_search_shares(struct tuner_search *search, double *share);
/* The value that is predicted of a configuration if only this dimension of it has another level:
 * value[levels], NAN where the space has no such configuration or too few trials worked. */
void tuner_search_response(struct tuner_search *search, size_t configuration, size_t dimension,
                           double *value);

#endif
