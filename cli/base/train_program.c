/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for the program train beside tacho and where `make install` puts it.
 */
#include "cli/base/train_program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "tacho_error.h"

int cli_train_find(char path[PATH_MAX])
{
    static const char *const places[] = {"train", "../libexec/tacho/train", "../libexec/train"};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return -1;
    self[length] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (snprintf(path, PATH_MAX, "%s/%s", self, places[i]) < PATH_MAX && !access(path, X_OK))
            return 0;
    return -1;
}

int cli_train_need(char path[PATH_MAX])
{
    return cli_train_find(path) ? cli_error(TACHO_ENOTFOUND, "'make' builds it next to tacho",
                                            "train: the reference engine's program was not found")
                                : 0;
}
