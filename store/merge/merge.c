/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the files of one job: checks that they belong together, and drives the other files of this
 * folder.
 */
#include "store/merge/merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/merge/merge_private.h"

/* ---- are they of one run? -------------------------------------------------------------------------------------------------- */

/* Are they the same file, or copies of one recording? */
static bool same_recording(const struct merge_source *first, const struct merge_source *second)
{
    return (first->device == second->device && first->inode == second->inode) ||
           (first->boot[0] && !strcmp(first->boot, second->boot) && first->begun != STORE_ABSENT &&
            first->begun == second->begun && first->lowest == second->lowest &&
            first->slices == second->slices);
}

/* A rank that both files have steps of; STORE_ABSENT: none. */
static int64_t common_rank(const struct merge_source *first, const struct merge_source *second)
{
    size_t i = 0, j = 0; /* both are sorted */
    while (i < first->rank_count && j < second->rank_count) {
        if (first->rank[i] == second->rank[j])
            return first->rank[i];
        if (first->rank[i] < second->rank[j])
            i++;
        else
            j++;
    }
    return STORE_ABSENT;
}

/* Did one recording end before the other began? */
static bool apart(const struct merge_source *first, const struct merge_source *second)
{
    if (first->begun_wall == STORE_ABSENT || second->begun_wall == STORE_ABSENT ||
        first->ended == STORE_ABSENT || second->ended == STORE_ABSENT)
        return false;
    int64_t end_a = first->begun_wall + (first->ended - first->begun),
            end_b = second->begun_wall + (second->ended - second->begun);
    return end_a < second->begun_wall || end_b < first->begun_wall;
}

/* Fails for files that were merged or imported before. */
static int check_one(struct merge *merge, const struct merge_source *source)
{
    if (source->merged)
        return tacho_fail(&merge->why, TACHO_EFORMAT,
                          "merge all the files that it was made from, at once",
                          "%s: was made by 'tacho merge'", source->path);
    if (source->source[0])
        return tacho_fail(&merge->why, TACHO_EFORMAT,
                          "give the traces themselves to 'tacho import', all at once",
                          "%s: was imported from a trace of another tool", source->path);
    return 0;
}

static const char *job_of(const struct merge_source *source)
{
    return source->job[0] ? source->job : "none";
}

/* Fails if two files are one recording, or, unless the user forces it, not of one job. */
static int check_pair(struct merge *merge, const struct merge_source *first,
                      const struct merge_source *second)
{
    static const char force[] = "to merge them anyway: --force";
    if (same_recording(first, second))
        return tacho_fail(&merge->why, TACHO_EFORMAT, "give each file once",
                          "%s: the same recording as %s", second->path, first->path);
    if (merge->merge_options->force)
        return 0;
    if (strcmp(first->job, second->job) != 0)
        return tacho_fail(&merge->why, TACHO_EFORMAT, force,
                          "%s: from another job than %s (%.60s, %.60s)", second->path, first->path,
                          job_of(second), job_of(first));
    int64_t rank = common_rank(first, second);
    if (rank != STORE_ABSENT)
        return tacho_fail(
            &merge->why, TACHO_EFORMAT,
            "to compare two consecutive recordings: tacho diff; to merge them anyway: --force",
            "%s: rank %lld is also in %s", second->path, (long long)rank, first->path);
    if (apart(first, second))
        return tacho_fail(&merge->why, TACHO_EFORMAT, force,
                          "%s: not recorded at the same time as %s", second->path, first->path);
    return 0;
}

/* Orders sources by their lowest rank. */
static int by_rank(const void *left_row, const void *right_row)
{
    const struct merge_source *left = left_row, *right = right_row;
    if (left->lowest != right->lowest)
        return left->lowest < right->lowest ? -1 : 1;
    return left->index < right->index ? -1 : 1;
}

/* Opens and checks all inputs, and puts them into the order of ranks. */
static int open_all(struct merge *merge)
{
    int status = 0;
    merge->source = calloc(merge->merge_options->in_count, sizeof *merge->source);
    if (!merge->source)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < merge->merge_options->in_count && status == 0; i++) {
        status = merge_source_open(merge, &merge->source[i], merge->merge_options->in[i]);
        merge->count++;
        merge->source[i].index = (int64_t)i;
        status = status ? status : check_one(merge, &merge->source[i]);
    }
    for (size_t i = 0; i < merge->count && status == 0; i++)
        for (size_t j = 0; j < i && status == 0; j++)
            status = check_pair(merge, &merge->source[j], &merge->source[i]);
    if (status == 0)
        qsort(merge->source, merge->count, sizeof *merge->source, by_rank);
    for (size_t i = 0; i < merge->count; i++)
        merge->source[i].index = (int64_t)i;
    return status;
}

/* Continues the numbers of GPUs over machines: NVML's GPU 0 of the second machine is another one
 * than that of the first. */
static void number_gpus(struct merge *merge)
{
    int64_t before = 0;
    for (size_t machine = 0; machine < merge->machines; machine++) {
        int64_t most = 0;
        for (size_t i = 0; i < merge->count; i++)
            if (merge->source[i].machine == machine) {
                most = merge->source[i].nvml > most ? merge->source[i].nvml : most;
                merge->source[i].nvml = before;
            }
        before += most;
    }
}

/* Fills the result: files, hosts, ranks, and the least certain clock. */
static void sum_up(struct merge *merge)
{
    struct store_merge_result *merge_result = merge->merge_result;
    merge_result->files = (int64_t)merge->count;
    merge_result->hosts = (int64_t)merge->machines;
    merge_result->matched = INT64_MAX;
    for (size_t i = 0; i < merge->count; i++) {
        const struct merge_source *source = &merge->source[i];
        merge_result->ranks += (int64_t)source->rank_count;
        merge_result->how =
            source->clock.how > merge_result->how ? source->clock.how : merge_result->how;
        merge_result->error = isnan(merge_result->error) || isnan(source->clock.error)
                                  ? NAN
                                  : fmax(merge_result->error, source->clock.error);
        if (source->clock.how == STORE_MERGE_BY_COLLECTIVES &&
            source->clock.matched < merge_result->matched)
            merge_result->matched = source->clock.matched;
    }
    if (merge_result->matched == INT64_MAX)
        merge_result->matched = 0;
}

/* ---- the output ------------------------------------------------------------------------------------------------------------ */

/* Fills the output; store_make calls it. */
static int write_all(void *ctx, store *out, struct tacho_error *why)
{
    struct merge *merge = ctx;
    merge->out = out;
    int status = store_begin(out);
    for (size_t i = 0; i < merge->count && status == 0; i++)
        status = merge_rows(merge, &merge->source[i]);
    status = status ? status : merge_keys(merge);
    status = status ? status : store_commit(out);
    *why = merge->why;
    return status;
}

int store_merge(const struct store_merge_options *merge_options,
                struct store_merge_result *merge_result, struct tacho_error *err)
{
    struct merge merge = {.merge_options = merge_options, .merge_result = merge_result};
    int status = 0;
    *merge_result = (struct store_merge_result){0};
    if (merge_options->in_count < 2 || merge_options->in_count > STORE_MERGE_FILES)
        status = tacho_fail(&merge.why, TACHO_EUSAGE, "give the files of all nodes",
                            "%zu file%s: 2 to %d can be merged", merge_options->in_count,
                            merge_options->in_count == 1 ? "" : "s", STORE_MERGE_FILES);
    else if (!access(merge_options->out, F_OK))
        status = tacho_fail(&merge.why, TACHO_EEXISTS,
                            "tacho never overwrites: give another name with -o FILE",
                            "%s: already exists", merge_options->out);
    status = status ? status : open_all(&merge);
    status = status ? status : merge_align(&merge);
    if (status == 0) {
        number_gpus(&merge);
        sum_up(&merge);
        struct store_making making = {.path = merge_options->out,
                                      .tag = "merge",
                                      .no_space =
                                          "free some space, or choose another place (-o FILE)",
                                      .fill = write_all,
                                      .ctx = &merge};
        status = store_make(&making, &merge.why);
    }
    if (status && !merge.why.code)
        tacho_fail(&merge.why, status, NULL, "%s: %s", merge_options->out,
                   tacho_error_text(status));
    if (status && err)
        *err = merge.why;
    for (size_t i = 0; i < merge.count; i++)
        merge_source_close(&merge.source[i]);
    free(merge.source);
    return status;
}
