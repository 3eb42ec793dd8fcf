/* SPDX-License-Identifier: Apache-2.0
 *
 * Parallel branches: the operators of a step begun as soon as what they need has ended. How many
 * run at once then, the longest chain, and what two streams would make of the program's order. Each
 * operator takes the time that it took: operators at once may slow each other down, so the gain is
 * the most that a second stream can bring.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/dataflow/flow.h"

struct moment {
    int64_t time;
    int change; /* operators that begin (1) or end (-1) */
};

static int moment_order(const void *left, const void *right)
{
    const struct moment *first = left, *second = right;
    return 2 * AN_COMPARE(first->time, second->time) + AN_COMPARE(first->change, second->change);
}

/* Ends of the operators if each begins at ready[i], when what it needs has ended; the latest. With
 * `streams`, it also waits for the first one that is free. */
static int64_t run(const struct flow *flow, int64_t *end, int64_t *streams)
{
    int64_t last = 0;
    size_t edge = 0;
    for (uint32_t i = 0; i < flow->count; i++) {
        int64_t begin = 0;
        for (; edge < flow->edge_count && flow->edge[edge].to == i; edge++)
            if (end[flow->edge[edge].from] > begin)
                begin = end[flow->edge[edge].from];
        if (streams) {
            int64_t *stream = streams[1] < streams[0] ? &streams[1] : &streams[0];
            begin = *stream > begin ? *stream : begin;
            *stream = begin + flow->op[i].ns;
        }
        end[i] = begin + flow->op[i].ns;
        last = end[i] > last ? end[i] : last;
    }
    return last;
}

static int64_t most_at_once(const struct flow *flow, const int64_t *end, struct moment *moment)
{
    int64_t now = 0, most = 0;
    size_t count = 0;
    for (size_t i = 0; i < flow->count; i++) {
        if (flow->op[i].ns <= 0)
            continue;
        moment[count++] = (struct moment){end[i] - flow->op[i].ns, 1};
        moment[count++] = (struct moment){end[i], -1};
    }
    if (count)
        qsort(moment, count, sizeof *moment, moment_order);
    for (size_t i = 0; i < count; i++) {
        now += moment[i].change;
        most = now > most ? now : most;
    }
    return most;
}

int flow_width(const struct flow *flow, struct an_dataflow *out)
{
    const char *reason = "edges that are inferred from sizes do not show what is independent";
    out->path_ns = out->width_most = out->two_streams_ns = an_int_none(reason);
    out->width_mean = an_num_none(reason);
    for (size_t i = 0; i < flow->count; i++)
        out->serial_ns = an_time_add(out->serial_ns, flow->op[i].ns > 0 ? flow->op[i].ns : 0);
    if (!flow->edge_count || flow->edge[0].how == FLOW_SIZE || out->serial_ns >= INT64_MAX / 2)
        return 0;
    int64_t *end = malloc((flow->count + 1) * sizeof *end), streams[2] = {0, 0};
    struct moment *moment = malloc((2 * flow->count + 1) * sizeof *moment);
    int rc = end && moment ? 0 : TACHO_ENOMEM;
    if (!rc) {
        out->two_streams_ns = an_int(run(flow, end, streams));
        out->path_ns = an_int(run(flow, end, NULL));
        out->width_most = an_int(most_at_once(flow, end, moment));
        out->width_mean =
            an_num_if(out->path_ns.value > 0, (double)out->serial_ns / (double)out->path_ns.value,
                      "the operators take no time");
    }
    free(end);
    free(moment);
    return rc;
}
