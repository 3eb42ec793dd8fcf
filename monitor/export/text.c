/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenMetrics 1.0 and the text format of Prometheus, which differ in the names of counters and
 * infos, in units, exemplars and the end; node_exporter's file.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/export/export.h"
#include "store/files.h"

const char *mon_text_type(enum mon_text kind)
{
    return kind == MON_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                   : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- parts of a line -------------------------------------------------------------------------- */

static void write_escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

/* The shortest of 15 and 17 digits that is the same number again. */
static void write_number(FILE *out, double value)
{
    char text[40];
    if (isinf(value)) {
        fputs(value > 0 ? "+Inf" : "-Inf", out);
        return;
    }
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    fputs(text, out);
}

/* Labels in braces; the `bound` of a bucket may be NULL. Nothing where there are no labels. */
static void write_labels(FILE *out, const struct mon_labels *labels, const double *bound)
{
    const char *name, *value, *before = "{";
    for (size_t at = 0; mon_labels_next(labels, &at, &name, &value); before = ",") {
        fprintf(out, "%s%s=\"", before, name);
        write_escaped(out, value);
        fputc('"', out);
    }
    if (bound) {
        fprintf(out, "%sle=\"", before);
        write_number(out, *bound);
        fputs("\"}", out);
    } else if (*before == ',') {
        fputc('}', out);
    }
}

/* " # {...} value time". */
static void write_exemplar(FILE *out, const struct mon_exemplar *exemplar)
{
    struct mon_labels labels;
    if (!mon_exemplar_labels(exemplar, &labels))
        return;
    fputs(" # ", out);
    write_labels(out, &labels, NULL);
    fputc(' ', out);
    write_number(out, exemplar->value);
    if (exemplar->time_ns > 0)
        fprintf(out, " %" PRId64 ".%03d", exemplar->time_ns / 1000000000,
                (int)(exemplar->time_ns / 1000000 % 1000));
}

/* ---- samples and families --------------------------------------------------------------------- */

static void write_histogram(FILE *out, const struct mon_metric *metric, const char *name,
                            enum mon_text kind)
{
    const struct mon_histogram *histogram = metric->histogram;
    uint64_t count = 0;
    for (size_t i = 0; i <= MON_BUCKETS; i++) {
        double bound = i < MON_BUCKETS ? mon_bucket_bound[i] : INFINITY;
        count += histogram->count[i];
        fprintf(out, "%s_bucket", name);
        write_labels(out, &metric->labels, &bound);
        fprintf(out, " %" PRIu64, count);
        if (kind == MON_OPENMETRICS)
            write_exemplar(out, &histogram->exemplar[i]);
        fputc('\n', out);
    }
    fprintf(out, "%s_sum", name);
    write_labels(out, &metric->labels, NULL);
    fputc(' ', out);
    write_number(out, histogram->sum);
    fprintf(out, "\n%s_count", name);
    write_labels(out, &metric->labels, NULL);
    fprintf(out, " %" PRIu64 "\n", count);
}

static const char *const suffixes[] = {[MON_TYPE_GAUGE] = "",
                                       [MON_TYPE_COUNTER] = "_total",
                                       [MON_TYPE_INFO] = "_info",
                                       [MON_TYPE_HISTOGRAM] = ""};

static void write_sample(FILE *out, const struct mon_metric *metric, enum mon_text kind)
{
    const struct mon_family_kind *family = mon_family_kind(metric->family);
    if (metric->histogram) {
        write_histogram(out, metric, family->name, kind);
        return;
    }
    fprintf(out, "%s%s", family->name, suffixes[family->type]);
    write_labels(out, &metric->labels, NULL);
    fputc(' ', out);
    write_number(out, metric->value);
    if (kind == MON_OPENMETRICS)
        write_exemplar(out, &metric->exemplar);
    fputc('\n', out);
}

static void write_head(FILE *out, const struct mon_family_kind *family, enum mon_text kind)
{
    static const char *const types[] = {"gauge", "counter", "info", "histogram"};
    bool is_open = kind == MON_OPENMETRICS;
    const char *suffix = is_open ? "" : suffixes[family->type];
    const char *type = !is_open && family->type == MON_TYPE_INFO ? "gauge" : types[family->type];
    fprintf(out, "# TYPE %s%s %s\n", family->name, suffix, type);
    if (is_open && *family->unit)
        fprintf(out, "# UNIT %s %s\n", family->name, family->unit);
    fprintf(out, "# HELP %s%s %s\n", family->name, suffix, family->help);
}

int mon_text_write(const struct mon_metrics *metrics, enum mon_text kind, FILE *out)
{
    for (size_t i = 0; i < MON_FAMILY_COUNT; i++) {
        bool has_head = false;
        for (size_t j = 0; j < metrics->count; j++) {
            if (metrics->metric[j].family != (enum mon_family)i)
                continue;
            if (!has_head)
                write_head(out, mon_family_kind((enum mon_family)i), kind);
            has_head = true;
            write_sample(out, &metrics->metric[j], kind);
        }
    }
    if (kind == MON_OPENMETRICS)
        fputs("# EOF\n", out);
    return ferror(out) ? TACHO_EIO : 0;
}

/* ---- node_exporter ---------------------------------------------------------------------------- */

/* Writes into a new file of the folder and gives it the name that is wanted. 0 or an errno. */
static int replace_file(const struct mon_metrics *metrics, const struct store_place *place)
{
    char temporary[sizeof place->name + 32];
    snprintf(temporary, sizeof temporary, ".%s.%ld", place->name, (long)getpid());
    unlinkat(place->folder, temporary, 0); /* of a watch that was killed, and had this number */
    int fd = openat(place->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error;
    }
    errno = 0;
    int rc = mon_text_write(metrics, MON_PROMETHEUS, out);
    if (fflush(out) || rc || fchmod(fd, 0644))
        rc = errno ? errno : EIO;
    if (fclose(out) && !rc)
        rc = errno;
    if (!rc && renameat(place->folder, temporary, place->folder, place->name))
        rc = errno;
    if (rc)
        unlinkat(place->folder, temporary, 0);
    return rc;
}

int mon_textfile_write(const struct mon_metrics *metrics, const char *path, struct tacho_error *err)
{
    struct store_place place;
    size_t length = strlen(path);
    if (length < 6 || strcmp(path + length - 5, ".prom"))
        return tacho_fail(err, TACHO_EUSAGE, "node_exporter reads names that end in .prom only",
                          "%s: not a name that ends in .prom", path);
    int error = store_place_find(path, false, &place) ? errno : replace_file(metrics, &place);
    store_place_close(&place);
    if (error)
        return tacho_fail(err, tacho_error_of_errno(error),
                          "give a file in a folder that you may write to", "%s: %s", path,
                          strerror(error));
    return 0;
}
