/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `tacho watch` that write for other programs.
 */
#include "cli/watch/watch_export.h"

#include <string.h>

#include "cli/base/message.h"
#include "profiler/collector/os/clock.h"

#define SCRAPE_S 15

int cli_watch_rules(const struct cli_watch_export *values, const struct mon_slo *slo)
{
    struct tacho_error err = {0};
    double scrape_s = values->scrape_s > 0 ? values->scrape_s : SCRAPE_S;
    int rc = mon_rules_write(values->rules, slo, scrape_s, stdout, &err);
    if (rc == TACHO_EIO)
        return 0; /* closing stdout will say so */
    return rc ? cli_fail(&err) : 0;
}

static void cut_ending(char *name, const char *ending)
{
    if (cli_has_suffix(name, ending))
        name[strlen(name) - strlen(ending)] = 0;
}

int cli_watch_export_begin(struct cli_watch_export *values)
{
    struct tacho_error err = {0};
    struct mon_publish_options options = {.listen = values->listen,
                                          .token_file = values->token_file,
                                          .textfile = values->textfile,
                                          .otlp = values->otlp};
    if (!values->listen && !values->textfile && !values->otlp)
        return 0;
    if (mon_publish_open(&options, col_clock_realtime(), &values->opened, &err))
        return cli_fail(&err);
    if (mon_publish_address(values->opened))
        cli_say("samples at http://%s/metrics", mon_publish_address(values->opened));
    return 0;
}

int cli_watch_export_add(struct cli_watch_export *values, const char *path)
{
    char file[128], name[128]; /* of the file that there is at the end; without its ending */
    const char *slash = strrchr(path, '/');
    if (!values->opened)
        return 0;
    snprintf(file, sizeof file, "%s", slash && slash[1] ? slash + 1 : path);
    cut_ending(file, ".live");
    snprintf(name, sizeof name, "%s", file);
    cut_ending(name, ".tacho");
    int index = mon_publish_add(values->opened, name, file);
    return index < 0 ? cli_error(index, NULL, "%s: %s", path, tacho_error_text(index)) : 0;
}

void cli_watch_export_run(struct cli_watch_export *values, size_t run, struct mon_monitor *monitor,
                          int64_t now, bool has_ended)
{
    if (!values->opened)
        return;
    if (!values->has_begun)
        mon_publish_begin(values->opened, col_clock_realtime());
    values->has_begun = true;
    mon_publish_run(values->opened, run, monitor, now, has_ended);
}

void cli_watch_export_send(struct cli_watch_export *values, bool last)
{
    struct tacho_error err = {0};
    if (!values->opened || !values->has_begun)
        return;
    values->has_begun = false;
    int rc = mon_publish_send(values->opened, last, &err);
    if (rc && rc != values->told)
        cli_fail(&err);
    values->told = rc;
}

void cli_watch_export_end(struct cli_watch_export *values)
{
    mon_publish_close(values->opened);
    values->opened = NULL;
}
