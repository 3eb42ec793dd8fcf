/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures of different times or runs that lie in one folder. The files of a folder are ranks of
 * one run, and where nothing numbers them they are counted. But ranks run at the same time, and in
 * a job of more than one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/files.h"
#include "store/import/input/list.h"

/* Clocks of hosts that are set over the network differ by less. */
#define CLOCKS_DIFFER INT64_C(1000000000)
#define CALENDAR      INT64_C(1000000000000000000) /* ns since 1970: in 2001 */
#define NAMES_BYTES   256                          /* of the names in the message */

int imp_windows_begin(struct imp_windows *windows, struct imp_run *run)
{
    run->rank_counted = false;
    run->world = STORE_ABSENT;
    int rc = store_newest(run->db, STORE_GROWING_SLICE, &windows->slice);
    return rc ? rc : store_newest(run->db, STORE_GROWING_STEP, &windows->step);
}

/* The window that the present file goes on with; NULL: it has one of its own. The event files of
 * one folder are of one program, which may have been started again. */
static struct imp_window *same_program(const struct imp_windows *windows,
                                       const struct imp_file *file)
{
    struct imp_window *last = windows->count ? &windows->window[windows->count - 1] : NULL;
    if (!last || file->format != STORE_FORMAT_TFEVENTS || last->file->format != file->format)
        return NULL;
    ptrdiff_t folder = basename(file->path) - file->path;
    return folder == basename(last->file->path) - last->file->path &&
                   !strncmp(file->path, last->file->path, (size_t)folder)
               ? last
               : NULL;
}

int imp_windows_end(struct imp_windows *windows, const struct imp_run *run,
                    const struct imp_file *file)
{
    struct imp_window window = {.file = file, .counted = run->rank_counted, .world = run->world};
    struct store_extent slices, steps;
    int rc = store_extent(run->db, STORE_GROWING_SLICE, windows->slice, &slices);
    if (!rc)
        rc = store_extent(run->db, STORE_GROWING_STEP, windows->step, &steps);
    if (rc || (!slices.known && !steps.known) || !file->from_folder || file->of_session)
        return rc;
    if (!slices.known)
        slices = steps;
    else if (steps.known) {
        slices.start = steps.start < slices.start ? steps.start : slices.start;
        slices.end = steps.end > slices.end ? steps.end : slices.end;
    }
    struct imp_window *before = same_program(windows, file);
    if (before) {
        before->start = slices.start < before->start ? slices.start : before->start;
        before->end = slices.end > before->end ? slices.end : before->end;
        return 0;
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

/* Clocks compare within one folder and one format. */
static int same_clock(const struct imp_window *left, const struct imp_window *right)
{
    if (of_calendar(left) != of_calendar(right))
        return of_calendar(left) ? 1 : -1;
    if (left->file->input != right->file->input)
        return left->file->input < right->file->input ? -1 : 1;
    return (left->file->format > right->file->format) - (left->file->format < right->file->format);
}

static int by_time(const void *left, const void *right)
{
    const struct imp_window *first = left, *second = right;
    int order = same_clock(first, second);
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

/* Fails, and names the first files. */
static int not_ranks(struct imp_window *window, size_t count, const char *folder, const char *why,
                     struct tacho_error *err)
{
    char names[NAMES_BYTES] = "";
    size_t bytes = 0, named = 0;
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
        "give one of these files, or compare two with 'tacho diff'; if they are ranks "
        "whose clocks differ, name them rank0, rank1 ..., or give the files and not "
        "the folder",
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
        if (any_alone(window + i, count))
            return not_ranks(window + i, count, folder, "each is of a job of one process", err);
        if (any_apart(window + i, count))
            return not_ranks(window + i, count, folder, "they were made at different times", err);
    }
    return 0;
}
