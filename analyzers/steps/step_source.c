/* SPDX-License-Identifier: Apache-2.0
 *
 * Where steps come from, in the order of DESIGN 5: tacho.step payloads; ranges named
 * ProfilerStep#N; the time between two ends of Optimizer.step; an outermost, regular range whose
 * name holds step, iteration or train_step as a whole word; the time between two groups of
 * optimizer kernels on a device (step_kernels.c). A program may have several optimizers that each
 * make one update a step: of several names of Optimizer.step the one that comes least often counts,
 * of equal ones the last.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/step_source.h"

#define REGULAR_LEAST 3 /* ranges of a name before it can be a step */

int an_found_add(struct finder *f, struct found_step s)
{
    int rc = an_grow(&f->found, &f->room, f->count + 1, sizeof *f->found);
    if (!rc)
        f->found[f->count++] = s;
    return rc;
}

static bool is_thread(const struct an_track *k)
{
    return strcmp(k->kind, "range") && strcmp(k->kind, "counter") && strcmp(k->kind, "stream");
}

/* ---- tacho.step --------------------------------------------------------------------------------------------------------- */

struct step_slice {
    uint32_t process, track, slice;
    int64_t start;
};

static int step_slice_order(const void *x, const void *y)
{
    const struct step_slice *a = x, *b = y;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->slice > b->slice) - (a->slice < b->slice);
}

/* Every range with a tacho.step payload, by process and start. */
static int step_slices(const struct an_trace *t, struct step_slice **out, size_t *count)
{
    size_t n = 0, room = 0;
    struct step_slice *all = NULL;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        if (!is_thread(track))
            continue;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            if (an_trace_role(t, t->slice.detail[i]) != AN_ROLE_STEP)
                continue;
            if (an_grow(&all, &room, n + 1, sizeof *all)) {
                free(all);
                return TACHO_ENOMEM;
            }
            all[n++] = (struct step_slice){track->process, k, (uint32_t)i, t->slice.start[i]};
        }
    }
    if (n)
        qsort(all, n, sizeof *all, step_slice_order);
    *out = all;
    *count = n;
    return 0;
}

/* First one of a process that starts at or after `start`, or n. */
static size_t step_slice_seek(const struct step_slice *all, size_t n, uint32_t process,
                              int64_t start)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all[middle].process < process ||
            (all[middle].process == process && all[middle].start < start))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Rows of the table `step`; their ranges, where the file has them, tell the thread. */
static int find_rows(struct finder *f, const struct step_slice *all, size_t n)
{
    const struct an_trace *t = f->c->t;
    for (size_t i = 0; i < t->step_count; i++) {
        const struct an_step_row *r = &t->step[i];
        size_t at = step_slice_seek(all, n, r->process, r->start);
        const struct step_slice *s =
            at < n && all[at].process == r->process && all[at].start == r->start ? &all[at] : NULL;
        struct found_step x = {.process = r->process, .track = s ? s->track : AN_NONE};
        x.s = (struct an_step){.slice = s ? s->slice : AN_NONE,
                               .index = r->index,
                               .start = r->start,
                               .end = r->end,
                               .tokens = r->tokens < 0 ? STORE_ABSENT : r->tokens,
                               .samples = r->samples < 0 ? STORE_ABSENT : r->samples,
                               .paused = r->paused};
        if (!s) { /* a step cut by a limit ran where the other steps of its process ran */
            size_t any = step_slice_seek(all, n, r->process, INT64_MIN);
            x.track = any < n && all[any].process == r->process ? all[any].track : AN_NONE;
        }
        int rc = an_found_add(f, x);
        if (rc)
            return rc;
    }
    return 0;
}

static int find_marked(struct finder *f)
{
    const struct an_trace *t = f->c->t;
    struct step_slice *all = NULL;
    size_t n = 0;
    int rc = step_slices(t, &all, &n);
    if (!rc && t->step_count)
        rc = find_rows(f, all, n);
    for (size_t i = 0; !rc && !t->step_count && i < n; i++) {
        bool open = t->slice.dur[all[i].slice] == AN_OPEN;
        struct found_step x = {.process = all[i].process, .track = all[i].track};
        x.s = (struct an_step){.slice = all[i].slice,
                               .index = (int64_t)i,
                               .start = all[i].start,
                               .end = open ? STORE_ABSENT : an_slice_end(t, all[i].slice),
                               .tokens = STORE_ABSENT,
                               .samples = STORE_ABSENT};
        rc = an_found_add(f, x);
    }
    free(all);
    return rc;
}

/* ---- by name ------------------------------------------------------------------------------------------------------------ */

static bool word_is(const char *at, size_t n, const char *word)
{
    return strlen(word) == n && !strncasecmp(at, word, n);
}

/* step, iteration or train_step as a whole word; a number that counts them ("step 12",
 * "iteration_3") does not disturb. */
static bool has_step_word(const char *name)
{
    while (*name) {
        size_t n = 0;
        while (isalnum((unsigned char)name[n]) || name[n] == '_')
            n++;
        size_t bare = n;
        while (bare && isdigit((unsigned char)name[bare - 1]))
            bare--;
        while (bare && name[bare - 1] == '_')
            bare--;
        if (word_is(name, bare, "step") || word_is(name, bare, "iteration") ||
            word_is(name, bare, "train_step"))
            return true;
        name += n ? n : 1;
    }
    return false;
}

static enum name_kind name_kind(const char *name)
{
    if (!strncmp(name, "ProfilerStep#", 13) && isdigit((unsigned char)name[13]))
        return NAME_PROFILER_STEP;
    if (!strncmp(name, "Optimizer.step", 14) && !isalnum((unsigned char)name[14]))
        return NAME_OPTIMIZER;
    return has_step_word(name) ? NAME_WORD : NAME_OTHER;
}

static enum name_kind kind_of(const struct finder *f, size_t slice)
{
    uint32_t name = f->c->t->slice.name[slice];
    return name < f->c->t->string_count ? (enum name_kind)f->kind[name] : NAME_OTHER;
}

/* Is a range of the same kind of name open around slice i? */
static bool is_nested(const struct finder *f, size_t i, enum name_kind kind)
{
    const struct an_trace *t = f->c->t;
    int levels = AN_DEPTH_MAX;
    for (uint32_t p = t->slice.parent[i]; p != AN_NONE && levels--; p = t->slice.parent[p])
        if (kind_of(f, p) == kind && an_slice_open_at(t, p, i))
            return true;
    return false;
}

struct optimizer_name {
    uint32_t name;
    size_t count, last;
};

/* Of the names of a kind on a track the one that comes least often, at least twice; of equal ones
 * the last. AN_NONE: none. */
static int rarest_name(struct finder *f, const struct an_track *track, enum name_kind kind,
                       uint32_t *out)
{
    struct optimizer_name *all = NULL, *best = NULL;
    size_t n = 0, room = 0;
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        if (kind_of(f, i) != kind || is_nested(f, i, kind))
            continue;
        uint32_t name = f->c->t->slice.name[i];
        size_t k = 0;
        while (k < n && all[k].name != name)
            k++;
        if (k == n) {
            if (n == 64) /* that many are no optimizers */
                continue;
            if (an_grow(&all, &room, n + 1, sizeof *all)) {
                free(all);
                return TACHO_ENOMEM;
            }
            all[n++] = (struct optimizer_name){.name = name};
        }
        all[k].count++;
        all[k].last = i;
    }
    for (size_t k = 0; k < n; k++)
        if (all[k].count > 1 && (!best || all[k].count < best->count ||
                                 (all[k].count == best->count && all[k].last > best->last)))
            best = &all[k];
    *out = best ? best->name : AN_NONE;
    free(all);
    return 0;
}

/* One step for each range of that kind of name (ends = false), or from the end of each to the end
 * of the next (ends = true). */
static int find_named(struct finder *f, enum name_kind kind, bool ends)
{
    const struct an_trace *t = f->c->t;
    int rc = 0;
    for (uint32_t k = 0; k < t->track_count && !rc; k++) {
        const struct an_track *track = &t->track[k];
        int64_t before = STORE_ABSENT, ordinal = 0;
        uint32_t name = AN_NONE;
        if (!is_thread(track))
            continue;
        if (ends && (rc = rarest_name(f, track, kind, &name)))
            return rc;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc;
             i++) {
            if (kind_of(f, i) != kind || is_nested(f, i, kind) ||
                (ends && t->slice.name[i] != name))
                continue;
            int64_t end = t->slice.dur[i] == AN_OPEN ? STORE_ABSENT : an_slice_end(t, i);
            struct found_step x = {.process = track->process, .track = k};
            x.s = (struct an_step){.slice = ends ? AN_NONE : (uint32_t)i,
                                   .index = ordinal,
                                   .start = ends ? before : t->slice.start[i],
                                   .end = end,
                                   .tokens = STORE_ABSENT,
                                   .samples = STORE_ABSENT};
            if (kind == NAME_PROFILER_STEP)
                x.s.index = strtoll(an_trace_name(t, t->slice.name[i]) + 13, NULL, 10);
            if (!ends || (before != STORE_ABSENT && end != STORE_ABSENT))
                rc = an_found_add(f, x);
            before = end;
            ordinal++;
        }
    }
    return rc;
}

/* Name without the number that counts: "step 12" and "step 13" are one group. Length of the part
 * that is compared. */
static size_t group_length(const char *name)
{
    size_t n = strlen(name);
    while (n && (isdigit((unsigned char)name[n - 1]) || strchr(" #:_-", name[n - 1])))
        n--;
    return n;
}

struct name_group {
    uint32_t track, name;
    size_t count;
    int64_t total, first, last;
};

static bool group_is(const struct finder *f, const struct name_group *g, uint32_t track,
                     const char *name)
{
    const char *other = an_trace_name(f->c->t, g->name);
    size_t n = group_length(name);
    return g->track == track && group_length(other) == n && !memcmp(other, name, n);
}

/* The group that covers most time on a track; regular: at least REGULAR_LEAST ranges that cover
 * half of their span. */
static int best_group(struct finder *f, uint32_t k, struct name_group *best)
{
    const struct an_trace *t = f->c->t;
    const struct an_track *track = &t->track[k];
    struct name_group *all = NULL;
    size_t n = 0, room = 0;
    best->count = 0;
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        if (kind_of(f, i) != NAME_WORD || t->slice.dur[i] == AN_OPEN || is_nested(f, i, NAME_WORD))
            continue;
        const char *name = an_trace_name(t, t->slice.name[i]);
        size_t g = 0;
        while (g < n && !group_is(f, &all[g], k, name))
            g++;
        if (g == n) {
            if (n == 64) /* that many different names are not one regular range */
                continue;
            if (an_grow(&all, &room, n + 1, sizeof *all)) {
                free(all);
                return TACHO_ENOMEM;
            }
            all[n++] = (struct name_group){
                .track = k, .name = t->slice.name[i], .first = t->slice.start[i]};
        }
        all[g].count++;
        all[g].total = an_time_add(all[g].total, t->slice.dur[i]);
        all[g].last = an_slice_end(t, i);
    }
    for (size_t g = 0; g < n; g++)
        if (all[g].count >= REGULAR_LEAST &&
            all[g].total >= an_time_sub(all[g].last, all[g].first) / 2 &&
            (!best->count || all[g].total > best->total))
            *best = all[g];
    free(all);
    return 0;
}

/* One lane a process: the thread whose group covers most time. */
static int find_regular(struct finder *f, const char **source)
{
    const struct an_trace *t = f->c->t;
    for (uint32_t p = 0; p <= t->process_count; p++) {
        uint32_t process = p < t->process_count ? p : AN_NONE;
        struct name_group best = {.count = 0}, g;
        for (uint32_t k = 0; k < t->track_count; k++) {
            if (t->track[k].process != process || !is_thread(&t->track[k]))
                continue;
            if (best_group(f, k, &g))
                return TACHO_ENOMEM;
            if (g.count && (!best.count || g.total > best.total))
                best = g;
        }
        if (!best.count)
            continue;
        const struct an_track *track = &t->track[best.track];
        int64_t ordinal = 0;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            if (kind_of(f, i) != NAME_WORD || is_nested(f, i, NAME_WORD) ||
                !group_is(f, &best, best.track, an_trace_name(t, t->slice.name[i])))
                continue;
            struct found_step x = {.process = process, .track = best.track};
            x.s = (struct an_step){.slice = (uint32_t)i,
                                   .index = ordinal++,
                                   .start = t->slice.start[i],
                                   .end = t->slice.dur[i] == AN_OPEN ? STORE_ABSENT
                                                                     : an_slice_end(t, i),
                                   .tokens = STORE_ABSENT,
                                   .samples = STORE_ABSENT};
            if (an_found_add(f, x))
                return TACHO_ENOMEM;
        }
        if (!*source) {
            const char *name = an_trace_name(t, best.name);
            *source = an_arena_format(f->c->a, "nvtx:%.*s", (int)group_length(name), name);
        }
    }
    return 0;
}

/* ---- lanes -------------------------------------------------------------------------------------------------------------- */

static int found_order(const void *x, const void *y)
{
    const struct found_step *a = x, *b = y;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->s.start != b->s.start)
        return a->s.start < b->s.start ? -1 : 1;
    return (a->s.index > b->s.index) - (a->s.index < b->s.index);
}

static int make_lanes(struct finder *f)
{
    struct an_context *c = f->c;
    size_t lanes = 0;
    if (!f->count)
        return 0;
    qsort(f->found, f->count, sizeof *f->found, found_order);
    for (size_t i = 0; i < f->count; i++)
        lanes += !i || f->found[i].process != f->found[i - 1].process ||
                 f->found[i].track != f->found[i - 1].track;
    c->step = an_arena_zero(c->work, f->count, sizeof *c->step);
    c->lane = an_arena_zero(c->work, lanes, sizeof *c->lane);
    if (!c->step || !c->lane)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < f->count; i++) {
        const struct found_step *x = &f->found[i];
        if (!i || x->process != f->found[i - 1].process || x->track != f->found[i - 1].track) {
            int64_t rank = x->process != AN_NONE ? c->t->process[x->process].rank : STORE_ABSENT;
            struct an_lane *l = &c->lane[c->lane_count];
            *l = (struct an_lane){.process = x->process,
                                  .track = x->track,
                                  .device = AN_NONE,
                                  .first = i,
                                  .rank = rank == STORE_ABSENT ? (int64_t)c->lane_count : rank};
            c->lane_count++;
        }
        c->step[i] = x->s;
        c->step[i].host_start = x->s.start;
        c->step[i].host_end = x->s.end;
        c->step[i].lane = (uint32_t)(c->lane_count - 1);
        c->lane[c->lane_count - 1].count++;
    }
    c->step_count = f->count;
    return 0;
}

int an_steps_find(struct an_context *c, const char **source)
{
    struct finder f = {.c = c};
    int rc = find_marked(&f);
    *source = f.count ? "tacho.step" : NULL;
    if (!rc && !f.count) {
        rc = (f.kind = malloc(c->t->string_count + 1)) ? 0 : TACHO_ENOMEM;
        for (size_t i = 0; !rc && i < c->t->string_count; i++)
            f.kind[i] = (uint8_t)name_kind(c->t->string[i]);
    }
    if (!rc && !f.count) {
        rc = find_named(&f, NAME_PROFILER_STEP, false);
        *source = f.count ? "ProfilerStep" : NULL;
        if (!rc)
            an_steps_accumulate(&f);
    }
    if (!rc && !f.count) {
        rc = find_named(&f, NAME_OPTIMIZER, true);
        *source = f.count ? "Optimizer.step" : NULL;
    }
    if (!rc && !f.count)
        rc = find_regular(&f, source);
    if (!rc && !f.count && c->gpu)
        rc = an_steps_of_kernels(&f, source);
    if (!rc)
        rc = make_lanes(&f);
    if (!rc && c->gpu && c->step_count)
        rc = an_steps_project(c);
    free(f.kind);
    free(f.found);
    return rc;
}
