/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication in tacho-report/1: totals of a step, the collectives, the ranks.
 */
#include "reports/json/json_private.h"

/* One collective: how often and how much, the transfer and the wait in a call, and two
 * bandwidths. */
static void put_collective(struct rep_writer *writer, const void *item)
{
    const struct an_collective *collective = item;
    rep_put_text(writer, "name", collective->name);
    rep_put_count(writer, "communicator", collective->communicator);
    rep_put_count(writer, "ranks", collective->ranks);
    rep_put_int(writer, "count", collective->count);
    rep_put_int(writer, "matched", collective->matched);
    rep_put_value(writer, "calls_per_step", collective->calls_per_step);
    rep_put_value(writer, "bytes_per_step", collective->bytes_per_step);
    rep_put_value(writer, "bytes_per_call", collective->bytes_per_call);
    rep_put_value(writer, "bytes_max_over_mean", collective->bytes_max_over_mean);
    rep_put_value(writer, "mean_ms", collective->mean_ms);
    rep_put_value(writer, "transfer_ms", collective->transfer_ms);
    rep_put_value(writer, "waiting_ms", collective->waiting_ms);
    rep_put_value(writer, "algorithm_bytes_per_s", collective->algorithm_bytes_per_s);
    rep_put_value(writer, "bus_bytes_per_s", collective->bus_bytes_per_s);
    rep_put_text_or(writer, "bandwidth_of", collective->bandwidth_of, "no bandwidth is known");
}

/* One rank: the part of its communication that is exposed, and how long the others wait for it. */
static void put_rank(struct rep_writer *writer, const void *item)
{
    const struct an_comm_rank *rank = item;
    rep_put_int(writer, "rank", rank->rank);
    rep_put_value(writer, "total_ms", rank->total_ms);
    rep_put_value(writer, "exposed_ms", rank->exposed_ms);
    rep_put_value(writer, "overlap_pct", rank->overlap_pct);
    rep_put_value(writer, "transfer_ms", rank->transfer_ms);
    rep_put_value(writer, "waiting_ms", rank->waiting_ms);
    rep_put_value(writer, "exposed_transfer_ms", rank->exposed_transfer_ms);
    rep_put_value(writer, "exposed_waiting_ms", rank->exposed_waiting_ms);
    rep_put_value(writer, "last_pct", rank->last_pct);
    rep_put_value(writer, "caused_ms", rank->caused_ms);
}

/* One row of ranks to another one; rows of several ranks begin with the one that is named. */
static void put_link(struct rep_writer *writer, const void *item)
{
    const struct an_link *link = item;
    rep_put_int(writer, "from", link->from_rank);
    rep_put_int(writer, "to", link->to_rank);
    rep_put_value(writer, "bytes_per_step", an_num(link->bytes));
    rep_put_value(writer, "messages_per_step", an_num(link->messages));
    rep_put_value(writer, "recorded_bytes_per_step", an_num(link->recorded));
}

/* Who sends how much to whom in a step. */
static void put_traffic(struct rep_writer *writer, const struct an_traffic *traffic)
{
    if (rep_put_absent(writer, "traffic", traffic->reason))
        return;
    rep_open(writer, "traffic");
    rep_put_int(writer, "ranks", traffic->ranks);
    rep_put_int(writer, "ranks_a_row", traffic->ranks_a_row);
    rep_put_int(writer, "steps", traffic->steps);
    rep_put_value(writer, "bytes_per_step", an_num(traffic->bytes));
    rep_put_value(writer, "recorded_bytes_per_step", an_num(traffic->recorded));
    rep_put_value(writer, "unplaced_bytes_per_step", an_num(traffic->unplaced));
    REP_PUT_ROWS(writer, "links", traffic->link, traffic->link_count, put_link);
    rep_close(writer);
}

void rep_json_communication(struct rep_writer *writer, const struct an_communication *communication)
{
    if (rep_put_absent(writer, "communication", communication->reason))
        return;
    rep_open(writer, "communication");
    rep_put_value(writer, "bytes_per_step", communication->bytes_per_step);
    rep_put_value(writer, "total_ms", communication->total_ms);
    rep_put_value(writer, "exposed_ms", communication->exposed_ms);
    rep_put_value(writer, "overlap_pct", communication->overlap_pct);
    rep_put_value(writer, "transfer_ms", communication->transfer_ms);
    rep_put_value(writer, "waiting_ms", communication->waiting_ms);
    rep_put_value(writer, "exposed_transfer_ms", communication->exposed_transfer_ms);
    rep_put_value(writer, "exposed_waiting_ms", communication->exposed_waiting_ms);
    rep_open(writer, "blocking_ms");
    rep_put_value(writer, "proven", communication->blocking_proven_ms);
    rep_put_value(writer, "inferred", communication->blocking_inferred_ms);
    rep_put_value(writer, "unknown", communication->blocking_unknown_ms);
    rep_close(writer);
    rep_put_value(writer, "skew_ms", communication->skew_ms);
    rep_put_int(writer, "calls", communication->calls);
    rep_put_int(writer, "matched", communication->matched);
    rep_put_text_or(writer, "missing", communication->missing, "no rank is known to be missing");
    REP_PUT_ROWS(writer, "collectives", communication->collectives, communication->collective_count,
                 put_collective);
    REP_PUT_ROWS(writer, "ranks", communication->ranks, communication->rank_count, put_rank);
    put_traffic(writer, &communication->traffic);
    rep_close(writer);
}
