/* SPDX-License-Identifier: Apache-2.0
 *
 * Syncs files and folders: what must be on the disk before the next step is taken.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "store/writer.h"

int store_file_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int status = fsync(fd) ? -errno : 0;
    close(fd);
    return status == -EINVAL || status == -EROFS
               ? 0
               : status; /* folders of some filesystems cannot be synced */
}

int store_folder_sync(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    return store_file_sync(dirname(copy));
}
