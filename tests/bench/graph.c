/* SPDX-License-Identifier: Apache-2.0
 *
 * The dependency graph of a run (first argument), its columns, what it takes to build it, and the
 * critical path's walk. CPU time: other work of the machine does not count. Rows of four columns:
 * what, measured, budget, verdict. tests/bench/import.sh runs it on the large trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "analyzers/graph/graph.h"
#include "analyzers/table.h"

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double peak_mb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

static void need(int rc, const char *what)
{
    if (rc) {
        fprintf(stderr, "graph: %s: %s\n", what, tacho_error_text(rc));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct tacho_error err = {0};
    struct an_result r = {.arena = an_arena_new()};
    struct an_options o = {.file = argc > 1 ? argv[1] : ""};
    struct an_context c = {
        .options = &o, .result = &r, .arena = r.arena, .scratch = an_arena_new()};
    struct an_trace *t = NULL;
    store_reader *reader = NULL;
    const struct an_graph *g = NULL;
    const char *why = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: graph RUN.tacho\n");
        return 2;
    }
    need(store_open(argv[1], &reader, &err), err.what);
    need(an_trace_load(reader, &t, &err), err.what);
    c.trace = t;
    need(an_devices_build(c.trace, c.options->classes, c.arena, c.scratch, &c.gpu, &err), err.what);
    need(an_steps.run(&c), "steps");
    need(c.gpu ? an_gpu.run(&c) : 0, "devices");
    double loaded = peak_mb(), start = cpu();
    need(an_graph_of(&c, &g, &why), "graph");
    double built = cpu();
    if (!g) {
        printf("dependency graph\t%s\t-\tskipped\n", why);
        return 0;
    }
    double bytes = 34.0 * (double)g->node_count + 9.0 * (double)g->edge_count +
                   4.0 * (double)(c.gpu ? c.gpu->op.count : 0);
    printf("dependency graph of %zu slices\t%zu nodes, %zu edges, %.0f MB\t200 MB\t%s\n",
           t->slice.count, g->node_count, g->edge_count, bytes / 1e6,
           bytes > 200e6 ? "OVER" : "ok");
    printf("  peak while it is built\t%.0f MB above the loaded trace\t200 MB\t%s\n",
           peak_mb() - loaded, peak_mb() - loaded > 200 ? "OVER" : "ok");
    need(an_critical_path.run(&c), "path");
    double walked = cpu();
    printf("  building, critical path\t%.2f s, %.2f s of CPU; explained %.1f %%\t1 s\t%s\n",
           built - start, walked - built,
           r.critical_path.explained_pct.valid ? r.critical_path.explained_pct.value : 0,
           walked - start > 1 ? "OVER" : "ok");
    an_trace_free(t);
    an_arena_free(c.scratch);
    an_arena_free(r.arena);
    store_reader_close(reader);
    return 0;
}
