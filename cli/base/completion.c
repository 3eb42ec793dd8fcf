/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints completion scripts for bash, zsh and fish, made from the tables of commands and options.
 * Words of options that a table cannot list (views of the dashboard, edits of what-if) come from
 * the rooms that know them; those of the program train come from train itself, at completion.
 */
#include <string.h>

#include "analyzers/replay/what_if.h"
#include "cli/base/man.h"
#include "tui/tui.h"

/* Are its words only the beginning of a value (NAME=VALUE)? */
static bool is_edit(const struct cli_option *option)
{
    return !strcmp(option->name, "what-if");
}

/* The words of an option that another room knows; NULL: none does. */
static const char *const *known_words(const struct cli_option *option)
{
    if (!strcmp(option->name, "view"))
        return tui_view_names();
    return is_edit(option) ? an_edit_keys() : NULL;
}

/* A shell command that lists recipes, commands and options of the program train. */
static const char train_words[] = "tacho train --help all 2>/dev/null | sed -n '/^recipes/,$s/^  "
                                  "\\(--[a-z0-9-]*\\|[a-z][A-Za-z0-9-]*\\)[ ].*/\\1/p'";

static bool is_train(const struct cli_command *command)
{
    return !strcmp(command->name, "train");
}

/* What an option's value is completed with. */
enum value { VALUE_NONE, VALUE_WORDS, VALUE_FILE, VALUE_FOLDER, VALUE_OTHER };

/* Says what the value of an option is completed with, by its kind and by the word that --help
 * shows. */
static enum value value_of(const struct cli_option *option)
{
    if (option->kind == CLI_FLAG || option->kind == CLI_FLAG_OFF)
        return VALUE_NONE;
    if (option->kind == CLI_CHOICE || option->kind == CLI_MAYBE || known_words(option))
        return VALUE_WORDS;
    if (!option->argument)
        return VALUE_OTHER;
    if (strstr(option->argument, "FILE") || !strcmp(option->argument, "RUN"))
        return VALUE_FILE;
    return strstr(option->argument, "DIR") ? VALUE_FOLDER : VALUE_OTHER;
}

/* Is the rest of its command line another command (tacho run)? */
static bool runs_a_command(const struct cli_command *command)
{
    return command->spec->stop_at_first && command->spec->most < 0;
}

/* Prints the words that an option takes, with blanks between. */
static void choices(FILE *out, const struct cli_option *option)
{
    const char *list = option->argument;
    const char *const *word = known_words(option);
    const char *end = is_edit(option) ? "=" : "";
    for (size_t i = 0; word && word[i]; i++)
        fprintf(out, "%s%s%s", i ? " " : "", word[i], end);
    if (word)
        return;
    for (; *list; list++)
        fputc(*list == '|' ? ' ' : *list, out);
}

/* Prints text in single quotes, as all three shells read them, with the characters of `also`
 * escaped. */
static void quoted(FILE *out, const char *text, const char *also)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (*also && strchr(also, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

static void command_names(FILE *out, const struct cli_command *commands)
{
    for (; commands->name; commands++)
        fprintf(out, "%s ", commands->name);
}

/* ---- bash -------------------------------------------------------------------------------------------------------------------- */

/* Prints a case for each option of a command that takes a value: what completes the value. */
/* What bash offers for the value of an option: words, files or folders. */
static void bash_value_of(FILE *out, const struct cli_option *option, enum value value)
{
    fputs(is_edit(option) ? ") compopt -o nospace +o filenames 2>/dev/null; _tacho_add "
                          : ") _tacho_add ",
          out);
    if (value == VALUE_WORDS) {
        fputs("-W '", out);
        choices(out, option);
        fputs("'", out);
    } else {
        fputs(value == VALUE_FILE ? "-f" : "-d", out);
    }
    fputs("; return ;;\n", out);
}

static void bash_value(FILE *out, const struct cli_command *command,
                       const struct cli_option *option)
{
    enum value value = value_of(option);
    fprintf(out, "    %s:--%s", command->name, option->name);
    if (option->letter)
        fprintf(out, "|%s:-%c", command->name, option->letter);
    if (value == VALUE_OTHER)
        fputs(") return ;;\n", out);
    else
        bash_value_of(out, option, value);
}

static void bash_values(FILE *out, const struct cli_command *command)
{
    CLI_EACH_OPTION(option, command->spec) {
        if (value_of(option) != VALUE_NONE)
            bash_value(out, command, option);
    }
}

/* Prints a case for one command: its options, and what its other words are completed with. */
static void bash_command(FILE *out, const struct cli_command *command,
                         const struct cli_command *commands)
{
    if (is_train(command)) {
        fprintf(out,
                "    train) local hidden=-*; [[ $cur == -* ]] && hidden=; if [[ ! $hidden || "
                "$COMP_CWORD -eq 2 ]]; then "
                "_tacho_add -X \"$hidden\" -W \"$(%s) --help\"; else _tacho_add -f; fi ;;\n",
                train_words);
        return;
    }
    fprintf(out, "    %s) case $cur in -*) _tacho_add -W '", command->name);
    CLI_EACH_OPTION(option, command->spec)
        fprintf(out, "--%s ", option->name);
    fprintf(out, "--help%s' ;; ", runs_a_command(command) ? " --" : "");
    if (!strcmp(command->name, "help")) {
        fputs("*) _tacho_add -W '", out);
        command_names(out, commands);
        fputs("' ;; ", out);
    } else if (runs_a_command(command)) {
        fputs("*) _tacho_add -c ;; ", out);
    } else if (command->spec->most) {
        fputs("*) _tacho_add -W latest; _tacho_add -f ;; ", out);
    }
    fputs("esac ;;\n", out);
}

/* Prints the script of bash: one function with a case for each command and option. */
static void bash(FILE *out, const struct cli_command *commands)
{
    fputs("# completion of tacho for bash, made from its table of options\n"
          "# a line each: names may have blanks; what begins with ~ readline completes itself\n"
          "_tacho_add()\n{\n"
          "  case $1:$cur in -[fd]:~*) compopt -o default 2>/dev/null; return ;; esac\n"
          "  local more\n"
          "  mapfile -t more < <(compgen \"$@\" -- \"$cur\")\n"
          "  COMPREPLY+=(\"${more[@]}\")\n}\n"
          "_tacho()\n{\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} "
          "command=${COMP_WORDS[1]} i\n"
          "  COMPREPLY=()\n"
          "  # bash takes = for a word of its own\n"
          "  if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then "
          "prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
          "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    _tacho_add -W '",
          out);
    command_names(out, commands);
    fputs(
        "--help --version'\n    return\n  fi\n"
        "  for ((i = 2; i < COMP_CWORD; i++)); do\n"
        "    if [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
        "      if [ $((i + 1)) -eq \"$COMP_CWORD\" ]; then _tacho_add -c; else _tacho_add -f; fi\n"
        "      return\n    fi\n  done\n"
        "  case $command:$prev in\n",
        out);
    CLI_EACH_COMMAND(command, commands)
        bash_values(out, command);
    fputs("  esac\n  case $command in\n", out);
    CLI_EACH_COMMAND(command, commands)
        bash_command(out, command, commands);
    fputs("  esac\n}\ncomplete -o filenames -F _tacho tacho\n", out);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------------------- */

static void zsh_value(FILE *out, const struct cli_option *option, enum value value)
{
    if (value == VALUE_NONE)
        return;
    fprintf(out, "':%s:", option->kind == CLI_MAYBE ? ":value" : "value");
    if (value == VALUE_WORDS) {
        fputs(is_edit(option) ? "{compadd -S \"\" -- " : "(", out);
        choices(out, option);
        fputs(is_edit(option) ? "}" : ")", out);
    } else if (value == VALUE_FILE || value == VALUE_FOLDER) {
        fputs(value == VALUE_FILE ? "_files" : "_files -/", out);
    }
    fputs("'", out);
}

static void zsh_help(FILE *out, const char *help)
{
    char text[512];
    snprintf(text, sizeof text, "[%s]", help);
    for (char *letter = text + 1; *letter && letter[1]; letter++) /* brackets would end the text */
        if (*letter == '[' || *letter == ']')
            *letter = *letter == '[' ? '(' : ')';
    quoted(out, text, "");
}

/* Prints one argument of _arguments: the option, its help and what completes its value. */
static void zsh_option(FILE *out, const struct cli_option *option)
{
    enum value value = value_of(option);
    const char *equals = option->kind == CLI_MAYBE ? "=-" : "=", *plus = "+";
    if (value == VALUE_NONE)
        equals = plus = "";
    fputs(" \\\n        ", out);
    if (option->letter)
        fprintf(out, "'(-%c --%s)'{-%c%s,--%s%s}", option->letter, option->name, option->letter,
                plus, option->name, equals);
    else
        fprintf(out, "--%s%s", option->name, equals);
    zsh_help(out, option->help);
    zsh_value(out, option, value);
}

/* Prints "name:help" for _describe, which takes a colon for the end of the name. */
static void zsh_description(FILE *out, const struct cli_command *command)
{
    char text[256];
    snprintf(text, sizeof text, "%s:%s", command->name, command->spec->help);
    char *colon = strchr(text, ':') + 1;
    for (; (colon = strchr(colon, ':')); colon++)
        *colon = ',';
    fputs("    ", out);
    quoted(out, text, "");
    fputc('\n', out);
}

/* Prints a case for one command: its options, and what its other words are completed with. */
static void zsh_command(FILE *out, const struct cli_command *command)
{
    if (is_train(command)) {
        fprintf(out,
                "    train)\n      local -a words_of_train\n      "
                "words_of_train=(${(f)\"$(%s)\"})\n"
                "      if (( CURRENT == 2 )) || [[ $PREFIX == -* ]]; then compadd -a "
                "words_of_train; else _files; fi\n"
                "      ;;\n",
                train_words);
        return;
    }
    fprintf(out, "    %s)\n      _arguments -s -S", command->name);
    CLI_EACH_OPTION(option, command->spec)
        zsh_option(out, option);
    fputs(" \\\n        '(- *)'{-h,--help}'[print options and examples]'", out);
    if (!strcmp(command->name, "help"))
        fputs(" \\\n        '1:command:{_describe command commands}'", out);
    else if (runs_a_command(command))
        fputs(" \\\n        '(-)1:command:_command_names -e' \\\n        '*:argument:_files'", out);
    else if (command->spec->most)
        fputs(" \\\n        '*:run:{_alternative \"runs:run:(latest)\" \"files:file:_files\"}'",
              out);
    fputs("\n      ;;\n", out);
}

/* Prints the script of zsh, on top of _arguments and _describe. */
static void zsh(FILE *out, const struct cli_command *commands)
{
    fputs("#compdef tacho\n# completion of tacho for zsh, made from its table of options\n_tacho() "
          "{\n"
          "  local -a commands\n  commands=(\n",
          out);
    CLI_EACH_COMMAND(command, commands)
        zsh_description(out, command);
    fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
          "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n",
          out);
    CLI_EACH_COMMAND(command, commands)
        zsh_command(out, command);
    fputs("  esac\n}\n_tacho \"$@\"\n", out);
}

/* ---- fish -------------------------------------------------------------------------------------------------------------------- */

/* Prints the line of one option: its letter, what completes its value, its help. */
static void fish_option(FILE *out, const struct cli_command *command,
                        const struct cli_option *option)
{
    static const char *const flags[] = {[VALUE_NONE] = "",
                                        [VALUE_FILE] = " -r -F",
                                        [VALUE_FOLDER] = " -x -a '(__fish_complete_directories)'",
                                        [VALUE_OTHER] = " -x"};
    enum value value = value_of(option);
    fprintf(out, "complete -c tacho -n '__fish_seen_subcommand_from %s' -l %s", command->name,
            option->name);
    if (option->letter)
        fprintf(out, " -s %c", option->letter);
    if (value == VALUE_WORDS) {
        fputs(" -x -a '", out);
        choices(out, option);
        fputc('\'', out);
    } else {
        fputs(flags[value], out);
    }
    fputs(" -d ", out);
    quoted(out, option->help, "\\");
    fputc('\n', out);
}

/* Prints what the words of a command that are not options are completed with. For `run` that is
 * another command line; fish has to know which options before it take a value. */
static void fish_wrapper(FILE *out, const struct cli_command *command)
{
    fputs("-a '(__fish_complete_subcommand --fcs-skip=2", out);
    CLI_EACH_OPTION(option, command->spec) {
        if (value_of(option) != VALUE_NONE)
            fprintf(out, " --%s", option->name);
        if (value_of(option) != VALUE_NONE && option->letter)
            fprintf(out, " -%c", option->letter);
    }
}

static void fish_words(FILE *out, const struct cli_command *command,
                       const struct cli_command *commands)
{
    const char *end = NULL;
    char text[sizeof train_words + 2];
    if (!is_train(command) && !command->spec->most)
        return;
    fprintf(out, "complete -c tacho -n '__fish_seen_subcommand_from %s' ", command->name);
    if (is_train(command)) {
        fputs("-F -a ", out);
        snprintf(text, sizeof text, "(%s)", train_words);
        quoted(out, text, "\\");
    } else if (!strcmp(command->name, "help")) {
        fputs("-a '", out);
        command_names(out, commands);
        end = "'";
    } else if (runs_a_command(command)) {
        fish_wrapper(out, command);
        end = ")'";
    } else {
        end = "-F -a latest";
    }
    fprintf(out, "%s\n", end ? end : "");
}

/* Prints the script of fish: one line for each option of each command. */
static void fish(FILE *out, const struct cli_command *commands)
{
    fputs("# completion of tacho for fish, made from its table of options\ncomplete -c tacho -f\n",
          out);
    CLI_EACH_COMMAND(command, commands) {
        fprintf(out, "complete -c tacho -n __fish_use_subcommand -a %s -d ", command->name);
        quoted(out, command->spec->help, "\\");
        fputc('\n', out);
    }
    CLI_EACH_COMMAND(command, commands) {
        CLI_EACH_OPTION(option, command->spec)
            fish_option(out, command, option);
        fish_words(out, command, commands);
    }
}

void cli_completion_print(FILE *out, const char *shell, const struct cli_command *commands)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out, const struct cli_command *commands);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, shell))
            shells[i].print(out, commands);
}
