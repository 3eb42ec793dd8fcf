/* SPDX-License-Identifier: Apache-2.0
 *
 * Who hangs, from the flight recorders of the ranks. In each group of ranks the collectives are
 * numbered, and a rank completes them in order: the ranks that completed fewest hold up the others.
 * Of those the rank that never issued the next one is the cause; where all issued it, its kernel or
 * the network is. Ranks that issued another operation, or other sizes, under one number never meet.
 * What Gloo has retired was completed if all issued it: else it failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/context.h"

#define GROUPS_MOST 256
#define LIST_MOST   160

/* One entry of a rank. */
struct entry {
    int64_t communicator, number, rank, bytes;
    uint32_t slice;
    bool completed, retired;
    const char *collective;
};

/* How far a rank came in a group. */
struct progress {
    int64_t rank, issued, completed; /* highest numbers; -1: none */
};

static int entry_order(const void *left, const void *right)
{
    const struct entry *first = left, *second = right;
    if (first->communicator != second->communicator)
        return AN_COMPARE(first->communicator, second->communicator);
    if (first->number != second->number)
        return AN_COMPARE(first->number, second->number);
    return AN_COMPARE(first->rank, second->rank);
}

/* Lists the entries of collectives: point-to-point ones are numbered by another counter. */
static int list_entries(const struct an_trace *trace, struct entry **out, size_t *count)
{
    size_t room = 0;
    *out = NULL;
    *count = 0;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        const struct an_process *process = an_trace_process(trace, track->process);
        for (size_t i = track->slice_first; i < an_track_end(track); i++) {
            const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
            if (!detail || strcmp(detail->schema, "torch.flight") != 0 ||
                strstr(detail->payload, "\"p2p\":true"))
                continue;
            if (an_grow(out, &room, *count + 1, sizeof **out))
                return TACHO_ENOMEM;
            (*out)[(*count)++] = (struct entry){
                .communicator = detail->communicator,
                .number = trace->slice.correlation[i],
                .rank = process && process->rank != STORE_ABSENT ? process->rank : 0,
                .bytes = detail->bytes,
                .slice = (uint32_t)i,
                .completed = strstr(detail->payload, "\"state\":\"completed\"") != NULL,
                .retired = strstr(detail->payload, "\"state\":\"retired\"") != NULL,
                .collective = detail->collective};
        }
    }
    if (*count)
        qsort(*out, *count, sizeof **out, entry_order);
    return 0;
}

/* Appends ranks [first, last] to a list in words. */
static void put_ranks(char text[LIST_MOST], int64_t first, int64_t last)
{
    size_t used = strlen(text);
    if (used + 48 > LIST_MOST) {
        if (!strstr(text, "..."))
            strcat(text, " ...");
        return;
    }
    if (first == last)
        snprintf(text + used, LIST_MOST - used, "%s%" PRId64, used ? "," : "", first);
    else
        snprintf(text + used, LIST_MOST - used, "%s%" PRId64 "-%" PRId64, used ? "," : "", first,
                 last);
}

/* The ranks for which `which` says so, as "0-2,5"; *count: how many. */
static const char *ranks_text(struct an_context *context, const struct progress *progress,
                              size_t ranks, bool (*which)(const struct progress *, int64_t),
                              int64_t number, int64_t *count)
{
    char text[LIST_MOST] = "";
    *count = 0;
    for (size_t i = 0; i < ranks;) {
        size_t end = i;
        if (!which(&progress[i], number)) {
            i++;
            continue;
        }
        while (end + 1 < ranks && which(&progress[end + 1], number) &&
               progress[end + 1].rank == progress[end].rank + 1)
            end++;
        put_ranks(text, progress[i].rank, progress[end].rank);
        *count += (int64_t)(end - i + 1);
        i = end + 1;
    }
    return an_arena_text(context->arena, text);
}

static bool is_behind(const struct progress *progress, int64_t number)
{
    return progress->completed == number;
}

static bool has_not_issued(const struct progress *progress, int64_t number)
{
    return progress->issued < number;
}

/* The ranks of a group below the highest one that have no dump. */
static const char *missing_text(struct an_context *context, const struct progress *progress,
                                size_t ranks, int64_t size)
{
    char text[LIST_MOST] = "";
    int64_t next = 0;
    if (size <= (int64_t)ranks)
        return "";
    for (size_t i = 0; i <= ranks; i++) {
        int64_t rank = i < ranks ? progress[i].rank : size;
        if (rank > next && next < size)
            put_ranks(text, next, (rank < size ? rank : size) - 1);
        next = rank + 1;
    }
    return an_arena_text(context->arena, text);
}

static int progress_order(const void *left, const void *right)
{
    const struct progress *first = left, *second = right;
    return AN_COMPARE(first->rank, second->rank);
}

/* How far each rank came in the entries of one group. */
static size_t find_progress(const struct entry *entry, size_t count, struct progress *progress)
{
    size_t ranks = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < ranks && progress[at].rank != entry[i].rank)
            at++;
        if (at == ranks)
            progress[ranks++] = (struct progress){entry[i].rank, -1, -1};
        if (entry[i].number > progress[at].issued)
            progress[at].issued = entry[i].number;
        if (entry[i].completed && entry[i].number > progress[at].completed)
            progress[at].completed = entry[i].number;
    }
    qsort(progress, ranks, sizeof *progress, progress_order);
    return ranks;
}

/* Completes what was retired and issued by all ranks, and finds their progress again. */
static void complete_retired(struct entry *entry, size_t count, struct progress *progress,
                             size_t ranks)
{
    int64_t issued = INT64_MAX;
    for (size_t i = 0; i < ranks; i++)
        issued = progress[i].issued < issued ? progress[i].issued : issued;
    for (size_t i = 0; i < count; i++)
        entry[i].completed |= entry[i].retired && entry[i].number <= issued;
    find_progress(entry, count, progress);
}

/* What differs between the ranks under one number: the first such number. NULL: nothing. */
static const char *find_mismatch(struct an_context *context, const struct entry *entry,
                                 size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct entry *first = &entry[i - 1], *second = &entry[i];
        if (first->number != second->number)
            continue;
        if (strcmp(first->collective, second->collective) != 0)
            return an_arena_format(context->arena,
                                   "number %" PRId64 " is %s on rank %" PRId64 " and %s on rank "
                                   "%" PRId64,
                                   first->number, first->collective, first->rank,
                                   second->collective, second->rank);
        bool uneven = !strcmp(first->collective, "all_to_all") ||
                      !strcmp(first->collective, "gather") || !strcmp(first->collective, "scatter");
        if (!uneven && first->bytes >= 0 && second->bytes >= 0 && first->bytes != second->bytes)
            return an_arena_format(context->arena,
                                   "number %" PRId64 " (%s) has %" PRId64 " bytes on rank "
                                   "%" PRId64 " and %" PRId64 " on rank %" PRId64,
                                   first->number, first->collective, first->bytes, first->rank,
                                   second->bytes, second->rank);
    }
    return NULL;
}

/* Where the program called the collective: its innermost own frame is not kept with the entry, so
 * the top of its stack is. */
static const char *called_at(const struct an_trace *trace, const struct an_detail *detail)
{
    const char *found = strstr(detail->payload, "\"stack\":");
    long long stack = found ? strtoll(found + 8, NULL, 10) : 0;
    for (long long at = stack - 1; at >= 0 && (size_t)at < trace->stack.count;) {
        const char *frame = an_trace_name(trace, trace->stack.frame[at]);
        if (!strstr(frame, "/torch/") && !strstr(frame, "site-packages/"))
            return frame;
        uint32_t parent = trace->stack.parent[at];
        at = parent == AN_NONE ? -1 : (long long)parent;
    }
    return "";
}

/* Fills a row from the entries of one group. */
static int look_at_group(struct an_context *context, struct entry *entry, size_t count,
                         struct an_flight_group *out)
{
    const struct an_trace *trace = context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[entry[0].slice]);
    struct progress *progress = calloc(count, sizeof *progress);
    int64_t behind;
    if (!progress)
        return TACHO_ENOMEM;
    size_t ranks = find_progress(entry, count, progress);
    complete_retired(entry, count, progress, ranks);
    *out = (struct an_flight_group){.stuck = STORE_ABSENT,
                                    .stuck_name = "",
                                    .stuck_at = "",
                                    .seen = (int64_t)ranks,
                                    .ranks = detail->ranks > 0 ? detail->ranks : (int64_t)ranks,
                                    .completed_low = INT64_MAX,
                                    .completed_high = -1};
    const char *name = strstr(detail->payload, "\"group\":\"");
    size_t length = name ? strcspn(name + 9, "\"") : 0;
    out->name = an_arena_format(context->arena, "%.*s", (int)length, name ? name + 9 : "");
    for (size_t i = 0; i < ranks; i++) {
        out->completed_low =
            progress[i].completed < out->completed_low ? progress[i].completed : out->completed_low;
        out->completed_high = progress[i].completed > out->completed_high ? progress[i].completed
                                                                          : out->completed_high;
    }
    out->behind = ranks_text(context, progress, ranks, is_behind, out->completed_low, &behind);
    out->missing = missing_text(context, progress, ranks, out->ranks);
    out->mismatch = find_mismatch(context, entry, count);
    for (size_t i = 0; i < count && out->stuck == STORE_ABSENT; i++) {
        if (entry[i].completed || entry[i].number <= out->completed_low)
            continue;
        const struct an_detail *own = an_trace_detail(trace, trace->slice.detail[entry[i].slice]);
        int64_t late;
        out->stuck = entry[i].number;
        out->stuck_name = own->collective;
        out->stuck_at = called_at(trace, own);
        const char *not_issued =
            ranks_text(context, progress, ranks, has_not_issued, out->stuck, &late);
        out->absent = late > 0;
        if (late)
            out->behind = not_issued;
    }
    free(progress);
    return out->name && out->behind && out->missing ? 0 : TACHO_ENOMEM;
}

/* One sentence about the first group that hangs. */
static const char *sentence_of(struct an_context *context, const struct an_flight_group *group)
{
    const char *at = *group->stuck_at ? group->stuck_at : "an unknown place";
    if (group->mismatch)
        return an_arena_format(
            context->arena,
            "in group %s the ranks disagree: %s. They never meet: make every rank "
            "call the same collectives in the same order with the same sizes.",
            group->name, group->mismatch);
    if (*group->missing)
        return an_arena_format(context->arena,
                               "group %s waits in number %" PRId64
                               " (%s, called at %s); there is no "
                               "dump of rank %s: look at these first.",
                               group->name, group->stuck, group->stuck_name, at, group->missing);
    if (group->absent)
        return an_arena_format(context->arena,
                               "group %s waits in number %" PRId64
                               " (%s, called at %s) for rank %s, "
                               "which has not issued it.",
                               group->name, group->stuck, group->stuck_name, at, group->behind);
    if (group->completed_low == group->completed_high && group->seen > 1)
        return an_arena_format(
            context->arena,
            "group %s waits in number %" PRId64 " (%s, called at %s): rank %s did "
            "not complete it, and every dump stops there. Where all ranks issued "
            "it, look at the network and at NCCL_DEBUG=INFO.",
            group->name, group->stuck, group->stuck_name, at, group->behind);
    return an_arena_format(context->arena,
                           "group %s waits in number %" PRId64 " (%s, called at %s) for rank %s, "
                           "which has completed fewest.",
                           group->name, group->stuck, group->stuck_name, at, group->behind);
}

static int flight_run(struct an_context *context)
{
    struct an_flight *flight = &context->result->flight;
    struct an_flight_group *group = an_arena_zero(context->arena, GROUPS_MOST, sizeof *group);
    struct entry *entry = NULL;
    size_t count = 0;
    *flight = (struct an_flight){.reason = "no flight recorder dump", .sentence = ""};
    int rc = group ? list_entries(context->trace, &entry, &count) : TACHO_ENOMEM;
    for (size_t i = 0, next; i < count && !rc && flight->group_count < GROUPS_MOST; i = next) {
        for (next = i + 1; next < count && entry[next].communicator == entry[i].communicator;)
            next++;
        rc = look_at_group(context, &entry[i], next - i, &group[flight->group_count]);
        if (rc)
            break;
        const struct an_flight_group *own = &group[flight->group_count++];
        if (!*flight->sentence && (own->stuck != STORE_ABSENT || own->mismatch))
            flight->sentence = sentence_of(context, own);
    }
    free(entry);
    flight->group = group;
    if (flight->group_count)
        flight->reason = NULL;
    return rc || flight->sentence ? rc : TACHO_ENOMEM;
}

static void flight_absent(struct an_context *context, const char *reason)
{
    context->result->flight = (struct an_flight){.reason = reason, .sentence = ""};
}

const struct an_analyzer an_flights = {
    .name = "flight",
    .help = "flight recorders: which rank the others wait for",
    .after = "steps",
    .needs = AN_INPUT_SLICES,
    .run = flight_run,
    .absent = flight_absent,
};
