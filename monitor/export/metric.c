/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples, their labels, histograms; the table of families.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/export/metric.h"
#include "tacho_utf8.h"

static const struct mon_family_kind kinds[] = {
#define MON_FAMILY_ROW(id, type, name, unit, labels, help) \
    {MON_TYPE_##type, name, unit, labels, help},
    MON_FAMILY_MAP(MON_FAMILY_ROW)
#undef MON_FAMILY_ROW
};

const struct mon_family_kind *mon_family_kind(enum mon_family family)
{
    return &kinds[family];
}

/* ---- labels ----------------------------------------------------------------------------------- */

/* Copies text with '?' for what is not UTF-8. False: it does not fit with its 0. */
static bool append_text(struct mon_labels *labels, const char *text)
{
    size_t left = strlen(text);
    if (left + 2 > sizeof labels->text - labels->used)
        return false;
    for (size_t n; left; text += n, left -= n) {
        n = tacho_utf8_sequence((const unsigned char *)text, left);
        char *to = labels->text + labels->used;
        *to = '?';
        if (n)
            memcpy(to, text, n);
        else
            n = 1;
        labels->used += n;
    }
    labels->text[labels->used++] = 0;
    labels->text[labels->used] = 0; /* the end, until another label follows */
    return true;
}

/* A value that is too long loses its beginning, because ends of paths tell more. */
static void append_label(struct mon_labels *labels, const char *name, const char *value)
{
    size_t before = labels->used, room = sizeof labels->text - before, size = strlen(name) + 1;
    if (room < size + 8 || !append_text(labels, name))
        return;
    size_t length = strlen(value), most = room - size - 2;
    if (length > most)
        value += length - most;
    if (!append_text(labels, value)) {
        labels->used = before;
        labels->text[before] = 0;
    }
}

bool mon_labels_next(const struct mon_labels *labels, size_t *at, const char **name,
                     const char **value)
{
    if (*at >= labels->used)
        return false;
    *name = labels->text + *at;
    *value = *name + strlen(*name) + 1;
    *at += strlen(*name) + strlen(*value) + 2;
    return true;
}

void mon_metric_label(struct mon_metric *metric, const char *name, const char *value)
{
    if (metric)
        append_label(&metric->labels, name, value);
}

void mon_metric_number(struct mon_metric *metric, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    mon_metric_label(metric, name, text);
}

void mon_metrics_label(struct mon_metrics *metrics, const char *name, const char *value)
{
    append_label(&metrics->common, name, value);
}

void mon_metrics_unlabel(struct mon_metrics *metrics)
{
    metrics->common = (struct mon_labels){.used = 0};
}

/* ---- samples ---------------------------------------------------------------------------------- */

void mon_metrics_init(struct mon_metrics *metrics, size_t limit, int64_t start_ns)
{
    *metrics = (struct mon_metrics){.limit = limit, .start_ns = start_ns};
}

void mon_metrics_begin(struct mon_metrics *metrics, int64_t time_ns)
{
    metrics->count = 0;
    mon_metrics_unlabel(metrics);
    metrics->time_ns = time_ns;
}

void mon_metrics_free(struct mon_metrics *metrics)
{
    free(metrics->metric);
    *metrics = (struct mon_metrics){0};
}

struct mon_metric *mon_metric_add(struct mon_metrics *metrics, enum mon_family family, double value)
{
    if (isnan(value))
        return NULL;
    if (metrics->count == metrics->room && metrics->room < metrics->limit) {
        size_t room = metrics->room ? 2 * metrics->room : 64;
        room = room < metrics->limit ? room : metrics->limit;
        struct mon_metric *grown = realloc(metrics->metric, room * sizeof *grown);
        if (grown) {
            metrics->metric = grown;
            metrics->room = room;
        }
    }
    if (metrics->count == metrics->room) {
        metrics->dropped++;
        return NULL;
    }
    struct mon_metric *metric = &metrics->metric[metrics->count++];
    *metric = (struct mon_metric){.family = family, .labels = metrics->common, .value = value};
    return metric;
}

struct mon_metric *mon_metric_add_histogram(struct mon_metrics *metrics, enum mon_family family,
                                            const struct mon_histogram *histogram)
{
    struct mon_metric *metric = mon_metric_add(metrics, family, 0);
    if (metric)
        metric->histogram = histogram;
    return metric;
}

/* Characters of a text; what follows another byte of the same character does not count. */
static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

bool mon_exemplar_labels(const struct mon_exemplar *exemplar, struct mon_labels *labels)
{
    char window[48];
    const char *file = exemplar->file;
    *labels = (struct mon_labels){.used = 0};
    if (!*file)
        return false;
    snprintf(window, sizeof window, "%" PRId64 "-%" PRId64, exemplar->first, exemplar->last);
    size_t most = MON_EXEMPLAR_LABELS - strlen("filesteps") - strlen(window);
    while (characters(file) > most || (*file & 0xc0) == 0x80)
        file++;
    append_label(labels, "file", file);
    append_label(labels, "steps", window);
    return true;
}

void mon_metric_exemplar(struct mon_metric *metric, const struct mon_exemplar *exemplar)
{
    if (metric)
        metric->exemplar = *exemplar;
}

/* ---- histograms ------------------------------------------------------------------------------- */

const double mon_bucket_bound[MON_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                              2.5,   5,    10,    25,   50,  100,  250, 1000};

void mon_histogram_add(struct mon_histogram *histogram, double value,
                       const struct mon_exemplar *exemplar)
{
    size_t bucket = 0;
    if (!isfinite(value) || value < 0)
        return;
    while (bucket < MON_BUCKETS && value > mon_bucket_bound[bucket])
        bucket++;
    histogram->count[bucket]++;
    histogram->sum += value;
    if (exemplar)
        histogram->exemplar[bucket] = *exemplar;
}

uint64_t mon_histogram_count(const struct mon_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= MON_BUCKETS; i++)
        count += histogram->count[i];
    return count;
}
