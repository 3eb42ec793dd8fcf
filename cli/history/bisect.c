/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho history bisect: which commit made the step longer. Each commit that is tried is checked out
 * in a working tree of its own, beside the user's; the command runs there several times, recorded
 * by tacho run, and the median of its runs is held against the middle of the good and the bad
 * commit.
 *
 * The command and the build are the words that the user typed. Nothing comes from a file.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/diff/gate.h"
#include "cli/base/message.h"
#include "cli/base/rerun.h"
#include "cli/base/run_file.h"
#include "cli/history/verbs.h"

#define COMMITS_MOST 4096
#define RUNS_MOST    32
#define PATH_ROOM    (PATH_MAX - 64)

struct bisect {
    const struct cli_history_options *options;
    char **command;
    char folder[PATH_ROOM]; /* holds what follows */
    char tree[PATH_MAX], log[PATH_MAX], run[PATH_MAX];
    char (*commit)[65]; /* after the good one, oldest first; the last is the bad one */
    size_t count;
    char good[65], bad[65];
    int stopped;
};

/* What running a commit gave. */
struct measured {
    double step_ms[RUNS_MOST];
    size_t runs; /* 0: it could not be built or run */
    double median;
};

/* ---- programs --------------------------------------------------------------------------------- */

static void say_log(const struct bisect *bisect)
{
    char line[400];
    FILE *log = fopen(bisect->log, "r");
    while (log && fgets(line, sizeof line, log)) {
        line[strcspn(line, "\n")] = 0;
        char *safe = cli_printable(line);
        cli_say("  %s", safe ? safe : "");
        free(safe);
    }
    if (log)
        fclose(log);
}

static int start(struct bisect *bisect, const char *folder, char **words)
{
    return cli_rerun_start(words, folder, bisect->log, &bisect->stopped);
}

/* git with up to five words, in the user's folder or the working tree. */
static int git(struct bisect *bisect, const char *folder, const char *const word[5])
{
    char *words[7] = {(char *)"git"};
    for (int i = 0; i < 5 && word[i]; i++)
        words[i + 1] = (char *)word[i];
    return start(bisect, folder, words);
}

/* ---- commits ---------------------------------------------------------------------------------- */

/* The first line that the last program printed. */
static bool read_line(const struct bisect *bisect, char *line, int size)
{
    FILE *log = fopen(bisect->log, "r");
    bool has = log && fgets(line, size, log);
    if (log)
        fclose(log);
    if (has)
        line[strcspn(line, "\n")] = 0;
    return has;
}

/* The hash of what the user called a commit: "HEAD~3" is another one in the working tree. */
static int resolve(struct bisect *bisect, const char *name, char commit[65])
{
    char spelled[200];
    snprintf(spelled, sizeof spelled, "%.180s^{commit}", name);
    if (!git(bisect, NULL, (const char *const[5]){"rev-parse", "--verify", spelled}) &&
        read_line(bisect, commit, 65))
        return 0;
    say_log(bisect);
    return cli_error(TACHO_ENOTFOUND, "start it inside of the repository",
                     "%.180s: git knows no such commit", name);
}

/* The commits from good to bad. 0, or an exit code after a message. */
static int list_commits(struct bisect *bisect)
{
    char range[200];
    int code = resolve(bisect, bisect->options->good, bisect->good);
    if (!code)
        code = resolve(bisect, bisect->options->bad, bisect->bad);
    if (code)
        return code;
    snprintf(range, sizeof range, "%s..%s", bisect->good, bisect->bad);
    if (git(bisect, NULL,
            (const char *const[5]){"rev-list", "--reverse", "--ancestry-path", range, "--"})) {
        say_log(bisect);
        return cli_error(TACHO_EIO, "the output of git is above; 'git fsck' checks the repository",
                         "git lists no commits %s", range);
    }
    FILE *log = fopen(bisect->log, "r");
    char line[80];
    bisect->commit = calloc(COMMITS_MOST, sizeof *bisect->commit);
    while (log && bisect->commit && bisect->count < COMMITS_MOST && fgets(line, sizeof line, log)) {
        line[strcspn(line, "\n")] = 0;
        snprintf(bisect->commit[bisect->count++], sizeof *bisect->commit, "%.64s", line);
    }
    if (log)
        fclose(log);
    if (!bisect->count || bisect->count == COMMITS_MOST)
        return cli_error(TACHO_EFORMAT, "give the good commit first: an ancestor of the bad one",
                         "%s: no commits, or more than %d", range, COMMITS_MOST);
    return 0;
}

/* ---- measuring -------------------------------------------------------------------------------- */

/* The median step of one run of the command in the working tree; NAN: it failed. */
static double run_once(struct bisect *bisect)
{
    struct an_result *result = NULL;
    double step = NAN;
    cli_rerun_measure(bisect->command, bisect->tree, bisect->run, bisect->log, NULL,
                      &bisect->stopped, &result);
    if (result && result->steps.median_ms.valid)
        step = result->steps.median_ms.value;
    if (isnan(step) && !bisect->stopped)
        say_log(bisect);
    an_result_free(result);
    return step;
}

/* Checks a commit out, builds it, runs the command. */
static void measure(struct bisect *bisect, const char *commit, struct measured *out)
{
    char *build[] = {(char *)"sh", (char *)"-c", (char *)bisect->options->build, NULL};
    char median[AN_WORDS];
    *out = (struct measured){.median = NAN};
    bool ready = !git(bisect, bisect->tree,
                      (const char *const[5]){"checkout", "--quiet", "--detach", commit, "--"});
    if (ready && build[2])
        ready = !start(bisect, bisect->tree, build);
    if (!ready && !bisect->stopped)
        say_log(bisect);
    while (ready && !bisect->stopped && out->runs < (size_t)bisect->options->runs) {
        double step = run_once(bisect);
        if (isnan(step)) {
            out->runs = 0;
            return;
        }
        out->step_ms[out->runs++] = step;
    }
    double sorted[RUNS_MOST];
    memcpy(sorted, out->step_ms, sizeof sorted);
    if (out->runs)
        out->median = an_quantile_of(sorted, out->runs, 0.5);
    if (out->runs && !bisect->stopped)
        printf("  %.12s  %s ms (%zu runs)\n", commit, an_number_print(median, out->median, 4),
               out->runs);
    else if (!bisect->stopped)
        printf("  %.12s  could not be built or run\n", commit);
    fflush(stdout);
}

/* ---- the search ------------------------------------------------------------------------------- */

/* Narrows down to low < first bad <= high, of commits by their place; 0 is the good one, place k
 * the commit k - 1. Commits that cannot be run are passed over for the nearest that can. */
static void search(struct bisect *bisect, double limit, size_t *low, size_t *high)
{
    bool *broken = calloc(bisect->count + 1, sizeof *broken);
    while (broken && !bisect->stopped && *high - *low > 1) {
        size_t middle = *low + (*high - *low) / 2, at = 0;
        for (size_t away = 0; !at && away <= *high - *low; away++) {
            if (middle + away < *high && !broken[middle + away])
                at = middle + away;
            else if (middle >= away && middle - away > *low && !broken[middle - away])
                at = middle - away;
        }
        if (!at)
            break;
        struct measured measured;
        measure(bisect, bisect->commit[at - 1], &measured);
        broken[at] = !measured.runs;
        if (measured.runs && measured.median < limit)
            *low = at;
        else if (measured.runs)
            *high = at;
    }
    free(broken);
}

static int report(struct bisect *bisect, size_t low, size_t high)
{
    const char *commit = bisect->commit[high - 1];
    if (high - low > 1)
        printf("the step became longer in one of the %zu commits up to %s; the others could not be "
               "run\n",
               high - low, commit);
    else
        printf("first commit with the longer step: %s\n", commit);
    fflush(stdout);
    if (!git(bisect, NULL,
             (const char *const[5]){"log", "-1", "--format=%h %an, %as: %s", commit, "--"})) {
        char line[400];
        char *safe = read_line(bisect, line, sizeof line) ? cli_printable(line) : NULL;
        if (safe)
            printf("  %s\n", safe);
        free(safe);
    }
    return high - low > 1 ? CLI_EXIT_UNDECIDED : 0;
}

static int bisect_commits(struct bisect *bisect)
{
    struct measured good, bad;
    measure(bisect, bisect->good, &good);
    if (good.runs && !bisect->stopped)
        measure(bisect, bisect->bad, &bad);
    if (bisect->stopped)
        return 128 + bisect->stopped;
    if (!good.runs || !bad.runs)
        return cli_error(TACHO_ENOTFOUND, "give --build if a commit has to be built first",
                         "the good and the bad commit must both run");
    struct an_gate gate = an_gate_decide(
        &(struct an_gate_input){good.step_ms, bad.step_ms, good.runs, bad.runs, 0, NAN, NAN});
    if (gate.state != AN_GATE_FAILED) {
        printf("the bad commit is not shown to be slower than the good one here: %+.1f %%, p %.2g; "
               "smallest change that so many runs show: %+.1f %%\n",
               gate.change_pct, gate.p, gate.detectable_pct);
        return CLI_EXIT_UNDECIDED;
    }
    size_t low = 0, high = bisect->count;
    search(bisect, sqrt(good.median * bad.median), &low, &high);
    return bisect->stopped ? 128 + bisect->stopped : report(bisect, low, high);
}

/* ---- its folder ------------------------------------------------------------------------------- */

static int make_tree(struct bisect *bisect)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(bisect->folder, sizeof bisect->folder, "%s/tacho-bisect-XXXXXX",
             tmp && *tmp == '/' ? tmp : "/tmp");
    if (!mkdtemp(bisect->folder))
        return cli_error(TACHO_EIO, "set TMPDIR to a folder that you may write to", "%s: %s",
                         bisect->folder, strerror(errno));
    snprintf(bisect->tree, sizeof bisect->tree, "%s/tree", bisect->folder);
    snprintf(bisect->log, sizeof bisect->log, "%s/log", bisect->folder);
    snprintf(bisect->run, sizeof bisect->run, "%s/run.tacho", bisect->folder);
    int code = list_commits(bisect);
    if (code)
        return code;
    if (git(bisect, NULL,
            (const char *const[5]){"worktree", "add", "--detach", bisect->tree, bisect->good})) {
        say_log(bisect);
        return cli_error(TACHO_EIO,
                         "the output of git is above; 'git worktree prune' removes old trees",
                         "%s: git made no working tree", bisect->tree);
    }
    return 0;
}

static void remove_tree(struct bisect *bisect)
{
    int stopped = bisect->stopped;
    cli_rerun_end(); /* the user's second Ctrl-C ends the clean-up */
    cli_rerun_begin();
    git(bisect, NULL, (const char *const[5]){"worktree", "remove", "--force", bisect->tree, NULL});
    unlink(bisect->run);
    unlink(bisect->log);
    rmdir(bisect->folder);
    bisect->stopped = stopped;
}

int cli_history_bisect(struct history *history, const struct cli_history_options *options,
                       int count, char **words)
{
    (void)history;
    (void)count;
    struct bisect bisect = {.options = options, .command = words};
    if (!options->good || !options->bad)
        return cli_usage("history", "'tacho history trend' prints them",
                         "bisect: give --good COMMIT and --bad COMMIT");
    if (options->good[0] == '-' || options->bad[0] == '-')
        return cli_usage("history", NULL, "bisect: a commit does not begin with '-'");
    cli_rerun_begin();
    int code = make_tree(&bisect);
    if (!code) {
        printf("%zu commits, %d runs each\n", bisect.count, (int)options->runs);
        code = bisect_commits(&bisect);
    }
    if (*bisect.folder)
        remove_tree(&bisect);
    cli_rerun_end();
    free(bisect.commit);
    return code;
}
