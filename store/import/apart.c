/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures of different times or runs that lie in one folder. The files of a folder are ranks of
 * one run, and where nothing numbers them they are counted. But ranks run at the same time, and in
 * a job of more than one.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/files.h"
#include "store/import/input/list.h"

/* Clocks of hosts that are set over the network differ by less. */
#define CLOCKS_DIFFER INT64_C(1000000000)
#define CALENDAR      INT64_C(1000000000000000000) /* ns since 1970: in 2001 */
#define NAMES_BYTES   256                          /* of the names in the message */
#define NUMBERS       3                            /* in a name: of the node, of the device */

int imp_windows_begin(struct imp_windows *windows, struct imp_run *run)
{
    run->rank_counted = run->rank_twice = run->rank_traced = false;
    run->world = STORE_ABSENT;
    int rc = store_newest(run->db, STORE_GROWING_SLICE, &windows->slice);
    return rc ? rc : store_newest(run->db, STORE_GROWING_STEP, &windows->step);
}

int imp_windows_end(struct imp_windows *windows, const struct imp_run *run,
                    const struct imp_file *file)
{
    struct imp_window window = {.file = file,
                                .counted = run->rank_counted,
                                .twice = run->rank_twice,
                                .traced = run->rank_traced,
                                .world = run->world};
    struct store_extent slices, steps;
    int rc = store_extent(run->db, STORE_GROWING_SLICE, windows->slice, &slices);
    if (!rc)
        rc = store_extent(run->db, STORE_GROWING_STEP, windows->step, &steps);
    if (rc || (!slices.known && !steps.known) || !file->from_folder || file->of_session)
        return rc;
    window.works = steps.known;
    if (slices.known && !steps.known)
        rc = store_any_device(run->db, windows->slice, &window.works);
    if (rc)
        return rc;
    if (!slices.known)
        slices = steps;
    else if (steps.known) {
        slices.start = steps.start < slices.start ? steps.start : slices.start;
        slices.end = steps.end > slices.end ? steps.end : slices.end;
    }
    window.start = slices.start;
    window.end = slices.end;
    rc = imp_list_room((void **)&windows->window, &windows->room, windows->count, sizeof window);
    if (!rc)
        windows->window[windows->count++] = window;
    return rc;
}

void imp_windows_clear(struct imp_windows *windows)
{
    free(windows->window);
    *windows = (struct imp_windows){0};
}

/* ---- the judgement -------------------------------------------------------------------------------------------------------------- */

/* Are the times of a window those of a calendar? Else they count from the start of a machine or of
 * a program. */
static bool of_calendar(const struct imp_window *window)
{
    return window->start >= CALENDAR;
}

/* The time that torch.profiler puts into the name of a file, host_pid.time.pt.trace.json, with what
 * follows it; NULL: another name. */
static const char *torch_time(const char *name)
{
    const char *end = strstr(name, ".pt.trace.json"), *begin = end;
    while (begin && begin > name && isdigit((unsigned char)begin[-1]))
        begin--;
    return begin && begin != end && begin > name && begin[-1] == '.' ? begin - 1 : NULL;
}

/* Which host a file is of: the one in its name, else its folder. Returns the bytes from the start
 * of *host. */
static size_t host_of(const struct imp_window *window, const char **host)
{
    const char *path = window->file->path, *name = basename(path), *pid = torch_time(name);
    const char *end = pid;
    while (pid && pid > name && isdigit((unsigned char)pid[-1]))
        pid--;
    bool named = pid && pid != end && pid > name + 1 && pid[-1] == '_';
    *host = named ? name : path;
    return (size_t)(named ? pid - 1 - name : name - path);
}

static int by_host(const struct imp_window *left, const struct imp_window *right)
{
    const char *first, *second;
    size_t bytes = host_of(left, &first), others = host_of(right, &second);
    if (bytes != others)
        return bytes < others ? -1 : 1;
    return memcmp(first, second, bytes);
}

/* Clocks compare within one input and one format, and such as are not of a calendar within one
 * host. */
static int same_clock(const struct imp_window *left, const struct imp_window *right)
{
    if (of_calendar(left) != of_calendar(right))
        return of_calendar(left) ? 1 : -1;
    if (left->file->input != right->file->input)
        return left->file->input < right->file->input ? -1 : 1;
    if (left->file->format != right->file->format)
        return left->file->format < right->file->format ? -1 : 1;
    return of_calendar(left) ? 0 : by_host(left, right);
}

/* Those that work come first. */
static int by_time(const void *left, const void *right)
{
    const struct imp_window *first = left, *second = right;
    int order = same_clock(first, second);
    if (!order)
        order = second->works - first->works;
    return order ? order : (first->start > second->start) - (first->start < second->start);
}

static int by_name(const void *left, const void *right)
{
    return strverscmp(((const struct imp_window *)left)->file->path,
                      ((const struct imp_window *)right)->file->path);
}

/* Are some of these windows, which are of one clock and sorted by start, apart from the others, and
 * have only ranks that were counted? */
static bool any_apart(const struct imp_window *window, size_t count)
{
    int64_t end = window[0].end;
    bool counted = true, apart = false;
    for (size_t i = 0; i < count; i++) {
        if (window[i].start > end && window[i].start - end > CLOCKS_DIFFER) {
            if (counted)
                return true;
            apart = counted = true;
        }
        counted = counted && window[i].counted;
        end = window[i].end > end ? window[i].end : end;
    }
    return apart && counted;
}

/* Does a file say that its job has no other rank, where ranks had to be counted? */
static bool any_alone(const struct imp_window *window, size_t count)
{
    bool counted = false, alone = false;
    for (size_t i = 0; i < count; i++) {
        counted |= window[i].counted;
        alone |= window[i].world == 1;
    }
    return count > 1 && counted && alone;
}

/* The path of a file below the folder. */
static const char *below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0)
        return basename(path);
    path += length;
    return path + strspn(path, "/");
}

/* Bytes of a number that begins here, or, behind a separator, of a single letter; 0: none. */
static size_t number_at(const char *text, bool separated, int64_t *number)
{
    size_t bytes = strspn(text, "0123456789");
    *number = bytes ? strtol(text, NULL, 10) : tolower((unsigned char)*text) - 'a';
    if (bytes)
        return bytes < 10 ? bytes : 0;
    return separated && isalpha((unsigned char)*text) && !isalnum((unsigned char)text[1]);
}

/* Bytes of a word that numbers ranks and the separator behind it, if a number follows; 0: none. */
static size_t rank_word(const char *text)
{
    static const char *const words[] = {"worker", "gpu",    "proc",       "process", "node",
                                        "host",   "device", "local_rank", "rank"};
    int64_t number;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t bytes = strlen(words[i]);
        if (strncasecmp(text, words[i], bytes) != 0)
            continue;
        bool separated = text[bytes] && strchr("_-.=", text[bytes]);
        if (number_at(text + bytes + separated, separated, &number))
            return bytes + separated;
    }
    return 0;
}

/* Writes a name with a mark in the place of each number of a rank, without the time of
 * torch.profiler. Returns how many there are; those from the NUMBERS-th on stay. */
static size_t take_numbers(const char *name, char form[PATH_MAX], int64_t number[NUMBERS])
{
    const char *time = torch_time(basename(name));
    size_t count = 0, out = 0;
    for (const char *at = name; *at && at != time && out < PATH_MAX - 16;) {
        bool begins = at == name || !isalpha((unsigned char)at[-1]);
        size_t word = begins && count < NUMBERS ? rank_word(at) : 0;
        if (!word) {
            form[out++] = *at++;
            continue;
        }
        memcpy(form + out, at, word);
        out += word;
        at += word;
        form[out++] = isdigit((unsigned char)*at) ? '\1' : '\2';
        at += number_at(at, true, &number[count++]);
    }
    form[out] = '\0';
    return count;
}

static int by_number(const void *left, const void *right)
{
    int64_t first = *(const int64_t *)left, second = *(const int64_t *)right;
    return (first > second) - (first < second);
}

/* Are these numbers, which it sorts, 0 to n-1 or 1 to n? *varies: there are several. */
static bool are_consecutive(int64_t *number, size_t count, bool *varies)
{
    qsort(number, count, sizeof *number, by_number);
    if (number[0] == number[count - 1])
        return true;
    *varies = true;
    for (size_t i = 1; i < count; i++)
        if (number[i] - number[i - 1] > 1)
            return false;
    return number[0] == 0 || number[0] == 1;
}

/* Do the names of these files number ranks: worker0, worker1, or node-a-gpu0, node-a-gpu1,
 * node-b-gpu0? They differ in nothing else. But what a trace says itself is worth more. */
static bool are_numbered(const struct imp_window *window, size_t count, const char *folder)
{
    char form[PATH_MAX], first[PATH_MAX];
    int64_t own[NUMBERS], *number = calloc(count * NUMBERS, sizeof *number);
    size_t numbers = 0;
    bool same = number != NULL, varies = false;
    for (size_t i = 0; same && i < count; i++) {
        same = !window[i].twice || !window[i].traced;
        if (!same)
            break;
        size_t found = take_numbers(below(window[i].file->path, folder), i ? form : first, own);
        if (!i)
            numbers = found;
        same = found && found == numbers && (!i || !strcmp(form, first));
        for (size_t k = 0; same && k < numbers; k++)
            number[k * count + i] = own[k];
    }
    for (size_t k = 0; same && k < numbers; k++)
        same = are_consecutive(number + k * count, count, &varies);
    free(number);
    return same && varies;
}

/* Fails, and names the first files. */
static int not_ranks(struct imp_window *window, size_t count, const char *folder, const char *why,
                     struct tacho_error *err)
{
    char names[NAMES_BYTES] = "";
    size_t bytes = 0, named = 0;
    bool twice = false;
    for (size_t i = 0; i < count; i++)
        twice |= window[i].twice;
    qsort(window, count, sizeof *window, by_name);
    for (; named < count; named++) {
        const char *name = below(window[named].file->path, folder);
        if (bytes + strlen(name) + 3 > sizeof names)
            break;
        bytes +=
            (size_t)snprintf(names + bytes, sizeof names - bytes, "%s%s", named ? ", " : "", name);
    }
    char more[48] = "";
    if (named < count)
        snprintf(more, sizeof more, "%s%zu more", named ? " and " : "", count - named);
    return tacho_fail(
        err, TACHO_EUSAGE,
        twice ? "give one cycle of the profiler, each rank once: 'tacho import FILES -o OUT'; or "
                "compare two cycles with 'tacho diff'"
              : "give one of these files, or compare two with 'tacho diff'; if they are ranks "
                "whose clocks differ, name them rank0, rank1 ..., or give the files and not "
                "the folder: 'tacho import FILES -o OUT'",
        "%s: %zu captures that are not ranks of one run: %s: %s%s", folder, count, why, names,
        more);
}

int imp_windows_judge(struct imp_windows *windows, const char *folder, struct tacho_error *err)
{
    struct imp_window *window = windows->window;
    if (windows->count)
        qsort(window, windows->count, sizeof *window, by_time);
    for (size_t i = 0, count; i < windows->count; i += count) {
        for (count = 1; i + count < windows->count && !same_clock(&window[i], &window[i + count]);)
            count++;
        /* What a launcher did beside them says nothing. */
        size_t judged = 0;
        while (judged < count && window[i + judged].works == window[i].works)
            judged++;
        if (are_numbered(window + i, judged, folder))
            continue;
        if (any_alone(window + i, judged))
            return not_ranks(window + i, judged, folder, "each is of a job of one process", err);
        if (any_apart(window + i, judged))
            return not_ranks(window + i, judged, folder, "they were made at different times", err);
    }
    return 0;
}
