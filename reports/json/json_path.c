/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path in the JSON report.
 */
#include "reports/json/json_parts.h"

#define OPS_MOST 50

static void put_causes(struct rep_writer *w, const struct an_critical_path *x)
{
    rep_open(w, "by_cause_us");
    for (size_t i = 0; i < x->cause_count; i++)
        rep_put_us(w, x->causes[i].key, x->causes[i].ns);
    rep_close(w);
    rep_open(w, "by_cause_step_median_ms");
    for (size_t i = 0; i < x->cause_count; i++)
        rep_put_value(w, x->causes[i].key, x->causes[i].step_median_ms);
    rep_close(w);
}

static void put_op(struct rep_writer *w, const struct an_path_op *o)
{
    rep_open(w, NULL);
    rep_put_text(w, "name", o->name);
    rep_put_text(w, "cause", o->cause);
    rep_put_text(w, "where", o->where);
    rep_put_int(w, "count", o->count);
    rep_put_us(w, "us", o->ns);
    rep_put_value(w, "pct", o->pct);
    rep_close(w);
}

void rep_json_critical_path(struct rep_writer *w, const struct an_critical_path *x)
{
    rep_open(w, "critical_path");
    rep_put_us_or(w, "window_us", x->window_ns);
    rep_put_us_or(w, "length_us", x->length_ns);
    rep_put_value(w, "explained_pct", x->explained_pct);
    rep_put_value(w, "recorded_pct", x->recorded_pct);
    rep_put_value(w, "inferred_pct", x->inferred_pct);
    rep_put_value(w, "gap_pct", x->gap_pct);
    rep_put_value(w, "think_pct", x->think_pct);
    if (x->reason) {
        rep_put_null(w, "by_cause_us", x->reason);
        rep_close(w);
        return;
    }
    rep_put_int(w, "rank", x->rank);
    rep_put_text(w, "device", x->device);
    rep_put_int(w, "windows", x->windows);
    rep_put_int(w, "steps", x->steps);
    rep_put_text_or(w, "doubt", x->doubt, "none: the path may be read as the cause");
    put_causes(w, x);
    rep_open_list(w, "by_op");
    for (size_t i = 0; i < x->op_count && i < OPS_MOST; i++)
        put_op(w, &x->ops[i]);
    rep_close(w);
    rep_close(w);
}
