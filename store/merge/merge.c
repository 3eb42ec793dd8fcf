/* SPDX-License-Identifier: Apache-2.0 */
#include "store/merge/merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/merge/merge_private.h"

/* ---- inputs ---------------------------------------------------------------------------------------------------------------- */

int merge_query(struct merge *m, struct merge_source *s, const char *sql,
                int (*row)(void *ctx, int columns, const struct store_cell *cells), void *ctx)
{
    int rc = store_query(s->r, sql, NULL, row, ctx);
    if (rc && rc == store_reader_error(s->r)->code)
        m->why = *store_reader_error(s->r);
    return rc;
}

static int on_key(void *ctx, const char *key, const char *value)
{
    struct merge_source *s = ctx;
    const struct {
        const char *key;
        char *to;
        size_t size;
    } texts[] = {{"host", s->host, sizeof s->host},
                 {"boot_id", s->boot, sizeof s->boot},
                 {"job.id", s->job, sizeof s->job},
                 {"source", s->source, sizeof s->source},
                 {"clock", s->clock_text, sizeof s->clock_text}};
    const struct {
        const char *key;
        int64_t *to;
    } numbers[] = {{"start.monotonic_ns", &s->begun},
                   {"end.monotonic_ns", &s->ended},
                   {"start.realtime_ns", &s->begun_wall}};
    for (size_t i = 0; value && i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key))
            snprintf(texts[i].to, texts[i].size, "%s", value);
    for (size_t i = 0; value && i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key))
            *numbers[i].to = strtoll(value, NULL, 10);
    s->merged |= !strcmp(key, "merge.files");
    if (!strncmp(key, "nvml.", 5)) {
        long long gpu = strtoll(key + 5, NULL, 10);
        s->nvml = gpu + 1 > s->nvml ? gpu + 1 : s->nvml; /* for now: how many it has */
    }
    return 0;
}

static int on_rank(void *ctx, int columns, const struct store_cell *cells)
{
    struct merge_source *s = ctx;
    (void)columns;
    if (cells[0].type != STORE_CELL_INTEGER)
        return 0;
    s->lowest = cells[0].integer < s->lowest ? cells[0].integer : s->lowest;
    if (!cells[1].integer)
        return 0;
    int64_t *p = realloc(s->rank, (s->rank_count + 1) * sizeof *p);
    if (!p)
        return TACHO_ENOMEM;
    s->rank = p;
    s->rank[s->rank_count++] = cells[0].integer;
    return 0;
}

static int on_wall(void *ctx, int columns, const struct store_cell *cells)
{
    struct merge_source *s = ctx;
    (void)columns;
    s->anchor_wall = cells[0].integer;
    return 0;
}

static int source_open(struct merge *m, struct merge_source *s, const char *path)
{
    static const char ranks[] = "SELECT rank, EXISTS (SELECT 1 FROM step WHERE step.process = "
                                "process.id) FROM process WHERE "
                                "rank IS NOT NULL ORDER BY rank";
    static const char wall[] = "SELECT realtime - monotonic FROM clock_anchor ORDER BY 1 LIMIT 1 "
                               "OFFSET (SELECT count(*) / 2 "
                               "FROM clock_anchor)";
    struct stat st;
    *s = (struct merge_source){.path = path,
                               .begun = STORE_ABSENT,
                               .ended = STORE_ABSENT,
                               .begun_wall = STORE_ABSENT,
                               .anchor_wall = STORE_ABSENT,
                               .lowest = INT64_MAX};
    int rc = store_open(path, &s->r, &m->why);
    if (rc == 0 && stat(path, &st) == 0) {
        s->device = (int64_t)st.st_dev;
        s->inode = (int64_t)st.st_ino;
    }
    if (rc == 0 && (rc = store_run_each(s->r, on_key, s)) != 0)
        m->why = *store_reader_error(s->r);
    rc = rc ? rc : merge_query(m, s, ranks, on_rank, s);
    rc = rc ? rc : merge_query(m, s, wall, on_wall, s);
    if (rc == 0 && (rc = store_count(s->r, "slice", &s->slices)) != 0)
        m->why = *store_reader_error(s->r);
    m->total += s->slices;
    return rc;
}

static void source_close(struct merge_source *s)
{
    store_reader_close(s->r);
    free(s->rank);
    free(s->strings.id);
    free(s->details.id);
    free(s->processes.id);
    free(s->tracks.id);
    free(s->stacks.id);
}

/* ---- are they of one run? -------------------------------------------------------------------------------------------------- */

static bool same_recording(const struct merge_source *a, const struct merge_source *b)
{
    return (a->device == b->device && a->inode == b->inode) ||
           (a->boot[0] && !strcmp(a->boot, b->boot) && a->begun != STORE_ABSENT &&
            a->begun == b->begun && a->lowest == b->lowest && a->slices == b->slices);
}

static int64_t common_rank(const struct merge_source *a, const struct merge_source *b)
{
    for (size_t i = 0; i < a->rank_count; i++)
        for (size_t k = 0; k < b->rank_count; k++)
            if (a->rank[i] == b->rank[k])
                return a->rank[i];
    return STORE_ABSENT;
}

static bool apart(const struct merge_source *a, const struct merge_source *b)
{
    if (a->begun_wall == STORE_ABSENT || b->begun_wall == STORE_ABSENT ||
        a->ended == STORE_ABSENT || b->ended == STORE_ABSENT)
        return false;
    int64_t end_a = a->begun_wall + (a->ended - a->begun),
            end_b = b->begun_wall + (b->ended - b->begun);
    return end_a < b->begun_wall || end_b < a->begun_wall;
}

static int check_one(struct merge *m, const struct merge_source *s)
{
    if (s->merged)
        return tacho_fail(&m->why, TACHO_EFORMAT,
                          "merge the files that it was made of, all at once",
                          "%s: was made by 'tacho merge'", s->path);
    if (s->source[0])
        return tacho_fail(&m->why, TACHO_EFORMAT,
                          "give the traces themselves to 'tacho import', all at once",
                          "%s: was imported from a trace of another tool", s->path);
    return 0;
}

static int check_pair(struct merge *m, const struct merge_source *a, const struct merge_source *b)
{
    static const char force[] = "to merge them all the same: --force";
    if (same_recording(a, b))
        return tacho_fail(&m->why, TACHO_EFORMAT, "give each file once",
                          "%s: the same recording as %s", b->path, a->path);
    if (m->o->force)
        return 0;
    if (strcmp(a->job, b->job) != 0)
        return tacho_fail(&m->why, TACHO_EFORMAT, force,
                          "%s: of another job than %s (%.60s, %.60s)", b->path, a->path,
                          b->job[0] ? b->job : "none", a->job[0] ? a->job : "none");
    int64_t rank = common_rank(a, b);
    if (rank != STORE_ABSENT)
        return tacho_fail(
            &m->why, TACHO_EFORMAT,
            "two recordings one after the other are compared with 'tacho diff'; --force",
            "%s: rank %lld is in %s too", b->path, (long long)rank, a->path);
    if (apart(a, b))
        return tacho_fail(&m->why, TACHO_EFORMAT, force, "%s: was recorded at another time than %s",
                          b->path, a->path);
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct merge_source *x = a, *y = b;
    if (x->lowest != y->lowest)
        return x->lowest < y->lowest ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int open_all(struct merge *m)
{
    int rc = 0;
    m->source = calloc(m->o->in_count, sizeof *m->source);
    if (!m->source)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < m->o->in_count && rc == 0; i++) {
        rc = source_open(m, &m->source[i], m->o->in[i]);
        m->count++;
        m->source[i].index = (int64_t)i;
        rc = rc ? rc : check_one(m, &m->source[i]);
    }
    for (size_t i = 0; i < m->count && rc == 0; i++)
        for (size_t k = 0; k < i && rc == 0; k++)
            rc = check_pair(m, &m->source[k], &m->source[i]);
    if (rc == 0)
        qsort(m->source, m->count, sizeof *m->source, by_rank);
    for (size_t i = 0; i < m->count; i++)
        m->source[i].index = (int64_t)i;
    return rc;
}

/* GPUs of machines are numbered on: what NVML calls 0 on the second machine is not the first one's.
 */
static void number_gpus(struct merge *m)
{
    int64_t before = 0;
    for (size_t machine = 0; machine < m->machines; machine++) {
        int64_t most = 0;
        for (size_t i = 0; i < m->count; i++)
            if (m->source[i].machine == machine) {
                most = m->source[i].nvml > most ? m->source[i].nvml : most;
                m->source[i].nvml = before;
            }
        before += most;
    }
}

static void sum_up(struct merge *m)
{
    struct store_merge_result *r = m->r;
    r->files = (int64_t)m->count;
    r->hosts = (int64_t)m->machines;
    r->matched = INT64_MAX;
    for (size_t i = 0; i < m->count; i++) {
        const struct merge_source *s = &m->source[i];
        r->ranks += (int64_t)s->rank_count;
        r->how = s->clock.how > r->how ? s->clock.how : r->how;
        r->error = isnan(r->error) || isnan(s->clock.error) ? NAN : fmax(r->error, s->clock.error);
        if (s->clock.how == STORE_MERGE_BY_COLLECTIVES && s->clock.matched < r->matched)
            r->matched = s->clock.matched;
    }
    if (r->matched == INT64_MAX)
        r->matched = 0;
}

/* ---- the output ------------------------------------------------------------------------------------------------------------ */

static int write_all(void *ctx, store *out, struct tacho_error *why)
{
    struct merge *m = ctx;
    m->out = out;
    int rc = store_begin(out);
    for (size_t i = 0; i < m->count && rc == 0; i++)
        rc = merge_rows(m, &m->source[i]);
    rc = rc ? rc : merge_keys(m);
    rc = rc ? rc : store_commit(out);
    *why = m->why;
    return rc;
}

int store_merge(const struct store_merge_options *o, struct store_merge_result *r,
                struct tacho_error *err)
{
    struct merge m = {.o = o, .r = r};
    int rc = 0;
    *r = (struct store_merge_result){0};
    if (o->in_count < 2 || o->in_count > STORE_MERGE_FILES)
        rc = tacho_fail(&m.why, TACHO_EUSAGE, "give the files of all nodes",
                        "%zu file%s: 2 to %d can be merged", o->in_count,
                        o->in_count == 1 ? "" : "s", STORE_MERGE_FILES);
    else if (!access(o->out, F_OK))
        rc = tacho_fail(&m.why, TACHO_EEXISTS,
                        "tacho never overwrites: give another name with -o FILE",
                        "%s: exists already", o->out);
    rc = rc ? rc : open_all(&m);
    rc = rc ? rc : merge_align(&m);
    if (rc == 0) {
        number_gpus(&m);
        sum_up(&m);
        struct store_making making = {.path = o->out,
                                      .tag = "merge",
                                      .no_space =
                                          "free some space, or choose another place (-o FILE)",
                                      .fill = write_all,
                                      .ctx = &m};
        rc = store_make(&making, &m.why);
    }
    if (rc && !m.why.code)
        tacho_fail(&m.why, rc, NULL, "%s: %s", o->out, tacho_error_text(rc));
    if (rc && err)
        *err = m.why;
    for (size_t i = 0; i < m.count; i++)
        source_close(&m.source[i]);
    free(m.source);
    return rc;
}
