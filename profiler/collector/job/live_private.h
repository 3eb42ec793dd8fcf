/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to job/: what making a live folder (live_create.c) and using one (live.c) share.
 */
#ifndef COL_LIVE_PRIVATE_H
#define COL_LIVE_PRIVATE_H

#include "profiler/collector/job/live.h"
#include "store/files.h"

#define DB        "run.db"
#define LOCK      "lock"
#define RESERVE   "reserve"
#define FULL      "full"
#define SEGMENTS  "segments"
#define RUN_ID    "run" /* in the folder of the pools */
#define IN_MEMORY "/dev/shm"

/* The file RUN_ID: whose the pools beside it are. A copy of a live folder has the same run id and
 * the same link to the pools, but another inode. */
struct col_live_proof {
    char run_id[COL_RUN_ID];
    uint64_t device, inode;    /* of the live folder */
    char folder[COL_PATH_MAX]; /* its name when it was made */
};

/* Opens the file RUN_ID of a folder of pools and reads it; -1 where it is not this user's file or
 * holds something else. */
int col_live_open_proof(int pools, struct col_live_proof *proof);
/* Formats a path; false where it is too long. */
__attribute__((format(printf, 2, 3))) bool col_live_path(char path[COL_PATH_MAX],
                                                         const char *format, ...);
/* Cuts a path at its last slash: *base is the name, `parent` the real path of its folder ("" for
 * the root, so that "PARENT/BASE" is right). False: there is no such folder (errno). */
bool col_live_split(char *path, const char **base, char parent[COL_PATH_MAX]);
/* Errors: of the last system call; of a path that is too long. */
int col_live_fail_errno(struct tacho_error *err, const char *path, const char *hint);
int col_live_fail_long(struct tacho_error *err);
/* Free bytes of the filesystem; -1: not known. */
int64_t col_live_room_of(const char *path);
/* The last part of the path of the live folder, or of the finished file: a name in live->outside.
 */
const char *col_live_base(const char *path);
/* Opens live->outside, the folder of that real path ("": the root). */
int col_live_open_outside(struct col_live *live, const char *parent, struct tacho_error *err);
/* Opens a folder that must be the caller's and writable by no other user. A link in the last part
 * of the name is not followed. *fd is -1 on failure. */
int col_live_open_own(int at, const char *name, const char *shown, int *fd,
                      struct tacho_error *err);
/* Takes a lock on an open file and keeps it until the file is closed. TACHO_EBUSY: another process
 * has it. */
int col_live_flock(const struct col_live *live, int fd, struct tacho_error *err);
/* Does tacho give this name to a folder of this user elsewhere? */
bool col_live_is_made_name(const char *path);
/* Removes the files of a folder of pools that tacho made; whatever else is there stays. */
void col_live_remove_pools(int folder);
int col_live_take_lock(struct col_live *live, struct tacho_error *err);

#endif
