/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints manual pages as source for scdoc, from which `make man` builds them. Names, options and
 * examples come from the tables of the commands; the sections that are the same for all are here.
 */
#include "cli/base/man.h"

#include <string.h>

/* Escapes what scdoc would take for markup. */
static void plain(FILE *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] && strchr("\\_*`[]|#;<>~", text[i]))
            fputc('\\', out);
        fputc(text[i], out);
    }
}

static void words(FILE *out, const char *text)
{
    plain(out, text, strlen(text));
}

/* Prints lines of text for scdoc, which fills paragraphs itself. Indented lines become literal
 * blocks; a line that begins like a list is escaped. */
static void sentences(FILE *out, const char *text)
{
    bool literal = false;
    while (*text) {
        size_t length = strcspn(text, "\n");
        bool indented = *text == ' ';
        if (indented != literal)
            fputs(literal ? "```\n\n" : "\n```\n", out);
        literal = indented;
        if (literal) {
            fwrite(text, 1, length, out);
        } else {
            if (*text == '-' || *text == '.')
                fputc('\\', out);
            plain(out, text, length);
        }
        fputc('\n', out);
        text += length + (text[length] == '\n');
    }
    if (literal)
        fputs("```\n", out);
}

/* Prints the options of a command, a paragraph for each. */
static void options(FILE *out, const struct cli_option *option)
{
    fputs("\n# OPTIONS\n", out);
    for (; option && option->name; option++) {
        fputc('\n', out);
        if (option->letter)
            fprintf(out, "*-%c*, ", option->letter);
        fprintf(out, "*--%s*", option->name);
        if (option->argument) {
            fputs(option->kind == CLI_MAYBE ? "\\[=_" : "=_", out);
            words(out, option->argument);
            fputs(option->kind == CLI_MAYBE ? "_\\]" : "_", out);
        }
        fputs("\n\t", out);
        words(out, option->help);
        fputc('\n', out);
    }
    fputs("\n*-h*, *--help*\n\tPrint the options and examples.\n", out);
}

/* Prints the examples as a literal block, without their indentation. */
static void examples(FILE *out, const char *text)
{
    fputs("\n# EXAMPLES\n\n```\n", out);
    while (*text) {
        size_t length = strcspn(text, "\n");
        fprintf(out, "%.*s\n", (int)length, text + (strncmp(text, "  ", 2) ? 0 : 2));
        text += length + (text[length] == '\n');
    }
    fputs("```\n", out);
}

static const char ends[] = "\n# EXIT STATUS\n\n"
                           "0\n\tok\n1\n\ta threshold was exceeded (such as *tacho-diff*(1) "
                           "*--fail-above*)\n2\n\twrong usage\n3\n\tbad input\n"
                           "4\n\tnot supported or not permitted here\n5\n\tinternal error\n"
                           "6\n\tundecided: too little data for the threshold\n";
static const char ends_as_env[] =
    "\n# EXIT STATUS\n\n"
    "That of the command, as in env(1): 125 if tacho failed before the start, 126 or 127 if the "
    "command could not be run,\n"
    "128+N if signal N ended it, else its own.\n";
static const char environment[] =
    "\n# ENVIRONMENT\n\n"
    "*NO_COLOR*\n\tAny non-empty value: no colour.\n\n"
    "*CLICOLOR_FORCE*\n\tAny non-empty value except 0: also colour in files and pipes.\n\n"
    "*TMPDIR*\n\tThe folder of temporary files (/tmp).\n\n"
    "*XDG_CACHE_HOME*, *XDG_CONFIG_HOME*\n\tWhere imports and calibrations are kept, and the "
    "options of *tacho-top*(1) (~/.cache, "
    "~/.config).\n";
static const char environment_of_run[] =
    "\n*PYTHONPERFSUPPORT*, *ONEDNN_JIT_PROFILE*\n\tSet for COMMAND by *--stacks* of "
    "*tacho-run*(1) unless they are set: names of "
    "functions that are generated at run time.\n\n"
    "*PYTHONPATH*, *LD_PRELOAD*, *NVTX_INJECTION64_PATH*, *CUDA_INJECTION64_PATH*\n\tSet "
    "for COMMAND: the libraries that record inside it. Earlier "
    "values of the first two are appended.\n";
static const char files[] =
    "\n# FILES\n\n"
    "_NAME_.tacho\n\tA recorded run: an SQLite database.\n\n"
    "_NAME_.tacho.live\n\tThe folder of a run that is being recorded, or "
    "whose recorder was killed: *tacho-recover*(1).\n\n"
    "~/.cache/tacho\n\tImports of other tools' traces, calibrations. "
    "It can be deleted: tacho creates them again.\n\n"
    "~/.config/tacho/top.conf\n\tSettings changed by keys in *tacho-top*(1).\n";

/* Is its exit code that of the command it runs? */
static bool ends_as_its_command(const struct cli_command *command)
{
    return !strcmp(command->name, "run") || !strcmp(command->name, "train");
}

/* Lists the pages of all commands but `page`; NULL is the page of tacho itself. */
static void see_also(FILE *out, const struct cli_command *commands, const struct cli_command *page)
{
    const char *join = "";
    fputs("\n# SEE ALSO\n\n", out);
    if (page)
        fputs("*tacho*(1), ", out);
    CLI_EACH_COMMAND(command, commands)
        if (command != page) {
            fprintf(out, "%s*tacho-%s*(1)", join, command->name);
            join = ", ";
        }
    fputc('\n', out);
}

/* Prints tacho(1), the page that says what tacho is and lists its commands. */
static void main_page(FILE *out, const struct cli_command *commands)
{
    fputs(
        "tacho(1) \"tacho " TACHO_VERSION
        "\"\n\n# NAME\n\ntacho - where does each training step's time go?\n\n"
        "# SYNOPSIS\n\n*tacho* _COMMAND_ \\[OPTION\\]... \\[ARGUMENT\\]...\n\n# DESCRIPTION\n\n"
        "tacho records training runs of unchanged programs, or reads traces that other tools "
        "recorded. It shows what\n"
        "limits the speed, what to change, and the expected gain.\n\n"
        "A RUN is a .tacho file, the .tacho.live folder of an unfinished run, *latest* (the "
        "newest in this folder), or\n"
        "a trace of another tool (PyTorch, JAX, Nsight Systems, rocprofv3, Ascend), or a folder of "
        "per-rank traces.\n\n"
        "Results go to standard output, messages to standard error.\n\n# COMMANDS\n",
        out);
    CLI_EACH_COMMAND(command, commands) {
        fprintf(out, "\n*tacho-%s*(1)\n\t", command->name);
        words(out, command->spec->help);
        fputc('\n', out);
    }
    fputs(ends, out);
    fputs("\n*run* and *train* exit with the status of their command.\n", out);
    fputs(files, out);
    fputs(environment, out);
    fputs(environment_of_run, out);
    see_also(out, commands, NULL);
}

void cli_man_print(FILE *out, const struct cli_command *commands, const struct cli_command *command)
{
    if (!command) {
        main_page(out, commands);
        return;
    }
    fprintf(out, "tacho-%s(1) \"tacho " TACHO_VERSION "\"\n\n# NAME\n\ntacho-%s - ", command->name,
            command->name);
    words(out, command->spec->help);
    fprintf(out, "\n\n# SYNOPSIS\n\n*tacho %s* ", command->name);
    words(out, command->spec->usage);
    fputs("\n\n# DESCRIPTION\n\n", out);
    sentences(out, command->spec->about ? command->spec->about : command->spec->help);
    options(out, command->spec->options);
    if (command->spec->examples)
        examples(out, command->spec->examples);
    fputs(ends_as_its_command(command) ? ends_as_env : ends, out);
    fputs(files, out);
    fputs(environment, out);
    if (ends_as_its_command(command))
        fputs(environment_of_run, out);
    see_also(out, commands, command);
}
