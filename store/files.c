/* SPDX-License-Identifier: Apache-2.0
 *
 * Files by the descriptor of their folder, checked once they are open; where a folder is.
 */
#include "store/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/store.h"

#define SAFELY (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

bool store_stat_is_own(const struct stat *stat)
{
    return S_ISREG(stat->st_mode) && stat->st_uid == geteuid() && stat->st_nlink == 1;
}

bool store_file_is_own(int folder, const char *name)
{
    struct stat stat;
    return fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && store_stat_is_own(&stat);
}

static int refuse(int fd)
{
    close(fd);
    errno = EPERM;
    return -1;
}

int store_file_open(int folder, const char *name, int flags)
{
    struct stat stat;
    int fd = openat(folder, name, flags | SAFELY, 0600);
    if (fd >= 0 && (fstat(fd, &stat) != 0 || !store_stat_is_own(&stat)))
        return refuse(fd);
    return fd;
}

int store_file_peek(int folder, const char *name)
{
    struct stat stat;
    int fd = openat(folder, name, O_RDONLY | SAFELY);
    if (fd >= 0 && (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)))
        return refuse(fd);
    return fd;
}

int store_file_remove(int folder, const char *name)
{
    if (store_file_is_own(folder, name))
        return unlinkat(folder, name, 0);
    errno = EPERM;
    return -1;
}

int store_folder_open(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool store_folder_each(int folder, bool (*on)(void *ctx, int folder, const char *name), void *ctx)
{
    int fd = store_folder_open(folder, ".");
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    bool goes_on = dir != NULL;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; goes_on && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            goes_on = on(ctx, folder, entry->d_name);
    if (dir)
        closedir(dir);
    return goes_on;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Follows the link that `fd` holds, which is `path`, to a folder. What the link says is read from
 * the descriptor: the name may be another link by now. */
static int follow(int fd, const struct stat *link, const char *path, bool *is_led)
{
    char target[PATH_MAX], parent[PATH_MAX];
    ssize_t length = readlinkat(fd, "", target, sizeof target - 1);
    close(fd);
    if (length < 0)
        return -1;
    target[length] = 0;
    snprintf(parent, sizeof parent, "%s", path);
    const char *from = dirname(parent);
    /* A server of files may give root's links to another user. */
    *is_led = link->st_uid != geteuid() && link->st_uid != 0 && store_is_local(from) != 0;
    int base = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int folder = base < 0 ? -1 : openat(base, target, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base >= 0)
        close(base);
    return folder;
}

/* Opens the folder part of a path. */
static int folder_of(const char *path, bool *is_led)
{
    char copy[PATH_MAX];
    struct stat stat;
    snprintf(copy, sizeof copy, "%s", path);
    const char *folder = dirname(copy);
    int fd = open(folder, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &stat) != 0 || S_ISDIR(stat.st_mode))
        return fd;
    if (S_ISLNK(stat.st_mode))
        return follow(fd, &stat, folder, is_led);
    close(fd);
    errno = ENOTDIR;
    return -1;
}

static int name_of(const char *path, struct store_place *place)
{
    char copy[PATH_MAX];
    bool fits = snprintf(copy, sizeof copy, "%s", path) < (int)sizeof copy;
    const char *name = fits ? basename(copy) : "";
    size_t length = strlen(name);
    if (fits && length < sizeof place->name) {
        memcpy(place->name, name, length + 1);
        return 0;
    }
    errno = ENAMETOOLONG;
    return -1;
}

int store_place_find(const char *path, bool follow, struct store_place *place)
{
    char real[PATH_MAX];
    struct stat stat;
    *place = (struct store_place){.folder = -1};
    if (name_of(path, place) != 0 || (place->folder = folder_of(path, &place->is_led)) < 0)
        return -1;
    if (!follow || fstatat(place->folder, place->name, &stat, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISLNK(stat.st_mode))
        return 0;
    store_place_close(place);
    if (!realpath(path, real) || name_of(real, place) != 0)
        return -1;
    place->folder = folder_of(real, &place->is_led);
    place->is_led = true;
    return place->folder < 0 ? -1 : 0;
}

int store_place_at(int folder, const char *path, struct store_place *place)
{
    *place = (struct store_place){.folder = -1};
    if (name_of(path, place) != 0)
        return -1;
    place->folder = openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return place->folder < 0 ? -1 : 0;
}

void store_place_close(struct store_place *place)
{
    if (place->folder >= 0)
        close(place->folder);
    place->folder = -1;
}

int store_path_open(const char *path, int flags)
{
    struct store_place place;
    if (store_place_find(path, false, &place) != 0)
        return -1;
    int fd = place.is_led ? -1 : store_file_open(place.folder, place.name, flags);
    int error = place.is_led ? EPERM : errno;
    store_place_close(&place);
    errno = error;
    return fd;
}

/* ---- where is it --------------------------------------------------------------------------------------------------------- */

int store_is_local(const char *path)
{
    /* f_type of filesystems whose locks or mmap reach beyond this machine, or go through a process
     * of unknown habits */
    static const uint32_t remote[] = {
        0x6969,     /* nfs */
        0xff534d42, /* cifs */
        0xfe534d42, /* smb2 */
        0x517b,     /* smb */
        0x0bd00bd0, /* lustre */
        0x47504653, /* gpfs */
        0x19830326, /* beegfs */
        0x65735546, /* fuse (sshfs, s3fs, gcsfuse ...) */
        0x01021997, /* 9p */
        0x00c36400, /* ceph */
        0x5346414f, /* afs */
        0x6b414653, /* kafs */
        0x73757245, /* coda */
        0x7461636f, /* ocfs2 */
        0x01161970, /* gfs2 */
        0xaad7aaea, /* panfs */
        0x786f4256, /* vboxsf */
        0xbacbacbc, /* vmhgfs */
        0x6a656a63, /* virtiofs and hostfs helpers */
        0x013111a8, /* ibrix */
        0x20030528, /* orangefs, pvfs2 */
    };
    struct statfs fs;
    char copy[PATH_MAX];
    int status = statfs(path, &fs);
    if (status && errno == ENOENT) { /* not there yet: its folder decides */
        if ((size_t)snprintf(copy, sizeof copy, "%s", path) >= sizeof copy)
            return TACHO_EIO;
        status = statfs(dirname(copy), &fs);
    }
    if (status)
        return tacho_error_of_errno(errno);
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if ((uint32_t)fs.f_type == remote[i])
            return 0;
    return 1;
}
