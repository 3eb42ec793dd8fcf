/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: folders of a user by the XDG base directory specification. A relative value of its
 * variables is to be ignored; then, and without the variable, a folder below $HOME is meant.
 */
#ifndef TACHO_FOLDER_H
#define TACHO_FOLDER_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* May names in the folder be trusted? In a folder of another user, such as the home that sudo
 * leaves in root's environment, each of them can be a link to any file. 0, also where there is no
 * such folder; EPERM. */
static inline int tacho_folder_check(const char *path)
{
    struct stat found;
    if (stat(path, &found) || found.st_uid == geteuid())
        return 0;
    bool shared = (found.st_mode & (S_IWGRP | S_IWOTH)) && !(found.st_mode & S_ISVTX);
    return found.st_uid || shared ? EPERM : 0;
}

/* Where `below` ("tacho/imports") lies in a base folder; nothing is made. 0; ENOENT: neither the
 * variable nor a home; ENAMETOOLONG; EPERM: the base folder is another user's. With an error *path
 * is "". size > 0. */
static inline int tacho_folder_name(const char *variable, const char *in_home, const char *below,
                                    char *path, size_t size)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    bool is_set = base && *base == '/';
    int error = ENOENT;
    *path = 0;
    if (!is_set)
        base = home && *home == '/' ? home : NULL;
    if (base) {
        int n = snprintf(path, size, "%s%s%s/%s", base, is_set ? "" : "/", is_set ? "" : in_home,
                         below);
        error = n < 0 || (size_t)n >= size ? ENAMETOOLONG : tacho_folder_check(base);
    }
    if (error)
        *path = 0;
    return error;
}

/* What an error of these functions means. */
static inline const char *tacho_folder_problem(int error)
{
    return error == EPERM ? "the home or cache folder is another user's" : strerror(error);
}

/* $XDG_CACHE_HOME/BELOW, what can be made again; $XDG_CONFIG_HOME/BELOW, what the user set. */
static inline int tacho_cache_name(const char *below, char *path, size_t size)
{
    return tacho_folder_name("XDG_CACHE_HOME", ".cache", below, path, size);
}
static inline int tacho_config_name(const char *below, char *path, size_t size)
{
    return tacho_folder_name("XDG_CONFIG_HOME", ".config", below, path, size);
}

/* Makes the folder and those above it that are missing, for the user alone. 0 or an errno: of the
 * last one, which decides; EPERM where it is there and another user's. */
static inline int tacho_folder_make(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0700);
            *p = '/';
        }
    return mkdir(path, 0700) && errno != EEXIST ? errno : tacho_folder_check(path);
}

/* The cache folder, made where it is missing. 0 or an errno; *path says which one could not be
 * made. */
static inline int tacho_cache_folder(const char *below, char *path, size_t size)
{
    int error = tacho_cache_name(below, path, size);
    return error ? error : tacho_folder_make(path);
}

#endif
