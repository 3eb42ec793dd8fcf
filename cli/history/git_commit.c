/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what gitrepository-layout(5) describes: .git (a folder, or a file "gitdir: FOLDER" of a
 * worktree), HEAD, the file of the branch, packed-refs.
 */
#include "cli/history/git_commit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACKED_MOST (64 << 20) /* bytes of packed-refs that are read */

/* A plain file of at most so many bytes, as a stream; NULL: none. Never waits for a pipe. */
static FILE *open_plain(const char *folder, const char *name, off_t most)
{
    char path[2 * PATH_MAX];
    struct stat stat;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool fits = fd >= 0 && !fstat(fd, &stat) && S_ISREG(stat.st_mode) && stat.st_size <= most;
    FILE *file = fits ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* The first line of a small file, without its end. */
static bool first_line(const char *folder, const char *name, char *line, int size)
{
    FILE *file = open_plain(folder, name, 1 << 20);
    bool has = file && fgets(line, size, file);
    if (file)
        fclose(file);
    if (has)
        line[strcspn(line, "\r\n")] = 0;
    return has;
}

static bool take_commit(const char *text, char commit[65])
{
    size_t length = strspn(text, "0123456789abcdef");
    if ((length != 40 && length != 64) || (text[length] && !strchr(" \t", text[length])))
        return false;
    snprintf(commit, 65, "%.*s", (int)length, text);
    return true;
}

/* A line "COMMIT NAME" of packed-refs. */
static bool read_packed(const char *folder, const char *name, char commit[65])
{
    char line[PATH_MAX + 80];
    FILE *file = open_plain(folder, "packed-refs", PACKED_MOST);
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        const char *blank = strchr(line, ' ');
        found = blank && !strcmp(blank + 1, name) && take_commit(line, commit);
    }
    if (file)
        fclose(file);
    return found;
}

/* A path of git as it is meant in `folder`. False: it is too long. */
static bool resolve(const char *folder, const char *named, char out[PATH_MAX])
{
    int n = *named == '/' ? snprintf(out, PATH_MAX, "%s", named)
                          : snprintf(out, PATH_MAX, "%s/%s", folder, named);
    return n > 0 && n < PATH_MAX;
}

static bool read_head(const char *git, char commit[65])
{
    static const char ref[] = "ref: ";
    char head[PATH_MAX], line[PATH_MAX], common[PATH_MAX];
    if (!first_line(git, "HEAD", head, sizeof head))
        return false;
    if (take_commit(head, commit))
        return true;
    const char *name = head + strlen(ref);
    if (strncmp(head, ref, strlen(ref)) != 0 || *name == '/' || strstr(name, ".."))
        return false;
    /* the branches of a worktree lie in the folder that it shares */
    if (!first_line(git, "commondir", line, sizeof line) || !resolve(git, line, common))
        snprintf(common, sizeof common, "%s", git);
    if (first_line(common, name, line, sizeof line) && take_commit(line, commit))
        return true;
    return read_packed(common, name, commit);
}

bool cli_git_commit(char commit[65])
{
    char folder[PATH_MAX], git[PATH_MAX], line[PATH_MAX];
    *commit = 0;
    if (!getcwd(folder, sizeof folder))
        return false;
    for (;;) {
        struct stat stat_buffer;
        if (snprintf(git, sizeof git, "%s/.git", folder) >= (int)sizeof git)
            return false;
        if (!stat(git, &stat_buffer)) {
            bool is_file = S_ISREG(stat_buffer.st_mode) &&
                           first_line(folder, ".git", line, sizeof line) &&
                           !strncmp(line, "gitdir: ", strlen("gitdir: "));
            if (is_file && !resolve(folder, line + strlen("gitdir: "), git))
                return false;
            return read_head(git, commit);
        }
        char *slash = strrchr(folder, '/');
        if (!slash || !folder[1])
            return false;
        slash[slash == folder] = 0; /* the last one is "/" */
    }
}
