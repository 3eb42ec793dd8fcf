/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators as a graph in the JSON report: candidates for fusion, lifetimes, width, repeated work.
 */
#include "reports/json/json_private.h"

static void put_fusion(struct rep_writer *writer, const void *item)
{
    const struct an_fusion_row *row = item;
    rep_put_text(writer, "operators", row->operators);
    rep_put_int(writer, "length", row->length);
    rep_put_text(writer, "known_by", row->how);
    rep_put_text(writer, "lives_in", row->place);
    rep_put_text_or(writer, "note", row->note, "the saving depends on nothing else");
    rep_put_value(writer, "count_per_step", row->count);
    rep_put_value(writer, "ms_per_step", row->ms);
    rep_put_value(writer, "bytes_per_step", row->bytes);
    rep_put_value(writer, "saved_bytes_per_step", row->saved_bytes);
    rep_put_value(writer, "launches_saved_per_step", row->launches_saved);
    rep_put_value(writer, "gain_low_ms", row->gain_low_ms);
    rep_put_value(writer, "gain_ms", row->gain_ms);
    rep_put_value(writer, "gain_high_ms", row->gain_high_ms);
}

static void put_row(struct rep_writer *writer, const void *item)
{
    const struct an_flow_row *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_int(writer, "count", row->count);
    rep_put_int(writer, "bytes", row->bytes);
    rep_put_us(writer, "total_us", row->ns);
}

static void put_us(struct rep_writer *writer, const char *key, struct an_count ns)
{
    struct an_value us = {(double)ns.value / 1e3, ns.reason, ns.valid};
    rep_put_value(writer, key, us);
}

/* The candidates and what all of them save. */
static void put_candidates(struct rep_writer *writer, const struct an_dataflow *flow)
{
    rep_open(writer, "fusion");
    rep_put_int(writer, "steps", (int64_t)flow->steps);
    rep_put_value(writer, "step_ms", flow->step_ms);
    rep_put_text_or(writer, "bandwidth", flow->bandwidth_words, flow->fusion_reason);
    rep_put_value(writer, "gain_low_ms", flow->fusion_low_ms);
    rep_put_value(writer, "gain_ms", flow->fusion_gain_ms);
    rep_put_value(writer, "gain_high_ms", flow->fusion_high_ms);
    REP_PUT_ROWS(writer, "candidates", flow->fusion, flow->fusion_count, put_fusion);
    rep_close(writer);
}

void rep_json_dataflow(struct rep_writer *writer, const struct an_dataflow *flow)
{
    if (rep_put_absent(writer, "dataflow", flow->reason))
        return;
    rep_open(writer, "dataflow");
    rep_put_text(writer, "source", flow->source);
    rep_put_int(writer, "step", flow->step);
    rep_put_int(writer, "operators", flow->operators);
    rep_put_int(writer, "edges", flow->edges);
    rep_put_int(writer, "inferred_edges", flow->inferred_edges);
    rep_put_us(writer, "serial_us", flow->serial_ns);
    put_us(writer, "longest_path_us", flow->path_ns);
    rep_put_value(writer, "width_mean", flow->width_mean);
    rep_put_count(writer, "width_most", flow->width_most);
    put_us(writer, "two_streams_us", flow->two_streams_ns);
    rep_put_count(writer, "tensors", flow->tensor_count);
    rep_put_count(writer, "tensor_bytes", flow->tensor_bytes);
    rep_put_count(writer, "live_bound_bytes", flow->live_bound_bytes);
    rep_put_count(writer, "pool_bytes", flow->pool_bytes);
    rep_put_count(writer, "in_place_saved_bytes", flow->in_place_saved_bytes);
    put_candidates(writer, flow);
    REP_PUT_ROWS(writer, "in_place", flow->in_place, flow->in_place_count, put_row);
    REP_PUT_ROWS(writer, "repeated", flow->repeated, flow->repeated_count, put_row);
    REP_PUT_ROWS(writer, "dead", flow->dead, flow->dead_count, put_row);
    rep_close(writer);
}
