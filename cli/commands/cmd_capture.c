/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho capture: opens a window of GPU recording in a run that is under way.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/merge_files.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "reports/words/number.h"

struct values {
    int64_t steps, at;
    double seconds;
    bool no_wait;
};

static const struct cli_option options[] = {
    CLI_NUMBER_ROW("steps", 0, CLI_INT, steps, "N",
                   "record N steps, the same ones in every process (5)", 1, 1e9),
    CLI_NUMBER_ROW("at", 0, CLI_INT, at, "STEP",
                   "start at this step (default: the first that all processes can still record)", 0,
                   1e15),
    CLI_NUMBER_ROW("seconds", 0, CLI_NUMBER, seconds, "S",
                   "record for S seconds from now, regardless of steps", 0.001, 1e9),
    CLI_FLAG_ROW("no-wait", 0, no_wait, "do not wait for the end of the window"),
    {0},
};

const struct cli_spec cli_capture_spec = {
    .help = "record GPU work for some steps, in a run started with --gpu later or --steps",
    .usage = "[OPTION]... [RUN|FOLDER]",
    .about = "Opens a window in which GPU work is recorded, in a run in progress on this machine "
             "('latest' if no RUN is\n"
             "named) that was started with --gpu later, --steps, --every or --duration. If "
             "the machines of a job write\n"
             "their runs to one shared folder, all of them record the same steps: name one of the "
             "runs, or that folder.\n"
             "Without a shared folder, give the same --at on each machine.",
    .options = options,
    .examples = "  tacho run --gpu later -- torchrun --nproc-per-node 8 train.py\n"
                "  tacho capture --steps 5\n"
                "  tacho capture --steps 5 /shared/runs            # the job recorded there, "
                "on all its machines",
    .most = 1,
};

/* Is it a folder that the machines of a job write their runs to, and not a run itself? */
static bool is_folder_of_runs(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && !cli_is_live_folder(path);
}

/* Says which steps or seconds are recorded, and in how many processes. */
static void say_capture(const char *run, const struct col_capture *capture,
                        const struct values *values)
{
    const char *es = capture->processes == 1 ? "" : "es";
    if (capture->from < 0)
        cli_say("%s: %s %s of GPU work in %d process%s", run,
                values->no_wait ? "records" : "recorded", TIME_TEXT(values->seconds * 1e9),
                capture->processes, es);
    else
        cli_say("%s: steps %" PRId64 " to %" PRId64 " %s in %d process%s", run, capture->from,
                capture->to, values->no_wait ? "will be recorded" : "are recorded",
                capture->processes, es);
}

/* Is the run still being recorded? 0 or an exit code, after a message. */
static int check_live(const struct col_found *found)
{
    struct tacho_error err = {0};
    store_reader *reader = NULL;
    if (strstr(found->run, COL_LIVE_SUFFIX))
        return 0;
    if (store_open(found->path, &reader, &err)) /* no run at all */
        return cli_fail(&err);
    store_reader_close(reader);
    return cli_error(TACHO_EUSAGE, "a window can be opened only while a run is being recorded",
                     "%s: the run has ended", found->run);
}

int cli_capture(int argc, char **argv)
{
    struct tacho_error err = {0};
    struct col_found found;
    struct values values = {.steps = 5, .at = -1};
    int first, code = cli_parse(&cli_capture_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    const char *run = first < argc ? argv[first] : "latest";
    struct col_capture capture = {.steps = values.steps,
                                  .at = values.at,
                                  .ns = (int64_t)(values.seconds * 1e9),
                                  .wait = !values.no_wait};
    if (is_folder_of_runs(run)) {
        if (col_capture_job(run, &capture, &err))
            return cli_fail(&err);
        say_capture(run, &capture, &values);
        return 0;
    }
    if (col_find_run(run, false, &found, &err))
        return cli_fail(&err);
    if ((code = check_live(&found)))
        return code;
    if (col_capture(found.run, &capture, &err))
        return cli_fail(&err);
    say_capture(found.run, &capture, &values);
    return 0;
}
