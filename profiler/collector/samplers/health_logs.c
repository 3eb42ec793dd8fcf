/* SPDX-License-Identifier: Apache-2.0
 *
 * What logs say of faults: the kernel's of devices, NCCL's of the network that it uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/os/list.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/samplers/health_private.h"

#define RECORD      8192  /* bytes of a record of the kernel's log, and more */
#define RECORDS     256   /* in one look */
#define DEVICES     64    /* with errors */
#define LOG_BLOCK   65536 /* of NCCL's log in one look */
#define ENVIRONMENT 262144

/* ---- the kernel's log ------------------------------------------------------------------------ */

void health_open_log(struct col_health *health)
{
    health->log_fd = open(health->roots.kernel_log, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    health->log_status = health->log_fd >= 0 ? "ok" : strerror(errno);
    if (health->log_fd >= 0 && lseek(health->log_fd, 0, SEEK_END) < 0)
        health->log_status = strerror(errno);
}

/* The device with this name; NULL: there are too many, or no memory. */
static struct health_faulty *faulty_of(struct col_health *health, const char *device)
{
    for (size_t i = 0; i < health->faulty_count; i++)
        if (!strcmp(health->faulty[i].device, device))
            return &health->faulty[i];
    struct health_faulty *list = health->faulty_count < DEVICES
                                     ? col_list_room(health->faulty, &health->faulty_room,
                                                     health->faulty_count + 1, sizeof *list)
                                     : NULL;
    if (!list)
        return NULL;
    health->faulty = list;
    struct health_faulty *faulty = &list[health->faulty_count++];
    *faulty = (struct health_faulty){.track = 0};
    snprintf(faulty->device, sizeof faulty->device, "%s", device);
    return faulty;
}

/* "NVRM: Xid (PCI:0000:3b:00): 79, pid=..., GPU has fallen off the bus." */
static int look_line(struct col_health *health, const char *line, health_put *put, void *ctx)
{
    static const char mark[] = "NVRM: Xid (PCI:";
    const char *begin = strstr(line, mark);
    char bus[HEALTH_DEVICE - 8], device[HEALTH_DEVICE];
    int code, used = 0;
    if (!begin || sscanf(begin + strlen(mark), "%31[0-9a-fA-F:.]): %d%n", bus, &code, &used) != 2 ||
        !used || code <= 0)
        return 0;
    snprintf(device, sizeof device, "pci:%s%s", bus, strchr(bus, '.') ? "" : ".0");
    struct health_faulty *faulty = faulty_of(health, device);
    return faulty ? put(ctx, &(struct col_health_value){.process = STORE_ABSENT,
                                                        .name = "gpu_xid",
                                                        .unit = "code",
                                                        .device = faulty->device,
                                                        .value = code,
                                                        .track = &faulty->track})
                  : 0;
}

int health_look_log(struct col_health *health, health_put *put, void *ctx)
{
    char text[RECORD];
    int rc = 0;
    for (int i = 0; health->log_fd >= 0 && i < RECORDS && !rc; i++) {
        ssize_t length = read(health->log_fd, text, sizeof text - 1);
        if (length < 0 && errno == EPIPE) /* records were overwritten before they were read */
            continue;
        if (length <= 0)
            break;
        text[length] = 0;
        for (char *line = text, *end; line && *line && !rc; line = end) {
            end = strchr(line, '\n');
            if (end)
                *end++ = 0;
            rc = look_line(health, line, put, ctx);
        }
    }
    return rc;
}

/* ---- NCCL's log ------------------------------------------------------------------------------ */

/* The value of a variable in an environment of `size` bytes; NULL: it has none. */
static const char *variable(const char *environment, size_t size, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
        if (!strncmp(at, name, length) && at[length] == '=')
            return at + length + 1;
    return NULL;
}

/* NCCL's pattern with %h (host) and %p (pid), below the root or the folder of the process. */
static void expand(const struct col_health *health, int32_t pid, const char *pattern, char *path,
                   size_t size)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    int used = snprintf(path, size, "%s/%d/%s/", health->roots.proc, (int)pid,
                        *pattern == '/' ? "root" : "cwd");
    for (; *pattern && used > 0 && (size_t)used < size - 1; pattern++) {
        bool special = pattern[0] == '%' && (pattern[1] == 'h' || pattern[1] == 'p');
        if (special && pattern[1] == 'h')
            used += snprintf(path + used, size - (size_t)used, "%s", host);
        else if (special)
            used += snprintf(path + used, size - (size_t)used, "%d", (int)pid);
        else
            path[used++] = *pattern;
        pattern += special;
    }
    if (used > 0 && (size_t)used < size)
        path[used] = 0;
    else
        *path = 0; /* too long */
}

void health_find_nccl(const struct col_health *health, struct health_process *process)
{
    static char environment[ENVIRONMENT]; /* one collector a process */
    char path[HEALTH_PATH];
    snprintf(path, sizeof path, "%s/%d/environ", health->roots.proc, (int)process->pid);
    long length = col_proc_read(path, environment, sizeof environment);
    const char *pattern =
        length > 0 ? variable(environment, (size_t)length, "NCCL_DEBUG_FILE") : NULL;
    process->has_environment = length > 0;
    if (pattern && *pattern)
        expand(health, process->pid, pattern, process->nccl.path, sizeof process->nccl.path);
    explicit_bzero(environment, sizeof environment); /* it may have secrets */
}

/* The network that a line names: 1 sockets, 2 another one, 0 none. Words of NCCL 2.4 to 2.27. */
static int network_of(const char *line)
{
    static const char *const marks[] = {"Using network ", "Assigned NET plugin ", "via NET/"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *name = strstr(line, marks[i]);
        if (name)
            return strncmp(name + strlen(marks[i]), "Socket", 6) ? 2 : 1;
    }
    return 0;
}

void health_read_nccl(struct health_nccl *nccl)
{
    static char block[LOG_BLOCK + 1];
    struct stat st;
    int fd = *nccl->path ? open(nccl->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    ssize_t length = fstat(fd, &st) || !S_ISREG(st.st_mode)
                         ? 0
                         : pread(fd, block, LOG_BLOCK, (off_t)nccl->offset);
    close(fd);
    if (length <= 0)
        return;
    block[length] = 0;
    char *line = block;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        int network = network_of(line);
        nccl->network = network ? network : nccl->network;
    }
    nccl->offset += line > block || length < LOG_BLOCK ? line - block : length;
}
