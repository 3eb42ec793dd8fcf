/* SPDX-License-Identifier: Apache-2.0
 *
 * Where device time belongs: by operator, module, line or annotation; the roofline; another tool's
 * figures.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/sections/tables.h"
#include "reports/text/text.h"
#include "reports/words/select.h"

#define COUNT(list) (sizeof list / sizeof *list)

/* ---- attribution -------------------------------------------------------------------------------------------------------- */

static void by_share(char *b, const void *row)
{
    const struct an_attribution_row *x = row;
    if (x->share_pct.valid)
        snprintf(b, REP_CELL, "%.1f", x->share_pct.value);
}
static void by_device(char *b, const void *row)
{
    page_time(b, (double)((const struct an_attribution_row *)row)->device_ns);
}
static void by_host(char *b, const void *row)
{
    page_time(b, (double)((const struct an_attribution_row *)row)->host_ns);
}
static void by_count(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%" PRId64, ((const struct an_attribution_row *)row)->count);
}
static void by_kernels(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%" PRId64, ((const struct an_attribution_row *)row)->kernels);
}
static void by_rate(char *b, const void *row)
{
    const struct an_attribution_row *x = row;
    if (x->flops_per_s.valid && x->flops_per_s.value > 0)
        page_si(b, x->flops_per_s.value, "");
}
/* Of a source line ("site-packages/torch/nn/modules/linear.py(114): forward") the last two parts of
 * the path tell where it is.
 */
static const char *line_name(const char *name)
{
    const char *at = strstr(name, ".py(");
    while (at && at > name && at[-1] != '/')
        at--;
    return at ? at : name;
}
static void name_by(char b[REP_NAME], const void *row)
{
    const char *name = line_name(((const struct an_attribution_row *)row)->name);
    snprintf(b, REP_NAME, "%.1000s", *name ? name : "(unnamed)");
}
static const struct rep_column of_by[] = {{"device %", 9, by_share}, {"device", 9, by_device},
                                          {"host", 9, by_host},      {"count", 8, by_count},
                                          {"FLOP/s", 8, by_rate},    {"kernels", 9, by_kernels}};

void rep_table_attribution(const struct an_attribution *a, struct rep_table *t, char title[80])
{
    snprintf(title, 80, "Device time by %.20s", a->by ? a->by : "op");
    *t = (struct rep_table){.title = title,
                            .name = name_by,
                            .name_least = 40,
                            .column = of_by,
                            .columns = COUNT(of_by),
                            .rows = a->rows,
                            .size = sizeof *a->rows,
                            .count = a->reason ? 0 : a->row_count};
}

void rep_text_attribution(struct page *p, const struct an_result *r)
{
    const struct an_attribution *a = rep_attribution(r, p->by);
    char title[80], time[32];
    if (r->gpu.reason)
        return;
    if (a->reason || !a->row_count) {
        page_blank(p);
        page_label(p, "Attribution");
        page_item(p, "by %.20s not known: %.300s", a->by ? a->by : "op",
                  a->reason ? a->reason : "no host range launched device work");
        page_end(p);
        return;
    }
    struct rep_table t;
    rep_table_attribution(a, &t, title);
    rep_table_write(p, &t);
    if (a->unattributed_ns > 0) {
        char text[160];
        snprintf(text, sizeof text,
                 " and %s of device time that nothing on the host could be found for",
                 page_time(time, (double)a->unattributed_ns));
        page_text(p, 1, text);
    }
}

/* ---- roofline ----------------------------------------------------------------------------------------------------------- */

static void roof_bound(char *b, const void *row)
{
    const struct an_roofline_point *x = row;
    bool cached = x->bound && x->level && !strcmp(x->bound, "cached");
    snprintf(b, REP_CELL, "%.12s%s%.4s", x->bound ? x->bound : "", cached ? " " : "",
             cached ? x->level : "");
}
static void roof_time(char *b, const void *row)
{
    page_time(b, (double)((const struct an_roofline_point *)row)->time_ns);
}
static void roof_intensity(char *b, const void *row)
{
    const struct an_roofline_point *x = row;
    if (isfinite(x->intensity))
        page_digits(b, x->intensity, 3);
}
static void roof_achieved(char *b, const void *row)
{
    const struct an_roofline_point *x = row;
    if (isfinite(x->achieved_flops))
        page_si(b, x->achieved_flops, "");
}
static void roof_attainable(char *b, const void *row)
{
    const struct an_roofline_point *x = row;
    if (isfinite(x->attainable_flops) && x->attainable_flops > 0)
        page_si(b, x->attainable_flops, "");
}
static void roof_share(char *b, const void *row)
{
    const struct an_roofline_point *x = row;
    if (isfinite(x->achieved_flops) && isfinite(x->attainable_flops) && x->attainable_flops > 0)
        snprintf(b, REP_CELL, "%.0f", 100 * x->achieved_flops / x->attainable_flops);
}
static void roof_dtype(char *b, const void *row)
{
    const char *dtype = ((const struct an_roofline_point *)row)->dtype;
    snprintf(b, REP_CELL, "%.12s", dtype ? dtype : "");
}
static void name_point(char b[REP_NAME], const void *row)
{
    const struct an_roofline_point *x = row;
    snprintf(b, REP_NAME, "%.1000s%s", *x->name ? x->name : "(unnamed)",
             !strcmp(x->pass, "recompute") ? ", again" : "");
}
static const struct rep_column of_roof[] = {
    {"time", 9, roof_time},       {"FLOP/byte", 10, roof_intensity}, {"FLOP/s", 8, roof_achieved},
    {"roof", 8, roof_attainable}, {"% of roof", 10, roof_share},     {"bound", 11, roof_bound},
    {"type", 9, roof_dtype}};

/* What bounds points in the words of the table: of the DRAM the highest of its rows. NULL: nothing.
 */
static const char *roof_label(const struct an_ceiling *x)
{
    static const char *const labels[][2] = {{"flops", ""},
                                            {"gemm", " products"},
                                            {"bandwidth", "DRAM"},
                                            {"bandwidth_read", "DRAM"},
                                            {"bandwidth_write", "DRAM"},
                                            {"bandwidth_update", "DRAM"},
                                            {"bandwidth_l3", "L3"},
                                            {"bandwidth_l2", "L2"},
                                            {"bandwidth_l1", "L1"}};
    for (size_t i = 0; i < COUNT(labels) && x->value > 0; i++)
        if (!strcmp(x->resource, labels[i][0]))
            return labels[i][1];
    return NULL;
}

const char *rep_ceiling_label(const struct an_result *r, size_t i)
{
    const struct an_ceiling *x = &r->ceilings[i];
    const char *label = roof_label(x);
    for (size_t k = 0; label && k < r->ceiling_count;
         k++) { /* the highest of those that say the same, the first of equal ones */
        const struct an_ceiling *y = &r->ceilings[k];
        bool alike = roof_label(y) && !strcmp(roof_label(y), label) && !strcmp(y->dtype, x->dtype);
        if (alike && (y->value > x->value || (!(y->value < x->value) && k < i)))
            return NULL;
    }
    return label;
}

/* "fp32 428 GFLOP/s", "DRAM 28.1 GB/s" */
static void roof_ceilings(struct page *p, const struct an_result *r)
{
    char a[32];
    page_label(p, "Ceilings");
    for (size_t i = 0; i < r->ceiling_count; i++) {
        const struct an_ceiling *x = &r->ceilings[i];
        const char *label = rep_ceiling_label(r, i);
        if (label)
            page_item(p, "%.20s%s %s", x->dtype, label,
                      page_si(a, x->value, strcmp(x->unit, "FLOP/s") ? "B/s" : "FLOP/s"));
    }
    page_end(p);
}

void rep_table_roofline(const struct an_result *r, struct rep_table *t)
{
    *t = (struct rep_table){.title = "Roofline",
                            .name = name_point,
                            .name_least = 35,
                            .column = of_roof,
                            .columns = COUNT(of_roof),
                            .rows = r->points,
                            .size = sizeof *r->points,
                            .count = r->roofline.reason ? 0 : r->point_count};
}

void rep_text_roofline(struct page *p, const struct an_result *r)
{
    struct rep_table t;
    rep_table_roofline(r, &t);
    if (r->gpu.reason && r->roofline.reason && !r->utilization.hardware_flops.valid)
        return; /* a program that does not say what its ranges compute */
    if (r->roofline.reason || !r->point_count) {
        page_blank(p);
        page_label(p, "Roofline");
        page_item(p, "absent: %.300s",
                  r->roofline.reason ? r->roofline.reason : "no op has known FLOPs and bytes");
        page_end(p);
        return;
    }
    page_picture(p, PAGE_ROOFLINE, r);
    rep_table_write(p, &t);
    roof_ceilings(p, r);
    bool model = false;
    for (size_t i = 0; i < r->point_count; i++)
        model = model || !r->points[i].bytes_measured;
    if (model)
        page_text(p, 1,
                  " bytes of a model: each tensor once. Above the memory roof means cached, in the "
                  "level that is named");
}

/* ---- other tools -------------------------------------------------------------------------------------------------------- */

static void compat_value(char *b, const void *row)
{
    const struct an_compat_row *x = row;
    if (isfinite(x->value))
        snprintf(b, REP_CELL, "%.13g", x->value);
    else
        snprintf(b, REP_CELL, "n/a");
}
static void compat_unit(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.8s", ((const struct an_compat_row *)row)->unit);
}
static void name_compat(char b[REP_NAME], const void *row)
{
    const struct an_compat_row *x = row;
    char rank[32] = "", device[32] = "";
    if (x->rank >= 0)
        snprintf(rank, sizeof rank, "rank %" PRId64 " ", x->rank);
    if (x->device >= 0)
        snprintf(device, sizeof device, "gpu:%" PRId64 " ", x->device);
    snprintf(b, REP_NAME, "%s%s%.200s %.400s", rank, device, x->section, x->key);
}
static const struct rep_column of_compat[] = {{"value", 16, compat_value},
                                              {"unit", 8, compat_unit}};

void rep_text_compat(struct page *p, const struct an_result *r)
{
    const struct an_compat_table *c = &r->compat;
    char title[100];
    if (!c->tool)
        return;
    snprintf(title, sizeof title, "As %.80s", c->tool);
    if (c->reason || !c->row_count) {
        page_blank(p);
        page_label(p, "Compat");
        page_item(p, "%s: not known: %.300s", title,
                  c->reason ? c->reason : "it prints nothing for this run");
        page_end(p);
        return;
    }
    struct rep_table t = {.title = title,
                          .name = name_compat,
                          .column = of_compat,
                          .columns = COUNT(of_compat),
                          .rows = c->rows,
                          .size = sizeof *c->rows,
                          .count = c->row_count,
                          .most = c->row_count};
    rep_table_write(p, &t);
}
