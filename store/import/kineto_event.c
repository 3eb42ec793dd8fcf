/* SPDX-License-Identifier: Apache-2.0
 *
 * One event of a Kineto trace becomes rows.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto.h"

#define BASE_TYPICAL INT64_C(1750000000000000000) /* the year 2025 */
#define LAUNCHES_MAX (1u << 20)                   /* launches of other than the main process that are remembered */
#define OPEN_MAX     (1u << 20)                   /* begin events that may wait for their end */

int kineto_no_memory(struct kineto *k)
{
    return k->code = TACHO_ENOMEM;
}

/* ---- places ------------------------------------------------------------------------------------------------------------ */

/* What a key of k->table is of. */
enum key_of { OF_DEVICE = 1, OF_LAUNCH, OF_THREAD, OF_TEXT_THREAD, OF_COUNTER, OF_PROCESS, OF_THREAD_NAME, OF_PROCESS_NAME };

static struct kineto_key key_in(enum key_of of, int64_t pid, uint64_t rest)
{
    return (struct kineto_key){(uint64_t)of << 56 | ((uint64_t)pid & (UINT64_MAX >> 8)), rest};
}

/* A pid or tid: a number, or text. "stream 7" is 7. */
struct place {
    int64_t number;
    bool is_number;
    struct kj_span text;
};

static struct place place_of(struct kj_span s)
{
    struct place p = {.number = 0};
    p.is_number = kineto_int(s, &p.number);
    p.text = kineto_inside(s);
    if (!p.is_number && p.text.p && p.text.n > 7 && !memcmp(p.text.p, "stream ", 7))
        p.is_number = kineto_int((struct kj_span){p.text.p + 7, p.text.n - 7}, &p.number);
    return p;
}

const struct kj_arg *kineto_arg_of(const struct kj_event *e, enum kineto_arg a)
{
    for (size_t i = 0; i < e->arg_count; i++)
        if (e->arg[i].id == a)
            return &e->arg[i];
    return NULL;
}

static int64_t int_arg(const struct kj_event *e, enum kineto_arg a)
{
    int64_t v;
    const struct kj_arg *arg = kineto_arg_of(e, a);
    return arg && kineto_int(arg->value, &v) ? v : STORE_ABSENT;
}

/* Number of the main process, or of another one of this pid. A pid that is none (0, -1, "Traces") is of the main process. */
static uint32_t process_find(struct kineto *k, struct place pid)
{
    if (!pid.is_number || pid.number <= 0)
        return 0;
    if (k->process[0].pid == STORE_ABSENT) {
        k->process[0].pid = pid.number;
        return 0;
    }
    if (k->process[0].pid == pid.number)
        return 0;
    struct kineto_key key = {(uint64_t)OF_PROCESS << 56, (uint64_t)pid.number};
    uint32_t found = kineto_table_get(&k->table, key);
    if (!found) {
        if (k->processes == k->process_cap) {
            size_t cap = 2 * k->process_cap;
            struct kineto_process *p = realloc(k->process, cap * sizeof *p);
            if (!p) {
                kineto_no_memory(k);
                return 0;
            }
            k->process = p;
            k->process_cap = cap;
        }
        struct kineto_def *d = kineto_batch_def(k->batch, KINETO_DEF_PROCESS);
        if (!d) {
            kineto_no_memory(k);
            return 0;
        }
        d->id = pid.number;
        k->process[k->processes].pid = pid.number;
        found = (uint32_t)++k->processes;
        if (kineto_table_set(&k->table, key, found))
            kineto_no_memory(k);
    }
    return found - 1;
}

/* A new track, zeroed; NULL: out of memory. */
static struct kineto_track *track_new(struct kineto *k)
{
    if (k->tracks == k->track_cap) {
        size_t cap = k->track_cap ? 2 * k->track_cap : 64;
        struct kineto_track *t = realloc(k->track, cap * sizeof *t);
        if (!t)
            return NULL;
        k->track = t;
        k->track_cap = cap;
    }
    struct kineto_track *t = &k->track[k->tracks++];
    memset(t, 0, sizeof *t);
    t->last_batch = UINT64_MAX;
    return t;
}

/* The track of a key, made with `d` the first time. */
static uint32_t track_make(struct kineto *k, struct kineto_key key, const struct kineto_track *like,
                           const struct kineto_def *like_def, struct kj_span name)
{
    struct kineto_track *t = track_new(k);
    struct kineto_def *d = t ? kineto_batch_def(k->batch, KINETO_DEF_TRACK) : NULL;
    if (!d) {
        kineto_no_memory(k);
        return 0;
    }
    *t = *like;
    t->process = like_def->process;
    t->last_batch = UINT64_MAX;
    *d = *like_def;
    d->kind = KINETO_DEF_TRACK;
    if (name.p && name.n) {
        k->scratch.n = 0;
        kineto_unescape(&k->scratch, name);
        d->text = kineto_batch_text(k->batch, k->scratch.p, k->scratch.n);
    } else {
        const char *known = kineto_track_name(k, k->tracks - 1);
        d->text = known ? kineto_batch_text(k->batch, known, strlen(known)) : 0;
    }
    if (kineto_table_set(&k->table, key, (uint32_t)k->tracks))
        kineto_no_memory(k);
    return (uint32_t)k->tracks - 1;
}

/* Device rows do not name their process. Nearly every file has one; of others' launches the correlation is remembered. */
static void launch_note(struct kineto *k, const struct kineto_slice *s)
{
    uint32_t process = k->track[s->track].process;
    struct kineto_key key = {(uint64_t)OF_LAUNCH << 56, (uint64_t)s->correlation};
    if (!process || s->correlation == STORE_ABSENT || k->launches_elsewhere >= LAUNCHES_MAX || kineto_table_get(&k->table, key))
        return;
    k->launches_elsewhere++;
    if (kineto_table_set(&k->table, key, process + 1))
        kineto_no_memory(k);
}

static uint32_t launch_process(const struct kineto *k, const struct kj_event *e)
{
    int64_t correlation = k->launches_elsewhere ? int_arg(e, KINETO_ARG_CORRELATION) : STORE_ABSENT;
    if (correlation == STORE_ABSENT)
        return 0;
    uint32_t found = kineto_table_get(&k->table, (struct kineto_key){(uint64_t)OF_LAUNCH << 56, (uint64_t)correlation});
    return found ? found - 1 : 0;
}

static uint32_t track_device(struct kineto *k, const struct kj_event *e)
{
    struct place pid = place_of(e->field[KJ_PID]), tid = place_of(e->field[KJ_TID]);
    int64_t device = int_arg(e, KINETO_ARG_DEVICE), stream = int_arg(e, KINETO_ARG_STREAM);
    if (device == STORE_ABSENT || device < 0 || device >= 1 << 20)
        device = pid.is_number && pid.number >= 0 && pid.number < 1 << 12 ? pid.number : 0;
    if (stream == STORE_ABSENT && tid.is_number)
        stream = tid.number;
    if (stream == -1 || stream == UINT32_MAX)
        stream = STORE_ABSENT;
    uint32_t process = launch_process(k, e);
    struct kineto_key key = {(uint64_t)OF_DEVICE << 56 | (uint64_t)process << 20 | (uint64_t)device, (uint64_t)stream};
    uint32_t found = kineto_table_get(&k->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {
        .device = true, .pid = pid.is_number ? pid.number : device, .tid = stream == STORE_ABSENT ? -1 : stream};
    struct kineto_def d = {.process = process, .id = stream, .track_kind = "stream"};
    snprintf(d.device, sizeof d.device, "gpu:%d", (int)device);
    return track_make(k, key, &like, &d, (struct kj_span){NULL, 0});
}

static uint32_t track_host(struct kineto *k, const struct kj_event *e)
{
    struct place pid = place_of(e->field[KJ_PID]), tid = place_of(e->field[KJ_TID]);
    int64_t group = pid.is_number && pid.number > 0 ? pid.number : 0;
    struct kj_span name = {NULL, 0};
    struct kineto_key key = key_in(OF_THREAD, group, (uint64_t)tid.number);
    if (!tid.is_number) {
        name = tid.text.p && tid.text.n ? tid.text : pid.text.p && pid.text.n ? pid.text : (struct kj_span){"trace", 5};
        key = key_in(OF_TEXT_THREAD, group, kineto_string_json(k, name));
    }
    uint32_t found = kineto_table_get(&k->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.pid = pid.is_number ? pid.number : 0, .tid = tid.is_number ? tid.number : -1};
    struct kineto_def d = {
        .process = process_find(k, pid), .id = tid.is_number ? tid.number : STORE_ABSENT, .track_kind = "thread"};
    return track_make(k, key, &like, &d, name);
}

static uint32_t track_counter(struct kineto *k, struct place pid, struct kj_span name, const char *device, const char *unit)
{
    k->scratch.n = 0;
    kineto_text_put(&k->scratch, name.p, name.n);
    kineto_text_puts(&k->scratch, "\n"); /* no JSON string has it */
    kineto_text_puts(&k->scratch, device);
    int64_t group = pid.is_number && pid.number > 0 ? pid.number : 0;
    uint32_t number = kineto_string_number(k, k->scratch.p, k->scratch.n);
    struct kineto_key key = key_in(OF_COUNTER, group, number);
    uint32_t found = kineto_table_get(&k->table, key);
    if (found)
        return found - 1;
    struct kineto_track like = {.counter = true};
    struct kineto_def d = {.process = process_find(k, pid), .id = STORE_ABSENT, .track_kind = "counter", .unit = unit};
    snprintf(d.device, sizeof d.device, "%s", device);
    return track_make(k, key, &like, &d, name);
}

/* ---- names of threads and processes ---------------------------------------------------------------------------------------- */

static struct kineto_key name_key(bool thread, int64_t pid, int64_t tid)
{
    return key_in(thread ? OF_THREAD_NAME : OF_PROCESS_NAME, pid, thread ? (uint64_t)tid : 0);
}

static const char *name_find(const struct kineto *k, bool thread, int64_t pid, int64_t tid)
{
    uint32_t found = kineto_table_get(&k->table, name_key(thread, pid, tid));
    return found ? k->name[found - 1].text : NULL;
}

const char *kineto_track_name(const struct kineto *k, size_t i)
{
    const struct kineto_track *t = &k->track[i];
    return t->counter || t->tid == -1 ? NULL : name_find(k, true, t->pid, t->tid);
}

const char *kineto_process_name(const struct kineto *k, size_t i)
{
    return k->process[i].pid == STORE_ABSENT ? NULL : name_find(k, false, k->process[i].pid, 0);
}

static int metadata(struct kineto *k, const struct kj_event *e)
{
    const struct kj_arg *text = kineto_arg_of(e, KINETO_ARG_META_NAME);
    bool thread = kineto_equals(e->field[KJ_NAME], "thread_name");
    struct place pid = place_of(e->field[KJ_PID]), tid = place_of(e->field[KJ_TID]);
    if (!text || (!thread && !kineto_equals(e->field[KJ_NAME], "process_name")) || !pid.is_number || (thread && !tid.is_number))
        return 0;
    struct kineto_key key = name_key(thread, pid.number, tid.number);
    uint32_t found = kineto_table_get(&k->table, key);
    if (!found) {
        if (k->names == k->name_cap) {
            size_t cap = k->name_cap ? 2 * k->name_cap : 64;
            struct kineto_name *n = realloc(k->name, cap * sizeof *n);
            if (!n)
                return kineto_no_memory(k);
            k->name = n;
            k->name_cap = cap;
        }
        k->name[k->names].text = NULL;
        found = (uint32_t)++k->names;
        if (kineto_table_set(&k->table, key, found))
            return kineto_no_memory(k);
    }
    char *new = kineto_dup(k, text->value);
    if (!new)
        return k->code;
    for (size_t n = strlen(new); n && new[n - 1] == ' ';) /* "stream 7 " */
        new[--n] = 0;
    free(k->name[found - 1].text);
    k->name[found - 1].text = new;
    return 0;
}

/* ---- times ------------------------------------------------------------------------------------------------------------- */

static bool time_of(struct kineto *k, struct kj_span s, int64_t *ns, int *finest)
{
    int decimals = 0;
    bool rounded = false;
    if (!k->unit) { /* us since 1970 are 1.7e15 today: whole numbers a hundred times as large are ns */
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

/* ts as it is stored. Where the base of the times may still come, one that is about right is added: rows then do not grow when
 * the true one replaces it. */
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
    return starts(name, "ProfilerStep#") || starts(name, "enumerate(DataLoader)#") || starts(name, "enumerate(DataPipe)#") ||
           starts(name, "Optimizer.");
}

static const struct kineto_category_memo *category_of(struct kineto *k, struct kj_span cat)
{
    cat = kineto_inside(cat);
    size_t at = cat.p && cat.n ? (cat.n * 7 + (unsigned char)cat.p[0] + 3u * (unsigned char)cat.p[cat.n - 1]) % 63 + 1 : 0;
    struct kineto_category_memo *m = &k->category[at];
    if (m->n == (cat.p ? cat.n : 0) && m->name != KINETO_NONE && (!m->n || !memcmp(m->text, cat.p, m->n)))
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
static int slice_fill(struct kineto *k, const struct kj_event *e, struct kineto_slice *s, enum kineto_class *class)
{
    const struct kineto_category_memo *memo = category_of(k, e->field[KJ_CAT]);
    enum kineto_class c = memo->class;
    s->category = memo->name;
    s->name =
        kineto_is_null(e->field[KJ_NAME]) ? kineto_string_number(k, "(no name)", 9) : kineto_string_json(k, e->field[KJ_NAME]);
    if (c == KINETO_OP && is_legacy_annotation(e->field[KJ_NAME])) {
        c = KINETO_ANNOTATION;
        s->category = class_category(k, c);
    } else if (c == KINETO_OTHER && int_arg(e, KINETO_ARG_DEVICE) != STORE_ABSENT &&
               int_arg(e, KINETO_ARG_STREAM) != STORE_ABSENT) {
        c = KINETO_KERNEL; /* a new accelerator: what names its device and stream ran on it */
        s->category = class_category(k, c);
    } else if (c == KINETO_KERNEL && starts(e->field[KJ_NAME], "dma") && kineto_equals(e->field[KJ_CAT], "mtia_ccp_events")) {
        c = KINETO_MEMCPY;
        s->category = class_category(k, c);
    }
    s->track = kineto_class_is_device(c) ? track_device(k, e) : track_host(k, e);
    s->correlation = int_arg(e, KINETO_ARG_CORRELATION);
    int64_t forward = 0;
    if (c == KINETO_OP || c == KINETO_ANNOTATION) {
        s->correlation = int_arg(e, KINETO_ARG_SEQUENCE);
        if (s->correlation < 0)
            s->correlation = STORE_ABSENT;
        forward = int_arg(e, KINETO_ARG_FWD_THREAD);
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
    if (!time_of(k, e->field[KJ_DUR], &s.dur, NULL) || s.dur < 0 || __builtin_add_overflow(s.start, s.dur, &end)) {
        k->loss[KINETO_LOSS_DUR]++;
        s.dur = STORE_ABSENT;
    }
    if (slice_fill(k, e, &s, &c))
        return k->code;
    int rc = slice_put(k, &s);
    if (c == KINETO_RUNTIME || c == KINETO_DRIVER)
        launch_note(k, &s);
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

/* Ends the innermost begin event of its thread. Arguments of the end count where the begin had none. */
static int end(struct kineto *k, const struct kj_event *e)
{
    int64_t at;
    if (!start_of(k, e, &at)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    bool device = kineto_class_is_device(category_of(k, e->field[KJ_CAT])->class);
    uint32_t track = device ? track_device(k, e) : track_host(k, e); /* may move k->track */
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
    k->batch->counter[k->batch->counters++] = (struct kineto_counter){.time = time, .value = value, .track = track};
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
        uint32_t track = track_counter(k, place_of(e->field[KJ_PID]), (struct kj_span){k->payload.p, k->payload.n}, "", NULL);
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
    } totals[] = {{KINETO_ARG_MEMORY_ALLOCATED, "memory.allocated"}, {KINETO_ARG_MEMORY_RESERVED, "memory.reserved"}};
    char device[32] = "cpu";
    int64_t id = int_arg(e, KINETO_ARG_MEMORY_DEVICE);
    if (id != STORE_ABSENT && id >= 0 && int_arg(e, KINETO_ARG_MEMORY_DEVICE_TYPE) != 0)
        snprintf(device, sizeof device, "gpu:%d", (int)(id & 0xffff));
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        int64_t bytes = int_arg(e, totals[i].arg);
        if (bytes == STORE_ABSENT)
            continue;
        struct kj_span name = {totals[i].name, strlen(totals[i].name)};
        int rc = counter_put(k, track_counter(k, place_of(e->field[KJ_PID]), name, device, "bytes"), at, (double)bytes);
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
    return rc ? rc : kineto_arg_of(e, KINETO_ARG_MEMORY_ALLOCATED) ? memory_totals(k, e, s.start) : k->code;
}

/* ---- flow arrows --------------------------------------------------------------------------------------------------------- */

/* Arrows from launch to kernel are implied by the correlation. The head of one from forward to backward makes its operator a
 * backward one where the operator itself does not name its forward thread; Kineto writes it right behind the operator. */
static int flow(struct kineto *k, const struct kj_event *e)
{
    int64_t at;
    if (!kineto_equals(e->field[KJ_PH], "f") || !kineto_equals(e->field[KJ_CAT], "fwdbwd"))
        return 0;
    if (!start_of(k, e, &at)) {
        k->loss[KINETO_LOSS_TIME]++;
        return 0;
    }
    uint32_t track = track_host(k, e); /* may move k->track */
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
        return metadata(k, e);
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
