/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: folders of a user by the XDG base directory specification. A relative value of its
 * variables is to be ignored; then, and without the variable, a folder below $HOME is meant.
 */
#ifndef TACHO_FOLDER_H
#define TACHO_FOLDER_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Where `below` ("tacho/imports") lies in a base folder; nothing is made. 0; ENOENT: neither the
 * variable nor a home; ENAMETOOLONG. With an error *path is "". size > 0. */
static inline int tacho_folder_name(const char *variable, const char *in_home, const char *below,
                                    char *path, size_t size)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    int n = base && *base == '/'   ? snprintf(path, size, "%s/%s", base, below)
            : home && *home == '/' ? snprintf(path, size, "%s/%s/%s", home, in_home, below)
                                   : -1;
    if (n >= 0 && (size_t)n < size)
        return 0;
    *path = 0;
    return n < 0 ? ENOENT : ENAMETOOLONG;
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
 * last one, which decides. */
static inline int tacho_folder_make(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0700);
            *p = '/';
        }
    return mkdir(path, 0700) && errno != EEXIST ? errno : 0;
}

/* The cache folder, made where it is missing. 0 or an errno; *path says which one could not be
 * made. */
static inline int tacho_cache_folder(const char *below, char *path, size_t size)
{
    int error = tacho_cache_name(below, path, size);
    return error ? error : tacho_folder_make(path);
}

#endif
