/* SPDX-License-Identifier: Apache-2.0
 *
 * OTLP as JSON. Names, fields and enumerations: opentelemetry-proto 1.x, metrics.proto; units are
 * those of UCUM.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "monitor/export/export.h"
#include "monitor/http/http.h"
#include "store/files.h"

#define CUMULATIVE 2 /* AGGREGATION_TEMPORALITY_CUMULATIVE */
#define PATIENCE_S 5
#define FILE_MOST  ((off_t)64 << 20)

/* The unit of a family in UCUM; "1" where it has none. */
static const char *ucum(const char *unit)
{
    static const char *const names[][2] = {
        {"seconds", "s"}, {"bytes", "By"}, {"hertz", "Hz"}, {"celsius", "Cel"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(unit, names[i][0]))
            return names[i][1];
    return "1";
}

/* 64-bit numbers are text in this mapping. */
static json_t *whole(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

static json_t *attribute(const char *name, const char *value)
{
    return json_pack("{s:s,s:{s:s}}", "key", name, "value", "stringValue", value);
}

static json_t *attributes(const struct mon_labels *labels)
{
    json_t *list = json_array();
    const char *name, *value;
    for (size_t at = 0; mon_labels_next(labels, &at, &name, &value);)
        json_array_append_new(list, attribute(name, value));
    return list;
}

static void add_exemplar(json_t *list, const struct mon_exemplar *exemplar)
{
    struct mon_labels labels;
    if (mon_exemplar_labels(exemplar, &labels))
        json_array_append_new(list,
                              json_pack("{s:o,s:o,s:f}", "filteredAttributes", attributes(&labels),
                                        "timeUnixNano", whole((uint64_t)exemplar->time_ns),
                                        "asDouble", exemplar->value));
}

static void add_buckets(json_t *point, const struct mon_histogram *histogram)
{
    json_t *counts = json_array(), *bounds = json_array(), *exemplars = json_array();
    for (size_t i = 0; i <= MON_BUCKETS; i++) {
        json_array_append_new(counts, whole(histogram->count[i]));
        if (i < MON_BUCKETS)
            json_array_append_new(bounds, json_real(mon_bucket_bound[i]));
        add_exemplar(exemplars, &histogram->exemplar[i]);
    }
    json_object_set_new(point, "count", whole(mon_histogram_count(histogram)));
    json_object_set_new(point, "sum", json_real(histogram->sum));
    json_object_set_new(point, "bucketCounts", counts);
    json_object_set_new(point, "explicitBounds", bounds);
    json_object_set_new(point, "exemplars", exemplars);
}

static json_t *data_point(const struct mon_metrics *metrics, const struct mon_metric *metric)
{
    json_t *point = json_pack("{s:o,s:o}", "attributes", attributes(&metric->labels),
                              "timeUnixNano", whole((uint64_t)metrics->time_ns));
    enum mon_type type = mon_family_kind(metric->family)->type;
    if (type == MON_TYPE_COUNTER || type == MON_TYPE_HISTOGRAM)
        json_object_set_new(point, "startTimeUnixNano", whole((uint64_t)metrics->start_ns));
    if (metric->histogram) {
        add_buckets(point, metric->histogram);
        return point;
    }
    json_object_set_new(point, "asDouble", json_real(metric->value));
    if (*metric->exemplar.file) {
        json_t *list = json_array();
        add_exemplar(list, &metric->exemplar);
        json_object_set_new(point, "exemplars", list);
    }
    return point;
}

/* One Metric with the samples of a family; NULL: it has none. */
static json_t *family_json(const struct mon_metrics *metrics, enum mon_family family)
{
    static const char *const members[] = {"gauge", "sum", "gauge", "histogram"};
    const struct mon_family_kind *kind = mon_family_kind(family);
    json_t *points = json_array();
    for (size_t i = 0; i < metrics->count; i++)
        if (metrics->metric[i].family == family)
            json_array_append_new(points, data_point(metrics, &metrics->metric[i]));
    if (!json_array_size(points)) {
        json_decref(points);
        return NULL;
    }
    json_t *data = json_pack("{s:o}", "dataPoints", points);
    if (kind->type == MON_TYPE_COUNTER || kind->type == MON_TYPE_HISTOGRAM)
        json_object_set_new(data, "aggregationTemporality", json_integer(CUMULATIVE));
    if (kind->type == MON_TYPE_COUNTER)
        json_object_set_new(data, "isMonotonic", json_true());
    return json_pack("{s:s,s:s,s:s,s:o}", "name", kind->name, "description", kind->help, "unit",
                     ucum(kind->unit), members[kind->type], data);
}

/* The whole request as text; caller frees. NULL without memory. */
static char *otlp_text(const struct mon_metrics *metrics, const char *host)
{
    json_t *families = json_array();
    for (size_t i = 0; i < MON_FAMILY_COUNT; i++) {
        json_t *family = family_json(metrics, (enum mon_family)i);
        if (family)
            json_array_append_new(families, family);
    }
    json_t *request = json_pack("{s:[{s:{s:[o,o]},s:[{s:{s:s,s:s},s:o}]}]}", "resourceMetrics",
                                "resource", "attributes", attribute("service.name", "tacho"),
                                attribute("host.name", host), "scopeMetrics", "scope", "name",
                                "tacho", "version", TACHO_VERSION, "metrics", families);
    char *text = request ? json_dumps(request, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(request);
    return text;
}

int mon_otlp_write(const struct mon_metrics *metrics, const char *host, FILE *out)
{
    char *text = otlp_text(metrics, host);
    if (!text)
        return TACHO_ENOMEM;
    fprintf(out, "%s\n", text);
    free(text);
    return ferror(out) ? TACHO_EIO : 0;
}

/* Adds a line to a file, which begins anew where it would be larger than FILE_MOST. */
static int append_file(const struct mon_metrics *metrics, const char *host, const char *path,
                       struct tacho_error *err)
{
    struct stat stat;
    int fd = store_path_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "a");
    if (!out) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return tacho_fail(err, tacho_error_of_errno(error), "give a file of your own", "%s: %s",
                          path, strerror(error));
    }
    if (!fstat(fd, &stat) && stat.st_size > FILE_MOST && ftruncate(fd, 0))
        clearerr(out); /* it goes on growing: the next write says what is wrong */
    int rc = mon_otlp_write(metrics, host, out);
    if (fclose(out) && !rc)
        rc = TACHO_EIO;
    return rc ? tacho_fail(err, rc, NULL, "%s: %s", path, tacho_error_text(rc)) : 0;
}

int mon_otlp_send(const struct mon_metrics *metrics, const char *host, const char *to,
                  const char *token, struct tacho_error *err)
{
    if (strncmp(to, "http", 4))
        return append_file(metrics, host, to, err);
    char *text = otlp_text(metrics, host);
    if (!text)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
    struct mon_http call = {
        .url = to, .type = "application/json", .token = token, .body = text, .size = strlen(text)};
    mon_http_all(&call, 1, PATIENCE_S);
    if (call.rc && err)
        *err = call.err;
    mon_http_free(&call, 1);
    free(text);
    return call.rc;
}
