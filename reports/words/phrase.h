/* SPDX-License-Identifier: Apache-2.0
 *
 * Small choices that sentences and cells are made with. The reports and the dashboard share them.
 */
#ifndef REPORTS_PHRASE_H
#define REPORTS_PHRASE_H

#include <string.h>

/* The text, or `otherwise` if there is no text (NULL or ""). */
static inline const char *rep_or(const char *text, const char *otherwise)
{
    return text && *text ? text : otherwise;
}

/* A cause of time as people read it; `key` is its name in JSON. */
static inline const char *rep_cause_name(const char *key)
{
    return strcmp(key, "think") ? key : "untraced host";
}

/* What GPU time is attributed to, as people read it; `by` is its name in JSON. */
static inline const char *rep_by_name(const char *by)
{
    return !by || !*by || !strcmp(by, "op") ? "operator" : by;
}

/* "step" for 1, else "steps". */
#define REP_PLURAL(count, one, many) ((count) == 1 ? (one) : (many))

#endif
