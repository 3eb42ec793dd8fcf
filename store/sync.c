/* SPDX-License-Identifier: Apache-2.0
 *
 * Syncs files and folders: what must be on the disk before the next step is taken.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "store/writer.h"

int store_file_sync(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int status = fsync(fd) ? -errno : 0;
    close(fd);
    return status == -EINVAL || status == -EROFS
               ? 0
               : status; /* folders of some filesystems cannot be synced */
}
