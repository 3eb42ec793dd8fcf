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

static double median_ns(const struct transfer *x, size_t n, double *work)
{
    for (size_t i = 0; i < n; i++)
        work[i] = x[i].ns;
    return an_quantile_of(work, n, 0.5);
}

static struct an_value latency_of(const struct transfer *x, size_t n, double *work)
{
    size_t small = 0, large = n;
    if (!n)
        return an_num_none("the collectives do not say how many bytes they move");
    while (small < n && x[small].bytes <= NEAR * x[0].bytes)
        small++;
    while (large && x[large - 1].bytes >= x[n - 1].bytes / NEAR)
        large--;
    if (x[n - 1].bytes < APART * x[0].bytes)
        return an_num_none("the collectives are all about as large: what of their time is latency "
                           "is not in the run");
    double t0 = median_ns(x, small, work), t1 = median_ns(x + large, n - large, work);
    double latency = t0 - x[0].bytes * (t1 - t0) / (x[n - 1].bytes - x[0].bytes);
    return an_num(latency < 0 ? 0 : latency < t0 ? latency : t0);
}

int an_link_latency(const struct an_replay *r, struct an_latency_fit *fit)
{
    const struct an_trace *t = r->c->t;
    struct transfer *x = malloc((r->node_count + 1) * sizeof *x);
    double *work = malloc((r->node_count + 1) * sizeof *work);
    size_t n = 0;
    *fit = (struct an_latency_fit){0};
    for (size_t i = 0; x && work && i < r->node_count; i++) {
        uint32_t node = r->node[i], slice = r->g->slice[node];
        const struct an_detail *d =
            slice != AN_NONE ? an_trace_detail(t, t->slice.detail[slice]) : NULL;
        if (r->g->cause[node] != AN_CAUSE_TRANSFER)
            continue;
        fit->nodes++;
        if (d && d->bytes != STORE_ABSENT && d->bytes > 0)
            x[n++] = (struct transfer){(double)d->bytes, (double)r->own[node]};
    }
    if (n)
        qsort(x, n, sizeof *x, size_order);
    if (x && work)
        fit->ns = latency_of(x, n, work);
    int rc = x && work ? 0 : TACHO_ENOMEM;
    free(x);
    free(work);
    return rc;
}
