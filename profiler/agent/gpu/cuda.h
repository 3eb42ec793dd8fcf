/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/gpu/: recording of device work. From the bottom up: cupti_record.c
 * has the state and reads records, cupti_buffer.c has the file of buffers, cupti_find.c finds
 * libcupti, cupti_capture.c decides what is recorded and when, cupti.c has the subscription and the
 * flush thread, cuda.c is how all of this starts (injection, or the first call of NVTX or NCCL).
 *
 * All of this belongs to the process that started it. agent_process->cuda_live is 0 in every child,
 * however it was made: nothing of CUPTI is ever called there, because CUPTI hangs in forked
 * children.
 */
#ifndef TACHO_AGENT_CUDA_H
#define TACHO_AGENT_CUDA_H

#include "profiler/agent/core/agent.h"
#include "profiler/agent/gpu/cupti_abi.h"

#pragma GCC visibility push(hidden)

struct agent_cuda {
    struct cupti cupti;
    struct wire_gpu *gpu; /* the mapped file */
    struct wire_buffer *directory;
    struct wire_gpu_name *names;
    uint8_t *buffers;
    uint32_t number;                    /* N of gpu.PID.N */
    const struct wire_control *control; /* NULL: no windows */
    _Atomic uint32_t wake; /* futex: the flush thread has something to do, or must stop */
    _Atomic uint32_t stop;
    _Atomic uint32_t want_buffers;
    _Atomic uint32_t taken;                          /* another profiler has the records */
    _Atomic uint64_t requests, completions, records; /* ever */
    _Atomic uint32_t forcing;                        /* a forced flush is under way */
    _Atomic uint32_t graphs;                         /* a CUDA graph was launched */
    _Atomic uint32_t streams; /* that are in use: 0 = not known, 1, or 2 for more than one */
    /* Uses of other streams than the one that has the work, since the recording of waits was
     * switched off (WIRE_GPU_SECOND_STREAM), and CUPTI's time of the first of them. */
    _Atomic uint32_t strays;
    _Atomic uint64_t strays_from;
    uint32_t epoch; /* of the walk over a buffer, from 1; with the lock of walks */
    int (*driver_version)(int *version);
};
extern struct agent_cuda agent_cuda;

/* cupti_find.c. Loads libcupti and looks up its functions. False: *stage says what is missing; path
 * gets where it was found. A library that was rejected is not found again. */
bool agent_cupti_find(struct cupti *cupti, int driver_version, char *path, size_t size,
                      enum wire_gpu_stage *stage);
void agent_cupti_reject(struct cupti *cupti);
#define CUPTI_REJECTED_MOST 8u

/* cupti.c. Starts recording; the file exists. False: the stage and error are in the file. */
bool agent_cupti_start(void);
/* Before and after another profiler of the process takes CUPTI's records (torch.profiler). */
void agent_cupti_foreign(bool active);
/* The process ends in an orderly way: the last flush. */
void agent_cupti_end(void);

/* cupti_capture.c. Chooses the kinds and maps the control file. */
void agent_capture_open(void);
/* Settings that CUPTI wants before buffers are registered and kinds enabled. */
void agent_capture_configure(void);
/* Registers the buffers and enables the kinds if a window is open. 0, or CUPTI's result, with the
 * stage. */
int agent_capture_begin(enum wire_gpu_stage *stage);
void agent_capture_end(void);
bool agent_capture_enabled(void);
/* On the flush thread: ends the recording of events and synchronization once one stream was seen to
 * have all the work, and begins it again once more than one is in use. Calls CUPTI, so it must not
 * be called from CUPTI's callbacks. */
void agent_capture_waits(void);
/* Takes the records back from another profiler. */
void agent_capture_restart(void);
/* May steps run unrecorded? Not where that spoils the ids of graph launches that follow. */
bool agent_capture_may_pause(void);
/* Reads the control file and opens or closes the window. index: of the tacho.step that begins, -1 =
 * no step. */
void agent_cupti_window(int64_t index);
/* Is `word` one of those in $TACHO_GPU? */
bool agent_cupti_option(const char *word);
/* Is the step in a window? */
bool agent_cupti_wanted(uint64_t index);
/* While a step runs unrecorded, so that what recording costs can be measured. */
void agent_cupti_pause(bool paused);

/* nccl.c. A window of some steps or seconds opens or closes: collectives are followed to their true
 * end inside it. */
void agent_nccl_detail(bool on);

/* cupti_buffer.c. Makes gpu.PID.N; the pool of the process exists. */
bool agent_buffer_open(int driver_version);
/* Buffers are the agent's from now on: CUPTI's result. Records that CUPTI dropped before are not
 * the agent's loss, and are forgotten. */
int agent_buffer_register(void);
/* On the flush thread: backs more buffers when few are free. */
void agent_buffer_grow(void);
/* Has CUPTI written into any lent buffer since the last call? On the flush thread. */
bool agent_buffer_written(void);
/* How many buffers CUPTI has. */
uint32_t agent_buffer_lent(void);
/* Another profiler begins: notes the buffers that CUPTI has now. */
void agent_buffer_mark(void);
/* All that CUPTI had has come back: what was marked and has not come back went to the other
 * profiler, and is handed to the collector. */
void agent_buffer_reclaim(void);
/* Takes a reading of all clocks into the file. */
void agent_buffer_anchor(void);

/* cupti_record.c, with the lock of walks. Replaces the pointers of a record by ids that the
 * collector understands, notes the names of API functions and how many streams are in use, and
 * frees what CUPTI leaves to its client. */
void agent_record_note(uint8_t *record, size_t bytes);
/* Notes how long records of this kind are. */
void agent_record_size(const uint8_t *record, size_t bytes);

#pragma GCC visibility pop

#endif
