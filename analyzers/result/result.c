/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the result's classes and confidences, and its end.
 */
#include "analyzers/result/result.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"

const char *an_class_key(enum an_class class)
{
    static const char *const keys[] = {
#define CLASS_KEY(name, key, text) #key,
        AN_CLASS_MAP(CLASS_KEY)
#undef CLASS_KEY
    };
    return class < AN_CLASS_COUNT ? keys[class] : "";
}

const char *an_class_label(enum an_class class)
{
    static const char *const labels[] = {
#define CLASS_LABEL(name, key, text) text,
        AN_CLASS_MAP(CLASS_LABEL)
#undef CLASS_LABEL
    };
    return class < AN_CLASS_COUNT ? labels[class] : "";
}

const char *an_bound_key(enum an_bound bound)
{
    static const char *const keys[] = {
#define BOUND_KEY(name, key, text) key,
        AN_BOUND_MAP(BOUND_KEY)
#undef BOUND_KEY
    };
    return bound < AN_BOUND_COUNT ? keys[bound] : "";
}

const char *an_family_key(enum an_family family)
{
    static const char *const keys[] = {
#define FAMILY_KEY(name, key, text) key,
        AN_FAMILY_MAP(FAMILY_KEY)
#undef FAMILY_KEY
    };
    return keys[family];
}

const char *an_family_text(enum an_family family)
{
    static const char *const texts[] = {
#define FAMILY_TEXT(name, key, text) text,
        AN_FAMILY_MAP(FAMILY_TEXT)
#undef FAMILY_TEXT
    };
    return texts[family];
}

const char *an_bound_text(enum an_bound bound)
{
    static const char *const texts[] = {
#define BOUND_TEXT(name, key, text) text,
        AN_BOUND_MAP(BOUND_TEXT)
#undef BOUND_TEXT
    };
    return bound < AN_BOUND_COUNT ? texts[bound] : "";
}

const char *an_run_key(const struct an_run *run, const char *key)
{
    for (size_t i = 0; i < run->key_count; i++)
        if (!strcmp(run->keys[i].key, key))
            return run->keys[i].value;
    return NULL;
}

const char *an_confidence_text(enum an_confidence c)
{
    static const char *const texts[] = {"low", "medium", "high"};
    return c <= AN_HIGH ? texts[c] : "";
}

bool an_finding_may_gain(const struct an_finding *finding)
{
    const struct an_gain *gain = &finding->gain;
    return gain->low.valid && gain->low.value < AN_NOISE_PCT && gain->expected.valid &&
           gain->expected.value >= (finding->certain ? AN_NOISE_PCT : AN_TRY_PCT);
}

enum an_listed an_finding_listed(const struct an_finding *finding)
{
    if (finding->fault)
        return AN_LISTED_RANKED;
    if (!finding->gain.high.valid) /* withheld while others run, or never known */
        return finding->while_others && !finding->changes ? AN_LISTED_MEASURE : AN_LISTED_GAP;
    if (finding->changes)
        return AN_LISTED_CHANGES;
    return finding->gain.ceiling || an_finding_may_gain(finding) ? AN_LISTED_MEASURE
                                                                 : AN_LISTED_RANKED;
}

static const struct {
    const char *key, *text;
} listings[AN_LISTED_COUNT] = {
#define ROW(name, key, text) [AN_LISTED_##name] = {(key), (text)},
    AN_LISTED_MAP(ROW)
#undef ROW
};

const char *an_listed_key(enum an_listed listing)
{
    return listings[listing].key;
}

const char *an_listed_text(enum an_listed listing)
{
    return listings[listing].text;
}

void an_result_free(struct an_result *result)
{
    if (!result)
        return;
    struct an_arena *arena = result->arena;
    if (!an_arena_is_shared(arena)) /* else it lies in it */
        free(result);
    an_arena_free(arena);
}
