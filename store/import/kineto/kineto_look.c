/* SPDX-License-Identifier: Apache-2.0
 *
 * A first look at a trace in another dialect: the names of its processes and threads, which may
 * come after the events that need them.
 */
#include "store/import/kineto/kineto_look.h"
#include "store/import/input/input.h"
#include "store/import/kineto/kineto_frame.h"

struct looking {
    struct imp_run *run;
    kj_parser *json;
    const struct kineto_dialect *dialect;
};

/* Passes names of processes and threads to the dialect. */
static int on_event(void *ctx, const struct kj_event *event)
{
    const struct kineto_dialect *dialect = ((const struct looking *)ctx)->dialect;
    return kineto_equals(event->field[KJ_PH], "M") ? dialect->look(dialect->ctx, event) : 0;
}

static int on_window(void *ctx, const char *text, size_t bytes)
{
    struct looking *looking = ctx;
    size_t count;
    int status = imp_progress(looking->run, 0);
    if (!status && kj_events(looking->json, text, bytes, on_event, looking, &count) == KJ_STOPPED)
        status = TACHO_ENOMEM;
    return status; /* what is damaged is counted when it is read */
}

static int on_meta(void *ctx, struct kj_span key, struct kj_span value)
{
    (void)ctx;
    (void)key;
    (void)value;
    return 0;
}

/* Reads one file. */
static int look_at(struct looking *looking, const char *path, struct tacho_error *err)
{
    const struct kineto_frame_sink sink = {.events = on_window, .meta = on_meta, .ctx = looking};
    struct kineto_frame_result frame;
    struct imp_input *in = NULL;
    int status = imp_input_open(path, &in, err);
    if (!status)
        status = kineto_frame_read(in, &sink, &frame, err);
    imp_input_close(in);
    return status;
}

int kineto_look_ahead(struct imp_run *run, kj_parser *json, const char *path,
                      const struct kineto_dialect *dialect, struct tacho_error *err)
{
    struct looking looking = {run, json, dialect};
    int status = look_at(&looking, path, err);
    for (size_t i = 0; !status && i < run->pieces; i++)
        status = look_at(&looking, run->piece[i], err);
    return status;
}
