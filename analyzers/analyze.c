/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of analyzers and the frame they run in. They run in the order of the table: later ones
 * read what earlier ones left.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/clocks.h"
#include "analyzers/findings/findings.h"
#include "analyzers/steps/analyzer.h"
#include "analyzers/trace/trace_part.h"
#include "analyzers/work/ceilings.h"

static const struct an_analyzer *const analyzers[] = {
#define ANALYZER_ROW(name) &name,
    AN_ANALYZER_MAP(ANALYZER_ROW)
#undef ANALYZER_ROW
};
#define ANALYZERS (sizeof analyzers / sizeof *analyzers)

const struct an_listing *an_list(void)
{
    static struct an_listing list[ANALYZERS + 1];
    for (size_t i = 0; i < ANALYZERS; i++)
        list[i] = (struct an_listing){analyzers[i]->name, analyzers[i]->help};
    return list;
}

const char *an_class_key(enum an_class c)
{
    static const char *const keys[] = {
#define CLASS_KEY(name, key, text) #key,
        AN_CLASS_MAP(CLASS_KEY)
#undef CLASS_KEY
    };
    return c < AN_CLASS_COUNT ? keys[c] : "";
}

const char *an_class_label(enum an_class c)
{
    static const char *const labels[] = {
#define CLASS_LABEL(name, key, text) text,
        AN_CLASS_MAP(CLASS_LABEL)
#undef CLASS_LABEL
    };
    return c < AN_CLASS_COUNT ? labels[c] : "";
}

const char *an_confidence_text(enum an_confidence c)
{
    static const char *const texts[] = {"low", "medium", "high"};
    return c <= AN_HIGH ? texts[c] : "";
}

void an_problem(struct an_context *c, const char *format, ...)
{
    char text[512];
    va_list ap;
    if (c->problems == sizeof c->problem / sizeof *c->problem)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    c->problem[c->problems++] = an_arena_text(c->a, text);
}

/* Many steps, nothing lost, nothing that contradicts itself, little that is not explained. */
enum an_confidence an_confidence_of(const struct an_context *c)
{
    const struct an_result *r = c->r;
    const struct an_value *rest = &r->budget.pct[AN_CLASS_UNATTRIBUTED];
    double unexplained = rest->valid ? rest->value : 100;
    bool lost = !r->trust.lost_events.valid || r->trust.lost_events.value || c->problems;
    int64_t steps = r->steps.detailed,
            apart = an_time_sub(r->steps.last_index, r->steps.first_index);
    steps = steps <= apart ? steps : apart + 1; /* one step on many ranks is one observation */
    if (steps < 5 || unexplained > 20)
        return AN_LOW;
    return steps >= 20 && !lost && unexplained <= 5 ? AN_HIGH : AN_MEDIUM;
}

/* ---- the run ------------------------------------------------------------------------------------------------------------ */

static bool runs_steps(const struct an_context *c, size_t process)
{
    for (size_t k = 0; k < c->lane_count; k++)
        if (c->lane[k].process == process)
            return true;
    return false;
}

static struct an_count key_number(const struct an_trace *t, const char *key, const char *reason)
{
    const char *v = an_trace_key(t, key);
    char *end = NULL;
    long long n = v ? strtoll(v, &end, 10) : 0;
    return v && end != v && !*end ? an_int(n) : an_int_none(reason);
}

static int describe_run(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_run *r = &c->r->run;
    const struct an_process *main = NULL;
    struct an_key *keys = an_arena_zero(c->a, t->key_count, sizeof *keys);
    if (!keys)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->key_count; i++)
        keys[i] = (struct an_key){an_arena_text(c->a, t->key[i].key),
                                  an_arena_text(c->a, t->key[i].value)};
    for (size_t p = 0; p < t->process_count; p++) {
        bool steps = runs_steps(c, p);
        r->ranks += steps;
        main =
            !main || (steps && !runs_steps(c, (size_t)(main - t->process))) ? &t->process[p] : main;
    }
    for (size_t k = 0; k < t->track_count; k++)
        r->threads += !strcmp(t->track[k].kind, "thread");
    r->processes = (int64_t)t->process_count;
    r->file = an_arena_text(c->a, c->o->file ? c->o->file : "");
    r->live = c->o->live;
    r->program = an_arena_text(c->a, main ? main->program : "");
    r->host = an_arena_text(c->a, main ? main->host : "");
    r->command = an_findings_command(c, "");
    r->ended = an_arena_text(c->a, main ? main->ended : "");
    r->exit_status =
        main && main->exit_status != STORE_ABSENT
            ? an_int(main->exit_status)
            : key_number(t, "exit_status", c->o->live ? "still running" : "not recorded");
    r->cores =
        key_number(t, "cpu.usable", "the file does not say how many cores the target could use");
    r->duration_s = t->t1 >= t->t0 ? an_num((double)an_time_sub(t->t1, t->t0) / 1e9)
                                   : an_num_none("nothing was recorded");
    r->keys = keys;
    r->key_count = t->key_count;
    return 0;
}

/* The file's ceilings, behind those that an analyzer took from data sheets or options. */
static int copy_ceilings(struct an_context *c)
{
    const struct an_trace *t = c->t;
    size_t n = c->r->ceiling_count;
    struct an_ceiling *rows = an_arena_zero(c->a, n + t->ceiling_count, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    if (n)
        memcpy(rows, c->r->ceilings, n * sizeof *rows);
    for (size_t i = 0; i < t->ceiling_count; i++)
        rows[n + i] = (struct an_ceiling){.device = an_arena_text(c->a, t->ceiling[i].device),
                                          .resource = an_arena_text(c->a, t->ceiling[i].resource),
                                          .dtype = an_arena_text(c->a, t->ceiling[i].dtype),
                                          .source = an_arena_text(c->a, t->ceiling[i].source),
                                          .value = t->ceiling[i].value,
                                          .unit = an_ceiling_unit(t->ceiling[i].resource)};
    c->r->ceilings = rows;
    c->r->ceiling_count = n + t->ceiling_count;
    return 0;
}

/* ---- running the table --------------------------------------------------------------------------------------------------- */

static const char *missing_input(const struct an_context *c, unsigned needs)
{
    unsigned have =
        (c->t->slice.count ? AN_INPUT_SLICES : 0u) | (c->step_count ? AN_INPUT_STEPS : 0u) |
        (c->r->steps.detailed ? AN_INPUT_DETAIL : 0u) |
        (c->t->counter.count ? AN_INPUT_COUNTERS : 0u) | (c->gpu ? AN_INPUT_DEVICES : 0u);
#define INPUT_TEXT(name, bit, text) \
    if (needs & ~have & (bit)) \
        return (bit) == AN_INPUT_STEPS && c->r->steps.reason ? c->r->steps.reason : (text);
    AN_INPUT_MAP(INPUT_TEXT)
#undef INPUT_TEXT
    return NULL;
}

static int run_all(struct an_context *c)
{
    int rc = 0;
    for (size_t i = 0; i < ANALYZERS && !rc; i++) {
        const char *missing = missing_input(c, analyzers[i]->needs);
        if (missing)
            analyzers[i]->absent(c, missing);
        else
            rc = analyzers[i]->run(c);
        if (!rc && analyzers[i] == &an_steps)
            rc = describe_run(c); /* needs to know which processes run steps */
    }
    if (rc || (rc = copy_ceilings(c)))
        return rc;
    c->r->trust.problems = an_arena_copy(c->a, c->problem, c->problems * sizeof *c->problem);
    c->r->trust.problem_count = c->problems;
    return c->r->trust.problems && !an_arena_failed(c->a) && !an_arena_failed(c->work)
               ? 0
               : TACHO_ENOMEM;
}

static const char *describe_part(struct an_context *c, const struct an_trace_part *p)
{
    if (p->steps)
        return an_arena_format(c->a, "steps %" PRId64 " to %" PRId64, p->first_index,
                               p->last_index);
    return an_arena_format(c->a, "%zu of the ranges", c->t->slice.count);
}

int an_analyze(store_reader *r, const struct an_options *o, struct an_result **out,
               struct tacho_error *err)
{
    static const struct an_options defaults = {.file = NULL};
    struct an_context c = {.o = o ? o : &defaults};
    struct an_trace_part part = {.whole = true};
    struct an_trace *t = NULL;
    struct an_result *result = NULL;
    *out = NULL;
    int rc = 0;
    if (c.o->part_slices > 0)
        rc = an_trace_part_find(r, c.o->part_slices, c.o->part_until ? c.o->part_until : INT64_MAX,
                                &part);
    if (rc)
        return tacho_fail(err, rc, NULL, "%s",
                          store_reader_error(r)->code ? store_reader_error(r)->what
                                                      : tacho_error_text(rc));
    if ((rc = an_trace_load_part(r, &part, &t, err)))
        return rc;
    rc = TACHO_ENOMEM;
    if (!(result = calloc(1, sizeof *result)) || !(result->arena = an_arena_new()) ||
        !(c.work = an_arena_new()))
        goto out;
    c.t = t;
    c.r = result;
    c.a = result->arena;
    if (!part.whole) {
        result->run.window = describe_part(&c, &part);
        result->run.part_start = part.t0;
        result->run.part_end = part.t1;
    }
    if (!(rc = an_clocks_align(t, c.a, &result->ranks.clocks)) && !(rc = an_devices_build(&c, err)))
        rc = run_all(&c);
out:
    an_trace_free(t);
    an_arena_free(c.work);
    if (!rc) {
        *out = result;
        return 0;
    }
    an_result_free(result);
    if (rc == TACHO_EFORMAT) /* *err says it: the user's table of classes */
        return rc;
    return tacho_fail(err, rc, NULL, "analysing the run: %s", tacho_error_text(rc));
}

void an_result_free(struct an_result *r)
{
    if (!r)
        return;
    an_arena_free(r->arena);
    free(r);
}
