/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner against published runs, as JSON.
 */
#include <math.h>

#include "reports/json/json_writer.h"
#include "reports/plan/plan_write.h"

#define NOT_MEASURED "not published"
#define ONE_ROW      "the source has no other run"

/* What is compared on one row. */
static void put_row(struct rep_writer *writer, const struct plan_check *check, size_t index,
                    bool from_run)
{
    const struct plan_row *row = &check->rows[index];
    const struct plan_time *time = from_run ? &row->from_run : &row->time;
    const char *why = row->reason ? row->reason : "";
    double none = row->reason ? NAN : 1;
    bool alone = row->nearest == index;
    rep_open(writer, NULL);
    rep_put_text(writer, "id", row->id);
    rep_put_text(writer, "source", row->source);
    rep_put_real(writer, "step_s", none * time->seconds, why);
    rep_put_real(writer, "low_s", none * time->low, why);
    rep_put_real(writer, "high_s", none * time->high, why);
    rep_put_real(writer, "measured_step_s", row->measured_s, NOT_MEASURED);
    rep_put_text_or(writer, "nearest_run", alone ? NULL : check->rows[row->nearest].id, ONE_ROW);
    rep_put_real(writer, "run_distance", alone ? NAN : row->run_distance, ONE_ROW);
    rep_put_real(writer, "run_spread", alone ? NAN : row->run_spread, ONE_ROW);
    rep_put_real(writer, "run_step_s", alone ? NAN : row->from_run.seconds, ONE_ROW);
    rep_put_real(writer, "run_low_s", alone ? NAN : row->from_run.low, ONE_ROW);
    rep_put_real(writer, "run_high_s", alone ? NAN : row->from_run.high, ONE_ROW);
    rep_put_real(writer, "memory_gb", none * row->memory_gib, why);
    rep_put_real(writer, "measured_memory_gb", row->measured_gib, NOT_MEASURED);
    rep_put_bool(writer, "measured_oom", row->out_of_memory);
    rep_put_text_or(writer, "fit", row->reason ? NULL : plan_fit_text(row->memory.fit), why);
    rep_put_real(writer, "oom_probability", none * row->memory.probability, why);
    rep_put_text(writer, "convention", plan_convention_name(row->convention));
    rep_put_real(writer, "convention_ratio", row->ratio, "no FLOP/s with a time are published");
    rep_put_bool(writer, "dense_16bit", row->dense16);
    rep_put_bool(writer, "layout_chosen", row->chosen);
    rep_close(writer);
}

static void put_chance(struct rep_writer *writer, const void *item)
{
    const struct plan_chance *chance = item;
    rep_put_real(writer, "probability_below", chance->below, "");
    rep_put_int(writer, "layouts", (int64_t)chance->rows);
    rep_put_real(writer, "expected", chance->expected, "");
    rep_put_int(writer, "ran_out", (int64_t)chance->out_of_memory);
}

static void put_errors(struct rep_writer *writer, const struct plan_errors *errors)
{
    static const char *const none = "no such rows";
    rep_put_int(writer, "rows", (int64_t)errors->rows);
    rep_put_real(writer, "step_error", errors->error, none);
    rep_put_real(writer, "step_error_from_run", errors->run_error, none);
    rep_put_real(writer, "coverage", errors->coverage, none);
    rep_put_real(writer, "coverage_from_run", errors->run_coverage, none);
    rep_put_real(writer, "width", errors->width, none);
    rep_put_real(writer, "width_from_run", errors->run_width, none);
    rep_put_int(writer, "memory_rows", (int64_t)errors->memory_rows);
    rep_put_real(writer, "memory_error_median", errors->memory_median, none);
    rep_put_real(writer, "memory_error_p90", errors->memory_p90, none);
    rep_put_int(writer, "formula_rows", (int64_t)errors->formula_rows);
    rep_put_real(writer, "formula_within_2_pct", errors->formula_share, none);
}

static void put_source(struct rep_writer *writer, const void *item)
{
    const struct plan_errors *errors = item;
    const char *convention = NULL;
    if (errors->convention >= 0)
        convention = plan_convention_name((enum plan_convention)errors->convention);
    rep_put_text(writer, "source", errors->source);
    rep_put_text_or(writer, "convention", convention, "the source prints no FLOP/s");
    put_errors(writer, errors);
}

int rep_plan_check_json(const struct plan_check *check, bool from_run, FILE *out)
{
    struct rep_writer writer;
    int rc = rep_writer_begin(&writer, out);
    if (rc)
        return rc;
    rep_put_text(&writer, "schema", "tacho-plan-check/1");
    rep_open(&writer, "summary");
    put_errors(&writer, &check->all);
    rep_put_int(&writer, "oom_rows", (int64_t)check->out_of_memory);
    rep_put_int(&writer, "oom_predicted", (int64_t)check->out_of_memory_predicted);
    rep_put_int(&writer, "fitting_rows", (int64_t)check->fitting);
    rep_put_int(&writer, "fitting_refused", (int64_t)check->fitting_refused);
    rep_put_int(&writer, "above_peak", (int64_t)check->above_peak);
    rep_close(&writer);
    REP_PUT_ROWS(&writer, "oom_calibration", check->chances, PLAN_CHANCES, put_chance);
    REP_PUT_ROWS(&writer, "sources", check->sources, check->source_count, put_source);
    rep_open_list(&writer, "rows");
    for (size_t i = 0; i < check->row_count; i++)
        put_row(&writer, check, i, from_run);
    rep_close(&writer);
    return rep_writer_end(&writer);
}
