/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks, of ranges (folded) or of sampled call stacks (stacks: a sample counts as its
 * period of CPU time): `process;track;outer;inner NS`, one line a distinct stack, NS = its self
 * time in ns: what no slice nested in it covers. flamegraph.pl, speedscope and inferno read it. In
 * names `;`, `%` and control characters are percent-encoded: a `;` separates frames and the format
 * has no escape of its own.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/export/exporter.h"

/* A distinct stack: its innermost frame and the stack around it. */
struct node {
    uint32_t parent, name, track; /* parent EXP_NONE: the bottom, of this track */
    int64_t self;
};

struct tree {
    struct node *node;
    uint32_t count, cap;
    uint32_t *slot; /* node + 1, open addressing */
    uint32_t slots; /* power of two, at least twice the nodes */
};

static uint32_t slot_of(const struct tree *t, uint32_t parent, uint32_t name, uint32_t track)
{
    uint64_t h =
        ((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15ull + track * 0xc2b2ae3d27d4eb4full;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ull;
    for (uint32_t at = (uint32_t)(h >> 32) & (t->slots - 1);; at = (at + 1) & (t->slots - 1)) {
        const struct node *n = t->slot[at] ? &t->node[t->slot[at] - 1] : NULL;
        if (!n || (n->parent == parent && n->name == name && n->track == track))
            return at;
    }
}

static int grow(struct tree *t)
{
    uint32_t cap = t->cap ? 2 * t->cap : 1024;
    struct node *node = cap < UINT32_MAX / 4 ? realloc(t->node, cap * sizeof *node) : NULL;
    if (!node)
        return TACHO_ENOMEM;
    t->node = node;
    uint32_t *slot = calloc(2 * (size_t)cap, sizeof *slot);
    if (!slot)
        return TACHO_ENOMEM;
    free(t->slot);
    t->cap = cap;
    t->slot = slot;
    t->slots = 2 * cap;
    for (uint32_t i = 0; i < t->count; i++)
        t->slot[slot_of(t, t->node[i].parent, t->node[i].name, t->node[i].track)] = i + 1;
    return 0;
}

static int find(struct tree *t, uint32_t parent, uint32_t name, uint32_t track, uint32_t *out)
{
    if (t->count == t->cap && grow(t))
        return TACHO_ENOMEM;
    uint32_t at = slot_of(t, parent, name, track);
    if (!t->slot[at]) {
        t->node[t->count] = (struct node){.parent = parent, .name = name, .track = track};
        t->slot[at] = ++t->count;
    }
    *out = t->slot[at] - 1;
    return 0;
}

/* Time of each slice inside the window goes to its stack and is taken from the one around it. A
 * slice that never ended is a frame without a time of its own. */
static int add_track(struct tree *t, const struct exp_run *run, const struct exp_track *track,
                     uint32_t *node_of)
{
    struct exp_lanes lanes = {0};
    int code = 0;
    for (size_t i = track->first; !code && i < track->first + track->count; i++) {
        const struct exp_slice *s = &run->slice[i];
        size_t parent;
        int64_t lane = exp_lane_put(&lanes, run, i, &parent);
        if (lane < 0) {
            code = (int)lane;
            break;
        }
        uint32_t above = parent == SIZE_MAX ? EXP_NONE : node_of[parent - track->first], at;
        code = find(t, above, s->name, (uint32_t)(track - run->track), &at);
        if (code)
            break;
        node_of[i - track->first] = at;
        if (s->end == INT64_MAX)
            continue;
        int64_t start = s->start > run->t0 ? s->start : run->t0,
                end = s->end < run->t1 ? s->end : run->t1;
        int64_t dur = end > start ? end - start : 0;
        t->node[at].self += dur;
        if (above != EXP_NONE && run->slice[parent].end != INT64_MAX)
            t->node[above].self -= dur;
    }
    exp_lanes_free(&lanes);
    return code;
}

static void frame(FILE *out, const char *text)
{
    if (!*text)
        fputs("(no name)", out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p == ';' || *p == '%' || *p < 0x20 || *p == 0x7f)
            fprintf(out, "%%%02X", *p);
        else
            putc(*p, out);
}

static void bottom(FILE *out, const struct exp_run *run, const struct exp_track *t)
{
    const struct exp_process *p = t->process_at != EXP_NONE ? &run->process[t->process_at] : NULL;
    if (p && p->rank != STORE_ABSENT)
        fprintf(out, "rank %" PRId64 " ", p->rank);
    frame(out, p ? (p->program ? p->program : "process") : "machine");
    if (p && p->pid != STORE_ABSENT)
        fprintf(out, " (%" PRId64 ")", p->pid);
    putc(';', out);
    if (t->device) {
        frame(out, t->device);
        putc(' ', out);
    }
    frame(out, t->name && *t->name ? t->name : t->kind);
    if (t->tid != STORE_ABSENT)
        fprintf(out, " (%" PRId64 ")", t->tid);
}

static int write_stacks(FILE *out, const struct exp_run *run, const struct tree *t)
{
    uint32_t *path = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < t->count && !ferror(out); i++) {
        size_t depth = 0;
        if (t->node[i].self <= 0)
            continue;
        for (uint32_t at = i; at != EXP_NONE; at = t->node[at].parent) {
            if (depth == cap) {
                uint32_t *bigger = realloc(path, (cap = cap ? 2 * cap : 64) * sizeof *path);
                if (!bigger) {
                    free(path);
                    return TACHO_ENOMEM;
                }
                path = bigger;
            }
            path[depth++] = at;
        }
        bottom(out, run, &run->track[t->node[i].track]);
        while (depth) {
            putc(';', out);
            frame(out, exp_text(run, t->node[path[--depth]].name));
        }
        fprintf(out, " %" PRId64 "\n", t->node[i].self);
    }
    free(path);
    return 0;
}

static int end_write(FILE *out, struct exp_run *run, struct tree *tree, int code,
                     struct tacho_error *err)
{
    if (!code)
        code = write_stacks(out, run, tree);
    if (code && code != TACHO_ENOTFOUND)
        tacho_fail(err, code, NULL, "%s", tacho_error_text(code));
    free(tree->node);
    free(tree->slot);
    exp_run_free(run);
    return exp_end(out, code, err);
}

int exp_folded_write(store_reader *r, const struct store_export_options *o, FILE *out,
                     struct tacho_error *err)
{
    struct exp_run run;
    struct tree tree = {0};
    uint32_t *node_of = NULL;
    size_t most = 0;
    int code = exp_run_load(r, o, &run, err);
    if (code)
        return code;
    for (size_t i = 0; i < run.track_count; i++)
        most = run.track[i].count > most ? run.track[i].count : most;
    node_of = calloc(most ? most : 1, sizeof *node_of);
    code = node_of ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; !code && i < run.track_count; i++)
        code = add_track(&tree, &run, &run.track[i], node_of);
    free(node_of);
    return end_write(out, &run, &tree, code, err);
}

/* ---- sampled call stacks ------------------------------------------------------------------------------------------------------ */

#define DEPTH_MOST 1024 /* frames of a stack; a deeper one is damage */

struct samples {
    struct exp_run *run;
    struct tree *tree;
    uint32_t *frame, *parent; /* of stack id - 1; EXP_NONE: no name, the outermost */
    size_t count, cap;
    int64_t period;
    int code;
};

static int on_stack(void *ctx, const struct store_stack *x)
{
    struct samples *s = ctx;
    if (x->id != (int64_t)s->count + 1 || s->count >= EXP_NONE - 1)
        return 0;
    if (s->count == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 1024;
        uint32_t *frame = realloc(s->frame, cap * sizeof *frame), *parent = NULL;
        s->frame = frame ? frame : s->frame;
        parent = frame ? realloc(s->parent, cap * sizeof *parent) : NULL;
        if (!parent)
            return s->code = TACHO_ENOMEM;
        s->parent = parent;
        s->cap = cap;
    }
    s->frame[s->count] =
        x->frame >= 0 && x->frame < (int64_t)s->run->text_count ? (uint32_t)x->frame : EXP_NONE;
    s->parent[s->count++] =
        x->parent >= 1 && x->parent < x->id ? (uint32_t)(x->parent - 1) : EXP_NONE;
    return 0;
}

static int on_sample(void *ctx, const struct store_sample *x)
{
    struct samples *s = ctx;
    uint32_t path[DEPTH_MOST], depth = 0, track = exp_track_at(s->run, x->track), at = EXP_NONE;
    if (x->time < s->run->t0 || x->time >= s->run->t1 || track == EXP_NONE || x->stack < 1 ||
        (uint64_t)x->stack > s->count)
        return 0;
    for (uint32_t i = (uint32_t)(x->stack - 1); i != EXP_NONE && depth < DEPTH_MOST;
         i = s->parent[i])
        path[depth++] = i;
    while (depth && !s->code)
        s->code = find(s->tree, at, s->frame[path[--depth]], track, &at);
    if (!s->code)
        s->tree->node[at].self += s->period;
    return s->code;
}

int exp_stacks_write(store_reader *r, const struct store_export_options *o, FILE *out,
                     struct tacho_error *err)
{
    struct exp_run run;
    struct tree tree = {0};
    struct samples s = {.run = &run, .tree = &tree};
    int code = exp_run_load(r, o, &run, err);
    if (code)
        return code;
    const char *period = exp_run_value(&run, "stacks.period_ns");
    s.period = period ? strtoll(period, NULL, 10) : 0;
    s.period = s.period > 0 && s.period <= 1000000000000 ? s.period : 1;
    code = store_stack_each(r, 1, on_stack, &s);
    const char *state = exp_run_value(&run, "stacks");
    if (!code && !s.code && !s.count && !state)
        code = tacho_fail(err, TACHO_ENOTFOUND, "record with: tacho run --stacks -- COMMAND",
                          "no call stacks were sampled in this run");
    else if (!code && !s.code && !s.count && !strncmp(state, "sampled", 7))
        code =
            tacho_fail(err, TACHO_ENOTFOUND, "more samples: tacho run --stacks-hz 1000 -- COMMAND",
                       "the target used too little CPU time for a call stack");
    else if (!code && !s.code && !s.count)
        code = tacho_fail(err, TACHO_ENOTFOUND, "'tacho doctor' tells what is missing",
                          "call stacks: %.300s", state);
    if (!code && !s.code)
        code = store_sample_each(r, 0, on_sample, &s);
    free(s.frame);
    free(s.parent);
    return end_write(out, &run, &tree, s.code ? s.code : code, err);
}
