/* SPDX-License-Identifier: Apache-2.0
 *
 * Completions of shells, from the tables of commands and options.
 */
#include <string.h>

#include "analyzers/replay/what_if.h"
#include "cli/man.h"
#include "tui/tui.h"

/* Options whose words a room knows. */
static const char *const *known_words(const struct cli_option *option)
{
    return !strcmp(option->name, "view")      ? tui_view_names()
           : !strcmp(option->name, "what-if") ? an_edit_keys()
                                              : NULL;
}

/* Its words are beginnings: NAME=VALUE. */
static bool is_edit(const struct cli_option *option)
{
    return !strcmp(option->name, "what-if");
}

/* Recipes, commands and options of the program train: it lists them itself. */
static const char train_words[] = "tacho train --help 2>/dev/null | sed -n '/^recipes/,$s/^  "
                                  "\\(--[a-z0-9-]*\\|[a-z][A-Za-z0-9-]*\\)[ ].*/\\1/p'";

static bool is_train(const struct cli_command *command)
{
    return !strcmp(command->name, "train");
}

/* What an option's value is completed with. */
enum value { VALUE_NONE, VALUE_WORDS, VALUE_FILE, VALUE_FOLDER, VALUE_OTHER };

static enum value value_of(const struct cli_option *option)
{
    if (option->kind == CLI_FLAG || option->kind == CLI_FLAG_OFF)
        return VALUE_NONE;
    if (option->kind == CLI_CHOICE || option->kind == CLI_MAYBE || known_words(option))
        return VALUE_WORDS;
    return !option->argument                                                      ? VALUE_OTHER
           : strstr(option->argument, "FILE") || !strcmp(option->argument, "RUN") ? VALUE_FILE
           : strstr(option->argument, "DIR")                                      ? VALUE_FOLDER
                                                                                  : VALUE_OTHER;
}

static bool runs_a_command(const struct cli_command *command)
{
    return command->spec->stop_at_first && command->spec->most < 0;
}

/* The words with blanks between. */
static void choices(FILE *out, const struct cli_option *option)
{
    const char *list = option->argument;
    const char *const *word = known_words(option);
    for (size_t i = 0; word && word[i]; i++)
        fprintf(out, "%s%s%s", i ? " " : "", word[i], is_edit(option) ? "=" : "");
    if (word)
        return;
    for (; *list; list++)
        if (*list == '|')
            fputc(' ', out);
        else
            fputc(*list, out);
}

/* In single quotes, as all three shells read them; `also` is escaped too. */
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

/* ---- bash -------------------------------------------------------------------------------------------------------------------- */

static void bash_values(FILE *out, const struct cli_command *command)
{
    for (const struct cli_option *option = command->spec->options; option && option->name;
         option++) {
        enum value v = value_of(option);
        if (v == VALUE_NONE)
            continue;
        fprintf(out, "    %s:--%s", command->name, option->name);
        if (option->letter)
            fprintf(out, "|%s:-%c", command->name, option->letter);
        if (v == VALUE_OTHER) {
            fputs(") return ;;\n", out);
            continue;
        }
        fputs(is_edit(option) ? ") compopt -o nospace +o filenames 2>/dev/null; _tacho_add "
                              : ") _tacho_add ",
              out);
        if (v == VALUE_WORDS) {
            fputs("-W '", out);
            choices(out, option);
            fputs("'", out);
        } else {
            fputs(v == VALUE_FILE ? "-f" : "-d", out);
        }
        fputs("; return ;;\n", out);
    }
}

static void bash(FILE *out)
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
    for (const struct cli_command *c = cli_commands; c->name; c++)
        fprintf(out, "%s ", c->name);
    fputs(
        "--help --version'\n    return\n  fi\n"
        "  for ((i = 2; i < COMP_CWORD; i++)); do\n"
        "    if [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
        "      if [ $((i + 1)) -eq \"$COMP_CWORD\" ]; then _tacho_add -c; else _tacho_add -f; fi\n"
        "      return\n    fi\n  done\n"
        "  case $command:$prev in\n",
        out);
    for (const struct cli_command *c = cli_commands; c->name; c++)
        bash_values(out, c);
    fputs("  esac\n  case $command in\n", out);
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        if (is_train(c)) {
            fprintf(out,
                    "    train) local hidden=-*; [[ $cur == -* ]] && hidden=; if [[ ! $hidden || "
                    "$COMP_CWORD -eq 2 ]]; then "
                    "_tacho_add -X \"$hidden\" -W \"$(%s) --help\"; else _tacho_add -f; fi ;;\n",
                    train_words);
            continue;
        }
        fprintf(out, "    %s) case $cur in -*) _tacho_add -W '", c->name);
        for (const struct cli_option *option = c->spec->options; option && option->name; option++)
            fprintf(out, "--%s ", option->name);
        fprintf(out, "--help%s' ;; ", runs_a_command(c) ? " --" : "");
        if (!strcmp(c->name, "help")) {
            fputs("*) _tacho_add -W '", out);
            for (const struct cli_command *x = cli_commands; x->name; x++)
                fprintf(out, "%s ", x->name);
            fputs("' ;; ", out);
        } else if (runs_a_command(c)) {
            fputs("*) _tacho_add -c ;; ", out);
        } else if (c->spec->most) {
            fputs("*) _tacho_add -W latest; _tacho_add -f ;; ", out);
        }
        fputs("esac ;;\n", out);
    }
    fputs("  esac\n}\ncomplete -o filenames -F _tacho tacho\n", out);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------------------- */

static void zsh_option(FILE *out, const struct cli_option *option)
{
    enum value v = value_of(option);
    fputs(" \\\n        ", out);
    if (option->letter)
        fprintf(out, "'(-%c --%s)'{-%c%s,--%s%s}", option->letter, option->name, option->letter,
                v == VALUE_NONE ? "" : "+", option->name,
                v == VALUE_NONE             ? ""
                : option->kind == CLI_MAYBE ? "=-"
                                            : "=");
    else
        fprintf(out, "--%s%s", option->name,
                v == VALUE_NONE             ? ""
                : option->kind == CLI_MAYBE ? "=-"
                                            : "=");
    char text[512];
    snprintf(text, sizeof text, "[%s]", option->help);
    for (char *p = text + 1; *p && p[1]; p++) /* brackets would end the text */
        *p = *p == '[' ? '(' : *p == ']' ? ')' : *p;
    quoted(out, text, "");
    if (v == VALUE_NONE)
        return;
    fprintf(out, "':%s:", option->kind == CLI_MAYBE ? ":value" : "value");
    if (v == VALUE_WORDS) {
        fputs(is_edit(option) ? "{compadd -S \"\" -- " : "(", out);
        choices(out, option);
        fputs(is_edit(option) ? "}" : ")", out);
    } else if (v == VALUE_FILE || v == VALUE_FOLDER) {
        fputs(v == VALUE_FILE ? "_files" : "_files -/", out);
    }
    fputs("'", out);
}

static void zsh(FILE *out)
{
    fputs("#compdef tacho\n# completion of tacho for zsh, made from its table of options\n_tacho() "
          "{\n"
          "  local -a commands\n  commands=(\n",
          out);
    for (const struct cli_command *command = cli_commands; command->name; command++) {
        char text[256];
        snprintf(text, sizeof text, "%s:%s", command->name, command->help);
        char *colon = strchr(text, ':') + 1;
        for (; (colon = strchr(colon, ':')); colon++)
            *colon = ',';
        fputs("    ", out);
        quoted(out, text, "");
        fputc('\n', out);
    }
    fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
          "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n",
          out);
    for (const struct cli_command *command = cli_commands; command->name; command++) {
        if (is_train(command)) {
            fprintf(out,
                    "    train)\n      local -a words_of_train\n      "
                    "words_of_train=(${(f)\"$(%s)\"})\n"
                    "      if (( CURRENT == 2 )) || [[ $PREFIX == -* ]]; then compadd -a "
                    "words_of_train; else _files; fi\n"
                    "      ;;\n",
                    train_words);
            continue;
        }
        fprintf(out, "    %s)\n      _arguments -s -S", command->name);
        for (const struct cli_option *option = command->spec->options; option && option->name;
             option++)
            zsh_option(out, option);
        fputs(" \\\n        '(- *)'{-h,--help}'[options and examples in short]'", out);
        if (!strcmp(command->name, "help"))
            fputs(" \\\n        '1:command:{_describe command commands}'", out);
        else if (runs_a_command(command))
            fputs(" \\\n        '(-)1:command:_command_names -e' \\\n        '*:argument:_files'",
                  out);
        else if (command->spec->most)
            fputs(" \\\n        '*:run:{_alternative \"runs:run:(latest)\" \"files:file:_files\"}'",
                  out);
        fputs("\n      ;;\n", out);
    }
    fputs("  esac\n}\n_tacho \"$@\"\n", out);
}

/* ---- fish -------------------------------------------------------------------------------------------------------------------- */

static void fish(FILE *out)
{
    fputs("# completion of tacho for fish, made from its table of options\ncomplete -c tacho -f\n",
          out);
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        fprintf(out, "complete -c tacho -n __fish_use_subcommand -a %s -d ", c->name);
        quoted(out, c->help, "\\");
        fputc('\n', out);
    }
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        for (const struct cli_option *option = c->spec->options; option && option->name; option++) {
            enum value v = value_of(option);
            fprintf(out, "complete -c tacho -n '__fish_seen_subcommand_from %s' -l %s", c->name,
                    option->name);
            if (option->letter)
                fprintf(out, " -s %c", option->letter);
            if (v == VALUE_WORDS) {
                fputs(" -x -a '", out);
                choices(out, option);
                fputc('\'', out);
            } else if (v != VALUE_NONE) {
                fputs(v == VALUE_OTHER    ? " -x"
                      : v == VALUE_FOLDER ? " -x -a '(__fish_complete_directories)'"
                                          : " -r -F",
                      out);
            }
            fputs(" -d ", out);
            quoted(out, option->help, "\\");
            fputc('\n', out);
        }
        if (is_train(c)) {
            fputs("complete -c tacho -n '__fish_seen_subcommand_from train' -F -a ", out);
            char text[sizeof train_words + 2];
            snprintf(text, sizeof text, "(%s)", train_words);
            quoted(out, text, "\\");
            fputc('\n', out);
        } else if (!strcmp(c->name, "help")) {
            fputs("complete -c tacho -n '__fish_seen_subcommand_from help' -a '", out);
            for (const struct cli_command *x = cli_commands; x->name; x++)
                fprintf(out, "%s ", x->name);
            fputs("'\n", out);
        } else if (runs_a_command(c)) {
            fprintf(out,
                    "complete -c tacho -n '__fish_seen_subcommand_from %s' -a "
                    "'(__fish_complete_subcommand --fcs-skip=2",
                    c->name);
            for (const struct cli_option *option = c->spec->options; option && option->name;
                 option++) {
                if (value_of(option) != VALUE_NONE)
                    fprintf(out, " --%s", option->name);
                if (value_of(option) != VALUE_NONE && option->letter)
                    fprintf(out, " -%c", option->letter);
            }
            fputs(")'\n", out);
        } else if (c->spec->most) {
            fprintf(out, "complete -c tacho -n '__fish_seen_subcommand_from %s' -F -a latest\n",
                    c->name);
        }
    }
}

bool cli_completion_print(FILE *out, const char *shell)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, shell)) {
            shells[i].print(out);
            return true;
        }
    return false;
}
