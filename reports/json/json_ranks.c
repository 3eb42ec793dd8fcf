/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks in tacho-report/1: who is slower than the others, the stage in which a delay appears
 * first, uneven data, the pipeline, experts, clocks.
 */
#include "reports/json/json_private.h"

/* One rank: its own time, its waiting, the stages of its step, and its distance to the other
 * ranks. */
static void put_row(struct rep_writer *writer, const void *item)
{
    const struct an_rank_row *row = item;
    rep_put_int(writer, "rank", row->rank);
    rep_put_text_or(writer, "host", row->host, "not known");
    rep_put_text(writer, "verdict", row->verdict);
    rep_put_int(writer, "steps", row->steps);
    rep_put_value(writer, "step_ms", row->step_ms);
    rep_put_value(writer, "own_ms", row->own_ms);
    rep_put_value(writer, "waiting_ms", row->waiting_ms);
    rep_put_value(writer, "transfer_ms", row->transfer_ms);
    rep_put_value(writer, "input_ms", row->input_ms);
    rep_put_value(writer, "compute_ms", row->compute_ms);
    rep_open(writer, "stage_ms");
    for (int i = 0; i < AN_STAGE_COUNT; i++)
        rep_put_value(writer, an_stage_key((enum an_step_stage)i), row->stage_ms[i]);
    rep_close(writer);
    rep_put_value(writer, "tokens_per_step", row->tokens_per_step);
    rep_put_value(writer, "samples_per_step", row->samples_per_step);
    rep_put_value(writer, "all_to_all_bytes", row->all_to_all_bytes);
    rep_put_value(writer, "excess_pct", row->excess_pct);
    rep_put_value(writer, "excess_low_pct", row->excess_low_pct);
    rep_put_value(writer, "excess_high_pct", row->excess_high_pct);
}

/* Which rank is slower than the others by more than chance, and what the step would gain without
 * its excess. */
static void put_straggler(struct rep_writer *writer, const struct an_straggler *straggler)
{
    if (rep_put_absent(writer, "straggler", straggler->reason))
        return;
    rep_open(writer, "straggler");
    rep_put_text(writer, "says", straggler->says);
    rep_put_int(writer, "count", (int64_t)straggler->count);
    if (straggler->count)
        rep_put_int(writer, "rank", straggler->rank);
    else
        rep_put_null(writer, "rank", "none");
    rep_put_value(writer, "excess_pct", straggler->excess_pct);
    rep_put_value(writer, "excess_low_pct", straggler->excess_low_pct);
    rep_put_value(writer, "excess_high_pct", straggler->excess_high_pct);
    rep_open(writer, "gain_pct");
    rep_put_value(writer, "low", straggler->gain_low_pct);
    rep_put_value(writer, "expected", straggler->gain_pct);
    rep_put_value(writer, "high", straggler->gain_high_pct);
    rep_close(writer);
    rep_put_bool(writer, "by_data", straggler->by_data);
    rep_close(writer);
}

/* The frontier of all ranks over the stages of a step: where the delay of the slowest appears
 * first. */
static void put_frontier(struct rep_writer *writer, const struct an_frontier *frontier)
{
    bool found = frontier->stage != AN_STAGE_COUNT;
    if (rep_put_absent(writer, "frontier", frontier->reason))
        return;
    rep_open(writer, "frontier");
    rep_put_text_or(writer, "stage", found ? an_stage_key(frontier->stage) : NULL,
                    frontier->delay_pct.reason);
    if (found)
        rep_put_int(writer, "rank", frontier->rank);
    else
        rep_put_null(writer, "rank", frontier->delay_pct.reason);
    rep_put_value(writer, "delay_ms", frontier->delay_ms);
    rep_put_value(writer, "delay_pct", frontier->delay_pct);
    rep_put_value(writer, "delay_low_pct", frontier->delay_low_pct);
    rep_put_int(writer, "slowest_ns", frontier->slowest_ns);
    rep_open_list(writer, "stages");
    for (size_t i = 0; i < frontier->row_count; i++) {
        const struct an_frontier_row *row = &frontier->row[i];
        rep_open(writer, NULL);
        rep_put_text(writer, "stage", an_stage_key(row->stage));
        rep_put_real(writer, "frontier_ms", row->frontier_ms, "not finite");
        rep_put_real(writer, "increment_ms", row->increment_ms, "not finite");
        rep_put_int(writer, "increment_ns", frontier->increment_ns[row->stage]);
        rep_put_real(writer, "behind_ms", row->behind_ms, "not finite");
        rep_put_int(writer, "rank", row->rank);
        rep_put_real(writer, "lead_pct", row->lead_pct, "not finite");
        rep_close(writer);
    }
    rep_close(writer);
    rep_close(writer);
}

static void put_clock(struct rep_writer *writer, const void *item)
{
    const struct an_clock_row *row = item;
    rep_put_int(writer, "rank", row->rank);
    rep_put_text_or(writer, "host", row->host, "not known");
    rep_put_text(writer, "how", row->how);
    rep_put_bool(writer, "corrected", row->corrected);
    rep_put_value(writer, "offset_ns", row->offset_ns);
    rep_put_value(writer, "offset_low_ns", row->offset_low_ns);
    rep_put_value(writer, "offset_high_ns", row->offset_high_ns);
    rep_put_value(writer, "drift_ppm", row->drift_ppm);
    rep_put_value(writer, "drift_error_ppm", row->drift_error_ppm);
    rep_put_value(writer, "error_ns", row->error_ns);
    rep_put_int(writer, "matched", row->matched);
}

/* The correction of every rank's clock and its error. */
static void put_clocks(struct rep_writer *writer, const struct an_clocks *clocks)
{
    if (rep_put_absent(writer, "clocks", clocks->reason))
        return;
    rep_open(writer, "clocks");
    rep_put_value(writer, "error_ns", clocks->error_ns);
    REP_PUT_ROWS(writer, "ranks", clocks->row, clocks->row_count, put_clock);
    rep_close(writer);
}

/* Stages and micro-batches of a pipeline, and the share of a step that is bubble. */
static void put_pipeline(struct rep_writer *writer, const struct an_pipeline *pipeline)
{
    if (rep_put_absent(writer, "pipeline", pipeline->reason))
        return;
    rep_open(writer, "pipeline");
    rep_put_int(writer, "stages", pipeline->stages);
    rep_put_int(writer, "micro_batches", pipeline->micro_batches);
    rep_put_value(writer, "bubble_ms", pipeline->bubble_ms);
    rep_put_value(writer, "bubble_pct", pipeline->bubble_pct);
    rep_put_value(writer, "ideal_pct", pipeline->ideal_pct);
    rep_close(writer);
}

static void put_gain(struct rep_writer *writer, const char *key, const struct an_gain_pct *gain)
{
    rep_open(writer, key);
    rep_put_value(writer, "low", gain->low);
    rep_put_value(writer, "expected", gain->expected);
    rep_put_value(writer, "high", gain->high);
    rep_close(writer);
}

/* What even stages and even operations would make of the step. */
static void put_even(struct rep_writer *writer, const struct an_even *even)
{
    if (rep_put_absent(writer, "even", even->reason))
        return;
    rep_open(writer, "even");
    rep_put_int(writer, "steps", even->steps);
    rep_put_int(writer, "stages", even->stage_count);
    rep_put_value(writer, "recorded_ms", even->recorded_ms);
    rep_put_value(writer, "ideal_ms", even->ideal_ms);
    rep_put_value(writer, "stages_even_ms", even->stages_even_ms);
    rep_put_int(writer, "slow_stage", even->stage);
    rep_put_value(writer, "slow_stage_excess_pct", even->stage_excess_pct);
    rep_put_value(writer, "slow_stage_share_pct", even->stage_share_pct);
    put_gain(writer, "slow_stage_gain_pct", &even->slow_stage);
    put_gain(writer, "stages_gain_pct", &even->stages);
    put_gain(writer, "batches_gain_pct", &even->batches);
    rep_put_value(writer, "batch_correlation", even->batch_correlation);
    rep_put_int(writer, "rank", even->rank);
    rep_put_value(writer, "rank_pct", even->rank_pct);
    rep_close(writer);
}

/* Ranks that take turns at being late. */
static void put_jitter(struct rep_writer *writer, const struct an_jitter *jitter)
{
    if (rep_put_absent(writer, "jitter", jitter->reason))
        return;
    rep_open(writer, "jitter");
    rep_put_value(writer, "ms", jitter->ms);
    rep_put_value(writer, "pct", jitter->pct);
    rep_put_int(writer, "group", jitter->rank);
    rep_put_int(writer, "group_ranks", jitter->ranks);
    rep_put_text_or(writer, "stage",
                    jitter->stage == AN_STAGE_COUNT ? NULL : an_stage_key(jitter->stage),
                    "no stage exceeds the median");
    rep_put_text_or(writer, "cause", jitter->cause, jitter->correlation.reason);
    rep_put_value(writer, "correlation", jitter->correlation);
    put_gain(writer, "gain_pct", &jitter->gain);
    rep_close(writer);
}

/* How unevenly the all-to-all traffic of experts is spread over the ranks. */
static void put_experts(struct rep_writer *writer, const struct an_experts *experts)
{
    if (rep_put_absent(writer, "experts", experts->reason))
        return;
    rep_open(writer, "experts");
    rep_put_value(writer, "max_over_mean", experts->max_over_mean);
    rep_put_value(writer, "mean_bytes", experts->bytes_mean);
    rep_put_value(writer, "max_bytes", experts->bytes_max);
    rep_put_int(writer, "rank", experts->rank);
    rep_close(writer);
}

/* How unevenly tokens or samples are spread over the ranks. */
static void put_data(struct rep_writer *writer, const struct an_uneven *uneven)
{
    if (rep_put_absent(writer, "data", uneven->reason))
        return;
    rep_open(writer, "data");
    rep_put_text(writer, "of", uneven->what);
    rep_put_bool(writer, "uneven", uneven->found);
    rep_put_value(writer, "max_over_mean", uneven->max_over_mean);
    rep_put_value(writer, "mean", uneven->mean);
    rep_put_value(writer, "max", uneven->max);
    rep_put_value(writer, "min", uneven->min);
    rep_put_int(writer, "rank", uneven->rank);
    rep_close(writer);
}

void rep_json_stages(struct rep_writer *writer, const struct an_stages *stages)
{
    if (rep_put_absent(writer, "stages", stages->reason))
        return;
    rep_open(writer, "stages");
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ms", an_stage_key((enum an_step_stage)stage));
        rep_put_value(writer, key, stages->ms[stage]);
    }
    rep_close(writer);
}

void rep_json_ranks(struct rep_writer *writer, const struct an_ranks *ranks)
{
    rep_open(writer, "ranks");
    rep_put_text_or(writer, "own_is", ranks->own_is, ranks->reason);
    rep_put_int(writer, "steps", ranks->steps);
    rep_put_text_or(writer, "missing", ranks->missing, "no rank is known to be missing");
    if (ranks->row_count) {
        put_straggler(writer, &ranks->straggler);
        put_frontier(writer, &ranks->frontier);
        put_data(writer, &ranks->uneven);
    } else {
        rep_put_null(writer, "straggler", ranks->reason);
        rep_put_null(writer, "frontier", ranks->reason);
        rep_put_null(writer, "data", ranks->reason);
    }
    put_pipeline(writer, &ranks->pipeline);
    put_even(writer, &ranks->even);
    put_jitter(writer, &ranks->jitter);
    put_experts(writer, &ranks->experts);
    put_clocks(writer, &ranks->clocks);
    REP_PUT_ROWS(writer, "ranks", ranks->row, ranks->row_count, put_row);
    rep_close(writer);
}
