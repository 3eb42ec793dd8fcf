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

#define MEMBERS_MOST 65536 /* of one group, where the dump says which they are */
#define LIST_MOST    160

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
    bool no_dump;                    /* there is none of it */
    bool waits;                      /* in another group, for a rank that holds that up */
};

/* How well it is known who holds up a group, the best last. */
enum evidence {
    EVIDENCE_NONE,
    EVIDENCE_WAITS,  /* who has not issued it waits in another group */
    EVIDENCE_STOPS,  /* all issued the same, none completed it */
    EVIDENCE_ISSUED, /* ... but some issued fewer after it */
    EVIDENCE_COMPLETED,
    EVIDENCE_NO_DUMP,
    EVIDENCE_NOT_ISSUED,
    EVIDENCE_MISMATCH
};

/* A group that was looked at, until the one to speak of is chosen. */
struct looked {
    struct progress *progress;
    size_t ranks;
    enum evidence evidence;
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
            snprintf(text + used, LIST_MOST - used, " ...");
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
    return progress->issued >= 0 && progress->completed == number;
}

static bool has_not_issued(const struct progress *progress, int64_t number)
{
    return progress->issued < number && !progress->no_dump;
}

static bool is_last_issued(const struct progress *progress, int64_t number)
{
    return progress->issued == number;
}

static bool holds_up(const struct progress *progress, int64_t number)
{
    return has_not_issued(progress, number) && !progress->waits;
}

static bool has_no_dump(const struct progress *progress, int64_t number)
{
    (void)number;
    return progress->no_dump;
}

/* The ranks of a group that have no dump, where its members are not known: if they can be the first
 * `size` ranks. */
static const char *missing_text(struct an_context *context, const struct progress *progress,
                                size_t ranks, int64_t size)
{
    char text[LIST_MOST] = "";
    int64_t next = 0;
    if (size <= (int64_t)ranks || progress[ranks - 1].rank >= size)
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

static int rank_order(const void *left, const void *right)
{
    return AN_COMPARE(*(const int64_t *)left, *(const int64_t *)right);
}

/* How far each rank came in the entries of one group. Under each number the ranks come in the same
 * order, so the next one is looked for first. */
static size_t find_progress(const struct entry *entry, size_t count, struct progress *progress)
{
    size_t ranks = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t others = 0;
        for (; others < ranks && progress[at].rank != entry[i].rank; others++)
            at = at + 1 < ranks ? at + 1 : 0;
        if (others == ranks) {
            at = ranks++;
            progress[at] = (struct progress){.rank = entry[i].rank, .issued = -1, .completed = -1};
        }
        if (entry[i].number > progress[at].issued)
            progress[at].issued = entry[i].number;
        if (entry[i].completed && entry[i].number > progress[at].completed)
            progress[at].completed = entry[i].number;
    }
    qsort(progress, ranks, sizeof *progress, progress_order);
    return ranks;
}

/* Completes what was retired and issued by all ranks that have entries of the group: the dump of
 * another one may have lost them, as it keeps the last ones only. */
static void complete_retired(struct entry *entry, size_t count, struct progress *progress,
                             size_t ranks)
{
    int64_t issued = INT64_MAX;
    for (size_t i = 0; i < ranks; i++)
        if (progress[i].issued >= 0 && progress[i].issued < issued)
            issued = progress[i].issued;
    for (size_t i = 0; i < count; i++) {
        if (!entry[i].retired || entry[i].number > issued)
            continue;
        const struct progress key = {.rank = entry[i].rank};
        struct progress *own = bsearch(&key, progress, ranks, sizeof key, progress_order);
        entry[i].completed = true;
        if (own && entry[i].number > own->completed)
            own->completed = entry[i].number;
    }
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

static bool has_dump(const struct an_trace *trace, int64_t rank)
{
    for (size_t i = 0; i < trace->process_count; i++)
        if (trace->process[i].rank == rank)
            return true;
    return false;
}

/* Appends the members of a group that have no entry in it, where the dump says who they are:
 * "members":"0-3,8-56/16". `room`: so many at most. Returns how many ranks there are then. */
static size_t add_members(const struct an_trace *trace, const char *payload,
                          struct progress *progress, size_t ranks, size_t room)
{
    const char *text = strstr(payload, "\"members\":\"");
    size_t known = ranks;
    char *end = NULL;
    for (text = text ? text + 11 : ""; *text >= '0' && *text <= '9'; text = end + (*end == ',')) {
        int64_t first = strtoll(text, &end, 10), last = first, step = 1;
        if (*end == '-')
            last = strtoll(end + 1, &end, 10);
        if (*end == '/')
            step = strtoll(end + 1, &end, 10);
        if (step < 1 || last > INT32_MAX || step > INT32_MAX)
            continue;
        for (int64_t rank = first; rank <= last && ranks < known + room; rank += step) {
            struct progress member = {.rank = rank, .issued = -1, .completed = -1};
            if (bsearch(&member, progress, known, sizeof member, progress_order))
                continue;
            member.no_dump = !has_dump(trace, rank);
            progress[ranks++] = member;
        }
    }
    qsort(progress, ranks, sizeof *progress, progress_order);
    return ranks;
}

/* The lowest and highest numbers that ranks completed. *fewest: the highest number that each rank
 * issued which issued one at all; false: some issued more. */
static bool find_ends(const struct looked *looked, struct an_flight_group *out, int64_t *fewest)
{
    int64_t most = -1;
    *fewest = out->completed_low = INT64_MAX;
    out->completed_high = -1;
    for (size_t i = 0; i < looked->ranks; i++) {
        const struct progress *progress = &looked->progress[i];
        if (progress->issued < 0)
            continue;
        if (progress->completed < out->completed_low)
            out->completed_low = progress->completed;
        if (progress->completed > out->completed_high)
            out->completed_high = progress->completed;
        *fewest = progress->issued < *fewest ? progress->issued : *fewest;
        most = progress->issued > most ? progress->issued : most;
    }
    if (most < 0)
        out->completed_low = -1;
    return most < 0 || *fewest == most;
}

/* The first collective that not all ranks completed: what it is, and who did not issue it. */
static void find_stuck(struct an_context *context, const struct entry *entry, size_t count,
                       struct looked *looked, struct an_flight_group *out)
{
    const struct an_trace *trace = context->trace;
    int64_t late = 0, fewest;
    bool even = find_ends(looked, out, &fewest);
    out->behind =
        ranks_text(context, looked->progress, looked->ranks, is_behind, out->completed_low, &late);
    for (size_t i = 0; i < count && out->stuck == STORE_ABSENT; i++) {
        if (entry[i].completed || entry[i].number <= out->completed_low)
            continue;
        const struct an_detail *own = an_trace_detail(trace, trace->slice.detail[entry[i].slice]);
        out->stuck = entry[i].number;
        out->stuck_name = own->collective;
        out->stuck_at = called_at(trace, own);
    }
    if (out->stuck == STORE_ABSENT)
        return;
    const char *who =
        ranks_text(context, looked->progress, looked->ranks, has_not_issued, out->stuck, &late);
    out->absent = late > 0;
    looked->evidence = EVIDENCE_STOPS;
    if (out->absent) {
        looked->evidence = EVIDENCE_NOT_ISSUED;
        out->behind = who;
    } else if (out->completed_low != out->completed_high) {
        looked->evidence = EVIDENCE_COMPLETED;
    } else if (!even) {
        looked->evidence = EVIDENCE_ISSUED;
        out->behind =
            ranks_text(context, looked->progress, looked->ranks, is_last_issued, fewest, &late);
    }
    if (*out->missing)
        looked->evidence = EVIDENCE_NO_DUMP;
}

/* Fills a row from the entries of one group. */
static int look_at_group(struct an_context *context, struct entry *entry, size_t count,
                         struct looked *looked, struct an_flight_group *out)
{
    const struct an_trace *trace = context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[entry[0].slice]);
    size_t members = (size_t)an_time_min(detail->ranks > 0 ? detail->ranks : 0, MEMBERS_MOST);
    struct progress *progress = calloc(count + members, sizeof *progress);
    int64_t without;
    looked->progress = progress;
    if (!progress)
        return TACHO_ENOMEM;
    size_t seen = find_progress(entry, count, progress);
    looked->ranks = add_members(trace, detail->payload, progress, seen, members);
    complete_retired(entry, count, progress, looked->ranks);
    *out = (struct an_flight_group){.stuck = STORE_ABSENT,
                                    .stuck_name = "",
                                    .stuck_at = "",
                                    .seen = (int64_t)seen,
                                    .ranks = detail->ranks > 0 ? detail->ranks : (int64_t)seen};
    const char *name = strstr(detail->payload, "\"group\":\"");
    size_t length = name ? strcspn(name + 9, "\"") : 0;
    out->name = an_arena_format(context->arena, "%.*s", (int)length, name ? name + 9 : "");
    out->missing = strstr(detail->payload, "\"members\":")
                       ? ranks_text(context, progress, looked->ranks, has_no_dump, 0, &without)
                       : missing_text(context, progress, seen, out->ranks);
    out->mismatch = find_mismatch(context, entry, count);
    if (!out->missing)
        return TACHO_ENOMEM;
    find_stuck(context, entry, count, looked, out);
    if (out->mismatch)
        looked->evidence = EVIDENCE_MISMATCH;
    return out->name && out->behind ? 0 : TACHO_ENOMEM;
}

/* ---- which group to speak of ---------------------------------------------------------------------------------------------- */

static bool waits_for_rank(enum evidence evidence)
{
    return evidence == EVIDENCE_NOT_ISSUED || evidence == EVIDENCE_NO_DUMP;
}

/* Marks those that hold a group up because they wait in another one, for a rank that holds that up
 * or has no dump: they are not the cause. */
static int mark_waiting(struct looked *looked, const struct an_flight_group *group, size_t count)
{
    int64_t *waiting = NULL;
    size_t waits = 0, room = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; waits_for_rank(looked[i].evidence) && k < looked[i].ranks; k++) {
            if (looked[i].progress[k].issued < group[i].stuck)
                continue;
            if (an_grow(&waiting, &room, waits + 1, sizeof *waiting)) {
                free(waiting);
                return TACHO_ENOMEM;
            }
            waiting[waits++] = looked[i].progress[k].rank;
        }
    if (waits)
        qsort(waiting, waits, sizeof *waiting, rank_order);
    for (size_t i = 0; i < count && waits; i++) {
        bool any = false;
        for (size_t k = 0; k < looked[i].ranks; k++) {
            looked[i].progress[k].waits = bsearch(&looked[i].progress[k].rank, waiting, waits,
                                                  sizeof *waiting, rank_order) != NULL;
            any |= holds_up(&looked[i].progress[k], group[i].stuck);
        }
        if (looked[i].evidence == EVIDENCE_NOT_ISSUED && !any)
            looked[i].evidence = EVIDENCE_WAITS;
    }
    free(waiting);
    return 0;
}

/* Of groups that are known equally well, that which names most: ranks that hold it up, have no
 * dump, or are in it. */
static int64_t names(struct an_context *context, const struct looked *looked,
                     const struct an_flight_group *group)
{
    int64_t count = (int64_t)looked->ranks;
    if (looked->evidence == EVIDENCE_NOT_ISSUED)
        ranks_text(context, looked->progress, looked->ranks, holds_up, group->stuck, &count);
    if (looked->evidence == EVIDENCE_NO_DUMP)
        ranks_text(context, looked->progress, looked->ranks, has_no_dump, 0, &count);
    return looked->evidence == EVIDENCE_MISMATCH ? 0 : count;
}

/* One sentence about a group that hangs; `who`: the ranks that hold it up. */
static const char *sentence_of(struct an_context *context, const struct an_flight_group *group,
                               enum evidence evidence, const char *who)
{
    static const char *const parts[][2] = {
        [EVIDENCE_WAITS] = {" for rank ", ", which waits in another group."},
        [EVIDENCE_STOPS] = {": rank ",
                            " did not complete it, and every dump stops there. Where all "
                            "ranks issued it, look at the network and at "
                            "NCCL_DEBUG=INFO."},
        [EVIDENCE_ISSUED] = {": all issued it and none completed it. Rank ",
                             " issued fewest after it: look at these first."},
        [EVIDENCE_COMPLETED] = {" for rank ", ", which has completed fewest."},
        [EVIDENCE_NO_DUMP] = {"; there is no dump of rank ", ": look at these first."},
        [EVIDENCE_NOT_ISSUED] = {" for rank ", ", which has not issued it."}};
    if (evidence == EVIDENCE_MISMATCH)
        return an_arena_format(
            context->arena,
            "in group %s the ranks disagree: %s. They never meet: make every rank "
            "call the same collectives in the same order with the same sizes.",
            group->name, group->mismatch);
    return an_arena_format(context->arena,
                           "group %s waits in number %" PRId64 " (%s, called at %s)%s%s%s",
                           group->name, group->stuck, group->stuck_name,
                           *group->stuck_at ? group->stuck_at : "an unknown place",
                           parts[evidence][0], who, parts[evidence][1]);
}

/* Adds the ranks that hold up another group without waiting themselves, and are not named yet. */
static const char *add_others(struct an_context *context, const char *sentence,
                              struct looked *looked, const struct an_flight_group *group,
                              size_t count, size_t named)
{
    int64_t most = 0;
    size_t best = named;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; i != named && k < looked[i].ranks; k++) {
            const struct progress *same =
                bsearch(&looked[i].progress[k], looked[named].progress, looked[named].ranks,
                        sizeof *same, progress_order);
            looked[i].progress[k].waits |= same && holds_up(same, group[named].stuck);
        }
        if (i == named || looked[i].evidence != EVIDENCE_NOT_ISSUED)
            continue;
        int64_t more = names(context, &looked[i], &group[i]);
        best = more > most ? i : best;
        most = more > most ? more : most;
    }
    if (best == named || !sentence)
        return sentence;
    const char *who = ranks_text(context, looked[best].progress, looked[best].ranks, holds_up,
                                 group[best].stuck, &most);
    return who ? an_arena_format(context->arena, "%s Group %s waits for rank %s.", sentence,
                                 group[best].name, who)
               : NULL;
}

/* What is said of the group that is known best; "": nothing hangs. NULL: no memory. */
static const char *speak(struct an_context *context, struct looked *looked,
                         const struct an_flight_group *group, size_t count)
{
    size_t best = 0;
    int64_t most = -1, who_count;
    for (size_t i = 0; i < count; i++) {
        int64_t named =
            looked[i].evidence < looked[best].evidence ? -1 : names(context, &looked[i], &group[i]);
        if (looked[i].evidence > looked[best].evidence || named > most) {
            best = i;
            most = named;
        }
    }
    if (!count || looked[best].evidence == EVIDENCE_NONE)
        return "";
    const struct an_flight_group *own = &group[best];
    const char *who = own->behind;
    if (looked[best].evidence == EVIDENCE_NO_DUMP)
        who = own->missing;
    if (looked[best].evidence == EVIDENCE_NOT_ISSUED)
        who = ranks_text(context, looked[best].progress, looked[best].ranks, holds_up, own->stuck,
                         &who_count);
    const char *sentence = who ? sentence_of(context, own, looked[best].evidence, who) : NULL;
    return looked[best].evidence == EVIDENCE_NOT_ISSUED
               ? add_others(context, sentence, looked, group, count, best)
               : sentence;
}

static size_t count_groups(const struct entry *entry, size_t count)
{
    size_t groups = count > 0;
    for (size_t i = 1; i < count; i++)
        groups += entry[i].communicator != entry[i - 1].communicator;
    return groups;
}

static int flight_run(struct an_context *context)
{
    struct an_flight *flight = &context->result->flight;
    struct entry *entry = NULL;
    size_t count = 0;
    *flight = (struct an_flight){.reason = "no flight recorder dump", .sentence = ""};
    int rc = list_entries(context->trace, &entry, &count);
    size_t groups = count_groups(entry, count);
    struct an_flight_group *group = an_arena_zero(context->arena, groups, sizeof *group);
    struct looked *looked = calloc(groups + 1, sizeof *looked);
    rc = rc || (group && looked) ? rc : TACHO_ENOMEM;
    for (size_t i = 0, next; i < count && !rc; i = next) {
        for (next = i + 1; next < count && entry[next].communicator == entry[i].communicator;)
            next++;
        size_t at = flight->group_count++;
        rc = look_at_group(context, &entry[i], next - i, &looked[at], &group[at]);
    }
    if (!rc)
        rc = mark_waiting(looked, group, flight->group_count);
    if (!rc)
        flight->sentence = speak(context, looked, group, flight->group_count);
    for (size_t i = 0; looked && i < groups; i++)
        free(looked[i].progress);
    free(looked);
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
