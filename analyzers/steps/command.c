/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that started the run: which framework it uses, which options it was given, and how
 * to type it again with one option changed.
 */
#include "analyzers/steps/command.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define COMMAND_MOST 600 /* characters: a longer command is not readable as one line */
#define PREFETCH     4   /* batches made ahead by `train` where the command does not say */
#define TEAM_MOST    4096
#define FILE_MOST    160 /* characters of a file name that is quoted */

enum an_framework an_command_framework(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    for (size_t k = 0; k < context->lane_count; k++) {
        if (context->lane[k].track == AN_NONE)
            continue;
        const struct an_track *track = &trace->track[context->lane[k].track];
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            const char *domain = an_trace_name(trace, trace->slice.category[i]);
            if (!strcmp(domain, "libtrain"))
                return AN_FRAMEWORK_LIBTRAIN;
            if (!strcmp(domain, "torch") ||
                !strncmp(an_trace_name(trace, trace->slice.name[i]), "aten::", 6))
                return AN_FRAMEWORK_TORCH;
        }
    }
    return context->result->loader.source && strcmp(context->result->loader.source, "tacho.range")
               ? AN_FRAMEWORK_TORCH
               : AN_FRAMEWORK_OTHER;
}

/* Quotes one word of a command for a shell. */
static const char *shell_word(struct an_context *context, const char *word)
{
    size_t length = strlen(word);
    bool plain =
        length &&
        strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") ==
            length;
    if (plain)
        return an_arena_text(context->arena, word);
    char *out = an_arena_zero(context->arena, 4 * length + 3, 1), *at = out;
    if (!out)
        return "";
    *at++ = '\'';
    for (; *word; word++) {
        if (*word == '\'') {
            memcpy(at, "'\\''", 4);
            at += 4;
        } else {
            *at++ = *word;
        }
    }
    *at = '\'';
    return out;
}

bool an_command_has_option(const struct an_context *context, const char *option)
{
    const char *command = an_trace_key(context->trace, "command");
    json_t *words = command ? json_loads(command, 0, NULL) : NULL;
    bool given = false;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *text = json_string_value(json_array_get(words, i));
        given = given || (text && !strcmp(text, option));
    }
    json_decref(words);
    return given;
}

/* The value of an option of the command, whose next word is `next` (NULL: there is none):
 * --option VALUE or --option=VALUE. NULL: the word is another one. */
static const char *option_value(const char *word, const char *next, const char *option)
{
    size_t length = strlen(option);
    if (!word || strncmp(word, option, length) != 0)
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    return word[length] ? NULL : next;
}

double an_command_number(const struct an_context *context, const char *option, double otherwise)
{
    const char *command = an_trace_key(context->trace, "command");
    json_t *words = command ? json_loads(command, 0, NULL) : NULL;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *value = option_value(json_string_value(json_array_get(words, i)),
                                         json_string_value(json_array_get(words, i + 1)), option);
        otherwise = value ? strtod(value, NULL) : otherwise;
    }
    json_decref(words);
    return otherwise;
}

long an_command_prefetch(const struct an_context *context)
{
    double prefetch = an_command_number(context, "--prefetch", PREFETCH);
    return prefetch >= 1 && prefetch <= INT32_MAX ? (long)prefetch : PREFETCH;
}

const char *an_command_line(struct an_context *context, const char *option)
{
    const char *command = an_trace_key(context->trace, "command"), *line = "";
    size_t length = strcspn(option, " "), i;
    bool valued = option[length] == ' ';
    json_t *words = command ? json_loads(command, 0, NULL) : NULL, *word;
    if (!json_is_array(words)) {
        json_decref(words);
        return command && *command != '[' ? an_arena_text(context->arena, command) : NULL;
    }
    for (i = 0; i < json_array_size(words); i++) {
        word = json_array_get(words, i);
        const char *text = json_is_string(word) ? json_string_value(word) : "";
        if (*option == '-' && strlen(text) == length && !strncmp(text, option, length)) {
            i += valued;
            continue;
        }
        line = an_arena_format(context->arena, "%s%s%s", line, *line ? " " : "",
                               shell_word(context, text));
    }
    json_decref(words);
    return line;
}

/* Returns what starts tacho on every rank where the command is that of one rank of a job, else
 * "". */
static const char *launcher_words(struct an_context *context)
{
    const char *name = an_trace_key(context->trace, "job.launcher"),
               *ranks = an_trace_key(context->trace, "job.ranks");
    if (!name || !ranks || !*ranks || strspn(ranks, "0123456789") != strlen(ranks))
        return "";
    const char *how = "mpirun -np";
    if (!strcmp(name, "torchrun"))
        how = "torchrun --no-python --nproc-per-node";
    else if (!strcmp(name, "slurm"))
        how = "srun -n";
    return an_arena_format(context->arena, "%s %s ", how, ranks);
}

const char *an_command_variable(struct an_context *context, const char *name)
{
    const char *text = an_trace_key(context->trace, "environment");
    json_t *set = text ? json_loads(text, 0, NULL) : NULL;
    const char *value = json_string_value(json_object_get(set, name));
    value = value ? an_arena_text(context->arena, value) : NULL;
    json_decref(set);
    return value;
}

long an_command_team(struct an_context *context)
{
    const char *count = an_command_variable(context, "OMP_NUM_THREADS");
    long threads = count ? strtol(count, NULL, 10) : 0;
    return threads > 0 && threads <= TEAM_MOST ? threads : 0;
}

/* Is it a variable that the launcher or the machine sets, and not the one who types the command? */
static bool is_set_by_others(const char *name)
{
    static const char *const prefixes[] = {
        "LANG",      "LC_",    "RANK",        "WORLD_SIZE", "LOCAL_", "GROUP_RANK",
        "NODE_RANK", "SLURM_", "MASTER_PORT", "OMPI_",      "PMI",    "MPI_LOCALRANKID",
        "TACHO_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* "NAME=value " for each variable that the run had and that is to be typed again; `assignment` is
 * another one, or replaces one of them ("": none). */
static const char *variable_words(struct an_context *context, const char *assignment)
{
    const char *text = an_trace_key(context->trace, "environment"), *words = "", *name;
    json_t *set = text ? json_loads(text, 0, NULL) : NULL, *value;
    size_t length = strcspn(assignment, "=");
    json_object_foreach(set, name, value)
    {
        const char *own = json_string_value(value);
        bool replaced = strlen(name) == length && !strncmp(name, assignment, length);
        if (own && !replaced && !is_set_by_others(name) && !strstr(own, STORE_REDACTED))
            words =
                an_arena_format(context->arena, "%s%s=%s ", words, name, shell_word(context, own));
    }
    json_decref(set);
    return *assignment ? an_arena_format(context->arena, "%s%s ", words, assignment) : words;
}

/* Is it "VARIABLE=VALUE"? */
static bool is_assignment(const char *option)
{
    size_t length = strspn(option, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length && option[length] == '=' && !strchr(option, ' ');
}

const char *an_command_rerun(struct an_context *context, const char *option)
{
    bool without = !strncmp(option, "without --", 10); /* a flag that goes */
    const char *file =
        context->result->run.file && *context->result->run.file ? context->result->run.file : "RUN";
    const char *command = an_command_line(context, without ? option + 8 : option),
               *before =
                   an_arena_format(context->arena, "%s%s",
                                   variable_words(context, is_assignment(option) ? option : ""),
                                   launcher_words(context));
    /* Marks the command in the sentence. */
    const char *quote = command && strchr(command, '`') ? "" : "`";
    file = strlen(file) <= FILE_MOST ? shell_word(context, file) : file;
    if (command && strstr(command, STORE_REDACTED))
        return an_arena_format(
            context->arena,
            "record it again %s%s as AFTER, with arguments of your own where the "
            "stored command says " STORE_REDACTED "; `tacho diff %.200s AFTER`",
            without ? "" : "with ", option, file);
    if (!command || !*command || strlen(command) > COMMAND_MOST)
        return an_arena_format(context->arena,
                               "record it again %s%s as AFTER; `tacho diff %.200s AFTER`",
                               without ? "" : "with ", option, file);
    if (without || is_assignment(option))
        return an_arena_format(
            context->arena, "%s%stacho run -o after.tacho -- %s; tacho diff %.200s after.tacho%s",
            quote, before, command, file, quote);
    if (*option ==
        '-') { /* a name of its own for each option: several are tried one after the other */
        int length = (int)strcspn(option + 2, " ");
        return an_arena_format(
            context->arena,
            "%s%stacho run -o after-%.*s.tacho -- %s %s; tacho diff %.200s after-%.*s.tacho%s",
            quote, before, length, option + 2, command, option, file, length, option + 2, quote);
    }
    return an_arena_format(
        context->arena,
        "with %s: %s%stacho run -o after.tacho -- %s; tacho diff %.200s after.tacho%s", option,
        quote, before, command, file, quote);
}
