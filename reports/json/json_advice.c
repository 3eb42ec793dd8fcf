/* SPDX-License-Identifier: Apache-2.0
 *
 * The predicted effect of changes to the dependency graph, as JSON: a section of tacho-report/1,
 * and the document tacho-advice/1 of `tacho advise`.
 */
#include "reports/json/json.h"
#include "reports/json/json_private.h"

/* One edit: the step that the replay predicts with its interval, the gain, and what the
 * prediction depends on. */
static void put_edit(struct rep_writer *writer, const char *key, const struct an_what_if *what_if)
{
    rep_open(writer, key);
    rep_put_text(writer, "edit", what_if->edit);
    rep_put_text_or(writer, "finding", what_if->of, "it comes from no finding");
    rep_put_text_or(writer, "none", what_if->reason, "there is a prediction");
    rep_put_value(writer, "step_ms", what_if->step_ms);
    rep_put_value(writer, "step_low_ms", what_if->step_low_ms);
    rep_put_value(writer, "step_high_ms", what_if->step_high_ms);
    rep_put_gain(writer, "gain_pct", &what_if->gain);
    rep_put_text_or(writer, "ceiling_because", what_if->ceiling, "it is not a ceiling");
    rep_put_text_or(writer, "conflicts_with", what_if->conflicts, "it lowers no joint gain");
    rep_put_text_or(writer, "takes_for_granted", what_if->condition, "nothing");
    rep_close(writer);
}

/* How the threads of the run share the cores of the machine with each other and with other
 * programs. */
static void put_cores(struct rep_writer *writer, const struct an_core_use *cores)
{
    rep_open(writer, "cores");
    rep_put_value(writer, "usable", cores->cores);
    rep_put_value(writer, "wanted", cores->wanted);
    rep_put_value(writer, "used", cores->used);
    rep_put_value(writer, "wanted_by_others", cores->others);
    rep_put_value(writer, "short_pct", cores->short_pct);
    rep_put_value(writer, "slowdown_pct", cores->slowdown_pct);
    rep_close(writer);
}

static void put_sensitivity_row(struct rep_writer *writer, const void *item)
{
    const struct an_sensitivity_row *row = item;
    rep_put_text(writer, "key", row->key);
    rep_put_real(writer, "gain_pct_per_pct", row->gain_pct, "");
    rep_put_real(writer, "path_ms_per_step", row->path_ms, "");
    rep_put_real(writer, "path_pct", row->path_pct, "");
    rep_put_value(writer, "work_ms_per_step", row->work_ms);
}

static void put_edits(struct rep_writer *writer, const struct an_advice *advice)
{
    rep_open_list(writer, "what_if");
    for (size_t i = 0; i < advice->edit_count; i++)
        put_edit(writer, NULL, &advice->edits[i]);
    rep_close(writer);
    if (advice->together.edit)
        put_edit(writer, "together", &advice->together);
    else
        rep_put_null(writer, "together", "fewer than two edits");
}

/* What the section and the document share: how far the replay misses the run, every edit with
 * its prediction, all edits together, and the sensitivities. */
static void put_body(struct rep_writer *writer, const struct an_result *result)
{
    const struct an_advice *advice = &result->advice;
    rep_put_text_or(writer, "none", advice->reason, "the graph was replayed");
    rep_put_value(writer, "step_ms", advice->step_ms);
    rep_put_value(writer, "replay_error_pct", result->trust.replay_error_pct);
    rep_put_text_or(writer, "replay_error_because", result->trust.replay_error_because,
                    "no disturbance is known");
    rep_put_value(writer, "base_error_pct", advice->base_error_pct);
    rep_put_value(writer, "unmatched_pct", advice->unmatched_pct);
    rep_put_value(writer, "think_pct", advice->think_pct);
    rep_put_value(writer, "held_pct", advice->held_pct);
    rep_put_int(writer, "stretch_steps", advice->stretch_steps);
    rep_put_value(writer, "stretch_low_pct", advice->stretch_low_pct);
    rep_put_value(writer, "stretch_high_pct", advice->stretch_high_pct);
    put_cores(writer, &advice->cores);
    rep_put_int(writer, "steps", advice->steps);
    rep_put_int(writer, "nodes", advice->nodes);
    put_edits(writer, advice);
    if (!rep_put_absent(writer, "sensitivity", advice->no_rows))
        REP_PUT_ROWS(writer, "sensitivity", advice->rows, advice->row_count, put_sensitivity_row);
}

void rep_json_advice(struct rep_writer *writer, const struct an_result *result)
{
    rep_open(writer, "advice");
    put_body(writer, result);
    rep_close(writer);
}

int rep_advice_json(const struct an_result *result, FILE *out)
{
    struct rep_writer writer;
    int rc = rep_writer_begin(&writer, out);
    if (rc)
        return rc;
    rep_put_text(&writer, "schema", "tacho-advice/1");
    rep_put_text(&writer, "file", result->run.file);
    rep_put_text(&writer, "verdict", result->verdict);
    put_body(&writer, result);
    return rep_writer_end(&writer);
}
