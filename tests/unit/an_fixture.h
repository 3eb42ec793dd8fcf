/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_an_*.c and test_rep_*.c: builds a run through store's writer and analyses it. Times in
 * these tests are ns from 1 s on.
 */
#ifndef AN_FIXTURE_H
#define AN_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzers/analyzers.h"
#include "store/store.h"

#define FX_BASE 1000000000ll
#define FX_NONE STORE_ABSENT

struct fixture {
    char folder[512], path[560];
    store *s;
    store_reader *reader;
    struct an_result *r;
    int64_t process, thread; /* made by fx_open: rank absent, track "main" */
};

#define FX(call) \
    do { \
        int fx_rc = (call); \
        if (fx_rc) \
            fail_msg("%s: %d %s", #call, fx_rc, f->s ? store_error(f->s)->what : ""); \
    } while (0)

static inline int64_t fx_process(struct fixture *f, int64_t rank, const char *program)
{
    struct store_process p = {.rank = rank,
                              .pid = 100 + (rank == FX_NONE ? 0 : rank),
                              .parent_pid = 1,
                              .start = FX_BASE,
                              .end = FX_NONE,
                              .exit_status = 0,
                              .host = "host",
                              .device = "cpu",
                              .program = program,
                              .ended = "exit"};
    FX(store_process_add(f->s, &p));
    return p.id;
}

static inline int64_t fx_track(struct fixture *f, int64_t process, const char *kind,
                               const char *name, const char *unit)
{
    struct store_track t = {
        .process = process, .tid = FX_NONE, .kind = kind, .name = name, .unit = unit};
    FX(store_track_add(f->s, &t));
    return t.id;
}

static inline void fx_open(struct fixture *f)
{
    struct tacho_error err = {0};
    memset(f, 0, sizeof *f);
    const char *temporary = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%s/tacho-an-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/run.db", f->folder);
    if (store_create(f->path, &f->s, &err))
        fail_msg("%s", err.what);
    FX(store_begin(f->s));
    f->process = fx_process(f, FX_NONE, "train");
    f->thread = fx_track(f, f->process, "thread", "main", NULL);
}

static inline int64_t fx_string(struct fixture *f, const char *text)
{
    int64_t id = 0;
    FX(store_string(f->s, text, strlen(text), &id));
    return id;
}

static inline struct store_detail fx_empty(void)
{
    return (struct store_detail){.flops = FX_NONE,
                                 .bytes_read = FX_NONE,
                                 .bytes_written = FX_NONE,
                                 .model_flops = FX_NONE,
                                 .palm_flops = FX_NONE,
                                 .bytes = FX_NONE,
                                 .samples = FX_NONE,
                                 .communicator = FX_NONE,
                                 .ranks = FX_NONE};
}

static inline int64_t fx_intern(struct fixture *f, const struct store_detail *d)
{
    int64_t id = 0;
    FX(store_detail_intern(f->s, d, &id));
    return id;
}

/* tacho.range of a kind ("input_wait" ...). */
static inline int64_t fx_kind(struct fixture *f, const char *kind)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.range";
    d.kind = kind;
    return fx_intern(f, &d);
}

static inline int64_t fx_schema(struct fixture *f, const char *schema)
{
    struct store_detail d = fx_empty();
    d.schema = schema;
    return fx_intern(f, &d);
}

static inline int64_t fx_work(struct fixture *f, const char *kind, const char *dtype, int64_t flops,
                              int64_t model, int64_t palm)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.work";
    d.kind = kind;
    d.dtype = dtype;
    d.pass = "forward";
    d.flops = flops;
    d.model_flops = model;
    d.palm_flops = palm;
    d.bytes_read = 1000;
    d.bytes_written = 500;
    return fx_intern(f, &d);
}

/* A range [start, end) relative to FX_BASE on a track; end FX_NONE: without an end. */
static inline void fx_slice(struct fixture *f, int64_t track, int64_t start, int64_t end,
                            const char *name, int64_t detail)
{
    struct store_slice x = {.track = track,
                            .start = FX_BASE + start,
                            .dur = end == FX_NONE ? FX_NONE : end - start,
                            .name = name ? fx_string(f, name) : FX_NONE,
                            .category = fx_string(f, "test"),
                            .detail = detail,
                            .correlation = FX_NONE};
    FX(store_slice_add(f->s, &x));
}

/* A tacho.step: row and range. */
static inline void fx_step(struct fixture *f, int64_t process, int64_t track, int64_t index,
                           int64_t start, int64_t end, int64_t tokens, bool paused)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.step";
    d.flags = paused ? STORE_DETAIL_PAUSED : 0;
    fx_slice(f, track, start, end, "step", fx_intern(f, &d));
    struct store_step x = {.process = process,
                           .index = index,
                           .start = FX_BASE + start,
                           .end = end == FX_NONE ? FX_NONE : FX_BASE + end,
                           .tokens = tokens,
                           .samples = tokens == FX_NONE ? FX_NONE : tokens / 4,
                           .paused = paused};
    FX(store_step_add(f->s, &x));
}

static inline void fx_counter(struct fixture *f, int64_t track, int64_t time, double value)
{
    struct store_counter c = {.track = track, .time = FX_BASE + time, .value = value};
    FX(store_counter_add(f->s, &c));
}

static inline void fx_peak(struct fixture *f, const char *dtype, double value, const char *source)
{
    struct store_ceiling c = {
        .device = "cpu", .resource = "flops", .dtype = dtype, .source = source, .value = value};
    FX(store_ceiling_add(f->s, &c));
}

static inline struct an_result *fx_analyze_with(struct fixture *f, const struct an_options *o)
{
    struct tacho_error err = {0};
    if (f->s) {
        FX(store_commit(f->s));
        store_close(f->s);
        f->s = NULL;
        if (store_open(f->path, &f->reader, &err))
            fail_msg("%s", err.what);
    }
    an_result_free(f->r);
    if (an_analyze(f->reader, o, &f->r, &err))
        fail_msg("%s", err.what);
    return f->r;
}

static inline struct an_result *fx_analyze(struct fixture *f)
{
    struct an_options o = {.file = "run.tacho"};
    return fx_analyze_with(f, &o);
}

static inline void fx_close(struct fixture *f)
{
    char name[600];
    static const char *const files[] = {"run.db", "run.db-wal", "run.db-shm", "out"};
    an_result_free(f->r);
    store_reader_close(f->reader);
    store_close(f->s);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", f->folder, files[i]);
        unlink(name);
    }
    rmdir(f->folder);
}

/* |a - b| <= within, with both values in the message. */
#define assert_near(a, b, within) \
    do { \
        double near_a = (a), near_b = (b); \
        if (!(fabs(near_a - near_b) <= (within))) \
            fail_msg("%s:%d: %s is %.17g, not %.17g", __FILE__, __LINE__, #a, near_a, near_b); \
    } while (0)

#endif
