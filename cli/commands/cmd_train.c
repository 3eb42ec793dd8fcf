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
    .help = "run the reference training engine under tacho and print the report",
    .usage = "RECIPE [OPTION OF THE RECIPE]...",
    .about =
        "Passes all arguments to the program train: the same as 'tacho run --report -- train "
        "RECIPE ...'.\n"
        "'tacho train --help' lists the options that most people need, 'tacho train --help all' "
        "all of them;\n"
        "for recording options, use 'tacho run'.",
    .examples = "  tacho train gpt2-tiny --steps 200\n"
                "  tacho run -o a.tacho -- train gpt2-tiny --steps 200",
    .most = -1,
};

/* Lets train check its options before anything is recorded. 0, or the exit code with which it
 * refused. */
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
        if (!strncmp(argv[i], "--help", 6) || !strcmp(argv[i], "-h") ||
            !strcmp(argv[i], "--version"))
            return true;
    return false;
}

/* Copies a list of arguments that ends with NULL. */
static char **append(char **to, char *const *arguments)
{
    while (*arguments)
        *to++ = *arguments++;
    *to = NULL;
    return to;
}

/* Becomes the program train. Returns only if that fails. */
static int become(char *const *args)
{
    fflush(stdout);
    execv(args[0], args);
    return 126;
}

/* Help of train itself, a check of its options, or `tacho run` with it as the command. `args` has
 * room for all of them. */
static int train(char **args, int argc, char **argv, char *path)
{
    static char run[] = "run", report[] = "--report", end[] = "--", help[] = "--help",
                check_only[] = "--check";
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        printf("tacho train: %s\n", cli_train_spec.help);
    if (argc < 2) {
        append(args, (char *[]){path, help, NULL});
        return become(args);
    }
    if (asks_for_help(argc, argv)) { /* nothing to record */
        append(append(args, (char *[]){path, NULL}), argv + 1);
        return become(args);
    }
    append(append(args, (char *[]){path, check_only, NULL}), argv + 1);
    int refused = check(args);
    if (refused)
        return refused;
    char **last = append(append(args, (char *[]){run, report, end, path, NULL}), argv + 1);
    return cli_run((int)(last - args), args);
}

int cli_train(int argc, char **argv)
{
    char path[PATH_MAX];
    if (cli_train_need(path))
        return 125;
    char **args = calloc((size_t)argc + 8, sizeof *args);
    int code = args ? train(args, argc, argv, path) : 125;
    free(args);
    return code;
}
