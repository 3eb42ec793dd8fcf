/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: JSON of Kineto traces, by simdjson, with a C interface. kineto_json.cpp
 * is the only C++ of tacho.
 *
 * Values are handed out as spans of the text that was given, not converted: a time stamp keeps
 * every digit, a list is one span, NaN is a span too. A span of a string begins and ends with its
 * quotes. Spans live as long as the text. Duplicate keys: the last one counts, as in Python's json.
 */
#ifndef STORE_IMPORT_KINETO_JSON_H
#define STORE_IMPORT_KINETO_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "store/import/kineto/kineto_args.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KJ_PADDING  64 /* readable bytes that must follow a text given to these functions */
#define KJ_ARGS_MAX 128

struct kj_span {
    const char *text; /* NULL: absent */
    size_t bytes;
};

/* keys of an event that mean something; others are not kept */
#define KJ_FIELD_MAP(X) \
    X(PH, "ph") \
    X(CAT, "cat") \
    X(NAME, "name") \
    X(PID, "pid") \
    X(TID, "tid") \
    X(TS, "ts") \
    X(DUR, "dur") \
    X(ID, "id")

enum kj_field {
#define KJ_FIELD_ENUM(name, text) KJ_##name,
    KJ_FIELD_MAP(KJ_FIELD_ENUM)
#undef KJ_FIELD_ENUM
        KJ_FIELD_COUNT
};

struct kj_arg {
    struct kj_span key, value; /* key without quotes, escapes as in the text */
    enum kineto_arg id;        /* KINETO_ARG_OTHER: none of the table */
};

struct kj_event {
    struct kj_span field[KJ_FIELD_COUNT];
    struct kj_arg *arg;
    size_t arg_count;
    bool args_cut; /* there were more than KJ_ARGS_MAX */
};

typedef struct kj_parser kj_parser;

kj_parser *kj_new(void); /* NULL: out of memory */
void kj_free(kj_parser *k);

enum kj_result {
    KJ_OK,
    KJ_STOPPED, /* the callback returned non-zero */
    KJ_SHAPE,   /* not JSON, or not a list of objects */
    KJ_TEXT,    /* invalid UTF-8 or a control character in a string, somewhere in the text */
    KJ_NOMEM,
};

/* Calls `event` for each object of the list text[0..n). *count: whole events handed out, also after
 * a failure (the callback is called for an event only after all of it was read). */
enum kj_result kj_events(kj_parser *k, const char *text, size_t n,
                         int (*event)(void *ctx, const struct kj_event *e), void *ctx,
                         size_t *count);
/* Calls `row` for each pair of an object, or with an empty key for each element of a list.
 * KJ_PADDING readable bytes follow `value`. */
enum kj_result kj_each(struct kj_span value,
                       int (*row)(void *ctx, struct kj_span key, struct kj_span value), void *ctx);

#ifdef __cplusplus
}
#endif

#endif
