/* SPDX-License-Identifier: Apache-2.0
 *
 * What the names of tasks and of folders of an Ascend capture say.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/import/ascend/ascend_private.h"
#include "store/import/input/importer.h"

#define RANK_MOST (1 << 24)

/* Does the text begin with one of the words? Case does not count, and ' ' is '_'. */
static bool begins_with_one(struct ascend_text text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]), same = 0;
        while (same < length && same < text.bytes &&
               (text.text[same] == ' ' ? '_' : toupper((unsigned char)text.text[same])) ==
                   words[i][same])
            same++;
        if (same == length)
            return true;
    }
    return false;
}

#define BEGINS(text, words) begins_with_one(text, words, sizeof(words) / sizeof *(words))

enum ascend_task ascend_task_of(struct ascend_text type, struct ascend_text name)
{
    /* a kernel may be called LabelSmoothing: what computes is told by its type alone */
    static const char *const computes[] = {"AI_C", "AI_V", "AIC",  "AIV",
                                           "MIX_", "DSA",  "DVPP", "KERNEL_"};
    static const char *const copies[] = {"MEMCPY", "PCIE_DMA", "SDMA", "REDUCE_ASYNC"};
    static const char *const waits[] = {"EVENT",   "NOTIFY",      "PLACE_HOLDER", "WRITE_VALUE",
                                        "MODEL_",  "PROFIL",      "CAPTURE",      "LABEL",
                                        "STREAM_", "TASK_TIMEOUT"};
    if (BEGINS(type, computes))
        return ASCEND_TASK_KERNEL;
    if (BEGINS(type, copies) || BEGINS(name, copies))
        return ASCEND_TASK_COPY;
    return BEGINS(type, waits) || BEGINS(name, waits) ? ASCEND_TASK_WAIT : ASCEND_TASK_KERNEL;
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

/* The number in the name of the only entry of a folder whose name `number_in` knows; STORE_ABSENT:
 * there is no such entry, or several. */
static int64_t only_number(const char *folder, int64_t (*number_in)(const char *name))
{
    DIR *open = opendir(folder);
    int64_t only = STORE_ABSENT;
    size_t entries = 0;
    struct dirent *entry;
    while (open && (entry = readdir(open))) {
        int64_t number = number_in(entry->d_name);
        if (number == STORE_ABSENT)
            continue;
        only = number;
        entries++;
    }
    if (open)
        closedir(open);
    return entries == 1 ? only : STORE_ABSENT;
}

/* RANK of a name "profiler_info_RANK.json"; STORE_ABSENT: another name. */
static int64_t rank_in_name(const char *name)
{
    int number, used = 0;
    bool is_settings = sscanf(name, "profiler_info_%d.json%n", &number, &used) == 1 && used &&
                       !name[used] && number >= 0 && number <= RANK_MOST;
    return is_settings ? number : STORE_ABSENT;
}

/* ---- folders of msprof ---------------------------------------------------------------------------------------------------- */

/* Length of the path of the folder PROF_* that a file lies in; 0: in none. */
static size_t profile_length(const char *path)
{
    const char *found = strncmp(path, "PROF_", 5) ? strstr(path, "/PROF_") : path;
    const char *end = found ? strchr(found + 1, '/') : NULL;
    return end ? (size_t)(end - path) : 0;
}

/* N of a name "device_N"; STORE_ABSENT: another name. */
static int64_t device_in_name(const char *name)
{
    int number, used = 0;
    bool is_device = sscanf(name, "device_%d%n", &number, &used) == 1 && used && number >= 0 &&
                     number <= RANK_MOST && (!name[used] || name[used] == '/');
    return is_device ? number : STORE_ABSENT;
}

/* The folder PROF_* of a file, and the device that the file is of; false: the path names none. */
static bool find_device(const char *path, char folder[PATH_MAX], int64_t *device)
{
    size_t length = profile_length(path);
    if (!length || length >= PATH_MAX)
        return false;
    memcpy(folder, path, length);
    folder[length] = '\0';
    *device = device_in_name(path + length + 1);
    if (*device == STORE_ABSENT)
        *device = only_number(folder, device_in_name);
    return *device != STORE_ABSENT;
}

int64_t ascend_device_of(const char *path)
{
    char folder[PATH_MAX];
    int64_t device;
    return find_device(path, folder, &device) ? device : 0;
}

/* `rank_id` of PROF_X/device_N/info.json.N; STORE_ABSENT: it is not there, or the program was not
 * one of several (-1). */
static int64_t rank_by_device(const char *path)
{
    static const char key[] = "\"rank_id\"";
    char folder[PATH_MAX], name[PATH_MAX + 64], text[65536];
    int64_t device;
    if (!find_device(path, folder, &device))
        return STORE_ABSENT;
    snprintf(name, sizeof name, "%s/device_%" PRId64 "/info.json.%" PRId64, folder, device, device);
    int file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    const char *found = strstr(text, key);
    found = found ? strchr(found + sizeof key - 1, ':') : NULL;
    char *end = NULL;
    long rank = found ? strtol(found + 1, &end, 10) : -1;
    return found && end != found + 1 && rank >= 0 && rank <= RANK_MOST ? rank : STORE_ABSENT;
}

int64_t ascend_rank_of(const char *path)
{
    char folder[PATH_MAX];
    size_t length = capture_length(path);
    if (!length)
        return rank_by_device(path);
    if (length >= sizeof folder)
        return STORE_ABSENT;
    memcpy(folder, path, length);
    folder[length] = '\0';
    int64_t rank = only_number(folder, rank_in_name);
    return rank != STORE_ABSENT ? rank : imp_rank_in_name(folder);
}
