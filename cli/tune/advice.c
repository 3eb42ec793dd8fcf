/* SPDX-License-Identifier: Apache-2.0
 *
 * From findings to configurations.
 */
#include "cli/tune/advice.h"

#include <string.h>

#include "analyzers/steps/change.h"

static json_t *list_of(char *const *words)
{
    json_t *list = json_array();
    for (; *words; words++)
        json_array_append_new(list, json_string(*words));
    return list;
}

/* Is the command of a configuration this list of words? */
static bool is_command(const struct cli_template *command, size_t configuration, const json_t *list)
{
    char **words = cli_template_words(command, configuration);
    size_t same = 0;
    while (words && words[same] && same < json_array_size(list) &&
           !strcmp(words[same], json_string_value(json_array_get(list, same))))
        same++;
    bool equal = words && !words[same] && same == json_array_size(list);
    cli_template_free(words);
    return equal;
}

static size_t configuration_of(const struct cli_template *command, const json_t *list)
{
    for (size_t at = 0; at < command->space.count; at++)
        if (is_command(command, at, list))
            return at;
    return SIZE_MAX;
}

/* Adds what a list of words is, if it is one of the configurations and not known yet. */
static void add(const struct cli_template *command, const json_t *list, struct cli_trial *trial)
{
    size_t at = list ? configuration_of(command, list) : SIZE_MAX;
    bool known = at == SIZE_MAX || at == trial->configuration;
    for (size_t i = 0; i < trial->advised_count; i++)
        known = known || trial->advised[i] == at;
    if (!known && trial->advised_count < CLI_ADVISED_MOST)
        trial->advised[trial->advised_count++] = at;
}

void cli_tune_advice(const struct cli_template *command, char *const *words,
                     const struct an_result *result, struct cli_trial *trial)
{
    json_t *plain = list_of(words), *all = json_incref(plain);
    for (size_t i = 0; i < result->finding_count; i++) {
        const char *setting = result->findings[i].setting;
        json_t *change = setting ? an_change_parse(setting) : NULL;
        json_t *changed = change ? an_change_words(plain, change) : NULL;
        json_t *together = change ? an_change_words(all, change) : NULL;
        add(command, changed, trial);
        if (together) {
            json_decref(all);
            all = together;
        }
        json_decref(changed);
        json_decref(change);
    }
    add(command, all, trial);
    json_decref(all);
    json_decref(plain);
}
