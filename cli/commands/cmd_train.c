/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho train: the reference training engine, recorded. Its recipes and options are those of the
 * program train, which checks them itself before anything is recorded.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/train_program.h"
#include "cli/commands/commands.h"

const struct cli_spec cli_train_spec = {
    .help = "run the reference training engine under tacho, then print the report",
    .usage = "RECIPE [OPTION OF THE RECIPE]...",
    .about = "Everything behind 'train' goes to the program train: this is 'tacho run --report -- "
             "train RECIPE ...'.\n"
             "'tacho train --help' shows its recipes and options; for options of the recording use "
             "'tacho run'.",
    .examples = "  tacho train gpt2-tiny --steps 200\n"
                "  tacho run -o a.tacho -- train gpt2-tiny --steps 200",
    .most = -1,
};

/* What train itself refuses is no run: it is asked before anything is recorded. 0, or the exit code
 * with which it refused. */
static int check(char *const *args)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execv(args[0], args);
        _exit(0); /* the recording will say why it cannot be started */
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Is help or the version asked for, anywhere among the options of the recipe? */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h") || !strcmp(argv[i], "--version"))
            return true;
    return false;
}

int cli_train(int argc, char **argv)
{
    char path[PATH_MAX];
    if (cli_train_find(path)) {
        cli_error(TACHO_ENOTFOUND, "'make' builds it beside tacho",
                  "train: the program of the reference engine was not found");
        return 125;
    }
    char **args = calloc((size_t)argc + 8, sizeof *args);
    if (!args)
        return 125;
    int count = 0, help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    if (argc < 2 || help) { /* nothing to record: train itself says what it takes */
        cli_spec_print(stdout, "train", &cli_train_spec);
        fputs("\nthe program train:\n", stdout);
        fflush(stdout);
        args[count++] = path;
        args[count++] = (char[]){"--help"};
        execv(path, args);
        free(args);
        return 126;
    }
    static char check_only[] = "--check";
    bool asks = asks_for_help(argc, argv);
    args[count++] = path;
    if (!asks)
        args[count++] = check_only;
    for (int i = 1; i < argc; i++)
        args[count++] = argv[i];
    if (asks) { /* help or the version: nothing to record */
        execv(path, args);
        free(args);
        return 126;
    }
    int refused = check(args);
    if (refused) {
        free(args);
        return refused;
    }
    count = 0;
    args[count++] = (char[]){"run"};
    args[count++] = (char[]){"--report"};
    args[count++] = (char[]){"--"};
    args[count++] = path;
    for (int i = 1; i < argc; i++)
        args[count++] = argv[i];
    args[count] = NULL;
    int code = cli_run(count, args);
    free(args);
    return code;
}
