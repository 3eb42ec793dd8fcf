/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analyzers/device/device.h"
#include "analyzers/device/value_wait.h"

/* How the hook names a wait: a word, and "file:line". */
static const struct word {
    const char *word, *text;
} words[] = {{"item", ".item()"},
             {"tolist", ".tolist()"},
             {"cpu", ".cpu()"},
             {"numpy", ".numpy()"},
             {"nonzero", ".nonzero()"},
             {"to cpu", ".to(\"cpu\")"},
             {"float", "float()"},
             {"int", "int()"},
             {"bool", "a condition"},
             {"index", "an index"},
             {"print", "print()"},
             {"array", "numpy.asarray()"},
             {"device_get", "jax.device_get()"},
             {"block_until_ready", "block_until_ready()"}};

/* The word that a name of the hook begins with, NULL: it is no wait. *line: what follows. */
static const struct word *word_of(const char *name, const char **line)
{
    const char *colon = strrchr(name, ':');
    if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
        return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i].word);
        *line = name + length + 1;
        if (!strncmp(name, words[i].word, length) && name[length] == ' ' && *line < colon)
            return &words[i];
    }
    return NULL;
}

bool an_slice_value_wait(const struct an_trace *trace, size_t slice, struct an_value_wait *wait)
{
    const char *domain = an_slice_category(trace, slice), *line = "";
    if ((strcmp(domain, "torch") != 0 && strcmp(domain, "jax") != 0) ||
        an_slice_role(trace, slice) != AN_ROLE_NONE)
        return false;
    const struct word *word = word_of(an_trace_name(trace, trace->slice.name[slice]), &line);
    if (word && wait)
        *wait = (struct an_value_wait){.what = word->text, .line = line};
    return word != NULL;
}

bool an_slice_says_wait(const struct an_trace *trace, size_t slice)
{
    static const char wait[] = " block_until_ready";
    const char *name = an_trace_name(trace, trace->slice.name[slice]);
    size_t length = strlen(name), tail = sizeof wait - 1;
    return length > tail && !strcmp(name + length - tail, wait);
}
