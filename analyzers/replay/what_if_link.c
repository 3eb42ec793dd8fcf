/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a collective's time does not depend on its size (what_if_link.h).
 */
#include <stdlib.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/what_if_link.h"

#define APART 4.0 /* largest size / smallest: from here on the line means something */
#define NEAR  1.1 /* sizes that are one */

struct transfer {
    double bytes, ns;
};

static int size_order(const void *x, const void *y)
{
    const struct transfer *a = x, *b = y;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static double median_ns(const struct transfer *transfer, size_t n, double *work)
{
    for (size_t i = 0; i < n; i++)
        work[i] = transfer[i].ns;
    return an_quantile_of(work, n, 0.5);
}

static struct an_value latency_of(const struct transfer *transfer, size_t n, double *work)
{
    size_t small = 0, large = n;
    if (!n)
        return an_num_none("the collectives do not say how many bytes they move");
    while (small < n && transfer[small].bytes <= NEAR * transfer[0].bytes)
        small++;
    while (large && transfer[large - 1].bytes >= transfer[n - 1].bytes / NEAR)
        large--;
    if (transfer[n - 1].bytes < APART * transfer[0].bytes)
        return an_num_none("the collectives are all about as large: what of their time is latency "
                           "is not in the run");
    double t0 = median_ns(transfer, small, work), t1 = median_ns(transfer + large, n - large, work);
    double latency =
        t0 - transfer[0].bytes * (t1 - t0) / (transfer[n - 1].bytes - transfer[0].bytes);
    return an_num(latency < 0 ? 0 : latency < t0 ? latency : t0);
}

int an_link_latency(const struct an_replay *replay, struct an_latency_fit *fit)
{
    const struct an_trace *trace = replay->context->trace;
    struct transfer *transfer = malloc((replay->node_count + 1) * sizeof *transfer);
    double *work = malloc((replay->node_count + 1) * sizeof *work);
    size_t n = 0;
    *fit = (struct an_latency_fit){0};
    for (size_t i = 0; transfer && work && i < replay->node_count; i++) {
        uint32_t node = replay->node[i], slice = replay->graph->slice[node];
        const struct an_detail *detail =
            slice != AN_NONE ? an_trace_detail(trace, trace->slice.detail[slice]) : NULL;
        if (replay->graph->cause[node] != AN_CAUSE_TRANSFER)
            continue;
        fit->nodes++;
        if (detail && detail->bytes != STORE_ABSENT && detail->bytes > 0)
            transfer[n++] = (struct transfer){(double)detail->bytes, (double)replay->own[node]};
    }
    if (n)
        qsort(transfer, n, sizeof *transfer, size_order);
    if (transfer && work)
        fit->ns = latency_of(transfer, n, work);
    int rc = transfer && work ? 0 : TACHO_ENOMEM;
    free(transfer);
    free(work);
    return rc;
}
