/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho export: a run in formats that other tools open.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "store/export/export.h"

struct values {
    const char *output, *format, *from, *to, *marker, *within;
    struct cli_range steps;
    bool path, raw;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW(
        "format", 'f', CLI_CHOICE, format,
        "perfetto|perfetto-proto|folded|stacks|python|pprof|pprof-stacks|pprof-python|csv|dot|"
        "svg",
        "format of the output (perfetto)"),
    CLI_OUTPUT_ROW,
    CLI_TEXT_ROW("from", 0, CLI_TEXT, from, "T",
                 "exclude what ended before T, counted from the first event: 1.5s, 200ms, 30us"),
    CLI_TEXT_ROW("to", 0, CLI_TEXT, to, "T", "exclude what began at T or later"),
    CLI_TEXT_ROW("steps", 0, CLI_RANGE, steps, "A:B", "export only the time of steps A to B"),
    CLI_FLAG_ROW("critical-path", 0, path,
                 "perfetto: add the critical path on top; csv: write its segments instead"),
    CLI_TEXT_ROW("within", 0, CLI_TEXT, within, "TEXT",
                 "dot, svg: only operators in ranges whose name holds TEXT: a layer, a phase"),
    CLI_MARKER_ROW,
    CLI_FLAG_ROW("raw", 0, raw,
                 "csv: do not put ' before texts that a spreadsheet takes for formulas"),
    {0},
};

const struct cli_spec cli_export_spec = {
    .help = "export a run for other tools: Perfetto, flame graphs, spreadsheets",
    .usage = "[OPTION]... RUN",
    .about = "Writes a run as a timeline for ui.perfetto.dev (perfetto: JSON; perfetto-proto: "
             "smaller),\n"
             "as range stacks with self times (folded for flame graphs, pprof),\n"
             "as sampled call stacks (stacks, pprof-stacks: CPU time; python, pprof-python: time, "
             "by lines),\n"
             "as one row per slice (csv),\n"
             "or the operators of a step as a graph of what they pass to each other (dot, svg).\n"
             "docs/export.md describes the formats.",
    .options = options,
    .examples =
        "  tacho export latest -o run.json\n"
        "  tacho export latest --steps 10:12 -o steps.json\n"
        "  tacho export latest --critical-path -o path.json\n"
        "  tacho export latest --format svg --steps 10:10 -o graph.svg\n"
        "  tacho export trace.json.gz --format folded | flamegraph.pl --countname ns > flames.svg",
    .least = 1,
    .most = 1,
    .words_missing = "the run to export",
};

/* "1.5s", "200ms", a bare number is seconds. */
static bool parse_time(const char *text, int64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].name) && value >= 0 && value * units[i].ns < 9e18) {
            *ns = (int64_t)(value * units[i].ns + 0.5);
            return true;
        }
    return false;
}

/* Stores the first two integers of a row. */
static int first_two(void *ctx, int columns, const struct store_cell *cells)
{
    int64_t *out = ctx;
    for (int i = 0; i < columns && i < 2; i++)
        out[i] = cells[i].type == STORE_CELL_INTEGER ? cells[i].integer : STORE_ABSENT;
    return 0;
}

/* Reads the value of --from or --to, if there is one. 0 or an exit code, after a message. */
static int parse_bound(const char *option, const char *text, int64_t *ns)
{
    if (!text || parse_time(text, ns))
        return 0;
    return cli_usage("export", "give a number with s, ms, us or ns", "--%s: '%s' is not a time",
                     option, text);
}

/* --from and --to count from the first event. */
static int window_of_times(store_reader *reader, const struct values *values,
                           struct store_export_options *settings)
{
    int64_t first[2] = {STORE_ABSENT, STORE_ABSENT}, from = 0, to = 0;
    int code = parse_bound("from", values->from, &from);
    if (!code)
        code = parse_bound("to", values->to, &to);
    if (code)
        return code;
    if (values->from && values->to && to <= from)
        return cli_usage("export", NULL, "--to is not after --from");
    if (!values->from && !values->to)
        return 0;
    if (store_query(reader,
                    "SELECT min(t) FROM (SELECT min(start) AS t FROM slice UNION ALL SELECT "
                    "min(time) FROM counter)",
                    NULL, first_two, first) < 0)
        return cli_fail(store_reader_error(reader));
    if (first[0] == STORE_ABSENT)
        return 0;
    if (values->from)
        settings->t0 = first[0] > INT64_MAX - from ? INT64_MAX : first[0] + from;
    if (values->to)
        settings->t1 = first[0] > INT64_MAX - to ? INT64_MAX : first[0] + to;
    return 0;
}

/* Steps that the program marked (tacho.step), else those of PyTorch's profiler: both have numbers
 * of their own. */
static int window_of_steps(store_reader *reader, const struct col_found *found,
                           const struct values *values, struct store_export_options *settings)
{
    static const char *const sources[] = {
        "SELECT min(start), max(\"end\") FROM step WHERE \"index\"",
        "SELECT min(start), max(start + dur) FROM slice JOIN string ON string.id = slice.name "
        "WHERE text GLOB 'ProfilerStep#[0-9]*' AND CAST(substr(text, 14) AS INTEGER)",
    };
    char sql[400];
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        int64_t span[2] = {STORE_ABSENT, STORE_ABSENT};
        snprintf(sql, sizeof sql, "%s BETWEEN %" PRId64 " AND %" PRId64, sources[i],
                 values->steps.from, values->steps.to);
        if (store_query(reader, sql, NULL, first_two, span) < 0)
            return cli_fail(store_reader_error(reader));
        if (span[0] != STORE_ABSENT && span[1] != STORE_ABSENT) {
            settings->t0 = span[0];
            settings->t1 = span[1];
            return 0;
        }
    }
    return cli_error(
        TACHO_ENOTFOUND,
        "--steps needs numbered steps (tacho.step, ProfilerStep#N); --from and --to take "
        "times",
        "%s: no such steps", found->run);
}

/* Returns a copy of the path's rows for the exporter, which the caller frees; NULL: no memory. */
static struct store_export_path *copy_path(const struct an_critical_path *path)
{
    static const char *const how[] = {"recorded", "inferred", "gap"};
    struct store_export_path *export_path = calloc(path->row_count + 1, sizeof *export_path);
    for (size_t i = 0; export_path && i < path->row_count; i++) {
        const struct an_path_row *path_row = &path->rows[i];
        export_path[i] = (struct store_export_path){.start = path_row->start_ns,
                                                    .end = path_row->end_ns,
                                                    .track = path_row->track,
                                                    .range_start = path_row->range_start_ns,
                                                    .range_end = path_row->range_end_ns,
                                                    .name = path_row->name,
                                                    .cause = path_row->cause,
                                                    .how = how[path_row->how],
                                                    .link = path_row->link,
                                                    .window = path_row->window};
    }
    return export_path;
}

/* Puts the segments of the critical path into the settings; their texts belong to *result. */
static int find_path(const struct col_found *found, const char *marker, struct an_result **result,
                     struct store_export_options *settings)
{
    struct an_options path_only = {.path = true, .step_marker = marker};
    int code = cli_run_analyze(found, &path_only, result);
    if (code)
        return code;
    const struct an_critical_path *path = &(*result)->critical_path;
    if (path->reason)
        return cli_error(TACHO_ENOTFOUND, "export it without --critical-path",
                         "%s: no critical path: %s", found->run, path->reason);
    struct store_export_path *export_path = copy_path(path);
    if (!export_path)
        return cli_error(TACHO_ENOMEM, NULL, "%s: out of memory", found->run);
    settings->with_path = true;
    settings->path = export_path;
    settings->path_count = path->row_count;
    return 0;
}

/* The nodes and edges of a graph, which the caller frees: of all operators, or of those in ranges
 * whose name holds `within`. *count, *edges: how many. */
static struct store_export_node *copy_nodes(const struct an_dataflow *flow, const char *within,
                                            size_t *place, size_t *count)
{
    struct store_export_node *node = calloc(flow->node_count + 1, sizeof *node);
    for (size_t i = 0; node && i < flow->node_count; i++) {
        const struct an_flow_node *from = &flow->nodes[i];
        place[i] = SIZE_MAX;
        if (within && !strstr(from->where, within))
            continue;
        place[i] = (*count)++;
        node[place[i]] = (struct store_export_node){.name = from->name,
                                                    .kind = from->kind,
                                                    .where = from->where,
                                                    .ns = from->ns,
                                                    .bytes_read = from->bytes_read,
                                                    .bytes_written = from->bytes_written,
                                                    .depth = from->depth,
                                                    .chain = from->chain};
    }
    return node;
}

static struct store_export_edge *copy_edges(const struct an_dataflow *flow, const size_t *place,
                                            size_t *count)
{
    struct store_export_edge *edge = calloc(flow->edge_count + 1, sizeof *edge);
    for (size_t i = 0; edge && i < flow->edge_count; i++) {
        const struct an_flow_edge *from = &flow->edge[i];
        if (place[from->from] != SIZE_MAX && place[from->to] != SIZE_MAX)
            edge[(*count)++] = (struct store_export_edge){place[from->from], place[from->to],
                                                          from->bytes, !strcmp(from->how, "size")};
    }
    return edge;
}

/* Puts the operators of a step into the settings; their texts belong to *result. */
static int find_graph(const struct col_found *found, const struct values *values,
                      struct an_result **result, struct store_export_options *settings)
{
    struct an_options graph_only = {.dataflow = true,
                                    .step_marker = values->marker,
                                    .some_steps = values->steps.set,
                                    .step_from = values->steps.from,
                                    .step_to = values->steps.to};
    int code = cli_run_analyze(found, &graph_only, result);
    if (code)
        return code;
    const struct an_dataflow *flow = &(*result)->dataflow;
    if (flow->reason)
        return cli_error(TACHO_ENOTFOUND,
                         "operators say what they move in traces with shapes "
                         "(record_shapes=True), ranges with tacho.work, and Chakra traces",
                         "%s: no graph of operators: %s", found->run, flow->reason);
    size_t *place = calloc(flow->node_count + 1, sizeof *place);
    if (!place)
        return cli_error(TACHO_ENOMEM, NULL, "%s: out of memory", found->run);
    settings->node = copy_nodes(flow, values->within, place, &settings->node_count);
    settings->edge = copy_edges(flow, place, &settings->edge_count);
    settings->title =
        an_arena_format((*result)->arena, "%s, step %" PRId64, found->run, flow->step);
    free(place);
    if (!settings->node || !settings->edge || !settings->title)
        return cli_error(TACHO_ENOMEM, NULL, "%s: out of memory", found->run);
    if (!settings->node_count)
        return cli_error(TACHO_ENOTFOUND, "without --within all operators are shown",
                         "%s: no operator is in a range with '%s'", found->run, values->within);
    return 0;
}

/* Is it a format of operators, not of the rows of the file? */
static bool is_graph(const struct values *values)
{
    return !strcmp(values->format, "dot") || !strcmp(values->format, "svg");
}

/* Writes the open run in the format that was asked for. 0 or an exit code, after a message. */
static int write_run(store_reader *reader, const struct col_found *found,
                     const struct values *values, struct store_export_options *settings,
                     char *const *inputs)
{
    struct cli_output out;
    struct tacho_error err = {0};
    const struct store_export_format *format = store_export_formats;
    while (strcmp(format->name, values->format) != 0)
        format++;
    int code = 0;
    if (!is_graph(values))
        code = values->steps.set ? window_of_steps(reader, found, values, settings)
                                 : window_of_times(reader, values, settings);
    if (!code)
        code = cli_output_open(&out, values->output, inputs);
    if (code)
        return code;
    int rc = format->write(reader, settings, out.file, &err);
    if (rc && rc != TACHO_EIO) /* closing the output says what is wrong with a stream */
        code = cli_error(rc, err.hint, "%.200s: %.300s", found->run, err.what);
    return cli_output_close(&out, code);
}

static int check_values(const struct values *values)
{
    if (is_graph(values) && (values->from || values->to))
        return cli_usage("export", "--steps N:N chooses the step",
                         "--from and --to cannot be combined with --format %s", values->format);
    if (values->within && !is_graph(values))
        return cli_usage("export", "--format dot or svg", "--within is an option of graphs");
    if (values->steps.set && (values->from || values->to))
        return cli_usage("export", NULL, "--steps and --from, --to exclude each other");
    if (values->path && strcmp(values->format, "perfetto") != 0 &&
        strcmp(values->format, "csv") != 0)
        return cli_usage("export", "--format perfetto or csv",
                         "--critical-path cannot be combined with --format %s", values->format);
    if (values->raw && strcmp(values->format, "csv") != 0)
        return cli_usage("export", "--format csv", "--raw is an option of --format csv");
    return 0;
}

int cli_export(int argc, char **argv)
{
    struct an_result *result = NULL;
    struct values values = {.format = "perfetto"};
    struct store_export_options settings = {.t0 = STORE_ABSENT, .t1 = STORE_ABSENT};
    struct col_found found;
    struct tacho_error err = {0};
    store_reader *reader = NULL;
    int first, code = cli_parse(&cli_export_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = check_values(&values);
    if (code)
        return code;
    settings.raw = values.raw;
    code = cli_run_find(argv[first], &found);
    if (!code && values.path)
        code = find_path(&found, values.marker, &result, &settings);
    if (!code && is_graph(&values))
        code = find_graph(&found, &values, &result, &settings);
    if (!code && store_open(found.path, &reader, &err))
        code = cli_fail(&err);
    if (!code)
        code = write_run(reader, &found, &values, &settings, argv + first);
    store_reader_close(reader);
    free((void *)(uintptr_t)settings.path);
    free((void *)(uintptr_t)settings.node);
    free((void *)(uintptr_t)settings.edge);
    an_result_free(result);
    return code;
}
