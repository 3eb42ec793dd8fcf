/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps after an edit beside those before it: their ratio, its interval by drawing blocks of steps,
 * and how much parts of a run differ from all of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/what_if_private.h"

#define ROUNDS       1000
#define MEDIAN_LEAST 8   /* steps: of fewer the sums are looked at */
#define EVENLY       0.2 /* of the mean: by so much may the middle half of the steps differ */
#define MOSTLY       0.5 /* of the mean: the median step loses at least so much */
#define SEED         0x7461636f
#define PAIRS        7 /* of runs, in which a gain is measured */

double an_steps_ratio(const double *edited, const double *base, size_t count)
{
    double edited_sum = 0, base_sum = 0;
    for (size_t i = 0; i < count; i++) {
        edited_sum += edited[i];
        base_sum += base[i];
    }
    return base_sum > 0 ? edited_sum / base_sum : 1;
}

double an_steps_median(double *work, const double *values, size_t count)
{
    memcpy(work, values, count * sizeof *work);
    return an_quantile_of(work, count, 0.5);
}

/* The level of steps: the median; where steps differ by design, and of few, the sum. `work` is for
 * `count` values. */
static double level_of(const double *steps, size_t count, bool middle, double *work)
{
    double sum = 0;
    if (middle)
        return an_steps_median(work, steps, count);
    for (size_t i = 0; i < count; i++)
        sum += steps[i];
    return sum;
}

static double share_of(double edited, double base)
{
    return base > 0 ? edited / base : 1;
}

bool an_steps_are_alike(const struct an_what_if_state *state)
{
    return state->steps >= MEDIAN_LEAST && state->replay->period == 1;
}

int an_steps_change_alike(const struct an_what_if_state *state, bool evenly, bool *alike)
{
    size_t count = state->steps;
    double *gone = malloc((count + 1) * sizeof *gone), sum = 0;
    if (!gone)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++)
        sum += gone[i] = state->base_ns[i] - state->edited_ns[i];
    double mean = count ? sum / (double)count : 0;
    *alike = an_steps_are_alike(state) &&
             (sum <= 0 || an_quantile_of(gone, count, 0.5) >= MOSTLY * mean);
    if (*alike && evenly)
        *alike = an_quantile_of(gone, count, 0.25) >= (1 - EVENLY) * mean &&
                 an_quantile_of(gone, count, 0.75) <= (1 + EVENLY) * mean;
    free(gone);
    return 0;
}

/* How many neighbouring steps represent a new run: whole periods. */
static size_t run_length(const struct an_replay *replay, size_t count)
{
    size_t periods = (an_segment_length(count) + replay->period - 1) / replay->period;
    return periods * replay->period < count ? periods * replay->period : count;
}

/* The median or the mean of all steps; `work` is for `count` values. */
static double whole_level(const double *steps, size_t count, bool middle, double *work)
{
    return middle ? an_steps_median(work, steps, count) : an_mean(steps, count);
}

int an_what_if_variation(const struct an_what_if_state *state, size_t *length,
                         struct an_interval *interval)
{
    double *room = malloc((2 * state->steps + 1) * sizeof *room);
    bool middle = an_steps_are_alike(state);
    if (!room)
        return TACHO_ENOMEM;
    *length = run_length(state->replay, state->steps);
    *interval = (struct an_interval){.estimate = 1, .low = 1, .high = 1};
    if (state->steps)
        an_segments_interval(state->base_ns, state->steps, *length, middle,
                             whole_level(state->base_ns, state->steps, middle, room), room,
                             interval);
    free(room);
    return 0;
}

double an_what_if_pairs_error(const struct an_interval *variation)
{
    double sd = (variation->high - variation->low) / (2 * AN_Z95);
    return AN_Z90 * sqrt(2.0 / PAIRS) * sd;
}

int an_steps_intervals(const struct an_what_if_state *state, bool middle, bool alike,
                       struct an_interval *out, struct an_interval *other)
{
    const double *edited = state->edited_ns, *base = state->base_ns;
    size_t count = state->steps, block = (size_t)ceil(cbrt((double)count)),
           rounds = count > 2000 ? ROUNDS * 2000 / count : ROUNDS;
    double *room = malloc((2 * ROUNDS + 3 * count + 1) * sizeof *room),
           *drawn_ns = room ? room + 2 * ROUNDS : NULL;
    uint64_t random = SEED;
    if (!room)
        return TACHO_ENOMEM;
    rounds = rounds < ROUNDS / 10 ? ROUNDS / 10 : rounds;
    double *work = drawn_ns + 2 * count, base_level = level_of(base, count, middle, work);
    *out = (struct an_interval){.estimate =
                                    share_of(level_of(edited, count, middle, work), base_level)};
    for (size_t round = 0; round < rounds; round++) {
        for (size_t drawn = 0; drawn < count;) {
            size_t first = (size_t)(an_random(&random) % count);
            for (size_t i = 0; i < block && drawn < count; i++, drawn++) {
                drawn_ns[drawn] = edited[(first + i) % count];
                drawn_ns[count + drawn] = base[(first + i) % count];
            }
        }
        double level = level_of(drawn_ns, count, middle, work);
        room[round] = share_of(level, level_of(drawn_ns + count, count, middle, work));
        room[ROUNDS + round] = share_of(level, base_level);
    }
    an_sort(room, rounds);
    an_sort(room + ROUNDS, rounds);
    out->low = an_quantile(room, rounds, 0.025);
    out->high = an_quantile(room, rounds, 0.975);
    *other = (struct an_interval){.estimate = out->estimate,
                                  .low = an_quantile(room + ROUNDS, rounds, 0.025),
                                  .high = an_quantile(room + ROUNDS, rounds, 0.975)};
    if (alike) { /* what others do differs from step to step */
        out->low = fmin(out->low, other->low);
        out->high = fmax(out->high, other->high);
    }
    struct an_interval long_run;
    an_segments_interval(edited, count, run_length(state->replay, count), middle,
                         whole_level(base, count, middle, drawn_ns), drawn_ns, &long_run);
    other->low = fmin(other->low, long_run.low);
    other->high = fmax(other->high, long_run.high);
    free(room);
    return 0;
}
