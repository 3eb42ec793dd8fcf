/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho merge: one run of those that the nodes of a job were recorded into.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/base/merge_files.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "reports/words/number.h"

struct values {
    const char *output;
    bool force;
};

static const struct cli_option options[] = {
    CLI_CREATE_ROW,
    CLI_FLAG_ROW("force", 0, force, "also merge files of different jobs, or with ranks in common"),
    {0},
};

const struct cli_spec cli_merge_spec = {
    .help = "merge the runs of the nodes of a job into one",
    .usage = "RUN RUN... -o RUN",
    .about =
        "Merges the files of the nodes (or ranks) of one job into one file with one time base.\n"
        "The clocks of several machines are aligned by the collectives that all ranks take "
        "part in, else by wall clock;\n"
        "the report shows the accuracy. docs/merge.md has the details.",
    .options = options,
    .examples = "  tacho merge train-20260101-120000-node*.tacho -o train.tacho\n"
                "  tacho merge rank0.tacho rank1.tacho -o run.tacho",
    .least = 1,
    .most = -1,
    .words_missing = "the runs to merge",
};

/* Says what was merged, and how well the clocks fit. */
static void say_result(const char *output, const struct store_merge_result *merge_result)
{
    cli_say("%s: %" PRId64 " files of %" PRId64 " machine%s, %" PRId64 " ranks", output,
            merge_result->files, merge_result->hosts, merge_result->hosts == 1 ? "" : "s",
            merge_result->ranks);
    if (merge_result->hosts > 1 && !isnan(merge_result->error))
        cli_say("clocks: aligned by at least %" PRId64 " matched collectives, within %s",
                merge_result->matched, TIME_TEXT(merge_result->error));
    else if (merge_result->hosts > 1)
        cli_say(
            "clocks: %s: times of different machines may be off by as much as their wall clocks",
            store_merge_how_text(merge_result->how));
}

/* Metrics and findings are those of all ranks together. */
static void analyze(const char *output)
{
    struct an_result *result = NULL;
    if (!cli_run_conclude_file(output, output, false, &result))
        cli_say("%s", result->verdict);
    an_result_free(result);
}

int cli_merge(int argc, char **argv)
{
    struct values values = {0};
    struct store_merge_result merge_result;
    int first, code = cli_parse(&cli_merge_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    if (!values.output)
        return cli_usage("merge", "name the file to create: tacho merge RUN RUN -o RUN.tacho",
                         "option '-o' is missing");
    code = cli_merge_files((const char *const *)argv + first, (size_t)(argc - first), values.output,
                           values.force, &merge_result);
    if (code)
        return code;
    say_result(values.output, &merge_result);
    analyze(values.output);
    char *word = cli_shell_word(values.output);
    cli_say("next: tacho report %s", word ? word : values.output);
    free(word);
    return 0;
}
