/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of store/import/kineto/: the importer of traces of torch.profiler, and its reader for
 * other programs that write events in the form of Chrome's traces.
 */
#ifndef STORE_IMPORT_KINETO_KINETO_IMPORT_H
#define STORE_IMPORT_KINETO_KINETO_IMPORT_H

#include "store/import/input/importer.h"
#include "store/import/kineto/kineto_json.h"

extern const struct importer imp_kineto;

struct imp_input;

/* Takes one event; what it points to may go afterwards. Non-zero stops. */
typedef int kineto_emit(void *to, const struct kj_event *event);

/* What another program says in the same form of events, as Kineto would have said it. Callbacks get
 * `ctx`; `look` and `translate` are called by the thread that parses. */
struct kineto_dialect {
    /* Called for each event of phase M of the whole file before `translate` is called for any
     * event: it learns which process and thread is what. Non-zero stops. */
    int (*look)(void *ctx, const struct kj_event *event);
    /* Of a file that is not JSON: reads all of it and hands its events to `emit`. Returns 0, what
     * `emit` returned, or an error with its words. `look` and `translate` are NULL then. */
    int (*source)(void *ctx, struct imp_input *in, kineto_emit *emit, void *to, bool *truncated,
                  struct tacho_error *err);
    /* The rank that the file names, after its last event; NULL: as Kineto says it. */
    int64_t (*rank)(void *ctx);
    /* Rewrites an event: its category, and arguments that say device, stream and correlation. What
     * it puts in stays valid until the next call. False: the event is left out. */
    bool (*translate)(void *ctx, struct kj_event *event);
    /* After the last row; `process` is the main one. May be NULL. */
    int (*finish)(void *ctx, struct imp_run *run, int64_t process);
    void *ctx;
};

/* Reads a whole file; this is `read` of an importer with such a dialect. */
int kineto_read_as(struct imp_run *run, const char *path, const struct kineto_dialect *dialect,
                   struct tacho_error *err);

#endif
