/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that started the run: which framework it uses, which options it was given, and how
 * to type it again with one option changed.
 */
#include "analyzers/steps/command.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analyzers/steps/change.h"
#include "analyzers/steps/recorder.h"

#define COMMAND_MOST 600 /* characters: a longer command is not readable as one line */
#define PREFETCH     4   /* batches made ahead by `train` where the command does not say */
#define TEAM_MOST    4096
#define FILE_MOST    160          /* characters of a file name that is quoted */
#define AROUND       "framework " /* how the hook begins the name of a framework */

enum an_framework an_command_framework(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    enum an_recorder recorder = an_recorder_of(context);
    if (recorder == AN_RECORDER_JAX || recorder == AN_RECORDER_TPU)
        return AN_FRAMEWORK_JAX;
    for (size_t k = 0; k < context->lane_count; k++) {
        if (context->lane[k].track == AN_NONE)
            continue;
        const struct an_track *track = &trace->track[context->lane[k].track];
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            const char *domain = an_trace_name(trace, trace->slice.category[i]);
            if (!strcmp(domain, "libtrain"))
                return AN_FRAMEWORK_LIBTRAIN;
            if (!strcmp(domain, "jax"))
                return AN_FRAMEWORK_JAX;
            if (!strcmp(domain, "torch") ||
                !strncmp(an_trace_name(trace, trace->slice.name[i]), "aten::", 6))
                return AN_FRAMEWORK_TORCH;
        }
    }
    /* A loader that is only inferred from gaps ("gaps") may be that of any program. */
    const char *loader = context->result->loader.source;
    bool is_torch = loader && strcmp(loader, "tacho.range") != 0 && strcmp(loader, "gaps") != 0;
    return is_torch ? AN_FRAMEWORK_TORCH : AN_FRAMEWORK_OTHER;
}

static bool runs_python(const struct an_process *process)
{
    return !strncmp(process->program, "python", 6) || !strncmp(process->program, "pypy", 4);
}

bool an_command_is_python(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    if (an_trace_imported(trace))
        return false;
    for (size_t k = 0; k < context->lane_count; k++)
        if (context->lane[k].process != AN_NONE)
            return runs_python(&trace->process[context->lane[k].process]);
    for (size_t i = 0; i < trace->process_count; i++)
        if (runs_python(&trace->process[i]))
            return true;
    return false;
}

const char *an_command_marks(const struct an_context *context, const char *python,
                             const char *other)
{
    return an_command_is_python(context) ? python : other;
}

const char *an_command_no_roles(const struct an_context *context)
{
    return an_command_marks(context, "no range in a step says what it is",
                            "no range in a step says what it is (payloads of include/tacho_nvtx.h "
                            "do)");
}

const char *an_command_no_shapes(const struct an_context *context)
{
    if (an_trace_from(context->trace, "xplane") || an_trace_from(context->trace, "xla-json"))
        return "the XLA profile has no shapes";
    return an_command_framework(context) == AN_FRAMEWORK_JAX
               ? "JAX records no shapes of its operators"
               : "the trace has no shapes (record_shapes=True records them)";
}

/* The first name of the trace that begins with some words, and what follows them; NULL: none. */
static const char *name_after(const struct an_trace *trace, const char *words)
{
    size_t length = strlen(words);
    for (size_t i = 0; i < trace->string_count; i++) {
        const char *name = an_trace_name(trace, (uint32_t)i);
        if (!strncmp(name, words, length))
            return name + length;
    }
    return NULL;
}

/* Does the program use JAX, whose jitted functions the hook names, and have none? */
static bool is_jax_without_jit(const struct an_trace *trace)
{
    bool is_jax = false;
    for (size_t i = 0; i < trace->slice.count; i++) {
        if (strcmp(an_trace_name(trace, trace->slice.category[i]), "jax") != 0)
            continue;
        if (!strncmp(an_trace_name(trace, trace->slice.name[i]), "jit ", 4))
            return false;
        is_jax = true;
    }
    return is_jax;
}

const char *an_command_step_advice(const struct an_context *context)
{
    if (is_jax_without_jit(context->trace))
        return "jit the update (jax.jit), and its calls are the steps: no function of the program "
               "is jitted, so each operator is compiled and called alone";
    return an_command_marks(context, "call step() of the module tacho after each update",
                            "mark each update with an NVTX range named step, or with tacho.step of "
                            "include/tacho_nvtx.h");
}

const char *an_command_around(const struct an_trace *trace)
{
    static const char *const frameworks[] = {AROUND "HF Trainer", AROUND "Lightning",
                                             AROUND "torchtitan", AROUND "DeepSpeed",
                                             AROUND "accelerate", AROUND "timm",
                                             AROUND "FSDP",       AROUND "nanoGPT-style script"};
    if (!name_after(trace, AROUND)) /* most runs have none */
        return NULL;
    for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
        const char *rest = name_after(trace, frameworks[i]);
        if (rest)
            return rest - strlen(frameworks[i]) + strlen(AROUND);
    }
    return NULL;
}

bool an_command_sharded(const struct an_trace *trace)
{
    return name_after(trace, AROUND "FSDP") || name_after(trace, "FSDP::") ||
           name_after(trace, "FullyShardedDataParallel.");
}

bool an_command_replicated(const struct an_trace *trace)
{
    static const char reduced[] = "gradients reduced";
    if (name_after(trace, "DistributedDataParallel."))
        return true;
    /* Of another wrapper, or of none, the hook knows only that the pass waits. */
    size_t slices = name_after(trace, reduced) ? trace->slice.count : 0;
    for (size_t i = 0; i < slices; i++)
        if (an_slice_role(trace, i) == AN_ROLE_COMM &&
            !strncmp(an_trace_name(trace, trace->slice.name[i]), reduced, strlen(reduced)))
            return true;
    return false;
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
        if (*word == '\'')
            at = stpcpy(at, "'\\''");
        else
            *at++ = *word;
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

/* The words of a list as one types them. */
static const char *words_line(struct an_context *context, const json_t *words)
{
    const char *line = "";
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        line = an_arena_format(context->arena, "%s%s%s", line, *line ? " " : "",
                               shell_word(context, word ? word : ""));
    }
    return line;
}

/* Does a change take an option away? */
static bool takes_away(const json_t *change)
{
    for (size_t i = 0; i < json_array_size(change); i++)
        if (json_is_null(json_array_get(json_array_get(change, i), 1)))
            return true;
    return false;
}

/* The command after a change (NULL: none). A command that is a text and no list gets the options at
 * its end. NULL: it was not recorded, or nothing can be taken out of the text. */
static const char *changed_line(struct an_context *context, const json_t *change)
{
    const char *command = an_trace_key(context->trace, "command"), *line = NULL;
    json_t *words = command ? json_loads(command, 0, NULL) : NULL;
    json_t *changed = an_change_words(json_is_array(words) ? words : NULL, change);
    if (json_is_array(words) && changed)
        line = words_line(context, changed);
    else if (command && *command != '[' && !takes_away(change))
        line = an_arena_format(context->arena, "%s%s%s", command,
                               json_array_size(changed) ? " " : "", words_line(context, changed));
    json_decref(words);
    json_decref(changed);
    return line;
}

const char *an_command_line(struct an_context *context)
{
    return changed_line(context, NULL);
}

/* The recorded variables that decide how the program runs, after a change, as one types them in
 * front of a command: "OMP_NUM_THREADS=1 ", "" without any. */
static const char *variable_words(struct an_context *context, const json_t *change)
{
    const char *environment = an_trace_key(context->trace, "environment"), *line = "", *name;
    json_t *recorded = environment ? json_loads(environment, 0, NULL) : NULL, *value;
    json_t *variables = an_change_variables(recorded, change);
    json_object_foreach(variables, name, value) line = an_arena_format(
        context->arena, "%s%s=%s ", line, name, shell_word(context, json_string_value(value)));
    json_decref(recorded);
    json_decref(variables);
    return line;
}

/* Returns what starts tacho on every rank where the command is that of one rank of a job, else
 * "". */
static const char *launcher_words(struct an_context *context)
{
    const char *ranks = an_trace_key(context->trace, "job.ranks"), *line = "";
    const char *const *word =
        an_change_launcher(an_trace_key(context->trace, "job.launcher"), ranks);
    for (const char *const *at = word; at && *at; at++)
        line = an_arena_format(context->arena, "%s%s ", line, *at);
    return word ? an_arena_format(context->arena, "%s%s ", line, ranks) : line;
}

/* The file for the run after a change: with a name of its own for each option, because several are
 * tried one after the other. */
static const char *after_file(struct an_context *context, const json_t *change)
{
    const json_t *first = json_array_get(change, 0);
    const char *name = json_string_value(json_array_get(first, 0));
    if (!name || json_is_null(json_array_get(first, 1)))
        return "after.tacho";
    return an_arena_format(context->arena, "after-%s.tacho", name + strspn(name, "-"));
}

/* The two commands, without quotes: record again, compare. NULL: they cannot be typed. */
static const char *rerun_line(struct an_context *context, const char *file, const json_t *change)
{
    const char *command = changed_line(context, change), *after = after_file(context, change),
               *variables = variable_words(context, change);
    if (!command || !*command || strstr(command, STORE_REDACTED) ||
        strlen(variables) + strlen(command) > COMMAND_MOST)
        return NULL;
    return an_arena_format(context->arena, "%s%stacho run -o %s -- %s; tacho diff %.200s %s",
                           variables, launcher_words(context), after, command, file, after);
}

/* The value that the command itself gives a variable, as `env NAME=VALUE` and mpirun's
 * `-x NAME=VALUE` do; NULL: it gives none. */
static const char *variable_of_words(struct an_context *context, const char *name)
{
    const char *text = an_trace_key(context->trace, "command"), *value = NULL;
    json_t *words = text ? json_loads(text, 0, NULL) : NULL, *word;
    size_t i, length = strlen(name);
    json_array_foreach(words, i, word)
    {
        const char *setting = json_is_string(word) ? json_string_value(word) : "";
        if (!strncmp(setting, name, length) && setting[length] == '=')
            value = an_arena_text(context->arena, setting + length + 1);
    }
    json_decref(words);
    return value;
}

const char *an_command_variable(struct an_context *context, const char *name)
{
    const char *own = variable_of_words(context, name);
    if (own)
        return own;
    const char *text = an_trace_key(context->trace, "environment");
    json_t *set = text ? json_loads(text, 0, NULL) : NULL;
    const char *value = json_string_value(json_object_get(set, name));
    value = value ? an_arena_text(context->arena, value) : NULL;
    json_decref(set);
    return value;
}

long an_command_team(struct an_context *context)
{
    double told = an_trace_last_value(context->trace, "host.threads");
    const char *count = an_command_variable(context, "OMP_NUM_THREADS");
    if (told >= 1 && told <= TEAM_MOST)
        return (long)told;
    long threads = count ? strtol(count, NULL, 10) : 0;
    return threads > 0 && threads <= TEAM_MOST ? threads : 0;
}

bool an_command_sets_team(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    return an_trace_last_value(trace, "host.threads") >= 1 &&
           an_trace_last_value(trace, "host.threads_by_variable") < 1;
}

const char *an_command_rerun(struct an_context *context, const char *option)
{
    const char *file =
        context->result->run.file && *context->result->run.file ? context->result->run.file : "RUN";
    const char *recorded = an_trace_key(context->trace, "command");
    json_t *change = an_change_parse(option);
    file = strlen(file) <= FILE_MOST ? shell_word(context, file) : file;
    const char *line = rerun_line(context, file, change);
    /* Marks the command in the sentence. */
    const char *quote = line && strchr(line, '`') ? "" : "`";
    const char *with = strncmp(option, "without --", 10) ? "with " : "", *hidden = "";
    if (recorded && strstr(recorded, STORE_REDACTED))
        hidden = ", with arguments of your own where the stored command says " STORE_REDACTED;
    if (!line)
        line = an_arena_format(context->arena,
                               "record it again %s%s as AFTER%s; `tacho diff %.200s AFTER`", with,
                               option, hidden, file);
    else if (change)
        line = an_arena_format(context->arena, "%s%s%s", quote, line, quote);
    else
        line = an_arena_format(context->arena, "with %s: %s%s%s", option, quote, line, quote);
    json_decref(change);
    return line;
}
