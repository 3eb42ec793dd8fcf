/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens, which are read from files and compared, and never printed.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/serve/private.h"
#include "store/files.h"

int mon_token_read(const char *path, char token[MON_TOKEN_MOST], struct tacho_error *err)
{
    static const char hint[] = "make one: (umask 077; openssl rand -hex 32 > FILE)";
    struct stat stat;
    int fd = store_path_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tacho_fail(err, tacho_error_of_errno(errno), hint, "%s: %s", path, strerror(errno));
    ssize_t n = fstat(fd, &stat) ? -1 : read(fd, token, MON_TOKEN_MOST - 1);
    close(fd);
    if (n < 0)
        return tacho_fail(err, TACHO_EIO, hint, "%s: cannot be read", path);
    if (stat.st_mode & (S_IRWXG | S_IRWXO))
        return tacho_fail(err, TACHO_EDENIED, "chmod 600 FILE, and change the token",
                          "%s: others may read or change this token", path);
    token[n] = 0;
    token[strcspn(token, "\r\n")] = 0;
    size_t length = strlen(token);
    for (size_t i = 0; i < length; i++)
        if (token[i] <= ' ' || token[i] >= 0x7f)
            length = 0;
    if (length < 16)
        return tacho_fail(err, TACHO_EFORMAT, hint,
                          "%s: not a token of 16 to 255 characters without blanks", path);
    return 0;
}

bool serve_token_fits(const char *token, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    if (!*token)
        return true;
    if (!authorization || strncmp(authorization, scheme, sizeof scheme - 1))
        return false;
    const char *given = authorization + sizeof scheme - 1;
    size_t length = strlen(token), size = strlen(given);
    unsigned differs = length != size;
    for (size_t i = 0; i < size; i++)
        differs |= (unsigned)(given[i] ^ token[i % length]);
    return !differs;
}
