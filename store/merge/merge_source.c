/* SPDX-License-Identifier: Apache-2.0
 *
 * One input of a merge: what has to be known of it before rows are copied, and queries on it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/merge/merge_private.h"

int merge_query(struct merge *merge, struct merge_source *source, const char *sql,
                int (*row)(void *ctx, int columns, const struct store_cell *cells), void *ctx)
{
    int status = store_query(source->reader, sql, NULL, row, ctx);
    if (status && status == store_reader_error(source->reader)->code)
        merge->why = *store_reader_error(source->reader);
    return status;
}

/* A time of a file, in ns; STORE_ABSENT if it is so large that the file must be damaged. Of all
 * others the difference is a time, too. */
static int64_t time_of(int64_t time)
{
    return time < -INT64_MAX / 4 || time > INT64_MAX / 4 ? STORE_ABSENT : time;
}

/* Keeps the run keys that decide whether files belong together. */
static int on_key(void *ctx, const char *key, const char *value)
{
    struct merge_source *source = ctx;
    const struct {
        const char *key;
        char *to;
        size_t size;
    } texts[] = {{"host", source->host, sizeof source->host},
                 {"boot_id", source->boot, sizeof source->boot},
                 {"job.id", source->job, sizeof source->job},
                 {"source", source->source, sizeof source->source},
                 {"clock", source->clock_text, sizeof source->clock_text}};
    const struct {
        const char *key;
        int64_t *to;
    } numbers[] = {{"start.monotonic_ns", &source->begun},
                   {"end.monotonic_ns", &source->ended},
                   {"start.realtime_ns", &source->begun_wall}};
    for (size_t i = 0; value && i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key))
            snprintf(texts[i].to, texts[i].size, "%s", value);
    for (size_t i = 0; value && i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key))
            *numbers[i].to = time_of(strtoll(value, NULL, 10));
    source->merged |= !strcmp(key, "merge.files");
    if (!strncmp(key, "nvml.", 5)) {
        long long gpu = strtoll(key + 5, NULL, 10);
        if (gpu >= source->nvml && gpu < MERGE_GPUS_MOST)
            source->nvml = gpu + 1; /* for now: how many it has */
    }
    return 0;
}

/* Keeps a rank of a process, if it has steps, and the lowest of all. */
static int on_rank(void *ctx, int columns, const struct store_cell *cells)
{
    struct merge_source *source = ctx;
    (void)columns;
    if (cells[0].type != STORE_CELL_INTEGER)
        return 0;
    source->lowest = cells[0].integer < source->lowest ? cells[0].integer : source->lowest;
    if (!cells[1].integer)
        return 0;
    int64_t *ranks = realloc(source->rank, (source->rank_count + 1) * sizeof *ranks);
    if (!ranks)
        return TACHO_ENOMEM;
    source->rank = ranks;
    source->rank[source->rank_count++] = cells[0].integer;
    return 0;
}

/* Keeps the offset of the wall clock. */
static int on_wall(void *ctx, int columns, const struct store_cell *cells)
{
    struct merge_source *source = ctx;
    (void)columns;
    if (cells[0].type == STORE_CELL_INTEGER)
        source->anchor_wall = time_of(cells[0].integer);
    return 0;
}

int merge_source_open(struct merge *merge, struct merge_source *source, const char *path)
{
    static const char ranks[] = "SELECT rank, id IN (SELECT process FROM step) FROM process "
                                "WHERE rank IS NOT NULL ORDER BY rank";
    static const char wall[] = "SELECT realtime - monotonic FROM clock_anchor ORDER BY 1 LIMIT 1 "
                               "OFFSET (SELECT count(*) / 2 "
                               "FROM clock_anchor)";
    struct stat st;
    *source = (struct merge_source){.path = path,
                                    .begun = STORE_ABSENT,
                                    .ended = STORE_ABSENT,
                                    .begun_wall = STORE_ABSENT,
                                    .anchor_wall = STORE_ABSENT,
                                    .lowest = INT64_MAX};
    int status = store_open(path, &source->reader, &merge->why);
    if (status == 0 && stat(path, &st) == 0) {
        source->device = (int64_t)st.st_dev;
        source->inode = (int64_t)st.st_ino;
    }
    if (status == 0 && (status = store_run_each(source->reader, on_key, source)) != 0)
        merge->why = *store_reader_error(source->reader);
    status = status ? status : merge_query(merge, source, ranks, on_rank, source);
    status = status ? status : merge_query(merge, source, wall, on_wall, source);
    if (status == 0 && (status = store_count(source->reader, "slice", &source->slices)) != 0)
        merge->why = *store_reader_error(source->reader);
    merge->total += source->slices;
    return status;
}

void merge_source_close(struct merge_source *source)
{
    store_reader_close(source->reader);
    free(source->rank);
    free(source->strings.id);
    free(source->details.id);
    free(source->processes.id);
    free(source->tracks.id);
    free(source->stacks.id);
}
