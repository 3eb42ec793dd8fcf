/* SPDX-License-Identifier: Apache-2.0
 *
 * Small choices that sentences and cells are made with. The reports and the dashboard share them.
 */
#ifndef REPORTS_PHRASE_H
#define REPORTS_PHRASE_H

/* The text, or `otherwise` where there is none (NULL or ""). */
static inline const char *rep_or(const char *text, const char *otherwise)
{
    return text && *text ? text : otherwise;
}

/* "step" for 1, else "steps". */
#define REP_PLURAL(count, one, many) ((count) == 1 ? (one) : (many))

#endif
