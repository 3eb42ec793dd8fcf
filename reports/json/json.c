/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho-report/1 (DESIGN 7, docs/report-json.md): the order of the sections, and those that every
 * run has. Every key is always there.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/formats.h"
#include "reports/json/json_gpu.h"
#include "reports/json/json_parts.h"
#include "reports/json/json_writer.h"
#include "reports/words/select.h"

#define OPS_MOST 2000

static void put_run(struct rep_writer *w, const struct an_run *r)
{
    rep_open(w, "run");
    rep_put_text_or(w, "file", r->file, "the caller did not name the file");
    rep_put_text_or(w, "program", r->program, "no process was recorded");
    rep_put_text_or(w, "host", r->host, "not recorded");
    rep_put_text_or(w, "ended", r->ended, r->live ? "still running" : "not recorded");
    rep_put_count(w, "exit_status", r->exit_status);
    rep_put_bool(w, "live", r->live);
    rep_put_int(w, "processes", r->processes);
    rep_put_int(w, "ranks", r->ranks);
    rep_put_int(w, "threads", r->threads);
    rep_put_count(w, "cores", r->cores);
    rep_put_value(w, "duration_s", r->duration_s);
    rep_open(w, "recorded");
    for (size_t i = 0; i < r->key_count; i++)
        rep_put_text(w, r->keys[i].key, r->keys[i].value);
    rep_close(w);
    rep_close(w);
}

static void put_steps(struct rep_writer *w, const struct an_steps *s)
{
    rep_open(w, "steps");
    rep_put_text_or(w, "source", s->source, s->reason);
    rep_put_int(w, "count", s->count);
    rep_put_int(w, "counted", s->counted);
    rep_put_int(w, "paused", s->paused);
    rep_put_int(w, "detailed", s->detailed);
    rep_put_value(w, "median_ms", s->median_ms);
    rep_put_value(w, "mean_ms", s->mean_ms);
    rep_put_value(w, "p95_ms", s->p95_ms);
    rep_put_value(w, "min_ms", s->min_ms);
    rep_put_value(w, "max_ms", s->max_ms);
    rep_put_value(w, "sd_ms", s->sd_ms);
    rep_put_value(w, "host_median_ms", s->host_median_ms);
    rep_put_int(w, "micro_steps", s->micro_steps);
    rep_put_text_or(w, "note", s->note, "nothing odd about them");
    rep_put_value(w, "between_ms", s->between_ms);
    rep_put_value(w, "tokens_per_s", s->tokens_per_s);
    rep_put_value(w, "samples_per_s", s->samples_per_s);
    rep_put_value(w, "tokens_per_step", s->tokens_per_step);
    rep_put_value(w, "samples_per_step", s->samples_per_step);
    rep_open_list(w, "outliers");
    for (size_t i = 0; i < s->outlier_count; i++) {
        rep_open(w, NULL);
        rep_put_int(w, "rank", s->outliers[i].rank);
        rep_put_int(w, "index", s->outliers[i].index);
        rep_put_real(w, "ms", s->outliers[i].ms, "");
        rep_put_real(w, "score", s->outliers[i].score, "");
        rep_close(w);
    }
    rep_close(w);
    rep_open_list(w, "groups");
    for (size_t i = 0; i < s->group_count; i++) {
        rep_open(w, NULL);
        rep_put_count(w, "tokens", s->groups[i].tokens);
        rep_put_int(w, "count", s->groups[i].count);
        rep_put_real(w, "median_ms", s->groups[i].median_ms, "");
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

static void put_classes(struct rep_writer *w, const struct an_budget *b)
{
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        char key[40];
        snprintf(key, sizeof key, "%s_pct", an_class_key((enum an_class)k));
        rep_put_value(w, key, b->pct[k]);
    }
}

static void put_budget(struct rep_writer *w, const struct an_result *r)
{
    rep_open(w, "budget");
    put_classes(w, &r->budget);
    rep_close(w);
    rep_open(w, "budget_ns");
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        rep_put_count(w, an_class_key((enum an_class)k), r->budget.ns[k]);
    rep_put_int(w, "step_ns", r->budget.step_ns);
    rep_put_int(w, "phase_ns", r->budget.phase_ns);
    rep_put_int(w, "steps", r->budget.steps);
    rep_close(w);
    rep_open_list(w, "budget_by_device");
    for (size_t i = 0; i < r->device_count; i++) {
        const struct an_device_budget *d = &r->devices[i];
        rep_open(w, NULL);
        rep_put_int(w, "rank", d->rank);
        rep_put_text(w, "device", d->device);
        rep_put_text_or(w, "name", rep_device_name(r, d), "the run does not name the device");
        rep_put_text_or(w, "host", d->host, "not recorded");
        rep_put_int(w, "steps", d->budget.steps);
        rep_put_bool(w, "worst", d->worst);
        put_classes(w, &d->budget);
        rep_close(w);
    }
    rep_close(w);
}

static void put_phases(struct rep_writer *w, const struct an_result *r)
{
    rep_open_list(w, "phases");
    for (size_t i = 0; i < r->phase_count; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "name", r->phases[i].name);
        rep_put_int(w, "count", r->phases[i].count);
        rep_put_real(w, "wall_ms", r->phases[i].wall_ms, "");
        rep_put_real(w, "exposed_ms", r->phases[i].exposed_ms, "");
        rep_close(w);
    }
    rep_close(w);
}

static void put_utilization(struct rep_writer *w, const struct an_utilization *u)
{
    rep_open(w, "utilization");
    rep_put_count(w, "model_flops_per_step", u->model_flops_per_step);
    rep_put_count(w, "hardware_flops_per_step", u->hardware_flops_per_step);
    rep_put_count(w, "palm_flops_per_step", u->palm_flops_per_step);
    rep_put_count(w, "model_flops", u->model_flops);
    rep_put_count(w, "hardware_flops", u->hardware_flops);
    rep_put_count(w, "palm_flops", u->palm_flops);
    rep_put_bool(w, "flops_vary", u->flops_vary);
    rep_put_value(w, "mfu", u->mfu);
    rep_put_value(w, "mfu_palm", u->mfu_palm);
    rep_put_value(w, "hfu", u->hfu);
    rep_put_value(w, "mfu_measured", u->mfu_measured);
    rep_put_value(w, "achieved_flops_per_s", u->achieved_flops);
    rep_put_text_or(w, "dtype", u->dtype, u->dtype_reason);
    rep_put_value(w, "peak_flops", u->peak_flops);
    rep_put_text_or(w, "peak_source", u->peak_source,
                    u->peak_flops.valid ? "not recorded" : u->peak_flops.reason);
    rep_put_value(w, "roof_measured_flops", u->roof_measured_flops);
    rep_put_text_or(w, "roof_source", u->roof_source, u->roof_measured_flops.reason);
    rep_put_count(w, "recomputed_flops_per_step", u->recomputed_flops_per_step);
    rep_put_count(w, "recomputed_flops", u->recomputed_flops);
    rep_put_value(w, "flop_coverage_pct", u->flop_coverage_pct);
    rep_close(w);
}

static void put_kernels(struct rep_writer *w, const struct an_result *r)
{
    size_t n = r->op_count < OPS_MOST ? r->op_count : OPS_MOST;
    rep_open_list(w, "kernels");
    for (size_t i = 0; i < n; i++) {
        const struct an_op *o = &r->ops[i];
        rep_open(w, NULL);
        rep_put_text(w, "name", o->name);
        rep_put_text(w, "category", o->category);
        rep_put_text(w, "kind", o->kind);
        rep_put_text(w, "pass", o->pass);
        rep_put_int(w, "count", o->count);
        rep_put_us(w, "total_us", o->total_ns);
        rep_put_value(w, "mean_us", o->mean_us);
        rep_put_us_or(w, "min_us", o->min_ns);
        rep_put_us_or(w, "max_us", o->max_ns);
        rep_put_value(w, "sd_us", o->sd_us);
        rep_put_us(w, "self_us", o->self_ns);
        rep_put_value(w, "share_pct", o->share_pct);
        rep_put_count(w, "flops", o->flops);
        rep_put_count(w, "bytes", o->bytes);
        rep_put_value(w, "flops_per_s", o->flops_per_s);
        rep_put_value(w, "bytes_per_s", o->bytes_per_s);
        rep_close(w);
    }
    rep_close(w);
    rep_put_text_or(w, "kernels_window", r->ops_window, "nothing was recorded");
    rep_put_int(w, "kernels_omitted", (int64_t)(r->op_count - n));
}

static void put_system(struct rep_writer *w, const struct an_system *s)
{
    rep_open(w, "system");
    rep_put_value(w, "cpu_cores", s->cpu_cores);
    rep_put_value(w, "machine_busy_pct", s->machine_busy_pct);
    rep_put_value(w, "other_cores", s->other_cores);
    rep_put_value(w, "cpu_wait_pct", s->cpu_wait_pct);
    rep_put_value(w, "rss_peak_bytes", s->rss_peak_bytes);
    rep_put_value(w, "read_bytes", s->read_bytes);
    rep_put_value(w, "write_bytes", s->write_bytes);
    rep_put_value(w, "minor_faults", s->minor_faults);
    rep_put_value(w, "major_faults", s->major_faults);
    rep_put_value(w, "voluntary_switches", s->voluntary_switches);
    rep_put_value(w, "involuntary_switches", s->involuntary_switches);
    rep_put_value(w, "instructions_per_cycle", s->instructions_per_cycle);
    rep_close(w);
}

static void put_series(struct rep_writer *w, const struct an_result *r)
{
    rep_open_list(w, "counters");
    for (size_t i = 0; i < r->series_count; i++) {
        const struct an_series *s = &r->series[i];
        rep_open(w, NULL);
        rep_put_text(w, "name", s->name);
        rep_put_text(w, "unit", s->unit);
        rep_put_int(w, "count", s->count);
        rep_put_real(w, "first", s->first, "");
        rep_put_real(w, "last", s->last, "");
        rep_put_real(w, "min", s->min, "");
        rep_put_real(w, "max", s->max, "");
        rep_put_real(w, "mean", s->mean, "the sum is too large");
        rep_close(w);
    }
    rep_close(w);
}

static void put_growth(struct rep_writer *w, const char *key, const struct an_growth *g)
{
    const char *none = g->bytes_per_step.reason;
    rep_open(w, key);
    rep_put_value(w, "bytes_per_step", g->bytes_per_step);
    rep_put_value(w, "low", g->low);
    rep_put_value(w, "high", g->high);
    rep_put_bool(w, "grows", g->grows);
    rep_put_count(w, "first_step", none ? an_int_none(none) : an_int(g->first_step));
    rep_put_count(w, "last_step", none ? an_int_none(none) : an_int(g->last_step));
    rep_close(w);
}

static void put_stacks(struct rep_writer *w, const struct an_stack_samples *s)
{
    rep_open(w, "stacks");
    rep_put_count(w, "samples", s->samples);
    rep_put_value(w, "period_us", s->period_us);
    rep_put_value(w, "cpu_s", s->cpu_s);
    rep_put_text_or(w, "how", s->how && *s->how ? s->how : NULL,
                    s->reason ? s->reason : "the file does not say");
    rep_put_text_or(w, "kernel", s->kernel && *s->kernel ? s->kernel : NULL,
                    s->reason ? s->reason : "the file does not say");
    rep_open_list(w, "functions");
    for (size_t i = 0; i < s->function_count; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "name", s->function[i].name);
        rep_put_int(w, "samples", s->function[i].self);
        rep_put_int(w, "total_samples", s->function[i].total);
        rep_put_value(w, "self_pct", s->function[i].self_pct);
        rep_put_value(w, "total_pct", s->function[i].total_pct);
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

static void put_memory(struct rep_writer *w, const struct an_memory *m)
{
    if (m->reason) {
        rep_put_null(w, "memory", m->reason);
        return;
    }
    rep_open(w, "memory");
    rep_put_text(w, "source", m->source);
    rep_open_list(w, "tags");
    for (size_t i = 0; i < m->tag_count; i++) {
        const struct an_memory_tag *t = &m->tags[i];
        rep_open(w, NULL);
        rep_put_text(w, "name", t->name);
        rep_put_text(w, "device", t->device);
        rep_put_int(w, "current_bytes", t->current);
        rep_put_int(w, "peak_bytes", t->peak);
        rep_put_value(w, "share_pct", t->share_pct);
        rep_put_int(w, "rank_peak_bytes", t->rank_peak);
        rep_put_count(w, "rank", t->rank);
        rep_close(w);
    }
    rep_close(w);
    rep_put_int(w, "processes", m->processes);
    rep_put_count(w, "total_bytes", m->total_bytes);
    rep_put_count(w, "peak_bytes", m->peak_bytes);
    rep_put_count(w, "rank_peak_bytes", m->rank_peak_bytes);
    rep_put_count(w, "rank", m->rank);
    rep_put_count(w, "batch_bytes", m->batch_bytes);
    rep_put_count(w, "resident_peak_bytes", m->resident_peak_bytes);
    rep_put_count(w, "uncounted_bytes", m->uncounted_bytes);
    rep_put_count(w, "capacity_bytes", m->capacity_bytes);
    rep_put_count(w, "room_bytes", m->room_bytes);
    put_growth(w, "growth", &m->growth);
    put_growth(w, "resident_growth", &m->resident_growth);
    rep_close(w);
}

static void put_findings(struct rep_writer *w, const struct an_result *r)
{
    rep_open_list(w, "findings");
    for (size_t i = 0; i < r->finding_count; i++) {
        const struct an_finding *f = &r->findings[i];
        size_t n = 0;
        while (n < sizeof f->evidence / sizeof *f->evidence && f->evidence[n])
            n++;
        rep_open(w, NULL);
        rep_put_text(w, "id", f->id);
        rep_put_text(w, "claim", f->claim);
        rep_put_texts(w, "evidence", f->evidence, n);
        rep_put_text(w, "action", f->action);
        rep_open(w, "gain_pct");
        rep_put_value(w, "low", f->gain.low);
        rep_put_value(w, "expected", f->gain.expected);
        rep_put_value(w, "high", f->gain.high);
        rep_put_bool(w, "ceiling", f->gain.ceiling);
        rep_close(w);
        rep_put_text(w, "method", f->method);
        rep_put_text(w, "effort", f->effort);
        rep_put_text(w, "confidence", an_confidence_text(f->confidence));
        rep_put_text(w, "verify", f->verify);
        rep_put_text(w, "wrong_when", f->wrong_when);
        rep_put_text_or(w, "what_if", f->what_if, "the change is no edit of the dependency graph");
        rep_close(w);
    }
    rep_close(w);
}

static void put_trust_lists(struct rep_writer *w, const struct an_result *r)
{
    const struct an_trust *t = &r->trust;
    rep_open_list(w, "steps_excluded");
    for (size_t i = 0; i < r->steps.excluded_count; i++) {
        rep_open(w, NULL);
        rep_put_int(w, "rank", r->steps.excluded[i].rank);
        rep_put_int(w, "index", r->steps.excluded[i].index);
        rep_put_real(w, "ms", r->steps.excluded[i].ms, "the step has no end");
        rep_put_text(w, "reason", r->steps.excluded[i].reason);
        rep_close(w);
    }
    rep_close(w);
    rep_open_list(w, "counters_missing");
    for (size_t i = 0; i < t->gap_count; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "name", t->gaps[i].name);
        rep_put_text(w, "status", t->gaps[i].status);
        rep_close(w);
    }
    rep_close(w);
}

static void put_trust(struct rep_writer *w, const struct an_result *r)
{
    const struct an_trust *t = &r->trust;
    rep_open(w, "trust");
    rep_put_int(w, "events", t->events);
    rep_put_count(w, "lost_events", t->lost_events);
    rep_open_list(w, "losses");
    for (size_t i = 0; i < t->loss_count; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "source", t->losses[i].source);
        rep_put_text(w, "reason", t->losses[i].reason);
        rep_put_count(w, "count", t->losses[i].count);
        rep_put_bool(w, "lost", t->losses[i].lost);
        rep_put_real(w, "t0_s", t->losses[i].t0_s, "not known when");
        rep_put_real(w, "t1_s", t->losses[i].t1_s, "not known when");
        rep_close(w);
    }
    rep_close(w);
    rep_put_value(w, "overhead_pct", t->overhead_pct);
    rep_put_value(w, "overhead_low_pct", t->overhead_low_pct);
    rep_put_value(w, "overhead_high_pct", t->overhead_high_pct);
    rep_put_value(w, "replay_error_pct", t->replay_error_pct);
    rep_put_text_or(w, "replay_error_because", t->replay_error_because,
                    "nothing is known to disturb it");
    put_trust_lists(w, r);
    rep_json_capture(w, &r->quality);
    rep_put_int(w, "open_ranges", t->open_ranges);
    rep_put_text_or(w, "source", t->source, "not recorded");
    rep_put_text_or(w, "tool", t->tool, "the recording does not name the tool that made it");
    rep_put_text_or(w, "clock", t->clock, "not recorded");
    rep_put_text_or(w, "version", t->version, "not recorded");
    rep_put_text_or(w, "ended", t->ended, "not recorded");
    rep_put_texts(w, "problems", t->problems, t->problem_count);
    rep_close(w);
}

int rep_json_write(const struct an_result *r, const struct rep_options *o, FILE *out)
{
    struct rep_writer writer, *w = &writer;
    if (rep_writer_begin(w, out))
        return TACHO_ENOMEM;
    rep_put_text(w, "schema", "tacho-report/1");
    rep_put_text(w, "verdict", r->verdict);
    rep_put_text(w, "verdict_class", r->verdict_class);
    rep_put_text_or(w, "caution", r->caution, "nothing is known that makes the run a bad witness");
    rep_put_bool(w, "healthy", r->healthy);
    rep_put_texts(w, "checked", r->checked, r->checked_count);
    put_run(w, &r->run);
    put_steps(w, &r->steps);
    put_budget(w, r);
    put_phases(w, r);
    put_utilization(w, &r->utilization);
    rep_json_devices(w, r);
    rep_json_compute_absent(w, r);
    rep_json_critical_path(w, &r->critical_path);
    rep_json_roofline(w, r);
    rep_json_loader(w, &r->loader);
    rep_json_communication(w, &r->communication);
    put_kernels(w, r);
    rep_json_host_to_device(w, r);
    rep_json_attribution(w, rep_attribution(r, o->by));
    rep_json_compat(w, &r->compat);
    rep_json_ranks(w, &r->ranks);
    put_memory(w, &r->memory);
    rep_json_energy(w, &r->energy);
    rep_json_hardware(w, r);
    rep_json_counted(w, r);
    put_system(w, &r->system);
    put_stacks(w, &r->stacks);
    put_series(w, r);
    put_findings(w, r);
    rep_json_advice(w, r);
    put_trust(w, r);
    int rc = rep_writer_end(w);
    return rc ? rc : ferror(out) ? TACHO_EIO : 0;
}
