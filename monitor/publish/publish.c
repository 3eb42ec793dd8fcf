/* SPDX-License-Identifier: Apache-2.0
 *
 * Destinations of the samples of a run: when they are due, what becomes of one that fails.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/publish/private.h"
#include "monitor/serve/serve.h"

void mon_publish_close(struct mon_publish *publish)
{
    if (!publish)
        return;
    mon_serve_stop(publish->serve);
    if (publish->options.textfile && publish->has_textfile)
        unlink(publish->options.textfile);
    mon_metrics_free(&publish->metrics);
    free(publish->run);
    explicit_bzero(publish->token, sizeof publish->token);
    free(publish);
}

int mon_publish_open(const struct mon_publish_options *options, int64_t wall_ns,
                     struct mon_publish **publish, struct tacho_error *err)
{
    int rc = 0;
    struct mon_publish *made = calloc(1, sizeof *made);
    *publish = NULL;
    if (!made)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
    made->options = *options;
    made->due_ns[0] = made->due_ns[1] = INT64_MIN;
    gethostname(made->host, sizeof made->host - 1);
    mon_metrics_init(&made->metrics, MON_METRICS_MOST, wall_ns);
    if (options->token_file)
        rc = mon_token_read(options->token_file, made->token, err);
    if (!rc && options->listen)
        rc = mon_serve_start(options->listen, options->token_file, &made->serve, err);
    mon_metrics_begin(&made->metrics, wall_ns);
    if (!rc && options->textfile) /* a wrong name is said now, not in ten seconds */
        rc = mon_textfile_write(&made->metrics, options->textfile, err);
    made->has_textfile = !rc && options->textfile;
    if (rc)
        mon_publish_close(made);
    else
        *publish = made;
    return rc;
}

const char *mon_publish_address(const struct mon_publish *publish)
{
    return publish->serve ? mon_serve_address(publish->serve) : NULL;
}

const struct mon_metrics *mon_publish_metrics(const struct mon_publish *publish)
{
    return &publish->metrics;
}

/* Does the i-th destination get samples now? */
static bool is_due(const struct mon_publish *publish, size_t i, int64_t wall_ns, bool has_ended)
{
    return has_ended || wall_ns >= publish->due_ns[i] ||
           wall_ns < publish->due_ns[i] - (int64_t)MON_PUBLISH_AGAIN_S * 1000000000;
}

/* When it is due again, after a result. The first error is kept. */
static void note(struct mon_publish *publish, size_t i, int64_t wall_ns, int rc, int *first)
{
    int64_t wait_s = rc ? MON_PUBLISH_AGAIN_S : MON_PUBLISH_S;
    publish->due_ns[i] = wall_ns + wait_s * 1000000000;
    if (rc && !*first)
        *first = rc;
}

int mon_publish_add(struct mon_publish *publish, const char *run, const char *file)
{
    size_t count = publish->run_count;
    struct publish_run *grown = reallocarray(publish->run, count + 1, sizeof *grown);
    if (!grown)
        return TACHO_ENOMEM;
    publish->run = grown;
    grown[count] = (struct publish_run){.last_index = INT64_MIN};
    snprintf(grown[count].name, sizeof grown[count].name, "%s", run);
    for (size_t i = 0; i < count; i++) /* two runs must not have the same labels */
        if (!strcmp(grown[i].name, grown[count].name))
            snprintf(grown[count].name, sizeof grown[count].name, "%.100s-%zu", run, count + 1);
    snprintf(grown[count].file, sizeof grown[count].file, "%s", file);
    publish->run_count++;
    return (int)count;
}

void mon_publish_begin(struct mon_publish *publish, int64_t wall_ns)
{
    mon_metrics_begin(&publish->metrics, wall_ns);
    publish_watch(&publish->metrics);
}

int mon_publish_send(struct mon_publish *publish, bool last, struct tacho_error *err)
{
    const struct mon_publish_options *options = &publish->options;
    const char *token = *publish->token ? publish->token : NULL;
    int64_t wall_ns = publish->metrics.time_ns;
    struct tacho_error unheard;
    int rc = publish->serve ? mon_serve_publish(publish->serve, &publish->metrics) : 0;
    if (rc)
        tacho_fail(err, rc, NULL, "%s: %s", options->listen, tacho_error_text(rc));
    if (options->textfile && is_due(publish, 0, wall_ns, last))
        note(publish, 0, wall_ns,
             mon_textfile_write(&publish->metrics, options->textfile, rc ? &unheard : err), &rc);
    if (options->otlp && is_due(publish, 1, wall_ns, last))
        note(publish, 1, wall_ns,
             mon_otlp_send(&publish->metrics, publish->host, options->otlp, token,
                           rc ? &unheard : err),
             &rc);
    return rc;
}
