/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds runs for the dashboard and analyzes them: live ones, finished ones, and the one that a live
 * run becomes at its end.
 */
#include "cli/base/top_source.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/message.h"
#include "cli/base/run_list.h"
#include "profiler/collector/job/live.h"

/* Copies what the dashboard needs to know of a run. */
static void hand_over(struct tui_found *to, const struct col_found *from)
{
    memcpy(to->path, from->path, sizeof to->path);
    memcpy(to->run, from->run, sizeof to->run);
    to->live = from->live;
}
/* When a live run began: the recorder wrote its lock then. */
static struct timespec begin_of(const struct col_found *found, struct timespec otherwise)
{
    char lock[COL_PATH_MAX + 8];
    struct stat st;
    snprintf(lock, sizeof lock, "%s/lock", found->run);
    return found->live && !stat(lock, &st) ? st.st_mtim : otherwise;
}

_Static_assert(sizeof((struct tui_found *)0)->path == COL_PATH_MAX,
               "tui and collector agree on the length of names");

/* A run that was live is looked for under the name it gets at its end, then under the one the user
 * typed. Nothing is finished here: a run whose recorder died stays as it is, and the dashboard says
 * so. */
static int find(void *ctx, struct tui_found *found, struct tacho_error *err)
{
    struct cli_top_source *top_source = ctx;
    struct col_found now;
    char name[COL_PATH_MAX];
    size_t length, live = strlen(COL_LIVE_SUFFIX) - strlen(COL_SUFFIX);
    if (!top_source->used || top_source->imported) {
        top_source->used = true;
        hand_over(found, &top_source->first);
        return 0;
    }
    snprintf(name, sizeof name, "%s", found->run);
    length = strlen(name);
    if (found->live && length > live)
        name[length - live] = 0; /* NAME.tacho.live -> NAME.tacho */
    int rc = col_find_run(name, false, &now, err);
    if (rc && top_source->arg)
        rc = col_find_run(top_source->arg, false, &now, err);
    if (!rc) {
        hand_over(found, &now);
        top_source->begun = begin_of(&now, top_source->begun);
    }
    return rc;
}

/* Is a recorder still writing the run? */
static bool recorded(void *ctx, const struct tui_found *found)
{
    (void)ctx;
    return col_live_locked(found->run);
}

/* Has a newer live run begun, if the user named none? Then *found is it. */
static bool next(void *ctx, struct tui_found *found)
{
    struct cli_top_source *top_source = ctx;
    struct col_found now;
    struct tacho_error err = {0};
    if (top_source->arg || col_find_live(&now, &err))
        return false;
    struct timespec begun = begin_of(&now, top_source->begun);
    if (begun.tv_sec < top_source->begun.tv_sec ||
        (begun.tv_sec == top_source->begun.tv_sec && begun.tv_nsec <= top_source->begun.tv_nsec))
        return false; /* it was there before: the end of the newer one is what the user waits to see
                       */
    top_source->begun = begun;
    hand_over(found, &now);
    return true;
}

/* The runs of this machine and of this folder, as `tacho ls` lists them. The thread
 * that calls this must not print, so a run that cannot be read has no message here. */
static int list(void *ctx, struct tui_runs *runs)
{
    (void)ctx;
    static char here[] = ".";
    char *folders[] = {here, NULL};
    struct cli_run_list all = {0};
    struct cli_messages messages;
    cli_messages_keep(&messages);
    cli_run_list_read(folders, &all);
    cli_messages_keep(NULL);
    int rc = 0;
    for (size_t i = 0; i < all.count && !rc; i++) {
        const struct cli_run_row *row = &all.row[i];
        struct tui_run run = {.run = row->run,
                              .state = (char *)cli_run_state_name(row->state),
                              .verdict = row->verdict,
                              .steps = row->steps,
                              .step_ms = row->step_ms};
        rc = tui_runs_add(runs, &run);
    }
    cli_run_list_clear(&all);
    return rc;
}

/* Turns to the run that the user chose: from now on it is the one that was named. */
static int choose(void *ctx, const char *run, struct tui_found *found, struct tacho_error *err)
{
    struct cli_top_source *top_source = ctx;
    struct col_found now;
    int rc = col_find_run(run, false, &now, err);
    if (rc)
        return rc;
    snprintf(top_source->chosen, sizeof top_source->chosen, "%s", run);
    top_source->arg = top_source->chosen;
    top_source->used = true;
    top_source->imported = false;
    top_source->begun = begin_of(&now, top_source->begun);
    hand_over(found, &now);
    return 0;
}

/* How a run is analysed for the dashboard. */
static struct an_options options_for(const struct cli_top_source *top_source,
                                     const struct tui_found *found)
{
    return (struct an_options){.file = found->run,
                               .live = found->live,
                               .peak_flops = top_source->peak_flops,
                               .flops_per_step = top_source->flops_per_step,
                               .step_marker = top_source->step_marker};
}

/* Analyzes the run, or only a part of it. */
static int analyze(void *ctx, store_reader *reader, const struct tui_found *found, int64_t slices,
                   int64_t until, struct an_result **out, struct tacho_error *err)
{
    struct an_options options = options_for(ctx, found);
    options.part_slices = slices;
    options.part_until = until;
    return an_analyze(reader, &options, out, err);
}

/* ---- the whole of a large run, by a child ---------------------------------------------------- */

static int whole_begin(void *ctx, const struct tui_found *found, int64_t slices,
                       struct tacho_error *err)
{
    struct cli_top_source *top_source = ctx;
    struct an_options options = options_for(top_source, found);
    return cli_analysis_begin(&top_source->whole, found->path, slices, &options, err);
}

static int whole_take(void *ctx, struct an_result **out, struct tacho_error *err)
{
    struct cli_top_source *top_source = ctx;
    return cli_analysis_take(&top_source->whole, out, err);
}

static void whole_end(void *ctx)
{
    struct cli_top_source *top_source = ctx;
    cli_analysis_end(&top_source->whole);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A look at the file from a thread of its own: a disk may take its time. There is one in a process,
 * and it may outlive those who wait for it. */
static struct {
    char path[COL_PATH_MAX];
    struct tacho_error err;
    int rc;
} look;

static void *look_main(void *unused)
{
    store_reader *reader = NULL;
    look.rc = store_open(look.path, &reader, &look.err);
    store_reader_close(reader);
    return unused;
}

/* Can it be opened at all? A dashboard of a file that says nothing would only hide why. With
 * patience (ms, 0: without end) the screen comes first where the disk is slow, and says it then. */
static int check(const struct col_found *found, int patience_ms)
{
    pthread_t thread;
    sigset_t all, old;
    struct timespec until;
    if (found->live)
        return 0;
    memcpy(look.path, found->path, sizeof look.path);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the screen's */
    bool apart = patience_ms && !pthread_create(&thread, NULL, look_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (apart) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += patience_ms * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_timedjoin_np(thread, NULL, &until)) {
            pthread_detach(thread);
            return 0;
        }
    } else {
        look_main(NULL);
    }
    return look.rc ? cli_fail(&look.err) : 0;
}

int cli_top_source_open(struct cli_top_source *top_source, const char *arg, int patience_ms)
{
    struct tacho_error err = {0};
    top_source->source = (struct tui_source){.ctx = top_source,
                                             .find = find,
                                             .recorded = recorded,
                                             .next = next,
                                             .analyze = analyze,
                                             .whole_begin = whole_begin,
                                             .whole_take = whole_take,
                                             .whole_end = whole_end,
                                             .release = an_result_free,
                                             .list = list,
                                             .choose = choose};
    top_source->arg = arg;
    clock_gettime(CLOCK_REALTIME, &top_source->begun);
    if (!arg && col_find_live(&top_source->first, &err) == 0) {
        top_source->begun = begin_of(&top_source->first, top_source->begun);
        return 0;
    }
    int code = cli_run_find(arg ? arg : "latest", &top_source->first);
    top_source->imported = !code && cli_run_is_import(&top_source->first);
    return code ? code : check(&top_source->first, patience_ms);
}

int cli_top_source_against(struct cli_top_source *top_source, const char *run)
{
    struct col_found found;
    struct an_result *result = NULL;
    struct an_options options = {.step_marker = top_source->step_marker};
    int code = cli_run_find(run, &found);
    if (!code)
        code = cli_run_analyze(&found, &options, &result);
    if (code)
        return code;
    size_t count = 0, all = result->step_point_count;
    top_source->against_steps = calloc(all + 1, sizeof *top_source->against_steps);
    for (size_t i = 0; top_source->against_steps && i < all; i++) {
        const struct an_step_point *point = &result->step_points[i];
        if (point->rank == result->step_points[0].rank && !point->excluded)
            top_source->against_steps[count++] = *point;
    }
    top_source->against = (struct tui_against){.run = run,
                                               .median_ms = result->steps.median_ms.value,
                                               .step = top_source->against_steps,
                                               .step_count = count};
    top_source->source.against = &top_source->against;
    an_result_free(result);
    return count
               ? 0
               : cli_error(TACHO_ENOTSUP, "name a run that has steps", "%s: no steps to draw", run);
}
