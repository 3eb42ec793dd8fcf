/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json/json_parts.h"

static void put_row(struct rep_writer *w, const struct an_rank_row *k)
{
    rep_open(w, NULL);
    rep_put_int(w, "rank", k->rank);
    rep_put_text_or(w, "host", k->host, "not known");
    rep_put_text(w, "verdict", k->verdict);
    rep_put_int(w, "steps", k->steps);
    rep_put_value(w, "step_ms", k->step_ms);
    rep_put_value(w, "own_ms", k->own_ms);
    rep_put_value(w, "waiting_ms", k->waiting_ms);
    rep_put_value(w, "transfer_ms", k->transfer_ms);
    rep_put_value(w, "input_ms", k->input_ms);
    rep_put_value(w, "compute_ms", k->compute_ms);
    rep_open(w, "stage_ms");
    for (int i = 0; i < AN_STAGE_COUNT; i++)
        rep_put_value(w, an_stage_key((enum an_step_stage)i), k->stage_ms[i]);
    rep_close(w);
    rep_put_value(w, "tokens_per_step", k->tokens_per_step);
    rep_put_value(w, "samples_per_step", k->samples_per_step);
    rep_put_value(w, "all_to_all_bytes", k->all_to_all_bytes);
    rep_put_value(w, "excess_pct", k->excess_pct);
    rep_put_value(w, "excess_low_pct", k->excess_low_pct);
    rep_put_value(w, "excess_high_pct", k->excess_high_pct);
    rep_close(w);
}

static void put_straggler(struct rep_writer *w, const struct an_straggler *s)
{
    if (s->reason) {
        rep_put_null(w, "straggler", s->reason);
        return;
    }
    rep_open(w, "straggler");
    rep_put_text(w, "says", s->says);
    rep_put_int(w, "count", (int64_t)s->count);
    if (s->count)
        rep_put_int(w, "rank", s->rank);
    else
        rep_put_null(w, "rank", "none");
    rep_put_value(w, "excess_pct", s->excess_pct);
    rep_put_value(w, "excess_low_pct", s->excess_low_pct);
    rep_put_value(w, "excess_high_pct", s->excess_high_pct);
    rep_open(w, "gain_pct");
    rep_put_value(w, "low", s->gain_low_pct);
    rep_put_value(w, "expected", s->gain_pct);
    rep_put_value(w, "high", s->gain_high_pct);
    rep_close(w);
    rep_put_bool(w, "by_data", s->by_data);
    rep_close(w);
}

static void put_frontier(struct rep_writer *w, const struct an_frontier *f)
{
    bool found = f->stage != AN_STAGE_COUNT;
    if (f->reason) {
        rep_put_null(w, "frontier", f->reason);
        return;
    }
    rep_open(w, "frontier");
    rep_put_text_or(w, "stage", found ? an_stage_key(f->stage) : NULL, f->delay_pct.reason);
    if (found)
        rep_put_int(w, "rank", f->rank);
    else
        rep_put_null(w, "rank", f->delay_pct.reason);
    rep_put_value(w, "delay_ms", f->delay_ms);
    rep_put_value(w, "delay_pct", f->delay_pct);
    rep_put_value(w, "delay_low_pct", f->delay_low_pct);
    rep_put_int(w, "slowest_ns", f->slowest_ns);
    rep_open_list(w, "stages");
    for (size_t i = 0; i < f->row_count; i++) {
        const struct an_frontier_row *k = &f->row[i];
        rep_open(w, NULL);
        rep_put_text(w, "stage", an_stage_key(k->stage));
        rep_put_real(w, "frontier_ms", k->frontier_ms, "not finite");
        rep_put_real(w, "increment_ms", k->increment_ms, "not finite");
        rep_put_int(w, "increment_ns", f->increment_ns[k->stage]);
        rep_put_real(w, "behind_ms", k->behind_ms, "not finite");
        rep_put_int(w, "rank", k->rank);
        rep_put_real(w, "lead_pct", k->lead_pct, "not finite");
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

static void put_clocks(struct rep_writer *w, const struct an_clocks *x)
{
    if (x->reason) {
        rep_put_null(w, "clocks", x->reason);
        return;
    }
    rep_open(w, "clocks");
    rep_put_value(w, "error_ns", x->error_ns);
    rep_open_list(w, "ranks");
    for (size_t i = 0; i < x->row_count; i++) {
        const struct an_clock_row *k = &x->row[i];
        rep_open(w, NULL);
        rep_put_int(w, "rank", k->rank);
        rep_put_text_or(w, "host", k->host, "not known");
        rep_put_text(w, "how", k->how);
        rep_put_bool(w, "corrected", k->corrected);
        rep_put_value(w, "offset_ns", k->offset_ns);
        rep_put_value(w, "offset_low_ns", k->offset_low_ns);
        rep_put_value(w, "offset_high_ns", k->offset_high_ns);
        rep_put_value(w, "drift_ppm", k->drift_ppm);
        rep_put_value(w, "drift_error_ppm", k->drift_error_ppm);
        rep_put_value(w, "error_ns", k->error_ns);
        rep_put_int(w, "matched", k->matched);
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

static void put_pipeline(struct rep_writer *w, const struct an_pipeline *p)
{
    if (p->reason) {
        rep_put_null(w, "pipeline", p->reason);
        return;
    }
    rep_open(w, "pipeline");
    rep_put_int(w, "stages", p->stages);
    rep_put_int(w, "micro_batches", p->micro_batches);
    rep_put_value(w, "bubble_ms", p->bubble_ms);
    rep_put_value(w, "bubble_pct", p->bubble_pct);
    rep_put_value(w, "ideal_pct", p->ideal_pct);
    rep_close(w);
}

static void put_experts(struct rep_writer *w, const struct an_experts *e)
{
    if (e->reason) {
        rep_put_null(w, "experts", e->reason);
        return;
    }
    rep_open(w, "experts");
    rep_put_value(w, "max_over_mean", e->max_over_mean);
    rep_put_value(w, "mean_bytes", e->bytes_mean);
    rep_put_value(w, "max_bytes", e->bytes_max);
    rep_put_int(w, "rank", e->rank);
    rep_close(w);
}

static void put_data(struct rep_writer *w, const struct an_uneven *u)
{
    if (u->reason) {
        rep_put_null(w, "data", u->reason);
        return;
    }
    rep_open(w, "data");
    rep_put_text(w, "of", u->what);
    rep_put_bool(w, "uneven", u->found);
    rep_put_value(w, "max_over_mean", u->max_over_mean);
    rep_put_value(w, "mean", u->mean);
    rep_put_value(w, "max", u->max);
    rep_put_value(w, "min", u->min);
    rep_put_int(w, "rank", u->rank);
    rep_close(w);
}

void rep_json_ranks(struct rep_writer *w, const struct an_ranks *r)
{
    rep_open(w, "ranks");
    rep_put_text_or(w, "own_is", r->own_is, r->reason);
    rep_put_int(w, "steps", r->steps);
    rep_put_text_or(w, "missing", r->missing, "no rank is known to be missing");
    if (r->row_count) {
        put_straggler(w, &r->straggler);
        put_frontier(w, &r->frontier);
        put_data(w, &r->uneven);
    } else {
        rep_put_null(w, "straggler", r->reason);
        rep_put_null(w, "frontier", r->reason);
        rep_put_null(w, "data", r->reason);
    }
    put_pipeline(w, &r->pipeline);
    put_experts(w, &r->experts);
    put_clocks(w, &r->clocks);
    rep_open_list(w, "ranks");
    for (size_t i = 0; i < r->row_count; i++)
        put_row(w, &r->row[i]);
    rep_close(w);
    rep_close(w);
}
