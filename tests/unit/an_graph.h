/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_an_*.c of the dependency graph: the context of an analysis, left open so that a test can
 * look at what analyzers share.
 */
#ifndef AN_GRAPH_H
#define AN_GRAPH_H

#include "an_gpu.h"
#include "analyzers/graph/graph.h"
#include "analyzers/table.h"

struct graph_run {
    struct an_context context;
    struct an_trace *trace;
    struct an_result result;
    struct an_options options;
};

/* Loads the fixture's run and finds devices and steps in it. */
static inline struct an_context *graph_open(struct fixture *f, struct graph_run *g)
{
    struct tacho_error err = {0};
    memset(g, 0, sizeof *g);
    FX(store_commit(f->s));
    store_close(f->s);
    f->s = NULL;
    if (store_open(f->path, &f->reader, &err) || an_trace_load(f->reader, &g->trace, &err))
        fail_msg("%s", err.what);
    g->result.arena = an_arena_new();
    g->options.file = "run.tacho";
    g->context = (struct an_context){.trace = g->trace,
                                     .options = &g->options,
                                     .result = &g->result,
                                     .arena = g->result.arena,
                                     .scratch = an_arena_new()};
    if (an_devices_build(g->context.trace, g->context.options->classes, g->context.arena,
                         g->context.scratch, &g->context.gpu, &err))
        fail_msg("%s", err.what);
    assert_int_equal(an_steps.run(&g->context), 0);
    return &g->context;
}

static inline void graph_close(struct fixture *f, struct graph_run *g)
{
    an_trace_free(g->trace);
    an_arena_free(g->result.arena);
    an_arena_free(g->context.scratch);
    fx_close(f);
}

/* Row of the slice of a name, the `nth` one on its track. */
static inline size_t graph_slice(const struct graph_run *g, const char *track, const char *name,
                                 int nth)
{
    for (size_t k = 0; k < g->trace->track_count; k++) {
        const struct an_track *x = &g->trace->track[k];
        for (size_t i = x->slice_first;
             !strcmp(x->name, track) && i < x->slice_first + x->slice_count; i++)
            if (!strcmp(an_trace_name(g->trace, g->trace->slice.name[i]), name) && nth-- == 0)
                return i;
    }
    fail_msg("no slice %s on %s", name, track);
    return 0;
}

/* What holds of every graph: nodes by track and start, threads without holes, every node in the
 * order once and behind all it depends on, every release inside the times. */
static inline void graph_check(const struct graph_run *run, const struct an_graph *g)
{
    uint32_t *place = calloc(g->node_count + 1, sizeof *place);
    assert_non_null(place);
    assert_int_equal(g->track_first[run->trace->track_count], g->node_count);
    for (size_t i = 0; i < g->node_count; i++) {
        assert_true(g->order[i] < g->node_count);
        assert_int_equal(place[g->order[i]], 0);
        place[g->order[i]] = (uint32_t)i + 1;
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t before = an_graph_before(g, n);
        assert_true(g->start[n] <= g->end[n]);
        assert_true(n >= g->track_first[g->track[n]] && n < g->track_first[g->track[n] + 1]);
        if (before != AN_NONE) {
            assert_true(place[before] < place[n]);
            assert_true(g->start[before] <= g->start[n]);
            if (g->kind[n] != AN_NODE_DEVICE)
                assert_int_equal(g->end[before], g->start[n]);
        }
        for (uint32_t e = g->in_first[n]; e < g->in_first[n + 1]; e++) {
            uint32_t from = g->in_from[e];
            bool wait = g->kind[n] == AN_NODE_WAIT || g->kind[n] == AN_NODE_COLLECTIVE;
            if (g->in_kind[e] & AN_EDGE_AT_START)
                from = an_graph_before(g, from);
            assert_true(from == AN_NONE || place[from] < place[n]);
            assert_true(an_edge_release(g, e) <= (wait ? g->end[n] : g->start[n]));
            assert_true(an_edge_release(g, e) >= g->start[g->in_from[e]]);
        }
    }
    free(place);
}

#endif
