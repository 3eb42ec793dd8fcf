/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison of two runs for programs: the schema tacho-diff/1 (docs/diff.md). Every key is
 * always there; what is not known is null with a reason.
 */
#include <math.h>

#include "reports/diff/diff_write.h"
#include "reports/json/json_writer.h"

/* One of the two runs: its file, the source of its steps, and the step that all rows are
 * compared by. */
static void put_side(struct rep_writer *writer, const char *key,
                     const struct an_diff_side *diff_side)
{
    rep_open(writer, key);
    rep_put_text_or(writer, "file", diff_side->file, "the caller did not name the file");
    rep_put_text_or(writer, "step_source", diff_side->source, "no steps were found");
    rep_put_int(writer, "steps", diff_side->steps);
    rep_put_int(writer, "detailed", diff_side->detailed);
    rep_put_real(writer, "ms", diff_side->step, "the run holds no time");
    rep_put_real(writer, "tokens_per_step", diff_side->tokens_per_step,
                 "not every step records its number of tokens");
    rep_close(writer);
}

static void put_significance(struct rep_writer *writer, const struct an_diff_row *row,
                             const char *why)
{
    rep_put_real(writer, "low_ms", row->low, why);
    rep_put_real(writer, "high_ms", row->high, why);
    rep_put_real(writer, "p", row->p, why);
    rep_put_real(writer, "drift_ms", row->floor, why);
    if (isnan(row->p))
        rep_put_null(writer, "significant", why);
    else
        rep_put_bool(writer, "significant", row->significant);
}

static void put_calls(struct rep_writer *writer, const struct an_diff_row *row)
{
    bool counted =
        row->kind == AN_DIFF_OP || row->kind == AN_DIFF_KERNEL || row->kind == AN_DIFF_LOADER;
    const char *reason = counted ? "no step has all its parts in the file" : "it is no call";
    rep_put_real(writer, "good_calls", row->good_calls, reason);
    rep_put_real(writer, "bad_calls", row->bad_calls, reason);
}

/* Writes one compared name. What significance testing gave is null with the reason where the
 * rows of a name were not tested. */
static void put_row(struct rep_writer *writer, const char *key, const struct an_diff *diff,
                    const struct an_diff_row *row)
{
    const char *why = diff->significance
                          ? diff->significance
                          : "values of each step are kept for the largest names only";
    rep_open(writer, key);
    rep_put_text(writer, "name", row->name);
    if (row->class < AN_CLASS_COUNT)
        rep_put_text(writer, "class", an_class_key(row->class));
    else
        rep_put_null(writer, "class", "all classes");
    rep_put_bool(writer, "in_good", row->in_good);
    rep_put_bool(writer, "in_bad", row->in_bad);
    rep_put_bool(writer, "merged", row->merged);
    rep_put_real(writer, "good_ms", row->good, "the run holds no time");
    rep_put_real(writer, "bad_ms", row->bad, "the run holds no time");
    rep_put_real(writer, "delta_ms", row->delta, "one of the runs holds no time");
    rep_put_real(writer, "delta_pct", row->delta_pct, "the baseline holds no time");
    put_calls(writer, row);
    put_significance(writer, row, why);
    rep_close(writer);
}

/* The rows of one kind as a list; AN_DIFF_KIND_COUNT stands for rows of any kind. */
static void put_rows(struct rep_writer *writer, const char *key, const struct an_diff *diff,
                     const struct an_diff_row *rows, size_t count, enum an_diff_kind kind)
{
    rep_open_list(writer, key);
    for (size_t i = 0; i < count; i++)
        if (kind == AN_DIFF_KIND_COUNT || rows[i].kind == kind)
            put_row(writer, NULL, diff, &rows[i]);
    rep_close(writer);
}

/* The limit of --fail-above and whether the comparison keeps to it. */
static void put_gate(struct rep_writer *writer, const struct an_gate *gate)
{
    const char *why = gate->reason ? gate->reason : "not known";
    if (gate->state == AN_GATE_NONE) {
        rep_put_null(writer, "gate", "no limit was given: --fail-above");
        return;
    }
    rep_open(writer, "gate");
    rep_put_real(writer, "fail_above_pct", gate->limit_pct, "");
    rep_put_bool(writer, "failed", gate->state == AN_GATE_FAILED);
    rep_put_bool(writer, "undecided", gate->state == AN_GATE_UNDECIDED);
    rep_put_text_or(writer, "reason", gate->reason, "it is decided");
    rep_put_int(writer, "good_runs", (int64_t)gate->good_runs);
    rep_put_int(writer, "bad_runs", (int64_t)gate->bad_runs);
    rep_put_real(writer, "change_pct", gate->change_pct, why);
    rep_put_real(writer, "high_pct", gate->high_pct, why);
    rep_put_real(writer, "p", gate->p, why);
    rep_put_real(writer, "least_p", gate->least_p, why);
    rep_put_real(writer, "detectable_pct", gate->detectable_pct, why);
    if (gate->runs_needed)
        rep_put_int(writer, "runs_needed", (int64_t)gate->runs_needed);
    else
        rep_put_null(writer, "runs_needed", why);
    rep_close(writer);
}

/* Writes the comparison of runs with different numbers of ranks. */
static void put_scaling(struct rep_writer *writer, const struct an_scaling *scaling)
{
    if (rep_put_absent(writer, "scaling", scaling->reason))
        return;
    rep_open(writer, "scaling");
    rep_put_text(writer, "kind", scaling->kind);
    rep_put_text(writer, "of", scaling->of);
    rep_put_int(writer, "good_ranks", scaling->good_ranks);
    rep_put_int(writer, "bad_ranks", scaling->bad_ranks);
    rep_put_value(writer, "good_global_batch", scaling->good_batch);
    rep_put_value(writer, "bad_global_batch", scaling->bad_batch);
    rep_put_value(writer, "good_per_s", scaling->good_rate);
    rep_put_value(writer, "bad_per_s", scaling->bad_rate);
    rep_put_value(writer, "speed_up", scaling->speed_up);
    rep_put_value(writer, "efficiency", scaling->efficiency);
    rep_put_value(writer, "efficiency_low", scaling->low);
    rep_put_value(writer, "efficiency_high", scaling->high);
    rep_open(writer, "lost_pct");
    AN_EACH_CLASS(class)
        rep_put_value(writer, an_class_key((enum an_class) class), scaling->lost_pct[class]);
    rep_close(writer);
    rep_close(writer);
}

static void put_kinds(struct rep_writer *writer, const struct an_diff *diff)
{
    for (int kind = AN_DIFF_STEP + 1; kind < AN_DIFF_KIND_COUNT; kind++)
        put_rows(writer, an_diff_kind_key((enum an_diff_kind)kind), diff, diff->rows,
                 diff->row_count, (enum an_diff_kind)kind);
    put_rows(writer, "added", diff, diff->added, diff->added_count, AN_DIFF_KIND_COUNT);
    rep_put_int(writer, "added_omitted", (int64_t)(diff->added_total - diff->added_count));
    put_rows(writer, "removed", diff, diff->removed, diff->removed_count, AN_DIFF_KIND_COUNT);
    rep_put_int(writer, "removed_omitted", (int64_t)(diff->removed_total - diff->removed_count));
}

int rep_diff_json(const struct an_diff *diff, const struct an_gate *gate, FILE *out)
{
    static const char *const units[] = {[AN_DIFF_PER_STEP] = "step",
                                        [AN_DIFF_PER_TOKENS] = "tokens",
                                        [AN_DIFF_PER_SAMPLES] = "samples",
                                        [AN_DIFF_CAPTURE] = "capture"};
    struct rep_writer writer;
    int rc = rep_writer_begin(&writer, out);
    if (rc)
        return rc;
    rep_put_text(&writer, "schema", "tacho-diff/1");
    rep_put_text(&writer, "verdict", diff->verdict);
    rep_put_text(&writer, "unit", units[diff->unit]);
    rep_put_real(&writer, "unit_size", diff->unit_size, "a step is a step");
    rep_put_text_or(&writer, "note", diff->note, "nothing to note");
    rep_put_text_or(&writer, "not_tested", diff->significance, "significance was tested");
    rep_put_int(&writer, "compared", (int64_t)diff->compared);
    rep_put_bool(&writer, "differs", diff->differs);
    rep_put_bool(&writer, "slower", diff->slower);
    put_gate(&writer, gate);
    put_side(&writer, "good", &diff->good);
    put_side(&writer, "bad", &diff->bad);
    put_scaling(&writer, &diff->scaling);
    put_row(&writer, "step", diff, &diff->step);
    put_kinds(&writer, diff);
    return rep_writer_end(&writer);
}
