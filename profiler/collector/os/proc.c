/* SPDX-License-Identifier: Apache-2.0 */
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

long col_proc_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t used = 0;
    long rc = 0;
    while (used + 1 < size) {
        ssize_t n = read(fd, text + used, size - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = -errno;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(fd);
    text[used] = 0;
    return rc ? rc : (long)used;
}

int col_proc_parse_stat(const char *text, struct col_proc_stat *out)
{
    memset(out, 0, sizeof *out);
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return TACHO_EFORMAT;
    out->pid = (int32_t)strtol(text, NULL, 10);
    snprintf(out->comm, sizeof out->comm, "%.*s", (int)(close - open - 1), open + 1);
    unsigned long long f[22] = {0}; /* fields 4.. of proc(5) */
    const char *p = close + 1;
    char state = 0;
    int used = 0;
    if (sscanf(p, " %c%n", &state, &used) != 1)
        return TACHO_EFORMAT;
    p += used;
    for (int i = 0; i < 21; i++) {
        char *end;
        f[i] = strtoull(p, &end, 10);
        if (end == p)
            return TACHO_EFORMAT;
        p = end;
    }
    out->state = state;
    out->parent = (int32_t)f[0];
    out->group = (int32_t)f[1];
    out->session = (int32_t)f[2];
    out->minor_faults = f[6];
    out->major_faults = f[8];
    out->user_ticks = f[10];
    out->system_ticks = f[11];
    out->threads = f[16];
    out->start_ticks = f[18];
    out->rss_pages = (int64_t)f[20];
    return 0;
}

int col_proc_read_stat(int32_t pid, struct col_proc_stat *out)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    long n = col_proc_read(path, text, sizeof text);
    if (n <= 0)
        return n < 0 ? (int)n : -ESRCH;
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
        long long v = strtoll(line + length + 1, &end, 10);
        return end == line + length + 1 ? -1 : v;
    }
    return -1;
}

int col_proc_parse_cpu(const char *text, struct col_proc_cpu *out)
{
    unsigned long long v[8] = {0};
    int n = sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &v[7]);
    if (n < 4)
        return TACHO_EFORMAT;
    out->idle = v[3] + v[4];
    out->busy = v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
    return 0;
}

static bool is_digits(const char *s)
{
    return *s && s[strspn(s, "0123456789")] == 0;
}

/* sda but not sda1, nvme0n1 but not nvme0n1p2, vda but not vda3; no dm-, loop, ram, zram, md, sr.
 */
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
        out->read_bytes +=
            read_sectors * 512; /* a sector is 512 bytes here whatever the device's own size */
        out->written_bytes += written_sectors * 512;
        disks++;
    }
    return disks ? 0 : TACHO_ENOTFOUND;
}

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
        char *p = text, *end;
        for (long child; (child = strtol(p, &end, 10)) > 0 && end != p; p = end)
            each(ctx, (int32_t)child);
    }
    closedir(tasks);
}
