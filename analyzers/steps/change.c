/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses a change of how a run is started, and makes it in the words of a command and in an
 * environment.
 */
#include "analyzers/steps/change.h"

#include <string.h>

#include "analyzers/trace/trace.h"

#define WORD_MOST     128
#define SETTINGS_MOST 32

/* Names, or beginnings of names where they end in '*'. */
static const char *const settings[] = {
    "OMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "GOMP_*",
    "KMP_*",
    "BLIS_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMEXPR_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_TF32_OVERRIDE",
    "HIP_VISIBLE_DEVICES",
    "NCCL_*",
    "UCX_TLS",
    "PYTHONHASHSEED",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_NCCL_*",
    "TORCHDYNAMO_DISABLE",
    "XLA_FLAGS",
    "MALLOC_ARENA_MAX",
};

bool an_change_is_setting(const char *variable)
{
    size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        size_t known = strcspn(settings[i], "*");
        if (!strncmp(variable, settings[i], known) && (settings[i][known] || length == known))
            return true;
    }
    return false;
}

/* Copies the next word of *text and moves behind it. False: there is no further word, or it is too
 * long. */
static bool next_word(const char **text, char word[WORD_MOST])
{
    *text += strspn(*text, " ");
    size_t length = strcspn(*text, " ");
    if (!length || length >= WORD_MOST)
        return false;
    memcpy(word, *text, length);
    word[length] = 0;
    *text += length;
    return true;
}

static bool is_option(const char *word)
{
    return !strncmp(word, "--", 2) && word[2] && !strchr(word, '=');
}

/* NAME=VALUE of a variable that may be set. */
static bool is_variable(const char *word)
{
    return strchr(word, '=') && an_change_is_setting(word);
}

/* Adds what begins with `word` to the change; an option takes the word after it as its value unless
 * that is an option too. False: the word begins nothing that can be made. */
static bool add_setting(json_t *change, char *word, const char **text)
{
    char value[WORD_MOST];
    const char *rest = *text;
    if (!strcmp(word, "without"))
        return next_word(text, value) && is_option(value) &&
               !json_array_append_new(change, json_pack("[s, n]", value));
    if (is_variable(word)) {
        char *equals = strchr(word, '=');
        *equals = 0;
        return !json_array_append_new(change, json_pack("[s, s]", word, equals + 1));
    }
    if (!is_option(word))
        return false;
    if (!next_word(&rest, value) || is_option(value) || is_variable(value))
        return !json_array_append_new(change, json_pack("[s, b]", word, true));
    *text = rest;
    return !json_array_append_new(change, json_pack("[s, s]", word, value));
}

json_t *an_change_parse(const char *text)
{
    char word[WORD_MOST];
    json_t *change = json_array();
    bool good = change && text;
    while (good && text[strspn(text, " ")])
        good = next_word(&text, word) && add_setting(change, word, &text) &&
               json_array_size(change) <= SETTINGS_MOST;
    if (good && json_array_size(change))
        return change;
    json_decref(change);
    return NULL;
}

/* How many words from `word` on give an option: --option, --option=VALUE, or --option and the next
 * word where it takes a value. */
static size_t words_of(const char *word, const char *option, bool valued)
{
    size_t length = strlen(option);
    if (!word || strncmp(word, option, length) != 0)
        return 0;
    if (word[length])
        return word[length] == '=';
    return valued ? 2 : 1;
}

/* Which setting of the change the word begins, and how many words it takes; the number of settings:
 * none. */
static size_t setting_at(const char *word, const json_t *change, size_t *words)
{
    size_t count = json_array_size(change);
    for (size_t i = 0; i < count; i++) {
        const json_t *setting = json_array_get(change, i);
        const char *name = json_string_value(json_array_get(setting, 0));
        *words =
            *name == '-' ? words_of(word, name, json_is_string(json_array_get(setting, 1))) : 0;
        if (*words)
            return i;
    }
    return count;
}

/* Adds the words of a setting that is an option: none where it goes, or was put already. Non-zero:
 * no memory. */
static int put_option(json_t *out, const json_t *setting, bool *put)
{
    json_t *name = json_array_get(setting, 0), *value = json_array_get(setting, 1);
    if (*put || *json_string_value(name) != '-' || json_is_null(value))
        return 0;
    *put = true;
    return json_array_append(out, name) || (json_is_string(value) && json_array_append(out, value));
}

json_t *an_change_words(const json_t *words, const json_t *change)
{
    size_t count = json_array_size(change), skip = 1;
    bool put[SETTINGS_MOST] = {false};
    json_t *out = json_array();
    int failed = !out || count > SETTINGS_MOST;
    for (size_t i = 0; !failed && i < json_array_size(words); i += skip) {
        size_t which = setting_at(json_string_value(json_array_get(words, i)), change, &skip);
        if (which < count) {
            failed |= put_option(out, json_array_get(change, which), &put[which]);
            continue;
        }
        skip = 1;
        failed |= json_array_append(out, json_array_get(words, i));
    }
    for (size_t i = 0; !failed && i < count; i++)
        failed |= put_option(out, json_array_get(change, i), &put[i]);
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

json_t *an_change_variables(const json_t *environment, const json_t *change)
{
    json_t *out = json_object(), *value;
    int failed = !out;
    const char *name;
    json_object_foreach((json_t *)environment, name, value) /* which does not change it */
    {
        if (an_change_is_setting(name) && json_is_string(value) &&
            !strstr(json_string_value(value), STORE_REDACTED))
            failed |= json_object_set(out, name, value);
    }
    for (size_t i = 0; i < json_array_size(change); i++) {
        name = json_string_value(json_array_get(json_array_get(change, i), 0));
        value = json_array_get(json_array_get(change, i), 1);
        if (*name != '-' && json_is_string(value))
            failed |= json_object_set(out, name, value);
        else if (*name != '-')
            json_object_del(out, name);
    }
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}

const char *const *an_change_launcher(const char *launcher, const char *ranks)
{
    static const char *const mpirun[] = {"mpirun", "-np", NULL},
                             *const srun[] = {"srun", "-n", NULL},
                             *const torchrun[] = {"torchrun", "--no-python", "--nproc-per-node",
                                                  NULL};
    if (!launcher || !ranks || !*ranks || strspn(ranks, "0123456789") != strlen(ranks))
        return NULL;
    if (!strcmp(launcher, "torchrun"))
        return torchrun;
    return !strcmp(launcher, "slurm") ? srun : mpirun;
}
