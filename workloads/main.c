/* SPDX-License-Identifier: Apache-2.0
 *
 * train: runs a recipe of the reference engine. Needs nothing of tacho; any NVTX tool sees its
 * ranges. Exit codes: 0, 2 usage, 3 bad input, 4 not supported, 5 internal; a signal that
 * ended the run ends the program too.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/train/parallel_mpi.h"
#include "workloads/elastic.h"
#include "workloads/recipe.h"

/* One row a family of names. */
static const struct recipe *const recipes[] = {&recipe_gpt2, &recipe_llama, &recipe_mlp,
                                               &recipe_resnet};
#define RECIPES (sizeof recipes / sizeof *recipes)

/* What is no training has its own options. */
static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv, struct tacho_error *err);
} commands[] = {{"calibrate", "measures the peaks of this machine, as JSON", calibrate_command},
                {"bpe", "learns a tokenizer from text, or writes text as tokens", bpe_command}};
#define COMMANDS (sizeof commands / sizeof *commands)

static volatile sig_atomic_t stop_signal;

static void on_signal(int signal)
{
    stop_signal = signal;
}

/* The first signal ends the run after its step; a second one of the same kind ends it at once. The
 * handler has a stack of its own: matrix kernels of oneDNN 2.6 use the stack pointer's register for
 * something else in the meantime, and a handler that runs at such a moment on the thread's stack
 * writes over the heap (a storm of signals broke every run without this). */
static void catch_signals(void)
{
    static char stack[1 << 16];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    if (sigaltstack(&own, NULL) == 0)
        act.sa_flags |= SA_ONSTACK;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

/* OpenMP threads that wait spin by default and take the core from the threads of loader and
 * communication. The runtime reads these variables before main, so the program starts itself once
 * more. If that fails it only runs slower. */
static void wait_passively(char **argv)
{
    char self[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return;
    self[length] = '\0';
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("GOMP_SPINCOUNT", "2000", 1);
    execv(self, argv);
}

/* The names of the recipes, as many in a line as 80 columns hold. */
static void print_recipe_names(void)
{
    const char *name, *help;
    char defaults[80];
    size_t column = 0;
    for (size_t family = 0; family < RECIPES; family++)
        for (size_t i = 0; recipes[family]->name(i, &name, &help, defaults, sizeof defaults); i++) {
            if (column + strlen(name) > 76) {
                putchar('\n');
                column = 0;
            }
            column += (size_t)printf("%s%s", column ? " " : "  ", name);
        }
    putchar('\n');
}

/* What most people need, in less than 40 lines. */
static void print_brief_help(void)
{
    puts("usage: train RECIPE [OPTION]...\n\nrecipes");
    print_recipe_names();
    options_print_brief(stdout);
    puts("\nfor example\n  train gpt2-tiny --steps 200 --dtype bf16 --workers 2");
}

static void print_help(void)
{
    printf("usage: train RECIPE [OPTION]...\n"
           "Trains a model with the reference engine, on the CPU or a GPU.\n\nrecipes\n");
    const char *name, *help;
    char defaults[80];
    for (size_t family = 0; family < RECIPES; family++)
        for (size_t i = 0; recipes[family]->name(i, &name, &help, defaults, sizeof defaults); i++)
            printf("  %-24s%s\n  %-24s%s\n", name, help, "", defaults);
    printf("\ncommands (--help after one lists its options)\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-24s%s\n", commands[i].name, commands[i].help);
    options_print(stdout);
    printf(
        "\nOnly gpt2-tiny, llama-tiny and moe-tiny have one token per byte value; the others keep "
        "vocabularies of 50257 and 32000, so that their shapes are the real ones.\n"
        "Environment: OMP_NUM_THREADS (default: the cores this process may run on), "
        "OMP_WAIT_POLICY, GOMP_SPINCOUNT.\n");
}

/* The family that has a recipe of this name; NULL: none has. */
static const struct recipe *find_recipe(const char *wanted)
{
    const char *name, *help;
    char defaults[80];
    for (size_t family = 0; family < RECIPES; family++)
        for (size_t i = 0; recipes[family]->name(i, &name, &help, defaults, sizeof defaults); i++)
            if (strcmp(name, wanted) == 0)
                return recipes[family];
    return NULL;
}

/* The error of a recipe that is missing or not known; the hint lists the names there are. */
static int unknown_recipe(const char *recipe, struct tacho_error *err)
{
    const char *name, *help;
    char defaults[80], hint[sizeof err->hint] = "train --help all describes";
    for (size_t family = 0; family < RECIPES; family++)
        for (size_t i = 0; recipes[family]->name(i, &name, &help, defaults, sizeof defaults); i++)
            snprintf(hint + strlen(hint), sizeof hint - strlen(hint), " %s", name);
    if (!recipe)
        return tacho_fail(err, TACHO_EUSAGE, hint, "no recipe given");
    return tacho_fail(err, TACHO_EUSAGE, hint, "%s: no such recipe", *recipe ? recipe : "''");
}

static int fail(struct tacho_error *err)
{
    error_say(err);
    return tacho_error_exit(err->code);
}

int main(int argc, char **argv)
{
    struct options options;
    struct tacho_error err = {0};
    int first = argc > 2 && !strcmp(argv[1], "--check") ? 2 : 1;
    for (size_t i = 0; i < COMMANDS; i++)
        if (argc > first && !strcmp(argv[first], commands[i].name)) {
            if (first == 2) /* it looks at its options itself, before it does anything */
                return 0;
            wait_passively(argv); /* as a training run's threads do */
            return commands[i].run(argc - 1, argv + 1, &err) ? fail(&err) : 0;
        }
    if (options_parse(&options, argc, argv, &err))
        return fail(&err);
    if (options.help == OPTIONS_HELP_ALL)
        print_help();
    else if (options.help)
        print_brief_help();
    if (options.help)
        return 0;
    if (options.version) {
        printf("train %s\n", TACHO_VERSION);
        return 0;
    }
    const struct recipe *recipe = options.recipe ? find_recipe(options.recipe) : NULL;
    if (!recipe) {
        unknown_recipe(options.recipe, &err);
        return fail(&err);
    }
    if (options.check)
        return 0;
    if (options.elastic) {
        int status = 0;
        catch_signals();
        if (elastic_run(&options, argc, argv, &stop_signal, &status, &err))
            return fail(&err);
        return status;
    }
    if (options.workers > 0 || lt_mpi_launched())
        wait_passively(argv);
    catch_signals();
    int rc = recipe->run(options.recipe, &options, &stop_signal, &err);
    if (rc)
        return fail(&err);
    if (stop_signal) {
        fflush(stdout);
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return 0;
}
