/* SPDX-License-Identifier: Apache-2.0
 *
 * Order statistics, exact sums for spreads, and a bootstrap interval. All random numbers come from
 * splitmix64 with a fixed seed, so that the same input gives the same output.
 */
#include "analyzers/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/interval.h"
#include "tacho_error.h"

#define BOOTSTRAP_ROUNDS 2000

static int double_order(const void *first, const void *second)
{
    double left = *(const double *)first, right = *(const double *)second;
    return AN_COMPARE(left, right);
}

/* ---- sorting: many numbers by their digits ------------------------------------------------------ */

#define DIGITS_LEAST 4096 /* numbers; fewer are sorted as quickly by comparing them */
#define DIGIT_BITS   11
#define DIGIT_COUNT  (1u << DIGIT_BITS)

/* A number whose order as an integer is that of the value. */
static uint64_t ordered_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

/* Moves the values into the order of one digit, those of equal digits in the order they had. False:
 * they all have the same digit there, and nothing was moved. */
static bool order_by_digit(const double *from, double *to, size_t count, unsigned shift)
{
    size_t place[DIGIT_COUNT] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        place[ordered_bits(from[i]) >> shift & (DIGIT_COUNT - 1)]++;
    if (place[ordered_bits(from[0]) >> shift & (DIGIT_COUNT - 1)] == count)
        return false;
    for (size_t digit = 0; digit < DIGIT_COUNT; digit++) {
        size_t of_digit = place[digit];
        place[digit] = sum;
        sum += of_digit;
    }
    for (size_t i = 0; i < count; i++)
        to[place[ordered_bits(from[i]) >> shift & (DIGIT_COUNT - 1)]++] = from[i];
    return true;
}

void an_sort(double *values, size_t count)
{
    double *work = count >= DIGITS_LEAST ? malloc(count * sizeof *work) : NULL, *from = values,
           *to = work;
    if (!work) {
        if (count > 1)
            qsort(values, count, sizeof *values, double_order);
        return;
    }
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS)
        if (order_by_digit(from, to, count, shift)) {
            double *ordered = to;
            to = from;
            from = ordered;
        }
    if (from != values)
        memcpy(values, from, count * sizeof *values);
    free(work);
}

int an_number_order(const void *left, const void *right)
{
    int64_t first = *(const int64_t *)left, second = *(const int64_t *)right;
    return (first > second) - (first < second);
}

size_t an_distinct(int64_t *numbers, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(numbers, count, sizeof *numbers, an_number_order);
    for (size_t i = 0; i < count; i++)
        if (!i || numbers[i] != numbers[kept - 1])
            numbers[kept++] = numbers[i];
    return kept;
}

double an_quantile(const double *sorted, size_t count, double quantile)
{
    if (!count)
        return NAN;
    double place = quantile * (double)(count - 1);
    size_t low = (size_t)place;
    if (low + 1 >= count)
        return sorted[count - 1];
    return sorted[low] + (place - (double)low) * (sorted[low + 1] - sorted[low]);
}

double an_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : NAN;
}

double an_sd(const double *values, size_t count)
{
    if (count < 2)
        return NAN;
    double mean = an_mean(values, count), sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / (double)(count - 1));
}

double an_known_mean(double first, double first_weight, double second, double second_weight)
{
    if (isnan(first))
        return second;
    if (isnan(second))
        return first;
    return (first * first_weight + second * second_weight) / (first_weight + second_weight);
}

size_t an_halve_points(double *place, double *value, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i += 2, kept++) {
        bool two = i + 1 < count;
        place[kept] = two ? (place[i] + place[i + 1]) / 2 : place[i];
        value[kept] = two ? an_known_mean(value[i], 1, value[i + 1], 1) : value[i];
    }
    return kept;
}

double an_mad(const double *values, size_t count, double centre, double *work)
{
    for (size_t i = 0; i < count; i++)
        work[i] = fabs(values[i] - centre);
    an_sort(work, count);
    return an_quantile(work, count, 0.5);
}

uint64_t an_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* Moves the value that sorting would put at index `place` there, smaller values before it and
 * larger ones after it (Hoare's FIND). Pivots are random, so that no order of the input is slow. */
static void select_at(double *values, size_t count, size_t place)
{
    uint64_t state = count;
    ptrdiff_t low = 0, high = (ptrdiff_t)count - 1, wanted = (ptrdiff_t)place;
    while (low < high) {
        double pivot = values[low + (ptrdiff_t)(an_random(&state) % (uint64_t)(high - low + 1))];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                double swap = values[i];
                values[i++] = values[j];
                values[j--] = swap;
            }
        }
        if (j < wanted)
            low = i;
        if (i > wanted)
            high = j;
    }
}

double an_quantile_of(double *values, size_t count, double quantile)
{
    if (!count)
        return NAN;
    double place = quantile * (double)(count - 1), next = INFINITY;
    size_t low = (size_t)place;
    select_at(values, count, low);
    if (low + 1 >= count)
        return values[low];
    for (size_t i = low + 1; i < count; i++)
        next = values[i] < next ? values[i] : next;
    return values[low] + (place - (double)low) * (next - values[low]);
}

void an_tally_add(struct an_tally *tally, int64_t value)
{
    unsigned __int128 size = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
    tally->min = !tally->count || value < tally->min ? value : tally->min;
    tally->max = !tally->count || value > tally->max ? value : tally->max;
    tally->count++;
    tally->inexact |= __builtin_add_overflow(tally->sum, value, &tally->sum);
    tally->inexact |= __builtin_add_overflow(tally->squares, size * size, &tally->squares);
}

/* The variance is (sum of squares - sum^2 / n) / (n - 1). In floating point the difference would
 * cancel; here both terms are integers, and sum^2 / n is split into its whole part and its
 * remainder. */
double an_tally_sd(const struct an_tally *tally)
{
    if (tally->count < 2 || tally->inexact)
        return NAN;
    /* sum of squares - sum^2 / n, the quotient split into its whole part and the rest, so that
     * nothing cancels */
    unsigned __int128 count = (unsigned __int128)tally->count;
    unsigned __int128 sum =
        tally->sum < 0 ? -(unsigned __int128)tally->sum : (unsigned __int128)tally->sum;
    unsigned __int128 square = sum * sum;
    long double spread = (long double)(tally->squares - square / count) -
                         (long double)(square % count) / (long double)count;
    return (double)sqrtl(spread > 0 ? spread / (long double)(tally->count - 1) : 0);
}

/* A number between 0 and 1, neither of them. */
static double random_share(uint64_t *state)
{
    return ((double)(an_random(state) >> 11) + 0.5) * 0x1p-53;
}

/* Draws from a gamma distribution of this shape, 1 or more (Marsaglia & Tsang 2000). */
static double random_gamma(double shape, uint64_t *state)
{
    for (double d = shape - 1.0 / 3;;) {
        double length = sqrt(-2 * log(random_share(state))); /* Box & Muller 1958 */
        double normal = length * cos(2 * acos(-1) * random_share(state));
        double root = 1 + normal / sqrt(9 * d), cube = root * root * root;
        if (root > 0 &&
            log(random_share(state)) < normal * normal / 2 + d - d * cube + d * log(cube))
            return d * cube;
    }
}

static double value_at(const double *sorted, size_t count, double share)
{
    size_t index = (size_t)(share * (double)count);
    return sorted[index < count ? index : count - 1];
}

/* Returns the median of a resample of a sorted sample without making the resample: that draws
 * `count` places in the sample by chance, and of these uniform numbers only the middle one, or the
 * middle two, matter. The k-th smallest of n has a beta distribution, the ratio of two gammas; the
 * one after it is the smallest of the n - k between it and 1. */
static double resampled_median(const double *sorted, size_t count, uint64_t *state)
{
    size_t rank = (count + 1) / 2;
    double below = random_gamma((double)rank, state);
    double place = below / (below + random_gamma((double)(count - rank + 1), state));
    double low = value_at(sorted, count, place);
    if (count % 2)
        return low;
    place = 1 - (1 - place) * pow(random_share(state), 1 / (double)(count - rank));
    return (low + value_at(sorted, count, place)) / 2;
}

int an_bootstrap_ratio(double *candidate, size_t candidate_count, double *baseline,
                       size_t baseline_count, uint64_t seed, struct an_interval *out)
{
    double *rounds = malloc(BOOTSTRAP_ROUNDS * sizeof *rounds);
    if (!rounds)
        return TACHO_ENOMEM;
    an_sort(candidate, candidate_count);
    an_sort(baseline, baseline_count);
    out->estimate = 100 * (an_quantile(candidate, candidate_count, 0.5) /
                               an_quantile(baseline, baseline_count, 0.5) -
                           1);
    for (size_t i = 0; i < BOOTSTRAP_ROUNDS; i++) {
        double top = resampled_median(candidate, candidate_count, &seed),
               bottom = resampled_median(baseline, baseline_count, &seed);
        rounds[i] = 100 * (top / bottom - 1);
    }
    an_sort(rounds, BOOTSTRAP_ROUNDS);
    out->low = an_quantile(rounds, BOOTSTRAP_ROUNDS, 0.025);
    out->high = an_quantile(rounds, BOOTSTRAP_ROUNDS, 0.975);
    free(rounds);
    return 0;
}

/* Puts a value in the place of another in a sorted list that has the other. */
static void replace_sorted(double *sorted, size_t count, double old, double new)
{
    size_t place = 0;
    for (size_t end = count; place < end;) {
        size_t middle = place + (end - place) / 2;
        if (sorted[middle] < old)
            place = middle + 1;
        else
            end = middle;
    }
    for (; place + 1 < count && sorted[place + 1] < new; place++)
        sorted[place] = sorted[place + 1];
    for (; place > 0 && sorted[place - 1] > new; place--)
        sorted[place] = sorted[place - 1];
    sorted[place] = new;
}

size_t an_segment_length(size_t count)
{
    return (size_t)ceil(sqrt((double)count));
}

void an_segments_interval(const double *values, size_t count, size_t length, bool middle,
                          double whole, double *room, struct an_interval *interval)
{
    double *share = room, *work = room + count;
    size_t segments = count - length + 1;
    memcpy(work, values, length * sizeof *work);
    an_sort(work, length);
    for (size_t i = 0; i < segments; i++) {
        if (middle && i)
            replace_sorted(work, length, values[i - 1], values[i + length - 1]);
        double level = middle ? an_quantile(work, length, 0.5) : an_mean(values + i, length);
        share[i] = whole > 0 ? level / whole : 1;
    }
    an_sort(share, segments);
    *interval = (struct an_interval){.estimate = 1,
                                     .low = an_quantile(share, segments, 0.025),
                                     .high = an_quantile(share, segments, 0.975)};
}

double an_quantile_of_tail(double (*tail)(double t, double freedom), double p, double freedom)
{
    double low = 0, high = 1e6;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        *(tail(middle, freedom) > p ? &low : &high) = middle;
    }
    return high;
}

double an_student_tail(double t, double freedom)
{
    int n = (int)freedom;
    double angle = atan(t / sqrt(n)), c = cos(angle), term = n % 2 ? c : 1;
    double sum = n == 1 ? 0 : term;
    for (int k = n % 2 ? 3 : 2; k < n; k += 2) {
        term *= c * c * (double)(k - 1) / (double)k;
        sum += term;
    }
    double inside = n % 2 ? 2 / M_PI * (angle + sin(angle) * sum) : sin(angle) * sum;
    return (1 - inside) / 2;
}
