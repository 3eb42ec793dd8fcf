/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal, a log, a command, a webhook, Alertmanager; and responses.
 */
#include "cli/watch/sinks.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "monitor/http/http.h"
#include "monitor/serve/serve.h"

#define REQUEST_S 3.0

enum { SINK_LOG, SINK_COMMAND, SINK_MAIL, SINK_WEBHOOK, SINK_ALERTMANAGER, SINK_RESPONSE };

int cli_sinks_open(struct cli_sinks *sinks, const struct mon_config *config)
{
    struct tacho_error err = {0};
    sinks->config = config;
    _Static_assert(sizeof sinks->token >= MON_TOKEN_MOST, "a token has room");
    return *config->token && mon_token_read(config->token, sinks->token, &err) ? cli_fail(&err) : 0;
}

/* A sink failed: said once, so that a receiver that is away does not fill the screen. */
static void failed(struct cli_sinks *sinks, int sink, const char *name, const char *why)
{
    if (!(sinks->failed & 1u << sink))
        cli_say("%s: the notice was not sent: %s", name, why);
    sinks->failed |= 1u << sink;
}

/* ---- log ------------------------------------------------------------------------------------- */

static void append_line(struct cli_sinks *sinks, const json_t *json)
{
    const char *path = sinks->config->log;
    char *text = json_dumps(json, JSON_COMPACT);
    if (!*path || !text) {
        free(text);
        return;
    }
    size_t length = strlen(text);
    text[length] =
        '\n'; /* in place of the 0: one write, so that lines of several watches stay whole */
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, text, length + 1) == (ssize_t)(length + 1);
    if (!written)
        failed(sinks, SINK_LOG, path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(text);
}

/* ---- commands -------------------------------------------------------------------------------- */

void cli_sinks_reap(struct cli_sinks *sinks)
{
    for (size_t i = 0; i < CLI_SINK_CHILDREN; i++)
        if (sinks->child[i] > 0 && waitpid(sinks->child[i], NULL, WNOHANG) != 0)
            sinks->child[i] = 0;
}

/* In the child: `text` on stdin, output to stderr, so that stdout keeps to notices. */
static void become(const char *command, const char *text)
{
    int ends[2];
    size_t length = strlen(text);
    if (pipe(ends) || length > 60000 || write(ends[1], text, length) != (ssize_t)length)
        _exit(126);
    dup2(ends[0], STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void set_environment(const struct mon_notice *notice, const struct mon_place *place)
{
    const struct mon_symptom *symptom = &notice->alert->symptom;
    char number[32], rank[32] = "";
    snprintf(number, sizeof number, "%" PRId64, symptom->since_step);
    if (symptom->rank_count)
        snprintf(rank, sizeof rank, "%" PRId64, symptom->rank[0]);
    setenv("TACHO_RUN", place->run, 1);
    setenv("TACHO_CODE", symptom->code, 1);
    setenv("TACHO_CAUSE", mon_cause_name(symptom->cause), 1);
    setenv("TACHO_EVENT", mon_event_name(notice->event), 1);
    setenv("TACHO_STEP", number, 1);
    setenv("TACHO_RANK", rank, 1);
    setenv("TACHO_SEVERITY", mon_severity_name(symptom->severity), 1);
}

/* Starts a command of the user with the notice on its stdin; it is not waited for. NULL, or why it
 * was not started. */
static const char *start(struct cli_sinks *sinks, const char *command,
                         const struct mon_notice *notice, const struct mon_place *place,
                         const char *text)
{
    size_t at = 0;
    cli_sinks_reap(sinks);
    while (at < CLI_SINK_CHILDREN && sinks->child[at] > 0)
        at++;
    if (at == CLI_SINK_CHILDREN)
        return "too many commands of earlier notices still run";
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return strerror(errno);
    if (!child) {
        set_environment(notice, place);
        become(command, text);
    }
    sinks->child[at] = child;
    return NULL;
}

/* A mail by a program that is called as mail(1) and Slurm's MailProg are. */
static void send_mail(struct cli_sinks *sinks, const struct mon_notice *notice,
                      const struct mon_place *place, const char *text)
{
    static const char tail[] = " -s \"[tacho] $TACHO_EVENT $TACHO_SEVERITY $TACHO_CODE\" ";
    const struct mon_config *config = sinks->config;
    char command[2 * MON_VALUE + sizeof tail], body[3000];
    char *address = cli_shell_word(config->mail);
    if (!address)
        return;
    snprintf(command, sizeof command, "%s%s%s", *config->mailer ? config->mailer : "mail", tail,
             address);
    free(address);
    snprintf(body, sizeof body, "%s\n\nrun: %s\nhost: %s\nhint: %s\n", text, place->run,
             place->host, mon_cause_hint(notice->alert->symptom.cause));
    const char *why = start(sinks, command, notice, place, body);
    if (why)
        failed(sinks, SINK_MAIL, config->mail, why);
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static void post(struct cli_sinks *sinks, int sink, const char *url, const char *path, json_t *json)
{
    char whole[MON_VALUE + 32];
    char *body = json ? json_dumps(json, JSON_COMPACT) : NULL;
    snprintf(whole, sizeof whole, "%s%s", url, path);
    json_decref(json);
    if (!body)
        return;
    struct mon_http request = {.url = whole,
                               .type = "application/json",
                               .token = *sinks->token ? sinks->token : NULL,
                               .body = body,
                               .size = strlen(body)};
    mon_http_all(&request, 1, REQUEST_S);
    if (request.rc)
        failed(sinks, sink, url, request.err.what);
    mon_http_free(&request, 1);
    free(body);
}

/* ---- responses ------------------------------------------------------------------------------- */

/* The command for an alert: by its code, else by its cause. */
static const char *response_to(const struct mon_config *config, const struct mon_symptom *symptom)
{
    const char *names[] = {symptom->code, mon_cause_name(symptom->cause)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t j = 0; j < config->response_count; j++)
            if (!strcmp(config->response[j].code, names[i]))
                return config->response[j].command;
    return NULL;
}

/* Runs it, or says why not; the log has what was done in either case. */
static void respond(struct cli_sinks *sinks, const struct mon_notice *notice,
                    const struct mon_place *place, const char *text)
{
    const struct mon_symptom *symptom = &notice->alert->symptom;
    const char *command = response_to(sinks->config, symptom), *why = NULL;
    if (!command || notice->event != MON_FIRING)
        return;
    if (sinks->replay)
        why = "a recording is replayed";
    else if (sinks->config->response_dry_run)
        why = "response.dry_run is on";
    else if (sinks->responses >= sinks->config->response_limit)
        why = "response.limit is reached";
    else
        why = start(sinks, command, notice, place, text);
    sinks->responses += !why;
    if (why)
        cli_say("response to %s %" PRId64 ": not run, %s: %s", symptom->code, notice->alert->id,
                why, command);
    else
        cli_say("response to %s %" PRId64 ": %s", symptom->code, notice->alert->id, command);
    json_t *record = json_pack("{s:s,s:s,s:I,s:s,s:b,s:s?}", "schema", "tacho-response/1", "code",
                               symptom->code, "alert", (json_int_t)notice->alert->id, "command",
                               command, "run", !why, "why", why);
    if (!sinks->replay)
        append_line(sinks, record);
    json_decref(record);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void print_line(const struct cli_sinks *sinks, const struct mon_notice *notice,
                       const char *text, const char *json)
{
    if (sinks->json) {
        puts(json);
    } else if (notice->send) {
        char *shown = cli_printable(text);
        printf("%10.1f s  %s\n", notice->time_s, shown ? shown : "");
        free(shown);
    }
    fflush(stdout);
}

void cli_sinks_send(struct cli_sinks *sinks, const struct mon_notice *notice,
                    const struct mon_place *place)
{
    const struct mon_config *config = sinks->config;
    bool sends = notice->send && !sinks->replay;
    char words[2048];
    json_t *json = mon_notice_json(notice, place);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    mon_notice_text(notice, words, sizeof words);
    if (text) {
        print_line(sinks, notice, words, text);
        if (!sinks->replay)
            append_line(sinks, json);
        if (sends && *config->mail)
            send_mail(sinks, notice, place, words);
        if (sends && *config->command) {
            const char *why = start(sinks, config->command, notice, place, text);
            if (why)
                failed(sinks, SINK_COMMAND, config->command, why);
        }
        if (sends && *config->webhook)
            post(sinks, SINK_WEBHOOK, config->webhook, "", json_incref(json));
        if (sends && *config->alertmanager)
            post(sinks, SINK_ALERTMANAGER, config->alertmanager, "/api/v2/alerts",
                 mon_notice_alertmanager(notice, place));
        if (notice->send)
            respond(sinks, notice, place, text);
    }
    json_decref(json);
    free(text);
}
