/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of a watch: a live run is read and judged at each look; a recording is judged in steps
 * of its own time. What happened before the watch began is read without sending anything; what is
 * still open then is sent.
 */
#include "cli/watch/session.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/watch/acknowledge.h"
#include "cli/watch/probe.h"
#include "profiler/collector/drain/open.h"
#include "profiler/collector/job/live.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/machine.h"

#define ROWS         20000 /* of a table in one read of a live run */
#define SILENT_LOOKS 3     /* without a recorder, before that is said */
#define GAP_LOOKS    10    /* missed looks after which the time between them is reported as a gap */
#define GAP_S        5.0

/* The recorder writes a step one turn after its values, and turns are up to 0.1 s apart. */
#define LATE_NS 300000000

static void notify(void *ctx, const struct mon_notice *notice)
{
    struct cli_watch_session *session = ctx;
    int64_t begun = mon_feed_begun(session->feed) + (int64_t)(notice->alert->begun_s * 1e9);
    int64_t now = mon_feed_begun(session->feed) + (int64_t)(notice->time_s * 1e9);
    struct mon_place place = {.run = session->found.run,
                              .host = session->host,
                              .realtime_ns = now + session->realtime_offset,
                              .begun_ns = begun + session->realtime_offset};
    cli_sinks_send(session->sinks, notice, &place);
}

/* ---- opening --------------------------------------------------------------------------------- */

int cli_watch_find(const char *run, bool replay, struct col_found *found)
{
    struct tacho_error err = {0};
    if (!run && !replay && !col_find_live(found, &err))
        return 0;
    if (!col_find_run(run ? run : "latest", false, found, &err) && found->live)
        return 0;
    return cli_run_find(run ? run : "latest", found);
}

static const char *key_or(const struct cli_watch_session *session, const char *key,
                          const char *otherwise)
{
    const char *value = mon_feed_key(session->feed, key);
    return value ? value : otherwise;
}

static void learn_place(struct cli_watch_session *session)
{
    char boot[64] = "";
    const char *real = mon_feed_key(session->feed, "start.realtime_ns");
    const char *start = mon_feed_key(session->feed, "start.monotonic_ns");
    col_read_boot_id(boot, sizeof boot);
    session->same_clock = *boot && !strcmp(key_or(session, "boot_id", ""), boot);
    if (real && start)
        session->realtime_offset = strtoll(real, NULL, 10) - strtoll(start, NULL, 10);
    snprintf(session->host, sizeof session->host, "%s", key_or(session, "host", ""));
}

/* Steps are judged one by one also in what is read at once, so time goes on in between. */
static int play(struct cli_watch_session *session, int64_t until, double interval_s)
{
    int64_t interval = (int64_t)(interval_s * 1e9);
    int rc = 0;
    for (int64_t at = session->now + interval; at < until && !rc; at += interval) {
        rc = mon_feed_play(session->feed, session->monitor, at - session->late_ns);
        mon_tick(session->monitor, at);
    }
    rc = rc ? rc : mon_feed_play(session->feed, session->monitor, until - session->late_ns);
    mon_tick(session->monitor, until);
    session->now = until;
    return rc;
}

/* Rows of merged and imported files are in any order: only the whole is in the order of time. */
static bool is_ordered(const struct cli_watch_session *session)
{
    return !mon_feed_key(session->feed, "source") && !mon_feed_key(session->feed, "merge.files");
}

/* Reads what is new and plays what is complete of it, until there is no more; only so much is in
 * memory at a time. */
static int read_and_play(struct cli_watch_session *session, double interval_s)
{
    int more = 1;
    while (more > 0) {
        more =
            mon_feed_poll(session->feed, session->reader, is_ordered(session) ? ROWS : INT64_MAX);
        struct mon_machine machine = mon_feed_machine(session->feed);
        int64_t until = more < 0 ? STORE_ABSENT : mon_feed_horizon(session->feed);
        mon_set_machine(session->monitor, &machine);
        int rc = until > session->now ? play(session, until, interval_s) : 0;
        more = rc ? rc : more;
    }
    return more;
}

static int open_monitor(struct cli_watch_session *session)
{
    struct tacho_error err = {0};
    int rc = store_open(session->found.path, &session->reader, &err);
    if (rc)
        return cli_fail(&err);
    session->feed = mon_feed_new();
    rc = session->feed ? mon_feed_poll(session->feed, session->reader, 1) : TACHO_ENOMEM;
    int64_t begun = rc < 0 ? 0 : mon_feed_begun(session->feed);
    if (begun == STORE_ABSENT)
        begun = col_clock_now(); /* nothing is recorded yet */
    session->now = begun;
    session->monitor = rc < 0 ? NULL : mon_new(session->config, begun, notify, session);
    if (!session->monitor) {
        rc = rc < 0 ? rc : TACHO_ENOMEM;
        return cli_error(rc, NULL, "%s: %s", session->found.run, tacho_error_text(rc));
    }
    session->probe = (struct cli_watch_probing){.feed = session->feed, .reader = session->reader};
    mon_set_probe(session->monitor, cli_watch_probe, &session->probe);
    learn_place(session);
    return 0;
}

int cli_watch_open(struct cli_watch_session *session, const char *run, bool replay,
                   const struct mon_config *config, struct cli_sinks *sinks)
{
    *session = (struct cli_watch_session){
        .config = config, .sinks = sinks, .replay = replay, .late_ns = replay ? 0 : LATE_NS};
    int code = cli_watch_find(run, replay, &session->found);
    if (!code && !replay && !session->found.live)
        code = cli_error(TACHO_EUSAGE, "--replay plays a recording as if it were live",
                         "%s: the run has ended", session->found.run);
    if (!code && !replay &&
        !col_live_locked(session->found.run)) /* of an earlier boot, or killed */
        code =
            cli_error(TACHO_EUSAGE, "'tacho recover' finishes it",
                      "%s: the run has ended: no recorder writes it any more", session->found.run);
    code = code ? code : open_monitor(session);
    session->looked = col_clock_now();
    if (code || replay)
        return code;
    mon_alerts(session->monitor)->catching_up = true;
    int rc = read_and_play(session, 1);
    store_reader_rest(session->reader);
    mon_alerts(session->monitor)->catching_up = false;
    mon_alerts_send_open(mon_alerts(session->monitor),
                         (double)(session->now - mon_feed_begun(session->feed)) / 1e9);
    return rc ? cli_error(rc, NULL, "%s: %s", session->found.run, tacho_error_text(rc)) : 0;
}

void cli_watch_close(struct cli_watch_session *session)
{
    mon_free(session->monitor);
    mon_feed_free(session->feed);
    store_reader_close(session->reader);
    *session = (struct cli_watch_session){.over = true};
}

/* ---- a live run ------------------------------------------------------------------------------ */

/* Now on the clock of the file. Where that is another machine's, it goes on from the newest thing
 * that was read by what has passed here. */
static int64_t file_now(const struct cli_watch_session *session, int64_t here)
{
    int64_t newest = mon_feed_newest(session->feed);
    if (session->same_clock)
        return here;
    int64_t passed = session->now + (here - session->looked);
    return newest != STORE_ABSENT && newest > passed ? newest : passed;
}

static int on_open(void *ctx, const struct col_open *open)
{
    struct cli_watch_session *session = ctx;
    return mon_feed_open(session->feed, session->monitor,
                         &(struct mon_feed_range){.track = open->track,
                                                  .detail = open->detail,
                                                  .start = open->start,
                                                  .number = open->correlation});
}

/* Has the run ended, or is its recorder gone? Then what was held back is played. */
static int check_recorder(struct cli_watch_session *session)
{
    const char *ended = mon_feed_key(session->feed, "ended");
    bool held = ended || col_live_locked(session->found.run);
    session->silent = held ? 0 : session->silent + 1;
    session->over = ended || session->silent == SILENT_LOOKS;
    int rc = session->over ? mon_feed_play(session->feed, session->monitor, session->now) : 0;
    if (ended)
        mon_ended(session->monitor, session->now, ended);
    else if (session->over)
        mon_recorder_gone(session->monitor, session->now);
    return rc;
}

int cli_watch_look(struct cli_watch_session *session, double interval_s)
{
    int64_t here = col_clock_now();
    double since_s = (double)(here - session->looked) / 1e9;
    int rc = store_reader_refresh(session->reader);
    while (!rc && (rc = mon_feed_poll(session->feed, session->reader, ROWS)) == 1)
        rc = mon_feed_play(session->feed, session->monitor, mon_feed_horizon(session->feed));
    if (rc)
        return cli_error(rc, NULL, "%s: %s", session->found.run, tacho_error_text(rc));
    int64_t now = file_now(session, here);
    struct mon_machine machine = mon_feed_machine(session->feed);
    mon_set_machine(session->monitor, &machine);
    if (since_s > GAP_LOOKS * interval_s + GAP_S)
        mon_gap(session->monitor, session->now, now);
    session->realtime_offset = col_clock_realtime() - now;
    session->looked = here;
    rc = mon_feed_play(session->feed, session->monitor, now - session->late_ns);
    mon_open_none(session->monitor);
    if (!rc)
        rc = col_open_each(session->reader, on_open, session);
    now = now > session->now ? now : session->now;
    rc = rc ? rc : play(session, now, fmax(interval_s, since_s));
    store_reader_rest(session->reader);
    cli_watch_read_acknowledged(session->found.run, &session->acknowledged_ns,
                                mon_alerts(session->monitor));
    rc = rc ? rc : check_recorder(session);
    cli_sinks_reap(session->sinks);
    return rc ? cli_error(rc, NULL, "%s: %s", session->found.run, tacho_error_text(rc)) : 0;
}

/* ---- a recording ----------------------------------------------------------------------------- */

int cli_watch_replay(struct cli_watch_session *session, double interval_s)
{
    int rc = read_and_play(session, interval_s);
    const char *end = mon_feed_key(session->feed, "end.monotonic_ns");
    const char *ended = mon_feed_key(session->feed, "ended");
    int64_t until = end ? strtoll(end, NULL, 10) : session->now;
    if (!rc && !mon_feed_steps(session->feed))
        return cli_error(TACHO_ENOTSUP, "watch a run whose steps are marked: docs/collection.md",
                         "%s: no steps to watch", session->found.run);
    if (!rc && until > session->now)
        rc = play(session, until, interval_s);
    mon_ended(session->monitor, session->now, ended ? ended : "exit 0");
    session->over = true;
    return rc ? cli_error(rc, NULL, "%s: %s", session->found.run, tacho_error_text(rc)) : 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void print_objective(const struct mon_objective_state *state, FILE *out)
{
    fprintf(out, "  %-16s ", state->objective.name);
    if (state->absent)
        fprintf(out, "no data: %s\n", state->absent);
    else
        fprintf(
            out,
            "%8.3f %% good of %.5g %s (objective %.4g %%), %.0f %% of the error budget left%s\n",
            100 * state->good, state->events, mon_sli_kind(state->objective.sli)->event_unit,
            100 * state->objective.target, 100 * state->left,
            state->burn_count ? "" : "; the run is too short for burn rates");
}

void cli_watch_summary(const struct cli_watch_session *session, FILE *out)
{
    struct mon_state *state = malloc(sizeof *state);
    if (!state || !session->monitor) {
        free(state);
        return;
    }
    mon_state(session->monitor, session->now, state);
    fprintf(out, "%s: %" PRId64 " steps, alerts: %" PRId64 "\n", session->found.run, state->steps,
            mon_alerts(session->monitor)->next_id - 1);
    for (size_t i = 0; i < state->objective_count; i++)
        print_objective(&state->objective[i], out);
    free(state);
}
