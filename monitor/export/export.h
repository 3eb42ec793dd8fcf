/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: samples in the formats of others. Functions return 0 or TACHO_E*; with TACHO_EIO of a
 * stream, the stream knows why.
 */
#ifndef MONITOR_EXPORT_EXPORT_H
#define MONITOR_EXPORT_EXPORT_H

#include "monitor/export/metric.h"

enum mon_text {
    MON_OPENMETRICS, /* OpenMetrics 1.0: units, exemplars, "# EOF" */
    MON_PROMETHEUS,  /* text format 0.0.4, which node_exporter reads: neither units nor exemplars */
};
/* The media type of a text, for HTTP. */
const char *mon_text_type(enum mon_text kind);
int mon_text_write(const struct mon_metrics *metrics, enum mon_text kind, FILE *out);

/* A file for the textfile collector of node_exporter: it appears complete under its name, which
 * must end in ".prom", because the collector reads no other. Mode 0644, without time stamps, which
 * the collector refuses. */
int mon_textfile_write(const struct mon_metrics *metrics, const char *path,
                       struct tacho_error *err);

/* ExportMetricsServiceRequest of OTLP 1.x as JSON (the mapping of protobuf to JSON, with names in
 * lowerCamelCase, 64-bit numbers as text). `host` becomes the resource attribute host.name. */
int mon_otlp_write(const struct mon_metrics *metrics, const char *host, FILE *out);
/* The same to `to`: http://HOST:PORT/v1/metrics, or the name of a file, which gets a line more. */
int mon_otlp_send(const struct mon_metrics *metrics, const char *host, const char *to,
                  const char *token, struct tacho_error *err);

#endif
