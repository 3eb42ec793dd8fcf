/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch/probe.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/base/words.h"
#include "profiler/collector/drain/open.h"
#include "profiler/collector/os/proc.h"

#define WAITS_MOST  16
#define RANGES_MOST 8

struct probe {
    char *text;
    size_t size;
    char host[256];
    const struct cli_watch_probing *probing;
    int ranges; /* that were written */
};

/* What the threads of a process wait for, and how many of them. */
struct waits {
    char name[WAITS_MOST][48];
    int threads[WAITS_MOST];
    int count;
};

static void count_wait(struct waits *waits, const char *name)
{
    int i = 0;
    while (i < waits->count && strcmp(waits->name[i], name) != 0)
        i++;
    if (i == WAITS_MOST)
        return;
    if (i == waits->count) {
        snprintf(waits->name[waits->count], sizeof waits->name[i], "%s", name);
        waits->count++;
    }
    waits->threads[i]++;
}

/* The function of the kernel that each thread sleeps in; "running" where it does not. */
static void read_waits(int64_t pid, struct waits *waits)
{
    char path[64], name[48];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%" PRId64 "/task/%.16s/wchan", pid, entry->d_name);
        FILE *file = fopen(path, "re");
        size_t bytes = file ? fread(name, 1, sizeof name - 1, file) : 0;
        if (file)
            fclose(file);
        name[bytes] = 0;
        count_wait(waits, !strcmp(name, "0") || !bytes ? "running or not said" : name);
    }
    if (folder)
        closedir(folder);
}

static const char *state_words(char state)
{
    static const struct {
        char state;
        const char *words;
    } states[] = {{'R', "running"},
                  {'S', "asleep"},
                  {'D', "in uninterruptible sleep (disk or driver)"},
                  {'T', "stopped"},
                  {'t', "stopped by a debugger"},
                  {'Z', "dead, not collected"}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (states[i].state == state)
            return states[i].words;
    return "in an unknown state";
}

static int visit(void *ctx, int64_t rank, int64_t pid, const char *host)
{
    struct probe *probe = ctx;
    struct col_proc_stat stat;
    struct waits waits = {.count = 0};
    int most = 0;
    if (*host && strcmp(host, probe->host) != 0)
        return 0;
    an_words_add(probe->text, probe->size, "%s", *probe->text ? "; " : "");
    if (rank != STORE_ABSENT)
        an_words_add(probe->text, probe->size, "rank %" PRId64 " ", rank);
    if (col_proc_read_stat((int32_t)pid, &stat)) {
        an_words_add(probe->text, probe->size, "pid %" PRId64 " is gone", pid);
        return 0;
    }
    read_waits(pid, &waits);
    for (int i = 1; i < waits.count; i++)
        most = waits.threads[i] > waits.threads[most] ? i : most;
    an_words_add(probe->text, probe->size, "pid %" PRId64 " is %s", pid, state_words(stat.state));
    if (waits.count)
        an_words_add(probe->text, probe->size, ", %d of %" PRIu64 " threads: %s",
                     waits.threads[most], stat.threads, waits.name[most]);
    return strlen(probe->text) + 1 >= probe->size;
}

static int take_name(void *ctx, int64_t id, const char *text)
{
    char *name = ctx;
    (void)id;
    snprintf(name, 64, "%s", text);
    return 1;
}

/* "rank 0 in all_reduce, number 17": the last thing that began and did not end. */
static int visit_open(void *ctx, const struct col_open *open)
{
    struct probe *probe = ctx;
    char name[64] = "a range";
    int64_t rank = mon_feed_rank(probe->probing->feed, open->track);
    if (!open->innermost || probe->ranges == RANGES_MOST)
        return 0;
    store_string_each(probe->probing->reader, open->name, take_name, name);
    an_words_add(probe->text, probe->size, "%srank %" PRId64 " in %s", *probe->text ? "; " : "",
                 rank, name);
    if (open->correlation != STORE_ABSENT)
        an_words_add(probe->text, probe->size, ", number %" PRId64, open->correlation);
    probe->ranges++;
    return 0;
}

void cli_watch_probe(void *probing, char *text, size_t size)
{
    struct probe probe = {.text = text, .size = size, .probing = probing};
    if (gethostname(probe.host, sizeof probe.host - 1))
        *probe.host = 0;
    col_open_each(probe.probing->reader, visit_open, &probe);
    mon_feed_each_process(probe.probing->feed, visit, &probe);
}
