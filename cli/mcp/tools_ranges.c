/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool that sums ranges: by name, rank, thread, step, or position in the step.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/message.h"
#include "cli/mcp/tools.h"
#include "cli/mcp/windows.h"

#define ROWS_DEFAULT 20
#define RANGES_MOST  2000000 /* of one answer by position: they are sorted in memory */

/* What ranges are summed by. */
enum by { BY_NAME, BY_RANK, BY_THREAD, BY_STEP, BY_POSITION };

struct group {
    const char *name;
    int64_t key; /* the rank, track, step or position; 0 */
    const struct mcp_track *track;
    int64_t count, total, least, most;
    int64_t counted; /* of the total, in the steps that count */
};

/* A range that waits for its place among those of its name in the step. */
struct place {
    const struct an_step_point *step;
    const struct mcp_track *track;
    const char *name;
    int64_t start, dur;
};

struct sums {
    enum by by;
    void *tree; /* of groups */
    struct group **group;
    size_t count, room;
    struct place *entry;
    size_t entry_count, entry_room;
    int64_t open; /* ranges without an end */
    bool chosen;  /* the steps were named: then those count that the statistics exclude as well */
};

static int group_order(const void *left, const void *right)
{
    const struct group *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Adds a range to the group of its name and key. 0 or TACHO_ENOMEM. */
static int add_to(struct sums *sums, const char *name, int64_t key, const struct mcp_track *track,
                  const struct an_step_point *step, int64_t dur)
{
    struct group wanted = {.name = name, .key = key}, *group;
    struct group **found = tfind(&wanted, &sums->tree, group_order);
    if (found) {
        group = *found;
    } else {
        if (sums->count == sums->room) {
            size_t room = sums->room ? 2 * sums->room : 64;
            struct group **larger = realloc(sums->group, room * sizeof *larger);
            if (!larger)
                return TACHO_ENOMEM;
            sums->group = larger;
            sums->room = room;
        }
        if (!(group = malloc(sizeof *group)))
            return TACHO_ENOMEM;
        *group = (struct group){.name = name, .key = key, .track = track, .least = INT64_MAX};
        sums->group[sums->count++] = group;
        if (!tsearch(group, &sums->tree, group_order))
            return TACHO_ENOMEM;
    }
    group->count++;
    group->total += dur;
    if (step && (sums->chosen || !step->excluded))
        group->counted += dur;
    group->least = dur < group->least ? dur : group->least;
    group->most = dur > group->most ? dur : group->most;
    return 0;
}

static int sum_range(void *context, const struct mcp_range *range)
{
    struct sums *sums = context;
    int64_t key = 0;
    if (range->dur == STORE_ABSENT) {
        sums->open++;
        return 0;
    }
    if (sums->by == BY_POSITION) {
        if (!range->step || !range->track)
            return 0;
        if (sums->entry_count == sums->entry_room) {
            size_t room = sums->entry_room ? 2 * sums->entry_room : 1024;
            struct place *larger =
                room > RANGES_MOST ? NULL : realloc(sums->entry, room * sizeof *larger);
            if (!larger)
                return TACHO_ENOMEM;
            sums->entry = larger;
            sums->entry_room = room;
        }
        sums->entry[sums->entry_count++] =
            (struct place){range->step, range->track, range->name, range->start, range->dur};
        return 0;
    }
    if (sums->by == BY_RANK)
        key = range->track && range->track->rank != STORE_ABSENT ? range->track->rank : -1;
    if (sums->by == BY_THREAD)
        key = range->track ? range->track->id : -1;
    if (sums->by == BY_STEP)
        key = range->step ? range->step->index : -1;
    return add_to(sums, range->name, key, range->track, range->step, range->dur);
}

static int entry_order(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    int order = strcmp(a->name, b->name);
    if (order)
        return order;
    return (a->start > b->start) - (a->start < b->start);
}

/* Groups by name and place: the k-th range of a name in its step and thread. 0 or TACHO_ENOMEM. */
static int sum_positions(struct sums *sums)
{
    int64_t place = 0;
    int rc = 0;
    if (sums->entry_count)
        qsort(sums->entry, sums->entry_count, sizeof *sums->entry, entry_order);
    for (size_t i = 0; i < sums->entry_count && !rc; i++) {
        const struct place *entry = &sums->entry[i], *before = entry - (i > 0);
        bool same = i && entry->step == before->step && entry->track == before->track &&
                    !strcmp(entry->name, before->name);
        place = same ? place + 1 : 1;
        rc = add_to(sums, entry->name, place, entry->track, entry->step, entry->dur);
    }
    return rc;
}

static int by_total(const void *left, const void *right)
{
    const struct group *a = *(struct group *const *)left, *b = *(struct group *const *)right;
    return (a->total < b->total) - (a->total > b->total);
}

static int by_name_and_key(const void *left, const void *right)
{
    const struct group *a = *(struct group *const *)left, *b = *(struct group *const *)right;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->key > b->key) - (a->key < b->key);
}

/* A row of the answer. */
static json_t *group_row(const struct sums *sums, const struct group *group, double steps)
{
    static const char *const keys[] = {NULL, "rank", "thread", "step", "position"};
    json_t *row =
        json_pack("{s:o, s:I, s:o, s:o, s:o, s:o}", "name", mcp_json_text(group->name), "count",
                  (json_int_t)group->count, "total_ms", mcp_json_real((double)group->total / 1e6),
                  "mean_us", mcp_json_real((double)group->total / (double)group->count / 1e3),
                  "min_us", mcp_json_real((double)group->least / 1e3), "max_us",
                  mcp_json_real((double)group->most / 1e3));
    if (steps > 0 && sums->by != BY_STEP)
        json_object_set_new(row, "ms_per_step",
                            mcp_json_real((double)group->counted / 1e6 / steps));
    if (sums->by == BY_THREAD)
        json_object_set_new(row, keys[sums->by],
                            mcp_json_text(group->track ? group->track->name : NULL));
    else if (sums->by != BY_NAME)
        json_object_set_new(row, keys[sums->by],
                            group->key < 0 ? json_null() : json_integer((json_int_t)group->key));
    return row;
}

/* Steps that count: by what a time per step is divided. by_rank: of one rank. */
static double steps_in(const struct mcp_trace *trace, const struct mcp_filter *filter,
                       const struct sums *sums)
{
    double steps = 0;
    int64_t ranks = 0, last = INT64_MIN;
    for (size_t i = 0; i < trace->step_count; i++) {
        const struct an_step_point *step = &trace->step[i];
        bool in = filter->step_to < filter->step_from ||
                  (step->index + step->steps > filter->step_from && step->index <= filter->step_to);
        if (!in || (filter->rank != STORE_ABSENT && step->rank != filter->rank) ||
            (step->excluded && !sums->chosen))
            continue;
        steps += (double)step->steps;
        ranks += step->rank != last;
        last = step->rank;
    }
    return sums->by == BY_RANK && ranks ? steps / (double)ranks : steps;
}

static enum by by_of(const json_t *arguments)
{
    static const char *const names[] = {"name", "rank", "thread", "step", "position"};
    const char *name = mcp_text(arguments, "by", "name");
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(names[i], name))
            return (enum by)i;
    return BY_NAME;
}

static void keep_group(void *group)
{
    (void)group; /* the list frees it */
}

static void sums_clear(struct sums *sums)
{
    tdestroy(sums->tree, keep_group);
    for (size_t i = 0; i < sums->count; i++)
        free(sums->group[i]);
    free(sums->group);
    free(sums->entry);
}

static json_t *ranges_answer(struct sums *sums, const json_t *arguments, double steps)
{
    size_t limit = (size_t)mcp_integer(arguments, "limit", ROWS_DEFAULT);
    bool ordered = sums->by == BY_POSITION || sums->by == BY_STEP;
    if (sums->count)
        qsort(sums->group, sums->count, sizeof *sums->group, ordered ? by_name_and_key : by_total);
    json_t *rows = json_array();
    for (size_t i = 0; i < sums->count && i < limit; i++)
        json_array_append_new(rows, group_row(sums, sums->group[i], steps));
    json_t *answer = json_pack("{s:s, s:o, s:i, s:o}", "times",
                               "inclusive: a range counts what is nested in it; ms_per_step: mean "
                               "of the counted steps of one rank",
                               "steps", steps > 0 ? mcp_json_real(steps) : json_null(), "total",
                               (int)sums->count, "rows", rows);
    if (sums->by == BY_POSITION)
        json_object_set_new(answer, "position",
                            json_string("the k-th range of its name in a step, by start: in models "
                                        "of equal layers forward runs "
                                        "from the first layer to the last, backward from the last "
                                        "to the first"));
    if (sums->open)
        json_object_set_new(answer, "without_end", json_integer((json_int_t)sums->open));
    return answer;
}

static int ranges(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    const struct mcp_run *run;
    struct mcp_trace trace = {0};
    struct sums sums = {.by = by_of(arguments)};
    struct mcp_filter filter = mcp_filter_of(arguments);
    sums.chosen = filter.step_to >= filter.step_from;
    int code = mcp_session_run(session, mcp_text(arguments, "run", NULL), NULL, &run);
    if (!code)
        code = mcp_trace_open(run, &trace);
    if (!code) {
        int rc = mcp_each_range(&trace, &filter, sum_range, &sums);
        if (!rc)
            rc = sum_positions(&sums);
        if (rc)
            code = cli_error(rc, "narrow it: match, rank, from and to", "%s: %s", run->found.run,
                             tacho_error_text(rc));
    }
    if (!code)
        *answer = ranges_answer(&sums, arguments, steps_in(&trace, &filter, &sums));
    sums_clear(&sums);
    mcp_trace_close(&trace);
    return code;
}

static const struct mcp_argument ranges_arguments[] = {
    MCP_RUN_ARGUMENT,
    MCP_FILTER_ARGUMENTS,
    {.name = "by",
     .kind = MCP_CHOICE,
     .choices = "name|rank|thread|step|position",
     .help = "what is summed: all of a name (the default), each rank, thread or step apart, or the "
             "k-th of its name in "
             "the step (the layers of a model)"},
    MCP_LIMIT_ARGUMENT("rows (20)"),
    {0},
};

const struct mcp_tool mcp_ranges = {
    .name = "ranges",
    .title = "Ranges, operators and kernels summed",
    .help = "Time of ranges (NVTX, operators, modules) and device operations by name, and by rank, "
            "thread, step or position: "
            "how long backward, a layer, an operator or a kernel takes.",
    .arguments = ranges_arguments,
    .call = ranges,
};
