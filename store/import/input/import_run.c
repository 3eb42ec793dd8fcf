/* SPDX-License-Identifier: Apache-2.0
 *
 * What every importer calls while it reads a file: losses, progress, the rank of the file.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/import/input/importer.h"

bool imp_holds(const unsigned char *head, size_t bytes, const char *word)
{
    return memmem(head, bytes, word, strlen(word)) != NULL;
}

int imp_loss(struct imp_run *run, const char *reason, int64_t count)
{
    struct store_loss loss = {.source = basename(run->path),
                              .reason = reason,
                              .count = count,
                              .t0 = STORE_ABSENT,
                              .t1 = STORE_ABSENT};
    enum store_loss_kind kind = store_loss_kind("", reason);
    run->lost += kind == STORE_LOSS_EVENTS ? count : 0;
    run->uncounted |= kind == STORE_LOSS_PLACES;
    return run->salvage_only ? 0 : store_loss_add(run->db, &loss);
}

int imp_progress(struct imp_run *run, int64_t more_bytes)
{
    run->done += more_bytes;
    bool cancelled = run->progress && run->progress(run->ctx, run->done, run->total);
    return cancelled ? TACHO_EINTERRUPTED : 0;
}

int64_t imp_rank_in_name(const char *path)
{
    int64_t rank = STORE_ABSENT;
    for (const char *word = basename(path); (word = strcasestr(word, "rank")); word += 4) {
        const char *digits = word + 4 + (word[4] && strchr("_-.=", word[4]));
        if (*digits >= '0' && *digits <= '9')
            rank = strtol(digits, NULL, 10);
    }
    return rank;
}

/* The number of the nearest folder above the present input, but not above all of them, whose name
 * begins with "rank". */
static int64_t rank_of_folder(const struct imp_run *run)
{
    char folder[PATH_MAX];
    int64_t rank = STORE_ABSENT;
    snprintf(folder, sizeof folder, "%s", run->path);
    for (char *slash; rank == STORE_ABSENT && (slash = strrchr(folder, '/'));) {
        if ((size_t)(slash - folder) < run->shared)
            break;
        *slash = '\0';
        if (!strncasecmp(basename(folder), "rank", 4))
            rank = imp_rank_in_name(folder);
    }
    return rank;
}

/* Values of the ranks that are taken: a file says it, or it was counted. */
enum { RANK_COUNTED, RANK_SAID };

static bool rank_taken(const struct imp_run *run, int64_t rank)
{
    return imp_map_find(&run->ranks, rank, 0) != NULL;
}

/* The smallest rank that is free. A file may have any number of processes: none is tried twice. */
static int64_t free_rank(struct imp_run *run)
{
    while (rank_taken(run, run->next_rank))
        run->next_rank++;
    return run->next_rank;
}

int64_t imp_rank(struct imp_run *run, int64_t named)
{
    bool alone = run->many && run->world == 1;
    int64_t rank = named != STORE_ABSENT && !alone ? named : imp_rank_in_name(run->path);
    if (rank == STORE_ABSENT && run->many)
        rank = rank_of_folder(run);
    if (rank == STORE_ABSENT)
        rank = named;
    bool said = rank != STORE_ABSENT;
    if (rank == STORE_ABSENT && run->many) {
        rank = free_rank(run);
        run->rank_counted = true;
    }
    if (rank == STORE_ABSENT)
        return rank;
    const int64_t *taken = imp_map_find(&run->ranks, rank, 0);
    bool twice = taken && *taken == RANK_SAID;
    run->rank_counted |= twice;
    run->rank_twice |= twice && run->world != 1;
    run->rank_traced |= rank == named && !alone;
    if (taken)
        imp_loss(run, "its rank is also that of another file (kept, as a process of its own)", 1);
    /* without memory the next one of this rank is unnoticed */
    imp_map_put(&run->ranks, rank, 0, said ? RANK_SAID : RANK_COUNTED);
    return rank;
}
