/* SPDX-License-Identifier: Apache-2.0
 *
 * MFU against the measured roof: what the fastest product of a sweep of shapes reached on this
 * machine in each element type (ceilings `gemm`), instead of the instruction peak that nothing
 * reaches. A run that is faster raises the roof: no share is above 1.
 */
#include <string.h>

#include "analyzers/work/utilization.h"

#define CALLS_LEAST 3       /* of one payload, for its rate to raise a roof */
#define TIME_LEAST  1000000 /* ns of these calls */

struct roof_of_type {
    double value; /* FLOP/s, 0: not measured */
    const char *source;
};

/* The roof of a type on a lane's device, and the fastest product of this run where that is above
 * it. A rate above the instruction peak is a counting error and raises nothing. */
static struct roof_of_type roof_of(const struct an_flops_gather *g, const struct an_lane *l,
                                   const char *dtype)
{
    const struct an_context *c = g->c;
    const struct an_trace *t = c->t;
    const struct an_ceiling_row *row = an_ceiling_find(c, an_flops_device(c, l), "gemm", dtype);
    const struct an_ceiling_row *peak = an_ceiling_find(c, an_flops_device(c, l), "flops", dtype);
    if (!row)
        return (struct roof_of_type){0, NULL};
    struct roof_of_type roof = {row->value, row->source};
    for (size_t i = 0; i < t->detail_count; i++) {
        const struct an_flops_rate *x = &g->rate[i];
        if (x->calls < CALLS_LEAST || x->ns < TIME_LEAST || strcmp(t->detail[i].dtype, dtype))
            continue;
        double rate = (double)x->flops / (double)x->ns * 1e9;
        if (rate > roof.value && !(peak && rate > peak->value))
            roof = (struct roof_of_type){
                rate, "this run: its fastest products are above the calibrated roof"};
    }
    return roof;
}

void an_flops_roof_absent(struct an_context *c, const char *reason)
{
    c->r->utilization.mfu_measured = c->r->utilization.roof_measured_flops = an_num_none(reason);
    c->r->utilization.roof_source = NULL;
}

void an_flops_roof(struct an_flops_gather *g, double device_s, size_t devices, const char *missing)
{
    struct an_context *c = g->c;
    struct an_utilization *u = &c->r->utilization;
    double model_s = 0, flops = 0, hardware_s = 0;
    for (size_t k = 0; k < c->lane_count && !missing; k++)
        for (size_t d = 0; d < g->dtypes && !missing; d++) {
            const struct an_flops *f = &g->lane[k].by_dtype[d];
            if (!f->model && !f->hardware)
                continue;
            struct roof_of_type roof = roof_of(g, &c->lane[k], g->dtype[d]);
            if (!(roof.value > 0)) {
                missing = c->gpu
                              ? "the roof was not measured: accelerators are not calibrated in "
                                "this version"
                              : an_arena_format(
                                    c->a, "the roof of %s for %s was not measured; " AN_CALIBRATE,
                                    an_flops_device(c, &c->lane[k]),
                                    *g->dtype[d] ? g->dtype[d] : "an unnamed type");
                break;
            }
            model_s += (double)f->model / roof.value;
            flops += (double)f->hardware;
            hardware_s += (double)f->hardware / roof.value;
            if (!u->roof_source || !strncmp(roof.source, "this run", 8))
                u->roof_source = an_arena_text(c->a, roof.source);
        }
    if (!missing && !(hardware_s > 0))
        missing = "no FLOPs of products were recorded";
    if (missing) {
        an_flops_roof_absent(c, missing);
        return;
    }
    u->roof_measured_flops = an_num(flops / hardware_s * (double)devices);
    u->mfu_measured = an_flops_share(c, "MFU of the measured roof", device_s, model_s, NULL);
}
