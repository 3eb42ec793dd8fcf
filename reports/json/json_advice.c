/* SPDX-License-Identifier: Apache-2.0
 *
 * What replaying the dependency graph tells, as JSON: a section of tacho-report/1, and the document
 * of `tacho advise`.
 */
#include "reports/advice_write.h"
#include "reports/json/json_parts.h"

static void put_edit(struct rep_writer *w, const char *key, const struct an_what_if *x)
{
    rep_open(w, key);
    rep_put_text(w, "edit", x->edit);
    rep_put_text_or(w, "finding", x->of, "it comes from no finding");
    rep_put_text_or(w, "none", x->reason, "there is a prediction");
    rep_put_value(w, "step_ms", x->step_ms);
    rep_put_value(w, "step_low_ms", x->step_low_ms);
    rep_put_value(w, "step_high_ms", x->step_high_ms);
    rep_open(w, "gain_pct");
    rep_put_value(w, "low", x->gain.low);
    rep_put_value(w, "expected", x->gain.expected);
    rep_put_value(w, "high", x->gain.high);
    rep_put_bool(w, "ceiling", x->gain.ceiling);
    rep_close(w);
    rep_put_text_or(w, "ceiling_because", x->ceiling, "it is no ceiling");
    rep_put_text_or(w, "takes_for_granted", x->condition, "nothing");
    rep_close(w);
}

static void put_cores(struct rep_writer *w, const struct an_core_use *x)
{
    rep_open(w, "cores");
    rep_put_value(w, "usable", x->cores);
    rep_put_value(w, "wanted", x->wanted);
    rep_put_value(w, "used", x->used);
    rep_put_value(w, "wanted_by_others", x->others);
    rep_put_value(w, "short_pct", x->short_pct);
    rep_put_value(w, "slowdown_pct", x->slowdown_pct);
    rep_close(w);
}

static void put_sensitivity(struct rep_writer *w, const struct an_advice *a)
{
    rep_open_list(w, "sensitivity");
    for (size_t i = 0; i < a->row_count; i++) {
        const struct an_sensitivity_row *r = &a->rows[i];
        rep_open(w, NULL);
        rep_put_text(w, "key", r->key);
        rep_put_real(w, "gain_pct_per_pct", r->gain_pct, "");
        rep_put_real(w, "path_ms_per_step", r->path_ms, "");
        rep_put_real(w, "path_pct", r->path_pct, "");
        rep_put_value(w, "work_ms_per_step", r->work_ms);
        rep_close(w);
    }
    rep_close(w);
}

static void put_body(struct rep_writer *w, const struct an_result *r)
{
    const struct an_advice *a = &r->advice;
    rep_put_text_or(w, "none", a->reason, "the graph was replayed");
    rep_put_value(w, "step_ms", a->step_ms);
    rep_put_value(w, "replay_error_pct", r->trust.replay_error_pct);
    rep_put_text_or(w, "replay_error_because", r->trust.replay_error_because,
                    "nothing is known to disturb it");
    rep_put_value(w, "base_error_pct", a->base_error_pct);
    rep_put_value(w, "unmatched_pct", a->unmatched_pct);
    rep_put_value(w, "think_pct", a->think_pct);
    rep_put_value(w, "held_pct", a->held_pct);
    rep_put_int(w, "stretch_steps", a->stretch_steps);
    rep_put_value(w, "stretch_low_pct", a->stretch_low_pct);
    rep_put_value(w, "stretch_high_pct", a->stretch_high_pct);
    put_cores(w, &a->cores);
    rep_put_int(w, "steps", a->steps);
    rep_put_int(w, "nodes", a->nodes);
    rep_open_list(w, "what_if");
    for (size_t i = 0; i < a->edit_count; i++)
        put_edit(w, NULL, &a->edits[i]);
    rep_close(w);
    if (a->together.edit)
        put_edit(w, "together", &a->together);
    else
        rep_put_null(w, "together", "fewer than two edits");
    put_sensitivity(w, a);
}

void rep_json_advice(struct rep_writer *w, const struct an_result *r)
{
    rep_open(w, "advice");
    put_body(w, r);
    rep_close(w);
}

int rep_advice_json(const struct an_result *r, FILE *out)
{
    struct rep_writer w;
    int rc = rep_writer_begin(&w, out);
    if (rc)
        return rc;
    rep_put_text(&w, "schema", "tacho-advice/1");
    rep_put_text(&w, "file", r->run.file);
    rep_put_text(&w, "verdict", r->verdict);
    put_body(&w, r);
    rc = rep_writer_end(&w);
    return rc ? rc : fflush(out) || ferror(out) ? TACHO_EIO : 0;
}
