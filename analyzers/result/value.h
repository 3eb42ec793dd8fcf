/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the result (result.h): a number that is known, or the reason why it is not.
 */
#ifndef ANALYZERS_VALUE_H
#define ANALYZERS_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* A measured or derived number. valid: value counts. Else reason says why it is absent (never NULL
 * then). */
struct an_value {
    double value;
    const char *reason;
    bool valid;
};

/* The same for what is an integer by nature (FLOPs, bytes, counts, ns): exact. */
struct an_count {
    int64_t value;
    const char *reason;
    bool valid;
};

static inline struct an_value an_num(double v)
{
    return (struct an_value){.value = v, .valid = true};
}
static inline struct an_value an_num_none(const char *reason)
{
    return (struct an_value){.reason = reason};
}
static inline struct an_count an_int(int64_t v)
{
    return (struct an_count){.value = v, .valid = true};
}
static inline struct an_count an_int_none(const char *reason)
{
    return (struct an_count){.reason = reason};
}
/* A number where it is known, else absent for that reason. */
static inline struct an_value an_num_if(bool known, double value, const char *reason)
{
    return known ? an_num(value) : an_num_none(reason);
}
/* For sums, in which what is not known counts as nothing. */
static inline double an_value_or_0(struct an_value value)
{
    return value.valid ? value.value : 0;
}
static inline double an_count_or_0(struct an_count count)
{
    return count.valid ? (double)count.value : 0;
}

#endif
