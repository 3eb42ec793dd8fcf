/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: the frame of a Kineto file. Cuts the stream into windows of whole
 * events, and hands out the other pairs of the outer object, before or after the list of events:
 * {"schemaVersion":..., "traceEvents":[...], "baseTimeNanoseconds":...} or a bare list. Only
 * quotes, brackets and braces are looked at, so what is between them may be anything.
 */
#ifndef STORE_IMPORT_KINETO_FRAME_H
#define STORE_IMPORT_KINETO_FRAME_H

#include "store/import/input/input.h"
#include "store/import/kineto/kineto_json.h"

/* A window is given to the parser when it has this many bytes: it stays in the cache of a core. One
 * event may take up to STORE_IMPORT_WINDOW. */
#ifndef KINETO_FRAME_WINDOW /* the fuzz targets have smaller ones, to meet their ends */
#define KINETO_FRAME_WINDOW (1u << 20)
#endif

struct kineto_frame_sink {
    /* text[0..n) is a JSON list of whole events; KJ_PADDING readable bytes follow. Non-zero stops.
     */
    int (*events)(void *ctx, const char *text, size_t n);
    /* text[0..n) is a piece of the list in which no end of an event was found: one that is too
     * large, or that lacks a brace. Whole events may still lie in it. Non-zero stops. May be NULL.
     */
    int (*damaged)(void *ctx, const char *text, size_t n);
    /* A pair of the outer object other than the events. Non-zero stops. */
    int (*meta)(void *ctx, struct kj_span key, struct kj_span value);
    void *ctx;
};

struct kineto_frame_result {
    bool truncated;     /* the file ended inside of the trace */
    bool partial_event; /* ... inside of an event, which is lost */
    int64_t too_large;  /* events and values larger than a window: skipped */
    bool more_behind;   /* there is text after the end of the trace, which was not read */
    int64_t bytes;      /* of JSON */
    bool is_trace;      /* it began as a trace does */
};

/* Reads `in` to its end. Returns 0, the non-zero value of a callback, TACHO_EIO or TACHO_ENOMEM. */
int kineto_frame_read(struct imp_input *in, const struct kineto_frame_sink *sink,
                      struct kineto_frame_result *frame_result, struct tacho_error *err);

/* Calls `event` with each element of the list text[0..n) (as `events` gets it), found by the braces
 * alone. Non-zero stops. */
int kineto_frame_split(const char *text, size_t bytes, int (*event)(void *ctx, struct kj_span text),
                       void *ctx);

/* Calls `event` with what may be an event in a damaged text: a balanced object that begins with a
 * key of an event. It says whether it was one (1), and the search goes on after it, or not (0);
 * negative stops. Gives up after many that were not. */
int kineto_frame_search(const char *text, size_t bytes,
                        int (*event)(void *ctx, struct kj_span text), void *ctx);

#endif
