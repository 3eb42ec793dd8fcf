/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_an_*.c of the replay: an edit that asks for what the run has already gains exactly
 * nothing. The property is checked for every key of an edit, alone and all at once.
 */
#ifndef AN_IDENTITY_H
#define AN_IDENTITY_H

#include "an_fixture.h"
#include "analyzers/replay/what_if.h"

#define IDENTITIES_MOST 128

struct identities {
    char text[IDENTITIES_MOST][160];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static inline void identity_add(struct identities *identities,
                                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (identities->count < IDENTITIES_MOST)
        vsnprintf(identities->text[identities->count], sizeof identities->text[0], format,
                  arguments);
    identities->count += identities->count < IDENTITIES_MOST;
    va_end(arguments);
}

/* Does the key take a number or a word, and not a share? */
static inline bool takes_number(const char *key)
{
    static const char *const keys[] = {"loader.workers", "loader.prefetch", "cores",    "others",
                                       "threads",        "ranks",           "precision"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i]))
            return true;
    return false;
}

/* The edit of a key that changes nothing; none for a key whose value the run does not say. */
static inline void identity_of_key(struct identities *identities, const struct an_result *result,
                                   const char *key, int64_t ahead)
{
    const struct an_count *workers = &result->loader.workers;
    const struct an_core_use *cores = &result->advice.cores;
    bool working = workers->valid && workers->value > 0;
    if (!strcmp(key, "loader.workers") && working)
        identity_add(identities, "%s=%lld", key, (long long)workers->value);
    else if (!strcmp(key, "loader.prefetch") && working && ahead > 0)
        identity_add(identities, "%s=%lld", key, (long long)ahead);
    else if (!strcmp(key, "cores") && cores->cores.valid)
        identity_add(identities, "%s=%.0f", key, cores->cores.value);
    else if (!strcmp(key, "others") && cores->others.valid)
        identity_add(identities, "%s=%.17g", key, cores->others.value);
    else if (!strcmp(key, "precision") && result->utilization.dtype &&
             (!strcmp(result->utilization.dtype, "fp32") ||
              !strcmp(result->utilization.dtype, "bf16")))
        identity_add(identities, "%s=%s", key, result->utilization.dtype);
    else if (!takes_number(key))
        identity_add(identities, "%s=1x", key);
}

static inline bool is_edit_key(const char *row)
{
    for (const char *const *key = an_edit_keys(); *key; key++)
        if (!strcmp(*key, row))
            return true;
    return false;
}

static inline struct an_result *identity_analyze(store_reader *reader, const char *edits)
{
    struct tacho_error err = {0};
    struct an_options options = {.file = "run.tacho", .what_if = edits};
    struct an_result *result = NULL;
    if (an_analyze(reader, &options, &result, &err))
        fail_msg("%s", err.what);
    return result;
}

/* Exactly 0, and no wider; or a key that names nothing of the run. */
static inline void identity_check(const struct an_what_if *what_if)
{
    const struct an_value *gain[] = {&what_if->gain.low, &what_if->gain.expected,
                                     &what_if->gain.high};
    if (what_if->reason && what_if->unknown)
        return;
    if (what_if->reason || what_if->ceiling)
        fail_msg("%s: %s", what_if->edit, what_if->reason ? what_if->reason : what_if->ceiling);
    for (int i = 0; i < 3; i++)
        if (!gain[i]->valid || gain[i]->value != 0)
            fail_msg("%s changes nothing and is said to gain %.17g", what_if->edit, gain[i]->value);
}

/* Checks the property for a run; `ahead`: batches that its loader makes ahead, 0: not known.
 * Returns how many edits name something of the run. */
static inline size_t check_identities(store_reader *reader, int64_t ahead)
{
    struct identities identities = {.count = 0};
    struct an_result *result = identity_analyze(reader, NULL);
    size_t named = 0;
    char all[4096] = "";
    for (const char *const *key = an_edit_keys(); *key && !result->advice.reason; key++)
        identity_of_key(&identities, result, *key, ahead);
    for (size_t i = 0; i < result->advice.row_count; i++)
        if (!is_edit_key(result->advice.rows[i].key))
            identity_add(&identities, "%s=100%%", result->advice.rows[i].key);
    for (size_t i = 0; i < result->loader.rank_count && result->loader.rank_count > 1; i++)
        if (result->loader.ranks[i].rank >= 0)
            identity_add(&identities, "rank:%lld=1x", (long long)result->loader.ranks[i].rank);
    bool reported = !result->advice.reason;
    an_result_free(result);
    for (size_t i = 0; i < identities.count && reported; i++) {
        result = identity_analyze(reader, identities.text[i]);
        identity_check(&result->advice.edits[0]);
        bool unknown = result->advice.edits[0].unknown != NULL;
        if (!unknown && named < 16 && strlen(all) + 170 < sizeof all)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? "," : "",
                     identities.text[i]);
        named += !unknown;
        an_result_free(result);
    }
    if (named > 1) {
        result = identity_analyze(reader, all);
        if (!result->advice.together.edit)
            fail_msg("all at once are refused: %s", all);
        identity_check(&result->advice.together);
        an_result_free(result);
    }
    return named;
}

#endif
