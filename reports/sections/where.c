/* SPDX-License-Identifier: Apache-2.0
 *
 * What uses the time of the device: operators, modules, source lines or annotations; the
 * roofline; the figures of another tool.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/kernel_name.h"
#include "reports/words/phrase.h"
#include "reports/words/select.h"

#define COUNT(list) (sizeof list / sizeof *list)

/* ---- attribution ----------------------------------------------------------------------------- */

/* Of a source line ("site-packages/torch/nn/modules/linear.py(114): forward") the last two parts of
 * the path tell where it is.
 */
static const char *line_name(const char *name)
{
    const char *begin = strstr(name, ".py(");
    while (begin && begin > name && begin[-1] != '/')
        begin--;
    return begin ? begin : name;
}
static void name_by(char text[REP_NAME], const void *row)
{
    const char *name = line_name(((const struct an_attribution_row *)row)->name);
    snprintf(text, REP_NAME, "%.1000s", rep_or(name, "(unnamed)"));
}

REP_CELL_OF(by_share, an_attribution_row, rep_cell_pct, share_pct)
REP_CELL_OF(by_device, an_attribution_row, rep_cell_ns, device_ns)
REP_CELL_OF(by_host, an_attribution_row, rep_cell_ns, host_ns)
REP_CELL_OF(by_count, an_attribution_row, rep_cell_integer, count)
REP_CELL_OF(by_kernels, an_attribution_row, rep_cell_integer, kernels)
REP_CELL_OF(by_rate, an_attribution_row, rep_cell_rate, flops_per_s)

static const struct rep_column of_by[] = {{"device %", 9, by_share}, {"device", 9, by_device},
                                          {"host", 9, by_host},      {"count", 8, by_count},
                                          {"FLOP/s", 8, by_rate},    {"kernels", 9, by_kernels}};

void rep_table_attribution(const struct an_attribution *attribution, struct rep_table *table,
                           char title[80])
{
    snprintf(title, 80, "GPU time by %.20s", rep_by_name(attribution->by));
    *table = (struct rep_table){
        .title = title,
        .name = name_by,
        .name_least = 40,
        REP_COLUMNS(of_by),
        REP_ROWS_OF(attribution->rows, attribution->reason ? 0 : attribution->row_count)};
}

void rep_section_attribution(struct page *page, const struct an_result *result)
{
    const struct an_attribution *attribution = rep_attribution(result, page->by);
    char title[80];
    if (result->gpu.reason)
        return;
    if (attribution->reason || !attribution->row_count) {
        page_blank(page);
        page_line(page, "Attribution", "by %.20s unknown: %.300s", rep_by_name(attribution->by),
                  rep_or(attribution->reason, "no host range launched device work"));
        return;
    }
    struct rep_table table;
    rep_table_attribution(attribution, &table, title);
    rep_table_write(page, &table);
    if (attribution->unattributed_ns > 0) {
        char text[160];
        snprintf(text, sizeof text,
                 " and %s of device time without a launching operation on the host",
                 TIME_TEXT((double)attribution->unattributed_ns));
        page_text(page, 1, text);
    }
}

/* ---- roofline -------------------------------------------------------------------------------- */

/* What bounds an operation; of a cached one also the level of the cache. */
static void roof_bound(char cell[REP_CELL], const void *row)
{
    const struct an_roofline_point *point = row;
    bool cached = point->bound && point->level && !strcmp(point->bound, "cached");
    if (cached)
        snprintf(cell, REP_CELL, "cached %.4s", point->level);
    else
        snprintf(cell, REP_CELL, "%.12s", rep_or(point->bound, ""));
}
REP_CELL_OF(roof_time, an_roofline_point, rep_cell_ns, time_ns)
static void roof_intensity(char cell[REP_CELL], const void *row)
{
    const struct an_roofline_point *point = row;
    if (isfinite(point->intensity))
        page_digits(cell, point->intensity, 3);
}
static void roof_achieved(char cell[REP_CELL], const void *row)
{
    const struct an_roofline_point *point = row;
    if (isfinite(point->achieved_flops))
        page_si(cell, point->achieved_flops, "");
}
static void roof_attainable(char cell[REP_CELL], const void *row)
{
    const struct an_roofline_point *point = row;
    if (isfinite(point->attainable_flops) && point->attainable_flops > 0)
        page_si(cell, point->attainable_flops, "");
}
static void roof_share(char cell[REP_CELL], const void *row)
{
    const struct an_roofline_point *point = row;
    if (isfinite(point->achieved_flops) && isfinite(point->attainable_flops) &&
        point->attainable_flops > 0)
        snprintf(cell, REP_CELL, "%.0f", 100 * point->achieved_flops / point->attainable_flops);
}
static void roof_dtype(char cell[REP_CELL], const void *row)
{
    const char *dtype = ((const struct an_roofline_point *)row)->dtype;
    snprintf(cell, REP_CELL, "%.12s", rep_or(dtype, ""));
}
static void name_point(char name[REP_NAME], const void *row)
{
    const struct an_roofline_point *point = row;
    snprintf(name, REP_NAME, "%.1000s%s", rep_or(point->name, "(unnamed)"),
             !strcmp(point->pass, "recompute") ? ", again" : "");
}
static const struct rep_column of_roof[] = {
    {"time", 9, roof_time},       {"FLOP/byte", 10, roof_intensity}, {"FLOP/s", 8, roof_achieved},
    {"roof", 8, roof_attainable}, {"% of roof", 10, roof_share},     {"bound", 11, roof_bound},
    {"type", 9, roof_dtype}};

/* What bounds points in the words of the table: of the DRAM the highest of its rows. NULL: nothing.
 */
static const char *roof_label(const struct an_ceiling *ceiling)
{
    static const char *const labels[][2] = {{"flops", ""},
                                            {"gemm", " GEMM"},
                                            {"bandwidth", "DRAM"},
                                            {"bandwidth_read", "DRAM"},
                                            {"bandwidth_write", "DRAM"},
                                            {"bandwidth_update", "DRAM"},
                                            {"bandwidth_l3", "L3"},
                                            {"bandwidth_l2", "L2"},
                                            {"bandwidth_l1", "L1"}};
    for (size_t i = 0; i < COUNT(labels) && ceiling->value > 0; i++)
        if (!strcmp(ceiling->resource, labels[i][0]))
            return labels[i][1];
    return NULL;
}

/* Several ceilings may have one label: measured and data sheet, read and write. The picture
 * shows the highest. */
const char *rep_ceiling_label(const struct an_result *result, size_t i)
{
    const struct an_ceiling *ceiling = &result->ceilings[i];
    const char *label = roof_label(ceiling);
    for (size_t other = 0; label && other < result->ceiling_count;
         other++) { /* the highest of those with one label, the first of equal ones */
        const struct an_ceiling *rival = &result->ceilings[other];
        bool alike = roof_label(rival) && !strcmp(roof_label(rival), label) &&
                     !strcmp(rival->dtype, ceiling->dtype);
        if (alike &&
            (rival->value > ceiling->value || (!(rival->value < ceiling->value) && other < i)))
            return NULL;
    }
    return label;
}

/* "fp32 428 GFLOP/s", "DRAM 28.1 GB/s" */
static void roof_ceilings(struct page *page, const struct an_result *result)
{
    page_label(page, "Ceilings");
    for (size_t i = 0; i < result->ceiling_count; i++) {
        const struct an_ceiling *ceiling = &result->ceilings[i];
        const char *label = rep_ceiling_label(result, i);
        if (label)
            page_item(page, "%.20s%s %s", ceiling->dtype, label,
                      SI_TEXT(ceiling->value, strcmp(ceiling->unit, "FLOP/s") ? "B/s" : "FLOP/s"));
    }
    page_end(page);
}

void rep_table_roofline(const struct an_result *result, struct rep_table *table)
{
    *table = (struct rep_table){
        .title = "Roofline",
        .name = name_point,
        .name_least = 35,
        REP_COLUMNS(of_roof),
        REP_ROWS_OF(result->points, result->roofline.reason ? 0 : result->point_count)};
}

/* ---- bounds of kernels ----------------------------------------------------------------------- */

static void bound_name(char name[REP_NAME], const void *row)
{
    const struct an_bound_row *kernel = row;
    rep_kernel_name(name, REP_NAME, rep_or(kernel->name, "(unnamed)"));
}
static void bound_text(char cell[REP_CELL], const void *row)
{
    static const char *const words[AN_BOUND_COUNT] = {[AN_BOUND_MEMORY] = "memory",
                                                      [AN_BOUND_COMPUTE] = "compute",
                                                      [AN_BOUND_LATENCY] = "latency",
                                                      [AN_BOUND_BELOW_MEMORY] = "neither, mem",
                                                      [AN_BOUND_BELOW_COMPUTE] = "neither, arith",
                                                      [AN_BOUND_UNKNOWN] = "unknown"};
    snprintf(cell, REP_CELL, "%s", words[((const struct an_bound_row *)row)->bound]);
}
REP_CELL_OF(bound_time, an_bound_row, rep_cell_ns, total_ns)
REP_CELL_OF(bound_count, an_bound_row, rep_cell_integer, count)
static void bound_share(char cell[REP_CELL], struct an_value share)
{
    if (share.valid)
        snprintf(cell, REP_CELL, "%.0f", share.value);
}
static void bound_memory(char cell[REP_CELL], const void *row)
{
    bound_share(cell, ((const struct an_bound_row *)row)->memory_pct);
}
static void bound_compute(char cell[REP_CELL], const void *row)
{
    bound_share(cell, ((const struct an_bound_row *)row)->compute_pct);
}
static const struct rep_column of_bounds[] = {{"time", 9, bound_time},
                                              {"count", 8, bound_count},
                                              {"bound", 15, bound_text},
                                              {"% memory", 9, bound_memory},
                                              {"% peak", 8, bound_compute}};

/* What limits the kernels; a run without kernels that compute has none. */
static void kernel_bounds(struct page *page, const struct an_result *result)
{
    const struct an_kernel_bounds *bounds = &result->bounds;
    struct rep_table table = {.title = "What limits kernels",
                              .name = bound_name,
                              .name_least = 35,
                              REP_COLUMNS(of_bounds),
                              REP_ROWS_OF(bounds->rows, bounds->row_count)};
    if (bounds->reason || !bounds->row_count)
        return;
    rep_table_write(page, &table);
    if (bounds->sentence && !strstr(rep_or(result->verdict, ""), bounds->sentence))
        page_text(page, 1, bounds->sentence);
}

static void roofline(struct page *page, const struct an_result *result)
{
    struct rep_table table;
    rep_table_roofline(result, &table);
    if (result->gpu.reason && result->roofline.reason && !result->utilization.hardware_flops.valid)
        return; /* a program that does not say what its ranges compute */
    if (result->roofline.reason || !result->point_count) {
        page_blank(page);
        page_line(page, "Roofline", "absent: %.300s",
                  rep_or(result->roofline.reason, "no op has known FLOPs and bytes"));
        return;
    }
    page_picture(page, PAGE_ROOFLINE, result);
    rep_table_write(page, &table);
    roof_ceilings(page, result);
    bool model = false;
    for (size_t i = 0; i < result->point_count; i++)
        model = model || !result->points[i].bytes_measured;
    if (model)
        page_text(page, 1,
                  " The bytes are modelled: each tensor counts once. A point above the memory roof "
                  "was served by the cache level that is named");
}

void rep_section_roofline(struct page *page, const struct an_result *result)
{
    roofline(page, result);
    kernel_bounds(page, result);
}

/* ---- other tools ----------------------------------------------------------------------------- */

static void compat_value(char cell[REP_CELL], const void *row)
{
    const struct an_compat_row *figure = row;
    if (isfinite(figure->value))
        snprintf(cell, REP_CELL, "%.13g", figure->value);
    else
        snprintf(cell, REP_CELL, "n/a");
}
static void compat_unit(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.8s", ((const struct an_compat_row *)row)->unit);
}
/* Names a figure of another tool by rank, device, section and key, as far as it has them. */
static void name_compat(char name[REP_NAME], const void *row)
{
    const struct an_compat_row *figure = row;
    char rank[32] = "", device[32] = "";
    if (figure->rank >= 0)
        snprintf(rank, sizeof rank, "rank %" PRId64 " ", figure->rank);
    if (figure->device >= 0)
        snprintf(device, sizeof device, "gpu:%" PRId64 " ", figure->device);
    snprintf(name, REP_NAME, "%s%s%.200s %.400s", rank, device, figure->section, figure->key);
}
static const struct rep_column of_compat[] = {{"value", 16, compat_value},
                                              {"unit", 8, compat_unit}};

void rep_section_compat(struct page *page, const struct an_result *result)
{
    const struct an_compat_table *compat = &result->compat;
    char title[100];
    if (!compat->tool)
        return;
    snprintf(title, sizeof title, "As %.80s", compat->tool);
    if (compat->reason || !compat->row_count) {
        page_blank(page);
        page_line(page, "Compat", "%s: not known: %.300s", title,
                  rep_or(compat->reason, "that tool prints nothing for this run"));
        return;
    }
    struct rep_table table = {.title = title,
                              .name = name_compat,
                              REP_COLUMNS(of_compat),
                              REP_ROWS_OF(compat->rows, compat->row_count),
                              .most = compat->row_count};
    rep_table_write(page, &table);
}
