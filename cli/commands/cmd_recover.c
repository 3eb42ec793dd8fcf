/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho recover: finishes the folder that a killed recorder left.
 */
#include <string.h>
#include <unistd.h>

#include "cli/base/merge_files.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "profiler/collector/job/live.h"

const struct cli_spec cli_recover_spec = {
    .help = "finish the file of a run whose recorder was killed",
    .usage = "RUN",
    .about = "Finishes the .tacho.live folder that a killed recorder left. The file then contains "
             "what the program recorded\n"
             "until it ended. Commands that read a run recover it by themselves; recover also "
             "prints what it found.",
    .examples = "  tacho recover train-20260101-120000.tacho.live",
    .least = 1,
    .most = 1,
    .words_missing = "the run to recover",
};

static void say(void *ctx, const char *text)
{
    (void)ctx;
    cli_say("%s", text);
}

int cli_recover(int argc, char **argv)
{
    struct tacho_error err = {0};
    struct col_found found;
    struct col_options settings;
    struct col_result result = {0};
    int first, code = cli_parse(&cli_recover_spec, argc, argv, NULL, &first);
    if (code >= 0)
        return code;
    if (col_find_run(argv[first], false, &found, &err))
        return cli_fail(&err);
    if (!cli_is_live_folder(found.run)) { /* a finished file, or one that is no run at all */
        store_reader *reader = NULL;
        if (store_open(found.path, &reader, &err))
            return cli_fail(&err);
        store_reader_close(reader);
        cli_say("%s: already finished, nothing to recover", found.run);
        /* what a recorder left that was killed after that */
        size_t length = strlen(found.run);
        snprintf(found.run + length, sizeof found.run - length, ".live");
        if (col_live_locked(found.run) || access(found.run, F_OK) != 0)
            return 0;
    }
    col_options_init(&settings);
    settings.message = say;
    code = col_recover(found.run, &settings, &result, &err);
    code = code ? cli_fail(&err) : cli_run_conclude(&result, false, NULL);
    col_result_clear(&result);
    return code;
}
