/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers of /proc: stat of a process, the machine's CPU time, disks, children of a process. They
 * take text and read each file once, because a process may end between two reads.
 */
#include "profiler/collector/os/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tacho_error.h"

/* Files of /proc have no size, so they are read until the end or the room is used up. */
long col_proc_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t used = 0;
    long rc = 0;
    while (used + 1 < size) {
        ssize_t got = read(fd, text + used, size - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rc = -errno;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = 0;
    return rc ? rc : (long)used;
}

/* After the name come state and then numbers; field 4 of proc(5) is the first of these. */
int col_proc_parse_stat(const char *text, struct col_proc_stat *out)
{
    memset(out, 0, sizeof *out);
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return TACHO_EFORMAT;
    out->pid = (int32_t)strtol(text, NULL, 10);
    snprintf(out->comm, sizeof out->comm, "%.*s", (int)(close - open - 1), open + 1);
    unsigned long long field[36] = {0}; /* fields 4.. of proc(5) */
    const char *cursor = close + 1;
    char state = 0;
    int used = 0;
    if (sscanf(cursor, " %c%n", &state, &used) != 1)
        return TACHO_EFORMAT;
    cursor += used;
    int fields = 0;
    for (char *end; fields < 36; cursor = end, fields++) {
        field[fields] = strtoull(cursor, &end, 10);
        if (end == cursor)
            break;
    }
    if (fields < 21)
        return TACHO_EFORMAT;
    out->state = state;
    out->parent = (int32_t)field[0];
    out->group = (int32_t)field[1];
    out->session = (int32_t)field[2];
    out->minor_faults = field[6];
    out->major_faults = field[8];
    out->user_ticks = field[10];
    out->system_ticks = field[11];
    out->threads = field[16];
    out->start_ticks = field[18];
    out->rss_pages = (int64_t)field[20];
    out->cpu = fields == 36 ? (int64_t)field[35] : -1;
    return 0;
}

int col_proc_read_stat(int32_t pid, struct col_proc_stat *out)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    long length = col_proc_read(path, text, sizeof text);
    if (length <= 0)
        return length < 0 ? (int)length : -ESRCH;
    return col_proc_parse_stat(text, out) ? -EIO : 0;
}

int64_t col_proc_value(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || (line[length] != ':' && line[length] != ' '))
            continue;
        char *end;
        long long value = strtoll(line + length + 1, &end, 10);
        return end == line + length + 1 ? -1 : value;
    }
    return -1;
}

bool col_proc_add_cpus(const char *text, cpu_set_t *set)
{
    static const char name[] = "\nCpus_allowed_list:";
    const char *line = strstr(text, name);
    if (!line)
        return false;
    line += sizeof name - 1;
    line += strspn(line, " \t");
    while (*line >= '0' && *line <= '9') {
        char *end;
        long first = strtol(line, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET((size_t)cpu, set);
        line = *end == ',' ? end + 1 : end;
    }
    return true;
}

void col_cpu_ranges(const cpu_set_t *set, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < CPU_SETSIZE && used + 24 < size; i++) {
        if (!CPU_ISSET(i, set))
            continue;
        size_t last = i;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        used += (size_t)snprintf(text + used, size - used, "%s%zu", used ? "," : "", i);
        if (last > i)
            used += (size_t)snprintf(text + used, size - used, "-%zu", last);
        i = last;
    }
}

int col_proc_parse_cpu(const char *text, struct col_proc_cpu *out)
{
    unsigned long long ticks[8] = {0};
    int fields = sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1],
                        &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    if (fields < 4)
        return TACHO_EFORMAT;
    out->idle = ticks[3] + ticks[4];
    out->busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    return 0;
}

static bool is_digits(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == 0;
}

/* Whole devices only: sda but not sda1, nvme0n1 but not nvme0n1p2; no dm-, loop, ram, zram, md, sr.
 * The bytes of partitions and of layered devices are already in those of the disks below. */
static bool is_whole_disk(const char *name)
{
    static const char *const disk[] = {"sd", "vd", "hd", "xvd"};
    for (size_t i = 0; i < sizeof disk / sizeof *disk; i++)
        if (strncmp(name, disk[i], strlen(disk[i])) == 0)
            return name[strcspn(name, "0123456789")] == 0;
    if (strncmp(name, "nvme", 4) == 0 || strncmp(name, "mmcblk", 6) == 0) {
        const char *part = strrchr(name, 'p');
        return !(part && is_digits(part + 1));
    }
    return false;
}

int col_proc_parse_disks(const char *text, struct col_proc_disk *out)
{
    *out = (struct col_proc_disk){0};
    int disks = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        char name[64];
        unsigned long long read_sectors, written_sectors;
        if (sscanf(line, "%*u %*u %63s %*u %*u %llu %*u %*u %*u %llu", name, &read_sectors,
                   &written_sectors) != 3)
            continue;
        if (!is_whole_disk(name))
            continue;
        /* a sector of diskstats is 512 bytes, whatever the device's own size */
        out->read_bytes += read_sectors * 512;
        out->written_bytes += written_sectors * 512;
        disks++;
    }
    return disks ? 0 : TACHO_ENOTFOUND;
}

/* Children are listed for each thread of the process, because each thread may start some. */
void col_proc_children(int32_t pid, void (*each)(void *ctx, int32_t child), void *ctx)
{
    char path[96], text[8192];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        if (!is_digits(entry->d_name))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, entry->d_name);
        if (col_proc_read(path, text, sizeof text) <= 0)
            continue;
        char *number = text, *end;
        for (long child; (child = strtol(number, &end, 10)) > 0 && end != number; number = end)
            each(ctx, (int32_t)child);
    }
    closedir(tasks);
}

/* A line of /proc/PID/maps: "BEGIN-END RIGHTS OFFSET DEVICE INODE   /FOLDER/NAME". inode 0: any. */
static bool is_mapping_of(const char *line, const char *name, uint64_t inode)
{
    unsigned long long number = 0;
    const char *slash = strrchr(line, '/');
    return slash && strncmp(slash + 1, name, strlen(name)) == 0 &&
           strchr(" \n", slash[1 + strlen(name)]) != NULL &&
           (!inode || (sscanf(line, "%*s %*s %*s %*s %llu", &number) == 1 && number == inode));
}

bool col_proc_maps_named(int32_t pid, const char *name)
{
    return col_proc_maps(pid, name, 0);
}

bool col_proc_maps(int32_t pid, const char *name, uint64_t inode)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !found && getline(&line, &room, maps) > 0)
        found = is_mapping_of(line, name, inode);
    free(line);
    if (maps)
        fclose(maps);
    return found;
}
