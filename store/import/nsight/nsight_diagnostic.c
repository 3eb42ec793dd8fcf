/* SPDX-License-Identifier: Apache-2.0
 *
 * What Nsight Systems says of its own capture (DIAGNOSTIC_EVENT): messages about events that were
 * lost become rows of `loss`, and so does what the machine did not let it record. The table says
 * how grave it finds a message, but that does not decide: "some CUPTI events might be missing" is
 * no more than information to it, and samples of the processor that it may not take are an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/import/nsight/nsight_private.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))
#define REASONS     32 /* different ones that are kept, each with its first and last time */

enum severity { WARNING = 2, ERROR = 3 };

struct reason {
    char text[264];
    int64_t first, last;
};

/* The messages of one file. `none`: processes (globalPid) of which no event of a kind was
 * collected. `some_cuda`: another process has events of CUDA. */
struct nsight_messages {
    struct imp_map none;
    bool some_cuda;
    struct reason reason[REASONS];
    size_t count;
};
/* Kinds of events as the messages name them; CUDA is the first. */
static const char *const kinds[] = {"CUDA", "NVTX", "OpenGL", "OS runtime libraries"};

/* Index of the kind that a text names; COUNT(kinds): none of them. */
static size_t kind_of(const char *text)
{
    size_t kind = 0;
    while (kind < COUNT(kinds) && !strstr(text, kinds[kind]))
        kind++;
    return kind;
}

/* Notes which processes have no events of a kind. Damage is counted when the messages are read. */
static int count_kinds(struct nsight *nsight)
{
    struct nsight_messages *messages = nsight->messages;
    char table[NSIGHT_NAME_MAX];
    int code = 0;
    if (!nsight_find(nsight, "DIAGNOSTIC_EVENT", table))
        return 0;
    sqlite3_stmt *st = nsight_select(nsight, "SELECT globalPid, text FROM \"%w\"", table);
    while (!code && nsight_next(st)) {
        int64_t process = nsight_int(st, 0);
        const char *text = nsight_text(st, 1);
        if (!text)
            continue;
        if (strstr(text, "Number of CUDA events collected"))
            messages->some_cuda = true;
        if (process >= 0 && !strncmp(text, "No ", 3) && strstr(text, "events collected"))
            code = imp_map_put(&messages->none, process, (int64_t)kind_of(text), 1);
    }
    sqlite3_finalize(st);
    return code;
}

/* Is it a doubt about a kind of which the process has no event at all? Nsight Systems utters it of
 * every process that does not use that kind. Of CUDA it counts if no process has events of it. */
static bool is_idle_doubt(const struct nsight_messages *messages, const char *text, int64_t process)
{
    size_t kind = kind_of(text);
    if (kind == 0 && !messages->some_cuda)
        return false;
    return kind < COUNT(kinds) && process >= 0 &&
           imp_map_find(&messages->none, process, (int64_t)kind);
}

static bool has_one(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasestr(text, words[i]))
            return true;
    return false;
}

/* What a message begins with in the table `loss`; NULL: it says nothing of what is missing. */
static const char *beginning(const struct nsight_messages *messages, int64_t severity,
                             const char *text, int64_t process)
{
    static const char *const denied[] = {"paranoid",
                                         "IP/backtrace",
                                         "context switch data",
                                         "event sampling",
                                         "cannot be traced",
                                         "is not supported by this build"},
                             *const doubts[] = {"events might have been collected",
                                                "might have not been started correctly"},
                             *const words[] = {"lost",       "dropped",  "discard",      "missing",
                                               "incomplete", "overflow", "not collected"};
    if (strcasestr(text, "events might be missing"))
        return "Nsight Systems";
    if ((severity != WARNING && severity != ERROR) || strstr(text, "Does the process use"))
        return NULL;
    if (has_one(text, denied, COUNT(denied)))
        return "not available to Nsight Systems";
    if (has_one(text, doubts, COUNT(doubts)))
        return is_idle_doubt(messages, text, process) ? NULL : "Nsight Systems";
    return severity == ERROR || has_one(text, words, COUNT(words)) ? "Nsight Systems" : NULL;
}

static int write_reason(struct nsight *nsight, const struct reason *reason)
{
    char source[256];
    snprintf(source, sizeof source, "%s", basename(nsight->run->path));
    return store_loss_add(nsight->out, &(struct store_loss){.source = source,
                                                            .reason = reason->text,
                                                            .count = STORE_ABSENT,
                                                            .t0 = reason->first,
                                                            .t1 = reason->last});
}

/* Keeps a reason, or widens the time of the same one: processes repeat each other. */
static int keep(struct nsight *nsight, const struct reason *reason)
{
    struct nsight_messages *messages = nsight->messages;
    for (size_t i = 0; i < messages->count; i++) {
        struct reason *kept = &messages->reason[i];
        if (strcmp(kept->text, reason->text) != 0)
            continue;
        if (reason->first != STORE_ABSENT) {
            if (kept->first == STORE_ABSENT || reason->first < kept->first)
                kept->first = reason->first;
            if (kept->last == STORE_ABSENT || reason->last > kept->last)
                kept->last = reason->last;
        }
        return 0;
    }
    if (messages->count == REASONS)
        return write_reason(nsight, reason);
    messages->reason[messages->count++] = *reason;
    return 0;
}

/* Takes the first line of a message that says that something is missing. */
static int message_row(struct nsight *nsight, sqlite3_stmt *st)
{
    int64_t time = nsight_int(st, 1);
    const char *text = nsight_text(st, 2);
    const char *begins =
        text ? beginning(nsight->messages, nsight_int(st, 0), text, nsight_int(st, 3)) : NULL;
    struct reason reason = {.first = STORE_ABSENT, .last = STORE_ABSENT};
    if (!begins)
        return 0;
    snprintf(reason.text, sizeof reason.text, "%s: %.200s", begins, text);
    reason.text[strcspn(reason.text, "\r\n")] = 0;
    for (char *at = reason.text; (at = strchr(at, '\t'));)
        *at = ' ';
    if (time != STORE_ABSENT && time >= 0 && time <= INT64_MAX / 2)
        reason.first = reason.last = time + nsight->base;
    return keep(nsight, &reason);
}

int nsight_diagnostics(struct nsight *nsight)
{
    static const struct nsight_table take = {
        "DIAGNOSTIC_EVENT", message_row, {"severity", "timestamp", "text", "globalPid"}};
    struct nsight_messages *messages = calloc(1, sizeof *messages);
    if (!messages)
        return TACHO_ENOMEM;
    nsight->messages = messages;
    int code = count_kinds(nsight);
    if (!code)
        code = nsight_read(nsight, &take);
    for (size_t i = 0; !code && i < messages->count; i++)
        code = write_reason(nsight, &messages->reason[i]);
    imp_map_free(&messages->none);
    free(messages);
    nsight->messages = NULL;
    return code;
}
