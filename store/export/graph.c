/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators as a graph: DOT for Graphviz, and a picture that needs no other program. An edge that
 * is inferred is dashed; operators that could be one have a border of one colour.
 *
 * The picture is laid out in layers by the longest path to each operator. Where most edges are
 * inferred the graph falls into short chains, so that layers would say nothing: then operators go
 * from top to bottom in program order, in columns.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/export/export_private.h"

#define NODES_MOST  20000 /* of a picture */
#define BOX_WIDTH   190
#define BOX_HEIGHT  34
#define GAP_X       30
#define GAP_Y       26
#define COLUMN_ROWS 40 /* operators of a column in program order */
#define LAYER_MOST  16 /* operators of a layer in one row */
#define NAME_MOST   28 /* characters of a name in a box */

/* Fill colours by kind: pale, so that black text is readable on all of them. */
static const char *fill_of(const char *kind)
{
    static const char *const fills[][2] = {{"element-wise", "#dcecfb"},
                                           {"reduction", "#fde8c8"},
                                           {"product", "#dff3dc"},
                                           {"view", "#f4f4f4"}};
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        if (!strcmp(kind, fills[i][0]))
            return fills[i][1];
    return "#eeeeee";
}

/* Border colours of candidates, by turns. */
static const char *border_of(int64_t chain)
{
    static const char *const borders[] = {"#b3261e", "#6a3fa0", "#00695c", "#a15c00", "#1a56a8"};
    return chain < 0 ? "#777777" : borders[chain % 5];
}

/* A text in quotes of DOT; of a picture, as XML. Bytes that would end it, control characters and
 * what is no ASCII are replaced: names come from the profiled program. NULL: nothing. */
static void put_text(FILE *out, const char *text, bool xml, size_t most)
{
    text = text ? text : "";
    for (size_t i = 0; i < most && text[i]; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (xml && (byte == '<' || byte == '>' || byte == '&' || byte == '"'))
            fprintf(out, "&#%d;", byte);
        else if (!xml && (byte == '"' || byte == '\\'))
            fprintf(out, "\\%c", byte);
        else
            putc(byte < 0x20 || byte >= 0x7f ? '?' : byte, out);
    }
    if (strlen(text) > most)
        fputs("...", out);
}

static void put_time(FILE *out, int64_t ns)
{
    if (ns >= 1000000)
        fprintf(out, "%.3g ms", (double)ns / 1e6);
    else
        fprintf(out, "%.3g us", (double)ns / 1e3);
}

static void put_bytes(FILE *out, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    fprintf(out, "%.3g %s", value, units[unit]);
}

/* "2.5 ms, 4 MiB read, 2 MiB written" */
static void put_facts(FILE *out, const struct store_export_node *node)
{
    put_time(out, node->ns);
    if (node->bytes_read != STORE_ABSENT && node->bytes_read > 0) {
        fputs(", ", out);
        put_bytes(out, node->bytes_read);
        fputs(" read", out);
    }
    if (node->bytes_written != STORE_ABSENT && node->bytes_written > 0) {
        fputs(", ", out);
        put_bytes(out, node->bytes_written);
        fputs(" written", out);
    }
}

int exp_dot_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                  struct tacho_error *err)
{
    (void)reader;
    fputs("digraph operators {\n  label=\"", out);
    put_text(out, options->title, false, SIZE_MAX);
    fputs("\";\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n", out);
    for (size_t i = 0; i < options->node_count; i++) {
        const struct store_export_node *node = &options->node[i];
        fprintf(out, "  n%zu [label=\"", i);
        put_text(out, node->name, false, SIZE_MAX);
        fputs("\\n", out);
        put_facts(out, node);
        fprintf(out, "\", fillcolor=\"%s\", color=\"%s\"%s];\n", fill_of(node->kind),
                border_of(node->chain), node->chain < 0 ? "" : ", penwidth=3");
    }
    for (size_t i = 0; i < options->edge_count; i++) {
        const struct store_export_edge *edge = &options->edge[i];
        fprintf(out, "  n%zu -> n%zu [", edge->from, edge->to);
        if (edge->bytes != STORE_ABSENT && edge->bytes > 0) {
            fputs("label=\"", out);
            put_bytes(out, edge->bytes);
            fputs("\", ", out);
        }
        fprintf(out, "style=%s];\n", edge->inferred ? "dashed" : "solid");
    }
    fputs("}\n", out);
    return exp_end(out, 0, err);
}

/* ---- the picture ------------------------------------------------------------------------------- */

struct place {
    size_t column, row;
};

/* In program order, in columns. */
static void place_in_order(size_t count, struct place *place)
{
    for (size_t i = 0; i < count; i++)
        place[i] = (struct place){i / COLUMN_ROWS, i % COLUMN_ROWS};
}

/* The layer of an operator: its depth, of which a part of a graph may have few. */
static size_t layer_of(const struct store_export_options *options, size_t node)
{
    size_t last = options->node_count - 1, depth = options->node[node].depth;
    return depth < last ? depth : last;
}

/* In layers by depth; a wide layer takes several rows. */
static int place_in_layers(const struct store_export_options *options, struct place *place)
{
    size_t *members = calloc(options->node_count + 2, sizeof *members);
    if (!members)
        return TACHO_ENOMEM;
    size_t depths = 0;
    for (size_t i = 0; i < options->node_count; i++) {
        size_t depth = layer_of(options, i);
        place[i].column = members[depth]++; /* of the layer, for now */
        depths = depth + 1 > depths ? depth + 1 : depths;
    }
    for (size_t depth = 0, row = 0; depth < depths; depth++) { /* becomes the layer's first row */
        size_t rows = (members[depth] + LAYER_MOST - 1) / LAYER_MOST;
        members[depth] = row;
        row += rows;
    }
    for (size_t i = 0; i < options->node_count; i++) {
        size_t depth = layer_of(options, i);
        place[i] = (struct place){place[i].column % LAYER_MOST,
                                  members[depth] + place[i].column / LAYER_MOST};
    }
    free(members);
    return 0;
}

static size_t left_of(struct place place)
{
    return GAP_X + place.column * (BOX_WIDTH + GAP_X);
}

static size_t top_of(struct place place)
{
    return 2 * GAP_Y + place.row * (BOX_HEIGHT + GAP_Y);
}

/* A curve from box to box; one that passes other rows bends aside, so that they do not hide it. */
static void put_edge(FILE *out, const struct store_export_edge *edge, const struct place *place)
{
    struct place from = place[edge->from], to = place[edge->to];
    size_t from_x = left_of(from) + BOX_WIDTH / 2, from_y = top_of(from) + BOX_HEIGHT,
           to_x = left_of(to) + BOX_WIDTH / 2, to_y = top_of(to);
    size_t bend = to.row > from.row + 1 ? BOX_WIDTH / 2 + GAP_X : 0;
    size_t to_control = to_y > GAP_Y ? to_y - GAP_Y : 0;
    fprintf(out, "<path d=\"M%zu %zu C%zu %zu %zu %zu %zu %zu\" class=\"e%s\"/>\n", from_x, from_y,
            from_x + bend, from_y + GAP_Y, to_x + bend, to_control, to_x, to_y,
            edge->inferred ? " i" : "");
}

static void put_box(FILE *out, const struct store_export_node *node, struct place place)
{
    size_t left = left_of(place), top = top_of(place);
    fputs("<g><title>", out);
    put_text(out, node->name, true, SIZE_MAX);
    fputs(": ", out);
    put_facts(out, node);
    if (*node->where) {
        fputs(", in ", out);
        put_text(out, node->where, true, SIZE_MAX);
    }
    fprintf(out,
            "</title><rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" "
            "stroke=\"%s\" stroke-width=\"%d\"/><text x=\"%zu\" y=\"%zu\">",
            left, top, BOX_WIDTH, BOX_HEIGHT, fill_of(node->kind), border_of(node->chain),
            node->chain < 0 ? 1 : 3, left + 6, top + 14);
    put_text(out, node->name, true, NAME_MOST);
    fprintf(out, "</text><text x=\"%zu\" y=\"%zu\" class=\"t\">", left + 6, top + 28);
    put_time(out, node->ns);
    fputs("</text></g>\n", out);
}

static void put_picture(FILE *out, const struct store_export_options *options,
                        const struct place *place)
{
    size_t width = 0, height = 0;
    for (size_t i = 0; i < options->node_count; i++) {
        size_t right = left_of(place[i]) + BOX_WIDTH + GAP_X;
        size_t bottom = top_of(place[i]) + BOX_HEIGHT + GAP_Y;
        width = right > width ? right : width;
        height = bottom > height ? bottom : height;
    }
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %zu %zu\" width=\"%zu\" "
            "height=\"%zu\" role=\"img\">\n<title>",
            width, height, width, height);
    put_text(out, options->title, true, SIZE_MAX);
    fputs("</title>\n<style>text{font:12px sans-serif;fill:#111}.t{fill:#444}"
          ".e{fill:none;stroke:#555;marker-end:url(#a)}.i{stroke-dasharray:4 3}</style>\n"
          "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
          "markerHeight=\"7\" orient=\"auto\"><polygon points=\"0,1 8,4 0,7\" "
          "fill=\"#555\"/></marker>"
          "</defs>\n"
          "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
          out);
    for (size_t i = 0; i < options->edge_count; i++)
        put_edge(out, &options->edge[i], place);
    for (size_t i = 0; i < options->node_count; i++)
        put_box(out, &options->node[i], place[i]);
    fputs("</svg>\n", out);
}

int exp_svg_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                  struct tacho_error *err)
{
    (void)reader;
    if (options->node_count > NODES_MOST)
        return tacho_fail(
            err, TACHO_ENOTSUP,
            "--within NAME takes the operators of one range; --format dot has no limit",
            "%zu operators are too many for a picture", options->node_count);
    struct place *place = calloc(options->node_count + 1, sizeof *place);
    size_t inferred = 0;
    int rc = place ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < options->edge_count; i++)
        inferred += options->edge[i].inferred;
    if (!rc && 2 * inferred >= options->edge_count)
        place_in_order(options->node_count, place);
    else if (!rc)
        rc = place_in_layers(options, place);
    if (!rc)
        put_picture(out, options, place);
    free(place);
    return exp_end(out, rc, err);
}
