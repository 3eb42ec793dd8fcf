/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho verify: makes the change of a finding in the recorded command, runs both commands again in
 * turn, and shows the measured gain beside the predicted one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzers/diff/gate.h"
#include "analyzers/diff/pairs.h"
#include "analyzers/steps/change.h"
#include "cli/base/message.h"
#include "cli/base/rerun.h"
#include "cli/base/run_file.h"
#include "cli/base/verify_folder.h"
#include "cli/commands/commands.h"
#include "cli/view/view.h"
#include "reports/diff/diff_write.h"
#include "reports/diff/verify_write.h"

#define PAIRS_LEAST 3

struct values {
    const char *output, *set;
    int64_t pairs;
    struct cli_view view;
    bool json, yes, dry_run;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW("set", 0, CLI_TEXT, set, "KEY=VALUE",
                 "the change, where tacho knows none: an option or a variable of the environment"),
    CLI_NUMBER_ROW("pairs", 0, CLI_INT, pairs, "N", "pairs of runs (3)", PAIRS_LEAST,
                   AN_PAIRS_MOST),
    CLI_TEXT_ROW("output", 'o', CLI_TEXT, output, "FOLDER",
                 "keep the runs in FOLDER (RUN-verify-N); never overwritten"),
    CLI_FLAG_ROW("dry-run", 'n', dry_run, "only print the two commands"),
    CLI_FLAG_ROW("yes", 'y', yes,
                 "also start a command that another user or another host recorded"),
    CLI_FLAG_ROW("json", 'j', json, "print JSON (tacho-verify/1)"),
    CLI_FIELDS_ROW,
    CLI_LIMIT_ROW,
    {0},
};

const struct cli_spec cli_verify_spec = {
    .help = "try the change of a finding: run without and with it, and measure the gain",
    .usage = "[OPTION]... [RUN [N|ID]]",
    .about =
        "Makes the change that a finding of RUN, named by its number or its id, proposes in the "
        "command and the environment\n"
        "that RUN recorded, prints both commands, runs them in turn under 'tacho run', and prints "
        "the predicted gain beside the\n"
        "measured one. Without a finding: the first one whose change is an option or a variable.\n"
        "The runs are kept for 'tacho diff'. They write what the command writes: checkpoints, "
        "logs.\n"
        "For programs whose options tacho does not know: --set --KEY=VALUE replaces or adds an "
        "option, --set NAME=VALUE a\n"
        "variable such as OMP_NUM_THREADS.\n"
        "Only a command that you recorded on this host is started; --yes allows others, but never "
        "another user's for root.",
    .options = options,
    .examples = "  tacho verify\n"
                "  tacho verify run.tacho 2 --pairs 7\n"
                "  tacho verify run.tacho --set --num-workers=4\n"
                "  tacho verify run.tacho 1 --dry-run",
    .most = 2,
};

/* What a call works with. */
struct session {
    const struct values *values;
    struct col_found found;
    struct an_result *result;
    struct cli_rerun rerun;
    json_t *change;
    char *text, *before, *after; /* the change and the two commands, as one types them */
    const struct an_finding *finding;
    size_t number;
    struct cli_folder folder;
    struct an_result *first; /* the first run, of which the others are measured */
    double before_ms[AN_PAIRS_MOST], after_ms[AN_PAIRS_MOST];
};

/* ---- what to run ----------------------------------------------------------------------------- */

/* Finds and analyzes the run. Its owner is asked for before it is read. */
static int load(struct session *session, const char *run)
{
    int code = cli_run_find(run, &session->found);
    if (!code && cli_run_is_import(&session->found))
        return cli_error(TACHO_ENOTSUP, "record the program with 'tacho run'",
                         "%.300s: a trace of another tool does not hold the command",
                         session->found.run);
    if (!code)
        code = cli_rerun_owned(&session->found, session->values->yes);
    if (!code)
        code = cli_run_analyze(&session->found, &(struct an_options){.samples = true},
                               &session->result);
    if (!code)
        code =
            cli_rerun_read(&session->found, session->result, session->values->yes, &session->rerun);
    return code;
}

/* KEY=VALUE of --set as a change. */
static int set_change(struct session *session)
{
    const char *set = session->values->set, *equals = strchr(set, '=');
    char key[200];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(set, "="), set);
    bool option = key[0] == '-' && strspn(key, "-") < strlen(key);
    if (!equals || (!option && !an_change_is_setting(key)))
        return cli_usage(
            "verify", "--set --workers=4 for an option, --set OMP_NUM_THREADS=2 for a variable",
            "--set: '%.100s' is neither --KEY=VALUE nor a variable that a run records", set);
    session->change = json_pack("[[s, s]]", key, equals + 1);
    session->text = strdup(set);
    return 0;
}

/* The change that the finding proposes. */
static int finding_change(struct session *session)
{
    const char *setting = session->finding ? session->finding->setting : NULL;
    if (!setting)
        return cli_error(TACHO_ENOTSUP,
                         "name it with --set KEY=VALUE, or make it yourself and compare with "
                         "'tacho diff'",
                         "%.200s: no option or variable makes the change of finding %zu%s%.60s",
                         session->found.run, session->number, session->finding ? ", " : "",
                         session->finding ? session->finding->id : "");
    if (strstr(setting, "--") && !cli_rerun_has_program(&session->rerun, "train"))
        return cli_error(TACHO_ENOTSUP, "name the option of your program: --set --KEY=VALUE",
                         "%.200s: the change is '%.100s' of train, which the recorded command does "
                         "not start itself",
                         session->found.run, setting);
    session->change = an_change_parse(setting);
    session->text = strdup(setting);
    return 0;
}

/* Is the changed command another one? */
static int check_change(struct session *session)
{
    json_t *words = an_change_words(session->rerun.words, session->change),
           *same = an_change_variables(session->rerun.environment, NULL),
           *variables = an_change_variables(session->rerun.environment, session->change);
    bool memory = session->text && words && same && variables;
    bool differs =
        memory && (!json_equal(words, session->rerun.words) || !json_equal(same, variables));
    json_decref(words);
    json_decref(same);
    json_decref(variables);
    if (!memory)
        return cli_error(TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
    return differs ? 0
                   : cli_usage("verify", "give another value",
                               "%.100s: the recorded command says that already", session->text);
}

/* The first finding whose change can be made; 1 where there is none. */
static size_t first_with_setting(const struct an_result *result)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (result->findings[i].setting)
            return i + 1;
    return 1;
}

/* The finding, the change, and the two commands as texts. `name`: of the finding, or NULL. */
static int choose(struct session *session, const char *name)
{
    const struct an_result *result = session->result;
    int code = cli_run_finding("verify", name, result, &session->number);
    if (!code && !session->number)
        session->number = session->values->set ? 1 : first_with_setting(result);
    if (!code && session->number <= result->finding_count)
        session->finding = &result->findings[session->number - 1];
    if (!code)
        code = session->values->set ? set_change(session) : finding_change(session);
    code = code ? code : check_change(session);
    if (code)
        return code;
    session->before = cli_rerun_text(&session->rerun, NULL, "before.tacho");
    session->after = cli_rerun_text(&session->rerun, session->change, "after.tacho");
    return session->before && session->after
               ? 0
               : cli_error(TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
}

static void say_plan(const struct session *session)
{
    double seconds = session->result->run.duration_s.value * 2 * (double)session->values->pairs;
    if (session->finding)
        cli_say("finding %zu, %s: %s", session->number, session->finding->id,
                session->finding->action);
    cli_say("before: %s", session->before);
    cli_say("after:  %s", session->after);
    cli_say("%lld pairs of runs in this folder, about %.0f s; they write what the command writes",
            (long long)session->values->pairs, seconds);
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Gains of these findings are of the whole run: their time lies between the steps. */
static bool is_of_run(const struct session *session)
{
    return session->finding && (!strcmp(session->finding->id, "EVALUATION") ||
                                !strcmp(session->finding->id, "CHECKPOINT"));
}

/* Analyzes a run that was just recorded; the first one is kept. */
static int measure(struct session *session, const struct cli_kept *kept, double *ms)
{
    struct an_result *result = NULL;
    int code = cli_run_analyze(&kept->found, &(struct an_options){.samples = true}, &result);
    if (code)
        return code;
    if (!session->first)
        session->first = result;
    *ms = an_diff_run_step(session->first, result,
                           session->finding && session->finding->replay.of_mean);
    if (is_of_run(session))
        *ms = an_pairs_run_ms(result, *ms);
    if (!(*ms > 0))
        code =
            cli_error(TACHO_ENOTSUP, "more steps are needed: a first and a last one do not count",
                      "%.200s: no steps to compare", kept->found.run);
    if (session->first != result)
        an_result_free(result);
    return code;
}

/* One run. 0, or an exit code after a message. */
static int run_once(struct session *session, size_t pair, bool after)
{
    struct cli_kept kept;
    int stopped = 0;
    cli_folder_file(&session->folder, after ? "after" : "before", pair, &kept);
    int code = cli_rerun_record(&session->rerun, after ? session->change : NULL, kept.found.path,
                                kept.log, &stopped);
    if (stopped) {
        cli_say("stopped; nothing is kept");
        return 128 + stopped;
    }
    if (code) {
        cli_folder_say_log(&kept);
        return cli_error(TACHO_EIO, "the end of its output is above; --dry-run prints its command",
                         "the run %s the change ended with exit code %d",
                         after ? "with" : "without", code);
    }
    if (access(kept.found.path, F_OK)) { /* the program ended well, its recording did not */
        cli_folder_say_log(&kept);
        return cli_error(TACHO_EIO, "the end of its output is above; --dry-run prints its command",
                         "the run %s the change left no recording", after ? "with" : "without");
    }
    double *step_ms = after ? &session->after_ms[pair] : &session->before_ms[pair];
    bool second = (pair % 2 != 0) != after; /* of its pair */
    code = measure(session, &kept, step_ms);
    if (!code)
        cli_say("run %zu of %zu: %s, %.3f ms a step", 2 * pair + 1 + second,
                2 * (size_t)session->values->pairs, after ? "after" : "before", *step_ms);
    return code;
}

/* All pairs; the order within a pair alternates. */
static int run_pairs(struct session *session)
{
    int code = 0;
    for (size_t i = 0; i < (size_t)session->values->pairs && !code; i++) {
        code = run_once(session, i, i % 2 != 0);
        code = code ? code : run_once(session, i, i % 2 == 0);
    }
    return code;
}

/* ---- what is kept and printed ---------------------------------------------------------------- */

/* Of the values the place of the middle one. */
static size_t middle_of(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t below = 0;
        for (size_t k = 0; k < count; k++)
            below += values[k] < values[i] || (k < i && values[k] == values[i]);
        if (below == (count - 1) / 2)
            return i;
    }
    return 0;
}

/* Analyzes the middle run of a side. */
static int load_middle(const struct session *session, bool after, struct an_result **result)
{
    struct cli_kept kept;
    const double *values = after ? session->after_ms : session->before_ms;
    cli_folder_file(&session->folder, after ? "after" : "before",
                    middle_of(values, (size_t)session->values->pairs), &kept);
    return cli_run_analyze(&kept.found, &(struct an_options){.samples = true}, result);
}

/* Writes the comparison of the middle runs into the folder. */
static int keep_diff(const struct session *session)
{
    struct an_result *good = NULL, *bad = NULL;
    struct an_diff *diff = NULL;
    char path[CLI_FOLDER_MOST + 16];
    int code = load_middle(session, false, &good);
    code = code ? code : load_middle(session, true, &bad);
    if (!code && an_diff_results(good, bad, 0, &diff))
        code = cli_error(TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
    an_result_free(good);
    an_result_free(bad);
    if (code)
        return code;
    double step[] = {diff->good.step, diff->bad.step};
    struct an_gate gate = an_gate_decide(&(struct an_gate_input){
        step, step + 1, 1, 1, .limit_pct = NAN, .run_sd_pct = NAN, .within_pct = NAN});
    snprintf(path, sizeof path, "%s/diff.json", session->folder.temporary);
    FILE *file = fopen(path, "wx");
    int rc = file ? rep_diff_json(diff, &gate, file) : TACHO_EIO;
    if (file && fclose(file))
        rc = TACHO_EIO;
    an_diff_free(diff);
    return rc ? cli_error(rc, NULL, "%s/diff.json: %s", session->folder.name, strerror(errno)) : 0;
}

static int write_document(const void *verify, FILE *out)
{
    return rep_verify_json(verify, out);
}

static int print_result(const struct session *session)
{
    struct rep_verify verify = {
        .file = session->found.run,
        .number = session->number,
        .finding = session->finding,
        .change = session->text,
        .before = session->before,
        .after = session->after,
        .of_run = is_of_run(session),
        .before_ms = session->before_ms,
        .after_ms = session->after_ms,
    };
    if (!session->values->dry_run) {
        verify.pairs = (size_t)session->values->pairs;
        verify.kept = session->folder.name;
    }
    if (session->values->json)
        return tacho_error_exit(
            cli_view_write("verify", &session->values->view, write_document, &verify, stdout));
    if (session->values->dry_run)
        return 0; /* the two commands have been said */
    rep_verify_text(&verify, stdout);
    char *word = cli_shell_word(session->folder.name);
    const char *folder = word ? word : "?";
    printf("           tacho diff %s/before-*.tacho -- %s/after-*.tacho\n", folder, folder);
    free(word);
    return 0;
}

/* Runs the pairs in a folder that gets its name when it is complete. A signal leaves nothing. */
static int run_and_keep(struct session *session)
{
    cli_rerun_begin();
    int code = cli_folder_make(&session->folder, session->values->output, session->found.run,
                               session->number);
    if (!code) {
        code = run_pairs(session);
        code = code ? code : keep_diff(session);
        code = cli_folder_end(&session->folder, code);
    }
    cli_rerun_end();
    return code ? code : print_result(session);
}

int cli_verify(int argc, char **argv)
{
    struct values values = {.pairs = PAIRS_LEAST};
    struct session *session = calloc(1, sizeof *session);
    int first, code = cli_parse(&cli_verify_spec, argc, argv, &values, &first);
    if (code >= 0 || !session) {
        free(session);
        return code >= 0 ? code : tacho_error_exit(TACHO_ENOMEM);
    }
    session->values = &values;
    code = cli_view_check("verify", &values.view, values.json);
    if (!code)
        code = load(session, first < argc ? argv[first] : "latest");
    if (!code)
        code = choose(session, first + 1 < argc ? argv[first + 1] : NULL);
    if (!code)
        say_plan(session);
    if (!code && values.dry_run)
        code = print_result(session);
    else if (!code)
        code = run_and_keep(session);
    cli_rerun_clear(&session->rerun);
    json_decref(session->change);
    free(session->text);
    free(session->before);
    free(session->after);
    an_result_free(session->first);
    an_result_free(session->result);
    free(session);
    return code;
}
