/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way to files of a run: by a descriptor of their folder and a name in it. What is opened
 * is checked on its own descriptor, so that nothing that another user puts under the name, before
 * or between two calls, is read, written or removed. Names are never followed through links.
 *
 * Functions return a descriptor or 0, or -1 and errno: EPERM where the file is not the caller's.
 */
#ifndef STORE_FILES_H
#define STORE_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

/* A plain file of the caller that has no second name elsewhere? */
bool store_stat_is_own(const struct stat *stat);
/* The same of a name in a folder. */
bool store_file_is_own(int folder, const char *name);
/* Opens a file that store_stat_is_own() accepts. `flags` as of open(); with O_CREAT a new file has
 * the mode 0600. Never waits (pipes). */
int store_file_open(int folder, const char *name, int flags);
/* Opens a plain file of any user for reading. */
int store_file_peek(int folder, const char *name);
/* Removes a file that store_file_is_own() accepts. */
int store_file_remove(int folder, const char *name);
/* Opens a folder of any user, which is to be listed or synced. */
int store_folder_open(int at, const char *name);
/* Calls `on` for each name in the folder but "." and ".."; its position does not change. False: it
 * cannot be listed, or `on` returned false. */
bool store_folder_each(int folder, bool (*on)(void *ctx, int folder, const char *name), void *ctx);

/* Where a file is: `name` in `folder` (O_PATH), which store_place_close() closes. */
struct store_place {
    int folder;
    char name[256];
    /* A link that the caller did not make led here: the file may be read, nothing be made beside
     * it. */
    bool is_led;
};
/* Finds the place of a path whose folder may be reached through links; with `follow` the last part
 * too. A file need not be there. 0, or -1 and errno; then the folder is -1. */
int store_place_find(const char *path, bool follow, struct store_place *place);
/* The place of the last part of `path` in a folder that is open already; it is not followed. */
int store_place_at(int folder, const char *path, struct store_place *place);
void store_place_close(struct store_place *place);
/* store_file_open() of a path; EPERM also where a link that the caller did not make leads there. */
int store_path_open(const char *path, int flags);

#endif
