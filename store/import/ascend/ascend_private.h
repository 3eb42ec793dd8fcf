/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/ascend/: what the timeline and the tables of an NPU say in the same
 * words.
 */
#ifndef STORE_IMPORT_ASCEND_ASCEND_PRIVATE_H
#define STORE_IMPORT_ASCEND_ASCEND_PRIVATE_H

#include "store/import/input/importer.h"

enum ascend_task { ASCEND_TASK_KERNEL, ASCEND_TASK_COPY, ASCEND_TASK_WAIT };

struct ascend_text {
    const char *text; /* not terminated */
    size_t bytes;
};

/* What a task of the NPU is, by its type ("AI_CORE", "NOTIFY_WAIT"), else by its name. */
enum ascend_task ascend_task_of(struct ascend_text type, struct ascend_text name);

/* The rank of the capture that a file belongs to; STORE_ABSENT: nothing says it. torch_npu and
 * MindSpore write profiler_info_RANK.json into the folder of a capture (*_ascend_pt, *_ascend_ms);
 * its name may say it too (rank3_..._ascend_pt). msprof writes `rank_id` into
 * PROF_X/device_N/info.json.N. */
int64_t ascend_rank_of(const char *path);
/* The number of the NPU that a file of PROF_X/device_N is of; 0: nothing says it. */
int64_t ascend_device_of(const char *path);

/* Steps of a capture, each as long as what belongs to it. One that is all zeros is empty. */
struct ascend_steps {
    struct ascend_step {
        int64_t line, index, start, end;
    } * step;
    size_t count, cap;
    struct imp_map places; /* line and index of a step -> its place, -1: none was left */
    int64_t beyond;
};

/* Widens step `index` of a line (a graph, a table) to an interval in ns; those come in any order.
 * 0 or TACHO_ENOMEM. */
int ascend_steps_note(struct ascend_steps *steps, int64_t line, int64_t index, int64_t start,
                      int64_t end);
/* Writes the steps of the line that has most time: a program may have a graph that only fills a
 * queue, or one that evaluates. */
int ascend_steps_write(struct ascend_steps *steps, struct imp_run *run, int64_t process,
                       const char *marked_by);
void ascend_steps_free(struct ascend_steps *steps);

#endif
