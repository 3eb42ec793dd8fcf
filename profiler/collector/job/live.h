/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a live run (collector.h says what is in it): making (live_create.c), locking,
 * publishing and removing it.
 *
 * It may lie in a folder of another user, who can put anything under its name. So what finishes or
 * removes a run works on descriptors of the two folders, which must belong to the caller and be
 * writable by no other user, and removes only files that tacho made: by name, plain, the caller's,
 * without a second name elsewhere.
 */
#ifndef COL_LIVE_H
#define COL_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/collector/collector.h"
#include "tacho_error.h"

#define COL_TMPFS_ROOM    (256ll << 20) /* free bytes that make /dev/shm "large enough" */
#define COL_RESERVE_BYTES (8ll << 20)
#define COL_RUN_ID        40 /* bytes of a run's random name */

struct col_live {
    char final[COL_PATH_MAX]; /* NAME.tacho, absolute */
    /* NAME.tacho.live, absolute: a folder, or a link to one on a local filesystem */
    char folder[COL_PATH_MAX];
    char db[COL_PATH_MAX];       /* run.db */
    char segments[COL_PATH_MAX]; /* where the pools are; "" = gone */
    char run_id[COL_RUN_ID];     /* also in the file "run" beside the pools, as a proof */
    /* descriptors of what `folder` leads to, of the folder it is in, and of `segments`; -1 */
    int home, outside, pools;
    int lock;    /* descriptor that holds the lock, -1 */
    int proof;   /* of the file "run", which holds a lock on the pools, -1 */
    bool linked; /* `folder` is a link */
    bool left;   /* not all could be removed: something in it is not tacho's */
};

void col_live_init(struct col_live *live);
/* Makes the folder and takes its lock. `output` NULL: a default name after `program` in the current
 * folder. `with_host`: the host is part of the name, because the job records on other hosts too,
 * maybe into the same folder. On failure nothing is left. Errors: TACHO_EEXISTS (the file, or a
 * live run of that name), TACHO_EBUSY, TACHO_EDENIED, TACHO_ENOSPACE, TACHO_EIO. */
int col_live_create(const char *output, const char *program, bool with_host, struct col_live *live,
                    struct tacho_error *err);
/* Opens and locks the folder of a run whose collector died. TACHO_EBUSY while a live collector
 * holds it, TACHO_EDENIED where the folder is not the caller's alone. */
int col_live_open(const char *folder, struct col_live *live, struct tacho_error *err);
/* Opens the folder of the pools and locks it. It must be that of live->run_id, or if that is "" (a
 * finished run.db no longer has it) at least a run's. live->pools stays -1 if it is gone; after
 * another boot nothing in memory belongs to a run. TACHO_EDENIED: it belongs to another user, or to
 * the live folder of which this one is a copy. TACHO_EFORMAT: it was not made for this run.
 * TACHO_EBUSY: another process reads these pools. */
int col_live_open_segments(struct col_live *live, bool other_boot, struct tacho_error *err);
/* 0 if the folder of a live run is the caller's alone, and not a copy whose pools belong to another
 * folder; else TACHO_EDENIED, and the run may be read but not finished. */
int col_live_check_owner(const char *folder, struct tacho_error *err);
/* Frees the disk space that is reserved for finishing. False if that was done before. */
bool col_live_use_reserve(struct col_live *live);
/* Leaves a mark for the recovery: the recording ended because the disk was full. */
void col_live_note_full(const struct col_live *live);
bool col_live_was_full(const struct col_live *live);
/* Free bytes where run.db is. */
int64_t col_live_room(const struct col_live *live);
/* Removes what is left of a live folder whose recorder was killed after it had moved the finished
 * file out of it. Sets `path` to the finished file. TACHO_ENOTFOUND: that is not the case; other
 * errors as of col_live_open. */
int col_live_remove_finished(const char *folder, char path[COL_PATH_MAX], struct tacho_error *err);
/* Moves the finished run.db to its final name and removes the folder; `path` gets the name. */
int col_live_publish(struct col_live *live, char path[COL_PATH_MAX], struct tacho_error *err);
/* Removes everything that tacho made, run.db too. */
void col_live_remove(struct col_live *live);
/* Closes the lock and the folders, and leaves the folder as it is. */
void col_live_leave(struct col_live *live);
/* Pools in memory that nothing will ever read. */
struct col_orphan {
    const char *pools, *folder; /* of the pools; the live folder that is gone, NULL: not known */
    int64_t bytes;
};
/* Calls `on` for each folder of pools in memory that is the caller's alone, whose live folder no
 * longer exists under its name, which no recorder holds, and of which no process that recorded into
 * it is alive; and for each empty one that a killed recorder had just made, or was about to remove.
 * Until it returns non-zero, which is returned. With `remove` it is removed first. */
int col_orphans_each(bool remove, int (*on)(void *ctx, const struct col_orphan *orphan), void *ctx);
/* Does a live collector hold the lock of this folder? */
bool col_live_locked(const char *folder);

#endif
