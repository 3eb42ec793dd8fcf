/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json/json_parts.h"

static void put_collective(struct rep_writer *w, const struct an_collective *k)
{
    rep_open(w, NULL);
    rep_put_text(w, "name", k->name);
    rep_put_count(w, "communicator", k->communicator);
    rep_put_count(w, "ranks", k->ranks);
    rep_put_int(w, "count", k->count);
    rep_put_int(w, "matched", k->matched);
    rep_put_value(w, "calls_per_step", k->calls_per_step);
    rep_put_value(w, "bytes_per_step", k->bytes_per_step);
    rep_put_value(w, "bytes_per_call", k->bytes_per_call);
    rep_put_value(w, "bytes_max_over_mean", k->bytes_max_over_mean);
    rep_put_value(w, "mean_ms", k->mean_ms);
    rep_put_value(w, "transfer_ms", k->transfer_ms);
    rep_put_value(w, "waiting_ms", k->waiting_ms);
    rep_put_value(w, "algorithm_bytes_per_s", k->algorithm_bytes_per_s);
    rep_put_value(w, "bus_bytes_per_s", k->bus_bytes_per_s);
    rep_put_text_or(w, "bandwidth_of", k->bandwidth_of, "no bandwidth is known");
    rep_close(w);
}

static void put_rank(struct rep_writer *w, const struct an_comm_rank *k)
{
    rep_open(w, NULL);
    rep_put_int(w, "rank", k->rank);
    rep_put_value(w, "total_ms", k->total_ms);
    rep_put_value(w, "exposed_ms", k->exposed_ms);
    rep_put_value(w, "overlap_pct", k->overlap_pct);
    rep_put_value(w, "transfer_ms", k->transfer_ms);
    rep_put_value(w, "waiting_ms", k->waiting_ms);
    rep_put_value(w, "exposed_transfer_ms", k->exposed_transfer_ms);
    rep_put_value(w, "exposed_waiting_ms", k->exposed_waiting_ms);
    rep_put_value(w, "last_pct", k->last_pct);
    rep_put_value(w, "caused_ms", k->caused_ms);
    rep_close(w);
}

void rep_json_communication(struct rep_writer *w, const struct an_communication *x)
{
    if (x->reason) {
        rep_put_null(w, "communication", x->reason);
        return;
    }
    rep_open(w, "communication");
    rep_put_value(w, "bytes_per_step", x->bytes_per_step);
    rep_put_value(w, "total_ms", x->total_ms);
    rep_put_value(w, "exposed_ms", x->exposed_ms);
    rep_put_value(w, "overlap_pct", x->overlap_pct);
    rep_put_value(w, "transfer_ms", x->transfer_ms);
    rep_put_value(w, "waiting_ms", x->waiting_ms);
    rep_put_value(w, "exposed_transfer_ms", x->exposed_transfer_ms);
    rep_put_value(w, "exposed_waiting_ms", x->exposed_waiting_ms);
    rep_open(w, "blocking_ms");
    rep_put_value(w, "proven", x->blocking_proven_ms);
    rep_put_value(w, "inferred", x->blocking_inferred_ms);
    rep_put_value(w, "unknown", x->blocking_unknown_ms);
    rep_close(w);
    rep_put_value(w, "skew_ms", x->skew_ms);
    rep_put_int(w, "calls", x->calls);
    rep_put_int(w, "matched", x->matched);
    rep_put_text_or(w, "missing", x->missing, "no rank is known to be missing");
    rep_open_list(w, "collectives");
    for (size_t i = 0; i < x->collective_count; i++)
        put_collective(w, &x->collectives[i]);
    rep_close(w);
    rep_open_list(w, "ranks");
    for (size_t i = 0; i < x->rank_count; i++)
        put_rank(w, &x->ranks[i]);
    rep_close(w);
    rep_close(w);
}
