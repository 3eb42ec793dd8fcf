/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at the users and network namespaces of the processes of a run.
 */
#include "profiler/collector/run/unrecorded.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"

#define PAUSE_NS 100000000
#define SHARE    1000 /* a look may take this part of the time until the next one */
#define DEEPEST  50   /* generations below the target */
#define MOST     5000 /* processes that one look sees */

/* May every user read the file? Groups and access lists are not looked at. */
static bool is_public(const char *path)
{
    char part[PATH_MAX];
    struct stat stat_of;
    if (stat(path, &stat_of) != 0 || !(stat_of.st_mode & S_IROTH))
        return false;
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (stat(part, &stat_of) != 0 || !(stat_of.st_mode & S_IXOTH))
            return false;
    }
    return true;
}

/* The network namespace of a process; 0 where that may not be read. */
static uint64_t network_of(const char *pid)
{
    char path[64];
    struct stat stat_of;
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    return stat(path, &stat_of) == 0 ? stat_of.st_ino : 0;
}

void col_unrecorded_init(struct col_unrecorded *unrecorded, const char *library)
{
    *unrecorded = (struct col_unrecorded){.is_private = !is_public(library)};
    snprintf(unrecorded->library, sizeof unrecorded->library, "%s", library);
    unrecorded->network = network_of("self");
    /* Another user's namespaces can be read by root only. */
    unrecorded->looks = unrecorded->is_private || geteuid() == 0;
}

struct search {
    struct col_unrecorded *unrecorded;
    const struct col_drain *drain;
    int depth, seen;
};

static bool has_pool(const struct col_drain *drain, int32_t pid)
{
    for (uint32_t i = 0; i < drain->process_count; i++)
        if (drain->process[i]->pid == pid && drain->process[i]->has_pool)
            return true;
    return false;
}

/* Has the process loaded the agent? Then it has recorded, or has tried to. */
static bool has_agent(int32_t pid)
{
    char path[48], line[PATH_MAX + 128];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, "/libtacho.so") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Looks at one process of the run and at those below it. */
static void consider(void *ctx, int32_t pid)
{
    struct search *search = ctx;
    struct col_unrecorded *unrecorded = search->unrecorded;
    char path[32], name[16];
    struct stat owner;
    snprintf(name, sizeof name, "%d", (int)pid);
    snprintf(path, sizeof path, "/proc/%s", name);
    if (unrecorded->found || search->depth == DEEPEST || ++search->seen > MOST ||
        stat(path, &owner) != 0)
        return;
    if (owner.st_uid != geteuid() && owner.st_uid != 0 && !has_pool(search->drain, pid)) {
        uint64_t network = network_of(name);
        bool has_loaded = has_agent(pid);
        unrecorded->is_cut_off = network && network != unrecorded->network && has_loaded;
        unrecorded->found = unrecorded->is_cut_off || (unrecorded->is_private && !has_loaded);
        unrecorded->user = owner.st_uid;
    }
    search->depth++;
    col_proc_children(pid, consider, search);
    search->depth--;
}

bool col_unrecorded_look(struct col_unrecorded *unrecorded, const struct col_drain *drain,
                         pid_t child, int64_t now)
{
    struct search search = {.unrecorded = unrecorded, .drain = drain};
    if (!unrecorded->looks || unrecorded->found || child <= 0 || now < unrecorded->next)
        return unrecorded->found;
    int64_t began = col_clock_thread(); /* what other threads take is no cost of looking */
    col_proc_children((int32_t)getpid(), consider, &search);
    int64_t took = col_clock_thread() - began;
    unrecorded->next = now + (took * SHARE > PAUSE_NS ? took * SHARE : PAUSE_NS);
    return unrecorded->found;
}

const char *col_unrecorded_reason(const struct col_unrecorded *unrecorded)
{
    return unrecorded->is_cut_off
               ? "event dropped: a process of another user is in another network namespace"
               : "process not recorded: another user, who cannot read libtacho.so";
}
