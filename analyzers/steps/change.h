/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: a change of how a run is started, for the commands that a
 * report prints and for `tacho verify`, which starts them.
 *
 * In text: options ("--batch 16 --accumulate 1"), a flag that goes ("without --pin"), variables of
 * the environment ("OMP_NUM_THREADS=2"). Parsed: a JSON list of [NAME, VALUE]. A NAME that begins
 * with '-' is an option, any other one a variable. A VALUE is a text, true (an option without a
 * value) or null (it goes).
 */
#ifndef ANALYZERS_CHANGE_H
#define ANALYZERS_CHANGE_H

#include <stdbool.h>

#include <jansson.h>

/* The change that a text describes; the caller's. NULL: it describes none, or no memory. */
json_t *an_change_parse(const char *text);
/* The words of a command (a JSON list of texts) after the change (NULL: as they are): an option
 * takes the place of the recorded one, or comes last; further repeats are left out. The caller's;
 * NULL: no memory. */
json_t *an_change_words(const json_t *words, const json_t *change);
/* The variables that decide how the program runs, after the change: of a recorded environment (a
 * JSON object; NULL: none) those of a list of settings (threads, devices, libraries), not those
 * that describe a place in a job. The caller's; NULL: no memory. */
json_t *an_change_variables(const json_t *environment, const json_t *change);
/* Is a variable of the environment on that list? */
bool an_change_is_setting(const char *variable);
/* The words before `tacho run` which start it on each rank, where the recorded command is that of
 * one rank of a job of `launcher` with `ranks` ranks (keys job.launcher and job.ranks of a run,
 * NULL where it has none); the number of ranks follows them. Static storage, ends with NULL. NULL:
 * no launcher is needed. */
const char *const *an_change_launcher(const char *launcher, const char *ranks);

#endif
