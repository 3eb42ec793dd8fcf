/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of formats.
 */
#include "store/export/export.h"

#include "store/export/export_private.h"

const struct store_export_format store_export_formats[] = {
    {"perfetto", "Chrome JSON for ui.perfetto.dev and chrome://tracing", ".json",
     exp_perfetto_write},
    {"perfetto-proto", "Perfetto's own format, less than half the size", ".pftrace",
     exp_perfetto_proto_write},
    {"folded", "stacks with self times, for flame graphs", ".folded", exp_folded_write},
    {"stacks", "sampled call stacks with CPU time, for flame graphs", ".folded", exp_stacks_write},
    {"python", "frames of Python with time, for flame graphs", ".folded", exp_python_write},
    {"pprof", "ranges with self times for pprof", ".pb", exp_pprof_write},
    {"pprof-stacks", "sampled call stacks for pprof", ".pb", exp_pprof_stacks_write},
    {"pprof-python", "frames of Python for pprof", ".pb", exp_pprof_python_write},
    {"csv", "one row per slice, RFC 4180", ".csv", exp_csv_write},
    {"dot", "operators of a step as a graph, for Graphviz", ".dot", exp_dot_write},
    {"svg", "operators of a step as a graph, as a picture", ".svg", exp_svg_write},
    {0},
};
