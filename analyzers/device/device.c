/* SPDX-License-Identifier: Apache-2.0
 *
 * Device rows -> columns of ops, linked to the host calls that launched them by (process,
 * correlation). Everything is linear in the number of rows but for the sort of equal keys.
 */
#include "analyzers/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/device/device_build.h"

#define ZERO_APART 500000000 /* ns: what is at 0 this long before all else has no time */

/* ---- categories ---------------------------------------------------------------------------------------------------------- */

static enum row row_of(const char *category)
{
    static const struct {
        const char *category;
        enum row row;
    } rows[] = {{"kernel", ROW_KERNEL}, {"memcpy", ROW_MEMCPY}, {"memset", ROW_MEMSET},
                {"graph", ROW_GRAPH},   {"runtime", ROW_CALL},  {"driver", ROW_CALL},
                {"NCCL", ROW_COMM},     {"RCCL", ROW_COMM}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(category, rows[i].category))
            return rows[i].row;
    return ROW_NONE;
}

/* Is a host range of this name a call of a communicator? */
static bool is_comm_name(const char *name)
{
    return !strcmp(name, "record_param_comms") || !strncmp(name, "nccl:", 5) ||
           !strncmp(name, "rccl:", 5) || !strncmp(name, "c10d::", 6);
}

const char *an_slice_category(const struct an_trace *t, size_t i)
{
    return an_trace_name(t, t->slice.category[i]);
}

struct an_api_call an_slice_api(const struct an_trace *t, size_t i)
{
    uint32_t name = t->slice.name[i];
    if (name >= t->string_count)
        return (struct an_api_call){AN_API_OTHER, false};
    if (!t->name_api[name]) { /* kept as 1 + 2 * kind + async */
        struct an_api_call a = an_api_of(t->string[name]);
        t->name_api[name] = (uint8_t)(1 + 2 * a.kind + a.async);
    }
    unsigned kept = t->name_api[name] - 1u;
    return (struct an_api_call){(enum an_api_kind)(kept / 2), kept & 1};
}

bool an_slice_launches(const struct an_trace *t, size_t i)
{
    return an_api_launches(an_slice_api(t, i)) && row_of(an_slice_category(t, i)) == ROW_CALL;
}

static bool is_device_row(const struct builder *b, size_t slice)
{
    enum row r = an_row_of(b, slice);
    return r == ROW_KERNEL || r == ROW_MEMCPY || r == ROW_MEMSET || r == ROW_GRAPH;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------- */

static int64_t ordinal_of(const char *device)
{
    const char *colon = strrchr(device, ':');
    char *end = NULL;
    long long n = colon ? strtoll(colon + 1, &end, 10) : 0;
    return colon && end != colon + 1 && !*end ? n : 0;
}

static int stream_order(const void *x, const void *y, void *ctx)
{
    const struct an_trace *t = ctx;
    const struct an_track *a = &t->track[*(const uint32_t *)x],
                          *b = &t->track[*(const uint32_t *)y];
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    int64_t oa = ordinal_of(a->device), ob = ordinal_of(b->device);
    if (oa != ob)
        return oa < ob ? -1 : 1;
    int text = strcmp(a->device, b->device);
    return text ? text : (a > b) - (a < b);
}

/* Streams with device rows, in order of process and device. */
static int find_streams(struct builder *b)
{
    const struct an_trace *t = b->c->t;
    if (!(b->stream = an_arena_zero(b->c->work, t->track_count, sizeof *b->stream)))
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const struct an_track *s = &t->track[k];
        size_t rows = 0;
        if (strcmp(s->kind, "stream") != 0)
            continue;
        for (size_t i = s->slice_first; i < s->slice_first + s->slice_count; i++)
            rows += is_device_row(b, i);
        if (rows)
            b->stream[b->stream_count++] = k;
        b->rows += rows;
    }
    if (b->stream_count)
        qsort_r(b->stream, b->stream_count, sizeof *b->stream, stream_order, (void *)(uintptr_t)t);
    return 0;
}

static bool same_device(const struct an_trace *t, uint32_t x, uint32_t y)
{
    return t->track[x].process == t->track[y].process &&
           !strcmp(t->track[x].device, t->track[y].device);
}

static void name_device(const struct builder *b, struct an_device *d, const char *device,
                        int64_t ordinal)
{
    const struct an_trace *t = b->c->t;
    const struct an_process *p = d->process != AN_NONE ? &t->process[d->process] : NULL;
    const char *key =
        p ? an_arena_format(b->c->work, "device.%lld.%s.name", (long long)p->id, device) : NULL;
    const char *name = key ? an_trace_key(t, key) : NULL;
    d->name = an_arena_text(b->c->a, name ? name : "");
    d->rank = p && p->rank != STORE_ABSENT ? p->rank : ordinal;
}

static bool is_zero(const struct builder *b, int64_t time)
{
    for (size_t i = 0; i < b->base_count; i++)
        if (time == b->base[i])
            return true;
    return false;
}

/* Times that cannot be: CUPTI writes 0 where it has none, an importer adds the file's base to it. A
 * trace that begins at 0 has others soon after it. */
static int find_bases(struct builder *b)
{
    const struct an_trace *t = b->c->t;
    if (!(b->base = an_arena_zero(b->c->work, t->key_count + 1, sizeof *b->base)))
        return TACHO_ENOMEM;
    b->base_count = 1;
    for (size_t i = 0; i < t->key_count; i++)
        if (!strncmp(t->key[i].key, "source.base_ns", 14))
            b->base[b->base_count++] = strtoll(t->key[i].value, NULL, 10);
    b->begin = INT64_MAX;
    for (size_t i = 0; i < t->slice.count; i++)
        if (t->slice.start[i] < b->begin && !is_zero(b, t->slice.start[i]))
            b->begin = t->slice.start[i];
    return 0;
}

static bool is_timed(const struct builder *b, size_t slice)
{
    const struct an_slices *s = &b->c->t->slice;
    if (s->dur[slice] == AN_OPEN)
        return false;
    return !is_zero(b, s->start[slice]) || an_time_sub(b->begin, s->start[slice]) < ZERO_APART;
}

struct tie {
    int64_t end;
    uint32_t slice, track;
};

static int tie_order(const void *x, const void *y)
{
    const struct tie *a = x, *b = y;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return (a->slice > b->slice) - (a->slice < b->slice);
}

/* Orders ops [first, last), which begin at the same time, by their ends. */
static int sort_ties(struct builder *b, size_t first, size_t last)
{
    struct an_device_ops *op = &b->g->op;
    bool sorted = true;
    for (size_t i = first + 1; i < last; i++)
        sorted = sorted && (op->end[i - 1] < op->end[i] ||
                            (op->end[i - 1] == op->end[i] && op->slice[i - 1] < op->slice[i]));
    if (sorted)
        return 0;
    struct tie *tie = malloc((last - first) * sizeof *tie);
    if (!tie)
        return TACHO_ENOMEM;
    for (size_t i = first; i < last; i++)
        tie[i - first] = (struct tie){op->end[i], op->slice[i], op->track[i]};
    qsort(tie, last - first, sizeof *tie, tie_order);
    for (size_t i = first; i < last; i++) {
        op->end[i] = tie[i - first].end;
        op->slice[i] = tie[i - first].slice;
        op->track[i] = tie[i - first].track;
    }
    free(tie);
    return 0;
}

/* Ops of the streams of one device, behind those that are there. */
static int add_ops(struct builder *b, struct an_device *d, const uint32_t *stream, size_t streams)
{
    const struct an_trace *t = b->c->t;
    struct an_device_ops *op = &b->g->op;
    size_t n = 0;
    for (size_t k = 0; k < streams; k++) {
        const struct an_track *s = &t->track[stream[k]];
        size_t before = n;
        for (size_t i = s->slice_first; i < s->slice_first + s->slice_count; i++) {
            if (!is_device_row(b, i))
                continue;
            if (is_timed(b, i))
                b->pair[n++] =
                    (struct an_pair){an_pair_key(t->slice.start[i]), (uint32_t)i, stream[k]};
            else
                b->g->untimed++;
        }
        d->streams += n > before;
    }
    an_pairs_sort(b->pair, b->work, n);
    d->first = op->count;
    d->count = n;
    for (size_t i = 0; i < n; i++) {
        size_t at = op->count + i;
        op->start[at] = t->slice.start[b->pair[i].value];
        op->end[at] = an_slice_end(t, b->pair[i].value);
        op->slice[at] = b->pair[i].value;
        op->track[at] = b->pair[i].extra;
    }
    op->count += n;
    int rc = 0;
    for (size_t i = d->first, next; i < op->count && !rc; i = next) {
        for (next = i + 1; next < op->count && op->start[next] == op->start[i];)
            next++;
        rc = next > i + 1 ? sort_ties(b, i, next) : 0;
    }
    return rc;
}

static int make_ops(struct builder *b)
{
    struct an_arena *a = b->c->work;
    struct an_device_ops *op = &b->g->op;
    op->start = an_arena_zero(a, b->rows, sizeof *op->start);
    op->end = an_arena_zero(a, b->rows, sizeof *op->end);
    op->slice = an_arena_zero(a, b->rows, sizeof *op->slice);
    op->track = an_arena_zero(a, b->rows, sizeof *op->track);
    op->launch = an_arena_zero(a, b->rows, sizeof *op->launch);
    op->class = an_arena_zero(a, b->rows, sizeof *op->class);
    op->known = an_arena_zero(a, b->rows, sizeof *op->known);
    b->g->device = an_arena_zero(a, b->stream_count, sizeof *b->g->device);
    if (!op->start || !op->end || !op->slice || !op->track || !op->launch || !op->class ||
        !op->known || !b->g->device)
        return TACHO_ENOMEM;
    const struct an_trace *t = b->c->t;
    int64_t ordinal = -1;
    int rc = 0;
    for (size_t i = 0, next; i < b->stream_count && !rc; i = next) {
        for (next = i + 1; next < b->stream_count && same_device(t, b->stream[i], b->stream[next]);)
            next++;
        const struct an_track *s = &t->track[b->stream[i]];
        struct an_device *d = &b->g->device[b->g->device_count++];
        ordinal += !i || s->process != t->track[b->stream[i - 1]].process;
        *d = (struct an_device){.process = s->process, .ordinal = ordinal_of(s->device)};
        name_device(b, d, s->device, ordinal);
        rc = add_ops(b, d, b->stream + i, next - i);
    }
    return rc;
}

/* ---- classes ------------------------------------------------------------------------------------------------------------- */

static const struct an_name_class *class_of_name(struct builder *b, uint32_t name)
{
    static const struct an_name_class none = {AN_DEVICE_OTHER, false, -1, NULL};
    if (name == AN_NONE)
        return &none;
    if (!b->matched[name]) {
        struct an_name_class x = an_class_of(b->classes, an_trace_name(b->c->t, name));
        x.dtype = an_arena_text(b->c->a, x.dtype); /* outlives the table */
        b->name_class[name] = x;
        b->matched[name] = 1;
    }
    return &b->name_class[name];
}

/* Does the trace say that a kernel is a collective, whatever its name? */
static bool is_collective(const struct an_trace *t, size_t slice)
{
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[slice]);
    return d && (*d->collective || !strcmp(d->schema, "torch.comm"));
}

static void classify(struct builder *b)
{
    const struct an_trace *t = b->c->t;
    struct an_device_ops *op = &b->g->op;
    for (size_t i = 0; i < op->count; i++) {
        uint32_t slice = op->slice[i];
        enum row row = an_row_of(b, slice);
        op->known[i] = 1;
        if (row == ROW_KERNEL) {
            const struct an_name_class *x = class_of_name(b, t->slice.name[slice]);
            bool comm = !x->known && is_collective(t, slice);
            op->class[i] = (uint8_t)(comm ? AN_DEVICE_COMM : x->class);
            op->known[i] = x->known || comm;
        } else {
            op->class[i] = row == ROW_MEMCPY   ? AN_DEVICE_COPY
                           : row == ROW_MEMSET ? AN_DEVICE_MEMSET
                                               : AN_DEVICE_OPAQUE;
        }
    }
}

/* Is the host range, or one around it, a call of a communicator? */
static bool in_comm_range(const struct builder *b, uint32_t slice)
{
    const struct an_trace *t = b->c->t;
    int levels = AN_DEPTH_MAX;
    for (uint32_t p = slice; p != AN_NONE && levels--; p = t->slice.parent[p]) {
        uint32_t name = t->slice.name[p];
        bool comm = (name != AN_NONE && b->comm[name]) || an_row_of(b, p) == ROW_COMM ||
                    an_trace_role(t, t->slice.detail[p]) == AN_ROLE_COMM;
        if (comm && an_slice_open_at(t, p, slice))
            return true;
    }
    return false;
}

/* Copies of a communicator are communication: those that a call of it launched, and those on a
 * stream that only it uses. */
static int claim_copies(struct builder *b)
{
    struct an_device_ops *op = &b->g->op;
    uint8_t *stream = an_arena_zero(b->c->work, b->c->t->track_count,
                                    sizeof *stream); /* bits: 1 comm, 2 compute kernels */
    if (!stream)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < op->count; i++) {
        unsigned bit = 1u << op->class[i];
        if (an_row_of(b, op->slice[i]) == ROW_KERNEL)
            stream[op->track[i]] |= bit & AN_DEVICE_COMM_MASK ? 1 : 2;
    }
    for (size_t i = 0; i < op->count; i++)
        if (op->class[i] == AN_DEVICE_COPY &&
            (stream[op->track[i]] == 1 ||
             (op->launch[i] != AN_NONE && in_comm_range(b, op->launch[i]))))
            op->class[i] = AN_DEVICE_COMM;
    return 0;
}

int an_builder_scratch(struct builder *b, size_t n)
{
    free(b->pair);
    free(b->work);
    b->pair = malloc((n ? n : 1) * sizeof *b->pair);
    b->work = malloc((n ? n : 1) * sizeof *b->work);
    return b->pair && b->work ? 0 : TACHO_ENOMEM;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------------- */

static int read_strings(struct builder *b)
{
    const struct an_trace *t = b->c->t;
    b->category = an_arena_zero(b->c->work, t->string_count, 1);
    b->comm = an_arena_zero(b->c->work, t->string_count, 1);
    b->matched = an_arena_zero(b->c->work, t->string_count, 1);
    if (!b->category || !b->comm || !b->matched)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->string_count; i++) {
        b->category[i] = (uint8_t)row_of(t->string[i]);
        b->comm[i] = is_comm_name(t->string[i]);
    }
    return 0;
}

static int build(struct builder *b)
{
    int rc = find_bases(b);
    rc = rc ? rc : an_builder_scratch(b, b->rows);
    rc = rc ? rc : make_ops(b);
    rc = rc ? rc : an_builder_links(b);
    if (rc)
        return rc;
    b->name_class = an_arena_zero(b->c->work, b->c->t->string_count, sizeof *b->name_class);
    if (!b->name_class)
        return TACHO_ENOMEM;
    b->g->name_class = b->name_class;
    classify(b);
    rc = claim_copies(b);
    return rc ? rc : an_devices_split(b->c, b->g);
}

int an_devices_build(struct an_context *c, struct tacho_error *err)
{
    struct builder b = {.c = c};
    c->gpu = NULL;
    int rc = read_strings(&b);
    rc = rc ? rc : find_streams(&b);
    if (!rc && (b.stream_count || c->o->classes))
        rc = an_classes_new(c->o->classes, &b.classes, err);
    if (!rc && b.stream_count) {
        b.g = an_arena_zero(c->work, 1, sizeof *b.g);
        rc = b.g ? build(&b) : TACHO_ENOMEM;
        c->gpu = rc ? NULL : b.g;
    }
    an_classes_free(b.classes);
    free(b.pair);
    free(b.work);
    return rc;
}
