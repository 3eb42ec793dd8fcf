/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho-report/1 (DESIGN 7). Every key is always there. Whatever writes a null writes its reason into "absent" under the JSON
 * pointer of the null, in the same function, so that the two cannot disagree.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/escape.h"
#include "reports/formats.h"

#define TEXT_MOST 1024 /* characters of a name or sentence */
#define OPS_MOST  2000
#define PATH_MOST 160

struct writer {
    json_t *root, *absent;
    bool failed;
};

/* An object of the report and its JSON pointer. */
struct place {
    struct writer *w;
    json_t *object;
    char path[PATH_MOST];
};

static void set(struct place *p, const char *key, json_t *value)
{
    if (!value || json_object_set_new(p->object, key, value))
        p->w->failed = true;
}

static json_t *text_json(const char *text)
{
    char clean[TEXT_MOST * 4 + 8];
    rep_valid(clean, sizeof clean, text, TEXT_MOST);
    return json_string(clean);
}

static void put_null(struct place *p, const char *key, const char *reason)
{
    char pointer[PATH_MOST + 64];
    snprintf(pointer, sizeof pointer, "%s/%s", p->path, key);
    set(p, key, json_null());
    json_t *why = text_json(reason && *reason ? reason : "not known");
    if (!why || json_object_set_new(p->w->absent, pointer, why))
        p->w->failed = true;
}

static void put_text(struct place *p, const char *key, const char *text)
{
    set(p, key, text_json(text));
}

/* "" is "not known": a null with its reason. */
static void put_text_or(struct place *p, const char *key, const char *text, const char *reason)
{
    if (text && *text)
        put_text(p, key, text);
    else
        put_null(p, key, reason);
}

static void put_int(struct place *p, const char *key, int64_t v)
{
    set(p, key, json_integer(v));
}

static void put_bool(struct place *p, const char *key, bool v)
{
    set(p, key, json_boolean(v));
}

static void put_real(struct place *p, const char *key, double v, const char *reason)
{
    if (isfinite(v))
        set(p, key, json_real(v));
    else
        put_null(p, key, reason);
}

static void put(struct place *p, const char *key, struct an_value v)
{
    if (v.valid)
        put_real(p, key, v.value, "not a finite number");
    else
        put_null(p, key, v.reason);
}

static void put_count(struct place *p, const char *key, struct an_count v)
{
    if (v.valid)
        put_int(p, key, v.value);
    else
        put_null(p, key, v.reason);
}

static void put_us(struct place *p, const char *key, struct an_count ns)
{
    if (ns.valid)
        put_real(p, key, (double)ns.value / 1e3, "");
    else
        put_null(p, key, ns.reason);
}

static struct place open_object(struct place *parent, const char *key)
{
    struct place p = {.w = parent->w, .object = json_object()};
    snprintf(p.path, sizeof p.path, "%.*s/%s", PATH_MOST - 32, parent->path, key);
    set(parent, key, p.object);
    return p;
}

static json_t *open_list(struct place *parent, const char *key)
{
    json_t *list = json_array();
    set(parent, key, list);
    return list;
}

/* The next element of a list, itself an object. */
static struct place open_row(struct place *parent, const char *key, json_t *list)
{
    struct place p = {.w = parent->w, .object = json_object()};
    snprintf(p.path, sizeof p.path, "%.*s/%s/%zu", PATH_MOST - 48, parent->path, key, json_array_size(list));
    if (json_array_append_new(list, p.object))
        parent->w->failed = true;
    return p;
}

static void put_list(struct place *p, const char *key, const char *const *texts, size_t n)
{
    json_t *list = open_list(p, key);
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, text_json(texts[i])))
            p->w->failed = true;
}

/* ---- sections ----------------------------------------------------------------------------------------------------------- */

static void put_run(struct place *top, const struct an_run *r)
{
    struct place p = open_object(top, "run");
    put_text_or(&p, "file", r->file, "the caller did not name the file");
    put_text_or(&p, "program", r->program, "no process was recorded");
    put_text_or(&p, "host", r->host, "not recorded");
    put_text_or(&p, "ended", r->ended, r->live ? "still running" : "not recorded");
    put_count(&p, "exit_status", r->exit_status);
    put_bool(&p, "live", r->live);
    put_int(&p, "processes", r->processes);
    put_int(&p, "ranks", r->ranks);
    put_int(&p, "threads", r->threads);
    put_count(&p, "cores", r->cores);
    put(&p, "duration_s", r->duration_s);
    struct place keys = open_object(&p, "recorded");
    for (size_t i = 0; i < r->key_count; i++) {
        char key[TEXT_MOST];
        rep_valid(key, sizeof key, r->keys[i].key, 200);
        put_text(&keys, key, r->keys[i].value);
    }
}

static void put_steps(struct place *top, const struct an_steps *s)
{
    struct place p = open_object(top, "steps");
    put_text_or(&p, "source", s->source, s->reason);
    put_int(&p, "count", s->count);
    put_int(&p, "counted", s->counted);
    put_int(&p, "paused", s->paused);
    put_int(&p, "detailed", s->detailed);
    put(&p, "median_ms", s->median_ms);
    put(&p, "mean_ms", s->mean_ms);
    put(&p, "p95_ms", s->p95_ms);
    put(&p, "min_ms", s->min_ms);
    put(&p, "max_ms", s->max_ms);
    put(&p, "sd_ms", s->sd_ms);
    put(&p, "host_median_ms", s->host_median_ms);
    put(&p, "between_ms", s->between_ms);
    put(&p, "tokens_per_s", s->tokens_per_s);
    put(&p, "samples_per_s", s->samples_per_s);
    put(&p, "tokens_per_step", s->tokens_per_step);
    put(&p, "samples_per_step", s->samples_per_step);
    json_t *outliers = open_list(&p, "outliers"), *groups = open_list(&p, "groups");
    for (size_t i = 0; i < s->outlier_count; i++) {
        struct place row = open_row(&p, "outliers", outliers);
        put_int(&row, "rank", s->outliers[i].rank);
        put_int(&row, "index", s->outliers[i].index);
        put_real(&row, "ms", s->outliers[i].ms, "");
        put_real(&row, "score", s->outliers[i].score, "");
    }
    for (size_t i = 0; i < s->group_count; i++) {
        struct place row = open_row(&p, "groups", groups);
        put_count(&row, "tokens", s->groups[i].tokens);
        put_int(&row, "count", s->groups[i].count);
        put_real(&row, "median_ms", s->groups[i].median_ms, "");
    }
}

static void put_classes(struct place *p, const struct an_budget *b)
{
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        char key[40];
        snprintf(key, sizeof key, "%s_pct", an_class_key((enum an_class)k));
        put(p, key, b->pct[k]);
    }
}

static void put_budget(struct place *top, const struct an_result *r)
{
    struct place p = open_object(top, "budget");
    put_classes(&p, &r->budget);
    p = open_object(top, "budget_ns");
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        put_count(&p, an_class_key((enum an_class)k), r->budget.ns[k]);
    put_int(&p, "step_ns", r->budget.step_ns);
    put_int(&p, "phase_ns", r->budget.phase_ns);
    put_int(&p, "steps", r->budget.steps);
    json_t *list = open_list(top, "budget_by_device");
    for (size_t i = 0; i < r->device_count; i++) {
        struct place row = open_row(top, "budget_by_device", list);
        put_int(&row, "rank", r->devices[i].rank);
        put_text(&row, "device", r->devices[i].device);
        put_text_or(&row, "host", r->devices[i].host, "not recorded");
        put_int(&row, "steps", r->devices[i].budget.steps);
        put_bool(&row, "worst", r->devices[i].worst);
        put_classes(&row, &r->devices[i].budget);
    }
}

static void put_phases(struct place *top, const struct an_result *r)
{
    json_t *list = open_list(top, "phases");
    for (size_t i = 0; i < r->phase_count; i++) {
        struct place row = open_row(top, "phases", list);
        put_text(&row, "name", r->phases[i].name);
        put_int(&row, "count", r->phases[i].count);
        put_real(&row, "wall_ms", r->phases[i].wall_ms, "");
        put_real(&row, "exposed_ms", r->phases[i].exposed_ms, "");
    }
}

static void put_utilization(struct place *top, const struct an_utilization *u)
{
    struct place p = open_object(top, "utilization");
    put_count(&p, "model_flops_per_step", u->model_flops_per_step);
    put_count(&p, "hardware_flops_per_step", u->hardware_flops_per_step);
    put_count(&p, "palm_flops_per_step", u->palm_flops_per_step);
    put_count(&p, "model_flops", u->model_flops);
    put_count(&p, "hardware_flops", u->hardware_flops);
    put_count(&p, "palm_flops", u->palm_flops);
    put_bool(&p, "flops_vary", u->flops_vary);
    put(&p, "mfu", u->mfu);
    put(&p, "mfu_palm", u->mfu_palm);
    put(&p, "hfu", u->hfu);
    put(&p, "mfu_measured", u->mfu_measured);
    put(&p, "achieved_flops_per_s", u->achieved_flops);
    put_text_or(&p, "dtype", u->dtype, u->dtype_reason);
    put(&p, "peak_flops", u->peak_flops);
    put_text_or(&p, "peak_source", u->peak_source, u->peak_flops.valid ? "not recorded" : u->peak_flops.reason);
    put(&p, "roof_measured_flops", u->roof_measured_flops);
    put(&p, "flop_coverage_pct", u->flop_coverage_pct);
}

static void put_critical_path(struct place *top, const char *reason)
{
    struct place p = open_object(top, "critical_path");
    put_null(&p, "window_us", reason);
    put_null(&p, "length_us", reason);
    put_null(&p, "explained_pct", reason);
    put_null(&p, "by_cause_us", reason);
}

static void put_roofline(struct place *top, const struct an_result *r)
{
    struct place p = open_object(top, "roofline");
    json_t *list = open_list(&p, "ceilings");
    for (size_t i = 0; i < r->ceiling_count; i++) {
        const struct an_ceiling *c = &r->ceilings[i];
        bool flops = !strncmp(c->resource, "flops", 5);
        char name[256];
        snprintf(name, sizeof name, "%.60s %.60s%s%.60s", *c->device ? c->device : "any device", c->resource,
                 *c->dtype ? " " : "", c->dtype);
        struct place row = open_row(&p, "ceilings", list);
        put_text(&row, "name", name);
        put(&row, "flops_per_s", flops ? an_num(c->value) : an_num_none("a ceiling of bytes/s"));
        put(&row, "bytes_per_s", flops ? an_num_none("a ceiling of FLOP/s") : an_num(c->value));
        put_text_or(&row, "source", c->source, "not recorded");
    }
    put_null(&p, "points", r->roofline.reason);
}

static void put_loader(struct place *top, const struct an_loader *l)
{
    struct place p = open_object(top, "dataloader");
    put(&p, "wait_ms_per_step", l->wait_ms_per_step);
    if (l->stage_count) {
        struct place stages = open_object(&p, "stage_ms");
        for (size_t i = 0; i < l->stage_count; i++)
            put(&stages, l->stages[i].name, l->stages[i].ms_per_batch);
    } else {
        put_null(&p, "stage_ms", l->reason ? l->reason : "the program marks no loader stages (read, decode, collate)");
    }
    put_count(&p, "workers", l->workers);
    put(&p, "queue_depth_mean", l->queue_depth_mean);
    put_count(&p, "workers_needed", l->workers_needed);
}

static void put_kernels(struct place *top, const struct an_result *r)
{
    json_t *list = open_list(top, "kernels");
    size_t n = r->op_count < OPS_MOST ? r->op_count : OPS_MOST;
    for (size_t i = 0; i < n; i++) {
        const struct an_op *o = &r->ops[i];
        struct place row = open_row(top, "kernels", list);
        put_text(&row, "name", o->name);
        put_text(&row, "category", o->category);
        put_text(&row, "kind", o->kind);
        put_text(&row, "pass", o->pass);
        put_int(&row, "count", o->count);
        put_real(&row, "total_us", (double)o->total_ns / 1e3, "");
        put(&row, "mean_us", o->mean_us);
        put_us(&row, "min_us", o->min_ns);
        put_us(&row, "max_us", o->max_ns);
        put(&row, "sd_us", o->sd_us);
        put_real(&row, "self_us", (double)o->self_ns / 1e3, "");
        put(&row, "share_pct", o->share_pct);
        put_count(&row, "flops", o->flops);
        put_count(&row, "bytes", o->bytes);
        put(&row, "flops_per_s", o->flops_per_s);
        put(&row, "bytes_per_s", o->bytes_per_s);
    }
    put_int(top, "kernels_omitted", (int64_t)(r->op_count - n));
}

static void put_system(struct place *top, const struct an_system *s)
{
    struct place p = open_object(top, "system");
    put(&p, "cpu_cores", s->cpu_cores);
    put(&p, "machine_busy_pct", s->machine_busy_pct);
    put(&p, "rss_peak_bytes", s->rss_peak_bytes);
    put(&p, "read_bytes", s->read_bytes);
    put(&p, "write_bytes", s->write_bytes);
    put(&p, "minor_faults", s->minor_faults);
    put(&p, "major_faults", s->major_faults);
    put(&p, "voluntary_switches", s->voluntary_switches);
    put(&p, "involuntary_switches", s->involuntary_switches);
    put(&p, "instructions_per_cycle", s->instructions_per_cycle);
}

static void put_series(struct place *top, const struct an_result *r)
{
    json_t *list = open_list(top, "counters");
    for (size_t i = 0; i < r->series_count; i++) {
        const struct an_series *s = &r->series[i];
        struct place row = open_row(top, "counters", list);
        put_text(&row, "name", s->name);
        put_text(&row, "unit", s->unit);
        put_int(&row, "count", s->count);
        put_real(&row, "first", s->first, "");
        put_real(&row, "last", s->last, "");
        put_real(&row, "min", s->min, "");
        put_real(&row, "max", s->max, "");
        put_real(&row, "mean", s->mean, "the sum is too large");
    }
}

static void put_findings(struct place *top, const struct an_result *r)
{
    json_t *list = open_list(top, "findings");
    for (size_t i = 0; i < r->finding_count; i++) {
        const struct an_finding *f = &r->findings[i];
        struct place row = open_row(top, "findings", list);
        size_t n = 0;
        while (n < sizeof f->evidence / sizeof *f->evidence && f->evidence[n])
            n++;
        put_text(&row, "id", f->id);
        put_text(&row, "claim", f->claim);
        put_list(&row, "evidence", f->evidence, n);
        put_text(&row, "action", f->action);
        struct place gain = open_object(&row, "gain_pct");
        put(&gain, "low", f->gain.low);
        put(&gain, "expected", f->gain.expected);
        put(&gain, "high", f->gain.high);
        put_bool(&gain, "ceiling", f->gain.ceiling);
        put_text(&row, "method", f->method);
        put_text(&row, "effort", f->effort);
        put_text(&row, "confidence", an_confidence_text(f->confidence));
        put_text(&row, "verify", f->verify);
        put_text(&row, "wrong_when", f->wrong_when);
    }
}

static void put_trust(struct place *top, const struct an_result *r)
{
    const struct an_trust *t = &r->trust;
    struct place p = open_object(top, "trust");
    put_int(&p, "events", t->events);
    put_count(&p, "lost_events", t->lost_events);
    json_t *list = open_list(&p, "losses");
    for (size_t i = 0; i < t->loss_count; i++) {
        struct place row = open_row(&p, "losses", list);
        put_text(&row, "source", t->losses[i].source);
        put_text(&row, "reason", t->losses[i].reason);
        put_count(&row, "count", t->losses[i].count);
        put_bool(&row, "lost", t->losses[i].lost);
        put_real(&row, "t0_s", t->losses[i].t0_s, "not known when");
        put_real(&row, "t1_s", t->losses[i].t1_s, "not known when");
    }
    put(&p, "overhead_pct", t->overhead_pct);
    put(&p, "overhead_low_pct", t->overhead_low_pct);
    put(&p, "overhead_high_pct", t->overhead_high_pct);
    put(&p, "replay_error_pct", t->replay_error_pct);
    list = open_list(&p, "steps_excluded");
    for (size_t i = 0; i < r->steps.excluded_count; i++) {
        struct place row = open_row(&p, "steps_excluded", list);
        put_int(&row, "rank", r->steps.excluded[i].rank);
        put_int(&row, "index", r->steps.excluded[i].index);
        put_real(&row, "ms", r->steps.excluded[i].ms, "the step has no end");
        put_text(&row, "reason", r->steps.excluded[i].reason);
    }
    list = open_list(&p, "counters_missing");
    for (size_t i = 0; i < t->gap_count; i++) {
        struct place row = open_row(&p, "counters_missing", list);
        put_text(&row, "name", t->gaps[i].name);
        put_text(&row, "status", t->gaps[i].status);
    }
    put_int(&p, "open_ranges", t->open_ranges);
    put_text_or(&p, "clock", t->clock, "not recorded");
    put_text_or(&p, "version", t->version, "not recorded");
    put_text_or(&p, "ended", t->ended, "not recorded");
    put_list(&p, "problems", t->problems, t->problem_count);
}

int rep_json_write(const struct an_result *r, const struct rep_options *o, FILE *out)
{
    struct writer w = {.root = json_object(), .absent = json_object()};
    struct place top = {.w = &w, .object = w.root, .path = ""};
    int rc = TACHO_ENOMEM;
    (void)o;
    if (!w.root || !w.absent)
        goto out;
    put_text(&top, "schema", "tacho-report/1");
    put_text(&top, "verdict", r->verdict);
    put_text(&top, "verdict_class", r->verdict_class);
    put_bool(&top, "healthy", r->healthy);
    put_list(&top, "checked", r->checked, r->checked_count);
    put_run(&top, &r->run);
    put_steps(&top, &r->steps);
    put_budget(&top, r);
    put_phases(&top, r);
    put_utilization(&top, &r->utilization);
    put_null(&top, "devices", r->gpu.reason);
    put_critical_path(&top, r->critical_path.reason);
    put_roofline(&top, r);
    put_loader(&top, &r->loader);
    put_kernels(&top, r);
    put_null(&top, "ranks", r->ranks.reason);
    put_null(&top, "memory", r->memory.reason);
    put_null(&top, "energy", r->energy.reason);
    put_system(&top, &r->system);
    put_series(&top, r);
    put_findings(&top, r);
    put_trust(&top, r);
    if (w.failed || json_object_set(w.root, "absent", w.absent))
        goto out;
    rc = json_dumpf(w.root, out, JSON_INDENT(1) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15)) || fputc('\n', out) == EOF
             ? TACHO_EIO
             : 0;
out:
    json_decref(w.absent);
    json_decref(w.root);
    return rc;
}
