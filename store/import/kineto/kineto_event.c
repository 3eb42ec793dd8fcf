/* SPDX-License-Identifier: Apache-2.0
 *
 * One event of a Kineto trace becomes rows.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto.h"

#define BASE_TYPICAL INT64_C(1750000000000000000) /* the year 2025 */
#define OPEN_MAX     (1u << 20)                   /* begin events that may wait for their end */

/* ---- times ------------------------------------------------------------------------------------------------------------- */

static bool time_of(struct kineto *k, struct kj_span s, int64_t *ns, int *finest)
{
    int decimals = 0;
    bool rounded = false;
    if (!k->unit) { /* us since 1970 are 1.7e15 today: whole numbers a hundred times as large are ns
                     */
        int64_t v;
        k->unit = kineto_int(s, &v) && v > INT64_C(100000000000000000) ? 1 : 1000;
    }
    if (!kineto_time(s, k->unit, ns, &decimals, &rounded))
        return false;
    if (finest && decimals > *finest)
        *finest = decimals;
    k->rounded += rounded;
    return true;
}

/* ts as it is stored. Where the base of the times may still come, one that is about right is added:
 * rows then do not grow when the true one replaces it. */
static bool start_of(struct kineto *k, const struct kj_event *e, int64_t *start)
{
    if (!time_of(k, e->field[KJ_TS], start, &k->decimals))
        return false;
    if (!k->base_guessed && k->base_known)
        k->base = k->base_final;
    else if (!k->base_guessed && *start < BASE_TYPICAL / 4)
        k->base = BASE_TYPICAL;
    k->base_guessed = true;
    k->ts_min = *start < k->ts_min ? *start : k->ts_min;
    k->ts_max = *start > k->ts_max ? *start : k->ts_max;
    return !__builtin_add_overflow(*start, k->base, start) && *start != STORE_ABSENT;
}

/* ---- slices ------------------------------------------------------------------------------------------------------------ */

static bool starts(struct kj_span s, const char *with)
{
    size_t n = strlen(with);
    s = kineto_inside(s);
    return s.p && s.n >= n && !memcmp(s.p, with, n);
}

/* Versions before 2022 recorded these as operators too. */
static bool is_legacy_annotation(struct kj_span name)
{
    return starts(name, "ProfilerStep#") || starts(name, "enumerate(DataLoader)#") ||
           starts(name, "enumerate(DataPipe)#") || starts(name, "Optimizer.");
}

static const struct kineto_category_memo *category_of(struct kineto *k, struct kj_span cat)
{
    cat = kineto_inside(cat);
    size_t at =
        cat.p && cat.n
            ? (cat.n * 7 + (unsigned char)cat.p[0] + 3u * (unsigned char)cat.p[cat.n - 1]) % 63 + 1
            : 0;
    struct kineto_category_memo *m = &k->category[at];
    if (m->n == (cat.p ? cat.n : 0) && m->name != KINETO_NONE &&
        (!m->n || !memcmp(m->text, cat.p, m->n)))
        return m;
    m->class = kineto_category_find(cat);
    const char *name = kineto_class_name(m->class);
    m->n = SIZE_MAX;
    if (name) {
        m->name = kineto_string_number(k, name, strlen(name));
    } else if (!cat.p || !cat.n || kineto_equals(cat, "Trace")) {
        m->name = kineto_string_number(k, "trace", 5);
    } else if (kineto_category_reserved(cat)) {
        k->scratch.n = 0;
        kineto_text_puts(&k->scratch, "kineto:");
        kineto_text_put(&k->scratch, cat.p, cat.n);
        m->name = kineto_string_number(k, k->scratch.p, k->scratch.n);
    } else {
        m->name = kineto_string_number(k, cat.p, cat.n);
    }
    if (!cat.p || !cat.n) {
        m->n = 0;
    } else if (cat.n <= sizeof m->text) {
        memcpy(m->text, cat.p, cat.n);
        m->n = cat.n;
    }
    return m;
}

static uint32_t class_category(struct kineto *k, enum kineto_class c)
{
    const char *name = kineto_class_name(c);
    return kineto_string_number(k, name, strlen(name));
}

/* Everything of a slice but start and dur. */
static int slice_fill(struct kineto *k, const struct kj_event *e, struct kineto_slice *s,
                      enum kineto_class *class)
{
    const struct kineto_category_memo *memo = category_of(k, e->field[KJ_CAT]);
    enum kineto_class c = memo->class;
    s->category = memo->name;
    s->name = kineto_is_null(e->field[KJ_NAME]) ? kineto_string_number(k, "(no name)", 9)
                                                : kineto_string_json(k, e->field[KJ_NAME]);
    if (c == KINETO_OP && is_legacy_annotation(e->field[KJ_NAME])) {
        c = KINETO_ANNOTATION;
        s->category = class_category(k, c);
    } else if (c == KINETO_OTHER && kineto_int_arg(e, KINETO_ARG_DEVICE) != STORE_ABSENT &&
               kineto_int_arg(e, KINETO_ARG_STREAM) != STORE_ABSENT) {
        c = KINETO_KERNEL; /* a new accelerator: what names its device and stream ran on it */
        s->category = class_category(k, c);
    } else if (c == KINETO_KERNEL && starts(e->field[KJ_NAME], "dma") &&
               kineto_equals(e->field[KJ_CAT], "mtia_ccp_events")) {
        c = KINETO_MEMCPY;
        s->category = class_category(k, c);
    }
    s->track = kineto_class_is_device(c) ? kineto_track_device(k, e) : kineto_track_host(k, e);
    s->correlation = kineto_int_arg(e, KINETO_ARG_CORRELATION);
    int64_t forward = 0;
    if (c == KINETO_OP || c == KINETO_ANNOTATION) {
        s->correlation = kineto_int_arg(e, KINETO_ARG_SEQUENCE);
        if (s->correlation < 0)
            s->correlation = STORE_ABSENT;
        forward = kineto_int_arg(e, KINETO_ARG_FWD_THREAD);
    }
    s->detail = kineto_detail(k, e, c, s->name, forward != STORE_ABSENT && forward != 0);
    *class = c;
    return k->code;
}

static int slice_put(struct kineto *k, const struct kineto_slice *s)
{
    if (k->batch->slices == KINETO_BATCH_ROWS) {
        k->batch_serial++;
        int rc = k->full(k);
        if (rc)
            return rc;
    }
    k->batch->slice[k->batch->slices++] = *s;
    k->slices++;
    return 0;
}

static int complete(struct kineto *k, const struct kj_event *e)
{
    struct kineto_slice s;
    enum kineto_class c;
    if (!start_of(k, e, &s.start)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    int64_t end;
    if (!time_of(k, e->field[KJ_DUR], &s.dur, NULL) || s.dur < 0 ||
        __builtin_add_overflow(s.start, s.dur, &end)) {
        k->loss[KINETO_LOSS_DUR]++;
        s.dur = STORE_ABSENT;
    }
    if (slice_fill(k, e, &s, &c))
        return k->code;
    int rc = slice_put(k, &s);
    if (c == KINETO_RUNTIME || c == KINETO_DRIVER)
        kineto_launch_note(k, &s);
    if (!rc && c == KINETO_OP) {
        struct kineto_track *t = &k->track[s.track];
        t->last_start = s.start;
        t->last_row = k->batch->slices - 1;
        t->last_batch = k->batch_serial;
    }
    return rc;
}

static int begin(struct kineto *k, const struct kj_event *e)
{
    struct kineto_slice s;
    enum kineto_class c;
    if (!start_of(k, e, &s.start)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    s.dur = STORE_ABSENT;
    if (slice_fill(k, e, &s, &c))
        return k->code;
    struct kineto_track *t = &k->track[s.track];
    if (k->open_total >= OPEN_MAX) {
        k->loss[KINETO_LOSS_NO_END]++;
        return slice_put(k, &s);
    }
    if (t->open_count == t->open_cap) {
        size_t cap = t->open_cap ? 2 * t->open_cap : 16;
        struct kineto_slice *o = realloc(t->open, cap * sizeof *o);
        if (!o)
            return kineto_no_memory(k);
        t->open = o;
        t->open_cap = cap;
    }
    t->open[t->open_count++] = s;
    k->open_total++;
    return 0;
}

/* Ends the innermost begin event of its thread. Arguments of the end count where the begin had
 * none. */
static int end(struct kineto *k, const struct kj_event *e)
{
    int64_t at;
    if (!start_of(k, e, &at)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    bool device = kineto_class_is_device(category_of(k, e->field[KJ_CAT])->class);
    uint32_t track =
        device ? kineto_track_device(k, e) : kineto_track_host(k, e); /* may move k->track */
    if (k->code)
        return k->code;
    struct kineto_track *t = &k->track[track];
    if (!t->open_count) {
        k->loss[KINETO_LOSS_NO_BEGIN]++;
        return 0;
    }
    struct kineto_slice s = t->open[--t->open_count];
    k->open_total--;
    if (__builtin_sub_overflow(at, s.start, &s.dur) || s.dur < 0) {
        k->loss[KINETO_LOSS_DUR]++;
        s.dur = STORE_ABSENT;
    }
    if (s.detail == KINETO_NONE && e->arg_count)
        s.detail = kineto_detail(k, e, category_of(k, e->field[KJ_CAT])->class, s.name, false);
    return k->code ? k->code : slice_put(k, &s);
}

/* ---- counters ---------------------------------------------------------------------------------------------------------- */

static int counter_put(struct kineto *k, uint32_t track, int64_t time, double value)
{
    if (k->code)
        return k->code;
    if (k->batch->counters == KINETO_BATCH_ROWS) {
        k->batch_serial++;
        int rc = k->full(k);
        if (rc)
            return rc;
    }
    k->batch->counter[k->batch->counters++] =
        (struct kineto_counter){.time = time, .value = value, .track = track};
    k->counters++;
    return 0;
}

static bool double_of(struct kj_span s, double *out)
{
    static locale_t c;
    char text[64], *end;
    s = kineto_inside(s);
    if (!s.p || !s.n || s.n >= sizeof text || !strchr("-+0123456789.", s.p[0]))
        return false;
    if (!c)
        c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    *out = c ? strtod_l(text, &end, c) : strtod(text, &end);
    return end == text + s.n;
}

/* ph C: one track for each value. */
static int counter(struct kineto *k, const struct kj_event *e)
{
    int64_t at;
    if (!start_of(k, e, &at)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    struct kj_span name = kineto_inside(e->field[KJ_NAME]);
    for (size_t i = 0; i < e->arg_count; i++) {
        double value;
        if (!double_of(e->arg[i].value, &value)) {
            k->loss[KINETO_LOSS_COUNTER]++;
            continue;
        }
        k->payload.n = 0;
        if (name.p)
            kineto_text_put(&k->payload, name.p, name.n);
        if (e->arg_count > 1 || !name.n) {
            kineto_text_puts(&k->payload, name.n ? "." : "");
            kineto_text_put(&k->payload, e->arg[i].key.p, e->arg[i].key.n);
        }
        uint32_t track = kineto_track_counter(
            k, e->field[KJ_PID], (struct kj_span){k->payload.p, k->payload.n}, "", NULL);
        int rc = counter_put(k, track, at, value);
        if (rc)
            return rc;
    }
    return 0;
}

/* Totals of the allocator, in [memory] events. */
static int memory_totals(struct kineto *k, const struct kj_event *e, int64_t at)
{
    static const struct {
        enum kineto_arg arg;
        const char *name;
    } totals[] = {{KINETO_ARG_MEMORY_ALLOCATED, "memory.allocated"},
                  {KINETO_ARG_MEMORY_RESERVED, "memory.reserved"}};
    char device[32] = "cpu";
    int64_t id = kineto_int_arg(e, KINETO_ARG_MEMORY_DEVICE);
    if (id != STORE_ABSENT && id >= 0 && kineto_int_arg(e, KINETO_ARG_MEMORY_DEVICE_TYPE) != 0)
        snprintf(device, sizeof device, "gpu:%d", (int)(id & 0xffff));
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        int64_t bytes = kineto_int_arg(e, totals[i].arg);
        if (bytes == STORE_ABSENT)
            continue;
        struct kj_span name = {totals[i].name, strlen(totals[i].name)};
        int rc = counter_put(k, kineto_track_counter(k, e->field[KJ_PID], name, device, "bytes"),
                             at, (double)bytes);
        if (rc)
            return rc;
    }
    return 0;
}

static int instant(struct kineto *k, const struct kj_event *e)
{
    struct kineto_slice s;
    enum kineto_class c;
    if (!start_of(k, e, &s.start)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    s.dur = 0;
    if (slice_fill(k, e, &s, &c))
        return k->code;
    if (c == KINETO_OTHER || c == KINETO_OP || c == KINETO_ANNOTATION) {
        s.category = class_category(k, KINETO_INSTANT);
        if (s.detail == KINETO_NONE)
            s.detail = kineto_detail(k, e, KINETO_INSTANT, s.name, false);
    }
    int rc = slice_put(k, &s);
    return rc                                              ? rc
           : kineto_arg_of(e, KINETO_ARG_MEMORY_ALLOCATED) ? memory_totals(k, e, s.start)
                                                           : k->code;
}

/* ---- flow arrows --------------------------------------------------------------------------------------------------------- */

/* Arrows from launch to kernel are implied by the correlation. The head of one from forward to
 * backward makes its operator a backward one where the operator itself does not name its forward
 * thread; Kineto writes it right behind the operator. */
static int flow(struct kineto *k, const struct kj_event *e)
{
    int64_t at;
    if (!kineto_equals(e->field[KJ_PH], "f") || !kineto_equals(e->field[KJ_CAT], "fwdbwd"))
        return 0;
    if (!start_of(k, e, &at)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    uint32_t track = kineto_track_host(k, e); /* may move k->track */
    if (k->code)
        return k->code;
    struct kineto_track *t = &k->track[track];
    if (t->last_batch != k->batch_serial || t->last_start != at)
        return 0;
    struct kineto_slice *s = &k->batch->slice[t->last_row];
    s->detail = kineto_detail_backward(k, s->detail, KINETO_OP);
    return k->code;
}

/* ---- all of them --------------------------------------------------------------------------------------------------------- */

int kineto_event(struct kineto *k, const struct kj_event *e)
{
    struct kj_span ph = kineto_inside(e->field[KJ_PH]);
    if (kineto_equals(
            e->field[KJ_CAT],
            "critical_path")) /* `tacho export --critical-path` adds it: no part of the run */
        return 0;
    k->events++;
    k->loss[KINETO_LOSS_ARGS] += e->args_cut;
    switch (ph.p && ph.n == 1 ? ph.p[0] : 0) {
    case 'X':
        return complete(k, e);
    case 'B':
        return begin(k, e);
    case 'E':
        return end(k, e);
    case 'i':
    case 'I':
    case 'R':
        return instant(k, e);
    case 'C':
        return counter(k, e);
    case 'M':
        return kineto_metadata(k, e);
    case 's':
    case 't':
    case 'f':
        return flow(k, e);
    default:
        k->loss[KINETO_LOSS_PHASE]++;
        return 0;
    }
}

int kineto_events_done(struct kineto *k)
{
    for (size_t i = 0; i < k->tracks; i++)
        for (size_t j = 0; j < k->track[i].open_count; j++) {
            k->loss[KINETO_LOSS_NO_END]++;
            int rc = slice_put(k, &k->track[i].open[j]);
            if (rc)
                return rc;
        }
    return k->code;
}
