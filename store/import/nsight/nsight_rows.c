/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of all tables call to write rows: times, slices, processes and tracks, each of
 * which is added to the run when its first event is read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/nsight/nsight_private.h"

#define COMMIT_ROWS 200000
#define TIME_MAX    (INT64_MAX / 4) /* ns: 73 years past 1970 and more; no real time is beyond */

/* ---- rows ------------------------------------------------------------------------------------------------------------------------ */

void nsight_time(struct nsight *nsight, int64_t start, int64_t end, struct store_slice *slice,
                 bool *ok)
{
    /* An absent start is negative. */
    *ok = start >= 0 && start <= TIME_MAX && (end == STORE_ABSENT || end <= TIME_MAX);
    if (!*ok) {
        nsight->lost[NSIGHT_LOSS_TIME]++;
        return;
    }
    if (end != STORE_ABSENT && end < start) {
        nsight->lost[NSIGHT_LOSS_END]++;
        *ok = false;
        return;
    }
    slice->start = start + nsight->base;
    slice->dur = end == STORE_ABSENT ? STORE_ABSENT : end - start;
}

int nsight_slice(struct nsight *nsight, struct store_slice *slice)
{
    nsight->run->slices++;
    int code = nsight->run->salvage_only ? 0 : store_slice_add(nsight->out, slice);
    if (!code && ++nsight->rows >= COMMIT_ROWS) {
        nsight->rows = 0;
        code = store_commit(nsight->out);
        if (!code)
            code = store_begin(nsight->out);
    }
    return code;
}

/* ---- processes and tracks --------------------------------------------------------------------------------------------------------- */

/* The index of a process in nsight->process. A new one gets its row, with the name of its program
 * if the export has it. */
int nsight_process(struct nsight *nsight, int64_t global, size_t *index)
{
    const int64_t *known = imp_map_find(&nsight->processes, global >> 24, 0);
    if (known) {
        *index = (size_t)*known;
        return 0;
    }
    if (nsight->process_count == nsight->process_cap) {
        size_t cap = nsight->process_cap ? 2 * nsight->process_cap : 16;
        struct nsight_process *bigger = realloc(nsight->process, cap * sizeof *bigger);
        if (!bigger)
            return TACHO_ENOMEM;
        nsight->process = bigger;
        nsight->process_cap = cap;
    }
    struct nsight_process *process = &nsight->process[nsight->process_count];
    *process = (struct nsight_process){.global = global >> 24, .rank = STORE_ABSENT};
    process->program =
        nsight_text_of(nsight, NSIGHT_PROGRAMS, (int64_t)((uint64_t)(global >> 24) << 24));
    process->row = (struct store_process){.rank = STORE_ABSENT,
                                          .pid = global >> 24 & 0xffffff,
                                          .parent_pid = STORE_ABSENT,
                                          .start = STORE_ABSENT,
                                          .end = STORE_ABSENT,
                                          .exit_status = STORE_ABSENT,
                                          .host = nsight->host,
                                          .program = process->program};
    *index = nsight->process_count++;
    int code = store_process_add(nsight->out, &process->row);
    return code ? code : imp_map_put(&nsight->processes, global >> 24, 0, (int64_t)*index);
}

/* Is the track known by this key? Then *track is its id. */
static bool track_known(struct nsight *nsight, enum nsight_tracks kind, int64_t first,
                        int64_t second, int64_t *track)
{
    const int64_t *known = imp_map_find(&nsight->tracks[kind], first, second);
    if (known)
        *track = *known;
    return known != NULL;
}

static int track_add(struct nsight *nsight, enum nsight_tracks kind, int64_t first, int64_t second,
                     struct store_track *row, int64_t *track)
{
    int code = store_track_add(nsight->out, row);
    *track = row->id;
    return code ? code : imp_map_put(&nsight->tracks[kind], first, second, row->id);
}

int nsight_thread(struct nsight *nsight, int64_t tid, int64_t *track)
{
    size_t process;
    if (track_known(nsight, NSIGHT_THREADS, tid, 0, track))
        return 0;
    int code = nsight_process(nsight, tid, &process);
    if (code)
        return code;
    char *name = nsight_text_of(nsight, NSIGHT_THREAD_NAMES, tid);
    struct store_track row = {.process = nsight->process[process].row.id,
                              .tid = tid & 0xffffff,
                              .kind = "thread",
                              .name = name};
    code = track_add(nsight, NSIGHT_THREADS, tid, 0, &row, track);
    free(name);
    return code;
}

/* The track of a stream on a device of a process; STORE_ABSENT: work without a stream. */
int nsight_stream(struct nsight *nsight, size_t process, int64_t device, int64_t stream,
                  int64_t *track)
{
    int64_t place = (int64_t)process << 24 | device;
    char name[48], gpu[32];
    if (track_known(nsight, NSIGHT_STREAMS, place, stream, track))
        return 0;
    int code = imp_map_put(&nsight->devices, (int64_t)process, device, 1);
    if (code)
        return code;
    snprintf(gpu, sizeof gpu, "gpu:%" PRId64, device);
    snprintf(name, sizeof name, "stream %" PRId64, stream);
    struct store_track row = {.process = nsight->process[process].row.id,
                              .tid = stream,
                              .kind = "stream",
                              .name = stream == STORE_ABSENT ? "device" : name,
                              .device = gpu};
    return track_add(nsight, NSIGHT_STREAMS, place, stream, &row, track);
}

int nsight_range_track(struct nsight *nsight, size_t process, int64_t *track)
{
    if (track_known(nsight, NSIGHT_RANGES, (int64_t)process, 0, track))
        return 0;
    struct store_track row = {.process = nsight->process[process].row.id,
                              .tid = STORE_ABSENT,
                              .kind = "range",
                              .name = "start/end ranges"};
    return track_add(nsight, NSIGHT_RANGES, (int64_t)process, 0, &row, track);
}
