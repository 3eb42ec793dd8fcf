/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: takes the rights of a process away before it parses a file that it does not
 * trust.
 */
#ifndef CLI_BASE_CONFINE_H
#define CLI_BASE_CONFINE_H

#include <stddef.h>

/* What the process may still reach. */
struct cli_reach {
    const char *const *read; /* files and folders; links in a folder are followed once */
    size_t read_count;
    const char *const *write; /* folders in which it may make, change and remove files */
    size_t write_count;
};

#define CLI_CONFINED_FILES 1 /* no other file can be opened (Landlock) */
#define CLI_CONFINED_CALLS 2 /* no program, network, signal or process (seccomp) */

/* Gives up, for this process and for good: capabilities other than those that open files, all files
 * but those of `reach`, and all system calls but those of reading, computing in threads and
 * writing. Files that are open stay open. A call that is refused fails as one that the kernel does
 * not have. Returns the CLI_CONFINED_* that this kernel knows; what it lacks is left out. */
int cli_confine(const struct cli_reach *reach);

#endif
