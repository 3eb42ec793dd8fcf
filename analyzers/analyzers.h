/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: from a file to a result. Renderers and the dashboard read
 * the result (result.h), they never see the file.
 *
 *     struct an_options o = {.file = "run.tacho"};
 *     struct an_result *r;
 *     rc = an_analyze(reader, &o, &r, &err);
 *     ...
 *     an_result_free(r);
 *
 * What a run does not hold makes the result that needs it absent with the reason; it is not an
 * error. Errors are: out of memory, and a file that cannot be read (0 or a negative TACHO_E* code).
 * A live file may be analysed: the result describes what was committed when each table was read.
 */
#ifndef ANALYZERS_ANALYZERS_H
#define ANALYZERS_ANALYZERS_H

#include "analyzers/result/options.h"
#include "analyzers/result/result.h"
#include "store/store.h"
#include "tacho_error.h"

/* Loads the run and runs every analyzer. `o` may be NULL. *out is NULL on error. */
int an_analyze(store_reader *reader, const struct an_options *options, struct an_result **out,
               struct tacho_error *err);

/* An analysis by a child process, whose memory is gone when it ends:
 *
 *     struct an_room *room = an_room_new(bytes);
 *     if (fork() == 0) {
 *         an_room_fill(room, path, &options);
 *         _exit(0);
 *     }
 *     ... when it has ended ...
 *     rc = an_room_take(room, &result, &err);
 *
 * `bytes` is the most that the result may take, texts and arrays; pages count when they are used.
 * an_room_take() passes the room to the result, which an_result_free() frees as any other one;
 * after an error of the analysis, or where the child did not end it, it frees the room and returns
 * the code. */
struct an_room *an_room_new(size_t bytes); /* NULL: there is no memory for it */
void an_room_fill(struct an_room *room, const char *path, const struct an_options *options);
int an_room_take(struct an_room *room, struct an_result **out, struct tacho_error *err);
void an_room_free(struct an_room *room); /* before it was taken; NULL is fine */

/* The analyzers, in the order they run: for `tacho help analyzers` and docs. Static storage, ends
 * with name NULL. */
struct an_listing {
    const char *name, *help;
};
const struct an_listing *an_list(void);

#endif
