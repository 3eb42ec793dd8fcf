/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the commit of a working folder. Only files of git are read; git is not started,
 * because what a repository's settings name would be started with it.
 */
#ifndef CLI_HISTORY_GIT_COMMIT_H
#define CLI_HISTORY_GIT_COMMIT_H

#include <stdbool.h>

/* The commit that is checked out in the current folder or the nearest one above it, 40 or 64
 * hexadecimal digits. False: there is none, or it cannot be read. Whether files were changed since
 * is not known. */
bool cli_git_commit(char commit[65]);

#endif
