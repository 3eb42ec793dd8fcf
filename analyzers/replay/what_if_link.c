/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a collective's time that does not depend on its size (what_if_link.h).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/what_if_link.h"

#define APART 4.0 /* largest size / smallest: from here on the line means something */
#define NEAR  1.1 /* sizes that are one */

struct transfer {
    double bytes, ns;
};

static int size_order(const void *left, const void *right)
{
    const struct transfer *first = left, *second = right;
    return (first->bytes > second->bytes) - (first->bytes < second->bytes);
}

static double median_ns(const struct transfer *transfer, size_t count, double *work)
{
    for (size_t i = 0; i < count; i++)
        work[i] = transfer[i].ns;
    return an_quantile_of(work, count, 0.5);
}

static struct an_value latency_of(const struct transfer *transfer, size_t count, double *work)
{
    size_t small = 0, large = count;
    if (!count)
        return an_num_none("the collectives do not say how many bytes they move");
    while (small < count && transfer[small].bytes <= NEAR * transfer[0].bytes)
        small++;
    while (large && transfer[large - 1].bytes >= transfer[count - 1].bytes / NEAR)
        large--;
    if (transfer[count - 1].bytes < APART * transfer[0].bytes)
        return an_num_none(
            "the collectives are all of about one size: the run does not show their latency");
    double small_ns = median_ns(transfer, small, work),
           large_ns = median_ns(transfer + large, count - large, work);
    double latency = small_ns - transfer[0].bytes * (large_ns - small_ns) /
                                    (transfer[count - 1].bytes - transfer[0].bytes);
    return an_num(fmax(0, fmin(latency, small_ns)));
}

/* The latency that was measured of messages between ranks, of the 2 (R - 1) messages in a row of a
 * ring (Patarasu 2009); absent with the reason that `unknown` has where it was not measured. */
static struct an_value measured_latency(const struct an_context *context, struct an_value unknown)
{
    const struct an_trace *trace = context->trace;
    double ranks = 0;
    for (size_t i = 0; i < context->lane_count; i++)
        ranks += context->lane[i].rank >= 0;
    for (size_t i = 0; i < trace->ceiling_count; i++)
        if (!strcmp(trace->ceiling[i].resource, "mpi_latency") && trace->ceiling[i].value > 0)
            return an_num(2 * fmax(1, ranks - 1) * trace->ceiling[i].value * 1e9);
    return unknown;
}

int an_link_latency(const struct an_replay *replay, struct an_latency_fit *fit)
{
    const struct an_trace *trace = replay->context->trace;
    struct transfer *transfer = malloc((replay->node_count + 1) * sizeof *transfer);
    double *work = malloc((replay->node_count + 1) * sizeof *work);
    size_t count = 0;
    *fit = (struct an_latency_fit){0};
    for (size_t i = 0; transfer && work && i < replay->node_count; i++) {
        uint32_t node = replay->node[i], slice = replay->graph->slice[node];
        const struct an_detail *detail =
            slice != AN_NONE ? an_trace_detail(trace, trace->slice.detail[slice]) : NULL;
        if (replay->graph->cause[node] != AN_CAUSE_TRANSFER)
            continue;
        fit->nodes++;
        if (detail && detail->bytes != STORE_ABSENT && detail->bytes > 0)
            transfer[count++] = (struct transfer){(double)detail->bytes, (double)replay->own[node]};
    }
    if (count)
        qsort(transfer, count, sizeof *transfer, size_order);
    if (transfer && work)
        fit->latency_ns = latency_of(transfer, count, work);
    if (count && !fit->latency_ns.valid)
        fit->latency_ns = measured_latency(replay->context, fit->latency_ns);
    int rc = transfer && work ? 0 : TACHO_ENOMEM;
    free(transfer);
    free(work);
    return rc;
}
