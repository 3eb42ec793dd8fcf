/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: what `tacho watch` does for other programs: rule files, a fleet as a table, the
 * samples of the run that it watches. Functions return exit codes, after a message.
 */
#ifndef CLI_WATCH_EXPORT_H
#define CLI_WATCH_EXPORT_H

#include "monitor/publish/publish.h"
#include "monitor/rules/rules.h"

/* Rows of the table of options. `export` is a member of the command's `struct values`, of the type
 * struct cli_watch_export. */
#define CLI_WATCH_EXPORT_ROWS \
    CLI_TEXT_ROW("listen", 0, CLI_TEXT, export.listen, "[ADDRESS:]PORT", \
                 "serve the samples at http://ADDRESS:PORT/metrics; ADDRESS: 127.0.0.1"), \
        CLI_TEXT_ROW("token-file", 0, CLI_TEXT, export.token_file, "FILE", \
                     "a token that clients have to send; required beyond loopback"), \
        CLI_TEXT_ROW("textfile", 0, CLI_TEXT, export.textfile, "FILE.prom", \
                     "write the samples for node_exporter every 10 s"), \
        CLI_TEXT_ROW("otlp", 0, CLI_TEXT, export.otlp, "URL|FILE", \
                     "send the samples as OTLP/JSON every 10 s"), \
        CLI_TEXT_ROW("rules", 0, CLI_CHOICE, export.rules, MON_RULES_NAMES, \
                     "print the objectives as rules of this program, and exit"), \
        CLI_NUMBER_ROW("scrape", 0, CLI_NUMBER, export.scrape_s, "SECONDS", \
                       "how often Prometheus will scrape, for --rules (15)", 1, 3600), \
        CLI_TEXT_ROW("fleet", 0, CLI_TEXT, export.fleet, "FILE|URL", \
                     "print a table of the runs that many of these processes watch, and exit")

struct cli_watch_export {
    const char *listen, *token_file, *textfile, *otlp, *rules, *fleet;
    double scrape_s;            /* 0: 15 */
    struct mon_publish *opened; /* between begin and end; NULL: nothing is wanted */
    bool has_begun;             /* a moment */
    int told;                   /* the error that was said last, so that it is said once */
};

/* --rules, for the objectives of a configuration. */
int cli_watch_rules(const struct cli_watch_export *values, const struct mon_slo *slo);

/* Opens what the options name and says where it listens. */
int cli_watch_export_begin(struct cli_watch_export *values);
/* A run more, by the path of its file. */
int cli_watch_export_add(struct cli_watch_export *values, const char *path);
/* The samples of a moment: of each run in the order in which they were added, then to where they go
 * (mon_publish_send). A destination that fails is told of once, and does not end the watch. */
void cli_watch_export_run(struct cli_watch_export *values, size_t run, struct mon_monitor *monitor,
                          int64_t now, bool has_ended);
void cli_watch_export_send(struct cli_watch_export *values, bool last);
void cli_watch_export_end(struct cli_watch_export *values);

#endif
