/* SPDX-License-Identifier: Apache-2.0
 *
 * What the names of tasks and of folders of an Ascend capture say.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "store/import/ascend/ascend_private.h"
#include "store/import/input/importer.h"

#define RANK_MOST (1 << 24)

static bool begins_with_one(const char *text, size_t bytes, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        if (bytes >= length && !memcmp(text, words[i], length))
            return true;
    }
    return false;
}

enum ascend_task ascend_task_of(const char *text, size_t bytes)
{
    static const char *const waits[] = {"EVENT",       "NOTIFY",  "PLACE_HOLDER",
                                        "WRITE_VALUE", "CAPTURE", "MODEL_",
                                        "PROFILER",    "STREAM_", "LABEL"};
    static const char *const copies[] = {"MEMCPY", "PCIE_DMA", "SDMA", "Memcpy"};
    if (begins_with_one(text, bytes, copies, sizeof copies / sizeof *copies))
        return ASCEND_TASK_COPY;
    return begins_with_one(text, bytes, waits, sizeof waits / sizeof *waits) ? ASCEND_TASK_WAIT
                                                                             : ASCEND_TASK_KERNEL;
}

/* Length of the path of the folder that a capture of a framework fills; 0: the path names none. */
static size_t capture_length(const char *path)
{
    static const char *const ends[] = {"_ascend_pt/", "_ascend_ms/"};
    const char *found = strstr(path, "/ASCEND_PROFILER_OUTPUT/");
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !found; i++)
        if ((found = strstr(path, ends[i])))
            found += strlen(ends[i]) - 1;
    return found ? (size_t)(found - path) : 0;
}

/* The rank in the name of profiler_info_RANK.json; STORE_ABSENT: no such file, or several. */
static int64_t rank_by_settings(const char *folder)
{
    DIR *open = opendir(folder);
    int64_t rank = STORE_ABSENT;
    size_t files = 0;
    struct dirent *entry;
    while (open && (entry = readdir(open))) {
        int number, used = 0;
        if (sscanf(entry->d_name, "profiler_info_%d.json%n", &number, &used) != 1 || !used ||
            entry->d_name[used] || number < 0 || number > RANK_MOST)
            continue;
        rank = number;
        files++;
    }
    if (open)
        closedir(open);
    return files == 1 ? rank : STORE_ABSENT;
}

int64_t ascend_rank_of(const char *path)
{
    char folder[PATH_MAX];
    size_t length = capture_length(path);
    if (!length || length >= sizeof folder)
        return STORE_ABSENT;
    memcpy(folder, path, length);
    folder[length] = '\0';
    int64_t rank = rank_by_settings(folder);
    return rank != STORE_ABSENT ? rank : imp_rank_in_name(folder);
}
