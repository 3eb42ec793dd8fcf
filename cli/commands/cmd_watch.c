/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho watch: watches live runs without a screen: objectives, detectors, alerts.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/commands/commands.h"
#include "cli/watch/acknowledge.h"
#include "cli/watch/fleet_view.h"
#include "cli/watch/session.h"
#include "cli/watch/settings.h"
#include "cli/watch/watch_export.h"

#define RUNS_MOST 64

struct values {
    const char *config, *acknowledge;
    double interval;
    int64_t looks;
    bool replay, json, quiet;
    struct cli_watch_export export;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("replay", 0, replay,
                 "play a finished recording as if it were live; nothing is "
                 "sent or run"),
    CLI_TEXT_ROW("config", 0, CLI_TEXT, config, "FILE",
                 "objectives, sinks, responses ($XDG_CONFIG_HOME/tacho/watch.conf)"),
    CLI_NUMBER_ROW("interval", 0, CLI_NUMBER, interval, "SECONDS",
                   "time between two readings of a run (1)", 0.1, 3600),
    CLI_NUMBER_ROW("looks", 'n', CLI_INT, looks, "N", "exit after N readings", 1, 1e12),
    CLI_FLAG_ROW("json", 'j', json, "print each notice as a line of JSON (tacho-alert/1)"),
    CLI_FLAG_ROW("quiet", 'q', quiet, "no summary of the objectives at the end"),
    CLI_TEXT_ROW("acknowledge", 0, CLI_TEXT, acknowledge, "ID|CODE",
                 "acknowledge this alert of RUN, so that it is not sent again, and exit"),
    CLI_WATCH_EXPORT_ROWS,
    {0},
};

const struct cli_spec cli_watch_spec = {
    .help = "watch live runs without a screen: objectives, alerts, samples for Prometheus",
    .usage = "[OPTION]... [RUN]...",
    .about =
        "Watches each RUN until it ends (default: the newest run that is being recorded on this "
        "machine): whether it\n"
        "goes on, whether steps get slower, whether the numbers are sound, whether memory leaks, "
        "and how fast it burns\n"
        "the error budgets of its objectives. An alert says since which step, which phase and "
        "which rank moved, and what\n"
        "changed then. Notices are printed; a file of settings names where else they go. Nothing "
        "of the run is changed.",
    .options = options,
    .examples = "  tacho watch\n"
                "  tacho watch run.tacho --replay\n"
                "  tacho watch --config watch.conf --listen 9464\n"
                "  tacho watch --acknowledge STEP_TIME\n"
                "  tacho watch --rules prometheus > tacho.rules.yml",
    .least = 0,
    .most = RUNS_MOST,
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    stop = number;
}

/* Looks at all runs until they are over, a signal comes, or enough looks were made. */
static int watch_live(struct cli_watch_session *sessions, size_t count, struct values *values)
{
    int code = 0;
    for (int64_t look = 0; !stop && !code && (!values->looks || look < values->looks); look++) {
        size_t live = 0;
        for (size_t i = 0; i < count && !code; i++) {
            struct cli_watch_session *session = &sessions[i];
            if (!session->over)
                code = cli_watch_look(session, values->interval);
            live += !session->over;
            cli_watch_export_run(&values->export, i, session->monitor, session->now, session->over);
        }
        cli_watch_export_send(&values->export, !live);
        if (!live)
            break;
        poll(NULL, 0, (int)(values->interval * 1000));
    }
    return code;
}

static int watch_all(struct cli_watch_session *sessions, size_t count, struct values *values)
{
    int code = 0;
    if (values->replay)
        for (size_t i = 0; i < count && !code; i++)
            code = cli_watch_replay(&sessions[i], values->interval);
    else
        code = watch_live(sessions, count, values);
    for (size_t i = 0; i < count && !code && !values->quiet && !values->json; i++)
        cli_watch_summary(&sessions[i], stdout);
    return code;
}

/* Opens the runs and watches them. */
static int watch(char **runs, size_t count, struct values *values, const struct mon_config *config)
{
    struct cli_watch_session *sessions = calloc(count, sizeof *sessions);
    if (!sessions)
        return cli_error(TACHO_ENOMEM, NULL, "watch: out of memory");
    struct cli_sinks sinks = {.json = values->json, .replay = values->replay};
    size_t opened = 0;
    int code = cli_sinks_open(&sinks, config);
    for (; opened < count && !code; opened++)
        code = cli_watch_open(&sessions[opened], runs ? runs[opened] : NULL, values->replay, config,
                              &sinks);
    if (!code)
        code = cli_watch_export_begin(&values->export);
    for (size_t i = 0; i < opened && !code; i++)
        code = cli_watch_export_add(&values->export, sessions[i].found.run);
    if (!code)
        code = watch_all(sessions, count, values);
    cli_watch_export_end(&values->export);
    for (size_t i = 0; i < opened; i++)
        cli_watch_close(&sessions[i]);
    free(sessions);
    return code;
}

int cli_watch(int argc, char **argv)
{
    struct values values = {.interval = 1};
    struct sigaction action = {.sa_handler = on_signal};
    struct col_found found;
    static struct mon_config config;
    int first, code = cli_parse(&cli_watch_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    if (values.export.fleet)
        return cli_fleet_view(&(struct cli_fleet_view){
            .from = values.export.fleet, .token_file = values.export.token_file, .frames = 1});
    if (values.acknowledge) {
        code = cli_watch_find(first < argc ? argv[first] : NULL, false, &found);
        return code ? code : cli_watch_acknowledge(found.run, values.acknowledge);
    }
    if ((code = cli_watch_settings(values.config, true, &config)))
        return code;
    if (values.export.rules)
        return cli_watch_rules(&values.export, &config.slo);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return first < argc ? watch(argv + first, (size_t)(argc - first), &values, &config)
                        : watch(NULL, 1, &values, &config);
}
